"""Text, sequences and optionals, which the host holds, and what it computes beside them."""

import io
import sys

import numpy as np
import onnx
import pytest
from PIL import Image

import tilewright as tw
from tilewright.core.errors import InputError, ModelError
from tilewright.runtime.steps.host import FUNCTIONS
from tilewright.tools.debugging.oracle import make_session


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
    session = make_session(made)
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


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("in_order", [0, 1])
def test_slices_of_text_are_found_once(axis, in_order):
    text = f"g (string[N, M] x) => (string y, int64 i, int64 v, int64 c) {{ y, i, v, c = Unique<axis = {axis}, sorted = {in_order}>(x) }}"
    module, made = compiled(text)
    x = np.array([["b", "a", "b"], ["ü", "", "ü"], ["b", "a", "b"]], object)
    for got, want in zip(module(x), make_session(made).run(None, {"x": x}), strict=True):
        assert got.tolist() == want.tolist()


def test_the_file_holds_text():
    text = """g (string[N] x) => (string[N] y, bool[N] e, int64[A] n, string c, string[B] t)
    <string[2] w = {"ab", "Grüße"}>
    { v = Constant<value_strings = ["a", "b"]>()  c = Constant<value_string = "one">()
      joined = StringConcat(x, v)  y = StringConcat(joined, c)  e = Equal(joined, w)
      parts, n = StringSplit<delimiter = "b">(w)  t = Identity(w) }"""
    module, made = compiled(text)
    x = np.array(["a", "Grüß"], object)
    for got, want in zip(module(x), make_session(made).run(None, {"x": x}), strict=True):
        assert np.array_equal(np.asarray(got), np.asarray(want))


def test_words_and_numbers_by_a_table():
    domain = '<ir_version: 9, opset_import: ["": 20, "ai.onnx.ml": 3]>'
    table = 'cats_int64s = [3, 5], cats_strings = ["a", "b"]'
    made = onnx.parser.parse_model(f"""{domain} g (string[N] x, int64[M] i) => (int64[N] n, string[M] w, float[N] f) {{
      n = ai.onnx.ml.CategoryMapper<{table}, default_int64 = -7>(x)
      w = ai.onnx.ml.CategoryMapper<{table}, default_string = "none">(i)
      f = ai.onnx.ml.LabelEncoder<keys_strings = ["a", "b"], values_floats = [0.5, 1.5], default_float = 0.1>(x) }}""")
    inputs = {"x": np.array(["b", "", "a"], object), "i": np.array([5, 4])}
    module = tw.compile(made, workers=0, num_threads=1, cache=False)
    wanted = make_session(made).run(None, inputs)
    for got, want in zip(module.run(inputs), wanted, strict=True):
        assert np.asarray(got).dtype == np.asarray(want).dtype and np.asarray(got).tolist() == np.asarray(want).tolist()


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
    session = make_session(made)
    [want] = session.run(None, dict(zip(["b", "s", "most", "iou", "least"], inputs, strict=True)))
    np.testing.assert_array_equal(module(*inputs)[0], want)


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("ordered", [0, 1])
def test_what_is_there_once(axis: int | None, ordered: int):
    along = "" if axis is None else f", axis = {axis}"
    text = f"g (float[N, M] x) => (float a, int64 b, int64 c, int64 d) {{ a, b, c, d = Unique<sorted = {ordered}{along}>(x) }}"
    module, made = compiled(text)
    x = np.array([[2, 1, 2], [2, 1, 2], [0, 3, 0]], np.float32)
    session = make_session(made)
    for got, want in zip(module(x), session.run(None, {"x": x}), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("numbers", [[-1, 0, 2], [0.0, -0.0, 1.5, np.nan]], ids=["integers", "floats"])
@pytest.mark.parametrize(
    "shape, axis", [((5, 4, 3), 1), ((40, 2), 0), ((1, 3), 1), ((0, 3), 0), ((7,), 0), ((6, 50), None), ((0, 3), None)]
)
def test_what_is_there_once_is_what_numpy_finds(numbers: list[float], shape: tuple[int, ...], axis: int | None):
    x = np.random.default_rng(0).choice(np.array(numbers), shape)
    found = FUNCTIONS["Unique"]({"axis": axis, "sorted": 1}, x)
    for got, want in zip(found, np.unique(x, True, True, True, axis=axis), strict=True):
        np.testing.assert_array_equal(got, want.reshape(got.shape))


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "uint64", "float16", "float32", "float64"])
@pytest.mark.parametrize("shape, axis", [((500, 3), 0), ((8, 600), 1), ((300, 2, 70), 0)])
@pytest.mark.parametrize("repeats", [1, 2])
def test_many_slices_that_are_there_once(dtype: str, shape: tuple[int, ...], axis: int, repeats: int):
    """Their columns need more digits than a word has, or few; some slices are equal, all of them in pairs."""
    rng = np.random.default_rng(0)
    numbers = [-0.0, 0.0, 1.5, -np.inf, np.inf]
    if not dtype.startswith("float"):
        limits = np.iinfo("uint8" if dtype == "bool" else dtype)
        numbers = [limits.min, 0, 1, limits.max]
    x = np.repeat(rng.choice(np.array(numbers, dtype), shape), repeats, axis)
    found = FUNCTIONS["Unique"]({"axis": axis, "sorted": 1}, x)
    for got, want in zip(found, np.unique(x, True, True, True, axis=axis), strict=True):
        np.testing.assert_array_equal(got, want.reshape(got.shape))


def picture(kind: str, mode: str = "RGB") -> tuple[np.ndarray, np.ndarray]:
    """Pixels, and a file's content that has them."""
    rng = np.random.default_rng(5)
    pixels = rng.integers(0, 256, (4, 6, 3) if mode == "RGB" else (4, 6), np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind)
    return pixels, np.frombuffer(file.getvalue(), np.uint8)


@pytest.mark.filterwarnings("ignore:Truncated File Read")
@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "PPM"])
def test_pictures_are_decoded(kind: str):
    text = """g (uint8[N] x) => (uint8[H, W, C] a, uint8[H, W, C] b, uint8[H, W, D] c)
    { a = ImageDecoder(x)  b = ImageDecoder<pixel_format = "BGR">(x)  c = ImageDecoder<pixel_format = "Grayscale">(x) }"""
    module, _ = compiled(text)
    pixels, encoded = picture(kind)
    rgb, bgr, gray = module(encoded)
    np.testing.assert_array_equal(rgb, pixels)
    np.testing.assert_array_equal(bgr, pixels[..., ::-1])
    np.testing.assert_array_equal(gray[..., 0], np.asarray(Image.fromarray(pixels).convert("L")))
    assert [a.shape for a in module(encoded[: len(encoded) // 2])] == [(0, 0, 3), (0, 0, 3), (0, 0, 1)]
    gray, encoded = picture(kind, "L")
    np.testing.assert_array_equal(module(encoded)[0], np.repeat(gray[..., None], 3, axis=2))


def test_without_pillow_a_picture_is_refused_with_what_to_install(monkeypatch: pytest.MonkeyPatch):
    module, _ = compiled("g (uint8[N] x) => (uint8 y) { y = ImageDecoder(x) }")
    _, encoded = picture("PNG")
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(
        InputError, match=r"node 'ImageDecoder_0' cannot be computed: .*pip install 'tilewright\[images\]'"
    ):
        module(encoded)


def test_a_picture_of_an_unknown_pixel_format_is_refused():
    with pytest.raises(ModelError, match=r"ImageDecoder_0.*pixel_format 'CMYK' is none of RGB, BGR, Grayscale"):
        compiled('g (uint8[N] x) => (uint8 y) { y = ImageDecoder<pixel_format = "CMYK">(x) }')
