"""Which kernels compute an operator: by the words in their names."""

from __future__ import annotations

from typing import Any

from ...core.errors import InputError, ModelError

_WORDS = {
    "nn.batch_matmul": ("matmul",),
    "nn.conv1d": ("conv",),
    "nn.conv2d": ("conv", "winograd"),
    "nn.conv2d_transpose": ("conv",),
    "nn.conv3d": ("conv",),
    "nn.dense": ("matmul",),
    "nn.matmul": ("matmul",),
}


def words_of(operators: Any) -> set[str]:
    """The words in the names of the kernels that compute operators.

    Raises InputError for what is no operator, and ModelError for those that have no kernels of their own.
    """
    found: set[str] = set()
    for each in operators:
        name = getattr(each, "op_name", None) or getattr(each, "name", None)
        if not isinstance(name, str):
            raise InputError("ops are operators, as relay.op.get('nn.conv2d') gives them: a kernel has one of these")
        if name not in _WORDS:
            known = ", ".join(_WORDS)
            raise ModelError(f"operator '{name}' has no kernels of its own: those that have are {known}")
        found.update(_WORDS[name])
    return found
