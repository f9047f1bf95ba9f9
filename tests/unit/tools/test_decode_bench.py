"""The decoders that ``make bench-decode`` measures run in sessions as they do in onnxruntime."""

from __future__ import annotations

import pytest
from decode_bench import EXACT, HEAD, ONNXRUNTIME, OURS, Decoder, measure


@pytest.mark.slow  # two programs of open sizes, two of known ones
@pytest.mark.parametrize("grouped", [False, True])
def test_a_session_computes_what_onnxruntime_does(grouped: bool):
    [found] = measure(Decoder(1, 2 * HEAD, grouped), 1, [3], 1)  # raises where results differ
    assert found["past"] == 3 and set(found["us"]) == {OURS, EXACT, ONNXRUNTIME}
