"""Finding ops by name is what a walk that asks each op finds."""

from __future__ import annotations

import pytest

from tilewright.dialects import ir
from tilewright.dialects.context import make_context, reused_context
from tilewright.dialects.walk import collect, find_named

TEXT = """
func.func @f(%n: index, %x: f32) -> f32 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %y = scf.for %i = %c0 to %n step %c1 iter_args(%a = %x) -> f32 {
    %z = scf.for %j = %c0 to %i step %c1 iter_args(%b = %a) -> f32 {
      %s = arith.addf %b, %x : f32
      scf.yield %s : f32
    }
    %m = arith.mulf %z, %x : f32
    scf.yield %m : f32
  }
  return %y : f32
}
"""


@pytest.mark.parametrize(
    "names", [("scf.for",), ("arith.addf", "scf.for", "arith.mulf"), ("builtin.module",), ("a.b",)]
)
@pytest.mark.parametrize("enter", [make_context, reused_context])
def test_ops_are_found_by_name_as_by_a_walk(enter, names):
    with enter(), ir.Location.unknown():
        module = ir.Module.parse(TEXT)
        for _ in range(2):  # what finds them is kept
            assert find_named(module, *names) == collect(module, lambda op: op.name in names)
        loops = [
            op for op in collect(module, lambda op: op.name == "scf.for") if len(op.regions[0].blocks[0].operations) > 2
        ]
        assert collect(module, lambda op: op in loops, "scf.for") == loops
