"""Code generators of users: which parts of networks they get, and what becomes of their code in programs."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from codegen_case import (
    X,
    block,
    compile_c,
    compiled,
    expected,
    host_calls,
    interpret,
    parsed,
    register_c,
    register_reference,
    takes_add_and_relu,
    write_c,
)
from refused import refused
from samples import campaign

import tilewright as tw
from tilewright.core import codegens

pytestmark = pytest.mark.shares_kernels


@pytest.mark.parametrize("rows", ["3", "N"])
@pytest.mark.parametrize("options", [(), ("-shared",)], ids=["object", "library"])
def test_native_code_is_a_part_of_the_program(rows: str, options: tuple[str, ...], tmp_path: Path):
    register_c(*options, dynamic=True)
    module = compiled(block(rows))
    np.testing.assert_allclose(module(X)[0], expected(), rtol=1e-6)
    assert module.manifest.codegens == {"c": "native"}
    codegens._CODEGENS.clear()  # the program needs it no more
    path = module.export_library(tmp_path / "m.so")
    np.testing.assert_array_equal(tw.load_module(path)(X)[0], module(X)[0])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(module))(X)[0], module(X)[0])


def test_each_program_calls_its_own_library():
    """Also where two are loaded one after the other, by functions that have one name."""
    programs = []
    for operation in ("-x[i]", "2 * x[i]"):
        text = f"int f(const float *x, float *y) {{ for (int i = 0; i < 12; i++) y[i] = {operation}; return 0; }}"
        code = tw.NativeCode(compile_c(text, "-shared"), "f")
        tw.register_codegen("c", lambda s: s.nodes[0].op_type == "Neg", lambda _, code=code: code, override=True)
        programs.append(compiled(parsed("g (float[3, 4] x) => (float[3, 4] y) { y = Neg(x) }")))
    for factor, program in zip((-1, 2), programs, strict=True):
        np.testing.assert_array_equal(program(X)[0], factor * X)


def test_what_a_code_generator_sees_is_the_model_in_words_of_onnx():
    seen: list[tw.Subgraph] = []

    def compile(subgraph: tw.Subgraph) -> Callable[..., Any]:
        seen.append(subgraph)
        return lambda x: (x + subgraph.constants[0].constant, np.maximum(x + subgraph.constants[0].constant, 0))

    tw.register_codegen("py", takes_add_and_relu, compile, dynamic=True, isolate=False)
    np.testing.assert_allclose(compiled(block("N"))(X)[0], expected(), rtol=1e-6)
    [subgraph] = seen
    assert [(v.name, v.shape, v.dtype, v.is_constant) for v in subgraph.inputs] == [("e", ("N", 4), "float32", False)]
    assert [v.name for v in subgraph.outputs] == ["s", "r"] and subgraph.extents == ("N",) and subgraph.is_dynamic
    [constant] = subgraph.constants
    np.testing.assert_array_equal(constant.constant, [1, -2, 3, -4])
    add, relu = subgraph.nodes
    assert (add.op_type, add.domain, add.opset, add.attributes, add.name) == ("Add", "", 21, {}, "Add_1")
    assert subgraph.producer(relu.inputs[0]) is add and subgraph.readers(add.outputs[0]) == (relu,)
    assert pickle.loads(pickle.dumps(subgraph)) == subgraph and subgraph.target.startswith("x86")


@pytest.mark.parametrize("rows", ["3", "N"])
@pytest.mark.parametrize("workers", [0, 1])
def test_a_function_of_python_is_called_with_tensors_in_place(rows: str, workers: int, tmp_path: Path):
    register_reference({"Add_1", "Relu_2"}, dynamic=True)
    module = compiled(block(rows), workers=workers)
    np.testing.assert_allclose(module(X)[0], expected(), rtol=1e-6)
    assert module.manifest.codegens == {"reference": "python"}
    path = module.export_library(tmp_path / "m.so")
    np.testing.assert_array_equal(tw.load_module(path)(X)[0], module(X)[0])
    tw.unregister_codegen("reference")
    message = (
        r"code generator 'reference', subgraph 'reference_0' \(nodes 'Add_1', 'Relu_2'\) is computed by Python, and"
    )
    refused(lambda: tw.load_module(path), message, tw.InputError)
    tw.register_codegen("reference", load=interpret)  # as a process does that only runs programs
    np.testing.assert_array_equal(tw.load_module(path)(X)[0], module(X)[0])


def test_loading_calls_what_the_process_has_registered_and_nothing_of_the_file(tmp_path: Path):
    register_reference({"Add_1", "Relu_2"})
    path = compiled(block()).export_library(tmp_path / "m.so")
    script = (
        f"import sys, tilewright as tw\ntry: tw.load_module({str(path)!r})\nexcept tw.InputError: print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "tilewright.runtime" in done.stdout and not {"onnx", "codegen_case"} & {*done.stdout.split()}


def test_a_function_without_a_payload_stays_in_its_process(tmp_path: Path):
    tw.register_codegen("py", lambda s: s.nodes[0].op_type == "Exp", lambda s: np.exp)
    module = compiled(block())
    np.testing.assert_allclose(module(X)[0], expected(), rtol=1e-6)
    message = r"subgraph 'py_0' \(node 'Exp_0'\) is a function of this process: let compile give a payload"
    refused(lambda: module.export_library(tmp_path / "m.so"), f"cannot write .*{message}")
    refused(lambda: pickle.dumps(module), message)
    assert not [*tmp_path.iterdir()]


def test_a_packed_function_takes_and_gives_tensors():
    tw.register_func("codegen_test.exp", lambda x: tw.nd.array(np.exp(np.from_dlpack(x))), override=True)
    function = tw.get_global_func("codegen_test.exp")
    tw.register_codegen("packed", lambda s: s.nodes[0].op_type == "Exp", lambda s: function)
    np.testing.assert_allclose(compiled(block())(X)[0], expected(), rtol=1e-6)


def test_an_output_that_lies_over_an_input_is_copied():
    model = parsed(
        "g (float[3, 4] x) => (float[3, 4] y, float[3, 4] z) { e = Exp(x) i = Identity(e) y = Neg(e) z = Sqrt(i) }"
    )
    tw.register_codegen("py", lambda s: s.nodes[0].op_type == "Identity", lambda s: lambda x: x)
    y, z = compiled(model)(X)
    np.testing.assert_allclose(y, -np.exp(X), rtol=1e-6)
    np.testing.assert_allclose(z, np.sqrt(np.exp(X)), rtol=1e-6)


SAME = """g (float[3, 4] x) => (float[3, 4] y, float[3, 4] t) {
  a = Sigmoid(x) b = Neg(a) c = Exp(b) d = Sigmoid(c) e = Neg(d) t = Add(e, e) y = Mul(t, b) }"""


def test_equal_subgraphs_results_of_the_model_and_values_read_twice():
    """Sigmoid and Neg twice, with a value between that the model gives, and one that is read twice."""
    whole = compiled(parsed(SAME))(X)
    text = "#include <math.h>\nstatic float s(float v) { return 1 / (1 + expf(-v)); }\n"
    made = compile_c(
        text + "int f(const float *x, float *y) { for (int i = 0; i < 12; i++) y[i] = -s(x[i]); return 0; }"
    )
    ops = ("Sigmoid", "Neg")
    tw.register_codegen("c", lambda s: all(n.op_type in ops for n in s.nodes), lambda s: made)
    register_reference(lambda name: name.startswith("Add"), prefer=2)
    module = compiled(parsed(SAME))
    for own, other in zip(module(X), whole, strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-6)
    assert module.manifest.codegens == {"c": "native", "reference": "python"}


def test_code_generators_choose_by_their_rank_and_small_subgraphs_are_left():
    register_reference(lambda name: True, "all")
    register_reference({"Exp_0", "Relu_2"}, "second", prefer=5, min_nodes=2)
    register_reference({"Add_1", "Relu_2"}, "first", prefer=7, min_nodes=2)
    assert [(each["codegen"], each["nodes"]) for each in host_calls(compiled(block()))] == [
        ("all", ["Exp_0"]),
        ("first", ["Add_1", "Relu_2"]),
        ("all", ["Mul_3"]),
    ]
    assert compiled(block(), codegens=[]).manifest.codegens == {}
    assert compiled(block(), codegens=["all"]).manifest.codegens == {"all": "python"}
    refused(
        lambda: compiled(block(), codegens=["none"]),
        "no code generator 'none': registered are 'all', 'sec",
        tw.CompileError,
    )
    refused(lambda: compiled(block(), codegens="all"), "codegens is 'all': give the names", tw.CompileError)


@pytest.mark.parametrize("rows", ["3", "N"])
def test_a_code_generator_below_zero_takes_what_tilewright_refuses(rows: str):
    text = f"g (float[{rows}, 4] x) => (float[{rows}, 4] y) <float[{rows}, 4] t> {{ e = Exp(x) t = my.domain.Twist(e) y = Neg(t) }}"
    model = parsed(text)
    refused(lambda: compiled(model), "Twist", tw.UnsupportedError)
    tw.register_codegen("static", lambda s: True, lambda s: None, prefer=-1)
    if rows == "N":
        message = "domain 'my.domain' is unknown; 1 node of sizes that only the run knows was not offered to"
        refused(lambda: compiled(model), message, tw.UnsupportedError)
    tw.unregister_codegen("static")
    seen = []
    tw.register_codegen(
        "py",
        lambda s: not seen.append(s.nodes[0].op_type),
        lambda s: lambda x: x[:, ::-1] * 2,
        prefer=-1,
        dynamic=True,
        isolate=False,
    )
    np.testing.assert_allclose(compiled(model)(X)[0], -np.exp(X)[:, ::-1] * 2, rtol=1e-6)
    assert seen == ["Twist"]
    report = tw.check_model(model)
    assert report.supported and [node.verdict for node in report.nodes] == ["compiled", "codegen", "compiled"]
    assert "by code generators" in str(report)
    codegens._CODEGENS.clear()
    assert not tw.check_model(model).supported


def test_sizes_that_only_the_run_knows_are_for_those_that_say_so():
    register_reference(lambda name: True)
    module = compiled(block("N"))
    assert module.manifest.codegens == {}
    [note] = module.report.notes
    assert note == (
        "4 nodes of sizes that only the run knows were not offered to code generator 'reference': "
        "give --input-shape, or register it with dynamic=True"
    )
    module = compiled(block("N"), specialize=[{"N": 3}])  # the program for one size has it
    assert module.manifest.specialized[0].codegens == {"reference": "python"}
    np.testing.assert_allclose(module(X)[0], expected(), rtol=1e-6)


DYNAMIC = """g (float[n, s, 8] x) => (float[n, s, q] y, float[m, 8] z, int64[3] shape, float[a, b] w)
<int64 zero = {0}, int64 one = {1}, int64[1] two = {2}, int64[1] four = {4}, int64[1] first = {0}, int64[1] rest = {-1},
 int64[1] eight = {8}>
{
  h = Softmax<axis = -1>(x)
  r = Relu(h)
  sizes = Shape(r)
  n0 = Gather(sizes, zero)
  s0 = Gather(sizes, one)
  n1 = Unsqueeze(n0, first)
  s1 = Unsqueeze(s0, first)
  to4 = Concat<axis = 0>(n1, s1, two, four)
  r4 = Reshape(r, to4)
  t = Transpose<perm = [0, 2, 1, 3]>(r4)
  e = Exp(t)
  back = Transpose<perm = [0, 2, 1, 3]>(e)
  to3 = Concat<axis = 0>(n1, s1, rest)
  r3 = Reshape(back, to3)
  a1 = Add(r3, h)
  y = Sigmoid(a1)
  to2 = Concat<axis = 0>(rest, eight)
  f = Reshape(y, to2)
  z = Mul(f, f)
  shape = Identity(sizes)
  cut = Slice(z, first, n1)
  w = Sqrt(cut)
}"""


@campaign("1", "2")
@pytest.mark.parametrize("seed", range(4))
def test_networks_that_compute_with_shapes_are_cut_anywhere(seed: int):
    chance, x = np.random.default_rng(seed), np.random.default_rng(9).standard_normal((3, 5, 8), np.float32)
    whole = compiled(parsed(DYNAMIC)).run([x])
    names = {f"{node.op_type}_{i}" for i, node in enumerate(parsed(DYNAMIC).graph.node)}
    taken = {name for name in sorted(names) if chance.random() < (0.5, 0.8, 0.95, 1.1)[seed]}
    register_reference(taken, dynamic=True)
    module = compiled(parsed(DYNAMIC))
    for own, other in zip(module.run([x]), whole, strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-5, atol=1e-6)
    if seed == 3:  # all but what the import knows of shapes
        [call] = host_calls(module)
        assert len(call["nodes"]) == 13


def test_nodes_in_branches_and_loops_are_left():
    model = parsed("""g (float[3, 4] x, bool c) => (float[3, 4] y) {
      e = Exp(x) i = If(c) <then_branch = t () => (float[3, 4] p) { p = Neg(e) }, else_branch = o () => (float[3, 4] q) { q = Abs(e) }>
      y = Exp(i) }""")
    register_reference(lambda name: True)
    whole = compiled(model, codegens=[])
    module = compiled(model)
    for choice in (True, False):
        np.testing.assert_allclose(module(X, np.array(choice))[0], whole(X, np.array(choice))[0], rtol=1e-5)
    assert [call["nodes"] for call in host_calls(module)] == [["Exp_0"], ["Exp_2"]]


@pytest.mark.parametrize("rows", ["3", "N"])
def test_a_status_refuses_the_run(rows: str):
    register_c(status="x[0] > 1 ? 7 : 0", dynamic=True)
    module = compiled(block(rows))
    np.testing.assert_allclose(module(X)[0], expected(), rtol=1e-6)
    message = (
        r"node 'Add_1' is computed by code generator 'c', subgraph 'c_0' \(nodes 'Add_1', 'Relu_2'\), .* status: 7"
    )
    refused(lambda: module(X + 4), message, tw.InputError)


def test_other_executors_profiles_and_guards(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    register_c()
    module = compiled(block(), profile=True)
    rows = {row.name: row.nodes for row in module.profile({"x": X}, rounds=2).rows}
    [name] = [name for name in rows if name.startswith("codegen_c_")]
    assert rows[name] == ("Add_1", "Relu_2")
    path = module.export_library(tmp_path / "m.so")
    monkeypatch.setenv("TILEWRIGHT_DEBUG", "1")
    np.testing.assert_array_equal(tw.load_module(path)(X)[0], module(X)[0])
    np.testing.assert_array_equal(tw.load_module(path, executor="graph")(X)[0], module(X)[0])
    refused(lambda: compiled(block(), executor="engine"), "cannot be a part of an engine's program", tw.CompileError)


def test_a_program_with_code_of_others_is_never_taken_from_the_cache(tmp_path: Path):
    cache = tmp_path / "cache"
    plain = compiled(block(), cache=cache)
    register_c()
    first, second = compiled(block(), cache=cache), compiled(block(), cache=cache)
    assert first.manifest.codegens == second.manifest.codegens == {"c": "native"} and not second.report.cached
    codegens._CODEGENS.clear()
    again = compiled(block(), cache=cache)
    assert again.report.cached and again.manifest.codegens == {}
    np.testing.assert_allclose(again(X)[0], plain(X)[0])


def test_values_whose_rank_only_the_run_knows_are_read_outside():
    model = parsed("""g (float[a, 4] x, bool c) => (float[1] y) {
      e = Exp(x) n = Neg(e) i = If(c) <then_branch = t () => (float[P] p) { p = Squeeze(n) }, else_branch = o () => (float[Q] q) { q = Identity(n) }>
      r = Relu(i) y = Add(r, n) }""")
    model.graph.output[0].type.tensor_type.ClearField("shape")
    register_reference(lambda name: True, dynamic=True)
    whole, module = compiled(model, codegens=[]), compiled(model)
    for x, c in ((X, True), (X, False), (X[:1], True)):
        np.testing.assert_allclose(module(x, np.array(c))[0], whole(x, np.array(c))[0], rtol=1e-5)
    assert module.manifest.codegens == {"reference": "python"}


@pytest.mark.parametrize("taken", [{"Exp_0"}, {"Concat_1", "ReduceSum_2"}])
def test_sessions_keep_states_that_subgraphs_read_and_make(taken: set[str]):
    model = parsed("""g (float[p, 4] past, float[n, 4] x) => (float[q, 4] present, float[n, 4] y) <int64[1] first = {0}> {
      e = Exp(x) present = Concat<axis = 0>(past, e) s = ReduceSum<keepdims = 1>(present, first) y = Add(s, e) }""")
    register_reference(taken, dynamic=True)
    session = compiled(model, states={"present": "past"}).session(sizes={"p": 0})
    for step in range(1, 4):
        y = session.run({"x": X})[-1]
        np.testing.assert_allclose(y, np.exp(X).sum(0) * step + np.exp(X), rtol=1e-5)


def test_each_target_has_code_of_its_own():
    targets = []

    def compile(subgraph: tw.Subgraph) -> tw.NativeCode:
        targets.append(subgraph.target)
        return tw.NativeCode(compile_c(f"{write_c(subgraph)} // {subgraph.target}"), "f", ("b",))

    tw.register_codegen("c", takes_add_and_relu, compile, isolate=False)
    module = compiled(block(), target="x86 -mcpu=x86-64-v2,x86-64-v3")
    np.testing.assert_allclose(module(X)[0], expected(), rtol=1e-6)
    assert targets == ["x86 -mcpu=x86-64-v2", "x86 -mcpu=x86-64-v3"]


@pytest.mark.parametrize("way", ["function", "host", "native"])
def test_weights_are_there_when_the_model_is_gone(way: str):
    """A model that comes as bytes lies in a file only while it is compiled."""
    model = parsed("g (float[2, 128] x) => (float[2, 128] y) { t = MatMul(x, w) y = Neg(t) }")
    weight = np.random.default_rng(0).standard_normal((128, 128)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    text = """int f(const float *x, const float *w, float *y) {
      for (int i = 0; i < 2; i++) for (int j = 0; j < 128; j++) {
        y[i * 128 + j] = 0;
        for (int k = 0; k < 128; k++) y[i * 128 + j] += x[i * 128 + k] * w[k * 128 + j];
      }
      return 0; }"""
    compile: dict[str, Callable[[tw.Subgraph], Any]] = {
        "function": lambda s: lambda x: x @ s.constants[0].constant,
        "host": lambda s: tw.HostCode(b"", ("w",)),
        "native": lambda s: tw.NativeCode(compile_c(text), "f", ("w",)),
    }
    tw.register_codegen("g", lambda s: s.nodes[0].op_type == "MatMul", compile[way], load=lambda payload: np.matmul)
    x = np.random.default_rng(1).standard_normal((2, 128)).astype(np.float32)
    np.testing.assert_allclose(compiled(model)(x)[0], -(x @ weight), rtol=1e-4, atol=1e-4)
