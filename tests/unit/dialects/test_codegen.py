"""Levels of LLVM's optimiser."""

from __future__ import annotations

import pytest

from tilewright.core.target import Target
from tilewright.dialects import codegen, ir
from tilewright.dialects.context import reused_context

# One of 1024 floats after the other: x[i] = 2 x[i].
LOOP = """
llvm.func @double_all(%x: !llvm.ptr) {
  %zero = llvm.mlir.constant(0 : i64) : i64
  %one = llvm.mlir.constant(1 : i64) : i64
  %end = llvm.mlir.constant(1024 : i64) : i64
  llvm.br ^head(%zero : i64)
^head(%i: i64):
  %goes = llvm.icmp "slt" %i, %end : i64
  llvm.cond_br %goes, ^body, ^done
^body:
  %place = llvm.getelementptr %x[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
  %old = llvm.load %place : !llvm.ptr -> f32
  %new = llvm.fadd %old, %old : f32
  llvm.store %new, %place : f32, !llvm.ptr
  %next = llvm.add %i, %one : i64
  llvm.br ^head(%next : i64)
^done:
  llvm.return
}
"""


@pytest.mark.parametrize(("level", "has_vectors"), [(0, False), (1, False), (2, True), (3, True)])
def test_plain_loops_get_vectors_from_level_two(level: int, has_vectors: bool) -> None:
    with reused_context(), ir.Location.unknown():
        text = codegen.emit_code(ir.Module.parse(LOOP), Target.parse("x86 -mcpu=x86-64-v3"), "llvm", level).decode()
    assert "@double_all" in text
    assert ("fadd <8 x float>" in text) == has_vectors


# Of four floats at places that are known at run time.
GATHER = """
llvm.func @take(%x: !llvm.ptr, %places: vector<4xi64>) -> vector<4xf32> {
  %at = llvm.getelementptr %x[%places] : (!llvm.ptr, vector<4xi64>) -> vector<4x!llvm.ptr>, f32
  %all = llvm.mlir.constant(dense<true> : vector<4xi1>) : vector<4xi1>
  %none = llvm.mlir.constant(dense<0.0> : vector<4xf32>) : vector<4xf32>
  %taken = llvm.intr.masked.gather %at, %all, %none {alignment = 4 : i32}
      : (vector<4x!llvm.ptr>, vector<4xi1>, vector<4xf32>) -> vector<4xf32>
  llvm.return %taken : vector<4xf32>
}
"""


@pytest.mark.parametrize(("cpu", "gathers"), [("x86-64-v4", True), ("znver4", False)])
def test_gathers_are_loads_where_a_cpu_takes_them_apart_anyway(cpu: str, gathers: bool) -> None:
    with reused_context(), ir.Location.unknown():
        text = codegen.emit_code(ir.Module.parse(GATHER), Target.parse(f"x86 -mcpu={cpu}"), "asm").decode()
    assert ("vgather" in text) == gathers


@pytest.mark.parametrize("scheduled", [False, True])
def test_statements_get_vectors_where_no_schedule_has_made_them(scheduled: bool) -> None:
    places = "".join(f"%q{i} = llvm.getelementptr %p[{i}] : (!llvm.ptr) -> !llvm.ptr, f32\n" for i in range(8))
    places += "".join(f"%v{i} = llvm.load %q{i} : !llvm.ptr -> f32\n" for i in range(8))
    sums = "".join(
        f"%s{i} = llvm.fadd %v{i}, %v{i} : f32\nllvm.store %s{i}, %q{i} : f32, !llvm.ptr\n" for i in range(8)
    )
    attributes = 'attributes {tw.schedule = "by hand"}' if scheduled else ""
    statements = f"llvm.func @double(%p: !llvm.ptr) {attributes} {{\n{places}{sums}llvm.return\n}}"
    with reused_context(), ir.Location.unknown():
        module = ir.Module.parse(statements)
        text = codegen.emit_code(module, Target.parse("x86 -mcpu=x86-64-v3"), "llvm").decode()
    assert ("fadd <8 x float>" in text) == (not scheduled)


TILES = """
llvm.func internal @body(%p: !llvm.ptr {llvm.noalias}, %lo: i64, %hi: i64) {
  %two = llvm.mlir.constant(2 : i64) : i64
  %one = llvm.mlir.constant(1 : i64) : i64
  llvm.br ^head(%lo : i64)
^head(%i: i64):
  %more = llvm.icmp "slt" %i, %hi : i64
  llvm.cond_br %more, ^step, ^end
^step:
  %rest = llvm.urem %i, %two : i64
  %half = llvm.sdiv %rest, %two : i64
  %q = llvm.getelementptr %p[%half] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  llvm.store %i, %q : i64, !llvm.ptr
  %next = llvm.add %i, %one : i64
  llvm.br ^head(%next : i64)
^end:
  llvm.return
}
llvm.func @k(%p: !llvm.ptr, %lo: i64, %hi: i64) attributes {tw.schedule = "by hand"} {
  llvm.call @body(%p, %lo, %hi) : (!llvm.ptr, i64, i64) -> ()
  llvm.return
}"""


def test_the_code_generator_may_have_another_level_than_the_optimiser() -> None:
    target = Target.parse("x86 -mcpu=x86-64-v3")
    with reused_context(), ir.Location.unknown():
        module = ir.Module.parse(LOOP)
        text, same = (codegen.emit_code(module, target, "llvm", 3, level) for level in (None, 0))
        code, quick = (codegen.emit_code(module, target, "asm", 3, level) for level in (None, 0))
    assert same == text and len(quick) > len(code)


@pytest.mark.parametrize("level", [1, 3])
def test_tiles_are_simplified_where_they_are_and_divide_without_signs(level: int) -> None:
    with reused_context(), ir.Location.unknown():
        text = codegen.emit_code(ir.Module.parse(TILES), Target.parse("x86"), "llvm", level).decode()
    assert "call void @body" in text
    assert "sdiv" not in text
