"""Programs that are written down for several sizes become one for all of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pytest

import tilewright as tw
from tilewright.core.model import TensorInfo
from tilewright.core.sizes import Extent, Sym
from tilewright.frontends.foreign import Samples
from tilewright.frontends.linalg.importer import import_linalg

N, M = Sym("n", 1, 64), Sym("m", 2)
POINTS = ({"n": 3, "m": 20}, {"n": 5, "m": 31}, {"n": 12, "m": 26})
GENERIC = """%r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
    iterator_types = ["parallel", "parallel"]} ins(%x0 : tensor<$(n)x$(m)xf32>) outs(%e : tensor<$(n)x$(m)xf32>) {
  ^bb0(%a: f32, %o: f32):
    BODY
    linalg.yield %y : f32
  } -> tensor<$(n)x$(m)xf32>"""


def opened(
    body: str,
    result: str = "$(n)x$(m)xf32",
    inputs: Sequence[tuple[Extent, ...]] = ((N, M),),
    scalars: Mapping[str, Extent] | None = None,
) -> str:
    """The IR of a function in which ``$(expression)`` is a number that n and m say."""
    infos = [TensorInfo(f"x{i}", shape, "float32" if shape else "int64") for i, shape in enumerate(inputs)]
    kinds = [f"{''.join(f'$({n})x' for n in shape)}{'f32' if shape else 'i64'}" for shape in inputs]
    arguments = ", ".join(f"%x{i}: tensor<{kind}>" for i, kind in enumerate(kinds))
    template = f"func.func @main({arguments}) -> tensor<{result}> {{\n{body}\nreturn %r : tensor<{result}>\n}}"
    texts = [re.sub(r"\$\((.*?)\)", lambda found: str(eval(found[1], dict(p))), template) for p in POINTS]  # noqa: B023
    samples = Samples(POINTS, tuple(texts[1:]), (N, M), scalars or {})
    shape = tuple(eval(extent.strip("$"), {"n": N, "m": M}) for extent in result.split("x")[:-1])
    return str(import_linalg(texts[0], infos, [TensorInfo("r", shape, "float32")], {}, "model", samples).module)


def generic(body: str) -> str:
    return "%e = tensor.empty() : tensor<$(n)x$(m)xf32>\n" + GENERIC.replace("BODY", body)


def test_types_and_new_tensors_are_open():
    text = opened(generic("%y = math.exp %a : f32"))
    n, m = re.findall(r"(%\w+) = tensor.dim %arg0, %c[01]", text)[::-1]
    assert f"tensor.empty({n}, {m}) : tensor<?x?xf32>" in text
    assert "-> tensor<?x?xf32>" in text and "tensor<3x20xf32>" not in text


def test_numbers_in_bodies_are_computed_in_their_type():
    text = opened(
        generic("%c = arith.constant $(n * m).0 : f32\n%two = arith.constant 2.0 : f32\n%y = arith.divf %a, %c : f32")
    )
    assert re.search(r"arith.muli %dim\w*, %dim\w* : index", text)
    assert re.search(r"(%\d+) = arith.sitofp %\d+ : i64 to f32\n +%\d+ = arith.divf %in, \1", text)


def test_views_get_the_sizes_of_their_groups():
    fitting = """%f = tensor.collapse_shape %x0 [[0, 1]] : tensor<$(n)x$(4*m)xf32> into tensor<$(4*n*m)xf32>
        %r = tensor.expand_shape %f [[0, 1]] output_shape [$(n*m), 4]
          : tensor<$(4*n*m)xf32> into tensor<$(n*m)x4xf32>"""
    text = opened(fitting, "$(n*m)x4xf32", [(N, 4 * M)])
    assert re.search(r"expand_shape %collapsed \[\[0, 1\]\] output_shape \[%\d+, 4\]", text)
    assert "the sizes do not fit" not in text


def test_slices_are_of_what_is_there():
    text = opened(
        "%r = tensor.extract_slice %x0[0, 1] [$(n), $(m-1)] [1, 1] : tensor<$(n)x$(m)xf32> to tensor<$(n)x$(m-1)xf32>",
        "$(n)x$(m-1)xf32",
    )
    assert re.search(r"extract_slice %arg0\[0, 1\] \[%dim\w*, %\d+\] \[1, 1\] : tensor<\?x\?xf32>", text)
    assert "cf.assert" not in text
    other = "%r = tensor.extract_slice %x0[0] [$(n)] [1] : tensor<$(m)xf32> to tensor<$(n)xf32>"
    checked = opened(other, "$(n)xf32", [(M,), (N,)])
    assert "cf.assert %" in checked and "the sizes do not fit: n - 1 is not less than m" in checked


def test_padding_and_concat_are_insertions():
    text = opened(
        """%zero = arith.constant 0.0 : f32
        %p = tensor.pad %x0 low[0, 1] high[0, 2] {
        ^bb0(%i: index, %j: index):
          tensor.yield %zero : f32
        } : tensor<$(n)x$(m)xf32> to tensor<$(n)x$(m+3)xf32>
        %r = tensor.concat dim(1) %p, %x0 : (tensor<$(n)x$(m+3)xf32>, tensor<$(n)x$(m)xf32>) -> tensor<$(n)x$(2*m+3)xf32>""",
        "$(n)x$(2*m+3)xf32",
    )
    assert text.count("tensor.insert_slice") == 3
    assert "tensor.pad" not in text and "tensor.concat" not in text


def test_padding_by_less_than_nothing_crops():
    body = """%zero = arith.constant 0.0 : f32
        %r = tensor.pad %x0 low[0, -1] high[0, 3] { ^bb0(%i: index, %j: index): tensor.yield %zero : f32 }
          : tensor<$(n)x$(m)xf32> to tensor<$(n)x$(m + 2)xf32>"""
    text = opened(body, "$(n)x$(m + 2)xf32")
    assert re.search(r"tensor.extract_slice %arg0\[0, 1\] \[%\w+, %\w+\] \[1, 1\]", text)
    assert re.search(r"insert_slice %extracted_slice into %\w+\[0, 0\]", text)


def test_splats_are_filled():
    text = opened("%r = arith.constant dense<1.5> : tensor<$(n)x$(m)xf32>")
    assert re.search(
        r"%(\w+) = arith.constant 1.5\S+ : f32\n(.*\n)*.*linalg.fill ins\(%\1 : f32\) .*-> tensor<\?x\?xf32>", text
    )


def test_symbols_are_solved_for_and_inputs_held_to_each_other():
    body = "%e = tensor.empty() : tensor<$(n)xf32>\n%r = tensor.empty() : tensor<$(n)xf32>"
    text = opened(body, "$(n)xf32", [(2 * N + 1,), (M + N,), (M,)])
    assert "arith.floordivsi" in text
    assert "input 'x1' does not fit the others: x1.0 is not m + n" in text


def test_a_number_that_an_input_holds_is_a_size():
    body = "%r = tensor.empty() : tensor<$(n)xf32>"
    text = opened(body, "$(n)xf32", [()], {"x0": N})
    assert "tensor.extract %arg0[] : tensor<i64>" in text
    assert "input 'x0' is out of range: 0 is not less than x0" in text and "x0 is not less than 65" in text


@pytest.mark.parametrize(
    "body",
    [
        generic("%c = arith.constant $(n * n % 7).0 : f32\n%y = arith.divf %a, %c : f32"),
        generic(
            "%y = math.$(('exp', 'sin')[n == 5]) %a : f32".replace("('exp', 'sin')[n == 5]", "['exp', 'sin'][n == 5]")
        ),
        "%t = arith.constant dense<[[$(n), 2]]> : tensor<1x2xi64>\n%s = tensor.extract %t[%i, %i] : tensor<1x2xi64>",
    ],
    ids=["number", "op", "table"],
)
def test_refuses_what_differs_in_more_than_sizes(body: str):
    body = "%i = arith.constant 0 : index\n" + body
    result = "$(n)x$(m)xf32"
    if "%r" not in body:
        body += "\n%f = arith.sitofp %s : i64 to f32\n%r = tensor.splat %f : tensor<$(n)x$(m)xf32>"
    with pytest.raises(tw.UnsupportedError, match=r"^model: .*depends on the open sizes"):
        opened(body, result)
