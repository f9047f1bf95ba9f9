"""``cd tests && python -m fuzz.sizes --count N --seed S``: random graphs over several open sizes.

Each is compiled once and run, guarded, on sizes that are drawn for each name independently, and compared with onnxruntime. What
is found is written to a folder, ``sizes-THEME-SEED-INDEX.onnx`` with ``..._inputs.npz``. The same numbers give the same
graphs.

``--theme images`` and ``rows`` make parts of networks, with weights, at sizes of networks. Some of their names keep one
size in all runs, which the compiler is told; they are compiled for several CPUs, and run on one to three threads as well.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from fuzz.sizes.generator import THEMES, generate
from fuzz.sizes.judge import Number, Outcome, Way, ask_oracle, check
from fuzz.sizes.shrink import shrunk
from parallel import call_all

from tilewright.tools.debugging.isolation import Child, Lost
from tilewright.tools.debugging.reducer import ModelCase
from tilewright.tools.reduce import write


def main() -> int:
    """Run the graphs, print what does not agree and the counts; the exit code is 1 for a finding."""
    args = _arguments()
    numbers = [(args.seed, i, args.theme) for i in range(args.first, args.first + args.count)]
    counts: Counter[str] = Counter()
    runs: Counter[str] = Counter()
    begun = time.monotonic()
    for number, outcome in outcomes(numbers, args.processes, args.seconds):
        counts["finding" if outcome.is_finding else outcome.kind] += 1
        runs.update(outcome.runs)
        if outcome.is_finding or outcome.kind in ("refused", "disputed") or args.verbose:
            print(f"{args.theme} {number[0]}-{number[1]}: {outcome.kind}: {outcome.reason}", flush=True)
        if outcome.is_finding:
            print(f"  {save(number, outcome, args.output, args.seconds, args.shrink)}", flush=True)
    minutes = (time.monotonic() - begun) / 60
    print(f"{_told(counts)} of {counts.total()} graphs in {minutes:.1f} minutes; runs: {_told(runs)}")
    return int(counts["finding"] > 0)


def outcomes(numbers: Sequence[Number], processes: int, seconds: float) -> Iterator[tuple[Number, Outcome]]:
    """What becomes of each graph, in child processes; what crashes or hangs one is a finding, unless the oracle does."""
    for number, found in zip(numbers, call_all(check, numbers, processes, seconds), strict=True):
        yield number, _whose(number, found, seconds) if isinstance(found, Lost) else found


def _whose(number: Number, lost: Lost, seconds: float) -> Outcome:
    if isinstance(Child(ask_oracle, seconds).call(number), Lost):
        return Outcome("skipped", "onnxruntime crashes, or finds no end")
    return Outcome("hang" if lost.reason.startswith("no answer") else "crash", lost.reason)


def save(number: Number, outcome: Outcome, folder: Path, seconds: float, shrink: bool) -> str:
    """Write a finding's model, as small as it could be made, and the inputs of the run to blame; says how to see it again."""
    model, runs = generate(*number)
    way = Way.of(number, model, runs)
    if shrink:
        model, runs, outcome = shrunk(model, runs, outcome, seconds, way)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"sizes-{number[2]}-{number[0]}-{number[1]}.onnx"
    write(ModelCase(model, runs[outcome.run if len(runs) > 1 else 0][1]), path)
    line = f"python -m fuzz.sizes --theme {number[2]} --seed {number[0]} --first {number[1]} --count 1"
    left = ", ".join(node.op_type for node in model.graph.node)
    return f"{line}; {path}: {left}: {outcome.kind}: {outcome.reason}"


def _told(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in counts.most_common())


def _arguments() -> argparse.Namespace:
    cli = argparse.ArgumentParser(description="Compare random graphs of open sizes with onnxruntime.")
    cli.add_argument("--count", type=int, default=1000, help="how many (1000)")
    cli.add_argument("--seed", type=int, default=0, help="what they are drawn from (0)")
    cli.add_argument("--theme", choices=THEMES, default="any", help="what graphs are made of (any)")
    cli.add_argument("--first", type=int, default=0, help="the number of the first one (0)")
    cli.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)), help="how many at a time")
    cli.add_argument("--seconds", type=float, default=60.0, help="the most that one may take (60)")
    cli.add_argument("--output", type=Path, default=Path("../build/fuzz"), help="folder for findings (../build/fuzz)")
    cli.add_argument("--no-shrink", dest="shrink", action="store_false", help="write findings as they are")
    cli.add_argument("--verbose", action="store_true", help="also print what is skipped, and what agrees")
    return cli.parse_args()


if __name__ == "__main__":
    sys.exit(main())
