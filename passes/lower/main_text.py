"""The text of ``main``: it checks tensors, takes an arena, and makes the calls of its table."""

from __future__ import annotations

from collections.abc import Mapping

from ...core.arena import align_size
from ...core.call_layout import CallLayout
from ...core.program import Kernel, Program
from ...dialects import packed


def main_text(program: Program, kernels: Mapping[str, Kernel], profile: bool) -> str:
    """``main`` of a program with these kernels, and the tables that it reads; with ``profile`` it times its calls."""
    layout, tensors = CallLayout.of(program, kernels), len(program.inputs) + len(program.outputs)
    texts = [f"tw_report_text_{number}" for number in range(len(layout.reports))]
    tables = [
        packed.record_table("tw_calls", ("ptr", *["i64"] * 4), layout.rows),
        packed.word_table("tw_which", layout.which),
        packed.word_table("tw_offsets", layout.offsets),
        *(
            packed.constant_bytes(name, text.encode(errors="replace") + b"\0")
            for name, (*_, text) in zip(texts, layout.reports, strict=True)
        ),
        packed.record_table(
            "tw_reports",
            ("i64", "i64", "ptr"),
            [(base, offset, name) for name, (base, offset, _) in zip(texts, layout.reports, strict=True)],
        ),
    ]
    body = _MAIN.format(
        tensors=tensors,
        inputs=len(program.inputs),
        params=len(program.params),
        spans=max(tensors, 1),
        bases=1 + tensors + len(program.params),
        arena=align_size(program.arena_bytes),
        scratch=max((stride for *_, stride in layout.rows), default=0),
        calls=len(layout.rows),
        most=layout.most_words,
        reports=len(layout.reports),
        begin=_COUNTING.format(params=len(program.params), stamps=len(layout.rows) + 1) if profile else _NOT_COUNTING,
        end=_COUNT_RUN if profile else "",
    )
    return "".join([*tables, packed.main_function(body)])


_MAIN = """  %zero = llvm.mlir.constant(0 : i64) : i64
  %success = llvm.mlir.constant(0 : i32) : i32
  %null = llvm.mlir.zero : !llvm.ptr
  %inputs = llvm.mlir.constant({inputs} : i64) : i64
  %tensors = llvm.mlir.constant({tensors} : i64) : i64
  %tensors32 = llvm.mlir.constant({tensors} : i32) : i32
  %params = llvm.mlir.constant({params} : i64) : i64
  %arena_bytes = llvm.mlir.constant({arena} : i64) : i64
  %scratch_bytes = llvm.mlir.constant({scratch} : i64) : i64
  %calls = llvm.mlir.constant({calls} : i64) : i64
  %most = llvm.mlir.constant({most} : i64) : i64
  %report_count = llvm.mlir.constant({reports} : i64) : i64
  %span_count = llvm.mlir.constant({spans} : i32) : i32
  %base_count = llvm.mlir.constant({bases} : i64) : i64
  %spans = llvm.alloca %span_count x !span : (i32) -> !llvm.ptr
  %bases = llvm.alloca %base_count x i64 : (i64) -> !llvm.ptr
  %usage = llvm.mlir.addressof @tw_count : !llvm.ptr
  %signature = llvm.mlir.addressof @tw_signature : !llvm.ptr
  %names = llvm.mlir.addressof @tw_names : !llvm.ptr
  %table = llvm.mlir.addressof @tw_calls : !llvm.ptr
  %which = llvm.mlir.addressof @tw_which : !llvm.ptr
  %offsets = llvm.mlir.addressof @tw_offsets : !llvm.ptr
  %reports = llvm.mlir.addressof @tw_reports : !llvm.ptr
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
^exhausted:
  %s3 = llvm.call @tw_raise_out_of_memory() : () -> i32
  llvm.return %s3 : i32
^work:
  %scratch = llvm.getelementptr %arena[%arena_bytes] : (!llvm.ptr, i64) -> !llvm.ptr, i8
  llvm.call @tw_fill_bases(%bases, %arena, %spans, %tensors, %self, %params)
    : (!llvm.ptr, !llvm.ptr, !llvm.ptr, i64, !llvm.ptr, i64) -> ()
{begin}  %made = llvm.call @tw_make_all_calls(%calls, %table, %which, %offsets, %most, %bases, %scratch, %self, %stamps)
    : (i64, !llvm.ptr, !llvm.ptr, !llvm.ptr, i64, !llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr) -> i32
{end}  %end = llvm.call @tw_read_reports(%report_count, %reports, %bases, %made)
    : (i64, !llvm.ptr, !llvm.ptr, i32) -> i32
  llvm.call @tw_give_arena(%self, %arena) : (!llvm.ptr, !llvm.ptr) -> ()
  %fine = llvm.icmp "eq" %end, %success : i32
  llvm.cond_br %fine, ^done, ^fail(%end : i32)
^done:
  llvm.call @tw_return(%ret, %success, %zero) : (!llvm.ptr, i32, i64) -> ()
  llvm.return %success : i32
^fail(%status: i32):
  llvm.return %status : i32"""

_NOT_COUNTING = "  %stamps = llvm.mlir.zero : !llvm.ptr\n"

# The word behind the addresses of the weights is that of the counters, or null.
_COUNTING = """  %counters_at = llvm.getelementptr %self[0, 5, {params}] : (!llvm.ptr) -> !llvm.ptr, !context
  %counters = llvm.load %counters_at : !llvm.ptr -> !llvm.ptr
  %stamp_count = llvm.mlir.constant({stamps} : i64) : i64
  %stamp_room = llvm.alloca %stamp_count x i64 : (i64) -> !llvm.ptr
  %stamps = llvm.call @tw_counting(%counters, %stamp_room) : (!llvm.ptr, !llvm.ptr) -> !llvm.ptr
"""

_COUNT_RUN = """  %whole = llvm.icmp "eq" %made, %success : i32
  %counted = llvm.select %whole, %stamps, %null : i1, !llvm.ptr
  llvm.call @tw_count_run(%counters, %calls, %counted) : (!llvm.ptr, i64, !llvm.ptr) -> ()
"""
