"""What becomes of a graph for each of its sizes: ours, in guarded runs, against onnxruntime and onnx's reference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from fuzz.sizes.generator import Run, generate
from open_case import guarded

import tilewright as tw
from tilewright.core.errors import first_line
from tilewright.runtime.executors.runner import start_guarded
from tilewright.runtime.module import Module
from tilewright.tools._arrays import widen_array
from tilewright.tools.debugging.oracle import ORDER, NoOracle, Oracle, make_session
from tilewright.tools.debugging.oracle_difference import find_difference, has_float_elements

Number = tuple[int, int, str]  # seed, index, theme
TARGETS = ("x86", "x86", "x86 -mcpu=haswell", "x86", "x86 -mcpu=x86-64-v2")
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


@dataclass(frozen=True)
class Way:
    """How a graph is compiled and run: sizes that the compiler knows, by name; the CPU; the most threads of the runs, where
    these are not guarded alone."""

    known: Mapping[str, int] = field(default_factory=dict)
    target: str = "x86"
    threads: int = 0

    @staticmethod
    def of(number: Number, model: onnx.ModelProto, runs: Sequence[Run]) -> Way:
        """The way of a number of a theme: names that keep one size in all runs are mostly known."""
        if number[2] == "any":
            return Way()
        names = {d.dim_param for i in model.graph.input for d in i.type.tensor_type.shape.dim}
        bindings = [binding for binding, _ in runs]
        kept = {name: n for name, n in bindings[0].items() if name in names and all(b[name] == n for b in bindings)}
        known = kept if number[1] % 4 else {}
        return Way(known, TARGETS[number[1] % len(TARGETS)], 1 + number[1] % 3)


def check(number: Number) -> Outcome:
    """Make a graph and judge it in this process."""
    model, runs = generate(*number)
    return judge(model, runs, Way.of(number, model, runs))


def judge(model: onnx.ModelProto, runs: Sequence[Run], way: Way | None = None) -> Outcome:
    """Compile once, and run on all sizes: guarded, then on threads, where the way has any."""
    way = way or Way()
    wants = _wants(model, runs)
    if not any(isinstance(want, list) for want in wants):
        return Outcome("skipped", str(wants[0]), runs=Counter(skipped=len(runs)))
    try:
        with nullcontext() if way.threads else guarded():
            data = model.SerializeToString()
            threads = way.threads or 1
            module = tw.compile(data, way.target, dict(way.known) or None, threads, workers=0, cache=False)
    except REFUSALS as error:
        return Outcome("refused", first_line(error), runs=Counter(refused=len(runs)))
    except Exception as error:
        return Outcome("error", f"{type(error).__name__}: {first_line(error)}")
    modules = [Module(module.program, 1, runner=start_guarded), module] if way.threads else [module]
    outcomes = [_judged_all(model, one, runs, wants) for one in modules]
    return next((outcome for outcome in outcomes if outcome.is_finding), outcomes[0])


def _judged_all(
    model: onnx.ModelProto, module: tw.Module, runs: Sequence[Run], wants: Sequence[list[np.ndarray] | str]
) -> Outcome:
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
