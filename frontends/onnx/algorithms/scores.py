"""What the classifiers and regressors of ``ai.onnx.ml`` do with their scores: transforms, and labels of the best."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....dialects import ir, math, scalars
from ..primitives.activations import sigmoid
from ..primitives.gathers import take
from ..primitives.movement import concat
from ..primitives.reductions import arg_max, softmax
from ..state.context import Context
from ..values.tensor import Tensor


def transform_scores(ctx: Context, scores: Tensor, post_transform: str) -> Tensor:
    """Scores (rows, classes) after the transform of this name."""
    last = [scores.rank - 1]
    rules: dict[str, Callable[[], Tensor]] = {
        "NONE": lambda: scores,
        "LOGISTIC": lambda: ctx.elementwise(sigmoid, scores),
        "PROBIT": lambda: ctx.elementwise(_probit, scores),
        "SOFTMAX": lambda: softmax(ctx, scores, last),
        "SOFTMAX_ZERO": lambda: _softmax_zero(ctx, scores, last),
    }
    if post_transform not in rules:
        ctx.invalid(f"post_transform '{post_transform}' is none of {', '.join(rules)}")
    return rules[post_transform]()


def labels_of(ctx: Context, scores: Tensor, labels: Sequence[int]) -> Tensor:
    """(rows): the label of the first greatest score of each row."""
    if len(labels) != scores.shape[1]:
        ctx.invalid(f"{len(labels)} labels for {scores.shape[1]} classes")
    best = arg_max(ctx, scores, axis=1, keepdims=0)
    return take(ctx, ctx.const(list(labels), "int64"), best)


def two_classes(
    ctx: Context, score: Tensor, labels: Sequence[int], above: float, other: str, post_transform: str
) -> tuple[Tensor, Tensor]:
    """Labels and scores of two classes from one score (rows, 1), of the second class, which wins ``above`` a number.

    The first class's score is the ``opposite``, or the ``rest`` to 1 (which PROBIT needs in any case), or ``none``.
    """
    if len(labels) != 2:
        ctx.unsupported(f"{len(labels)} labels for one score; export the model with a label for each of two classes")

    def label(value: ir.Value) -> ir.Value:
        wins = scalars.compare("gt", value, scalars.like(value, above))
        return scalars.select(wins, ctx.scalar(labels[1], "int64"), ctx.scalar(labels[0], "int64"))

    def first(value: ir.Value) -> ir.Value:
        if other == "none":
            return scalars.like(value, 0)
        if other == "rest" or post_transform == "PROBIT":
            return scalars.sub(scalars.like(value, 1), value)
        return scalars.neg(value)

    both = concat(ctx, ctx.elementwise(first, score), score, axis=1)
    chosen = ctx.elementwise(label, ctx.reshape(score, score.shape[:1]), dtype="int64")
    return chosen, ctx.cast(transform_scores(ctx, both, post_transform), "float32")


def _softmax_zero(ctx: Context, scores: Tensor, axes: Sequence[int]) -> Tensor:
    """Softmax where a score of 0 keeps (nearly) no weight."""
    peak = ctx.reduce(scalars.maximum, float("-inf"), scores, axes, keepdims=True)

    def power(value: ir.Value, most: ir.Value) -> ir.Value:
        zero = scalars.compare("le", math.absf(value), scalars.like(value, 1e-7))
        small = scalars.mul(value, math.exp(scalars.neg(most)))
        return scalars.select(zero, small, math.exp(scalars.sub(value, most)))

    powers = ctx.elementwise(power, scores, peak)
    total = ctx.reduce(scalars.add, 0, powers, axes, keepdims=True)

    def share(value: ir.Value, whole: ir.Value) -> ir.Value:
        none = scalars.compare("eq", whole, scalars.like(whole, 0))
        return scalars.select(none, scalars.like(value, 0.5), scalars.div(value, whole))

    return ctx.elementwise(share, powers, total)


def _probit(value: ir.Value) -> ir.Value:
    """sqrt(2) erfinv(2 p - 1), by the approximation that ONNX's reference has.

    Winitzki, "A handy approximation for the error function and its inverse", 2008, with a = 0.147.
    """
    one, a = scalars.like(value, 1), 0.147
    x = scalars.sub(scalars.add(value, value), one)
    log = math.log(scalars.mul(scalars.sub(one, x), scalars.add(one, x)))
    half = scalars.mul(log, scalars.like(log, 0.5))
    middle = scalars.add(half, scalars.like(log, 2 / (3.141592653589793 * a)))
    under = scalars.sub(scalars.mul(middle, middle), scalars.mul(log, scalars.like(log, 1 / a)))
    root = math.sqrt(scalars.sub(math.sqrt(under), middle))
    return scalars.mul(math.copysign(root, x), scalars.like(value, 2**0.5))
