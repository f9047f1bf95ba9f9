"""Shapes that converters declare of their operands: the notation, and what is said of operands of other shapes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx_case import foreign_model
from open_case import check_open, check_refused, open_model

import tilewright as tw
from tilewright.core.errors import ModelError
from tilewright.core.sizes import Extent, Sym
from tilewright.frontends import import_model
from tilewright.frontends.onnx.state import registry
from tilewright.frontends.onnx.state.context import Context
from tilewright.frontends.onnx.state.declared_shapes import One, find_value, parse_shapes, solve_for
from tilewright.frontends.onnx.state.fit_operands import demand_shapes
from tilewright.frontends.onnx.values.tensor import Tensor

Shape = Sequence[Extent]


def convert(
    _ctx: Context,
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    *more: Tensor,
    group: int = 1,
    step: float = 1.0,
    window: Sequence[int] | None = None,
) -> tuple[Tensor | None, ...]:
    """A converter of all kinds of parameters, which gives its operands."""
    del more, group, step, window
    return x, w, b


def scale(ctx: Context, x: Tensor, *, k: int) -> Tensor: ...


def no_value() -> NoReturn:
    raise AssertionError("shapes are fitted without IR")


def f(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


WRONG = {
    "x[n": r"'x\[n' does not begin with an operand",
    "x[n] and w[n]": r"'and w\[n\]' does not begin with an operand",
    "y[n]": "'y' is no input",
    "group[n]": "'group' is no input",
    "more[n]": "'more' is no input",
    "x[n] x[n]": "an input is there twice",
    "x[c/]": "'c/' is no term",
    "x[c**2]": r"'c\*\*2' is no term",
    "x[2.5]": "'2.5' is no term",
    "x[True]": "'True' is no term",
    "x[_+1]": r"'_\+1' is no term",
    "x[-n]": "'-n' is no term",
    "x[*2]": r"'\*2' is no term",
    "x[*n *m]": r"\[\*n \*m\] of 'x' has two terms of any number of axes",
    "x[n *n]": "'n' means two things",
    "x[w]": "'w' means two things",
    "x[c*groop]": "'c.groop': no term before it says c or groop",
    "x[n n*n]": r"'n\*n' cannot be solved",
    "x[n 4/n]": "'4/n' cannot be solved",
    "x[n n//2]": "'n//2' is no term",
    "x[n*step]": "'n.step': the attribute 'step' is no integer",
    "x[window]": "'window': the attribute 'window' is no integer",
    "x[*group]": r"'\*group': the attribute is one number",
    "x[n *s:t] w[*t]": r"'\*s:t': no term before it says how many axes 't' has",
}


@pytest.mark.parametrize("shapes", WRONG)
def test_a_declaration_that_is_wrong_fails_where_it_stands(shapes: str):
    with pytest.raises(ValueError, match=rf"^shapes '.*' of convert: .*{WRONG[shapes]}"):
        registry.op("Misdeclared", shapes=shapes)(convert)
    assert "Misdeclared" not in registry.registered_names()


def test_terms_have_the_axes_that_their_operand_has():
    [x, w] = parse_shapes(" x[n c/group  +s 2]w[]", inspect.signature(convert))
    assert (x.name, x.text, w.text) == ("x", "[n c/group +s 2]", "[]")
    placed = x.place(5)
    assert placed is not None
    assert [(term.text, list(axes)) for term, axes in placed] == [
        ("n", [0]),
        ("c/group", [1]),
        ("+s", [2, 3]),
        ("2", [4]),
    ]
    assert x.place(3) is None  # of +s there is one axis at least
    assert (w.place(0), w.place(1)) == ([], None)


@given(
    n=st.integers(1, 50), k=st.integers(1, 5), chosen=st.sampled_from(["n", "k*n", "n-k", "k-n", "(n+k)*3", "n*k/k"])
)
def test_solving_undoes_what_evaluating_does(n: int, k: int, chosen: str):
    [term] = parse_shapes(f"x[{chosen}]", inspect.signature(scale))[0].terms
    assert isinstance(term, One) and term.expression is not None
    value = find_value(term.expression, {"n": n, "k": k})
    assert value is not None and solve_for(term.expression, "n", value, {"k": k}) == n
    dynamic = solve_for(term.expression, "n", Sym("e"), {"k": k})
    assert dynamic is not None and find_value(term.expression, {"n": dynamic, "k": k}) is not None


class Refused(Exception):
    """What a stand-in for a context raises."""


class Demands:
    """A stand-in for a context, which remembers the sizes that have to be equal."""

    def __init__(self) -> None:
        self.equal: list[tuple[Extent, Extent, str]] = []

    def invalid(self, reason: str) -> NoReturn:
        raise Refused(reason)

    def demand_equal(self, a: Extent, b: Extent, otherwise: str) -> None:
        if a != b:
            self.equal.append((a, b, otherwise))

    def refine(self, x: Tensor, shape: Shape) -> Tensor:
        return Tensor(
            x.dtype, tuple(n if isinstance(n, int) else m for n, m in zip(x.shape, shape, strict=True)), no_value
        )


def match(shapes: str, *operands: Shape | None, **attributes: Any) -> tuple[list[Shape | None], Demands]:
    """The shapes that the converter gets, and what the program checks."""
    ctx = Demands()
    tensors = [None if s is None else Tensor("float32", tuple(s), no_value) for s in operands]
    given_ = cast(Callable[..., Any], demand_shapes(convert, shapes))(ctx, *tensors, **attributes)
    return [None if t is None else t.shape for t in given_], ctx


CONV = "x[n c +s] w[group*m c/group *window:s] b[group*m]"
N, M, K = Sym("N"), Sym("M"), Sym("K")

# Shapes, operands and attributes that do not fit, and what is said.
MISFITS: list[tuple[str, Sequence[Shape | None], Mapping[str, Any], str]] = [
    (CONV, [(1, 3), (1, 3)], {}, "x has shape [1, 3], it must be [n c +s]"),
    (
        CONV,
        [(1, 3, 8, 8), (6, 1, 3)],
        {"group": 3},
        "w has shape [6, 1, 3], it must be [group*m c/group *window:s] (x is [n c +s] of shape [1, 3, 8, 8])",
    ),
    (
        CONV,
        [(1, 3, 8, 8), (6, 2, 3, 3)],
        {"group": 3},
        "w has shape [6, 2, 3, 3], it must be [group*m c/group *window:s], but axis 1 is not c/group = 1 "
        "(x is [n c +s] of shape [1, 3, 8, 8], group=3)",
    ),
    (
        CONV,
        [(1, 4, 8, 8), (6, 1, 3, 3)],
        {"group": 3},
        "w has shape [6, 1, 3, 3], it must be [group*m c/group *window:s], but axis 1 is not c/group "
        "(x is [n c +s] of shape [1, 4, 8, 8], group=3)",
    ),
    (
        CONV,
        [(1, 3, 8), (4, 1, 3)],
        {"group": 3},
        "w has shape [4, 1, 3], it must be [group*m c/group *window:s], but axis 0 is not group*m (group=3)",
    ),
    (
        CONV,
        [(1, 3, 8), (4, 3, 3)],
        {"window": [2]},
        "w has shape [4, 3, 3], it must be [group*m c/group *window:s], but axis 2 is not 2 (window=[2])",
    ),
    (
        CONV,
        [(1, 3, 8), (4, 3, 3), (5,)],
        {},
        "b has shape [5], it must be [group*m], but axis 0 is not group*m = 4 "
        "(w is [group*m c/group *window:s] of shape [4, 3, 3], group=1)",
    ),
    ("x[*d] w[*d]", [(), (1,)], {}, "w has shape [1], it must be [*d] (x is [*d] of shape [])"),
    ("x[*d] w[*d]", [(2, 3), (2, 4)], {}, "w has shape [2, 4], it must be [*d], but axis 1 is not 3 (x is [*d] of shape [2, 3])"),
    ("x[*_ m m]", [(2, 3, 4), ()], {}, "x has shape [2, 3, 4], it must be [*_ m m], but axis 2 is not m = 3"),
    ("x[n 4]", [(N, 5), (3,)], {}, "x has shape [N, 5], it must be [n 4], but axis 1 is not 4"),
    ("x[group]", [(5,), ()], {"group": 4}, "x has shape [5], it must be [group], but axis 0 is not group = 4"),
    ("x[n] w[n-1]", [(5,), (5,)], {}, "w has shape [5], it must be [n-1], but axis 0 is not n-1 = 4 (x is [n] of shape [5])"),
]  # fmt: skip


@pytest.mark.parametrize("case", MISFITS, ids=lambda case: f"{case[0]} {case[1]}")
def test_a_refusal_names_the_operand_its_shape_and_the_axis(
    case: tuple[str, Sequence[Shape | None], Mapping[str, Any], str],
):
    shapes, operands, attributes, says = case
    with pytest.raises(Refused) as caught:
        match(shapes, *operands, **attributes)
    assert str(caught.value) == says


def test_a_number_refines_what_only_the_run_knows():
    fitted, ctx = match(CONV, (N, M, 8), (6, 2, K), None, group=3)
    assert fitted == [(N, 6, 8), (6, 2, K), None]
    assert [(a, b) for a, b, _ in ctx.equal] == [(M, 6)]
    assert "axis 1 is not c = 6 (w is [group*m c/group *window:s] of shape [6, 2, K])" in ctx.equal[0][2]


def test_the_program_checks_what_only_the_run_knows():
    fitted, ctx = match(CONV, (N, M, 8), (N, K, 3), (K,), group=2)
    assert fitted == [(N, 2 * K, 8), (N // 2 * 2, K, 3), (N // 2 * 2,)]
    assert [(a, b) for a, b, _ in ctx.equal] == [(M, 2 * K), (N, N // 2 * 2), (K, N // 2 * 2)]


def test_a_name_that_no_operand_says_may_be_anything():
    assert match("x[n] b[m] w[m*2]", (2,), (6,), (3,))[0] == [(2,), (6,), (3,)]
    assert match("b[m] x[k] w[m*k]", (2,), (6,))[0] == [(2,), (6,), None]
    assert match("b[m] w[m*3] x[m*2]", (4,), (6,))[0] == [(4,), (6,), None]


SIZES = st.sampled_from([1, 2, 3, 4, 6])


@settings(max_examples=40)
@given(x=st.tuples(SIZES, SIZES, SIZES), w=st.tuples(SIZES, SIZES, SIZES), b=SIZES, group=st.sampled_from([1, 2, 3]), hidden=st.integers(0, 127))  # fmt: skip
def test_what_the_run_checks_is_what_numbers_say(
    x: tuple[int, ...], w: tuple[int, ...], b: int, group: int, hidden: int
):
    """Whichever extents are symbols: the program's checks hold for just those sizes that fit."""
    fits = w[0] % group == 0 and w[1] * group == x[1] and b == w[0]
    sizes = dict(zip("NCLFKTB", (*x, *w, b), strict=True))
    extents = [Sym(name) if hidden >> i & 1 else size for i, (name, size) in enumerate(sizes.items())]
    try:
        fitted, ctx = match(CONV, extents[:3], extents[3:6], extents[6:], group=group)
    except Refused:
        assert not fits
        return
    assert fits == all(_value(a, sizes) == _value(b, sizes) for a, b, _ in ctx.equal)
    if fits:
        assert [_value(n, sizes) for shape in fitted for n in shape or ()] == [*x, *w, b]


def _value(extent: Extent, sizes: Mapping[str, int]) -> int:
    """An extent of symbols, their sums, products and quotients."""
    if isinstance(extent, int):
        return extent
    total = 0
    for atoms, factor in extent.terms:
        product = factor
        for atom in atoms:
            args = [_value(arg, sizes) for arg in atom.args]
            assert atom.function in (None, "floordiv")
            product *= args[0] // args[1] if atom.function else sizes[atom.name]
        total += product
    return total


def test_a_node_is_refused_in_one_line():
    model, _ = foreign_model("Conv", [f(1, 3, 8, 8), f(6, 2, 3, 3)], "", group=3)
    with pytest.raises(ModelError) as caught:
        import_model(model)
    assert str(caught.value) == (
        "the model: node 'the_Conv' (Conv): w has shape [6, 2, 3, 3], it must be [group*m c/group *kernel_shape:s], "
        "but axis 1 is not c/group = 1 (x is [n c +s] of shape [1, 3, 8, 8], group=3)"
    )


def test_a_converter_that_another_one_calls_has_its_shapes_as_well():
    model, _ = foreign_model("FusedConv", [f(1, 3, 8), f(6, 2, 3)], "com.microsoft", activation="Relu")
    with pytest.raises(ModelError, match=r"\(FusedConv\): w has shape \[6, 2, 3\]"):
        import_model(model)


def test_a_run_is_refused_by_the_same_words():
    run = [f(1, 4, 5), f(6, 2, 3), f(6)]
    module = check_open("Conv", run, [f(2, 2, 4), f(2, 1, 2), f(2)], group=2)
    words = r"b has shape \[in2_0\], it must be \[group\*m\], but axis 0 is not group\*m = 2\*floordiv.*\(5 and 6\)"
    check_refused(module, "Conv", [*run[:2], f(5)], words)
    known = open_model("Conv", run, known=[1], group=2)
    with pytest.raises(tw.InputError, match=r"x has shape .* axis 1 is not c = 4 \(w is .* of shape \[6, 2, 3\]\)"):
        tw.compile(known, workers=0, num_threads=1, cache=False)(f(1, 3, 5), run[2])
