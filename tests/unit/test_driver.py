"""``tw.compile`` and ``tw.build``: sources, executors, errors, and what the host process imports."""

import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import tilewright as tw
from tilewright.core.model import Param
from tilewright.dialects import ir
from tilewright.dialects.context import make_context

W = np.random.default_rng(0).standard_normal((32, 48), np.float32)


def model() -> onnx.ModelProto:
    """``y = tanh(x + w)``."""
    nodes = [helper.make_node("Add", ["x", "w"], ["s"], "add"), helper.make_node("Tanh", ["s"], ["y"], "tanh")]
    infos = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [32, 48]) for name in "xy"]
    graph = helper.make_graph(nodes, "net", infos[:1], infos[1:], [numpy_helper.from_array(W, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> str:
    path = str(tmp_path_factory.mktemp("driver") / "net.onnx")
    onnx.save(model(), path)
    return path


def check(lib: tw.Module) -> None:
    x = np.random.default_rng(1).standard_normal((32, 48), np.float32)
    np.testing.assert_allclose(lib(x)[0], np.tanh(x + W), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("executor", ["objects", "engine"])
def test_compiles_a_file(path, executor, workers):
    check(tw.compile(path, executor=executor, workers=workers))


def test_compiles_bytes_and_protos():
    check(tw.compile(model()))
    check(tw.compile(model().SerializeToString()))


@pytest.mark.parametrize("opt_level", [0, 1, 2, 3])
def test_every_level_gives_the_same_answer(path, opt_level):
    check(tw.compile(path, opt_level=opt_level))


@pytest.mark.parametrize("workers", [0, 2])
def test_builds_an_imported_model_and_leaves_it_as_it_is(path, workers):
    imported = tw.import_model(path)
    before = str(imported.module)
    check(tw.build(imported, workers=workers))
    check(tw.build(imported, workers=workers))
    assert str(imported.module) == before


def test_an_entered_pass_context_counts(path):
    from tilewright.passes.infra.instruments import Timing

    timing = Timing()
    with tw.PassContext(disabled_pass=["fuse-ops"], instruments=[timing]):
        lib = tw.compile(path)
    check(lib)
    assert lib.report.calls == 2
    assert {"outline", "vectorize", "emit-object"} < set(timing.seconds)
    assert "fuse-ops" not in timing.seconds
    assert tw.compile(path).report.calls == 1


@pytest.mark.parametrize("executor", ["objects", "engine"])
def test_a_report_tells_of_a_kernel_that_fell_back(path, executor, monkeypatch):
    from tilewright.dialects import context, transform

    assert not tw.compile(path, executor=executor, workers=0).report.notes
    monkeypatch.setattr(context, "_free", [])  # they keep scripts that have their budget
    monkeypatch.setattr(transform, "MAX_ITERATIONS", 2)
    monkeypatch.setattr(transform, "MAX_REWRITES", 1)
    lib = tw.compile(path, executor=executor, workers=0)
    check(lib)
    assert any("runs as plain loops" in note for note in lib.report.notes)


def test_an_instrument_that_cannot_travel_keeps_the_compilation_here(path):
    from tilewright.passes.infra.instruments import Instrument

    class Names(Instrument):
        def __init__(self) -> None:
            self.seen: list[str] = []

        def after(self, stage, module, index):
            self.seen.append(stage.name)

    names = Names()
    with tw.PassContext(instruments=[names]):
        check(tw.compile(path))
    assert names.seen[0] == "report-outside" and names.seen[-1] == "wrap-kernel"


def test_equal_compilations_make_equal_files(path, tmp_path):
    made = [tw.compile(path).export_library(tmp_path / f"{name}.so") for name in "ab"]
    for suffix in (".so", ".safetensors"):
        one, other = (p.with_suffix(suffix).read_bytes() for p in made)
        assert one == other


def test_the_host_imports_neither_mlir_nor_onnx(path):
    code = (
        "import sys, tilewright as tw\n"
        "tw.compile(sys.argv[1])\n"
        "assert not {'mlir', 'onnx', 'llvm'} & set(sys.modules), sorted(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code, path], check=True)


def test_compiles_without_a_main_guard(tmp_path, path):
    script = tmp_path / "script.py"
    script.write_text(f"import tilewright as tw\nprint(len(tw.compile({path!r}).outputs))\n")
    done = subprocess.run([sys.executable, str(script)], check=True, capture_output=True, text=True)
    assert done.stdout == "1\n"


MATMUL = """
func.func @main(%x: tensor<64x256xf32> {tw.name = "x"}, %w: tensor<256x512xf32> {tw.param = "w"}) -> tensor<64x512xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64x512xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<64x512xf32>) -> tensor<64x512xf32>
  %m = linalg.generic {
    indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>],
    iterator_types = ["parallel", "parallel", "reduction"]
  } ins(%x, %w : tensor<64x256xf32>, tensor<256x512xf32>) outs(%f : tensor<64x512xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %c, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<64x512xf32>
  return %m : tensor<64x512xf32>
}"""


@pytest.mark.parametrize("executor", ["objects", "engine"])
def test_packed_weights_are_prepared_and_saved(executor, tmp_path):
    random = np.random.default_rng(0)
    x, w = random.standard_normal((64, 256), np.float32), random.standard_normal((256, 512), np.float32)
    infos = {"x": (64, 256), "w": (256, 512), "y": (64, 512)}
    x_info, w_info, y_info = (tw.TensorInfo(name, shape, "float32") for name, shape in infos.items())
    with make_context(), ir.Location.unknown():
        made = tw.Model(ir.Module.parse(MATMUL), (x_info,), (y_info,), {"w": Param(w_info, w)}, "matmul")
    lib = tw.build(made, executor=executor, workers=2)
    assert lib.report.prepared == 1
    for program in (lib, tw.load_module(lib.export_library(tmp_path / "matmul.so"))):
        np.testing.assert_allclose(program(x)[0], x @ w, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("workers", [0, 2])
def test_errors_name_the_file_as_the_user_did(tmp_path, monkeypatch, workers):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.onnx").write_bytes(b"this is no model")
    for source, name in [("bad.onnx", "bad.onnx"), ("none.onnx", "none.onnx"), (b"this is no model", "the model")]:
        with pytest.raises(tw.ModelError) as info:
            tw.compile(source, workers=workers)
        text = str(info.value)
        assert text.startswith(f"{name}")
        assert str(tmp_path) not in text
        assert "\n" not in text


def test_faded_weights_count_for_nothing():
    """A fifth of a trained layer's weights may be denormals, and each would cost as much as a hundred others."""
    x, faded = np.ones((4, 64), np.float32), np.full((64, 48), 1e-40, np.float32)
    weight = np.where(np.arange(48) % 5 == 0, faded, np.float32(0.5))
    infos = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, s) for n, s in (("x", x.shape), ("y", (4, 48)))]
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "net", infos[:1], infos[1:], [onnx.numpy_helper.from_array(weight, "w")])
    [y] = tw.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])).run({"x": x})
    assert not y[:, ::5].any()
    np.testing.assert_array_equal(y[:, 1::5], 32)


@pytest.mark.parametrize("num_threads", [1, 2])
def test_softmax_takes_denormals_for_zero_and_others_do_not(num_threads):
    """The CPU takes a hundred times as long for them; exponentials that stand alone, and the caller, keep theirs."""
    x = np.tile(np.array([0, -95], np.float32), (256, 512))

    def run(op: str) -> np.ndarray:
        infos = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, x.shape) for name in "xy"]
        graph = helper.make_graph([helper.make_node(op, ["x"], ["y"])], "net", infos[:1], infos[1:])
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
        return tw.compile(made, num_threads=num_threads).run({"x": x})[0]

    assert set(run("Softmax")[:, 1::2].ravel()) == {0}
    np.testing.assert_allclose(run("Exp")[:, 1::2], np.exp(-95.0), rtol=1e-2)
    assert np.float32(1e-40) * np.float32(0.5) != 0
