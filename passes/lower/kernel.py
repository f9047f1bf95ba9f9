"""One kernel from a function on tensors to an object file.

    func.func @k(%x: tensor<..>, %w: tensor<..>) -> tensor<..>
    ->  void k(void **args, int64_t lo, int64_t hi, void *scratch)      (see program.Kernel)

The function is rebuilt in destination-passing style over buffers, either as the nest of its schedule or, where no
family fits, as it is; then bufferized without a copy, lowered to the LLVM dialect, wrapped and compiled. Every
allocation that bufferization needed becomes a part of ``scratch``: a kernel never allocates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ...dialects import PassManager, bufferization, codegen, func, ir, linalg, transform
from ...dialects.context import diagnostics, make_context
from ...dialects.walk import collect
from ...errors import CompileError
from ...program import Kernel
from ...target import Target
from ..schedule import emit, heuristic
from ..schedule.collapse import collapse
from ..schedule.nest import build_nest
from ..schedule.schedule import Schedule
from ..schedule.structured import NotSchedulable, squeezed
from . import scalar_math
from .scratch import take_scratch

BODY = "__body"

PREPARE_TENSORS = ("convert-tensor-to-linalg", "linalg-generalize-named-ops", "canonicalize", "cse")
BUFFERIZE = (
    "eliminate-empty-tensors",
    "one-shot-bufferize{bufferize-function-boundaries=true function-boundary-type-conversion=identity-layout-map}",
    "canonicalize",
    "cse",
    "func.func(buffer-hoisting,buffer-loop-hoisting)",
    "convert-bufferization-to-memref",
    "canonicalize",
    "cse",
)
TO_LLVM = (
    "func.func(convert-linalg-to-loops)",
    "fold-memref-alias-ops",
    "expand-strided-metadata",
    "canonicalize",
    "cse",
    "convert-vector-to-scf{full-unroll=true}",
    "lower-affine",
    "loop-invariant-code-motion",
    "convert-scf-to-cf",
    "math-uplift-to-fma",
    "convert-math-to-llvm",
    "convert-math-to-libm",
    "convert-vector-to-llvm{reassociate-fp-reductions=true}",
    "expand-strided-metadata",
    "lower-affine",
    "arith-expand{include-bf16=true}",
    "convert-arith-to-llvm",
    "convert-index-to-llvm",
    "finalize-memref-to-llvm",
    "convert-func-to-llvm{use-bare-ptr-memref-call-conv=true}",
    "convert-cf-to-llvm",
    "convert-ub-to-llvm",
    "reconcile-unrealized-casts",
    "canonicalize",
    "cse",
)


def compile_kernel(name: str, bytecode: bytes, target: Target, opt_level: int = 3) -> Kernel:
    """Compile the one function of a kernel module. Raises CompileError that names the kernel's node."""
    with make_context(), ir.Location.unknown():
        module, kernel = lower_to_llvm(name, ir.Module.parse(bytecode), target)
        return replace(kernel, object=codegen.emit(module, target, "obj", opt_level))


def lower_to_llvm(name: str, source: ir.Module, target: Target) -> tuple[ir.Module, Kernel]:
    """The kernel as a module of the LLVM dialect, and its description without the object."""
    lowered, schedule, scratch = lower_kernel(source, target)
    flops = heuristic.work(function_of(source))
    wrap(lowered, name)
    extent = schedule.extent if schedule else 1
    return lowered, Kernel(name, b"", extent, extent > 1 and flops >= heuristic.PARALLEL_WORK, scratch)


def lower_kernel(source: ir.Module, target: Target) -> tuple[ir.Module, Schedule | None, int]:
    """Lower to the LLVM dialect: the module, the schedule (None: plain loops), bytes of scratch."""
    function_of(source)
    scalar_math.expand(source)
    collapse(source)
    schedule = heuristic.choose(function_of(source), target)
    module = None
    if schedule is not None:
        try:
            module = scheduled(source, schedule)
        except NotSchedulable:
            schedule = None
    if module is None:
        module = unscheduled(source)
    run(module, BUFFERIZE, "bufferization")
    if schedule is not None:
        emit.lower_transfers(module)
    copies_to_loops(module)
    scratch = take_scratch(module)
    run(module, TO_LLVM, "lowering to LLVM")
    return module, schedule, scratch


def scheduled(source: ir.Module, schedule: Schedule) -> ir.Module:
    """The kernel as the nest of its schedule, its tiles made vectors."""
    function = function_of(source)
    returned = _returned(function)
    if len(returned) != 1:
        raise NotSchedulable("a kernel with more than one result")

    def body(arguments: dict[ir.Value, ir.Value], dests: list[ir.Value], lo: ir.Value, hi: ir.Value) -> list[ir.Value]:
        return [build_nest(schedule, returned[0], dests[0], lo, hi, arguments)]

    module = destination_passing(function, body, squeezed)
    run(module, ("canonicalize", "cse"), "scheduling")
    emit.vectorize(module)
    return module


def unscheduled(source: ir.Module) -> ir.Module:
    """The kernel as it is; its parallel axis has one step."""
    function = function_of(source)

    def body(arguments: dict[ir.Value, ir.Value], dests: list[ir.Value], lo: ir.Value, hi: ir.Value) -> list[ir.Value]:
        mapping = dict(arguments)
        for op in list(function.regions[0].blocks[0].operations)[:-1]:
            copy = op.operation.clone()
            _remap(copy, mapping)
            mapping.update(zip(op.operation.results, copy.results, strict=True))
        return [mapping.get(v, v) for v in _returned(function)]

    module = destination_passing(function, body)
    transform_away(module)
    run(module, PREPARE_TENSORS, "lowering tensors")
    return module


Body = Callable[[dict[ir.Value, ir.Value], list[ir.Value], ir.Value, ir.Value], list[ir.Value]]


def destination_passing(
    function: func.FuncOp, body: Body, view: Callable[[ir.Type], ir.Type] = lambda t: t
) -> ir.Module:
    """A module with ``@name__body(inputs…, results…: memref, lo, hi: index)`` around ``body``'s tensors.

    ``view`` gives the tensor type that the body sees a value's buffer as.
    """
    module = ir.Module.create()
    inputs, results = [view(t) for t in function.type.inputs], [view(t) for t in function.type.results]
    buffers = [_buffer_type(t) for t in (*inputs, *results)]
    index = ir.IndexType.get()
    with ir.InsertionPoint(module.body):
        made = func.FuncOp(_name(function) + BODY, ([*buffers, index, index], []))
    block = made.add_entry_block()
    with ir.InsertionPoint(block):
        arguments = list(block.arguments)
        tensors = [
            bufferization.to_tensor(t, a, restrict=True) for t, a in zip(inputs, arguments[: len(inputs)], strict=True)
        ]
        outputs = arguments[len(inputs) : len(buffers)]
        dests = [
            bufferization.to_tensor(t, o, restrict=True, writable=True) for t, o in zip(results, outputs, strict=True)
        ]
        mapping = dict(zip(function.arguments, tensors, strict=True))
        for value, buffer in zip(body(mapping, dests, arguments[-2], arguments[-1]), outputs, strict=True):
            bufferization.MaterializeInDestinationOp(None, value, buffer, restrict=True, writable=True)
        func.ReturnOp([])
    return module


def wrap(module: ir.Module, name: str) -> None:
    """Add the kernel's entry, which unpacks ``args`` and calls the body; buffers do not alias."""
    body = next(op for op in module.body.operations if op.operation.name == "llvm.func" and _name(op).endswith(BODY))
    count = len(list(body.regions[0].blocks[0].arguments)) - 3
    noalias = ir.DictAttr.get({"llvm.noalias": ir.UnitAttr.get()})
    body.attributes["arg_attrs"] = ir.ArrayAttr.get([noalias] * (count + 1) + [ir.DictAttr.get({})] * 2)
    body.attributes["linkage"] = ir.Attribute.parse("#llvm.linkage<internal>")
    loads = "\n".join(
        f"%a{i} = llvm.getelementptr %args[{i}] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr\n"
        f"%p{i} = llvm.load %a{i} : !llvm.ptr -> !llvm.ptr"
        for i in range(count)
    )
    pointers = ", ".join([*(f"%p{i}" for i in range(count)), "%scratch", "%lo", "%hi"])
    types = ", ".join(["!llvm.ptr"] * (count + 1) + ["i64", "i64"])
    text = f"""
      llvm.func @{_name(body)}({types})
      llvm.func @{name}(%args: !llvm.ptr, %lo: i64, %hi: i64, %scratch: !llvm.ptr) {{
        {loads}
        llvm.call @{_name(body)}({pointers}) : ({types}) -> ()
        llvm.return
      }}"""
    parsed = ir.Module.parse(text)
    parsed.body.operations[1].operation.clone(ip=ir.InsertionPoint(module.body))


def copies_to_loops(module: ir.Module) -> None:
    """A strided ``memref.copy`` would call a slow C function of MLIR's runtime: copy by ``linalg.copy`` instead."""
    for op in collect(module, lambda op: op.name == "memref.copy"):
        with ir.InsertionPoint(op), op.location:
            linalg.copy(op.operands[0], outs=[op.operands[1]])
        op.erase()


def transform_away(module: ir.Module) -> None:
    """Rewrite the tensor ops that have no bufferization (pack, unpack, concat) into ones that have."""
    with transform.sequence() as script:
        transform.lower_packs(script.root)
        transform.apply_patterns(script.root, "tensor.decompose_concat")
    transform.apply(script, module)


def run(module: ir.Module, passes: tuple[str, ...], stage: str) -> None:
    """Run upstream passes in order; any failure is a CompileError that names the stage and the node."""
    for name in passes:
        with diagnostics(f"{stage} ({name.split('{')[0]})"):
            PassManager.parse(f"builtin.module({name})").run(module.operation)


def function_of(module: ir.Module) -> func.FuncOp:
    """The one function of a kernel module."""
    functions = [op for op in module.body.operations if isinstance(op, func.FuncOp)]
    if len(functions) != 1:
        raise CompileError(f"a kernel module has one function, this one has {len(functions)}")
    return functions[0]


def _returned(function: func.FuncOp) -> list[ir.Value]:
    return list(list(function.regions[0].blocks[0].operations)[-1].operands)


def _name(op: ir.OpView) -> str:
    return ir.StringAttr(op.attributes["sym_name"]).value


def _buffer_type(tensor: ir.Type) -> ir.Type:
    ranked = ir.RankedTensorType(tensor)
    return ir.MemRefType.get(ranked.shape, ranked.element_type)


def _remap(op: ir.Operation, mapping: dict[ir.Value, ir.Value]) -> None:
    """Replace operands in ``op`` and its regions."""
    for inner in collect(op, lambda _: True):
        for i, operand in enumerate(inner.operands):
            if operand in mapping:
                inner.operands[i] = mapping[operand]
