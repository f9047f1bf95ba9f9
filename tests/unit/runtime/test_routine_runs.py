"""Runs of programs of dynamic sizes: their memory, and what several threads do at once."""

from __future__ import annotations

import ctypes
import threading
from functools import partial

import ml_dtypes
import numpy as np
import onnx
import pytest

import tilewright as tw
from tilewright.runtime.executors.routine_runner import RoutineRunner
from tilewright.runtime.executors.watching import KernelCalls, Watcher
from tilewright.runtime.process.memory import available_bytes
from tilewright.runtime.tensors.pool import MemoryPool

TEXT = """<ir_version: 9, opset_import: ["": 18]>
g (float[N, 6, H, W] x, float[8, 6, 3, 3] w) => (float[N, 8, A, B] y, float[N, 8, A, B] z)
{ c = Conv<pads = [1, 1, 1, 1]>(x, w)  r = Relu(c)  s = Softmax<axis = 1>(r)  m = Add(s, c)
  y = Sigmoid(m)  q = Softmax<axis = 3>(m)  z = Mul(y, q) }"""


@pytest.fixture(scope="module")
def module() -> tw.Module:
    return tw.compile(onnx.parser.parse_model(TEXT), workers=0, num_threads=2, cache=False)


def image(random: np.random.Generator, *size: int) -> np.ndarray:
    return random.standard_normal((size[0], 6, *size[1:]), np.float32)


def test_a_program_gives_the_same_bits_in_all_its_ways(module):
    """Also call by call, in one thread, in memory of another kind."""
    random, manifest = np.random.default_rng(5), module.manifest
    w = random.standard_normal((8, 6, 3, 3), np.float32)
    single = RoutineRunner(module.program.library, manifest.program, [], 1, partial(Watcher, MemoryPool()))
    for size in [(1, 5, 7), (2, 90, 80), (1, 5, 7), (1, 1, 1), (2, 90, 80), (1, 64, 64)]:
        x = image(random, *size)
        wide = np.concatenate([x, x], axis=3)[..., ::2]  # strided: the run makes a copy
        for array in (x, wide):
            expected = single.run([np.ascontiguousarray(array), w])
            for a, b in zip(module(array, w), expected, strict=True):
                np.testing.assert_array_equal(a, b)


def test_threads_run_a_program_at_once(module):
    random = np.random.default_rng(6)
    w = random.standard_normal((8, 6, 3, 3), np.float32)
    images = [image(random, 1, 8 + i % 3, 9) for i in range(6)]
    expected, wrong = [module(x, w) for x in images], []

    def work(number: int) -> None:
        for i in range(60):
            n = (i * number) % 6
            if any((a != b).any() for a, b in zip(module(images[n], w), expected[n], strict=True)):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in (1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_result_that_is_kept_does_not_keep_the_memory_of_a_larger_one(module):
    w = np.zeros((8, 6, 3, 3), np.float32)
    module(np.zeros((4, 6, 60, 60), np.float32), w)
    small = module(np.zeros((1, 6, 4, 4), np.float32), w)[0]
    while small.base is not None and isinstance(small.base, np.ndarray):
        small = small.base
    assert small.nbytes < 1 << 14


def test_results_that_a_user_keeps_stay(module):
    random = np.random.default_rng(7)
    w = random.standard_normal((8, 6, 3, 3), np.float32)
    images = [image(random, 1, n, 9) for n in (4, 4, 30, 4, 30, 31, 4)]
    kept = [module(x, w) for x in images]
    for x, held in zip(images, kept, strict=True):
        for a, b in zip(module(x, w), held, strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_run_that_takes_more_memory_than_there_is_is_refused():
    text = """<ir_version: 9, opset_import: ["": 18]> g (float[N] x, int64[2] shape) => (float[A, B] y)
    { y = Expand(x, shape) }"""
    module = tw.compile(onnx.parser.parse_model(text), workers=0, num_threads=1, cache=False)
    rows = 2 * available_bytes() // 4096
    with pytest.raises(tw.InputError, match=r"takes \d+ bytes of memory, \d+ are left"):
        module(np.zeros(1024, np.float32), np.array([rows, 1024]))
    np.testing.assert_array_equal(module(np.ones(2, np.float32), np.array([3, 2]))[0], np.ones((3, 2)))


def test_arrays_that_numpy_does_not_export_are_inputs(module):
    """Read-only ones, and those of types that it lacks: the caller puts their addresses into the frame."""
    random = np.random.default_rng(9)
    w, x = random.standard_normal((8, 6, 3, 3), np.float32), image(random, 2, 7, 9)
    expected, held = module(x, w), x.copy()
    held.flags.writeable = False
    for a, b in zip(module(held, w), expected, strict=True):
        np.testing.assert_array_equal(a, b)
    text = """<ir_version: 9, opset_import: ["": 18]> g (bfloat16[N, M] x, bool[N, M] b) => (bfloat16[N, M] y)
    { z = Neg(x)  y = Where(b, x, z) }"""
    narrow = tw.compile(onnx.parser.parse_model(text), workers=0, num_threads=1, cache=False)
    for shape in [(3, 5), (1, 40), (3, 5)]:
        values = random.standard_normal(shape).astype(ml_dtypes.bfloat16)
        chosen = random.integers(0, 2, shape).astype(bool)
        np.testing.assert_array_equal(narrow(values, chosen)[0], np.where(chosen, values, np.negative(values)))


def test_results_have_their_own_sizes_whatever_the_run_before_has_made():
    """Sizes that come back, others of as many elements, larger and smaller ones, and none at all."""
    text = """<ir_version: 9, opset_import: ["": 18]> g (float[N, M] x) => (int64[2, K] places, float[N, M] y, float[3] z)
    { places = NonZero(x)  y = Neg(x)  z = Constant<value_floats = [1.0, 2.0, 3.0]>() }"""
    module = tw.compile(onnx.parser.parse_model(text), workers=0, num_threads=1, cache=False)
    kept = []
    for n, m, chosen in [
        (3, 4, 2),
        (3, 4, 3),
        (3, 4, 3),
        (4, 3, 12),
        (4, 3, 0),
        (90, 70, 5),
        (3, 4, 2),
        (0, 7, 0),
        (3, 4, 2),
    ]:
        x = np.zeros((n, m), np.float32)
        x.reshape(-1)[:chosen] = 1 + np.arange(chosen)
        kept.append((x, module(x)))
    for x, (places, y, z) in kept:
        np.testing.assert_array_equal(places, np.array(np.nonzero(x)))
        np.testing.assert_array_equal(y, -x)
        np.testing.assert_array_equal(z, [1, 2, 3])


REDUCED = ["ReduceMax<keepdims = 0>(x, axis)", "ArgMax<axis = 1, keepdims = 0>(x)", "ReduceSum<keepdims = 0>(x, axis)"]
PRODUCT = "(float[M, K] x, float[K, N] w) => (float[M, N] y) { y = MatMul(x, w) }"
ATTENTION = """(float[H, 1, 64] x, float[H, 64, K] k, float[H, K, 64] v) => (float[H, 1, 64] y)
{ s = MatMul(x, k)  p = Softmax<axis = -1>(s)  y = MatMul(p, v) }"""
SUMS = [
    *(
        (
            f"(float[M, K] x) => ({'int64' if 'Arg' in node else 'float'}[M] y)"
            f" {{ axis = Constant<value_ints = [1]>()  y = {node} }}",
            [("M", "K")],
            {"M": 64, "K": 30_000},
        )
        for node in REDUCED
    ),
    (
        "(float[M, C, K, L] x) => (float[M, C, 1, 1] y) { y = GlobalAveragePool(x) }",
        [("M", "C", "K", "L")],
        {"M": 1, "C": 64, "K": 150, "L": 200},
    ),
    (PRODUCT, [("M", "K"), ("K", "N")], {"M": 16, "K": 20_000, "N": 32}),
    (ATTENTION, [("H", "1", "64"), ("H", "64", "K"), ("H", "K", "64")], {"H": 8, "K": 4000}),
]


@pytest.mark.shares_kernels
@pytest.mark.parametrize(("graph", "names", "large"), SUMS)
def test_threads_share_long_sums_of_few_elements(graph, names, large, monkeypatch):
    """The result's size alone does not tell: a call counts what it sums along."""
    made = tw.compile(
        onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 18]> g {graph}'),
        workers=0,
        num_threads=2,
        cache=False,
    )
    pieces: list[int] = []
    read = KernelCalls.read

    def noting(self, number, address, watcher, deadline):
        pieces.append((ctypes.c_int64 * 5).from_address(address)[3])
        return read(self, number, address, watcher, deadline)

    monkeypatch.setattr(KernelCalls, "read", noting)
    random = np.random.default_rng(2)
    small = dict.fromkeys(large, 4)
    for sizes, shared in ((large, True), (small, False)):
        runner = RoutineRunner(made.program.library, made.manifest.program, [], 2, partial(Watcher, MemoryPool()))
        shapes = [[sizes.get(name) or int(name) for name in operand] for operand in names]
        inputs = [random.standard_normal(shape, np.float32) for shape in shapes]
        pieces.clear()
        [found] = runner.run(inputs)
        assert any(pieces) == shared
        np.testing.assert_array_equal(found, made(*inputs)[0])
