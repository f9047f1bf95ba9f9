"""``tilewright header model.so``: writes a C header for a compiled program, and a C program that uses it."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from tilewright.core.errors import ArtifactError, InputError
from tilewright.core.program import METADATA_SECTION
from tilewright.runtime.artifact import elf, on_disk
from tilewright.runtime.artifact.belongings import demand_example, demand_free_header
from tilewright.runtime.artifact.c_text import prefix
from tilewright.runtime.c.example import write_example
from tilewright.runtime.c.header import Interface, demand_callable
from tilewright.runtime.c.session_header import SessionInterface, demand_session
from tilewright.runtime.process.files import replacing_file
from tilewright.tools._command import as_command
from tilewright.tools._options import check_outputs, file_name, file_path, make_parser
from tilewright.tools._output import print_report, show


@as_command
def main(argv: Sequence[str] | None = None) -> None:
    """Write the header of a compiled program. Nothing of the program is run."""
    cli = _parser()
    args = cli.parse_args(argv)
    if args.link_flags:
        return _print_flags(args)
    if args.program is None:
        cli.error("no program given")
    path = Path(args.program)
    check_outputs({"-o": args.output or path.with_suffix(".h"), "--example": args.example}, path)
    if args.session and args.specialized:
        raise InputError("--session is for the sizes that are left open: leave --specialized out")
    interface, *others = _interfaces(path, args.specialized, args.name, args.session)
    output = Path(args.output) if args.output else path.with_suffix(".h")
    written = {output: "\n".join(each.header() for each in (interface, *others))}
    demand_free_header(output, path)
    if args.example:
        own = Path(args.example)
        demand_example(own)
        written[own] = write_example(interface, _find_include_path(output, own))
    with ExitStack() as files:
        for file, text in written.items():
            files.enter_context(replacing_file(file.absolute())).write_text(text)
    names = (each.name for each in (interface, *others))
    functions = ", ".join(f"{name}_{verb}" for name in names for verb in ("load", "run", "free"))
    lines = [f"{output}: {functions}", *([f"{args.example}: calls them"] if args.example else [])]
    print_report({"paths": [*map(str, written)], "name": interface.name}, lines, args)


def _print_flags(args: argparse.Namespace) -> None:
    """Print the flags for a shell, which ``$(...)`` splits into words."""
    from tilewright.runtime.c.link_flags import link_flags

    if args.program is not None:
        raise InputError("--link-flags are those of all programs: leave the program out")
    flags = link_flags()
    if args.json:
        return print_report({"flags": flags}, [], args)
    show([shlex.join(flags)])


def _find_include_path(header: Path, source: Path) -> str:
    """The header's name in a C file: as it is beside it, or the way there."""
    return os.path.relpath(header.absolute(), source.absolute().parent)


def _parser() -> argparse.ArgumentParser:
    cli = make_parser("header", "write a C header for a compiled program", "[options] model.so")
    cli.add_argument("program", nargs="?", type=file_name, help="a compiled program")
    cli.add_argument("-o", "--output", type=file_path, metavar="FILE", help="the header (model.h)")
    cli.add_argument("--example", type=file_path, metavar="FILE", help="also write a C program that runs it")
    cli.add_argument("--name", help="prefix of names in the header (the file's name)")
    cli.add_argument("--specialized", type=int, default=0, metavar="N", help="use the N-th specialized program")
    cli.add_argument("--session", action="store_true", help="keep the program's states from run to run")
    cli.add_argument("--link-flags", action="store_true", help="print what cc needs to build C that includes a header")
    return cli


def _interfaces(path: Path, number: int, name: str | None, session: bool) -> list[Interface]:
    """The interface of the file's ``number``-th program, or of its sessions; one for each of several functions."""
    if path.suffix != on_disk.SUFFIX:
        raise ArtifactError(f"cannot make a header of {path}: give a program whose name ends with {on_disk.SUFFIX}")
    code, manifest = on_disk.read_program(path, sealed=False)
    if session:
        demand_session(manifest, str(path))
        number = manifest.session_number
    else:
        for each in manifest.function_numbers.values() if manifest.functions and not number else [number]:
            demand_callable(manifest, each, str(path))
    weights = on_disk.stored_weights(path, code, manifest)
    text = elf.read_section(code.shared, METADATA_SECTION) or b""
    stem = path.stem if name is None else name
    if manifest.functions and not number:
        functions = manifest.function_numbers.items()
        return [Interface(prefix(f"{stem}_{n}"), manifest, text, weights, i, file=path.name) for n, i in functions]
    kind = SessionInterface if session else Interface
    return [kind(prefix(stem), manifest, text, weights, number, file=path.name)]


if __name__ == "__main__":
    raise SystemExit(main(None))
