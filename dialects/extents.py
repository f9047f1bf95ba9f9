"""Sizes that only the run knows, as SSA values: what a symbol is in the IR, and the shapes of dynamic tensors.

A builder that makes a tensor with open extents notes its shape in symbols, so that ``shape_of`` gives back what it was
made with and equal sizes stay equal. A symbol is bound to the index value that it stands for; expressions of symbols
are emitted where they are needed, at the current insertion point.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from ..core.atoms import Atom, atoms_of
from ..core.errors import DynamicExtentError
from ..core.sizes import Extent, Sym, has_dynamic_extents, is_less
from . import arith, cf, ir, tensor
from .types import DYNAMIC
from .walk import list_items


@dataclass
class _Scope:
    """The known extents within one module."""

    symbols: dict[str, ir.Value] = field(default_factory=dict)
    shapes: dict[ir.Value, tuple[Extent, ...]] = field(default_factory=dict)
    computed: dict[Sym | Atom, ir.Value] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=count)
    appending: bool = False


_SCOPE: ContextVar[_Scope] = ContextVar("extents")


@contextmanager
def scope(appending: bool = False) -> Iterator[None]:
    """Within the block symbols are those of one module, which is being made, or which one pass rewrites.

    ``appending``: where ops read sizes, these ops are added at the ends of blocks alone, as they come.
    """
    token = _SCOPE.set(_Scope(appending=appending))
    try:
        yield
    finally:
        _SCOPE.reset(token)


def bind(name: str, value: ir.Value) -> Sym:
    """The symbol ``name``, which stands for an index value that is not negative."""
    _SCOPE.get().symbols[name] = value
    return Sym(name)


def fresh(value: ir.Value, what: str, low: int | None = None) -> Sym:
    """A new symbol for an index value that is at least ``low``; ``what`` begins its name."""
    scope_ = _SCOPE.get()
    name = f"{what}.{next(scope_.numbers)}"
    scope_.symbols[name] = value
    return Sym(name, low)


def names() -> frozenset[str]:
    """The symbols that are bound so far."""
    return frozenset(_SCOPE.get().symbols)


def note(value: ir.Value, shape: Sequence[Extent]) -> ir.Value:
    """Remember the shape of a tensor with open extents; gives the tensor."""
    if has_dynamic_extents(shape):
        _SCOPE.get().shapes[value] = tuple(shape)
    return value


def forget(value: ir.Value) -> None:
    """Drop what was noted of a value whose type has changed."""
    _SCOPE.get().shapes.pop(value, None)


def forget_block(block: ir.Block) -> None:
    """Drop what was noted of a block's values, which are erased: others may come to lie where they were."""
    made, scope_ = set(_list_values(block)), _SCOPE.get()
    for value in made:
        forget(value)
    scope_.computed = {text: value for text, value in scope_.computed.items() if value not in made}


def _list_values(block: ir.Block) -> Iterator[ir.Value]:
    """The values of a block, and of those in its ops."""
    yield from block.arguments
    for op in list_items(block.operations):
        yield from list_items(op.operation.results)
        for region in list_items(op.operation.regions):
            for inner in list_items(region.blocks):
                yield from _list_values(inner)


def restate_shape(value: ir.Value, shape: Sequence[Extent]) -> ir.Value:
    """The tensor under other expressions of the same sizes."""
    if tuple(shape) == recall_shape(value):
        return value
    return note(tensor.CastOp(value.type, value).result, shape)


def recall_shape(value: ir.Value) -> tuple[Extent, ...]:
    """The shape of a tensor value; an open extent that nobody noted becomes a symbol of its own."""
    type_: Any = value.type
    if type_.has_static_shape:
        return tuple(type_.shape)
    scope_ = _SCOPE.get()
    if value not in scope_.shapes:
        extents = []
        for axis, extent in enumerate(type_.shape):
            extents.append(fresh(dim(value, axis), "size", 0) if extent == DYNAMIC else extent)
        scope_.shapes[value] = tuple(extents)
    return scope_.shapes[value]


def dim(value: ir.Value, axis: int) -> ir.Value:
    """``tensor.dim``, right behind what makes the tensor, so that it is in sight wherever that is."""
    owner = value.owner
    place = ir.InsertionPoint.at_block_begin(owner) if isinstance(owner, ir.Block) else ir.InsertionPoint.after(owner)
    with place:
        return tensor.DimOp(value, index_constant(axis)).result


def as_type_extent(extent: Extent) -> int:
    """The extent as a tensor type holds it."""
    return DYNAMIC if isinstance(extent, Sym) else extent


def index(extent: Extent) -> ir.Value:
    """The extent as an index value: a number at the insertion point, an expression once, behind what it is made of."""
    if isinstance(extent, int):
        return index_constant(extent)
    scope_ = _SCOPE.get()
    if extent not in scope_.computed:
        for atom in atoms_of(extent, scope_.computed):
            scope_.computed[atom] = _atom(atom) if atom.function else scope_.symbols[atom.name]
        values = {atom: scope_.computed[atom] for atoms, _ in extent.terms for atom in atoms}
        with _behind(list(values.values())):
            terms = [_multiply_values([values[atom] for atom in atoms], factor) for atoms, factor in extent.terms]
            scope_.computed[extent] = functools.reduce(arith.addi, terms)
    return scope_.computed[extent]


def split_mixed(extents: Sequence[Extent]) -> tuple[list[ir.Value], list[int]]:
    """Extents as ops take them: the values of the open ones, and a list in which a mark stands for each of them."""
    values = [index(extent) for extent in extents if isinstance(extent, Sym)]
    return values, [as_type_extent(extent) for extent in extents]


def demand_equal(a: Extent, b: Extent, otherwise: str) -> None:
    """Refuse sizes that differ: ValueError for numbers, else a check that the program makes when it runs."""
    if a == b:
        return
    if isinstance(a, int) and isinstance(b, int):
        raise ValueError(f"{otherwise}: {a} is not {b}")
    cf.assert_(arith.cmpi(arith.CmpIPredicate.eq, index(a), index(b)), f"{otherwise}: {a} is not {b}")


def demand_less(a: Extent, b: Extent, otherwise: str) -> None:
    """Refuse sizes unless ``a < b``: ValueError where that is known to fail, else a check when the program runs."""
    try:
        holds = is_less(a, b)
    except DynamicExtentError:
        cf.assert_(arith.cmpi(arith.CmpIPredicate.slt, index(a), index(b)), f"{otherwise}: {a} is not less than {b}")
        return
    if not holds:
        raise ValueError(f"{otherwise}: {a} is not less than {b}")


def _atom(atom: Atom) -> ir.Value:
    """A function of extents whose atoms are there."""
    open_ = [index(arg) for arg in atom.args if isinstance(arg, Sym)]
    with _behind(open_):
        given = iter(open_)
        return _apply(atom, [next(given) if isinstance(arg, Sym) else index_constant(arg) for arg in atom.args])


def _apply(atom: Atom, args: Sequence[ir.Value]) -> ir.Value:
    match atom.function:
        case "sum":
            return args[0]
        case "floordiv":
            return arith.floordivsi(*args)
        case "mod":
            return arith.subi(args[0], arith.muli(arith.floordivsi(*args), args[1]))
        case "min":
            return arith.minsi(*args)
        case "max":
            return arith.maxsi(*args)
    how = arith.CmpIPredicate.eq if atom.function == "if_equal" else arith.CmpIPredicate.slt
    return arith.select(arith.cmpi(how, args[0], args[1]), args[2], args[3])


def _behind(values: Sequence[ir.Value]) -> ir.InsertionPoint:
    """A place where all of the values are there, and that is before everything that reads what is made of them."""
    if _SCOPE.get().appending and (place := _at_end(values)) is not None:
        return place
    last = functools.reduce(lambda a, b: b if _is_later(b, a) else a, values)
    owner = last.owner
    return ir.InsertionPoint.at_block_begin(owner) if isinstance(owner, ir.Block) else ir.InsertionPoint.after(owner)


def _at_end(values: Sequence[ir.Value]) -> ir.InsertionPoint | None:
    """The end, so far, of the innermost block with any of the values, if the current one is that or lies in it.

    That takes no comparison of places, for which MLIR numbers all ops of a block again whenever some have been added.
    """
    current = ir.InsertionPoint.current
    made = [v.owner if isinstance(v.owner, ir.Block) else v.owner.operation.block for v in values]
    block, place = current.block, current
    while current.ref_operation is None:
        if any(block == each for each in made):
            return place
        holder = block.owner.operation
        if holder.parent is None:
            break
        block, place = holder.block, ir.InsertionPoint(holder)
    return None


def _is_later(value: ir.Value, other: ir.Value) -> bool:
    """Return whether a value is made after another, or inside of the region of a later op."""
    made, before = value.owner, other.owner
    block, outer = (owner if isinstance(owner, ir.Block) else owner.operation.block for owner in (made, before))
    if block == outer:
        if isinstance(made, ir.Block) or isinstance(before, ir.Block):
            return isinstance(before, ir.Block) and not isinstance(made, ir.Block)
        return before.operation.is_before_in_block(made.operation)
    while not isinstance(op := block.owner.operation, ir.Module) and op.parent is not None:
        block = op.block
        if block == outer:
            return True
    return False


def _multiply_values(values: Sequence[ir.Value], factor: int) -> ir.Value:
    """The product of values and a number."""
    factors = [*values, *([index_constant(factor)] if factor != 1 or not values else [])]
    return functools.reduce(arith.muli, factors)


def index_constant(number: int) -> ir.Value:
    """A constant of type index."""
    return arith.ConstantOp(ir.IndexType.get(), number).result
