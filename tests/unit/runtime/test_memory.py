"""Sizes that only the run knows, and that no machine holds: an error of one line, and the process goes on."""

from __future__ import annotations

import numpy as np
import pytest
from hostile_models import HUGE, model, typed
from onnx import TensorProto, helper

import tilewright as tw
from tilewright.runtime.process import memory

X = np.ones((64, 64), np.float32)
# The op, the names of its inputs, the shape that it is given, and a small one.
CASES = [
    ("ConstantOfShape", ("shape",), [HUGE], [3]),
    ("ConstantOfShape", ("shape",), [2**40, 2**40], [3, 2]),
    ("Expand", ("x", "shape"), [2**58, 64, 64], [2, 64, 64]),
    ("Tile", ("x", "shape"), [10**6, 10**6], [1, 2]),
    ("Pad", ("x", "shape"), [0, 0, HUGE, 0], [0, 0, 1, 0]),
]


@pytest.mark.parametrize(("op", "names", "huge", "small"), CASES)
def test_a_result_of_open_size_that_no_machine_holds(op, names, huge, small):
    inputs = [typed("x"), typed("shape", [len(huge)], TensorProto.INT64)]
    node = helper.make_node(op, names, ["y"], name="the_node")
    module = tw.compile(model([node], inputs=[i for i in inputs if i.name in names]), workers=1)
    given = {"x": X, "shape": np.array(huge, np.int64)}
    with pytest.raises(tw.InputError, match=r"takes \d+ bytes of memory, \d+ are left"):
        module.run({name: given[name] for name in names})
    given["shape"] = np.array(small, np.int64)
    assert module.run({name: given[name] for name in names})[0].size


def test_a_result_of_known_size_that_this_machine_does_not_hold():
    node = helper.make_node("ConstantOfShape", ["shape"], ["y"], name="the_node")
    weight = helper.make_tensor("shape", TensorProto.INT64, [1], [memory.total_bytes()])
    with pytest.raises(tw.InputError, match="bytes of memory"):
        tw.compile(model([node], [weight]), workers=1).run({"x": X})


def test_out_of_memory_is_an_error_of_one_line(monkeypatch):
    module = tw.compile(model([helper.make_node("Relu", ["x"], ["y"])]), workers=1)

    def fail(inputs):
        raise MemoryError("cannot have 12 bytes")

    monkeypatch.setattr(module._main, "run", fail)
    with pytest.raises(tw.InputError, match=r"out of memory \(cannot have 12 bytes\)"):
        module.run({"x": X})


def test_what_the_control_group_leaves(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "_GROUP", tmp_path)
    free = memory.available_bytes()
    assert 0 < free <= memory.total_bytes()
    (tmp_path / "memory.max").write_text("1073741824\n")
    (tmp_path / "memory.current").write_text("73741824\n")
    assert memory.total_bytes() == 1 << 30 and memory.available_bytes() == 10**9
    with pytest.raises(tw.InputError, match="1000000001 bytes of memory, 1000000000 are left"):
        memory.demand(10**9 + 1, "it")
    (tmp_path / "memory.max").write_text("max\n")
    memory.demand(0, "it")
    assert memory.total_bytes() > 1 << 30
