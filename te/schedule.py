"""Schedules of tensor expressions: how the loops of a computation are cut, ordered, joined and run.

Each primitive is checked when it is called: it raises ScheduleError, in words, and leaves the schedule as it was. What
a schedule holds can be lowered.
"""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

from ..core.errors import ExpressionError, ScheduleError
from ..core.sizes import Extent
from . import rules
from .attachment import extent_at
from .expr import Expr, IterVar, Range, Read, Reduce, as_size, choose, exchange_parts
from .stage import Leaf, LoopPart, Stage
from .tensor import ComputeOp, Op, PlaceholderOp, Tensor

P = ParamSpec("P")
R = TypeVar("R")
TraceStep = tuple[str, list[Any]]
PRIMITIVES: dict[str, Callable[..., Any]] = {}

# What `pragma` knows, and memory that `set_scope` and the caches may name: a CPU has one.
PRAGMAS = ("auto_unroll_max_step", "unroll_explicit")
SCOPES = ("global", "local")


def refuse_primitive(message: str) -> Any:
    """Raise ScheduleError."""
    raise ScheduleError(message)


def primitive(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """A method that changes a schedule or, where it raises, nothing. The trace has its name and arguments."""
    signature, name = inspect.signature(method), method.__name__

    @functools.wraps(method)
    def applied(self: Any, *args: P.args, **kwargs: P.kwargs) -> R:
        schedule: Schedule = self if isinstance(self, Schedule) else self.schedule
        try:
            bound = signature.bind(self, *args, **kwargs)
        except TypeError as error:
            raise ScheduleError(f"{name}: {error}") from error
        bound.apply_defaults()
        given = [schedule.to_data(each) for each in bound.args] if schedule.depth == 0 else []
        before = schedule.snapshot()
        schedule.depth += 1
        try:
            result = method(self, *args, **kwargs)
            rules.check(schedule)
        except BaseException:
            schedule.restore(before)
            raise
        finally:
            schedule.depth -= 1
        if schedule.depth == 0:
            schedule.steps.append((name, given))
        return result

    PRIMITIVES[name] = applied
    return applied


class StageHandle:
    """A stage of a schedule, ``s[C]``, with the primitives that change its loops."""

    def __init__(self, schedule: Schedule, stage: Stage) -> None:
        self.schedule, self.stage = schedule, stage

    @property
    def op(self) -> Any:
        """What it computes: ``op.axis`` and ``op.reduce_axis`` are its axes."""
        return self.stage.op

    @property
    def name(self) -> str:
        """The op's name; of ops of one name, it has a number."""
        return self.stage.name

    @property
    def leaf_iter_vars(self) -> list[IterVar]:
        """Its loops, outermost first."""
        return self.stage.leaf_iter_vars

    @property
    def all_iter_vars(self) -> list[IterVar]:
        """Its axes and all loops that were ever made of them."""
        return list(self.stage.all_iter_vars)

    @property
    def iter_types(self) -> dict[IterVar, str]:
        """How each loop runs: "parallel", "vectorize", "unroll", or "" for a plain one."""
        return {leaf.var: leaf.mark for leaf in self.stage.leaves}

    @property
    def attach_type(self) -> str:
        """Where it stands: "root", "inline", or "at" a loop of another stage."""
        return "inline" if self.stage.inline else "at" if self.stage.at else "root"

    @property
    def scope(self) -> str:
        """The memory of what it makes."""
        return self.stage.scope

    def __repr__(self) -> str:
        return f"stage({self.name}: {', '.join(map(str, self.leaf_iter_vars))})"

    @primitive
    def split(self, parent: IterVar, factor: int | None = None, nparts: int | None = None) -> tuple[IterVar, IterVar]:
        """``for i in 0..96`` -> ``for i.outer in 0..3 { for i.inner in 0..32``, with ``factor=32`` or ``nparts=3``.

        The last step of the outer loop is smaller where the factor does not divide the extent.
        """
        stage, leaf = self.stage, self.stage.find_plain(parent, "split")
        if (factor is None) == (nparts is None):
            refuse_primitive(
                f"cannot split '{parent}': give factor, the steps of the inner loop, or nparts, of the outer one"
            )
        rules.check_free(self.schedule, stage, parent, "split")
        if len(leaf.parts) > 1:
            refuse_primitive(
                f"cannot split '{parent}': it is fused of loops that do not lie one after another; split those before"
            )
        part = next(iter(leaf.parts))
        extent = extent_at(self.schedule, stage, leaf, part)
        if factor is None:
            parts = rules.check_count(nparts, f"split '{parent}' into")
            if not isinstance(extent, int):
                refuse_primitive(
                    f"cannot split '{parent}' into {parts} parts: its extent {extent} is known only at run time"
                )
            factor = max(1, -(-int(-(-extent // part.step)) // parts))
        step = rules.check_count(factor, f"split '{parent}' by") * part.step
        if isinstance(extent, int):
            step = max(part.step, min(step, extent))  # a longer one is one step, too
        outer, inner = LoopPart(part.axis, extent, step), LoopPart(part.axis, step, part.step)
        names = (f"{parent.name}.outer", f"{parent.name}.inner")
        made = [
            Leaf(stage.make_var(name, each.steps, parent), (each,))
            for name, each in zip(names, (outer, inner), strict=True)
        ]
        stage.exchange([leaf], made)
        return made[0].var, made[1].var

    @primitive
    def tile(
        self, x_parent: IterVar, y_parent: IterVar, x_factor: int, y_factor: int
    ) -> tuple[IterVar, IterVar, IterVar, IterVar]:
        """``for x: for y`` -> ``for x.outer: for y.outer: for x.inner: for y.inner``."""
        xo, xi = self.split(x_parent, factor=x_factor)
        yo, yi = self.split(y_parent, factor=y_factor)
        self.reorder(xo, yo, xi, yi)
        return xo, yo, xi, yi

    @primitive
    def fuse(self, *axes: IterVar) -> IterVar:
        """``for i in 0..4 { for j in 0..8`` -> ``for i.j.fused in 0..32``: neighbours, the outermost first."""
        stage = self.stage
        given = _as_list(axes)
        if len(given) < 2:
            refuse_primitive("cannot fuse one loop: name two or more neighbours, the outermost first")
        leaves = [stage.find_plain(axis, "fuse") for axis in given]
        for axis in given:
            rules.check_free(self.schedule, stage, axis, "fuse")
        begin = stage.position(given[0])
        if stage.leaves[begin : begin + len(given)] != leaves:
            order = ", ".join(f"'{leaf.var}'" for leaf in stage.leaves)
            refuse_primitive(
                f"cannot fuse '{given[0]}' and '{given[1]}': neighbours can be fused, outermost first: {order}"
            )
        if len({axis.reduces for axis in given}) > 1:
            refuse_primitive(f"cannot fuse '{given[0]}' and '{given[1]}': one of them is a reduction's")
        name = ".".join([*(axis.name for axis in given), "fused"])
        steps: Extent = 1
        for leaf in leaves:
            steps = steps * leaf.steps
        var = stage.make_var(name, steps, given[0])
        stage.exchange(leaves, [Leaf(var, rules.join_parts(self.schedule, stage, leaves, var))])
        return var

    @primitive
    def reorder(self, *axes: IterVar) -> None:
        """``for m: for n: for k`` with ``reorder(k, m)`` -> ``for k: for n: for m``: they change places."""
        stage = self.stage
        given = _as_list(axes)
        leaves = [stage.find(axis, "reorder") for axis in given]
        if not leaves:
            refuse_primitive("cannot reorder nothing: name the loops in their new order")
        for axis in given:
            if [other is axis for other in given].count(True) > 1:
                refuse_primitive(f"cannot reorder: '{axis}' is named twice")
        order = iter(leaves)
        stage.leaves = [next(order) if any(leaf is each for each in leaves) else leaf for leaf in stage.leaves]

    @primitive
    def parallel(self, var: IterVar) -> None:
        """``for i`` -> ``parallel i``: threads share its steps. It is the outermost loop, and no reduction's."""
        self.stage.mark(self.stage.find_plain(var, "parallelize"), "parallel")

    @primitive
    def vectorize(self, var: IterVar) -> None:
        """``for j.inner in 0..16`` -> ``vectorize j.inner``: its steps are lanes. It is the innermost loop."""
        self.stage.mark(self.stage.find_plain(var, "vectorize"), "vectorize")

    @primitive
    def unroll(self, var: IterVar) -> None:
        """``for k.inner in 0..4`` -> ``unroll k.inner``: its steps are written out."""
        self.stage.mark(self.stage.find_plain(var, "unroll"), "unroll")

    @primitive
    def compute_at(self, parent: StageHandle, scope: IterVar) -> None:
        """``for B...; for C.i: for C.j`` -> ``for C.i { for B...: for C.j``: each step computes what it needs."""
        stage, around = self.stage, rules.check_stage(parent, "compute_at").stage
        around.find(scope, "compute at")
        rules.check_cycle(stage, around, scope)
        stage.inline, stage.at = False, (around, scope)

    @primitive
    def compute_root(self) -> None:
        """Compute the whole tensor before all that reads it, as is the default."""
        self.stage.inline, self.stage.at = False, None

    @primitive
    def compute_inline(self) -> None:
        """``B[i] = A[i] + 1; C[i] = B[i] * 2`` -> ``C[i] = (A[i] + 1) * 2``: readers compute it where they need it."""
        stage = self.stage
        rules.check_inline(self.schedule, stage)
        stage.inline, stage.at = True, None
        for reader in self.schedule.stages:
            if isinstance(reader.op, ComputeOp) and any(t.op is stage.op for t in reader.op.input_tensors):
                self.schedule.exchange_op(reader, _with_body(reader.op, lambda e: _inline(e, stage.op)))

    @primitive
    def auto(self) -> None:
        """Leave the loops of this stage to the compiler's own families of schedules."""
        if not self.stage.is_plain:
            refuse_primitive(f"'{self.name}' has loops of its own already: call auto() in place of other primitives")
        self.stage.automatic = True

    @primitive
    def set_scope(self, scope: str) -> None:
        """The memory of what it makes: a CPU has "global" and "local", which are the same."""
        self.stage.scope = rules.check_scope(scope)

    @primitive
    def pragma(self, var: IterVar, pragma_type: str, pragma_value: Any = None) -> None:
        """``auto_unroll_max_step``: unroll inner loops of known extents as long as no more steps are written out."""
        self.stage.find(var, "note a pragma at")
        if pragma_type not in PRAGMAS:
            refuse_primitive(f"there is no pragma '{pragma_type}': choose from {', '.join(PRAGMAS)}")
        if pragma_type == "auto_unroll_max_step":
            self.stage.auto_unroll = rules.check_unroll_limit(pragma_value)

    def bind(self, ivar: IterVar, thread_ivar: IterVar) -> None:
        """Bind a loop to threads of a GPU, which no target has yet: ScheduleError."""
        self.stage.find(ivar, "bind")
        tag = getattr(thread_ivar, "thread_tag", thread_ivar)
        refuse_primitive(
            f"cannot bind '{ivar}' to '{tag}': the target x86 has no such threads; parallel() shares a loop's steps"
        )


class Schedule:
    """The stages of a computation, in the order in which they are computed. ``create_schedule`` makes one."""

    def __init__(self, outputs: Sequence[Op]) -> None:
        self.outputs = list(outputs)
        self.stages: list[Stage] = []
        self.steps: list[TraceStep] = []
        self.depth = 0
        _refuse_shared_axes(_sort_ops(outputs))
        names: dict[str, int] = {}
        for op in _sort_ops(outputs):
            count = names[op.name] = names.get(op.name, -1) + 1
            stage = Stage(op, op, op.name if not count else f"{op.name}_{count}")
            stage.reset()
            self.stages.append(stage)

    def __getitem__(self, key: Any) -> StageHandle:
        op = key.op if isinstance(key, Tensor) else key
        for stage in self.stages:
            if op is stage.op or op is stage.origin:
                return StageHandle(self, stage)
        name = getattr(op, "name", op)
        names = ", ".join(f"'{stage.name}'" for stage in self.stages)
        raise ScheduleError(f"'{name}' is no part of this schedule, whose stages are {names}")

    def find_stage(self, name: str) -> StageHandle:
        """The stage of a name; ScheduleError where there is none."""
        for stage in self.stages:
            if stage.name == name:
                return StageHandle(self, stage)
        raise ScheduleError(f"the schedule has no stage '{name}': there are {', '.join(s.name for s in self.stages)}")

    # ---- primitives on tensors

    @primitive
    def cache_write(self, tensor: Tensor, scope: str = "local") -> Tensor:
        """``C[i] = f(i)`` -> ``C.local[i] = f(i); C[i] = C.local[i]``: it is computed in memory of its own first.

        Returns the new tensor, which computes; the stage of ``tensor`` copies. Call it before other primitives of it.
        """
        stage = self[tensor].stage
        op = rules.check_cache_write(stage)
        rules.check_scope(scope)
        axes = tuple(IterVar(f"{axis.name}.c", axis.dom) for axis in op.axis)
        moved = dict(zip(op.axis, axes, strict=True))
        name = self._fresh_name(f"{stage.name}.{scope}")
        body = tuple(exchange_parts(each, lambda e: moved.get(e)) for each in op.body)  # type: ignore[arg-type]
        inner = ComputeOp(name, op.shape, op.dtypes, axes, body, op.tag)
        copied = tuple(Read(inner.output(number), op.axis) for number in range(op.num_outputs))
        made = Stage(inner, inner, name, scope=scope)
        made.reset()
        self.stages.insert(self.stages.index(stage), made)
        self.exchange_op(stage, ComputeOp(op.name, op.shape, op.dtypes, op.axis, copied, op.tag))
        stage.reset()
        return inner.output(tensor.value_index)

    @primitive
    def cache_read(self, tensor: Tensor, scope: str, readers: Any) -> Tensor:
        """``C[i] = A[i]`` -> ``A.local[i] = A[i]; C[i] = A.local[i]``: the ``readers`` read a copy.

        Returns the copy, whose stage can be computed at a loop of a reader.
        """
        rules.check_scope(scope)
        stage = self[tensor].stage
        source = stage.op.output(tensor.value_index)
        given = readers if isinstance(readers, list | tuple) else [readers]
        read_by = [self[reader].stage for reader in given]
        axes = tuple(IterVar(f"ax{number}", Range(0, extent)) for number, extent in enumerate(source.shape))
        name = self._fresh_name(f"{stage.name}.{scope}")
        copy = ComputeOp(name, source.shape, (source.dtype,), axes, (Read(source, axes),))
        for reader in read_by:
            if source not in reader.op.input_tensors:
                refuse_primitive(f"cannot cache '{tensor.name}' for '{reader.name}', which does not read it")
            assert isinstance(reader.op, ComputeOp)
            self.exchange_op(reader, _with_body(reader.op, lambda e: _redirect(e, source, copy.output(0))))
        if not read_by:
            refuse_primitive(f"cannot cache '{tensor.name}' for no reader: name the ops that are to read the copy")
        made = Stage(copy, copy, name, scope=scope)
        made.reset()
        self.stages.insert(min(map(self.stages.index, read_by)), made)
        return copy.output(0)

    @primitive
    def rfactor(self, tensor: Tensor, axis: IterVar, factor_axis: int = 0) -> Tensor:
        """``B = sum over k`` -> ``B.rf[i] = sum over k.outer; B = sum over i``: ``axis`` becomes one of the result.

        ``axis`` is a loop of the reduction; returns the new tensor, of which ``axis`` is the axis ``factor_axis``.
        """
        stage = self[tensor].stage
        op, reduction = rules.check_rfactor(self, stage, axis, factor_axis)
        leaf = stage.find(axis, "factor")
        [part] = leaf.parts
        old, inner = part.axis, stage.around(part.axis, stage.position(axis))
        extent = part.steps
        own = IterVar(axis.name, Range(0, extent))
        rest = [each for each in reduction.axes if each is not old]
        others = [p for leaf_ in stage.leaves for p in leaf_.parts if p.axis is old and p is not part]
        place: Expr = own * part.step + old.dom.min
        new_axes = list(rest)
        for other in others:
            var = IterVar(f"{old.name}.rest", Range(0, other.steps), "CommReduce")
            new_axes.append(var)
            place = place + var * other.step
        exact = isinstance(old.dom.extent, int) and old.dom.extent % max(p.step for p in (part, *others)) == 0
        exact = exact and (inner is None or inner % part.step == 0)
        spread = [IterVar(each.name, each.dom) for each in op.axis]
        moved: dict[Expr, Expr] = {**dict(zip(op.axis, spread, strict=True)), old: place}
        sources = tuple(exchange_parts(each, moved.get) for each in reduction.sources)
        if not exact:
            bound = as_size(old.dom.min + old.dom.extent)
            begins = reduction.combiner.identity
            sources = tuple(choose(place < bound, s, b) for s, b in zip(sources, begins, strict=True))
        name = self._fresh_name(f"{stage.name}.rf")
        axes = [*spread[:factor_axis], own, *spread[factor_axis:]]
        shape = tuple(each.dom.extent for each in axes)
        if not new_axes:
            body: tuple[Expr, ...] = sources
        else:
            body = tuple(Reduce(reduction.combiner, sources, tuple(new_axes), number) for number in range(len(sources)))
        factored = ComputeOp(name, shape, tuple(s.dtype for s in sources), tuple(axes), body)
        final = IterVar(f"{axis.name}.v", Range(0, extent), "CommReduce")
        indices = (*op.axis[:factor_axis], final, *op.axis[factor_axis:])
        parts = tuple(Read(factored.output(number), indices) for number in range(len(sources)))
        joined = tuple(Reduce(reduction.combiner, parts, (final,), number) for number in range(len(parts)))
        made = Stage(factored, factored, name)
        made.reset()
        self.stages.insert(self.stages.index(stage), made)
        self.exchange_op(stage, ComputeOp(op.name, op.shape, op.dtypes, op.axis, joined, op.tag))
        stage.reset()
        return factored.output(tensor.value_index)

    def normalize(self) -> Schedule:
        """The schedule itself, as TVM's users call it."""
        return self

    # ---- how primitives change ops

    def exchange_op(self, stage: Stage, op: ComputeOp) -> None:
        """Let a stage compute another op, of the same results; its readers read that."""
        old, stage.op = stage.op, op
        for reader in self.stages:
            if reader is not stage and any(t.op is old for t in reader.op.input_tensors):
                assert isinstance(reader.op, ComputeOp)
                tensors = {old.output(i): op.output(i) for i in range(op.num_outputs)}

                def redirect(e: Expr, tensors: dict[Tensor, Tensor] = tensors) -> Expr | None:
                    if isinstance(e, Read) and e.tensor in tensors:
                        return Read(tensors[e.tensor], tuple(exchange_parts(i, redirect) for i in e.indices))
                    return None

                self.exchange_op(reader, _with_body(reader.op, redirect))

    def _fresh_name(self, name: str) -> str:
        taken, made, number = {stage.name for stage in self.stages}, name, 0
        while made in taken:
            number += 1
            made = f"{name}_{number}"
        return made

    def snapshot(self) -> Any:
        """What a primitive may change."""
        kept = [{key: _copy_value(value) for key, value in vars(stage).items()} for stage in self.stages]
        return list(self.stages), kept

    def restore(self, before: Any) -> None:
        """Undo what a primitive has changed since ``snapshot``."""
        self.stages, kept = list(before[0]), before[1]
        for stage, values in zip(self.stages, kept, strict=True):
            vars(stage).update(values)

    # ---- the trace

    @property
    def trace(self) -> Trace:
        """The primitives that made it, as data."""
        return Trace(tuple(self.steps))

    def apply(self, trace: Trace | str | Sequence[Any]) -> Schedule:
        """Apply a trace, or its JSON, to a schedule of the same computation; ScheduleError for what does not fit."""
        for name, given in (trace if isinstance(trace, Trace) else Trace.from_json(trace)).steps:
            if name not in PRIMITIVES:
                refuse_primitive(f"there is no primitive '{name}': a trace has {', '.join(sorted(PRIMITIVES))}")
            arguments = [self.from_data(each) for each in given]
            PRIMITIVES[name](*arguments)
        return self

    def to_data(self, value: Any) -> Any:
        """An argument of a primitive as JSON has it."""
        if isinstance(value, Schedule):
            return {"schedule": ""}
        if isinstance(value, StageHandle):
            return {"stage": value.name}
        if isinstance(value, Tensor):
            return {"tensor": self[value].name, "number": value.value_index}
        if isinstance(value, Op):
            return {"op": self[value].name}
        if isinstance(value, IterVar):
            return self._loop_data(value)
        if isinstance(value, list | tuple):
            return [self.to_data(each) for each in value]
        return value if isinstance(value, int | float | str) or value is None else str(value)

    def _loop_data(self, var: IterVar) -> Any:
        for stage in self.stages:
            for number, each in enumerate(stage.all_iter_vars):
                if each is var:
                    return {"loop": var.name, "stage": stage.name, "number": number}
        return {"loop": var.name}

    def from_data(self, data: Any) -> Any:
        """The inverse of ``to_data`` for this schedule."""
        if isinstance(data, list):
            return [self.from_data(each) for each in data]
        if not isinstance(data, Mapping):
            return data
        if "schedule" in data:
            return self
        for key in ("stage", "tensor", "op"):
            if key in data and "loop" not in data:
                handle = self.find_stage(str(data[key]))
                if key == "tensor":
                    return handle.stage.op.output(int(data["number"]))
                return handle if key == "stage" else handle.stage.op
        known = self.find_stage(str(data.get("stage"))).stage.all_iter_vars
        number = data.get("number")
        if not isinstance(number, int) or not 0 <= number < len(known) or known[number].name != data["loop"]:
            raise ScheduleError(
                f"'{data.get('stage')}' has no loop '{data['loop']}': the trace is of another computation"
            )
        return known[number]


class Trace:
    """The primitives of a schedule in order, as data: ``to_json`` and ``from_json``."""

    def __init__(self, steps: Sequence[TraceStep]) -> None:
        self.steps = tuple(steps)

    def to_json(self) -> str:
        """A text that ``from_json`` reads."""
        return json.dumps([[name, given] for name, given in self.steps])

    @staticmethod
    def from_json(data: str | Sequence[Any]) -> Trace:
        """Raises ScheduleError for what is no trace."""
        try:
            read = json.loads(data) if isinstance(data, str | bytes) else data
            return Trace([(str(name), list(given)) for name, given in read])
        except (ValueError, TypeError) as error:
            raise ScheduleError(f"this is no trace of a schedule ({error}): Trace.to_json writes one") from error

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Trace) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(self.to_json())

    def __iter__(self) -> Iterator[TraceStep]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    def __str__(self) -> str:
        return "\n".join(f"{name}({', '.join(map(_argument_text, given))})" for name, given in self.steps)


def _argument_text(value: Any) -> str:
    if isinstance(value, Mapping):
        return str(next(iter(value.values()))) or "s"
    return f"[{', '.join(map(_argument_text, value))}]" if isinstance(value, list) else repr(value)


def create_schedule(ops: Any) -> Schedule:
    """A schedule of plain loops for what the ops, or the tensors, are made of."""
    given = ops if isinstance(ops, list | tuple) else [ops]
    found = [each.op if isinstance(each, Tensor) else each for each in given]
    if not found or not all(isinstance(each, Op) for each in found):
        raise ExpressionError("a schedule is made of ops or tensors: te.create_schedule(C.op)")
    if any(isinstance(each, PlaceholderOp) for each in found):
        raise ExpressionError(f"'{found[0].name}' is a placeholder: a schedule is made of what is computed")
    return Schedule(list(dict.fromkeys(found)))


def _sort_ops(outputs: Sequence[Op]) -> list[Op]:
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


def _refuse_shared_axes(ops: Sequence[Op]) -> None:
    """ExpressionError where two reductions go along one axis, whose loops would be one's or the other's."""
    owners: dict[IterVar, Op] = {}
    for op in ops:
        for axis in op.reduce_axis if isinstance(op, ComputeOp) else ():
            other = owners.setdefault(axis, op)
            if other is not op:
                raise ExpressionError(
                    f"'{other.name}' and '{op.name}' reduce along one axis, '{axis}': give each a te.reduce_axis"
                )


def _as_list(axes: Sequence[Any]) -> list[IterVar]:
    """Axes that are given one by one, or as a list."""
    return list(axes[0]) if len(axes) == 1 and isinstance(axes[0], list | tuple) else list(axes)


def _copy_value(value: Any) -> Any:
    return value.copy() if isinstance(value, list | dict) else value


def _with_body(op: ComputeOp, change: Callable[[Expr], Expr | None]) -> ComputeOp:
    """The op with parts of its expressions exchanged; its axes are the same."""
    first = op.body[0]
    if not isinstance(first, Reduce):
        body: tuple[Expr, ...] = tuple(exchange_parts(each, change) for each in op.body)
    else:
        sources = tuple(exchange_parts(each, change) for each in first.sources)
        body = tuple(
            Reduce(each.combiner, sources, each.axes, each.number) for each in op.body if isinstance(each, Reduce)
        )
    return ComputeOp(op.name, op.shape, op.dtypes, op.axis, body, op.tag, op.attrs)


def _inline(expr: Expr, op: Op) -> Expr | None:
    """What an element of an op is computed by, in its place."""
    if not isinstance(expr, Read) or expr.tensor.op is not op:
        return None
    assert isinstance(op, ComputeOp)
    indices = [exchange_parts(index, lambda e: _inline(e, op)) for index in expr.indices]
    given: dict[Expr, Expr] = dict(zip(op.axis, indices, strict=True))
    return exchange_parts(op.body[expr.tensor.value_index], given.get)


def _redirect(expr: Expr, source: Tensor, copy: Tensor) -> Expr | None:
    if not isinstance(expr, Read) or expr.tensor != source:
        return None
    return Read(copy, tuple(exchange_parts(index, lambda e: _redirect(e, source, copy)) for index in expr.indices))
