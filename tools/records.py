"""``tilewright records ls|show|merge|verify|prune|export|import``: looks at what tuning has found, and shares it."""

from __future__ import annotations

import argparse
import fnmatch
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import tilewright
from tilewright.core.choices import PREFIX
from tilewright.core.errors import InputError, RecordError, ScheduleError
from tilewright.core.printed import count_text
from tilewright.records import Trial, Winner, user_file
from tilewright.records.database import Counts, Database
from tilewright.records.lookup import find_files
from tilewright.records.shared import FORMATS, Imported, import_lines
from tilewright.tools._command import as_command
from tilewright.tools._options import check_outputs, file_name, file_path, make_parser
from tilewright.tools._output import print_report, print_table, show
from tilewright.tools._records_shown import (
    COLUMNS,
    SPARE,
    describe_records,
    kernel_row,
    summarize_kernels,
    trial_record,
)

FAULTY = 1
_UNIT_SECONDS = {"": 86400.0, "d": 86400.0, "h": 3600.0, "min": 60.0, "w": 7 * 86400.0}
_KERNEL, _FILES = "KERNEL", "FILE..."
_ARGUMENTS = {"ls": "", "show": _KERNEL, "merge": _FILES, "verify": "", "prune": "", "export": "", "import": _FILES}


@as_command
def main(argv: Sequence[str] | None = None) -> int:
    """Do what is asked; the exit code is 1 where ``verify`` found something."""
    args = _parser().parse_args(argv)
    _check_records_args(args)
    actions: dict[str, Callable[[argparse.Namespace], int]] = {
        "ls": _ls,
        "show": _show,
        "merge": _merge,
        "verify": _verify,
        "prune": _prune,
        "export": _export_lines,
        "import": _import_files,
    }
    return actions[args.action](args)


def _parser() -> argparse.ArgumentParser:
    arguments = "[options] action [name...]"
    cli = make_parser("records", "show what tuning has found, share it, or check it", arguments)
    cli.add_argument("action", choices=tuple(_ARGUMENTS), metavar="action", help=f"{', '.join(_ARGUMENTS)}")
    cli.add_argument("names", nargs="*", type=file_name, metavar="name", help="a kernel for show, files for the others")
    cli.add_argument("--records", type=file_path, metavar="FILE", help="the records to use (the user's)")
    cli.add_argument("--kernel", metavar="NAME", help='of these kernels alone, also as in "conv_*"')
    cli.add_argument("--older-than", type=_parse_age, metavar="30d", help="prune what is older")
    cli.add_argument("--failed", action="store_true", help="prune trials that failed")
    cli.add_argument("--winners", action="store_true", help="export the schedules that won, without trials")
    cli.add_argument("--format", choices=FORMATS, metavar="F", help=f"of lines: {', '.join(FORMATS)} (json)")
    cli.add_argument("-o", "--output", type=file_path, metavar="FILE", help="write lines there (stdout)")
    return cli


def _parse_age(text: str) -> float:
    """Seconds of ``30d``."""
    match = re.fullmatch(r"(\d{1,6}(?:\.\d+)?)\s*(min|[dhw]?)", text.strip())
    if match is None:
        raise argparse.ArgumentTypeError(f"'{text}' is no age, such as 30d, 12h or 8w")
    return float(match[1]) * _UNIT_SECONDS[match[2]]


def _check_records_args(args: argparse.Namespace) -> None:
    """Refuse what an action does not take."""
    takes = _ARGUMENTS[args.action]
    if args.names and not takes:
        raise InputError(f"{args.action} takes no '{args.names[0]}': give a file of records by --records")
    if (takes and not args.names) or (takes == _KERNEL and len(args.names) > 1):
        raise InputError(f"{args.action} needs {'the name of one kernel' if takes == _KERNEL else 'files'}")
    allowed = {
        "kernel": ("ls", "prune", "export", "verify"),
        "older_than": ("prune",),
        "failed": ("prune",),
        "winners": ("export",),
        "format": ("export", "import"),
        "output": ("export",),
    }
    for option, actions in allowed.items():
        if getattr(args, option) and args.action not in actions:
            name = "-o" if option == "output" else f"--{option.replace('_', '-')}"
            raise InputError(f"{args.action} takes no {name}, which is for {', '.join(actions)}")


def _open_records(args: argparse.Namespace, create: bool = False) -> Database:
    """The records that are worked on: those given, or the user's."""
    path = args.records or user_file()
    reads = args.action in ("ls", "show", "verify", "export")
    return Database.open(path, create=create, readonly=reads)


# ---- looking


def _ls(args: argparse.Namespace) -> int:
    path = args.records or user_file()
    if not path.exists() and not args.records:
        record = {"file": str(path), "trials": 0, "winners": 0, "kernels": [], "files": [str(f) for f in find_files()]}
        print_report(record, [f"{path}: no records yet (`tilewright tune` writes them)"], args)
        return 0
    with _open_records(args) as database:
        rows = [row for row in summarize_kernels(database) if _is_chosen(row["kernel"], args.kernel)]
        counts = database.counts()
    record = {"file": str(path), **counts._asdict(), "kernels": rows, "files": [str(file) for file in find_files()]}
    text = f"{count_text(counts.trials, 'trial')}, {count_text(counts.winners, 'winner')}"
    print_report(record, [f"{path}: {text}"], args)
    if rows and not args.json and not args.quiet:
        print_table([COLUMNS, *map(kernel_row, rows)], words=("network", "target"), spare=SPARE)
    return 0


def _show(args: argparse.Namespace) -> int:
    [kernel] = args.names
    with _open_records(args) as database:
        trials = [trial for trial in database.trials() if _is_chosen(trial.kernel, kernel)]
        winners = [winner for winner in database.winners() if _is_chosen(winner.kernel, kernel)]
        path = database.path
    if not trials and not winners:
        raise RecordError(f"{path} has no kernel '{kernel}': `tilewright records ls` lists them")
    trials.sort(key=lambda trial: (trial.ratio, trial.time))
    record = {"file": str(path), "winners": [w.to_json() for w in winners], "trials": list(map(trial_record, trials))}
    print_report(record, list(describe_records(trials, winners)), args)
    return 0


# ---- checking and removing


def _verify(args: argparse.Namespace) -> int:
    with _open_records(args) as database:
        damage = database.verify()
        winners = [winner for winner in database.winners() if _is_chosen(winner.kernel, args.kernel)]
        path = database.path
    refused = [(winner, why) for winner in winners if (why := _replay(winner))]
    others = Counter(winner.version for winner in winners if winner.version != tilewright.__version__)
    lines = [f"{path}: {line}" for line in damage]
    lines += [
        f"the schedule of {winner.kernel}, {winner.version}, cannot be replayed: {why}" for winner, why in refused
    ]
    lines += [f"of version {version or 'unknown'}: {count_text(n, 'winner')}" for version, n in sorted(others.items())]
    good = len(winners) - len(refused)
    lines.append(f"{good} of {count_text(len(winners), 'winner')} can be replayed, {len(damage)} faults in the file")
    record = {"file": str(path), "winners": len(winners), "faults": damage, "other_versions": dict(others)}
    record["refused"] = [{"kernel": winner.kernel, "version": winner.version, "why": why} for winner, why in refused]
    print_report(record, lines, args)
    return FAULTY if damage or refused else 0


def _replay(winner: Winner) -> str:
    """Why the steps of a winner make no schedule in this version; "" where they do. Whether it fits its kernel as it
    is now is seen when that is compiled."""
    from tilewright.passes.schedule.language.schedule import Schedule

    if winner.kernel.startswith(PREFIX):
        return "" if winner.given_option is not None else "its decision of a plan is no option"
    try:
        Schedule.from_json(winner.schedule).check()
    except ScheduleError as error:
        return str(error)
    return ""


def _prune(args: argparse.Namespace) -> int:
    if args.older_than is None and args.kernel is None and not args.failed:
        raise InputError("prune removes what --older-than, --kernel or --failed say: give one of them")
    before = None if args.older_than is None else time.time() - args.older_than
    with _open_records(args) as database:
        removed = database.prune(before, args.kernel, args.failed)
        left, path = database.counts(), database.path
    record = {"file": str(path), "removed": removed._asdict(), "left": left._asdict()}
    print_report(record, [f"removed {_counts_text(removed)}; {_counts_text(left)} left in {path}"], args)
    return 0


# ---- sharing


def _merge(args: argparse.Namespace) -> int:
    path = args.records or user_file()
    for name in args.names:  # all of them are looked at before anything is written
        Database.open(name, readonly=True).close()
        if Path(name).resolve() == path.resolve():
            raise InputError(f"'{name}' is what the others are merged into: leave it out")
    added = Counts(0, 0)
    with _open_records(args, create=True) as database:
        for name in args.names:
            with Database.open(name, readonly=True) as other:
                found = database.merge(other)
            added = Counts(added.trials + found.trials, added.winners + found.winners)
        left = database.counts()
    record = {"file": str(path), "added": added._asdict(), **left._asdict()}
    print_report(record, [f"added {_counts_text(added)}; {path} has {_counts_text(left)}"], args)
    return 0


def _export_lines(args: argparse.Namespace) -> int:
    form = args.format or "json"
    check_outputs({"-o": args.output}, args.records or user_file())
    with _open_records(args) as database:
        records: list[Trial | Winner] = [] if args.winners else [*database.trials()]
        records += database.winners()
    chosen = [record for record in records if _is_chosen(record.kernel, args.kernel)]
    write = FORMATS[form].write
    lines = [write(record) for record in chosen if isinstance(record, Trial) or form == "json"]
    without = len(chosen) - len(lines)
    said = [f"left out {count_text(without, 'winner')}: {form}'s lines have trials alone"] if without else []
    if args.output is None:
        show(lines, longest=1 << 30)
        return 0
    from tilewright.runtime.process.files import replacing_file

    with replacing_file(args.output.absolute()) as temporary:
        temporary.write_text("".join(f"{line}\n" for line in lines))
    record = {"path": str(args.output), "lines": len(lines), "left_out": without}
    print_report(record, [*said, f"wrote {args.output}: {count_text(len(lines), 'line')}"], args)
    return 0


def _import_files(args: argparse.Namespace) -> int:
    found = Imported()
    with _open_records(args, create=True) as database:
        for name in args.names:
            try:
                with open(name, "rb") as file:
                    import_lines(database, file, found, args.format)
            except OSError as error:
                raise RecordError(f"cannot read '{name}': {error.strerror}") from error
        path = database.path
    if found.refused and not found.read:
        raise RecordError(f"'{args.names[0]}' has no line of records: line {found.first_line}: {found.first_reason}")
    lines = []
    if found.refused:
        number = f"{count_text(found.refused, 'line')} that are no records"
        lines.append(f"skipped {number}, the first one is line {found.first_line}: {found.first_reason}")
    if found.foreign:
        lines.append(
            f"{count_text(found.foreign, 'trial')} of TVM: results and errors are kept, knobs have no meaning here"
        )
    record = {"file": str(path), **vars(found)}
    print_report(record, [*lines, f"read {count_text(found.read, 'line')}, {found.added} new in {path}"], args)
    return 0


def _is_chosen(kernel: str, pattern: str | None) -> bool:
    return pattern is None or kernel == pattern or fnmatch.fnmatchcase(kernel, pattern)


def _counts_text(counts: Counts) -> str:
    return f"{count_text(counts.trials, 'trial')} and {count_text(counts.winners, 'winner')}"


if __name__ == "__main__":
    raise SystemExit(main(None))
