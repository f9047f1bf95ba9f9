"""Programs that run on inputs that stay: what ``lib["default"](dev)`` gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..core.errors import InputError
from ..runtime.graph.graph_module import GraphModule as Graph
from ..runtime.module import Module
from ..runtime.nd import device as check_device
from . import nd, timing

# The functions that it has by name.
_FUNCTIONS = (
    *("set_input", "set_input_zero_copy", "set_output_zero_copy", "run", "run_from_inputs", "get_output", "get_input"),
    *("get_num_inputs", "get_num_outputs", "get_input_index", "get_input_info", "load_params", "share_params"),
)


class GraphExecutor:
    """A program with inputs and outputs that stay; ``executor["run"]`` is a function of it by name."""

    type_key = "GraphExecutor"

    def __init__(self, module: Module) -> None:
        self.graph = Graph(module)
        self._dtypes: dict[str | int, str] = {
            key: info.dtype for number, info in enumerate(module.inputs) for key in (number, info.name)
        }

    def __getitem__(self, name: str) -> Callable[..., Any]:
        if name not in _FUNCTIONS:
            raise InputError(f"an executor has no function '{name}': it has {', '.join(_FUNCTIONS)}")
        return getattr(self, name)

    def get_function(self, name: str, query_imports: bool = False) -> Callable[..., Any]:
        """As ``executor[name]``."""
        return self[name]

    def set_input(self, key: str | int, value: Any) -> None:
        """Copy an array to an input, or to a weight that the program reads as the model has it, by name or position.

        Numbers of another dtype are cast, as TVM does. Raises InputError for what does not fit.
        """
        if isinstance(key, str) and key not in self._dtypes and key in self.graph.params:
            self.graph.load_params({key: _as_numpy(value)})
            return
        self.graph.set_input(key, cast_numbers(value, self._dtypes.get(key, "")))

    def set_input_zero_copy(self, key: str | int, value: Any) -> None:
        """As ``GraphModule.set_input_zero_copy``."""
        self.graph.set_input_zero_copy(key, value)

    def set_output_zero_copy(self, key: str | int, value: Any) -> None:
        """As ``GraphModule.set_output_zero_copy``."""
        self.graph.set_output_zero_copy(key, value)

    def run(self) -> None:
        """Run on the inputs that are set."""
        self.graph.run()

    def run_from_inputs(self, device_type: int, device_id: int, *pairs: Any) -> list[nd.NDArray]:
        """Set inputs, each a name and an array, run, and copy the outputs."""
        for name, value in zip(pairs[::2], pairs[1::2], strict=True):
            self.set_input(name, value)
        self.run()
        return [nd.array(self.get_output(number)) for number in range(self.get_num_outputs())]

    def get_output(self, index: int | str, out: Any = None) -> Any:
        """The memory of an output, which the next run writes again; with ``out`` a copy there."""
        return nd.wrap(self.graph.get_output(index)) if out is None else self.graph.get_output(index, out)

    def get_input(self, index: int | str, out: Any = None) -> Any:
        """The memory of an input; with ``out`` a copy there."""
        held = nd.wrap(self.graph.get_input(index))
        return held if out is None else held.copyto(out)

    def get_num_inputs(self) -> int:
        """The number of inputs; weights are none."""
        return self.graph.get_num_inputs()

    def get_num_outputs(self) -> int:
        """The number of outputs."""
        return self.graph.get_num_outputs()

    def get_input_index(self, name: str) -> int:
        """The position of an input; -1 where there is none of this name."""
        return self.graph.get_input_index(name)

    def get_input_info(self) -> tuple[dict[str, Any], dict[str, str]]:
        """Shapes and dtypes of the inputs by name."""
        return self.graph.get_input_info()

    def load_params(self, params: bytes | bytearray | Mapping[str, Any]) -> None:
        """Replace weights by those that ``relay.save_param_dict`` has written, or by arrays by name."""
        given = (
            {name: _as_numpy(each) for name, each in params.items()} if isinstance(params, Mapping) else bytes(params)
        )
        self.graph.load_params(given)

    def share_params(self, other: Any, params: bytes | None = None) -> None:
        """Use the weights of another executor of the same program."""
        theirs = other if isinstance(other, GraphExecutor) else getattr(other, "module", None)
        if not isinstance(theirs, GraphExecutor):
            raise InputError(f"share_params takes an executor of the same program, not a {type(other).__name__}")
        self.graph.share_params(theirs.graph)

    def time_evaluator(
        self,
        func_name: str,
        dev: Any = "cpu",
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: float | None = 0,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: float = 0,
        repeats_to_cooldown: int = 1,
        cache_flush_bytes: int = 0,
        f_preproc: str = "",
    ) -> Callable[..., timing.BenchmarkResult]:
        """A function that measures the function ``func_name`` on its arguments; no clock here gives zero seconds.

        Raises InputError for ``cache_flush_bytes`` and ``f_preproc``.
        """
        check_device(dev)
        function, pause = self[func_name], (cooldown_interval_ms, repeats_to_cooldown)
        return timing.time_calls(function, number, repeat, min_repeat_ms, pause, cache_flush_bytes, f_preproc)


def _as_numpy(value: Any) -> np.ndarray:
    return nd.nd.array(value).numpy()


def cast_numbers(value: Any, dtype: str) -> Any:
    """An array as TVM copies it to a tensor of a dtype: numbers are cast."""
    if not isinstance(value, np.ndarray | list | tuple | int | float | nd.nd.NDArray):
        return value
    given = value.numpy() if isinstance(value, nd.nd.NDArray) else np.asarray(value)
    return given.astype(dtype) if dtype in _NUMBERS and given.dtype != dtype and given.dtype.kind in "biuf" else given


_NUMBERS = {"float16", "float32", "float64", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))}
