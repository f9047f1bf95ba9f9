"""Kernels of open sizes: one program, for sizes that fit its blocks, that are cut by them, and that are smaller."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from cpu_targets import FOR_THIS_MACHINE, OTHERS_ALONE_ARE_SLOW
from kernel_runner import TARGET
from open_case import check_open
from samples import campaign, leaving
from shared_kernels import describe_kernels, find_or_compile, find_or_describe, noting_kernels

import tilewright as tw
from tilewright.core.program import Kernel
from tilewright.core.target import Target, detect_host
from tilewright.dialects import ir
from tilewright.dialects.context import make_context
from tilewright.frontends import import_model
from tilewright.passes import pipeline
from tilewright.passes.infra.context import PassContext
from tilewright.tools.debugging.oracle import make_session

RNG = np.random.default_rng(11)
SIZES = (1, 2, 7, 8, 15, 17, 64, 65, 77)
MOST_ELEMENTS = 1 << 21  # of an input

# The kinds of kernels as models of open sizes, each with the shapes of its inputs.
KINDS = {
    "elementwise": ("float[A, 40, B] x", "r = Mul(x, x) y = Sigmoid(r)", "A 40 B"),
    "channels last": ("float[A, B, 40] x", "r = Add(x, x) y = Tanh(r)", "A B 40"),
    "dense": ("float[A, B, 24] x", "m = MatMul(x, w) s = Add(m, b) y = Relu(s)", "A B 24"),
    "rows that lie apart": ("float[A, B, 24] x", "m = MatMul(x, p) s = Relu(m) y = MatMul(s, q)", "A B 24"),
    "a last column beside whole tiles": (
        "float[2, A, B] x, float[2, B, 33] z",
        "m = MatMul(x, z) y = Tanh(m)",
        "2 A B, 2 B 33",
    ),
    "images": ("float[A, 32, 14, 14] x", "c = Conv<pads = [1, 1, 1, 1]>(x, v) y = Relu(c)", "A 32 14 14"),
    "patches": (
        "float[1, 32, A, B] x",
        "c = Conv<pads = [1, 1, 1, 1]>(x, v) s = Sigmoid(c) m = Mul(c, s) y = Conv<pads = [1, 1, 1, 1]>(m, t)",
        "1 32 A B",
    ),
    "patches of filters that no cache holds": (
        "float[1, 256, A, B] x",
        "y = Conv<pads = [1, 1, 1, 1]>(x, v256)",
        "1 256 A B",
    ),
    "patches of rows": (
        "float[A, 32, 6, B] x",
        "c = Conv<pads = [1, 1, 1, 1]>(x, v) s = Conv(x, e) y = Add(c, s)",
        "A 32 6 B",
    ),
    "patches of frames": (
        "float[1, 32, A, B, C] x",
        "c = Conv<pads = [1, 1, 1, 1, 1, 1]>(x, cube) y = Relu(c)",
        "1 32 3 A B",
    ),
    "patches of single frames": (
        "float[A, 32, B, C, D] x",
        "y = Conv<pads = [0, 1, 1, 0, 1, 1]>(x, face)",
        "1 32 2 A B",
    ),
    "patches of sequences": ("float[A, 32, B] x", "c = Conv<pads = [1, 1]>(x, line) y = Relu(c)", "A 32 B"),
    "few rows of a long sum": ("float[A, 600] x", "y = MatMul(x, u)", "A 600"),
    "convolution": ("float[2, 6, A, B] x", "c = Conv<pads = [1, 1, 1, 1]>(x, k) y = Relu(c)", "2 6 A B"),
    "pointwise": (
        "float[A, 160, B, 10] x",
        "c = Conv(x, o160) r = Relu(c) l = Conv(r, q160) y = Add(l, c)",
        "A 160 B 10",
    ),
    "few products of pixels": (
        "float[A, 6, B, 10] x",
        "c = Conv(x, o) r = Relu(c) l = Conv(r, q1) y = Add(l, c)",
        "A 6 B 10",
    ),
    "few filters of pixels": ("float[A, 32, B, C] x", "c = Conv(x, head) y = Relu(c)", "2 32 A B"),
    "groups of filters of pixels": ("float[A, 32, B, C] x", "c = Conv<group = 4>(x, heads) y = Relu(c)", "1 32 A B"),
    "groups of one filter": ("float[A, 32, B, C] x", "y = Conv<group = 4, pads = [1, 1, 1, 1]>(x, ones)", "1 32 A B"),
    "pixels of several blocks of a weight before a border": (
        "float[1, 6, A, B] x",
        "c = Conv(x, o80) r = Sigmoid(c) m = Conv<pads = [1, 1, 1, 1], group = 80>(r, d80) y = Conv(m, q80)",
        "1 6 A B",
    ),
    "one filter for each channel of whole images": (
        "float[A, 32, 40, 40] x",
        "y = Conv<pads = [1, 1, 1, 1], group = 32>(x, d)",
        "A 32 40 40",
    ),
    "one filter for each channel of whole images in steps of two": (
        "float[A, 32, 36, 72] x",
        "y = Conv<pads = [1, 1, 1, 1], group = 32, strides = [2, 2]>(x, d)",
        "A 32 36 72",
    ),
    "pointwise after a border": (
        "float[1, 6, A, B] x",
        "c = Conv(x, o) r = Relu(c) m = Conv<pads = [1, 1, 1, 1], group = 32>(r, d) y = Conv(m, q1)",
        "1 6 A B",
    ),
    "products of each head, side by side": (
        "float[2, A, B, 9] x, float[2, A, 9, B] z",
        "m = MatMul(x, z) y = Transpose<perm = [0, 2, 1, 3]>(m)",
        "2 A B 9, 2 A 9 B",
    ),
    "axes that change places": (
        "float[A, B, 9] x, float[B, A, 9] z",
        "l = Transpose<perm = [1, 0, 2]>(z) y = Add(x, l)",
        "A B 9, B A 9",
    ),
    "scaled images of known size": (
        "float[A, 40, 7, 5] x, float[A, 40, 1, 1] z",
        "m = Mul(x, z) y = Relu(m)",
        "A 40 7 5, A 40 1 1",
    ),
    "centred images of known size": (
        "float[A, 40, 7, 5] x",
        "m = ReduceMean<keepdims = 1>(x, hw) y = Sub(x, m)",
        "A 40 7 5",
    ),
    "norm of an image, op by op": (
        "float[2, 6, A, B] x",
        "m = ReduceMean<keepdims = 1>(x, hw) c = Sub(x, m) s = Mul(c, c) l = ReduceMean<keepdims = 1>(s, hw) "
        "r = Sqrt(l) y = Div(c, r)",
        "2 6 A+1 B+1",
    ),
    "one filter": ("float[A, 40, B, 3] x", "y = Conv(x, lone)", "A 40 B 3"),
    "strided": ("float[A, 6, B, 20] x", "y = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(x, k)", "A 6 B 20"),
    "few channels": ("float[A, 2, 9, B] x", "c = Conv<pads = [1, 1, 1, 1]>(x, few) y = Relu(c)", "A 2 9 B"),
    "few channels of planes": (
        "float[1, 2, A, B] x",
        "y = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(x, few)",
        "1 2 A B",
    ),
    "sums beside many known rows": ("float[600, 2, 40, A] x", "y = ReduceSum<keepdims = 0>(x, one)", "600 2 40 A"),
    "depthwise": ("float[1, 32, A, B] x", "y = Conv<pads = [1, 1, 1, 1], group = 32>(x, d)", "1 32 A B"),
    "depthwise in steps of two": (
        "float[A, 32, B, C] x",
        "c = Conv<pads = [1, 1, 2, 2], strides = [2, 2], group = 32>(x, d) y = Relu(c)",
        "2 32 A B",
    ),
    "depthwise of two filters for each channel": (
        "float[1, 16, A, B] x",
        "y = Conv<pads = [1, 1, 1, 1], group = 16>(x, d)",
        "1 16 A B",
    ),
    "depthwise of frames": (
        "float[1, 8, A, B, C] x",
        "y = Conv<pads = [1, 2, 1, 1, 0, 1], strides = [1, 1, 2], group = 8>(x, volume)",
        "1 8 2 A B",
    ),
    "depthwise behind a product": (
        "float[1, 32, A, B] x",
        "c = Conv(x, own) r = Relu(c) y = Conv<pads = [2, 2, 2, 2], group = 32>(r, d5)",
        "1 32 A B",
    ),
    "pool": (
        "float[1, 6, A, B] x",
        "c = Conv<pads = [1, 1, 1, 1]>(x, k) y = MaxPool<kernel_shape = [2, 2]>(c)",
        "1 6 A+1 B+1",
    ),
    "pool along rows": ("float[A, 3, 9, B] x", "y = MaxPool<kernel_shape = [3, 2], strides = [2, 2]>(x)", "A 3 9 B+1"),
    "pool of windows apart": (
        "float[2, 5, A, B] x",
        "m = MaxPool<kernel_shape = [2, 3], strides = [2, 3]>(x) y = Tanh(m)",
        "2 5 A+1 B+2",
    ),
    "pool with padding": (
        "float[2, 3, A, B] x",
        "y = MaxPool<kernel_shape = [3, 4], strides = [2, 1], pads = [1, 3, 1, 2]>(x)",
        "2 3 A B",
    ),
    "pool of frames with padding": (
        "float[A, 2, 5, B, C] x",
        "y = MaxPool<kernel_shape = [3, 2, 3], strides = [2, 1, 1], pads = [1, 1, 1, 1, 0, 2]>(x)",
        "1 2 5 A+1 B+1",
    ),
    "pool of bytes in steps": (
        "float[1, A, B, C] x",
        "i = Cast<to = 3>(x) m = MaxPool<kernel_shape = [3, 3], strides = [3, 2], dilations = [2, 1],"
        " pads = [2, 1, 2, 1]>(i) y = Cast<to = 1>(m)",
        "1 2 A B",
    ),
    "mean pool in steps": (
        "float[1, 3, A, B] x",
        "y = AveragePool<kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]>(x)",
        "1 3 A B",
    ),
    "mean pool with padding": (
        "float[A, 3, 9, B] x",
        "y = AveragePool<kernel_shape = [3, 3], pads = [1, 1, 1, 1], count_include_pad = 1>(x)",
        "A 3 9 B",
    ),
    "pool of whole images with padding": (
        "float[A, 3, 40, 40] x",
        "y = MaxPool<kernel_shape = [3, 5], strides = [2, 1], pads = [1, 2, 1, 2]>(x)",
        "A 3 40 40",
    ),
    "last becomes first": ("float[A, 20, 28] x", "y = Transpose<perm = [2, 1, 0]>(x)", "A 20 28"),
    "normal image": ("float[1, 6, A, B] x", "y = MeanVarianceNormalization<axes = [0, 2, 3]>(x)", "1 6 A+1 B+1"),
    "mean pool of images, and what follows": (
        "float[1, 3, A, B] x",
        "r = Relu(x) m = AveragePool<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(r) y = Add(m, r)",
        "1 3 A B",
    ),
    "norm by neighbours among channels": ("float[A, B, C, D] x", "y = LRN<size = 5, alpha = 0.5>(x)", "A B 3 A"),
    "norm by neighbours among known channels": (
        "float[A, 6, B, C] x",
        "y = LRN<size = 5, alpha = 0.5>(x)",
        "A 6 B 3",
    ),
    "softmax": ("float[A, B, 50] x", "y = Softmax<axis = -1>(x)", "A B 50"),
    "softmax of open rows": ("float[A, 5, B] x", "y = Softmax<axis = -1>(x)", "A 5 B"),
    "softmax of open rows of images": (
        "float[2, A, C, B] x, float[B] z",
        "a = Add(x, z) y = LogSoftmax(a)",
        "2 A 3 B, B",
    ),
    "sums of open rows": ("float[A, B] x", "m = Mul(x, x) y = ReduceSum(m, n_last)", "A B"),
    "norm": ("float[A, B, 48] x", "y = LayerNormalization(x, g, h)", "A B 48"),
    "norm of an image": ("float[1, 48, A, B] x", "n = InstanceNormalization(x, g, h) y = Relu(n)", "1 48 A+1 B+1"),
    "groups of channels": (
        "float[1, 48, A, B] x",
        "s = Shape(x) r = Reshape(x, groups) n = InstanceNormalization(r, g4, h4) m = Reshape(n, s) y = Relu(m)",
        "1 48 A B",
    ),
    "one row": ("float[1, A] x", "m = ReduceMean<keepdims = 1>(x, one) y = Add(m, x)", "1 A"),
    "scaled by an element": (
        "float[1, 6, A, B] x, float[2] z",
        "s = Gather<axis = 0>(z, n0) l = Gather<axis = 0>(z, n1) c = Conv(x, o) m = Mul(c, s) y = Add(m, l)",
        "1 6 A B, 2",
    ),
    "scores": ("float[2, A, 16] x, float[2, 16, B] z", "y = MatMul(x, z)", "2 A 16, 2 16 B"),
    "open sum": ("float[2, 9, A, B] x, float[2, 9, B, 16] z", "y = MatMul(x, z)", "2 9 A B, 2 9 B 16"),
    "mean of an image": ("float[2, 20, A, B] x", "y = ReduceMean<keepdims = 1>(x, hw)", "2 20 A B"),
    "pieces of a concat": (
        "float[A, B, 24] x",
        "r = Relu(x) s = Sigmoid(x) c = Concat<axis = 2>(r, x, s) y = MatMul(c, pieces)",
        "A B 24",
    ),
    "inputs side by side": (
        "float[A, B, 24] x, float[A, B, 9] z",
        "c = Concat<axis = 2>(x, z, x) y = Relu(c)",
        "A B 24, A B 9",
    ),
    "elements in turn": (
        "float[A, B, 1] x, float[A, B, 1] z",
        "y = Concat<axis = 2>(x, z, z, x)",
        "A B 1, A B 1",
    ),
    "inputs among others": (
        "float[A, 3, B] x, float[A, 40, B] z",
        "r = Relu(x) c = Concat<axis = 1>(z, r, x) y = Sigmoid(c)",
        "A 3 B, A 40 B",
    ),
    "greatest of known images": ("float[A, B, 14, 14] x", "y = GlobalMaxPool(x)", "A B 14 14"),
    "log of sums of known images": ("float[A, 6, 7, 9] x", "y = ReduceLogSumExp<keepdims = 0>(x, hw)", "A 6 7 9"),
    "sums of rows that lie apart": ("float[A, B, 9, B] x", "y = ReduceSum<keepdims = 0>(x, lie_apart)", "A B 9 B"),
    "sums of whole numbers over all axes but one": (
        "float[A, B, 3, 2] x",
        "i = Cast<to = 7>(x) s = ReduceSum<keepdims = 0>(i, all_but_one) y = Cast<to = 1>(s)",
        "A B 3 2",
    ),
    "greatest whole numbers": (
        "float[A, 3, B] x",
        "i = Cast<to = 7>(x) s = ReduceMax<keepdims = 0>(i, outer) y = Cast<to = 1>(s)",
        "A 3 B",
    ),
    "sum of rows": ("float[A, 4] x", "y = ReduceSum<keepdims = 0>(x, zero)", "A 4"),
    "root of a sum of rows": (
        "float[A, 4, 20] x",
        "a = Abs(x) s = ReduceSum<keepdims = 0>(a, zero) y = Sqrt(s)",
        "A 4 20",
    ),
    "maximum of columns": ("float[A, B, 20] x", "y = ReduceMax<keepdims = 0>(x, one)", "A B 20"),
    "channels that become the first": ("float[2, A, 5, B] x", "y = Transpose<perm = [0, 3, 1, 2]>(x)", "2 A 5 B"),
    "channels that become the last": ("float[2, B, A, 5] x", "y = Transpose<perm = [0, 2, 3, 1]>(x)", "2 B A 5"),
    "transpose": ("float[A, 24, B] x", "y = Transpose<perm = [2, 0, 1]>(x)", "A 24 B"),
    "transpose of outer axes": ("float[A, 6, B, 5] x", "y = Transpose<perm = [0, 2, 1, 3]>(x)", "A 6 B 5"),
    "parts of channels": ("float[A, 8, B, B] x", "y, rest = Split<axis = 1, num_outputs = 2>(x)", "A 8 B B"),
    "every second row and third element": (
        "float[A, 9, 20] x",
        "taken = Slice(x, from_1, to_end, last_two, by_2_and_3) s = Sigmoid(taken) y = Mul(s, taken)",
        "A 9 20",
    ),
    "rows with steps of open images": (
        "float[A, 3, 9, B] x",
        "taken = Slice(x, from_1, to_end, last_two, by_2_and_3) s = Sigmoid(taken) y = Mul(s, taken)",
        "A 3 9 B",
    ),
    "neighbours of half of an image": (
        "float[A, 3, 10, 12] x",
        'y = Resize<mode = "linear">(x, "", half)',
        "A 3 10 12",
    ),
    "every second element": ("float[A, B, 2] x", "y, rest = Split<axis = 2, num_outputs = 2>(x)", "A B 2"),
    "division by a size": ("float[A, 20, B, 3] x", "m = GlobalAveragePool(x) y = Relu(m)", "A 20 B 3"),
    "norm of rows by an open count": (
        "float[A, 6, B] x",
        "m = ReduceMean<keepdims = 1>(x, two) c = Sub(x, m) s = Mul(c, c) n = ReduceMean<keepdims = 1>(s, two)"
        " a = Add(n, eps) r = Sqrt(a) y = Div(c, r)",
        "A 6 B",
    ),
    "rows over the root of their mean square": (
        "float[A, 3, B] x",
        "s = Mul(x, x) m = ReduceMean<keepdims = 1>(s, n_last) a = Add(m, eps) r = Sqrt(a) y = Div(x, r)",
        "A 3 B",
    ),
    "softmax of products": (
        "float[A, 1] x, float[1, B] z",
        "m = Mul(x, z) y = Softmax<axis = -1>(m)",
        "A 1, 1 B",
    ),
    "softmax of places": (
        "float[A, 1] x, float[B] z",
        "n = Size(z) r = Range(n0, n, n1) f = Cast<to = 1>(r) m = Mul(x, f) y = Softmax<axis = -1>(m)",
        "A 1, B",
    ),
    "norm over known rows of open length": (
        "float[A, 6, 5, B] x",
        "m = ReduceMean<keepdims = 1>(x, hw) c = Sub(x, m) s = Mul(c, c) n = ReduceMean<keepdims = 1>(s, hw)"
        " a = Add(n, eps) r = Sqrt(a) l = Div(c, r) y = Mul(l, each)",
        "A 6 5 B",
    ),
    "norm by open counts": (
        "float[A, B, 6] x",
        "m = ReduceMean<keepdims = 1>(x, one) c = Sub(x, m) s = Mul(c, c) n = ReduceMean<keepdims = 1>(s, one)"
        " a = Add(n, eps) r = Sqrt(a) y = Div(c, r)",
        "A B 6",
    ),
    "places": ("float[A, B] x", "y = Trilu<upper = 0>(x)", "A B"),
    "places in a batch": ("float[3, A, 5, B] x", "m = Trilu<upper = 1>(x) y = Sigmoid(m)", "3 A 5 B"),
    "masked softmax": ("float[2, A, A] x", "m = Trilu<upper = 0>(x) y = Softmax<axis = -1>(m)", "2 A A"),
    "a range": ("float[A] x", "n = Size(x) r = Range(n0, n, n1) f = Cast<to = 1>(r) y = Mul(x, f)", "A"),
    "gather of rows": (
        "float[A, 40] x",
        "n = Shape<end = 1>(x) m = Squeeze(n) r = Range(n0, m, n2) y = Gather<axis = 0>(x, r)",
        "A 40",
    ),
    "gather of columns": (
        "float[3, A] x",
        "n = Shape<start = 1>(x) m = Squeeze(n) r = Range(n0, m, n2) y = Gather<axis = 1>(x, r)",
        "3 A",
    ),
    "known sizes of an open tensor": (
        "float[A, B] x",
        "r = Gather<axis = 0>(x, ends) y = Gather<axis = 1>(r, ends)",
        "A B",
    ),
    "resize to many rows": ("float[2, A, B] x", 'y = Resize<mode = "linear", axes = [1]>(x, , , many)', "2 A B"),
    "resize": ("float[1, 6, A, B] x", 'y = Resize<mode = "nearest">(x, , twice)', "1 6 A B"),
    "resize of many channels": ("float[1, 40, A, B] x", 'y = Resize<mode = "nearest">(x, , twice)', "1 40 A B"),
    "resize of channels last": (
        "float[A, 6, B, 5] x",
        'c = Conv(x, o) y = Resize<mode = "nearest">(c, , twice)',
        "A 6 B 5",
    ),
    "repeated border": ("float[1, 3, A, B] x", 'y = Pad<mode = "edge">(x, sides)', "1 3 A B"),
    "broadcast of any sizes": ("float[A, B] x, float[C, D] z", "y = Add(x, z)", "A B, 1 B"),
}
# Each line of the package that runs for these runs for others, or for a test below.
COVERED = {
    "patches of filters that no cache holds",
    "patches of single frames",
    "few rows of a long sum",
    "convolution",
    "few products of pixels",
    "groups of filters of pixels",
    "one filter for each channel of whole images",
    "pointwise after a border",
    "scaled images of known size",
    "norm of an image, op by op",
    "few channels",
    "sums beside many known rows",
    "depthwise behind a product",
    "sums of open rows",
    "one row",
    "mean of an image",
    "pieces of a concat",
    "inputs among others",
    "sums of whole numbers over all axes but one",
    "channels that become the first",
    "parts of channels",
    "every second row and third element",
    "norm of rows by an open count",
    "softmax of products",
    "norm by open counts",
    "places in a batch",
    "a range",
    "gather of rows",
    "resize of channels last",
    "patches of sequences",
    "scores",
    "few filters of pixels",
    "softmax of open rows",
    "normal image",
    "one filter",
    "open sum",
    "elements in turn",
    "depthwise in steps of two",
    "depthwise of two filters for each channel",
    "channels that become the last",
    "division by a size",
    "depthwise",
    "mean pool with padding",
    "greatest of known images",
    "pool along rows",
    "last becomes first",
    "centred images of known size",
    "pool with padding",
    "transpose of outer axes",
    "resize of many channels",
    "places",
    "axes that change places",
    "every second element",
}
WEIGHTS = {
    "w": (24, 40),
    "b": (40,),
    "u": (600, 48),
    "p": (24, 1024),
    "q": (1024, 256),
    "pieces": (72, 16),
    "v": (64, 32, 3, 3),
    "t": (32, 64, 3, 3),
    "head": (5, 32, 1, 1),
    "heads": (12, 8, 1, 1),
    "ones": (4, 8, 3, 3),
    "line": (128, 32, 3),
    "cube": (64, 32, 3, 3, 3),
    "face": (64, 32, 1, 3, 3),
    "e": (64, 32, 1, 1),
    "k": (20, 6, 3, 3),
    "d": (32, 1, 3, 3),
    "d5": (32, 1, 5, 5),
    "volume": (8, 1, 2, 3, 3),
    "own": (32, 32, 1, 1),
    "few": (9, 2, 3, 3),
    "o": (32, 6, 1, 1),
    "o80": (80, 6, 1, 1),
    "d80": (80, 1, 3, 3),
    "q80": (8, 80, 1, 1),
    "q1": (32, 32, 1, 1),
    "o160": (160, 160, 1, 1),
    "v256": (256, 256, 3, 3),
    "q160": (160, 160, 1, 1),
    "lone": (1, 40, 1, 1),
    "g": (48,),
    "h": (48,),
    "each": (6, 5, 1),
    "g4": (4,),
    "h4": (4,),
}
NUMBERS = {
    "hw": np.array([2, 3]),
    "zero": np.array([0]),
    "lie_apart": np.array([1, 3]),
    "one": np.array([1]),
    "all_but_one": np.array([0, 2, 3]),
    "two": np.array([2]),
    "outer": np.array([0, 2]),
    "n0": np.array(0),
    "n1": np.array(1),
    "n2": np.array(2),
    "groups": np.array([0, 4, -1]),
    "ends": np.array([-1, 0]),
    "n_last": np.array([-1]),
    "eps": np.float32(1e-3),
    "many": np.array([600]),
    "half": np.array([1, 1, 0.5, 0.5], np.float32),
    "from_1": np.array([1, 1]),
    "to_end": np.array([9999, 9999]),
    "last_two": np.array([1, 2]),
    "by_2_and_3": np.array([2, 3]),
    "twice": np.array([1, 1, 2, 2], np.float32),
    "sides": np.array([0, 0, 2, 1, 0, 0, 3, 9]),
}


def model(kind: str) -> onnx.ModelProto:
    inputs, body, _ = KINDS[kind]
    made = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 18]> g ({inputs}) => (float y) {{ {body} }}')
    made.graph.output[0].type.tensor_type.ClearField("shape")
    read = {name for node in made.graph.node for name in node.input}
    weights = {name: RNG.standard_normal(shape).astype(np.float32) for name, shape in WEIGHTS.items() if name in read}
    weights |= {name: np.asarray(a) for name, a in NUMBERS.items() if name in read}
    made.graph.initializer.extend(onnx.numpy_helper.from_array(a, name) for name, a in weights.items())
    return made


def shapes(kind: str, a: int, b: int) -> list[tuple[int, ...]]:
    extents = {"A": a, "B": b, "A+1": a + 1, "B+1": b + 1, "B+2": b + 2}
    of_inputs = KINDS[kind][2].split(", ")
    return [tuple(extents.get(word) or int(word) for word in shape.split()) for shape in of_inputs]


def pairs(kind: str) -> list[tuple[int, int]]:
    """Each size along one axis beside a size along the other; of large images, those of up to so many elements."""
    made = [(n, SIZES[i * 4 % len(SIZES)]) for i, n in enumerate(SIZES)] + [(70, 70), (3, 300)]
    return [pair for pair in made if sum(map(math.prod, shapes(kind, *pair))) <= MOST_ELEMENTS]


@FOR_THIS_MACHINE
@pytest.mark.parametrize("kind", leaving(KINDS, COVERED))
def test_kernels_of_open_sizes_are_right(kind: str):
    """And have schedules, but for what packs a weight once."""
    made = model(kind)
    session = make_session(made)
    with noting_kernels() as found:
        module = tw.compile(made, workers=0, num_threads=3)
    assert found and not [k.name for k in found if not k.schedule and not k.name.startswith("pack_")]
    for a, b in pairs(kind):
        inputs = [RNG.standard_normal(shape, dtype=np.float32) for shape in shapes(kind, a, b)]
        names = [info.name for info in module.inputs]
        want = np.asarray(session.run(None, dict(zip(names, inputs, strict=True)))[0])
        for module.num_threads in (1, 3):
            [got] = module(*inputs)
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=0, atol=2e-5 * max(1.0, float(np.abs(want).max())))


def kernels(kind: str) -> list[Kernel]:
    """What callers know of the program's kernels."""
    target = TARGET.get(detect_host())
    with make_context(), ir.Location.unknown():
        planned = pipeline.plan(import_model(model(kind)), target, PassContext())
    return [find_or_compile(planned.kernels[name], target) for name in {call.kernel for call in planned.main.calls}]


def schedules(kind: str) -> dict[str, str]:
    """The schedules of the program's kernels, "" where one runs as plain loops."""
    described = describe_kernels(model(kind), TARGET.get(detect_host()))
    return {kernel.name: kernel.schedule for kernel in described.values()}


def test_pixels_are_rows_of_one_product():
    assert sum("blocks of 24 x 160" in text for text in schedules("pointwise").values()) == 2


@campaign("few filters of pixels")
@pytest.mark.parametrize("kind", ["few filters of pixels", "groups of filters of pixels", "few products of pixels"])
def test_pixels_are_columns_where_products_are_few(kind: str):
    """Nothing is brought into another order."""
    names = list(schedules(kind))
    assert any("matmul" in name for name in names) and not any("transpose" in name for name in names)


def test_few_patches_go_together():
    """As those of 7 x 7 pixels: each block of patches reads all of the filters.

    Of vectors of eight columns 256 filters have so many blocks that each makes the patches itself, rows of fourteen.
    """
    texts = [
        t
        for t in schedules("patches of filters that no cache holds").values()
        if "linear_transform" in t and "pack" in t
    ]
    found = [
        [line.split(" x ")[2] for line in text.splitlines() if line.startswith("blocks of 1 x 4 x")] for text in texts
    ]
    apart = TARGET.get(detect_host()).lanes > 8
    assert (["28", "16", "8", "4"] if apart else ["56", "28", "16", "4"]) in found


def test_threads_go_on_with_what_others_have_left_of_products():
    products = [kernel for kernel in kernels("pointwise") if kernel.name.startswith("conv")]
    assert products and all(kernel.pieces > 1 and kernel.parallel for kernel in products)


def test_single_rows_of_products_have_longer_blocks():
    [product] = [text for text in schedules("scores").values() if text.startswith("blocks")]
    assert "blocks of 1 x 1 x 128" in product
    module = tw.compile(model("scores"), workers=0, num_threads=1)
    for rows, columns in itertools.product((1, 34), (127, 128, 300)):
        x, z = (RNG.integers(-4, 5, shape).astype(np.float32) for shape in ((2, rows, 16), (2, 16, columns)))
        [got] = module(x, z)
        np.testing.assert_array_equal(got, x @ z)


@FOR_THIS_MACHINE
def test_rows_of_a_product_share_copies_of_its_columns():
    text = '<ir_version: 10, opset_import: ["": 21]> g (float[N, A, K] x, float[N, K, B] z) => (float[N, A, B] y)'
    module = tw.compile(onnx.parser.parse_model(text + " { y = MatMul(x, z) }"), workers=0, num_threads=2)
    sizes = itertools.product((0, 1, 5, 36, 70), (0, 1, 33, 64), (3, 37, 127, 200))
    for rows, steps, columns in (*sizes, (70, 5000, 130)):  # so many steps are no copy
        x, z = (RNG.integers(-4, 5, shape).astype(np.float32) for shape in ((2, rows, steps), (2, steps, columns)))
        [got] = module(x, z)
        np.testing.assert_array_equal(got, x @ z)


def test_greatest_whole_numbers_are_no_plain_loops():
    assert all(schedules("greatest whole numbers").values())


def test_many_known_rows_go_one_by_one_in_long_vectors():
    assert any("blocks of 1 x 1 x 256" in text for text in schedules("resize to many rows").values())


def test_blocks_beside_many_known_rows_are_wide():
    assert any("blocks of 1 x 256" in text for text in schedules("sums beside many known rows").values())


@pytest.mark.parametrize("kind", ["scaled images of known size", "centred images of known size"])
def test_rows_of_known_size_are_joined(kind: str):
    """Beside the images and channels, which are joined, too: of these an open number is."""
    [text] = schedules(kind).values()
    sizes = [line.removeprefix("blocks of ") for line in text.splitlines() if line.startswith("blocks")]
    assert all(size.endswith(" x 35:") and size.count("x") == 1 for size in sizes)


def test_pixels_of_one_filter_go_many_at_once():
    """Each sum waits for the multiply-add before."""
    [text] = schedules("one filter").values()
    sizes = [line.removeprefix("blocks of ") for line in text.splitlines() if line.startswith("blocks")]
    assert [size for size in sizes if size.startswith("1 x")] == [
        "1 x 1 x 128:", "1 x 1 x 32:", "1 x 1 x 8:", "1 x 1 x 1:"
    ]  # fmt: skip


def test_pixels_of_few_channels_lie_along_vectors():
    """In the order of the model's own dims: nothing is transposed."""
    for kind in ("few channels", "few channels of planes"):
        assert any("vectorize ow" in text for text in schedules(kind).values())
        assert not any("transpose" in name for name in schedules(kind))


@pytest.mark.parametrize("kind", ["norm by neighbours among channels", "norm by neighbours among known channels"])
def test_windows_along_channels_are_blocks_down_to_single_pixels(kind: str):
    """Of which the channels around may lie in the padding: zeros, whose squares a sum of squares has to have."""
    [schedule] = schedules(kind).values()
    assert schedule.startswith("blocks of")


@FOR_THIS_MACHINE
def test_known_channels_with_a_padding_are_read_within_bounds():
    pixels = ((1, 1), (5, 7), (16, 2), (33, 1), (9, 30))
    check_open(
        "LRN", *[[RNG.standard_normal((2, 6, *n), np.float32)] for n in pixels], fixed=[(0, 1)], size=5, alpha=0.5
    )


def test_a_norm_of_an_image_and_what_follows_are_one_kernel():
    [schedule] = schedules("norm of an image").values()
    assert schedule.startswith("rows of any length")


@pytest.mark.parametrize("kind", ["softmax of open rows", "softmax of open rows of images"])
def test_short_rows_of_any_length_go_together(kind: str):
    [kernel] = schedules(kind).values()
    lanes = TARGET.get(detect_host()).lanes
    assert f", {lanes} of fewer than {3 * lanes} elements at once, " in kernel


@pytest.mark.parametrize("kind", ["norm over known rows of open length", "rows over the root of their mean square"])
def test_a_norm_over_known_rows_of_open_length_is_one_kernel(kind: str):
    """Each row is scaled by a number of its own."""
    [schedule] = schedules(kind).values()
    assert schedule.startswith("rows of any length")


@pytest.mark.parametrize("kind", ["transpose of outer axes", "parts of channels", "every second element"])
def test_rows_that_stay_rows_are_copied_whole(kind: str):
    assert all(schedule.startswith("rows along") for schedule in schedules(kind).values())


def test_inputs_side_by_side_are_copied_by_one_kernel():
    found = list(schedules("inputs side by side").values())
    assert sum("piece 2 in rows" in text for text in found) == 1 and len(found) == 2


@OTHERS_ALONE_ARE_SLOW
@pytest.mark.parametrize("kind", leaving(KINDS, COVERED))
def test_kernels_of_open_sizes_have_schedules(kind: str):
    assert not [kernel.name for kernel in kernels(kind) if not kernel.schedule]


def test_a_kernel_has_versions_down_to_single_elements():
    (schedule,) = [text for name, text in schedules("dense").items() if name.startswith("matmul")]
    sizes = [line.removeprefix("blocks of ") for line in schedule.splitlines() if line.startswith("blocks")]
    assert sizes == [f"{rows} x 40:" for rows in (24, 12, 8, 6, 4, 3, 2, 1)]


@FOR_THIS_MACHINE
@pytest.mark.parametrize(("cpu", "wide"), [("skylake-avx512", True), ("haswell", False)])
def test_large_weights_are_read_for_as_many_pixels_as_registers_hold(cpu: str, wide: bool) -> None:
    made = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 18]> g (float[N, 128, H, W] x) => (float y)'
        " { y = Conv<pads = [1, 1, 1, 1], strides = [3, 3]>(x, w) }"
    )
    made.graph.output[0].type.tensor_type.ClearField("shape")
    weight = RNG.standard_normal((512, 128, 3, 3)).astype(np.float32)
    made.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    kernels = describe_kernels(made, Target.parse(f"x86 -mcpu={cpu}"))
    lines = [line for kernel in kernels.values() for line in kernel.schedule.splitlines()]
    assert ("blocks of 1 x 2 x 7 x 512:" in lines) is wide and "blocks of 1 x 2 x 4 x 512:" in lines
    if wide and detect_host().registers < 32:
        return  # nothing runs it here
    module, session = tw.compile(made, f"x86 -mcpu={cpu}", workers=0), make_session(made)
    for height, width in ((1, 1), (7, 19), (21, 22), (19, 31), (5, 44)):
        x = RNG.standard_normal((1, 128, height, width)).astype(np.float32)
        for module.num_threads in (1, 3):
            np.testing.assert_allclose(module(x)[0], session.run(None, {"x": x})[0], rtol=0, atol=1e-3)


@FOR_THIS_MACHINE
def test_a_thread_takes_its_share_at_once_where_the_steps_of_a_block_have_a_transform_in_common():
    transforms = [kernel for kernel in kernels("patches") if kernel.name.startswith("transform_matmul")]
    assert transforms and all(kernel.ahead and kernel.parallel for kernel in transforms)


def test_sequences_are_convolved_in_patches():
    assert any("linear_transform" in text for text in schedules("patches of sequences").values())


@pytest.mark.parametrize(("channels", "apart"), [(64, False), (512, True)])
def test_patches_are_made_apart_where_reading_filters_again_for_each_block_takes_longer(channels: int, apart: bool):
    """The filters of neither stay in the cache of such a CPU; a block of patches is all of one, in one piece."""
    text = f"float[1, {channels}, A, B] x) => (float y) {{ y = Conv<pads = [1, 1, 1, 1]>(x, w) }}"
    made = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 18]> g ({text}')
    made.graph.output[0].type.tensor_type.ClearField("shape")
    made.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((channels, channels, 3, 3), np.float32), "w"))
    target = Target.parse("x86 -mcpu=haswell")
    with make_context(), ir.Location.unknown():
        planned = pipeline.plan(import_model(made), target, PassContext())
    names = [call.kernel for call in planned.main.calls if call.kernel.startswith("transform_")]
    assert all(name.startswith("transform_matmul") != apart for name in names)
    if apart:  # in patches of either size, of which the run chooses
        lines = [find_or_describe(planned.kernels[name], target).schedule.splitlines()[0] for name in names]
        assert sorted(lines) == [f"blocks of {n} x {n} x 1 x 1 x 1 x {channels}:" for n in (4, 6)]


def combines_in_registers(plan: str) -> bool:
    """Whether a plan is that of pools where vectors are stored by masks, which it has to be there."""
    found = "windows of rows in registers" in plan
    assert found == TARGET.get(detect_host()).stores_by_masks
    return found


def test_a_block_of_a_pool_combines_all_of_its_rows_ahead():
    """What is read right after it was written, in other vectors, has to wait."""
    [text] = schedules("pool along rows").values()
    assert combines_in_registers(text) or "blocks of 8 x 4 x 32:\nparallel n.0 in 1 x 8:\n  stage" in text


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.startswith("one filter for each channel of whole")])
def test_a_block_of_whole_images_is_padded_by_its_kernel(kind: str):
    """The last rows and columns of the padding are not read in steps of two."""
    [text] = schedules(kind).values()
    assert text.count("stage %") >= text.count("blocks of")


def test_a_block_of_whole_images_leaves_their_padding_out():
    """Its thread keeps some rows, and no padded copy of an image."""
    [kernel] = kernels("pool of whole images with padding")
    assert kernel.schedule.startswith("blocks of 8 x 1 x 20 x 40:")
    assert 0 < kernel.scratch_bytes < 8 * 42 * 44 * 4


def test_the_rows_of_a_strip_are_combined_for_all_windows_along_them():
    [plan] = [text for name, text in schedules("mean pool of images, and what follows").items() if "pool" in name]
    assert plan.startswith("strips of rows:")
    [plan] = schedules("pool with padding").values()
    assert combines_in_registers(plan) or plan.startswith("strips of rows:")


def test_no_copy_of_what_a_pool_reads_is_made_where_registers_have_its_windows():
    for kind in ("pool with padding", "pool of frames with padding", "pool of windows apart"):
        for kernel in kernels(kind):
            if "pool" in kernel.name and combines_in_registers(kernel.schedule):
                assert kernel.scratch_bytes <= 2 * 32 * 4  # a vector


def compile_beside(text: str) -> tuple[Any, Any]:
    """A program of a graph in text, without its head, and onnxruntime's session of it."""
    parsed = onnx.parser.parse_model('<ir_version: 10, opset_import: ["": 21]> g ' + text)
    return tw.compile(parsed, workers=0, num_threads=1), make_session(parsed)


@campaign(every=3)
@FOR_THIS_MACHINE
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize(
    ("window", "at"),
    [
        ((13, 13), "pads = [6, 6, 6, 6]"),
        ((11, 7), "strides = [2, 1], pads = [5, 3, 5, 3]"),
        ((6, 6), "strides = [5, 2]"),
        ((10, 3), "dilations = [2, 3], strides = [2, 1], pads = [3, 1, 2, 1]"),
        ((2, 2), "strides = [2, 2]"),
        ((3, 2), "strides = [3, 4]"),
    ],
)
def test_pools_of_long_windows_and_of_windows_apart(op: str, window: tuple[int, int], at: str):
    """Images of rows that windows leave over, and of whole windows."""
    at = f"kernel_shape = [{window[0]}, {window[1]}], {at}"
    module, session = compile_beside(f"(float[N, C, H, W] x) => (float[n, c, h, w] y) {{ y = {op}<{at}>(x) }}")
    for size in ((19, 7), (20, 20), (24, 33), (40, 12)):
        x = RNG.integers(-4, 5, (2, 3, *size)).astype(np.float32)
        np.testing.assert_allclose(module(x)[0], session.run(None, {"x": x})[0], rtol=1e-6, atol=1e-6)


@FOR_THIS_MACHINE
@pytest.mark.parametrize("count", [0, 1])
def test_pools_of_windows_that_are_wider_than_tall(count: int):
    """Of rows that fit one vector, a whole one and some more, and of fewer rows than are computed at once."""
    at = f"kernel_shape = [3, 5], strides = [1, 2], pads = [1, 2, 1, 2], count_include_pad = {count}"
    text = f"(float[N, C, H, W] x) => (float[n, c, h, w] y) {{ y = AveragePool<{at}>(x) }}"
    module, session = compile_beside(text)
    for size in itertools.product((1, 2, 3, 4, 9), (1, 2, 11, 12, 27, 28, 65)):
        x = RNG.integers(-4, 5, (2, 3, *size)).astype(np.float32)
        np.testing.assert_allclose(module(x)[0], session.run(None, {"x": x})[0], rtol=1e-6, atol=1e-6)


def test_the_mean_of_windows_in_steps_is_one_kernel():
    """The windows that count and those that are made are as many, though the padded sizes do not show it."""
    [plan] = [text for name, text in schedules("mean pool in steps").items() if "pool" in name and "div" in name]
    assert combines_in_registers(plan) or plan.startswith("strips of rows:")


@pytest.mark.parametrize("kind", ["patches of frames", "patches of single frames"])
def test_windows_of_frames_are_patches(kind: str):
    names = list(schedules(kind))
    assert any("transform" in name for name in names) and not any("conv" in name for name in names)


def test_windows_that_share_no_column_are_blocks_along_a_row():
    [plan] = [text for name, text in schedules("pool").items() if "pool" in name]
    assert not plan.startswith("strips")


def test_images_are_one_where_windows_leave_no_rows_over():
    [plan] = [text for name, text in schedules("pool of windows apart").items() if "pool" in name]
    assert plan.startswith("images of whole windows are one, in\n")
    assert combines_in_registers(plan) or "\nblocks of" in plan


def test_channels_go_one_by_one_where_their_rows_share_nothing():
    """A block of all of them would write to as many places."""
    [plan] = schedules("resize of many channels").values()
    assert plan.startswith("blocks of 1 x 1 x 1 x 1 x 1 x 2 x 16 x 2:")


def test_axes_of_one_element_are_no_part_of_the_rows_that_are_summed():
    [plan] = schedules("normal image").values()
    assert plan.startswith("rows of any length")


def test_rows_that_become_columns_stay_where_others_go_one_by_one():
    """A block of one of them would read an element of each line."""
    [plan] = schedules("last becomes first").values()
    assert plan.startswith("blocks of 28 x 1 x 16:")


@pytest.mark.parametrize("kind", ["pool with padding", "mean pool with padding", "depthwise"])
def test_blocks_of_windows_pad_the_parts_of_an_input_that_they_read(kind: str):
    """No kernel makes a padded copy of all of the input, or brings it into another order."""
    [name] = schedules(kind)
    assert ("pool" in name or "depthwise" in name) and "transpose" not in name


@pytest.mark.parametrize(
    "kind, phases",
    [
        ("depthwise", False),
        ("depthwise in steps of two", True),
        ("depthwise of two filters for each channel", False),
        ("depthwise of frames", True),
    ],
)
def test_strips_of_what_depthwise_convolutions_read_are_copied(kind: str, phases: bool):
    """With the padding; in steps of two even and odd columns apart."""
    [plan] = schedules(kind).values()
    assert plan.startswith(f"strips of rows, copied with their padding{' in 2 phases' if phases else ''}:\n")


@pytest.mark.parametrize("kind", ["depthwise", "depthwise in steps of two"])
def test_the_copy_of_a_strip_has_rows_of_a_known_length(kind: str):
    """All of them are addressed by one register: of open length, each would have its own."""
    [kernel] = kernels(kind)
    assert kernel.scratch_bytes > 34 * 112 * 4 // 2


@FOR_THIS_MACHINE
@pytest.mark.parametrize("step", [1, 2])
def test_wide_images_of_a_depthwise_convolution_go_in_parts(step: int):
    """The last of which may be a column; heights are of blocks of seven rows, of eight, and of neither."""
    at = f"group = 2, pads = [2, 2, 2, 2], strides = [{step}, {step}]"
    text = f"(float[N, C, H, W] x, float[2, 1, 5, 5] w) => (float[n, c, h, z] y) {{ y = Conv<{at}>(x, w) }}"
    module, session = compile_beside(text)
    for size in itertools.product((1, 7, 8, 17, 57), (4, 113, 129, 225)):
        x, w = (RNG.integers(-4, 5, shape).astype(np.float32) for shape in ((1, 2, *size), (2, 1, 5, 5)))
        np.testing.assert_array_equal(module(x, w)[0], session.run(None, {"x": x, "w": w})[0])


def test_the_filters_of_a_channel_read_one_copy():
    """A block has a row of each of them, in a loop; rows shorter than a vector are written for each."""
    [plan] = schedules("depthwise of two filters for each channel").values()
    assert " in 2 x 1" in plan
    at = "group = 3, pads = [1, 1, 1, 1]"
    text = f"(float[N, C, H, W] x, float[6, 1, 3, 3] w) => (float[n, c, h, z] y) {{ y = Conv<{at}>(x, w) }}"
    module, session = compile_beside(text)
    for size in ((1, 1), (5, 3), (9, 17), (40, 8), (33, 113)):
        x, w = (RNG.integers(-4, 5, shape).astype(np.float32) for shape in ((2, 3, *size), (6, 1, 3, 3)))
        np.testing.assert_array_equal(module(x, w)[0], session.run(None, {"x": x, "w": w})[0])


def test_a_product_stores_no_padding_for_a_depthwise_convolution():
    """Rows of an image would each be a product of their own, short ones column by column."""
    [windows, product] = sorted(schedules("depthwise behind a product"))
    assert windows.startswith("insert_slice_depthwise") and "insert_slice" not in product


def test_the_sums_of_an_image_and_what_is_made_of_them_are_one_kernel():
    assert len(schedules("norm of an image, op by op")) == 1


@FOR_THIS_MACHINE
@pytest.mark.parametrize("perm", [(0, 3, 1, 2), (0, 2, 3, 1)])
def test_images_of_a_few_channels_have_loops_of_their_own(perm: tuple[int, ...]):
    last = perm == (0, 3, 1, 2)
    kind = "channels that become the first" if last else "channels that become the last"
    [text] = schedules(kind).values()
    assert [line for line in text.splitlines() if "channels" in line] == [
        "3 channels:", "4 channels:", "any number of channels:"
    ]  # fmt: skip
    assert "any number of channels:\nblocks of 2 x 16 x 16:" in text  # rows and columns are one axis
    module = tw.compile(model(kind), workers=0, num_threads=1)
    for channels in (3, 4, 5):
        x = RNG.standard_normal((2, 70, 5, channels) if last else (2, channels, 70, 5), dtype=np.float32)
        np.testing.assert_array_equal(module(x)[0], x.transpose(perm))


@FOR_THIS_MACHINE
@pytest.mark.parametrize("perm", [(0, 3, 1, 2), (0, 2, 3, 1)])
def test_images_that_are_scaled_by_a_number_have_loops_for_a_few_channels(perm: tuple[int, ...]):
    made = onnx.parser.parse_model(
        f"""<ir_version: 9, opset_import: ["": 18]> g (uint8[N, A, B, C] x) => (float y) {{
          c = Cast<to = 1>(x) n = Constant<value = float {{255}}>() d = Div(c, n) y = Transpose<perm = {list(perm)}>(d)
        }}"""
    )
    with noting_kernels() as found:
        module = tw.compile(made, workers=0, num_threads=1)
    [kernel] = found
    assert [line for line in kernel.schedule.splitlines() if "channels" in line] == [
        "3 channels:", "4 channels:", "any number of channels:"
    ]  # fmt: skip
    last = perm == (0, 3, 1, 2)
    for channels in (1, 3, 4, 5):
        x = RNG.integers(0, 256, (2, 70, 5, channels) if last else (2, channels, 70, 5)).astype(np.uint8)
        np.testing.assert_array_equal(module(x)[0], (x / np.float32(255)).transpose(perm))


@campaign("N, 20, 9-3-float", "1, H, 31-4-float")
@FOR_THIS_MACHINE
@pytest.mark.parametrize("dtype", ["float", "uint8", "double"])
@pytest.mark.parametrize("channels", [2, 3, 4])
@pytest.mark.parametrize("shape", ["N, H, W", "N, 20, 9", "1, H, 31"])
def test_images_of_a_few_known_channels_are_put_together_from_whole_vectors(shape: str, channels: int, dtype: str):
    n, *image = shape.split(", ")
    ways = {(0, 3, 1, 2): [n, *image, str(channels)], (0, 2, 3, 1): [n, str(channels), *image]}
    for perm, dims in ways.items():
        module = compile_transpose(f"{dtype}[{', '.join(dims)}] x", perm, dtype)
        for sizes in ({"N": 2, "H": 5, "W": 3}, {"N": 1, "H": 33, "W": 65}, {"N": 0, "H": 1, "W": 1}):
            extents = [sizes[dim] if dim in sizes else int(dim) for dim in dims]
            x = RNG.integers(0, 100, extents).astype(module.inputs[0].dtype)
            np.testing.assert_array_equal(module(x)[0], x.transpose(perm))


def compile_transpose(x: str, perm: tuple[int, ...], dtype: str) -> Any:
    """A program that only transposes, and has no kernel that goes by blocks."""
    made = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["": 18]> g ({x}) => ({dtype} y) {{ y = Transpose<perm = {list(perm)}>(x) }}'
    )
    made.graph.output[0].type.tensor_type.ClearField("shape")
    with noting_kernels() as found:
        module = tw.compile(made, workers=0, num_threads=1)
    assert [kernel.schedule.startswith("rows along") for kernel in found] == [True]
    return module


@pytest.mark.parametrize("rows", [2, 4])
def test_two_threads_share_images_of_few_rows(rows: int):
    """Each thread's part is one row, or two: a depthwise convolution of many channels, in blocks of channels."""
    made = onnx.parser.parse_model(
        f"""<ir_version: 9, opset_import: ["": 18]> g (float[1, {rows}, 24, 200] x) => (float[1, {rows}, 24, 200] y) {{
          n = Constant<value_ints = [200, 1, 5, 5]>() w = ConstantOfShape<value = float[1] {{0.5}}>(n)
          t = Transpose<perm = [0, 3, 1, 2]>(x) c = Conv<group = 200, pads = [2, 2, 2, 2]>(t, w)
          y = Transpose<perm = [0, 2, 3, 1]>(c)
        }}"""
    )
    module = tw.compile(made, replace(detect_host(), cores=2), workers=0, num_threads=2)
    x = RNG.standard_normal((1, rows, 24, 200), dtype=np.float32)
    padded = np.pad(x, ((0, 0), (2, 2), (2, 2), (0, 0)))
    summed = sum(padded[:, i : i + rows, j : j + 24] for i in range(5) for j in range(5))
    np.testing.assert_allclose(module(x)[0], summed * np.float32(0.5), 1e-4, 1e-4)


def test_an_op_that_sums_over_an_open_axis_is_the_last_of_its_kernel():
    names = list(schedules("root of a sum of rows"))
    assert sum(name.startswith("reduce") for name in names) == 1 < len(names)


@FOR_THIS_MACHINE
@pytest.mark.parametrize("op", ["ArgMin(x)", "Hardmax<axis = 0>(x)"])
def test_where_an_extreme_of_columns_lies(op: str):
    made = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["": 18]> g (float[A, B] x) => (float y) {{ y = {op} }}'
    )
    made.graph.output[0].type.tensor_type.elem_type = 7 if "Arg" in op else 1
    made.graph.output[0].type.tensor_type.ClearField("shape")
    module, session = tw.compile(made, cache=False, workers=0), make_session(made)
    for shape in ((1, 1), (3, 5), (70, 33)):
        x = RNG.standard_normal(shape).astype(np.float32)
        np.testing.assert_array_equal(module(x)[0], session.run(None, {"x": x})[0])


@FOR_THIS_MACHINE
@pytest.mark.parametrize(
    ("shapes", "sizes"),
    [
        ("float[1, K] x, float[K, 1] z", [((1, k), (k, 1)) for k in (1, 8, 77)]),
        ("float[A, 0] x, float[0, B] z", [((a, 0), (0, b)) for a, b in ((3, 5), (1, 1))]),
        ("float[0, A, K] x, float[0, K, B] z", [((0, 3, k), (0, k, 5)) for k in (1, 2)]),
    ],
)
def test_products_of_one_element_and_of_sums_over_nothing(shapes: str, sizes: list):
    made = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["": 18]> g ({shapes}) => (float y) {{ y = MatMul(x, z) }}'
    )
    made.graph.output[0].type.tensor_type.ClearField("shape")
    module = tw.compile(made, cache=False, workers=0)
    for one, other in sizes:
        x, z = (RNG.standard_normal(shape).astype(np.float32) for shape in (one, other))
        np.testing.assert_allclose(module(x, z)[0], x @ z, rtol=1e-5, atol=1e-5)


def test_rows_that_share_no_places_go_one_by_one():
    """What a row of a resized image reads is known before it; along its columns it is read one after another."""
    plans = [plan for name, plan in schedules("resize to many rows").items() if "mul" in name]
    assert plans and all(plan.startswith("blocks of 1 x 1 x 256:") for plan in plans)


@FOR_THIS_MACHINE
def test_pixels_of_bytes_are_as_many_as_a_register_tile_has_rows():
    made = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 18]> g (uint8[1, 16, A, B] x) => (int32 y) '
        "{ y = ConvInteger<pads = [1, 1, 1, 1]>(x, w) }"
    )
    made.graph.output[0].type.tensor_type.ClearField("shape")
    weight = RNG.integers(-128, 128, (32, 16, 3, 3)).astype(np.int8)
    made.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    session = make_session(made)
    with noting_kernels() as found:
        module = tw.compile(made, workers=0)
    [text] = [kernel.schedule for kernel in found if kernel.name.startswith("conv")]
    assert "blocks of 1 x 2 x 14 x 32" in text and "blocks of 1 x 2 x 7 x 32" in text
    for height, width in ((1, 1), (3, 13), (14, 14), (5, 33)):
        x = RNG.integers(0, 256, (1, 16, height, width)).astype(np.uint8)
        np.testing.assert_array_equal(module(x)[0], session.run(None, {"x": x})[0])


@FOR_THIS_MACHINE
@pytest.mark.parametrize(("filters", "step", "block"), [(64, 5, 32), (40, 1, 20), (37, 1, 37)])
def test_some_filters_go_over_whole_rows_of_pixels(filters: int, step: int, block: int):
    """So that a row of the result is written at once; no prime number of filters is cut."""
    made = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 18]> g (float[N, 1, A] x) => (float y) '
        f"{{ y = Conv<strides = [{step}]>(x, w) }}"
    )
    made.graph.output[0].type.tensor_type.ClearField("shape")
    weight = RNG.standard_normal((filters, 1, 10)).astype(np.float32)
    made.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    session = make_session(made)
    with noting_kernels() as found:
        module = tw.compile(made, workers=0, num_threads=2)
    [text] = [kernel.schedule for kernel in found if kernel.name.startswith("conv")]
    assert f"blocks of 1 x {block} x 64:" in text
    for images, samples in ((1, 10), (2, 47), (1, 700)):
        x = RNG.standard_normal((images, 1, samples)).astype(np.float32)
        np.testing.assert_allclose(module(x)[0], session.run(None, {"x": x})[0], rtol=1e-4, atol=1e-4)


@FOR_THIS_MACHINE
def test_rows_of_open_length_that_lie_apart_are_summed_in_registers():
    """They are read in place: no thread keeps a copy, or sums of chunks."""
    made = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 18]> g (float[N, A, H, K] x, float[N, B, H, K] z) => (float[N, H, A, B] y) '
        '{ y = Einsum<equation = "bqhd,bkhd->bhqk">(x, z) }'
    )
    with noting_kernels() as found:
        module = tw.compile(made, workers=0, num_threads=2)
    [text] = [kernel.schedule for kernel in found if kernel.name.startswith("matmul")]
    assert "stage" not in text and "for k in 64 x 1:" in text
    for rows, columns, steps in itertools.product((1, 7, 45), (3, 40), (1, 5, 70)):
        x, z = (RNG.integers(-4, 5, (2, n, 3, steps)).astype(np.float32) for n in (rows, columns))
        np.testing.assert_array_equal(module(x, z)[0], np.einsum("bqhd,bkhd->bhqk", x, z))
