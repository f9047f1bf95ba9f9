"""Faults put into a compile worker as it starts: a place of the compiler that fails in one of the ways of `worker_jobs`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
from worker_jobs import WAYS

from tilewright import workers
from tilewright.dialects import codegen, ir
from tilewright.frontends.onnx import ops
from tilewright.frontends.onnx.state import registry
from tilewright.passes.graph.fuse_ops import FuseOps
from tilewright.passes.ir.edit import list_programs, node_names
from tilewright.passes.ir.structure import list_ops
from tilewright.passes.lower.bufferize import Bufferize
from tilewright.workers import worker


def inject(monkeypatch: pytest.MonkeyPatch, place: str, way: str) -> None:
    """Let the workers that start from now on fail at a place, in a way."""
    workers.shutdown()
    program = worker._PROGRAM.replace(
        "\nserve(", f"\nimport worker_faults; worker_faults.install({place!r}, {way!r})\nserve("
    )
    assert program != worker._PROGRAM
    monkeypatch.setattr(worker, "_PROGRAM", program)


def install(place: str, way: str) -> None:
    """Let this process fail at a place: where a Sin is converted, where a node called "bad" is fused, in its kernel's
    lowering, or in the code generator."""
    PLACES[place](WAYS[way])


def _in_the_importer(fail: Callable[[], None]) -> None:
    ops.load_converters()
    versions = registry._TABLE["", "Sin"]
    for since in versions:
        versions[since] = _before(versions[since], lambda *_, **__: fail())


def _in_a_graph_pass(fail: Callable[[], None]) -> None:
    def fail_at_the_node(stage: FuseOps, module: ir.Module) -> None:
        if any("bad" in node_names(op.location) for f in list_programs(module) for op in list_ops(f)):
            fail()

    FuseOps.apply = _before(FuseOps.apply, fail_at_the_node)


def _in_a_kernel_pass(fail: Callable[[], None]) -> None:
    Bufferize.apply = _before(Bufferize.apply, lambda *_: fail())


def _in_the_code_generator(fail: Callable[[], None]) -> None:
    def fail_at_kernels(module: ir.Module, *_: object) -> None:
        if "tw.extent" in str(module):  # what every product has goes by the same way
            fail()

    codegen.emit_code = _before(codegen.emit_code, fail_at_kernels)


def _before(function: Callable[..., Any], first: Callable[..., object]) -> Callable[..., Any]:
    @functools.wraps(function)
    def both(*arguments: Any, **named: Any) -> Any:
        first(*arguments, **named)
        return function(*arguments, **named)

    return both


PLACES: dict[str, Callable[[Callable[[], None]], None]] = {
    "importer": _in_the_importer,
    "graph pass": _in_a_graph_pass,
    "kernel pass": _in_a_kernel_pass,
    "code generator": _in_the_code_generator,
}
