"""``tilewright tune MODEL``: search for faster schedules of a model's kernels, which compilations then find."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.core.choices import PREFIX, find_kind
from tilewright.core.errors import InputError
from tilewright.core.printed import count_text, line_text, name_text, shorten
from tilewright.records import user_file
from tilewright.tools._command import as_command
from tilewright.tools._options import (
    add_input_shape,
    add_target,
    check_outputs,
    check_target,
    demand_model,
    file_name,
    file_path,
    make_parser,
)
from tilewright.tools._output import print_report, print_table, show
from tilewright.tools._plot import require_plotting

if TYPE_CHECKING:
    from tilewright.tuning.fleet.address import Fleet
    from tilewright.tuning.plan_choices import ChoiceResult
    from tilewright.tuning.result import TaskResult, TuningResult
    from tilewright.tuning.session import Tuning
    from tilewright.tuning.verdict import HeldContest

_RESULT_COLUMNS = (
    "nodes",
    "% time",
    "us",
    "ratio",
    "interval",
    "trials",
    "model",
    "failed",
    "network",
    "what changed",
    "kernel",
)
_SPARE_COLUMNS = ("kernel", "model", "failed", "interval", "trials")
_SHOWN_NODES, _SHOWN_CHANGE = 40, 100
_LIVE_ROWS, _LIVE_NOTES = 12, 2
_LINE_SECONDS = 10.0  # between two lines where there is no terminal


@as_command
def main(argv: Sequence[str] | None = None) -> None:
    """Tune a model, with a table of what is found, and print what the network says of it."""
    args = _parser().parse_args(argv)
    demand_model(args.model)
    check_target(args, [args.model])
    if args.plot:
        require_plotting(args.plot)
    if args.threads is not None and args.threads < 1:
        raise InputError(f"--threads is {args.threads}: it must be at least 1")
    check_outputs({"--plot": args.plot, "--records": args.records}, args.model)
    from tilewright.tuning.api import tune

    seen = _Seen(args.records or user_file())
    with _saying_what_is_kept(seen), _show_progress(args) as listen:
        result = tune(
            args.model,
            target=args.target,
            input_shapes=dict(args.input_shape),
            num_threads=args.threads,
            time=args.time,
            trials=args.trials,
            until_flat=args.until_flat,
            search=args.search,
            records=args.records,
            seed=args.seed,
            fleet=_find_fleet(args),
            progress=lambda tuning: (seen.note(tuning), listen(tuning)),
        )
    print_report(result.to_json(), list(_report_lines(result)), args)
    if not args.json and not args.quiet:
        rows = [_result_row(task) for task in result.tasks if not task.skipped]
        if rows:
            print_table([_RESULT_COLUMNS, *rows], words=("nodes", "what changed"), spare=_SPARE_COLUMNS)
        show(_skipped_lines(result))
    if args.plot:  # a picture that cannot be written costs no report
        from tilewright.tools import _tuning_plot

        _tuning_plot.draw(result, args.plot)


def _parser() -> argparse.ArgumentParser:
    from tilewright.tuning.search.table import SEARCHES

    cli = make_parser("tune", "search for faster schedules of a model's kernels")
    cli.add_argument("model", type=file_name, help="the ONNX file")
    add_target(cli)
    add_input_shape(cli)
    cli.add_argument("--threads", type=int, metavar="N", help="threads of the program (all available)")
    cli.add_argument("--time", metavar="TIME", help="how long to search: 90s, 5m, 1h (5m, unless another end is given)")
    cli.add_argument("--trials", type=int, metavar="N", help="how many schedules to measure at most")
    cli.add_argument("--until-flat", metavar="TIME", help="search until nothing has got better for so long")
    cli.add_argument("--search", choices=tuple(SEARCHES), default="pattern", help="how to search (pattern)")
    cli.add_argument("--records", type=file_path, metavar="FILE", help="where to keep what is measured (your own file)")
    cli.add_argument("--seed", type=int, default=0, metavar="N", help="of the search's random numbers (0)")
    cli.add_argument("--fleet", metavar="ADDRESS", help="machines that measure: their scheduler, as tls://host:port")
    cli.add_argument("--certificates", type=file_path, metavar="FOLDER", help="of the fleet (among your data)")
    cli.add_argument("--key", metavar="NAME", help="of the fleet's workers (made of the CPU and the threads)")
    cli.add_argument("--plot", type=file_path, metavar="FILE", help="draw the progress: a .png or .svg file")
    return cli


def _find_fleet(args: argparse.Namespace) -> Fleet | None:
    if args.fleet is None and (args.certificates or args.key):
        raise InputError("--certificates and --key are for --fleet ADDRESS")
    from tilewright.tuning.fleet.address import Fleet

    return Fleet(args.fleet, args.certificates, args.key) if args.fleet is not None else None


@dataclass
class _Seen:
    """What was seen of a search, whose records are in a file."""

    path: Path
    trials: int = 0

    def note(self, tuning: Tuning) -> None:
        self.trials = tuning.budget.used_trials


@contextmanager
def _saying_what_is_kept(seen: _Seen) -> Iterator[None]:
    """Let an interrupt of the body end with a line that says what is left of it."""
    try:
        yield
    except KeyboardInterrupt:
        count = f"{count_text(seen.trials, 'trial')} of this search {'is' if seen.trials == 1 else 'are'}"
        kept = f"{count} in {seen.path}" if seen.trials else "nothing was measured yet"
        show([f"interrupted: {kept}; the same command goes on"], sys.stderr)
        raise


@contextmanager
def _show_progress(args: argparse.Namespace) -> Iterator[Callable[[Tuning], object]]:
    """Show how it goes on: a table on a terminal, lines elsewhere, nothing for --quiet and --json."""
    if args.quiet or args.json:
        yield lambda tuning: None
    elif sys.stderr.isatty():
        with _live_table() as listen:
            yield listen
    else:
        yield _line_teller()


def _line_teller() -> Callable[[Tuning], object]:
    said, stage, noted = 0.0, "", 0

    def tell(tuning: Tuning) -> None:
        nonlocal said, stage, noted
        show(tuning.notes[noted:], sys.stderr)
        noted = len(tuning.notes)
        if tuning.stage == stage and time.monotonic() - said < _LINE_SECONDS:
            return
        said, stage = time.monotonic(), tuning.stage
        show([_status(tuning)], sys.stderr)

    return tell


@contextmanager
def _live_table() -> Iterator[Callable[[Tuning], object]]:
    """A table that is drawn again after each trial; it is not drawn by itself, which would take part in the times."""
    from rich.console import Console, Group
    from rich.live import Live
    from rich.table import Table
    from rich.text import Text

    live = Live(console=Console(stderr=True), transient=True, auto_refresh=False)

    def draw(tuning: Tuning) -> None:
        table = Table(box=None, pad_edge=False)
        for name in ("nodes", "% time", "us", "ratio", "trials", "model", "what changed"):
            table.add_column(name, justify="left" if name in ("nodes", "what changed") else "right", no_wrap=True)
        for task in list(tuning.tasks)[:_LIVE_ROWS]:
            kernel = task.prepared.task
            cells = (
                _nodes_text(kernel.nodes, _SHOWN_NODES),
                f"{task.share:.1%}",
                f"{task.prepared.seconds * 1e6:.1f}",
                f"{task.best.ratio:.3f}",
                "at its bound" if task.is_close else str(task.trials),
                _correlation_text(getattr(task.search, "correlation", 0.0)),
                shorten(task.change, _SHOWN_CHANGE),
            )
            table.add_row(*(Text(line_text(cell)) for cell in cells))
        lines = [*tuning.notes[-_LIVE_NOTES:], _status(tuning)]
        live.update(Group(*(Text(line_text(line)) for line in lines), table), refresh=True)

    with live:
        yield draw


def _status(tuning: Tuning) -> str:
    budget = tuning.budget
    end = f" of {budget.seconds:.0f}" if budget.used_seconds <= (budget.seconds or 0.0) else ""
    done = f"{tuning.name}: {tuning.stage}: {budget.used_seconds:.0f}{end} s, {count_text(budget.used_trials, 'trial')}"
    return f"{done}, the kernels' times say {tuning.estimate:.3f} of the default's" if tuning.tasks else done


def _report_lines(result: TuningResult) -> Iterator[str]:
    yield str(result)
    taken = f"{count_text(result.trials, 'trial')} in {result.seconds:.0f} s, {result.threads} thread(s)"
    yield f"{taken}; the kernels' own times say {result.estimate:.3f}; records: {result.records}"
    yield f"the search ended: {result.end}"
    for contest in result.contests:
        yield f"  {_contest_text(contest)}"
    for choice in result.choices:
        if choice.option != choice.default:
            taken = "taken" if choice.accepted else "not taken"
            said = f"{choice.default} -> {choice.option}, {choice.ratio:.3f} of its kernels' time, {taken}"
            yield f"  {choice.key}: {said} ({_nodes_text(choice.nodes, _SHOWN_NODES)})"
    yield from _untried_lines(result.choices)
    for line in result.notes:
        yield f"fleet: {line}"
    for line in result.wrong:
        yield f"WRONG, an error of the compiler's: {line}"
    yield ""


def _untried_lines(choices: Sequence[ChoiceResult]) -> Iterator[str]:
    """Why options of the plan were not measured: how many of how many decisions of each kind, for each reason."""
    counts = Counter((c.reason, find_kind(c.key)) for c in choices for _ in c.untried)
    about = Counter((c.reason, find_kind(c.key)) for c in choices if c.untried)
    for (reason, kind), count in sorted(counts.items()):
        options, decisions = count_text(count, "option"), count_text(about[reason, kind], "decision")
        yield f"  not tried: {options} of {decisions} of the kind '{kind}': {reason}"


def _contest_text(contest: HeldContest) -> str:
    """What came of a contest of programs in words."""
    kind = "decision" if contest.names and contest.names[0].startswith(PREFIX) else "schedule"
    beside = f"against {len(contest.others)} of them" if contest.others else "against the program without"
    ratio = contest.ratio
    what = f"{count_text(len(contest.names), kind)} in the network, {beside}"
    return f"{what}: {ratio.ratio:.3f} ({ratio.low:.3f} to {ratio.high:.3f})"


def _result_row(task: TaskResult) -> tuple[str, ...]:
    failed = ", ".join(f"{count} {error}" for error, count in task.failures.items())
    return (
        _nodes_text(task.nodes, _SHOWN_NODES),
        f"{task.share:.1%}",
        f"{task.seconds * 1e6:.1f}",
        f"{task.best.ratio:.3f}",
        f"{task.best.low:.3f} to {task.best.high:.3f}",
        str(task.trials),
        _correlation_text(task.correlation),
        failed,
        "taken" if task.accepted else "",
        task.change,
        task.name,
    )


def _correlation_text(correlation: float) -> str:
    """How well the search's model ranked what it had proposed; "" where it has none, or nothing was measured yet."""
    return f"{correlation:.2f}" if correlation else ""


def _skipped_lines(result: TuningResult) -> Iterator[str]:
    """Why kernels were not tuned: how many for each reason."""
    reasons: dict[str, list[TaskResult]] = {}
    for task in result.tasks:
        if task.skipped:
            reasons.setdefault(task.skipped, []).append(task)
    for reason, tasks in reasons.items():
        yield f"not tuned: {count_text(len(tasks), 'kernel')}: {reason}"


def _nodes_text(nodes: Sequence[str], longest: int) -> str:
    """The first of some nodes, as many as there is room for, and how many more there are."""
    names = [shorten(name_text(node), longest) for node in nodes]
    count = len(names)
    while count > 1 and len(" + ".join(names[:count])) > longest:
        count -= 1
    more = f" and {len(names) - count} more" if count < len(names) else ""
    return (" + ".join(names[:count]) or "made by the compiler") + more
