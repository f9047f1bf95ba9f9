"""GELU and sigmoid as exporters write them, through the whole compiler: one function once their ops are one kernel."""

from __future__ import annotations

import math

import numpy as np
import pytest
from cpu_targets import FOR_THIS_MACHINE
from onnx import helper
from onnx_case import model_of

from tilewright.driver import api

X = np.linspace(-9, 9, 1024, dtype=np.float32).reshape(8, 128)
WIDE = X.astype(np.float64)
CONSTANTS = {"root": 2**0.5, "half": 0.5, "one": 1.0, "three": 3.0, "k": 0.044715, "c": math.sqrt(2 / math.pi)}
FORMS: dict[str, list[tuple[str, str, str]]] = {
    "erf": [
        ("Div", "x root", "z"), ("Erf", "z", "e"), ("Add", "e one", "s"), ("Mul", "x s", "p"), ("Mul", "p half", "y"),
    ],
    "tanh": [
        ("Pow", "x three", "w"), ("Mul", "w k", "kw"), ("Add", "x kw", "q"), ("Mul", "q c", "z"), ("Tanh", "z", "t"),
        ("Add", "t one", "s"), ("Mul", "x half", "h"), ("Mul", "h s", "y"),
    ],
    "sigmoid": [("Sigmoid", "x", "y")],
}  # fmt: skip
TRUE = {
    "erf": WIDE * np.vectorize(math.erfc)(-WIDE * math.sqrt(0.5)) / 2,
    "tanh": WIDE / (1 + np.exp(-2 * CONSTANTS["c"] * (WIDE + 0.044715 * WIDE**3))),
    "sigmoid": 1 / (1 + np.exp(-WIDE)),
}


@FOR_THIS_MACHINE
@pytest.mark.parametrize("form", FORMS)
def test_the_tail_has_all_its_bits(form: str) -> None:
    nodes = [helper.make_node(op, names.split(), [out], name=out) for op, names, out in FORMS[form]]
    used = {name for _, names, _ in FORMS[form] for name in names.split()}
    weights = {name: np.array(n, np.float32) for name, n in CONSTANTS.items() if name in used}
    (got,) = api.compile(model_of(nodes, {"x": X}, ["y"], weights)).run({"x": X})
    np.testing.assert_allclose(np.asarray(got), TRUE[form], rtol=4 * 2**-23)
