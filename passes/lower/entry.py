"""The entry of a compiled program: ``create`` makes ``main``, and ``main`` checks tensors and calls kernels.

    create(weight addresses: pointer, their number: int, threads: int, lock word: pointer, owner: object) -> main
    main(inputs..., outputs...)        writes the outputs in place; a signal that Python has to handle (Ctrl-C) may
                                       end it between two kernels
    main(address of a frame: int, ...) of a program with a routine: see ``core/frame.py``; the inputs may follow
    kernel(index) -> pointer           the address of a kernel, in the order of the program's first calls of each
    run_calls() -> pointer             the address of ``tw_run_calls``, which calls kernels for a host
    weights() -> pointer               the address of the weights, where they are a section of the code
    metadata() -> str                  the manifest; it is also the section ``METADATA_SECTION`` of the object

With ``profile``, ``main`` takes the time around each kernel call. ``create`` then wants one address more, behind those
of the weights: of the counters (``runtime/counters.py``) that belong to this ``main`` alone, or null to count nothing.

A specialized program beside it exports ``create_1`` and so on, and leaves ``metadata`` to the first one. The generated
part is data, and a ``main`` that hands it on; ``entry.mlir``, ``counters.mlir`` and ``dialects/packed.mlir`` have
what is the same in every program. All is code for any CPU of the architecture, so that a program can say what it is for
wherever it is.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...core.model import must_be
from ...core.program import METADATA_SECTION, WEIGHTS_SYMBOL, Kernel, Program, make_export_name
from ...core.target import Target, detect_host
from ...dialects import codegen, ir, packed
from ...dialects.context import diagnostics, reused_context, run_pipeline
from .main_text import main_text
from .routine_text import facts_text, routine_text

_SUPPORT = [Path(__file__).with_name(name) for name in ("entry.mlir", "counters.mlir", "frame.mlir")]
_LOWERING = "builtin.module(convert-scf-to-cf,convert-to-llvm,reconcile-unrealized-casts)"
# A routine's steps gain nothing from more, and a model may have a thousand of them. To choose registers for what is
# between their calls takes half of the time, and saves 7 ns of each.
_OPT_LEVEL, _ROUTINE_CODE_LEVEL = 1, 0
_SUPPORT_OPT_LEVEL = 2
_DATA_OPT_LEVEL = 0  # of functions that give addresses of data, or hand them on: 6 ms less than at level 1

# What the generated part uses of the support.
_DECLARATIONS = """
!any = !llvm.struct<(i32, i32, i64)>
!span = !llvm.struct<(i64, i64)>
!context = !llvm.struct<(i32, ptr, array<4 x i64>, ptr, array<16 x ptr>, array<0 x ptr>)>
llvm.func @TVMFFIStringFromByteArray(!llvm.ptr, !llvm.ptr) -> i32
llvm.func @tw_expect(i32, i32, !llvm.ptr) -> i32
llvm.func @tw_take_tensors(!llvm.ptr, !llvm.ptr, !llvm.ptr, i64, !llvm.ptr) -> i32
llvm.func @tw_refuse_overlap(!llvm.ptr, i64, i64, !llvm.ptr) -> i32
llvm.func @tw_take_arena(!llvm.ptr, i64, i64) -> !llvm.ptr
llvm.func @tw_give_arena(!llvm.ptr, !llvm.ptr)
llvm.func @tw_fill_bases(!llvm.ptr, !llvm.ptr, !llvm.ptr, i64, !llvm.ptr, i64)
llvm.func @tw_make_all_calls(i64, !llvm.ptr, !llvm.ptr, !llvm.ptr, i64, !llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr)
  -> i32
llvm.func @tw_run_calls(i64, !llvm.ptr, !llvm.ptr, !llvm.ptr, i64, !llvm.ptr, !llvm.ptr, !llvm.ptr, i64) -> i64
llvm.func @tw_report(!llvm.ptr, !llvm.ptr, i32) -> i32
llvm.func @tw_read_reports(i64, !llvm.ptr, !llvm.ptr, i32) -> i32
llvm.func @tw_counting(!llvm.ptr, !llvm.ptr) -> !llvm.ptr
llvm.func @tw_count_run(!llvm.ptr, i64, !llvm.ptr)
llvm.func @tw_create(!llvm.ptr, i32, i64, !llvm.ptr, !llvm.ptr) -> i32
llvm.func @tw_return(!llvm.ptr, i32, i64)
llvm.func @tw_raise_out_of_memory() -> i32
"""
# What a program with a routine uses besides. What only computes is done once for equal numbers.
_PURE = """attributes {memory_effects = #llvm.memory_effects<other = none, argMem = none, inaccessibleMem = none,
  errnoMem = none, targetMem0 = none, targetMem1 = none>, will_return, no_unwind}"""
_FRAME_DECLARATIONS = f"""
llvm.func @tw_begin_run(!llvm.ptr, !llvm.ptr) -> !llvm.ptr
llvm.func @tw_put_input(!llvm.ptr, i32, i32, !llvm.ptr, i64, !llvm.ptr) -> i32
llvm.func @tw_end_run(!llvm.ptr)
llvm.func @tw_new_tensor(!llvm.ptr, i64, !llvm.ptr) -> i32
llvm.func @tw_new_output(!llvm.ptr, !llvm.ptr, i64, !llvm.ptr) -> i32
llvm.func @tw_leave_output(!llvm.ptr, !llvm.ptr, !llvm.ptr, i64, !llvm.ptr) -> i32
llvm.func @tw_own_handle(!llvm.ptr, i64) -> !llvm.ptr
llvm.func @tw_handle(!llvm.ptr) -> i64
llvm.func @tw_retain(!llvm.ptr)
llvm.func @tw_release(!llvm.ptr, !llvm.ptr)
llvm.func @tw_tick(!llvm.ptr) -> i32
llvm.func @tw_call_kernel(!llvm.ptr, i64, !llvm.ptr, !llvm.ptr, i64) -> i32
llvm.func @tw_call_host(!llvm.ptr, i64, !llvm.ptr) -> i32
llvm.func @tw_refuse(!llvm.ptr, i64, i64, i64) -> i32
llvm.func @tw_refuse_shape(!llvm.ptr, !llvm.ptr, i64, !llvm.ptr, i64) -> i32
llvm.func @tw_copy_box(!llvm.ptr, !llvm.ptr, i64, !llvm.ptr, !llvm.ptr, i64)
llvm.func @tw_append(!llvm.ptr, !llvm.ptr, !llvm.ptr, i64, i64, i64, !llvm.ptr, !llvm.ptr) -> i32
llvm.func @tw_collect_row(!llvm.ptr, !llvm.ptr, !llvm.ptr, i64, !llvm.ptr, i64, i64, !llvm.ptr, !llvm.ptr, !llvm.ptr)
  -> i32
llvm.func @tw_collect_all(!llvm.ptr, !llvm.ptr, !llvm.ptr, i64, !llvm.ptr) -> i32
llvm.func @tw_multiply(i64, i64) -> i64 {_PURE}
llvm.func @tw_divide(i64, i64) -> i64 {_PURE}
llvm.func @tw_remainder(i64, i64) -> i64 {_PURE}
llvm.func @tw_floor_divide(i64, i64) -> i64 {_PURE}
llvm.func @tw_ceiling_divide(i64, i64) -> i64 {_PURE}
"""


def emit_support(target: Target | None = None) -> bytes:
    """The object with the functions that are the same in every program: made once in a process for an architecture."""
    return _emit_support((target or detect_host()).baseline)


@functools.cache
def _emit_support(baseline: Target) -> bytes:
    return _emit_object(_support_text(), baseline, _SUPPORT_OPT_LEVEL)


def emit_entry(
    program: Program,
    kernels: Mapping[str, Kernel],
    metadata: str | None = "{}",
    number: int = 0,
    target: Target | None = None,
    profile: bool = False,
) -> bytes:
    """The object that defines ``create`` and, with a text for it, ``metadata``; ``number`` is that of the program.

    With ``profile`` its calls are timed. The symbols of the kernels and of ``emit_support`` stay open for the linker.
    Of a program with a routine ``emit_routine`` defines ``create``, and this what it has to know of the kernels.
    """
    if program.routine is None:
        text = _DECLARATIONS + entry_text(program, kernels, metadata, number, profile)
        return _emit_object(text, target, _DATA_OPT_LEVEL)
    used = [kernels[name] for name in dict.fromkeys(call.kernel for call in program.calls)]
    names = [kernel.name for kernel in used]
    parts = [_DECLARATIONS, *map(_declaration, names), facts_text(used, number), _table_text(names, number)]
    return _emit_object("".join([*parts, _metadata_text(metadata)]), target, _DATA_OPT_LEVEL)


def emit_routine(program: Program, number: int = 0, target: Target | None = None) -> bytes:
    """The object that defines ``create`` of a program with a routine. It may be made before the program's kernels are.

    The symbols of ``emit_entry`` and ``emit_support`` stay open for the linker.
    """
    usage = packed.constant_bytes("tw_count", b"main takes the address of a frame, and the inputs that are not there\0")
    text = [_DECLARATIONS, _FRAME_DECLARATIONS, usage, routine_text(program, number), _create_text(program, number)]
    return _emit_object("".join(text), target, code_level=_ROUTINE_CODE_LEVEL)


def emit_kernel_table(
    names: Sequence[str], metadata: str | None = "{}", number: int = 0, target: Target | None = None
) -> bytes:
    """An object that exports ``kernel``, ``run_calls`` and ``metadata`` as an entry does, without one."""
    declared = "".join(map(_declaration, names))
    text = _DECLARATIONS + declared + _table_text(names, number) + _metadata_text(metadata)
    return _emit_object(text, target, _DATA_OPT_LEVEL)


def emit_weights_function(target: Target | None = None) -> bytes:
    """The object that exports ``weights``; the symbol ``WEIGHTS_SYMBOL`` stays open for the linker."""
    declared = f"llvm.mlir.global external constant @{WEIGHTS_SYMBOL}() : i8\n"
    function = packed.packed_function("weights", _ADDRESS.format(symbol=WEIGHTS_SYMBOL))
    return _emit_object(_DECLARATIONS + declared + function, target, _DATA_OPT_LEVEL)


def entry_module(
    program: Program, kernels: Mapping[str, Kernel], metadata: str = "{}", profile: bool = False
) -> ir.Module:
    """The entry with its support as one module of the LLVM dialect, in the current context."""
    return _lower(_support_text() + entry_text(program, kernels, metadata, profile=profile))


def _support_text() -> str:
    return "".join(path.read_text() for path in (packed.SUPPORT, *_SUPPORT))


def _emit_object(
    text: str, target: Target | None = None, opt_level: int = _OPT_LEVEL, code_level: int | None = None
) -> bytes:
    with reused_context(), ir.Location.unknown():
        return codegen.emit_code(_lower(text), (target or detect_host()).baseline, "obj", opt_level, code_level)


def _lower(text: str) -> ir.Module:
    with diagnostics("the entry's code generation"):
        module = ir.Module.parse(text)
        run_pipeline(module.operation, _LOWERING)
    return module


def entry_text(
    program: Program, kernels: Mapping[str, Kernel], metadata: str | None, number: int = 0, profile: bool = False
) -> str:
    """The generated part of the entry in MLIR text."""
    used = {call.kernel: kernels[call.kernel] for call in program.calls}
    tensors = program.inputs + program.outputs
    names = [must_be("input", info) for info in program.inputs]
    names += [must_be("output", info) for info in program.outputs]
    count = f"main takes {len(program.inputs)} inputs and then {len(program.outputs)} outputs, contiguous tensors"
    parts = [
        packed.signature("tw_signature", tensors),
        packed.text_list("tw_names", names),
        packed.constant_bytes("tw_count", count.encode() + b"\0"),
        *map(_declaration, used),
        main_text(program, used, profile),
        _create_text(program, number, profile),
        _table_text(tuple(used), number),
        _metadata_text(metadata),
    ]
    return "".join(parts)


def _create_text(program: Program, number: int, profile: bool = False) -> str:
    weights = len(program.params) + profile
    return packed.packed_function(make_export_name("create", number), _CREATE.format(weights=weights))


def _declaration(kernel: str) -> str:
    return f'llvm.func @"{kernel}"(!llvm.ptr, i64, i64, !llvm.ptr)\n'


def _metadata_text(metadata: str | None) -> str:
    if metadata is None:
        return ""
    function = packed.packed_function("metadata", _METADATA.format(length=len(metadata.encode())))
    return packed.constant_bytes("tw_metadata", metadata.encode(), METADATA_SECTION) + function


def _table_text(names: Sequence[str], number: int) -> str:
    """Kernels' addresses as a constant array, and the function that reads it."""
    table = packed.record_table("tw_kernels", ("ptr",), [(name,) for name in names])
    usage = packed.constant_bytes("tw_usage", f"kernel takes an index below {len(names)}".encode() + b"\0")
    kernel = packed.packed_function(make_export_name("kernel", number), _KERNEL.format(kernels=len(names)))
    run_calls = packed.packed_function(make_export_name("run_calls", number), _ADDRESS.format(symbol="tw_run_calls"))
    return table + usage + kernel + run_calls


_CREATE = """  %weights = llvm.mlir.constant({weights} : i64) : i64
  %main = llvm.mlir.addressof @tw_main : !llvm.ptr
  %status = llvm.call @tw_create(%args, %count, %weights, %main, %ret)
    : (!llvm.ptr, i32, i64, !llvm.ptr, !llvm.ptr) -> i32
  llvm.return %status : i32"""

_METADATA = """  %one = llvm.mlir.constant(1 : i32) : i32
  %text = llvm.mlir.addressof @tw_metadata : !llvm.ptr
  %length = llvm.mlir.constant({length} : i64) : i64
  %bytes = llvm.alloca %one x !llvm.struct<(ptr, i64)> : (i32) -> !llvm.ptr
  %length_at = llvm.getelementptr %bytes[0, 1] : (!llvm.ptr) -> !llvm.ptr, !llvm.struct<(ptr, i64)>
  llvm.store %text, %bytes : !llvm.ptr, !llvm.ptr
  llvm.store %length, %length_at : i64, !llvm.ptr
  %status = llvm.call @TVMFFIStringFromByteArray(%bytes, %ret) : (!llvm.ptr, !llvm.ptr) -> i32
  llvm.return %status : i32"""

_ADDRESS = """  %pointer = llvm.mlir.constant(4 : i32) : i32
  %success = llvm.mlir.constant(0 : i32) : i32
  %address = llvm.mlir.addressof @{symbol} : !llvm.ptr
  %word = llvm.ptrtoint %address : !llvm.ptr to i64
  llvm.call @tw_return(%ret, %pointer, %word) : (!llvm.ptr, i32, i64) -> ()
  llvm.return %success : i32"""

_KERNEL = """  %int = llvm.mlir.constant(1 : i32) : i32
  %pointer = llvm.mlir.constant(4 : i32) : i32
  %success = llvm.mlir.constant(0 : i32) : i32
  %size = llvm.mlir.constant({kernels} : i64) : i64
  %usage = llvm.mlir.addressof @tw_usage : !llvm.ptr
  %s0 = llvm.call @tw_expect(%count, %int, %usage) : (i32, i32, !llvm.ptr) -> i32
  %ok0 = llvm.icmp "eq" %s0, %success : i32
  llvm.cond_br %ok0, ^check, ^fail(%s0 : i32)
^check:
  %type = llvm.load %args : !llvm.ptr -> i32
  %index_at = llvm.getelementptr %args[0, 2] : (!llvm.ptr) -> !llvm.ptr, !any
  %index = llvm.load %index_at : !llvm.ptr -> i64
  %is_int = llvm.icmp "eq" %type, %int : i32
  %inside = llvm.icmp "ult" %index, %size : i64
  %valid = llvm.and %is_int, %inside : i1
  %valid32 = llvm.zext %valid : i1 to i32
  %s1 = llvm.call @tw_expect(%valid32, %int, %usage) : (i32, i32, !llvm.ptr) -> i32
  %ok1 = llvm.icmp "eq" %s1, %success : i32
  llvm.cond_br %ok1, ^find, ^fail(%s1 : i32)
^find:
  %table = llvm.mlir.addressof @tw_kernels : !llvm.ptr
  %kernel_at = llvm.getelementptr %table[%index] : (!llvm.ptr, i64) -> !llvm.ptr, !llvm.ptr
  %kernel = llvm.load %kernel_at : !llvm.ptr -> i64
  llvm.call @tw_return(%ret, %pointer, %kernel) : (!llvm.ptr, i32, i64) -> ()
  llvm.return %success : i32
^fail(%status: i32):
  llvm.return %status : i32"""
