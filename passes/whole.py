"""A whole program as one module of the LLVM dialect: all kernels and the entry."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..core.program import Kernel, Program
from ..core.target import Target
from ..dialects import codegen, ir
from ..dialects.context import make_context
from .infra.context import PassContext
from .ir.kernel import is_declaration, symbol_of
from .lower import entry
from .tuned import lower_tuned_kernel


def lower_program(
    program: Program,
    sources: Mapping[str, bytes],
    target: Target,
    describe: Callable[[Mapping[str, Kernel]], str],
    context: PassContext,
    profile: bool = False,
    schedules: Mapping[str, str] | None = None,
) -> tuple[ir.Module, dict[str, Kernel]]:
    """Lower the kernels of ``sources`` (bytecode by name) and the entry into one module in a new MLIR context.

    A program with a routine, whose code is a text of its own, is shown by its kernels alone.

    Returns the module, and what the kernels are, without objects. ``describe`` makes the program's metadata of them.
    Passes on kernels run in the context ``context``; with ``profile`` the entry times its calls. ``schedules`` are
    tuned ones, by the names of kernels (``tuned.py``).
    """
    with make_context(), ir.Location.unknown():
        merged = ir.Module.create()
        kernels: dict[str, Kernel] = {}
        for name, bytecode in sources.items():
            own = context.fork(name)
            module, kernels[name] = lower_tuned_kernel(bytecode, name, target, own, (schedules or {}).get(name, ""))
            context.join(name, own)
            _make_private(module, name)
            _say_target(module, target)
            _merge_modules(merged, module)
        if program.routine is not None:
            return merged, kernels
        around = entry.entry_module(program, kernels, describe(kernels), profile)
        _say_target(around, target.baseline)
        _merge_modules(merged, around)
        return merged, kernels


def emit_program(module: ir.Module, target: Target, kind: codegen.CodeKind, opt_level: int) -> bytes:
    """The object, assembly or LLVM IR of a whole program."""
    with module.context, ir.Location.unknown():
        return codegen.emit_code(module, target, kind, opt_level)


def _make_private(module: ir.Module, kernel_name: str) -> None:
    """Put the kernel's name before the symbols that it defines, so that those of two kernels differ."""
    for op in module.body.operations:
        name = symbol_of(op)
        if name != kernel_name and not is_declaration(op):
            ir.SymbolTable.replace_all_symbol_uses(name, f"{kernel_name}.{name}", module.operation)
            ir.SymbolTable.set_symbol_name(op, f"{kernel_name}.{name}")


def _merge_modules(target: ir.Module, source: ir.Module) -> None:
    """Clone the ops of ``source`` into ``target``; a definition takes the place of a declaration."""
    there = {symbol_of(op): op for op in target.body.operations}
    for op in source.body.operations:
        old = there.get(symbol_of(op))
        if old is not None:
            if is_declaration(op):
                continue
            old.operation.erase()
        op.operation.clone(ip=ir.InsertionPoint(target.body))


def _say_target(module: ir.Module, target: Target) -> None:
    """Say on each function what CPU it is for."""
    pairs = codegen.function_attributes(target).items()
    told = [ir.ArrayAttr.get([ir.StringAttr.get(name), ir.StringAttr.get(value)]) for name, value in pairs]
    for op in module.body.operations:
        if op.operation.name == "llvm.func" and not is_declaration(op):
            attributes = op.operation.attributes
            old = ir.ArrayAttr(attributes["passthrough"]) if "passthrough" in attributes else ()
            attributes["passthrough"] = ir.ArrayAttr.get([*old, *told])
