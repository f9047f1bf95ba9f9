"""Schedules as values: each primitive makes the loops that it says, and refuses what it cannot do in one line."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.core.errors import CompileError, ScheduleError
from tilewright.core.sizes import Sym
from tilewright.passes.schedule.language.loopnest import Axis, Block, KernelValue
from tilewright.passes.schedule.language.schedule import PRIMITIVES, Schedule

Change = Callable[[Schedule], Schedule]

MATMUL = (
    KernelValue(
        "result",
        (Axis("b", 12), Axis("m", 130), Axis("n", 768)),
        (Axis("k", 512),),
        intrinsic="outer_product",
        packed=(Block(1, "n", 32),),
    ),
    KernelValue("%arg0", (Axis("%arg0.d0", 12), Axis("%arg0.d1", 130), Axis("%arg0.d2", 512)), read=True),
    KernelValue("%5", (Axis("%5.d0", 12), Axis("%5.d1", 130), Axis("%5.d2", 768))),
)
SOFTMAX = (KernelValue("result", (Axis("d0", 64), Axis("row", 512)), (), row="row"),)
POOL = (KernelValue("result", (Axis("oh", 7), Axis("ow", 7), Axis("c", 64)), (Axis("kh", 3), Axis("kw", 3))),)


def plain() -> Schedule:
    return Schedule.start(MATMUL)


def tiled() -> Schedule:
    return plain().tile("m", 14, "n", 32).reorder("n.0", "m.0")


def filled() -> Schedule:
    return tiled().vectorize("n.1").unroll("m.1")


# What each primitive makes of the loops before it; the lines that are the same before and after are "...".
GOLDEN: dict[str, tuple[Schedule, Change, str]] = {
    "split": (plain(), lambda s: s.split("m", 14), "for b in 12 x 1|for m.0 in 9 x 14 + 4|for m.1 in 14 x 1|..."),
    "split of a part": (
        plain().split("n", 64),
        lambda s: s.split("n.1", 32).split("n.0", 4),
        "...|for n.0.0 in 3 x 256|for n.0.1 in 4 x 64|for n.1.0 in 2 x 32|for n.1.1 in 32 x 1|...",
    ),
    "tile": (
        plain(),
        lambda s: s.tile("m", 14, "n", 32),
        "for b in 12 x 1|for m.0 in 9 x 14 + 4|for n.0 in 24 x 32|for m.1 in 14 x 1|for n.1 in 32 x 1|for k in 512 x 1|...",
    ),
    "reorder": (plain(), lambda s: s.reorder("n", "b"), "for n in 768 x 1|for m in 130 x 1|for b in 12 x 1|..."),
    "fuse": (plain(), lambda s: s.fuse("b", "m"), "for b*m in 12 x 1, 130 x 1|for n in 768 x 1|..."),
    "parallel": (tiled().reorder("n.0", "b"), lambda s: s.parallel("n.0"), "parallel n.0 in 24 x 32|..."),
    "vectorize": (tiled(), lambda s: s.vectorize("n.1"), "...|tile n.1 of 32: vectorize n.1"),
    "unroll": (
        tiled().vectorize("n.1"),
        lambda s: s.unroll("m.1"),
        "...|tile m.1 x n.1 of 14 x 32: unroll m.1, vectorize n.1",
    ),
    "unroll of a sum": (filled(), lambda s: s.unroll("k", 4), "...|for k in 512 x 1, 4 at once|..."),
    "unroll of parts of a sum": (
        filled(),
        lambda s: s.unroll("k", 8, apart=True),
        "...|for k in 512 x 1, 8 at once apart|...",
    ),
    "overlap": (tiled(), lambda s: s.overlap("m.0"), "...|for m.0 in 9 x 14 + 4, overlapping|..."),
    "cache_read": (
        filled(),
        lambda s: s.cache_read("%arg0", "n.0"),
        "...|for n.0 in 24 x 32|stage %arg0|for %arg0.d0 by 1|for %arg0.d1 by 1|for %arg0.d2 by 1|element|...",
    ),
    "cache_read in phases": (
        filled(),
        lambda s: s.cache_read("%arg0", "n.0", 2),
        "...|for n.0 in 24 x 32|stage %arg0 in 2 phases|for %arg0.d0 by 1|...",
    ),
    "cache_split": (
        filled(),
        lambda s: s.cache_split("%arg0", "n.0", 14),
        "...|for n.0 in 24 x 32|stage %arg0 in parts of bfloat16, by 14 rows|for m.0 in 9 x 14 + 4|...",
    ),
    "cache_write": (
        filled(),
        lambda s: s.cache_write("%5").split("%5.d2", 64).vectorize("%5.d2.1"),
        "stage %5|for %5.d0 in 12 x 1|for %5.d1 in 130 x 1|for %5.d2.0 in 12 x 64|tile %5.d2.1 of 64: vectorize %5.d2.1|...",
    ),
    "compute_at": (
        filled().cache_read("%arg0"),
        lambda s: s.compute_at("%arg0", "b"),
        "for b in 12 x 1|stage %arg0|for %arg0.d0 by 1|...",
    ),
    "pack": (
        filled(),
        lambda s: s.pack(1, "n", 32),
        "...|tile m.1 x n.1 of 14 x 32: ..., pack %arg1 in blocks of 32 along n",
    ),
    "tensorize": (
        filled(),
        lambda s: s.tensorize("m.1", "outer_product"),
        "...|tile m.1 x n.1 of 14 x 32: unroll m.1, vectorize n.1, tensorize outer_product",
    ),
}


def lines(schedule: Schedule) -> list[str]:
    return [line.strip().removesuffix(":") for line in str(schedule).splitlines()]


@pytest.mark.parametrize("name", GOLDEN)
def test_golden(name: str) -> None:
    before, change, want = GOLDEN[name]
    made, rest = "|".join(lines(change(before))), 0
    for piece in want.split("..."):
        assert piece.strip("|") in made[rest:], str(change(before))
        rest = made.index(piece.strip("|"), rest) + len(piece.strip("|"))
    assert want.startswith("...") or made.startswith(want.split("...")[0])
    assert want.endswith("...") or made.endswith(want.split("...")[-1])
    assert before == GOLDEN[name][0], "a schedule does not change"


def test_a_schedule_prints_its_whole_nest() -> None:
    made = filled().unroll("k", 4).tensorize("m.1", "outer_product").pack(1, "n", 32).fuse("b", "n.0").parallel("b*n.0")
    assert str(made.cache_read("%arg0", "b*n.0").vectorize("%arg0.d2")).splitlines() == [
        "parallel b*n.0 in 12 x 1, 24 x 32:",
        "  stage %arg0:",
        "    for %arg0.d0 by 1:",
        "      for %arg0.d1 by 1:",
        "        tile %arg0.d2 of 512: vectorize %arg0.d2",
        "  for m.0 in 9 x 14 + 4:",
        "    for k in 512 x 1, 4 at once:",
        "      tile m.1 x n.1 of 14 x 32: unroll m.1, vectorize n.1, tensorize outer_product,"
        " pack %arg1 in blocks of 32 along n",
    ]
    assert made.extent == 288
    made.check()


def test_whole_rows() -> None:
    made = Schedule.start(SOFTMAX).split("row", 64).vectorize("row.1").parallel("d0")
    assert lines(made) == ["parallel d0 in 64 x 1", "for row.0 in 8 x 64", "tile row.1 of 64: vectorize row.1"]
    assert made.result.row_chunk == 64
    made.check()


# What each primitive refuses, and the words that say which loop, why, and what would do.
REFUSALS: dict[str, list[tuple[Schedule, Change, str]]] = {
    "split": [
        (plain(), lambda s: s.split("w", 4), r"no loop 'w'; there are b, m, n, k$"),
        (plain(), lambda s: s.split("n", 0), r"split 'n' by 0: give a number from 2 to the 768 of 'n'"),
        (plain(), lambda s: s.split("n", 769), r"split 'n' by 769: give a number from 2 to the 768"),
        (plain(), lambda s: s.split("n", 2.5), r"split 'n' by 2.5"),  # pyright: ignore[reportArgumentType]
        (plain(), lambda s: s.split("k", 64), r"split 'k': it is summed up in order; unroll\('k', 4\)"),
        (filled(), lambda s: s.split("n.1", 16), r"split 'n.1': it is marked vectorize already"),
        (plain().fuse("b", "m"), lambda s: s.split("b*m", 2), r"split its parts before they are fused"),
        (plain().cache_read("%arg0", "m"), lambda s: s.split("m", 2), r"'%arg0' is computed at it; split before"),
        (Schedule.start(SOFTMAX).split("row", 64), lambda s: s.split("row.1", 8), r"rows go in steps of one size"),
    ],
    "tile": [
        (plain(), lambda s: s.tile("m", 4, "m", 4), r"tile 'm' twice: name two axes"),
        (plain(), lambda s: s.tile("m", 4, "n", 1000), r"split 'n' by 1000"),
    ],
    "reorder": [
        (plain(), lambda s: s.reorder("m", "m"), r"'m' is named twice"),
        (plain(), lambda s: s.reorder(), r"name the loops"),
        (tiled(), lambda s: s.reorder("m.1", "m.0"), r"'m.1' lies in a step of 'm.0' and must be inside"),
        (
            plain().split("m", 2).split("m.1", 2),
            lambda s: s.reorder("m.1.0", "m.0"),
            r"'m.1.0' lies in a step of 'm.0' and must be inside",
        ),
        (plain().parallel("b"), lambda s: s.reorder("m", "b"), r"'b' is parallel and must stay outermost"),
        (filled(), lambda s: s.reorder("n.1", "m.1"), r"'n.1' is vectorized and must stay innermost"),
        (plain().cache_read("%arg0"), lambda s: s.reorder("m", "%arg0.d0"), r"loops of different values"),
    ],
    "fuse": [
        (plain(), lambda s: s.fuse("b"), r"fuse one loop: name two"),
        (plain(), lambda s: s.fuse("b", "n"), r"'b' and 'n': they are not neighbours; the order is b, m, n, k"),
        (plain(), lambda s: s.fuse("n", "k"), r"'k': only loops around tiles"),
        (
            plain().split("m", 14),
            lambda s: s.reorder("m.0", "n", "m.1").fuse("n", "m.1"),
            r"'m.1': 'm.0' is 9 x 14 \+ 4; a factor that divides would do",
        ),
        (plain().split("n", 32), lambda s: s.fuse("n.0", "n.1"), r"two parts of axis 'n': leave it unsplit"),
        (plain().cache_read("%arg0", "b"), lambda s: s.fuse("b", "m"), r"fuse 'b': '%arg0' is computed at it"),
        (plain().cache_read("%arg0"), lambda s: s.fuse("%arg0.d0", "%arg0.d1"), r"depends on its place"),
    ],
    "parallel": [
        (plain(), lambda s: s.parallel("k"), r"parallelize 'k': its steps depend on each other"),
        (plain(), lambda s: s.parallel("m"), r"'b' is outside of it; reorder\('m', 'b'\) before"),
        (plain().parallel("b"), lambda s: s.parallel("m"), r"'b' is parallel; fuse them before"),
        (plain().cache_read("%arg0"), lambda s: s.parallel("%arg0.d0"), r"by each thread for itself"),
    ],
    "vectorize": [
        (plain(), lambda s: s.vectorize("m"), r"vectorize 'm': the axis that lies contiguous is 'n'"),
        (plain(), lambda s: s.vectorize("n"), r"vectorize 'n': 'k' is inside of it; reorder\('k', 'n'\) before"),
        (tiled(), lambda s: s.vectorize("n.0"), r"vectorize 'n.0': it goes in steps.*see n.1"),
        (
            Schedule.start((KernelValue("result", (Axis("n", 5000),)),)),
            lambda s: s.vectorize("n"),
            r"vectorize 'n': the tile would have more than 4096 elements; split it",
        ),
    ],
    "unroll": [
        (plain(), lambda s: s.unroll("k"), r"steps of 'k' at once: 0: give a number from 2 to the 16"),
        (plain(), lambda s: s.unroll("k", 17), r"from 2 to the 16"),
        (plain(), lambda s: s.unroll("k", 3), r"3 steps of 'k' at once: 512 steps do not divide"),
        (Schedule.start(POOL), lambda s: s.unroll("kh", 3), r"only the innermost loop of a sum can be, here 'kw'"),
        (tiled(), lambda s: s.unroll("m.1", 4), r"unroll 'm.1' by 4: it is unrolled whole; split\('m.1', 4\) before"),
        (tiled(), lambda s: s.unroll("n.1"), r"unroll 'n.1': it lies contiguous; vectorize\('n.1'\)"),
        (tiled(), lambda s: s.unroll("m.0"), r"unroll 'm.0': it goes in steps.*see m.1"),
        (plain().split("m", 4), lambda s: s.unroll("m.1"), r"the sum over 'k' is inside of it; reorder"),
        (tiled(), lambda s: s.unroll("m.1", 0, True), r"unroll 'm.1' apart: only steps of a sum can be"),
        (tiled(), lambda s: PRIMITIVES["unroll"](s, "k", 4, 2), r"unroll 'k' apart: 2: say true or false"),
        (
            Schedule.start(SOFTMAX).split("row", 64).vectorize("row.1"),
            lambda s: s.unroll("row.0", 2, True),
            r"unroll 'row.0' apart: rows are read in order",
        ),
    ],
    "cache_split": [
        (plain(), lambda s: s.cache_split("%arg7"), r"stage '%arg7'; there are %arg0, %5"),
        (plain(), lambda s: s.cache_split("%arg0", "b", 17), r"matrices of rows: 17: give a number from 0 to the 16"),
        (plain(), lambda s: s.cache_split("%5", "b"), r"'%5' is computed: cache_write\('%5', ...\) stages it"),
    ],
    "cache_read": [
        (plain(), lambda s: s.cache_read("%arg7"), r"stage '%arg7'; there are %arg0, %5"),
        (plain(), lambda s: s.cache_read("%arg0", "z"), r"compute at 'z': the loops around tiles are b, m, n"),
        (plain(), lambda s: s.cache_read("%arg0", "b", 3), r"in phases: 3: give a number from 1 to the 2"),
        (
            plain().cache_read("%arg0"),
            lambda s: s.cache_read("%arg0", "b"),
            r"staged already; compute_at\('%arg0', ...\) moves it",
        ),
        (plain(), lambda s: s.cache_read("%5", "b"), r"'%5' is computed: cache_write\('%5', ...\) stages it"),
        (plain(), lambda s: s.cache_read("%arg0", None), r"compute at 'None'"),  # pyright: ignore[reportArgumentType]
        (plain(), lambda s: s.cache_read("result"), r"stage 'result'; there are %arg0, %5"),
    ],
    "cache_write": [
        (plain(), lambda s: s.cache_write("%6"), r"stage '%6'; there are"),
        (
            plain(),
            lambda s: s.cache_write("%arg0"),
            r"'%arg0' is read from memory: cache_read\('%arg0', ...\) stages it",
        ),
        (filled(), lambda s: s.cache_write("%5", "k"), r"compute at 'k': the loops around tiles are b, n.0, m.0"),
    ],
    "compute_at": [
        (plain(), lambda s: s.compute_at("%5", "b"), r"no stage '%5' to be computed elsewhere; stages: none"),
        (
            plain().cache_write("%5"),
            lambda s: s.compute_at("%5", "m.0"),
            r"at 'm.0': the loops around tiles are b, m, n",
        ),
    ],
    "overlap": [
        (plain(), lambda s: s.overlap("w"), r"no loop 'w'"),
        (filled(), lambda s: s.overlap("m.1"), r"'m.1': only those of loops around tiles"),
        (plain().fuse("b", "m"), lambda s: s.overlap("b*m"), r"'b\*m': it goes in 12 x 1, and no step"),
        (plain(), lambda s: s.overlap("m"), r"'m': it goes in 130 x 1, and no step is smaller"),
        (plain().split("n", 100), lambda s: s.overlap("n.0"), r"'n.0': %arg1 in blocks of 32 along n"),
        (
            Schedule.start((KernelValue("result", (Axis("m", 9),), once=True),)).split("m", 4),
            lambda s: s.overlap("m.0"),
            r"'m.0': result may lie over an argument that it is made from",
        ),
        (tiled().overlap("m.0"), lambda s: s.split("m.0", 2), r"split 'm.0': it is marked overlapping already"),
    ],
    "pack": [
        (filled(), lambda s: s.pack(1, "n", 16), r"%arg1 in blocks of 16.*packed are: %arg1 in blocks of 32 along n"),
        (filled(), lambda s: s.pack(0, "n", 32), r"pack %arg0 in blocks of 32"),
    ],
    "tensorize": [
        (filled(), lambda s: s.tensorize("m.1", "amx"), r"'amx'; there are outer_product, linear_transform"),
        (filled(), lambda s: s.tensorize("m.1", "linear_transform"), r"result can become outer_product"),
        (filled(), lambda s: s.tensorize("n.1", "outer_product"), r"the tile is m.1, n.1"),
        (tiled().vectorize("n.1"), lambda s: s.tensorize("n.1", "outer_product"), r"rows and columns; the tile is n.1"),
    ],
}


@pytest.mark.parametrize("name, case", [(name, i) for name, cases in REFUSALS.items() for i in range(len(cases))])
def test_refusal(name: str, case: int) -> None:
    before, change, words = REFUSALS[name][case]
    with pytest.raises(ScheduleError, match=words) as caught:
        change(before)
    assert "\n" not in str(caught.value)


def test_every_primitive_has_a_golden_test_a_refusal_and_a_before_and_after() -> None:
    assert set(PRIMITIVES) == set(REFUSALS) == {name.split()[0] for name in GOLDEN}
    assert all("->" in (primitive.__doc__ or "") for primitive in PRIMITIVES.values())


# What is legal step by step and cannot be built as a whole.
UNFINISHED: list[tuple[Schedule, str]] = [
    (
        plain().reorder("k", "n"),
        r"'n' is a loop inside of 'k', which is a sum.*reorder\('n', 'k'\), or vectorize\('n'\)",
    ),
    (plain().split("m", 2).reorder("k", "m.1", "n"), r"'m.1' is a loop inside of 'k'"),
    (plain(), r"%arg1 in blocks of 32 along n is what the kernel reads: pack\(1, 'n', 32\)"),
    (
        plain().pack(1, "n", 32).split("n", 48).reorder("k", "n.1").vectorize("n.1"),
        r"'n.0' goes in steps of 48 elements, and %arg1 in blocks of 32 along n: split 'n' by 32",
    ),
    (
        filled().unroll("k", 4, apart=True).tensorize("m.1", "outer_product"),
        r"outer_product takes neighbouring steps of 'k', not such that lie apart",
    ),
    (Schedule.start(SOFTMAX), r"no loop over 'row' is vectorized: vectorize\('row'\)"),
    (
        Schedule.start(
            (KernelValue("result", (Axis("d0", 4), Axis("d1", 8)), intrinsic="linear_transform"),)
        ).vectorize("d1"),
        r"of which there is one form: tensorize\('d1', 'linear_transform'\)",
    ),
]


@pytest.mark.parametrize("case", range(len(UNFINISHED)))
def test_what_cannot_be_built_is_refused(case: int) -> None:
    schedule, words = UNFINISHED[case]
    with pytest.raises(ScheduleError, match=words):
        schedule.check()


def test_a_symbol_is_refused_in_words() -> None:
    made = Schedule.start((KernelValue("result", (Axis("m", Sym("batch")), Axis("n", 64))),))
    assert lines(made.vectorize("n")) == ["for m in batch by 1", "tile n of 64: vectorize n"]
    with pytest.raises(CompileError, match="axis 'm' is 'batch', known only at run time"):
        made.split("m", 4)


NAMES = ["b", "m", "n", "k", "m.0", "m.1", "n.0", "n.1", "n.1.0", "n.1.1", "b*m", "%arg0.d2", "%5.d1", "row", ""]
ARGUMENTS = st.one_of(
    st.sampled_from(NAMES), st.integers(0, 40), st.sampled_from(["outer_product", "%arg0", "%5", None, ["m"], 2.5])
)
STEPS = st.lists(
    st.tuples(st.sampled_from(sorted(PRIMITIVES)), st.lists(ARGUMENTS, min_size=1, max_size=4)), max_size=25
)


@settings(max_examples=200, deadline=None)
@given(STEPS)
def test_json_is_read_back(steps: list[tuple[str, list[object]]]) -> None:
    """Whatever primitives make, and whatever they refuse is one line."""
    made = filled()
    for name, arguments in steps:
        try:
            made = PRIMITIVES[name](made, *arguments)
        except ScheduleError as error:
            assert "\n" not in str(error)
        except TypeError:
            assert name != "reorder" and name != "fuse", "a wrong number of arguments"
    again = Schedule.from_json(json.dumps(made.to_json()))
    assert again == made and hash(again) == hash(made) and str(again) == str(made)
    assert again.to_json() == json.loads(json.dumps(made.to_json())) and again == Schedule.from_json(made.to_json())
    assert pickle.loads(pickle.dumps(made)) == made


VALUES = {"result": {"axes": [["n", 8]]}}


@pytest.mark.parametrize(
    "text, words",
    [
        ("{", r'is \{"values"'),
        ("[]", r'is \{"values"'),
        ({"values": {}, "steps": []}, "no 'result'"),
        ({"values": {"result": {"axes": [["n", -1]]}}, "steps": []}, "-1 is no extent"),
        ({"values": {"result": 3}, "steps": []}, "not as `tilewright explain --json` shows them"),
        ({"values": VALUES, "steps": [["skew", "n"]]}, "no primitive 'skew'; there are split, tile"),
        ({"values": VALUES, "steps": [["split", "n"]]}, "split does not take 'n': missing a required argument"),
        ({"values": VALUES, "steps": [["split", "n", "4"]]}, "split 'n' by '4': give a number"),
        ({"values": VALUES, "steps": [["split", ["n"], 4]]}, "no loop"),
        ({"values": VALUES, "steps": [[]]}, r'is \{"values"'),
        ({"values": VALUES, "steps": [3]}, r'is \{"values"'),
    ],
)
def test_wrong_json_is_refused(text: object, words: str) -> None:
    with pytest.raises(ScheduleError, match=words) as caught:
        Schedule.from_json(text)  # pyright: ignore[reportArgumentType]
    assert "\n" not in str(caught.value)


def test_a_schedule_needs_no_mlir() -> None:
    code = "import sys, tilewright.passes.schedule.language.schedule; sys.exit('mlir' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
