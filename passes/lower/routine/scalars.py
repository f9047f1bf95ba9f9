"""Steps that compute with numbers. Whole ones stay at the largest one where they would be larger."""

from __future__ import annotations

from dataclasses import replace

from ....core.errors import CompileError
from ....core.program import Step, describe_origin
from .code import INTEGER_LINES, CodeWriter
from .values import Scalar

_COMPARISONS = ("eq", "ne", *2 * ("slt", "sle", "sgt", "sge"))
_UNSIGNED = 6  # comparisons from this one on
_ORDERS = ("eq", "gt", "ge", "lt", "le", "ne")
_FLOAT_COMPARISONS = ("_false", *(f"o{o}" for o in _ORDERS), "ord", *(f"u{o}" for o in _ORDERS), "uno", "_true")
_FLOAT_LINES = {
    "arith.addf": "llvm.fadd {0}, {1} : f64",
    "arith.subf": "llvm.fsub {0}, {1} : f64",
    "arith.mulf": "llvm.fmul {0}, {1} : f64",
}
_SAME = ("arith.index_cast", "arith.extsi", "arith.extf")
_LOW_BITS = ("arith.index_castui", "arith.extui")


class ScalarWriter(CodeWriter):
    """Writes steps on numbers."""

    def _scalar(self, step: Step) -> Scalar:
        if step.op == "arith.constant":
            value = step.facts["value"]
            real = isinstance(value, float)
            return Scalar(self._real(value) if real else self._constant(int(value)), real)
        operands = [value for r in step.operands if isinstance(value := self._values[r], Scalar)]
        assert len(operands) == len(step.operands)
        names = [value.name for value in operands]
        if step.op in INTEGER_LINES:
            return Scalar(self._combine(step.op, *names))
        if step.op in _FLOAT_LINES:
            return Scalar(self._new(_FLOAT_LINES[step.op].format(*names)), True)
        if step.op in _SAME:
            return replace(operands[0])
        if step.op in _LOW_BITS:
            return Scalar(self._low_bits(names[0], step.facts["bits"]))
        match step.op:
            case "arith.sitofp":
                return Scalar(self._new(f"llvm.sitofp {names[0]} : i64 to f64"), True)
            case "arith.select":
                bit, real = self._holds(names[0]), operands[1].real
                kind = "f64" if real else "i64"
                return Scalar(self._new(f"llvm.select {bit}, {names[1]}, {names[2]} : i1, {kind}"), real)
            case "arith.cmpi":
                predicate = step.facts["predicate"]
                word = _COMPARISONS[predicate]
                if predicate >= _UNSIGNED:
                    names, word = [self._low_bits(name, step.facts["bits"]) for name in names], f"u{word[1:]}"
                return self._as_number(self._compare(word, *names))
            case "arith.cmpf":
                word = _FLOAT_COMPARISONS[step.facts["predicate"]]
                return self._as_number(self._new(f'llvm.fcmp "{word}" {names[0]}, {names[1]} : f64'))
        raise CompileError(f"{describe_origin(step)}needs '{step.op}', which no program has")

    def _as_number(self, bit: str) -> Scalar:
        return Scalar(self._new(f"llvm.zext {bit} : i1 to i64"))

    def _low_bits(self, name: str, bits: int) -> str:
        return self._new(f"llvm.and {name}, {self._constant((1 << bits) - 1)} : i64") if bits < 64 else name
