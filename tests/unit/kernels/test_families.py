"""The table of kernel families: what `fuse-ops` groups is of the family that `apply-schedule` takes."""

from __future__ import annotations

import math

import onnx
import pytest
from kernel_runner import TARGET as SCHEDULED_FOR
from kernel_runner import schedule_of
from kernel_texts import einsum

from tilewright.core.target import Target
from tilewright.dialects import ir
from tilewright.dialects.context import reused_context
from tilewright.frontends import import_model
from tilewright.passes.ir.kernel import list_functions
from tilewright.passes.pipeline import plan
from tilewright.passes.schedule.families.family import find_anchors
from tilewright.passes.schedule.families.table import FAMILIES, find_family
from tilewright.passes.schedule.families.transposing import Crossing, tile_transpose

TARGET = Target.parse("x86 -mcpu=x86-64-v3")
HEADER = '<ir_version: 9, opset_import: ["" : 20]>'
# A model's body, its input and weights, and the families of its kernels.
CASES = {
    "a convolution with its bias and Relu": (
        "x", "float[1,8,9,9] x, float[16,8,5,5] w, float[16] b", "c = Conv(x, w, b) y = Relu(c)",
        {"convolutions"},
    ),
    "by Winograd's algorithm": (
        "x", "float[1,64,28,28] x, float[64,64,3,3] w", "y = Conv <pads=[1,1,1,1]> (x, w)",
        {"winograd"},
    ),
    "depthwise": (
        "x", "float[1,32,9,9] x, float[32,1,3,3] w, float[32,32,1,1] v",
        "a = Conv(x, v) b = Conv <group=32> (a, w) y = Conv(b, v)", {"windows"},
    ),
    "depthwise, of three filters for each channel": (
        "x", "float[1,32,9,9] x, float[96,1,3,3] w, float[32,32,1,1] v",
        "a = Conv(x, v) y = Conv <group=32> (a, w)", {"windows"},
    ),
    "depthwise, of the program's own images": (
        "x", "float[1,32,14,14] x, float[32,1,3,3] w", "y = Conv <group=32> (x, w)", {"depthwise convolutions along rows"},
    ),
    "a pool with its padding": (
        "x", "float[1,4,16,16] x", "y = MaxPool <kernel_shape=[3,3], pads=[1,1,1,1]> (x)", {"pools along rows"},
    ),
    "a convolution to one channel": (
        "x", "float[1,16,9,9] x, float[1,16,3,3] w", "r = Relu(x) y = Conv(r, w)", {"dot products"},
    ),
    "groups of one filter": (
        "x", "float[1,16,9,9] x, float[4,4,3,3] w", "y = Conv <group=4> (x, w)", {"dot products"},
    ),
    "a dense layer": ("x", "float[7,32] x, float[32,24] w", "a = MatMul(x, w) y = Relu(a)", {"products"}),
    "a dense layer of few columns": (
        "x", "float[7,64] x, float[64,2] w", "a = MatMul(x, w) y = Relu(a)", {"dot products"},
    ),
    "attention": (
        "q k v", "float[2,64,16] q, float[2,16,64] k, float[2,64,16] v",
        "s = MatMul(q, k) p = Softmax(s) y = MatMul(p, v)", {"attention"},
    ),
    "a softmax": ("x", "float[8,100] x", "y = Softmax(x)", {"reductions"}),
    "a matrix by a vector": ("x v", "float[64,100] x, float[100] v", "y = MatMul(x, v)", {"dot products"}),
    "a column by a matrix, both transposed": (
        "x v", "float[100,1] x, float[64,100] v", "y = Gemm <transA=1, transB=1> (x, v)", {"dot products"},
    ),
    "elementwise ops": ("x", "float[8,100] x", "a = Exp(x) y = Neg(a)", {"elementwise"}),
}  # fmt: skip


def families_of(inputs: str, values: str, body: str) -> set[str]:
    """The families of a model's kernels; what is no input is a weight."""
    given = [value.strip() for value in values.replace(", float", ";float").split(";")]
    weights = [
        f"{value} = {{{', '.join(['1'] * _count(value))}}}" for value in given if _name(value) not in inputs.split()
    ]
    taken = ", ".join(value for value in given if _name(value) in inputs.split())
    text = f"{HEADER} g ({taken}) => (float y) <{', '.join(weights)}> {{ {body} }}"
    model = onnx.shape_inference.infer_shapes(onnx.parser.parse_model(text))
    names = set()
    for bytecode in plan(import_model(model), TARGET).kernels.values():
        with reused_context(), ir.Location.unknown():
            module = ir.Module.parse(bytecode)
            family = find_family(find_anchors(list_functions(module)[0]))
        names.add(family.name if family is not None else "none")
    return names


def _name(value: str) -> str:
    return value.split()[-1]


def _count(value: str) -> int:
    return math.prod(map(int, value[value.index("[") + 1 : value.index("]")].split(",")))


@pytest.fixture(scope="module")
def target() -> None:
    """Nothing runs here, so targets are the test's own."""


@pytest.mark.parametrize("case", CASES)
def test_a_kernel_is_of_the_family_that_it_was_grouped_for(case: str) -> None:
    *model, families = CASES[case]
    assert families <= families_of(*model)


def test_names_are_those_of_one_family() -> None:
    names = [family.name for family in FAMILIES]
    assert len(set(names)) == len(names)


def test_rows_of_an_image_go_over_one_block_of_channels() -> None:
    """Images of a batch do not: only what an operand has between channels and pixels of a row."""
    zen = Target.parse("x86 -mcpu=znver4")
    cuts = tile_transpose([4, 38, 38, 256], Crossing(2, (1,)), 3, 32, zen)
    assert cuts == [(0, 1), (3, 64), (1, 1), (2, 16), (3, 16)]
    assert tile_transpose([4, 300, 256], Crossing(1), 2, 32, zen)[:2] == [(0, 1), (2, 64)]


@pytest.mark.parametrize("cpu, near, odd", [("znver4", 16, 64), ("sapphirerapids", 64, 16)])
def test_lines_that_are_fetched_in_pairs_are_written_together(cpu: str, near: int, odd: int) -> None:
    """Rows of the result that lie near are written whole then, and those that are no whole lines one by one."""
    target = Target.parse(f"x86 -mcpu={cpu}")
    assert dict(tile_transpose([12544, 64], Crossing(0), 1, 32, target)[:-2] or [(1, 64)])[1] == near
    assert tile_transpose([1000, 1000], Crossing(0), 1, 32, target)[0] == (1, odd)


@pytest.mark.parametrize("columns", [200, 208, 250, 300])
def test_columns_that_are_left_for_few_vectors_are_a_step_of_their_own(columns: int) -> None:
    product = einsum("ik,kj->ij", {"i": 40, "k": 50, "j": columns})
    differences = product.replace("arith.mulf %u, %v fastmath<contract>", "arith.subf %u, %v")
    token = SCHEDULED_FOR.set(TARGET)
    try:
        schedule = schedule_of(differences)
    finally:
        SCHEDULED_FOR.reset(token)
    assert schedule is not None
    value = schedule.result.value
    [(loop, rest)] = [
        (loop, part.rest) for loop in schedule.result.outer for part in loop.parts if part.axis == value.contiguous
    ]
    assert loop.overlap == (rest.bit_count() > 2)
