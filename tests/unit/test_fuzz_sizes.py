"""Random graphs over open sizes: a sample of those of ``make fuzz-open`` and of each theme."""

from __future__ import annotations

import numpy as np
import pytest
from fuzz.sizes.__main__ import outcomes
from fuzz.sizes.generator import generate
from fuzz.sizes.graph import extent, plus, times
from fuzz.sizes.judge import Way

SAMPLES = {"any": range(4), "images": range(2, 3), "rows": range(1)}


@pytest.mark.parametrize("theme", SAMPLES)
def test_random_graphs_agree_on_all_sizes(theme: str):
    numbers = [(0, index, theme) for index in SAMPLES[theme]]
    wrong = [f"{number}: {o.kind}: {o.reason}" for number, o in outcomes(numbers, 1, 300) if o.is_finding]
    assert not wrong, "\n".join(wrong)


def test_a_number_has_one_graph():
    (model, runs), (again, others) = (generate(3, 5) for _ in range(2))
    assert model == again
    for (sizes, arrays), (same, equal) in zip(runs, others, strict=True):
        assert sizes == same and arrays.keys() == equal.keys()
        assert all(np.array_equal(arrays[name], equal[name]) for name in arrays)


def test_names_vary_independently():
    _, runs = generate(0, 0)
    assert len(runs) >= 4 and all(len(set(sizes.values())) > 1 for sizes, _ in runs[:1])


def test_extents_are_computed_from_names():
    dim = times(2, plus("n", "m", 3), "k")
    assert extent(dim, {"n": 1, "m": 2, "k": 5}) == 60
    assert (plus(1, 2), times(1, "n"), extent("fit(n, m)", {"n": 1, "m": 4})) == (3, "n", 4)


def test_sizes_that_never_change_are_mostly_known():
    model, runs = generate(0, 1, "images")
    way = Way.of((0, 1, "images"), model, runs)
    assert way.threads == 2 and all(sizes[name] == n for sizes, _ in runs for name, n in way.known.items())
    assert Way.of((0, 4, "images"), model, runs).known == {} == Way.of((0, 1, "any"), model, runs).known
