"""``tvm.ir``: networks as modules, and what of it has no meaning here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from ..core.dims import InputShapes
from ..core.errors import ExpressionError, ModelError
from ..core.model import Model
from .absent import refuse_name

if TYPE_CHECKING:
    from onnx import ModelProto


@dataclass(frozen=True)
class IRModule:
    """A network: ``model``, which is MLIR, as it was imported of ``source`` with ``input_shapes``."""

    model: Model
    source: str | os.PathLike[str] | bytes | ModelProto = field(repr=False)
    input_shapes: InputShapes | None = None

    def __getitem__(self, name: str) -> Function:
        """The function "main", the only one. Raises ModelError for another."""
        if str(name) != "main":
            raise ModelError(f"the module has no function '{name}': its only one is 'main'")
        return Function(self)

    @property
    def functions(self) -> Mapping[str, Function]:
        """The functions by name."""
        return {"main": Function(self)}

    def get_global_vars(self) -> list[str]:
        """The names of the functions."""
        return [*self.functions]

    def astext(self, show_meta_data: bool = True) -> str:
        """The module as MLIR; weights are arguments of its function."""
        return str(self.model.module)

    def __str__(self) -> str:
        return self.astext()


@dataclass(frozen=True)
class Function:
    """The function of a network."""

    module: IRModule

    @property
    def params(self) -> tuple[str, ...]:
        """The names of its inputs."""
        return tuple(info.name for info in self.module.model.inputs)

    def astext(self, show_meta_data: bool = True) -> str:
        """As the module's."""
        return self.module.astext()

    def __str__(self) -> str:
        return self.astext()


def find_module(given: Any, what: str) -> IRModule:
    """The module of a function, or itself. Raises ModelError, which says ``what`` takes it, for others."""
    if isinstance(given, IRModule):
        return given
    if isinstance(given, Function):
        return given.module
    raise ModelError(f"{what} takes a network, as relay.frontend.from_onnx gives it, not a {type(given).__name__}")


def register_intrin_lowering(op_name: str, target: str, *, f: Any = None, level: int = 10) -> NoReturn:
    """Rules for functions of expressions: ExpressionError."""
    raise ExpressionError(f"'{op_name}' has no rules of a user's: write it of te's functions, or call C by tensorize")


def register_op_attr(op_name: str, attr_key: str, value: Any = None, level: int = 10) -> NoReturn:
    """As ``register_intrin_lowering``."""
    register_intrin_lowering(op_name, "")


def __getattr__(name: str) -> NoReturn:
    refuse_name("ir", name, ["IRModule", "register_intrin_lowering", "register_op_attr"])
