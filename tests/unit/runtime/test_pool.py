"""Memory that is lent again: never what somebody holds, and never more than was needed at a time."""

from __future__ import annotations

import threading

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tilewright.core.model import TensorInfo
from tilewright.runtime.executors.runner import EntryRunner
from tilewright.runtime.tensors.pool import MemoryPool
from tilewright.runtime.tensors.tensor import as_tensor

F32 = np.dtype(np.float32)


def address(array: np.ndarray) -> int:
    return array.ctypes.data


def test_memory_is_lent_again_once_it_is_free():
    pool = MemoryPool()
    first = pool.array((3, 100), F32)
    place = address(first)
    assert place % 64 == 0 and first.shape == (3, 100) and first.flags.writeable
    other = address(pool.array((3, 100), F32))
    assert other != place
    del first
    assert {address(array) for array in [pool.array((290,), F32) for _ in range(2)]} == {place, other}


@pytest.mark.parametrize(
    "hold",
    [
        lambda a: a[1:, 3],
        lambda a: a.reshape(-1).view(np.int32),
        lambda a: a.T[::2],
        as_tensor,
        np.asarray,
        lambda a: a.data,
    ],
)
def test_what_is_held_in_part_is_not_lent_again(hold):
    pool = MemoryPool()
    array = pool.array((5, 7), F32)
    place, held = address(array), hold(array)
    del array
    others = [pool.array((5, 7), F32) for _ in range(4)]
    assert place not in map(address, others)
    del held
    assert address(pool.array((5, 7), F32)) == place


def test_blocks_that_are_used_one_after_the_other_are_kept():
    pool = MemoryPool()
    places = [[address(pool.array((size,), F32)) for size in (3000, 70_000)] for _ in range(3)]
    assert places[0] == places[1] == places[2]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 4)), max_size=60))
def test_arrays_do_not_overlap_and_idle_memory_is_bounded(requests):
    pool, held, most = MemoryPool(spare=0), [], 0
    for number, (elements, kept) in enumerate(requests):
        array = pool.array((elements,), F32)
        array[:] = number
        held = [*held[len(held) - kept :], (number, array)] if kept else [(number, array)]
        del array
        assert all((values == n).all() for n, values in held)
        most = max(most, sum(values.nbytes for _, values in held) + 4 * 3000)
        assert pool.nbytes <= 2 * 1.25 * (most + 256 * len(held))


def test_threads_are_lent_memory_of_their_own():
    pool, wrong = MemoryPool(), []

    def work(number: int) -> None:
        for i in range(300):
            array = pool.array((1 + i % 5, 40), F32)
            array[:] = number
            if not (array == number).all():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and pool.nbytes <= 8 * 1024


def program() -> tw.Module:
    text = """<ir_version: 9, opset_import: ["": 18]>
    g (float[N, 3, H, W] x, float[8, 3, 3, 3] w) => (float[N, 8, A, B] y, float[N, 8, A, B] z)
    { c = Conv<pads = [1, 1, 1, 1]>(x, w)  r = Relu(c)  m = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(r)
      y = Sigmoid(m)  z = Mul(y, m) }"""
    return tw.compile(onnx.parser.parse_model(text), workers=0, num_threads=1, cache=False)


@pytest.fixture(scope="module")
def module() -> tw.Module:
    return program()


def image(random: np.random.Generator, most: int) -> np.ndarray:
    n, height, width = random.integers(1, 4), *random.integers(2, most, 2)
    return random.standard_normal((n, 3, height, width), np.float32)


def test_results_that_are_held_are_not_overwritten(module):
    random = np.random.default_rng(7)
    w = random.standard_normal((8, 3, 3, 3), np.float32)
    runs = [module(image(random, 12), w) for _ in range(20)]
    copies = [[array.copy() for array in run] for run in runs]
    for _ in range(20):
        module(image(random, 12), w)
    for run, kept in zip(runs, copies, strict=True):
        for a, b in zip(run, kept, strict=True):
            np.testing.assert_array_equal(a, b)


def test_little_outputs_of_known_sizes_are_lent_again_once_nobody_holds_them():
    text = """<ir_version: 10, opset_import: ["": 21]> g (float[7] x, float[100000] z) => (float[7] y, float[100000] w)
      { y = Neg(x) w = Neg(z) }"""
    known = tw.compile(onnx.parser.parse_model(text), workers=0, num_threads=1, cache=False)
    x, z = np.arange(7, dtype=np.float32), np.zeros(100_000, np.float32)
    held, _ = known(x, z)
    place = address(held)
    places = {address(known(x + 1, z)[0]) for _ in range(3)}
    assert len(places) == 1 and place not in places
    np.testing.assert_array_equal(held, -x)
    del held
    assert address(known(x, z)[0]) in {place, *places}
    main = known._main
    assert isinstance(main, EntryRunner)
    assert main._pool.nbytes < 3 * z.nbytes, "the large output, which nobody holds, has one block"


@pytest.mark.parametrize("size", [9, 1 << 16, 1 << 22, 9 << 20])
def test_outputs_are_lent_again(size: int):
    """glibc's allocator gives memory back to the system, now and then or always, and takes it page by page again."""
    pool = MemoryPool()
    allocate = pool.make_allocator(TensorInfo("y", (size,), "float32"))
    first = allocate()
    place = address(first)
    assert pool.nbytes >= first.nbytes
    del first
    again = allocate()
    assert again.shape == (size,) and again.dtype == F32
    assert address(again) == place


@pytest.mark.parametrize("shape", [(), (3, 5), (0, 4)])
def test_a_lender_makes_arrays_of_one_shape(shape: tuple[int, ...]):
    lend = MemoryPool().make_lender(shape, F32)
    first, other = lend(), lend()
    assert first.shape == other.shape == shape and first.dtype == F32
    assert not first.size or (address(first) != address(other) and address(first) % 64 == 0)


def resident() -> int:
    """Bytes of memory that this process has."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


@pytest.mark.parametrize("sizes", [150, pytest.param(1000, marks=pytest.mark.slow)])
def test_memory_does_not_grow_with_the_number_of_sizes(module, sizes):
    """All results together would be some 60 MB for 150 sizes; one call needs 3 MB at most."""
    random = np.random.default_rng(7)
    w, seen = random.standard_normal((8, 3, 3, 3), np.float32), []
    for number in range(sizes):
        module(image(random, 128), w)
        if number >= sizes // 3:
            seen.append(resident())
    assert max(seen) - seen[0] < 12e6


def test_a_block_that_is_lent_on_at_once_counts_once():
    pool = MemoryPool()
    array = pool.array((3000,), F32)
    place, size = address(array), pool.nbytes
    for _ in range(3):
        del array
        array = pool.array((3000,), F32)
        assert address(array) == place
    assert pool.nbytes == size
    del array
    assert pool.nbytes == size


def test_who_keeps_all_results_gets_new_memory_each_time():
    pool = MemoryPool()
    kept = [pool.array((50,), F32) for _ in range(500)]
    places = {address(array) for array in kept}
    assert len(places) == 500
    del kept
    again = {address(array) for array in [pool.array((50,), F32) for _ in range(500)]}
    assert len(again - places) <= len(places) // 16, "nobody looks at all of them for each new one"


def test_a_run_that_interrupts_another_one_in_the_pool_does_not_wait():
    pool = MemoryPool()
    place = address(pool.array((50,), F32))
    with pool._lock:
        array = pool.array((50,), F32)
        assert address(array) != place and address(array) % 64 == 0
    assert address(pool.array((50,), F32)) == place
