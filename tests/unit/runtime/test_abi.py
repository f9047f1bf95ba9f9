"""What ``main`` accepts and refuses, tensor by tensor."""

import pickle

import ml_dtypes
import numpy as np
import pytest
import tvm_ffi
from handmade import copy_module

import tilewright as tw
from tilewright.runtime.tensors import tensor

DTYPES = [
    *(
        "bool",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float16",
        "float32",
        "float64",
    ),
    *("bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
    *("int2", "uint2", "int4", "uint4", "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn"),
]


@pytest.fixture(scope="module")
def module() -> tw.Module:
    return copy_module("float32", (4, 8))


def good() -> np.ndarray:
    return np.arange(32, dtype=np.float32).reshape(4, 8)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_crosses_the_border(dtype):
    native = np.dtype(getattr(ml_dtypes, dtype) if hasattr(ml_dtypes, dtype) else dtype)
    x = np.arange(7).astype(native)
    [y] = copy_module(dtype, (7,)).run({"x": x})
    assert y.dtype == native
    assert y.tobytes() == x.tobytes()


@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 0, 2), (1, 5, 1), (2, 3, 4, 5, 6)])
def test_every_shape_crosses_the_border(shape):
    x = np.random.default_rng(0).random(shape, np.float32)
    [y] = copy_module("float32", shape).run({"x": x})
    assert y.shape == shape
    np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_read_only_arrays_are_inputs(dtype):
    x = np.arange(6).astype(np.dtype(getattr(ml_dtypes, dtype, dtype)))
    x.flags.writeable = False
    module, y = copy_module(dtype, (6,)), np.zeros_like(x)
    module["main"](tensor.as_tensor(x), tensor.as_tensor(y))
    assert y.tobytes() == x.tobytes()


def test_numpy_exports_arrays_that_were_unpickled():
    """Their types are copies of numpy's own; to describe each array by its address takes ten microseconds of a call."""
    array = pickle.loads(pickle.dumps(good()))
    assert tensor.as_argument(array) is array


def test_numpy_arrays_need_no_wrapping(module):
    y = np.zeros((4, 8), np.float32)
    module["main"](good(), y)
    np.testing.assert_array_equal(y, good())


@pytest.mark.parametrize(
    "y, why",
    [
        (np.zeros((4, 8), np.float64), "another dtype"),
        (np.zeros((4, 8), np.int32), "another dtype"),
        (np.zeros((32,), np.float32), "another rank"),
        (np.zeros((8, 4), np.float32), "another shape"),
        (np.zeros((8, 4), np.float32).T, "not contiguous"),
        (np.zeros((4, 16), np.float32)[:, ::2], "not contiguous"),
        (np.zeros(129, np.uint8)[1:].view(np.float32).reshape(4, 8), "not a multiple of its element size"),
        (7, "no tensor"),
        (None, "no tensor"),
    ],
)
def test_refuses_an_output_that_does_not_fit(module, y, why):
    with pytest.raises(tw.InputError, match=why) as info:
        module["main"](good(), y)
    text = str(info.value)
    assert text.startswith("output 'y' must be a contiguous float32 tensor of shape (4, 8) on the CPU; ")
    assert "\n" not in text


def test_strides_of_unit_extents_say_nothing():
    module = copy_module("float32", (1, 4))
    x = np.lib.stride_tricks.as_strided(np.arange(4, dtype=np.float32), (1, 4), (4096, 4))
    y = np.zeros((1, 4), np.float32)
    module["main"](x, y)
    np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_refuses_another_number_of_arguments(module, count):
    with pytest.raises(tw.InputError, match="main takes 1 inputs and then 1 outputs"):
        module["main"](*[good()] * count)


@pytest.mark.parametrize("shift", [0, 4, 31])
def test_refuses_an_output_that_overlaps_an_input(module, shift):
    memory = np.zeros(64, np.float32)
    x, y = memory[:32].reshape(4, 8), memory[shift : shift + 32].reshape(4, 8)
    with pytest.raises(tw.InputError, match=r"output 'y'.*overlaps"):
        module["main"](x, y)


def test_neighbours_do_not_overlap(module):
    memory = np.arange(64, dtype=np.float32)
    module["main"](memory[:32].reshape(4, 8), memory[32:].reshape(4, 8))
    np.testing.assert_array_equal(memory[:32], memory[32:])


def test_create_refuses_wrong_arguments(module):
    create = module._program.library.get_function("create")
    owner = tvm_ffi.convert([create])
    for arguments in [
        (),
        (None, 0, 2, None),
        (None, 1, 2, None, owner),
        (None, 0, 0, None, owner),
        (None, 0, 1, None, 3),
    ]:
        with pytest.raises(tw.InputError, match="create takes"):
            create(*arguments)


def test_wrapped_arrays_live_as_long_as_their_tensors():
    before = len(tensor._exported)
    x = np.zeros(4, ml_dtypes.bfloat16)
    made = tensor.as_tensor(x)
    assert len(tensor._exported) == before + 1
    del made
    assert len(tensor._exported) == before
