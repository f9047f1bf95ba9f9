"""Weights that numpy prepares are those that kernels prepare."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from samples import campaign

from tilewright.core.formula import Formula, FormulaStep
from tilewright.core.model import TensorInfo
from tilewright.core.program import Call, Program, Slot
from tilewright.driver import api
from tilewright.runtime.executors import formulas

RNG = np.random.default_rng(5)

MODELS = {
    "packed, with lanes that are padded": ("float[4, 40] x", "y = MatMul(x, w)", {"w": (40, 41)}),
    "transposed": ("float[4, 40] x", "y = Gemm<transB = 1>(x, w)", {"w": (33, 40)}),
    "scaled by a norm": (
        "float[1, 5, 9, 9] x",
        "c = Conv(x, w) y = BatchNormalization(c, g, g, m, v)",
        {"w": (7, 5, 2, 2), "g": (7,), "m": (7,), "v": (7,)},
    ),
    "transformed for Winograd's algorithm": (
        "float[1, 32, 28, 28] x",
        "y = Conv<pads = [1, 1, 1, 1]>(x, w)",
        {"w": (32, 32, 3, 3)},
    ),
    "grouped": ("float[1, 32, 9, 9] x", "y = Conv<group = 4>(x, w)", {"w": (64, 8, 3, 3)}),
    "depthwise": (
        "float[1, 32, 9, 9] x",
        "a = Conv(x, v) b = Conv<group = 32>(a, w) y = Conv(b, v)",
        {"w": (32, 1, 3, 3), "v": (32, 32, 1, 1)},
    ),
    "rows of two weights": (
        "float[4, 40] x",
        "a = MatMul(x, w) b = MatMul(x, v) y = Add(a, b)",
        {"w": (40, 16), "v": (40, 16)},
    ),
}


@campaign(
    "packed, with lanes that are padded", "transformed for Winograd's algorithm", "grouped", "rows of two weights"
)
@pytest.mark.shares_kernels
@pytest.mark.parametrize("kind", MODELS)
def test_weights_are_those_of_kernels(kind: str, monkeypatch: pytest.MonkeyPatch):
    inputs, body, shapes = MODELS[kind]
    text = f'<ir_version: 10, opset_import: ["": 21]> g ({inputs}) => (float[N] y) {{ {body} }}'
    model = onnx.parser.parse_model(text)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    for name, shape in shapes.items():
        array = RNG.uniform(0.5, 1.5, shape).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    done: list[str] = []

    def note(program: Program, *others: Any) -> None:
        done.append(program.outputs[0].name)
        prepare_weight(program, *others)

    prepare_weight = formulas.prepare_weight
    monkeypatch.setattr(formulas, "prepare_weight", note)
    by_numpy = _prepare(model)
    assert done  # so numpy it was
    monkeypatch.setattr(formulas, "choose_programs", lambda programs, known: set())
    for name, expected in _prepare(model).items():
        np.testing.assert_allclose(by_numpy[name], expected, rtol=0, atol=1e-6, err_msg=name)


def test_what_takes_long_is_a_kernel():
    infos = TensorInfo("w", (4,), "float32"), TensorInfo("w.prepared", (4,), "float32")
    program = Program((), infos[1:], infos[:1], (Call("k", (Slot("param", 0), Slot("output", 0))),), 0)
    formula = Formula(((4,),), ("float32",), (FormulaStep("arith.negf", (0,)),), (1,), (16,), 16)
    programs = {"w.prepared": program}
    assert formulas.choose_programs(programs, {"k": formula}) == {"w.prepared"}
    assert formulas.choose_programs(programs, {"k": replace(formula, nbytes=1 << 30)}) == set()
    assert formulas.choose_programs(programs, {}) == set()
    weight = np.empty(4, np.float32)
    formulas.prepare_weight(program, {"k": formula}, [np.arange(4, dtype=np.float32)], [weight])
    np.testing.assert_array_equal(weight, [0, -1, -2, -3])


def _prepare(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    made = api.stepwise(model, options=api.make_options(cache=False), workers=0)
    infos = made.program.params
    assert made.weights is not None
    return {info.name: np.array(array) for info, array in zip(infos, made.weights.arrays(infos), strict=True)}
