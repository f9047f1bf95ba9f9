"""Kernels that write their result over an operand give what they give elsewhere, bit for bit, in any number of chunks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import networks
import numpy as np
import onnx.parser
import pytest
from cpu_targets import FOR_THIS_MACHINE
from kernel_runner import TARGET, CompiledKernel, CompiledPlan, aligned, schedule_text
from samples import campaign

import tilewright as tw
from tilewright.core.model import Model
from tilewright.core.program import Call, Plan
from tilewright.core.sizes import require_static
from tilewright.core.target import detect_host
from tilewright.dialects import builders, ir, scalars
from tilewright.dialects import math as math_ops
from tilewright.dialects import tw as tw_attributes
from tilewright.dialects.context import make_context
from tilewright.driver import api
from tilewright.passes import pipeline
from tilewright.passes.graph.winograd import Winograd
from tilewright.passes.infra.context import PassContext
from tilewright.passes.ir.kernel import in_place, list_functions
from tilewright.passes.ir.structure import list_ops
from tilewright.passes.schedule.language.schedule import Schedule
from tilewright.passes.schedule.tiling.tiler import may_repeat

RNG = np.random.default_rng(0)
CHUNKS = (1, 2, 3, 7)


def elementwise(body: Callable[..., ir.Value], *values: ir.Value) -> ir.Value:
    return builders.elementwise(lambda *a: body(*a), *values, elem=ir.F32Type.get())


def add(a: ir.Value, b: ir.Value) -> ir.Value:
    return elementwise(scalars.add, a, b)


def relu(x: ir.Value) -> ir.Value:
    return elementwise(lambda a: scalars.maximum(a, scalars.like(a, 0.0)), x)


def dense(rows: int, columns: int, inner: int) -> Model:
    """A product whose epilogue adds a product that nobody else reads any more."""

    def body(x: ir.Value, w: ir.Value, v: ir.Value, u: ir.Value, b: ir.Value) -> ir.Value:
        residual = builders.contract("mk,kn->mn", x, w)
        hidden = relu(builders.contract("mk,kn->mn", relu(residual), v))
        made = relu(add(add(builders.contract("mk,kn->mn", hidden, u), b), residual))
        return builders.contract("mk,nk->mn", made, made)

    weights = {"w": (8, columns), "v": (columns, inner), "u": (inner, columns), "b": (columns,)}
    return networks.build(body, {"x": (rows, 8)}, weights)


def convolutions(channels: int, size: tuple[int, int], window: int, stride: int, images: int = 1) -> Model:
    """A convolution of another's result, whose epilogue adds what follows a third; without paddings."""

    def body(x: ir.Value, w: ir.Value, v: ir.Value, u: ir.Value, t: ir.Value) -> ir.Value:
        y = relu(builders.conv(x, w, (1, 1), (1, 1)))
        residual = relu(builders.conv(y, v, (stride, stride), (1, 1)))
        hidden = builders.conv(y, u, (stride, stride), (1, 1))
        return builders.conv(relu(add(hidden, residual)), t, (1, 1), (1, 1))

    whole = (channels, channels, window, window)
    weights = {"w": (channels, 3, 1, 1), "v": whole, "u": whole, "t": (3, channels, 1, 1)}
    return networks.build(body, {"x": (images, 3, *size)}, weights)


def gated_softmax(rows: int, columns: int) -> Model:
    """Whole rows, of which a gate is read by the last op alone."""

    def body(x: ir.Value, w: ir.Value, v: ir.Value) -> ir.Value:
        gate = builders.contract("mk,kn->mn", x, w)
        scores = builders.contract("mk,kn->mn", relu(x), v)
        top = builders.reshape(builders.reduce(scalars.maximum, -np.inf, scores, (-1,)), (rows, 1))
        powers = elementwise(lambda a, m: math_ops.exp(scalars.sub(a, m)), scores, top)
        total = builders.reshape(builders.reduce(scalars.add, 0.0, powers, (-1,)), (rows, 1))
        made = elementwise(lambda p, s, g: scalars.mul(scalars.div(p, s), g), powers, total, gate)
        return builders.contract("mk,nk->mn", made, made)

    return networks.build(body, {"x": (rows, 8)}, {"w": (8, columns), "v": (8, columns)})


def broadcasts(rows: int, columns: int) -> Model:
    """An elementwise kernel of two operands that die, one of which every row reads."""

    def body(x: ir.Value, y: ir.Value, w: ir.Value) -> ir.Value:
        wide = builders.contract("mk,kn->mn", x, w)
        row = builders.contract("mk,kn->mn", y, wide)  # a sum of its rows would share a kernel with what reads it
        made = add(wide, row)
        return builders.contract("mk,nk->mn", made, made)

    return networks.build(body, {"x": (rows, 8), "y": (1, rows)}, {"w": (8, columns)})


def pieces(first: int, second: int, size: tuple[int, int], window: int) -> Model:
    """A concat of two convolutions' channels, the second of which is inserted beside the first."""

    def body(x: ir.Value, w: ir.Value, v: ir.Value, u: ir.Value) -> ir.Value:
        border = (window - 1) // 2
        inside = builders.slice_(x, (0, 0, border, border), (1, 8, *size))
        made = [relu(builders.conv(inside, w, (1, 1), (1, 1))), relu(builders.conv(x, v, (1, 1), (1, 1)))]
        return builders.conv(builders.concat(made, 1), u, (1, 1), (1, 1))

    weights = {"w": (first, 8, 1, 1), "v": (second, 8, window, window), "u": (4, first + second, 1, 1)}
    return networks.build(body, {"x": (1, 8, *(n + window - 1 for n in size))}, weights)


MODELS: dict[str, Callable[[], Model]] = {
    "dense, whole tiles": lambda: dense(32, 64, 16),
    "dense, rests": lambda: dense(29, 71, 9),
    "dense, one row": lambda: dense(1, 40, 16),
    "dense, one column": lambda: dense(5, 1, 16),
    "1x1": lambda: convolutions(32, (9, 7), 1, 1),
    "1x1 with stride, two images": lambda: convolutions(24, (9, 14), 1, 2, 2),
    "3x3": lambda: convolutions(6, (9, 12), 3, 1),
    "3x3 by Winograd": lambda: convolutions(40, (15, 12), 3, 1),
    "rows": lambda: gated_softmax(5, 300),
    "short rows": lambda: gated_softmax(7, 33),
    "rows side by side, rests": lambda: gated_softmax(37, 5),
    "pieces": lambda: pieces(32, 64, (9, 7), 1),
    "odd pieces": lambda: pieces(5, 19, (4, 15), 3),
    "pieces by Winograd": lambda: pieces(24, 40, (9, 14), 3),
    "elementwise": lambda: broadcasts(13, 37),
}


def planned(name: str) -> Plan:
    """The model's plan; the convolutions of some are transformed whether it pays or not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "Winograd", partial(Winograd, "Winograd" in name))
        return pipeline.plan(MODELS[name](), TARGET.get(detect_host()), PassContext())


def calls_in_place(plan: Plan) -> list[Call]:
    return [c for c in plan.main.calls if c.args[-1].space == "arena" and c.args[-1] in c.args[:-1]]


def check(kernel: CompiledKernel, shapes: Sequence[Sequence[int]], result: Sequence[int], over: Sequence[int]) -> None:
    """Compare the kernel's result over each operand that it may lie over with the one in memory of its own."""
    arrays = [RNG.standard_normal(shape).astype(np.float32) for shape in shapes]
    want = kernel(arrays, np.empty(result, np.float32))
    for operand in over:
        for chunks in {min(chunks, kernel.kernel.extent) for chunks in CHUNKS}:
            mine = [aligned(array) for array in arrays]
            kernel.call([array.ctypes.data for array in (*mine, mine[operand])], chunks)
            np.testing.assert_array_equal(mine[operand], want)
            for i, (array, before) in enumerate(zip(mine, arrays, strict=True)):
                assert i == operand or np.array_equal(array, before), f"operand {i} has changed"


@campaign(
    "dense, whole tiles",
    "dense, one row",
    "1x1 with stride, two images",
    "3x3 by Winograd",
    "short rows",
    "rows side by side, rests",
    "odd pieces",
    "pieces by Winograd",
    "elementwise",
)
@pytest.mark.parametrize("name", MODELS)
def test_a_result_over_an_operand_is_the_one_elsewhere(name: str) -> None:
    with make_context(), ir.Location.unknown():
        plan = planned(name)
        [kernel] = dict.fromkeys(call.kernel for call in calls_in_place(plan))
        module = ir.Module.parse(plan.kernels[kernel])
        [function] = list_functions(module)
        shapes = [ir.RankedTensorType(t).shape for t in (*function.type.inputs, *function.type.results)]
        over = in_place(function)
        made = CompiledKernel(plan.kernels[kernel], kernel)
    assert over
    assert made.kernel.schedule, "plain loops in place of a schedule"
    assert ("stage" in made.kernel.schedule) == ("Winograd" in name)
    check(made, shapes[:-1], shapes[-1], over)


@pytest.mark.parametrize("at", ["", "m.0", "n.0"])
def test_a_schedule_by_hand_copies_the_operand_before_it_is_written_over(at: str) -> None:
    """Also where each chunk copies all of it, and its own part last."""
    with make_context(), ir.Location.unknown():
        plan = planned("dense, rests")
        [name] = dict.fromkeys(call.kernel for call in calls_in_place(plan))
        module = ir.Module.parse(plan.kernels[name])
        [over] = in_place(list_functions(module)[0])
        text = CompiledKernel(plan.kernels[name], name).kernel.schedule_json
        made = Schedule.start(Schedule.from_json(text).values)
        [block] = made.result.value.packed
        made = made.split("m", 4).split("n", block.size).reorder("m.0", "n.0", "m.1", "k", "n.1").vectorize("n.1")
        made = made.pack(block.argument, block.axis, block.size).parallel("m.0").cache_read(f"%arg{over}", at)
        kernel = CompiledKernel(plan.kernels[name], name, made)
        types = (*list_functions(module)[0].type.inputs, *list_functions(module)[0].type.results)
        *shapes, result = (ir.RankedTensorType(kind).shape for kind in types)
    check(kernel, shapes, result, [over])


@pytest.mark.shares_kernels  # the plan is what it patches
@pytest.mark.parametrize("name", ["dense, rests", "3x3", "rows"])
def test_a_plan_in_place_computes_what_one_without_does(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with make_context(), ir.Location.unknown():
        model, plan = MODELS[name](), planned(name)
        monkeypatch.setattr("tilewright.passes.graph.plan_memory.find_overwritable", lambda kernel: ())
        apart = planned(name)
        assert calls_in_place(plan) and not calls_in_place(apart)
        assert plan.main.arena_bytes <= apart.main.arena_bytes
        inputs = {
            i.name: RNG.standard_normal([require_static(n) for n in i.shape], dtype=np.float32) for i in model.inputs
        }
        weights = {param: model.params[param].array() for param in model.params}
        [got], [want] = (CompiledPlan(made)(inputs, weights, chunks) for made, chunks in ((plan, 3), (apart, 1)))
        np.testing.assert_array_equal(got, want)


def test_ops_that_stand_whole_copy_the_operand_first() -> None:
    """The padded tensor is put where the result will be, before the sum reads its other operand."""
    small, out = "tensor<2x3xf32>", "tensor<4x5xf32>"
    text = f"""func.func @k(%y: {small}, %x: {out}) -> {out} attributes {{tw.in_place = array<i64: 1>}} {{
      %z = arith.constant 0.5 : f32
      %p = tensor.pad %y low[1, 0] high[1, 2] {{ ^bb0(%i: index, %j: index): tensor.yield %z : f32 }} : {small} to {out}
      %r = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>,
        affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}}
        ins(%p, %x : {out}, {out}) outs(%p : {out}) {{
      ^bb0(%a: f32, %b: f32, %o: f32):
        %s = arith.addf %a, %b : f32
        linalg.yield %s : f32
      }} -> {out}
      return %r : {out} }}"""
    kernel = CompiledKernel(text)
    assert not kernel.kernel.schedule, f"plain loops are wanted, not {schedule_text(text)}"
    check(kernel, [(2, 3), (4, 5)], (4, 5), [1])


def test_threads_share_a_kernel_in_place() -> None:
    with make_context(), ir.Location.unknown():
        model = dense(256, 384, 256)
        assert calls_in_place(pipeline.plan(model, TARGET.get(detect_host()), PassContext()))
        alone, shared = (
            api.build_model(model, TARGET.get(detect_host()), num_threads=n, workers=0, cache=False) for n in (1, 4)
        )
    x = RNG.standard_normal((256, 8), dtype=np.float32)
    [want] = alone.run({"x": x})
    for _ in range(20):
        np.testing.assert_array_equal(shared.run({"x": x})[0], want)


@FOR_THIS_MACHINE
@pytest.mark.parametrize(("made_from", "repeats"), [("%x", True), ("%y", False)])
def test_what_is_inserted_may_be_computed_twice(made_from, repeats):
    """Unless it is made from the argument that it is inserted into."""
    text = f"""
      func.func @k(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> attributes {{tw.in_place = array<i64: 1>}} {{
        %e = tensor.empty() : tensor<4xf32>
        %s = tensor.extract_slice {made_from}[0] [4] [1] : tensor<8xf32> to tensor<4xf32>
        %m = linalg.exp ins(%s : tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
        %r = tensor.insert_slice %m into %y[2] [4] [1] : tensor<4xf32> into tensor<8xf32>
        return %r : tensor<8xf32>
      }}"""
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        [function] = list_functions(module)
        [made] = [op.results[0] for op in list_ops(function) if op.name == "linalg.exp"]
        assert may_repeat(made) == repeats


def test_the_last_piece_of_a_concat_is_all_that_its_kernel_copies() -> None:
    """A view, which is inserted behind what other kernels store."""
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["": 18]>
      g (float[1,64,16] x, float[1,8,8,32] z, float[16,16] w, float[48,24] v) => (float[1,8,8,24] y) {
        shape = Constant<value_ints = [1, 8, 8, 16]>()  m = MatMul(x, w)  piece = Reshape(m, shape)
        e = Exp(z)  c = Concat<axis = -1>(e, piece)  y = MatMul(c, v) }""")
    with make_context(), ir.Location.unknown():
        plan = pipeline.plan(tw.import_model(model), TARGET.get(detect_host()), PassContext())
        assert sum(f"{tw_attributes.OVER} = 1" in str(ir.Module.parse(kernel)) for kernel in plan.kernels.values()) == 1
    shapes = {"x": (1, 64, 16), "z": (1, 8, 8, 32), "w": (16, 16), "v": (48, 24)}
    feeds = {name: RNG.standard_normal(shape, dtype=np.float32) for name, shape in shapes.items()}
    made = tw.compile(model, cache=False)
    want = np.concatenate([np.exp(feeds["z"]), (feeds["x"] @ feeds["w"]).reshape(1, 8, 8, 16)], -1) @ feeds["v"]
    for _ in range(2):
        np.testing.assert_allclose(made.run(feeds)[0], want, rtol=0, atol=1e-4)
