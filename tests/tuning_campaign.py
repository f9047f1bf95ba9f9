"""``cd tests && python -m tuning_campaign --trials 1000 --kills 20``: a long search, and searches that are killed.

The first is one process that makes so many trials of small kernels. Its memory, and that of the processes that compile
and measure for it, is at the end what it was after a fifth of the trials, and no process outlives it. The others share
one file of records and are killed at random moments, a quarter of them before they measure: what was measured is as it
was, nothing is measured twice, and no process stays.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper
from process_memory import private

import tilewright as tw
from tilewright.records.database import Database
from tilewright.records.trial import Trial
from tilewright.tuning.session import Tuning

_FLAT_BYTES = 32 << 20  # what the memory of the processes that are there all the time may grow by
_EARLY = 0.2  # of the trials, after which memory is looked at first: each kernel has its arrays by then
_STEPS = 5  # looks at memory
_PATIENCE = 30.0  # seconds that workers have to notice that nobody needs them
_EARLY_KILLS, _LATEST = 0.25, 6.0  # of the kills those before a first trial, and seconds to them and behind a trial
_SEARCH = """
import sys
import tilewright as tw
if __name__ == "__main__":
    tw.tune(sys.argv[1], num_threads=1, trials=int(sys.argv[3]), records=sys.argv[2], search="random")
"""


def main() -> int:
    """Run both, print the figures; the exit code is 1 where something is not as it should be."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--search", nargs=2, metavar=("MODEL", "RECORDS"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.search:
        model, records = given.search
        return search_long(model, records, given.trials)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(make_network())
        faults = [*check_long_search(path, given.trials), *check_kills(path, given.kills, random.Random(given.seed))]
    print("\n".join(faults) or "nothing was lost, repeated or left behind")
    return int(bool(faults))


def make_network() -> bytes:
    """Three products of small matrices, whose kernels are far from their bounds."""
    data = np.random.default_rng(0)
    sizes = (83, 117, 53, 141)
    weights = [
        numpy_helper.from_array(data.standard_normal(shape, np.float32) / 8, f"w{number}")
        for number, shape in enumerate(pairwise(sizes))
    ]
    nodes = [helper.make_node("MatMul", [f"x{n}", f"w{n}"], [f"m{n}"]) for n in range(len(weights))]
    nodes += [helper.make_node("Relu", [f"m{n}"], [f"x{n + 1}"]) for n in range(len(weights))]
    x, y = (
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [61, size])
        for name, size in (("x0", sizes[0]), (f"x{len(weights)}", sizes[-1]))
    )
    nodes.sort(key=lambda node: (node.output[0][1:], node.op_type))
    graph = helper.make_graph(nodes, "net", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10).SerializeToString()


def check_long_search(model: Path, trials: int) -> Iterator[str]:
    """What is wrong with a search of so many trials, in a process of its own, which looks at its memory."""
    command = [sys.executable, "-m", "tuning_campaign", "--trials", str(trials)]
    process = subprocess.Popen(
        [*command, "--search", str(model), str(model.with_name("long.sqlite"))], start_new_session=True
    )
    if process.wait():
        yield f"a search of {trials} trials: exit code {process.returncode}"
    yield from _wait_for_end(process.pid, f"a search of {trials} trials")


def search_long(model: str, records: str, trials: int) -> int:
    """Search, and print the memory after each part of the trials; 1 where it grows."""
    seen: dict[int, dict[int, int]] = {}
    step, began = max(trials // _STEPS, 1), time.monotonic()

    def look(tuning: Tuning) -> None:
        used = tuning.budget.used_trials
        if used and used % step == 0 and used not in seen:
            seen[used] = memory_of_session()
            print(f"{used} trials in {time.monotonic() - began:.0f} s: {describe_memory(seen[used])}", flush=True)

    result = tw.tune(model, num_threads=1, trials=trials, records=records, search="random", progress=look)
    print(f"{result.trials} trials, then the network, {time.monotonic() - began:.0f} s: ended as {result.end}")
    first, last = seen.get(max(round(trials * _EARLY), 1)), seen.get(trials)
    if first is None or last is None:
        print(f"it made {result.trials} trials, not {trials}")
        return 1
    grown = sum(last[pid] - first[pid] for pid in first.keys() & last.keys())
    print(f"memory grew by {grown / 2**20:.1f} MiB")
    return int(grown > _FLAT_BYTES)


def list_session(leader: int) -> list[int]:
    """The processes of a session that have not ended, by number."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split() if entry.name.isdigit() else []
        except OSError:  # it has ended meanwhile
            continue
        if fields and int(fields[3]) == leader and fields[0] != "Z":
            found.append(int(entry.name))
    return sorted(found)


def memory_of_session() -> dict[int, int]:
    """Bytes that only one of them has, of each process of this one's session."""
    found = {}
    for pid in list_session(os.getsid(0)):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            found[pid] = private(pid)
    return found


def describe_memory(sizes: Mapping[int, int]) -> str:
    """The processes' memory in words."""
    return f"{len(sizes)} processes, {' + '.join(f'{size / 2**20:.1f}' for size in sizes.values())} MiB"


def check_kills(model: Path, kills: int, draw: random.Random) -> Iterator[str]:
    """What is wrong after searches that share records are killed at random moments, and one goes on to its end."""
    script, records = model.with_name("search.py"), model.with_name("killed.sqlite")
    script.write_text(_SEARCH)
    known: dict[tuple[str, str], Trial] = {}
    for number in range(kills):
        process = subprocess.Popen(
            [sys.executable, str(script), str(model), str(records), "100000"], start_new_session=True
        )
        began, early = time.monotonic(), draw.random() < _EARLY_KILLS
        while not early and process.poll() is None and len(read_trials(records)) == len(known):
            time.sleep(0.2)
        time.sleep(draw.uniform(0, _LATEST))
        ended = process.poll() is not None
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        what = f"kill {number + 1} after {time.monotonic() - began:.1f} s"
        if ended:
            yield f"{what}: it had ended with code {process.returncode}"
        yield from _wait_for_end(process.pid, what)
        now = read_trials(records)
        print(f"{what}: {len(now)} trials, {len(now) - len(known)} of them new", flush=True)
        yield from (f"{what}: {fault}" for fault in compare_trials(known, now))
        known = now


def compare_trials(before: Mapping[tuple[str, str], Trial], now: Mapping[tuple[str, str], Trial]) -> Iterator[str]:
    """The trials that were there before and are not as they were: lost, or measured again."""
    for key, trial in before.items():
        if key not in now:
            yield f"a trial of '{key[0]}' is lost"
        elif now[key] != trial:
            yield f"a trial of '{key[0]}' was made twice"


def read_trials(records: Path) -> dict[tuple[str, str], Trial]:
    """The trials of a file, by kernel and schedule; none where there is no file yet."""
    try:
        with Database.open(records, readonly=True) as database:
            return {(trial.kernel, trial.steps): trial for trial in database.trials()}
    except tw.TilewrightError:
        return {}


def _wait_for_end(leader: int, what: str) -> Iterator[str]:
    """Wait until no process of a session is left; say which is after a while, and end it."""
    end = time.monotonic() + _PATIENCE
    while (left := list_session(leader)) and time.monotonic() < end:
        time.sleep(0.2)
    for pid in left:
        yield f"{what}: process {pid} is left"
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
