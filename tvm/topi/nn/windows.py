"""Windows that move over images, of convolutions and pools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ....core.errors import ExpressionError


@dataclass(frozen=True)
class Windows:
    """Windows over images of some extents, by axis: the elements of images before and after them, and how far the
    windows move, how far their elements lie apart, how far they reach, and how many there are."""

    images: Sequence[Any]
    before: Sequence[Any]
    after: Sequence[Any]
    steps: Sequence[int]
    gaps: Sequence[int]
    reach: Sequence[Any]
    counts: Sequence[Any]

    @staticmethod
    def of(
        images: Sequence[Any], kernel: Sequence[Any], stride: Any, padding: Any, dilation: Any, ceil: bool = False
    ) -> Windows:
        """The windows of a kernel. With ``ceil`` there is one more where some elements are left behind the last."""
        steps, gaps = list_numbers(stride, len(kernel), "strides"), list_numbers(dilation, len(kernel), "dilations")
        reach = [(extent - 1) * gap + 1 for extent, gap in zip(kernel, gaps, strict=True)]
        before, after = list_pads(padding, reach)
        after = [each + (step - 1) * ceil for each, step in zip(after, steps, strict=True)]
        counts = [
            (extent + b + a - own) // step + 1
            for extent, b, a, own, step in zip(images, before, after, reach, steps, strict=True)
        ]
        return Windows(images, before, after, steps, gaps, reach, counts)

    def read(self, at: Sequence[Any], loops: Sequence[Any]) -> list[Any]:
        """Where the element ``loops`` of the window ``at`` lies in the padded image."""
        return [p * step + k * gap for p, step, k, gap in zip(at, self.steps, loops, self.gaps, strict=True)]


def list_pads(padding: Any, kernel: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The elements before and after each axis of an image, by a number, one or two for each axis, "SAME" or "VALID"."""
    rank = len(kernel)
    if padding == "VALID":
        return [0] * rank, [0] * rank
    if padding == "SAME":
        return [extent // 2 for extent in kernel], [(extent - 1) - extent // 2 for extent in kernel]
    given = list(padding) if isinstance(padding, list | tuple) else [padding]
    if len(given) == 1:
        given *= rank
    if len(given) not in (rank, 2 * rank):
        raise ExpressionError(f"topi.nn: padding {padding} is for {rank} axes: one number, {rank} or {2 * rank}")
    return given[:rank], given[-rank:]


def list_numbers(given: Any, rank: int, name: str) -> list[int]:
    """A number for each axis of an image, by one for all or one for each."""
    made = list(given) if isinstance(given, list | tuple) else [given] * rank
    if len(made) != rank or any(not isinstance(each, int) or each < 1 for each in made):
        raise ExpressionError(f"topi.nn: {name} {given} is for {rank} axes: a number from 1 on, or {rank}")
    return made
