"""``tvm.runtime.ndarray``: as ``tvm.nd``."""

from ..nd import Device, NDArray, array, cpu, cuda, device, empty

__all__ = ["Device", "NDArray", "array", "cpu", "cuda", "device", "empty"]
