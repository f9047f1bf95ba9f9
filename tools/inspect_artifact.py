"""``tilewright inspect model.so|model.tw|model.o``: what a compiled program says about itself; nothing of it is run."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tilewright.core.errors import ArtifactError
from tilewright.core.printed import count_text, size_text
from tilewright.core.states import State
from tilewright.core.target import find_missing_features
from tilewright.core.tensor_texts import tensor_record, tensor_text
from tilewright.runtime.artifact import on_disk
from tilewright.runtime.artifact.manifest import FORMAT, Manifest, collect_ranges
from tilewright.runtime.artifact.shared import is_sealed
from tilewright.runtime.artifact.variants import choose
from tilewright.runtime.description import describe_states
from tilewright.tools._command import as_command
from tilewright.tools._options import file_name, make_parser
from tilewright.tools._output import print_report, showing_progress
from tilewright.tools._tables import wrap_line

DAMAGED = 1
_KINDS = {".so": "shared library", ".tw": "folder of objects", ".o": "relocatable object"}
# What programs of other versions may say under the same name, of the same kind.
_LASTING = ("name", "compiler", "format", "abi", "source", "target", "cpu_features", "options", "fingerprint")


@as_command
def main(argv: Sequence[str] | None = None) -> int:
    """Show a program; the exit code is 1 where ``--verify`` found that its weights are not there, or not intact."""
    args = _parser().parse_args(argv)
    path = Path(args.program)
    if path.suffix == ".a":
        raise ArtifactError(f"{path} is a static library: inspect shows model.so, model.tw and model.o")
    code, text = on_disk.read_text(path, sealed=False)
    about = _file(path, code)
    try:
        manifest = Manifest.from_json(text, str(path))
    except ArtifactError as error:
        record = about | _of_another_version(text, path) | {"note": str(error)}
        print_report(record, [_head_line(record), *(f"{key}: {record[key]}" for key in (*_LASTING, "note"))], args)
        return DAMAGED if args.verify else 0
    with showing_progress(f"reading {path}", args):
        record = about | _program_record(manifest, path, code, args.verify)
    print_report(record, list(wrap_line(_program_lines(record, manifest))), args)
    return DAMAGED if args.verify and record["weights"]["problem"] else 0


def _parser() -> argparse.ArgumentParser:
    about = "describe a compiled program, without loading it"
    cli = make_parser("inspect", about, "[options] model.so|model.tw|model.o")
    cli.add_argument("program", type=file_name, help=argparse.SUPPRESS)
    cli.add_argument("--verify", action="store_true", help="read and hash the weights, too")
    return cli


def _file(path: Path, code: on_disk.Code) -> dict[str, Any]:
    """The kind of the files. A library without a seal was not linked by ``compile``."""
    sealed = is_sealed(code.shared) if path.suffix == ".so" else None
    return {"path": str(path), "kind": _KINDS.get(path.suffix, "program"), "bytes": code.nbytes, "sealed": sealed}


def _of_another_version(text: str, path: Path) -> dict[str, Any]:
    """The facts about a program of another version that can be read. Raises ArtifactError if there are none."""
    try:
        found = json.loads(text)
        return {key: found.get(key) for key in _LASTING}
    except (ValueError, AttributeError, RecursionError) as error:
        raise ArtifactError(f"{path}: its description is damaged: compile the model again") from error


def _program_record(manifest: Manifest, path: Path, code: on_disk.Code, verify: bool) -> dict[str, Any]:
    tensors = {side: list(map(tensor_record, getattr(manifest, side))) for side in ("inputs", "outputs")}
    made = {key: getattr(manifest, key) for key in ("name", "compiler", "abi", "source", "options")}
    kernels = [kernel for each in manifest.by_target for program in each.programs for kernel in program.kernels]
    flushing = sorted({kernel.name for kernel in kernels if kernel.flushes_denormals})
    return {
        **made,
        "format": FORMAT,
        **tensors,
        "ranges": collect_ranges(manifest.inputs),
        "weights": _weights_record(manifest, path, code, verify),
        "flush_denormals": flushing,
        "operators": manifest.operators,
        "functions": [*manifest.function_numbers] if manifest.functions else [],
        "codegens": manifest.codegens,
        "specializations": manifest.specializations,
        "states": [_state(manifest, state) for state in manifest.states],
        "variants": [_variant(each, i == _choose(manifest)) for i, each in enumerate(manifest.by_target)],
    }


def _state(manifest: Manifest, state: State) -> dict[str, Any]:
    names = {"input": manifest.inputs[state.input].name, "output": manifest.outputs[state.output].name}
    return {**names, "axis": state.axis}


def _weights_record(manifest: Manifest, path: Path, code: on_disk.Code, verify: bool) -> dict[str, Any]:
    """Where the weights are, and what is wrong with them, if anything."""
    place = "inside" if manifest.weights_inside else "beside" if manifest.weights else "none"
    file = on_disk.weights_path(path) if place == "beside" else None
    return {
        "place": place,
        "file": str(file) if file else None,
        "there": file.exists() if file else place == "inside",
        "tensors": len(manifest.weights),
        "bytes": manifest.weight_bytes,
        "fingerprint": manifest.fingerprint,
        "problem": _problem(manifest, path, code, verify),
        "verified": verify,
    }


def _problem(manifest: Manifest, path: Path, code: on_disk.Code, verify: bool) -> str | None:
    try:
        if weights := on_disk.stored_weights(path, code, manifest):
            weights.check(manifest.weights, manifest.fingerprint)
            if verify:
                weights.verify()
    except ArtifactError as error:
        return str(error)
    return None


def _choose(manifest: Manifest) -> int | None:
    """Which variant loading takes here; None for none."""
    try:
        _, chosen = choose(manifest, "")
    except ArtifactError:
        return None
    return [each.target for each in manifest.by_target].index(chosen.target)


def _variant(manifest: Manifest, chosen: bool) -> dict[str, Any]:
    return {
        "target": manifest.target,
        "cpu_features": manifest.cpu_features,
        "lacking": find_missing_features(manifest.cpu_features),
        "chosen": chosen,
        "programs": [_program(each) for each in manifest.programs],
    }


def _program(manifest: Manifest) -> dict[str, Any]:
    return {
        "inputs": list(map(tensor_record, manifest.inputs)),
        "dynamic": manifest.routine is not None,
        "kernels": len(manifest.kernels),
        "calls": manifest.call_count,
        "arena_bytes": manifest.arena_bytes,
        "weight_bytes": sum(info.nbytes for info in manifest.params),
        "flops": sum(_flops_of_calls(manifest)),
    }


def _flops_of_calls(manifest: Manifest) -> Iterator[int]:
    """Of each call; of a program for all sizes they are not known."""
    known = {kernel.name: kernel.flops for kernel in manifest.kernels}
    yield from (known[call.kernel] for call in manifest.calls)


def _head_line(record: dict[str, Any]) -> str:
    seal = {True: ", sealed", False: ", without a seal", None: ""}[record["sealed"]]
    return f"{record['path']}: {record['kind']}, {size_text(record['bytes'])}{seal}"


def _program_lines(record: dict[str, Any], manifest: Manifest) -> Iterator[str]:
    yield _head_line(record)
    yield f"made by Tilewright {manifest.compiler} (format {FORMAT}, ABI {manifest.abi}) from '{manifest.name}'"
    if manifest.source:
        yield f"model: sha256 {manifest.source}"
    yield "options: " + (", ".join(f"{key} {value}" for key, value in manifest.options.items()) or "none")
    for side in ("inputs", "outputs"):
        yield f"{side}: " + (", ".join(map(tensor_text, getattr(manifest, side))) or "none")
    for name, size in _long_sizes(manifest).items():
        yield f"{name}: {size}"
    yield _weights_line(record["weights"])
    yield _denormals_line(record["flush_denormals"], manifest)
    if record["operators"]:
        yield f"operators to be registered before it is loaded (tw.register_op): {', '.join(record['operators'])}"
    if record["codegens"]:
        kinds = (f"{name} ({kind})" for name, kind in record["codegens"].items())
        yield f"code generators, those in Python to be registered before it is loaded: {', '.join(kinds)}"
    yield from describe_states(manifest)
    for variant, each in zip(record["variants"], manifest.by_target, strict=True):
        yield from _variant_lines(variant, each)


def _long_sizes(manifest: Manifest) -> dict[str, str]:
    """The sizes that a shape shows by a name alone, and their expressions."""
    extents = [extent for info in (*manifest.inputs, *manifest.outputs) for extent in info.shape]
    return {repr(extent): str(extent) for extent in extents if repr(extent) != str(extent)}


def _weights_line(weights: dict[str, Any]) -> str:
    if weights["place"] == "none":
        return "weights: none"
    where = f"beside: {weights['file']}" if weights["file"] else "inside"
    state = weights["problem"] or ("intact" if weights["verified"] else "fits")
    size = f"{count_text(weights['tensors'], 'tensor')}, {size_text(weights['bytes'])}"
    return f"weights: {size}, {where} ({state}), fingerprint {weights['fingerprint']}"


def _denormals_line(flushing: Sequence[str], manifest: Manifest) -> str:
    if not flushing:
        return "denormals: kept by all kernels"
    count = len({k.name for each in manifest.by_target for program in each.programs for k in program.kernels})
    return f"denormals: taken for zero while {len(flushing)} of {count_text(count, 'kernel')} run, else kept"


def _variant_lines(variant: dict[str, Any], manifest: Manifest) -> Iterator[str]:
    lacks = ", ".join(variant["lacking"])
    here = f"this CPU lacks {lacks}" if lacks else "runs here" + (", chosen" if variant["chosen"] else "")
    yield f"target {variant['target']} ({here}): needs {', '.join(variant['cpu_features']) or 'any CPU'}"
    names = ["the program", *manifest.specializations, *(["sessions"] if manifest.session else [])]
    names += [f"function {each.name}" for each in manifest.functions]
    for program, name in zip(variant["programs"], names, strict=True):
        kernels, calls = count_text(program["kernels"], "kernel"), count_text(program["calls"], "call")
        arena = "of the run's sizes" if program["dynamic"] else size_text(program["arena_bytes"])
        memory = f"arena {arena}, weights {size_text(program['weight_bytes'])}"
        yield f"  {name}: {calls} of {kernels}, {memory}"


if __name__ == "__main__":
    raise SystemExit(main(None))
