"""Judges a model on given inputs: it agrees with the oracle, or fails in one of a few ways."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np
from onnx import ModelProto

import tilewright as tw
from tilewright.core.errors import first_line
from tilewright.runtime.executors.runner import start_guarded
from tilewright.runtime.module import Module
from tilewright.tools.debugging.isolation import Lost
from tilewright.tools.debugging.oracle import ORDER, Arrays, NoOracle, Oracle
from tilewright.tools.debugging.oracle_difference import find_difference
from tilewright.tools.debugging.oracle_noise import Noise

FAILURES = ("differs", "error", "internal", "crash", "hang")
SAMPLES = 6  # runs of the oracle with noise, where a difference may be one of rounding


@dataclass(frozen=True)
class Verdict:
    """``kind`` is agrees, one of FAILURES, refused (an UnsupportedError), disputed (the oracles disagree with each
    other), or unknown (there is no oracle). ``output`` is the first one that differs."""

    kind: str
    reason: str = ""
    output: str = ""

    @property
    def fails(self) -> bool:
        """Return whether this is a fault of ours."""
        return self.kind in FAILURES

    def alike(self, other: Verdict) -> bool:
        """Return whether both are the same failure: of an error all but names and numbers has to be the same."""
        return self.kind == other.kind and (self.kind != "error" or _pattern(self.reason) == _pattern(other.reason))


def _pattern(reason: str) -> str:
    return re.sub(r"'[^']*'|\"[^\"]*\"|[%@#]?\w*\d[\w.]*", "_", reason)


@dataclass(frozen=True)
class Raised:
    """Stands for the answer of a call that raised."""

    type: str
    reason: str


# A call is made in this process or in a child, where a crash is an answer too: an ask gives the result or a Lost.
Ask = Callable[[tuple[Any, ...]], Any]


def answer(call: tuple[Any, ...]) -> Any:
    """The function for a child: does one of the calls below; what it raises is its answer."""
    function, *arguments = call
    try:
        return function(*arguments)
    except NoOracle as error:
        return Raised("NoOracle", str(error))
    except Exception as error:
        return Raised(type(error).__name__, first_line(error))


def run_ours(model: bytes, inputs: Arrays, context: Mapping[str, Any] | None = None) -> list[np.ndarray]:
    """Our outputs. The second call of a program has to give what the first one gave.

    ``context`` has the arguments of a PassContext to compile in.
    """
    shapes = {name: array.shape for name, array in inputs.items()}
    with nullcontext() if context is None else tw.PassContext(**context):
        module = tw.compile(model, input_shapes=shapes, workers=0, num_threads=1, cache=False)
    first, second = ([np.array(array) for array in module.run(dict(inputs))] for _ in range(2))
    if any(_content_key(a) != _content_key(b) for a, b in zip(first, second, strict=True)):
        raise RuntimeError("a second call of the program gives other results than the first")
    return first


def _content_key(array: np.ndarray) -> object:
    """A key by which two results are equal: all bits, or the words of strings."""
    return (array.shape, array.tolist()) if array.dtype.kind == "O" else array.tobytes()


def run_dynamic(model: bytes, inputs: Arrays) -> list[np.ndarray]:
    """Our outputs of the model of which the run alone knows a third of its inputs' extents, each one for itself."""

    def given(name: str, axis: int, extent: int) -> str | int:
        dim = f"{name}_{axis}"
        return extent if crc32(dim.encode()) % 3 else dim

    return _run_guarded(model, inputs, given)


def run_independent(model: bytes, inputs: Arrays) -> list[np.ndarray]:
    """Our outputs of the model of whose inputs only the run knows any extent, each one for itself."""
    return _run_guarded(model, inputs, lambda name, axis, extent: f"{name}_{axis}")


def run_shared(model: bytes, inputs: Arrays) -> list[np.ndarray]:
    """Our outputs of the model whose inputs' extents of 2 and more only the run knows: that equal ones are equal, and
    that none is 0, the compiler knows."""
    return _run_guarded(model, inputs, lambda name, axis, extent: f"n{extent}=1.." if extent > 1 else extent)


def _run_guarded(model: bytes, inputs: Arrays, given: Callable[[str, int, int], str | int]) -> list[np.ndarray]:
    """Our outputs in a guarded run; ``given`` says how an input's extent is compiled, as a name or a number."""
    proto = ModelProto.FromString(model)
    for value in proto.graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            dim.dim_param = f"{value.name}_{axis}"
    for value in proto.graph.output:
        value.type.tensor_type.ClearField("shape")
    shapes = {name: [given(name, axis, n) for axis, n in enumerate(a.shape)] for name, a in inputs.items()}
    try:
        module = tw.compile(proto, input_shapes=shapes, workers=0, num_threads=1, cache=False)
    except tw.ModelError as error:  # not every extent may be open: no file says so, but the op
        raise tw.UnsupportedError(str(error)) from error
    guarded = Module(module.program, 1, runner=start_guarded)
    return [np.array(array) for array in guarded.run(dict(inputs))]


def run_oracle(
    model: bytes, inputs: Arrays, names: Sequence[str], order: Sequence[str] = ORDER, samples: int = 0
) -> list[list[Any]]:
    """The oracle's values of these names (all but weights: none given), and ``samples`` times those with noise."""
    proto = ModelProto.FromString(model)
    oracle = Oracle(proto, order)
    runs = (oracle.values(inputs, noise, names) for noise in (None, *map(Noise, range(samples))))
    return [[values[name] for name in names] for values in runs]


def values_of(model: bytes, inputs: Arrays) -> dict[str, Any]:
    """The oracle's value of everything in a model."""
    return Oracle(ModelProto.FromString(model)).values(inputs)


def judge(
    model: ModelProto,
    inputs: Arrays,
    ask: Ask,
    tolerance: tuple[float, float] | None = None,
    second_opinion: bool = False,
    run: Callable[[bytes, Arrays], list[np.ndarray]] = run_ours,
    order: Sequence[str] = ORDER,
) -> Verdict:
    """Compile and ``run`` a valid model, and compare with the oracle, for which those of ``order`` are asked.

    Without a tolerance, what right answers may differ by is allowed. With a second opinion a difference has to be one
    from the reference too.
    """
    data, names = model.SerializeToString(), [output.name for output in model.graph.output]
    got = ask((run, data, inputs))
    if isinstance(got, Raised) and got.type == "UnsupportedError":
        return Verdict("refused", got.reason)
    if isinstance(got, Lost):
        return Verdict("hang" if got.reason.startswith("no answer") else "crash", f"the compiler {got.reason}")
    if isinstance(got, Raised):
        return Verdict("error", f"{got.type}: {got.reason}")
    want = ask((run_oracle, data, inputs, names, order))
    if isinstance(want, Lost | Raised):
        return Verdict("unknown", want.reason)
    reasons = _differences(names, got, want, tolerance)
    if not reasons or tolerance:
        return _differs(reasons) if reasons else Verdict("agrees")
    want = ask((run_oracle, data, inputs, names, order, SAMPLES))
    if isinstance(want, Lost | Raised):
        return Verdict("unknown", want.reason)
    reasons = _differences(names, got, want)
    if not reasons:
        return Verdict("agrees")
    other = ask((run_oracle, data, inputs, names, order[::-1])) if second_opinion else None
    if not isinstance(other, list):
        return _differs(reasons)
    disputed = _differences(names, other[0], want)
    sure = {name: reason for name, reason in reasons.items() if name not in disputed}
    if sure:
        return _differs(sure)
    name, reason = next(iter(reasons.items()))
    ours = "another one" if name in _differences(names, got, other) else "ours"
    return Verdict("disputed", f"{reason}; the reference's is {ours}")


def _differs(reasons: Mapping[str, str]) -> Verdict:
    name, reason = next(iter(reasons.items()))
    return Verdict("differs", reason, name)


def _differences(
    names: Sequence[str],
    got: Sequence[Any],
    want: Sequence[Sequence[Any]],
    tolerance: tuple[float, float] | None = None,
) -> dict[str, str]:
    """How the outputs that differ do so, by name; ``want`` holds the oracle's, then those with noise."""
    found = {}
    for index, name in enumerate(names):
        reason = find_difference(got[index], want[0][index], [sample[index] for sample in want[1:]], tolerance)
        if reason:
            found[name] = f"output '{name}' {reason}"
    return found
