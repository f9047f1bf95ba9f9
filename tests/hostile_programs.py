"""Files of exported programs that mean harm: for each what is done to a good one, and what its error has to say.

A ``{marker}`` in what is planted is the path of a file that is there where it was run.
"""

from __future__ import annotations

import json
import os
import pickle
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Files = dict[str, bytes]
MODEL, WEIGHTS = "models/model.json", "data/weights/model_weights_config.json"
HUGE = 10**15
PAYLOAD = "import pathlib\npathlib.Path({marker!r}).touch()\n"


@dataclass(frozen=True)
class Attack:
    """``change`` gets the files of a good program, the folder that it is in, and the path of the marker."""

    says: str
    change: Callable[[Files, Path, Path], None]
    compression: int = zipfile.ZIP_STORED


def abort(*_: object) -> None:
    """End the process, as a fault of torch's would."""
    os.abort()


def leave(*_: object) -> None:
    """End the process, as ``unittest.__main__`` does when it is imported."""
    raise SystemExit(0)


class Planted:
    """Unpickling it leaves the marker."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return Path.touch, (self.marker,)


def write(saved: Path, path: Path, attack: Attack, marker: Path) -> None:
    """Write the good program that is ``saved`` with an attack in it."""
    files = read(saved)
    attack.change(files, path.parent, marker)
    pack(files, path, attack.compression)


def read(saved: Path) -> Files:
    """The files in an archive, without its own name."""
    with zipfile.ZipFile(saved) as archive:
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


def pack(files: Mapping[str, bytes], path: Path, compression: int = zipfile.ZIP_STORED) -> None:
    """Write an archive of files."""
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in files.items():
            archive.writestr(f"archive/{name}", data)


def _model(change: Callable[[Any], None]) -> Callable[[Files, Path, Path], None]:
    return lambda files, folder, marker: _edit(files, MODEL, change)


def _weights(change: Callable[[Any], None]) -> Callable[[Files, Path, Path], None]:
    return lambda files, folder, marker: _edit(files, WEIGHTS, change)


def _edit(files: Files, name: str, change: Callable[[Any], None]) -> None:
    content = json.loads(files[name])
    change(content)
    files[name] = json.dumps(content).encode()


def _text(old: str, new: str) -> Callable[[Files, Path, Path], None]:
    def change(files: Files, folder: Path, marker: Path) -> None:
        assert old.encode() in files[MODEL]
        files[MODEL] = files[MODEL].replace(old.encode(), new.encode())

    return change


def _signature(program: Any) -> Any:
    return program["graph_module"]["module_call_graph"][0]["signature"]


def _spec(side: str, kind: str, context: Any) -> Callable[[Files, Path, Path], None]:
    """The arguments, or the result, in another container."""

    def change(program: Any) -> None:
        version, whole = json.loads(_signature(program)[side])
        node = {"type": kind, "context": context, "children_spec": [whole]}
        _signature(program)[side] = json.dumps([version, node])

    return _model(change)


def _enum(fqn: str, name: str) -> str:
    return json.dumps([{"__enum__": True, "fqn": fqn, "name": name}])


def _imported(side: str) -> Callable[[Files, Path, Path], None]:
    """A module of the file's author, where python looks for modules: the current folder."""

    def change(files: Files, folder: Path, marker: Path) -> None:
        (folder / "planted.py").write_text(PAYLOAD.format(marker=str(marker)))
        _spec(side, "builtins.dict", _enum("planted:x", "y"))(files, folder, marker)

    return change


def _made(factory: str, module: str) -> Callable[[Files, Path, Path], None]:
    def change(files: Files, folder: Path, marker: Path) -> None:
        (folder / "planted.py").write_text(PAYLOAD.format(marker=str(marker)))
        context = {"default_factory_module": module, "default_factory_name": factory, "dict_context": ["a"]}
        _spec("out_spec", "collections.defaultdict", context)(files, folder, marker)

    return change


def _graph(program: Any) -> Any:
    return program["graph_module"]["graph"]


def _called(target: str, *texts: str, marked: bool = False) -> Callable[[Files, Path, Path], None]:
    """A node that calls a function, with texts as its arguments."""

    def change(files: Files, folder: Path, marker: Path) -> None:
        given = [str(marker)] if marked else texts
        inputs = [{"name": "", "arg": {"as_string": text}, "kind": 1} for text in given]
        node = {"target": target, "inputs": inputs, "outputs": [{"as_none": True}], "metadata": {}, "name": "called"}
        _edit(files, MODEL, lambda program: _graph(program)["nodes"].append(node))

    return change


def _operator_argument(program: Any) -> None:
    inputs = [{"name": "", "arg": {"as_operator": "torch.hub.load"}, "kind": 1}]
    target = "torch.ops.higher_order.cond"
    node = {"target": target, "inputs": inputs, "outputs": [{"as_none": True}], "metadata": {}, "name": "called"}
    _graph(program)["nodes"].append(node)


def _deep(program: Any) -> None:
    leaf: Any = {"type": None, "context": None, "children_spec": []}
    for _ in range(300):
        leaf = {"type": "builtins.tuple", "context": "null", "children_spec": [leaf]}
    _signature(program)["out_spec"] = json.dumps([1, leaf])


def _custom_object(program: Any) -> None:
    _graph(program)["custom_obj_values"] = {"x": {"name": "x", "class_fqn": "os.system"}}


def _ranged(symbol: str) -> Callable[[Files, Path, Path], None]:
    def change(program: Any) -> None:
        program["range_constraints"][symbol] = {"min_val": 0, "max_val": 9}

    return _model(change)


def _constant_of(kind: str) -> Callable[[Files, Path, Path], None]:
    """A constant that is an object, pickled."""

    def change(files: Files, folder: Path, marker: Path) -> None:
        name = "data/constants/model_constants_config.json"
        files[f"data/constants/{kind}_0"] = pickle.dumps(Planted(marker))
        entry = {"path_name": f"{kind}_0", "is_param": False, "use_pickle": True, "tensor_meta": None}
        _edit(files, name, lambda config: config["config"].update(offset=entry))

    return change


def _pickled_whole(files: Files, folder: Path, marker: Path) -> None:
    files["data/weights/model.pt"] = pickle.dumps(Planted(marker))


def _compiled(files: Files, folder: Path, marker: Path) -> None:
    files["data/aotinductor/model/payload.so"] = b"\x7fELF"


def _first(config: Any) -> Any:
    return next(iter(config["config"].values()))


def _spread(config: Any) -> None:
    meta = _first(config)["tensor_meta"]
    meta["sizes"], meta["strides"] = [{"as_int": 1 << 30}], [{"as_int": 0}]


def _large(config: Any) -> None:
    meta = _first(config)["tensor_meta"]
    meta["sizes"], meta["strides"] = [{"as_int": HUGE}], [{"as_int": 0}]


def _beyond(config: Any) -> None:
    _first(config)["tensor_meta"]["storage_offset"] = {"as_int": 1 << 40}


def _elsewhere(config: Any) -> None:
    _first(config)["path_name"] = "../../../../etc/passwd"


def _no_data(files: Files, folder: Path, marker: Path) -> None:
    files["data/weights/weight_0"] = b""


def _zeros(files: Files, folder: Path, marker: Path) -> None:
    files[MODEL] += b" " * (8 << 20)


def _nested_json(files: Files, folder: Path, marker: Path) -> None:
    files[MODEL] = b'{"graph_module":' + b"[" * 100_000


_S = "Symbol('s77'"
_SIZES = {
    "a power without an end": ("Add(Integer(1), 9**9**9**9)", "a size that is none"),
    "a power of calls": (f"Pow({'Pow(' * 20}Integer(9){', Integer(64))' * 20}, Integer(2))", "too large"),
    "a shift": ("LShift(Integer(1), Integer(4611686018427387904))", "an exponent that is no number up to 64"),
    "a number of many digits": (f"Integer({'9' * 5000})", "a size that is none: it has the number 999"),
    "a product of sums": (
        "Mul(" + ", ".join(f"Add(Symbol('s{i}'), Symbol('s{i + 1}'))" for i in range(40)) + ")",
        "too large",
    ),
    "sizes in one another": ("Abs(" * 5000 + "Integer(1)" + ")" * 5000, "a size that is none"),
    "a call": ("__import__('os').system('x')", "a size that is none"),
    "an attribute": ("Symbol.__init__", "a size that is none"),
    "a symbol that counts": (f"Symbol('u{HUGE}')", "a size that is none: it has the symbol"),
}


def _sized(expression: str) -> Callable[[Files, Path, Path], None]:
    def change(program: Any) -> None:
        sizes = next(iter(_graph(program)["tensor_values"].values()))["sizes"]
        sizes[:] = [{"as_expr": {"expr_str": expression, "hint": None}}] * len(sizes)

    return _model(change)


ATTACKS: dict[str, Attack] = {
    "a module for a key of arguments": Attack("in_spec", _imported("in_spec")),
    "a module for a key of results": Attack(
        "out_spec that has a 'builtins.dict' with the context", _imported("out_spec")
    ),
    "a library": Attack("out_spec", _spec("out_spec", "builtins.dict", _enum("ctypes:cdll", "./payload.so"))),
    "a module that ends the process": Attack(
        "out_spec", _spec("out_spec", "builtins.dict", _enum("unittest.__main__:x", "y"))
    ),
    "a factory of a module": Attack("'collections.defaultdict'", _made("x", "planted")),
    "a module's own type": Attack("not registered here", _spec("out_spec", "os.PathLike", "null")),
    "an enum of a registered type": Attack(
        "out_spec", _spec("out_spec", "torch.fx.immutable_collections.immutable_dict", _enum("planted:x", "y"))
    ),
    "results nested without an end": Attack("more than 64 deep", _model(_deep)),
    "a function of torch": Attack("an op that is not torch's own", _called("torch.hub.load", "x", "y")),
    "a function by another name": Attack("an op that is not torch's own", _called("torchx.hub.load", "x", "y")),
    "a function of operator": Attack("an op that is not torch's own", _called("_operatorx.attrgetter", "x")),
    "an op that saves": Attack("an op that is not torch's own", _called("torch.ops.aten.save.default", marked=True)),
    "an op that maps files": Attack(
        "an op that is not torch's own", _called("torch.ops.aten.from_file.default", marked=True)
    ),
    "an op's attribute": Attack("not torch's own", _called("torch.ops.aten.add.Tensor.__init__", "x")),
    "a delegate": Attack("not torch's own", _called("torch.ops.higher_order.aoti_call_delegate", "x")),
    "a function as an argument": Attack("'torch.hub.load' as Argument.as_operator", _model(_operator_argument)),
    "a name of Python": Attack("a name that is none", _text('"p_linear_weight"', '"p=__import__"')),
    "an object of a class": Attack("an object of a class of its own", _model(_custom_object)),
    "a count of symbols": Attack("range_constraints", _ranged(f"u{HUGE}")),
    "an opaque object": Attack("'offset' as a pickle", _constant_of("opaque_obj")),
    "a custom object": Attack("'offset' as a pickle", _constant_of("custom_obj")),
    "a pickled constant": Attack("'offset' as a pickle", _constant_of("tensor")),
    "weights of an older version": Attack("has pickled weights", _pickled_whole),
    "compiled code": Attack("has compiled code", _compiled),
    "weights that repeat": Attack("whose elements repeat", _weights(_spread)),
    "a weight of all memory": Attack("larger than the", _weights(_large)),
    "a weight beyond its data": Attack("do not fit its shape", _weights(_beyond)),
    "a weight without data": Attack("has 0 bytes of", _no_data),
    "a weight of another file": Attack(
        "'\\.\\./\\.\\./\\.\\./\\.\\./etc/passwd' as a pickle|as PayloadMeta|as a pickle", _weights(_elsewhere)
    ),
    "deflated blanks": Attack("compressed, and only stored ones are read", _zeros, zipfile.ZIP_DEFLATED),
    "brackets": Attack("no JSON", _nested_json),
} | {f"a size: {name}": Attack(says, _sized(text)) for name, (text, says) in _SIZES.items()}
