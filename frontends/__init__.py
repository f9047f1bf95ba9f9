"""Frontends: each turns one model format into a `Model`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..dims import InputShapes
from ..inspection import CheckReport
from ..limits import ORDINARY, ModelLimits
from ..model import Model, TensorInfo

if TYPE_CHECKING:
    import onnx


def import_model(
    source: str | Path | bytes | onnx.ModelProto,
    input_shapes: InputShapes | None = None,
    limits: ModelLimits = ORDINARY,
) -> Model:
    """Import an ONNX model from a path, its bytes or a ModelProto; ``input_shapes`` fixes what the file leaves open.

    Raises ModelError where the source is no valid model, UnsupportedError where it uses what cannot be converted.
    """
    from .onnx.importer import import_onnx  # imports MLIR and onnx, which `import tilewright` must not

    return import_onnx(source, input_shapes, limits=limits)


def model_inputs(
    source: str | Path | bytes | onnx.ModelProto,
    input_shapes: InputShapes | None = None,
    limits: ModelLimits = ORDINARY,
) -> tuple[TensorInfo, ...]:
    """The inputs that ``import_model`` would give the model, without the work of an import; open extents are symbols.

    Raises ModelError where the source is no model, or ``input_shapes`` does not fit its inputs.
    """
    from .onnx.importer import read_inputs

    return read_inputs(source, input_shapes, limits)


def examine_model(
    source: str | Path | bytes | onnx.ModelProto,
    input_shapes: InputShapes | None = None,
    limits: ModelLimits = ORDINARY,
) -> tuple[CheckReport, Model | None]:
    """All that can be said about a model without compiling it, and the model if it could be imported as it is."""
    from .onnx.examine import examine

    return examine(source, input_shapes, limits)
