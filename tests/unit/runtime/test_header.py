"""Compiled programs without Python: the header, the C program that comes with it, and how both refuse."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import c_programs
import numpy as np
import onnx
import pytest
from cpu_targets import targets
from onnx import helper, numpy_helper

import tilewright as tw
from tilewright.core.sizes import Sym
from tilewright.driver import api
from tilewright.runtime.artifact import c_text
from tilewright.runtime.artifact.variants import CHOICE
from tilewright.runtime.c import header, tensor
from tilewright.tools import header as header_tool

README = Path(__file__).parents[3] / "README.md"

W = np.random.default_rng(0).standard_normal((48, 40)).astype(np.float32)
X = np.random.default_rng(1).standard_normal((8, 48)).astype(np.float32)


def save(path: Path, extent: int | str = 8, weight: np.ndarray = W) -> Path:
    """``s = x @ w``, ``relu(s)``; the names are none of C's."""
    nodes = [helper.make_node("MatMul", ["in/x:0", "w"], ["int"], "mul"), helper.make_node("Relu", ["int"], ["INT"])]
    infos = [
        helper.make_tensor_value_info(name, 1, [extent, n]) for name, n in [("in/x:0", 48), ("int", 40), ("INT", 40)]
    ]
    graph = helper.make_graph(nodes, "net", infos[:1], infos[1:], [numpy_helper.from_array(weight, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), path)
    return path


def compiled(folder: Path, name: str, **options) -> Path:
    path, _, _ = api.compile_to_file(str(save(folder / f"{name}.onnx")), folder / f"{name}.so", **options)
    return path


def example(program: Path, *options: str) -> Path:
    """The example of a program, built beside it."""
    source = program.with_suffix(".c")
    assert header_tool.main([str(program), "--example", str(source), "--quiet", *options]) == 0
    return c_programs.build(source, program.with_suffix(""))


def test_the_readmes_lines_run_as_they_are_printed(tmp_path):
    c_programs.require_compiler()
    block = README.read_text().split("From C, without Python:\n\n")[1].split("\n\n")[0]
    compiled(tmp_path, "resnet18")
    environment = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}  # and no LD_LIBRARY_PATH
    done = subprocess.run(
        ["sh", "-ec", block], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == [
        "resnet18.h", "main.c", "int float32[8,40]", "INT float32[8,40]"
    ]  # fmt: skip


def test_the_flags_build_a_static_library_into_a_program(tmp_path, capsys):
    c_programs.require_compiler()
    api.compile_to_file(str(save(tmp_path / "net.onnx")), tmp_path / "libnet.a")
    assert header_tool.main(["--link-flags", "--json"]) == 0
    flags = json.loads(capsys.readouterr().out)["flags"]
    assert header_tool.main(["--link-flags"]) == 0
    assert capsys.readouterr().out == f"{shlex.join(flags)}\n"
    (tmp_path / "use.c").write_text(
        '#include "libnet.h"\nint main(int n, char **a) { char e[99]; net_t *m = net_load(a[n - 1], 1, e, 99); '
        "return puts(m ? net_program.name : e), net_free(m), !m; }"
    )
    command = ["cc", "-std=c99", "use.c", "libnet.a", *flags, "-o", "use"]
    subprocess.run(command, cwd=tmp_path, check=True)
    done = subprocess.run(["./use", "libnet.safetensors"], cwd=tmp_path, capture_output=True, text=True, env={})
    assert (done.returncode, done.stdout) == (0, "net\n")


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> Path:
    return compiled(tmp_path_factory.mktemp("header"), "net")


@pytest.fixture(scope="module")
def built(program) -> Path:
    return example(program)


def test_the_example_gives_the_answer_of_python(program, built, tmp_path):
    X.tofile(tmp_path / "x")
    weights = program.with_suffix(".safetensors")
    done = c_programs.run(built, program, weights, *(tmp_path / name for name in ("x", "s", "y")))
    assert (done.returncode, done.stderr) == (0, "")
    for name, want in zip(("s", "y"), tw.load_module(program)(X), strict=True):
        np.testing.assert_array_equal(np.fromfile(tmp_path / name, np.float32).reshape(want.shape), want)
    lines = done.stdout.splitlines()
    assert [line.split(":")[0] for line in lines] == ["int float32[8,40]", "INT float32[8,40]"]
    assert len(lines[0].split()) == 2 + 8 + 1


def test_a_program_with_products_of_bytes_runs_in_a_process_of_its_own(tmp_path):
    """On a CPU with AMX it asks Linux for the registers that its matrices lie in; else it would be ended."""
    model = onnx.parser.parse_model("""
        <ir_version: 9, opset_import: ["": 18]>
        net (uint8[20, 64] x) => (int32[20, 32] y) { y = MatMulInteger(x, w) }""")
    random = np.random.default_rng(0)
    weight = random.integers(-128, 128, (64, 32)).astype(np.int8)
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    program = tmp_path / "bytes.so"
    tw.compile(model).export_library(program)
    x = random.integers(0, 256, (20, 64)).astype(np.uint8)
    x.tofile(tmp_path / "x")
    files = [program, program.with_suffix(".safetensors"), tmp_path / "x", tmp_path / "y"]
    done = c_programs.run(example(program), *files)
    assert (done.returncode, done.stderr) == (0, "")
    want = x.astype(np.int32) @ weight.astype(np.int32)
    np.testing.assert_array_equal(np.fromfile(tmp_path / "y", np.int32).reshape(want.shape), want)


def _damage(folder: Path, program: Path, how: str) -> tuple[Path, Path]:
    """Copies of a program and its weights, of which one is not as it should be."""
    library, weights = folder / "net.so", folder / "net.safetensors"
    shutil.copy(program, library)
    data = program.with_suffix(".safetensors").read_bytes()
    if how == "truncated":
        weights.write_bytes(data[:-64])
    elif how == "of another model":
        weights.write_bytes(data.replace(data[51:115], b"0" * 64))
    elif how == "no library":
        library.write_bytes(b"no library")
    elif how == "another library":
        shutil.copy(compiled(folder, "other", options=api.make_options(opt_level=1)), library)
    if how not in ("missing", "truncated", "of another model"):
        weights.write_bytes(data)
    return library, weights


@pytest.mark.parametrize(
    "how, message",
    [
        ("missing", "cannot read the weights file .*net.safetensors: No such file"),
        ("truncated", r"net.safetensors is truncated: it has \d+ bytes of \d+"),
        ("of another model", "has the weights of another program: copy or compile both files together"),
        ("no library", "cannot load .*net.so: .*"),
        ("another library", "net: the code is not that of this header: make the header again"),
    ],
)
def test_files_that_do_not_fit_are_refused_in_one_line(how, message, program, built, tmp_path):
    done = c_programs.run(built, *_damage(tmp_path, program, how))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert re.match(f"error: .*{message}", done.stderr)


def test_a_cpu_that_lacks_a_feature_is_told(tmp_path):
    program = compiled(tmp_path, "foreign", options=api.make_options("x86 -mattr=+xop"))
    done = c_programs.run(example(program), program, program.with_suffix(".safetensors"))
    assert done.returncode == 1
    assert "compiled for target 'x86 -mattr=+xop', a CPU with " in done.stderr and "lacks" in done.stderr


THREADS = """
#include "net.h"
#include <pthread.h>
static net_t *model;
static float in[NET_IN_IN_X_0_ELEMENTS], want[2][NET_OUT_INT_ELEMENTS];

static void *work(void *failed) {
  static __thread float got[2][NET_OUT_INT_ELEMENTS];
  char error[256];
  for (int i = 0; i < 200; i++)
    if (net_run(model, in, got[0], got[1], error, sizeof error) || memcmp(got, want, sizeof got)) *(int *)failed = 1;
  return NULL;
}

int main(int argc, char **argv) {
  char error[256];
  pthread_t threads[4];
  int failed[4] = {0}, all = argc != 3;
  for (size_t i = 0; i < NET_IN_IN_X_0_ELEMENTS; i++) in[i] = (float)(i % 13) - 6;
  if (!(model = net_load(argv[1], argv[2], 2, error, sizeof error))) return 1;
  if (net_run(model, in, want[0], want[1], error, sizeof error)) return 1;
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, work, &failed[i]);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL), all |= failed[i];
  if (!net_run(model, in, want[0], want[0], error, sizeof error)) all = 1;
  puts(error);
  net_free(model);
  return all;
}
"""


def test_threads_share_a_model_and_a_run_that_fails_says_why(program, built, tmp_path):
    (tmp_path / "threads.c").write_text(THREADS)
    made = c_programs.build(tmp_path / "threads.c", tmp_path / "threads", f"-I{program.parent}")
    done = c_programs.run(made, program, program.with_suffix(".safetensors"))
    assert done.returncode == 0, done.stdout
    assert done.stdout.startswith("InputError: output 'INT' must be") and "overlaps that of another" in done.stdout


DTYPES = ["bool", "int8", "uint16", "int64", "float16", "bfloat16", "double", "complex64"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_has_its_c_type(dtype, tmp_path):
    text = f"<ir_version: 9, opset_import: ['': 18]> g ({dtype}[3,0] none, {dtype}[3,4] x, {dtype} s) => ({dtype}[4,3] y, {dtype} t) {{\n"
    text += "y = Transpose(x)\nt = Identity(s)\n}"
    onnx.save(onnx.parser.parse_model(text.replace("'", '"')), tmp_path / "net.onnx")
    program, manifest, _ = api.compile_to_file(str(tmp_path / "net.onnx"), tmp_path / "net.so")
    done = c_programs.run(example(program), program, "-")
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == [
        f"y {manifest.outputs[0].dtype}[4,3]",
        f"t {manifest.outputs[0].dtype}[]",
    ]


def test_a_specialized_program_has_a_header_of_its_own(tmp_path, capsys):
    path = str(save(tmp_path / "open.onnx", "n"))
    program, _, _ = api.compile_to_file(path, tmp_path / "open.so", specialize=[{"n": 8}])
    done = c_programs.run(example(program, "--specialized", "1"), program, program.with_suffix(".safetensors"))
    assert done.stdout.startswith("int float32[8,40]:")
    done = c_programs.run(example(program), program, program.with_suffix(".safetensors"), "8")
    assert done.stdout.startswith("int float32[8,40]:")
    assert header_tool.main([str(program), "--specialized", "2"]) == 2
    assert "has no specialized program 2: it has 1 of them" in capsys.readouterr().err


CPUS = ("x86-64-v2", "x86-64-v3")


@pytest.fixture(scope="module")
def several(tmp_path_factory) -> Path:
    """A program for two CPUs with its weights inside."""
    options = api.make_options(f"x86 -mcpu={','.join(CPUS)}", weights="inside")
    return compiled(tmp_path_factory.mktemp("several"), "net", options=options)


def outputs(built: Path, program: Path, folder: Path) -> tuple[bytes, str]:
    """What the example gives for X, or prints as an error."""
    X.tofile(folder / "x")
    done = c_programs.run(built, program, *(folder / name for name in ("x", "s", "y")))
    return b"".join((folder / name).read_bytes() for name in ("s", "y")) if not done.returncode else b"", done.stderr


@pytest.mark.parametrize("target", targets(*CPUS))
def test_weights_are_inside_and_a_variant_may_be_named(several, target, tmp_path, monkeypatch):
    assert list(several.parent.glob("*.safetensors")) == []
    built, cpu = example(several), target.partition("=")[2]
    wanted = tw.load_module(several, variant=cpu)(X)
    monkeypatch.setenv(CHOICE, cpu)
    assert outputs(built, several, tmp_path) == (b"".join(array.tobytes() for array in wanted), "")
    monkeypatch.setenv(CHOICE, "x86-64-v9")
    assert outputs(built, several, tmp_path) == (b"", "error: net: there is no variant 'x86-64-v9'\n")


@pytest.mark.parametrize(("lacking", "taken"), [((), 1), ((1,), 0), ((0, 1), None)])
def test_the_last_variant_that_the_cpu_can_run_is_taken(several, lacking, taken, tmp_path):
    """The header is changed to ask for what no CPU has."""
    built, header = example(several), several.with_suffix(".h")
    text = header.read_text()
    for number in lacking:
        table = f"net_cpu_flags{f'_{number}' if number else ''}[] = {{"
        assert table in text
        text = text.replace(table, f'{table}\n  "feature{number}",')
    header.write_text(text)
    got = outputs(c_programs.build(several.with_suffix(".c"), built), several, tmp_path)
    if taken is None:
        needs = "; ".join(f"target 'x86 -mcpu={cpu}', a CPU with feature{i}" for i, cpu in enumerate(CPUS))
        said = f"error: net: compiled for {needs}, which this one lacks: compile the model for this CPU\n"
        assert got == (b"", said)
    else:
        wanted = tw.load_module(several, variant=CPUS[taken])(X)
        assert got == (b"".join(array.tobytes() for array in wanted), "")


@pytest.mark.parametrize("name, message", [("net.onnx", "cannot make a header of"), ("none.so", "there is no program")])
def test_refuses_what_is_no_shared_library(name, message, capsys):
    assert header_tool.main([name]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "text, name", [("resnet18", "resnet18"), ("3d-net", "model_3d_net"), ("tw_x", "model_tw_x"), ("é", "tensor")]
)
def test_names_are_ones_of_c(text, name):
    assert c_text.prefix(text) == name


@pytest.mark.parametrize("names", [["a b", "a.b", "A_B"], ["", "é"], ["x" * 5000]])
def test_names_of_tensors_differ(names: Sequence[str]):
    infos = [tw.TensorInfo(name, (1,), "float32") for name in names]
    made = [tensor.argument.upper() for tensor in tensor.name_tensors("in", infos)]
    assert len(set(made)) == len(names) and all(name.isascii() for name in made)


def test_texts_of_a_model_stay_texts_in_c():
    assert c_text.format_string('a"\\?*/é') == '"a\\042\\134\\077*/\\303\\251"'
    assert c_text.format_string("a\n\x1b[2J") == '"a\\134n\\134x1b[2J"'  # what the C program prints of it
    assert c_text.format_comment("a*/b\nc/*") == "/* a* /b c/ * */"
    assert c_text.format_comment("\x1b[2J\u202e") == "/* \\x1b[2J\\u202e */"
    assert len(c_text.format_comment("n " * 10**6)) < 4100 and len(c_text.format_string("n" * 10**6)) < 300
    assert len(c_text.make_identifier("n" * 10**6)) < 130


def test_sizes_are_no_formats_of_c():
    [refusal] = header._hold("n", Sym("%s%lld", 0, 9), "x.0")
    assert '"%s%lld%s", "x.0: %s%lld is ", (long long)sizes->n, ' in refusal
