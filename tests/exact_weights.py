"""Weights whose products onnxruntime sums exactly.

Without VNNI it adds two products of uint8 and int8 in 16 bits, which saturate. Ours are exact on every CPU; tests of
ours against numpy and onnx's reference use all numbers.
"""

from __future__ import annotations

import numpy as np

LARGEST = 63  # 2 * 255 * 63 < 2 ** 15


def halve(numbers: np.ndarray) -> np.ndarray:
    """Weights of int8 in the range that does not saturate; others as they are."""
    return numbers // 2 if numbers.dtype == np.int8 else numbers
