"""Convolutions whose weights are inputs of the program, or computed by it, with open numbers of channels and taps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from cpu_targets import FOR_THIS_MACHINE
from samples import campaign
from shared_kernels import describe_kernels, noting_kernels

import tilewright as tw
from tilewright.core.target import Target
from tilewright.tools.debugging.oracle import make_session

RNG = np.random.default_rng(23)
COPIED = "panels of copied windows"
# Inputs, nodes, and the shapes of the inputs: of one pixel, of less than a vector, of rows that end within panels.
MODELS = {
    "images": (
        "float[N, C, H, W] x, float[F, D, K, L] w",
        "y = Conv<pads = [1, 1, 1, 1]>(x, w)",
        [
            ((1, 1, 1, 1), (1, 1, 3, 3)),
            ((2, 3, 7, 5), (33, 3, 3, 2)),
            ((1, 17, 9, 33), (7, 17, 1, 1)),
            ((1, 8, 20, 65), (24, 8, 2, 5)),
        ],
    ),
    "steps": (
        "float[1, C, H, W] x, float[F, D, 3, 3] w",
        "y = Conv<strides = [2, 3], dilations = [1, 2]>(x, w)",
        [((1, 3, 5, 5), (2, 3, 3, 3)), ((1, 5, 33, 65), (31, 5, 3, 3))],
    ),
    "groups": (
        "float[N, C, 8, W] x, float[F, D, 3, 3] w",
        "y = Conv<group = 3, pads = [0, 1, 0, 1]>(x, w)",
        [((3, 3, 8, 1), (3, 1, 3, 3)), ((2, 21, 8, 17), (27, 7, 3, 3))],
    ),
    "a signal": (
        "float[N, C, W] x, float[F, D, K] w",
        "y = Conv<strides = [2]>(x, w)",
        [((1, 3, 7), (1, 3, 7)), ((2, 17, 130), (25, 17, 3))],
    ),
    "volumes": (
        "float[1, C, 3, H, W] x, float[F, D, 2, 3, K] w",
        "y = Conv<pads = [1, 1, 0, 1, 1, 0]>(x, w)",
        [((1, 4, 3, 5, 7), (9, 4, 2, 3, 1)), ((1, 1, 3, 2, 3), (1, 1, 2, 3, 3))],
    ),
    "filters alone": (
        "float[1, 6, 7, 7] x, float[F, 6, 3, 3] w",
        "y = Conv<pads = [1, 1, 1, 1]>(x, w)",
        [((1, 6, 7, 7), (1, 6, 3, 3)), ((1, 6, 7, 7), (65, 6, 3, 3))],
    ),
    "a network": (
        "float[1, C, H, W] x, float[F, D, 3, 3] v, float[F] b, float[A, B, 3, 3] w",
        "a = Conv<pads = [1, 1, 1, 1]>(x, v, b) r = Relu(a) c, d = Split<axis = 1, num_outputs = 2>(w)"
        "e = Conv<pads = [1, 1, 1, 1]>(r, c) y = Conv<pads = [1, 1, 1, 1]>(e, d)",
        [((1, 3, 7, 9), (8, 3, 3, 3), (8,), (8, 16, 3, 3)), ((1, 1, 33, 5), (5, 1, 3, 3), (5,), (5, 10, 3, 3))],
    ),
    "transposed": (
        "float[N, C, H, W] x, float[C, F, K, L] w",
        "y = ConvTranspose<strides = [2, 2], pads = [1, 1, 1, 1]>(x, w)",
        [((1, 3, 1, 1), (3, 17, 4, 4)), ((2, 9, 7, 17), (9, 5, 3, 4))],
    ),
    "bytes": (
        "uint8[1, C, H, W] x, uint8 xz, int8[F, D, 3, 3] w",
        "z = Constant<value_int = 0>() wz = Cast<to = 3>(z) i = ConvInteger<pads = [1, 1, 1, 1]>(x, w, xz, wz) y = Cast<to = 1>(i)",
        [((1, 1, 2, 3), (), (1, 1, 3, 3)), ((1, 19, 7, 33), (), (26, 19, 3, 3))],
    ),
    "half": (
        "float16[1, C, H, W] x, float16[F, D, 3, 3] w",
        "y = Conv(x, w)",
        [((1, 3, 7, 17), (9, 3, 3, 3))],
    ),
}


def _make_model(name: str) -> onnx.ModelProto:
    inputs, body, _ = MODELS[name]
    made = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 18]> g ({inputs}) => (float y) {{ {body} }}')
    made.graph.output[0].type.CopyFrom(made.graph.input[0].type)
    made.graph.output[0].type.tensor_type.ClearField("shape")
    if name == "bytes":
        made.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    return made


def _draw_inputs(made: onnx.ModelProto, shapes: Sequence[Sequence[int]]) -> dict[str, np.ndarray]:
    found = {}
    for info, shape in zip(made.graph.input, shapes, strict=True):
        kind = onnx.helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
        if np.issubdtype(kind, np.integer):
            # On some CPUs onnxruntime's sums of two products of bytes end at those of 16 bits.
            low, end = (-63, 64) if kind == np.int8 else (0, 256)
            found[info.name] = RNG.integers(low, end, shape).astype(kind)
        else:
            found[info.name] = np.asarray(RNG.standard_normal(shape), kind)
    return found


@FOR_THIS_MACHINE
@pytest.mark.shares_kernels
@campaign("images", "groups", "a network", "bytes")
@pytest.mark.parametrize("name", MODELS)
def test_all_sizes_agree_with_onnxruntime(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In guarded runs, on one thread and on two."""
    monkeypatch.setenv("TILEWRIGHT_DEBUG", "1")
    made = _make_model(name)
    session = make_session(made)
    with noting_kernels() as found:
        modules = [tw.compile(made, workers=0, num_threads=threads, cache=False) for threads in (1, 2)]
    convolutions = [kernel for kernel in found if kernel.name.startswith("conv")]
    assert convolutions and all(COPIED in kernel.schedule for kernel in convolutions)
    for shapes in MODELS[name][2]:
        inputs = _draw_inputs(made, shapes)
        [want] = session.run(None, inputs)
        for module in modules:
            bound = 1e-2 if name == "half" else 1e-4
            np.testing.assert_allclose(module.run(inputs)[0], want, rtol=bound, atol=bound)


@pytest.mark.parametrize("cpu", ["x86-64-v2", "haswell", "sapphirerapids"])
@pytest.mark.parametrize("name", ["images", "bytes"])
def test_windows_are_copied_on_every_cpu(name: str, cpu: str) -> None:
    kernels = describe_kernels(_make_model(name), Target.parse(f"x86 -mcpu={cpu}"))
    assert [COPIED in kernel.schedule for name, kernel in kernels.items() if name.startswith("conv")] == [True]


def test_a_convolution_with_a_weight_of_known_sizes_copies_none() -> None:
    made = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 18]> g (float[1, 8, H, W] x, float[16, 8, 3, 3] w) => (float[1, 16, P, Q] y)'
        "{ y = Conv(x, w) }"
    )
    kernels = describe_kernels(made, Target.parse("x86 -mcpu=haswell"))
    assert not any(COPIED in kernel.schedule for kernel in kernels.values())
