"""``tw.nd``: tensors without copies, devices, and what is refused."""

import gc

import ml_dtypes
import numpy as np
import pytest
import tvm_ffi
from handmade import SHAPE, affine, affine_module, copy_module

import tilewright as tw
from tilewright.core.dlpack import CPU, DLPACK_DTYPES
from tilewright.core.model import numpy_dtype


class Old:
    """A tensor of a library that knows no versions of DLPack."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __dlpack__(self):
        return self._array.__dlpack__()

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


@pytest.mark.parametrize("lend", [lambda a: a, tvm_ffi.from_dlpack, Old, lambda a: tw.nd.array(a)])
def test_shares_memory(lend):
    given = np.arange(6, dtype=np.float32).reshape(2, 3)
    made = tw.nd.array(lend(given))
    given[0, 0] = 7
    assert (made.shape, made.dtype, made.numpy()[0, 0]) == ((2, 3), "float32", 7)
    assert np.shares_memory(made.numpy(), given)


def test_shares_memory_with_torch():
    torch = pytest.importorskip("torch")
    given = torch.arange(6, dtype=torch.float32)
    made = tw.nd.array(given)
    given[0] = 7
    assert made.numpy()[0] == 7 and torch.from_dlpack(made)[0] == 7


@pytest.mark.parametrize("dtype", DLPACK_DTYPES)
def test_every_dtype_comes_back(dtype):
    made = tw.nd.array(np.arange(4).astype(numpy_dtype(dtype)))
    again = tw.nd.array(tvm_ffi.from_dlpack(made))
    assert again.numpy().tobytes() == made.numpy().tobytes()
    assert DLPACK_DTYPES[again.dtype] == DLPACK_DTYPES[dtype]
    assert np.shares_memory(again.numpy(), made.numpy())


def test_copies_only_what_must_be():
    for given in (
        np.arange(6).reshape(2, 3).T,
        np.frombuffer(b"12345678", np.int64),
        np.zeros(9, np.uint8)[1:].view("i8"),
    ):
        made = tw.nd.array(given)
        np.testing.assert_array_equal(made.numpy(), given)
        assert made.numpy().flags.writeable and not np.shares_memory(made.numpy(), given)


def test_packed_functions_take_it():
    y = tw.nd.empty(SHAPE)
    x = np.random.default_rng(0).random(SHAPE, np.float32)
    affine_module(1)["main"](tw.nd.array(x), y)
    np.testing.assert_allclose(y.numpy(), affine(x), rtol=1e-6)


def test_programs_take_what_numpy_cannot_import():
    given = np.arange(4).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(copy_module("bfloat16", (4,)).run({"x": tw.nd.array(given)})[0], given)


def test_the_memory_lives_as_long_as_its_arrays():
    array = tw.nd.array(tvm_ffi.from_dlpack(np.full(1 << 16, 3.0))).numpy()
    gc.collect()
    assert (array == 3).all()


def test_empty_is_aligned_and_holds_what_is_copied():
    made = tw.nd.empty((3, 5), "float16", tw.cpu())
    assert made.numpy().ctypes.data % 64 == 0
    made.copyfrom(np.ones((3, 5), np.float16))
    assert (np.asarray(made) == 1).all()
    assert tw.nd.empty(4).shape == (4,)


def test_devices():
    assert tw.device("llvm", 0) == tw.cpu(0)
    assert tw.device("cpu") == tw.cpu() == tw.nd.empty(1).device
    assert tw.nd.empty(1).__dlpack_device__() == (CPU, 0)


@pytest.mark.parametrize(
    "act, message",
    [
        (lambda: tw.device("cuda"), "device 'cuda:0' cannot be used: programs run on the CPU"),
        (lambda: tw.device("abacus"), "unknown device 'abacus': programs run on the CPU"),
        (lambda: tw.cpu(1), "device 'cpu:1' cannot be used"),
        (lambda: tw.nd.array([1.0], "cuda"), "device 'cuda:0' cannot be used"),
        (lambda: tw.nd.array(["a"]), "dtype '<U1' is not supported"),
        (lambda: tw.nd.array([[1], [1, 2]]), "the value is not an array"),
        (lambda: tw.nd.empty((2, -1)), r"\[2, -1\] is not a shape"),
        (lambda: tw.nd.empty(2, "float128"), "dtype 'float128' is not supported"),
        (lambda: tw.nd.empty(2).copyfrom(np.ones(3)), r"float32\[2\] cannot hold one of float64\[3\]"),
        (lambda: tw.nd.array(Elsewhere()), "the tensor is on another device than the CPU"),
        (lambda: tw.nd.array(Broken()), "the tensor cannot be shared: no memory"),
    ],
)
def test_refuses_in_one_line(act, message):
    with pytest.raises(tw.InputError, match=message) as info:
        act()
    assert "\n" not in str(info.value)


class Elsewhere:
    """A tensor that says that it is on a GPU."""

    def __dlpack__(self, **_):
        from tilewright.core.dlpack import DLManagedTensor
        from tilewright.runtime.tensors import tensor

        capsule = tensor._capsule(np.ones(3, np.float32))
        address = next(reversed(tensor._exported))
        DLManagedTensor.from_address(address).tensor.device_type = 2
        return capsule


class Broken:
    """A tensor that cannot be lent."""

    def __dlpack__(self, **_):
        raise BufferError("no memory\nat all")
