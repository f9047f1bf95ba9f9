"""Zoo networks that onnxruntime's quantiser has quantised, against onnxruntime, which multiplies integers too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from agreement import program
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static

from tilewright.tools import networks
from tilewright.tools.debugging.oracle import make_session

SIZE = 64
RNG = np.random.default_rng(0)


def image() -> np.ndarray:
    return RNG.standard_normal((1, 3, SIZE, SIZE)).astype(np.float32)


class Samples(CalibrationDataReader):
    """Two random images."""

    def __init__(self) -> None:
        self.left = [{"pixel_values": image()} for _ in range(2)]

    def get_next(self) -> Any:
        return self.left.pop() if self.left else None


def small(name: str, folder: Path) -> Path:
    """A network of images as a file, for smaller ones."""
    model = networks.build(name)
    del model.graph.value_info[:]
    for dim in model.graph.input[0].type.tensor_type.shape.dim[2:]:
        dim.dim_value = SIZE
    onnx.save(model, folder / f"{name}.onnx")
    return folder / f"{name}.onnx"


def outputs(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Ours and onnxruntime's."""
    x = image()
    want = make_session(path).run(None, {"pixel_values": x})[0]
    return np.asarray(program(path).run({"pixel_values": x})[0]), np.asarray(want)


@pytest.mark.slow
def test_squeezenet_quantised_statically(tmp_path):
    model = tmp_path / "quantized.onnx"
    types: Any = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8}
    source = small("squeezenet1_1", tmp_path)
    made = {"quant_format": QuantFormat.QDQ, "per_channel": True, "reduce_range": True}  # see exact_weights.py
    quantize_static(source, model, Samples(), **made, **types)
    got, want = outputs(model)
    steps = np.unique(want)  # all lie on one grid
    assert np.abs(got - want).max() <= 1.01 * np.diff(steps).min()
    assert (np.abs(got - want) > 1e-6).mean() < 0.02


@pytest.mark.slow
def test_squeezenet_quantised_dynamically(tmp_path):
    model = tmp_path / "quantized.onnx"
    quantize_dynamic(small("squeezenet1_1", tmp_path), model, weight_type=QuantType.QInt8, reduce_range=True)
    got, want = outputs(model)
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3 * np.abs(want).max())
