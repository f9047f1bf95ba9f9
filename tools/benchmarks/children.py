"""Compiling and running a model in processes of their own, watched from here: figures of a cold start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx

from tilewright.core.dims import InputShapes, option_text
from tilewright.core.errors import CompileError, ModelError, first_line
from tilewright.tools._command import USER_ERROR
from tilewright.tools._output import show
from tilewright.tools.benchmarks.measure import PeakMemory


def run_module(name: str, words: Sequence[str], **environment: str) -> tuple[dict[str, Any], int, float]:
    """Run ``python -m tilewright.tools.NAME WORDS``, which prints one JSON object.

    Returns that object, the most memory of the process and its children, and the seconds that it took. What it says on
    stderr goes to ours. CompileError with its own words where it refuses, or dies.
    """
    line = [sys.executable, "-m", f"tilewright.tools.{name}", *words]
    environment = {**os.environ, "PYTHONSAFEPATH": "1", **environment}  # a file onnx.py where we stand is none of ours
    start = time.perf_counter()
    with (
        subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as process,
        PeakMemory(process=process.pid) as memory,
    ):
        out, err = process.communicate()
    seconds = time.perf_counter() - start
    if not out or process.returncode == USER_ERROR:
        reason = (err.strip().splitlines() or [f"it ended with exit code {process.returncode}"])[-1]
        raise CompileError(reason.removeprefix("error: "))
    show(err.splitlines(), sys.stderr)
    return json.loads(out), memory.bytes, seconds


def compile_cold(
    model: str,
    folder: str,
    input_shapes: InputShapes,
    target: str,
    threads: int | None = None,
    records: Path | bool = True,
) -> tuple[str, dict[str, Any]]:
    """Compile a model into ``folder``, twice; returns the program's path, and what that took from a cold start.

    The first time with an empty cache, so that nothing can come from it, and then with all of it there:
    ``cached_seconds`` is what the call takes in a new process.
    """
    shapes = [f"--input-shape={option_text(name, said)}" for name, said in input_shapes.items()]
    words = [model, "--target", target, "-o", os.path.join(folder, "model.so"), "--json", *shapes]
    words += [*([f"--threads={threads}"] if threads else []), *records_words(records)]
    cache = {"TILEWRIGHT_CACHE_DIR": os.path.join(folder, "cache"), "TILEWRIGHT_CACHE_SIZE": "100GB"}
    made, peak, seconds = run_module("compile", words, **cache)
    asked = [model, target, input_shapes, threads, records if isinstance(records, bool) else str(records)]
    again = run_module("benchmarks.cached", [json.dumps(asked)], **cache)[0]
    return made["path"], {"seconds": seconds, "stages": made["seconds"], "peak_bytes": peak, **again}


def records_words(records: Path | bool) -> list[str]:
    """The options of commands for a choice of records (``find_records``)."""
    return [f"--records={records}"] if not isinstance(records, bool) else [] if records else ["--no-records"]


def measure_run_memory(program: str, shapes: InputShapes) -> int:
    """The most memory of a process that loads a program and runs it on inputs of these shapes."""
    return run_module("benchmarks.resident", [program, json.dumps(shapes)])[0]["peak_bytes"]


def weight_bytes(model: str) -> int:
    """The size of a model file with the files beside it that hold its weights."""
    try:
        proto = onnx.load(model, load_external_data=False)
        entries = [entry for tensor in proto.graph.initializer for entry in tensor.external_data]
        names = {entry.value for entry in entries if entry.key == "location"}
        return sum(path.stat().st_size for path in (Path(model), *(Path(model).parent / name for name in names)))
    except Exception as error:
        raise ModelError(f"cannot read '{model}': {first_line(error)}") from error
