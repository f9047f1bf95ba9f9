"""Operators of torch's that become nodes of ONNX's: torch-mlir has no lowering for them, or a slow one.

A decomposition calls ``make_node``, which puts one of our own operators into the graph. torch-mlir takes that for an
operator that it does not know; before it lowers the rest, ``stand_ins.py`` makes a call of each, which the linalg
frontend replaces (``frontends/linalg/inline_nodes.py``).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import torch

from ..nodes import Constant, OnnxNode

_MOST_RESULTS = 3
_NODE_LIBRARY = torch.library.Library("tilewright", "FRAGMENT")

ResultType = tuple[Sequence[int], torch.dtype]


def _make_results(results: str) -> Any:
    made = [torch.empty(shape, dtype=getattr(torch, dtype)) for shape, dtype in json.loads(results)]
    return made[0] if len(made) == 1 else tuple(made)


for _count in range(1, _MOST_RESULTS + 1):
    _made = ", ".join(["Tensor"] * _count)
    _NODE_LIBRARY.define(f"onnx_{_count}(Tensor[] inputs, str node, str results) -> ({_made})")
    torch.library.register_fake(
        f"tilewright::onnx_{_count}", lambda inputs, node, results: _make_results(results), lib=_NODE_LIBRARY
    )


def make_node(
    op: str,
    inputs: Sequence[torch.Tensor | Constant | None],
    results: Sequence[ResultType],
    domain: str = "",
    **attributes: Any,
) -> Any:
    """The results of a node of ONNX's, of these shapes and dtypes: a tensor, or a tuple of up to three."""
    given = tuple(_name_dtype(x.dtype) if isinstance(x, torch.Tensor) else x for x in inputs)
    dtypes = tuple(_name_dtype(dtype) for _, dtype in results)
    node = OnnxNode(op, given, dtypes, attributes, domain)
    shapes = json.dumps([[list(shape), _name_dtype(dtype)] for shape, dtype in results])
    operator = getattr(torch.ops.tilewright, f"onnx_{len(results)}")
    return operator([x for x in inputs if isinstance(x, torch.Tensor)], node.to_json(), shapes)


def _name_dtype(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
