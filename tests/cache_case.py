"""What the tests of the compile cache share: a small model, its compilation and its check, and entries on disk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import external_data_helper, helper, numpy_helper

import tilewright as tw
from tilewright.core.sizes import require_static
from tilewright.driver.cache.store import Cache

KEY = "ab" * 32


def model(value: float = 1.0, external: bool = False) -> onnx.ModelProto:
    """``y = tanh(x @ w)``: one prepared weight."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"], "matmul"), helper.make_node("Tanh", ["m"], ["y"], "tanh")]
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 32])
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", 48])
    graph = helper.make_graph(nodes, "net", [x], [y], [numpy_helper.from_array(weight(value), "w")])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    if external:
        external_data_helper.convert_model_to_external_data(made, location="w.bin", size_threshold=0)
    return made


def weight(value: float = 1.0) -> np.ndarray:
    """The weight of ``model``."""
    return np.full((32, 48), value, np.float32) / 32


def built(source, rows=4, **options) -> tw.Module:
    """The model, compiled in this process."""
    return tw.compile(source, input_shapes={"x": (rows, 32)}, workers=0, **options)


def check(lib: tw.Module, value: float = 1.0) -> None:
    """Compare a run with numpy's."""
    x = np.random.default_rng(0).standard_normal((require_static(lib.inputs[0].shape[0]), 32), np.float32)
    np.testing.assert_allclose(lib(x)[0], np.tanh(x @ weight(value)), rtol=1e-5, atol=1e-6)


def count(folder: Path, kind: str) -> int:
    """How many entries of a kind a cache has."""
    return sum(item.kind == kind for item in Cache(folder).items())


def only(folder: Path, kind: str) -> Path:
    """The file of the one entry of a kind."""
    [item] = [item for item in Cache(folder).items() if item.kind == kind]
    return item.path


def damage(path: Path, how: str) -> None:
    """Spoil a file: one bit ``flipped``, ``truncated`` to its half, ``foreign`` or ``empty``."""
    data = path.read_bytes()
    new = {"flipped": data[:-1] + bytes([data[-1] ^ 1]), "truncated": data[: len(data) // 2], "foreign": b"no entry"}
    path.write_bytes({**new, "empty": b""}[how])
