"""The project's own rules: the package list, the commands, and what `import tilewright` may import."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.tools import cli, networks

ROOT = Path(__file__).resolve().parents[2]


def test_the_package_list_is_the_folders_with_an_init_file():
    section = re.search(r"^packages = \[(.*?)\]", (ROOT / "pyproject.toml").read_text(), re.S | re.M)
    assert section is not None
    listed = re.findall(r'"(tilewright[\w.]*)"', section[1])
    inits = (p.relative_to(ROOT).parent for p in ROOT.glob("[a-z]*/**/__init__.py"))
    folders = {".".join(("tilewright", *p.parts)) for p in inits if p.parts[0] not in ("tests", "build", "demo")}
    assert sorted(listed) == sorted({"tilewright"} | folders)


def test_no_command_bears_the_name_of_a_standard_module():
    ours = {p.stem for p in (ROOT / "tools").glob("*.py")} - {"__init__"}
    assert not ours & set(sys.stdlib_module_names)


def test_import_tilewright_imports_no_mlir():
    code = "import sys, tilewright; sys.exit(any(m.split('.')[0] in ('mlir', 'onnx') for m in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_command_has_its_file():
    assert all((ROOT / "tools" / f"{cli.find_module(name)}.py").is_file() for name in cli.COMMANDS)


def test_make_bench_measures_every_network():
    [listed] = re.findall(r"^NETWORKS := (.*)$", (ROOT / "Makefile").read_text(), re.M)
    assert tuple(listed.split()) == networks.NAMES


@pytest.mark.parametrize("argv", [[], ["frobnicate"]])
def test_an_unknown_command_is_one_line_and_exit_code_2(argv, capsys):
    assert cli.main(argv) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and "compile" in err


def test_help_names_every_command(capsys):
    assert cli.main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in cli.COMMANDS)


def test_the_demo_installs_no_more_than_it_needs(tmp_path):
    nothing = [f"{name}={tmp_path}/{name}" for name in ("PROGRAM", "STAMP", "BENCH_STAMP")]
    done = subprocess.run(["make", "-n", "-C", ROOT, "demo", *nothing], capture_output=True, text=True, check=True)
    installed = [line.split(" -e ")[1] for line in done.stdout.splitlines() if "pip install" in line]
    assert installed == ["."]
