"""Graph passes on legal IR that is out of the ordinary: planned and right, or refused in one line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.core.errors import CompileError
from tilewright.core.model import Model, TensorInfo
from tilewright.core.program import Plan
from tilewright.core.target import Target
from tilewright.dialects import ir
from tilewright.dialects.context import make_context
from tilewright.passes.infra.context import PassContext
from tilewright.passes.infra.instruments import Verify
from tilewright.passes.pipeline import plan

ID = "affine_map<(i) -> (i)>"


def _plan(arguments: str, results: str, body: str, inputs: int = 1) -> Plan:
    """The plan of a ``@main`` given as text; types of the border are not looked at."""
    source = f"func.func @main({arguments}) -> ({results}) {{ {body} }}"
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(source)
        main: Any = module.body.operations[0]
        infos = tuple(TensorInfo(f"x{i}", (), "float32") for i in range(inputs))
        outputs = tuple(TensorInfo(f"y{i}", (), "float32") for i in range(len(main.type.results)))
        return plan(Model(module, infos, outputs), Target(lanes=4), PassContext(instruments=[Verify()]))


def _kinds(made: Plan) -> list[str]:
    return [call.kernel.rsplit("_", 1)[0] for call in made.main.calls]


def test_a_scalar():
    body = f"""%e = tensor.empty() : tensor<f32>
      %r = linalg.generic {{indexing_maps = [{"affine_map<() -> ()>"}, affine_map<() -> ()>], iterator_types = []}}
        ins(%x : tensor<f32>) outs(%e : tensor<f32>) {{
      ^bb0(%a: f32, %o: f32):
        %n = arith.negf %a : f32
        linalg.yield %n : f32
      }} -> tensor<f32>
      return %r : tensor<f32>"""
    assert _kinds(_plan('%x: tensor<f32> {tw.name = "x"}', "tensor<f32>", body)) == ["neg"]


def test_no_elements():
    body = f"""%e = tensor.empty() : tensor<0xf32>
      %r = linalg.generic {{indexing_maps = [{ID}, {ID}], iterator_types = ["parallel"]}}
        ins(%x : tensor<0xf32>) outs(%e : tensor<0xf32>) {{
      ^bb0(%a: f32, %o: f32):
        %n = math.exp %a : f32
        linalg.yield %n : f32
      }} -> tensor<0xf32>
      return %r : tensor<0xf32>"""
    assert len(_plan('%x: tensor<0xf32> {tw.name = "x"}', "tensor<0xf32>", body).main.calls) == 1


ARGMAX = """%c = arith.constant 0 : i64
      %low = arith.constant 0xFF800000 : f32
      %e0 = tensor.empty() : tensor<4xf32>
      %e1 = tensor.empty() : tensor<4xi64>
      %i0 = linalg.fill ins(%low : f32) outs(%e0 : tensor<4xf32>) -> tensor<4xf32>
      %i1 = linalg.fill ins(%c : i64) outs(%e1 : tensor<4xi64>) -> tensor<4xi64>
      %r:2 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>,
                                              affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]}
        ins(%x : tensor<4x8xf32>) outs(%i0, %i1 : tensor<4xf32>, tensor<4xi64>) {
      ^bb0(%a: f32, %m: f32, %n: i64):
        %j = linalg.index 1 : index
        %k = arith.index_cast %j : index to i64
        %g = arith.cmpf ogt, %a, %m : f32
        %s = arith.select %g, %a, %m : f32
        %t = arith.select %g, %k, %n : i64
        linalg.yield %s, %t : f32, i64
      } -> (tensor<4xf32>, tensor<4xi64>)"""


@pytest.mark.parametrize(
    ("results", "ret"),
    [
        ("tensor<4xf32>, tensor<4xi64>", "return %r#0, %r#1 : tensor<4xf32>, tensor<4xi64>"),
        ("tensor<4xi64>", "return %r#1 : tensor<4xi64>"),
    ],
)
def test_an_op_with_two_results(results, ret):
    made = _plan('%x: tensor<4x8xf32> {tw.name = "x"}', results, f"{ARGMAX}\n{ret}")
    assert len(made.main.calls) == 1
    assert [str(s) for s in made.main.calls[0].args][-1] == f"output{results.count(',')}"


def test_control_flow_is_one_kernel():
    body = f"""%c0 = arith.constant 0 : i8
      %b = tensor.extract %p[] : tensor<i8>
      %t = arith.cmpi ne, %b, %c0 : i8
      %r = scf.if %t -> tensor<4xf32> {{
        %e = tensor.empty() : tensor<4xf32>
        %n = linalg.generic {{indexing_maps = [{ID}, {ID}], iterator_types = ["parallel"]}}
          ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {{
        ^bb0(%a: f32, %o: f32):
          %m = arith.negf %a : f32
          linalg.yield %m : f32
        }} -> tensor<4xf32>
        scf.yield %n : tensor<4xf32>
      }} else {{
        scf.yield %x : tensor<4xf32>
      }}
      return %r : tensor<4xf32>"""
    arguments = '%p: tensor<i8> {tw.name = "p"}, %x: tensor<4xf32> {tw.name = "x"}'
    made = _plan(arguments, "tensor<4xf32>", body, inputs=2)
    assert _kinds(made) == ["if"]
    assert sorted(str(s) for s in made.main.calls[0].args) == ["input0", "input1", "output0"]


def test_a_filled_tensor_whose_axes_change_places_is_no_work():
    body = """%z = arith.constant 0.0 : f32
      %e = tensor.empty() : tensor<3x5xf32>
      %f = linalg.fill ins(%z : f32) outs(%e : tensor<3x5xf32>) -> tensor<3x5xf32>
      %te = tensor.empty() : tensor<5x3xf32>
      %t = linalg.generic {indexing_maps = [affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i, j)>],
        iterator_types = ["parallel", "parallel"]} ins(%f : tensor<3x5xf32>) outs(%te : tensor<5x3xf32>) {
      ^bb0(%v: f32, %o: f32):
        linalg.yield %v : f32 } -> tensor<5x3xf32>
      %r = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>,
        affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]}
        ins(%x, %y : tensor<5x4xf32>, tensor<4x3xf32>) outs(%t : tensor<5x3xf32>) {
      ^bb0(%a: f32, %b: f32, %o: f32):
        %p = arith.mulf %a, %b : f32
        %s = arith.addf %o, %p : f32
        linalg.yield %s : f32 } -> tensor<5x3xf32>
      return %r : tensor<5x3xf32>"""
    made = _plan(
        '%x: tensor<5x4xf32> {tw.name = "x"}, %y: tensor<4x3xf32> {tw.name = "y"}', "tensor<5x3xf32>", body, inputs=2
    )
    assert _kinds(made) == ["matmul"]


def test_an_initial_value_that_takes_part():
    """An accumulation into a computed tensor keeps its order."""
    body = """%e = tensor.empty() : tensor<4xf32>
      %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
        ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
      ^bb0(%a: f32, %o: f32):
        %m = arith.negf %a : f32
        linalg.yield %m : f32
      } -> tensor<4xf32>
      %z = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
        ins(%x : tensor<4xf32>) outs(%y : tensor<4xf32>) {
      ^bb0(%a: f32, %o: f32):
        %m = arith.addf %a, %o : f32
        linalg.yield %m : f32
      } -> tensor<4xf32>
      return %z : tensor<4xf32>"""
    assert _kinds(_plan('%x: tensor<4xf32> {tw.name = "x"}', "tensor<4xf32>", body)) == ["neg", "add"]


def test_an_open_extent_is_handed_to_the_kernel():
    body = """%c0 = arith.constant 0 : index
      %d = tensor.dim %x, %c0 : tensor<?xf32>
      %e = tensor.empty(%d) : tensor<?xf32>
      %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
        ins(%x : tensor<?xf32>) outs(%e : tensor<?xf32>) {
      ^bb0(%a: f32, %o: f32):
        %n = arith.negf %a : f32
        linalg.yield %n : f32
      } -> tensor<?xf32>
      return %r : tensor<?xf32>"""
    routine = _plan('%x: tensor<?xf32> {tw.name = "x"}', "tensor<?xf32>", body).main.routine
    assert routine is not None
    [call] = [step for step in routine.steps if step.op == "func.call"]
    assert call.types == (("f32", (None,)),)


def test_a_module_without_main_is_refused():
    with make_context(), ir.Location.unknown(), pytest.raises(CompileError, match="'@main'"):
        plan(Model(ir.Module.parse("module {}"), (), ()), Target())


def test_no_result_needs_no_call():
    assert _plan('%x: tensor<4xf32> {tw.name = "x"}', "", "return").main.calls == ()


def test_constants_alone():
    body = """%c = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
      %e = tensor.empty() : tensor<2xf32>
      %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
        ins(%c : tensor<2xf32>) outs(%e : tensor<2xf32>) {
      ^bb0(%a: f32, %o: f32):
        %n = math.exp %a : f32
        linalg.yield %n : f32
      } -> tensor<2xf32>
      return %r : tensor<2xf32>"""
    made = _plan("", "tensor<2xf32>", body, inputs=0)
    assert _kinds(made) == ["copy"] and list(made.prepare) == ["constant.prepared"]
    assert made.main.params[0].dtype == np.dtype(np.float32).name


def test_a_choice_of_constants_by_an_input_is_not_prepared():
    body = """%true = arith.constant 1 : i8
      %a = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
      %b = arith.constant dense<[3.0, 4.0]> : tensor<2xf32>
      %v = tensor.extract %p[] : tensor<i8>
      %c = arith.cmpi eq, %v, %true : i8
      %r = arith.select %c, %a, %b : tensor<2xf32>
      return %r : tensor<2xf32>"""
    made = _plan('%p: tensor<i8> {tw.name = "p"}', "tensor<2xf32>", body)
    assert not made.prepare
    assert [str(s) for s in made.main.calls[-1].args][-1] == "output0"
