"""Real pretrained models against recorded answers: each case of each model, with the weights that people use."""

import json

import numpy as np
import pytest
from agreement import TOLERANCE, check, program

# The recorded cases of each model, as the folder's index.json lists them.
CASES = {
    "pp_ocr_cls": ("down", "up"),
    "pp_ocr_det": ("rand320", "text160x640"),
    "pp_ocr_rec": ("line1", "line2"),
    "magika": ("batch4", "pyfile"),
    "centerface": ("b2_256x320", "china480x640"),
    "basic_pitch": ("tones",),
    "silero_vad_openvino_16k": ("first", "speech"),
}
# Random pixels drive this network's last sigmoid to 1e-7: the recorded answer itself has that much rounding in it.
# onnxruntime without its optimiser is 1.7e-4 away from what it recorded with it.
ILL_CONDITIONED = {("pp_ocr_det", "rand320"): 2e-4}


@pytest.mark.parametrize("name, case", [(name, case) for name, cases in CASES.items() for case in cases])
def test_answers_are_the_recorded_ones(name, case, shared_models):
    folder = shared_models / name
    with np.load(folder / f"{case}_inputs.npz") as file:
        inputs = dict(file)
    with np.load(folder / f"{case}_outputs.npz") as file:
        want = [file[key] for key in sorted(file.files, key=position)]
    module = program(folder / "model.onnx", tuple((key, array.shape) for key, array in inputs.items()))
    check(module.outputs, module.run(inputs), want, ILL_CONDITIONED.get((name, case), TOLERANCE))


def position(key: str) -> int:
    """The number in ``out1__name``: where the output stands among the model's."""
    return int(key.removeprefix("out").partition("__")[0])


def test_no_recorded_case_is_left_out(shared_models):
    index = json.loads((shared_models / "index.json").read_text())
    assert {name: tuple(index[name]["cases"]) for name in CASES} == CASES
