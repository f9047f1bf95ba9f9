"""Recipes and spaces: schedules as choices, and back."""

from __future__ import annotations

import itertools
import json
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_runner import bytecode
from kernel_texts import matmul
from onnx import helper, numpy_helper
from samples import campaign

import tilewright as tw
from tilewright.core.target import Target
from tilewright.dialects import ir
from tilewright.dialects.context import make_context
from tilewright.driver import api
from tilewright.passes import pipeline
from tilewright.passes.infra.context import PassContext
from tilewright.passes.schedule.language.cuts import carve, overlap, share, stream_sum, unroll_sum
from tilewright.passes.schedule.language.loopnest import Axis, Block, KernelValue
from tilewright.records.trial import Trial
from tilewright.tuning.compiling import Candidate
from tilewright.tuning.spaces.form_space import make_space
from tilewright.tuning.spaces.nest_space import NestSpace
from tilewright.tuning.spaces.recipe import make_schedule, read_recipe
from tilewright.tuning.spaces.space import describe_change, draw_points, list_neighbours
from tilewright.tuning.task import Task
from tilewright.tuning.tasks import extract_tasks
from tilewright.tvm.autotvm.kernels import KernelMeasurer, KernelTask
from tilewright.tvm.autotvm.results import MeasureInput
from tilewright.tvm.target import Target as TvmTarget

TARGET = Target.parse("x86 -mcpu=x86-64-v4")


def product(m: int, n: int, k: int, rows: int = 6, packed: bool = False) -> tw.Schedule:
    """A product as its family would schedule it: blocks of 32 columns around rows."""
    blocks = (Block(1, "n", 32),) if packed else ()
    value = KernelValue(
        "result", (Axis("m", m), Axis("n", n)), (Axis("k", k),), intrinsic="outer_product", packed=blocks
    )
    made = carve(tw.Schedule.start([value]), [("n", min(32, n)), ("m", min(rows, m))])
    return overlap(share(unroll_sum(made, TARGET)))


def softmax(rows: int, columns: int) -> tw.Schedule:
    """Rows whose sums are computed ahead, inside of the loop over rows."""
    result = KernelValue("result", (Axis("d0", rows), Axis("d1", columns)))
    staged = KernelValue("%5", (Axis("%5.d0", rows), Axis("%5.d1", columns)), (Axis("%5.k", 7),))
    made = share(carve(tw.Schedule.start([result, staged]), [("d0", 1), ("d1", 16)]), most=1)
    made = made.cache_write("%5", made.result.outer[0].name)
    return carve(made, [("%5.d1", 16)], "%5", ["%5.d0"])


def softmax_across(rows: int, columns: int) -> tw.Schedule:
    """Short rows side by side."""
    result = KernelValue("result", (Axis("d0", rows), Axis("row", columns)), row="row")
    return share(carve(tw.Schedule.start([result]), [("d0", 16)], across=True))


def parts(rows: int, steps: int, columns: int) -> tw.Schedule:
    """A product in parts of bfloat16: all rows are split ahead, and then a block of the weight at a time."""
    made = product(rows, columns, steps, rows=32, packed=True)
    values = [made.values[0], *(KernelValue(f"%arg{n}", (), read=True) for n in range(2))]
    made = tw.Schedule.start(values).tile("m", 32, "n", 32).reorder("n.0", "m.0", "k", "m.1", "n.1").unroll("m.1")
    made = made.vectorize("n.1").tensorize("m.1", "outer_product").pack(1, "n", 32).parallel("n.0")
    return made.cache_split("%arg0", "", 16).cache_split("%arg1", "n.0")


SCHEDULES = [
    product(96, 128, 512),
    product(37, 50, 3),
    product(64, 64, 64, packed=True),
    softmax(12, 64),
    softmax_across(96, 7),
    parts(128, 256, 96),
]
NAMES = ["product", "odd", "packed", "staged", "across", "parts"]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=NAMES)
def test_a_recipe_makes_its_schedule_again(schedule: tw.Schedule) -> None:
    made = make_schedule(read_recipe(schedule))
    assert made == schedule and str(made) == str(schedule)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=NAMES)
def test_the_default_of_a_space_is_the_schedule(schedule: tw.Schedule) -> None:
    space = NestSpace(schedule, TARGET)
    assert space.schedule(space.default) == schedule
    assert space.find(schedule) == space.default
    assert describe_change(space, space.default) == ""


@pytest.mark.parametrize("schedule", SCHEDULES, ids=NAMES)
def test_drawn_points_are_legal_new_and_found_again(schedule: tw.Schedule) -> None:
    space, seen = NestSpace(schedule, TARGET), set[str]()
    for point in itertools.islice(draw_points(space, Random(1)), 25):
        made = space.schedule(point)
        assert made is not None
        made.check()
        text = str(made.to_json()["steps"])
        assert text not in seen
        seen.add(text)
        again = space.find(tw.Schedule.from_json(made.to_json()))
        assert again is not None and space.schedule(again) == made
    assert len(seen) > 5


def convolve(channels: int, filters: int, image: tuple[int, int], window: int, stride: int = 1) -> bytes:
    """A network of a product of pixels and a convolution that pads what comes of it."""
    random = np.random.default_rng(0)
    first = random.standard_normal((channels, channels, 1, 1), np.float32)
    second = random.standard_normal((filters, channels, window, window), np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "a"], ["m"], "first"),
        helper.make_node("Relu", ["m"], ["r"], "relu"),
        helper.make_node("Conv", ["r", "b"], ["y"], "second", pads=[window // 2] * 4, strides=[stride] * 2),
    ]
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, channels, *image])
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, filters, None, None])
    weights = [numpy_helper.from_array(first, "a"), numpy_helper.from_array(second, "b")]
    graph = helper.make_graph(nodes, "net", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10).SerializeToString()


def normalize(rows: int, columns: int) -> bytes:
    """A norm of the rows of a softmax, all of which is one kernel."""
    nodes = [
        helper.make_node("Softmax", ["x"], ["s"], "softmax"),
        helper.make_node("LayerNormalization", ["s", "g"], ["y"], "norm"),
    ]
    x, y = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [rows, columns]) for name in "xy")
    graph = helper.make_graph(nodes, "net", [x], [y], [numpy_helper.from_array(np.ones(columns, np.float32), "g")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10).SerializeToString()


@campaign("10-padding left out", "10-patches")
@pytest.mark.parametrize(
    "network, kernel",
    [
        (convolve(16, 24, (20, 20), 5, 2), "pad_conv"),
        (convolve(24, 24, (18, 22), 3), "transform_matmul"),
        (normalize(128, 768), "reduce_sub"),
    ],
    ids=["padding left out", "patches", "rows"],
)
@pytest.mark.parametrize("points", [10, 30])
def test_points_are_refused_in_data(network: bytes, kernel: str, points: int) -> None:
    """Of the points that a search may draw, each can be built: none is refused when its loops are made."""
    tasks = extract_tasks(network, options=api.make_options("x86 -mcpu=x86-64-v3", 1, records=False), workers=0)
    [task] = [task for task in tasks if kernel in task.name]
    assert task.default is not None
    space = NestSpace(task.default, task.target)
    for point in itertools.islice(draw_points(space, Random(3)), points):
        schedule = space.schedule(point)
        assert schedule is not None
        context = PassContext(config={"schedules": {task.name: schedule}})
        assert pipeline.describe_loops(task.code, task.target, context).schedule


def test_tiles_of_parts_are_matrices_that_registers_hold() -> None:
    """Of any point two matrices of rows at most, of equal size; the code of each is one of registers of matrices."""
    target, k = Target.parse("x86 -mcpu=sapphirerapids"), bytecode(matmul(128, 768, 768, 32))
    default = tw.Schedule.from_json(pipeline.describe_loops(k, target, PassContext()).schedule_json)
    space = NestSpace(default, target)
    assert {"tile.m", "block.m", "order", "%arg0.depth", "%arg1.depth"} <= {knob.name for knob in space.knobs}
    for point in itertools.islice(draw_points(space, Random(5)), 12):
        schedule = space.schedule(point)
        assert schedule is not None
        [rows] = [loop.steps for loop in schedule.result.tile if loop.axis == "m"]
        [matrix] = [stage.matrix_rows for stage in schedule.stages if stage.matrix_rows]
        assert rows == matrix or rows == 2 * matrix
        context = PassContext(config={"schedules": {"k": schedule}})
        with make_context(), ir.Location.unknown():
            module, _ = pipeline.lower_kernel(k, target, context)
            assert "tdpbf16ps" in str(module)


@pytest.mark.parametrize(("columns", "most"), [(64, 16), (128, 8), (200, 5), (768, 1)])
def test_several_whole_rows_of_a_tile_have_few_vectors(columns: int, most: int) -> None:
    """Their code has no loops: that of two rows of 768 takes seconds to be compiled."""
    value = KernelValue("result", (Axis("d0", 32), Axis("row", columns)), row="row")
    space = NestSpace(share(carve(tw.Schedule.start([value]), [("d0", 1)], row_chunk=64)), TARGET)
    [number] = [number for number, knob in enumerate(space.knobs) if knob.name == "tile.d0"]
    points = [
        (*space.default[:number], n, *space.default[number + 1 :]) for n in range(len(space.knobs[number].options))
    ]
    legal = [space.knobs[number].options[point[number]] for point in points if space.schedule(point) is not None]
    assert max(legal) == most
    across = NestSpace(softmax_across(64, 200), TARGET)
    assert across.schedule(across.default) is not None, "rows side by side go element by element"


def test_a_space_of_two_forms() -> None:
    """In parts by default, and in vectors: the default, the other form, and what is drawn of both can be built."""
    target, k = Target.parse("x86 -mcpu=sapphirerapids"), bytecode(matmul(128, 768, 768, 32))
    described, [other] = pipeline.describe_forms(k, target, PassContext())
    default = tw.Schedule.from_json(described.schedule_json)
    space = make_space(default, [other], target)
    assert space.schedule(space.default) == default and space.find(default) == space.default
    found = space.find(other)
    assert found is not None and space.schedule(found) == other
    assert describe_change(space, found) == "form parts -> vectors"
    forms = set[bool]()
    for point in itertools.islice(draw_points(space, Random(6)), 12):
        schedule = space.schedule(point)
        assert schedule is not None
        forms.add(any(stage.splits for stage in schedule.stages))
        if any(stage.splits for stage in schedule.stages):
            assert "vectors." not in describe_change(space, point)
        again = space.find(schedule)
        assert again is not None and space.schedule(again) == schedule
        assert pipeline.describe_loops(k, target, PassContext(config={"schedules": {"k": schedule}})).schedule
    assert forms == {False, True}


def test_a_task_of_autotvm_has_the_configs_of_all_forms() -> None:
    """Records of both are of configs, whose schedules they have."""
    target, k = Target.parse("x86 -mcpu=sapphirerapids"), bytecode(matmul(128, 768, 768, 32))
    described, [other] = pipeline.describe_forms(k, target, PassContext())
    default = tw.Schedule.from_json(described.schedule_json)
    kernel = Task("k", k, target, 1, 1, ("n",), described.signature, default, others=(other,))
    task, found = KernelTask(kernel, TvmTarget("llvm -mcpu=sapphirerapids")), list[int | None]()
    for schedule in (default, other):
        data = schedule.to_json()
        texts = (json.dumps(data["values"]), json.dumps(data["steps"]))
        found.append(task.find_index(Trial("k", "", 1, *texts, (1.0,), (1.0,))))
    own, third = task.config_space.knob2point(task.space.default), found[1]
    assert found[0] == own and task.find_schedule(task.config_space.get(own)) == default
    assert third is not None and task.find_schedule(task.config_space.get(third)) == other
    assert next(iter(task.config_space.space_map)) == "form" and task.config_space.get(third)["form"].val == "vectors"
    assert task.read_nests(task.space.default) and task.read_nests(tuple(task.config_space.point2knob(third)))


def test_configs_of_autotvm_that_are_one_schedule_are_measured_once() -> None:
    """Those of a product in vectors that differ in a tile of the parts of bfloat16, which it does not have."""
    target, k = Target.parse("x86 -mcpu=sapphirerapids"), bytecode(matmul(128, 768, 768, 32))
    described, [other] = pipeline.describe_forms(k, target, PassContext())
    default = tw.Schedule.from_json(described.schedule_json)
    task = KernelTask(
        Task("k", k, target, 1, 1, ("n",), described.signature, default, others=(other,)),
        TvmTarget("llvm -mcpu=sapphirerapids"),
    )
    space = task.space
    point = space.find(other)
    assert point is not None
    changed = (point[0], int(not point[1]), *point[2:])
    assert changed != point and space.schedule(changed) == space.schedule(point)
    compiled = list[str]()

    class Laboratory:
        def begin_compiling(self, kernel: Task, steps: list[str]) -> SimpleNamespace:
            compiled.extend(steps)
            return SimpleNamespace(result=lambda: [Candidate(None, "compile", "not here")] * len(steps))

    prepared, laboratory = cast(Any, SimpleNamespace()), cast(Any, Laboratory())
    measurer, configs = KernelMeasurer(task, laboratory, 1, prepared), [point, changed, space.default, point]
    numbers = [task.config_space.knob2point(each) for each in configs]
    inputs = [MeasureInput(task.target, task, task.config_space.get(number)) for number in numbers]
    first, second = measurer(inputs[:2]), measurer(inputs[2:])
    assert len(compiled) == 2 and first[0] is first[1] is second[1] is not second[0]


def test_a_kernel_that_has_one_form_has_one_space() -> None:
    target, k = Target.parse("x86 -mcpu=skylake-avx512"), bytecode(matmul(128, 768, 768, 32))
    described, others = pipeline.describe_forms(k, target, PassContext())
    assert others == [] and described == pipeline.describe_loops(k, target, PassContext())
    default = tw.Schedule.from_json(described.schedule_json)
    assert "form" not in [knob.name for knob in make_space(default, [], target).knobs]


def test_a_packed_operand_keeps_its_blocks() -> None:
    space = NestSpace(product(64, 64, 64, packed=True), TARGET)
    assert "tile.n" not in [knob.name for knob in space.knobs]
    for point in itertools.islice(draw_points(space, Random(2)), 20):
        made = space.schedule(point)
        assert made is not None
        assert made.result.packs == (Block(1, "n", 32),)


def test_tiles_that_registers_cannot_hold_are_no_points() -> None:
    space = NestSpace(product(96, 256, 512), TARGET)
    for point in itertools.islice(draw_points(space, Random(3)), 40):
        made = space.schedule(point)
        assert made is not None
        elements = [loop.steps for loop in made.result.tile]
        assert -(-elements[-1] // TARGET.lanes) * (elements[0] if len(elements) > 1 else 1) <= 40


def test_the_schedule_of_a_smaller_kernel_is_a_point_of_a_larger_one() -> None:
    small, large = NestSpace(product(24, 64, 64), TARGET), NestSpace(product(200, 512, 96), TARGET)
    for point in itertools.islice(draw_points(small, Random(4)), 10):
        made = small.schedule(point)
        assert made is not None
        found = large.find(made)
        assert found is None or large.schedule(found) is not None
    assert large.find(small.start) is not None


def test_neighbours_differ_in_one_knob() -> None:
    space = NestSpace(product(96, 128, 512), TARGET)
    near = list(list_neighbours(space, space.default))
    assert len(near) >= len(space.knobs)
    assert all(sum(a != b for a, b in zip(point, space.default, strict=True)) == 1 for point in near)


@settings(max_examples=40)
@given(st.integers(2, 300), st.integers(2, 300), st.integers(2, 600), st.integers(0, 1000))
def test_points_of_any_size_can_be_written_down_and_read(m: int, n: int, k: int, seed: int) -> None:
    space = NestSpace(product(m, n, k), TARGET)
    for point in itertools.islice(draw_points(space, Random(seed)), 3):
        made = space.schedule(point)
        assert made is not None
        assert tw.Schedule.from_json(made.to_json()) == made


@pytest.mark.parametrize("cpu, streams", [("znver4", 2), ("znver5", 4), ("skylake-avx512", 4)])
def test_a_weight_that_is_read_once_comes_in_streams(cpu: str, streams: int) -> None:
    """As many parts of its sum go on at once as give most of the memory to one core."""
    value = KernelValue("result", (Axis("m", 1), Axis("n", 64)), (Axis("k", 768),), intrinsic="outer_product")
    made = stream_sum(carve(tw.Schedule.start([value]), [("n", 32)]), Target.parse(f"x86 -mcpu={cpu}"))
    assert (read_recipe(made).result.at_once, read_recipe(made).result.apart) == (streams, True)
