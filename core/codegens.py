"""Code generators that a user adds: what they are registered with, and what they give for a subgraph."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .errors import CompileError, InputError
from .subgraphs import Subgraph

# Bytes of a payload, which is a part of the program's description.
MOST_PAYLOAD = 16 << 20

_CODEGEN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True)
class NativeCode:
    """What ``compile`` gives where the subgraph is a C function: ``code`` is a relocatable object or a shared library,
    as bytes or as a file's path, and ``symbol`` the function's name; None for the only function that is visible.

    The program calls ``int32_t f(inputs..., constants..., outputs..., extents...)``: a pointer for each tensor, whose
    elements lie in order, and an int64_t for each of ``Subgraph.extents``. It gives 0, or a number with which the run
    is refused. ``constants`` are the names of the subgraph's constants that it wants to be passed; others are
    expected in the code. Inputs and constants must not be written to. Pointers are multiples of the elements' size.
    Threads may call it at the same time.
    """

    code: bytes | str | os.PathLike[str]
    symbol: str | None = None
    constants: tuple[str, ...] = ()


@dataclass(frozen=True)
class HostCode:
    """What ``compile`` gives where Python runs the subgraph: ``payload``, of which ``load`` makes a function.

    The function is called as ``f(*inputs, *constants)`` with read-only arrays, of those ``constants`` that are named
    here, and gives an array, or a tuple of them, for the outputs.
    """

    payload: bytes
    constants: tuple[str, ...] = ()


@dataclass(frozen=True)
class CodeGenerator:
    """A registered code generator; the fields are the arguments of ``register_codegen``."""

    name: str
    supports: Callable[[Subgraph], object] | None
    compile: Callable[[Subgraph], Any] | None
    load: Callable[[bytes], Callable[..., Any]] | None = None
    prefer: int = 1
    min_nodes: int = 1
    dynamic: bool = False
    timeout: float = 300.0
    isolate: bool = True


@dataclass(frozen=True)
class CodegenChoice:
    """The names of the code generators that take part, in the order in which they choose, and the ``target``."""

    names: tuple[str, ...]
    target: str


_CODEGENS: dict[str, CodeGenerator] = {}
_FUNCTIONS: dict[str, Callable[..., Any]] = {}


def register_codegen(
    name: str,
    supports: Callable[[Subgraph], object] | None = None,
    compile: Callable[[Subgraph], Any] | None = None,
    *,
    load: Callable[[bytes], Callable[..., Any]] | None = None,
    prefer: int = 1,
    min_nodes: int = 1,
    dynamic: bool = False,
    timeout: float = 300.0,
    isolate: bool = True,
    override: bool = False,
) -> None:
    """Let a code generator of yours compile parts of the ONNX models that this process compiles from now on.

    Args:
        name: letters, digits and ``_.-``; programs, reports and errors call it so.
        supports: is asked of each node, as a ``Subgraph`` of one, and then of each subgraph of several.
        compile: takes a ``Subgraph`` and gives its code: a ``NativeCode``, or the bytes or path of an object or a
            shared library with one visible function; a ``HostCode``, or with ``load`` its payload alone; or a
            function, of Python or packed (``tw.get_global_func``), with which the program cannot leave this process.
        load: makes the function of a payload, when a program is linked or loaded. A process that only runs programs
            registers this alone.
        prefer: code generators with a higher number choose first. Tilewright's own kernels have 0: a negative number
            takes only nodes that Tilewright refuses.
        min_nodes: subgraphs of fewer nodes are left to others.
        dynamic: whether it takes tensors with extents that only the run knows.
        timeout: seconds that ``supports`` may take for a network, and ``compile`` for a subgraph.
        isolate: whether they are called in a fork of this process, where a crash or an endless loop harms nobody.
        override: whether a code generator of this name is replaced.

    Raises InputError for an argument that cannot be, and for a name that is registered already.
    """
    what = f"code generator '{name}' cannot be registered"
    if not isinstance(name, str) or not _CODEGEN_NAME.fullmatch(name):
        raise InputError(f"{what}: a name has letters, digits and '_.-', 64 at most, and begins with a letter")
    for given, role in ((supports, "supports"), (compile, "compile"), (load, "load")):
        if given is not None and not callable(given):
            raise InputError(f"{what}: {role} is a {type(given).__name__}, not a function")
    if (supports is None) != (compile is None):
        raise InputError(f"{what}: supports and compile go together, and only one of them is given")
    if compile is None and load is None:
        raise InputError(f"{what}: give supports and compile, or load to run programs that it has made")
    if type(prefer) is not int or prefer == 0:
        raise InputError(f"{what}: prefer is {prefer!r}: give a number above 0, the rank of Tilewright's own, or below")
    if type(min_nodes) is not int or min_nodes < 1:
        raise InputError(f"{what}: min_nodes is {min_nodes!r}: give 1 or more")
    if not isinstance(timeout, int | float) or not timeout > 0:
        raise InputError(f"{what}: timeout is {timeout!r}: give seconds above 0")
    if name in _CODEGENS and not override:
        raise InputError(f"a code generator '{name}' is registered already: override=True replaces it")
    made = CodeGenerator(name, supports, compile, load, prefer, min_nodes, dynamic, float(timeout), isolate)
    _CODEGENS[name] = made


def unregister_codegen(name: str) -> None:
    """Forget a code generator; programs that are loaded keep what they have of it. InputError for an unknown name."""
    if _CODEGENS.pop(name, None) is None:
        raise InputError(f"there is no code generator '{name}': registered are {_list_names(_CODEGENS)}")


def find_codegen(name: str) -> CodeGenerator | None:
    """The code generator of this name, if it is registered in this process."""
    return _CODEGENS.get(name)


def choose_codegens(names: Iterable[str] | None = None) -> tuple[str, ...]:
    """The names of those that compile, in the order in which they choose; with ``names``, of these alone.

    CompileError for a name that is not registered, or without ``compile``.
    """
    known = {name: made for name, made in _CODEGENS.items() if made.compile is not None}
    if names is None:
        return tuple(sorted(known, key=lambda name: -known[name].prefer))
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise CompileError(f"codegens is {names!r}: give the names of code generators in a list, [] for none")
    names = list(names)
    for name in names:
        if name not in known:
            raise CompileError(f"there is no code generator '{name}': registered are {_list_names(known)}")
    return tuple(sorted(dict.fromkeys(names), key=lambda name: -known[name].prefer))


def _list_names(known: Mapping[str, Any]) -> str:
    return ", ".join(f"'{name}'" for name in known) or "none"


def keep_function(key: str, function: Callable[..., Any]) -> None:
    """Keep a function that programs of this process call by ``key``."""
    _FUNCTIONS[key] = function


def find_function(key: str) -> Callable[..., Any] | None:
    """The function that this process keeps under ``key``."""
    return _FUNCTIONS.get(key)
