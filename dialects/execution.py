"""MLIR's ExecutionEngine: compiles a module of the LLVM dialect in this process."""

from mlir.execution_engine import ExecutionEngine

__all__ = ["ExecutionEngine"]
