"""Layers of graph networks as PyTorch Geometric exports them: messages of edges, added up where they arrive."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from samples import campaign

import tilewright as tw
from tilewright.tools.debugging.oracle import make_session

NODES, EDGES, FEATURES, RESULTS = 13, 40, 5, 3
_GATHER = """
  source = Gather<axis = 0>(edges, first)
  target = Gather<axis = 0>(edges, second)
  h = MatMul(x, weight)
  messages = Gather<axis = 0>(h, source)
  count = Shape<start = 0, end = 1>(x)
  wide = Concat<axis = 0>(count, width)
  zeros = ConstantOfShape(wide)
  column = Unsqueeze(target, second)
"""
_EXPAND = "shape = Shape(messages) places = Expand(column, shape)"
_ADD = f"{_EXPAND} y = ScatterElements<axis = 0, reduction = 'add'>(zeros, places, messages)".replace("'", '"')
_LAYERS = {
    "add": _ADD,
    "rows": 'y = ScatterND<reduction = "add">(zeros, column, messages)',
    "mean": _ADD.replace("y =", "total =")
    + """
  arrived = Shape(target)
  ones = Expand(one, arrived)
  none = ConstantOfShape(count)
  degree = ScatterElements<axis = 0, reduction = "add">(none, target, ones)
  least = Max(degree, one)
  divisor = Unsqueeze(least, second)
  y = Div(total, divisor)
""",
    "max": _EXPAND
    + """
  lowest = Add(zeros, low)
  most = ScatterElements<axis = 0, reduction = "max">(lowest, places, messages)
  lonely = Less(most, low_enough)
  y = Where(lonely, nothing, most)
""",
    "attention": """
  from = MatMul(h, left)
  to = MatMul(h, right)
  a = Gather<axis = 0>(from, source)
  b = Gather<axis = 0>(to, target)
  sum = Add(a, b)
  score = LeakyRelu<alpha = 0.2>(sum)
  tall = Concat<axis = 0>(count, second)
  bottom = ConstantOfShape(tall)
  lowest = Add(bottom, low)
  most = ScatterElements<axis = 0, reduction = "max">(lowest, column, score)
  own = Gather<axis = 0>(most, target)
  less = Sub(score, own)
  power = Exp(less)
  total = ScatterElements<axis = 0, reduction = "add">(bottom, column, power)
  divisor = Gather<axis = 0>(total, target)
  share = Div(power, divisor)
  weighted = Mul(messages, share)
  """
    + _ADD.replace("messages", "weighted"),
}
RNG = np.random.default_rng(5)
CONSTANTS = {
    "weight": RNG.standard_normal((FEATURES, RESULTS)).astype(np.float32),
    "left": RNG.standard_normal((RESULTS, 1)).astype(np.float32),
    "right": RNG.standard_normal((RESULTS, 1)).astype(np.float32),
    "first": np.array(0),
    "second": np.array([1]),
    "width": np.array([RESULTS]),
    "one": np.ones(1, np.float32),
    "low": np.array(-3e38, np.float32),
    "low_enough": np.array(-1e38, np.float32),
    "nothing": np.array(0, np.float32),
}


def layer(kind: str, nodes: object = NODES, edges: object = EDGES) -> onnx.ModelProto:
    """The layer for graphs of these sizes."""
    body = _GATHER.replace("target = Gather<axis = 0>(edges, second)", "target = Gather<axis = 0>(edges, one_at)")
    inputs = f"float[{nodes}, {FEATURES}] x, int64[2, {edges}] edges"
    made = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["": 18]> g ({inputs}) => (float[{nodes}, {RESULTS}] y) '
        f"{{ {body} {_LAYERS[kind]} }}"
    )
    constants = {**CONSTANTS, "one_at": np.array(1)}
    made.graph.initializer.extend(onnx.numpy_helper.from_array(a, name) for name, a in constants.items())
    return made


@campaign("True-add", "False-rows", "True-mean", "False-max", "True-attention")
@pytest.mark.parametrize("kind", list(_LAYERS))
@pytest.mark.parametrize("open_", [False, True])
def test_layers(kind: str, open_: bool):
    model = layer(kind, "N", "E") if open_ else layer(kind)
    module = tw.compile(model, workers=0, cache=False)
    session = make_session(model)
    for nodes, edges in [(NODES, EDGES), (4, 1), (50, 300)] if open_ else [(NODES, EDGES)]:
        x = RNG.standard_normal((nodes, FEATURES)).astype(np.float32)
        ends = RNG.integers(0, nodes, (2, edges))
        [want] = session.run(None, {"x": x, "edges": ends})
        np.testing.assert_allclose(module(x, ends)[0], np.asarray(want), 1e-5, 1e-5)
