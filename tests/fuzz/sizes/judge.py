"""What becomes of a graph for each of its sizes: ours, in guarded runs, against onnxruntime and onnx's reference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from fuzz.sizes.generator import Run, generate
from open_case import guarded

import tilewright as tw
from tilewright.core.errors import first_line
from tilewright.tools._arrays import widen_array
from tilewright.tools.debugging.oracle import ORDER, NoOracle, Oracle, make_session
from tilewright.tools.debugging.oracle_difference import find_difference, has_float_elements

Number = tuple[int, int]  # seed, index
TOLERANCE = 2e-3  # of the largest element: sums of a thousand products, and exponentials of them
REFUSALS = (tw.ModelError, tw.InputError)


@dataclass(frozen=True)
class Outcome:
    """What became of a graph: "agree", "skipped" (onnxruntime refuses it), "refused" (we do), "disputed" (the oracles
    differ from each other as well), or a kind of finding: "differs", "guard", "error", "crash", "hang". ``run`` is the number of the first sizes to blame, ``runs`` counts
    what became of each."""

    kind: str
    reason: str = ""
    run: int = 0
    runs: Counter[str] = field(default_factory=Counter)

    @property
    def is_finding(self) -> bool:
        """Whether this is a fault of ours."""
        return self.kind not in ("agree", "skipped", "refused", "disputed")


def check(number: Number) -> Outcome:
    """Make a graph and judge it in this process."""
    return judge(*generate(*number))


def judge(model: onnx.ModelProto, runs: Sequence[Run]) -> Outcome:
    """Compile once, and run on all sizes."""
    wants = _wants(model, runs)
    if not any(isinstance(want, list) for want in wants):
        return Outcome("skipped", str(wants[0]), runs=Counter(skipped=len(runs)))
    try:
        with guarded():
            module = tw.compile(model.SerializeToString(), workers=0, num_threads=1, cache=False)
    except REFUSALS as error:
        return Outcome("refused", first_line(error), runs=Counter(refused=len(runs)))
    except Exception as error:
        return Outcome("error", f"{type(error).__name__}: {first_line(error)}")
    counts: Counter[str] = Counter()
    worst = Outcome("agree", runs=counts)
    for number, ((binding, arrays), want) in enumerate(zip(runs, wants, strict=True)):
        kind, reason = _judged(model, module, arrays, want)
        counts[kind] += 1
        found = Outcome(kind, f"{_sizes(binding)}: {reason}", number, counts)
        if found.is_finding:
            return found
        if kind in ("refused", "disputed") and worst.kind == "agree":
            worst = found
    return worst


def _wants(model: onnx.ModelProto, runs: Sequence[Run]) -> list[list[np.ndarray] | str]:
    """onnxruntime's results of each run, or why it has none."""
    try:
        oracle = make_session(model)
    except Exception as error:
        return [first_line(error)] * len(runs)
    found: list[list[np.ndarray] | str] = []
    for _, arrays in runs:
        try:
            found.append([np.asarray(a) for a in oracle.run(None, arrays)])
        except Exception as error:
            found.append(first_line(error))
    return found


def ask_oracle(number: Number) -> int:
    """Run a graph by onnxruntime alone, in a child that it may end."""
    return len(_wants(*generate(*number)))


def _judged(
    model: onnx.ModelProto, module: tw.Module, arrays: dict[str, np.ndarray], want: list[np.ndarray] | str
) -> tuple[str, str]:
    try:
        got = module.run(arrays)
    except tw.GuardError as error:
        return "guard", str(error)
    except tw.InputError as error:
        return ("refused" if isinstance(want, list) else "skipped"), first_line(error)
    except Exception as error:
        return "error", f"{type(error).__name__}: {first_line(error)}"
    if isinstance(want, str):
        return "skipped", want
    reasons = differences(got, want)
    if not reasons:
        return "agree", ""
    for opinion in _opinions(model, arrays):
        other = differences(got, opinion)
        reasons = {number: reason for number, reason in reasons.items() if number in other}
        if not reasons:
            return "agree", ""
    number, reason = next(iter(reasons.items()))
    if any(number in differences(opinion, want) for opinion in _opinions(model, arrays)):
        return "disputed", f"{reason}; onnx's reference has another result than onnxruntime"
    return "differs", reason


def differences(got: Sequence[Any], want: Sequence[Any]) -> dict[int, str]:
    """How outputs differ, by number."""
    found = {}
    for number, array in enumerate(got):
        expected = np.asarray(want[number]) if number < len(want) else np.empty(0, np.void)
        finite = (
            np.abs(widen_array(expected)[np.isfinite(widen_array(expected))])
            if has_float_elements(expected)
            else np.zeros(0)
        )
        absolute = TOLERANCE * max(1.0, float(finite.max(initial=0.0)))
        if reason := find_difference(np.asarray(array), expected, (), (TOLERANCE, absolute)):
            found[number] = f"output {number} {reason}"
    return found


def _opinions(model: onnx.ModelProto, arrays: dict[str, np.ndarray]) -> Iterator[list[Any]]:
    """The outputs node by node, by onnxruntime where it has no known fault, and by onnx's reference first."""
    for order in (ORDER, ORDER[::-1]):
        try:
            values = Oracle(model, order).values(arrays)
        except NoOracle:
            continue
        yield [values[output.name] for output in model.graph.output]


def _sizes(binding: dict[str, int]) -> str:
    return ", ".join(f"{name}={size}" for name, size in binding.items())
