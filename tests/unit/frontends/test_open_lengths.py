"""Vectors whose length only the run knows: one program for all lengths, also where they decide the result's rank."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from open_case import check_open, check_refused
from samples import leaving
from text_model import check, model, values

import tilewright as tw
from tilewright.frontends import import_model

Arrays = list[np.ndarray | None]


def f(*shape: int) -> np.ndarray:
    return values(*shape)


def i(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


X = f(2, 3, 4)
# Operator, inputs that the vector follows, vectors, vectors that do not fit with what is said of them, attributes.
VECTORS: dict[str, tuple[str, Arrays, Sequence[Sequence[int]], list[tuple[Sequence[int], str]], dict[str, Any]]] = {
    "Reshape": (
        "Reshape",
        [X],
        [(24,), (-1, 4), (0, 0, 2, 2), (1, 1, 1, 1, 2, 3, 4)],
        [((), "has a tensor of shape"), ((5,), "another size"), ((5, 5), "cannot make shape"), ((1,) * 8, "'shape' .* must have 0 to 7")],
        {},
    ),
    "Reshape of one element": ("Reshape", [f(1, 1)], [(), (1,), (1, -1, 1)], [((2, 1), "cannot make shape")], {}),
    "Reshape of nothing": ("Reshape", [f(0, 3)], [(0, 3, 1), (0,), (3, 0)], [((1,), "another size"), ((1, 1), "cannot make shape"), ((0, -1), "does not say which extent -1 is")], {"allowzero": 1}),
    "Expand": (
        "Expand",
        [f(2, 1)],
        [(), (1,), (3,), (2, 3), (1, 1), (4, 2, 3), (5, 1, 2, 2, 1), (0, 2, 1)],
        [((3, 3), "does not broadcast"), ((1,) * 8, "'shape' .* must have 0 to 7")],
        {},
    ),
    "Expand of a scalar": ("Expand", [f()], [(), (3,), (2, 3)], [((-1,), "sizes do not fit")], {}),
    "ConstantOfShape": ("ConstantOfShape", [], [(), (3,), (2, 0), (2, 3, 4)], [((-1,), "sizes do not fit")], {}),
    "Squeeze": (
        "Squeeze",
        [f(2, 1, 3, 1)],
        [(1,), (1, 3), (-1, 1), (-3,)],
        [((0,), "not all of extent 1"), ((4,), "out of range"), ((1, 1), "twice"), ((1,) * 5, "more than 4 elements")],
        {},
    ),
    "Unsqueeze": (
        "Unsqueeze",
        [f(2, 3)],
        [(), (1,), (1, 3), (-1, 0), (0, 1, 2), tuple(range(7))],
        [((1, 1), "twice"), ((3,), "out of range"), (tuple(range(8)), "'axes' .* must have 0 to 7")],
        {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", VECTORS)
def test_the_length_of_a_vector_decides_the_rank(name: str):
    op, before, vectors, misfits, attributes = VECTORS[name]
    module = check_open(op, *([*before, i(*numbers)] for numbers in vectors), **attributes)
    assert not module.outputs[0].ranked
    for numbers, why in misfits:
        check_refused(module, op, [*before, i(*numbers)], why)


def test_shapes_that_the_inputs_cannot_have_are_refused_by_the_run():
    fixed = [(0, axis) for axis in range(3)]
    module = check_open("Reshape", [X, i(24)], [X, i(4, 6)], fixed=fixed)
    assert not module.report.notes  # that some lengths do not fit is nothing to tell
    check_refused(module, "Reshape", [X, i()], "'shape' of 0 elements cannot be run")


def test_axes_that_cannot_go_are_none_of_the_cases():
    x = f(41, 6, 1, 2)
    module = check_open("Squeeze", [x, i(2)], [x, i(-2)], fixed=[(0, 0), (0, 1), (0, 3)])
    assert module(x, i())[0].shape == x.shape
    check_refused(module, "Squeeze", [x, i(2, 3)], "not all of extent 1")


def test_a_shape_of_an_input_with_some_extents_given():
    module = check_open("Reshape", [f(2, 3), i(6)], [f(2, 2), i(-1, 4)], fixed=[(0, 0)])
    check_refused(module, "Reshape", [f(2, 3), i()], "'shape' of 0 elements cannot be run")


AXES = [(1,), (1, -1), (-1, 0), (0, 1, 2), ()]
REDUCTIONS = ("ReduceSum", "ReduceL2", "ReduceLogSumExp")


@pytest.mark.parametrize(
    ("op", "keepdims"),
    leaving(itertools.product(REDUCTIONS, [0, 1]), [("ReduceSum", 1), ("ReduceL2", 0), ("ReduceLogSumExp", 0)]),
)
def test_reductions_along_any_number_of_axes(op: str, keepdims: int):
    noop = op != "ReduceSum"  # without axes: all of them, or none
    runs = [[x, i(*axes)] for axes in AXES for x in (X, f(1, 5, 2))]
    module = check_open(op, *runs, keepdims=keepdims, noop_with_empty_axes=int(noop))
    assert module.outputs[0].ranked == bool(keepdims)
    for axes, why in (((3,), "out of range"), ((1, 1), "twice"), ((0, 1, 2, 0), "more than 3 elements")):
        check_refused(module, op, [X, i(*axes)], why)


def test_sums_of_no_elements():
    x = f(1, 2, 0)
    check_open("ReduceSum", *([x, i(*axes)] for axes in [(0,), (0, 1), (2,), ()]), fixed=[(0, 0), (0, 2)])


def test_sums_of_integers_keep_their_dtype():
    x = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    check_open("ReduceSum", *([x, i(*axes)] for axes in AXES), keepdims=0, results=("int32",))


def test_nan_and_infinities_pass_axes_that_are_not_reduced():
    x = np.array([[np.nan, 1, -np.inf], [np.inf, -0.0, 3]], np.float32)
    check_open("ReduceMax", *([x, i(*axes)] for axes in [(0,), (-1,), ()]), keepdims=0, noop_with_empty_axes=1)


SLICES = [
    ((), (), (), ()),
    ((1,), (2,), (2,), (1,)),
    ((0, -1), (3, -9), (0, -1), (1, -2)),
    ((0, 0, 1), (9, 2, 9), (2, 1, 0), (3, 1, 1)),
]
BAD_SLICES = [
    (((0, 0), (1, 1), (1, 1), (1, 1)), "an axis appears twice"),
    (((0,), (1,), (3,), (1,)), "an axis is out of range"),
    (((0, 0), (1, 1), (1, 2), (1, 0)), "a step is 0"),
    (((0, 0), (1,), (1, 2), (1, 1)), "inputs starts, ends, axes, steps have"),
    (((0,) * 4, (1,) * 4, (0, 1, 2, 0), (1,) * 4), "more than 3 elements"),
]


def test_slices_along_any_number_of_axes():
    module = check_open("Slice", *([X, *(i(*numbers) for numbers in bounds)] for bounds in SLICES))
    for bounds, why in BAD_SLICES:
        check_refused(module, "Slice", [X, *(i(*numbers) for numbers in bounds)], why)
    assert module.outputs[0].ranked


def test_slices_of_the_first_axes():
    bounds = [((), ()), ((1,), (2,)), ((0, -1), (3, 9)), ((0, 0, 1), (9, 2, 9))]
    module = check_open("Slice", *([X, i(*starts), i(*ends)] for starts, ends in bounds))
    check_refused(module, "Slice", [X, i(0, 0, 0, 0), i(1, 1, 1, 1)], "more than 3 elements")


def test_axes_that_are_known_say_how_many_bounds_there_are():
    module = check_open("Slice", [X, i(0, 1), i(1, 3), i(2, 0)], [f(2, 1, 3), i(1, 0), i(9, 9), i(2, 0)], known=[3])
    check_refused(module, "Slice", [X, i(0), i(1)], "inputs starts, ends, axes have")


@pytest.mark.parametrize("mode", ["constant", "edge"])
def test_pads_of_any_number_of_axes(mode: str):
    pads = [((), ()), ((1, 2), (1,)), ((1, 2), (-2,)), ((1, 2, 3, 0), (1, 0)), ((1, -1, 3, 0), (0, 1))]
    fill = np.array(7, np.float32)
    module = check_open("Pad", *([f(2, 3), i(*amounts), fill, i(*axes)] for amounts, axes in pads), mode=mode)
    for amounts, axes, why in (
        ((1, 2, 3), (0,), "must be twice as many"),
        ((1, 2, 3, 4), (0, 0), "an axis appears twice"),
        ((1, 2), (2,), "an axis is out of range"),
        ((1,) * 6, (0, 1, 0), "more than 2 elements"),
    ):
        check_refused(module, "Pad", [f(2, 3), i(*amounts), fill, i(*axes)], why)


def test_pads_that_are_known_say_how_many_axes_there_are():
    fill = np.array(0, np.float32)
    module = check_open("Pad", [f(2, 3), i(1, 2), fill, i(1)], [f(4, 1), i(1, 2), fill, i(-2)], known=[1])
    check_refused(module, "Pad", [f(2, 3), fill, i(0, 1)], "must be twice as many")


def runs_of(*shapes: Sequence[int], x: np.ndarray = X, **others: np.ndarray) -> list[dict[str, np.ndarray]]:
    return [{"x": x, "s": i(*shape), **others} for shape in shapes]


def opened(case: Any, *names: str) -> Any:
    """The model with the extents of some inputs open."""
    for value in case.graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if value.name in names:
                dim.dim_param = f"{value.name}_{axis}"
    return case


READERS = {
    "a matrix product": ("float[] z", "y = Reshape(x, s) z = MatMul(y, w)"),
    "all of it": ("float z", "y = Reshape(x, s) e = Exp(y) z = ReduceMax<keepdims = 0>(e)"),
    "its shape": ("float[] z", "y = Reshape(x, s) e = Neg(y) n = Shape(e) t = Reshape(x, n) z = Add(e, t)"),
    "a shape made of its": ("float[] z", "y = Reshape(x, s) n = Shape(y) m = Concat<axis = 0>(one, n) z = Reshape(x, m)"),
    "others of the same shape": (
        "float[] z",
        "y = Reshape(x, s) u = ConstantOfShape(s) v = Neg(x) r = Reshape(v, s) z = Sum(y, u, r)",
    ),
    "others of shapes that it is part of": (
        "float[] z",
        "y = Reshape(x, s) n = Concat<axis = 0>(one, s) m = Abs(x) u = Reshape(m, n) z = Add(u, y)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("reader", READERS)
def test_what_reads_a_result_of_any_rank(reader: str):
    outputs, nodes = READERS[reader]
    runs = runs_of((6, 4), (2, 3, 4))
    check(opened(model(outputs, nodes, runs[0], {"w": f(4, 5), "one": i(1)}), "s"), *runs, input_shapes={"s": ["2..3"]})


MAKERS = {
    "Concat": "t = Concat<axis = 0>(s, s) z = ConstantOfShape(t)",
    "Slice": "t = Slice(s, zero, k) z = ConstantOfShape(t)",
    "Gather": "p = NonZero(s) q = Reshape(p, flat) t = Gather(s, q) z = ConstantOfShape(t)",
}


@pytest.mark.parametrize("maker", MAKERS)
def test_shapes_that_nodes_make(maker: str):
    runs = [{"s": i(*shape), "k": i(2)} for shape in ((2,), (2, 3), (2, 0, 3))]
    case = model("float[] z", MAKERS[maker], runs[0], {"zero": i(0), "flat": i(-1)})
    check(opened(case, "s"), *runs, input_shapes={"s": ["1..3"]})


def test_the_shape_of_what_a_branch_makes():
    branch = """t = If <then_branch = yes () => (p) { p = Identity(s) }, else_branch = no () => (q) { q = Neg(minus) }> (c)"""
    runs = [{"x": X, "s": i(2, 3, 4), "c": np.array(c)} for c in (True, False)]
    check(model("float[] z", f"{branch} z = Reshape(x, t)", runs[0], {"minus": i(-4, -6)}), *runs)


def test_in_a_loop():
    nodes = """
        v, all = Loop <body = cell (int64 i, bool on, a) => (bool go, b, e) {
            go = Identity(on)
            y = Reshape(a, s)
            n = Sin(y)
            b = Reshape(n, whole)
            e = ReduceSum<keepdims = 0>(n)
        }> (m, , x)
    """
    runs = runs_of((24,), (4, 6), (2, 2, 3, 2), m=np.array(3))
    case = opened(model("float[2,3,4] v, float[k] all", nodes, runs[0], {"whole": i(2, 3, 4)}), "s")
    check(case, *runs, input_shapes={"s": ["1..4"]})


def test_a_loop_on_a_value_whose_rank_it_decides():
    nodes = """
        v = Loop <body = cell (int64 i, bool on, a) => (bool go, b) {
            go = Identity(on)
            r = Reshape(a, flat)
            n = Neg(r)
            b = Reshape(n, s)
        }> (m, , x)
    """
    runs = [*runs_of((24,), (4, 6), m=np.array(3)), *runs_of((2, 2, 6), m=np.array(0))]
    check(opened(model("float[] v", nodes, runs[0], {"flat": i(-1)}), "s"), *runs, input_shapes={"s": ["1..3"]})


def test_a_range_of_lengths_is_all_that_is_compiled():
    runs = runs_of((24,), (4, 6))
    case = opened(model("float[] z", "y = Reshape(x, s) z = Exp(y)", runs[0]), "s")
    assert str(import_model(case, input_shapes={"s": ["1..2"]}).module).count("math.exp") == 2
    module = tw.compile(case, input_shapes={"s": ["1..2"]}, workers=0, cache=False)
    for inputs in runs:
        np.testing.assert_allclose(module(*inputs.values())[0], np.exp(X).reshape(inputs["s"]), 1e-6)
    with pytest.raises(tw.InputError, match="'s'"):
        module(X, i(1, 4, 6))


def test_a_range_of_lengths_beyond_eight():
    case = opened(model("float[] z", "z = Reshape(x, s)", {"x": X, "s": i(24)}), "s")
    module = tw.compile(case, input_shapes={"s": ["2..12"]}, workers=0, cache=False)
    assert module(X, i(1, 1, 1, 1, 1, 1, 1, 4, 6))[0].shape == (1, 1, 1, 1, 1, 1, 1, 4, 6)
    with pytest.raises(tw.InputError, match=r"node 'Reshape_0' .*must have 2 to 9"):
        module(X, i(*[1] * 9, 24))


def test_what_no_length_fits_is_refused():
    case = opened(model("float[] z", "z = Squeeze(x, s)", {"x": f(1, 1), "s": i(0)}), "s")
    with pytest.raises(tw.ModelError, match=r"node 'Squeeze_0' .*'axes' has more than 2 elements"):
        import_model(case, input_shapes={"s": ["3..5"]})


def test_only_the_ranks_that_a_reader_takes_can_be_run():
    runs = runs_of((1, 2, 3, 4), x=f(1, 2, 3, 4))
    case = opened(model("float[] z", "y = Reshape(x, s) z = Conv(y, w)", runs[0], {"w": f(5, 2, 1, 1)}), "s")
    module = check(case, *runs, input_shapes={"s": ["2..4"]})
    with pytest.raises(tw.InputError, match=r"node 'Reshape_0' .*float32\[.*Conv_1") as error:
        module(runs[0]["x"], i(6, 4))
    assert "\n" not in str(error.value)
