"""C headers for sessions: programs whose states the caller keeps in a structure between runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...core.errors import ArtifactError
from ...core.frame import FrameLayout
from ...core.sizes import Sym
from ...core.states import State
from ..artifact.c_text import format_comment, format_string
from ..artifact.manifest import Manifest
from .header import Interface, demand_callable, indent_lines, make_structure
from .tensor import CTensor

_STATES = (
    "The states, which runs read and write: all zero is a good begin. `shape` is what a state has now. The memory at "
    "`data` has so many `bytes`. Where a state that grows needs more, a run moves it to new memory, which is `owned`, "
    "unless it is `fixed`."
)


class SessionInterface(Interface):
    """How C calls a program that keeps states: ``run`` takes a structure that has them."""

    @property
    def given(self) -> tuple[CTensor, ...]:
        """The inputs that are no states."""
        held = {state.input for state in self._states}
        return tuple(tensor for number, tensor in enumerate(self.inputs) if number not in held)

    @property
    def made(self) -> tuple[CTensor, ...]:
        """The outputs that are no states."""
        held = {state.output for state in self._states}
        return tuple(tensor for number, tensor in enumerate(self.outputs) if number not in held)

    @property
    def _states(self) -> tuple[State, ...]:
        return self._own.states

    @property
    def _grown(self) -> tuple[State, ...]:
        return self._own.frame.grown

    @property
    def _written(self) -> tuple[State, ...]:
        return self._own.frame.written

    def _is_swapped(self, state: State) -> bool:
        """Return whether a run leaves a state in other memory than it was in before."""
        return state not in self._grown and state not in self._written

    @property
    def _sizes(self) -> tuple[Sym, ...]:
        """The sizes that the caller gives: not those of axes along which states grow, unless an input has them, too."""
        extents = [n for tensor in self.given for n in tensor.info.shape]
        for state in self._states:
            extents += self.inputs[state.input].info.shape[int(state in self._grown) :]
        return tuple(dict.fromkeys(n for n in extents if isinstance(n, Sym)))

    def _dynamic_types(self) -> Iterator[str]:
        yield from super()._dynamic_types()
        lines = []
        for state in self._states:
            tensor = self.inputs[state.input]
            swapped = f" {tensor.type} *spare; size_t spare_bytes; int spare_owned;"
            spare = swapped if self._is_swapped(state) else ""
            fields = f"{tensor.type} *data; size_t bytes; int owned, fixed, begun;{spare} int64_t shape"
            rank = max(len(tensor.info.shape), 1)
            lines.append(f"  struct {{ {fields}[{rank}]; }} {tensor.argument}; {format_comment(str(tensor))}")
        yield make_structure(_STATES, lines, f"{self.name}_states_t")

    def _more_arguments(self) -> Sequence[str]:
        return [f"{self.name}_states_t *states"]

    def _fill_frame(self, layout: FrameLayout) -> Iterator[str]:
        yield from super()._fill_frame(layout)
        for state in self._states:
            yield from self._begin_state(state)
        yield from self._hold_sizes()
        for state in self._states:
            tensor, place = self.inputs[state.input], layout.inputs[state.input]
            own, rank = f"states->{tensor.argument}", len(tensor.info.shape)
            yield f"frame[{place}] = tw_word({own}.data);"
            yield from (f"frame[{place + 1 + axis}] = {own}.shape[{axis}];" for axis in range(rank))
            if self._is_swapped(state):
                place = layout.outputs[state.output]
                yield f"frame[{place}] = tw_word({own}.spare);"
                yield f"frame[{place + 1}] = (int64_t){own}.spare_bytes;"
        for state, place in zip(layout.grown, layout.states, strict=True):
            own = f"states->{self.inputs[state.input].argument}"
            yield f"frame[{place}] = (int64_t){own}.bytes;"
            yield f"frame[{place + 1}] = {own}.fixed;"

    def _begin_state(self, state: State) -> Iterator[str]:
        """C that gives a state the shape with which it begins, and one that does not grow elements of zero."""
        tensor = self.inputs[state.input]
        own, grows = f"states->{tensor.argument}", state in self._grown
        shape = [0 if grows and not axis else extent for axis, extent in enumerate(tensor.info.shape)]
        extents = [self._extent(extent, "sizes->") for extent in shape]
        lines = [f"{own}.shape[{axis}] = {n};" for axis, n in enumerate(extents)]
        if not grows:
            count = f"(size_t)tw_elements({own}.shape, {len(extents)})"
            lines += [
                f"{own}.bytes = {count} * sizeof *{own}.data;",
                f"{own}.data = ({tensor.type} *)calloc({count} + 1, sizeof *{own}.data);",
                f'if (!{own}.data) return tw_fail(error, size, "out of memory");',
                f"{own}.owned = 1;",
            ]
        yield f"if (!{own}.begun) {{"
        yield from (f"  {line}" for line in [*lines, f"{own}.begun = 1;"])
        yield "}"

    def _hold_sizes(self) -> Iterator[str]:
        """C that refuses states with other sizes than the inputs, or than each other."""
        first: dict[Sym, str] = {size: f"sizes->{name}" for name, size in zip(self.sizes, self._sizes, strict=True)}
        for state in self._states:
            tensor = self.inputs[state.input]
            for axis, extent in enumerate(tensor.info.shape):
                value = f"states->{tensor.argument}.shape[{axis}]"
                if isinstance(extent, Sym) and first.setdefault(extent, value) != value:
                    text = format_string(f"InputError: state '{tensor.info.name}' has %lld as {extent}, not %lld")
                    numbers = f"(long long){value}, (long long){first[extent]}"
                    yield f"if ({value} != {first[extent]}) return tw_fail(error, size, {text}, {numbers});"
                elif isinstance(extent, int) and self._is_swapped(state):
                    text = format_string(
                        f"InputError: state '{tensor.info.name}' has %lld along axis {axis}, not {extent}"
                    )
                    yield f"if ({value} != {extent}) return tw_fail(error, size, {text}, (long long){value});"

    def _read_frame(self, layout: FrameLayout) -> Iterator[str]:
        yield from super()._read_frame(layout)
        rooms = dict(zip(layout.grown, layout.states, strict=True))
        for state in self._states:
            tensor, out = self.inputs[state.input], layout.outputs[state.output]
            own, rank = f"states->{tensor.argument}", len(tensor.info.shape)
            if state in rooms:
                taken = f"{own}.data, &{own}.bytes, &{own}.owned"
                words = f"frame + {layout.inputs[state.input]}, frame + {rooms[state]}"
                yield f"{own}.data = ({tensor.type} *)tw_take_state({words}, {taken});"
                yield f"if (!status) memcpy({own}.shape, frame + {out + 2}, {rank} * sizeof *{own}.shape);"
            if not self._is_swapped(state):
                continue
            taken = f"{own}.spare, &{own}.spare_bytes, &{own}.spare_owned, NULL, NULL"
            yield f"{own}.spare = ({tensor.type} *)tw_take_output(frame + {out}, {rank}, {taken});"
            yield "if (!status) {"
            yield f"  {tensor.type} *const data = {own}.data;"
            yield f"  const size_t bytes = {own}.bytes;"
            yield f"  const int owned = {own}.owned;"
            yield f"  {own}.data = {own}.spare, {own}.bytes = {own}.spare_bytes, {own}.owned = {own}.spare_owned;"
            yield f"  {own}.spare = data, {own}.spare_bytes = bytes, {own}.spare_owned = owned;"
            yield f"  memcpy({own}.shape, frame + {out + 2}, {rank} * sizeof *{own}.shape);"
            yield "}"

    def _free(self) -> str:
        lines = []
        for state in self._states:
            own = f"states->{self.inputs[state.input].argument}"
            lines.append(f"if ({own}.owned) free({own}.data);")
            if self._is_swapped(state):
                lines.append(f"if ({own}.spare_owned) free({own}.spare);")
        lines.append("memset(states, 0, sizeof *states);")
        return (
            f"/* Frees the memory of states; the next run on them begins anew. */\n"
            f"static inline void {self.name}_free_states({self.name}_states_t *states) {{\n{indent_lines(lines)}}}\n\n"
            f"{super()._free()}"
        )


def demand_session(manifest: Manifest, where: str) -> None:
    """Raise ArtifactError for a program that has no states, or whose states only Python or the caller can keep."""
    if not manifest.states:
        raise ArtifactError(f"{where} has no states: compile it with --state OUTPUT=INPUT")
    demand_callable(manifest.session or manifest, 0, where)
    if manifest.programs[manifest.session_number].routine is None:
        raise ArtifactError(
            f"{where} has no sessions for C: its states have known sizes, so give each run's outputs to the next one"
        )
