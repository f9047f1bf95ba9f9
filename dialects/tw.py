"""The discardable attributes ``tw.*``: what frontends, passes and the planner note on ops for each other.

Each entry says which op has the attribute, of which type it is, what it means, and which modules write and read it.
``tests/unit/test_tw.py`` compares that with the code, and refuses literals of these names elsewhere.
"""

from __future__ import annotations

# Arguments of programs

NAME = "tw.name"
"""Argument, string: it is the model's input of this name.

Written by frontends/linalg/importer, frontends/onnx/importer, te/emit; read by passes/analysis/footprint.
"""

PARAM = "tw.param"
"""Argument, string: it is the weight of this name.

Written by frontends/linalg/importer, frontends/onnx/importer, passes/ir/signatures; read by passes/ir/signatures.
"""

# Programs

PREPARES = "tw.prepares"
"""Function, string: it computes the weight of this name when the program is built.

Written by passes/graph/split_prepare; read by passes/graph/share_kernels, passes/ir/edit, passes/pipeline.
"""

BODY = "tw.body"
"""Function and its calls, unit: a region of control flow, which the program runs in place of the call.

Written by passes/graph/outline_control, passes/ir/routine_ops; read by passes/ir/routine_ops.
"""

ARENA_BYTES = "tw.arena_bytes"
"""Function, integer: the bytes of its arena. For readers of the IR and tests.

Written by passes/graph/plan_memory.
"""

# Ops of programs

CONTROL = "tw.control"
"""``scf`` op, unit: the program runs it; it becomes no kernel.

Written by frontends/onnx/control/control_flow; read by passes/ir/routine_ops.
"""

OUTSIDE = "tw.outside"
"""Op that makes a word, string: what is wrong where the word is not 0, said of the node.

Written by dialects/positions; read by passes/graph/report_outside.
"""

REPORT = "tw.report"
"""Call of ``@tw.report``, string: the same text for a word that a kernel makes; the program refuses the run.

Written by passes/graph/report_outside; read by passes/graph/plan_memory, passes/ir/routine_ops, passes/plan_routine.
"""

OPERATOR = "tw.operator"
"""Call, string: the function that it calls, as text, whose ops have a schedule of a user's and become kernels of their
own.

Written by frontends/onnx/state/entry; read by passes/graph/outline, passes/ir/routine_ops.
"""

HOST = "tw.host"
"""Call, string: the function of the host that it calls (``runtime/steps/host.py``).

Written by frontends/onnx/state/entry; read by passes/ir/routine_ops, passes/plan_routine.
"""

ATTRIBUTES = "tw.attributes"
"""Call of a host function, string: the function's attributes as JSON.

Written by frontends/onnx/state/entry; read by passes/plan_routine.
"""

DTYPES = "tw.dtypes"
"""Call of a host function, string: the element types of its operands and results as JSON.

Written by frontends/onnx/state/entry; read by passes/plan_routine.
"""

CODEGEN = "tw.codegen"
"""Function without a body, string: the code generator of a user's that has made its code. Call of it, string: how
errors call its subgraph. The last result is a word that is not 0 where the code has failed.

Written by frontends/onnx/state/entry; read by passes/graph/report_outside, passes/ir/routine_ops,
passes/lower/lower_external.
"""

SYMBOL = "tw.symbol"
"""Such a function, string: the symbol of its code in an object that the program is linked with.

Written by frontends/onnx/state/entry; read by passes/lower/lower_external.
"""

EXTENTS = "tw.extents"
"""Such a function, array of integers: which of its sizes the code is handed, of the dynamic extents of the arguments
and then of the results.

Written by frontends/onnx/state/entry; read by passes/lower/lower_external.
"""

LIBRARY = "tw.library"
"""Such a function, string: the name of the function in a shared library, whose bytes lie at the symbol.

Written by frontends/onnx/state/entry; read by passes/lower/lower_external.
"""

BROADCAST = "tw.broadcast"
"""Structured op, unit: it repeats a tensor along the axes where that has one element, which only the run knows.

Written by dialects/broadcasting; read by passes/ir/broadcasts, passes/ir/slices.
"""

GROUP = "tw.group"
"""Structured op, integer: ops with equal numbers become one kernel.

Written by passes/graph/fuse_ops, te/emit; read by passes/graph/fuse_broadcasts, passes/graph/outline.
"""

NODES = "tw.nodes"
"""Call of a kernel, array of strings: the names of the model's nodes in it.

Written by frontends/onnx/state/entry, passes/graph/outline; read by passes/graph/plan_memory, passes/plan_routine.
"""

SLOTS = "tw.slots"
"""Call of a kernel, array of strings: where its arguments and results lie (``program.Slot``). For readers of the IR
and tests.

Written by passes/graph/plan_memory.
"""

OFFSETS = "tw.offsets"
"""Call of a kernel, array of integers: how many elements behind its begin each operand is read from.

Written by passes/graph/share_kernels; read by passes/ir/slices.
"""

STATE = "tw.state"
"""Argument of ``@main``, integer: the result that takes its place in the next run, and may be written over it. Call of
an append, integer: the number of the argument that it appends to.

Written by passes/sessions, passes/graph/keep_states; read by passes/graph/keep_states, passes/graph/plan_memory,
passes/graph/write_masked, passes/ir/edit, passes/ir/routine_ops, passes/pipeline, passes/plan_routine.
"""

OVER = "tw.over"
"""Call of a kernel, integer: the argument whose memory its result takes. Function, integer: the argument that always
lies where its result does, so that it has only to write what is new.

Written by passes/graph/plan_memory; read by passes/plan_routine, passes/schedule/scripts/given,
passes/schedule/tiling/destination_passing, passes/schedule/tiling/moves.
"""

# Kernels that are scheduled by a script

STAGE = "tw.stage"
"""Structured op, string: the name by which a script of the transform dialect finds it.

Written by te/emit, te/op_body, passes/schedule/scripts/scripted_nest, passes/schedule/tiling/values; read by te/script,
passes/schedule/scripts/nest_script, passes/schedule/scripts/scripted.
"""

SCRIPT = "tw.script"
"""Structured op, string: the transform module that makes the loops of its kernel. Function on buffers, string: the
sequence that has made its loops.

Written by te/emit, passes/schedule/scripts/given, passes/schedule/scripts/scripted,
passes/schedule/scripts/scripted_nest; read by passes/ir/kernel.
"""

INTRINSIC = "tw.intrinsic"
"""Structured op, string: the calls that a tile of it is, as JSON (``te/calls.py``).

Written by te/emit; read by passes/analysis/in_place, passes/lower/call_intrinsics, passes/schedule/scripts/scripted.
"""

TILE_SHAPE = "tw.tile_shape"
"""Structured op, array of integers: the most elements that its tiles have along each axis of its result.

Written by te/emit; read by passes/schedule/scripts/scripted.
"""

MEMORY = "tw.memory"
"""``tensor.empty``, integer: it is memory of its own. Equal ones would be merged, and what is written to them copied.

Written by passes/schedule/scripts/scripted.
"""

SHARED_LOOP = "tw.shared_loop"
"""Loop, unit: threads share its steps.

Written by dialects/loop_script, passes/schedule/scripts/forall; read by passes/schedule/scripts/counted_loops,
passes/schedule/scripts/given, passes/schedule/scripts/scripted.
"""

FORM = "tw.form"
"""Copy of a part of a kernel's result, dictionary: it is a tile, and is computed so (``TileForm``).

Written by passes/schedule/scripts/nest_script; read by passes/schedule/scripts/scripted_nest.
"""

# Kernels on tensors

RESULT_SIZES = "tw.result_sizes"
"""Function, integer: how many of its last arguments are the dynamic extents of its results.

Written by passes/graph/outline; read by passes/analysis/size_classes, passes/schedule/tiling/destination_passing.
"""

SUMMED = "tw.summed"
"""Function, or a call of it, array of integers: the open sizes that its ops sum along, as pairs of argument and axis.

Written by passes/analysis/summed, passes/graph/outline; read by passes/ir/kernel.
"""

SAME_SIZES = "tw.same_sizes"
"""Function, array of arrays of integers: the sizes that are equal, as pairs of argument and axis
(``verify/sizes.py``). All others may differ.

Written by passes/verify/sizes; read by passes/verify/sizes.
"""

IN_PLACE = "tw.in_place"
"""Function, array of integers: the arguments whose memory may also be the result's. Each element is read where it is
written.

Written by passes/ir/kernel; read by passes/ir/kernel, passes/lower/wrap_kernel.
"""

BLOCK = "tw.block"
"""Function, unit: it is a block of a kernel of open sizes, and another one calls it for parts of its steps.

Written by passes/schedule/dynamic/blocks; read by passes/schedule/families/columns and
passes/schedule/families/split_blocks.
"""

PART = "tw.part"
"""Function, unit: it stands for one op of a kernel of plain loops, whose nest lies among others.

Written by passes/schedule/tiling/part_nests; read by passes/schedule/families/split_blocks.
"""

COPIED = "tw.copied"
"""Function, unit: the columns of a product's right operand are a copy where it is read, which no schedule has to make.

Written by passes/schedule/dynamic/blocks and passes/schedule/dynamic/window_panels; read by passes/ir/kernel,
passes/schedule/families/column_panels.
"""

IMAGE_COLUMNS = "tw.image_columns"
"""Convolution, two integers: of what it reads, where the image begins along the last axis that windows move along, and
its extent there. What is stored before and after it is zeros.

Written by passes/graph/skip_padding; read by passes/schedule/tiling/reduction.
"""

OPEN_SUM = "tw.open_sum"
"""Function, unit: a block whose sums are of open length; it has the length of a chunk in place of that.

Written by passes/schedule/dynamic/blocks; read by passes/schedule/families/contraction,
passes/schedule/families/split_blocks.
"""

IN_PHASES = "tw.in_phases"
"""Function, unit: it reads a copied image of which even and odd columns lie apart.

Written by passes/schedule/dynamic/depthwise_strips; read by passes/ir/kernel, passes/schedule/families/window.
"""

ONE_OF_MANY = "tw.one_of_many"
"""Function, array of arrays of integers: the axes of each argument of which a block has one place, and the kernel many.
What lies before such an axis lies apart.

Written by passes/ir/kernel; read by passes/ir/kernel.
"""

FLUSH_DENORMALS = "tw.flush_denormals"
"""Function, unit: denormal numbers count as zero while the kernel runs.

Written by passes/lower/flush_denormals; read by passes/ir/kernel, passes/lower/wrap_kernel.
"""

LOSES_NAN = "tw.loses_nan"
"""Function, unit: a maximum of numbers, one of which is NaN, may be the maximum of the others.

Written by passes/lower/flush_denormals; read by passes/ir/kernel, passes/lower/extrema.
"""

AT_MOST_ONE = "tw.at_most_one"
"""Exponential, unit: it is at most 1, and zero may take the place of a denormal result.

Written by passes/lower/flush_denormals; read by passes/lower/expand_math.
"""

RARE = "tw.rare"
"""Function of libm, unit: its first operand is an ``arith.select``, and nobody reads its result where that chooses the
first of two.

Written by passes/lower/math/emit; read by passes/lower/rare_calls.
"""

# Kernels on buffers

SIZES = "tw.sizes"
"""Function, integer: how many sizes the kernel takes after its pointers.

Written by passes/lower/lower_external, passes/schedule/tiling/destination_passing; read by passes/ir/kernel,
passes/lower/prefetch_rows, passes/lower/wrap_kernel.
"""

SCHEDULE = "tw.schedule"
"""Function, string: the schedule as text. A function without one runs as plain loops.

Written by passes/schedule/apply_schedule; read by passes/ir/kernel, passes/lower/bufferize, passes/lower/order_stores,
passes/lower/wrap_kernel, dialects/codegen.
"""

PARTS = "tw.parts"
"""Function, string: the schedules, as text, of ops that have become nests in a kernel of plain loops. The tiles are
marked ``tw.tile``.

Written by passes/schedule/scripts/scripted, passes/schedule/tiling/plain_loops; read by passes/ir/kernel,
passes/lower/wrap_kernel, passes/schedule/vectorize.
"""

SCRIPTED = "tw.scripted"
"""Function, unit: a script has made its loops, each of which hands on what it was handed.

Written by passes/schedule/scripts/scripted; read by passes/lower/bufferize.
"""

REASON = "tw.reason"
"""Function, string: why a kernel has no schedule.

Written by passes/schedule/apply_schedule; read by passes/ir/kernel, passes/lower/wrap_kernel.
"""

TILE = "tw.tile"
"""Structured op of such a function, unit: it is a tile, which becomes vectors.

Written by passes/schedule/scripts/scripted, passes/schedule/tiling/part_nests, te/script; read by
passes/schedule/vectorize.
"""

SCHEDULE_JSON = "tw.schedule_json"
"""Function, string: the schedule as JSON, for ``Schedule.from_json``.

Written by passes/schedule/apply_schedule; read by passes/ir/kernel, passes/lower/wrap_kernel.
"""

EXTENT = "tw.extent"
"""Function, integer: the steps of the parallel axis.

Written by passes/lower/exchange_blocks, passes/lower/lower_external, passes/schedule/apply_schedule; read by
passes/ir/kernel, passes/lower/exchange_blocks, passes/lower/wrap_kernel.
"""

PARALLEL = "tw.parallel"
"""Function, unit: the work is worth more than one thread.

Written by passes/schedule/apply_schedule; read by passes/ir/kernel, passes/lower/exchange_blocks,
passes/lower/wrap_kernel.
"""

PARALLEL_FROM = "tw.parallel_from"
"""Function, integer: the elements of a dynamic result, each counted as often as the sizes of ``tw.summed`` say, from
which several threads are worth it.

Written by passes/schedule/apply_schedule; read by passes/ir/kernel, passes/lower/exchange_blocks,
passes/lower/wrap_kernel.
"""

STREAMED_FROM = "tw.streamed_from"
"""Function, integer: the same, if what its products read comes from beyond a core's caches: a weight, keys and values.

Written by passes/schedule/apply_schedule; read by passes/ir/kernel, passes/lower/exchange_blocks,
passes/lower/wrap_kernel.
"""

AHEAD = "tw.ahead"
"""Function, unit: each call computes something before its steps.

Written by passes/schedule/apply_schedule; read by passes/ir/kernel, passes/lower/wrap_kernel.
"""

EXCHANGE = "tw.exchange"
"""Structured op in a loop, integer: threads share its blocks, by so many steps of the kernel. Then loop around a nest,
unit: each thread makes its part of the blocks, and needs all of them behind it.

Written by passes/schedule/tiling/nest_loops, passes/schedule/tiling/shared_blocks; read by
passes/lower/exchange_blocks, passes/schedule/tiling/part_nests, passes/schedule/tiling/shared_blocks.
"""

EXCHANGES = "tw.exchanges"
"""Function, integer: its threads wait for each other behind so many loops: each makes one call, at the same time.

Written by passes/schedule/tiling/shared_blocks; read by passes/ir/kernel, passes/lower/exchange_blocks,
passes/lower/wrap_kernel.
"""

SCRATCH = "tw.scratch"
"""Function, integer: the bytes of scratch memory that it takes.

Written by passes/lower/lower_external, passes/lower/plan_scratch; read by passes/ir/kernel, passes/lower/wrap_kernel,
passes/pipeline.
"""

ASKS_SCRATCH = "tw.asks_scratch"
"""Function, unit: called with ``hi = -1`` the kernel writes how many bytes of scratch memory it needs.

Written by passes/lower/plan_scratch; read by passes/ir/kernel, passes/lower/wrap_kernel.
"""

ORDERED = "tw.ordered"
"""Function, an integer: vectors are stored into the result in the order of their places, by registers of so many bits.

Written by passes/lower/order_stores; read by passes/lower/order_stores.
"""

STREAMS = "tw.streams"
"""Function, unit: some stores bypass the caches, and need a result that begins at a cache line.

Written by passes/lower/stream_stores; read by passes/lower/prefetch_results, passes/lower/prefetch_rows,
passes/lower/wrap_kernel.
"""

SPLIT_PRODUCT = "tw.split_product"
"""Structured op in a tile, unit: its sums begin at zero, and are of the products of parts that a float32 has bits for.

Written by passes/schedule/tiling/split_products; read by passes/lower/multiply_matrices, passes/lower/split_ahead,
passes/schedule/vectorize.
"""

SPLIT_AHEAD = "tw.split_ahead"
"""Loop over the steps of a block of a weight that is split, unit: it may be done while another block is multiplied.

Written by passes/schedule/tiling/split_products; read by passes/lower/split_ahead.
"""

MATRIX_PRODUCT = "tw.matrix_product"
"""Structured op in a tile, integer: its products are added to sums that begin at zero in so many loops around it.

Written by passes/schedule/tiling/matrix_products; read by passes/lower/multiply_matrices, passes/schedule/vectorize.
"""

ROLE = "tw.role"
"""Structured op in a tile, string: ``contract`` and the form of its accumulators.

Written by passes/schedule/tiling/reduction; read by passes/schedule/vectorize.
"""

UNROLL = "tw.unroll"
"""Loop, integer: how many of its steps are taken at once.

Written by dialects/loop_script, passes/schedule/tiles/loops, passes/schedule/vectorize; read by
passes/lower/unroll_sums.
"""
