"""Kernels that move data: concat, padding, insertion. Odd sizes, unit dims, all element types, shares of threads."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest
from cpu_targets import FOR_THIS_MACHINE
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_runner import CompiledKernel, assembly, bytecode, schedule_text
from open_case import guarded, open_model
from samples import campaign
from shared_kernels import describe_kernels

import tilewright as tw
from tilewright.core.target import Target
from tilewright.dialects import codegen, ir
from tilewright.dialects.context import make_context
from tilewright.passes.infra.context import PassContext
from tilewright.passes.pipeline import lower_kernel

RNG = np.random.default_rng(0)
DTYPES = {
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "f16": np.float16, "bf16": ml_dtypes.bfloat16,
    "f32": np.float32, "f64": np.float64, "f8E4M3FN": ml_dtypes.float8_e4m3fn,
}  # fmt: skip
ELEMENTS = st.sampled_from(sorted(DTYPES))
EXTENTS = st.sampled_from([1, 2, 3, 5, 8, 17, 33, 70])
PIXELS = [4, 0, 2, 1, 3]  # where the channels of each pixel become more pixels: DepthToSpace, into channels first


def tensor(shape: tuple[int, ...], element: str) -> str:
    return f"tensor<{''.join(f'{n}x' for n in shape)}{element}>"


def random(shape: tuple[int, ...], element: str) -> np.ndarray:
    return RNG.integers(-100, 100, shape).astype(DTYPES[element])


def check(text: str, inputs: list[np.ndarray], want: np.ndarray) -> None:
    """The kernel has a schedule, and gives what is wanted in any number of shares."""
    assert schedule_text(text) != "None"
    kernel = CompiledKernel(text)
    for chunks in (1, 2, 5):
        np.testing.assert_array_equal(kernel(inputs, want, chunks).view(np.uint8), want.view(np.uint8))


def concat(shapes: list[tuple[int, ...]], axis: int, element: str) -> tuple[str, tuple[int, ...]]:
    shape = tuple(sum(s[d] for s in shapes) if d == axis else n for d, n in enumerate(shapes[0]))
    names = [f"%a{i}" for i in range(len(shapes))]
    types = [tensor(s, element) for s in shapes]
    arguments = ", ".join(f"{name}: {kind}" for name, kind in zip(names, types, strict=True))
    text = f"""func.func @k({arguments}) -> {tensor(shape, element)} {{
      %c = tensor.concat dim({axis}) {", ".join(names)} : ({", ".join(types)}) -> {tensor(shape, element)}
      return %c : {tensor(shape, element)} }}"""
    return text, shape


def test_many_pieces_in_rows() -> None:
    """As the outputs of an unrolled loop: compiling takes time in proportion to them, and not hours."""
    text, shape = concat([(4, 1, 64)] * 60, 1, "f32")
    inputs = [random((4, 1, 64), "f32") for _ in range(60)]
    check(text, inputs, np.concatenate(inputs, 1).reshape(shape))


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_concat_of_any_shapes(data: st.DataObject) -> None:
    rank, element = data.draw(st.integers(1, 4)), data.draw(ELEMENTS)
    axis = data.draw(st.integers(0, rank - 1))
    shape = data.draw(st.lists(EXTENTS, min_size=rank, max_size=rank))
    along = data.draw(st.lists(st.integers(1, 40), min_size=2, max_size=4))
    shapes = [tuple(n if d == axis else m for d, m in enumerate(shape)) for n in along]
    text, _ = concat(shapes, axis, element)
    inputs = [random(s, element) for s in shapes]
    check(text, inputs, np.concatenate(inputs, axis))


def test_concat_of_channels_copies_vectors() -> None:
    text, _ = concat([(1, 9, 9, 64), (1, 9, 9, 24)], 3, "f32")
    assert re.fullmatch(
        r"""parallel in 64 shares:
  copy %arg0\[0:, 0:\] at \[0, 0\]: 81 x 64 in steps of (64|32|16), shared along d0
  copy %arg1\[0:, 0:\] at \[0, 64\]: 81 x 24 in steps of 16, shared along d0""",
        schedule_text(text),
    )
    assert "vmovups" in assembly(text)


def test_concat_of_slices_and_constants() -> None:
    text = """func.func @k(%x: tensor<9x7x40xi32>) -> tensor<3x9x40xi32> {
      %s = tensor.extract_slice %x[2, 1, 0] [3, 5, 40] [2, 1, 1] : tensor<9x7x40xi32> to tensor<3x5x40xi32>
      %c = arith.constant 7 : i32
      %e = tensor.empty() : tensor<3x3x40xi32>
      %f = linalg.fill ins(%c : i32) outs(%e : tensor<3x3x40xi32>) -> tensor<3x3x40xi32>
      %t = arith.constant dense<-2> : tensor<3x1x40xi32>
      %r = tensor.concat dim(1) %f, %s, %t
        : (tensor<3x3x40xi32>, tensor<3x5x40xi32>, tensor<3x1x40xi32>) -> tensor<3x9x40xi32>
      return %r : tensor<3x9x40xi32> }"""
    x = random((9, 7, 40), "i32")
    parts = [np.full((3, 3, 40), 7, np.int32), x[2:8:2, 1:6], np.full((3, 1, 40), -2, np.int32)]
    check(text, [x], np.concatenate(parts, 1))


def test_strided_slices_along_rows_are_moved_element_by_element() -> None:
    text = """func.func @k(%x: tensor<6x18xf32>) -> tensor<3x18xf32> {
      %s = tensor.extract_slice %x[0, 0] [3, 9] [2, 2] : tensor<6x18xf32> to tensor<3x9xf32>
      %t = tensor.extract_slice %x[1, 1] [3, 9] [2, 2] : tensor<6x18xf32> to tensor<3x9xf32>
      %r = tensor.concat dim(1) %s, %t : (tensor<3x9xf32>, tensor<3x9xf32>) -> tensor<3x18xf32>
      return %r : tensor<3x18xf32> }"""
    x = random((6, 18), "f32")
    check(text, [x], np.concatenate([x[::2, ::2], x[1::2, 1::2]], 1))


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_padding_of_any_shape(data: st.DataObject) -> None:
    rank, element = data.draw(st.integers(1, 4)), data.draw(ELEMENTS)
    shape = tuple(data.draw(st.lists(EXTENTS, min_size=rank, max_size=rank)))
    low, high = (data.draw(st.lists(st.integers(0, 3), min_size=rank, max_size=rank)) for _ in range(2))
    wide = tuple(a + n + b for a, n, b in zip(low, shape, high, strict=True))
    value = "3" if element.startswith("i") else "3.0"
    dims = ", ".join(f"%i{d}: index" for d in range(rank))
    text = f"""func.func @k(%x: {tensor(shape, element)}) -> {tensor(wide, element)} {{
      %c = arith.constant {value} : {element}
      %p = tensor.pad %x low{low} high{high} {{
      ^bb0({dims}):
        tensor.yield %c : {element}
      }} : {tensor(shape, element)} to {tensor(wide, element)}
      return %p : {tensor(wide, element)} }}"""
    x = random(shape, element)
    want = np.full(wide, 3, DTYPES[element])
    want[tuple(slice(a, a + n) for a, n in zip(low, shape, strict=True))] = x
    check(text, [x], want)


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_insertion_of_any_shape(data: st.DataObject) -> None:
    rank, element = data.draw(st.integers(1, 3)), data.draw(ELEMENTS)
    shape = tuple(data.draw(st.lists(EXTENTS, min_size=rank, max_size=rank)))
    low = [data.draw(st.integers(0, n - 1)) for n in shape]
    sizes = tuple(data.draw(st.integers(1, n - a)) for n, a in zip(shape, low, strict=True))
    ones = [1] * rank
    text = f"""func.func @k(%x: {tensor(sizes, element)}, %y: {tensor(shape, element)}) -> {tensor(shape, element)} {{
      %r = tensor.insert_slice %x into %y{low} {list(sizes)} {ones} : {tensor(sizes, element)} into {tensor(shape, element)}
      return %r : {tensor(shape, element)} }}"""
    x, y = random(sizes, element), random(shape, element)
    want = y.copy()
    want[tuple(slice(a, a + n) for a, n in zip(low, sizes, strict=True))] = x
    check(text, [x, y], want)


def test_an_insertion_into_a_filled_tensor() -> None:
    text = """func.func @k(%x: tensor<4x3xf32>) -> tensor<4x9xf32> {
      %z = arith.constant 0.5 : f32
      %e = tensor.empty() : tensor<4x9xf32>
      %f = linalg.fill ins(%z : f32) outs(%e : tensor<4x9xf32>) -> tensor<4x9xf32>
      %r = tensor.insert_slice %x into %f[0, 2] [4, 3] [1, 1] : tensor<4x3xf32> into tensor<4x9xf32>
      return %r : tensor<4x9xf32> }"""
    x = random((4, 3), "f32")
    check(text, [x], np.pad(x, [(0, 0), (2, 4)], constant_values=0.5))


@pytest.mark.parametrize("axis", [0, 1])
def test_large_rows_are_shared_too(axis: int) -> None:
    text, shape = concat([(2, 5000), (2, 5000)], axis, "f32")
    inputs = [random((2, 5000), "f32") for _ in range(2)]
    assert "parallel in 64 shares" in schedule_text(text)
    check(text, inputs, np.concatenate(inputs, axis).reshape(shape))


def permutation(shape: tuple[int, ...], order: list[int], element: str) -> tuple[str, tuple[int, ...]]:
    """A transpose as frontends write it: loops in the order of the result's dims."""
    out, names = tuple(shape[d] for d in order), [f"d{d}" for d in range(len(shape))]
    loops = ", ".join(names[d] for d in order)
    text = f"""func.func @k(%x: {tensor(shape, element)}) -> {tensor(out, element)} {{
      %e = tensor.empty() : {tensor(out, element)}
      %r = linalg.generic {{
        indexing_maps = [affine_map<({loops}) -> ({", ".join(names)})>, affine_map<({loops}) -> ({loops})>],
        iterator_types = [{", ".join(['"parallel"'] * len(shape))}]
      }} ins(%x : {tensor(shape, element)}) outs(%e : {tensor(out, element)}) {{
      ^bb0(%v: {element}, %o: {element}):
        linalg.yield %v : {element}
      }} -> {tensor(out, element)}
      return %r : {tensor(out, element)} }}"""
    return text, out


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_transposes_of_any_shape(data: st.DataObject) -> None:
    rank, element = data.draw(st.integers(2, 4)), data.draw(ELEMENTS)
    shape = tuple(data.draw(st.lists(EXTENTS, min_size=rank, max_size=rank)))
    order = data.draw(st.permutations(range(rank)))
    text, _ = permutation(shape, order, element)
    x = random(shape, element)
    check(text, [x], np.ascontiguousarray(x.transpose(order)))


@settings(max_examples=6, deadline=None)
@given(st.integers(1, 3), EXTENTS, st.sampled_from([2, 4]), EXTENTS, ELEMENTS)
def test_channels_that_become_pixels(rows: int, columns: int, times: int, channels: int, element: str) -> None:
    shape = rows, columns, times, times, channels
    x = random(shape, element)
    check(permutation(shape, PIXELS, element)[0], [x], np.ascontiguousarray(x.transpose(PIXELS)))


@campaign(every=4)
@pytest.mark.parametrize("element", sorted(DTYPES))
@pytest.mark.parametrize("shape", [(64, 96), (65, 97), (4, 300), (300, 5), (19, 21)])
def test_transposes_of_matrices(shape: tuple[int, int], element: str) -> None:
    text, _ = permutation(shape, [1, 0], element)
    x = random(shape, element)
    check(text, [x], np.ascontiguousarray(x.T))


@FOR_THIS_MACHINE
@pytest.mark.parametrize("shape, order", [((96, 128), [1, 0]), ((64, 12, 48), [1, 2, 0]), ((3, 64, 2, 2, 48), PIXELS)])
@pytest.mark.parametrize("element", ["i8", "i16", "f32", "f64"])
def test_transposes_are_shuffles(element: str, shape: tuple[int, ...], order: list[int]) -> None:
    """Rows of at least 8 bytes are loaded and stored; nothing goes element by element. A dim between changes nothing."""
    made = assembly(permutation(shape, order, element)[0])
    assert not re.search("vgather|vpinsr|vpextr[bwd]|vinsertps|vextractps|vmovss|vmovsd", made)
    assert re.search("vpermt2|vpermi2|vpunpck|vunpck|vshuf|vperm", made)


OPEN_TRANSPOSE = """func.func @k(%x: tensor<?x?xf32>, %n: index, %m: index) -> tensor<?x?xf32>
    attributes {tw.result_sizes = 2 : i64, tw.same_sizes = [array<i64: 0, 0, 2, -1, 3, 1>, array<i64: 0, 1, 1, -1, 3, 0>]} {
  %e = tensor.empty(%n, %m) : tensor<?x?xf32>
  %r = linalg.generic {
    indexing_maps = [affine_map<(d0, d1) -> (d1, d0)>, affine_map<(d0, d1) -> (d0, d1)>],
    iterator_types = ["parallel", "parallel"]
  } ins(%x : tensor<?x?xf32>) outs(%e : tensor<?x?xf32>) {
  ^bb0(%v: f32, %o: f32):
    linalg.yield %v : f32
  } -> tensor<?x?xf32>
  return %r : tensor<?x?xf32> }"""


@FOR_THIS_MACHINE
@pytest.mark.parametrize(("cpu", "rows"), [("skylake-avx512", 16), ("haswell", 8)])
def test_lines_are_asked_for_ahead_where_the_run_finds_a_large_matrix(cpu: str, rows: int) -> None:
    """Only of the largest tiles, a line for each of their rows, in a loop of its own."""
    named = Target.parse(f"x86 -mcpu={cpu}")
    with make_context(), ir.Location.unknown():
        module, _ = lower_kernel(bytecode(OPEN_TRANSPOSE), named, PassContext())
        made = codegen.emit_code(module, named, "asm").decode()
    assert made.count("prefetch") == rows


def test_transposes_that_leave_few_elements_together(target: Target) -> None:
    """A few rows of an image's channels are a tile; of elements that lie apart, no more are taken than a vector has."""
    image, _ = permutation((3, 8, 4), [1, 2, 0], "f32")
    assert re.search(r"tile d\d\.1 x d\d\.1 of 4 x 2:", schedule_text(image))
    weight, _ = permutation((64, 8, 3), [2, 1, 0], "f32")
    assert f"of {target.lanes}: vectorize" in schedule_text(weight)


@campaign(every=2)
@pytest.mark.parametrize("element", ["i8", "f32", "i64"])
@pytest.mark.parametrize("channels", [2, 3, 4])
def test_a_few_channels_are_moved_by_whole_vectors(channels: int, element: str) -> None:
    """To the last axis and from there; only where as many pixels lie beside each other."""
    for shape, order in (((2, channels, 9, 31), [0, 2, 3, 1]), ((2, 9, 31, channels), [0, 3, 1, 2])):
        text, _ = permutation(shape, order, element)
        assert schedule_text(text).startswith("rows along")
        x = random(shape, element)
        check(text, [x], np.ascontiguousarray(x.transpose(order)))
    apart, _ = permutation((2, channels, 9, 31), [0, 3, 2, 1], element)
    assert schedule_text(apart).startswith(("for", "parallel", "tile"))


def test_a_transpose_with_arithmetic_is_one_kernel() -> None:
    x, y = tensor((40, 33), "f32"), tensor((33, 40), "f32")
    text = f"""func.func @k(%x: {x}, %y: {y}, %b: tensor<40xf32>) -> {y} {{
      %e = tensor.empty() : {y}
      %r = linalg.generic {{
        indexing_maps = [affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>,
                         affine_map<(i, j) -> (i, j)>],
        iterator_types = ["parallel", "parallel"]
      }} ins(%x, %y, %b : {x}, {y}, tensor<40xf32>) outs(%e : {y}) {{
      ^bb0(%u: f32, %v: f32, %w: f32, %o: f32):
        %s = arith.addf %u, %v : f32
        %t = arith.mulf %s, %w : f32
        linalg.yield %t : f32
      }} -> {y}
      return %r : {y} }}"""
    u, v, w = random((40, 33), "f32"), random((33, 40), "f32"), random((40,), "f32")
    assert "overlapping" in schedule_text(text)
    over_y = text.replace(f"-> {y} {{", f"-> {y} attributes {{tw.in_place = array<i64: 1>}} {{", 1)
    assert "overlap" not in schedule_text(over_y)
    check(text, [u, v, w], (u.T + v) * w)


@settings(max_examples=8, deadline=None)
@given(st.sampled_from([2, 4]), EXTENTS, st.sampled_from([4, 7, 40, 70]), ELEMENTS)
def test_rows_that_repeat_an_element(times: int, outer: int, length: int, element: str) -> None:
    """Nearest Resize by 2 and 4: the repeated elements of several rows are written as whole vectors."""
    data, made = (outer, length), (outer, 3, length, times)
    text = f"""func.func @k(%x: {tensor(data, element)}) -> {tensor(made, element)} {{
      %e = tensor.empty() : {tensor(made, element)}
      %y = linalg.generic {{indexing_maps = [affine_map<(a, b, c, d) -> (a, c)>, affine_map<(a, b, c, d) -> (a, b, c, d)>],
          iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
          ins(%x : {tensor(data, element)}) outs(%e : {tensor(made, element)}) {{
      ^bb0(%i: {element}, %o: {element}):
        linalg.yield %i : {element}
      }} -> {tensor(made, element)}
      return %y : {tensor(made, element)} }}"""
    x = random(data, element)
    check(text, [x], np.ascontiguousarray(np.broadcast_to(x[:, None, :, None], made)))
    assert "unroll d" in schedule_text(text)


@pytest.mark.parametrize(("over", "boxes"), [("", 3), (" attributes {tw.over = 1 : i64}", 1)])
def test_what_a_result_is_written_over_is_not_copied(over: str, boxes: int) -> None:
    text = f"""func.func @k(%row: tensor<4x1x16xf32>, %all: tensor<4x64x16xf32>) -> tensor<4x64x16xf32>{over} {{
      %y = tensor.insert_slice %row into %all[0, 3, 0] [4, 1, 16] [1, 1, 1] : tensor<4x1x16xf32> into tensor<4x64x16xf32>
      return %y : tensor<4x64x16xf32> }}"""
    assert schedule_text(text).count("copy") == boxes


@pytest.mark.parametrize("cpu", ["x86", "x86 -mcpu=haswell"])
@pytest.mark.parametrize("dtype", ["float32", "uint8", "float64"])
def test_channels_of_large_open_images_become_the_last(dtype: str, cpu: str) -> None:
    """Pixels of a channel that are pages apart go by pieces of a line: of as many as tiles have, of more and of fewer."""
    shapes = [(1, 37, 50, 41), (2, 16, 91, 91), (1, 5, 2049, 1), (1, 70, 46, 45), (1, 1, 90, 92), (0, 20, 50, 50)]
    images = [RNG.integers(0, 100, shape).astype(dtype) for shape in shapes]
    model = open_model("Transpose", [images[0]], results=[dtype], perm=[0, 2, 3, 1])
    assert [k.schedule.split(",")[0] for k in describe_kernels(model, Target.parse(cpu)).values()] == ["rows along d3"]
    with guarded():
        module = tw.compile(model, cpu, workers=0, num_threads=2, cache=False)
    for image in images:
        np.testing.assert_array_equal(module(image)[0], image.transpose(0, 2, 3, 1))


@pytest.mark.parametrize("cpu", ["x86", "x86 -mcpu=haswell"])
@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_open_rows_are_written_to_all_of_their_copies(dtype: str, cpu: str) -> None:
    """Piece by piece where they are long: of less than a piece and a row more, of several, of more rows and of none."""
    piece = (1 << 14) // np.dtype(dtype).itemsize
    cases = [(1, piece), (3, piece + 1), (2, piece - 1), (1, 3 * piece + 5), (20, piece + 40), (5, 33), (4, 1), (0, 9)]
    rows = [RNG.integers(0, 100, (2, 1, *sizes)).astype(dtype) for sizes in cases]
    wide, deep = np.array([1, 5, 1, 1]), np.array([3, 1, 1, 1])
    for op, known, copy in (
        ("Expand", wide, lambda x: np.broadcast_to(x, (2, 5, *x.shape[2:]))),
        ("Tile", deep, lambda x: np.tile(x, deep)),
    ):
        model = open_model(op, [rows[0], known], known=[1], fixed=[(0, 1)], results=[dtype])
        with guarded():
            module = tw.compile(model, cpu, workers=0, num_threads=2, cache=False)
        for x in rows:
            np.testing.assert_array_equal(module(x)[0], copy(x))
