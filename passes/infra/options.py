"""Options of passes, and pipelines as the command line writes them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from ...core.errors import CompileError, TilewrightError
from ...dialects import PassManager, ir
from .base import MlirPass, Pass, default_of


def parse_pipeline(text: str, table: Mapping[str, type[Pass]]) -> tuple[Pass, ...]:
    """Passes of a command line: ``"canonicalize-ops,convert-layout{desired=none}"``.

    A name that is not in ``table`` must be an upstream pass. Raises CompileError for unknown names and options.
    """
    return tuple(_parse_pass(word, table) for word in _split_options(text) if word)


def with_options(stage: Pass, options: Mapping[str, Any]) -> Pass:
    """``stage`` with some fields replaced; strings are converted to the type of the field's default."""
    fields = {f.name: f for f in dataclasses.fields(stage)}
    values = {}
    for name, value in options.items():
        if name not in fields:
            known = ", ".join(fields) or "none"
            raise CompileError(f"pass '{stage.name}' has no option '{name}'; its options: {known}")
        values[name] = _convert_option(value, default_of(fields[name]), f"option '{name}' of pass '{stage.name}'")
    return dataclasses.replace(stage, **values)


def _parse_pass(word: str, table: Mapping[str, type[Pass]]) -> Pass:
    name, brace, rest = word.partition("{")
    if name not in table:
        return _upstream(word)
    if brace and not rest.endswith("}"):
        raise CompileError(f"the options in '{word}' have no end; write {name}{{option=value}}")
    options = {}
    for pair in rest.removesuffix("}").split():
        key, equals, value = pair.partition("=")
        if not equals:
            raise CompileError(f"option '{pair}' of pass '{name}' has no value; write {pair}=VALUE")
        options[key] = value
    return with_options(table[name](), options)


def _upstream(word: str) -> Pass:
    try:
        with ir.Context():
            PassManager.parse(f"builtin.module({word})")
    except (ValueError, TilewrightError):
        raise CompileError(f"unknown pass '{word}'; `tilewright opt --list` shows the known ones") from None
    return MlirPass(word)


def _split_options(text: str) -> Iterable[str]:
    """Split at the commas that are outside of braces and parentheses."""
    depth, start = 0, 0
    for i, char in enumerate(text):
        depth += (char in "{(") - (char in "})")
        if char == "," and depth == 0:
            yield text[start:i].strip()
            start = i + 1
    yield text[start:].strip()


def _convert_option(value: Any, default: Any, what: str) -> Any:
    if not isinstance(value, str) or isinstance(default, str):
        return value
    try:
        if isinstance(default, bool):
            return {"true": True, "false": False, "1": True, "0": False}[value.lower()]
        return type(default)(value)
    except (KeyError, ValueError):
        raise CompileError(f"{what} is '{value}', which is no {type(default).__name__}") from None
