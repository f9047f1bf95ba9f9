"""The runtimes that ``tilewright bench`` compares with, behind one small interface."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np

from tilewright.core.errors import InputError, ModelError

Shapes = Mapping[str, Sequence[int]]


class Rival:
    """A model in another runtime, in float32 on ``threads`` threads."""

    package: ClassVar[str]

    def __init__(self, path: str, shapes: Shapes, threads: int) -> None:
        raise NotImplementedError

    def run(self, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """The outputs, in the model's order."""
        raise NotImplementedError


class OnnxRuntime(Rival):
    """onnxruntime's CPU provider with all optimisations (its default)."""

    package = "onnxruntime"

    def __init__(self, path: str, shapes: Shapes, threads: int) -> None:
        ort = importlib.import_module(self.package)
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
        options.log_severity_level = 3  # errors alone
        self._session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def run(self, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """The outputs, in the model's order."""
        return self._session.run(None, dict(inputs))


class OpenVino(Rival):
    """OpenVINO's CPU plug-in, one stream, tuned for latency; by itself it would compute in bfloat16 where it can."""

    package = "openvino"

    def __init__(self, path: str, shapes: Shapes, threads: int) -> None:
        ov = importlib.import_module(self.package)
        core = ov.Core()
        model = core.read_model(path)
        if shapes:
            model.reshape({name: list(shape) for name, shape in shapes.items()})
        settings = {
            "INFERENCE_PRECISION_HINT": "f32",
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": 1,
            "PERFORMANCE_HINT": "LATENCY",
        }
        self._request = core.compile_model(model, "CPU", settings).create_infer_request()

    def run(self, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """The outputs, in the model's order."""
        results: Any = self._request.infer(dict(inputs), share_inputs=True)
        return list(results.to_tuple())


class DynamicProgram(Rival):
    """Our own program for all sizes that the file leaves open."""

    package = "tilewright"

    def __init__(self, path: str, shapes: Shapes, threads: int) -> None:
        self._module = importlib.import_module(self.package).compile(path, num_threads=threads)

    def run(self, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """The outputs, in the model's order."""
        return self._module.run(dict(inputs))


RIVALS: dict[str, type[Rival]] = {"onnxruntime": OnnxRuntime, "openvino": OpenVino, "open": DynamicProgram}


def require_rival(name: str) -> None:
    """Refuse in one line where the rival's package is not installed. Does not import it."""
    package = RIVALS[name].package
    if importlib.util.find_spec(package) is None:
        raise InputError(f"cannot compare with {name}: the package is not installed (pip install {package})")


@contextmanager
def translating_errors(name: str, path: str) -> Iterator[None]:
    """Turn whatever the rival ``name`` raises into a ModelError of one line."""
    try:
        yield
    except Exception as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ModelError(f"{name} cannot run '{path}': {reason}") from error
