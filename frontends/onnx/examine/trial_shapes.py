"""Shapes that open inputs are tried with: what is refused rarely depends on them, and those that fit can be told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ....core.sizes import Extent

# Extents of open dimensions; those of a first axis have 1. Some networks need an image's size.
_EXTENTS = (224, 64, 512, 1)

DynamicShape = Sequence[Extent | str] | None  # names stand for open extents, "" for one without; None is of any rank


def propose_shapes(shapes: Mapping[str, DynamicShape]) -> Iterator[dict[str, list[int]]]:
    """Shapes for open inputs, each combination once, the likeliest first. A name is one extent in all inputs."""
    tried = []
    for extent in _EXTENTS:
        for of_any_rank in ([1, 3, extent, extent], [1, extent]):
            for made in (_fill_alike(shapes, extent, of_any_rank), _fill_by_leader(shapes, extent, of_any_rank)):
                if made not in tried:
                    tried.append(made)
                    yield made


def _fill_alike(shapes: Mapping[str, DynamicShape], extent: int, of_any_rank: list[int]) -> dict[str, list[int]]:
    """Every open dimension has the extent, but for those that are the first axis of an input, which have 1."""
    first = {shape[0] for shape in shapes.values() if shape} - {""}

    def extent_of(dim: Extent | str, axis: int) -> int:
        return dim if isinstance(dim, int) else 1 if axis == 0 or dim in first else extent

    return {
        name: of_any_rank if shape is None else [extent_of(dim, axis) for axis, dim in enumerate(shape)]
        for name, shape in shapes.items()
    }


def _fill_by_leader(shapes: Mapping[str, DynamicShape], extent: int, of_any_rank: list[int]) -> dict[str, list[int]]:
    """The same, but that inputs behind the first, as a state is, have the extent only where that has the same name."""
    alike = _fill_alike(shapes, extent, of_any_rank)
    leader = next(iter(shapes))
    named = set(shapes[leader] or ()) - {""}
    return {
        name: alike[name]
        if name == leader or shape is None
        else [n if isinstance(dim, int) or dim in named else 1 for n, dim in zip(alike[name], shape, strict=True)]
        for name, shape in shapes.items()
    }
