"""Relay's expressions: variables, constants, calls, tuples, functions. They are values; nothing is computed here."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from ...core.errors import ModelError
from ...core.model import numpy_dtype
from .. import nd
from .text import Names, print_attributes, print_expression, print_function
from .types import FuncType, IncompleteType, TensorType, TupleType, Type, check_dtype

Name = Callable[["Expr"], str]


class Expr:
    """What stands for a value. Python's signs make calls of operators; numbers take the other side's dtype."""

    inline = False  # in texts: written where it is used

    def __init__(self) -> None:
        self.known_type: Type | None = None

    @property
    def children(self) -> tuple[Expr, ...]:
        """The expressions that it is made of."""
        return ()

    def rebuild(self, children: Sequence[Expr]) -> Expr:
        """The like, made of others."""
        return self

    def describe(self, name: Name) -> str:
        """Its text, where ``name`` gives those of its children."""
        raise NotImplementedError

    @property
    def checked_type(self) -> Any:
        """Its type. Raises ModelError before ``relay.transform.InferType()`` has run over it."""
        if self.known_type is None:
            raise ModelError("the type of the expression is not inferred: mod = relay.transform.InferType()(mod)")
        return self.known_type

    def astext(self, show_meta_data: bool = True) -> str:
        """Its text, in relay's notation."""
        return print_expression(self)

    def __str__(self) -> str:
        return self.astext()

    def same_as(self, other: Any) -> bool:
        """Whether another expression is this one."""
        return self is other

    def astype(self, dtype: str) -> Call:
        """The numbers as those of another dtype."""
        return Call(Op("cast"), [self], Attrs({"dtype": dtype}))

    def _binary(self, name: str, other: Any, swapped: bool = False) -> Call:
        operand = as_expr(other, name, self.known_type)
        return Call(Op(name), [operand, self] if swapped else [self, operand])

    def __neg__(self) -> Call:
        return Call(Op("negative"), [self])

    def __add__(self, other: Any) -> Call:
        return self._binary("add", other)

    def __radd__(self, other: Any) -> Call:
        return self._binary("add", other, True)

    def __sub__(self, other: Any) -> Call:
        return self._binary("subtract", other)

    def __rsub__(self, other: Any) -> Call:
        return self._binary("subtract", other, True)

    def __mul__(self, other: Any) -> Call:
        return self._binary("multiply", other)

    def __rmul__(self, other: Any) -> Call:
        return self._binary("multiply", other, True)

    def __truediv__(self, other: Any) -> Call:
        return self._binary("divide", other)

    def __rtruediv__(self, other: Any) -> Call:
        return self._binary("divide", other, True)

    def __lt__(self, other: Any) -> Call:
        return self._binary("less", other)

    def __gt__(self, other: Any) -> Call:
        return self._binary("greater", other)

    def __le__(self, other: Any) -> Call:
        return self._binary("less_equal", other)

    def __ge__(self, other: Any) -> Call:
        return self._binary("greater_equal", other)

    def __call__(self, *args: Expr) -> Call:
        return Call(self, list(args))

    def __iter__(self) -> Iterator[Expr]:
        raise ModelError("the expression is no tuple: relay.split and others that give several values can be unpacked")


class Var(Expr):
    """A parameter of a function. The shape of a weight may be left open where its operator says it."""

    def __init__(self, name_hint: str, type_annotation: Type | None = None) -> None:
        super().__init__()
        self.name_hint, self.type_annotation = name_hint, type_annotation
        self.known_type = type_annotation

    def describe(self, name: Name) -> str:
        return self.name_hint

    def __repr__(self) -> str:
        return f"Var({self.name_hint}{'' if self.known_type is None else f', ty={self.known_type}'})"


class GlobalVar(Expr):
    """A function of a module, by its name."""

    inline = True

    def __init__(self, name_hint: str) -> None:
        super().__init__()
        self.name_hint = name_hint

    def describe(self, name: Name) -> str:
        return f"@{self.name_hint}"


class Constant(Expr):
    """Numbers that are known: ``data`` is a tensor of ``tvm.nd``."""

    inline = True

    def __init__(self, data: Any) -> None:
        super().__init__()
        self.data = data if isinstance(data, nd.NDArray) else nd.array(data)
        self.known_type = TensorType(self.data.shape, str(self.data.dtype))

    def describe(self, name: Name) -> str:
        return name(self)


class Op:
    """An operator, by its name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Op) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return f"Op({self.name})"

    __repr__ = __str__


class Attrs(Mapping[str, Any]):
    """The attributes of a call, by name: ``attrs.axis`` and ``attrs["axis"]``; ``shown`` are those not by default."""

    def __init__(self, values: Mapping[str, Any] | None = None, shown: Mapping[str, Any] | None = None) -> None:
        self._values = dict(values or {})
        self.shown = self._values if shown is None else dict(shown)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._values:
            raise AttributeError(f"the call has no attribute '{name}': it has {', '.join(self._values) or 'none'}")
        return self._values[name]

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def get_int(self, name: str) -> int:
        """An attribute that is a number."""
        return int(self._values[name])

    def get_str(self, name: str) -> str:
        """An attribute that is a text."""
        return str(self._values[name])

    def get_int_tuple(self, name: str) -> tuple[int, ...]:
        """An attribute that is several numbers."""
        return tuple(map(int, self._values[name]))


class Call(Expr):
    """An operator, or a function, on arguments."""

    def __init__(self, op: Op | Expr, args: Sequence[Expr], attrs: Attrs | None = None) -> None:
        super().__init__()
        self.op, self.args, self.attrs = op, tuple(args), attrs or Attrs()

    @property
    def children(self) -> tuple[Expr, ...]:
        return (*self.args, self.op) if isinstance(self.op, Expr) else self.args

    def rebuild(self, children: Sequence[Expr]) -> Call:
        if isinstance(self.op, Expr):
            return Call(children[-1], children[:-1], self.attrs)
        return Call(self.op, children, self.attrs)

    def describe(self, name: Name) -> str:
        callee = name(self.op) if isinstance(self.op, Expr) else self.op.name
        return f"{callee}({', '.join(map(name, self.args))}{print_attributes(self.attrs.shown)})"


class Tuple(Expr):
    """Several values as one."""

    inline = True

    def __init__(self, fields: Sequence[Expr]) -> None:
        super().__init__()
        self.fields = tuple(as_expr(each, "a tuple") for each in fields)

    @property
    def children(self) -> tuple[Expr, ...]:
        return self.fields

    def rebuild(self, children: Sequence[Expr]) -> Tuple:
        return Tuple(children)

    def describe(self, name: Name) -> str:
        return f"({', '.join(map(name, self.fields))}{',' if len(self.fields) == 1 else ''})"

    def __getitem__(self, index: int) -> Expr:
        return self.fields[index]

    def __len__(self) -> int:
        return len(self.fields)

    def __iter__(self) -> Iterator[Expr]:
        return iter(self.fields)


class TupleGetItem(Expr):
    """One of several values, by its number."""

    def __init__(self, tuple_value: Expr, index: int) -> None:
        super().__init__()
        self.tuple_value, self.index = tuple_value, index

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.tuple_value,)

    def rebuild(self, children: Sequence[Expr]) -> TupleGetItem:
        return TupleGetItem(children[0], self.index)

    def describe(self, name: Name) -> str:
        return f"{name(self.tuple_value)}.{self.index}"


class TupleWrapper:
    """What an operator of several results gives: ``made[0]``, ``a, b = made``; ``astuple()`` is the expression."""

    def __init__(self, tuple_value: Expr, size: int) -> None:
        self.tuple_value, self.size = tuple_value, size

    def astuple(self) -> Expr:
        """The expression that stands for all values."""
        return self.tuple_value

    def astext(self, show_meta_data: bool = True) -> str:
        """As the expression's."""
        return self.tuple_value.astext()

    def __getitem__(self, index: int) -> TupleGetItem:
        if not -self.size <= index < self.size:
            raise IndexError(f"there is no value {index} of {self.size}")
        return TupleGetItem(self.tuple_value, index % self.size)

    def __len__(self) -> int:
        return self.size


class Let(Expr):
    """A body in which a variable stands for a value."""

    def __init__(self, variable: Var, value: Expr, body: Expr) -> None:
        super().__init__()
        self.var, self.value, self.body = variable, as_expr(value, "a let"), as_expr(body, "a let")

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.var, self.value, self.body)

    def rebuild(self, children: Sequence[Expr]) -> Let:
        variable, value, body = children
        if not isinstance(variable, Var):
            raise ModelError("relay.Let binds a variable: relay.var")
        return Let(variable, value, body)

    def describe(self, name: Name) -> str:
        return f"let {name(self.var)} = {name(self.value)}; {name(self.body)}"


class If(Expr):
    """One of two values, of which only the one that counts is computed."""

    def __init__(self, cond: Expr, true_branch: Expr, false_branch: Expr) -> None:
        super().__init__()
        self.cond = as_expr(cond, "relay.If")
        self.true_branch, self.false_branch = as_expr(true_branch, "relay.If"), as_expr(false_branch, "relay.If")

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.cond, self.true_branch, self.false_branch)

    def rebuild(self, children: Sequence[Expr]) -> If:
        return If(*children)

    def describe(self, name: Name) -> str:
        return f"if ({name(self.cond)}) {{ {name(self.true_branch)} }} else {{ {name(self.false_branch)} }}"


class Function(Expr):
    """A function of variables."""

    inline = True

    def __init__(
        self, params: Sequence[Var], body: Any, ret_type: Type | None = None, type_params: Any = None, attrs: Any = None
    ) -> None:
        super().__init__()
        for each in params:
            if not isinstance(each, Var):
                raise ModelError(f"relay.Function takes variables, [relay.var('x', shape=...)], not a {_kind(each)}")
        self.params, self.body, self.ret_type, self.attrs = (
            tuple(params),
            as_expr(body, "relay.Function"),
            ret_type,
            attrs,
        )

    @property
    def children(self) -> tuple[Expr, ...]:
        return (*self.params, self.body)

    def rebuild(self, children: Sequence[Expr]) -> Function:
        params = [each for each in children[:-1] if isinstance(each, Var)]
        return Function(params, children[-1], self.ret_type, None, self.attrs)

    def with_attr(self, attr_key: Any, attr_value: Any = None) -> Function:
        """The function with attributes, which change nothing of what it computes."""
        added = dict(attr_key) if isinstance(attr_key, Mapping) else {attr_key: attr_value}
        return Function(self.params, self.body, self.ret_type, None, {**(self.attrs or {}), **added})

    @property
    def checked_type(self) -> FuncType:
        """The types of its parameters, and of what it gives."""
        return FuncType(tuple(each.known_type for each in self.params), self.body.checked_type)

    def describe(self, name: Name) -> str:
        return name(self)

    def astext(self, show_meta_data: bool = True) -> str:
        return print_function(self.params, self.body, Names())


def as_expr(value: Any, what: str, like: Type | None = None) -> Expr:
    """An expression; of a list a tuple, of a number a constant of the dtype that ``like`` has.

    Raises ModelError, which says ``what`` takes it, for others.
    """
    if isinstance(value, Expr):
        return value
    if isinstance(value, TupleWrapper):
        return value.astuple()
    if isinstance(value, list | tuple):
        return Tuple(value)
    if isinstance(value, numbers.Number) and like is not None and isinstance(like, TensorType):
        return const(value, like.dtype)
    return _refuse(what, value)


def _refuse(what: str, value: Any) -> NoReturn:
    name = what if what.startswith(("a ", "relay.")) else f"relay.{what}"
    raise ModelError(f"{name} takes expressions, not a {_kind(value)}: relay.const makes one of numbers")


def _kind(value: Any) -> str:
    return type(value).__name__


def const(value: Any, dtype: str | None = None) -> Constant:
    """Numbers as a constant; those of Python are float32 and int32, as in TVM."""
    if isinstance(value, nd.NDArray):
        return Constant(value)
    if isinstance(value, nd.nd.NDArray):
        return Constant(value.numpy())
    array = np.asarray(value)
    if dtype is None and not isinstance(value, np.ndarray | np.generic):
        dtype = {"float64": "float32", "int64": "int32"}.get(str(array.dtype))
    return Constant(nd.array(array if dtype is None else array.astype(numpy_dtype(check_dtype(dtype)))))


def var(name_hint: str, type_annotation: Any = None, shape: Any = None, dtype: str = "float32") -> Var:
    """A variable, of a type or of a shape and a dtype; without both its operator says what it is."""
    if type_annotation is not None and shape is not None:
        raise ModelError(f"relay.var('{name_hint}') has a type and a shape: give one of them")
    if shape is not None:
        type_annotation = TensorType(shape, dtype)
    elif isinstance(type_annotation, str):
        type_annotation = TensorType((), type_annotation)
    elif isinstance(type_annotation, IncompleteType):
        type_annotation = None
    if not isinstance(type_annotation, TensorType | TupleType | FuncType | None):
        raise ModelError(f"relay.var('{name_hint}') takes a type, relay.TensorType(shape, dtype)")
    return Var(name_hint, type_annotation)
