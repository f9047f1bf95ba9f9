"""Calls that stand for ONNX's nodes become what the ONNX frontend makes of these."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ...core.errors import ModelError, first_line
from ...core.model import Model, Param
from ...core.sizes import Extent, Sym
from ...dialects import arith, builders, extents, func, ir, tensor
from ...dialects.types import DYNAMIC
from ...dialects.walk import collect
from ..nodes import NODE, Constant, OnnxNode
from ..onnx.importer import import_onnx
from ..onnx.proto.weights import DTYPES

_OPSETS = {"": 26, "com.microsoft": 1}


def inline_nodes(module: ir.Module, main: func.FuncOp) -> dict[str, Param]:
    """Put the body of each node in the place of its call; gives the weights that become the last arguments.

    Before::

        func.func private @tilewright.node.0(tensor<4x9xf32>) -> tensor<4x3xf32> attributes {tilewright.node = "{...}"}
        func.func @main(%x: tensor<4x9xf32>) { %y = call @tilewright.node.0(%x) ... }

    After::

        func.func @main(%x: tensor<4x9xf32>) { %y = linalg.generic ... }

    ModelError where such an attribute is not a node, and UnsupportedError where the node has no converter.
    """
    functions = [op for op in module.body.operations if isinstance(op, func.FuncOp)]
    declared = {f.name.value: f for f in functions if NODE in f.operation.attributes}
    params: dict[str, Param] = {}
    for call in collect(main, lambda op: op.name == "func.call"):
        name = ir.FlatSymbolRefAttr(call.attributes["callee"]).value
        if name not in declared:
            raise ModelError(f"'@{main.name.value}' calls '@{name}', which stands for no node")
        with ir.InsertionPoint(call), call.location:
            try:
                node = OnnxNode.from_json(ir.StringAttr(declared[name].operation.attributes[NODE]).value)
                model = _import_node(node, call)
                params |= _inline(call, node, model, main, f"{name}.")
            except (
                ValueError,
                KeyError,
                TypeError,
                StopIteration,
                RecursionError,
            ) as error:  # whatever the text has in their places
                raise ModelError(f"'@{name}' does not stand for a node: {first_line(error)}") from error
    for function in declared.values():
        function.operation.erase()
    block = main.entry_block
    kinds = ir.FunctionType.get([a.type for a in block.arguments], list(main.type.results))
    main.attributes["function_type"] = ir.TypeAttr.get(kinds)
    return params


def _import_node(node: OnnxNode, call: ir.Operation) -> Model:
    """The model of the node alone, with inputs of the operands' shapes: equal extents have equal names there."""
    names: dict[Extent, str] = {}
    operands = iter(call.operands)
    given, inputs, constants = [], [], []
    for number, one in enumerate(node.inputs):
        given.append("" if one is None else f"x{number}")
        if isinstance(one, Constant):
            constants.append(numpy_helper.from_array(np.asarray(one.values, one.dtype), given[-1]))
        elif one is not None:
            shape = builders.shape_of(next(operands))
            dims = [names.setdefault(n, f"n{len(names)}") if isinstance(n, Sym) else n for n in shape]
            inputs.append(helper.make_tensor_value_info(given[-1], _proto_type(one), dims))
    made = [helper.make_tensor_value_info(f"y{i}", _proto_type(d), None) for i, d in enumerate(node.results)]
    where = call.location.name_str if call.location.is_a_name() else node.op
    proto = helper.make_node(node.op, given, [info.name for info in made], where, domain=node.domain, **node.attributes)
    graph = helper.make_graph([proto], where or node.op, inputs, made, constants)
    opsets = [helper.make_opsetid(domain, version) for domain, version in _OPSETS.items()]
    return import_onnx(helper.make_model(graph, opset_imports=opsets, ir_version=onnx.IR_VERSION))


def _proto_type(dtype: str) -> int:
    """ONNX's number of a dtype; ModelError for a text that is none."""
    found = next((number for number, name in DTYPES.items() if name == dtype), None)
    if found is None:
        raise ModelError(f"a node has values of '{dtype}', which is no dtype")
    return found


def _inline(call: ir.Operation, node: OnnxNode, model: Model, main: func.FuncOp, prefix: str) -> dict[str, Param]:
    """Move the model's body into the place of the call; gives the model's weights by their new names."""
    text = model.module.operation.get_asm(enable_debug_info=True)
    module = ir.Module.parse(text, call.context)
    [function] = module.body.operations
    block = function.regions[0].blocks[0]
    params = {
        prefix + name: replace(param, info=replace(param.info, name=prefix + name))
        for name, param in model.params.items()
    }
    dtypes = [one for one in node.inputs if isinstance(one, str)]
    values = [_store_bytes(x) if dtype == "bool" else x for x, dtype in zip(call.operands, dtypes, strict=True)]
    arguments = list(block.arguments)
    if [x.type for x in values] != [a.type for a in arguments[: len(values)]]:
        raise ValueError("its operands are of other types")
    values += [main.entry_block.add_argument(a.type, call.location) for a in arguments[len(values) :]]
    for argument, value in zip(arguments, values, strict=True):
        argument.replace_all_uses_with(value)
    *body, returned = (op.operation for op in block.operations)
    for op in body:
        op.move_before(call)
    for old, made, dtype in zip(call.results, returned.operands, node.results, strict=True):
        made = _load_bits(made) if dtype == "bool" else made
        old.replace_all_uses_with(_as_type(made, old))
    call.erase()
    return params


def _store_bytes(x: ir.Value) -> ir.Value:
    """Bits as the bytes that the rules of ``@main`` have."""
    byte = ir.IntegerType.get_signless(8)
    return builders.elementwise(lambda bit: arith.extui(byte, bit), x, elem=byte)


def _load_bits(x: ir.Value) -> ir.Value:
    bit = ir.IntegerType.get_signless(1)
    return builders.elementwise(lambda byte: arith.trunci(bit, byte), x, elem=bit)


def _as_type(made: ir.Value, old: ir.Value) -> ir.Value:
    """The value, of whose extents as many are known, and by the same symbols, as of the one whose place it takes."""
    types = ir.RankedTensorType(made.type), ir.RankedTensorType(old.type)
    known = zip(*(type_.shape for type_ in types), strict=True)
    if types[0].element_type != types[1].element_type or any(a != b and DYNAMIC not in (a, b) for a, b in known):
        raise ValueError(f"its result is {made.type}")
    if made.type != old.type:
        made = tensor.CastOp(old.type, made).result
    shape = builders.shape_of(old)
    return extents.note(made, shape)
