"""tvm-ffi's packed-function ABI in the LLVM dialect: functions that tvm-ffi finds by name, and checks of their tensors.

``packed.mlir`` beside this file has the functions that do the work at run time (take a tensor, compare it with a
record, raise); this module writes the functions and the constant tables around them, as text to be parsed with it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ..core.dlpack import dlpack_dtype
from ..core.model import TensorInfo, numpy_dtype
from ..core.sizes import require_static

SUPPORT = Path(__file__).with_name("packed.mlir")


def packed_function(name: str, body: str) -> str:
    """``name`` as tvm-ffi looks it up in a module. ``body`` sees ``%self``, ``%args``, ``%count`` and ``%ret``.

    It returns 0, or -1 after raising an error.
    """
    arguments = "%self: !llvm.ptr, %args: !llvm.ptr, %count: i32, %ret: !llvm.ptr"
    return f"llvm.func @__tvm_ffi_{name}({arguments}) -> i32 {{\n{body}\n}}\n"


def main_function(body: str) -> str:
    """``@tw_main``, the function behind the object ``main``, with such a body. ``create`` alone finds it."""
    return packed_function("main", body).replace("llvm.func @__tvm_ffi_main", "llvm.func internal @tw_main", 1)


def text_list(symbol: str, texts: Sequence[str]) -> str:
    """A constant for ``@tw_text``: the offset of each text as i32, then the texts, each with a zero behind it."""
    encoded = [text.encode() + b"\0" for text in texts]
    offset = 4 * len(encoded)
    head = bytearray()
    for text in encoded:
        head += offset.to_bytes(4, "little")
        offset += len(text)
    return constant_bytes(symbol, bytes(head) + b"".join(encoded))


def constant_bytes(symbol: str, data: bytes, section: str = "") -> str:
    """A constant of raw bytes, aligned to 8, in a section of its own where one is named."""
    escaped = re.sub(rb'["\\]|[^ -~]', lambda byte: b"\\%02X" % ord(byte[0]), data).decode()
    place = f', section = "{section}"' if section else ""
    return f'llvm.mlir.global internal constant @{symbol}("{escaped}") {{alignment = 8 : i64{place}}}\n'


def word_table(symbol: str, words: Sequence[int]) -> str:
    """A constant of words; one of zero where there are none."""
    values = f"dense<[{', '.join(map(str, words or [0]))}]> : tensor<{len(words or [0])}xi64>"
    return f"llvm.mlir.global internal constant @{symbol}({values}) : !llvm.array<{len(words or [0])} x i64>\n"


def record_table(
    symbol: str, fields: Sequence[str], records: Sequence[Sequence[int | str]], linkage: str = "internal"
) -> str:
    """A constant of records, each with an ``i64``, or a ``ptr`` to what a symbol names, for each of the fields."""
    record = f"!llvm.struct<({', '.join(fields)})>"
    kind = f"!llvm.array<{len(records)} x {record}>"
    lines = [f"llvm.mlir.global {linkage} constant @{symbol}() : {kind} {{", f"  %t0 = llvm.mlir.poison : {kind}"]
    for i, values in enumerate(records):
        lines.append(f"  %r{i}_0 = llvm.mlir.poison : {record}")
        for at, (field, value) in enumerate(zip(fields, values, strict=True)):
            type_ = "!llvm.ptr" if field == "ptr" else field
            made = f'addressof @"{value}"' if field == "ptr" else f"constant({value} : {field})"
            lines.append(f"  %v{i}_{at} = llvm.mlir.{made} : {type_}")
            lines.append(f"  %r{i}_{at + 1} = llvm.insertvalue %v{i}_{at}, %r{i}_{at}[{at}] : {record}")
        lines.append(f"  %t{i + 1} = llvm.insertvalue %r{i}_{len(fields)}, %t{i}[{i}] : {kind}")
    return "\n".join([*lines, f"  llvm.return %t{len(records)} : {kind}", "}\n"])


def signature(symbol: str, tensors: Sequence[TensorInfo]) -> str:
    """A constant for ``@tw_take_tensors``: for each tensor dtype, bytes of an element, bytes of all, rank, extents."""
    return word_table(symbol, [word for info in tensors for word in _tensor_record(info)])


def _tensor_record(info: TensorInfo) -> list[int]:
    code, bits = dlpack_dtype(info.dtype)
    shape = [require_static(extent, f"an extent of '{info.name}'") for extent in info.shape]
    lanes = 1
    return [code | bits << 8 | lanes << 16, numpy_dtype(info.dtype).itemsize, info.nbytes, len(shape), *shape]
