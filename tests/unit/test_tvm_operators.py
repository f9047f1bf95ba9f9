"""Relay's operators beside numpy, scipy and torch. onnxruntime runs the models that they become."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as tf

import tilewright.tvm as tvm
from tilewright.core.errors import ModelError
from tilewright.tools.debugging.oracle import make_session
from tilewright.tvm import relay
from tilewright.tvm.network.conversion import write_model
from tilewright.tvm.network.registry import TABLE

_RANDOM = np.random.default_rng(5)


def _floats(*shape: int) -> np.ndarray:
    return _RANDOM.standard_normal(shape).astype(np.float32)


def _variables(arrays: tuple[np.ndarray, ...]) -> list[Any]:
    return [relay.var(f"x{n}", shape=a.shape, dtype=str(a.dtype)) for n, a in enumerate(arrays)]


def _run(call: Callable[..., Any], *arrays: np.ndarray) -> list[np.ndarray]:
    """What onnxruntime makes of a function's model; types that were inferred are those of the results."""
    made = relay.Function(variables := _variables(arrays), call(*variables))
    model = write_model(made, {}, {}).model
    results = make_session(model).run(None, {f"x{n}": a for n, a in enumerate(arrays)})
    found = [np.asarray(each) for each in results]
    known = made.body.checked_type
    types = known.fields if isinstance(known, relay.TupleType) else [known]
    for each, own in zip(types, found, strict=True):
        shape = [n if isinstance(n, int) else m for n, m in zip(each.shape, own.shape, strict=True)]
        assert (shape, each.dtype) == ([*own.shape], str(own.dtype))
    return found


def _torch(function: Callable[..., Any], *arrays: np.ndarray, **given: Any) -> np.ndarray:
    return function(*(torch.from_numpy(each) for each in arrays), **given).numpy()


X, Y, ROW, SQUARE = _floats(3, 4, 5), _floats(3, 1, 5), _floats(5), _floats(4, 4)
ONE = np.float32(1)
N = np.array([[7, -7, 9], [2, 5, -8]], np.int32)
B = X > 0
IMAGE, BYTES = _floats(2, 6, 9, 8), _RANDOM.integers(-9, 9, (1, 4, 6, 6)).astype(np.int8)
KERNEL, BYTE_KERNEL = _floats(8, 6, 3, 3), _RANDOM.integers(-9, 9, (3, 4, 3, 3)).astype(np.int8)
ROWS, VOLUME = _floats(2, 6, 9), _floats(1, 3, 5, 6, 4)
GAMMA, BETA, MEAN, VARIANCE = _floats(6), _floats(6), _floats(6), np.abs(_floats(6)) + 1
PLACES = np.array([[0, 2, 9], [-3, 1, 3]], np.int32)
LAST = np.array([[0, 2], [1, 3]], np.int64)

Case = tuple[Callable[..., Any], tuple[np.ndarray, ...], Callable[..., Any]]


def _nhwc(x: np.ndarray) -> np.ndarray:
    return x.transpose(0, 2, 3, 1).copy()


def _nchw(x: np.ndarray) -> np.ndarray:
    return x.transpose(0, 3, 1, 2)


ELEMENTS: dict[str, Case] = {
    "exp": (relay.exp, (X,), np.exp),
    "rsqrt": (lambda x: relay.rsqrt(relay.abs(x)), (X,), lambda x: 1 / np.sqrt(np.abs(x))),
    "log2": (lambda x: relay.log2(relay.abs(x)), (X,), lambda x: np.log2(np.abs(x))),
    "log10": (lambda x: relay.log10(relay.abs(x)), (X,), lambda x: np.log10(np.abs(x))),
    "trunc": (relay.trunc, (X * 3,), np.trunc),
    "round": (
        relay.round,
        (np.array([-2.5, -0.5, 0.5, 1.49, 1.5, 2.5], np.float32),),
        lambda x: np.array([-3, -1, 1, 1, 2, 3], np.float32),
    ),
    "sign": (relay.sign, (X,), np.sign),
    "isfinite": (relay.isfinite, (np.array([1, np.inf, np.nan, -np.inf], np.float32),), np.isfinite),
    "isnan": (relay.isnan, (np.array([1, np.inf, np.nan], np.float32),), np.isnan),
    "logical_not": (relay.logical_not, (B,), np.logical_not),
    "add": (relay.add, (X, Y), np.add),
    "signs": (lambda x, y: -x + y / 4 - x * 2 + (1 - y), (X, Y), lambda x, y: -x + y / 4 - x * 2 + (1 - y)),
    "comparisons": (lambda x, y: relay.logical_or(x < y, x >= 0.5), (X, Y), lambda x, y: (x < y) | (x >= 0.5)),
    "not_equal": (relay.not_equal, (N, N.clip(0, 7)), np.not_equal),
    "power": (lambda x, y: relay.power(relay.abs(x), y), (X, Y), lambda x, y: np.abs(x) ** y),
    "maximum": (relay.maximum, (X, ROW), np.maximum),
    "divide integers": (
        relay.divide,
        (N, np.array([2, 2, -2], np.int32)),
        lambda a, b: np.trunc(a / b).astype(np.int32),
    ),
    "floor_divide": (relay.floor_divide, (N, np.array([2, 2, -2], np.int32)), np.floor_divide),
    "floor_divide floats": (relay.floor_divide, (X, Y), lambda x, y: np.floor(x / y)),
    "mod": (relay.mod, (N, np.array([3, 4, -5], np.int32)), np.fmod),
    "mod floats": (relay.mod, (X, Y), np.fmod),
    "floor_mod": (relay.floor_mod, (N, np.array([3, 4, -5], np.int32)), np.mod),
    "floor_mod floats": (relay.floor_mod, (X, np.abs(Y) + ONE), np.mod),
    "left_shift": (relay.left_shift, (N, np.array([1, 2, 3], np.int32)), np.left_shift),
    "right_shift": (relay.right_shift, (N, np.array([1, 2, 3], np.int32)), np.right_shift),
    "bitwise_and": (relay.bitwise_and, (N, np.array([3, 5, 9], np.int32)), np.bitwise_and),
    "cast": (lambda x: relay.cast(x * 9, "int32"), (X,), lambda x: (x * 9).astype(np.int32)),
    "astype": (lambda n: n.astype("float32"), (N,), lambda n: n.astype(np.float32)),
    "cast_like": (relay.cast_like, (N, X), lambda n, x: n.astype(np.float32)),
    "clip": (lambda x: relay.clip(x, -0.5, 0.5), (X,), lambda x: np.clip(x, -0.5, 0.5)),
    "where": (relay.where, (B, X, ROW), np.where),
    "leaky_relu": (lambda x: relay.nn.leaky_relu(x, 0.2), (X,), lambda x: np.where(x > 0, x, x * np.float32(0.2))),
    "prelu": (lambda x, a: relay.nn.prelu(x, a), (IMAGE, GAMMA), lambda x, a: _torch(tf.prelu, x, a)),
    "bias_add": (relay.nn.bias_add, (IMAGE, GAMMA), lambda x, b: x + b[:, None, None]),
    "bias_add last": (lambda x, b: relay.nn.bias_add(x, b, axis=-1), (X, ROW), np.add),
    "dropout": (lambda x: relay.nn.dropout(x, 0.5), (X,), lambda x: x),
    "sum": (lambda x: relay.sum(x, axis=(0, 2)), (X,), lambda x: x.sum((0, 2))),
    "sum exclude": (lambda x: relay.sum(x, 1, True, True), (X,), lambda x: x.sum((0, 2), keepdims=True)),
    "mean of all": (relay.mean, (X,), np.mean),
    "prod": (lambda x: relay.prod(x, axis=-1), (X,), lambda x: x.prod(-1)),
    "all": (lambda x: relay.all(x, axis=1), (B,), lambda x: x.all(1)),
    "any": (lambda x: relay.any(x, axis=1), (B,), lambda x: x.any(1)),
    "logsumexp": (lambda x: relay.logsumexp(x, axis=1), (X,), lambda x: np.log(np.exp(x).sum(1))),
    "argmax": (lambda x: relay.argmax(x, axis=1), (X,), lambda x: x.argmax(1).astype(np.int32)),
    "argmin of all": (relay.argmin, (X,), lambda x: x.argmin().astype(np.int32)),
    "argmax kept": (lambda x: relay.argmax(x, None, True), (X,), lambda x: x.argmax(keepdims=True).astype(np.int32)),
    "variance": (lambda x: relay.variance(x, axis=1), (X,), lambda x: x.var(1)),
    "std unbiased": (lambda x: relay.std(x, (0, 1), unbiased=True), (X,), lambda x: x.std((0, 1), ddof=1)),
    "mean_variance": (lambda x: relay.mean_variance(x, 1).astuple(), (X,), lambda x: [x.mean(1), x.var(1)]),
    "mean_std": (lambda x: relay.mean_std(x, 1, True)[1], (X,), lambda x: x.std(1, keepdims=True)),
    "cumsum": (lambda x: relay.cumsum(x, axis=1), (X,), lambda x: x.cumsum(1)),
    "cumsum of all": (
        lambda n: relay.cumsum(n, exclusive=True),
        (N,),
        lambda n: (n.cumsum() - n.ravel()).astype(np.int32),
    ),
    "topk": (
        lambda x: relay.topk(x, 2, axis=1).astuple(),
        (X,),
        lambda x: [-np.sort(-x, 1)[:, :2], np.argsort(-x, 1)[:, :2].astype(np.int32)],
    ),
    "topk values": (lambda x: relay.topk(x, 2, 1, "values", True), (X,), lambda x: np.sort(x, 1)[:, :2]),
    "sort": (lambda x: relay.sort(x, 1, False), (X,), lambda x: -np.sort(-x, 1)),
    "argsort": (relay.argsort, (X,), lambda x: np.argsort(x, -1).astype(np.int32)),
}

MOVES: dict[str, Case] = {
    "reshape": (lambda x: relay.reshape(x, (0, -1)), (X,), lambda x: x.reshape(3, 20)),
    "reshape -2": (lambda x: relay.reshape(x, [-4, 1, 3, -2]), (X,), lambda x: x.reshape(1, 3, 4, 5)),
    "reshape -3": (lambda x: relay.reshape(x, (-3, 0)), (X,), lambda x: x.reshape(12, 5)),
    "reshape -4": (lambda x: relay.reshape(x, (0, -4, 2, -1, 0)), (X,), lambda x: x.reshape(3, 2, 2, 5)),
    "reshape_like": (relay.reshape_like, (SQUARE, _floats(2, 8)), lambda x, y: x.reshape(2, 8)),
    "expand_dims": (lambda x: relay.expand_dims(x, -1, 2), (X,), lambda x: x[..., None, None]),
    "squeeze": (lambda y: relay.squeeze(y, [1]), (Y,), lambda y: y[:, 0]),
    "batch_flatten": (relay.nn.batch_flatten, (X,), lambda x: x.reshape(3, 20)),
    "shape_of": (relay.shape_of, (X,), lambda x: np.int32(x.shape)),
    "ndarray_size": (relay.ndarray_size, (X,), lambda x: np.int32(60)),
    "broadcast_to": (lambda y: relay.broadcast_to(y, (2, 3, 4, 5)), (Y,), lambda y: np.broadcast_to(y, (2, 3, 4, 5))),
    "broadcast_to_like": (relay.broadcast_to_like, (Y, X), lambda y, x: np.broadcast_to(y, x.shape)),
    "full": (lambda x: x + relay.full(2.0, (4, 5)), (X,), lambda x: x + 2),
    "full_like": (lambda x: relay.full_like(x, relay.const(2)), (X,), lambda x: np.full_like(x, 2)),
    "zeros_like": (relay.zeros_like, (X,), np.zeros_like),
    "ones": (lambda n: n + relay.ones((2, 3), "int32"), (N,), lambda n: n + 1),
    "arange": (lambda x: x * relay.arange(relay.const(5)), (X,), lambda x: x * np.arange(5, dtype=np.float32)),
    "arange steps": (lambda n: n + relay.arange(1, 6, 2, "int32"), (N,), lambda n: n + np.array([1, 3, 5], np.int32)),
    "transpose": (relay.transpose, (X,), np.transpose),
    "transpose axes": (lambda x: relay.transpose(x, (1, 0, -1)), (X,), lambda x: x.transpose(1, 0, 2)),
    "layout_transform": (lambda x: relay.layout_transform(x, "NCHW", "NHWC"), (IMAGE,), _nhwc),
    "concatenate": (lambda x, y: relay.concatenate([x, y], 1), (X, Y), lambda x, y: np.concatenate([x, y], 1)),
    "stack": (lambda x: relay.stack((x, x), -1), (X,), lambda x: np.stack([x, x], -1)),
    "split": (lambda x: relay.split(x, 2, axis=1).astuple(), (X,), lambda x: np.split(x, 2, 1)),
    "split places": (lambda x: relay.split(x, (1, 3), axis=2)[1], (X,), lambda x: x[..., 1:3]),
    "strided_slice": (lambda x: relay.strided_slice(x, [0, 1], [2, 4]), (X,), lambda x: x[:2, 1:4]),
    "strided_slice back": (
        lambda x: relay.strided_slice(x, begin=[-1], end=[-9], strides=[-2], axes=[1]),
        (X,),
        lambda x: x[:, -1:-9:-2],
    ),
    "strided_slice size": (
        lambda x: relay.strided_slice(x, [1, 0], [-1, 2], slice_mode="size"),
        (X,),
        lambda x: x[1:, :2],
    ),
    "slice_like": (relay.slice_like, (X, _floats(2, 2, 9)[..., :3]), lambda x, y: x[:2, :2, :3]),
    "slice_like axes": (lambda x, y: relay.slice_like(x, y, (1,)), (X, SQUARE[:, :2]), lambda x, y: x[:, :2]),
    "reverse": (lambda x: relay.reverse(x, 1), (X,), lambda x: x[:, ::-1]),
    "tile": (lambda x: relay.tile(x, (2, 1, 1, 2)), (X,), lambda x: np.tile(x, (2, 1, 1, 2))),
    "repeat": (lambda x: relay.repeat(x, 3, 1), (X,), lambda x: np.repeat(x, 3, 1)),
    "meshgrid": (
        lambda x, y: relay.meshgrid([x, y]).astuple(),
        (ROW, SQUARE[0]),
        lambda x, y: np.meshgrid(x, y, indexing="ij"),
    ),
    "meshgrid xy": (lambda x, y: relay.meshgrid([x, y], "xy").astuple(), (ROW, SQUARE[0]), np.meshgrid),
    "trilu": (lambda x: relay.trilu(x, 1), (SQUARE,), lambda x: np.triu(x, 1)),
    "einsum": (lambda x, y: relay.einsum([x, y], "bij,bkj->ik"), (X, Y), lambda x, y: np.einsum("bij,bkj->ik", x, y)),
    "depth_to_space": (
        lambda x: relay.nn.depth_to_space(x, 2, mode="CRD"),
        (_floats(1, 8, 2, 3),),
        lambda x: _torch(tf.pixel_shuffle, x, upscale_factor=2),
    ),
    "pad": (
        lambda x: relay.nn.pad(x, ((0, 0), (1, 2), (3, 0)), 1.5),
        (X,),
        lambda x: np.pad(x, ((0, 0), (1, 2), (3, 0)), constant_values=1.5),
    ),
    "pad edge": (
        lambda x: relay.nn.pad(x, ((1, 0), (0, 2), (0, 0)), pad_mode="edge"),
        (X,),
        lambda x: np.pad(x, ((1, 0), (0, 2), (0, 0)), "edge"),
    ),
    "mirror_pad": (
        lambda x: relay.nn.mirror_pad(x, ((0, 0), (1, 2), (2, 0))),
        (X,),
        lambda x: np.pad(x, ((0, 0), (1, 2), (2, 0)), "symmetric"),
    ),
    "take": (lambda x, n: relay.take(x, n, axis=1), (X, PLACES), lambda x, n: np.take(x, n, 1, mode="clip")),
    "take wrap": (
        lambda x, n: relay.take(x, n, 1, mode="wrap"),
        (X, PLACES),
        lambda x, n: np.take(x, n, 1, mode="wrap"),
    ),
    "take of all": (lambda x: relay.take(x, relay.const(7)), (X,), lambda x: x.ravel()[7]),
    "gather": (
        lambda x, n: relay.gather(x, 1, n),
        (SQUARE[:2], LAST),
        lambda x, n: np.take_along_axis(x, n, 1),
    ),
    "gather_nd": (relay.gather_nd, (X, LAST), lambda x, n: x[n[0], n[1]]),
    "scatter_elements": (
        lambda x, n, y: relay.scatter_elements(x, n, y, 1, "add"),
        (SQUARE, LAST, _floats(2, 2)),
        lambda x, n, y: torch.from_numpy(x).scatter_add(1, torch.from_numpy(n), torch.from_numpy(y)).numpy(),
    ),
    "scatter": (
        lambda x, n, y: relay.scatter(x, n, y, 1),
        (SQUARE, LAST, _floats(2, 2)),
        lambda x, n, y: torch.from_numpy(x).scatter(1, torch.from_numpy(n), torch.from_numpy(y)).numpy(),
    ),
    "scatter_add": (
        lambda x, n, y: relay.scatter_add(x, n, y, 1),
        (SQUARE, LAST, _floats(2, 2)),
        lambda x, n, y: torch.from_numpy(x).scatter_add(1, torch.from_numpy(n), torch.from_numpy(y)).numpy(),
    ),
    "strided_set": (
        lambda x, y: relay.strided_set(x, y, [0, 3], [4, 0], [2, -2]),
        (SQUARE, _floats(2, 2)),
        lambda x, y: _set_part(x, y),
    ),
    "scatter_nd": (
        relay.scatter_nd,
        (SQUARE, LAST, ROW[:2]),
        lambda x, n, y: _written(x, n, y),
    ),
    "one_hot": (
        lambda n: relay.one_hot(n, relay.const(2.0), relay.const(-1.0), 5, -1, "float32"),
        (LAST,),
        lambda n: np.where(np.eye(5)[n] > 0, 2, -1).astype(np.float32),
    ),
    "adv_index": (
        lambda x, n, m: relay.adv_index([x, n, m]),
        (X, LAST % 3, np.array([[3], [0]], np.int32)),
        lambda x, n, m: x[n, m],
    ),
    "adv_index of one": (lambda x, n: relay.adv_index([x, n]), (SQUARE, LAST), lambda x, n: x[n]),
    "segment_sum": (
        lambda x, n: relay.segment_sum(x, n, 5),
        (SQUARE, np.array([0, 2, 2, 4], np.int32)),
        lambda x, n: np.stack([x[n == each].sum(axis=0) for each in range(5)]),
    ),
    "unique": (
        lambda n: relay.unique(n, return_counts=True).astuple(),
        (np.array([7, 3, 7, 9, 3, 7]),),
        lambda n: _list_unique(n),
    ),
    "argwhere": (relay.argwhere, (B,), lambda b: np.argwhere(b).astype(np.int32)),
    "let": (lambda x: relay.Let(v := relay.var("v"), relay.exp(x), v + v), (X,), lambda x: 2 * np.exp(x)),
}


def _list_unique(n: np.ndarray) -> list[np.ndarray]:
    values, first, inverse, counts = np.unique(n, True, True, True)
    return [values, *(each.astype(np.int32) for each in (first, inverse, np.array([len(values)]), counts))]


def _set_part(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    made = x.copy()
    made[0:4:2, 3:0:-2] = y
    return made


def _written(x: np.ndarray, n: np.ndarray, y: np.ndarray) -> np.ndarray:
    made = x.copy()
    made[n[0], n[1]] = y
    return made


def _scales(*numbers: float) -> list[Any]:
    """Scales and zero points by turns, as constants."""
    return [relay.const(n, "int32" if i % 2 else "float32") for i, n in enumerate(numbers)]


def _stored(x: np.ndarray, scale: float, zero: int, dtype: Any = np.int8) -> np.ndarray:
    limits = np.iinfo(dtype)
    return np.clip(np.rint(x / np.float32(scale)) + zero, limits.min, limits.max).astype(dtype)


def _real(q: np.ndarray, scale: Any, zero: Any) -> np.ndarray:
    return (q.astype(np.int32) - zero).astype(np.float32) * np.asarray(scale, np.float32)


qnn = relay.qnn.op
SUMS = np.arange(-3000, 3000, 500, dtype=np.int32).reshape(3, 4)
QUANTIZED: dict[str, Case] = {
    "quantize": (lambda x: qnn.quantize(x, *_scales(0.1, 3)), (X,), lambda x: _stored(x, 0.1, 3)),
    "quantize to unsigned": (
        lambda x: qnn.quantize(x, *_scales(0.1, 128), out_dtype="uint8"),
        (X,),
        lambda x: _stored(x, 0.1, 128, np.uint8),
    ),
    "dequantize": (lambda q: qnn.dequantize(q, *_scales(0.5, -2)), (BYTES,), lambda q: _real(q, 0.5, -2)),
    "dequantize by channels": (
        lambda q: qnn.dequantize(q, relay.const(np.array([1, 2, 3, 4], np.float32)), relay.const(7), axis=1),
        (SUMS,),
        lambda q: _real(q, [1, 2, 3, 4], 7),
    ),
    "requantize": (
        lambda q: qnn.requantize(q, *_scales(0.25, 10, 8.0, -3)),
        (SUMS,),
        lambda q: _stored(_real(q, 0.25, 10), 8.0, -3),
    ),
    "dense": (
        lambda x, w: qnn.dense(x, w, *map(relay.const, (2, -1)), *map(relay.const, (0.5, 0.1)), 6),
        (BYTES[0, 0], BYTES[0, 1]),
        lambda x, w: (x.astype(np.int32) - 2) @ (w.astype(np.int32) + 1).T,
    ),
    "batch_matmul": (
        lambda x, y: qnn.batch_matmul(x, y, *map(relay.const, (1, 0)), *map(relay.const, (0.5, 0.1))),
        (BYTES[0], BYTES[0, ::-1].copy()),
        lambda x, y: (x.astype(np.int32) - 1) @ y.astype(np.int32).transpose(0, 2, 1),
    ),
    "conv2d": (
        lambda x, w: qnn.conv2d(x, w, *map(relay.const, (3, 1)), *map(relay.const, (0.5, 0.1)), (3, 3), 3, padding=1),
        (BYTES, BYTE_KERNEL),
        lambda x, w: _torch(tf.conv2d, x.astype(np.float32) - 3, w.astype(np.float32) - 1, padding=1).astype(np.int32),
    ),
    "add": (
        lambda x, y: qnn.add(x, y, *_scales(0.5, 1, 0.25, 0, 0.75, 2)),
        (BYTES, BYTES[:, ::-1].copy()),
        lambda x, y: _stored(_real(x, 0.5, 1) + _real(y, 0.25, 0), 0.75, 2),
    ),
    "subtract": (
        lambda x, y: qnn.subtract(x, y, *_scales(0.5, 1, 0.25, 0, 0.75, 2)),
        (BYTES, BYTES[:, ::-1].copy()),
        lambda x, y: _stored(_real(x, 0.5, 1) - _real(y, 0.25, 0), 0.75, 2),
    ),
    "mul": (
        lambda x, y: qnn.mul(x, y, *_scales(0.5, 1, 0.25, 0, 0.75, 2)),
        (BYTES, BYTES[:, ::-1].copy()),
        lambda x, y: _stored(_real(x, 0.5, 1) * _real(y, 0.25, 0), 0.75, 2),
    ),
    "concatenate": (
        lambda x, y: qnn.concatenate([x, y], _scales(0.5, 0)[:1] * 2, [relay.const(1)] * 2, *_scales(0.25, 0), axis=1),
        (BYTES, BYTES),
        lambda x, y: _stored(_real(np.concatenate([x, y], 1), 0.5, 1), 0.25, 0),
    ),
}

NETWORKS: dict[str, Case] = {
    "dense": (relay.nn.dense, (_floats(3, 5), _floats(7, 5)), lambda x, w: x @ w.T),
    "dense of rows": (relay.nn.dense, (X, _floats(7, 5)), lambda x, w: x @ w.T),
    "dense of bytes": (
        lambda x, w: relay.nn.dense(x, w, out_dtype="int32"),
        (BYTES[0, 0], BYTES[0, 1]),
        lambda x, w: x.astype(np.int32) @ w.astype(np.int32).T,
    ),
    "matmul": (
        lambda x, y: relay.nn.matmul(x, y, transpose_a=True),
        (_floats(5, 3), _floats(5, 7)),
        lambda x, y: x.T @ y,
    ),
    "batch_matmul": (relay.nn.batch_matmul, (X, _floats(3, 2, 5)), lambda x, y: x @ y.transpose(0, 2, 1)),
    "conv2d": (
        lambda x, w: relay.nn.conv2d(x, w, (2, 1), (1, 0), (1, 2)),
        (IMAGE, KERNEL),
        lambda x, w: _torch(tf.conv2d, x, w, stride=(2, 1), padding=(1, 0), dilation=(1, 2)),
    ),
    "conv2d sides": (
        lambda x, w: relay.nn.conv2d(x, w, padding=(0, 1, 2, 3), channels=8, kernel_size=3),
        (IMAGE, KERNEL),
        lambda x, w: _torch(tf.conv2d, np.pad(x, ((0, 0), (0, 0), (0, 2), (1, 3))), w),
    ),
    "conv2d NHWC": (
        lambda x, w: relay.nn.conv2d(x, w, padding=1, data_layout="NHWC", kernel_layout="HWIO"),
        (_nhwc(IMAGE), KERNEL.transpose(2, 3, 1, 0).copy()),
        lambda x, w: _nhwc(_torch(tf.conv2d, _nchw(x).copy(), w.transpose(3, 2, 0, 1).copy(), padding=1)),
    ),
    "conv2d groups": (
        lambda x, w: relay.nn.conv2d(x, w, groups=2),
        (IMAGE, _floats(4, 3, 3, 3)),
        lambda x, w: _torch(tf.conv2d, x, w, groups=2),
    ),
    "conv2d depthwise": (
        lambda x, w: relay.nn.conv2d(x, w, groups=6),
        (IMAGE, _floats(6, 2, 3, 3)),
        lambda x, w: _torch(tf.conv2d, x, w.reshape(12, 1, 3, 3), groups=6),
    ),
    "conv2d depthwise NHWC": (
        lambda x, w: relay.nn.conv2d(x, w, groups=6, data_layout="NHWC", kernel_layout="HWOI"),
        (_nhwc(IMAGE), _floats(3, 3, 6, 1)),
        lambda x, w: _nhwc(_torch(tf.conv2d, _nchw(x).copy(), w.transpose(2, 3, 0, 1).copy(), groups=6)),
    ),
    "conv2d of bytes": (
        lambda x, w: relay.nn.conv2d(x, w, out_dtype="int32"),
        (BYTES, BYTE_KERNEL),
        lambda x, w: _torch(tf.conv2d, x.astype(np.float32), w.astype(np.float32)).astype(np.int32),
    ),
    "conv1d": (
        lambda x, w: relay.nn.conv1d(x, w, padding=(1, 2)),
        (ROWS, _floats(4, 6, 3)),
        lambda x, w: _torch(tf.conv1d, np.pad(x, ((0, 0), (0, 0), (1, 2))), w),
    ),
    "conv3d": (
        lambda x, w: relay.nn.conv3d(x, w, padding=1),
        (VOLUME, _floats(4, 3, 3, 3, 3)),
        lambda x, w: _torch(tf.conv3d, x, w, padding=1),
    ),
    "conv2d_transpose": (
        lambda x, w: relay.nn.conv2d_transpose(x, w, (2, 2), (1, 1), output_padding=(1, 1)),
        (IMAGE, _floats(6, 4, 3, 3)),
        lambda x, w: _torch(tf.conv_transpose2d, x, w, stride=2, padding=1, output_padding=1),
    ),
    "conv1d_transpose": (
        lambda x, w: relay.nn.conv1d_transpose(x, w, (2,), kernel_layout="OIW"),
        (ROWS, _floats(4, 6, 3)),
        lambda x, w: _torch(tf.conv_transpose1d, x, w.transpose(1, 0, 2).copy(), stride=2),
    ),
    "max_pool2d": (
        lambda x: relay.nn.max_pool2d(x, (3, 3), (2, 2), padding=(1, 1), ceil_mode=True),
        (IMAGE,),
        lambda x: _torch(tf.max_pool2d, x, kernel_size=3, stride=2, padding=1, ceil_mode=True),
    ),
    "avg_pool2d": (
        lambda x: relay.nn.avg_pool2d(x, (3, 2), (2, 2), padding=(1, 1)),
        (IMAGE,),
        lambda x: _torch(tf.avg_pool2d, x, kernel_size=(3, 2), stride=2, padding=(1, 1), count_include_pad=False),
    ),
    "avg_pool2d NHWC": (
        lambda x: relay.nn.avg_pool2d(x, 2, 2, layout="NHWC", count_include_pad=True),
        (_nhwc(IMAGE),),
        lambda x: _nhwc(_torch(tf.avg_pool2d, _nchw(x).copy(), kernel_size=2)),
    ),
    "max_pool1d": (lambda x: relay.nn.max_pool1d(x, 3, 3), (ROWS,), lambda x: _torch(tf.max_pool1d, x, kernel_size=3)),
    "avg_pool3d": (
        lambda x: relay.nn.avg_pool3d(x, 2, 2),
        (VOLUME,),
        lambda x: _torch(tf.avg_pool3d, x, kernel_size=2),
    ),
    "global_avg_pool2d": (relay.nn.global_avg_pool2d, (IMAGE,), lambda x: x.mean((2, 3), keepdims=True)),
    "global_max_pool2d": (relay.nn.global_max_pool2d, (IMAGE,), lambda x: x.max((2, 3), keepdims=True)),
    "adaptive_avg_pool2d": (
        lambda x: relay.nn.adaptive_avg_pool2d(x, (4, 3)),
        (IMAGE,),
        lambda x: _torch(tf.adaptive_avg_pool2d, x, output_size=(4, 3)),
    ),
    "adaptive_max_pool2d": (
        lambda x: relay.nn.adaptive_max_pool2d(x, (3, 4)),
        (IMAGE,),
        lambda x: _torch(tf.adaptive_max_pool2d, x, output_size=(3, 4)),
    ),
    "softmax": (lambda x: relay.nn.softmax(x, 1), (X,), lambda x: _torch(tf.softmax, x, dim=1)),
    "log_softmax": (relay.nn.log_softmax, (X,), lambda x: _torch(tf.log_softmax, x, dim=-1)),
    "batch_norm": (
        lambda x, *w: relay.nn.batch_norm(x, *w)[0],
        (IMAGE, GAMMA, BETA, MEAN, VARIANCE),
        lambda x, g, b, m, v: _torch(tf.batch_norm, x, m, v, g, b),
    ),
    "batch_norm last": (
        lambda x, *w: relay.nn.batch_norm(x, *w, axis=3, epsilon=0.1, center=False, scale=False)[0],
        (_nhwc(IMAGE), GAMMA, BETA, MEAN, VARIANCE),
        lambda x, g, b, m, v: (x - m) / np.sqrt(v + np.float32(0.1)),
    ),
    "layer_norm": (
        relay.nn.layer_norm,
        (X, ROW, 2 * ROW),
        lambda x, g, b: _torch(lambda x, g, b: tf.layer_norm(x, (5,), g, b), x, g, b),
    ),
    "instance_norm": (
        relay.nn.instance_norm,
        (IMAGE, GAMMA, BETA),
        lambda x, g, b: _torch(lambda x, g, b: tf.instance_norm(x, weight=g, bias=b), x, g, b),
    ),
    "group_norm": (
        lambda x, g, b: relay.nn.group_norm(x, g, b, 3),
        (IMAGE, GAMMA, BETA),
        lambda x, g, b: _torch(lambda x, g, b: tf.group_norm(x, 3, g, b), x, g, b),
    ),
    "l2_normalize": (
        lambda x: relay.nn.l2_normalize(x, 1e-4, [1]),
        (X,),
        lambda x: x / np.sqrt(np.maximum((x * x).sum(1, keepdims=True), np.float32(1e-4))),
    ),
    "lrn": (
        lambda x: relay.nn.lrn(x, size=3, alpha=0.1),
        (IMAGE,),
        lambda x: _torch(tf.local_response_norm, x, size=3, alpha=0.1, k=2.0),
    ),
    "resize2d": (
        lambda x: relay.image.resize2d(x, (5, 12)),
        (IMAGE,),
        lambda x: _torch(tf.interpolate, x, size=(5, 12), mode="bilinear"),
    ),
    "resize2d nearest": (
        lambda x: relay.image.resize2d(
            x, (18, 16), layout="NHWC", method="nearest_neighbor", coordinate_transformation_mode="asymmetric"
        ),
        (_nhwc(IMAGE),),
        lambda x: x.repeat(2, 1).repeat(2, 2),
    ),
    "upsampling": (lambda x: relay.nn.upsampling(x, 2, 3), (IMAGE,), lambda x: x.repeat(2, 2).repeat(3, 3)),
    "upsampling linear": (
        lambda x: relay.nn.upsampling(x, 2, 2, method="bilinear", align_corners=True),
        (IMAGE,),
        lambda x: _torch(tf.interpolate, x, scale_factor=2, mode="bilinear", align_corners=True),
    ),
}


def test_what_quantized_operators_do_not_have_is_refused():
    x = relay.var("x", shape=(2, 3))
    with pytest.raises(ModelError, match="out_dtype is 'float16': it is int8, uint8, int16, uint16"):
        write_model(relay.Function([x], qnn.quantize(x, *_scales(0.5, 0), out_dtype="float16")), {}, {})
    with pytest.raises(ModelError, match="the zero point 300 is no int8"):
        write_model(relay.Function([x], qnn.quantize(x, *_scales(0.5, 300))), {}, {})
    with pytest.raises(ModelError, match="rounding is 'UP'"):
        write_model(relay.Function([x], qnn.requantize(x, *_scales(0.5, 0, 0.5, 0), rounding="UP")), {}, {})
    ids = relay.var("n", shape=(2,), dtype="int32")
    with pytest.raises(ModelError, match="give num_segments"):
        write_model(relay.Function([x, ids], relay.segment_sum(x, ids)), {}, {})


CASES = ELEMENTS | MOVES | NETWORKS | {f"qnn.{name}": case for name, case in QUANTIZED.items()}


@pytest.mark.parametrize("name", CASES)
def test_an_operator(name: str):
    call, arrays, expect = CASES[name]
    wanted = expect(*arrays)
    wanted = [*wanted] if isinstance(wanted, list | tuple) else [wanted]
    for made, own in zip(_run(call, *arrays), wanted, strict=True):
        assert made.dtype == np.asarray(own).dtype
        np.testing.assert_allclose(made, own, rtol=2e-5, atol=2e-5)


def test_all_operators_are_beside_others():
    """Those of tables that differ by a node's name alone, and synonyms, are not all there."""
    asked: set[str] = set()
    for call, arrays, _ in CASES.values():
        variables = _variables(arrays)
        module = tvm.IRModule.from_expr(relay.Function(variables, call(*variables)))
        asked.update(relay.analysis.list_op_freqs(module))
    alike = {"elementwise", "pooling", "reduction"}
    missing = {
        name
        for name, each in TABLE.items()
        if name not in asked and each.convert.__module__.rpartition(".")[2] not in alike
    }
    assert missing == {"nn.fast_softmax", "zeros", "nn.conv3d_transpose", "image.resize1d", "image.resize3d"} | {
        "nn.sparse_dense",
        "nn.space_to_depth",
        "reverse_sequence",
        "ones_like",
    }


@pytest.mark.parametrize("cases", [ELEMENTS, MOVES, NETWORKS, QUANTIZED])
def test_operators_as_one_program(cases: dict[str, Case]):
    """What the compiler makes of them."""
    variables, bodies, given, wanted = [], [], [], []
    for call, arrays, expect in cases.values():
        own = [relay.var(f"x{len(variables) + n}", shape=a.shape, dtype=str(a.dtype)) for n, a in enumerate(arrays)]
        made, results = call(*own), expect(*arrays)
        many = isinstance(results, list | tuple)
        bodies += [relay.TupleGetItem(made, n) for n in range(len(results))] if many else [made]
        wanted += [*results] if many else [results]
        variables, given = variables + own, [*given, *arrays]
    function = relay.create_executor("graph").evaluate(relay.Function(variables, relay.Tuple(bodies)))
    for made, own in zip(function(*given), wanted, strict=True):
        np.testing.assert_allclose(made.numpy(), own, rtol=2e-5, atol=2e-5)
