"""One program for several CPUs: which variant runs, what each holds, what is refused."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cache_case import model, weight
from cpu_targets import targets
from samples import campaign

import tilewright as tw
from tilewright.core.cpus import X86
from tilewright.core.target import Target
from tilewright.driver import api
from tilewright.passes.infra.instruments import DumpIR
from tilewright.runtime.artifact import on_disk
from tilewright.runtime.artifact.variants import CHOICE

CPUS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")
TARGET = f"x86 -mcpu={','.join(CPUS)}"


def is_right(module: tw.Module, rows: int) -> None:
    x = np.random.default_rng(rows).standard_normal((rows, 32), np.float32)
    np.testing.assert_allclose(module(x)[0], np.tanh(x @ weight()), rtol=1e-5, atol=1e-6)


@pytest.fixture(scope="module")
def module() -> tw.Module:
    sizes: Any = [{"x": (4, 32)}]
    return tw.compile(model(), TARGET, specialize=sizes, workers=0, num_threads=1, cache=False)


@pytest.fixture(scope="module")
def path(module: tw.Module, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return module.export_library(tmp_path_factory.mktemp("variants") / "net.so")


def pretend(monkeypatch: pytest.MonkeyPatch, cpu: str) -> None:
    """Make this machine one that has what the CPU of this name has."""
    monkeypatch.setattr("tilewright.core.target.host_features", lambda: X86.known[cpu])


@pytest.mark.parametrize("target", targets(*CPUS))
def test_all_run_and_agree(path: Path, target: str) -> None:
    loaded = tw.load_module(path, variant=target.partition("=")[2])
    assert loaded.manifest.target == target
    assert all(kernel.name.endswith(target[-9:].replace("-", "_")) for kernel in loaded.manifest.kernels)
    for rows in (4, 3, 1):  # of a program of their own, and of that for all sizes
        is_right(loaded, rows)


@campaign("nehalem-0", "znver4-2")
@pytest.mark.parametrize(("cpu", "taken"), [("nehalem", 0), ("haswell", 1), ("znver2", 1), ("znver4", 2)])
def test_the_last_that_the_cpu_has_all_features_of_is_taken(
    path: Path, monkeypatch: pytest.MonkeyPatch, cpu: str, taken: int
) -> None:
    pretend(monkeypatch, cpu)
    assert tw.load_module(path).manifest.target == f"x86 -mcpu={CPUS[taken]}"


def test_the_environment_names_one(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOICE, "x86-64-v2")
    assert tw.load_module(path).manifest.target == "x86 -mcpu=x86-64-v2"
    monkeypatch.setenv(CHOICE, "pentium")
    with pytest.raises(
        tw.ArtifactError, match=r"net.so: there is no variant 'pentium'; those of the program are 'x86 -m"
    ):
        tw.load_module(path)


def test_a_cpu_that_fits_none_is_told_what_each_needs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, "core2")
    with pytest.raises(tw.ArtifactError, match=r"'x86 -mcpu=x86-64-v2' needs popcnt, sse4.1, sse4.2; 'x86 .*v3' needs"):
        tw.load_module(path)
    with pytest.raises(tw.ArtifactError, match=r"for target 'x86 -mcpu=x86-64-v3', a CPU with avx, "):
        tw.load_module(path, variant="x86-64-v3")


def test_what_is_equal_is_there_once(module: tw.Module, path: Path) -> None:
    _, whole = on_disk.read_program(path)
    assert module.report.variants == [each.target for each in whole.by_target] == [f"x86 -mcpu={cpu}" for cpu in CPUS]
    assert module.report.specializations == ["x:4,32"]
    names = [kernel.name for each in whole.by_target for program in each.programs for kernel in program.kernels]
    assert len(set(names)) == module.report.kernels
    narrow, medium, _ = (each.weights for each in map(whole.alone, range(3)))
    assert {info.name for info in narrow} and {info.name for info in medium}
    assert module.report.weight_bytes == sum(info.nbytes for info in whole.weights)


def test_it_is_exported_again_with_all(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = tw.load_module(path)
    pretend(monkeypatch, "nehalem")
    again = tw.load_module(loaded.export_library(tmp_path / "again.so"))
    assert again.manifest.target == "x86 -mcpu=x86-64-v2"
    is_right(again, 4)


@pytest.mark.skipif(shutil.which("objdump") is None, reason="objdump is not installed")
def test_each_has_the_instructions_of_its_cpu(module: tw.Module, tmp_path: Path) -> None:
    folder = module.export_library(tmp_path / "x.tw")
    wide = re.compile(r"%[yz]mm|\tv[a-z]")
    seen = {cpu: False for cpu in CPUS}
    for file in folder.glob("*.o"):
        text = subprocess.run(["objdump", "-d", str(file)], check=True, capture_output=True, text=True).stdout
        for cpu in CPUS:
            if cpu.replace("-", "_") in text:
                seen[cpu] |= bool(wide.search(text))
    assert seen == {"x86-64-v2": False, "x86-64-v3": True, "x86-64-v4": True}


def test_the_cache_has_all_of_them(tmp_path: Path) -> None:
    options: Any = {"input_shapes": {"x": (4, 32)}, "workers": 0, "cache": tmp_path}
    target = "x86 -mcpu=x86-64-v2,x86-64-v3"
    first, second = tw.compile(model(), target, **options), tw.compile(model(), target, **options)
    alone = tw.compile(model(), "x86 -mcpu=x86-64-v2", **options)
    assert (first.report.cached, second.report.cached, alone.report.cached) == (False, True, False)
    assert second.report.variants == first.report.variants and alone.report.variants == []
    for each in (first, second, alone):
        is_right(each, 4)


def test_a_context_sees_the_passes_of_each(tmp_path: Path) -> None:
    with tw.PassContext(instruments=[DumpIR(tmp_path)]):
        tw.compile(model(), "x86 -mcpu=x86-64-v2,x86-64-v3", {"x": (4, 32)}, workers=0, cache=False)
    dumped = [str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*") if file.is_file()]
    assert all(any(cpu in name for name in dumped) for cpu in CPUS[:2])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x86 -mcpu=haswell,haswell", "CPU 'haswell' is given twice"),
        ("x86 -mcpu=haswell,", "an empty name in target"),
        ("x86 -mcpu=,", "an empty name in target"),
        ("x86 -mcpu=", "unknown option '-mcpu='"),
        ("x86 -mcpu=haswell,cortex-a72", "unknown CPU 'cortex-a72'"),
    ],
)
def test_lists_that_say_nothing_are_refused(text: str, message: str) -> None:
    with pytest.raises(tw.TargetError, match=message) as info:
        Target.parse_all(text)
    assert "\n" not in str(info.value)


def test_a_list_keeps_its_order_and_the_changes() -> None:
    found = Target.parse_all("x86 -mcpu=haswell,nehalem -mattr=-popcnt")
    assert list(map(str, found)) == ["x86 -mcpu=haswell -mattr=-popcnt", "x86 -mcpu=nehalem -mattr=-popcnt"]
    assert not any("popcnt" in target.features for target in found)
    assert Target.parse_all("x86") == (Target.parse("x86"),)


def test_what_takes_one_target_refuses_several() -> None:
    with pytest.raises(tw.TargetError, match="names several CPUs, which compile takes"):
        Target.parse(TARGET)
    with pytest.raises(tw.TargetError, match="an engine is for one target, 3 are given"):
        api.make_options(TARGET, executor="engine")
    with pytest.raises(tw.TargetError, match="--emit asm is for one target, 3 are given"):
        api.emit(model(), "asm", options=api.make_options(TARGET))


def test_compiling_for_others_alone_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, "core2")
    with pytest.raises(tw.TargetError, match="this CPU lacks"):
        tw.compile(model(), TARGET, {"x": (4, 32)}, workers=0, cache=False)
