"""Programs of open sizes called from C: results, shapes and refusals are those of Python."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import c_programs
import numpy as np
import onnx
import pytest

import tilewright as tw
from tilewright.driver import api
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
static float x[ROOM], bias[ROOM];
static net_outputs_t want[3];

static int run(const net_sizes_t *own, net_outputs_t *to, char *error) {
  return net_run(model, own, x, bias, to, error, 256);
}

static void *work(void *failed) {
  net_outputs_t got;
  char error[256];
  memset(&got, 0, sizeof got);
  for (int i = 0; i < RUNS; i++) {
    const net_outputs_t *other = &want[i % 3];
    if (run(&sizes[i % 3], &got, error)) *(int *)failed = 1;
    if (got.out_y.elements != other->out_y.elements || got.out_y.shape[2] != other->out_y.shape[2]) *(int *)failed = 2;
    if (memcmp(got.out_y.data, other->out_y.data, got.out_y.elements * sizeof(float))) *(int *)failed = 3;
    if (memcmp(got.out_flat.data, other->out_flat.data, got.out_flat.elements * sizeof(float))) *(int *)failed = 4;
  }
  net_free_outputs(&got);
  return NULL;
}

int main(int argc, char **argv) {
  char error[256] = "";
  pthread_t threads[4];
  static float room[ROOM];
  int failed[4] = {0}, all = argc != 3;
  for (int i = 0; i < ROOM; i++) x[i] = (float)(i % 13) - 6, bias[i] = (float)(i % 7);
  if (!(model = net_load(argv[1], argv[2], 2, error, sizeof error))) return puts(error), 1;
  for (int i = 0; i < 3; i++) all |= run(&sizes[i], &want[i], error);
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, work, &failed[i]);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL), all |= failed[i];
  const net_sizes_t many = {5, 9, 12}, low = {1, 7, 12}, huge = {1, INT64_MAX / 2, 12};
  all |= !run(&many, &want[0], error), puts(error), all |= !run(&low, &want[0], error), puts(error);
  all |= !run(&huge, &want[0], error), puts(error);
  net_outputs_t own;
  memset(&own, 0, sizeof own);
  own.out_y.data = own.out_flat.data = room, own.out_y.bytes = own.out_flat.bytes = sizeof room;
  all |= !run(&sizes[0], &own, error), puts(error);
  own.out_y.data = (float *)(1 + (char *)room), own.out_flat.data = NULL, own.out_flat.bytes = 0;
  all |= !run(&sizes[0], &own, error), puts(error);
  own.out_y.data = room, own.out_y.bytes = sizeof room; /* the caller's own memory is used, and stays its own */
  all |= run(&sizes[0], &own, error) || own.out_y.data != room || own.out_y.owned || !own.out_flat.owned;
  all |= memcmp(room, want[0].out_y.data, own.out_y.elements * sizeof *room) != 0;
  net_free_outputs(&own);
  for (int i = 0; i < 3; i++) net_free_outputs(&want[i]);
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
        "InputError: input 'x' is larger than any memory",
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
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"error: InputError: {info.value}\n")
    assert "node 'the product'" in done.stderr
    assert c_programs.run(built, program, "-", "2", "3", "3", "5").stdout.startswith("y float32[2,5]:")


LOOP = """<ir_version: 9, opset_import: ["": 18]>
g (float[n] x, int64 count) => (float[m] y, float[t] sums, int64[r,c] found) <bool yes = {1}>
{
  found = NonZero (x)
  y, sums = Loop (count, yes, x) <body = one (int64 i, bool on, float[k] v) => (bool again, float[j] w, float sum) {
    w = Concat <axis = 0> (v, v)
    sum = ReduceSum <keepdims = 0> (w)
    again = Identity (on)
  }>
}"""


def test_sizes_that_data_decide_and_loops_are_called_from_c(tmp_path):
    onnx.save(onnx.parser.parse_model(LOOP), tmp_path / "net.onnx")
    program, _, _ = api.compile_to_file(str(tmp_path / "net.onnx"), tmp_path / "net.so")
    assert header_tool.main([str(program), "--example", str(tmp_path / "net.c"), "--quiet"]) == 0
    built = c_programs.build(tmp_path / "net.c", tmp_path / "net")
    module, files = tw.load_module(program), [tmp_path / name for name in ("x", "count", "y", "sums", "found")]
    for count, x in ((0, [1, 0, 2]), (3, [0, 0, 5, 1]), (1, [0, 0])):
        given = [np.array(x, np.float32), np.array(count)]
        for array, file in zip(given, files, strict=False):
            array.tofile(file)
        done = c_programs.run(built, program, "-", str(len(x)), *files)
        assert (done.returncode, done.stderr) == (0, "")
        for want, file in zip(module(*given), files[2:], strict=True):
            assert np.fromfile(file, want.dtype).tobytes() == want.tobytes()
        assert f"found int64[1,{np.count_nonzero(x)}]:" in done.stdout


@pytest.mark.parametrize(
    "body, message",
    [
        ("(float[n] x) => (float[m] y) { [at] y = Unique (x) }", "node 'at' is computed by a function of"),
        ("(string[n] x) => (string[n] y) { [at] y = Identity (x) }", "'x' is a string, which Python holds"),
    ],
)
def test_what_only_python_computes_is_refused_with_the_node(body, message, tmp_path, capsys):
    text = f'<ir_version: 9, opset_import: ["": 18]> g {body.replace("[at] ", "")}'
    model = onnx.parser.parse_model(text)
    model.graph.node[0].name = "at"
    onnx.save(model, tmp_path / "net.onnx")
    program, _, _ = api.compile_to_file(str(tmp_path / "net.onnx"), tmp_path / "net.so")
    assert header_tool.main([str(program)]) == 2
    error = capsys.readouterr().err
    assert f"net.so cannot be called from C: {message}" in error and error.count("\n") == 1
