"""Tensors as text for people: ``x float32[batch=1..9,16]``."""

from __future__ import annotations

from typing import Any

from . import dims
from .model import TensorInfo
from .printed import name_text
from .size_texts import short_name


def tensor_text(info: TensorInfo) -> str:
    """An input or output for people, in the notation of ``--input-shape``; of a long expression a name."""
    if not info.ranked:  # in the way of the type of an unranked tensor in MLIR
        return f"{name_text(info.name)} {info.dtype}[*]"
    extents = (short_name(dims.format_extent(n, f"{info.name}.{axis}")) for axis, n in enumerate(info.shape))
    return f"{name_text(info.name)} {info.dtype}[{','.join(map(name_text, extents))}]"


def tensor_record(info: TensorInfo) -> dict[str, Any]:
    """An input or output for JSON; its shape is None where not even the rank is known."""
    return {"name": info.name, "shape": info.shape if info.ranked else None, "dtype": info.dtype}
