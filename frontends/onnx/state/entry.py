"""The entry of the program that an import makes: weights are its arguments, constants and calls of the host its ops."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence

import numpy as np
from onnx import TensorProto

from ....core.errors import ModelError
from ....core.externals import Externals
from ....core.model import Param, TensorInfo, store_data
from ....core.subgraph_code import SubgraphCode
from ....dialects import builders, func, ir, tw
from ....dialects.types import element_type
from ..proto.weights import Detached, dtype_name
from ..values.objects import TEXT, Element, Object
from ..values.tensor import Tensor

_MAX_FLOATS = 4  # elements of a constant of floats in the IR, unless it is a splat


class EntryBlock:
    """The first block of the function that is being made, with ``params``, the weights that become its arguments."""

    def __init__(self, detached: Detached, block: ir.Block) -> None:
        self.block = block
        self.params: dict[str, Param] = {}
        self._detached = detached
        self._host_functions: dict[tuple[str, str, str], str] = {}
        self.externals: list[Externals] = []  # what operators call that their users have written
        self._operators: set[str] = set()
        self.code: dict[str, SubgraphCode] = {}  # what the calls need that code generators of users have made
        self._external: dict[tuple[str, str, str, str], str] = {}
        self._initializers: dict[int, tuple[TensorProto, Tensor]] = {}  # by identity, which lasts while they are kept

    def drop_unused(self) -> None:
        """Forget the weights that only a draft read which was dropped (see ``loops.Draft``)."""
        first = len(self.block.arguments) - len(self.params)
        for i, name in reversed(list(enumerate(self.params, first))):
            if not any(True for _ in self.block.arguments[i].uses):
                self.block.erase_argument(i)
                del self.params[name]

    def initializer(self, tensor: TensorProto, name: str) -> Tensor:
        """A tensor of the file: known if it is small, else a weight that becomes a param when it is used.

        However often the graph that it belongs to is converted (a loop's body), it is one weight.
        """
        if id(tensor) not in self._initializers:
            self._initializers[id(tensor)] = (tensor, self._initializer(tensor, name))
        return self._initializers[id(tensor)][1]

    def _initializer(self, tensor: TensorProto, name: str) -> Tensor:
        if tensor.data_type == TensorProto.STRING:
            return self.text(tensor.string_data, tensor.dims)
        dtype = dtype_name(tensor.data_type, f"tensor '{name}'")
        source = self._detached.source(tensor)
        shape = tuple(tensor.dims)
        if math.prod(shape) <= builders.MAX_CONSTANT:
            return self.add_known(np.array(self._detached.array(tensor)), dtype, name)
        param = Param(TensorInfo(name, shape, dtype), source)
        return Tensor(dtype, shape, lambda: self._argument(param), load=param.array)

    def add_known(self, array: np.ndarray, dtype: str, name: str) -> Tensor:
        """A value that the import knows: a constant in the IR if it is small or a splat, else a param."""
        # What a convolution's channels are scaled with is no part of a kernel: kernels that differ in it are one.
        most = _MAX_FLOATS if dtype.startswith(("float", "bfloat")) else builders.MAX_CONSTANT
        if array.size <= most or builders.is_splat(array):
            return Tensor(dtype, array.shape, lambda: self._constant(array, dtype), known=array)
        param = Param(TensorInfo(name, array.shape, dtype), np.ascontiguousarray(array))
        return Tensor(dtype, array.shape, lambda: self._argument(param), known=array)

    def add_param(self, array: np.ndarray, dtype: str, name: str) -> Tensor:
        """A value that the import knows, as a weight however small it is."""
        param = Param(TensorInfo(name, array.shape, dtype), np.ascontiguousarray(array))
        return Tensor(dtype, array.shape, lambda: self._argument(param), known=array)

    def _constant(self, array: np.ndarray, dtype: str) -> ir.Value:
        # At the entry, so that it is in sight from every region.
        with ir.InsertionPoint.at_block_begin(self.block):
            return builders.constant(store_data(array, dtype), element_type(dtype))

    def _argument(self, param: Param) -> ir.Value:
        info = param.info
        name, count = info.name, 1
        while name in self.params:  # the same name in different nested graphs
            name, count = f"{info.name}_{count}", count + 1
        shape = info.static_shape
        self.params[name] = Param(TensorInfo(name, shape, info.dtype), param.source)
        return self.block.add_argument(builders.ranked_type(shape, element_type(info.dtype)), ir.Location.name(name))

    def text(self, items: Sequence[bytes], shape: Sequence[int]) -> Object:
        """A tensor of text that the file holds, in UTF-8: the host makes it at the entry, as ``_constant`` does."""
        try:
            return self.add_text(np.array([item.decode() for item in items], object).reshape(shape))
        except UnicodeDecodeError as error:
            raise ModelError("a tensor of text is not UTF-8") from error

    def add_text(self, strings: np.ndarray) -> Object:
        """A tensor of strings that the import knows."""
        facts = {"items": strings.reshape(-1).tolist(), "shape": list(strings.shape)}

        def make() -> ir.Value:
            with ir.InsertionPoint.at_block_begin(self.block):
                return self.call_host("text", [], [ir.NoneType.get()], facts, ([], [TEXT])).results[0]

        return Object(Element(TEXT, strings.ndim), make, strings)

    def call_external(
        self,
        code: SubgraphCode,
        tensors: Sequence[ir.Value],
        sizes: Sequence[ir.Value],
        kinds: Sequence[ir.Type],
        extents: Sequence[int],
    ) -> ir.Operation:
        """A call of code that is compiled: it gives results of these ``kinds``, and a word that is 0 where all is well.

        ``sizes`` are the dynamic extents of its results. The code is handed the ``extents`` of these numbers, of those
        of the tensors and then of the results.
        """
        word = ir.RankedTensorType.get([], ir.IntegerType.get_signless(64))
        inputs, results = [value.type for value in (*tensors, *sizes)], [*kinds, word]
        made = (code.symbol, str(inputs), str(results), str(extents))
        if made not in self._external:
            name = re.sub(r"[^A-Za-z0-9_]", "_", code.codegen)
            self._external[made] = f"codegen_{name}_{hashlib.sha256(repr(made).encode()).hexdigest()[:8]}"
            module = self.block.owner.operation.parent
            assert module is not None  # the function is in one
            with ir.InsertionPoint(module.regions[0].blocks[0]):
                declared = func.FuncOp(self._external[made], (inputs, results), visibility="private")
            declared.attributes[tw.CODEGEN] = ir.StringAttr.get(code.codegen)
            declared.attributes[tw.SYMBOL] = ir.StringAttr.get(code.symbol)
            declared.attributes[tw.EXTENTS] = ir.DenseI64ArrayAttr.get(list(extents))
            if code.library:
                declared.attributes[tw.LIBRARY] = ir.StringAttr.get(code.function)
        callee = ir.FlatSymbolRefAttr.get(self._external[made])
        call = func.CallOp(results, callee, [*tensors, *sizes]).operation
        call.attributes[tw.CODEGEN] = ir.StringAttr.get(code.what)
        call.attributes[tw.NODES] = ir.ArrayAttr.get([ir.StringAttr.get(name) for name in code.nodes])
        self.code[code.symbol] = code
        return call

    def call_host(
        self,
        function: str,
        values: Sequence[ir.Value],
        types: Sequence[ir.Type],
        attributes: Mapping[str, object],
        dtypes: tuple[Sequence[str], Sequence[str]],
    ) -> ir.Operation:
        """A call of a declared function, whose name begins with the host's; ``dtypes`` are of values and of results."""
        kinds = [value.type for value in values]
        made = (function, str(kinds), str(list(types)))
        if made not in self._host_functions:
            self._host_functions[made] = f"host.{function}.{len(self._host_functions)}"
            self._declare(self._host_functions[made], kinds, types)
        key = self._host_functions[made]
        call = func.CallOp(list(types), ir.FlatSymbolRefAttr.get(key), list(values)).operation
        call.attributes[tw.HOST] = ir.StringAttr.get(function)
        call.attributes[tw.ATTRIBUTES] = ir.StringAttr.get(json.dumps(attributes))
        call.attributes[tw.DTYPES] = ir.StringAttr.get(json.dumps(dtypes))
        return call

    def call_operator(self, text: str, values: Sequence[ir.Value], types: Sequence[ir.Type]) -> ir.Operation:
        """A call of a function that a user has scheduled, which ``text`` is."""
        name = f"operator.{hashlib.sha256(text.encode()).hexdigest()[:8]}"
        if name not in self._operators:
            self._operators.add(name)
            self._declare(name, [value.type for value in values], types)
        call = func.CallOp(list(types), ir.FlatSymbolRefAttr.get(name), list(values)).operation
        call.attributes[tw.OPERATOR] = ir.StringAttr.get(text)
        return call

    def _declare(self, name: str, kinds: Sequence[ir.Type], types: Sequence[ir.Type]) -> None:
        module = self.block.owner.operation.parent
        assert module is not None  # the function is in one
        with ir.InsertionPoint(module.regions[0].blocks[0]):
            func.FuncOp(name, (list(kinds), list(types)), visibility="private")
