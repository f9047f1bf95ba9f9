"""Programs for sizes that deserve one: which inputs run them, what a product with them holds, what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from dense_model import B, W, dense, inputs
from handmade import ADD, assembled, bytecode
from safetensors.numpy import load_file

import tilewright as tw
from tilewright.core.model import FileSlice, Param, TensorInfo
from tilewright.core.program import Call, Plan, Program, Routine, Slot, Step
from tilewright.core.sizes import Sym
from tilewright.core.specialization import format_sizes, normalize_specializations, resolve
from tilewright.driver import api
from tilewright.driver.jobs import Planned
from tilewright.passes.infra.instruments import DumpIR
from tilewright.passes.merge import merge
from tilewright.runtime.artifact import on_disk
from tilewright.runtime.executors.routine_runner import RoutineRunner
from tilewright.runtime.executors.runner import EntryRunner, start
from tilewright.tools import check as check_tool
from tilewright.tools import compile as compile_tool
from tilewright.tools import explain as explain_tool

SIZES: Any = [{"x": (2, 16)}, {"n": np.int64(5)}]


def model(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 18]> {text}')


def compiled(source: Any, specialize: Any, **options: Any) -> tw.Module:
    return tw.compile(source, specialize=specialize, workers=0, num_threads=1, **{"cache": False, **options})


def is_right(module: tw.Module, n: int) -> None:
    x, scale = inputs(n)
    np.testing.assert_allclose(module(x, scale)[0], (np.maximum(x @ W, 0) + B) * scale, rtol=1e-4, atol=1e-5)


@pytest.fixture(scope="module")
def module() -> tw.Module:
    return compiled(dense(), SIZES, input_shapes={"x": ["1..9", 16]})


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kinds of programs that have run."""
    seen: list[str] = []
    for kind in (EntryRunner, RoutineRunner):
        monkeypatch.setattr(kind, "run", _watched(kind.run, kind.__name__, seen))
    return seen


def _watched(run: Callable[..., Any], name: str, seen: list[str]) -> Callable[..., Any]:
    def watched(self: Any, inputs: Sequence[Any], deadline: Any = None) -> list[Any]:
        seen.append(name)
        return run(self, inputs, deadline)

    return watched


def test_inputs_of_just_these_sizes_run_it(module: tw.Module, ran: list[str]) -> None:
    for n in (1, 2, 3, 5):
        is_right(module, n)
        assert np.from_dlpack(module["main_alloc"](*inputs(n))).shape == (n, 8)
    assert ran == ["RoutineRunner"] * 2 + ["EntryRunner"] * 2 + ["RoutineRunner"] * 2 + ["EntryRunner"] * 2


def test_a_product_says_which_it_has(module: tw.Module) -> None:
    assert module.specializations == ({"x": (2, 16), "scale": (2, 1)}, {"x": (5, 16), "scale": (5, 1)})
    assert module.report.specializations == ["x:2,16 scale:2,1", "x:5,16 scale:5,1"]
    assert [str(info.shape) for info in (*module.inputs, *module.outputs)] == ["(n, 16)", "(n, 1)", "(n, 8)"]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ((np.ones((2, 16)), np.ones((2, 1), "f")), "input 'x' must be float32, got float64"),
        (
            (np.ones((2, 16), "f"), np.ones((5, 1), "f")),
            r"input 'scale' must have shape \(n, 1\) with n=2, got \(5, 1\)",
        ),
        ((np.ones((2, 15), "f"), np.ones((2, 1), "f")), r"input 'x' must have shape \(n, 16\) with n=2, got \(2, 15\)"),
        ((np.ones((10, 16), "f"), np.ones((10, 1), "f")), r"input 'x' has 10 in dimension 0 \(n\), which must be 1..9"),
        ((np.ones((2, 16), "f"),), "has 2 inputs, 1 were given"),
    ],
)
def test_wrong_inputs_are_refused_as_ever(module: tw.Module, arrays: Any, message: str) -> None:
    with pytest.raises(tw.InputError, match=message):
        module(*arrays)


@pytest.mark.parametrize("name", ["dense.so", "dense.tw"])
def test_it_is_saved_and_loaded_with_them(module: tw.Module, name: str, ran: list[str], tmp_path: Path) -> None:
    first = tw.load_module(module.export_library(tmp_path / name))
    again = tw.load_module(first.export_library(tmp_path / f"again{Path(name).suffix}"))
    for loaded in (first, again):
        assert loaded.manifest.to_json() == module.manifest.to_json()
        assert loaded.specializations == module.specializations
        for n in (2, 4, 5):
            is_right(loaded, n)
    assert ran == ["EntryRunner", "RoutineRunner", "EntryRunner"] * 2


def test_weights_are_there_once(module: tw.Module, tmp_path: Path) -> None:
    module.export_library(tmp_path / "dense.so")
    stored = load_file(tmp_path / "dense.safetensors")
    assert sorted(stored) == sorted(info.name for info in module.manifest.weights)
    assert [name for name in stored if name.startswith("b")] == ["b"]
    assert module.report.weight_bytes == sum(array.nbytes for array in stored.values())
    assert module.report.prepared == sum(name.startswith("w") for name in stored)


def test_several_threads_call_it(module: tw.Module) -> None:
    def run(n: int) -> None:
        for _ in range(20):
            is_right(module, n)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(run, (2, 5, 3, 2)))


def test_workers_and_this_process_make_the_same(module: tw.Module) -> None:
    other = tw.compile(
        dense(), specialize=SIZES, input_shapes={"x": ["1..9", 16]}, workers=2, num_threads=1, cache=False
    )
    assert other.manifest == module.manifest
    is_right(other, 2)


def test_equal_sizes_are_compiled_once() -> None:
    found = compiled(model("g (float[n] x) => (float[n] y) { y = Exp(x) }"), [{"x": [3]}, {"n": 3}])
    assert found.report.specializations == ["x:3"]
    assert found.report.notes == ["specializations of equal sizes are compiled once"]


def test_sizes_that_only_the_run_knows_remain() -> None:
    """A program for given sizes may have others, and checks, that the run decides."""
    made = compiled(model("g (float[n] x) => (int64[a, b] y) { y = NonZero(x) }"), [{"n": 4}])
    assert made.manifest.specialized[0].routine is not None
    for n in (4, 6):
        np.testing.assert_array_equal(made(np.arange(n, dtype=np.float32))[0], [range(1, n)])


def test_inputs_that_the_host_holds_have_no_part_in_it(ran: list[str]) -> None:
    made = compiled(
        model("g (string[m] s, float[n] x) => (string[m] t, float[n] y) { t = Identity(s) y = Exp(x) }"), [{"n": 2}]
    )
    assert made.specializations == ({"x": (2,)},)
    for n in (2, 3):
        text, numbers = made(["a", "b", "c"], np.zeros(n, np.float32))
        assert list(text) == ["a", "b", "c"] and list(numbers) == [1] * n


def test_a_specialization_that_cannot_be_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    onnx.save(
        model("g (float[n, 3] x) => (float[2, m] y) <int64[2] to = {2, 6}> { y = Reshape(x, to) }"),
        tmp_path / "net.onnx",
    )
    with pytest.raises(tw.ModelError, match=r"^specialization x:5,3: .*net.onnx.*Reshape") as error:
        api.compile_to_file(tmp_path / "net.onnx", tmp_path / "net.so", workers=0, specialize=[{"n": 4}, {"n": 5}])
    assert "\n" not in str(error.value)
    assert [path.name for path in tmp_path.iterdir()] == ["net.onnx"]


def test_passes_that_are_watched_are_told_apart(tmp_path: Path) -> None:
    with tw.PassContext(instruments=[DumpIR(tmp_path)]):
        compiled(model("g (float[n] x) => (float[n] y) { y = Exp(x) }"), [{"n": 3}])
    assert list(tmp_path.glob("*fuse-ops.mlir")) and list(tmp_path.glob("specialization_1/*fuse-ops.mlir"))


def test_a_kernel_that_only_one_program_has_takes_a_schedule() -> None:
    [kernel] = api.stepwise(dense(), {"x": (64, 16)}, api.make_options(cache=False), workers=0).kernels.values()
    with tw.PassContext(config={"schedules": {kernel.name: kernel.schedule_json}}):
        is_right(compiled(dense(), [{"n": 64}]), 64)
        with pytest.raises(tw.ScheduleError, match="has no kernel"):
            compiled(dense(), [{"n": 65}])


def test_the_cache_tells_sizes_apart(tmp_path: Path) -> None:
    def made(specialize: Any) -> tw.Module:
        return compiled(dense(), specialize, cache=tmp_path / "cache")

    first, other, again = made(SIZES), made([{"n": 2}]), made(SIZES)
    assert [found.report.cached for found in (first, other, again)] == [False, False, True]
    assert again.report.of_program() == first.report.of_program()
    assert again.manifest.to_json() == first.manifest.to_json()
    assert again.report.specializations != other.report.specializations
    for found in (first, other, again):
        is_right(found, 2)


# Sizes, held against inputs


N, M = Sym("n", 1, 8), Sym("m")
INFOS = (
    TensorInfo("x", (N, 4), "float32"),
    TensorInfo("y", (N, M), "float32"),
    TensorInfo("s", (), "string"),
    TensorInfo("z", (Sym("'2*n'"),), "float32"),
)


@pytest.mark.parametrize(
    ("sizes", "shapes"),
    [
        ({"y": [2, 3], "z": (7,)}, {"x": (2, 4), "y": (2, 3), "z": (7,)}),
        ({"n": 1, "m": 0, "2*n": 2}, {"x": (1, 4), "y": (1, 0), "z": (2,)}),
        ({"x": np.array([8, 4]).tolist(), "m": np.int32(1), "z": [1]}, {"x": (8, 4), "y": (8, 1), "z": (1,)}),
    ],
)
def test_sizes_become_the_shapes_of_all_inputs(sizes: Any, shapes: Any) -> None:
    assert resolve(normalize_specializations([sizes]), INFOS, "net") == [shapes]


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"x": (9, 4)}, "specialization x:9,4: 'n' is 9, which must be 1..8; widen --input-shape's range"),
        ({"n": 0}, "specialization n=0: 'n' is 0, which must be 1..8"),
        ({"x": (2, 5)}, "specialization x:2,5: input 'x' is n,4, which does not allow 5"),
        ({"x": (2,)}, "specialization x:2: input 'x' has 2 dimensions (n,4)"),
        ({"x": (2, 4), "y": (3, 3)}, "specialization x:2,4 y:3,3: 'n' is 2 and 3"),
        ({"x": (2, 4), "m": 3}, "specialization x:2,4 m=3: leaves ''2*n'' open; give all sizes, as in x:1,4 y:1,1 z:1"),
        ({}, "specialization of nothing: leaves 'n' open"),
        ({"k": 3}, "specialization k=3: there is no size 'k'; those of the inputs are n, m, 2*n"),
        ({"k": (3,)}, "specialization k:3: has no input 'k'; its inputs are x, y, s, z"),
        ({"s": (3,)}, "specialization s:3: input 's' is a string, which has no shape: leave it out"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(sizes: Any, message: str) -> None:
    with pytest.raises(tw.ModelError) as error:
        resolve(normalize_specializations([sizes]), INFOS, "net")
    assert str(error.value).startswith(f"net: {message}") and "\n" not in str(error.value)


def test_a_model_without_open_sizes_is_refused() -> None:
    with pytest.raises(tw.ModelError, match="specialization x:2: no input has a dynamic size"):
        compiled(model("g (float[2] x) => (float[2] y) { y = Exp(x) }"), [{"x": (2,)}])


@pytest.mark.parametrize(
    ("specialize", "message"),
    [
        ({"x": (1, 2)}, "specialize has to be a list"),
        (["x:1,2"], "specialize has 'x:1,2' where sizes by name are needed"),
        ([{"x": (1, "?")}], "specialize has '1,?' for 'x': sizes are numbers"),
        ([{"x": True}], "specialize has 'True' for 'x'"),
        ([{"x": (1, -2)}], "specialize has '1,-2' for 'x'"),
        ([{"x": 1.5}], "specialize has '1.5' for 'x'"),
    ],
)
def test_what_says_no_sizes_is_refused(specialize: Any, message: str) -> None:
    with pytest.raises(tw.ModelError) as error:
        compiled(dense(), specialize)
    assert str(error.value).startswith(message) and "\n" not in str(error.value)


def test_sizes_as_text() -> None:
    assert format_sizes({"ids": (1, 128), "mask": (1,), "b": 2, "n": 3}) == "ids:1,128 mask:1 b=2,n=3"


# Plans, made one

INFO = TensorInfo("y", (64, 128), "float32")
OTHER_ADD = ADD.replace("arith.addf %x, %y", "arith.addf %x, %x")


def plan(kernel: str, weight: np.ndarray | FileSlice, raw: str = "w", made: str = "p") -> tuple[Plan, dict[str, Param]]:
    """``y = add(raw, made)``, where ``made = add(raw, raw)``."""
    w, p = TensorInfo(raw, (64, 128), "float32"), TensorInfo(made, (64, 128), "float32")
    call = Call("add", (Slot("param", 0), Slot("param", 1), Slot("output")), ("node",))
    main = Program((), (INFO,), (w, p), (call,), 0)
    prepare = Program((), (p,), (w,), (Call("add", (Slot("param"), Slot("param"), Slot("output")), (made,)),), 0)
    return Plan(main, {made: prepare}, {"add": bytecode(kernel)}), {raw: Param(w, weight)}


def merged(*plans: tuple[Plan, dict[str, Param]]) -> tuple[Plan, dict[str, Param]]:
    return merge([made for made, _ in plans], [params for _, params in plans])


def names(program: Program) -> list[str]:
    return [info.name for info in program.params]


def test_what_is_equal_is_there_once() -> None:
    located = ADD.replace("linalg.yield %s : f32", 'linalg.yield %s : f32 loc("elsewhere")')
    found, params = merged(plan(ADD, np.ones((64, 128), "f")), plan(located, np.ones((64, 128), "f"), made="q"))
    assert list(found.kernels) == ["add"] and list(params) == ["w"] and list(found.prepare) == ["p"]
    assert found.specialized == (found.main,)
    assert found.params == found.main.params


def test_another_weight_of_the_same_name_gets_a_number() -> None:
    zeros = plan(ADD, np.zeros((64, 128), "f"))
    found, params = merged(plan(ADD, np.ones((64, 128), "f")), zeros, zeros)
    assert names(found.main) == ["w", "p"]
    assert [names(program) for program in found.specialized] == [["w.1", "p.1"]] * 2
    assert sorted(params) == ["w", "w.1"] and params["w.1"].info.name == "w.1" and not params["w.1"].array().any()
    assert found.prepare["p.1"].params == (params["w.1"].info,) and found.prepare["p.1"].outputs[0].name == "p.1"


def test_a_weight_of_the_model_may_have_the_name_of_a_prepared_one() -> None:
    ones = np.ones((64, 128), "f")
    found, params = merged(plan(ADD, ones), plan(ADD, ones, raw="p", made="w"))
    assert [names(program) for program in found.programs] == [["w", "p"], ["p.1", "w.1"]]
    assert sorted(params) == ["p.1", "w"] and sorted(found.prepare) == ["p", "w.1"]


def test_another_kernel_of_the_same_name_gets_a_number() -> None:
    ones = np.ones((64, 128), "f")
    (main, params), (other, _) = plan(ADD, ones), plan(OTHER_ADD, ones)
    call = Step("func.call", facts={"kernel": "add", "open": []})
    inner = Step("scf.if", regions=(Routine((), (call,), ()),))
    routine = Routine((), (call, inner), ())
    other = Plan(Program((), (INFO,), other.main.params, other.main.calls, 0, routine), other.prepare, other.kernels)
    found, _ = merged((main, params), (other, params))
    [special] = found.specialized
    assert list(found.kernels) == ["add", "add.1"] and [call.kernel for call in special.calls] == ["add.1"]
    assert special.routine is not None
    assert [s.facts["kernel"] for s in special.routine.walk() if s.op == "func.call"] == ["add.1", "add.1"]
    assert found.prepare[special.params[1].name].calls[0].kernel == "add.1"


def test_programs_with_kernels_of_one_name_run_side_by_side() -> None:
    """The number is in the code as well."""
    plan_, params = merged(plan(ADD, np.ones((64, 128), "f")), plan(OTHER_ADD, np.ones((64, 128), "f")))
    made = assembled(Planned(plan_, params, "both"), api.make_options(cache=False))
    program = on_disk.LoadedProgram(made.link(), made.code, made.manifest, made.weights)
    for number, want in enumerate((3, 2)):
        np.testing.assert_array_equal(start(program, 1, number).run([])[0], want)


# Commands


@pytest.fixture
def path(tmp_path: Path) -> str:
    onnx.save(dense(), tmp_path / "net.onnx")
    return str(tmp_path / "net.onnx")


def test_the_command_compiles_them(path: str, ran: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert compile_tool.main([path, "--workers", "0", "--specialize", "x:2,16 scale:2,1", "--specialize", "n=5"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert [line.split(":", 1)[0] for line in out[2:4]] == ["specialized for x", "specialized for x"]
    assert out[3].startswith("specialized for x:5,16 scale:5,1: 1 kernel, arena ")
    is_right(tw.load_module(path.replace(".onnx", ".so")), 5)
    assert ran == ["EntryRunner"]


def test_check_says_what_each_costs(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert check_tool.main([path, "--specialize", "n=2", "--specialize", "n=4"]) == 0
    out = capsys.readouterr().out
    assert "specialized x:2,16 scale:2,1, " in out and "specialized x:4,16 scale:4,1, " in out
    assert check_tool.main([path, "--specialize", "n=2", "--specialize", "n=4", "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)["specializations"]
    assert first["sizes"] == "x:2,16 scale:2,1" and 2 * first["work"]["flops"] == second["work"]["flops"]


def test_check_refuses_sizes_that_do_not_fit() -> None:
    open_, own = (tw.check_model(dense(), specialize=asked) for asked in (None, [{"n": 3}]))
    assert open_.specializations == () and own.supported and own.problems == ()
    with pytest.raises(tw.ModelError, match=r"^the model: specialization x:3,15: "):
        tw.check_model(dense(), specialize=[{"x": (3, 15)}])


def test_explain_shows_each(path: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    asked = ["--specialize", "n=2", "--specialize", "n=4"]
    assert explain_tool.main([path, "--rounds", "1", "--no-cache", "--json", *asked]) == 0
    found = json.loads(capsys.readouterr().out)["specializations"]
    assert [program["sizes"] for program in found] == ["x:2,16 scale:2,1", "x:4,16 scale:4,1"]
    assert [program["kernels"][0]["results"][0] for program in found] == ["2x8xf32", "4x8xf32"]
    assert explain_tool.main([path, *asked, "--plot", str(tmp_path / "roofline.svg")]) == 2
    assert "--plot draws one program, --specialize gives 2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--specialize", "x:2,?"], "specialize has '2,?' for 'x'"),
        (["--specialize", "n"], "'n' is neither INPUT:SIZE,SIZE,... nor NAME=SIZE,NAME=SIZE,..."),
        (["--specialize", "n=2,n=3"], "'n=2,n=3' gives 'n' twice"),
        (["--specialize", "n=10", "--input-shape", "x:1..8,16"], "'n' is 10, which must be 1..8"),
        (["--specialize", "n=2", "--emit", "asm"], "--emit asm shows one program"),
    ],
)
def test_the_command_refuses_in_one_line(
    path: str, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = compile_tool.main([path, "--workers", "0", *words])
    except SystemExit as exit_:
        code = exit_.code
    out, err = capsys.readouterr()
    assert code == 2 and out == "" and err.count("\n") == 1 and message in err
    assert [file.name for file in Path(path).parent.iterdir()] == ["net.onnx"]
