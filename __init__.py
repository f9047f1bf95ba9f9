"""Tilewright: a deep-learning compiler in Python on upstream MLIR.

    import tilewright as tw
    lib = tw.compile("resnet18.onnx", target="x86")     # path, bytes or ModelProto
    outs = lib.run({"pixel_values": x})                 # numpy arrays in the model's output order, and by name
    report = tw.check_model("resnet18.onnx")            # what it needs, and all that is unsupported, in a second
    lib.export_library("resnet18.so")
    lib = tw.load_module("resnet18.so")

    model = tw.import_model("resnet18.onnx")            # its module is MLIR, to be looked at and changed
    with tw.PassContext(opt_level=3, disabled_pass=["fuse-ops"]):
        lib = tw.build(model, target="x86")

Names are imported when they are first used: ``import tilewright`` imports no MLIR, and neither does ``load_module``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .core.errors import (
    ArtifactError,
    CompileError,
    CompileTimeoutError,
    ExpressionError,
    FleetError,
    GuardError,
    InputError,
    InternalError,
    ModelError,
    NonFiniteError,
    RecordError,
    ScheduleError,
    TargetError,
    TilewrightError,
    TimeoutError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from . import runtime, te
    from .core.codegens import HostCode, NativeCode, register_codegen, unregister_codegen
    from .core.custom_ops import Operand, register_op
    from .core.model import Model, TensorInfo
    from .core.report import CheckReport
    from .core.subgraphs import Subgraph, SubgraphNode, SubgraphValue
    from .core.target import Target
    from .driver import testing
    from .driver.api import check_model, compile, import_model
    from .driver.expressions import build, lower
    from .driver.options import CompileReport
    from .passes.infra.context import PassContext
    from .passes.schedule.language.schedule import Schedule
    from .runtime import nd
    from .runtime.module import Module, load_module
    from .runtime.nd import cpu, device
    from .runtime.registry import get_global_func, register_func
    from .runtime.session import Session
    from .tuning.api import tune
    from .tuning.fleet.address import Fleet
    from .tuning.result import TuningResult

    __version__: str

__all__ = [
    "ArtifactError",
    "CheckReport",
    "CompileError",
    "CompileReport",
    "CompileTimeoutError",
    "ExpressionError",
    "Fleet",
    "FleetError",
    "GuardError",
    "HostCode",
    "InputError",
    "InternalError",
    "Model",
    "ModelError",
    "Module",
    "NativeCode",
    "NonFiniteError",
    "Operand",
    "PassContext",
    "RecordError",
    "Schedule",
    "ScheduleError",
    "Session",
    "Subgraph",
    "SubgraphNode",
    "SubgraphValue",
    "Target",
    "TargetError",
    "TensorInfo",
    "TilewrightError",
    "TimeoutError",
    "TuningResult",
    "UnsupportedError",
    "__version__",
    "build",
    "check_model",
    "compile",
    "cpu",
    "device",
    "get_global_func",
    "import_model",
    "load_module",
    "lower",
    "nd",
    "register_codegen",
    "register_func",
    "register_op",
    "runtime",
    "te",
    "testing",
    "tune",
    "unregister_codegen",
]

_HOMES = {
    "CheckReport": ".core.report",
    "CompileReport": ".driver.options",
    "Fleet": ".tuning.fleet.address",
    "HostCode": ".core.codegens",
    "Model": ".core.model",
    "Module": ".runtime.module",
    "NativeCode": ".core.codegens",
    "Operand": ".core.custom_ops",
    "PassContext": ".passes.infra.context",
    "Schedule": ".passes.schedule.language.schedule",
    "Session": ".runtime.session",
    "Subgraph": ".core.subgraphs",
    "SubgraphNode": ".core.subgraphs",
    "SubgraphValue": ".core.subgraphs",
    "Target": ".core.target",
    "TensorInfo": ".core.model",
    "TuningResult": ".tuning.result",
    "build": ".driver.expressions",
    "check_model": ".driver.api",
    "compile": ".driver.api",
    "cpu": ".runtime.nd",
    "device": ".runtime.nd",
    "get_global_func": ".runtime.registry",
    "import_model": ".driver.api",
    "load_module": ".runtime.module",
    "lower": ".driver.expressions",
    "register_codegen": ".core.codegens",
    "register_func": ".runtime.registry",
    "register_op": ".core.custom_ops",
    "tune": ".tuning.api",
    "unregister_codegen": ".core.codegens",
}
_MODULES = {"nd": ".runtime.nd", "runtime": ".runtime", "te": ".te", "testing": ".driver.testing"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value: Any = importlib.import_module(_MODULES[name], __name__)
    elif name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name], __name__), name)
    elif name == "__version__":
        value = importlib.import_module("importlib.metadata").version(__name__)
    else:
        raise AttributeError(f"module 'tilewright' has no attribute '{name}'")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
