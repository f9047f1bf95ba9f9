"""Convolutions by Winograd's algorithm against a direct sum in float64, as `@main`'s kernels compute them in chunks."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import networks
import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_runner import TARGET, CompiledPlan
from samples import campaign

from tilewright.core.model import Model
from tilewright.core.program import Plan
from tilewright.core.sizes import require_static
from tilewright.core.target import Target, detect_host
from tilewright.dialects import builders, ir, scalars
from tilewright.dialects.context import make_context
from tilewright.driver import api
from tilewright.passes import pipeline
from tilewright.passes.graph.rewriting.minimal_filtering import count_points
from tilewright.passes.graph.winograd import Winograd
from tilewright.passes.infra.base import Pass
from tilewright.passes.infra.context import PassContext
from tilewright.passes.schedule.families import winograd

Pads = tuple[int, ...]  # before the rows and columns, after them
SAME: Pads = (1, 1, 1, 1)
RNG = np.random.default_rng(0)
TOLERANCE = 1e-5


def padded(x: ir.Value, pads: Pads) -> ir.Value:
    if not any(pads):
        return x
    axes = len(pads) // 2
    return builders.pad(x, (0, 0, *pads[:axes]), (0, 0, *pads[axes:]), scalars.const(0.0, ir.F32Type.get()))


def convolution(
    n: int,
    c: int,
    f: int,
    size: tuple[int, ...],
    pads: Pads = SAME,
    epilogue: str = "",
    window: tuple[int, ...] = (3, 3),
    stride: int = 1,
) -> Model:
    """A network of one convolution; ``epilogue`` is in order what follows it: b(ias), r(esidual), m(aximum with 0)."""
    axes = len(window)
    made = [(extent + pads[i] + pads[i + axes] - window[i]) // stride + 1 for i, extent in enumerate(size)]

    def body(x: ir.Value, residual: ir.Value, weight: ir.Value, bias: ir.Value) -> ir.Value:
        y = builders.conv(padded(x, pads), weight, (stride,) * axes, (1,) * axes)
        others = {"b": builders.reshape(bias, (f, *[1] * axes)), "r": residual}
        for step in epilogue:
            y = relu(y) if step == "m" else add(y, others[step])
        return y

    inputs = {"x": (n, c, *size), "residual": (n, f, *made)}
    return networks.build(body, inputs, {"weight": (f, c, *window), "bias": (f,)})


def add(a: ir.Value, b: ir.Value) -> ir.Value:
    return builders.elementwise(scalars.add, a, b, elem=ir.F32Type.get())


def relu(x: ir.Value) -> ir.Value:
    return builders.elementwise(lambda a: scalars.maximum(a, scalars.like(a, 0.0)), x, elem=ir.F32Type.get())


def direct(x: np.ndarray, weight: np.ndarray, pads: Pads = SAME, stride: int = 1) -> np.ndarray:
    """The convolution in float64."""
    axes = len(pads) // 2
    x = np.pad(x.astype(np.float64), [(0, 0), (0, 0), *zip(pads[:axes], pads[axes:], strict=True)])
    windows = np.lib.stride_tricks.sliding_window_view(x, weight.shape[2:], axis=tuple(range(2, 2 + axes)))
    windows = windows[(slice(None), slice(None), *[slice(None, None, stride)] * axes)]
    subscripts = {1: "nchi,fci->nfh", 2: "nchwij,fcij->nfhw", 3: "ncdhwkij,fckij->nfdhw"}[axes]
    return np.einsum(subscripts, windows, weight.astype(np.float64), optimize=False)


def plan(model: Model, everywhere: bool = True, outputs: int = 4) -> Plan:
    """The model's plan, with each convolution transformed that can be."""
    chosen = pipeline.graph_passes

    def passes(target: Target, opt_level: int = 3) -> tuple[Pass, ...]:
        return tuple(Winograd(everywhere, outputs) if isinstance(p, Winograd) else p for p in chosen(target, opt_level))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "graph_passes", passes)
        return pipeline.plan(model, TARGET.get(detect_host()), PassContext())


def compiled(model: Model, convolutions: int = 1, outputs: int = 4, stages: int = 2) -> CompiledPlan:
    """The compiled plan of a network with so many convolutions, whose products are in a buffer in the cache.

    So are their patches, where there are two ``stages``, if not a kernel of its own has made them.
    """
    made = CompiledPlan(plan(model, outputs=outputs))
    schedules = [made.kernels[call.kernel].kernel.schedule for call in made.plan.main.calls]
    assert all(schedules), "plain loops in place of a schedule"
    assert sum(0 < text.count("stage") <= stages for text in schedules) == convolutions
    return made


def random(model: Model) -> dict[str, np.ndarray]:
    return {i.name: RNG.standard_normal([require_static(n) for n in i.shape], dtype=np.float32) for i in model.inputs}


def check(
    model: Model, pads: Pads, epilogue: str, chunks: int, outputs: int = 4, stages: int = 2, stride: int = 1
) -> None:
    """Compare a network of one convolution with the direct sum."""
    inputs, weights = random(model), {name: param.array() for name, param in model.params.items()}
    want = direct(inputs["x"], weights["weight"], pads, stride)
    others = {"b": weights["bias"].reshape(-1, *[1] * (len(pads) // 2)), "r": inputs["residual"]}
    for step in epilogue:
        want = np.maximum(want, 0) if step == "m" else want + others[step]
    [got] = compiled(model, 1, outputs, stages)(inputs, weights, chunks)
    np.testing.assert_allclose(got, want, rtol=0, atol=TOLERANCE * max(1.0, float(np.abs(want).max())))


PADS = st.sampled_from([SAME, (0, 0, 0, 0), (2, 2, 2, 2), (0, 1, 2, 0), (1, 0, 0, 3)])
EPILOGUES = st.sampled_from(["", "m", "b", "bm", "brm", "rb", "r"])


@settings(max_examples=3, deadline=None)
@given(
    st.integers(1, 3),
    st.integers(5, 40),  # an input of fewer channels stays as it lies
    st.integers(5, 80),  # to fewer channels it is a product of rows
    st.tuples(st.integers(3, 40), st.integers(3, 40)),
    PADS,
    EPILOGUES,
    st.integers(1, 4),
    st.sampled_from([2, 4]),
)
def test_convolutions_of_any_shape(
    n: int, c: int, f: int, size: tuple[int, int], pads: Pads, epilogue: str, chunks: int, outputs: int
) -> None:
    with make_context(), ir.Location.unknown():
        check(convolution(n, c, f, size, pads, epilogue), pads, epilogue, chunks, outputs)


# What hypothesis finds only now and then: no whole patch, fewer channels than lanes, a last vector of one channel, a
# last block of channels narrower than the others, filters of which some are added.
@campaign("1-16-32-size0", "1-5-4-size3", "1-7-33-size5")
@pytest.mark.parametrize(
    "n, c, f, size",
    [
        (1, 16, 32, (1, 1)),
        (2, 16, 24, (1, 9)),
        (1, 17, 34, (9, 5)),
        (1, 5, 4, (6, 3)),
        (1, 8, 48, (13, 14)),
        (1, 7, 33, (9, 6)),
    ],
)
def test_small_images_and_odd_channels(n: int, c: int, f: int, size: tuple[int, int]) -> None:
    with make_context(), ir.Location.unknown():
        check(convolution(n, c, f, size, SAME, "bm"), SAME, "bm", 2)


@campaign("size0", "size2")
@pytest.mark.parametrize(
    "size, window, pads",
    [
        ((70,), (5,), (2, 2)),
        ((19, 1), (5, 1), (0, 0, 4, 0)),
        ((7, 30), (1, 3), (0, 1, 0, 1)),
        ((9, 8), (3, 5), (1, 2, 1, 2)),
        pytest.param((3,), (3,), (1, 1), marks=pytest.mark.slow),
        pytest.param((9, 10), (3, 1), (1, 0, 1, 0), marks=pytest.mark.slow),
        pytest.param((9, 6), (5, 5), (2, 2, 2, 2), marks=pytest.mark.slow),
    ],
)
def test_windows_of_three_and_five_along_one_axis_or_two(
    size: tuple[int, ...], window: tuple[int, ...], pads: Pads
) -> None:
    outputs = 4 if 1 in (*window, len(window)) else 2
    with make_context(), ir.Location.unknown():
        # Filters of fewer numbers along one axis stay in channels first.
        check(convolution(2, 48, 32, size, pads, "brm", window), pads, "brm", 2, outputs)


@campaign("size0", "size1", "size3")
@pytest.mark.parametrize(
    "size, window, pads, stride, outputs",
    [
        ((10, 9), (3, 3), SAME, 2, 3),  # of the padded rows the last is in no window
        ((12,), (3,), (1, 1), 2, 2),
        ((9, 7), (2, 2), (1, 0, 0, 1), 1, 3),
        ((7, 8), (2, 1), (0, 0, 0, 0), 1, 2),
    ],
)
def test_strides_of_two_and_windows_of_two(
    size: tuple[int, ...], window: tuple[int, ...], pads: Pads, stride: int, outputs: int
) -> None:
    with make_context(), ir.Location.unknown():
        check(convolution(2, 16, 32, size, pads, "bm", window, stride), pads, "bm", 2, outputs, stride=stride)


@campaign("size0", "size4", "size6")
@pytest.mark.parametrize(
    "size, window, pads, stride, outputs",
    [
        ((3, 7, 6), (1, 3, 3), (0, 1, 1, 0, 1, 1), 1, 4),  # frames are images
        ((6, 3, 5), (3, 1, 1), (1, 0, 0, 1, 0, 0), 1, 4),  # pixels are columns
        ((4, 6, 5), (3, 3, 3), (1, 1, 1, 1, 1, 1), 1, 4),  # frames are channels
        ((6, 7, 5), (3, 3, 3), (0, 1, 1, 0, 1, 1), 2, 3),
        ((5, 4, 6), (2, 3, 1), (0, 1, 0, 1, 1, 0), 1, 2),
        ((5, 6, 4), (1, 3, 3), (1, 1, 1, 0, 1, 1), 1, 4),  # zeros before the frames
        ((5, 6, 7), (1, 3, 3), (0, 1, 1, 0, 1, 1), 2, 2),
    ],
)
def test_data_of_three_axes(
    size: tuple[int, ...], window: tuple[int, ...], pads: Pads, stride: int, outputs: int
) -> None:
    with make_context(), ir.Location.unknown():
        check(convolution(2, 16, 32, size, pads, "brm", window, stride), pads, "brm", 2, outputs, stride=stride)


@campaign("1-1", "9-2")
@pytest.mark.parametrize("rows, blocks", [(1, 1), (4, 2), (9, 2)])
def test_blocks_of_patches_and_channels(rows: int, blocks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever block the cost function takes: several rows of patches that do not divide, several packed blocks."""

    def staging(patches: winograd.Patches, _target: Target) -> tuple[int, int]:
        return min(rows, patches.rows), blocks * patches.columns

    monkeypatch.setattr(winograd, "choose_staged_block", staging)
    with make_context(), ir.Location.unknown():
        token = TARGET.set(replace(TARGET.get(detect_host()), cores=1))  # all in one kernel
        try:
            check(convolution(1, 16, 112, (21, 10), SAME, "brm"), SAME, "brm", 3)
        finally:
            TARGET.reset(token)


@pytest.mark.parametrize("n, cores", [(6, 2), (4, 1)])
def test_blocks_of_images(n: int, cores: int) -> None:
    """Images of few patches share the products of one block, so that the filters are not read again for each of them."""
    with make_context(), ir.Location.unknown():
        token = TARGET.set(replace(TARGET.get(detect_host()), l2_bytes=1 << 17, cores=cores))
        try:
            check(convolution(n, 19, 112, (5, 3), SAME, "brm"), SAME, "brm", 3)
        finally:
            TARGET.reset(token)


SIZES = ((21, 10), (16, 33), (2, 3))
BATCHES = ((1, 4, 2), (1, 2, 8), (3, 4, 5))  # images, outputs of a patch, cores


def sizes_and_batches() -> list[Any]:
    """All pairs; each size and each batch is in one that is not slow."""
    pairs = itertools.product(enumerate(SIZES), enumerate(BATCHES))
    return [pytest.param(size, *batch, marks=[pytest.mark.slow] if i != j else []) for (i, size), (j, batch) in pairs]


@campaign("size4-1-2-8", "size8-3-4-5")
@pytest.mark.parametrize("size, n, outputs, cores", sizes_and_batches())
def test_patches_of_a_kernel_of_their_own(n: int, outputs: int, cores: int, size: tuple[int, int]) -> None:
    """What does not stay in the cache is made by all threads together, and read by the kernel of the products."""
    with make_context(), ir.Location.unknown():
        token = TARGET.set(replace(TARGET.get(detect_host()), l2_bytes=1 << 10, cores=cores))
        try:
            check(convolution(n, 19, 112, size, SAME, "brm"), SAME, "brm", 3, outputs, stages=1)
        finally:
            TARGET.reset(token)


@pytest.mark.parametrize("l2_bytes, stages", [(1 << 10, 1), (1 << 24, 2)])
def test_rows_of_patches_that_would_share_sets(l2_bytes: int, stages: int) -> None:
    """Rows of 2 kB get gaps where another kernel makes them, and the transform back stays with its products."""
    with make_context(), ir.Location.unknown():
        token = TARGET.set(replace(TARGET.get(detect_host()), l2_bytes=l2_bytes, cores=2))
        try:
            check(convolution(1, 512, 32, (14, 14), SAME, "bm"), SAME, "bm", 3, stages=stages)
        finally:
            TARGET.reset(token)


def test_a_residual_block_stores_its_padding() -> None:
    def body(x: ir.Value, first: ir.Value, second: ir.Value) -> ir.Value:
        y = relu(builders.conv(padded(x, SAME), first, (1, 1), (1, 1)))
        return relu(add(builders.conv(padded(y, SAME), second, (1, 1), (1, 1)), y))

    with make_context(), ir.Location.unknown():
        model = networks.build(body, {"x": (2, 16, 10, 7)}, {"first": (32, 16, 3, 3), "second": (32, 32, 3, 3)})
        inputs, weights = random(model), {name: param.array() for name, param in model.params.items()}
        y = np.maximum(direct(inputs["x"], weights["first"]), 0)
        want = np.maximum(direct(y, weights["second"]) + y, 0)
        made = compiled(model, 2)
    assert len(made.plan.main.calls) == 4, "two kernels beside the conversions of the layout"
    for chunks in (1, 3):
        [got] = made(inputs, weights, chunks)
        np.testing.assert_allclose(got, want, rtol=0, atol=TOLERANCE * float(np.abs(want).max()))


@pytest.mark.parametrize("outputs", [2, 4])
def test_what_a_patch_holds_stays_in_its_outputs(outputs: int) -> None:
    """As the pass's docstring says: no answer is lost beyond a patch, and none is finite that should not be."""
    with make_context(), ir.Location.unknown():
        model = convolution(1, 16, 32, (18, 18))
        inputs, weights = random(model), {name: param.array() for name, param in model.params.items()}
        made = compiled(model, outputs=outputs)
    calm = direct(inputs["x"], weights["weight"])
    row, column = 6, 9
    touched = np.zeros(calm.shape[2:], bool)
    extent = count_points(outputs, 3)
    first = range(0, 20 - extent + outputs, outputs)
    for top in (t for t in first if t <= row + 1 < t + extent):  # the padding is one wide
        for left in (t for t in first if t <= column + 1 < t + extent):
            touched[top : top + outputs, left : left + outputs] = True
    for value in (np.inf, -np.inf, np.nan, 1e8):
        inputs["x"][0, 3, row, column] = value
        [got] = made(inputs, weights, 2)
        with np.errstate(invalid="ignore"):
            want = direct(inputs["x"], weights["weight"])
        assert not np.isfinite(got[~np.isfinite(want)]).any(), value
        np.testing.assert_allclose(
            got[..., ~touched], calm[..., ~touched], rtol=0, atol=TOLERANCE * float(np.abs(calm).max()), err_msg=value
        )
        if np.isfinite(value):
            np.testing.assert_allclose(got, want, rtol=0, atol=TOLERANCE * value)


def test_filters_that_come_with_each_run_are_transformed_in_it() -> None:
    def body(x: ir.Value, weight: ir.Value) -> ir.Value:
        return builders.conv(padded(x, SAME), weight, (1, 1), (1, 1))

    with make_context(), ir.Location.unknown():
        model = networks.build(body, {"x": (1, 16, 9, 10), "weight": (32, 16, 3, 3)}, {})
        inputs = random(model)
        [got] = CompiledPlan(plan(model))(inputs, {}, 2)
    want = direct(inputs["x"], inputs["weight"])
    np.testing.assert_allclose(got, want, rtol=0, atol=TOLERANCE * float(np.abs(want).max()))


def test_a_zero_image_gives_zeros() -> None:
    with make_context(), ir.Location.unknown():
        model = convolution(1, 16, 32, (7, 7))
        inputs = {name: np.zeros_like(value) for name, value in random(model).items()}
        [got] = compiled(model)(inputs, {name: param.array() for name, param in model.params.items()})
    np.testing.assert_array_equal(got, 0)


@pytest.mark.parametrize(
    ("filters", "channels", "taps", "patched"), [(32, 32, 3, True), (16, 16, 5, True), (8, 32, 3, False)]
)
def test_signals_of_whole_vectors_of_channels_are_convolved_in_patches(filters, channels, taps, patched):
    text = f"g (float[1, {channels}, 200] x) => (float[1, {filters}, L] y) {{ y = Conv(x, w) }}"
    made = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 18]> {text}')
    weight = np.ones((filters, channels, taps), np.float32)
    made.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    kernels = api.stepwise(made, options=api.make_options("x86 -mcpu=haswell"), workers=0).kernels
    assert any("transform" in name for name in kernels) == patched
