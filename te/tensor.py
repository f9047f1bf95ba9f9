"""Tensors of a computation: placeholders, and what ``compute`` makes of others, element by element."""

from __future__ import annotations

import inspect
import itertools
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..core.sizes import Extent, Sym
from .broadcast import TensorArithmetic
from .dtypes import LARGEST_INDEX, check_dtype
from .expr import (
    Expr,
    IterVar,
    Literal,
    Operation,
    Placeholder,
    Range,
    Read,
    Reduce,
    SizeVar,
    as_expr,
    refuse_expression,
)
from .expr_parts import measure_depth, walk
from .regions import as_linear, check_read

_LARGEST_TENSOR = 1 << 40
DEEPEST = 100  # operations within each other, which several functions visit one in another


@dataclass(frozen=True, eq=False, repr=False)
class Op:
    """What makes tensors, of one shape; a placeholder's have no axes."""

    name: str
    shape: tuple[Extent, ...]
    dtypes: tuple[str, ...]
    axis: tuple[IterVar, ...] = ()

    @property
    def reduce_axis(self) -> tuple[IterVar, ...]:
        """The axes of its reduction."""
        return ()

    @property
    def num_outputs(self) -> int:
        """How many tensors it makes."""
        return len(self.dtypes)

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        """The tensors that it reads, in the order in which it does."""
        return ()

    def shape_of(self, number: int) -> tuple[Extent, ...]:
        """The shape of one of its tensors."""
        return self.shape

    def output(self, number: int) -> Tensor:
        """One of the tensors that it makes."""
        return Tensor(self, number)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"{type(self).__name__} '{self.name}'"


@dataclass(frozen=True, eq=False, repr=False)
class PlaceholderOp(Op):
    """A tensor that the caller gives."""


@dataclass(frozen=True, eq=False, repr=False)
class ComputeOp(Op):
    """Tensors of one shape, each element of which an expression of the axes tells. ``body`` has one for each tensor."""

    body: tuple[Expr, ...] = ()
    tag: str = ""
    attrs: dict[str, Any] = field(default_factory=dict)

    @property
    def reduce_axis(self) -> tuple[IterVar, ...]:
        """The axes of its reduction."""
        return self.body[0].axes if isinstance(self.body[0], Reduce) else ()

    @property
    def reads(self) -> tuple[Read, ...]:
        """All elements that it reads."""
        found = dict.fromkeys(part for each in self.body for part in walk(each) if isinstance(part, Read))
        return tuple(found)

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        """The tensors that it reads."""
        return tuple({(r.tensor.op, r.tensor.value_index): r.tensor for r in reversed(self.reads)}.values())


@dataclass(frozen=True, eq=False, repr=False)
class Tensor(TensorArithmetic):
    """One of the tensors that an op makes. ``t[i, j]`` is an element, as an expression."""

    op: Op
    value_index: int = 0

    @property
    def name(self) -> str:
        """The op's name, with the tensor's number where the op makes several."""
        return self.op.name if self.op.num_outputs == 1 else f"{self.op.name}.v{self.value_index}"

    @property
    def shape(self) -> tuple[Extent, ...]:
        """Its extents: numbers, and sizes of ``te.var``."""
        return self.op.shape_of(self.value_index)

    @property
    def dtype(self) -> str:
        """The dtype of its elements."""
        return self.op.dtypes[self.value_index]

    @property
    def ndim(self) -> int:
        """How many axes it has."""
        return len(self.shape)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tensor) and (self.op, self.value_index) == (other.op, other.value_index)

    def __hash__(self) -> int:
        return hash((self.op, self.value_index))

    def __call__(self, *indices: Any) -> Read:
        return Read(self, _check_indices(self, indices))

    def __getitem__(self, indices: Any) -> Any:
        given = indices if isinstance(indices, tuple) else (indices,)
        return self(*given) if len(given) >= self.ndim else TensorSlice(self, given)

    def __iter__(self) -> Iterator[Any]:
        refuse_expression(f"'{self.name}' is a tensor: read its elements at axes, as in {self.name}[i]")

    def compute(self, shape: Sequence[Any], element: Callable[..., Any], name: str) -> Tensor:
        """See ``TensorArithmetic``."""
        return compute(shape, element, name, tag="broadcast")

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"

    def __repr__(self) -> str:
        return f"<te.Tensor {self}>"


@dataclass(frozen=True, eq=False)
class TensorSlice:
    """A tensor of which the first indices are given: ``t[i]`` of ``t[i][j]``."""

    tensor: Tensor
    indices: tuple[Any, ...]

    @property
    def dtype(self) -> str:
        """The tensor's."""
        return self.tensor.dtype

    def __getitem__(self, indices: Any) -> Any:
        return self.tensor[(*self.indices, *(indices if isinstance(indices, tuple) else (indices,)))]

    def as_scalar(self) -> Expr:
        """The element, if all indices are given."""
        return self.tensor(*self.indices)


def _check_indices(tensor: Tensor, indices: Sequence[Any]) -> tuple[Expr, ...]:
    if len(indices) != tensor.ndim:
        refuse_expression(f"'{tensor.name}' has {tensor.ndim} axes, and is read with {len(indices)} indices")
    made = []
    for number, index in enumerate(indices):
        expr = as_expr(index)
        if expr.dtype not in (*("int8", "int16", "int32", "int64"), *("uint8", "uint16", "uint32")):
            refuse_expression(
                f"index {number} of '{tensor.name}' is {expr.dtype}: indices are integers, as in x.astype('int32')"
            )
        made.append(expr)
    return tuple(made)


def as_extent(value: Any, what: str) -> Extent:
    """A number, a ``te.var`` or arithmetic on these as an extent; ExpressionError for anything else."""
    if isinstance(value, Sym):
        return value
    if isinstance(value, Expr):
        return _fold_extent(value, what)
    whole = int(value) if isinstance(value, float) and value.is_integer() else value  # as N / 32 is
    if isinstance(whole, bool | float) or not hasattr(whole, "__index__"):
        refuse_expression(f"{what} is a number of elements or te.var, not a {type(value).__name__}")
    number = operator.index(whole)
    if not 0 <= number <= LARGEST_INDEX:
        refuse_expression(f"{what} is {number}: it must be from 0 to {LARGEST_INDEX}")
    return number


def _fold_extent(expr: Expr, what: str) -> Extent:
    if isinstance(expr, SizeVar):
        return expr.extent
    if isinstance(expr, Literal):
        return as_extent(expr.value, what)
    if isinstance(expr, Operation) and expr.name in _SIZES:
        return _SIZES[expr.name](*(_fold_extent(each, what) for each in expr.operands))
    refuse_expression(f"{what} is '{expr}': a size is a number, te.var, or a sum, a product or a quotient of these")


_SIZES: dict[str, Callable[..., Extent]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "floor_divide": operator.floordiv,
}


def as_shape(shape: Any, what: str) -> tuple[Extent, ...]:
    """Extents of a tensor."""
    given = tuple(shape) if isinstance(shape, list | tuple) else (shape,)
    made = tuple(as_extent(each, f"an extent of {what}") for each in given)
    count = 1
    for extent in made:
        count *= extent if isinstance(extent, int) else 1
    if count > _LARGEST_TENSOR:
        refuse_expression(f"{what} would have {count} elements, more than {_LARGEST_TENSOR}")
    return made


def placeholder(shape: Any, dtype: str = "float32", name: str = "placeholder") -> Tensor:
    """A tensor that the caller gives. ``shape`` has numbers and ``te.var``s."""
    return PlaceholderOp(check_name(name), as_shape(shape, f"'{name}'"), (check_dtype(dtype),)).output(0)


def var(name: str = "n", dtype: str = "int32") -> SizeVar:
    """A size that only the run knows, at least 0. Variables of one name are one size."""
    if dtype != "int32":
        refuse_expression(
            f"size '{name}' is {dtype}: sizes are int32; other numbers of a run are a placeholder of (1,)"
        )
    return SizeVar(Sym(check_name(name)))


def size_var(name: str = "n", dtype: str = "int32") -> SizeVar:
    """As ``var``."""
    return var(name, dtype)


def check_name(name: Any) -> str:
    if not isinstance(name, str) or not name or not name.replace(".", "_").isidentifier():
        refuse_expression(f"{name!r} is no name: letters, digits, '_' and '.', and no digit first")
    return name


def reduce_axis(dom: Any, name: str = "rv") -> IterVar:
    """An axis ``(begin, end)`` that a reduction goes along."""
    if not isinstance(dom, list | tuple | Range):
        refuse_expression(f"the domain of axis '{name}' is (begin, end), not a {type(dom).__name__}")
    if isinstance(dom, Range):
        return IterVar(check_name(name), dom, "CommReduce")
    if len(dom) != 2 or not isinstance(dom[0], int):
        refuse_expression(
            f"the domain of axis '{name}' is (begin, end), where the begin is a number, not {tuple(map(str, dom))}"
        )
    extent = as_extent(dom[1], f"the end of axis '{name}'") - dom[0]
    if isinstance(extent, int) and extent < 0:
        refuse_expression(f"axis '{name}' ends at {dom[1]}, before it begins at {dom[0]}")
    return IterVar(check_name(name), Range(dom[0], extent), "CommReduce")


def compute(
    shape: Any,
    fcompute: Callable[..., Any],
    name: str = "compute",
    tag: str = "",
    attrs: dict[str, Any] | None = None,
    varargs_names: Sequence[str] | None = None,
) -> Any:
    """The tensor whose element at ``(i, j, ...)`` is ``fcompute(i, j, ...)``; several if that gives a tuple.

    The axes have the names of the function's parameters, or ``varargs_names``. A reduction (``te.sum``) has to be the
    whole of what the function gives. Raises ExpressionError for what cannot be computed, such as an element outside of
    a tensor.
    """
    extents = as_shape(shape, f"'{check_name(name)}'")
    axes = tuple(
        IterVar(axis, Range(0, extent))
        for axis, extent in zip(_name_axes(fcompute, len(extents), name, varargs_names), extents, strict=True)
    )
    made = fcompute(*axes)
    several = isinstance(made, list | tuple)
    body = tuple(map(as_expr, made)) if isinstance(made, list | tuple) else (as_expr(made),)
    if not body:
        refuse_expression(f"'{name}' computes nothing: its function gives no expression")
    op = ComputeOp(name, extents, tuple(each.dtype for each in body), axes, body, tag, dict(attrs or {}))
    check_compute(op)
    if isinstance(body[0], Reduce) and any(axis.dom.extent == 0 for axis in body[0].axes):
        op = ComputeOp(name, extents, op.dtypes, axes, body[0].combiner.identity, tag, op.attrs)  # of nothing
    return tuple(op.output(i) for i in range(len(body))) if several else op.output(0)


def _name_axes(fcompute: Any, rank: int, name: str, varargs: Sequence[str] | None) -> list[str]:
    if not callable(fcompute):
        refuse_expression(f"'{name}' is computed by a function of its axes, not a {type(fcompute).__name__}")
    try:
        parameters = list(inspect.signature(fcompute).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names = [
        p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty
    ]
    if not parameters or any(p.kind is p.VAR_POSITIONAL for p in parameters):
        rest = rank - len(names)
        if varargs is not None and len(varargs) != rest:
            refuse_expression(f"'{name}' has {rest} axes to name, and {len(varargs)} names in varargs_names")
        names += list(varargs) if varargs is not None else [f"i{number}" for number in range(len(names), rank)]
    if len(names) != rank:
        refuse_expression(f"'{name}' has {rank} axes, and its function takes {len(names)}: one parameter for each axis")
    return names


def check_compute(op: ComputeOp) -> None:
    """Raise ExpressionError unless the body of an op can be computed."""
    first = op.body[0]
    if (depth := max(map(measure_depth, op.body))) > DEEPEST:
        refuse_expression(
            f"'{op.name}' has {depth} operations within each other, more than {DEEPEST}: reduce along an axis, or give"
            " parts computes of their own"
        )
    for each in op.body:
        if isinstance(each, Reduce) != isinstance(first, Reduce) or (
            isinstance(each, Reduce) and isinstance(first, Reduce) and each.sources != first.sources
        ):
            refuse_expression(f"the results of '{op.name}' are of different reductions: compute them apart")
        inner = each.sources if isinstance(each, Reduce) else (each,)
        if any(isinstance(part, Reduce) for source in inner for part in walk(source)):
            refuse_expression(
                f"'{op.name}' has a reduction inside of its expression: give the reduction a compute of its own"
            )
        if any(isinstance(part, Placeholder) for source in inner for part in walk(source)):
            refuse_expression(f"'{op.name}' uses a value of a reducer's function outside of it")
    if isinstance(first, Reduce) and [getattr(each, "number", 0) for each in op.body] != [*range(len(first.sources))]:
        name = first.combiner.name
        refuse_expression(f"'{op.name}' gives the results of '{name}' in part, or in another order: give all of them")
    known = {*op.axis, *op.reduce_axis}
    for part in itertools.chain.from_iterable(map(walk, op.body)):
        if isinstance(part, IterVar) and part not in known:
            what = "no reduction of it goes along" if part.reduces else "is an axis of another computation"
            refuse_expression(f"'{op.name}' uses axis '{part}', which {what}")
    for each in op.body:
        check_read(each, op.name, lambda read, number: _is_row_before(op, read, number))


def _is_row_before(op: ComputeOp, read: Read, number: int) -> bool:
    """Return whether a read may be of a row before, as the steps of a scan read; ``create_schedule`` looks again."""
    linear = as_linear(read.indices[number]) if number == 0 else None
    return linear is not None and bool(op.axis) and dict(linear.terms) == {op.axis[0]: 1}


def sort_ops(outputs: Sequence[Op]) -> list[Op]:
    """All ops that the outputs are made of, each behind those that it reads."""
    order: dict[Op, None] = {}
    pending: list[tuple[Op, bool]] = [(op, False) for op in reversed(outputs)]
    while pending:
        op, done = pending.pop()
        if done:
            order.setdefault(op)
        elif op not in order:
            pending.append((op, True))
            pending.extend((t.op, False) for t in reversed(op.input_tensors))
    return list(order)
