"""The entry of a compiled program: ``create`` makes ``main``, and ``main`` checks tensors and calls kernels.

    create(weight addresses: pointer, their number: int, threads: int, lock word: pointer, owner: object) -> main
    main(inputs..., outputs...)        writes the outputs in place; a signal that Python has to handle (Ctrl-C) may
                                       end it between two kernels
    kernel(index) -> pointer           the address of a kernel, in the order of the program's first calls of each
    run_calls() -> pointer             the address of ``tw_run_calls``, which calls kernels for a host
    weights() -> pointer               the address of the weights, where they are a section of the code
    metadata() -> str                  the manifest; it is also the section ``METADATA_SECTION`` of the object

With ``profile``, ``main`` takes the time around each kernel call. ``create`` then wants one address more, behind those
of the weights: of the counters (``runtime/counters.py``) that belong to this ``main`` alone, or null to count nothing.

A specialized program beside it exports ``create_1`` and so on, and leaves ``metadata`` to the first one. The generated
part is only data and the straight list of calls; ``entry.mlir``, ``counters.mlir`` and ``dialects/packed.mlir`` have
what is the same in every program. All is code for any CPU of the architecture, so that a program can say what it is for
wherever it is.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ...dialects import PassManager, codegen, ir, packed
from ...dialects.context import diagnostics, reused_context
from ...model import must_be
from ...program import METADATA_SECTION, WEIGHTS_SYMBOL, Call, Kernel, Program, Slot, exported
from ...target import Target, host
from .timed_calls import timed_calls

_SUPPORT = [Path(__file__).with_name(name) for name in ("entry.mlir", "counters.mlir")]
_LOWERING = "builtin.module(convert-scf-to-cf,convert-to-llvm,reconcile-unrealized-casts)"
_ALIGNMENT = 64
# Straight calls gain nothing from more, and a model may have a thousand of them.
_OPT_LEVEL = 1
_SUPPORT_OPT_LEVEL = 2
# A program asks whether it is interrupted behind calls of so much work (operations and bytes: a millisecond of plain
# loops, a hundredth of that of others), of which each call counts for some.
_CHECKED_WORK, _WORK_OF_A_CALL = 1 << 20, 1 << 14

# What the generated part uses of the support.
_DECLARATIONS = """
!any = !llvm.struct<(i32, i32, i64)>
!span = !llvm.struct<(i64, i64)>
!context = !llvm.struct<(i32, ptr, ptr, array<16 x ptr>, array<0 x ptr>)>
llvm.func @TVMFFIStringFromByteArray(!llvm.ptr, !llvm.ptr) -> i32
llvm.func @tw_expect(i32, i32, !llvm.ptr) -> i32
llvm.func @tw_take_tensors(!llvm.ptr, !llvm.ptr, !llvm.ptr, i64, !llvm.ptr) -> i32
llvm.func @tw_refuse_overlap(!llvm.ptr, i64, i64, !llvm.ptr) -> i32
llvm.func @tw_take_arena(!llvm.ptr, i64, i64) -> !llvm.ptr
llvm.func @tw_give_arena(!llvm.ptr, !llvm.ptr)
llvm.func @tw_parallel_for(!llvm.ptr, !llvm.ptr, i64, i64, !llvm.ptr, i64, !llvm.ptr)
llvm.func @tw_run_calls(i64, !llvm.ptr, !llvm.ptr, !llvm.ptr, i64, !llvm.ptr, !llvm.ptr, !llvm.ptr, i64) -> i64
llvm.func @tw_now() -> i64
llvm.func @tw_interrupted(!llvm.ptr) -> i32
llvm.func @tw_stamp(!llvm.ptr, i64)
llvm.func @tw_counting(!llvm.ptr, !llvm.ptr) -> !llvm.ptr
llvm.func @tw_count_run(!llvm.ptr, i64, !llvm.ptr)
llvm.func @tw_create(!llvm.ptr, i32, i64, !llvm.ptr, !llvm.ptr) -> i32
llvm.func @tw_return(!llvm.ptr, i32, i64)
llvm.func @tw_raise_out_of_memory() -> i32
"""


@functools.cache
def emit_support(target: Target | None = None) -> bytes:
    """The object with the functions that are the same in every program: made once in a process for a target."""
    return _emit(_support_text(), target, _SUPPORT_OPT_LEVEL)


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
    """
    return _emit(_DECLARATIONS + entry_text(program, kernels, metadata, number, profile), target)


def emit_kernel_table(
    names: Sequence[str], metadata: str | None = "{}", number: int = 0, target: Target | None = None
) -> bytes:
    """An object that exports ``kernel``, ``run_calls`` and ``metadata`` as an entry does, without one."""
    declared = "".join(map(_declaration, names))
    return _emit(_DECLARATIONS + declared + _table_text(names, number) + _metadata_text(metadata), target)


def emit_weights_function(target: Target | None = None) -> bytes:
    """The object that exports ``weights``; the symbol ``WEIGHTS_SYMBOL`` stays open for the linker."""
    declared = f"llvm.mlir.global external constant @{WEIGHTS_SYMBOL}() : i8\n"
    function = packed.packed_function("weights", _ADDRESS.format(symbol=WEIGHTS_SYMBOL))
    return _emit(_DECLARATIONS + declared + function, target)


def entry_module(
    program: Program, kernels: Mapping[str, Kernel], metadata: str = "{}", profile: bool = False
) -> ir.Module:
    """The entry with its support as one module of the LLVM dialect, in the current context."""
    return _lower(_support_text() + entry_text(program, kernels, metadata, profile=profile))


def _support_text() -> str:
    return "".join(path.read_text() for path in (packed.SUPPORT, *_SUPPORT))


def _emit(text: str, target: Target | None = None, opt_level: int = _OPT_LEVEL) -> bytes:
    with reused_context(), ir.Location.unknown():
        return codegen.emit(_lower(text), (target or host()).baseline, "obj", opt_level)


def _lower(text: str) -> ir.Module:
    with diagnostics("the entry's code generation"):
        module = ir.Module.parse(text)
        PassManager.parse(_LOWERING).run(module.operation)
    return module


def entry_text(
    program: Program, kernels: Mapping[str, Kernel], metadata: str | None, number: int = 0, profile: bool = False
) -> str:
    """The generated part of the entry in MLIR text."""
    tensors = program.inputs + program.outputs
    names = [must_be("input", info) for info in program.inputs]
    names += [must_be("output", info) for info in program.outputs]
    count = f"main takes {len(program.inputs)} inputs and then {len(program.outputs)} outputs, contiguous tensors"
    used = {call.kernel: kernels[call.kernel] for call in program.calls}
    scratch = max((_align(kernel.scratch_bytes) for kernel in used.values()), default=0)
    parts = [
        packed.signature("tw_signature", tensors),
        packed.text_list("tw_names", names),
        packed.constant_bytes("tw_count", count.encode() + b"\0"),
        *map(_declaration, used),
        _main(program, used, scratch, profile),
        packed.packed_function(exported("create", number), _CREATE.format(weights=len(program.params) + profile)),
        _table_text(tuple(used), number),
        _metadata_text(metadata),
    ]
    return "".join(parts)


def _declaration(kernel: str) -> str:
    return f'llvm.func @"{kernel}"(!llvm.ptr, i64, i64, !llvm.ptr)\n'


def _metadata_text(metadata: str | None) -> str:
    if metadata is None:
        return ""
    function = packed.packed_function("metadata", _METADATA.format(length=len(metadata.encode())))
    return packed.constant_bytes("tw_metadata", metadata.encode(), METADATA_SECTION) + function


def _main(program: Program, kernels: Mapping[str, Kernel], scratch: int, profile: bool) -> str:
    tensors = len(program.inputs) + len(program.outputs)
    most = max((len(call.args) for call in program.calls), default=1)
    head = _MAIN_HEAD.format(
        tensors=tensors,
        inputs=len(program.inputs),
        spans=max(tensors, 1),
        most=max(most, 1),
        arena=_align(program.arena_bytes),
        scratch=scratch,
    )
    checked = set(_checked_calls(program, kernels))
    calls = [
        _call(number, call, kernels[call.kernel], program) + (_CHECK.format(number) if number in checked else "")
        for number, call in enumerate(program.calls)
    ]
    if profile:
        calls = timed_calls(calls, len(program.params))
    parts = [head, _FIRST_CHECK if checked else "", *calls, _MAIN_TAIL, _INTERRUPTED if checked else ""]
    # Internal: found through `create` alone, which gives it its context.
    body = packed.packed_function("main", "".join(parts))
    return body.replace("llvm.func @__tvm_ffi_main", "llvm.func internal @tw_main", 1)


def _checked_calls(program: Program, kernels: Mapping[str, Kernel]) -> Iterator[int]:
    """The calls behind which the program asks whether it is interrupted: not the last one, none of a small program."""
    work = 0
    for number, call in enumerate(program.calls[:-1]):
        kernel = kernels[call.kernel]
        work += kernel.flops + kernel.bytes + _WORK_OF_A_CALL
        if work >= _CHECKED_WORK:
            yield number
            work = 0


def _call(number: int, call: Call, kernel: Kernel, program: Program) -> str:
    """One kernel call: its pointers into the argument array, then a direct call or one through the thread team."""
    lines = [f"  // {call.kernel}({', '.join(map(str, call.args))})"]
    for position, slot in enumerate(call.args):
        value = f"%c{number}_{position}"
        lines += _address(value, slot, len(program.inputs))
        lines += [
            f"  {value}_at = llvm.getelementptr %arguments[{position}] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr",
            f"  llvm.store {value}, {value}_at : !llvm.ptr, !llvm.ptr",
        ]
    symbol, extent = f'@"{call.kernel}"', f"%c{number}_extent"
    lines += [f"  {extent} = llvm.mlir.constant({kernel.extent} : i64) : i64"]
    if kernel.parallel and kernel.extent > 1:
        function = f"%c{number}_kernel"
        lines += [
            f"  {function} = llvm.mlir.addressof {symbol} : !llvm.ptr",
            f"  %c{number}_pieces = llvm.mlir.constant({kernel.pieces} : i64) : i64",
            f"  llvm.call @tw_parallel_for({function}, %arguments, {extent}, %c{number}_pieces, %scratch,",
            "    %scratch_bytes, %self) : (!llvm.ptr, !llvm.ptr, i64, i64, !llvm.ptr, i64, !llvm.ptr) -> ()",
        ]
    else:
        lines += [
            f"  llvm.call {symbol}(%arguments, %zero, {extent}, %scratch) : (!llvm.ptr, i64, i64, !llvm.ptr) -> ()"
        ]
    return "\n".join(lines) + "\n"


def _address(value: str, slot: Slot, inputs: int) -> Iterator[str]:
    """Lines that define ``value`` as the address of a slot."""
    if slot.space == "arena":
        yield f"  {value} = llvm.getelementptr %arena[{slot.offset}] : (!llvm.ptr) -> !llvm.ptr, i8"
        return
    if slot.space == "param":
        source, index, type_ = "%self", f"0, 4, {slot.index}", "!context"
    else:
        tensor = slot.index + (inputs if slot.space == "output" else 0)
        source, index, type_ = "%spans", f"{tensor}, 0", "!span"
    yield f"  {value}_from = llvm.getelementptr {source}[{index}] : (!llvm.ptr) -> !llvm.ptr, {type_}"
    yield f"  {value} = llvm.load {value}_from : !llvm.ptr -> !llvm.ptr"


def _table_text(names: Sequence[str], number: int) -> str:
    """Kernels' addresses as a constant array, and the function that reads it."""
    type_ = f"!llvm.array<{len(names)} x ptr>"
    lines = [f"llvm.mlir.global internal constant @tw_kernels() : {type_} {{", f"  %t0 = llvm.mlir.poison : {type_}"]
    for i, name in enumerate(names):
        lines += [
            f'  %k{i} = llvm.mlir.addressof @"{name}" : !llvm.ptr',
            f"  %t{i + 1} = llvm.insertvalue %k{i}, %t{i}[{i}] : {type_}",
        ]
    lines += [f"  llvm.return %t{len(names)} : {type_}", "}"]
    usage = packed.constant_bytes("tw_usage", f"kernel takes an index below {len(names)}".encode() + b"\0")
    kernel = packed.packed_function(exported("kernel", number), _KERNEL.format(kernels=len(names)))
    run_calls = packed.packed_function(exported("run_calls", number), _ADDRESS.format(symbol="tw_run_calls"))
    return "\n".join([*lines, usage + kernel + run_calls])


def _align(nbytes: int) -> int:
    return -(-nbytes // _ALIGNMENT) * _ALIGNMENT


_MAIN_HEAD = """  %zero = llvm.mlir.constant(0 : i64) : i64
  %success = llvm.mlir.constant(0 : i32) : i32
  %null = llvm.mlir.zero : !llvm.ptr
  %inputs = llvm.mlir.constant({inputs} : i64) : i64
  %tensors = llvm.mlir.constant({tensors} : i64) : i64
  %tensors32 = llvm.mlir.constant({tensors} : i32) : i32
  %arena_bytes = llvm.mlir.constant({arena} : i64) : i64
  %scratch_bytes = llvm.mlir.constant({scratch} : i64) : i64
  %span_count = llvm.mlir.constant({spans} : i32) : i32
  %most_arguments = llvm.mlir.constant({most} : i32) : i32
  %spans = llvm.alloca %span_count x !span : (i32) -> !llvm.ptr
  %arguments = llvm.alloca %most_arguments x !llvm.ptr : (i32) -> !llvm.ptr
  %usage = llvm.mlir.addressof @tw_count : !llvm.ptr
  %signature = llvm.mlir.addressof @tw_signature : !llvm.ptr
  %names = llvm.mlir.addressof @tw_names : !llvm.ptr
  %s0 = llvm.call @tw_expect(%count, %tensors32, %usage) : (i32, i32, !llvm.ptr) -> i32
  %ok0 = llvm.icmp "eq" %s0, %success : i32
  llvm.cond_br %ok0, ^take, ^fail(%s0 : i32)
^take:
  %s1 = llvm.call @tw_take_tensors(%args, %signature, %names, %tensors, %spans)
    : (!llvm.ptr, !llvm.ptr, !llvm.ptr, i64, !llvm.ptr) -> i32
  %ok1 = llvm.icmp "eq" %s1, %success : i32
  llvm.cond_br %ok1, ^compare, ^fail(%s1 : i32)
^compare:
  %s2 = llvm.call @tw_refuse_overlap(%spans, %inputs, %tensors, %names) : (!llvm.ptr, i64, i64, !llvm.ptr) -> i32
  %ok2 = llvm.icmp "eq" %s2, %success : i32
  llvm.cond_br %ok2, ^allocate, ^fail(%s2 : i32)
^allocate:
  %arena = llvm.call @tw_take_arena(%self, %arena_bytes, %scratch_bytes) : (!llvm.ptr, i64, i64) -> !llvm.ptr
  %none = llvm.icmp "eq" %arena, %null : !llvm.ptr
  llvm.cond_br %none, ^exhausted, ^work
^fail(%status: i32):
  llvm.return %status : i32
^exhausted:
  %s3 = llvm.call @tw_raise_out_of_memory() : () -> i32
  llvm.return %s3 : i32
^work:
  %scratch = llvm.getelementptr %arena[{arena}] : (!llvm.ptr) -> !llvm.ptr, i8
"""

_FIRST_CHECK = """  %one = llvm.mlir.constant(1 : i32) : i32
  %checked = llvm.alloca %one x i64 : (i32) -> !llvm.ptr
  %begin = llvm.call @tw_now() : () -> i64
  llvm.store %begin, %checked : i64, !llvm.ptr
"""

_CHECK = """  %c{0}_status = llvm.call @tw_interrupted(%checked) : (!llvm.ptr) -> i32
  %c{0}_ok = llvm.icmp "eq" %c{0}_status, %success : i32
  llvm.cond_br %c{0}_ok, ^behind{0}, ^interrupted(%c{0}_status : i32)
^behind{0}:
"""

_MAIN_TAIL = """  llvm.call @tw_give_arena(%self, %arena) : (!llvm.ptr, !llvm.ptr) -> ()
  llvm.call @tw_return(%ret, %success, %zero) : (!llvm.ptr, i32, i64) -> ()
  llvm.return %success : i32"""

_INTERRUPTED = """
^interrupted(%interrupted: i32):
  llvm.call @tw_give_arena(%self, %arena) : (!llvm.ptr, !llvm.ptr) -> ()
  llvm.return %interrupted : i32"""

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
