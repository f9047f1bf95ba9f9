"""``tilewright run model.so``: runs a program (or an ONNX model, compiled first) on given or made-up inputs."""

from __future__ import annotations

import argparse
import time
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.core.errors import InputError
from tilewright.core.model import OBJECTS, TensorInfo, numpy_dtype
from tilewright.core.printed import name_text
from tilewright.core.sizes import has_dynamic_extents
from tilewright.core.specialization import fix_sizes
from tilewright.tools._arrays import widen_array
from tilewright.tools._command import as_command
from tilewright.tools._options import (
    add_input_shape,
    add_level,
    add_no_cache,
    add_records,
    add_register,
    add_rounds,
    add_target,
    add_untrusted,
    check_outputs,
    check_target,
    file_name,
    file_path,
    find_records,
    is_program,
    make_parser,
    not_negative,
)
from tilewright.tools._output import print_report, showing_progress, tell

if TYPE_CHECKING:
    from tilewright.core.progress import Teller
    from tilewright.runtime.module import Module

MISMATCH = 1


@as_command
def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; the exit code is 1 where an output differs from what is expected."""
    args = _parser().parse_args(argv)
    _check_run_args(args)
    with showing_progress(f"loading {args.model}", args) as say:
        module = load_program(args, say)
    inputs = given_inputs(for_run(module.inputs, args), args)
    with showing_progress(f"running {args.model}", args, animated=False) as say:
        outputs, times = _run_rounds(module, inputs, args.rounds, say)
    arrays = {info.name: array for info, array in zip(module.outputs, outputs, strict=True)}
    if args.outputs:
        write_arrays(args.outputs, arrays)
    compared = compare(arrays, read_arrays(args.expect), args) if args.expect else []
    record, lines = _format_result(arrays, times, compared, args.print_top)
    print_report(record, lines, args)
    return 0 if all(row["ok"] for row in compared) else MISMATCH


def _check_run_args(args: argparse.Namespace) -> None:
    """Refuse what cannot be done before the long work begins."""
    for name, least in (("rounds", 1), ("print_top", 0)):
        if (value := getattr(args, name)) < least:
            raise InputError(f"--{name.replace('_', '-')} is {value}: it must be at least {least}")
    check_target(args, [args.model])
    check_outputs({"--outputs": args.outputs}, args.model, args.inputs, args.expect)


def _parser() -> argparse.ArgumentParser:
    about = "run a compiled program, or compile a model and run it"
    cli = make_parser("run", about, "[options] model.so|model.tw|model.onnx")
    cli.add_argument("model", type=file_name, help=argparse.SUPPRESS)  # which leaves a screen's lines to the options
    add_target(cli)
    add_inputs(cli)
    cli.add_argument("--outputs", type=file_path, metavar="Y.npz", help="write the outputs, by name")
    cli.add_argument("--expect", type=file_path, metavar="Y.npz", help="compare outputs with these, by name")
    cli.add_argument(
        "--rtol", type=not_negative, default=1e-4, help="relative error |a-b|/|b| (Euclidean) to accept (1e-4)"
    )
    cli.add_argument("--atol", type=not_negative, default=1e-6, help="or difference of each element (1e-6)")
    cli.add_argument("--print-top", type=int, default=0, metavar="N", help="print each output's N largest elements")
    add_rounds(cli, 1, "timed runs")
    add_level(cli)
    cli.add_argument("--threads", type=int, metavar="N", help="threads (default: all this process may use)")
    add_input_shape(cli)
    add_register(cli)
    add_no_cache(cli)
    add_records(cli)
    add_untrusted(cli)
    return cli


def add_inputs(cli: argparse.ArgumentParser) -> None:
    """Add ``--inputs``, ``--fill`` and ``--seed``."""
    cli.add_argument("--inputs", type=file_path, metavar="X.npz", help="arrays by input name")
    cli.add_argument("--fill", choices=("random", "zeros", "ones"), default="random", help="made-up inputs (random)")
    cli.add_argument("--seed", type=int, default=0, help="for random inputs: normal floats, 0s and 1s (0)")


def given_inputs(infos: Sequence[TensorInfo], args: argparse.Namespace) -> dict[str, np.ndarray]:
    """The inputs by the options of ``add_inputs``. Raises InputError for an array of another size than the input's."""
    return given_arrays(args.inputs, infos) if args.inputs else make_inputs(infos, args.fill, args.seed)


def for_run(infos: Sequence[TensorInfo], args: argparse.Namespace) -> Sequence[TensorInfo]:
    """The inputs as ``--input-shape`` has them for this run: a model was compiled so, a program has its own sizes."""
    return fix_sizes(infos, dict(args.input_shape), args.model) if is_program(args.model) else infos


def given_arrays(path: Path, infos: Sequence[TensorInfo]) -> dict[str, np.ndarray]:
    """The arrays of an ``.npz`` file; InputError where one has not the size that was given."""
    arrays = read_arrays(path, infos)
    for info in infos:
        array = arrays.get(info.name)
        if (
            array is not None
            and not has_dynamic_extents(info.shape)
            and info.dtype not in OBJECTS
            and array.shape != info.shape
        ):
            raise InputError(f"{path} has '{info.name}' of shape {array.shape}, expected {info.static_shape}")
    return arrays


def load_program(args: argparse.Namespace, say: Teller) -> Module:
    """The program ``args.model``, or the model of that name, compiled as ``args`` say."""
    if is_program(args.model):
        from tilewright.runtime.module import load_module

        return load_module(args.model, args.threads)
    from tilewright.driver import api

    shapes = dict(args.input_shape)
    asked = {"opt_level": args.opt_level, "cache": not args.no_cache, "untrusted": args.untrusted, "progress": say}
    asked["records"] = find_records(args)
    module = api.compile(args.model, args.target, shapes, args.threads, **asked)
    tell(module.report.notes)
    return module


def make_inputs(infos: Sequence[TensorInfo], how: str, seed: int) -> dict[str, np.ndarray]:
    """Made-up inputs. Random integers are 0 or 1, which any table that they index has.

    Raises InputError for what is no tensor of numbers.
    """
    if other := next((info for info in infos if info.dtype in OBJECTS), None):
        raise InputError(f"input '{other.name}' is a {other.dtype}: made-up inputs are numbers, give it with --inputs")
    if seed < 0:
        raise InputError(f"--seed is {seed}: it must be at least 0")
    random = np.random.default_rng(seed)

    def make(info: TensorInfo) -> np.ndarray:
        shape, dtype = info.static_shape, numpy_dtype(info.dtype)
        if how != "random":
            return np.full(shape, how == "ones", dtype)
        if dtype.kind in "iub" or info.dtype.startswith(("int", "uint")):
            return random.integers(0, 2, shape).astype(dtype)
        values = random.standard_normal(shape, np.float32)
        if dtype.kind == "c":
            return (values + 1j * random.standard_normal(shape, np.float32)).astype(dtype)
        return (np.abs(values) if info.dtype == "float8_e8m0fnu" else values).astype(dtype)  # which has no sign

    return {info.name: make(info) for info in infos}


def read_arrays(path: Path, infos: Sequence[TensorInfo] = ()) -> dict[str, np.ndarray]:
    """The arrays of an ``.npz`` file. Types that the format lacks come back as those of ``infos``."""
    dtypes = {info.name: numpy_dtype(info.dtype) for info in infos}
    try:
        with np.load(path) as file:
            arrays = {name: file[name] for name in file.files}
    except (OSError, ValueError, AttributeError, zipfile.BadZipFile) as error:
        reason = getattr(error, "strerror", None) or "it is none, or holds more than arrays of numbers"
        raise InputError(f"cannot read {path} as an .npz file: {reason}") from error
    for name, array in arrays.items():
        if array.dtype.kind == "V" and name in dtypes and array.dtype.itemsize == dtypes[name].itemsize:
            arrays[name] = array.view(dtypes[name])
    return arrays


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write an ``.npz`` file, whole or not at all."""
    from tilewright.runtime.process.files import replacing_file

    # Types that a library registered (2) are written as bytes: numpy names some of them in a way that it cannot read.
    plain = {name: a.view(f"V{a.dtype.itemsize}") if a.dtype.isbuiltin == 2 else a for name, a in arrays.items()}
    with replacing_file(path.absolute()) as temporary, temporary.open("wb") as file:
        np.savez(file, **plain)  # type: ignore[arg-type]  # names may be any text


def compare(got: Mapping[str, np.ndarray], want: Mapping[str, np.ndarray], args: argparse.Namespace) -> list[dict]:
    """One row for each expected output: its error, and whether that is within the tolerances."""
    unknown = [name for name in want if name not in got]
    if unknown or not want:
        names = ", ".join(map(repr, got))
        raise InputError(f"{args.expect} has {', '.join(map(repr, unknown)) or 'no arrays'}: the outputs are {names}")
    return [_compare_output(name, got[name], array, args) for name, array in want.items()]


def _compare_output(name: str, got: np.ndarray, want: np.ndarray, args: argparse.Namespace) -> dict[str, Any]:
    if got.shape != want.shape:
        raise InputError(f"output '{name}' has shape {got.shape}, {args.expect} expects {want.shape}")
    a, b = widen_array(got), widen_array(want)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    difference = np.where(same, 0.0, a - b)
    norm = float(np.linalg.norm(np.where(np.isfinite(b), b, 0.0)))
    error = float(np.linalg.norm(difference)) / norm if norm else float(np.linalg.norm(difference))
    largest = float(np.max(np.abs(difference), initial=0.0))
    return {"name": name, "error": error, "largest": largest, "ok": error <= args.rtol or largest <= args.atol}


def _run_rounds(
    module: Module, inputs: Mapping[str, np.ndarray], rounds: int, say: Teller
) -> tuple[list[np.ndarray], list[float]]:
    outputs, times = [], []
    for number in range(rounds):
        say("running, rounds", number, rounds)
        start = time.perf_counter()
        outputs = module.run(inputs)
        times.append(time.perf_counter() - start)
    return outputs, times


def _format_result(
    arrays: Mapping[str, np.ndarray], times: Sequence[float], compared: Sequence[dict], top: int
) -> tuple[dict[str, Any], list[str]]:
    record: dict[str, Any] = {"outputs": [], "seconds": list(times), "expect": list(compared)}
    lines = []
    for name, array in arrays.items():
        best = _largest(array, top)
        record["outputs"].append({"name": name, "shape": array.shape, "dtype": array.dtype.name, "top": best})
        lines.append(f"{name_text(name)} {array.dtype.name}[{','.join(map(str, array.shape))}]")
        lines += [f"  {value:12.6g}  at {index}" for index, value in best]
    for row in compared:
        verdict = "agrees" if row["ok"] else "DIFFERS"
        lines.append(
            f"{name_text(row['name'])} {verdict}: relative error {row['error']:.2e},"
            f" largest difference {row['largest']:.2e}"
        )
    if len(times) > 1:
        lines.append(f"{len(times)} runs: median {np.median(times) * 1e3:.3f} ms, best {min(times) * 1e3:.3f} ms")
    return record, lines


def _largest(array: np.ndarray, count: int) -> list[tuple[list[int], float]]:
    """The places of the largest elements, and these; of complex ones their magnitudes."""
    values = (np.abs(array) if array.dtype.kind == "c" else array).astype(np.float64).reshape(-1)
    order = np.argsort(-values, kind="stable")[:count]
    return [([int(i) for i in np.unravel_index(flat, array.shape)], float(values[flat])) for flat in order]


if __name__ == "__main__":
    raise SystemExit(main(None))
