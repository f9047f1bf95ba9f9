"""Operators that a user registers: their functions, their rules, and what is said of programs that call them."""

from __future__ import annotations

import json
import math
from functools import partial
from pathlib import Path
from typing import Any

import c_programs
import ml_dtypes
import numpy as np
import onnx
import onnx.parser
import pytest
from refused import refused

import tilewright as tw
from tilewright import te
from tilewright.core import custom_ops
from tilewright.driver import api
from tilewright.tools import check, compile, explain, header, inspect_artifact, run

pytestmark = pytest.mark.shares_kernels
X = np.arange(-4, 4, dtype=np.float32).reshape(2, 4)
HEAD = '<ir_version: 9, opset_import: ["": 20, "my.domain": 1]>'


@pytest.fixture(autouse=True)
def own_operators(monkeypatch: pytest.MonkeyPatch):
    """Each test has a registry of its own."""
    monkeypatch.setattr(custom_ops, "_OPERATORS", {})


def parsed(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f"{HEAD} {text}")


def twisted(shape: str = "N, 4") -> onnx.ModelProto:
    return parsed(f"""g (float[{shape}] x) => (float[{shape}] z)
    {{ y = my.domain.Twist<by = 3.0, words = ["a", "b"]>(x)  z = Relu(y) }}""")


def twist(x: np.ndarray, by: float = 1.0, words: Any = ()) -> np.ndarray:
    return x[:, ::-1] * np.float32(by)


def same(x: tw.Operand, **_: Any) -> tuple[Any, str]:
    return x.shape, x.dtype


def compiled(model: onnx.ModelProto, **options: Any) -> tw.Module:
    return tw.compile(model, workers=0, num_threads=1, cache=False, **options)


@pytest.mark.parametrize("shape", ["N, 4", "2, 4"])
@pytest.mark.parametrize("workers", [0, 1])
def test_a_program_calls_the_function_that_a_user_has_registered(shape: str, workers: int):
    seen = []

    def function(x: np.ndarray, **attributes: Any) -> np.ndarray:
        seen.append((x.flags.writeable, attributes))
        return twist(x, **attributes)

    tw.register_op("my.domain", "Twist", function, infer=lambda x, **_: (x.shape, x.dtype))  # a rule that no pickle has
    module = tw.compile(twisted(shape), workers=workers, cache=False)
    np.testing.assert_array_equal(module.run({"x": X})[0], np.maximum(X[:, ::-1] * 3, 0))
    assert seen == [(False, {"by": 3.0, "words": ["a", "b"]})]
    assert module.manifest.operators == ("my.domain::Twist",)


def test_without_a_rule_the_file_says_what_an_output_is():
    tw.register_op("my.domain", "Twist", twist)
    message = r"my\.domain\.Twist \(Twist_0\): dtype and rank of output 'y' are not known: give tw.register_op a rule"
    refused(lambda: compiled(twisted()), message, tw.UnsupportedError)
    model = twisted()
    model.graph.value_info.append(onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["N", 4]))
    np.testing.assert_array_equal(compiled(model)(X)[0], np.maximum(X[:, ::-1] * 3, 0))
    [problem] = tw.check_model(twisted()).problems
    assert problem.kind == "rule" and "infer=" in problem.remedy


def test_several_outputs_optional_inputs_text_and_narrow_types():
    model = parsed("""g (bfloat16[N] x, string[M] s) => (string[M] t, bfloat16[2, N] y, int64[1] n)
    { t, , y, n = my.domain.Many(x, "", s) }""")

    @tw.register_op(
        "my.domain",
        "Many",
        infer=lambda x, absent, s: [((None,), "string"), ((3,), "bool"), ((2, x.shape[0]), x.dtype), ((1,), np.int64)],
    )
    def many(x: np.ndarray, absent: None, s: np.ndarray) -> tuple[Any, ...]:
        assert absent is None and x.dtype == ml_dtypes.bfloat16
        return [word.upper() for word in s], None, np.stack([x, x]), np.array([len(s)])

    x = np.arange(3).astype(ml_dtypes.bfloat16)
    t, y, n = compiled(model)(x, np.array(["a", "b"], object))
    assert t.tolist() == ["A", "B"] and n.tolist() == [2]
    np.testing.assert_array_equal(y, np.stack([x, x]))


def test_rules_compute_with_sizes_and_see_small_values():
    model = parsed("""g (float[N, 4] x) => (float[M] y) <int64[2] axes = {1, 0}>
    { y = my.domain.Flat(x, axes) }""")
    seen = []

    def rule(x: Any, axes: tw.Operand) -> tuple[Any, str]:
        seen.append(axes.value)
        return (math.prod(x.shape),), x.dtype

    tw.register_op("my.domain", "Flat", lambda x, axes: x.transpose(axes).ravel(), infer=rule)
    module = compiled(model)
    assert seen[0].tolist() == [1, 0] and str(module.outputs[0].shape) == "(4*N,)"
    np.testing.assert_array_equal(module(X)[0], X.T.ravel())


def test_packed_functions_take_tensors_and_a_map():
    def flip(x: Any, attributes: Any) -> Any:
        assert attributes["by"] == 3.0
        given: Any = np.from_dlpack(x)
        return tw.nd.array(np.concatenate([given[:, :2], -given[:, 2:]], axis=1))

    tw.register_func("tw.test.flip", flip, override=True)
    tw.register_op("my.domain", "Twist", tw.get_global_func("tw.test.flip"), infer=same)
    np.testing.assert_array_equal(compiled(twisted())(X)[0], np.maximum(X * [1, 1, -1, -1], 0))


def test_it_takes_the_place_of_a_function_in_the_file_and_stands_in_bodies():
    model = parsed("""g (float[N, 4] x, bool c) => (float[N, 4] y)
    { y = If (c) <then_branch = a () => (float[N, 4] p) { p = my.domain.Twist(x) },
                  else_branch = b () => (float[N, 4] q) { q = my.domain.Own(x) }> }
    <domain: "my.domain", opset_import: ["": 20]> Own (x) => (y) { y = Neg(x) }""")
    tw.register_op("my.domain", "Twist", twist, infer=same)
    module = compiled(model)
    np.testing.assert_array_equal(module(X, np.array(True))[0], X[:, ::-1])
    np.testing.assert_array_equal(module(X, np.array(False))[0], -X)
    tw.register_op("my.domain", "Own", lambda x: x + 1, infer=same)
    np.testing.assert_array_equal(compiled(model)(X, np.array(False))[0], X + 1)


RULES = [
    (
        lambda x, **_: 3,
        r"node 'Twist_0' \(Twist\): the rule of operator 'my.domain::Twist' \(infer\) gives 3: give a pair of shape and dtype",
    ),
    (lambda x, **_: ((-1,), x.dtype), r"gives \(\(-1,\), 'float32'\): give a pair"),
    (lambda x, **_: (x.shape, "float33"), "'float33'.*: give a pair"),
    (lambda x: (x.shape, x.dtype), r"\(infer\) failed: TypeError: .*unexpected keyword"),
    (lambda x, **_: [], r"node 'Twist_0' \(Twist\): it has 1 outputs, the rule of its operator \(infer\) gives 0"),
]


@pytest.mark.parametrize("rule, message", RULES)
@pytest.mark.parametrize("workers", [0, 1])
def test_rules_that_fail_are_the_models_errors(rule: Any, message: str, workers: int):
    tw.register_op("my.domain", "Twist", twist, infer=rule)
    refused(lambda: tw.compile(twisted(), workers=workers, cache=False), message, tw.ModelError)


FUNCTIONS = [
    (
        lambda x, **_: 1 / 0,
        r"node 'Twist_0' cannot be computed: operator 'my.domain::Twist' failed: ZeroDivisionError: ",
    ),
    (lambda x, **_: x.fill(0), r"failed: ValueError: .*read-only"),
    (lambda x, **_: x.astype(np.float64), "node 'Twist_0' has a tensor of float64 where float32 is needed"),
    (lambda x, **_: x[0], r"gives output 0 of shape \[4\], not of rank 2"),
    (lambda x, **_: x[:, :3], r"output 0 of its operator has not the shape \[N, 4\] that was said of it"),
    (lambda x, **_: (), "gives 0 outputs, output 0 is needed"),
]


@pytest.mark.parametrize("function, message", FUNCTIONS)
def test_functions_that_fail_are_errors_of_the_run(function: Any, message: str):
    tw.register_op("my.domain", "Twist", function, infer=same)
    module = compiled(twisted())
    refused(lambda: module(X), message, tw.InputError)


def test_attributes_are_numbers_and_text():
    tw.register_op("my.domain", "Twist", twist, infer=same)
    model = twisted()
    model.graph.node[0].attribute.append(onnx.helper.make_attribute("t", onnx.numpy_helper.from_array(X)))
    refused(lambda: compiled(model), "attribute 't' is no number or text: give a tensor as an input", tw.ModelError)


def test_refuses_to_register_in_one_line():
    register: Any = tw.register_op
    tw.register_op("my.domain", "Twist", twist)
    refused(lambda: register("my.domain", "Twist", twist), "registered already: override=True", tw.InputError)
    refused(lambda: register("", "Relu", twist), "the domain is ONNX's own", tw.InputError)
    refused(lambda: register("my\n", "Op", twist), "is not the name of a domain", tw.InputError)
    refused(lambda: register("my", "Op", 3), "a int is not a function", tw.InputError)
    refused(lambda: register("my", "Op", twist, infer=3), "a int is not a function", tw.InputError)
    other = tw.register_op("my.domain", "Twist", override=True)(same)
    assert other is same and tw.check_model(twisted()).problems[0].kind == "rule"


def test_unregistered_operators_are_refused_with_what_to_do():
    [problem] = tw.check_model(twisted()).problems
    assert problem.kind == "domain" and "tw.register_op" in problem.remedy


def test_a_program_says_which_operators_it_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    tw.register_op("my.domain", "Twist", twist, infer=same)
    path = compiled(twisted()).export_library(tmp_path / "twist.so")
    np.testing.assert_array_equal(tw.load_module(path)(X)[0], np.maximum(X[:, ::-1] * 3, 0))
    custom_ops._OPERATORS.clear()
    message = (
        "node 'Twist_0' needs the operator 'my.domain::Twist', which is not registered in this process: call "
        r"tw.register_op\('my.domain', 'Twist', function\) before the program is loaded"
    )
    refused(partial(tw.load_module, path), message, tw.InputError)
    inspect_artifact.main([str(path)])
    assert "registered before it is loaded (tw.register_op): my.domain::Twist" in capsys.readouterr().out


def test_programs_that_call_operators_are_not_cached(tmp_path: Path):
    tw.register_op("my.domain", "Twist", twist, infer=same)
    for _ in range(2):
        report = tw.compile(twisted(), workers=0, cache=tmp_path).report
        assert not report.cached and any("operators of yours may change" in note for note in report.notes)


def test_registering_an_operator_is_seen_by_what_was_cached_before(tmp_path: Path):
    own = parsed("""g (float[N, 4] x) => (float[N, 4] y) { y = my.domain.Own(x) }
    <domain: "my.domain", opset_import: ["": 20]> Own (x) => (y) { y = Neg(x) }""")
    build = partial(tw.compile, own, workers=0, cache=tmp_path)
    np.testing.assert_array_equal(build()(X)[0], -X)
    assert build().report.cached
    tw.register_op("my.domain", "Own", lambda x: x + 1, infer=same)
    np.testing.assert_array_equal(build()(X)[0], X + 1)


REGISTERS = """
import numpy as np
import tilewright as tw
tw.register_op("my.domain", "Twist", lambda x, by, words: x * np.float32(by), lambda x, **_: (x.shape, x.dtype),
               override=True)
"""


def test_commands_run_a_file_that_registers(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    onnx.save(twisted("2, 4"), tmp_path / "m.onnx")
    (tmp_path / "ops.py").write_text(REGISTERS)
    np.savez(tmp_path / "x.npz", x=X)
    model, registers = str(tmp_path / "m.onnx"), ["--register", str(tmp_path / "ops.py")]
    assert check.main([model]) == 2
    assert check.main([model, *registers]) == 0
    assert "on the host Twist_0" in capsys.readouterr().out
    assert explain.main([model, *registers, "--no-cache", "--json"]) == 0
    assert [call["function"] for call in json.loads(capsys.readouterr().out)["host"]] == ["my.domain::Twist"]
    assert compile.main([model, *registers, "--no-cache", "-o", str(tmp_path / "m.so")]) == 0
    output = str(tmp_path / "y.npz")
    assert run.main([str(tmp_path / "m.so"), *registers, "--inputs", str(tmp_path / "x.npz"), "--outputs", output]) == 0
    np.testing.assert_array_equal(np.load(output)["z"], np.maximum(X * 3, 0))
    custom_ops._OPERATORS.clear()
    (tmp_path / "ops.py").write_text("1 / 0")
    with pytest.raises(SystemExit):
        check.main([model, *registers])
    assert "ops.py': division by zero" in capsys.readouterr().err


def scaled(x: te.Tensor, by: float = 1.0) -> te.Tensor:
    return te.compute(x.shape, lambda *i: x(*i) * by, name="scaled")


def multiplied(a: te.Tensor, b: te.Tensor) -> te.Tensor:
    k = te.reduce_axis((0, a.shape[1]), "k")
    return te.compute((a.shape[0], b.shape[1]), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="multiplied")


WRITTEN = """g (float[N, 8] x, float[8, 4] w) => (float[N, 4] z)
{ y = my.domain.Multiply(x, w)  s = my.domain.Scale<by = 3.0>(y)  z = Relu(s) }"""


@pytest.mark.parametrize("size", [None, 5])
def test_an_operator_of_tensor_expressions_is_fused_with_its_neighbours(size: int | None, tmp_path: Path):
    tw.register_op("my.domain", "Scale", compute=scaled)
    tw.register_op("my.domain", "Multiply", compute=multiplied)
    library = tw.compile(parsed(WRITTEN), input_shapes={"N": size} if size else None)
    assert len(library.manifest.kernels) == 1 and not library.manifest.operators
    library.export_library(tmp_path / "m.so")
    custom_ops._OPERATORS.clear()
    x, w = (np.random.default_rng(seed).standard_normal(s).astype(np.float32) for seed, s in ((1, (5, 8)), (2, (8, 4))))
    for each in (library, tw.load_module(tmp_path / "m.so")):
        np.testing.assert_allclose(each.run([x, w])[0], np.maximum(x @ w * 3, 0), rtol=1e-5, atol=1e-5)


def test_what_an_operator_of_tensor_expressions_writes_may_change():
    model = parsed("g (float[3] x) => (float[3] z) { z = my.domain.Scale(x) }")
    for factor in (2, 5):
        tw.register_op("my.domain", "Scale", compute=partial(scaled, by=factor), override=True)
        assert tw.compile(model).run([np.ones(3, np.float32)])[0].tolist() == [factor] * 3


@pytest.mark.parametrize(
    ("compute", "message"),
    [
        (lambda x: te.compute((2,), lambda i: x[i + 3]), "the computation of operator 'my.domain::Scale' failed: Expr"),
        (lambda x: 1 / 0, "failed: ZeroDivisionError"),
        (lambda x: 3, "gives 3: give a te.Tensor"),
        (lambda x: x, "gives an input as it is"),
    ],
)
def test_wrong_computations_of_an_operator_are_refused(compute: Any, message: str):
    tw.register_op("my.domain", "Scale", compute=compute)
    with pytest.raises(tw.ModelError, match=message):
        tw.compile(parsed("g (float[3] x) => (float[3] z) { z = my.domain.Scale(x) }"))


def test_an_operator_is_a_function_or_a_computation():
    with pytest.raises(tw.InputError, match="compute says what it gives"):
        tw.register_op("my.domain", "Scale", twist, compute=scaled)
    with pytest.raises(tw.InputError, match="a int is not a function"):
        tw.register_op("my.domain", "Scale", compute=wrong())


def wrong() -> Any:
    return 3


def scheduled(outs: list[te.Tensor]) -> te.Schedule:
    """Rows of vectors of four."""
    schedule, [c] = te.create_schedule(outs[0].op), outs
    outer, inner = schedule[c].split(c.op.axis[1], factor=4)
    schedule[c].reorder(c.op.axis[0], outer, c.op.reduce_axis[0], inner)
    schedule[c].vectorize(inner)
    schedule[c].parallel(c.op.axis[0])
    return schedule


TWICE = """g (float[N, 8] x, float[8, 8] w) => (float[N, 8] z)
{ y = my.domain.Multiply(x, w)  s = Relu(y)  t = my.domain.Multiply(s, w)  z = Add(t, s) }"""


@pytest.mark.parametrize("size", [None, 5])
def test_an_operator_has_the_schedule_of_its_user(size: int | None):
    tw.register_op("my.domain", "Multiply", compute=multiplied, schedule=scheduled)
    library = tw.compile(parsed(TWICE), input_shapes={"N": size} if size else None)
    assert len(library.manifest.kernels) == 3  # both products are one
    x, w = (np.random.default_rng(seed).standard_normal((n, 8)).astype(np.float32) for seed, n in ((1, 5), (2, 8)))
    wanted = np.maximum(x @ w, 0)
    np.testing.assert_allclose(library.run([x, w])[0], wanted @ w + wanted, rtol=1e-5, atol=1e-5)
    own = next(part for part in library.get_source("schedule").split("// ") if part.startswith("matmul"))
    assert own.count("transform.structured.tile_using_for") == 3


def test_an_operator_with_a_schedule_stands_in_branches_and_reads_weights():
    tw.register_op("my.domain", "Multiply", compute=multiplied, schedule=scheduled)
    model = parsed("""g (float[4, 8] x, bool c) => (float[4, 8] z) <float[8, 8] w = {{{}}}>
    {{ y = my.domain.Multiply(x, w)
      z = If(c) <then_branch = t () => (float[4, 8] a) {{ a = my.domain.Multiply(y, w) }},
                 else_branch = e () => (float[4, 8] b) {{ b = Relu(y) }}> }}""".format(", ".join(["0.5"] * 64)))  # fmt: skip
    library, x = tw.compile(model), np.random.default_rng(1).standard_normal((4, 8)).astype(np.float32)
    y = np.repeat(x.sum(1, keepdims=True) / 2, 8, 1)
    for condition, wanted in ((True, y * 4), (False, np.maximum(y, 0))):
        np.testing.assert_allclose(library.run([x, np.array(condition)])[0], wanted, rtol=1e-5, atol=1e-5)


def tensorized(outs: list[te.Tensor]) -> te.Schedule:
    """Rows of calls of a function of C."""
    schedule, [c] = te.create_schedule(outs[0].op), outs
    a, b = te.placeholder((8,), name="a"), te.placeholder((8, 8), name="b")
    k = te.reduce_axis((0, 8), "k")
    row = te.compute((8,), lambda j: te.sum(a[k] * b[k, j], axis=k), name="row")
    intrinsic = te.decl_tensor_intrin(
        row.op, lambda ins, outs: te.call_extern("int32", "row", *(each.access_ptr() for each in (*outs, *ins)))
    )
    schedule[c].tensorize(c.op.axis[1], intrinsic)
    schedule[c].pragma(c.op.axis[0], "import_c", """void row(float *c, const float *a, const float *b) {
      for (int k = 0; k < 8; ++k) for (int j = 0; j < 8; ++j) c[j] += a[k] * b[8 * k + j]; }""")  # fmt: skip
    return schedule


@pytest.mark.parametrize("size", [None, 5])
def test_the_schedule_of_an_operator_calls_functions_of_its_user(size: int | None, tmp_path: Path):
    tw.register_op("my.domain", "Multiply", compute=multiplied, schedule=tensorized)
    library = tw.compile(parsed(TWICE), input_shapes={"N": size} if size else None)
    library.export_library(tmp_path / "net.so")
    x, w = (np.random.default_rng(seed).standard_normal((n, 8)).astype(np.float32) for seed, n in ((1, 5), (2, 8)))
    wanted = np.maximum(x @ w, 0)
    for each in (library, tw.load_module(tmp_path / "net.so")):
        np.testing.assert_allclose(each.run([x, w])[0], wanted @ w + wanted, rtol=1e-5, atol=1e-5)
    with pytest.raises(tw.TargetError, match="code of your own is for one target"):
        tw.compile(parsed(TWICE), target="x86 -mcpu=x86-64-v2,x86-64-v3")
    if size:
        with pytest.raises(tw.CompileError, match="an engine has no code of your own"):
            tw.compile(parsed(TWICE), input_shapes={"N": size}, executor="engine")


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        (lambda outs: 1 / 0, "the schedule of operator 'my.domain::Scale' failed: ZeroDivisionError"),
        (lambda outs: outs[0], "give the te.Schedule of its outputs"),
        (lambda outs: te.create_schedule(te.compute((3,), lambda i: outs[0][i] + 1).op), "is not that of its outputs"),
    ],
)
def test_wrong_schedules_of_an_operator_are_refused(schedule: Any, message: str):
    tw.register_op("my.domain", "Scale", compute=scaled, schedule=schedule)
    with pytest.raises(tw.ModelError, match=message):
        tw.compile(parsed("g (float[3] x) => (float[3] z) { z = my.domain.Scale(x) }"))


def test_a_schedule_is_of_a_computation():
    with pytest.raises(tw.InputError, match="a schedule is of what compute writes"):
        tw.register_op("my.domain", "Scale", twist, schedule=scheduled)


def test_c_calls_an_operator_of_tensor_expressions(tmp_path: Path):
    tw.register_op("my.domain", "Multiply", compute=multiplied, schedule=scheduled)
    onnx.save(parsed(TWICE.replace("N", "5")), tmp_path / "net.onnx")
    program = tmp_path / "net.so"
    api.compile_to_file(str(tmp_path / "net.onnx"), program)
    custom_ops._OPERATORS.clear()
    assert header.main([str(program), "--example", str(tmp_path / "net.c"), "--quiet"]) == 0
    built = c_programs.build(tmp_path / "net.c", tmp_path / "net")
    x, w = (np.random.default_rng(seed).standard_normal((n, 8)).astype(np.float32) for seed, n in ((1, 5), (2, 8)))
    for name, array in (("x", x), ("w", w)):
        array.tofile(tmp_path / name)
    done = c_programs.run(built, program, "no weights", *(tmp_path / name for name in ("x", "w", "z")))
    assert (done.returncode, done.stderr) == (0, "")
    wanted = np.maximum(x @ w, 0)
    found = np.fromfile(tmp_path / "z", np.float32).reshape(5, 8)
    np.testing.assert_allclose(found, wanted @ w + wanted, rtol=1e-5, atol=1e-5)


def test_the_command_prints_the_schedule_of_an_operator(tmp_path: Path):
    (tmp_path / "own.py").write_text(OWN)
    onnx.save(parsed(TWICE.replace("N", "5")), tmp_path / "net.onnx")
    options = ["--register", str(tmp_path / "own.py"), "--emit", "schedule", "-o", str(tmp_path / "schedule.mlir")]
    assert compile.main([str(tmp_path / "net.onnx"), *options, "--quiet"]) == 0
    text = (tmp_path / "schedule.mlir").read_text()
    own = next(part for part in text.split("// ") if part.startswith("matmul"))
    assert own.count("transform.structured.tile_using_for") == 3 and "tw.shared_loop" in own


OWN = """
import tilewright as tw
from tilewright import te

def multiplied(a, b):
    k = te.reduce_axis((0, a.shape[1]), "k")
    return te.compute((a.shape[0], b.shape[1]), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="multiplied")

def scheduled(outs):
    schedule, [c] = te.create_schedule(outs[0].op), outs
    outer, inner = schedule[c].split(c.op.axis[1], factor=4)
    schedule[c].reorder(c.op.axis[0], outer, c.op.reduce_axis[0], inner)
    schedule[c].vectorize(inner)
    schedule[c].parallel(c.op.axis[0])
    return schedule

tw.register_op("my.domain", "Multiply", compute=multiplied, schedule=scheduled)
"""
