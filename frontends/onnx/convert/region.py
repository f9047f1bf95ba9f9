"""Subgraphs that a code generator of a user has compiled: each is one call of the program."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ....codegens.service import GeneratedCode
from ....core.sizes import Extent, Sym
from ....core.subgraph_code import HOST_FUNCTION, describe_subgraph
from ....core.subgraphs import Subgraph, SubgraphValue
from ....dialects import builders, extents, ir
from ....dialects.types import element_type
from ..state.context import Context
from ..values.objects import Element
from ..values.tensor import Tensor

DOMAIN = "tilewright.codegen"  # of the nodes that stand for subgraphs in a graph


@dataclass(frozen=True)
class CompiledRegion:
    """A subgraph with its code; ``syms`` are the extents that its texts stand for."""

    codegen: str
    subgraph: Subgraph
    code: GeneratedCode
    syms: Mapping[str, Sym]

    def shape_of(self, value: SubgraphValue) -> tuple[Extent, ...]:
        """The shape of one of its values."""
        return tuple(self.syms[n] if isinstance(n, str) else n for n in value.shape)

    @property
    def nodes(self) -> list[str]:
        """The names of its nodes."""
        return [node.name for node in self.subgraph.nodes]


def convert_region(ctx: Context, region: CompiledRegion, inputs: Sequence[Tensor]) -> list[Tensor]:
    """The call that computes a subgraph; ``inputs`` are its own, and then the constants that its code wants."""
    with ir.Location.fused([ir.Location.name(name) for name in region.nodes]):
        return _call_native(ctx, region, inputs) if region.code.native else _call_host(ctx, region, inputs)


def _call_native(ctx: Context, region: CompiledRegion, inputs: Sequence[Tensor]) -> list[Tensor]:
    native, outputs = region.code.native, region.subgraph.outputs
    assert native is not None
    shapes = [region.shape_of(value) for value in outputs]
    kinds = [
        builders.ranked_type(shape, element_type(value.dtype)) for shape, value in zip(shapes, outputs, strict=True)
    ]
    results = [extent for shape in shapes for extent in shape if isinstance(extent, Sym)]
    sizes = [extent for tensor in inputs for extent in tensor.shape if isinstance(extent, Sym)] + results
    call = ctx.graph.entry.call_external(
        native,
        [tensor.value for tensor in inputs],
        [extents.index(extent) for extent in results],
        kinds,
        [sizes.index(region.syms[text]) for text in region.subgraph.extents],
    )
    made = zip(list(call.results)[:-1], shapes, outputs, strict=True)  # the last one is the status
    return [_wrap_output(value, shape, output) for value, shape, output in made]


def _wrap_output(value: ir.Value, shape: tuple[Extent, ...], output: SubgraphValue) -> Tensor:
    extents.note(value, shape)
    return Tensor(output.dtype, shape, lambda: value)


def _call_host(ctx: Context, region: CompiledRegion, inputs: Sequence[Tensor]) -> list[Tensor]:
    subgraph, code = region.subgraph, region.code
    made = ctx.host(
        HOST_FUNCTION,
        inputs,
        *(Element(value.dtype, len(value.shape)) for value in subgraph.outputs),
        codegen=region.codegen,
        subgraph=subgraph.name,
        nodes=region.nodes,
        payload=base64.b64encode(code.payload).decode(),
        key=code.function,
        outputs=[[n if isinstance(n, int) else None for n in value.shape] for value in subgraph.outputs],
    )
    what = describe_subgraph(region.codegen, subgraph.name, region.nodes)
    results = []
    for number, (tensor, value) in enumerate(zip(made, subgraph.outputs, strict=True)):
        wanted = [str(extent) for extent in value.shape]
        misfit = f"{what}: its output {number} has not the shape [{', '.join(wanted)}]"
        results.append(ctx.fit_shape(tensor, region.shape_of(value), misfit))
    return results


def take_constant(ctx: Context, tensor: Tensor, name: str) -> Tensor:
    """A constant that is passed to a subgraph, in memory of its own."""
    known = tensor.known
    return tensor if known is None else ctx.graph.entry.add_param(np.asarray(known), tensor.dtype, name)
