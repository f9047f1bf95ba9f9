"""``cd tests && python -m stress --calls 100000``: threads call five models at once; answers and memory are watched.

The models: of fixed sizes, of open sizes with programs for some, of open sizes alone, with a loop that the runtime
carries out, and with states, of which each thread has sessions. Answers must be the bits that one thread alone gets. Memory is what the process has in RAM, behind the
first tenth of the calls and at the end.
"""

from __future__ import annotations

import argparse
import random
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser

import tilewright as tw

_FLAT_BYTES = 32 << 20  # what memory may grow by
_STATIC = "g (float[64,96] x, float[96,64] w) => (float[64,64] y) { a = MatMul(x, w) y = Softmax(a) }"
_OPEN = "g (float[n,96] x, float[96,64] w) => (float[n,64] y) { a = MatMul(x, w) b = Relu(a) y = Softmax(b) }"
_LOOP = """g (int64 count, float[n] x) => (float[k] y) {
    go = Constant<value = bool {1}> ()
    y = Loop(count, go, x) <body = body (int64 i, bool c, float[p] a) => (bool on, float[q] b) {
        on = Identity(c)
        s = Sin(a)
        b = Concat<axis = 0>(s, s)
    }>
}"""
_STATES = """g (float[n,96] x, float[past,96] past_rows, float[8,96] table)
    => (float[96] y, float[all,96] present_rows, float[8,96] table_out) {
    present_rows = Concat<axis = 0>(past_rows, x)
    zero = Constant<value = int64[1] {0}> ()
    y = ReduceMax<keepdims = 0, axes = [0]>(present_rows)
    at = Constant<value = int64[1, 1] {3}> ()
    rows = Unsqueeze(y, zero)
    table_out = ScatterND<reduction = "add">(table, at, rows)
}"""


@dataclass(frozen=True)
class Case:
    """A module with inputs that it is called on in turn, and its answers to each."""

    module: tw.Module
    inputs: Sequence[Sequence[np.ndarray]]
    answers: Sequence[Sequence[np.ndarray]]

    @staticmethod
    def of(text: str, inputs: Sequence[Sequence[np.ndarray]], **options: Any) -> Case:
        """The case of a model in onnx's textual form."""
        model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')
        module = tw.compile(model, num_threads=2, workers=0, cache=False, **options)
        return Case(module, inputs, [module(*arrays) for arrays in inputs])

    def holds(self, number: int) -> bool:
        """Whether a call on the inputs of this number gives their answer."""
        number %= len(self.inputs)
        made = self.module(*self.inputs[number])
        return all(np.array_equal(a, b) for a, b in zip(made, self.answers[number], strict=True))


@dataclass(frozen=True)
class SessionCase(Case):
    """A module with states: each call is a session on the first of some inputs, which is forked and goes on."""

    @staticmethod
    def of(text: str, inputs: Sequence[Sequence[np.ndarray]], **options: Any) -> SessionCase:
        """The case whose answers are those of one session that runs on all inputs in turn."""
        case = Case.of(text, [], **options)
        session = case.module.session()
        return SessionCase(case.module, inputs, [session.run(arrays) for arrays in inputs])

    def holds(self, number: int) -> bool:
        """Whether all runs up to the input of this number, the last of them on a fork, give their answers."""
        number %= len(self.inputs)
        session = self.module.session()
        made = [session.run(arrays) for arrays in self.inputs[:number]]
        made.append(session.fork().run(self.inputs[number]))
        pairs = zip(made, self.answers, strict=False)
        return all(np.array_equal(a, b) for outputs, wanted in pairs for a, b in zip(outputs, wanted, strict=True))


@dataclass(frozen=True)
class Report:
    """What became of so many calls: wrong answers, errors, and the process's memory behind the first tenth and last."""

    calls: int
    wrong: int
    errors: Sequence[str]
    early_bytes: int
    late_bytes: int
    seconds: float

    @property
    def good(self) -> bool:
        """Whether all answers were right, and memory flat."""
        return not self.wrong and not self.errors and self.late_bytes - self.early_bytes <= _FLAT_BYTES

    def __str__(self) -> str:
        grown = f"memory {self.early_bytes / 2**20:.1f} MiB, at the end {self.late_bytes / 2**20:.1f} MiB"
        bad = f"{self.wrong} wrong answers, {len(self.errors)} errors"
        return "\n".join([f"{self.calls} calls in {self.seconds:.1f} s: {bad}; {grown}", *self.errors[:5]])


def cases() -> list[Case]:
    """The five models."""
    data = np.random.default_rng(0)
    rows = [data.standard_normal((n, 96), np.float32) for n in range(1, 12)]
    w = data.standard_normal((96, 64), np.float32)
    loops = [(np.array(count), data.standard_normal(n, np.float32)) for count in (1, 3) for n in (2, 5)]
    return [
        Case.of(_STATIC, [(data.standard_normal((64, 96), np.float32), w) for _ in range(3)]),
        Case.of(_OPEN, [(x, w) for x in rows], specialize=[{"x": (4, 96)}]),
        Case.of(_OPEN, [(x, w) for x in rows]),
        Case.of(_LOOP, loops),
        SessionCase.of(_STATES, [(x,) for x in rows]),
    ]


def stress(calls: int, threads: int, made: Sequence[Case]) -> Report:
    """Make so many calls in all, from so many threads, each of which calls the models in an order of its own."""
    share, errors = calls // threads, []
    wrong, memory = [0] * threads, [0] * threads

    def work(thread: int) -> None:
        order = random.Random(thread)
        for number in range(share):
            if number == share // 10:
                memory[thread] = resident_bytes()
            try:
                wrong[thread] += not order.choice(made).holds(order.randrange(1 << 20))
            except Exception as error:
                errors.append(f"{type(error).__name__}: {error}")

    begin = time.perf_counter()
    workers = [threading.Thread(target=work, args=(thread,)) for thread in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    seconds = time.perf_counter() - begin
    return Report(share * threads, sum(wrong), errors, max(memory), resident_bytes(), seconds)


def resident_bytes() -> int:
    """What this process has in RAM."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def main() -> int:
    """Print the report; the exit code is 1 unless it is good."""
    cli = argparse.ArgumentParser(description="Call five models from many threads.")
    cli.add_argument("--calls", type=int, default=100_000, help="how many in all (100000)")
    cli.add_argument("--threads", type=int, default=8, help="from how many threads (8)")
    args = cli.parse_args()
    report = stress(args.calls, args.threads, cases())
    print(report)
    return int(not report.good)


if __name__ == "__main__":
    sys.exit(main())
