"""Random models: 304 that stay the same, and what the generator and the comparison promise."""

from __future__ import annotations

import os
import subprocess
import sys
from random import Random

import numpy as np
import onnx
import pytest
from fuzz import damaged, run
from fuzz.generator import TABLE, generate
from fuzz.graph import Graph, Rejected

import tilewright as tw
from tilewright.tools import networks
from tilewright.tools.debugging.verdict import Verdict

EACH = 8
MUTANTS = 12


@pytest.mark.parametrize(
    "first", [EACH, *(pytest.param(n, marks=pytest.mark.slow) for n in range(0, 304, EACH) if n != EACH)]
)
def test_random_models_agree_with_the_oracles(first):
    found = run.verdicts([(0, first + i) for i in range(EACH)], processes=1, seconds=300)
    wrong = [
        f"{verdict.kind}: {verdict.reason} (python -m fuzz.run --seed {seed} --first {index} --count 1)"
        for (seed, index), verdict in found
        if verdict.fails
    ]
    assert not wrong, "\n".join(wrong)


def test_the_same_number_gives_the_same_model():
    (one, inputs), (same, again) = generate(3, 14), generate(3, 14)
    assert one == same and inputs.keys() == again.keys()
    assert all(np.array_equal(inputs[name], again[name], equal_nan=inputs[name].dtype.kind == "f") for name in inputs)
    assert generate(4, 14)[0] != one


def test_the_order_of_sets_does_not_matter():
    code = "import fuzz.generator as f; print([f.generate(0, i)[0].SerializeToString() for i in range(20)])"
    ways = [{**os.environ, "PYTHONHASHSEED": n, "PYTHONPATH": os.pathsep.join(sys.path)} for n in "12"]
    one, other = (
        subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=True) for env in ways
    )
    assert one.stdout == other.stdout


def test_models_are_valid():
    for index in range(20):
        onnx.checker.check_model(generate(1, index)[0], full_check=True)


def test_text_is_no_image():
    model, _ = generate(20261123, 13889)  # comes by strings where a Resize looks for what it may resize
    onnx.checker.check_model(model)
    assert model.graph.node


def test_a_model_of_optionals_alone_goes_on():
    assert generate(20261123, 14872)[0].graph.output


@pytest.mark.parametrize("op", TABLE)
def test_every_entry_makes_a_node(op):
    assert any(makes_a_node(op, seed) for seed in range(200))


def makes_a_node(op: str, seed: int) -> bool:
    """Whether what an entry draws for a seed is no proposal that it rejects."""
    graph = Graph(Random(seed))
    try:
        TABLE[op](graph)
    except Rejected:
        return False
    return bool(graph.nodes)


def test_mutants_of_models_harm_nobody():
    found = list(damaged.verdicts([(0, i) for i in range(MUTANTS)], processes=1, seconds=60))
    wrong = [
        f"{verdict.kind}: {verdict.reason} (python -m fuzz.run --bytes --seed {seed} --first {index} --count 1)"
        for (seed, index), verdict in found
        if verdict.fails
    ]
    assert not wrong, "\n".join(wrong)
    assert {"agrees", "refused"} <= {verdict.kind for _, verdict in found}


def test_the_same_number_gives_the_same_mutant():
    assert damaged.mutant((5, 3)) == damaged.mutant((5, 3)) != damaged.mutant((5, 4))


def test_one_mutant_of_four_is_of_a_network(monkeypatch):
    monkeypatch.setattr(damaged, "mutate", lambda base, other, random: base)
    names = [onnx.ModelProto.FromString(damaged.mutant((0, i))).graph.name for i in range(24)]
    assert names[::4] == list(networks.SMALL) and not set(names[1::4]) & set(networks.SMALL)


@pytest.mark.parametrize(
    ("outcome", "kind"),
    [
        (tw.ModelError("why"), "refused"),
        (tw.CompileError("internal error in a pass"), "internal"),
        (tw.CompileError("out of memory in the import"), "refused"),
        (ValueError("why"), "error"),
    ],
)
def test_what_becomes_of_a_mutant(outcome, kind, monkeypatch):
    def fail(data):
        raise outcome

    monkeypatch.setattr(damaged, "_compiled", fail)
    verdict = damaged.check((0, 0))
    assert verdict.kind == kind and verdict.fails == (kind != "refused")


def test_a_mutant_that_kills_or_hangs_fails(monkeypatch):
    lost = [run.Lost("died with exit code -11"), run.Lost("no answer in 60 s")]
    monkeypatch.setattr(damaged, "call_all", lambda function, numbers, processes, seconds: lost)
    found = [verdict for _, verdict in damaged.verdicts([(0, 0), (0, 1)], 1, 60)]
    assert [verdict.kind for verdict in found] == ["crash", "hang"] and all(verdict.fails for verdict in found)


def test_who_dies_without_us_is_the_oracle(monkeypatch):
    class Dead:
        def __init__(self, function, seconds):
            self.function = function

        def call(self, argument):
            return run.Lost("died") if self.function is run._generated else Verdict("agrees")

    monkeypatch.setattr(run, "Child", Dead)
    monkeypatch.setattr(
        run, "call_all", lambda function, numbers, processes, seconds: [run.Lost("died")] * len(numbers)
    )
    [(number, verdict)] = run.verdicts([(0, 0)], 1, 1)
    assert (number, verdict.kind) == ((0, 0), "unknown")


def test_a_run_goes_on_where_it_was_stopped(tmp_path, monkeypatch, capsys):
    judged = []

    def verdicts(numbers, processes, seconds):
        for number in numbers:
            judged.append(number[1])
            yield number, Verdict("disputed", "why") if number[1] == 1 else Verdict("agrees")
            if len(judged) == 3:
                raise KeyboardInterrupt

    monkeypatch.setattr(run, "verdicts", verdicts)
    monkeypatch.setattr(sys, "argv", ["run", "--seed", "5", "--count", "6", "--output", str(tmp_path), "--resume"])
    with pytest.raises(KeyboardInterrupt):
        run.main()
    assert run.main() == 0 and judged == list(range(6))
    assert "5 agrees, 1 disputed of 6" in capsys.readouterr().out
