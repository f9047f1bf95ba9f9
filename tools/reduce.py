"""``tilewright reduce model.onnx``: finds a small part of a model that fails, and the inputs that show it."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from tilewright.core.errors import InputError, ModelError, first_line
from tilewright.core.progress import Say, tell_nobody
from tilewright.tools._command import as_command
from tilewright.tools._options import (
    add_input_shape,
    check_outputs,
    demand_model,
    file_name,
    file_path,
    make_parser,
    not_negative,
    parse_positive,
)
from tilewright.tools._output import print_report, showing_progress
from tilewright.tools.debugging.isolation import Child, Lost
from tilewright.tools.debugging.oracle import ORDER, require_reference
from tilewright.tools.debugging.reducer import KnownValues, ModelCase, reduce_model
from tilewright.tools.debugging.verdict import Raised, Verdict, answer, judge, run_ours, values_of
from tilewright.tools.run import add_inputs, given_inputs, write_arrays


@as_command
def main(argv: Sequence[str] | None = None) -> None:
    """Reduce the model; nothing that fails is an error of the user's."""
    args = _parser().parse_args(argv)
    require_onnxruntime("reduce")
    demand_model(args.model)
    check_outputs({"-o": args.output}, args.model, args.inputs)
    model, inputs = read_case(args)
    with showing_progress(f"running {args.model}", args) as say:
        child = Child(answer, args.timeout)
        tolerance = tolerance_of(args)
        verdict = judge(model, inputs, child.call, tolerance)
        if not verdict.fails:
            raise InputError(_nothing(args.model, verdict))
        case, verdict = shrink(model, inputs, verdict, child.call, tolerance, args.budget, say)
    path = args.output
    write(case, path)
    record = {
        "path": str(path),
        "kind": verdict.kind,
        "reason": verdict.reason,
        "nodes": [node.op_type for node in case.nodes],
    }
    ops = ", ".join(f"{n} {op}" if n > 1 else op for op, n in Counter(record["nodes"]).items())
    print_report(record, [f"{path}: {ops}, of {len(model.graph.node)} nodes: {verdict.kind}: {verdict.reason}"], args)


def _parser() -> argparse.ArgumentParser:
    cli = make_parser("reduce", "find a small part of a model that fails to compile, or differs from onnxruntime")
    cli.add_argument("model", type=file_name, help="the ONNX file")
    cli.add_argument(
        "-o", "--output", type=file_path, default=Path("reduced.onnx"), metavar="FILE", help="(reduced.onnx)"
    )
    add_inputs(cli)
    add_limits(cli, timeout=60.0)
    add_input_shape(cli)
    return cli


def add_limits(cli: argparse.ArgumentParser, timeout: float) -> None:
    """Add ``--rtol`` and ``--atol``, what results may differ by; ``--timeout`` and ``--budget``, how long it takes."""
    cli.add_argument("--rtol", type=not_negative, help="relative error to accept (by the type)")
    cli.add_argument("--atol", type=not_negative, default=0.0, help="with --rtol: absolute error to accept (0)")
    text = f"seconds that a compilation may take ({timeout:g})"
    cli.add_argument("--timeout", type=parse_positive, default=timeout, metavar="S", help=text)
    cli.add_argument(
        "--budget", type=not_negative, default=600.0, metavar="S", help="seconds for the whole search (600)"
    )


def tolerance_of(args: argparse.Namespace) -> tuple[float, float] | None:
    """The tolerance that was asked for; None for that of each dtype."""
    if args.atol and args.rtol is None:
        raise InputError("--atol needs --rtol: give both")
    return None if args.rtol is None else (args.rtol, args.atol)


def shrink(
    model: onnx.ModelProto,
    inputs: Mapping[str, np.ndarray],
    verdict: Verdict,
    ask: Callable[[tuple[Any, ...]], Any],
    tolerance: tuple[float, float] | None = None,
    budget: float = 600.0,
    say: Say = tell_nobody,
    second_opinion: bool = False,
    run: Callable[[bytes, Mapping[str, np.ndarray]], list[np.ndarray]] = run_ours,
    order: Sequence[str] = ORDER,
) -> tuple[ModelCase, Verdict]:
    """The smallest case found in ``budget`` seconds that fails like ``verdict``, and its own verdict.

    The oracles of ``order`` are asked, the first one first.
    """
    last, end = verdict, time.monotonic() + budget

    def fails(case: ModelCase) -> bool:
        nonlocal last
        if time.monotonic() > end:
            return False
        found = judge(case.model, case.inputs, ask, tolerance, second_opinion, run, order)
        if not found.alike(verdict):
            return False
        last = found
        say(f"{len(case.nodes)} nodes: {found.reason}", 0, 0, end)
        return True

    def record(model: onnx.ModelProto, inputs: Mapping[str, np.ndarray]) -> KnownValues | None:
        values = ask((values_of, model.SerializeToString(), inputs)) if time.monotonic() < end else None
        return None if isinstance(values, Lost | Raised) else values

    return reduce_model(model, inputs, fails, record), last


def write(case: ModelCase, path: Path) -> None:
    """Write the model, and beside it its inputs, ``reduced_inputs.npz`` for ``reduced.onnx``."""
    from tilewright.runtime.process.files import replacing_file

    with replacing_file(path.absolute()) as temporary:
        temporary.write_bytes(case.model.SerializeToString())
    write_arrays(path.with_name(f"{path.stem}_inputs.npz"), case.inputs)


def require_onnxruntime(command: str) -> None:
    """InputError where onnxruntime, which ``command`` compares with, is not installed."""
    try:
        require_reference()
    except ModuleNotFoundError as error:
        raise InputError(
            f"{command} compares with onnxruntime: the package is not installed (pip install onnxruntime)"
        ) from error


def read_case(args: argparse.Namespace) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """The model ``args.model`` with its weights, and inputs for it, of ``add_inputs`` and ``--input-shape``."""
    from tilewright.frontends import model_inputs
    from tilewright.frontends.onnx.proto.node_order import sort_nodes

    infos = model_inputs(args.model, dict(args.input_shape))  # which says best what is wrong with a file
    try:
        model = onnx.load(args.model)
    except Exception as error:
        raise ModelError(f"cannot read '{args.model}': {first_line(error)}") from error
    sort_nodes(model)
    arrays = given_inputs(infos, args)
    missing = [info.name for info in infos if info.name not in arrays]
    if missing:
        raise InputError(f"{args.inputs} lacks the inputs {', '.join(map(repr, missing))}")
    return model, {info.name: arrays[info.name] for info in infos}


def _nothing(model: str, verdict: Verdict) -> str:
    match verdict.kind:
        case "agrees":
            return f"nothing fails: '{model}' compiles, and its outputs agree with onnxruntime's"
        case "refused":
            return verdict.reason
        case _:
            return f"nothing to compare '{model}' with: {verdict.reason}"


if __name__ == "__main__":
    raise SystemExit(main(None))
