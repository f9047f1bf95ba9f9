"""Products of bytes on CPUs that multiply them in 16 bits: data are widened ahead, and 3x3 windows are Winograd's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from cpu_targets import targets
from shared_kernels import noting_kernels

import tilewright as tw
from tilewright.core.choices import collect_choices
from tilewright.core.target import Target
from tilewright.dialects.context import make_context
from tilewright.frontends import import_model
from tilewright.passes import pipeline
from tilewright.passes.graph.winograd import Winograd
from tilewright.passes.infra.base import Pass
from tilewright.passes.infra.context import PassContext

RNG = np.random.default_rng(7)
CPUS = targets("haswell", "skylake-avx512", "x86-64-v2")


def network(op: str, x: Sequence[int | str], weight: np.ndarray, zero: int, **attributes: Any) -> onnx.ModelProto:
    """One ConvInteger or MatMulInteger of unsigned bytes, of which ``zero`` stands for 0."""
    helper, kinds = onnx.helper, onnx.TensorProto
    node = helper.make_node(op, ["x", "w", "z"], ["y"], **attributes)
    given = [onnx.numpy_helper.from_array(weight, "w"), onnx.numpy_helper.from_array(np.array(zero, np.uint8), "z")]
    data = helper.make_tensor_value_info("x", kinds.UINT8, x)
    made = helper.make_tensor_value_info("y", kinds.INT32, None)
    graph = helper.make_graph([node], "bytes", [data], [made], given)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def convolve(x: np.ndarray, weight: np.ndarray, zero: int, pads: Sequence[int], stride: int) -> np.ndarray:
    """The convolution in 64 bits."""
    above = np.pad(x.astype(np.int64) - zero, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    windows = np.lib.stride_tricks.sliding_window_view(above, weight.shape[2:], axis=(2, 3))
    return np.einsum("nchwij,fcij->nfhw", windows[:, :, ::stride, ::stride], weight.astype(np.int64), optimize=True)


def schedules_of(model: onnx.ModelProto, cpu: str) -> tuple[tw.Module, str]:
    """A module, and how its kernels are computed."""
    with noting_kernels() as found:
        module = tw.compile(model, cpu, workers=0)
    return module, "\n".join(kernel.schedule for kernel in found)


@pytest.fixture
def everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Winograd's algorithm also where it does not pay."""
    chosen = pipeline.graph_passes

    def passes(target: Target, opt_level: int = 3) -> tuple[Pass, ...]:
        made = chosen(target, opt_level)
        return tuple(Winograd(everywhere=True, target=target) if isinstance(p, Winograd) else p for p in made)

    monkeypatch.setattr(pipeline, "graph_passes", passes)


WINDOWS = [
    ((1, 16, 8, 8), (24, 16, 3, 3), (1, 1, 1, 1), 1),
    ((2, 5, 7, 9), (7, 5, 3, 3), (1, 0, 2, 1), 1),
    ((1, 33, 6, 5), (33, 33, 3, 3), (0, 0, 0, 0), 1),
    ((1, 12, 9, 6), (16, 12, 3, 1), (1, 0, 1, 0), 1),
    ((1, 12, 6, 9), (16, 12, 2, 2), (0, 0, 1, 1), 1),
    ((1, 16, 11, 9), (16, 16, 3, 3), (1, 1, 1, 1), 2),
    ((2, 1, 15, 8), (8, 1, 2, 2), (0, 1, 0, 1), 1),
]


@pytest.mark.shares_kernels
@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("x, weight, pads, stride", WINDOWS, ids=str)
def test_windows_are_exact(
    everywhere: None, cpu: str, x: tuple[int, ...], weight: tuple[int, ...], pads: tuple[int, ...], stride: int
) -> None:
    filters = RNG.integers(-128, 128, weight, np.int8)
    model = network("ConvInteger", x, filters, 113, pads=pads, strides=[stride] * 2)
    module, schedules = schedules_of(model, cpu)
    assert "linear_transform" in schedules and "plain loops" not in schedules
    assert "dot_product" in schedules or x[1] == 1
    data = RNG.integers(0, 256, x, np.uint8)
    for module.num_threads in (1, 3):
        np.testing.assert_array_equal(module(data)[0], convolve(data, filters, 113, pads, stride))


@pytest.mark.shares_kernels
@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("signs", [(1, 1), (1, -1)], ids=["all alike", "in turns"])
def test_the_largest_numbers_do_not_overflow(everywhere: None, cpu: str, signs: tuple[int, int]) -> None:
    """Where data and filters are as large as may be, or what is made of them in 16 bits is."""
    tapped = np.array(signs)[np.add.outer(np.arange(3), np.arange(3)) % 2]
    filters = np.where(tapped > 0, 127, -128).astype(np.int8) * np.ones((16, 512, 1, 1), np.int8)
    model = network("ConvInteger", (1, 512, 4, 4), filters, 0, pads=[1] * 4)
    module, schedules = schedules_of(model, cpu)
    assert "linear_transform" in schedules
    lit = np.array([0 if signs[1] > 0 else 255, 255], np.uint8)[np.add.outer(np.arange(4), np.arange(4)) % 2]
    for data in (np.full((1, 512, 4, 4), 255, np.uint8), np.broadcast_to(lit, (1, 512, 4, 4)).copy()):
        np.testing.assert_array_equal(module(data)[0], convolve(data, filters, 0, (1, 1, 1, 1), 1))


@pytest.mark.parametrize("cpu", CPUS)
def test_images_of_many_channels_are_windows_of_fewer_products(cpu: str) -> None:
    model = network("ConvInteger", (1, 64, 14, 14), RNG.integers(-128, 128, (64, 64, 3, 3), np.int8), 3, pads=[1] * 4)
    _, schedules = schedules_of(model, cpu)
    assert "linear_transform" in schedules


def test_decisions_about_bytes_have_keys_of_their_own() -> None:
    """What was measured of floats says nothing about bytes."""
    model = network("ConvInteger", (1, 64, 14, 14), RNG.integers(-128, 128, (64, 64, 3, 3), np.int8), 3, pads=[1] * 4)
    with make_context(), collect_choices({}) as table:
        pipeline.plan(import_model(model), Target.parse("x86 -mcpu=haswell"), PassContext())
    [choice] = [choice for choice in table.asked.values() if choice.kind == "winograd"]
    assert choice.key == "plan:winograd_1x14x14_64x64_3x3_1x1_bytes" and choice.options == (0, 2)


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("rows, steps, columns", [(1, 64, 40), (9, 33, 40), (13, 2, 17), (7, 130, 16), ("M", 70, 40)])
def test_rows_are_exact(cpu: str, rows: int | str, steps: int, columns: int) -> None:
    weight = RNG.integers(-128, 128, (steps, columns), np.int8)
    module, schedules = schedules_of(network("MatMulInteger", (rows, steps), weight, 9), cpu)
    assert "dot_product" in schedules and "plain loops" not in schedules
    for count in (0, 1, 5, 50) if isinstance(rows, str) else (rows,):
        data = RNG.integers(0, 256, (count, steps), np.uint8)
        for module.num_threads in (1, 3):
            want = (data.astype(np.int64) - 9) @ weight.astype(np.int64)
            np.testing.assert_array_equal(module(data)[0], want)


def test_a_network_stores_numbers_of_16_bits() -> None:
    """What quantizes the data of a product widens them: no kernel does that alone."""
    random = RNG.integers(-40, 40, (16, 16, 1, 1), np.int8)
    numbers = {"s": np.array(0.05, np.float32), "z": np.array(120, np.uint8), "w": random, "o": np.array(0, np.int8)}
    given, names = [onnx.numpy_helper.from_array(array, name) for name, array in numbers.items()], iter("ab")
    nodes, last = [onnx.helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"])], "q"
    for _ in range(2):
        made = next(names)
        nodes.append(onnx.helper.make_node("QLinearConv", [last, "s", "z", "w", "s", "o", "s", "z"], [made]))
        last = made
    nodes.append(onnx.helper.make_node("DequantizeLinear", [last, "s", "z"], ["y"]))
    kinds = [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [1, 16, 8, 8]) for n in "xy"]
    graph = onnx.helper.make_graph(nodes, "net", kinds[:1], kinds[1:], given)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9)
    module = tw.compile(model, "x86 -mcpu=x86-64-v2", workers=0)
    assert not any(kernel.name.startswith("extu") for kernel in module.manifest.kernels)


@pytest.mark.parametrize("cpu", targets("haswell"))
def test_pixels_of_a_small_image_are_one_line(cpu: str) -> None:
    filters = RNG.integers(-128, 128, (128, 64, 1, 1), np.int8)
    module, schedules = schedules_of(network("ConvInteger", (1, 64, 7, 7), filters, 9), cpu)
    assert "in 9 x 5 + 4" in schedules
    data = RNG.integers(0, 256, (1, 64, 7, 7), np.uint8)
    for module.num_threads in (1, 3):
        np.testing.assert_array_equal(module(data)[0], convolve(data, filters, 9, (0, 0, 0, 0), 1))
