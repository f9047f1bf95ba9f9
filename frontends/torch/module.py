"""``TorchModule``: a compiled program that is called as the PyTorch module was that it is made from."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import partial
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ...core.errors import InputError
from ...core.model import TensorInfo
from ...core.printed import name_text
from ...core.sizes import Extent, Sym, has_dynamic_extents
from ...core.states import NEXT
from ...runtime.description import describe_program
from ...runtime.module import Module
from ...runtime.session import Session
from ..linalg.fitting import value_at
from .tensors import array_of, dtype_of, to_torch


class _Result(Enum):
    """The kinds of a module's results that are not constants."""

    TENSOR = "tensor"


TENSOR = _Result.TENSOR


class Callee:
    """A program as a function of torch tensors on the CPU, given and made in its order, without copying any.

    Tensors that are not contiguous are copied. It may be called from several threads.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self._infos = module.inputs
        self._wanted = [(torch.Size(_static_shape_of(info)), dtype_of(info)) for info in module.inputs]
        self._makers = [partial(torch.empty, _static_shape_of(info), dtype=dtype_of(info)) for info in module.outputs]
        fixed = not any(has_dynamic_extents(info.shape) for info in (*module.inputs, *module.outputs))
        # Of a program of fixed sizes the entry is called as it is: it takes torch's tensors.
        self._main = module["main"] if fixed and module.executor == "aot" and not module.bounded else None

    def __call__(self, tensors: Sequence[torch.Tensor], timeout: float | None = None) -> list[torch.Tensor]:
        """Run; InputError for a tensor of another shape, dtype or device, otherwise as ``Module.run``."""
        if torch.is_grad_enabled():
            self._refuse_gradients(tensors)
        if self._main is None or timeout is not None:
            arrays = {info.name: array_of(x, info) for x, info in zip(tensors, self._infos, strict=True)}
            made = self.module.run(arrays, timeout=timeout)
            return [to_torch(array, info) for array, info in zip(made, self.module.outputs, strict=True)]
        given = []
        for x, (shape, dtype), info in zip(tensors, self._wanted, self._infos, strict=True):
            if x.shape != shape or x.dtype != dtype or not x.is_cpu:
                raise InputError(_describe_misfit(x, info))
            given.append(_to_plain(x) if x.requires_grad or x.is_conj() or not x.is_contiguous() else x)
        outputs = [make() for make in self._makers]
        self._main(*given, *outputs)
        return outputs

    def _refuse_gradients(self, tensors: Sequence[torch.Tensor]) -> None:
        for x, info in zip(tensors, self._infos, strict=True):
            if x.requires_grad:
                what = f"input '{info.name}' requires a gradient, and compiled programs have no backward"
                raise InputError(f"{what}: call them under torch.no_grad() or torch.inference_mode()")


class TorchModule:
    """Takes the tensors that the module takes, nested as there, and gives what it gives, without copying any.

    ``module`` is the program, a ``tilewright.Module``, whose attributes this has, too. ``states`` are the buffers that
    the PyTorch module changes, by their names: a call reads and replaces them. Threads may share it; those of a module
    with states wait for each other. ``scalars`` are what inputs are that are sizes. Of ``results`` an extent is a size
    that is computed from those of the inputs. ``names`` are those of the arguments, in the order of the module's.

    It is pickled with its program and its states, and a copy has states of its own.
    """

    def __init__(
        self,
        module: Module,
        spec: tuple[Any, Any],
        results: Sequence[Any],
        states: Mapping[str, torch.Tensor],
        scalars: Mapping[str, Extent],
        names: Sequence[str] = (),
    ) -> None:
        self.module = module
        self._names = tuple(names)
        self.states = {name: tensor.detach().clone() for name, tensor in states.items()}
        self._lock = threading.Lock() if states else None
        self._in, self._out = spec
        self._results, self._scalars = list(results), dict(scalars)
        self._gives_sizes = any(isinstance(result, Sym) for result in results)
        self._given = [info.name for info in module.inputs if info.name not in self.states]
        self._run = Callee(module)
        self._flat = _flat_arguments(self._in)
        self._unflatten = _unflatten(self._out, self._results)

    def __repr__(self) -> str:
        facts = [("takes", _describe_nesting(self._in)), ("states", ", ".join(map(name_text, self.states)))]
        module, said = self.module, [fact for fact in facts if fact[1]]
        return describe_program(module.manifest, module.executor, module.num_threads, "TorchModule", said)

    def __call__(self, *args: Any, timeout: float | None = None, **kwargs: Any) -> Any:
        """Run on CPU tensors; InputError where they are not nested, shaped or typed as those it was exported with.

        They may be given by name, as to the module. Behind ``timeout`` seconds, TimeoutError ends the run. (A module
        that has an argument of that name takes it by its position.) The results' memory is their own.
        """
        if kwargs or len(args) != self._flat or not all(isinstance(x, torch.Tensor) for x in args):
            args = self._leaves(args, kwargs)
        if self._lock is None:
            made = self._run(args, timeout)
        else:
            with self._lock:
                made = self._run_on_states(args, timeout)
        return self._with_sizes(made, args) if self._gives_sizes else self._unflatten(made)

    def session(self, capacity: int | None = None, sizes: Mapping[str, int] | None = None) -> Session:
        """A session as that of ``Module``: it takes and gives tensors in order, not nested, and gives numpy arrays.

        Its buffers begin with the values that they have here, and do not change those.
        """
        infos = {info.name: info for info in self.module.inputs}
        initial = {name: array_of(tensor, infos[name]) for name, tensor in self.states.items()}
        return self.module.session(capacity, sizes, initial)

    def _leaves(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[torch.Tensor, ...]:
        """The tensors among the arguments, in order."""
        leaves, spec = pytree.tree_flatten(self._order_arguments(args, kwargs) if kwargs else (args, kwargs))
        if spec != self._in:
            raise InputError(
                f"the module takes arguments nested as {_describe_nesting(self._in)}, "
                f"these are {_describe_nesting(spec)}"
            )
        if self._scalars:
            leaves = [torch.tensor(leaf) if type(leaf) is int else leaf for leaf in leaves]
        tensors = tuple(leaf for leaf in leaves if isinstance(leaf, torch.Tensor))
        if len(tensors) != len(self._given):
            others = sorted({type(leaf).__name__ for leaf in leaves if not isinstance(leaf, torch.Tensor)})
            besides = f" besides {', '.join(others)}" if others else ""
            raise InputError(f"the module takes {len(self._given)} tensors, {len(tensors)} were given{besides}")
        return tensors

    def _order_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments as they were in the export: by position, or by name. InputError for what is given twice."""
        positional, named = self._in.children()
        places, rest = list(args), dict(kwargs)
        for name in self._names[: positional.num_children]:
            if name in rest and self._names.index(name) < len(args):
                raise InputError(f"the module's argument '{name}' is given by its position and by its name")
            if name in rest and self._names.index(name) == len(places):
                places.append(rest.pop(name))
        return tuple(places), {key: rest[key] for key in (*filter(rest.__contains__, named.context or ()), *rest)}

    def _run_on_states(self, args: Sequence[torch.Tensor], timeout: float | None) -> list[torch.Tensor]:
        inputs = self.states | dict(zip(self._given, args, strict=True))
        made = self._run([inputs[info.name] for info in self.module.inputs], timeout)
        changed = [info.name.removesuffix(NEXT) for info in self.module.outputs if info.name.endswith(NEXT)]
        self.states = dict(zip(changed, made, strict=False))
        return made[len(changed) :]

    def _with_sizes(self, made: Sequence[torch.Tensor], args: Sequence[torch.Tensor]) -> Any:
        """The results, some of which are sizes."""
        inputs = dict(zip(self._given, args, strict=True))
        given = [info for info in self.module.inputs if info.name in inputs]
        shapes = [pair for info in given for pair in zip(info.shape, inputs[info.name].shape, strict=True)]
        scalars = [(extent, int(inputs[name])) for name, extent in self._scalars.items()]
        sizes = {str(extent): size for extent, size in (*shapes, *scalars) if isinstance(extent, Sym)}
        rest = iter(made)
        results = [
            next(rest) if r is TENSOR else value_at(r, sizes) if isinstance(r, Sym) else r for r in self._results
        ]
        return pytree.tree_unflatten(results, self._out)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the program and the nesting of its arguments and results."""
        with self._lock or contextlib.nullcontext():
            states = dict(self.states)
        nested = tuple(pytree.tree_unflatten(range(spec.num_leaves), spec) for spec in (self._in, self._out))
        return _unpickle, (self.module, nested, self._results, states, self._scalars, self._names)

    def __getattr__(self, name: str) -> Any:
        """The attributes of ``tilewright.Module``: ``export_library``, ``inputs``, ``profile`` and the rest."""
        if name == "module" or name.startswith("__"):  # what copies and pickles a Module is none of this
            raise AttributeError(name)
        return getattr(self.module, name)


def _unpickle(module: Module, nested: tuple[Any, Any], *rest: Any) -> TorchModule:
    """Restore a pickled module. torch warns of a pickled spec."""
    given, made = map(pytree.tree_structure, nested)
    return TorchModule(module, (given, made), *rest)


def _static_shape_of(info: TensorInfo) -> tuple[int, ...]:
    return () if has_dynamic_extents(info.shape) else info.static_shape


def _to_plain(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor as DLPack gives it away: without a gradient, its elements in order."""
    return tensor.detach().resolve_conj().contiguous()


def _describe_misfit(tensor: torch.Tensor, info: TensorInfo) -> str:
    if not tensor.is_cpu:
        return f"input '{info.name}' is on {tensor.device}: programs run on the CPU, give tensor.cpu()"
    if tensor.dtype != dtype_of(info):
        return f"input '{info.name}' must be {info.dtype}, got {str(tensor.dtype)[6:]}"
    return f"input '{info.name}' must have shape {info.shape}, got {tuple(tensor.shape)}"


def _flat_arguments(spec: Any) -> int:
    """How many positional arguments there are, where all are leaves and none comes by its name; -1 otherwise."""
    positional, named = spec.children()
    return (
        -1
        if named.num_children or any(not child.is_leaf() for child in positional.children())
        else positional.num_children
    )


def _unflatten(spec: Any, results: Sequence[Any]) -> Callable[[list[torch.Tensor]], Any]:
    """A function that nests a program's outputs as the module nests its results."""
    if spec.is_leaf() and results == [TENSOR]:
        return lambda made: made[0]
    if spec.type is tuple and all(child.is_leaf() for child in spec.children()) and all(r is TENSOR for r in results):
        return tuple

    def nested(made: list[torch.Tensor]) -> Any:
        rest = iter(made)
        return pytree.tree_unflatten([next(rest) if r is TENSOR else r for r in results], spec)

    return nested


def _describe_nesting(spec: Any) -> str:
    """How the arguments of a call are nested, with a star for each: ``(*, [*, *])``, ``(*), {mask: *}``."""
    positional, named = spec.children()
    return ", ".join(filter(None, (_describe_spec(positional), _describe_spec(named) if named.num_children else "")))


def _describe_spec(spec: Any) -> str:
    if spec.is_leaf():
        return "*"
    parts = [_describe_spec(child) for child in spec.children()]
    if issubclass(spec.type, dict):
        return f"{{{', '.join(f'{key}: {part}' for key, part in zip(spec.context, parts, strict=True))}}}"
    brackets = {tuple: "()", list: "[]"}.get(spec.type, f"{spec.type.__name__}()")
    return f"{brackets[:-1]}{', '.join(parts)}{brackets[-1]}"
