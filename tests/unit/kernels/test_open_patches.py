"""Convolutions of open sizes by Winograd's algorithm, of which the run chooses how large patches are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
import pytest
from cpu_targets import FOR_THIS_MACHINE
from shared_kernels import noting_kernels

import tilewright as tw
from tilewright.core.target import Target, detect_host
from tilewright.passes.graph import winograd
from tilewright.tools.debugging.oracle import make_session

RNG = np.random.default_rng(3)
CHANNELS = 20
# Images of fewer and of more pixels than those from which on patches are large, none, and some that are no whole patches.
SHAPES = [(1, 1, 1), (1, 4, 4), (1, 3, 5), (3, 2, 2), (1, 4, 3), (2, 9, 7), (1, 1, 40), (1, 33, 18), (0, 8, 8)]


@FOR_THIS_MACHINE
@pytest.mark.parametrize("depth", [(), pytest.param((3,), marks=pytest.mark.slow)])
def test_the_run_chooses_the_size_of_patches(depth: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows is computed of whole patches of both sizes, but for a residual and another output."""
    monkeypatch.setattr(winograd._Form, "least_pixels", 16)
    axes = 2 + len(depth)
    body = f"c = Conv<pads = {[1] * 2 * axes}>(x, w, b) s = Sigmoid(c) m = Mul(c, s) y = Add(m, x)"
    kind = f"float[N, {CHANNELS}, {'D, ' * len(depth)}H, W]"
    made = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["": 18]> g ({kind} x) => ({kind} y, {kind} m) {{ {body} }}'
    )
    for weight, shape in {"w": (CHANNELS, CHANNELS, *[3] * axes), "b": (CHANNELS,)}.items():
        values = RNG.standard_normal(shape).astype(np.float32) / 8
        made.graph.initializer.append(onnx.numpy_helper.from_array(values, weight))
    session, module = make_session(made), tw.compile(made, workers=0, num_threads=1)
    routine = module.manifest.program.routine
    assert routine is not None
    names = [step.facts.get("kernel", "") for step in routine.calls]
    assert sum(name.startswith("transform_matmul") for name in names) == 2
    for n, h, w in SHAPES:
        x = RNG.standard_normal((n, CHANNELS, *depth, h, w), dtype=np.float32)
        for got, want in zip(module(x), session.run(None, {"x": x}), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3)


@FOR_THIS_MACHINE
def test_pixels_of_a_transposed_convolution_are_woven_from_whole_patches() -> None:
    """Nothing copies the pixels that are asked for; tiles of channels and columns are turned in registers."""
    made = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 18]> g (float[N, 64, H, W] x) => (float[N, 32, P, Q] y)'
        "{ y = ConvTranspose<strides = [2, 2], pads = [1, 1, 1, 1]>(x, w) }"
    )
    weight = RNG.standard_normal((64, 32, 4, 4)).astype(np.float32) / 8
    made.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    with noting_kernels() as found:
        session, module = make_session(made), tw.compile(made, workers=0, num_threads=1, cache=False)
    routine = module.manifest.program.routine
    assert routine is not None
    names = [step.facts.get("kernel", "") for step in routine.calls]
    assert [name.split("_")[0] for name in names] == ["transpose", "transform", "transpose", "copy"]
    [woven] = [kernel for kernel in found if kernel.name == names[2]]
    assert f"tile d2.1 x d5.1.1 x d6.1 of {detect_host().lanes} x" in woven.schedule
    for shape in ((1, 1, 1), (1, 2, 3), (2, 9, 7), (1, 17, 30), (0, 4, 4)):
        x = RNG.standard_normal((shape[0], 64, *shape[1:]), dtype=np.float32)
        np.testing.assert_allclose(module(x)[0], session.run(None, {"x": x})[0], rtol=1e-3, atol=1e-3)


@FOR_THIS_MACHINE
def test_patches_are_large_where_those_of_all_larger_images_are() -> None:
    """Of 12x12 pixels 4x4 outputs leave none over, but of 14x14 they do: these stay with small patches."""
    groups, cpu = ((0,), (1,), (2,), (3,)), Target.parse("x86 -mcpu=sapphirerapids")
    nothing: Any = None
    sizes = {"n": -1, "h": -1, "w": -1, "c": 256, "f": 256}
    form = winograd._Form(
        cpu, nothing, nothing, (2, 3, 1, 0), groups, 0, True, False, **sizes, taps=(3, 3), strides=(1, 1)
    )
    assert form.least_pixels is not None
    side = math.isqrt(form.least_pixels)
    assert form._prefers_many(12) and not form._prefers_many(side - 1) and side > 14
    assert all(form._prefers_many(larger) for larger in range(side, 64))


@FOR_THIS_MACHINE
def test_signals_read_large_filters_once_for_many_patches() -> None:
    """Their patches are made by a kernel of their own, so that blocks of the products share panels of the filters."""
    kind, channels = "float[N, 512, L]", 512
    text = f"({kind} x) => ({kind} y) {{ y = Conv<pads = [1, 1]>(x, w) }}"
    made = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 18]> g {text}')
    weight = RNG.standard_normal((channels, channels, 3)).astype(np.float32) / 32
    made.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    session, module = make_session(made), tw.compile(made, workers=0)
    routine = module.manifest.program.routine
    assert routine is not None
    names = [step.facts.get("kernel", "") for step in routine.calls]
    assert any(name.startswith("matmul_transform") for name in names)
    for n, length in ((1, 1), (1, 3), (2, 7), (1, 50), (1, 101), (3, 49), (0, 9)):
        x = RNG.standard_normal((n, channels, length), dtype=np.float32)
        [want] = session.run(None, {"x": x})
        for module.num_threads in (1, 2):
            np.testing.assert_allclose(module(x)[0], want, rtol=1e-3, atol=1e-3)
