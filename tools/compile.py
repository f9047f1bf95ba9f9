"""``compile.py --target x86 model.onnx``: compiles a model to ``model.so``, with ``model.safetensors`` beside it."""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.core.errors import ArtifactError, CompileError, ModelError
from tilewright.core.printed import count_text, size_text
from tilewright.core.tensor_texts import tensor_record, tensor_text
from tilewright.runtime.artifact.source import SUFFIXES
from tilewright.runtime.description import describe_states
from tilewright.tools._command import as_command
from tilewright.tools._options import (
    ShowAction,
    add_input_shape,
    add_level,
    add_no_cache,
    add_records,
    add_register,
    add_specialize,
    add_states,
    add_target,
    add_untrusted,
    check_outputs,
    demand_model,
    file_name,
    file_path,
    find_records,
    find_states,
    make_parser,
    read_schedules,
)
from tilewright.tools._output import print_report, show, show_bytes, showing_progress, tell
from tilewright.tools._tables import wrap_line

if TYPE_CHECKING:
    from tilewright.driver.api import CompileReport
    from tilewright.passes.infra.context import PassContext
    from tilewright.runtime.artifact.manifest import Manifest

# Of what --emit can name, what is a whole program.
PROGRAMS = ("so", "obj", "lib")


@as_command
def main(argv: Sequence[str] | None = None) -> None:
    """Compile a model, or write what a stage of the compilation made."""
    args = _parser().parse_args(argv)
    demand_model(args.model)
    from tilewright.driver.cache.new_files import is_new
    from tilewright.driver.pools import find_pool

    if args.no_cache or is_new(args.model):  # then there is work, and a worker gets ready as long as this process does
        find_pool(args.workers).start()
    from tilewright.driver import api
    from tilewright.workers.process import Limits

    path = _output_path(args)
    check_outputs({"-o": path}, args.model, args.schedules, args.records)
    start = time.perf_counter()
    with showing_progress(f"compiling {args.model}", args) as say, ExitStack() as stack:
        context = stack.enter_context(_pass_context(args)) if _needs_context(args) else None
        kept = {"cache": not args.no_cache, "weights": args.weights, "profile": args.profile}
        kept |= {"states": find_states(args), "records": find_records(args)}
        kept |= {"limits": Limits.from_user(args.timeout, args.memory_limit), "untrusted": args.untrusted}
        options = api.make_options(args.target, args.threads, args.opt_level, progress=say, **kept)
        shapes = dict(args.input_shape)
        if args.emit in PROGRAMS:
            asked = args.specialize
            path, manifest, made = api.compile_to_file(args.model, path, shapes, options, args.workers, asked)
        else:
            text = api.emit(args.model, args.emit, shapes, options, args.workers)
            return _write_output(path, text, args)
    if args.time_passes and context:
        show(str(context.instruments[0]).splitlines(), sys.stderr)
    tell(made.notes)
    seconds = time.perf_counter() - start
    print_report(
        _result_record(path, manifest, made, seconds),
        list(wrap_line(_result_lines(path, manifest, made, seconds))),
        args,
    )


def _output_path(args: argparse.Namespace) -> Path:
    if args.specialize and args.emit not in PROGRAMS:
        raise CompileError(f"--emit {args.emit} shows one program: give the sizes by --input-shape, not --specialize")
    right = SUFFIXES[args.emit]
    if not Path(args.model).name:
        raise ModelError(f"'{args.model}' is a folder; give the path of an ONNX file")
    if args.output is None:
        path = Path(args.model).with_suffix(right)
        path = path.with_name(f"lib{path.name}") if args.emit == "lib" else path
        _demand_own(path, Path(args.model))
        return path
    path = Path(args.output)
    others = [SUFFIXES[kind] for kind in PROGRAMS if kind != "so"]  # a program's name may end with .tw, too
    if args.emit in PROGRAMS and path.suffix != right and (args.emit != "so" or path.suffix in others):
        raise ArtifactError(f"cannot write {path}: for --emit {args.emit} give a name that ends with {right}")
    return path


def _demand_own(path: Path, model: Path) -> None:
    """Raise ArtifactError if a path that nobody gave has another model's program: net.pt2 of net.onnx beside it."""
    from tilewright.runtime.artifact.on_disk import read_program
    from tilewright.runtime.process.files import sha256

    other = model.with_suffix(".onnx" if model.suffix == ".pt2" else ".pt2")
    if not path.exists() or not other.exists():
        return
    try:
        made_from = read_program(path)[1].source
        onnx_hash = sha256(other if model.suffix == ".pt2" else model)  # a .pt2 file has another kind of hash
    except (ArtifactError, OSError):
        return
    if (made_from == onnx_hash) == (model.suffix == ".pt2"):
        raise ArtifactError(f"cannot write {path}: it may be the program of {other}; give a name with -o")


def _parser() -> argparse.ArgumentParser:
    about = "compile an ONNX model to a native program, model.so with model.safetensors"
    cli = make_parser("compile", about, "[options] model.onnx")
    cli.add_argument("model", type=file_name, help=argparse.SUPPRESS)  # which leaves a screen's lines to the options
    add_target(cli)
    cli.add_argument("-o", "--output", type=file_name, metavar="FILE", help="the file to write; - prints text")
    add_input_shape(cli)
    add_specialize(cli)
    add_states(cli)
    cli.add_argument("--threads", type=int, metavar="N", help="threads of the program (all available)")
    add_level(cli)
    cli.add_argument(
        "--emit",
        choices=SUFFIXES,
        default="so",
        metavar="KIND",
        help="linalg kernels llvm-dialect llvm asm obj lib so (so)",
    )
    cli.add_argument(
        "--weights",
        choices=("beside", "inside"),
        default="beside",
        metavar="WHERE",
        help="beside the program, or inside",
    )
    cli.add_argument("--workers", type=int, metavar="N", help="compile processes; 0 compiles in this one")
    add_no_cache(cli)
    add_records(cli)
    cli.add_argument("--timeout", type=float, metavar="S", help="time limit in seconds")
    cli.add_argument("--memory-limit", type=_parse_bytes, metavar="4G", help="memory limit of each compile process")
    add_register(cli)
    add_untrusted(cli)
    cli.add_argument("--profile", action="store_true", help="make the program time its kernel calls")
    cli.add_argument("--help-passes", action=_HelpPasses, help="show the options for passes, and exit")
    _add_options_on_passes(cli, lambda text: argparse.SUPPRESS)  # the others fill a screen
    return cli


def _add_options_on_passes(cli: argparse.ArgumentParser, shown: Callable[[str], str]) -> None:
    """Add the options that watch or change passes; help shows what ``shown`` makes of their texts."""
    several = {"action": "append", "default": []}
    cli.add_argument("--print-ir-after", **several, metavar="PASS", help=shown("or all; on stderr"))
    cli.add_argument("--dump-dir", type=file_path, metavar="DIR", help=shown("a file in DIR after each pass"))
    cli.add_argument(
        "--config",
        **several,
        type=_parse_setting,
        metavar="PASS.OPTION=V",
        help=shown("an option of a pass (see opt --list)"),
    )
    cli.add_argument(
        "--schedules",
        type=file_path,
        metavar="FILE",
        help=shown("schedules of kernels: JSON or a transform module"),
    )
    cli.add_argument("--time-passes", action="store_true", help=shown("seconds of each pass, on stderr"))


class _HelpPasses(ShowAction):
    """Shows the options on passes alone."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        cli = argparse.ArgumentParser(parser.prog, parser.usage, "options on passes", add_help=False)
        _add_options_on_passes(cli, str)
        cli.print_help()
        parser.exit()


def _parse_bytes(text: str) -> int:
    """Bytes of ``4G``."""
    from tilewright.driver.cache.compile_cache import parse_size

    try:
        return parse_size(text, "the size")
    except CompileError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _parse_setting(text: str) -> tuple[str, str]:
    """``convert-layout.conv2d=NCHW`` as a key and a value."""
    key, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"'{text}' is not PASS.OPTION=VALUE")
    return key, value


def _needs_context(args: argparse.Namespace) -> bool:
    return bool(args.config or args.schedules or _seen(args))


def _seen(args: argparse.Namespace) -> bool:
    return bool(args.print_ir_after or args.dump_dir or args.time_passes)


def _pass_context(args: argparse.Namespace) -> PassContext:
    from tilewright.passes.infra.context import PassContext, check_context
    from tilewright.passes.infra.instruments import DumpIR, Instrument, PrintIR, Timing
    from tilewright.passes.pipeline import PASSES

    instruments: list[Instrument] = [Timing(), PrintIR(args.print_ir_after)] if _seen(args) else []
    if args.dump_dir:
        instruments.append(DumpIR(args.dump_dir))
    config = dict(args.config)
    if args.schedules:
        config["schedules"] = read_schedules(args.schedules)
    context = PassContext(opt_level=args.opt_level, instruments=instruments, config=config)
    check_context(context, PASSES)
    return context


def _write_output(path: Path, data: bytes, args: argparse.Namespace) -> None:
    if str(path) == "-":
        return show_bytes(data)
    from tilewright.runtime.process.files import replacing_file

    with replacing_file(path) as temporary:
        temporary.write_bytes(data)
    print_report({"path": str(path), "bytes": len(data)}, [f"{path}: {size_text(len(data))}"], args)


def _result_record(path: Path, manifest: Manifest, made: CompileReport, seconds: float) -> dict[str, Any]:
    from tilewright.runtime.artifact.manifest import collect_ranges

    tensors = {side: list(map(tensor_record, getattr(manifest, side))) for side in ("inputs", "outputs")}
    facts = {"path": str(path), **tensors, "ranges": collect_ranges(manifest.inputs)}
    return {**facts, **dataclasses.asdict(made), "total_seconds": seconds}


def _result_lines(path: Path, manifest: Manifest, made: CompileReport, seconds: float) -> list[str]:
    inputs, outputs = (", ".join(map(tensor_text, infos)) for infos in (manifest.inputs, manifest.outputs))
    stages = ", ".join(f"{name} {time:.2f}" for name, time in made.seconds.items())
    calls, kernels = count_text(made.calls, "call"), count_text(made.kernels, "kernel")
    code = f"{calls} of {kernels} ({size_text(made.code_bytes)} of code)"
    tensors = count_text(len(manifest.weights), "tensor")
    done = "taken from the cache" if made.cached else "compiled"
    weights = f"weights {size_text(made.weight_bytes)} in {tensors}, {made.prepared} of them prepared"
    return [
        f"{_shorten_path(path)}: {inputs or 'no inputs'} -> {outputs}",
        f"{code}, arena {size_text(made.arena_bytes)}, {weights}",
        *_describe_specialized(manifest),
        *describe_states(manifest),
        *_variants(manifest),
        f"{done} in {seconds:.2f} s: {stages}",
        f"wrote {', '.join(map(_describe_written, made.files))}",
    ]


def _shorten_path(path: str | Path) -> str:
    """A path as it is seen from here, or as it is where the way from here is longer."""
    return min(os.path.relpath(path), str(path), key=len)


def _describe_written(path: str) -> str:
    files = [file for file in Path(path).glob("*")] if os.path.isdir(path) else [Path(path)]
    return f"{_shorten_path(path)} ({size_text(sum(file.stat().st_size for file in files))})"


def _describe_specialized(manifest: Manifest) -> Iterator[str]:
    for sizes, own in zip(manifest.specializations, manifest.specialized, strict=True):
        yield f"specialized for {sizes}: {count_text(len(own.kernels), 'kernel')}, arena {size_text(own.arena_bytes)}"


def _variants(manifest: Manifest) -> Iterator[str]:
    for each in manifest.by_target if manifest.variants else ():
        kernels = count_text(sum(len(program.kernels) for program in each.programs), "kernel")
        yield f"variant {each.target}: {kernels}, arena {size_text(each.arena_bytes)}"


if __name__ == "__main__":
    raise SystemExit(main(None))
