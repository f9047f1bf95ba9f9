"""Programs of open sizes called from C: results, shapes and refusals are those of Python."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import c_programs
import numpy as np
import onnx
import pytest

import tilewright as tw
from tilewright.driver import api
from tilewright.runtime.artifact.c_text import format_number
from tilewright.runtime.c.arithmetic import SCALARS as IN_C
from tilewright.runtime.steps.arithmetic import SCALARS
from tilewright.tools import header as header_tool

# A convolution, a pool, a Slice and a Reshape to computed sizes, a softmax along an open axis, a product of two open
# matrices, and an output that is an input seen otherwise, twice.
TEXT = """<ir_version: 9, opset_import: ["": 18]>
g (float[batch,3,height,width] x, float[width] bias) => (float[batch,n,m] y, float[a,b] flat, float[batch,c] seen, float[batch,c] same)
<int64[3] shape = {0, 4, -1}, int64[2] rows = {0, -1}, int64[1] one = {1}, int64[1] last = {-1}, int64[1] axis = {3}>
{
  e = Conv <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (x, w)
  p = MaxPool <kernel_shape = [2, 2], strides = [1, 1]> (e)
  s = Slice (p, one, last, axis)
  r = Reshape (s, shape)
  z = Softmax <axis = -1> (r)
  t = Transpose <perm = [0, 2, 1]> (r)
  y = MatMul (z, t)
  added = Add (x, bias)
  flat = Flatten (added)
  seen = Reshape (x, rows)
  same = Identity (seen)
}"""
SIZES = [(1, 9, 12), (2, 40, 31), (3, 16, 8), (1, 9, 12)]


def model_of(text: str) -> onnx.ModelProto:
    model = onnx.parser.parse_model(text)
    weight = np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    return model


def arrays(sizes: Sequence[int]) -> list[np.ndarray]:
    batch, height, width = sizes
    shapes = ((batch, 3, height, width), (width,))
    return [np.random.default_rng(i).standard_normal(shape).astype(np.float32) for i, shape in enumerate(shapes)]


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> Path:
    shapes = {"x": ["batch=1..4", 3, "height=8..", "width"]}
    folder = tmp_path_factory.mktemp("open")
    onnx.save(model_of(TEXT), folder / "net.onnx")
    path, _, _ = api.compile_to_file(str(folder / "net.onnx"), folder / "net.so", input_shapes=shapes)
    assert header_tool.main([str(path), "--example", str(folder / "net.c"), "--quiet"]) == 0
    return path


@pytest.fixture(scope="module")
def built(program) -> Path:
    return c_programs.build(program.with_suffix(".c"), program.with_suffix(""))


@pytest.mark.parametrize("sizes", SIZES[:3])
def test_the_example_gives_the_answer_of_python(program, built, sizes, tmp_path):
    given = arrays(sizes)
    files = [tmp_path / name for name in ("x", "bias", "y", "flat", "seen", "same")]
    for array, file in zip(given, files, strict=False):
        array.tofile(file)
    done = c_programs.run(built, program, program.with_suffix(".safetensors"), *map(str, sizes), *files)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    for want, line, file in zip(tw.load_module(program)(*given), lines, files[2:], strict=True):
        assert line.startswith(f"{file.name} float32{str(list(want.shape)).replace(' ', '')}:")
        assert np.fromfile(file, np.float32).tobytes() == want.tobytes()


# Each thread runs all sizes in turn, on one model; then come sizes and memory that are refused.
THREADS = """
#include "net.h"
#include <pthread.h>
enum { RUNS = 40, ROOM = 1 << 16 };
static const net_sizes_t sizes[] = {SIZES};
static net_t *model;
static float x[ROOM], bias[ROOM], want[3][4][ROOM];

static int run(const net_sizes_t *own, float (*to)[ROOM], char *error) {
  return net_run(model, own, x, bias, to[0], to[1], to[2], to[3], error, 256);
}

static void *work(void *failed) {
  float (*got)[ROOM] = calloc(4, sizeof *got);
  char error[256];
  for (int i = 0; i < RUNS; i++) {
    net_shapes_t shapes;
    int which = i % 3;
    if (net_shapes(&sizes[which], &shapes, error, sizeof error) || run(&sizes[which], got, error)) *(int *)failed = 1;
    if (memcmp(got[0], want[which][0], shapes.out_y_elements * sizeof **got)) *(int *)failed = 2;
    if (memcmp(got[1], want[which][1], shapes.out_flat_elements * sizeof **got)) *(int *)failed = 3;
  }
  free(got);
  return NULL;
}

int main(int argc, char **argv) {
  char error[256] = "";
  pthread_t threads[4];
  int failed[4] = {0}, all = argc != 3;
  for (int i = 0; i < ROOM; i++) x[i] = (float)(i % 13) - 6, bias[i] = (float)(i % 7);
  if (!(model = net_load(argv[1], argv[2], 2, error, sizeof error))) return puts(error), 1;
  for (int i = 0; i < 3; i++) all |= run(&sizes[i], want[i], error);
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, work, &failed[i]);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL), all |= failed[i];
  const net_sizes_t many = {5, 9, 12}, low = {1, 7, 12}, huge = {1, INT64_MAX / 2, 12};
  all |= !run(&many, want[0], error), puts(error), all |= !run(&low, want[0], error), puts(error);
  all |= !run(&huge, want[0], error), puts(error);
  all |= !net_run(model, &sizes[0], x, bias, want[0][0], want[0][0], want[0][2], want[0][3], error, 256), puts(error);
  all |= !net_run(model, &sizes[0], x, bias, (float *)(1 + (char *)want), want[0][1], want[0][2], want[0][3], error, 256);
  puts(error), all |= run(&sizes[1], want[0], error);
  return net_free(model), all;
}
"""


def test_threads_share_a_model_and_what_does_not_fit_is_refused(program, built, tmp_path):
    sizes = ", ".join(f"{{{', '.join(map(str, each))}}}" for each in SIZES[:3])
    (tmp_path / "threads.c").write_text(THREADS.replace("{SIZES}", f"{{{sizes}}}"))
    made = c_programs.build(tmp_path / "threads.c", tmp_path / "threads", f"-I{program.parent}", "-O1")
    done = c_programs.run(made, program, program.with_suffix(".safetensors"))
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines() == [
        "net: batch is 5, which must be 1..4",
        "net: height is 7, which must be 8..",
        f"net: these sizes take {(1 << 63) - 1} bytes of memory, which are not there",
        "InputError: output 'flat' has memory that overlaps that of 'y'",
        "InputError: output 'y' must be at a multiple of the size of its elements",
    ]


def test_sizes_that_do_not_fit_each_other_are_refused_with_the_node(tmp_path):
    head = '<ir_version: 9, opset_import: ["": 18]> g (float[n,k] x, float[j,m] z) => (float[n,m] y)'
    node = onnx.helper.make_node("MatMul", ["x", "z"], ["y"], "the product")
    model = onnx.parser.parse_model(f"{head} {{ y = MatMul (x, z) }}")
    model.graph.node[0].CopyFrom(node)
    onnx.save(model, tmp_path / "net.onnx")
    program, _, _ = api.compile_to_file(str(tmp_path / "net.onnx"), tmp_path / "net.so")
    assert header_tool.main([str(program), "--example", str(tmp_path / "net.c"), "--quiet"]) == 0
    built = c_programs.build(tmp_path / "net.c", tmp_path / "net")
    with pytest.raises(tw.InputError) as info:
        tw.load_module(program)(np.zeros((2, 3), np.float32), np.zeros((4, 5), np.float32))
    done = c_programs.run(built, program, "-", "2", "3", "4", "5")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"error: {info.value}\n")
    assert "node 'the product'" in done.stderr
    assert c_programs.run(built, program, "-", "2", "3", "3", "5").stdout.startswith("y float32[2,5]:")


@pytest.mark.parametrize(
    "body, message",
    [
        ("(float[n] x) => (int64[r, c] y) { [at] y = NonZero (x) }", "node 'at' "),
        (
            "(int64 n) => (int64[m] y) <int64 a = {0}, int64 b = {1}> { [at] y = Range (a, n, b) }",
            "node 'at' reads sizes",
        ),
        ("(float[n] x) => (float[m] y) { [at] y = Unique (x) }", "node 'at' is computed by a function of"),
        ("(string[n] x) => (string[n] y) { [at] y = Identity (x) }", "'x' is a string, which Python holds"),
    ],
)
def test_what_depends_on_data_is_refused_with_the_node(body, message, tmp_path, capsys):
    text = f'<ir_version: 9, opset_import: ["": 18]> g {body.replace("[at] ", "")}'
    model = onnx.parser.parse_model(text)
    model.graph.node[0].name = "at"
    onnx.save(model, tmp_path / "net.onnx")
    program, _, _ = api.compile_to_file(str(tmp_path / "net.onnx"), tmp_path / "net.so")
    assert header_tool.main([str(program)]) == 2
    error = capsys.readouterr().err
    assert f"net.so cannot be called from C: {message}" in error and error.count("\n") == 1


NUMBERS = (0, 1, -1, 2, 3, -3, 7, -8, 255, 1 << 31, -(1 << 31), 1 << 62, (1 << 63) - 1, -(1 << 63) + 1)
REALS = (0.0, -0.0, 1.5, -2.25, float("inf"), float("-inf"), float("nan"))
_BITS = {"arith.cmpi": 64, "arith.index_castui": 32, "arith.extui": 8}


def _wanted(op: str, facts: dict, operands: Sequence[float]) -> str:
    value = SCALARS[op](facts)(*operands)
    if isinstance(value, float):
        return f"{value:.9g}".replace("-nan", "nan")
    return str(max(-(1 << 63), min(int(value), (1 << 63) - 1)))


def _loops(op: str, text: str, real: bool, count: int) -> str:
    """C that prints the results of an expression for all pairs of numbers."""
    kind, table = ("double", "reals") if real else ("int64_t", "numbers")
    inner = (
        f"for (int j = 0; j < (int)(sizeof {table} / sizeof *{table}); j++)"
        if count > 1
        else "for (int j = 0; !j; j++)"
    )
    form = '"%.9g\\n", (double)' if IN_C[op].real else '"%lld\\n", (long long)'
    return (
        f"  for (int i = 0; i < (int)(sizeof {table} / sizeof *{table}); i++)\n    {inner} {{\n"
        f"      const {kind} v0 = {table}[i], v1 = {table}[j];\n      const int64_t v2 = 5;\n"
        f"      (void)v0, (void)v1, (void)v2;\n      printf({form}({text}));\n    }}\n"
    )


def test_arithmetic_is_that_of_python(tmp_path):
    loops, want = [], []
    for op, expression in IN_C.items():
        count = 3 if op == "arith.select" else 1 if "cast" in op or "ext" in op or op == "arith.sitofp" else 2
        real = op.endswith("f") and op != "arith.sitofp"
        for predicate in range({"arith.cmpi": 10, "arith.cmpf": 16}.get(op, 1)):
            facts = {"predicate": predicate, "bits": _BITS.get(op, 64)}
            loops.append(_loops(op, expression.text(facts).format("v0", "v1", "v2"), real, count))
            for operands in itertools.product(REALS if real else NUMBERS, repeat=min(count, 2)):
                operands = (*operands, 5) if count == 3 else operands
                want.append((op, predicate, operands, _wanted(op, facts, operands)))
    tables = "".join(
        f"static const {kind} {name}[] = {{{', '.join(map(format_number, values))}}};\n"
        for kind, name, values in (("int64_t", "numbers", NUMBERS), ("double", "reals", REALS))
    )
    head = '#include "tilewright.h"\n#include "tilewright_open.h"\n'
    (tmp_path / "main.c").write_text(f"{head}{tables}int main(void) {{\n{''.join(loops)}  return 0;\n}}\n")
    made = c_programs.build(tmp_path / "main.c", tmp_path / "main", f"-I{Path(tw.__file__).parent / 'runtime' / 'c'}")
    got = [line.replace("-nan", "nan") for line in c_programs.run(made).stdout.splitlines()]
    assert [(*case[:3], text) for case, text in zip(want, got, strict=True)] == want
    assert set(IN_C) == set(SCALARS)
