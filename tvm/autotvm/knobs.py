"""The knobs of a template: what ``cfg.define_*`` makes, and the entities, one of which a config has of each.

Entities are in TVM's order, so that an index in a log of TVM's means the same config here.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ...core.errors import ExpressionError, ScheduleError
from ...te.expr import IterVar

_LARGEST = 1 << 31


@dataclass(frozen=True, eq=False)
class Axis:
    """An axis that a knob makes: the ``index``-th one of ``space``, which later knobs may take."""

    space: KnobSpace | None
    index: int


class VirtualAxis:
    """An axis of a length that no tensor has: ``cfg.axis(128)``, or the axis of one."""

    def __init__(self, var: int | IterVar | VirtualAxis, name: str | None = None) -> None:
        if isinstance(var, VirtualAxis):
            self.length, self.name = var.length, name or var.name
        elif isinstance(var, IterVar):
            self.length, self.name = _extent_of(var), name or var.name
        elif isinstance(var, int) and not isinstance(var, bool) and var >= 0:
            self.length, self.name = var, name or "axis"
        else:
            raise ExpressionError(f"an axis of a config is a te axis or a length, not {var!r}")

    def __repr__(self) -> str:
        return f"vaxis({self.name})"


def _extent_of(var: IterVar) -> int:
    extent = var.dom.extent
    if not isinstance(extent, int):
        raise ExpressionError(f"axis '{var.name}' is of {extent}, which only the run knows: templates have numbers")
    return extent


@dataclass(frozen=True, eq=False)
class Entity:
    """What a config has of one knob. ``kind`` and ``data`` are what a log has of it."""

    kind: ClassVar[str] = ""

    @property
    def data(self) -> Any:
        """As a log has it."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return str(self.data)


@dataclass(frozen=True, eq=False, repr=False)
class SplitEntity(Entity):
    """The extents of the loops that an axis is split into; -1 for what is left."""

    kind: ClassVar[str] = "sp"
    size: list[int]

    @property
    def data(self) -> list[int]:
        """The extents."""
        return self.size

    def apply(self, sch: Any, op: Any, axis: Any) -> list[Any]:
        """Split an axis; returns the loops, outermost first."""
        made = []
        for number in range(1, len(self.size)):
            outer, axis = sch[op].split(axis, math.prod(self.size[number:]))
            made.append(outer)
        return [*made, axis]


@dataclass(frozen=True, eq=False, repr=False)
class ReorderEntity(Entity):
    """An order of axes, by their numbers."""

    kind: ClassVar[str] = "re"
    perm: list[int]

    @property
    def data(self) -> list[int]:
        """The order."""
        return self.perm

    def apply(self, sch: Any, op: Any, axes: Sequence[Any]) -> list[Any]:
        """Order loops; returns them in the new order."""
        made = [axes[number] for number in self.perm if number < len(axes)]
        if len(made) > 1:
            sch[op].reorder(*made)
        return made


@dataclass(frozen=True, eq=False, repr=False)
class AnnotateEntity(Entity):
    """How each of some axes runs: "none", "unroll" or "vec"; or at which of them caches are computed."""

    kind: ClassVar[str] = "an"
    anns: list[Any]

    @property
    def data(self) -> list[Any]:
        """A word, or a number, for each."""
        return self.anns

    def apply(
        self,
        sch: Any,
        op: Any,
        axes: Sequence[Any],
        axis_lens: Sequence[int] | None = None,
        max_unroll: int | None = None,
        vec_size: Sequence[int] | None = None,
        cfg: Any = None,
        source: Sequence[Sequence[Any]] | None = None,
    ) -> Sequence[Any]:
        """Mark loops, or compute what is in ``source`` at them; returns the loops.

        Too long a loop to unroll, or to vectorize, is an error of ``cfg``.
        """
        if source is not None:
            for tensors, place in zip(source, self.anns, strict=False):
                for tensor in tensors:
                    sch[tensor].compute_at(sch[op], axes[place])
            return axes
        for number, ann in enumerate(self.anns):
            if ann == "unroll":
                if max_unroll and axis_lens and axis_lens[number] > max_unroll:
                    _raise_error(cfg, "Too large factor for unrolling")
                sch[op].unroll(axes[number])
            elif ann == "vec":
                if vec_size and axis_lens and axis_lens[number] not in vec_size:
                    _raise_error(cfg, "Wrong size of lanes in vectorization")
                sch[op].vectorize(axes[number])
            elif ann != "none":
                raise ScheduleError(f"'{ann}' is for threads of a GPU: programs run on the CPU")
        return axes


def _raise_error(cfg: Any, message: str) -> None:
    if cfg is None:
        raise ScheduleError(message)
    cfg.raise_error(message)


@dataclass(frozen=True, eq=False, repr=False)
class OtherOptionEntity(Entity):
    """One of the values of ``define_knob``."""

    kind: ClassVar[str] = "ot"
    val: Any

    @property
    def data(self) -> Any:
        """The value."""
        return self.val


ENTITIES: dict[str, type[Any]] = {e.kind: e for e in (SplitEntity, ReorderEntity, AnnotateEntity, OtherOptionEntity)}


class KnobSpace:
    """The entities that a knob may have, and how many axes it makes."""

    policy = ""
    num_output = 0

    def __init__(self, entities: Sequence[Any]) -> None:
        self.entities = list(entities)

    def __len__(self) -> int:
        return len(self.entities)

    def __getitem__(self, index: int) -> Any:
        return self.entities[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.entities)


def factors_of(number: int) -> list[int]:
    """All factors, the least first."""
    if number < 1:
        raise ExpressionError(f"an axis of {number} steps cannot be split: templates are of axes with at least one")
    low = [each for each in range(1, math.isqrt(number) + 1) if number % each == 0]
    return sorted({*low, *(number // each for each in low)})


def powers_up_to(number: int) -> list[int]:
    """The powers of two that are no larger."""
    return [1 << each for each in range(number.bit_length())]


class SplitSpace(KnobSpace):
    """The ways to split an axis."""

    def __init__(
        self,
        axes: Sequence[Any],
        policy: str,
        num_outputs: int = 0,
        max_factor: int = _LARGEST,
        filter: Callable[[SplitEntity], bool] | None = None,
        no_tail: bool | None = None,
        candidate: Sequence[Sequence[int]] = (),
    ) -> None:
        if num_outputs < 1:
            raise ExpressionError("define_split takes num_outputs, the number of loops that it makes")
        self.policy, self.num_output, self.product = policy, num_outputs, axes[0].length
        if policy == "candidate":
            made = [SplitEntity(list(size)) for size in candidate]
            if wrong := next((each for each in made if len(each.size) != num_outputs), None):
                raise ExpressionError(
                    f"candidate {wrong} has {len(wrong.size)} extents, and num_outputs is {num_outputs}"
                )
        else:
            factors = [each for each in self._list_factors() if each <= max_factor]
            whole = policy == "factors" if no_tail is None else no_tail
            made = list(self._combine(factors, whole))
        super().__init__([each for each in made if filter is None or filter(each)])

    def _list_factors(self) -> list[int]:
        if self.policy == "factors":
            return factors_of(self.product)
        if self.policy == "power2":
            return powers_up_to(self.product)
        if self.policy == "verbose":  # in the order of Python's sets, which TVM has
            return list(set(factors_of(self.product)) | set(powers_up_to(self.product)))
        raise ExpressionError(
            f"define_split has no policy '{self.policy}': it has factors, power2, verbose and candidate"
        )

    def _combine(self, factors: Sequence[int], whole: bool) -> Iterator[SplitEntity]:
        """All splits whose last extent is the first to be chosen, as TVM counts them."""
        for chosen in itertools.product(factors, repeat=self.num_output - 1):
            size = math.prod(chosen)
            if size <= self.product and (self.product % size == 0 or (not whole and size < self.product)):
                yield SplitEntity([-1, *chosen[::-1]])

    def __repr__(self) -> str:
        return f"Split(policy={self.policy}, product={self.product}, num_outputs={self.num_output}) len={len(self)}"


class ReorderSpace(KnobSpace):
    """The orders of some axes."""

    def __init__(
        self,
        axes: Sequence[Any],
        policy: str,
        interval: tuple[int, int] = (0, 0),
        candidate: Sequence[Sequence[Any]] = (),
        spatial: Sequence[Sequence[Any]] = (),
        reduce: Sequence[Sequence[Any]] = (),
    ) -> None:
        self.policy, self.num_output = policy, len(axes)
        numbers = range(len(axes))
        if policy == "identity":
            made: list[Sequence[int]] = [numbers]
        elif policy == "all":
            made = list(itertools.permutations(numbers))
        elif policy == "interval_all":
            begin, end = interval
            inner = itertools.permutations(range(begin, end))
            made = [(*numbers[:begin], *each, *numbers[end:]) for each in inner]
        elif policy == "candidate":
            made = [[_find(axes, axis) for axis in order] for order in candidate]
        elif policy == "interleave":
            outer, inner = ([[_find(axes, axis) for axis in chain] for chain in each] for each in (spatial, reduce))
            first = _merge_chains([chain[:-1] for chain in outer])
            last = _merge_chains([*(chain[-1:] for chain in outer), *inner])
            made = [[*a, *b] for a in first for b in last]
        else:
            raise ExpressionError(
                f"define_reorder has no policy '{policy}': it has identity, all, interval_all, candidate and interleave"
            )
        super().__init__([ReorderEntity(list(order)) for order in made])

    def __repr__(self) -> str:
        return f"Reorder(policy={self.policy}) len={len(self)}"


def _find(axes: Sequence[Any], axis: Any) -> int:
    for number, each in enumerate(axes):
        if each is axis:
            return number
        if isinstance(each, VirtualAxis) and isinstance(axis, IterVar) and each.name == axis.name:
            return number
    raise ExpressionError(f"an order has the axis {axis!r}, which is none of those that are ordered")


def _merge_chains(chains: Sequence[Sequence[int]]) -> list[list[int]]:
    """All ways to merge chains, where the next one is always of the chain of which most is left, the first of these."""
    made: list[list[int]] = []
    left = [list(chain) for chain in chains]
    order: list[int] = []
    while any(left):
        longest = max(range(len(left)), key=lambda number: len(left[number]))
        order.append(left[longest].pop(0))
    made.append(order)
    return made


class AnnotateSpace(KnobSpace):
    """The ways to run some axes, or where to compute caches."""

    def __init__(self, axes: Sequence[Any], policy: str, num_anchor: int = 1) -> None:
        self.policy, self.num_output = policy, len(axes)
        if policy.startswith("bind_gpu"):
            raise ExpressionError(f"policy '{policy}' binds loops to a GPU's threads: programs run on the CPU")
        if policy == "locate_cache":
            places = itertools.combinations(range(len(axes)), num_anchor)
            super().__init__([AnnotateEntity(list(each)) for each in places])
            return
        words = policy.replace("try", "none").split("_")
        if not {*words} <= {"none", "unroll", "vec"}:
            raise ExpressionError(
                f"define_annotate has no policy '{policy}': it has none, vec, unroll, these with try_ in front, and"
                " locate_cache"
            )
        made = itertools.product(words, repeat=len(axes))
        super().__init__([AnnotateEntity(list(each)) for each in made if each.count("vec") <= 1])

    def __repr__(self) -> str:
        return f"Annotate(policy={self.policy}) len={len(self)}"


class OtherOptionSpace(KnobSpace):
    """The values of ``define_knob``."""

    def __init__(self, candidate: Sequence[Any]) -> None:
        if not candidate:
            raise ExpressionError("define_knob takes the values that a knob may have, and got none")
        super().__init__([OtherOptionEntity(each) for each in candidate])

    def __repr__(self) -> str:
        return f"OtherOption({self.entities}) len={len(self)}"
