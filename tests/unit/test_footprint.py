"""The work and the memory of ``@main`` as it was imported."""

from __future__ import annotations

import pytest

from tilewright.dialects import ir
from tilewright.dialects.context import make_context
from tilewright.passes.analysis.footprint import Footprint, estimate_footprint
from tilewright.passes.ir.kernel import list_functions

MAP = """linalg.generic {{indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}}
    ins({0} : tensor<{2}xf32>) outs({1} : tensor<{2}xf32>) {{
  ^bb0(%p: f32, %o: f32):
    %z = math.exp %p : f32
    linalg.yield %z : f32
  }} -> tensor<{2}xf32>"""


def of(body: str, size: int | str = 16) -> Footprint | None:
    """The footprint of a function of an input ``%x`` and a weight ``%w`` of ``size`` floats."""
    text = f"""func.func @main(%x: tensor<{size}xf32> {{tw.name = "x"}}, %w: tensor<{size}xf32> {{tw.param = "w"}},
      %c: i1, %n: index) -> tensor<{size}xf32> {{
      %k0 = arith.constant 0 : index
      %k1 = arith.constant 1 : index
      %k5 = arith.constant 5 : index
      {body} }}"""
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        return estimate_footprint(list_functions(module)[0])


def step(result: str, operand: str, node: str, size: int | str = 16) -> str:
    made = f"%e_{result} = tensor.empty() : tensor<{size}xf32>\n"
    return f'{made} %{result} = {MAP.format(operand, f"%e_{result}", size)} loc("{node}")\n'


def test_elementwise_ops_of_several_nodes_need_one_place_beside_the_input():
    body = step("a", "%x", "one") + step("b", "%a", "two") + step("y", "%b", "three")
    assert of(body + "return %y : tensor<16xf32>") == Footprint(3 * 16, 4 * 32)


def test_what_is_needed_later_keeps_its_place():
    add = """%e = tensor.empty() : tensor<16xf32>
      %y = linalg.add ins(%a, %b : tensor<16xf32>, tensor<16xf32>) outs(%e : tensor<16xf32>) -> tensor<16xf32>"""
    body = step("a", "%x", "one") + step("b", "%a", "two") + add
    assert of(body + ' loc("three")\nreturn %y : tensor<16xf32>') == Footprint(3 * 16, 4 * 48)


def test_what_only_its_own_node_reads_is_fused():
    body = step("a", "%x", "one") + step("b", "%x", "two")
    assert of(body + step("y", "%a", "one") + "return %y : tensor<16xf32>") == Footprint(3 * 16, 4 * 32)


def test_what_depends_on_weights_alone_counts_nothing():
    assert of(step("a", "%w", "one") + step("y", "%x", "two") + "return %y : tensor<16xf32>") == Footprint(16, 4 * 32)


LOOP = "%r = scf.for %i = %k0 to {} step %k1 iter_args(%s = %x) -> tensor<16xf32> {{\n{}\nscf.yield %y : tensor<16xf32>\n}}\n"


@pytest.mark.parametrize("bound, steps, open_loops", [("%k5", 5, 0), ("%n", 1, 1)])
def test_loops_count_as_often_as_they_run(bound, steps, open_loops):
    found = of(LOOP.format(bound, step("y", "%s", "in")) + "return %r : tensor<16xf32>")
    assert found is not None and (found.flops, found.open_loops) == (16 * steps, open_loops)


def test_of_two_branches_the_longer_one_counts():
    first = step("a", "%x", "a") + step("b", "%a", "b") + "scf.yield %b : tensor<16xf32>"
    second = step("d", "%x", "d") + "scf.yield %d : tensor<16xf32>"
    found = of(f"%r = scf.if %c -> tensor<16xf32> {{ {first} }} else {{ {second} }}\nreturn %r : tensor<16xf32>")
    assert found is not None and found.flops == 2 * 16


def test_open_shapes_have_none():
    assert of("%y = tensor.cast %x : tensor<?xf32> to tensor<?xf32>\nreturn %y : tensor<?xf32>", "?") is None
