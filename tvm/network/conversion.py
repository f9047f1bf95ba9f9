"""Makes ONNX models of relay's functions, and infers the types of their expressions on the way."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.errors import ModelError
from . import operators  # noqa: F401  (fills the table)
from .expr import Call, Constant, Expr, Function, GlobalVar, If, Let, Op, Tuple, TupleGetItem, Var
from .functor import list_free_variables
from .registry import arguments_of, find_operator
from .types import TensorType, TupleType, Type
from .writer import Value, Values, Writer

if TYPE_CHECKING:
    from onnx import ModelProto

Result = Any  # a Value, or a list of such for a tuple
Steps = Generator[Expr, Any, Any]
_DEEPEST = 64  # calls of functions in functions


@dataclass(frozen=True)
class Written:
    """A function as an ONNX model, and the shapes of its inputs for the import."""

    model: ModelProto
    input_shapes: dict[str, list[int | str]]


def write_model(
    function: Function, functions: Mapping[str, Function], params: Mapping[str, np.ndarray], name: str = "main"
) -> Written:
    """The model of a function, in which variables that ``params`` name are weights. Raises ModelError.

    All expressions get their types on the way.
    """
    converter = _Converter(functions)
    writer = converter.writer
    inputs: Values = []
    for each in function.params:
        if each.name_hint in params:
            value = writer.weight(each.name_hint, params[each.name_hint])
        else:
            value = writer.variable(each.name_hint, _tensor_type(each))
            inputs.append(value)
        converter.known[id(each)] = value
        converter.variables.append((each, value))
    _refuse_free(function)
    made = _flatten(converter.convert(function.body))
    converter.type_variables()
    writer.op = ""
    taken = {each.name for each in writer.values}
    outputs: Values = []
    for value in made:
        if value.name in taken:  # an input, or an output twice
            value = writer.node("Identity", value)
        taken.add(value.name)
        outputs.append(value)
    model = writer.finish(name, inputs, outputs)
    return Written(model, {each.name: [_open(extent) for extent in each.shape] for each in inputs})


def infer_types(function: Function, functions: Mapping[str, Function]) -> None:
    """Give all expressions of a function their types. Raises ModelError as ``write_model``."""
    write_model(function, functions, {})


def _refuse_free(function: Function) -> None:
    free = list_free_variables(function)
    if free:
        names = ", ".join(f"'{each.name_hint}'" for each in free[:4])
        raise ModelError(
            f"the function does not have {names} among its parameters: relay.analysis.free_vars lists them"
        )


def _open(extent: Any) -> int | str:
    """An extent as the import takes it: what is no number and no name of its own is open."""
    return extent if isinstance(extent, int) or (isinstance(extent, str) and extent.isidentifier()) else "?"


def _tensor_type(var: Var) -> TensorType | None:
    if var.type_annotation is None or isinstance(var.type_annotation, TensorType):
        return var.type_annotation
    raise ModelError(f"'{var.name_hint}' is {var.type_annotation}: parameters of a network are tensors")


class _Converter:
    def __init__(self, functions: Mapping[str, Function]) -> None:
        self.functions = functions
        self.writer = Writer()
        self.known: dict[int, Result] = {}
        self.variables: list[tuple[Var, Value]] = []
        self._keep: list[Expr] = []  # whose numbers are keys of ``known``
        self._depth = 0

    def type_variables(self) -> None:
        """Give variables the types that operators have found."""
        for var, value in self.variables:
            var.known_type = value.type

    def convert(self, expr: Expr) -> Result:
        """The value of an expression; a stack of steps in the place of recursion, as networks are deep."""
        result: Result = self.known.get(id(expr))
        stack: list[tuple[Expr, Steps]] = [] if result is not None else [(expr, self._steps(expr))]
        while stack:
            each, steps = stack[-1]
            try:
                wanted = steps.send(result)
            except StopIteration as done:
                stack.pop()
                result = self.known[id(each)] = done.value
                self._keep.append(each)
                each.known_type = _type_of(result)
                continue
            result = self.known.get(id(wanted))
            if result is None:
                stack.append((wanted, self._steps(wanted)))
        return result

    def _steps(self, expr: Expr) -> Steps:
        if isinstance(expr, Call):
            return (yield from self._call(expr))
        if isinstance(expr, Tuple):
            made = []
            for each in expr.fields:
                made.append((yield each))
            return made
        if isinstance(expr, TupleGetItem):
            fields = yield expr.tuple_value
            if not isinstance(fields, list) or not -len(fields) <= expr.index < len(fields):
                raise ModelError(
                    f"there is no value {expr.index} of what is no such tuple: {expr.tuple_value.known_type}"
                )
            return fields[expr.index]
        if isinstance(expr, Constant):
            return self.writer.weight("constant", expr.data.numpy())
        if isinstance(expr, Let):
            self.known[id(expr.var)] = yield expr.value
            return (yield expr.body)
        if isinstance(expr, If):
            return self._branches(expr, (yield expr.cond))
        if isinstance(expr, Var):
            raise ModelError(f"variable '{expr.name_hint}' is bound by nothing: relay.Function has its parameters")
        raise ModelError(f"a {type(expr).__name__} is no value of a network: functions can be called")

    def _call(self, call: Call) -> Steps:
        values = []
        for each in call.args:
            values.append((yield each))
        if not isinstance(call.op, Op):
            return self._inline(self._callee(call.op), values)
        entry = find_operator(call.op.name)
        arguments = arguments_of(entry, call, values)
        self.writer.op = entry.name
        for name in entry.operands:
            self._check_operand(name, name in entry.several, arguments.get(name))
        try:
            return entry.convert(self.writer, **arguments)
        except ModelError as error:
            if str(error).startswith("relay."):
                raise
            raise ModelError(f"relay.{entry.name}: {error}") from error

    def _check_operand(self, name: str, several: bool, value: Result) -> None:
        if isinstance(value, list) != several and value is not None:
            self.writer.refuse(f"'{name}' is {'a tuple of tensors' if several else 'one tensor'}")

    def _callee(self, callee: Expr) -> Function:
        if isinstance(callee, GlobalVar):
            if callee.name_hint not in self.functions:
                raise ModelError(f"the module has no function '{callee.name_hint}'")
            return self.functions[callee.name_hint]
        if not isinstance(callee, Function):
            raise ModelError("what is called is an operator or a relay.Function")
        return callee

    def _inline(self, function: Function, values: Sequence[Result]) -> Result:
        """What a function gives for arguments: its body, converted for each call."""
        if len(function.params) != len(values):
            raise ModelError(f"a function of {len(function.params)} parameters is called with {len(values)} values")
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ModelError("a function calls itself: loops are those of ONNX models, by relay.frontend.from_onnx")
        outer = dict(self.known)
        for each, value in zip(function.params, values, strict=True):
            self.known[id(each)] = value
            each.known_type = _type_of(value)
        made = self.convert(function.body)
        self.known = outer
        self._depth -= 1
        return made

    def _branches(self, expr: If, condition: Value) -> Result:
        from onnx import helper

        graphs, kinds = [], []
        for name, branch in (("then", expr.true_branch), ("else", expr.false_branch)):
            outer = dict(self.known)
            with self.writer.branch() as nodes:
                self.writer.op = ""
                made = self.convert(branch)
                flat = [self.writer.node("Identity", each) for each in _flatten(made)]
            self.known = outer
            infos = [self.writer.as_info(each) for each in flat]
            graphs.append(helper.make_graph(nodes, f"{name}_branch", [], infos))
            kinds.append(made)
        if len(_flatten(kinds[0])) != len(_flatten(kinds[1])):
            raise ModelError("the branches of relay.If give different numbers of values")
        self.writer.op = "if"
        made = self.writer.nodes("If", [condition], len(graphs[0].output), then_branch=graphs[0], else_branch=graphs[1])
        for value, *own in zip(made, _flatten(kinds[0]), _flatten(kinds[1]), strict=True):
            value.type = own[0].type if own[0].type == own[1].type else value.type
        return made if isinstance(kinds[0], list) else made[0]


def _flatten(result: Result) -> Values:
    if isinstance(result, list):
        return [each for part in result for each in _flatten(part)]
    return [result]


def _type_of(result: Result) -> Type | None:
    if isinstance(result, list):
        fields = [_type_of(each) for each in result]
        return None if any(each is None for each in fields) else TupleType(tuple(each for each in fields if each))
    return result.type
