"""Standard kernels measured one by one, each between what one core can do at most."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.driver import machine
from tilewright.tools._options import find_records
from tilewright.tools._output import showing_progress
from tilewright.tools.benchmarks.markdown import describe_setup, format_table
from tilewright.tools.benchmarks.measure import interleave
from tilewright.tools.benchmarks.model_bench import counting_rounds, format_spread, summarize_spread
from tilewright.tools.networks import kernels
from tilewright.tools.run import make_inputs

if TYPE_CHECKING:
    from tilewright.driver.assembly import Stepwise

KERNEL_SLICE_SECONDS = 0.05  # of a round, for each of a kernel, multiply-adds and copies
_WORDS = {"compute": "multiply-adds", "memory": "copying"}


def measure_kernels(args: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Measure the kernels named in ``args.models``, or all, in one thread; returns their records, and a table."""
    names = list(dict.fromkeys(args.models)) or list(kernels.KERNELS)
    models = {name: kernels.get(name) for name in names}
    from tilewright.driver import api

    options = api.make_options(args.target, num_threads=1, records=find_records(args))
    peak = machine.make_arithmetic_probe(options.target)
    records = []
    for number, (name, model) in enumerate(models.items(), 1):
        which = f"{name} ({number} of {len(models)})"
        with showing_progress(f"compiling {which}", args):
            made = api.stepwise(model.build(), options=options)
        with counting_rounds(f"measuring {which}", args) as show:
            records.append({"name": name, "text": model.text, **_measure_kernel(model, made, peak, args, show)})
    return {"rounds": args.rounds, "kernels": records}, _kernel_table(records, args)


def _measure_kernel(
    model: kernels.KernelModel, made: Stepwise, peak: machine.Probe, args: argparse.Namespace, show: Any
) -> dict[str, Any]:
    """Rounds of the kernel, of multiply-adds, and of copying as many bytes as it reads and writes."""
    program = made.program
    steps = made.steps([np.ascontiguousarray(a) for a in make_inputs(program.inputs, "random", args.seed).values()])
    nbytes = model.bytes or sum(info.nbytes for info in (*program.inputs, *program.outputs, *program.params))
    counted = _find_kernel_calls(model, made)
    copying = machine.make_copy_probe(nbytes)
    steps.run()  # what the counted calls read is then there
    runs = {"kernel": lambda: steps.run(*counted), "peak": peak.run, "copy": copying.run}
    times = interleave(runs, args.rounds, KERNEL_SLICE_SECONDS, on_round=show)
    return {
        "flops": model.flops,
        "bytes": nbytes,
        "seconds": summarize_spread(times["kernel"]),
        "schedules": [made.kernels[program.calls[i].kernel].schedule for i in counted],
        **judge(times, model.flops / peak.amount),
    }


def _find_kernel_calls(model: kernels.KernelModel, made: Stepwise) -> list[int]:
    """The numbers of the calls that are the kernel: without conversions of the model's inputs and outputs."""
    calls = enumerate(made.program.calls)
    return [i for i, call in calls if not model.channels_last or made.kernels[call.kernel].flops]


def judge(times: Mapping[str, Sequence[float]], runs_of_peak: float) -> dict[str, Any]:
    """The bound of a kernel, and its share of that: the minimal time over the measured one, round by round.

    ``times`` are seconds of the ``kernel``, of the multiply-adds of ``peak``, of which its own are ``runs_of_peak``
    times as many, and of the ``copy`` of its bytes.
    """
    least = {"compute": [t * runs_of_peak for t in times["peak"]], "memory": list(times["copy"])}
    bound = max(least, key=lambda name: np.median(least[name]))
    return {
        "bound": bound,
        "share": summarize_spread([a / b for a, b in zip(least[bound], times["kernel"], strict=True)]),
    }


def _kernel_table(records: Sequence[dict[str, Any]], args: argparse.Namespace) -> str:
    rows = [["kernel", "ms", "GFLOP/s", "GB/s", "bound by", "share of that"]]
    for record in records:
        median, quartiles = format_spread(record["seconds"], 1e3)
        seconds = record["seconds"]["median"]
        share, low, high = (f"{record['share'][key]:.0%}" for key in ("median", "low", "high"))
        rate = f"{record['flops'] / seconds / 1e9:.0f}" if record["flops"] else ""
        rows.append([record["text"], f"{median} ({quartiles})", rate, f"{record['bytes'] / seconds / 1e9:.1f}",
                     _WORDS[record["bound"]], f"**{share}** ({low}-{high})"])  # fmt: skip
    return "\n".join([
        f"Measured on {describe_setup([], args.target)}: float32, one thread, {args.rounds} rounds in which the",
        "kernel, multiply-adds in registers and copying as many bytes as it reads and writes take turns. Medians with",
        "their quartiles; a convolution's FLOPs are those of the direct one.",
        "",
        format_table(rows),
        "",
    ])  # fmt: skip
