"""Several models, each measured in a process of its own, as tables in markdown."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tilewright.core.dims import option_text
from tilewright.tools._options import find_records
from tilewright.tools._output import showing_progress
from tilewright.tools.benchmarks.children import records_words, run_module
from tilewright.tools.benchmarks.markdown import describe_setup, format_table
from tilewright.tools.benchmarks.measure import geometric_mean
from tilewright.tools.benchmarks.model_bench import OURS, format_megabytes, format_spread, format_tail, largest_error


def measure_models(args: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Measure all of ``args.models``; returns their records, and the tables as text."""
    options = [f"--compare={name}" for name in args.compare] + [f"--threads={number}" for number in args.threads]
    options += [f"--input-shape={option_text(name, said)}" for name, said in args.input_shape]
    options += [f"--target={args.target}", f"--rounds={args.rounds}", f"--seed={args.seed}", "--json"]
    options += [f"--fill={args.fill}", *([f"--inputs={args.inputs}"] if args.inputs else [])]
    options += records_words(find_records(args))
    with showing_progress("measuring", args) as say:
        records = []
        for number, model in enumerate(args.models):
            say("measuring models", number, len(args.models))
            records.append(run_module("bench", [model, *options])[0])
    means = {str(n): mean for i, n in enumerate(args.threads) if (mean := _mean_ratio(records, i)) is not None}
    return {"models": records, "geometric_means": means}, "\n".join(_write_paragraphs(records, args))


def _mean_ratio(records: Sequence[dict[str, Any]], index: int) -> float | None:
    """The geometric mean of the ratios to the faster rival; None without a rival."""
    ratios = [ratio["median"] for record in records if (ratio := _ratio(record["runs"][index])) is not None]
    return geometric_mean(ratios) if ratios else None


def _ratio(run: dict[str, Any]) -> dict[str, float] | None:
    return next((rival["ratio"] for rival in run["rivals"] if rival["name"] == run["fastest"]), None)


def _write_paragraphs(records: Sequence[dict[str, Any]], args: argparse.Namespace) -> Iterator[str]:
    """The paragraphs of the markdown, line by line."""
    yield f"Measured on {describe_setup(args.compare, args.target)}: float32,"
    yield f"{args.rounds} interleaved rounds in one process for each model."
    yield "Times are medians in ms with their quartiles; a ratio is the median of the rounds' ratios."
    if len(args.threads) > 1:
        yield "The machine's speed is that of multiply-adds in registers, measured in the same rounds: what its threads"
        yield "add up to at the time."
    for index, threads in enumerate(args.threads):
        yield f"\n{threads} thread{'s' * (threads > 1)}:\n"
        yield format_table(list(_time_rows(records, index, args)))
        yield "\nWhat 90 %, and 99 %, of single calls take at most, in ms:\n"
        yield format_table(list(_tails(records, index, args)))
    if any(record["compile"] for record in records):
        yield "\nCompiling from a cold start, and a process that only loads and runs the program; peak memory in MB:\n"
        yield format_table(list(_costs(records)))


def _time_rows(records: Sequence[dict[str, Any]], index: int, args: argparse.Namespace) -> Iterator[list[str]]:
    base = args.threads[0] if index else None
    yield ["network", OURS, *args.compare, *(["ours / faster of these", "relative error"] * bool(args.compare)),
           *([f"speed of {base} thread{'s' * (base > 1)}", "the machine's", "share"] if base else [])]  # fmt: skip
    for record, name in zip(records, make_labels([record["model"] for record in records]), strict=True):
        run = record["runs"][index]
        row = [name, _spread_text(run["seconds"], 1e3)]
        row += [_spread_text(rival["seconds"], 1e3) for rival in run["rivals"]]
        if ratio := _ratio(run):
            row += [f"**{_spread_text(ratio)}**", f"{max(map(largest_error, run['rivals'])):.1e}"]
        if base:
            row += [f"x {_spread_text(run[key])}" for key in ("speedup", "machine_speedup")]
            row.append(f"{run['speedup_share']['median']:.0%}")
        yield row
    if (mean := _mean_ratio(records, index)) is not None:
        yield ["geometric mean", *[""] * (1 + len(args.compare)), f"**{mean:.2f}**", "", *([""] * 3 if base else [])]


def _tails(records: Sequence[dict[str, Any]], index: int, args: argparse.Namespace) -> Iterator[list[str]]:
    yield ["network", OURS, *args.compare]
    for record, name in zip(records, make_labels([record["model"] for record in records]), strict=True):
        run = record["runs"][index]
        yield [name, *(", ".join(format_tail(each["calls"])) for each in (run, *run["rivals"]))]


def make_labels(models: Sequence[str]) -> list[str]:
    """Short names of files that differ: their stems, or as much of the ends of their paths as it takes."""
    paths = [Path(model) for model in models]

    def label(path: Path, count: int) -> str:
        return "/".join(path.parts[-count:]) if count else path.stem

    def shortest(path: Path) -> str:
        others = [other for other in paths if other != path]
        counts = range(len(path.parts) + 1)
        return next((name for n in counts if (name := label(path, n)) not in {label(o, n) for o in others}), str(path))

    return list(map(shortest, paths))


def _costs(records: Sequence[dict[str, Any]]) -> Iterator[list[str]]:
    yield ["network", "compile s", "from the cache s", "memory of compiling", "memory of running"]
    for record, name in zip(records, make_labels([record["model"] for record in records]), strict=True):
        made = record["compile"]
        cached = f"{made['cached_seconds']:.2f}" if made and made["cached"] else "-"
        compiled = [f"{made['seconds']:.1f}", cached, format_megabytes(made)] if made else [""] * 3
        yield [name, *compiled, format_megabytes(record["running"])]


def _spread_text(values: dict[str, float], scale: float = 1.0) -> str:
    median, quartiles = format_spread(values, scale)
    return f"{median} ({quartiles})"
