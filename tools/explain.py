"""``tilewright explain MODEL``: what a model became, kernel by kernel, and what holds each back."""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.core.errors import InputError
from tilewright.core.printed import count_text, name_text, shorten, size_text
from tilewright.core.subgraph_code import name_host_call
from tilewright.driver.machine import Machine
from tilewright.runtime.profile.roofline import compute_rate, find_bound, peak_share
from tilewright.runtime.tensors import tensor
from tilewright.tools import _plot
from tilewright.tools._command import as_command
from tilewright.tools._options import (
    add_input_shape,
    add_level,
    add_no_cache,
    add_records,
    add_register,
    add_rounds,
    add_specialize,
    add_target,
    add_untrusted,
    check_outputs,
    check_target,
    demand_model,
    file_name,
    file_path,
    find_records,
    make_parser,
)
from tilewright.tools._output import print_report, print_table, show, showing_progress
from tilewright.tools._tables import fact_lines
from tilewright.tools.run import add_inputs, given_inputs

if TYPE_CHECKING:
    from tilewright.core.dims import InputShapes
    from tilewright.core.progress import Teller
    from tilewright.driver.assembly import Stepwise
    from tilewright.driver.options import Options
    from tilewright.records import Winner

_COLUMNS = ("ms", "% time", "calls", "MFLOP", "MB", "GFLOP/s", "GB/s", "bound", "% peak", "nodes", "kernel")
_SPARE = ("kernel", "MB", "MFLOP", "GB/s", "calls")  # of a narrow table
_LABEL = 10  # width of the names of a kernel's facts
_SHOWN_CALLS = 3
_SHOWN_NODES = 56  # characters of them in a row
_SLOW = 0.2  # share of its bound below which a kernel is called slow
_LONG_ENOUGH = 2e-5  # seconds of a call: in less the call itself counts
_SHOWN_SLOW, _SHOWN_SLOW_NODES = 5, 40
_SHOWN_PARTS = 6  # lines of a schedule, unless all are asked for


@as_command
def main(argv: Sequence[str] | None = None) -> None:
    """Compile, measure each kernel in one thread, and print the slowest first."""
    args = _parser().parse_args(argv)
    _check_explain_args(args)
    from tilewright.driver import api

    given = dict(args.input_shape)
    with showing_progress(f"compiling {args.model}", args) as say:
        asked = {"opt_level": args.opt_level, "cache": not args.no_cache, "untrusted": args.untrusted}
        options = api.make_options(args.target, progress=say, records=find_records(args), **asked)
        programs = api.specialized_shapes(args.model, given, args.specialize, options.model_limits) or {"": given}
        found = {sizes: _measure_program(args, shapes, options, say) for sizes, shapes in programs.items()}
    if args.plot:
        _plot.draw(next(iter(found.values())), args.plot)
    if args.json:
        several = {"model": args.model, "specializations": [{"sizes": s, **own} for s, own in found.items()]}
        return print_report(several if args.specialize else found[""], [], args)
    for sizes, record in found.items():
        print_report(record, [*([f"specialized for {sizes}:"] if sizes else []), *_head_lines(record)], args)
        if not args.quiet:
            _print_kernels(record["kernels"][: None if args.all else args.top], args.full)


def _parser() -> argparse.ArgumentParser:
    cli = make_parser("explain", "show a model's kernels: nodes, work, time, share of the machine's peak")
    cli.add_argument("model", type=file_name, help="the ONNX file")
    add_target(cli)
    cli.add_argument("--top", type=int, default=10, metavar="N", help="show the N slowest kernels (10)")
    cli.add_argument("--all", action="store_true", help="show all kernels, the slowest first")
    cli.add_argument("--full", action="store_true", help="show schedules loop by loop")
    text = "draw a roofline and time bars: a .png or .svg file"
    cli.add_argument("--plot", type=file_path, metavar="FILE", help=text)
    add_rounds(cli, 15, "runs of the model to measure")
    add_level(cli)
    add_inputs(cli)
    add_input_shape(cli)
    add_specialize(cli)
    add_no_cache(cli)
    add_records(cli)
    add_register(cli)
    add_untrusted(cli)
    return cli


def _check_explain_args(args: argparse.Namespace) -> None:
    """Refuse what cannot be done before the long work begins."""
    for name in ("rounds", "top"):
        if (value := getattr(args, name)) < 1:
            raise InputError(f"--{name} is {value}: it must be at least 1")
    demand_model(args.model)
    check_target(args, [args.model])
    if args.plot and len(args.specialize) > 1:
        raise InputError(f"--plot draws one program, --specialize gives {len(args.specialize)}: give one")
    if args.plot:
        _plot.require_plotting(args.plot)
    check_outputs({"--plot": args.plot}, args.model)


def _measure_program(args: argparse.Namespace, shapes: InputShapes, options: Options, say: Teller) -> dict[str, Any]:
    """The report of ``explain`` about the program for inputs of these shapes."""
    from tilewright.driver import api

    made = api.stepwise(args.model, shapes, options)
    machine, measured = Machine(options.target), itertools.count(1)

    def between() -> None:
        machine.sample()
        say(f"measuring {args.model}, rounds", next(measured), args.rounds)

    inputs = given_inputs(made.program.inputs, args)
    infos = made.program.inputs
    arrays = tensor.order_inputs(inputs, {info.name: info for info in infos})
    tensor.check_shapes([array.shape for array in arrays], infos)
    seconds = made.time(arrays, args.rounds, between)
    winners = options.records.winners.get(options.target, {})
    return explain(args.model, made, seconds, machine.rates(), winners)


def explain(
    model: str,
    made: Stepwise,
    seconds: Sequence[float],
    machine: dict[str, float],
    winners: Mapping[str, Winner] | None = None,
) -> dict[str, Any]:
    """Everything that is known, the slowest kernel first; times and work are of all calls of a kernel together.

    ``machine`` has the rates of one core, ``flops`` and ``bytes`` a second. The least time that a kernel's arithmetic
    takes at the one and its arguments and results at the other say what it is bound by; ``peak_share`` is that least
    time over the measured one. It can exceed 1 for a kernel whose data lies in a cache, since copies go beyond those.
    ``winners`` are the records that kernels have their schedules from, by kernel.
    """
    kernels, total, count = [], sum(seconds), len(made.program.calls)
    for kernel in made.kernels.values():
        timed = zip(made.program.calls, seconds[:count], strict=True)
        calls = [(call, t) for call, t in timed if call.kernel == kernel.name]
        time, flops, nbytes = sum(t for _, t in calls), kernel.flops * len(calls), kernel.bytes * len(calls)
        kernels.append({
            "name": kernel.name,
            "nodes": [list(call.nodes) for call, _ in calls],
            **dataclasses.asdict(kernel.signature),
            "schedule": kernel.schedule,
            "schedule_json": json.loads(kernel.schedule_json) if kernel.schedule_json else None,
            "steps": kernel.extent,
            "tuned": _describe_winner((winners or {}).get(kernel.name)) if kernel.tuned else None,
            "codegen": kernel.codegen,
            "note": kernel.note,
            "reason": kernel.reason,
            "calls": len(calls),
            "flops": flops,
            "bytes": nbytes,
            "seconds": time,
            "share": compute_rate(time, total),
            "flops_per_second": compute_rate(flops, time),
            "bytes_per_second": compute_rate(nbytes, time),
            "bound": find_bound(flops, nbytes, machine),
            "peak_share": peak_share(flops, nbytes, time, machine),
        })  # fmt: skip
    kernels.sort(key=lambda kernel: -kernel["seconds"])
    record = {"model": model, "seconds": total, "arena_bytes": made.program.arena_bytes, "machine": machine}
    return {**record, "kernels": kernels, "host": _host(made, seconds[count:], total)}


def _describe_winner(winner: Winner | None) -> dict[str, Any]:
    """What a record says of a schedule: its time over that of the kernel's own, and what it was tuned for."""
    names = ("ratio", "low", "high", "network", "version", "time")
    return {name: getattr(winner, name) for name in names} if winner else {}


def _host(made: Stepwise, seconds: Sequence[float], total: float) -> list[dict[str, Any]]:
    """The calls of functions of the host, the slowest first."""
    calls = [
        {
            "function": name_host_call(step.facts),
            "nodes": list(step.nodes),
            "seconds": time,
            "share": compute_rate(time, total),
        }
        for step, time in zip(made.host_calls, seconds, strict=True)
    ]
    return sorted(calls, key=lambda call: -call["seconds"])


def _head_lines(record: dict[str, Any]) -> list[str]:
    flops, machine = sum(kernel["flops"] for kernel in record["kernels"]), record["machine"]
    calls, seconds = sum(kernel["calls"] for kernel in record["kernels"]), record["seconds"]
    plain = [kernel for kernel in record["kernels"] if not kernel["schedule"] and not kernel["codegen"]]
    flop_rate = compute_rate(flops, seconds)
    lines = [
        f"{record['model']}: {calls} calls of {len(record['kernels'])} kernels, {seconds * 1e3:.3g} ms in one thread,"
        f" {flops / 1e9:.3g} GFLOP at {flop_rate / 1e9:.3g} GFLOP/s ({flop_rate / machine['flops']:.0%} of peak)",
        f"one core: {machine['flops'] / 1e9:.0f} GFLOP/s of multiply-adds, copies {machine['bytes'] / 1e9:.1f} GB/s",
        f"intermediates: an arena of {size_text(record['arena_bytes'])}",
    ]
    if plain:
        spent = sum(kernel["share"] for kernel in plain)
        lines.append(f"plain loops, without a schedule: {len(plain)} of the kernels, {spent:.1%} of the time")
    if tuned := [kernel for kernel in record["kernels"] if kernel["tuned"] is not None]:
        spent = sum(kernel["share"] for kernel in tuned)
        lines.append(f"tuned schedules, from records: {len(tuned)} of the kernels, {spent:.1%} of the time")
    if slow := [kernel for kernel in record["kernels"] if _is_slow(kernel)]:
        names = ", ".join(shorten(_title(kernel), _SHOWN_SLOW_NODES) for kernel in slow[:_SHOWN_SLOW])
        more = f" and {len(slow) - _SHOWN_SLOW} more" if len(slow) > _SHOWN_SLOW else ""
        spent = sum(kernel["share"] for kernel in slow)
        lines.append(f"below {_SLOW:.0%} of their bound, {spent:.1%} of the time: {names}{more}")
    if others := [kernel for kernel in record["kernels"] if kernel["codegen"]]:
        names = ", ".join(dict.fromkeys(f"'{kernel['codegen']}'" for kernel in others))
        spent = sum(kernel["share"] for kernel in others)
        lines.append(f"code of code generators: {len(others)} of the kernels, {spent:.1%} of the time: {names}")
    if host := record["host"]:
        names = ", ".join(f"{call['function']} ({' + '.join(map(name_text, call['nodes']))})" for call in host)
        lines.append(f"on the host: {sum(call['share'] for call in host):.1%} of the time: {names}")
    return lines


def _is_slow(kernel: dict[str, Any]) -> bool:
    """Return whether a kernel that takes long enough to be measured is far from what bounds it."""
    seconds = kernel["seconds"] / max(kernel["calls"], 1)
    return not kernel["codegen"] and 0 < kernel["peak_share"] < _SLOW and seconds > _LONG_ENOUGH


def _print_kernels(kernels: Sequence[dict[str, Any]], full: bool) -> None:
    """The table of the kernels, and what each of them is."""
    print_table([_COLUMNS, *map(_kernel_row, kernels)], words=_COLUMNS[-2:], spare=_SPARE)
    for kernel in kernels:
        show(["", _title(kernel), *fact_lines(_kernel_facts(kernel, full), _LABEL, "  ")])


def _title(kernel: dict[str, Any]) -> str:
    """The nodes of a kernel's first call, and how many others there are."""
    more = f" (and {kernel['calls'] - 1} more)" if kernel["calls"] > 1 else ""
    return f"{shorten(_join_nodes(kernel['nodes'][0]) if kernel['nodes'] else '', _SHOWN_NODES)}{more}"


def _join_nodes(nodes: Sequence[str]) -> str:
    return " + ".join(map(name_text, nodes)) or "made by the compiler"


def _kernel_row(kernel: dict[str, Any]) -> tuple[str, ...]:
    return (
        f"{kernel['seconds'] * 1e3:.3f}",
        f"{kernel['share']:.1%}",
        str(kernel["calls"]),
        f"{kernel['flops'] / 1e6:.1f}",
        f"{kernel['bytes'] / 1e6:.2f}",
        f"{kernel['flops_per_second'] / 1e9:.1f}",
        f"{kernel['bytes_per_second'] / 1e9:.1f}",
        kernel["bound"],
        f"{kernel['peak_share']:.0%}",
        _title(kernel),
        kernel["name"],
    )


def _kernel_facts(kernel: dict[str, Any], full: bool = False) -> Iterator[tuple[str, str]]:
    """The sources and the work of a kernel, a line each. The nodes are those that each call fuses."""
    if [_title(kernel)] != list(map(_join_nodes, kernel["nodes"])):  # else they stand above
        for i, nodes in enumerate(kernel["nodes"][:_SHOWN_CALLS]):
            yield "" if i else "nodes", _join_nodes(nodes)
    if (more := len(kernel["nodes"]) - _SHOWN_CALLS) > 0:
        yield "", f"and {more} more calls"
    yield "kernel", kernel["name"]
    yield "shapes", f"{', '.join(kernel['inputs'])} -> {', '.join(kernel['results'])}"
    if kernel["layout"]:
        yield "layout", kernel["layout"]
    for i, part in enumerate(_schedule(kernel, full)):
        yield "" if i else "schedule", part
    if (tuned := kernel["tuned"]) is not None:
        yield "tuned", _tuned_text(tuned)
    if kernel["reason"]:
        yield "reason", f"no schedule of the whole: {kernel['reason']}"
    if kernel["note"]:
        yield "note", kernel["note"]


def _tuned_text(tuned: dict[str, Any]) -> str:
    """Where a tuned schedule is from, and what it gained there."""
    if not tuned:
        return "the schedule is from a record"
    network = f", for {name_text(tuned['network'])}" if tuned["network"] else ""
    text = f"{tuned['ratio']:.2f} of the time of its own schedule ({tuned['low']:.2f} to {tuned['high']:.2f})"
    return f"{text} when it was tuned{network}"


def _schedule(kernel: dict[str, Any], full: bool) -> list[str]:
    """The schedule of a kernel, loop by loop or in a few lines."""
    lines = kernel["schedule"].splitlines()
    if kernel["codegen"]:
        return [f"code of the code generator '{kernel['codegen']}', which Tilewright does not see into"]
    if not lines:
        steps = kernel["steps"]
        return [f"plain loops, {steps} steps" if steps > 1 else "plain loops, one thread"]
    first, *parts = lines if full else schedule_parts(lines)
    shown = parts if full else parts[:_SHOWN_PARTS]
    more = [f"and {len(parts) - len(shown)} more: --full shows all"] if len(parts) > len(shown) else []
    return [f"{kernel['steps']} steps: {first}", *shown, *more]


def schedule_parts(lines: Sequence[str]) -> list[str]:
    """A schedule's text in a few lines: what threads share, then each tile or copy with the loops around it.

    A tile has its extents and what it becomes; the whole text says which loops these are.
    """
    first, *others = [line.strip().rstrip(":") for line in lines]
    if not first.startswith("parallel"):
        first, others = "one thread", [first, *others]
    parts, loops, stage = [], 0, ""
    for line in others:
        kind, _, rest = line.partition(" ")
        if kind == "for":
            loops += 1
        elif kind == "stage":
            stage, loops = f"{rest} ahead: ", 0
        else:
            around = f"{count_text(loops, 'loop')} around a " if loops else ""
            parts.append(f"{stage}{around}{_tile(rest) if kind == 'tile' else line}")
            loops, stage = 0, ""
    return [first, *parts]


def _tile(text: str) -> str:
    """``tile of 14 x 32, tensorize outer_product`` of a tile's line, without its loops' names."""
    loops, _, forms = text.partition(": ")
    kept = [form for form in forms.split(", ") if not form.startswith(("unroll", "vectorize"))]
    return ", ".join([f"tile of {loops.rpartition(' of ')[2]}", *kept])


if __name__ == "__main__":
    raise SystemExit(main(None))
