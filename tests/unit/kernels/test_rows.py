"""Reductions and normalisations along any axes, through the whole compiler, against numpy in float64."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_runner import TARGET, CompiledPlan
from onnx_case import node_model

from tilewright.dialects.context import make_context
from tilewright.frontends import import_model
from tilewright.passes import pipeline
from tilewright.passes.infra import PassContext
from tilewright.target import host

RNG = np.random.default_rng(0)
EXTENTS = st.sampled_from([1, 2, 3, 7, 16, 33, 70])


def random(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, dtype=np.float32)


def run(model: onnx.ModelProto, inputs: Mapping[str, np.ndarray], want: np.ndarray, kernels: int = 1) -> None:
    """So many kernels, all with schedules, that give what is wanted in any number of chunks."""
    imported = import_model(model)
    with make_context():
        compiled = CompiledPlan(pipeline.plan(imported, TARGET.get(host()), PassContext()))
    assert all(kernel.kernel.schedule for kernel in compiled.kernels.values())
    assert not kernels or len(compiled.plan.main.calls) == kernels
    params = {name: param.array() for name, param in imported.params.items()}
    for chunks in (1, 3):
        (got,) = compiled(inputs, params, chunks)
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * max(1.0, float(np.abs(want).max(initial=0))))


REDUCTIONS = {
    "ReduceSum": lambda x, axes: x.sum(axes),
    "ReduceMax": lambda x, axes: x.max(axes),
    "ReduceMean": lambda x, axes: x.mean(axes),
    "ReduceL2": lambda x, axes: np.sqrt((x * x).sum(axes)),
}


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_reductions_along_any_axes(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 4))
    shape = data.draw(st.lists(EXTENTS, min_size=rank, max_size=rank))
    axes = tuple(sorted(data.draw(st.sets(st.integers(0, rank - 1), min_size=1))))
    op, x = data.draw(st.sampled_from(sorted(REDUCTIONS))), random(*shape)
    model, inputs = node_model(op, [x, np.array(axes)], known=(1,), keepdims=0)
    run(model, inputs, REDUCTIONS[op](x.astype(np.float64), axes), kernels=0)


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
