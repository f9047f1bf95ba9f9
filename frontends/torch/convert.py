"""An exported program to linalg, in a worker of its own kind: torch-mlir's MLIR must not meet ours."""

from __future__ import annotations

import functools
import io
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._export import utils as export_utils
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram
from torch.export.graph_signature import CustomObjArgument, InputKind, OutputKind, SymIntArgument
from torch.fx import Graph, Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils._pytree import tree_leaves
from torch_mlir._mlir_libs._mlir import ir
from torch_mlir._mlir_libs._mlir.passmanager import PassManager
from torch_mlir.dialects import torch as torch_dialect
from torch_mlir.extras.fx_importer import ContextCache, FxImporter

from ...core.errors import UnsupportedError, first_line
from .branches import choose_results, find_control_flow
from .byte_arithmetic import widen_bytes
from .conversion import Answer
from .decompositions import make_decompositions
from .operators import name_of
from .sampling import NoSampleError, Point, find_ranges, find_samples
from .stand_ins import find_ops, remove_stand_ins, stand_in

_PIPELINES = (
    "builtin.module(torchdynamo-export-to-torch-backend-pipeline{extra-library=})",
    "builtin.module(torch-backend-to-linalg-on-tensors-backend-pipeline{allow-non-finites=true})",
)
# The pass that ends them: what it does not find is lowered.
_CHECK = "torch-verify-linalg-on-tensors-backend-contract"
_ROLES = {
    InputKind.USER_INPUT: "input",
    InputKind.PARAMETER: "param",
    InputKind.BUFFER: "buffer",
    InputKind.CONSTANT_TENSOR: "constant",
}
# The function that lists operators.
_LISTING = "_materialize_cpp_cia_ops"

# What torch-mlir says of an op that it cannot lower; one that it does not know is a "torch.operator".
_NOT_CONVERTED = re.compile(r"failed to legalize operation 'torch\.([\w.]+)'(?:.*?name = \"torch\.([\w.]+)\")?")


class _Refused(Exception):
    """The program cannot be converted: where, and why."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(why)
        self.where, self.why = where, why


@contextmanager
def _listing_operators_once() -> Iterator[None]:
    """Have torch list its operators of C++ once, not for each library in each decomposition: a fifth of the time."""
    listing = getattr(export_utils, _LISTING, None)  # which other versions of torch may not have
    if listing is None:
        yield
        return
    setattr(export_utils, _LISTING, functools.cache(listing))
    try:
        yield
    finally:
        setattr(export_utils, _LISTING, listing)


@_listing_operators_once()
def convert(saved: bytes, name: str) -> Answer:
    """See ``conversion.converted``."""
    try:
        program = _load_program(saved)
        choose_results(program)
        _refuse_objects(program)
        _refuse_training(program.graph)
        _refuse_unknown_sizes(program)
        specs = program.graph_signature.input_specs
        scalars = {index for index, spec in enumerate(specs) if isinstance(spec.arg, SymIntArgument)}
        texts, points, signature = [], [], {}
        for point, sample in _samples(program):
            _refuse_effects(sample)
            _refuse_control_flow(sample.graph)
            _refuse_random(sample.graph)
            _refuse_masks(sample.graph)
            _refuse_large(sample.graph)
            _refuse_complex(sample.graph)
            widen_bytes(sample.graph)
            signature = _settle_border(sample, scalars)
            texts.append(_lower(sample.graph))
            points.append(point)
        return texts, {**signature, "points": points}
    except _Refused as error:
        raise UnsupportedError(": ".join(filter(None, (name, error.where, error.why)))) from error


def _load_program(saved: bytes) -> ExportedProgram:
    """The program; memory for weights is asked for and never touched, so that it takes none."""
    try:
        program = torch.export.load(io.BytesIO(saved))
    except Exception as error:
        causes = (error.__cause__ or error.__context__ or error, error)
        raise _Refused("", f"torch cannot read what it exported: {first_line(causes[0])}") from error
    for held in (program._state_dict, program._constants):
        for name, value in held.items():
            if isinstance(value, torch.Tensor):
                empty = torch.empty_like(value, device="cpu")
                held[name] = torch.nn.Parameter(empty, False) if isinstance(value, torch.nn.Parameter) else empty
    return program


def _refuse_objects(program: ExportedProgram) -> None:
    for spec in program.graph_signature.input_specs:
        if isinstance(spec.arg, CustomObjArgument):
            raise _Refused("", f"it holds an object of {spec.arg.class_fqn}: make what that computes an input")


def _refuse_control_flow(graph: Graph) -> None:
    node = find_control_flow(graph)
    if node is not None:
        why = f"'{node.target}' has no conversion: write it with torch.where or torch.cond, or leave it in torch"
        raise _Refused(name_of(node), why)


def _refuse_effects(program: ExportedProgram) -> None:
    """Refuse operators that torch runs in an order, for what they do besides their results."""
    if any(spec.kind is InputKind.TOKEN for spec in program.graph_signature.input_specs):
        found = program.graph.find_nodes(op="call_function", target=torch.ops.higher_order.with_effects)
        for node in found:
            raise _Refused(name_of(node), f"'{node.args[1]}' does more than give a result: leave it in torch")


def _refuse_unknown_sizes(program: ExportedProgram) -> None:
    for node in program.graph.nodes:
        if free_unbacked_symbols(node.meta.get("val")):
            raise _Refused(name_of(node), f"the size of what {node.target} gives depends on data, not on sizes")


def _samples(program: ExportedProgram) -> list[tuple[Point, ExportedProgram]]:
    table = make_decompositions(bool(find_ranges(program)), _find_sized(program))
    try:
        return find_samples(program, lambda program: program.run_decompositions(table))
    except NoSampleError as error:
        raise _Refused("", f"no open sizes were found that the program runs on: {error}") from error
    except RuntimeError as error:  # what the functions that compute shapes raise, of nodes that do not fit together
        raise _Refused("", f"torch refuses its nodes: {first_line(error)}; export it again") from error


def _find_sized(program: ExportedProgram) -> set[Any]:
    """The operators of which an argument is a size that is open."""
    numbers = (torch.SymInt, torch.SymFloat)
    return {
        node.target
        for node in program.graph.nodes
        if any(
            isinstance(n, Node) and isinstance(n.meta.get("val"), numbers)
            for n in tree_leaves((node.args, node.kwargs))
        )
    }


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


def _refuse_masks(graph: Graph) -> None:
    """Refuse to write where a mask says, if that was not decomposed: torch-mlir reads the place of a true element."""
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten.index_put.default):
        for index in node.args[1]:
            if index is not None and index.meta["val"].dtype == torch.bool:
                why = "a mask among other indices is taken with one place in each, and one value: use torch.where"
                raise _Refused(name_of(node), why)


def _refuse_large(graph: Graph) -> None:
    """Refuse whole numbers beyond int64, which torch has and torch-mlir does not."""
    for node in graph.nodes:
        numbers = [n for n in tree_leaves((node.args, node.kwargs)) if isinstance(n, int)]
        if large := next((n for n in numbers if not -(1 << 63) <= n < 1 << 63), None):
            raise _Refused(name_of(node), f"the number {large} does not fit into 64 bits with a sign: use a float")


def _refuse_complex(graph: Graph) -> None:
    """Refuse complex numbers, which torch-mlir lowers and no kernel computes."""
    for node in graph.nodes:
        for value in tree_leaves(node.meta.get("val")):
            if isinstance(value, torch.Tensor) and value.dtype.is_complex:
                what = node.target._schema.name.replace("::", ".") if isinstance(node.target, OpOverload) else node.name
                why = f"'{what}' has no conversion of complex numbers: compute with their parts, or leave it in torch"
                raise _Refused(name_of(node), why)


def _settle_border(program: ExportedProgram, scalars: Collection[int]) -> dict[str, Any]:
    """Put inputs before the weights that are used, and let the graph return tensors alone; says what is where.

    ``scalars`` are the places of inputs that are sizes: they become tensors, and what computes with them knows their
    numbers.
    """
    graph, kinds = program.graph, program.graph_signature
    nodes = {node.name: node for node in graph.nodes if node.op == "placeholder"}
    mutated = {spec.target for spec in kinds.output_specs if spec.kind is OutputKind.BUFFER_MUTATION}
    inputs, weights = [], []
    for index, spec in enumerate(kinds.input_specs):
        node = nodes[spec.arg.name]
        if index in scalars:
            with FakeTensorMode():
                node.meta["val"] = torch.empty((), dtype=torch.int64)
        if not isinstance(node.meta.get("val"), torch.Tensor) or (
            spec.kind is not InputKind.USER_INPUT and not node.users
        ):
            graph.erase_node(node)
            continue
        role = "state" if spec.target in mutated else _ROLES[spec.kind]
        entry = {"role": role, "index": index, "target": spec.target, **_describe_value(node)}
        (inputs if role in ("input", "state") else weights).append((node, entry))
    first = next(node for node in graph.nodes if node.op != "placeholder")
    for node, _ in (*inputs, *weights):
        first.prepend(node)
    [output] = graph.find_nodes(op="output")
    made = list(zip(output.args[0], kinds.output_specs, strict=True))
    kept = [
        (node, spec) for node, spec in made if isinstance(node, Node) and isinstance(node.meta["val"], torch.Tensor)
    ]
    for _, spec in kept:
        if spec.kind is OutputKind.USER_INPUT_MUTATION:
            raise _Refused("", f"the module writes into its input '{spec.target}': return a new tensor instead")
    output.args = (tuple(node for node, _ in kept),)
    outputs = [{"role": spec.kind.name.lower(), "target": spec.target, **_describe_value(node)} for node, spec in kept]
    return {"inputs": [entry for _, entry in (*inputs, *weights)], "outputs": outputs}


def _describe_value(node: Node) -> dict[str, Any]:
    value = node.meta["val"]
    return {"shape": list(value.shape), "dtype": str(value.dtype)[6:]}


def _lower(graph: Graph) -> str:
    """The graph as text in linalg, with the names of modules in its locations."""
    context = ir.Context()
    torch_dialect.register_dialect(context)
    importer = FxImporter(context=context)
    importer._cc = _Named(context, py_attr_tracker=importer._py_attr_tracker)
    try:
        importer.import_stateless_graph(graph, func_name="main")
    except NotImplementedError as error:
        raise _Refused("", str(error)) from error
    stand_in(importer.module)
    for pipeline in _PIPELINES:
        _run_pipeline(_without_check(pipeline, context), importer.module)
    foreign = _with_attributes(importer.module)
    text: str = importer.module.operation.get_asm(enable_debug_info=True, print_generic_op_form=foreign)
    remove_stand_ins(importer.module)
    _run_pipeline(f"builtin.module({_CHECK})", importer.module)
    return text


def _without_check(pipeline: str, context: ir.Context) -> str:
    """The passes of a pipeline, without the check at its end."""
    with context:
        return str(PassManager.parse(pipeline)).replace(f",{_CHECK}", "")


def _with_attributes(module: ir.Module) -> bool:
    """Return whether there are ops of torch-mlir's own, which others read in generic form, without their properties.

    These are put into an attribute.
    """
    found = find_ops(module, lambda op: op.name.startswith("tm_tensor.") and len(op.regions) > 0)
    for op in found:
        properties = {attribute: op.attributes[attribute] for attribute in op.attributes}
        op.attributes["tm_tensor.properties"] = ir.DictAttr.get(properties, module.context)
    return bool(found)


def _run_pipeline(pipeline: str, module: ir.Module) -> None:
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
            raise _Refused(where, _explain_refusal(why)) from error
        finally:
            handler.detach()


def _explain_refusal(message: str) -> str:
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
