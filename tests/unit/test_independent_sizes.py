"""Programs of several open sizes that are not the same: right at any sizes of each, whatever the others are."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from samples import campaign

import tilewright as tw
from tilewright.tools.debugging.oracle import make_session

SIZES = (1, 3, 33, 300, 700)


def model(nodes: Sequence[onnx.NodeProto], inputs: dict[str, Sequence[str | int]], **numbers: list[int]):
    """A model whose inputs are floats; ``numbers`` are constants."""
    given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()]
    known = [helper.make_tensor(name, TensorProto.INT64, [len(v)], v) for name, v in numbers.items()]
    result = helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)
    graph = helper.make_graph(list(nodes), "g", given, [result], known)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def node(op: str, inputs: str, output: str, **attributes: Any) -> onnx.NodeProto:
    """A node; the names of inputs are parted by blanks."""
    return helper.make_node(op, inputs.split(), [output], name=output, **attributes)


def check(made: onnx.ModelProto, names: Sequence[str], sizes: Sequence[Sequence[int]], threads: int = 2) -> None:
    """Compile once, and run with each tuple of ``sizes`` of the ``names``, against onnxruntime."""
    session = make_session(made)
    program = tw.compile(made, workers=0, num_threads=threads)
    rng = np.random.default_rng(0)
    for bound in sizes:
        size = dict(zip(names, bound, strict=True))
        given = {}
        for value in made.graph.input:
            shape = [size[d.dim_param] if d.dim_param else d.dim_value for d in value.type.tensor_type.shape.dim]
            given[value.name] = rng.normal(size=shape).astype(np.float32)
        want, [got] = np.asarray(session.run(None, given)[0]), program.run(given)
        assert got.shape == want.shape, bound
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5, err_msg=str(bound))


ALL_PAIRS = list(itertools.product(SIZES, repeat=2))


@campaign("Mul-ReduceMax", "Sub-ReduceSum", "Mul-ReduceMean", "Sub-ReduceL2", "Mul-ReduceProd", "Sub-ReduceLogSumExp")
@pytest.mark.parametrize(
    "reduction", ["ReduceMax", "ReduceSum", "ReduceMean", "ReduceL2", "ReduceProd", "ReduceLogSumExp"]
)
@pytest.mark.parametrize("binary", ["Mul", "Sub"])
def test_a_vector_and_what_another_is_reduced_to(binary: str, reduction: str):
    made = model([node(reduction, "b", "r", keepdims=0), node(binary, "x r", "y")], {"x": ["n"], "b": ["m"]})
    check(made, "nm", ALL_PAIRS)


def test_a_product_whose_inner_extent_only_one_operand_knows():
    """The other operand is open along the sum, too: the blocks of its op took that for a size of the run."""
    ones = node("ConstantOfShape", "shape", "ones", value=helper.make_tensor("v", TensorProto.FLOAT, [1], [1.0]))
    made = model([ones, node("MatMul", "ones x", "y")], {"x": ["a", "b", "k", "n"]}, shape=[1, 1, 1, 2])
    check(made, "abkn", [(1, 1, 2, 1), (2, 9, 2, 70), (3, 8, 2, 64)])


@pytest.mark.parametrize("keepdims", [0, 1])
def test_a_vector_and_a_matrix_that_is_reduced_whole(keepdims: int):
    made = model(
        [node("ReduceMax", "b", "r", keepdims=keepdims), node("Mul", "x r", "y")], {"x": ["n"], "b": ["m", "k"]}
    )
    check(made, "nmk", list(itertools.product((1, 33, 300), repeat=3)))


def test_a_vector_and_the_norm_of_a_matrix():
    made = model([node("ReduceL2", "b", "r", keepdims=0), node("Sub", "x r", "y")], {"x": ["n"], "b": ["m", "k"]})
    check(made, "nmk", list(itertools.product((1, 33, 300), repeat=3)))


def test_rows_of_a_concat_and_a_vector():
    nodes = [
        node("Concat", "p q", "c", axis=0),
        node("ReduceMin", "c last", "r", keepdims=0),
        node("Slice", "r zero length", "s"),
        node("Min", "s v", "y"),
    ]
    shape = [helper.make_node("Shape", ["v"], ["length"])]
    made = model([*shape, *nodes], {"p": ["a", "b"], "q": ["c", "b"], "v": ["a"]}, last=[-1], zero=[0])
    check(made, "abc", [(1, 33, 33), (5, 7, 1), (33, 1, 2), (700, 3, 300)])


def test_rows_of_a_concat_and_a_vector_of_one_element():
    nodes = [
        node("Concat", "p q", "c", axis=0),
        node("ReduceMin", "c last", "r", keepdims=0),
        node("Min", "r v", "y"),
    ]
    made = model(nodes, {"p": ["a", "b"], "q": ["c", "b"], "v": ["a"]}, last=[-1])
    check(made, "abc", [(1, 33, 33), (1, 1, 7), (1, 700, 3), (1, 5, 300)])
    program = tw.compile(made, workers=0)
    with pytest.raises(tw.InputError, match="node 'y'"):
        program.run({name: np.zeros(shape, np.float32) for name, shape in (("p", (2, 3)), ("q", (1, 3)), ("v", (2,)))})


def test_columns_that_are_reduced_and_columns_of_another_matrix():
    nodes = [node("ReduceMax", "x axis", "r", keepdims=1), node("Mul", "r z", "y")]
    made = model(nodes, {"x": ["b", "n"], "z": ["b", "m"]}, axis=[-1])
    check(made, "bnm", [(2, 300, 7), (3, 7, 300), (1, 1, 33), (5, 33, 1), (1, 700, 300)])


def test_rows_weighed_by_the_softmax_of_others():
    nodes = [node("Softmax", "x", "s", axis=-1), node("ReduceMax", "s axis", "r", keepdims=1), node("Add", "z r", "y")]
    made = model(nodes, {"x": ["b", "n"], "z": ["b", "m"]}, axis=[-1])
    check(made, "bnm", [(2, 300, 7), (3, 7, 300), (1, 1, 33), (5, 33, 1)])


def test_a_square_and_what_its_rows_are_reduced_to():
    nodes = [node("ReduceSum", "x axis", "r", keepdims=0), node("Mul", "x r", "y")]
    made = model(nodes, {"x": ["n", "n"]}, axis=[1])
    check(made, "n", [(1,), (7,), (65,)])
