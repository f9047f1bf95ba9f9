"""An exported program as a source of the compiler: its hash, and its conversion to linalg in a child process."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram, ModuleCallEntry
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind, TensorArgument
from torch.utils import _pytree as pytree

from ...errors import CompileTimeoutError, InternalError, ModelError, UnsupportedError
from ...model import ForeignSource, LinalgText, Param, Samples, TensorInfo, aligned
from ...runtime.module import Module
from .arrays import to_numpy
from .export import exported, is_torch
from .module import NEXT, TENSOR, TorchModule
from .signature import ERROR, MODULE, PROGRAM, SAMPLE, SIGNATURE
from .symbols import Symbols

_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
_PROGRAM = """import sys
sys.path[:] = sys.argv[2:]
from pathlib import Path
from tilewright.frontends.torch.convert import main
main(Path(sys.argv[1]))"""
_LAST_WORDS = 400  # characters of what a child says that died


class TorchSource(ForeignSource):
    """An exported program, to be compiled."""

    def __init__(self, program: ExportedProgram, name: str = "model") -> None:
        self.program = program
        self.name = name
        for tensor in (*program.state_dict.values(), *program.constants.values()):
            if isinstance(tensor, torch.Tensor) and tensor.device.type != "cpu":
                raise ModelError(f"{name} has weights on {tensor.device}: move it to the CPU first, by module.cpu()")

    def digest(self) -> str:
        """The SHA-256 of graph, signature and weights."""
        digest = hashlib.sha256()
        for line in _graph_lines(self.program):
            digest.update(line.encode() + b"\0")
        for name, tensor in sorted(_weights(self.program).items()):
            digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}\0".encode())
            digest.update(to_numpy(tensor).reshape(-1).view(np.uint8).data)
        return digest.hexdigest()

    def linalg(self, seconds: float | None) -> LinalgText:
        """Convert the program. Raises UnsupportedError for what has no conversion, with the module's path."""
        with tempfile.TemporaryDirectory(prefix="tilewright-torch-") as name:
            folder = Path(name)
            torch.export.save(_without_weights(self.program), folder / PROGRAM)
            self._convert(folder, seconds)
            signature = json.loads((folder / SIGNATURE).read_text())
            others = range(1, len(signature["points"]))
            texts = [(folder / name).read_text() for name in (MODULE, *map(SAMPLE.format, others))]
            return self._described(texts, signature)

    def _convert(self, folder: Path, seconds: float | None) -> None:
        """Run the child on a folder."""
        path = [entry or os.getcwd() for entry in sys.path]
        command = [sys.executable, "-c", _PROGRAM, str(folder), *path]
        try:
            child = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=seconds,
                env={**os.environ, **_ENVIRONMENT},
            )
        except subprocess.TimeoutExpired as error:
            raise CompileTimeoutError(f"the conversion of {self.name} took more than {seconds:g} s") from error
        if (folder / ERROR).exists():
            error = json.loads((folder / ERROR).read_text())
            raise UnsupportedError(": ".join(filter(None, (self.name, error["where"], error["why"]))))
        if child.returncode:
            raise InternalError(f"the conversion of {self.name} by torch-mlir ended {_ending(child)}")

    def _described(self, texts: Sequence[str], signature: Mapping[str, Any]) -> LinalgText:
        symbols = Symbols(self.program)
        inputs, params = [], {}
        for entry in signature["inputs"]:
            if entry["role"] in ("input", "state"):
                name = entry["target"] if entry["role"] == "state" else entry["name"]
                inputs.append(TensorInfo(name, symbols.shape(entry["name"]), entry["dtype"]))
            else:
                info = TensorInfo(entry["target"], tuple(entry["shape"]), entry["dtype"])
                params[info.name] = Param(info, aligned(to_numpy(_held(self.program, info.name))))
        names = iter(self.output_names())
        shapes = [shape for shape in symbols.results() if isinstance(shape, tuple)]
        outputs = []
        for entry, shape in zip(signature["outputs"], shapes, strict=True):
            name = f"{entry['target']}{NEXT}" if entry["role"] == "buffer_mutation" else next(names)
            outputs.append(TensorInfo(name, shape, entry["dtype"]))
        samples = None
        if len(texts) > 1:
            points = tuple(map(symbols.renamed, signature["points"]))
            samples = Samples(points, tuple(texts[1:]), symbols.known(), symbols.scalars())
        return LinalgText(texts[0], tuple(inputs), tuple(outputs), params, self.name, samples)

    def output_names(self) -> list[str]:
        """The names of the results that are tensors: their places in what the module returns."""
        specs = [s for s in self.program.graph_signature.output_specs if s.kind is OutputKind.USER_OUTPUT]
        tree = self.program.call_spec.out_spec
        assert tree is not None
        paths = [path for path, _ in pytree.tree_flatten_with_path(pytree.tree_unflatten(range(len(specs)), tree))[0]]
        made = [(path, spec) for path, spec in zip(paths, specs, strict=True) if isinstance(spec.arg, TensorArgument)]
        return [".".join(map(_key, path)) or "output" for path, _ in made]

    def wrapped(self, module: Module) -> TorchModule:
        """The compiled program as a function of what the module takes and gives."""
        changed = [info.name.removesuffix(NEXT) for info in module.outputs if info.name.endswith(NEXT)]
        states = {name: _held(self.program, name) for name in changed}
        scalars = Symbols(self.program).scalars()
        return TorchModule(module, self.program.call_spec, self.constant_outputs(), states, scalars)

    def constant_outputs(self) -> list[Any]:
        """For each result of the module what it always is, ``TENSOR`` where it is one, and the extent of a size."""
        made = zip(self.program.graph_signature.output_specs, Symbols(self.program).results(), strict=True)
        results = [(spec.arg, result) for spec, result in made if spec.kind is OutputKind.USER_OUTPUT]
        return [
            arg.value if isinstance(arg, ConstantArgument) else TENSOR if isinstance(arg, TensorArgument) else extent
            for arg, extent in results
        ]


def torch_source(source: Any, example_inputs: Sequence[Any] | None, dynamic_shapes: Any) -> TorchSource | None:
    """The source that an object of torch's, or an exported program's file, is; None for what is neither."""
    is_file = isinstance(source, (str, os.PathLike))
    if not is_file and not is_torch(source):
        return None
    name = Path(source).stem if is_file else type(source).__name__
    return TorchSource(exported(source, example_inputs, dynamic_shapes=dynamic_shapes), name)


def _key(entry: Any) -> str:
    """What a step into a nested structure is called: a key, an index, an attribute."""
    for field in ("key", "idx", "name"):
        if hasattr(entry, field):
            return str(getattr(entry, field))
    return str(entry)


def _weights(program: ExportedProgram) -> dict[str, torch.Tensor]:
    kinds = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
    names = [s.target for s in program.graph_signature.input_specs if s.kind in kinds and s.target is not None]
    return {name: _held(program, name) for name in names}


def _held(program: ExportedProgram, name: str) -> torch.Tensor:
    """A weight, a buffer or a constant of a program."""
    held = program.state_dict.get(name, program.constants.get(name))
    if not isinstance(held, torch.Tensor):
        raise UnsupportedError(f"'{name}' of the module is no tensor but a {type(held).__name__}")
    return held


def _graph_lines(program: ExportedProgram) -> Iterator[str]:
    """All that the graph says, in lines that are the same in every process."""
    yield f"torch {torch.__version__}"
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


def _ending(child: subprocess.CompletedProcess[bytes]) -> str:
    code = child.returncode
    how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
    said = " ".join(child.stderr.decode(errors="replace").split())
    return f"{how}: {said[-_LAST_WORDS:] or 'without a word'}"
