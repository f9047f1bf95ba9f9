"""What a computation gives, by numpy: the reference that programs are held against."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..core.atoms import Atom
from ..core.errors import InputError
from ..core.model import numpy_dtype
from ..core.sizes import Extent, Sym, floor_divide, floor_mod, if_equal, if_less, max_of, min_of, require_static
from .arguments import as_multiple
from .dtypes import FLOATS, INDEX
from .expr import INDEX_ARITHMETIC, Expr, IterVar, Literal, Operation, Read, Reduce, SizeVar
from .scan import ScanOp
from .tensor import ComputeOp, Op, Tensor

_MOST_AT_ONCE = 1 << 22  # elements of a reduction's steps


def evaluate(outputs: Sequence[Tensor], given: Mapping[Tensor, np.ndarray]) -> list[np.ndarray]:
    """The arrays of tensors, for those of all placeholders that they are made of.

    float16 and bfloat16 are computed in float32 and rounded once for each tensor; elements that a condition leaves out
    may lie outside. Raises InputError for a shape or a dtype that is not the placeholder's, and for other elements that
    lie outside.
    """
    sizes: dict[Sym, int] = {}
    for tensor, array in given.items():
        _check_array(tensor, array)
    _find_sizes(given, sizes)
    made: dict[Op, list[np.ndarray]] = {}
    return [_make(tensor, given, sizes, made) for tensor in outputs]


def _check_array(tensor: Tensor, array: np.ndarray) -> None:
    if not isinstance(array, np.ndarray):
        raise InputError(f"'{tensor.name}' is given as a {type(array).__name__}: give a numpy array")
    if array.dtype != numpy_dtype(tensor.dtype) or array.ndim != tensor.ndim:
        raise InputError(f"'{tensor.name}' is {tensor.dtype} of {tensor.ndim} axes, got {array.dtype} of {array.ndim}")


def _find_sizes(given: Mapping[Tensor, np.ndarray], sizes: dict[Sym, int]) -> None:
    """Find what the symbols are in arrays' shapes; InputError for a shape that does not fit."""
    pairs = [pair for tensor, array in given.items() for pair in zip(tensor.shape, array.shape, strict=True)]
    symbols = [(wanted, extent) for wanted, extent in pairs if isinstance(wanted, Sym)]
    for wanted, extent in sorted(symbols, key=lambda pair: not pair[0].is_symbol):
        if (found := as_multiple(wanted)) is not None:
            name, factor, rest = found
            sizes.setdefault(Sym(name), (extent - rest) // factor)
    for tensor, array in given.items():
        if tuple(number_of(extent, sizes) for extent in tensor.shape) != array.shape:
            raise InputError(f"'{tensor.name}' has shape {tensor.shape}, got {array.shape}")


def number_of(extent: Extent, sizes: Mapping[Sym, int]) -> int:
    """An extent for sizes; InputError for a symbol that is none of them."""
    if isinstance(extent, int):
        return extent
    total = 0
    for atoms, factor in extent.terms:
        for atom in atoms:
            factor *= _number_of_atom(atom, sizes)
        total += factor
    return total


def _number_of_atom(atom: Atom, sizes: Mapping[Sym, int]) -> int:
    """A symbol, or a function of sizes."""
    if atom.function is not None:
        return require_static(_SIZE_FUNCTIONS[atom.function](*(number_of(each, sizes) for each in atom.args)))
    for symbol, number in sizes.items():
        if str(symbol) == atom.name:
            return number
    raise InputError(f"no array has '{atom.name}' as an extent, which is computed with")


def _make(
    tensor: Tensor, given: Mapping[Tensor, np.ndarray], sizes: Mapping[Sym, int], made: dict[Op, list[np.ndarray]]
) -> np.ndarray:
    if tensor in given:
        return given[tensor]
    op = tensor.op
    if isinstance(op, ScanOp):
        if op not in made:
            made[op] = _scan(op, given, sizes, made)
        return made[op][tensor.value_index]
    if not isinstance(op, ComputeOp):
        raise InputError(f"'{tensor.name}' is a placeholder, and has no array")
    if op not in made:
        arrays = {t: _make(t, given, sizes, made) for t in op.input_tensors}
        with np.errstate(all="ignore"):
            made[op] = _Computation(op, arrays, sizes).run()
    return made[op][tensor.value_index]


def _scan(
    op: ScanOp, given: Mapping[Tensor, np.ndarray], sizes: Mapping[Sym, int], made: dict[Op, list[np.ndarray]]
) -> list[np.ndarray]:
    """The arrays of a scan: each row is one of the updates for the rows before."""
    first = [_make(each, given, sizes, made) for each in op.init]
    known = {each: _make(each, given, sizes, made) for each in op.input_tensors}
    shape_of = _Computation(op.steps[0], {}, sizes)
    results = [
        np.zeros([shape_of.number(n) for n in op.shape_of(i)], numpy_dtype(dtype)) for i, dtype in enumerate(op.dtypes)
    ]
    for result, rows in zip(results, first, strict=True):
        result[: op.begun] = rows
    for row in range(op.begun, len(results[0])):
        arrays = known | dict(zip(op.state, results, strict=True))
        for step in op.steps:
            for number, array in enumerate(_Computation(step, arrays, sizes).run()):
                arrays[step.output(number)] = array
        for result, update in zip(results, op.update, strict=True):
            result[row] = arrays[update][row]
    return results


_SIZE_FUNCTIONS: dict[str, Callable[..., Extent]] = {
    "sum": lambda a: a,
    "floordiv": floor_divide,
    "mod": floor_mod,
    "min": min_of,
    "max": max_of,
    "if_equal": if_equal,
    "if_less": if_less,
}


class _Computation:
    """The arrays of one op."""

    def __init__(self, op: ComputeOp, arrays: Mapping[Tensor, np.ndarray], sizes: Mapping[Sym, int]) -> None:
        self.op, self.arrays, self.sizes = op, arrays, sizes
        self.shape = tuple(map(self.number, op.shape))
        self.rank = len(self.shape)

    def number(self, extent: Extent) -> int:
        """An extent for the sizes of this run."""
        return number_of(extent, self.sizes)

    def run(self) -> list[np.ndarray]:
        """An array for each of the op's tensors."""
        axes: dict[Expr, Any] = {
            axis: self.spread(np.arange(extent), number)
            for number, (axis, extent) in enumerate(zip(self.op.axis, self.shape, strict=True))
        }
        first = self.op.body[0]
        if isinstance(first, Reduce):
            results = self.reduce(first, axes)
            results = [results[each.number] for each in self.op.body if isinstance(each, Reduce)]
        else:
            known = dict(axes)
            results = [self.value(each, known) for each in self.op.body]
        return [
            np.array(np.broadcast_to(_store(v, dtype), self.shape), order="C")
            for v, dtype in zip(results, self.op.dtypes, strict=True)
        ]

    def spread(self, numbers: np.ndarray, axis: int) -> np.ndarray:
        """Numbers along one axis of the result."""
        return numbers.astype(np.int64).reshape([-1 if i == axis else 1 for i in range(self.rank)])

    def reduce(self, reduction: Reduce, axes: dict[Expr, Any]) -> list[Any]:
        """The results of a reduction, some of its steps at once."""
        extents = [self.number(axis.dom.extent) for axis in reduction.axes]
        results = [np.full(self.shape, each.value, _computes_in(each.dtype)) for each in reduction.combiner.identity]
        at_once = max(1, _MOST_AT_ONCE // max(1, math.prod(self.shape)))
        *outer, inner = (range(extent) for extent in extents)
        joined = _join_steps(reduction)
        for place in itertools.product(*outer):
            for begin in range(0, len(inner), at_once):
                steps = np.arange(begin, min(begin + at_once, len(inner))).reshape(-1, *[1] * self.rank)
                numbers = [*place, steps]
                own = {axis: n + axis.dom.min for axis, n in zip(reduction.axes, numbers, strict=True)}
                known = axes | own
                values = [self.value(each, known) for each in reduction.sources]
                shape = (steps.size, *self.shape)
                stacks = [np.broadcast_to(v, shape) for v in values]
                if joined is not None:
                    results = [joined(np.concatenate([results[0][None], stacks[0]]))]
                    continue
                for step in range(steps.size):
                    results = self.combine(reduction, results, [stack[step] for stack in stacks])
        return results

    def combine(self, reduction: Reduce, left: Sequence[Any], right: Sequence[Any]) -> list[Any]:
        """One step of a reduction."""
        combiner = reduction.combiner
        known: dict[Expr, Any] = dict(zip((*combiner.left, *combiner.right), (*left, *right), strict=True))
        return [np.broadcast_to(self.value(each, known), self.shape) for each in combiner.made]

    def value(self, expr: Expr, known: dict[Expr, Any]) -> Any:
        """An expression's values over the result's axes; ``known`` are those of parts, which become more."""
        if expr not in known:
            known[expr] = self._value(expr, known)
        made = known[expr]
        return np.asarray(made, np.int32) if isinstance(expr, IterVar) else made

    def _value(self, expr: Expr, known: dict[Expr, Any]) -> Any:
        if isinstance(expr, Literal):
            return np.asarray(expr.value, _computes_in(expr.dtype))
        if isinstance(expr, SizeVar):
            return np.asarray(self.number(expr.extent), np.int32)
        if isinstance(expr, Read):
            return self.read(expr, known)
        assert isinstance(expr, Operation)
        if expr.name == "select":
            test, then, otherwise = (self.value(each, known) for each in expr.operands)
            return np.where(test, then, otherwise)
        operands = [self.value(each, known) for each in expr.operands]
        if expr.name == "cast":
            return _cast(operands[0], expr.operands[0].dtype, expr.dtype)
        made = NUMPY[expr.name](*operands)
        return made if expr.dtype == "bool" else made.astype(_computes_in(expr.dtype))

    def index(self, expr: Expr, known: dict[Expr, Any]) -> Any:
        """An index's values, in 64 bits as far as it is made of axes."""
        if isinstance(expr, IterVar):
            return np.asarray(known[expr], np.int64)
        if isinstance(expr, Literal | SizeVar):
            return np.asarray(self.value(expr, known), np.int64)
        if isinstance(expr, Operation) and expr.name in INDEX_ARITHMETIC and expr.dtype == INDEX:
            return NUMPY[expr.name](*(self.index(each, known) for each in expr.operands))
        return np.asarray(self.value(expr, known)).astype(np.int64)

    def read(self, expr: Read, known: dict[Expr, Any]) -> Any:
        """Elements of a tensor; those that lie outside are others, which no result has that a condition guards."""
        array = self.arrays[expr.tensor]
        if not array.size:
            return np.zeros((), _computes_in(expr.dtype))
        places = [self.index(index, known) for index in expr.indices]
        inside = [np.clip(place, 0, extent - 1) for place, extent in zip(places, array.shape, strict=True)]
        found = array[tuple(np.broadcast_arrays(*inside))] if inside else array[()]
        return np.asarray(found).astype(_computes_in(expr.dtype))


def _join_steps(reduction: Reduce) -> Callable[[np.ndarray], Any] | None:
    """How numpy joins all steps of a reduction at once; None where it has no function for it."""
    combiner = reduction.combiner
    [made, *more] = combiner.made
    if more or not isinstance(made, Operation) or set(made.operands) != {*combiner.left, *combiner.right}:
        return None
    joins: dict[str, Any] = {"add": np.add, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum}
    return (lambda stack: joins[made.name].reduce(stack, axis=0)) if made.name in joins else None


def _computes_in(dtype: str) -> np.dtype:
    return np.dtype(np.float32) if dtype in ("float16", "bfloat16") else numpy_dtype(dtype)


def _store(value: Any, dtype: str) -> np.ndarray:
    return np.asarray(value).astype(numpy_dtype(dtype))


def _cast(value: Any, source: str, target: str) -> Any:
    if target == "bool":
        return np.asarray(value) != 0
    if source in FLOATS and target not in FLOATS:
        return np.trunc(value).astype(_computes_in(target))
    if target in ("float16", "bfloat16"):  # it is rounded once, to be computed with in float32
        return np.asarray(value).astype(numpy_dtype(target)).astype(np.float32)
    return np.asarray(value).astype(_computes_in(target))


def _divide_down(a: Any, b: Any) -> Any:
    if np.asarray(a).dtype.kind == "f":
        return np.floor(np.divide(a, b))
    return np.where(np.asarray(b) == 0, np.zeros((), np.asarray(a).dtype), np.floor_divide(a, np.where(b == 0, 1, b)))


def _remainder(a: Any, b: Any) -> Any:
    if np.asarray(a).dtype.kind == "f":
        return a - np.floor(np.divide(a, b)) * b
    return np.where(np.asarray(b) == 0, np.zeros((), np.asarray(a).dtype), np.mod(a, np.where(b == 0, 1, b)))


def _shift(shift: Any, a: Any, b: Any) -> Any:
    bits = 8 * np.asarray(a).dtype.itemsize
    inside = (np.asarray(b) >= 0) & (np.asarray(b) < bits)
    signed = shift is np.right_shift and np.asarray(a).dtype.kind == "i"
    gone = shift(a, np.asarray(bits - 1, np.asarray(a).dtype)) if signed else 0
    return np.where(inside, shift(a, np.where(inside, b, 0)), gone).astype(np.asarray(a).dtype)


def _erf(a: Any) -> Any:
    return np.vectorize(math.erf, otypes=[np.float64])(a)


NUMPY: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "floor_divide": _divide_down,
    "mod": _remainder,
    "power": np.power,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "negative": np.negative,
    "absolute": np.absolute,
    **{
        name: getattr(np, name)
        for name in ("exp", "exp2", "log", "log2", "log10", "log1p", "sqrt", "sin", "cos", "tan")
    },
    **{name: getattr(np, name) for name in ("sinh", "cosh", "tanh", "floor", "ceil", "trunc", "isnan")},
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "erf": _erf,
    "round": lambda a: np.trunc(a) + np.where(np.abs(a - np.trunc(a)) >= 0.5, np.sign(a), 0),
    "nearbyint": np.rint,
    **{name: getattr(np, name) for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "invert")},
    "left_shift": lambda a, b: _shift(np.left_shift, a, b),
    "right_shift": lambda a, b: _shift(np.right_shift, a, b),
    **{name: getattr(np, name) for name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")},
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_not": np.logical_not,
}
