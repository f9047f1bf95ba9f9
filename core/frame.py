"""The frame of a run of a program with a routine: words in which caller and code leave each other tensors.

``passes/lower/frame.mlir`` names the first words. Then, for each input, its address and its extents, or what the caller
calls it by, if the host holds it; then, for each output, its address, how many bytes there are, and its extents.

The memory of a state that grows is the caller's: its address is that of the input. The program may leave another one
there, of new memory, and then the old memory is still the caller's to free. A run that succeeds leaves its next length
there, too, so that the frame is ready for the next run. Behind the outputs, there are for each such
state the bytes of its memory, and whether it has to do with these. An output that is one has extents alone, and so has
one that is written over its input. The last word, if there are such, says whether the run has begun to.
"""

from __future__ import annotations

from dataclasses import dataclass

from .program import APPEND, VIEWS, Program, RegisterType, Routine, collect_types
from .states import State

FRAME_HEAD = 6
_ELEMENT_BYTES = {"i16": 2, "f16": 2, "bf16": 2, "i32": 4, "f32": 4, "i64": 8, "f64": 8, "index": 8, "i128": 16}


def element_bytes(element: str) -> int:
    """The bytes of an element of a type of MLIR; bits are held as bytes."""
    return _ELEMENT_BYTES.get(element, 1)


@dataclass(frozen=True)
class FrameLayout:
    """The words of a frame at which each input, output and state that grows begins, and their number.

    ``written`` are the states that are written over where they lie, ``writers`` the registers of what calls make there.
    The word at ``mark`` is 1 from the first of these on.
    """

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    states: tuple[int, ...]
    grown: tuple[State, ...]  # in the order of ``states``
    written: tuple[State, ...]
    writers: frozenset[int]
    mark: int
    words: int
    types: tuple[RegisterType, ...]  # of the outputs

    @staticmethod
    def of(program: Program) -> FrameLayout:
        """The layout for a program with a routine."""
        routine = program.routine
        assert routine is not None
        at, inputs, outputs = FRAME_HEAD, [], []
        for _, shape in routine.types[: len(program.inputs)]:
            inputs.append(at)
            at += 1 if shape is None else 1 + len(shape)
        made = collect_types(routine)
        types = tuple(made[register] for register in routine.results)
        for _, shape in types:
            outputs.append(at)
            at += 1 if shape is None else 2 + len(shape)
        appended = {step.facts["input"] for step in routine.steps if step.op == APPEND}
        grown = tuple(state for state in program.states if state.input in appended)
        states = tuple(range(at, at + 2 * len(grown), 2))
        written = {state: made for state in program.states if (made := _find_writers(routine, state))}
        writers = frozenset(register for made in written.values() for register in made)
        mark = at + 2 * len(grown)
        words = mark + (len(written) > 0)
        return FrameLayout(tuple(inputs), tuple(outputs), states, grown, tuple(written), writers, mark, words, types)


def _find_writers(routine: Routine, state: State) -> list[int]:
    """The registers of what calls write over a state, one over the other, the last of which is its next value."""
    register, found = routine.results[state.output], []
    makers = {made: step for step in routine.steps for made in step.results}
    while (step := makers.get(register)) is not None:
        if step.op in VIEWS:
            register = step.operands[0]
        elif "over" in step.facts:
            found.append(register)
            register = step.operands[step.facts["over"]]
        else:
            return []
    return found if register == routine.arguments[state.input] else []
