"""``relay.frontend.from_pytorch``: TorchScript modules, by PyTorch's own export to ONNX."""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...core.errors import ModelError
from .. import nd
from ..network.module import IRModule
from ..network.types import TensorType
from .onnx_files import from_onnx

if TYPE_CHECKING:
    from torch import Tensor

_EXAMPLE = 2  # the extent that open ones have in the export
_OPSET = 17


def from_pytorch(
    script_module: Any,
    input_infos: Sequence[Any],
    custom_convert_map: Mapping[str, Any] | None = None,
    default_dtype: str = "float32",
    use_parser_friendly_name: bool = False,
    keep_quantized_weight: bool = False,
    export_renamed_c_graph_path: str | None = None,
    **others: Any,
) -> tuple[IRModule, dict[str, nd.NDArray]]:
    """A network, and its weights by name, of a traced, a scripted or another module of PyTorch's.

    ``input_infos`` are the inputs in order: names and shapes, ``[("input0", (1, 3, 224, 224))]``, or names and pairs of
    a shape and a dtype. ``relay.Any()`` keeps an extent open.

    Raises ModelError for what PyTorch does not export, and for ``custom_convert_map``; else as ``from_onnx``.
    """
    if custom_convert_map or others:
        names = ", ".join(["custom_convert_map", *others] if custom_convert_map else others)
        raise ModelError(f"relay.frontend.from_pytorch has no {names}: tw.register_op gives operators of your own")
    inputs = [_read_info(each, default_dtype) for each in input_infos]
    text = _export(script_module, inputs)
    return from_onnx(text)


def _read_info(given: Any, default: str) -> tuple[str, TensorType]:
    """The name and the type of an input. Raises ModelError for what is none."""
    try:
        name, described = given
        shape, dtype = described if len(described) == 2 and isinstance(described[1], str) else (described, default)
        made = TensorType(tuple(shape), {"float": "float32", "double": "float64", "int": "int32"}.get(dtype, dtype))
    except (TypeError, ValueError) as error:
        raise ModelError(f"an input is a name and a shape, ('input0', (1, 3, 224, 224)), not {given!r}") from error
    if not isinstance(name, str):
        raise ModelError(f"an input is a name and a shape, ('input0', (1, 3, 224, 224)), not {given!r}")
    return name, made


def _make_example(known: TensorType) -> Tensor:
    import torch

    shape = [each if isinstance(each, int) else _EXAMPLE for each in known.shape]
    return torch.zeros(shape, dtype=getattr(torch, known.dtype))


def _export(script_module: Any, inputs: Sequence[tuple[str, TensorType]]) -> bytes:
    """The ONNX model as bytes."""
    import torch

    if not isinstance(script_module, torch.nn.Module):
        raise ModelError(f"relay.frontend.from_pytorch takes a torch module, not a {type(script_module).__name__}")
    dynamic = {
        name: {axis: f"{name}_{axis}" for axis, each in enumerate(known.shape) if not isinstance(each, int)}
        for name, known in inputs
    }
    made = io.BytesIO()
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")  # that a newer exporter is there, which takes no TorchScript
            torch.onnx.export(
                script_module,
                tuple(_make_example(known) for _, known in inputs),
                made,  # type: ignore[arg-type]  # this exporter writes to files that are open, too
                input_names=[name for name, _ in inputs],
                dynamic_axes={name: axes for name, axes in dynamic.items() if axes},
                opset_version=_OPSET,
                dynamo=False,
            )
    except Exception as error:  # whatever the module and the exporter raise
        reason = " ".join(str(error).split())[:300]
        raise ModelError(f"PyTorch does not export the module to ONNX: {reason}; tw.compile takes others") from error
    return made.getvalue()
