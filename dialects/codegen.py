"""From the LLVM dialect to object code, assembly or LLVM text, through LLVM's C API.

The MLIR wheel's library exports its C API, and through the libLLVM that it loads LLVM's; calling them with ctypes keeps
translation, optimiser and code generator in this process (no ``opt`` and ``llc`` to start, no text in between) and
gives position-independent objects, which ``dump_to_object_file`` does not.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
from collections.abc import Mapping
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint, c_void_p
from pathlib import Path
from typing import Any, Literal

import mlir
from mlir import ir

from ..core.cpus import AARCH64, X86
from ..core.errors import CompileError, InternalError, TargetError
from ..core.target import NATIVE, Target, host_features
from . import tw
from .context import at_node
from .walk import collect

CodeKind = Literal["obj", "asm", "llvm"]

_ASSEMBLY, _OBJECT = 0, 1
_RELOC_PIC, _CODE_MODEL_DEFAULT = 2, 0
_FUNCTION_INDEX = 0xFFFFFFFF
_RETURN_STATUS = 2
_SIGNATURES = {
    "LLVMContextCreate": (c_void_p, []),
    "LLVMContextDispose": (None, [c_void_p]),
    "mlirTranslateModuleToLLVMIR": (c_void_p, [c_void_p, c_void_p]),
    "LLVMDisposeModule": (None, [c_void_p]),
    "LLVMSetTarget": (None, [c_void_p, c_char_p]),
    "LLVMSetModuleDataLayout": (None, [c_void_p, c_void_p]),
    "LLVMPrintModuleToString": (c_void_p, [c_void_p]),
    "LLVMDisposeMessage": (None, [c_void_p]),
    "LLVMGetTargetFromTriple": (c_int, [c_char_p, POINTER(c_void_p), POINTER(c_char_p)]),
    "LLVMCreateTargetMachine": (c_void_p, [c_void_p, c_char_p, c_char_p, c_char_p, c_int, c_int, c_int]),
    "LLVMDisposeTargetMachine": (None, [c_void_p]),
    "LLVMCreateTargetDataLayout": (c_void_p, [c_void_p]),
    "LLVMDisposeTargetData": (None, [c_void_p]),
    "LLVMCreatePassBuilderOptions": (c_void_p, []),
    "LLVMDisposePassBuilderOptions": (None, [c_void_p]),
    "LLVMRunPasses": (c_void_p, [c_void_p, c_char_p, c_void_p, c_void_p]),
    "LLVMGetErrorMessage": (c_void_p, [c_void_p]),
    "LLVMTargetMachineEmitToMemoryBuffer": (c_int, [c_void_p, c_void_p, c_int, POINTER(c_char_p), POINTER(c_void_p)]),
    "LLVMGetBufferStart": (c_void_p, [c_void_p]),
    "LLVMGetBufferSize": (c_size_t, [c_void_p]),
    "LLVMDisposeMemoryBuffer": (None, [c_void_p]),
    "LLVMCreateMemoryBufferWithMemoryRangeCopy": (c_void_p, [c_char_p, c_size_t, c_char_p]),
    "LLVMParseIRInContext": (c_int, [c_void_p, c_void_p, POINTER(c_void_p), POINTER(c_void_p)]),
    "LLVMVerifyModule": (c_int, [c_void_p, c_int, POINTER(c_void_p)]),
    "LLVMGetHostCPUName": (c_void_p, []),
    "LLVMGetHostCPUFeatures": (c_void_p, []),
    "LLVMGetFirstFunction": (c_void_p, [c_void_p]),
    "LLVMGetNextFunction": (c_void_p, [c_void_p]),
    "LLVMIsDeclaration": (c_int, [c_void_p]),
    "LLVMAddTargetDependentFunctionAttr": (None, [c_void_p, c_char_p, c_char_p]),
    "LLVMGetStringAttributeAtIndex": (c_void_p, [c_void_p, c_uint, c_char_p, c_uint]),
}


@functools.cache
def _library() -> ctypes.CDLL:
    # What is not in this library is found in the libLLVM that it has loaded: MLIR and we know of the same contexts.
    lib = ctypes.CDLL(str(Path(next(iter(mlir.__path__))) / "_mlir_libs" / "libMLIRPythonCAPI.so"))
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    for name, part in itertools.product(("X86", "AArch64"), ("TargetInfo", "Target", "TargetMC", "AsmPrinter")):
        getattr(lib, f"LLVMInitialize{name}{part}")()
    return lib


_address = ctypes.pythonapi.PyCapsule_GetPointer
_address.restype, _address.argtypes = c_void_p, [ctypes.py_object, c_char_p]


def _take_string(pointer: int) -> str:
    """Copy a string that LLVM allocated, and free it."""
    text = ctypes.string_at(pointer).decode()
    _library().LLVMDisposeMessage(pointer)
    return text


@functools.cache
def host_cpu() -> tuple[str, str]:
    """LLVM's name of a CPU like this machine's, and the feature string of this one."""
    lib = _library()
    name = X86.name_model(_take_string(lib.LLVMGetHostCPUName()), host_features())
    return name, _take_string(lib.LLVMGetHostCPUFeatures())


def function_attributes(target: Target) -> dict[str, str]:
    """The LLVM function attributes for a target, by their names.

    Vectors are as wide as schedules assume: LLVM prefers half of that on some CPUs. For an AArch64 CPU it gets the
    costs of instructions, but only our features: otherwise it would use scalable vectors.
    """
    if target.arch == AARCH64.name:
        features = ",".join(f"+{feature}" for feature in target.features)
        return {"target-cpu": AARCH64.baseline, "tune-cpu": target.cpu, "target-features": features}
    cpu, features = host_cpu() if target.cpu == NATIVE else (target.cpu, "")
    changes = [*filter(None, [features]), *(f"-{feature}" for feature in target.architecture.unseen), *target.changes]
    changes += _prefer_loads(cpu)
    width = str(target.lanes * 32)
    return {"target-cpu": cpu, "target-features": ",".join(changes), "prefer-vector-width": width}


def _prefer_loads(cpu: str) -> list[str]:
    """The feature that makes loads of elements of a gather, which AMD's CPUs take apart in microcode.

    Zen 4 does the loads in 0.6 to 0.9 of the time. One that misses the cache does not hold up the next.
    """
    return ["+prefer-no-gather"] if cpu.startswith("znver") else []


@functools.cache
def _target_machine(triple: str, cpu: str, features: str, opt_level: int) -> int:
    lib = _library()
    handle, message = c_void_p(), c_char_p()
    if lib.LLVMGetTargetFromTriple(triple.encode(), byref(handle), byref(message)):
        raise TargetError(f"no code generator for '{triple}': {(message.value or b'').decode()}")
    return lib.LLVMCreateTargetMachine(
        handle, triple.encode(), cpu.encode(), features.encode(), opt_level, _RELOC_PIC, _CODE_MODEL_DEFAULT
    )


def emit_code(
    module: ir.Module, target: Target, kind: CodeKind = "obj", opt_level: int = 3, code_level: int | None = None
) -> bytes:
    """Compile a module of the LLVM dialect (and `omp`) for ``target``; a function may say that it is for another CPU.

    Args:
        module: only ops that translate to LLVM IR; anything else raises CompileError (MLIR itself would crash).
        kind: a relocatable object, assembly text, or LLVM IR text after the optimiser.
        opt_level: 0 to 3, for the optimiser and the code generator.
        code_level: that of the code generator, where it is another one.

    Returns the object's bytes or the text in UTF-8.
    """
    refuse_foreign_ops(module)
    attributes = function_attributes(target)
    lib, level = _library(), opt_level if code_level is None else code_level
    machine = _target_machine(target.triple, attributes["target-cpu"], attributes["target-features"], level)
    context = lib.LLVMContextCreate()
    try:
        llvm_module = _translate(module, context)
        lib.LLVMSetTarget(llvm_module, target.triple.encode())
        layout = lib.LLVMCreateTargetDataLayout(machine)
        lib.LLVMSetModuleDataLayout(llvm_module, layout)
        lib.LLVMDisposeTargetData(layout)
        _set_function_targets(llvm_module, attributes)
        _run_pipeline(llvm_module, machine, _choose_pipeline(module, opt_level))
        result = _print_ir(llvm_module) if kind == "llvm" else _generate(llvm_module, machine, kind)
        lib.LLVMDisposeModule(llvm_module)
        return result
    finally:
        lib.LLVMContextDispose(context)


def compile_text(text: bytes, target: Target, opt_level: int = 3) -> bytes:
    """Compile a user's LLVM IR to an object; CompileError with LLVM's words for what is none."""
    attributes, lib = function_attributes(target), _library()
    machine = _target_machine(target.triple, attributes["target-cpu"], attributes["target-features"], opt_level)
    context, made, message = lib.LLVMContextCreate(), c_void_p(), c_void_p()
    try:
        buffer = lib.LLVMCreateMemoryBufferWithMemoryRangeCopy(text, len(text), b"the code")
        wrong = lib.LLVMParseIRInContext(context, buffer, byref(made), byref(message))
        if wrong or lib.LLVMVerifyModule(made, _RETURN_STATUS, byref(message)):
            raise CompileError(f"the LLVM IR that was given cannot be compiled: {_first_error(message)}")
        lib.LLVMSetTarget(made, target.triple.encode())
        layout = lib.LLVMCreateTargetDataLayout(machine)
        lib.LLVMSetModuleDataLayout(made, layout)
        lib.LLVMDisposeTargetData(layout)
        assert made.value is not None
        _set_function_targets(made.value, attributes)
        _run_pipeline(made.value, machine, f"default<O{opt_level}>")
        result = _generate(made.value, machine, "obj")
        lib.LLVMDisposeModule(made)
        return result
    finally:
        lib.LLVMContextDispose(context)


def _first_error(message: c_void_p) -> str:
    """The first line of what LLVM has to say."""
    return " ".join(_take_string(message.value).split("\n")[:1]) if message.value else "it is not valid"


def refuse_foreign_ops(module: ir.Module) -> None:
    """Raise CompileError for the first op that has no translation to LLVM IR, naming its location."""
    foreign = collect(module, lambda op: not op.name.startswith(("llvm.", "omp.", "builtin.module")))
    casts = [op for op in foreign if op.name == "builtin.unrealized_conversion_cast"]
    for op in foreign:
        if op not in casts:
            raise InternalError(f"'{op.name}' was not lowered to the LLVM dialect{at_node(op)}")
    for op in casts:
        raise InternalError(f"a type conversion was left unresolved{at_node(op)}")


def _translate(module: ir.Module, context: int) -> int:
    """The LLVM module that a module of the LLVM dialect is."""
    operation: Any = module.operation  # whose stubs do not have its address
    made = _library().mlirTranslateModuleToLLVMIR(_address(operation._CAPIPtr, b"mlir.ir.Operation._CAPIPtr"), context)
    if not made:
        raise InternalError("MLIR could not translate a module to LLVM IR")
    return int(made)


def _set_function_targets(llvm_module: int, attributes: Mapping[str, str]) -> None:
    """Say on each function what CPU it is for: the optimiser's cost models ask the function, not the module."""
    lib = _library()
    function = lib.LLVMGetFirstFunction(llvm_module)
    while function:
        told = lib.LLVMGetStringAttributeAtIndex(function, _FUNCTION_INDEX, b"target-cpu", len(b"target-cpu"))
        if not told and not lib.LLVMIsDeclaration(function):
            for name, value in attributes.items():
                lib.LLVMAddTargetDependentFunctionAttr(function, name.encode(), value.encode())
        function = lib.LLVMGetNextFunction(function)


_COMBINE = "instcombine<no-verify-fixpoint>"
# What kernels gain by, of LLVM's second level: half of its time for code that is as fast, but for TopK's heap
# (docs/mlir.md). Loops that gain by it are unrolled by schedules, and induction variables are as lowering made them.
_SCALAR = (
    f"early-cse<memssa>,simplifycfg,{_COMBINE},"
    "loop(loop-rotate<header-duplication>),loop-mssa(licm,simple-loop-unswitch),simplifycfg,loop(loop-idiom,loop-deletion),"
    f"correlated-propagation,simplifycfg,gvn,{_COMBINE}"
)
_VECTORS = f"loop-vectorize,slp-vectorizer,{_COMBINE},loop-mssa(licm),simplifycfg"
_INLINED = f"cgscc(inline,function-attrs,function({_SCALAR}))"
_PIPELINES = ("default<O0>", f"{_INLINED},globaldce", f"{_INLINED},function({_VECTORS}),globaldce")
# The tiles of a schedule are simplified once, in the function that they are in: put in line, they are simplified again,
# which takes half of the optimiser's time. Ranges are looked for again when divisions are simple, for divisions by what
# has a sign are slow. LLVM finds no vectors that are left but in loops that copy. Its value numbering makes a part of a
# stored vector by shifts of all its bits: what it finds else, the cheaper pass finds, too.
_TILES = (
    f"early-cse<memssa>,simplifycfg,{_COMBINE},loop(loop-rotate<header-duplication>),loop-mssa(licm),simplifycfg,"
    f"loop(loop-idiom,loop-deletion),loop-vectorize,correlated-propagation,early-cse<memssa>,{_COMBINE},"
    "correlated-propagation,simplifycfg"
)
_PIPELINE_OF_SCHEDULED = f"cgscc(function-attrs,function({_TILES}))"


def _choose_pipeline(module: ir.Module, opt_level: int) -> str:
    """LLVM's passes: few at level 1, and those that make vectors of plain loops from level 2."""
    scheduled = any(tw.SCHEDULE in op.operation.attributes for op in module.body.operations)
    return _PIPELINE_OF_SCHEDULED if scheduled and opt_level else _PIPELINES[min(opt_level, len(_PIPELINES) - 1)]


def _run_pipeline(llvm_module: int, machine: int, pipeline: str) -> None:
    lib = _library()
    options = lib.LLVMCreatePassBuilderOptions()
    error = lib.LLVMRunPasses(llvm_module, pipeline.encode(), machine, options)
    lib.LLVMDisposePassBuilderOptions(options)
    if error:
        raise InternalError(f"LLVM's optimiser failed: {_take_string(lib.LLVMGetErrorMessage(error))}")


def _print_ir(llvm_module: int) -> bytes:
    return _take_string(_library().LLVMPrintModuleToString(llvm_module)).encode()


def _generate(llvm_module: int, machine: int, kind: CodeKind) -> bytes:
    lib = _library()
    buffer, message = c_void_p(), c_char_p()
    file_type = _OBJECT if kind == "obj" else _ASSEMBLY
    if lib.LLVMTargetMachineEmitToMemoryBuffer(machine, llvm_module, file_type, byref(message), byref(buffer)):
        raise InternalError(f"LLVM's code generator failed: {(message.value or b'').decode()}")
    data = ctypes.string_at(lib.LLVMGetBufferStart(buffer), lib.LLVMGetBufferSize(buffer))
    lib.LLVMDisposeMemoryBuffer(buffer)
    return data
