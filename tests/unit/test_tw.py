"""The table of the attributes ``tw.*`` holds: no literal elsewhere, and its writers and readers are those of the code."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from itertools import pairwise

import pytest
from source_trees import trees

from tilewright.core import program
from tilewright.dialects import tw

NAMES = {name: value for name, value in vars(tw).items() if name.isupper()}
VERIFIERS = ("passes/verify/kernels", "passes/verify/programs")  # which look at all of them
TABLE = "dialects/tw.py"


@cache
def modules() -> dict[str, ast.Module]:
    """All modules of the package but the table, by their paths without an ending."""
    return {path.removesuffix(".py"): tree for path, tree in trees().items() if path != TABLE}


@cache
def users() -> dict[str, set[str]]:
    """The modules that name each attribute."""
    found: dict[str, set[str]] = defaultdict(set)
    for path, tree in modules().items():
        for node in ast.walk(tree) if path not in VERIFIERS else ():
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "tw":
                found[node.attr].add(path)
    return found


@cache
def descriptions() -> dict[str, str]:
    """The text after each name of the table."""
    body = trees()[TABLE].body
    texts = {}
    for entry, text in pairwise(body):
        if isinstance(entry, ast.Assign) and isinstance(entry.targets[0], ast.Name):
            assert isinstance(text, ast.Expr), "an entry without a description"
            assert isinstance(text.value, ast.Constant)
            texts[entry.targets[0].id] = str(text.value.value)
    return texts


@pytest.mark.parametrize("name", NAMES)
def test_writers_and_readers_are_those_of_the_code(name: str):
    told = " ".join(descriptions()[name].split()).partition("Written by ")[2]
    assert set(re.findall(r"[\w/]+/\w+", told)) == users()[name]


def test_each_name_is_its_attribute():
    assert {name.lower(): f"tw.{name.lower()}" for name in NAMES} == {n.lower(): v for n, v in NAMES.items()}


def test_no_attribute_is_written_out_elsewhere():
    allowed = {("core/program", program.REPORT)}  # a step's op, for rooms without MLIR
    found = {
        (path, node.value)
        for path, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and node.value in set(NAMES.values())
    }
    assert found == allowed
    assert program.REPORT == tw.REPORT
