"""Which extents are proved to be one size, and that nothing else is taken for a proof."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tilewright.core.errors import CompileError
from tilewright.dialects import func, ir
from tilewright.dialects.context import make_context
from tilewright.passes.analysis.size_classes import SizeClasses
from tilewright.passes.ir.dynamic_extent import DynamicExtent
from tilewright.passes.ir.kernel import list_functions
from tilewright.passes.ir.structure import list_ops, shape_of
from tilewright.passes.verify.sizes import state_sizes, stated_sizes, verify_sizes

ADD = """
#id = affine_map<(i, j) -> (i, j)>
#turned = affine_map<(i, j) -> (j, i)>
#row = affine_map<(i, j) -> (i)>
func.func @add(%x: tensor<?x?xf32>, %y: tensor<?x?xf32>, %r: tensor<?xf32>, %z: tensor<?x?xf32>, %n: index, %m: index)
    -> tensor<?x?xf32> attributes {tw.result_sizes = 2 : i64} {
  %e = tensor.empty(%n, %m) : tensor<?x?xf32>
  %s = linalg.generic {indexing_maps = [#id, #turned, #row, #id], iterator_types = ["parallel", "parallel"]}
    ins(%x, %y, %r : tensor<?x?xf32>, tensor<?x?xf32>, tensor<?xf32>) outs(%e : tensor<?x?xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32, %o: f32):
    %v = arith.addf %a, %b : f32
    %w = arith.addf %v, %c : f32
    linalg.yield %w : f32
  } -> tensor<?x?xf32>
  return %s : tensor<?x?xf32>
}
"""

VIEWS = """
func.func @views(%x: tensor<?x4xf32>, %y: tensor<?xf32>, %n: index) -> index {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %size = tensor.dim %x, %c0 : tensor<?x4xf32>
  %twice = arith.muli %size, %c2 : index
  %again = arith.muli %c2, %size : index
  %same = arith.muli %size, %c2 : index
  %a = tensor.empty(%twice) : tensor<?xf32>
  %b = tensor.empty(%same) : tensor<?xf32>
  %c = tensor.empty(%size, %n) : tensor<?x?xf32>
  %d = tensor.extract_slice %y[0] [%size] [1] : tensor<?xf32> to tensor<?xf32>
  %e = tensor.pad %d low[1] high[-1] { ^bb0(%i: index): tensor.yield %z : f32 } : tensor<?xf32> to tensor<?xf32>
  %f = tensor.pad %d low[0] high[0] { ^bb0(%i: index): tensor.yield %z : f32 } : tensor<?xf32> to tensor<?xf32>
  %g = tensor.expand_shape %d [[0, 1]] output_shape [%size, 1] : tensor<?xf32> into tensor<?x1xf32>
  %h = tensor.concat dim(1) %x, %x : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x8xf32>
  %k = tensor.cast %y : tensor<?xf32> to tensor<?xf32>
  return %size : index
}
""".replace("  %size =", "  %z = arith.constant 0.0 : f32\n  %size =", 1)


@pytest.fixture(autouse=True)
def context() -> Iterator[None]:
    """A context for the texts."""
    with make_context(), ir.Location.unknown():
        yield


def parsed(text: str) -> tuple[ir.Module, func.FuncOp]:
    """A module of one function, and the function, which lives as long as that."""
    module = ir.Module.parse(text)
    return module, list_functions(module)[0]


def test_a_loop_proves_what_it_walks_equal():
    _module, function = parsed(ADD)
    known = SizeClasses(function)
    x, y, r, z, _n, _m = function.arguments
    assert known.of(x) == known.of(y)[::-1]
    assert known.of(x)[0] == known.of(r)[0]
    assert known.of(x)[0] != known.of(x)[1], "rows and columns are not proved to be as many"
    assert known.of(x)[0] != known.of(z)[0]
    assert known.loops(list_ops(function)[1]) == known.of(x)


def test_unknown_extents_of_types_cannot_be_compared():
    _module, function = parsed(ADD)
    x, y, *_ = function.arguments
    assert shape_of(x)[0] == shape_of(x)[0], "an axis is as long as itself"
    with pytest.raises(TypeError, match="SizeClasses"):
        _ = shape_of(x) == shape_of(y)
    with pytest.raises(TypeError, match="SizeClasses"):
        _ = shape_of(x)[0] == SizeClasses(function).of(x)[0]
    with pytest.raises(TypeError, match="less than 0"):
        _ = ir.ShapedType.get_dynamic_size() in shape_of(x)
    assert shape_of(x) != [4, 4] and shape_of(x)[0] < 0 and 1 not in shape_of(x)


def test_extents_of_two_functions_cannot_be_compared():
    one, two = DynamicExtent(1, "a"), DynamicExtent(1, "b")
    assert one == DynamicExtent(1, "a") and one != DynamicExtent(2, "a")
    with pytest.raises(TypeError):
        _ = one == two


def test_what_ops_leave_as_it_is():
    _module, function = parsed(VIEWS)
    known = SizeClasses(function)
    made = [op.results[0] for op in list_ops(function)[:-1]]
    a, b, c, d, e, f, g, h, k = (value for value in made if isinstance(value.type, ir.RankedTensorType))
    x, y, _n = function.arguments
    assert known.of(a) == known.of(b), "one op on equal sizes makes equal ones"
    assert known.of(a)[0] != known.of(c)[0]
    assert known.of(c)[0] == known.of(x)[0] == known.of(d)[0] == known.of(f)[0] == known.of(g)[0] == known.of(h)[0]
    assert known.of(d)[0] != known.of(y)[0], "a slice may be shorter"
    assert known.of(e)[0] != known.of(d)[0], "a padding that moves a row is none that leaves it as it is"
    assert known.of(k) == known.of(y)


def test_a_kernel_states_what_its_ops_rely_on():
    _module, function = parsed(ADD)
    state_sizes(function)
    rows, columns = stated_sizes(function)
    assert rows == ((0, 0), (1, 1), (2, 0), (4, -1), (6, 0))
    assert columns == ((0, 1), (1, 0), (5, -1), (6, 1))
    verify_sizes(function)


def test_a_kernel_that_relies_on_more_than_it_states_is_refused():
    _module, function = parsed(ADD.replace("#turned,", "#id,"))
    state_sizes(function)
    stated = function.attributes["tw.same_sizes"]
    _other, turned = parsed(ADD)
    turned.attributes["tw.same_sizes"] = stated
    with pytest.raises(CompileError, match="kernel 'add' takes axis 0 of argument 0, axis 1 of argument 1"):
        verify_sizes(turned)
