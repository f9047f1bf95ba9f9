"""Complex tensors through every op of ONNX that takes them, compiled, against ONNX's reference."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pytest
from onnx import defs
from onnx.reference import ReferenceEvaluator
from onnx_case import node_model

import tilewright as tw

RANDOM = np.random.default_rng(7)


def numbers(*shape: int) -> np.ndarray:
    """Complex numbers; among them zeros of all signs and what is no number."""
    made = RANDOM.standard_normal(shape) + 1j * RANDOM.standard_normal(shape)
    special = np.array([0j, -0.0 - 0.0j, complex(0, np.nan), complex(-np.inf, 1)])
    flat = made.reshape(-1)
    flat[1 : 1 + 3 * len(special) : 3] = special[: len(flat[1 : 1 + 3 * len(special) : 3])]
    return made


def ints(*items: int) -> np.ndarray:
    return np.array(items, np.int64)


X = numbers(2, 3, 4)
IMAGE = numbers(1, 4, 6, 6)
GRID = RANDOM.uniform(-1.2, 1.2, (1, 3, 5, 2)).astype(np.float32)

# Op, inputs (complex ones get the dtype that is tested), positions of known inputs, attributes.
Case = tuple[str, list[np.ndarray | None], Collection[int], dict[str, Any]]
CASES: list[Case] = [
    ("CenterCropPad", [X, ints(3, 2)], [1], {"axes": [1, 2]}),
    ("Compress", [X, np.array([True, False, True])], [], {"axis": 1}),
    ("Concat", [X, X[:, :1]], [], {"axis": 1}),
    ("DepthToSpace", [IMAGE], [], {"blocksize": 2}),
    ("Expand", [X[:, :1], ints(2, 1, 3, 4)], [1], {}),
    ("Flatten", [X], [], {"axis": 2}),
    ("Gather", [X, ints(2, 0, -1)], [], {"axis": 2}),
    ("GatherElements", [X, RANDOM.integers(0, 3, (2, 2, 4))], [], {"axis": 1}),
    ("GatherND", [X, ints(1, 2, 0, 1).reshape(2, 2)], [], {}),
    ("Identity", [X], [], {}),
    ("NonZero", [X], [], {}),
    ("OneHot", [ints(1, 0, 3), ints(4), numbers(2)], [1], {}),
    ("Pad", [X, ints(0, 1, 0, 0, 0, 2), np.array(2 - 3j)], [1, 2], {}),
    ("Pad", [X, ints(0, 1, 0, 0, 0, 2), np.array(2 - 3j)], [1], {}),
    ("Pad", [X, ints(0, 1, 0, 0, 0, 2)], [1], {}),
    ("Pad", [X, ints(0, 1, 0, 0, 0, 2)], [1], {"mode": "reflect"}),
    ("Reshape", [X, ints(4, -1)], [1], {}),
    ("ReverseSequence", [X, ints(2, 1, 2)], [], {"batch_axis": 1, "time_axis": 0}),
    ("ScatterElements", [X, ints(1, 1).reshape(2, 1, 1), numbers(2, 1, 1)], [], {"axis": 1}),
    ("ScatterND", [X, ints(1, 0).reshape(2, 1), numbers(2, 3, 4)], [], {}),
    ("Shape", [X], [], {}),
    ("Size", [X], [], {}),
    ("Slice", [X, ints(2, 0), ints(-9, 4), ints(1, 2), ints(-1, 2)], [1, 2, 3, 4], {}),
    ("SpaceToDepth", [IMAGE], [], {"blocksize": 2}),
    ("Split", [X], [], {"axis": 2, "num_outputs": 2}),
    ("Squeeze", [X[:, :1], ints(1)], [1], {}),
    ("Tile", [X, ints(1, 2, 3)], [1], {}),
    ("Transpose", [X], [], {"perm": [2, 0, 1]}),
    ("Transpose", [numbers(64, 64)], [], {}),
    ("Trilu", [X, np.array(1)], [], {"upper": 0}),
    ("Unique", [np.array([3 + 1j, 1j, 3 + 1j, 2.0])], [], {}),
    ("Unsqueeze", [X, ints(0, 3)], [1], {}),
    ("Where", [RANDOM.integers(0, 2, (3, 4)).astype(bool), X, np.array([1 - 2j])], [], {}),
    ("Where", [RANDOM.integers(0, 2, (3, 4)).astype(bool), X, np.array([1 - 2j])], [2], {}),
]


def cast(arrays: list[np.ndarray | None], dtype: str) -> list[np.ndarray | None]:
    """The complex arrays in this dtype."""
    return [a.astype(dtype) if a is not None and a.dtype.kind == "c" else a for a in arrays]


def compiled(model, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    return tw.compile(model).run(inputs)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_moves(case, dtype):
    op, arrays, known, attributes = case
    count = {"Split": 2, "Unique": 4}.get(op, 1)
    model, inputs = node_model(op, cast(arrays, dtype), known, count, **attributes)
    for got, want in zip(compiled(model, inputs), ReferenceEvaluator(model).run(None, inputs), strict=True):
        assert (got.dtype, got.shape) == (np.asarray(want).dtype, np.shape(want))
        np.testing.assert_array_equal(got, want)
