"""Networks in TVM's spellings: imported, built, run on an executor, saved and loaded."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import logging
import timeit
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_network

import tilewright as tw
import tilewright.tvm as tvm
from tilewright.passes.infra.context import PassContext
from tilewright.records.trial import Trial, target_key
from tilewright.records.tvm_lines import write_autotvm
from tilewright.tvm import autotvm, relay
from tilewright.tvm.autotvm.kernels import find_schedules
from tilewright.tvm.autotvm.results import KernelResult
from tilewright.tvm.autotvm.tuner import GATuner, RandomTuner, XGBTuner
from tilewright.tvm.contrib import download, graph_executor, utils
from tilewright.tvm.relay import build_module

X, W = small_network.X, small_network.W
WRONG: Any = 5


def expected(weight: np.ndarray = W) -> np.ndarray:
    return 1 / (1 + np.exp(-np.maximum(X @ weight, 0)))


@pytest.fixture(scope="module")
def built() -> tuple[Any, dict[str, Any], Any]:
    mod, params = relay.frontend.from_onnx(small_network.network(), {"x": X.shape})
    with tvm.transform.PassContext(opt_level=3, config={}):
        return mod, params, relay.build(mod, target="llvm", params=params, mod_name="net")


def test_the_classic_way(built: Any):
    mod, params, lib = built
    assert params["w"].numpy().tolist() == W.tolist() and mod["main"].params[0].name_hint == "x"
    assert "func.func @main" in str(mod) and mod["main"].astext() == mod.astext()
    dev = tvm.device("llvm", 0)
    module = graph_executor.GraphModule(lib["default"](dev))
    module.set_input("x", X.astype("float64"))  # cast, as TVM does
    module.run()
    out = module.get_output(1, tvm.nd.empty((4, 8))).numpy()
    np.testing.assert_allclose(out, expected(), rtol=1e-5)
    times = np.array(timeit.Timer(lambda: module.run()).repeat(repeat=2, number=2))
    assert (times > 0).all() and (module.get_num_inputs(), module.get_num_outputs()) == (1, 2)
    before = module.get_output(1).numpy()
    module.run(x=np.zeros_like(X))
    assert before.tolist() == out.tolist() and (module.get_output(1).numpy() == 0.5).all()
    assert module.get_input("x").numpy().tolist() == np.zeros_like(X).tolist()
    assert module.get_input_index("x") == 0 and module.get_input_info() == ({"x": (4, 6)}, {"x": "float32"})


def test_times_of_an_executor(built: Any):
    module = graph_executor.GraphModule(built[2]["net"](tvm.cpu(0)))
    made = module.benchmark(tvm.cpu(0), repeat=2, number=1, x=X)
    header, row = str(made).splitlines()[1:]
    assert header == " mean (ms)   median (ms)    max (ms)     min (ms)     std (ms)  "
    assert len(row.split()) == 5 and len(made.results) == 2
    paused = module.benchmark(tvm.cpu(0), repeat=3, number=1, cooldown_interval_ms=0.01, repeats_to_cooldown=2)
    assert len(paused.results) == 3
    assert module.benchmark(tvm.cpu(0), repeat=1, number=1, end_to_end=True, x=X).min > 0
    timed = module.module.time_evaluator("run", tvm.cpu(0), number=1, repeat=2)()
    assert np.array(timed.results).shape == (2,)


def test_a_factory_that_was_saved(built: Any):
    lib, temp = built[2], utils.tempdir()
    lib.export_library(temp.relpath("net.so"))
    lib.export_library(temp.relpath("net.tar"))
    loaded = tvm.runtime.load_module(temp.relpath("net.so"))
    packed = tvm.runtime.load_module(temp.relpath("net.tar"))
    packed.export_library(temp.relpath("again.so"), cc="gcc", options=["-O1"])
    for each in (packed, tvm.runtime.load_module(temp.relpath("again.so"))):  # weights are there, too
        gmod = each["default"](tvm.cpu(0))
        gmod["set_input"](0, tvm.nd.array(X))
        gmod["run"]()
        np.testing.assert_allclose(gmod["get_output"](1).numpy(), expected(), rtol=1e-5)
    for name in ("net", "default"):
        gmod = loaded[name](tvm.cpu(0))
        gmod["set_input"](0, tvm.nd.array(X))
        gmod["run"]()
        np.testing.assert_allclose(gmod["get_output"](1).numpy(), expected(), rtol=1e-5)
    made = tvm.nd.empty((4, 8)), tvm.nd.empty((8, 4))
    loaded["net"](tvm.nd.array(X), made[1], made[0])
    np.testing.assert_allclose(made[0].numpy(), expected(), rtol=1e-5)
    graph, library, _ = lib
    module = graph_executor.create(graph, library, tvm.cpu())
    module.run(x=X)
    np.testing.assert_allclose(module.get_output(1).numpy(), expected(), rtol=1e-5)


def test_weights_of_a_users():
    mod, params = relay.frontend.from_onnx(small_network.network(), {"x": X.shape})
    params["w"] = tvm.nd.array(2 * W)
    with tvm.target.Target("llvm"):
        lib = relay.build(mod, params=params)
    module = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    module.run(x=X)
    np.testing.assert_allclose(module.get_output(1).numpy(), expected(2 * W), rtol=1e-5)
    (read,) = relay.load_param_dict(relay.save_param_dict(params)).values()
    assert read.numpy().tolist() == (2 * W).tolist()
    for name, value in lib.get_params().items():  # those that the compiler has left as they are
        module.set_input(name, value)


def test_extents_that_stay_open():
    mod, params = relay.frontend.from_onnx(open_network(), {"x": (relay.Any(), 6)})
    lib = relay.build(mod, "llvm", params=params)
    module = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    for rows in (2, 4):
        module.run(x=X[:rows])
        np.testing.assert_allclose(module.get_output(0).numpy(), np.maximum(X[:rows] @ W, 0), rtol=1e-5)


def open_network() -> Any:
    model = small_network.network()
    del model.graph.node[2:]
    del model.graph.output[:]
    model.graph.output.add().CopyFrom(onnx_value("b"))
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    return model


def onnx_value(name: str) -> Any:
    from onnx import TensorProto, helper

    return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 8])


MODEL = small_network.network()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda mod, lib: relay.frontend.from_onnx(MODEL, opset=3), tw.ModelError, "opset is 3"),
        (lambda mod, lib: relay.frontend.from_onnx(MODEL, dtype={"x": "int8"}), tw.ModelError, "'x' is float32"),
        (lambda mod, lib: relay.frontend.from_onnx(MODEL, convert_config={"a": 1}), tw.ModelError, "convert_config"),
        (lambda mod, lib: relay.frontend.from_keras, tw.ModelError, "from_keras is not there: export"),
        (lambda mod, lib: relay.build(WRONG, "llvm"), tw.ModelError, "takes a network"),
        (lambda mod, lib: relay.build(mod, "cuda"), tw.TargetError, "'cuda' is none"),
        (lambda mod, lib: relay.build(mod, "llvm", params={"v": W}), tw.ModelError, "no weight 'v'"),
        (
            lambda mod, lib: relay.build(mod, "llvm", params={"w": X}),
            tw.ModelError,
            r"float32\[4, 6\] and must be float32",
        ),
        (lambda mod, lib: relay.build(mod, "llvm", executor="vm"), tw.CompileError, "executor is 'vm'"),
        (lambda mod, lib: mod["other"], tw.ModelError, "it has 'main'"),
        (lambda mod, lib: lib["default"](5), tw.InputError, "takes its device"),
        (lambda mod, lib: graph_executor.GraphModule(lib), tw.InputError, "takes an executor"),
        (lambda mod, lib: graph_executor.create("{}", lib, tvm.cpu()), tw.InputError, "another program"),
        (lambda mod, lib: lib["default"](tvm.cpu())["debug"], tw.InputError, "no function 'debug'"),
        (lambda mod, lib: lib.export_library("x.so", addons=["a.o"]), tw.InputError, "leave addons out"),
        (lambda mod, lib: relay.load_param_dict(b"xx"), tw.InputError, "no weights"),
        (
            lambda mod, lib: download.download_testdata("at://x.onnx", "x.onnx"),
            tw.InputError,
            "is not downloaded: fetch",
        ),
        (lambda mod, lib: relay.create_executor("fast"), tw.CompileError, "no executor 'fast'"),
    ],
)
def test_what_has_no_meaning_here_is_refused_in_words(
    built: Any, call: Callable[[Any, Any], Any], error: type[Exception], message: str
):
    with pytest.raises(error, match=message):
        call(built[0], built[2])


def test_names_that_are_not_there_are_said():
    with pytest.raises(AttributeError, match=r"has no 'relay.loops': .*it has"):
        getattr(relay, "loops")  # noqa: B009


def test_kernels_are_tuned_and_built_by_a_log(built: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The way of the classic script: tasks, a tuner for each, and a build with the best of the log."""
    mod, params, lib = built
    tasks = autotvm.task.extract_from_program(mod["main"], params, "llvm")
    names = {kernel.name for kernel in lib.module.manifest.kernels}
    assert tasks and {task.name for task in tasks} <= names
    task, log = tasks[0], tmp_path / "net.log"
    assert task.workload[0] == task.name and task.args[0][0] == "TENSOR" and task.flop > 1
    option = autotvm.measure_option("local", autotvm.LocalRunner(number=1, repeat=1))
    tuner = GATuner(task, pop_size=4)
    tuner.tune(4, option, callbacks=[autotvm.callback.log_to_file(log)])
    trials = [result.trial for _, result in autotvm.record.load_from_file(log) if isinstance(result, KernelResult)]
    default = task.find_schedule(task.config_space.get(task.config_space.knob2point(task.config_space.default)))
    assert len(trials) == 4 and default is not None
    assert json.loads(trials[0].steps) == default.to_json()["steps"]
    assert {trial.error for trial in trials} <= {"", "refused"}
    good = [trial for trial in trials[1:] if not trial.error]
    chosen = dataclasses.replace(good[0], seconds=(0.5,) * 8, default_seconds=(1.0,) * 8)  # as if it took half the time
    log.write_text("".join(write_autotvm(trial) + "\n" for trial in (trials[0], chosen)))
    seen, build_model = [], build_module.api.build_model

    def build(*given: Any) -> Any:
        seen.append(PassContext.current().config["schedules"])
        return build_model(*given)

    monkeypatch.setattr(build_module.api, "build_model", build)
    with autotvm.apply_history_best(log), tvm.transform.PassContext(opt_level=3, config={}):
        tuned = relay.build(mod, "llvm", params=params, mod_name="net")
        found = find_schedules(task.target, chosen.threads, sorted(names))
    assert {name: each.to_json()["steps"] for name, each in found.items()} == {task.name: json.loads(chosen.steps)}
    assert seen == [found]
    module = graph_executor.GraphModule(tuned["default"](tvm.cpu()))
    module.run(x=X)
    np.testing.assert_allclose(module.get_output(1).numpy(), expected(), rtol=1e-5)
    tuner = XGBTuner(task) if importlib.util.find_spec("xgboost") else RandomTuner(task)
    tuner.load_history(autotvm.record.load_from_file(log))
    assert tuner.next_batch(1)


def test_what_a_log_has_that_was_slower_is_not_taken(built: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """Nor is what is of another kernel, CPU or number of threads, or does not fit this version."""
    mod, params, _ = built
    (task, *_), log = autotvm.task.extract_from_program(mod, params, "llvm"), tmp_path / "net.log"
    assert task.kernel.default is not None
    data = {name: json.dumps(each) for name, each in task.kernel.default.to_json().items()}
    where = (task.name, target_key(task.kernel.target), task.kernel.threads)
    slow = Trial(*where, data["values"], data["steps"], (1.0,) * 8, (0.9,) * 8)
    fast = dataclasses.replace(slow, seconds=(0.5,) * 8)
    others = {"kernel": "other_kernel"}, {"target": "x86-128-1k-1k-0"}, {"threads": 77}, {"steps": '[["split"]]'}
    rows = [slow, *(dataclasses.replace(fast, **each) for each in others)]
    log.write_text("".join(f"{write_autotvm(each)}\n" for each in rows))
    with autotvm.apply_history_best(str(log)), caplog.at_level(logging.WARNING, "autotvm"):
        assert find_schedules(task.target, task.kernel.threads, [task.name]) == {}
    assert f"the record of kernel '{task.name}' is left out: " in caplog.text
    autotvm.record.pick_best(log, tmp_path / "best.log")
    assert "other_kernel" in (tmp_path / "best.log").read_text()
    with pytest.raises(tw.InputError, match="ops are operators, as relay"):
        autotvm.task.extract_from_program(mod, params, "llvm", ops=["nn.conv2d"])


def test_kernels_are_chosen_by_operators(built: Any):
    """As the classic script does: those of products alone, of which a network without convolutions has all."""
    mod, params, _ = built
    (task, *_) = autotvm.task.extract_from_program(mod, params, "llvm", ops=(relay.op.get("nn.dense"),))
    assert task.name.startswith("matmul")
    assert autotvm.task.extract_from_program(mod, params, "llvm", ops=(relay.op.nn.conv2d,)) == []
    with pytest.raises(tw.ModelError, match=r"'nn\.relu' has no kernels of its own"):
        autotvm.task.extract_from_program(mod, params, "llvm", ops=[relay.op.get("nn.relu")])


@pytest.mark.parametrize("kind", ["graph", "vm"])
def test_a_function_of_a_network_that_is_built_when_it_is_asked_for(kind: str):
    mod, params = relay.frontend.from_onnx(small_network.network(), {"x": X.shape})
    function = relay.build_module.create_executor(kind, mod, tvm.cpu(0), "llvm", params).evaluate()
    for made in (function(tvm.nd.array(X)), function(x=X)):
        np.testing.assert_allclose(made[1].numpy(), expected(), rtol=1e-5)


def test_a_virtual_machine():
    mod, params = relay.frontend.from_onnx(open_network(), {"x": (relay.Any(), 6)})
    machine = tvm.runtime.vm.VirtualMachine(relay.vm.compile(mod, "llvm", params=params), tvm.cpu())
    machine.set_input("main", x=X)
    for made in (machine.invoke("main"), machine.run(X), machine.get_outputs()[0]):
        np.testing.assert_allclose(made.numpy(), np.maximum(X @ W, 0), rtol=1e-5)
    assert machine.benchmark(tvm.cpu(), X[:2], repeat=1, number=1).min > 0
    for call, message in (
        (lambda: machine.invoke("f", X), "no function 'f'"),
        (lambda: machine.run(y=X), "no input 'y'"),
    ):
        with pytest.raises(tw.InputError, match=message):
            call()


@pytest.mark.parametrize(
    ("name", "given", "parameters"),
    [
        ("mlp", {"batch_size": 2}, 109_184),
        ("resnet", {"image_shape": (32, 32, 3), "layout": "NHWC", "num_layers": 20, "num_classes": 10}, 271_152),
        ("resnet", {"image_shape": (3, 64, 64)}, 11_683_008),
        ("mobilenet", {"image_shape": (3, 32, 32)}, 4_209_088),
        ("squeezenet", {"version": "1.1", "image_shape": (3, 64, 64)}, 1_231_552),
        ("vgg", {"batch_size": 1, "image_shape": (3, 32, 32), "num_classes": 10}, 28_133_056),
    ],
)
def test_networks_that_scripts_begin_with(name: str, given: dict[str, Any], parameters: int):
    """Their products and convolutions have as many weights as those of the papers."""
    mod, params = getattr(relay.testing, name).get_workload(**given)
    names = [each for each in params if each.endswith("_weight")]
    assert sum(params[each].numpy().size for each in names) == parameters
    assert mod["main"].params[0].name_hint == "data" and len(mod.model.outputs) == 1


def test_a_network_that_scripts_begin_with_is_built():
    mod, params = relay.testing.resnet.get_workload(2, 10, 8, (3, 8, 8))
    off = {"opt_level": 3, "disabled_pass": ["AlterOpLayout", "FuseOps"], "config": {"relay.FuseOps.max_depth": 3}}
    images, made = np.random.default_rng(0).random((2, 3, 8, 8), np.float32), []
    for context in (tvm.transform.PassContext(opt_level=3), tvm.transform.PassContext(**off)):
        with context:
            lib = relay.build(mod, "llvm", params=params, executor=relay.backend.Executor("graph"))
        module = graph_executor.GraphModule(lib["default"](tvm.cpu()))
        module.run(data=images)
        made.append(module.get_output(0).numpy())
    np.testing.assert_allclose(made[0], made[1], rtol=1e-4)
    np.testing.assert_allclose(made[0].sum(1), 1, rtol=1e-5)
