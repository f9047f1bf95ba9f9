"""Operands of known shapes that do not fit each other, or the operator: refused at the import, in one line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx_case import node_model

import tilewright as tw
from tilewright.frontends import import_model


def f(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def i(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


# Operator, inputs, which of them are constants, attributes, and what is said.
MISFITS: list[tuple[str, Sequence[np.ndarray], Sequence[int], dict[str, Any], str]] = [
    ("Gemm", [f(3, 7), f(7, 4), f(1, 5)], [], {}, "extents 5 and 4 do not broadcast"),
    ("PRelu", [f(3, 5), f(3, 6)], [], {}, "extents 6 and 5 do not broadcast"),
    ("PRelu", [f(3, 5), f(0)], [], {}, "extents 0 and 5 do not broadcast"),
    ("LayerNormalization", [f(2, 4), f(5)], [], {}, "extents 5 and 4 do not broadcast"),
    ("MatMul", [f(2, 3, 4), f(1, 2, 3, 4, 5)], [], {}, "extents 2 and 3 do not broadcast"),
    ("Compress", [f(3, 4), np.ones((2, 3), bool)], [], {"axis": 0}, r"condition has shape \[2, 3\], it must be \[n\]"),
    ("ReverseSequence", [f(4, 3), i(1, 2)], [], {}, r"sequence_lens has shape \[2\] for a batch of 3"),
    ("InstanceNormalization", [f(3), f(3), f(3)], [], {}, r"x has shape \[3\], it must be \[n c \*s\]"),
    ("TopK", [f(3), i()], [1], {}, r"input 'K' of shape \[0\] must have 1 elements"),
    ("DFT", [f(1, 8, 1), i()], [], {}, "'dft_length' of shape .* must have 1 elements"),
]


@pytest.mark.parametrize("op", ["Loop", "Scan"])
def test_a_carried_value_that_is_left_out_is_refused(op: str) -> None:
    state = helper.make_tensor_value_info("s", TensorProto.FLOAT, [3])
    heads: list[tuple[str, int]] = [("i", TensorProto.INT64), ("k", TensorProto.BOOL)] if op == "Loop" else []
    inputs = [*(helper.make_tensor_value_info(name, dtype, []) for name, dtype in heads), state]
    made = [helper.make_tensor_value_info(f"{i.name}_out", i.type.tensor_type.elem_type, []) for i in inputs[-2:]]
    nodes = [helper.make_node("Identity", [i.name], [o.name]) for i, o in zip(inputs[-2:], made, strict=True)]
    attributes: dict[str, Any] = {"body": helper.make_graph(nodes, "body", inputs, made)}
    attributes |= {} if op == "Loop" else {"num_scan_inputs": 1}
    given = ["count", "", ""] if op == "Loop" else [""]
    node = helper.make_node(op, given, ["y"], name="n", **attributes)
    count = helper.make_tensor_value_info("count", TensorProto.INT64, [])
    graph = helper.make_graph([node], "g", [count], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    with pytest.raises(tw.UnsupportedError, match=rf"{op} \(n\): input \d is missing"):
        import_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10))


@pytest.mark.parametrize("case", MISFITS, ids=lambda case: f"{case[0]}-{case[4][:12]}")
def test_shapes_that_do_not_fit_are_refused(case: tuple[str, Sequence[np.ndarray], Sequence[int], Any, str]) -> None:
    op, arrays, known, attributes, says = case
    model, _ = node_model(op, arrays, known=known, outputs=2 if op == "TopK" else 1, opset=20, **attributes)
    for output, dtype in zip(model.graph.output, (TensorProto.FLOAT, TensorProto.INT64), strict=False):
        output.type.tensor_type.elem_type = dtype  # which onnx leaves out where it finds that nothing fits
    with pytest.raises(tw.ModelError, match=rf"{op}\): .*{says}") as caught:
        import_model(model)
    assert "\n" not in str(caught.value)
