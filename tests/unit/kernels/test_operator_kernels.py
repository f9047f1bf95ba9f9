"""Operators at the sizes of real networks: their kernels are vectors, but for the plain loops that are known.

It is what `tilewright explain` says of them, without a time.
"""

from __future__ import annotations

import re

import pytest
from onnx import TensorProto, helper

from tilewright.core.target import Target
from tilewright.dialects import codegen, ir
from tilewright.dialects.context import reused_context
from tilewright.frontends import import_model
from tilewright.passes.infra.context import PassContext
from tilewright.passes.pipeline import lower_kernel, plan
from tilewright.tools.networks.operators import OPERATORS

TARGET = Target.parse("x86 -mcpu=x86-64-v3")
SEQUENTIAL = ("its steps may build on each other", "threads share the steps of its loop")
# What runs as plain loops for another reason.
PLAIN = {"RoiAlign 300 of 256x50x50": "no family takes a kernel of these kinds of ops: Opaque"}
# One of each kind of kernel.
SAMPLE = (
    "Erf 1x128x768",
    "ReduceMax image 256x56x56",
    "ReduceSum columns 512x1000",
    "ArgMax rows 128x30522",
    "ArgMax channels 21x513x513",
    "Softmax channels 21x128x128",
    "MatMul vector 4096",
    "Conv 3x3 64 to 1, 128",
    "MaxPool 3x3/2 64x112x112",
    "Transpose 1000x1000",
    "Pad reflect 64x112x112",
    "GridSample linear 64x64x64",
    "Cast float to uint8 1x128x768",
    "DequantizeLinear 64x112x112",
)
# An instruction on whole vector registers: of packed floats, of packed integers, or a move of all of it.
VECTORS = re.compile(r"\bv\w+(?:ps|pd|dqu|dqa|[bwdq])\s[^\n]*%[xy]mm")


@pytest.fixture(scope="module")
def target() -> None:
    """Nothing runs here, so the target is the test's own."""


@pytest.mark.parametrize("name", SAMPLE)
def test_kernels_of_an_operator_are_vectors(name: str) -> None:
    for bytecode in kernels_of(name):
        with reused_context(), ir.Location.unknown():
            module, kernel = lower_kernel(bytecode, TARGET, PassContext())
            assert kernel.schedule, f"plain loops: {kernel.reason}"
            assert VECTORS.search(codegen.emit_code(module, TARGET, "asm").decode()), kernel.schedule


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATORS)
def test_plain_loops_are_those_that_are_known(name: str) -> None:
    for bytecode in kernels_of(name):
        with reused_context(), ir.Location.unknown():
            _, kernel = lower_kernel(bytecode, TARGET, PassContext())
        known = kernel.reason.startswith(SEQUENTIAL) or kernel.reason == PLAIN.get(name)
        assert kernel.schedule or known, f"plain loops: {kernel.reason}"


def test_a_box_is_held_against_eight_at_once() -> None:
    search = kernels_of("NonMaxSuppression 80x2000")[0]
    with reused_context(), ir.Location.unknown():
        module, _ = lower_kernel(search, TARGET, PassContext())
        assert re.search(r"\bvdivps\s[^\n]*%ymm", codegen.emit_code(module, TARGET, "asm").decode())


def kernels_of(name: str) -> list[bytes]:
    """The kernels of an operator's model, of which onnx may not know the outputs' types."""
    model = OPERATORS[name].build(name)
    for output in model.graph.output:
        if not output.type.WhichOneof("value"):
            output.CopyFrom(helper.make_tensor_value_info(output.name, TensorProto.FLOAT, None))
    planned = plan(import_model(model), TARGET)
    return [planned.kernels[kernel] for kernel in dict.fromkeys(call.kernel for call in planned.main.calls)]
