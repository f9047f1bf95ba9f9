"""Passes over modules: TVM's by their names, and those of a user's.

Passes of TVM's that leave the results of a network as they are leave its text as it is, too: the compiler has its own,
which run when it is built. ``InferType`` is one that does something.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...core.errors import CompileError
from ...passes.infra.context import PassContext
from .expr import Function
from .module import IRModule

# What the compiler does by itself when it builds a network.
KEPT = (
    *("AlterOpLayout", "BackwardFoldScaleAxis", "CanonicalizeCast", "CanonicalizeOps", "CombineParallelBatchMatmul"),
    *("CombineParallelConv2D", "CombineParallelDense", "ConvertLayout", "DeadCodeElimination", "DefuseOps"),
    *("DynamicToStatic", "EliminateCommonSubexpr", "EtaExpand", "FoldConstant", "FoldExplicitPadding", "FoldScaleAxis"),
    *("ForwardFoldScaleAxis", "FuseOps", "Inline", "Legalize", "RemoveUnusedFunctions", "SimplifyExpr"),
    *("SimplifyInference", "ToANormalForm", "ToBasicBlockNormalForm", "ToGraphNormalForm"),
)

# TVM's passes that have other names here; those of the rest differ in their letters alone.
_NAMES = {"AlterOpLayout": "convert-layout", "DeadCodeElimination": "dead-code"}


def name_pass(name: str) -> str:
    """The name that a pass of TVM's has here: ``FuseOps`` is ``fuse-ops``."""
    return _NAMES.get(name) or re.sub("(?<=[a-z0-9])(?=[A-Z][a-z])", "-", name).lower()


@dataclass(frozen=True)
class PassInfo:
    """What a pass is called, and from which level of ``PassContext`` on it runs."""

    name: str
    opt_level: int = 0
    required: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"The meta data of the pass - pass name: {self.name}, opt_level: {self.opt_level}, required passes: []"


class Pass:
    """A function of modules: ``mod = pass(mod)``."""

    def __init__(self, name: str, run: Callable[[IRModule, Any], IRModule], opt_level: int = 0) -> None:
        self.info = PassInfo(name, opt_level)
        self._run = run

    def __call__(self, mod: Any) -> IRModule:
        if not isinstance(mod, IRModule):
            raise CompileError(f"the pass {self.info.name} takes a module, not a {type(mod).__name__}")
        return self._run(mod, PassContext.current())


def infer_type() -> Pass:
    """The pass that gives all expressions their types."""
    return Pass("InferType", lambda mod, _: mod.infer_types())


def keep(name: str) -> Callable[..., Pass]:
    """What makes a pass of TVM's that the compiler has its own for: the module has types, and stays else as it is."""

    def make(*given: Any, **named: Any) -> Pass:
        return Pass(name, lambda mod, _: mod.infer_types())

    make.__name__, make.__doc__ = name, "A pass that the compiler has its own for: the module stays as it is."
    return make


class Sequential(Pass):
    """Passes one behind the other; of those of a user's the ones whose level the context around has."""

    def __init__(
        self, passes: Sequence[Pass], opt_level: int = 0, name: str = "sequential", required: Any = None
    ) -> None:
        super().__init__(name, self._run_all, opt_level)
        self.passes = list(passes)

    def _run_all(self, mod: IRModule, ctx: Any) -> IRModule:
        for each in self.passes:
            if each.info.opt_level <= ctx.opt_level and name_pass(each.info.name) not in ctx.disabled_pass:
                mod = each(mod)
        return mod


def print_ir(header: str = "") -> Pass:
    """A pass that prints the module."""

    def run(mod: IRModule, ctx: Any) -> IRModule:
        print(f"PrintIR({header}):\n{mod}")
        return mod

    return Pass("PrintIR", run)


def module_pass(
    given: Any = None, opt_level: int = 0, name: str = "", required: Any = None, traceable: bool = False
) -> Any:
    """Make a pass of a function ``(mod, ctx) -> mod``, or of a class that has ``transform_module``."""
    return _decorate(given, opt_level, name, "transform_module", lambda call: call)


def function_pass(
    given: Any = None, opt_level: int = 0, name: str = "", required: Any = None, traceable: bool = False
) -> Any:
    """Make a pass of a function ``(func, mod, ctx) -> func``, or of a class that has ``transform_function``."""

    def spread(call: Callable[[Function, IRModule, Any], Function]) -> Callable[[IRModule, Any], IRModule]:
        def run(mod: IRModule, ctx: Any) -> IRModule:
            made = IRModule({each: call(function, mod, ctx) for each, function in mod.functions.items()})
            return made.infer_types()

        return run

    return _decorate(given, opt_level, name, "transform_function", spread)


def _decorate(given: Any, opt_level: int, name: str, method: str, spread: Callable[[Any], Any]) -> Any:
    def decorate(what: Any) -> Any:
        label = name or what.__name__
        if not inspect.isclass(what):
            return Pass(label, spread(what), opt_level)

        def make(*args: Any, **named: Any) -> Pass:
            return Pass(label, spread(getattr(what(*args, **named), method)), opt_level)

        make.__name__, make.__doc__ = what.__name__, what.__doc__
        return make

    return decorate if given is None else decorate(given)
