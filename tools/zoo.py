"""``tilewright zoo``: write one of the benchmark networks as an ONNX file."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

from tilewright.core.errors import InputError
from tilewright.runtime.process.files import replacing_file
from tilewright.tools import networks
from tilewright.tools._command import as_command
from tilewright.tools._options import check_outputs, file_path, make_parser
from tilewright.tools._output import print_report, show, showing_progress


@as_command
def main(argv: Sequence[str] | None = None) -> int:
    """Write a network, or list them all."""
    cli = _parser()
    args = cli.parse_args(argv)
    if args.list:
        _list_networks(args)
    elif args.name is None:
        cli.error("which network? --list shows them")
    else:
        _write_network(args)
    return 0


def _parser() -> argparse.ArgumentParser:
    cli = make_parser("zoo", "write a benchmark network as an ONNX file, with random weights", "[options] [name]")
    text = "the network's name, see --list"
    cli.add_argument("name", nargs="?", choices=networks.NAMES, metavar="name", help=text)
    cli.add_argument("-o", "--output", type=file_path, metavar="FILE", help="where to write it (default: NAME.onnx)")
    cli.add_argument("--list", action="store_true", help="list the networks; with --quiet only their names")
    return cli


def _list_networks(args: argparse.Namespace) -> None:
    if args.quiet and not args.json:
        show(networks.NAMES)
        return
    record = {name: network.text for name, network in networks.NETWORKS.items()}
    print_report(record, [f"{name:<15}{text}" for name, text in record.items()], args)


def _write_network(args: argparse.Namespace) -> None:
    path = args.output or Path(f"{args.name}.onnx")
    check_outputs({"-o": path})
    if args.output is None and path.exists() and not networks.is_from_zoo(path):
        raise InputError(f"cannot write {path}: the file there is not from the zoo; give -o another name")
    start = time.perf_counter()
    with replacing_file(path) as temporary, showing_progress(f"writing {path}", args):
        model = networks.build(args.name)
        data = model.SerializeToString()
        temporary.write_bytes(data)
    parameters, seconds = networks.parameter_count(model), time.perf_counter() - start
    text = f"wrote {path}: {args.name}, {parameters:,} parameters, {len(data) / 1e6:.1f} MB, {seconds:.1f} s"
    record = {"network": args.name, "path": str(path), "parameters": parameters, "bytes": len(data)}
    print_report({**record, "seconds": round(seconds, 3)}, [text], args)


if __name__ == "__main__":
    raise SystemExit(main())
