"""``tilewright check MODEL``: what a model needs and all that is unsupported in it, without compiling it."""

from __future__ import annotations

import argparse
import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tilewright.printed import LONGEST_LINE, name_text, one_line
from tilewright.tools._common import (
    USER_ERROR,
    add_input_shape,
    add_register,
    add_specialize,
    add_untrusted,
    command,
    counted,
    demand_model,
    file_name,
    parser,
    progress,
    report,
    size_text,
)

if TYPE_CHECKING:
    from tilewright.inspection import CheckReport, Operator, Problem, Tensor, Work

_LABEL = 12  # width of the names of facts
_SHOWN_NODES = 5
_ALL_NODES = 10**8  # characters of a line, each of whose names is cut


@command
def main(argv: Sequence[str] | None = None) -> int:
    """Check the model and print what was found; the exit code is 2 where something is unsupported."""
    args = _parser().parse_args(argv)
    demand_model(args.model)
    from tilewright import driver

    with progress(f"checking {args.model}", args):
        found = driver.check_model(args.model, dict(args.input_shape), args.specialize, args.untrusted)
    longest, shown = (_ALL_NODES, None) if args.all else (LONGEST_LINE, _SHOWN_NODES)
    report(dataclasses.asdict(found), list(_lines(found, shown)), args, longest)
    return 0 if found.supported else USER_ERROR


def _parser() -> argparse.ArgumentParser:
    cli = parser("check", "show what a model needs, and all that is unsupported in it, without compiling it")
    cli.add_argument("model", type=file_name, help="the ONNX file")
    add_input_shape(cli)
    add_specialize(cli)
    add_register(cli)
    add_untrusted(cli)
    cli.add_argument("--all", action="store_true", help="name all nodes that have a problem")
    cli.epilog = "The exit code is 0 if the model can be compiled, and 2 if not."
    return cli


def _lines(found: CheckReport, shown: int | None) -> Iterator[str]:
    """A line for each fact, then one for each problem."""
    yield f"{found.model}: {_verdict(found)}"
    for label, text in _facts(found):
        yield f"{label:<{_LABEL}}{text}"
    for problem in found.problems:
        yield f"unsupported {_problem(problem, shown)}"
    for note in found.notes:
        yield f"note: {note}"


def _verdict(found: CheckReport) -> str:
    verdicts = Counter(node.verdict for node in found.nodes)
    nodes = f"{counted(len(found.nodes), 'node')}: {', '.join(f'{n} {v}' for v, n in verdicts.most_common())}"
    if not found.supported:
        return f"cannot be compiled: {counted(len(found.problems), 'problem')}; {nodes}"
    if verdicts["unchecked"]:
        return f"nothing unsupported was found; {nodes}"
    return f"can be compiled{', given its shapes' if found.give else ''}; {nodes}"


def _facts(found: CheckReport) -> Iterator[tuple[str, str]]:
    for label, tensors in (("inputs", found.inputs), ("outputs", found.outputs)):
        yield label, ", ".join(map(_tensor, tensors)) or "none"
    yield (
        "opsets",
        f"{', '.join(f'{name_text(d)} {v}' for d, v in found.opsets.items())} (IR version {found.ir_version})",
    )
    yield "operators", ", ".join(map(_operator, found.operators)) or "none"
    if host := [node.name for node in found.nodes if node.verdict == "host"]:
        yield "on the host", ", ".join(map(name_text, host))
    yield "types", ", ".join(found.dtypes)
    weights = found.parameters
    yield "weights", f"{weights.elements:,} numbers in {counted(weights.tensors, 'tensor')}, {size_text(weights.bytes)}"
    if found.work:
        yield "work", f"{_flops(found.work.flops)}, a multiply-add counted as two"
        parts = f"weights {size_text(found.work.weight_bytes)}, activations {size_text(found.work.activation_bytes)}"
        yield "memory", f"about {size_text(found.work.peak_bytes)} at its peak: {parts}"
    for own in found.specializations:
        yield "specialized", f"{own.sizes}{_cost(own.work) if own.work else ''}"
    if found.give:
        yield "open shapes", f"give, for example, {' '.join(found.give)}"


def _cost(work: Work) -> str:
    return f", {_flops(work.flops)}, about {size_text(work.peak_bytes)} at its peak"


def _flops(flops: int) -> str:
    """FLOPs for people: ``8.2 GFLOP``."""
    size, unit = float(flops), ""
    for unit in ("", "k", "M", "G", "T"):
        if size < 1000 or unit == "T":
            break
        size /= 1000
    return f"{size:.3g} {unit}FLOP"


def _tensor(tensor: Tensor) -> str:
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


if __name__ == "__main__":
    raise SystemExit(main(None))
