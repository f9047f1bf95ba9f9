"""One model measured: compiled cold, run alone in a process, and interleaved with other runtimes in this one."""

from __future__ import annotations

import argparse
import dataclasses
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.core.dims import InputShapes
from tilewright.core.errors import InputError
from tilewright.core.model import TensorInfo, explain_dynamic_sizes
from tilewright.core.sizes import has_dynamic_extents
from tilewright.core.specialization import fix_sizes
from tilewright.driver import machine
from tilewright.tools._options import find_records, is_program
from tilewright.tools._output import print_report, print_table, showing_progress
from tilewright.tools.benchmarks import children
from tilewright.tools.benchmarks.measure import (
    REST,
    Spread,
    compute_percentiles,
    compute_ratio,
    interleave,
    relative_error,
)
from tilewright.tools.benchmarks.rivals import RIVALS, translating_errors
from tilewright.tools.run import given_inputs

if TYPE_CHECKING:
    from tilewright.runtime.module import Module

OURS = "tilewright"
MACHINE = "multiply-adds"  # in registers, on each thread: what the machine's threads add up to, whoever shares it
TOLERANCE = 1e-4
SLICE_SECONDS = 0.2  # of a round, for each runtime
_HEAD = ("runtime", "threads", "ms", "quartiles", "p90", "p99", "ours/its", "quartiles", "error", "answers")

Run = tuple[int, str]  # threads, runtime
Errors = dict[Run, list[dict[str, Any]]]


def measure_model(args: argparse.Namespace) -> dict[str, Any]:
    """Measure the one model of ``args.models`` and print what was found; returns it as a record."""
    [model] = args.models
    path = _rivals_file(model) if args.compare else model
    shapes = dict(args.input_shape)
    infos = _find_inputs(model, shapes)
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        with showing_progress(f"compiling {model}", args) as say:
            program, compiled = _compile(model, folder, shapes, args)
            say(f"running {program} alone")
            peak = children.measure_run_memory(program, {info.name: info.static_shape for info in infos})
            say(f"loading {model}")
            modules = _load_modules(program, args.threads)
            manifest = modules[args.threads[0]].manifest
            inputs = given_inputs(infos, args)
            runs, errors = _prepare(modules, inputs, args.compare, path)
            if len(modules) > 1:
                runs |= _machine_runs(manifest.target, args.threads)
        with counting_rounds(f"measuring {model}", args) as show:
            calls: dict[Run, list[float]] = {}
            rest = REST if max(args.threads) > 1 else 0.0
            times = interleave(runs, args.rounds, SLICE_SECONDS, on_round=show, calls=calls, rest=rest)
    weights = manifest.weight_bytes if is_program(model) else children.weight_bytes(model)
    record = {
        "model": model,
        "target": args.target,
        "rounds": args.rounds,
        "weight_bytes": weights,
        "compile": compiled,
        "running": {"peak_bytes": peak},
        "runs": [_record_run(threads, args.threads[0], args.compare, times, calls, errors) for threads in args.threads],
    }
    print_report(record, _head_lines(record), args)
    if not args.json and not args.quiet:
        print_table(_table_rows(record), spare=("error", "quartiles"))
    return record


def _rivals_file(model: str) -> str:
    """The ONNX file that other runtimes load: ``model``, or the one beside a compiled program."""
    if not is_program(model):
        return model
    path = Path(model).with_suffix(".onnx")
    if not path.is_file():
        raise InputError(f"cannot compare '{model}': its model '{path}' is missing; give the ONNX file instead")
    return str(path)


def _find_inputs(model: str, shapes: InputShapes) -> Sequence[TensorInfo]:
    """The inputs; InputError where ``shapes`` leave one open: without its sizes there is nothing to measure."""
    from tilewright.frontends import model_inputs
    from tilewright.runtime.module import load_module

    if is_program(model):
        inputs = fix_sizes(load_module(model, 1).inputs, shapes, model)
    else:
        inputs = model_inputs(model, shapes)
    if any(has_dynamic_extents(info.shape) for info in inputs):
        raise InputError(f"cannot measure '{model}': {explain_dynamic_sizes(inputs)}")
    return inputs


def _compile(
    model: str, folder: str, shapes: InputShapes, args: argparse.Namespace
) -> tuple[str, dict[str, Any] | None]:
    """The program's path; and what compiling it took, if it was compiled.

    Where it is measured with one number of threads it is compiled for that, and has the schedules tuned for it.
    """
    if is_program(model):
        return model, None
    threads = args.threads[0] if len(args.threads) == 1 else None
    return children.compile_cold(model, folder, shapes, args.target, threads, find_records(args))


def _load_modules(program: str, threads: Sequence[int]) -> dict[int, Module]:
    from tilewright.runtime.module import load_module

    return {number: load_module(program, number) for number in threads}


def _prepare(
    modules: Mapping[int, Module], inputs: Mapping[str, np.ndarray], rivals: Sequence[str], path: str
) -> tuple[dict[Run, Callable[[], object]], Errors]:
    """The runs to measure, and each rival's distance from our answers, output by output."""
    runs: dict[Run, Callable[[], object]] = {}
    errors: Errors = {}
    shapes = {name: array.shape for name, array in inputs.items()}
    for threads, module in modules.items():
        runs[threads, OURS] = lambda module=module: module.run(inputs)
        got = module.run(inputs)
        for name in rivals:
            with translating_errors(name, path):
                rival = RIVALS[name](path, shapes, threads)
                want = rival.run(inputs)
            runs[threads, name] = lambda rival=rival: rival.run(inputs)
            errors[threads, name] = [
                {"name": info.name, "error": relative_error(a, np.asarray(b))}
                for info, a, b in zip(module.outputs, got, want, strict=True)
            ]
    return runs, errors


def _machine_runs(target: str, threads: Sequence[int]) -> dict[Run, Callable[[], object]]:
    """Each thread does the same work, so that n of them have done n times as much."""
    from tilewright.core.target import Target

    probes = [machine.make_arithmetic_probe(Target.parse(target)) for _ in range(max(threads))]
    return {(number, MACHINE): machine.combine_probes(probes[:number]).run for number in threads}


@contextmanager
def counting_rounds(text: str, args: argparse.Namespace) -> Iterator[Callable[[int], None]]:
    """Shows the count of the rounds, between these alone: an animation would take part in what is measured."""
    with showing_progress(text, args, animated=False) as say:
        yield lambda done: say(f"{text}, rounds", done, args.rounds)


def _record_run(
    threads: int,
    base: int,
    rivals: Sequence[str],
    times: Mapping[Run, Sequence[float]],
    calls: Mapping[Run, Sequence[float]],
    errors: Errors,
) -> dict[str, Any]:
    """All runtimes on one number of threads; ``base`` is the number that ``speedup`` compares with."""
    ours = times[threads, OURS]
    found = [
        {
            "name": name,
            "seconds": summarize_spread(times[threads, name]),
            "calls": compute_percentiles(calls[threads, name]),
            "ratio": dataclasses.asdict(compute_ratio(ours, times[threads, name])),
            "outputs": errors[threads, name],
            "agrees": all(output["error"] <= TOLERANCE for output in errors[threads, name]),
        }
        for name in rivals
    ]
    return {
        "threads": threads,
        "seconds": summarize_spread(ours),
        "calls": compute_percentiles(calls[threads, OURS]),
        "speedup": dataclasses.asdict(compute_ratio(times[base, OURS], ours)),
        **_machine_speedup(threads, base, times),
        "rivals": found,
        "fastest": min(found, key=lambda rival: rival["seconds"]["median"])["name"] if found else None,
    }


def _machine_speedup(threads: int, base: int, times: Mapping[Run, Sequence[float]]) -> dict[str, Any]:
    """The speedup of threads that only do arithmetic, and the share of it that ours reach."""
    if threads == base:
        return {}
    ours, machine = (
        [one / all_ for one, all_ in zip(times[base, name], times[threads, name], strict=True)]
        for name in (OURS, MACHINE)
    )
    machine = [threads / base * gain for gain in machine]
    return {
        "machine_speedup": summarize_spread(machine),
        "speedup_share": dataclasses.asdict(compute_ratio(ours, machine)),
    }


def summarize_spread(values: Sequence[float]) -> dict[str, float]:
    """Median and quartiles of the rounds as a record."""
    return dataclasses.asdict(Spread.of(values))


def _head_lines(record: Mapping[str, Any]) -> list[str]:
    lines = [f"{record['model']}: {record['rounds']} rounds"]
    if made := record["compile"]:
        lines.append(
            f"compiled in {made['seconds']:.2f} s, peak memory {format_megabytes(made)} MB, {from_cache(made)}"
        )
    lines.append(f"runs in peak memory {format_megabytes(record['running'])} MB")
    for run in record["runs"][1:]:
        of, base = "-".join(format_spread(run["speedup"])), record["runs"][0]["threads"]
        machine = "-".join(format_spread(run["machine_speedup"]))
        lines.append(f"{run['threads']} threads are {of} times as fast as {base} (the machine's arithmetic: {machine})")
    return lines


def from_cache(made: Mapping[str, Any]) -> str:
    """How long the program takes from the cache."""
    return f"from the cache in {made['cached_seconds']:.2f} s" if made["cached"] else "not from the cache"


def format_megabytes(memory: Mapping[str, int]) -> str:
    """The most memory that was used."""
    return f"{memory['peak_bytes'] / 1e6:.0f}"


def _table_rows(record: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """The table, its head first; without a rival it has no columns for one."""
    rows: list[tuple[str, ...]] = [_HEAD]
    for run in record["runs"]:
        threads = str(run["threads"])
        rows.append((OURS, threads, *format_spread(run["seconds"], 1e3), *format_tail(run["calls"]), "", "", "", ""))
        for rival in run["rivals"]:
            times, ratios = format_spread(rival["seconds"], 1e3), format_spread(rival["ratio"])
            verdict = "agree" if rival["agrees"] else "DIFFER"
            ends = format_tail(rival["calls"])
            rows.append((rival["name"], threads, *times, *ends, *ratios, f"{largest_error(rival):.1e}", verdict))
    return rows if len(rows) > 1 + len(record["runs"]) else [row[:6] for row in rows]


def format_tail(calls: Mapping[str, float]) -> tuple[str, str]:
    """The 90th and 99th percentiles of the times of calls, in ms."""
    return _digits(calls["p90"] * 1e3, 4), _digits(calls["p99"] * 1e3, 4)


def largest_error(rival: Mapping[str, Any]) -> float:
    """The largest relative error of the outputs."""
    return max((output["error"] for output in rival["outputs"]), default=0.0)


def format_spread(spread: Mapping[str, float], scale: float = 1.0) -> tuple[str, str]:
    """Median, and the quartiles with a dash between them."""
    median, low, high = (spread[key] * scale for key in ("median", "low", "high"))
    return _digits(median, 4), f"{_digits(low, 3)}-{_digits(high, 3)}"


def _digits(value: float, count: int) -> str:
    return np.format_float_positional(value, count, unique=False, fractional=False, trim="-")
