"""Reductions and normalisations along any axes, through the whole compiler, against numpy in float64."""

from __future__ import annotations

import io
import itertools
import math
from collections.abc import Callable, Mapping

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_runner import TARGET, CompiledKernel, CompiledPlan, aligned
from onnx import helper
from onnx_case import model_of, node_model
from samples import campaign

from tilewright.core.target import detect_host
from tilewright.dialects import ir, tw
from tilewright.dialects.context import make_context
from tilewright.frontends import import_model
from tilewright.passes import pipeline
from tilewright.passes.analysis.in_place import find_overwritable
from tilewright.passes.infra.context import PassContext
from tilewright.passes.ir.kernel import list_functions

RNG = np.random.default_rng(0)
EXTENTS = st.sampled_from([1, 2, 3, 7, 16, 33, 70])
MOST = 70**3  # elements: the rounding errors of longer sums in float32 exceed what `run` allows


def random(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, dtype=np.float32)


def run(
    model: onnx.ModelProto, inputs: Mapping[str, np.ndarray], want: np.ndarray, kernels: int = 1, scale: float = 1.0
) -> list[str]:
    """So many kernels, all with schedules, that give what is wanted in any number of chunks; returns the schedules.

    ``scale``: the size of numbers on the way, which rounding is in proportion to, where results may be smaller.
    """
    imported = import_model(model)
    with make_context():
        compiled = CompiledPlan(pipeline.plan(imported, TARGET.get(detect_host()), PassContext()))
    schedules = [kernel.kernel.schedule for kernel in compiled.kernels.values()]
    assert all(schedules)
    assert not kernels or len(compiled.plan.main.calls) == kernels
    params = {name: param.array() for name, param in imported.params.items()}
    within = 1e-5 * max(scale, float(np.abs(want[np.isfinite(want)]).max(initial=0)))
    for chunks in (1, 3):
        (got,) = compiled(inputs, params, chunks)
        np.testing.assert_allclose(got, want, rtol=0, atol=within)
    return schedules


def lowered(model: onnx.ModelProto) -> str:
    """The one kernel of a model, in vectors."""
    target = TARGET.get(detect_host())
    with make_context(), ir.Location.unknown():
        [code] = pipeline.plan(import_model(model), target, PassContext()).kernels.values()
        module = ir.Module.parse(code)
        for stage in itertools.takewhile(lambda stage: stage.name != "lower-to-llvm", pipeline.kernel_passes(target)):
            stage.apply(module)
        return str(module)


REDUCTIONS = {
    "ReduceSum": lambda x, axes: x.sum(axes),
    "ReduceMax": lambda x, axes: x.max(axes),
    "ReduceMean": lambda x, axes: x.mean(axes),
    "ReduceL2": lambda x, axes: np.sqrt((x * x).sum(axes)),
}


@settings(max_examples=8, deadline=None)
@given(st.data())
def test_reductions_along_any_axes(data: st.DataObject) -> None:
    shape = data.draw(st.lists(EXTENTS, min_size=1, max_size=4).filter(lambda shape: math.prod(shape) <= MOST))
    rank = len(shape)
    axes = tuple(sorted(data.draw(st.sets(st.integers(0, rank - 1), min_size=1))))
    op, numbers = data.draw(st.sampled_from(sorted(REDUCTIONS))), np.random.default_rng(data.draw(st.integers(0, 999)))
    x = numbers.standard_normal(shape, dtype=np.float32)
    model, inputs = node_model(op, [x, np.array(axes)], known=(1,), keepdims=0)
    want = REDUCTIONS[op](x.astype(np.float64), axes)
    run(model, inputs, want, kernels=0, scale=np.sqrt(x.size / want.size) if op == "ReduceSum" else 1.0)


@pytest.mark.parametrize(
    "shape, axis", [((8, 64, 100), 1), ((5, 333), -1), ((3, 5, 7), 1), ((1, 1000), -1), ((6, 17), 1)]
)
def test_layer_norm_over_any_number_of_axes(shape: tuple[int, ...], axis: int) -> None:
    x, scale, bias = random(*shape), random(*shape[axis:]), random(*shape[axis:])
    model, inputs = node_model("LayerNormalization", [x, scale, bias], known=(1, 2), axis=axis)
    wide, axes = x.astype(np.float64), tuple(range(axis % len(shape), len(shape)))
    centred = wide - wide.mean(axes, keepdims=True)
    run(model, inputs, centred / np.sqrt((centred**2).mean(axes, keepdims=True) + 1e-5) * scale + bias)


@pytest.mark.parametrize("shape", [(1, 64, 14, 14), (2, 5, 9, 7), (3, 6, 33)])
def test_instance_norm(shape: tuple[int, ...]) -> None:
    x, scale, bias = random(*shape), random(shape[1]), random(shape[1])
    model, inputs = node_model("InstanceNormalization", [x, scale, bias], known=(1, 2))
    wide, axes, place = x.astype(np.float64), tuple(range(2, len(shape))), (-1, *[1] * (len(shape) - 2))
    centred = wide - wide.mean(axes, keepdims=True)
    want = centred / np.sqrt((centred**2).mean(axes, keepdims=True) + 1e-5)
    run(model, inputs, want * scale.reshape(place) + bias.reshape(place))


@pytest.mark.parametrize("shape, groups", [((1, 32, 7, 9), 8), ((2, 6, 40, 40), 2), ((1, 64, 4, 4), 32)])
def test_sums_of_a_group_are_stages(shape: tuple[int, ...], groups: int) -> None:
    """Of a group's channels each is scaled by its own number: the sums are not computed again for each of them."""
    x, scale, bias = random(*shape), random(shape[1]), random(shape[1])
    model, inputs = node_model("GroupNormalization", [x, scale, bias], opset=21, num_groups=groups)
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("out0", onnx.TensorProto.FLOAT, shape))
    wide = x.astype(np.float64).reshape(shape[0], groups, -1)
    centred = wide - wide.mean(2, keepdims=True)
    want = (centred / np.sqrt((centred**2).mean(2, keepdims=True) + 1e-5)).reshape(shape)
    [schedule] = run(model, inputs, want * scale.reshape(-1, 1, 1) + bias.reshape(-1, 1, 1))
    assert "stage" in schedule


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    powers = np.exp(x.astype(np.float64) - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def test_a_reduction_of_one_element_has_a_schedule() -> None:
    model, inputs = node_model("ReduceMax", [random(1), np.array([0])], known=(1,), keepdims=0)
    run(model, inputs, inputs["in0"][0])


def test_sums_of_constants_have_no_operands_in_memory() -> None:
    kernel = CompiledKernel("""
    func.func @k() -> tensor<16xi32> {
      %zero = arith.constant 0 : i32
      %x = arith.constant dense<2> : tensor<16x5xi8>
      %e = tensor.empty() : tensor<16xi32>
      %f = linalg.fill ins(%zero : i32) outs(%e : tensor<16xi32>) -> tensor<16xi32>
      %y = linalg.generic {indexing_maps = [affine_map<(d, k) -> (d, k)>, affine_map<(d, k) -> (d)>],
          iterator_types = ["parallel", "reduction"]} ins(%x : tensor<16x5xi8>) outs(%f : tensor<16xi32>) {
      ^bb0(%in: i8, %out: i32):
        %n = arith.extsi %in : i8 to i32
        %s = arith.addi %out, %n : i32
        linalg.yield %s : i32
      } -> tensor<16xi32>
      return %y : tensor<16xi32>
    }""")
    np.testing.assert_array_equal(kernel([], np.empty(16, np.int32)), np.full(16, 10, np.int32))


def test_the_mean_of_all_elements_may_be_read_twice() -> None:
    """Its division has no loop, and a sum and a comparison read it."""
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["mean"], name="mean", keepdims=0),
        helper.make_node("Sub", ["x", "mean"], ["rest"], name="rest"),
        helper.make_node("ReduceMax", ["rest"], ["most"], name="most", keepdims=0),
        helper.make_node("Sub", ["most", "mean"], ["y"], name="y"),
    ]
    x = random(200)
    run(model_of(nodes, {"x": x}, ["y"]), {"x": x}, x.max() - 2 * x.mean(dtype=np.float64), kernels=0)


def test_the_first_of_two_reductions_is_computed_once() -> None:
    """A variance: the mean of a column is not computed again for each of its elements."""
    x = random(2, 300, 130)
    made = [
        helper.make_node("ReduceMean", ["x", "axes"], ["mean"], name="mean"),
        helper.make_node("Sub", ["x", "mean"], ["difference"], name="difference"),
        helper.make_node("Mul", ["difference", "difference"], ["square"], name="square"),
        helper.make_node("ReduceMean", ["square", "axes"], ["y"], name="y", keepdims=0),
    ]
    model = model_of(made, {"x": x}, ["y"], {"axes": np.array([1])})
    [schedule] = run(model, {"x": x}, x.astype(np.float64).var(1))
    assert schedule.count("stage") == 2


@pytest.mark.parametrize("shape", [(2, 5, 50), (5, 77), (6, 30)])
def test_a_result_that_lies_over_an_operand(shape: tuple[int, ...]) -> None:
    """The sum may take the residual's memory: no element of that is read after its place was written."""
    inputs = {"x": random(*shape), "residual": random(*shape)}
    made = [
        helper.make_node("Softmax", ["x"], ["shares"], name="softmax", axis=1),
        helper.make_node("Add", ["shares", "residual"], ["y"], name="y"),
    ]
    want = softmax(inputs["x"], 1) + inputs["residual"]
    with make_context(), ir.Location.unknown():
        plan = pipeline.plan(import_model(model_of(made, inputs, ["y"])), TARGET.get(detect_host()), PassContext())
        [(name, code)], [call] = plan.kernels.items(), plan.main.calls
        module, code = ir.Module.parse(code), io.BytesIO()
        [over] = find_overwritable(list_functions(module)[0])
        list_functions(module)[0].attributes[tw.IN_PLACE] = ir.DenseI64ArrayAttr.get([over])
        module.operation.write_bytecode(code)
    memory = [aligned(inputs[info.name]) for info in plan.main.inputs]
    residual = memory[call.args[over].index]
    addresses = [memory[slot.index].ctypes.data for slot in call.args[:-1]]
    CompiledKernel(code.getvalue(), name).call([*addresses, residual.ctypes.data], chunks=2)
    np.testing.assert_allclose(residual, want, rtol=0, atol=1e-5)


@campaign(every=5)
@pytest.mark.parametrize("length", [7, 31, 49, 77, 197, 1000, 1023])
@pytest.mark.parametrize("op", ["Softmax", "ReduceSum", "ReduceL2", "ReduceMax"])
def test_rows_of_any_length_are_done_in_vectors(op: str, length: int) -> None:
    """A row that is no whole number of vectors ends in one that begins in the vector before: nothing is a scalar."""
    x = random(5, length)
    if op == "Softmax":
        model, inputs = node_model(op, [x], axis=-1)
        want = softmax(x, -1)
    else:
        model, inputs = node_model(op, [x, np.array([1])], known=(1,), keepdims=0)
        want = REDUCTIONS[op](x.astype(np.float64), 1)
    run(model, inputs, want)
    scalars = [line for line in lowered(model).splitlines() if line.endswith(" : f32")]
    assert not [line for line in scalars if "math.fma" in line or "arith.maximumf" in line]


@settings(max_examples=8, deadline=None)
@given(st.data())
def test_softmax_along_any_axis_is_one_kernel(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 4))
    shape = data.draw(st.lists(EXTENTS, min_size=rank, max_size=rank))
    axis = data.draw(st.integers(0, rank - 1))
    x = random(*shape)
    model, inputs = node_model("Softmax", [x], axis=axis)
    few = 1 < math.prod(shape[axis + 1 :]) < 8  # which are moved
    run(model, inputs, softmax(x, axis), kernels=1 if shape[axis] > 1 and not few else 0)


@campaign("shape0-Softmax", "shape1-LogSoftmax", "shape2-Softmax")
@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("shape", [(3, 40, 2), (2, 3, 70, 3), (9, 7)])
def test_few_columns_of_a_softmax_become_rows(op: str, shape: tuple[int, ...]) -> None:
    axis, x = len(shape) - 2, random(*shape)
    model, inputs = node_model(op, [x], axis=axis)
    want = softmax(x, axis) if op == "Softmax" else np.log(softmax(x, axis))
    run(model, inputs, want, kernels=3)


def test_few_channels_that_come_last_have_sums_of_their_own() -> None:
    """Those of a norm are made once for each, and not again for each of its elements."""
    x = random(2, 9, 11, 3)
    model, inputs = node_model("MeanVarianceNormalization", [x], axes=[1, 2])
    wide = x.astype(np.float64)
    [schedule] = run(model, inputs, (wide - wide.mean((1, 2), keepdims=True)) / wide.std((1, 2), keepdims=True))
    assert "row" not in schedule and "stage" in schedule


@pytest.mark.parametrize(("extent", "overlaps"), [(80, False), (83, True)])
def test_a_vector_of_columns_that_is_left_is_a_step_of_its_own(extent: int, overlaps: bool) -> None:
    """The last columns overlap others only where they are no whole vector."""
    x = random(50, extent)
    model, inputs = node_model("ReduceMean", [x, np.array([0])], known=(1,), keepdims=0)
    [schedule] = run(model, inputs, x.astype(np.float64).mean(0))
    assert ("overlapping" in schedule) == overlaps


@pytest.mark.parametrize("shape", [(1, 2, 3, 1), (5, 70, 1), (2, 1, 333, 1, 1)])
def test_a_row_may_be_followed_by_dims_of_one_element(shape: tuple[int, ...]) -> None:
    axis = max(d for d, extent in enumerate(shape) if extent > 1)
    x = random(*shape)
    model, inputs = node_model("Softmax", [x], axis=axis)
    assert all("row" in schedule for schedule in run(model, inputs, softmax(x, axis)))


@campaign("shape1-True", "shape3-False")
@pytest.mark.parametrize(("shape", "across"), [((50, 7), True), ((2, 33, 3), True), ((1, 9), False), ((50, 70), False)])
def test_short_rows_go_side_by_side(shape: tuple[int, ...], across: bool) -> None:
    x = random(*shape)
    want = x - np.log(np.exp(x.astype(np.float64)).sum(-1, keepdims=True))
    for op, result in (("LogSoftmax", want), ("Softmax", np.exp(want))):
        model, inputs = node_model(op, [x], axis=-1)
        [schedule] = run(model, inputs, result)
        assert (f"for row in {shape[-1]} x 1" in schedule) == across


@pytest.mark.parametrize("length", [29, 37])
def test_longer_rows_go_side_by_side_where_a_function_of_their_sum_is_dear(length: int) -> None:
    x = random(50, length)
    model, inputs = node_model("LogSoftmax", [x], axis=-1)
    [schedule] = run(model, inputs, x - np.log(np.exp(x.astype(np.float64)).sum(-1, keepdims=True)))
    assert f"for row in {length} x 1" in schedule


@campaign("3", "13")
@pytest.mark.parametrize("length", [2, 3, 4, 5, 6, 9, 11, 13])
def test_rows_of_every_length_are_turned(length: int) -> None:
    """Whole, or in parts that may begin in the ones before; what is the same for all rows is read in place."""
    x, bias = random(3, 21, length), random(length)
    text = f"""<ir_version: 8, opset_import: ["" : 18]> g (float[3, 21, {length}] x, float[{length}] z) =>
        (float[3, 21, {length}] y) {{ a = Add(x, z) y = Softmax<axis = -1>(a) }}"""
    run(onnx.parser.parse_model(text), {"x": x, "z": bias}, softmax(x + bias, -1))


def test_short_rows_of_which_one_element_is_made() -> None:
    """Functions of sums are those of a vector; sums of long numbers alone are left as they were."""
    x = random(37, 6)
    model, inputs = node_model("ReduceLogSumExp", [x, np.array([-1])], known=[1])
    [schedule] = run(model, inputs, np.log(np.exp(x.astype(np.float64)).sum(-1, keepdims=True)))
    assert "for row in 6 x 1" in schedule
    counts = RNG.integers(-9, 9, (37, 6))
    model, inputs = node_model("ReduceSum", [counts, np.array([-1])], known=[1])
    [schedule] = run(model, inputs, counts.sum(-1, keepdims=True))
    assert "for row" not in schedule
    model, inputs = node_model("LpNormalization", [x], axis=1, p=1)
    [schedule] = run(model, inputs, x / np.abs(x).sum(-1, keepdims=True))
    assert "for row" not in schedule, "to turn it twice takes longer than a sum"


def test_softmax_of_what_is_no_number() -> None:
    """One NaN makes a row NaN, wherever it stands, and so does inf; -inf is 0, as long as there are others."""
    x = random(9, 70)
    x[range(4), [0, 33, 63, 69]] = np.nan
    x[4, ::3], x[5], x[6, 5], x[7, ::2] = -np.inf, -np.inf, np.inf, -200
    model, inputs = node_model("Softmax", [x], axis=-1)
    with np.errstate(invalid="ignore"):
        want = softmax(x, -1)
    assert (want[4, ::3] == 0).all() and np.isnan(want[:4]).all() and np.isnan(want[5:7]).all()
    run(model, inputs, want)


def test_a_chain_of_softmaxes_is_scheduled_value_by_value() -> None:
    """Each value is read twice: whoever follows all ways through ten of them has 59,049 to go."""
    nodes = [helper.make_node("Softmax", [f"v{i}"], [f"v{i + 1}"]) for i in range(10)]
    target = TARGET.get(detect_host())
    with make_context():
        made = pipeline.plan(import_model(model_of(nodes, {"v0": random(6, 16)}, ["v10"])), target, PassContext())
        [schedule] = [pipeline.describe_schedule(code, target, PassContext()) for code in made.kernels.values()]
    assert "tw.shared_loop" in schedule


def test_what_is_left_of_a_row_is_reduced_in_registers() -> None:
    """Chunks of several lengths, each in a vector of its own: a part of one was changed in memory, three times slower."""
    x = random(5, 181)
    model, inputs = node_model("ReduceMean", [x, np.array([-1])], known=[1])
    run(model, inputs, x.mean(-1, keepdims=True))
    assert "memref.view" not in lowered(model)


@pytest.mark.parametrize(("op", "find"), [("ReduceMax", np.max), ("ReduceMin", np.min)])
def test_extrema_of_what_is_no_number(op: str, find: Callable[..., np.ndarray]) -> None:
    """One NaN anywhere makes a row's NaN: in the vectors, in what is left of them, and before larger numbers."""
    x = random(6, 149)
    x[range(4), [0, 33, 130, 148]] = np.nan
    x[4], x[5, 7] = -np.inf, np.inf
    model, inputs = node_model(op, [x, np.array([-1])], known=[1])
    run(model, inputs, find(x, -1, keepdims=True))


@pytest.mark.parametrize("length", [333, 1024])
def test_softmax_goes_over_a_row_three_times(length: int) -> None:
    """The maximum, exponentials with their sum, quotients: the sum takes no pass of its own."""
    model, _ = node_model("Softmax", [random(5, length)], axis=-1)
    rows, *along = [line for line in lowered(model).splitlines() if "scf.for" in line]
    assert len(along) == 3, rows


@pytest.mark.parametrize("shape", [(2, 21, 513), (1, 3, 40, 33), (4, 100, 16), (5, 64, 7)])
def test_norm_over_channels_that_come_first(shape: tuple[int, ...]) -> None:
    """As exporters write it: mean, difference, mean of squares, square root, quotient."""
    x, names = random(*shape), ["x", "mean", "difference", "square", "variance", "more", "root", "y"]
    axes, two, small = np.array([1]), np.array(2, np.float32), np.array(1e-5, np.float32)
    made = [
        helper.make_node("ReduceMean", ["x", "axes"], ["mean"]),
        helper.make_node("Sub", ["x", "mean"], ["difference"]),
        helper.make_node("Pow", ["difference", "two"], ["square"]),
        helper.make_node("ReduceMean", ["square", "axes"], ["variance"]),
        helper.make_node("Add", ["variance", "small"], ["more"]),
        helper.make_node("Sqrt", ["more"], ["root"]),
        helper.make_node("Div", ["difference", "root"], ["y"]),
    ]
    for node, name in zip(made, names[1:], strict=True):
        node.name = name
    model = model_of(made, {"x": x}, ["y"], {"axes": axes, "two": two, "small": small})
    wide = x.astype(np.float64)
    centred = wide - wide.mean(1, keepdims=True)
    run(model, {"x": x}, centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5))
