"""Attention ops of com.microsoft on inputs of open sizes, weights and biases among them: one program for all."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from exact_weights import halve
from onnx_case import foreign_model
from open_case import check_open, check_refused, open_model
from samples import campaign, leaving

import tilewright as tw
from tilewright.tools.debugging.oracle import make_session

RNG = np.random.default_rng(3)
H = 2  # heads
OPTIONS: dict[str, Any] = {"domain": "com.microsoft", "num_heads": H}


def f(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def ones(*shape: int) -> np.ndarray:
    return RNG.integers(0, 2, shape).astype(np.int32)


def joined(batch: int, rows: int, size: int, *more: np.ndarray | None) -> list[np.ndarray | None]:
    """The operands of Attention; ``size`` is that of a head."""
    return [f(batch, rows, 8), f(8, 3 * H * size), f(3 * H * size), *more]


def apart(batch: int, rows: int, keys: int, size: int, width: int) -> list[np.ndarray | None]:
    """Queries, keys, values and bias of MultiHeadAttention; ``width`` is the size of a head's values."""
    sizes = H * size, H * size, H * width
    return [*(f(batch, n, hidden) for n, hidden in zip((rows, keys, keys), sizes, strict=True)), f(sum(sizes))]


def quantized(batch: int, rows: int, size: int, *more: np.ndarray | None) -> list[np.ndarray | None]:
    bytes_ = RNG.integers(0, 256, (batch, rows, 8)).astype(np.uint8)
    weights = halve(RNG.integers(-128, 128, (8, 3 * H * size)).astype(np.int8))
    return [bytes_, weights, f(3 * H * size), np.array(0.004, np.float32), np.array(0.01, np.float32), *more]


SHAPES = (2, 3, 4), (1, 1, 8), (3, 17, 2)  # batch, rows, size of a head
ENDS = [np.array(ends, np.int32) for ends in ([2, 3], [1], [5, 17, 9, 0, 3, 2])]  # the last with starts

Runs = Sequence[Sequence[Any]]
Misfits = Sequence[tuple[Sequence[Any], str]]  # inputs that do not fit each other, and what is said of them

# Name of the case: operator, runs, attributes or what `check_open` takes besides, misfits.
CASES: dict[str, tuple[str, Runs, dict[str, Any], Misfits]] = {
    "rows see what is before them and in a range": (
        "Attention",
        [joined(*shape, ends) for shape, ends in zip(SHAPES, ENDS, strict=True)],
        {"unidirectional": 1},
        [
            ([f(2, 3, 8), f(7, 24), f(24), ENDS[0]], "weights has shape .* axis 0 is not c"),
            ([f(2, 3, 8), f(8, 24), f(25), ENDS[0]], "bias has shape"),
            ([f(2, 3, 8), f(8, 25), f(25), ENDS[0]], "do not make the last axis"),
            ([f(2, 3, 8), f(8, 27), f(27), ENDS[0]], "does not hold 2 heads"),
            (joined(2, 3, 4, ones(3)), "a mask of shape"),
        ],
    ),
    "a mask of keys and a bias that is repeated": (
        "Attention",
        [
            joined(*shape, ones(*shape[:2]), None, f(*bias, shape[1], shape[1]))
            for shape, bias in zip(SHAPES, ((1, H), (1, 1), (3, 1)), strict=True)
        ],
        {},
        [
            (joined(2, 3, 4, ones(2, 4), None, f(2, H, 3, 3)), "a mask of shape"),
            (joined(2, 3, 4, ones(2, 3), None, f(2, 3, 3, 3)), "do not broadcast"),
        ],
    ),
    "a mask for each row, behind a past": (
        "Attention",
        [joined(b, n, d, ones(b, n, m + n), f(2, b, H, m, d)) for b, n, d, m in ((2, 3, 4, 5), (1, 1, 8, 1))],
        {"results": ["float32"] * 2},
        [
            (joined(2, 3, 4, ones(2, 3, 7), f(2, 2, H, 5, 4)), "a mask of shape"),
            (joined(2, 3, 4, ones(2, 3, 8), f(3, 2, H, 5, 4)), "past has shape"),
            (joined(2, 3, 4, ones(2, 3, 8), f(2, 2, H, 5, 3)), "does not fit keys or values"),
        ],
    ),
    "bytes": (
        "QAttention",
        [quantized(*shape, None, np.array(120, np.uint8), np.array(3, np.int8)) for shape in SHAPES],
        {},
        [],
    ),
    "another sequence": (
        "MultiHeadAttention",
        [[*apart(*s), ones(s[0], s[2]), f(1, H, s[1], s[2])] for s in ((2, 3, 5, 4, 6), (1, 1, 1, 8, 8))],
        {},
        [
            ([*apart(2, 3, 5, 4, 4)[:3], f(25), ones(2, 5), f(1, H, 3, 5)], "do not make the last axis"),
            ([f(2, 3, 8), f(2, 5, 6), f(2, 5, 6), f(20), ones(2, 5), f(1, H, 3, 5)], "do not fit"),
        ],
    ),
    "heads that are apart": (
        "MultiHeadAttention",
        [[f(b, 3, H * d), f(b, H, n, d), f(b, H, n, d)] for b, n, d in ((2, 5, 4), (1, 1, 8))],
        {},
        [([f(2, 3, 8), f(2, 3, 5, 4), f(2, 3, 5, 4)], "key or value has shape")],
    ),
    "keys and values behind a past": (
        "MultiHeadAttention",
        [
            [f(b, n, H * d), f(b, n, H * d), f(b, n, H * d), None, None, None, f(b, H, m, d), f(b, H, m, d)]
            for b, n, d, m in ((2, 3, 4, 5), (1, 1, 8, 1))
        ],
        {"results": ["float32"] * 3, "unidirectional": 1},
        [
            ([f(2, 3, 8), f(2, 2, 8), f(2, 2, 8), None, None, None, f(2, H, 5, 4), f(2, H, 5, 4)], "unidirectional"),
        ],
    ),
}


@campaign("a mask of keys and a bias that is repeated", "keys and values behind a past")
@pytest.mark.parametrize(
    "name", leaving(CASES, ["bytes", "another sequence", "a mask for each row, behind a past", "heads that are apart"])
)
def test_one_program_for_all_sizes_that_fit(name: str):
    op, runs, options, misfits = CASES[name]
    module = check_open(op, *runs, tolerance=1e-4, **OPTIONS, **options)
    for arrays, why in misfits:
        check_refused(module, op, arrays, why)


def test_packed_operands_of_open_sizes_are_the_separate_ones():
    packed = f(2, 3, H, 3, 4)
    module = tw.compile(open_model("MultiHeadAttention", [packed], **OPTIONS), workers=0, num_threads=1, cache=False)
    q, k, v = (packed[:, :, :, i].reshape(2, 3, H * 4) for i in range(3))
    model, inputs = foreign_model("MultiHeadAttention", [q, k, v], **OPTIONS)
    [want] = make_session(model).run(None, inputs)
    np.testing.assert_allclose(module(packed)[0], np.asarray(want), 1e-4, 1e-5)
    check_refused(module, "MultiHeadAttention", [f(2, 3, H, 2, 4)], "what is packed has shape")
    check_refused(module, "MultiHeadAttention", [f(2, 3, 3, 3, 4)], "what is packed has shape")


SIZE, COS, SIN = 16, f(16, 8), f(16, 8)
GROUPS: dict[str, Any] = {
    "domain": "com.microsoft",
    "results": ["float32"] * 3,
    "num_heads": 4,
    "kv_num_heads": 2,
    "do_rotary": 1,
}


def grouped(batch: int, rows: int, past: int, ends: list[int], total: int, *more: np.ndarray) -> list[Any]:
    """The operands of GroupQueryAttention; ``ends`` are the places of each batch's last key."""
    q, k, v = (f(batch, rows, heads * SIZE) for heads in (4, 2, 2))
    held = f(batch, 2, past, SIZE), f(batch, 2, past, SIZE)
    return [q, k, v, *held, np.array(ends, np.int32), np.array(total, np.int32), COS, SIN, *more]


def runs_of_groups(placed: bool) -> list[list[Any]]:
    """A prompt, a token, more behind a past, a prompt into a cache; ``placed`` with positions and a bias."""
    runs = []
    for batch, rows, past, ends in ((2, 3, 0, [2, 1]), (2, 1, 8, [6, 3]), (1, 3, 5, [7]), (2, 3, 6, [2, 2])):
        total = max(max(ends) + 1, rows)
        at = np.add.outer(np.array(ends) + 1 - rows if total > rows else np.array([2] * batch), np.arange(rows))
        runs.append(grouped(batch, rows, past, ends, total, *([at, f(1, 4, rows, total)] if placed else [])))
    return runs


@cache
def program_of_groups(placed: bool) -> tw.Module:
    made = open_model("GroupQueryAttention", runs_of_groups(placed)[0], known=[7, 8], **GROUPS)
    return tw.compile(made, workers=0, num_threads=1, cache=False)


@campaign("True")
@pytest.mark.parametrize("placed", [False, True])
def test_one_program_for_a_prompt_and_each_token(placed: bool):
    for arrays in runs_of_groups(placed):
        model, inputs = foreign_model("GroupQueryAttention", arrays, known=[7, 8], **GROUPS)
        wants = map(np.asarray, make_session(model).run(None, inputs))
        (got, *caches), (want, *held) = program_of_groups(placed)(*inputs.values()), wants
        np.testing.assert_allclose(got, want, 1e-4, 1e-5)
        for ours, theirs in zip(caches, held, strict=True):
            assert ours.shape == theirs.shape
            for item, last in enumerate(arrays[5]):  # what follows the last key is not defined
                keys = np.s_[item, :, : last + 1]
                np.testing.assert_allclose(ours[keys], theirs[keys], 1e-4, 1e-5)


PROMPT = grouped(2, 3, 0, [2, 1], 3)[:7]
PLACES, BIAS = np.zeros((2, 3), np.int64), f(1, 4, 3, 3)


@campaign("arrays5", "arrays6", "arrays7", "arrays8")
@pytest.mark.parametrize(
    ("arrays", "why"),
    [
        (grouped(2, 3, 0, [2, 1], 2)[:7], "a total_sequence_length of"),
        (grouped(2, 0, 4, [2, 1], 2)[:7], "a total_sequence_length of"),
        (grouped(2, 3, 0, [2], 3)[:7], "seqlens_k has shape"),
        ([PROMPT[0], *grouped(2, 2, 0, [2, 1], 3)[1:7]], "do not fit"),
        ([*PROMPT[:3], *grouped(1, 3, 4, [2, 1], 3)[3:7]], "the past has shape"),
        ([*PROMPT, PLACES[:, :2], BIAS], "position_ids of shape"),
        ([*PROMPT, PLACES, BIAS[..., :2]], "a bias of shape"),
        ([*PROMPT, PLACES, f(1, 3, 3, 3)], "do not broadcast"),
        ([*grouped(0, 3, 0, [], 3)[:7], PLACES[:0], BIAS], "no first one of position_ids"),
    ],
)
def test_a_cache_and_keys_that_do_not_fit_are_refused_by_the_run(arrays: list[Any], why: str):
    check_refused(program_of_groups(len(arrays) > 7), "GroupQueryAttention", arrays, why)


def test_turned_heads_of_open_sizes():
    options: dict[str, Any] = {"domain": "com.microsoft", "known": [2, 3]}
    shapes = (2, 3, 32), (1, 1, 16)
    apart = [[f(*shape), np.zeros(shape[:2], np.int64) + 3, COS, SIN] for shape in shapes]
    module = check_open("RotaryEmbedding", *apart, **options)
    check_refused(module, "RotaryEmbedding", [f(2, 3, 24), np.zeros((2, 3), np.int64)], "for a cos_cache of shape")
    check_refused(module, "RotaryEmbedding", [f(2, 3, 32), np.zeros((2, 4), np.int64)], "position_ids of shape")
    whole = [
        [f(b, 2, n, size), np.array([n]), f(9, size // 2), f(9, size // 2)] for b, n, size in ((2, 3, 8), (1, 1, 16))
    ]
    module = check_open("RotaryEmbedding", *whole, domain="com.microsoft", interleaved=1)
    check_refused(module, "RotaryEmbedding", [f(2, 2, 3, 14), np.array([1]), COS, SIN], "for a cos_cache of shape")
    check_refused(module, "RotaryEmbedding", [f(2, 2, 3, 16), np.array([1, 1]), COS, SIN], "position_ids of shape")
    check_refused(
        module,
        "RotaryEmbedding",
        [f(2, 2, 3, 16), np.array([1]), COS, f(16, 7)],
        "sin_cache has shape .* axis 1 is not half",
    )
    check_refused(
        module, "RotaryEmbedding", [f(2, 2, 3, 0), np.array([1]), f(9, 0), f(9, 0)], "for a cos_cache of shape"
    )


@pytest.mark.parametrize("interleaved", [0, 1])
def test_heads_of_known_size_turn_in_one_pass(interleaved: int):
    """The operator of ONNX itself, whose function body has ten kernels, for any batch and length."""
    options: dict[str, Any] = {"opset": 23, "interleaved": interleaved, "fixed": {(0, 1), (0, 3), (1, 1), (2, 1)}}
    runs = [[f(b, 2, n, 16), f(9, 8), f(9, 8), RNG.integers(0, 9, (b, n))] for b, n in ((2, 5), (1, 1))]
    module = check_open("RotaryEmbedding", *runs, **options)
    assert sum(not row.name.startswith(("index", "reduce", "cmp_or")) for row in module.profile(runs[0]).rows) == 1
    check_refused(module, "RotaryEmbedding", [*runs[0][:3], np.zeros((2, 4), np.int64)], "position_ids of shape")
    check_refused(module, "RotaryEmbedding", [*runs[0][:2], f(8, 8), np.full((2, 5), 8)], "index")


def test_a_part_of_heads_turns():
    shapes = {"x": (2, 3, 24), "caches": (2, 3, 4)}
    options: dict[str, Any] = {"opset": 23, "num_heads": 2, "rotary_embedding_dim": 8}
    module = check_open("RotaryEmbedding", [f(*shapes["x"]), f(*shapes["caches"]), f(*shapes["caches"])], **options)
    check_refused(module, "RotaryEmbedding", [f(2, 3, 23), f(2, 3, 4), f(2, 3, 4)], "does not hold 2 heads")
    check_refused(module, "RotaryEmbedding", [f(2, 3, 24), f(2, 3, 5), f(2, 3, 4)], "for 4 pairs of")
