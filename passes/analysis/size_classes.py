"""Which extents of a function's tensors are the same size, whatever the run's sizes are.

Equality is proved by the function's own ops: what one loop walks, what is made with one index value, what an op leaves
as it is. All that is not proved counts as different: ``?`` is not ``?``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from ...dialects import func, ir, tw
from ...dialects.walk import integer_of
from ..ir.dynamic_extent import DynamicExtent
from ..ir.kernel import count_of
from ..ir.maps import reassociation_of
from ..ir.routine_ops import is_append
from ..ir.structure import dim_of, indexing_maps, is_structured, is_tensor, list_ops, num_inputs, shape_of

SizeKey = tuple[Hashable, ...]  # an axis of a tensor, an index value, a number, a loop of an op

_SAME_SHAPE = {"tensor.cast": 0, "tensor.insert_slice": 1, "tensor.insert": 1, "linalg.fill": 1}
_RESHAPES = ("tensor.expand_shape", "tensor.collapse_shape")


class SizeClasses:
    """The classes of equal sizes among the extents of a function's tensors, and its index values."""

    def __init__(self, function: func.FuncOp) -> None:
        self._function = function
        self._parents: dict[SizeKey, SizeKey] = {}
        self._order: dict[SizeKey, int] = {}
        self._computed: dict[SizeKey, SizeKey] = {}
        for argument in function.arguments:
            self._add_axes(argument)
        for op in list_ops(function):
            for result in op.results:
                self._add_axes(result)
            self._note(op)
        self._note_result_sizes()

    def of(self, value: ir.Value) -> list[int]:
        """The extents of a tensor; those that only the run knows are equal where they are proved to be."""
        return [self._make_extent(_make_axis_key(value, i)) if n < 0 else n for i, n in enumerate(shape_of(value))]

    def loops(self, op: ir.Operation) -> list[int]:
        """The extents of a structured op's loops; one that no operand shows alone is a size of its own."""
        maps = indexing_maps(op)
        extents: list[int | None] = [None] * (maps[0].n_dims if maps else 0)
        for value, m in zip(op.operands, maps, strict=True):
            for n, expression in zip(shape_of(value) if m.results else [], m.results, strict=True):
                loop = dim_of(expression)
                if loop is not None and (extents[loop] is None or n >= 0):
                    extents[loop] = n if n >= 0 else self._make_extent(_make_loop_key(op, loop))
        return [self._make_extent(_make_loop_key(op, loop)) if n is None else n for loop, n in enumerate(extents)]

    def find_shared(self) -> list[tuple[tuple[int, int], ...]]:
        """The classes of more than one size that callers see: pairs of an argument's, then a result's, number and axis.

        An index argument has the axis -1. A class that a number is in is none.
        """
        numbers = {self._root(key) for key in self._parents if key[0] == "number"}
        values = [*self._function.arguments, *list_ops(self._function)[-1].operands]
        classes: dict[SizeKey, list[tuple[int, int]]] = {}
        for number, value in enumerate(values):
            for axis, key in _keys_of(value):
                if (root := self._root(key)) not in numbers:
                    classes.setdefault(root, []).append((number, axis))
        return [tuple(members) for members in classes.values() if len(members) > 1]

    def _make_extent(self, key: SizeKey) -> DynamicExtent:
        return DynamicExtent(self._order[self._root(key)], self._function.operation)

    def _add_axes(self, value: ir.Value) -> None:
        for _, key in _keys_of(value):
            self._root(key)

    def _root(self, key: SizeKey) -> SizeKey:
        self._order.setdefault(key, len(self._order))
        while (parent := self._parents.setdefault(key, key)) != key:
            self._parents[key] = self._parents.setdefault(parent, parent)  # halves the way for those that come after
            key = parent
        return key

    def _unite(self, a: SizeKey, b: SizeKey) -> None:
        first, second = sorted((self._root(a), self._root(b)), key=self._order.__getitem__)
        self._parents[second] = first

    def _note_result_sizes(self) -> None:
        """The last arguments of a kernel are the open extents of its results, in order."""
        function = self._function
        *_, ret = list_ops(function)
        open_ = [key for value in ret.operands if is_tensor(value) for _, key in _keys_of(value)]
        given = count_of(function, tw.RESULT_SIZES)
        if given == len(open_):
            last = list(function.arguments)[len(function.arguments) - given :]
            for argument, key in zip(last, open_, strict=True):
                self._unite(("index", argument), key)

    def _note(self, op: ir.Operation) -> None:
        """Unite what an op proves to be equal."""
        if is_structured(op):
            self._note_structured(op)
        elif op.name in _SAME_SHAPE:
            self._same_axes(op.operands[_SAME_SHAPE[op.name]], op.results[0])
        elif op.name == "tensor.empty":
            self._bind_dynamic_axes(op.results[0], list(op.operands))
        elif op.name == "tensor.extract_slice":
            self._bind_dynamic_axes(op.results[0], _sizes_of_slice(op, 0))
        elif op.name in _RESHAPES:
            self._note_view(op)
        elif op.name == "tensor.concat":
            self._note_concat(op)
        elif op.name == "tensor.pad":
            self._note_pad(op)
        elif op.name == "tensor.dim":
            self._note_dim(op)
        elif is_append(op):
            self._note_append(op)
        elif op.name == "scf.for":
            for init, result in zip(list(op.operands)[3:], op.results, strict=True):
                if is_tensor(result):
                    self._same_axes(init, result)
        elif len(op.results) == 1 and isinstance(op.results[0].type, ir.IndexType):
            self._note_index(op)
        if op.name == "tensor.insert_slice":
            self._bind_dynamic_axes(op.operands[0], _sizes_of_slice(op, 1))

    def _note_structured(self, op: ir.Operation) -> None:
        for value, m in zip(op.operands, indexing_maps(op), strict=True):
            for axis, expression in enumerate(m.results):
                if (loop := dim_of(expression)) is not None:
                    self._unite(_make_size_key(value, axis), _make_loop_key(op, loop))
        for number, result in enumerate(op.results):
            self._same_axes(op.operands[num_inputs(op) + number], result)

    def _same_axes(self, a: ir.Value, b: ir.Value) -> None:
        for axis in range(len(shape_of(a))):
            self._unite(_make_size_key(a, axis), _make_size_key(b, axis))

    def _bind_dynamic_axes(self, value: ir.Value, sizes: Sequence[ir.Value]) -> None:
        open_ = [axis for axis, extent in enumerate(shape_of(value)) if extent < 0]
        if len(open_) == len(sizes):
            for axis, size in zip(open_, sizes, strict=True):
                self._unite(_make_axis_key(value, axis), ("index", size))

    def _note_view(self, op: ir.Operation) -> None:
        """An axis stays as it is where it is joined with axes of one element alone."""
        narrow, wide = op.results[0], op.operands[0]
        if op.name == "tensor.expand_shape":
            narrow, wide = wide, narrow
            self._bind_dynamic_axes(wide, list(op.operands)[1:])
        for axis, dims in enumerate(reassociation_of(op)):
            large = [d for d in dims if shape_of(wide)[d] != 1]
            if len(large) == 1:
                self._unite(_make_size_key(narrow, axis), _make_size_key(wide, large[0]))

    def _note_concat(self, op: ir.Operation) -> None:
        along = ir.IntegerAttr(op.attributes["dim"]).value
        for value in op.operands:
            for axis in range(len(shape_of(value))):
                if axis != along:
                    self._unite(_make_size_key(value, axis), _make_size_key(op.results[0], axis))

    def _note_append(self, op: ir.Operation) -> None:
        old, new, size = op.operands
        self._unite(_make_axis_key(op.results[0], 0), ("index", size))
        for axis in range(1, len(shape_of(old))):
            for value in (new, op.results[0]):
                self._unite(_make_size_key(old, axis), _make_size_key(value, axis))

    def _note_pad(self, op: ir.Operation) -> None:
        low, high = (list(ir.DenseI64ArrayAttr(op.attributes[f"static_{side}"])) for side in ("low", "high"))
        for axis, amounts in enumerate(zip(low, high, strict=True)):
            if amounts == (0, 0):
                self._unite(_make_size_key(op.operands[0], axis), _make_size_key(op.results[0], axis))

    def _note_dim(self, op: ir.Operation) -> None:
        place = integer_of(op.operands[1])
        if place is not None and 0 <= place < len(shape_of(op.operands[0])):
            self._unite(("index", op.results[0]), _make_size_key(op.operands[0], place))

    def _note_index(self, op: ir.Operation) -> None:
        """Index values that one op makes of equal ones are equal."""
        result: SizeKey = ("index", op.results[0])
        if op.name == "arith.constant":
            self._unite(result, ("number", ir.IntegerAttr(op.attributes["value"]).value))
        elif op.name.startswith("arith.") and all(isinstance(v.type, ir.IndexType) for v in op.operands):
            expression: SizeKey = (op.name, *(self._root(("index", v)) for v in op.operands))
            self._unite(result, self._computed.setdefault(expression, result))


def _make_axis_key(value: ir.Value, axis: int) -> SizeKey:
    return ("axis", value, axis)


def _make_loop_key(op: ir.Operation, loop: int) -> SizeKey:
    return ("loop", op, loop)


def _make_size_key(value: ir.Value, axis: int) -> SizeKey:
    extent = shape_of(value)[axis]
    return _make_axis_key(value, axis) if extent < 0 else ("number", extent)


def _keys_of(value: ir.Value) -> Iterator[tuple[int, SizeKey]]:
    """The sizes of a value that only the run knows, by its axes; -1 for an index value."""
    if isinstance(value.type, ir.IndexType):
        yield -1, ("index", value)
    elif is_tensor(value):
        yield from ((axis, _make_axis_key(value, axis)) for axis, extent in enumerate(shape_of(value)) if extent < 0)


def _sizes_of_slice(op: ir.Operation, tensors: int) -> list[ir.Value]:
    """The sizes of a slice that are values; ``tensors``: how many of its tensors come before the one that is cut."""
    segments = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
    start = sum(segments[: 2 + tensors])
    return list(op.operands)[start : start + segments[2 + tensors]]
