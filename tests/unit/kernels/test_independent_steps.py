"""Loops whose steps threads share: those whose steps read and write their own parts alone."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from cpu_targets import FOR_THIS_MACHINE
from kernel_runner import CompiledKernel
from kernel_texts import close
from samples import campaign
from shared_kernels import noting_kernels

import tilewright as tw
from tilewright.tools.debugging.oracle import make_session

LOOP = """func.func @k(%x: tensor<40x50xf32>, %y: tensor<40x50xf32>) -> tensor<40x50xf32> {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c40 = arith.constant 40 : index
  %c50 = arith.constant 50 : index
  %e = tensor.empty() : tensor<40x50xf32>
  %made = scf.for %i = %c0 to %c40 step %c1 iter_args(%r = INTO) -> (tensor<40x50xf32>) {
    BEFORE
    %row:2 = scf.for %j = %c0 to %c50 step %c1 iter_args(%q = %r, %s = %first) -> (tensor<40x50xf32>, f32) {
      %v = tensor.extract %x[%i, %j] : tensor<40x50xf32>
      %t = arith.addf %s, %v : f32
      %positive = arith.cmpf ogt, %t, %zero : f32
      %next = scf.if %positive -> (tensor<40x50xf32>) {
        %w = tensor.insert %t into %q[PLACE] : tensor<40x50xf32>
        scf.yield %w : tensor<40x50xf32>
      } else {
        %w = tensor.insert %zero into %q[PLACE] : tensor<40x50xf32>
        scf.yield %w : tensor<40x50xf32>
      }
      scf.yield %next, %t : tensor<40x50xf32>, f32
    }
    scf.yield %row#0 : tensor<40x50xf32>
  }
  return %made : tensor<40x50xf32>
}"""
ALONE = "%first = arith.addf %zero, %zero : f32"


def loop(into: str = "%e", before: str = ALONE, place: str = "%i, %j") -> str:
    return LOOP.replace("INTO", into).replace("BEFORE", before).replace("PLACE", place)


def test_threads_share_independent_steps() -> None:
    x = np.random.default_rng(0).standard_normal((40, 50)).astype(np.float32)
    kernel, want = CompiledKernel(loop()), np.maximum(np.cumsum(x, 1), 0)
    assert kernel.kernel.extent == 40 and kernel.kernel.reason == "threads share the steps of its loop (scf.for)"
    close(kernel([x, x], want, chunks=3), want)


DEPENDENT = {
    "it goes over what was there": loop(into="%y"),
    "steps write to places of others": loop(place="%j, %j").replace("%c50 step", "%c40 step"),
    "a step reads another's element": loop(before="%first = tensor.extract %r[%c0, %c0] : tensor<40x50xf32>"),
    "a step reads all": loop(
        before="""%sum = tensor.empty() : tensor<f32>
    %filled = linalg.fill ins(%zero : f32) outs(%sum : tensor<f32>) -> tensor<f32>
    %reduced = linalg.reduce { arith.maximumf } ins(%r : tensor<40x50xf32>) outs(%filled : tensor<f32>)
      dimensions = [0, 1]
    %first = tensor.extract %reduced[] : tensor<f32>"""
    ),
}


@pytest.mark.parametrize("case", DEPENDENT)
def test_one_thread_makes_steps_that_are_not(case: str) -> None:
    kernel = CompiledKernel(DEPENDENT[case]).kernel
    assert kernel.extent == 1 and kernel.reason == "its steps may build on each other (scf.for)"


@campaign("2-float[M, 64]-x86", "7-float[M, N]-x86", "2-int64[M, N]-x86", "7-double[M, N]-x86")
@FOR_THIS_MACHINE
@pytest.mark.parametrize("kind", ["float[M, 64]", "float[M, N]", "int64[M, N]", "double[M, N]"])
@pytest.mark.parametrize("count", [2, 7])
def test_threads_share_steps_whose_number_only_the_run_knows(kind: str, count: int) -> None:
    body = f"k = Constant<value_ints = [{count}]>() y, z = TopK(x, k)"
    made = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["": 18]> g ({kind} x) => (float y, int64 z) {{ {body} }}'
    )
    made.graph.output[0].type.tensor_type.elem_type = made.graph.input[0].type.tensor_type.elem_type
    for output in made.graph.output:
        output.type.tensor_type.ClearField("shape")
    with noting_kernels() as found:
        module = tw.compile(made, workers=0)
    [shared] = [kernel for kernel in found if kernel.reason == "threads share the steps of its loop (scf.for)"]
    assert shared.extent > 1 and shared.parallel and shared.parallel_from is not None
    session, random = make_session(made), np.random.default_rng(1)
    dtype = onnx.helper.tensor_dtype_to_np_dtype(made.graph.input[0].type.tensor_type.elem_type)
    for rows in (0, 1, 2, 3, 33, 1001):
        x = random.integers(-50, 50, (rows, 64)).astype(dtype)
        for module.num_threads in (1, 3):
            for got, want in zip(module(x), session.run(None, {"x": x}), strict=True):
                np.testing.assert_array_equal(got, want)
