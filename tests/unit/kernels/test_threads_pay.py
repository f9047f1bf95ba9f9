"""From which sizes on threads share a kernel: also one row of a product, by what it reads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from cpu_targets import FOR_THIS_MACHINE
from kernel_runner import TARGET
from shared_kernels import noting_kernels

import tilewright as tw
from tilewright.core.program import Kernel
from tilewright.core.target import detect_host
from tilewright.passes.schedule.loop_plan import STREAMED_BYTES

pytestmark = FOR_THIS_MACHINE
RNG = np.random.default_rng(7)


def layer(rows: str, width: int) -> onnx.ModelProto:
    """Rows by a weight of ``width`` squared."""
    made = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["": 18]> g (float[{rows}, {width}] x) => (float[{rows}, {width}] y)'
        " { y = MatMul(x, w) }"
    )
    weight = RNG.standard_normal((width, width)).astype(np.float32)
    made.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    return made


def attention(rows: str, heads: int) -> onnx.ModelProto:
    """Rows of queries over any number of keys, whose heads have 64 elements."""
    past = f"float[1, {heads}, past, 64]"
    return onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["": 18]> g (float[1, {heads}, {rows}, 64] q, {past} k, {past} v) => (float y)'
        " { t = Transpose<perm = [0, 1, 3, 2]>(k) s = MatMul(q, t) p = Softmax<axis = -1>(s) y = MatMul(p, v) }"
    )


def product_of(model: onnx.ModelProto) -> Kernel:
    model.graph.output[0].type.tensor_type.ClearField("shape")
    with noting_kernels() as found:
        tw.compile(model, workers=0)
    [product] = [kernel for kernel in found if "matmul" in kernel.name]
    return product


@pytest.mark.parametrize("rows", ["1", "n"])
def test_threads_share_a_row_whose_weight_comes_from_beyond_their_caches(rows: str) -> None:
    large, small = product_of(layer(rows, 256)), product_of(layer(rows, 64))
    assert large.streamed.parallel and large.streamed.parallel_from == 0
    assert small.streamed == small
    for kernel in (large, small):  # the weight of the program alone stays in a cache
        assert kernel.parallel_from >= 64 if rows == "n" else not kernel.parallel


def test_threads_share_a_row_of_attention_by_the_bytes_of_keys_and_values() -> None:
    kernel = product_of(attention("n", 4)).streamed
    assert kernel.parallel and kernel.parallel_from == STREAMED_BYTES // (2 * 4)  # elements, as often as there are keys


@pytest.mark.parametrize("held", [False, True])
def test_the_weights_of_the_whole_program_decide(held: bool) -> None:
    target = replace(TARGET.get(detect_host()), l2_bytes=1 << (20 if held else 16))
    module = tw.compile(layer("n", 256), target=target, cache=False)
    [product] = [kernel for kernel in module.manifest.kernels if "matmul" in kernel.name]
    assert (product.parallel_from > 0) == held


def test_rows_that_threads_share_have_equal_bits() -> None:
    model = attention("1", 4)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    module = tw.compile(model, num_threads=1)
    for past in (1, 127, 128, 129, 500):
        q, k, v = (RNG.standard_normal((1, 4, count, 64)).astype(np.float32) for count in (1, past, past))
        found = []
        for module.num_threads in (1, 3):
            found.append(module(q, k, v)[0])
        np.testing.assert_array_equal(*found)
