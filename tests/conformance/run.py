"""``cd tests && python -m conformance.run [PATTERN]``: runs the onnx package's backend suite.

A case that passed by ``result.json`` and does not any more fails the run. A whole run without such a case writes the
file anew; it is committed, so that its changes show what a commit gained. Cases that ``skips.json`` names are not run;
they count neither as passed nor as failed. With ``--open`` a case's program is compiled for inputs of any extents; the
results are those of ``result_open.json``.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import onnx
from conformance.families import FAMILIES, family
from conformance.suite import Case, Outcome, cases, check, opened
from parallel import call_all
from rich.console import Console
from rich.progress import track

from tilewright.tools.debugging.isolation import Lost

RESULT = Path(__file__).with_name("result.json")
OPEN_RESULT = Path(__file__).with_name("result_open.json")
SKIPS = Path(__file__).with_name("skips.json")  # names of cases, with *, and why a user would not miss them
STATUSES = ("pass", "refused", "wrong", "error", "lost", "skipped")


def main() -> int:
    """Run the cases, print the counts; the exit code is 1 for a regression."""
    args = _arguments()
    chosen = [case for case in cases() if fnmatch.fnmatch(case.name, args.pattern) or case.group == args.pattern]
    if not chosen:
        print(f"no case is named '{args.pattern}', and no operator", file=sys.stderr)
        return 2
    whole, result = args.pattern == "*", OPEN_RESULT if args.open else RESULT
    outcomes = {case.name: Outcome("skipped", reason) for case in chosen if (reason := skip_reason(case.name))}
    run = [opened(case) if args.open else case for case in chosen if case.name not in outcomes]
    answers = map(check, run) if args.here else call_all(check, run, args.processes, args.seconds)
    console = Console(stderr=True)
    shown = track(answers, "cases", len(run), console=console, disable=not console.is_terminal)
    for case, answer in zip(run, shown, strict=True):
        outcomes[case.name] = outcome = Outcome("lost", answer.reason) if isinstance(answer, Lost) else answer
        if not whole and outcome.status != "pass":
            print(f"{case.name}: {outcome.status}: {outcome.reason}", flush=True)
    if args.operators or not whole:
        print("\n".join(operator_lines(chosen, outcomes)))
    print("\n".join(family_lines(chosen, outcomes, _committed(result))))
    before = json.loads(result.read_text())["cases"] if result.exists() else {}
    lost = regressions(before, outcomes)
    for name in lost:
        print(f"regression: {name}: {outcomes[name].status}: {outcomes[name].reason}")
    if whole and (args.accept or not lost):
        _write(result, outcomes)
    return 1 if lost and not args.accept else 0


def _arguments() -> argparse.Namespace:
    cli = argparse.ArgumentParser(description="Run the onnx package's backend suite.")
    cli.add_argument("pattern", nargs="?", default="*", help="an operator, or names of cases with * (default: all)")
    cli.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)), help="how many at a time")
    cli.add_argument("--seconds", type=float, default=60.0, help="the most that one case may take (60)")
    cli.add_argument("--open", action="store_true", help="compile for inputs of any extents")
    cli.add_argument("--operators", action="store_true", help="also count each operator's cases")
    cli.add_argument("--here", action="store_true", help="run in this process, where a crash shows its stack")
    cli.add_argument("--accept", action="store_true", help="write the result although cases fail that passed before")
    return cli.parse_args()


def regressions(before: Mapping[str, str], now: Mapping[str, Outcome]) -> list[str]:
    """Cases that passed before and were run now without passing."""
    return [name for name, outcome in now.items() if before.get(name) == "pass" and outcome.status != "pass"]


def skip_reason(name: str) -> str:
    """Why a case is not run, by the first pattern of ``skips.json`` that its name has; "" if it is."""
    return next((why for pattern, why in json.loads(SKIPS.read_text()).items() if fnmatch.fnmatch(name, pattern)), "")


def operator_lines(chosen: Sequence[Case], outcomes: Mapping[str, Outcome]) -> list[str]:
    """What of each operator's cases passes."""
    totals = Counter(case.group for case in chosen)
    passed = Counter(case.group for case in chosen if outcomes[case.name].status == "pass")
    return [f"{group:<40} {passed[group]:>4} of {totals[group]:>4}" for group in sorted(totals)]


def family_lines(chosen: Sequence[Case], outcomes: Mapping[str, Outcome], before: Mapping[str, str]) -> list[str]:
    """A table: each family's cases by status, and by how many those that pass are more or fewer than ``before``."""
    rows = [[*_counted(cases, outcomes, before, name)] for name, cases in _by_family(chosen)]
    rows.append([*_counted(chosen, outcomes, before, "all")])
    head = ["family", "cases", *STATUSES, "change"]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = []
    for name, *cells in (head, *rows):
        padded = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        lines.append("  ".join([name.ljust(widths[0]), *padded]).rstrip())
    return lines


def _by_family(chosen: Sequence[Case]) -> list[tuple[str, list[Case]]]:
    grouped = {name: [case for case in chosen if family(case.group) == name] for name in FAMILIES}
    return [(name, cases) for name, cases in grouped.items() if cases]


def _counted(
    cases: Sequence[Case], outcomes: Mapping[str, Outcome], before: Mapping[str, str], name: str
) -> Iterator[str]:
    found = Counter(outcomes[case.name].status for case in cases)
    yield from (name, str(len(cases)))
    yield from (str(found[status] or "") for status in STATUSES)
    change = found["pass"] - sum(before.get(case.name) == "pass" for case in cases)
    yield f"{change:+}" if change else ""


def _committed(result: Path) -> Mapping[str, str]:
    """The statuses of the result that was committed last; those of the file where there is no repository."""
    line = ["git", "show", f"HEAD:./{result.name}"]
    done = subprocess.run(line, cwd=result.parent, capture_output=True, text=True, check=False)
    text = done.stdout if done.returncode == 0 else result.read_text() if result.exists() else "{}"
    return json.loads(text).get("cases", {})


def _write(result: Path, outcomes: Mapping[str, Outcome]) -> None:
    statuses = {name: outcome.status for name, outcome in sorted(outcomes.items())}
    record = {"onnx": onnx.__version__, "counts": Counter(sorted(statuses.values())), "cases": statuses}
    result.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    raise SystemExit(main())
