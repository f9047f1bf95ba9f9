"""What is in the loop of a matrix product: whole vectors, accumulators in registers, nothing of a library."""

from __future__ import annotations

import pytest
from kernel_runner import bytecode
from samples import campaign

from tilewright.core.target import Target
from tilewright.dialects import codegen, ir
from tilewright.dialects.context import make_context
from tilewright.passes.infra.context import PassContext
from tilewright.passes.ir.kernel import list_functions
from tilewright.passes.pipeline import lower_kernel
from tilewright.passes.schedule.families.table import choose_schedule
from tilewright.passes.schedule.language.schedule import Schedule

# LLVM prefers 256 bits on the first three of 16 lanes, and is to use 512.
CPUS = ("skylake-avx512", "icelake-server", "sapphirerapids", "znver4", "knl", "haswell", "znver3")
CPUS += ("sandybridge", "bdver2", "x86-64-v2", "x86-64")


MATMUL = """func.func @k(%a: tensor<MxKxf32>, %b: tensor<KxNxf32>) -> tensor<MxNxf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<MxNxf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<MxNxf32>) -> tensor<MxNxf32>
  %r = linalg.generic {
    indexing_maps = [affine_map<(m,n,k)->(m,k)>, affine_map<(m,n,k)->(k,n)>, affine_map<(m,n,k)->(m,n)>],
    iterator_types = ["parallel", "parallel", "reduction"]
  } ins(%a, %b : tensor<MxKxf32>, tensor<KxNxf32>) outs(%f : tensor<MxNxf32>) {
  ^bb0(%u: f32, %v: f32, %o: f32):
    %p = arith.mulf %u, %v fastmath<contract> : f32
    %s = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<MxNxf32>
  return %r : tensor<MxNxf32> }"""


@pytest.fixture(scope="module")
def target() -> None:
    """Nothing runs here, so targets are the test's own."""


@pytest.mark.parametrize(
    ("text", "bits"),
    [
        ("x86", 32),
        *((f"x86 -mcpu={cpu}", 32) for cpu in CPUS),
        ("x86", 64),
        ("x86 -mcpu=haswell", 64),
        ("x86 -mcpu=znver4", 64),
    ],
)
def test_matmul_keeps_its_accumulators_in_registers(text: str, bits: int) -> None:
    target = Target.parse(text)
    columns = 2 * target.lanes * 32 // bits
    with make_context(), ir.Location.unknown():
        source = MATMUL.replace("M", "140").replace("N", str(columns)).replace("K", "64").replace("f32", f"f{bits}")
        whole = ir.Module.parse(source)
        schedule = choose_schedule(list_functions(whole)[0], target)
        module, _ = lower_kernel(bytecode(source), target, PassContext())
        text = codegen.emit_code(module, target, "asm").decode()
    assert isinstance(schedule, Schedule)
    rows = schedule.result.tile[0].steps
    product = "vfma" if target.has_fma else "mulps"
    loop = max(text.split(".LBB"), key=lambda block: block.count(product))
    assert rows == {32: 14, 16: 6}[target.registers]
    assert loop.count(product) >= 2 * rows, "each row of the register tile has one FMA for each vector"
    assert {16: "%zmm", 8: "%ymm", 4: "%xmm"}[target.lanes] in loop
    stacked = [line for line in str(module).splitlines() if "alloca" in line]
    assert all(line.strip().endswith("x i32 : (i32) -> !llvm.ptr") for line in stacked), "more than the CPU's mode"
    assert not [line for line in loop.splitlines() if "(%rsp)" in line and "mm" in line], "accumulators are spilled"
    assert "fmaf" not in text, "a library's function for what the target has no instruction for"


def find_spills(source: str, target: Target) -> tuple[Schedule, list[str]]:
    """A kernel's schedule, and the lines of its largest loop of multiply-adds that read or write spilled vectors."""
    with make_context(), ir.Location.unknown():
        whole = ir.Module.parse(source)
        schedule = choose_schedule(list_functions(whole)[0], target)
        module, _ = lower_kernel(bytecode(source), target, PassContext())
        text = codegen.emit_code(module, target, "asm").decode()
    assert isinstance(schedule, Schedule)
    product = "vfma" if target.has_fma else "mulp"
    loop = max(text.split(".LBB"), key=lambda block: block.count(product))
    return schedule, [line for line in loop.splitlines() if "(%rsp)" in line and "mm" in line]


@pytest.mark.parametrize("text", ["x86", "x86 -mcpu=skylake-avx512", "x86 -mcpu=znver4", "x86 -mcpu=haswell"])
@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("n", [48, 77, 96])
def test_columns_in_their_place_leave_accumulators_in_registers(text: str, kind: str, n: int) -> None:
    """Two steps at once of rows that lie apart, and tiles of 27 rows of doubles, spilled half of them."""
    target = Target.parse(text)
    source = MATMUL.replace("M", "252").replace("N", str(n)).replace("K", "40").replace("f32", kind)
    schedule, spilled = find_spills(source, target)
    assert schedule.result.tile[0].steps == {32: 14, 16: 6}[target.registers]
    assert not spilled


# Filters of a signal: windows of many steps over one channel, whose weight is packed.
SIGNAL = """func.func @k(%x: tensor<1x1x16000xf32>, %w: tensor<4x400x1xTxf32>) -> tensor<1x98xNxf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x98xNxf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<1x98xNxf32>) -> tensor<1x98xNxf32>
  %d = tensor.empty() : tensor<Nx1x400xf32>
  %u = linalg.unpack %w outer_dims_perm = [0, 2, 1] inner_dims_pos = [0] inner_tiles = [T] into %d
    : tensor<4x400x1xTxf32> -> tensor<Nx1x400xf32>
  %r = linalg.generic {
    indexing_maps = [affine_map<(n,o,f,k,c)->(n,c,o*160+k)>, affine_map<(n,o,f,k,c)->(f,c,k)>,
                     affine_map<(n,o,f,k,c)->(n,o,f)>],
    iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]
  } ins(%x, %u : tensor<1x1x16000xf32>, tensor<Nx1x400xf32>) outs(%f : tensor<1x98xNxf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<1x98xNxf32>
  return %r : tensor<1x98xNxf32> }"""


@pytest.mark.parametrize("text", ["x86", "x86 -mcpu=skylake-avx512", "x86 -mcpu=znver4", "x86 -mcpu=haswell"])
def test_windows_over_one_channel_leave_accumulators_in_registers(text: str) -> None:
    target = Target.parse(text)
    width = 2 * target.lanes
    schedule, spilled = find_spills(SIGNAL.replace("T", str(width)).replace("N", str(4 * width)), target)
    assert schedule.result.tile[0].steps <= {32: 12, 16: 6}[target.registers]
    assert not spilled


# Filters by pixels of a row, in channels first.
FILTERS = """func.func @k(%x: tensor<1x5x3300xf32>, %w: tensor<2x5x504xf32>) -> tensor<1x504x3199xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x504x3199xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<1x504x3199xf32>) -> tensor<1x504x3199xf32>
  %r = linalg.generic {
    indexing_maps = [affine_map<(n,f,o,c,k)->(n,c,o+k)>, affine_map<(n,f,o,c,k)->(k,c,f)>,
                     affine_map<(n,f,o,c,k)->(n,f,o)>],
    iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]
  } ins(%x, %w : tensor<1x5x3300xf32>, tensor<2x5x504xf32>) outs(%f : tensor<1x504x3199xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<1x504x3199xf32>
  return %r : tensor<1x504x3199xf32> }"""


@pytest.mark.parametrize("text", ["x86", "x86 -mcpu=skylake-avx512", "x86 -mcpu=znver5", "x86 -mcpu=haswell"])
def test_filters_by_pixels_leave_accumulators_in_registers(text: str) -> None:
    target = Target.parse(text)
    schedule, spilled = find_spills(FILTERS, target)
    assert schedule.result.tile[0].steps == {32: 12, 16: 5}[target.registers]
    assert not spilled


OPEN_MATMUL = """func.func @k(%a: tensor<?x?xf32>, %b: tensor<?xNxf32>, %rows: index, %m: index) -> tensor<?xNxf32>
    attributes {tw.result_sizes = 1 : i64, tw.same_sizes = [array<i64: 0, 0, 2, -1, 3, -1, 4, 0>, array<i64: 0, 1, 1, 0>]} {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty(%m) : tensor<?xNxf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<?xNxf32>) -> tensor<?xNxf32>
  %r = linalg.generic {
    indexing_maps = [affine_map<(m,n,k)->(m,k)>, affine_map<(m,n,k)->(k,n)>, affine_map<(m,n,k)->(m,n)>],
    iterator_types = ["parallel", "parallel", "reduction"]
  } ins(%a, %b : tensor<?x?xf32>, tensor<?xNxf32>) outs(%f : tensor<?xNxf32>) {
  ^bb0(%u: f32, %v: f32, %o: f32):
    %p = arith.mulf %u, %v fastmath<contract> : f32
    %s = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<?xNxf32>
  return %r : tensor<?xNxf32> }"""


@campaign("x86", "x86 -mcpu=knl", "x86 -mcpu=haswell", "x86 -mcpu=x86-64")
@pytest.mark.parametrize("text", ["x86", *(f"x86 -mcpu={cpu}" for cpu in CPUS)])
def test_sums_of_open_length_stay_in_registers(text: str) -> None:
    target = Target.parse(text)
    with make_context(), ir.Location.unknown():
        module, _ = lower_kernel(bytecode(OPEN_MATMUL.replace("N", str(2 * target.lanes))), target, PassContext())
        text = codegen.emit_code(module, target, "asm").decode()
    product = "vfma" if target.has_fma else "mulps"
    loops = [loop for loop in text.split(".LBB") if loop.count(product) >= 8]
    assert loops
    for loop in loops:
        assert not [line for line in loop.splitlines() if "(%rsp)" in line and "mm" in line], "accumulators are spilled"
        assert loop.count("lea") <= 2, "the addresses of rows are computed in each step"


def test_parts_of_a_tile_that_is_wider_than_the_result_stay_vectors() -> None:
    source = MATMUL.replace("%b: tensor<KxNxf32>", "%w: tensor<3xKx32xf32>")
    unpacked = """  %d = tensor.empty() : tensor<KxNxf32>
  %b = linalg.unpack %w outer_dims_perm = [1, 0] inner_dims_pos = [1] inner_tiles = [32] into %d
    : tensor<3xKx32xf32> -> tensor<KxNxf32>
"""
    source = source.replace("  %z", f"{unpacked}  %z", 1).replace("M", "96").replace("N", "90").replace("K", "64")
    target = Target.parse("x86 -mcpu=skylake-avx512")
    with make_context(), ir.Location.unknown():
        module, _ = lower_kernel(bytecode(source), target, PassContext())
        text = codegen.emit_code(module, target, "asm").decode()
    assert "pextr" not in text, "the optimiser took a stored row apart to scalars"


# A text's convolution: its images are one column wide, an axis that the model then drops.
ONE_COLUMN = """func.func @k(%x: tensor<1x132x1x64xf32>, %w: tensor<1x3x1x64x32xf32>) -> tensor<1x130x32xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x130x1x32xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<1x130x1x32xf32>) -> tensor<1x130x1x32xf32>
  %d = tensor.empty() : tensor<32x64x3x1xf32>
  %u = linalg.unpack %w outer_dims_perm = [0, 2, 3, 1] inner_dims_pos = [0] inner_tiles = [32] into %d
    : tensor<1x3x1x64x32xf32> -> tensor<32x64x3x1xf32>
  %r = linalg.generic {
    indexing_maps = [affine_map<(n,h,w,f,i,j,c)->(n,h+i,w+j,c)>, affine_map<(n,h,w,f,i,j,c)->(f,c,i,j)>,
                     affine_map<(n,h,w,f,i,j,c)->(n,h,w,f)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]
  } ins(%x, %u : tensor<1x132x1x64xf32>, tensor<32x64x3x1xf32>) outs(%f : tensor<1x130x1x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<1x130x1x32xf32>
  %t = tensor.empty() : tensor<1x130x32xf32>
  %y = linalg.generic {
    indexing_maps = [affine_map<(n,h,f)->(0,h,0,f)>, affine_map<(n,h,f)->(n,h,f)>],
    iterator_types = ["parallel", "parallel", "parallel"]
  } ins(%r : tensor<1x130x1x32xf32>) outs(%t : tensor<1x130x32xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.negf %a : f32
    linalg.yield %m : f32
  } -> tensor<1x130x32xf32>
  return %y : tensor<1x130x32xf32> }"""


def test_rows_of_a_convolution_are_those_that_its_result_has() -> None:
    target = Target.parse("x86 -mcpu=skylake-avx512")
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(ONE_COLUMN)
        schedule = choose_schedule(list_functions(module)[0], target)
    assert isinstance(schedule, Schedule)
    assert [loop.steps for loop in schedule.result.tile] == [13, 32]
