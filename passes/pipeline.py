"""The whole way from what a frontend makes to object code: two named lists of passes, and what runs them."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..core.breadcrumbs import step
from ..core.errors import CompileError, ScheduleError
from ..core.formula import Formula
from ..core.limits import ORDINARY, ModelLimits
from ..core.model import ELEMENTS, Model, TensorInfo, check_size
from ..core.program import Call, Kernel, Plan, Program, Routine
from ..core.states import State
from ..core.target import Target
from ..dialects import codegen, func, ir, transform, tw
from ..dialects.context import diagnostics, reused_context
from .analysis.cost import estimate_cost
from .analysis.formulas import find_formula
from .analysis.in_place import is_counting, is_insertion
from .analysis.signature import make_signature
from .graph.arrange_products import ArrangeProducts
from .graph.canonicalize_ops import CanonicalizeOps
from .graph.combine_parallel_conv2d import CombineParallelConv2d
from .graph.combine_parallel_dense import CombineParallelDense
from .graph.convert_layout import ConvertLayout
from .graph.dead_code import DeadCode
from .graph.divide_sums import DivideSums
from .graph.eliminate_common_subexpr import EliminateCommonSubexpr
from .graph.fold_quantization import FoldQuantization
from .graph.fold_scale_axis import FoldScaleAxis
from .graph.fold_transposes import FoldTransposes
from .graph.fuse_broadcasts import FuseBroadcasts
from .graph.fuse_ops import FuseOps
from .graph.generalize import Generalize
from .graph.group_heads import GroupHeads
from .graph.join_bytes import JoinBytes
from .graph.join_sums import JoinSums
from .graph.keep_packed import KeepPacked
from .graph.keep_states import KeepStates
from .graph.move_operands import MoveOperands
from .graph.narrow_products import NarrowProducts
from .graph.outline import Outline
from .graph.outline_control import OutlineControl
from .graph.pack_weights import PackWeights
from .graph.pad_rows import PadRows
from .graph.pad_sums import PadSums
from .graph.plan_memory import PlanMemory, check_arena, plan_calls
from .graph.recognize_composites import RecognizeComposites
from .graph.reparameterize_branches import ReparameterizeBranches
from .graph.report_outside import ReportOutside
from .graph.share_kernels import ShareKernels
from .graph.simplify_inference import SimplifyInference
from .graph.sink_views import SinkViews
from .graph.skip_padding import SkipPadding
from .graph.split_prepare import SplitPrepare
from .graph.split_strides import SplitStrides
from .graph.store_concat import StoreConcat
from .graph.store_padded import StorePadded
from .graph.tabulate_bytes import TabulateBytes
from .graph.widen_operands import WidenOperands
from .graph.winograd import Winograd
from .graph.write_masked import WriteMasked
from .infra.base import ModuleForm, Pass
from .infra.context import SCHEDULES, PassContext, check_context, snapshot
from .ir.edit import list_programs, needs_routine, string_attr
from .ir.facts import remembering_facts
from .ir.kernel import (
    describe_kernel,
    find_kernel,
    find_schedule_text,
    is_dynamic_kernel,
    is_generated,
    list_functions,
    symbol_of,
)
from .ir.signatures import list_attributes, list_params
from .lower.align_stack import AlignStack
from .lower.bufferize import Bufferize
from .lower.call_intrinsics import CallIntrinsics
from .lower.clamp_integers import ClampIntegers
from .lower.exchange_blocks import ExchangeBlocks
from .lower.expand_math import ExpandMath
from .lower.flush_denormals import FlushDenormals
from .lower.look_up_bytes import LookUpBytes
from .lower.look_up_numbers import LookUpNumbers
from .lower.lower_external import lower_external
from .lower.lower_to_llvm import LowerToLlvm
from .lower.lower_transfers import LowerTransfers
from .lower.multiply_bytes import MultiplyBytes
from .lower.multiply_matrices import MultiplyMatrices
from .lower.order_stores import OrderStores
from .lower.plan_scratch import PlanScratch
from .lower.prefetch_results import PrefetchResults
from .lower.prefetch_rows import PrefetchRows
from .lower.prefetch_weights import PrefetchWeights
from .lower.reduce_strength import ReduceStrength
from .lower.shuffle_gathers import ShuffleGathers
from .lower.stream_stores import StreamStores
from .lower.unroll_sums import UnrollSums
from .lower.wrap_kernel import WrapKernel
from .normalize.convert_tm_tensor import ConvertTmTensor
from .normalize.crop_pads import CropPads
from .normalize.drop_asserts import DropAsserts
from .normalize.drop_unused_results import DropUnusedResults
from .normalize.expand_powers import ExpandPowers
from .normalize.fold_scalars import FoldScalars
from .normalize.hold_inside import HoldInside
from .normalize.raise_minmax import RaiseMinmax
from .normalize.squeeze_reductions import SqueezeReductions
from .normalize.start_at_zero import StartAtZero
from .normalize.store_bools import StoreBools
from .normalize.widen_floats import WidenFloats
from .normalize.wrap_narrow_integers import WrapNarrowIntegers
from .plan_routine import plan_routine
from .schedule.apply_schedule import ApplySchedule
from .schedule.arrange_sums import ArrangeSums
from .schedule.collapse_loops import CollapseLoops
from .schedule.families.table import list_others
from .schedule.join_pixels import JoinPixels
from .schedule.language import by_hand
from .schedule.language.by_hand import GivenSchedule
from .schedule.language.schedule import Schedule
from .schedule.separate_windows import SeparateWindows
from .schedule.vectorize import Vectorize
from .verify.forms import is_after_each_pass, is_enabled, verify
from .verify.plans import verify_plan
from .verify.sizes import stated_sizes

EMIT = "emit-object"  # what instruments call code generation
# Why a kernel has no vectors.
ENDLESS = "upstream's patterns found no end in its vectors"


def normalize_passes() -> tuple[Pass, ...]:
    """The passes that bring linalg of another compiler to the rules of ``@main``."""
    return (
        ConvertTmTensor(),  # ops of a dialect that only torch-mlir has; what follows sees linalg alone
        DropAsserts(),  # checks of sizes that the program makes itself
        HoldInside(),  # reads at computed places, before they can be moved or merged
        ReportOutside(),  # before ops without readers go, for their operands are checked too
        CropPads(),  # before upstream folds a padding by amounts that cancel
        Generalize(),  # the rest looks at generics
        StoreBools(),
        DropUnusedResults(),
        SqueezeReductions(),
        WidenFloats(),  # bodies compute in f32
        WrapNarrowIntegers(),
        FoldScalars(),
        ExpandPowers(),
        RaiseMinmax(),
        StartAtZero(),  # last: what is recognized as a contraction starts at zero
    )


def graph_passes(target: Target, opt_level: int = 3) -> tuple[Pass, ...]:
    """The passes on ``@main``, from what a frontend makes to calls of kernels."""
    return (
        ReportOutside(),  # first: checks hold for all nodes of the model, also for those that are optimised away
        KeepStates(),  # before anything looks at how states and what is put behind them are laid out
        WriteMasked(),  # while what chooses elements of a state is an op of its own
        OutlineControl(),  # regions become functions, which all that follows rewrites like ``@main``
        Generalize(),
        SimplifyInference(),
        CanonicalizeOps(),  # what the import makes of shapes and transposes, before patterns are looked for
        EliminateCommonSubexpr(),
        DeadCode(),
        FoldQuantization(),  # before composites: dequantized operands hide products
        KeepPacked(),
        RecognizeComposites(),  # before scales move, which would break the patterns
        FoldScaleAxis(),  # before products are combined and weights change their layout
        ReparameterizeBranches(),  # after scales are in the weights, and before branches are combined side by side
        GroupHeads(),  # after composites, which look for heads as models write them, and before products are rewritten
        NarrowProducts(target=target),  # before products are combined, of whose operands views and joins are made
        CombineParallelConv2d(target=target),
        CombineParallelDense(target=target),
        ArrangeProducts(),  # after products are combined, whose weights still have one order
        WidenOperands(
            target=target
        ),  # after products have their left operands, and before layouts: one op converts and moves
        ConvertLayout(target=target),
        CanonicalizeOps(),  # again: the transposes and slices that layouts and combined products leave
        EliminateCommonSubexpr(),  # again: equal conversions of layout
        Winograd(target=target),  # in the layout that is final
        SplitStrides(),  # likewise; and before weights are computed with
        FoldTransposes(),
        MoveOperands(),  # after what folds the copies that it makes
        DivideSums(target=target),  # after whatever else makes products
        JoinBytes(),  # after what folds transposes
        PadSums(target=target),  # before weights are packed
        PackWeights(target=target),  # after all passes that change a weight
        TabulateBytes(target=target),  # before what is computed ahead of time
        SplitPrepare(),  # after all passes that compute with weights alone
        JoinSums(),
        SinkViews(),  # before fusion, which a view between two ops ends
        PadRows(target=target),
        SkipPadding(target=target),
        StoreConcat(),
        StorePadded(),  # the last that changes what a kernel writes
        FuseOps(fuse_opt_level=opt_level, target=target),
        FuseBroadcasts(),  # when it is known which kernels map elements alone
        Outline(),
        ShareKernels(),  # of kernels that stand alone
        PlanMemory(),  # of calls, whose operands and results are all that is left
    )


def scheduled_passes() -> tuple[Pass, ...]:
    """The passes on a ``@main`` whose kernels and schedules a user has chosen."""
    return (ReportOutside(), Outline(), PlanMemory())


def kernel_passes(target: Target, plain: bool = False, schedule: GivenSchedule | None = None) -> tuple[Pass, ...]:
    """The passes on one kernel, from tensors to the LLVM dialect.

    ``plain`` ones give loops without a schedule, others the family's or the one that is given.
    """
    return (
        FlushDenormals(),  # the first four see bodies of scalars, before they are vectors
        ReduceStrength(),
        ExpandMath(target=target),
        ClampIntegers(target=target),
        CollapseLoops(),  # fewer axes for the schedule
        JoinPixels(target=target),
        SeparateWindows(),  # what a schedule stages
        ArrangeSums(),
        ApplySchedule(target=target, plain=plain, schedule=schedule),
        Vectorize(),
        Bufferize(),
        ExchangeBlocks(arch=target.arch),  # while a loop's blocks are written by few ops
        CallIntrinsics(),  # operands are pointers now
        MultiplyMatrices(),  # likewise
        MultiplyBytes(target=target),  # while a word of a row is still spread by one op
        LowerTransfers(),
        ShuffleGathers(target=target),
        LookUpBytes(target=target),
        LookUpNumbers(target=target),
        UnrollSums(),
        PrefetchWeights(target=target),
        StreamStores(target=target),
        PrefetchRows(),
        PrefetchResults(target=target),
        OrderStores(target=target),  # after the last pass that looks at stores of whole vectors
        PlanScratch(),  # after the last pass that allocates
        AlignStack(target=target),  # while loops are loops
        LowerToLlvm(arch=target.arch),
        WrapKernel(arch=target.arch),
    )


_ANY = Target.parse("x86 -mcpu=x86-64-v3")
# All passes by their names on the command line. One thing has one name in four places: passes/graph/fuse_ops.py,
# `fuse-ops`, tests/lit/graph/fuse_ops.mlir, and a row above.
PASSES: dict[str, type[Pass]] = {
    stage.name: type(stage) for stage in (*normalize_passes(), *graph_passes(_ANY), *kernel_passes(_ANY))
}


def normalize_model(model: Model, context: PassContext) -> Model:
    """The model by the rules of ``@main``: itself where it keeps to them."""
    if model.legal:
        return model
    check_context(context, PASSES)
    with model.module.context, ir.Location.unknown():
        module = clone_module(model.module)
        _run_passes(normalize_passes(), module, context, ModuleForm.FOREIGN)
    return replace(model, module=module, legal=True)


def plan(model: Model, target: Target, context: PassContext | None = None, limits: ModelLimits = ORDINARY) -> Plan:
    """Run the graph passes on a copy of the model's module.

    Returns programs as plain data and the kernels as bytecode of one-function modules. Raises CompileError that names
    the pass and the model's node for what cannot be compiled, and ModelError where an input, an output or a
    program needs more memory than the limits allow.
    """
    context = context or PassContext.current()
    check_context(context, PASSES)
    for role, infos in (("input", model.inputs), ("output", model.outputs)):
        for info in infos:
            check_size(info.shape, info.dtype, f"{role} '{info.name}'", limits)
    model = normalize_model(model, context)
    with model.module.context, ir.Location.unknown():
        module = clone_module(model.module)
        with context:
            passes = scheduled_passes() if model.scheduled else graph_passes(target, context.opt_level)
            _run_passes(passes, module, context, ModuleForm.MAIN)
        with step("planning"), diagnostics("planning"):
            functions = {string_attr(f.attributes, "sym_name"): f for f in list_programs(module)}
            if "main" not in functions:
                raise CompileError("the module has no function '@main'; a frontend must make one")
            prepared = {string_attr(f.attributes, tw.PREPARES): f for f in functions.values()}
            prepared = {name: f for name, f in prepared.items() if name is not None}
            infos = {name: _info(name, f.type.results[0]) for name, f in prepared.items()}
            most = limits.program_bytes
            main = _program(functions["main"], model, infos, model.inputs, model.outputs, most)
            prepare = {name: _program(f, model, {}, (), (infos[name],), most) for name, f in prepared.items()}
            called = {call.kernel for program in (main, *prepare.values()) for call in program.calls}
            made = Plan(main, prepare, _kernels(module, called), formulas=_formulas(module, prepare))
            if is_enabled():
                verify_plan(made)
            return made


def lower_kernel(bytecode: bytes, target: Target, context: PassContext) -> tuple[ir.Module, Kernel]:
    """Lower a kernel's module to the LLVM dialect; returns it, and the kernel's description without the object.

    A kernel whose vectors upstream's patterns rewrite without end runs as plain loops, and its note says so. Raises
    CompileError that names the pass and the model's node for what cannot be compiled, and ScheduleError for a schedule
    that the context's config gives for it and that cannot be carried out.
    """
    module, note = ir.Module.parse(bytecode), ""
    if is_generated(module):
        return lower_external(find_kernel(module), target)
    stated = [_describe(function) for function in list_functions(module)]
    asked = _find_asked(module, context)
    try:
        _run_passes(kernel_passes(target, schedule=asked), module, context, ModuleForm.TENSORS)
    except transform.EndlessRewriteError as error:
        if asked:
            raise ScheduleError(f"the schedule cannot be carried out: {ENDLESS}; other tiles may do") from error
        note = f"runs as plain loops, which is slow: {ENDLESS}"
        module = ir.Module.parse(bytecode)
        _run_passes(kernel_passes(target, plain=True), module, context, ModuleForm.TENSORS)
    wrapped = [describe_kernel(op) for op in module.body.operations if tw.SCRATCH in op.attributes]
    if len(wrapped) != 1:
        raise CompileError(f"a kernel module has one function, this one has {len(wrapped)}")
    return module, replace(wrapped[0], note=note, **stated[0])


def _find_asked(module: ir.Module, context: PassContext) -> GivenSchedule | None:
    """The schedule that the context's config has for the kernel of a module."""
    names = map(symbol_of, list_functions(module)) if SCHEDULES in context.config else ()
    return next((by_hand.find_schedule(context.config, name) for name in names), None)


def describe_schedule(bytecode: bytes, target: Target, context: PassContext) -> str:
    """The schedule of a kernel as text: its sequence of the transform dialect, or loops as comments; why it has none.

    Sequences have the names of their kernels, so that those of several kernels make one module.
    """
    with reused_context(), ir.Location.unknown():
        module = ir.Module.parse(bytecode)
        if is_generated(module):
            return "//   made by a code generator of the user's"
        text = find_schedule_text(_schedule_kernel(module, target, context))
    return text if text.startswith(transform.SEQUENCE) else "\n".join(f"//   {line}" for line in text.splitlines())


def describe_loops(bytecode: bytes, target: Target, context: PassContext) -> Kernel:
    """A kernel as far as its loops are chosen: what ``compile_kernel`` says of it, without code and scratch memory."""
    with reused_context(), ir.Location.unknown():
        module = ir.Module.parse(bytecode)
        if is_generated(module):
            return lower_external(find_kernel(module), target)[1]
        [stated] = [_describe(function) for function in list_functions(module)]
        return replace(describe_kernel(_schedule_kernel(module, target, context)), **stated)


def describe_forms(bytecode: bytes, target: Target, context: PassContext) -> tuple[Kernel, list[Schedule]]:
    """What ``describe_loops`` says of a kernel, and schedules of other kinds that it may have (``Family.forms``)."""
    others: list[Schedule] = []
    with reused_context(), ir.Location.unknown():
        module = ir.Module.parse(bytecode)
        if is_generated(module):
            return lower_external(find_kernel(module), target)[1], others
        [stated] = [_describe(function) for function in list_functions(module)]
        return replace(describe_kernel(_schedule_kernel(module, target, context, others)), **stated), others


def _schedule_kernel(
    module: ir.Module, target: Target, context: PassContext, others: list[Schedule] | None = None
) -> func.FuncOp:
    """The kernel of a module, which the passes until ``apply-schedule`` have changed.

    Schedules of other kinds, which that might have taken, are added to ``others``.
    """
    passes = kernel_passes(target, schedule=_find_asked(module, context))
    until = next(number for number, stage in enumerate(passes) if isinstance(stage, ApplySchedule))
    _run_passes(passes[:until], module, context, ModuleForm.TENSORS)
    if others is not None and not any(map(is_dynamic_kernel, list_functions(module))):
        with remembering_facts():
            others += [other for function in list_functions(module) for other in list_others(function, target)]
    _run_passes(passes[until : until + 1], module, context, ModuleForm.TENSORS)
    return list_functions(module)[0]


def _describe(function: func.FuncOp) -> dict[str, Any]:
    """What a kernel on tensors says of itself before it is lowered: fields of ``Kernel``."""
    cost = estimate_cost(function)
    return {
        "flops": cost.flops,
        "bytes": cost.bytes,
        "signature": make_signature(function),
        "same_sizes": stated_sizes(function),
        "inserts": is_insertion(function),
        "counts": is_counting(function),
    }


def compile_kernel(bytecode: bytes, target: Target, context: PassContext) -> Kernel:
    """Compile the one function of a kernel module to an object."""
    with reused_context(), ir.Location.unknown():
        module, kernel = lower_kernel(bytecode, target, context)
        level = context.opt_level
        with (
            step(f"step '{EMIT}'", lambda: snapshot(module, EMIT, level, target=target, emit="obj")),
            context.timing_stage(EMIT),
        ):
            return replace(kernel, object=codegen.emit_code(module, target, "obj", level))


def _run_passes(passes: tuple[Pass, ...], module: ir.Module, context: PassContext, form: ModuleForm) -> None:
    """Run passes on a module that is in a ``form``; where that is asked for, verify the forms."""
    checked, each = is_enabled(), is_after_each_pass()
    if checked:
        verify(form, module, "what the passes begin with")
    with context, remembering_facts():
        for stage in passes:
            runs = checked and context.is_enabled(stage)
            if runs and not each and stage.form is not None:
                verify(form, module, f"a pass before '{stage.name}'")
            context.run(stage, module)
            form = (runs and stage.form) or form
            if runs and each:
                verify(form, module, f"pass '{stage.name}'")
        if checked and not each:
            verify(form, module, "one of the last passes")


def clone_module(module: ir.Module) -> ir.Module:
    """A copy of a module, with its locations."""
    return ir.Module.parse(to_bytecode(module.operation))


def to_bytecode(op: ir.Operation) -> bytes:
    """An op as bytecode, with its locations."""
    buffer = io.BytesIO()
    op.write_bytecode(buffer)
    return buffer.getvalue()


def _program(
    function: func.FuncOp,
    model: Model,
    prepared: dict[str, TensorInfo],
    inputs: tuple[TensorInfo, ...],
    outputs: tuple[TensorInfo, ...],
    most: int,
) -> Program:
    """The program of an outlined function, whose arena may have ``most`` bytes."""
    routine = plan_routine(function) if needs_routine(function) else None
    calls, arena_bytes, reports = plan_calls(function) if routine is None else (_calls(routine), 0, ())
    check_arena(function, arena_bytes, most, model.name)
    names = list_params(function).values()
    params = tuple(prepared[n] if n in prepared else model.params[n].info for n in names)
    return Program(inputs, outputs, params, calls, arena_bytes, routine, reports, _list_states(function))


def _list_states(function: func.FuncOp) -> tuple[State, ...]:
    """The states that a program is marked to write over where they lie."""
    arguments = enumerate(list_attributes(function))
    return tuple(State(n, ir.IntegerAttr(each[tw.STATE]).value) for n, each in arguments if tw.STATE in each)


def _calls(routine: Routine) -> tuple[Call, ...]:
    """The kernels that a routine calls, each time that it is written there."""
    return tuple(Call(s.facts["kernel"], (), s.nodes) for s in routine.walk() if s.op == "func.call")


def _info(name: str, type_: ir.Type) -> TensorInfo:
    tensor = ir.RankedTensorType(type_)
    return TensorInfo(name, tuple(tensor.shape), ELEMENTS[str(tensor.element_type)])


def _formulas(module: ir.Module, prepare: Mapping[str, Program]) -> dict[str, Formula]:
    """What kernels compute that only weights are prepared with."""
    names = {call.kernel for program in prepare.values() for call in program.calls}
    found = {symbol_of(f): find_formula(f) for f in list_functions(module) if symbol_of(f) in names}
    return {name: formula for name, formula in found.items() if formula is not None}


def _kernels(module: ir.Module, names: set[str]) -> dict[str, bytes]:
    """Each kernel as a module of its own, whose one function is public."""
    kernels: dict[str, bytes] = {}
    for op in module.body.operations:
        name = string_attr(op.operation.attributes, "sym_name")
        if name is None or name not in names:
            continue
        with op.operation.location:
            own = ir.Module.create()
        with ir.InsertionPoint(own.body):
            copy = op.operation.clone()
        if not (isinstance(op, func.FuncOp) and op.is_external):  # whose declaration has to be private
            del copy.attributes["sym_visibility"]
        kernels[name] = to_bytecode(own.operation)
    return kernels
