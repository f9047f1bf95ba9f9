"""``relay.build``: a network as a program."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ...core.errors import CompileError, ModelError
from ...driver import api
from ...runtime.graph.graph_module import GraphModule
from ...runtime.nd import device as check_device
from .. import nd
from ..autotvm.extraction import apply_histories
from ..executor import cast_numbers
from ..network.expr import Expr, Function, GlobalVar, Var, as_expr, const
from ..network.functor import replace_expressions
from ..network.module import IRModule, find_module
from ..runtime import Module
from ..target import Target


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
    ir_mod: IRModule | Any,
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
    model = dataclasses.replace(module.bind(params or {}), name=mod_name)
    with apply_histories(model, chosen):
        made = api.build_model(model, chosen.own)
    return GraphExecutorFactoryModule(module, chosen, Module.of(made), mod_name)


class Evaluator:
    """A network, or a function, that is built when ``evaluate`` asks for it."""

    def __init__(self, mod: IRModule | Any, device: Any, target: Any, params: Mapping[str, Any] | None) -> None:
        self.mod, self.device, self.target, self.params = mod, device, target, params

    def evaluate(self, expr: Any = None, binds: Mapping[Var, Any] | None = None) -> Any:
        """A function of the inputs, by position or by name, that gives the output, or a list of several.

        ``expr`` is a function in place of the network; of another expression the value is given. ``binds`` are values
        of its variables. Raises CompileError where there is nothing to evaluate.
        """
        if expr is None and self.mod is None:
            raise CompileError("there is no network: create_executor('graph', mod), or evaluate(relay.Function(...))")
        if expr is None:
            return self._run(find_module(self.mod, "create_executor"))
        given = as_expr(expr, "relay.evaluate")
        if binds:
            given = replace_expressions(
                given, {each: value if isinstance(value, Expr) else const(value) for each, value in binds.items()}
            )
        if isinstance(given, GlobalVar):
            given = find_module(self.mod, "create_executor")[given]
        module = IRModule.from_expr(given, None if self.mod is None else self.mod.functions)
        made = self._run(module)
        return made if isinstance(given, Function) else made()

    def _run(self, module: IRModule) -> Callable[..., Any]:
        program = build(module, self.target, params=self.params).module
        names = [info.name for info in program.inputs]

        def run(*given: Any, **named: Any) -> Any:
            values = [*given, *(named[name] for name in names[len(given) :] if name in named)]
            kinds = [info.dtype for info in program.inputs]
            taken = [cast_numbers(each, kind) for each, kind in zip(values, kinds, strict=False)]
            made = [nd.array(each) for each in program.run(taken)]
            return made[0] if len(made) == 1 else made

        return run


def create_executor(
    kind: str = "debug",
    mod: IRModule | Any = None,
    device: Any = None,
    target: Any = "llvm",
    params: Mapping[str, Any] | None = None,
) -> Evaluator:
    """What gives a network's function, by ``evaluate()``; all of TVM's kinds compile it as ``build`` does.

    Raises CompileError for another ``kind``.
    """
    if kind not in ("debug", "graph", "vm", "aot"):
        raise CompileError(f"there is no executor '{kind}': create_executor('graph', mod)")
    if device is not None:
        check_device(device)
    return Evaluator(mod, device, target, params)


def bind_params_by_name(func: Function, params: Mapping[str, Any]) -> Function:
    """A function in which the variables that ``params`` names are constants; it may have other names, too."""
    if not isinstance(func, Function):
        raise ModelError(f"bind_params_by_name takes a relay.Function, not a {type(func).__name__}")
    known = {each: const(params[each.name_hint]) for each in func.params if each.name_hint in params}
    return replace_expressions(func, known)


def _refuse_executor(executor: Any) -> None:
    """Raise CompileError for another executor than "graph" and "aot", which a program has both."""
    name = getattr(executor, "name", executor)
    if name not in (None, "graph", "aot"):
        raise CompileError(f"executor is {name!r}: a program has 'graph' and 'aot'")
