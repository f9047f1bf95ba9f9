"""One-node models with all extents of their inputs open: one program for inputs of any sizes, against an oracle."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator
from onnx_case import foreign_model

import tilewright as tw
from tilewright.core.errors import InputError
from tilewright.tools.debugging.oracle import make_session

Arrays = Sequence[np.ndarray | None]


def open_model(
    op: str, arrays: Arrays, known: Collection[int] = (), fixed: Collection[tuple[int, int]] = (), **options: Any
) -> onnx.ModelProto:
    """A node on inputs of the arrays' ranks and dtypes; those at the positions ``known`` are initialisers.

    ``fixed`` are the inputs' axes that have the arrays' extents: pairs of an input's position and an axis. ``options``
    are those of ``foreign_model`` and the node's attributes.
    """
    made, _ = _of_shapes(op, arrays, known, **options)
    for value in made.graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if (int(value.name.removeprefix("in")), axis) not in fixed:
                dim.dim_param = f"{value.name}_{axis}"
    return made


def check_open(
    op: str,
    *runs: Arrays,
    known: Collection[int] = (),
    fixed: Collection[tuple[int, int]] = (),
    tolerance: float = 1e-5,
    reference: bool = False,
    **options: Any,
) -> tw.Module:
    """One program of an ``open_model`` does for the inputs of all runs what an oracle does, which sees their shapes.

    That is onnxruntime, or onnx's reference. Inputs that are ``known`` are the first run's. Gives the program, whose
    runs are guarded.
    """
    made = open_model(op, runs[0], known, fixed, **options)
    with guarded():
        module = tw.compile(made, workers=0, num_threads=1, cache=False)
    for arrays in runs:
        model, given = _of_shapes(op, arrays, known, **options)
        oracle = ReferenceEvaluator(model) if reference else _session(model)
        for got, want in zip(module(*given.values()), oracle.run(None, given), strict=True):
            want = np.asarray(want)
            assert (got.shape, got.dtype) == (want.shape, want.dtype)
            np.testing.assert_allclose(got, want, tolerance, tolerance)
    return module


@contextmanager
def guarded() -> Iterator[None]:
    """Have what programs write checked that are loaded meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILEWRIGHT_DEBUG", "1")
        yield


def check_refused(module: tw.Module, op: str, arrays: Arrays, why: str) -> None:
    """The run of an ``open_model`` says in one line which node its inputs do not fit."""
    with pytest.raises(InputError, match=rf"^[^\n]*node 'the_{op}'[^\n]*{why}[^\n]*$"):
        module(*(array for array in arrays if array is not None))


def _of_shapes(
    op: str, arrays: Arrays, known: Collection[int], domain: str = "", **options: Any
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    return foreign_model(op, arrays, domain, known=known, **options)


def _session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    return make_session(model)
