"""Text, sequences and optionals, which the host holds, and what it computes beside them."""

import numpy as np
import onnx
import onnxruntime
import pytest

import tilewright as tw
from tilewright.errors import InputError, ModelError


def compiled(text: str, opset: int = 20) -> tuple[tw.Module, onnx.ModelProto]:
    made = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": {opset}]> {text}')
    for output in made.graph.output:
        output.type.tensor_type.ClearField("shape")
    return tw.compile(made, workers=0, num_threads=1, cache=False), made


def test_sequences_are_made_changed_and_joined():
    text = """g (float[2, 3] x, float[1, 3] y, int64 at) => (float[A, 3] z, int64 n)
    { s = SequenceConstruct(x, y, x)  t = SequenceErase(s, at)  u = SequenceInsert(t, y)
      z = ConcatFromSequence<axis = 0>(u)  n = SequenceLength(u) }"""
    module, made = compiled(text)
    x, y = np.arange(6, dtype=np.float32).reshape(2, 3), np.full((1, 3), 7, np.float32)
    session = onnxruntime.InferenceSession(made.SerializeToString())
    for at in (0, 1, -1):
        want = session.run(None, {"x": x, "y": y, "at": np.array(at)})
        for a, b in zip(module(x, y, np.array(at)), want, strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_place_outside_of_a_sequence_is_refused():
    module, _ = compiled("g (float[2] x, int64 at) => (float y) { s = SequenceConstruct(x)  y = SequenceAt(s, at) }")
    with pytest.raises(InputError, match="node 'SequenceAt_1' cannot be computed: position 3 is outside"):
        module(np.zeros(2, np.float32), np.array(3))


@pytest.mark.parametrize("keepdims", [0, 1])
def test_a_tensor_is_split_into_a_sequence(keepdims: int):
    text = f"g (float[N, 2] x) => (float y) {{ s = SplitToSequence<keepdims = {keepdims}>(x) z = Constant<value_int = -1>() "
    module, _ = compiled(text + "y = SequenceAt(s, z) }")
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    np.testing.assert_array_equal(module(x)[0], x[-1:] if keepdims else x[-1])


def test_text_is_computed_on():
    text = """g (string[N] x, string[N] y) => (string z, int64 n, bool same)
    { a = StringConcat(x, y)  z, n = StringSplit<delimiter = "-">(a)  same = Equal(x, y) }"""
    module, _ = compiled(text)
    z, n, same = module(np.array(["a-", "b"]), np.array(["c", "b"]))
    assert z.tolist() == [["a", "c"], ["bb", ""]]
    assert (n.tolist(), same.tolist()) == ([2, 1], [False, True])
    assert n.dtype == np.int64 and same.dtype == bool


def test_what_is_no_text_is_refused():
    module, _ = compiled('g (string[N] x) => (bool y) { y = RegexFullMatch<pattern = "a+">(x) }')
    assert module(np.array(["aa", "ab"]))[0].tolist() == [True, False]
    with pytest.raises(InputError, match="input 'x' must be an array of strings"):
        module(np.array([1, 2]))


def test_a_sequence_of_unknown_rank_is_refused():
    text = """<ir_version: 9, opset_import: ["": 20]> g (seq(float) s, int64 at) => (float[N] y)
    { y = SequenceAt(s, at) }"""
    made = onnx.parser.parse_model(text)
    made.graph.input[0].type.sequence_type.elem_type.tensor_type.ClearField("shape")
    with pytest.raises(ModelError, match=r"SequenceAt.*the rank of what the sequence holds is not known"):
        tw.compile(made, workers=0, cache=False)


@pytest.mark.parametrize("limit", [0.3, 0.6])
def test_boxes_are_chosen_as_onnxruntime_does(limit: float):
    text = """g (float[1, N, 4] b, float[1, C, N] s, int64[1] most, float[1] iou, float[1] least) => (int64[K, 3] y)
    { y = NonMaxSuppression(b, s, most, iou, least) }"""
    module, made = compiled(text)
    rng = np.random.default_rng(3)
    corner = rng.uniform(0, 10, (1, 40, 2))
    boxes = np.concatenate([corner, corner + rng.uniform(1, 5, (1, 40, 2))], -1).astype(np.float32)
    scores = rng.uniform(0, 1, (1, 2, 40)).astype(np.float32)
    inputs = [boxes, scores, np.array([8]), np.array([limit], np.float32), np.array([0.2], np.float32)]
    session = onnxruntime.InferenceSession(made.SerializeToString())
    [want] = session.run(None, dict(zip(["b", "s", "most", "iou", "least"], inputs, strict=True)))
    np.testing.assert_array_equal(module(*inputs)[0], want)


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("ordered", [0, 1])
def test_what_is_there_once(axis: int | None, ordered: int):
    along = "" if axis is None else f", axis = {axis}"
    text = f"g (float[N, M] x) => (float a, int64 b, int64 c, int64 d) {{ a, b, c, d = Unique<sorted = {ordered}{along}>(x) }}"
    module, made = compiled(text)
    x = np.array([[2, 1, 2], [2, 1, 2], [0, 3, 0]], np.float32)
    session = onnxruntime.InferenceSession(made.SerializeToString())
    for got, want in zip(module(x), session.run(None, {"x": x}), strict=True):
        np.testing.assert_array_equal(got, want)
