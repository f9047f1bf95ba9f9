"""Primitives and expressions that cannot be, drawn at random: each must be refused when it is called, in words.

``python -m te_random --illegal --count 1000`` runs them. A refusal leaves the schedule as it was, and able to be
lowered.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import tilewright as tw
from tilewright import te

Illegal = Callable[[random.Random, te.Schedule], object]  # raises SkipError where the schedule has no place for it
NUMBERS: tuple[Any, ...] = (0, -1, -7, 1.5, "4", None, True, [2], 1 << 40, float("nan"))


class SkipError(Exception):
    """The schedule has nothing that this could be tried on."""


def _draw(rng: random.Random, values: list[Any]) -> Any:
    """One of what may be wrong."""
    return rng.choice(values)


def _pick(rng: random.Random, found: list[Any]) -> Any:
    if not found:
        raise SkipError
    return rng.choice(found)


def _computed(schedule: te.Schedule) -> list[te.StageHandle]:
    return [schedule[s.op] for s in schedule.stages if not s.is_placeholder and s.op.axis]  # no scan


def _stage(rng: random.Random, schedule: te.Schedule) -> te.StageHandle:
    return _pick(rng, [each for each in _computed(schedule) if not each.stage.inline and not each.stage.automatic])


def _foreign(rng: random.Random, stage: te.StageHandle, schedule: te.Schedule) -> Any:
    """Something that is no loop of a stage."""
    others = [v for each in _computed(schedule) if each.stage is not stage.stage for v in each.leaf_iter_vars]
    used = [v for v in stage.all_iter_vars if not any(v is leaf for leaf in stage.leaf_iter_vars)]
    strangers: list[Any] = [te.reduce_axis((0, 4), "z"), "i", 0, None, te.var("n"), 3.5, stage, te.placeholder((1,))]
    return _draw(rng, [*others, *used, *strangers])


def split(rng: random.Random, s: te.Schedule) -> None:
    stage = _stage(rng, s)
    loop, number = rng.choice(stage.leaf_iter_vars), rng.choice(NUMBERS)
    ways: list[Callable[[], Any]] = [lambda: stage.split(loop), lambda: stage.split(loop, factor=2, nparts=2)]
    ways.append(lambda: stage.split(_foreign(rng, stage, s), factor=2))
    if number is not None:
        ways += [lambda: stage.split(loop, factor=number), lambda: stage.split(loop, nparts=number)]
    rng.choice(ways)()


def tile(rng: random.Random, s: te.Schedule) -> None:
    stage = _stage(rng, s)
    first, last = stage.leaf_iter_vars[0], stage.leaf_iter_vars[-1]
    number = _draw(rng, [n for n in NUMBERS if n is not None])
    _draw(rng, [lambda: stage.tile(first, first, 2, 2), lambda: stage.tile(first, last, number, 2)])()


def fuse(rng: random.Random, s: te.Schedule) -> None:
    stage = _stage(rng, s)
    loops = stage.leaf_iter_vars
    ways: list[Callable[[], Any]] = [lambda: stage.fuse(), lambda: stage.fuse(loops[0])]
    ways += [lambda: stage.fuse(loops[0], _foreign(rng, stage, s)), lambda: stage.fuse(loops[0], loops[0])]
    if len(loops) > 1:
        ways.append(lambda: stage.fuse(loops[1], loops[0]))
    if len(loops) > 2:
        ways.append(lambda: stage.fuse(loops[0], loops[2]))
    mixed = [(a, b) for a, b in pairwise(loops) if a.reduces != b.reduces]
    ways += [lambda pair=pair: stage.fuse(*pair) for pair in mixed]
    rng.choice(ways)()


def reorder(rng: random.Random, s: te.Schedule) -> None:
    stage = _stage(rng, s)
    loop = rng.choice(stage.leaf_iter_vars)

    def inside_out() -> None:
        long = [v for v in stage.leaf_iter_vars if isinstance(v.dom.extent, int) and v.dom.extent > 4]
        plain = [v for v in long if not any(leaf.mark for leaf in stage.stage.leaves if leaf.var is v)]
        fused = [leaf.var for leaf in stage.stage.leaves if len(leaf.parts) > 1]
        attached = [o.at[1] for o in s.stages if o.at is not None and o.at[0] is stage.stage]
        axis = _pick(rng, [v for v in plain if not any(v is each for each in (*fused, *attached))])
        outer, inner = stage.split(axis, factor=2)
        stage.reorder(inner, outer)

    _draw(
        rng,
        [
            lambda: stage.reorder(),
            lambda: stage.reorder(loop, loop),
            lambda: stage.reorder(loop, _foreign(rng, stage, s)),
            inside_out,
        ],
    )()


def vectorize(rng: random.Random, s: te.Schedule) -> None:
    stage = _stage(rng, s)
    loops = stage.leaf_iter_vars
    last = stage.op.axis[-1] if stage.op.axis else None
    wrong = [v for v in loops if v.reduces] + [v for v in loops[:-1]]
    wrong += [axis for axis in stage.op.axis if axis is not last and any(axis is v for v in loops)]
    _draw(rng, [lambda: stage.vectorize(_foreign(rng, stage, s)), lambda: stage.vectorize(_pick(rng, wrong))])()


def parallel(rng: random.Random, s: te.Schedule) -> None:
    stage = _stage(rng, s)
    loops = stage.leaf_iter_vars
    wrong = [v for v in loops if v.reduces] + loops[1:] + (loops if stage.stage.at is not None else [])
    _draw(rng, [lambda: stage.parallel(_foreign(rng, stage, s)), lambda: stage.parallel(_pick(rng, wrong))])()


def mark_twice(rng: random.Random, s: te.Schedule) -> None:
    stage = _stage(rng, s)
    marked = [leaf.var for leaf in stage.stage.leaves if leaf.mark]
    loop = _pick(rng, marked)
    _draw(rng, [stage.unroll, stage.vectorize, stage.parallel, lambda v: stage.split(v, 2)])(loop)


def unroll(rng: random.Random, s: te.Schedule) -> None:
    stage = _stage(rng, s)
    stage.unroll(_foreign(rng, stage, s))


def compute_at(rng: random.Random, s: te.Schedule) -> None:
    stage = _stage(rng, s)
    other = _stage(rng, s)
    readers = [each for each in _computed(s) if any(t.op is stage.op for t in each.op.input_tensors)]
    reads = any(each.stage is other.stage for each in readers)
    given = [s[each.op] for each in s.stages if each.is_placeholder]
    ways: list[Callable[[], Any]] = [
        lambda: stage.compute_at(other, _foreign(rng, other, s)),
        lambda: stage.compute_at(stage, rng.choice(stage.leaf_iter_vars)),
        lambda: stage.compute_at(_draw(rng, ["C", None, 5, stage.op]), other.leaf_iter_vars[0]),
        lambda: stage.compute_at(_pick(rng, given), other.leaf_iter_vars[0]),
    ]
    inside = any(o.at is not None and o.at[0] is other.stage for o in (each.stage for each in readers))
    if not reads and not inside:
        ways.append(lambda: stage.compute_at(other, rng.choice(other.leaf_iter_vars)))
    if stage.stage.origin in s.outputs:
        ways.append(lambda: stage.compute_at(other, rng.choice(other.leaf_iter_vars)))
    rng.choice(ways)()


def compute_inline(rng: random.Random, s: te.Schedule) -> None:
    wrong = [each for each in _computed(s) if each.stage.reduces or each.stage.origin in s.outputs]
    wrong += [s[each.op] for each in s.stages if each.is_placeholder]
    _pick(rng, wrong).compute_inline()


def cache(rng: random.Random, s: te.Schedule) -> None:
    stage = _stage(rng, s)
    given = [each.op.output(0) for each in s.stages if each.is_placeholder]
    tensor = stage.op.output(0)
    outputs = [each for each in _computed(s) if each.stage.origin in s.outputs]
    ways: list[Callable[[], Any]] = [
        lambda: s.cache_write(rng.choice(given), "local"),
        lambda: s.cache_write(tensor, _draw(rng, ["shared", "", 5, None])),
        lambda: s.cache_write(_draw(rng, [stage.op, "C", None, te.placeholder((1,))]), "local"),
        lambda: s.cache_read(tensor, "local", []),
        lambda: s.cache_read(tensor, "local", [stage.op]),
        lambda: s.cache_read(rng.choice(given), "local", [_draw(rng, [None, "C", te.placeholder((2,), name="Q")])]),
        lambda: s.cache_read(_pick(rng, outputs).op.output(0), "local", [_pick(rng, outputs).op]),
    ]
    changed = [each for each in _computed(s) if not each.stage.is_plain]
    if changed:
        ways.append(lambda: s.cache_write(_pick(rng, changed).op.output(0), "local"))
    rng.choice(ways)()


def rfactor(rng: random.Random, s: te.Schedule) -> None:
    stage = _stage(rng, s)
    tensor, loops = stage.op.output(0), stage.leaf_iter_vars
    wrong = [v for v in loops if not v.reduces]
    ways: list[Callable[[], Any]] = [lambda: s.rfactor(tensor, _foreign(rng, stage, s))]
    ways.append(lambda: s.rfactor(tensor, _pick(rng, wrong)))
    ways += [lambda: s.rfactor(tensor, loops[-1], _draw(rng, [-1, 7, "0", 0.5]))]
    rng.choice(ways)()


def notes(rng: random.Random, s: te.Schedule) -> None:
    stage = _stage(rng, s)
    loop = rng.choice(stage.leaf_iter_vars)
    _draw(
        rng,
        [
            lambda: stage.pragma(loop, _draw(rng, ["vector", "", "auto", 5])),
            lambda: stage.pragma(loop, "auto_unroll_max_step", _draw(rng, [-1, 1 << 40, "8", None, 2.5])),
            lambda: stage.pragma(_foreign(rng, stage, s), "auto_unroll_max_step", 4),
            lambda: stage.pragma(
                loop, _draw(rng, ["import_c", "import_llvm", "import_object"]), _draw(rng, [5, "", None])
            ),
            lambda: stage.set_scope(_draw(rng, ["shared", "", None, 3])),
            lambda: stage.bind(loop, te.thread_axis("threadIdx.x")),
            lambda: _pick(rng, [each for each in _computed(s) if not each.stage.is_plain]).auto(),
            lambda: s[_draw(rng, ["C", None, 5, te.placeholder((1,))])],
        ],
    )()


def tensorize(rng: random.Random, s: te.Schedule) -> None:
    stage = _stage(rng, s)
    loop = rng.choice(stage.leaf_iter_vars)
    a = te.placeholder((5,), name="a")
    other = te.compute((5,), lambda i: te.exp(a[i]) * 3, name="c")  # what no case computes
    intrinsic = te.decl_tensor_intrin(
        other.op, lambda ins, outs: te.call_extern("int32", "f", outs[0].access_ptr("w"), ins[0].access_ptr("r"))
    )
    _draw(
        rng,
        [
            lambda: stage.tensorize(loop, intrinsic),
            lambda: stage.tensorize(loop, _draw(rng, [None, "gemv", 5, other.op])),
            lambda: stage.tensorize(_foreign(rng, stage, s), intrinsic),
        ],
    )()


def traces(rng: random.Random, s: te.Schedule) -> None:
    texts = [
        '[["split", []]]',
        "{}",
        "[1]",
        '[["melt", [1]]]',
        "no",
        '[["split", [{"stage": "Z"}, 1]]]',
        '[["fuse", null]]',
    ]
    texts += ['[["tensorize", [{"stage": "C"}, {"loop": "i", "stage": "C", "number": 0}, {"intrinsic": "f.0"}]]]']
    texts += [
        '[["split", [{"stage": "C"}, {"loop": "i", "stage": "C", "number": 99}, 2, null]]]',
        '[["cache_write", [5]]]',
    ]
    s.apply(rng.choice(texts))


def expressions(rng: random.Random, s: te.Schedule) -> None:
    """Computations that cannot be."""
    a, b = te.placeholder((6, 4), name="A"), te.placeholder((6, 4), "int32", name="B")
    k, far = te.reduce_axis((0, 4), "k"), rng.randint(1, 50)
    two = te.compute((6,), lambda i: te.sum(a[i, k], axis=k), name="P")
    wrong: list[Callable[[], Any]] = [
        lambda: te.compute((6, 4), lambda i, j: a[i, j] + b[i, j]),
        lambda: te.compute((6, 4), lambda i, j: a[i, j] + te.const(1.0, "float64")),
        lambda: te.compute((6, 4), lambda i, j: a[i + far, j]),
        lambda: te.compute((6, 4), lambda i, j: a[i, j - far] * 2),
        lambda: te.compute((6, 4 + far), lambda i, j: a[i, j] + 1),
        lambda: te.create_schedule(te.compute((6,), lambda i: te.sum(a[i, k] + two[i], axis=k), name="Q").op),
        lambda: te.compute((6,), lambda i: te.sum(a[i, k], axis=k) + 1),
        lambda: te.compute((6,), lambda i: te.sum(te.sum(a[i, k], axis=k), axis=k)),
        lambda: te.compute((6,), lambda i: a[i, k]),
        lambda: te.compute((6,), lambda i: te.sum(a[i, k], axis=i)),
        lambda: te.compute((6,), lambda i: te.sum(a[i, 0], axis=[k, k])),
        lambda: te.compute((6, 4), lambda i: a[i, 0]),
        lambda: te.compute((6, 4), lambda i, j: a[i]),
        lambda: te.compute((6, 4), lambda i, j: a[i, j, 0]),
        lambda: te.compute((6, 4), lambda i, j: a[a[i, j], j]),
        lambda: te.compute((6, 4), lambda i, j: a[i, j] if a[i, j] > 0 else 0.0),
        lambda: te.compute((6, 4), lambda i, j: te.exp(b[i, j])),
        lambda: te.compute((6, 4), lambda i, j: b[i, j] / 2),
        lambda: te.compute((6, 4), lambda i, j: b[i, j] + 0.5),
        lambda: te.compute((6, 4), lambda i, j: te.if_then_else(a[i, j], 1.0, 2.0)),
        lambda: te.compute((6, 4), lambda i, j: te.if_then_else(i > 0, a[i, j], b[i, j])),
        lambda: te.compute((6, 4), lambda i, j: a[i, j].astype(_draw(rng, ["float", "int4", "x", "", 5]))),
        lambda: te.compute((6, 4), lambda i, j: i // 0 + b[i, j]),
        lambda: te.compute(_draw(rng, [(-1,), (1.5,), ("n",), (None,), (1 << 41,)]), lambda i: a[0, 0]),
        lambda: te.compute((6,), lambda i: _draw(rng, [None, "x", [], a, {}])),
        lambda: te.compute((6,), _draw(rng, [None, 5, "f"])),
        lambda: te.placeholder(_draw(rng, [(-2,), (2.5,), "n"]), name="Z"),
        lambda: te.placeholder((2,), _draw(rng, ["float8", "", None, 5]), name="Z"),
        lambda: te.placeholder((2,), name=_draw(rng, ["", "1x", "a b", None, "a:b"])),
        lambda: te.reduce_axis(_draw(rng, [(0,), (4, 0), 5, ("a", 3), (0, -1), (0.5, 2)])),
        lambda: te.var("n", "float32"),
        lambda: te.create_schedule(_draw(rng, [[], None, 5, a, a.op, "C"])),
        lambda: te.compute((6,), lambda i: (a[i, 0], te.sum(a[i, k], axis=k))),
        lambda: tw.build(te.create_schedule(two.op), _draw(rng, [[two, a], [a], [two], [], None, [a, two, two], "A"])),
    ]
    rng.choice(wrong)()


ILLEGAL: tuple[Illegal, ...] = (
    *(split, tile, fuse, reorder, vectorize, parallel, mark_twice, unroll, compute_at, compute_inline, cache, rfactor),
    *(notes, tensorize, traces, expressions, expressions, expressions),
)


def check_refusal(rng: random.Random, schedule: te.Schedule, args: list[te.Tensor]) -> str | None:
    """Call what cannot be on a schedule; AssertionError where it is taken. The name of what was tried, or None."""
    before = tw.lower(schedule, args, simple_mode=True), schedule.trace
    wrong = rng.choice(ILLEGAL)
    try:
        wrong(rng, schedule)
    except (tw.ScheduleError, tw.ExpressionError) as error:
        assert str(error) and "\n" not in str(error), error
    except SkipError:
        return None
    else:
        raise AssertionError(f"{wrong.__name__} was taken: {schedule.trace}")
    if wrong is not reorder:  # which splits a loop first
        assert tw.lower(schedule, args, simple_mode=True) == before[0] and schedule.trace == before[1]
    return wrong.__name__
