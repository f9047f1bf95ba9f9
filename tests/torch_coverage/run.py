"""``cd tests && python -m torch_coverage.run [PATTERN]``: compiles the table's cases and holds them against eager.

A case that passed by ``result.json`` and does not any more fails the run. A whole run without such a case writes the
file anew: how many pass, and why the rest does not.
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

import torch
from conformance.run import regressions
from conformance.suite import Outcome
from parallel import call_all

from tilewright.tools.debugging.isolation import Lost

from .case import Case
from .suite import cases, check, groups

RESULT = Path(__file__).with_name("result.json")


def main() -> int:
    """Run the cases, print the counts; the exit code is 1 for a regression."""
    args = _arguments()
    table = cases()
    chosen = [case for case in table.values() if fnmatch.fnmatch(case.name, args.pattern) or case.group == args.pattern]
    if not chosen:
        print(f"no case is named '{args.pattern}', and no group", file=sys.stderr)
        return 2
    outcomes = _outcomes(groups(chosen), args.processes, args.seconds)
    for name, outcome in outcomes.items():
        if outcome.status != "pass":
            print(f"{name}: {outcome.status}: {outcome.reason}")
    print("\n".join(_lines(chosen, outcomes)))
    before = json.loads(RESULT.read_text())["cases"] if RESULT.exists() else {}
    lost = regressions(before, outcomes)
    for name in lost:
        print(f"regression: {name}: {outcomes[name].status}: {outcomes[name].reason}")
    if len(chosen) == len(table) and (args.accept or not lost):
        _write(outcomes)
    return 1 if lost and not args.accept else 0


def _arguments() -> argparse.Namespace:
    cli = argparse.ArgumentParser(description="Hold torch's modules and functions against eager.")
    cli.add_argument("pattern", nargs="?", default="*", help="a group, or names of cases with * (default: all)")
    cli.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)), help="how many at a time")
    cli.add_argument(
        "--seconds", type=float, default=600.0, help="the most that the cases of one program may take (600)"
    )
    cli.add_argument("--accept", action="store_true", help="write the result although cases fail that passed before")
    return cli.parse_args()


def _outcomes(programs: Sequence[tuple[str, ...]], processes: int, seconds: float) -> dict[str, Outcome]:
    """By case; where a process dies, the cases that it had are each done by one of its own."""
    outcomes: dict[str, Outcome] = {}
    alone: list[tuple[str, ...]] = []
    for names, answers in zip(programs, call_all(check, programs, processes, seconds), strict=True):
        if not isinstance(answers, Lost):
            outcomes |= dict(zip(names, answers, strict=True))
        elif len(names) == 1:
            outcomes[names[0]] = Outcome("lost", answers.reason)
        else:
            alone += [(name,) for name in names]
    return outcomes | (_outcomes(alone, processes, seconds) if alone else {})


def _lines(chosen: Sequence[Case], outcomes: Mapping[str, Outcome]) -> list[str]:
    """How many cases of each group pass."""
    totals = Counter(case.group for case in chosen)
    passed = Counter(case.group for case in chosen if outcomes[case.name].status == "pass")
    lines = [f"{group:<24} {passed[group]:>4} of {total:>4}" for group, total in totals.items()]
    return [*lines, f"{'all':<24} {passed.total():>4} of {totals.total():>4}"]


def _write(outcomes: Mapping[str, Outcome]) -> None:
    statuses = {name: outcome.status for name, outcome in sorted(outcomes.items())}
    record = {
        "torch": torch.__version__,
        "counts": Counter(sorted(statuses.values())),
        "reasons": {name: o.reason for name, o in sorted(outcomes.items()) if o.status != "pass"},
        "cases": statuses,
    }
    RESULT.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    raise SystemExit(main())
