"""``relay.build``: a network as a program."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from ...core.errors import CompileError, InputError
from ...driver import api
from ...runtime.graph.graph_module import GraphModule
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

    def export_library(
        self, file_name: str | os.PathLike[str], fcompile: Any = None, addons: Any = None, **kwargs: Any
    ) -> Path:
        """Write the program, with its weights beside it; ``runtime.load_module`` loads both.

        Raises ArtifactError, and InputError for compilers and files of the user's.
        """
        if fcompile is not None or addons or kwargs:
            given = ", ".join(filter(None, ("fcompile" if fcompile else "", "addons" if addons else "", *kwargs)))
            raise InputError(f"export_library links by itself and needs no {given}: leave that out")
        return self.module.export_library(file_name)

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


def create_executor(
    kind: str = "debug", mod: Any = None, device: Any = None, target: Any = "llvm", params: Any = None
) -> NoReturn:
    """Interpreters of networks: CompileError."""
    raise CompileError(f"there is no executor '{kind}' of a network that is not built: relay.build makes a program")


def _refuse_executor(executor: Any) -> None:
    """Raise CompileError for another executor than "graph" and "aot", which a program has both."""
    name = getattr(executor, "name", executor)
    if name not in (None, "graph", "aot"):
        raise CompileError(f"executor is {name!r}: a program has 'graph' and 'aot'")
