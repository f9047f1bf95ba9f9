"""``Module``: names, positions, threads, lifetimes."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from handmade import SHAPE, affine, affine_module, affine_plan, copy_module, wait_module

import tilewright as tw
from tilewright import workers
from tilewright.core.program import Kernel
from tilewright.driver import api
from tilewright.driver.compilation import Compilation
from tilewright.driver.kernels import compile_kernels
from tilewright.driver.weights import link_executor
from tilewright.runtime.tensors import tensor


def x(seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).random(SHAPE, np.float32)


@pytest.fixture(scope="module", params=["objects", "engine"])
def module(request) -> tw.Module:
    return affine_module(2, request.param)


def test_runs_by_name_and_by_position(module):
    np.testing.assert_allclose(module.run({"x": x()})[0], affine(x()), rtol=1e-6)
    np.testing.assert_allclose(module(x())[0], affine(x()), rtol=1e-6)


def test_says_what_it_takes_and_gives(module):
    assert module.inputs == affine_plan().plan.main.inputs
    assert (module.outputs[0].name, module.outputs[0].shape, module.outputs[0].dtype) == ("y", SHAPE, "float32")


def test_main_alloc_returns_its_output(module):
    np.testing.assert_allclose(np.from_dlpack(module["main_alloc"](x())), affine(x()), rtol=1e-6)


def test_run_copies_what_is_not_contiguous(module):
    wide = np.asfortranarray(x())
    np.testing.assert_allclose(module(wide)[0], affine(x()), rtol=1e-6)


@pytest.mark.parametrize(
    "inputs, message",
    [
        ({}, "input 'x' is missing: the program's inputs are 'x'"),
        ({"z": x()}, "unknown input 'z'; input 'x' is missing"),
        ({"x": x().astype(np.float64)}, "input 'x' must be float32, got float64"),
        ({"x": x().T}, r"input 'x' must have shape \(64, 128\), got \(128, 64\)"),
        ({"x": "text"}, "input 'x' must be float32, got <U4"),
        ({"x": [[1.0], [1.0, 2.0]]}, "input 'x' is not an array"),
    ],
)
def test_refuses_wrong_inputs_in_one_line(module, inputs, message):
    with pytest.raises(tw.InputError, match=message) as info:
        module.run(inputs)
    assert "\n" not in str(info.value)


def test_refuses_a_wrong_number_of_positions(module):
    with pytest.raises(tw.InputError, match="has 1 inputs, 3 were given"):
        module(x(), x(), x())


def test_writes_outputs_that_are_given(module):
    into = np.empty_like(x())
    [made] = module(x(), into)
    assert made is into
    np.testing.assert_array_equal(into, module(x())[0])
    with pytest.raises(tw.InputError, match="'y' must be a contiguous float32 tensor"):
        module(x(), into[:1])


def test_refuses_an_unknown_function_and_no_threads(module):
    with pytest.raises(tw.InputError, match="'main' and 'main_alloc', not 'other'"):
        module["other"]
    with pytest.raises(tw.InputError, match="at least 1"):
        affine_module(0)


def test_many_threads_call_one_module(module):
    def check(seed: int) -> None:
        for i in range(20):
            np.testing.assert_allclose(module(x(seed * 100 + i))[0], affine(x(seed * 100 + i)), rtol=1e-6)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(check, range(8)))


def test_two_modules_do_not_meet():
    first, second, other = affine_module(1), affine_module(2), copy_module("float32", SHAPE)
    for _ in range(3):
        np.testing.assert_array_equal(first(x())[0], second(x())[0])
        np.testing.assert_array_equal(other(x())[0], x())


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_parts_of_all_threads_make_the_whole(threads):
    data = np.random.default_rng(0).integers(0, 255, 5, np.uint8)
    np.testing.assert_array_equal(copy_module("uint8", (5,), threads)(data)[0], data)


@pytest.mark.parametrize("steps", [17, 1000])
@pytest.mark.parametrize("threads", [2, 3])
def test_what_a_slow_thread_has_left_is_done_by_the_others(threads, steps):
    """The first step ends when the last one of the first half is done, and each is done once."""
    given, y = np.full(steps, 7, np.float32), np.zeros(steps, np.float32)
    wait_module(steps, threads)["main"](given, y)
    np.testing.assert_array_equal(y, [7] + [1] * (steps - 1))


def test_a_kernel_with_work_ahead_is_called_once_by_each_thread():
    """Nobody takes a step of the first thread's part then, so that its first step waits in vain."""
    given, y = np.full(16, 7, np.float32), np.zeros(16, np.float32)
    wait_module(16, 2, ahead=True, limit=1 << 20)["main"](given, y)
    np.testing.assert_array_equal(y, [-1] + [1] * 15)


@pytest.mark.parametrize("shift", [4, 8, 20, 60])
def test_tensors_need_only_the_alignment_of_their_elements(module, shift):
    def shifted() -> np.ndarray:
        raw = tensor.aligned_bytes(x().nbytes + 64)[shift:]
        return raw[: x().nbytes].view(np.float32).reshape(SHAPE)

    given, y = shifted(), shifted()
    given[:] = x()
    module["main"](given, y)
    np.testing.assert_allclose(y, affine(x()), rtol=1e-6)


def test_a_forked_child_runs_too():
    module = affine_module(2)
    module(x())
    child = os.fork()
    if child == 0:
        os._exit(0 if np.allclose(module(x())[0], affine(x())) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("executor", ["objects", "engine"])
def test_functions_outlive_their_module(executor):
    main = affine_module(2, executor)["main"]
    y = np.zeros(SHAPE, np.float32)
    main(x(), y)
    np.testing.assert_allclose(y, affine(x()), rtol=1e-6)
    del main


def test_prepared_weights_are_those_of_the_program(module):
    assert [info.name for info in module.manifest.params] == ["w.packed", "b"]
    assert module.manifest.weight_bytes == 2 * 64 * 128 * 4


def test_kernel_addresses_are_checked():
    compilation = Compilation(affine_plan(), api.make_options(), workers.get_pool(0))
    compiled: dict[str, Kernel] = {}
    compile_kernels(compilation, affine_plan().plan, compiled.update)
    assert [*compiled] == ["transpose"]
    executor = link_executor(compilation, compiled)
    find = executor._library.get_function("kernel")
    assert find(0).value
    for bad in [(1,), (-1,), ("a",), ()]:
        with pytest.raises(tw.InputError, match="kernel takes an index below 1"):
            find(*bad)


def test_a_thousand_loads_and_calls_leave_no_memory_behind():
    def once() -> None:
        module = affine_module(2)
        module(x())

    for _ in range(100):
        once()
    before = resident()
    for _ in range(1000):
        once()
    assert resident() - before < 20 << 20


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
