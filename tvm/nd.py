"""``tvm.nd``: tensors with memory of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from ..core.errors import InputError
from ..runtime import nd
from ..runtime.process.ffi import tvm_ffi
from .absent import refuse_name

__all__ = ["Device", "NDArray", "array", "cpu", "cuda", "device", "empty", "from_dlpack"]


class Device(tvm_ffi.Device):
    """The CPU, with what TVM says of it; what only other devices have is None there, too."""

    exist = True
    device_type = 1  # kDLCPU
    device_name = compute_version = max_clock_rate = max_thread_dimensions = None
    max_threads_per_block = max_shared_memory_per_block = multi_processor_count = warp_size = None

    @property
    def device_id(self) -> int:
        """Its number."""
        return self.index

    def sync(self, stream: Any = None) -> None:
        """Wait for its work, of which there is none: calls return when they are done."""


class NDArray(nd.NDArray):
    """A tensor on the CPU; ``asnumpy`` and ``copyto`` are TVM's."""

    def numpy(self) -> np.ndarray:
        """A copy of the elements, which later runs leave as it is."""
        return super().numpy().copy()

    def __setitem__(self, part: Any, value: Any) -> None:
        """Write to all elements, ``tensor[:] = array``, or to some, as numpy does."""
        np.asarray(super().numpy())[part] = value.numpy() if isinstance(value, nd.NDArray) else value

    def __getitem__(self, part: Any) -> Any:
        """A copy of some elements, as numpy gives them."""
        return self.numpy()[part]

    @property
    def device(self) -> Device:
        """The CPU."""
        return cpu()

    @property
    def ctx(self) -> Device:
        """The CPU, as older scripts ask for it."""
        return self.device

    def same_as(self, other: Any) -> bool:
        """Whether another tensor is this one."""
        return self is other

    def asnumpy(self) -> np.ndarray:
        """As ``numpy``."""
        return self.numpy()

    def copyto(self, target: Any) -> Any:
        """Write the elements to another tensor, or to a new one on a device."""
        if isinstance(target, nd.NDArray):
            return target.copyfrom(self.numpy())
        return array(self.numpy(), target)


def array(source: Any, device: Any = "cpu") -> NDArray:
    """A copy of an array, or of numbers in lists."""
    given = nd.array(source, device)
    made = empty(given.shape, given.dtype)
    made.copyfrom(given)
    return made


def empty(shape: int | Sequence[int], dtype: Any = "float32", device: Any = "cpu") -> NDArray:
    """A tensor of any content."""
    return wrap(nd.empty(shape, dtype, device).numpy())


def from_dlpack(source: Any) -> NDArray:
    """A tensor on the memory of what has DLPack, as torch's tensors."""
    return wrap(nd.array(source).numpy())


def wrap(source: np.ndarray) -> NDArray:
    """A tensor on the memory of an array."""
    return NDArray(source)


def device(name: str | tvm_ffi.Device, index: int = 0) -> Device:
    """The device of this name, "cpu" or "llvm". InputError for others, as programs run on the CPU."""
    found = nd.device(name, index)
    return Device(found.type, found.index)


def cpu(index: int = 0) -> Device:
    """The CPU. InputError for another index than 0."""
    return device("cpu", index)


def cuda(index: int = 0) -> NoReturn:
    """A GPU, which no program runs on: InputError."""
    raise InputError(f"device 'cuda:{index}' cannot be used: programs run on the CPU, tvm.cpu()")


def __getattr__(name: str) -> NoReturn:
    refuse_name("nd", name, __all__)
