"""Models of which only the run knows the sizes of the inputs."""

from __future__ import annotations

import onnx

_TYPES_OF_SHAPES = (onnx.TensorProto.INT32, onnx.TensorProto.INT64)


def open_sizes(model: onnx.ModelProto) -> tuple[onnx.ModelProto, list[str]]:
    """A copy whose inputs have open extents, each under a name of its own, and the names of inputs that keep theirs.

    Those are vectors of integers: ranks are made of their lengths. Initializers are no inputs.
    """
    opened, kept = onnx.ModelProto.FromString(model.SerializeToString()), []
    known = {tensor.name for tensor in opened.graph.initializer}
    for info in opened.graph.input:
        tensor = info.type.tensor_type
        if info.name in known:
            continue
        if len(tensor.shape.dim) == 1 and tensor.elem_type in _TYPES_OF_SHAPES:
            kept.append(info.name)
            continue
        for axis, dim in enumerate(tensor.shape.dim):
            dim.dim_param = f"{info.name}_{axis}"
    for info in opened.graph.output:
        if info.type.HasField("tensor_type"):
            info.type.tensor_type.ClearField("shape")
    del opened.graph.value_info[:]
    return opened, kept
