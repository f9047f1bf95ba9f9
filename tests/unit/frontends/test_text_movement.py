"""Operators that move strings: all that ONNX has, in few programs, beside onnxruntime where that has them."""

from __future__ import annotations

import functools

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

import tilewright as tw
from tilewright.frontends import import_model
from tilewright.tools.debugging.oracle import make_session

X = np.array([["a", "bb", "c"], ["d", "a", "ff"]], object)

# Outputs by names, of x (strings, N x M), and of places that the file holds.
MOVED = """
    one = Constant<value_ints = [1]>()  two = Constant<value_ints = [2]>()  both = Constant<value_ints = [1, 0]>()
    sizes = Constant<value_ints = [-1, 2]>()  wide = Constant<value_ints = [2, 1, 1]>()  twice = Constant<value_ints = [2, 1]>()
    zero = Constant<value_ints = [0]>()  gather = Gather<axis = 1>(x, both)  concat = Concat<axis = 0>(x, x)
    flat = Flatten<axis = 0>(x)  turned = Transpose<perm = [1, 0]>(x)  deep = Unsqueeze(x, zero)
    again = Squeeze(deep, zero)  grown = Expand(x, wide)  tiled = Tile(x, twice)  part = Slice(x, one, two, one)
    shaped = Reshape(turned, sizes)  nd = GatherND(x, one)  elements = GatherElements<axis = 0>(x, at)
    put = ScatterElements<axis = 0>(x, at, part_row)  part_row = Slice(x, zero, one, zero)  put_row = ScatterND(x, rows, part_row)
    chosen = Where(left, x, other)  other = Slice(x, behind, before, axes, back)  left = Equal(x, other)
    behind = Constant<value_ints = [-1]>()  before = Constant<value_ints = [-9]>()  axes = Constant<value_ints = [1]>()
    back = Constant<value_ints = [-1]>()  kept = Compress<axis = 0>(x, first)  hot = OneHot(one, two, words)
    turned_back = ReverseSequence<batch_axis = 0, time_axis = 1>(x, lengths)  half, rest = Split<axis = 0, num_outputs = 2>(x)
    shape = Shape(x)  size = Size(x)  same = Identity(x)
"""
OUTPUTS = [
    "gather",
    "concat",
    "flat",
    "turned",
    "deep",
    "again",
    "grown",
    "tiled",
    "part",
    "shaped",
    "nd",
    "elements",
    "put",
    "put_row",
    "chosen",
    "other",
    "kept",
    "hot",
    "turned_back",
    "half",
    "rest",
    "shape",
    "size",
    "same",
]
WEIGHTS = (
    "<int64[1, 3] at = {0, 1, 0}, int64[1, 1] rows = {1}, bool[2] first = {1, 0}, int64[2] lengths = {1, 2}, "
    'string[2] words = {"no", "yes"}>'
)


def model_of(body: str, declared: str, outputs: str, weights: str = "", opset: int = 20) -> onnx.ModelProto:
    text = f'<ir_version: 9, opset_import: ["": {opset}]> g ({declared}) => ({outputs}) {weights} {{ {body} }}'
    made = onnx.parser.parse_model(text)
    for output in made.graph.output:
        if output.type.tensor_type.elem_type == onnx.TensorProto.UNDEFINED:
            output.ClearField("type")
        else:
            output.type.tensor_type.ClearField("shape")
    return made


def run(model: onnx.ModelProto, *arrays: np.ndarray) -> list[np.ndarray]:
    return list(tw.compile(model, workers=0, num_threads=1, cache=False)(*arrays))


def moved_model() -> onnx.ModelProto:
    numbers = {"shape", "size"}
    outputs = ", ".join(f"{'int64' if name in numbers else 'string'} {name}" for name in OUTPUTS)
    return model_of(MOVED, "string[N, M] x", outputs, WEIGHTS)


def test_all_that_moves_strings_moves_those_of_the_run():
    model = moved_model()
    wants = make_session(model).run(None, {"x": X})
    for name, got, want in zip(OUTPUTS, run(model, X), wants, strict=True):
        assert (name, got.tolist()) == (name, want.tolist())
        assert got.shape == want.shape and got.dtype == want.dtype


def test_strings_that_the_file_holds_are_moved_by_the_import():
    model = moved_model()
    model.graph.initializer.append(
        helper.make_tensor("x", onnx.TensorProto.STRING, X.shape, [t.encode() for t in X.flat])
    )
    del model.graph.input[:]
    for got, want in zip(run(model), make_session(model).run(None, {}), strict=True):
        assert got.tolist() == want.tolist()
    folded = model_of(
        "y = Gather(words, at)", "bool b", "string y", '<string[2] words = {"a", "b"}, int64[1] at = {1}>'
    )
    assert "pick_text" not in str(import_model(folded).module)


def test_strings_are_chosen_by_places_of_the_run():
    """As scikit-learn's classifiers name their classes."""
    model = model_of("y = Gather(words, at)", "int64[N] at", "string y", 'string[3] words = {"a", "b", "ä"}'.join("<>"))
    assert [row.tolist() for row in run(model, np.array([2, -3, 1]))] == [["ä", "a", "b"]]
    with pytest.raises(tw.InputError, match="out of range"):
        run(model, np.array([3]))


def test_what_is_filled_is_filled_with_empty_strings():
    body = "y = Pad(x, pads)  t = Trilu<upper = 1>(x)  c = CenterCropPad<axes = [1]>(x, wide)"
    weights = "<int64[4] pads = {0, 1, 0, 0}, int64[1] wide = {4}>"
    padded, upper, cropped = run(model_of(body, "string[N, M] x", "string y, string t, string c", weights), X)
    assert padded.tolist() == [["", "a", "bb", "c"], ["", "d", "a", "ff"]]
    assert upper.tolist() == [["a", "bb", "c"], ["", "a", "ff"]]
    assert cropped.tolist() == [["a", "bb", "c", ""], ["d", "a", "ff", ""]]


@settings(max_examples=20)
@given(st.integers(0, 4), st.integers(0, 3), st.lists(st.text(max_size=3), min_size=12, max_size=12))
def test_of_any_size(rows, columns, words):
    x = np.array(words[: rows * columns], object).reshape(rows, columns)
    got = _turned_and_joined()(x)
    assert got[0].tolist() == np.concatenate([x.T, x.T[::-1]], axis=1).tolist()


@functools.cache
def _turned_and_joined() -> tw.Module:
    """One program for all examples."""
    weights = "<int64[1] behind = {-1}, int64[1] before = {-99}, int64[1] axis = {0}>"
    body = "t = Transpose(x)  b = Slice(t, behind, before, axis, behind)  y = Concat<axis = 1>(t, b)"
    made = model_of(body, "string[N, M] x", "string y", weights)
    return tw.compile(made, workers=0, num_threads=1, cache=False)


def test_numbers_become_strings_and_back():
    body = """i = Cast<to = 7>(x)  f = Cast<to = 1>(x)  h = CastLike(x, f)  b = Cast<to = 9>(i)
      s = Cast<to = 8>(n)  si = Cast<to = 8>(i)  sb = Cast<to = 8>(b)  same = Cast<to = 8>(x)"""
    outputs = "int64 i, float f, float h, bool b, string s, string si, string sb, string same"
    model = model_of(body, "string[N] x, float[N] n", outputs)
    x = np.array(["1", "-7", "0"], object)
    for n in ([1.5, -7e20, 0.1], [np.nan, np.inf, -np.inf], [3, 1e-5, -0.0]):
        numbers = np.array(n, np.float32)
        for got, want in zip(
            run(model, x, numbers), make_session(model).run(None, {"x": x, "n": numbers}), strict=True
        ):
            assert got.tolist() == want.tolist()
    with pytest.raises(tw.InputError, match="a string is no integer"):
        run(model, np.array(["1", "x", "0"], object), numbers)


def test_ngrams_of_strings():
    attributes = 'min_gram_length = 1, max_gram_length = 2, max_skip_count = 1, mode = "TFIDF", ngram_counts = [0, 3]'
    pool = 'ngram_indexes = [2, 0, 1, 3], pool_strings = ["b", "a", "ü", "a", "b"], weights = [1.0, 2.0, 0.5, 4.0]'
    model = model_of(f"y = TfIdfVectorizer<{attributes}, {pool}>(x)", "string[N, M] x", "float y")
    x = np.array([["a", "b", "a", "x", "b"], ["ü", "ü", "b", "", "a"]], object)
    np.testing.assert_array_equal(run(model, x)[0], make_session(model).run(None, {"x": x})[0])


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('y = ScatterElements<axis = 0, reduction = "add">(x, at, x)', "a reduction of strings"),
        ("y = Reshape(x, at_run)", "the rank of the strings that it moves is known only at run time"),
    ],
)
def test_what_cannot_be_moved_is_refused(body, words):
    model = model_of(body, "string[2, 3] x, int64[2, 3] at, int64[K] at_run", "string y")
    with pytest.raises(tw.ModelError, match=words):
        import_model(model)


@pytest.mark.parametrize("count", [0, 2])
def test_elements_of_a_scan_output_may_be_rows_of_strings(count):
    body = """y, rows = Loop(n, go, x) <body = step (int64 i, bool c, string[A] s) => (bool c, string[A] o, string[B] e)
      { o = Identity(s)  e = Concat<axis = 0>(s, s) }>  t = Transpose<perm = [1, 0]>(rows)"""
    model = model_of(body, "int64 n, bool go, string[K] x", "string rows, string t")
    given_ = {"n": np.array(count), "go": np.array(True), "x": X[0]}
    got, want = run(model, *given_.values()), make_session(model).run(None, given_)
    assert [a.tolist() for a in got[:1]] == [a.tolist() for a in want[:1]]
    assert count == 0 or got[1].tolist() == want[1].tolist()


def test_more_strings_than_a_tensor_may_have_are_refused():
    made = model_of("y = Gather(words, at)", "int64[1000000, 1000000] at", "string y", '<string[1] words = {"a"}>')
    with pytest.raises(tw.ModelError, match="takes 8000000000000 bytes, more than"):
        import_model(made)


def test_operators_of_numbers_refuse_strings_in_a_line():
    made = model_of("y = Equal(x, x)", "string[N] x", "bool y", opset=13)  # of numbers alone before 19
    with pytest.raises(tw.ModelError, match=r"Equal \(Equal_0\): (an operand is of strings|dtype string)"):
        import_model(made)


SENTENCES = np.array([["Hello World, it's me", "a  b"], ["", "xyz-uvw ü"]], object)
TOKENS = [
    'mark = 0, mincharnum = 1, separators = [" "]',
    'mark = 1, mincharnum = 1, separators = [" "]',
    'mark = 0, mincharnum = 2, separators = [" ", ","]',
    'mark = 0, mincharnum = 1, separators = ["[ ,]+"]',
    'mark = 1, mincharnum = 1, separators = [""]',
    'mark = 0, mincharnum = 2, tokenexp = "[a-zA-Z0-9_]+"',
]


def tokens_model(cases: list[str], declared: str) -> onnx.ModelProto:
    body = " ".join(f'y{i} = com.microsoft.Tokenizer<{case}, pad_value = "#">(x)' for i, case in enumerate(cases))
    made = model_of(body, declared, ", ".join(f"string y{i}" for i in range(len(cases))))
    made.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return made


def test_tokens():
    model = tokens_model(TOKENS, "string[N, M] x")
    module, session = tw.compile(model, workers=0, num_threads=1, cache=False), make_session(model)
    for x in (SENTENCES, SENTENCES[1:, :1], SENTENCES[:0]):
        for case, got, want in zip(TOKENS, module(x), session.run(None, {"x": x}), strict=True):
            assert (case, got.tolist()) == (case, want.tolist())


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ('mark = 0, mincharnum = 0, separators = [" "]', "mincharnum is 0"),
        ("mark = 0, mincharnum = 1", "one of separators and tokenexp"),
        ('mark = 0, mincharnum = 1, tokenexp = "(a"', "is no regular expression"),
    ],
)
def test_rules_of_tokens_that_do_not_fit_are_refused(case, words):
    with pytest.raises(tw.ModelError, match=words):
        import_model(tokens_model([case], "string[N] x"))
