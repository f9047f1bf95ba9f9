"""``tilewright completion bash``: prints a script by which a shell completes commands, options and their values."""

from __future__ import annotations

import argparse
import importlib
import shlex
from collections.abc import Iterator, Sequence

from tilewright.tools._command import as_command
from tilewright.tools._options import make_parser
from tilewright.tools._output import show

SHELLS = ("bash", "zsh", "fish")
_PROGRAMS = ("tilewright", "compile.py")
_LONGEST_SCRIPT = 10**6  # characters of a line

_BASH = """\
# Completes tilewright and compile.py; other words are completed as names of files.
_tilewright() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} command words=
  COMPREPLY=()
  if [[ ${COMP_WORDS[0]##*/} == compile.py ]]; then
    command=compile
  elif (( COMP_CWORD == 1 )); then
    COMPREPLY=( $(compgen -W "COMMANDS" -- "$current") )
    return
  else
    command=${COMP_WORDS[1]}
  fi
  case "$command $previous" in
VALUES
  esac
  if [[ $words ]]; then
    COMPREPLY=( $(compgen -W "$words" -- "$current") )
    return
  fi
  case $command in
OPTIONS
  esac
  COMPREPLY=( $(compgen -W "$words" -- "$current") )
}
complete -o default -F _tilewright PROGRAMS"""


@as_command
def main(argv: Sequence[str] | None = None) -> None:
    """Print the script for a shell."""
    args = _parser().parse_args(argv)
    show({"bash": _bash, "zsh": _zsh, "fish": _fish}[args.shell](), longest=_LONGEST_SCRIPT)


def _parser() -> argparse.ArgumentParser:
    cli = make_parser("completion", "print a script that completes commands and options in a shell", "bash|zsh|fish")
    cli.add_argument("shell", choices=SHELLS, metavar="shell", help="bash, zsh or fish")
    return cli


def _commands() -> dict[str, argparse.ArgumentParser]:
    from tilewright.tools import cli

    homes = {name: importlib.import_module(f"tilewright.tools.{cli.find_module(name)}") for name in cli.COMMANDS}
    return {name: module._parser() for name, module in homes.items()}


def _actions(cli: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """The options that help shows, and arguments of some words."""
    for action in cli._actions:
        if action.help != argparse.SUPPRESS or not action.option_strings:
            yield action


def _options(cli: argparse.ArgumentParser) -> list[str]:
    return [option for action in _actions(cli) for option in action.option_strings]


def _list_choices(cli: argparse.ArgumentParser) -> list[str]:
    """The choices of positional arguments."""
    return [str(word) for action in _actions(cli) if not action.option_strings for word in action.choices or ()]


def _bash() -> Iterator[str]:
    commands = _commands()
    values, options = [], []
    for name, cli in commands.items():
        for action in _actions(cli):
            if action.choices and action.option_strings:
                asked = "|".join(f'"{name} {option}"' for option in action.option_strings)
                values.append(f"    {asked}) words={shlex.quote(' '.join(map(str, action.choices)))};;")
        own = " ".join(_list_choices(cli))
        listed = shlex.quote(" ".join(_options(cli)))
        options.append(f"    {name}) if [[ $current == -* ]]; then words={listed}; else words={shlex.quote(own)}; fi;;")
    parts = {"COMMANDS": " ".join(commands), "VALUES": "\n".join(values), "OPTIONS": "\n".join(options)}
    text = _BASH
    for name, part in (parts | {"PROGRAMS": " ".join(_PROGRAMS)}).items():
        text = text.replace(name, part, 1) if name != "COMMANDS" else text.replace(f'"{name}"', f'"{part}"')
    yield from text.splitlines()


def _zsh() -> Iterator[str]:
    """Zsh reads what bash does."""
    yield "autoload -U +X compinit && compinit"
    yield "autoload -U +X bashcompinit && bashcompinit"
    yield from _bash()


def _fish() -> Iterator[str]:
    from tilewright.tools.cli import COMMANDS

    for name, cli in _commands().items():
        yield f"complete -c tilewright -n __fish_use_subcommand -a {name} -d {shlex.quote(COMMANDS[name])}"
        places = [("tilewright", f"-n '__fish_seen_subcommand_from {name}' ")]
        for program, where in places + ([("compile.py", "")] if name == "compile" else []):
            begin = f"complete -c {program} {where}"
            if words := _list_choices(cli):
                yield f"{begin}-a {shlex.quote(' '.join(words))}"
            for action in _actions(cli):
                if action.option_strings:
                    yield begin + " ".join(_fish_option(action))


def _fish_option(action: argparse.Action) -> Iterator[str]:
    for option in action.option_strings:
        yield f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
    if action.choices:
        yield f"-x -a {shlex.quote(' '.join(map(str, action.choices)))}"
    elif action.nargs != 0:
        yield "-r"
    if action.help not in (None, argparse.SUPPRESS):
        yield f"-d {shlex.quote(str(action.help).replace('%%', '%'))}"


if __name__ == "__main__":
    raise SystemExit(main())
