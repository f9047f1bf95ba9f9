"""Single operators in interleaved rounds, the slowest ones first.

They are measured beside onnxruntime and their bounds, or with all sizes open beside programs of known sizes.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

from tilewright.core.errors import ModelError, TilewrightError
from tilewright.driver import machine
from tilewright.tools._options import find_records
from tilewright.tools._output import showing_progress
from tilewright.tools.benchmarks.kernel_bench import judge
from tilewright.tools.benchmarks.markdown import describe_setup, format_table
from tilewright.tools.benchmarks.measure import REST, compute_ratio, geometric_mean, interleave, relative_error
from tilewright.tools.benchmarks.model_bench import summarize_spread
from tilewright.tools.benchmarks.rivals import OnnxRuntime
from tilewright.tools.networks.open_sizes import open_sizes
from tilewright.tools.networks.operators import OPERATORS, OperatorModel

_OPERATOR_SECONDS = 0.01  # of a round, for each runtime
_FEW_ELEMENTS = 10_000  # below that, what a call costs counts more than what a kernel does
TOLERANCE = 1e-3

Measure = Callable[[str, OperatorModel, int, argparse.Namespace], dict[str, Any]]


def measure_operators(args: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Measure the operators whose names begin with one of ``args.models``, or all; returns their records, and a table.

    Raises ModelError for a name with which no operator's begins.
    """
    chosen = _choose(args.models)
    measure = _measure_open if "open" in args.compare else _measure_beside_rival(args)
    records = []
    for number, (name, operator) in enumerate(chosen.items(), 1):
        with showing_progress(f"measuring {name} ({number} of {len(chosen)})", args):
            try:
                for n in args.threads:
                    records.append({"name": name, "threads": n, **measure(name, operator, n, args)})
            except TilewrightError as error:
                records.append({"name": name, "threads": args.threads[0], "refused": str(error)})
    records.sort(key=lambda record: record.get("ratio", {}).get("median", math.inf), reverse=True)
    make_table = _open_table if "open" in args.compare else _operator_table
    return {"rounds": args.rounds, "operators": records}, make_table(records, args)


def _choose(names: Sequence[str]) -> dict[str, OperatorModel]:
    for name in names:
        if not any(key.startswith(name) for key in OPERATORS):
            raise ModelError(f"there is no operator '{name}': `tilewright bench --ops` measures {len(OPERATORS)}")
    wanted = tuple(names)
    return {key: value for key, value in OPERATORS.items() if not wanted or key.startswith(wanted)}


def _measure_beside_rival(args: argparse.Namespace) -> Measure:
    from tilewright.driver import api

    peak = machine.make_arithmetic_probe(api.make_options(args.target).target)
    return functools.partial(_measure_operator, peak)


def _measure_open(name: str, operator: OperatorModel, threads: int, args: argparse.Namespace) -> dict[str, Any]:
    """Rounds of the program for all sizes ("ours") and of the program of the model's own sizes ("known")."""
    from tilewright.driver import api

    model = operator.build(name)
    inputs = operator.draw_inputs(model)
    with _loading_rival(model, threads) as rival:
        _declare_outputs(model, list(map(np.asarray, rival.run(inputs))))
    opened, kept = open_sizes(model)
    programs = [api.compile(m, args.target, num_threads=threads, records=find_records(args)) for m in (opened, model)]
    got, want = (program.run(inputs) for program in programs)
    ours, known = programs
    runs = {"ours": lambda: ours.run(inputs), "known": lambda: known.run(inputs)}
    times = interleave(runs, args.rounds, _OPERATOR_SECONDS)
    return {
        "ours": summarize_spread(times["ours"]),
        "known": summarize_spread(times["known"]),
        "ratio": dataclasses.asdict(compute_ratio(times["ours"], times["known"])),
        "error": max((relative_error(a, b) for a, b in zip(got, want, strict=True)), default=0.0),
        "elements": max(array.size for array in (*inputs.values(), *want)),
        "not_opened": kept,
    }


def _measure_operator(
    peak: machine.Probe, name: str, operator: OperatorModel, threads: int, args: argparse.Namespace
) -> dict[str, Any]:
    """Rounds of both runtimes, and on one thread of multiply-adds and of copying as many bytes as it has to move."""
    from tilewright.driver import api

    model = operator.build(name)
    inputs = operator.draw_inputs(model)
    with _loading_rival(model, threads) as rival:
        want = list(map(np.asarray, rival.run(inputs)))
        _declare_outputs(model, want)
        module = api.compile(model, args.target, num_threads=threads, records=find_records(args))
        got = module.run(inputs)
        runs = {"ours": lambda: module.run(inputs), "theirs": lambda: rival.run(inputs)}
        if threads == 1:
            nbytes = sum(array.nbytes for array in (*inputs.values(), *got)) + model.ByteSize()
            runs |= {"peak": peak.run, "copy": machine.make_copy_probe(nbytes).run}
        times = interleave(runs, args.rounds, _OPERATOR_SECONDS, rest=REST if threads > 1 else 0.0)
    ours, theirs = times["ours"], times["theirs"]
    plain, flops = _inspect_kernels(model, args.target)
    return {
        "ours": summarize_spread(ours),
        "onnxruntime": summarize_spread(theirs),
        "ratio": dataclasses.asdict(compute_ratio(ours, theirs)),
        "error": max((relative_error(a, b) for a, b in zip(got, want, strict=True)), default=0.0),
        "plain_loops": plain,
        **(judge({**times, "kernel": ours}, flops / peak.amount) if threads == 1 else {}),
    }


@contextmanager
def _loading_rival(model: onnx.ModelProto, threads: int) -> Iterator[OnnxRuntime]:
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        path = Path(folder) / "operator.onnx"
        onnx.save(model, path)
        yield OnnxRuntime(str(path), {}, threads)


def _declare_outputs(model: onnx.ModelProto, arrays: Sequence[np.ndarray]) -> None:
    """Say what outputs are whose types onnx does not infer: those of operators that are not its own."""
    for info, array in zip(model.graph.output, arrays, strict=True):
        if not info.type.WhichOneof("value"):
            kind = helper.np_dtype_to_tensor_dtype(array.dtype)
            info.CopyFrom(helper.make_tensor_value_info(info.name, kind, array.shape))


def _inspect_kernels(model: onnx.ModelProto, target: str) -> tuple[list[str], int]:
    """The kernels that no family took, and the floating-point operations of all calls.

    Of programs whose kernels cannot be called one by one nothing is known: none, and zero.
    """
    from tilewright.driver import api

    try:
        made = api.stepwise(model, options=api.make_options(target))
    except TilewrightError:
        return [], 0
    plain = sorted(name for name, kernel in made.kernels.items() if not kernel.schedule)
    return plain, sum(made.kernels[call.kernel].flops for call in made.program.calls)


def _operator_table(records: Sequence[Mapping[str, Any]], args: argparse.Namespace) -> str:
    measured = [record for record in records if "ratio" in record]
    rows = [["operator", "threads", "µs", "onnxruntime", "ratio", "quartiles", "of its bound", "notes"]]
    for record in records:
        if "refused" in record:
            rows.append([record["name"], str(record["threads"]), *[""] * 5, record["refused"]])
            continue
        notes = ["plain loops"] if record["plain_loops"] else []
        notes += [f"error {record['error']:.1g}"] if record["error"] > TOLERANCE else []
        found = record["ratio"]
        rows.append([
            record["name"], str(record["threads"]), f"{record['ours']['median'] * 1e6:.1f}",
            f"{record['onnxruntime']['median'] * 1e6:.1f}", f"**{found['median']:.2f}**",
            f"{found['low']:.2f}-{found['high']:.2f}",
            f"{record['share']['median']:.0%}" if "share" in record else "", ", ".join(notes),
        ])  # fmt: skip
    lines = [
        f"Measured on {describe_setup(['onnxruntime'], args.target)}: {args.rounds} interleaved rounds, medians.",
        "An operator's bound, on one thread, is the longer of two times: its kernels' floating-point operations as",
        "multiply-adds in registers, and a copy of as many bytes as its inputs, weights and outputs have.",
    ]
    lines += _mean_lines(measured, args.threads, 1.2)
    return "\n".join([*lines, "", format_table(rows), ""])


def _open_table(records: Sequence[Mapping[str, Any]], args: argparse.Namespace) -> str:
    rows = [["operator", "threads", "µs, all sizes", "µs, its own", "ratio", "quartiles", "notes"]]
    for record in records:
        if "refused" in record:
            rows.append([record["name"], str(record["threads"]), *[""] * 4, f"not opened: {record['refused']}"])
            continue
        notes = [f"lengths known: {', '.join(record['not_opened'])}"] if record["not_opened"] else []
        notes += [f"error {record['error']:.1g}"] if record["error"] > TOLERANCE else []
        notes += ["small"] if record["elements"] <= _FEW_ELEMENTS else []
        found = record["ratio"]
        rows.append([
            record["name"], str(record["threads"]), f"{record['ours']['median'] * 1e6:.1f}",
            f"{record['known']['median'] * 1e6:.1f}", f"**{found['median']:.2f}**",
            f"{found['low']:.2f}-{found['high']:.2f}", ", ".join(notes),
        ])  # fmt: skip
    large = [record for record in records if record.get("elements", 0) > _FEW_ELEMENTS]
    lines = [
        f"Measured on {describe_setup([], args.target)}: {args.rounds} interleaved rounds, medians.",
        "One program for inputs of all sizes, beside one that was compiled for the operator's own. Small operators,",
        f"whose inputs and outputs have at most {_FEW_ELEMENTS:,} elements each, are not in the mean.",
        *_mean_lines(large, args.threads, 1.3),
    ]
    return "\n".join([*lines, "", format_table(rows), ""])


def _mean_lines(measured: Sequence[Mapping[str, Any]], numbers: Sequence[int], bound: float) -> list[str]:
    """For each number of threads a line: the mean of the ratios, and how many are above ``bound``."""
    lines = []
    for threads in numbers:
        found = [record["ratio"]["median"] for record in measured if record["threads"] == threads]
        if found:
            over = sum(ratio > bound for ratio in found)
            what = f"{len(found)} operators, {threads} thread{'s' * (threads > 1)}"
            mean = geometric_mean(found)
            lines.append(f"{what}: the geometric mean of the ratios is {mean:.2f}, {over} are above {bound}.")
    return lines
