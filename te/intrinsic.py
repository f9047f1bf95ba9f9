"""Intrinsics: what the loops of a tile can become as a whole, a call of a function that somebody else wrote.

    def gemv(m, l):                                     # c[m] += sum over l of a[l] * b[m, l]
        a, b = te.placeholder((l,), name="a"), te.placeholder((m, l), name="b")
        k = te.reduce_axis((0, l), name="k")
        c = te.compute((m,), lambda i: te.sum(a[k] * b[i, k], axis=k), name="c")
        rows = te.decl_buffer(b.shape, b.dtype, strides=[te.var("stride"), 1])

        def write(ins, outs):
            aa, bb = ins
            return te.call_extern("int32", "gemv", outs[0].access_ptr("w"), aa.access_ptr("r"), bb.access_ptr("r"),
                                  m, l, bb.strides[0])

        return te.decl_tensor_intrin(c.op, write, binds={b: rows})

``s[C].tensorize(axis, gemv(16, 64))`` calls it, and ``s[C].pragma(axis, "import_c", source)`` gives its code.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

from ..core.sizes import Extent, Sym
from .dtypes import INTEGERS, check_dtype
from .expr import Expr, Literal, SizeVar, as_expr, as_size, refuse_expression
from .tensor import ComputeOp, PlaceholderOp, Tensor, as_extent

_DECLARED: WeakValueDictionary[str, TensorIntrin] = WeakValueDictionary()


@dataclass(frozen=True, eq=False)
class Buffer:
    """The memory that an intrinsic's tensor lies in. A stride is a number of elements, or a ``te.var`` for any."""

    name: str
    shape: tuple[Extent, ...]
    dtype: str
    extents: tuple[Extent, ...]  # of one step along each axis

    @property
    def strides(self) -> list[Expr]:
        """How many elements lie between neighbours along each axis, as a call takes them."""
        return [as_size(each) for each in self.extents]

    def access_ptr(
        self, access_mask: Any = "rw", ptr_type: str = "handle", content_lanes: int = 1, offset: int = 0
    ) -> Pointer:
        """The address of its first element, or of the one ``offset`` elements behind it."""
        if type(offset) is not int:
            refuse_expression(f"the offset of a pointer into '{self.name}' is a number of elements, not {offset!r}")
        return Pointer(self, offset)


@dataclass(frozen=True, eq=False)
class Pointer:
    """The address of an element of a buffer."""

    buffer: Buffer
    offset: int = 0


@dataclass(frozen=True, eq=False)
class ExternCall:
    """The call of a C function, whose result nobody needs: pointers, numbers and strides are what it takes."""

    function: str
    dtype: str
    arguments: tuple[Pointer | Literal | SizeVar, ...]


@dataclass(frozen=True, eq=False)
class TensorIntrin:
    """An intrinsic: what it computes (``op``), where that lies, and the calls that do it.

    ``reset`` begins a reduction and ``update`` goes on with it, if the intrinsic has these.
    """

    name: str
    op: ComputeOp
    inputs: tuple[Tensor, ...]
    buffers: Mapping[Tensor, Buffer]
    body: tuple[ExternCall, ...]
    reset: tuple[ExternCall, ...] = ()
    update: tuple[ExternCall, ...] = ()

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """The tensors that it makes."""
        return tuple(self.op.output(number) for number in range(self.op.num_outputs))

    @property
    def key(self) -> str:
        """What a trace calls it: its name, and a digest of what it computes and calls."""
        content = [str(self.op.shape), *map(str, self.op.body), *(f"{t} {b.extents}" for t, b in self.buffers.items())]
        for calls in (self.body, self.reset, self.update):
            content += [f"{call.function}({', '.join(map(_parameter_text, call.arguments))})" for call in calls]
            content.append("")
        return f"{self.name}.{hashlib.sha256(chr(10).join(content).encode()).hexdigest()[:8]}"


def _parameter_text(argument: Pointer | Literal | SizeVar) -> str:
    return f"&{argument.buffer.name}+{argument.offset}" if isinstance(argument, Pointer) else str(argument)


def find_intrinsic(key: str) -> TensorIntrin | None:
    """The intrinsic that this process has declared and still holds, by what a trace calls it."""
    return _DECLARED.get(key)


def decl_buffer(
    shape: Any,
    dtype: str = "float32",
    name: str = "buffer",
    strides: Sequence[Any] | None = None,
    offset_factor: int = 0,
    data_alignment: int = -1,
    scope: str = "",
) -> Buffer:
    """The memory of an intrinsic's tensor: dense if there are no ``strides``; a ``te.var`` is any stride.

    ``offset_factor``, ``data_alignment`` and ``scope`` promise nothing here: a tile may begin at any element.
    """
    given = tuple(shape) if isinstance(shape, list | tuple) else (shape,)
    extents = tuple(as_extent(each, f"an extent of buffer '{name}'") for each in given)
    if strides is None or not len(strides):
        return Buffer(name, extents, check_dtype(dtype), dense_strides(extents))
    if len(strides) != len(extents):
        refuse_expression(f"buffer '{name}' has {len(extents)} axes and {len(strides)} strides")
    steps = tuple(as_extent(each, f"a stride of buffer '{name}'") for each in strides)
    for each in steps:
        if isinstance(each, Sym) and not each.is_symbol:
            refuse_expression(f"a stride of buffer '{name}' is '{each}': it is a number, or te.var for any")
    return Buffer(name, extents, check_dtype(dtype), steps)


def dense_strides(shape: Sequence[Extent]) -> tuple[Extent, ...]:
    """The strides of a tensor whose elements lie one after another."""
    steps: list[Extent] = []
    step: Extent = 1
    for extent in reversed(shape):
        steps.insert(0, step)
        step = step * extent
    return tuple(steps)


def call_extern(dtype: str, function: str, *arguments: Any) -> ExternCall:
    """The call of a C function: with pointers (``access_ptr``), strides (``buffer.strides[0]``) and numbers.

    A Python int is an ``int32``, a float a ``float32``; ``te.const`` gives others. ExpressionError for other arguments.
    """
    if not isinstance(function, str) or not function.isidentifier():
        refuse_expression(f"{function!r} is no name of a C function")
    made: list[Pointer | Literal | SizeVar] = []
    for number, each in enumerate(arguments):
        if not isinstance(each, Pointer):
            each = as_expr(each)
        if not isinstance(each, Pointer | Literal | SizeVar) or (
            isinstance(each, Literal) and each.dtype not in (*INTEGERS, "float32", "float64")
        ):
            refuse_expression(f"argument {number} of '{function}' is '{each}': pass pointers, strides and numbers")
        made.append(each)
    return ExternCall(function, dtype, tuple(made))


def decl_tensor_intrin(
    op: Any,
    fcompute: Callable[[list[Buffer], list[Buffer]], Any],
    name: str = "tensor_intrin",
    binds: Mapping[Tensor, Buffer] | None = None,
    default_buffer_params: Mapping[str, Any] | None = None,
) -> TensorIntrin:
    """An intrinsic that computes what ``op`` does, by the calls that ``fcompute(ins, outs)`` gives.

    It gets the buffers of what the op reads and of what it makes: ``binds`` has some of them, the others are dense. It
    gives calls (one, or a list), or three of such: those for the whole, those that begin a reduction (or None), and
    those that go on with it. Raises ExpressionError for what is no intrinsic.
    """
    if not isinstance(op, ComputeOp):
        refuse_expression("an intrinsic is declared by the op of a te.compute, as in te.decl_tensor_intrin(c.op, ...)")
    for extent in (*op.shape, *(axis.dom.extent for axis in op.reduce_axis)):
        if not isinstance(extent, int):
            refuse_expression(f"intrinsic '{name}' computes '{extent}' elements: it has to know how many")
    for tensor in op.input_tensors:
        if not isinstance(tensor.op, PlaceholderOp):
            refuse_expression(f"intrinsic '{name}' reads '{tensor.name}', which is computed: it is declared by one op")
    inputs, outputs = op.input_tensors, [op.output(number) for number in range(op.num_outputs)]
    buffers = {tensor: _find_buffer(tensor, binds or {}, default_buffer_params or {}) for tensor in (*inputs, *outputs)}
    made = fcompute([buffers[tensor] for tensor in inputs], [buffers[tensor] for tensor in outputs])
    three = made if isinstance(made, tuple) and len(made) == 3 else (made, None, None)
    body, reset, update = (_check_calls(each, name, list(buffers.values())) for each in three)
    if not body:
        refuse_expression(f"intrinsic '{name}' calls nothing: its function gives te.call_extern(...)")
    intrinsic = TensorIntrin(name, op, tuple(inputs), buffers, body, reset, update)
    _DECLARED[intrinsic.key] = intrinsic
    return intrinsic


def _find_buffer(tensor: Tensor, binds: Mapping[Tensor, Buffer], defaults: Mapping[str, Any]) -> Buffer:
    buffer = binds.get(tensor) or decl_buffer(tensor.shape, tensor.dtype, tensor.name, **defaults)
    if not isinstance(buffer, Buffer):
        refuse_expression(f"'{tensor.name}' is bound to a {type(buffer).__name__}: bind it to te.decl_buffer(...)")
    if buffer.shape != tensor.shape or buffer.dtype != tensor.dtype:
        own, other = (f"{each.dtype}[{', '.join(map(str, each.shape))}]" for each in (buffer, tensor))
        refuse_expression(f"'{tensor.name}' is {other}, its buffer {own}: declare them alike")
    return buffer


def _check_calls(made: Any, name: str, buffers: Sequence[Buffer]) -> tuple[ExternCall, ...]:
    calls = () if made is None else tuple(made) if isinstance(made, list | tuple) else (made,)
    for call in calls:
        if not isinstance(call, ExternCall):
            refuse_expression(
                f"the function of intrinsic '{name}' gives a {type(call).__name__}: it gives te.call_extern(...), or"
                " three of such"
            )
        for argument in call.arguments:
            if isinstance(argument, Pointer) and not any(argument.buffer is each for each in buffers):
                refuse_expression(f"'{call.function}' of intrinsic '{name}' takes a pointer to a buffer of another one")
            if isinstance(argument, SizeVar) and not any(argument.extent in each.extents for each in buffers):
                refuse_expression(
                    f"'{call.function}' of intrinsic '{name}' takes '{argument}', which is no stride of it"
                )
    return calls
