"""Packed functions by name, and callbacks."""

from typing import Any

import numpy as np
import pytest
import tvm_ffi

import tilewright as tw


@pytest.fixture
def name():
    made = "tw.test.registry"
    yield made
    if tvm_ffi.get_global_func(made, allow_missing=True):
        tvm_ffi.registry.remove_global_func(made)


def test_functions_go_round(name):
    @tw.register_func(name)
    def double(value):
        return 2 * value

    assert double(4) == 8  # the function itself is what the decorator leaves
    assert tw.get_global_func(name)(21) == 42
    assert isinstance(tw.get_global_func(name), tvm_ffi.Function)


def test_callbacks_and_tensors_go_round(name):
    def apply(function, tensor):
        function(tensor)
        return function

    def fill(tensor):
        tw.nd.array(tensor).numpy()[:] = 5

    tw.register_func(name, apply)
    given = tw.nd.array(np.zeros(3, np.float32))
    returned = tw.get_global_func(name)(fill, given)
    assert (given.numpy() == 5).all()
    given.numpy()[:] = 0
    returned(given)
    assert (given.numpy() == 5).all()


def test_errors_come_through(name):
    def fail():
        raise tw.InputError("not this one")

    tw.register_func(name, fail)
    with pytest.raises(tw.InputError, match="not this one"):
        tw.get_global_func(name)()


def test_refuses_in_one_line(name):
    wrong: Any = 3
    tw.register_func(name, lambda: 1)
    with pytest.raises(tw.InputError, match=f"'{name}' is registered already: override=True"):
        tw.register_func(name, lambda: 2)
    tw.register_func(name, lambda: 3, override=True)
    assert tw.get_global_func(name)() == 3
    with pytest.raises(tw.InputError, match="a int is not a function"):
        tw.register_func("tw.test.other", wrong)
    assert tw.get_global_func("tw.test.nothing", allow_missing=True) is None
    with pytest.raises(tw.InputError, match=r"no function 'tw.test.nothing' is registered"):
        tw.get_global_func("tw.test.nothing")
