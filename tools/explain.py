"""``tilewright explain MODEL``: what a model became, kernel by kernel, and what holds each back."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.errors import InputError
from tilewright.tools import _machine
from tilewright.tools._common import add_input_shape, add_no_cache, command, parser, print_table, progress, report
from tilewright.tools.run import fill

if TYPE_CHECKING:
    from tilewright.product import Stepwise

_HEAD = ("ms", "%", "calls", "GFLOP/s", "% peak", "GB/s", "% copy", "steps", "kernel", "nodes")
_SHOWN_NODES = 2


@command
def main(argv: Sequence[str] | None = None) -> None:
    """Compile, measure each kernel in one thread, and print the slowest first."""
    args = _parser().parse_args(argv)
    if args.rounds < 1:
        raise InputError(f"--rounds is {args.rounds}: it must be at least 1")
    from tilewright import driver

    with progress(f"compiling {args.model}", args) as say:
        options = driver.make_options(progress=say, cache=not args.no_cache)
        made = driver.stepwise(args.model, dict(args.input_shape), options)
        say("measuring the machine")
        machine = {"flops": _machine.fma_peak(options.target), "bytes": _machine.copy_bandwidth()}
        say(f"measuring {args.model}")
        inputs = fill(made.program.inputs, "random", args.seed)
        seconds = made.time([np.ascontiguousarray(a) for a in inputs.values()], args.rounds)
    record = _record(args.model, made, seconds, machine)
    report(record, _head(record), args)
    if not args.json and not args.quiet:
        print_table([_HEAD, *map(_row, record["kernels"][: args.top or None])])
        for kernel in record["kernels"][: args.top or None] if args.schedules else []:
            print(f"\n{kernel['name']}\n{kernel['schedule'] or 'plain loops'}")


def _parser() -> argparse.ArgumentParser:
    cli = parser("explain", "show a model's kernels: nodes, work, time, share of the machine's peak")
    cli.add_argument("model", help="the ONNX file")
    cli.add_argument("--top", type=int, default=10, metavar="N", help="show the N slowest; 0 shows all (10)")
    cli.add_argument("--schedules", action="store_true", help="show the loops of each kernel shown")
    cli.add_argument("--rounds", type=int, default=15, metavar="N", help="runs of the model to measure (15)")
    cli.add_argument("--seed", type=int, default=0, metavar="N", help="of the random inputs (0)")
    add_input_shape(cli)
    add_no_cache(cli)
    return cli


def _record(model: str, made: Stepwise, seconds: Sequence[float], machine: dict[str, float]) -> dict[str, Any]:
    """Everything that is known, the slowest kernel first; times are of all calls of a kernel together."""
    total = sum(seconds)
    kernels = []
    for kernel in made.kernels.values():
        calls = [(call, t) for call, t in zip(made.program.calls, seconds, strict=True) if call.kernel == kernel.name]
        time = sum(t for _, t in calls)
        kernels.append({
            "name": kernel.name,
            "nodes": [list(call.nodes) for call, _ in calls],
            "schedule": kernel.schedule,
            "steps": kernel.extent,
            "note": kernel.note,
            "calls": len(calls),
            "flops": kernel.flops * len(calls),
            "bytes": kernel.bytes * len(calls),
            "seconds": time,
            "share": time / total,
            "peak_share": kernel.flops * len(calls) / time / machine["flops"],
            "copy_share": kernel.bytes * len(calls) / time / machine["bytes"],
        })  # fmt: skip
    kernels.sort(key=lambda kernel: -kernel["seconds"])
    return {"model": model, "seconds": total, "machine": machine, "kernels": kernels}


def _head(record: dict[str, Any]) -> list[str]:
    flops, machine = sum(kernel["flops"] for kernel in record["kernels"]), record["machine"]
    calls, seconds = sum(kernel["calls"] for kernel in record["kernels"]), record["seconds"]
    share = flops / seconds / machine["flops"]
    return [
        f"{record['model']}: {calls} calls of {len(record['kernels'])} kernels, {seconds * 1e3:.3g} ms in one thread,"
        f" {flops / 1e9:.3g} GFLOP at {flops / seconds / 1e9:.3g} GFLOP/s ({share:.0%} of peak)",
        f"one core: {machine['flops'] / 1e9:.0f} GFLOP/s, copies {machine['bytes'] / 1e9:.1f} GB/s",
    ]


def _row(kernel: dict[str, Any]) -> tuple[str, ...]:
    nodes = list(dict.fromkeys(name for names in kernel["nodes"] for name in names))
    more = f" +{len(nodes) - _SHOWN_NODES}" if len(nodes) > _SHOWN_NODES else ""
    return (
        f"{kernel['seconds'] * 1e3:.3f}",
        f"{kernel['share']:.1%}",
        str(kernel["calls"]),
        f"{kernel['flops'] / kernel['seconds'] / 1e9:.1f}",
        f"{kernel['peak_share']:.0%}",
        f"{kernel['bytes'] / kernel['seconds'] / 1e9:.1f}",
        f"{kernel['copy_share']:.0%}",
        str(kernel["steps"]) if kernel["schedule"] else "plain",
        kernel["name"],
        ", ".join(nodes[:_SHOWN_NODES]) + more,
    )


if __name__ == "__main__":
    raise SystemExit(main(None))
