"""An exported program as a source of the compiler: its hash, and its conversion to linalg in a worker."""

from __future__ import annotations

import copy
import hashlib
import io
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram, ModuleCallEntry
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind, TensorArgument
from torch.utils import _pytree as pytree

from ...core.errors import ModelError, UnsupportedError, first_line
from ...core.limits import ORDINARY, ModelLimits
from ...core.model import Param, TensorInfo, align_data, numpy_dtype
from ...runtime.module import Module
from ...workers import Pool
from ..foreign import ForeignSource, LinalgText, Samples
from . import archive
from .conversion import Answer, convert_program
from .export import export_module, is_torch
from .module import NEXT, TENSOR, TorchModule
from .operators import with_own_operators
from .symbols import Symbols
from .tensors import dtype_of, to_numpy


class TorchSource(ForeignSource):
    """An exported program, to be compiled."""

    def __init__(self, export: Callable[[], ExportedProgram], name: str = "model") -> None:
        self._export = export
        self.name = name

    @cached_property
    def program(self) -> ExportedProgram:
        """It is exported when it is asked for. ModelError for weights that are elsewhere than in the CPU's memory."""
        program = self._export()
        for name, tensor in (*program.state_dict.items(), *program.constants.items()):
            if isinstance(tensor, torch.Tensor) and tensor.device.type != "cpu":
                what = f"{self.name} has '{name}' on {tensor.device}"
                raise ModelError(f"{what}, and is compiled for the CPU: move it there first, by module.cpu()")
        return program

    def digest(self) -> str:
        """See ``ForeignSource``: the SHA-256 of graph, signature and weights, as they were when it was first asked."""
        return self._digest

    @cached_property
    def _digest(self) -> str:
        return self._hash()

    def _data(self, info: TensorInfo) -> np.ndarray:
        """A weight's data. ModelError where the program holds another shape or dtype than its graph says."""
        array = to_numpy(_find_tensor(self.program, info.name))
        if array.shape != info.static_shape or array.dtype != numpy_dtype(info.dtype):
            held, said = (f"{dtype}{list(n)}" for dtype, n in ((array.dtype, array.shape), (info.dtype, info.shape)))
            what = f"{self.name}: weight '{info.name}' is {held}, and the graph says {said}"
            raise ModelError(f"{what}: export the program again")
        return array

    def _hash(self) -> str:
        digest = hashlib.sha256()
        for line in (*list_versions(), *self.graph_lines()):
            digest.update(line.encode() + b"\0")
        for name, tensor in sorted(_collect_weights(self.program).items()):
            digest.update(name.encode() + b"\0")
            add_tensor(digest, tensor)
        return digest.hexdigest()

    def conversion(self) -> tuple[Callable[..., Answer], tuple[Any, ...]]:
        """See ``ForeignSource``; UnsupportedError for a program that torch cannot save."""
        saved, shell = io.BytesIO(), _without_weights(with_own_operators(self.program, self.name))
        try:
            torch.export.save(shell, saved)
        except Exception as error:
            raise UnsupportedError(f"{self.name} cannot be handed to torch-mlir: {first_line(error)}") from error
        return convert_program, (saved.getvalue(), self.name)

    def graph_lines(self) -> list[str]:
        """All that the graph says."""
        return list(_graph_lines(self.program))

    def sizes(self) -> tuple[Any, ...]:
        """All sizes that are in the program."""
        symbols = Symbols(self.program)
        return symbols.results(), symbols.find_extents(), symbols.scalars()

    def read_answer(self, answer: Answer) -> LinalgText:
        """See ``ForeignSource``."""
        texts, signature = answer
        symbols = Symbols(self.program)
        specs, inputs, params = self.program.graph_signature.input_specs, [], {}
        for entry in signature["inputs"]:
            if entry["role"] in ("input", "state"):
                node = specs[entry["index"]].arg.name  # the file that was sent may have other names
                name = entry["target"] if entry["role"] == "state" else node
                inputs.append(TensorInfo(name, symbols.shape(node), entry["dtype"]))
            else:
                info = TensorInfo(entry["target"], tuple(entry["shape"]), entry["dtype"])
                params[info.name] = Param(info, align_data(self._data(info)))
        shapes = [result for _, result in self._results() if isinstance(result, tuple)]
        made = [entry for entry in signature["outputs"] if entry["role"] != "buffer_mutation"]
        if len(made) != len(shapes):
            what = f"{self.name}: its graph gives {len(made)} tensors, and its signature says {len(shapes)}"
            raise ModelError(f"{what}: export the program again")
        named = zip(self.output_names(), shapes, strict=True)
        outputs = []
        for entry in signature["outputs"]:
            is_state = entry["role"] == "buffer_mutation"
            name, shape = (f"{entry['target']}{NEXT}", tuple(entry["shape"])) if is_state else next(named)
            outputs.append(TensorInfo(name, shape, entry["dtype"]))
        samples = None
        if len(texts) > 1:
            points = tuple(map(symbols.rename_point, signature["points"]))
            samples = Samples(points, tuple(texts[1:]), symbols.find_extents(), symbols.scalars())
        return LinalgText(texts[0], tuple(inputs), tuple(outputs), params, self.name, samples)

    def output_names(self) -> list[str]:
        """The names of the results that are tensors: their places in what the module returns."""
        specs = [s for s in self.program.graph_signature.output_specs if s.kind is OutputKind.USER_OUTPUT]
        tree = self.program.call_spec.out_spec
        assert tree is not None
        paths = [path for path, _ in pytree.tree_flatten_with_path(pytree.tree_unflatten(range(len(specs)), tree))[0]]
        made = [(path, spec) for path, spec in zip(paths, specs, strict=True) if isinstance(spec.arg, TensorArgument)]
        return [".".join(map(_key, path)) or "output" for path, _ in made]

    def wrap_module(self, module: Module) -> Callable[..., Any]:
        """The compiled program as a ``TorchModule``."""
        states = {name: _find_tensor(self.program, name) for name in find_changed_buffers(module)}
        scalars = Symbols(self.program).scalars()
        call, root = self.program.call_spec, self.program.module_call_graph[0].signature
        names = (root.forward_arg_names if root else None) or ()
        return TorchModule(module, (call.in_spec, call.out_spec), self.constant_outputs(), states, scalars, names)

    def constant_outputs(self) -> list[Any]:
        """For each result of the module what it always is, ``TENSOR`` where it is one, and the extent of a size."""
        return [
            arg.value if isinstance(arg, ConstantArgument) else TENSOR if isinstance(arg, TensorArgument) else extent
            for arg, extent in self._results()
        ]

    def _results(self) -> list[tuple[Any, Any]]:
        """The results of the module, without buffers, each with its shape or the size that it is."""
        made = zip(self.program.graph_signature.output_specs, Symbols(self.program).results(), strict=True)
        return [(spec.arg, result) for spec, result in made if spec.kind is OutputKind.USER_OUTPUT]


class FileSource(TorchSource):
    """The file of an exported program. It is read when its program is asked for, and by a worker first."""

    def __init__(self, path: Path) -> None:
        super().__init__(self._read, path.stem)
        self._path, self._limits = path, ORDINARY
        self._pool: Pool | None = None

    def prepare(self, pool: Pool, limits: ModelLimits) -> None:
        """See ``ForeignSource``."""
        self._pool, self._limits = pool, limits

    def _read(self) -> ExportedProgram:
        return archive.read_archive(self._path, self._pool, self._limits)


def find_changed_buffers(module: Module) -> list[str]:
    """The names of the buffers that a program changes: their values are its first outputs."""
    return [info.name.removesuffix(NEXT) for info in module.outputs if info.name.endswith(NEXT)]


def list_versions() -> list[str]:
    """The versions that a conversion depends on, besides the compiler's."""
    return [f"{name} {version(name)}" for name in ("torch", "torch-mlir")]


def add_tensor(digest: Any, tensor: torch.Tensor) -> None:
    """Add shape, dtype and elements of a tensor to a hash."""
    digest.update(f"{tuple(tensor.shape)} {tensor.dtype}\0".encode())
    digest.update(to_numpy(tensor).reshape(-1).view(np.uint8).data)


def torch_source(source: Any, example_inputs: Any, dynamic_shapes: Any) -> TorchSource | None:
    """The source that an object of torch's, or an exported program's file, is; None for what is neither."""
    if isinstance(source, (str, os.PathLike)):
        return FileSource(Path(source))
    if not is_torch(source):
        return None
    export = partial(export_module, source, example_inputs, dynamic_shapes=dynamic_shapes)
    return TorchSource(export, type(source).__name__)


def of_program(
    program: Any, infos: Sequence[TensorInfo | tuple[Any, ...]] | None, example_inputs: Sequence[Any] | None
) -> tuple[TorchSource, list[str] | None]:
    """The source of ``frontends.from_pytorch``, and the names of its inputs, if they are given."""
    given = None if infos is None else [i if isinstance(i, TensorInfo) else _make_info(*i) for i in infos]
    if given is not None and example_inputs is None and not isinstance(program, (str, os.PathLike, ExportedProgram)):
        example_inputs = [torch.zeros(info.static_shape, dtype=dtype_of(info)) for info in given]
    source = torch_source(program, example_inputs, None)
    if source is None:
        raise ModelError(f"cannot import a {type(program).__name__}: give an nn.Module or an ExportedProgram")
    return source, None if given is None else [info.name for info in given]


def _make_info(name: str, shape: Sequence[int], dtype: Any = "float32") -> TensorInfo:
    return TensorInfo(name, tuple(shape), str(dtype).removeprefix("torch."))


def _key(entry: Any) -> str:
    """The name of a step into a nested structure: a key, an index, an attribute."""
    for field in ("key", "idx", "name"):
        if hasattr(entry, field):
            return str(getattr(entry, field))
    return str(entry)


def _collect_weights(program: ExportedProgram) -> dict[str, torch.Tensor]:
    kinds = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
    names = [s.target for s in program.graph_signature.input_specs if s.kind in kinds and s.target is not None]
    return {name: _find_tensor(program, name) for name in names}


def _find_tensor(program: ExportedProgram, name: str) -> torch.Tensor:
    """A weight, a buffer or a constant of a program."""
    held = program.state_dict.get(name, program.constants.get(name))
    if not isinstance(held, torch.Tensor):
        raise UnsupportedError(f"'{name}' of the module is no tensor but a {type(held).__name__}")
    return held


def _graph_lines(program: ExportedProgram) -> Iterator[str]:
    """All that the graph says, in lines that are the same in every process."""
    yield str(program.call_spec)
    yield str(program.graph_signature)
    yield str(program.range_constraints)
    for node in program.graph.nodes:
        value = node.meta.get("val")
        made = f"{tuple(value.shape)} {value.dtype}" if isinstance(value, torch.Tensor) else str(value)
        stack = [path for path, _ in node.meta.get("nn_module_stack", {}).values()]
        yield f"{node.name} {node.op} {node.target} {node.args} {node.kwargs} {made} {stack[-1:]}"


def _without_weights(program: ExportedProgram) -> ExportedProgram:
    """A copy whose weights have shapes and types alone."""
    shell = copy.copy(program)
    shell._state_dict = {name: _shell(value) for name, value in program.state_dict.items()}
    shell._constants = {name: _shell(value) for name, value in program.constants.items()}
    shell._example_inputs = None
    shell._module_call_graph = [_flat(entry) for entry in program.module_call_graph if not entry.fqn]
    return shell


def _flat(entry: ModuleCallEntry) -> ModuleCallEntry:
    """The call of a module that takes and gives plain tuples: how it nests may have no name that a file could hold."""
    if entry.signature is None:
        return entry
    leaves = range(entry.signature.in_spec.num_leaves), range(entry.signature.out_spec.num_leaves)
    given, made = pytree.tree_structure((tuple(leaves[0]), {})), pytree.tree_structure(tuple(leaves[1]))
    signature = replace(entry.signature, in_spec=given, out_spec=made, forward_arg_names=None)
    return replace(entry, signature=signature)


def _shell(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    empty = torch.empty_like(value, device="meta")
    return torch.nn.Parameter(empty, value.requires_grad) if isinstance(value, torch.nn.Parameter) else empty
