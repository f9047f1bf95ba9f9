"""No pass goes on to an op that it has erased.

MLIR's Python keeps wrappers of erased ops that look valid, and another op may lie where one lay. A pass that walks a
list of ops, and erases some on the way, has to leave those out.
"""

from __future__ import annotations

import ctypes
import itertools
import sys
from collections.abc import Iterator
from typing import Any

import networks
import pytest
from samples import campaign

from tilewright.core.target import detect_host
from tilewright.dialects import ir
from tilewright.dialects.context import make_context
from tilewright.passes import pipeline
from tilewright.passes.ir import structure
from tilewright.passes.ir.edit import list_programs

_address = ctypes.pythonapi.PyCapsule_GetPointer
_address.restype, _address.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def address(op: ir.Operation) -> int:
    """Where an op lies, whether it was erased or not."""
    return _address(op._CAPIPtr, b"mlir.ir.Operation._CAPIPtr")


class Watched(list[Any]):
    """Ops of a function, which are asked for their time of death when a loop comes to them."""

    def __init__(self, ops: list[ir.Operation], watch: Watch) -> None:
        super().__init__(ops)
        self.addresses, self.watch, self.made = [address(op) for op in ops], watch, next(watch.clock)

    def __iter__(self) -> Iterator[Any]:
        for op, place in zip(super().__iter__(), self.addresses, strict=True):
            if self.watch.erased.get(place, -1) > self.made:
                self.watch.visits.append(place)
            yield op


class Watch:
    """When ops were erased, by where they lay, and the visits of such."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock, self.erased, self.visits = itertools.count(), dict[int, int](), list[int]()
        erase, list_ops = ir.Operation.erase, structure.list_ops

        def note_and_erase(op: Any) -> None:
            now = next(self.clock)
            self.erased |= {address(inner): now for inner in nested(op.operation)}
            erase(op.operation)

        monkeypatch.setattr(ir.Operation, "erase", note_and_erase)
        for module in [m for name, m in sys.modules.items() if name.startswith("tilewright.")]:
            if getattr(module, "list_ops", None) is list_ops:
                monkeypatch.setattr(module, "list_ops", lambda op: Watched(list_ops(op), self))


def nested(op: ir.Operation) -> Iterator[ir.Operation]:
    """An op and all ops of its regions."""
    yield op
    for block in itertools.chain.from_iterable(op.regions):
        for inner in block.operations:
            yield from nested(inner.operation)


@pytest.fixture
def watch(monkeypatch) -> Watch:
    return Watch(monkeypatch)


@campaign(
    "residual_block",
    "wide_block",
    "long_input_rows",
    "single_pixels",
    "fire",
    "attention",
    "composites",
    "odd_results",
    "gather_and_index",
    "parallel",
    "blocks",
)
@pytest.mark.parametrize("name", networks.NETWORKS)
def test_passes_visit_living_ops_alone(name: str, watch: Watch):
    with make_context(), ir.Location.unknown():
        pipeline.plan(networks.NETWORKS[name](), detect_host())
    assert watch.erased and not watch.visits


def test_a_visit_of_an_erased_op_is_seen(watch: Watch):
    text = "func.func @main() { %a = arith.constant 1 : i8  %b = arith.constant 2 : i8  return }"
    with make_context():
        module = ir.Module.parse(text)
        ops = structure.list_ops(list_programs(module)[0])
        twin = module.body.operations[0].regions[0].blocks[0].operations[1]  # another wrapper of the second op
        for number, _ in enumerate(ops):
            if number == 0:
                twin.operation.erase()
    assert watch.visits
