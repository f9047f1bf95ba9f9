"""The text that Python prints for a loaded program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ..core.model import TensorInfo
from ..core.printed import count_text, line_text, name_text, size_text
from ..core.tensor_texts import tensor_text
from .artifact.manifest import Manifest

_LABEL = 11  # width of the names of facts
_MOST_STATES = 4  # that are named


def describe_program(
    manifest: Manifest, executor: str, threads: int, title: str = "Module", facts: Iterable[tuple[str, str]] = ()
) -> str:
    """A program's tensors, sizes, kernels and CPU, a line for each fact; ``facts`` come after its own."""
    lines = [f"{title} '{name_text(manifest.name)}', {executor} on {count_text(threads, 'thread')}"]
    lines += [f"  {label:<{_LABEL}}{text}" for label, text in (*_program_facts(manifest), *facts)]
    return "\n".join(map(line_text, lines))


def describe_states(manifest: Manifest) -> Iterator[str]:
    """What sessions append to, so that a run writes no more than what is new, and which other states they keep."""
    for grows, what in ((True, "append to"), (False, "keep")):
        names = [name_text(manifest.inputs[s.input].name) for s in manifest.states if (s.axis is not None) == grows]
        shown = [*names[:_MOST_STATES], *([f"{len(names) - _MOST_STATES} more"] if len(names) > _MOST_STATES else [])]
        if names:
            yield f"sessions {what} {', '.join(shown)}"


def _program_facts(manifest: Manifest) -> Iterator[tuple[str, str]]:
    yield from _tensor_lines("inputs", manifest.inputs)
    yield from _tensor_lines("outputs", manifest.outputs)
    for sizes in manifest.specializations:
        yield "for sizes", f"{name_text(sizes)}, a program of its own"
    for number, text in enumerate(describe_states(manifest)):
        yield "" if number else "states", text
    yield "kernels", f"{len(manifest.kernels)}, called {count_text(manifest.call_count, 'time')}"
    weights = f"weights {size_text(manifest.weight_bytes)} in {count_text(len(manifest.weights), 'tensor')}"
    yield "memory", f"{weights}, arena {size_text(manifest.arena_bytes)}"
    yield "CPU", f"{manifest.target}{_needs(manifest.cpu_features)}"


def _needs(features: Sequence[str]) -> str:
    """The required CPU features: the last one, which the fewest CPUs have, and the number of others."""
    more = f" and {len(features) - 1} more" if len(features) > 1 else ""
    return f" with {features[-1]}{more}" if features else ""


def _tensor_lines(label: str, infos: Iterable[TensorInfo]) -> Iterator[tuple[str, str]]:
    """A line for each tensor."""
    for number, info in enumerate(infos):
        yield "" if number else label, tensor_text(info)
