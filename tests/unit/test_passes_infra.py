"""Pass contexts, options, instruments and the command that runs passes."""

from __future__ import annotations

import io
import json
import pickle
from dataclasses import dataclass
from typing import ClassVar

import pytest

from tilewright.core.errors import CompileError
from tilewright.dialects import ir, tw
from tilewright.dialects.context import make_context
from tilewright.passes.infra.base import MlirPass, Pass
from tilewright.passes.infra.context import PassContext, Sequential
from tilewright.passes.infra.instruments import DumpIR, Instrument, PrintIR, Timing
from tilewright.passes.infra.options import parse_pipeline
from tilewright.passes.ir.kernel import list_functions, run_upstream
from tilewright.passes.pipeline import PASSES
from tilewright.passes.schedule.language.schedule import Schedule
from tilewright.tools import opt

KERNEL = """
#id = affine_map<(i, j) -> (i, j)>
func.func @k(%x: tensor<8x32xf32>) -> tensor<8x32xf32> {
  %e = tensor.empty() : tensor<8x32xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
    ins(%x : tensor<8x32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%v: f32, %o: f32):
    %y = arith.addf %v, %v : f32
    linalg.yield %y : f32
  } -> tensor<8x32xf32>
  return %r : tensor<8x32xf32>
}
"""
MODULE = "func.func @f() { return }"


@dataclass(frozen=True)
class Mark(Pass):
    """Counts its runs on the module."""

    name: ClassVar[str] = "mark"
    opt_level: ClassVar[int] = 2
    times: int = 1
    loud: bool = False

    def apply(self, module: ir.Module) -> None:
        known = module.operation.attributes.get("tw.mark", None)
        count = self.times + (ir.IntegerAttr(known).value if known is not None else 0)
        module.operation.attributes["tw.mark"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), count)


def _marks(context: PassContext, *passes: Pass) -> int:
    with make_context(), ir.Location.unknown(), context:
        module = ir.Module.parse(MODULE)
        Sequential(passes).apply(module)
        mark = module.operation.attributes.get("tw.mark", None)
        return ir.IntegerAttr(mark).value if mark is not None else 0


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        (PassContext(), 1),
        (PassContext(opt_level=1), 0),
        (PassContext(opt_level=1, required_pass=["mark"]), 1),
        (PassContext(disabled_pass=["mark"], required_pass=["mark"]), 0),
        (PassContext(config={"mark.times": 5, "other.times": 9}), 5),
    ],
)
def test_the_context_decides_what_runs(context, expected):
    assert _marks(context, Mark()) == expected


def test_contexts_nest():
    with PassContext(opt_level=1) as outer:
        with PassContext(opt_level=0):
            assert PassContext.current().opt_level == 0
        assert PassContext.current() is outer
    assert PassContext.current().opt_level == 3


def test_options_on_the_command_line():
    table = {**PASSES, "mark": Mark}
    assert parse_pipeline("mark{times=3 loud=true},cse", table) == (Mark(3, True), MlirPass("cse"))
    assert [str(p) for p in parse_pipeline("mark{times=3},func.func(cse,canonicalize)", table)] == [
        "mark{times=3}",
        "func.func(cse,canonicalize)",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mark{time=3}", "no option 'time'; its options: times, loud"),
        ("mark{times=x}", "is 'x', which is no int"),
        ("mark{times}", "write times=VALUE"),
        ("frobnicate", "unknown pass 'frobnicate'"),
    ],
)
def test_a_wrong_pipeline_is_refused(text, message):
    with pytest.raises(CompileError, match=message):
        parse_pipeline(text, {"mark": Mark})


def test_instruments_see_each_pass(tmp_path):
    timing = Timing()
    _marks(PassContext(instruments=[timing, DumpIR(tmp_path)]), Mark(), MlirPass("cse"), Mark())
    assert set(timing.seconds) == {"mark", "cse"}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["00-mark.mlir", "01-cse.mlir", "02-mark.mlir"]


def test_a_failure_names_the_pass_and_the_node():
    class Broken(Mark):
        def apply(self, module: ir.Module) -> None:
            module.body.operations[0].operation.location.emit_error("out of luck")

    source = 'module { func.func @f() { return } loc("conv1") }'
    with make_context(), ir.Location.unknown(), pytest.raises(CompileError) as error:
        PassContext().run(Broken(), ir.Module.parse(source))
    assert str(error.value) == "pass 'mark' failed at node 'conv1': out of luck"


def test_every_pass_has_its_module_and_its_test(request):
    root = request.config.rootpath
    for name, cls in PASSES.items():
        stem = name.replace("-", "_")
        folder = cls.__module__.split(".")[2]
        assert cls.__module__ == f"tilewright.passes.{folder}.{stem}"
        assert (root / "tests" / "lit" / folder / f"{stem}.mlir").is_file(), f"{name} has no test for lit"


def test_opt_lists_and_runs(tmp_path, capsys):
    assert opt.main(["--list"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in PASSES)
    file = tmp_path / "m.mlir"
    file.write_text(MODULE)
    assert (
        opt.main([str(file), "--passes=canonicalize-ops", f"--dump-dir={tmp_path / 'd'}", "--print-ir-after=all"]) == 0
    )
    out, err = capsys.readouterr()
    assert "func.func @f" in out and "IR after canonicalize-ops" in err
    assert (tmp_path / "d" / "00-canonicalize-ops.mlir").is_file()


@pytest.mark.parametrize("argv", [["missing.mlir"], ["--passes=frobnicate", __file__], [__file__]])
def test_errors_of_opt_are_one_line(argv, capsys):
    assert opt.main(argv) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_opt_makes_passes_for_a_target_and_emits_code(tmp_path, capsysbinary):
    file = tmp_path / "m.mlir"
    file.write_text("func.func @f(%x: f32) -> f32 {\n %y = math.sin %x : f32\n return %y : f32 }")
    fused = {}
    for cpu in ("haswell", "x86-64"):  # the latter has no instruction for products that are not rounded
        assert opt.main([str(file), "--passes=expand-math", f"--target=x86 -mcpu={cpu}"]) == 0
        fused[cpu] = capsysbinary.readouterr().out.count(b"math.fma")
    assert fused["haswell"] > fused["x86-64"]
    lowered = "convert-math-to-llvm,convert-arith-to-llvm,convert-func-to-llvm,reconcile-unrealized-casts"
    file.write_text("func.func @f(%x: f32) -> f32 {\n %y = arith.addf %x, %x : f32\n return %y : f32 }")
    assert opt.main([str(file), f"--passes={lowered}", "--emit=asm", "--target=x86 -mcpu=haswell", "-O1"]) == 0
    assert b"vaddss" in capsysbinary.readouterr().out


def scheduled(argv: list[str], capsysbinary: pytest.CaptureFixture[bytes]) -> Schedule:
    """The schedule in the module that `opt` prints."""
    assert opt.main(argv) == 0
    with make_context():
        [function] = list_functions(ir.Module.parse(capsysbinary.readouterr().out))
        return Schedule.from_json(ir.StringAttr(function.attributes[tw.SCHEDULE_JSON]).value)


def test_opt_carries_out_a_schedule_by_hand(tmp_path, capsysbinary):
    file, given = tmp_path / "m.mlir", tmp_path / "s.json"
    file.write_text(KERNEL)
    argv = [str(file), "--passes=apply-schedule"]
    usual = scheduled(argv, capsysbinary)
    mine = Schedule.start(usual.values).parallel("d0")
    assert mine != usual
    given.write_text(json.dumps({"k": mine.to_json()}))
    assert scheduled([*argv, f"--schedules={given}"], capsysbinary) == mine


def test_a_context_forks_for_workers_if_all_its_instruments_do():
    timing, printed = Timing(), io.StringIO()
    forking = PassContext(instruments=[timing, PrintIR(["mark"], printed)], disabled_pass=["cse"])
    sent = pickle.loads(pickle.dumps(forking.fork("k1")))
    assert _marks(sent, Mark(), MlirPass("cse")) == 1
    forking.join("k1", sent)
    assert list(timing.seconds) == ["mark"]
    assert printed.getvalue().startswith("// ----- IR of k1 after mark -----\n")

    here = PassContext(instruments=[Timing(), Instrument()])
    assert not here.forks()
    assert here.fork("k1") is here


def test_what_upstream_passes_leave_broken_is_noticed() -> None:
    """They are verified once, after the last of them."""
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse("func.func @f(%x: i32, %y: i64) { return }")
        block = module.body.operations[0].regions[0].blocks[0]
        with ir.InsertionPoint.at_block_begin(block):
            x, y = block.arguments
            ir.Operation.create("arith.addi", results=[x.type], operands=[x, y])
        with pytest.raises(CompileError, match="what upstream passes made"):
            run_upstream(module, ("symbol-dce",))
