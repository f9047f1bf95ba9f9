"""Measuring: candidates that are right, wrong, crash and never end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from onnx import helper, numpy_helper

from tilewright.core.program import Kernel
from tilewright.core.target import detect_host
from tilewright.dialects import codegen
from tilewright.driver import api
from tilewright.tuning import laboratory as laboratory_module
from tilewright.tuning.laboratory import Laboratory, Prepared
from tilewright.tuning.measuring import bench as bench_module
from tilewright.tuning.measuring import jobs
from tilewright.tuning.measuring.bench import Bench
from tilewright.tuning.measuring.spin import Spin
from tilewright.tuning.task import Task
from tilewright.tuning.tasks import extract_tasks

_KERNEL = "define void @{name}(ptr %args, i64 %lo, i64 %hi, ptr %scratch) {{\n{body}\n}}"


def as_kernel(prepared: Prepared, body: str) -> Kernel:
    """The default's kernel with other code, in LLVM IR."""
    text = _KERNEL.format(name=prepared.task.name, body=body)
    return replace(prepared.default, object=codegen.compile_text(text.encode(), prepared.task.target, 2))


@pytest.fixture(scope="module")
def laboratory(product_task: Task) -> Iterator[Laboratory]:
    with Laboratory(product_task.target, 1) as made:
        yield made


@pytest.fixture(scope="module")
def prepared(laboratory: Laboratory, product_task: Task) -> Prepared:
    [made] = laboratory.prepare([product_task])
    return made


def test_a_default_against_itself_is_right_and_takes_the_same_time(laboratory: Laboratory, prepared: Prepared) -> None:
    found = laboratory.race(prepared, prepared.default, 1.0)
    assert not found.error and len(found.seconds) == len(found.default_seconds) >= 3
    assert prepared.seconds > 0 and all(second > 0 for second in found.seconds)


@pytest.mark.skipif(not detect_host().multiplies_matrices(16), reason="this CPU has no registers of matrices")
def test_kernels_in_registers_of_matrices_are_measured() -> None:
    """A process has to ask Linux for these, or dies of its first such instruction."""
    weight = numpy_helper.from_array(np.ones((256, 256), np.float32), "w")
    x, y = (helper.make_tensor_value_info(name, 1, [128, 256]) for name in "xy")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "net", [x], [y], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10).SerializeToString()
    [task] = extract_tasks(model, options=api.make_options(num_threads=1, records=False), workers=0)
    assert task.default is not None and any(stage.splits for stage in task.default.stages)
    with Laboratory(task.target, 1) as laboratory:
        [prepared] = laboratory.prepare([task])
        assert not laboratory.race(prepared, prepared.default, 1.0).error


def test_a_candidate_is_compiled_and_right(laboratory: Laboratory, prepared: Prepared) -> None:
    assert prepared.task.default is not None
    steps = json.dumps(prepared.task.default.to_json()["steps"])
    [candidate] = laboratory.begin_compiling(prepared.task, [steps]).result()
    assert candidate.kernel is not None and not candidate.error
    assert not laboratory.race(prepared, candidate.kernel, 1.0).error


def test_steps_that_cannot_be_are_refused_in_words(laboratory: Laboratory, prepared: Prepared) -> None:
    good = json.dumps(prepared.task.default.to_json()["steps"]) if prepared.task.default else ""
    bad = json.dumps([["split", "nobody", 4]])
    first, second = laboratory.begin_compiling(prepared.task, [bad, good]).result()
    assert (first.kernel, first.error) == (None, "refused") and "nobody" in first.reason
    assert second.kernel is not None


def test_candidates_are_compiled_one_by_one_and_not_when_nobody_waits(
    laboratory: Laboratory, prepared: Prepared
) -> None:
    assert prepared.task.default is not None
    steps = json.dumps(prepared.task.default.to_json()["steps"])
    compiling = laboratory.begin_compiling(prepared.task, [steps] * 12)
    assert compiling.find(0).kernel is not None and not compiling.done()
    compiling.cancel()
    assert any(future.cancelled() for future in compiling.futures)


_RESULT = "%r = getelementptr ptr, ptr %args, i64 2\n%p = load ptr, ptr %r\n"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("ret void", "result 0 "),  # it writes nothing
        (f"{_RESULT}store float 1.0, ptr %p\nret void", "result 0 "),
        (
            f"{_RESULT}%e = getelementptr i8, ptr %p, i64 {23 * 53 * 4}\nstore i8 1, ptr %e\nret void",
            "behind its result",
        ),
    ],
)
def test_a_wrong_candidate_is_caught(laboratory: Laboratory, prepared: Prepared, body: str, reason: str) -> None:
    found = laboratory.race(prepared, as_kernel(prepared, body), 1.0)
    assert found.error == "wrong" and reason in found.reason and not found.seconds
    assert not laboratory.race(prepared, prepared.default, 1.0).error


def test_a_candidate_that_crashes_costs_itself_alone(laboratory: Laboratory, prepared: Prepared) -> None:
    crashing = as_kernel(prepared, "%p = inttoptr i64 8 to ptr\nstore volatile i64 1, ptr %p\nret void")
    found = laboratory.race(prepared, crashing, 1.0)
    assert found.error == "crash" and "SIGSEGV" in found.reason
    assert not laboratory.race(prepared, prepared.default, 1.0).error


def test_a_candidate_without_an_end_is_ended(
    laboratory: Laboratory, prepared: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(laboratory_module, "_LEAST_SECONDS", 3.0)
    endless = as_kernel(prepared, "br label %a\na:\n%v = load volatile i64, ptr %args\nbr label %a")
    found = laboratory.race(prepared, endless, 1.0)
    assert found.error == "timeout" and "3 s" in found.reason
    monkeypatch.undo()
    assert not laboratory.race(prepared, prepared.default, 1.0).error


def test_weights_lie_in_several_places_where_the_network_has_many(prepared: Prepared) -> None:
    setup = replace(prepared.setup, network_bytes=1 << 20, cpus=())
    own = sum(np.prod([int(n) for n in setup.inputs[i].split("x")[:-1]]) * 4 for i in setup.weights)
    bench = Bench(setup, prepared.default)
    assert len(bench.copies) == min(64, (1 << 20) // own) > 1
    assert len(Bench(replace(setup, network_bytes=0), prepared.default).copies) == 1


def test_benches_of_the_last_kernels_stay_as_far_as_there_is_room(
    prepared: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "_benches", {})
    setups = [replace(prepared.setup, seed=seed, cpus=()) for seed in range(3)]
    for setup in (*setups[:2], setups[0]):
        jobs.time_default(setup, prepared.default)
    assert [bench.setup.seed for bench in jobs._benches.values()] == [1, 0]
    first = next(iter(jobs._benches.values()))
    assert 0 < sum(a.nbytes for copy in first.copies for a in copy) <= setups[0].most_bytes * len(first.copies)
    monkeypatch.setattr(jobs, "_KEPT_BYTES", 2 * setups[0].most_bytes)
    jobs.time_default(setups[2], prepared.default)
    assert [bench.setup.seed for bench in jobs._benches.values()] == [0, 2]
    monkeypatch.setattr(jobs, "_KEPT_BYTES", 0)
    jobs.time_default(setups[1], prepared.default)
    assert [bench.setup.seed for bench in jobs._benches.values()] == [1]


def test_samples_of_slow_kernels_go_over_the_copies_part_by_part(
    prepared: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = replace(prepared.setup, network_bytes=1 << 20, cpus=())
    whole = Bench(setup, prepared.default)
    monkeypatch.setattr(bench_module, "_SAMPLE", 0.0)
    monkeypatch.setattr(bench_module, "_PART", 0.0)
    bench = Bench(setup, prepared.default)
    assert len(bench._parts) == len(bench.copies) > 1 and len(whole._parts) == 1
    turns = [bench.take_turn() % len(bench.copies) for _ in bench.copies]
    assert sorted(turns) == list(range(len(bench.copies)))
    found = bench.race(prepared.default, 1.0)
    assert not found.error and len(found.seconds) >= 5


def test_spins_are_disturbed_seldom() -> None:
    spin = Spin()
    assert sum(spin.run() for _ in range(50)) < 50
