"""``tvm.runtime.ndarray``: as ``tvm.nd``."""

from ..nd import NDArray, array, cpu, cuda, device, empty

__all__ = ["NDArray", "array", "cpu", "cuda", "device", "empty"]
