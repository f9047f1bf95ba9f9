"""The graph of a ``model.pt2``, JSON: held to torch's schema, and to what may be said in each place of it.

torch takes what JSON has as it comes, looks up targets in all of its modules, evaluates sizes, and makes Python of
names. So each text has a rule of its place, a target is an operator of torch's, and what is not needed is left out.
"""

from __future__ import annotations

import enum
import functools
import json
import re
import types
import typing
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, NamedTuple

import torch
from torch._export.serde import schema
from torch._export.serde.serialize import _SERIALIZE_TO_TORCH_DTYPE, _SYM_OPS
from torch._export.serde.union import _Union

from ...core.limits import ModelLimits
from .nesting import BadNestingError, flat_nesting, read_nesting
from .operators import GROUPED_ARGUMENTS, GROUPED_TARGET, STAND_INS
from .size_expressions import SYMBOL, BadSizeError, FractionError, check_size

MOST_RANK = 64
_IDENTIFIER = re.compile(r"(?:[A-Za-z_]\w{0,1023})?", re.ASCII)
_NAME = re.compile(r"[\w.+:@-]{0,1024}", re.ASCII)
_RANGED = re.compile(r"(?![uz])[\w+*/(), -]{1,1000}", re.ASCII)  # torch has ranges of expressions too
_OPERATOR = re.compile(r"torch\.ops\.(aten|prims|quantized_decomposed)\.(\w+)\.(\w+)", re.ASCII)
_SYMBOLIC = frozenset(f"{op.__module__}.{op.__name__}" for op in _SYM_OPS) | {"_operator.getitem"}
_HIGHER = frozenset(
    f"torch.ops.higher_order.{name}"
    for name in ("wrap_with_set_grad_enabled", "wrap_with_autocast", "cond", "while_loop", "scan", "map_impl")
)
_OF_FILES = frozenset(("from_file", "save", "_print"))  # these have to do with files and streams
_SPECIALS = ("Infinity", "-Infinity", "NaN")
_MOST_TEXT = 1 << 16


REMEDY = "write it by torch.export.save"


class BadProgramError(ValueError):
    """An error in a program's text, with a remedy."""

    def __init__(self, wrong: str, remedy: str = REMEDY) -> None:
        super().__init__(wrong)
        self.remedy = remedy


class ProgramText(NamedTuple):
    """``text`` for torch, its ``types`` that the caller must have registered, and ``flat``, which has none of them."""

    text: bytes
    flat: bytes
    types: frozenset[str]


def check_program(data: bytes, limits: ModelLimits) -> ProgramText:
    """A program's text, written anew of what was checked. BadProgramError for what torch must not see."""
    saved = load_json(data)
    try:
        call = [e for e in saved["graph_module"]["module_call_graph"] if e["fqn"] == ""]
        saved["graph_module"] |= {"module_call_graph": call, "metadata": {}, "treespec_namedtuple_fields": {}}
        saved["guards_code"] = []
    except (TypeError, KeyError, AttributeError):
        raise BadProgramError("has no graph, or no call of a module") from None
    program = Checker(limits).value(schema.ExportedProgram, saved, "the program")
    graph = program["graph_module"]
    signature = next((entry["signature"] for entry in graph["module_call_graph"]), None)
    if signature is None or len(graph["module_call_graph"]) != 1:
        raise BadProgramError("has not one way to call it")
    specs, found = graph["signature"], frozenset[str]()
    given = sum(not {"user_input", "constant_input"}.isdisjoint(spec) for spec in specs["input_specs"])
    made = sum("user_output" in spec for spec in specs["output_specs"])
    flat: dict[str, str | None] = {"forward_arg_names": None}
    for side, leaves in (("in_spec", given), ("out_spec", made)):
        try:
            nesting = read_nesting(signature[side], side == "in_spec")
        except BadNestingError as error:
            raise BadProgramError(f"has an {side} that {error}") from None
        if nesting.leaves != leaves:
            raise BadProgramError(f"has an {side} of {nesting.leaves} values, and the graph has {leaves}")
        signature[side], flat[side] = nesting.text, flat_nesting(leaves, side == "in_spec")
        found |= nesting.types
    text = json.dumps(program).encode()
    signature.update(flat)
    return ProgramText(text, json.dumps(program).encode(), found)


def load_json(data: bytes) -> Any:
    """Parse JSON. Raises BadProgramError if it is not valid."""
    try:
        return json.loads(data.decode())
    except (ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())[:100]
        raise BadProgramError(f"cannot be read as an exported program, as there is no JSON: {reason}") from None


class Checker:
    """Holds JSON to torch's schema."""

    def __init__(self, limits: ModelLimits) -> None:
        self._limits = limits
        self._nodes, self._depth = 0, 0
        self._operators = frozenset(torch._C._dispatch_get_all_op_names())
        self._known = set(_SYMBOLIC | _HIGHER | {GROUPED_TARGET})

    def value(self, kind: Any, value: Any, where: str) -> Any:
        """A value of a place, ``where``, that the schema gives a ``kind``: with all that is in it, and nothing more."""
        origin = typing.get_origin(kind)
        if origin in (typing.Union, types.UnionType):
            [inner] = [k for k in typing.get_args(kind) if k is not type(None)]
            return None if value is None else self.value(inner, value, where)
        if origin is list:
            inner = typing.get_args(kind)[0]
            return [self.value(inner, each, where) for each in _of(list, value, where)]
        if origin is dict:
            inner = typing.get_args(kind)[1]
            pairs = _of(dict, value, where).items()
            return {self.text(key, f"{where}.key"): self.value(inner, each, where) for key, each in pairs}
        if isinstance(kind, type) and issubclass(kind, _Union):
            return self._union(kind, value, where)
        if is_dataclass(kind):
            return self._object(kind, value, where)
        return self._leaf(kind, value, where)

    def _union(self, kind: Any, value: Any, where: str) -> dict[str, Any]:
        hints = hints_of(kind)
        if len(_of(dict, value, where)) != 1 or (name := next(iter(value))) not in hints:
            raise BadProgramError(f"has {_show_value(value)} as {where}")
        return {name: self.value(hints[name], value[name], f"{kind.__name__}.{name}")}

    def _object(self, kind: Any, value: Any, where: str) -> dict[str, Any]:
        _of(dict, value, where)
        if kind is schema.Node:
            value = _with_own_operator(value)
        if kind in (schema.CustomObjArgument, schema.InputToCustomObjSpec):
            raise BadProgramError("has an object of a class of its own, which is not loaded")
        nested = kind is schema.Graph
        self._depth += nested
        self._nodes += kind is schema.Node
        if self._depth > self._limits.nesting or self._nodes > self._limits.nodes:
            most = f"{self._limits.nodes} nodes, and {self._limits.nesting} graphs in one another"
            raise BadProgramError(f"is too large: at most {most} are compiled")
        made = {}
        for field in fields(kind):
            if field.name in value:
                made[field.name] = self.value(
                    hints_of(kind)[field.name], value[field.name], f"{kind.__name__}.{field.name}"
                )
            elif field.default is MISSING and field.default_factory is MISSING:
                raise BadProgramError(f"has {where} without '{field.name}'")
        if kind is schema.Node:  # of all that tells where a node is from, errors say its module
            made["metadata"] = {k: v for k, v in made["metadata"].items() if k == "nn_module_stack"}
        elif kind is schema.TensorMeta:
            self._check_tensor(made)
        elif kind is schema.Device and made["type"] == "cpu":
            made["index"] = None  # there is one; to torch, one with a number is another device
        self._depth -= nested
        return made

    def _leaf(self, kind: Any, value: Any, where: str) -> Any:
        if kind is str:
            return self.text(value, where)
        if kind is float:
            if isinstance(value, str):
                return value if value in _SPECIALS else _of(float, value, where)
            if type(value) not in (int, float) or abs(value) > 1e308:
                raise BadProgramError(f"has {_show_value(value)} as {where}")
            return float(value)
        if kind is bool:
            return _of(bool, value, where)
        if type(value) is not int or not -(1 << 63) <= value < 1 << 64:
            raise BadProgramError(f"has {_show_value(value)} as {where}")
        if isinstance(kind, type) and issubclass(kind, enum.IntEnum) and value not in kind._value2member_map_:
            raise BadProgramError(f"has {value} as {where}")
        return value

    def text(self, value: Any, where: str) -> str:
        """A text that its place may have."""
        _of(str, value, where)
        rule = _RULES.get(where)
        if where == "Node.target":
            self._check_target(value)
        elif where == "SymExpr.expr_str":
            try:
                check_size(value)
            except FractionError as error:
                remedy = "compile it for known sizes, or let the module compute sizes from whole numbers"
                raise BadProgramError(f"has a size that {error}", remedy) from None
            except BadSizeError as error:
                raise BadProgramError(f"has a size that is none: it {error}") from None
        elif rule is None:
            if not _IDENTIFIER.fullmatch(value):
                raise BadProgramError(f"has a name that is none, {_show_value(value)}")
        elif not rule(value):
            raise BadProgramError(f"has {_show_value(value)} as {where}")
        return value

    def _check_target(self, target: str) -> None:
        if target in self._known:
            return
        match = _OPERATOR.fullmatch(target)
        if match is not None:
            space, name, overload = match.groups()
            full = f"{space}::{name}" + (f".{overload}" if overload != "default" else "")
            if full in self._operators and name not in _OF_FILES:
                self._known.add(target)
                return
        remedy = "write it with torch's operators, and export it again"
        raise BadProgramError(f"has an op that is not torch's own, {_show_value(target)}", remedy)

    def _check_tensor(self, tensor: dict[str, Any]) -> None:
        extents = [size["as_int"] for size in tensor["sizes"] if "as_int" in size]
        rank = len(tensor["sizes"])
        if rank > MOST_RANK or rank != len(tensor["strides"]) or min(extents, default=0) < 0:
            raise BadProgramError(f"has a tensor of shape {str(extents)[:100]}")
        nbytes = bytes_of(tensor["dtype"])
        for extent in extents:
            nbytes *= max(extent, 1)
        if nbytes > self._limits.tensor_bytes and 0 not in extents:
            most = self._limits.tensor_bytes
            raise BadProgramError(f"has a tensor of shape {extents}, larger than the {most} bytes that one may have")


def _with_own_operator(node: dict[str, Any]) -> dict[str, Any]:
    """A node with our operator, and its names of arguments, where it has what another library has in its place."""
    target, inputs = node.get("target"), node.get("inputs")
    for other, names in STAND_INS.items():
        if target != f"torch.ops.{other.replace('::', '.')}.default" or not isinstance(inputs, list):
            continue
        ours = dict(zip(names, GROUPED_ARGUMENTS, strict=True))
        given = [_of(dict, each, "Node.inputs") for each in inputs]
        node = node | {
            "target": GROUPED_TARGET,
            "inputs": [each | {"name": ours.get(str(each.get("name")), each.get("name"))} for each in given],
        }
    return node


def bytes_of(dtype: int) -> int:
    """The size of an element of one of the schema's types; BadProgramError for one that torch does not have."""
    if dtype not in _SERIALIZE_TO_TORCH_DTYPE:
        raise BadProgramError(f"has the unknown type {dtype} of elements")
    return _SERIALIZE_TO_TORCH_DTYPE[dtype].itemsize


@functools.cache
def hints_of(kind: Any) -> dict[str, Any]:
    """The types of a class's fields."""
    return typing.get_type_hints(kind, globalns=dict(vars(schema)))


def _of(kind: type, value: Any, where: str) -> Any:
    if type(value) is not kind:
        raise BadProgramError(f"has {_show_value(value)} as {where}")
    return value


def _show_value(value: Any) -> str:
    text = repr(value) if isinstance(value, str | int | float | None) else f"a {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:80]}..."


def _is_short(text: str) -> bool:
    return len(text) <= _MOST_TEXT


def _is_printable(text: str) -> bool:
    return _is_short(text) and text.isprintable()


def _is_symbol(text: str) -> bool:
    return bool(SYMBOL.fullmatch(text) or _RANGED.fullmatch(text))


def _is_name(text: str) -> bool:
    return bool(_NAME.fullmatch(text))


# Where a text may be more than an identifier.
_RULES: dict[str, Callable[[str], Any]] = {
    "Argument.as_string": _is_short,
    "Argument.as_strings": _is_short,
    "ConstantValue.as_string": _is_short,
    "ModuleCallSignature.in_spec": lambda text: True,  # ``nesting`` reads them
    "ModuleCallSignature.out_spec": lambda text: True,
    "Node.metadata": lambda text: True,  # what is kept of it is "Node.metadata.key"'s
    "Node.metadata.key": _is_printable,
    "Argument.as_operator": lambda text: False,  # which would be called
    "Device.type": re.compile(r"[a-z]{1,20}").fullmatch,
    "ExportedProgram.range_constraints.key": _is_symbol,
    "ExportedProgram.opset_version.key": _is_name,
    "ExportedProgram.torch_version": _is_printable,
    "ExportedProgram.verifiers": _is_name,
    "ModuleCallEntry.fqn": _is_name,
    "PayloadConfig.config.key": _is_name,
    "PayloadMeta.path_name": re.compile(r"\w{1,100}", re.ASCII).fullmatch,
} | {
    f"{kind}.{name}": _is_name
    for kind, name in (
        ("InputToParameterSpec", "parameter_name"),
        ("InputToBufferSpec", "buffer_name"),
        ("InputToTensorConstantSpec", "tensor_constant_name"),
        ("BufferMutationSpec", "buffer_name"),
        ("ParameterMutationSpec", "parameter_name"),
        ("GradientToParameterSpec", "parameter_name"),
        ("GradientToUserInputSpec", "user_input_name"),
        ("UserInputMutationSpec", "user_input_name"),
    )
}
