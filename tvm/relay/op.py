"""``tvm.relay.op``: operators by name, to choose among a network's kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from ...core.errors import ModelError
from ..absent import refuse_name

__all__ = ["Op", "get", "nn"]

# The words in the names of the kernels that compute an operator.
_WORDS = {
    "nn.batch_matmul": ("matmul",),
    "nn.conv1d": ("conv",),
    "nn.conv2d": ("conv", "winograd"),
    "nn.conv2d_transpose": ("conv",),
    "nn.conv3d": ("conv",),
    "nn.dense": ("matmul",),
    "nn.matmul": ("matmul",),
}


@dataclass(frozen=True)
class Op:
    """An operator; ``words`` are in the names of its kernels."""

    name: str

    @property
    def words(self) -> tuple[str, ...]:
        """See above."""
        return _WORDS[self.name]

    def __str__(self) -> str:
        return f"Op({self.name})"


def get(op_name: str) -> Op:
    """The operator of a name. Raises ModelError for those that are no kernels of their own."""
    if op_name not in _WORDS:
        raise ModelError(f"operator '{op_name}' has no kernels of its own: those that have are {', '.join(_WORDS)}")
    return Op(op_name)


class _Operators:
    """``relay.op.nn``: ``relay.op.nn.conv2d`` is an operator, as older scripts write it."""

    def __getattr__(self, name: str) -> Op:
        if name.startswith("__"):
            raise AttributeError(name)
        return get(f"nn.{name}")


nn = _Operators()


def __getattr__(name: str) -> NoReturn:
    refuse_name("relay.op", name, __all__)
