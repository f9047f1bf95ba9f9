"""A case of the table: something of torch's, and the inputs that it is called on."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn


@dataclass(frozen=True)
class Given:
    """An input: uniform in ``[low, high)``, integers of all of them."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    low: float
    high: float

    def tensor(self, generator: torch.Generator) -> torch.Tensor:
        """A tensor of it."""
        unit = torch.rand(self.shape, generator=generator, dtype=torch.float64)
        values = self.low + unit * (self.high - self.low)
        return values.floor().to(self.dtype) if not self.dtype.is_floating_point else values.to(self.dtype)


def f32(*shape: int, low: float = -2.0, high: float = 2.0, dtype: torch.dtype = torch.float32) -> Given:
    """An input of floats."""
    return Given(dtype, shape, low, high)


def i64(*shape: int, low: int = -9, high: int = 10, dtype: torch.dtype = torch.int64) -> Given:
    """An input of integers, ``high`` not among them."""
    return Given(dtype, shape, low, high)


def bools(*shape: int) -> Given:
    """An input of bools."""
    return Given(torch.bool, shape, 0, 2)


class Called(nn.Module):
    """A function of tensors as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        """What the function gives."""
        return self.function(*inputs)


@dataclass(frozen=True)
class Case:
    """``make`` gives the module; ``tolerance`` is relative and absolute, None for what is usual for a dtype.

    With ``open_batch`` the first axis of all inputs is left open, and the program is called with another batch.
    """

    name: str
    group: str
    make: Callable[[], nn.Module]
    given: tuple[Given, ...]
    tolerance: tuple[float, float] | None = None
    open_batch: bool = False

    def module(self) -> nn.Module:
        """The module for inference; the same numbers each time that it is made."""
        torch.manual_seed(zlib.crc32(self.name.encode()))
        module = self.make().eval()
        for name, buffer in module.named_buffers():
            if name.rpartition(".")[2].startswith("running_"):
                buffer.uniform_(0.5, 1.5)
        for weight in module.parameters():
            if weight.dim() == 1 and (weight == weight[0]).all():  # a scale of 1, a shift of 0
                weight.data += torch.rand_like(weight)
        return module

    def inputs(self, more: int = 0) -> tuple[torch.Tensor, ...]:
        """The inputs, of a batch that is larger by ``more``; the same numbers each time."""
        generator = torch.Generator().manual_seed(zlib.crc32(self.name.encode()))
        wanted = [
            replace(given, shape=(given.shape[0] + more, *given.shape[1:])) if more else given for given in self.given
        ]
        return tuple(given.tensor(generator) for given in wanted)


class Table:
    """Collects the cases of a group; with ``batches`` those of layers are there with an open batch, too."""

    def __init__(self, group: str, batches: bool = False) -> None:
        self.group, self.batches = group, batches
        self.cases: list[Case] = []

    def layer(
        self, name: str, make: Callable[[], nn.Module], *given: Given, tolerance: Any = None, batched: bool = True
    ) -> None:
        """A module that ``make`` builds."""
        self.cases.append(Case(name, self.group, make, given, tolerance))
        if self.batches and batched and {len(g.shape) > 1 and g.shape[0] for g in given} == {given[0].shape[0]}:
            self.cases.append(Case(f"{name}, any batch", self.group, make, given, tolerance, open_batch=True))

    def call(self, name: str, function: Callable[..., Any], *given: Given, tolerance: Any = None) -> None:
        """A function of tensors."""
        self.cases.append(Case(name, self.group, lambda: Called(function), given, tolerance))

    def calls(self, functions: Sequence[Callable[..., Any]], *given: Given) -> None:
        """Functions that are called by their names' own case, all on the same inputs."""
        for function in functions:
            self.call(function.__name__, function, *given)
