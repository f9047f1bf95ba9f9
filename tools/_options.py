"""The parser of commands, options that several of them have, and checks of what these are given."""

from __future__ import annotations

import argparse
import functools
import json
import os
import re
import runpy
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import tilewright
from tilewright.core.dims import parse
from tilewright.core.errors import InputError, ModelError, ScheduleError
from tilewright.core.printed import one_line
from tilewright.core.specialization import Sizes, normalize_specializations
from tilewright.core.suggestions import did_you_mean
from tilewright.tools._command import USER_ERROR
from tilewright.tools._help import ABOUT
from tilewright.tools._output import show

THIS_CPU = "x86"  # what --target is where it is not given
PROGRAMS = (".so", ".tw")  # what is compiled already

_BAD_CHOICE = re.compile(r"invalid choice: '([^']*)' \(choose from (.*)\)")
_HELP_WIDTH = 79


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, like all others."""

    def error(self, message: str) -> NoReturn:
        said = f"{one_line(message)}{self._meant(message)}"
        self.exit(USER_ERROR, f"{self.prog}: error: {said} (see {self.prog} --help)\n")

    def _meant(self, message: str) -> str:
        """The option or value that an unknown one may have meant."""
        if choice := _BAD_CHOICE.search(message):
            return did_you_mean(choice[1], re.findall(r"[\w.-]+", choice[2]))
        options = [option for action in self._actions for option in action.option_strings]
        _, unknown, words = message.partition("unrecognized arguments: ")
        found = (did_you_mean(word.partition("=")[0], options) for word in words.split() if word.startswith("-"))
        return next(filter(None, found), "") if unknown else ""


def make_parser(name: str, description: str, arguments: str = "[options] model") -> Parser:
    """The parser of sub-command ``name``, with the options that all commands have: ``--json`` and ``--quiet``.

    Its help begins with examples and where output goes, and has a line for an option.
    """
    script = os.path.basename(sys.argv[0])
    about = ABOUT[name]
    examples = "".join(f"\n  %(prog)s {words}" for words in about.examples)
    output = textwrap.fill(f"output: {about.output}", _HELP_WIDTH, subsequent_indent="  ", break_on_hyphens=False)
    result = Parser(
        prog=script if script == f"{name}.py" else f"tilewright {name}",
        usage=f"%(prog)s {arguments}\n{textwrap.fill(description, _HELP_WIDTH)}\n{output}\nexamples:{examples}",
        add_help=False,
        formatter_class=functools.partial(argparse.HelpFormatter, max_help_position=32),
    )
    result.add_argument("-h", "--help", action="help", help=argparse.SUPPRESS)
    result.add_argument("--version", action=_ShowVersion, help=argparse.SUPPRESS)
    result.add_argument("--json", action="store_true", help="print the result as one JSON object")
    result.add_argument("--quiet", action="store_true", help="print only what was asked for")
    return result


class ShowAction(argparse.Action):
    """An option without a value, in whose place something is shown."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str | None = None) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, help=help)


class _ShowVersion(ShowAction):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        show([f"tilewright {tilewright.__version__}"])
        parser.exit()


def file_name(text: str) -> str:
    """The file that an option or argument names. An empty name is mostly a shell variable that is not set."""
    if not text:
        raise argparse.ArgumentTypeError("the name of a file is empty")
    return text


def file_path(text: str) -> Path:
    """The same as a path."""
    return Path(file_name(text))


def parse_positive(text: str) -> float:
    """A number that is more than 0."""
    return _parse_number(text, lambda value: value > 0, "more than 0")


def not_negative(text: str) -> float:
    """A number that is 0 or more."""
    return _parse_number(text, lambda value: value >= 0, "0 or more")


def _parse_number(text: str, fits: Callable[[float], bool], what: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")  # which is no number, and fits nowhere
    if not fits(value):
        raise argparse.ArgumentTypeError(f"'{text}' is not a number that is {what}")
    return value


def demand_model(model: str) -> None:
    """Refuse a compiled program where a model is needed."""
    if is_program(model):
        raise InputError(f"'{model}' is compiled already: give its ONNX model")


def is_program(model: str) -> bool:
    """Return whether a file is a compiled program, by its name."""
    return os.path.splitext(model)[1] in PROGRAMS


def add_target(cli: argparse.ArgumentParser) -> None:
    """Add ``--target``."""
    text = 'x86 (this CPU), or as in "x86 -mcpu=haswell"'
    cli.add_argument("--target", default=THIS_CPU, metavar="T", help=text)


def check_target(args: argparse.Namespace, models: Sequence[str]) -> None:
    """Refuse a ``--target`` that is not known, whose code cannot run here, or that a compiled program does not have."""
    from tilewright.core.target import Target

    Target.parse(args.target).refuse_foreign()
    for model in models:
        if args.target != THIS_CPU and is_program(model):
            raise InputError(f"'{model}' is compiled already: give its ONNX model with --target, or leave that out")
        if getattr(args, "untrusted", False) and is_program(model):
            raise InputError(f"'{model}' is compiled already, and code: --untrusted limits models; give its ONNX model")
        if getattr(args, "records", None) and is_program(model):
            raise InputError(f"'{model}' is compiled already: give its ONNX model with --records, or leave that out")


def add_input_shape(cli: argparse.ArgumentParser) -> None:
    """Add ``--input-shape``, which may be repeated: ``args.input_shape`` is a list of names and what is said of them.

    That is the shape of an input, or the size of a name, as ``compile`` takes them.
    """
    kind = {"type": input_shapes, "action": _Shapes, "default": [], "metavar": "N:1..8,3,?,64"}
    cli.add_argument("--input-shape", help="sizes of input N that the file leaves dynamic", **kind)


class _Shapes(argparse.Action):
    """Adds what each text says; a name that is given twice is an error."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, *_: object) -> None:
        found = [*getattr(namespace, self.dest), *values]
        names = [name for name, _ in found]
        if twice := next((name for name in names if names.count(name) > 1), None):
            parser.error(f"argument {self.option_strings[0]}: '{twice}' is given twice")
        setattr(namespace, self.dest, found)


def input_shapes(text: str) -> list[tuple[str, tuple[int | str, ...] | int | str]]:
    """``ids:1..8,128``, the shape of an input, or ``batch=1..8,seq=128``, sizes by name."""
    if ":" in text or "=" not in text:
        return [input_shape(text)]
    return [_named_size(pair) for pair in text.split(",")]


def _named_size(text: str) -> tuple[str, int | str]:
    """``batch=1..8`` as a name and a size as ``compile`` takes it."""
    name, size = (word.strip() for word in text.rpartition("=")[::2])
    try:
        dim = parse(size)
    except ModelError as error:
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=SIZE: {error}") from error
    if not name:
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=SIZE: it has no name")
    return name, dim if isinstance(dim, int) else size


def input_shape(text: str) -> tuple[str, tuple[int | str, ...]]:
    """``name:1..8,3,224,224`` as a name and a shape as ``compile`` takes it; the name may contain colons."""
    name, colon, shape = text.rpartition(":")
    if not name or not colon:
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME:EXTENT,EXTENT,...")
    words = (shape.replace("x", ",") if re.fullmatch(r"[\dx]*", shape) else shape).split(",")
    try:
        dims = [(word.strip(), parse(word.strip())) for word in words if word.strip()]
    except ModelError as error:
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME:EXTENT,EXTENT,...: {error}") from error
    return name, tuple(dim if isinstance(dim, int) else word for word, dim in dims)


def add_specialize(cli: argparse.ArgumentParser) -> None:
    """Add ``--specialize``, which may be repeated: ``args.specialize`` is a list of sizes as ``compile`` takes them."""
    text = "add a program for exactly these sizes"
    cli.add_argument("--specialize", type=parse_sizes, action="append", default=[], metavar="N:1,3", help=text)


def add_states(cli: argparse.ArgumentParser) -> None:
    """Add ``--state``, which may be repeated: ``find_states(args)`` gives what ``compile`` takes."""
    text = "an output that is an input of the next run, of those that sessions keep; none for no such"
    cli.add_argument("--state", type=_parse_state, action="append", metavar="OUT=IN", help=text)


def find_states(args: argparse.Namespace) -> dict[str, str] | None:
    """The states that were given, inputs by outputs; None where the compiler is to find them."""
    return None if args.state is None else dict(pair for pair in args.state if pair)


def _parse_state(text: str) -> tuple[str, str] | None:
    """``present=past``; None for ``none``."""
    if text == "none":
        return None
    output, equals, given = text.partition("=")
    if not output or not equals or not given:
        raise argparse.ArgumentTypeError(f"'{text}' is not OUTPUT=INPUT, names of the model's, or none")
    return output, given


def parse_sizes(text: str) -> Sizes:
    """``ids:1,128 mask:1,128``, shapes of inputs, or ``batch=1,seq=128``, sizes by name."""
    found: dict[str, Any] = {}
    for word in text.split():
        shape = [input_shape(word)] if ":" in word else [_parse_named_size(pair) for pair in word.split(",") if pair]
        for name, size in shape:
            if name in found:
                raise argparse.ArgumentTypeError(f"'{text}' gives '{name}' twice")
            found[name] = size
    try:
        return normalize_specializations([found])[0]
    except ModelError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _parse_named_size(text: str) -> tuple[str, int]:
    name, _, size = text.rpartition("=")
    if not name or not size.isdecimal():
        raise argparse.ArgumentTypeError(f"'{text}' is neither INPUT:SIZE,SIZE,... nor NAME=SIZE,NAME=SIZE,...")
    return name, int(size)


def check_outputs(outputs: Mapping[str, str | Path | None], *read: str | Path | None) -> None:
    """Refuse, before the long work begins, to write where there is no folder, or over another output or what is read.

    ``outputs`` are paths by the option that gives them.
    """
    taken = {Path(path).resolve(): f"'{path}' is read" for path in read if path is not None}
    for option, named in outputs.items():
        if named is None or str(named) == "-":
            continue
        path = Path(named)
        if not path.absolute().parent.is_dir():
            raise InputError(f"cannot write {path}: there is no folder {path.parent}")
        if path.is_dir() and path.suffix not in PROGRAMS:
            raise InputError(f"cannot write {path}: it is a folder; give {option} the name of a file")
        if reason := taken.get(path.resolve()):
            raise InputError(f"cannot write {path}: {reason}; give {option} another name")
        taken[path.resolve()] = f"{option} writes it"


def add_level(cli: argparse.ArgumentParser) -> None:
    """Add ``-O``, and ``--opt-level``, what it is in Python."""
    kind = {"dest": "opt_level", "type": int, "choices": range(4), "default": 3, "metavar": "N"}
    cli.add_argument("-O", help="optimization level, 0 to 3 (3)", **kind)
    cli.add_argument("--opt-level", help=argparse.SUPPRESS, **kind)


def add_rounds(cli: argparse.ArgumentParser, rounds: int, text: str) -> None:
    """Add ``--rounds``, and ``--repeat``, what it was called before."""
    kind = {"dest": "rounds", "type": int, "default": rounds, "metavar": "N"}
    cli.add_argument("--rounds", help=f"{text} ({rounds})", **kind)
    cli.add_argument("--repeat", help=argparse.SUPPRESS, **kind)


def add_no_cache(cli: argparse.ArgumentParser) -> None:
    """Add ``--no-cache``."""
    cli.add_argument("--no-cache", action="store_true", help="neither read nor write the compile cache")


def add_records(cli: argparse.ArgumentParser) -> None:
    """Add ``--records`` and ``--no-records``: ``find_records(args)`` gives what ``compile`` takes."""
    text = "take kernels' schedules from these records alone"
    cli.add_argument("--records", type=file_path, metavar="FILE", help=text)
    cli.add_argument("--no-records", action="store_true", help="take no schedules from records")


def find_records(args: argparse.Namespace) -> Path | bool:
    """The records that were given; InputError where they are to be left out, too."""
    if args.records and args.no_records:
        raise InputError("--records and --no-records are two choices: give one of them")
    return args.records or not args.no_records


def read_schedules(path: Path) -> dict[str, Any] | str:
    """The schedules in a file: a JSON object, by the names of kernels, or the text of a transform module."""
    try:
        text = path.read_text(encoding="utf-8-sig")  # editors of Windows begin files with a mark
        found = json.loads(text) if text.lstrip().startswith(("{", "[")) or path.suffix == ".json" else text
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ScheduleError(f"cannot read the schedules in {path}: {reason}") from error
    except RecursionError as error:
        raise ScheduleError(f"cannot read the schedules in {path}: they are nested too deeply") from error
    if not isinstance(found, dict | str):
        raise ScheduleError(
            f'{path} is not {{"KERNEL": SCHEDULE, ...}} with schedules as `tilewright explain --json` shows'
        )
    return found


def add_untrusted(cli: argparse.ArgumentParser) -> None:
    """Add ``--untrusted``."""
    cli.add_argument("--untrusted", action="store_true", help="stricter limits on the model; no external data")


def add_register(cli: argparse.ArgumentParser) -> None:
    """Add ``--register``: the file is run as soon as it is read."""
    text = "a Python file that registers operators and code generators of yours, run first"
    cli.add_argument("--register", type=_run_file, action="append", metavar="FILE", help=text)


def _run_file(path: str) -> str:
    try:
        runpy.run_path(path)
    except (Exception, SystemExit) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise argparse.ArgumentTypeError(one_line(f"cannot run '{path}': {reason}")) from error
    return path
