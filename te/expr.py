"""Scalar expressions over the axes of a computation: a tree that Python's operators build. No MLIR.

Axes and sizes are ``int32``, as TVM has them. Operands of one operation have one dtype; Python numbers take the dtype
of the other operand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from ..core.errors import ExpressionError
from ..core.model import numpy_dtype
from ..core.sizes import Extent, Sym
from .dtypes import FLOATS, INDEX, INTEGERS, check_dtype, range_of

if TYPE_CHECKING:
    from .tensor import Tensor

# What an operation takes: "float", "integer" (or bool), "number", "any"; and whether it gives a bool.
ARITHMETIC = {name: "number" for name in ("add", "subtract", "multiply", "maximum", "minimum", "negative", "absolute")}
ARITHMETIC |= {"floor_divide": "number", "mod": "number", "power": "float", "divide": "float"}
FUNCTIONS = dict.fromkeys(
    (
        *("exp", "exp2", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos", "atan"),
        *("sinh", "cosh", "tanh", "erf", "floor", "ceil", "trunc", "round", "nearbyint", "isnan"),
    ),
    "float",
)
BITS = dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor", "invert", "left_shift", "right_shift"), "integer")
COMPARISONS = dict.fromkeys(("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"), "any")
LOGIC = dict.fromkeys(("logical_and", "logical_or", "logical_not"), "bool")
OPERATIONS = ARITHMETIC | FUNCTIONS | BITS | COMPARISONS | LOGIC | {"cast": "any", "select": "any"}
# What is computed in 64 bits where it is an index of axes and sizes.
INDEX_ARITHMETIC = ("add", "subtract", "multiply", "negative", "floor_divide", "mod", "maximum", "minimum")
_GIVE_BOOL = {*COMPARISONS, *LOGIC, "isnan"}


def refuse_expression(message: str) -> NoReturn:
    """Raise ExpressionError."""
    raise ExpressionError(message)


class Expr:
    """A scalar of a ``dtype``. Comparisons give expressions too, so two of them are the same only if they are one."""

    __hash__ = object.__hash__

    dtype: str

    def __add__(self, other: Any) -> Expr:
        return operate("add", self, other)

    def __radd__(self, other: Any) -> Expr:
        return operate("add", other, self)

    def __sub__(self, other: Any) -> Expr:
        return operate("subtract", self, other)

    def __rsub__(self, other: Any) -> Expr:
        return operate("subtract", other, self)

    def __mul__(self, other: Any) -> Expr:
        return operate("multiply", self, other)

    def __rmul__(self, other: Any) -> Expr:
        return operate("multiply", other, self)

    def __truediv__(self, other: Any) -> Expr:
        return operate("divide", self, other)

    def __rtruediv__(self, other: Any) -> Expr:
        return operate("divide", other, self)

    def __floordiv__(self, other: Any) -> Expr:
        return operate("floor_divide", self, other)

    def __rfloordiv__(self, other: Any) -> Expr:
        return operate("floor_divide", other, self)

    def __mod__(self, other: Any) -> Expr:
        return operate("mod", self, other)

    def __rmod__(self, other: Any) -> Expr:
        return operate("mod", other, self)

    def __pow__(self, other: Any) -> Expr:
        return operate("power", self, other)

    def __rpow__(self, other: Any) -> Expr:
        return operate("power", other, self)

    def __rand__(self, other: Any) -> Expr:
        return operate("bitwise_and", other, self)

    def __ror__(self, other: Any) -> Expr:
        return operate("bitwise_or", other, self)

    def __rxor__(self, other: Any) -> Expr:
        return operate("bitwise_xor", other, self)

    def __rlshift__(self, other: Any) -> Expr:
        return operate("left_shift", other, self)

    def __rrshift__(self, other: Any) -> Expr:
        return operate("right_shift", other, self)

    def __float__(self) -> float:
        refuse_expression("an expression is known only when it runs: use te's functions, as te.exp, not Python's")

    def __index__(self) -> int:
        return int(self.__float__())

    __int__ = __index__

    def __neg__(self) -> Expr:
        return operate("negative", self)

    def __abs__(self) -> Expr:
        return operate("absolute", self)

    def __and__(self, other: Any) -> Expr:
        return operate("bitwise_and", self, other)

    def __or__(self, other: Any) -> Expr:
        return operate("bitwise_or", self, other)

    def __xor__(self, other: Any) -> Expr:
        return operate("bitwise_xor", self, other)

    def __invert__(self) -> Expr:
        return operate("invert", self)

    def __lshift__(self, other: Any) -> Expr:
        return operate("left_shift", self, other)

    def __rshift__(self, other: Any) -> Expr:
        return operate("right_shift", self, other)

    def __eq__(self, other: object) -> Any:
        return operate("equal", self, other)

    def __ne__(self, other: object) -> Any:
        return operate("not_equal", self, other)

    def __lt__(self, other: Any) -> Expr:
        return operate("less", self, other)

    def __le__(self, other: Any) -> Expr:
        return operate("less_equal", self, other)

    def __gt__(self, other: Any) -> Expr:
        return operate("greater", self, other)

    def __ge__(self, other: Any) -> Expr:
        return operate("greater_equal", self, other)

    def __repr__(self) -> str:
        return str(self)

    def __bool__(self) -> bool:
        refuse_expression(
            f"'{self}' is known only when it runs: use te.if_then_else, te.all or te.any, not Python's if, and, or"
        )

    def __iter__(self) -> Iterator[Expr]:
        refuse_expression(f"'{self}' is a scalar: it has no elements")

    def astype(self, dtype: str) -> Expr:
        """The value as another dtype: floats become integers toward zero, and anything but 0 is true."""
        return cast(dtype, self)


@dataclass(frozen=True, eq=False, repr=False)
class Literal(Expr):
    """A constant."""

    value: int | float | bool
    dtype: str

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True, eq=False)
class Range:
    """``extent`` numbers from ``min`` on."""

    min: int
    extent: Extent

    def __str__(self) -> str:
        return f"[{self.min}, {self.min + self.extent})"


IterType = str  # "DataPar" or "CommReduce", as TVM has them


@dataclass(frozen=True, eq=False, repr=False)
class IterVar(Expr):
    """An axis of a computation, or a loop that a schedule made of axes; its value is its place in ``dom``."""

    name: str
    dom: Range
    iter_type: IterType = "DataPar"
    dtype: str = INDEX
    thread_tag: str = ""

    @property
    def var(self) -> IterVar:
        """What an expression holds: the axis itself."""
        return self

    @property
    def reduces(self) -> bool:
        """Return whether a reduction goes along it."""
        return self.iter_type == "CommReduce"

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False, repr=False)
class SizeVar(Expr):
    """A size that only the run knows. It is at least 0 and may stand in shapes and expressions."""

    extent: Sym
    dtype: str = INDEX

    @property
    def name(self) -> str:
        """Its name, by which errors call it."""
        return str(self.extent)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False, repr=False)
class Operation(Expr):
    """One of ``OPERATIONS`` on operands."""

    name: str
    operands: tuple[Expr, ...]
    dtype: str

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.operands))})"


@dataclass(frozen=True, eq=False, repr=False)
class Read(Expr):
    """An element of a tensor."""

    tensor: Tensor
    indices: tuple[Expr, ...]
    dtype: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", self.tensor.dtype)

    def __str__(self) -> str:
        return f"{self.tensor.name}[{', '.join(map(str, self.indices))}]"


@dataclass(frozen=True, eq=False)
class Combiner:
    """How a reduction joins two values of each result: ``made`` of ``left`` and ``right``, from ``identity`` on."""

    name: str
    left: tuple[Expr, ...]
    right: tuple[Expr, ...]
    made: tuple[Expr, ...]
    identity: tuple[Literal, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Placeholder(Expr):
    """A value that a combiner is given."""

    name: str
    dtype: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False, repr=False)
class Reduce(Expr):
    """One of the results of joining ``sources`` over all values of ``axes``."""

    combiner: Combiner
    sources: tuple[Expr, ...]
    axes: tuple[IterVar, ...]
    number: int = 0
    dtype: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", self.sources[self.number].dtype)

    def __str__(self) -> str:
        sources = ", ".join(map(str, self.sources))
        return f"{self.combiner.name}({sources}, axis=[{', '.join(axis.name for axis in self.axes)}])"


def as_expr(value: Any, dtype: str = "") -> Expr:
    """A Python number, of ``dtype`` if that is given, or anything that stands for an expression, as one."""
    if isinstance(value, Expr):
        return value
    if (scalar := getattr(value, "as_scalar", None)) is not None:
        return scalar()
    if isinstance(value, bool):
        return Literal(value, "bool") if dtype in ("", "bool") else _number(int(value), dtype)
    if isinstance(value, int | float):
        return _number(value, dtype or (INDEX if isinstance(value, int) else "float32"))
    if hasattr(value, "dtype") and getattr(value, "shape", None) == ():  # numpy's scalars
        return const(value.item(), str(value.dtype))
    refuse_expression(f"an expression is made of tensors' elements, axes and numbers, not of a {type(value).__name__}")


def as_size(extent: Extent) -> Expr:
    """An extent as an expression."""
    return SizeVar(extent) if isinstance(extent, Sym) else _number(extent, INDEX)


def const(value: float, dtype: str = "int32") -> Literal:
    """A constant of a dtype; ExpressionError where the dtype cannot have it."""
    return _number(value, check_dtype(dtype))


def _number(value: float, dtype: str) -> Literal:
    if not isinstance(value, int | float):
        refuse_expression(f"{value!r} is no number")
    if dtype in INTEGERS and not math.isfinite(value):
        refuse_expression(f"{value} is no {dtype}: cast the other operand to a float")
    if dtype == "bool":
        return Literal(bool(value), dtype)
    if dtype in FLOATS:
        return Literal(float(value), dtype)
    if isinstance(value, float) and not value.is_integer():
        refuse_expression(
            f"{value} is no {dtype}: cast the other operand to a float, or write the number as {int(value)}"
        )
    number, (low, high) = int(value), range_of(dtype)
    if not low <= number <= high:
        refuse_expression(f"{number} is no {dtype}, which goes from {low} to {high}")
    return Literal(number, dtype)


def operate(name: str, *operands: Any) -> Expr:
    """An operation on expressions and numbers. ExpressionError for dtypes that differ, or that it does not take."""
    dtypes = [each.dtype for each in operands if isinstance(each, Expr) or hasattr(each, "as_scalar")]
    made = tuple(as_expr(each, dtypes[0] if dtypes else "") for each in operands)
    if any(each.dtype != made[0].dtype for each in made[1:]):
        kinds = " and ".join(dict.fromkeys(each.dtype for each in made))
        refuse_expression(
            f"cannot {name.replace('_', ' ')} {kinds}: cast one of them, as in x.astype('{made[0].dtype}')"
        )
    dtype, takes = made[0].dtype, OPERATIONS[name]
    if not _fits(dtype, takes):
        refuse_expression(f"cannot {name.replace('_', ' ')} {dtype}: {_WANTED[takes]}")
    amount = made[1].value if name in ("left_shift", "right_shift") and isinstance(made[1], Literal) else 0
    if not 0 <= amount < 8 * numpy_dtype(dtype).itemsize:
        refuse_expression(f"cannot shift {dtype} by {amount}: it has {8 * numpy_dtype(dtype).itemsize} bits")
    folded = _fold(name, made)
    return folded if folded is not None else Operation(name, made, "bool" if name in _GIVE_BOOL else dtype)


_WANTED = {
    "float": "it takes floats: cast it, as in x.astype('float32'); // divides integers",
    "integer": "it takes integers and bools",
    "number": "it takes numbers: cast it, as in x.astype('int32')",
    "bool": "it takes conditions, as x > 0 is one",
}


def _fits(dtype: str, takes: str) -> bool:
    kinds = {"float": FLOATS, "integer": (*INTEGERS, "bool"), "number": (*FLOATS, *INTEGERS), "bool": ("bool",)}
    return takes == "any" or dtype in kinds[takes]


def _fold(name: str, operands: Sequence[Expr]) -> Expr | None:
    """Constant index arithmetic, and what changes nothing; None for the rest."""
    if operands[0].dtype != INDEX or len(operands) != 2:
        return None
    a, b = operands
    left, right = (each.value if isinstance(each, Literal) else None for each in operands)
    if isinstance(left, int) and isinstance(right, int) and name in _FOLDS:
        if name in ("floor_divide", "mod") and right == 0:
            refuse_expression(f"cannot divide {left} by 0")
        return _number(_FOLDS[name](left, right), INDEX)
    if right == 0 and name in ("floor_divide", "mod"):
        refuse_expression(f"cannot divide '{a}' by 0")
    if (right == 0 and name in ("add", "subtract")) or (right == 1 and name in ("multiply", "floor_divide")):
        return a
    return b if (left == 0 and name == "add") or (left == 1 and name == "multiply") else None


_FOLDS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "floor_divide": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "maximum": max,
    "minimum": min,
}


def cast(dtype: str, value: Any) -> Expr:
    """The value as another dtype."""
    wanted = check_dtype(dtype)
    made = as_expr(value)
    if isinstance(made, Literal) and math.isfinite(made.value):
        whole = wanted in FLOATS or wanted == "bool"
        return _number(made.value if whole else math.trunc(made.value), wanted)
    return made if made.dtype == wanted else Operation("cast", (made,), wanted)


def choose(condition: Any, then: Any, otherwise: Any) -> Expr:
    """``then`` where the condition holds, else ``otherwise``; elements that the other one would read may be outside."""
    test = as_expr(condition)
    if test.dtype != "bool":
        refuse_expression(f"a condition is a bool, as x > 0 is one, not {test.dtype}")
    dtypes = [each.dtype for each in (then, otherwise) if isinstance(each, Expr) or hasattr(each, "as_scalar")]
    a, b = (as_expr(each, dtypes[0] if dtypes else "") for each in (then, otherwise))
    if a.dtype != b.dtype:
        refuse_expression(f"the two sides of a choice are {a.dtype} and {b.dtype}: cast one of them")
    return Operation("select", (test, a, b), a.dtype)
