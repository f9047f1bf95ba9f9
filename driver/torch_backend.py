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

from ..core.errors import CompileError, TilewrightError, UnsupportedError
from ..frontends.torch.graph import Argument, Border, GraphSource, can_be_dynamic
from ..frontends.torch.module import TENSOR
from . import api

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
    known = [name for name in inspect.signature(api.compile).parameters if name not in _NOT_OPTIONS]
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
    """A graph compiled for some calls, by the places of arguments.

    ``weights`` are the tensors that it was compiled with, which are not kept alive, and their versions; those of
    ``unversioned`` ones are not counted. ``numbers`` are constants, ``scalars`` may be any that a program can be open
    for. ``shapes`` are those of tensors whose sizes torch leaves open and the program does not.
    """

    call: Callable[[Sequence[Any]], list[Any]]
    weights: tuple[tuple[int, weakref.ref[torch.Tensor], int], ...]
    unversioned: tuple[tuple[int, weakref.ref[torch.Tensor]], ...]
    numbers: tuple[tuple[int, float], ...]
    shapes: tuple[tuple[int, torch.Size], ...]
    scalars: tuple[int, ...]

    @staticmethod
    def of(call: Callable[[Sequence[Any]], list[Any]], border: Border, args: Sequence[Any], given: Border) -> _Variant:
        """For calls like this one: torch says that ``given`` is the graph's border, ``border`` is the program's."""
        fixed = [i for i, a in enumerate(border.arguments) if a.kind in ("weight", "constant")]
        tensors = [i for i in fixed if isinstance(args[i], torch.Tensor) and args[i].ndim]
        pairs = enumerate(zip(given.arguments, border.arguments, strict=True))
        return _Variant(
            call,
            tuple((i, weakref.ref(args[i]), args[i]._version) for i in tensors if not args[i].is_inference()),
            tuple((i, weakref.ref(args[i])) for i in tensors if args[i].is_inference()),
            tuple((i, _to_number(args[i])) for i in fixed if i not in tensors),
            tuple((i, args[i].shape) for i, (was, a) in pairs if was.open_axes != a.open_axes),
            tuple(i for i, a in enumerate(border.arguments) if a.kind == "scalar"),
        )

    def fits(self, args: Sequence[Any]) -> bool:
        """True if the weights of a call are the same, unchanged, and the program is for its sizes."""
        for i, kept, version in self.weights:
            value = args[i]
            if value is not kept() or value._version != version:
                return False
        return (
            all(args[i] is kept() for i, kept in self.unversioned)
            and all(_to_number(args[i]) == number for i, number in self.numbers)
            and all(args[i].shape == shape for i, shape in self.shapes)
            and all(can_be_dynamic(args[i]) for i in self.scalars)
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
            variant = next((v for v in self._variants if v.fits(args)), None) or self._compile_for(args)
        return self._graph(*args) if variant is None else variant.call(args)

    def _compile_for(self, args: Sequence[Any]) -> _Variant | None:
        """The graph compiled with the weights of a call; None where it is left to torch."""
        border = self._border.at(args)
        try:
            _refuse(border.arguments, args)
            try:
                call = self._program(border, args)
            except UnsupportedError:
                if not border.is_dynamic:
                    raise
                border = border.specialize(args)
                call = self._program(border, args)
        except TilewrightError as error:
            if not self._fallback:
                raise
            _warn(error)
            self._in_torch = True
            return None
        variant = _Variant.of(call, border, args, self._border)
        self._variants = [variant, *self._variants[: _MOST_VARIANTS - 1]]
        return variant

    def _program(self, border: Border, args: Sequence[Any]) -> Callable[[Sequence[Any]], list[Any]]:
        return api.compile(GraphSource(self._graph, border, args, "the graph"), **self._settings)


def _to_number(value: Any) -> float:
    return value.item() if isinstance(value, torch.Tensor) else value


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
