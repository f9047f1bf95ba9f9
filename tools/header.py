"""``tilewright header model.so``: writes a C header for a compiled program, and a C program that uses it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from tilewright.errors import ArtifactError
from tilewright.program import METADATA_SECTION
from tilewright.runtime import artifact, elf
from tilewright.runtime.c_text import prefix
from tilewright.runtime.example import example
from tilewright.runtime.files import replacing
from tilewright.runtime.header import Interface, demand_callable
from tilewright.tools._common import command, parser, report


@command
def main(argv: Sequence[str] | None = None) -> None:
    """Write the header of a compiled program. Nothing of the program is run."""
    args = _parser().parse_args(argv)
    path = Path(args.program)
    interface = _interface(path, args.specialized, args.name)
    output = Path(args.output) if args.output else path.with_suffix(".h")
    written = {output: interface.header()}
    if args.example:
        written[Path(args.example)] = example(interface, output.name)
    for file, text in written.items():
        with replacing(file.absolute()) as temporary:
            temporary.write_text(text)
    functions = ", ".join(f"{interface.name}_{verb}" for verb in ("load", "run", "free"))
    report({"paths": [*map(str, written)], "name": interface.name}, [f"{output}: {functions}"], args)


def _parser() -> argparse.ArgumentParser:
    cli = parser("header", "write a C header for a compiled program", "[options] model.so")
    cli.add_argument("program", help="what compile wrote")
    cli.add_argument("-o", "--output", metavar="FILE", help="the header (model.h)")
    cli.add_argument("--example", metavar="FILE", help="also write a C program that runs it")
    cli.add_argument("--name", help="what names in the header begin with (the file's name)")
    cli.add_argument("--specialized", type=int, default=0, metavar="N", help="of the N-th specialized program")
    return cli


def _interface(path: Path, number: int, name: str | None) -> Interface:
    """What the file says of its ``number``-th program."""
    if path.suffix != artifact.SUFFIX:
        raise ArtifactError(f"cannot make a header of {path}: give a program whose name ends with {artifact.SUFFIX}")
    code, manifest = artifact.read(path, sealed=False)
    demand_callable(manifest, number, str(path))
    weights = artifact.stored_weights(path, code, manifest)
    text = elf.section(code.shared, METADATA_SECTION) or b""
    return Interface(prefix(path.stem if name is None else name), manifest, text, weights, number)


if __name__ == "__main__":
    raise SystemExit(main(None))
