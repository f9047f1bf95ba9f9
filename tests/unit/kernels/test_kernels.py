"""Kernels of every family against numpy: whole tiles, rests, several chunks of the parallel axis."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from cpu_targets import FOR_THIS_MACHINE
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_runner import CompiledKernel, aligned, block_of, bytecode, schedule_text
from kernel_texts import (
    MULTIPLY_ADD,
    ROWS,
    SUM,
    close,
    conv,
    filled,
    generic,
    matmul,
    pack,
    random,
    softmax,
    tensor,
)
from samples import campaign

from tilewright.core.errors import CompileError


@pytest.mark.parametrize("m, n, k", [(14, 32, 8), (128, 96, 64), (197, 48, 33), (1, 1000, 64), (5, 10, 3), (30, 24, 1)])
def test_matmul_with_packed_weight(m: int, n: int, k: int) -> None:
    block = block_of(n)
    kernel = CompiledKernel(matmul(m, n, k, block))
    a, w, b = random(m, k), random(k, n), random(n)
    want = np.maximum(a @ w + b, 0)
    for chunks in (1, 3):
        close(kernel([a, pack(w, block), b], want, chunks), want)


@settings(max_examples=8, deadline=None)
@given(st.integers(1, 40), st.integers(2, 70), st.integers(1, 20))
def test_matmul_of_any_shape(m: int, n: int, k: int) -> None:
    block = block_of(n)
    a, w, b = random(m, k), random(k, n), random(n)
    want = np.maximum(a @ w + b, 0)
    close(CompiledKernel(matmul(m, n, k, block))([a, pack(w, block), b], want, 2), want)


@pytest.mark.parametrize(
    "size, channels, filters, window, stride",
    [(16, 8, 32, 3, 1), (15, 16, 24, 3, 2), (9, 64, 64, 1, 1), (9, 5, 40, 1, 2), (31, 3, 16, 7, 2), (17, 4, 70, 5, 1)],
)
def test_convolution(size: int, channels: int, filters: int, window: int, stride: int) -> None:
    block = block_of(filters)
    kernel = CompiledKernel(conv(size, channels, filters, window, stride, block))
    x, w, b = random(1, size, size, channels), random(filters, channels, window, window), random(filters)
    out = (size - window) // stride + 1
    last = (out - 1) * stride + 1
    taps = [
        x[:, i : i + last : stride, j : j + last : stride] @ w[:, :, i, j].T
        for i in range(window)
        for j in range(window)
    ]
    want = np.maximum(np.sum(taps, axis=0) + b, 0)
    blocks = -(-filters // block)
    packed = np.zeros((blocks * block, channels, window, window), np.float32)
    packed[:filters] = w
    packed = packed.reshape(blocks, block, channels, window, window).transpose(0, 3, 4, 2, 1)
    assert schedule_text(conv(size, channels, filters, window, stride, block)) != "None"
    close(kernel([x, packed, b], want, 2), want, 1e-5)


@campaign("9-32-3-1", "16-24-3-2", "12-100-3-1")
@pytest.mark.parametrize(
    "size, channels, window, stride",
    [
        (9, 32, 3, 1),
        (16, 24, 3, 2),
        (7, 3, 3, 1),
        (12, 100, 3, 1),
        (23, 20, 5, 1),
        (21, 33, 7, 1),
        (16, 8, 5, 2),
        (9, 16, 1, 1),
        (16, 256, 3, 1),
        (15, 520, 3, 2),
    ],
)
def test_depthwise_convolution(size: int, channels: int, window: int, stride: int) -> None:
    out = (size - window) // stride + 1
    x, w, y = tensor(1, size, size, channels), tensor(window, window, channels), tensor(1, out, out, channels)
    dims = "(n,h,w,c,p,q)"
    maps = [f"{dims}->(n,h*{stride}+p,w*{stride}+q,c)", f"{dims}->(p,q,c)", f"{dims}->(n,h,w,c)"]
    text = f"""func.func @k(%x: {x}, %w: {w}) -> {y} {{
      {filled("f", y)}
      {generic("c", {"%x": x, "%w": w}, maps, "pppprr", ("%f", y), MULTIPLY_ADD)}
      return %c : {y} }}"""
    a, b = random(1, size, size, channels), random(window, window, channels)
    last, taps = (out - 1) * stride + 1, range(window)
    products = [a[:, i : i + last : stride, j : j + last : stride] * b[i, j] for i in taps for j in taps]
    want = np.sum(products, axis=0)
    schedule = schedule_text(text)
    assert window == 1 or f"{window} at once" in schedule, "the columns of a window are straight-line code"
    loops, _, _ = schedule.partition("for kh")
    inner = loops.rfind("oh.") > loops.find("c.0")
    assert channels < 200 or inner, "rows within blocks of channels stay in a cache"
    close(CompiledKernel(text)([a, b], want, 3), want, 1e-5)


@pytest.mark.parametrize(
    "height, width, window", [(9, 19, (3, 3)), (5, 40, (1, 9)), (20, 21, (7, 1)), (15, 70, (5, 5))]
)
def test_depthwise_convolution_along_rows(height: int, width: int, window: tuple[int, int]) -> None:
    tall, wide = window
    x, w, y = tensor(2, 3, height + tall - 1, width + wide - 1), tensor(3, *window), tensor(2, 3, height, width)
    dims = "(n,c,h,w,p,q)"
    maps = [f"{dims}->(n,c,h+p,w+q)", f"{dims}->(c,p,q)", f"{dims}->(n,c,h,w)"]
    text = f"""func.func @k(%x: {x}, %w: {w}) -> {y} {{
      {filled("f", y)}
      {generic("c", {"%x": x, "%w": w}, maps, "pppprr", ("%f", y), MULTIPLY_ADD)}
      return %c : {y} }}"""
    a, b = random(2, 3, height + tall - 1, width + wide - 1), random(3, *window)
    taps = [(i, j) for i in range(tall) for j in range(wide)]
    want = np.sum([a[:, :, i : i + height, j : j + width] * b[:, i, j, None, None] for i, j in taps], axis=0)
    assert tall == 1 or f"{tall} at once" in schedule_text(text), "windows above each other share rows"
    close(CompiledKernel(text)([a, b], want, 3), want, 1e-5)


@pytest.mark.parametrize("rows, columns", [(7, 128), (3, 197), (5, 10), (4, 1), (1, 64), (1, 256), (2, 63)])
def test_softmax_in_one_pass_over_rows(rows: int, columns: int) -> None:
    x = 5 * random(rows, columns)
    want = np.exp(x - x.max(1, keepdims=True))
    want /= want.sum(1, keepdims=True)
    assert columns == 1 or "row" in schedule_text(softmax(rows, columns))
    close(CompiledKernel(softmax(rows, columns))([x], want, 2), want, 1e-6)


@pytest.mark.parametrize("shape", [(4, 33), (1, 7), (6, 128)])
def test_sum_along_and_across_rows(shape: tuple[int, int]) -> None:
    x = random(*shape)
    for maps, iterators, axis in ((ROWS, "pr", 1), (["(j,i)->(i,j)", "(j,i)->(j)"], "pr", 0)):
        out = tensor(shape[1 - axis])
        text = f"""func.func @k(%x: {tensor(*shape)}) -> {out} {{
          {filled("f", out)}
          {generic("r", {"%x": tensor(*shape)}, maps, iterators, ("%f", out), SUM)}
          return %r : {out} }}"""
        want = x.sum(axis)
        close(CompiledKernel(text)([x], want), want, 1e-5)


def test_a_long_sum_across_rows_is_made_of_parts() -> None:
    shape = (5000, 16)
    out = tensor(shape[1])
    text = f"""func.func @k(%x: {tensor(*shape)}) -> {out} {{
      {filled("f", out)}
      {generic("r", {"%x": tensor(*shape)}, ["(j,i)->(i,j)", "(j,i)->(j)"], "pr", ("%f", out), SUM)}
      return %r : {out} }}"""
    assert schedule_text(text) != "None"
    want = np.full(shape[1], 500, np.float32)
    close(CompiledKernel(text)([np.full(shape, 0.1, np.float32)], want), want, 5e-6)


def test_elementwise_with_broadcasts_collapses_its_loops() -> None:
    x, scale = tensor(2, 6, 5, 7), tensor(6, 1, 1)
    identity = "(a,b,c,d)->(a,b,c,d)"
    body = "^bb0(%v: f32, %u: f32, %o: f32): %d = arith.mulf %v, %u : f32 linalg.yield %d : f32"
    text = f"""func.func @k(%x: {x}, %s: {scale}) -> {x} {{
      %e = tensor.empty() : {x}
      {generic("r", {"%x": x, "%s": scale}, [identity, "(a,b,c,d)->(b,0,0)", identity], "pppp", ("%e", x), body)}
      return %r : {x} }}"""
    a, s = random(2, 6, 5, 7), random(6, 1, 1)
    close(CompiledKernel(text)([a, s], a * s, 4), a * s)


def test_a_permutation_is_scheduled() -> None:
    x, y = tensor(6, 4, 32), tensor(4, 6, 32)
    body = "^bb0(%v: f32, %o: f32): linalg.yield %v : f32"
    text = f"""func.func @k(%x: {x}) -> {y} {{
      %e = tensor.empty() : {y}
      {generic("r", {"%x": x}, ["(a,b,c)->(b,a,c)", "(a,b,c)->(a,b,c)"], "ppp", ("%e", y), body)}
      return %r : {y} }}"""
    a = random(6, 4, 32)
    assert schedule_text(text) != "None"
    np.testing.assert_array_equal(CompiledKernel(text)([a], a.transpose(1, 0, 2), 2), a.transpose(1, 0, 2))


def test_what_no_family_takes_runs_as_plain_loops() -> None:
    text = """func.func @k(%x: tensor<2x3xf32>, %y: tensor<4x5xf32>) -> tensor<4x5xf32> {
      %r = tensor.insert_slice %x into %y[0, 1] [2, 3] [2, 1] : tensor<2x3xf32> into tensor<4x5xf32>
      return %r : tensor<4x5xf32> }"""
    x, y = random(2, 3), random(4, 5)
    want = y.copy()
    want[::2, 1:4] = x
    assert schedule_text(text) == "None"
    np.testing.assert_array_equal(CompiledKernel(text)([x, y], want), want)


@FOR_THIS_MACHINE
def test_a_kernel_module_without_a_function_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright.core.target import detect_host
    from tilewright.passes.infra.context import PassContext
    from tilewright.passes.pipeline import compile_kernel

    for verified, said in (("1", "must have one kernel"), ("0", "has one function")):
        monkeypatch.setenv("TILEWRIGHT_VERIFY", verified)
        with pytest.raises(CompileError, match=said):
            compile_kernel(bytecode("module {}"), detect_host(), PassContext())


def test_unit_dims_behind_the_vectors_are_no_transposes() -> None:
    x, row, out = tensor(1, 3, 40), tensor(1, 40), tensor(1, 40, 1, 1)
    halve = "^bb0(%v: f32, %o: f32): %h = arith.divf %v, %two : f32 linalg.yield %h : f32"
    text = f"""func.func @k(%x: {x}) -> {out} {{
      %two = arith.constant 2.0 : f32
      %e = tensor.empty() : {out}
      {filled("f", row)}
      {generic("s", {"%x": x}, ["(n,c,h)->(n,h,c)", "(n,c,h)->(n,c)"], "ppr", ("%f", row), SUM)}
      {generic("r", {"%s": row}, ["(n,c,p,q)->(0,c)", "(n,c,p,q)->(n,c,p,q)"], "pppp", ("%e", out), halve)}
      return %r : {out} }}"""
    a = random(1, 3, 40)
    want = a.sum(1).reshape(1, 40, 1, 1) / 2
    close(CompiledKernel(text)([a], want), want)


def test_a_constant_tensor_is_read_like_an_argument() -> None:
    x, bias = tensor(5, 4), tensor(1, 4)
    body = "^bb0(%v: f32, %u: f32, %o: f32): %s = arith.addf %v, %u : f32 linalg.yield %s : f32"
    text = f"""func.func @k(%x: {x}) -> {x} {{
      %b = arith.constant dense<[[1.0, 2.0, 3.0, 4.0]]> : {bias}
      %e = tensor.empty() : {x}
      {generic("r", {"%x": x, "%b": bias}, ["(i,j)->(i,j)", "(i,j)->(0,j)", "(i,j)->(i,j)"], "pp", ("%e", x), body)}
      return %r : {x} }}"""
    a = random(5, 4)
    assert schedule_text(text) != "None"
    close(CompiledKernel(text)([a], a, 2), a + np.arange(1, 5, dtype=np.float32))


def test_matmul_whose_operands_both_lie_along_k() -> None:
    m, n, k = 6, 5, 40
    maps = ["(m,n,k)->(m,k)", "(m,n,k)->(n,k)", "(m,n,k)->(m,n)"]
    contraction = generic(
        "c", {"%a": tensor(m, k), "%b": tensor(n, k)}, maps, "ppr", ("%f", tensor(m, n)), MULTIPLY_ADD
    )
    text = f"""func.func @k(%a: {tensor(m, k)}, %b: {tensor(n, k)}) -> {tensor(m, n)} {{
      {filled("f", tensor(m, n))}
      {contraction}
      return %c : {tensor(m, n)} }}"""
    a, b = random(m, k), random(n, k)
    assert schedule_text(text) != "None"
    close(CompiledKernel(text)([a, b], a @ b.T, 3), a @ b.T)


def test_an_op_with_two_results_runs_as_plain_loops() -> None:
    text = """func.func @k(%x: tensor<3x8xf32>) -> tensor<3xi64> {
      %low = arith.constant 0xFF800000 : f32
      %none = arith.constant 0 : i64
      %e = tensor.empty() : tensor<3xf32>
      %ei = tensor.empty() : tensor<3xi64>
      %f = linalg.fill ins(%low : f32) outs(%e : tensor<3xf32>) -> tensor<3xf32>
      %fi = linalg.fill ins(%none : i64) outs(%ei : tensor<3xi64>) -> tensor<3xi64>
      %r:2 = linalg.generic {
        indexing_maps = [affine_map<(i,j)->(i,j)>, affine_map<(i,j)->(i)>, affine_map<(i,j)->(i)>],
        iterator_types = ["parallel", "reduction"]
      } ins(%x : tensor<3x8xf32>) outs(%f, %fi : tensor<3xf32>, tensor<3xi64>) {
      ^bb0(%v: f32, %best: f32, %at: i64):
        %j = linalg.index 1 : index
        %n = arith.index_cast %j : index to i64
        %more = arith.cmpf ogt, %v, %best : f32
        %b = arith.select %more, %v, %best : f32
        %a = arith.select %more, %n, %at : i64
        linalg.yield %b, %a : f32, i64
      } -> (tensor<3xf32>, tensor<3xi64>)
      return %r#1 : tensor<3xi64> }"""
    x = random(3, 8)
    want = x.argmax(1)
    np.testing.assert_array_equal(CompiledKernel(text)([x], want), want)


def test_a_packed_weight_that_lies_along_k_keeps_its_blocks() -> None:
    text = matmul(1, 64, 96, 32).replace("(m,n,k)->(k,n)", "(m,n,k)->(n,k)").replace(tensor(96, 64), tensor(64, 96))
    text = text.replace("perm = [1, 0] inner_dims_pos = [1]", "perm = [0, 1] inner_dims_pos = [0]")
    assert "row" not in schedule_text(text)


NARROW = {"f16": (np.dtype(np.float16), 2e-3), "bf16": (np.dtype(ml_dtypes.bfloat16), 2e-2)}


@pytest.mark.parametrize("element", NARROW)
@pytest.mark.parametrize("batch, m, n, k", [(5, 2, 4, 3), (2, 14, 32, 24), (1, 7, 71, 9), (3, 5, 6, 40)])
def test_matmuls_of_narrow_floats_compute_in_float32(element: str, batch: int, m: int, n: int, k: int) -> None:
    lhs, rhs = tensor(batch, m, k, element=element), tensor(batch, k, n, element=element)
    wide, out = tensor(batch, m, n), tensor(batch, m, n, element=element)
    widen = f"%wu = arith.extf %u : {element} to f32 %wv = arith.extf %v : {element} to f32"
    multiply_add = MULTIPLY_ADD.replace("%u: f32, %v: f32", f"%u: {element}, %v: {element}")
    multiply_add = multiply_add.replace("%p = arith.mulf %u, %v", f"{widen} %p = arith.mulf %wu, %wv")
    narrow = f"^bb0(%v: f32, %o: {element}): %t = arith.truncf %v : f32 to {element} linalg.yield %t : {element}"
    maps, same = ["(b,m,n,k)->(b,m,k)", "(b,m,n,k)->(b,k,n)", "(b,m,n,k)->(b,m,n)"], "(b,m,n)->(b,m,n)"
    text = f"""func.func @k(%a: {lhs}, %b: {rhs}) -> {out} {{
      {filled("f", wide)}
      %e = tensor.empty() : {out}
      {generic("c", {"%a": lhs, "%b": rhs}, maps, "pppr", ("%f", wide), multiply_add)}
      {generic("r", {"%c": wide}, [same, same], "ppp", ("%e", out), narrow)}
      return %r : {out} }}"""
    dtype, tolerance = NARROW[element]
    a, b = random(batch, m, k).astype(dtype), random(batch, k, n).astype(dtype)
    want = a.astype(np.float32) @ b.astype(np.float32)
    got = CompiledKernel(text)([a, b], np.zeros(want.shape, dtype), 2)
    close(got.astype(np.float32), want, tolerance)


@pytest.mark.parametrize("shape", [(), (4,), (1, 1, 2, 2), (3, 40), (1000,), (0,), (2, 4, 0)])
def test_a_result_that_is_an_argument_is_copied(shape: tuple[int, ...]) -> None:
    x, dims = tensor(*shape), ",".join("abcd"[: len(shape)])
    body = "^bb0(%v: f32, %o: f32): linalg.yield %v : f32"
    text = f"""func.func @k(%x: {x}) -> {x} {{
      %e = tensor.empty() : {x}
      {generic("r", {"%x": x}, [f"({dims})->({dims})"] * 2, "p" * len(shape), ("%e", x), body)}
      return %r : {x} }}"""
    a = random(*shape)
    np.testing.assert_array_equal(CompiledKernel(text)([a], a, 2), a)


def test_an_empty_tensor_takes_part() -> None:
    text = """func.func @k(%x: tensor<2x0x4xf32>, %y: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
      %c = tensor.concat dim(1) %x, %y : (tensor<2x0x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
      return %c : tensor<2x3x4xf32> }"""
    x, y = random(2, 0, 4), random(2, 3, 4)
    np.testing.assert_array_equal(CompiledKernel(text)([x, y], y), y)


def padded(low: list[int], high: list[int], value: str = "0.25") -> str:
    x = tensor(5, 3, 40)
    shape = [a + n + b for a, n, b in zip(low, (5, 3, 40), high, strict=True)]
    body = "^bb0(%v: f32, %o: f32): %n = arith.negf %v : f32 linalg.yield %n : f32"
    return f"""func.func @k(%x: {x}) -> {tensor(*shape)} {{
      %c = arith.constant {value} : f32
      %e = tensor.empty() : {x}
      {generic("r", {"%x": x}, ["(a,b,c)->(a,b,c)", "(a,b,c)->(a,b,c)"], "ppp", ("%e", x), body)}
      %p = tensor.pad %r low{low} high{high} {{
      ^bb0(%i: index, %j: index, %k: index):
        tensor.yield %c : f32
      }} : {x} to {tensor(*shape)}
      return %p : {tensor(*shape)} }}"""


@pytest.mark.parametrize("low, high", [([1, 1, 0], [1, 1, 0]), ([0, 2, 0], [3, 0, 0]), ([2, 0, 0], [0, 0, 0])])
def test_a_kernel_writes_the_padding_around_its_result(low: list[int], high: list[int]) -> None:
    x = random(5, 3, 40)
    want = np.pad(-x, list(zip(low, high, strict=True)), constant_values=0.25)
    text = padded(low, high)
    assert schedule_text(text) != "None"
    kernel = CompiledKernel(text)
    for chunks in (1, 2, 5):
        np.testing.assert_array_equal(kernel([x], want, chunks), want)


def test_a_range_of_steps_fills_the_padding_of_its_rows() -> None:
    """What one thread had filled for all would be in its cache alone, and others need it."""
    x, made = aligned(random(64, 64)), aligned(np.full((66, 64), 77, np.float32))
    body = "^bb0(%v: f32, %o: f32): %n = arith.negf %v : f32 linalg.yield %n : f32"
    kernel = CompiledKernel(f"""func.func @k(%x: {tensor(64, 64)}) -> {tensor(66, 64)} {{
      %c = arith.constant 0.0 : f32
      %e = tensor.empty() : {tensor(64, 64)}
      {generic("r", {"%x": tensor(64, 64)}, ["(a,b)->(a,b)", "(a,b)->(a,b)"], "pp", ("%e", tensor(64, 64)), body)}
      %p = tensor.pad %r low[1, 0] high[1, 0] {{
      ^bb0(%i: index, %j: index):
        tensor.yield %c : f32
      }} : {tensor(64, 64)} to {tensor(66, 64)}
      return %p : {tensor(66, 64)} }}""")
    extent = kernel.kernel.extent
    assert extent > 1
    kernel.run([x.ctypes.data, made.ctypes.data], 0, extent // 2)
    assert np.all(made[0] == 0) and np.all(made[-1] == 77), "half of the rows, and the border of these"
    kernel.run([x.ctypes.data, made.ctypes.data], extent // 2, extent)
    np.testing.assert_array_equal(made, np.pad(-x, ((1, 1), (0, 0))))


def test_rows_are_written_with_gaps() -> None:
    x, whole = tensor(5, 40), tensor(5, 56)
    text = f"""func.func @k(%x: {x}) -> {whole} {{
      %e = tensor.empty() : {x}
      {
        generic(
            "r",
            {"%x": x},
            ["(a,b)->(a,b)", "(a,b)->(a,b)"],
            "pp",
            ("%e", x),
            "^bb0(%v: f32, %o: f32): %n = arith.negf %v : f32 linalg.yield %n : f32",
        )
    }
      %w = tensor.empty() : {whole}
      %p = tensor.insert_slice %r into %w[0, 0] [5, 40] [1, 1] : {x} into {whole}
      return %p : {whole} }}"""
    assert schedule_text(text) != "None"
    data = random(5, 40)
    got = CompiledKernel(text)([data], np.zeros((5, 56), np.float32), 2)
    np.testing.assert_array_equal(got[:, :40], -data)


def test_a_padding_along_vectors_runs_as_plain_loops() -> None:
    x = random(5, 3, 40)
    want = np.pad(-x, [(0, 0), (0, 0), (1, 2)], constant_values=0.25)
    text = padded([0, 0, 1], [0, 0, 2])
    assert schedule_text(text) == "None"
    np.testing.assert_array_equal(CompiledKernel(text)([x], want), want)


def test_a_slice_is_read_where_it_lies() -> None:
    whole, part = tensor(9, 7, 40), tensor(3, 5, 32)
    body = "^bb0(%v: f32, %o: f32): %n = arith.negf %v : f32 linalg.yield %n : f32"
    text = f"""func.func @k(%x: {whole}) -> {part} {{
      %s = tensor.extract_slice %x[2, 1, 8] [3, 5, 32] [2, 1, 1] : {whole} to {part}
      %e = tensor.empty() : {part}
      {generic("r", {"%s": part}, ["(a,b,c)->(a,b,c)", "(a,b,c)->(a,b,c)"], "ppp", ("%e", part), body)}
      return %r : {part} }}"""
    x = random(9, 7, 40)
    want = -x[2:8:2, 1:6, 8:40]
    assert schedule_text(text) != "None"
    np.testing.assert_array_equal(CompiledKernel(text)([x], want, 2), want)


def test_a_gather_from_a_constant_table() -> None:
    text = f"""func.func @k(%i: tensor<4xi64>) -> {tensor(4, 3)} {{
      %t = arith.constant dense<[[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]> : {tensor(2, 3)}
      %e = tensor.empty() : {tensor(4, 3)}
      %r = linalg.generic {{indexing_maps = [affine_map<(a, b) -> (a)>, affine_map<(a, b) -> (a, b)>],
                           iterator_types = ["parallel", "parallel"]}}
        ins(%i : tensor<4xi64>) outs(%e : {tensor(4, 3)}) {{
      ^bb0(%v: i64, %o: f32):
        %row = arith.index_cast %v : i64 to index
        %column = linalg.index 1 : index
        %x = tensor.extract %t[%row, %column] : {tensor(2, 3)}
        linalg.yield %x : f32
      }} -> {tensor(4, 3)}
      return %r : {tensor(4, 3)} }}"""
    assert schedule_text(text) != "None"
    rows = np.array([1, 0, 0, 1])
    want = np.arange(6, dtype=np.float32).reshape(2, 3)[rows]
    np.testing.assert_array_equal(CompiledKernel(text)([rows], want), want)
