"""Builders of tensor IR that frontends and passes share, in one namespace.

Each is used inside an InsertionPoint and a Location, takes and gives values of static shape, and emits what
docs/architecture.md allows in ``@main``. Arithmetic for their bodies is in ``dialects.scalars``.
"""

from __future__ import annotations

from .movement import cast_shape, concat, insert, pad, reshape, slice_, transpose
from .structured import (
    MAX_CONSTANT,
    MapSpec,
    affine_map,
    broadcast_shape,
    constant,
    contract,
    contraction,
    convert_elements,
    element_of,
    elementwise,
    empty,
    extract,
    full,
    generic,
    index_constant,
    index_map,
    is_splat,
    linalg_index,
    ranked,
    reduce,
    scalar,
    shape_of,
    stretched,
)
from .windows import conv, pool

__all__ = [
    "MAX_CONSTANT",
    "MapSpec",
    "affine_map",
    "broadcast_shape",
    "cast_shape",
    "concat",
    "constant",
    "contract",
    "contraction",
    "conv",
    "convert_elements",
    "element_of",
    "elementwise",
    "empty",
    "extract",
    "full",
    "generic",
    "index_constant",
    "index_map",
    "insert",
    "is_splat",
    "linalg_index",
    "pad",
    "pool",
    "ranked",
    "reduce",
    "reshape",
    "scalar",
    "shape_of",
    "slice_",
    "stretched",
    "transpose",
]
