"""``tilewright bench MODEL --compare onnxruntime``: measures a model, against other runtimes if wanted."""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.errors import CompileError, InputError
from tilewright.tools import _rivals
from tilewright.tools._common import add_input_shape, command, parser, print_table, progress, report
from tilewright.tools._measure import PeakMemory, Spread, interleave, ratio, relative_error
from tilewright.tools.run import fill

if TYPE_CHECKING:
    from tilewright.runtime.module import Module

OURS = "tilewright"
TOLERANCE = 1e-4
DISAGREE = 1
SLICE_SECONDS = 0.2  # of a round, for each runtime
_PROGRAMS = (".so", ".tw")
_HEAD = ("runtime", "ms", "quartiles", "ours/its", "quartiles", "error", "answers")


@command
def main(argv: Sequence[str] | None = None) -> int:
    """Measure; the exit code is 1 where a rival's answers are not ours."""
    args = _parser().parse_args(argv)
    if args.rounds < 1:
        raise InputError(f"--rounds is {args.rounds}: it must be at least 1")
    rivals = list(dict.fromkeys(args.compare))
    for name in rivals:
        _rivals.require(name)
    path = _rivals_file(args.model) if rivals else args.model
    with progress(f"compiling {args.model}", args) as say:
        module, compiled = _compile(args, say)
        inputs = fill(module.inputs, "random", args.seed)
        say(f"loading {args.model}")
        runs, errors = _prepare(module, inputs, rivals, path, args.threads)
    with _bar(args) as show:
        times = interleave(runs, args.rounds, SLICE_SECONDS, on_round=show)
    record = _record(args, compiled, times, errors)
    report(record, _head(record), args)
    if not args.json and not args.quiet:
        print_table(_rows(record))
    return 0 if all(rival["agrees"] for rival in record["rivals"]) else DISAGREE


def _parser() -> argparse.ArgumentParser:
    cli = parser("bench", "compile a model and measure it; against other runtimes in interleaved rounds")
    cli.add_argument("model", help="model.onnx, or a compiled model.so or model.tw")
    cli.add_argument(
        "--compare", action="append", default=[], choices=list(_rivals.RIVALS), metavar="RUNTIME",
        help=f"{' or '.join(_rivals.RIVALS)}; may be repeated",
    )  # fmt: skip
    cli.add_argument("--threads", type=int, default=1, metavar="N", help="threads of each runtime (1)")
    cli.add_argument("--rounds", type=int, default=9, metavar="N", help="rounds of measurement (9)")
    cli.add_argument("--seed", type=int, default=0, metavar="N", help="of the random inputs (0)")
    add_input_shape(cli)
    return cli


def _rivals_file(model: str) -> str:
    """The ONNX file that other runtimes load: ``model``, or the one beside a compiled program."""
    if Path(model).suffix not in _PROGRAMS:
        return model
    path = Path(model).with_suffix(".onnx")
    if not path.is_file():
        raise InputError(f"cannot compare '{model}': its model '{path}' is not there; give the ONNX file instead")
    return str(path)


def _compile(args: argparse.Namespace, say: Callable[[str], None]) -> tuple[Module, dict[str, Any] | None]:
    """The program; and what compiling it took, if it was compiled: cold, and then from the cache.

    The cache is a new one, so that nothing can come from it at first, and all of it the second time.
    """
    if Path(args.model).suffix in _PROGRAMS:
        from tilewright.runtime.module import load_module

        return load_module(args.model, args.threads), None
    from tilewright import driver

    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        start = time.perf_counter()
        with PeakMemory() as memory:
            module = driver.compile(
                args.model, input_shapes=dict(args.input_shape), num_threads=args.threads, cache=folder
            )
        seconds = time.perf_counter() - start
        record = {"seconds": seconds, "stages": module.report.seconds, "peak_bytes": memory.bytes}
        say(f"taking {args.model} from the cache")
        return module, {**record, **_compile_cached(args, folder)}


# What a new process does, warm as far as the system's file cache goes; `tw.compile` also imports the compiler's host.
_CACHED = """
import json, sys, time, tilewright as tw
model, shapes, threads, folder = json.loads(sys.argv[1])
start = time.perf_counter()
module = tw.compile(model, input_shapes=shapes, num_threads=threads, cache=folder)
print(json.dumps({"cached_seconds": time.perf_counter() - start, "cached": module.report.cached}))
"""


def _compile_cached(args: argparse.Namespace, folder: str) -> dict[str, Any]:
    """What the same compilation takes in a new process, and whether the cache had the program."""
    words = json.dumps([args.model, dict(args.input_shape), args.threads, folder])
    done = subprocess.run([sys.executable, "-c", _CACHED, words], capture_output=True, text=True)
    if done.returncode:
        raise CompileError(f"the compilation from the cache failed: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout)


Runs = dict[str, Callable[[], object]]
Errors = dict[str, list[dict[str, Any]]]


def _prepare(
    module: Module, inputs: Mapping[str, np.ndarray], rivals: Sequence[str], path: str, threads: int
) -> tuple[Runs, Errors]:
    """What is to be measured, and each rival's distance from our answers, output by output."""
    runs: Runs = {OURS: lambda: module.run(inputs)}
    errors: Errors = {}
    got = module.run(inputs)
    shapes = {name: array.shape for name, array in inputs.items()}
    for name in rivals:
        with _rivals.refusals(name, path):
            rival = _rivals.RIVALS[name](path, shapes, threads)
            want = rival.run(inputs)
        runs[name] = lambda rival=rival: rival.run(inputs)
        errors[name] = [
            {"name": info.name, "error": relative_error(a, np.asarray(b))}
            for info, a, b in zip(module.outputs, got, want, strict=True)
        ]
    return runs, errors


@contextmanager
def _bar(args: argparse.Namespace) -> Iterator[Callable[[int], None]]:
    """A progress bar that is drawn between rounds alone: an animation would take part in what is measured."""
    from rich.console import Console
    from rich.progress import Progress

    hidden = args.quiet or args.json or not sys.stderr.isatty()
    with Progress(console=Console(stderr=True), auto_refresh=False, transient=True, disable=hidden) as bar:
        task = bar.add_task(f"measuring {args.model}", total=args.rounds)
        yield lambda done: bar.update(task, completed=done, refresh=True)


def _record(
    args: argparse.Namespace, compiled: dict[str, Any] | None, times: Mapping[str, Sequence[float]], errors: Errors
) -> dict[str, Any]:
    rivals = [
        {
            "name": name,
            "seconds": _spread(Spread.of(times[name])),
            "ratio": _spread(ratio(times[OURS], times[name])),
            "outputs": outputs,
            "agrees": all(output["error"] <= TOLERANCE for output in outputs),
        }
        for name, outputs in errors.items()
    ]
    return {
        "model": args.model,
        "threads": args.threads,
        "rounds": args.rounds,
        "compile": compiled,
        "seconds": _spread(Spread.of(times[OURS])),
        "rivals": rivals,
    }


def _spread(spread: Spread) -> dict[str, float]:
    return dataclasses.asdict(spread)


def _head(record: Mapping[str, Any]) -> list[str]:
    threads = record["threads"]
    lines = [f"{record['model']}: {threads} thread{'s' * (threads > 1)}, {record['rounds']} rounds"]
    if made := record["compile"]:
        cached = f"from the cache in {made['cached_seconds']:.2f} s" if made["cached"] else "not from the cache"
        lines.append(f"compiled in {made['seconds']:.2f} s, peak memory {made['peak_bytes'] / 1e6:.0f} MB; {cached}")
    return lines


def _rows(record: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """The table, its head first; without a rival it has no columns for one."""
    rows = [_HEAD, (OURS, *_numbers(record["seconds"], 1e3), "", "", "", "")]
    for rival in record["rivals"]:
        times, ratios = _numbers(rival["seconds"], 1e3), _numbers(rival["ratio"])
        largest = max((output["error"] for output in rival["outputs"]), default=0.0)
        verdict = "agree" if rival["agrees"] else "DIFFER"
        rows.append((rival["name"], *times, *ratios, f"{largest:.1e}", verdict))
    return rows if record["rivals"] else [row[:3] for row in rows]


def _numbers(spread: Mapping[str, float], scale: float = 1.0) -> tuple[str, str]:
    median, low, high = (spread[key] * scale for key in ("median", "low", "high"))
    return _digits(median, 4), f"{_digits(low, 3)}-{_digits(high, 3)}"


def _digits(value: float, count: int) -> str:
    return np.format_float_positional(value, count, unique=False, fractional=False, trim="-")


if __name__ == "__main__":
    raise SystemExit(main(None))
