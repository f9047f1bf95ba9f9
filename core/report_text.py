"""A ``CheckReport`` for people: what ``tilewright check`` prints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .printed import count_text, name_text, one_line, size_text

if TYPE_CHECKING:
    from .report import CheckReport, Operator, Problem, Tensor, Work

SHOWN_NODES = 5  # that are named of those with one problem
LABEL = 12  # width of the names of facts


def report_lines(found: CheckReport, shown: int | None = SHOWN_NODES) -> Iterator[str]:
    """A line for each fact, then one for each problem, which names at most so many ``shown`` nodes (None: all)."""
    yield f"{found.model}: {_verdict(found)}"
    for label, text in _report_facts(found):
        yield f"{label:<{LABEL}}{text}"
    for problem in found.problems:
        yield f"unsupported {_problem(problem, shown)}"
    for note in found.notes:
        yield f"note: {note}"


def _verdict(found: CheckReport) -> str:
    verdicts = Counter(node.verdict for node in found.nodes)
    nodes = f"{count_text(len(found.nodes), 'node')}: {', '.join(f'{n} {v}' for v, n in verdicts.most_common())}"
    if not found.supported:
        return f"cannot be compiled: {count_text(len(found.problems), 'problem')}; {nodes}"
    if verdicts["unchecked"]:
        return f"nothing unsupported was found; {nodes}"
    return f"can be compiled{', given its shapes' if found.give else ''}; {nodes}"


def _report_facts(found: CheckReport) -> Iterator[tuple[str, str]]:
    for label, tensors in (("inputs", found.inputs), ("outputs", found.outputs)):
        yield label, ", ".join(map(_format_tensor, tensors)) or "none"
    yield (
        "opsets",
        f"{', '.join(f'{name_text(d)} {v}' for d, v in found.opsets.items())} (IR version {found.ir_version})",
    )
    yield "operators", ", ".join(map(_operator, found.operators)) or "none"
    if host := [node.name for node in found.nodes if node.verdict == "host"]:
        yield "on the host", ", ".join(map(name_text, host))
    if taken := [node.name for node in found.nodes if node.verdict == "codegen"]:
        yield "by code generators", ", ".join(map(name_text, taken))
    yield "types", ", ".join(found.dtypes)
    weights = found.parameters
    tensors = count_text(weights.tensors, "tensor")
    yield "weights", f"{weights.elements:,} numbers in {tensors}, {size_text(weights.bytes)}"
    if found.work:
        yield "work", f"{_format_flops(found.work.flops)}, a multiply-add counted as two"
        parts = f"weights {size_text(found.work.weight_bytes)}, activations {size_text(found.work.activation_bytes)}"
        yield "memory", f"about {size_text(found.work.peak_bytes)} at its peak: {parts}"
    for own in found.specializations:
        yield "specialized", f"{own.sizes}{_cost(own.work) if own.work else ''}"
    if found.give:
        yield "open shapes", f"give, for example, {' '.join(found.give)}"


def _cost(work: Work) -> str:
    return f", {_format_flops(work.flops)}, about {size_text(work.peak_bytes)} at its peak"


def _format_flops(flops: int) -> str:
    """FLOPs for people: ``8.2 GFLOP``."""
    size, unit = float(flops), ""
    for unit in ("", "k", "M", "G", "T"):
        if size < 1000 or unit == "T":
            break
        size /= 1000
    return f"{size:.3g} {unit}FLOP"


def _format_tensor(tensor: Tensor) -> str:
    shape = "" if tensor.shape is None else f"[{','.join(map(str, tensor.shape))}]"
    return f"{name_text(tensor.name)} {tensor.dtype}{name_text(shape)}"


def _operator(operator: Operator) -> str:
    name = name_text(operator.op)
    return f"{name} {operator.count}" if operator.count > 1 else name


def _problem(problem: Problem, shown: int | None) -> str:
    names = ", ".join(map(name_text, problem.nodes[:shown]))
    more = len(problem.nodes) - len(problem.nodes[:shown])
    rest = f" and {more} more" if more else ""
    return f"{name_text(problem.op)} ({names}{rest}): {one_line(problem.reason)}; {one_line(problem.remedy)}"
