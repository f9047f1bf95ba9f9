"""What is tuned in these tests: a product with a weight and what follows it, and a network of two products."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tilewright.driver import api
from tilewright.tuning.task import Task
from tilewright.tuning.tasks import extract_tasks


@pytest.fixture(scope="session")
def network() -> bytes:
    """``relu(x @ a) @ b`` with ``x`` of 23 x 37: sizes of which no kernel comes near to its bound."""
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(shape, np.float32) / 8 for shape in ((37, 53), (53, 19)))
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["m"], "first"),
        helper.make_node("Relu", ["m"], ["r"], "relu"),
        helper.make_node("MatMul", ["r", "b"], ["y"], "second"),
    ]
    x, y = (helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [23, k]) for n, k in (("x", 37), ("y", 19)))
    weights = [numpy_helper.from_array(a, "a"), numpy_helper.from_array(b, "b")]
    graph = helper.make_graph(nodes, "net", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10).SerializeToString()


@pytest.fixture(scope="session")
def tasks(network: bytes) -> list[Task]:
    """The network's kernels, for one thread."""
    return extract_tasks(network, options=api.make_options(num_threads=1, records=False))


@pytest.fixture(scope="session")
def product_task(tasks: list[Task]) -> Task:
    """The product that relu follows."""
    return next(task for task in tasks if "relu" in task.nodes)
