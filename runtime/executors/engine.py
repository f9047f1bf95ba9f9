"""A whole program in one MLIR ExecutionEngine of this process, for interactive work on IR."""

from __future__ import annotations

from ...dialects import ir
from ...dialects.execution import ExecutionEngine
from ..process.ffi import tvm_ffi
from ..process.threads import load_openmp


class EngineLibrary:
    """The packed functions of an engine."""

    def __init__(self, engine: ExecutionEngine) -> None:
        self._engine = engine

    def get_function(self, name: str) -> tvm_ffi.Function:
        """The function, which keeps the engine alive; AttributeError if there is none."""
        address = self._engine.raw_lookup(f"__tvm_ffi_{name}")
        if not address:
            raise AttributeError(f"the program has no function '{name}'")
        return tvm_ffi.Function.__from_mlir_packed_safe_call__(address, keep_alive_object=self._engine)


def link(module: ir.Module, opt_level: int) -> EngineLibrary:
    """Compile a module of the LLVM dialect in this process."""
    load_openmp()
    with module.context:
        return EngineLibrary(ExecutionEngine(module, opt_level=opt_level))
