"""``tvm.nd``: tensors with memory of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from ..core.errors import InputError
from ..runtime import nd
from ..runtime.nd import cpu, device
from .absent import refuse_name

__all__ = ["NDArray", "array", "cpu", "cuda", "device", "empty", "from_dlpack"]


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
    def ctx(self) -> Any:
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


def cuda(index: int = 0) -> NoReturn:
    """A GPU, which no program runs on: InputError."""
    raise InputError(f"device 'cuda:{index}' cannot be used: programs run on the CPU, tvm.cpu()")


def __getattr__(name: str) -> NoReturn:
    refuse_name("nd", name, __all__)
