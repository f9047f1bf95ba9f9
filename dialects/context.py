"""The MLIR context and the one policy for its diagnostics: they become a CompileError that names the model's node."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeVar

from ..core.errors import CompileError, InternalError
from . import PassManager, ir

MLIRError: type[Exception] = ir.MLIRError  # type: ignore[attr-defined]  # made when the wheel is imported


# The dialects of which IR is built. What is parsed, and what passes make, loads its own. To load all that exist takes
# 8 ms in place of 2: 6 of them for the transform dialect, which only the schedules of kernels need.
_LOADED_DIALECTS = (
    "affine",
    "arith",
    "bufferization",
    "cf",
    "func",
    "linalg",
    "llvm",
    "math",
    "memref",
    "scf",
    "tensor",
    "vector",
)


def make_context() -> ir.Context:
    """A context without threads of its own whose errors reach an attached handler (and ``diagnostics``)."""
    make: Any = ir.Context  # a class of the wheel's own, of which its types do not know
    context: ir.Context = make(load_on_create_dialects=())
    for name in _LOADED_DIALECTS:
        context.get_dialect_descriptor(name)  # loads it, and no module of Python's
    context.enable_multithreading(False)
    context.emit_error_diagnostics = True
    return context


class _Reused(NamedTuple):
    """A context, what is kept as long as it is, and how often it was used."""

    context: ir.Context
    kept: dict[Hashable, Any]
    uses: int = 0


_Kept = TypeVar("_Kept")
# Contexts that are free. To make one takes 2 ms, for the dialects that it loads, and 6 more for the transform dialect.
# But types, attributes and locations that are made in it stay as long as it does.
_free: list[_Reused] = []
_MOST_USES = 64
_CURRENT: ContextVar[_Reused | None] = ContextVar("tilewright_reused_context", default=None)


@contextmanager
def reused_context() -> Iterator[ir.Context]:
    """Enter a context, maybe one that was used before, for work that leaves no IR behind but what ``keep`` keeps.

    After an error nobody gets it again: who catches that may hold IR still.
    """
    try:
        used = _free.pop()
    except IndexError:
        used = _Reused(make_context(), {})
    token = _CURRENT.set(used)
    try:
        with used.context:
            yield used.context
    finally:
        _CURRENT.reset(token)
    if used.uses + 1 < _MOST_USES:
        _free.append(used._replace(uses=used.uses + 1))


def join_context() -> ir.Context:
    """The reused context that was entered, for IR that goes when its work is done, or else a new one."""
    used = _CURRENT.get()
    return used.context if used is not None and used.context == ir.Context.current else make_context()


def keep(key: Hashable, make: Callable[[], _Kept]) -> _Kept:
    """What was made under this key in the current context before, if it is a reused one, or else what is made now."""
    used = _CURRENT.get()
    if used is None or used.context != ir.Context.current:
        return make()
    if key not in used.kept:
        used.kept[key] = make()
    return used.kept[key]


def run_pipeline(op: ir.Operation, pipeline: str, *, verified: bool = True) -> None:
    """Run a pipeline of upstream passes on an op, and where it is to be ``verified``, verify after each of them.

    A pass that was made before has collected its patterns: 0.5 ms for ``canonicalize``.
    """
    manager = keep((pipeline, verified), lambda: PassManager.parse(pipeline))
    manager.enable_verifier(verified)
    manager.run(op)


@contextmanager
def diagnostics(stage: str, kind: type[CompileError] = InternalError) -> Iterator[None]:
    """Turn any failure of MLIR inside the block into a one-line error of the ``kind``: stage, node, reason.

    An error that MLIR reports without raising (a pass may do that) raises as well when the block ends; warnings and
    remarks keep going to stderr.
    """
    errors: list[tuple[str, str]] = []
    current: Any = ir.Context.current
    handler = current.attach_diagnostic_handler(lambda d: _collect(d, errors))
    try:
        yield
    except (MLIRError, ValueError, RuntimeError) as error:
        raise kind(_message(stage, errors, str(error))) from error
    finally:
        handler.detach()
    if errors:
        raise kind(_message(stage, errors, ""))


def node_name(location: ir.Location) -> str:
    """The model's node that this location names, or "" for one that names none; fused ones give the first name."""
    if location.is_a_name():
        return location.name_str
    if location.is_a_fused():
        return next(filter(None, map(node_name, location.locations)), "")
    if location.is_a_callsite():
        return node_name(location.callee) or node_name(location.caller)
    return ""


def at_node(op: ir.Operation | ir.OpView) -> str:
    """ " at node 'conv1'", to be put into a message, or "" for an op that comes from no node."""
    name = node_name(op.operation.location)
    return f" at node '{name}'" if name else ""


def _collect(diagnostic: Any, errors: list[tuple[str, str]]) -> bool:
    if diagnostic.severity != ir.DiagnosticSeverity.ERROR:
        return False
    errors.append((node_name(diagnostic.location), diagnostic.message))
    return True


def _message(stage: str, errors: list[tuple[str, str]], fallback: str) -> str:
    # The first error is the cause; what follows repeats it from further up.
    node, reason = errors[0] if errors else ("", fallback)
    where = f" at node '{node}'" if node else ""
    return f"{stage} failed{where}: {' '.join(reason.split())}"
