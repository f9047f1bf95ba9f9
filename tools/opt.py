"""``tilewright opt FILE.mlir --passes=a,b{option=1}``: runs passes on a module and prints it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tilewright.tools._command import as_command
from tilewright.tools._options import add_level, add_target, file_path, make_parser, read_schedules
from tilewright.tools._output import show, show_bytes

CODE_KINDS = ("llvm", "asm", "obj")


@as_command
def main(argv: Sequence[str] | None = None) -> None:
    """Parse the file, run the passes in order, print the module; or do the step of a crash bundle again."""
    cli = _parser()
    args = cli.parse_args(argv)
    if args.list:
        return _list_passes()
    if args.repro:
        return _reproduce(args.repro)
    if not args.file:
        cli.error("no file given")
    _run_passes(args)


def _parser() -> argparse.ArgumentParser:
    cli = make_parser("opt", "run passes on an .mlir file and print the result", "[options] [file]")
    cli.add_argument("file", nargs="?", help="the module to read; - is standard input")
    cli.add_argument("--passes", default="", help="names in order, with options in braces: a,b{option=value}")
    add_target(cli)
    add_level(cli)
    cli.add_argument(
        "--schedules", type=file_path, metavar="FILE", help="schedules of kernels: JSON or a transform module"
    )
    cli.add_argument("--emit", choices=CODE_KINDS, metavar="KIND", help="code of an LLVM-dialect module: llvm asm obj")
    cli.add_argument("--list", action="store_true", help="list the passes")
    cli.add_argument("--repro", metavar="BUNDLE", help="repeat the step of a crash bundle")
    cli.add_argument("--print-ir-after", action="append", default=[], metavar="PASS", help="or `all`; on stderr")
    text = "write the module after each pass to a file of DIR"
    cli.add_argument("--dump-dir", type=file_path, metavar="DIR", help=text)
    cli.add_argument("--locations", action="store_true", help="print locations too")
    return cli


def _list_passes() -> None:
    from tilewright.passes.pipeline import PASSES

    width = max(map(len, PASSES)) + 2
    for name, cls in sorted(PASSES.items()):
        options = " ".join(f"{option}={value}" for option, value in vars(cls()).items())
        show([f"{name:<{width}}{(cls.__doc__ or '').splitlines()[0]}{f'  {{{options}}}' if options else ''}"])


def _run_passes(args: argparse.Namespace) -> None:
    from tilewright.core.errors import ModelError
    from tilewright.core.target import Target
    from tilewright.passes import by_command
    from tilewright.passes.infra.context import SCHEDULES, PassContext
    from tilewright.passes.infra.instruments import DumpIR, Instrument, PrintIR, Verify

    instruments: list[Instrument] = [Verify(), PrintIR(args.print_ir_after)]
    if args.dump_dir:
        instruments.append(DumpIR(args.dump_dir))
    try:
        text = sys.stdin.read() if args.file == "-" else Path(args.file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"cannot read '{args.file}': {getattr(error, 'strerror', None) or error}") from None
    config = {SCHEDULES: read_schedules(args.schedules)} if args.schedules else {}
    context = PassContext(opt_level=args.opt_level, instruments=instruments, config=config)
    target = Target.parse(args.target)
    made = by_command.run(text, args.file, args.passes, target, context, args.emit, args.locations)
    show_bytes(made)


def _reproduce(bundle: str) -> None:
    """Do the bundle's step in a process of its own, with the limits it had; an error where that fails again."""
    from tilewright.driver import jobs
    from tilewright.workers import Pool, crash_bundle
    from tilewright.workers.process import Job, Limits

    record, module = crash_bundle.read_bundle(bundle)
    step = record["step"]
    pool = Pool(1, Limits(**record["limits"], bundles=False))
    try:
        what = record.get("job") or f"the crash bundle '{bundle}'"
        pool.run([Job(what, jobs.redo_step, (step, str(module)))])
    finally:
        pool.shutdown()
    show([f"{step['name']} works now, where it had failed: {record['error']}"])


if __name__ == "__main__":
    raise SystemExit(main(None))
