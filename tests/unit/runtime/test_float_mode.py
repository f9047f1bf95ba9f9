"""The mode of floats is the program's own: kernels set it, and leave the caller's as it was."""

import numpy as np
import pytest
from samples import campaign
from text_model import model, values

import tilewright as tw
from tilewright.passes.lower import entry
from tilewright.runtime.process.link import link

TINY = np.float32(1e-40)  # a denormal
FLUSHING, UPWARD = 0x8040, 0x4000
SET_MODE = """
llvm.func @__tvm_ffi_set_mode(%self: !llvm.ptr, %args: !llvm.ptr, %count: i32, %ret: !llvm.ptr) -> i32 {
  %success = llvm.mlir.constant(0 : i32) : i32
  %given = llvm.getelementptr %args[8] : (!llvm.ptr) -> !llvm.ptr, i8
  llvm.call_intrinsic "llvm.x86.sse.ldmxcsr"(%given) : (!llvm.ptr) -> ()
  llvm.return %success : i32
}
llvm.func @__tvm_ffi_get_mode(%self: !llvm.ptr, %args: !llvm.ptr, %count: i32, %ret: !llvm.ptr) -> i32 {
  %success = llvm.mlir.constant(0 : i32) : i32
  %int = llvm.mlir.constant(1 : i32) : i32
  %one = llvm.mlir.constant(1 : i32) : i32
  %mode_at = llvm.alloca %one x i32 : (i32) -> !llvm.ptr
  llvm.call_intrinsic "llvm.x86.sse.stmxcsr"(%mode_at) : (!llvm.ptr) -> ()
  %mode = llvm.load %mode_at : !llvm.ptr -> i32
  %wide = llvm.zext %mode : i32 to i64
  %value_at = llvm.getelementptr %ret[8] : (!llvm.ptr) -> !llvm.ptr, i8
  llvm.store %int, %ret : i32, !llvm.ptr
  llvm.store %wide, %value_at : i64, !llvm.ptr
  llvm.return %success : i32
}"""
FLAGS = 0x3F  # what has happened so far, which is no mode


@pytest.fixture(scope="module")
def modes():
    return link([entry._emit_object(SET_MODE)])


@pytest.fixture(scope="module", params=[1, 2])
def sums(request) -> tw.Module:
    """x + x, which keeps denormals, and x @ w, which takes them for zero."""
    outputs, weights = "float[256,256] y, float[256,256] z", {"w": np.eye(256, dtype=np.float32)}
    made = model(outputs, "y = Add(x, x) z = MatMul(x, w)", {"x": values(256, 256)}, weights)
    return tw.compile(made, workers=0, num_threads=request.param, cache=False)


@campaign(every=5)
@pytest.mark.parametrize("mode", [0x1F80, 0x1F80 | FLUSHING, 0x1F80 | UPWARD])
@pytest.mark.parametrize("options", [{}, {"timeout": 100}])
def test_results_do_not_depend_on_the_callers_mode_which_stays(sums, modes, mode, options):
    """In a process whose threads flush denormals or round upward, as a library may have set it."""
    x = values(256, 256)
    x[::2] = TINY
    want = [x + x, np.where(x == TINY, np.float32(0), x)]
    set_mode, get_mode = modes["set_mode"], modes["get_mode"]
    set_mode(mode)
    try:
        got, after = sums.run({"x": x}, **options), get_mode()
    finally:
        set_mode(0x1F80)
    assert after & ~FLAGS == mode
    for array, wanted in zip(got, want, strict=True):
        np.testing.assert_array_equal(array.view(np.int32) & 0x7FFFFFFF, wanted.view(np.int32) & 0x7FFFFFFF)


def test_numpy_keeps_denormals_behind_a_run(sums):
    sums(values(256, 256))
    assert TINY * np.float32(0.5) > 0
