"""Small programs made by hand, for tests of what comes behind the graph passes."""

from __future__ import annotations

import functools
import io

import numpy as np

from tilewright import driver, product, workers
from tilewright.dialects import ir
from tilewright.dialects.context import make_context
from tilewright.jobs import Planned
from tilewright.model import Param, TensorInfo
from tilewright.passes.lower import entry
from tilewright.program import Call, Kernel, Plan, Program, Slot
from tilewright.runtime import artifact
from tilewright.runtime.link import link
from tilewright.runtime.manifest import Manifest
from tilewright.runtime.module import Module

SHAPE = (64, 128)
# Copies bytes [lo, hi) of the first argument to the second.
COPY = """
llvm.func @copy(%args: !llvm.ptr, %lo: i64, %hi: i64, %scratch: !llvm.ptr) {
  %to_at = llvm.getelementptr %args[1] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
  %from = llvm.load %args : !llvm.ptr -> !llvm.ptr
  %to = llvm.load %to_at : !llvm.ptr -> !llvm.ptr
  %source = llvm.getelementptr %from[%lo] : (!llvm.ptr, i64) -> !llvm.ptr, i8
  %target = llvm.getelementptr %to[%lo] : (!llvm.ptr, i64) -> !llvm.ptr, i8
  %length = llvm.sub %hi, %lo : i64
  "llvm.intr.memmove"(%target, %source, %length) <{isVolatile = false}> : (!llvm.ptr, !llvm.ptr, i64) -> ()
  llvm.return
}"""
ADD = """
func.func @add(%a: tensor<64x128xf32>, %b: tensor<64x128xf32>) -> tensor<64x128xf32> {
  %e = tensor.empty() : tensor<64x128xf32>
  %r = linalg.generic {
    indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
    iterator_types = ["parallel", "parallel"]
  } ins(%a, %b : tensor<64x128xf32>, tensor<64x128xf32>) outs(%e : tensor<64x128xf32>) {
  ^bb0(%x: f32, %y: f32, %z: f32):
    %s = arith.addf %x, %y : f32
    linalg.yield %s : f32
  } -> tensor<64x128xf32>
  return %r : tensor<64x128xf32>
}"""
TRANSPOSE = """
func.func @transpose(%a: tensor<128x64xf32>) -> tensor<64x128xf32> {
  %e = tensor.empty() : tensor<64x128xf32>
  %r = linalg.generic {
    indexing_maps = [affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i, j)>],
    iterator_types = ["parallel", "parallel"]
  } ins(%a : tensor<128x64xf32>) outs(%e : tensor<64x128xf32>) {
  ^bb0(%x: f32, %z: f32):
    linalg.yield %x : f32
  } -> tensor<64x128xf32>
  return %r : tensor<64x128xf32>
}"""


@functools.cache
def _copy_objects(program: Program, kernel: Kernel, manifest: str) -> tuple[bytes, ...]:
    return entry.emit_support(), entry.emit_entry(program, {"copy": kernel}, manifest), entry._emit(COPY)


def copy_program(dtype: str, shape: tuple[int, ...], parallel: bool = True) -> artifact.Program:
    """``y = x`` for a dtype, on all threads."""
    x, y = TensorInfo("x", shape, dtype), TensorInfo("y", shape, dtype)
    program = Program((x,), (y,), (), (Call("copy", (Slot("input"), Slot("output"))),), 0)
    manifest = Manifest("copy", (x,), (y,), (), "", "x86", (), 0, 1, {})
    objects = _copy_objects(program, Kernel("copy", b"", x.nbytes, parallel), manifest.to_json())
    return artifact.Program(link(objects), artifact.Code(objects), manifest, None)


def copy_module(dtype: str, shape: tuple[int, ...], num_threads: int = 2) -> Module:
    """A module of ``copy_program``."""
    return Module(copy_program(dtype, shape), num_threads)


@functools.cache
def weights() -> tuple[np.ndarray, np.ndarray]:
    """The weights ``w`` (128 x 64) and ``b`` (64 x 128) of ``affine_plan``."""
    random = np.random.default_rng(0)
    return random.random((128, 64), np.float32), random.random(SHAPE, np.float32)


def affine(x: np.ndarray) -> np.ndarray:
    """What ``affine_plan`` computes."""
    w, b = weights()
    return x + w.T + b


@functools.cache
def affine_plan() -> Planned:
    """``y = x + transpose(w) + b``: the transpose is prepared, the sum of the first two lies in the arena."""
    info = functools.partial(TensorInfo, shape=SHAPE, dtype="float32")
    w = TensorInfo("w", (128, 64), "float32")
    calls = (
        Call("add", (Slot("input"), Slot("param", 0), Slot("arena", offset=64)), ("first",)),
        Call("add", (Slot("arena", offset=64), Slot("param", 1), Slot("output")), ("second",)),
    )
    arena = 64 + 64 * 128 * 4
    main = Program((info("x"),), (info("y"),), (info("w.packed"), info("b")), calls, arena)
    call = Call("transpose", (Slot("param"), Slot("output")), ("pack",))
    prepare = Program((), (info("w.packed"),), (w,), (call,), 0)
    plan = Plan(main, {"w.packed": prepare}, {"add": bytecode(ADD), "transpose": bytecode(TRANSPOSE)})
    params = {"w": Param(w, weights()[0]), "b": Param(info("b"), weights()[1])}
    return Planned(plan, params, "affine")


def bytecode(text: str) -> bytes:
    """A module's bytecode."""
    with make_context(), ir.Location.unknown():
        file = io.BytesIO()
        ir.Module.parse(text).operation.write_bytecode(file)
        return file.getvalue()


@functools.cache
def _affine_product(executor: product.ExecutorKind) -> product.Product:
    options = driver.make_options(executor=executor)
    return product.make(affine_plan(), options, workers.pool(0), product.CompileReport())


def affine_module(num_threads: int | None = None, executor: product.ExecutorKind = "objects") -> Module:
    """A new module of ``affine_plan``, compiled in this process."""
    made = _affine_product(executor)
    return Module(artifact.Program(made.link(), made.code, made.manifest, made.weights), num_threads)
