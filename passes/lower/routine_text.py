"""The text of ``main`` of a program with a routine: its steps as code, with memory for tensors of any size.

``main`` takes the address of a frame (``frame.mlir``), in which the caller has put the inputs and finds the outputs, or
also the inputs themselves, which it puts there. It returns whether the outputs have the extents that the frame had, and
states that grow lie where they lay; the frame then has their next lengths as those of the inputs. A tensor is its
address, the block that owns its memory (none for inputs, weights and outputs), and its extents; what the host holds is
an owner alone. Each register has a reference to its owner, which ends with the last step that reads it. Whole numbers
have 64 bits and stay at the largest one where they would be larger; floats are doubles. ``routine/`` has the steps.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...core.arena import align_size
from ...core.program import Kernel, Program, RegisterType
from ...core.states import State
from ...dialects import packed
from .routine.control import StepWriter
from .routine.values import Object, Tensor, Value


def routine_text(program: Program, number: int = 0) -> str:
    """``main`` of the ``number``-th program, which has a routine, and the constants that it needs.

    What it has to know of its kernels is not there yet: a table that ``facts_text`` makes.
    """
    return _Writer(program).text(f"tw_facts_{number}")


def facts_text(kernels: Sequence[Kernel], number: int = 0) -> str:
    """The table of facts about kernels, in the order in which the ``number``-th program calls them first."""
    rows = []
    for kernel in kernels:
        scratch = -1 if kernel.asks_scratch else align_size(kernel.scratch_bytes)
        pieces = kernel.pieces if kernel.parallel else 0
        rows.append((kernel.name, kernel.extent, pieces, kernel.parallel_from, scratch))
    return packed.record_table(f"tw_facts_{number}", ("ptr", *["i64"] * 4), rows, "external")


class _Writer(StepWriter):
    """Writes the steps of a routine as blocks of one function, between what takes the inputs and leaves the outputs."""

    def text(self, facts: str) -> str:
        """See ``routine_text``; ``facts`` is the name of the table of what it has to know of its kernels."""
        self._begin()
        self._steps(self._routine)
        self._end()
        held, constants = self._write_constants(facts)
        parts = [
            _HEAD.format(words=self._words, rank=self._rank, constants=constants, all=1 + len(self._layout.inputs)),
            *(f"  {line}\n" if line[0] != "^" else f"{line}\n" for line in self._lines),
            _TAIL,
        ]
        return held + packed.main_function("".join(parts))

    def _begin(self) -> None:
        """The arguments of the routine: inputs from the frame, weights from the context."""
        routine, layout = self._routine, self._layout
        for number, ((_, shape), place) in enumerate(zip(routine.types, layout.inputs, strict=False), 1):
            if shape is not None:
                index = self._new(f"llvm.mlir.constant({number} : i32) : i32")
                given = "%args", "%count", index, self._frame_place(place), self._constant(len(shape)), "%usage"
                self._demand_success("tw_put_input", "pwwpip", *given)
        for register, type_, place in zip(routine.arguments, routine.types, layout.inputs, strict=False):
            self._values[register] = self._input(type_, place)
        weights = zip(routine.arguments[len(layout.inputs) :], routine.types[len(layout.inputs) :], strict=True)
        for index, (register, (element, shape)) in enumerate(weights):
            at = self._new(f"llvm.getelementptr %self[0, 5, {index}] : (!llvm.ptr) -> !llvm.ptr, !context")
            extents = tuple(n for n in shape or () if n is not None)
            self._values[register] = Tensor(self._load(at, "!llvm.ptr"), "", extents, element)

    def _input(self, type_: RegisterType, place: int) -> Value:
        element, shape = type_
        at = self._frame_place(place)
        if shape is None:
            return self._own(self._load(at))
        extents = self._load_extents("%frame", place + 1, shape)
        return Tensor(self._load(at, "!llvm.ptr"), "", extents, element)

    def _end(self) -> None:
        """Leave the results in the frame; say whether extents are those that are there, and no state has moved."""
        kept = {state.output for state in (*self._layout.grown, *self._layout.written)}
        expected = self._constant(1)
        for number, (register, place) in enumerate(zip(self._routine.results, self._layout.outputs, strict=True)):
            value, at = self._values[register], self._frame_place(place)
            if isinstance(value, Tensor):
                if number not in kept:
                    self._demand_success(
                        "tw_leave_output", "pppip", "%frame", at, value.data, self._bytes(value), "%pair"
                    )
                    expected = self._compare_words(value.shape, place + 2, expected)
                self._store_words(list(map(self._constant, value.shape)), self._frame_place(place + 2))
            elif isinstance(value, Object):
                self._store_words([self._handle(value)], at)
                expected = self._constant(0)
        for state in self._layout.grown:
            expected = self._leave_state(state, expected)
        self._emit(f"llvm.br ^done({expected} : i64)")

    def _leave_state(self, state: State, expected: str) -> str:
        """Leave the length of a state that grows where the next run reads it; 0 if it has moved, else ``expected``."""
        routine, place = self._routine, self._layout.inputs[state.input]
        before, after = (self._tensor(n) for n in (routine.arguments[state.input], routine.results[state.output]))
        self._store_words([self._constant(after.shape[0])], self._frame_place(place + 1))
        now = self._load(self._frame_place(place), "!llvm.ptr")
        same = self._new(f'llvm.icmp "eq" {now}, {before.data} : !llvm.ptr')
        return self._new(f"llvm.select {same}, {expected}, %zero : i1, i64")

    def _compare_words(self, shape: Sequence[str | int], first: int, expected: str) -> str:
        """1 where ``expected`` is, and the frame has these extents from the ``first`` word on."""
        for axis, extent in enumerate(shape):
            same = self._compare("eq", self._load(self._frame_place(first + axis)), self._constant(extent))
            expected = self._new(f"llvm.select {same}, {expected}, %zero : i1, i64")
        return expected


_HEAD = """  %zero = llvm.mlir.constant(0 : i64) : i64
  %one32 = llvm.mlir.constant(1 : i32) : i32
  %sixteen = llvm.mlir.constant(16 : i32) : i32
  %success = llvm.mlir.constant(0 : i32) : i32
  %null = llvm.mlir.zero : !llvm.ptr
{constants}  %usage = llvm.mlir.addressof @tw_count : !llvm.ptr
  %words = llvm.alloca %one32 x !llvm.array<{words} x i64> : (i32) -> !llvm.ptr
  %shape = llvm.alloca %one32 x !llvm.array<{rank} x i64> : (i32) -> !llvm.ptr
  %pair = llvm.alloca %one32 x !llvm.array<2 x i64> : (i32) -> !llvm.ptr
  %all = llvm.mlir.constant({all} : i32) : i32
  %given_all = llvm.icmp "eq" %count, %all : i32
  %wanted = llvm.select %given_all, %all, %one32 : i1, i32
  %s0 = llvm.call @tw_expect(%count, %wanted, %usage) : (i32, i32, !llvm.ptr) -> i32
  %ok0 = llvm.icmp "eq" %s0, %success : i32
  llvm.cond_br %ok0, ^take, ^refused(%s0 : i32)
^take:
  %type = llvm.load %args : !llvm.ptr -> i32
  %s1 = llvm.call @tw_expect(%type, %one32, %usage) : (i32, i32, !llvm.ptr) -> i32
  %ok1 = llvm.icmp "eq" %s1, %success : i32
  llvm.cond_br %ok1, ^begin, ^refused(%s1 : i32)
^refused(%refused: i32):
  llvm.return %refused : i32
^begin:
  %frame_at = llvm.getelementptr %args[0, 2] : (!llvm.ptr) -> !llvm.ptr, !any
  %frame = llvm.load %frame_at : !llvm.ptr -> !llvm.ptr
  %arena = llvm.call @tw_begin_run(%frame, %self) : (!llvm.ptr, !llvm.ptr) -> !llvm.ptr
  %none = llvm.icmp "eq" %arena, %null : !llvm.ptr
  llvm.cond_br %none, ^exhausted, ^work
^exhausted:
  %s2 = llvm.call @tw_raise_out_of_memory() : () -> i32
  llvm.return %s2 : i32
^work:
"""

_TAIL = """^done(%expected: i64):
  llvm.call @tw_end_run(%frame) : (!llvm.ptr) -> ()
  llvm.call @tw_return(%ret, %one32, %expected) : (!llvm.ptr, i32, i64) -> ()
  llvm.return %success : i32
^exit(%status: i32):
  llvm.call @tw_end_run(%frame) : (!llvm.ptr) -> ()
  llvm.return %status : i32"""
