"""What a model should give: where the oracles are less exact than the schemas, or than each other."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from tilewright.tools._oracle import NodeOracle, Noise

RNG = np.random.default_rng(0)
OPSETS = [helper.make_opsetid("", 21)]


def spread(value: np.ndarray, op: str, more: dict[str, np.ndarray] | None = None, **attributes) -> float:
    """How far noise moves a node's result, relative to it."""
    names = ["x", *(name if a.size else "" for name, a in (more or {}).items())]
    step = NodeOracle(helper.make_node(op, names, ["y"], **attributes), OPSETS)
    values = {"x": value, **(more or {})}
    exact, shaken = (step(values, noise)["y"].astype(np.float64) for noise in (None, Noise(0)))
    return float(np.max(np.abs(shaken - exact)) / np.max(np.abs(exact)))


def test_a_result_has_the_schemas_type():
    values = {"x": np.array([2**16, 3], np.uint32)}
    made = NodeOracle(helper.make_node("ReduceSumSquare", ["x"], ["y"], keepdims=0), OPSETS)(values)["y"]
    assert made.dtype == np.uint32 and made == 9  # modulo 2 ** 32; the reference's own is uint64


@pytest.mark.parametrize(("op", "rough"), [("Erf", True), ("Tanh", False)])
def test_what_is_computed_in_single_has_its_noise(op, rough):
    assert (spread(RNG.standard_normal(8), op) > 2.0**-22) == rough


def test_scales_have_no_noise():
    sizes = {"roi": np.zeros(0), "scales": np.array([2.0], np.float32)}  # a little less, and an element is gone
    assert spread(RNG.standard_normal(5).astype(np.float32), "Resize", sizes, mode="linear") < 1e-5


@pytest.mark.parametrize(("mode", "rough"), [("cubic", True), ("linear", False)])
def test_cubic_weights_are_single(mode, rough):
    sizes = {"roi": np.zeros(0), "scales": np.array([1.5], np.float32)}
    assert (spread(RNG.standard_normal(6), "Resize", sizes, mode=mode) > 2.0**-22) == rough
