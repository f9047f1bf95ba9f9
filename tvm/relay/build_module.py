"""``relay.build``: a network as a program."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ...core.errors import CompileError
from ...driver import api
from ...runtime.graph.graph_module import GraphModule
from ...runtime.nd import device as check_device
from .. import nd
from ..autotvm.extraction import apply_histories
from ..ir import Function, IRModule, find_module
from ..runtime import Module
from ..target import Target
from ..weights import with_weights


class GraphExecutorFactoryModule:
    """A network's program: ``lib["default"](dev)`` gives an executor, ``module`` is the program."""

    def __init__(self, ir_mod: IRModule, target: Target, module: Module, libmod_name: str) -> None:
        self.ir_mod, self.target, self.module, self.libmod_name = ir_mod, target, module, libmod_name

    def __getitem__(self, name: str) -> Any:
        return self.module[name]

    @property
    def lib(self) -> Module:
        """The program."""
        return self.module

    def get_lib(self) -> Module:
        """The program."""
        return self.module

    @property
    def graph_json(self) -> str:
        """The kernels' calls as a graph, in TVM's notation."""
        return GraphModule(self.module).graph_json

    def get_graph_json(self) -> str:
        """As ``graph_json``."""
        return self.graph_json

    def get_executor_config(self) -> str:
        """As ``graph_json``."""
        return self.graph_json

    @property
    def params(self) -> dict[str, nd.NDArray]:
        """The weights that the program reads as the model has them, by name: an executor may have others."""
        return {name: nd.array(each) for name, each in GraphModule(self.module).params.items()}

    def get_params(self) -> dict[str, nd.NDArray]:
        """As ``params``."""
        return self.params

    def export_library(self, file_name: str | os.PathLike[str], *given: Any, **named: Any) -> Path:
        """Write the program: see ``runtime.Module.export_library``."""
        return self.module.export_library(file_name, *given, **named)

    def __iter__(self) -> Iterator[Any]:
        """``graph, lib, params = relay.build(...)``, which TVM's older scripts write."""
        return iter((self.graph_json, self.module, self.params))


def build(
    ir_mod: IRModule | Function,
    target: str | Target | Mapping[str, Any] | None = None,
    target_host: str | Target | None = None,
    executor: Any = None,
    runtime: Any = None,
    workspace_memory_pools: Any = None,
    constant_memory_pools: Any = None,
    params: Mapping[str, Any] | None = None,
    mod_name: str = "default",
) -> GraphExecutorFactoryModule:
    """Compile a network for a target, by default that of the ``with`` around, in the ``PassContext`` around.

    ``params`` are weights by name, in place of the network's own where they differ. ``mod_name`` is the name by which
    the library gives executors, besides "default".

    Raises CompileError, ModelError for weights that are not the network's, and CompileError for memory pools.
    """
    module = find_module(ir_mod, "relay.build")
    if workspace_memory_pools is not None or constant_memory_pools is not None:
        raise CompileError("the compiler plans a program's memory: leave memory pools out")
    _refuse_executor(executor)
    chosen = Target.of(target)
    model = dataclasses.replace(with_weights(module.model, params or {}), name=mod_name)
    with apply_histories(model, chosen):
        made = api.build_model(model, chosen.own)
    return GraphExecutorFactoryModule(module, chosen, Module.of(made), mod_name)


class Evaluator:
    """A network that is built when ``evaluate`` asks for its function."""

    def __init__(self, mod: IRModule | Function, device: Any, target: Any, params: Mapping[str, Any] | None) -> None:
        self.mod, self.device, self.target, self.params = mod, device, target, params

    def evaluate(self, expr: Any = None, binds: Any = None) -> Callable[..., Any]:
        """A function of the inputs, by position or by name, that gives the output, or a list of several.

        Raises CompileError for another expression than the network, and for ``binds``.
        """
        if expr is not None or binds is not None:
            raise CompileError("evaluate gives the function of the network as a whole: leave expr and binds out")
        program = build(self.mod, self.target, params=self.params).module
        names = [info.name for info in program.inputs]

        def run(*given: Any, **named: Any) -> Any:
            taken = [nd.nd.array(each).numpy() for each in given]
            taken += [nd.nd.array(named[name]).numpy() for name in names[len(given) :] if name in named]
            made = [nd.array(each) for each in program.run(taken)]
            return made[0] if len(made) == 1 else made

        return run


def create_executor(
    kind: str = "debug",
    mod: IRModule | Function | None = None,
    device: Any = None,
    target: Any = "llvm",
    params: Mapping[str, Any] | None = None,
) -> Evaluator:
    """What gives a network's function, by ``evaluate()``; all of TVM's kinds compile it as ``build`` does.

    Raises CompileError for another ``kind``, and without a network.
    """
    if kind not in ("debug", "graph", "vm", "aot") or mod is None:
        what = "no network" if mod is None else "a network"
        raise CompileError(f"there is no executor '{kind}' of {what}: create_executor('graph', mod)")
    if device is not None:
        check_device(device)
    return Evaluator(mod, device, target, params)


def _refuse_executor(executor: Any) -> None:
    """Raise CompileError for another executor than "graph" and "aot", which a program has both."""
    name = getattr(executor, "name", executor)
    if name not in (None, "graph", "aot"):
        raise CompileError(f"executor is {name!r}: a program has 'graph' and 'aot'")
