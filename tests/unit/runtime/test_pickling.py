"""Modules that are pickled, copied, and used by other processes."""

import copy
import multiprocessing
import os
import pickle
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx.parser
import pytest
from handmade import SHAPE, affine, affine_module, copy_module, first_output
from samples import campaign

import tilewright as tw

X = np.random.default_rng(3).random(SHAPE, np.float32)


@pytest.fixture
def path(tmp_path) -> Path:
    return affine_module(2).export_library(tmp_path / "affine.so")


@campaign("2-engine", "4-objects", "5-engine")
@pytest.mark.parametrize("executor", ["objects", "engine"])
@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_a_compiled_module_is_pickled_whole(executor, protocol):
    module = pickle.loads(pickle.dumps(affine_module(2, executor), protocol))
    np.testing.assert_allclose(module(X)[0], affine(X), rtol=1e-6)
    assert module.num_threads == 2
    again = pickle.loads(pickle.dumps(module, protocol))
    np.testing.assert_allclose(again(X)[0], affine(X), rtol=1e-6)


def test_weights_may_travel_beside_the_pickle():
    buffers: list[pickle.PickleBuffer] = []
    module = affine_module(2)
    data = pickle.dumps(module, 5, buffer_callback=buffers.append)
    assert len(buffers) == 1 and len(buffers[0].raw()) >= module.manifest.weight_bytes
    np.testing.assert_allclose(pickle.loads(data, buffers=buffers)(X)[0], affine(X), rtol=1e-6)


@pytest.mark.parametrize("name", ["affine.so", "affine.tw"])
def test_a_loaded_module_is_pickled_as_its_path(tmp_path, name):
    path = affine_module(2).export_library(tmp_path / name)
    data = pickle.dumps(tw.load_module(path, num_threads=1, max_concurrency=3))
    assert len(data) < 1000
    module = pickle.loads(data)
    np.testing.assert_allclose(module(X)[0], affine(X), rtol=1e-6)
    assert module.num_threads == 1 and module._settings["max_concurrency"] == 3


def test_refuses_files_that_are_gone_or_others(path):
    data = pickle.dumps(tw.load_module(path))
    copy_module("float32", SHAPE).export_library(path)
    with pytest.raises(tw.ArtifactError, match=r"affine.so is not the program that was pickled"):
        pickle.loads(data)
    path.unlink()
    with pytest.raises(tw.ArtifactError, match="there is no program"):
        pickle.loads(data)


def test_a_program_that_the_runtime_carries_out_is_pickled_too():
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[n] x) => (float[m] y) { y = Concat<axis = 0>(x, x) }'
    module = tw.compile(onnx.parser.parse_model(text), workers=0, num_threads=1, cache=False)
    x = np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(module))(x)[0], [*x, *x])


def test_a_copy_is_the_module_itself():
    module = affine_module(2)
    assert copy.copy(module) is module and copy.deepcopy({"m": module})["m"] is module


def test_spawned_processes_take_modules(path):
    modules = [affine_module(2), tw.load_module(path)]
    pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))
    try:
        for array in pool.map(first_output, modules, [X, X], timeout=300):
            np.testing.assert_allclose(array, affine(X), rtol=1e-6)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def in_child(module: tw.Module) -> int:
    """The exit code of a forked child that runs the module on one thread and on several at once."""
    child = os.fork()
    if child == 0:
        try:
            with ThreadPoolExecutor(3) as threads:
                good = [np.allclose(y, affine(X)) for y in threads.map(lambda _: module(X)[0], range(12))]
            os._exit(0 if all(good) and np.allclose(module(X)[0], affine(X)) else 1)
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("num_threads", [1, 2])
def test_children_forked_while_other_threads_run_the_module(num_threads):
    module, stop = affine_module(num_threads), threading.Event()

    def keep_running() -> None:
        while not stop.is_set():
            module(X)

    callers = [threading.Thread(target=keep_running) for _ in range(3)]
    for caller in callers:
        caller.start()
    codes = [in_child(module) for _ in range(5)]
    stop.set()
    for caller in callers:
        caller.join()
    assert codes == [0] * 5
    np.testing.assert_allclose(module(X)[0], affine(X), rtol=1e-6)
