"""A stage's primitives: each is checked when it is called, and changes a schedule or, where it raises, nothing."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, NoReturn, ParamSpec, TypeVar

from ..core.errors import ScheduleError
from ..core.sizes import Extent
from . import rules
from .attachment import extent_at
from .expr import IterVar
from .extern_code import IMPORTS, read_code
from .intrinsic import TensorIntrin
from .op_changes import inline_element, with_parts
from .stage import Leaf, LoopPart, Stage
from .tensor import ComputeOp
from .trace import to_data

if TYPE_CHECKING:
    from .schedule import Schedule

P = ParamSpec("P")
R = TypeVar("R")
PRIMITIVES: dict[str, Callable[..., Any]] = {}

# What `pragma` knows.
_PLACES = "what a stage makes lies where compute_at has it computed, and is as large as a step there needs"
# Primitives of TVM's, and why there are none of them.
_ABSENT = {
    **dict.fromkeys(("store_at", "rolling_buffer"), _PLACES),
    "storage_align": "the compiler lays out the memory of stages: leave it out",
    "double_buffer": "a CPU copies what comes next while it computes: leave it out",
    "prefetch": "the compiler prefetches weights and rows itself: leave it out",
    **dict.fromkeys(("env_threads", "set_store_predicate"), "it is about a GPU's threads"),
    "transform_layout": "a computation has the layout that it is written in: te.compute makes another one",
}
PRAGMAS = ("auto_unroll_max_step", "unroll_explicit", *IMPORTS)


def refuse_primitive(message: str) -> NoReturn:
    """Raise ScheduleError."""
    raise ScheduleError(message)


def primitive(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """A method that changes a schedule or, where it raises, nothing. The trace has its name and arguments."""
    signature, name = inspect.signature(method), method.__name__

    @functools.wraps(method)
    def applied(self: Any, *args: P.args, **kwargs: P.kwargs) -> R:
        schedule: Schedule = getattr(self, "schedule", self)
        try:
            bound = signature.bind(self, *args, **kwargs)
        except TypeError as error:
            raise ScheduleError(f"{name}: {error}") from error
        bound.apply_defaults()
        given = [to_data(schedule, each) for each in bound.args] if schedule.depth == 0 else []
        before = schedule.snapshot()
        schedule.depth += 1
        try:
            result = method(self, *args, **kwargs)
            rules.check(schedule, name)
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

    def __getattr__(self, name: str) -> NoReturn:
        """AttributeError for primitives of TVM's that are not here, in words, and for all other names."""
        reason = _ABSENT.get(name, "see docs/te.md for its primitives")
        raise AttributeError(f"a stage has no '{name}': {reason}", name=name, obj=self)

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
    def is_output(self) -> bool:
        """Whether the caller gets what it makes."""
        return self.stage.origin in self.schedule.outputs

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
        rules.check_count(step, f"split '{parent}' into steps of")
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
        stage, around = self.stage, rules.check_stage(parent, "compute_at")
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
                made = with_parts(reader.op, lambda e: inline_element(e, stage.op))
                rules.check_inlined(stage, made)
                self.schedule.exchange_op(reader, made)

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
        """A note at a loop.

        ``auto_unroll_max_step``: unroll inner loops of known extents as long as no more steps are written out.
        ``import_c``, ``import_llvm``, ``import_object``: the code of functions that intrinsics call, as a text of C or
        LLVM IR, or as an object's bytes. It belongs to the program.
        """
        self.stage.find(var, "note a pragma at")
        if pragma_type not in PRAGMAS:
            refuse_primitive(f"there is no pragma '{pragma_type}': choose from {', '.join(PRAGMAS)}")
        if pragma_type == "auto_unroll_max_step":
            self.stage.auto_unroll = rules.check_unroll_limit(pragma_value)
        if pragma_type in IMPORTS and self.stage.outdated_code:
            self.stage.code, self.stage.outdated_code = [], False
        if pragma_type in IMPORTS:
            self.stage.code.append(read_code(pragma_type, pragma_value))

    @primitive
    def tensorize(self, var: IterVar, tensor_intrin: TensorIntrin) -> None:
        """``for i.inner: for k: c[...] += ...`` -> ``gemv(&c[...], ...)``: calls in place of ``var`` and what it holds.

        The tile computes what the intrinsic (``te.decl_tensor_intrin``) does, in memory that its buffers allow.
        """
        stage = self.stage
        stage.find(var, "tensorize")
        if stage.intrinsic is not None and not stage.outdated:
            refuse_primitive(
                f"cannot tensorize '{var}': '{stage.intrinsic[0]}' of '{stage.name}' is tensorized already"
            )
        stage.outdated_code |= stage.outdated
        stage.intrinsic, stage.outdated = (var, rules.check_intrinsic(tensor_intrin)), False

    def bind(self, ivar: IterVar, thread_ivar: IterVar) -> None:
        """Bind a loop to threads of a GPU, which no target has yet: ScheduleError."""
        self.stage.find(ivar, "bind")
        tag = getattr(thread_ivar, "thread_tag", thread_ivar)
        refuse_primitive(
            f"cannot bind '{ivar}' to '{tag}': the target x86 has no such threads; parallel() shares a loop's steps"
        )


def _as_list(axes: Sequence[Any]) -> list[IterVar]:
    """Axes that are given one by one, or as a list."""
    return list(axes[0]) if len(axes) == 1 and isinstance(axes[0], list | tuple) else list(axes)
