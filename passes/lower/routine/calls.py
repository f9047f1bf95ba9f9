"""Calls of kernels and of the host, and of the functions of the frame that gather rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ....core.frame import element_bytes
from ....core.program import Program, Routine, Step
from .tensors import TensorWriter
from .values import Object, Tensor, Value

_FACTS = "!llvm.struct<(ptr, i64, i64, i64, i64)>"  # of a kernel: see frame.mlir


class CallWriter(TensorWriter):
    """Writes calls. They take and leave words, which ``runtime/steps/host_calls.py`` reads of those of the host."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self._kernels = {name: row for row, name in enumerate(dict.fromkeys(call.kernel for call in program.calls))}
        self._calls = {id(step): number for number, step in enumerate(self._routine.calls)}

    def _call_kernel(self, step: Step) -> None:
        row, axes = self._kernels[step.facts["kernel"]], step.facts["open"]
        tensors = [self._tensor(r) for r in step.operands[: len(axes)]]
        numbers = [self._number(r) for r in step.operands[len(axes) :]]
        count = sum(n is None for _, shape in step.types for n in shape or ())
        given = iter(numbers[len(numbers) - count :])
        made: list[Tensor] = []
        for register, (element, known) in zip(step.results, step.types, strict=True):
            shape = tuple([next(given) if n is None else n for n in known or ()])
            if "over" in step.facts:
                over = tensors[step.facts["over"]]
                made.append(Tensor(over.data, over.owner, shape, element))
                self._retain(made[-1])
            else:
                made.append(self._new_tensor(step, element, shape, register))
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
        elements = self._count_elements(made, [tensors[n].shape[axis] for n, axis in step.facts.get("summed", ())])
        self._demand_success("tw_call_kernel", "pippi", "%frame", number, facts, "%words", elements)

    def _count_elements(self, tensors: Sequence[Tensor], summed: Sequence[str | int]) -> str:
        """How many elements some tensors have together, each counted as often as the ``summed`` sizes say, but at least
        once: a sum of nothing is made as well."""
        one = self._constant(1)
        summed = [self._combine("arith.maxsi", self._constant(size), one) for size in summed]
        products = [self._constant(self._product((*tensor.shape, *summed))) for tensor in tensors]
        found = products[0] if products else self._constant(0)
        for product in products[1:]:
            found = self._combine("arith.addi", found, product)
        return found

    def _call_host(self, step: Step) -> None:
        words: list[str] = []
        for register in step.operands:
            value = self._values[register]
            if isinstance(value, Tensor):
                words += [self._address_word(value.data), self._constant(len(value.shape))]
                words += map(self._constant, value.shape)
            else:
                words.append(self._handle(value) if isinstance(value, Object) else value.name)
        first = len(words)
        self._words = max(self._words, first + sum(2 + len(shape or ()) for _, shape in step.types))
        self._store_words(words)
        self._demand_success("tw_call_host", "pip", "%frame", self._constant(self._calls[id(step)]), "%words")
        results: list[tuple[str, str, tuple[str | int, ...]]] = []
        for _, shape in step.types:  # all words are read before another call writes there
            handle = self._load(self._word_at("%words", first))
            data, extents = "", ()
            if shape is not None:
                data = self._load(self._word_at("%words", first + 1), "!llvm.ptr")
                extents = self._load_extents("%words", first + 2, shape)
            first += 1 if shape is None else 2 + len(shape)
            results.append((handle, data, extents))
        for register, (element, shape), (handle, data, extents) in zip(step.results, step.types, results, strict=True):
            owned = self._own(handle)
            self._values[register] = owned if shape is None else Tensor(data, owned.owner, extents, element)

    # Rows

    def _append(self, step: Step) -> Tensor:
        """A state with more behind it, which is copied there."""
        old, new, size = self._tensor(step.operands[0]), self._tensor(step.operands[1]), self._number(step.operands[2])
        whole = self._combine("arith.addi", *map(self._constant, (old.shape[0], new.shape[0])))
        fits = self._compare("eq", whole, size)
        self._demand(fits, self._refuse(step, "appends to a state what does not fit", whole, size))
        self._demand_same(step, old.shape[1:], new.shape[1:])
        number = step.facts["input"]
        [room] = [
            at for at, state in zip(self._layout.states, self._layout.grown, strict=True) if state.input == number
        ]
        place = self._frame_place(self._layout.inputs[number])
        row = self._constant(self._product((*old.shape[1:], element_bytes(old.element))))
        text = self._say(step, "would make a state longer than its session has room for: it needs and has")
        room_at, rows = self._frame_place(room), self._constant(old.shape[0])
        self._demand_success("tw_append", "pppiiipp", "%frame", place, room_at, row, rows, size, new.data, text)
        return replace(old, data=self._load(place, "!llvm.ptr"), shape=(size, *old.shape[1:]))

    def _demand_same(self, step: Step, shape: Sequence[str | int], other: Sequence[str | int]) -> None:
        """Refuse rows of another shape."""
        for extent, wanted in zip(other, shape, strict=True):
            if extent != wanted:
                fits = self._compare("eq", self._constant(extent), self._constant(wanted))
                behind = "]: the state's rows are others"
                self._demand(fits, self._refuse_shape(step, "appends rows of shape [", other, behind))

    def _collect(self, step: Step, last: bool) -> Value:
        """A collection of tensors: an owner of memory with rows, or null; or all of its rows as a tensor.

        One that this step is the last to read may become the next one.
        """
        if step.facts["function"] == "collect.none":
            return Object("")
        [owner] = self._flatten(self._values[step.operands[0]], ("none", None))
        if step.facts["function"] == "collect.one":
            row = self._tensor(step.operands[1])
            self._store_shape(row.shape)
            texts = (
                self._say(step, "gives an element of shape ["),
                self._text("] for a scan output whose elements have another one"),
            )
            sizes = self._bytes(row), "%shape", self._constant(len(row.shape)), self._constant(int(last))
            self._demand_success("tw_collect_row", "pppipiippp", "%frame", owner, row.data, *sizes, *texts, "%pair")
            return Object(self._load("%pair", "!llvm.ptr"))
        element, shape = step.types[0]
        rank = len(shape or ())
        self._rank = max(self._rank, rank)
        self._store_words(list(map(self._constant, step.facts["attributes"]["shape"])), "%shape")
        self._demand_success("tw_collect_all", "pppip", "%frame", owner, "%shape", self._constant(rank), "%pair")
        extents = self._load_extents("%shape", 0, [None] * rank)
        data = self._load(self._word_at("%pair", 1), "!llvm.ptr")
        made = Tensor(data, self._load("%pair", "!llvm.ptr"), extents, element)
        return replace(made, shape=self._refine_shape(extents, step))


def is_last_reader(routine: Routine, number: int) -> bool:
    """Return whether nobody reads the first operand of a step behind it, as far as that is the routine's own."""
    step = routine.steps[number]
    if not step.operands:
        return True
    register, behind = step.operands[0], Routine((), routine.steps[number + 1 :], routine.results)
    own = {*routine.arguments, *(r for before in routine.steps[:number] for r in before.results)}
    read = {r for each in behind.walk() for r in each.operands}
    read |= {r for each in behind.walk() for inner in each.regions for r in inner.results}
    return register in own and register not in read and register not in routine.results
