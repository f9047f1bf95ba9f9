"""Operators that a user adds: the functions that compute them when a program runs, and the rules for what they give.

An operator is called by its domain and op, ``my.domain::MyOp``. Programs call its function as one of the host's;
``frontends/onnx/convert/custom.py`` imports its nodes, in a worker, and asks for the rules (``questions.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .dlpack import DLPACK_DTYPES
from .errors import InputError, ModelError
from .sizes import Extent, Sym

Shape = tuple[Extent | None, ...]
Result = tuple[Shape, str]

_ONNX = ("", "ai.onnx", "ai.onnx.ml", "ai.onnx.training", "ai.onnx.preview.training")


@dataclass(frozen=True)
class Operand:
    """An input, as a rule sees it.

    An extent is a number, a symbol (which supports arithmetic) or, for strings, None. ``shape`` is None if not even the
    rank is known, as for a sequence. ``value`` is set if the import knows it and it is small.
    """

    shape: Shape | None
    dtype: str
    value: np.ndarray | None = None


@dataclass(frozen=True)
class CustomOperator:
    """What computes an operator: a function of the host, and the rule for what it gives, if there is one; or a function
    that writes the computation as tensor expressions, ``compute``, and one that schedules that, if there is one."""

    function: Callable[..., Any] | None
    infer: Callable[..., Any] | None
    compute: Callable[..., Any] | None = None
    schedule: Callable[..., Any] | None = None


_OPERATORS: dict[str, CustomOperator] = {}


def operator_name(domain: str, op: str) -> str:
    """The full name of an operator."""
    return f"{domain}::{op}"


def is_operator(function: str) -> bool:
    """Return whether a program calls an operator of a user, and not a function of the runtime."""
    return "::" in function


def register_op(
    domain: str,
    op: str,
    function: Callable[..., Any] | None = None,
    infer: Callable[..., Any] | None = None,
    override: bool = False,
    compute: Callable[..., Any] | None = None,
    schedule: Callable[..., Any] | None = None,
) -> Any:
    """Let ``function``, or the one that is decorated, compute the nodes ``op`` of a ``domain``.

    With ``compute`` in place of a function, the operator is one of the compiler's own: ``compute(*tensors,
    **attributes)`` gets a ``te.Tensor`` for each input, and gives the tensor that is computed of them, or a tuple of
    such. It is called when a model is imported; what it writes becomes kernels, which are fused with their neighbours.
    With a ``schedule`` beside it, they have its loops and are fused with nothing: ``schedule(outputs)`` gets the list
    of tensors and gives their ``te.Schedule``.

    It is called as ``function(*inputs, **attributes)`` with numpy arrays that must not be written to (of text: of dtype
    object), None for an input that a node leaves out, and gives an array (anything with DLPack) or a tuple of them,
    which nobody may change afterwards. A packed function (``tw.get_global_func``) is called as ``function(*inputs,
    attributes)`` with tensors and a map, and gives a tensor or a list of them.

    ``infer`` is the rule for what it gives, called as ``infer(*operands, **attributes)`` when a model is imported, with
    an ``Operand`` (``shape``, ``dtype``, ``value``) for each input. It gives a pair of shape and dtype, or a list of
    such pairs; extents are numbers, expressions of the inputs' symbols, or None for what only the run knows. Without a
    rule, the model has to declare its outputs (``value_info``).

    It is registered in this process, before a model that has it is compiled, and before a program that calls it is
    loaded. InputError for ONNX's own domains, for what is no function, and for an operator that is registered already,
    unless it is to ``override``.
    """
    if function is None and compute is None:
        return lambda decorated: register_op(domain, op, decorated, infer, override)
    name = operator_name(domain, op)
    if domain in _ONNX:
        raise InputError(f"'{name}' cannot be registered: the domain is ONNX's own, give the operator one of yours")
    if not op or any(not part.isprintable() or "::" in part for part in (domain, op)):
        raise InputError(f"'{name}' cannot be registered: it is not the name of a domain and an operator")
    if compute is not None and (function is not None or infer is not None):
        raise InputError(
            f"'{name}' cannot be registered: compute says what it gives, and needs no function and no rule"
        )
    if schedule is not None and compute is None:
        raise InputError(f"'{name}' cannot be registered: a schedule is of what compute writes")
    for given in (each for each in (function, infer, compute, schedule) if each is not None):
        if not callable(given):
            raise InputError(f"'{name}' cannot be registered: a {type(given).__name__} is not a function")
    if name in _OPERATORS and not override:
        raise InputError(f"an operator '{name}' is registered already: override=True replaces it")
    _OPERATORS[name] = CustomOperator(function, infer, compute, schedule)
    return function if compute is None else compute


def registered_ops() -> frozenset[str]:
    """The names of all operators that this process knows."""
    return frozenset(_OPERATORS)


def written_ops() -> frozenset[str]:
    """The names of the operators that are written as tensor expressions."""
    return frozenset(name for name, operator in _OPERATORS.items() if operator.compute is not None)


def find(name: str) -> CustomOperator | None:
    """The operator of this name, if it is registered in this process."""
    return _OPERATORS.get(name)


def infer_results(
    name: str, operands: Sequence[Operand | None], attributes: Mapping[str, Any]
) -> tuple[Result, ...] | None:
    """The results of a registered operator by its rule; None if it has no rule.

    Raises a ModelError of one line if the rule raises anything, or returns anything but shapes and dtypes.
    """
    rule = _OPERATORS[name].infer
    if rule is None:
        return None
    try:
        made = rule(*operands, **attributes)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise ModelError(f"the rule of operator '{name}' (infer) failed: {reason}") from error
    try:
        return tuple(map(_check_result, [made] if _is_pair(made) else made))
    except (TypeError, ValueError, ArithmeticError) as error:
        raise ModelError(
            f"the rule of operator '{name}' (infer) gives {made!r}: give a pair of shape and dtype for each output"
        ) from error


def _is_pair(made: Any) -> bool:
    return isinstance(made, tuple) and len(made) == 2 and isinstance(made[1], str | np.dtype | type)


def _check_result(made: Any) -> Result:
    """A pair that a rule gives; TypeError or ValueError for what is none."""
    shape, dtype = made
    name = dtype if isinstance(dtype, str) else np.dtype(dtype).name
    if name != "string" and name not in DLPACK_DTYPES:
        raise ValueError(name)
    return tuple(map(_extent, shape)), name


def _extent(made: Any) -> Extent | None:
    if made is None or isinstance(made, Sym):
        return made
    extent = int(made)
    if extent != made or extent < 0:
        raise ValueError(made)
    return extent
