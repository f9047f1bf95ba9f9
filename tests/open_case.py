"""One-node models with all extents of their inputs open: one program for inputs of any sizes, against an oracle."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx.reference import ReferenceEvaluator
from onnx_case import foreign_model

import tilewright as tw

Arrays = Sequence[np.ndarray | None]


def open_model(
    op: str, arrays: Arrays, known: Collection[int] = (), fixed: Collection[tuple[int, int]] = (), **options: Any
) -> onnx.ModelProto:
    """A node on inputs of the arrays' ranks and dtypes; those at the positions ``known`` are initialisers.

    ``fixed`` are the inputs' axes that have the arrays' extents: pairs of an input's position and an axis.
    """
    made, _ = foreign_model(op, arrays, options.pop("domain", ""), known=known, **options)
    for value in made.graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if (int(value.name.removeprefix("in")), axis) not in fixed:
                dim.dim_param = f"{value.name}_{axis}"
    return made


def check_open(
    op: str,
    *runs: Arrays,
    known: Collection[int] = (),
    tolerance: float = 1e-5,
    reference: bool = False,
    **options: Any,
) -> tw.Module:
    """One compiled program agrees with onnxruntime, or onnx's reference, on the inputs of all runs; gives the program.

    ``options`` are those of ``open_model`` and ``foreign_model``, and the node's attributes. Inputs that are ``known`` are the first run's.
    """
    made = open_model(op, runs[0], known, **options)
    module = tw.compile(made, workers=0, num_threads=1, cache=False)
    oracle = ReferenceEvaluator(made) if reference else _session(made)
    for arrays in runs:
        given = {f"in{i}": a for i, a in enumerate(arrays) if a is not None and i not in known}
        for got, want in zip(module(*given.values()), oracle.run(None, given), strict=True):
            want = np.asarray(want)
            assert (got.shape, got.dtype) == (want.shape, want.dtype)
            np.testing.assert_allclose(got, want, tolerance, tolerance)
    return module


def _session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model.SerializeToString(), options)
