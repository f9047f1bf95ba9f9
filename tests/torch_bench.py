"""``python -m torch_bench``: networks of torch.nn, compiled, beside eager, inductor, and the same ones from ONNX files.

Each network and number of threads has a process of its own, in which all take turns (``tools/_measure.py``).
"""

from __future__ import annotations

import argparse
import copy
import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch_networks import EXAMPLES, example

import tilewright as tw
from tilewright.tools._options import THIS_CPU
from tilewright.tools.benchmarks.markdown import describe_setup, format_table
from tilewright.tools.benchmarks.measure import Spread, compute_ratio, geometric_mean, interleave
from tilewright.tools.run import make_inputs

OURS, EAGER, INDUCTOR, ONNX = "tilewright", "eager", "inductor", "onnx"
SECONDS = 0.1  # of a round, for each
TOLERANCE = 1e-3  # of networks with millions of weights
# The zoo's networks that are the same ones.
ZOO = {"resnet18": "resnet18", "mobilenet_v2": "mobilenet_v2", "bert": "bert_base", "vit": "vit_b16"}

Figures = dict[str, Any]


def main() -> None:
    """Measure what is asked for and write a table."""
    args = _arguments()
    if args.one:
        print(json.dumps(_measure(args.one[0], int(args.one[1]), args.rounds, args.small, args.onnx)))
        return
    rows = []
    for name in args.names:
        for threads in args.threads:
            rows.append(_child(name, threads, args))
            print(_line(rows[-1]), file=sys.stderr, flush=True)
    text = _report(rows)
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(text)
    print(text)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="networks; all of them by default", default=list(EXAMPLES))
    parser.add_argument("--threads", type=int, action="append", help="numbers of threads (1 and 2)")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--small", action="store_true", help="the small instances that tests have")
    parser.add_argument("--onnx", type=Path, default=Path("../build/bench"), help="folder with the zoo's files")
    parser.add_argument("-o", "--output", type=Path, default=Path("../build/bench/torch.md"))
    parser.add_argument("--one", nargs=2, metavar=("NAME", "THREADS"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.threads = args.threads or [1, 2]
    return args


def _child(name: str, threads: int, args: argparse.Namespace) -> Figures:
    options = ["--rounds", str(args.rounds), "--onnx", str(args.onnx), *(["--small"] if args.small else [])]
    command = [sys.executable, "-m", "torch_bench", "--one", name, str(threads), *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def _measure(name: str, threads: int, rounds: int, small: bool, folder: Path) -> Figures:
    torch.set_num_threads(threads)
    module, inputs = example(name, full=not small)
    start = time.perf_counter()
    compiled = tw.compile(copy.deepcopy(module), example_inputs=inputs, num_threads=threads)
    seconds = time.perf_counter() - start
    runs: dict[str, Callable[[], object]] = {OURS: lambda: compiled(*inputs)}
    with torch.no_grad():
        runs |= _of_torch(module, inputs)
        torch.testing.assert_close(compiled(*inputs), module(*inputs), rtol=TOLERANCE, atol=TOLERANCE)
        file = folder / f"{ZOO.get(name, '')}.onnx"
        if name in ZOO and not small and file.exists():
            runs[ONNX] = _of_onnx(file, threads)
        times = interleave(runs, rounds, SECONDS)
    ratios = {other: compute_ratio(times[OURS], times[other]).median for other in runs if other != OURS}
    medians = {run: Spread.of(of_run).median * 1e3 for run, of_run in times.items()}
    return {"name": name, "threads": threads, "seconds": seconds, "ms": medians, "ratios": ratios}


def _of_torch(module: torch.nn.Module, inputs: tuple[Any, ...]) -> dict[str, Callable[[], object]]:
    """Eager, and inductor with the weights frozen."""
    from torch._inductor import config

    config.freezing = True  # type: ignore[assignment]  # declared by its value
    eager, fused = copy.deepcopy(module), torch.compile(copy.deepcopy(module))
    fused(*inputs)
    return {EAGER: lambda: eager(*inputs), INDUCTOR: lambda: fused(*inputs)}


def _of_onnx(file: Path, threads: int) -> Callable[[], object]:
    module = tw.compile(file, num_threads=threads)
    arrays = make_inputs(module.inputs, "random", 0)
    return lambda: module.run(arrays)


def _line(row: Figures) -> str:
    return "  ".join(_cells(row))


def _cells(row: Figures) -> list[str]:
    ms: Mapping[str, float] = row["ms"]
    times = [f"{ms[run]:.2f}" if run in ms else "" for run in (OURS, EAGER, INDUCTOR, ONNX)]
    ratios = [f"{row['ratios'][run]:.2f}" if run in row["ratios"] else "" for run in (EAGER, INDUCTOR, ONNX)]
    return [row["name"], str(row["threads"]), *times, *ratios, f"{row['seconds']:.0f}"]


def _report(rows: Sequence[Figures]) -> str:
    """The table, and for each number of threads the mean of what ours takes of the faster one's time."""
    head = ["network", "threads", "ms", "eager", "inductor", "ONNX", "ours/eager", "ours/inductor", "ours/ONNX"]
    lines = [format_table([[*head, "s to compile"], *map(_cells, rows)]), ""]
    for threads in sorted({row["threads"] for row in rows}):
        best = [max(row["ratios"][run] for run in (EAGER, INDUCTOR)) for row in rows if row["threads"] == threads]
        mean, worst = geometric_mean(best), max(best)
        lines.append(f"{threads} threads: {mean:.2f} of the faster one's time (geometric mean), {worst:.2f} at most.")
    return "\n".join([*lines, "", describe_setup(["torch", "torch-mlir"], THIS_CPU), ""])


if __name__ == "__main__":
    main()
