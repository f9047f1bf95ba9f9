"""Relay's operators by their kinds: each function is a conversion, and by its decorator what scripts call."""

from . import (
    convolution,
    dense,
    elementwise,
    images,
    movement,
    normalization,
    pooling,
    quantization,
    reduction,
    selection,
    shapes,
)

__all__ = [
    "convolution",
    "dense",
    "elementwise",
    "images",
    "movement",
    "normalization",
    "pooling",
    "quantization",
    "reduction",
    "selection",
    "shapes",
]
