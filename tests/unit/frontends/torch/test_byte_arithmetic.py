"""Programs on bytes: they compute as torch does, and what only moves elements stays a program on bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tilewright.frontends.torch.byte_arithmetic import widen_bytes

UNSIGNED = torch.tensor([[0, 7, 200, 255], [128, 3, 100, 1]], dtype=torch.uint8)


def widened(compute: Callable[..., Any], *given: torch.Tensor) -> torch.fx.GraphModule:
    """A function's graph behind the pass; it runs."""

    class Module(torch.nn.Module):
        def forward(self, *inputs: torch.Tensor) -> Any:
            return compute(*inputs)

    program = torch.export.export(Module(), given).run_decompositions()
    widen_bytes(program.graph)
    return torch.fx.GraphModule({}, program.graph)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8])
@pytest.mark.parametrize(
    "compute",
    [
        lambda x: (x * 0.5, x + x, x - 9, x // 3, x > 100),
        lambda x: (x.sum(1, dtype=x.dtype), x.prod(), x.cumsum(0)),
        lambda x: (*x.max(1), torch.cat((x, x.int())), x.abs()),
    ],
    ids=["elements", "sums", "several results"],
)
def test_results_are_those_of_bytes(compute, dtype):
    x = UNSIGNED.view(dtype)
    found = widened(compute, x)(x)
    for a, b in zip(found, compute(x), strict=True):
        torch.testing.assert_close(a, b)


def test_values_are_noted_with_the_dtypes_that_they_have():
    graph = widened(lambda x: x.max(1), UNSIGNED).graph
    noted = {node.name: node.meta["val"] for node in graph.nodes if node.op == "call_function"}
    assert [part.dtype for part in noted["max_1"]] == [torch.int32, torch.int64]
    [output] = graph.find_nodes(op="output")
    assert [node.meta["val"].dtype for node in output.args[0]] == [torch.uint8, torch.int64]


def test_moves_and_constants_are_left_alone():
    def move(x: torch.Tensor) -> Any:
        return torch.cat((x, x)), x.T[1:], torch.where(x > 0, x, x.flip(0)), x.new_zeros(2), x[:, [1, 0]]

    graph = widened(move, UNSIGNED).graph
    conversions = graph.find_nodes(op="call_function", target=torch.ops.prims.convert_element_type.default)
    assert [user.target for node in conversions for user in node.users] == [torch.ops.aten.gt.Scalar]
