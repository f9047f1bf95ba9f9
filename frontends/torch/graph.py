"""A graph of ``torch.compile`` as a source of the compiler.

Dynamo gives parameters and buffers as arguments. Here they are the program's weights again: the graph is exported from
a module that has them, and the modules that they are from, at their places, so that names and paths are the user's.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch.export import Dim, ExportedProgram
from torch.fx import GraphModule, Interpreter, Node

from ...core.errors import UnsupportedError
from ...core.sizes import Extent, Sym
from ...runtime.module import Module
from ..linalg.fitting import value_at
from .export import export_module
from .module import TENSOR, Callee
from .source import TorchSource, add_tensor, find_changed_buffers, list_versions
from .symbols import UnknownSizeError, extent_of

_GIVEN = ("input", "scalar")
_INPUTS = "inputs"  # what the exported module calls its arguments
_ATTRIBUTE = re.compile(r"\._(?:modules|parameters|buffers)\['([^']+)'\]")
_ROOT = re.compile(r"^[LG]\['[^']*'\]\.?")

# "weight": constant; "state": written into by the graph; "size": the extent of an input; "scalar": a number that is
# none; "constant": one that the program is made for.
ArgumentKind = Literal["weight", "state", "input", "size", "scalar", "constant"]


@dataclass(frozen=True)
class Argument:
    """An argument of a graph. ``place`` is the (argument, axis) that a size is of; ``open_axes`` those of an input."""

    kind: ArgumentKind
    name: str
    text: str  # type, shape and dtype
    place: tuple[int, int] = (0, 0)
    open_axes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Border:
    """The interface of a graph. A result is ``TENSOR``, a constant, or an extent of symbols named like arguments."""

    arguments: tuple[Argument, ...]
    results: tuple[Any, ...]

    @staticmethod
    def of(graph: GraphModule) -> Border:
        """That of a graph as Dynamo has just made it. UnsupportedError for what is neither a tensor nor a size."""
        nodes = graph.graph.find_nodes(op="placeholder")
        places: dict[str, tuple[int, int]] = {}
        symbols: dict[str, Extent] = {}
        for i, node in enumerate(nodes):
            value = node.meta.get("example_value")
            for axis, extent in enumerate(value.shape if isinstance(value, torch.Tensor) else ()):
                places.setdefault(str(extent), (i, axis))
            if isinstance(value, torch.SymInt):
                symbols[str(value.node.expr)] = Sym(node.name)
        names = _module_paths(graph)
        [output] = graph.graph.find_nodes(op="output")
        made = (_read_result(result, symbols) for result in output.args[0])
        return Border(tuple(_argument(node, places, names) for node in nodes), tuple(made))

    def at(self, values: Sequence[Any]) -> Border:
        """That of a program which is made for a call: some scalars are constants of it."""
        pairs = zip(self.arguments, values, strict=True)
        arguments = (
            replace(a, kind="constant") if a.kind == "scalar" and not can_be_dynamic(x) else a for a, x in pairs
        )
        return replace(self, arguments=tuple(arguments))

    @property
    def is_dynamic(self) -> bool:
        """Return whether a program of it is for several sizes."""
        return any(a.open_axes or a.kind == "scalar" for a in self.arguments)

    def specialize(self, values: Sequence[Any]) -> Border:
        """That of a program which is made for the sizes of a call alone."""
        pairs = zip(self.arguments, values, strict=True)
        return replace(self, arguments=tuple(_close(argument, value) for argument, value in pairs))

    def nest_results(self, tensors: Sequence[torch.Tensor], numbers: Mapping[str, int]) -> list[Any]:
        """The results, from those that are tensors, and from the numbers among the arguments by their names."""
        rest = iter(tensors)
        return [next(rest) if r is TENSOR else value_at(r, numbers) if isinstance(r, Sym) else r for r in self.results]


def _close(argument: Argument, value: Any) -> Argument:
    if argument.kind == "scalar":
        return replace(argument, kind="constant")
    if not argument.open_axes:
        return argument
    return replace(argument, text=f"{argument.text} as {tuple(value.shape)}", open_axes=())


def can_be_dynamic(scalar: int) -> bool:
    """Return whether a program for this scalar is one for all that are: torch takes sizes of 0 and 1 for constants."""
    return scalar > 1


def _argument(node: Node, places: dict[str, tuple[int, int]], names: set[str]) -> Argument:
    value, given = node.meta.get("example_value"), node.meta.get("grapharg")
    if isinstance(value, torch.SymInt | int):
        place = places.get(str(value))
        return Argument("size", node.name, "int", place) if place else Argument("scalar", node.name, "int")
    if not isinstance(value, torch.Tensor):
        raise UnsupportedError(
            f"the graph takes '{node.name}', a {type(value).__name__}: only tensors and sizes can be"
        )
    text = f"{type(value).__name__} {tuple(value.shape)} {value.stride()} {value.dtype}"
    if given is not None and given.pass_arg_as_tensor:  # a float of Python's
        return Argument("constant", node.name, text)
    if value._version:
        return Argument("state", _make_unique_name(node, names), text)
    if isinstance(value, torch.nn.Parameter) or "_dynamo_static_input_type" in node.meta.get("tensor_dict", {}):
        return Argument("weight", _make_unique_name(node, names), text)
    axes = tuple(i for i, extent in enumerate(value.shape) if isinstance(extent, torch.SymInt))
    return Argument("input", node.name, text, open_axes=axes)


def _read_result(made: Any, symbols: Mapping[str, Extent]) -> Any:
    if made is None or isinstance(made, int):
        return made
    value = made.meta["example_value"]
    if isinstance(value, torch.Tensor):
        return TENSOR
    if isinstance(value, torch.SymInt):
        with contextlib.suppress(UnknownSizeError):
            return extent_of(value.node.expr, symbols)
    raise UnsupportedError(f"the graph gives '{made}', a {type(value).__name__}: only tensors and sizes can be")


def _make_unique_name(node: Node, names: set[str]) -> str:
    """The user's name of a parameter, ``layer1.0.weight``; one that is there already gets a number."""
    stem = _stem(node)
    name = next(n for n in (stem, *(f"{stem}_{i}" for i in range(2, 2 + len(names)))) if n not in names)
    names.add(name)
    return name


def _stem(node: Node) -> str:
    """The path of what Dynamo found an argument in; a tensor that is no parameter is named as the attribute is."""
    source = getattr(getattr(node, "_dynamo_source", None), "name", "")
    source = "." + _ROOT.sub("", source if isinstance(source, str) else source())
    steps = list(_ATTRIBUTE.finditer(source))
    rest = re.findall(r"\w+", source[steps[-1].end() :] if steps else source)
    parts = [*(step[1] for step in steps), *(["_".join(rest)] if rest else [])]
    return ".".join(map(_free, parts)) or node.name


def _module_paths(graph: GraphModule) -> set[str]:
    """The paths of all modules that a graph is from, or has weights of: no weight can be there."""
    inner = {_stack_top(node)[0] for node in graph.graph.nodes}
    inner |= {_stem(node).rpartition(".")[0] for node in graph.graph.find_nodes(op="placeholder")}
    return {".".join(path.split(".")[:end]) for path in inner for end in range(1, path.count(".") + 2)}


def _free(name: str) -> str:
    """A name that a module's attribute may have; what all modules have cannot be a part of one."""
    return f"{name}_" if hasattr(_Rebuilt, name) or name in _Rebuilt.__annotations__ else name


class GraphSource(TorchSource):
    """A graph with the arguments of a call: its inputs are examples, its weights are the program's.

    The hash of graph, sizes and weights is known without an export. The values are let go when it is compiled.
    """

    def __init__(self, graph: GraphModule, border: Border, values: Sequence[Any], name: str) -> None:
        super().__init__(self._export_graph, name)
        self._graph, self._border, self._values = graph, border, list(values)

    def _hash(self) -> str:
        digest = hashlib.sha256()
        for line in (*list_versions(), *map(str, self._border.arguments), *_render_lines(self._graph)):
            digest.update(line.encode() + b"\0")
        held = (tensor for _, tensor in sorted(_collect_tensors(self._graph).items()))
        fixed = zip(self._border.arguments, self._values, strict=True)
        for value in (*held, *(value for a, value in fixed if a.kind in ("weight", "constant"))):
            add_tensor(digest, torch.as_tensor(value))
        return digest.hexdigest()

    def _export_graph(self) -> ExportedProgram:
        module = _Rebuilt(self._graph, self._border.arguments, self._values)
        inputs = [(a, x) for a, x in zip(self._border.arguments, self._values, strict=True) if a.kind in _GIVEN]
        sizes = tuple(Dim.AUTO if a.kind == "scalar" else {axis: Dim.AUTO for axis in a.open_axes} for a, _ in inputs)
        shapes = (sizes,) if any(sizes) else None
        with torch.inference_mode(False):
            program = export_module(module, [x for _, x in inputs], dynamic_shapes=shapes, name=self.name)
        for node in program.graph.nodes:
            path, kind = next(reversed(node.meta.get("nn_module_stack", {"": ("", "")}).values()))
            node.meta["nn_module_stack"] = {path: (path, module.kinds.get(path, kind))}
        return program

    def wrap_module(self, module: Module) -> Callable[[Sequence[Any]], list[Any]]:
        """The compiled graph, as a function of its arguments; what it writes into them is there after a call."""
        self._values = []
        vars(self).pop("program", None)
        places = {a.name: i for i, a in enumerate(self._border.arguments) if a.kind == "state"}
        inputs = [i for i, a in enumerate(self._border.arguments) if a.kind in _GIVEN]
        places |= {f"{_INPUTS}_{number}": i for number, i in enumerate(inputs)}
        order = [places[info.name] for info in module.inputs]
        written = [places[name] for name in find_changed_buffers(module)]
        run, border = Callee(module), self._border
        numbers = {a.name: i for i, a in enumerate(border.arguments) if a.kind in ("size", "scalar", "constant")}
        tensors_alone = all(result is TENSOR for result in border.results)
        has_scalars = any(a.kind == "scalar" for a in border.arguments)

        def call(args: Sequence[Any]) -> list[Any]:
            given = [args[i] for i in order]
            made = run([torch.tensor(x) if type(x) is int else x for x in given] if has_scalars else given)
            for i, value in zip(written, made, strict=False):
                args[i].copy_(value)
            made = made[len(written) :]
            return made if tensors_alone else border.nest_results(made, {name: args[i] for name, i in numbers.items()})

        return call


class _Site(torch.nn.Module):
    """A module of the user's: what it computed is computed within it."""

    def forward(self, run: Callable[[], Any]) -> Any:
        return run()


class _Rebuilt(torch.nn.Module):
    """The graph as a module: weights and states at their places, where none is called as what it has itself."""

    kinds: dict[str, str]  # what the modules were, by their paths
    _arguments: Sequence[Argument]
    _values: Sequence[Any]
    _run: Interpreter
    _sites: dict[str, torch.nn.Module]

    def __init__(self, graph: GraphModule, described: Sequence[Argument], values: Sequence[Any]) -> None:
        super().__init__()
        self.kinds = {}
        self._arguments, self._values, self._run = described, values, _Tracer(graph, self)
        self._sites = {"": self}
        for argument, value in zip(described, values, strict=True):
            if argument.kind not in ("weight", "state"):
                continue
            path, _, name = argument.name.rpartition(".")
            if argument.kind == "weight":
                self.site(path).register_parameter(name, torch.nn.Parameter(value.detach(), requires_grad=False))
            else:
                self.site(path).register_buffer(name, value.detach())
        for node in graph.graph.nodes:  # now: torch.export knows the modules that are there before it traces
            path, kind = _stack_top(node)
            self.kinds[path] = f"{kind.__module__}.{kind.__qualname__}" if isinstance(kind, type) else str(kind)
            self.site(path)

    def site(self, path: str) -> torch.nn.Module:
        """The module at a path."""
        if path not in self._sites:
            before, _, name = path.rpartition(".")
            self._sites[path] = site = _Site()
            self.site(before).add_module(name, site)
        return self._sites[path]

    def forward(self, *inputs: Any) -> list[torch.Tensor]:
        """The results that are tensors."""
        rest = iter(inputs)
        args = [self._value(a, value, rest) for a, value in zip(self._arguments, self._values, strict=True)]
        for i, argument in enumerate(self._arguments):
            if argument.kind == "size":
                args[i] = args[argument.place[0]].shape[argument.place[1]]
        return [made for made in self._run.run(*args) if isinstance(made, torch.Tensor)]

    def _value(self, argument: Argument, value: Any, rest: Iterator[Any]) -> Any:
        if argument.kind in _GIVEN:
            return next(rest)
        if argument.kind in ("weight", "state"):
            path, _, name = argument.name.rpartition(".")
            return getattr(self.site(path), name)
        return value.item() if isinstance(value, torch.Tensor) else value


class _Tracer(Interpreter):
    """Computes each node within the module that it is from."""

    def __init__(self, graph: GraphModule, root: _Rebuilt) -> None:
        super().__init__(graph)
        self._root = (root,)  # not as a module: it has this one

    def run_node(self, n: Node) -> Any:
        path, _ = _stack_top(n)
        compute = super().run_node
        return self._root[0].site(path)(lambda: compute(n)) if path else compute(n)

    def call_method(self, target: Any, args: Any, kwargs: Any) -> Any:
        is_number = target == "item" and isinstance(args[0], int | float)
        return args[0] if is_number else super().call_method(target, args, kwargs)


def _stack_top(node: Node) -> tuple[str, Any]:
    """The path of the innermost module that a node is from, and its class; "" for one outside of all."""
    path, kind = next(reversed((node.meta.get("nn_module_stack") or {"": ("", "")}).values()))
    return ".".join(_free(part) for part in _ROOT.sub("", path).split(".") if re.fullmatch(r"\w+", part)), kind


def _render_lines(graph: GraphModule) -> Iterator[str]:
    """All that a graph says, in lines that are the same in every process."""
    for node in graph.graph.nodes:
        target = node.target if isinstance(node.target, str) else _name_target(node.target)
        path = [path for path, _ in node.meta.get("nn_module_stack", {}).values()][-1:]
        yield f"{node.op} {node.name} {target} {node.args} {node.kwargs} {path}"
    for name, inner in graph.named_children():
        yield name
        yield from _render_lines(inner) if isinstance(inner, GraphModule) else [repr(inner)]


def _name_target(target: Any) -> str:
    return f"{getattr(target, '__module__', '')}.{getattr(target, '__qualname__', repr(target))}"


def _collect_tensors(graph: GraphModule) -> dict[str, torch.Tensor]:
    return {**dict(graph.named_parameters()), **dict(graph.named_buffers())}
