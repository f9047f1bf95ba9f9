"""Model files that mean harm, or are broken: for each its name, what writes it, and what its error has to say."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

HUGE = 10**12
DIMS = (64, 64)  # more than a message that is taken as it is


@dataclass(frozen=True)
class Hostile:
    """``write`` puts the model at a path; ``says`` is part of the error that compiling it gives.

    ``untrusted`` says that only the limits for such models refuse it.
    """

    write: Callable[[Path], None]
    says: str
    untrusted: bool = False


def typed(name: str, shape: Sequence[int | str] | None = DIMS, dtype: int = TensorProto.FLOAT) -> ValueInfoProto:
    """A declared input or output."""
    return helper.make_tensor_value_info(name, dtype, shape)


def model(nodes: Sequence[NodeProto], weights: Sequence[TensorProto] = (), **parts: Any) -> ModelProto:
    """A model from ``x``, float32[64,64], to ``y``, unless ``parts`` say otherwise."""
    inputs, outputs = parts.pop("inputs", [typed("x")]), parts.pop("outputs", [typed("y", None)])
    functions = parts.pop("functions", [])
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights, **parts)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("f", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10, functions=functions)


def saved(made: ModelProto | bytes) -> Callable[[Path], None]:
    """What writes a model as it is."""
    data = made if isinstance(made, bytes) else made.SerializeToString()

    def write(path: Path) -> None:
        path.write_bytes(data)

    return write


def saved_later(make: Callable[..., ModelProto | bytes], *numbers: int) -> Callable[[Path], None]:
    """What makes a large model, of these numbers, and writes it: each process that collects tests would make it."""
    return lambda path: saved(make(*numbers))(path)


def external(location: str = "w.bin", more: Sequence[tuple[str, str]] = (), **where: int) -> TensorProto:
    """The weight ``w``, whose data is in a file."""
    made = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=DIMS, data_location=TensorProto.EXTERNAL)
    for key, value in [("location", location), *((k, str(v)) for k, v in where.items()), *more]:
        made.external_data.add(key=key, value=value)
    return made


def add(weight: TensorProto) -> ModelProto:
    """A model that adds a weight."""
    return model([helper.make_node("Add", ["x", "w"], ["y"], name="the_add")], [weight])


def constant(weight: TensorProto) -> ModelProto:
    """A model that adds a tensor which is an attribute."""
    nodes = [helper.make_node("Constant", [], ["w"], name="the_constant", value=weight)]
    return model([*nodes, helper.make_node("Add", ["x", "w"], ["y"])])


def sparse(weight: TensorProto) -> onnx.SparseTensorProto:
    """A sparse tensor with these values."""
    indices = numpy_helper.from_array(np.arange(64, dtype=np.int64), "i")
    return onnx.SparseTensorProto(values=weight, indices=indices, dims=[4096])


def sparse_constant(weight: TensorProto) -> ModelProto:
    """A model with a sparse tensor that is an attribute."""
    nodes = [helper.make_node("Constant", [], ["w"], name="the_constant", sparse_value=sparse(weight))]
    return model([*nodes, helper.make_node("Relu", ["w"], ["y"])])


def sparse_weight(weight: TensorProto) -> ModelProto:
    """A model with a sparse initializer."""
    return model([helper.make_node("Relu", ["w"], ["y"])], sparse_initializer=[sparse(weight)])


def in_branch(weight: TensorProto) -> ModelProto:
    """A model with a weight in a nested graph."""
    branch = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["b"])], "then", [], [typed("b", DIMS)], initializer=[weight]
    )
    other = helper.make_graph([helper.make_node("Relu", ["x"], ["b"])], "else", [], [typed("b", DIMS)])
    node = helper.make_node("If", ["c"], ["y"], name="the_if", then_branch=branch, else_branch=other)
    return model([node], inputs=[typed("x"), typed("c", [], TensorProto.BOOL)])


def function(name: str, nodes: Sequence[NodeProto]) -> onnx.FunctionProto:
    """A model-local function of one input and one output, ``i`` and ``o``."""
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("f", 1)]
    return helper.make_function("f", name, ["i"], ["o"], nodes, opsets)


def in_function(weight: TensorProto) -> ModelProto:
    """A model with a tensor in a function's body."""
    body = [helper.make_node("Constant", [], ["w"], value=weight), helper.make_node("Add", ["i", "w"], ["o"])]
    return model([helper.make_node("F", ["x"], ["y"], domain="f", name="the_call")], functions=[function("F", body)])


def call(name: str, given: str, made: str) -> NodeProto:
    """A call of a model-local function."""
    return helper.make_node(name, [given], [made], domain="f", name=f"call_{name}")


def laughs(levels: int, each: int = 2) -> ModelProto:
    """Functions that each call the next one several times."""
    functions = [function(f"F{levels}", [helper.make_node("Relu", ["i"], ["o"])])]
    for level in range(levels):
        names = ["i", *(f"t{n}" for n in range(each - 1)), "o"]
        functions.append(function(f"F{level}", [call(f"F{level + 1}", *pair) for pair in pairwise(names)]))
    return model([call("F0", "x", "y")], functions=functions)


def recursive(*names: str) -> ModelProto:
    """Functions that call one another in a ring."""
    functions = [function(a, [call(b, "i", "o")]) for a, b in zip(names, (*names[1:], names[0]), strict=True)]
    return model([call(names[0], "x", "y")], functions=functions)


def sized(op: str, shape: Sequence[int], inputs: Sequence[str] = ("shape",), **attributes: Any) -> ModelProto:
    """A node whose result has a size that an initializer says."""
    weight = numpy_helper.from_array(np.array(shape, np.int64), "shape")
    return model([helper.make_node(op, inputs, ["y"], name=f"the_{op}", **attributes)], [weight])


def scalars(op: str, *numbers: int, **attributes: Any) -> ModelProto:
    """A node on integers without axes."""
    names = [f"n{i}" for i in range(len(numbers))]
    weights = [numpy_helper.from_array(np.array(n, np.int64), name) for n, name in zip(numbers, names, strict=True)]
    return model([helper.make_node(op, names, ["y"], name=f"the_{op}", **attributes)], weights)


def one_hot() -> ModelProto:
    """A depth of 10^12."""
    weights = [numpy_helper.from_array(np.array([HUGE], np.int64), "depth")]
    weights += [numpy_helper.from_array(np.array([0, 1], np.float32), "values")]
    node = helper.make_node("OneHot", ["i", "depth", "values"], ["y"], name="the_OneHot")
    return model([node], weights, inputs=[typed("i", [4], TensorProto.INT64)])


def scan_output() -> ModelProto:
    """A loop whose scan output gets 10^12 rows."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["goes"]), helper.make_node("Identity", ["x"], ["row"])],
        "body",
        [typed("at", [], TensorProto.INT64), typed("go", [], TensorProto.BOOL)],
        [typed("goes", [], TensorProto.BOOL), typed("row", DIMS)],
    )
    weights = [numpy_helper.from_array(np.array(HUGE, np.int64), "m")]
    return model([helper.make_node("Loop", ["m", ""], ["y"], name="the_loop", body=body)], weights)


def resize(*extents: int) -> ModelProto:
    """A picture of so many pixels a side."""
    weights = [numpy_helper.from_array(np.array(extents, np.int64), "sizes")]
    return model(
        [helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], name="the_Resize", mode="nearest")], weights
    )


def cropped(pads: Sequence[int]) -> ModelProto:
    """A convolution whose padding cuts off more than there is."""
    conv = helper.make_node("Conv", ["x", "w"], ["y"], name="the_Conv", pads=pads)
    return model([conv], [numpy_helper.from_array(np.ones((1, 1, 3), np.float32), "w")], inputs=[typed("x", [1, 1, 8])])


def lrn(size: int) -> ModelProto:
    """A normalisation over so many channels."""
    node = helper.make_node("LRN", ["x"], ["y"], name="the_LRN", size=size)
    return model([node], inputs=[typed("x", [1, 4, 5, 5])])


def dims(*extents: int, raw: bytes = b"") -> TensorProto:
    """A weight of these dims with little data."""
    return TensorProto(name="w", data_type=TensorProto.FLOAT, dims=extents, raw_data=raw or bytes(16))


def nested_if(levels: int) -> ModelProto:
    """An If in each branch of an If, and so on: the file is small only because both branches share nothing deep."""
    inner = [helper.make_node("Relu", ["x"], ["b0"])]
    for level in range(levels):
        out = typed(f"b{level}", DIMS)
        leaf = helper.make_graph([helper.make_node("Neg", ["x"], [f"b{level}"])], "else", [], [out])
        then = helper.make_graph(inner, "then", [], [out])
        inner = [
            helper.make_node("If", ["c"], [f"b{level + 1}"], name=f"if{level}", then_branch=then, else_branch=leaf)
        ]
    nodes = [*inner, helper.make_node("Relu", [f"b{levels}"], ["y"])]
    return model(nodes, inputs=[typed("x"), typed("c", [], TensorProto.BOOL)])


def varint(value: int) -> bytes:
    """A number as protobuf has it."""
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    return bytes([*made, value])


def field(number: int, content: bytes) -> bytes:
    """A field of bytes, or a message."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def deep_graphs(levels: int) -> bytes:
    """Graphs in attributes of nodes of graphs, and so on."""
    head, size = [], 0
    for number in (1, 5, 6) * levels:  # a graph's node, its attribute, that one's graph: from the innermost
        part = varint(number << 3 | 2) + varint(size)
        head.append(part)
        size += len(part)
    body = b"".join(reversed(head))
    return varint(1 << 3) + b"\x0a" + field(7, body)


def deep_type(levels: int) -> bytes:
    """A sequence of sequences, and so on, as the type of an input."""
    inner = b""
    for _ in range(levels):
        inner = field(4, field(1, inner))
    return varint(1 << 3) + b"\x0a" + field(7, field(11, field(1, b"x") + field(2, inner)))


def link(path: Path) -> None:
    """A data file that is a symbolic link out of the folder."""
    (path.parent / "w.bin").symlink_to("/etc/hostname")
    path.write_bytes(add(external()).SerializeToString())


def fifo_data(path: Path) -> None:
    """A data file that blocks who opens it."""
    os.mkfifo(path.parent / "w.bin")
    path.write_bytes(add(external()).SerializeToString())


def short_data(weight: TensorProto) -> Callable[[Path], None]:
    """What writes a model whose data file has 16384 bytes."""

    def write(path: Path) -> None:
        (path.parent / "w.bin").write_bytes(bytes(4 * 64 * 64))
        path.write_bytes(add(weight).SerializeToString())

    return write


def edited(edit: Callable[[ModelProto], object], base: ModelProto | None = None) -> Callable[[Path], None]:
    """What writes a plain model after an edit."""
    made = ModelProto()
    made.CopyFrom(base or add(numpy_helper.from_array(np.ones(DIMS, np.float32), "w")))
    edit(made)
    return saved(made)


def many_nodes(count: int) -> Callable[[Path], None]:
    """What writes a chain of nodes, without an object for each."""

    def write(path: Path) -> None:
        made = model([helper.make_node("Relu", [str(count - 1)], ["y"])])
        head = helper.make_node("Relu", ["x"], ["0"]).SerializeToString()
        parts = [field(1, head)]
        for i in range(1, count):
            parts.append(
                field(
                    1,
                    b"\x0a"
                    + field(0, str(i - 1).encode())[1:]
                    + b"\x12"
                    + field(0, str(i).encode())[1:]
                    + b"\x22\x04Relu",
                )
            )
        graph = b"".join(parts) + made.graph.SerializeToString()
        made.ClearField("graph")
        path.write_bytes(made.SerializeToString() + field(7, graph))

    return write


def node(made: ModelProto) -> NodeProto:
    """The first node of a model."""
    return made.graph.node[0]


VALID = add(numpy_helper.from_array(np.ones(DIMS, np.float32), "w")).SerializeToString()
LONG = "n" * 10**6
_BIG = 2**63

CASES: dict[str, Hostile] = {
    # Data in other files.
    "external: .. in an initializer": Hostile(saved(add(external("../secret"))), "outside its folder"),
    "external: .. in a Constant": Hostile(saved(constant(external("../secret"))), "outside its folder"),
    "external: .. in a sparse Constant": Hostile(saved(sparse_constant(external("../secret"))), "outside its folder"),
    "external: .. in a sparse initializer": Hostile(saved(sparse_weight(external("../secret"))), "outside its folder"),
    "external: .. in a branch": Hostile(saved(in_branch(external("../secret"))), "outside its folder"),
    "external: .. in a function": Hostile(saved(in_function(external("../secret"))), "outside its folder"),
    "external: absolute path": Hostile(saved(add(external("/etc/passwd"))), "outside its folder"),
    "external: symlink out of the folder": Hostile(link, "outside its folder"),
    "external: NUL in the name": Hostile(saved(add(external("w\0.bin"))), "w"),
    "external: name of 1 MB": Hostile(saved(add(external(LONG))), "tensor 'w'"),
    "external: a device": Hostile(saved(add(external("../../../dev/zero"))), "outside its folder"),
    "external: a FIFO": Hostile(fifo_data, "tensor 'w'"),
    "external: a folder": Hostile(saved(add(external("."))), "tensor 'w'"),
    "external: missing": Hostile(saved(add(external("none.bin"))), "is missing"),
    "external: offset beyond the file": Hostile(short_data(external(offset=4096)), "too short for tensor 'w'"),
    "external: offset of 2^63": Hostile(short_data(external(offset=_BIG)), "tensor 'w'"),
    "external: offset of 5000 digits": Hostile(short_data(external(offset=10**4000)), "tensor 'w'"),
    "external: negative offset": Hostile(short_data(external(offset=-1)), "the offset '-1' of tensor 'w'"),
    "external: negative length": Hostile(short_data(external(length=-1)), "the length '-1' of tensor 'w'"),
    "external: length of 2^63": Hostile(short_data(external(length=_BIG)), "tensor 'w'"),
    "external: unknown key": Hostile(short_data(external(more=[("url", "http://x")])), "'url' of tensor 'w'"),
    "external: key twice": Hostile(short_data(external(more=[("location", "x")])), "'location' of tensor 'w'"),
    "external: our own marks": Hostile(saved(add(external("tilewright:mapped"))), "tensor 'w'"),
    "external: forbidden when untrusted": Hostile(short_data(external()), "tensor 'w'", untrusted=True),
    # Tensors.
    "dims: product overflows": Hostile(saved(add(dims(2**32, 2**32, 2**32))), "tensor 'w'"),
    "dims: product wraps to the data": Hostile(saved(add(dims(2**62, 4, 4))), "tensor 'w'"),
    "dims: negative": Hostile(saved(add(dims(-1, 4))), "w"),
    "dims: two negative": Hostile(saved(add(dims(-2, -2))), "w"),
    "dims: more than the data": Hostile(saved(add(dims(64, 64))), "too small"),
    "dims: 10^12 without data": Hostile(saved(add(dims(HUGE))), "w)"),
    "dims: more than the data, in a Constant": Hostile(saved(constant(dims(64, 64))), "too small"),
    "dims: of 10^12, in an input": Hostile(edited(lambda m: m.graph.input[0].CopyFrom(typed("x", [HUGE, 64]))), "x"),
    "dims: overflow, in an input": Hostile(edited(lambda m: m.graph.input[0].CopyFrom(typed("x", [2**62, 64]))), "x"),
    "dims: 10^5 axes": Hostile(saved(add(dims(*[1] * 10**5, raw=bytes(4)))), "w"),
    "dtype: unknown": Hostile(edited(lambda m: setattr(m.graph.initializer[0], "data_type", 9999)), "w"),
    # Results that no machine holds.
    "ConstantOfShape of 10^12": Hostile(saved(sized("ConstantOfShape", [HUGE])), "the_ConstantOfShape"),
    "ConstantOfShape: product overflows": Hostile(saved(sized("ConstantOfShape", [2**40, 2**40])), "the_Const"),
    "ConstantOfShape: negative": Hostile(saved(sized("ConstantOfShape", [-5])), "the_ConstantOfShape"),
    "Expand to 10^12": Hostile(saved(sized("Expand", [HUGE, 64, 64], ("x", "shape"))), "the_Expand"),
    "Tile to 10^12": Hostile(saved(sized("Tile", [10**6, 10**6], ("x", "shape"))), "the_Tile"),
    "Pad to 10^12": Hostile(saved(sized("Pad", [0, 0, HUGE, 0], ("x", "shape"))), "the_Pad"),
    "Resize to 10^12": Hostile(saved(resize(10**6, 10**6)), "the_Resize"),
    "Resize one axis to 10^12": Hostile(saved(resize(HUGE, 64)), "the_Resize"),
    "Conv: padding of -100": Hostile(saved(cropped([-100, 0])), "the_Conv"),
    "Conv: padding of -2^63": Hostile(saved(cropped([-_BIG, 0])), "the_Conv"),
    "LRN of -2^63 channels": Hostile(saved(lrn(-_BIG)), "the_LRN"),
    "Range to 10^12": Hostile(saved(scalars("Range", 0, HUGE, 1)), "the_Range"),
    "MelWeightMatrix of 10^12 bands": Hostile(saved(scalars("MelWeightMatrix", HUGE, 64, 8000, 0, 4000)), "the_MelW"),
    "OneHot of 10^12": Hostile(saved(one_hot()), "the_OneHot"),
    "EyeLike of 10^12": Hostile(
        saved(
            model([helper.make_node("EyeLike", ["x"], ["y"], name="the_EyeLike")], inputs=[typed("x", [10**6, 10**6])])
        ),
        "'x'",
    ),
    "Loop with a scan output of 10^12 rows": Hostile(saved(scan_output()), "the_loop"),
    # Names and graphs.
    "graph: cycle": Hostile(
        saved(
            model(
                [helper.make_node("Add", ["x", "b"], ["a"]), helper.make_node("Relu", ["a"], ["b"])],
                outputs=[typed("a", None)],
            )
        ),
        "b",
    ),
    "graph: a node of its own output": Hostile(saved(model([helper.make_node("Relu", ["y"], ["y"], name="r")])), "y"),
    "graph: name made twice": Hostile(
        saved(model([helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Neg", ["x"], ["y"])])), "y"
    ),
    "graph: input twice": Hostile(edited(lambda m: m.graph.input.add().CopyFrom(m.graph.input[0])), "x"),
    "graph: empty name of an input": Hostile(edited(lambda m: setattr(m.graph.input[0], "name", "")), "'x'"),
    "graph: empty name of an output": Hostile(edited(lambda m: setattr(m.graph.output[0], "name", "")), "name"),
    "graph: missing input": Hostile(edited(lambda m: node(m).input.__setitem__(0, "nobody")), "nobody"),
    "graph: too few inputs": Hostile(edited(lambda m: node(m).input.pop()), "the_add"),
    "graph: no outputs": Hostile(edited(lambda m: m.graph.ClearField("output")), "outputs"),
    "graph: op without a name": Hostile(edited(lambda m: setattr(node(m), "op_type", "")), ""),
    "graph: op name of 1 MB": Hostile(edited(lambda m: setattr(node(m), "op_type", LONG)), "the_add"),
    "graph: domain of 1 MB": Hostile(edited(lambda m: setattr(node(m), "domain", LONG)), "the_add"),
    "graph: node name with newlines": Hostile(
        edited(lambda m: (setattr(node(m), "name", "a\nb\x1b[2J"), setattr(node(m), "op_type", "No"))), "a"
    ),
    "graph: node name of 1 MB": Hostile(
        edited(lambda m: (setattr(node(m), "name", LONG), setattr(node(m), "op_type", "No"))), "No"
    ),
    "graph: node name of 1 MB of words": Hostile(
        edited(lambda m: (setattr(node(m), "name", "n " * 500_000), setattr(node(m), "op_type", "No"))), "No"
    ),
    "graph: input name of 1 MB": Hostile(edited(lambda m: node(m).input.__setitem__(0, LONG)), "nnnn"),
    "graph: name that is no UTF-8": Hostile(saved(VALID.replace(b"the_add", b"the_\xff\xfe\xfd")), "UTF-8"),
    # Nesting and functions.
    "nesting: 100,000 graphs": Hostile(saved_later(deep_graphs, 100_000), "ONNX model"),
    "nesting: 40 graphs": Hostile(saved(deep_graphs(40)), "ONNX model"),
    "nesting: 5,000 types": Hostile(saved(deep_type(5_000)), "ONNX model"),
    "nesting: 30 If": Hostile(saved(nested_if(30)), "nested 9 deep", untrusted=True),
    "functions: recursive": Hostile(saved(recursive("F")), "calls itself"),
    "functions: mutually recursive": Hostile(saved(recursive("F", "G", "H")), "calls itself"),
    "functions: 2^40 calls": Hostile(saved(laughs(40)), "F"),
    "functions: 10^12 calls": Hostile(saved(laughs(6, 100)), "F"),
    "functions: 20,000 one in another": Hostile(saved_later(laughs, 20_000, 1), "F"),
    # The file.
    "file: empty": Hostile(saved(b""), "is empty"),
    "file: a folder": Hostile(lambda path: path.mkdir(), "is a folder"),
    "file: a FIFO": Hostile(lambda path: os.mkfifo(path), "not a regular file"),
    "file: missing": Hostile(lambda path: None, "no such file"),
    "file: truncated": Hostile(saved(VALID[:-100]), "truncated"),
    "file: text": Hostile(saved(b"<html>" * 1000), "truncated"),
    "file: zeros": Hostile(saved(bytes(5000)), "truncated"),
    "file: varint without end": Hostile(saved(b"\xff" * 5000), "truncated"),
    "file: length of 2^63": Hostile(saved(varint(7 << 3 | 2) + varint(_BIG) + bytes(2000)), "truncated"),
    "file: wrong wire type": Hostile(saved(varint(7 << 3 | 5) + bytes(4)), ""),
    "file: group": Hostile(saved(varint(7 << 3 | 3) * 3000), "truncated"),
    "file: opset of 10^9": Hostile(edited(lambda m: setattr(m.opset_import[0], "version", 10**9)), "opset 1000000000"),
    "file: opset of -1": Hostile(edited(lambda m: setattr(m.opset_import[0], "version", -1)), "opset"),
    "file: opset of 2^63 - 1": Hostile(edited(lambda m: setattr(m.opset_import[0], "version", _BIG - 1)), "opset"),
    "file: IR version of 10^9": Hostile(edited(lambda m: setattr(m, "ir_version", 10**9)), "IR version"),
    "file: IR version of -1": Hostile(edited(lambda m: setattr(m, "ir_version", -1)), ""),
    "file: no opset": Hostile(edited(lambda m: m.ClearField("opset_import")), "opset"),
    "attribute: of a wrong type": Hostile(
        saved(model([helper.make_node("Softmax", ["x"], ["y"], name="the_softmax", axis="one")])), "axis"
    ),
    "attribute: of no type": Hostile(
        saved(
            model([helper.make_node("Softmax", ["x"], ["y"], name="the_softmax", axis=1)])
            .SerializeToString()
            .replace(b"axis\x18\x01\xa0\x01\x02", b"axis\x18\x01\xa0\x01\x00")
        ),
        "axis",
    ),
    "attribute: twice": Hostile(
        edited(
            lambda m: node(m).attribute.add().CopyFrom(node(m).attribute[0]),
            model([helper.make_node("Softmax", ["x"], ["y"], name="the_softmax", axis=1)]),
        ),
        "axis",
    ),
    "attribute: a graph that is none": Hostile(
        saved(
            model(
                [helper.make_node("If", ["c"], ["y"], name="the_if", then_branch=1, else_branch=2)],
                inputs=[typed("c", [], TensorProto.BOOL)],
            )
        ),
        "branch",
    ),
    "size: 2*10^5 nodes": Hostile(many_nodes(2 * 10**5), "nodes", untrusted=True),
}
