"""The one list of passes by command-line name.

One thing has one name in four places: passes/graph/fuse_ops.py, `fuse-ops`, tests/lit/graph/fuse_ops.mlir, and here.
"""

from __future__ import annotations

from .graph.canonicalize_ops import CanonicalizeOps
from .graph.combine_parallel_conv2d import CombineParallelConv2d
from .graph.combine_parallel_dense import CombineParallelDense
from .graph.convert_layout import ConvertLayout
from .graph.dead_code import DeadCode
from .graph.eliminate_common_subexpr import EliminateCommonSubexpr
from .graph.fold_quantization import FoldQuantization
from .graph.fold_scale_axis import FoldScaleAxis
from .graph.fold_transposes import FoldTransposes
from .graph.fuse_ops import FuseOps
from .graph.generalize import Generalize
from .graph.join_sums import JoinSums
from .graph.keep_packed import KeepPacked
from .graph.outline import Outline
from .graph.outline_control import OutlineControl
from .graph.pack_weights import PackWeights
from .graph.pad_rows import PadRows
from .graph.plan_memory import PlanMemory
from .graph.recognize_composites import RecognizeComposites
from .graph.report_outside import ReportOutside
from .graph.simplify_inference import SimplifyInference
from .graph.sink_views import SinkViews
from .graph.split_prepare import SplitPrepare
from .graph.store_concat import StoreConcat
from .graph.store_padded import StorePadded
from .graph.winograd import Winograd
from .infra import Pass
from .legalize.convert_tm_tensor import ConvertTmTensor
from .legalize.crop_pads import CropPads
from .legalize.drop_asserts import DropAsserts
from .legalize.drop_unused_results import DropUnusedResults
from .legalize.expand_powers import ExpandPowers
from .legalize.fold_scalars import FoldScalars
from .legalize.hold_inside import HoldInside
from .legalize.raise_minmax import RaiseMinmax
from .legalize.squeeze_reductions import SqueezeReductions
from .legalize.start_at_zero import StartAtZero
from .legalize.store_bools import StoreBools
from .legalize.widen_floats import WidenFloats
from .lower.bufferize import Bufferize
from .lower.expand_math import ExpandMath
from .lower.flush_denormals import FlushDenormals
from .lower.lower_to_llvm import LowerToLlvm
from .lower.lower_transfers import LowerTransfers
from .lower.plan_scratch import PlanScratch
from .lower.prefetch_rows import PrefetchRows
from .lower.prefetch_weights import PrefetchWeights
from .lower.reduce_strength import ReduceStrength
from .lower.stream_stores import StreamStores
from .lower.unroll_sums import UnrollSums
from .lower.wrap_kernel import WrapKernel
from .schedule.apply_schedule import ApplySchedule
from .schedule.collapse_loops import CollapseLoops
from .schedule.vectorize import Vectorize

_ALL: tuple[type[Pass], ...] = (
    ConvertTmTensor,
    DropAsserts,
    HoldInside,
    CropPads,
    StoreBools,
    DropUnusedResults,
    SqueezeReductions,
    WidenFloats,
    FoldScalars,
    ExpandPowers,
    RaiseMinmax,
    StartAtZero,
    ReportOutside,
    OutlineControl,
    Generalize,
    SimplifyInference,
    CanonicalizeOps,
    EliminateCommonSubexpr,
    DeadCode,
    FoldQuantization,
    KeepPacked,
    RecognizeComposites,
    FoldScaleAxis,
    CombineParallelConv2d,
    CombineParallelDense,
    ConvertLayout,
    Winograd,
    FoldTransposes,
    PackWeights,
    SplitPrepare,
    JoinSums,
    SinkViews,
    PadRows,
    StoreConcat,
    StorePadded,
    FuseOps,
    Outline,
    PlanMemory,
    FlushDenormals,
    ReduceStrength,
    ExpandMath,
    CollapseLoops,
    ApplySchedule,
    Vectorize,
    Bufferize,
    LowerTransfers,
    UnrollSums,
    PrefetchWeights,
    StreamStores,
    PrefetchRows,
    PlanScratch,
    LowerToLlvm,
    WrapKernel,
)
PASSES: dict[str, type[Pass]] = {cls.name: cls for cls in _ALL}
