"""The cases of the onnx package's backend suite, and what becomes of one."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases
from onnx.backend.test.loader import load_model_tests

import tilewright as tw

FILE_KINDS = ("simple", "pytorch-converted", "pytorch-operator")


@dataclass(frozen=True)
class Case:
    """A model, inputs by position, and the outputs it must give. ``group`` is its operator, or the kind of case."""

    name: str
    group: str
    model: bytes
    data: Sequence[tuple[list[Any], list[Any]]]
    rtol: float
    atol: float


@dataclass(frozen=True)
class Outcome:
    """``status`` is pass, refused (with an error that says so), wrong, error, or lost (a crash or a hang)."""

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
        proto = {"tensor_type": onnx.TensorProto, "sequence_type": onnx.SequenceProto}[kind]()
        proto.ParseFromString((folder / f"{side}_{index}.pb").read_bytes())
        yield numpy_helper.to_array(proto) if kind == "tensor_type" else numpy_helper.to_list(proto)


def _value(value: Any) -> Any:
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return value if isinstance(value, list) or value is None else np.asarray(value)


def check(case: Case) -> Outcome:
    """Compile the case's model in this process, and compare its answers with the suite's."""
    try:
        for inputs, outputs in case.data:
            module = tw.compile(case.model, input_shapes=_shapes(case, inputs), workers=0, num_threads=1, cache=False)
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


def _difference(got: Sequence[np.ndarray], want: Sequence[Any], case: Case) -> str:
    """Empty where the outputs agree within the case's tolerances."""
    if len(got) != len(want):
        return f"{len(got)} outputs instead of {len(want)}"
    for index, (a, b) in enumerate(zip(got, want, strict=True)):
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            return f"output {index} is {a.dtype}{a.shape} instead of {b.dtype}{b.shape}"
        wide = [x.astype(np.complex128 if x.dtype.kind == "c" else np.float64) for x in (a, b)]
        if not np.allclose(*wide, rtol=case.rtol, atol=case.atol, equal_nan=True):
            return f"output {index} differs by up to {np.nanmax(np.abs(wide[0] - wide[1])):.3g}"
    return ""
