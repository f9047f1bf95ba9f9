"""Several cases as one program, compiled and held against eager."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from conformance.suite import Outcome
from torch import nn
from torch.export import Dim
from torch.utils import _pytree as pytree

import tilewright as tw

from . import convolutions, dtypes, layers, tensors
from .case import Case, Table

_TABLES = [t for m in (convolutions, layers, tensors, dtypes) for t in vars(m).values() if isinstance(t, Table)]
# Relative and absolute; other types are exact.
_TOLERANCES = {
    torch.float64: (1e-7, 1e-7),
    torch.float32: (1e-4, 1e-5),
    torch.float16: (2e-3, 2e-3),
    torch.bfloat16: (2**-6, 2**-6),
}
_TOGETHER = 12  # cases of one program


def cases() -> dict[str, Case]:
    """All cases by name."""
    return {case.name: case for table in _TABLES for case in table.cases}


def groups(chosen: Sequence[Case]) -> list[tuple[str, ...]]:
    """The names of cases that are compiled together: some of one group."""
    by_group: dict[tuple[str, bool], list[str]] = {}
    for case in chosen:
        by_group.setdefault((case.group, case.open_batch), []).append(case.name)
    return [tuple(names[i : i + _TOGETHER]) for names in by_group.values() for i in range(0, len(names), _TOGETHER)]


class _Together(nn.Module):
    """Calls each module on arguments of its own."""

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(modules)

    def forward(self, given: list[tuple[torch.Tensor, ...]]) -> list[Any]:
        return [part(*inputs) for part, inputs in zip(self.parts, given, strict=True)]


def check(names: Sequence[str]) -> list[Outcome]:
    """What becomes of each case: those of a program that fails are compiled again, half of them at a time.

    All of them are of open batches, or none.
    """
    torch.set_num_threads(1)
    return list(_outcomes([cases()[name] for name in names]))


def _outcomes(chosen: Sequence[Case]) -> Iterator[Outcome]:
    try:
        yield from _checked(chosen)
        return
    except tw.TilewrightError as error:
        refused = isinstance(error, (tw.ModelError, tw.UnsupportedError))
        outcome = Outcome("refused" if refused else "error", str(error))
    except Exception as error:
        outcome = Outcome("error", f"{type(error).__name__}: {error}")
    if len(chosen) == 1:
        yield outcome
        return
    middle = len(chosen) // 2
    yield from _outcomes(chosen[:middle])
    yield from _outcomes(chosen[middle:])


def _checked(chosen: Sequence[Case]) -> list[Outcome]:
    module, is_open = _Together([case.module() for case in chosen]).eval(), chosen[0].open_batch
    inputs = [case.inputs(1 if is_open else 0) for case in chosen]  # torch takes a batch of 1 for a constant
    sizes = ([tuple({0: Dim.AUTO} for _ in given) for given in inputs],) if is_open else None
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = tw.compile(
            module, example_inputs=(inputs,), dynamic_shapes=sizes, workers=0, num_threads=1, cache=False
        )
        inputs = [case.inputs(3) for case in chosen] if is_open else inputs
        expected = [part(*given) for part, given in zip(module.parts, inputs, strict=True)]
    found = compiled(inputs)
    return [compared(*each) for each in zip(found, expected, chosen, strict=True)]


def compared(found: Any, expected: Any, case: Case) -> Outcome:
    """Whether what a program gives is what eager gives."""
    got, nested = pytree.tree_flatten(found)
    want, wanted = pytree.tree_flatten(expected)
    if nested != wanted:
        return Outcome("wrong", "the results are nested otherwise")
    reasons = (_difference(a, b, case.tolerance) for a, b in zip(got, want, strict=True))
    reason = next(filter(None, reasons), "")
    return Outcome("wrong", reason) if reason else Outcome("pass")


def _difference(got: Any, want: Any, tolerance: tuple[float, float] | None) -> str:
    """How a result differs from the one of eager; empty where it does not."""
    if not isinstance(want, torch.Tensor):
        return "" if got == want else f"{got} instead of {want}"
    if (got.dtype, got.shape) != (want.dtype, want.shape):
        return f"{got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
    relative, absolute = tolerance or _TOLERANCES.get(want.dtype, (0.0, 0.0))
    a, b = got.double(), want.double()
    if torch.allclose(a, b, rtol=relative, atol=absolute, equal_nan=True):
        return ""
    return f"differs by up to {(a - b).abs().nan_to_num(float('inf')).max().item():.3g}"
