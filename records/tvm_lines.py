"""Trials as lines of TVM's two tuners, AutoTVM and auto_scheduler, and back.

Both formats name a task, knobs or steps of loops, and times. What they have no place for, ours among it, stands in a
knob (a pragma) that is called ``tilewright``: so a line of ours is read back whole. Of other lines the times and errors
are read; their knobs are kept as steps that no kernel here takes.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator
from typing import Any

from ..core.cpus import ARCHITECTURES
from ..core.errors import RecordError
from .lines import parse_line
from .loop_names import LoopNames
from .trial import LONGEST_TEXT, Trial

TVM_VERSION = "0.19.0"  # whose formats these are
FOREIGN = "TVM "  # what the versions of trials of others begin with
_OWN = "tilewright"
_FAILED = {"autotvm": 1e9, "auto_scheduler": 1e10}  # what stands for the seconds of a trial that failed

# Of TVM's numbers: instantiation, compilation (host, device), run time, a wrong answer, time (build, run), unknown.
_ERRORS = {"": 0, "refused": 1, "compile": 2, "crash": 4, "wrong": 5, "timeout": 7}
_NUMBERED = {0: "", 1: "refused", 2: "compile", 3: "compile", 4: "crash", 5: "wrong", 6: "timeout", 7: "timeout"}
_IN_RESULT = ("kernel", "seconds", "took", "time")  # what has a place of its own


def write_autotvm(trial: Trial) -> str:
    """A trial as a line of AutoTVM's log."""
    entity = [*_knobs(trial), [_OWN, "ot", _own_part(trial)]]
    index = int(hashlib.sha256(trial.steps.encode()).hexdigest()[:7], 16)
    return json.dumps({
        "input": [_target_text(trial), trial.kernel, _task_extents(trial), {}],
        "config": {"index": index, "code_hash": None, "entity": entity},
        "result": _result(trial, "autotvm"),
        "version": 0.2,
        "tvm_version": TVM_VERSION,
    })  # fmt: skip


def read_autotvm(line: str) -> Trial:
    """The trial of a line of AutoTVM's log; RecordError for what is none."""
    data = _read_object(line, ("input", "config", "result"))
    target, task, arguments = _take_list(data["input"], 3, "input")
    entity = data["config"].get("entity") if isinstance(data["config"], dict) else None
    if not isinstance(entity, list) or not isinstance(task, str):
        raise RecordError("its 'input' names no task, or its 'config' has no 'entity'")
    own = next((knob[2] for knob in entity if isinstance(knob, list) and len(knob) == 3 and knob[0] == _OWN), None)
    name = task if own else f"{task}({', '.join(map(repr, arguments if isinstance(arguments, list) else []))})"
    return _read_trial(data["result"], own, name, target, entity, data.get("tvm_version"))


def write_auto_scheduler(trial: Trial) -> str:
    """A trial as a line of auto_scheduler's log."""
    workload = json.dumps([trial.kernel, *_task_extents(trial)])
    steps = [*_loop_steps(trial), ["PR", 0, 0, f"{_OWN}${json.dumps(_own_part(trial))}"]]
    vectors = re.match(r"[^-]+-(\d+)-", trial.target)
    hardware = [trial.threads, int(vectors[1]) // 8 if vectors else 0, 64, 0, 0, 0, 0, 0]
    task = [workload, _target_text(trial), hardware, "", 1, []]
    return json.dumps({"i": [task, [[], steps]], "r": _result(trial, "auto_scheduler"), "v": "v0.6"})


def read_auto_scheduler(line: str) -> Trial:
    """The trial of a line of auto_scheduler's log; RecordError for what is none."""
    data = _read_object(line, ("i", "r"))
    task, state = _take_list(data["i"], 2, "i")
    workload, target = _take_list(task, 2, "i")
    _, steps = _take_list(state, 2, "i")
    if not isinstance(workload, str) or not isinstance(steps, list):
        raise RecordError("its 'i' has no workload, or no steps")
    begin = f"{_OWN}$"
    pragmas = (step[3] for step in steps if isinstance(step, list) and len(step) == 4 and step[0] == "PR")
    text = next((text for text in pragmas if isinstance(text, str) and text.startswith(begin)), None)
    own = None if text is None else parse_line(text.removeprefix(begin))
    name = _task_name(workload) if own else workload
    return _read_trial(data["r"], own, name, target, steps, data.get("v"))


def _read_object(line: str, names: tuple[str, ...]) -> dict[str, Any]:
    data = parse_line(line)
    if not isinstance(data, dict) or any(name not in data for name in names):
        raise RecordError(f"it is no object with {', '.join(map(repr, names))}")
    return data


def _take_list(value: Any, count: int, name: str) -> list[Any]:
    """The first entries of a list; RecordError where there are not so many."""
    if not isinstance(value, list) or len(value) < count:
        raise RecordError(f"its '{name}' is not a list of {count} entries or more")
    return value[:count]


def _task_name(workload: str) -> str:
    """The name that a workload's key begins with."""
    key = parse_line(workload)
    if isinstance(key, list) and key and isinstance(key[0], str):
        return key[0]
    raise RecordError("its workload has no name")


def _read_trial(result: Any, own: Any, name: str, target: Any, knobs: list[Any], version: Any) -> Trial:
    """The trial of a line's parts; ``own`` is what we have written of ours, None where another has written the line."""
    costs, error, took, when = _take_list(result, 4, "result")
    seconds = [] if error else costs
    timed = {"kernel": name[:LONGEST_TEXT], "seconds": seconds, "took": took, "time": when}
    if own is not None:
        if not isinstance(own, dict):
            raise RecordError(f"its '{_OWN}' is no object")
        return Trial.from_json({**own, **timed, **({"default_seconds": []} if error else {})})
    kind = _NUMBERED.get(error, "crash") if isinstance(error, int) else "crash"
    said = version if isinstance(version, str) else "of unknown version"
    try:
        steps = json.dumps(knobs)
    except RecursionError:
        raise RecordError("its knobs are nested too deeply") from None
    facts = {"target": target, "threads": _count_threads(target), "values": "{}", "steps": steps}
    return Trial.from_json({**facts, **timed, "error": kind, "version": f"{FOREIGN}{said}"[:LONGEST_TEXT]})


def _count_threads(target: Any) -> int:
    found = re.search(r"-num-cores=(\d{1,5})\b", target) if isinstance(target, str) else None
    return int(found[1]) if found else 0


def _own_part(trial: Trial) -> dict[str, Any]:
    """What of a trial the formats have no place for."""
    return {name: value for name, value in trial.to_json().items() if name not in _IN_RESULT and value not in ("", ())}


def _result(trial: Trial, kind: str) -> list[Any]:
    costs = list(trial.seconds) or [_FAILED[kind]]
    return [costs, _ERRORS[trial.error], trial.took, trial.time]


def _target_text(trial: Trial) -> str:
    """The target in TVM's words."""
    known = ARCHITECTURES.get(trial.target.partition("-")[0])
    return f"llvm -keys=cpu -mtriple={known.triple if known else 'unknown'} -num-cores={trial.threads}"


def _task_extents(trial: Trial) -> list[int | str]:
    """The extents of a kernel's axes and sums, which say which task it is."""
    return [extent for _, extent in LoopNames.of(trial.values).axes]


def _knobs(trial: Trial) -> Iterator[list[Any]]:
    """The steps as AutoTVM's knobs: splits, orders, annotations, and others."""
    loops, taken = LoopNames.of(trial.values), set()
    for name, *arguments in _list_steps(trial.steps):
        for knob in _knob(loops, name, arguments):
            number = 2
            while (label := knob[0] if number == 2 else f"{knob[0]} {number}") in taken or label == _OWN:
                number += 1
            taken.add(label)
            yield [label, *knob[1:]]
        loops.apply(name, arguments)


def _knob(loops: LoopNames, name: str, arguments: list[Any]) -> list[list[Any]]:
    named = " ".join(map(str, (name, *arguments[:1])))
    if name == "split" and len(arguments) == 2:
        return [[named, "sp", [-1, arguments[1]]]]
    if name == "tile" and len(arguments) == 4:
        return [[f"split {arguments[i]}", "sp", [-1, arguments[i + 1]]] for i in (0, 2)]
    if name == "reorder":
        return [[name, "re", loops.find_order(arguments)]]
    if name in ("unroll", "vectorize", "parallel") and len(arguments) == 1:
        return [[named, "an", ["vec" if name == "vectorize" else name]]]
    return [[named, "ot", arguments]]


def _loop_steps(trial: Trial) -> Iterator[list[Any]]:
    """The steps as auto_scheduler's, of loops by their numbers; what it has no word for is left out."""
    loops = LoopNames.of(trial.values)
    result = loops.stage("result")
    for name, *arguments in _list_steps(trial.steps):
        first = loops.find(arguments[0]) if arguments else -1
        if name == "split" and len(arguments) == 2 and first >= 0:
            yield ["SP", result, first, loops.extent(arguments[0]), [arguments[1]], 1]
        elif name == "tile" and len(arguments) == 4:
            yield from _tile_steps(loops, result, arguments)
            continue
        elif name == "reorder" and (order := loops.find_order(arguments)):
            yield ["RE", result, order]
        elif name == "fuse" and first >= 0:
            yield ["FU", result, [loops.find(loop) for loop in arguments]]
        elif name in ("parallel", "vectorize") and first >= 0:
            yield ["AN", result, first, 3 if name == "parallel" else 2]
        elif name == "unroll" and first >= 0:
            whole = len(arguments) == 1 or not arguments[1]
            yield ["AN", result, first, 1] if whole else ["PR", result, first, f"auto_unroll_max_step${arguments[1]}"]
        elif name in ("cache_read", "cache_split", "cache_write") and arguments:
            stage = loops.stage(arguments[0])
            yield ["CHW", stage, "local"] if name == "cache_write" else ["CHR", stage, "local", [result]]
        elif name == "compute_at" and len(arguments) == 2 and (at := loops.find(arguments[1])) >= 0:
            yield ["CA", loops.stage(arguments[0]), result, at]
        loops.apply(name, arguments)


def _tile_steps(loops: LoopNames, result: int, arguments: list[Any]) -> Iterator[list[Any]]:
    """A tile as two splits and an order, which are applied."""
    for i in (0, 2):
        if (place := loops.find(arguments[i])) >= 0:
            yield ["SP", result, place, loops.extent(arguments[i]), [arguments[i + 1]], 1]
        loops.apply("split", arguments[i : i + 2])
    inner = [f"{arguments[i]}.1" for i in (0, 2) if loops.find(f"{arguments[i]}.1") >= 0]
    places = loops.places
    yield ["RE", result, [*(at for loop, at in places.items() if loop not in inner), *map(places.__getitem__, inner)]]
    loops.move_inside(inner)


def _list_steps(text: str) -> Iterator[list[Any]]:
    """The steps of a schedule's JSON that are any."""
    steps = parse_line(text)
    for step in steps if isinstance(steps, list) else ():
        if isinstance(step, list) and step and isinstance(step[0], str):
            yield step


def is_foreign(trial: Trial) -> bool:
    """Whether another tool has measured a trial, whose knobs mean nothing here."""
    return trial.version.startswith(FOREIGN) and math.isinf(trial.ratio)
