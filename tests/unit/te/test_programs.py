"""Programs of schedules: right, fast in form, and as callable as those of networks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import te_random

import tilewright as tw
from tilewright import te

SIZE = 64


def product(packed: bool = False) -> tuple[te.Schedule, te.Tensor, list[te.Tensor], te.Tensor | None]:
    """A matrix product, whose right operand may be laid out in blocks of 16 columns first."""
    a, b = te.placeholder((SIZE, SIZE), name="A"), te.placeholder((SIZE, SIZE), name="B")
    k = te.reduce_axis((0, SIZE), "k")
    blocks = te.compute((SIZE // 16, SIZE, 16), lambda x, y, z: b[y, x * 16 + z], name="P") if packed else None

    def element(m: te.IterVar, n: te.IterVar) -> te.Expr:
        right = b[k, n] if blocks is None else blocks[n // 16, k, te.indexmod(n, 16)]
        return te.sum(a[m, k] * right, axis=k)

    c = te.compute((SIZE, SIZE), element, name="C")
    return te.create_schedule(c.op), c, [a, b, c], blocks


def check_product(schedule: te.Schedule, args: list[te.Tensor]) -> tw.Module:
    """Build and run a product; the module."""
    a, b = (np.random.default_rng(seed).random((SIZE, SIZE), np.float32) for seed in (1, 2))
    library, found = tw.build(schedule, args, name="product"), np.empty((SIZE, SIZE), np.float32)
    library(a, b, found)
    np.testing.assert_allclose(found, a @ b, rtol=1e-5)
    return library


def test_the_default_is_plain_loops():
    schedule, _, args, _ = product()
    check_product(schedule, args)


@pytest.mark.parametrize("vectorized", [False, True])
@pytest.mark.parametrize("order", [(0, 1, 2, 4, 3, 5), (0, 1, 2, 3, 4, 5), (2, 0, 1, 3, 4, 5)])
def test_blocking(order: tuple[int, ...], vectorized: bool):
    schedule, c, args, _ = product()
    mo, no, mi, ni = schedule[c].tile(c.op.axis[0], c.op.axis[1], 16, 16)
    ko, ki = schedule[c].split(c.op.reduce_axis[0], factor=4)
    loops = (mo, no, ko, mi, ki, ni)
    schedule[c].reorder(*(loops[i] for i in order))
    if vectorized:
        schedule[c].vectorize(ni)
    check_product(schedule, args)


def test_packing_a_write_cache_and_threads():
    schedule, c, args, blocks = product(packed=True)
    assert blocks is not None
    cached = schedule.cache_write(c, "global")
    mo, no, _, _ = schedule[c].tile(c.op.axis[0], c.op.axis[1], 16, 16)
    schedule[cached].compute_at(schedule[c], no)
    mc, nc = schedule[cached].op.axis
    ko, ki = schedule[cached].split(schedule[cached].op.reduce_axis[0], factor=4)
    schedule[cached].reorder(ko, mc, ki, nc)
    schedule[cached].unroll(ki)
    schedule[cached].vectorize(nc)
    schedule[c].parallel(mo)
    schedule[blocks].vectorize(blocks.op.axis[2])
    schedule[blocks].parallel(blocks.op.axis[0])
    library = check_product(schedule, args)
    assert [kernel.extent for kernel in library.manifest.kernels] == [4, 4]
    assert library.manifest.kernels[1].scratch_bytes <= 2 * 16 * 16 * 4  # a tile, not the whole product
    source = library.get_source("schedule")
    for op in ("tile_using_for", "fuse_into_containing_op", 'annotate %loops "tw.shared_loop"', "tw.unroll"):
        assert op in source
    assert library.get_source("linalg").count("linalg.generic") == 3


def test_a_pragma_unrolls_inner_loops():
    schedule, c, args, _ = product()
    ko, ki = schedule[c].split(c.op.reduce_axis[0], factor=8)
    schedule[c].pragma(ko, "auto_unroll_max_step", 16)
    library = check_product(schedule, args)
    assert library.get_source("schedule").count('"tw.unroll"') == 1
    schedule[c].pragma(ki, "auto_unroll_max_step", 4)
    assert '"tw.unroll"' not in check_product(schedule, args).get_source("schedule")


def test_our_own_schedule_of_a_stage():
    schedule, c, args, _ = product()
    schedule[c].auto()
    library = check_product(schedule, args)
    assert "outer_product" in library.get_source("schedule")


def test_tiles_that_do_not_divide_are_vectors_all_the_same():
    a = te.placeholder((37, 50), name="A")
    c = te.compute((37, 50), lambda i, j: a[i, j] * 2 + 1, name="C")
    schedule = te.create_schedule(c.op)
    _, _, _, inner = schedule[c].tile(c.op.axis[0], c.op.axis[1], 8, 16)
    schedule[c].vectorize(inner)
    library = tw.build(schedule, [a, c])
    x = np.random.default_rng(0).random((37, 50), np.float32)
    np.testing.assert_array_equal(library.run([x])[0], x * 2 + 1)
    assert "16 x float" in library.get_source("llvm")


def test_a_program_is_measured_saved_and_loaded(tmp_path):
    schedule, _, args, _ = product()
    library = check_product(schedule, args)
    a, b, c = (np.zeros((SIZE, SIZE), np.float32) for _ in range(3))
    assert library.time_evaluator(library.entry_name, tw.cpu(0), number=1)(a, b, c).mean > 0
    library.export_library(tmp_path / "product.so")
    loaded = tw.load_module(tmp_path / "product.so")
    assert [info.name for info in (*loaded.inputs, *loaded.outputs)] == ["A", "B", "C"]
    x = np.random.default_rng(0).random((SIZE, SIZE), np.float32)
    np.testing.assert_allclose(loaded(x, x, c)["C"], x @ x, rtol=1e-5)


def test_a_compilation_leaves_no_weights_and_comes_from_the_cache(tmp_path):
    schedule, _, args, _ = product()
    reports = [tw.build(schedule, args, cache=tmp_path).report for _ in range(2)]
    assert [report.cached_kernels for report in reports] == [0, 1]


@pytest.mark.parametrize("seed", range(24))
def test_random_schedules_agree_with_numpy(seed: int):
    te_random.check_seed(seed)


def test_random_calls_that_cannot_be_are_refused():
    tried = {te_random.check_illegal_seed(seed) for seed in range(1, 100)}
    assert len(tried) > 10


def test_our_own_check_of_a_schedule():
    schedule, _, args, _ = product()
    tw.testing.assert_same(schedule, args)


@pytest.mark.parametrize("size", [0, 1, 15, 16, 100, 100_000])
def test_vectors_and_threads_of_sizes_that_only_the_run_knows(size: int, dynamic_sum: Callable[..., tw.Outputs]):
    a, b = (np.random.default_rng(seed).random(size, np.float32) for seed in (1, 2))
    np.testing.assert_array_equal(dynamic_sum(a, b)[0], a + b)


@pytest.fixture(scope="module")
def dynamic_sum() -> tw.Module:
    n = te.var("n")
    a, b = te.placeholder((n,), name="A"), te.placeholder((n,), name="B")
    c = te.compute((n,), lambda i: a[i] + b[i], name="C")
    schedule = te.create_schedule(c.op)
    outer, inner = schedule[c].split(c.op.axis[0], factor=16)
    schedule[c].vectorize(inner)
    schedule[c].parallel(outer)
    library = tw.build(schedule, [a, b, c], num_threads=2)
    assert library.manifest.kernels[0].parallel
    return library


def test_axes_that_lie_together_keep_their_loops() -> None:
    """The compiler would make one loop of both, and a schedule of its own."""
    a = te.placeholder((64, 32), name="A")
    b = te.compute((64, 32), lambda i, j: a[i, j] * 2, name="B")
    schedule = te.create_schedule(b.op)
    schedule[b].parallel(b.op.axis[0])
    library = tw.build(schedule, [a, b], cache=False)
    assert library.manifest.kernels[0].extent == 64 and "[1, 0]" in library.get_source("schedule")


@pytest.mark.parametrize("columns, apart", [(1024, False), (1056, True)])
def test_rows_that_share_a_set_of_the_cache_are_summed_up_elsewhere(columns: int, apart: bool) -> None:
    """Rows of 4 kB, 32 of them: each step of the sum would find none of them in the first cache."""
    k = te.reduce_axis((0, 8), name="k")
    a, b = te.placeholder((32, 8), name="A"), te.placeholder((8, columns), name="B")
    c = te.compute((32, columns), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    schedule = te.create_schedule(c.op)
    outer, blocks, rows, lanes = schedule[c].tile(c.op.axis[0], c.op.axis[1], 32, 32)
    schedule[c].reorder(outer, blocks, k, rows, lanes)
    schedule[c].vectorize(lanes)
    tw.testing.assert_same(schedule, [a, b, c])
    [kernel] = tw.build(schedule, [a, b, c], cache=False).manifest.kernels
    assert (kernel.scratch_bytes < 32 * 32 * 4) == apart
