"""One artifact for all executors: their results are equal, and each refuses what it cannot run."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import ml_dtypes
import networks
import numpy as np
import onnx
import pytest
from dense_model import dense, inputs
from handmade import SHAPE, affine, affine_module, copy_module, copy_program
from refused import refused
from samples import campaign

import tilewright as tw
from tilewright.dialects import ir
from tilewright.dialects.context import make_context
from tilewright.runtime.module import Module

GRAPH = "graph"


def x(seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).random(SHAPE, np.float32)


def on_graph(module: tw.Module, threads: int = 2) -> tw.Module:
    return Module(module.program, threads, executor=GRAPH)


@campaign("1-objects", "2-engine", "3-objects")
@pytest.mark.parametrize("made_by", ["objects", "engine"])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_graph_and_entry_give_the_same_bits(made_by, threads):
    module = affine_module(threads, made_by)
    np.testing.assert_array_equal(on_graph(module, threads)(x())[0], module(x())[0])


def test_a_convolution_s_results_are_the_same_from_a_file(tmp_path):
    """Kernels with scratch memory, an arena and several threads."""
    with make_context(), ir.Location.unknown():
        module = tw.build(networks.residual_block(), workers=0, num_threads=2, cache=False)
    path = module.export_library(tmp_path / "block.so")
    given = {i.name: np.random.default_rng(0).random(i.shape, np.float32) for i in module.inputs}
    wanted = module.run(given)
    for threads in (1, 2, 3):
        for got, want in zip(tw.load_module(path, threads, executor=GRAPH).run(given), wanted, strict=True):
            np.testing.assert_array_equal(got, want)


def test_threads_share_a_graph_executor():
    module = on_graph(affine_module(2))

    def check(seed: int) -> None:
        for i in range(20):
            np.testing.assert_allclose(module(x(seed * 100 + i))[0], affine(x(seed * 100 + i)), rtol=1e-6)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(check, range(8)))


def test_executors_have_names():
    module = affine_module(1)
    assert (module.executor, on_graph(module).executor) == ("aot", "graph")
    assert (module.entry_name, on_graph(module).entry_name) == ("main", "main")


def test_main_of_the_graph_executor_writes_in_place():
    module, y = on_graph(affine_module(1)), np.zeros(SHAPE, np.float32)
    module.get_function("main")(x(), y)
    np.testing.assert_allclose(y, affine(x()), rtol=1e-6)
    np.testing.assert_array_equal(np.from_dlpack(module["main_alloc"](x())), y)


@pytest.mark.parametrize("dtype", ["bfloat16", "int4", "uint4", "float8_e5m2", "complex64"])
def test_main_of_the_graph_executor_takes_narrow_types(dtype):
    native = np.dtype(getattr(ml_dtypes, dtype, dtype))
    module = Module(copy_program(dtype, (7,)), 1, executor=GRAPH)
    given = tw.nd.array(np.arange(7).astype(native))
    y = tw.nd.empty(7, dtype)
    module["main"](given, y)
    assert y.numpy().tobytes() == given.numpy().tobytes()


WANT = r"must be a contiguous float32 tensor of shape \(64, 128\) on the CPU; "


@pytest.mark.parametrize(
    "arguments, message",
    [
        (lambda: (x(),), "main takes 1 inputs and then 1 outputs"),
        (lambda: (x().astype(np.float64), x()), f"input 'x' {WANT}the tensor's dtype is float64"),
        (lambda: (x(), x()[:3].copy()), rf"output 'y' {WANT}the tensor's shape is \(3, 128\)"),
        (lambda: (np.asfortranarray(x()), x()), f"input 'x' {WANT}the tensor is not contiguous"),
        (lambda: (x(), 3), f"output 'y' {WANT}a int is not a tensor"),
    ],
)
def test_main_of_the_graph_executor_checks_its_arguments(arguments, message):
    module = on_graph(affine_module(1))
    with pytest.raises(tw.InputError, match=message) as info:
        module["main"](*arguments())
    assert "\n" not in str(info.value)


def test_no_executor_writes_over_another_argument():
    both = x()
    for module in (affine_module(1), on_graph(affine_module(1))):
        with pytest.raises(tw.InputError, match=r"output 'y' .*; its memory overlaps that of another argument"):
            module["main"](both, both)


def read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def test_read_only_outputs_are_not_written():
    y = read_only(np.zeros(SHAPE, np.float32))
    for module in (affine_module(1), on_graph(affine_module(1))):
        refused(partial(module["main"], x(), y), f"output 'y' {WANT}the tensor is read-only", tw.InputError)
    assert not y.any()


def test_read_only_inputs_are_read_where_they_lie(open_module):
    y = np.zeros(SHAPE, np.float32)
    for module in (affine_module(1), on_graph(affine_module(1))):
        module["main"](read_only(x()), y)
        np.testing.assert_array_equal(y, module(x())[0])
        np.testing.assert_array_equal(np.from_dlpack(module["main_alloc"](read_only(x()))), y)
    made = open_module["main_alloc"](*map(read_only, inputs(3)))
    np.testing.assert_array_equal(np.from_dlpack(made), open_module(*inputs(3))[0])


def test_packed_functions_take_arrays_of_types_that_numpy_does_not_export():
    given, made = np.arange(4).astype(ml_dtypes.bfloat16), np.zeros(4, ml_dtypes.bfloat16)
    copy_module("bfloat16", (4,))["main"](given, made)
    np.testing.assert_array_equal(made, given)


def test_packed_functions_take_no_text():
    text = '<ir_version: 9, opset_import: ["": 20]> g (string[N] x, string[N] y) => (bool[N] z) { z = Equal(x, y) }'
    module, words = tw.compile(onnx.parser.parse_model(text), workers=0, cache=False), np.array(["a"], object)
    refused(lambda: module["main_alloc"](words, words), "input 'x' is string, .* call run", tw.InputError)


def test_refuses_an_executor_that_there_is_not():
    with pytest.raises(tw.InputError, match="unknown executor 'jit': choose from aot, graph"):
        Module(affine_module(1).program, 1, executor="jit")


@pytest.fixture(scope="module")
def open_module() -> tw.Module:
    return tw.compile(dense(), specialize=[{"n": 2}, {"n": 5}], workers=0, num_threads=1, cache=False)


def test_open_sizes_are_for_compiled_code_alone(open_module):
    assert (open_module.executor, open_module.entry_name) == ("aot", "main_alloc")
    with pytest.raises(tw.InputError, match=r"'graph' cannot run .* known only at run time.* or use 'aot'"):
        Module(open_module.program, 1, executor="graph")
    assert Module(open_module.program, 1, executor="aot").executor == "aot"


def test_specializations_are_imported_modules(open_module):
    two, five = open_module.imported_modules
    assert [each.inputs[0].shape for each in (two, five)] == [(2, 16), (5, 16)]
    assert (two.executor, two.imported_modules) == ("aot", ())
    np.testing.assert_array_equal(two(*inputs(2))[0], open_module(*inputs(2))[0])
    with pytest.raises(tw.InputError, match=r"must have shape \(2, 16\)"):
        two(*inputs(5))


def test_time_evaluators_measure_packed_functions(open_module):
    timing = affine_module(1).time_evaluator("main", number=2, repeat=3)(x(), x(2))
    assert len(timing.results) == 3 and timing.number == 2
    assert 0 < timing.min <= timing.median <= timing.max
    assert open_module.time_evaluator(number=1)(*inputs(3)).mean > 0
    with pytest.raises(tw.InputError, match="not 'other'"):
        affine_module(1).time_evaluator("other")


def test_the_number_of_threads_may_be_set(open_module):
    module = pickle.loads(pickle.dumps(open_module))
    assert [each.num_threads for each in (module, *module.imported_modules)] == [1, 1, 1]
    before = [module(*inputs(n))[0] for n in (2, 3)]
    module.num_threads = 3
    assert [each.num_threads for each in (module, *module.imported_modules)] == [3, 3, 3]
    for n, want in zip((2, 3), before, strict=True):
        np.testing.assert_array_equal(module(*inputs(n))[0], want)
    with pytest.raises(tw.InputError, match="num_threads must be at least 1, got 0"):
        module.num_threads = 0
    assert pickle.loads(pickle.dumps(module)).num_threads == 3
