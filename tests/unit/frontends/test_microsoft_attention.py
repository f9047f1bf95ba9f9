"""Attention ops of com.microsoft against onnxruntime, or numpy for the forms that its CPU kernels lack."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx_case import check_model, foreign_model
from reference import run_model

from tilewright.core.errors import ModelError
from tilewright.frontends import import_model
from tilewright.tools.debugging.oracle import make_session

RANDOM = np.random.default_rng(0)
B, S, T, H, D = 2, 3, 5, 2, 4  # batch, queries, keys, heads, size of a head


def f(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def ints(*numbers: Any) -> np.ndarray:
    return np.array(numbers, np.int32)


def check(op: str, *arrays: np.ndarray | None, **options: Any) -> None:
    model, inputs = foreign_model(op, arrays, "com.microsoft", **options)
    check_model(model, inputs, 1e-4, 1e-4)


def refusal(op: str, *arrays: np.ndarray | None, **options: Any) -> str:
    model, _ = foreign_model(op, arrays, "com.microsoft", **options)
    with pytest.raises(ModelError) as error:
        import_model(model)
    return str(error.value)


def joined(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x.transpose(0, 2, 1, 3)).reshape(x.shape[0], x.shape[2], -1)


MASKS = {
    "none": None,
    "lengths": ints(2, 3),
    "ends and starts": ints(2, 3, 0, 1),
    "keys": ints([1, 1, 0], [0, 2, -1]),
    "all hidden": ints([1, 1, 0], [0, 0, 0]),
    "rows": np.tril(np.ones((B, S, S), np.int32)),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("unidirectional", [0, 1])
def test_self_attention_with_a_mask(mask, unidirectional):
    arrays = [f(B, S, 8), f(8, 3 * H * D), f(3 * H * D), MASKS[mask]]
    check("Attention", *arrays, num_heads=H, unidirectional=unidirectional)


def test_self_attention_with_a_past_a_bias_and_other_sizes():
    x, w, b, past = f(B, S, 8), f(8, 3 * H * D), f(3 * H * D), f(2, B, H, T, D)
    check("Attention", x, w, b, None, past, results=["float32"] * 2, num_heads=H, unidirectional=1)
    check("Attention", x, w, b, None, None, f(1, H, S, S), num_heads=H, scale=0.3)
    check("Attention", x, f(8, 8 + 8 + 12), f(28), num_heads=H, qkv_hidden_sizes=[8, 8, 12])
    check("Attention", x, w, b, MASKS["all hidden"], num_heads=H, mask_filter_value=-1.0)


def test_forms_that_share_a_buffer_or_a_mask_of_four_axes_are_refused():
    arrays = [f(B, S, 8), f(8, 3 * H * D), f(3 * H * D)]
    assert "share a buffer" in refusal("Attention", *arrays, num_heads=H, past_present_share_buffer=1)
    mask = np.ones((B, 1, S, S), np.int32)
    assert "a mask of shape [2, 1, 3, 3]" in refusal("Attention", *arrays, mask, num_heads=H)
    query = f(B, S, H * D)
    assert "3 queries to 5 keys" in refusal(
        "MultiHeadAttention", query, f(B, T, H * D), f(B, T, H * D), num_heads=H, unidirectional=1
    )
    assert "does not hold 3 heads" in refusal("MultiHeadAttention", query, query, query, num_heads=3)


@pytest.mark.parametrize(
    "mask", [None, ints(2, 5), RANDOM.integers(0, 2, (B, T)), RANDOM.integers(0, 2, (B, S, T))], ids=str
)
def test_attention_to_another_sequence(mask):
    q, k, v = f(B, S, H * D), f(B, T, H * D), f(B, T, H * 6)
    mask = None if mask is None else mask.astype(np.int32)
    check("MultiHeadAttention", q, k, v, f(8 + 8 + 12), mask, f(1, H, S, T), num_heads=H)


def test_keys_and_values_that_are_heads_already():
    q, k, v = f(B, S, H * D), f(B, H, T, D), f(B, H, T, D)
    check("MultiHeadAttention", q, k, v, num_heads=H)
    check("MultiHeadAttention", q, k, v, f(3 * H * D), num_heads=H)


def test_attention_with_a_past():
    q, k, v = f(B, S, H * D), f(B, S, H * D), f(B, S, H * D)
    past, results = (f(B, H, T, D), f(B, H, T, D)), ["float32"] * 3
    check("MultiHeadAttention", q, k, v, f(24), None, None, *past, results=results, num_heads=H, unidirectional=1)
    check("MultiHeadAttention", q, k, v, results=results, num_heads=H)


def test_packed_operands_are_the_separate_ones():
    q, k, v, bias = f(B, H, S, D), f(B, H, S, D), f(B, H, S, D), f(3 * H * D)
    apart = [joined(t) for t in (q, k, v)]
    model, inputs = foreign_model("MultiHeadAttention", [*apart, bias], "com.microsoft", num_heads=H)
    [want] = make_session(model).run(None, inputs)
    together = np.ascontiguousarray(np.stack([q, k, v], axis=3).transpose(0, 2, 1, 3, 4))
    pair = np.ascontiguousarray(np.stack([k, v], axis=3).transpose(0, 2, 1, 3, 4))
    for arrays in ([together, None, None, bias], [apart[0], pair, None, bias]):
        model, inputs = foreign_model("MultiHeadAttention", arrays, "com.microsoft", num_heads=H)
        got = run_model(import_model(model), inputs)[0]
        np.testing.assert_allclose(got, np.asarray(want), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotary_embedding(interleaved):
    cos, sin, at = f(16, 4), f(16, 4), RANDOM.integers(0, 16, (B, S))
    check("RotaryEmbedding", f(B, S, H * 8), at, cos, sin, interleaved=interleaved)
    check("RotaryEmbedding", f(B, H, S, 8), np.array([4]), cos, sin, interleaved=interleaved)
    part = {"num_heads": H, "rotary_embedding_dim": 8, "interleaved": interleaved}
    check("RotaryEmbedding", f(B, S, H * 12), at, cos, sin, **part)


def test_rotary_caches_that_do_not_fit_are_refused():
    assert "for a cos_cache of shape [16, 5]" in refusal(
        "RotaryEmbedding", f(B, H, S, 8), np.array([4]), f(16, 5), f(16, 5)
    )


SIZE = 16
GROUPS: dict[str, Any] = {"num_heads": 4, "kv_num_heads": 2}
Q, K, V = f(B, S, 4 * SIZE), f(B, S, 2 * SIZE), f(B, S, 2 * SIZE)
PAST = f(B, 2, 8, SIZE), f(B, 2, 8, SIZE)
COS, SIN = f(16, SIZE // 2), f(16, SIZE // 2)


def check_grouped(*arrays: np.ndarray | None, outputs: int = 1, **options: Any) -> None:
    """The first outputs; onnxruntime needs all, and leaves what follows a cache's last key undefined."""
    model, inputs = foreign_model(
        "GroupQueryAttention", arrays, "com.microsoft", ["float32"] * 3, [6], **GROUPS, **options
    )
    wants = make_session(model).run(None, inputs)
    for got, want in list(zip(run_model(import_model(model), inputs), wants, strict=True))[:outputs]:
        np.testing.assert_allclose(got, np.asarray(want), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"local_window_size": 2},
        {"softcap": 2.0, "scale": 0.7},
        {"smooth_softmax": 1},
        {"causal": 0},
    ],
    ids=str,
)
def test_grouped_attention_of_a_prompt(options):
    check_grouped(Q, K, V, None, None, ints(S - 1, S - 2), ints(S)[0], **options)


def test_grouped_attention_of_a_packed_prompt_fills_the_cache():
    check_grouped(np.concatenate([Q, K, V], -1), None, None, None, None, ints(2, 2), ints(S)[0], outputs=3)


@pytest.mark.parametrize("total", [7, 9])
@pytest.mark.parametrize("options", [{}, {"local_window_size": 3}, {"causal": 0}], ids=str)
def test_grouped_attention_of_one_token_with_a_past(total, options):
    check_grouped(Q[:, :1], K[:, :1], V[:, :1], *PAST, ints(6, 3), ints(total)[0], **options)


def test_grouped_attention_writes_the_cache_behind_the_past():
    check_grouped(Q[:, :1], K[:, :1], V[:, :1], *PAST, ints(8, 8), ints(9)[0], outputs=3)
    check_grouped(Q[:1], K[:1], V[:1], *(p[:1] for p in PAST), ints(7), ints(8)[0], outputs=3)


def test_grouped_attention_with_a_bias_or_a_sink():
    prompt = [Q, K, V, None, None, ints(2, 2), ints(S)[0], None, None, None]
    check_grouped(*prompt, f(1, 1, S, S), softcap=2.0)
    check_grouped(*prompt, f(B, 4, S, S))
    check_grouped(*prompt, None, f(4))


@pytest.mark.parametrize("interleaved", [0, 1])
def test_grouped_attention_turns_queries_and_keys(interleaved):
    rotary = {"do_rotary": 1, "rotary_interleaved": interleaved}
    check_grouped(Q, K, V, None, None, ints(2, 2), ints(S)[0], COS, SIN, outputs=3, **rotary)
    check_grouped(Q[:, :1], K[:, :1], V[:, :1], *PAST, ints(6, 3), ints(7)[0], COS, SIN, **rotary)
    first = np.array([[2, 0, 0], [0, 0, 0]])
    check_grouped(Q, K, V, None, None, ints(2, 2), ints(S)[0], COS, SIN, first, **rotary)


def test_grouped_attention_normalizes_queries_and_keys():
    weights = f(SIZE), f(SIZE)
    arrays = [Q, K, V, None, None, ints(2, 2), ints(S)[0]]
    normed = []
    for t, heads, weight in ((Q, 4, weights[0]), (K, 2, weights[1])):
        apart = t.reshape(B, S, heads, SIZE)
        scaled = apart / np.sqrt((apart**2).mean(-1, keepdims=True) + 1e-6) * weight
        normed.append(scaled.reshape(t.shape).astype(np.float32))
    model, inputs = foreign_model("GroupQueryAttention", [*normed, *arrays[2:]], "com.microsoft", known=[6], **GROUPS)
    [want] = run_model(import_model(model), inputs)
    arrays += [None] * 7
    model, inputs = foreign_model("GroupQueryAttention", [*arrays, *weights], "com.microsoft", known=[6], **GROUPS)
    np.testing.assert_allclose(run_model(import_model(model), inputs)[0], want, rtol=1e-4, atol=1e-5)


def test_grouped_attention_refuses_what_it_lacks():
    arrays = [Q, K, V, None, None, ints(2, 2), ints(S)[0]]
    quantized = {"k_quant_type": "PER_TENSOR", "known": [6]}
    assert "a quantized cache" in refusal("GroupQueryAttention", *arrays, **GROUPS, **quantized)
    assert "do_rotary needs cos_cache" in refusal("GroupQueryAttention", *arrays, **GROUPS, known=[6], do_rotary=1)
