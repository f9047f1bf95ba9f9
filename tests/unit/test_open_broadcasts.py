"""Operands of open sizes that may have to be repeated: the program sees which when it runs."""

from __future__ import annotations

import itertools
import re

import numpy as np
import onnx
import pytest
from open_case import guarded
from samples import campaign
from shared_kernels import describe_kernels

import tilewright as tw
from tilewright.core.target import Target

RNG = np.random.default_rng(17)
TARGET = Target.parse("x86 -mcpu=haswell")


def model(body: str, inputs: str = "float[A, B, 20] x, float[C, D, 20] z") -> onnx.ModelProto:
    made = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 18]> g ({inputs}) => (float y) {{ {body} }}')
    made.graph.output[0].type.tensor_type.ClearField("shape")
    return made


@pytest.mark.parametrize("threads", [1, 2])
def test_one_program_repeats_what_it_has_to(threads: int):
    module = tw.compile(model("a = Relu(x) s = Add(a, z) y = Mul(s, s)"), workers=0, num_threads=threads)
    sizes = [1, 2, 1, 3]
    for (a, b), (c, d) in itertools.product(itertools.product(sizes, sizes), repeat=2):
        if (1 in (a, c) or a == c) and (1 in (b, d) or b == d):
            x, z = (RNG.standard_normal(shape).astype(np.float32) for shape in ((a, b, 20), (c, d, 20)))
            [y] = module(x, z)
            np.testing.assert_array_equal(y, (np.maximum(x, 0) + z) ** 2)


@pytest.mark.parametrize("opt_level", [0, 2])
def test_a_filled_tensor_broadcasts(opt_level: int):
    body = "s = Shape<end = 2>(z) f = ConstantOfShape<value = float[1] {2.5}>(s) y = Add(x, f)"
    module = tw.compile(model(body, "float[A, B] x, float[C, D, 20] z"), opt_level=opt_level, workers=0)
    for c, d in ((3, 4), (1, 4), (1, 1)):
        x = RNG.standard_normal((3, 4)).astype(np.float32)
        np.testing.assert_array_equal(module(x, np.zeros((c, d, 20), np.float32))[0], x + np.float32(2.5))


def test_a_slice_of_a_loop_broadcasts():
    body = """y = Scan<num_scan_inputs = 1, body = step (float[B, C, 4] each) => (float[B, D, 4] sum) {
      sum = Add(each, z)
    }>(x)"""
    module = tw.compile(model(body, "float[A, B, C, 4] x, float[B, D, 4] z"), workers=0)
    for c, d in ((3, 3), (1, 3), (3, 1)):
        x, z = (RNG.standard_normal(shape).astype(np.float32) for shape in ((5, 2, c, 4), (2, d, 4)))
        np.testing.assert_array_equal(module(x, z)[0], x + z)


def test_no_elements_broadcast():
    module = tw.compile(model("y = Add(x, z)"), workers=0)
    [y] = module(np.zeros((0, 3, 20), np.float32), np.ones((1, 3, 20), np.float32))
    assert y.shape == (0, 3, 20)


@pytest.mark.parametrize(("count", "rank", "elem"), [(4, 3, "float"), (5, 1, "float16"), (9, 2, "float")])
@pytest.mark.parametrize("cpu", ["x86", "x86 -mcpu=haswell"])
def test_many_operands_are_repeated_in_rows(count: int, rank: int, elem: str, cpu: str):
    """For which of them there is no code of its own they are repeated in memory, a piece of a row at a time."""
    names = [f"x{number}" for number in range(count)]
    inputs = ", ".join(f"{elem}[{', '.join(f'{n}{axis}' for axis in range(rank))}] {n}" for n in names)
    made = model(f"y = Sum({', '.join(names)})", inputs)
    made.graph.output[0].type.tensor_type.elem_type = made.graph.input[0].type.tensor_type.elem_type
    [kernel] = describe_kernels(made, Target.parse(cpu)).values()
    assert kernel.schedule.startswith("rows along which each operand is read or repeated")
    with guarded():
        module = tw.compile(made, cpu, workers=0, num_threads=2, cache=False)
    wholes = [(2, 3, 1025), (3, 2, 1), (1, 1, 1023), (4, 5, 17), (2, 2, 2500), (3, 1, 64), (2, 0, 3)]
    for whole in [sizes[-rank:] for sizes in wholes]:
        for ones in [0.0, 0.3, 0.6, 0.9]:
            shapes = [[1 if RNG.random() < ones else n for n in whole] for _ in names]
            arrays = [RNG.integers(0, 9, shape).astype({"float": "float32"}.get(elem, elem)) for shape in shapes]
            np.testing.assert_array_equal(module(*arrays)[0], sum(arrays))


@campaign("Add-float", "Mul-float16")
@pytest.mark.parametrize(
    ("op", "elem"), [("Add", "float"), ("Sub", "int64"), ("BitwiseAnd", "uint8"), ("Mul", "float16")]
)
def test_axes_are_joined_where_all_operands_walk_them_alike(op: str, elem: str):
    """Rows of any length, which one operand or the other repeats, along any of the axes; of several blocks, and of few."""
    module = tw.compile(model(f"y = {op}(x, z)", f"{elem}[A, B, C, D] x, {elem}[E, F, G] z"), workers=0, num_threads=2)
    numpy_op = {"Add": np.add, "Sub": np.subtract, "BitwiseAnd": np.bitwise_and, "Mul": np.multiply}[op]
    for lengths in ((2, 3, 5, 7), (3, 1, 70, 131), (1, 2, 4, 9001), (5, 3, 1, 1), (2, 3, 0, 4), (1, 1, 1, 1)):
        for alone in itertools.product((False, True), repeat=4):
            left = [1 if one else n for one, n in zip(alone, lengths, strict=True)]
            for right in (lengths[1:], [1 if not one else n for one, n in zip(alone[1:], lengths[1:], strict=True)]):
                x, z = (
                    RNG.integers(0, 9, shape).astype({"float": "float32"}.get(elem, elem)) for shape in (left, right)
                )
                np.testing.assert_array_equal(module(x, z)[0], numpy_op(x, z))


@campaign("Sub-float", "Add-uint8")
@pytest.mark.parametrize(("op", "elem"), [("Sub", "float"), ("Sub", "int64"), ("Add", "uint8"), ("Sub", "float16")])
def test_many_rows_of_a_few_elements_go_together(op: str, elem: str):
    """Groups of rows, of which the last has fewer, and some of which no row is left over from; on several threads."""
    module = tw.compile(model(f"y = {op}(x, z)", f"{elem}[A, B, C] x, {elem}[D, E, F] z"), workers=0, num_threads=2)
    numpy_op = {"Add": np.add, "Sub": np.subtract}[op]
    kind = {"float": "float32"}.get(elem, elem)
    for a, b, c in ((1, 9001, 3), (2, 700, 17), (3, 5, 63), (40, 43, 3), (2, 4096, 1), (2, 4096, 2), (1, 0, 3)):
        for left, right in (
            ((a, b, c), (1, 1, c)),
            ((a, b, c), (1, b, 1)),
            ((a, 1, c), (1, b, c)),
            ((a, b, 1), (a, 1, c)),
            ((1, b, 1), (a, 1, c)),
        ):
            x, z = (RNG.integers(0, 99, shape).astype(kind) for shape in (left, right))
            np.testing.assert_array_equal(module(x, z)[0], numpy_op(x, z))


def test_three_operands_repeat_what_they_have():
    inputs = "bool[A, B] c, float[D, E] x, float[F, G] z"
    module = tw.compile(model("y = Where(c, x, z)", inputs), workers=0)
    for rows, columns in ((1000, 17), (1000, 3), (7, 200), (3, 5)):
        for sizes in itertools.product(((rows, columns), (1, columns), (rows, 1)), repeat=2):
            c = RNG.random((rows, columns)) < 0.5
            x, z = (RNG.standard_normal(shape).astype(np.float32) for shape in sizes)
            np.testing.assert_array_equal(module(c, x, z)[0], np.where(c, x, z))


@pytest.mark.parametrize(
    "body",
    [
        "t = Slice(x, s, e, a) y = Cast<to = 1>(t)",
        "m = Constant<value = float[3] {0.5, 0.25, 2.0}>() t = Cast<to = 1>(x) y = Mul(t, m)",
    ],
)
def test_rows_of_slices_and_beside_constants_are_as_long_as_the_run_finds(body: str):
    constants = " ".join(f"{name} = Constant<value_ints = [{n}]>()" for name, n in (("s", 2), ("e", -3), ("a", 2)))
    [kernel] = describe_kernels(model(f"{constants} {body}", "uint8[N, H, W, C] x"), TARGET).values()
    assert kernel.schedule.startswith("rows along which each operand is read or repeated, short ones together, in")


def test_a_few_channels_that_come_first_go_by_many_pixels():
    body = "m = Constant<value = float[3] {0.5, 0.25, 2.0}>() t = Cast<to = 1>(x) n = Mul(t, m) y = Transpose<perm = [2, 0, 1]>(n)"
    [kernel] = describe_kernels(model(body, "uint8[H, W, 3] x"), TARGET).values()
    assert kernel.schedule.startswith("blocks of 3 x 256")


def test_parts_of_one_tensor_are_read_in_place_where_they_repeat():
    """Scores of boxes by how sure each box is: one kernel, of any number of boxes and classes, beside an axis of one."""
    body = """f = Constant<value_ints = [4]>() g = Constant<value_ints = [5]>() e = Constant<value_ints = [1000]>()
      a = Constant<value_ints = [2]>() c = Slice(x, g, e, a) o = Slice(x, f, g, a) y = Mul(c, o)"""
    made = model(body, "float[1, N, C] x")
    module = tw.compile(made, workers=0, num_threads=2)
    for boxes, classes in ((8400, 7), (300, 85), (3, 6), (1, 6), (5, 200)):
        x = RNG.standard_normal((1, boxes, classes)).astype(np.float32)
        np.testing.assert_array_equal(module(x)[0], x[..., 5:] * x[..., 4:5])
    [kernel] = describe_kernels(made, TARGET).values()
    assert kernel.schedule.startswith("rows along which each operand is read or repeated")


@pytest.mark.parametrize("parts", [("a, r", "b, s"), ("r, a", "s, b")])
def test_first_and_last_parts_are_repeated(parts: tuple[str, str]):
    """Left edges of boxes against those of others: a row and a column of tensors that have more of them."""
    first, second = parts
    body = f"{first} = Split<axis = 1, num_outputs = 2>(x) {second} = Split<axis = 0, num_outputs = 2>(z) y = Max(a, b)"
    made = model(body, "float[A, B] x, float[C, D] z")
    module = tw.compile(made, workers=0, num_threads=1)
    number = 0 if first.startswith("a") else -1
    for rows, columns in ((20, 10), (1, 10), (20, 1), (70, 130)):
        x, z = (RNG.standard_normal(shape).astype(np.float32) for shape in ((rows, 2), (2, columns)))
        np.testing.assert_array_equal(module(x, z)[0], np.maximum(x[:, [number]], z[[number]]))
    [kernel] = describe_kernels(made, TARGET).values()
    assert kernel.schedule.startswith("rows along which each operand is read or repeated")


@campaign("2-0-2", "1-1-2")
@pytest.mark.parametrize("axis, start, step", [(2, 0, 2), (2, 1, 2), (2, 2, 3), (1, 1, 2), (0, 0, 3)])
def test_slices_with_steps_are_read_in_place_where_they_repeat(axis: int, start: int, step: int):
    """Even and odd elements that are turned by angles: of any numbers of heads, tokens and elements."""
    body = f"""s = Constant<value_ints = [{start}]>() e = Constant<value_ints = [1000000]>() n = Constant<value_ints = [{step}]>()
      a = Constant<value_ints = [{axis}]>() c = Slice(x, s, e, a, n) y = Mul(c, z)"""
    made = model(body, "float[A, B, C] x, float[D, E, F] z")
    with guarded():
        module = tw.compile(made, workers=0, num_threads=1, cache=False)
    part = tuple(slice(start, None, step) if d == axis else slice(None) for d in range(3))
    for shape in ((4, 5, 64), (7, 9, 5), (3, 1100, 4), (5, 4, 1301), (4, 4, 4), (3, 3, 3)):
        x = RNG.standard_normal(shape).astype(np.float32)
        kept = x[part].shape
        others = {kept, (1, *kept[1:]), (kept[0], 1, kept[2]), (*kept[:2], 1), (1, 1, kept[2])}
        others.add(tuple(7 if n == 1 else n for n in kept))
        for other in others:
            z = RNG.standard_normal(other).astype(np.float32)
            np.testing.assert_array_equal(module(x, z)[0], x[part] * z)
    [kernel] = describe_kernels(made, TARGET).values()
    assert kernel.schedule.startswith("rows along which each operand is read or repeated")


@pytest.mark.parametrize("inputs", ["uint8[N, H, W, C] x", "uint8[1, H, W, 3] x"])
def test_a_part_of_an_image_is_converted_in_whole_rows(inputs: str):
    """The columns and channels of a part of an image are one row of it; of narrow parts and of one channel, too."""
    body = """s = Constant<value_ints = [2, 1]>() e = Constant<value_ints = [-2, -3]>() a = Constant<value_ints = [1, 2]>()
      m = Constant<value = float[3] {0.5, 0.25, 2.0}>() t = Slice(x, s, e, a) f = Cast<to = 1>(t) y = Mul(f, m)"""
    module = tw.compile(model(body, inputs), workers=0, num_threads=2)
    for n, h, w, c in ((1, 60, 70, 3), (1, 400, 6, 3), (1, 5, 5, 3), (1, 9, 1000, 3), (2, 33, 44, 3), (3, 20, 30, 1)):
        if inputs.startswith("uint8[N") or (n, c) == (1, 3):
            x = RNG.integers(0, 255, (n, h, w, c)).astype(np.uint8)
            want = x[:, 2:-2, 1:-3].astype(np.float32) * np.array([0.5, 0.25, 2.0], np.float32)
            np.testing.assert_array_equal(module(x)[0], want)


@pytest.mark.parametrize(
    ("inputs", "left", "right"),
    [
        ("float[A, C] x, float[B, C] z", (1, 1), (3, 1)),
        ("float[A, C] x, float[B, C] z", (4, 1), (1, 1)),
        ("float[A, 1] x, float[B, C] z", (3, 1), (3, 1)),
        ("float[A, 1] x, float[B, C] z", (3, 1), (1, 1)),
        ("float[A, B, C] x, float[D, 1, C] z", (2, 5, 1), (2, 1, 1)),
    ],
)
def test_rows_of_one_element(inputs: str, left: tuple[int, ...], right: tuple[int, ...]):
    """An axis that only one operand is known to have, or all of them, may have one element."""
    module = tw.compile(model("y = Sub(x, z)", inputs), workers=0)
    x, z = (RNG.standard_normal(shape).astype(np.float32) for shape in (left, right))
    np.testing.assert_array_equal(module(x, z)[0], x - z)


def test_an_elementwise_kernel_repeats_operands_itself():
    """In one kernel, whose temporary would be as large as the result; so does Expand, where its result has to lie."""
    for body, calls in (("y = Add(x, z)", 1), ("s = Constant<value_ints = [2, 3, 4]>() y = Expand(x, s)", 1)):
        module = tw.compile(model(body, "float[A, B, C] x, float[D, E, F] z"), workers=0)
        assert module.profile([np.ones((1, 3, 1), np.float32)] * 2, rounds=1).rows[0].count == calls
        assert len(module.profile([np.ones((1, 3, 1), np.float32)] * 2, rounds=1).rows) == calls


@pytest.mark.parametrize("rows", [2, 3, 70])
def test_two_rows_are_repeated_beside_a_column_of_constants(rows: int):
    """Each in memory of its own, which blocks of few rows do not leave to the pass that makes buffers."""
    column = RNG.standard_normal((rows, 1)).astype(np.float32)
    text = "{" + ", ".join(map(str, column.ravel().tolist())) + "}"
    body = f"c = Constant<value = float[{rows}, 1] {text}>() y = Min(x, c, z)"
    module = tw.compile(model(body, "float[A, B] x, float[C, D] z"), workers=0, cache=False)
    for left, right in (((1, 700), (rows, 1)), ((rows, 130), (1, 130)), ((1, 1), (1, 1)), ((rows, 5), (rows, 5))):
        x, z = (RNG.standard_normal(shape).astype(np.float32) for shape in (left, right))
        np.testing.assert_array_equal(module(x, z)[0], np.minimum(np.minimum(x, column), z))


def test_what_is_chosen_may_be_a_result_and_an_operand_too():
    """The chosen tensor is an input, a constant operand's, or one that a kernel makes; it is read before and after."""
    module = tw.compile(model("s = Add(x, z) t = Sub(z, x) y = Concat<axis = 2>(s, t, s)"), workers=0)
    for a, c in ((3, 1), (3, 3), (1, 3), (3, 3), (3, 1)):
        x, z = (RNG.standard_normal((n, 2, 20)).astype(np.float32) for n in (a, c))
        np.testing.assert_array_equal(module(x, z)[0], np.concatenate([x + z, z - x, x + z], axis=2))


def test_images_broadcast_in_any_layout():
    body = "c = Conv(x, w) s = Add(c, z) y = Relu(s)"
    made = model(body, "float[1, 4, H, W] x, float[1, 8, K, L] z")
    weight = RNG.standard_normal((8, 4, 1, 1)).astype(np.float32)
    made.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    module = tw.compile(made, workers=0)
    for h, k in ((5, 5), (5, 1), (1, 5)):
        x = RNG.standard_normal((1, 4, h, 3)).astype(np.float32)
        z = RNG.standard_normal((1, 8, k, 3)).astype(np.float32)
        want = np.maximum(np.einsum("fc,nchw->nfhw", weight[:, :, 0, 0], x) + z, 0)
        np.testing.assert_allclose(module(x, z)[0], want, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("a", "c"), [(2, 4), (4, 2), (0, 2)])
def test_what_does_not_broadcast_is_refused(a: int, c: int):
    module = tw.compile(model("[sum] y = Add(x, z)"), workers=0)
    with pytest.raises(tw.TilewrightError, match=r"node 'sum' shapes do not broadcast: . is neither 1 nor what"):
        module(np.zeros((a, 3, 20), np.float32), np.zeros((c, 3, 20), np.float32))


def test_an_extent_that_one_reader_demands_is_known_to_another():
    text = """<ir_version: 9, opset_import: ["": 18]> g (float[2, N, 1] x, float[1, 1] y, float[M, 1, 1] w) => (float m, float c)
        { p = MaxPool<kernel_shape = [1]>(x) m = Mean(y, p) c = Conv(p, w) }"""
    made = onnx.parser.parse_model(text)
    for value in made.graph.output:
        value.type.tensor_type.ClearField("shape")
    x, y, w = (RNG.standard_normal(shape).astype(np.float32) for shape in ((2, 1, 1), (1, 1), (3, 1, 1)))
    mean, convolved = tw.compile(made, workers=0, cache=False)(x, y, w)
    np.testing.assert_allclose(mean, (x + y) / 2, rtol=1e-6)
    np.testing.assert_allclose(convolved, np.einsum("nci,fci->nfi", x, w), rtol=1e-6)


def test_bytes_are_converted_where_they_are_repeated():
    """Dequantized operands are in the kernel that adds them, whichever is repeated, and an operand may come twice."""
    inputs = "uint8[A, B, C] x, uint8[D, E, F] z"
    body = "i = Cast<to = 1>(x) j = Cast<to = 1>(z) s = Add(i, j) y = Mul(s, j)"
    module = tw.compile(model(body, inputs), workers=0)
    for left, right in (
        ((3, 4, 50), (3, 4, 50)),
        ((3, 4, 50), (1, 1, 50)),
        ((1, 4, 1), (3, 4, 70)),
        ((2, 1, 7), (1, 4, 1)),
    ):
        x, z = (RNG.integers(0, 255, shape).astype(np.uint8) for shape in (left, right))
        np.testing.assert_array_equal(module(x, z)[0], (x.astype(np.float32) + z) * z)
    assert len(module.profile([x, z], rounds=1).rows) == 2


@pytest.mark.parametrize("elem", ["uint8", "float"])
def test_elements_that_a_tile_repeats_along_the_last_axes(elem: str):
    """Rows of a few elements that are the same, of many pixels and of few, beside axes of one element."""
    body = "r = Constant<value_ints = [1, 2, 1, 3, 1]>() y = Tile(x, r)"
    module = tw.compile(model(body, f"{elem}[A, B, C, D, E] x"), workers=0, num_threads=2)
    for shape in (
        (1, 70, 60, 1, 1),
        (1, 1, 3000, 1, 1),
        (3, 1, 2, 1, 1),
        (2, 3, 4, 1, 5),
        (1, 40, 1, 1, 1),
        (0, 3, 4, 1, 1),
    ):
        x = RNG.integers(0, 99, shape).astype({"float": "float32"}.get(elem, elem))
        np.testing.assert_array_equal(module(x)[0], np.tile(x, (1, 2, 1, 3, 1)))


def test_loops_count_on_no_address():
    """Inside a loop over rows LLVM counts on no more than where they begin: of all ways to move a row one is taken."""
    made = model("y = DepthToSpace<blocksize = 2>(x)", "uint8[N, C, H, W] x")
    [kernel] = describe_kernels(made, TARGET).values()
    assert kernel.schedule.startswith("rows along")
    code = tw.compile(made, "x86 -mcpu=haswell", workers=0, cache=False).get_source("asm")
    counted = re.findall(r"^\s+addq\s+%r\w+, -?\d*\(%rsp\)", code, re.MULTILINE)
    assert len(counted) < 16
