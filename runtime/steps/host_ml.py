"""Functions of the host for ``ai.onnx.ml``: maps, which are dicts, and probabilities of more than two classes."""

from __future__ import annotations

import itertools
from numbers import Real
from typing import Any

import numpy as np

from ...core.errors import InputError
from ...core.model import numpy_dtype
from .host import Attributes, register_host_function


@register_host_function("ZipMap")
def _zip_maps(attributes: Attributes, x: np.ndarray) -> tuple[Any, ...]:
    """For each row a map from the classes to its numbers."""
    classes = attributes["classes"]
    if len(classes) == 2:  # a third of the time of the other way
        one, other = classes
        return ([{one: a, other: b} for a, b in x.tolist()],)
    pairs = map(zip, itertools.repeat(classes), x.tolist())
    return (list(map(dict, pairs)),)  # a comprehension takes half as long again


@register_host_function("DictVectorizer")
def _vectorize(attributes: Attributes, given: dict[Any, Any]) -> tuple[Any, ...]:
    dtype = attributes["dtype"]
    default = "" if dtype == "string" else 0
    return (_read_held_row([given.get(word, default) for word in attributes["words"]], dtype),)


@register_host_function("CastMap")
def _cast_map(attributes: Attributes, given: dict[Any, Any]) -> tuple[Any, ...]:
    """The map's values in the order of its keys; with a ``size`` each at its key's place, if there is one."""
    dtype, size = attributes["dtype"], attributes["size"]
    if not all(isinstance(key, int | np.integer) for key in given):
        raise InputError("the keys of the map must be integers")
    held = _read_held_row([given[key] for key in sorted(given)], attributes["held"]).reshape(-1)
    made = _cast_items(held, dtype)
    if size is None:
        return (made.reshape(1, -1),)
    if min(given, default=0) < 0:
        raise InputError(f"the map has the key {min(given)}, its keys must not be negative")
    row = np.full((1, size), "0.f" if dtype == "string" else 0, made.dtype)  # onnxruntime's padding
    for key, value in zip(sorted(given), made, strict=True):
        if key < size:
            row[0, key] = value
    return (row,)


@register_host_function("couple_pairs")
def _couple_pairs(attributes: Attributes, shares: np.ndarray) -> tuple[Any, ...]:
    """Probabilities (rows, classes) from those of the first of each pair of classes (rows, pairs).

    The second method of Wu, Lin and Weng, "Probability estimates for multi-class classification by pairwise coupling",
    2004, whose steps end where libsvm's and onnxruntime's do: rows that are done are left as they are.
    """
    classes, rows = attributes["classes"], len(shares)
    upper, lower = np.triu_indices(classes, 1)
    against = np.zeros((rows, classes, classes))  # [i, j]: of i where it is i or j
    against[:, upper, lower], against[:, lower, upper] = shares, 1 - shares
    q = -against.transpose(0, 2, 1) * against
    diagonal = np.arange(classes)
    q[:, diagonal, diagonal] = np.square(against).sum(axis=1)
    p = np.full((rows, classes), 1 / classes)
    left = np.arange(rows)
    for _ in range(max(100, classes)):
        qp = np.einsum("rij,rj->ri", q[left], p[left])
        pqp = (p[left] * qp).sum(axis=1)
        going = np.abs(qp - pqp[:, None]).max(axis=1) >= 0.005 / classes
        left, qp, pqp = left[going], qp[going], pqp[going]
        if not left.size:
            break
        now, rule = p[left], q[left]
        for i in range(classes):
            own = rule[:, i, i]
            step = (pqp - qp[:, i]) / own
            now[:, i] += step
            pqp = (pqp + step * (step * own + 2 * qp[:, i])) / (1 + step) / (1 + step)
            qp = (qp + step[:, None] * rule[:, i]) / (1 + step)[:, None]
            now /= (1 + step)[:, None]
        p[left] = now
    return (p.astype(np.float32),)


def _read_held_row(items: list[Any], dtype: str) -> np.ndarray:
    """One row of what a map holds; InputError for what is not of the dtype."""
    if dtype == "string":
        if not all(isinstance(item, str) for item in items):
            raise InputError("the map must hold strings")
        return np.array(items, object).reshape(1, -1)
    if not all(isinstance(item, Real) for item in items):
        raise InputError(f"the map must hold numbers ({dtype})")
    try:
        return np.array(items, numpy_dtype(dtype)).reshape(1, len(items))
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"the map must hold numbers ({dtype}): {error}") from error


def _cast_items(items: np.ndarray, dtype: str) -> np.ndarray:
    """Strings or numbers of float32 as the others, or as int64: towards zero."""
    if dtype == "string":
        return items if items.dtype == object else np.array([f"{item:f}" for item in items.tolist()], object)
    try:
        numbers = items.astype(np.float64)
    except ValueError as error:
        raise InputError(f"the map holds a string that is no number: {error}") from error
    with np.errstate(invalid="ignore", over="ignore"):
        return numbers.astype(numpy_dtype(dtype))
