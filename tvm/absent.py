"""What of TVM is not here, in words: modules that scripts import, and names that they ask for."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import NoReturn

_PACKAGE = __name__.rpartition(".")[0]
_WRITE_TE = "operators are written by te, and scheduled by te.create_schedule"
_NETWORKS = "networks are ONNX models, by relay.frontend.from_onnx, or PyTorch's, by tw.compile"
_PASSES = "passes are the package's own: tw.PassContext, and tilewright opt --list"
_LAYOUTS = "layouts are chosen by the compiler, and by tilewright tune"
_HALF = "floats have the types that the model gives them: cast by relay.cast, or export the model in half precision"
WATCHED = (
    "passes are watched by tilewright.passes.infra.instruments, as Timing, and compile.py --time-passes prints times"
)
# By the beginnings of names, the longest that fits.
_REASONS = {
    "arith": "expressions are simplified as they are compiled",
    "autotvm.apply_graph_best": _LAYOUTS,
    "autotvm.graph_tuner": _LAYOUTS,
    "auto_scheduler._ffi_api": "there are no sketches: spaces are around the compiler's own schedules",
    "auto_scheduler.search_policy": "the searches are auto_scheduler.SketchPolicy, and those of tilewright tune",
    "contrib": "libraries of others are called by tw.register_codegen, or by te's tensorize",
    "contrib.graph_runtime": "it is contrib.graph_executor",
    "contrib.debugger.debug_runtime": "it is contrib.debugger.debug_executor",
    **dict.fromkeys(("gpu", "metal", "opencl", "rocm", "vulkan"), "programs run on the CPU, tvm.cpu()"),
    **dict.fromkeys(("compute", "create_schedule", "placeholder", "size_var", "var"), "it is tvm.te's"),
    "meta_schedule": "tuning is autotvm, auto_scheduler, and tilewright tune",
    "micro": "C programs are made by tilewright compile --emit",
    "relax": _NETWORKS,
    "relay": "docs/tvm.md says which operators there are; ONNX models have more, by relay.frontend.from_onnx",
    "relay.frontend": _NETWORKS,
    "relay.analysis": _PASSES,
    "relay.backend": "relay.build compiles a network, whose kernels autotvm.task.extract_from_program gives",
    "relay.data_dep_optimization": "weights are dense: a product with a sparse one is an operator of a user's, by te",
    "relay.quantize": "a network is quantized before it is exported to ONNX",
    "relay.transform": _PASSES,
    "rpc": "tilewright fleet starts what measures, and autotvm.RPCRunner asks it",
    "script": _WRITE_TE,
    "target": "a CPU is written as Target('llvm -mcpu=NAME')",
    "te": _WRITE_TE,
    "te.create_prim_func": "a computation is lowered as it is scheduled, by tvm.lower(te.create_schedule(C.op), args)",
    "te.gradient": "there are no gradients: write the one that is wanted as an expression",
    "te.schedule": "bounds are found, and stages inlined, as it is lowered; auto() leaves loops to the compiler",
    "tir": _WRITE_TE,
    "topi": _WRITE_TE,
    "topi.nn.sparse_dense": "a sum has a length that is known before the run: write one over the longest row by te",
    "topi.sparse": "a sum has a length that is known before the run: write one over the longest row by te",
    "transform": _PASSES,
    **dict.fromkeys(("instrument", "ir.instrument"), WATCHED),
    **dict.fromkeys(("transform.ToMixedPrecision", "relay.transform.ToMixedPrecision"), _HALF),
}


class _Refusal(importlib.abc.MetaPathFinder):
    """Says of modules of TVM's that are imported, and are not here, what is in their place."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """None for modules of others. Raises ModuleNotFoundError for those of this package that no finder has found."""
        if not fullname.startswith(f"{_PACKAGE}."):
            return None
        # Without its name: "from relay import y" takes an error of y's name for none, and then says less.
        raise ModuleNotFoundError(describe_absence(fullname.removeprefix(f"{_PACKAGE}.")))


def explain_missing_modules() -> None:
    """Let imports of what is not here say so."""
    if not any(isinstance(each, _Refusal) for each in sys.meta_path):
        sys.meta_path.append(_Refusal())


def describe_absence(name: str) -> str:
    """A line about a module, or a name of one, and what is there instead."""
    parts = name.split(".")
    beginnings = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    reason = next((_REASONS[each] for each in beginnings if each in _REASONS), "docs/tvm.md lists what there is")
    return f"tilewright.tvm has no '{name}': {reason}"


def refuse_name(module: str, name: str, known: Sequence[str]) -> NoReturn:
    """Raise AttributeError for a name that a module does not have."""
    others = f"; it has {', '.join(known)}" if known else ""
    raise AttributeError(describe_absence(f"{module}.{name}" if module else name) + others)
