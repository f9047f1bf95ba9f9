"""The frame of a run of a program with a routine: words in which caller and code leave each other tensors.

``passes/lower/frame.mlir`` names the first words. Then, for each input, its address and its extents, or what the caller
calls it by, if the host holds it; then, for each output, its address, how many bytes there are, and its extents.
"""

from __future__ import annotations

from dataclasses import dataclass

from .program import Program, RegisterType, collect_types

FRAME_HEAD = 6
_ELEMENT_BYTES = {"i16": 2, "f16": 2, "bf16": 2, "i32": 4, "f32": 4, "i64": 8, "f64": 8, "index": 8, "i128": 16}


def element_bytes(element: str) -> int:
    """The bytes of an element of a type of MLIR; bits are held as bytes."""
    return _ELEMENT_BYTES.get(element, 1)


@dataclass(frozen=True)
class FrameLayout:
    """The words of a frame at which each input and each output begins, and their number."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
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
        return FrameLayout(tuple(inputs), tuple(outputs), at, types)
