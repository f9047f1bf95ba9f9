"""Each primitive of a schedule: the loops that it makes, and what it refuses when it is called."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import te


@pytest.fixture
def made() -> Iterator[tuple[te.Schedule, te.Tensor, te.Tensor, list[te.Tensor]]]:
    """``P = A * 2; C = P . B`` of 96 x 96: the schedule, P, C and the program's arguments."""
    a, b = te.placeholder((96, 96), name="A"), te.placeholder((96, 96), name="B")
    k = te.reduce_axis((0, 96), "k")
    p = te.compute((96, 96), lambda i, j: a[i, j] * 2, name="P")
    c = te.compute((96, 96), lambda m, n: te.sum(p[m, k] * b[k, n], axis=k), name="C")
    yield te.create_schedule(c.op), p, c, [a, b, c]


Made = tuple[te.Schedule, te.Tensor, te.Tensor, list[te.Tensor]]
Apply = Callable[[Any, Any, Any], Any]  # of arguments that may be wrong


def _split(s: te.Schedule, p: te.Tensor, c: te.Tensor) -> None:
    s[p].split(p.op.axis[0], factor=32)
    s[p].split(p.op.axis[1], nparts=5)


def _tile(s: te.Schedule, p: te.Tensor, c: te.Tensor) -> None:
    s[p].tile(p.op.axis[0], p.op.axis[1], 32, 16)


def _fuse(s: te.Schedule, p: te.Tensor, c: te.Tensor) -> None:
    fused = s[p].fuse(*p.op.axis)
    outer, inner = s[p].split(fused, factor=64)
    s[p].parallel(outer)
    s[p].vectorize(inner)


def _order(s: te.Schedule, p: te.Tensor, c: te.Tensor) -> None:
    i, j = p.op.axis
    jo, ji = s[p].split(j, factor=4)
    s[p].reorder(jo, i, ji)
    s[p].unroll(ji)


def _attach(s: te.Schedule, p: te.Tensor, c: te.Tensor) -> None:
    outer, _ = s[c].split(c.op.axis[0], factor=8)
    s[p].compute_at(s[c], outer)


def _inline(s: te.Schedule, p: te.Tensor, c: te.Tensor) -> None:
    s[p].compute_inline()


def _write(s: te.Schedule, p: te.Tensor, c: te.Tensor) -> None:
    cached = s.cache_write(c, "local")
    s[cached].compute_at(s[c], c.op.axis[0])
    s[p].compute_inline()


def _read(s: te.Schedule, p: te.Tensor, c: te.Tensor) -> None:
    s[p].compute_inline()
    cached = s.cache_read(s[c].op.input_tensors[1], "local", [c])
    s[cached].compute_at(s[c], c.op.reduce_axis[0])


def _factor(s: te.Schedule, p: te.Tensor, c: te.Tensor) -> None:
    s[p].compute_inline()
    _, inner = s[c].split(c.op.reduce_axis[0], factor=4)
    s.rfactor(c, inner)


ROOT = """\
  for (m, 0, 96) {
    for (n, 0, 96) {
      C[m, n] = 0.0
      for (k, 0, 96) {
        C[m, n] = C[m, n] + P[m, k]*B[k, n]
      }
    }
  }
"""

GOLDEN: dict[str, tuple[Apply, str]] = {
    "split": (_split, """\
  alloc P: float32[96, 96]
  for (i.outer, 0, 3) {
    for (i.inner, 0, 32) {
      for (j.outer, 0, 5) {
        for (j.inner, 0, min(20, 96 - j.outer*20)) {
          P[i.outer*32 + i.inner, j.outer*20 + j.inner] = A[i.outer*32 + i.inner, j.outer*20 + j.inner]*2.0
        }
      }
    }
  }
""" + ROOT),
    "tile": (_tile, """\
  alloc P: float32[96, 96]
  for (i.outer, 0, 3) {
    for (j.outer, 0, 6) {
      for (i.inner, 0, 32) {
        for (j.inner, 0, 16) {
          P[i.outer*32 + i.inner, j.outer*16 + j.inner] = A[i.outer*32 + i.inner, j.outer*16 + j.inner]*2.0
        }
      }
    }
  }
""" + ROOT),
    "reorder": (_order, """\
  alloc P: float32[96, 96]
  for (j.outer, 0, 24) {
    for (i, 0, 96) {
      unroll (j.inner, 0, 4) {
        P[i, j.outer*4 + j.inner] = A[i, j.outer*4 + j.inner]*2.0
      }
    }
  }
""" + ROOT),
    "compute_at": (_attach, """\
  for (m.outer, 0, 12) {
    alloc P: float32[8, 96]
    for (i, 0, 8) {
      for (j, 0, 96) {
        P[i, j] = A[m.outer*8 + i, j]*2.0
      }
    }
    for (m.inner, 0, 8) {
      for (n, 0, 96) {
        C[m.outer*8 + m.inner, n] = 0.0
        for (k, 0, 96) {
          C[m.outer*8 + m.inner, n] = C[m.outer*8 + m.inner, n] + P[m.inner, k]*B[k, n]
        }
      }
    }
  }
"""),
    "compute_inline": (_inline, """\
  for (m, 0, 96) {
    for (n, 0, 96) {
      C[m, n] = 0.0
      for (k, 0, 96) {
        C[m, n] = C[m, n] + A[m, k]*2.0*B[k, n]
      }
    }
  }
"""),
    "cache_write": (_write, """\
  for (m, 0, 96) {
    alloc C.local: float32[1, 96]
    C.local[...] = 0.0
    for (m.c, 0, 1) {
      for (n.c, 0, 96) {
        for (k, 0, 96) {
          C.local[m.c, n.c] = C.local[m.c, n.c] + A[m + m.c, k]*2.0*B[k, n.c]
        }
      }
    }
    for (n, 0, 96) {
      C[m, n] = C.local[0, n]
    }
  }
"""),
    "cache_read": (_read, """\
  for (m, 0, 96) {
    for (n, 0, 96) {
      C[m, n] = 0.0
      for (k, 0, 96) {
        alloc B.local: float32[1, 1]
        for (ax0, 0, 1) {
          for (ax1, 0, 1) {
            B.local[ax0, ax1] = B[k + ax0, n + ax1]
          }
        }
        C[m, n] = C[m, n] + A[m, k]*2.0*B.local[0, 0]
      }
    }
  }
"""),
    "rfactor": (_factor, """\
  alloc C.rf: float32[4, 96, 96]
  for (k.inner, 0, 4) {
    for (m, 0, 96) {
      for (n, 0, 96) {
        C.rf[k.inner, m, n] = 0.0
        for (k.rest, 0, 24) {
          C.rf[k.inner, m, n] = C.rf[k.inner, m, n] + A[m, k.inner + k.rest*4]*2.0*B[k.inner + k.rest*4, n]
        }
      }
    }
  }
  for (m, 0, 96) {
    for (n, 0, 96) {
      C[m, n] = 0.0
      for (k.inner.v, 0, 4) {
        C[m, n] = C[m, n] + C.rf[k.inner.v, m, n]
      }
    }
  }
"""),
}  # fmt: skip


@pytest.mark.parametrize("name", GOLDEN)
def test_the_loops_of_a_primitive(name: str, made: Made):
    schedule, p, c, args = made
    apply, golden = GOLDEN[name]
    apply(schedule, p, c)
    text = tw.lower(schedule, args, simple_mode=True, name="f")
    head, *body, end = text.splitlines()
    assert head == "f(A: float32[96, 96], B: float32[96, 96], C: float32[96, 96]) {" and end == "}"
    assert "\n".join(body) == golden.rstrip("\n")
    again = te.create_schedule(c.op).apply(schedule.trace.to_json())
    assert tw.lower(again, args, simple_mode=True, name="f") == text


def test_neighbouring_axes_become_one(made: Made):
    schedule, p, c, args = made
    _fuse(schedule, p, c)
    lines = tw.lower(schedule, args, simple_mode=True).splitlines()[2:4]
    assert [line.strip() for line in lines] == [
        "parallel (i.j.fused.outer, 0, 144) {",
        "vectorize (i.j.fused.inner, 0, 64) {",
    ]


def test_other_loops_are_fused_and_stay_so(made: Made):
    schedule, _, c, _ = made
    fused = schedule[c].fuse(*c.op.axis)  # P and B are read along one of them each
    with pytest.raises(tw.ScheduleError, match="is fused of loops that do not lie one after another"):
        schedule[c].split(fused, factor=4)


def test_handles_of_a_stage(made: Made):
    schedule, p, c, _ = made
    stage = schedule[c]
    outer, inner = stage.split(c.op.axis[1], factor=16)
    stage.unroll(inner)
    m, k = c.op.axis[0], c.op.reduce_axis[0]
    assert [v.name for v in stage.leaf_iter_vars] == ["m", "n.outer", "n.inner", "k"]
    assert {v.name for v in stage.all_iter_vars} == {"m", "n", "k", "n.outer", "n.inner"}
    assert (outer.dom.extent, inner.dom.extent) == (6, 16)
    assert (m.iter_type, k.iter_type) == ("DataPar", "CommReduce") and k.var.name == "k"
    assert stage.iter_types[inner] == "unroll" and stage.attach_type == "root"
    schedule[p].compute_inline()
    assert schedule[p].attach_type == "inline"
    assert stage.is_output and not schedule[p].is_output


def test_loops_of_one_step_may_be_anywhere(made: Made):
    """As in templates, whose splits by factors leave parts of one element in the middle or at an end."""
    schedule, p, c, args = made
    schedule[p].compute_inline()
    outer, rest = schedule[c].split(c.op.axis[0], factor=8)
    middle, inner = schedule[c].split(rest, factor=8)
    (k,) = c.op.reduce_axis
    whole, step = schedule[c].split(k, factor=96)
    schedule[c].reorder(outer, middle, c.op.axis[1], whole, inner, step)
    text = tw.lower(schedule, args, simple_mode=True)
    assert [line.strip() for line in text.splitlines() if "for (" in line] == [
        "for (m.outer, 0, 12) {",
        "for (m.inner.outer, 0, 1) {",
        "for (n, 0, 96) {",
        "for (k.outer, 0, 1) {",
        "for (m.inner.inner, 0, 8) {",
        "for (k.inner, 0, 96) {",
    ]
    x, y = (np.random.default_rng(0).standard_normal((96, 96)).astype("float32") for _ in "xy")
    made_here = tw.build(schedule, args, num_threads=1, records=False).run([x, y])[0]
    np.testing.assert_allclose(made_here, 2 * x @ y, rtol=1e-4, atol=1e-4)


def test_loops_in_loops_of_the_same_name_have_names_of_their_own():
    a = te.placeholder((6, 4), name="A")
    b = te.compute((6, 4), lambda i, j: a[i, j] + 1, name="B")
    c = te.compute((6, 4), lambda i, j: b[i, j] * 2, name="C")
    schedule = te.create_schedule(c.op)
    schedule[b].compute_at(schedule[c], c.op.axis[0])
    text = tw.lower(schedule, [a, c], simple_mode=True)
    assert "B[i_1, j] = A[i + i_1, j] + 1.0" in text and "C[i, j] = B[0, j]*2.0" in text and text.count("for (i, ") == 1


def test_a_pragma_that_unrolls_more_than_can_be_unrolls_what_can(made: Made):
    schedule, p, _, _ = made
    schedule[p].pragma(p.op.axis[0], "auto_unroll_max_step", 1500)
    assert schedule[p].stage.auto_unroll == 1024


def test_what_is_computed_for_each_read_is_read_where_it_is(made: Made):
    a = te.placeholder((6, 4), name="A")
    b = te.compute((8, 4), lambda i, j: te.if_then_else(i < 6, a[te.min(i, 5), j], 0.0), name="B")
    c = te.compute((6, 4), lambda i, j: b[i, j] + b[i + 2, j], name="C")
    schedule = te.create_schedule(c.op)
    schedule[b].compute_at(schedule[c], c.op.axis[0])
    assert "C[i, j] = B[i, j] + B[i + 2, j]" in tw.lower(schedule, [a, c], simple_mode=True)


@pytest.mark.parametrize(
    ("name", "reason"),
    [("store_at", "lies where compute_at has it"), ("double_buffer", "leave it out"), ("melt", "see docs/te.md")],
)
def test_primitives_that_are_not_there_say_why(made: Made, name: str, reason: str):
    schedule, p, _, _ = made
    with pytest.raises(AttributeError, match=f"a stage has no '{name}': .*{reason}"):
        getattr(schedule[p], name)
    assert not hasattr(schedule[p], name)


REFUSED: list[tuple[Apply, str]] = [
    (lambda s, p, c: s[c].split(p.op.axis[0], 3), "'i': it is no axis of 'C'; the loops are 'm', 'n', 'k'"),
    (lambda s, p, c: s[c].split(c.op.axis[0], factor=0), "cannot split 'm' by 0: it must be a number, at least 1"),
    (lambda s, p, c: s[c].split(c.op.axis[0], factor=-4), "at least 1"),
    (lambda s, p, c: s[c].split(c.op.axis[0]), "give factor"),
    (lambda s, p, c: s[c].split(c.op.axis[0], factor=2, nparts=2), "give factor"),
    (lambda s, p, c: s[c].split("m", factor=2), "give an axis of 'C'"),
    (lambda s, p, c: [s[c].split(c.op.axis[0], 4), s[c].split(c.op.axis[0], 4)], "'m': it has been split or fused"),
    (lambda s, p, c: s[c].fuse(c.op.axis[0], c.op.reduce_axis[0]), "neighbours can be fused"),
    (lambda s, p, c: s[c].fuse(c.op.axis[1], c.op.reduce_axis[0]), "one of them is a reduction's"),
    (lambda s, p, c: s[c].fuse(c.op.axis[1]), "cannot fuse one loop"),
    (lambda s, p, c: s[c].reorder(c.op.axis[0], c.op.axis[0]), "'m' is named twice"),
    (lambda s, p, c: s[c].reorder(*reversed(s[c].split(c.op.axis[0], 4))), "it goes over one step of that"),
    (lambda s, p, c: s[c].vectorize(c.op.reduce_axis[0]), "a reduction goes along it"),
    (lambda s, p, c: s[c].vectorize(c.op.axis[1]), "'k' is inside of it; reorder"),
    (lambda s, p, c: [s[p].reorder(p.op.axis[1], p.op.axis[0]), s[p].vectorize(p.op.axis[0])], "one after another"),
    (lambda s, p, c: s[c].parallel(c.op.axis[1]), "'m' is outside of it; fuse them, or reorder"),
    (lambda s, p, c: [s[c].reorder(c.op.reduce_axis[0], c.op.axis[0]), s[c].parallel(c.op.reduce_axis[0])], "rfactor"),
    (lambda s, p, c: [s[c].parallel(c.op.axis[0]), s[c].unroll(c.op.axis[0])], "it is parallel already"),
    (lambda s, p, c: [s[p].unroll(axis) for axis in p.op.axis], "9216 steps would be written out"),
    (lambda s, p, c: s[c].compute_at(s[p], p.op.axis[0]), "it is an output"),
    (lambda s, p, c: s[p].compute_at(s[p], p.op.axis[0]), "computed inside of 'P' itself"),
    (lambda s, p, c: s[p].compute_at(s[c], p.op.axis[0]), "no axis of 'C'"),
    (lambda s, p, c: s[p].compute_at(c, c.op.axis[0]), "takes a stage of the schedule"),
    (lambda s, p, c: [s[p].compute_at(s[c], c.op.axis[0]), s[c].split(c.op.axis[0], 4)], "'P' is computed at it"),
    (lambda s, p, c: [s[p].parallel(p.op.axis[0]), s[p].compute_at(s[c], c.op.axis[0])], "is computed inside of 'm'"),
    (lambda s, p, c: s[c].compute_inline(), "it is a reduction"),
    (lambda s, p, c: s[p.op.input_tensors[0]].compute_inline(), "it is given by the caller"),
    (lambda s, p, c: [s[p].split(p.op.axis[0], 4), s[p].compute_inline()], "have been changed already"),
    (lambda s, p, c: [s[c].split(c.op.axis[0], 4), s.cache_write(c, "local")], "before its other primitives"),
    (lambda s, p, c: s.cache_write(p.op.input_tensors[0], "local"), "cache_read copies it"),
    (lambda s, p, c: s.cache_write(c, "shared"), "there is no memory 'shared'"),
    (lambda s, p, c: s.cache_read(p, "local", [p]), "which does not read it"),
    (lambda s, p, c: s.cache_read(p, "local", []), "for no reader"),
    (lambda s, p, c: s.rfactor(p, p.op.axis[0]), "it is no reduction"),
    (lambda s, p, c: s.rfactor(c, c.op.axis[0]), "name one loop of the reduction"),
    (lambda s, p, c: s.rfactor(c, c.op.reduce_axis[0], 7), "factor_axis is from 0 to 2"),
    (lambda s, p, c: [s[p].auto(), s[p].split(p.op.axis[0], 2)], "is scheduled by auto"),
    (lambda s, p, c: [s[p].split(p.op.axis[0], 2), s[p].auto()], "has loops of its own already"),
    (lambda s, p, c: s[p].pragma(p.op.axis[0], "debug_skip"), "there is no pragma 'debug_skip'"),
    (lambda s, p, c: s[p].pragma(p.op.axis[0], "auto_unroll_max_step", -1), "from 0 to 2147483647, not -1"),
    (lambda s, p, c: s[p].set_scope("texture"), "there is no memory 'texture'"),
    (lambda s, p, c: s[p].bind(p.op.axis[0], te.thread_axis("threadIdx.x")), "no such threads"),
    (lambda s, p, c: s[te.placeholder((1,), name="Z")], "'Z' is no part of this schedule"),
    (lambda s, p, c: s.apply('[["melt", []]]'), "there is no primitive 'melt'"),
    (lambda s, p, c: s.apply("no json"), "this is no trace"),
    (lambda s, p, c: s.apply("{}"), "this is no trace .*a dict is no list of steps"),
    (lambda s, p, c: s.apply('[["split", [5]]]'), "it is of no stage"),
    (lambda s, p, c: s.apply('[["split", [{"stage": "P"}, {"loop": "i"}]]]'), "the schedule has no stage 'None'"),
    (lambda s, p, c: s.apply('[["cache_write", [{"schedule": ""}, {"tensor": "P"}]]]'), "cannot be applied"),
    (lambda s, p, c: s.apply('[["compute_at", [{"stage": "P"}, 1, [2]]]]'), "takes a stage of the schedule"),
    (lambda s, p, c: s.apply('[["unroll", [{"stage": "Z"}, {"loop": "i", "stage": "Z", "number": 0}]]]'), "no stage 'Z'"),
    (lambda s, p, c: s[p].split(p.op.axis[0], factor=4, extra=1), "split:"),
]  # fmt: skip


@pytest.mark.parametrize(("apply", "message"), REFUSED)
def test_what_cannot_be_is_refused_and_changes_nothing(apply: Apply, message: str, made: Made):
    schedule, p, c, args = made
    with pytest.raises(tw.ScheduleError, match=message):
        apply(schedule, p, c)
    steps = len(schedule.trace)
    again = te.create_schedule(c.op).apply(schedule.trace)
    assert len(again.trace) == steps
    assert tw.lower(again, args, simple_mode=True) == tw.lower(schedule, args, simple_mode=True)


def test_a_trace_is_applied_whole_or_not_at_all(made: Made):
    schedule, p, _, args = made
    schedule[p].split(p.op.axis[0], factor=4)
    text = tw.lower(schedule, args, simple_mode=True)
    loop = '{"loop": "j", "stage": "P", "number": 1}'
    with pytest.raises(tw.ScheduleError, match="vectorized already"):
        schedule.apply(f'[["vectorize", [{{"stage": "P"}}, {loop}]], ["split", [{{"stage": "P"}}, {loop}, 0, null]]]')
    assert tw.lower(schedule, args, simple_mode=True) == text and len(schedule.trace) == 1
