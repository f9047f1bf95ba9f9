"""The text of ``main``: it checks tensors, takes an arena, and calls the kernels one after another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...core.arena import align_size
from ...core.program import Call, Kernel, Program, Slot
from ...dialects import packed
from .timed_calls import timed_calls

# A program asks whether it is interrupted behind calls of so much work (operations and bytes: a millisecond of plain
# loops, a hundredth of that of others), of which each call counts for some.
_CHECKED_WORK, _WORK_OF_A_CALL = 1 << 20, 1 << 14


def main_text(program: Program, kernels: Mapping[str, Kernel], profile: bool) -> str:
    """``main`` of a program with these kernels, which times its calls with ``profile``."""
    tensors = len(program.inputs) + len(program.outputs)
    most = max((len(call.args) for call in program.calls), default=1)
    head = _MAIN_HEAD.format(
        tensors=tensors,
        inputs=len(program.inputs),
        spans=max(tensors, 1),
        most=max(most, 1),
        arena=align_size(program.arena_bytes),
        scratch=max((align_size(kernel.scratch_bytes) for kernel in kernels.values()), default=0),
    )
    checked = set(_checked_calls(program, kernels))
    calls = [
        _emit_call(number, call, kernels[call.kernel], program) + (_CHECK.format(number) if number in checked else "")
        for number, call in enumerate(program.calls)
    ]
    if profile:
        calls = timed_calls(calls, len(program.params))
    ends_early = _INTERRUPTED if checked or program.reports else ""
    parts = [head, _FIRST_CHECK if checked else "", *calls, *_reports(program), _MAIN_TAIL, ends_early]
    return packed.main_function("".join(parts))


def _checked_calls(program: Program, kernels: Mapping[str, Kernel]) -> Iterator[int]:
    """The calls behind which the program asks whether it is interrupted: not the last one, none of a small program."""
    work = 0
    for number, call in enumerate(program.calls[:-1]):
        kernel = kernels[call.kernel]
        work += kernel.flops + kernel.bytes + _WORK_OF_A_CALL
        if work >= _CHECKED_WORK:
            yield number
            work = 0


def _emit_call(number: int, call: Call, kernel: Kernel, program: Program) -> str:
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


def report_texts(program: Program) -> Iterator[str]:
    """The message of ``main`` for each report, as constants."""
    for number, report in enumerate(program.reports):
        yield packed.constant_bytes(f"tw_report_text_{number}", report.text.encode(errors="replace") + b"\0")


def _reports(program: Program) -> Iterator[str]:
    """Lines that end the run where one of the reports has something to say: the first of them does."""
    before = "%success"
    for number, report in enumerate(program.reports):
        name = f"%report{number}"
        yield from (f"{line}\n" for line in _address(name, report.slot, len(program.inputs)))
        yield f"  {name}_text = llvm.mlir.addressof @tw_report_text_{number} : !llvm.ptr\n"
        arguments = f"({name}, {name}_text, {before}) : (!llvm.ptr, !llvm.ptr, i32) -> i32"
        yield f"  {name}_status = llvm.call @tw_report{arguments}\n"
        before = f"{name}_status"
    if program.reports:
        yield f"""  %unreported = llvm.icmp "eq" {before}, %success : i32
  llvm.cond_br %unreported, ^reported, ^interrupted({before} : i32)
^reported:
"""


def _address(value: str, slot: Slot, inputs: int) -> Iterator[str]:
    """Lines that define ``value`` as the address of a slot."""
    if slot.space == "arena":
        yield f"  {value}_offset = llvm.mlir.constant({slot.offset} : i64) : i64"  # a static index has 32 bits
        yield f"  {value} = llvm.getelementptr %arena[{value}_offset] : (!llvm.ptr, i64) -> !llvm.ptr, i8"
        return
    if slot.space == "param":
        source, index, type_ = "%self", f"0, 5, {slot.index}", "!context"
    else:
        tensor = slot.index + (inputs if slot.space == "output" else 0)
        source, index, type_ = "%spans", f"{tensor}, 0", "!span"
    yield f"  {value}_from = llvm.getelementptr {source}[{index}] : (!llvm.ptr) -> !llvm.ptr, {type_}"
    yield f"  {value} = llvm.load {value}_from : !llvm.ptr -> !llvm.ptr"


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
  %scratch = llvm.getelementptr %arena[%arena_bytes] : (!llvm.ptr, i64) -> !llvm.ptr, i8
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
