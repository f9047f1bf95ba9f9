"""The script of a nest: which loops it makes, which it cannot, and the form that it gives tiles."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cpu_targets import FOR_THIS_MACHINE
from kernel_runner import TARGET, before_schedule, schedule_of
from kernel_texts import conv, einsum, filled, generic, softmax, tensor

from tilewright.core.errors import ScheduleError
from tilewright.core.target import Target
from tilewright.dialects import ir, tw
from tilewright.dialects.context import make_context
from tilewright.dialects.walk import collect
from tilewright.passes.infra.context import PassContext
from tilewright.passes.ir.kernel import list_functions
from tilewright.passes.ir.structure import list_ops, terminator_of
from tilewright.passes.pipeline import kernel_passes
from tilewright.passes.schedule.apply_schedule import ApplySchedule
from tilewright.passes.schedule.language.schedule import Schedule
from tilewright.passes.schedule.scripts.nest_script import make_nest_script
from tilewright.passes.schedule.tiles.regions import NotSchedulable
from tilewright.passes.schedule.tiling.forms import TileForm

PRODUCT = einsum("mk,kn->mn", {"m": 30, "n": 64, "k": 40})
_MAXIMUM = "^bb0(%u: f32, %o: f32): %s = arith.maximumf %o, %u : f32 linalg.yield %s : f32"
KERNELS = {"a product": PRODUCT, "a strided convolution": conv(15, 16, 24, 3, 2, 32), "softmax": softmax(6, 200)}


@pytest.fixture(autouse=True, scope="module", params=["x86 -mcpu=x86-64-v4"])
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    """One target is enough: what changes here are the loops."""
    chosen = Target.parse(request.param)
    token = TARGET.set(chosen)
    yield chosen
    TARGET.reset(token)


def chosen_for(text: str) -> Schedule:
    with make_context(), ir.Location.unknown():
        schedule = schedule_of(text)
    assert schedule is not None
    return schedule


def script_of(text: str, schedule: Schedule) -> str:
    with make_context(), ir.Location.unknown():
        module = before_schedule(text)
        return str(make_nest_script(schedule, terminator_of(list_functions(module)[0]).operands[0]).module)


@pytest.mark.parametrize("text", KERNELS.values(), ids=KERNELS)
def test_a_script_makes_the_loops_of_a_family(text: str, target: Target) -> None:
    with make_context(), ir.Location.unknown():
        module = before_schedule(text)
        ApplySchedule(target).apply(module)
        [made] = list_functions(module)
        assert tw.SCRIPT in made.attributes and tw.SCHEDULE in made.attributes
        assert ir.IntegerAttr(made.attributes[tw.EXTENT]).value == chosen_for(text).extent
        assert tw.FORM not in str(made.operation.regions[0])


def test_a_call_writes_the_places_of_its_own_steps_alone() -> None:
    """The last columns are 2 and 1, at places that are numbers: out of a loop they would go with what reads them."""
    text = f"""func.func @k(%x: {tensor(4000, 7)}) -> {tensor(7)} {{
      {filled("f", tensor(7), "0xFF800000")}
      {generic("r", {"%x": tensor(4000, 7)}, ["(m,n)->(m,n)", "(m,n)->(n)"], "rp", ("%f", tensor(7)), _MAXIMUM)}
      return %r : {tensor(7)} }}"""
    with make_context(), ir.Location.unknown():
        module, context = ir.Module.parse(text), PassContext()
        for stage in kernel_passes(TARGET.get()):
            context.run(stage, module)
            if stage.name == "bufferize":
                break
        [made] = list_functions(module)
        assert "parallel d0.0 in 1 x 4 + 3" in ir.StringAttr(made.attributes[tw.SCHEDULE]).value
        choices = [op for op in list_ops(made) if op.name == "scf.if"]
        written = [op for op in collect(made, lambda op: op.name == "vector.transfer_write")]
        inside = [op for choice in choices for op in collect(choice, lambda op: op.name == "vector.transfer_write")]
        assert len(choices) == 2 and len(inside) == len(written) > 2
        assert "memref.alloc" not in str(module)


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda s: s.cache_read("%arg0", "m.0"), "'%arg0' is computed ahead"),
        (lambda s: s.overlap("m.0"), "steps of 'm.0' overlap"),
        (lambda s: s.fuse("m.0", "n.0"), "'m.0.n.0' is several loops in one, with steps that are not equal"),
    ],
)
def test_what_no_op_makes_is_left_to_the_nest(change: object, words: str) -> None:
    plain = Schedule.start(chosen_for(PRODUCT).values).tile("m", 4, "n", 16).vectorize("n.1").unroll("m.1")
    assert "tile_sizes [4, 0]" in script_of(PRODUCT, plain)
    with pytest.raises(NotSchedulable, match=words):
        script_of(PRODUCT, change(plain))  # type: ignore[operator]


@pytest.mark.parametrize("text", KERNELS.values(), ids=KERNELS)
def test_forms_are_read_as_they_are_written(text: str) -> None:
    form = TileForm.of(chosen_for(text).result)
    with make_context():
        assert TileForm.read(form.write()) == form


@FOR_THIS_MACHINE
@pytest.mark.parametrize(
    "written, words",
    [
        ("unit", "a dictionary with sums, at_once"),
        ("{lanes = 4}", "has no 'lanes = 4"),
        ("{at_once = 17}", "'at_once' of a tile's form is 17: give at most 16"),
        ("{row_chunk = -1}", "'row_chunk' of a tile's form is -1"),
        ('{sums = "k"}', "has no 'sums = \"k\"'"),
        ('{intrinsic = "amx"}', "a tile can become outer_product, .*, not 'amx'"),
    ],
)
def test_what_is_no_form_is_refused(written: str, words: str) -> None:
    with make_context(), pytest.raises(ScheduleError, match=words):
        TileForm.read(ir.Attribute.parse(written))
