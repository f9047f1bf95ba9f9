"""Graph passes keep the meaning of ``@main``, and the plan's kernels and memory compute it."""

from __future__ import annotations

import io
from typing import Any

import networks
import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from quantized_network import quantized
from samples import campaign

from tilewright.core.arena import ALIGNMENT, Buffer, assign, lower_bound
from tilewright.core.model import Model, TensorInfo, numpy_dtype
from tilewright.core.program import Plan, Program, Slot
from tilewright.core.sizes import require_static
from tilewright.core.target import Target
from tilewright.dialects import ir
from tilewright.dialects.context import make_context
from tilewright.passes.infra.context import PassContext
from tilewright.passes.infra.instruments import Verify
from tilewright.passes.pipeline import graph_passes, plan

TARGET = Target(lanes=4)
NETWORKS = networks.NETWORKS | {"quantized": quantized}
ALIKE = {"fire", "long_rows", "grouped_conv"}  # all that passes do to them they do to others as well
UNCHANGED = ("residual_block", "attention", "odd_results", "quantized")  # planned at level 0, too


def _inputs(model: Model) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    return {i.name: rng.standard_normal(tuple(map(require_static, i.shape))).astype(np.float32) for i in model.inputs}


def _close(got: list[np.ndarray], expected: list[np.ndarray]) -> None:
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b.reshape(a.shape), rtol=2e-5, atol=2e-6)


def _run_main(module: ir.Module, values: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Run ``@main`` and, before it, whatever prepares its weights."""
    functions = {ir.StringAttr(op.attributes["sym_name"]).value: op for op in module.body.operations}
    values = dict(values)
    for name, function in functions.items():
        if "tw.prepares" in function.attributes:
            new = ir.StringAttr(function.attributes["tw.prepares"]).value
            values[new] = _run_function(module, name, values)[0]
    return _run_function(module, "main", values)


def _run_function(module: ir.Module, name: str, values: dict[str, np.ndarray]) -> list[np.ndarray]:
    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer)
    copy = ir.Module.parse(buffer.getvalue())
    arrays = []
    for op in list(copy.body.operations):
        symbol = ir.StringAttr(op.attributes["sym_name"]).value
        if symbol == name:
            for attributes in ir.ArrayAttr(op.attributes["arg_attrs"]):
                attributes = ir.DictAttr(attributes)
                key = "tw.param" if "tw.param" in attributes else "tw.name"
                arrays.append(values[ir.StringAttr(attributes[key]).value])
            op.attributes["sym_name"] = ir.StringAttr.get("main")
            op.attributes["sym_visibility"] = ir.StringAttr.get("public")
        elif symbol == "main" or "tw.prepares" in op.attributes:
            op.operation.erase()
    return reference.run(copy, arrays)


@campaign(*(name for name in NETWORKS if name not in ALIKE))
@pytest.mark.parametrize("step", [16, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("first, name", list(enumerate(NETWORKS)))
def test_every_pass_keeps_the_meaning(first, name, step):
    """The last change to each network is held against it, and one of so many before: of each network others."""
    with make_context(), ir.Location.unknown():
        model = NETWORKS[name]()
        values = _inputs(model) | {n: p.array() for n, p in model.params.items()}
        expected = _run_main(model.module, values)
        with PassContext(instruments=[Verify()]) as context:
            before, changes = str(model.module), first
            for stage in graph_passes(TARGET)[:-1]:
                context.run(stage, model.module)
                if str(model.module) != before:
                    changes += 1
                    if changes % step == 0:
                        _close(_run_main(model.module, values), expected)
                before = str(model.module)
            _close(_run_main(model.module, values), expected)


def _run_plan(made: Plan, model: Model, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    weights = {n: p.array() for n, p in model.params.items()}
    for name, program in made.prepare.items():
        weights[name] = _run_program(program, made, [], [weights[p.name] for p in program.params])[0]
    return _run_program(
        made.main, made, [inputs[i.name] for i in made.main.inputs], [weights[p.name] for p in made.main.params]
    )


def _run_program(program: Program, made: Plan, inputs: list[np.ndarray], params: list[np.ndarray]) -> list[np.ndarray]:
    """What the runtime does, with the oracle for each kernel; the arena starts as garbage."""
    outputs = [np.full(tuple(map(require_static, o.shape)), 77, numpy_dtype(o.dtype)) for o in program.outputs]
    arena = np.full(program.arena_bytes, 0x77, np.uint8)
    spaces = {"input": inputs, "param": params, "output": outputs}

    def memory(slot: Slot) -> np.ndarray:
        if slot.space == "arena":
            return arena[slot.offset :]
        return spaces[slot.space][slot.index].reshape(-1).view(np.uint8)

    for call in program.calls:
        module = ir.Module.parse(made.kernels[call.kernel])
        function: Any = module.body.operations[0]
        arguments = [_info(t) for t in function.type.inputs]
        function.attributes["sym_name"] = ir.StringAttr.get("main")
        arrays = [_view(memory(s), info).copy() for s, info in zip(call.args, arguments, strict=False)]
        for slot, result in zip(call.args[len(arguments) :], reference.run(module, arrays), strict=True):
            memory(slot)[: result.nbytes] = result.reshape(-1).view(np.uint8)
    return outputs


def _info(type_: ir.Type) -> TensorInfo:
    tensor = ir.RankedTensorType(type_)
    return TensorInfo(
        "",
        tuple(tensor.shape),
        {"f16": "float16", "f32": "float32", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64"}[
            str(tensor.element_type)
        ],
    )


def _view(memory: np.ndarray, info: TensorInfo) -> np.ndarray:
    return memory[: info.nbytes].view(numpy_dtype(info.dtype)).reshape(tuple(map(require_static, info.shape)))


@campaign(*(f"{name}-3" for name in NETWORKS), *(f"{name}-0" for name in UNCHANGED))
@pytest.mark.parametrize("opt_level", [0, 3])
@pytest.mark.parametrize("name", NETWORKS)
def test_the_plan_computes_the_model(name, opt_level):
    with make_context(), ir.Location.unknown():
        model = NETWORKS[name]()
        inputs = _inputs(model)
        expected = _run_main(model.module, inputs | {n: p.array() for n, p in model.params.items()})
        text = str(model.module)
        made = plan(model, TARGET, PassContext(opt_level=opt_level, instruments=[Verify()]))
        assert str(model.module) == text, "planning changed the model"
        _close(_run_plan(made, model, inputs), expected)


def _kernels(name: str) -> list[str]:
    with make_context(), ir.Location.unknown():
        made = plan(NETWORKS[name](), TARGET)
        return [call.kernel.rsplit("_", 1)[0] for call in made.main.calls]


def test_fusion_of_a_residual_block():
    kernels = _kernels("residual_block")
    assert sum(k.startswith("conv") for k in kernels) == 3
    assert sum(k.startswith("depthwise") for k in kernels) == 1
    assert len(kernels) <= 13


def test_fusion_of_transformed_convolutions():
    kernels = _kernels("wide_block")
    assert sum(k.startswith("transform_matmul") for k in kernels) == 2, "with both transforms and the epilogue"
    assert len(kernels) == 4, "beside two conversions of the layout"


def test_fusion_of_a_transformer_block():
    kernels = _kernels("attention")
    assert sum(k.startswith("matmul") for k in kernels) == 8
    assert sum("reduce" in k for k in kernels) == 3, "two layer norms and one softmax, each one kernel"
    assert len(kernels) <= 16


def test_equal_branches_are_one_kernel():
    kernels = _kernels("parallel")
    assert sum(k.startswith("conv") for k in kernels) == 3, (
        "two with their activations, one of another stride, one after"
    )
    assert sum("matmul" in k for k in kernels) == 4, "two with their biases; the gate's two are multiplied"


def test_a_row_group_absorbs_a_second_reduction():
    assert len(_kernels("two_pass_variance")) == 1


BUFFERS = st.builds(
    lambda size, first, length: Buffer(size, first, first + length),
    st.integers(0, 10_000),
    st.integers(0, 30),
    st.integers(0, 10),
)


@given(st.lists(BUFFERS, max_size=40))
def test_live_buffers_never_overlap(buffers):
    offsets, total = assign(buffers)
    assert total >= lower_bound(buffers)
    for i, (a, first) in enumerate(zip(buffers, offsets, strict=True)):
        assert first % ALIGNMENT == 0 and first + a.size <= total
        for b, second in zip(buffers[:i], offsets[:i], strict=True):
            if a.first <= b.last and b.first <= a.last and a.size and b.size:
                assert first + a.size <= second or second + b.size <= first


@given(st.integers(1, 500), st.integers(2, 30))
def test_a_chain_needs_two_buffers(size, length):
    _, total = assign([Buffer(size, i, i + 1) for i in range(length)])
    assert total == 2 * -(-size // ALIGNMENT) * ALIGNMENT


def test_the_arena_is_no_larger_than_what_is_in_use_at_once():
    # By size alone they take nine: those of three lines leave no gap for the one of two that is beside two of them.
    lives = [(3, 4, 7), (2, 0, 3), (1, 0, 2), (3, 0, 0), (3, 2, 4)]
    buffers = [Buffer(ALIGNMENT * lines, first, last) for lines, first, last in lives]
    assert assign(buffers)[1] == lower_bound(buffers) == 6 * ALIGNMENT
