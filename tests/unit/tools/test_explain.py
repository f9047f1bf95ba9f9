"""``tilewright explain``: kernels with their nodes, work and time."""

import json
from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tilewright.core.program import Call, Kernel, Program, Signature
from tilewright.core.target import detect_host
from tilewright.dialects import ir
from tilewright.dialects.context import make_context
from tilewright.driver.assembly import Stepwise
from tilewright.driver.machine import Machine, make_copy_probe
from tilewright.passes.analysis.signature import make_signature
from tilewright.passes.ir.kernel import list_functions
from tilewright.tools import _plot, explain


@pytest.fixture
def path(tmp_path):
    """``softmax(relu(x w + b))``"""
    random = np.random.default_rng(0)
    weights = {"w": random.standard_normal((32, 48)), "b": random.standard_normal(48)}
    nodes = [
        helper.make_node("Gemm", ["x", "w", "b"], ["g"], "gemm"),
        helper.make_node("Relu", ["g"], ["r"], "relu"),
        helper.make_node("Softmax", ["r"], ["y"], "softmax"),
    ]
    x, y = (helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, ["n", k]) for n, k in (("x", 32), ("y", 48)))
    initial = [numpy_helper.from_array(a.astype(np.float32), n) for n, a in weights.items()]
    graph = helper.make_graph(nodes, "net", [x], [y], initial)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), tmp_path / "net.onnx")
    return str(tmp_path / "net.onnx")


def test_json_has_each_kernel_with_its_nodes_and_work(path, capsys):
    assert explain.main([path, "--json", "--rounds", "2", "--input-shape", "x:16,32"]) == 0
    record = json.loads(capsys.readouterr().out)
    gemm = next(kernel for kernel in record["kernels"] if ["gemm", "relu"] in kernel["nodes"])
    assert gemm["flops"] == 16 * 48 * (2 * 32 + 2)
    assert gemm["bytes"] >= 4 * (16 * 32 + 32 * 48 + 16 * 48)  # the weight is packed in blocks
    assert gemm["schedule"].startswith("parallel")
    assert gemm["calls"] == 1
    assert "16x32xf32" in gemm["inputs"] and gemm["results"] == ["16x48xf32"]
    assert gemm["layout"].startswith("weight in blocks of ")
    assert gemm["flops_per_second"] == gemm["flops"] / gemm["seconds"]
    assert gemm["bytes_per_second"] == gemm["bytes"] / gemm["seconds"]
    assert gemm["bound"] in ("compute", "memory")
    assert sum(kernel["share"] for kernel in record["kernels"]) == pytest.approx(1)
    assert record["arena_bytes"] == 4 * 16 * 48, "the one intermediate"
    times = [kernel["seconds"] for kernel in record["kernels"]]
    assert times == sorted(times, reverse=True)


@pytest.mark.parametrize("options, shown", [(["--top", "1"], 1), (["--all"], 2), ([], 2)])
def test_the_table_shows_the_slowest(path, options, shown, capsys):
    assert explain.main([path, "--rounds", "1", *options, "--input-shape", "x:16,32"]) == 0
    out = capsys.readouterr().out
    assert "2 calls of 2 kernels" in out
    assert "an arena of 3.1 kB" in out
    assert out.count("net.onnx") == 1
    groups = [line for line in out.splitlines() if line in ("gemm + relu", "softmax")]
    assert len(groups) == shown and set(groups) <= {"gemm + relu", "softmax"}
    assert len([line for line in out.splitlines() if line.startswith("  shapes ")]) == shown
    assert out.count("steps: parallel") == shown


MACHINE = {"flops": 100.0, "bytes": 10.0}


def stepwise(kernel: Kernel, calls: int) -> Stepwise:
    program = Program((), (), (), tuple(Call("k", (), (f"n{i}",)) for i in range(calls)), 0)
    kernel = replace(kernel, signature=Signature(("2xf32",), ("2xf32",)))
    return Stepwise(program, {"k": kernel}, None, None)  # type: ignore


@pytest.mark.parametrize(
    "flops, nbytes, bound, share", [(50, 4, "compute", 0.25), (50, 8, "memory", 0.4), (0, 8, "memory", 0.4)]
)
def test_a_kernel_is_judged_by_what_bounds_it(flops, nbytes, bound, share):
    kernel = Kernel("k", b"", 1, False, flops=flops, bytes=nbytes)
    [row] = explain.explain("m", stepwise(kernel, 2), [1.0, 3.0], MACHINE)["kernels"]
    assert (row["bound"], row["peak_share"]) == (bound, pytest.approx(share))
    assert (row["calls"], row["flops"], row["bytes"], row["seconds"]) == (2, 2 * flops, 2 * nbytes, 4.0)


def test_plain_loops_and_many_calls_are_told():
    record = explain.explain("m", stepwise(Kernel("k", b"", 1, False), 5), [1.0] * 5, MACHINE)
    assert explain._head_lines(record)[-1] == "plain loops, without a schedule: 1 of the kernels, 100.0% of the time"
    facts = list(explain._kernel_facts(record["kernels"][0]))
    assert facts[:4] == [("nodes", "n0"), ("", "n1"), ("", "n2"), ("", "and 2 more calls")]
    assert ("kernel", "k") in facts and facts[-1] == ("schedule", "plain loops, one thread")


def test_kernels_far_from_their_bound_are_told():
    slow = Kernel("k", b"", 1, False, flops=10, bytes=1, reason="its steps may build on each other (scf.for)")
    record = explain.explain("m", stepwise(slow, 1), [10.0], MACHINE)
    assert explain._head_lines(record)[-1] == "below 20% of their bound, 100.0% of the time: n0"
    facts = dict(explain._kernel_facts(record["kernels"][0]))
    assert facts["reason"] == "no schedule of the whole: its steps may build on each other (scf.for)"
    record = explain.explain("m", stepwise(slow, 1), [1e-6], MACHINE)
    assert not any("of their bound" in line for line in explain._head_lines(record)), "the call itself takes longer"


def test_what_the_host_computes_is_told(tmp_path, capsys):
    text = """<ir_version: 9, opset_import: ["": 20]> net (float16[40, 3] x) => (float16 y)
    { r = Relu(x)  u, a, b, n = Unique(r)  y = Exp(u) }"""
    made = onnx.parser.parse_model(text)
    made.graph.node[1].name = "distinct"
    made.graph.output[0].type.tensor_type.ClearField("shape")
    onnx.save(made, tmp_path / "net.onnx")
    assert explain.main([str(tmp_path / "net.onnx"), "--json", "--rounds", "2"]) == 0
    record = json.loads(capsys.readouterr().out)
    [call] = record["host"]
    assert (call["function"], call["nodes"]) == ("Unique", ["distinct"]) and call["seconds"] > 0
    shares = [part["share"] for part in (*record["kernels"], *record["host"])]
    assert sum(shares) == pytest.approx(1) and all(shares)
    [kernel] = [kernel for kernel in record["kernels"] if kernel["results"] == ["?xf16"]]
    assert kernel["inputs"][:2] == ["?xf16", "index"] and kernel["flops"] == 0
    assert explain.main([str(tmp_path / "net.onnx"), "--rounds", "1"]) == 0
    assert "on the host: " in (out := capsys.readouterr().out) and "% of the time: Unique (distinct)" in out


def test_a_call_that_was_not_made_has_no_rate():
    record = explain.explain("m", stepwise(Kernel("k", b"", 1, False, flops=4, bytes=8), 1), [0.0], MACHINE)
    [kernel] = record["kernels"]
    assert [kernel[key] for key in ("share", "flops_per_second", "peak_share")] == [0, 0, 0]


@pytest.mark.parametrize(
    "argv, words",
    [
        (["--rounds", "0"], "--rounds is 0"),
        (["--top", "0"], "--top is 0"),
        (["--plot", "x.jpg"], "ends with .png or .svg"),
        (["--plot", "no/such/x.svg"], "there is no folder no/such"),
        ([], "give --input-shape x:1,32"),
    ],
)
def test_refuses(path, argv, words, capsys):
    assert explain.main([path, *argv]) == 2
    err = capsys.readouterr().err
    assert words in err and err.count("\n") == 1


def test_a_plot_without_matplotlib_is_refused_at_once(path, capsys, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert explain.main([path, "--plot", "x.svg"]) == 2
    assert capsys.readouterr().err.endswith("pip install matplotlib\n")


def test_the_picture_has_the_kernels(path, tmp_path, capsys):
    picture = tmp_path / "net.svg"
    words = [path, "--json", "--rounds", "1", "--input-shape", "x:16,32", "--plot", str(picture)]
    assert explain.main(words) == 0
    record, text = json.loads(capsys.readouterr().out), picture.read_text()
    assert all(kernel["name"] in text and " + ".join(kernel["nodes"][0]) in text for kernel in record["kernels"])
    for words in ("net.onnx", "FLOP / byte", "GFLOP/s of multiply-adds"):
        assert words in text
    assert list(tmp_path.glob(".*")) == []


def test_a_picture_may_be_a_png_and_have_kernels_without_arithmetic(tmp_path):
    record = explain.explain("m", stepwise(Kernel("k", b"", 1, False, bytes=8), 1), [1.0], MACHINE)
    _plot.draw(record, tmp_path / "net.png")
    assert (tmp_path / "net.png").read_bytes().startswith(b"\x89PNG")


def test_the_machine_is_measured():
    machine = Machine(detect_host())
    machine.sample()
    rates = machine.rates()
    assert rates["flops"] > 1e8 and rates["bytes"] > 1e8
    assert make_copy_probe(64).rate(2) > 0


TRANSPOSED_CONV = """
#perm = affine_map<(a, b, c, d) -> (a, d, b, c)>
#same = affine_map<(a, b, c, d) -> (a, b, c, d)>
#data = affine_map<(n, h, w, f, c, i, j) -> (n, DATA)>
#weight = affine_map<(n, h, w, f, c, i, j) -> (f, c, i, j)>
#out = affine_map<(n, h, w, f, c, i, j) -> (n, h, w, f)>
func.func @k(%a: tensor<1x3x8x8xf32>, %w: tensor<4x3x3x3xf32>, %o: tensor<1x6x6x4xf32>, %t: tensor<1x8x8x3xf32>,
             %x: tensor<IMAGExf32>) -> tensor<1x6x6x4xf32> {
  %p = linalg.generic {indexing_maps = [#perm, #same], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%a : tensor<1x3x8x8xf32>) outs(%t : tensor<1x8x8x3xf32>) {
  ^bb0(%e: f32, %f: f32):
    linalg.yield %e : f32
  } -> tensor<1x8x8x3xf32>
  %y = linalg.generic {indexing_maps = [#data, #weight, #out], iterator_types =
      ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%x, %w : tensor<IMAGExf32>, tensor<4x3x3x3xf32>) outs(%o : tensor<1x6x6x4xf32>) {
  ^bb0(%e: f32, %f: f32, %g: f32):
    %m = arith.mulf %e, %f : f32
    %s = arith.addf %g, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x6x6x4xf32>
  return %y : tensor<1x6x6x4xf32>
}"""


@pytest.mark.parametrize(
    "data, image, order",
    [("h + i, w + j, c", "1x8x8x3", "channels last"), ("c, h + i, w + j", "1x3x8x8", "channels first")],
)
def test_the_layout_in_words(data, image, order):
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(TRANSPOSED_CONV.replace("DATA", data).replace("IMAGE", image))
        found = make_signature(list_functions(module)[0])
    assert found.layout == f"dims permuted to 0, 2, 3, 1, {order}"
    assert found.inputs[:2] == ("1x3x8x8xf32", "4x3x3x3xf32") and found.results == ("1x6x6x4xf32",)
