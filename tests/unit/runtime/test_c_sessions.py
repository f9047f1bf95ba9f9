"""Sessions in C: states in a structure, which runs read and write, give what sessions in Python do."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import c_programs
import numpy as np
import pytest
from onnx import numpy_helper, parser

import tilewright as tw
from tilewright.core.errors import ArtifactError
from tilewright.driver import api
from tilewright.tools import header as header_tool

EXAMPLE = Path(__file__).parents[3] / "examples" / "generate.c"

# A state that grows, one that is replaced, one that is written over, and what is computed from them.
TEXT = """
<ir_version: 10, opset_import: ["" : 18]>
net (float[b, s, 4] x, float[b, past, 4] past_seen, float[b, 4] mean_in, int64[6] count_in)
    => (float[b, 4] y, float[b, total, 4] present_seen, float[b, 4] mean_out, int64[6] count_out) {
  three = Constant <value = int64[1, 1] {3}> ()
  ones = Constant <value = int64[1] {1}> ()
  count_out = ScatterND <reduction = "add"> (count_in, three, ones)
  counts = Cast <to = 1> (count_out)
  zero = Constant <value = int64[1] {0}> ()
  most = ReduceMax <keepdims = 1> (counts, zero)
  present_seen = Concat <axis = 1> (past_seen, x)
  one = Constant <value = int64[1] {1}> ()
  largest = ReduceMax <keepdims = 0> (present_seen, one)
  new = ReduceMean <keepdims = 0> (x, one)
  half = Constant <value = float {0.5}> ()
  less = Mul (mean_in, half)
  mean_out = Add (less, new)
  both = Add (largest, mean_out)
  y = Add (both, most)
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sessions")
    model = parser.parse_model(TEXT).SerializeToString()
    path, _, _ = api.compile_to_file(model, folder / "net.so")
    assert header_tool.main([str(path), "--session", "--example", str(folder / "net.c"), "--quiet"]) == 0
    c_programs.build(folder / "net.c", folder / "net")
    return path


def run(program: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [program.with_suffix(""), program, program.with_suffix(".safetensors"), *arguments]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)


def test_steps_in_c_give_what_steps_in_python_do(program: Path, tmp_path: Path):
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    x.tofile(tmp_path / "x")
    done = run(program, 300, 2, 3, tmp_path / "x", tmp_path / "y")
    assert done.returncode == 0, done.stderr
    session = tw.load_module(program).session()
    *_, y = [session(x)[0] for _ in range(300)]
    np.testing.assert_array_equal(np.fromfile(tmp_path / "y", np.float32).reshape(2, 4), y)
    assert session["past_seen"].shape == (2, 900, 4)


def test_states_of_the_callers_own_memory(program: Path):
    """A fixed one is refused when it is full, keeps what it has, and states of other sizes are refused."""
    source = program.with_name("fixed.c")
    source.write_text(
        """#include "net.h"
int main(int argc, char **argv) {
  char error[512];
  static float room[2 * 4 * 5], x[2 * 4] = {1, 2, 3, 4, 5, 6, 7, 8};
  net_t *model = net_load(argv[1], argv[2], 1, error, sizeof error);
  net_sizes_t sizes = {2, 1};
  net_outputs_t outputs = {0};
  net_states_t states = {0};
  if (argc < 3 || !model) return 1;
  states.in_past_seen.data = room, states.in_past_seen.bytes = sizeof room, states.in_past_seen.fixed = 1;
  for (int i = 0; i < 5; i++)
    if (net_run(model, &sizes, x, &states, &outputs, error, sizeof error)) return 2;
  if (!net_run(model, &sizes, x, &states, &outputs, error, sizeof error)) return 3;
  puts(error);
  if (states.in_past_seen.shape[0] != 5 || states.in_past_seen.data != room || room[4 * 8] != 1) return 4;
  sizes.dim_b = 1;
  if (!net_run(model, &sizes, x, &states, &outputs, error, sizeof error)) return 5;
  puts(error);
  net_free_states(&states), net_free_outputs(&outputs), net_free(model);
  return 0;
}
"""
    )
    binary = c_programs.build(source, program.with_name("fixed"), "-Wno-missing-field-initializers")
    command = [binary, program, program.with_suffix(".safetensors")]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    full, other = done.stdout.splitlines()
    assert "longer than its session has room for" in full
    assert "(6 and 5)" in full
    assert other == "InputError: state 'past_seen' has 2 as b, not 1"


def test_programs_without_sessions_are_refused(tmp_path: Path):
    text = TEXT.replace("float[b, past, 4] past_seen", "float[b, past, 4] z").replace("(past_seen, x)", "(x, z)")
    model = parser.parse_model(text).SerializeToString()
    path, _, _ = api.compile_to_file(model, tmp_path / "net.so", options=api.make_options(states={}))
    with pytest.raises(ArtifactError, match="has no states: compile it with --state"):
        header_tool._interfaces(path, 0, None, True)
    assert header_tool.main([str(path), "--session", "--specialized", "1"]) == 2


# A decoder without a layer: what comes next depends on the sum of all tokens so far.
DECODER = """
<ir_version: 10, opset_import: ["" : 18]>
decoder (int64[1, length] ids, float[1, before, 32] past) => (float[1, 40] scores, float[1, all, 32] present) {
  new = Gather (tokens, ids)
  present = Concat <axis = 1> (past, new)
  one = Constant <value = int64[1] {1}> ()
  sum = ReduceSum <keepdims = 0> (present, one)
  scores = MatMul (sum, back)
}
"""


def test_the_example_generates_what_a_session_does(tmp_path: Path):
    model, random = parser.parse_model(DECODER), np.random.default_rng(0)
    for name, shape in (("tokens", (40, 32)), ("back", (32, 40))):
        weight = random.standard_normal(shape).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(weight, name))
    path, _, _ = api.compile_to_file(model.SerializeToString(), tmp_path / "decoder.so")
    assert header_tool.main([str(path), "--session", "--quiet"]) == 0
    source = shutil.copy(EXAMPLE, tmp_path)
    binary = c_programs.build(Path(source), tmp_path / "generate")
    command = [binary, path, path.with_suffix(".safetensors"), 20, 3, 1, 4]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True)
    session, ids, made = tw.load_module(path).session(), [3, 1, 4], []
    for _ in range(20):
        made.append(int(session(np.array([ids]))["scores"].argmax()))
        ids = made[-1:]
    assert list(map(int, done.stdout.split())) == made
