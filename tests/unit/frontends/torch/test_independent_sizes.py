"""Random modules whose inputs' extents vary independently."""

from __future__ import annotations

import pytest
from fuzz.sizes.torch_modules import check
from samples import campaign, some_of


@campaign("2", "4")
@pytest.mark.parametrize("index", some_of([(index,) for index in range(8)], 2))
def test_a_random_module_is_eager_on_all_sizes(index):
    assert check(0, index) == ""
