"""Loops for what no structured op expresses: ``scf.for`` and ``scf.while`` that carry tensors, or scalars in a body."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ..core.sizes import Extent
from . import builders, extents, ir, scalars, scf, tensor
from .walk import collect, integer_of

States = Sequence[ir.Value]


def sequential(
    counts: Sequence[Extent | ir.Value], states: States, step: Callable[[States, States], States]
) -> list[ir.Value]:
    """A nest of loops, the last the innermost: ``states = step(indices, states)``; gives the last states.

    A loop of one iteration is none: its index is the constant 0. Tensors among the states keep their shapes.
    """
    shapes = [builders.shape_of(v) if isinstance(v.type, ir.RankedTensorType) else () for v in states]

    def noted(carried: States) -> list[ir.Value]:
        return [extents.note(value, shape) for value, shape in zip(carried, shapes, strict=True)]

    return noted(_nest(list(counts), [], list(states), lambda at, carried: step(at, noted(carried))))


def _nest(
    counts: list[Extent | ir.Value],
    at: list[ir.Value],
    states: list[ir.Value],
    step: Callable[[States, States], States],
) -> list[ir.Value]:
    if len(at) == len(counts):
        return list(step(at, states))
    count = counts[len(at)]
    zero = index(0)
    if isinstance(count, int) and count == 1:
        return _nest(counts, [*at, zero], states, step)
    loop = scf.ForOp(zero, count if isinstance(count, ir.Value) else index(count), index(1), states)
    with ir.InsertionPoint(loop.body):
        scf.YieldOp(_nest(counts, [*at, loop.induction_variable], list(loop.inner_iter_args), step))
    return list(loop.results)


def for_loop(count: Extent | ir.Value, states: States, step: Callable[[ir.Value, States], States]) -> list[ir.Value]:
    """``states = step(i, states)`` for i from 0 to ``count``, which may be known only at run time."""
    return _nest([count], [], list(states), lambda at, carried: step(at[0], carried))


def while_loop(
    limit: ir.Value | None,
    condition: ir.Value,
    states: States,
    step: Callable[[ir.Value, States], tuple[ir.Value, States]],
) -> list[ir.Value]:
    """``condition, states = step(i, states)`` while the condition (an i1) holds and i is below the limit."""
    inits = [index(0), condition, *states]
    types = [v.type for v in inits]
    loop: Any = scf.WhileOp(types, inits)
    places = [ir.Location.current] * len(types)
    before, after = (region.blocks.append(*types, arg_locs=places) for region in loop.regions)
    with ir.InsertionPoint(before):
        at, go, *_ = before.arguments
        below = [scalars.compare("lt", at, limit)] if limit is not None else []
        scf.ConditionOp(scalars.both(go, *below) if below else go, list(before.arguments))
    with ir.InsertionPoint(after):
        at, _, *old = after.arguments
        go, new = step(at, old)
        scf.YieldOp([scalars.add(at, index(1)), go, *new])
    return list(loop.results)[2:]


def branch(when: ir.Value, kind: ir.Type, then: Callable[[], ir.Value], other: Callable[[], ir.Value]) -> ir.Value:
    """What one of two computes, of the type ``kind``: ``then`` where an i1 holds."""
    choice = scf.IfOp(when, [kind], has_else=True)
    for region, compute in zip(choice.regions, (then, other), strict=True):
        with ir.InsertionPoint(region.blocks[0]):
            scf.YieldOp([compute()])
    return choice.results[0]


def index(number: Extent) -> ir.Value:
    """A size as an index."""
    return scalars.const(number, ir.IndexType.get())


def at(x: ir.Value, where: Mapping[int, ir.Value], widths: Mapping[int, Extent] | None = None) -> ir.Value:
    """``x`` at one index of each axis in ``where``, without these axes: ``{1: i}`` is ``x[:, i]``.

    Axes that have one of the ``widths`` stay, with so many elements from the index on.
    """
    wide = widths or {}
    sizes = [wide.get(axis, 1 if axis in where else n) for axis, n in enumerate(builders.shape_of(x))]
    shape = [n for axis, n in enumerate(sizes) if axis not in where or axis in wide]
    if 0 in shape:  # where upstream has no valid offset
        return builders.empty(shape, builders.element_of(x))
    result = builders.ranked_type(shape, builders.element_of(x))
    return extents.note(tensor.ExtractSliceOp(result, x, *_slice_operands(sizes, where)).result, shape)


def store(
    x: ir.Value, into: ir.Value, where: Mapping[int, ir.Value], widths: Mapping[int, Extent] | None = None
) -> ir.Value:
    """``into`` with ``x`` at the place that ``at`` reads."""
    shape, wide = builders.shape_of(into), widths or {}
    if 0 in shape:
        return into
    sizes = [wide.get(axis, 1 if axis in where else n) for axis, n in enumerate(shape)]
    return extents.note(tensor.InsertSliceOp(x, into, *_slice_operands(sizes, where)).result, shape)


def _slice_operands(sizes: Sequence[Extent], where: Mapping[int, ir.Value]) -> tuple[Any, ...]:
    """Offsets, sizes and strides as the slices' builders take them: those of run time, then the static ones.

    A constant is a static one: where an operand is, upstream's canonicalization mixes up the sizes of a slice that
    leaves out axes (docs/mlir.md).
    """
    open_ = ir.ShapedType.get_dynamic_stride_or_offset()
    places = {axis: integer_of(value) for axis, value in where.items()}
    offsets = [open_ if (place := places.get(axis, 0)) is None else place for axis in range(len(sizes))]
    given, known = extents.split_mixed(list(sizes))
    return [where[axis] for axis in sorted(where) if places[axis] is None], given, [], offsets, known, [1] * len(sizes)


class Draft:
    """Ops that are made apart from the program, for a region whose types are known only once its ops are there.

    ``results`` are set by whoever fills it. Then the ops move to where they belong (``place``), or they are dropped.
    """

    def __init__(self, types: Sequence[ir.Type]) -> None:
        self._holder = ir.Operation.create("scf.execute_region", regions=1)
        self._block = self._holder.regions[0].blocks.append(*types, arg_locs=[ir.Location.current] * len(types))
        self.arguments = list(self._block.arguments)
        self.results: States = ()

    @contextmanager
    def insertion_point(self) -> Iterator[None]:
        """Emit into the draft; it is dropped where that fails."""
        try:
            with ir.InsertionPoint(self._block):
                yield
        except BaseException:
            self.drop()
            raise

    def place(self, values: States) -> list[ir.Value]:
        """Move the ops to the insertion point, with ``values`` as the arguments; gives the results."""
        given = dict(zip(self.arguments, values, strict=True))
        for old, new in given.items():
            old.replace_all_uses_with(new)
        point = ir.InsertionPoint.current
        for op in list(self._block.operations):
            if point.ref_operation is not None:
                op.operation.move_before(point.ref_operation)
            else:
                point.block.append(op.operation)
        self.drop()
        return [given.get(value, value) for value in self.results]

    def find_ops(self, wanted: Callable[[ir.Operation], bool]) -> list[ir.Operation]:
        """The ops of the draft, at any depth, that ``wanted`` takes."""
        return collect(self._holder, wanted)

    def drop(self) -> None:
        """Erase what was not placed."""
        extents.forget_block(self._block)
        self._holder.erase()


def initial_of(loop: ir.Operation, argument: ir.Value) -> ir.Value:
    """What a ``scf.for`` begins with in place of an argument of its body that it hands on."""
    return loop.operands[2 + ir.BlockArgument(argument).arg_number]  # after the bounds, as after the counter
