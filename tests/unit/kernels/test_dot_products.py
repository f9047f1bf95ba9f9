"""Products of unsigned and signed bytes, summed up in 32 bits: four of them at a time, exactly, on any CPU."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
import pytest
from cpu_targets import FOR_THIS_MACHINE, other_targets
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_runner import TARGET, CompiledKernel, before_schedule, bytecode, kernels_for
from kernel_texts import generic, tensor
from samples import campaign
from shared_kernels import describe_kernels, noting_kernels

import tilewright as tw
from tilewright.core.errors import ScheduleError
from tilewright.core.target import Target
from tilewright.dialects import codegen, ir
from tilewright.dialects.context import make_context
from tilewright.passes.infra.context import PassContext
from tilewright.passes.ir.kernel import list_functions
from tilewright.passes.pipeline import lower_kernel
from tilewright.passes.schedule.families.packing import contraction_packing
from tilewright.passes.schedule.language.loopnest import KernelValue
from tilewright.passes.schedule.language.schedule import Schedule
from tilewright.passes.schedule.tiling.values import values_of

RNG = np.random.default_rng(0)


# Four products in an instruction where this CPU has one, and two in vectors of each width.
@pytest.fixture(autouse=True, scope="module", params=["x86", *other_targets("x86-64-v4", "haswell", "x86-64")])
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    """The target of the module's kernels."""
    with kernels_for(request.param) as chosen:
        yield chosen


PRODUCTS = (
    "^bb0(%u: i8, %v: i8, %o: i32): %wu = arith.extui %u : i8 to i32 %wv = arith.extsi %v : i8 to i32 "
    "%p = arith.muli %wu, %wv : i32 %s = arith.addi %o, %p : i32 linalg.yield %s : i32"
)


def kernel(x: list[int], w: list[int], y: list[int], packed: list[int], order: str, dims: str, maps: list[str]) -> str:
    """A sum of products of bytes, plus a number for each channel; ``dims`` are those of the weight that are packed."""
    channels = y[-1]
    kinds = {"x": tensor(*x, element="i8"), "w": tensor(*w, element="i8"), "y": tensor(*y, element="i32")}
    loops = maps[0].split("->")[0].count(",") + 1
    axes = ", ".join(f"d{i}" for i in range(len(y)))
    sums = generic(
        "c", {"%x": kinds["x"], "%w": kinds["w"]}, maps, "p" * len(y) + "r" * (loops - len(y)),
        ("%f", kinds["y"]), PRODUCTS,
    )  # fmt: skip
    offset = generic(
        "r", {"%c": kinds["y"], "%b": tensor(channels, element="i32")},
        [f"({axes})->({axes})", f"({axes})->(d{len(y) - 1})", f"({axes})->({axes})"], "p" * len(y), ("%e", kinds["y"]),
        "^bb0(%u: i32, %v: i32, %o: i32): %s = arith.addi %u, %v : i32 linalg.yield %s : i32",
    )  # fmt: skip
    types = f"%x: {kinds['x']}, %wp: {tensor(*packed, element='i8')}, %b: {tensor(channels, element='i32')}"
    return f"""func.func @k({types}) -> {kinds["y"]} {{
      %we = tensor.empty() : {kinds["w"]}
      %w = linalg.unpack %wp outer_dims_perm = [{order}] inner_dims_pos = [{dims}] inner_tiles = [{packed[-2]}, 4]
        into %we : {tensor(*packed, element="i8")} -> {kinds["w"]}
      %zero = arith.constant 0 : i32
      %e = tensor.empty() : {kinds["y"]}
      %f = linalg.fill ins(%zero : i32) outs(%e : {kinds["y"]}) -> {kinds["y"]}
      {sums}
      {offset}
      return %r : {kinds["y"]} }}"""


def matmul(m: int, n: int, k: int, block: int) -> str:
    loops = "(m,n,k)"
    maps = [f"{loops}->(m,k)", f"{loops}->(k,n)", f"{loops}->(m,n)"]
    return kernel([m, k], [k, n], [m, n], [-(-n // block), -(-k // 4), block, 4], "1, 0", "1, 0", maps)


def conv(size: int, c: int, f: int, window: int, stride: int, block: int) -> str:
    out = (size - window) // stride + 1
    loops = "(n,h,w,f,p,q,c)"
    image = f"{loops}->(n,h*{stride}+p,w*{stride}+q,c)"
    maps = [image, f"{loops}->(f,c,p,q)", f"{loops}->(n,h,w,f)"]
    packed = [-(-f // block), window, window, -(-c // 4), block, 4]
    return kernel([1, size, size, c], [f, c, window, window], [1, out, out, f], packed, "0, 2, 3, 1", "0, 1", maps)


def pack(weight: np.ndarray, block: int) -> np.ndarray:
    """[..., k, n] -> [n / block, ..., k / 4, block, 4], padded with zeros."""
    *outer, k, n = weight.shape
    padded = np.zeros((*outer, -(-k // 4) * 4, -(-n // block) * block), np.int8)
    padded[..., :k, :n] = weight
    parts = padded.reshape(*outer, -1, 4, -(-n // block), block)
    return np.ascontiguousarray(np.moveaxis(np.moveaxis(parts, -2, 0), -2, -1))


def bytes_of(dtype: type, *shape: int) -> np.ndarray:
    """Random bytes, with the greatest ones among them."""
    made = RNG.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype, endpoint=True)
    made.flat[: made.size // 3] = np.iinfo(dtype).max
    return made


def check(text: str, arrays: list[np.ndarray], want: np.ndarray) -> CompiledKernel:
    made = CompiledKernel(text)
    np.testing.assert_array_equal(made([a.view(np.int8) if a.itemsize == 1 else a for a in arrays], want, 2), want)
    assert "dot_product" in made.kernel.schedule
    return made


# Rows beyond a tile, channels beyond a block or less than a vector, sums that are no multiple of four or shorter.
@pytest.mark.parametrize(
    "m, n, k, block",
    [
        (30, 64, 32, 32),
        (5, 48, 20, 32),
        (13, 40, 27, 32),
        (1, 64, 18, 32),
        (7, 9, 3, 16),
        (2, 33, 5, 32),
        (20, 65, 9, 32),
    ],
)
def test_matmul(m, n, k, block):
    a, w, b = bytes_of(np.uint8, m, k), bytes_of(np.int8, k, n), RNG.integers(-(1 << 20), 1 << 20, n).astype(np.int32)
    check(matmul(m, n, k, block), [a, pack(w, block), b], a.astype(np.int32) @ w.astype(np.int32) + b)


# Tiles that matrices in registers hold where the CPU has such: several of one shape, the last over rows of those before
# or of another shape, steps that are no whole row of one, channels that are half of a block, and too few rows.
@pytest.mark.parametrize(
    "m, n, k, block",
    [(70, 64, 128, 32), (33, 40, 96, 32), (25, 33, 144, 32), (41, 16, 60, 16), (4, 32, 256, 32), (3, 32, 64, 32)],
)
def test_matmul_of_whole_matrices(m, n, k, block):
    a, w, b = bytes_of(np.uint8, m, k), bytes_of(np.int8, k, n), RNG.integers(-(1 << 20), 1 << 20, n).astype(np.int32)
    check(matmul(m, n, k, block), [a, pack(w, block), b], a.astype(np.int32) @ w.astype(np.int32) + b)


@settings(max_examples=4, deadline=None)
@given(m=st.integers(1, 40), n=st.integers(2, 80), k=st.integers(2, 40), data=st.data())
def test_any_bytes_of_any_shape(m, n, k, data):
    """Sums of the extremes, which pairs in 16 bits do not hold, among them."""
    packing, seed = contraction_packing(n, 8, TARGET.get()), data.draw(st.integers(0, 1 << 20))
    assert packing is not None
    few = np.random.default_rng(seed)
    a, w = (few.choice(np.array(c, d), s) for c, d, s in (([0, 1, 255], "u1", (m, k)), ([-128, 3, 127], "i1", (k, n))))
    b = np.zeros(n, np.int32)
    want = a.astype(np.int32) @ w.astype(np.int32)
    check(matmul(m, n, k, packing.n_tile), [a, pack(w, packing.n_tile), b], want)


@pytest.mark.parametrize("k", [8, 16, 37, 64])
def test_one_row_by_one_column(k):
    """A sum of halves of vectors, added up by hand, was one of neighbours to LLVM, and wrong."""
    types = f"%x: {tensor(k, element='i8')}, %w: {tensor(k, element='i8')}"
    text = f"""func.func @k({types}) -> tensor<i32> {{
      %z = arith.constant 0 : i32
      %e = tensor.empty() : tensor<i32>
      %f = linalg.fill ins(%z : i32) outs(%e : tensor<i32>) -> tensor<i32>
      {
        generic(
            "c",
            {"%x": tensor(k, element="i8"), "%w": tensor(k, element="i8")},
            ["(k)->(k)", "(k)->(k)", "(k)->()"],
            "r",
            ("%f", "tensor<i32>"),
            PRODUCTS,
        )
    }
      return %c : tensor<i32>
    }}"""
    x, w = bytes_of(np.uint8, k), bytes_of(np.int8, k)
    want = np.array([x.astype(np.int32) @ w.astype(np.int32)])
    np.testing.assert_array_equal(CompiledKernel(text)([x.view(np.int8), w], want, 1), want)


@campaign("9-8-32-3-1", "11-3-24-3-2", "6-13-40-1-1", "9-5-33-3-1", "16-64-40-3-1", "7-32-16-1-1")
@pytest.mark.parametrize(
    "size, c, f, window, stride",
    [
        (9, 8, 32, 3, 1),
        (11, 3, 24, 3, 2),
        (6, 13, 40, 1, 1),
        (9, 5, 33, 3, 1),
        (16, 64, 40, 3, 1),  # of these each step may be matrices
        (19, 48, 32, 3, 2),
        (7, 32, 16, 1, 1),
    ],
)
def test_convolution(size, c, f, window, stride):
    x, w = bytes_of(np.uint8, 1, size, size, c), bytes_of(np.int8, f, c, window, window)
    b = RNG.integers(-1000, 1000, f).astype(np.int32)
    block = 16 if f <= 16 else 32
    windows = np.lib.stride_tricks.sliding_window_view(x, (window, window), (1, 2))[:, ::stride, ::stride]
    want = np.einsum("nhwcpq,fcpq->nhwf", windows.astype(np.int32), w.astype(np.int32), dtype=np.int32) + b
    check(conv(size, c, f, window, stride, block), [x, pack(w.transpose(2, 3, 1, 0), block), b], want)


@FOR_THIS_MACHINE
def test_rows_of_the_weight_are_asked_for_ahead():
    """Both lines of a step's 128 bytes, and the share of the next block that a tile of rows has."""
    with make_context(), ir.Location.unknown():
        module, _ = lower_kernel(
            bytecode(matmul(30, 64, 256, 32)), Target.parse("x86 -mcpu=icelake-server"), PassContext()
        )
        assert str(module).count("llvm.intr.prefetch") == 3


@pytest.mark.parametrize(
    "cpu, instruction, register",
    [
        ("icelake-server", "vpdpbusd", "zmm"),
        ("alderlake", "vpdpbusd", "ymm"),
        ("skylake-avx512", "vpmaddwd", "zmm"),
        ("haswell", "vpmaddwd", "ymm"),
        ("knl", "vpmaddwd", "ymm"),
        ("sandybridge", "vpmaddwd", "xmm"),
        ("x86-64", "pmaddwd", "xmm"),
    ],
)
def test_products_are_added_up_by_one_instruction(cpu, instruction, register):
    target = Target.parse(f"x86 -mcpu={cpu}")
    with make_context(), ir.Location.unknown():
        text = matmul(48, 64, 64, 2 * target.dot_product.lanes)
        module, described = lower_kernel(bytecode(text), target, PassContext())
        code = codegen.emit_code(module, target, "asm").decode()
    assert "dot_product" in described.schedule
    products = [line for line in code.splitlines() if f"\t{instruction}\t" in line]
    assert products and all(f"%{register}" in line for line in products)
    assert "pmulld" not in code and "pmaddubsw" not in code
    loop = max(code.split(".LBB"), key=lambda block: block.count(instruction))
    assert not [line for line in loop.splitlines() if "(%rsp)" in line and "mm" in line], "sums are spilled"


def test_products_of_matrices_stay_in_registers():
    """Sums of a window begin before its loops, and are stored behind these; each register has one shape."""
    target = Target.parse("x86 -mcpu=sapphirerapids")
    with make_context(), ir.Location.unknown():
        module, _ = lower_kernel(bytecode(conv(18, 64, 32, 3, 1, 32)), target, PassContext())
        code = codegen.emit_code(module, target, "asm").decode()
    tiles = [line.split()[0] for line in code.splitlines() if "%tmm" in line or "tilecfg" in line or "tilerel" in line]
    assert tiles[0] == "ldtilecfg" and tiles[-1] == "tilerelease" and tiles.count("ldtilecfg") == 1
    first, *_, last = (i for i, name in enumerate(tiles) if name == "tdpbusd")
    assert {"tilezero"} == set(tiles[1 : tiles.index("tileloadd")])
    assert "tilestored" not in tiles[first:last] and "tilezero" not in tiles[first:last]
    assert "vpdpbusd" not in code


@FOR_THIS_MACHINE
@pytest.mark.parametrize("cpu", ["x86", "x86 -mcpu=haswell"])
def test_blocks_of_any_number_of_rows_are_few(cpu: str) -> None:
    """Each reads all of the weight: a rest of rows is one block, which may begin in the one before."""
    text = "(uint8[M, 70] x) => (int32[M, 40] y) { y = MatMulInteger(x, w, z) }"
    made = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 18]> g {text}')
    weight, zero = np.random.default_rng(4).integers(-128, 128, (70, 40)).astype(np.int8), np.array(7, np.uint8)
    made.graph.initializer.extend(onnx.numpy_helper.from_array(a, n) for a, n in ((weight, "w"), (zero, "z")))
    with noting_kernels() as found:
        module = tw.compile(made, cpu, workers=0)
    schedules = [line for kernel in found for line in kernel.schedule.splitlines() if line.endswith(" x 40:")]
    assert [f"blocks of {rows} x 40:" for rows in (32, 16, 12, 8, 6, 4, 3, 2, 1)] == schedules
    for rows in (*range(51), 95, 97, 300):
        x = bytes_of(np.uint8, rows, 70)
        for module.num_threads in (1, 3):
            np.testing.assert_array_equal(module(x)[0], (x.astype(np.int32) - 7) @ weight.astype(np.int32))


@pytest.mark.parametrize(
    "cpu, rows, shared",
    [("sapphirerapids", 50, False), ("sapphirerapids", 200, True), ("icelake-server", 50, True)],
)
def test_threads_share_products_that_take_longer_than_a_fork(cpu, rows, shared):
    """Registers of matrices make 1024 products in a cycle: 50 rows by 256 x 256 take two microseconds."""
    target = Target.parse(f"x86 -mcpu={cpu}")
    with make_context(), ir.Location.unknown():
        _, described = lower_kernel(bytecode(matmul(rows, 256, 256, 32)), target, PassContext())
    assert "dot_product" in described.schedule and described.parallel == shared


@FOR_THIS_MACHINE
@pytest.mark.parametrize("cpu", ["x86", "x86 -mcpu=haswell"])
@pytest.mark.parametrize("given", [True, False], ids=["weight", "two inputs"])
def test_sums_of_odd_lengths_are_exact(cpu: str, given: bool) -> None:
    """Registers of matrices take both operands padded; what the zero points add is that of the numbers alone."""
    inputs = "uint8[3, 33, 257] x" if given else "uint8[3, 33, 257] x, int8[257, 65] w"
    text = f"({inputs}) => (int32[3, 33, 65] y) {{ y = MatMulInteger(x, w, z, v) }}"
    made = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 18]> g {text}')
    weight = np.random.default_rng(4).integers(-128, 128, (257, 65)).astype(np.int8)
    known = {"z": np.array(7, np.uint8), "v": np.array(-3, np.int8)} | ({"w": weight} if given else {})
    made.graph.initializer.extend(onnx.numpy_helper.from_array(a, n) for n, a in known.items())
    x = bytes_of(np.uint8, 3, 33, 257)
    want = (x.astype(np.int32) - 7) @ (weight.astype(np.int32) + 3)
    np.testing.assert_array_equal(tw.compile(made, cpu, workers=0)(x, *([] if given else [weight]))[0], want)


@campaign("K, N-x86-x86", "K, N-x86 -mcpu=haswell-x86", "N, K-x86 -mcpu=haswell-x86")
@FOR_THIS_MACHINE
@pytest.mark.parametrize("cpu", ["x86", "x86 -mcpu=haswell"])
@pytest.mark.parametrize("right", ["K, N", "N, K"])
def test_two_operands_of_open_sizes_are_multiplied_in_words(cpu: str, right: str) -> None:
    """Four steps of a sum are a word, also of what is left of a sum, or of a matrix that is transposed."""
    turned = right == "N, K"
    turn = "t = Transpose<perm = [1, 0]>(w)" if turned else "t = Identity(w)"
    inputs = f"uint8[M, K] x, uint8[{right}] w, uint8 z, uint8 v"
    text = f"({inputs}) => (int32[M, N] y) {{ {turn} y = MatMulInteger(x, t, z, v) }}"
    with noting_kernels() as found:
        module = tw.compile(
            onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 18]> g {text}'), cpu, workers=0
        )
    assert all(kernel.schedule for kernel in found), [kernel.name for kernel in found]
    for m, k, n in (
        (1, 1, 1),
        (5, 0, 3),
        (0, 4, 4),
        (3, 5, 1),
        (1, 70, 40),
        (33, 66, 65),
        (40, 127, 200),
        (70, 8, 130),
    ):
        x, w = bytes_of(np.uint8, m, k), bytes_of(np.uint8, *((n, k) if turned else (k, n)))
        want = (x.astype(np.int32) - 7) @ ((w.T if turned else w).astype(np.int32) - 200)
        for module.num_threads in (1, 2):
            np.testing.assert_array_equal(module(x, w, np.uint8(7), np.uint8(200))[0], want)


@FOR_THIS_MACHINE
def test_stacks_of_which_the_run_repeats_one_are_multiplied_in_words() -> None:
    """What is repeated are bytes, which a product knows as such."""
    text = "(uint8[P, M, K] x, int8[Q, K, N] w) => (int32[R, M, N] y) { y = MatMulInteger(x, w) }"
    module = tw.compile(onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 18]> g {text}'), workers=0)
    routine = module.manifest.program.routine
    assert routine is not None
    assert sum(step.facts.get("kernel", "").startswith("extu_shl_or") for step in routine.calls) == 2
    for p, q in ((1, 1), (3, 3), (1, 4), (4, 1)):
        x, w = bytes_of(np.uint8, p, 33, 70), bytes_of(np.int8, q, 70, 40)
        np.testing.assert_array_equal(module(x, w)[0], x.astype(np.int32) @ w.astype(np.int32))


@FOR_THIS_MACHINE
@pytest.mark.parametrize("columns", [32, 72, 128])
def test_fewer_rows_than_matrices_have_are_copied(columns: int) -> None:
    """All blocks of registers of matrices have 16 rows: to set other shapes takes as long as a panel's products."""
    text = f"(uint8[A, B, 80] x, float[A, B, {columns}] r) => (float[A, B, {columns}] y)"
    ops = f"p = MatMulInteger(x, w, z) c = Cast<to = {onnx.TensorProto.FLOAT}>(p) m = Mul(c, s) y = Add(m, r)"
    made = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 18]> g {text} {{ {ops} }}')
    weight, zero = bytes_of(np.int8, 80, columns), np.array(7, np.uint8)
    scales = RNG.random(columns, np.float32)
    weights = ((weight, "w"), (zero, "z"), (scales, "s"))
    made.graph.initializer.extend(onnx.numpy_helper.from_array(a, n) for a, n in weights)
    found = describe_kernels(made, Target.parse("x86 -mcpu=sapphirerapids")).values()
    schedules = [line for kernel in found for line in kernel.schedule.splitlines() if line.startswith("blocks of")]
    assert [f"blocks of {rows} x {columns}:" for rows in (32, 16, 3, 2, 1)] == schedules
    assert any("fewer rows than 16, from 3 on, are copied into a block of these" in kernel.schedule for kernel in found)
    module = tw.compile(made, workers=0)
    for images, rows in ((0, 3), *((1, rows) for rows in range(51)), (2, 5), (3, 5), (5, 19), (1, 300)):
        x = bytes_of(np.uint8, images, rows, 80)
        r = RNG.random((images, rows, columns), np.float32)
        want = ((x.astype(np.int32) - 7) @ weight.astype(np.int32)) * scales + r
        for module.num_threads in (1, 3):
            np.testing.assert_allclose(module(x, r)[0], want, rtol=1e-6)


def test_a_schedule_without_the_instruction_is_refused():
    text = matmul(8, 32, 16, 32)
    values = Schedule.start(_values(text))
    plain = values.tile("m", 4, "n", 32).vectorize("n.1").unroll("m.1").pack(1, "n", 32)
    with pytest.raises(ScheduleError, match="a tile offset is no multiple of the packed block 4"):
        CompiledKernel(text, schedule=plain)


def _values(text: str) -> tuple[KernelValue, ...]:
    with make_context(), ir.Location.unknown():
        module = before_schedule(text)
        return values_of(list_functions(module)[0])
