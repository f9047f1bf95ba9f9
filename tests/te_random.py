"""Random tensor expressions with random schedules, held against numpy: ``python -m te_random --count 1000``.

Each primitive is drawn blindly: what the schedule takes must compile and be right, all else must be refused when it is
called. A schedule that is applied anew from its trace must be the same.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import te_illegal

import tilewright as tw
from tilewright import te
from tilewright.core.model import numpy_dtype

DTYPES = ("float32", "float32", "float32", "float64", "float16", "bfloat16", "int32", "int64", "int8", "uint8")
EXTENTS = (1, 3, 4, 7, 8, 12, 16, 17, 32, 33)
FACTORS = (1, 2, 3, 4, 5, 8, 16)


@dataclass(frozen=True)
class Case:
    """A computation and its inputs."""

    name: str
    inputs: Sequence[te.Tensor]
    outputs: Sequence[te.Tensor]

    @property
    def args(self) -> list[te.Tensor]:
        return [*self.inputs, *self.outputs]


def draw_case(rng: random.Random) -> Case:
    """A computation of one to three ops."""
    return rng.choice(CASES)(rng)


def _sizes(rng: random.Random, count: int) -> list[int]:
    return [rng.choice(EXTENTS) for _ in range(count)]


def product(rng: random.Random) -> Case:
    (m, n, k), dtype = _sizes(rng, 3), rng.choice(DTYPES)
    a, b = te.placeholder((m, k), dtype, name="A"), te.placeholder((k, n), dtype, name="B")
    along = te.reduce_axis((0, k), "k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, along] * b[along, j], axis=along), name="C")
    return Case("product", [a, b], [c])


def packed(rng: random.Random) -> Case:
    (m, n, k), block = _sizes(rng, 3), rng.choice([1, 2, 4])
    n = -(-n // 4) * 4
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    along = te.reduce_axis((0, k), "k")
    p = te.compute((n // block, k, block), lambda x, y, z: b[y, x * block + z], name="P")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, along] * p[j // block, along, j % block], axis=along), name="C")
    return Case("packed", [a, b], [c])


def chain(rng: random.Random) -> Case:
    (m, n, k), dtype = _sizes(rng, 3), rng.choice(DTYPES)
    a, b = te.placeholder((m, k), dtype, name="A"), te.placeholder((k, n), dtype, name="B")
    d, along = te.placeholder((m, n), dtype, name="D"), te.reduce_axis((0, k), "k")
    p = te.compute((m, n), lambda i, j: te.sum(a[i, along] * b[along, j], axis=along), name="P")
    q = te.compute((m, n), lambda i, j: p[i, j] + d[i, j], name="Q")
    c = te.compute((m, n), lambda i, j: te.max(q[i, j], 3) - q[i, j] * 2, name="C")
    return Case("chain", [a, b, d], [c])


def rows(rng: random.Random) -> Case:
    (m, k), dtype = _sizes(rng, 2), rng.choice(DTYPES)
    a, along = te.placeholder((m, k), dtype, name="A"), te.reduce_axis((0, k), "k")
    p = te.compute((m, k), lambda i, j: a[i, j] + a[i, j], name="P")
    reduction = rng.choice([te.sum, te.max, te.min])
    return Case("rows", [a], [te.compute((m,), lambda i: reduction(p[i, along], axis=along), name="C")])


def columns(rng: random.Random) -> Case:
    (n, k), dtype = _sizes(rng, 2), rng.choice(DTYPES)
    b, along = te.placeholder((k, n), dtype, name="B"), te.reduce_axis((0, k), "k")
    return Case("columns", [b], [te.compute((n,), lambda j: te.max(b[along, j], axis=along), name="C")])


def stencil(rng: random.Random) -> Case:
    m, n = _sizes(rng, 2)
    e = te.placeholder((m + 2, n + 2), name="E")
    p = te.compute((m + 2, n), lambda i, j: e[i, j] + e[i, j + 1] + e[i, j + 2], name="P")
    return Case("stencil", [e], [te.compute((m, n), lambda i, j: p[i, j] + p[i + 1, j] + p[i + 2, j], name="C")])


def window(rng: random.Random) -> Case:
    (m, n), dtype = _sizes(rng, 2), rng.choice(DTYPES)
    d = te.placeholder((m, n), dtype, name="D")
    r, c = te.reduce_axis((0, 3), "r"), te.reduce_axis((0, 3), "c")

    def padded(i: te.Expr, j: te.Expr) -> te.Expr:
        return te.if_then_else(te.all(i >= 1, i < m + 1, j >= 1, j < n + 1), d[i - 1, j - 1], 0)

    p = te.compute((m + 2, n + 2), padded, name="P")
    return Case("window", [d], [te.compute((m, n), lambda i, j: te.sum(p[i + r, j + c], axis=[r, c]), name="C")])


def gather(rng: random.Random) -> Case:
    (m, n), dtype = _sizes(rng, 2), rng.choice(DTYPES)
    at, d = te.placeholder((m,), "int32", name="I"), te.placeholder((m, n), dtype, name="D")
    p = te.compute((m, n), lambda i, j: d[te.min(te.max(at[i], 0), m - 1), j] + d[i, j], name="P")
    return Case("gather", [at, d], [te.compute((m, n), lambda i, j: p[m - 1 - i, j] + 1, name="C")])


def transposed(rng: random.Random) -> Case:
    (m, n), dtype = _sizes(rng, 2), rng.choice(DTYPES)
    d = te.placeholder((m, n), dtype, name="D")
    p = te.compute((n, m), lambda i, j: d[j, i] + 1, name="P")
    return Case("transposed", [d], [te.compute((m, n), lambda i, j: p[j, i] - d[i, j], name="C")])


def several(rng: random.Random) -> Case:
    (m, k), dtype = _sizes(rng, 2), rng.choice(DTYPES)
    a, along = te.placeholder((m, k), dtype, name="A"), te.reduce_axis((0, k), "k")
    both = te.comm_reducer(
        lambda x, y: (x[0] + y[0], te.max(x[1], y[1])),
        lambda first, second: (te.const(0, first), te.const(0, second)),
        "both",
    )
    made = te.compute((m,), lambda i: both((along.var + 1, a[i, along]), axis=along), name="C")
    return Case("several", [a], list(made))


def recurrence(rng: random.Random) -> Case:
    (m, n), dtype, back = _sizes(rng, 2), rng.choice(DTYPES[3:]), rng.choice([1, 2])
    d, state = te.placeholder((m + 2, n), dtype, name="D"), te.placeholder((m + 2, n), dtype, name="S")
    p = te.compute((m + 2, n), lambda i, j: d[i, j] + d[i, n - 1 - j], name="P")
    first = te.compute((2, n), lambda i, j: p[i, j] - 1, name="Q")
    update = te.compute((m + 2, n), lambda t, j: te.min(state[t - back, n - 1 - j], p[t - 1, j]) + d[t, j], name="U")
    made = te.scan(first, update, state, name="R")
    return Case("recurrence", [d], [te.compute((m, n), lambda i, j: made[i + 2, j] - made[i, j], name="C")])


CASES: tuple[Callable[[random.Random], Case], ...] = (
    *(product, packed, chain, rows, columns, stencil, window, gather, transposed, several),
    recurrence,
)


def draw_schedule(rng: random.Random, schedule: te.Schedule, most: int = 10) -> int:
    """Call primitives at random; returns how many were refused."""
    refused = 0
    for _ in range(rng.randint(0, most)):
        try:
            _call_primitive(rng, schedule)
        except (tw.ScheduleError, tw.ExpressionError):
            refused += 1
    return refused


def _call_primitive(rng: random.Random, schedule: te.Schedule) -> None:
    computed = [stage for stage in schedule.stages if not stage.is_placeholder and stage.op.axis]  # no scan
    stage, other = schedule[rng.choice(computed).op], schedule[rng.choice(computed).op]
    loops, factor = stage.leaf_iter_vars, rng.choice(FACTORS)
    loop, begin = rng.choice(loops), rng.randrange(len(loops))
    calls: dict[str, Callable[[], object]] = {
        "split": lambda: stage.split(loop, factor=factor),
        "split again": lambda: stage.split(loop, factor=factor),
        "parts": lambda: stage.split(loop, nparts=factor),
        "tile": lambda: stage.tile(loops[0], loops[-1], factor, rng.choice(FACTORS)),
        "reorder": lambda: stage.reorder(*rng.sample(loops, rng.randint(1, len(loops)))),
        "fuse": lambda: stage.fuse(*loops[begin : begin + 2]),
        "parallel": lambda: stage.parallel(loop),
        "parallel first": lambda: stage.parallel(loops[0]),
        "vectorize": lambda: stage.vectorize(loop),
        "vectorize last": lambda: stage.vectorize(loops[-1]),
        "unroll": lambda: stage.unroll(loop),
        "compute_at": lambda: stage.compute_at(other, rng.choice(other.leaf_iter_vars)),
        "compute_at again": lambda: stage.compute_at(other, rng.choice(other.leaf_iter_vars)),
        "compute_root": lambda: stage.compute_root(),
        "compute_inline": lambda: stage.compute_inline(),
        "cache_write": lambda: schedule.cache_write(stage.op.output(0), "global"),
        "cache_read": lambda: schedule.cache_read(rng.choice(stage.op.input_tensors), "local", [stage.op]),
        "rfactor": lambda: schedule.rfactor(stage.op.output(0), loop, 0),
        "pragma": lambda: stage.pragma(loop, "auto_unroll_max_step", 16),
        "auto": lambda: stage.auto() if rng.random() < 0.2 else None,
    }
    calls[rng.choice(list(calls))]()


def draw_inputs(rng: random.Random, case: Case) -> list[np.ndarray]:
    """Small whole numbers, of which each sum has one value in every order."""
    made = np.random.default_rng(rng.randrange(1 << 30))
    low = {t: 0 if t.dtype.startswith("u") else -4 for t in case.inputs}
    return [made.integers(low[t], 5, t.shape).astype(numpy_dtype(t.dtype)) for t in case.inputs]


def check_seed(seed: int, workers: int | None = None) -> tuple[Case, te.Schedule]:
    """One random program; AssertionError where it is wrong."""
    rng = random.Random(seed)
    case = draw_case(rng)
    schedule = te.create_schedule(case.outputs[0].op)
    draw_schedule(rng, schedule)
    arrays = draw_inputs(rng, case)
    again = te.create_schedule(case.outputs[0].op).apply(schedule.trace.to_json())
    assert again.trace == schedule.trace
    assert tw.lower(again, case.args, simple_mode=True) == tw.lower(schedule, case.args, simple_mode=True)
    wanted = te.evaluate(case.outputs, dict(zip(case.inputs, arrays, strict=True)))
    found = tw.build(schedule, case.args, workers=workers, cache=False, num_threads=2).run(arrays)
    for made, expected in zip(found, wanted, strict=True):
        assert made.dtype == expected.dtype
        narrow = made.dtype.itemsize == 2 and made.dtype.kind != "i"  # sums of these are rounded at each step
        tolerance = 0.06 if narrow else 1e-5
        np.testing.assert_allclose(made.astype(np.float64), expected.astype(np.float64), rtol=tolerance, atol=tolerance)
    return case, schedule


def check_illegal_seed(seed: int) -> str | None:
    """One call that cannot be, on a random schedule; AssertionError where it is not refused. None: nothing to try."""
    rng = random.Random(seed)
    case = draw_case(rng)
    schedule = te.create_schedule(case.outputs[0].op)
    draw_schedule(rng, schedule, most=5)
    tried = te_illegal.check_refusal(rng, schedule, case.args)
    if tried is not None and seed % 100 == 0:  # what was refused has left nothing behind
        tw.build(schedule, case.args, cache=False)
    return tried


def main() -> int:
    """Check so many seeds; prints what fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--illegal", action="store_true", help="calls that cannot be, which must be refused")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    args, failed = parser.parse_args(), 0
    done, seed = 0, args.seed
    while done < args.count:
        try:
            done += (check_illegal_seed(seed) is not None) if args.illegal else bool(check_seed(seed))
        except Exception as error:  # a campaign goes on
            done, failed = done + 1, failed + 1
            print(f"seed {seed}: {type(error).__name__}: {str(error)[:600]}", flush=True)
        seed += 1
    print(f"{args.count - failed} of {args.count} {'are refused' if args.illegal else 'agree'}")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
