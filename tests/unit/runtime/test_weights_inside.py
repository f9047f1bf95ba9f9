"""Weights as a part of the code: one file, used where they lie."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from cache_case import built, check, model
from handmade import affine_module

import tilewright as tw
from tilewright.core.program import WEIGHTS_SECTION
from tilewright.driver import api, assembly
from tilewright.runtime.artifact import elf, on_disk


@pytest.fixture(scope="module")
def module() -> tw.Module:
    return built(model(), cache=False, weights="inside", num_threads=1)


@pytest.mark.parametrize("name", ["net.so", "net.tw"])
def test_it_is_one_file_and_is_exported_again(module: tw.Module, tmp_path: Path, name: str) -> None:
    check(module)
    loaded = tw.load_module(module.export_library(tmp_path / name), verify=True)
    check(loaded)
    check(tw.load_module(loaded.export_library(tmp_path / f"again_{name}")))
    assert list(tmp_path.rglob("*.safetensors")) == []


def test_they_lie_in_the_code_where_kernels_want_them(module: tw.Module, tmp_path: Path) -> None:
    loaded = tw.load_module(module.export_library(tmp_path / "net.so"))
    weights = loaded._program.weights
    assert weights is not None and not weights.in_file
    assert weights.data.ctypes.data % 64 == 0 and not weights.data.flags.writeable
    assert elf.read_section((tmp_path / "net.so").read_bytes(), WEIGHTS_SECTION) == weights.data.tobytes()
    with open("/proc/self/maps") as maps:
        [line] = [line for line in maps if _holds(line, weights.data.ctypes.data)]
    assert "net.so" in line and "w" not in line.split()[1]


def _holds(line: str, address: int) -> bool:
    begin, end = (int(word, 16) for word in line.split()[0].split("-"))
    return begin <= address < end


def test_they_outlive_the_module(module: tw.Module, tmp_path: Path) -> None:
    main = tw.load_module(module.export_library(tmp_path / "net.so"))["main"]
    x, y, again = np.ones((4, 32), np.float32), np.empty((4, 48), np.float32), np.empty((4, 48), np.float32)
    main(x, y)
    module["main"](x, again)
    np.testing.assert_array_equal(y, again)


def test_an_object_has_them_too(module: tw.Module, tmp_path: Path) -> None:
    code, weights = module._program.code, module._program.weights
    path = on_disk.save_object(tmp_path / "net.o", code, weights)
    assert [file.name for file in tmp_path.iterdir()] == ["net.o"]
    _, manifest = on_disk.read_program(path, sealed=False)
    assert elf.read_section(path.read_bytes(), WEIGHTS_SECTION) is not None
    assert manifest.weights_inside == len(elf.read_section(path.read_bytes(), WEIGHTS_SECTION) or b"")


def test_all_programs_share_them(tmp_path: Path) -> None:
    options: Any = {"weights": "inside", "specialize": [{"x": (4, 32)}], "workers": 0, "num_threads": 1}
    made = tw.compile(model(), "x86 -mcpu=x86-64-v2,x86-64-v3", cache=False, **options)
    loaded = tw.load_module(made.export_library(tmp_path / "net.so"), variant="x86-64-v2")
    x = np.random.default_rng(0).standard_normal((4, 32), np.float32)
    np.testing.assert_allclose(
        loaded(x)[0], loaded(x[:3])[0].tolist() + loaded(x[3:])[0].tolist(), rtol=1e-5, atol=1e-6
    )


def test_the_cache_has_them(tmp_path: Path) -> None:
    first, second = (built(model(), cache=tmp_path / "cache", weights="inside") for _ in range(2))
    beside = built(model(), cache=tmp_path / "cache")
    assert (first.report.cached, second.report.cached, beside.report.cached) == (False, True, False)
    check(second)
    check(tw.load_module(second.export_library(tmp_path / "net.so")))
    assert beside.manifest.weights_inside == 0


def test_a_program_without_weights_has_no_section() -> None:
    plain = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 18]> g (float[4] x) => (float[4] y) {y = Tanh(x)}'
    )
    made = tw.compile(plain, weights="inside", workers=0, cache=False)
    assert made.manifest.weights_inside == 0 and made._program.weights is None
    np.testing.assert_allclose(made(np.ones(4, np.float32))[0], np.tanh(np.ones(4)), rtol=1e-6)


def test_a_changed_section_is_damage(module: tw.Module, tmp_path: Path) -> None:
    folder = module.export_library(tmp_path / "net.tw")
    [file] = [file for file in folder.glob("*.o") if elf.read_section(file.read_bytes(), WEIGHTS_SECTION)]
    old = file.read_bytes()
    at = old.index(b"data_offsets")
    file.write_bytes(old[:at] + b"X" + old[at + 1 :])
    with pytest.raises(tw.ArtifactError, match=f"damaged: '{file.name}'"):
        tw.load_module(folder)


@pytest.mark.parametrize("change", [1, 64])
def test_others_than_the_program_says_are_refused(module: tw.Module, change: int) -> None:
    said = replace(module.manifest, weights_inside=module.manifest.weights_inside + change)
    with pytest.raises(tw.ArtifactError, match=r"^m has \d+ bytes of weights inside, not \d+ as it says"):
        on_disk.assemble(module._program.library, module._program.code, said, None, "m")


def test_a_program_without_any_cannot_say_that_it_has_some() -> None:
    made = affine_module(1)
    with pytest.raises(tw.ArtifactError, match="has 0 bytes of weights inside, not 1 as it says"):
        on_disk.assemble(made._program.library, made._program.code, replace(made.manifest, weights_inside=1), None, "m")


def test_large_ones_and_other_places_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembly, "MOST_INSIDE", 1 << 10)
    with pytest.raises(tw.CompileError, match=r"the weights have \d+ bytes, at most 0 MiB go inside"):
        built(model(), cache=False, weights="inside")
    with pytest.raises(tw.CompileError, match="weights is 'elsewhere': choose from beside, inside"):
        api.make_options(weights="elsewhere")  # type: ignore[arg-type]
    with pytest.raises(tw.CompileError, match="weights inside need the executor 'objects'"):
        api.make_options(executor="engine", weights="inside")
