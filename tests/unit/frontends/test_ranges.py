"""Ranges and names that users give open dimensions: what is shared, what a run is held to, what is refused."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import onnx
import pytest

import tilewright as tw
from tilewright.frontends import import_model
from tilewright.tools import check
from tilewright.tools import compile as compile_tool

Shapes = dict[str, Sequence[int | str]]
SUM = "g (float[batch, 3] x, float[batch, 3] y) => (float z) { z = Add(x, y) }"
APART = "g (float[A, 3] x, float[B, 3] y) => (float z) { z = Add(x, y) }"


def model(text: str) -> onnx.ModelProto:
    """A model whose outputs' shapes are left open."""
    made = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 18]> {text}')
    for output in made.graph.output:
        output.type.tensor_type.ClearField("shape")
    return made


def compiled(text: str, shapes: Shapes) -> tw.Module:
    return tw.compile(model(text), input_shapes=shapes, workers=0, num_threads=1, cache=False)


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def shapes_of(text: str, given: Shapes) -> list[list[str]]:
    return [list(map(str, info.shape)) for info in import_model(model(text), given).inputs]


def test_a_run_is_held_to_the_range(tmp_path):
    module = compiled(SUM, {"x": ["1..8", 3]})
    module.export_library(tmp_path / "sum.so")
    for program in (module, tw.load_module(next(tmp_path.glob("sum.*")))):
        for n in (1, 8):
            np.testing.assert_array_equal(program(ones(n, 3), ones(n, 3))[0], 2 * ones(n, 3))
        for n in (0, 9):
            with pytest.raises(tw.InputError) as error:
                program(ones(n, 3), ones(n, 3))
            assert str(error.value) == f"input 'x' has {n} in dimension 0 (batch), which must be 1..8"
            with pytest.raises(tw.InputError, match="which must be"):
                program["main_alloc"](ones(n, 3), ones(n, 3))


def test_a_dimension_without_a_name_is_called_by_its_number():
    made = model("g (float[2, H] x) => (float z) { z = Relu(x) }")
    made.graph.input[0].type.tensor_type.shape.dim[1].ClearField("dim_param")
    module = tw.compile(made, input_shapes={"x": [2, "2..4"]}, workers=0, num_threads=1, cache=False)
    with pytest.raises(tw.InputError, match=r"^input 'x' has 5 in dimension 1, which must be 2\.\.4$"):
        module(ones(2, 5))


@pytest.mark.parametrize(
    ("text", "given", "found"),
    [
        (SUM, {"x": ["1..8", 3]}, [["batch", "3"], ["batch", "3"]]),
        (SUM, {"x": [4, 3]}, [["4", "3"], ["4", "3"]]),
        (SUM, {"x": [4, 3], "y": ["?", 3]}, [["4", "3"], ["4", "3"]]),
        (SUM, {"x": ["rows", "?"]}, [["rows", "3"], ["rows", "3"]]),
        (APART, {"x": ["n", 3], "y": ["n", 3]}, [["n", "3"], ["n", "3"]]),
        (APART, {"x": ["n=2..5", 3], "y": ["n=4..9", 3]}, [["n", "3"], ["n", "3"]]),
        (APART, {"x": ["n=2..5", 3], "y": ["n=5..9", 3]}, [["5", "3"], ["5", "3"]]),
        (APART, {"x": ["n", "n"]}, [["3", "3"], ["B", "3"]]),
        (APART, {"x": ["B", 3]}, [["B", "3"], ["B", "3"]]),
        (APART, {"x": ["?", 3]}, [["A", "3"], ["B", "3"]]),
    ],
)
def test_what_inputs_share(text, given, found):
    assert shapes_of(text, given) == found


def test_a_name_that_inputs_share_makes_their_sizes_equal():
    apart, shared = (str(import_model(model(APART), given).module) for given in ({}, {"x": ["n", 3], "y": ["n", 3]}))
    assert "minsi" in apart and "minsi" not in shared, "an extent that may be 1 is repeated"
    with pytest.raises(tw.InputError, match=r"input 'y' must have shape \(n, 3\) with n=4, got \(1, 3\)"):
        compiled(APART, {"x": ["n", 3], "y": ["n", 3]})(ones(4, 3), ones(1, 3))


def test_ranges_decide_what_may_be_repeated():
    assert "minsi" not in str(import_model(model(APART), {"x": ["2..8", 3], "y": [1, 3]}).module)
    sizes = import_model(model(APART), {"x": ["2..8", 3], "y": ["?", 3]}).outputs[0].shape
    assert [str(n) for n in sizes] == ["A", "3"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"x": ["1..8", 4]}, "input 'x' is A,3 in the file, which does not allow 1..8,4"),
        ({"x": ["1..8", "4..8"]}, "input 'x' is A,3 in the file, which does not allow 1..8,4..8"),
        ({"x": ["1..8"]}, "input 'x' has 2 dimensions (A,3), the given shape 1 (1..8)"),
        ({"x": ["8..1", 3]}, "the shape given for input 'x': '8..1' is a range without a size"),
        ({"x": ["a b", 3]}, "the shape given for input 'x': 'a b' is not a dimension"),
        ({"x": ["n=1..4", 3], "y": ["n=5..", 3]}, "'n' is given as 1..4 and as 5..: no size is both"),
        ({"x": ["n=1..2", "n"]}, "'n' is given as 1..2 and as 3: no size is both"),
        ({"w": ["1..4"]}, "has no input 'w'; its inputs are x, y"),
    ],
)
def test_what_does_not_agree_is_refused(given, message):
    with pytest.raises(tw.ModelError) as error:
        import_model(model(APART), given)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_a_name_in_the_file_is_no_expression():
    """A symbol "2*n" and twice the symbol "n" are two sizes."""
    made = model("g (float[n] x, float[m] y) => (float z) { t = Concat<axis = 0>(x, x) z = Add(t, y) }")
    made.graph.input[1].type.tensor_type.shape.dim[0].dim_param = "2*n"
    module = tw.compile(made, workers=0, num_threads=1, cache=False)
    np.testing.assert_array_equal(module(ones(3), ones(1))[0], 2 * ones(6))


def test_the_commands_show_ranges(tmp_path, capsys):
    path = str(tmp_path / "net.onnx")
    onnx.save(model("g (float[batch, 3, H] x) => (float z) { z = Relu(x) }"), path)
    given = ["--input-shape", "x:batch=1..8,?,2.."]
    assert check.main([path, *given]) == 0
    assert "inputs      x float32[batch=1..8,3,H=2..]" in capsys.readouterr().out
    assert compile_tool.main([path, *given]) == 0
    assert "net.so: x float32[batch=1..8,3,H=2..] -> z float32[batch=1..8,3,H=2..]" in capsys.readouterr().out
    assert compile_tool.main([path, *given, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ranges"] == {"batch": [1, 8], "H": [2, None]}


def test_shapes_that_are_given_as_ranges_are_checked_as_they_will_be_compiled():
    made = model("g (float[batch, 3] x) => (float z) { z = Relu(x) }")
    report = tw.check_model(made, {"x": ["1..8", 3]})
    assert report.supported and report.work is None and report.give == ()
    assert report.inputs[0].shape == ("batch=1..8", 3)
