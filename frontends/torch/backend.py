"""``torch.compile(module, backend="tilewright")``: pyproject's entry point of the name is ``tilewright`` here.

Guards, graph breaks and recompilations are torch's. A graph is compiled when it is first called: it is not exported
where the compile cache has it. Weights are constants of the program: with others, or changed ones, a graph is compiled
again. So it is for other sizes, where no program is found for all that torch leaves open.
"""

from __future__ import annotations

import inspect
import threading
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule

from ... import driver
from ...errors import CompileError, TilewrightError, UnsupportedError
from .graph import Argument, Border, GraphSource, is_open
from .module import TENSOR

_MOST_VARIANTS = 8  # programs of one graph that stay, for weights that differ
_FALLBACK = "fallback"
_NOT_OPTIONS = ("source", "input_shapes", "specialize", "example_inputs", "dynamic_shapes", "executor", "weights")


def tilewright(
    graph: GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., list[torch.Tensor]]:
    """The backend. ``options`` are those of ``tilewright.compile`` (``num_threads``, ``target``, ``timeout``...).

    With ``fallback`` a graph that cannot be compiled runs in torch, and a warning says why; without it, its first call
    raises what ``tilewright.compile`` raises. CompileError for an option that there is not.
    """
    settings = dict(options or {})
    fallback = settings.pop(_FALLBACK, False)
    known = [name for name in inspect.signature(driver.compile).parameters if name not in _NOT_OPTIONS]
    for name in settings:
        if name not in known:
            raise CompileError(
                f"torch.compile has no option '{name}' with this backend: it has {_FALLBACK}, {', '.join(known)}"
            )
    if mode not in (None, "default"):
        raise CompileError(f"mode '{mode}' is inductor's: this backend has options, as options={{'num_threads': 1}}")
    try:
        border = Border.of(graph)
        return _Graph(graph, border, settings, fallback) if TENSOR in border.results else graph.forward
    except UnsupportedError as error:
        if not fallback:
            raise
        _warn(error)
        return graph.forward


@dataclass(frozen=True)
class _Variant:
    """A graph compiled with weights: ``fixed`` are their places, and what tells them from others.

    ``shapes`` are those of tensors whose sizes torch leaves open and the program does not, ``scalars`` the places of
    numbers that may be others.
    """

    call: Callable[[Sequence[Any]], list[Any]]
    fixed: tuple[tuple[int, Any, Any], ...]
    shapes: tuple[tuple[int, torch.Size], ...]
    scalars: tuple[int, ...]

    def fits(self, args: Sequence[Any]) -> bool:
        """Whether a call's weights are those, unchanged, and its sizes ones that the program is for."""
        return (
            all(_same(args[i], kept, state) for i, kept, state in self.fixed)
            and all(args[i].shape == shape for i, shape in self.shapes)
            and all(is_open(args[i]) for i in self.scalars)
        )


class _Graph:
    """A graph that is called; threads may share it."""

    def __init__(self, graph: GraphModule, border: Border, settings: dict[str, Any], fallback: bool) -> None:
        self._graph, self._border, self._settings, self._fallback = graph, border, settings, fallback
        self._variants: list[_Variant] = []
        self._lock = threading.Lock()
        self._in_torch = False

    def __call__(self, *args: Any) -> Any:
        if self._in_torch:
            return self._graph(*args)
        for variant in self._variants:
            if variant.fits(args):
                return variant.call(args)
        with self._lock:
            variant = next((v for v in self._variants if v.fits(args)), None) or self._compiled(args)
        return self._graph(*args) if variant is None else variant.call(args)

    def _compiled(self, args: Sequence[Any]) -> _Variant | None:
        """The graph compiled with the weights of a call; None where it is left to torch."""
        border = self._border.at(args)
        try:
            _refuse(border.arguments, args)
            try:
                call = self._program(border, args)
            except UnsupportedError:
                if not border.is_open:
                    raise
                border = border.closed(args)
                call = self._program(border, args)
        except TilewrightError as error:
            if not self._fallback:
                raise
            _warn(error)
            self._in_torch = True
            return None
        pairs = list(zip(self._border.arguments, border.arguments, strict=True))
        fixed = tuple((i, *_kept(args[i])) for i, (_, a) in enumerate(pairs) if a.kind in ("weight", "constant"))
        shapes = tuple((i, args[i].shape) for i, (was, a) in enumerate(pairs) if was.open_axes != a.open_axes)
        scalars = tuple(i for i, (_, a) in enumerate(pairs) if a.kind == "scalar")
        variant = _Variant(call, fixed, shapes, scalars)
        self._variants = [variant, *self._variants[: _MOST_VARIANTS - 1]]
        return variant

    def _program(self, border: Border, args: Sequence[Any]) -> Callable[[Sequence[Any]], list[Any]]:
        return driver.compile(GraphSource(self._graph, border, args, "the graph"), **self._settings)


def _kept(value: Any) -> tuple[Any, Any]:
    """What tells a weight from others: itself, which is not kept alive, and its version; of a number, its value."""
    if not isinstance(value, torch.Tensor):
        return None, value
    return (None, value.item()) if value.ndim == 0 else (weakref.ref(value), _version(value))


def _same(value: Any, kept: Any, state: Any) -> bool:
    if kept is not None:
        return kept() is value and _version(value) == state
    return (value.item() if isinstance(value, torch.Tensor) else value) == state


def _version(tensor: torch.Tensor) -> int:
    return -1 if tensor.is_inference() else tensor._version


def _refuse(described: Sequence[Argument], args: Sequence[Any]) -> None:
    """UnsupportedError for tensors that are elsewhere, and for a call that asks for gradients."""
    for argument, value in zip(described, args, strict=True):
        if not isinstance(value, torch.Tensor):
            continue
        if value.device.type != "cpu":
            raise UnsupportedError(f"'{argument.name}' is on {value.device}: programs run on the CPU, move all there")
        if value.requires_grad and torch.is_grad_enabled():
            what = f"'{argument.name}' requires a gradient, and compiled programs have no backward"
            raise UnsupportedError(f"{what}: call the module under torch.no_grad() or torch.inference_mode()")


def _warn(error: TilewrightError) -> None:
    warnings.warn(f"this graph runs in torch: {error}", RuntimeWarning, stacklevel=3)
