"""Broken artifacts: what the zoo's small networks and a few smaller programs are on disk, changed at random; each is
refused in a line, or runs.

Mutants of bytes (flipped, cut, spliced, parts exchanged) keep their seal as it was. Those of the description have a
right seal, and another structure. Code is not changed with a right seal: it is code, and may do anything. Nor are the
steps of a routine, which are the program.
"""

from __future__ import annotations

import copy
import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
import onnx.parser
from fuzz.harm import of_error, of_lost
from onnx import numpy_helper
from parallel import call_all

import tilewright as tw
from tilewright.core.model import numpy_dtype
from tilewright.core.program import METADATA_SECTION
from tilewright.runtime.artifact import elf, on_disk, shared
from tilewright.tools import networks
from tilewright.tools.debugging.isolation import Lost
from tilewright.tools.debugging.verdict import Verdict

NETWORKS = tuple(networks.SMALL)  # whose programs are broken
_HEAD = '<ir_version: 8, opset_import: ["" : 17]>'
_MODELS = {
    "static": "g (float[3,8] x) => (float[3,8] y) { a = MatMul(x, w) b = Softmax(a) y = MatMul(b, w) }",
    "open": "g (float[n,8] x) => (float[n,8] y) { a = MatMul(x, w) b = Softmax(a) y = MatMul(b, w) }",
    "gather": "g (float[3,8] x) => (float[4,8] y) { y = Gather(x, i) }",
}
_ODD = (None, -1, 0, 1, 2**31, 2**63, 10**30, -(2**63), 0.5, float("nan"), True, "", "x", "\n", [], {}, [[[]]])
Number = tuple[int, int]  # seed, index


def verdicts(numbers: Sequence[Number], processes: int, seconds: float) -> Iterator[tuple[Number, Verdict]]:
    """What becomes of each mutant, which is made, loaded and run in a child process of limited memory.

    agrees: it runs, and its outputs are of the kind that they were before. refused: an error of one line says why it
    does not. error, crash, hang: these harm who loads it.
    """
    judge = partial(check, _programs().name)
    for number, found in zip(numbers, call_all(judge, numbers, processes, seconds), strict=True):
        yield number, of_lost(found) if isinstance(found, Lost) else found


@cache
def _programs() -> tempfile.TemporaryDirectory[str]:
    """A folder of the programs that mutants are made of, as long as this process lives: each as a library, one also as
    objects, one also with its weights inside."""
    folder = tempfile.TemporaryDirectory(prefix="tilewright-fuzz-")
    models = {name: _written(text) for name, text in _MODELS.items()} | {
        name: networks.build(name) for name in NETWORKS
    }
    for name, model in models.items():
        module = tw.compile(model, workers=0, num_threads=1, cache=False)
        module.export_library(Path(folder.name, f"{name}.so"))
        if name == "static":
            module.export_library(Path(folder.name, f"{name}.tw"))
    inside = tw.compile(models["open"], workers=0, num_threads=1, cache=False, weights="inside")
    inside.export_library(Path(folder.name, "inside.so"))
    return folder


def _written(text: str) -> onnx.ModelProto:
    """A model with the weights that its nodes read."""
    weights = {"w": np.eye(8, dtype=np.float32), "i": np.array([2, 0, 1, 2], np.int64)}
    model = onnx.parser.parse_model(f"{_HEAD} {text}")
    used = [own for own in weights if any(own in node.input for node in model.graph.node)]
    model.graph.initializer.extend(numpy_helper.from_array(weights[own], own) for own in used)
    return model


def check(programs: str, number: Number) -> Verdict:
    """Make a mutant of one of the programs in a folder, load and run it, all in this process."""
    with tempfile.TemporaryDirectory(prefix="tilewright-fuzz-") as folder:
        path = mutate(Path(programs), Path(folder), _random(number))
        try:
            module = tw.load_module(path, num_threads=1)
            made = module.run({info.name: _array(info) for info in module.inputs})
            _, manifest = on_disk.read_program(Path(programs, path.name))
            fits = all(_fits(array, info) for array, info in zip(made, manifest.outputs, strict=True))
            return Verdict("agrees") if fits else Verdict("error", "an output has another shape")
        except Exception as error:
            return of_error(error)


def save(number: Number, verdict: Verdict, path: Path) -> str:
    """Write the files of a mutant into the folder ``path``; says where they are."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return f"{mutate(Path(_programs().name), path, _random(number))}: {verdict.reason}"


def _random(number: Number) -> Random:
    return Random("{}-{}".format(*number))


def _array(info: tw.TensorInfo) -> np.ndarray:
    shape = [extent if isinstance(extent, int) else 3 for extent in info.shape]
    if np.prod(shape, dtype=float) > 1 << 20:
        raise tw.InputError("the program is for inputs that nobody has")
    return np.ones(shape, numpy_dtype(info.dtype))


def _fits(array: np.ndarray, info: tw.TensorInfo) -> bool:
    same = all(n == m for n, m in zip(array.shape, info.shape, strict=False) if isinstance(m, int))
    return array.dtype == numpy_dtype(info.dtype) and array.ndim == len(info.shape) and same


def mutate(programs: Path, folder: Path, random: Random) -> Path:
    """Write a mutant of one of the programs into a folder; gives its path."""
    source = random.choice(sorted([*programs.glob("*.so"), *programs.glob("*.tw")]))
    path = folder / source.name
    if source.is_dir():
        shutil.copytree(source, path)
        files = sorted(path.iterdir())
    else:
        files = [path, path.with_suffix(".safetensors")]
        for file in files:
            if (source.parent / file.name).exists():
                shutil.copy(source.parent / file.name, file)
        if random.random() < 0.5:
            path.write_bytes(_redescribed(path.read_bytes(), random))
            return path
    file = random.choice([file for file in files if file.exists()])
    others = sorted(programs.rglob(f"*{file.suffix}"))
    data = random.choice(_CHANGES)(file.read_bytes(), random, random.choice(others))
    file.write_bytes(data)
    return path


Change = Callable[[bytes, Random, Path], bytes]


def _flip(data: bytes, random: Random, _: Path) -> bytes:
    changed = bytearray(data)
    for _turn in range(random.choice((1, 1, 2, 8))):
        changed[random.randrange(len(data))] ^= 1 << random.randrange(8)
    return bytes(changed)


def _flip_head(data: bytes, random: Random, other: Path) -> bytes:
    """Where headers are."""
    return _flip(data[:256], random, other) + data[256:]


def _cut(data: bytes, random: Random, _: Path) -> bytes:
    return data[: random.randrange(len(data))]


def _splice(data: bytes, random: Random, other: Path) -> bytes:
    """The beginning of one file and the end of another, which is not the other one as a whole."""
    end = other.read_bytes() if other.is_file() else b""
    same = next((i for i, (one, two) in enumerate(zip(data, end, strict=False)) if one != two), 0)
    at = random.randrange(min(same + 1, len(data) - 1), len(data))
    return data[:at] + end[at:]


def _exchange(data: bytes, random: Random, _: Path) -> bytes:
    """Two parts of as many bytes have changed places."""
    size = random.randrange(1, max(2, len(data) // 4))
    one, two = sorted(random.randrange(max(1, len(data) - size)) for _ in range(2))
    two = max(two, one + size)
    return data[:one] + data[two : two + size] + data[one + size : two] + data[one : one + size] + data[two + size :]


def _grow(data: bytes, random: Random, _: Path) -> bytes:
    return data + random.randbytes(random.randrange(1, 200))


_CHANGES: Sequence[Change] = (_flip, _flip, _flip_head, _cut, _splice, _exchange, _grow)


def _redescribed(data: bytes, random: Random) -> bytes:
    """The library with another description of as many bytes, and a right seal."""
    text = elf.read_section(data, METADATA_SECTION)
    assert text is not None
    fields = json.loads(text)
    for _ in range(random.choice((1, 1, 2, 3))):
        _change(fields, random)
    written = json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()
    if random.random() < 0.02:
        written = b"[" * len(text)
    fitted = (written + b" " * len(text))[: len(text)]  # one that became longer is cut
    body = data[: -shared._SEAL_BYTES].replace(text, fitted, 1)
    return body + shared._SEAL + hashlib.sha256(body).hexdigest().encode() + b"\n"


def _change(fields: Any, random: Random) -> None:
    """Drop, double or replace something inside of a description; what its steps are stays."""
    holder, key = random.choice(list(_places(fields)))
    match random.randrange(4):
        case 0 if isinstance(holder, dict):
            del holder[key]
        case 1 if isinstance(holder, list):
            holder.append(holder[key])
        case 2 if isinstance(holder[key], int):
            holder[key] += random.choice((-1, 1, 64, -64))
        case 3 if isinstance(holder[key], str):
            holder[key] = holder[key].translate({ord("8"): "9", ord("0"): "7", ord("f"): "i", ord("3"): "6"})
        case _:
            holder[key] = copy.deepcopy(random.choice(_ODD))


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Where a value may be changed: holders with keys."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        if key != "routine":
            yield value, key
            yield from _places(value[key])
