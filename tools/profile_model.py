"""``tilewright profile MODEL``: what a model's or a program's kernel calls cost, as a table, CSV, JSON or a trace."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.core.errors import InputError
from tilewright.core.model import explain_dynamic_sizes
from tilewright.core.sizes import has_dynamic_extents
from tilewright.driver.machine import Machine
from tilewright.runtime.profile.profiler import KEYS, Report
from tilewright.tools._command import as_command
from tilewright.tools._options import (
    add_input_shape,
    add_level,
    add_no_cache,
    add_records,
    add_register,
    add_rounds,
    add_target,
    check_outputs,
    check_target,
    file_name,
    file_path,
    find_records,
    is_program,
    make_parser,
)
from tilewright.tools._output import print_report, print_table, showing_progress, tell
from tilewright.tools.run import add_inputs, for_run, given_inputs

if TYPE_CHECKING:
    import numpy as np

    from tilewright.core.progress import Teller
    from tilewright.runtime.module import Module

_TOGETHER: dict[str, Callable[[Report], Report]] = {
    "call": lambda profile: profile,
    "kernel": Report.by_kernel,
    "op": Report.by_op,
    "node": Report.by_node,
}
_SPARE = ("MB", "MFLOP", "min us", "max us", "total ms", "GB/s", "count")  # of a narrow table
_SAMPLES = 5  # of the machine's rates, before the runs and after them


@as_command
def main(argv: Sequence[str] | None = None) -> None:
    """Run a program some times, and print what its calls took."""
    args = _parser().parse_args(argv)
    _check_profile_args(args)
    with showing_progress(f"loading {args.model}", args) as say:
        module = _load_profiled(args, say)
        inputs = _make_inputs(module, args)
    with showing_progress(f"profiling {args.model}", args, animated=False) as say:
        made = _TOGETHER[args.by](_profile(module, inputs, args.rounds, say))
    for path, text in ((args.csv, made.csv(args.sort)), (args.trace, made.chrome_trace())):
        if path:
            _write_text(path, text)
    print_report(json.loads(made.json()) if args.json else {}, [*made.head(), ""], args)
    if not args.json and not args.quiet:
        group = ("kernel", "nodes") if args.by in ("kernel", "op") else ("nodes", "kernel")
        print_table(made.cells(args.sort, args.top), words=group, spare=(*group[1:], *_SPARE))


def _parser() -> argparse.ArgumentParser:
    cli = make_parser("profile", "time a model's or a program's kernel calls")
    cli.add_argument("model", type=file_name, help="model.onnx, model.so or model.tw")
    add_target(cli)
    cli.add_argument("--threads", type=int, metavar="N", help="threads (default: all this process may use)")
    add_rounds(cli, 10, "runs to measure, after two others")
    add_level(cli)
    cli.add_argument("--sort", choices=KEYS, default="time", metavar="KEY", help=f"{', '.join(KEYS)} (time)")
    cli.add_argument("--by", choices=_TOGETHER, default="call", help="what each row stands for (call)")
    cli.add_argument("--top", type=int, metavar="N", help="show only the first N rows")
    cli.add_argument("--csv", type=file_path, metavar="FILE", help="write all rows as comma-separated values")
    text = "write the first runs for Perfetto, chrome://tracing"
    cli.add_argument("--trace", type=file_path, metavar="FILE", help=text)
    add_inputs(cli)
    add_input_shape(cli)
    add_no_cache(cli)
    add_records(cli)
    add_register(cli)
    return cli


def _check_profile_args(args: argparse.Namespace) -> None:
    """Refuse what cannot be done before the long work begins."""
    for name in ("rounds", "top", "threads"):
        if (value := getattr(args, name)) is not None and value < 1:
            raise InputError(f"--{name} is {value}: it must be at least 1")
    check_target(args, [args.model])
    check_outputs({"--csv": args.csv, "--trace": args.trace}, args.model, args.inputs)


def _load_profiled(args: argparse.Namespace, say: Teller) -> Module:
    """The program; a model is compiled to one that times its calls itself."""
    if is_program(args.model):
        from tilewright.runtime.module import load_module

        return load_module(args.model, args.threads)
    from tilewright.driver import api

    asked = {"opt_level": args.opt_level, "cache": not args.no_cache, "profile": True, "progress": say}
    asked["records"] = find_records(args)
    module = api.compile(args.model, args.target, dict(args.input_shape), args.threads, **asked)
    tell(module.report.notes)
    return module


def _make_inputs(module: Module, args: argparse.Namespace) -> dict[str, np.ndarray]:
    """Inputs as given or made up; InputError where those have no sizes."""
    infos = for_run(module.inputs, args)
    if not args.inputs and any(has_dynamic_extents(info.shape) for info in infos):
        raise InputError(f"{explain_dynamic_sizes(infos)}, or the arrays with --inputs")
    return given_inputs(infos, args)


def _profile(module: Module, inputs: Mapping[str, np.ndarray], rounds: int, say: Teller) -> Report:
    """The profile, with the machine's rates as they are before and after it."""
    from tilewright.core.target import Target

    machine = Machine(Target.parse(module.manifest.target), module.num_threads)
    for _ in range(_SAMPLES):
        machine.sample()
    made = module.profile(inputs, rounds, on_round=lambda done: say("profiling, rounds", done, rounds))
    for _ in range(_SAMPLES):
        machine.sample()
    return replace(made, rates=machine.rates())


def _write_text(path: Path, text: str) -> None:
    from tilewright.runtime.process.files import replacing_file

    with replacing_file(path.absolute()) as temporary:
        temporary.write_text(text)


if __name__ == "__main__":
    raise SystemExit(main(None))
