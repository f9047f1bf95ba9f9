"""The zoo's networks against onnxruntime."""

import numpy as np
import onnx
import pytest
from agreement import check, program

from tilewright.tools import networks
from tilewright.tools.debugging.oracle import make_session
from tilewright.tools.run import make_inputs

QUICK = ("resnet18",)
WORDS = 30_000  # in the vocabulary of each text network, at least


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in networks.NAMES])
def test_answers_are_those_of_onnxruntime(name, tmp_path):
    path = tmp_path / f"{name}.onnx"
    onnx.save(networks.build(name), path)
    module = program(path)
    inputs = make_inputs(module.inputs, "random", seed=7)
    if "input_ids" in inputs:
        inputs["input_ids"] = np.random.default_rng(7).integers(0, WORDS, inputs["input_ids"].shape)
    got = module.run(inputs)
    session = make_session(path)
    check(module.outputs, got, session.run(None, inputs))
