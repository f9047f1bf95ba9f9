"""Results written past the caches, wherever they lie, and rows that are no whole lines, in the order of addresses."""

from __future__ import annotations

import re

import numpy as np
import pytest
from cpu_targets import FOR_THIS_MACHINE
from kernel_runner import CompiledKernel, aligned, assembly, bytecode, lower_kernel
from onnx_case import node_model

from tilewright.core.target import Target, detect_host
from tilewright.dialects import codegen, ir
from tilewright.dialects.context import reused_context
from tilewright.frontends import import_model
from tilewright.passes import pipeline
from tilewright.passes.infra.context import PassContext

RNG = np.random.default_rng(0)


def source(rows: int, columns: int, repeated: bool = False) -> str:
    """The sum of two matrices; ``repeated``: of a matrix and a column."""
    kind = f"tensor<{rows}x{columns}xf32>"
    other, read = (f"tensor<{rows}xf32>", "i") if repeated else (kind, "i, j")
    return f"""
    #all = affine_map<(i, j) -> (i, j)>
    #read = affine_map<(i, j) -> ({read})>
    func.func @k(%x: {kind}, %y: {other}) -> {kind} {{
      %e = tensor.empty() : {kind}
      %r = linalg.generic {{indexing_maps = [#all, #read, #all], iterator_types = ["parallel", "parallel"]}}
          ins(%x, %y : {kind}, {other}) outs(%e : {kind}) {{
      ^bb0(%a: f32, %b: f32, %o: f32):
        %s = arith.addf %a, %b : f32
        linalg.yield %s : f32
      }} -> {kind}
      return %r : {kind}
    }}"""


@pytest.mark.parametrize("shape", [(64, 256), (7, 333), (1, 64), (5, 8)])
@pytest.mark.parametrize("shift", [0, 1, 8, 15])
def test_results_at_any_place(shape: tuple[int, int], shift: int) -> None:
    """Callers' results are aligned to their elements alone, where a store past the caches would fault."""
    kernel = CompiledKernel(source(*shape), config={"stream-stores.least": 1})
    x, y = (aligned(RNG.standard_normal(shape, np.float32)) for _ in range(2))
    memory = aligned(np.full(x.size + 32, 77, np.float32))
    result = memory[shift : shift + x.size].reshape(shape)
    for chunks in (1, 3):
        result[...] = 77
        kernel.call([a.ctypes.data for a in (x, y, result)], chunks)
        np.testing.assert_array_equal(result, x + y)
    assert (memory[:shift] == 77).all() and (memory[shift + x.size :] == 77).all()


@FOR_THIS_MACHINE
def test_softmax_is_written_past_the_caches() -> None:
    """Its rows are views of the result until late."""
    x = np.zeros((64, 256), np.float32)
    model, _ = node_model("Softmax", [x], axis=-1)
    [code] = pipeline.plan(import_model(model), detect_host(), PassContext()).kernels.values()
    assert "movntps" in assembly(code, {"stream-stores.least": 1})


def test_sums_with_a_column_in_rows_that_are_no_lines() -> None:
    x, y = RNG.standard_normal((64, 333), np.float32), RNG.standard_normal(64, np.float32)
    made = np.empty_like(x)
    CompiledKernel(source(64, 333, repeated=True)).call([a.ctypes.data for a in (x, y, made)], 3)
    np.testing.assert_array_equal(made, x + y[:, None])


def test_rows_that_are_no_lines_are_stored_in_the_order_of_addresses() -> None:
    """LLVM would store the four vectors of a step from the last to the first one."""
    target = Target.parse("x86 -mcpu=sapphirerapids")
    with reused_context(), ir.Location.unknown():
        module, _ = lower_kernel(bytecode(source(64, 333, repeated=True)), target, PassContext())
        code = codegen.emit_code(module, target, "asm").decode()
    offsets = [int(n or 0) for n in re.findall(r"vmovups\s+%zmm\d+, (-?\d*)\(", code)][:4]
    assert len(offsets) == 4 and offsets == sorted(offsets)
