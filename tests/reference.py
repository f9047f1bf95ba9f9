"""The tests' oracle for IR: any ``@main`` of linalg/tensor/arith/math/scf, run the plainest way.

Nothing here is shared with the compiler's own passes: upstream bufferization, one loop nest for each op, LLVM at O0.
It is slow and right, so frontend tests compare it with onnxruntime and graph passes compare before with after.
The calls of LLVM and the linker are the compiler's: MLIR's ``ExecutionEngine`` takes six times as long for the code, and
12 ms besides.
"""

from __future__ import annotations

import ctypes
import functools
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import mlir
import numpy as np
from mlir import ir
from mlir.dialects import func
from mlir.dialects.transform import interpreter
from mlir.runtime import get_ranked_memref_descriptor

from tilewright.core.model import Model, numpy_dtype
from tilewright.core.target import detect_host
from tilewright.dialects import codegen
from tilewright.dialects.context import keep, reused_context, run_pipeline
from tilewright.passes.lower.entry import emit_kernel_table, emit_support
from tilewright.runtime.process.ffi import tvm_ffi
from tilewright.runtime.process.link import link

Shape = tuple[int, ...]
ENTRY = "tw_reference"
C_ENTRY = f"_mlir_ciface_{ENTRY}"  # takes the addresses of descriptors

PIPELINE = (
    "linalg-generalize-named-ops",
    "eliminate-empty-tensors",
    "one-shot-bufferize{bufferize-function-boundaries function-boundary-type-conversion=identity-layout-map"
    " allow-return-allocs-from-loops}",
    "buffer-results-to-out-params{modify-public-functions hoist-static-allocs}",
    "canonicalize",
    "ownership-based-buffer-deallocation",
    "canonicalize",
    "buffer-deallocation-simplification",
    "bufferization-lower-deallocations",
    "convert-bufferization-to-memref",
    "func.func(scf-forall-to-for,convert-linalg-to-loops)",
    "expand-strided-metadata",
    "lower-affine",
    "convert-scf-to-cf",
    "arith-expand{include-bf16=true}",
    "canonicalize",
    "cse",
    "math-uplift-to-fma",  # LLVM at O0 contracts nothing: products would be rounded before they are added up
    "convert-math-to-llvm",
    "convert-math-to-libm",
    "convert-arith-to-llvm",
    "finalize-memref-to-llvm",
    "convert-func-to-llvm",
    "convert-cf-to-llvm",
    "convert-index-to-llvm",
    "reconcile-unrealized-casts",
    "canonicalize",  # two fifths of the code: parts of descriptors, which take LLVM most of its time
)

# With loops and branches these make tables of i1 in memory, which have no lowering: their buffers stay allocated.
FREEING = {name for name in PIPELINE if "dealloc" in name}

DECOMPOSE = """module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op) {
    %packs = transform.structured.match ops{["linalg.pack"]} in %root : (!transform.any_op) -> !transform.op<"linalg.pack">
    transform.foreach %packs : !transform.op<"linalg.pack"> {
    ^bb0(%pack: !transform.op<"linalg.pack">):
      transform.structured.lower_pack %pack {lowerPadLikeWithInsertSlice = false} : (!transform.op<"linalg.pack">)
        -> (!transform.op<"tensor.pad">, !transform.op<"tensor.expand_shape">, !transform.op<"linalg.transpose">)
    }
    %unpacks = transform.structured.match ops{["linalg.unpack"]} in %root
      : (!transform.any_op) -> !transform.op<"linalg.unpack">
    transform.foreach %unpacks : !transform.op<"linalg.unpack"> {
    ^bb0(%unpack: !transform.op<"linalg.unpack">):
      transform.structured.lower_unpack %unpack {lowerUnpadLikeWithExtractSlice = false}
        : (!transform.op<"linalg.unpack">)
        -> (!transform.op<"tensor.empty">, !transform.op<"linalg.transpose">,
            !transform.op<"tensor.collapse_shape">, !transform.op<"tensor.extract_slice">)
    }
    %functions = transform.structured.match ops{["func.func"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.apply_patterns to %functions { transform.apply_patterns.tensor.decompose_concat } : !transform.any_op
    transform.yield
  }
}"""

_BITS = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32, "f64": np.float64, "index": np.int64}
_BITS |= {name: np.int8 for name in ("f8E4M3FN", "f8E4M3FNUZ", "f8E5M2", "f8E5M2FNUZ")}  # ctypes has no such floats
_BITS |= {"i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64}


def run(module: ir.Module, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Run ``@main`` on arrays of its arguments' shapes; the module itself is left as it is.

    Arrays of other dtypes of the right width (bool and uint8 for i8, uint32 for i32) are taken by their bits; results
    have the signed dtype of their width.
    """
    copy = io.BytesIO()
    module.operation.write_bytecode(copy)
    return _compiled(copy.getvalue())(arrays)


@dataclass(frozen=True)
class _Program:
    """Compiled code with the shapes and dtypes of its arguments and results; ``order`` says which each result is."""

    library: tvm_ffi.Module  # keeps the code
    function: Callable[..., None]
    inputs: Sequence[tuple[Shape, np.dtype]]
    results: Sequence[tuple[Shape, np.dtype]]
    order: Sequence[int]

    def __call__(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        arguments = [
            _as_bits(a, *kind, f"argument {i}") for i, (a, kind) in enumerate(zip(arrays, self.inputs, strict=True))
        ]
        results = [np.empty(*kind) for kind in self.results]
        descriptors = [get_ranked_memref_descriptor(a) for a in (*arguments, *results)]
        self.function(*map(ctypes.addressof, descriptors))
        return [results[i] for i in self.order]


@functools.lru_cache(maxsize=256)
def _compiled(bytecode: bytes) -> _Program:
    """The program of a module; a plan calls the same kernels several times."""
    with reused_context(), ir.Location.unknown():
        private = ir.Module.parse(bytecode)
        main = _entry(private)
        order = _return_each_once(main)
        inputs, results = ([_kind(t) for t in types] for types in (main.type.inputs, main.type.results))
        _decompose(private)
        control_flow = "scf." in str(private)
        stages = [stage for stage in PIPELINE if not (control_flow and stage in FREEING)]
        run_pipeline(private.operation, f"builtin.module({','.join(stages)})", verified=False)
        code = codegen.emit_code(private, detect_host(), "obj", opt_level=0)
        beside = _linked_beside()
    library = link([code, *beside])
    address = library["kernel"](0)
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (len(inputs) + len(results)))
    return _Program(library, kind(getattr(address, "value", address)), inputs, results, order)


def run_model(model: Model, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Run an imported model on inputs by name; the results have the dtypes of ``model.outputs``."""
    main = _main(model.module)
    arrays = []
    for attributes in map(ir.DictAttr, main.arg_attrs):
        kind = "tw.param" if "tw.param" in attributes else "tw.name"
        name = ir.StringAttr(attributes[kind]).value
        arrays.append(model.params[name].array() if kind == "tw.param" else inputs[name])
    results = run(model.module, arrays)
    return [r.view(numpy_dtype(info.dtype)) for r, info in zip(results, model.outputs, strict=True)]


def _main(module: ir.Module) -> func.FuncOp:
    return next(op for op in module.body.operations if isinstance(op, func.FuncOp) and op.name.value == "main")


def _entry(module: ir.Module) -> func.FuncOp:
    """Prepare ``@main`` for a call from here: arguments that nobody writes to, and a C interface."""
    main = _main(module)
    kept = ir.DictAttr.get({"bufferization.writable": ir.BoolAttr.get(False)})
    main.attributes["arg_attrs"] = ir.ArrayAttr.get([kept] * len(main.type.inputs))
    main.attributes["sym_name"] = ir.StringAttr.get(ENTRY)
    main.attributes["llvm.emit_c_interface"] = ir.UnitAttr.get()
    return main


def _return_each_once(main: func.FuncOp) -> list[int]:
    """Drop results given twice, which upstream's bufferization cannot take; says which result each one was."""
    end = list(main.entry_block.operations)[-1].operation
    values = list(dict.fromkeys(end.operands))
    order = [values.index(value) for value in end.operands]
    with ir.InsertionPoint(end):
        func.ReturnOp(values)
    end.erase()
    kind = ir.FunctionType.get(main.type.inputs, [value.type for value in values])
    main.attributes["function_type"] = ir.TypeAttr.get(kind)
    return order


def _decompose(module: ir.Module) -> None:
    """Rewrite the ops that have no bufferization into ones that have."""
    schedule = keep(DECOMPOSE, lambda: ir.Module.parse(DECOMPOSE))
    interpreter.apply_named_sequence(module.operation, schedule.body.operations[0], schedule)


def _kind(tensor: ir.Type) -> tuple[Shape, np.dtype]:
    ranked = ir.RankedTensorType(tensor)
    return tuple(ranked.shape), np.dtype(_BITS[str(ranked.element_type)])


def _as_bits(array: np.ndarray, shape: Shape, dtype: np.dtype, what: str) -> np.ndarray:
    if array.shape != shape or array.dtype.itemsize != dtype.itemsize:
        raise ValueError(f"{what}: {array.dtype}{array.shape} given, {dtype}{shape} expected")
    return np.ascontiguousarray(array).view(dtype).reshape(shape)


@functools.cache
def _linked_beside() -> list[bytes]:
    """The objects that say where the entry is; what code calls of MLIR's own libraries is in the process from now on."""
    folder = Path(next(iter(mlir.__path__))) / "lib"
    for name in ("c_runner_utils", "runner_utils", "float16_utils"):
        ctypes.CDLL(str(folder / f"libmlir_{name}.so"), mode=ctypes.RTLD_GLOBAL)
    return [emit_kernel_table([C_ENTRY]), emit_support()]
