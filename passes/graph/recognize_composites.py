"""Layer and RMS normalisation, softmax, GELU and attention in elementary ops become what their operators become."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...dialects import func, ir
from ...dialects.walk import defining_op
from ..infra.base import Pass
from ..ir.edit import erase_dead, fused_location, list_programs, replace
from ..ir.structure import list_ops
from .composites.attention import simplify_attention
from .composites.gelu import match_gelu
from .composites.match import Composite, Match, Rows
from .composites.norm import match_layer_norm, match_rms_norm
from .composites.polynomial import UnreadableError
from .composites.reader import Reader
from .composites.softmax import match_log_softmax, match_softmax, match_unsafe_log_softmax, match_unsafe_softmax
from .composites.walk import Surroundings, find_between, find_calls, is_plain_float, is_read_twice

_ROOTS = ("math.sqrt", "math.rsqrt", "math.powf")
_COMPOSITES = (
    Composite("layer_norm", _ROOTS, match_layer_norm),
    Composite("rms_norm", _ROOTS, match_rms_norm),
    Composite("log_softmax", ("math.exp",), match_log_softmax),
    Composite("softmax", ("math.exp",), match_softmax),
    Composite("log_softmax", ("math.exp",), match_unsafe_log_softmax),
    Composite("softmax", ("math.exp",), match_unsafe_softmax),
    Composite("gelu", ("math.erf", "math.tanh"), match_gelu, reduces=False, reads_twice=True),
)


@dataclass(frozen=True)
class RecognizeComposites(Pass):
    """Find composites by what their elements are, in whatever ops, and write each in the one form that fuses best.

    An element is read as a sum of products through the bodies of all ops on the way (`composites/reader.py`), so the
    order of factors, where a division stands and how often a mean is computed make no difference.

    Before::

        %m = linalg.generic {add, reduction} ins(%x)                  // a mean of squares, and one of x
        %v = linalg.generic {mul, add, reduction} ins(%x)
        %d = linalg.generic {(v, m) -> 1 / sqrt(v / n - (m / n) * (m / n) + eps)} ins(%v, %m)
        %y = linalg.generic {(x, m, d, g) -> (x - m / n) * (d * g)} ins(%x, %m, %d, %g)

    After::

        %c = linalg.generic {(x, m) -> x - m} ins(%x, %mean)          // %mean as before
        %v = linalg.generic {(c) -> c * c} ins(%c)                    // and the mean of that
        %d = linalg.generic {(v) -> 1 / sqrt(v + eps)} ins(%variance)
        %y = linalg.generic {(c, d, g) -> c * d * g} ins(%c, %d, %g)

    Norms get a variance in two passes and one division for each row, softmax and its logarithm subtract the row's
    greatest element, GELU is one body. Between the two products of attention, numbers that query or key are multiplied
    by go to the scores, and batch and heads that were one dim for the products alone stay two.

    Left alone: what another op reads a part of, dims that are not the innermost ones (no kernel takes such rows whole),
    an epsilon that is no constant, float16 and bfloat16, whose every step is rounded.
    """

    name: ClassVar[str] = "recognize-composites"
    opt_level: ClassVar[int] = 1

    def apply(self, module: ir.Module) -> None:
        """Rewrite the composites of all programs."""
        for function in list_programs(module):
            _recognize(function)
            simplify_attention(function)
            erase_dead(function)


def _recognize(function: func.FuncOp) -> None:
    """Rewrite the largest composite that each root, exponential, error function or tanh belongs to."""
    names = {name for composite in _COMPOSITES for name in composite.anchors}
    anchors = {op.results[0]: op for op in list_ops(function) if find_calls(op, *names)}
    erased: set[ir.Value] = set()
    around = Surroundings()
    for value, op in anchors.items():
        found = _find(op, around) if value not in erased else None
        if found is not None:
            for made in (o.results[0] for o in found[0]):
                erased.add(made)
                around.forget(made)
            _rewrite_match(*found)


def _find(anchor: ir.Operation, around: Surroundings) -> tuple[list[ir.Operation], Match] | None:
    """The largest composite that an op is part of: its ops in order, the last of which is the root."""
    before, following = around.before(anchor), around.find_consumers(anchor)
    reduces = any(map(around.reduces, (*map(defining_op, before), *following)))  # as most activations are far from
    kinds = [c for c in _COMPOSITES if c.reduces <= reduces and find_calls(anchor, *c.anchors)]
    if not kinds:
        return None
    # What a function is taken of is made of one tensor alone.
    sources = [x for x in before if any(around.others(v, x) == set() for v in anchor.operands)]
    rows = [Rows(Reader(x, around), x) for x in sources if is_plain_float(x)]
    twice = {r.x for r in rows if is_read_twice(r.x)}
    if not twice and all(c.reads_twice for c in kinds):
        return None
    for root in around.last_first(following):
        fitting = [r for r in rows if r.x.type == root.results[0].type and around.is_composite_of(root, r.x)]
        for composite, tensor in ((c, r) for c in kinds for r in fitting if r.x in twice or not c.reads_twice):
            match = _match(composite, root, tensor)
            ops = find_between(root, match.leaves) if match is not None else None
            if match is not None and ops is not None:
                return ops, match
    return None


def _match(composite: Composite, root: ir.Operation, rows: Rows) -> Match | None:
    try:
        return composite.match(rows.reader.element(root.results[0]), rows)
    except UnreadableError:
        return None


def _rewrite_match(ops: list[ir.Operation], match: Match) -> None:
    """Build the canonical form in the place of the root, and erase what was read by it alone."""
    *others, root = ops
    with ir.InsertionPoint(root), fused_location(ops):
        replace(root, [match.emit()])
    for op in reversed(others):
        op.erase()
