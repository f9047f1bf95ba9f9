"""Products with weights that are quantised in blocks: what is stored, that kernels have vectors, and what they make."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from cpu_targets import other_targets
from onnx import helper
from onnx_case import model_of
from samples import campaign, leaving
from shared_kernels import find_or_compile, find_or_describe

import tilewright as tw
from tilewright.core.program import Plan
from tilewright.core.target import Target, detect_host
from tilewright.dialects import codegen, ir
from tilewright.dialects.context import make_context
from tilewright.frontends import import_model
from tilewright.passes.infra.context import PassContext
from tilewright.passes.pipeline import lower_kernel, plan

RNG = np.random.default_rng(5)
RANGES = {"INT2": (-2, 2), "UINT2": (0, 4), "INT4": (-8, 8), "UINT4": (0, 16), "INT8": (-128, 128), "UINT8": (0, 256)}


class Weight:
    """A weight of ``k`` x ``n`` numbers in blocks along k, which a DequantizeLinear makes floats of.

    ``transposed`` lies as n x k. ``exact``: scales are powers of two, as whose multiples all sums are exact.
    """

    def __init__(
        self, kind: str, k: int, n: int, block: int, zeros: bool = True, transposed: bool = False, exact: bool = False
    ) -> None:
        dtype, (low, high) = helper.tensor_dtype_to_np_dtype(getattr(onnx.TensorProto, kind)), RANGES[kind]
        blocks = -(-k // block)
        numbers, points = RNG.integers(low, high, (k, n)), RNG.integers(low, high, (blocks, n))
        scales = RNG.uniform(0.001, 0.02, (blocks, n)) if not exact else 2.0 ** RNG.integers(-3, 3, (blocks, n))
        self.axis, self.block = int(transposed), block
        turned = (lambda a: np.ascontiguousarray(a.T)) if transposed else (lambda a: a)
        self.arrays = {"w": turned(numbers).astype(dtype), "s": turned(scales).astype(np.float32)}
        self.arrays |= {"z": turned(points).astype(dtype)} if zeros else {}
        above = numbers - np.repeat(points * zeros, block, 0)[:k]
        self.floats = above * np.repeat(scales.astype(np.float32).astype(np.float64), block, 0)[:k]

    def node(self) -> onnx.NodeProto:
        return helper.make_node(
            "DequantizeLinear", list(self.arrays), ["wd"], name="dequantize", axis=self.axis, block_size=self.block
        )


def product(weight: Weight, x: np.ndarray, before: Any = (), after: Any = (), **others: np.ndarray) -> onnx.ModelProto:
    """The product of what ``before`` makes of x with the weight, and what ``after`` makes of it."""
    left = before[-1].output[0] if before else "x"
    last = after[-1].output[0] if after else "p"
    op = helper.make_node("Gemm", [left, "wd"], ["p"], name="product", transB=1)
    op = op if weight.axis else helper.make_node("MatMul", [left, "wd"], ["p"], name="product")
    return model_of(
        [*before, weight.node(), op, *after], {"x": x}, [last], weight.arrays | others, 25, domains=["com.microsoft"]
    )


def planned(proto: onnx.ModelProto, text: str = "x86") -> Plan:
    """The plan, whose kernels all have schedules."""
    target = Target.parse(text)
    made = plan(import_model(proto), target)
    kernels = [find_or_compile(made.kernels[call.kernel], target) for call in made.main.calls]
    assert all(kernel.schedule for kernel in kernels)
    return made


@pytest.mark.parametrize(
    "rows, k, cpu, block",
    [(8, 96, "x86-64-v4", 32), (7, 96, "x86-64-v4", 64), (8, 1024, "znver4", 64), (8, 1024, "sapphirerapids", 32)],
)
def test_many_rows_have_tiles_of_two_vectors(rows: int, k: int, cpu: str, block: int) -> None:
    """But not where rows lie a page apart, and the first cache has few ways."""
    target = Target.parse(f"x86 -mcpu={cpu}")
    if cpu == "sapphirerapids":
        target = replace(target, l1_bytes=48 << 10)
    x = RNG.standard_normal((rows, k), dtype=np.float32)
    made = plan(import_model(product(Weight("INT4", k, 128, 32), x)), target)
    [schedule] = [find_or_describe(made.kernels[call.kernel], target).schedule for call in made.main.calls]
    assert f"in blocks of {block} " in schedule


def stored(made: Plan) -> dict[str, int]:
    """Bytes of weights by dtype."""
    found: dict[str, int] = {}
    for info in made.main.params:
        size = int(np.prod([int(n) for n in info.shape])) * np.dtype(info.dtype).itemsize
        found[info.dtype] = found.get(info.dtype, 0) + size
    return found


def compiled(proto: onnx.ModelProto, x: np.ndarray, target: str = "x86") -> np.ndarray:
    return tw.compile(proto, target=target, workers=0, num_threads=1, cache=False).run({"x": x})[0]


def assert_within_rounding(got: np.ndarray, x: np.ndarray, weights: np.ndarray) -> None:
    """Each sum differs from the definition's by few units in the last place of its terms' magnitude."""
    want, magnitude = x.astype(np.float64) @ weights, np.abs(x.astype(np.float64)) @ np.abs(weights)
    assert got.shape == want.shape
    assert (np.abs(got - want) <= 4 * np.finfo(np.float32).eps * magnitude).all()


@campaign("False-False-UINT4", "True-True-UINT2")
@pytest.mark.parametrize("kind", RANGES)
@pytest.mark.parametrize(("zeros", "transposed"), [(False, False), (True, True)])
def test_numbers_stay_narrow(kind: str, zeros: bool, transposed: bool) -> None:
    lanes = detect_host().lanes
    k, n, block = 96, 4 * lanes, 16
    weight, x = Weight(kind, k, n, block, zeros, transposed), RNG.standard_normal((3, k)).astype(np.float32)
    proto = product(weight, x)
    points = zeros * (k // block) * n
    assert stored(planned(proto)) == {"int8": k * n * int(kind[-1]) // 8 + points, "float32": 4 * (k // block) * n}
    assert_within_rounding(compiled(proto, x), x, weight.floats)


@pytest.mark.parametrize("shape", [(1, 64), (64,), (2, 7, 64)], ids=str)
@pytest.mark.parametrize(("n", "block"), [(3, 64), (70, 32)])
def test_rows_and_columns(shape: tuple[int, ...], n: int, block: int) -> None:
    weight, x = Weight("INT4", 64, n, block), RNG.standard_normal(shape).astype(np.float32)
    proto = product(weight, x)
    assert "int8" in stored(planned(proto))
    assert_within_rounding(compiled(proto, x), x, weight.floats)


@campaign("none-2", "packed-2", "packed-4", "floats-8")
@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("zeros", ["none", "packed", "floats"])
def test_packed_weights_of_onnxruntime(bits: int, zeros: str) -> None:
    arrays, known, weights = bits_of_onnxruntime(64, 70, 32, bits, zeros)
    x = RNG.standard_normal((5, 64)).astype(np.float32)
    proto = product_of_bits(x, arrays, known)
    assert "int8" in stored(planned(proto))
    assert_within_rounding(compiled(proto, x), x, weights)


def rounded_rows(x: np.ndarray, block: int) -> np.ndarray:
    """Rows on the grids of their blocks: 127 steps up to the greatest magnitude."""
    parts = x.reshape(*x.shape[:-1], -1, block)
    greatest = np.abs(parts).max(-1, keepdims=True)
    scales = np.where(greatest == 0, np.float32(1), greatest * np.float32(1 / 127))
    return (np.rint(parts / scales) * scales).reshape(x.shape)


def bits_of_onnxruntime(
    k: int, n: int, block: int, bits: int, zeros: str, **options: Any
) -> tuple[dict[str, np.ndarray], dict[str, Any], np.ndarray]:
    """The operands of a MatMulNBits beside x, its attributes, and the weight's floats as (k, n)."""
    blocks, each = k // block, 8 // bits
    packed = RNG.integers(0, 256, (n, blocks, block // each)).astype(np.uint8)
    arrays = {"w": packed, "s": RNG.uniform(0.001, 0.02, (n, blocks)).astype(np.float32)}
    points = np.full((n, blocks), 1 << (bits - 1), np.float64)
    if zeros == "packed":
        arrays["z"] = RNG.integers(0, 256, (n, -(-blocks // each))).astype(np.uint8)
        points = apart(arrays["z"], bits)[:, :blocks]
    if zeros == "floats":
        arrays["z"] = RNG.uniform(0, 1 << bits, (n, blocks)).astype(np.float32)
        points = arrays["z"].astype(np.float64)
    above = apart(packed, bits).reshape(n, k) - np.repeat(points, block, 1)
    known = {"K": k, "N": n, "bits": bits, "block_size": block, **options}
    return arrays, known, (above * np.repeat(arrays["s"].astype(np.float64), block, 1)).T


def product_of_bits(x: np.ndarray, arrays: dict[str, np.ndarray], known: dict[str, Any]) -> onnx.ModelProto:
    op = helper.make_node("MatMulNBits", ["x", *arrays], ["y"], domain="com.microsoft", name="product", **known)
    proto = model_of([op], {"x": x}, ["y"], arrays, domains=["com.microsoft"])
    proto.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    return proto


# All kinds of weights with the most blocks of rows, and two with others: how many rows there are decides the kernel, and
# what a byte holds, its body.
ROWS = [(rows, n, *kind) for rows, n in ((1, 70), (5, 64), (19, 130)) for kind in (
    (4, "none"), (4, "packed"), (4, "floats"), (8, "packed"), (2, "none")
)]  # fmt: skip
FEW = [(1, 70, 4, "none"), (1, 70, 4, "floats"), (1, 70, 2, "none")]
FEW += [(5, 64, 4, "packed"), (5, 64, 4, "floats"), (5, 64, 8, "packed")]


@campaign("5-64-4-none", "19-130-4-packed")
@pytest.mark.parametrize("target", ["x86", *other_targets("znver4", "skylake-avx512", "haswell", "x86-64-v2")])
@pytest.mark.parametrize(("rows", "n", "bits", "zeros"), leaving(ROWS, FEW))
def test_rows_rounded_to_bytes_are_multiplied_as_such(rows: int, n: int, bits: int, zeros: str, target: str) -> None:
    """At accuracy level 4, as in onnxruntime; a row of zeros stays one."""
    arrays, known, weights = bits_of_onnxruntime(96, n, 32, bits, zeros, accuracy_level=4)
    x = RNG.standard_normal((rows, 96)).astype(np.float32)
    x[rows // 2, 32:64] = 0
    proto = product_of_bits(x, arrays, known)
    columns = stored(planned(proto, target))["int32"] / (96 * bits // 8)  # words of bytes, in whole blocks
    assert n <= columns <= n + 64
    assert_within_rounding(compiled(proto, x, target), rounded_rows(x, 32), weights)


def test_open_rows_rounded_to_bytes() -> None:
    arrays, known, weights = bits_of_onnxruntime(128, 70, 16, 4, "packed", accuracy_level=4)
    x = RNG.standard_normal((21, 128)).astype(np.float32)
    proto = product_of_bits(x, arrays, known)
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "rows"
    module = tw.compile(proto, workers=0, num_threads=1, cache=False)
    for rows in (1, 2, 21):
        assert_within_rounding(module.run({"x": x[:rows]})[0], rounded_rows(x[:rows], 16), weights)


def test_other_levels_round_nothing() -> None:
    arrays, known, weights = bits_of_onnxruntime(64, 70, 32, 4, "none", accuracy_level=1)
    x = RNG.standard_normal((3, 64)).astype(np.float32)
    assert_within_rounding(compiled(product_of_bits(x, arrays, known), x), x, weights)


def apart(packed: np.ndarray, bits: int) -> np.ndarray:
    """The numbers in bytes, the lowest bits first."""
    parts = [packed >> (bits * i) & ((1 << bits) - 1) for i in range(8 // bits)]
    return np.stack(parts, -1).reshape(len(packed), -1).astype(np.float64)


@pytest.mark.parametrize("target", ["x86", *other_targets("skylake-avx512", "haswell", "x86-64-v2")])
@pytest.mark.parametrize("kind", ["INT4", "UINT8"])
def test_quantised_data_are_summed_up_exactly(kind: str, target: str) -> None:
    """With powers of two as scales all that is not exact is the sum over blocks, and that of these few bits is, too."""
    weight, x = Weight(kind, 96, 40, 32, exact=True), RNG.integers(0, 256, (5, 96)).astype(np.float32)
    given = {"xs": np.array(0.25, np.float32), "xz": np.array(117, np.uint8)}
    x = (x - 117) / 4
    before = [
        helper.make_node("QuantizeLinear", ["x", "xs", "xz"], ["xq"], name="quantize"),
        helper.make_node("DequantizeLinear", ["xq", "xs", "xz"], ["xd"], name="widen"),
    ]
    proto = product(weight, x, before, **given)
    assert "int8" in stored(planned(proto, target))
    np.testing.assert_array_equal(compiled(proto, x, target), x @ weight.floats)


@pytest.mark.parametrize("kind", ["INT4", "INT8"])
def test_scales_around_a_product(kind: str) -> None:
    """What else is multiplied by weights before and after: it goes where it can, but not into the bytes."""
    weight, x = Weight(kind, 64, 40, 16, zeros=False), RNG.standard_normal((5, 64)).astype(np.float32)
    others = {name: RNG.standard_normal(n).astype(np.float32) for name, n in (("g", 64), ("h", 40), ("b", 40))}
    before = [helper.make_node("Mul", ["x", "g"], ["xg"])]
    after = [helper.make_node("Mul", ["p", "h"], ["ph"]), helper.make_node("Add", ["ph", "b"], ["y"])]
    proto = product(weight, x, before, after, **others)
    made = planned(proto)
    assert "int8" in stored(made) and len(made.main.calls) == 2
    left = (x * others["g"]).astype(np.float64)
    want = left @ weight.floats * others["h"] + others["b"]
    np.testing.assert_allclose(compiled(proto, x), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("zeros", [False, True])
def test_open_rows(zeros: bool) -> None:
    weight, x = Weight("UINT4", 64, 40, 16, zeros), RNG.standard_normal((21, 64)).astype(np.float32)
    proto = product(weight, x)
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "rows"
    assert "int8" in stored(planned(proto))
    module = tw.compile(proto, workers=0, num_threads=1, cache=False)
    for rows in (1, 21):
        assert_within_rounding(module.run({"x": x[:rows]})[0], x[:rows], weight.floats)


@pytest.mark.parametrize(("k", "n", "block"), [(40, 40, 16), (64, 1, 16)], ids=["a block cut", "one column"])
def test_others_become_floats(k: int, n: int, block: int) -> None:
    weight, x = Weight("INT4", k, n, block), RNG.standard_normal((3, k)).astype(np.float32)
    proto = product(weight, x)
    assert "int8" not in stored(planned(proto))
    assert_within_rounding(compiled(proto, x), x, weight.floats)


def test_many_rows_go_in_register_tiles() -> None:
    weight, x = Weight("INT4", 64, 4 * detect_host().lanes, 32), RNG.standard_normal((40, 64)).astype(np.float32)
    made = planned(product(weight, x))
    [call] = made.main.calls
    kernel = find_or_compile(made.kernels[call.kernel], detect_host())
    assert "unroll m.1, vectorize" in kernel.schedule and "in blocks of" in kernel.schedule
    assert kernel.scratch_bytes == 0


@pytest.mark.parametrize("kind", ["UINT2", "INT4"])
@pytest.mark.parametrize(("cpu", "looked_up"), [("icelake-server", True), ("haswell", False)])
def test_numbers_are_looked_up_in_registers(kind: str, cpu: str, looked_up: bool) -> None:
    target = f"x86 -mcpu={cpu}"
    made = planned(product(Weight(kind, 64, 64, 32), np.ones((1, 64), np.float32)), target)
    [call] = made.main.calls
    with make_context(), ir.Location.unknown():
        module, _ = lower_kernel(made.kernels[call.kernel], Target.parse(target), PassContext())
        assert ("llvm.x86.avx512.permvar.sf.512" in str(module)) == looked_up


@pytest.mark.parametrize("cpu", ["znver5", "znver4", "sapphirerapids", "icelake-server"])
def test_sums_beside_unpacked_numbers_stay_in_registers(cpu: str) -> None:
    target = Target.parse(f"x86 -mcpu={cpu}")
    weight, x = Weight("INT4", 96, 64, 32), RNG.standard_normal((40, 96)).astype(np.float32)
    made = planned(product(weight, x), str(target))
    with make_context(), ir.Location.unknown():
        module, _ = lower_kernel(made.kernels[made.main.calls[0].kernel], target, PassContext())
        text = codegen.emit_code(module, target, "asm").decode()
    loop = max(text.split(".LBB"), key=lambda block: block.count("vfmadd")).split("\n\tj")[0]
    assert loop.count("vfmadd") >= 32
    assert loop.count("(%rsp)") <= loop.count("vfmadd") // 16
