"""Attention as one kernel, against float64: what is masked, shapes that tiles do not divide, chunks."""

from __future__ import annotations

import networks
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_runner import TARGET, CompiledPlan
from samples import campaign

from tilewright.core.model import Model
from tilewright.core.sizes import require_static
from tilewright.core.target import detect_host
from tilewright.dialects import arith, builders, ir, math, scalars
from tilewright.dialects.context import make_context
from tilewright.passes import pipeline
from tilewright.passes.infra.context import PassContext

RNG = np.random.default_rng(0)


def softmax(x: ir.Value) -> ir.Value:
    """Along the last dim, in the steps that a frontend makes."""
    f32, last = ir.F32Type.get(), len(builders.shape_of(x)) - 1
    kept = [*builders.shape_of(x)[:-1], 1]
    top = builders.reshape(builders.reduce(lambda c, a: arith.maximumf(c, a), -np.inf, x, [last]), kept)
    powers = builders.elementwise(lambda a, b: math.exp(arith.subf(a, b)), x, top, elem=f32)
    total = builders.reshape(builders.reduce(lambda c, a: arith.addf(c, a), 0.0, powers, [last]), kept)
    return builders.elementwise(lambda a, b: arith.divf(a, b), powers, total, elem=f32)


def attention(rows: int, columns: int, heads: int, depth: int, width: int, masked: bool, scale: float) -> Model:
    """softmax(q k^T / scale + mask) v with heads between rows and depth, as projections leave them."""
    f32 = ir.F32Type.get()

    def body(q: ir.Value, k: ir.Value, v: ir.Value, mask: ir.Value) -> ir.Value:
        q, k, v = (
            builders.transpose(q, (0, 2, 1, 3)),
            builders.transpose(k, (0, 2, 3, 1)),
            builders.transpose(v, (0, 2, 1, 3)),
        )
        scores = builders.contract("bhqd,bhdk->bhqk", q, k)
        scores = builders.elementwise(lambda a: arith.divf(a, scalars.like(a, scale)), scores, elem=f32)
        if masked:
            scores = builders.elementwise(lambda a, m: arith.addf(a, m), scores, mask, elem=f32)
        return builders.transpose(builders.contract("bhqk,bhkd->bhqd", softmax(scores), v), (0, 2, 1, 3))

    inputs = {
        "q": (1, rows, heads, depth),
        "k": (1, columns, heads, depth),
        "v": (1, columns, heads, width),
        "mask": (1, 1, rows, columns),
    }
    return networks.build(body, inputs, {})


def reference(inputs: dict[str, np.ndarray], masked: bool, scale: float) -> np.ndarray:
    q, k, v, mask = (inputs[name].astype(np.float64) for name in ("q", "k", "v", "mask"))
    scores = np.einsum("bqhd,bkhd->bhqk", q, k) / scale + (mask if masked else 0)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("bhqk,bkhd->bqhd", powers / powers.sum(-1, keepdims=True), v)


def check(rows: int, columns: int, heads: int, depth: int, width: int, masked: bool, scale: float, chunks: int) -> None:
    with make_context(), ir.Location.unknown():
        model = attention(rows, columns, heads, depth, width, masked, scale)
        made = CompiledPlan(pipeline.plan(model, TARGET.get(detect_host()), PassContext()))
        inputs = {
            i.name: RNG.standard_normal([require_static(n) for n in i.shape], dtype=np.float32) for i in model.inputs
        }
        if masked:
            inputs["mask"][..., columns // 2 :] = -1e30
        texts = [made.kernels[call.kernel].kernel.schedule for call in made.plan.main.calls]
        assert "" not in texts, "plain loops in place of a schedule"
        [got] = made(inputs, {}, chunks)
    if columns > 8 or rows < 8:  # the keys of many rows are else rows of a product's right operand
        assert len([text for text in texts if text.count("stage") >= 2]) == 1, "the scores leave the kernel"
    np.testing.assert_allclose(got, reference(inputs, masked, scale), rtol=0, atol=2e-5)


@settings(max_examples=4, deadline=None)
@given(
    st.integers(3, 150),  # what one row or two read is not transposed, and no part of this kernel
    st.integers(2, 150),
    st.integers(1, 3),
    st.sampled_from([8, 16, 64, 80]),
    st.sampled_from([10, 16, 32, 64, 96]),
    st.booleans(),
    st.sampled_from([8.0, 3.0]),
    st.integers(1, 3),
)
def test_attention_of_any_shape(
    rows: int, columns: int, heads: int, depth: int, width: int, masked: bool, scale: float, chunks: int
) -> None:
    check(rows, columns, heads, depth, width, masked, scale, chunks)


@campaign("197-197")
@pytest.mark.parametrize("rows, columns", [(197, 197), (128, 128), (3, 65), (65, 33)])
def test_rows_and_columns_that_tiles_do_not_divide(rows: int, columns: int) -> None:
    check(rows, columns, 2, 64, 64, True, 8.0, 2)


def test_rows_that_are_slices_of_one_projection_are_copied() -> None:
    rows, heads, depth = 40, 3, 32

    def body(x: ir.Value) -> ir.Value:
        q, k, v = (builders.slice_(x, (0, 0, heads * i, 0), (1, rows, heads, depth)) for i in range(3))
        k = builders.transpose(k, (0, 2, 3, 1))
        scores = builders.contract("bqhd,bhdk->bhqk", q, k)
        return builders.contract("bhqk,bkhd->bqhd", softmax(scores), v)

    with make_context(), ir.Location.unknown():
        model = networks.build(body, {"x": (1, rows, 3 * heads, depth)}, {})
        made = CompiledPlan(pipeline.plan(model, TARGET.get(detect_host()), PassContext()))
        x = RNG.standard_normal((1, rows, 3 * heads, depth), dtype=np.float32) / 4
        [got] = made({"x": x}, {}, 1)
    [kernel] = [made.kernels[c.kernel].kernel for c in made.plan.main.calls if "matmul" in c.kernel]
    stages = kernel.schedule.count("stage")  # keys in columns, scores and weights besides
    assert stages == 5, "a tile of such rows of the left would be gathered element by element"
    q, k, v = np.split(x, 3, axis=2)
    want = reference({"q": q, "k": k, "v": v, "mask": np.zeros(1)}, False, 1.0)
    np.testing.assert_allclose(got, want, rtol=0, atol=2e-5)


@campaign("4-49-32")
@pytest.mark.parametrize("windows, tokens, depth", [(4, 49, 32), (3, 16, 10), (1, 49, 30)])
def test_windows_whose_masks_are_added_in_a_view_of_their_scores(windows: int, tokens: int, depth: int) -> None:
    """Shifted windows: a mask is of one window, for all of its heads. The view has one image ahead of the windows."""
    heads = 2

    def body(q: ir.Value, k: ir.Value, v: ir.Value, mask: ir.Value) -> ir.Value:
        q, v = builders.transpose(q, (0, 2, 1, 3)), builders.transpose(v, (0, 2, 1, 3))
        scores = builders.contract("bhqd,bhdk->bhqk", q, builders.transpose(k, (0, 2, 3, 1)))
        view = builders.reshape(scores, (1, windows, heads, tokens, tokens))
        added = builders.elementwise(lambda a, m: arith.addf(a, m), view, mask, elem=ir.F32Type.get())
        weights = softmax(builders.reshape(added, (windows, heads, tokens, tokens)))
        return builders.transpose(builders.contract("bhqk,bhkd->bhqd", weights, v), (0, 2, 1, 3))

    sizes = {name: (windows, tokens, heads, depth) for name in "qkv"} | {"mask": (1, windows, 1, tokens, tokens)}
    inputs = {name: RNG.standard_normal(shape, dtype=np.float32) for name, shape in sizes.items()}
    inputs["mask"] = np.where(inputs["mask"] > 0.5, np.float32(-100), np.float32(0))
    with make_context(), ir.Location.unknown():
        model = networks.build(body, sizes, {})
        made = CompiledPlan(pipeline.plan(model, TARGET.get(detect_host()), PassContext()))
        [got] = made(inputs, {}, 2)
    [kernel] = [made.kernels[c.kernel].kernel for c in made.plan.main.calls if "matmul" in c.kernel]
    assert kernel.schedule.count("stage") >= 2 and "loops around nests" not in kernel.schedule
    np.testing.assert_allclose(got, reference(inputs | {"mask": inputs["mask"][0]}, True, 1.0), rtol=0, atol=2e-5)


@campaign("more blocks", "heads beside each other")
@pytest.mark.parametrize(
    "q, k, order, kernels",
    [
        pytest.param((2, 3, 7, 16), (2, 3, 90, 16), (0, 1, 3, 2), 1, id="few rows"),
        pytest.param((1, 2, 128, 16), (1, 90, 2, 16), (0, 2, 3, 1), 1, id="two blocks of rows"),
        pytest.param((1, 2, 129, 16), (1, 90, 2, 16), (0, 2, 3, 1), 2, id="more blocks"),
        pytest.param((2, 3, 7, 16), (2, 90, 16, 3), (0, 3, 2, 1), 2, id="heads beside each other"),
        pytest.param((1, 1, 5, 40), (1, 1, 33, 40), (0, 1, 3, 2), 1, id="one head"),
    ],
)
def test_few_rows_turn_the_keys_that_they_read(
    q: tuple[int, ...], k: tuple[int, ...], order: tuple[int, ...], kernels: int
) -> None:
    def body(q: ir.Value, k: ir.Value, v: ir.Value) -> ir.Value:
        scores = builders.contract("bhqd,bhdk->bhqk", q, builders.transpose(k, order))
        return builders.contract("bhqk,bhkd->bhqd", softmax(scores), v)

    keys = [k[axis] for axis in order][-1]
    sizes = {"q": q, "k": k, "v": (*q[:2], keys, 24)}
    inputs = {name: RNG.standard_normal(shape, dtype=np.float32) for name, shape in sizes.items()}
    with make_context(), ir.Location.unknown():
        model = networks.build(body, sizes, {})
        made = CompiledPlan(pipeline.plan(model, TARGET.get(detect_host()), PassContext()))
        [got] = made(inputs, {}, 2)
        calls = [made.kernels[call.kernel].kernel for call in made.plan.main.calls]
    assert len(calls) == kernels and "" not in [kernel.schedule for kernel in calls]
    doubles = inputs["q"].astype(np.float64), inputs["k"].transpose(order).astype(np.float64)
    scores = np.einsum("bhqd,bhdk->bhqk", *doubles)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    want = np.einsum("bhqk,bhkd->bhqd", powers / powers.sum(-1, keepdims=True), inputs["v"])
    np.testing.assert_allclose(got, want, rtol=0, atol=2e-5)


@pytest.mark.parametrize("rows, groups, each", [(1, 2, 4), (20, 2, 3), (70, 1, 2)])
def test_keys_that_heads_share_are_not_copied_for_each(rows: int, groups: int, each: int) -> None:
    heads, keys, depth = groups * each, 45, 16

    def body(q: ir.Value, k: ir.Value, v: ir.Value, mask: ir.Value) -> ir.Value:
        def repeat(value: ir.Value) -> ir.Value:
            apart = builders.reshape(value, (1, groups, 1, keys, depth))
            loops = [(0, 1, None, 3, 4), range(5)]
            out = builders.empty((1, groups, each, keys, depth), ir.F32Type.get())
            [made] = builders.generic([apart], [out], loops, "p" * 5, lambda a, _: a)
            return builders.reshape(made, (1, heads, keys, depth))

        scores = builders.contract("bhqd,bhdk->bhqk", q, builders.transpose(repeat(k), (0, 1, 3, 2)))
        scores = builders.elementwise(lambda a, m: arith.addf(a, m), scores, mask, elem=ir.F32Type.get())
        return builders.contract("bhqk,bhkd->bhqd", softmax(scores), repeat(v))

    sizes = {"q": (1, heads, rows, depth), "k": (1, groups, keys, depth), "v": (1, groups, keys, depth)}
    inputs = {name: RNG.standard_normal(shape, dtype=np.float32) for name, shape in sizes.items()}
    inputs["mask"] = np.where(RNG.random((1, 1, rows, keys)) < 0.3, np.float32(-1e9), np.float32(0))
    with make_context(), ir.Location.unknown():
        model = networks.build(body, sizes | {"mask": (1, 1, rows, keys)}, {})
        made = CompiledPlan(pipeline.plan(model, TARGET.get(detect_host()), PassContext()))
        [got] = made(inputs, {}, 2)
    [call] = [call for call in made.plan.main.calls if "matmul" in call.kernel]
    assert len(made.plan.main.calls) == 1 + (rows * each > 128), "more than the transpose for many rows besides"
    assert made.kernels[call.kernel].kernel.schedule.count("stage") >= 2
    q, k, v = (inputs[name].transpose(0, 2, 1, 3) for name in "qkv")
    k, v = (np.repeat(value, each, axis=2) for value in (k, v))
    want = reference({"q": q, "k": k, "v": v, "mask": inputs["mask"]}, True, 1.0)
    np.testing.assert_allclose(got, want.transpose(0, 2, 1, 3), rtol=0, atol=2e-5)
