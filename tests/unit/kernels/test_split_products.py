"""Products of float32 as products of parts of bfloat16, in registers of matrices (AMX)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from cpu_targets import FOR_THIS_MACHINE
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_runner import bytecode
from kernel_texts import matmul
from onnx import TensorProto, helper, numpy_helper
from shared_kernels import describe_kernels, noting_kernels

import tilewright as tw
from tilewright.core.errors import ScheduleError
from tilewright.core.program import Kernel
from tilewright.core.target import Target, detect_host
from tilewright.dialects import codegen, ir
from tilewright.dialects.context import make_context
from tilewright.passes.infra.context import PassContext
from tilewright.passes.pipeline import lower_kernel
from tilewright.passes.schedule.families import split_blocks
from tilewright.passes.schedule.language.schedule import Schedule
from tilewright.tools.debugging.oracle import make_session

RNG = np.random.default_rng(0)
PARTS = "in parts of bfloat16"
# What rounding makes of a sum's terms, of their sizes: in parts, and in one chain of sums.
IN_PARTS, IN_A_CHAIN = 4 * 2.0**-24, 16 * 2.0**-24
NO_MATRICES = pytest.mark.skipif(
    not detect_host().multiplies_matrices(16), reason="this CPU has no registers of matrices of bfloat16"
)


def amx(test):
    """A test of code for this machine, which has such registers."""
    return FOR_THIS_MACHINE(NO_MATRICES(test))


def product(rows: int | str, steps: int, columns: int, seed: int = 0) -> onnx.ModelProto:
    rng = np.random.default_rng(seed)
    weight, bias = (rng.standard_normal(shape).astype(np.float32) for shape in ((steps, columns), columns))
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("Add", ["y", "b"], ["z"])]
    return model(nodes, [rows, steps], [rows, columns], {"w": weight, "b": bias})


def model(
    nodes: Sequence[onnx.NodeProto],
    taken: Sequence[int | str],
    given: Sequence[int | str] | None,
    weights: Mapping[str, np.ndarray],
) -> onnx.ModelProto:
    x, z = (helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", taken), ("z", given)))
    initializers = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "g", [x], [z], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def compile_noting(made: onnx.ModelProto, target: str = "x86", **options) -> tuple[tw.Module, list[str]]:
    with noting_kernels() as found:
        module = tw.compile(made, target, workers=0, cache=False, **options)
    return module, [kernel.schedule for kernel in found]


def check_product(module: tw.Module, made: onnx.ModelProto, x: np.ndarray, bound: float) -> None:
    weight, bias = (numpy_helper.to_array(each).astype(np.float64) for each in made.graph.initializer)
    want, size = x.astype(np.float64) @ weight + bias, np.abs(x) @ np.abs(weight) + np.abs(bias)
    [got] = module.run({"x": x})
    assert np.max(np.abs(got - want) / size) < bound


@amx
@pytest.mark.parametrize(
    ("rows", "steps", "columns"),
    [
        (128, 256, 256),  # the weight stays, in parts
        (128, 768, 768),  # rows stay, and blocks of the weight are split one after another
        (197, 768, 96),  # rows that fill no tile, nor a matrix
        (600, 110, 176),  # steps and columns that fill no matrix
        (1000, 1100, 704),  # rows in several blocks
        (257, 512, 768),  # a single row that is left over
        (96, 3072, 512),  # a sum in several parts
    ],
)
@pytest.mark.parametrize("threads", [1, 3])
def test_products_of_many_rows(rows: int, steps: int, columns: int, threads: int) -> None:
    made = product(rows, steps, columns)
    module, schedules = compile_noting(made, num_threads=threads)
    assert any(PARTS in schedule for schedule in schedules)
    check_product(module, made, np.random.default_rng(1).standard_normal((rows, steps)).astype(np.float32), IN_PARTS)


@amx
@settings(max_examples=8, deadline=None)
@given(st.integers(300, 420), st.integers(40, 96), st.integers(8, 14))
def test_products_of_any_sizes(rows: int, pairs: int, blocks: int) -> None:
    made = product(rows, 2 * pairs, 16 * blocks)
    module, _ = compile_noting(made)
    check_product(
        module, made, np.random.default_rng(1).standard_normal((rows, 2 * pairs)).astype(np.float32), IN_A_CHAIN
    )


@amx
def test_open_rows() -> None:
    """Blocks of many rows are multiplied in parts, and rests are not."""
    made = product("rows", 256, 512)
    module, schedules = compile_noting(made)
    assert any(PARTS in schedule for schedule in schedules)
    for rows in (1, 31, 127, 128, 129, 200, 256, 700):
        for module.num_threads in (1, 3):
            x = np.random.default_rng(rows).standard_normal((rows, 256)).astype(np.float32)
            check_product(module, made, x, IN_A_CHAIN)


@amx
@pytest.mark.parametrize("rows", [128, 200])
def test_a_product_of_a_tensor_with_itself(rows: int) -> None:
    """Neither operand is a weight, and what is copied in parts of one layout cannot be read in another."""
    made = model([helper.make_node("MatMul", ["x", "x"], ["z"])], [rows, rows], [rows, rows], {})
    module, _ = compile_noting(made)
    x = np.random.default_rng(0).standard_normal((rows, rows)).astype(np.float32)
    np.testing.assert_allclose(module.run({"x": x})[0], x.astype(np.float64) @ x, rtol=0, atol=1e-4)


@amx
@pytest.mark.parametrize(
    ("batch", "rows", "steps", "columns"),
    [
        ((5,), 200, 256, 272),  # each right operand stays, and the next one is split meanwhile
        ((2, 3), 200, 256, 208),
        ((2,), 200, 512, 1008),  # rows stay, and columns fill no block in the end
    ],
)
@pytest.mark.parametrize("threads", [1, 3])
def test_several_products(batch: tuple[int, ...], rows: int, steps: int, columns: int, threads: int) -> None:
    """Each has a right operand of its own."""
    shapes = {"x": (*batch, rows, steps), "y": (*batch, steps, columns)}
    pair = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()]
    result = helper.make_tensor_value_info("z", TensorProto.FLOAT, (*batch, rows, columns))
    nodes = [helper.make_node("MatMul", ["x", "y"], ["p"]), helper.make_node("Relu", ["p"], ["z"])]
    made = helper.make_model(helper.make_graph(nodes, "g", pair, [result]), opset_imports=[helper.make_opsetid("", 17)])
    made.ir_version = 9
    module, schedules = compile_noting(made, num_threads=threads)
    assert any(PARTS in schedule for schedule in schedules)
    given = {name: np.random.default_rng(1).standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    want = np.maximum(given["x"].astype(np.float64) @ given["y"], 0)
    size = np.abs(given["x"]) @ np.abs(given["y"])
    assert np.max(np.abs(module.run(given)[0] - want) / size) < IN_PARTS


@amx
def test_two_inputs_of_open_rows() -> None:
    pair = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", ["m", 256]), ("y", [256, 512]))]
    result = helper.make_tensor_value_info("z", TensorProto.FLOAT, ["m", 512])
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "y"], ["z"])], "g", pair, [result])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    module, schedules = compile_noting(made)
    assert any(PARTS in schedule for schedule in schedules)
    y = RNG.standard_normal((256, 512)).astype(np.float32)
    for rows in (1, 128, 300):
        x = RNG.standard_normal((rows, 256)).astype(np.float32)
        np.testing.assert_allclose(module.run({"x": x, "y": y})[0], x.astype(np.float64) @ y, rtol=0, atol=2e-4)


@amx
def test_products_in_loops_that_are_kernels_have_vectors() -> None:
    """Their nests lie among others: as a tile of vectors, a product of parts would take LLVM minutes."""
    scan = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["": 18]> g (float[128, 64] s, float[4, 128, 64] x, float[64, 64] w)
        => (float[128, 64] z) {
          z, y = Scan <num_scan_inputs = 1, body = b (float[128, 64] h, float[128, 64] v)
            => (float[128, 64] k, float[128, 64] o) {
              p = MatMul(h, w)
              k = Add(p, v)
              o = Identity(k)
            }> (s, x)
        }"""
    )
    module, schedules = compile_noting(scan)
    assert not any(PARTS in schedule for schedule in schedules)
    given = {n: RNG.standard_normal(s).astype(np.float32) for n, s in (("s", (128, 64)), ("x", (4, 128, 64)))}
    given["w"] = (RNG.standard_normal((64, 64)) / 8).astype(np.float32)
    [want] = make_session(scan).run(["z"], given)
    for module.num_threads in (1, 2, 3):  # each step reads what all threads have made of the one before
        np.testing.assert_allclose(module.run(given)[0], np.asarray(want), rtol=1e-4, atol=1e-4)


@amx
def test_rows_of_two_open_axes_and_a_sum_in_parts() -> None:
    rng = np.random.default_rng(0)
    weight, bias = (rng.standard_normal(shape).astype(np.float32) for shape in ((3072, 256), 256))
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("Add", ["y", "b"], ["z"])]
    made = model(nodes, ["b", "m", 3072], ["b", "m", 256], {"w": weight, "b": bias})
    module, _ = compile_noting(made)
    for rows in ((1, 5), (2, 70), (3, 100)):
        check_product(module, made, rng.standard_normal((*rows, 3072)).astype(np.float32), IN_A_CHAIN)


@amx
def test_numbers_that_have_no_parts() -> None:
    """Infinities and NaN go where they do in float32, and a large number becomes none."""
    made = product(128, 256, 128)
    weight, bias = (numpy_helper.to_array(each).copy() for each in made.graph.initializer)
    weight[3] = 0
    made = model(list(made.graph.node), [128, 256], [128, 128], {"w": weight, "b": bias})
    module, schedules = compile_noting(made)
    assert any(PARTS in schedule for schedule in schedules)
    x = RNG.standard_normal((128, 256)).astype(np.float32)
    x[0, 0], x[1, 1], x[2, 2], x[4, :2], x[5, :2] = np.inf, -np.inf, np.nan, np.inf, (np.inf, -np.inf)
    x[6], x[6, 3], x[7], x[7, 9] = 0, np.inf, 0, 3.4e38
    x[8] *= np.float32(1e30)
    with np.errstate(all="ignore"):
        want = (x.astype(np.float64) @ weight + bias).astype(np.float32)
        size = np.abs(x).astype(np.float64) @ np.abs(weight) + np.abs(bias)
    got = module.run({"x": x})[0].astype(np.float64)
    np.testing.assert_array_equal(got[~np.isfinite(want)], want[~np.isfinite(want)])
    with np.errstate(all="ignore"):
        error = np.where(np.isfinite(want), np.abs(got - want) / size, 0).max(axis=1)
    assert np.max(np.delete(error, 7)) < IN_PARTS
    assert error[7] < 2.0**-7  # what is near the largest float has the bits of a bfloat16


@amx
@pytest.mark.parametrize(
    ("channels", "size", "filters", "stride"), [(64, 32, 256, 1), (128, 30, 256, 2), (64, 27, 256, 1)]
)
def test_convolutions_of_single_pixels(channels: int, size: int, filters: int, stride: int) -> None:
    assert any(PARTS in schedule for schedule in check_pixels(channels, size, filters, stride))


def check_pixels(channels: int, size: int, filters: int, stride: int) -> list[str]:
    """Check a convolution of single pixels between two others; the schedules of all of them."""
    weights = {
        "v": RNG.standard_normal((channels, channels, 3, 3)).astype(np.float32) / 24,
        "w": RNG.standard_normal((filters, channels, 1, 1)).astype(np.float32) / 8,
        "u": RNG.standard_normal((32, filters, 3, 3)).astype(np.float32) / 48,
    }
    nodes = [
        helper.make_node("Conv", ["x", "v"], ["a"], pads=[1] * 4),
        helper.make_node("Conv", ["a", "w"], ["b"], strides=[stride, stride]),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("Conv", ["c", "u"], ["z"]),
    ]
    made = model(nodes, [1, channels, size, size], None, weights)
    module, schedules = compile_noting(made)
    x = RNG.standard_normal((1, channels, size, size)).astype(np.float32)
    [want] = make_session(made).run(None, {"x": x})
    np.testing.assert_allclose(module.run({"x": x})[0], np.asarray(want), rtol=1e-4, atol=1e-4)
    return schedules


@amx
def test_a_last_row_of_a_strided_convolution(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of seven rows a tile has two: the last one alone has no stride, and lies in the parts of all."""
    monkeypatch.setattr(split_blocks, "_WORTH", 9.0)
    monkeypatch.setattr(split_blocks, "_WEIGHT_STAYS", 0.0)
    check_pixels(64, 14, 128, 2)


def convolution(data: Sequence[int], weight: Sequence[int], **attributes: Any) -> onnx.ModelProto:
    """A convolution with a bias, and ReLU: its padding keeps the extents, but for strides."""
    rng = np.random.default_rng(0)
    factors = rng.standard_normal(weight).astype(np.float32) / np.float32(np.sqrt(np.prod(weight[1:])))
    taps = attributes.get("dilations", [1] * len(weight[2:]))
    pads = [d * (k // 2) for d, k in zip(taps, weight[2:], strict=True)] * 2
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["y"], **{"pads": pads, **attributes}),
        helper.make_node("Relu", ["y"], ["z"]),
    ]
    return model(nodes, list(data), None, {"w": factors, "b": rng.standard_normal(weight[0]).astype(np.float32)})


def check_convolution(made: onnx.ModelProto, threads: int = 1) -> list[str]:
    module, schedules = compile_noting(made, num_threads=threads)
    [taken] = made.graph.input
    shape = [dim.dim_value for dim in taken.type.tensor_type.shape.dim]
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    [want] = make_session(made).run(None, {"x": x})
    np.testing.assert_allclose(module.run({"x": x})[0], np.asarray(want), rtol=1e-4, atol=1e-5)
    return schedules


@amx
@pytest.mark.parametrize(
    ("data", "weight", "attributes"),
    [
        ((1, 32, 40, 56), (64, 32, 3, 3), {"strides": [2, 2]}),  # whole matrices
        ((2, 64, 21, 30), (48, 64, 5, 3), {"strides": [1, 2]}),  # images, a block of filters that is not whole
        ((1, 64, 30, 45), (96, 64, 3, 3), {"dilations": [2, 3]}),
        ((1, 32, 43, 30), (64, 32, 7, 7), {}),
        ((1, 128, 15, 15), (256, 128, 3, 3), {"dilations": [2, 2]}),  # matrices of a line, of two lines
        ((1, 128, 30, 32), (320, 128, 3, 3), {"dilations": [2, 2]}),  # blocks of filters that do not stay in the cache
        ((1, 64, 700), (64, 64, 11), {}),  # sounds
        ((1, 64, 801), (64, 64, 11), {}),  # a single row that is left over
        ((1, 64, 1000), (128, 64, 7), {"dilations": [3]}),
        ((1, 96, 333), (64, 96, 3), {"strides": [2], "pads": [0, 0]}),
        ((1, 32, 5, 12, 30), (64, 32, 3, 1, 3), {"dilations": [1, 1, 2]}),  # videos
    ],
)
@pytest.mark.parametrize("threads", [1, 3])
def test_convolutions_with_windows(data, weight, attributes: dict[str, list[int]], threads: int) -> None:
    schedules = check_convolution(convolution(data, weight, **attributes), threads)
    assert any(PARTS in schedule for schedule in schedules)


@amx
@pytest.mark.parametrize(
    ("data", "weight", "attributes"),
    [
        ((1, 128, 20, 28), (128, 32, 3, 3), {"group": 4}),  # the weight of a group stays in the cache, in parts
        ((1, 768, 24, 28), (512, 192, 3, 3), {"group": 4, "strides": [1, 2]}),  # blocks of it are split in turn
        ((1, 768, 128), (768, 192, 1), {"group": 4}),  # products of matrices
    ],
)
@pytest.mark.parametrize("threads", [1, 3])
def test_groups(data, weight, attributes: dict[str, Any], threads: int) -> None:
    """Threads share them, where there is one for each core."""
    schedules = check_convolution(convolution(data, weight, **attributes), threads)
    assert any(PARTS in schedule for schedule in schedules) or detect_host().cores > attributes["group"]


@amx
@pytest.mark.parametrize(("left", "right"), [((4, 200, 96), (4, 96, 256)), ((3, 256, 128), (3, 128, 128))])
def test_pairs_of_matrices(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", left), ("y", right))]
    result = helper.make_tensor_value_info("z", TensorProto.FLOAT, None)
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "y"], ["z"])], "g", values, [result])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    module, schedules = compile_noting(made)
    assert any(PARTS in schedule for schedule in schedules) or detect_host().cores > right[0]
    x, y = (RNG.standard_normal(shape).astype(np.float32) for shape in (left, right))
    for module.num_threads in (1, 3):
        np.testing.assert_allclose(module.run({"x": x, "y": y})[0], x.astype(np.float64) @ y, rtol=0, atol=2e-4)


@amx
@settings(max_examples=8, deadline=None)
@given(st.data())
def test_convolutions_of_any_sizes(drawn) -> None:
    def draw(least: int, most: int) -> int:
        return drawn.draw(st.integers(least, most))

    window, dilations, strides = ([draw(1, most) for _ in range(2)] for most in (5, 2, 2))
    data, weight = (draw(1, 2), 32 * draw(1, 3), draw(12, 40), draw(26, 60)), (16 * draw(2, 7), window)
    made = convolution(data, (weight[0], data[1], *window), strides=strides, dilations=dilations)
    check_convolution(made)


@amx
def test_convolutions_that_are_vectors() -> None:
    """Channels that fill no step of a matrix, groups of few, windows along an axis that has one of them, and few pixels."""
    for data, weight, more in (
        ((1, 24, 40, 56), (64, 24, 7, 7), {}),
        ((1, 64, 40, 56), (64, 8, 7, 7), {"group": 8}),
        ((1, 64, 7, 56), (64, 64, 7, 7), {"pads": [0, 3, 0, 3]}),
        ((1, 64, 7, 7), (64, 64, 3, 3), {"strides": [2, 2]}),
    ):
        assert not any(PARTS in schedule for schedule in check_convolution(convolution(data, weight, **more)))


@FOR_THIS_MACHINE
def test_few_rows_and_other_targets_have_vectors() -> None:
    for rows, cpu in ((16, "sapphirerapids"), (128, "skylake-avx512")):
        kernels = describe_kernels(product(rows, 256, 256), Target.parse(f"x86 -mcpu={cpu}"))
        assert kernels and not any(PARTS in kernel.schedule for kernel in kernels.values())


def lower_product(schedule: Schedule | None = None, cpu: str = "sapphirerapids") -> tuple[str, Kernel]:
    """128 rows of 768 by 768 numbers, whose weight lies in blocks of 32, as assembly, and their description."""
    target = Target.parse(f"x86 -mcpu={cpu}")
    context = PassContext(config={"schedules": {"k": schedule}} if schedule is not None else {})
    with make_context(), ir.Location.unknown():
        module, described = lower_kernel(bytecode(matmul(128, 768, 768, 32)), target, context)
        return codegen.emit_code(module, target, "asm").decode(), described


@FOR_THIS_MACHINE
def test_a_block_is_split_while_another_is_multiplied() -> None:
    """On any machine: six products of four matrices a step, and beside them a share of the next block's vectors."""
    code, described = lower_product()
    assert PARTS in described.schedule
    loops = code.split(".LBB")
    products = [loop for loop in loops if "tdpbf16ps" in loop]
    assert [loop.count("tdpbf16ps") for loop in products] == [24] and products[0].count("tileloadd") == 14
    assert products[0].count("vsubps") == 4 * 8, "four pairs of steps of two blocks, of which two parts are taken off"
    assert "(%rsp), %zmm" not in products[0], "vectors are spilled"
    assert code.count("\tldtilecfg") == 1


def default_schedule() -> Schedule:
    return Schedule.from_json(lower_product()[1].schedule_json)


@FOR_THIS_MACHINE
def test_schedules_by_hand_that_cannot_be_are_refused() -> None:
    """In words, and not by an instruction that the CPU lacks."""
    schedule = default_schedule()
    with pytest.raises(ScheduleError, match="the CPU has no registers of matrices of bfloat16"):
        lower_product(schedule, "skylake-avx512")
    one = replace(schedule, stages=schedule.stages[:1])
    with pytest.raises(ScheduleError, match="both operands of a sum of products have to be split"):
        lower_product(one)
    tile = Schedule.start(schedule.values).tile("m", 64, "n", 32).vectorize("n.1").unroll("m.1").pack(1, "n", 32)
    wide = tile.tensorize("m.1", "outer_product").cache_split("%arg0", "", 16).cache_split("%arg1", "n.0")
    with pytest.raises(ScheduleError, match="a tile of more rows than 2 matrices of split operands have"):
        lower_product(wide)


@FOR_THIS_MACHINE
def test_a_weight_that_is_split_for_blocks_of_unequal_rows() -> None:
    """52, 52 and 24 rows: the weight's blocks of the last are others than those of the first, in one loop."""
    schedule = Schedule.start(default_schedule().values)
    schedule = schedule.split("n", 256).split("n.1", 32).split("m", 52).split("m.1", 26)
    schedule = schedule.reorder("n.0", "n.1.0", "m.0", "m.1.0", "k", "m.1.1", "n.1.1").unroll("m.1.1")
    schedule = schedule.vectorize("n.1.1").tensorize("m.1.1", "outer_product").pack(1, "n", 32).parallel("n.0")
    code, _ = lower_product(schedule.cache_split("%arg0", "n.1.0", 13).cache_split("%arg1", "m.0"))
    assert "tdpbf16ps" in code
