"""What a pass is.

A pass is a frozen dataclass: its fields are its options, ``apply`` rewrites the module in place. A pass that does not
understand a piece of IR leaves it alone; a pass that cannot keep its promise raises CompileError.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

from ...dialects import PassManager, ir


class ModuleForm(Enum):
    """The forms of a module between passes. ``passes/verify`` has the rules of each."""

    FOREIGN = "another compiler's linalg"
    MAIN = "@main in structured ops"
    CALLS = "calls of kernels"
    SLOTS = "calls on planned memory"
    TENSORS = "a kernel on tensors"
    BUFFERS = "a kernel that takes buffers"
    MEMORY = "a kernel in memory alone"
    SCRATCH = "a kernel that does not allocate"
    LLVM = "the LLVM dialect"
    WRAPPED = "a kernel with the ABI of programs"


@dataclass(frozen=True)
class Pass:
    """Base of all passes. ``name`` is the command-line name, ``opt_level`` the least level at which the pass runs.

    ``unregistered``: it takes modules with ops of dialects that are not ours. ``form`` is the form in which it leaves a
    module, None where it leaves the form that it found.
    """

    name: ClassVar[str] = ""
    opt_level: ClassVar[int] = 0
    unregistered: ClassVar[bool] = False
    form: ClassVar[ModuleForm | None] = None

    def apply(self, module: ir.Module) -> None:
        """Rewrite ``module`` in place. Raises CompileError for what must be understood and is not."""
        raise NotImplementedError(self.name)

    def __str__(self) -> str:
        """The pass as the command line writes it; options that have their default are left out."""
        return self.text()

    def text(self, without: Collection[str] = ()) -> str:
        """``str(self)``, without some options."""
        options = [
            f"{f.name}={' '.join(str(getattr(self, f.name)).split())}"
            for f in dataclasses.fields(self)
            if f.init and f.name not in without and getattr(self, f.name) != default_of(f)
        ]
        return self.name + ("{" + " ".join(options) + "}" if options else "")


@dataclass(frozen=True)
class MlirPass(Pass):
    """An upstream pipeline under the name of a pass: ``MlirPass("cse")`` or ``MlirPass("func.func(canonicalize)")``."""

    pipeline: str

    @property
    def name(self) -> str:  # type: ignore[override]  # of a class variable, by what each instance is
        """The pipeline's own text."""
        return self.pipeline

    def apply(self, module: ir.Module) -> None:
        """Run the pipeline on the whole module."""
        PassManager.parse(f"builtin.module({self.pipeline})", module.context).run(module.operation)

    def text(self, without: Collection[str] = ()) -> str:
        return self.pipeline


def default_of(option: dataclasses.Field[Any]) -> Any:
    """The value that an option of a pass has where none is given."""
    if option.default_factory is not dataclasses.MISSING:
        return option.default_factory()
    return option.default
