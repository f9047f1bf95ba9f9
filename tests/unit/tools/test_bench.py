"""``tilewright bench``: what it tells, and how it refuses."""

import json
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from cold_start import replace_cold_start
from onnx import helper

import tilewright as tw
from tilewright.tools import bench
from tilewright.tools.benchmarks import children, kernel_bench, markdown, model_bench, op_bench, resident, rivals, table
from tilewright.tools.benchmarks.measure import relative_error
from tilewright.tools.debugging.oracle import make_session
from tilewright.tools.networks import kernels as network_kernels
from tilewright.tools.networks.open_sizes import open_sizes
from tilewright.tools.networks.operators import OPERATORS, OperatorModel
from tilewright.tools.run import make_inputs, write_arrays

SHAPE = ("--input-shape", "x:2,16")
FEW = ("--rounds", "2")
pytestmark = pytest.mark.shares_kernels
COLD = children.compile_cold, children.measure_run_memory


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Rounds without length, and no processes for the costs of a cold start: ``cold`` brings them back."""
    monkeypatch.setattr(model_bench, "SLICE_SECONDS", 0.0)
    monkeypatch.setattr(kernel_bench, "KERNEL_SLICE_SECONDS", 0.0)
    replace_cold_start(monkeypatch)


@pytest.fixture
def cold(quick, monkeypatch):
    for function in COLD:
        monkeypatch.setattr(children, function.__name__, function)


@pytest.fixture
def path(tmp_path) -> str:
    nodes = [helper.make_node("Relu", ["x"], ["y"], "relu"), helper.make_node("Cast", ["i"], ["z"], "cast", to=1)]
    inputs = [
        helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 16]),
        helper.make_tensor_value_info("i", onnx.TensorProto.INT64, [8]),
    ]
    shapes = {"y": ["n", 16], "z": [8]}
    outputs = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    graph = helper.make_graph(nodes, "net", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(model, tmp_path / "net.onnx")
    return str(tmp_path / "net.onnx")


@pytest.fixture
def program(path) -> str:
    """The model compiled for a size, beside it."""
    program = path.replace(".onnx", ".so")
    tw.compile(path, input_shapes={"x": (2, 16)}, workers=0).export_library(program)
    return program


class Wrong(rivals.OnnxRuntime):
    """A rival whose answers differ."""

    def run(self, inputs):
        return [output + 1 for output in super().run(inputs)]


def test_compares_with_another_runtime(path, capsys, cold):
    assert bench.main([path, "--compare", "onnxruntime", *SHAPE, *FEW, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    [run] = record["runs"]
    [rival] = run["rivals"]
    assert (run["threads"], record["rounds"], rival["name"], run["fastest"]) == (1, 2, "onnxruntime", "onnxruntime")
    assert rival["outputs"] == [{"name": "y", "error": 0.0}, {"name": "z", "error": 0.0}]
    assert record["compile"]["peak_bytes"] > 10 << 20
    assert record["compile"]["seconds"] >= sum(record["compile"]["stages"].values()) > 0
    assert record["compile"]["cached"] and record["compile"]["cached_seconds"] > 0
    assert record["compile"]["peak_bytes"] < 1.5 * record["weight_bytes"] + 400_000_000
    assert 10 << 20 < record["running"]["peak_bytes"] < 1.15 * record["weight_bytes"] + 120_000_000
    for calls in (run["calls"], rival["calls"]):
        assert 0 < calls["p50"] <= calls["p90"] <= calls["p99"]
    for spread in (run["seconds"], rival["seconds"], rival["ratio"]):
        assert 0 < spread["low"] <= spread["median"] <= spread["high"]


def test_compares_with_the_program_for_all_sizes(path, capsys):
    assert bench.main([path, "--compare", "open", *SHAPE, *FEW, "--json"]) == 0
    [rival] = json.loads(capsys.readouterr().out)["runs"][0]["rivals"]
    assert rival["name"] == "open"
    assert rival["outputs"] == [{"name": "y", "error": 0.0}, {"name": "z", "error": 0.0}]


def test_says_so_in_a_table(path, capsys):
    assert bench.main([path, "--compare", "onnxruntime", *SHAPE, *FEW]) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0].endswith("net.onnx: 2 rounds")
    assert lines[1].startswith("compiled in ") and lines[2].startswith("runs in peak memory ")
    assert lines[3].split() == [word for cell in model_bench._HEAD for word in cell.split()]
    assert lines[4].startswith("tilewright ")
    assert lines[5].startswith("onnxruntime ") and lines[5].endswith("agree")
    assert err == ""


def test_several_numbers_of_threads_are_measured_together(program, capsys):
    assert bench.main([program, *FEW, "--threads", "1", "--threads", "2", "--json"]) == 0
    one, two = json.loads(capsys.readouterr().out)["runs"]
    assert (one["threads"], two["threads"]) == (1, 2)
    assert one["speedup"] == {"median": 1.0, "low": 1.0, "high": 1.0}
    assert two["speedup"]["median"] > 0 and two["fastest"] is None
    assert two["machine_speedup"]["median"] > 0 and two["speedup_share"]["median"] > 0


@pytest.mark.slow
def test_several_models_are_a_table(path, tmp_path, capsys):
    other = tmp_path / "other.onnx"
    other.write_bytes((tmp_path / "net.onnx").read_bytes())
    words = [path, str(other), "--compare", "onnxruntime", *SHAPE, "--rounds", "1", "-o", str(tmp_path / "t.md")]
    assert bench.main(words) == 0
    text = (tmp_path / "t.md").read_text()
    assert capsys.readouterr().out.rstrip() == text.rstrip()
    rows = [line.split(" | ")[0] for line in text.splitlines() if line.startswith("| ")]
    models = ["| network", "| net", "| other"]
    assert rows == [*models, "| geometric mean", *models, *models]
    assert f"onnxruntime {onnxruntime.__version__}" in text


def test_files_of_one_name_are_told_apart(program, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(
        table, "run_module", lambda name, words: ({**record("", {}), "model": words[0], "compile": None}, 0, 0.0)
    )
    other = tmp_path / "b" / "net.so"
    other.parent.mkdir()
    other.write_bytes((tmp_path / "net.so").read_bytes())
    again = str(tmp_path / "b" / ".." / "net.so")  # the first one by another name
    assert bench.main([program, str(other), again, "--rounds", "1"]) == 0
    rows = [line.split(" | ")[0] for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert rows == ["| network", f"| {tmp_path.name}/net.so", "| b/net.so"] * 2


@pytest.mark.parametrize(
    "models, labels",
    [
        (["x/a.onnx", "y/b.onnx"], ["a", "b"]),
        (["x/m.onnx", "y/m.onnx", "z.onnx"], ["x/m.onnx", "y/m.onnx", "z"]),
        (["m.onnx", "m.so"], ["m.onnx", "m.so"]),
        (["1/x/m.onnx", "2/x/m.onnx"], ["1/x/m.onnx", "2/x/m.onnx"]),
        (["m.onnx", "x/m.onnx"], ["m.onnx", "x/m.onnx"]),
    ],
)
def test_names_are_as_long_as_it_takes(models, labels):
    assert table.make_labels(models) == labels


def spread(value: float) -> dict[str, float]:
    return {"median": value, "low": value, "high": value}


CALLS = {"p50": 1.0, "p90": 2.0, "p99": 3.0}


def record(name: str, ratios: dict[str, float]) -> dict:
    """A model that takes 1 s on two threads, twice as long on one, and its rivals."""
    rivals = [
        {
            "name": n,
            "seconds": spread(1 / r),
            "calls": CALLS,
            "ratio": spread(r),
            "outputs": [{"error": 1e-6}],
            "agrees": True,
        }
        for n, r in ratios.items()
    ]
    fastest = max(ratios, key=lambda n: ratios[n], default=None)
    runs = [{"threads": n, "seconds": spread(2 / n), "calls": CALLS, "speedup": spread(n), "machine_speedup": spread(n),
             "speedup_share": spread(1.0), "rivals": rivals, "fastest": fastest} for n in (1, 2)]  # fmt: skip
    memory = {"peak_bytes": 5_000_000}
    return {
        "model": f"x/{name}.onnx",
        "compile": {"seconds": 1.5, "cached_seconds": 0.25, "cached": True, **memory},
        "running": memory,
        "runs": runs,
    }


def test_the_table_compares_with_the_faster_and_ends_with_the_mean(monkeypatch):
    words = [
        "a.onnx",
        "b.onnx",
        "--compare",
        "onnxruntime",
        "--compare",
        "openvino",
        "--threads",
        "1",
        "--threads",
        "2",
    ]
    records = {"a.onnx": record("a", {"onnxruntime": 0.5, "openvino": 2.0}),
               "b.onnx": record("b", {"onnxruntime": 0.5, "openvino": 0.25})}  # fmt: skip
    monkeypatch.setattr(table, "run_module", lambda name, words: (records[words[0]], 0, 0.0))
    monkeypatch.setattr(markdown, "version", lambda package: "1.0")  # OpenVINO is no package of the tests
    found, text = table.measure_models(bench._parser().parse_args(words))
    assert found["geometric_means"] == {"1": pytest.approx(1.0), "2": pytest.approx(1.0)}
    lines = text.splitlines()
    one, two = lines.index("1 thread:"), lines.index("2 threads:")
    a = "| a | 2000 (2000-2000) | 2000 (2000-2000) | 500 (500-500) | **2 (2-2)** | 1.0e-06 |"
    assert a in lines[one:two]
    assert (
        "| b | 1000 (1000-1000) | 2000 (2000-2000) | 4000 (4000-4000) | **0.5 (0.5-0.5)** | 1.0e-06 | x 2 (2-2) | x 2 (2-2) | 100% |"
        in lines
    )
    assert "| geometric mean |  |  |  | **1.00** |  |" in lines
    assert lines[-1] == "| b | 1.5 | 0.25 | 5 | 5 |"
    assert "| b | 2000, 3000 | 2000, 3000 | 2000, 3000 |" in lines


def test_kernels_are_a_table(capsys, monkeypatch, tmp_path):
    small = {
        "conv": network_kernels._conv(8, 16, 16, 3),
        "softmax": network_kernels._softmax_of_rows(8, 64),
        "rows": network_kernels._gather(50, 8, 9),
    }
    monkeypatch.setattr(network_kernels, "KERNELS", small)
    assert bench.main(["--kernels", "conv", "softmax", "rows", "--rounds", "2", "--json"]) == 0
    conv, softmax, rows = json.loads(capsys.readouterr().out)["kernels"]
    assert conv["flops"] == 2 * 16 * 16 * 9 * 8 * 8 and len(conv["schedules"]) == 1  # conversions are not counted
    assert softmax["flops"] == 0 and softmax["bound"] == "memory" and softmax["bytes"] == 2 * 8 * 64 * 4
    assert rows["bytes"] == 2 * 9 * 8 * 4  # not the table's
    assert bench.main(["--kernels", "softmax", "--rounds", "1", "-o", str(tmp_path / "k.md")]) == 0
    [head, _, row] = [line for line in (tmp_path / "k.md").read_text().splitlines() if line.startswith("|")]
    assert head.startswith("| kernel | ms |") and row.startswith("| softmax of 8 rows of 64 |")


def test_operators_are_a_table_with_the_slowest_first(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(op_bench, "_OPERATOR_SECONDS", 0.0)
    words = ["--ops", "Not", "FastGelu", "Range", "--rounds", "1"]
    assert bench.main([*words, "--json"]) == 0
    records = json.loads(capsys.readouterr().out)["operators"]
    assert {record["name"].split()[0] for record in records} == {"Not", "FastGelu", "Range"}
    ratios = [record["ratio"]["median"] for record in records]
    assert ratios == sorted(ratios, reverse=True) and all(record["error"] < 1e-5 for record in records)
    assert not any(record["plain_loops"] for record in records if record["name"].startswith(("Not", "FastGelu")))
    assert all(record["share"]["median"] > 0 for record in records)
    assert {record["bound"] for record in records if record["name"].startswith("Not")} == {"memory"}
    assert bench.main([*words[:2], "--rounds", "1", "-o", str(tmp_path / "ops.md")]) == 0
    rows = [line for line in (tmp_path / "ops.md").read_text().splitlines() if line.startswith("|")]
    assert rows[0].startswith("| operator | threads |") and rows[2].startswith("| Not 12x512x512 | 1 |")


def test_operators_of_all_sizes_are_a_table(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(op_bench, "_OPERATOR_SECONDS", 0.0)
    large = OperatorModel("float[101,101] x; int64[3] i", "y = Gather(x, i)", {"i": (0, 100)})

    def refuse_strange(model):
        if model.graph.name == "strange":
            raise tw.UnsupportedError("cannot open this")
        return open_sizes(model)

    monkeypatch.setattr(op_bench, "open_sizes", refuse_strange)
    chosen = {"few": OperatorModel("float[3,4] x", "y = Neg(x)"), "many": large,
              "strange": OperatorModel("float[2] x", "y = Neg(x)")}  # fmt: skip
    monkeypatch.setattr(op_bench, "OPERATORS", chosen)
    words = ["--ops", "--compare", "open", "--rounds", "1"]
    assert bench.main([*words, "--json"]) == 0
    strange, *found = json.loads(capsys.readouterr().out)["operators"]
    few, many = sorted(found, key=lambda record: record["name"])
    assert (strange["name"], strange["refused"]) == ("strange", "cannot open this")
    assert (few["elements"], few["not_opened"], few["error"]) == (12, [], 0.0)
    assert (many["elements"], many["not_opened"], many["error"]) == (101 * 101, ["i"], 0.0)
    assert bench.main([*words, "few", "strange", "-o", str(tmp_path / "open.md")]) == 0
    lines = (tmp_path / "open.md").read_text().splitlines()
    _, _, refused, small = [line for line in lines if line.startswith("|")]
    assert refused.startswith("| strange | 1 |") and "not opened: cannot open this" in refused
    assert small.startswith("| few | 1 |") and small.endswith("| small |")


@pytest.mark.parametrize(
    "words, message",
    [
        (["--ops", "Nought"], "there is no operator 'Nought'"),
        (["--ops", "--kernels"], "give one of them"),
        (["--ops", "--compare", "openvino"], "with onnxruntime or open"),
        (["--ops", "--compare", "open", "--input-shape", "x:1"], "leave all others out"),
    ],
)
def test_operators_are_refused_in_one_line(words, message, capsys):
    assert bench.main(words) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and message in err


def test_the_operators_are_valid_models():
    for name, operator in OPERATORS.items():
        model = operator.build(name)
        assert model.graph.output and operator.draw_inputs(model)
        assert len(model.graph.output) == operator.outputs


def test_a_kernel_is_held_against_what_bounds_it():
    times = {"kernel": [4.0, 8.0], "peak": [1.0, 2.0], "copy": [1.0, 1.0]}
    assert kernel_bench.judge(times, 2.0) == {"bound": "compute", "share": spread(0.5)}
    assert kernel_bench.judge(times, 0.0)["bound"] == "memory"


@pytest.mark.parametrize("name", network_kernels.KERNELS)
def test_the_kernels_are_valid_models(name):
    model = network_kernels.get(name).build()
    onnx.checker.check_model(model, full_check=True)
    assert model.SerializeToString() == network_kernels.get(name).build().SerializeToString()


@pytest.mark.parametrize("name", ["conv3x3_7", "depthwise_14", "attention_128", "matmul", "softmax_1000", "gather"])
def test_the_kernels_compute_what_the_oracle_does(name):
    model = network_kernels.get(name).build()
    module = tw.compile(model, num_threads=1)
    inputs = make_inputs(module.inputs, "random", 0)
    [want] = make_session(model).run(None, inputs)
    assert relative_error(module.run(inputs)[0], np.asarray(want)) < 1e-5


def test_running_a_program_imports_no_mlir(program):
    words = [sys.executable, "-m", "tilewright.tools.benchmarks.resident", program, "{}"]
    found = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    assert found["mlir"] is False
    assert 10 << 20 < found["peak_bytes"] < 120_000_000
    assert resident.peak_bytes() > 10 << 20


def test_a_child_that_dies_is_an_error():
    with pytest.raises(tw.CompileError, match="No module named"):
        children.run_module("no_such_command", [])


def test_the_weights_beside_a_model_count(tmp_path):
    array = np.ones((64, 64), np.float32)
    graph = helper.make_graph([], "g", [], [], [onnx.numpy_helper.from_array(array, "w")])
    model = helper.make_model(graph)
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    whole = (tmp_path / "m.onnx").stat().st_size + (tmp_path / "w.bin").stat().st_size
    assert children.weight_bytes(str(tmp_path / "m.onnx")) == whole >= array.nbytes
    with pytest.raises(tw.ModelError, match="cannot read"):
        children.weight_bytes(str(tmp_path / "other.onnx"))


def test_other_answers_are_a_failure(program, capsys, monkeypatch):
    monkeypatch.setitem(rivals.RIVALS, "onnxruntime", Wrong)
    assert bench.main([program, "--compare", "onnxruntime", *FEW]) == bench.DISAGREE
    assert capsys.readouterr().out.endswith("DIFFER\n")
    assert bench.main([program, "--compare", "onnxruntime", *FEW, "--quiet"]) == bench.DISAGREE
    assert capsys.readouterr().out == ""


def test_takes_a_compiled_program(program, capsys):
    assert bench.main([program, *FEW]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("net.so: 2 rounds")
    assert lines[1].startswith("runs in peak memory ") and " of " not in lines[1]
    assert lines[2].split() == ["runtime", "threads", "ms", "quartiles", "p90", "p99"]
    assert bench.main([program, "--compare", "onnxruntime", *FEW]) == 0


def test_takes_inputs_that_are_given(program, tmp_path, capsys):
    arrays = {info.name: np.ones(info.static_shape, info.dtype) for info in tw.load_module(program).inputs}
    write_arrays(tmp_path / "x.npz", arrays)
    write_arrays(tmp_path / "small.npz", {name: array[:1] for name, array in arrays.items()})
    assert bench.main([program, "--inputs", str(tmp_path / "x.npz"), *FEW]) == 0
    assert bench.main([program, "--inputs", str(tmp_path / "small.npz"), *FEW]) == 2
    assert "expected (2, 16)" in capsys.readouterr().err


def test_a_program_of_open_sizes_has_nothing_to_measure(path, capsys):
    program = path.replace(".onnx", ".so")
    tw.compile(path, workers=0).export_library(program)
    assert bench.main([program, *FEW]) == 2
    assert "net.so': sizes are known only at run time; give --input-shape x:1,16\n" in capsys.readouterr().err
    assert bench.main([program, *FEW, "--input-shape", "n=3", "--json"]) == 0
    assert bench.main([program, *FEW, *SHAPE, "--compare", "onnxruntime"]) == 0


@pytest.mark.parametrize(
    "words, message",
    [
        (["--rounds", "0"], "--rounds is 0"),
        (["--threads", "0"], "--threads is 0"),
        (["--kernels"], "there is no kernel"),
        (["-o", "no/such/x.md"], "there is no folder no/such"),
        ([], "--input-shape x:"),
        (["--compare", "openvino"], "pip install absent_package"),
    ],
)
def test_refuses_in_one_line(words, message, path, capsys, monkeypatch):
    monkeypatch.setattr(rivals.OpenVino, "package", "absent_package")
    assert bench.main([path, *words]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    assert message in err


def test_a_program_without_its_model_has_no_rival(path, tmp_path, capsys):
    assert bench.main([str(tmp_path / "other.so"), "--compare", "onnxruntime"]) == 2
    assert "give the ONNX file instead" in capsys.readouterr().err


def test_a_rival_that_refuses_the_model_is_one_line(path):
    with (
        pytest.raises(tw.ModelError, match=r"^onnxruntime cannot run 'm': no such"),
        rivals.translating_errors("onnxruntime", "m"),
    ):
        raise RuntimeError("no such\nthing")


def test_every_rival_is_of_the_table():
    assert all(issubclass(rival, rivals.Rival) for rival in rivals.RIVALS.values())
    with pytest.raises(SystemExit):
        bench.main(["x.onnx", "--compare", "unheard"])
