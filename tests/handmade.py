"""Small programs made by hand, for tests of what comes behind the graph passes."""

from __future__ import annotations

import functools
import io

import numpy as np

from tilewright import workers
from tilewright.core.model import Param, TensorInfo
from tilewright.core.program import Call, Kernel, Plan, Program, Slot
from tilewright.dialects import ir
from tilewright.dialects.context import make_context
from tilewright.driver import api, assembly
from tilewright.driver.compilation import Compilation
from tilewright.driver.jobs import Planned
from tilewright.driver.options import ExecutorKind, Options
from tilewright.passes.lower import entry
from tilewright.runtime.artifact import on_disk
from tilewright.runtime.artifact.manifest import Manifest
from tilewright.runtime.module import Module
from tilewright.runtime.process.link import link

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


def _tries(at: str, type_: str, waiting: str) -> str:
    """Looks at a number again and again while it has to be waited for, and counts how often: at most %most times."""
    return f"""%tries = scf.while (%n = %zero) : (i64) -> i64 {{
    %seen = llvm.load volatile {at} : !llvm.ptr -> {type_}
    %waiting = {waiting}
    %few = arith.cmpi ult, %n, %most : i64
    %on = arith.andi %waiting, %few : i1
    scf.condition(%on) %n : i64
  }} do {{
  ^bb0(%n: i64):
    %next = arith.addi %n, %one : i64
    scf.yield %next : i64
  }}"""


# Step i adds 1 to y[i], but 0, which waits for the last step of the first half before it adds x[0], and -1 if in vain.
WAIT = """
llvm.func @wait(%args: !llvm.ptr, %lo: i64, %hi: i64, %scratch: !llvm.ptr) {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %two = arith.constant 2 : i64
  %most = arith.constant LIMIT : i64
  %unit = arith.constant 1.0 : f32
  %failed = arith.constant -1.0 : f32
  %nothing = arith.constant 0.0 : f32
  %to_at = llvm.getelementptr %args[1] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
  %from = llvm.load %args : !llvm.ptr -> !llvm.ptr
  %to = llvm.load %to_at : !llvm.ptr -> !llvm.ptr
  scf.for %i = %lo to %hi step %one : i64 {
    %at = llvm.getelementptr %to[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
    %first = arith.cmpi eq, %i, %zero : i64
    %more = scf.if %first -> f32 {
      %last = llvm.getelementptr %to[HALF] : (!llvm.ptr) -> !llvm.ptr, f32
      TRIES
      %in_vain = arith.cmpi eq, %tries, %most : i64
      %x = llvm.load %from : !llvm.ptr -> f32
      %result = arith.select %in_vain, %failed, %x : f32
      scf.yield %result : f32
    } else {
      scf.yield %unit : f32
    }
    %before = llvm.load %at : !llvm.ptr -> f32
    %after = arith.addf %before, %more : f32
    llvm.store %after, %at : f32, !llvm.ptr
  }
  llvm.return
}""".replace("TRIES", _tries("%last", "f32", "arith.cmpf oeq, %seen, %nothing : f32"))
# Adds 1 to x[0], of int32, and waits until it is COUNT; y[0] is whether it became that before LIMIT looks at it.
MEET = """
llvm.func @meet(%args: !llvm.ptr, %lo: i64, %hi: i64, %scratch: !llvm.ptr) {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %most = arith.constant LIMIT : i64
  %unit = arith.constant 1 : i32
  %count = arith.constant COUNT : i32
  %to_at = llvm.getelementptr %args[1] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
  %from = llvm.load %args : !llvm.ptr -> !llvm.ptr
  %to = llvm.load %to_at : !llvm.ptr -> !llvm.ptr
  %before = llvm.atomicrmw add %from, %unit acq_rel : !llvm.ptr, i32
  TRIES
  %met = arith.cmpi ult, %tries, %most : i64
  %result = arith.extui %met : i1 to i32
  llvm.store %result, %to : i32, !llvm.ptr
  llvm.return
}""".replace("TRIES", _tries("%from", "i32", "arith.cmpi slt, %seen, %count : i32"))
# Sleeps for 10 ms, adds 1 to x[0], of int32, and copies it to y[0].
PAUSE = """
llvm.func @usleep(i32) -> i32
llvm.func @pause(%args: !llvm.ptr, %lo: i64, %hi: i64, %scratch: !llvm.ptr) {
  %time = arith.constant 10000 : i32
  %status = llvm.call @usleep(%time) : (i32) -> i32
  %to_at = llvm.getelementptr %args[1] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
  %from = llvm.load %args : !llvm.ptr -> !llvm.ptr
  %to = llvm.load %to_at : !llvm.ptr -> !llvm.ptr
  %before = llvm.load %from : !llvm.ptr -> i32
  %unit = llvm.mlir.constant(1 : i32) : i32
  %x = llvm.add %before, %unit : i32
  llvm.store %x, %from : i32, !llvm.ptr
  llvm.store %x, %to : i32, !llvm.ptr
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
def _kernel_objects(program: Program, kernel: Kernel, text: str, manifest: str) -> tuple[bytes, ...]:
    return entry.emit_support(), entry.emit_entry(program, {kernel.name: kernel}, manifest), entry._emit_object(text)


def _kernel_program(
    kernel: Kernel, text: str, dtype: str, shape: tuple[int, ...], times: int = 1
) -> on_disk.LoadedProgram:
    """``y = kernel(x)`` for x and y of one dtype and shape, computed some times."""
    x, y = TensorInfo("x", shape, dtype), TensorInfo("y", shape, dtype)
    calls = (Call(kernel.name, (Slot("input"), Slot("output"))),) * times
    program = Program((x,), (y,), (), calls, 0)
    manifest = Manifest(kernel.name, (x,), (y,), (), "", "x86", (), 0, {}, (kernel.described,), program.calls)
    objects = _kernel_objects(program, kernel, text, manifest.to_json())
    return on_disk.LoadedProgram(link(objects), on_disk.Code(objects), manifest, None)


def copy_program(dtype: str, shape: tuple[int, ...], parallel: bool = True) -> on_disk.LoadedProgram:
    """``y = x`` for a dtype, on all threads."""
    nbytes = TensorInfo("x", shape, dtype).nbytes
    return _kernel_program(Kernel("copy", b"", nbytes, parallel), COPY, dtype, shape)


def wait_module(steps: int, num_threads: int, ahead: bool = False, limit: int = 1 << 31) -> Module:
    """A module of ``WAIT`` in so many steps."""
    kernel = Kernel("wait", b"", steps, True, ahead=ahead)
    return Module(
        _kernel_program(
            kernel, WAIT.replace("HALF", str(steps // 2 - 1)).replace("LIMIT", str(limit)), "float32", (steps,)
        ),
        num_threads,
    )


def meet_module(count: int, max_concurrency: int | None = None, limit: int = 1 << 32) -> Module:
    """A module of ``MEET`` for so many calls, in one thread each."""
    text = MEET.replace("COUNT", str(count)).replace("LIMIT", str(limit))
    program = _kernel_program(Kernel("meet", b"", 1, False), text, "int32", (1,))
    return Module(program, 1, max_concurrency=max_concurrency)


def pause_module(times: int, max_concurrency: int | None = None) -> Module:
    """A module of so many calls of ``PAUSE``, each of which counts as much work."""
    program = _kernel_program(Kernel("pause", b"", 1, False, flops=1 << 30), PAUSE, "int32", (1,), times)
    return Module(program, 1, max_concurrency=max_concurrency)


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
def _affine_product(executor: ExecutorKind, profile: bool) -> assembly.CompiledProgram:
    return assembled(affine_plan(), api.make_options(executor=executor, profile=profile))


def assembled(planned: Planned, options: Options, pool: workers.Pool | None = None) -> assembly.CompiledProgram:
    """The product of a plan, by default made in this process."""
    compilation = Compilation(planned, options, pool or workers.get_pool(0))
    return assembly.assemble(compilation, planned)


def affine_module(num_threads: int | None = None, executor: ExecutorKind = "objects", profile: bool = False) -> Module:
    """A new module of ``affine_plan``, compiled in this process."""
    made = _affine_product(executor, profile)
    return Module(on_disk.LoadedProgram(made.link(), made.code, made.manifest, made.weights), num_threads)


def first_output(module: Module, x: np.ndarray) -> np.ndarray:
    """What the module makes of one input; here, for processes that find this file and not those of the tests."""
    return module(x)[0]
