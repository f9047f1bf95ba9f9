"""Weights of a user's, in place of those that a network has."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..core.errors import ModelError
from ..core.model import Model, Param
from . import nd


def with_weights(model: Model, given: Mapping[str, Any]) -> Model:
    """A model with weights of the user's in place of its own. Raises ModelError for those that are none of it."""
    own = dict(model.params)
    for name, value in given.items():
        if name not in own:
            raise ModelError(f"the network has no weight '{name}': it has {', '.join(sorted(own)[:8]) or 'none'}")
        info, array = own[name].info, nd.nd.array(value).numpy()
        held = own[name].array()
        if (array.shape, array.dtype) != (held.shape, held.dtype):
            raise ModelError(
                f"weight '{name}' is {array.dtype}{list(array.shape)} and must be {held.dtype}{list(held.shape)}"
            )
        if not np.array_equal(_bytes_of(array), _bytes_of(held)):
            own[name] = Param(info, array.copy())
    return dataclasses.replace(model, params=own)


def _bytes_of(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
