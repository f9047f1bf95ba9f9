"""What commands say of themselves, how their options are spelled, and what they make of a misspelt word."""

from __future__ import annotations

import argparse
import importlib
import re
import shlex
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from small_network import X, network

from tilewright.core.suggestions import did_you_mean
from tilewright.tools import _command, cli, completion, explain, profile_model, run
from tilewright.tools._help import ABOUT

COMMANDS = list(cli.COMMANDS)
_SCREEN = 40


def parser_of(name: str) -> argparse.ArgumentParser:
    return importlib.import_module(f"tilewright.tools.{cli.find_module(name)}")._parser()


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_examples_and_says_where_output_goes(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        cli.main([name, "--help"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= _SCREEN and max(map(len, lines)) <= 80
    assert any(line.startswith("output: ") for line in lines)
    start = lines.index("examples:")
    assert [line.startswith(f"  tilewright {name} ") for line in lines[start + 1 : start + 3]] == [True, True]


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_are_ones_that_the_command_takes(name: str) -> None:
    for example in ABOUT[name].examples:
        words = shlex.split(example.partition(" > ")[0])
        assert parser_of(name).parse_args(words)


@pytest.mark.parametrize(("option", "commands"), [
    ("-O", "compile run explain profile debug opt"),
    ("--rounds", "run bench explain profile"),
    ("--inputs", "run bench explain profile debug reduce"),
    ("--fill", "run bench explain profile debug reduce"),
    ("--no-cache", "compile run explain profile debug"),
    ("--register", "compile run check explain profile debug"),
])  # fmt: skip
def test_options_are_spelled_alike(option: str, commands: str) -> None:
    having = {name for name in COMMANDS if option in completion._options(parser_of(name))}
    assert having >= set(commands.split())
    dests = {action.dest for name in having for action in parser_of(name)._actions if option in action.option_strings}
    assert len(dests) == 1


@pytest.mark.parametrize(
    "words", [["run", "--repeat", "3"], ["debug", "--opt-level", "1"], ["compile", "--opt-level", "1"]]
)
def test_former_spellings_are_taken(words: list[str]) -> None:
    name, option, value = words
    args = parser_of(name).parse_args(["model.onnx", option, value])
    assert (args.rounds if option == "--repeat" else args.opt_level) == int(value)
    assert option not in completion._options(parser_of(name))


@pytest.mark.parametrize(("words", "meant"), [
    (["comple", "m.onnx"], "did you mean 'compile'?"),
    (["profil"], "did you mean 'profile'?"),
    (["run", "m.so", "--roundz", "3"], "did you mean '--rounds'?"),
    (["run", "m.so", "--roundz=3"], "did you mean '--rounds'?"),
    (["compile", "m.onnx", "--emit", "assm"], "did you mean 'asm'?"),
    (["zoo", "resnet81"], "did you mean 'resnet18'?"),
    (["cache", "prun"], "did you mean 'prune'?"),
    (["bench", "m.onnx", "--compare", "onxruntime"], "did you mean 'onnxruntime'?"),
])  # fmt: skip
def test_a_misspelt_word_is_one_line_that_says_what_may_be_meant(
    words: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = cli.main(words)
    except SystemExit as exit:
        code = exit.code
    err = capsys.readouterr().err
    assert code == 2 and meant in err and err.count("\n") == 1


def test_nothing_is_suggested_for_what_is_like_nothing() -> None:
    assert did_you_mean("frobnicate", COMMANDS) == "" and did_you_mean("", COMMANDS) == ""


def test_inputs_are_given_to_explain_and_profile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(network(), tmp_path / "net.onnx")
    np.savez(tmp_path / "x.npz", x=X)
    np.savez(tmp_path / "other.npz", x=X[:2])
    np.savez(tmp_path / "unknown.npz", y=X)
    model, rounds = str(tmp_path / "net.onnx"), ["--rounds", "1", "--no-cache", "-O", "1", "--quiet"]
    for command in (explain.main, profile_model.main, run.main):
        assert command([model, "--inputs", str(tmp_path / "x.npz"), *rounds]) == 0
        for name, said in (("other", "'x' of shape (2, 6), expected (4, 6)"), ("unknown", "unknown input 'y'")):
            capsys.readouterr()
            assert command([model, "--inputs", str(tmp_path / f"{name}.npz"), *rounds]) == 2
            assert said in capsys.readouterr().err


def completed(script: str, *words: str) -> list[str]:
    """What bash completes the last word to."""
    quoted = " ".join(map(shlex.quote, words))
    lines = [script, f"COMP_WORDS=({quoted})", f"COMP_CWORD={len(words) - 1}", "_tilewright", 'echo "${COMPREPLY[@]}"']
    done = subprocess.run(["bash", "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.split()


def test_bash_completes_commands_options_and_values(capsys: pytest.CaptureFixture[str]) -> None:
    assert completion.main(["bash"]) == 0
    script = capsys.readouterr().out
    assert completed(script, "tilewright", "") == COMMANDS
    assert completed(script, "tilewright", "pro") == ["profile"]
    assert completed(script, "tilewright", "run", "--in") == ["--inputs", "--input-shape"]
    assert completed(script, "tilewright", "compile", "--emit", "ll") == ["llvm-dialect", "llvm"]
    assert completed(script, "compile.py", "--spec") == ["--specialize"]
    assert completed(script, "compile.py", "-O", "") == ["0", "1", "2", "3"]
    assert completed(script, "tilewright", "zoo", "res") == ["resnet18", "resnet50"]
    assert completed(script, "tilewright", "cache", "") == ["ls", "prune", "verify"]
    assert completed(script, "tilewright", "run", "mod") == [], "a file's name"


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_scripts_know_all_options(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert completion.main([shell]) == 0
    script = capsys.readouterr().out
    for option in (option for name in COMMANDS for option in completion._options(parser_of(name))):
        written = f"-l {option[2:]} " if option.startswith("--") else f"-s {option[1:]} "
        assert (written if shell == "fish" else option) in f"{script} ".replace("\n", " \n")
    assert not re.search(r"\b(COMMANDS|VALUES|OPTIONS|PROGRAMS)\b", script)


def test_every_command_has_its_version() -> None:
    assert all("--version" in parser_of(name)._option_string_actions for name in COMMANDS)
    assert set(ABOUT) == set(COMMANDS) and _command.USER_ERROR == 2
