"""The text of ``main`` of a program with a routine: its steps as code, with memory for tensors of any size.

``main`` takes the address of a frame (``frame.mlir``), in which the caller has put the inputs and finds the outputs. A
tensor is its address, the block that owns its memory (none for inputs, weights and outputs), and its extents; what the
host holds is an owner alone. Each register has a reference to its owner, which ends with the last step that reads it.
Whole numbers have 64 bits and stay at the largest one where they would be larger; floats are doubles.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...core.arena import align_size
from ...core.errors import CompileError
from ...core.frame import FrameLayout, element_bytes
from ...core.program import (
    APPEND,
    COLLECT,
    REPORT,
    VIEWS,
    Kernel,
    Program,
    RegisterType,
    Routine,
    Step,
    describe_origin,
)
from ...dialects import packed

_MOST_SIZE = (1 << 63) - 1
_COMPARISONS = ("eq", "ne", *2 * ("slt", "sle", "sgt", "sge"))
_UNSIGNED = 6  # comparisons from this one on
_FLOAT_COMPARISONS = (
    "_false",
    "oeq",
    "ogt",
    "oge",
    "olt",
    "ole",
    "one",
    "ord",
    "ueq",
    "ugt",
    "uge",
    "ult",
    "ule",
    "une",
    "uno",
    "_true",
)
# By op, the line that computes it from whole numbers, or from floats.
_INTEGER_LINES = {
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
_FLOAT_LINES = {
    "arith.addf": "llvm.fadd {0}, {1} : f64",
    "arith.subf": "llvm.fsub {0}, {1} : f64",
    "arith.mulf": "llvm.fmul {0}, {1} : f64",
}
_FACTS = "!llvm.struct<(ptr, i64, i64, i64, i64)>"  # of a kernel: see frame.mlir
_SAME = ("arith.index_cast", "arith.extsi", "arith.extf")
_LOW_BITS = ("arith.index_castui", "arith.extui")


@dataclass(frozen=True)
class _Number:
    """A scalar: the name of a value of 64 bits, and whether it is a double."""

    name: str
    real: bool = False


@dataclass(frozen=True)
class _Tensor:
    """A tensor: names of its address, its owner ("" for none) and its extents, of which some are known."""

    data: str
    owner: str
    shape: tuple[str | int, ...]
    element: str


@dataclass(frozen=True)
class _Object:
    """What the host holds: the name of its owner."""

    owner: str


_Value = _Number | _Tensor | _Object


def routine_text(program: Program, number: int = 0) -> str:
    """``main`` of the ``number``-th program, which has a routine, and the constants that it needs.

    What it has to know of its kernels is not there yet: a table that ``facts_text`` makes.
    """
    return _Writer(program, number).text()


def facts_text(kernels: Sequence[Kernel], number: int = 0) -> str:
    """The table of facts about kernels, in the order in which the ``number``-th program calls them first."""
    rows = []
    for kernel in kernels:
        scratch = -1 if kernel.asks_scratch else align_size(kernel.scratch_bytes)
        pieces = kernel.pieces if kernel.parallel else 0
        rows.append((kernel.name, kernel.extent, pieces, kernel.parallel_from, scratch))
    return packed.record_table(f"tw_facts_{number}", ("ptr", *["i64"] * 4), rows, "external")


class _Writer:
    """Writes the steps of a routine as blocks of one function."""

    def __init__(self, program: Program, number: int) -> None:
        assert program.routine is not None
        self._routine, self._facts = program.routine, f"tw_facts_{number}"
        self._kernels = {name: row for row, name in enumerate(dict.fromkeys(call.kernel for call in program.calls))}
        self._layout = FrameLayout.of(program)
        self._calls = {id(step): number for number, step in enumerate(self._routine.calls)}
        self._values: dict[int, _Value] = {}
        self._constants: dict[str, str] = {}  # their text, and their name
        self._texts: dict[str, str] = {}  # messages, and the names of their addresses
        self._lines: list[str] = []
        self._names = self._blocks = 0
        self._words = self._rank = 1
        self._placed: dict[int, int] = {}  # registers whose tensors are made where an output is to lie
        for number, register in enumerate(self._routine.results):
            self._place(self._routine, register, number)

    def text(self) -> str:
        """See ``routine_text``."""
        self._begin()
        self._steps(self._routine)
        self._end()
        parts = [self._head(), *(f"  {line}\n" if line[0] != "^" else f"{line}\n" for line in self._lines), _TAIL]
        constants = (
            packed.constant_bytes(f"tw_text_{i}", text.encode(errors="replace") + b"\0")
            for i, text in enumerate(self._texts)
        )
        facts = f"llvm.mlir.global external constant @{self._facts}() : !llvm.array<0 x i64>\n"
        return "".join([facts, *constants, packed.main_function("".join(parts))])

    def _head(self) -> str:
        names = enumerate(self._texts.values())
        facts = f"  %facts = llvm.mlir.addressof @{self._facts} : !llvm.ptr\n"
        texts = [f"  {name} = llvm.mlir.addressof @tw_text_{i} : !llvm.ptr\n" for i, name in names]
        constants = [f"  {name} = llvm.mlir.constant({text}\n" for text, name in self._constants.items()]
        return _HEAD.format(words=self._words, rank=self._rank, constants="".join([facts, *constants, *texts]))

    # Names and lines

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

    def _demand(self, condition: str, refusal: str) -> None:
        """Go on where a condition holds; else end the run with the status that ``refusal`` makes."""
        fine, failed = self._label(), self._label()
        self._emit(f"llvm.cond_br {condition}, ^{fine}, ^{failed}")
        self._begin_block(failed)
        status = self._new(refusal)
        self._emit(f"llvm.br ^exit({status} : i32)")
        self._begin_block(fine)

    def _demand_success(self, status: str) -> None:
        """Go on where a call was successful."""
        fine = self._label()
        condition = self._new(f'llvm.icmp "eq" {status}, %success : i32')
        self._emit(f"llvm.cond_br {condition}, ^{fine}, ^exit({status} : i32)")
        self._begin_block(fine)

    def _refusal(self, text: str, *numbers: str) -> str:
        first, second, *_ = (*numbers, self._constant(0), self._constant(0))
        count = self._constant(len(numbers))
        arguments = f"{self._text(text)}, {count}, {first}, {second}"
        return f"llvm.call @tw_refuse({arguments}) : (!llvm.ptr, i64, i64, i64) -> i32"

    def _word_at(self, base: str, index: int) -> str:
        return self._new(f"llvm.getelementptr {base}[{index}] : (!llvm.ptr) -> !llvm.ptr, i64") if index else base

    def _store_words(self, words: Sequence[str], base: str = "%words") -> None:
        for index, word in enumerate(words):
            place = self._word_at(base, index)
            self._emit(f"llvm.store {word}, {place} : i64, !llvm.ptr")

    def _load(self, place: str, kind: str = "i64") -> str:
        return self._new(f"llvm.load {place} : !llvm.ptr -> {kind}")

    def _frame_place(self, word: int) -> str:
        return self._word_at("%frame", word)

    def _address_word(self, pointer: str) -> str:
        return self._new(f"llvm.ptrtoint {pointer} : !llvm.ptr to i64")

    def _product(self, factors: Sequence[str | int]) -> str | int:
        """The product of sizes; what is known is multiplied now."""
        known, name = 1, ""
        for factor in factors:
            if isinstance(factor, int):
                known *= factor
            else:
                name = self._multiply(name, factor) if name else factor
        if not name or known == 0:
            return known
        return name if known == 1 else self._multiply(name, self._constant(known))

    def _multiply(self, a: str, b: str) -> str:
        return self._new(_INTEGER_LINES["arith.muli"].format(a, b))

    def _bytes(self, tensor: _Tensor) -> str:
        return self._constant(self._product((*tensor.shape, element_bytes(tensor.element))))

    # Values

    def _number(self, register: int) -> str:
        value = self._values[register]
        assert isinstance(value, _Number)
        return value.name

    def _tensor(self, register: int) -> _Tensor:
        value = self._values[register]
        assert isinstance(value, _Tensor)
        return value

    def _holds(self, register: int) -> str:
        """A condition of one bit."""
        return self._new(f'llvm.icmp "ne" {self._number(register)}, {self._constant(0)} : i64')

    def _as_number(self, bit: str) -> _Number:
        return _Number(self._new(f"llvm.zext {bit} : i1 to i64"))

    def _retain(self, value: _Value) -> None:
        if not isinstance(value, _Number) and value.owner:
            self._emit(f"llvm.call @tw_retain({value.owner}) : (!llvm.ptr) -> ()")

    def _release(self, value: _Value) -> None:
        if not isinstance(value, _Number) and value.owner:
            self._emit(f"llvm.call @tw_release(%frame, {value.owner}) : (!llvm.ptr, !llvm.ptr) -> ()")

    def _flatten(self, value: _Value, type_: RegisterType) -> list[str]:
        """The names of what a block takes for a value of this type."""
        match value:
            case _Number(name):
                return [name]
            case _Object(owner):
                return [owner or "%null"]
            case _Tensor(data, owner, shape):
                open_ = [self._constant(n) for n, known in zip(shape, type_[1] or (), strict=True) if known is None]
                return [data, owner or "%null", *open_]

    def _arguments(self, types: Sequence[RegisterType]) -> tuple[list[_Value], list[tuple[str, str]]]:
        """New names for values of these types, and the arguments of a block that has them."""
        values: list[_Value] = []
        names: list[tuple[str, str]] = []
        for element, shape in types:
            own = []
            for kind in _kinds_of((element, shape)):
                self._names += 1
                own.append(f"%v{self._names}")
                names.append((own[-1], kind))
            if shape is not None:
                data, owner, *open_ = own
                left = iter(open_)
                values.append(_Tensor(data, owner, tuple(next(left) if n is None else n for n in shape), element))
            else:
                values.append(_Object(own[0]) if element == "none" else _Number(own[0], _is_real(element)))
        return values, names

    def _branch_to(self, label: str, values: Sequence[_Value], types: Sequence[RegisterType]) -> None:
        passed = [name for value, type_ in zip(values, types, strict=True) for name in self._flatten(value, type_)]
        kinds = [kind for type_ in types for kind in _kinds_of(type_)]
        given = f"({', '.join(passed)} : {', '.join(kinds)})" if passed else ""
        self._emit(f"llvm.br ^{label}{given}")

    # The frame

    def _begin(self) -> None:
        """The arguments of the routine: inputs from the frame, weights from the context."""
        routine, layout = self._routine, self._layout
        for register, type_, place in zip(routine.arguments, routine.types, layout.inputs, strict=False):
            self._values[register] = self._input(type_, place)
        weights = zip(routine.arguments[len(layout.inputs) :], routine.types[len(layout.inputs) :], strict=True)
        for index, (register, (element, shape)) in enumerate(weights):
            at = self._new(f"llvm.getelementptr %self[0, 5, {index}] : (!llvm.ptr) -> !llvm.ptr, !context")
            extents = tuple(n for n in shape or () if n is not None)
            self._values[register] = _Tensor(self._load(at, "!llvm.ptr"), "", extents, element)

    def _input(self, type_: RegisterType, place: int) -> _Value:
        element, shape = type_
        at = self._frame_place(place)
        if shape is None:
            return self._own(self._load(at))
        extents = [self._load(self._frame_place(place + 1 + axis)) if n is None else n for axis, n in enumerate(shape)]
        return _Tensor(self._load(at, "!llvm.ptr"), "", tuple(extents), element)

    def _own(self, handle: str) -> _Object:
        """What the host holds, and calls by a handle."""
        owner = self._new(f"llvm.call @tw_own_handle(%frame, {handle}) : (!llvm.ptr, i64) -> !llvm.ptr")
        there = self._new(f'llvm.icmp "ne" {owner}, %null : !llvm.ptr')
        self._demand(there, "llvm.call @tw_raise_out_of_memory() : () -> i32")
        return _Object(owner)

    def _end(self) -> None:
        """Leave the results in the frame."""
        kept = {state.output for state in (*self._layout.grown, *self._layout.written)}
        for number, (register, place) in enumerate(zip(self._routine.results, self._layout.outputs, strict=True)):
            value, at = self._values[register], self._frame_place(place)
            if isinstance(value, _Tensor) and number in kept:
                self._store_words(list(map(self._constant, value.shape)), self._frame_place(place + 2))
            elif isinstance(value, _Tensor):
                arguments = f"%frame, {at}, {value.data}, {self._bytes(value)}, %pair"
                types = "!llvm.ptr, !llvm.ptr, !llvm.ptr, i64, !llvm.ptr"
                self._demand_success(self._new(f"llvm.call @tw_leave_output({arguments}) : ({types}) -> i32"))
                self._store_words(list(map(self._constant, value.shape)), self._frame_place(place + 2))
            elif isinstance(value, _Object):
                self._store_words([self._handle(value)], at)
        self._emit("llvm.br ^done")

    def _handle(self, value: _Object) -> str:
        return self._new(f"llvm.call @tw_handle({value.owner}) : (!llvm.ptr) -> i64")

    def _place(self, routine: Routine, register: int, output: int) -> None:
        """Have the tensor in a register made where an output is to lie, if a call makes it once."""
        step = next((step for step in routine.steps if register in step.results), None)
        if step is None or register in self._placed:
            return
        if step.op == "func.call" and "over" in step.facts:
            self._place(routine, step.operands[step.facts["over"]], output)
        elif step.op == "func.call":
            self._placed[register] = output
        elif step.op in VIEWS:
            self._place(routine, step.operands[0], output)
        elif step.op == "tensor.select" and _is_empty_unless_taken(routine, step):
            self._place(routine, step.operands[1], output)
        elif step.op == "scf.if":
            for region in step.regions:
                self._place(region, region.results[step.results.index(register)], output)

    # Steps

    def _steps(self, routine: Routine) -> None:
        for number, step in enumerate(routine.steps):
            if step.op == COLLECT:
                self._values[step.results[0]] = self._collect(step, _is_last_reader(routine, number))
            else:
                self._step(step)
            for register in step.dead:
                if register in self._values:
                    self._release(self._values[register])

    def _step(self, step: Step) -> None:
        match step.op:
            case "func.call":
                self._call_kernel(step)
            case "host.call":
                self._call_host(step)
            case "scf.if":
                self._branch(step)
            case "scf.for":
                self._count(step)
            case "scf.while":
                self._repeat(step)
            case "cf.assert":
                condition, *compared = step.operands
                numbers = [self._number(r) for r in compared]
                self._demand(self._holds(condition), self._refusal(_say(step, step.facts["text"]), *numbers))
            case "tensor.extract_slice":
                self._values[step.results[0]] = self._slice(step)
            case _ if step.op == REPORT:
                self._report(step)
            case _ if step.op == APPEND:
                self._values[step.results[0]] = self._append(step)
            case _:
                self._values[step.results[0]] = value = self._compute(step)
                self._retain(value)

    def _compute(self, step: Step) -> _Value:
        """The value of a step with one result."""
        match step.op:
            case "tensor.collapse_shape":
                return self._collapse(step)
            case "tensor.expand_shape":
                return self._expand(step)
            case "tensor.cast":
                return self._cast(step)
            case "tensor.select":
                return self._choose(step)
            case "tensor.dim":
                return self._dim(step)
            case "tensor.extract":
                return self._extract(step)
            case "arith.constant":
                value = step.facts["value"]
                return (
                    _Number(self._real(value), True)
                    if isinstance(value, float)
                    else _Number(self._constant(int(value)))
                )
        return self._scalar(step)

    def _scalar(self, step: Step) -> _Number:
        operands = [value for r in step.operands if isinstance(value := self._values[r], _Number)]
        assert len(operands) == len(step.operands)
        names = [value.name for value in operands]
        if step.op in _INTEGER_LINES:
            return _Number(self._new(_INTEGER_LINES[step.op].format(*names)))
        if step.op in _FLOAT_LINES:
            return _Number(self._new(_FLOAT_LINES[step.op].format(*names)), True)
        if step.op in _SAME:
            return replace(operands[0])
        if step.op in _LOW_BITS:
            return _Number(self._low_bits(names[0], step.facts["bits"]))
        match step.op:
            case "arith.sitofp":
                return _Number(self._new(f"llvm.sitofp {names[0]} : i64 to f64"), True)
            case "arith.select":
                bit, real = self._holds(step.operands[0]), operands[1].real
                kind = "f64" if real else "i64"
                return _Number(self._new(f"llvm.select {bit}, {names[1]}, {names[2]} : i1, {kind}"), real)
            case "arith.cmpi":
                predicate = step.facts["predicate"]
                word = _COMPARISONS[predicate]
                if predicate >= _UNSIGNED:
                    names, word = [self._low_bits(name, step.facts["bits"]) for name in names], f"u{word[1:]}"
                return self._as_number(self._new(f'llvm.icmp "{word}" {names[0]}, {names[1]} : i64'))
            case "arith.cmpf":
                word = _FLOAT_COMPARISONS[step.facts["predicate"]]
                return self._as_number(self._new(f'llvm.fcmp "{word}" {names[0]}, {names[1]} : f64'))
        raise CompileError(f"{describe_origin(step)}needs '{step.op}', which no program has")

    def _low_bits(self, name: str, bits: int) -> str:
        return self._new(f"llvm.and {name}, {self._constant((1 << bits) - 1)} : i64") if bits < 64 else name

    def _collapse(self, step: Step) -> _Tensor:
        source = self._tensor(step.operands[0])
        shape = tuple(self._product([source.shape[axis] for axis in group]) for group in step.facts["groups"])
        return replace(source, shape=self._refine_shape(shape, step))

    def _refine_shape(self, shape: Sequence[str | int], step: Step) -> tuple[str | int, ...]:
        """A shape with the extents that the result's type knows."""
        types = step.types[0][1] or ()
        return tuple(extent if known is None else known for extent, known in zip(shape, types, strict=True))

    def _expand(self, step: Step) -> _Tensor:
        source = self._tensor(step.operands[0])
        given = iter([self._number(r) for r in step.operands[1:]])
        shape = tuple([next(given) if n is None else n for n in step.facts["shape"]])
        elements, wanted = self._product(source.shape), self._product(shape)
        if elements != wanted:
            count = self._constant(elements)
            fits = self._new(f'llvm.icmp "eq" {count}, {self._constant(wanted)} : i64')
            refusal = self._shape_refusal(step, "cannot make shape [", shape, "] of %lld elements", count)
            self._demand(fits, refusal)
        self._demand_sizes(step, shape)
        return replace(source, shape=shape)

    def _demand_sizes(self, step: Step, shape: Sequence[str | int]) -> None:
        """Refuse a shape with a negative extent."""
        names = [n for n in shape if isinstance(n, str)]
        if not names:
            return
        least = names[0]
        for name in names[1:]:
            least = self._new(_INTEGER_LINES["arith.minsi"].format(least, name))
        fits = self._new(f'llvm.icmp "sge" {least}, {self._constant(0)} : i64')
        text = "]: the inputs' sizes do not fit"
        self._demand(fits, self._shape_refusal(step, "would make a tensor of shape [", shape, text))

    def _shape_refusal(
        self, step: Step, before: str, shape: Sequence[str | int], behind: str, number: str | None = None
    ) -> str:
        """What ends the run with a message that has a shape, and a number where ``behind`` has the place for one."""
        self._store_words(list(map(self._constant, shape)), "%shape")
        self._rank = max(self._rank, len(shape))
        texts = self._text(_say(step, before)), self._text(behind)
        arguments = f"{texts[0]}, %shape, {self._constant(len(shape))}, {texts[1]}, {number or self._constant(0)}"
        return f"llvm.call @tw_refuse_shape({arguments}) : (!llvm.ptr, !llvm.ptr, i64, !llvm.ptr, i64) -> i32"

    def _cast(self, step: Step) -> _Tensor:
        source, wanted = self._tensor(step.operands[0]), step.facts["shape"]
        shown = ["any" if n is None else n for n in wanted]
        for extent, known in zip(source.shape, wanted, strict=True):
            if known is not None and extent != known:
                fits = self._new(f'llvm.icmp "eq" {self._constant(extent)}, {self._constant(known)} : i64')
                behind = f"] where {shown} is needed"
                self._demand(fits, self._shape_refusal(step, "has a tensor of shape [", source.shape, behind))
        return replace(source, shape=self._refine_shape(source.shape, step))

    def _choose(self, step: Step) -> _Tensor:
        first, second, condition = self._tensor(step.operands[0]), self._tensor(step.operands[1]), step.operands[2]
        bit = self._holds(condition)

        def select(a: str, b: str, kind: str) -> str:
            return a if a == b else self._new(f"llvm.select {bit}, {a}, {b} : i1, {kind}")

        shape = [
            a if a == b else select(self._constant(a), self._constant(b), "i64")
            for a, b in zip(first.shape, second.shape, strict=True)
        ]
        owner = ""
        if first.owner or second.owner:
            owner = select(first.owner or "%null", second.owner or "%null", "!llvm.ptr")
        data = select(first.data, second.data, "!llvm.ptr")
        return _Tensor(data, owner, self._refine_shape(shape, step), first.element)

    def _dim(self, step: Step) -> _Number:
        shape, axis = self._tensor(step.operands[0]).shape, self._number(step.operands[1])
        constants = {name: text for text, name in self._constants.items()}
        if axis in constants:
            return _Number(self._constant(shape[int(constants[axis].split()[0])]))
        found = self._constant(0)
        for number, extent in enumerate(shape):
            bit = self._new(f'llvm.icmp "eq" {axis}, {self._constant(number)} : i64')
            found = self._new(f"llvm.select {bit}, {self._constant(extent)}, {found} : i1, i64")
        return _Number(found)

    def _extract(self, step: Step) -> _Number:
        source, indices = self._tensor(step.operands[0]), [self._number(r) for r in step.operands[1:]]
        place = self._constant(0)
        for index, extent in zip(indices, source.shape, strict=True):
            size = self._constant(extent)
            inside = self._new(f'llvm.icmp "ult" {index}, {size} : i64')
            text = _say(step, "reads an element that is not there: index and extent are")
            self._demand(inside, self._refusal(text, index, size))
            place = self._new(f"llvm.add {self._multiply(place, size)}, {index} : i64")
        kind = {"i1": "i8", "index": "i64", "bf16": "i16"}.get(source.element, source.element)
        at = self._new(f"llvm.getelementptr {source.data}[{place}] : (!llvm.ptr, i64) -> !llvm.ptr, {kind}")
        name = self._load(at, kind)
        if source.element == "bf16":
            wide = self._new(f"llvm.zext {name} : i16 to i32")
            high = self._new(f"llvm.shl {wide}, %sixteen : i32")
            name, kind = self._new(f"llvm.bitcast {high} : i32 to f32"), "f32"
        if kind.startswith("f"):
            return _Number(name if kind == "f64" else self._new(f"llvm.fpext {name} : {kind} to f64"), True)
        return _Number(name if kind == "i64" else self._new(f"llvm.sext {name} : {kind} to i64"))

    def _slice(self, step: Step) -> _Tensor:
        """A copy of the elements."""
        source = self._tensor(step.operands[0])
        left = iter([self._number(r) for r in step.operands[1:]])
        parts = [step.facts[name] for name in ("offsets", "sizes", "strides")]
        offsets, sizes, strides = ([next(left) if n is None else n for n in numbers] for numbers in parts)
        zero, one = self._constant(0), self._constant(1)
        for offset, size, stride, extent in zip(offsets, sizes, strides, source.shape, strict=True):
            o, n, by, most = map(self._constant, (offset, size, stride, extent))
            before = self._new(_INTEGER_LINES["arith.subi"].format(n, one))
            span = self._multiply(before, by)
            last = self._new(_INTEGER_LINES["arith.addi"].format(o, span))
            tests = [f'"ult" {o}, {most}', f'"uge" {last}, {o}', f'"ult" {last}, {most}']
            bits = [self._new(f"llvm.icmp {test} : i64") for test in tests]
            inside = self._new(f"llvm.and {self._new(f'llvm.and {bits[0]}, {bits[1]} : i1')}, {bits[2]} : i1")
            empty = self._new(f'llvm.icmp "eq" {n}, {zero} : i64')
            fits = self._new(f"llvm.or {inside}, {empty} : i1")
            self._demand(fits, self._refusal(_say(step, "takes more elements than there are"), n, most))
        element = element_bytes(source.element)
        steps: list[str | int] = []
        stride_bytes: str | int = element
        for extent in reversed(source.shape):
            steps.insert(0, stride_bytes)
            stride_bytes = self._product((stride_bytes, extent))
        begin: str | int = 0
        for offset, by in zip(offsets, steps, strict=True):
            begin = self._new(f"llvm.add {self._constant(begin)}, {self._constant(self._product((offset, by)))} : i64")
        apart = [self._product((stride, by)) for stride, by in zip(strides, steps, strict=True)]
        from_ = self._new(
            f"llvm.getelementptr {source.data}[{self._constant(begin)}] : (!llvm.ptr, i64) -> !llvm.ptr, i8"
        )
        made = self._new_tensor(step, source.element, sizes, None)
        rank = len(sizes)
        self._words = max(self._words, 2 * rank)
        self._store_words([*map(self._constant, sizes), *map(self._constant, apart)])
        behind = self._word_at("%words", rank)
        arguments = f"{made.data}, {from_}, {self._constant(rank)}, %words, {behind}, {self._constant(element)}"
        types = "!llvm.ptr, !llvm.ptr, i64, !llvm.ptr, !llvm.ptr, i64"
        self._emit(f"llvm.call @tw_copy_box({arguments}) : ({types}) -> ()")
        kept = tuple(sizes[axis] for axis in step.facts["kept"])
        return replace(made, shape=self._refine_shape(kept, step))

    def _new_tensor(self, step: Step, element: str, shape: Sequence[str | int], output: int | None) -> _Tensor:
        """A tensor of any content, with one reference to its owner, or at the place of an output."""
        self._demand_sizes(step, shape)
        made = _Tensor("", "", tuple(shape), element)
        if output is None:
            arguments = f"(%frame, {self._bytes(made)}, %pair) : (!llvm.ptr, i64, !llvm.ptr) -> i32"
            self._demand_success(self._new(f"llvm.call @tw_new_tensor{arguments}"))
        else:
            place = self._frame_place(self._layout.outputs[output])
            types = "(!llvm.ptr, !llvm.ptr, i64, !llvm.ptr) -> i32"
            self._demand_success(
                self._new(f"llvm.call @tw_new_output(%frame, {place}, {self._bytes(made)}, %pair) : {types}")
            )
        data = self._load(self._word_at("%pair", 1), "!llvm.ptr")
        return replace(made, data=data, owner="" if output is not None else self._load("%pair", "!llvm.ptr"))

    def _report(self, step: Step) -> None:
        word = self._load(self._tensor(step.operands[0]).data)
        fine = self._new(f'llvm.icmp "eq" {word}, {self._constant(0)} : i64')
        at, text = self._tensor(step.operands[0]).data, self._text(_say(step, step.facts["text"]))
        self._demand(fine, f"llvm.call @tw_report({at}, {text}, %success) : (!llvm.ptr, !llvm.ptr, i32) -> i32")

    def _append(self, step: Step) -> _Tensor:
        """A state with more behind it, which is copied there."""
        old, new, size = self._tensor(step.operands[0]), self._tensor(step.operands[1]), self._number(step.operands[2])
        extents = map(self._constant, (old.shape[0], new.shape[0]))
        whole = self._new(_INTEGER_LINES["arith.addi"].format(*extents))
        fits = self._new(f'llvm.icmp "eq" {whole}, {size} : i64')
        self._demand(fits, self._refusal(_say(step, "appends to a state what does not fit"), whole, size))
        self._demand_same(step, old.shape[1:], new.shape[1:])
        number = step.facts["input"]
        [room] = [
            at for at, state in zip(self._layout.states, self._layout.grown, strict=True) if state.input == number
        ]
        place = self._frame_place(self._layout.inputs[number])
        row = self._constant(self._product((*old.shape[1:], element_bytes(old.element))))
        text = self._text(_say(step, "would make a state longer than its session has room for: it needs and has"))
        passed = (
            f"%frame, {place}, {self._frame_place(room)}, {row}, {self._constant(old.shape[0])}, {size}, "
            f"{new.data}, {text}"
        )
        types = "!llvm.ptr, !llvm.ptr, !llvm.ptr, i64, i64, i64, !llvm.ptr, !llvm.ptr"
        self._demand_success(self._new(f"llvm.call @tw_append({passed}) : ({types}) -> i32"))
        return replace(old, data=self._load(place, "!llvm.ptr"), shape=(size, *old.shape[1:]))

    def _collect(self, step: Step, last: bool) -> _Value:
        """A collection of tensors: an owner of memory with rows, or null; or all of its rows as a tensor.

        One that this step is the last to read may become the next one.
        """
        if step.facts["function"] == "collect.none":
            return _Object("")
        [owner] = self._flatten(self._values[step.operands[0]], ("none", None))
        if step.facts["function"] == "collect.one":
            row = self._tensor(step.operands[1])
            self._store_words(list(map(self._constant, row.shape)), "%shape")
            self._rank = max(self._rank, len(row.shape))
            behind = "] for a scan output whose elements have another one"
            texts = self._text(_say(step, "gives an element of shape [")), self._text(behind)
            arguments = f"%frame, {owner}, {row.data}, {self._bytes(row)}, %shape, {self._constant(len(row.shape))}"
            types = "!llvm.ptr, !llvm.ptr, !llvm.ptr, i64, !llvm.ptr, i64, i64, !llvm.ptr, !llvm.ptr, !llvm.ptr"
            given = f"{arguments}, {self._constant(int(last))}, {texts[0]}, {texts[1]}, %pair"
            call = f"llvm.call @tw_collect_row({given}) : ({types}) -> i32"
            self._demand_success(self._new(call))
            return _Object(self._load("%pair", "!llvm.ptr"))
        element, shape = step.types[0]
        self._rank = max(self._rank, len(shape or ()))
        self._store_words(list(map(self._constant, step.facts["attributes"]["shape"])), "%shape")
        arguments = f"%frame, {owner}, %shape, {self._constant(len(shape or ()))}"
        types = "!llvm.ptr, !llvm.ptr, !llvm.ptr, i64, !llvm.ptr"
        self._demand_success(self._new(f"llvm.call @tw_collect_all({arguments}, %pair) : ({types}) -> i32"))
        extents = [self._load(self._word_at("%shape", axis)) for axis in range(len(shape or ()))]
        data = self._load(self._word_at("%pair", 1), "!llvm.ptr")
        made = _Tensor(data, self._load("%pair", "!llvm.ptr"), tuple(extents), element)
        return replace(made, shape=self._refine_shape(extents, step))

    def _demand_same(self, step: Step, shape: Sequence[str | int], other: Sequence[str | int]) -> None:
        """Refuse rows of another shape."""
        for extent, wanted in zip(other, shape, strict=True):
            if extent != wanted:
                fits = self._new(f'llvm.icmp "eq" {self._constant(extent)}, {self._constant(wanted)} : i64')
                behind = "]: the state's rows are others"
                self._demand(fits, self._shape_refusal(step, "appends rows of shape [", other, behind))

    # Calls

    def _call_kernel(self, step: Step) -> None:
        row, axes = self._kernels[step.facts["kernel"]], step.facts["open"]
        tensors = [self._tensor(r) for r in step.operands[: len(axes)]]
        numbers = [self._number(r) for r in step.operands[len(axes) :]]
        count = sum(n is None for _, shape in step.types for n in shape or ())
        given = iter(numbers[len(numbers) - count :])
        made: list[_Tensor] = []
        for register, (element, known) in zip(step.results, step.types, strict=True):
            shape = tuple([next(given) if n is None else n for n in known or ()])
            if "over" in step.facts:
                over = tensors[step.facts["over"]]
                made.append(_Tensor(over.data, over.owner, shape, element))
                self._retain(made[-1])
            else:
                made.append(self._new_tensor(step, element, shape, self._placed.get(register)))
            self._values[register] = made[-1]
        extents = [tensor.shape[axis] for tensor, own in zip(tensors, axes, strict=True) for axis in own]
        words = [self._address_word(tensor.data) for tensor in (*tensors, *made)]
        words += [*map(self._constant, extents), *numbers]
        self._words = max(self._words, len(words))
        self._store_words(words)
        if self._layout.writers.intersection(step.results):
            self._store_words([self._constant(1)], self._frame_place(self._layout.mark))
        facts = self._new(f"llvm.getelementptr %facts[{row}] : (!llvm.ptr) -> !llvm.ptr, {_FACTS}") if row else "%facts"
        number = self._constant(self._calls[id(step)])
        arguments = f"(%frame, {number}, {facts}, %words, {self._elements(made)})"
        types = "(!llvm.ptr, i64, !llvm.ptr, !llvm.ptr, i64) -> i32"
        self._demand_success(self._new(f"llvm.call @tw_call_kernel{arguments} : {types}"))

    def _elements(self, tensors: Sequence[_Tensor]) -> str:
        """How many elements some tensors have together."""
        products = [self._constant(self._product(tensor.shape)) for tensor in tensors]
        found = products[0] if products else self._constant(0)
        for product in products[1:]:
            found = self._new(_INTEGER_LINES["arith.addi"].format(found, product))
        return found

    def _call_host(self, step: Step) -> None:
        """See ``runtime/steps/host_calls.py`` for the words."""
        words: list[str] = []
        for register in step.operands:
            value = self._values[register]
            if isinstance(value, _Tensor):
                words += [self._address_word(value.data), self._constant(len(value.shape))]
                words += map(self._constant, value.shape)
            else:
                words.append(self._handle(value) if isinstance(value, _Object) else value.name)
        first = len(words)
        self._words = max(self._words, first + sum(2 + len(shape or ()) for _, shape in step.types))
        self._store_words(words)
        number = self._constant(self._calls[id(step)])
        arguments = f"(%frame, {number}, %words) : (!llvm.ptr, i64, !llvm.ptr) -> i32"
        self._demand_success(self._new(f"llvm.call @tw_call_host{arguments}"))
        results: list[tuple[str, str, list[str | int]]] = []
        for _, shape in step.types:  # all words are read before another call writes there
            handle = self._load(self._word_at("%words", first))
            data, extents = "", []
            if shape is not None:
                data = self._load(self._word_at("%words", first + 1), "!llvm.ptr")
                extents = [
                    self._load(self._word_at("%words", first + 2 + axis)) if n is None else n
                    for axis, n in enumerate(shape)
                ]
            first += 1 if shape is None else 2 + len(shape)
            results.append((handle, data, extents))
        for register, (element, shape), (handle, data, extents) in zip(step.results, step.types, results, strict=True):
            owned = self._own(handle)
            self._values[register] = owned if shape is None else _Tensor(data, owned.owner, tuple(extents), element)

    # Control flow

    def _branch(self, step: Step) -> None:
        bit = self._holds(step.operands[0])
        values, arguments = self._arguments(step.types)
        then, other, behind = self._label(), self._label(), self._label()
        self._emit(f"llvm.cond_br {bit}, ^{then}, ^{other}")
        for label, region in zip((then, other), step.regions, strict=False):
            self._begin_block(label)
            self._steps(region)
            self._branch_to(behind, self._leave(region), step.types)
        if len(step.regions) == 1:
            self._begin_block(other)
            self._emit(f"llvm.br ^{behind}")
        self._begin_block(behind, arguments)
        self._values.update(zip(step.results, values, strict=True))

    def _leave(self, region: Routine) -> list[_Value]:
        """The results of a region, each with a reference of its own."""
        own = {register for step in region.steps for register in step.results}
        for register in region.results:
            if register in own:
                own.remove(register)  # its reference goes with it
            else:
                self._retain(self._values[register])
        return [self._values[register] for register in region.results]

    def _count(self, step: Step) -> None:
        [region] = step.regions
        low, high, by = (self._number(r) for r in step.operands[:3])
        initial = [self._values[r] for r in step.operands[3:]]
        types = region.types[1:]
        carried, arguments = self._arguments(types)
        [index], [index_argument] = self._arguments([("index", None)])
        head, body, behind = self._label(), self._label(), self._label()
        for value in initial:
            self._retain(value)
        self._enter(head, _Number(low), initial, types)
        self._begin_block(head, [index_argument, *arguments])
        assert isinstance(index, _Number)
        on = self._new(f'llvm.icmp "slt" {index.name}, {high} : i64')
        self._emit(f"llvm.cond_br {on}, ^{body}, ^{behind}")
        self._begin_block(body)
        self._tick()
        self._values.update(zip(region.arguments, [index, *carried], strict=True))
        self._steps(region)
        results = self._leave(region)
        for value in carried:
            self._release(value)
        self._enter(head, _Number(self._new(_INTEGER_LINES["arith.addi"].format(index.name, by))), results, types)
        self._begin_block(behind)
        self._values.update(zip(step.results, carried, strict=True))

    def _enter(self, label: str, index: _Number, values: Sequence[_Value], types: Sequence[RegisterType]) -> None:
        self._branch_to(label, [index, *values], [("index", None), *types])

    def _repeat(self, step: Step) -> None:
        before, after = step.regions
        tested, tested_arguments = self._arguments(before.types)
        head, body, behind = self._label(), self._label(), self._label()
        initial = [self._values[r] for r in step.operands]
        for value in initial:
            self._retain(value)
        self._branch_to(head, initial, before.types)
        self._begin_block(head, tested_arguments)
        self._tick()
        self._values.update(zip(before.arguments, tested, strict=True))
        self._steps(before)
        condition, *passed = self._leave(before)
        for value in tested:
            self._release(value)
        assert isinstance(condition, _Number)
        bit = self._new(f'llvm.icmp "ne" {condition.name}, {self._constant(0)} : i64')
        self._emit(f"llvm.cond_br {bit}, ^{body}, ^{behind}")
        self._begin_block(body)
        self._values.update(zip(after.arguments, passed, strict=True))
        self._steps(after)
        results = self._leave(after)
        for value in passed:
            self._release(value)
        self._branch_to(head, results, before.types)
        self._begin_block(behind)
        self._values.update(zip(step.results, passed, strict=True))

    def _tick(self) -> None:
        """End the run in a loop without calls, too, where it has to end."""
        self._demand_success(self._new("llvm.call @tw_tick(%frame) : (!llvm.ptr) -> i32"))


def _is_empty_unless_taken(routine: Routine, choice: Step) -> bool:
    """Return whether the second tensor of a choice is a kernel's, has no elements where the first one is taken, and
    nothing else reads it: it can then be made where the choice is to lie."""
    makers = {register: step for step in routine.steps for register in step.results}
    reads = _count_reads(routine)
    _, register, condition = choice.operands
    while (step := makers.get(register)) is not None and reads[register] == 1:
        if step.op == "func.call":
            extents = step.operands[len(step.operands) - sum(map(_count_open, step.types)) :]
            sizes = [makers[r] for r in extents if r in makers and makers[r].op == "arith.select"]
            empty = (s.operands[0] == condition and _is_zero(makers.get(s.operands[1])) for s in sizes)
            return "over" not in step.facts and len(step.results) == 1 and any(empty)
        if step.op not in VIEWS:
            return False
        register = step.operands[0]
    return False


def _count_reads(routine: Routine) -> Counter[int]:
    """How often each register is read."""
    counts = Counter(routine.results)
    for step in routine.steps:
        counts.update(step.operands)
        for region in step.regions:
            counts.update(_count_reads(region))
    return counts


def _count_open(type_: RegisterType) -> int:
    return sum(extent is None for extent in type_[1] or ())


def _is_zero(step: Step | None) -> bool:
    return step is not None and step.op == "arith.constant" and step.facts["value"] == 0


def _is_last_reader(routine: Routine, number: int) -> bool:
    """Whether nobody reads the first operand of a step behind it, as far as that is the routine's own."""
    step = routine.steps[number]
    if not step.operands:
        return True
    register, behind = step.operands[0], Routine((), routine.steps[number + 1 :], routine.results)
    own = {*routine.arguments, *(r for before in routine.steps[:number] for r in before.results)}
    read = {r for each in behind.walk() for r in each.operands}
    read |= {r for each in behind.walk() for inner in each.regions for r in inner.results}
    return register in own and register not in read and register not in routine.results


def _say(step: Step, text: str) -> str:
    return describe_origin(step) + text


def _kinds_of(type_: RegisterType) -> list[str]:
    """The types of what a block takes for a value: see ``_flatten``."""
    element, shape = type_
    if shape is not None:
        return ["!llvm.ptr", "!llvm.ptr", *("i64" for n in shape if n is None)]
    if element == "none":
        return ["!llvm.ptr"]
    return ["f64" if _is_real(element) else "i64"]


def _is_real(element: str) -> bool:
    return element in ("f16", "bf16", "f32", "f64")


_HEAD = """  %zero = llvm.mlir.constant(0 : i64) : i64
  %one32 = llvm.mlir.constant(1 : i32) : i32
  %sixteen = llvm.mlir.constant(16 : i32) : i32
  %success = llvm.mlir.constant(0 : i32) : i32
  %null = llvm.mlir.zero : !llvm.ptr
{constants}  %usage = llvm.mlir.addressof @tw_count : !llvm.ptr
  %words = llvm.alloca %one32 x !llvm.array<{words} x i64> : (i32) -> !llvm.ptr
  %shape = llvm.alloca %one32 x !llvm.array<{rank} x i64> : (i32) -> !llvm.ptr
  %pair = llvm.alloca %one32 x !llvm.array<2 x i64> : (i32) -> !llvm.ptr
  %s0 = llvm.call @tw_expect(%count, %one32, %usage) : (i32, i32, !llvm.ptr) -> i32
  %ok0 = llvm.icmp "eq" %s0, %success : i32
  llvm.cond_br %ok0, ^take, ^refused(%s0 : i32)
^take:
  %type = llvm.load %args : !llvm.ptr -> i32
  %s1 = llvm.call @tw_expect(%type, %one32, %usage) : (i32, i32, !llvm.ptr) -> i32
  %ok1 = llvm.icmp "eq" %s1, %success : i32
  llvm.cond_br %ok1, ^begin, ^refused(%s1 : i32)
^refused(%refused: i32):
  llvm.return %refused : i32
^begin:
  %frame_at = llvm.getelementptr %args[0, 2] : (!llvm.ptr) -> !llvm.ptr, !any
  %frame = llvm.load %frame_at : !llvm.ptr -> !llvm.ptr
  %arena = llvm.call @tw_begin_run(%frame, %self) : (!llvm.ptr, !llvm.ptr) -> !llvm.ptr
  %none = llvm.icmp "eq" %arena, %null : !llvm.ptr
  llvm.cond_br %none, ^exhausted, ^work
^exhausted:
  %s2 = llvm.call @tw_raise_out_of_memory() : () -> i32
  llvm.return %s2 : i32
^work:
"""

_TAIL = """^done:
  llvm.call @tw_end_run(%frame) : (!llvm.ptr) -> ()
  llvm.call @tw_return(%ret, %success, %zero) : (!llvm.ptr, i32, i64) -> ()
  llvm.return %success : i32
^exit(%status: i32):
  llvm.call @tw_end_run(%frame) : (!llvm.ptr) -> ()
  llvm.return %status : i32"""
