"""An exported program to linalg, in a worker of its own kind: torch-mlir's MLIR must not meet ours."""

from __future__ import annotations

import io
import re
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import Graph, Node
from torch_mlir._mlir_libs._mlir import ir
from torch_mlir._mlir_libs._mlir.passmanager import PassManager
from torch_mlir.dialects import torch as torch_dialect
from torch_mlir.extras.fx_importer import ContextCache, FxImporter

from ...errors import UnsupportedError
from .conversion import Answer
from .decompositions import decompositions

_PIPELINES = (
    "builtin.module(torchdynamo-export-to-torch-backend-pipeline{extra-library=})",
    "builtin.module(torch-backend-to-linalg-on-tensors-backend-pipeline{allow-non-finites=true})",
)
_ROLES = {
    InputKind.USER_INPUT: "input",
    InputKind.PARAMETER: "param",
    InputKind.BUFFER: "buffer",
    InputKind.CONSTANT_TENSOR: "constant",
}

# What torch-mlir says of an op that it cannot lower; one that it does not know is a "torch.operator".
_NOT_CONVERTED = re.compile(r"failed to legalize operation 'torch\.([\w.]+)'(?:.*?name = \"torch\.([\w.]+)\")?")


class _Refused(Exception):
    """The program cannot be converted: where, and why."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(why)
        self.where, self.why = where, why


def convert(saved: bytes, name: str) -> Answer:
    """See ``conversion.converted``."""
    try:
        program = _loaded(saved)
        _refuse_training(program.graph)
        program = program.run_decompositions(decompositions())
        _refuse_random(program.graph)
        signature = _settle_border(program)
        return _lowered(program.graph), signature
    except _Refused as error:
        raise UnsupportedError(": ".join(filter(None, (name, error.where, error.why)))) from error


def _loaded(saved: bytes) -> ExportedProgram:
    """The program; memory for weights is asked for and never touched, so that it takes none."""
    program = torch.export.load(io.BytesIO(saved))
    for held in (program._state_dict, program._constants):
        for name, value in held.items():
            if isinstance(value, torch.Tensor):
                empty = torch.empty_like(value, device="cpu")
                held[name] = torch.nn.Parameter(empty, False) if isinstance(value, torch.nn.Parameter) else empty
    return program


def _refuse_training(graph: Graph) -> None:
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten.batch_norm.default):
        if node.args[5] and node.args[3] is not None:  # it also changes its running statistics
            raise _Refused(name_of(node), "batch norm is in training mode: call eval() before the export")


def _refuse_random(graph: Graph) -> None:
    """Refuse what draws random numbers; a dropout that is switched off has been decomposed to nothing."""
    for node in graph.nodes:
        if isinstance(node.target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags:
            why = f"'{node.target}' draws random numbers: call eval() before the export, or make them an input"
            raise _Refused(name_of(node), why)


def _settle_border(program: ExportedProgram) -> dict[str, Any]:
    """Put inputs before the weights that are used, and let the graph return tensors alone; says what is where."""
    graph, kinds = program.graph, program.graph_signature
    nodes = {node.name: node for node in graph.nodes if node.op == "placeholder"}
    mutated = {spec.target for spec in kinds.output_specs if spec.kind is OutputKind.BUFFER_MUTATION}
    inputs, weights = [], []
    for spec in kinds.input_specs:
        node = nodes[spec.arg.name]
        if not isinstance(node.meta.get("val"), torch.Tensor) or (
            spec.kind is not InputKind.USER_INPUT and not node.users
        ):
            graph.erase_node(node)
            continue
        role = "state" if spec.target in mutated else _ROLES[spec.kind]
        entry = {"role": role, "name": spec.arg.name, "target": spec.target, **_described(node)}
        (inputs if role in ("input", "state") else weights).append((node, entry))
    first = next(node for node in graph.nodes if node.op != "placeholder")
    for node, _ in (*inputs, *weights):
        first.prepend(node)
    [output] = graph.find_nodes(op="output")
    made = list(zip(output.args[0], kinds.output_specs, strict=True))
    kept = [(node, spec) for node, spec in made if isinstance(node, Node)]
    for _, spec in kept:
        if spec.kind is OutputKind.USER_INPUT_MUTATION:
            raise _Refused("", f"the module writes into its input '{spec.target}': return a new tensor instead")
    output.args = (tuple(node for node, _ in kept),)
    outputs = [{"role": spec.kind.name.lower(), "target": spec.target, **_described(node)} for node, spec in kept]
    return {"inputs": [entry for _, entry in (*inputs, *weights)], "outputs": outputs}


def _described(node: Node) -> dict[str, Any]:
    value = node.meta["val"]
    return {"shape": [n if isinstance(n, int) else str(n) for n in value.shape], "dtype": str(value.dtype)[6:]}


def _lowered(graph: Graph) -> str:
    """The graph as text in linalg, with the names of modules in its locations."""
    context = ir.Context()
    torch_dialect.register_dialect(context)
    importer = FxImporter(context=context)
    importer._cc = _Named(context, py_attr_tracker=importer._py_attr_tracker)
    try:
        importer.import_stateless_graph(graph, func_name="main")
    except NotImplementedError as error:
        raise _Refused("", str(error)) from error
    for pipeline in _PIPELINES:
        _run(pipeline, importer.module)
    return importer.module.operation.get_asm(enable_debug_info=True)


def _run(pipeline: str, module: ir.Module) -> None:
    errors: list[tuple[str, str]] = []

    def collect(diagnostic: Any) -> bool:
        if diagnostic.severity == ir.DiagnosticSeverity.ERROR:
            errors.append((_name_of(diagnostic.location), diagnostic.message))
        return True

    with module.context as context:
        context.emit_error_diagnostics = True
        handler = context.attach_diagnostic_handler(collect)
        try:
            PassManager.parse(pipeline).run(module.operation)
        except ir.MLIRError as error:
            where, why = errors[0] if errors else ("", str(error))
            raise _Refused(where, _reason(why)) from error
        finally:
            handler.detach()


def _reason(message: str) -> str:
    """Why torch-mlir refused, as a user would say it."""
    found = _NOT_CONVERTED.search(message)
    if found is None:
        return " ".join(message.split())
    return f"'{found[2] or found[1]}' has no conversion of this form: write it with other ops, or leave it in torch"


def _name_of(location: ir.Location) -> str:
    return location.name_str if isinstance(location, ir.NameLoc) else ""


class _Named(ContextCache):
    """Locations that are the names of modules in place of lines of files."""

    def get_node_location(self, node: Node) -> ir.Location:
        return ir.Location.name(name_of(node), context=self._c)


def name_of(node: Node) -> str:
    """``layer1.0.conv1`` for what a module of torch's own computes, ``layer1.0/add_3`` for an op between modules."""
    stack = list(node.meta.get("nn_module_stack", {}).values())
    path, kind = (stack[-1][0], str(stack[-1][1])) if stack else ("", "")
    path = path.replace("L['self'].", "").replace("L['self']", "")
    own = kind.startswith("torch.nn.modules.") and ".container." not in kind
    return path if own and path else "/".join(filter(None, (path, node.name)))
