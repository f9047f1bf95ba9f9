"""Convolutions whose vectors lie along rows of pixels, in channels first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cpu_targets import FOR_THIS_MACHINE
from kernel_runner import TARGET, CompiledPlan
from onnx.reference import ReferenceEvaluator
from open_case import check_open, open_model
from samples import campaign
from shared_kernels import describe_kernels

from tilewright.core.target import Target, detect_host
from tilewright.dialects.context import make_context
from tilewright.frontends import import_model
from tilewright.passes import pipeline
from tilewright.passes.infra.context import PassContext
from tilewright.tools.networks.operators import OperatorModel

NARROW = Target.parse("x86 -mcpu=haswell")


@campaign("apart-host", "padded-haswell", "few filters-host", "short rows-haswell", "one filter-host")
@pytest.mark.parametrize("target", [None, NARROW], ids=["host", "haswell"])
@pytest.mark.parametrize(
    "data, weight, attributes",
    [
        pytest.param("1,1,201", "20,1,9", "strides = [5]", id="apart"),
        pytest.param("2,3,9,35", "17,3,3,3", "pads = [1,1,1,1]", id="padded"),
        pytest.param("1,2,12,70", "3,2,2,3", "dilations = [2,1], strides = [1,2]", id="few filters"),
        pytest.param("2,1,28,28", "20,1,5,5", "", id="short rows"),
        pytest.param("1,4,5,6,36", "1,4,1,2,5", "", id="one filter"),
    ],
)
def test_few_channels(data: str, weight: str, attributes: str, target: Target | None) -> None:
    """One kernel beside that of a padding: the result is where the caller wants it."""
    check(convolution_of(data, weight, attributes), target)


@pytest.mark.parametrize("target", [None, NARROW], ids=["host", "haswell"])
def test_windows_of_whole_steps_are_rows(target: Target | None) -> None:
    """`split-strides` lets every fifth element lie together, by a transpose."""
    called = check(convolution_of("1,1,201", "20,1,10", "strides = [5]"), target, reordered=True)
    assert any("transpose" in name for name in called)


@pytest.mark.parametrize(
    "weight, attributes",
    [((20, 1, 10), {"strides": [5]}), ((9, 3, 8), {"strides": [4], "pads": [0, 2]}), ((70, 5, 9), {"pads": [4, 4]})],
    ids=["steps", "padded", "few numbers"],
)
def test_signals_of_any_length_are_rows(weight: tuple[int, ...], attributes: dict[str, Any]) -> None:
    """Those of one window, of less than a vector, and of such that end within one and within a step."""
    random, channels = np.random.default_rng(3), weight[1]
    taps = random.standard_normal(weight, np.float32)
    signals = [random.standard_normal((2, channels, n), np.float32) for n in (10, 13, 77, 200, 1003)]
    check_open("Conv", *[[x, taps] for x in signals], known=[1], tolerance=1e-4, **attributes)
    model = open_model("Conv", [signals[0], taps], known=[1], **attributes)
    for cpu in ("x86-64-v3", "x86-64-v4"):
        kernels = describe_kernels(model, Target.parse(f"x86 -mcpu={cpu}"))
        [schedule] = [kernel.schedule for name, kernel in kernels.items() if name.startswith("conv")]
        assert "vectorize ow" in schedule


def convolution_of(data: str, weight: str, attributes: str) -> OperatorModel:
    """A convolution with a bias and what follows it."""
    name = f"Conv<{attributes}>" if attributes else "Conv"
    return OperatorModel(
        f"float[{data}] x; weight float[{weight}] w; weight float[{weight.split(',')[0]}] b",
        f"c = {name}(x, w, b) y = Relu(c)",
    )


@campaign("9-64-3-host", "12-81-3-haswell", "7-70-2-host", "13-14-3-haswell", "6-17-3-host", "8-21-2-haswell")
@pytest.mark.parametrize("target", [None, NARROW], ids=["host", "haswell"])
@pytest.mark.parametrize(
    "height, width, window", [(9, 64, 3), (12, 81, 3), (7, 70, 2), (13, 14, 3), (6, 17, 3), (8, 21, 2)]
)
def test_depthwise_steps_of_two(height: int, width: int, window: int, target: Target | None) -> None:
    """The program's input stays as it is, and is padded where it is read, into rows of every second pixel."""
    case = OperatorModel(
        f"float[2,6,{height},{width}] x; weight float[6,1,{window},{window}] w; weight float[6] b",
        "y = Conv<group = 6, strides = [2,2], pads = [1,1,1,1]>(x, w, b)",
    )
    assert len(check(case, target)) == 1
    with make_context():
        plan = pipeline.plan(import_model(case.build("rows")), NARROW, PassContext())
    [made] = CompiledPlan(plan).kernels.values()
    assert "in 2 phases" in str(made.kernel.schedule)


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize(
    "width, step, window, pads, vector",
    [(6, 1, 3, "1,1,1,1", True), (14, 2, 5, "2,2,2,2", False), (8, 2, 2, "0,1,1,0", True)],
)
def test_short_rows_stay(width: int, step: int, window: int, pads: str, vector: bool, cores: int) -> None:
    """One kernel, in which a thread reads what is given; one thread takes less in channels last of longer rows."""
    name = f"Conv<group = 9, strides = [{step},{step}], pads = [{pads}]>"
    case = OperatorModel(f"float[1,9,{width},{width}] x; weight float[9,1,{window},{window}] w", f"y = {name}(x, w)")
    target = replace(NARROW, cores=cores)
    names = check(case, target, reordered=cores == 1 and not vector)
    assert any("transpose" in name for name in names) == (cores == 1 and not vector)


@campaign("seven-host", "seven-sse", "another operand-host", "another operand-sse")
@pytest.mark.parametrize("target", [None, NARROW, Target.parse("x86 -mcpu=x86-64-v2")], ids=["host", "haswell", "sse"])
@pytest.mark.parametrize(
    "height, width, window, step, pads, body",
    [
        pytest.param(7, 7, "3,3", 1, "1,1,1,1", "y = Relu(c)", id="seven"),
        pytest.param(13, 11, "5,5", 2, "2,3,2,1", "y = Relu(c)", id="steps of two"),
        pytest.param(5, 6, "7,3", 1, "3,0,3,0", "y = Relu(c)", id="no padding along rows"),
        pytest.param(1, 13, "1,9", 1, "0,4,0,4", "y = Relu(c)", id="one row"),
        pytest.param(6, 5, "3,3", 1, "1,1,1,1", "y = Add(c, z)", id="another operand"),
        pytest.param(40, 37, "3,5", 2, "1,2,1,2", "y = Relu(c)", id="long rows"),
    ],
)
def test_rows_that_are_no_vector(
    height: int, width: int, window: str, step: int, pads: str, body: str, target: Target | None
) -> None:
    """Seven pixels are one vector of eight, also at the end of what is read and written."""
    high, wide = map(int, window.split(","))
    top, left, bottom, right = map(int, pads.split(","))
    rows, columns = (height + top + bottom - high) // step + 1, (width + left + right - wide) // step + 1
    case = OperatorModel(
        f"float[2,5,{height},{width}] x; weight float[5,1,{window}] w; weight float[5] b; "
        f"float[2,5,{rows},{columns}] z",
        f"c = Conv<group = 5, strides = [{step},{step}], pads = [{pads}]>(x, w, b) {body}",
    )
    check(case, target, reordered=True)


def test_short_rows_are_one_vector() -> None:
    """A tile has a whole row if that fits a vector; else the last pixels are computed with those before."""
    case = OperatorModel("float[1,5,7,7] x; weight float[5,1,3,3] w", "y = Conv<group = 5, pads = [1,1,1,1]>(x, w)")
    target = replace(TARGET.get(detect_host()), cores=2)
    with make_context():
        plan = pipeline.plan(import_model(case.build("rows")), target, PassContext())
        [kernel] = CompiledPlan(plan).kernels.values()
    width = 7 if target.lanes >= 7 else 4
    assert f"tile oh.1 x ow.1 of 7 x {width}: unroll oh.1, vectorize ow.1" in str(kernel.kernel.schedule)


@pytest.mark.parametrize(
    "shape, weight",
    [("70,2,5,40", "2,1,3,3"), ("1,1,9,33", "1,1,3,3"), ("1,5,13,9", "5,1,3,3"), ("2,3,4,6,50", "3,1,2,3,3")],
)
def test_an_image_is_padded_where_it_is_read(shape: str, weight: str) -> None:
    """One of each channel, also of many batches, of one image, and of volumes."""
    group, spatial = weight.split(",")[0], weight.count(",") - 1
    name = f"Conv<group = {group}, pads = [{','.join(['1'] * 2 * spatial)}]>"
    check(OperatorModel(f"float[{shape}] x; weight float[{weight}] w", f"y = {name}(x, w)"), None)


@pytest.mark.parametrize("target", [None, NARROW], ids=["host", "haswell"])
@pytest.mark.parametrize(
    "data, window, filters, step", [("2,5,13,14", 3, 2, 1), ("1,6,15,28", 7, 3, 2), ("1,3,1,9", 1, 4, 1)]
)
def test_filters_of_a_channel_share_its_image(
    data: str, window: int, filters: int, step: int, target: Target | None
) -> None:
    """One kernel, in which the image of a channel is padded once for all filters of it."""
    channels, pad = int(data.split(",")[1]), window // 2
    name = f"Conv<group = {channels}, strides = [{step},{step}], pads = [{pad},{pad},{pad},{pad}]>"
    case = OperatorModel(
        f"float[{data}] x; weight float[{channels * filters},1,{window},{window}] w; weight float[{channels * filters}] b",
        f"c = {name}(x, w, b) y = Relu(c)",
    )
    assert len(check(case, target)) == 1


@pytest.mark.parametrize("filters, family", [(2, "depthwise"), (20, "conv")])
def test_filters_that_fill_a_vector_are_a_convolution(filters: int, family: str) -> None:
    """Fewer of them are images beside each other, whose vectors lie along channels."""
    case = OperatorModel(
        f"float[1,6,9,10] x; weight float[6,6,1,1] v; weight float[{6 * filters},1,3,3] w",
        "a = Conv(x, v) b = Relu(a) y = Conv<group = 6, pads = [1,1,1,1]>(b, w)",
    )
    names = check(case, NARROW, reordered=True)
    assert any(family in name for name in names) and ("depthwise" in " ".join(names)) == (family == "depthwise")


@pytest.mark.parametrize(
    "data, weight, group", [("2,12,14,15", "20,12,1,1", 1), ("2,12,14,15", "20,3,1,1", 4), ("1,8,200", "8,2,1", 4)]
)
def test_single_pixels_are_columns_of_products(data: str, weight: str, group: int) -> None:
    """Nothing asks for channels last: the data of each group stay where they are."""
    case = OperatorModel(f"float[{data}] x; weight float[{weight}] w", f"y = Conv<group = {group}>(x, w)")
    [name] = check(case, None)
    assert "matmul" in name


@campaign("padded-host", "two filters-haswell", "apart-host", "volumes-haswell", "volumes-host")
@pytest.mark.parametrize("target", [None, NARROW], ids=["host", "haswell"])
@pytest.mark.parametrize(
    "data, weight, attributes",
    [
        pytest.param("1,19,13,21", "1,19,3,3", "pads = [1,1,1,1]", id="padded"),
        pytest.param("2,12,7,33", "2,12,5,3", "", id="two filters"),
        pytest.param("1,14,11,40", "3,14,5,1", "strides = [2,2]", id="apart"),
        pytest.param("1,9,5,6,18", "1,9,1,2,3", "", id="volumes"),
    ],
)
def test_few_filters_of_many_channels(data: str, weight: str, attributes: str, target: Target | None) -> None:
    """Rows of pixels lie along vectors. Of short rows several are summed at once, unless pixels lie apart."""
    name = f"Conv<{attributes}>" if attributes else "Conv"
    case = OperatorModel(
        f"float[{data}] x; weight float[{weight}] w; weight float[{weight.split(',')[0]}] b",
        f"c = {name}(x, w, b) y = Relu(c)",
    )
    check(case, target)


@FOR_THIS_MACHINE
@pytest.mark.parametrize(
    "cpu, weight, tile",
    [
        ("znver4", "3,16,9,9", "3 x 64"),
        ("haswell", "3,16,3,3", "3 x 16"),
        ("haswell", "2,16,3,3", "2 x 32"),
        ("haswell", "3,16,9,9", "64"),  # too many numbers for narrow tiles
        ("haswell", "1,16,3,3", "64"),
    ],
)
@pytest.mark.parametrize("bias", [True, False])
def test_few_filters_share_the_pixels_that_they_read(cpu: str, weight: str, tile: str, bias: bool) -> None:
    """The sums of all filters, the vectors of pixels and a filter's number stay in registers, with a stage or without."""
    filters, window = weight.split(",")[0], int(weight.split(",")[-1])
    pads = ",".join([str(window // 2)] * 4)
    case = OperatorModel(
        f"float[1,16,64,64] x; weight float[{weight}] w; weight float[{filters}] b",
        f"y = Conv<pads = [{pads}]>(x, w{', b' * bias})",
    )
    kernels = describe_kernels(case.build("rows"), Target.parse(f"x86 -mcpu={cpu}")).values()
    [text] = [kernel.schedule for kernel in kernels if "for kw" in kernel.schedule]
    assert f" of {tile}:" in text


@FOR_THIS_MACHINE
@pytest.mark.parametrize(
    "cpu, stride, tile",
    [("haswell", 1, "5 x 16"), ("haswell", 2, "5 x 16"), ("haswell", 4, "6 x 16"), ("znver4", 2, "12 x 32")],
)
def test_sums_leave_registers_for_weights_and_for_pixels_that_are_picked_out(cpu: str, stride: int, tile: str) -> None:
    check_tile(cpu, (128 - 1) * stride + 3, stride, tile)


@FOR_THIS_MACHINE
@pytest.mark.parametrize(
    "columns, tile",
    [(33, "24 x 16"), (39, "24 x 16"), (40, "12 x 32"), (48, "12 x 32"), (50, "12 x 32"), (96, "12 x 32")],
)
def test_tiles_of_a_row_compute_few_columns_twice(columns: int, tile: str) -> None:
    check_tile("znver4", columns + 2, 1, tile)


def check_tile(cpu: str, width: int, stride: int, tile: str) -> None:
    """Check the tile of 24 filters of three channels over rows of so many pixels."""
    case = convolution_of(f"1,3,9,{width}", "24,3,3,3", f"strides = [{stride},{stride}]")
    kernels = describe_kernels(case.build("columns"), Target.parse(f"x86 -mcpu={cpu}")).values()
    [text] = [kernel.schedule for kernel in kernels if "for kw" in kernel.schedule]
    assert f" {tile}:" in text


@pytest.mark.parametrize("target", [None, NARROW], ids=["host", "haswell"])
@pytest.mark.parametrize(
    "data, weight, attributes",
    [
        pytest.param("2,19,9,12", "3,19,4,4", "strides = [2,2], pads = [1,0,2,1]", id="two apart"),
        pytest.param("1,7,10,13", "2,7,6,6", "strides = [4,3], pads = [3,3,3,3]", id="three apart"),
    ],
)
def test_few_filters_of_pixels_that_lie_apart(data: str, weight: str, attributes: str, target: Target | None) -> None:
    """The channels of a pixel lie together instead: nothing has to be put together for each filter."""
    case = OperatorModel(f"float[{data}] x; weight float[{weight}] w", f"y = Conv<{attributes}>(x, w)")
    names = check(case, target, reordered=True)
    assert any("transpose" in name for name in names)


@pytest.mark.parametrize(
    "body",
    [
        "y = Relu(c)",
        "d = Mul(c, s) e = Add(d, z) y = HardSwish(e)",
        "d = Sigmoid(c) y = Mul(c, d)",
        "d = Add(c, q) y = Softmax<axis = 1>(d)",
    ],
)
def test_elementwise_ops_behind_groups(body: str) -> None:
    """They belong to the convolution's kernel, whose groups are apart; what sums over all channels does not."""
    case = OperatorModel(
        "float[2,12,13,11] x; weight float[20,3,1,1] w; weight float[20] b; float[2,20,13,11] z;"
        "weight float[20,1,1] s; float[2,1,13,11] q",
        f"c = Conv<group = 4>(x, w, b) {body}",
    )
    names = check(case, None)
    assert "Softmax" in body or not any(name.startswith(("add", "max", "mul")) for name in names)


def test_the_last_pixels_of_a_row_are_computed_with_those_before() -> None:
    """15 pixels behind 16 would take four steps, of 8, 4, 2 and 1."""
    case = OperatorModel("float[1,3,8,33] x; weight float[8,3,3,3] w", "y = Conv(x, w)")
    with make_context():
        plan = pipeline.plan(import_model(case.build("rows")), NARROW, PassContext())
    [call] = plan.main.calls
    assert "overlapping" in str(CompiledPlan(plan).kernels[call.kernel].kernel.schedule)
    check(case, NARROW)


@FOR_THIS_MACHINE
@pytest.mark.parametrize("window, moved", [(7, True), (3, False)])
def test_pixels_apart_are_columns_of_few_taps_alone(window: int, moved: bool) -> None:
    """A filter of many numbers reads single elements, and its result is made in channels last."""
    case = OperatorModel(
        f"float[1,3,60,70] x; weight float[8,3,{window},{window}] w", "y = Conv<strides = [2,2]>(x, w)"
    )
    with make_context():
        plan = pipeline.plan(import_model(case.build("rows")), NARROW, PassContext())
    assert any("transpose" in call.kernel for call in plan.main.calls) == moved


def check(case: OperatorModel, target: Target | None, *, reordered: bool = False) -> list[str]:
    """Compare with the reference, in one piece and in three; returns the kernels that are called.

    Each has a schedule as a whole. None of them changes an order of dims, unless ``reordered``.
    """
    model = case.build("rows")
    inputs = case.draw_inputs(model)
    [want] = ReferenceEvaluator(model).run(None, inputs)
    imported = import_model(model)
    with make_context():
        plan = pipeline.plan(imported, target or TARGET.get(detect_host()), PassContext())
    made, called = CompiledPlan(plan), [call.kernel for call in plan.main.calls]
    assert reordered or not any("transpose" in name for name in called)
    assert all(made.kernels[name].kernel.schedule and not made.kernels[name].kernel.reason for name in called)
    for chunks in (1, 3):
        [got] = made(inputs, {name: param.array() for name, param in imported.params.items()}, chunks)
        np.testing.assert_allclose(got, np.asarray(want), rtol=2e-6, atol=2e-5)
    return called
