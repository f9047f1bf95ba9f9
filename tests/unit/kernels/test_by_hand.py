"""Schedules given by hand are carried out as they are written, give the same numbers, or are refused."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from kernel_runner import TARGET, CompiledKernel, before_schedule, schedule_of
from kernel_texts import close, conv, einsum, generic, matmul, pack, random, softmax, tensor

from tilewright.core.errors import ScheduleError
from tilewright.core.target import Target, detect_host
from tilewright.dialects import ir
from tilewright.dialects.context import make_context
from tilewright.passes.ir.kernel import list_functions
from tilewright.passes.schedule.apply_schedule import ApplySchedule
from tilewright.passes.schedule.language.schedule import Schedule
from tilewright.passes.schedule.tiling.values import values_of

Change = Callable[[Schedule], Schedule]
M, N, K = 30, 64, 40
MATMUL = einsum("bmk,bkn->bmn", {"b": 2, "m": M, "n": N, "k": K})


@pytest.fixture(autouse=True, scope="module")
def target() -> Iterator[Target]:
    """One target is enough: what changes here are the loops."""
    token = TARGET.set(detect_host())
    yield detect_host()
    TARGET.reset(token)


def plain(text: str) -> Schedule:
    """The kernel's loops before any primitive."""
    with make_context(), ir.Location.unknown():
        module = before_schedule(text)
        return Schedule.start(values_of(list_functions(module)[0]))


def nest(text: str, schedule: Schedule) -> str:
    """The kernel's IR after `apply-schedule`."""
    with make_context(), ir.Location.unknown():
        module = before_schedule(text)
        ApplySchedule(schedule=schedule).apply(module)
        return str(module)


def tiled(m: int, n: int) -> Schedule:
    made = plain(MATMUL).tile("m", m, "n", n).vectorize("n.1").unroll("m.1")
    return made.tensorize("m.1", "outer_product")


OPERANDS = random(2, M, K), random(2, K, N)


def is_right(schedule: Schedule, chunks: int = 3) -> CompiledKernel:
    """The product of the operands, computed as the schedule says."""
    a, b = OPERANDS
    kernel, want = CompiledKernel(MATMUL, schedule=schedule), a @ b
    close(kernel([a, b], want, chunks), want)
    assert kernel.kernel.schedule == str(schedule) and kernel.kernel.extent == schedule.extent
    assert Schedule.from_json(kernel.kernel.schedule_json) == schedule and not kernel.kernel.note
    return kernel


def test_another_tile_and_another_order_are_built() -> None:
    chosen = schedule_of(MATMUL)
    made = tiled(4, 16).reorder("m.0", "b").parallel("m.0").unroll("k", 2)
    is_right(made)
    assert chosen is not None and chosen.values == made.values and chosen != made
    text = nest(MATMUL, made)
    loops = [line for line in text.splitlines() if "= scf.for" in line]
    assert text.count('tw.role = "contract2x2"') == 2, "the tile of 4 rows, and the rest of 2"
    assert "tensor<4x40xf32>, tensor<40x16xf32>" in text and "tensor<2x40xf32>, tensor<40x16xf32>" in text
    assert [text.count(f"arith.constant {n} : index") for n in (2, 4, 7)] == [1, 1, 1], "b, n.0 and the whole m.0"
    assert len(loops) == 5, "the parallel loop over whole tiles; b and n.0 in it, and again around the rest"
    assert text.count("= scf.if") == 1, "the rest, which is one step"


def test_the_order_of_loops_is_that_of_the_schedule() -> None:
    """Both have loops of 2, 15 and 4 steps: the bounds tell them apart."""
    made = tiled(2, 16)
    for order in itertools.permutations(("b", "m.0", "n.0")):
        schedule = made.reorder(*order)
        text = nest(MATMUL, schedule)
        constants = {f"%c{n}": {2: "b", 15: "m.0", 4: "n.0"}[n] for n in (2, 15, 4)}
        loops = [line.split(" to ")[1].split(" ")[0] for line in text.splitlines() if "= scf.for" in line]
        assert [constants[bound] for bound in loops if bound in constants] == list(order)


VARIANTS: dict[str, Change] = {
    "no loop is parallel": lambda s: s,
    "joined loops are parallel": lambda s: s.reorder("n.0", "m.0").fuse("b", "n.0").parallel("b*n.0"),
    "joined loops are not": lambda s: s.reorder("m.0", "b").parallel("m.0").fuse("b", "n.0"),
    "joined loops are parallel, the first with a rest": lambda s: (
        s.reorder("m.0", "n.0", "b").fuse("m.0", "n.0").parallel("m.0*n.0")
    ),
    "joined loops are not, the first with a rest": lambda s: s.parallel("b").fuse("m.0", "n.0"),
    "joined loops are parallel, the second with a rest": lambda s: s.fuse("b", "m.0").parallel("b*m.0"),
    "joined loops overlap": lambda s: s.reorder("m.0", "b").fuse("m.0", "b").overlap("m.0*b"),
    "all is parallel but a rest": lambda s: s.reorder("m.0", "n.0", "b").parallel("m.0"),
    "several steps at once": lambda s: s.unroll("k", 8),
    "a copied operand": lambda s: s.cache_read("%arg0", "b").vectorize("%arg0.d2"),
    "an operand copied first": lambda s: s.cache_read("%arg1").split("%arg1.d2", 16).vectorize("%arg1.d2.1"),
    "an operand copied one by one": lambda s: s.cache_read("%arg0", "m.0"),
    "a copy that moves": lambda s: s.cache_read("%arg0").compute_at("%arg0", "m.0").vectorize("%arg0.d2"),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_primitives_are_carried_out(name: str) -> None:
    is_right(VARIANTS[name](tiled(7, 32)))


@pytest.mark.parametrize("n", [64, 48, 20, 2])
def test_a_tile_may_have_any_width(n: int) -> None:
    """Also one that is no power of two."""
    made = plain(MATMUL).split("n", n).split("m", 3).reorder("b", "n.0", "m.0", "k", "m.1", "n.1")
    is_right(made.vectorize("n.1").unroll("m.1"))


def test_without_tensorize_rows_are_added_one_by_one() -> None:
    made = tiled(7, 32)
    loose = plain(MATMUL).tile("m", 7, "n", 32).vectorize("n.1").unroll("m.1").unroll("k", 4)
    is_right(loose)
    assert "tw.role" in nest(MATMUL, made) and "tw.role" not in nest(MATMUL, loose)
    assert "tw.unroll = 4" in nest(MATMUL, loose)


def test_plain_loops_are_plain() -> None:
    made = plain(MATMUL)
    is_right(made)
    assert "vector" not in nest(MATMUL, made)


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    """Any schedule of the product that the primitives accept."""
    made = plain(MATMUL)
    for axis, extent in (("m", M), ("n", N), ("m.1", M), ("n.1", N), ("n.0", 4), ("b", 2)):
        if draw(st.booleans()):
            made = attempt(made, lambda s, a=axis, e=extent: s.split(a, draw(st.integers(2, e))))
    names = [loop.name for loop in made.result.loops]
    inner = [name for name in ("m.1.1", "m.1", "n.1.1", "n.1") if name in names][: draw(st.integers(0, 4))]
    around = draw(st.permutations([name for name in names if name not in inner and name != "k"]))
    made = attempt(made, lambda s: s.reorder(*around, "k", *inner))
    for name in reversed(inner):
        made = attempt(made, lambda s, n=name: s.vectorize(n) if n.startswith("n") else s.unroll(n))
    steps: list[Change] = [
        lambda s: s.unroll("k", draw(st.sampled_from([2, 4, 5, 8]))),
        lambda s: s.tensorize(s.result.tile[0].name, "outer_product") if s.result.tile else s,
        lambda s: s.fuse(s.result.outer[0].name, s.result.outer[1].name),
        lambda s: s.parallel(s.result.outer[0].name),
        lambda s: s.cache_read(
            draw(st.sampled_from(["%arg0", "%arg1"])), draw(st.sampled_from(["", *(x.name for x in s.result.outer)]))
        ),
    ]
    for step in steps:
        if draw(st.booleans()):
            made = attempt(made, step)
    return made


def attempt(schedule: Schedule, change: Change) -> Schedule:
    try:
        return change(schedule)
    except (ScheduleError, IndexError):
        return schedule


@settings(max_examples=12, deadline=None)
@given(schedules(), st.integers(1, 4))
def test_whatever_is_accepted_is_right(schedule: Schedule, chunks: int) -> None:
    try:
        nest(MATMUL, schedule)
    except ScheduleError as error:
        assert "\n" not in str(error)
        assume(False)
    is_right(schedule, chunks)


def test_windows_in_another_order() -> None:
    text = conv(15, 16, 24, 3, 2, 32)
    x, w, b = random(1, 15, 15, 16), random(24, 16, 3, 3), random(24)
    packed = pack(w.transpose(1, 2, 3, 0).reshape(-1, 24), 32).reshape(1, 16, 3, 3, 32).transpose(0, 2, 3, 1, 4)
    made = plain(text).split("ow", 3).reorder("oh", "ow.0", "kw", "kh", "c", "ow.1", "f").vectorize("f").unroll("ow.1")
    made = made.pack(1, "f", 32).parallel("oh").tensorize("ow.1", "outer_product")
    windows = np.lib.stride_tricks.sliding_window_view(x[0], (3, 3), axis=(0, 1))[::2, ::2]
    want = np.maximum(np.einsum("hwcij,fcij->hwf", windows, w) + b, 0)[None]
    kernel = CompiledKernel(text, schedule=made)
    close(kernel([x, packed, b], want, 2), want)
    assert kernel.kernel.extent == 7
    with pytest.raises(ScheduleError, match="outer_product takes steps of 'c': it must be the innermost sum"):
        nest(text, made.reorder("c", "kh"))


@pytest.mark.parametrize("chunk", [8, 32, 100, 200])
def test_rows_in_other_steps(chunk: int) -> None:
    x = random(5, 200)
    want = np.exp(x - x.max(1, keepdims=True))
    want /= want.sum(1, keepdims=True)
    made = plain(softmax(5, 200)).split("row", chunk).vectorize("row.1").parallel("d0")
    close(CompiledKernel(softmax(5, 200), schedule=made)([x], want, 2), want)


def test_an_intermediate_value_in_a_buffer() -> None:
    text = matmul(30, 64, 40, 32)
    a, w, b = random(30, 40), random(40, 64), random(64)
    want = np.maximum(a @ w + b, 0)
    made = plain(text)
    [name] = [value.name for value in made.values if value.sums and value.name != "result"]
    made = made.split("m", 10).split("n", 32).reorder("m.0", "n.0", "m.1", "k", "n.1").vectorize("n.1").parallel("m.0")
    [block] = made.result.value.packed
    made = made.pack(block.argument, block.axis, block.size).cache_write(name, "m.0")
    made = made.split(f"{name}.n", 32).split(f"{name}.m", 5)
    made = made.reorder(f"{name}.n.0", f"{name}.m.0", f"{name}.k", f"{name}.m.1", f"{name}.n.1")
    made = made.vectorize(f"{name}.n.1").unroll(f"{name}.m.1").tensorize(f"{name}.m.1", "outer_product")
    made = made.pack(block.argument, f"{name}.n", block.size)
    close(CompiledKernel(text, schedule=made)([a, pack(w, 32), b], want, 2), want)


def test_a_slice_of_an_argument_is_copied_as_an_argument_is() -> None:
    whole, part = tensor(6, 80), tensor(6, 40)
    body = "^bb0(%v: f32, %o: f32): %n = arith.negf %v : f32 linalg.yield %n : f32"
    text = f"""func.func @k(%x: {whole}) -> {part} {{
      %s = tensor.extract_slice %x[0, 24] [6, 40] [1, 1] : {whole} to {part}
      %e = tensor.empty() : {part}
      {generic("r", {"%s": part}, ["(a,b)->(a,b)", "(a,b)->(a,b)"], "pp", ("%e", part), body)}
      return %r : {part} }}"""
    made = plain(text).parallel("d0")
    assert [value.name for value in made.values if value.read] == ["%arg0", "%0"]
    made = made.cache_read("%0", "d0").split("%0.d1", 8).vectorize("%0.d1.1")
    assert "tensor<40xf32>" in nest(text, made), "a row's buffer"
    x = random(6, 80)
    np.testing.assert_array_equal(
        CompiledKernel(text, schedule=made)([x], np.zeros((6, 40), np.float32), 2), -x[:, 24:64]
    )


REFUSED: dict[str, tuple[str, Change, str]] = {
    "another kernel's": (
        einsum("mk,kn->mn", {"m": 8, "n": 16, "k": 4}),
        lambda _: tiled(4, 16),
        r"kernel 'k' is for another: it says result of b 2, m 30, n 64, sum over k 40 where the kernel has"
        r" result of m 8, n 16, sum over k 4",
    ),
    "unfinished": (
        MATMUL,
        lambda s: s.reorder("k", "n"),
        r"cannot be carried out: 'n' is a loop inside of 'k'",
    ),
    "too wide for the blocks": (
        matmul(30, 64, 40, 32),
        lambda s: s.pack(1, "n", 32).reorder("k", "n").vectorize("n"),
        r"cannot be carried out: 'n' has 64 elements, and %arg1 in blocks of 32 along n: split 'n' by 32",
    ),
    "a value needed in several parts": (
        softmax(8, 64),
        lambda s: s.vectorize("row").cache_write(s.values[-2].name, "d0"),
        r"cannot be carried out: ",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_carried_out_is_refused(name: str) -> None:
    """No plain loops in its place."""
    text, change, words = REFUSED[name]
    with pytest.raises(ScheduleError, match=words) as caught:
        CompiledKernel(text, schedule=change(plain(text)))
    assert "\n" not in str(caught.value)
