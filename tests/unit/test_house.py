"""The map of the house, drawn from the imports: which room uses which. Arrows go one way, also between modules.

A room is a folder, or a module that lies beside folders. Imports inside of functions and for type checkers count too.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest
from source_trees import FOLDERS, ROOT, tree

Name = tuple[str, ...]  # of a module or a folder, without the package's own
Arrows = Mapping[str, set[str]]

# All arrows that there may be, by the folder that is looked at: the root, then the folders with rooms of their own.
ALLOWED: dict[str, dict[str, str]] = {
    "": {
        "dialects": "core",
        "records": "core",
        "workers": "core",
        "codegens": "core runtime workers",  # runtime for ELF files
        "runtime": "core dialects",  # dialects for an ExecutionEngine alone
        "passes": "core dialects",
        "frontends": "codegens core dialects runtime te workers",  # runtime for the modules that PyTorch's users call
        "te": "core dialects",
        "driver": "codegens core dialects frontends passes records runtime te workers",
        "tuning": "core driver passes records runtime te workers",
        "tvm": "core driver passes records runtime te tuning workers",
        "tools": "core driver frontends passes records runtime tuning workers",
    },
    "runtime": {
        "tensors": "process",
        "steps": "process tensors",
        "artifact": "process tensors",
        "c": "artifact process",
        "executors": "artifact process steps tensors",
        "profile": "artifact executors",
        "description": "artifact",
        "session": "artifact outputs tensors",
        "module": "artifact description executors outputs process profile session tensors",
        "graph": "artifact description executors module process profile tensors",
        "nd": "process tensors",
        "registry": "process",
    },
    "passes": {
        "analysis": "ir",
        "verify": "analysis infra ir",
        "schedule": "analysis infra ir verify",
        "graph": "analysis infra ir schedule verify",
        "normalize": "analysis infra ir",
        "lower": "analysis infra ir",
        "plan_routine": "ir",
        "prefix": "ir",
        "pipeline": "analysis graph infra ir lower normalize plan_routine schedule verify",
        "tuned": "infra pipeline schedule",
        "merge": "ir pipeline",
        "sessions": "analysis infra ir merge pipeline",
        "whole": "infra ir lower tuned",
        "by_command": "infra ir pipeline schedule",
    },
    "passes/schedule": {
        "tiles": "",
        "loop_plan": "",
        "tiling": "language loop_plan tiles",
        "families": "language loop_plan tiles tiling",
        "dynamic": "families language loop_plan separate_windows tiles tiling",
        "vectorize": "tiling",
        "arrange_sums": "tiles",
        "collapse_loops": "tiles",
        "join_pixels": "families tiles tiling",
        "separate_windows": "tiles tiling",
        "scripts": "dynamic language loop_plan tiles tiling",
        "apply_schedule": "dynamic families language loop_plan scripts tiles tiling",
    },
    "driver": {
        "cache": "jobs",
        "options": "cache",
        "compilation": "cache jobs options pools",
        "planning": "blame compilation jobs support",
        "kernels": "cache compilation jobs",
        "support": "compilation jobs",
        "weights": "compilation jobs support",
        "extern_code": "compilation jobs",
        "assembly": "cache compilation extern_code jobs kernels support weights",
        "checking": "compilation jobs planning",
        "stages": "compilation jobs planning",
        "api": "assembly cache checking compilation jobs kernels options planning stages",
        "expressions": "api compilation planning stages",
        "testing": "expressions",
        "torch_backend": "api",
    },
    "frontends": {
        "linalg": "foreign nodes onnx",
        "torch": "foreign linalg nodes",
    },
    "frontends/onnx": {
        "values": "proto",
        "state": "proto values",
        "control": "proto state values",
        "shapes": "control proto state values",
        "primitives": "state values",
        "algorithms": "primitives state values",
        "ops": "algorithms control primitives proto shapes state values",
        "convert": "control proto state values",
        "regions": "convert proto state values",
        "importer": "convert ops proto regions shapes state values",
        "examine": "convert importer ops proto regions shapes state",
    },
}

# Arrows that close a circle of modules all the same, and why.
CLOSING: dict[str, str] = {
    "core/atoms": "core/sizes",  # a type: atoms are functions of sizes, which are made of atoms
    "core/size_texts": "core/sizes",  # a type: what a size prints
    "core/report_text": "core/report",  # types: what a report prints
    "te/expr": "te/tensor",  # a type: what a read is of
    "te/attachment": "te/schedule",  # a type: the schedule whose stages are looked at
    "te/matching": "te/schedule",  # a type, as above
    "te/rules": "te/schedule",  # a type, as above
    "te/primitives": "te/schedule",  # a type, as above
    "te/trace": "te/schedule",  # a type, as above
    "workers/post_mortem": "workers",  # a type: the pool whose round it is
    "workers/rounds": "workers",  # a type, as above
    "workers/watchdog": "workers",  # a type, as above
    "runtime/artifact/validation": "runtime/artifact/manifest",  # a type: what a manifest checks of itself
    "runtime/executors/runner": "runtime/executors/guarded",  # loaded for the few programs that run so
    "frontends/torch/archive": "frontends/torch/source",  # the source that an archive is read into
    "frontends/torch/conversion": "frontends/torch/archive frontends/torch/convert",  # a worker's jobs, loaded there
}


@cache
def modules() -> dict[Name, Path]:
    """All modules of the package by name."""
    found = {}
    for path in (p for folder in FOLDERS for p in (ROOT / folder).rglob("*.py")):
        name = path.relative_to(ROOT).with_suffix("").parts
        found[name[:-1] if name[-1] == "__init__" else name] = path
    return found


@cache
def imported(name: Name, path: Path) -> tuple[Name, ...]:
    """The modules of the package that a module imports, wherever it does."""
    return tuple(_read_imports(name, path))


def _read_imports(name: Name, path: Path) -> Iterator[Name]:
    own = name if path.name == "__init__.py" else name[:-1]
    for node in _statements(tree(path)):
        if not isinstance(node, ast.ImportFrom):
            continue
        words = tuple(node.module.split(".")) if node.module else ()
        if not node.level and words[:1] != ("tilewright",):
            continue
        base = own[: len(own) - node.level + 1] + words if node.level else words[1:]
        for alias in node.names:
            yield (*base, alias.name) if (*base, alias.name) in modules() else base


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """All statements in one, which are a tenth of the nodes."""
    for name in ("body", "orelse", "handlers", "finalbody", "cases"):
        for inner in getattr(node, name, ()):
            yield inner
            yield from _statements(inner)


@cache
def drawn(folder: str) -> dict[str, set[str]]:
    """The arrows between the rooms of a folder; what its own ``__init__`` hands on is none."""
    prefix = Path(folder).parts
    arrows: dict[str, set[str]] = defaultdict(set)
    for name, path in modules().items():
        for target in imported(name, path):
            if name[: len(prefix)] == target[: len(prefix)] == prefix and min(len(name), len(target)) > len(prefix):
                room, other = name[len(prefix)], target[len(prefix)]
                if room != other:
                    arrows[room].add(other)
    return arrows


@cache
def between_modules() -> dict[str, set[str]]:
    """The arrows between all modules, in whatever folders."""
    arrows: dict[str, set[str]] = defaultdict(set)
    for name, path in modules().items():
        arrows["/".join(name)] |= {"/".join(t) for t in imported(name, path) if t in modules() and t != name}
    return arrows


def circle(arrows: Arrows) -> list[str]:
    """Rooms that lead to one another, none where all arrows go one way."""
    done: set[str] = set()

    def walk(room: str, way: list[str]) -> list[str]:
        if room in way:
            return [*way[way.index(room) :], room]
        if room in done:
            return []
        for other in sorted(arrows.get(room, ())):
            if found := walk(other, [*way, room]):
                return found
        done.add(room)
        return []

    return next((found for room in sorted(arrows) if (found := walk(room, []))), [])


@pytest.mark.parametrize("folder", ALLOWED)
def test_arrows_are_those_of_the_map(folder: str):
    allowed = {room: set(others.split()) for room, others in ALLOWED[folder].items()}
    new = {room: others - allowed.get(room, set()) for room, others in drawn(folder).items()}
    assert not {room: others for room, others in new.items() if others}, "an arrow that the map has not"
    gone = {room: others - drawn(folder).get(room, set()) for room, others in allowed.items()}
    assert not {room: others for room, others in gone.items() if others}, "the map has an arrow that nobody needs"


@pytest.mark.parametrize("folder", ALLOWED)
def test_arrows_go_one_way(folder: str):
    assert circle(drawn(folder)) == []


def without_closing(but: str = "", target: str = "") -> dict[str, set[str]]:
    """The arrows between modules without those that close a circle, but for one of these."""
    closing = {name: {*others.split()} - ({target} if name == but else set()) for name, others in CLOSING.items()}
    return {name: others - closing.get(name, set()) for name, others in between_modules().items()}


def test_modules_form_no_circle():
    assert circle(without_closing()) == []


@pytest.mark.parametrize(("name", "target"), [(name, t) for name, others in CLOSING.items() for t in others.split()])
def test_an_arrow_that_closes_no_circle_leaves_the_list(name: str, target: str):
    assert {name, target} <= {*circle(without_closing(name, target))}


def test_a_circle_is_found():
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert circle({"a": {"b", "c"}, "b": {"c"}}) == []
