"""Long windows in steps of several elements, as tensor expressions and as convolutions of networks."""

from __future__ import annotations

import numpy as np
import pytest
import text_model
from cpu_targets import FOR_THIS_MACHINE

import tilewright as tw
from tilewright import te
from tilewright.core.target import Target

RANDOM = np.random.default_rng(0)
SHAPES = [(3, 16, 41, 0), (4, 63, 100, 1), (5, 20, 7, 4), (3, 17, 1, 2), (8, 64, 130, 5), (10, 53, 33, 9)]


def filter_windows(x: np.ndarray, w: np.ndarray, step: int) -> np.ndarray:
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), len(w), axis=-1)
    return windows[..., ::step, :] @ w


@FOR_THIS_MACHINE
@pytest.mark.parametrize("step, taps, outputs, more", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_expressions(step: int, taps: int, outputs: int, more: int, dtype: str) -> None:
    """Of data that is as long as the windows need, and longer; what no window reaches is nowhere in the result."""
    length = (outputs - 1) * step + taps + more % step
    a, w, k = (
        te.placeholder((3, length), dtype, "a"),
        te.placeholder((taps,), dtype, "w"),
        te.reduce_axis((0, taps), "k"),
    )
    y = te.compute((3, outputs), lambda b, i: te.sum(a[b, i * step + k] * w[k], axis=k), name="y")
    s = te.create_schedule(y.op)
    s[y].auto()
    built = tw.build(s, [a, w, y], num_threads=1)
    assert len(built.manifest.kernels) > 1, "rows are made by a kernel of their own"
    x, weight = RANDOM.standard_normal((3, length)).astype(dtype), RANDOM.standard_normal(taps).astype(dtype)
    x[:, (outputs - 1) * step + taps :] = np.nan
    wanted = filter_windows(x[:, : (outputs - 1) * step + taps], weight, step)
    np.testing.assert_allclose(built(x, weight)[0], wanted, rtol=0, atol=1e-4 if dtype == "float32" else 1e-12)


@FOR_THIS_MACHINE
@pytest.mark.parametrize("step, taps, outputs, pad", [(4, 63, 50, 0), (3, 18, 23, 5), (5, 31, 40, 15)])
def test_convolutions_of_one_filter(step: int, taps: int, outputs: int, pad: int) -> None:
    x, w = text_model.values(2, 1, (outputs - 1) * step + taps - 2 * pad), text_model.values(1, 1, taps)
    nodes = f"y = Conv<strides=[{step}], pads=[{pad}, {pad}]>(x, w)"
    model = text_model.model(f"float[2,1,{outputs}] y", nodes, {"x": x}, {"w": w})
    [made] = tw.compile(model.SerializeToString(), num_threads=1, workers=0).run([x])
    padded = np.pad(x, [(0, 0), (0, 0), (pad, pad)])
    np.testing.assert_allclose(made, filter_windows(padded, w[0, 0], step), rtol=0, atol=1e-4)


@FOR_THIS_MACHINE
def test_a_number_that_is_none_reaches_its_own_windows_alone() -> None:
    step, taps, outputs = 4, 18, 30
    a, w = te.placeholder((outputs * step + taps,), name="a"), te.placeholder((taps,), name="w")
    k = te.reduce_axis((0, taps), "k")
    y = te.compute((outputs,), lambda i: te.sum(a[i * step + k] * w[k], axis=k), name="y")
    s = te.create_schedule(y.op)
    s[y].auto()
    x = np.ones(outputs * step + taps, np.float32)
    x[42] = np.nan
    [made] = tw.build(s, [a, w, y], Target.parse("x86"), num_threads=1)(x, np.ones(taps, np.float32))
    reached = [i for i in range(outputs) if i * step <= 42 < i * step + taps]
    assert np.flatnonzero(np.isnan(made)).tolist() == reached
