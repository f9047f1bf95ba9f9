"""Linear models and support vector machines of ``ai.onnx.ml``."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ....core.sizes import Extent
from ....dialects import ir, math, scalars
from ..algorithms.scores import labels_of, transform_scores, two_classes
from ..primitives.activations import sigmoid
from ..primitives.movement import concat
from ..primitives.products import contract
from ..state.context import Context
from ..state.registry import op
from ..values.attributes import ML_DOMAIN, Floats, Ints
from ..values.objects import Element
from ..values.tensor import Tensor
from .text import name_labels, number_labels


def _to_rows(ctx: Context, x: Tensor) -> Tensor:
    """The input as rows of f32, or of f64 where it has that; a vector is one row."""
    whole = ctx.reshape(x, (1, *x.shape)) if x.rank == 1 else x
    if whole.rank != 2:
        ctx.invalid(f"the input has shape {list(x.shape)}, it must be rows of features")
    return ctx.cast(whole, "float64" if x.dtype == "float64" else "float32")


def _linear(ctx: Context, x: Tensor, weights: np.ndarray, offsets: Floats) -> Tensor:
    """``x`` times (outputs, features), and one offset for each output or for all."""
    misfit = f"{weights.size} coefficients and {len(offsets)} offsets for {x.shape[1]} features"
    if len(offsets) not in (0, 1, len(weights)):
        ctx.invalid(misfit)
    x = ctx.fit_shape(x, (x.shape[0], weights.shape[1]), misfit)
    product = contract(ctx, "nf,kf->nk", x, ctx.const(weights, x.dtype))
    if not offsets:
        return product
    return ctx.elementwise(scalars.add, product, ctx.const(np.reshape(offsets, (1, -1)), x.dtype))


def _matrix(ctx: Context, numbers: Floats, rows: int) -> np.ndarray:
    if rows < 1 or len(numbers) % rows or not numbers:
        ctx.invalid(f"{len(numbers)} coefficients do not make {rows} rows")
    return np.array(numbers).reshape(rows, -1)


def _rows_of(ctx: Context, coefficients: int, features: Extent, labels: int, intercepts: int) -> int:
    """How many rows a classifier's coefficients have: those of two classes may be one or two."""
    if isinstance(features, int):
        return coefficients // max(features, 1)
    if labels < 3 and not intercepts:
        ctx.unsupported(
            "whether it has one row of coefficients or two is known only at run time; --input-shape gives it"
        )
    return labels if labels > 2 else intercepts


@op("LinearRegressor", domain=ML_DOMAIN)
def linear_regressor(
    ctx: Context,
    x: Tensor,
    *,
    coefficients: Floats = (),
    intercepts: Floats = (),
    post_transform: str = "NONE",
    targets: int = 1,
) -> Tensor:
    scores = _linear(ctx, _to_rows(ctx, x), _matrix(ctx, coefficients, targets), intercepts)
    return ctx.cast(transform_scores(ctx, scores, post_transform), "float32")


@op("LinearClassifier", domain=ML_DOMAIN)
def linear_classifier(
    ctx: Context,
    x: Tensor,
    *,
    coefficients: Floats,
    classlabels_ints: Ints = (),
    classlabels_strings: Sequence[str] = (),
    intercepts: Floats = (),
    multi_class: int = 0,  # how the model was trained
    post_transform: str = "NONE",
) -> tuple[Tensor, Tensor]:
    """The label of the greatest score, and the scores; one row of coefficients decides between two classes."""
    labels, rows = number_labels(ctx, classlabels_ints, classlabels_strings), _to_rows(ctx, x)
    count = _rows_of(ctx, len(coefficients), rows.shape[1], len(labels), len(intercepts))
    scores = _linear(ctx, rows, _matrix(ctx, coefficients, count), intercepts)
    if scores.shape[1] == 1:
        other = "rest" if post_transform == "NONE" else "opposite"
        label, made = two_classes(ctx, scores, labels, 0.0, other, post_transform)
    else:
        label = labels_of(ctx, scores, labels)
        made = ctx.cast(transform_scores(ctx, scores, post_transform), "float32")
    return name_labels(ctx, label, classlabels_strings), made


@dataclass(frozen=True)
class _Kernel:
    """A kernel's name and its gamma, coef0 and degree, as far as it has them."""

    name: str
    params: Floats

    def of(self, ctx: Context, x: Tensor, vectors: np.ndarray) -> Tensor:
        """(rows, vectors): the kernel of each row with each support vector."""
        names = ("LINEAR", "POLY", "RBF", "SIGMOID")
        misfit = f"kernel '{self.name}' (of {', '.join(names)}) on vectors of {vectors.shape[1]} features"
        if self.name not in names:
            ctx.invalid(misfit)
        x = ctx.fit_shape(x, (x.shape[0], vectors.shape[1]), misfit)
        if self.name != "LINEAR" and len(self.params) != 3:
            ctx.invalid(f"kernel_params has {len(self.params)} elements, it must have 3")
        gamma, coef0, degree = self.params or (0.0, 0.0, 0.0)
        if self.name == "RBF":
            return ctx.elementwise(
                lambda d: math.exp(scalars.mul(d, scalars.like(d, -gamma))), _square_distances(ctx, x, vectors)
            )
        product = _linear(ctx, x, vectors, ())
        if self.name == "LINEAR":
            return product

        def body(value: ir.Value) -> ir.Value:
            inner = scalars.add(scalars.mul(value, scalars.like(value, gamma)), scalars.like(value, coef0))
            return math.tanh(inner) if self.name == "SIGMOID" else math.powf(inner, scalars.like(value, int(degree)))

        return ctx.elementwise(body, product)


def _square_distances(ctx: Context, x: Tensor, vectors: np.ndarray) -> Tensor:
    """(rows, vectors): squares of distances, as sums of differences: sums of products would cancel."""
    (rows, features), count = x.shape, len(vectors)
    table = ctx.const(vectors, x.dtype)

    def square(a: ir.Value, b: ir.Value) -> ir.Value:
        difference = scalars.sub(a, b)
        return scalars.mul(difference, difference)

    squares = ctx.elementwise(square, ctx.reshape(x, (rows, 1, features)), ctx.reshape(table, (1, count, features)))
    return ctx.reduce(scalars.add, 0, squares, [2])


@op("SVMRegressor", domain=ML_DOMAIN)
def svm_regressor(
    ctx: Context,
    x: Tensor,
    *,
    coefficients: Floats = (),
    kernel_params: Floats = (),
    kernel_type: str = "LINEAR",
    n_supports: int = 0,
    one_class: int = 0,
    post_transform: str = "NONE",
    rho: Floats = (),
    support_vectors: Floats = (),
) -> Tensor:
    """A sum of kernels and an offset; without support vectors a linear model. Of one class only the sign is left."""
    rows = _to_rows(ctx, x)
    if n_supports > 0:
        rows = _Kernel(kernel_type, kernel_params).of(ctx, rows, _matrix(ctx, support_vectors, n_supports))
    scores = _linear(ctx, rows, _matrix(ctx, coefficients, 1), rho[:1])
    if one_class:
        scores = ctx.elementwise(_to_sign, scores)
    return ctx.cast(transform_scores(ctx, scores, post_transform), "float32")


@op("SVMClassifier", domain=ML_DOMAIN)
def svm_classifier(
    ctx: Context,
    x: Tensor,
    *,
    classlabels_ints: Ints = (),
    classlabels_strings: Sequence[str] = (),
    coefficients: Floats = (),
    kernel_params: Floats = (),
    kernel_type: str = "LINEAR",
    post_transform: str = "NONE",
    prob_a: Floats = (),
    prob_b: Floats = (),
    rho: Floats = (),
    support_vectors: Floats = (),
    vectors_per_class: Ints = (),
) -> tuple[Tensor, Tensor]:
    """Each pair of classes has a score, by which one of them gets a vote; the label is that of most votes.

    Without support vectors it is a linear model for each class. What is given for two classes are the second's score
    and its opposite, or probabilities.
    """
    labels, rows = number_labels(ctx, classlabels_ints, classlabels_strings), _to_rows(ctx, x)
    classes, vectors = len(labels), sum(vectors_per_class)
    if classes < 2 or (vectors and len(vectors_per_class) != classes):
        ctx.unsupported(f"{classes} labels for {len(vectors_per_class)} classes")
    if not vectors:
        scores = _linear(ctx, rows, _matrix(ctx, coefficients, classes), rho[:1])
        label = name_labels(ctx, labels_of(ctx, scores, labels), classlabels_strings)
        return label, ctx.cast(transform_scores(ctx, scores, post_transform), "float32")
    kernels = _Kernel(kernel_type, kernel_params).of(ctx, rows, _matrix(ctx, support_vectors, vectors))
    weights, balance = _pairs(_matrix(ctx, coefficients, classes - 1), vectors_per_class)
    scores = _linear(ctx, kernels, weights, rho)
    label = name_labels(ctx, labels_of(ctx, _votes(ctx, scores, balance), labels), classlabels_strings)
    if prob_a:
        scores = _probabilities(ctx, scores, classes, prob_a, prob_b)
    elif classes == 2:
        return label, two_classes(ctx, scores, labels, 0.0, "opposite", post_transform)[1]
    return label, ctx.cast(transform_scores(ctx, scores, post_transform), "float32")


def _pairs(coefficients: np.ndarray, vectors_per_class: Ints) -> tuple[np.ndarray, np.ndarray]:
    """(pairs, vectors): the weight of each support vector for each pair of classes, which are i < j in order.

    Of i's vectors the coefficients against j are in row j - 1, of j's against i in row i. And (pairs, classes): 1 for
    i, -1 for j.
    """
    owner = np.repeat(np.arange(len(vectors_per_class)), vectors_per_class)
    pairs = list(itertools.combinations(range(len(vectors_per_class)), 2))
    weights = np.zeros((len(pairs), len(owner)))
    balance = np.zeros((len(pairs), len(vectors_per_class)))
    for row, (i, j) in enumerate(pairs):
        weights[row] = np.where(owner == i, coefficients[j - 1], np.where(owner == j, coefficients[i], 0))
        balance[row, i], balance[row, j] = 1, -1
    return weights, balance


def _votes(ctx: Context, scores: Tensor, balance: np.ndarray) -> Tensor:
    """(rows, classes): in how many pairs a class wins, less those that it loses: the order is that of votes."""
    return _linear(ctx, ctx.elementwise(_to_sign, scores), balance.T, ())


def _to_sign(value: ir.Value) -> ir.Value:
    """1 above 0, else -1."""
    positive = scalars.compare("gt", value, scalars.like(value, 0))
    return scalars.select(positive, scalars.like(value, 1), scalars.like(value, -1))


def _probabilities(ctx: Context, scores: Tensor, classes: int, a: Floats, b: Floats) -> Tensor:
    """(rows, classes): the probabilities of classes from the scores of pairs (rows, pairs).

    The first class of a pair has Platt's sigmoid 1 / (1 + exp(a s + b)), kept away from 0 and 1, and the second one the
    rest to 1. Those of more than one pair the host couples.
    """
    pairs = classes * (classes - 1) // 2
    if len(a) != pairs or len(b) != pairs:
        ctx.invalid(f"prob_a and prob_b have {len(a)} and {len(b)} elements for {pairs} pairs of classes")

    def first(value: ir.Value, factor: ir.Value, offset: ir.Value) -> ir.Value:
        share = sigmoid(scalars.neg(scalars.add(scalars.mul(value, factor), offset)))
        share = scalars.maximum(share, scalars.like(share, 1e-7))
        return scalars.minimum(share, scalars.like(share, 1 - 1e-7))

    factors, offsets = (ctx.const(np.reshape(given, (1, -1)), scores.dtype) for given in (a, b))
    share = ctx.elementwise(first, scores, factors, offsets)
    if pairs > 1:
        [made] = ctx.host("couple_pairs", [ctx.cast(share, "float32")], Element("float32", 2), classes=classes)
        return ctx.as_shape(made, (scores.shape[0], classes))
    return concat(ctx, share, ctx.elementwise(lambda p: scalars.sub(scalars.like(p, 1), p), share), axis=1)
