"""Sizes that deserve a program of their own: what a user says of them, held against a model's inputs.

Shapes of inputs, sizes of symbols, or both: ``{"ids": (1, 128)}`` or ``{"batch": 1, "seq": 128}``; on the command line
``ids:1,128`` or ``batch=1,seq=128``. They have to say all that the inputs leave open.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from .dims import Dim, InputShapes, parse
from .errors import ModelError, TilewrightError
from .model import OBJECTS, TensorInfo
from .sizes import Extent, Sym, bounds_of, has_dynamic_extents

Sizes = Mapping[str, int | Sequence[int]]  # by name: an input's shape, a symbol's size
Shapes = dict[str, tuple[int, ...]]  # of all inputs that are tensors


def normalize_specializations(specialize: Sequence[Sizes] | None) -> tuple[Sizes, ...]:
    """The user's specializations as plain data. Raises ModelError for a value that gives no sizes."""
    if isinstance(specialize, Mapping | str):
        raise ModelError('specialize has to be a list, with the sizes of each program: [{"x": (1, 128)}]')
    return tuple(map(_check_sizes, specialize or ()))


def format_sizes(sizes: Sizes) -> str:
    """Sizes as ``--specialize`` takes them: ``ids:1,128 mask:1,128``, ``batch=1,seq=128``."""
    of_symbols = ",".join(f"{name}={size}" for name, size in sizes.items() if isinstance(size, int))
    words = [f"{name}:{','.join(map(str, size))}" for name, size in sizes.items() if not isinstance(size, int)]
    return " ".join([*words, of_symbols] if of_symbols else words)


def static_shapes_of(inputs: Sequence[TensorInfo]) -> Shapes:
    """The shapes of inputs that leave none open."""
    return {info.name: info.static_shape for info in inputs if info.dtype not in OBJECTS}


def name_specialization(found: Shapes, inputs: Sequence[TensorInfo]) -> str:
    """The name of a specialization: the shapes of those ``inputs`` that are dynamic in the program."""
    return format_sizes({info.name: found[info.name] for info in inputs if has_dynamic_extents(info.shape)})


@contextmanager
def naming_specialization(found: Shapes) -> Iterator[None]:
    """Let errors begin with the specialization that they are about."""
    try:
        yield
    except TilewrightError as error:
        raise type(error)(f"specialization {format_sizes(found)}: {error}") from error


def resolve(asked: Sequence[Sizes], inputs: Sequence[TensorInfo], what: str) -> list[Shapes]:
    """The inputs' shapes in each specialization of the model ``what``, each once.

    Raises ModelError where one does not fit the inputs, or leaves a size open.
    """
    made = [_resolve(sizes, inputs, f"{what}: specialization {format_sizes(sizes) or 'of nothing'}") for sizes in asked]
    return [found for i, found in enumerate(made) if found not in made[:i]]


def fix_sizes(inputs: Sequence[TensorInfo], given: InputShapes, what: str) -> tuple[TensorInfo, ...]:
    """The inputs of the compiled program ``what`` with the sizes that a user gives for a run of it.

    What is not given, or "?", stays open. Raises ModelError for what is no number, or does not fit the program.
    """
    bound: dict[Extent, int] = {}
    symbols = [n for info in inputs for n in info.shape if isinstance(n, Sym)]
    for name, said in given.items():
        if not isinstance(said, (int, str)):
            _bind_shape(_input(name, inputs, what), [_for_run(name, n, what) for n in said], bound, what)
        elif (size := _for_run(name, said, what)) is not None:
            _bind(_symbol(name, symbols, what), size, bound, what)
    return tuple(replace(info, shape=tuple(bound.get(n, n) for n in info.shape)) for info in inputs)


def _for_run(name: str, said: int | str, what: str) -> int | None:
    """A number, or None for "?"."""
    size = parse(said) if isinstance(said, str) else said
    if isinstance(size, int):
        return size
    if size == Dim():
        return None
    raise ModelError(f"{what}: '{said}' for '{name}' is not a size: it is compiled already, so give a number for a run")


def _check_sizes(sizes: Any) -> Sizes:
    if not isinstance(sizes, Mapping):
        raise ModelError(f'specialize has {sizes!r} where sizes by name are needed: {{"x": (1, 128)}}')
    return {name: _as_integers(name, size) for name, size in sizes.items()}


def _as_integers(name: str, size: Any) -> int | tuple[int, ...]:
    """A size, or a shape, in Python's own numbers."""
    several = isinstance(size, Sequence) and not isinstance(size, str)
    extents = tuple(map(_as_integer, size)) if several else (_as_integer(size),)
    numbers = tuple(n for n in extents if n is not None and n >= 0)
    if len(numbers) < len(extents):
        shown = ",".join(map(str, size)) if several else size
        raise ModelError(f"specialize has '{shown}' for '{name}': sizes are numbers that are not negative")
    return numbers if several else numbers[0]


def _as_integer(value: Any) -> int | None:
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return None


def _resolve(sizes: Sizes, inputs: Sequence[TensorInfo], where: str) -> Shapes:
    tensors = {info.name: info for info in inputs if info.dtype not in OBJECTS}
    bound: dict[Extent, int] = {}
    symbols = [n for info in tensors.values() for n in info.shape if isinstance(n, Sym)]
    if not symbols:
        raise ModelError(f"{where}: no input has a dynamic size, so the program has these sizes, or none")
    for name, size in sizes.items():
        if isinstance(size, int):
            _bind(_symbol(name, symbols, where), size, bound, where)
        else:
            _bind_shape(_input(name, inputs, where), size, bound, where)
    left = next((n for n in symbols if n not in bound), None)
    if left is not None:
        example = format_sizes({i.name: [1 if isinstance(n, Sym) else n for n in i.shape] for i in tensors.values()})
        raise ModelError(f"{where}: leaves '{left}' open; give all sizes, as in {example}")
    return {name: tuple(bound[n] if isinstance(n, Sym) else n for n in info.shape) for name, info in tensors.items()}


def _symbol(name: str, symbols: Sequence[Sym], where: str) -> Sym:
    found = next((symbol for symbol in symbols if _symbol_name(symbol) == name), None)
    if found is None:
        known = ", ".join(dict.fromkeys(map(_symbol_name, symbols))) or "none"
        raise ModelError(f"{where}: there is no size '{name}'; those of the inputs are {known}")
    return found


def _symbol_name(symbol: Sym) -> str:
    return str(symbol).strip("'")


def _input(name: str, inputs: Sequence[TensorInfo], where: str) -> TensorInfo:
    found = next((info for info in inputs if info.name == name), None)
    if found is None:
        raise ModelError(f"{where}: has no input '{name}'; its inputs are {', '.join(i.name for i in inputs)}")
    if found.dtype in OBJECTS:
        raise ModelError(f"{where}: input '{name}' is a {found.dtype}, which has no shape: leave it out")
    return found


def _bind_shape(info: TensorInfo, shape: Sequence[int | None], bound: dict[Extent, int], where: str) -> None:
    if len(shape) != len(info.shape):
        raise ModelError(f"{where}: input '{info.name}' has {len(info.shape)} dimensions ({_format_shape(info.shape)})")
    for extent, size in zip(info.shape, shape, strict=True):
        if size is None:
            continue
        if isinstance(extent, Sym):
            _bind(extent, size, bound, where)
        elif extent != size:
            raise ModelError(
                f"{where}: input '{info.name}' is {_format_shape(info.shape)}, which does not allow {size}"
            )


def _bind(symbol: Sym, size: int, bound: dict[Extent, int], where: str) -> None:
    if size not in bounds_of(symbol):
        raise ModelError(
            f"{where}: '{symbol}' is {size}, which must be {bounds_of(symbol)}; widen --input-shape's range"
        )
    if bound.setdefault(symbol, size) != size:
        raise ModelError(f"{where}: '{symbol}' is {bound[symbol]} and {size}: give it one size")


def _format_shape(shape: Sequence[Extent]) -> str:
    return ",".join(map(str, shape)) or "a scalar"
