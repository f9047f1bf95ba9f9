"""``tilewright``: finds the sub-command and hands it the rest of the command line."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

import tilewright
from tilewright.core.suggestions import did_you_mean

# Each is a module in tools/, which ``find_module`` names, imported only when it is asked for.
COMMANDS = {
    "compile": "compile an ONNX model to a native program",
    "run": "run a compiled program or a model",
    "bench": "measure models, also against other runtimes, or kernels",
    "check": "describe a model and what is unsupported in it, without compiling it",
    "explain": "show a model's kernels, their work and time",
    "inspect": "describe a compiled program, without loading it",
    "profile": "time a model's or a program's kernels: a table, CSV, JSON, a trace for Perfetto",
    "tune": "search for faster schedules of a model's kernels",
    "fleet": "run the machines that measure for tune, or see what they do",
    "cache": "show, prune or verify the compile cache",
    "records": "show, share or check what tuning has found",
    "debug": "find the first wrong node of a model, and the pass that makes it wrong",
    "reduce": "find a small part of a model that fails to compile, or differs from onnxruntime",
    "header": "write a C header for a compiled program",
    "opt": "run passes on an .mlir file",
    "completion": "print a script that completes commands and options in a shell",
    "zoo": "write one of the benchmark networks as an ONNX file",
}
# Commands with the name of a standard module, which none in tools/ may have.
_MODULES = {"inspect": "inspect_artifact", "profile": "profile_model"}


def find_module(command: str) -> str:
    """The module of a command: of its name, where no standard module has that."""
    return _MODULES.get(command, command)


def format_usage() -> str:
    """The text of ``tilewright --help``."""
    rows = (f"  {name:<12}{text}" for name, text in COMMANDS.items())
    head = ("usage: tilewright COMMAND [OPTIONS]", "", "A deep-learning compiler on MLIR.", "", "commands:")
    return "\n".join((*head, *rows, "", "tilewright COMMAND --help says more; tilewright --version shows the version."))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the sub-command that the first argument names; the exit code is 2 for an error of the user's."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        if words[:1] == ["compile"]:
            _start_worker(words[1:])
        from tilewright.tools._command import as_command  # what all commands import takes longer than all else here
    except KeyboardInterrupt:
        return 130  # as a command's, which says so from here on

    return as_command(lambda _: _run(words))(words)


def _start_worker(words: Sequence[str]) -> None:
    """Let a worker get ready for a compilation beside this process, which has as much to import.

    What the cache may have needs none. How many workers are asked for is left to the command, and so is a process
    without its standard streams, whose numbers the worker's files would get.
    """
    if None in (sys.stdin, sys.stdout, sys.stderr) or any(word.startswith("--wo") for word in words):
        return
    from tilewright.driver.cache.new_files import is_new
    from tilewright.driver.pools import find_pool

    files = list(filter(os.path.isfile, words))
    if files and ("--no-cache" in words or any(is_new(file) for file in files if file.endswith(".onnx"))):
        find_pool(None).start()


def _run(words: Sequence[str]) -> int:
    from tilewright.tools._command import USER_ERROR
    from tilewright.tools._output import show

    if words and words[0] in ("-h", "--help", "help"):
        show(format_usage().splitlines())
        return 0
    if words and words[0] == "--version":
        show([f"tilewright {tilewright.__version__}"])
        return 0
    if not words or words[0] not in COMMANDS:
        what = f"unknown command '{words[0]}'" if words else "no command given"
        meant = did_you_mean(words[0], COMMANDS) if words else ""
        text = f"tilewright: error: {what}, choose from {', '.join(COMMANDS)}{meant} (see tilewright --help)"
        show([text], sys.stderr)
        return USER_ERROR
    return importlib.import_module(f"tilewright.tools.{find_module(words[0])}").main(words[1:])


if __name__ == "__main__":
    raise SystemExit(main())
