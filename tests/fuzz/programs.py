"""Broken files of exported programs: a few small ones, whose archive, JSON, nesting and sizes are changed at random.

Each is refused in a line, or compiled; none runs ``planted``, a module that what is changed may name, and which leaves
a marker.
"""

from __future__ import annotations

import copy
import io
import json
import os
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any

import hostile_programs as hostile
import torch
from fuzz.harm import of_error, of_lost
from parallel import call_all
from torch import nn

import tilewright as tw
from tilewright.tools.debugging.isolation import Lost
from tilewright.tools.debugging.verdict import Verdict

Number = tuple[int, int]  # seed, index
_MARKER = "marker"
_ODD = (None, -1, 0, 1, 2**31, 2**63, 10**30, 0.5, float("nan"), True, "", "x", "\n", "é", [], {}, [[[]]], "planted")
_HEADS = (
    "Add",
    "Mul",
    "Pow",
    "Max",
    "Min",
    "LShift",
    "FloorDiv",
    "Mod",
    "ModularIndexing",
    "Abs",
    "Piecewise",
    "Where",
)
_CONTEXTS = (
    *("null", "[]", '["a"]', "[null]", "3", "-1", "{}", '{"a": 1}', "planted", "[[1]]", '["a", "a"]', "NaN"),
    '[{"__enum__": true, "fqn": "planted:x", "name": "y"}]',
    '{"default_factory_module": "planted", "default_factory_name": "x", "dict_context": []}',
)
_TYPES = (
    *(None, "builtins.tuple", "builtins.list", "builtins.dict", "collections.OrderedDict", "collections.deque"),
    *("collections.namedtuple", "collections.defaultdict", "torch.Size", "planted.x", "torch.hub.load"),
)
_TARGETS = (
    *("torch.ops.aten.relu.default", "torch.ops.aten.add.Tensor", "torch.ops.aten.empty.memory_format", "planted.x"),
    *("_operator.getitem", "_operator.pow", "math.trunc", "torch.sym_max", "torch.hub.load", "torch.ops.planted.x"),
    *("torch.ops.higher_order.cond", "torch.ops.higher_order.flat_apply", "torch.ops.aten.from_file.default"),
)


class _Small(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.linear, self.function = nn.Linear(4, 4), function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(self.linear(x))


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "static": torch.relu,
    "nested": lambda x: {"a": x + 1, "b": (x * 2.5, [x.sum(1)])},
    "open": lambda x: torch.cat([x, x], 1).reshape(-1, 2),
    "extent": lambda x: (x / x.shape[0], x.shape[0] * 2 + 1),
}


@cache
def _good() -> dict[str, bytes]:
    """The files that mutants are made of."""
    made = {}
    for name, function in _FUNCTIONS.items():
        shapes = None if name in ("static", "nested") else ({0: torch.export.Dim("n", min=2, max=64)},)
        torch.manual_seed(0)
        program = torch.export.export(_Small(function).eval(), (torch.ones(3, 4),), dynamic_shapes=shapes)
        saved = io.BytesIO()
        torch.export.save(program, saved)
        made[name] = saved.getvalue()
    return made


def verdicts(numbers: Sequence[Number], processes: int, seconds: float) -> Iterator[tuple[Number, Verdict]]:
    """What becomes of each mutant, which is made, read and compiled in a child process of limited memory.

    agrees: it was compiled. refused: an error of one line says why it was not. internal: it says that the compiler is
    at fault. error, crash, hang: these harm who compiles it.
    """
    with tempfile.TemporaryDirectory(prefix="tilewright-fuzz-") as folder:
        marker = Path(folder, _MARKER)
        Path(folder, "planted.py").write_text(hostile.PAYLOAD.format(marker=str(marker)))
        for number, found in zip(numbers, call_all(partial(check, folder), numbers, processes, seconds), strict=True):
            yield number, of_lost(found) if isinstance(found, Lost) else found


def check(folder: str, number: Number) -> Verdict:
    """Make a mutant in a folder that has the module ``planted``, and compile it."""
    if folder not in sys.path:
        sys.path.insert(0, folder)
        os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)  # of the workers
    path = Path(folder, "{}-{}.pt2".format(*number))
    path.write_bytes(mutant(number))
    try:
        tw.compile(path, num_threads=1, cache=False, untrusted=True)
        verdict = Verdict("agrees")
    except Exception as error:
        verdict = of_error(error)
    path.unlink()
    return Verdict("error", "code of the file was run") if Path(folder, _MARKER).exists() else verdict


def save(number: Number, verdict: Verdict, path: Path) -> str:
    """Write a mutant; says where it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(mutant(number))
    return f"{path}: {verdict.reason}"


def mutant(number: Number) -> bytes:
    """The bytes of a mutant; the same for the same numbers."""
    random = Random("{}:{}:program".format(*number))
    data = random.choice(list(_good().values()))
    if random.random() < 0.2:
        return random.choice(_BYTES)(data, random)
    files = _files(data)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        random.choice(_CHANGES)(files, random)
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED if random.random() < 0.03 else zipfile.ZIP_STORED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(f"model/{name}"), content, archive.compression)
    return made.getvalue()


def _files(data: bytes) -> hostile.Files:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


# Of the archive's bytes.


def _flipped(data: bytes, random: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(random.choice((1, 2, 8))):
        changed[random.randrange(len(data))] ^= 1 << random.randrange(8)
    return bytes(changed)


def _directory_flipped(data: bytes, random: Random) -> bytes:
    """Where the entries' sizes and places are."""
    begin = data.find(b"PK\x01\x02")
    return data[:begin] + _flipped(data[begin:], random)


def _cut(data: bytes, random: Random) -> bytes:
    return data[: random.randrange(1, len(data))]


def _grown(data: bytes, random: Random) -> bytes:
    at = random.randrange(len(data))
    return data[:at] + random.randbytes(random.randrange(1, 100)) + data[at:]


# Of the archive's files.


def _file(files: hostile.Files, random: Random) -> None:
    name = random.choice(list(files))
    match random.randrange(4):
        case 0:
            del files[name]
        case 1:
            files[name] = files[name][: random.randrange(len(files[name]) + 1)]
        case 2:
            files[random.choice(("../x", "/etc/x", "data/weights/model.pt", "extra/x", "", "é"))] = files[name]
        case _:
            files[name] = files[random.choice(list(files))]


def _json(files: hostile.Files, random: Random) -> None:
    """Drop, double or replace something in one of the texts."""
    name = random.choice([hostile.MODEL, hostile.MODEL, hostile.WEIGHTS])
    with _Opened(files, name) as content:
        holder, key = random.choice(list(_places(content)))
        match random.randrange(5):
            case 0 if isinstance(holder, dict):
                del holder[key]
            case 1 if isinstance(holder, list):
                holder.append(copy.deepcopy(holder[key]))
            case 2 if isinstance(holder[key], int):
                holder[key] += random.choice((-1, 1, 64, -64))
            case 3:
                other, own = random.choice(list(_places(content)))
                holder[key] = copy.deepcopy(other[own])
            case _:
                holder[key] = copy.deepcopy(random.choice(_ODD))


def _target(files: hostile.Files, random: Random) -> None:
    with _Opened(files, hostile.MODEL) as content:
        nodes = content["graph_module"]["graph"]["nodes"]
        random.choice(nodes)["target"] = random.choice(_TARGETS)


def _nesting(files: hostile.Files, random: Random) -> None:
    with _Opened(files, hostile.MODEL) as content:
        signature = content["graph_module"]["module_call_graph"][0]["signature"]
        side = random.choice(("in_spec", "out_spec"))
        version, root = json.loads(signature[side])
        nodes = [root]
        for node in nodes:  # grows while it is walked
            nodes += node["children_spec"]
        node = random.choice(nodes)
        match random.randrange(4):
            case 0:
                node["type"] = random.choice(_TYPES)
            case 1:
                node["context"] = random.choice(_CONTEXTS)
            case 2:
                node["type"], node["context"] = random.choice(_TYPES), random.choice(_CONTEXTS)
            case _:
                node["children_spec"] = node["children_spec"] * 2 or [copy.deepcopy(root)]
        signature[side] = json.dumps([version, root])


def _size(files: hostile.Files, random: Random) -> None:
    """A size becomes another expression, or a number an expression."""
    with _Opened(files, hostile.MODEL) as content:
        tensor = random.choice(list(content["graph_module"]["graph"]["tensor_values"].values()))
        sizes = tensor[random.choice(("sizes", "sizes", "strides"))]
        if sizes:
            sizes[random.randrange(len(sizes))] = {"as_expr": {"expr_str": _expression(random, 3), "hint": None}}


def _expression(random: Random, depth: int) -> str:
    if depth == 0 or random.random() < 0.3:
        if random.random() < 0.05:
            return random.choice(("planted.x", "9**9**9**9", "oo", "true", "Symbol('u9')"))
        numbers = ("Integer(2)", "Integer(-1)", "Integer(64)", f"Integer({2**62})", "Rational(1, 2)")
        return random.choice(("Symbol('s77', positive=True)", "Symbol('s77', integer=True, positive=True)", *numbers))
    parts = (_expression(random, depth - 1) for _ in range(random.choice((1, 2, 2, 3))))
    return f"{random.choice(_HEADS)}({', '.join(parts)})"


class _Opened:
    """One of the archive's texts as JSON, which is written again; one that is broken by now stays."""

    def __init__(self, files: hostile.Files, name: str) -> None:
        self._files, self._name = files, name

    def __enter__(self) -> Any:
        self._content = json.loads(self._files.get(self._name, b""))
        return self._content

    def __exit__(self, *raised: Any) -> bool:
        if raised[0] is None:
            self._files[self._name] = json.dumps(self._content).encode()
        return False


def _tried(change: Callable[[hostile.Files, Random], None]) -> Callable[[hostile.Files, Random], None]:
    """A change that is none where an earlier one has left nothing to change."""

    def tried(files: hostile.Files, random: Random) -> None:
        try:
            change(files, random)
        except (ValueError, KeyError, TypeError, IndexError, AttributeError):
            return

    return tried


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Where a value may be changed: holders with keys."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])


_BYTES = (_flipped, _directory_flipped, _directory_flipped, _cut, _grown)
_CHANGES = tuple(map(_tried, (_file, _json, _json, _json, _target, _nesting, _nesting, _size, _size)))
