"""The work of planning grows with the number of nodes and no faster: counted in calls and ops, never in time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tilewright as tw
from tilewright.core.limits import ORDINARY
from tilewright.core.program import Plan
from tilewright.core.target import detect_host
from tilewright.dialects import extents
from tilewright.dialects.walk import collect
from tilewright.frontends import import_model
from tilewright.passes import pipeline
from tilewright.passes.analysis.scales import Search
from tilewright.passes.graph import fuse_ops, recognize_composites
from tilewright.passes.infra.context import PassContext


class Nodes:
    """Nodes one behind another; names are made."""

    def __init__(self) -> None:
        self.made: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def add(self, op: str, *inputs: object, **attributes: Any) -> str:
        """A node on names and arrays; gives its output's name."""
        names = [i if isinstance(i, str) else self._weight(np.asarray(i)) for i in inputs]
        self.made.append(helper.make_node(op, names, [f"v{len(self.made)}"], **attributes))
        return self.made[-1].output[0]

    def _weight(self, array: np.ndarray) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(onnx.numpy_helper.from_array(array, name))
        return name

    def model(self, inputs: dict[str, Sequence[int | str]], result: str, rank: int) -> onnx.ModelProto:
        """The model of float inputs of these shapes, whose output has open sizes."""
        infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()]
        out = helper.make_tensor_value_info(result, TensorProto.FLOAT, [f"out{axis}" for axis in range(rank)])
        graph = helper.make_graph(self.made, "g", infos, [out], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def chain(count: int, *ops: str) -> onnx.ModelProto:
    """Elementwise ops by turns; those of two operands read a number, or the other input at every third node."""
    nodes, x = Nodes(), "x"
    for i in range(count):
        op = ops[i % len(ops)]
        second = () if op in ("Relu", "Sigmoid", "Tanh") else ("y",) if i % 3 == 0 else (np.float32(1.5),)
        x = nodes.add(op, x, *second)
    return nodes.model({"x": [8, 8], "y": [8, 8]}, x, 2)


def resized(count: int) -> onnx.ModelProto:
    """What a detector does to its image, again and again: a size is an expression over the one before, read twice."""
    nodes, x = Nodes(), "x"
    for _ in range(count):
        size = nodes.add("Shape", x)
        grown = nodes.add("Div", nodes.add("Add", nodes.add("Mul", size, [3]), nodes.add("Div", size, [3])), [4])
        x = nodes.add("Slice", x, [0], nodes.add("Min", grown, size), [0])
        x = nodes.add("Relu", x)
    return nodes.model({"x": ["n"]}, x, 1)


def selected(classes: int) -> onnx.ModelProto:
    """A detector's choice for each class: boxes above a score, the best of them."""
    nodes, parts = Nodes(), []
    for number in range(classes):
        scores = nodes.add("Gather", "scores", np.int64(number), axis=1)
        places = nodes.add("NonZero", nodes.add("Greater", scores, np.float32(0.5)))
        above = nodes.add("Gather", scores, nodes.add("Squeeze", places, [0]), axis=0)
        parts.append(nodes.add("TopK", above, nodes.add("Min", nodes.add("Shape", above), [5]), axis=0))
        nodes.made[-1].output.append(f"places{number}")
    return nodes.model({"scores": [30, classes]}, nodes.add("Concat", *parts, axis=0), 1)


def joined(count: int, rows: int | str) -> onnx.ModelProto:
    """So many inputs one behind another; of open ``rows``, each has a size of its own."""
    names = [f"x{number}" for number in range(count)]
    nodes = Nodes()
    result = nodes.add("Concat", *names, axis=0)
    return nodes.model({x: [f"{rows}{x}" if isinstance(rows, str) else rows, 3] for x in names}, result, 2)


def planned(model: onnx.ModelProto) -> Plan:
    return pipeline.plan(import_model(model), detect_host(), PassContext(), ORDINARY)


class Calls:
    """Counts the calls of functions."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monkeypatch = monkeypatch
        self.count = 0

    def watch(self, owner: object, name: str) -> None:
        """Count those of the function that ``owner`` has by this name."""
        function: Callable[..., Any] = getattr(owner, name)

        def counted(*arguments: Any, **options: Any) -> Any:
            self.count += 1
            return function(*arguments, **options)

        self.monkeypatch.setattr(owner, name, counted)

    def of(self, work: Callable[[], object]) -> int:
        """How many there are in the work."""
        before = self.count
        work()
        return self.count - before


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    return Calls(monkeypatch)


def test_merging_asks_each_op_for_its_reader(calls: Calls):
    calls.watch(fuse_ops, "can_inline")
    short, long = (calls.of(lambda n=n: planned(chain(n, "Relu", "Add"))) for n in (100, 200))
    assert short < long < 2.5 * short < 500


def test_a_group_does_not_grow_without_end():
    kernels = planned(chain(200, "Add", "Tanh")).kernels
    assert 1 < len(kernels) < 10


def test_activations_without_reductions_are_not_compared_with_softmax(calls: Calls):
    calls.watch(recognize_composites, "_match")
    assert calls.of(lambda: planned(chain(60, "Relu", "Sigmoid"))) == 0
    assert calls.of(lambda: planned(chain(60, "Add", "Tanh"))) == 0


def test_a_scale_moves_through_so_many_ops_and_no_more(calls: Calls):
    calls.watch(Search, "expression")
    short, long = (calls.of(lambda n=n: planned(chain(n, "Mul", "Add"))) for n in (160, 400))
    assert short < long < 3.5 * short


def test_import_compares_no_places_to_emit_sizes(calls: Calls):
    calls.watch(extents, "_is_later")
    assert calls.of(lambda: import_model(selected(8))) == 0


def test_ops_of_sizes_are_as_many_as_nodes():
    counts = [len(collect(import_model(resized(n)).module, lambda _: True)) for n in (20, 40, 60)]
    assert counts[2] - counts[1] <= (counts[1] - counts[0]) * 1.1


def test_many_pieces_are_joined_in_groups():
    assert len(planned(joined(96, "n")).kernels) == 2  # one of all groups, one of these
    concats = collect(import_model(joined(150, 2)).module, lambda op: op.name == "tensor.concat")
    assert sorted(len(op.operands) for op in concats) == [5, *[30] * 5]


@pytest.mark.parametrize(("count", "rows"), [(41, "n"), (70, 2)])
def test_values_of_many_pieces(count: int, rows: int | str):
    pieces = [
        np.full((number % 5 + 1 if isinstance(rows, str) else rows, 3), number, np.float32) for number in range(count)
    ]
    module = tw.compile(joined(count, rows), workers=0, cache=False)
    np.testing.assert_array_equal(module(*pieces)[0], np.concatenate(pieces))


def test_sizes_over_each_other_are_right():
    module = tw.compile(resized(12), workers=0, cache=False)
    for n in (1, 7, 100):
        x = np.arange(n, dtype=np.float32)
        size = n
        for _ in range(12):
            size = min((size * 3 + size // 3) // 4, size)
        np.testing.assert_array_equal(module(x)[0], x[:size])


def test_a_detector_with_its_post_processing_is_planned(shared_models):
    folder = shared_models / "fcos_small"
    model = import_model(folder / "model.onnx")
    assert len(collect(model.module, lambda _: True)) < 40_000
    texts = [str(extent) for info in model.outputs for extent in info.shape]
    assert max(map(len, texts)) < 200
