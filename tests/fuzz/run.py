"""``cd tests && python -m fuzz.run --count N --seed S``: random models, ours against onnxruntime and onnx's reference.

Three in eight are compiled with open extents, whose runs are guarded. Each mismatch is reduced and written to a folder, ``SEED-INDEX.onnx`` with
``SEED-INDEX_inputs.npz``, which ``tilewright reduce`` reads too. The same numbers give the same models. What is known is
kept in ``SEED.json`` of that folder, from which ``--resume`` goes on.

With ``--bytes`` these models and the zoo's are damaged first, and are asked no more of than to harm nobody
(``damaged.py``); ``--artifacts`` does so with compiled programs (``artifacts.py``), ``--pt2`` with files of exported
programs of PyTorch's (``programs.py``).
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from fuzz import artifacts, damaged
from fuzz.generator import generate
from fuzz.record import Record
from parallel import call_all
from rich.console import Console
from rich.progress import track

from tilewright.tools.debugging.isolation import Child, Lost
from tilewright.tools.debugging.reducer import ModelCase
from tilewright.tools.debugging.verdict import (
    Verdict,
    answer,
    judge,
    run_dynamic,
    run_independent,
    run_ours,
    run_shared,
)
from tilewright.tools.reduce import shrink, write

Number = tuple[int, int]  # seed, index


def main() -> int:
    """Run the models, print the counts; the exit code is 1 for a mismatch."""
    args = _arguments()
    prefix = f"{args.kind}-" if args.kind != "graphs" else ""
    path = args.output / f"{prefix}{args.seed}.json"
    record = Record.read(path) if args.resume else Record(path, args.first)
    numbers = [(args.seed, i) for i in range(record.next, args.first + args.count)]
    console = Console(stderr=True)
    judges = {"bytes": damaged.verdicts, "artifacts": artifacts.verdicts, "pt2": _of_programs}
    judge_all = judges.get(args.kind, verdicts)
    answers = judge_all(numbers, args.processes, _seconds(args))
    try:
        for number, verdict in track(answers, "models", len(numbers), console=console, disable=not console.is_terminal):
            name = f"{prefix}{number[0]}-{number[1]}"
            record.add(number[1], name, verdict)
            if verdict.fails:
                print(f"{name}: {verdict.kind}: {verdict.reason}", flush=True)
                print(f"  {_saved(number, verdict, args.output / name, args)}", flush=True)
            elif args.verbose and verdict.kind != "agrees":
                print(f"{name}: {verdict.kind}: {verdict.reason}", flush=True)
    finally:
        record.write()
    print(record.summary())
    return int(record.fails)


def programs() -> ModuleType:
    """The module of that name, which imports torch."""
    from fuzz import programs

    return programs


def _of_programs(numbers: Sequence[Number], processes: int, seconds: float) -> Iterator[tuple[Number, Verdict]]:
    return programs().verdicts(numbers, processes, seconds)


def _saved(number: Number, verdict: Verdict, path: Path, args: argparse.Namespace) -> str:
    if args.kind == "artifacts":
        return artifacts.save(number, verdict, path)
    if args.kind == "pt2":
        return programs().save(number, verdict, path.with_name(f"{path.name}.pt2"))
    model = path.with_name(f"{path.name}.onnx")
    if args.kind == "bytes":
        return damaged.save(number, verdict, model)
    return save(number, verdict, model, _seconds(args), args.budget)


def _seconds(args: argparse.Namespace) -> float:
    return args.seconds or (300.0 if args.kind == "graphs" else 60.0)


def _arguments() -> argparse.Namespace:
    cli = argparse.ArgumentParser(description="Compare random models with onnxruntime and onnx's reference.")
    kinds = cli.add_mutually_exclusive_group()
    kinds.add_argument("--bytes", **_kind("bytes", "damage the models' files: nothing may die, hang or be unclear"))
    kinds.add_argument("--artifacts", **_kind("artifacts", "break compiled programs in place of models"))
    kinds.add_argument("--pt2", **_kind("pt2", "break files of exported programs of PyTorch's"))
    cli.set_defaults(kind="graphs")
    cli.add_argument("--count", type=int, default=1000, help="how many (1000)")
    cli.add_argument("--seed", type=int, default=0, help="what they are drawn from (0)")
    cli.add_argument("--first", type=int, default=0, help="the number of the first one (0)")
    cli.add_argument("--resume", action="store_true", help="go on behind the last one that the record in OUTPUT knows")
    cli.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)), help="how many at a time")
    cli.add_argument("--seconds", type=float, help="the most that one may take (300; of what is broken 60)")
    cli.add_argument("--budget", type=float, default=120.0, help="seconds to reduce a mismatch (120)")
    cli.add_argument("--output", type=Path, default=Path("../build/fuzz"), help="folder for mismatches (../build/fuzz)")
    cli.add_argument("--verbose", action="store_true", help="also print what is refused, disputed or unknown")
    return cli.parse_args()


def _kind(kind: str, text: str) -> dict[str, Any]:
    """An option that says what is judged."""
    return {"action": "store_const", "dest": "kind", "const": kind, "help": text}


def verdicts(numbers: Sequence[Number], processes: int, seconds: float) -> Iterator[tuple[Number, Verdict]]:
    """What becomes of each model, made and run in child processes."""
    for number, found in zip(numbers, call_all(check, numbers, processes, seconds), strict=True):
        yield number, _whose(number, found, seconds) if isinstance(found, Lost) else found


def check(number: Number) -> Verdict:
    """Make a model and judge it in this process."""
    model, inputs = generate(*number)
    return judge(model, inputs, answer, second_opinion=True, run=_way(number))


def _way(number: Number) -> Callable[[bytes, Mapping[str, np.ndarray]], list[np.ndarray]]:
    """How a model is compiled: of three in eight extents are open: some of them, all, and such that equal ones are the
    same."""
    return {3: run_dynamic, 5: run_independent, 7: run_shared}.get(number[1] % 8, run_ours)


def _whose(number: Number, lost: Lost, seconds: float) -> Verdict:
    """Who died or hung: the oracle does so too, and it makes the model."""
    made = Child(_generated, seconds).call(number)
    if isinstance(made, Lost):
        return Verdict("unknown", f"the oracle {made.reason}")
    model, inputs = made
    verdict = judge(model, inputs, Child(answer, seconds).call, second_opinion=True, run=_way(number))
    return verdict if verdict.kind != "agrees" else Verdict("hang", f"with what came before it: {lost.reason}")


def _generated(number: Number) -> tuple:
    return generate(*number)


def save(number: Number, verdict: Verdict, path: Path, seconds: float, budget: float) -> str:
    """Reduce a mismatch and write it; says what is left of it."""
    made = Child(_generated, seconds).call(number)
    if isinstance(made, Lost):
        return f"not reduced: {made.reason}"
    model, inputs = made
    ask, run = Child(answer, seconds).call, _way(number)
    case, last = ModelCase(model, inputs), verdict
    if judge(model, inputs, ask, second_opinion=True, run=run).alike(verdict):
        case, last = shrink(model, inputs, verdict, ask, budget=budget, second_opinion=True, run=run)
    path.parent.mkdir(parents=True, exist_ok=True)
    write(case, path)
    opened = "" if run is run_ours else " (open extents)"
    return f"{path}{opened}: {', '.join(node.op_type for node in case.nodes)}: {last.reason}"


if __name__ == "__main__":
    sys.exit(main())
