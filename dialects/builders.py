"""Builders of tensor IR that frontends and passes share, in one namespace.

Each is used inside an InsertionPoint and a Location, takes and gives tensors whose extents are numbers or symbols
(``dialects.extents``), and emits what docs/architecture.md allows in ``@main``. Arithmetic for their bodies is in
``dialects.scalars``.
"""

from __future__ import annotations

from .broadcasting import broadcast_shape, compare_extents, convert_elements, elementwise, keep_or_make, stretch
from .extents import index_constant
from .movement import cast_shape, concat, insert, pad, reshape, slice_, transpose
from .reductions import contract, contraction, reduce
from .structured import (
    MAX_CONSTANT,
    MapSpec,
    affine_map,
    constant,
    element_of,
    empty,
    extract,
    full,
    generic,
    index_map,
    is_splat,
    iterators_attr,
    linalg_index,
    ranked_type,
    scalar,
    shape_of,
)
from .windows import conv, pool

__all__ = [
    "MAX_CONSTANT",
    "MapSpec",
    "affine_map",
    "broadcast_shape",
    "cast_shape",
    "compare_extents",
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
    "iterators_attr",
    "keep_or_make",
    "linalg_index",
    "pad",
    "pool",
    "ranked_type",
    "reduce",
    "reshape",
    "scalar",
    "shape_of",
    "slice_",
    "stretch",
    "transpose",
]
