"""Each form between passes has its rules: a pass that breaks one is caught at its own door.

A test plants a fault after a pass of the real pipeline, and the message names the pass and the rule.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import networks
import pytest
from mlir.dialects import linalg

from tilewright.core.errors import InternalError
from tilewright.core.program import Plan, Program, Routine, Slot, Step
from tilewright.core.states import State
from tilewright.core.target import Target
from tilewright.dialects import arith, func, ir, tensor, tw
from tilewright.dialects.context import make_context, reused_context
from tilewright.dialects.walk import collect
from tilewright.passes import pipeline
from tilewright.passes.infra.base import ModuleForm, Pass
from tilewright.passes.infra.context import PassContext
from tilewright.passes.ir.edit import is_private, list_ops, list_programs
from tilewright.passes.ir.kernel import integer_attr, list_functions
from tilewright.passes.verify.forms import VERIFIERS
from tilewright.passes.verify.plans import verify_plan, verify_program

TARGET = Target.parse("x86 -mcpu=x86-64-v3")
Fault = Callable[[ir.Module], None]


@dataclass(frozen=True)
class Planted(Pass):
    """Breaks a rule."""

    name: ClassVar[str] = "planted"
    fault: Fault = field(default=lambda module: None, compare=False)

    def apply(self, module: ir.Module) -> None:
        with ir.Location.unknown(module.context):
            self.fault(module)


@pytest.fixture(autouse=True)
def _verify_after_each_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_VERIFY", "1")


def _plan(passes: tuple[Pass, ...]) -> Plan:
    with make_context(), ir.Location.unknown():
        model = networks.residual_block()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "graph_passes", lambda *_: passes)
        return pipeline.plan(model, TARGET, PassContext())


def _after(passes: tuple[Pass, ...], name: str, fault: Fault) -> tuple[Pass, ...]:
    """The passes, and the fault after the first one of this name."""
    place = [stage.name for stage in passes].index(name) + 1
    return (*passes[:place], Planted(fault), *passes[place:])


def _main(module: ir.Module) -> func.FuncOp:
    return next(f for f in list_programs(module) if not is_private(f) and tw.PREPARES not in f.attributes)


def _at_begin(function: func.FuncOp) -> ir.InsertionPoint:
    return ir.InsertionPoint.at_block_begin(function.regions[0].blocks[0])


def _add_constant(module: ir.Module) -> None:
    kind = ir.F32Type.get()
    with _at_begin(_main(module)):
        values = ir.DenseElementsAttr.get(
            [ir.FloatAttr.get(kind, n) for n in range(65)], ir.RankedTensorType.get([65], kind)
        )
        arith.constant(values.type, values)


def _add_bits(module: ir.Module) -> None:
    with _at_begin(_main(module)):
        tensor.EmptyOp([4], ir.IntegerType.get_signless(1))


def _add_vector(module: ir.Module) -> None:
    with _at_begin(_main(module)):
        ir.Operation.create("vector.vscale", results=[ir.IndexType.get()])


def _add_call(module: ir.Module) -> None:
    with ir.InsertionPoint(module.body):
        func.FuncOp("other", ([], []), visibility="private")
    with _at_begin(_main(module)):
        func.CallOp([], ir.FlatSymbolRefAttr.get("other"), [])


def _add_public(module: ir.Module) -> None:
    with ir.InsertionPoint(module.body):
        function = func.FuncOp("other", ([], []))
        with ir.InsertionPoint(function.add_entry_block()):
            func.ReturnOp([])


def _drop_names(module: ir.Module) -> None:
    main = _main(module)
    main.attributes["arg_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get({}) for _ in main.arguments])


def _repeat_names(module: ir.Module) -> None:
    main = _main(module)
    first = ir.ArrayAttr(main.attributes["arg_attrs"])[0]
    main.attributes["arg_attrs"] = ir.ArrayAttr.get([first for _ in main.arguments])


def _add_work(module: ir.Module) -> None:
    main = _main(module)
    with _at_begin(main):
        x = main.arguments[0]
        linalg.exp(x, outs=[x])


def _publish_kernel(module: ir.Module) -> None:
    del next(f for f in list_functions(module) if f not in list_programs(module)).attributes["sym_visibility"]


def _mark_group(module: ir.Module) -> None:
    _calls(module)[0].attributes[tw.GROUP] = integer_attr(0)


def _assert_in_kernel(module: ir.Module) -> None:
    kernels = [f for f in list_functions(module) if is_private(f) and tw.PREPARES not in f.attributes]
    with _at_begin((kernels or list_functions(module))[0]):
        true = arith.constant(ir.IntegerType.get_signless(1), 1)
        ir.Operation.create("cf.assert", operands=[true], attributes={"msg": ir.StringAttr.get("no")})


def _calls(module: ir.Module) -> list[ir.Operation]:
    return [op for op in list_ops(_main(module)) if op.name == "func.call"]


def _set_slot(number: int, text: str) -> Fault:
    """A fault that lets the result of a call lie elsewhere."""

    def fault(module: ir.Module) -> None:
        call = _calls(module)[number]
        slots = list(ir.ArrayAttr(call.attributes[tw.SLOTS]))
        call.attributes[tw.SLOTS] = ir.ArrayAttr.get([*slots[:-1], ir.StringAttr.get(text)])

    return fault


def _read_elsewhere(module: ir.Module) -> None:
    made = _calls(module)[0]
    reader = next(use.owner.operation for use in made.results[0].uses)
    slots = list(ir.ArrayAttr(reader.attributes[tw.SLOTS]))
    slots[list(reader.operands).index(made.results[0])] = ir.StringAttr.get("arena+64")
    reader.attributes[tw.SLOTS] = ir.ArrayAttr.get(slots)


def _drop_slot(module: ir.Module) -> None:
    call = _calls(module)[0]
    call.attributes[tw.SLOTS] = ir.ArrayAttr.get(list(ir.ArrayAttr(call.attributes[tw.SLOTS]))[:-1])


GRAPH_FAULTS: dict[str, tuple[str, Fault, str]] = {
    "a large constant": ("simplify-inference", _add_constant, "a constant of 65 elements"),
    "elements of one bit": ("dead-code", _add_bits, "makes elements of i1"),
    "a vector": ("convert-layout", _add_vector, "'vector.vscale' is no op of a program"),
    "a call": ("generalize", _add_call, "a call of 'other'"),
    "a second program": ("canonicalize-ops", _add_public, "the one public function must be '@main'"),
    "an argument without a name": ("fuse-ops", _drop_names, "are inputs or weights"),
    "a name given twice": ("pack-weights", _repeat_names, "two arguments with the name"),
    "work outside of kernels": ("outline", _add_work, "'linalg.exp' is in no kernel"),
    "a public kernel": ("outline", _publish_kernel, "the one public function must be '@main'"),
    "a group that is left": ("outline", _mark_group, "still part of a group"),
    "a check in a kernel": ("outline", _assert_in_kernel, "has a 'cf.assert', which only a program can have"),
    "a slot too few": ("plan-memory", _drop_slot, "slots for"),
    "a result beyond the arena": ("plan-memory", _set_slot(0, "arena+1000000"), "of an arena of"),
    "an argument read elsewhere": ("plan-memory", _read_elsewhere, "where it does not lie"),
    "a result in an input": ("plan-memory", _set_slot(0, "input0"), "writes into input0"),
}


@pytest.mark.parametrize("name", GRAPH_FAULTS)
def test_a_fault_in_a_program_is_caught_at_its_door(name: str):
    stage, fault, rule = GRAPH_FAULTS[name]
    with pytest.raises(InternalError, match=rf"pass 'planted' breaks a rule of the form .*{rule}"):
        _plan(_after(pipeline.graph_passes(TARGET), stage, fault))


def test_a_result_over_a_value_that_is_read_later():
    def fault(module: ir.Module) -> None:
        for call in _calls(module):  # every value at the arena's first byte
            slots = [ir.StringAttr(slot).value for slot in ir.ArrayAttr(call.attributes[tw.SLOTS])]
            moved = ["arena+0" if slot.startswith("arena") else slot for slot in slots]
            call.attributes[tw.SLOTS] = ir.ArrayAttr.get([ir.StringAttr.get(slot) for slot in moved])

    with pytest.raises(InternalError, match=r"pass 'planted'.*(lies over its argument|was overwritten before it)"):
        _plan(_after(pipeline.graph_passes(TARGET), "plan-memory", fault))


def _lower(name: str, fault: Fault) -> None:
    """Lower a kernel of the network with a fault after a pass."""
    kernels = _plan(pipeline.graph_passes(TARGET)).kernels
    kernel = next(code for symbol, code in kernels.items() if symbol.startswith("conv"))
    passes = pipeline.kernel_passes(TARGET)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "kernel_passes", lambda *_, **__: _after(passes, name, fault))
        with reused_context(), ir.Location.unknown():
            pipeline.lower_kernel(kernel, TARGET, PassContext())


def _add_allocation(module: ir.Module) -> None:
    with _at_begin(list_functions(module)[0]):
        ir.Operation.create(
            "memref.alloc",
            results=[ir.MemRefType.get([4], ir.F32Type.get())],
            attributes={"operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, 0])},
        )


def _add_tensor(module: ir.Module) -> None:
    with _at_begin(list_functions(module)[0]):
        tensor.EmptyOp([4], ir.F32Type.get())


def _add_index(module: ir.Module) -> None:
    kernel = next(op for op in module.body.operations if op.operation.name == "llvm.func" and _blocks(op))
    with ir.InsertionPoint.at_block_begin(_blocks(kernel)[0]):
        arith.constant(ir.IndexType.get(), 1)


def _blocks(op: ir.OpView) -> list[ir.Block]:
    return list(op.operation.regions[0].blocks)


def _no_steps(module: ir.Module) -> None:
    for op in collect(module, lambda op: tw.EXTENT in op.attributes):
        op.attributes[tw.EXTENT] = integer_attr(0)


def _drop_scratch(module: ir.Module) -> None:
    del list_functions(module)[0].attributes[tw.SCRATCH]


def _export_body(module: ir.Module) -> None:
    for op in collect(module, lambda op: op.name == "llvm.func" and tw.SCRATCH not in op.attributes):
        op.attributes["linkage"] = ir.Attribute.parse("#llvm.linkage<external>")


def _add_argument(module: ir.Module) -> None:
    kernel, kind = list_functions(module)[0], ir.F32Type.get()
    kernel.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get([*kernel.type.inputs, kind], []))
    kernel.regions[0].blocks[0].add_argument(kind, ir.Location.unknown())


def _add_kernel(module: ir.Module) -> None:
    list_functions(module)[0].operation.clone(ip=ir.InsertionPoint(module.body)).attributes["sym_name"] = (
        ir.StringAttr.get("other")
    )


KERNEL_FAULTS: dict[str, tuple[str, Fault, str]] = {
    "a second kernel": ("reduce-strength", _add_kernel, "must have one kernel"),
    "a check": ("collapse-loops", _assert_in_kernel, "which only a program can have"),
    "no steps": ("apply-schedule", _no_steps, "has no steps"),
    "an argument that is no buffer": ("vectorize", _add_argument, "not buffers"),
    "a tensor": ("bufferize", _add_tensor, "a 'tensor.empty' on tensors is left"),
    "an allocation": ("plan-scratch", _add_allocation, "has a 'memref.alloc'"),
    "no word of scratch memory": ("plan-scratch", _drop_scratch, "does not state its scratch memory"),
    "an op of another dialect": ("lower-to-llvm", _add_index, "a 'arith.constant' is left"),
    "a second symbol": ("wrap-kernel", _export_body, "must export the kernel alone"),
}


@pytest.mark.parametrize("name", KERNEL_FAULTS)
def test_a_fault_in_a_kernel_is_caught_at_its_door(name: str):
    stage, fault, rule = KERNEL_FAULTS[name]
    with pytest.raises(InternalError, match=rf"pass 'planted' breaks a rule of the form .*{rule}"):
        _lower(stage, fault)


def test_all_forms_have_rules_and_a_pass():
    assert set(VERIFIERS) == set(ModuleForm) - {ModuleForm.FOREIGN}
    stages = (*pipeline.normalize_passes(), *pipeline.graph_passes(TARGET), *pipeline.kernel_passes(TARGET))
    assert {stage.form for stage in stages} - {None} == set(ModuleForm) - {ModuleForm.FOREIGN, ModuleForm.TENSORS}


def _program() -> tuple[Plan, Program]:
    made = _plan(pipeline.graph_passes(TARGET))
    return made, made.main


def _with_slot(program: Program, slot: Slot) -> Program:
    call = program.calls[0]
    return replace(program, calls=(replace(call, args=(*call.args[:-1], slot)), *program.calls[1:]))


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda p: replace(p, calls=(replace(p.calls[0], kernel="none"), *p.calls[1:])), "there is no kernel 'none'"),
        (lambda p: _with_slot(p, Slot("output", 7)), "takes output7, which the program does not have"),
        (lambda p: _with_slot(p, Slot("arena", offset=p.arena_bytes + 64)), "which the program does not have"),
        (lambda p: replace(p, outputs=(*p.outputs, p.outputs[0])), "no call writes output"),
        (lambda p: replace(p, routine=Routine((0,), (Step("func.call", (1,), (2,)),), (1,))), "reads register 2"),
        (lambda p: replace(p, routine=Routine((0,), (Step("func.call", (0,), (0,)),), (0,))), "a second time"),
        (lambda p: replace(p, routine=Routine((0,), (Step("x", (1,), (0,), dead=(1,)),), (1,))), "gone before the end"),
    ],
)
def test_a_fault_in_a_plan(change: Callable[[Program], Program], rule: str):
    made, main = _program()
    verify_plan(made)
    with pytest.raises(InternalError, match=rf"planning: .*{rule}"):
        verify_plan(replace(made, main=change(main)))


def _call(result: int, *operands: int, over: int | None = None) -> Step:
    facts = {"kernel": "work", "open": [[0]] * len(operands)}
    return Step("func.call", (result,), operands, facts if over is None else {**facts, "over": over})


def _check_routine(steps: Sequence[Step], *results: int, states: tuple[State, ...] = ()) -> str:
    """What the rules say of a program of one input with such a routine; "" where it breaks none."""
    _, main = _program()
    main = replace(main, calls=(), routine=Routine((0,), tuple(steps), results), states=states)
    try:
        verify_program(main, ())
    except InternalError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("steps", "result", "rule"),
    [
        ([_call(1, 0, over=0)], 1, "writes over register 0, which is not its own"),
        ([Step("tensor.cast", (1,), (0,)), _call(2, 1, over=0)], 2, "which is not its own"),
        ([_call(1, 0), _call(2, 1, over=0), _call(3, 2, 1)], 3, "reads register 1, whose memory .* wrote over"),
        ([_call(1, 0), Step("tensor.cast", (2,), (1,)), _call(3, 1, over=0)], 2, "'return' reads register 2"),
        ([_call(1, 0), _call(2, 1, over=0), Step("tensor.cast", (3,), (1,))], 3, "'return' reads register 3"),
        ([_call(1, 0), _call(2, 1, 1, over=0)], 2, "an operand that it reads twice"),
        (
            [_call(1, 0), _call(2, 1, over=0), Step("scf.if", (3,), (), {}, (Routine((), (_call(4, 1),), (4,)),))],
            3,
            "'scf.if' reads register 1",
        ),
        (
            [_call(1, 0), Step("scf.for", (2,), (1,), {}, (Routine((3,), (_call(4, 3, over=0),), (4,)),))],
            2,
            "writes over register 3, which is not its own",
        ),
    ],
)
def test_a_call_writes_over_what_is_read_elsewhere(steps: list[Step], result: int, rule: str):
    assert re.search(f"planning: .*{rule}", _check_routine(steps, result))


def test_a_call_may_write_over_what_it_reads_last():
    steps = [_call(1, 0), Step("tensor.cast", (2,), (1,)), _call(3, 2, over=0), Step("tensor.dim", (4,), (1,))]
    assert _check_routine([*steps, _call(5, 3, over=0)], 5) == ""
    assert "reads register 1" in _check_routine([*steps, _call(5, 3, 1, over=0)], 5)


def test_results_of_a_call_lie_apart():
    steps = [replace(_call(1, 0), results=(1, 2)), _call(3, 1, over=0)]
    assert _check_routine(steps, 3, 2) == ""
    assert "reads register 1" in _check_routine(steps, 3, 1)


def test_a_call_may_write_over_a_state():
    steps = [_call(1, 0, over=0)]
    assert _check_routine(steps, 1, states=(State(0, 0),)) == ""
    assert "not its own" in _check_routine(steps, 1)


def test_a_form_is_verified_where_it_ends(monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_VERIFY", "forms")
    with pytest.raises(InternalError, match="a pass before 'outline' breaks a rule"):
        _plan(_after(pipeline.graph_passes(TARGET), "fuse-broadcasts", _add_constant))


def test_the_environment_asks_for_it(monkeypatch):
    passes = _after(pipeline.graph_passes(TARGET), "fuse-ops", _add_constant)
    monkeypatch.setenv("TILEWRIGHT_VERIFY", "0")
    monkeypatch.delenv("TILEWRIGHT_DEBUG", raising=False)
    assert _plan(passes).main.calls
    monkeypatch.setenv("TILEWRIGHT_DEBUG", "1")
    with pytest.raises(InternalError, match="pass 'planted' breaks a rule"):
        _plan(passes)
