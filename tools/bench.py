"""``tilewright bench MODEL --compare onnxruntime``: measures models, against other runtimes if wanted, and kernels."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

from tilewright.core.errors import InputError
from tilewright.tools._command import as_command
from tilewright.tools._options import (
    add_input_shape,
    add_records,
    add_rounds,
    add_target,
    check_outputs,
    check_target,
    file_name,
    file_path,
    find_records,
    make_parser,
)
from tilewright.tools._output import print_report
from tilewright.tools._tables import markdown_lines
from tilewright.tools.benchmarks import kernel_bench, model_bench, op_bench, rivals, table
from tilewright.tools.run import add_inputs

DISAGREE = 1


@as_command
def main(argv: Sequence[str] | None = None) -> int:
    """Measure; the exit code is 1 where a rival's answers are not ours."""
    cli = _parser()
    args = cli.parse_args(argv)
    args.threads = list(dict.fromkeys(args.threads or [1]))
    args.compare = list(dict.fromkeys(args.compare))
    if not args.kernels and not args.ops:  # a file that is named twice is one, by its first name
        names: dict[str, str] = {}
        for model in args.models:
            names.setdefault(os.path.realpath(model), model)
        args.models = list(names.values())
    if not args.models and not args.kernels and not args.ops:
        cli.error("no model given")
    _check_bench_args(args)
    if args.kernels:
        _show(args, *kernel_bench.measure_kernels(args))
        return 0
    if args.ops:
        _show(args, *op_bench.measure_operators(args))
        return 0
    if len(args.models) > 1 or args.output:
        record, text = table.measure_models(args)
        _show(args, record, text)
        records = record["models"]
    else:
        records = [model_bench.measure_model(args)]
    return 0 if all(r["agrees"] for model in records for run in model["runs"] for r in run["rivals"]) else DISAGREE


def _parser() -> argparse.ArgumentParser:
    cli = make_parser(
        "bench", "measure models cold and warm, against other runtimes in interleaved rounds", "[options] model..."
    )
    cli.add_argument(
        "models", nargs="*", type=file_name, metavar="model", help="model.onnx, model.so or model.tw; several: a table"
    )
    cli.add_argument(
        "--compare", action="append", default=[], choices=list(rivals.RIVALS), metavar="RUNTIME",
        help=f"{', '.join(rivals.RIVALS)} (our program for all sizes); may be repeated",
    )  # fmt: skip
    add_target(cli)
    cli.add_argument("--kernels", action="store_true", help="measure standard or named kernels, not models")
    cli.add_argument(
        "--ops",
        action="store_true",
        help="measure operators, all or those named, beside onnxruntime; --compare open: all sizes beside known ones",
    )
    cli.add_argument("--threads", type=int, action="append", metavar="N", help="threads (1); may be repeated")
    add_rounds(cli, 9, "rounds of measurement")
    add_inputs(cli)
    cli.add_argument("-o", "--output", type=file_path, metavar="FILE.md", help="write the table as markdown")
    add_input_shape(cli)
    add_records(cli)
    return cli


def _check_bench_args(args: argparse.Namespace) -> None:
    """Refuse what cannot be done before the long work begins."""
    if args.rounds < 1:
        raise InputError(f"--rounds is {args.rounds}: it must be at least 1")
    if min(args.threads) < 1:
        raise InputError(f"--threads is {min(args.threads)}: it must be at least 1")
    check_outputs({"-o": args.output}, *([] if args.kernels or args.ops else args.models))
    if args.seed < 0:
        raise InputError(f"--seed is {args.seed}: it must be at least 0")
    if args.kernels and (args.compare or args.input_shape or args.threads != [1]):
        others = "--compare, --input-shape and --threads"
        raise InputError(f"--kernels measures its standard kernels on one thread: leave {others} out")
    if args.kernels and args.ops:
        raise InputError("--kernels and --ops are two measurements: give one of them")
    if args.ops and (args.input_shape or len(args.compare) > 1 or "openvino" in args.compare):
        raise InputError("--ops compares at sizes of its own, with onnxruntime or open: leave all others out")
    find_records(args)
    check_target(args, [] if args.kernels or args.ops else args.models)
    for name in [*args.compare, *(["onnxruntime"] if args.ops else [])]:
        rivals.require_rival(name)


def _show(args: argparse.Namespace, record: dict, text: str) -> None:
    """Print the record or the markdown, and write the markdown to the file, whole or not at all."""
    if args.output:
        from tilewright.runtime.process.files import replacing_file

        with replacing_file(args.output.absolute()) as temporary:
            temporary.write_text(text)
    print_report(record, list(markdown_lines(text.rstrip().splitlines())), args)


if __name__ == "__main__":
    raise SystemExit(main(None))
