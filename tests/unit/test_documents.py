"""README and docs: examples run, links lead somewhere, files that are named exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from samples import campaign

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
TYPED = [
    *sorted((ROOT / "docs").glob("add-*.md")),
    *(ROOT / "docs" / name for name in ("code-generators.md", "schedules.md", "te.md", "tvm.md")),
]  # their blocks of Python are one program
# One takes a minute, for two programs of open sizes, which tests of sessions have in small.
EXAMPLES = [
    pytest.param(path, marks=pytest.mark.slow) if path.stem == "generate" else path
    for path in sorted((ROOT / "examples").glob("*.py"))
]

# A path of a file in the repository: a folder of it, and a name with an ending.
_NAMED = re.compile(
    r"`((?:core|dialects|docs|driver|frontends|passes|runtime|te|tests|tools|tvm|workers)/[\w./-]+\.(?:py|md|mlir|json))`"
)


def blocks(page: Path) -> str:
    """All blocks of Python of a page, one after the other."""
    return "\n\n".join(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))


def anchors(page: Path) -> set[str]:
    """What GitHub makes of a page's headings."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings}


def run_python(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a process that has one CPU, and so one compile worker: to start a second takes as long as what it would do."""
    words = [sys.executable, *arguments]
    cpus = sorted(os.sched_getaffinity(0))
    one = {cpus[os.getpid() % len(cpus)]}
    return subprocess.run(words, capture_output=True, text=True, preexec_fn=lambda: os.sched_setaffinity(0, one))


@pytest.mark.parametrize("page", TYPED, ids=lambda page: page.stem)
def test_the_example_of_a_page_runs(page: Path, tmp_path: Path):
    program = tmp_path / "typed.py"
    program.write_text(blocks(page))
    done = run_python(str(program))
    assert not done.returncode, done.stderr
    assert all(line in page.read_text() for line in done.stdout.splitlines()), "the page shows another output"


@campaign(
    "codegen_c",
    "compile_onnx",
    "custom_operator",
    "dynamic_shapes",
    "profile_kernels",
    "te_schedules",
    "te_tensorize",
    "tvm_script",
)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_an_example_runs(example: Path):
    done = run_python(str(example))
    assert not done.returncode, done.stderr
    assert done.stdout


def test_the_tour_shows_what_the_compiler_does():
    made = run_python(
        "-c",
        f"import sys; sys.path.insert(0, {str(ROOT / 'docs')!r}); import make_tour; print(make_tour.make_tour(), end='')",
    )
    assert not made.returncode, made.stderr
    assert made.stdout == (ROOT / "docs" / "tour.md").read_text(), "the compiler has changed: run `make tour`"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name}: {link}"
        assert not anchor or anchor in anchors(target), f"{page.name}: {link} has no such heading"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_files_that_are_named_exist(page: Path):
    named = {name for name in _NAMED.findall(page.read_text()) if "my_" not in name}
    assert not sorted(name for name in named if not (ROOT / name).exists())


def test_the_readme_takes_three_minutes():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150
