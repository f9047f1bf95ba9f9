"""From a function of calls to a program: where each argument of each call lies."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from ...core.arena import Buffer, assign
from ...core.errors import CompileError, ModelError
from ...core.program import Call, Report, Slot
from ...dialects import func, ir, tw
from ...dialects.types import nbytes
from ...dialects.walk import defining_op
from ..analysis.classify import classify_op
from ..analysis.in_place import find_overwritable, find_updated, inserted_into
from ..analysis.kinds import Broadcast, Elementwise, Fill
from ..infra.base import ModuleForm, Pass
from ..ir.edit import is_cheap, list_programs, needs_routine, node_names, program_order, string_attr
from ..ir.kernel import in_place, integer_attr, mark_in_place
from ..ir.routine_ops import VIEWS, base_of, callee_of, is_report
from ..ir.signatures import list_arguments, list_attributes, list_params
from ..ir.slices import Storage
from ..ir.structure import is_static, list_ops
from ..ir.uses import has_one_use, readers_of

# What a kernel has that only inserts.
_INSERTING = (*VIEWS, "tensor.insert_slice", "func.return")


@dataclass(frozen=True)
class PlanMemory(Pass):
    """Note on each call where its arguments and results lie, and on the function how large the arena is.

    Before::

        %a = call @conv_1(%x, %w)
        %b = call @relu_2(%a)
        %c = call @conv_3(%b, %v)
        return %c
        func.func private @relu_2(%x: tensor<..>) -> tensor<..> { ... }

    After::

        %a = call @conv_1(%x, %w) {tw.slots = ["input0", "param0", "arena+0"]}
        %b = call @relu_2(%a) {tw.slots = ["arena+0", "arena+0"]}
        %c = call @conv_3(%b, %v) {tw.slots = ["arena+0", "param1", "output0"]}
        func.func private @relu_2(%x: tensor<..>) -> tensor<..> attributes {tw.in_place = array<i64: 0>} { ... }

    A view lies where its source lies, and a slice of whole rows in it; results of the function are written where the
    caller wants them. A result takes the place of an intermediate that nobody reads any more, where the kernel may
    write over it (``in_place.py``); where only the run knows sizes, kernels that map elements do so (``tw.over``);
    ``tw.in_place`` tells the kernel's passes which of its arguments may so be the result's memory, and ``tw.over`` on a
    kernel that only inserts, as the last pieces of a concat are, that one always is.
    """

    name: ClassVar[str] = "plan-memory"
    form: ClassVar[ModuleForm | None] = ModuleForm.SLOTS

    def apply(self, module: ir.Module) -> None:
        """Annotate all programs; raises CompileError for what is neither a call nor a view."""
        insertions = _Insertions()
        for function in list_programs(module):
            if needs_routine(function):  # whose runtime allocates
                insertions.copied.update(map(callee_of, _kernel_calls(function)))
                _insert_in_place(function)
                _write_over_states(module, function)
                _write_over_last_reads(function)
                continue
            calls, arena_bytes, _ = plan_calls(function)
            ops = _kernel_calls(function)
            kernels = _kernels(function, ops)
            for op, call in zip(ops, calls, strict=True):
                op.attributes[tw.SLOTS] = ir.ArrayAttr.get([ir.StringAttr.get(str(slot)) for slot in call.args])
                if call.kernel in kernels:
                    _mark_in_place(kernels[call.kernel], call)
                    insertions.add(kernels[call.kernel], call)
            function.attributes[tw.ARENA_BYTES] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), arena_bytes)
        insertions.mark()


class _Insertions:
    """Kernels that only insert into an argument: they need not copy the rest where all calls find it in place."""

    def __init__(self) -> None:
        self.copied = set[str]()  # the kernels that some call makes write elsewhere
        self._kernels: dict[str, func.FuncOp] = {}

    def add(self, kernel: func.FuncOp, call: Call) -> None:
        """Note a call of a kernel."""
        into = inserted_into(kernel)
        if into is None or any(op.name not in _INSERTING for op in list_ops(kernel)):
            return
        self._kernels[call.kernel] = kernel
        if call.args[into] != call.args[-1]:
            self.copied.add(call.kernel)

    def mark(self) -> None:
        """Note on kernels that the argument always lies where the result does."""
        for name, kernel in self._kernels.items():
            into = inserted_into(kernel)
            if name not in self.copied and into is not None:
                kernel.attributes[tw.OVER] = integer_attr(into)


def plan_calls(function: func.FuncOp) -> tuple[tuple[Call, ...], int, tuple[Report, ...]]:
    """The calls of an outlined function with the slots of their arguments, the size of the arena in bytes, and what the
    program reports when they are made."""
    ops = [op for op in list_ops(function) if op.name not in VIEWS and not is_cheap(op) and not is_report(op)]
    calls, ret = ops[:-1], ops[-1]
    _refuse_others(calls)
    reports = [op for op in list_ops(function) if is_report(op)]
    kernels = _kernels(function, calls)
    slots = _argument_slots(function) | _result_slots(ret)
    slots |= _begin_results(calls, kernels, slots)
    over = {name: find_overwritable(kernel) for name, kernel in kernels.items()}
    read = {base_of(op.operands[0]) for op in reports}
    arena, arena_bytes = _arena_slots(calls, slots, [over.get(callee_of(op), ()) for op in calls], read)
    slots |= arena
    planned = []
    for op in calls:
        args = tuple(_slot(slots, place, op) for place in (*Storage.of_operands(op), *map(Storage.of, op.results)))
        planned.append(Call(callee_of(op), args, _read_nodes(op)))
        arena_bytes = max(arena_bytes, _find_reach(op, args))
    return tuple(planned), arena_bytes, tuple(_make_report(op, slots) for op in reports)


def _make_report(op: ir.Operation, slots: dict[ir.Value, Slot]) -> Report:
    where = "".join(f"node '{name}' " for name in node_names(op.location)[:1])
    return Report(_slot(slots, Storage.of(op.operands[0]), op), where + (string_attr(op.attributes, tw.REPORT) or ""))


def _find_reach(call: ir.Operation, args: Sequence[Slot]) -> int:
    """Where the arena ends for a call's operands: those of which it reads slices may go beyond their values."""
    read = zip(args, call.operands, strict=False)
    return max((slot.offset + nbytes(value.type) for slot, value in read if slot.space == "arena"), default=0)


def _kernel_calls(function: func.FuncOp) -> list[ir.Operation]:
    return [op for op in list_ops(function) if op.name == "func.call" and not is_report(op)]


def check_arena(function: func.FuncOp, arena_bytes: int, most: int, model: str) -> None:
    """Raise ModelError where an outlined function of a ``model`` has a larger arena than ``most`` bytes."""
    if arena_bytes <= most:
        return
    *calls, ret = (op for op in list_ops(function) if op.name in ("func.call", "func.return"))
    given = set(map(base_of, ret.operands))
    values = [(nbytes(value.type), value.type, op) for op in calls for value in op.results if value not in given]
    size, kind, op = max(values, key=lambda found: found[0])
    node = "".join(_read_nodes(op)[-1:])
    raise ModelError(
        f"model '{model}' needs {arena_bytes} bytes for the tensors between its kernels, more than the {most} that a "
        f"program may have; the largest is the {kind} of node '{node}', {size} bytes: make its sizes smaller"
    )


def _kernels(function: func.FuncOp, calls: Sequence[ir.Operation]) -> dict[str, func.FuncOp]:
    """The kernels that are called and have a body, by name."""
    assert function.operation.parent is not None
    known = ir.SymbolTable(function.operation.parent)
    found = {name: known[name] for name in dict.fromkeys(map(callee_of, calls)) if name in known}
    return {name: op for name, op in found.items() if isinstance(op, func.FuncOp) and not op.is_external}


def _mark_in_place(kernel: func.FuncOp, call: Call) -> None:
    """Note on a kernel which of its arguments this call lets its result take the memory of, beside others' notes."""
    written = call.args[-1] if call.args[-1].space in ("arena", "output") else None
    shared = {i for i in find_overwritable(kernel) if call.args[i] == written}
    mark_in_place(kernel, sorted(shared | set(in_place(kernel))))


def _insert_in_place(function: func.FuncOp) -> None:
    """Let the kernels that store the pieces of a concat write them into what the first of them makes."""
    ops = _kernel_calls(function)
    kernels = _kernels(function, ops)
    for op in ops:
        kernel = kernels.get(callee_of(op))
        into = inserted_into(kernel) if kernel is not None else None
        if kernel is None or into is None or not _is_read_once(op.operands[into]):
            continue
        made = defining_op(op.operands[into])
        if made is not None and made in ops and callee_of(made) in kernels:
            op.attributes[tw.OVER] = integer_attr(into)
            mark_in_place(kernel, [into])


def _write_over_states(module: ir.Module, function: func.FuncOp) -> None:
    """Let the kernels that write elements over a state do so where it lies."""
    results = list_ops(function)[-1].operands
    for argument, attributes in zip(list_arguments(function), list_attributes(function), strict=True):
        if tw.STATE in attributes:
            value = results[ir.IntegerAttr(attributes[tw.STATE]).value]
            for call, number in _find_updates(function, value, argument):
                _take_place(module, call, number)


def _write_over_last_reads(function: func.FuncOp) -> None:
    """Let kernels that only map elements write over a result of another call that they are the last to read.

    Those that do more would no longer have blocks that overlap.
    """
    calls, order = _kernel_calls(function), program_order(function)
    kernels, owned = _kernels(function, calls), set[ir.Value]()  # results in memory that the run allocates
    for call in calls:
        kernel = kernels.get(callee_of(call))
        if kernel is None:
            continue
        if tw.OVER not in call.attributes and _maps_elements(kernel):
            for number in find_overwritable(kernel):
                if base_of(call.operands[number]) in owned and _is_last_read(call, number, kernels, order):
                    call.attributes[tw.OVER] = integer_attr(number)
                    mark_in_place(kernel, sorted({number, *in_place(kernel)}))
                    break
        owned.update(call.results if owned.issuperset(_find_written_over(call)) else [])


def _maps_elements(kernel: func.FuncOp) -> bool:
    kinds = [classify_op(op) for op in list_ops(kernel) if op.name.startswith("linalg.")]
    return all(isinstance(kind, Elementwise | Broadcast | Fill) for kind in kinds)


def _is_last_read(
    call: ir.Operation, number: int, kernels: Mapping[str, func.FuncOp], order: Mapping[ir.Value, int]
) -> bool:
    """Return whether nothing but kernels before a call reads what lies where its operand does, or writes over it."""
    base = base_of(call.operands[number])
    if sum(base_of(operand) == base for operand in call.operands) > 1:
        return False
    return all(
        reader.name == "func.call"
        and callee_of(reader) in kernels
        and order[reader.results[0]] < order[call.results[0]]
        and base not in _find_written_over(reader)
        for reader in _list_readers(base, call)
    )


def _find_written_over(call: ir.Operation) -> list[ir.Value]:
    """What a call writes its result over: one value or none."""
    if tw.OVER not in call.attributes:
        return []
    return [base_of(call.operands[ir.IntegerAttr(call.attributes[tw.OVER]).value])]


def _find_updates(function: func.FuncOp, value: ir.Value, argument: ir.Value) -> list[tuple[ir.Operation, int]]:
    """The calls that make a value of an argument by writing over it, and the operand that each of them writes over.

    None where something else comes between, or reads what is written over later.
    """
    calls = _kernel_calls(function)
    kernels, order, found = _kernels(function, calls), program_order(function), []
    while (base := base_of(value)) != argument:
        call = defining_op(base)
        kernel = kernels.get(callee_of(call)) if call is not None and call in calls else None
        number = find_updated(kernel) if kernel is not None else None
        if call is None or number is None:
            return []
        found.append((call, number))
        value = call.operands[number]
        read = base_of(value)
        readers = map(_first_result, _list_readers(read, call))
        late = any(order[base] < (len(order) if made is None else order[made]) for made in readers)
        if late or sum(base_of(operand) == read for operand in call.operands) > 1:
            return []
    return found


def _first_result(op: ir.Operation) -> ir.Value | None:
    return op.results[0] if len(op.results) else None


def _list_readers(value: ir.Value, but: ir.Operation) -> Iterator[ir.Operation]:
    """The ops of a block, except one, that read elements of a value, also through views."""
    for reader in readers_of(value):
        if reader.name in VIEWS:
            yield from (op for view in reader.results for op in _list_readers(view, but))
        elif reader.name != "tensor.dim" and reader != but:
            yield reader


def _take_place(module: ir.Module, call: ir.Operation, number: int) -> None:
    """Have a call made by a kernel whose result lies where an operand does."""
    symbols = ir.SymbolTable(module.operation)
    name = f"{callee_of(call)}_over"
    if name not in symbols:
        kernel = symbols[callee_of(call)]
        with ir.InsertionPoint(kernel):
            own = kernel.operation.clone()
        own.attributes["sym_name"] = ir.StringAttr.get(name)
        own.attributes[tw.OVER] = integer_attr(number)
        mark_in_place(own, [number])
    before = callee_of(call)
    call.attributes["callee"] = ir.FlatSymbolRefAttr.get(name)
    call.attributes[tw.OVER] = integer_attr(number)
    if not any(callee_of(op) == before for function in list_programs(module) for op in _kernel_calls(function)):
        symbols[before].operation.erase()


def _is_read_once(value: ir.Value) -> bool:
    """Return whether one op alone reads the elements of a tensor; its sizes may be asked for."""
    return sum(use.owner.operation.name != "tensor.dim" for use in value.uses) == 1


def _refuse_others(calls: list[ir.Operation]) -> None:
    for op in calls:
        if op.name != "func.call":
            raise CompileError(
                f"pass 'plan-memory': '{op.name}' is no kernel call {_locate_op(op)}; run `outline` first"
            )
        if not all(is_static(r) for r in op.results):
            raise CompileError(f"the size of a result is known only at run time {_locate_op(op)}; give --input-shape")


def _slot(slots: dict[ir.Value, Slot], storage: Storage, call: ir.Operation) -> Slot:
    source = defining_op(storage.base)
    if source is not None and source.name != "func.call":
        raise CompileError(
            f"pass 'plan-memory': '{source.name}' is in no kernel {_locate_op(call)}; run `outline` first"
        )
    slot = slots[storage.base]
    return replace(slot, offset=slot.offset + storage.begin)


def _locate_op(op: ir.Operation) -> str:
    names = node_names(op.location)
    return f"(node '{names[0]}')" if names else f"({op.location})"


def _read_nodes(op: ir.Operation) -> tuple[str, ...]:
    names = op.attributes.get(tw.NODES, None)
    return tuple(ir.StringAttr(n).value for n in ir.ArrayAttr(names)) if names is not None else ()


def _argument_slots(function: func.FuncOp) -> dict[ir.Value, Slot]:
    """Inputs and params, each counted on their own in the order of the signature."""
    params = list(list_params(function))
    inputs = [a for a in list_arguments(function) if a not in params]
    return {a: Slot("param", i) for i, a in enumerate(params)} | {a: Slot("input", i) for i, a in enumerate(inputs)}


def _result_slots(ret: ir.Operation) -> dict[ir.Value, Slot]:
    slots: dict[ir.Value, Slot] = {}
    for i, value in enumerate(ret.operands):
        base = base_of(value)
        source = defining_op(base)
        if base in slots or source is None or source.name != "func.call":
            raise CompileError(f"pass 'plan-memory': result {i} is no result of its own; run `outline` first")
        slots[base] = Slot("output", i)
    return slots


def _begin_results(
    calls: Sequence[ir.Operation], kernels: Mapping[str, func.FuncOp], known: Mapping[ir.Value, Slot]
) -> dict[ir.Value, Slot]:
    """The slots of values that kernels insert the rest of a result into: those of that result."""
    begun: dict[ir.Value, Slot] = {}
    for op in reversed(calls):
        slot = begun.get(op.results[0]) or known.get(op.results[0]) if len(op.results) == 1 else None
        kernel = kernels.get(callee_of(op))
        into = inserted_into(kernel) if kernel is not None else None
        if slot is not None and into is not None:
            value = op.operands[into]
            if value not in known and defining_op(value) in calls and has_one_use(value):
                begun[value] = slot
    return begun


def _arena_slots(
    calls: Sequence[ir.Operation],
    known: Mapping[ir.Value, Slot],
    over: Sequence[Sequence[int]],
    kept: Collection[ir.Value],
) -> tuple[dict[ir.Value, Slot], int]:
    """Offsets of the intermediates, by the calls that write and read them.

    Those ``kept`` are words that are read behind all calls: they lie behind the others, where they move none of them.
    ``over`` are the arguments of each call that its result may be written over.
    """
    lives: dict[ir.Value, tuple[int, int]] = {}
    for step, op in enumerate(calls):
        for value in (*(Storage.of(operand).base for operand in op.operands), *op.results):
            if value not in known:
                lives[value] = (lives.get(value, (step, step))[0], step)
    words = [value for value in lives if value in kept]
    lives = {value: life for value, life in lives.items() if value not in kept}
    places = _shared_places(calls, lives, over)
    buffers: dict[ir.Value, Buffer] = {}
    for value, (first, last) in lives.items():  # in program order, so that a place ends with the last value in it
        place = places[value]
        first = buffers[place].first if place in buffers else first
        buffers[place] = Buffer(nbytes(value.type), first, last)
    found, total = assign(list(buffers.values()))
    offsets = dict(zip(buffers, found, strict=True))
    slots = {v: Slot("arena", 0, offsets[places[v]]) for v in lives}
    last, ends = assign([Buffer(nbytes(v.type), 0, 0) for v in words])
    slots |= {v: Slot("arena", 0, total + offset) for v, offset in zip(words, last, strict=True)}
    return slots, total + ends


def _shared_places(
    calls: Sequence[ir.Operation], lives: Mapping[ir.Value, tuple[int, int]], over: Sequence[Sequence[int]]
) -> dict[ir.Value, ir.Value]:
    """For each value the one in whose place it lies: its own, or that of an operand that dies where it is made."""
    places = {value: value for value in lives}
    for step, (op, arguments) in enumerate(zip(calls, over, strict=True)):
        found = Storage.of_operands(op)
        read = [place.base for place in found]
        # What is read twice, in another view, must stay as it is until all of the kernel is done.
        alone = [read[i] for i in arguments if found[i].whole and read.count(read[i]) == 1]
        dying = [value for value in alone if lives.get(value, (0, -1))[1] == step]
        if dying and op.results[0] in lives:
            places[op.results[0]] = places[dying[0]]
    return places
