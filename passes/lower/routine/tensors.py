"""Steps that make tensors of others, ask for an extent or an element, or compare what the inputs' sizes must fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ....core.frame import element_bytes
from ....core.program import Program, Step
from .placing import place_outputs
from .scalars import ScalarWriter
from .values import Scalar, Tensor


class TensorWriter(ScalarWriter):
    """Writes steps on tensors, and the memory of those that are made."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self._placed = place_outputs(self._routine)

    def _new_tensor(self, step: Step, element: str, shape: Sequence[str | int], register: int) -> Tensor:
        """A tensor of any content, with one reference to its owner, or at the place of an output."""
        self._demand_sizes(step, shape)
        made, output = Tensor("", "", tuple(shape), element), self._placed.get(register)
        if output is None:
            self._demand_success("tw_new_tensor", "pip", "%frame", self._bytes(made), "%pair")
        else:
            place = self._frame_place(self._layout.outputs[output])
            self._demand_success("tw_new_output", "ppip", "%frame", place, self._bytes(made), "%pair")
        data = self._load(self._word_at("%pair", 1), "!llvm.ptr")
        return replace(made, data=data, owner="" if output is not None else self._load("%pair", "!llvm.ptr"))

    def _demand_sizes(self, step: Step, shape: Sequence[str | int]) -> None:
        """Refuse a shape with a negative extent."""
        names = [n for n in shape if isinstance(n, str)]
        if not names:
            return
        least = names[0]
        for name in names[1:]:
            least = self._combine("arith.minsi", least, name)
        fits = self._compare("sge", least, self._constant(0))
        text = "]: the inputs' sizes do not fit"
        self._demand(fits, self._refuse_shape(step, "would make a tensor of shape [", shape, text))

    def _refine_shape(self, shape: Sequence[str | int], step: Step) -> tuple[str | int, ...]:
        """A shape with the extents that the result's type knows."""
        types = step.types[0][1] or ()
        return tuple(extent if known is None else known for extent, known in zip(shape, types, strict=True))

    # Views

    def _collapse(self, step: Step) -> Tensor:
        source = self._tensor(step.operands[0])
        shape = tuple(self._product([source.shape[axis] for axis in group]) for group in step.facts["groups"])
        return replace(source, shape=self._refine_shape(shape, step))

    def _expand(self, step: Step) -> Tensor:
        source = self._tensor(step.operands[0])
        given = iter([self._number(r) for r in step.operands[1:]])
        shape = tuple([next(given) if n is None else n for n in step.facts["shape"]])
        elements, wanted = self._product(source.shape), self._product(shape)
        if elements != wanted:
            count = self._constant(elements)
            fits = self._compare("eq", count, self._constant(wanted))
            refusal = self._refuse_shape(step, "cannot make shape [", shape, "] of %lld elements", count)
            self._demand(fits, refusal)
        self._demand_sizes(step, shape)
        return replace(source, shape=shape)

    def _cast(self, step: Step) -> Tensor:
        source, wanted = self._tensor(step.operands[0]), step.facts["shape"]
        shown = ["any" if n is None else n for n in wanted]
        for extent, known in zip(source.shape, wanted, strict=True):
            if known is not None and extent != known:
                fits = self._compare("eq", self._constant(extent), self._constant(known))
                behind = f"] where {shown} is needed"
                self._demand(fits, self._refuse_shape(step, "has a tensor of shape [", source.shape, behind))
        return replace(source, shape=self._refine_shape(source.shape, step))

    def _choose(self, step: Step) -> Tensor:
        first, second, condition = self._tensor(step.operands[0]), self._tensor(step.operands[1]), step.operands[2]
        bit = self._holds(self._number(condition))

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
        return Tensor(data, owner, self._refine_shape(shape, step), first.element)

    # Numbers of a tensor

    def _dim(self, step: Step) -> Scalar:
        shape, axis = self._tensor(step.operands[0]).shape, self._number(step.operands[1])
        constants = {name: text for text, name in self._constants.items()}
        if axis in constants:
            return Scalar(self._constant(shape[int(constants[axis].split()[0])]))
        found = self._constant(0)
        for number, extent in enumerate(shape):
            bit = self._compare("eq", axis, self._constant(number))
            found = self._new(f"llvm.select {bit}, {self._constant(extent)}, {found} : i1, i64")
        return Scalar(found)

    def _extract(self, step: Step) -> Scalar:
        source, indices = self._tensor(step.operands[0]), [self._number(r) for r in step.operands[1:]]
        place = self._constant(0)
        for index, extent in zip(indices, source.shape, strict=True):
            size = self._constant(extent)
            inside = self._compare("ult", index, size)
            text = "reads an element that is not there: index and extent are"
            self._demand(inside, self._refuse(step, text, index, size))
            place = self._new(f"llvm.add {self._combine('arith.muli', place, size)}, {index} : i64")
        kind = {"i1": "i8", "index": "i64", "bf16": "i16"}.get(source.element, source.element)
        at = self._new(f"llvm.getelementptr {source.data}[{place}] : (!llvm.ptr, i64) -> !llvm.ptr, {kind}")
        name = self._load(at, kind)
        if source.element == "bf16":
            wide = self._new(f"llvm.zext {name} : i16 to i32")
            high = self._new(f"llvm.shl {wide}, %sixteen : i32")
            name, kind = self._new(f"llvm.bitcast {high} : i32 to f32"), "f32"
        if kind.startswith("f"):
            return Scalar(name if kind == "f64" else self._new(f"llvm.fpext {name} : {kind} to f64"), True)
        return Scalar(name if kind == "i64" else self._new(f"llvm.sext {name} : {kind} to i64"))

    def _report(self, step: Step) -> None:
        """End the run where a word says that a number is outside."""
        data = self._tensor(step.operands[0]).data
        fine, text = self._compare("eq", self._load(data), self._constant(0)), self._say(step, step.facts["text"])
        self._demand(fine, self._call("tw_report", "ppw", data, text, "%success"))

    # Copies

    def _slice(self, step: Step) -> Tensor:
        """A copy of the elements."""
        source = self._tensor(step.operands[0])
        left = iter([self._number(r) for r in step.operands[1:]])
        parts = [step.facts[name] for name in ("offsets", "sizes", "strides")]
        offsets, sizes, strides = ([next(left) if n is None else n for n in numbers] for numbers in parts)
        zero, one = self._constant(0), self._constant(1)
        for offset, size, stride, extent in zip(offsets, sizes, strides, source.shape, strict=True):
            o, n, by, most = map(self._constant, (offset, size, stride, extent))
            before = self._combine("arith.subi", n, one)
            span = self._combine("arith.muli", before, by)
            last = self._combine("arith.addi", o, span)
            bits = [self._compare(*test) for test in (("ult", o, most), ("uge", last, o), ("ult", last, most))]
            inside = self._new(f"llvm.and {self._new(f'llvm.and {bits[0]}, {bits[1]} : i1')}, {bits[2]} : i1")
            empty = self._compare("eq", n, zero)
            fits = self._new(f"llvm.or {inside}, {empty} : i1")
            self._demand(fits, self._refuse(step, "takes more elements than there are", n, most))
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
        made = self._new_tensor(step, source.element, sizes, step.results[0])
        rank = len(sizes)
        self._words = max(self._words, 2 * rank)
        self._store_words([*map(self._constant, sizes), *map(self._constant, apart)])
        sizes_at, apart_at = "%words", self._word_at("%words", rank)
        passed = made.data, from_, self._constant(rank), sizes_at, apart_at, self._constant(element)
        self._emit(self._call("tw_copy_box", "ppippi", *passed, result=""))
        kept = tuple(sizes[axis] for axis in step.facts["kept"])
        return replace(made, shape=self._refine_shape(kept, step))
