"""Symbols become what the inputs say that they are, and inputs that do not fit are refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...core.errors import UnsupportedError
from ...core.model import TensorInfo
from ...core.sizes import Extent, Sym, bounds_of, floor_divide, symbols_of
from ...dialects import arith, extents, ir, tensor


@dataclass(frozen=True)
class _Given:
    """An index value that an input gives: its extent along an axis, or the number that it is."""

    input: str
    label: str  # names the value
    extent: Sym
    value: ir.Value
    is_scalar: bool


def bind_sizes(block: ir.Block, inputs: Sequence[TensorInfo], scalars: Mapping[str, Extent]) -> None:
    """Bind the symbols of all extents of ``inputs``, the block's first arguments, at its begin.

    ``scalars`` are what inputs of rank 0 hold. A symbol that is no extent itself is computed from one. The runtime
    holds extents to their ranges, and those that are one symbol to each other; here the program checks the rest.
    """
    behind = ir.InsertionPoint(block.operations[0])
    given = [
        one for info, a in zip(inputs, block.arguments, strict=False) for one in _find_sizes(block, info, a, scalars)
    ]
    for info, argument in zip(inputs, block.arguments, strict=False):
        extents.note(argument, info.shape)
    with behind:
        checked = []
        for one in sorted(given, key=lambda one: not one.extent.is_symbol):
            if one.extent.is_symbol and str(one.extent) not in extents.names():
                extents.bind(str(one.extent), one.value)
            elif one.is_scalar or not one.extent.is_symbol:
                checked.append(one)
        for one in checked:
            _solve(one)
        for one in checked:
            own = extents.bind(one.label, one.value)
            extents.demand_equal(own, one.extent, f"input '{one.input}' does not fit the others")
        for one in filter(lambda one: one.is_scalar, given):
            _demand_range(one)


def _find_sizes(
    block: ir.Block, info: TensorInfo, argument: ir.Value, scalars: Mapping[str, Extent]
) -> Iterator[_Given]:
    for axis, extent in enumerate(info.shape):
        if isinstance(extent, Sym):
            yield _Given(info.name, f"{info.name}.{axis}", extent, extents.dim(argument, axis), is_scalar=False)
    if isinstance(extent := scalars.get(info.name), Sym):
        with ir.InsertionPoint.at_block_begin(block):
            number = arith.index_cast(ir.IndexType.get(), tensor.ExtractOp(argument, []).result)
        yield _Given(info.name, info.name, extent, number, is_scalar=True)


def _solve(one: _Given) -> None:
    """Bind the symbol of ``factor * symbol + number`` if nothing else has bound it."""
    missing = symbols_of(one.extent) - extents.names()
    if not missing:
        return
    (atoms, factor), *rest = one.extent.terms
    if len(atoms) != 1 or atoms[0].function or any(others for others, _ in rest):
        raise UnsupportedError(f"input '{one.input}' has the size '{one.extent}', and no input has '{min(missing)}'")
    own = extents.bind(one.label, one.value)
    solved = floor_divide(own - sum(number for _, number in rest), factor)
    extents.bind(atoms[0].name, extents.index(solved))


def _demand_range(one: _Given) -> None:
    """Check that a number is one that its symbol may be."""
    within = bounds_of(one.extent)
    extents.bind(one.label, one.value)
    number, refusal = Sym(one.label, None), f"input '{one.input}' is out of range"
    if within.low is not None:
        extents.demand_less(within.low - 1, number, refusal)
    if within.high is not None:
        extents.demand_less(number, within.high + 1, refusal)
