"""``GraphModule``: tensors that stay bound, weights that are replaced, the graph as JSON."""

import json

import numpy as np
import pytest
from dense_model import dense, inputs
from handmade import SHAPE, affine, affine_module, copy_module, weights
from safetensors.numpy import save

import tilewright as tw
from tilewright.core.model import TensorInfo
from tilewright.core.program import Call, Kernel, Signature, Slot
from tilewright.runtime import GraphModule
from tilewright.runtime.artifact.manifest import Manifest
from tilewright.runtime.graph.graph_json import graph_json


def x(seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).random(SHAPE, np.float32)


@pytest.fixture
def graph() -> GraphModule:
    return GraphModule(affine_module(2))


def test_runs_on_what_was_set(graph):
    graph.set_input("x", x())
    graph.run()
    np.testing.assert_array_equal(graph.get_output(0), affine_module(2)(x())[0])
    graph.run(x=x(2))
    np.testing.assert_allclose(graph.get_output("y"), affine(x(2)), rtol=1e-6)
    out = np.zeros(SHAPE, np.float32)
    assert graph.get_output(0, out) is out
    np.testing.assert_array_equal(out, graph.get_output(0))


def test_inputs_are_copied_unless_it_is_said(graph):
    given = x()
    graph.set_input(0, given)
    given[:] = 0
    graph.run()
    np.testing.assert_allclose(graph.get_output(0), affine(x()), rtol=1e-6)
    graph.set_input_zero_copy("x", given)
    graph.run()
    np.testing.assert_allclose(graph.get_output(0), affine(np.zeros_like(given)), rtol=1e-6)
    given[:] = x(3)
    graph.run()
    np.testing.assert_allclose(graph.get_output(0), affine(x(3)), rtol=1e-6)
    graph.set_input("x", x(4))  # which leaves the caller's memory alone
    np.testing.assert_array_equal(given, x(3))
    np.testing.assert_array_equal(graph.get_input(0), x(4))


def test_outputs_lie_where_the_caller_wants(graph):
    y = tw.nd.empty(SHAPE)
    graph.set_output_zero_copy("y", y)
    graph.run(x=x())
    np.testing.assert_allclose(y.numpy(), affine(x()), rtol=1e-6)
    assert graph.get_output(0) is not None and np.shares_memory(graph.get_output(0), y.numpy())


def test_read_only_memory_is_read_and_not_written(graph):
    fixed = x()
    fixed.flags.writeable = False
    graph.set_input_zero_copy("x", fixed)
    for given in (fixed, Lent(fixed)):
        with pytest.raises(tw.InputError, match=r"output 'y' must be .*; the tensor is read-only"):
            graph.set_output_zero_copy("y", given)
    graph.run()
    np.testing.assert_allclose(graph.get_output(0), affine(fixed), rtol=1e-6)


class Lent:
    """An array of another library, which tells by DLPack that it is read-only."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __dlpack__(self, **keywords):
        return self._array.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


@pytest.mark.parametrize(
    "act, message",
    [
        (lambda g: g.run(), "input 'x' is not set: call set_input first"),
        (lambda g: g.get_input(0), "input 'x' is not set"),
        (lambda g: g.get_output(0), "output 'y' is not computed yet: call run first"),
        (lambda g: g.set_input("z", x()), "the program has no input 'z': its inputs are 'x'"),
        (lambda g: g.run(z=x()), "the program has no input 'z': its inputs are 'x'"),
        (lambda g: g.get_output(1), "the program has no output of number 1: its outputs are 'y'"),
        (lambda g: g.set_input(-1, x()), "no input of number -1"),
        (lambda g: g.set_input("x", x()[:2]), r"input 'x' must have shape \(64, 128\), got \(2, 128\)"),
        (lambda g: g.set_input("x", x().astype(int)), "input 'x' must be float32, got int64"),
        (lambda g: g.set_input_zero_copy("x", np.asfortranarray(x())), "the tensor is not contiguous"),
        (lambda g: g.set_output_zero_copy("y", x().astype(np.float16)), "the tensor's dtype is float16"),
        (lambda g: g.set_output_zero_copy("y", [1.0]), "a list is not a tensor: give a numpy array"),
        (lambda g: GraphModule(g.module, 7), "num_threads is 7, but the module was loaded with 2"),
    ],
)
def test_refuses_in_one_line(graph, act, message):
    with pytest.raises(tw.InputError, match=message) as info:
        act(graph)
    assert "\n" not in str(info.value)


def test_refuses_outputs_on_inputs(graph):
    both = x()
    graph.set_input_zero_copy("x", both)
    graph.set_output_zero_copy("y", both)
    with pytest.raises(tw.InputError, match="its memory overlaps that of another argument"):
        graph.run()


def test_says_what_it_takes(graph):
    assert graph.get_input_info() == ({"x": SHAPE}, {"x": "float32"})
    assert (graph.get_num_inputs(), graph.get_num_outputs()) == (1, 1)
    assert (graph.get_input_index("x"), graph.get_input_index("y")) == (0, -1)


def test_measures_itself(graph):
    timing = graph.benchmark(repeat=2, number=3, x=x())
    assert len(timing.results) == 2 and timing.min > 0


def test_loads_from_a_file(tmp_path):
    path = affine_module(1).export_library(tmp_path / "affine.so")
    graph = GraphModule(path, num_threads=3)
    graph.run(x=x())
    np.testing.assert_allclose(graph.get_output(0), affine(x()), rtol=1e-6)
    assert graph.module.num_threads == 3


def test_parameters_are_replaced_in_one_object(graph, tmp_path):
    other = GraphModule(graph.module)
    b = np.full(SHAPE, 2, np.float32)
    file = tmp_path / "b.safetensors"
    file.write_bytes(save({"b": b}))
    for given in ({"b": b}, save({"b": b}), file):
        fresh = GraphModule(graph.module)
        fresh.load_params(given)
        fresh.run(x=x())
        np.testing.assert_allclose(fresh.get_output(0), x() + weights()[0].T + b, rtol=1e-6)
        graph.share_params(fresh)
        graph.run(x=x())
        np.testing.assert_array_equal(graph.get_output(0), fresh.get_output(0))
    other.run(x=x())
    np.testing.assert_allclose(other.get_output(0), affine(x()), rtol=1e-6)


@pytest.mark.parametrize(
    "params, message",
    [
        ({"w.packed": x()}, "parameter 'w.packed' was made by the compiler, not to be replaced"),
        ({"w": x()}, "parameter 'w' cannot be replaced, as the compiler made 'w.packed' of it"),
        ({"c": x()}, "the program has no parameter 'c': those to replace are b"),
        ({"b": x()[:1]}, r"parameter 'b' must have shape \(64, 128\), got \(1, 128\)"),
        ({"b": x().astype(np.float64)}, "parameter 'b' must be float32, got float64"),
        (b"nothing", "the parameters is not a safetensors file"),
        ("/nowhere/b.safetensors", "cannot read /nowhere/b.safetensors: No such file"),
    ],
)
def test_refuses_parameters_that_do_not_fit(graph, params, message):
    with pytest.raises(tw.InputError, match=message) as info:
        graph.load_params(params)
    assert "\n" not in str(info.value)


def test_shares_parameters_of_the_same_program_only(graph):
    with pytest.raises(tw.InputError, match="has other weights than 'affine'"):
        graph.share_params(GraphModule(copy_module("float32", SHAPE)))


def test_the_graph_names_nodes_and_edges(graph):
    found = json.loads(graph.graph_json)
    x_node, w, b, first, second = found["nodes"]
    assert [node["name"] for node in (x_node, w, b)] == ["x", "w.packed", "b"]
    assert found["arg_nodes"] == [0, 1, 2]
    assert (first["inputs"], second["inputs"]) == ([[0, 0, 0], [1, 0, 0]], [[3, 0, 0], [2, 0, 0]])
    assert (first["attrs"]["onnx_nodes"], second["attrs"]["onnx_nodes"]) == (["first"], ["second"])
    assert first["attrs"]["slots"] == ["input0", "param0", "arena+64"]
    assert found["heads"] == [[4, 0, 0]]
    assert found["node_row_ptr"] == [0, 1, 2, 3, 4, 5]
    assert found["attrs"]["shape"] == ["list_shape", [[64, 128]] * 5]
    assert found["attrs"]["dltype"] == ["list_str", ["float32"] * 5]
    assert found["attrs"]["storage_id"] == ["list_str", ["input0", "param0", "param1", "arena+64", "output0"]]


def test_an_edge_comes_from_who_wrote_the_bytes_last():
    """Two halves make a tensor; one of them is written again, by a call in place, before all is read."""
    info = TensorInfo("x", (4,), "float32")
    half, whole = "4xf32", "8xf32"
    kernels = tuple(
        Kernel(name, b"", 1, False, signature=Signature(given, made))
        for name, given, made in (("copy", (half,), (half,)), ("sum", (whole,), (half,)))
    )
    low, high, source = Slot("arena", offset=0), Slot("arena", offset=16), Slot("input")
    calls = (
        Call("copy", (source, low)),
        Call("copy", (source, high)),
        Call("copy", (high, high)),
        Call("sum", (low, Slot("output"))),
    )
    manifest = Manifest("m", (info,), (info,), (), "", "x86", (), 32, {}, kernels, calls)
    nodes = json.loads(graph_json(manifest))["nodes"]
    assert [node["inputs"] for node in nodes] == [[], [[0, 0, 0]], [[0, 0, 0]], [[2, 0, 0]], [[1, 0, 0], [3, 0, 0]]]


@pytest.fixture(scope="module")
def open_graph() -> GraphModule:
    return GraphModule(tw.compile(dense(), workers=0, num_threads=1, cache=False))


def test_open_sizes_run_by_the_vm(open_graph):
    for n in (3, 7):
        given, scale = inputs(n)
        open_graph.set_input("x", given)
        open_graph.set_input_zero_copy("scale", scale)
        open_graph.run()
        np.testing.assert_array_equal(open_graph.get_output(0), open_graph.module(given, scale)[0])
    assert len(open_graph.benchmark(repeat=1, number=1).results) == 1


@pytest.mark.parametrize(
    "act, message",
    [
        (lambda g: g.set_output_zero_copy(0, x()), "output 'y' is new in each run"),
        (lambda g: g.load_params({}), "load_params is for programs of known sizes"),
        (lambda g: g.share_params(g), "share_params is for programs of known sizes"),
        (lambda g: g.graph_json, "graph_json is for programs of known sizes"),
    ],
)
def test_the_vm_says_what_it_lacks(open_graph, act, message):
    with pytest.raises(tw.InputError, match=message):
        act(open_graph)
