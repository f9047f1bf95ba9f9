"""Programs of open sizes write over what nobody reads any more, and give what they give elsewhere."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from cpu_targets import FOR_THIS_MACHINE
from samples import campaign

import tilewright as tw
from tilewright.tools.debugging.oracle import make_session

RNG = np.random.default_rng(5)
CHANNELS = 160  # so many that images have them last
# The outputs and the nodes of each, and how many of its calls write images over others.
MODELS = {
    "a gate": ("(float y)", "c = Conv(x, w) g = GlobalAveragePool(c) m = Mul(c, g) y = Conv(m, v)", 1),
    "read later": (
        "(float y, float z)",
        "c = Conv(x, w) g = GlobalAveragePool(c) m = Mul(c, g) y = Conv(m, v) z = Conv(c, w)",
        0,
    ),
    "an output": ("(float y, float c)", "c = Conv(x, w) g = GlobalAveragePool(c) m = Mul(c, g) y = Conv(m, v)", 0),
    "one after another": (
        "(float y)",
        "c = Conv(x, w) g = GlobalAveragePool(c) m = Mul(c, g) h = GlobalMaxPool(m) d = Div(m, h) y = Conv(d, v)",
        2,
    ),
}


def make_model(name: str) -> onnx.ModelProto:
    outputs, body, _ = MODELS[name]
    text = f"g (float[N, {CHANNELS}, H, W] x) => {outputs} {{ {body} }}"
    made = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 18]> {text}')
    for info in made.graph.output:
        info.type.tensor_type.ClearField("shape")
    for weight in ("w", "v"):
        values = RNG.standard_normal((CHANNELS, CHANNELS, 1, 1)).astype(np.float32) / 4
        made.graph.initializer.append(onnx.numpy_helper.from_array(values, weight))
    return made


@campaign("a gate", "an output", "one after another")
@FOR_THIS_MACHINE
@pytest.mark.parametrize("name", MODELS)
def test_programs_of_open_sizes_write_over_what_is_read_last(name: str) -> None:
    made, (_, _, count) = make_model(name), MODELS[name]
    session, module = make_session(made), tw.compile(made, workers=0, num_threads=2)
    routine = module.manifest.program.routine
    assert routine is not None
    images = [step for step in routine.calls if (step.types[0][1] or ())[1:] == (None, None, CHANNELS)]
    assert sum("over" in step.facts for step in images) == count
    for shape in (
        (1, CHANNELS, 1, 1),
        (2, CHANNELS, 3, 5),
        (1, CHANNELS, 16, 16),
        (3, CHANNELS, 33, 31),
        (1, CHANNELS, 90, 50),
        (0, CHANNELS, 4, 4),
    ):
        x = RNG.standard_normal(shape, dtype=np.float32)
        for threads in (1, 2):
            module.num_threads = threads
            for got, want in zip(module(x), session.run(None, {"x": x}), strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3)
