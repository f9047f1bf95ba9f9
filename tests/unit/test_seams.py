"""Which neighbouring axes are one, by the ops that walk them."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright.dialects import ir
from tilewright.dialects.context import make_context
from tilewright.passes.analysis.seams import AxisWalk, Seams
from tilewright.passes.ir.kernel import list_functions
from tilewright.passes.ir.structure import list_ops

WHOLE = "(a, b, c) -> (a, b, c)"
BODY = """
func.func @k(%x: {type}, %y: {other}, %n: index, %m: index) -> tensor<?x?x8xf32> {{
  %e = tensor.empty(%n, %m) : tensor<?x?x8xf32>
  %r = linalg.generic {{indexing_maps = [affine_map<{map}>, affine_map<{second}>, affine_map<(a, b, c) -> (a, b, c)>],
                       iterator_types = ["parallel", "parallel", "parallel"]}}
    ins(%x, %y : {type}, {other}) outs(%e : tensor<?x?x8xf32>) {{
  ^bb0(%p: f32, %q: f32, %o: f32):
    {body}
    %s = arith.addf %p, %q : f32
    linalg.yield %s : f32
  }} -> tensor<?x?x8xf32>
  return %r : tensor<?x?x8xf32>
}}
"""
THREE, TWO, ONE = "tensor<?x?x8xf32>", "tensor<?x?xf32>", "tensor<?xf32>"


@pytest.mark.parametrize(
    "first, second, body, runs",
    [
        ((THREE, WHOLE), (THREE, WHOLE), "", [(0, 3), (0, 2), (1, 2)]),
        ((THREE, WHOLE), (TWO, "(a, b, c) -> (a, b)"), "", [(0, 2)]),  # a value for each row has its axes as one, too
        ((THREE, WHOLE), ("tensor<8xf32>", "(a, b, c) -> (c)"), "", [(0, 2)]),
        ((THREE, WHOLE), (ONE, "(a, b, c) -> (a)"), "", [(1, 2)]),
        ((THREE, WHOLE), ("tensor<?x?x8xf32>", "(a, b, c) -> (b, a, c)"), "", []),
        ((THREE, WHOLE), (ONE, "(a, b, c) -> (a + b)"), "", []),
        ((THREE, WHOLE), (THREE, WHOLE), "%i = linalg.index 1 : index", []),  # the body knows an axis apart
    ],
)
def test_axes_are_one_that_all_tensors_have_together(
    first: tuple[str, str], second: tuple[str, str], body: str, runs: list[tuple[int, int]]
) -> None:
    text = BODY.format(type=first[0], map=first[1], other=second[0], second=second[1], body=body)
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        [function] = list_functions(module)
        ops = list_ops(function)
        assert [*Seams(map(AxisWalk.of, ops)).find_runs(ops[-1].operands[0])] == runs


def test_what_is_apart_in_one_tensor_is_apart_in_all_tied_to_it() -> None:
    tensors: Any = "xyz"  # they are only told apart
    x, y, z = tensors
    kinds = ["parallel"] * 2
    walks = [AxisWalk(kinds, [(x, [0, 1]), (y, [0, 1])]), AxisWalk(kinds, [(y, [0, 1]), (z, [1, 0])])]
    assert Seams(walks[:1]).joins(x, 0)
    assert not Seams(walks).joins(x, 0)
