"""``tilewright check MODEL``: what a model needs and all that is unsupported in it, without compiling it."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence

from tilewright.core.printed import LONGEST_LINE
from tilewright.core.report_text import LABEL, SHOWN_NODES
from tilewright.tools._command import USER_ERROR, as_command
from tilewright.tools._options import (
    add_input_shape,
    add_register,
    add_specialize,
    add_untrusted,
    demand_model,
    file_name,
    make_parser,
)
from tilewright.tools._output import print_report, showing_progress
from tilewright.tools._tables import wrap_line

_ALL_NODES = 10**8  # characters of a line, each of whose names is cut


@as_command
def main(argv: Sequence[str] | None = None) -> int:
    """Check the model and print what was found; the exit code is 2 where something is unsupported."""
    args = _parser().parse_args(argv)
    demand_model(args.model)
    from tilewright.driver import api

    with showing_progress(f"checking {args.model}", args):
        found = api.check_model(args.model, dict(args.input_shape), args.specialize, args.untrusted)
    longest, shown = (_ALL_NODES, None) if args.all else (LONGEST_LINE, SHOWN_NODES)
    print_report(dataclasses.asdict(found), list(wrap_line(found.lines(shown), LABEL)), args, longest)
    return 0 if found.supported else USER_ERROR


def _parser() -> argparse.ArgumentParser:
    cli = make_parser("check", "describe a model and all that is unsupported in it, without compiling it")
    cli.add_argument("model", type=file_name, help="the ONNX file")
    add_input_shape(cli)
    add_specialize(cli)
    add_register(cli)
    add_untrusted(cli)
    cli.add_argument("--all", action="store_true", help="name all nodes that have a problem")
    return cli


if __name__ == "__main__":
    raise SystemExit(main(None))
