"""Profiles and kernels one by one in TVM's spellings, and what of TVM is not here."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_network

import tilewright.tvm as tvm
from tilewright.core.errors import InputError
from tilewright.tvm import relay, te
from tilewright.tvm.contrib.debugger import debug_executor
from tilewright.tvm.runtime import profiling

X, W = small_network.X, small_network.W


@pytest.fixture(scope="module")
def lib() -> Any:
    mod, params = relay.frontend.from_onnx(small_network.network(), {"x": X.shape})
    return relay.build(mod, target="llvm", params=params)


def start(lib: Any, folder: Path | None = None) -> debug_executor.GraphModuleDebug:
    module = debug_executor.create(lib.get_graph_json(), lib.get_lib(), tvm.cpu(0), folder)
    module.set_input("x", X)
    module.set_input(**lib.get_params())
    return module


def test_a_profile_has_the_calls_of_a_run(lib: Any) -> None:
    report = start(lib).profile(x=X)
    assert [call["Name"] for call in report.calls] == list_kernels(lib)
    assert all(call["Duration (us)"] > 0 and call["Count"] == 1 for call in report.calls)
    assert report.device_metrics["cpu0"]["Duration (us)"] >= sum(call["Duration (us)"] for call in report.calls)
    head, *rows = report.csv().splitlines()
    assert head.startswith("Name,Duration (us),Percent") and len(rows) == len(report.calls)
    table = str(report).splitlines()
    assert table[0].split()[:2] == ["Name", "Duration"] and any(line.startswith("Total ") for line in table)
    assert profiling.Report.from_json(report.json()) == report
    with pytest.raises(InputError, match="the text is no report"):
        profiling.Report.from_json("{}")


def list_kernels(lib: Any) -> list[str]:
    """The kernels of a program, in the order of its calls."""
    return [call.kernel for call in lib.get_lib().manifest.program.calls]


def test_calls_of_one_kernel_are_one_row_of_the_table() -> None:
    call = {"Name": "a", "Duration (us)": 2.0, "Percent": 20.0, "Device": "cpu0", "Count": 1, "Argument Shapes": ""}
    report = profiling.Report(
        [call, {**call, "Name": "b", "Duration (us)": 3.0}, call], {"cpu0": {"Duration (us)": 9.0}}
    )
    rows = [line.split() for line in report.table(col_sums=False).splitlines()]
    assert [row[:2] for row in rows[1:4]] == [["a", "4.00"], ["b", "3.00"], ["Total", "9.00"]]
    names = [line.split()[0] for line in report.table(sort=False, aggregate=False).splitlines()[1:4]]
    assert names == ["a", "b", "a"]


def test_kernels_one_by_one(lib: Any, tmp_path: Path) -> None:
    module = start(lib, tmp_path)
    module.run()
    assert list(tmp_path.rglob("*.npy")), "each run writes what its kernels leave"
    last = module.debug_get_output("the_Sigmoid").numpy()
    np.testing.assert_allclose(last, 1 / (1 + np.exp(-np.maximum(X @ W, 0))), rtol=1e-5)
    assert module.debug_get_output("the_Sigmoid", tvm.nd.empty(last.shape)).numpy().tolist() == last.tolist()
    times = module.run_individual(number=2, repeat=3)
    assert len(times) == len(list_kernels(lib)) and all(len(each) == 3 and min(each) > 0 for each in times)
    assert module.run_individual_node(0, number=2).mean > 0
    with pytest.raises(InputError, match="makes no call 99"):
        module.run_individual_node(99)
    own = debug_executor.GraphModuleDebug(lib["debug_create"]("default", tvm.cpu()), [tvm.cpu()], "")
    own.run(x=X)
    assert own.get_output(1).numpy().tolist() == module.get_output(1).numpy().tolist()


def test_a_function_of_expressions_has_a_profile() -> None:
    a = te.placeholder((64,), name="a")
    b = te.compute((64,), lambda i: a[i] + 1.0, name="b")
    made = tvm.build(te.create_schedule(b.op), [a, b], "llvm")
    given, out = tvm.nd.array(np.zeros(64, "float32")), tvm.nd.empty((64,))
    assert profiling.profile_function(made, tvm.cpu())(given, out)["Duration (us)"] > 0
    assert (out.numpy() == 1).all()


def test_what_cannot_be_is_refused_in_words(lib: Any) -> None:
    module = start(lib)
    with pytest.raises(InputError, match="leave collectors out"):
        module.profile(collectors=[object()])
    with pytest.raises(InputError, match="no counters of the processor"):
        profiling.PAPIMetricCollector()
    with pytest.raises(InputError, match="that of another program"):
        debug_executor.GraphModuleDebug(lib["default"](tvm.cpu()), tvm.cpu(), "{}")
    if weights := lib.get_params():
        for name, each in weights.items():
            module.set_input(name, np.zeros(each.shape, "float32"))
        with pytest.raises(InputError, match="was replaced"):
            module.debug_get_output(0)


@pytest.mark.parametrize(
    "name, words",
    [
        ("meta_schedule", "tuning is autotvm"),
        ("relay.prelude", "says which operators there are"),
        ("contrib.graph_runtime", "it is contrib.graph_executor"),
        ("relay.backend.te_compiler", "relay.build compiles a network"),
        ("auto_scheduler._ffi_api", "there are no sketches"),
        ("anything", r"docs/tvm\.md lists"),
    ],
)
def test_modules_that_are_not_here_say_so(name: str, words: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=rf"tilewright\.tvm has no '{name}': .*{words}"):
        importlib.import_module(f"tilewright.tvm.{name}")
    package, _, own = f"tilewright.tvm.{name}".rpartition(".")
    with pytest.raises(ModuleNotFoundError, match=rf"tilewright\.tvm has no '{name}'"):
        exec(f"from {package} import {own}")


@pytest.mark.parametrize("module, name, words", [
    (tvm, "vulkan", "programs run on the CPU"), (tvm, "placeholder", "it is tvm.te's"),
    (tvm.transform, "FoldAll", "passes are the package's own"), (tvm.nd, "sparse", "docs/tvm.md lists"),
    (tvm.target, "arm_cpu", "-mcpu=NAME"), (tvm.autotvm, "apply_graph_best", "layouts are chosen"), (tvm.ir, "instrument", "--time-passes"),
])  # fmt: skip
def test_names_that_are_not_here_say_so(module: Any, name: str, words: str) -> None:
    with pytest.raises(AttributeError, match=rf"has no '.*{name}': .*{words}"):
        getattr(module, name)


def test_tensors_are_written_in_part() -> None:
    tensor = tvm.nd.array(np.zeros((2, 3), "float32"))
    tensor[:] = np.ones((2, 3))
    tensor[1] = tvm.nd.array(np.full(3, 2.0, "float32"))
    assert tensor.numpy().tolist() == [[1, 1, 1], [2, 2, 2]] and tensor[1].tolist() == [2, 2, 2]
    shared = np.zeros(3, "float32")
    tvm.nd.from_dlpack(shared)[:] = 4
    assert shared.tolist() == [4, 4, 4] and tensor.same_as(tensor) and tensor.ctx == tvm.cpu(0)


def test_options_of_targets_may_have_blanks() -> None:
    assert str(tvm.target.Target("llvm -num-cores 4 -mcpu skylake-avx512").own) == str(
        tvm.target.Target("llvm -mcpu=skylake-avx512").own
    )
