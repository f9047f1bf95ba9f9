"""Tensor expressions as IR: ``@main`` of structured ops, which the passes see as they see a network's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..core.errors import ExpressionError
from ..core.model import Model, TensorInfo
from ..core.sizes import Sym, symbols_of
from ..dialects import arith, builders, extents, func, ir, loops, positions, tw
from ..dialects.context import diagnostics, make_context
from ..dialects.transform import STORE
from ..dialects.types import element_type
from .arguments import as_multiple, name_arguments, split_args
from .attachment import root_of, tile_shape
from .best_places import split_best
from .calls import calls_of, calls_text, resets_of
from .computation import Computation
from .copied_reads import copy_reads
from .emit_scan import emit_scan
from .expr import Read, Reduce
from .expr_keys import ExprKeys
from .expr_parts import exchange_parts
from .matching import match_intrinsic
from .op_body import OpBody, copy_results, pair_indices, store_results
from .op_changes import split_results
from .regions import each_read, is_inside
from .scan import ScanOp
from .schedule import Schedule
from .script import make_script
from .stage import Stage
from .tensor import ComputeOp, PlaceholderOp, Tensor


def emit_model(schedule: Schedule, args: Sequence[Tensor], name: str) -> Model:
    """The model whose inputs and outputs are ``args``: placeholders, then what the schedule computes."""
    inputs, outputs = split_args(schedule, args)
    names = [*name_arguments(args)]
    # What is left to the compiler as a whole is a network like others: passes pack, fuse and store as they see fit.
    automatic = all(s.automatic or s.inline for s in schedule.stages if isinstance(s.op, ComputeOp))
    context = make_context()
    with context, ir.Location.unknown(), extents.scope(), diagnostics(f"the lowering of '{name}'"):
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            main = _emit_function("main", _Emitter(schedule, grouped=not automatic), inputs, outputs, checked=True)
        main.arg_attrs = [ir.DictAttr.get({tw.NAME: ir.StringAttr.get(name)}) for name in names[: len(inputs)]]
        module.operation.verify()
    infos = tuple(TensorInfo(name, t.shape, t.dtype) for name, t in zip(names, args, strict=True))
    return Model(module, infos[: len(inputs)], infos[len(inputs) :], {}, name, scheduled=not automatic)


def emit_operator(computation: Computation, given: Sequence[ir.Value]) -> list[ir.Value]:
    """The ops of a computation on tensors, at the insertion point, as passes fuse and schedule them; its results.

    Symbols of the shapes are bound already.
    """
    schedule, count = computation.schedule, len(given)
    inputs, outputs = computation.args[:count], computation.args[count:]
    values = _Emitter(schedule, grouped=False).run(dict(zip(inputs, given, strict=True)))
    return [values[schedule[t].stage.op.output(t.value_index)] for t in outputs]


def operator_text(computation: Computation, count: int) -> str:
    """A function of the first ``count`` tensors of a computation whose ops have a user's schedule, as text."""
    with extents.scope():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            emitter = _Emitter(computation.schedule, location=ir.Location.current)
            _emit_function("operator", emitter, computation.args[:count], computation.args[count:])
        module.operation.verify()
        return str(module.operation.get_asm(enable_debug_info=True, use_local_scope=True))


def _emit_function(
    name: str, emitter: _Emitter, inputs: Sequence[Tensor], outputs: Sequence[Tensor], checked: bool = False
) -> func.FuncOp:
    """The function of the inputs that computes the outputs, and has a run ``checked`` for sizes that do not fit."""
    kinds, results = ([builders.ranked_type(t.shape, element_type(t.dtype)) for t in s] for s in (inputs, outputs))
    function = func.FuncOp(name, (kinds, results))
    block = function.add_entry_block()
    with ir.InsertionPoint(block):
        given = {t: extents.note(v, t.shape) for t, v in zip(inputs, block.arguments, strict=True)}
        _bind_sizes(given)
        if checked:
            _demand_sizes(given)
        values = emitter.run(given)
        func.ReturnOp([values[emitter.schedule[t].stage.op.output(t.value_index)] for t in outputs])
    return function


def _bind_sizes(given: Mapping[Tensor, ir.Value]) -> None:
    """Let the symbols of the inputs' shapes stand for their extents, of which those like ``2*n + 1`` are told back."""
    bound: set[str] = set()
    places = [(e, value, axis) for t, value in given.items() for axis, e in enumerate(t.shape) if isinstance(e, Sym)]
    for extent, value, axis in sorted(places, key=lambda place: not place[0].is_symbol):
        found = as_multiple(extent)
        if found is not None and found[0] not in bound:
            name, factor, rest = found
            size = extents.dim(value, axis)
            if (factor, rest) != (1, 0):
                size = arith.divsi(arith.subi(size, loops.index(rest)), loops.index(factor))
            extents.bind(name, size)
            bound.add(name)
    for tensor in given:
        for extent in tensor.shape:
            for symbol in symbols_of(extent) - bound:
                raise ExpressionError(f"no input has '{symbol}' as an extent, which '{tensor.name}' computes with")


def _demand_sizes(given: Mapping[Tensor, ir.Value]) -> None:
    """Have a run refused whose inputs have extents that are not what their symbols say, as ``2*n``."""
    for tensor, value in given.items():
        for axis, extent in enumerate(tensor.shape):
            if isinstance(extent, Sym) and not extent.is_symbol:
                own = extents.fresh(extents.dim(value, axis), f"{tensor.name}.{axis}")
                extents.demand_equal(own, extent, f"has a size that does not fit, axis {axis} of '{tensor.name}'")


class _Emitter:
    """The ops of a schedule's stages."""

    def __init__(self, schedule: Schedule, grouped: bool = True, location: ir.Location | None = None) -> None:
        self.schedule, self.grouped, self.location = schedule, grouped, location
        self.values: dict[Tensor, ir.Value] = {}
        roots = [s for s in schedule.stages if not s.inline and s.at is None and isinstance(s.op, ComputeOp)]
        self.groups = {stage: number for number, stage in enumerate(roots)}

    def run(self, given: Mapping[Tensor, ir.Value]) -> dict[Tensor, ir.Value]:
        """What each tensor is, of those that are given."""
        self.values.update(given)
        for stage in self.schedule.stages:
            with self.location or ir.Location.name(stage.name):
                if not stage.inline and isinstance(stage.op, ComputeOp):
                    self.emit(stage, stage.op)
                elif isinstance(stage.op, ScanOp):
                    for number, value in enumerate(emit_scan(self.schedule, stage.op, self.values)):
                        self.values[stage.op.output(number)] = value
        return self.values

    def emit(self, stage: Stage, op: ComputeOp) -> None:
        """The structured op of one stage."""
        whole = op.shape
        if not self.grouped:
            op = self.copy_reads(stage, op)
        else:
            self.check_reads(stage, op)
        if stage.joined:
            op = self.join(stage, op)
        # The compiler's families make one result each, in vectors and with threads.
        made = self.emit_best(op) if not self.grouped else []
        if not made:
            parts = [op] if self.grouped else split_results(op)
            made = [value for part in parts for value in self.emit_part(stage, part)]
        for number, value in enumerate(made):
            stored = builders.reshape(value, whole) if stage.joined else value
            self.values |= {stage.op.output(number): stored, stage.origin.output(number): stored}

    def copy_reads(self, stage: Stage, op: ComputeOp) -> ComputeOp:
        """The op with what it reads again and again at computed places copied before; all that is read is checked."""
        found = copy_reads(op, OpBody(self.schedule, stage, op, self.values).is_operand)
        if not found.whole:
            self.check_reads(stage, op)
        for each in found.copies:
            if found.whole:
                self.check_reads(make_stage(each), each)
            self.emit_alone(each)
        if found.whole:
            self.check_reads(stage, found.op)
        return found.op

    def emit_best(self, op: ComputeOp) -> list[ir.Value]:
        """The results of an op that finds the best value and its place; none for another op."""
        ops, results = split_best(op)
        made = {each: self.emit_alone(each) for each in ops}
        return [made[each] for each in results]

    def emit_alone(self, op: ComputeOp) -> ir.Value:
        """The result of an op that no schedule has a stage of."""
        [value] = copy_results(OpBody(self.schedule, make_stage(op), op, self.values).emit(), op)
        self.values[op.output(0)] = value
        return value

    def emit_part(self, stage: Stage, op: ComputeOp) -> list[ir.Value]:
        """The structured op of one stage, or of one of its results, which it gives."""
        body = OpBody(self.schedule, stage, op, self.values)
        made = body.emit()
        ops = [made[0].owner.operation]
        ops[0].attributes[tw.STAGE] = ir.StringAttr.get(stage.name)
        if stage.reduces:
            ops += [value.owner.operation for value in list(ops[0].operands)[-len(made) :]]
        if stage.intrinsic is not None:
            self.note_calls(stage, body, ops)
        if stage.reduces and stage.at is None and not stage.automatic:
            made = store_results(made, op)
            ops.append(made[0].owner.operation)
            ops[-1].attributes[tw.STAGE] = ir.StringAttr.get(stage.name + STORE)
        elif any(builders.element_of(v) != element_type(t) for v, t in zip(made, op.dtypes, strict=True)):
            made = store_results(made, op)  # rounds sums
            ops.append(made[0].owner.operation)
        if self.grouped:
            self.mark(stage, ops, len(made))
        return made

    def mark(self, stage: Stage, ops: Sequence[ir.Operation], results: int) -> None:
        """Let ops, what an op begins with and the copy of its results included, be a kernel with what is computed in
        them, and note its schedule."""
        for each in ops:
            each.attributes[tw.GROUP] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), self.groups[root_of(stage)])
        if not stage.joined and (shape := tile_shape(self.schedule, stage)) is not None:
            for each in ops[: 1 + results * stage.reduces]:
                each.attributes[tw.TILE_SHAPE] = ir.DenseI64ArrayAttr.get(shape)
        if stage.at is None and not stage.automatic and 0 not in stage.op.shape:  # of nothing there are no loops
            ops[-1].attributes[tw.SCRIPT] = ir.StringAttr.get(make_script(self.schedule, stage))

    def note_calls(self, stage: Stage, body: OpBody, ops: Sequence[ir.Operation]) -> None:
        """Note the calls that a tile of an op is, and those that what it begins with is."""
        assert stage.intrinsic is not None
        var, intrinsic = stage.intrinsic
        match = match_intrinsic(self.schedule, stage, var, intrinsic)
        [op, *fills] = ops
        first = len(op.operands) - len(intrinsic.outputs)
        places = {tensor: first + number for number, tensor in enumerate(intrinsic.outputs)}
        places |= {tensor: body.operand_of(read) for tensor, read in match.reads.items()}
        text = calls_text(calls_of(intrinsic, match), intrinsic, match, places)
        op.attributes[tw.INTRINSIC] = ir.StringAttr.get(text)
        if fills and (resets := resets_of(intrinsic, match)):
            [fill] = fills
            text = calls_text(resets, intrinsic, match, {intrinsic.outputs[0]: len(fill.operands) - 1})
            fill.attributes[tw.INTRINSIC] = ir.StringAttr.get(text)

    def check_reads(self, stage: Stage, op: ComputeOp) -> None:
        """Have a run refused in which data leads outside of a tensor, where no condition says if that counts."""
        sources = [s for each in op.body for s in (each.sources if isinstance(each, Reduce) else (each,))]
        seen: set[tuple[object, ...]] = set()
        keys = ExprKeys()
        for read, guarded in (found for source in sources for found in each_read(source)):
            for number, (index, extent) in enumerate(pair_indices(read)):
                key = (read.tensor, number, keys.of(index))
                if guarded or key in seen or is_inside(index, extent):
                    continue
                seen.add(key)
                values = OpBody(self.schedule, stage, op, self.values).emit_index(index)
                positions.report_outside(
                    values, 0, extent, f"reads axis {number} of '{read.tensor.name}' outside of its {extent} elements"
                )

    def join(self, stage: Stage, op: ComputeOp) -> ComputeOp:
        """The op with the axes that were joined as one, of tensors that are seen so, too."""
        shape = tuple(axis.dom.extent for axis in stage.loop_axes if not axis.reduces)
        read = {key: self.join_read(stage, each) for key, each in ((id(r), r) for r in op.reads)}
        body = tuple(exchange_parts(each, lambda e: read.get(id(e))) for each in op.body)
        return ComputeOp(op.name, shape, op.dtypes, tuple(stage.loop_axes), body)

    def join_read(self, stage: Stage, read: Read) -> Read:
        """An element of a tensor whose axes are joined as those of the op that reads it."""
        indices, shape = list(read.indices), list(read.tensor.shape)
        for var, axes in stage.joined.items():
            begin = next((number for number, index in enumerate(indices) if index is axes[0]), None)
            if begin is not None:
                indices[begin : begin + len(axes)] = [var]
                shape[begin : begin + len(axes)] = [var.dom.extent]
        made = PlaceholderOp(read.tensor.name, tuple(shape), (read.dtype,)).output(0)
        self.values[made] = builders.reshape(self.values[read.tensor], shape)
        return Read(made, tuple(indices))


def make_stage(op: ComputeOp) -> Stage:
    """A stage of an op that no schedule has, which is left to the compiler."""
    stage = Stage(op, op, op.name, automatic=True)
    stage.reset()
    return stage
