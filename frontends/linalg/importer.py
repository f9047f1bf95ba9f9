"""Text of another compiler's MLIR to a ``Model``, whose module has yet to be legalized."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...dialects import func, ir
from ...dialects.context import diagnostics, make_context
from ...errors import CompileError, ModelError
from ...model import ELEMENTS, Model, Param, TensorInfo

# The signless types are taken for signed ones, where nobody says otherwise.
_DTYPES = {"i1": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64"} | ELEMENTS


def import_linalg(
    text: str | bytes,
    inputs: Sequence[TensorInfo] | None = None,
    outputs: Sequence[TensorInfo] | None = None,
    params: Mapping[str, Param] | None = None,
    name: str = "model",
) -> Model:
    """The model of a module's only public function, which takes ``inputs``, then ``params``, and gives ``outputs``.

    Without them all arguments are inputs, ``arg0`` and so on, and results are ``result0`` and so on. Raises ModelError
    where the text is no such module.
    """
    params = params or {}
    with make_context() as context, ir.Location.unknown():
        context.allow_unregistered_dialects = True  # what legalization does not convert, it refuses
        try:
            with diagnostics("import"):
                module = ir.Module.parse(text)
        except CompileError as error:
            raise ModelError(f"{name}: {error}") from error
        main = _entry(module)
        kinds = main.type
        inputs = _infos("arg", list(kinds.inputs)[: len(kinds.inputs) - len(params)]) if inputs is None else inputs
        outputs = _infos("result", kinds.results) if outputs is None else outputs
        if len(kinds.inputs) != len(inputs) + len(params) or len(kinds.results) != len(outputs):
            raise ModelError(f"{name}: '@{main.name.value}' has not the inputs and outputs that it is said to have")
        names = [("tw.name", info.name) for info in inputs] + [("tw.param", param) for param in params]
        main.arg_attrs = [ir.DictAttr.get({key: ir.StringAttr.get(text)}) for key, text in names]
        main.attributes["sym_name"] = ir.StringAttr.get("main")
        return Model(module, tuple(inputs), tuple(outputs), params, name, legal=False)


def _entry(module: ir.Module) -> func.FuncOp:
    found = [op for op in module.body.operations if isinstance(op, func.FuncOp)]
    if len(found) != 1:
        raise ModelError(f"the module has {len(found)} functions: it must be one, which is the program")
    return found[0]


def _infos(stem: str, kinds: Sequence[ir.Type]) -> list[TensorInfo]:
    return [_info(f"{stem}{i}", kind) for i, kind in enumerate(kinds)]


def _info(name: str, kind: ir.Type) -> TensorInfo:
    if not isinstance(kind, ir.RankedTensorType) or str(kind.element_type) not in _DTYPES:
        raise ModelError(f"'{name}' has the type {kind}: it must be a tensor of numbers with a rank")
    return TensorInfo(name, tuple(kind.shape), _DTYPES[str(kind.element_type)])
