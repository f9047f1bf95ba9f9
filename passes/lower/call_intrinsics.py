"""Tiles that are intrinsics become the calls that these are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ...dialects import arith, ir, llvm, tw
from ...dialects.builders import scalar
from ...dialects.walk import collect
from ..infra.base import Pass
from ..ir.addresses import point_to, strides_of
from ..ir.kernel import list_functions
from ..ir.structure import indexing_maps

_PASSED = {"float32": "f32", "float64": "f64", "int64": "i64", "uint64": "i64"}  # all others are passed as i32


@dataclass(frozen=True)
class CallIntrinsics(Pass):
    """Call C functions in place of the structured ops that a user has tensorized, with pointers to their operands.

    Before::

        linalg.generic {tw.intrinsic = "[['gemv', [['pointer', 2, 0], ['pointer', 0, 0], ['stride', 1, 0]]]]"}
            ins(%a: memref<64xf32>, %b: memref<16x64xf32, strided<[512, 1], offset: ?>>) outs(%c: memref<16xf32>)

    After::

        llvm.call %gemv(%c_pointer, %a_pointer, %c512) : !llvm.ptr, (!llvm.ptr, !llvm.ptr, i32) -> ()
    """

    name: ClassVar[str] = "call-intrinsics"

    def apply(self, module: ir.Module) -> None:
        """Rewrite all functions of the module."""
        for function in list_functions(module):
            for op in collect(function, lambda op: tw.INTRINSIC in op.attributes):
                with ir.InsertionPoint(op), op.location:
                    for name, arguments in json.loads(ir.StringAttr(op.attributes[tw.INTRINSIC]).value):
                        _declare(module, name)
                        _call(name, [_emit_argument(op, each) for each in arguments])
                op.erase()


def _declare(module: ir.Module, name: str) -> None:
    """Let the module know a function of somebody else's."""
    known = (op.attributes["sym_name"] for op in module.body.operations if op.operation.name == "llvm.func")
    if name not in {ir.StringAttr(each).value for each in known}:
        parsed = ir.Module.parse(f"llvm.func @{name}()")
        parsed.body.operations[0].operation.clone(ip=ir.InsertionPoint.at_block_begin(module.body))


def _call(name: str, arguments: Sequence[ir.Value]) -> None:
    """Call a function by its address: the types are those of the arguments."""
    pointer = llvm.AddressOfOp(ir.Type.parse("!llvm.ptr"), ir.FlatSymbolRefAttr.get(name)).result
    llvm.CallOp(None, [pointer, *arguments], [], [])


def _emit_argument(op: ir.Operation, argument: Sequence[Any]) -> ir.Value:
    kind, *given = argument
    if kind == "number":
        dtype, value = given
        return scalar(value, ir.Type.parse(_PASSED.get(dtype, "i32")))
    number, place = given
    operand = op.operands[int(number)]
    if kind == "pointer":
        return point_to(operand, _first_place(op, number), place)
    return arith.index_cast(ir.IntegerType.get_signless(32), strides_of(operand)[1][place])


def _first_place(op: ir.Operation, number: int) -> list[int]:
    """Where the first step of an op reads an operand, or writes it."""
    if op.name != "linalg.generic":
        return []
    indices = indexing_maps(op)[number]
    zeros = ir.AffineMap.get(0, 0, [ir.AffineExpr.get_constant(0)] * indices.n_dims)
    return [ir.AffineConstantExpr(index.compose(zeros)).value for index in indices.results]
