"""``tilewright opt FILE.mlir --passes=a,b{option=1}``: runs passes on a module and prints it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from tilewright.tools._common import command, parser


@command
def main(argv: Sequence[str] | None = None) -> None:
    """Parse the file, run the passes in order, print the module."""
    cli = parser("opt", "run passes on an .mlir file and print the result", "[options] [file]")
    cli.add_argument("file", nargs="?", help="the module to read; - is standard input")
    cli.add_argument("--passes", default="", help="names in order, with options in braces: a,b{option=value}")
    cli.add_argument("--list", action="store_true", help="list the passes")
    cli.add_argument("--print-ir-after", action="append", default=[], metavar="PASS", help="or `all`; on stderr")
    cli.add_argument("--dump-dir", type=Path, metavar="DIR", help="write the module after each pass to a file of DIR")
    cli.add_argument("--locations", action="store_true", help="print locations too")
    args = cli.parse_args(argv)
    if args.list:
        return _list()
    if not args.file:
        cli.error("no file given")
    _run(args.file, args.passes, args.print_ir_after, args.dump_dir, args.locations)


def _list() -> None:
    from tilewright.passes.table import PASSES

    for name, cls in sorted(PASSES.items()):
        options = " ".join(f"{option}={value}" for option, value in vars(cls()).items())
        print(f"{name:<16}{(cls.__doc__ or '').splitlines()[0]}{f'  {{{options}}}' if options else ''}")


def _run(file: str, passes: str, print_after: list[str], dump_dir: Path | None, locations: bool) -> None:
    from tilewright.dialects import ir
    from tilewright.dialects.context import diagnostics, make_context
    from tilewright.errors import ModelError
    from tilewright.passes.infra import PassContext, parse_pipeline
    from tilewright.passes.instruments import DumpIR, Instrument, PrintIR, Verify
    from tilewright.passes.table import PASSES

    stages = parse_pipeline(passes, PASSES)
    instruments: list[Instrument] = [Verify(), PrintIR(print_after)]
    if dump_dir:
        instruments.append(DumpIR(dump_dir))
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"cannot read '{file}': {getattr(error, 'strerror', None) or error}") from None
    context = make_context()
    with context, ir.Location.unknown(context):
        with diagnostics(f"parsing '{file}'"):
            module = ir.Module.parse(text)
        with PassContext(instruments=instruments) as pass_context:
            for stage in stages:
                pass_context.run(stage, module)
        print(str(module.operation.get_asm(enable_debug_info=locations, use_local_scope=locations)).rstrip())


if __name__ == "__main__":
    raise SystemExit(main(None))
