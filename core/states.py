"""States: inputs of a program that are, in its next run, what its run before gave as outputs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from .errors import CompileError
from .model import OBJECTS, TensorInfo
from .sizes import Extent
from .suggestions import did_you_mean

NEXT = ".next"  # behind the name of an input: the output that is its value in the next run
# Words of names that tell what a run begins with from what it leaves.
_BEFORE = frozenset({"past", "in", "input", "prev", "previous", "old", "initial", "init"})
_BEHIND = frozenset({"present", "out", "output", "next", "new", "last", "final", "updated", "n"})


@dataclass(frozen=True)
class State:
    """The positions of an input and of the output that takes its place in the next run.

    ``axis``: the output is the input with more behind it along this axis. None where nothing is known of it.
    """

    input: int
    output: int
    axis: int | None = None

    def to_json(self) -> list[int | None]:
        """As a list that JSON can hold."""
        return [self.input, self.output, self.axis]


def move_first(shape: Sequence[Extent], axis: int) -> tuple[Extent, ...]:
    """A shape with the extent of an axis in front, as the memory of a state has it that grows along that axis."""
    return (shape[axis], *shape[:axis], *shape[axis + 1 :])


def pair_declared(
    declared: Mapping[str, str], inputs: Sequence[TensorInfo], outputs: Sequence[TensorInfo]
) -> Iterator[State]:
    """The states that a user declares, inputs' names by those of outputs.

    Raises CompileError for a name that the program does not have, one given twice, and two that cannot be one value.
    """
    sides = ("output", [info.name for info in outputs]), ("input", [info.name for info in inputs])
    taken: set[str] = set()
    for pair in declared.items():
        for name, (role, known) in zip(pair, sides, strict=True):
            if name not in known:
                raise CompileError(f"states: the program has no {role} '{name}'{did_you_mean(name, known)}")
        output, given = (known.index(name) for name, (_, known) in zip(pair, sides, strict=True))
        if pair[1] in taken:
            raise CompileError(f"states: input '{pair[1]}' is the next value of two outputs")
        taken.add(pair[1])
        if reason := _explain_difference(outputs[output], inputs[given]):
            raise CompileError(f"states: output '{pair[0]}' cannot be input '{pair[1]}' of the next run: {reason}")
        yield State(given, output)


def pair_names(inputs: Sequence[TensorInfo], outputs: Sequence[TensorInfo]) -> Iterator[State]:
    """The pairs that may be one value and whose names tell it: ``past.0`` and ``present.0``, ``h`` and ``hn``."""
    positions = {info.name: number for number, info in enumerate(inputs)}
    stems = {stem: number for number, info in reversed(list(enumerate(inputs))) if (stem := _stem(info.name, _BEFORE))}
    taken: set[int] = set()
    for number, info in enumerate(outputs):
        found = stems.get(_stem(info.name, _BEHIND))
        if info.name.endswith(NEXT):
            found = positions.get(info.name.removesuffix(NEXT), found)
        if found is None or found in taken:
            continue
        if not _explain_difference(info, inputs[found]):
            taken.add(found)
            yield State(found, number)


def is_named_past(name: str) -> bool:
    """Return whether a word of an input's name says that a run begins with it: ``past.0.key``, ``state_in``."""
    return _stem(name, _BEFORE) != _stem(name, frozenset())


def _explain_difference(output: TensorInfo, given: TensorInfo) -> str:
    """Why an output cannot be an input, in words; "" if it can."""
    if output.dtype != given.dtype:
        return f"one is {output.dtype}, the other {given.dtype}"
    if given.dtype in OBJECTS or not output.ranked:
        return "it is no tensor of known rank"
    pairs = zip(output.shape, given.shape, strict=False)
    if len(output.shape) != len(given.shape) or any(
        isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs
    ):
        return f"one has shape {list(map(str, output.shape))}, the other {list(map(str, given.shape))}"
    return ""


def _stem(name: str, side: frozenset[str]) -> str:
    """What is left of a name without the words of one side: "0.key" of "past.0.key", "h" of "h0" and "hn"."""
    if re.fullmatch(r"[A-Za-z]_?[0nN]", name):
        return name[0].lower()
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name.replace("past_key_values", "past"))
    return ".".join(word.lower() for word in words if word.lower() not in side)
