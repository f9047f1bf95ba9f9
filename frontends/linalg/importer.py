"""Text of another compiler's MLIR to a ``Model``, whose module has yet to be legalized."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...core.errors import CompileError, ModelError, UnsupportedError
from ...core.model import ELEMENTS, Model, Param, TensorInfo
from ...dialects import builders, extents, func, ir, tw
from ...dialects.context import diagnostics, make_context
from ..foreign import Samples
from ..nodes import NODE
from .differences import find_differences
from .dynamic_sizes import make_sizes_dynamic, remember_extents
from .fitting import Fit

# The signless types are taken for signed ones, where nobody says otherwise.
_DTYPE_NAMES = {"i1": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64"} | ELEMENTS


def import_linalg(
    text: str | bytes,
    inputs: Sequence[TensorInfo] | None = None,
    outputs: Sequence[TensorInfo] | None = None,
    params: Mapping[str, Param] | None = None,
    name: str = "model",
    samples: Samples | None = None,
) -> Model:
    """The model of a module's only public function, which takes ``inputs``, then ``params``, and gives ``outputs``.

    With ``samples`` the text is that of the first, and the model has the open extents of its inputs.
    Without inputs and outputs all arguments are inputs, ``arg0`` and so on, and results are ``result0`` and so on.
    Raises ModelError where the text is no such module.
    """
    params = params or {}
    context = make_context()
    with context, ir.Location.unknown():
        context.allow_unregistered_dialects = True  # what legalization does not convert, it refuses
        module, main = _parse_module(text, name)
        kinds = main.type
        inputs = _infos("arg", list(kinds.inputs)[: len(kinds.inputs) - len(params)]) if inputs is None else inputs
        outputs = _infos("result", kinds.results) if outputs is None else outputs
        if len(kinds.inputs) != len(inputs) + len(params) or len(kinds.results) != len(outputs):
            raise ModelError(f"{name}: '@{main.name.value}' has not the inputs and outputs that it is said to have")
        remember_extents(main)
        with diagnostics("import"), extents.scope():
            if samples is not None:
                _make_dynamic(module, main, inputs, samples, name)
            params = {**params, **_inline_nodes(module, main)}
            if samples is not None:
                _demand_shapes(main, outputs)
            main.operation.verify()
        names = [(tw.NAME, info.name) for info in inputs] + [(tw.PARAM, param) for param in params]
        main.arg_attrs = [ir.DictAttr.get({key: ir.StringAttr.get(text)}) for key, text in names]
        main.attributes["sym_name"] = ir.StringAttr.get("main")
        return Model(module, tuple(inputs), tuple(outputs), params, name, legal=False)


def _parse_module(text: str | bytes, name: str) -> tuple[ir.Module, func.FuncOp]:
    """The module and its function; ModelError where it cannot be read."""
    try:
        with diagnostics("import"):
            module = ir.Module.parse(text)
    except CompileError as error:
        raise ModelError(f"{name}: {error}") from error
    return module, _entry(module)


def _make_dynamic(
    module: ir.Module, main: func.FuncOp, inputs: Sequence[TensorInfo], samples: Samples, name: str
) -> None:
    """Let a function that is written for the first of the samples run on all sizes."""
    others = [_parse_module(text, name) for text in samples.texts]
    if len({tuple(_list_nodes(other)) for other in (module, *(other for other, _ in others))}) != 1:
        raise UnsupportedError(f"{name}: attributes of a node depend on the open sizes: give numbers for them")
    fit = Fit(samples.points, [*samples.known, *(extent for info in inputs for extent in info.shape)])
    for _, other in others:
        remember_extents(other)
    try:
        found = find_differences([main, *(other for _, other in others)], fit)
        make_sizes_dynamic(main, found, inputs, samples.scalars)
    except UnsupportedError as error:
        raise UnsupportedError(f"{name}: {error}") from error


def _inline_nodes(module: ir.Module, main: func.FuncOp) -> Mapping[str, Param]:
    """Put ONNX's nodes in the place of calls that stand for them; gives the weights that they have."""
    if not any(_is_node(function) for function in _list_functions(module)):
        return {}
    from .inline_nodes import inline_nodes  # the ONNX frontend, which most texts do not need

    return inline_nodes(module, main)


def _demand_shapes(main: func.FuncOp, outputs: Sequence[TensorInfo]) -> None:
    """Check, when the program runs, that results have the shapes that they are said to have."""
    returned = main.entry_block.operations[len(main.entry_block.operations) - 1]
    with ir.InsertionPoint(returned), returned.location:
        for value, info in zip(returned.operands, outputs, strict=True):
            for found, said in zip(builders.shape_of(value), info.shape, strict=True):
                extents.demand_equal(found, said, f"the sizes do not fit: result '{info.name}' has another shape")


def _list_functions(module: ir.Module) -> list[func.FuncOp]:
    return [op for op in module.body.operations if isinstance(op, func.FuncOp)]


def _is_node(function: func.FuncOp) -> bool:
    """Return whether a function has no body and stands for a node of ONNX's."""
    return NODE in function.operation.attributes


def _list_nodes(module: ir.Module) -> list[str]:
    """The nodes that functions stand for, as text."""
    return [str(f.operation.attributes[NODE]) for f in _list_functions(module) if _is_node(f)]


def _entry(module: ir.Module) -> func.FuncOp:
    found = [function for function in _list_functions(module) if not _is_node(function)]
    if len(found) != 1:
        raise ModelError(f"the module has {len(found)} functions: it must be one, which is the program")
    return found[0]


def _infos(stem: str, kinds: Sequence[ir.Type]) -> list[TensorInfo]:
    return [_info(f"{stem}{i}", kind) for i, kind in enumerate(kinds)]


def _info(name: str, kind: ir.Type) -> TensorInfo:
    if not isinstance(kind, ir.RankedTensorType) or str(kind.element_type) not in _DTYPE_NAMES:
        raise ModelError(f"'{name}' has the type {kind}: it must be a tensor of numbers with a rank")
    return TensorInfo(name, tuple(kind.shape), _DTYPE_NAMES[str(kind.element_type)])
