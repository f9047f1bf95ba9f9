"""``relay.frontend.from_onnx``: networks of ONNX."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ...core.errors import ModelError
from ...driver.api import import_model
from .. import nd
from ..ir import IRModule
from ..network.types import Any

if TYPE_CHECKING:
    from onnx import ModelProto

    from ...core.model import Model


def from_onnx(
    model: ModelProto | str | os.PathLike[str] | bytes,
    shape: Mapping[str, Sequence[int | Any | str]] | None = None,
    dtype: str | Mapping[str, str] | None = "float32",
    opset: int | None = None,
    freeze_params: bool = True,
    convert_config: Mapping[str, object] | None = None,
    export_node_renamed_model_path: str | None = None,
) -> tuple[IRModule, dict[str, nd.NDArray]]:
    """A network, and its weights by name; the ONNX model may also be a file's path, or its bytes.

    ``shape`` has those of inputs that the file leaves open; ``relay.Any()`` keeps an extent open. The module has its
    weights with it, whether ``freeze_params`` or not: the dict shows them, and ``relay.build`` takes others from it.

    Raises ModelError, and UnsupportedError, as ``tw.import_model``, and for what has no meaning here: another ``opset``
    or ``dtype`` than the file's, ``convert_config``, and a file of renamed nodes.
    """
    if convert_config:
        raise ModelError(f"convert_config has {', '.join(convert_config)}, which change nothing here: leave it out")
    if export_node_renamed_model_path is not None:
        raise ModelError("nodes keep the names of the file: leave export_node_renamed_model_path out")
    shapes = None if shape is None else {name: _open_shape(each) for name, each in shape.items()}
    made = import_model(model, shapes)
    _refuse_opset(model, opset)
    _refuse_dtypes(made, dtype)
    return IRModule.of_model(made), {name: nd.array(param.array()) for name, param in made.params.items()}


def _open_shape(shape: Sequence[int | Any | str]) -> list[int | str]:
    return ["?" if isinstance(extent, Any) else extent for extent in shape]


def _refuse_opset(model: ModelProto | str | os.PathLike[str] | bytes, opset: int | None) -> None:
    if opset is None or isinstance(model, str | os.PathLike | bytes):
        own = opset
    else:
        own = next((each.version for each in model.opset_import if not each.domain), opset)
    if opset != own:
        raise ModelError(f"opset is {opset}, and that of the model {own}: leave it out")


def _refuse_dtypes(model: Model, dtype: str | Mapping[str, str] | None) -> None:
    if not isinstance(dtype, Mapping):
        return  # what TVM takes for inputs without a type, which no ONNX model has
    own = {info.name: info.dtype for info in model.inputs}
    for name, given in dtype.items():
        if own.get(name, given) != given:
            raise ModelError(f"input '{name}' is {own[name]} in the model, not {given}: leave dtype out")
