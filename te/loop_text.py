"""A schedule as loops that people read: ``lower(s, args, simple_mode=True)``."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Mapping, Sequence

from ..core.sizes import Extent
from .arguments import name_arguments
from .attachment import consumers_of, reads_of, sizes_at
from .calls import calls_of, resets_of
from .computation import Computation
from .dtypes import INDEX
from .expr import Expr, IterVar, Literal, Operation, Read, Reduce, SizeVar, as_size
from .expr_parts import children_of, exchange_parts
from .intrinsic import Buffer, ExternCall, Pointer
from .matching import Tensorization, match_intrinsic
from .regions import as_linear
from .scan import ScanOp
from .schedule import Schedule
from .stage import Leaf, Stage
from .tensor import ComputeOp, Op

_LOOP_WORDS = {"": "for", "parallel": "parallel", "vectorize": "vectorize", "unroll": "unroll"}
# Infix operations, and how tightly they bind.
_INFIX = {
    "multiply": ("*", 6), "divide": ("/", 6), "floor_divide": ("//", 6), "mod": ("%", 6), "add": ("+", 5),
    "subtract": ("-", 5), "left_shift": ("<<", 4), "right_shift": (">>", 4), "bitwise_and": ("&", 3),
    "bitwise_xor": ("^", 2), "bitwise_or": ("|", 2), "less": ("<", 1), "less_equal": ("<=", 1), "greater": (">", 1),
    "greater_equal": (">=", 1), "equal": ("==", 1), "not_equal": ("!=", 1), "logical_and": ("&&", 0),
    "logical_or": ("||", 0),
}  # fmt: skip
_NAMES = {"maximum": "max", "minimum": "min", "absolute": "abs", "select": "if_then_else"}


def loop_text(computation: Computation) -> str:
    """The loops of a schedule, in the order in which they run.

    A loop ``for (i, 0, n)`` goes over 0 to below n. Where the last step of a loop around is smaller, n is a minimum.
    """
    return "\n".join(_Printer(computation).lines)


class _Printer:
    def __init__(self, computation: Computation) -> None:
        self.schedule: Schedule = computation.schedule
        self.lines: list[str] = []
        self.around: list[str] = []  # the names of the loops around a line
        self.begins: dict[Op, list[Expr]] = {}  # where the memory of what is computed in loops does
        named = zip(name_arguments(computation.args), computation.args, strict=True)
        given = ", ".join(f"{name}: {t.dtype}{_shape_text(t.shape)}" for name, t in named)
        self.put(0, f"{computation.name}({given}) {{")
        outputs = {self.schedule[t].stage for t in computation.args if isinstance(t.op, ComputeOp)}
        for stage in self.schedule.stages:
            if isinstance(stage.op, ScanOp):
                self.write_scan(stage.op, stage.name)
            if stage.at is None and not stage.inline and isinstance(stage.op, ComputeOp):
                if stage not in outputs:
                    self.declare(1, stage, [axis.dom.extent for axis in stage.op.axis])
                self.nest(1, stage, {}, {})
        self.put(0, "}")

    def write_scan(self, op: ScanOp, name: str) -> None:
        """The rows of a scan, one after another, and in each the expressions of its steps."""
        time = op.steps[-1].axis[0]
        for number, first in enumerate(op.init):
            own = name if op.num_outputs == 1 else f"{name}.v{number}"
            self.put(1, f"{own}[0:{op.begun}, ...] = {first.name}")
        self.put(1, f"for ({time}, {op.begun}, {op.shape[0]}) {{")
        for step in op.steps:
            places = ", ".join([str(time), *(str(axis) for axis in step.axis[1:])])
            for number, each in enumerate(step.body):
                body = exchange_parts(each, lambda e, own=step.axis[0]: time if e is own else None)
                target = step.output(number).name
                self.put(2, f"{target}[{places}] = {body if isinstance(body, Reduce) else text(body)}")
        for number, update in enumerate(op.update):
            own = name if op.num_outputs == 1 else f"{name}.v{number}"
            self.put(2, f"{own}[{time}, ...] = {update.name}[{time}, ...]")
        self.put(1, "}")

    def put(self, depth: int, text: str) -> None:
        """One line."""
        self.lines.append("  " * depth + text)

    def declare(self, depth: int, stage: Stage, shape: Sequence[Extent]) -> None:
        """The memory of what a stage makes."""
        assert isinstance(stage.op, ComputeOp)
        for number, dtype in enumerate(stage.op.dtypes):
            self.put(depth, f"alloc {_name(stage, number)}: {dtype}{_shape_text(shape)}")

    def nest(self, depth: int, stage: Stage, bases: Mapping[IterVar, Expr], origin: Mapping[IterVar, Expr]) -> None:
        """The loops of a stage whose axes begin at ``bases``, and whose memory does at ``origin``."""
        op = stage.op
        assert isinstance(op, ComputeOp)
        if stage.automatic:
            self.put(depth, f"{_name(stage, 0)}: loops of the compiler's own")
        values: dict[IterVar, Expr] = {axis: bases.get(axis, _number(axis.dom.min)) for axis in _axes(stage)}
        begun = not isinstance(op.body[0], Reduce)
        if stage.at is not None and not begun:
            begun = True
            self.put(depth, f"{_name(stage, 0)}[...] = {_identity_text(op)}")
        sizes, first = sizes_at(self.schedule, stage), depth
        for number, leaf in enumerate(stage.leaves):
            whole = stage.intrinsic if stage.intrinsic is not None and stage.intrinsic[0] is leaf.var else None
            if (leaf.var.reduces or whole) and not begun:
                begun = True
                if not self.write_resets(depth, stage, values, origin):
                    self.write_init(depth, stage, values, origin, stage.leaves[number:])
            if whole:
                match = match_intrinsic(self.schedule, stage, *whole)
                self.write_calls(depth, stage, match, calls_of(whole[1], match), values, origin)
                break
            count, var = self.count(stage, leaf, values, sizes), self.enter(leaf.var)
            self.put(depth, f"{_LOOP_WORDS[leaf.mark]} ({var.name}, 0, {count}) {{")
            depth += 1
            self.advance(leaf, var, values)
            for other in self.schedule.stages:
                if other.at is not None and other.at[0] is stage and other.at[1] is leaf.var:
                    self.place(depth, other, stage, values, number + 1)
        else:
            self.write(depth, stage, values, origin)
        for level in range(depth - first):
            self.put(depth - level - 1, "}")
            self.around.pop()

    def enter(self, var: IterVar) -> IterVar:
        """The loop itself, or one of another name where a loop around has the same."""
        numbered = (f"{var.name}_{number}" for number in itertools.count(1))
        name = next(name for name in itertools.chain([var.name], numbered) if name not in self.around)
        self.around.append(name)
        return var if name == var.name else IterVar(name, var.dom, var.iter_type)

    def write_init(
        self,
        depth: int,
        stage: Stage,
        values: Mapping[IterVar, Expr],
        origin: Mapping[IterVar, Expr],
        rest: Sequence[Leaf],
    ) -> None:
        """What a reduction begins with: an element, or all that the loops inside go over."""
        assert isinstance(stage.op, ComputeOp)
        inner = [part.axis for leaf in rest for part in leaf.parts if not leaf.var.reduces]
        places = [
            "..." if any(axis is each for each in inner) else text(_relative(values[axis], origin.get(axis)))
            for axis in stage.op.axis
        ]
        self.put(depth, f"{_name(stage, 0)}[{', '.join(places)}] = {_identity_text(stage.op)}")

    def write_resets(self, depth: int, stage: Stage, *places: Mapping[IterVar, Expr]) -> bool:
        """The calls that begin a reduction, if an intrinsic has them; whether it does."""
        if stage.intrinsic is None:
            return False
        match = match_intrinsic(self.schedule, stage, *stage.intrinsic)
        calls = resets_of(stage.intrinsic[1], match)
        self.write_calls(depth, stage, match, calls, *places)
        return bool(calls)

    def write_calls(
        self,
        depth: int,
        stage: Stage,
        match: Tensorization,
        calls: Sequence[ExternCall],
        values: Mapping[IterVar, Expr],
        origin: Mapping[IterVar, Expr],
    ) -> None:
        """Calls in the place of loops."""
        assert stage.intrinsic is not None and isinstance(stage.op, ComputeOp)
        intrinsic = stage.intrinsic[1]
        begin = ", ".join(text(_relative(values[axis], origin.get(axis))) for axis in stage.op.axis)
        names: dict[Buffer, str] = {}
        for tensor, buffer in intrinsic.buffers.items():
            read = match.reads.get(tensor)
            made = f"{_name(stage, tensor.value_index)}[{begin}]"
            names[buffer] = made if read is None else text(self.resolve(read, values))
        for call in calls:
            given = ", ".join(_passed_text(each, match, names) for each in call.arguments)
            self.put(depth, f"{call.function}({given})")

    def count(self, stage: Stage, leaf: Leaf, values: Mapping[IterVar, Expr], sizes: Mapping[IterVar, Extent]) -> str:
        """The number of a loop's steps, the least of it and what is left where that may be less."""
        if len(leaf.parts) > 1:
            return str(leaf.steps)
        part = next(iter(leaf.parts))
        around = stage.around(part.axis, stage.position(leaf.var))
        whole = sizes.get(part.axis, part.axis.dom.extent)
        extent = whole if around is None else part.extent
        steps = (extent + part.step - 1) // part.step
        if around is not None and not _divides(whole, around):
            left = _number(0) + (as_size(whole) - values[part.axis])
            rest = text(left) if part.step == 1 else f"ceil(({text(left)}) / {part.step})"
            return f"min({steps}, {rest})"
        return str(steps)

    def advance(self, leaf: Leaf, var: IterVar, values: dict[IterVar, Expr]) -> None:
        """Add a loop's place, ``var``, to the axes that it goes over."""
        place: Expr = var
        for part in reversed(leaf.parts):
            own = place
            if part is not leaf.parts[0]:
                own, place = place % as_size(part.steps), place // as_size(part.steps)
            values[part.axis] = values[part.axis] + own * part.step

    def place(self, depth: int, stage: Stage, parent: Stage, values: Mapping[IterVar, Expr], until: int) -> None:
        """What is computed in a loop of another stage: its memory begins where the loop's step first reads."""
        assert isinstance(stage.op, ComputeOp)
        found: dict[IterVar, Expr] = {}
        for number, axis in enumerate(stage.op.axis):
            indices = [r.indices[number] for c in consumers_of(self.schedule, stage) for r in reads_of(c, stage)]
            linear = [each for each in indices if as_linear(each) is not None] or indices
            first = min(linear, key=lambda e: getattr(as_linear(e), "const", 0))
            found[axis] = exchange_parts(first, lambda e: values.get(e, _number(0)) if isinstance(e, IterVar) else None)
        reads = sum(len(reads_of(c, stage)) for c in consumers_of(self.schedule, stage))
        if reads > 1:
            self.put(depth, f"// {stage.name} is computed for each of {reads} reads")
        sizes = sizes_at(self.schedule, stage)
        self.declare(depth, stage, [sizes[axis] for axis in stage.op.axis])
        if reads == 1:  # of several each has a tile of its own
            self.begins[stage.op] = [found[axis] for axis in stage.op.axis]
        self.nest(depth, stage, found, found)

    def resolve(self, expr: Expr, values: Mapping[IterVar, Expr]) -> Expr:
        """An expression at the place of the loops, whose reads of what is computed in loops are places there."""

        def exchange(part: Expr) -> Expr | None:
            if isinstance(part, Read) and (begin := self.begins.get(part.tensor.op)) is not None:
                places = [self.resolve(index, values) for index in part.indices]
                return Read(part.tensor, tuple(map(_measure_offset, places, begin)))
            return values.get(part) if isinstance(part, IterVar) else None

        return exchange_parts(expr, exchange)

    def write(self, depth: int, stage: Stage, values: Mapping[IterVar, Expr], origin: Mapping[IterVar, Expr]) -> None:
        """The statements in the innermost loop."""
        op = stage.op
        assert isinstance(op, ComputeOp)
        known = dict(values)
        for joined, axes in stage.joined.items():
            place = values[joined]
            for axis in reversed(axes):
                known[axis] = place % as_size(axis.dom.extent) if axis is not axes[0] else place
                place = place // as_size(axis.dom.extent)
        places = ", ".join(text(_relative(known[axis], origin.get(axis))) for axis in op.axis)
        for number, each in enumerate(op.body):
            target = f"{_name(stage, number)}[{places}]"
            if isinstance(each, Reduce):
                sources = [self.resolve(source, known) for source in each.sources]
                combiner = each.combiner
                given: dict[Expr, str] = dict(zip(combiner.right, map(text, sources), strict=True))
                given |= {side: f"{_name(stage, i)}[{places}]" for i, side in enumerate(combiner.left)}
                self.put(depth, f"{target} = {text(combiner.made[each.number], given)}")
            else:
                self.put(depth, f"{target} = {text(self.resolve(each, known))}")


def _passed_text(argument: Pointer | Literal | SizeVar, match: Tensorization, names: Mapping[Buffer, str]) -> str:
    if isinstance(argument, SizeVar):
        return str(match.strides.get(argument.extent, argument))
    if isinstance(argument, Literal):
        return str(argument)
    return f"&{names[argument.buffer]}" + (f" + {argument.offset}" if argument.offset else "")


def _measure_offset(place: Expr, begin: Expr) -> Expr:
    """A place counted from another one, of which axes that both have are left out."""
    first, second = as_linear(place), as_linear(begin)
    if first is None or second is None:
        return place - begin
    rest = first.add(second, -1)
    parts = [axis if times == 1 else axis * times for axis, times in rest.terms.items()]
    if rest.const != 0 or not parts:
        parts.append(as_size(rest.const))
    return functools.reduce(operator.add, parts)


def _axes(stage: Stage) -> list[IterVar]:
    assert isinstance(stage.op, ComputeOp)
    return [*stage.op.axis, *stage.op.reduce_axis, *stage.joined]


def _name(stage: Stage, number: int) -> str:
    return stage.name if stage.op.num_outputs == 1 else f"{stage.name}.v{number}"


def _identity_text(op: ComputeOp) -> str:
    first = op.body[0]
    assert isinstance(first, Reduce)
    return ", ".join(map(str, first.combiner.identity))


def _shape_text(shape: Sequence[Extent]) -> str:
    return f"[{', '.join(map(str, shape))}]"


def _divides(whole: Extent, step: int) -> bool:
    return isinstance(whole, int) and whole % step == 0


def _number(value: int) -> Expr:
    return Literal(value, INDEX)


def _relative(value: Expr, origin: Expr | None) -> Expr:
    """A place counted from where memory begins."""
    if origin is None:
        return value
    if isinstance(value, Operation) and value.name == "add" and value.operands[0] is origin:
        return value.operands[1]
    return _number(0) if value is origin else value - origin


def text(expr: Expr, given: Mapping[Expr, str] | None = None, around: int = -1) -> str:
    """An expression with infix operators; ``given`` are texts of parts."""
    if given and expr in given:
        return given[expr]
    if isinstance(expr, Read):
        return f"{expr.tensor.name}[{', '.join(text(index, given) for index in expr.indices)}]"
    if not isinstance(expr, Operation):
        return str(expr)
    if expr.name in _INFIX:
        sign, binds = _INFIX[expr.name]
        left, right = (text(e, given, binds + n) for n, e in enumerate(expr.operands))
        made = f"{left}{sign}{right}" if binds == 6 else f"{left} {sign} {right}"
        return f"({made})" if binds < around else made
    parts = ", ".join(text(each, given) for each in children_of(expr))
    return f"{expr.dtype}({parts})" if expr.name == "cast" else f"{_NAMES.get(expr.name, expr.name)}({parts})"
