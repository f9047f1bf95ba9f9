"""Scripts in TVM's spellings, as its tutorials on tensor expressions have them, with the imports changed."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.tvm as tvm
import tilewright.tvm.testing
from tilewright.passes.infra import instruments
from tilewright.tvm import te
from tilewright.tvm.contrib import cc, clang, utils
from tilewright.tvm.topi.utils import get_const_int, get_const_tuple

WRONG: Any = 5
TARGET = tvm.target.Target(target="llvm", host="llvm")


def vector_add() -> tuple[Any, list[Any], Any]:
    n = te.var("n")
    a, b = te.placeholder((n,), name="A"), te.placeholder((n,), name="B")
    c = te.compute(a.shape, lambda i: a[i] + b[i], name="C")
    return te.create_schedule(c.op), [a, b, c], c


def _plain(s: Any, c: Any) -> None:
    pass


def _parallel(s: Any, c: Any) -> None:
    s[c].parallel(c.op.axis[0])


def _vectors(s: Any, c: Any) -> None:
    outer, inner = s[c].split(c.op.axis[0], factor=4)
    s[c].parallel(outer)
    s[c].vectorize(inner)


@pytest.mark.parametrize("apply", [_plain, _parallel, _vectors])
def test_vector_add(apply: Callable[[Any, Any], None]):
    s, args, c = vector_add()
    apply(s, c)
    assert "C[" in tvm.lower(s, args, simple_mode=True).script()
    fadd, dev, n = tvm.build(s, args, TARGET, name="myadd"), tvm.device(TARGET.kind.name, 0), 1021
    a = tvm.nd.array(np.random.uniform(size=n).astype(args[0].dtype), dev)
    b = tvm.nd.array(np.random.uniform(size=n).astype(args[1].dtype), dev)
    made = tvm.nd.array(np.zeros(n, dtype=c.dtype), dev)
    fadd(a, b, made)
    tvm.testing.assert_allclose(made.numpy(), a.numpy() + b.numpy())
    evaluator = fadd.time_evaluator(fadd.entry_name, dev, number=2)
    assert evaluator(a, b, made).mean > 0
    if apply is _vectors:
        assert "fadd" in fadd.get_source()


def test_vector_add_saved_and_loaded():
    s, args, _ = vector_add()
    fadd, temp, dev = tvm.build(s, args, TARGET, name="myadd"), utils.tempdir(), tvm.cpu(0)
    fadd.save(temp.relpath("myadd.o"))
    cc.create_shared(temp.relpath("myadd.so"), [temp.relpath("myadd.o")])
    assert {"myadd.o", "myadd.so"} <= {*temp.listdir()}
    fadd.export_library(temp.relpath("packed.so"))
    a, b, c = (tvm.nd.array(np.full(7, value, "float32"), dev) for value in (1, 2, 0))
    for name in ("myadd.so", "packed.so"):
        loaded = tvm.runtime.load_module(temp.relpath(name))
        loaded(a, b, c)
        tvm.testing.assert_allclose(c.numpy(), a.numpy() + b.numpy())
        assert len(loaded.imported_modules) == 0
        c.copyfrom(np.zeros(7, np.float32))
    temp.remove()


M = K = N = 64
BLOCK = 32


class Product:
    """The six steps of a matrix product, each on a schedule of its own."""

    def __init__(self, packed: bool = False) -> None:
        self.k = te.reduce_axis((0, K), "k")
        self.A, self.B = te.placeholder((M, K), name="A"), te.placeholder((K, N), name="B")
        k, bn = self.k, BLOCK
        self.P = te.compute((N / bn, K, bn), lambda x, y, z: self.B[y, x * bn + z], name="packedB")  # N / bn is a float

        def element(x: Any, y: Any) -> Any:
            right = self.P[y // bn, k, tvm.tir.indexmod(y, bn)] if packed else self.B[k, y]
            return te.sum(self.A[x, k] * right, axis=k)

        self.C = te.compute((M, N), element, name="C")
        self.s = te.create_schedule(self.C.op)
        self.packed = packed

    def tile(self) -> tuple[Any, ...]:
        s, c = self.s, self.C
        xo, yo, xi, yi = s[c].tile(c.op.axis[0], c.op.axis[1], BLOCK, BLOCK)
        (k,) = s[c].op.reduce_axis
        return (xo, yo, xi, yi, *s[c].split(k, factor=4))

    def pack(self) -> None:
        x, _, z = self.s[self.P].op.axis
        self.s[self.P].vectorize(z)
        self.s[self.P].parallel(x)


def _default() -> Product:
    return Product()


def _blocking() -> Product:
    made = Product()
    xo, yo, xi, yi, ko, ki = made.tile()
    made.s[made.C].reorder(xo, yo, ko, ki, xi, yi)
    return made


def _vectorization() -> Product:
    made = _blocking()
    made.s[made.C].vectorize(made.s[made.C].leaf_iter_vars[-1])
    return made


def _permutation(packed: bool = False) -> Product:
    made = Product(packed)
    xo, yo, xi, yi, ko, ki = made.tile()
    made.s[made.C].reorder(xo, yo, ko, xi, ki, yi)
    made.s[made.C].vectorize(yi)
    return made


def _packing() -> Product:
    made = _permutation(packed=True)
    made.pack()
    return made


def _cache(parallel: bool = False) -> Product:
    made = Product(packed=True)
    s, c = made.s, made.C
    cached = s.cache_write(c, "global")
    xo, yo, _, _ = s[c].tile(c.op.axis[0], c.op.axis[1], BLOCK, BLOCK)
    s[cached].compute_at(s[c], yo)
    xc, yc = s[cached].op.axis
    (k,) = s[cached].op.reduce_axis
    ko, ki = s[cached].split(k, factor=4)
    s[cached].reorder(ko, xc, ki, yc)
    s[cached].unroll(ki)
    s[cached].vectorize(yc)
    if parallel:
        s[c].parallel(xo)
    made.pack()
    return made


@pytest.mark.parametrize(
    "step", [_default, _blocking, _vectorization, _permutation, _packing, _cache, lambda: _cache(True)]
)
def test_six_steps_of_a_product(step: Callable[[], Product]):
    made, dev = step(), tvm.device(TARGET.kind.name, 0)
    args = [made.A, made.B, made.C]
    assert "C[" in tvm.lower(made.s, args, simple_mode=True)
    func = tvm.build(made.s, args, target=TARGET, name="mmult")
    assert func
    a, b = (tvm.nd.array(np.random.rand(M, K).astype("float32"), dev) for _ in range(2))
    c = tvm.nd.array(np.zeros((M, N), dtype="float32"), dev)
    func(a, b, c)
    tvm.testing.assert_allclose(c.numpy(), a.numpy() @ b.numpy(), rtol=1e-5)


def intrin_gemv(m: int, l: int, parts: bool) -> Any:  # noqa: E741  (as it is known)
    a, b = te.placeholder((l,), name="a"), te.placeholder((m, l), name="b")
    k = te.reduce_axis((0, l), name="k")
    c = te.compute((m,), lambda i: te.sum(a[k] * b[i, k], axis=k), name="c")
    ab = tvm.tir.decl_buffer(a.shape, a.dtype, name="A", offset_factor=1, strides=[1])
    bb = tvm.tir.decl_buffer(b.shape, b.dtype, name="B", offset_factor=1, strides=[te.var("s1"), 1])
    cb = tvm.tir.decl_buffer(c.shape, c.dtype, name="C", offset_factor=1, strides=[1])

    def intrin_func(ins: Any, outs: Any) -> Any:
        aa, bb = ins
        cc = outs[0]

        def body() -> Any:
            ib = tvm.tir.ir_builder.create()
            pointers = cc.access_ptr("w"), aa.access_ptr("r"), bb.access_ptr("r")
            ib.emit(tvm.tir.call_extern("int32", "gemv_update", *pointers, m, l, bb.strides[0]))
            return ib.get()

        def reset() -> Any:
            ib = tvm.tir.ir_builder.create()
            ib.emit(tvm.tir.call_extern("int32", "gemv_reset", cc.access_ptr("w"), m))
            return ib.get()

        return (body(), reset(), body()) if parts else body()

    return te.decl_tensor_intrin(c.op, intrin_func, binds={a: ab, b: bb, c: cb})


CODE = """
extern "C" int gemv_update(float *cc, float *aa, float *bb, int m, int l, int stride) {
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < l; ++j) cc[i] += aa[j] * bb[i * stride + j];
  return 0;
}
extern "C" int gemv_reset(float *cc, int m) {
  for (int i = 0; i < m; ++i) cc[i] = 0;
  return 0;
}
"""


@pytest.mark.parametrize("parts", [False, True])
def test_tensorize(parts: bool):
    n, m, l = 32, 48, 64  # noqa: E741
    a, b = te.placeholder((n, l), name="A"), te.placeholder((m, l), name="B")
    k = te.reduce_axis((0, l), name="k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[j, k], axis=k), name="C")
    s = te.create_schedule(c.op)
    (x, y), (z,) = c.op.axis, c.op.reduce_axis
    yo, yi = s[c].split(y, factor=16)
    *zo, zi = s[c].split(z, factor=16) if parts else (z,)
    s[c].reorder(x, yo, *zo, yi, zi)
    gemv = intrin_gemv(16, 16 if parts else l, parts)
    s[c].tensorize(yi, gemv)
    temp = utils.tempdir()
    s[c].pragma(x, "import_llvm", clang.create_llvm(CODE, output=temp.relpath("temp.ll")))
    assert "gemv_update" in tvm.lower(s, [a, b, c], simple_mode=True)
    func, dev = tvm.build(s, [a, b, c], target="llvm", name="gemv"), tvm.device("cpu", 0)
    first, second = (np.random.uniform(size=get_const_tuple(t.shape)).astype(t.dtype) for t in (a, b))
    made = tvm.nd.array(np.zeros(get_const_tuple(c.shape), dtype=c.dtype), dev)
    func(tvm.nd.array(first, dev), tvm.nd.array(second, dev), made)
    tvm.testing.assert_allclose(made.numpy(), np.dot(first, second.T), rtol=1e-3)


def test_reductions():
    n, m = te.var("n"), te.var("m")
    a, k = te.placeholder((n, m), name="A"), te.reduce_axis((0, m), "k")
    b = te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    ko, ki = s[b].split(b.op.reduce_axis[0], factor=16)
    s[b].split(b.op.axis[0], factor=32)
    assert "B[" in tvm.lower(s, [a, b], simple_mode=True)
    with pytest.raises(tw.ScheduleError, match="no such threads"):
        s[b].bind(ko, te.thread_axis("blockIdx.x"))
    array = np.random.rand(70, 50).astype("float32")
    for factored in (False, True):
        if factored:
            s = te.create_schedule(b.op)
            ko, ki = s[b].split(b.op.reduce_axis[0], factor=16)
            s.rfactor(b, ki)
            assert "sum(" in str(s[b].op.body[0])
        made = tvm.nd.array(np.zeros(70, "float32"))
        tvm.build(s, [a, b], "llvm")(tvm.nd.array(array), made)
        tvm.testing.assert_allclose(made.numpy(), array.sum(1), rtol=1e-4)


def test_a_convolution_and_a_product_of_all_elements():
    n = te.var("n")
    image, kernel = te.placeholder((n, n), name="Input"), te.placeholder((3, 3), name="Filter")
    di, dj = te.reduce_axis((0, 3), name="di"), te.reduce_axis((0, 3), name="dj")
    out = te.compute(
        (n - 2, n - 2), lambda i, j: te.sum(image[i + di, j + dj] * kernel[di, dj], axis=[di, dj]), name="Output"
    )
    func = tvm.build(te.create_schedule(out.op), [image, kernel, out], "llvm")
    x, w = np.random.rand(9, 9).astype("float32"), np.random.rand(3, 3).astype("float32")
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3))
    tvm.testing.assert_allclose(func.run([x, w])[0], (windows * w).sum((2, 3)), rtol=1e-5)
    product = te.comm_reducer(lambda x, y: x * y, lambda t: tvm.tir.const(1, dtype=t), name="product")
    a, k = te.placeholder((n, 4), name="A"), te.reduce_axis((0, 4), name="k")
    b = te.compute((n,), lambda i: product(a[i, k], axis=k), name="B")
    tvm.testing.assert_allclose(
        tvm.build(te.create_schedule(b.op), [a, b]).run([x[:, :4].copy()])[0], x[:, :4].prod(1), rtol=1e-5
    )


def test_several_results_and_an_argmax():
    m, n = te.var("m"), te.var("n")

    def fcombine(x: Any, y: Any) -> Any:
        lhs = tvm.tir.Select((x[1] >= y[1]), x[0], y[0])
        rhs = tvm.tir.Select((x[1] >= y[1]), x[1], y[1])
        return lhs, rhs

    def fidentity(t0: str, t1: str) -> Any:
        return tvm.tir.const(-1, t0), tvm.te.min_value(t1)

    argmax = te.comm_reducer(fcombine, fidentity, name="argmax")
    idx, val = te.placeholder((m, n), name="idx", dtype="int32"), te.placeholder((m, n), name="val", dtype="int32")
    k = te.reduce_axis((0, n), "k")
    t0, t1 = te.compute((m,), lambda i: argmax((idx[i, k], val[i, k]), axis=k), name="T")
    s = te.create_schedule(t0.op)
    values = np.random.default_rng(0).permuted(np.arange(30, dtype="int32").reshape(5, 6), axis=1)
    numbers = np.tile(np.arange(6, dtype="int32"), (5, 1))
    found = tvm.build(s, [idx, val, t0, t1], "llvm").run([numbers, values])
    np.testing.assert_array_equal(found[0], values.argmax(1))
    np.testing.assert_array_equal(found[1], values.max(1))
    a0, a1 = te.placeholder((m, n), name="A0"), te.placeholder((m, n), name="A1")
    b0, b1 = te.compute((m, n), lambda i, j: (a0[i, j] + 2, a0[i, j] * 3), name="B")
    c = te.compute((m, n), lambda i, j: a1[i, j] + b0[i, j], name="C")
    s = te.create_schedule(c.op)
    s[b0].compute_at(s[c], c.op.axis[0])
    assert b1.dtype == "float32" and "B.v0" in tvm.lower(s, [a0, a1, c], simple_mode=True)
    x, y = np.random.rand(3, 4).astype("float32"), np.random.rand(3, 4).astype("float32")
    tvm.testing.assert_allclose(tvm.build(s, [a0, a1, c], "llvm").run([x, y])[0], x + 2 + y)


def test_scans_of_one_stage_and_of_several():
    m, n = te.var("m"), te.var("n")
    x, state = te.placeholder((m, n), name="X"), te.placeholder((m, n))
    init = te.compute((1, n), lambda _, i: x[0, i])
    update = te.compute((m, n), lambda t, i: state[t - 1, i] + x[t, i])
    scan = tvm.te.scan(init, update, state, inputs=[x])
    s = te.create_schedule(scan.op)
    assert "for (t, 1, m)" in tvm.lower(s, [x, scan], simple_mode=True)
    array = np.random.uniform(size=(10, 32)).astype(scan.dtype)
    made = tvm.nd.array(np.zeros((10, 32), dtype=scan.dtype))
    tvm.build(s, [x, scan], "llvm", name="myscan")(tvm.nd.array(array), made)
    tvm.testing.assert_allclose(made.numpy(), np.cumsum(array, axis=0), rtol=1e-5)
    first, second = te.placeholder((m, n)), te.placeholder((m, 16))
    updates = (
        te.compute((m, n), lambda t, i: first[t - 1, i] + x[t, i]),
        te.compute((m, 16), lambda t, i: second[t - 1, i] + first[t - 1, i]),
    )
    inits = init, te.compute((1, 16), lambda _, i: 0.0)
    one, two = tvm.te.scan(list(inits), list(updates), [first, second], inputs=[x])
    found = tvm.build(te.create_schedule(one.op), [x, one, two], "llvm").run([array])
    sums = np.cumsum(array, axis=0)
    with pytest.raises(tw.InputError, match="reads"):
        tvm.build(te.create_schedule(one.op), [x, one, two], "llvm").run([array[:, :9].copy()])
    np.testing.assert_allclose(found[1][1:], np.cumsum(sums[:-1, :16], axis=0), rtol=1e-5)


def test_functions_of_c_and_of_expressions():
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute(a.shape, lambda i: tvm.tir.call_pure_extern("float32", "expf", a[i]) + tvm.tir.exp(a[i]), name="B")
    x = np.random.rand(5).astype("float32")
    tvm.testing.assert_allclose(tvm.build(te.create_schedule(b.op), [a, b]).run([x])[0], 2 * np.exp(x), rtol=1e-6)


def test_several_functions_and_a_target_around():
    with tvm.target.Target("llvm -mcpu=x86-64-v3") as target, tvm.transform.PassContext(opt_level=3):
        assert tvm.target.Target.current() is target and target.mcpu == "x86-64-v3"
        functions = []
        for name in ("first", "second"):
            s, args, _ = vector_add()
            functions.append(tvm.lower(s, args, name=name))
        module = tvm.build(functions)
    assert tvm.target.Target.current() is None
    a = tvm.nd.array(np.ones(3, "float32"))
    made = tvm.nd.empty((3,), "float32")
    module["second"](a, a, made)
    assert made.asnumpy().tolist() == [2, 2, 2]
    assert a.copyto(tvm.cpu()).numpy().tolist() == [1, 1, 1]
    assert "x86-64-v3" in module.manifest.target


def test_targets_as_tvm_writes_them():
    text = "llvm -keys=cpu -mcpu=skylake-avx512 -mtriple=x86_64-unknown-linux-gnu -num-cores=4"
    made = tvm.target.Target(text)
    assert (made.own.arch, made.mcpu, str(made), made.kind.name) == ("x86", "skylake-avx512", text, "llvm")
    assert tvm.target.Target("llvm -mtriple=aarch64-linux-gnu").own.arch == "aarch64"
    assert tvm.target.Target({"kind": "llvm", "mcpu": "core-avx2"}).mcpu == "core-avx2"
    with pytest.raises(tw.TargetError, match="is for riscv64: there is code for x86, aarch64"):
        tvm.target.Target("llvm -mtriple=riscv64-linux-gnu")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tvm.target.Target("cuda"), "target 'cuda' is none"),
        (lambda: tvm.target.Target(WRONG), "a target is a text"),
        (lambda: tvm.target.Target.current(allow_none=False), "no target is entered"),
        (lambda: tvm.cuda(0), "programs run on the CPU"),
        (lambda: tvm.rpc.connect("host", 9190), "rpc to host:9190: programs run in this process"),
        (lambda: tvm.build(vector_add()[0]), "lowered with its arguments"),
        (lambda: tvm.build(*vector_add()[:2], binds=WRONG), "leave binds out"),
        (lambda: te.extern((3,), [], lambda i, o: tvm.tir.call_packed("f"), dtype="int8"), "a function of the host"),
        (lambda: te.hybrid.script(WRONG), "takes a function that def makes"),
        (lambda: tvm.tir.call_pure_extern("float32", "jn", te.const(1.0, "float32")), "no function of expressions"),
        (lambda: tvm.tir.call_packed(), "takes a function's name"),
        (lambda: tvm.tir.ir_builder.create().for_range(0, 3), "has no 'for_range'"),
        (lambda: tvm.ir.register_intrin_lowering("tir.exp", "cuda", f=None), "no rules of a user's"),
        (lambda: get_const_int(te.var("n")), "known only when it runs"),
        (lambda: cc.create_shared("x.so", ["there_is_no.o"]), "cannot read 'there_is_no.o'"),
        (lambda: clang.create_llvm("int f( {"), "cannot be compiled"),
    ],
)
def test_what_has_no_meaning_here_is_refused_in_words(call: Callable[[], Any], message: str):
    with pytest.raises(tw.TilewrightError, match=message):
        call()


def test_what_is_not_there_is_said():
    with pytest.raises(
        AttributeError, match=r"tilewright\.tvm has no 'relax': networks are ONNX models, .*it has IRModule"
    ):
        getattr(tvm, "relax")  # noqa: B009


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("transform.ToMixedPrecision", "the types that the model gives them"),
        ("relay.transform.ToMixedPrecision", "the types that the model gives them"),
        ("instrument", "passes are watched by tilewright.passes.infra.instruments"),
        ("ir.instrument", "passes are watched by tilewright.passes.infra.instruments"),
        ("relay.data_dep_optimization.bsr_dense", "weights are dense: a product with a sparse one is an operator"),
        ("te.create_prim_func", "a computation is lowered as it is scheduled"),
        ("te.tag_scope", "operators are written by te, .*it has create_schedule"),
    ],
)
def test_what_is_not_there_says_what_is_in_its_place(name: str, message: str) -> None:
    module, _, last = name.rpartition(".")
    with pytest.raises(AttributeError, match=message):
        getattr(importlib.import_module(f"tilewright.tvm.{module}".rstrip(".")), last)


def test_instruments_of_tvm_are_refused_in_words_and_ours_watch() -> None:
    with pytest.raises(ModuleNotFoundError, match="passes are watched by"):
        importlib.import_module("tilewright.tvm.ir.instrument")
    with pytest.raises(tw.CompileError, match="Mine is no instrument: passes are watched by"):
        tvm.transform.PassContext(instruments=[type("Mine", (), {"run_before_pass": print})()])
    timing = instruments.Timing()
    with tvm.transform.PassContext(opt_level=3, instruments=[timing]):
        tvm.build(*vector_add()[:2])
    assert timing.seconds["apply-schedule"] > 0


def test_functions_that_tvm_has_beside() -> None:
    """Quotients that are rounded to 0, and whether floats are infinite."""
    a, b, x = (te.placeholder((6,), dtype, name) for dtype, name in (("int32", "a"), ("int32", "b"), ("float32", "x")))
    written = {
        "q": lambda i: te.truncdiv(a[i], b[i]),
        "r": lambda i: tvm.tir.truncmod(a[i], b[i]),
        "n": lambda i: te.truncdiv(a[i], -3),
        "f": lambda i: te.isfinite(x[i]),
        "w": lambda i: te.isinf(x[i]),
    }
    made = [te.compute((6,), function, name=name) for name, function in written.items()]
    s = te.create_schedule([each.op for each in made])
    given = [np.array(row, np.int32) for row in ([-7, 7, -7, 6, 0, 5], [2, -2, -2, 3, 4, 0])]
    numbers = np.array([1, np.inf, -np.inf, np.nan, -3, 0], np.float32)
    q, r, n, finite, infinite = tvm.build(s, [a, b, x, *made], TARGET)(*given, numbers)
    assert (q.tolist(), r.tolist()) == ([-3, -3, 3, 2, 0, 0], [-1, 1, -1, 0, 0, 5])
    assert n.tolist() == [2, -2, 2, -2, 0, -1]
    assert finite.tolist() == np.isfinite(numbers).tolist() and infinite.tolist() == np.isinf(numbers).tolist()
    for function in (te.isinf, te.isfinite, lambda _: te.truncmod(x[0], 2.0)):
        with pytest.raises(tw.ExpressionError, match="take"):
            function(a[0])


def test_stages_on_the_way_may_be_arguments() -> None:
    """As in TVM's tutorials: they are results, unless they are computed where others need them."""
    a = te.placeholder((7,), name="A")
    b = te.compute((7,), lambda i: a[i] + 1, name="B")
    c = te.compute((7,), lambda i: b[i] * 2, name="C")
    s = te.create_schedule(c.op)
    assert str(tvm.lower(s, [a, b, c], simple_mode=True)).startswith(
        "main(A: float32[7], B: float32[7], C: float32[7])"
    )
    x, made, doubled = (tvm.nd.array(np.arange(7, dtype="float32")), *(tvm.nd.empty((7,)) for _ in "bc"))
    tvm.build(s, [a, b, c], "llvm")(x, made, doubled)
    np.testing.assert_array_equal(made.numpy(), x.numpy() + 1)
    np.testing.assert_array_equal(doubled.numpy(), 2 * x.numpy() + 2)
    assert s.outputs == [c.op]
    s[b].compute_inline()
    assert str(tvm.lower(s, [a, b, c], simple_mode=True)).startswith("main(A: float32[7], C: float32[7])")
    with pytest.raises(tw.ExpressionError, match="'B' is an argument, and computed where others need it"):
        tvm.build(s, [a, b, c], "llvm")


def test_products_of_libraries_are_found_as_functions() -> None:
    x, made = np.arange(12, dtype="float32").reshape(3, 4), tvm.nd.empty((3, 3))
    tvm.get_global_func("tvm.contrib.cblas.matmul")(tvm.nd.array(x), tvm.nd.array(x), made, False, True)
    np.testing.assert_array_equal(made.numpy(), x @ x.T)
    assert tvm.runtime.get_global_func("tvm.contrib.cblas.nothing", allow_missing=True) is None


def test_what_scripts_leave_out() -> None:
    """Names of placeholders, and of loops that are only printed their outputs; loops of one step around threads."""
    a, b = te.placeholder((1, 8)), te.placeholder((1, 8))
    c = te.compute((1, 8), lambda n, i: a[n, i] - b[n, i], name="C")
    s = te.create_schedule(c.op)
    s[c].parallel(c.op.axis[1])
    text = tvm.lower(s, [a, b], simple_mode=True)
    assert "(placeholder: float32[1, 8], placeholder_1: float32[1, 8], C: float32[1, 8])" in text
    assert "parallel (i, 0, 8)" in text
    func = tvm.build(s, [a, b, c], TARGET)
    x, y = (np.random.rand(1, 8).astype("float32") for _ in range(2))
    np.testing.assert_array_equal(func.run({"placeholder": x, "placeholder_1": y})[0], x - y)
    with pytest.raises(tw.ScheduleError, match="'n' is outside of it"):
        d = te.compute((2, 8), lambda n, i: a[0, i], name="D")
        te.create_schedule(d.op)[d].parallel(d.op.axis[1])
    with pytest.raises(tw.ExpressionError, match="other numbers of a run are a placeholder"):
        te.var("bias", "float32")
