"""``tilewright debug model.onnx``: finds the first node whose result is wrong, and which pass makes it so."""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.core.errors import InputError
from tilewright.core.printed import name_text
from tilewright.tools._command import as_command
from tilewright.tools._options import (
    PROGRAMS,
    THIS_CPU,
    add_input_shape,
    add_level,
    add_no_cache,
    add_records,
    add_register,
    file_name,
    file_path,
    make_parser,
)
from tilewright.tools._output import print_report, showing_progress
from tilewright.tools.run import add_inputs, for_run, given_inputs, load_program

if TYPE_CHECKING:
    from tilewright.tools.debugging.search import Finding

FOUND = 1
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}
_LONGEST_NAME = 80  # of a file
_AGAINST = ("onnxruntime", "reference")


@as_command
def main(argv: Sequence[str] | None = None) -> int:
    """Look into the model: the exit code is 1 where something is wrong, 0 where nothing is."""
    args = _parser().parse_args(argv)
    if not (args.against or args.watch or args.dump_dir):
        args.against = _AGAINST[0]
    _check_debug_args(args)
    record: dict[str, Any] = {"model": args.model}
    lines: list[str] = []
    wrong = False
    for wanted, look in ((args.watch or args.dump_dir, _watch_run), (args.against, _compare_with_reference)):
        if wanted:
            facts, said, fault = look(args)
            record, lines, wrong = record | facts, lines + said, wrong or fault
    print_report(record, lines, args)
    return FOUND if wrong else 0


def _parser() -> argparse.ArgumentParser:
    from tilewright.tools.reduce import add_limits

    cli = make_parser("debug", "find the first wrong node of a model, and the pass that makes it wrong")
    cli.add_argument("model", type=file_name, help="the ONNX file; with --watch or --dump-dir also a program")
    text = "onnxruntime or reference: compare node by node"
    cli.add_argument("--against", choices=_AGAINST, metavar="WHO", help=text)
    text = "nan, inf or nonfinite: stop at the first one"
    cli.add_argument("--watch", choices=("nan", "inf", "nonfinite"), metavar="W", help=text)
    cli.add_argument("--dump-dir", type=file_path, metavar="DIR", help="write the result of each kernel there")
    cli.add_argument("--save", type=file_path, metavar="DIR", help="write a model that shows the fault, and its inputs")
    text = "bytes of nodes' values at a time, at most (1g)"
    cli.add_argument("--memory", type=parse_bytes, default=10**9, metavar="N", help=text)
    add_level(cli)
    add_inputs(cli)
    add_limits(cli, timeout=300.0)
    add_input_shape(cli)
    add_no_cache(cli)
    add_records(cli)
    add_register(cli)
    return cli


def parse_bytes(text: str) -> int:
    """``500m`` or ``2GB`` as a number of bytes; ArgumentTypeError for what is none."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kmg]?)b?", text.strip().lower())
    if match is None or not (size := int(float(match[1]) * _UNITS[match[2]])):
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of bytes, such as 500m or 2g")
    return size


def _check_debug_args(args: argparse.Namespace) -> None:
    """Refuse what cannot be done before the long work begins."""
    if args.against and Path(args.model).suffix in PROGRAMS:
        raise InputError(f"'{args.model}' is compiled already: give its ONNX model to compare with {args.against}")
    if args.save and args.save.exists() and not args.save.is_dir():
        raise InputError(f"cannot write into {args.save}: it is not a folder")
    if args.save and not args.against:
        raise InputError("--save writes what --against finds: give both")


def _watch_run(args: argparse.Namespace) -> tuple[dict[str, Any], list[str], bool]:
    """Run the program call by call."""
    from tilewright.runtime.graph.debug_executor import DebugModule

    args.threads, args.target, args.untrusted = 1, THIS_CPU, False
    with showing_progress(f"loading {args.model}", args) as say:
        module = load_program(args, say)
        inputs = given_inputs(for_run(module.inputs, args), args)
        say(f"running {args.model}")
        debug = DebugModule(module, args.dump_dir)
        found = debug.first_nonfinite(inputs, args.watch) if args.watch else None
        if not args.watch:
            debug.run(inputs)
    lines = [f"results of all calls are in {args.dump_dir}"] if args.dump_dir else []
    if args.watch:
        lines.append(str(found) if found else f"no call makes {args.watch}")
    facts = {"watch": args.watch, "found": asdict(found) if found else None}
    return facts | {"dump_dir": args.dump_dir and str(args.dump_dir)}, lines, found is not None


def _compare_with_reference(args: argparse.Namespace) -> tuple[dict[str, Any], list[str], bool]:
    """Compare the model with the reference."""
    from tilewright.tools.debugging.isolation import Child
    from tilewright.tools.debugging.search import Search
    from tilewright.tools.debugging.verdict import answer
    from tilewright.tools.debugging.walk import Walk
    from tilewright.tools.reduce import read_case, require_onnxruntime, tolerance_of

    if args.against == _AGAINST[0]:
        require_onnxruntime("debug")
    order = (args.against, *(who for who in _AGAINST if who != args.against))
    with showing_progress(f"reading {args.model}", args) as say:
        model, inputs = read_case(args)
        ask, end = Child(answer, args.timeout).call, time.monotonic() + args.budget
        walk = Walk(model, inputs, args.memory, order)
        found = Search(ask, order, tolerance_of(args), args.opt_level, end, say).find(walk, inputs)
    if found.whole.kind not in ("agrees", "differs"):
        raise InputError(_incomparable(args.model, found.whole.kind, found.whole.reason))
    saved = _save(found, args.save) if args.save else None
    return _finding_record(found, saved), _finding_lines(found, saved, args), found.whole.kind == "differs"


def _incomparable(model: str, kind: str, reason: str) -> str:
    if kind in ("refused", "unknown", "disputed"):
        return f"'{model}' cannot be compared: {reason}"
    return f"'{model}' does not run: {reason}; `tilewright reduce` finds the nodes that fail so"


def _save(found: Finding, folder: Path) -> Path | None:
    """Write the case with its inputs beside it, and return the model's path; None where there is no case."""
    from tilewright.tools.reduce import write

    if found.case is None:
        return None
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot write into {folder}: {error.strerror}") from error
    name = found.node.name or found.output if found.alone and found.node else "together"
    path = folder / (re.sub(r"[^\w.-]+", "_", name)[:_LONGEST_NAME] + ".onnx")
    write(found.case, path)
    return path


def _finding_record(found: Finding, saved: Path | None) -> dict[str, Any]:
    node = found.node
    return {
        "kind": found.whole.kind,
        "reason": found.whole.reason,
        "node": {"name": node.name, "op": node.op_type, "output": found.output, "reason": found.reason}
        if node
        else None,
        "inside": found.inside,
        "alone": found.alone,
        "shown_by": [inner.name or inner.op_type for inner in found.case.nodes] if found.case else [],
        "saved": str(saved) if saved else None,
        "nonfinite": found.nonfinite or None,
        "bisection": asdict(found.bisection) if found.bisection else None,
        "notes": found.notes,
    }


def _finding_lines(found: Finding, saved: Path | None, args: argparse.Namespace) -> list[str]:
    from tilewright.tools.debugging.walk import describe_node

    shown_by = ", ".join(name_text(describe_node(node)) for node in found.case.nodes) if found.case else ""
    if found.whole.kind == "agrees":
        return [f"{args.model}: the outputs agree with those of {args.against}"]
    lines = [f"{args.model}: {found.whole.reason}"]
    if found.node is not None:
        inside = f", in the branch of {' and in that of '.join(map(name_text, found.inside))}" if found.inside else ""
        lines.append(f"first bad node: {name_text(describe_node(found.node))}{inside}: {found.reason}")
        if found.alone:
            lines.append("it is wrong alone, on the reference's inputs")
        elif found.case is not None:
            lines.append(f"shown by {shown_by}")
    elif found.case is not None:
        lines.append(f"wrong together: {shown_by}: {found.reason}")
    if found.nonfinite:
        lines.append(
            f"'{name_text(found.nonfinite)}' is the first value with NaN or infinities that {args.against} has not"
        )
    lines += [f"saved as {saved}, with its inputs beside it"] if saved else []
    return [*lines, *_bisect(found), *(f"note: {note}" for note in found.notes)]


def _bisect(found: Finding) -> list[str]:
    made = found.bisection
    if made is None:
        return []
    lines = ["levels: " + ", ".join(f"{level} {kind}" for level, kind in made.levels.items())]
    if made.passes:
        lines.append(f"right at level {made.level} without any one of the passes: {', '.join(made.passes)}")
    elif made.level is not None and made.whole:
        lines.append(f"wrong at level {made.level} whichever pass is left out: look at the import")
    if made.fuse_limit is not None:
        lines.append(f"right with fuse-ops.max_group_size up to {made.fuse_limit}")
    if not made.whole:
        lines.append("the time was over before all passes were tried: give a larger --budget")
    return lines


if __name__ == "__main__":
    raise SystemExit(main(None))
