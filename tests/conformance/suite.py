"""The cases of the onnx package's backend suite, and what becomes of one."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases
from onnx.backend.test.loader import load_model_tests
from open_case import guarded

import tilewright as tw
from tilewright.tools.networks.open_sizes import open_sizes

_TEXT = "OUST"  # kinds of arrays of strings
_BFLOAT16 = 2**-6  # the relative tolerance of onnx's own runner: two units in the last place
FILE_KINDS = ("simple", "pytorch-converted", "pytorch-operator")


def _optional(proto: onnx.OptionalProto) -> Any:
    """The value in an optional; onnx reads none that is empty and has a type."""
    fields = {field.name for field, _ in proto.ListFields()}
    return numpy_helper.to_optional(proto) if fields - {"name", "elem_type"} else None


_PROTOS = {
    "tensor_type": (onnx.TensorProto, numpy_helper.to_array),
    "sequence_type": (onnx.SequenceProto, numpy_helper.to_list),
    "optional_type": (onnx.OptionalProto, _optional),
}


@dataclass(frozen=True)
class Case:
    """A model, inputs by position, and the outputs it must give. ``group`` is its operator, or the kind of case.

    ``open``: whether its program is compiled for inputs of any extents.
    """

    name: str
    group: str
    model: bytes
    data: Sequence[tuple[list[Any], list[Any]]]
    rtol: float
    atol: float
    open: bool = False


@dataclass(frozen=True)
class Outcome:
    """``status`` is pass, refused (with an error that says so), wrong, error, lost (a crash or a hang), or skipped."""

    status: str
    reason: str = ""


def cases() -> list[Case]:
    """All cases, by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # cases overflow and divide by zero on purpose
        nodes = {case.name: case for case in collect_testcases(None)}
    found = [_node_case(case, nodes) for case in nodes.values()]
    found += [_file_case(case) for kind in FILE_KINDS for case in load_model_tests(kind=kind)]
    return sorted(found, key=lambda case: case.name)


def _node_case(case: Any, nodes: dict[str, Any]) -> Case:
    # `test_x_expanded` is the body of the function that the operator of `test_x` stands for.
    base = nodes.get(case.name.partition("_expanded")[0], case)
    data = [tuple([_value(v) for v in side] for side in pair) for pair in case.data_sets]
    operator = base.model.graph.node[0]
    group = ".".join(filter(None, (operator.domain, operator.op_type)))
    return Case(case.name, group, case.model.SerializeToString(), data, case.rtol, case.atol)  # type: ignore[arg-type]


def _file_case(case: Any) -> Case:
    folder = Path(case.model_dir)
    content = (folder / "model.onnx").read_bytes()
    graph = onnx.load_from_string(content).graph
    data = [
        (list(_files(each, "input", graph.input)), list(_files(each, "output", graph.output)))
        for each in sorted(folder.glob("test_data_set_*"))
    ]
    return Case(case.name, case.kind, content, data, case.rtol, case.atol)


def _files(folder: Path, side: str, infos: Sequence[onnx.ValueInfoProto]) -> Iterator[Any]:
    for index in range(len(list(folder.glob(f"{side}_*.pb")))):
        kind = infos[index].type.WhichOneof("value")
        proto, read = _PROTOS[kind]
        yield read(proto.FromString((folder / f"{side}_{index}.pb").read_bytes()))


def _value(value: Any) -> Any:
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, list | tuple):
        return [_value(v) for v in value]
    return None if value is None else np.asarray(value)


def opened(case: Case) -> Case:
    """The case with extents of inputs that only the run knows."""
    model, _ = open_sizes(onnx.load_from_string(case.model))
    return replace(case, model=model.SerializeToString(), open=True)


def check(case: Case) -> Outcome:
    """Compile the case's model in this process, and compare its answers with the suite's. Open programs run guarded."""
    try:
        for inputs, outputs in case.data:
            shapes = None if case.open else _shapes(case, inputs)
            with guarded() if case.open else nullcontext():
                module = tw.compile(case.model, input_shapes=shapes, workers=0, num_threads=1, cache=False)
            if reason := _difference(module(*inputs), outputs, case):
                return Outcome("wrong", reason)
    except (tw.ModelError, tw.InputError) as error:
        return Outcome("refused", str(error))
    except Exception as error:
        return Outcome("error", f"{type(error).__name__}: {error}")
    return Outcome("pass")


def _shapes(case: Case, inputs: Sequence[Any]) -> dict[str, tuple[int, ...]]:
    graph = onnx.load_from_string(case.model).graph
    known = {tensor.name for tensor in graph.initializer}
    names = [info.name for info in graph.input if info.name not in known]
    return {name: a.shape for name, a in zip(names, inputs, strict=False) if isinstance(a, np.ndarray)}


def _difference(got: Sequence[Any], want: Sequence[Any], case: Case) -> str:
    """Empty where the outputs agree within the case's tolerances."""
    if len(got) != len(want):
        return f"{len(got)} outputs instead of {len(want)}"
    for index, (a, b) in enumerate(zip(got, want, strict=True)):
        if reason := _differs(a, b, case):
            return f"output {index} {reason}"
    return ""


def _differs(got: Any, want: Any, case: Case) -> str:
    """How a value is not the one that is wanted; both are arrays, lists of values, or None for an empty optional."""
    if want is None or got is None or isinstance(want, list | tuple) != isinstance(got, list | tuple):
        return "" if want is got else f"is {_kind(got)} instead of {_kind(want)}"
    if isinstance(want, list | tuple):
        if len(got) != len(want):
            return f"has {len(got)} elements instead of {len(want)}"
        reasons = ((i, _differs(a, b, case)) for i, (a, b) in enumerate(zip(got, want, strict=True)))
        return next((f"at {i} {reason}" for i, reason in reasons if reason), "")
    a, b = np.asarray(got), np.asarray(want)
    if b.dtype.kind in _TEXT:
        return _texts_differ(a, b)
    if (a.shape, a.dtype) != (b.shape, b.dtype):
        return f"is {_kind(a)} instead of {_kind(b)}"
    wide = [x.astype(np.complex128 if x.dtype.kind == "c" else np.float64) for x in (a, b)]
    rtol = max(case.rtol, _BFLOAT16) if b.dtype.name == "bfloat16" else case.rtol
    if not np.allclose(*wide, rtol=rtol, atol=case.atol, equal_nan=True):
        return f"differs by up to {np.nanmax(np.abs(wide[0] - wide[1])):.3g}"
    return ""


def _texts_differ(got: np.ndarray, want: np.ndarray) -> str:
    if got.dtype.kind not in _TEXT or got.shape != want.shape:
        return f"is {_kind(got)} instead of {_kind(want)}"
    pairs = zip(map(_text, got.reshape(-1)), map(_text, want.reshape(-1)), strict=True)
    return next((f"has {a!r} instead of {b!r}" for a, b in pairs if a != b), "")


def _text(item: Any) -> str:
    return item.decode() if isinstance(item, bytes) else str(item)


def _kind(value: Any) -> str:
    if isinstance(value, np.ndarray | np.generic):
        return f"{'string' if value.dtype.kind in _TEXT else value.dtype}{value.shape}"
    return "None" if value is None else "a list"
