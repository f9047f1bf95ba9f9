"""Code for AArch64, made on another machine: its CPUs, its instructions, what is written, and how this machine refuses it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import c_programs
import numpy as np
import onnx
import pytest
from llvm_cpus import help_of_llvm, of_llvm
from onnx import numpy_helper

import tilewright as tw
from tilewright.core import cpus
from tilewright.core.target import DotProduct, Target
from tilewright.dialects import codegen
from tilewright.driver import api
from tilewright.runtime.artifact import elf, on_disk, shared
from tilewright.runtime.artifact.manifest import Manifest
from tilewright.runtime.c import archive
from tilewright.tools import compile as compile_tool

pytestmark = pytest.mark.skipif(os.uname().machine == "aarch64", reason="this machine is no other one")

PRELUDE = '<ir_version: 9, opset_import: ["": 18]> net '
MODELS = {
    "conv": "(float[1,8,12,12] x) => (float[1,32,12,12] y) { y = Conv<pads = [1, 1, 1, 1]>(x, w_32_8_3_3) }",
    "winograd": "(float[1,64,28,28] x) => (float[1,64,28,28] y) { y = Conv<pads = [1, 1, 1, 1]>(x, w_64_64_3_3) }",
    "depthwise": "(float[1,32,9,9] x) => (float[1,32,9,9] y) { y = Conv<group = 32, pads = [1,1,1,1]>(x, w_32_1_3_3) }",
    "gemm": "(float[16,48] x) => (float[16,40] y) { s = MatMul(x, w_48_40)\n y = Relu(s) }",
    "softmax": "(float[16,100] x) => (float[16,100] y) { y = Softmax(x) }",
    "norm": "(float[16,96] x) => (float[16,96] y) { y = LayerNormalization(x, w_96) }",
    "pool": """(float[1,16,8,8] x) => (float[1,16,4,4] y)
        { s = Conv(x, w_16_16_1_1)\n y = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(s) }""",
    "gelu": "(float[16,96] x) => (float[16,96] y) { s = Erf(x)\n y = Mul(s, x) }",
    "transpose": "(float[64,48] x) => (float[48,64] y) { y = Transpose(x) }",
    "attention": """(float[2,32,16] x, float[2,16,48] k, float[2,48,16] v) => (float[2,32,16] y)
        { s = MatMul(x, k)\n p = Softmax(s)\n y = MatMul(p, v) }""",
    "int8": "(uint8[16,64] x) => (int32[16,48] y) { y = MatMulInteger(x, b_64_48) }",
}
# What only vectors of the CPU's own kind have.
SIGNS = dict.fromkeys(MODELS, r"\tfmla\tv\d+\.4s") | {
    "pool": r"\tfmax\tv\d+\.4s",
    "transpose": r"\t(zip|trn|uzp)\d\tv",
}
SIGNS["norm"] = r"\tfmul\tv\d+\.4s"  # no product of it is added up
SIGNS["int8"] = r"\tsdot\tv\d+\.4s"


def network(text: str) -> onnx.ModelProto:
    """A model; its weights are the operands that are called ``w`` (floats) or ``b`` (bytes) and their shapes."""
    model = onnx.parser.parse_model(PRELUDE + text)
    for name in sorted(set(re.findall(r"\b[wb](?:_\d+)+", text))):
        shape = [int(word) for word in name.split("_")[1:]]
        rng = np.random.default_rng(len(name))
        data = rng.standard_normal(shape, np.float32) if name[0] == "w" else rng.integers(-128, 128, shape, np.int8)
        model.graph.initializer.append(numpy_helper.from_array(data, name))
    return model


def compiled(name: str, folder: Path, cpu: str = "cortex-a76") -> tuple[Path, Manifest]:
    """A model as a static library, and what it says of itself."""
    options = api.make_options(f"aarch64 -mcpu={cpu}")
    path, manifest, report = api.compile_to_file(network(MODELS[name]), folder / "libnet.a", options=options)
    assert not report.notes
    return path, manifest


def disassembled(path: Path) -> str:
    return archive.run_llvm_tool("llvm-objdump", "-d", "--no-show-raw-insn", path)


@pytest.mark.parametrize("name", MODELS)
def test_every_family_of_kernels_becomes_vectors(name, tmp_path):
    path, _ = compiled(name, tmp_path)
    heads = archive.run_llvm_tool("llvm-readelf", "-h", path)
    assert set(re.findall(r"Machine: +(\S.*)", heads)) == {"AArch64"}
    text = disassembled(path)
    assert re.search(SIGNS[name], text)
    assert not re.search(r"\tz\d+\.[bhsd]", text), "vectors of open length"


@pytest.mark.parametrize("cpu, sign", [("neoverse-n2", "usdot"), ("neoverse-n1", "sdot"), ("cortex-a72", "mla")])
def test_products_of_bytes_use_what_the_cpu_has(cpu, sign, tmp_path):
    assert Target.parse(f"aarch64 -mcpu={cpu}").dot_product == DotProduct(4, 1 if sign == "mla" else 4, sign)
    text = disassembled(compiled("int8", tmp_path, cpu)[0])
    assert re.search(rf"\t{sign}\tv\d+\.4s", text)
    assert sign != "mla" or "dot\t" not in text


def test_kernels_that_flush_denormals_set_the_mode_and_give_it_back(tmp_path):
    assert len(re.findall(r"\tmsr\tFPCR", disassembled(compiled("softmax", tmp_path)[0]), re.I)) == 2


CC = shared.find_compiler("aarch64")
QEMU = next(filter(None, map(shutil.which, ["qemu-aarch64", "qemu-aarch64-static"])), None)


@pytest.mark.skipif(not CC or not QEMU, reason="needs qemu-aarch64, and a compiler for AArch64")
@pytest.mark.parametrize("cpu", ["generic", "neoverse-n1", "neoverse-n2"])
@pytest.mark.parametrize("name", MODELS)
def test_an_emulator_gives_the_answer_of_this_machine(name, cpu, tmp_path):
    assert CC and QEMU
    _, manifest = compiled(name, tmp_path, cpu)
    program = c_programs.build_for_aarch64(tmp_path, manifest, CC)
    lib = tw.compile(network(MODELS[name]))
    rng = np.random.default_rng(3)
    inputs = [rng.uniform(0, 5, info.static_shape).astype(info.dtype) for info in lib.inputs]
    for i, array in enumerate(inputs):
        array.tofile(tmp_path / f"in{i}")
    files = [tmp_path / f"in{i}" for i in range(len(inputs))]
    done = subprocess.run([QEMU, "-cpu", "max", program, tmp_path / "libnet.safetensors", *files, tmp_path / "out"])
    assert done.returncode == 0
    [want] = lib(*inputs)
    got = np.fromfile(tmp_path / "out", want.dtype).reshape(want.shape)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_a_target_is_any_cpu_or_a_named_one():
    made = Target.parse("aarch64")
    assert (made.cpu, made.lanes, made.registers, made.features, made.has_fma) == ("generic", 4, 32, (), True)
    named = Target.parse("aarch64 -mcpu=apple-m1")
    assert (named.features, named.l1_bytes) == (("dotprod",), 128 << 10)
    assert Target.parse("aarch64 -mcpu=cortex-a72 -mattr=+i8mm").features == ("dotprod", "i8mm")
    for target in (made, named):
        assert Target.parse(str(target)) == target
    assert codegen.function_attributes(named) == {
        "target-cpu": "generic",
        "tune-cpu": "apple-m1",
        "target-features": "+dotprod",
    }


@pytest.mark.parametrize(
    "text, message",
    [
        ("aarch64 -mcpu=cortex-a67", "unknown CPU 'cortex-a67' in target .*: the known ones are cortex-a"),
        ("aarch64 -mcpu=haswell", "unknown CPU 'haswell'"),
        ("aarch64 -mcpu=native", "unknown CPU 'native'"),
        ("aarch64 -mattr=+sve", r"unknown feature '\+sve' in target .*: the known ones are dotprod, i8mm"),
        ("aarch64 -mattr=+avx", r"unknown feature '\+avx'"),
    ],
)
def test_refuses_in_one_line_what_is_not_known(text, message):
    with pytest.raises(tw.TargetError, match=f"^{message}") as info:
        Target.parse(text)
    assert "\n" not in str(info.value)


def test_this_machine_refuses_to_run_it(tmp_path, monkeypatch):
    monkeypatch.setattr(on_disk, "find_compiler", lambda machine: None)
    options = api.make_options("aarch64")
    path, _, _ = api.compile_to_file(network(MODELS["gemm"]), tmp_path / "net.so", options=options)
    assert path == tmp_path / "net.tw"
    with pytest.raises(tw.ArtifactError, match=r"net\.tw: compiled for target 'aarch64.*', and this machine is x86_64"):
        tw.load_module(path)
    with pytest.raises(tw.TargetError, match=r"^code for target 'aarch64.*' cannot run here: this machine is x86_64"):
        tw.compile(network(MODELS["gemm"]), target="aarch64")


def test_an_object_needs_no_compiler_for_the_other_machine(tmp_path, monkeypatch):
    for module in (api, on_disk):
        monkeypatch.setattr(module, "find_compiler", lambda machine: None)
    onnx.save(network(MODELS["gemm"]), tmp_path / "net.onnx")
    assert compile_tool.main([str(tmp_path / "net.onnx"), "--target", "aarch64", "--emit", "obj", "--quiet"]) == 0
    assert elf.read_machine((tmp_path / "net.o").read_bytes()) == "aarch64"
    assert "fmla" in disassembled(tmp_path / "net.o")
    assert (tmp_path / "net.safetensors").exists()


def test_the_compiler_of_the_other_machine_links(monkeypatch):
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(shared.shutil, "which", lambda name: f"/bin/{name}")
    assert shared.find_compiler("aarch64") == ["/bin/aarch64-linux-gnu-gcc"]
    assert shared.find_compiler("x86_64") == shared.find_compiler() == ["/bin/cc"]
    monkeypatch.setattr(shared.shutil, "which", lambda name: None)
    monkeypatch.setattr(shared.importlib.util, "find_spec", lambda name: name)
    words = ["-m", "ziglang", "cc", "-target", "aarch64-linux-gnu"]
    assert shared.find_compiler("aarch64") == [sys.executable, *words]


def test_llvm_says_the_same_of_every_cpu():
    assert {name for name in help_of_llvm(cpus.AARCH64)[0] if "_" not in name} == set(cpus.AARCH64.known)
    for name, features in cpus.AARCH64.known.items():
        assert set(features) == of_llvm(name, known=cpus.AARCH64) & set(cpus.AARCH64.features), name
