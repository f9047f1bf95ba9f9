"""What the process of the user answers when an import asks for his code generators."""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ..core.codegens import (
    MOST_PAYLOAD,
    CodeGenerator,
    HostCode,
    NativeCode,
    find_codegen,
    keep_function,
)
from ..core.errors import CompileError
from ..core.printed import count_text
from ..core.subgraph_code import SubgraphCode, describe_subgraph
from ..core.subgraphs import Network, Subgraph
from ..workers.isolation import call_isolated
from .native import ELF_MAGIC, check_code
from .partition import Members, find_subgraphs

_HERE = "a function of this process"  # what a fork answers in place of one


@dataclass(frozen=True)
class Region:
    """Nodes of a network, by their numbers, which the code generator ``codegen`` compiles."""

    codegen: str
    members: Members
    name: str


@dataclass(frozen=True)
class GeneratedCode:
    """What a code generator gave for a subgraph: ``native`` code, or for Python a ``payload``, or the key of a function
    of this process. ``constants`` are the names of those that the call is given.
    """

    constants: tuple[str, ...]
    native: SubgraphCode | None = None
    payload: bytes = b""
    function: str = ""


@dataclass(frozen=True)
class Partition:
    """The subgraphs of a network, and what a user should know about them."""

    regions: tuple[Region, ...]
    notes: tuple[str, ...]


def partition_network(network: Network, names: Sequence[str]) -> Partition:
    """The subgraphs that the code generators of these names take, which choose in this order.

    Raises CompileError, naming the code generator, where ``supports`` raises anything, crashes or finds no end.
    """
    regions: list[Region] = []
    notes: list[str] = []
    for name in names:
        codegen = _demand_codegen(name)
        taken = {number for region in regions for number in region.members}
        open_ = [number for number, each in enumerate(network.nodes) if each.eligible and number not in taken]
        if codegen.prefer < 0:
            open_ = [number for number in open_ if network.nodes[number].refused]
        offered = [number for number in open_ if codegen.dynamic or not network.nodes[number].dynamic]
        if left := len(open_) - len(offered):
            notes.append(
                f"{count_text(left, 'node')} of sizes that only the run knows {'was' if left == 1 else 'were'} not "
                f"offered to code generator '{name}': give --input-shape, or register it with dynamic=True"
            )
        if not offered:
            continue
        what = f"code generator '{name}' failed to say what it supports"
        choose = partial(_choose_members, network, codegen, offered, [region.members for region in regions])
        chosen = call_isolated(choose, codegen.timeout, what, codegen.isolate)
        regions += [Region(name, members, f"{name}_{number}") for number, members in enumerate(chosen)]
    return Partition(tuple(regions), tuple(notes))


def _choose_members(
    network: Network, codegen: CodeGenerator, offered: Sequence[int], taken: Sequence[Members]
) -> list[Members]:
    """The subgraphs that a code generator takes of the nodes that it is offered."""

    def accepts(members: Members) -> bool:
        assert codegen.supports is not None
        subgraph = network.subgraph(members, codegen.name)
        answer = codegen.supports(subgraph)
        if type(answer) is not bool and type(answer).__name__ not in ("bool", "bool_"):
            raise TypeError(f"supports gives {answer!r} for node '{subgraph.nodes[0].name}': give True or False")
        return bool(answer)

    candidates = [number for number in offered if accepts(frozenset([number]))]
    return find_subgraphs(network, candidates, taken, accepts, codegen.min_nodes)


def generate_code(name: str, subgraph: Subgraph) -> GeneratedCode:
    """The code that a code generator makes of a subgraph.

    Raises CompileError, naming both, where ``compile`` raises anything, crashes, finds no end, or gives what is no
    code.
    """
    codegen = _demand_codegen(name)
    what = describe_subgraph(name, subgraph.name, [node.name for node in subgraph.nodes])
    call = partial(_call_compile, codegen, subgraph)
    made = call_isolated(partial(_hold_back, call), codegen.timeout, what) if codegen.isolate else _HERE
    if made == _HERE:  # a function cannot leave a fork, which has shown that making it harms nobody
        for value in subgraph.constants:  # the function may read them when the model's file is gone
            _ = value.constant
        made = call_isolated(call, codegen.timeout, what, isolate=False)
    return _settle_code(codegen, subgraph, made, what)


def _demand_codegen(name: str) -> CodeGenerator:
    codegen = find_codegen(name)
    if codegen is None or codegen.compile is None:
        raise CompileError(f"code generator '{name}' is not registered any more: register it again")
    return codegen


def _hold_back(call: Callable[[], Any]) -> Any:
    made = call()
    return _HERE if callable(made) else made


def _call_compile(codegen: CodeGenerator, subgraph: Subgraph) -> Any:
    """What ``compile`` gives, with the content of files in place of their paths."""
    assert codegen.compile is not None
    made = codegen.compile(subgraph)
    if isinstance(made, str | os.PathLike):
        made = NativeCode(made)
    if isinstance(made, NativeCode) and isinstance(made.code, str | os.PathLike):
        with open(made.code, "rb") as file:
            made = replace(made, code=file.read())
    return made


def _settle_code(codegen: CodeGenerator, subgraph: Subgraph, made: Any, what: str) -> GeneratedCode:
    """What ``compile`` gave, if it is one of the kinds that it may give."""
    if isinstance(made, bytes | bytearray | memoryview):
        made = bytes(made)
        made = HostCode(made) if codegen.load is not None and not made.startswith(ELF_MAGIC) else NativeCode(made)
    if callable(made):
        key = uuid.uuid4().hex
        keep_function(key, made)
        return GeneratedCode((), function=key)
    if not isinstance(made, NativeCode | HostCode):
        raise CompileError(
            f"{what}: compile gives {_shorten(made)}: give a tw.NativeCode, a tw.HostCode, bytes, or a function"
        )
    known = {value.name for value in subgraph.constants}
    constants = tuple(made.constants) if not isinstance(made.constants, str) else (made.constants,)
    if unknown := next((name for name in constants if name not in known), None):
        raise CompileError(f"{what}: it wants the constant {unknown!r}, which the subgraph has not")
    if isinstance(made, HostCode):
        return GeneratedCode(constants, payload=_check_payload(codegen, made.payload, what))
    return GeneratedCode(constants, native=_settle_native(codegen, subgraph, made, what))


def _shorten(made: Any) -> str:
    text = repr(made)
    return text if len(text) <= 80 else f"a {type(made).__name__}"


def _check_payload(codegen: CodeGenerator, payload: Any, what: str) -> bytes:
    if not isinstance(payload, bytes | bytearray):
        raise CompileError(f"{what}: its payload is a {type(payload).__name__}, not bytes")
    if codegen.load is None:
        raise CompileError(f"{what}: it gives a payload, and nothing makes a function of that: register it with load=")
    if len(payload) > MOST_PAYLOAD:
        raise CompileError(
            f"{what}: its payload has {len(payload)} bytes, at most {MOST_PAYLOAD} go into a program: name the "
            "constants that it needs, which are passed from the weights (constants=)"
        )
    return bytes(payload)


def _settle_native(codegen: CodeGenerator, subgraph: Subgraph, made: NativeCode, what: str) -> SubgraphCode:
    if not isinstance(made.code, bytes | bytearray):
        raise CompileError(f"{what}: its code is a {type(made.code).__name__}, not bytes or a file's path")
    if made.symbol is not None and not isinstance(made.symbol, str):
        raise CompileError(f"{what}: its symbol is {_shorten(made.symbol)}, not a name")
    code = bytes(made.code)
    function, library = check_code(code, made.symbol, subgraph.target, what)
    digest = hashlib.sha256(function.encode() + code).hexdigest()[:24]
    nodes = tuple(node.name for node in subgraph.nodes)
    return SubgraphCode(f"tw_codegen_{digest}", codegen.name, subgraph.name, nodes, code, function, library)
