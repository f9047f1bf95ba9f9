"""Tiles that are calls of somebody else's functions: what they compute, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import te
from tilewright.core.errors import ScheduleError

CODE = """
extern "C" int gemv(float *c, const float *a, const float *b, int m, int l, int stride) {
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < l; ++j) c[i] += a[j] * b[i * stride + j];
  return 0;
}
extern "C" int zero(float *c, int m) {
  for (int i = 0; i < m; ++i) c[i] = 0;
  return 0;
}
"""


def declare_gemv(m: int, n: int, parts: bool = False, dense: bool = False, dtype: str = "float32") -> te.TensorIntrin:
    """``c[i] = sum over j of a[j] * b[i, j]``, in three parts or as a whole."""
    a, b = te.placeholder((n,), dtype, name="a"), te.placeholder((m, n), dtype, name="b")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((m,), lambda i: te.sum(a[k] * b[i, k], axis=k), name="c")
    strides = None if dense else [te.var("s"), 1]
    buffers = {a: te.decl_buffer(a.shape, dtype, "a"), b: te.decl_buffer(b.shape, dtype, "b", strides=strides)}

    def write(ins: list[Any], outs: list[Any]) -> Any:
        (aa, bb), (cc,) = ins, outs
        pointers = (cc.access_ptr("w"), aa.access_ptr("r"), bb.access_ptr("r"))
        call = te.call_extern("int32", "gemv", *pointers, m, n, bb.strides[0])
        return (call, te.call_extern("int32", "zero", cc.access_ptr("w"), m), call) if parts else call

    return te.decl_tensor_intrin(c.op, write, "gemv", binds=buffers)


def product(dtype: str = "float32") -> tuple[te.Schedule, te.Tensor, list[te.Tensor]]:
    """``C = A . transpose(B)`` of 12 x 24 x 20."""
    a, b = te.placeholder((12, 20), dtype, name="A"), te.placeholder((24, 20), dtype, name="B")
    k = te.reduce_axis((0, 20), name="k")
    c = te.compute((12, 24), lambda i, j: te.sum(a[i, k] * b[j, k], axis=k), name="C")
    return te.create_schedule(c.op), c, [a, b, c]


def check(schedule: te.Schedule, args: list[te.Tensor]) -> tw.Module:
    """Build a schedule and hold it against numpy."""
    made = np.random.default_rng(0)
    arrays = [made.integers(-4, 5, [int(n) for n in t.shape]).astype(np.float32) for t in args[:-1]]
    library = tw.build(schedule, args, num_threads=2)
    wanted = te.evaluate(args[-1:], dict(zip(args, arrays, strict=False)))
    np.testing.assert_array_equal(library.run(arrays)[0], wanted[0])
    return library


def test_a_whole_reduction_is_a_call(tmp_path):
    schedule, c, args = product()
    outer, inner = schedule[c].split(c.op.axis[1], factor=8)
    intrinsic = declare_gemv(8, 20)
    schedule[c].tensorize(inner, intrinsic)
    schedule[c].parallel(c.op.axis[0])
    schedule[c].pragma(outer, "import_c", CODE)
    lines = tw.lower(schedule, args, simple_mode=True).splitlines()
    assert lines[4].strip() == "gemv(&C[i, j.outer*8], &A[i, 0], &B[j.outer*8, 0], 8, 20, 20)"
    library = check(schedule, args)
    again = te.create_schedule(c.op).apply(schedule.trace.to_json())
    assert tw.lower(again, args, simple_mode=True).splitlines() == lines
    library.export_library(tmp_path / "product.so")
    x, y = np.ones((12, 20), np.float32), np.ones((24, 20), np.float32)
    assert (tw.load_module(tmp_path / "product.so").run([x, y])[0] == 20).all()


@pytest.mark.parametrize("cached", [False, True])
def test_parts_of_a_reduction_go_on_with_it(cached: bool):
    schedule, c, args = product()
    target = schedule.cache_write(c, "local") if cached else c
    if cached:
        rows, _ = schedule[c].split(c.op.axis[0], factor=4)
        schedule[target].compute_at(schedule[c], rows)
    i, j = schedule[target].op.axis
    jo, ji = schedule[target].split(j, factor=8)
    ko, ki = schedule[target].split(schedule[target].op.reduce_axis[0], factor=5)
    schedule[target].reorder(i, jo, ko, ji, ki)
    intrinsic = declare_gemv(8, 5, parts=True)
    schedule[target].tensorize(ji, intrinsic)
    schedule[target].pragma(i, "import_c", CODE)
    text = tw.lower(schedule, args, simple_mode=True)
    assert text.count("gemv(") == 1 and text.count("zero(") == (0 if cached else 1)  # a cache begins as a whole
    check(schedule, args)


def test_an_operand_that_is_computed_in_a_loop_lies_densely():
    a, b = te.placeholder((12, 20), name="A"), te.placeholder((24, 20), name="B")
    twice, k = te.compute((24, 20), lambda i, j: b[i, j] * 2, name="D"), te.reduce_axis((0, 20), name="k")
    c = te.compute((12, 24), lambda i, j: te.sum(twice[j, k] * a[i, k], axis=k), name="C")  # the factors exchanged
    schedule = te.create_schedule(c.op)
    outer, inner = schedule[c].split(c.op.axis[1], factor=8)
    ko, ki = schedule[c].split(c.op.reduce_axis[0], factor=5)
    schedule[c].reorder(c.op.axis[0], outer, ko, inner, ki)
    with pytest.raises(tw.ScheduleError, match="neighbours along axis 0 of 'D' lie 20 elements apart"):
        schedule[c].tensorize(inner, declare_gemv(8, 5, parts=True, dense=True))
    schedule[twice].compute_at(schedule[c], ko)
    intrinsic = declare_gemv(8, 5, parts=True, dense=True)
    schedule[c].tensorize(inner, intrinsic)
    schedule[c].pragma(inner, "import_c", CODE)
    check(schedule, [a, b, c])
    with pytest.raises(tw.ScheduleError, match="20 elements apart"):
        schedule[twice].compute_root()


LLVM = """
define i32 @reverse(ptr %out, ptr %in, double %by) {
  %scale = fptrunc double %by to float
  br label %loop
loop:
  %i = phi i64 [ 0, %0 ], [ %next, %loop ]
  %from = getelementptr float, ptr %in, i64 %i
  %x = load float, ptr %from
  %y = fmul float %x, %scale
  %to = getelementptr float, ptr %out, i64 %i
  store float %y, ptr %to
  %next = add i64 %i, 1
  %done = icmp eq i64 %next, 8
  br i1 %done, label %end, label %loop
end:
  ret i32 0
}
"""


def test_code_of_llvm_ir_and_a_window_at_an_offset():
    x = te.placeholder((4, 11), name="X")
    c = te.compute((4, 8), lambda i, j: (x[i, j + 3] + x[i, j + 1]) * 0.5, name="C")
    own = te.placeholder((10,), name="a")
    half = te.compute((8,), lambda i: (own[i + 2] + own[i]) * 0.5, name="c")

    def write(ins: list[Any], outs: list[Any]) -> Any:
        first = te.call_extern(
            "int32", "reverse", outs[0].access_ptr("w"), ins[0].access_ptr("r", offset=2), te.const(0.5, "float64")
        )
        return first

    intrinsic = te.decl_tensor_intrin(half.op, write, "half")
    schedule = te.create_schedule(c.op)
    schedule[c].tensorize(c.op.axis[1], intrinsic)
    with pytest.raises(tw.CompileError, match="'C' calls 'reverse', which no code has"):
        tw.build(schedule, [x, c])
    schedule[c].pragma(c.op.axis[0], "import_llvm", LLVM)
    array = np.arange(44, dtype=np.float32).reshape(4, 11)
    np.testing.assert_array_equal(tw.build(schedule, [x, c]).run([array])[0], array[:, 3:] * 0.5)  # as the code says


def test_a_result_never_lies_over_what_an_intrinsic_reads():
    code = "void flip(float *out, const float *in) { for (int i = 0; i < 8; ++i) out[i] = -1; for (int i = 0; i < 8; ++i) out[i] = in[i] + 1; }"
    x = te.placeholder((4, 8), name="X")
    first = te.compute((4, 8), lambda i, j: x[i, j] * 2, name="P")
    c = te.compute((4, 8), lambda i, j: first[i, j] + 1, name="C")
    last = te.compute((4, 8), lambda i, j: c[i, j] + 0.5, name="D")
    a = te.placeholder((8,), name="a")
    plus = te.compute((8,), lambda i: a[i] + 1, name="c")
    intrinsic = te.decl_tensor_intrin(
        plus.op, lambda ins, outs: te.call_extern("int32", "flip", outs[0].access_ptr("w"), ins[0].access_ptr("r"))
    )
    schedule = te.create_schedule(last.op)
    schedule[c].tensorize(c.op.axis[1], intrinsic)
    schedule[c].pragma(c.op.axis[0], "import_c", code)
    check(schedule, [x, last])


def declare(
    name: str, op: te.Tensor, *reads: te.Tensor, steps: dict[te.Tensor, list[Any]] | None = None
) -> te.TensorIntrin:
    """The intrinsic of a computation, called with its result and what it reads, which goes on with reductions."""
    binds = {t: te.decl_buffer(t.shape, t.dtype, t.name, strides=each) for t, each in (steps or {}).items()}

    def write(ins: list[Any], outs: list[Any]) -> Any:
        strides = [ins[number].strides[0] for number, t in enumerate(reads) if t in binds]
        call = te.call_extern("int32", name, *(each.access_ptr() for each in (*outs, *ins)), *strides)
        return call, None, call

    return te.decl_tensor_intrin(op.op, write, name, binds=binds)


@pytest.mark.parametrize("rows", [17, "n"])
def test_rows_that_are_not_cut_evenly_or_that_only_the_run_knows(rows: Any):
    extent = te.var("n") if rows == "n" else rows
    a, b = te.placeholder((extent, 20), name="A"), te.placeholder((24, 20), name="B")
    k = te.reduce_axis((0, 20), name="k")
    c = te.compute((extent, 24), lambda i, j: te.sum(a[i, k] * b[j, k], axis=k), name="C")
    schedule = te.create_schedule(c.op)
    outer, inner = schedule[c].split(c.op.axis[0], factor=5)
    tiles, tile = schedule[c].split(c.op.axis[1], factor=8)
    schedule[c].reorder(outer, tiles, inner, tile, k)
    intrinsic = declare_gemv(8, 20)
    schedule[c].tensorize(tile, intrinsic)
    schedule[c].parallel(outer)
    schedule[c].pragma(outer, "import_c", CODE)
    tw.testing.assert_same(schedule, [a, b, c], sizes={"n": 13})


def test_windows():
    x, w = te.placeholder((3, 20), name="X"), te.placeholder((3, 5), name="W")
    channel, tap = te.reduce_axis((0, 3), "channel"), te.reduce_axis((0, 5), "tap")
    c = te.compute((16,), lambda i: te.sum(x[channel, i + tap] * w[channel, tap], axis=[channel, tap]), name="C")
    a, b, k = te.placeholder((12,), name="a"), te.placeholder((5,), name="b"), te.reduce_axis((0, 5), "k")
    own = te.compute((8,), lambda i: te.sum(a[i + k] * b[k], axis=k), name="c")
    schedule, intrinsic = te.create_schedule(c.op), declare("window", own, a, b)
    outer, inner = schedule[c].split(c.op.axis[0], factor=8)
    schedule[c].reorder(outer, channel, inner, tap)
    schedule[c].tensorize(inner, intrinsic)
    schedule[c].pragma(outer, "import_c", """void window(float *c, const float *a, const float *b) {
      for (int i = 0; i < 8; ++i) for (int k = 0; k < 5; ++k) c[i] += a[i + k] * b[k]; }""")  # fmt: skip
    tw.testing.assert_same(schedule, [x, w, c])


def test_products_of_bytes_and_a_packed_operand():
    a, b = te.placeholder((6, 16), "uint8", name="A"), te.placeholder((16, 16), "int8", name="B")
    packed = te.compute((2, 16, 8), lambda x, y, z: b[y, x * 8 + z], name="P")
    k = te.reduce_axis((0, 16), "k")

    def product(i: Any, j: Any) -> Any:
        return te.sum(packed[j // 8, k, j % 8].astype("int32") * a[i, k].astype("int32"), axis=k)

    c = te.compute((6, 16), product, name="C")
    x, y = te.placeholder((4,), "uint8", name="x"), te.placeholder((4, 8), "int8", name="y")
    n = te.reduce_axis((0, 4), "n")
    own = te.compute((8,), lambda i: te.sum(x[n].astype("int32") * y[n, i].astype("int32"), axis=n), name="c")
    schedule, intrinsic = te.create_schedule(c.op), declare("dot", own, x, y, steps={y: [te.var("s"), 1]})
    tiles, tile = schedule[c].split(c.op.axis[1], factor=8)
    outer, inner = schedule[c].split(k, factor=4)
    schedule[c].reorder(tiles, c.op.axis[0], outer, tile, inner)
    schedule[packed].compute_at(schedule[c], tiles)
    schedule[c].tensorize(tile, intrinsic)
    schedule[c].pragma(tiles, "import_c", """#include <stdint.h>
    void dot(int *c, const uint8_t *x, const int8_t *y, int s) {
      for (int l = 0; l < 4; ++l) for (int i = 0; i < 8; ++i) c[i] += x[l] * y[l * s + i]; }""")  # fmt: skip
    tw.testing.assert_same(schedule, [a, b, c])


def test_several_results_and_a_tile_that_is_turned():
    x = te.placeholder((8, 4), name="X")
    c = te.compute((4, 8), lambda i, j: (x[j, i] * 2, x[j, i] + 1), name="C")
    a = te.placeholder((4, 2), name="a")
    own = te.compute((2, 4), lambda i, j: (a[j, i] * 2, a[j, i] + 1), name="c")
    steps = {a: [te.var("s"), 1], own[0]: [8, 1], own[1]: [8, 1]}
    schedule, intrinsic = te.create_schedule(c[0].op), declare("turn", own[0], a, steps=steps)
    outer, _, inner, _ = schedule[c[0]].tile(c[0].op.axis[0], c[0].op.axis[1], 2, 4)
    schedule[c[0]].tensorize(inner, intrinsic)
    schedule[c[0]].pragma(outer, "import_c", """void turn(float *c, float *d, const float *a, int s) {
      for (int i = 0; i < 2; ++i) for (int j = 0; j < 4; ++j) c[8 * i + j] = 2 * a[j * s + i], d[8 * i + j] = a[j * s + i] + 1; }""")  # fmt: skip
    tw.testing.assert_same(schedule, [x, *c])


def test_a_tile_whose_loops_change_is_tensorized_anew():
    """As TVM's tutorial does, which goes on with the schedule that it has printed; code comes in place of the older."""
    s, c, args = product()
    outer, inner = s[c].split(c.op.axis[1], factor=8)
    (k,) = c.op.reduce_axis
    s[c].reorder(c.op.axis[0], outer, inner, k)
    whole, part = declare_gemv(8, 20), declare_gemv(8, 5, parts=True)  # the trace has them by name
    s[c].tensorize(inner, whole)
    s[c].pragma(c.op.axis[0], "import_c", CODE)
    assert "gemv(" in str(tw.lower(s, args, simple_mode=True))
    ko, ki = s[c].split(k, factor=5)
    s[c].reorder(c.op.axis[0], outer, ko, inner, ki)
    with pytest.raises(ScheduleError, match=r"cannot tensorize 'j\.inner'"):
        tw.lower(s, args)
    s[c].tensorize(inner, part)
    s[c].pragma(outer, "import_c", CODE)
    check(s, args)
    again = te.create_schedule(c.op).apply(s.trace)
    assert str(tw.lower(again, args, simple_mode=True)) == str(tw.lower(s, args, simple_mode=True))


Apply = Callable[[Any, Any], Any]  # of arguments that may be wrong


def _split(s: te.Schedule, c: te.Tensor, rows: int = 8, steps: int = 20) -> te.IterVar:
    outer, inner = s[c].split(c.op.axis[1], factor=rows)
    ko, ki = s[c].split(c.op.reduce_axis[0], factor=steps)
    s[c].reorder(c.op.axis[0], outer, ko, inner, ki)
    return inner


def _other(kind: str) -> te.TensorIntrin:
    a, b = te.placeholder((20,), name="a"), te.placeholder((8, 20), name="b")
    k = te.reduce_axis((0, 20), name="k")
    bodies: dict[str, Callable[[Any], Any]] = {
        "difference": lambda i: te.sum(a[k] - b[i, k], axis=k),
        "greatest": lambda i: te.max(a[k] * b[i, k], axis=k),
        "one": lambda i: te.sum(a[k] * b[0, k], axis=k),
        "turned": lambda i: te.sum(a[k] * b[i, 19 - k], axis=k),
    }
    c = te.compute((8,), bodies[kind], name="c")
    return te.decl_tensor_intrin(c.op, lambda ins, outs: te.call_extern("int32", "gemv", outs[0].access_ptr("w")))


REFUSED: list[tuple[Apply, str]] = [
    (lambda s, c: s[c].tensorize(_split(s, c), 5), "tensorize takes an intrinsic"),
    (lambda s, c: s[c].tensorize("yi", declare_gemv(8, 20)), "give an axis of 'C'"),
    (lambda s, c: s[c].tensorize(_split(s, c, 6), declare_gemv(8, 20)), "axes of a tile are i: 1, j: 6, .* i: 8"),
    (lambda s, c: s[c].tensorize(_split(s, c, 7), declare_gemv(7, 20)), "the last step of 'j' may be smaller"),
    (lambda s, c: s[c].tensorize(_split(s, c, 8, 5), declare_gemv(8, 5)), "'k.outer' around it goes on"),
    (lambda s, c: s[c].tensorize(_split(s, c), _other("difference")), "it computes .*, the intrinsic"),
    (lambda s, c: s[c].tensorize(_split(s, c), _other("greatest")), "it computes .*, the intrinsic"),
    (lambda s, c: s[c].tensorize(_split(s, c), _other("one")), "where the intrinsic reads 'b"),
    (lambda s, c: s[c].tensorize(_split(s, c), _other("turned")), "nowhere at its first element"),
    (lambda s, c: s[c].tensorize(_split(s, c), declare_gemv(8, 20, dtype="float64")), "it computes"),
    (lambda s, c: [s[c].unroll(_split(s, c)), s[c].tensorize(s[c].leaf_iter_vars[3], declare_gemv(8, 20))], "'unroll'"),
    (lambda s, c: [(i := _split(s, c)), s[c].tensorize(i, declare_gemv(8, 20)), s[c].split(i, 2)], "has been split"),
    (lambda s, c: [(i := _split(s, c)), *(s[c].tensorize(i, declare_gemv(8, 20)) for _ in "ab")], "is tensorized already"),
    (lambda s, c: [s[c].auto(), s[c].tensorize(c.op.axis[1], declare_gemv(24, 20))], "is scheduled by auto"),
    (lambda s, c: s[c].pragma(c.op.axis[0], "import_c", 5), "import_c takes a text of C"),
    (lambda s, c: s[c].pragma(c.op.axis[0], "import_object", "text"), "an object's bytes"),
    (lambda s, c: s.apply('[["tensorize", [{"stage": "C"}, {"loop": "j", "stage": "C", "number": 1}, '
                          '{"intrinsic": "x.1"}]]]'), "has intrinsic 'x.1': declare it first"),
]  # fmt: skip


@pytest.mark.parametrize(("apply", "message"), REFUSED)
def test_what_is_not_the_intrinsic_is_refused_when_it_is_called(apply: Apply, message: str):
    schedule, c, args = product()
    with pytest.raises(tw.ScheduleError, match=message):
        apply(schedule, c)
    tw.lower(schedule, args, simple_mode=True)


def test_what_is_read_further_on_in_a_loop_is_no_tile_of_one_size():
    x = te.placeholder((10, 8), name="X")
    p = te.compute((10, 8), lambda i, j: x[i, j] + 1, name="P")
    c = te.compute((8, 8), lambda i, j: p[i + 1, j] * 2, name="C")
    a = te.placeholder((4, 8), name="a")
    own = te.compute((4, 8), lambda i, j: a[i, j] + 1, name="c")
    schedule, intrinsic = te.create_schedule(c.op), declare("plus", own, a, steps={a: [te.var("s"), 1]})
    outer, _ = schedule[c].split(c.op.axis[0], factor=4)
    schedule[p].compute_at(schedule[c], outer)
    with pytest.raises(tw.ScheduleError, match=r"'P' is computed in a loop and read at 'P\[add\(i, 1\), j\]'"):
        schedule[p].tensorize(p.op.axis[0], intrinsic)


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda: te.call_extern("int32", "no name"), "no name of a C function"),
        (lambda: te.call_extern("int32", "f", "text"), "not of a str"),
        (lambda: te.decl_buffer((4, 4), strides=[1]), "2 axes and 1 strides"),
        (lambda: te.decl_tensor_intrin(te.placeholder((4,)).op, lambda i, o: None), "declared by the op of a te.compute"),
        (lambda: _declare(lambda ins, outs: None), "calls nothing"),
        (lambda: _declare(lambda ins, outs: 5), "gives a int"),
        (lambda: _declare(lambda ins, outs: te.call_extern("int32", "f", te.decl_buffer((4,)).access_ptr())), "of another"),
        (lambda: _declare(lambda ins, outs: te.call_extern("int32", "f", te.var("n"))), "takes 'n', which is no stride"),
        (lambda: _declare(None, te.decl_buffer((5,))), "declare them alike"),
    ],
)  # fmt: skip
def test_what_is_no_intrinsic_is_refused(declare: Callable[[], Any], message: str):
    with pytest.raises(tw.ExpressionError, match=message):
        declare()


def _declare(write: Any, buffer: Any = None) -> te.TensorIntrin:
    a = te.placeholder((4,), name="a")
    return te.decl_tensor_intrin(te.compute((4,), lambda i: a[i] + 1).op, write, binds={a: buffer} if buffer else None)


@pytest.mark.parametrize(
    ("pragma", "text", "message"),
    [("import_c", "int gemv( {", "your C code cannot be compiled: .*error"), ("import_llvm", "define", "LLVM IR that was")],
)  # fmt: skip
def test_code_that_does_not_compile_is_said(pragma: str, text: str, message: str):
    schedule, c, args = product()
    schedule[c].pragma(c.op.axis[0], pragma, text)
    with pytest.raises(tw.CompileError, match=message):
        tw.build(schedule, args)
