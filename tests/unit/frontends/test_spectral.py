"""Spectra against numpy's transforms and ONNX's reference."""

from __future__ import annotations

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator
from onnx_case import check_node, node_model
from reference import run_model
from samples import campaign

import tilewright as tw
from tilewright.core.errors import InputError, ModelError
from tilewright.frontends import import_model

RANDOM = np.random.default_rng(0)


def dft(x, length=None, axis=None, **attributes):
    arrays = [x, None if length is None else np.array(length), None if axis is None else np.array(axis)]
    known = [i for i in (1, 2) if arrays[i] is not None]
    model, inputs = node_model("DFT", arrays, known, opset=20, **attributes)
    return run_model(import_model(model), inputs)[0]


def pairs(z):
    return np.stack([z.real, z.imag], axis=-1)


def close(got, want):
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, atol=2e-6 * max(np.abs(want).max(initial=0), 1))


@pytest.mark.parametrize("inverse", [0, 1])
@pytest.mark.parametrize("length", [None, 4, 9, 1])
@pytest.mark.parametrize("axis", [0, 1, -2])
def test_complex_transform(axis, length, inverse):
    z = RANDOM.standard_normal((3, 5, 7)) + 1j * RANDOM.standard_normal((3, 5, 7))
    want = (np.fft.ifft if inverse else np.fft.fft)(z, n=length, axis=axis if axis >= 0 else 2)
    close(dft(pairs(z).astype(np.float32), length, axis, inverse=inverse), pairs(want))


@pytest.mark.parametrize("length", [None, 4, 9])
@pytest.mark.parametrize("onesided", [0, 1])
def test_real_transform(onesided, length):
    x = RANDOM.standard_normal((2, 6)).astype(np.float32)
    want = (np.fft.rfft if onesided else np.fft.fft)(x, n=length)
    close(dft(x[..., None], length, onesided=onesided), pairs(want))


@pytest.mark.parametrize("length", [None, 1, 5, 6, 13, 80])
def test_real_inverse_ignores_what_conjugates_cancel(length):
    z = RANDOM.standard_normal((2, 5)) + 1j * RANDOM.standard_normal((2, 5))
    want = np.fft.irfft(z, n=length)
    close(dft(pairs(z).astype(np.float32), length, inverse=1, onesided=1), want[..., None])


def test_lengths_with_factors_have_no_table_of_their_square():
    model, _ = node_model(
        "DFT", [np.zeros((2, 256, 2), np.float32), np.array(256), np.array(1)], known=[1, 2], opset=20
    )
    text = str(import_model(model).module)
    assert "tensor<32x32xf32>" in text and "512x512" not in text


@campaign("67", "521")
@pytest.mark.parametrize("length", [67, 72, 100, 300, 600, 521, 8 * 67, 2048, 3 * 521])
def test_long_transforms(length):
    z = RANDOM.standard_normal((2, length)) + 1j * RANDOM.standard_normal((2, length))
    close(dft(pairs(z).astype(np.float32)), pairs(np.fft.fft(z)))
    close(dft(z.real[..., None].astype(np.float32), onesided=1), pairs(np.fft.rfft(z.real)))
    half = pairs(z).astype(np.float32)[:, : length // 2 + 1]
    close(dft(half, length, inverse=1, onesided=1), np.fft.irfft(z, n=length)[..., None])


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-13), (np.float16, 2e-3)])
def test_other_floats(dtype, tolerance):
    x = RANDOM.standard_normal((2, 600)).astype(dtype)
    got, want = dft(x[..., None]), pairs(np.fft.fft(x.astype(np.float64)))
    assert got.dtype == dtype
    np.testing.assert_allclose(got, want, atol=tolerance * np.abs(want).max())


def test_the_axis_is_an_attribute_before_opset_20():
    x = RANDOM.standard_normal((2, 6, 3, 1)).astype(np.float32)
    for axis in (1, 2):
        model, inputs = node_model("DFT", [x], opset=17, axis=axis)
        close(run_model(import_model(model), inputs)[0], pairs(np.fft.fft(x[..., 0], axis=axis)))


def compiled(op, arrays, opset=20, **attributes):
    """A program in which all inputs are the run's, and its result for these."""
    model, inputs = node_model(op, arrays, opset=opset, **attributes)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    module = tw.compile(model, workers=0, num_threads=1, cache=False)
    return module, module(*inputs.values())[0]


def test_axis_and_length_that_the_run_gives():
    z = RANDOM.standard_normal((3, 4, 6)) + 1j * RANDOM.standard_normal((3, 4, 6))
    x = pairs(z).astype(np.float32)
    module, got = compiled("DFT", [x, np.array(5), np.array(2)], inverse=1)
    close(got, pairs(np.fft.ifft(z, 5, 2)))
    for axis, length in ((0, 3), (1, 2), (-3, 9), (-4, 1)):
        got = module(x, np.array(length), np.array(axis))[0]
        close(got, pairs(np.fft.ifft(z, length, axis + 1 if axis < 0 else axis)))
    for axis, length in ((3, 4), (-1, 4), (-5, 4), (0, 0), (0, -2)):
        with pytest.raises(InputError, match="node 'the_DFT'"):
            module(x, np.array(length), np.array(axis))


@campaign("6", "9")
@pytest.mark.parametrize("length", [5, 6, 9])
def test_one_side_of_a_length_that_the_run_gives(length):
    x = RANDOM.standard_normal((2, 6))
    _, got = compiled("DFT", [x[..., None].astype(np.float32), np.array(length), np.array(1)], onesided=1)
    close(got, pairs(np.fft.rfft(x, length)))
    z = x + 1j * RANDOM.standard_normal((2, 6))
    _, got = compiled("DFT", [pairs(z), np.array(length), np.array(1)], onesided=1, inverse=1)
    close(got, np.fft.irfft(z, length)[..., None])


def test_an_empty_batch():
    assert dft(np.zeros((0, 6, 1), np.float32)).shape == (0, 6, 2)


@pytest.mark.parametrize("onesided", [0, 1])
def test_stft(onesided):
    x, window = RANDOM.standard_normal((2, 50, 1)), RANDOM.random(12)
    arrays = [a.astype(np.float32) for a in (x, window)]
    for given, length in ((arrays[1], None), (None, 12), (arrays[1], 12)):
        inputs = [arrays[0], np.array(5), given, None if length is None else np.array(length)]
        known = [i for i in (1, 3) if inputs[i] is not None]
        model, feeds = node_model("STFT", inputs, known, opset=17, onesided=onesided)
        frames = np.lib.stride_tricks.sliding_window_view(x[..., 0], 12, axis=1)[:, ::5]
        frames = frames if given is None else frames * window
        want = (np.fft.rfft if onesided else np.fft.fft)(frames)
        close(run_model(import_model(model), feeds)[0], pairs(want))


def test_stft_of_real_numbers_without_an_axis_of_their_parts():
    """As torch exports it, and as onnxruntime takes it."""
    x = RANDOM.standard_normal((2, 50)).astype(np.float32)
    model, feeds = node_model("STFT", [x, np.array(5), None, np.array(12)], [1, 3], opset=17)
    frames = np.lib.stride_tricks.sliding_window_view(x, 12, axis=1)[:, ::5]
    close(run_model(import_model(model), feeds)[0], pairs(np.fft.rfft(frames)))


@pytest.mark.parametrize("windowed", [False, True])
def test_frames_that_the_run_gives(windowed):
    x = RANDOM.standard_normal((2, 50, 1)).astype(np.float32)
    window = RANDOM.random(12).astype(np.float32)
    last = window if windowed else np.array(12)
    module, _ = compiled("STFT", [x, np.array(5), *([last] if windowed else [None, last])], 17)
    for step in (5, 7, 1, 40):
        frames = np.lib.stride_tricks.sliding_window_view(x[..., 0], 12, axis=1)[:, ::step]
        close(module(x, np.array(step), last)[0], pairs(np.fft.rfft(frames * window if windowed else frames)))
    for step, length in ((0, 12), (-1, 12), *(() if windowed else ((5, 51), (5, 0)))):
        with pytest.raises(InputError, match="node 'the_STFT'"):
            module(x, np.array(step), window if windowed else np.array(length))


@campaign("16")
@pytest.mark.parametrize("length", [16, 600])
def test_frames_of_a_signal_of_any_length(length):
    model, _ = node_model(
        "STFT", [np.zeros((1, 700, 1), np.float32), np.array(8), None, np.array(length)], (1, 3), opset=17
    )
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "T"
    model.graph.output[0].type.tensor_type.ClearField("shape")
    module = tw.compile(model, workers=0, num_threads=1, cache=False)
    for extent in (700, length):
        x = RANDOM.standard_normal((1, extent, 1)).astype(np.float32)
        frames = np.lib.stride_tricks.sliding_window_view(x[..., 0], length, axis=1)[:, ::8]
        close(module(x)[0], pairs(np.fft.rfft(frames)))


def test_stft_of_a_complex_signal_without_window_is_one_frame():
    z = RANDOM.standard_normal((1, 9)) + 1j * RANDOM.standard_normal((1, 9))
    model, inputs = node_model("STFT", [pairs(z), np.array(1)], known=[1], opset=17, onesided=0)
    close(run_model(import_model(model), inputs)[0], pairs(np.fft.fft(z))[:, None])


@pytest.mark.parametrize(
    ("bins", "length", "rate", "low", "high"), [(8, 16, 8192, 0, 4096), (40, 512, 16000, 80, 7600)]
)
def test_mel_weights(bins, length, rate, low, high):
    arrays = [np.array(n) for n in (bins, length, rate)] + [np.array(n, np.float32) for n in (low, high)]
    check_node("MelWeightMatrix", *arrays, known=range(5), opset=17)  # folded
    arrays[:3] = [array.astype(np.int32) for array in arrays[:3]]
    model, inputs = node_model("MelWeightMatrix", arrays, range(5), opset=17, output_datatype=16)  # bfloat16: computed
    [want] = map(
        np.asarray, ReferenceEvaluator(node_model("MelWeightMatrix", arrays, range(5), opset=17)[0]).run(None, {})
    )
    np.testing.assert_allclose(run_model(import_model(model), inputs)[0].astype(np.float32), want, rtol=4e-3)


def test_mel_weights_that_the_run_gives():
    arrays = [np.array(n, np.int32) for n in (40, 512, 16000)] + [np.array(n, np.float32) for n in (80, 7600)]
    module, _ = compiled("MelWeightMatrix", arrays, opset=17)
    for bins, length in ((40, 512), (8, 17)):
        arrays[:2] = [np.array(n, np.int32) for n in (bins, length)]
        model, inputs = node_model("MelWeightMatrix", arrays, opset=17)
        [want] = map(np.asarray, ReferenceEvaluator(model).run(None, inputs))
        np.testing.assert_allclose(module(*arrays)[0], want, rtol=1e-6)
    with pytest.raises(InputError, match="node 'the_MelWeightMatrix'"):
        module(np.array(0, np.int32), *arrays[1:])


@pytest.mark.parametrize("op", ["HannWindow", "HammingWindow", "BlackmanWindow"])
def test_windows_of_known_size(op):
    for periodic in (0, 1):
        check_node(op, np.array(10), known=[0], periodic=periodic)


@pytest.mark.parametrize(
    ("shape", "known", "attributes", "reason"),
    [
        ((2, 6, 3), {}, {}, "no sequences of complex numbers"),
        ((2, 6, 2), {2: 2}, {}, "no sequences of complex numbers along axis 2"),
        ((2, 6, 2), {}, {"onesided": 1}, "onesided is for real input"),
        ((2, 6, 2), {1: 0}, {}, "a transform of length 0"),
        ((2, 1, 2), {}, {"onesided": 1, "inverse": 1}, "a transform of length 0"),
    ],
)
def test_what_is_no_transform_is_refused(shape, known, attributes, reason):
    arrays = [np.zeros(shape, np.float32), *(np.array(known[i]) if i in known else None for i in (1, 2))]
    model, _ = node_model("DFT", arrays, known, opset=20, **attributes)
    model.graph.output[0].type.CopyFrom(model.graph.input[0].type)  # what does not fit has no inferred one
    with pytest.raises(ModelError, match=f"the_DFT.*{reason}"):
        import_model(model)


def test_frames_that_do_not_fit_are_refused():
    arrays = [np.zeros((1, 9, 1), np.float32), np.array(2), np.ones(4, np.float32), np.array(5)]
    model, _ = node_model("STFT", arrays, known=[1, 3], opset=17)
    model.graph.output[0].type.CopyFrom(model.graph.input[0].type)
    with pytest.raises(ModelError, match=r"the_STFT.*frames of 5 elements every 2 do not fit a signal of 9"):
        import_model(model)
