"""Frontends: each turns one model format into a `Model`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..dims import InputShapes
from ..inspection import CheckReport
from ..limits import ORDINARY, ModelLimits
from ..model import ForeignSource, Model, TensorInfo

if TYPE_CHECKING:
    import onnx


def foreign(
    source: Any, example_inputs: Sequence[Any] | None = None, dynamic_shapes: Any = None
) -> ForeignSource | None:
    """The source of another frontend than ONNX's that a user's object is, or None.

    Raises ModelError where it is one that cannot be used, UnsupportedError where torch cannot export it.
    """
    is_file = isinstance(source, (str, os.PathLike))
    if not (is_file and Path(source).suffix == ".pt2") and (is_file or "torch" not in sys.modules):
        return None  # an object of torch's cannot be where torch is not
    from .torch.source import torch_source

    return torch_source(source, example_inputs, dynamic_shapes)


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
