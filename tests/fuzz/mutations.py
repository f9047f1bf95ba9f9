"""Mutants of model files: their bytes are damaged, or their structure is, so that the protobuf stays whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import onnx
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto

NUMBERS = (0, 1, -1, 2, 3, 7, 64, 127, 2**15, 2**31 - 1, 2**31, -(2**31), 2**40, 10**12, 2**62, 2**63 - 1, -(2**63))
TEXTS = ("", "x", "\n", "a" * 5000, "../x", "nearest", "Relu", "ai.onnx", "\x1b[0m", "%s%n", "é")
_EDITS = (1, 1, 1, 2, 4)  # of one mutant


def mutate(data: bytes, other: bytes, random: Random) -> bytes:
    """A mutant of a model's bytes; ``other`` are those of another model, parts of which it may get."""
    ways = _BYTES if random.random() < 0.4 else _STRUCTURE
    model = ModelProto.FromString(data)
    for _ in range(random.choice(_EDITS)):
        way = random.choice(ways)
        if way in _BYTES:
            data = way(data, other, random)
        else:
            way(model, random)
    return data if ways is _BYTES else model.SerializeToString()


# Of bytes.


def _flipped(data: bytes, other: bytes, random: Random) -> bytes:
    made = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 4, 16))):
        at = random.randrange(len(made))
        made[at] ^= 1 << random.randrange(8)
    return bytes(made)


def _truncated(data: bytes, other: bytes, random: Random) -> bytes:
    return data[: random.randrange(1, len(data) + 1)]


def _without(data: bytes, other: bytes, random: Random) -> bytes:
    begin = random.randrange(len(data))
    left = data[:begin] + data[begin + random.randint(1, 40) :]
    return left or data


def _repeated(data: bytes, other: bytes, random: Random) -> bytes:
    begin = random.randrange(len(data))
    end = begin + random.randint(1, 400)
    return data[:end] + data[begin:end] * random.choice((1, 1, 3, 100)) + data[end:]


def _spliced(data: bytes, other: bytes, random: Random) -> bytes:
    begin, at = random.randrange(len(other)), random.randrange(len(data))
    end = begin + random.randint(1, 400)
    return data[:at] + other[begin:end] + data[at + random.choice((0, end - begin)) :]


def _long_number(data: bytes, other: bytes, random: Random) -> bytes:
    """A number, or a length, becomes a large one, or one that does not end."""
    at = random.randrange(len(data))
    number = random.choice((b"\xff" * 9 + b"\x01", b"\xff" * 11, b"\xff\xff\xff\xff\x07", b"\x80\x80\x00", b"\x00"))
    return data[:at] + number + data[at + random.choice((0, 1)) :]


# Of structure.


def _nodes(model: ModelProto) -> list[NodeProto]:
    """The nodes of the graph and of graphs nested in it."""
    found = list(model.graph.node)
    for node in found:  # grows while it is walked
        found += [n for a in node.attribute if a.HasField("g") for n in a.g.node]
    return found


def _one(values: Sequence[Any], random: Random) -> Any:
    """One of some values; None where there are none."""
    return random.choice(values) if len(values) else None


def _names(model: ModelProto) -> list[str]:
    made = [name for node in _nodes(model) for name in (*node.input, *node.output)]
    return [*made, *(i.name for i in model.graph.input), *(t.name for t in model.graph.initializer), ""]


def _rewired(model: ModelProto, random: Random) -> None:
    """A node takes, or makes, what another one does: also its own output, which is a cycle."""
    node = _one(_nodes(model), random)
    side = node and random.choice((node.input, node.input, node.output))
    if side:
        side[random.randrange(len(side))] = random.choice(_names(model))


def _swapped_inputs(model: ModelProto, random: Random) -> None:
    node = _one([n for n in _nodes(model) if len(n.input) > 1], random)
    if node is not None:
        inputs = list(node.input)
        random.shuffle(inputs)
        node.input[:] = inputs


def _other_count(model: ModelProto, random: Random) -> None:
    node = _one(_nodes(model), random)
    side = node and random.choice((node.input, node.output))
    if side is not None:
        side[:] = list(side)[:-1] if random.random() < 0.5 else [*side, random.choice(_names(model))]


def _without_node(model: ModelProto, random: Random) -> None:
    if model.graph.node:
        del model.graph.node[random.randrange(len(model.graph.node))]


def _second_node(model: ModelProto, random: Random) -> None:
    if model.graph.node:
        copy = NodeProto.FromString(random.choice(model.graph.node).SerializeToString())
        if random.random() < 0.5:
            copy.output[:] = [f"{name}_again" for name in copy.output]
        model.graph.node.insert(random.randrange(len(model.graph.node) + 1), copy)


def _other_op(model: ModelProto, random: Random) -> None:
    nodes = _nodes(model)
    if nodes:
        random.choice(nodes).op_type = random.choice([*(n.op_type for n in nodes), "If", "Loop", "Reshape", "Concat"])


def _other_attribute(model: ModelProto, random: Random) -> None:
    attribute = _one([a for n in _nodes(model) for a in n.attribute], random)
    if attribute is None:
        return
    match random.choice(("value", "value", "value", "type", "name", "length")):
        case "type":
            attribute.type = random.choice(AttributeProto.AttributeType.values())
        case "name":
            attribute.name = random.choice(("axis", "axes", "value", *TEXTS))
        case "length":
            attribute.ints[:] = list(attribute.ints) * 2 if random.random() < 0.5 else list(attribute.ints)[:-1]
        case _:
            _set_value(attribute, random)


def _set_value(attribute: AttributeProto, random: Random) -> None:
    number = random.choice(NUMBERS)
    if attribute.ints:
        attribute.ints[random.randrange(len(attribute.ints))] = number
    elif attribute.HasField("i"):
        attribute.i = number
    elif attribute.HasField("f"):
        attribute.f = random.choice((0.0, -1.0, 1e38, float("inf"), float("nan")))
    elif attribute.HasField("s"):
        attribute.s = random.choice(TEXTS).encode()
    elif attribute.HasField("t"):
        _change_tensor(attribute.t, random)


def _other_tensor(model: ModelProto, random: Random) -> None:
    tensor = _one(model.graph.initializer, random)
    if tensor is not None:
        _change_tensor(tensor, random)


def _change_tensor(tensor: TensorProto, random: Random) -> None:
    match random.choice(("dims", "dims", "rank", "dtype", "data", "data", "external", "name")):
        case "dims" if tensor.dims:
            tensor.dims[random.randrange(len(tensor.dims))] = random.choice(NUMBERS)
        case "rank":
            tensor.dims[:] = [*tensor.dims, 1] if random.random() < 0.5 else list(tensor.dims)[:-1]
        case "dtype":
            tensor.data_type = random.choice((*TensorProto.DataType.values(), 99))
        case "data" if tensor.raw_data:
            made = bytearray(tensor.raw_data)
            made[random.randrange(len(made))] = random.randrange(256)
            tensor.raw_data = bytes(made)
        case "data":
            for numbers in (tensor.int64_data, tensor.int32_data):
                if numbers:
                    numbers[random.randrange(len(numbers))] = random.choice(NUMBERS) % 2**31
        case "external":
            tensor.data_location = TensorProto.EXTERNAL
            tensor.external_data.add(key=random.choice(("location", "offset")), value=random.choice(TEXTS))
        case _:
            tensor.name = random.choice(TEXTS)


def _other_type(model: ModelProto, random: Random) -> None:
    value = _one([*model.graph.input, *model.graph.output, *model.graph.value_info], random)
    if value is None or not value.type.HasField("tensor_type"):
        return
    kind = value.type.tensor_type
    if kind.shape.dim and random.random() < 0.7:
        dim = random.choice(kind.shape.dim)
        if random.random() < 0.5:
            dim.dim_param = random.choice(("n", *TEXTS))
        else:
            dim.dim_value = random.choice(NUMBERS)
    elif random.random() < 0.5:
        kind.elem_type = random.choice((*TensorProto.DataType.values(), 99))
    else:
        kind.ClearField("shape")


def _other_name(model: ModelProto, random: Random) -> None:
    values = [*model.graph.input, *model.graph.output, *model.graph.initializer, *model.graph.node]
    if values:
        random.choice(values).name = random.choice([*TEXTS, *_names(model)])


def _other_version(model: ModelProto, random: Random) -> None:
    if model.opset_import and random.random() < 0.7:
        random.choice(model.opset_import).version = random.choice((*range(1, 27), *NUMBERS))
    else:
        model.ir_version = random.choice((*range(1, 14), *NUMBERS))


def _nested(model: ModelProto, random: Random) -> None:
    """The graph goes into an attribute of one of its nodes."""
    node = _one(_nodes(model), random)
    if node is not None:
        name = random.choice(("body", "then_branch", "else_branch"))
        node.attribute.append(
            onnx.helper.make_attribute(name, onnx.GraphProto.FromString(model.graph.SerializeToString()))
        )


_BYTES: tuple[Callable[..., Any], ...] = (_flipped, _flipped, _truncated, _without, _repeated, _spliced, _long_number)
_STRUCTURE: tuple[Callable[..., Any], ...] = (
    *(_rewired, _swapped_inputs, _other_count, _without_node, _second_node, _other_op, _other_attribute),
    *(_other_attribute, _other_tensor, _other_tensor, _other_type, _other_name, _other_version, _nested),
)
