"""Frames of sessions (``core/frame.py``), in which states keep their words from one run to the next."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any, NamedTuple

from ...core.frame import FrameLayout
from ..tensors.state_memory import HeldInputs


class _Words(NamedTuple):
    """The words of a frame that have a state: its ``address``, and behind it its extents up to the word ``end``.

    Of one that grows, ``room`` and the word behind it have the bytes of its memory and whether they are fixed; None for
    one that is written over.
    """

    input: int
    output: int
    address: int
    end: int
    room: int | None


class StateFrame:
    """The words of a session's runs. ``guessed`` are the outputs that a run is taken to make, ``results`` all outputs.

    Of the results it has those that are states. ``owner`` made it. A frame whose run has failed is not used again.
    """

    __slots__ = ("guessed", "owner", "results", "words")

    def __init__(self, owner: object, words: array, guessed: Any, results: list[Any]) -> None:
        self.owner, self.words, self.guessed, self.results = owner, words, guessed, results


class StatePlaces:
    """Where the frames of one program have its states."""

    def __init__(self, layout: FrameLayout, shapes: Sequence[Sequence[int | None] | None]) -> None:
        rooms = dict(zip(layout.grown, layout.states, strict=True))
        self._words = [
            _Words(
                state.input,
                state.output,
                place := layout.inputs[state.input],
                place + 1 + len(shapes[state.input] or ()),
                rooms.get(state),
            )
            for state in (*layout.grown, *layout.written)
        ]
        self.inputs = frozenset(words.input for words in self._words)
        self._mark = layout.mark if layout.written else None
        self._outputs = len(layout.outputs)

    def frame_of(self, owner: object, inputs: Sequence[Any], words: array, guessed: Any) -> StateFrame:
        """The frame of the runs that are given these ``inputs``: that of the run before, or a copy of ``words``.

        The states among the inputs keep their words there from now on.
        """
        frame = inputs.frame if type(inputs) is HeldInputs else None
        if frame is not None and frame.owner is owner:
            if self._mark is not None:
                frame.words[self._mark] = 0
            return frame
        own, results = words[:], list[Any]([None]) * self._outputs
        view = memoryview(own)
        for state in self._words:
            room = None if state.room is None else view[state.room : state.room + 2]
            results[state.output] = memory = inputs[state.input]
            memory.move_words(view[state.address : state.end], room)
        frame = StateFrame(owner, own, guessed, results)
        if type(inputs) is HeldInputs:
            inputs.frame = frame
        return frame

    def take_memory(self, frame: StateFrame, inputs: Sequence[Any]) -> None:
        """Let states that grow own the memory that the last run has left them in."""
        for words in self._words:
            if words.room is not None:
                inputs[words.input].take(frame.words[words.address], frame.words[words.room])

    def lose(self, frame: StateFrame, inputs: Sequence[Any]) -> None:
        """After a run that has failed: what it may have written over is lost, and nobody uses the frame again."""
        for words in self._words:
            if words.room is None and self._mark is not None:
                inputs[words.input].lost = bool(frame.words[self._mark])
        if type(inputs) is HeldInputs:
            inputs.frame = None
