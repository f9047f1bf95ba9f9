"""Reads the source of a hybrid function, and makes tensor expressions of its loops. Nothing of it is run."""

from __future__ import annotations

import ast
import inspect
import operator
import textwrap
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from ... import te
from ...core.errors import ExpressionError
from ...core.sizes import Sym
from ...te.expr import Expr, IterVar, Literal, Range, as_expr, as_size
from ...te.tensor import as_extent
from .buffers import Buffer, Loop, combine, compute_in, place_of, reduce_over
from .emulation import DTYPES, LOOPS

_OPERATIONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: lambda x, y: te.power(x, y) if isinstance(x, Expr) or isinstance(y, Expr) else x**y,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}
_COMPARISONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_JOINS = {ast.Add: "add", ast.Mult: "multiply"}
_FUNCTIONS = ("exp", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "power", "floor", "ceil", "trunc", "round", "abs")


@dataclass
class Local:
    """A variable of the function: the loops and how many conditions there were around where it began."""

    value: Any
    loops: tuple[Loop, ...]
    guards: int


class Translator:
    """The statements of a function, in order; ``loops`` and ``guards`` are those around the one that is read."""

    def __init__(self, function: types.FunctionType, args: Sequence[Any]) -> None:
        self.name = function.__name__
        try:
            source = textwrap.dedent(inspect.getsource(function))
        except (OSError, TypeError) as error:
            raise ExpressionError(f"the source of '{self.name}' cannot be read: write it to a file") from error
        found = next((each for each in ast.parse(source).body if isinstance(each, ast.FunctionDef)), None)
        if found is None:
            raise ExpressionError(f"'{self.name}' is no function that def makes")
        self.tree = found
        names = [each.arg for each in found.args.args]
        if len(names) != len(args):
            raise ExpressionError(f"'{self.name}' takes {len(names)} arguments, not {len(args)}")
        closure = inspect.getclosurevars(function)
        self.outer = {**closure.globals, **closure.nonlocals}
        self.locals = {name: Local(value, (), 0) for name, value in zip(names, args, strict=True)}
        self.loops: tuple[Loop, ...] = ()
        self.guards: list[Expr] = []
        self.carried: dict[str, str] = {}  # variables that a loop around changes, and how
        self.line = 0

    def translate(self) -> Any:
        """The tensors that the function returns. Raises ExpressionError, with the line, for what cannot be computed."""
        try:
            return self._run_body(self.tree)
        except ExpressionError as error:
            if str(error).startswith("hybrid function"):
                raise
            raise ExpressionError(f"hybrid function '{self.name}', line {self.line}: {error}") from error

    def _run_body(self, tree: ast.FunctionDef) -> Any:
        for each in tree.body:
            if isinstance(each, ast.Return):
                self.line = each.lineno
                return self._finish(each)
            self.run(each)
        self.refuse("it returns nothing")

    def _finish(self, node: ast.Return) -> Any:
        parts = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
        made = [self.evaluate(each) if each is not None else None for each in parts]
        if not all(isinstance(each, Buffer) for each in made):
            self.refuse("it returns arrays of output_tensor")
        tensors = [each.finish() for each in made if isinstance(each, Buffer)]
        if len(tensors) == 1:
            return tensors[0]
        if any(each.shape != tensors[0].shape for each in tensors):
            return tuple(tensors)
        # One op of several results, as in TVM, so that the schedule of one is that of all.
        return te.compute(tensors[0].shape, lambda *i: tuple(each(*i) for each in tensors), name=self.name)

    def refuse(self, why: str) -> NoReturn:
        """Raise ExpressionError."""
        raise ExpressionError(why)

    # Statements.

    def run(self, node: ast.stmt) -> None:
        """Take a statement in."""
        self.line = node.lineno
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            self._assign(node.targets[0], node.value)
        elif isinstance(node, ast.AugAssign):
            self._update(node.target, node.op, node.value)
        elif isinstance(node, ast.For):
            self._loop(node)
        elif isinstance(node, ast.If):
            self._choose(node)
        elif not isinstance(node, ast.Assert | ast.Pass | ast.Expr):
            self.refuse(f"'{ast.unparse(node).splitlines()[0]}' is no statement of hybrid functions")

    def _run_all(self, nodes: Sequence[ast.stmt]) -> None:
        """A block: variables that begin in it end with it."""
        known = set(self.locals)
        for each in nodes:
            self.run(each)
        self.locals = {name: each for name, each in self.locals.items() if name in known}

    def _guard(self, begin: int = 0) -> Expr | None:
        return te.all(*self.guards[begin:]) if self.guards[begin:] else None

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if (found := self._find_join(target, value)) is not None:
            self._join(target, *found)
        elif isinstance(target, ast.Name):
            self._set(target.id, value)
        elif isinstance(target, ast.Subscript):
            buffer, indices = self._find_store(target)
            made = self._as_dtype(self.evaluate(value), buffer.dtype)
            buffer.write(self.loops, indices, made, self._guard())
        else:
            self.refuse("an assignment has one name, or an element, on its left")

    def _set(self, name: str, value: ast.expr) -> None:
        if isinstance(value, ast.Call) and getattr(value.func, "id", "") in ("output_tensor", "allocate"):
            self.locals[name] = Local(self._allocate(name, value), self.loops, len(self.guards))
            return
        made, old = self.evaluate(value), self.locals.get(name)
        if old is None:
            self.locals[name] = Local(made, self.loops, len(self.guards))
            return
        if len(old.loops) != len(self.loops):
            self.refuse(f"'{name}' carries a value from step to step: only sums and the like do, or te.scan")
        guard = self._guard(old.guards)
        value_now = made if guard is None else te.if_then_else(guard, made, old.value)
        self.locals[name] = Local(value_now, old.loops, old.guards)

    def _allocate(self, name: str, call: ast.Call) -> Buffer:
        given = [self.evaluate(each) for each in call.args]
        named = {each.arg: self.evaluate(each.value) for each in call.keywords}
        shape = named.get("shape", given[0] if given else ())
        dtype = named.get("dtype", given[1] if len(given) > 1 else "float32")
        extents = [
            as_extent(each, f"an extent of '{name}'") for each in (shape if isinstance(shape, tuple) else (shape,))
        ]
        return Buffer(name, tuple(extents), str(dtype), self.loops)

    def _find_join(self, target: ast.expr, value: ast.expr) -> tuple[str, ast.expr] | None:
        """How a value is made of the target itself and another one, as ``s = max(s, x)``."""
        own = ast.dump(target).replace("Store()", "Load()")
        if isinstance(value, ast.BinOp) and type(value.op) in _JOINS:
            sides, name = [value.left, value.right], _JOINS[type(value.op)]
        elif isinstance(value, ast.Call) and getattr(value.func, "id", "") in ("max", "min") and len(value.args) == 2:
            sides, name = list(value.args), {"max": "maximum", "min": "minimum"}[getattr(value.func, "id", "")]
        else:
            return None
        others = [each for each in sides if ast.dump(each) != own]
        return (name, others[0]) if len(others) == 1 else None

    def _update(self, target: ast.expr, op: ast.operator, value: ast.expr) -> None:
        if isinstance(op, ast.Sub):
            self._join(target, "add", ast.copy_location(ast.UnaryOp(ast.USub(), value), value))
        elif type(op) in _JOINS:
            self._join(target, _JOINS[type(op)], value)
        else:
            read = ast.parse(ast.unparse(target), mode="eval").body
            self._assign(target, ast.copy_location(ast.BinOp(read, op, value), value))

    def _join(self, target: ast.expr, name: str, value: ast.expr) -> None:
        if isinstance(target, ast.Name) and target.id in self.locals:
            self._join_local(target.id, name, self.evaluate(value))
        elif isinstance(target, ast.Subscript):
            buffer, indices = self._find_store(target)
            made = self._as_dtype(self.evaluate(value), buffer.dtype)
            buffer.accumulate(self.loops, indices, name, made, self._guard())
        else:
            self.refuse(f"'{ast.unparse(target)}' is not there yet")

    def _join_local(self, which: str, name: str, value: Any) -> None:
        old = self.locals[which]
        inner = self.loops[len(old.loops) :]
        guard = self._guard(old.guards)
        if not inner:
            made = combine(name, *self._alike(old.value, value))
            made = made if guard is None else te.if_then_else(guard, made, old.value)
        else:
            if self.carried.setdefault(which, name) not in ("", name):
                self.refuse(f"'{which}' is changed in two ways by the steps of a loop")
            self.carried[which] = name
            begin, expr = self._alike(old.value, value)
            total = compute_in(old.loops, reduce_over(name, as_expr(expr), guard, inner), f"{which}_{name}")
            made = (
                total
                if name == "add" and isinstance(begin, Literal) and begin.value == 0
                else combine(name, begin, total)
            )
        self.locals[which] = Local(made, old.loops, old.guards)

    def _alike(self, left: Any, right: Any) -> tuple[Expr, Expr]:
        """Two values as expressions of one dtype: numbers take that of the other."""
        kind = left.dtype if isinstance(left, Expr) else getattr(as_expr(right), "dtype", "")
        if not isinstance(left, Expr) and not isinstance(right, Expr):
            kind = "float32" if isinstance(left, float) or isinstance(right, float) else "int32"
        return as_expr(left, kind), as_expr(right, kind)

    def _as_dtype(self, value: Any, dtype: str) -> Expr:
        made = as_expr(value, dtype)
        return made if made.dtype == dtype else made.astype(dtype)

    def _find_store(self, target: ast.Subscript) -> tuple[Buffer, list[Expr]]:
        buffer = self.evaluate(target.value)
        if not isinstance(buffer, Buffer):
            self.refuse(f"'{ast.unparse(target)}' is written, and no array of output_tensor or allocate")
        return buffer, self._read_indices(target.slice)

    def _read_indices(self, node: ast.expr) -> list[Expr]:
        parts = node.elts if isinstance(node, ast.Tuple) else [node]
        return [as_expr(self.evaluate(each)) for each in parts]

    def _loop(self, node: ast.For) -> None:
        call = node.iter
        kind = getattr(call.func, "id", "") if isinstance(call, ast.Call) else ""
        if not isinstance(call, ast.Call) or kind not in LOOPS or not isinstance(node.target, ast.Name) or node.orelse:
            self.refuse(f"a loop is 'for i in range(...)', or one of {', '.join(LOOPS[1:])}")
        given = [self.evaluate(each) for each in call.args]
        begin, end = (0, given[0]) if len(given) == 1 else (given[0], given[1])
        if len(given) > 2:
            self.refuse("a loop goes by steps of 1")
        if kind == "const_range":
            self._write_out(node, begin, end)
            return
        loop, guards = self._make_loop(node.target.id, begin, end)
        changed = {name for name in _list_assigned(node.body) if name in self.locals}
        outer, depth, carried = self.loops, len(self.guards), dict(self.carried)
        self.carried |= {name: "" for name in changed if not isinstance(self.locals[name].value, Buffer)}
        self.loops = (*outer, loop)
        self.guards += guards
        shadowed = self.locals.get(node.target.id)
        self.locals[node.target.id] = Local(loop.value, self.loops, len(self.guards))
        self._run_all(node.body)
        del self.locals[node.target.id]
        if shadowed is not None:
            self.locals[node.target.id] = shadowed
        self.loops, self.carried = outer, carried
        del self.guards[depth:]

    def _write_out(self, node: ast.For, begin: Any, end: Any) -> None:
        if not isinstance(begin, int) or not isinstance(end, int) or not isinstance(node.target, ast.Name):
            self.refuse("const_range takes numbers")
        for number in range(begin, end):
            self.locals[node.target.id] = Local(number, self.loops, len(self.guards))
            self._run_all(node.body)
        self.locals.pop(node.target.id, None)

    def _make_loop(self, name: str, begin: Any, end: Any) -> tuple[Loop, list[Expr]]:
        """A loop of a fixed length, and what has to hold where its bounds depend on loops around."""
        guards: list[Callable[[Expr], Expr]] = []
        first, last = begin, end
        if isinstance(begin, Expr) and (bounds := self._find_bounds(begin)) is not None:
            first = bounds[0]
            guards.append(lambda i: i >= begin)
        if isinstance(end, Expr) and (bounds := self._find_bounds(end)) is not None:
            last = bounds[1]
            guards.append(lambda i: i < end)
        if not isinstance(first, int):
            self.refuse(f"loop '{name}' begins at '{begin}': a number, or a variable of a loop around and a number")
        extent = as_extent(
            last - first if isinstance(last, int) else last - te.const(first), f"the end of loop '{name}'"
        )
        loop = Loop(IterVar(name, Range(0, extent)), first, extent)
        return loop, [each(loop.value) for each in guards]

    def _find_bounds(self, expr: Expr) -> tuple[int, int] | None:
        """The least and the greatest value of a loop's variable and a number."""
        place = place_of(expr)
        loop = next((each for each in self.loops if place is not None and each.var is place.var), None)
        if loop is None or place is None or not isinstance(loop.extent, int):
            return None
        return place.offset, place.offset + loop.extent - 1

    def _choose(self, node: ast.If) -> None:
        condition = self.evaluate(node.test)
        if not isinstance(condition, Expr):
            self._run_all(node.body if condition else node.orelse)
            return
        for guard, body in ((condition, node.body), (operator_not(condition), node.orelse)):
            self.guards.append(guard)
            self._run_all(body)
            self.guards.pop()

    # Expressions.

    def evaluate(self, node: ast.expr) -> Any:
        """The value of an expression: a number, an expression of te, a tensor, an array or a tuple."""
        method = getattr(self, f"_read_{type(node).__name__.lower()}", None)
        if method is None:
            self.refuse(f"'{ast.unparse(node)}' is no expression of hybrid functions")
        return method(node)

    def _read_constant(self, node: ast.Constant) -> Any:
        return node.value

    def _read_name(self, node: ast.Name) -> Any:
        if node.id in self.locals:
            found = self.locals[node.id]
            if node.id in self.carried and len(found.loops) < len(self.loops):
                self.refuse(f"'{node.id}' carries a value from step to step: only sums and the like do, or te.scan")
            return found.value
        if node.id in self.outer:
            return self.outer[node.id]
        self.refuse(f"'{node.id}' is not known here")

    def _read_tuple(self, node: ast.Tuple) -> Any:
        return tuple(self.evaluate(each) for each in node.elts)

    def _read_attribute(self, node: ast.Attribute) -> Any:
        owner = self.evaluate(node.value)
        if not isinstance(owner, te.Tensor | Buffer) or node.attr not in ("shape", "dtype"):
            self.refuse(f"'{ast.unparse(node)}': tensors have shape and dtype here")
        if node.attr == "dtype":
            return owner.dtype
        return tuple(as_size(each) if isinstance(each, Sym) else each for each in owner.shape)

    def _read_subscript(self, node: ast.Subscript) -> Any:
        owner = self.evaluate(node.value)
        if isinstance(owner, tuple | list):
            index = self.evaluate(node.slice)
            if not isinstance(index, int):
                self.refuse(f"'{ast.unparse(node)}': the index is a number, or a variable of const_range")
            return owner[index]
        indices = self._read_indices(node.slice)
        if isinstance(owner, Buffer):
            return owner.read(self.loops, indices)
        if not isinstance(owner, te.Tensor):
            self.refuse(f"'{ast.unparse(node)}': elements are those of tensors")
        return owner(*indices)

    def _read_binop(self, node: ast.BinOp) -> Any:
        if type(node.op) not in _OPERATIONS:
            self.refuse(f"'{ast.unparse(node)}' is no operation of hybrid functions")
        return _OPERATIONS[type(node.op)](self.evaluate(node.left), self.evaluate(node.right))

    def _read_unaryop(self, node: ast.UnaryOp) -> Any:
        value = self.evaluate(node.operand)
        if isinstance(node.op, ast.Not):
            return operator_not(value) if isinstance(value, Expr) else not value
        return -value if isinstance(node.op, ast.USub) else value

    def _read_compare(self, node: ast.Compare) -> Any:
        sides = [self.evaluate(each) for each in (node.left, *node.comparators)]
        if any(type(each) not in _COMPARISONS for each in node.ops):
            self.refuse(f"'{ast.unparse(node)}' is no comparison of numbers")
        pairs = zip(node.ops, sides, sides[1:], strict=False)
        return self._join_conditions([_compare(type(op), left, right) for op, left, right in pairs], ast.And)

    def _read_boolop(self, node: ast.BoolOp) -> Any:
        return self._join_conditions([self.evaluate(each) for each in node.values], type(node.op))

    def _join_conditions(self, parts: Sequence[Any], kind: type) -> Any:
        open_parts = [each for each in parts if isinstance(each, Expr)]
        known = [bool(each) for each in parts if not isinstance(each, Expr)]
        decided = kind is ast.Or
        if decided in known or not open_parts:
            return decided if decided in known else not decided
        return te.any(*open_parts) if decided else te.all(*open_parts)

    def _read_ifexp(self, node: ast.IfExp) -> Any:
        condition = self.evaluate(node.test)
        if not isinstance(condition, Expr):
            return self.evaluate(node.body if condition else node.orelse)
        return te.if_then_else(condition, *self._alike(self.evaluate(node.body), self.evaluate(node.orelse)))

    def _read_call(self, node: ast.Call) -> Any:
        name = getattr(node.func, "id", "")
        given = [self.evaluate(each) for each in node.args]
        if name == "len" and isinstance(given[0], te.Tensor | Buffer):
            return given[0].shape[0]
        if name == "len":
            return len(given[0])
        if name in DTYPES:
            return as_expr(given[0]).astype(name)
        if name in ("max", "min"):
            return combine("maximum" if name == "max" else "minimum", *self._alike(*given))
        if name == "ceil_div":
            return (given[0] + given[1] - 1) // given[1]
        if name == "likely":
            return given[0]
        if name not in _FUNCTIONS:
            self.refuse(f"'{ast.unparse(node.func)}' is no function of hybrid functions: {', '.join(_FUNCTIONS)}")
        return getattr(te, name)(*given)


def operator_not(condition: Expr) -> Expr:
    """Where a condition does not hold."""
    return te.if_then_else(condition, te.const(0, "bool"), te.const(1, "bool"))


def _compare(kind: type, left: Any, right: Any) -> Any:
    return _COMPARISONS[kind](left, right)


def _list_assigned(nodes: Sequence[ast.stmt]) -> set[str]:
    """The names that statements assign, those inside of loops too."""
    found = set()
    for each in (inner for node in nodes for inner in ast.walk(node)):
        targets = (
            each.targets if isinstance(each, ast.Assign) else [each.target] if isinstance(each, ast.AugAssign) else []
        )
        found.update(target.id for target in targets if isinstance(target, ast.Name))
    return found
