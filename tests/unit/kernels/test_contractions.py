"""Contractions whose dims are not simply rows, columns and one k."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from cpu_targets import FOR_THIS_MACHINE
from kernel_runner import TARGET, CompiledKernel, before_schedule, block_of, schedule_of, schedule_text
from kernel_texts import close, conv, einsum, matmul, pack
from onnx_case import node_model
from samples import campaign
from shared_kernels import noting_kernels

import tilewright as tw
from tilewright.core.target import Target, detect_host
from tilewright.dialects import ir
from tilewright.dialects.context import reused_context
from tilewright.driver import api
from tilewright.passes.schedule.apply_schedule import ApplySchedule
from tilewright.passes.schedule.tiling.reduction import CONTRACT

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("equation", ["k,kmn->mn", "bk,bkmn->bmn", "kb,bkmn->bmn", "bckl,bcklmn->bcmn"])
@pytest.mark.parametrize("n", [8, 7, 40])
def test_a_row_times_a_matrix(equation: str, n: int) -> None:
    extents = {"b": 5, "c": 2, "k": 16, "l": 3, "m": 6, "n": n}
    text = einsum(equation, extents)
    left, right, _ = equation.replace("->", ",").split(",")
    a, b = (RNG.standard_normal([extents[x] for x in term], dtype=np.float32) for term in (left, right))
    want = np.einsum(equation, a, b)
    kernel = CompiledKernel(text)
    assert kernel.kernel.extent > 1, f"plain loops instead of {schedule_text(text)}"
    np.testing.assert_allclose(kernel([a, b], want, 2), want, rtol=0, atol=2e-5)


def packed_weight(n: int) -> tuple[str, np.ndarray, np.ndarray, np.ndarray]:
    """A product of 4 x 10 and 10 x n whose weight is packed in a block of 16, its operands, and the packed weight."""
    text = einsum("mk,kn->mn", {"m": 4, "k": 10, "n": n})
    unpacked = f"""%be = tensor.empty() : tensor<10x{n}xf32>
      %b = linalg.unpack %wide outer_dims_perm = [1, 0] inner_dims_pos = [1] inner_tiles = [16] into %be
        : tensor<1x10x16xf32> -> tensor<10x{n}xf32>
      %z ="""
    text = text.replace(f"%b: tensor<10x{n}xf32>", "%wide: tensor<1x10x16xf32>").replace("%z =", unpacked, 1)
    a, b = (RNG.standard_normal(shape, dtype=np.float32) for shape in ((4, 10), (10, n)))
    packed = np.zeros((1, 10, 16), np.float32)
    packed[0, :, :n] = b
    return text, a, b, packed


def test_a_result_narrower_than_its_packed_block() -> None:
    text, a, b, packed = packed_weight(8)
    want = a @ b
    np.testing.assert_allclose(CompiledKernel(text)([a, packed], want), want, rtol=0, atol=2e-5)


def test_a_packed_block_is_not_padded_by_the_tensor_that_a_sum_begins_with() -> None:
    text, a, b, packed = packed_weight(7)
    text = text.replace("outs(%f :", "outs(%start :").replace(") ->", ", %start: tensor<4x7xf32>) ->", 1)
    assert "outs(%start" in text
    c = RNG.standard_normal((4, 7), dtype=np.float32)
    want = a @ b + c
    np.testing.assert_allclose(CompiledKernel(text)([a, packed, c], want), want, rtol=0, atol=2e-5)


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("n", [7, 15, 31, 63])
def test_columns_that_are_no_vectors_are_tiles_that_overlap(n: int, kind: str) -> None:
    m, k = 20, 24
    text = einsum("mk,kn->mn", {"m": m, "k": k, "n": n}).replace("f32", kind)
    a, b = (RNG.standard_normal(shape).astype(f"float{kind[1:]}") for shape in ((m, k), (k, n)))
    want = a @ b
    assert "overlapping" in schedule_text(text)
    np.testing.assert_allclose(CompiledKernel(text)([a, b], want, 2), want, rtol=0, atol=2e-5)


@campaign(every=2)
@FOR_THIS_MACHINE
@pytest.mark.parametrize("shape", [(1, 100), (7, 65), (2, 33, 128)])
@pytest.mark.parametrize("n", [2, 3, 4, 5])
@pytest.mark.parametrize("known", [[1], []], ids=["weight", "input"])
def test_few_columns(shape: tuple[int, ...], n: int, known: list[int]) -> None:
    """Rows of the right operand's transpose, or columns where there are too many."""
    a, w = RNG.standard_normal(shape, dtype=np.float32), RNG.standard_normal((shape[-1], n), dtype=np.float32)
    model, inputs = node_model("MatMul", [a, w], known)
    module = tw.compile(model, workers=0, num_threads=1, cache=False)
    np.testing.assert_allclose(module.run(inputs)[0], a.astype(np.float64) @ w, rtol=0, atol=1e-4)


@FOR_THIS_MACHINE
@pytest.mark.parametrize("op", ["Conv", "ConvTranspose"])
@pytest.mark.parametrize("groups, channels, window", [(4, 7, 3), (1, 5, 2), (6, 2, 1), (3, 33, 3)])
def test_groups_of_one_filter_are_products_of_rows(op: str, groups: int, channels: int, window: int) -> None:
    size = 9
    x = RNG.standard_normal((2, groups * channels, size, size), dtype=np.float32)
    shape = (groups, channels) if op == "Conv" else (groups * channels, 1)
    w = RNG.standard_normal((*shape, window, window), dtype=np.float32)
    model, inputs = node_model(op, [x, w], [1], group=groups)
    filters, around = w.reshape(groups, channels, window, window), x.reshape(2, groups, channels, size, size)
    if op == "ConvTranspose":
        filters = filters[..., ::-1, ::-1]
        around = np.pad(around, [(0, 0)] * 3 + [(window - 1, window - 1)] * 2)
    windows = np.lib.stride_tricks.sliding_window_view(around, (window, window), (3, 4))
    want = np.einsum("ngchwij,gcij->nghw", windows.astype(np.float64), filters)
    module = tw.compile(model, workers=0, num_threads=1, cache=False)
    np.testing.assert_allclose(module.run(inputs)[0], want, rtol=0, atol=1e-4)
    for kernel in api.stepwise(model, options=api.make_options("x86", cache=False)).kernels.values():
        assert kernel.schedule, kernel.reason


@FOR_THIS_MACHINE
@pytest.mark.parametrize("filters, channels", [(32, 32), (37, 20)])
def test_filters_that_the_caller_gives_are_copied_by_kernels_with_schedules(filters: int, channels: int) -> None:
    x = RNG.standard_normal((1, channels, 9, 9), dtype=np.float32)
    w = RNG.standard_normal((filters, channels, 3, 3), dtype=np.float32)
    model, inputs = node_model("Conv", [x, w], strides=[2, 2])
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))[:, :, ::2, ::2]
    want = np.einsum("nchwij,fcij->nfhw", windows.astype(np.float64), w)
    module = tw.compile(model, workers=0, num_threads=1, cache=False)
    np.testing.assert_allclose(module.run(inputs)[0], want, rtol=0, atol=1e-4)
    for kernel in api.stepwise(model, options=api.make_options("x86", cache=False)).kernels.values():
        assert kernel.schedule, kernel.reason


@pytest.mark.parametrize("n", [33, 71])
def test_all_rows_of_a_tile_sum_up_the_last_columns_together(n: int) -> None:
    """What a block of the weight is too wide for is one narrower product, also where a single column is left."""
    target = TARGET.get(detect_host())
    with reused_context(), ir.Location.unknown():
        module = before_schedule(matmul(4, n, 53, block_of(n)))
        ApplySchedule(target=target).apply(module)
        assert str(module).count(f'"{CONTRACT}') == 2
    block = block_of(n)
    a, w, b = (RNG.standard_normal(shape, dtype=np.float32) for shape in ((4, 53), (53, n), (n,)))
    want = np.maximum(a.astype(np.float64) @ w + b, 0)
    close(CompiledKernel(matmul(4, n, 53, block))([a, pack(w, block), b], np.empty((4, n), np.float32), 2), want)


@pytest.mark.parametrize("k, parts", [(1000, 4), (1002, 2), (999, 1), (8, 4), (2, 2), (1, 1)])
def test_a_weight_that_is_read_once_comes_in_several_streams(k: int, parts: int) -> None:
    """Four parts of 250, two of 501, whose chains of sums have rests; 999 has neither, and a sum of 1 no loop.

    Zen 4 takes two of what is even.
    """
    target = TARGET.get(detect_host())
    parts = parts if not target.halves_vectors else 2 if k % 2 == 0 else 1
    token = TARGET.set(replace(target, l2_bytes=64))
    try:
        block = block_of(40)
        text = matmul(1, 40, k, block)
        kernel = CompiledKernel(text)
    finally:
        TARGET.reset(token)
    assert (f"{parts} at once apart" in kernel.kernel.schedule) == (parts > 1)
    a, w, b = (RNG.standard_normal(shape).astype(np.float32) for shape in ((1, k), (k, 40), (40,)))
    want = np.maximum(a.astype(np.float64) @ w + b, 0)
    close(kernel([a, pack(w, block), b], np.empty((1, 40), np.float32), 2), want)


def test_rows_go_in_blocks_where_they_would_be_read_again_for_each_block_of_the_weight() -> None:
    """The last block of rows, its last tile and the last block of the weight are smaller than the others."""
    m, n, k = 331, 70 * 16 + 5, 61
    token = TARGET.set(replace(TARGET.get(detect_host()), cores=1, l2_bytes=48 << 10))
    try:
        block = block_of(n)
        text = matmul(m, n, k, block)
        schedule = schedule_of(text)
        assert schedule is not None
        rows = [part for loop in schedule.result.outer for part in loop.parts if part.axis == "m"]
        assert len(rows) == 2 and rows[0].steps > 2
        kernel = CompiledKernel(text)
    finally:
        TARGET.reset(token)
    a, w, b = (RNG.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n), (n,)))
    want = np.maximum(a.astype(np.float64) @ w + b, 0)
    for chunks in (1, 3):
        close(kernel([a, pack(w, block), b], np.empty((m, n), np.float32), chunks), want)


@pytest.mark.parametrize(
    "m, blocks, k, l2_bytes, cut",
    [
        (1003, 3, 128, 112 << 10, True),  # the weight stays in the second cache beside a block of rows
        (1003, 1, 128, 112 << 10, False),  # and is one block: all rows are read once in any case
        (100, 3, 128, 112 << 10, False),  # as the rows do
        (2003, 8, 64, 64 << 10, True),  # a larger weight is read again for each block of rows
        (203, 2, 72, 24 << 10, False),  # more bytes than its two blocks would read
    ],
)
def test_rows_go_in_blocks_beside_all_of_the_weight(m: int, blocks: int, k: int, l2_bytes: int, cut: bool) -> None:
    target = Target.parse("x86 -mcpu=skylake-avx512")
    token = TARGET.set(replace(target, cores=1, l2_bytes=l2_bytes))
    try:
        n = 32 * blocks
        text = matmul(m, n, k, block := block_of(n))
        schedule = schedule_of(text)
    finally:
        TARGET.reset(token)
    assert schedule is not None and block == 32
    rows = [part for loop in schedule.result.outer for part in loop.parts if part.axis == "m"]
    assert len(rows) == 1 + cut, str(schedule)
    if not cut:
        return
    assert [part.axis for loop in schedule.result.outer for part in loop.parts][:2] == ["m", "n"]
    token = TARGET.set(replace(TARGET.get(detect_host()), cores=1, l2_bytes=l2_bytes))
    try:
        text, block = matmul(m, n, k, block_of(n)), block_of(n)
        kernel = CompiledKernel(text)
    finally:
        TARGET.reset(token)
    a, w, b = (RNG.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n), (n,)))
    want = np.maximum(a.astype(np.float64) @ w + b, 0)
    for chunks in (1, 3):
        close(kernel([a, pack(w, block), b], np.empty((m, n), np.float32), chunks), want)


@pytest.mark.parametrize(
    "n, k, ways, most", [(8, 1024, 8, 7), (8, 512, 8, 14), (200, 1024, 8, 7), (200, 2048, 8, 7), (200, 1024, 12, 11)]
)
def test_rows_a_page_apart_have_tiles_of_as_many_as_a_set_of_the_first_cache(
    n: int, k: int, ways: int, most: int
) -> None:
    token = TARGET.set(replace(Target.parse("x86 -mcpu=skylake-avx512"), l1_bytes=ways << 12))
    try:
        schedule = schedule_of(matmul(60, n, k, block_of(n)))
    finally:
        TARGET.reset(token)
    assert schedule is not None
    [rows] = [part.step for loop in schedule.result.outer for part in loop.parts if part.axis == "m"]
    assert most // 2 < rows <= most


@pytest.mark.parametrize("k, copies", [(100, 1), (8, 0)])
def test_columns_of_doubles_are_copied_where_the_first_cache_does_not_hold_them(k: int, copies: int) -> None:
    token = TARGET.set(replace(TARGET.get(detect_host()), l1_bytes=1 << 15, l2_bytes=1 << 21, cores=2))
    try:
        schedule = schedule_of(einsum("mk,kn->mn", {"m": 131, "k": k, "n": 333}).replace("f32", "f64"))
    finally:
        TARGET.reset(token)
    assert schedule is not None and len(schedule.stages) == copies


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("equation", ["km,kn->mn", "bmk,bkn->bmn"])
def test_columns_that_are_no_weight_are_copied_for_all_rows(equation: str, large: bool) -> None:
    """A large left operand goes over several tiles of the copy; the last columns are as many as the others."""
    own = {"l1_bytes": 1 << 12, "l2_bytes": 1 << (15 if large else 21), "cores": 2}
    target = replace(TARGET.get(detect_host()), **own)
    extents = {"b": 2, "m": 131, "k": 20, "n": 384 if large else 333}
    text = einsum(equation, extents)
    left, right, made = equation.replace("->", ",").split(",")
    a, b = (RNG.standard_normal([extents[x] for x in term], dtype=np.float32) for term in (left, right))
    token = TARGET.set(target)
    try:
        schedule, kernel = schedule_of(text), CompiledKernel(text)
    finally:
        TARGET.reset(token)
    assert schedule is not None and len(schedule.stages) == 1
    columns = [loop for loop in schedule.result.outer if loop.axis == "n"]
    assert len(columns) == 1 + large and any(loop.overlap for loop in columns) != large
    want = np.einsum(equation, a, b, dtype=np.float64)
    got = kernel([a, b], np.empty([extents[x] for x in made], np.float32), 3)
    np.testing.assert_allclose(got, want, rtol=0, atol=5e-5)


def of_vectors() -> Target:
    """This machine, without registers of matrices of bfloat16."""
    target = TARGET.get(detect_host())
    return replace(target, features=tuple(name for name in target.features if name != "amx-bf16"))


@pytest.mark.parametrize("k, loops", [(10, 2), (200, 1)])
def test_a_copy_of_short_columns_has_several_tiles_where_the_first_cache_holds_it(k: int, loops: int) -> None:
    token = TARGET.set(replace(of_vectors(), l1_bytes=1 << 14, l2_bytes=1 << 21, cores=2))
    try:
        schedule = schedule_of(einsum("bmk,bkn->bmn", {"b": 2, "m": 131, "k": k, "n": 640}))
    finally:
        TARGET.reset(token)
    assert schedule is not None and len(schedule.stages) == 1
    assert len([loop for loop in schedule.result.outer if loop.axis == "n"]) == loops


def shared_axis(equation: str, extents: dict[str, int], cores: int) -> tuple[str, int]:
    """The axis that threads share, and its step, where 512 rows of 512 are read from the third cache."""
    token = TARGET.set(replace(of_vectors(), l1_bytes=1 << 15, l2_bytes=1 << 20, cores=cores))
    try:
        schedule = schedule_of(einsum(equation, extents | {"m": 512, "k": 512}))
    finally:
        TARGET.reset(token)
    assert schedule is not None
    part, *others = schedule.result.outer[0].parts
    assert not others
    return part.axis, part.step


@pytest.mark.parametrize("columns, cores", [(196, 2), (196, 1), (784, 2), (1000, 3)])
def test_copied_columns_are_shared_evenly(columns: int, cores: int) -> None:
    axis, width = shared_axis("mk,kn->mn", {"n": columns}, cores)
    steps = [width] * (columns // width) + [columns % width]
    shares = [sum(steps[core::cores]) for core in range(cores)]
    assert axis == "n" and max(shares) <= 1.1 * columns / cores, "196 columns in 128 and 68 leave a core idle"


@pytest.mark.parametrize("images, axis", [(8, "n0"), (3, "n1"), (17, "n0")])
def test_images_are_shared_where_each_core_has_as_many(images: int, axis: str) -> None:
    assert shared_axis("mk,bkn->bmn", {"b": images, "n": 196}, 2)[0] == axis


def test_images_of_a_right_operand_have_a_copy_each() -> None:
    extents = {"b": 4, "m": 70, "k": 70, "n": 333}
    text = einsum("mk,bkn->bmn", extents)
    a, b = (RNG.standard_normal(shape, dtype=np.float32) for shape in ((70, 70), (4, 70, 333)))
    token = TARGET.set(replace(TARGET.get(detect_host()), l1_bytes=1 << 14, l2_bytes=1 << 16, cores=2))
    try:
        schedule, kernel = schedule_of(text), CompiledKernel(text)
    finally:
        TARGET.reset(token)
    assert schedule is not None and len(schedule.stages) == 1
    want = np.einsum("mk,bkn->bmn", a, b, dtype=np.float64)
    np.testing.assert_allclose(kernel([a, b], np.empty((4, 70, 333), np.float32), 3), want, rtol=0, atol=5e-5)


HASWELL = Target.parse("x86 -mcpu=haswell")


def convolve_pixels(size: int, filters: int, stride: int = 1, **facts: int) -> dict[str, int]:
    """The pixels of a tile along lines and columns of an image of 40 channels; its results are right, too."""
    text = conv(size, 40, filters, 1, stride, 16)
    x, w, b = (
        RNG.standard_normal(shape, dtype=np.float32) for shape in ((1, size, size, 40), (40, filters), (filters,))
    )
    token = TARGET.set(replace(HASWELL, **({"cores": 1, "l2_bytes": 1 << 14} | facts)))
    try:
        schedule, kernel = schedule_of(text), CompiledKernel(text)
    finally:
        TARGET.reset(token)
    assert schedule is not None
    want = np.maximum(x[:, ::stride, ::stride].astype(np.float64) @ w + b, 0)
    close(kernel([x, pack(w, 16).reshape(-1, 1, 1, 40, 16), b], np.empty(want.shape, np.float32), 3), want, 2e-5)
    return {part.axis: part.step for loop in schedule.result.outer for part in loop.parts}


@pytest.mark.parametrize("filters", [192, 240])
def test_wide_pixels_from_beyond_the_second_cache_are_streams_along_lines(filters: int) -> None:
    steps = convolve_pixels(13, filters)
    assert steps["oh"] > 1 and steps["ow"] == 1
    near = convolve_pixels(13, filters, l2_bytes=1 << 20)
    assert near["oh"] == 1 and near["ow"] > 1, "they stay in the second cache"
    assert convolve_pixels(13, 64)["oh"] == 1, "they are parts of a page"


def test_pixels_are_no_streams_where_lines_are_skipped_or_threads_have_no_share() -> None:
    assert convolve_pixels(13, 192, stride=2)["oh"] == 1
    assert convolve_pixels(13, 192, cores=16, l2_bytes=1 << 11)["oh"] == 1


@pytest.mark.parametrize(
    "size, filters, l2_bytes, rows",
    [(9, 36, 24 << 10, 2), (13, 36, 16 << 10, 1), (7, 36, 16 << 10, 0), (13, 36, 8 << 10, 0), (40, 160, 24 << 10, 1)],
)
def test_pixels_from_beyond_the_second_cache_are_read_once_for_all_blocks_of_a_weight(
    size: int, filters: int, l2_bytes: int, rows: int
) -> None:
    """The weight has 7680 bytes, a pixel 160: 7 x 7 of these stay in the cache, 8 KiB are too few for the weight.

    One of 25,600 bytes is read again for each line of 6,400, which is less than ten times all pixels.
    """
    token = TARGET.set(replace(HASWELL, cores=1, l2_bytes=l2_bytes))
    try:
        schedule = schedule_of(conv(size, 40, filters, 1, 1, 16))
    finally:
        TARGET.reset(token)
    assert schedule is not None
    first = schedule.result.outer[0].parts[0]
    assert (first.axis, first.step) == (("oh", rows) if rows else ("f", 16))
    convolve_pixels(size, 36, l2_bytes=l2_bytes)


@pytest.mark.parametrize("cores, first", [(1, "f"), (2, "oh")])
def test_threads_share_the_rows_of_images_where_few_channels_are_made_of_many(cores: int, first: str) -> None:
    token = TARGET.set(replace(HASWELL, cores=cores, l2_bytes=1 << 20))
    try:
        schedule = schedule_of(conv(14, 192, 48, 1, 1, 16))
    finally:
        TARGET.reset(token)
    assert schedule is not None
    assert schedule.result.outer[0].parts[0].axis == first


@pytest.mark.parametrize("channels, window, at_once", [(3, 7, 3), (2, 5, 2), (3, 3, 1), (5, 5, 1)])
def test_few_steps_of_a_sum_inside_of_others_are_taken_together(channels: int, window: int, at_once: int) -> None:
    token = TARGET.set(HASWELL)
    try:
        schedule = schedule_of(conv(20, channels, 32, window, 2, 16))
    finally:
        TARGET.reset(token)
    assert schedule is not None
    innermost = schedule.result.inner[-1]
    assert ((innermost.kind == "unroll" and innermost.factor) or 1) == at_once


def test_rows_that_lie_a_page_apart_but_for_a_gap_have_tiles_of_as_many_rows_as_registers_hold() -> None:
    """``pad-rows`` has stored the gap: the tile of ViT's second dense layer had six rows, as if there were none."""
    m, n, k = 60, 64, 1024
    gap = f"""%a = tensor.extract_slice %apart[0, 0] [{m}, {k}] [1, 1] : tensor<{m}x{k + 16}xf32> to tensor<{m}x{k}xf32>
      %zero ="""
    text = matmul(m, n, k, 16).replace("%zero =", gap, 1)
    text = text.replace(f"%a: tensor<{m}x{k}xf32>", f"%apart: tensor<{m}x{k + 16}xf32>")
    token = TARGET.set(replace(Target.parse("x86 -mcpu=skylake-avx512"), l1_bytes=1 << 15))
    try:
        apart, beside = schedule_of(text), schedule_of(matmul(m, n, k, 16))
    finally:
        TARGET.reset(token)
    assert apart is not None and beside is not None
    [rows], [fewer] = (
        [part.step for loop in made.result.outer for part in loop.parts if part.axis.startswith("m")]
        for made in (apart, beside)
    )
    assert rows > 7 >= fewer


@campaign("fewer columns than a vector", "no rows turned")
@pytest.mark.parametrize(
    "left, right, order, kernels",
    [
        pytest.param((3, 16, 64), (3, 70, 64), (0, 2, 1), 1, id="several matrices"),
        pytest.param((5, 40), (1000, 40), (1, 0), 1, id="one matrix"),
        pytest.param((1, 2, 20, 33), (1, 45, 2, 33), (0, 2, 3, 1), 1, id="rows apart"),
        pytest.param((3, 9), (5, 9), (1, 0), 1, id="fewer columns than a vector"),
        pytest.param((200, 40), (1000, 40), (1, 0), 2, id="many rows"),
        pytest.param((3, 200, 24), (3, 350, 24), (0, 2, 1), 1, id="many rows and columns"),
        pytest.param((2, 16, 24), (2, 24, 10, 3), (3, 0, 1, 2), 2, id="no rows turned"),
    ],
)
def test_a_product_of_few_rows_or_many_columns_turns_these(
    left: tuple[int, ...], right: tuple[int, ...], order: tuple[int, ...], kernels: int
) -> None:
    turn, product = (
        onnx.helper.make_node("Transpose", ["k"], ["turned"], perm=order),
        onnx.helper.make_node("MatMul", ["q", "turned"], ["y"]),
    )
    arrays = {name: RNG.standard_normal(shape, dtype=np.float32) for name, shape in (("q", left), ("k", right))}
    want = arrays["q"] @ arrays["k"].transpose(order)
    graph = onnx.helper.make_graph(
        [turn, product],
        "g",
        [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, a.shape) for name, a in arrays.items()],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, want.shape)],
    )
    with noting_kernels() as found:
        lib = tw.compile(onnx.helper.make_model(graph, ir_version=9, opset_imports=[onnx.helper.make_opsetid("", 18)]))
    assert len(found) == kernels and "" not in [kernel.schedule for kernel in found]
    np.testing.assert_allclose(lib.run(arrays)["y"], want, rtol=0, atol=1e-4)
