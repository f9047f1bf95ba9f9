"""Frontends: each turns one model format into a `Model`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.codegens import CodegenChoice
from ..core.dims import InputShapes
from ..core.errors import ModelError
from ..core.limits import ORDINARY, ModelLimits
from ..core.model import Model, TensorInfo
from ..core.report import CheckReport
from .foreign import ForeignSource

if TYPE_CHECKING:
    import onnx


def find_foreign_source(source: Any, example_inputs: Any = None, dynamic_shapes: Any = None) -> ForeignSource | None:
    """The source of another frontend than ONNX's that a user's object is, or None.

    Raises ModelError where it is one that cannot be used, UnsupportedError where torch cannot export it.
    """
    is_file = isinstance(source, (str, os.PathLike))
    if not (is_file and Path(source).suffix == ".pt2") and (is_file or "torch" not in sys.modules):
        return None  # an object of torch's cannot be where torch is not
    from .torch.source import torch_source

    return torch_source(source, example_inputs, dynamic_shapes)


def from_pytorch(
    program: Any,
    input_infos: Sequence[TensorInfo | tuple[Any, ...]] | None = None,
    example_inputs: Sequence[Any] | None = None,
) -> Model:
    """The model of an ``nn.Module``, a scripted or exported program, or an exported one's file, for ``build``.

    ``input_infos`` names the inputs, and where there are no ``example_inputs`` says what to export with: for each a
    ``TensorInfo``, or name, shape and dtype (float32 if there is none). A worker converts it, and this process parses
    the result. Raises ModelError for what is none of them, UnsupportedError for what cannot be exported or converted.
    """
    from ..workers import get_pool
    from ..workers.process import CONVERTER, Job
    from .linalg.importer import import_linalg
    from .torch.source import of_program

    source, names = of_program(program, input_infos, example_inputs)
    [answer] = get_pool(1, CONVERTER).run([Job(f"the conversion of {source.name}", *source.conversion())])
    text = source.read_answer(answer)
    inputs = rename_inputs(text.inputs, names)
    return import_linalg(text.text, inputs, text.outputs, text.params, text.name, text.samples)


def from_torch_mlir(text: str | bytes, name: str = "model") -> Model:
    """The model of linalg on tensors that torch-mlir, or another compiler, made elsewhere, for ``build``.

    Its module has one function, whose arguments are the inputs ``arg0`` and so on. ModelError for another text.
    """
    from .linalg.importer import import_linalg

    return import_linalg(text, name=name)


def rename_inputs(infos: Sequence[TensorInfo], names: Sequence[str] | None) -> tuple[TensorInfo, ...]:
    """Inputs with the names that a user gives; ModelError where these are not as many."""
    if names is None:
        return tuple(infos)
    if len(names) != len(infos):
        raise ModelError(f"there are {len(names)} input_infos for {len(infos)} inputs: give one for each")
    return tuple(replace(info, name=name) for info, name in zip(infos, names, strict=True))


def import_model(
    source: str | Path | bytes | onnx.ModelProto,
    input_shapes: InputShapes | None = None,
    limits: ModelLimits = ORDINARY,
    codegens: CodegenChoice | None = None,
) -> Model:
    """Import an ONNX model from a path, its bytes or a ModelProto; ``input_shapes`` fixes what the file leaves open.

    ``codegens`` are those of the user that compile parts of it. Raises ModelError where the source is no valid model,
    UnsupportedError where it uses what cannot be converted, CompileError where a code generator fails.
    """
    from .onnx.importer import import_onnx  # imports MLIR and onnx, which `import tilewright` must not

    return import_onnx(source, input_shapes, limits=limits, codegens=codegens)


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
    codegens: CodegenChoice | None = None,
) -> tuple[CheckReport, Model | None]:
    """All that can be said about a model without compiling it, and the model if it could be imported as it is.

    ``codegens`` are those of the user that are asked what they support.
    """
    from .onnx.examine.report import examine

    return examine(source, input_shapes, limits, codegens)
