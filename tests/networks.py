"""Small networks in the form that frontends make, for tests of passes: every kind of op, no weight of real size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tilewright.core.model import Model, Param, TensorInfo
from tilewright.dialects import arith, builders, func, ir, scalars
from tilewright.dialects import math as math_ops


def build(
    body: Callable[..., ir.Value | Sequence[ir.Value]],
    inputs: Mapping[str, Sequence[int]],
    weights: Mapping[str, Sequence[int]],
) -> Model:
    """A model whose ``@main`` is ``body(*inputs, *weights)``; weights are random with a fixed seed."""
    rng = np.random.default_rng(7)
    f32 = ir.F32Type.get()
    infos = tuple(TensorInfo(name, tuple(shape), "float32") for name, shape in inputs.items())
    params = {
        name: Param(
            TensorInfo(name, tuple(shape), "float32"),
            (rng.standard_normal(shape) / max(np.prod(shape[1:]), 1) ** 0.5).astype(np.float32),
        )
        for name, shape in weights.items()
    }
    module = ir.Module.create()
    types = [builders.ranked_type(shape, f32) for shape in (*inputs.values(), *weights.values())]
    with ir.InsertionPoint(module.body):
        main = func.FuncOp("main", (types, []))
    block = main.add_entry_block()
    with ir.InsertionPoint(block):
        made = body(*block.arguments)
        results = [made] if isinstance(made, ir.Value) else list(made)
        func.ReturnOp(results)
    main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, [r.type for r in results]))
    kinds = [("tw.name", n) for n in inputs] + [("tw.param", n) for n in weights]
    attributes = [ir.DictAttr.get({kind: ir.StringAttr.get(name)}) for kind, name in kinds]
    main.attributes["arg_attrs"] = ir.ArrayAttr.get(attributes)
    module.operation.verify()
    outputs = tuple(TensorInfo(f"y{i}", tuple(builders.shape_of(r)), "float32") for i, r in enumerate(results))
    return Model(module, infos, outputs, params)


def _map(body: Callable[..., ir.Value], *values: ir.Value) -> ir.Value:
    return builders.elementwise(lambda *a: body(*a), *values, elem=ir.F32Type.get())


def _add(a: ir.Value, b: ir.Value) -> ir.Value:
    return _map(scalars.add, a, b)


def _mul(a: ir.Value, b: ir.Value) -> ir.Value:
    return _map(scalars.mul, a, b)


def _relu(x: ir.Value) -> ir.Value:
    return _map(lambda a: scalars.maximum(a, scalars.like(a, 0.0)), x)


def _sigmoid(x: ir.Value) -> ir.Value:
    def body(a: ir.Value) -> ir.Value:
        one = scalars.like(a, 1.0)
        return scalars.div(one, scalars.add(one, math_ops.exp(scalars.neg(a))))

    return _map(body, x)


def channels(v: ir.Value) -> ir.Value:
    """A vector of channels against (n, c, h, w)."""
    return builders.reshape(v, (builders.shape_of(v)[0], 1, 1))


def padded(x: ir.Value, by: int) -> ir.Value:
    """Images with so many zeros around them."""
    edges = [0, 0, by, by]
    return builders.pad(x, edges, edges, scalars.const(0.0, ir.F32Type.get()))


def _norm(x: ir.Value, scale: ir.Value, shift: ir.Value) -> ir.Value:
    """BatchNormalization with its scale computed from weights: 1 / sqrt(v + eps) * g."""

    def factor(v: ir.Value, g: ir.Value) -> ir.Value:
        return scalars.mul(math_ops.rsqrt(scalars.add(scalars.mul(v, v), scalars.like(v, 1e-3))), g)

    return _add(_mul(x, channels(_map(factor, scale, shift))), channels(shift))


def residual_block() -> Model:
    """Convolution, batch norm, activation, residual add, max pool, depthwise, SE gate, flatten, dense."""

    def body(x, w1, s1, b1, w2, wd, wg, fc):
        y = _relu(_norm(builders.conv(padded(x, 1), w1, (2, 2), (1, 1)), s1, b1))
        z = _relu(_add(builders.conv(padded(y, 1), w2, (1, 1), (1, 1)), y))
        z = builders.pool(z, (2, 2), (2, 2), (1, 1), lambda acc, a: scalars.maximum(acc, a), float("-inf"))
        d = builders.conv(padded(z, 1), wd, (1, 1), (1, 1), groups=8)
        d = _mul(d, _sigmoid(d))
        mean = builders.reshape(builders.reduce(scalars.add, 0.0, d, (2, 3)), (1, 8, 1, 1))
        gate = _sigmoid(builders.conv(_map(lambda a: scalars.mul(a, scalars.like(a, 1 / 9)), mean), wg, (1, 1), (1, 1)))
        flat = builders.reshape(_mul(d, gate), (1, 72))
        return builders.contract("mk,nk->mn", flat, fc)

    weights = {
        "w1": (8, 3, 3, 3),
        "s1": (8,),
        "b1": (8,),
        "w2": (8, 8, 3, 3),
        "wd": (8, 1, 3, 3),
        "wg": (8, 8, 1, 1),
        "fc": (10, 72),
    }
    return build(body, {"x": (1, 3, 12, 12)}, weights)


def wide_block() -> Model:
    """A residual block of convolutions with so many channels and pixels that `winograd` takes them."""

    def body(x, w1, b1, w2):
        y = _relu(_add(builders.conv(padded(x, 1), w1, (1, 1), (1, 1)), channels(b1)))
        return _relu(_add(builders.conv(padded(y, 1), w2, (1, 1), (1, 1)), x))

    return build(body, {"x": (1, 16, 16, 15)}, {"w1": (24, 16, 3, 3), "b1": (24,), "w2": (16, 24, 3, 3)})


def long_rows() -> Model:
    """Dense layers that read rows of 4 kB, which `pad-rows` stores apart; one is read by an addition too."""

    def body(x, w1, w2, w3):
        h = _relu(builders.contract("bmk,kn->bmn", x, w1))
        y = _add(_relu(builders.contract("bmk,kn->bmn", h, w2)), h)
        return builders.contract("mk,kn->mn", builders.reshape(y, (9, 1024)), w3)

    return build(body, {"x": (1, 9, 16)}, {"w1": (16, 1024), "w2": (1024, 1024), "w3": (1024, 12)})


def long_input_rows() -> Model:
    """A dense layer that reads an input in rows of 4 kB, which `pad-rows` copies; a second layer reads it too."""

    def body(x, w1, w2):
        return builders.contract("mk,kn->mn", x, w1), builders.contract("mk,kn->mn", x, w2)

    return build(body, {"x": (9, 1024)}, {"w1": (1024, 256), "w2": (1024, 8)})


def long_grouped_rows() -> Model:
    """A convolution in groups of padded rows of 2 kB, of which a tile has so many that `pad-rows` stores them apart."""

    def body(x, w1, w2):
        h = _relu(builders.conv(x, w1, (1, 1), (1, 1)))
        return builders.conv(padded(h, 1), w2, (1, 1), (1, 1), groups=64)

    return build(body, {"x": (1, 4, 5, 6)}, {"w1": (512, 4, 1, 1), "w2": (512, 8, 3, 3)})


def single_pixels() -> Model:
    """Convolutions by single pixels between values in channels first, one of them to a single channel."""

    def body(x, w1, b1, w2, w3):
        y = _relu(_add(builders.conv(x, w1, (1, 1), (1, 1)), channels(b1)))
        z = _relu(_add(builders.conv(y, w2, (1, 1), (1, 1)), y))
        return builders.conv(z, w3, (1, 1), (1, 1))

    weights = {"w1": (17, 5, 1, 1), "b1": (17,), "w2": (17, 17, 1, 1), "w3": (1, 17, 1, 1)}
    return build(body, {"x": (2, 5, 12, 13)}, weights)


def wide_windows() -> Model:
    """Convolutions whose windows lie in the padding for a good part, also with strides and in three dimensions."""

    def body(x, w1, w2, w3):
        y = _relu(builders.conv(padded(x, 3), w1, (1, 1), (3, 3)))
        z = _relu(builders.conv(padded(y, 2), w2, (2, 1), (2, 2), groups=2))
        edges, volume = (0, 0, 1, 1, 1), builders.reshape(z, (1, 16, 2, 3, 5))
        cube = builders.pad(volume, edges, edges, scalars.const(0.0, ir.F32Type.get()))
        return builders.conv(cube, w3, (1, 1, 1), (1, 1, 1))

    weights = {"w1": (16, 8, 3, 3), "w2": (32, 8, 3, 3), "w3": (16, 16, 3, 3, 3)}
    return build(body, {"x": (1, 8, 5, 5)}, weights)


def fire() -> Model:
    """Three convolutions of one value whose channels are joined, and a concat whose place the caller chooses."""

    def body(x, w, w1, w2, w3, w4):
        y = _relu(builders.conv(x, w, (1, 1), (1, 1)))
        made = [
            _relu(builders.conv(y, w1, (1, 1), (1, 1))),
            _relu(builders.conv(padded(y, 1), w2, (1, 1), (1, 1))),
            builders.conv(padded(y, 2), w3, (1, 1), (1, 1)),
        ]
        y = builders.conv(builders.concat(made, 1), w4, (1, 1), (1, 1))
        return builders.concat([_relu(y), _add(y, y)], 1)

    weights = {"w": (8, 6, 1, 1), "w1": (16, 8, 1, 1), "w2": (24, 8, 3, 3), "w3": (5, 8, 5, 5), "w4": (6, 45, 1, 1)}
    return build(body, {"x": (1, 6, 7, 9)}, weights)


def grouped_conv() -> Model:
    """Two grouped convolutions, with a weight added, a split and a concat between them, and a 1-D one at the end."""

    def body(x, w1, w2, w3, place):
        y = _relu(builders.conv(x, w1, (1, 1), (1, 1), groups=2))
        y = _add(y, place)
        left = builders.slice_(y, (0, 0, 0, 0), (1, 4, 6, 6))
        right = builders.slice_(y, (0, 4, 0, 0), (1, 4, 6, 6))
        y = builders.concat([right, left], 1)
        y = builders.conv(y, w2, (1, 1), (2, 2), groups=4)
        line = builders.reshape(y, (1, 8, 4))
        return builders.conv(line, w3, (1,), (1,)), builders.transpose(y, (0, 2, 3, 1))

    return build(
        body, {"x": (1, 4, 8, 8)}, {"w1": (8, 2, 3, 3), "w2": (8, 2, 3, 3), "w3": (5, 8, 3), "place": (1, 8, 6, 1)}
    )


def _softmax(x: ir.Value) -> ir.Value:
    keep = (*builders.shape_of(x)[:-1], 1)
    top = builders.reshape(builders.reduce(scalars.maximum, float("-inf"), x, (-1,)), keep)
    e = _map(lambda a, m: math_ops.exp(scalars.sub(a, m)), x, top)
    total = builders.reshape(builders.reduce(scalars.add, 0.0, e, (-1,)), keep)
    return _map(scalars.div, e, total)


def _layer_norm(x: ir.Value, gamma: ir.Value, beta: ir.Value) -> ir.Value:
    shape = builders.shape_of(x)
    keep, n = (*shape[:-1], 1), shape[-1]

    def mean(v: ir.Value) -> ir.Value:
        total = builders.reshape(builders.reduce(scalars.add, 0.0, v, (-1,)), keep)
        return _map(lambda a: scalars.div(a, scalars.like(a, float(n))), total)

    centred = _map(scalars.sub, x, mean(x))
    variance = mean(_mul(centred, centred))
    scale = _map(lambda v: math_ops.rsqrt(scalars.add(v, scalars.like(v, 1e-5))), variance)
    return _add(_mul(_mul(centred, scale), gamma), beta)


def attention() -> Model:
    """A transformer block: layer norm, attention with a mask, residual adds, GELU."""

    def body(x, mask, wq, wk, wv, wo, g, b, w1, c1, w2):
        y = _layer_norm(x, g, b)

        def heads(w: ir.Value) -> ir.Value:
            return builders.transpose(
                builders.reshape(builders.contract("bmk,kn->bmn", y, w), (1, 6, 2, 8)), (0, 2, 1, 3)
            )

        scores = builders.contract("bhmk,bhnk->bhmn", heads(wq), heads(wk))
        scores = _map(lambda a: scalars.mul(a, scalars.like(a, 0.35)), scores)
        probs = _softmax(_add(scores, mask))
        mixed = builders.transpose(builders.contract("bhmk,bhkn->bhmn", probs, heads(wv)), (0, 2, 1, 3))
        x = _add(x, builders.contract("bmk,kn->bmn", builders.reshape(mixed, (1, 6, 16)), wo))
        h = _add(builders.contract("bmk,kn->bmn", _layer_norm(x, g, b), w1), c1)
        h = _mul(h, _sigmoid(_map(lambda a: scalars.mul(a, scalars.like(a, 1.702)), h)))
        return _add(x, builders.contract("bmk,kn->bmn", h, w2)), probs

    weights = {"wq": (16, 16), "wk": (16, 16), "wv": (16, 16), "wo": (16, 16), "g": (16,), "b": (16,)}
    weights |= {"w1": (16, 40), "c1": (40,), "w2": (40, 16)}
    return build(body, {"x": (1, 6, 16), "mask": (1, 1, 1, 6)}, weights)


def composites() -> Model:
    """Composites as exporters write them: a variance by moments, softmax that overflows, GELU as a sum, scaled queries."""

    def scaled(x: ir.Value, factor: float) -> ir.Value:
        return _map(lambda a: scalars.mul(a, scalars.like(a, factor)), x)

    def total(x: ir.Value) -> ir.Value:
        return builders.reshape(builders.reduce(scalars.add, 0.0, x, (-1,)), (*builders.shape_of(x)[:-1], 1))

    def body(x, k, v, mask, g, b):
        mean, squares = scaled(total(x), 1 / 16), scaled(total(_mul(x, x)), 1 / 16)
        variance = _map(scalars.sub, squares, _mul(mean, mean))
        root = _map(lambda a: math_ops.sqrt(scalars.add(a, scalars.like(a, 1e-5))), variance)
        factor = _map(scalars.div, g, root)
        y = _add(_mul(x, factor), _map(scalars.sub, b, _mul(mean, factor)))  # as a batch normalisation is written
        erf = _map(math_ops.erf, scaled(y, 0.5**0.5))
        y = _add(scaled(y, 0.5), _mul(scaled(y, 0.5), erf))
        scores = builders.contract("bmk,bnk->bmn", scaled(y, 0.25), k)
        scores = builders.reshape(_add(builders.reshape(scores, (2, 3, 5, 7)), mask), (6, 5, 7))
        powers = _map(math_ops.exp, scores)
        return builders.contract("bmk,bkn->bmn", _map(scalars.div, powers, total(powers)), v)

    inputs = {"x": (6, 5, 16), "k": (6, 7, 16), "v": (6, 7, 8), "mask": (2, 1, 5, 7)}
    return build(body, inputs, {"g": (16,), "b": (16,)})


def odd_results() -> Model:
    """Results that no kernel computes: an argument, a view of one, one given twice, a constant, a weight alone."""

    def body(x, w):
        y = _relu(x)
        constant = builders.full((3,), scalars.const(2.5, ir.F32Type.get()))
        doubled = _add(w, w)
        reshaped = builders.reshape(y, (2, 6))
        return x, builders.reshape(x, (12,)), y, y, reshaped, constant, doubled, builders.reshape(doubled, (1, 5))

    return build(body, {"x": (3, 4)}, {"w": (5,)})


def two_pass_variance() -> Model:
    """E[x^2] - E[x]^2: the data enters a row-wise group several times, from two reductions at once."""

    def body(x):
        keep = (3, 4, 1)
        total = builders.reshape(builders.reduce(scalars.add, 0.0, x, (-1,)), keep)
        squares = builders.reshape(builders.reduce(scalars.add, 0.0, _mul(x, x), (-1,)), keep)
        variance = _map(scalars.sub, squares, _mul(total, total))
        return _mul(x, variance)

    return build(body, {"x": (3, 4, 8)}, {})


def gather_and_index() -> Model:
    """Bodies that gather from captured tensors and compute from loop indices, under a convolution's layout."""

    def body(x, w):
        y = builders.conv(x, w, (1, 1), (1, 1))
        h = builders.shape_of(y)[2]

        def flipped(i, j, k, m):
            return builders.extract(y, [i, j, scalars.sub(scalars.const(h - 1, ir.IndexType.get()), k), m])

        z = builders.index_map(builders.shape_of(y), ir.F32Type.get(), flipped)
        ramp = builders.index_map(
            builders.shape_of(y), ir.F32Type.get(), lambda i, j, k, m: scalars.from_index(j, ir.F32Type.get())
        )
        return _relu(_add(_add(z, ramp), y))

    return build(body, {"x": (1, 3, 6, 5)}, {"w": (4, 3, 3, 2)})


def scales() -> Model:
    """Scales of every kind around convolutions and dense layers: before, after, by channel, by a number, in both."""

    def body(x, w1, wg, wd, w2, w3, wt, s1, s2, s3, s4, b):
        y = builders.conv(padded(_mul(x, channels(s1)), 1), w1, (1, 1), (1, 1))  # forward, through a padding
        y = _mul(_add(y, channels(b)), channels(s2))
        y = _map(lambda a: scalars.div(a, scalars.like(a, 3.0)), y)
        y = _relu(_mul(builders.conv(y, wg, (1, 1), (1, 1), groups=2), channels(s2)))  # through the groups' reshape
        y = _map(
            scalars.div,
            builders.conv(y, wd, (2, 2), (1, 1), groups=8),
            channels(_map(lambda a: scalars.add(scalars.mul(a, a), scalars.like(a, 1.0)), s2)),
        )
        y = _map(
            lambda a, s, c: scalars.add(scalars.mul(scalars.add(a, scalars.like(a, 0.5)), s), c), y, *[channels(b)] * 2
        )
        rows = builders.reshape(builders.transpose(y, (0, 2, 3, 1)), (9, 8))
        dense = _mul(builders.contract("mk,kn->mn", _mul(rows, s3), w2), s4)
        turned = _mul(
            builders.transpose(builders.contract("mk,nk->mn", _relu(rows), wt), (1, 0)), builders.reshape(s4, (6, 1))
        )
        scores = _map(lambda a: scalars.mul(a, scalars.like(a, 0.35)), builders.contract("mk,kn->mn", dense, turned))
        kept = builders.contract("mk,kn->mn", _relu(rows), w3)
        return scores, _mul(kept, s4), kept  # the last scale's value has another reader

    weights = {"w1": (8, 3, 3, 3), "wg": (8, 4, 1, 1), "wd": (8, 1, 2, 2), "w2": (8, 6), "w3": (8, 6), "wt": (6, 8)}
    return build(body, {"x": (1, 3, 6, 6)}, weights | {"s1": (3,), "s2": (8,), "s3": (8,), "s4": (6,), "b": (8,)})


def parallel() -> Model:
    """Dense layers on the same rows and convolutions of the same image, with what follows them alike and not alike."""

    def body(x, wa, wb, wc, ba, bb, bc, v, r, s, t, u):
        def branch(w: ir.Value, b: ir.Value) -> ir.Value:
            return _relu(_add(builders.conv(x, w, (1, 1), (1, 1)), channels(b)))

        a, b = branch(wa, ba), branch(wb, bb)
        c = builders.conv(x, wc, (2, 2), (1, 1))  # another stride
        image = builders.concat([b, builders.conv(a, v, (1, 1), (1, 1))], 1)
        rows = builders.reshape(x, (12, 12))
        q, k = (_add(builders.contract("mk,kn->mn", rows, w), bias) for w, bias in ((r, bc), (s, bc)))
        scores = builders.contract("mk,nk->mn", q, k)
        gate = _mul(_sigmoid(builders.contract("mk,kn->mn", rows, t)), builders.contract("mk,kn->mn", rows, u))
        return image, c, scores, gate

    weights = {"wa": (3, 4, 1, 1), "wb": (5, 4, 1, 1), "wc": (3, 4, 1, 1), "ba": (3,), "bb": (5,), "bc": (12,)}
    weights |= {"v": (5, 3, 1, 1), "r": (12, 12), "s": (12, 12), "t": (12, 8), "u": (12, 8)}
    return build(body, {"x": (1, 4, 6, 6)}, weights)


def blocks() -> Model:
    """Products with weights of four bits and of eight, quantised in blocks along their sums."""

    def weight(x: ir.Value, scale: ir.Value, bits: int) -> ir.Value:
        byte, f32 = ir.IntegerType.get_signless(8), ir.F32Type.get()

        def code(a: ir.Value) -> ir.Value:
            number = arith.fptosi(byte, scalars.mul(a, scalars.like(a, 60)))
            return arith.andi(number, scalars.like(number, (1 << bits) - 1)) if bits < 8 else number

        def real(c: ir.Value, factor: ir.Value) -> ir.Value:
            if bits == 8:
                return scalars.mul(arith.sitofp(f32, c), factor)
            return scalars.mul(scalars.sub(arith.uitofp(f32, c), scalars.const(8, f32)), factor)

        numbers = builders.elementwise(code, x, elem=byte)
        whole = builders.elementwise(real, numbers, builders.reshape(scale, (2, 1, 24)), elem=f32)
        return builders.reshape(whole, (32, 24))

    def body(x, w, v, s, t, g):
        scaled = _mul(x, g)
        first = builders.contract("mk,kn->mn", scaled, weight(w, s, 8))
        return _relu(first), builders.contract("mk,kn->mn", x, weight(v, t, 4))

    shapes = {"w": (2, 16, 24), "v": (2, 16, 24), "s": (2, 24), "t": (2, 24), "g": (32,)}
    return build(body, {"x": (5, 32)}, shapes)


def narrow_floats() -> Model:
    """Convolutions and a product of float16, one of whose weights is on the left."""

    def body(x, w, d, v, u):
        x, w, d, v, u = (builders.convert_elements(value, ir.F16Type.get()) for value in (x, w, d, v, u))
        edges, zero = [0, 0, 1, 1], scalars.const(0.0, ir.F16Type.get())
        y = builders.conv(builders.pad(x, edges, edges, zero), w, (1, 1), (1, 1))
        y = builders.conv(y, d, (1, 1), (1, 1), groups=8)
        y = builders.contract("mk,kn->mn", builders.reshape(y, (8, 35)), v)
        z = builders.contract("mk,kn->mn", u, y)
        return [builders.convert_elements(value, ir.F32Type.get()) for value in (y, z)]

    return build(body, {"x": (1, 6, 7, 9)}, {"w": (8, 6, 3, 3), "d": (8, 1, 3, 3), "v": (35, 24), "u": (5, 8)})


NETWORKS = {
    f.__name__: f
    for f in (
        residual_block,
        wide_block,
        long_rows,
        long_input_rows,
        long_grouped_rows,
        single_pixels,
        wide_windows,
        fire,
        grouped_conv,
        attention,
        composites,
        odd_results,
        two_pass_variance,
        gather_and_index,
        scales,
        parallel,
        blocks,
        narrow_floats,
    )
}
