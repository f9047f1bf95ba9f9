"""One program for all sizes: open extents, and operands that say at run time what others say in the file."""

import numpy as np
import onnx
import pytest
from samples import campaign

import tilewright as tw
from tilewright.core.errors import InputError
from tilewright.core.sizes import Sym
from tilewright.frontends import import_model
from tilewright.frontends.onnx.shapes.dynamic_axes import slice_bounds
from tilewright.tools.debugging.oracle import make_session

RNG = np.random.default_rng(7)


def model(text: str) -> onnx.ModelProto:
    """A model whose outputs' shapes are left open."""
    made = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 18]> {text}')
    for output in made.graph.output:
        output.type.tensor_type.ClearField("shape")
    return made


def check(made: onnx.ModelProto, *runs: list[np.ndarray], tolerance: float = 1e-5) -> tw.Module:
    """One compiled program agrees with onnxruntime on all runs."""
    session = make_session(made)
    names = [value.name for value in made.graph.input]
    module = tw.compile(made, workers=0, num_threads=1, cache=False)
    for inputs in runs:
        want = [np.asarray(a) for a in session.run(None, dict(zip(names, inputs, strict=True)))]
        for a, b in zip(module(*inputs), want, strict=True):
            assert (a.shape, a.dtype) == (b.shape, b.dtype)
            np.testing.assert_allclose(a, b, tolerance, tolerance)
    return module


def f(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def i(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def test_a_program_serves_all_sizes():
    text = """g (float[N, 4] x, float[4, 3] w) => (float[N, 3] y, int64[2] s)
    { m = MatMul(x, w)  y = Softmax<axis = -1>(m)  s = Shape(m) }"""
    w = f(4, 3)
    check(model(text), *([f(n, 4), w] for n in (1, 5, 0, 64)))


def test_a_convolution_of_any_size():
    text = """g (float[N, 3, H, W] x, float[8, 3, 3, 3] w) => (float[N, 8, A, B] y)
    { c = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(x, w)  r = Relu(c)
      y = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(r) }"""
    w = f(8, 3, 3, 3)
    check(model(text), *([f(n, 3, h, k), w] for n, h, k in ((1, 16, 16), (2, 9, 21))), tolerance=1e-4)


def test_shape_arithmetic_stays_symbolic():
    text = """g (float[N, C, 6] x) => (float y)
    { s = Shape(x)  zero = Constant<value_ints = [0]>()  n = Gather(s, zero)  rest = Constant<value_ints = [-1]>()
      t = Concat<axis = 0>(n, rest)  y = Reshape(x, t) }"""
    module = check(model(text), [f(2, 3, 6)], [f(1, 5, 6)])
    assert [str(extent) for extent in module.outputs[0].shape] == ["N", "6*C"]


def test_parts_that_may_be_empty_are_joined():
    text = "g (float[N, 2] x, float[M, 2] y) => (float z) { z = Concat<axis = 0>(x, y) }"
    check(model(text), [f(4, 2), f(3, 2)], [f(0, 2), f(3, 2)], [f(1, 2), f(0, 2)])


def test_extents_that_may_be_one_broadcast():
    text = "g (float[N, 3] x, float[M, 3] y) => (float z) { z = Add(x, y) }"
    module = check(model(text), [f(4, 3), f(4, 3)], [f(1, 3), f(4, 3)], [f(4, 3), f(1, 3)])
    assert module.inputs[0].shape[0] != module.inputs[1].shape[0]


OPERANDS = {
    "Reshape": ("float[2, 6] x, int64[2] s", "y = Reshape(x, s)", [f(2, 6)], [i(3, 4), i(-1, 2), i(0, -1)]),
    "Squeeze": ("float[1, 3, 1] x, int64[1] s", "y = Squeeze(x, s)", [f(1, 3, 1)], [i(0), i(-1), i(2)]),
    "Unsqueeze": ("float[2, 3] x, int64[2] s", "y = Unsqueeze(x, s)", [f(2, 3)], [i(0, 1), i(3, 0), i(-1, 1)]),
    "Expand": ("float[3, 1] x, int64[2] s", "y = Expand(x, s)", [f(3, 1)], [i(3, 4), i(1, 2), i(1, 1)]),
    "Tile": ("float[2, 3] x, int64[2] s", "y = Tile(x, s)", [f(2, 3)], [i(1, 2), i(3, 1), i(2, 2)]),
    "ReduceSum": ("float[2, 3, 4] x, int64[1] s", "y = ReduceSum<keepdims = 0>(x, s)", [f(2, 3, 4)], [i(0), i(-1)]),
    "ReduceL2": ("float[2, 3, 4] x, int64[2] s", "y = ReduceL2(x, s)", [f(2, 3, 4)], [i(0, 2), i(-1, 1)]),
    "ReduceLogSumExp": ("float[2, 3] x, int64[1] s", "y = ReduceLogSumExp<keepdims = 0>(x, s)", [f(2, 3)], [i(0), i(1)]),
    "CumSum": ("float[2, 3] x, int64 s", "y = CumSum<reverse = 1>(x, s)", [f(2, 3)], [np.array(0), np.array(-1)]),
    "TopK": ("float[5, 7] x, int64[1] s", "y, at = TopK(x, s)", [f(5, 7)], [i(3), i(7), i(1)]),
    "Pad": ("float[2, 3] x, int64[4] s", "y = Pad(x, s)", [f(2, 3)], [i(1, 0, 2, 1), i(0, -1, 0, -1)]),
    "Pad by edges": ("float[2, 3] x, int64[4] s", 'y = Pad<mode = "edge">(x, s)', [f(2, 3)], [i(1, 0, 2, 1)]),
    "Pad by mirrors": (
        "float[3, 5] x, int64[4] s",
        'y = Pad<mode = "reflect">(x, s)',
        [f(3, 5)],
        [i(2, 4, 1, 3), i(0, 0, 0, 4), i(-1, 1, 1, 0)],
    ),
    "Pad by turns": (
        "float[3, 5] x, int64[4] s",
        'y = Pad<mode = "wrap">(x, s)',
        [f(3, 5)],
        [i(4, 7, 1, 3), i(0, 0, 0, 0), i(1, -1, 0, 12)],
    ),
    "OneHot": ("int64[4] x, int64 s, float[2] v", "y = OneHot(x, s, v)", [i(0, 2, 1, -1)], [np.array(3), np.array(5)]),
    "Range": ("float[1] x, int64 s", "z = Constant<value_int = 0>() t = Constant<value_int = 2>() y = Range(z, s, t)",
              [f(1)], [np.array(5), np.array(0), np.array(8)]),
}  # fmt: skip


@campaign(
    "Reshape",
    "Squeeze",
    "Unsqueeze",
    "Expand",
    "Tile",
    "ReduceSum",
    "CumSum",
    "TopK",
    "Pad",
    "Pad by edges",
    "OneHot",
    "Range",
)
@pytest.mark.parametrize("name", OPERANDS)
def test_operands_that_the_run_gives(name: str):
    signature, body, before, operands = OPERANDS[name]
    behind = [np.array([0, 1], np.float32)] if name == "OneHot" else []
    outputs = {"TopK": "(float y, int64 at)", "Range": "(int64 y)"}.get(name, "(float y)")
    check(model(f"g ({signature}) => {outputs} {{ {body} }}"), *([*before, s, *behind] for s in operands))


# A signature, an op, inputs that fit, and such that do not.
FITTING = {
    "Conv": (
        "float[N, C, H, W] x, float[F, K, A, B] w",
        "Conv(x, w)",
        [f(2, 3, 8, 8), f(4, 3, 3, 3)],
        [f(2, 3, 8, 8), f(4, 2, 3, 3)],
    ),
    "Conv of known channels": (
        "float[N, C, 5, 5] x, float[4, 3, 3, 3] w",
        "Conv(x, w)",
        [f(2, 3, 5, 5), f(4, 3, 3, 3)],
        [f(2, 4, 5, 5), f(4, 3, 3, 3)],
    ),
    "ConvTranspose": (
        "float[N, C, 8, 8] x, float[K, F, 3, 3] w",
        "ConvTranspose(x, w)",
        [f(2, 3, 8, 8), f(3, 4, 3, 3)],
        [f(2, 3, 8, 8), f(4, 4, 3, 3)],
    ),
    "GatherND": (
        "float[N, C] x, int64[M, 1] w",
        "GatherND<batch_dims = 1>(x, w)",
        [f(2, 3), np.array([[2], [0]])],
        [f(2, 3), np.array([[2], [0], [1]])],
    ),
    "MaxRoiPool": (
        "float[N, C, H, W] x, float[R, K] w",
        "MaxRoiPool<pooled_shape = [2, 2]>(x, w)",
        [f(2, 3, 8, 8), np.array([[1, 0, 0, 5, 5]], "f4")],
        [f(2, 3, 8, 8), np.array([[0, 0, 5, 5]], "f4")],
    ),
    "RNN": (
        "float[2, 3, I] x, float[D, 5, J] w, float[1, 5, 5] r",
        "RNN<hidden_size = 5>(x, w, r)",
        [f(2, 3, 4), f(1, 5, 4), f(1, 5, 5)],
        [f(2, 3, 4), f(1, 5, 3), f(1, 5, 5)],
    ),
}


@pytest.mark.parametrize("name", FITTING)
def test_sizes_that_have_to_fit(name: str):
    signature, body, inputs, wrong = FITTING[name]
    module = check(model(f"g ({signature}) => (float y) {{ y = {body} }}"), inputs)
    with pytest.raises(InputError, match=r"node '\w+_0'"):
        module(*wrong)


def test_a_slice_that_the_run_gives():
    text = "g (float[N, 5] x, int64[1] a, int64[1] b, int64[1] k, int64[1] s) => (float y) { y = Slice(x, a, b, k, s) }"
    steps = (1, 0, 3), (-1, 4, -9), (2, -3, 9), (-2, 9, 0)
    runs = [(by, start, end, n, axis) for by, start, end in steps for n in (4, 1, 0) for axis in (0, -1)]
    check(model(text), *([f(n, 5), i(start), i(end), i(axis), i(by)] for by, start, end, n, axis in runs))


@pytest.mark.parametrize("end", [-9, -(1 << 31)])
def test_a_slice_down_an_axis_that_may_be_empty(end: int):
    text = f"""g (float[N, 2] x) => (float y)
    {{ start = Constant<value_ints = [0]>()  end = Constant<value_ints = [{end}]>()
      axis = Constant<value_ints = [0]>()  step = Constant<value_ints = [-1]>()  y = Slice(x, start, end, axis, step) }}"""
    check(model(text), [f(3, 2)], [f(0, 2)])


def test_a_slice_that_begins_behind_two_thousand_million_elements():
    """Bytes of a tensor can be as many: what means an end is more than a process can address."""
    n = Sym("n", low=(1 << 31) + 5)
    assert slice_bounds(n, 1 << 31, 1 << 62, 1) == (1 << 31, n - (1 << 31))
    assert slice_bounds(n, -(1 << 62), (1 << 63) - 1, 1) == (0, n)


@pytest.mark.parametrize("body", ["Slice(x, a, b, k, s)", "Pad(x, p, , k)", "Squeeze(x, k)", "ReduceSum(x, k)"])
def test_axes_that_the_run_gives_have_to_be_there_once(body: str):
    text = f"""g (float[1, 1, 4] x, int64[2] a, int64[2] b, int64[2] k, int64[2] s, int64[4] p) => (float y) {{ y = {body} }}"""
    given = i(0, 0), i(1, 1)
    module = check(model(text), [f(1, 1, 4), *given, i(0, 1), i(1, 1), i(0, 0, 0, 0)])
    for axes, reason in (((1, -2), "appears twice"), ((0, 3), "out of range")):
        with pytest.raises(InputError, match=reason):
            module(f(1, 1, 4), *given, i(*axes), i(1, 1), i(0, 0, 0, 0))


@pytest.mark.parametrize("step", [1, 2])
def test_a_shape_that_is_a_part_of_what_the_run_gives(step: int):
    text = f"""g (float[2, 6] x, int64[5] s) => (float y)
    {{ start = Constant<value_ints = [1]>()  end = Constant<value_ints = [4]>()  axis = Constant<value_ints = [0]>()
      step = Constant<value_ints = [{step}]>()  t = Slice(s, start, end, axis, step)  y = Reshape(x, t) }}"""
    check(model(text), *([f(2, 6), s] for s in (i(9, 3, 1, 4, 9), i(9, 12, 1, 1, 9))))


def test_what_is_chosen_by_data_has_a_size_of_its_own():
    check(
        model("g (float[A, B] x) => (int64 y) { y = NonZero(x) }"),
        [np.eye(3, dtype=np.float32)],
        [np.zeros((2, 2), "f4")],
    )
    text = "g (float[N, 3] x, bool[M] c) => (float y) { y = Compress<axis = 0>(x, c) }"
    check(model(text), [f(4, 3), np.array([1, 0, 1, 1], bool)], [f(4, 3), np.array([0, 0], bool)])


def test_one_element_is_chosen_or_not():
    module = tw.compile(model("g (float[1] x) => (int64 y) { y = NonZero(x) }"), workers=0, cache=False)
    for value in (0.0, -2.0, np.nan):
        np.testing.assert_array_equal(module(np.array([value], np.float32))[0], np.nonzero(np.array([value])))


def test_what_weights_choose_is_counted_ahead_of_time():
    text = """g (float[N] x) => (float y) <float[4] w = {1, 0, 0, 2}>
    { size = Abs(w)  chosen = NonZero(size)  mean = ReduceMean(chosen)  real = Cast<to = 1>(mean)  y = Add(x, real) }"""
    check(model(text), [f(3)], [f(1)])


@pytest.mark.parametrize("choose", ["Gather<axis = 1>(b, i)", "Compress<axis = 1>(b, c)"])
def test_elements_of_a_part_of_a_tensor_are_read_where_they_lie(choose: str):
    text = f"""g (float[3, 9] x, int64[K] i, bool[M] c) => (float y) <int64[2] s = {{2, 7}}>
    {{ p = Neg(x)  a, b = Split<axis = 1>(p, s)  y = {choose} }}"""
    check(model(text), *([f(3, 9), i(0, 6, -1, *range(n)), np.arange(7)[: n + 1] % 3 > 0] for n in (1, 5)))


@pytest.mark.parametrize("weights", ["0.5, 0.0, 0.25, 0.0", "0.0, 0.5, 0.0, 0.0"])
def test_what_is_made_of_what_weights_choose_is_prepared(weights: str):
    """The number of the chosen elements is known to neither the compiler nor a caller, but to what prepares weights."""
    text = f"""g () => (int64 y) <float[4] w = {{{weights}}}> {{ a = Atanh(w)  n = NonZero(a)  y = ReduceMax(n) }}"""
    check(model(text), [])


def test_the_same_program_loads_from_a_file(tmp_path):
    made = model("g (float[N, 4] x) => (float y) { y = Relu(x) }")
    tw.compile(made, workers=0, cache=False).export_library(tmp_path / "model.so")
    module = tw.load_module(next(tmp_path.glob("model.*")))
    for n in (3, 1):
        x = f(n, 4)
        np.testing.assert_array_equal(module(x)[0], np.maximum(x, 0))
    assert str(module.inputs[0].shape[0]) == "N"


def test_a_symbol_has_one_size_in_a_call():
    module = tw.compile(model("g (float[N] x, float[N] y) => (float z) { z = Add(x, y) }"), workers=0, cache=False)
    with pytest.raises(InputError, match=r"input 'y' must have shape \(N,\) with N=3, got \(4,\)"):
        module(f(3), f(4))


@pytest.mark.parametrize(
    ("text", "inputs"),
    [
        ("g (float[2, 6] x, int64[2] s) => (float y) { y = Reshape(x, s) }", [f(2, 6), i(5, 3)]),
        ("g (float[N, M] x, int64[1] s) => (float y) { y = Reshape(x, s) }", [f(2, 3), i(5)]),
        ("g (float[N, M] x, int64[1] s) => (float y) { y = Reshape(x, s) }", [f(0, 3), i(1)]),
        ("g (float[2, 3] x, int64[4] s) => (float y) { y = Pad(x, s) }", [f(2, 3), i(-2, 0, -2, 0)]),
        ("g (float[2, 1] x, int64[2] s) => (float y) { y = Expand(x, s) }", [f(2, 1), i(3, 3)]),
        ("g (float[N, 1] x, int64[2] s) => (float y) { y = Expand(x, s) }", [f(2, 1), i(3, 3)]),
        ("g (float[3] x, int64[1] a, int64[1] s) => (float y) { y = Slice(x, a, a, a, s) }", [f(3), i(0), i(0)]),
        ("g (float[5] x, int64[1] s) => (float y, int64 at) { y, at = TopK(x, s) }", [f(5), i(6)]),
        ("g (float[N, 5] x, float[K, 2] w) => (float y) { y = MatMul(x, w) }", [f(1, 5), f(4, 2)]),
        ("g (float[N, 5] x, float[K, 5] w) => (float y) { y = Concat<axis = 1>(x, w) }", [f(1, 5), f(4, 5)]),
    ],
)
def test_sizes_that_do_not_fit_are_refused_with_the_node(text: str, inputs: list[np.ndarray]):
    module = tw.compile(model(text), workers=0, num_threads=1, cache=False)
    with pytest.raises(InputError, match=r"node '\w+_0'"):
        module(*inputs)


def test_a_vector_of_another_size_than_is_wanted_is_refused():
    text = "g (float[N, M] x, float[K] w) => (float y) { s = Shape(w)  y = Reshape(x, s) }"
    module = check(model(text), [f(2, 3), f(6)])
    with pytest.raises(InputError, match=r"node 'Reshape_1' .*another size than is wanted: K is not"):
        module(f(2, 3), f(5))


@pytest.mark.parametrize("counted", [0, 1])
def test_means_of_windows_of_any_number(counted: int):
    attributes = f"kernel_shape = [3], pads = [1, 1], strides = [2], count_include_pad = {counted}"
    text = f"g (float[1, 2, W] x) => (float y) {{ y = AveragePool<{attributes}>(x) }}"
    check(model(text), [f(1, 2, 7)], [f(1, 2, 8)], [f(1, 2, 2)])


@campaign("pads = [0, 1, 0, 0]-True", "strides = [2, 2], ceil_mode = 1-True")
@pytest.mark.parametrize(
    ("attributes", "apart"),
    [
        ("strides = [2, 2]", False),
        ("pads = [1, 1, 1, 1], count_include_pad = 1", False),
        ("pads = [1, 1, 1, 1]", True),
        ("pads = [0, 1, 0, 0]", True),
        ("strides = [2, 2], ceil_mode = 1", True),
        ('auto_pad = "VALID"', False),
        ('auto_pad = "SAME_UPPER"', True),
    ],
)
def test_elements_of_windows_are_counted_only_where_some_stick_out(attributes: str, apart: bool):
    text = f"g (float[1, 2, H, W] x) => (float y) {{ y = AveragePool<kernel_shape = [3, 2], {attributes}>(x) }}"
    assert ("linalg.index" in str(import_model(model(text)).module)) == apart
    check(model(text), [f(1, 2, 7, 9)], [f(1, 2, 3, 2)], [f(1, 2, 40, 6)])


def test_one_number_of_all_elements():
    text = "g (float[N, M] x) => (float y) { y = ReduceSum<keepdims = 0>(x) }"
    check(model(text), [f(3, 5)], [f(1, 40)])
    check(model("g (float[N] x) => (float y) { s = Size(x)  y = Cast<to = 1>(s) }"), [f(3)], [f(0)])
