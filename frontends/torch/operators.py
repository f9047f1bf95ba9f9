"""Operators that are not torch's own: ours, of grouped products and recurrent networks; others are refused by name.

A conversion worker has torch alone: what other libraries, and users by ``torch.library``, have registered is not there.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import torch
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.overrides import TorchFunctionMode

from ...core.errors import UnsupportedError

OWN = ("aten", "prims", "quantized_decomposed")  # whose operators are there wherever torch is

# The product of groups of rows with a matrix each, which mixtures of experts have: of (rows, k), (groups, k, n) and
# where each group ends. Rows behind the last group give zeros.
_LIBRARY = torch.library.Library("tilewright", "DEF")
_LIBRARY.define("grouped_mm(Tensor rows, Tensor matrices, Tensor ends) -> Tensor")
GROUPED = torch.ops.tilewright.grouped_mm.default
GROUPED_TARGET = "torch.ops.tilewright.grouped_mm.default"
GROUPED_ARGUMENTS = tuple(argument.name for argument in GROUPED._schema.arguments)
# What other libraries have for it, and their names of its arguments: transformers, where torch has none for a dtype.
STAND_INS = {"transformers::grouped_mm_fallback": ("input", "weight", "offs")}

# Recurrent networks, by their functions in torch: torch.export would run them, and take as many steps for a constant.
RECURRENT = {name: getattr(torch, name) for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")}
for _name in RECURRENT:
    _schema = str(getattr(torch.ops.aten, _name).input._schema)
    _LIBRARY.define(_name + _schema[_schema.index("(") :])
_OURS = (GROUPED, *(getattr(torch.ops.tilewright, name).default for name in RECURRENT))


@torch.library.register_fake("tilewright::grouped_mm", lib=_LIBRARY)
def _grouped_shape(rows: torch.Tensor, matrices: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    return rows.new_empty(rows.shape[0], matrices.shape[2])


def _register_shapes(name: str) -> None:
    """Say what a recurrent network gives: the last layer's states at all steps, and those of all layers at the end."""

    @torch.library.register_fake(f"tilewright::{name}", lib=_LIBRARY)
    def _(x: torch.Tensor, hx: Any, params: Any, *how: Any) -> tuple[torch.Tensor, ...]:
        states = hx if isinstance(hx, list | tuple) else [hx]
        bidirectional = how[-2]
        width = states[0].shape[-1] * (1 + bidirectional)
        return x.new_empty(*x.shape[:-1], width), *(torch.empty_like(state) for state in states)


for _name in RECURRENT:
    _register_shapes(_name)


class KeepingRecurrent(TorchFunctionMode):
    """Within it, a recurrent network is one operator of ours, for any number of steps."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call our operator, unless steps differ within a batch, or a dropout is to be drawn."""
        name = next((name for name, own in RECURRENT.items() if own is func), None)
        if name is None or kwargs or len(args) != 9 or not isinstance(args[2], list | tuple):
            return func(*args, **(kwargs or {}))
        _, _, _, _, _, dropout, train, _, _ = args
        return func(*args) if dropout and train else getattr(torch.ops.tilewright, name)(*args)


def with_own_operators(program: ExportedProgram, name: str) -> ExportedProgram:
    """The program, or a copy, with operators of torch's and ours alone.

    UnsupportedError, which calls it ``name``, for another operator: where it is, and what to do.
    """
    found = list(_foreign(program.graph_module))
    for node in found:
        if _schema_name(node) not in STAND_INS:
            what = f"'{_schema_name(node)}' is an operator of another library, or your own, and has no conversion"
            remedy = "write it with torch's operators, or leave it in torch"
            raise UnsupportedError(f"{name}: {name_of(node)}: {what}: {remedy}")
    if not found:
        return program
    program = copy.copy(program)
    program._graph_module = copy.deepcopy(program.graph_module)
    for node in _foreign(program.graph_module):
        names = STAND_INS[_schema_name(node)]
        given = dict(zip(names, node.args, strict=False)) | node.kwargs
        node.target, node.args, node.kwargs = GROUPED, tuple(given[argument] for argument in names), {}
    return program


def _foreign(root: GraphModule) -> Iterator[Node]:
    graphs = [module.graph for module in root.modules() if isinstance(module, GraphModule)]
    for node in (node for graph in graphs for node in graph.nodes):
        if isinstance(node.target, OpOverload) and node.target not in _OURS and node.target.namespace not in OWN:
            yield node


def _schema_name(node: Node) -> str:
    assert isinstance(node.target, OpOverload)
    return node.target._schema.name


def name_of(node: Node) -> str:
    """``layer1.0.conv1`` for what a module of torch's own computes, ``layer1.0/add_3`` for an op between modules."""
    stack = list(node.meta.get("nn_module_stack", {}).values())
    path, kind = (stack[-1][0], str(stack[-1][1])) if stack else ("", "")
    path = path.replace("L['self'].", "").replace("L['self']", "")
    own = kind.startswith("torch.nn.modules.") and ".container." not in kind
    return path if own and path else "/".join(filter(None, (path, node.name)))
