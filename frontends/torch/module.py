"""``TorchModule``: a compiled program that is called as the PyTorch module was that it is made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ...errors import InputError
from ...runtime.module import Module
from ...sizes import Extent, Sym
from ..linalg.fitting import value_at
from .arrays import to_torch

NEXT = ".next"  # behind the name of a buffer that the module changes: its value after a call
TENSOR = object()  # among the results of a module, one that is no constant


class TorchModule:
    """Takes the tensors that the module takes, nested as there, and gives what it gives, without copying any.

    ``module`` is the program, a ``tilewright.Module``. ``states`` are the buffers that the module changes, by their
    names: a call reads and replaces them. Calls from several threads are for modules without states. ``scalars`` are
    what inputs are that are sizes. Of ``results`` an extent is a size that is computed from those of the inputs.
    """

    def __init__(
        self,
        module: Module,
        spec: Any,
        results: Sequence[Any],
        states: Mapping[str, torch.Tensor],
        scalars: Mapping[str, Extent],
    ) -> None:
        self.module = module
        self._scalars = dict(scalars)
        self.states = {name: tensor.detach().clone() for name, tensor in states.items()}
        self._in, self._out = spec.in_spec, spec.out_spec
        self._results = list(results)
        self._names = [info.name for info in module.inputs]
        self._given = [name for name in self._names if name not in self.states]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run on CPU tensors; InputError where they are not nested, shaped or typed as those it was exported with."""
        leaves, spec = pytree.tree_flatten((args, kwargs))
        if spec != self._in:
            raise InputError(f"the module takes arguments nested as {_nesting(self._in)}, these are {_nesting(spec)}")
        inputs = self._taken(leaves) | self.states
        made = [to_torch(array) for array in self.module.run({name: _array(inputs[name]) for name in self._names})]
        rest = iter(made)
        self.states = {name: next(rest) for name in self.states}
        sizes = self._sizes(inputs) if any(isinstance(r, Sym) for r in self._results) else {}
        results = [
            next(rest) if r is TENSOR else value_at(r, sizes) if isinstance(r, Sym) else r for r in self._results
        ]
        return pytree.tree_unflatten(results, self._out)

    def _taken(self, leaves: Sequence[Any]) -> dict[str, torch.Tensor]:
        """The program's inputs by their names: tensors, and numbers where the module takes sizes."""
        given = leaves
        if self._scalars:
            given = [torch.tensor(leaf) if type(leaf) is int else leaf for leaf in leaves]
        tensors = [leaf for leaf in given if isinstance(leaf, torch.Tensor)]
        if len(tensors) != len(self._given):
            raise InputError(f"the module takes {len(self._given)} tensors, {len(tensors)} were given")
        return dict(zip(self._given, tensors, strict=True))

    def _sizes(self, inputs: Mapping[str, torch.Tensor]) -> dict[str, int]:
        """What the symbols are in a call."""
        shapes = [n for info in self.module.inputs for n in zip(info.shape, inputs[info.name].shape, strict=True)]
        scalars = [(extent, int(inputs[name])) for name, extent in self._scalars.items()]
        return {str(extent): size for extent, size in (*shapes, *scalars) if isinstance(extent, Sym)}

    def __getattr__(self, name: str) -> Any:
        """What a ``tilewright.Module`` has: ``export_library``, ``inputs``, ``profile`` and the rest."""
        if name == "module":
            raise AttributeError(name)
        return getattr(self.module, name)


def _array(tensor: torch.Tensor) -> Any:
    if tensor.device.type != "cpu":
        raise InputError(f"a tensor is on {tensor.device}: programs run on the CPU, give tensor.cpu()")
    return tensor.detach()


def _nesting(spec: Any) -> str:
    return " ".join(str(spec).split())
