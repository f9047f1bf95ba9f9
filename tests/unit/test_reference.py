"""The oracle itself, on the few kinds of op that need care."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from mlir import ir
from reference import run

CONCAT_PAD = """func.func @main(%a: tensor<2x3xf32> {tw.name = "a"}, %w: tensor<1x3xf32> {tw.param = "w"}) -> tensor<3x5xf32> {
  %z = arith.constant 7.0 : f32
  %c = tensor.concat dim(0) %a, %w : (tensor<2x3xf32>, tensor<1x3xf32>) -> tensor<3x3xf32>
  %p = tensor.pad %c low[0, 1] high[0, 1] {
  ^bb0(%i: index, %j: index): tensor.yield %z : f32
  } : tensor<3x3xf32> to tensor<3x5xf32>
  return %p : tensor<3x5xf32>
}"""

PACK = """func.func @main(%a: tensor<5x4xf32>) -> (tensor<3x2x2x2xf32>, tensor<5x4xf32>) {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<3x2x2x2xf32>
  %p = linalg.pack %a padding_value(%z : f32) inner_dims_pos = [0, 1] inner_tiles = [2, 2] into %e
    : tensor<5x4xf32> -> tensor<3x2x2x2xf32>
  %u = tensor.empty() : tensor<5x4xf32>
  %r = linalg.unpack %p inner_dims_pos = [0, 1] inner_tiles = [2, 2] into %u : tensor<3x2x2x2xf32> -> tensor<5x4xf32>
  return %p, %r : tensor<3x2x2x2xf32>, tensor<5x4xf32>
}"""

DOUBLE = """#id = affine_map<(i) -> (i)>
func.func @main(%a: tensor<6xT>) -> tensor<6xT> {
  %e = tensor.empty() : tensor<6xT>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%a : tensor<6xT>) outs(%e : tensor<6xT>) {
  ^bb0(%x: T, %o: T):
    BODY
    linalg.yield %y : T
  } -> tensor<6xT>
  return %r : tensor<6xT>
}"""

LOOP = """func.func @main(%a: tensor<4xf32>, %s: tensor<f32>) -> (tensor<4xf32>, tensor<f32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %r = scf.for %i = %c0 to %c4 step %c1 iter_args(%t = %a) -> tensor<4xf32> {
    %x = tensor.extract %t[%i] : tensor<4xf32>
    %y = math.erf %x : f32
    %n = tensor.insert %y into %t[%i] : tensor<4xf32>
    scf.yield %n : tensor<4xf32>
  }
  return %r, %s : tensor<4xf32>, tensor<f32>
}"""


TWICE = """func.func @main(%a: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
  %e = tensor.empty() : tensor<2xf32>
  %r = linalg.exp ins(%a : tensor<2xf32>) outs(%e : tensor<2xf32>) -> tensor<2xf32>
  return %r, %a, %r, %a : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}"""


def outputs(text: str, *arrays: np.ndarray) -> list[np.ndarray]:
    with ir.Context(), ir.Location.unknown():
        return run(ir.Module.parse(text), arrays)


def test_concat_and_pad() -> None:
    a, w = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((1, 3), np.float32)
    (got,) = outputs(CONCAT_PAD, a, w)
    np.testing.assert_array_equal(got, np.pad(np.concatenate([a, w]), ((0, 0), (1, 1)), constant_values=7))


def test_pack_and_unpack() -> None:
    a = np.arange(20, dtype=np.float32).reshape(5, 4)
    packed, back = outputs(PACK, a)
    np.testing.assert_array_equal(packed, np.pad(a, ((0, 1), (0, 0))).reshape(3, 2, 2, 2).transpose(0, 2, 1, 3))
    np.testing.assert_array_equal(back, a)


def test_loop_leaves_its_argument_alone() -> None:
    a, s = np.array([0, 1, -1, 5], np.float32), np.float32(3).reshape(())
    got, scalar = outputs(LOOP, a, s)
    np.testing.assert_allclose(got, [0, 0.8427008, -0.8427008, 1], rtol=1e-6)
    assert scalar == 3 and a[3] == 5


def test_a_value_may_be_returned_twice() -> None:
    a = np.array([0, 1], np.float32)
    for got, want in zip(outputs(TWICE, a), [np.exp(a), a, np.exp(a), a], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize(("kind", "dtype"), [("f16", np.float16), ("bf16", ml_dtypes.bfloat16)])
def test_half_floats(kind: str, dtype: type) -> None:
    body = f"%w = arith.extf %x : {kind} to f32\n %v = arith.addf %w, %w : f32\n %y = arith.truncf %v : f32 to {kind}"
    x = np.array([1, -2, 0.3, 1000, 0, 1e-3], dtype)
    (got,) = outputs(DOUBLE.replace("T", kind).replace("BODY", body), x)
    np.testing.assert_array_equal(got.view(dtype), x + x)


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int8])
def test_bytes(dtype: type) -> None:
    x = np.array([0, 1, 1, 0, 1, 0], dtype)
    (got,) = outputs(DOUBLE.replace("T", "i8").replace("BODY", "%y = arith.addi %x, %x : i8"), x)
    np.testing.assert_array_equal(got, 2 * x.astype(np.int8))


def test_refuses_other_shapes() -> None:
    with pytest.raises(ValueError, match="argument 0"):
        outputs(LOOP, np.zeros(3, np.float32), np.float32(0).reshape(()))
