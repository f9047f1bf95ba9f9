"""What is computed ahead: in which blocks, and which part of a value a region of another needs."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.core.target import Target
from tilewright.dialects import ir
from tilewright.dialects.builders import index_constant
from tilewright.dialects.context import make_context
from tilewright.passes.ir.kernel import list_functions
from tilewright.passes.schedule.families.window import pairs_balance
from tilewright.passes.schedule.families.winograd import STAGED, Patches, choose_shared_block, choose_staged_block
from tilewright.passes.schedule.tiles.regions import Interval, Linear, NotSchedulable, Region, relative_to
from tilewright.passes.schedule.tiling.tiler import locate_within, needed_region


def with_cache(staged: int, cores: int = 1) -> Target:
    """A CPU with AVX-512 and a second cache in which blocks of so many bytes stay."""
    return replace(Target.parse("x86 -mcpu=skylake-avx512"), l2_bytes=math.ceil(staged / STAGED), cores=cores)


@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 600), st.integers(2, 600), st.sampled_from([16, 32]))
def test_blocks_of_patches_lie_in_what_there_is(rows: int, tiles: int, c: int, f: int, columns: int) -> None:
    patches, target = Patches(36, rows, tiles, c, f, columns), with_cache(1_100_000)
    block, channels = choose_staged_block(patches, target)
    assert 1 <= block <= rows
    assert block * tiles >= min(rows * tiles, patches.register_rows(target)), "register tiles are full"
    assert channels % columns == 0 or channels == f
    assert 0 < channels < f or f <= columns, "threads share the blocks of channels: there are several"


# The filters of the first stay in the cache, so its rows of patches go one by one. Those of the others do not: they are
# read twice or once.
@pytest.mark.parametrize(
    "rows, channels, block",
    [(14, 64, (1, 32)), (7, 128, (4, 32)), (4, 256, (4, 32)), (2, 512, (2, 32))],
)
def test_blocks_of_resnet18(rows: int, channels: int, block: tuple[int, int]) -> None:
    assert choose_staged_block(Patches(36, rows, rows, channels, channels, 32), with_cache(1_100_000)) == block


# (rows, channels) of VGG-16's images of 56, 28 and 14 rows: filters are read once where there are enough blocks of them.
@pytest.mark.parametrize(
    "patches, even, cores, block",
    [
        (Patches(36, 14, 14, 256, 256, 32), (1, 2, 7), 2, (14, 128)),
        (Patches(36, 14, 14, 256, 256, 32), (1, 2, 7), 4, (7, 128)),
        (Patches(36, 7, 7, 512, 512, 32), (1,), 2, (7, 256)),
        (Patches(36, 7, 7, 512, 512, 32), (1,), 16, (7, 32)),
        (Patches(16, 7, 7, 512, 512, 32), (1,), 4, (7, 128)),
    ],
)
def test_blocks_of_patches_in_memory(
    patches: Patches, even: tuple[int, ...], cores: int, block: tuple[int, int]
) -> None:
    assert choose_shared_block(patches, even, with_cache(891_000, cores)) == block


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 600), st.integers(2, 600), st.integers(1, 64))
def test_there_are_as_many_blocks_as_cores(rows: int, tiles: int, c: int, f: int, cores: int) -> None:
    even = [n for n in range(1, rows) if rows % n == 0]
    block, channels = choose_shared_block(Patches(36, rows, tiles, c, f, 32), even, with_cache(1_100_000, cores))
    assert rows // block * -(-f // channels) >= min(cores, rows * -(-f // 32))


# %c[i, j] is made of rows 2i..2i+2 of %x and of all of %v, %s of %c and of its first column.
CHAIN = """func.func @k(%x: tensor<21x8xf32>, %v: tensor<3xf32>) -> tensor<10x8xf32> {
  %e = tensor.empty() : tensor<10x8xf32>
  %c = linalg.generic {
    indexing_maps = [affine_map<(i, j, k) -> (i * 2 + k, j)>, affine_map<(i, j, k) -> (k)>, affine_map<(i, j, k) -> (i, j)>],
    iterator_types = ["parallel", "parallel", "reduction"]
  } ins(%x, %v : tensor<21x8xf32>, tensor<3xf32>) outs(%e : tensor<10x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b : f32
    %n = arith.addf %m, %o : f32
    linalg.yield %n : f32
  } -> tensor<10x8xf32>
  %s = linalg.generic {
    indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, 0)>, affine_map<(i, j) -> (i, j)>],
    iterator_types = ["parallel", "parallel"]
  } ins(%c, SECOND) outs(%e : tensor<10x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %n = arith.addf %a, %b : f32
    linalg.yield %n : f32
  } -> tensor<10x8xf32>
  return %s : tensor<10x8xf32> }"""
ONCE = CHAIN.replace("SECOND", "%e : tensor<10x8xf32>, tensor<10x8xf32>")
TWICE = CHAIN.replace("SECOND", "%c : tensor<10x8xf32>, tensor<10x8xf32>")


def region(*intervals: tuple[int, int]) -> Region:
    return tuple(Interval(Linear(offset), size) for offset, size in intervals)


def part_of(text: str, argument: int, wanted: Region) -> Region:
    """The part of an argument that a region of the result needs."""
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        block = list_functions(module)[0].regions[0].blocks[0]
        result = list(block.operations)[-1].operands[0]
        return needed_region(result, wanted, block.arguments[argument])


def test_needed_goes_through_windows() -> None:
    assert part_of(ONCE, 0, region((3, 2), (4, 4))) == region((6, 5), (4, 4))
    assert part_of(ONCE, 1, region((3, 2), (4, 4))) == region((0, 3))


def test_needed_refuses_what_is_needed_in_several_parts() -> None:
    """Also of a value between the two: what it is made from would be too small for one of its readers."""
    with pytest.raises(NotSchedulable, match="several parts"):
        part_of(TWICE, 0, region((3, 2), (4, 4)))
    assert part_of(TWICE, 0, region((3, 2), (0, 1))) == region((6, 5), (0, 1)), "the same part twice"


def test_needed_refuses_what_the_result_does_not_need() -> None:
    with pytest.raises(NotSchedulable, match="does not need"):
        part_of(ONCE.replace("ins(%c, %e", "ins(%e, %e"), 0, region((0, 10), (0, 8)))


def test_relative_counts_from_the_whole() -> None:
    inner = (Interval(Linear(9), 2, 3), Interval(Linear(4), 1))
    assert relative_to(inner, region((6, 8), (4, 4))) == (Interval(Linear(3), 2, 3), Interval(Linear(0), 1))


@pytest.mark.parametrize(
    "rows, cores, pairs", [(16, 2, True), (14, 2, True), (6, 2, False), (6, 1, True), (1, 1, False)]
)
def test_rows_go_in_pairs_where_no_core_has_many_more_of_them(rows: int, cores: int, pairs: bool) -> None:
    assert pairs_balance(rows, cores) == pairs


def test_what_a_loop_moves_lies_surely_in_the_whole_extent_alone() -> None:
    with make_context(), ir.Location.unknown(), ir.InsertionPoint(ir.Module.create().body):
        counter = Linear(0, ((index_constant(0), 1),))
    moved = (Interval(counter, 1),)
    assert locate_within(moved, region((0, 3)), [3]) == moved
    assert locate_within(moved, region((0, 2)), [3]) is None, "a softmax of three columns read beyond a tile of two"
    assert locate_within(moved, (Interval(counter, 2),), [3]) == region((0, 1))
    assert locate_within(region((2, 1)), region((0, 2)), [3]) is None
