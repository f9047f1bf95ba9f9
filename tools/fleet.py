"""``tilewright fleet scheduler|worker|status|certificates``: the machines that measure for ``tilewright tune``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tilewright.core.errors import FleetError
from tilewright.tools._command import as_command
from tilewright.tools._options import add_target, file_path, make_parser
from tilewright.tools._output import print_report, show

_ACTIONS = ("scheduler", "worker", "status", "certificates")


@as_command
def main(argv: Sequence[str] | None = None) -> None:
    """Do what is asked; a scheduler and a worker go on until they are ended."""
    args = _parser().parse_args(argv)
    _refuse_options(args)
    {"scheduler": _schedule, "worker": _work, "status": _status, "certificates": _certify}[args.action](args)


def _parser() -> argparse.ArgumentParser:
    cli = make_parser(
        "fleet",
        "run the machines of a fleet, or see what they do",
        "[options] scheduler|worker|status|certificates [place]",
    )
    cli.add_argument("action", choices=_ACTIONS, metavar="|".join(_ACTIONS), help="what to do")
    cli.add_argument(
        "place", nargs="?", metavar="place", help="the scheduler of workers and status, tls://host:port; a folder"
    )
    cli.add_argument("--certificates", type=file_path, metavar="FOLDER", help="where they are (among your data)")
    cli.add_argument("--host", metavar="HOST", help="address of this machine to be reached at (127.0.0.1)")
    cli.add_argument("--port", type=int, metavar="N", help="where a scheduler listens (9190), or a worker")
    cli.add_argument("--insecure", action="store_true", help="a scheduler without certificates, for this machine alone")
    cli.add_argument("--key", metavar="NAME", help="of a worker (made of its CPU and threads)")
    cli.add_argument("--threads", type=int, metavar="N", help="of a worker (all CPUs that it may use)")
    cli.add_argument("--days", type=int, metavar="N", help="how long certificates are good for (365)")
    add_target(cli)
    return cli


# Which of the options an action has, besides those of all.
_TAKEN = {
    "scheduler": ("certificates", "host", "port", "insecure"),
    "worker": ("certificates", "host", "port", "key", "threads", "target"),
    "status": ("certificates",),
    "certificates": ("days",),
}


def _refuse_options(args: argparse.Namespace) -> None:
    """Raise FleetError for options that an action does not have, and for a place that is missing or too much."""
    parsed = vars(args)
    for name in ("certificates", "host", "port", "insecure", "key", "threads", "days"):
        if parsed[name] not in (None, False) and name not in _TAKEN[args.action]:
            having = [action for action in _ACTIONS if name in _TAKEN[action]]
            raise FleetError(f"fleet {args.action} takes no --{name}: it is for {' and '.join(having)}")
    if args.action == "scheduler" and args.place is not None:
        raise FleetError("fleet scheduler takes no address: give --host and --port")
    if args.action != "scheduler" and args.place is None:
        wanted = "the folder to write to" if args.action == "certificates" else "its scheduler, as tls://host:port"
        raise FleetError(f"fleet {args.action} needs {wanted}")


def _schedule(args: argparse.Namespace) -> None:
    from tilewright.tuning.fleet.address import DEFAULT_PORT, LOOPBACK
    from tilewright.tuning.fleet.service import run_scheduler

    port = DEFAULT_PORT if args.port is None else args.port
    run_scheduler(args.host or LOOPBACK, port, args.certificates, args.insecure, _tell)


def _work(args: argparse.Namespace) -> None:
    from tilewright.tuning.fleet.service import WorkerOptions, run_worker

    options = WorkerOptions(
        args.place, args.certificates, args.key, args.threads, args.host, args.port or 0, args.target
    )
    run_worker(options, _tell)


def _tell(line: str) -> None:
    show([line])
    sys.stdout.flush()


def _status(args: argparse.Namespace) -> None:
    from tilewright.tuning.fleet.address import Fleet
    from tilewright.tuning.fleet.tracker import Tracker

    with Tracker(Fleet(args.place, args.certificates)) as tracker:
        summary = tracker.summary()
        print_report(summary, tracker.text_summary().splitlines(), args)


def _certify(args: argparse.Namespace) -> None:
    from pathlib import Path

    from tilewright.tuning.fleet.certificates import make_certificates

    made = make_certificates(Path(args.place), 365 if args.days is None else args.days)
    lines = [f"made {path}" for path in made] or [f"{args.place} has all certificates: remove one to make it again"]
    print_report({"made": [str(path) for path in made]}, lines, args)


if __name__ == "__main__":
    raise SystemExit(main(None))
