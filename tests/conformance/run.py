"""``cd tests && python -m conformance.run [PATTERN]``: runs the onnx package's backend suite.

A case that passed by ``result.json`` and does not any more fails the run. A whole run without such a case writes the
file anew; it is committed, so that its changes show what a commit gained.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx
from conformance.isolation import Lost, call_all
from conformance.suite import Case, Outcome, cases, check
from rich.console import Console
from rich.progress import track

RESULT = Path(__file__).with_name("result.json")


def main() -> int:
    """Run the cases, print the counts; the exit code is 1 for a regression."""
    args = _arguments()
    chosen = [case for case in cases() if fnmatch.fnmatch(case.name, args.pattern) or case.group == args.pattern]
    if not chosen:
        print(f"no case is named '{args.pattern}', and no operator", file=sys.stderr)
        return 2
    whole = args.pattern == "*"
    answers = map(check, chosen) if args.here else call_all(check, chosen, args.processes, args.seconds)
    outcomes: dict[str, Outcome] = {}
    console = Console(stderr=True)
    shown = track(answers, "cases", len(chosen), console=console, disable=not console.is_terminal)
    for case, answer in zip(chosen, shown, strict=True):
        outcomes[case.name] = outcome = Outcome("lost", answer.reason) if isinstance(answer, Lost) else answer
        if not whole and outcome.status != "pass":
            print(f"{case.name}: {outcome.status}: {outcome.reason}", flush=True)
    _print_counts(chosen, outcomes)
    before = json.loads(RESULT.read_text())["cases"] if RESULT.exists() else {}
    lost = regressions(before, outcomes)
    for name in lost:
        print(f"regression: {name}: {outcomes[name].status}: {outcomes[name].reason}")
    if whole and (args.accept or not lost):
        _write(outcomes)
    return 1 if lost and not args.accept else 0


def _arguments() -> argparse.Namespace:
    cli = argparse.ArgumentParser(description="Run the onnx package's backend suite.")
    cli.add_argument("pattern", nargs="?", default="*", help="an operator, or names of cases with * (default: all)")
    cli.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)), help="how many at a time")
    cli.add_argument("--seconds", type=float, default=60.0, help="the most that one case may take (60)")
    cli.add_argument("--here", action="store_true", help="run in this process, where a crash shows its stack")
    cli.add_argument("--accept", action="store_true", help="write the result although cases fail that passed before")
    return cli.parse_args()


def regressions(before: Mapping[str, str], now: Mapping[str, Outcome]) -> list[str]:
    """Cases that passed before and were run now without passing."""
    return [name for name, outcome in now.items() if before.get(name) == "pass" and outcome.status != "pass"]


def _print_counts(chosen: Sequence[Case], outcomes: Mapping[str, Outcome]) -> None:
    totals = Counter(case.group for case in chosen)
    passed = Counter(case.group for case in chosen if outcomes[case.name].status == "pass")
    for group in sorted(totals):
        print(f"{group:<40} {passed[group]:>4} of {totals[group]:>4}")
    statuses = Counter(outcome.status for outcome in outcomes.values())
    print(", ".join(f"{count} {status}" for status, count in statuses.most_common()), f"of {len(chosen)}")


def _write(outcomes: Mapping[str, Outcome]) -> None:
    statuses = {name: outcome.status for name, outcome in sorted(outcomes.items())}
    record = {"onnx": onnx.__version__, "counts": Counter(sorted(statuses.values())), "cases": statuses}
    RESULT.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    raise SystemExit(main())
