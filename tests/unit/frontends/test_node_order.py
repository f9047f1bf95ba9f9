"""Files whose nodes are in any order: sorted, or refused with the node that cannot be placed."""

from __future__ import annotations

import itertools
import random

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import helper

import tilewright as tw
from tilewright.core.errors import ModelError
from tilewright.frontends.onnx.proto.node_order import sort_nodes

BRANCHES = """
<ir_version: 8, opset_import: ["" : 18, "own" : 1]>
g (float[n, 3] x, bool c) => (float[n, 3] y) {
  a = Relu(x)
  b = own.twice(a)
  d = Exp(x)
  e = If(c) <then_branch = t () => (float[n, 3] u) { s = Add(b, d)  u = Neg(s) },
             else_branch = f () => (float[n, 3] v) { v = Mul(b, d) }>
  y = Sub(e, a)
}
<domain: "own", opset_import: ["" : 18]>
twice (p) => (r) { q = Abs(p)  o = Neg(q)  r = Sub(q, o) }
"""


def shuffled(seed: int) -> onnx.ModelProto:
    """The model of branches, with the nodes of all of its graphs in another order."""
    model, rng = onnx.parser.parse_model(BRANCHES), random.Random(seed)
    branches = [a.g for node in model.graph.node for a in node.attribute if a.HasField("g")]
    assert len(branches) == 2
    for holder in (*branches, *model.functions, model.graph):
        nodes = list(holder.node)
        del holder.node[:]
        holder.node.extend(rng.sample(nodes, len(nodes)))
    return model


def test_nodes_in_any_order_make_the_same_program():
    x = np.linspace(-2, 2, 12, dtype=np.float32).reshape(4, 3)
    plain = onnx.parser.parse_model(BRANCHES)
    before = plain.SerializeToString()
    sort_nodes(plain)
    assert plain.SerializeToString() == before
    for seed in range(3):
        model = shuffled(seed)
        given = model.SerializeToString()
        program = tw.compile(model, workers=0)
        assert model.SerializeToString() == given, "the caller's model is left alone"
        for condition in (True, False):
            [y] = program.run({"x": x, "c": np.array(condition)})
            a = np.maximum(x, 0)
            e = -(2 * a + np.exp(x)) if condition else 2 * a * np.exp(x)
            np.testing.assert_allclose(y, e - a, rtol=1e-6)


def test_nodes_keep_the_names_that_their_places_in_the_file_give():
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 18]> g (float[3] x) => (float[3] y) { y = Neg(b) b = Nope(a) a = Relu(x) }'
    )
    with pytest.raises(tw.UnsupportedError, match="Nope_1"):
        tw.compile(model)
    sort_nodes(model)
    assert [node.name for node in model.graph.node] == ["Relu_2", "Nope_1", "Neg_0"]


def test_a_long_chain_from_its_end():
    """Neither recursion nor a walk for each node."""
    names = [f"v{i}" for i in range(50_001)]
    nodes = [helper.make_node("Neg", [a], [b]) for a, b in itertools.pairwise(names)]
    graph = helper.make_graph(
        nodes[::-1],
        "g",
        [helper.make_tensor_value_info("v0", 1, [2])],
        [helper.make_tensor_value_info(names[-1], 1, [2])],
    )
    model = helper.make_model(graph)
    sort_nodes(model)
    assert [node.output[0] for node in model.graph.node] == names[1:]


@pytest.mark.parametrize(
    "nodes, words",
    [
        ("y = Neg(b) b = Relu(y)", r"node '\w+_\d' \(\w+\) depends on its own output .*: the graph has a cycle"),
        ("y = Neg(y)", r"node 'Neg_0' \(Neg\) depends on its own output"),
        ("y = Neg(b)", "node 'Neg_0' \\(Neg\\) reads 'b', which no node, input or initializer makes"),
        ("c = Cast<to = 9>(x) y = If(c) <then_branch = t () => (float[3] u) { u = Neg(gone) },"
         " else_branch = f () => (float[3] v) { v = Neg(x) }>", r"\(If\) reads 'gone'"),
    ],
)  # fmt: skip
def test_what_has_no_order_is_refused(nodes: str, words: str):
    text = f'<ir_version: 8, opset_import: ["" : 18]> g (float[3] x) => (float[3] y) {{ {nodes} }}'
    with pytest.raises(ModelError, match=words):
        tw.compile(onnx.parser.parse_model(text))
