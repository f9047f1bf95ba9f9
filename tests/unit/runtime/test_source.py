"""Texts and files of a program: ``get_source`` and ``save``."""

import json

import networks
import numpy as np
import onnx
import pytest
from dense_model import dense, inputs
from handmade import affine_module

import tilewright as tw
from tilewright.dialects import ir
from tilewright.dialects.context import make_context

MARKS = {
    "linalg": "linalg.generic",
    "kernels": "func.func",
    "llvm-dialect": "llvm.func",
    "llvm": "define ",
    "asm": ".globl",
    "json": '"fingerprint"',
}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    made = tmp_path_factory.mktemp("source") / "dense.onnx"
    onnx.save(dense(), made)
    return made


def compiled(source, **options) -> tw.Module:
    return tw.compile(source, input_shapes={"x": (2, 16), "scale": (2, 1)}, workers=0, cache=False, **options)


@pytest.fixture(scope="module")
def module(path) -> tw.Module:
    return compiled(path)


@pytest.mark.parametrize("kind", MARKS)
def test_every_stage_has_a_text(module, kind):
    assert MARKS[kind] in module.get_source(kind)


@pytest.mark.parametrize(
    "name, mark",
    [("a.ll", "define "), ("a.s", ".globl"), ("a.mlir", "linalg"), ("a.llvm.mlir", "llvm.func"), ("a.json", "{")],
)
def test_saves_by_the_suffix(module, tmp_path, name, mark):
    written = module.save(tmp_path / name)
    assert written == tmp_path / name and mark in written.read_text()


def test_a_format_goes_before_the_suffix(module, tmp_path):
    assert json.loads(module.save(tmp_path / "a.txt", "json").read_text())["name"] == "dense"


def test_saves_objects_and_libraries(module, tmp_path):
    assert module.save(tmp_path / "a.o").read_bytes().startswith(b"\x7fELF")
    assert (tmp_path / "a.safetensors").exists()
    loaded = tw.load_module(module.save(tmp_path / "a.so"))
    np.testing.assert_array_equal(loaded(*inputs(2))[0], module(*inputs(2))[0])


def test_bytes_have_a_source_and_open_programs_a_part_of_it(path):
    module = tw.compile(path.read_bytes(), workers=0, cache=False)
    assert "linalg.generic" in module.get_source("linalg")
    assert "func.func" in module.get_source("kernels")


def test_the_cache_takes_no_source_away(path, tmp_path):
    for _ in range(2):
        module = tw.compile(path, workers=0, cache=tmp_path)
        assert "linalg.generic" in module.get_source("linalg")


def test_a_file_that_changed_is_no_source(path, tmp_path):
    own = tmp_path / "own.onnx"
    own.write_bytes(path.read_bytes())
    module = compiled(own)
    own.write_bytes(path.read_bytes() + b"\x00")
    with pytest.raises(tw.CompileError, match=r"own.onnx is not there, or not as it was"):
        module.get_source("llvm")


def test_a_built_model_has_all_but_its_own_text():
    with make_context(), ir.Location.unknown():
        module = tw.build(networks.residual_block(), workers=0, cache=False)
    assert "define " in module.get_source("llvm")
    with pytest.raises(tw.CompileError, match="was built of a Model"):
        module.get_source("linalg")


@pytest.mark.parametrize(
    "act, message",
    [
        (lambda m, p: m.get_source("asm"), "a program that was loaded has no 'asm', only 'json'"),
        (lambda m, p: m.get_source("wasm"), "no source of kind 'wasm': choose from linalg, kernels"),
        (lambda m, p: m.save(p / "a.txt"), "a program's name ends with one of .linalg.mlir"),
        (lambda m, p: m.save(p / "none" / "a.json"), "cannot write .*a.json: No such file"),
    ],
)
def test_refuses_in_one_line(tmp_path, act, message):
    with pytest.raises(tw.TilewrightError, match=message) as info:
        act(affine_module(1), tmp_path)
    assert "\n" not in str(info.value)
    assert not list(tmp_path.iterdir())
