"""``autotvm.ConfigSpace``: the configs that a template may have, each with a number; and configs."""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...core.errors import ExpressionError, RecordError
from ...tuning.spaces.space import Knob, Point
from .knobs import (
    ENTITIES,
    AnnotateEntity,
    AnnotateSpace,
    Axis,
    Entity,
    KnobSpace,
    OtherOptionEntity,
    OtherOptionSpace,
    ReorderSpace,
    SplitEntity,
    SplitSpace,
    VirtualAxis,
    factors_of,
)

Filter = Callable[[Mapping[str, Any]], bool]

_MOST_FILTERED = 1 << 22  # configs of a space whose filter is asked about each
_ANNOTATIONS = ("none", "vec", "unroll")


class Config:
    """What ``autotvm.get_config`` gives a template: it defines knobs, and has an entity for each."""

    is_fallback = False

    def __init__(self) -> None:
        self.entities: dict[str, Any] = {}
        self.errors: list[str] = []
        self.code_hash: str | None = None
        self.flop: float = 0
        self.cost: float | None = None

    @staticmethod
    def axis(var: Any) -> VirtualAxis:
        """An axis of a length, or of that of a te axis, for ``define_split`` and the like."""
        return VirtualAxis(var)

    reduce_axis = axis

    def define_split(self, name: str, axis: Any, policy: str = "factors", **kwargs: Any) -> list[Axis]:
        """A knob that splits an axis into ``num_outputs`` loops.

        ``policy`` is "factors" (which divide the extent), "power2", "verbose" (both) or "candidate" (those given as
        ``candidate``). Of these, ``max_factor``, ``filter`` (a function of an entity) and ``no_tail`` leave some out.
        """
        return self._define(name, [axis], lambda axes: SplitSpace(axes, policy, **kwargs), kwargs.get("num_outputs", 0))

    def define_reorder(self, name: str, axes: Sequence[Any], policy: str, **kwargs: Any) -> list[Axis]:
        """A knob that orders axes.

        ``policy`` is "identity", "all", "interval_all" (all orders of those in ``interval``), "candidate" or
        "interleave" (of chains of axes, ``spatial`` and ``reduce``).
        """
        return self._define(name, axes, lambda each: ReorderSpace(each, policy, **kwargs), len(axes))

    def define_annotate(self, name: str, axes: Sequence[Any], policy: str, **kwargs: Any) -> list[Axis]:
        """A knob that says how axes run.

        ``policy`` is "none", "unroll", "vec", "try_unroll", "try_vec", "try_unroll_vec", or "locate_cache", which
        chooses ``num_anchor`` of the axes to compute something at. Raises ExpressionError for those of GPUs.
        """
        return self._define(name, axes, lambda each: AnnotateSpace(each, policy, **kwargs), len(axes))

    def define_knob(self, name: str, candidate: Sequence[Any]) -> list[Axis]:
        """A knob that has one of some values."""
        return self._define(name, [], lambda axes: OtherOptionSpace(candidate), 0)

    def add_flop(self, flop: Any) -> None:
        """Count floating point operations of the task, in place of those that its expressions tell."""
        self.flop += float(getattr(flop, "value", flop))

    def raise_error(self, msg: str) -> None:
        """Say that this config is none: it is not built."""
        self.errors.append(msg)

    def valid(self) -> bool:
        """Return whether nothing has raised an error."""
        return not self.errors

    def multi_filter(self, filter: Filter) -> None:
        """Leave out configs for which ``filter`` of the entities by name is false."""

    def _define(
        self, name: str, axes: Sequence[Any], make: Callable[[list[Any]], KnobSpace], outputs: int
    ) -> list[Axis]:
        return [Axis(None, number) for number in range(outputs)]

    def __getitem__(self, name: str) -> Any:
        if name not in self.entities:
            raise ExpressionError(f"the config has no knob '{name}': it has {', '.join(self.entities) or 'none'}")
        return self.entities[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.entities)

    def get_other_option(self) -> dict[str, Any]:
        """The values of ``define_knob`` by name."""
        return {name: each.val for name, each in self.entities.items() if isinstance(each, OtherOptionEntity)}

    def _text(self) -> str:
        return f"{list(self.entities.items())},{self.code_hash}"


class ConfigSpace(Config):
    """All configs of a template: their numbers count the first knob fastest."""

    def __init__(self) -> None:
        super().__init__()
        self.space_map: dict[str, KnobSpace] = {}
        self._filter: Filter | None = None
        self._allowed: list[bool] | None = None

    def _define(
        self, name: str, axes: Sequence[Any], make: Callable[[list[Any]], KnobSpace], outputs: int
    ) -> list[Axis]:
        space = make([each if isinstance(each, VirtualAxis | Axis) else self.axis(each) for each in axes])
        if not len(space):
            raise ExpressionError(f"knob '{name}' has no choice left: its filter refuses all")
        self._allowed = None
        self.space_map[name] = space
        self.entities[name] = space[0]
        return [Axis(space, number) for number in range(space.num_output)]

    def multi_filter(self, filter: Filter) -> None:
        """See ``Config``; the last filter counts."""
        self._filter, self._allowed = filter, None

    @property
    def dims(self) -> list[int]:
        """How many entities each knob has."""
        return [len(each) for each in self.space_map.values()]

    @property
    def range_length(self) -> int:
        """How many numbers of configs there are, with those that a filter leaves out."""
        return math.prod(self.dims)

    def __len__(self) -> int:
        return min(self.subrange_length(0, self.range_length), sys.maxsize)  # Python has no longer length

    def subrange_length(self, start: int, end: int) -> int:
        """How many configs there are from number ``start`` to before ``end``."""
        return end - start if self._filter is None else self._list_allowed()[start:end].count(True)

    def is_index_valid(self, index: int) -> bool:
        """Return whether no filter leaves out this config. Raises ExpressionError for a number that is none."""
        if not 0 <= index < self.range_length:
            raise ExpressionError(f"there is no config {index}: numbers go from 0 to {self.range_length - 1}")
        if self._allowed is not None:
            return self._allowed[index]
        return self._filter is None or bool(self._filter(self._entities_of(index)))

    def _list_allowed(self) -> list[bool]:
        if self._allowed is None:
            if self.range_length > _MOST_FILTERED:
                raise ExpressionError(
                    f"the space has {self.range_length} configs, too many to ask a filter about each: let knobs have"
                    " filters of their own"
                )
            filter = self._filter or (lambda entities: True)
            self._allowed = [bool(filter(self._entities_of(index))) for index in range(self.range_length)]
        return self._allowed

    def get(self, index: int) -> ConfigEntity:
        """The config of a number. Raises ExpressionError for one that is none, or that a filter leaves out."""
        if not self.is_index_valid(index):
            raise ExpressionError(f"config {index} is left out by the filter: is_index_valid tells")
        return ConfigEntity(index, self.code_hash, self._entities_of(index))

    def _entities_of(self, index: int) -> dict[str, Any]:
        pairs = zip(self.space_map.items(), self.point2knob(index), strict=True)
        return {name: space[number] for (name, space), number in pairs}

    def point2knob(self, point: int) -> list[int]:
        """The number of the entity of each knob, of a config's number."""
        made = []
        for dim in self.dims:
            point, number = divmod(point, dim)
            made.append(number)
        return made

    def knob2point(self, knob: Sequence[int]) -> int:
        """The inverse of ``point2knob``."""
        point = 0
        for dim, number in zip(reversed(self.dims), reversed(knob), strict=True):
            point = point * dim + number
        return point

    def get_rand_index(
        self, start: int | None = None, end: int | None = None, to_exclude: Collection[int] | None = None
    ) -> int:
        """The number of a random config between two, which is none of ``to_exclude``.

        Raises ExpressionError where there is no other.
        """
        low, high, without = start or 0, end or self.range_length, to_exclude or ()
        for _ in range(1000):
            index = random.randrange(low, high)
            if index not in without and self.is_index_valid(index):
                return index
        numbers = range(low, high if high - low <= _MOST_FILTERED else low)
        left = [index for index in numbers if index not in without and self.is_index_valid(index)]
        if not left:
            raise ExpressionError("there is no other config: all are excluded")
        return random.choice(left)

    def get_next_index(self, index: int, n: int = 1, start: int | None = None, end: int | None = None) -> int | None:
        """The number of the ``n``-th config behind one, or before where ``n`` is negative; None where there is none."""
        low, high = start or 0, end or self.range_length
        for _ in range(abs(n)):
            index += 1 if n > 0 else -1
            while low <= index < high and not self.is_index_valid(index):
                index += 1 if n > 0 else -1
            if not low <= index < high:
                return None
        return index

    def sample_ints(self, m: int) -> np.ndarray:
        """The numbers of ``m`` random configs, all different; of all configs where there are no more."""
        chosen: dict[int, None] = {}
        while len(chosen) < min(m, len(self)):
            chosen[self.get_rand_index(to_exclude=chosen)] = None
        return np.fromiter(chosen, int, len(chosen))

    def random_walk(self, point: int) -> int:
        """The number of a config that differs in some knobs from that of ``point``, as long as there is another."""
        if len(self) < 2:
            return point
        knob = self.point2knob(point)
        while (made := self.knob2point(knob)) == point or not self.is_index_valid(made):
            number = random.randrange(len(knob))
            knob[number] = random.randrange(self.dims[number])
        return made

    # ---- as searches see it

    @property
    def knobs(self) -> tuple[Knob, ...]:
        """The knobs, whose options are what logs have of entities."""
        return tuple(
            Knob(name, tuple(_as_option(each.data) for each in space)) for name, space in self.space_map.items()
        )

    @property
    def default(self) -> Point:
        """The point of the first config: an entity's number for each knob."""
        return tuple(0 for _ in self.space_map)

    def steps(self, point: Sequence[int]) -> Any:
        """What tells a point's config from others; None for one that there is not."""
        index = self.knob2point(point)
        return [each.data for each in self._entities_of(index).values()] if self.is_index_valid(index) else None

    def __repr__(self) -> str:
        rows = [f"  {number:2d} {name}: {space}\n" for number, (name, space) in enumerate(self.space_map.items())]
        return f"ConfigSpace (len={len(self)}, range_length={self.range_length}, space_map=\n{''.join(rows)})"


def _as_option(data: Any) -> Any:
    return tuple(data) if isinstance(data, list) else data


class ConfigEntity(Config):
    """One config: an entity for each knob, and its number in the space."""

    def __init__(
        self, index: int, code_hash: str | None, entity_map: Mapping[str, Any], constraints: Any = None
    ) -> None:
        super().__init__()
        self.index, self.code_hash = index, code_hash
        self.entities = dict(entity_map)

    def get_flatten_feature(self) -> np.ndarray:
        """The config as numbers, float32[n]: sizes, orders, a place for each annotation, values of knobs."""
        made: list[float] = []
        for entity in self.entities.values():
            if isinstance(entity, AnnotateEntity):
                made += [float(ann == word) for ann in entity.anns for word in _ANNOTATIONS]
            elif isinstance(entity, OtherOptionEntity):
                made.append(float(entity.val) if isinstance(entity.val, int | float) else float(len(str(entity.val))))
            else:
                made += [float(each) for each in entity.data]
        return np.array(made, np.float32)

    def to_json_dict(self) -> dict[str, Any]:
        """As a log of TVM's has it."""
        entity = [[name, each.kind, each.data] for name, each in self.entities.items()]
        return {"index": int(self.index), "code_hash": self.code_hash, "entity": entity}

    @staticmethod
    def from_json_dict(json_dict: Mapping[str, Any]) -> ConfigEntity:
        """The inverse of ``to_json_dict``. Raises RecordError for what is no config."""
        try:
            made: dict[str, Entity] = {}
            for name, kind, data in json_dict["entity"]:
                made[str(name)] = ENTITIES[kind](data)
            return ConfigEntity(int(json_dict["index"]), json_dict.get("code_hash"), made)
        except (KeyError, TypeError, ValueError) as error:
            raise RecordError(f"a config of a record is damaged ({type(error).__name__}: {error})") from error

    def __repr__(self) -> str:
        return f"{self._text()},{self.index}"


class FallbackConfigEntity(ConfigSpace):
    """The config of a template that no record tells one: the first entity of each knob, unless the template sets it."""

    is_fallback = True

    def _define(
        self, name: str, axes: Sequence[Any], make: Callable[[list[Any]], KnobSpace], outputs: int
    ) -> list[Axis]:
        held = self.entities.get(name)
        made = super()._define(name, axes, make, outputs)
        if held is not None:
            self.entities[name] = held
        return made

    def fallback_split(self, name: str, constraints: Sequence[int]) -> None:
        """Split by the largest factors that are no larger than ``constraints``, from the innermost; -1 is no bound."""
        space = self.space_map.get(name)
        if not isinstance(space, SplitSpace) or len(constraints) != space.num_output:
            raise ExpressionError(f"'{name}' is no split into {len(constraints)} loops")
        left, size = space.product, [1] * space.num_output
        for number in reversed(range(space.num_output)):
            bound = constraints[number]
            size[number] = max(each for each in factors_of(left) if bound == -1 or each <= max(bound, 1))
            left //= size[number]
        self.entities[name] = SplitEntity(size)

    def __setitem__(self, name: str, entity: Entity) -> None:
        self.entities[name] = entity

    def __repr__(self) -> str:
        return self._text()
