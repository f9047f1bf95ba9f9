"""The lines of a function, and the names in them: constants, messages, values of registers, words in memory."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from ....core.frame import FrameLayout, element_bytes
from ....core.program import Program, RegisterType, Step, describe_origin
from ....dialects import packed
from .values import Object, Scalar, Tensor, Value, is_real, list_kinds

_MOST_SIZE = (1 << 63) - 1
_LETTERS = {"p": "!llvm.ptr", "i": "i64", "w": "i32", "": "()"}
# By op, the line that computes it from whole numbers.
INTEGER_LINES = {
    "arith.addi": "llvm.intr.sadd.sat({0}, {1}) : (i64, i64) -> i64",
    "arith.subi": "llvm.intr.ssub.sat({0}, {1}) : (i64, i64) -> i64",
    "arith.muli": "llvm.call @tw_multiply({0}, {1}) : (i64, i64) -> i64",
    "arith.divsi": "llvm.call @tw_divide({0}, {1}) : (i64, i64) -> i64",
    "arith.remsi": "llvm.call @tw_remainder({0}, {1}) : (i64, i64) -> i64",
    "arith.floordivsi": "llvm.call @tw_floor_divide({0}, {1}) : (i64, i64) -> i64",
    "arith.ceildivsi": "llvm.call @tw_ceiling_divide({0}, {1}) : (i64, i64) -> i64",
    "arith.minsi": "llvm.intr.smin({0}, {1}) : (i64, i64) -> i64",
    "arith.maxsi": "llvm.intr.smax({0}, {1}) : (i64, i64) -> i64",
    "arith.andi": "llvm.and {0}, {1} : i64",
    "arith.ori": "llvm.or {0}, {1} : i64",
    "arith.xori": "llvm.xor {0}, {1} : i64",
}


class CodeWriter:
    """Writes lines of ``main``. The classes above it write steps, each those of one kind."""

    def __init__(self, program: Program) -> None:
        assert program.routine is not None
        self._routine, self._layout = program.routine, FrameLayout.of(program)
        self._values: dict[int, Value] = {}
        self._constants: dict[str, str] = {}  # their text, and their name
        self._texts: dict[str, str] = {}  # messages, and the names of their addresses
        self._lines: list[str] = []
        self._names = self._blocks = 0
        self._words = self._rank = 1

    # Lines

    def _emit(self, line: str) -> None:
        self._lines.append(line)

    def _new(self, expression: str) -> str:
        """The name of a new value."""
        self._names += 1
        self._emit(f"%v{self._names} = {expression}")
        return f"%v{self._names}"

    def _begin_block(self, label: str, arguments: Sequence[tuple[str, str]] = ()) -> None:
        listed = ", ".join(f"{name}: {kind}" for name, kind in arguments)
        self._emit(f"^{label}({listed}):" if listed else f"^{label}:")

    def _label(self) -> str:
        self._blocks += 1
        return f"b{self._blocks}"

    def _call(self, function: str, kinds: str, *arguments: str, result: str = "w") -> str:
        """A call of a function of the frame's; ``kinds`` has a letter for each argument: p a pointer, i 64 bits."""
        types = ", ".join(_LETTERS[kind] for kind in kinds)
        return f"llvm.call @{function}({', '.join(arguments)}) : ({types}) -> {_LETTERS[result]}"

    # Constants

    def _constant(self, number: int | str) -> str:
        """The name of a size, which may be known."""
        if isinstance(number, str):
            return number
        held = max(min(number, _MOST_SIZE), -_MOST_SIZE - 1)
        return self._constants.setdefault(f"{held} : i64) : i64", f"%n{len(self._constants)}")

    def _real(self, number: float) -> str:
        bits = struct.unpack("<Q", struct.pack("<d", number))[0]
        return self._constants.setdefault(f"{bits:#018x} : f64) : f64", f"%n{len(self._constants)}")

    def _text(self, text: str) -> str:
        """The name of a message's address."""
        return self._texts.setdefault(text, f"%text{len(self._texts)}")

    def _say(self, step: Step, text: str) -> str:
        """The name of the address of a message about a step."""
        return self._text(describe_origin(step) + text)

    def _write_constants(self, facts: str) -> tuple[str, str]:
        """Globals, and the lines that begin the function: of the table ``facts``, of numbers and of messages."""
        held = [
            packed.constant_bytes(f"tw_text_{i}", text.encode(errors="replace") + b"\0")
            for i, text in enumerate(self._texts)
        ]
        lines = [f"  %facts = llvm.mlir.addressof @{facts} : !llvm.ptr\n"]
        lines += [f"  {name} = llvm.mlir.constant({text}\n" for text, name in self._constants.items()]
        lines += [
            f"  {name} = llvm.mlir.addressof @tw_text_{i} : !llvm.ptr\n" for i, name in enumerate(self._texts.values())
        ]
        table = f"llvm.mlir.global external constant @{facts}() : !llvm.array<0 x i64>\n"
        return "".join([table, *held]), "".join(lines)

    # Refusals

    def _demand(self, condition: str, refusal: str) -> None:
        """Go on where a condition holds; else end the run with the status that ``refusal`` makes."""
        fine, failed = self._label(), self._label()
        self._emit(f"llvm.cond_br {condition}, ^{fine}, ^{failed}")
        self._begin_block(failed)
        status = self._new(refusal)
        self._emit(f"llvm.br ^exit({status} : i32)")
        self._begin_block(fine)

    def _demand_success(self, function: str, kinds: str, *arguments: str) -> None:
        """Call a function, and go on where it was successful."""
        status, fine = self._new(self._call(function, kinds, *arguments)), self._label()
        condition = self._new(f'llvm.icmp "eq" {status}, %success : i32')
        self._emit(f"llvm.cond_br {condition}, ^{fine}, ^exit({status} : i32)")
        self._begin_block(fine)

    def _refuse(self, step: Step, text: str, *numbers: str) -> str:
        """What ends the run with a message about a step, and two numbers at most."""
        first, second, *_ = (*numbers, self._constant(0), self._constant(0))
        count = self._constant(len(numbers))
        return self._call("tw_refuse", "piii", self._say(step, text), count, first, second)

    def _refuse_shape(
        self, step: Step, before: str, shape: Sequence[str | int], behind: str, number: str | None = None
    ) -> str:
        """What ends the run with a message that has a shape, and a number where ``behind`` has the place for one."""
        self._store_shape(shape)
        texts = self._say(step, before), self._text(behind)
        rank = self._constant(len(shape))
        return self._call("tw_refuse_shape", "ppipi", texts[0], "%shape", rank, texts[1], number or self._constant(0))

    # Words

    def _word_at(self, base: str, index: int) -> str:
        return self._new(f"llvm.getelementptr {base}[{index}] : (!llvm.ptr) -> !llvm.ptr, i64") if index else base

    def _store_words(self, words: Sequence[str], base: str = "%words") -> None:
        for index, word in enumerate(words):
            place = self._word_at(base, index)
            self._emit(f"llvm.store {word}, {place} : i64, !llvm.ptr")

    def _store_shape(self, shape: Sequence[str | int]) -> None:
        """Leave extents where functions look for a shape."""
        self._store_words(list(map(self._constant, shape)), "%shape")
        self._rank = max(self._rank, len(shape))

    def _load(self, place: str, kind: str = "i64") -> str:
        return self._new(f"llvm.load {place} : !llvm.ptr -> {kind}")

    def _load_extents(self, base: str, first: int, shape: Sequence[int | None]) -> tuple[str | int, ...]:
        """Extents from words: of axes that are open, the ``first`` and so on."""
        return tuple([self._load(self._word_at(base, first + i)) if n is None else n for i, n in enumerate(shape)])

    def _frame_place(self, word: int) -> str:
        return self._word_at("%frame", word)

    def _address_word(self, pointer: str) -> str:
        return self._new(f"llvm.ptrtoint {pointer} : !llvm.ptr to i64")

    # Whole numbers

    def _combine(self, op: str, a: str, b: str) -> str:
        """The result of an op of two whole numbers."""
        return self._new(INTEGER_LINES[op].format(a, b))

    def _compare(self, predicate: str, a: str, b: str) -> str:
        """A condition of one bit."""
        return self._new(f'llvm.icmp "{predicate}" {a}, {b} : i64')

    def _product(self, factors: Sequence[str | int]) -> str | int:
        """The product of sizes; what is known is multiplied now."""
        known, name = 1, ""
        for factor in factors:
            if isinstance(factor, int):
                known *= factor
            else:
                name = self._combine("arith.muli", name, factor) if name else factor
        if not name or known == 0:
            return known
        return name if known == 1 else self._combine("arith.muli", name, self._constant(known))

    def _bytes(self, tensor: Tensor) -> str:
        return self._constant(self._product((*tensor.shape, element_bytes(tensor.element))))

    # Values

    def _number(self, register: int) -> str:
        value = self._values[register]
        assert isinstance(value, Scalar)
        return value.name

    def _tensor(self, register: int) -> Tensor:
        value = self._values[register]
        assert isinstance(value, Tensor)
        return value

    def _holds(self, number: str) -> str:
        """A condition of one bit."""
        return self._compare("ne", number, self._constant(0))

    def _retain(self, value: Value) -> None:
        if not isinstance(value, Scalar) and value.owner:
            self._emit(self._call("tw_retain", "p", value.owner, result=""))

    def _release(self, value: Value) -> None:
        if not isinstance(value, Scalar) and value.owner:
            self._emit(self._call("tw_release", "pp", "%frame", value.owner, result=""))

    def _own(self, handle: str) -> Object:
        """What the host holds, and calls by a handle."""
        owner = self._new(self._call("tw_own_handle", "pi", "%frame", handle, result="p"))
        there = self._new(f'llvm.icmp "ne" {owner}, %null : !llvm.ptr')
        self._demand(there, self._call("tw_raise_out_of_memory", ""))
        return Object(owner)

    def _handle(self, value: Object) -> str:
        return self._new(self._call("tw_handle", "p", value.owner, result="i"))

    def _flatten(self, value: Value, type_: RegisterType) -> list[str]:
        """The names of what a block takes for a value of this type."""
        match value:
            case Scalar(name):
                return [name]
            case Object(owner):
                return [owner or "%null"]
            case Tensor(data, owner, shape):
                open_ = [self._constant(n) for n, known in zip(shape, type_[1] or (), strict=True) if known is None]
                return [data, owner or "%null", *open_]

    def _arguments(self, types: Sequence[RegisterType]) -> tuple[list[Value], list[tuple[str, str]]]:
        """New names for values of these types, and the arguments of a block that has them."""
        values: list[Value] = []
        names: list[tuple[str, str]] = []
        for element, shape in types:
            own = []
            for kind in list_kinds((element, shape)):
                self._names += 1
                own.append(f"%v{self._names}")
                names.append((own[-1], kind))
            if shape is not None:
                data, owner, *open_ = own
                left = iter(open_)
                values.append(Tensor(data, owner, tuple(next(left) if n is None else n for n in shape), element))
            else:
                values.append(Object(own[0]) if element == "none" else Scalar(own[0], is_real(element)))
        return values, names

    def _branch_to(self, label: str, values: Sequence[Value], types: Sequence[RegisterType]) -> None:
        passed = [name for value, type_ in zip(values, types, strict=True) for name in self._flatten(value, type_)]
        kinds = [kind for type_ in types for kind in list_kinds(type_)]
        given = f"({', '.join(passed)} : {', '.join(kinds)})" if passed else ""
        self._emit(f"llvm.br ^{label}{given}")
