"""``IRModule``: a network, which was imported or is written by relay's functions."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...core.errors import ModelError
from ...core.model import Model, TensorInfo
from ...driver.api import import_model
from .. import nd
from ..weights import with_weights
from .conversion import infer_types, write_model
from .expr import Expr, Function, GlobalVar, TupleWrapper, Var, as_expr
from .functor import list_free_variables
from .text import Names, print_function
from .types import TensorType

logger = logging.getLogger("relay")


class IRModule:
    """A network as functions, of which a program has "main", or one that was imported: ``model`` is MLIR then."""

    def __init__(
        self, functions: Mapping[GlobalVar | str, Function] | None = None, type_definitions: Any = None
    ) -> None:
        self._functions: dict[str, Function] = {}
        self._imported: Model | None = None
        for name, function in (functions or {}).items():
            self[name] = function

    @staticmethod
    def of_model(model: Model) -> IRModule:
        """The module of a network that was imported."""
        made = IRModule()
        made._imported = model
        return made

    @staticmethod
    def from_expr(expr: Any, functions: Any = None, type_defs: Any = None) -> IRModule:
        """The module whose "main" is a function; of another expression the one of its free variables."""
        given = as_expr(expr, "IRModule.from_expr")
        made = IRModule(functions)
        made["main"] = given if isinstance(given, Function) else Function(list_free_variables(given), given)
        return made

    @property
    def model(self) -> Model:
        """The network as MLIR."""
        return self.bind({})

    def bind(self, params: Mapping[str, Any]) -> Model:
        """The network as MLIR, where the weights are those that ``params`` has by name.

        Raises ModelError for weights that are not those of a network that was imported, UnsupportedError as
        ``tw.import_model``. Of a function ``params`` may have more than it has variables, as TVM's scripts do.
        """
        if self._imported is not None:
            return with_weights(self._imported, params)
        main = self["main"]
        names = {each.name_hint for each in main.params}
        if others := [each for each in params if each not in names]:
            logger.info("params has %s, which are no variables of the function", ", ".join(others))
        arrays = {name: np.asarray(nd.nd.array(each).numpy()) for name, each in params.items() if name in names}
        written = write_model(main, self._functions, arrays)
        return import_model(written.model, written.input_shapes)

    def infer_types(self) -> IRModule:
        """The module, whose expressions have types from now on. Raises ModelError where these do not fit."""
        for function in self._functions.values():
            infer_types(function, self._functions)
        return self

    def __setitem__(self, name: GlobalVar | str, function: Any) -> None:
        if not isinstance(function, Function):
            raise ModelError(f"a module has functions, not a {type(function).__name__}: relay.Function(params, body)")
        if self._imported is not None:
            raise ModelError("a network that was imported has one function: tvm.IRModule() makes a module of others")
        self._functions[_name_of(name)] = function

    def __getitem__(self, name: GlobalVar | str) -> Any:
        """A function. Raises ModelError for one that the module does not have."""
        wanted = _name_of(name)
        if self._imported is not None and wanted == "main":
            return ImportedFunction(self)
        if wanted not in self._functions:
            names = "'main'" if self._imported is not None else ", ".join(map(repr, self._functions)) or "none"
            raise ModelError(f"the module has no function '{wanted}': it has {names}")
        return self._functions[wanted]

    def __contains__(self, name: GlobalVar | str) -> bool:
        return _name_of(name) in {each.name_hint for each in self.functions}

    @property
    def functions(self) -> dict[GlobalVar, Any]:
        """The functions by their names."""
        names = ["main"] if self._imported is not None else self._functions
        return {GlobalVar(name): self[name] for name in names}

    def get_global_vars(self) -> list[GlobalVar]:
        """The names of the functions."""
        return [*self.functions]

    def get_global_var(self, name: str) -> GlobalVar:
        """The name of a function, to call it. Raises ModelError for one that the module does not have."""
        return GlobalVar(name) if self[name] is not None else GlobalVar("")

    def update(self, other: IRModule | Mapping[GlobalVar | str, Function]) -> None:
        """Add functions, in place of those of the same names."""
        given = other.functions if isinstance(other, IRModule) else other
        for name, function in given.items():
            self[name] = function

    def astext(self, show_meta_data: bool = True) -> str:
        """The functions in relay's notation; of a network that was imported the MLIR, with weights as arguments."""
        if self._imported is not None:
            return str(self._imported.module)
        texts = [
            print_function(each.params, each.body, Names(), f"def @{name}") for name, each in self._functions.items()
        ]
        return "\n\n".join(texts) + "\n"

    def __str__(self) -> str:
        return self.astext()


class ImportedFunction:
    """The function of a network that was imported: its operators are ONNX's, and its text is MLIR."""

    def __init__(self, module: IRModule) -> None:
        self.module = module

    @property
    def params(self) -> tuple[Var, ...]:
        """Its inputs."""
        return tuple(Var(info.name, _type_of(info)) for info in self.module.model.inputs)

    @property
    def body(self) -> Any:
        """ModelError: it is not written by relay's operators."""
        raise ModelError("the network was imported, so that it has no operators of relay's: print(mod) shows its MLIR")

    def astext(self, show_meta_data: bool = True) -> str:
        """As the module's."""
        return self.module.astext()

    def __str__(self) -> str:
        return self.astext()


def _type_of(info: TensorInfo) -> TensorType:
    return TensorType([each if isinstance(each, int) else str(each) for each in info.shape], info.dtype)


def _name_of(name: GlobalVar | str) -> str:
    return name if isinstance(name, str) else name.name_hint


def find_module(given: Any, what: str) -> IRModule:
    """The module of a function, or itself. Raises ModelError, which says ``what`` takes it, for others."""
    if isinstance(given, IRModule):
        return given
    if isinstance(given, ImportedFunction):
        return given.module
    if isinstance(given, Expr | TupleWrapper):
        return IRModule.from_expr(given)
    raise ModelError(
        f"{what} takes a network, as relay.frontend.from_onnx or tvm.IRModule.from_expr gives it, not a"
        f" {type(given).__name__}"
    )
