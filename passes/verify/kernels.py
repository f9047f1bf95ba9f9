"""The rules of kernels, from tensors to the function that programs call."""

from __future__ import annotations

from ...core.errors import CompileError
from ...dialects import func, ir, tw
from ...dialects.context import at_node
from ...dialects.walk import collect, find_named
from ..ir.kernel import count_of, is_declaration, list_functions, symbol_of
from .sizes import verify_sizes

_OF_PROGRAMS = (tw.GROUP, tw.CONTROL, tw.OUTSIDE, tw.REPORT, tw.HOST, tw.SLOTS, tw.NODES)
_REFUSED = ("func.call", "cf.assert")
_DIALECTS = ("tensor.", "linalg.", "arith.", "math.", "scf.", "index.", "affine.", "func.", "ub.", "complex.", "llvm.")
_ALLOCATIONS = ("memref.alloc", "memref.alloca", "memref.dealloc", "memref.realloc")
_ENTRY = "!llvm.func<void (ptr, i64, i64, ptr)>"


def verify_kernel(function: func.FuncOp) -> None:
    """Raise CompileError where a kernel on tensors has an op of a program, or relies on sizes it does not state."""
    name = symbol_of(function)
    kinds = list(function.type.inputs)
    sizes = [isinstance(kind, ir.IndexType) for kind in kinds]
    if sizes != sorted(sizes) or not all(isinstance(k, ir.RankedTensorType | ir.IndexType) for k in kinds):
        raise CompileError(f"kernel '{name}' takes {function.type}: tensors come first, then sizes, and nothing else")
    if count_of(function, tw.RESULT_SIZES) > sum(sizes):
        raise CompileError(f"kernel '{name}' takes {sum(sizes)} sizes, fewer than its results have")
    for op in collect(function, _is_of_program):
        raise CompileError(f"kernel '{name}' has a '{op.name}', which only a program can have{at_node(op)}")
    verify_sizes(function)


def verify_tensors(module: ir.Module) -> None:
    """Raise CompileError where a module is not one kernel on tensors."""
    verify_kernel(_only(list_functions(module)))


def verify_buffers(module: ir.Module) -> None:
    """Raise CompileError where a module has no kernel on buffers: ``(inputs…, results…, sizes…, lo, hi)``."""
    _kernel_on_buffers(module)


def verify_memory(module: ir.Module) -> None:
    """Raise CompileError where a tensor is left."""
    _kernel_on_buffers(module)
    _refuse_tensors(module)


def verify_scratch(module: ir.Module) -> None:
    """Raise CompileError where a kernel allocates, or says nothing of the scratch memory that it takes."""
    function = _kernel_on_buffers(module, has_scratch=True)
    _refuse_tensors(module)
    if tw.SCRATCH not in function.attributes or count_of(function, tw.SCRATCH) < 0:
        raise CompileError(f"kernel '{symbol_of(function)}' does not state its scratch memory")
    for op in find_named(module, *_ALLOCATIONS):
        raise CompileError(f"kernel '{symbol_of(function)}' has a '{op.name}'{at_node(op)}")


def verify_llvm(module: ir.Module) -> None:
    """Raise CompileError where an op is of another dialect than LLVM's."""
    for op in collect(module, lambda op: not op.name.startswith(("llvm.", "builtin.module"))):
        raise CompileError(f"a '{op.name}' is left{at_node(op)}")


def verify_wrapped(module: ir.Module) -> None:
    """Raise CompileError where a module does not export one kernel, of the ABI that ``program.Kernel`` describes."""
    verify_llvm(module)
    defined = [op for op in module.body.operations if op.operation.name == "llvm.func" and not is_declaration(op)]
    exported = [op for op in defined if "internal" not in str(op.operation.attributes.get("linkage", ""))]
    kernel = _only([op for op in exported if tw.SCRATCH in op.attributes])
    if len(exported) != 1:
        names = ", ".join(f"'{symbol_of(op)}'" for op in exported)
        raise CompileError(f"a kernel's module must export the kernel alone, this one exports {names}")
    kind = str(ir.TypeAttr(kernel.operation.attributes["function_type"]).value)
    if kind != _ENTRY:
        raise CompileError(f"kernel '{symbol_of(kernel)}' has the type {kind}, not {_ENTRY}")
    if count_of(kernel, tw.EXTENT) < 1:
        raise CompileError(f"kernel '{symbol_of(kernel)}' has no steps")


def _kernel_on_buffers(module: ir.Module, has_scratch: bool = False) -> func.FuncOp:
    """The function that has steps. Its arguments are buffers, sizes, scratch memory if it has it, ``lo`` and ``hi``."""
    function = _only([f for f in list_functions(module) if tw.EXTENT in f.attributes])
    sizes = count_of(function, tw.SIZES) + 2
    kinds, name = list(function.type.inputs), symbol_of(function)
    if has_scratch:
        kinds.insert(0, kinds.pop(-3))  # which stands before lo and hi, after the sizes
    buffers, index = kinds[:-sizes], kinds[-sizes:]
    if not all(isinstance(k, ir.IndexType) for k in index) or not all(isinstance(k, ir.MemRefType) for k in buffers):
        raise CompileError(f"kernel '{name}' takes {function.type}, not buffers, {sizes - 2} sizes and two steps")
    if list(function.type.results):
        raise CompileError(f"kernel '{name}' returns {function.type}; it must write its results into buffers")
    if count_of(function, tw.EXTENT) < 1:
        raise CompileError(f"kernel '{name}' has no steps")
    return function


def _refuse_tensors(module: ir.Module) -> None:
    for op in collect(module, lambda op: any(isinstance(v.type, ir.RankedTensorType) for v in op.results)):
        raise CompileError(f"a '{op.name}' on tensors is left{at_node(op)}")


def _is_of_program(op: ir.Operation) -> bool:
    name = op.name
    if name in _REFUSED or not name.startswith(_DIALECTS):
        return True
    return any(map(op.attributes.__contains__, _OF_PROGRAMS))  # asked of each op of each kernel


def _only(found: list) -> func.FuncOp:
    if len(found) != 1:
        names = ", ".join(f"'{symbol_of(op)}'" for op in found) or "none"
        raise CompileError(f"a kernel's module must have one kernel, this one has {names}")
    return found[0]
