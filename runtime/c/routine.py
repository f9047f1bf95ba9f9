"""Routines as C: for given sizes, a function notes the kernel calls of an open program (``tilewright_open.h``).

It can where the sizes of the inputs determine all others, and the calls: where the whole program is one segment
(``segments.py``). In C, a tensor is a row of extents and the number of its buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ...core.errors import ArtifactError
from ...core.model import OBJECTS
from ...core.program import REPORT, Kernel, Step
from ...core.sizes import Extent, Sym, bounds_of
from ..artifact.c_text import format_array, format_number, format_string, format_struct
from ..artifact.manifest import Manifest
from ..steps.actions import describe_origin
from ..steps.segments import DETERMINED, count_dynamic_extents, tensor_count
from ..vm.replay import ELEMENTS
from .arithmetic import SCALARS


@dataclass
class RoutineText:
    """The C text of an open program's routine, one that ``demand_determined`` takes.

    Names of C begin with ``name``, and end with ``suffix``, which differs between the variants of a program.
    """

    manifest: Manifest
    name: str
    suffix: str = ""
    _tensors: dict[int, tuple[int, int]] = field(default_factory=dict)  # registers' places among the extents; ranks
    _held: dict[int, int] = field(default_factory=dict)  # tensors' registers, as C counts them
    _numbers: dict[int, str] = field(default_factory=dict)  # other registers, as C calls them
    _reals: int = 0
    _extents: int = 0
    _words: list[int] = field(default_factory=list)  # of each call
    _made: int = 0
    _reports: list[Step] = field(default_factory=list)

    @cached_property
    def sizes(self) -> tuple[Sym, ...]:
        """The sizes that the caller gives, in the order in which inputs have them."""
        return sizes_of(self.manifest)

    def text(self) -> str:
        """The function that notes the calls, and the description of the routine."""
        lines = [*self._begin(), *(line for step in self._routine.steps for line in self._step(step)), *self._end()]
        kernels = format_array(f"tw_kernel {self._make_symbol('kernels')}", list(map(_kernel, self.manifest.kernels)))
        body = "".join(f"  {line}\n" for line in lines)
        locals_ = "int64_t *const e = plan->extents, *const r = plan->numbers, *const b = plan->held;"
        head = (
            f"static inline int {self._make_symbol('plan')}(tw_plan *plan, char *error, size_t size) {{\n  {locals_}\n"
        )
        unused = "  double *const f = plan->reals;\n  int64_t count = 0;\n  (void)r, (void)f, (void)count;\n"
        return f"{kernels}\n{head}{unused}{body}  (void)error, (void)size;\n  return 0;\n}}\n\n{self._description()}"

    @property
    def _routine(self) -> Any:
        assert self.manifest.routine is not None
        return self.manifest.routine

    def _make_symbol(self, what: str) -> str:
        return f"{self.name}_{what}{self.suffix}"

    def _description(self) -> str:
        manifest = self.manifest
        results = [self._tensors[register][0] for register in self._routine.results]
        inputs = [self._tensors[register][0] for register in self._routine.arguments[: len(manifest.inputs)]]
        fields = {
            "plan": self._make_symbol("plan"),
            "kernels": self._make_symbol("kernels"),
            "shapes": self._make_symbol("shapes_at"),
            "texts": self._make_symbol("texts"),
            "kernel_count": len(manifest.kernels),
            "inputs": len(manifest.inputs),
            "outputs": len(manifest.outputs),
            "sizes": len(self.sizes),
            "tensors": len(self._held),
            "extents": self._extents,
            "numbers": len(self._numbers) - self._reals,
            "reals": self._reals,
            "buffers": len(self._routine.arguments) + self._made,
            "reports": len(self._reports),
            "calls": len(self._words),
            "words": sum(self._words),
            "most": max(self._words, default=0),
        }
        places = format_array(
            f"int64_t {self._make_symbol('shapes_at')}", [", ".join(map(str, [*inputs, *results, 0]))]
        )
        said = [format_string(describe_origin(step) + step.facts["text"]) for step in self._reports]
        texts = format_array(f"char *const {self._make_symbol('texts')}", [", ".join([*said, "NULL"])])
        return "\n".join([places, texts, format_struct(f"tw_routine {self._make_symbol('routine')}", fields)])

    def _begin(self) -> Iterator[str]:
        """The extents of arguments, and what sizes may be."""
        for i, size in enumerate(self.sizes):
            yield from _held_to(f"plan->sizes[{i}]", size, self.name)
        shapes = [info.shape for info in (*self.manifest.inputs, *self.manifest.params)]
        for i, (register, shape) in enumerate(zip(self._routine.arguments, shapes, strict=True)):
            place = self._tensor(register, len(shape))
            yield from self._set(place, map(self._write_extent, shape))
            yield f"b[{self._held[register]}] = {i};"
        yield f"plan->buffer_count = {len(shapes)};"

    def _end(self) -> Iterator[str]:
        for i, register in enumerate(self._routine.results):
            yield f"plan->results[{i}] = b[{self._held[register]}];"

    def _write_extent(self, extent: Extent) -> str:
        return f"plan->sizes[{self.sizes.index(extent)}]" if isinstance(extent, Sym) else format_number(extent)

    def _tensor(self, register: int, rank: int) -> int:
        """Room for a tensor's extents."""
        place = self._extents
        self._tensors[register], self._held[register] = (place, rank), len(self._held)
        self._extents += rank
        return place

    @staticmethod
    def _set(place: int, values: Iterator[str] | Sequence[str]) -> Iterator[str]:
        yield from (f"e[{place + axis}] = {value};" for axis, value in enumerate(values))

    def _shape(self, register: int) -> list[str]:
        place, rank = self._tensors[register]
        return [f"e[{place + axis}]" for axis in range(rank)]

    def _number(self, register: int, real: bool = False) -> str:
        """The C name of a scalar's register."""
        if register not in self._numbers:
            known = self._reals if real else len(self._numbers) - self._reals
            self._numbers[register] = f"{'f' if real else 'r'}[{known}]"
            self._reals += real
        return self._numbers[register]

    def _step(self, step: Step) -> Iterator[str]:
        steps: Mapping[str, Callable[[Step], Iterator[str]]] = {
            "func.call": self._call,
            "tensor.collapse_shape": self._collapse,
            "tensor.expand_shape": self._expand,
            "tensor.cast": self._cast,
            "tensor.select": self._select,
            "tensor.dim": self._dim,
            "cf.assert": self._check,
            REPORT: self._report,
            "arith.constant": self._constant,
        }
        return steps.get(step.op, self._scalar)(step)

    def _scalar(self, step: Step) -> Iterator[str]:
        expression, operands = SCALARS[step.op], [self._numbers[r] for r in step.operands]
        real = operands[-1].startswith("f") if expression.real is None else expression.real
        yield f"{self._number(step.results[0], real)} = {expression.text(step.facts).format(*operands)};"

    def _constant(self, step: Step) -> Iterator[str]:
        value = step.facts["value"]
        yield f"{self._number(step.results[0], isinstance(value, float))} = {format_number(value)};"

    def _dim(self, step: Step) -> Iterator[str]:
        source, axis = step.operands
        yield f"{self._number(step.results[0])} = e[{self._tensors[source][0]} + {self._numbers[axis]}];"

    def _check(self, step: Step) -> Iterator[str]:
        condition, *compared = (self._numbers[r] for r in step.operands)
        if not compared:
            yield f"if (!{condition}) {_refusal(step, step.facts['text'])}"
            return
        text, numbers = (
            format_string(describe_origin(step) + step.facts["text"]),
            ", ".join(f"(long long){n}" for n in compared),
        )
        yield f'if (!{condition}) return tw_fail(error, size, "%s (%lld and %lld)", {text}, {numbers});'

    def _report(self, step: Step) -> Iterator[str]:
        yield f"tw_reported(plan, {len(self._reports)}, b[{self._held[step.operands[0]]}]);"
        self._reports.append(step)

    def _collapse(self, step: Step) -> Iterator[str]:
        shape = self._shape(step.operands[0])
        place = self._tensor(step.results[0], len(step.facts["groups"]))
        for axis, group in enumerate(step.facts["groups"]):
            first = shape[group[0]] if group else "1"
            product = first
            for other in group[1:]:
                product = f"tw_mul({product}, {shape[other]})"
            yield f"e[{place + axis}] = {product};"
        yield self._same(step)

    def _expand(self, step: Step) -> Iterator[str]:
        source, *sizes = step.operands
        given = iter([self._numbers[r] for r in sizes])
        shape = step.facts["shape"]
        place = self._tensor(step.results[0], len(shape))
        yield from self._set(place, [next(given) if n is None else format_number(n) for n in shape])
        before, rank = self._tensors[source]
        differ = f"tw_elements(e + {before}, {rank}) != tw_elements(e + {place}, {len(shape)})"
        yield f"if ({differ}) {_refusal(step, 'cannot have a shape of another number of elements: ' + _UNFIT)}"
        yield self._same(step)

    def _cast(self, step: Step) -> Iterator[str]:
        shape = self._shape(step.operands[0])
        place = self._tensor(step.results[0], len(shape))
        for extent, wanted in zip(shape, step.facts["shape"], strict=True):
            if wanted is not None:
                yield f"if ({extent} != {wanted}) {_refusal(step, f'needs an extent of {wanted}: {_UNFIT}')}"
        yield from self._set(place, shape)
        yield self._same(step)

    def _select(self, step: Step) -> Iterator[str]:
        first, second, condition = step.operands
        chosen = f"{self._numbers[condition]} ? {{}} : {{}}"
        pairs = zip(self._shape(first), self._shape(second), strict=True)
        place = self._tensor(step.results[0], self._tensors[first][1])
        yield from self._set(place, [chosen.format(*pair) for pair in pairs])
        both = (f"b[{self._held[register]}]" for register in (first, second))
        yield f"b[{self._held[step.results[0]]}] = {chosen.format(*both)};"

    def _same(self, step: Step) -> str:
        """The result of a view is where the operand is."""
        return f"b[{self._held[step.results[0]]}] = b[{self._held[step.operands[0]]}];"

    def _call(self, step: Step) -> Iterator[str]:
        count, axes = tensor_count(step), step.facts["open"]
        tensors, numbers = step.operands[:count], [self._numbers[r] for r in step.operands[count:]]
        sizes = [self._shape(r)[axis] for r, own in zip(tensors, axes, strict=True) for axis in own] + numbers
        given = iter(numbers[len(numbers) - count_dynamic_extents(step) :])
        for register, (kind, shape) in zip(step.results, step.facts["types"], strict=True):
            place = self._tensor(register, len(shape))
            yield from self._set(place, [next(given) if n is None else format_number(n) for n in shape])
            negative = f"(count = tw_count(plan, e + {place}, {len(shape)})) < 0"
            yield f"if ({negative}) {_refusal(step, f'would make a tensor with a negative extent: {_UNFIT}')}"
            yield f"b[{self._held[register]}] = {self._memory(step, kind)};"
        words = [f"tw_tensor_word(plan, b[{self._held[r]}]);" for r in (*tensors, *step.results)]
        words += [f"tw_word(plan, -1, {size});" for size in sizes]
        self._words.append(len(words))
        names = [kernel.name for kernel in self.manifest.kernels]
        yield from [*words, f"tw_call(plan, {names.index(step.facts['kernel'])});"]

    def _memory(self, step: Step, kind: str) -> str:
        """The buffer of a call's result."""
        if "over" in step.facts:
            return f"b[{self._held[step.operands[step.facts['over']]]}]"
        self._made += 1
        return f"tw_made(plan, count, {np.dtype(ELEMENTS.get(kind, 'i1')).itemsize})"


_UNFIT = "the sizes do not fit"


def sizes_of(manifest: Manifest) -> tuple[Sym, ...]:
    """The sizes that a program's inputs leave open, each once."""
    return tuple(dict.fromkeys(n for info in manifest.inputs for n in info.shape if isinstance(n, Sym)))


def demand_determined(manifest: Manifest, label: str, remedy: str = "") -> None:
    """Raise ArtifactError for a program without an entry that does more than sizes alone determine.

    The error names ``label`` and the node, and ends with the ``remedy``.
    """
    reason = next(_reasons(manifest), "")
    if reason:
        raise ArtifactError(f"{label} cannot be called from C: {reason}{remedy}")


def _reasons(manifest: Manifest) -> Iterator[str]:
    for info in (*manifest.inputs, *manifest.outputs):
        if info.dtype in OBJECTS:
            yield f"'{info.name}' is a {info.dtype}, which Python holds"
        if not info.ranked:
            yield f"only the run knows the rank of '{info.name}'"
    for step in manifest.routine.steps if manifest.routine else ():
        if step.op not in DETERMINED:
            yield describe_origin(step) + _MORE.get(step.op, "reads sizes, or what to do, from data")
        elif step.op not in SCALARS and step.op.startswith("arith.") and step.op != "arith.constant":
            yield f"{describe_origin(step)}needs '{step.op}', which C has no word for"


_MORE = {
    "host.call": "is computed by a function of the runtime's Python",
    "scf.if": "chooses what to do while it runs, by the runtime's Python",
    "scf.for": "repeats steps with sizes of their own, by the runtime's Python",
    "scf.while": "repeats steps with sizes of their own, by the runtime's Python",
}


def _kernel(kernel: Kernel) -> str:
    scratch = -1 if kernel.asks_scratch else kernel.scratch_bytes
    pieces = kernel.pieces if kernel.parallel else 0
    return f"{{{kernel.extent}, {pieces}, {kernel.parallel_from}, {scratch}}}"


def _held_to(value: str, size: Sym, name: str) -> Iterator[str]:
    """C that refuses a size that the program was not compiled for."""
    within = bounds_of(size)
    tests = [f"{value} < {max(within.low or 0, 0)}"] + ([f"{value} > {within.high}"] if within.high is not None else [])
    begin, end = (
        format_string(f"{name}: {size} is "),
        format_string(f", which must be {within}"),
    )  # names are no formats
    yield f'if ({" || ".join(tests)}) return tw_fail(error, size, "%s%lld%s", {begin}, (long long){value}, {end});'


def _refusal(step: Step, text: str) -> str:
    return f'return tw_fail(error, size, "%s", {format_string(describe_origin(step) + text)});'
