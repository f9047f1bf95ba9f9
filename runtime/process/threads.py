"""How many threads to use, and the one OpenMP runtime of the process."""

from __future__ import annotations

import ctypes
import functools
import math
import os
from collections.abc import Iterator
from pathlib import Path

from ...core.errors import CompileError
from .deadline import Deadline

# Runtimes that have LLVM's entry points (__kmpc_fork_call ...). GNU's libgomp has not, and may stay beside one of them.
_RUNTIMES = ("libomp.so", "libiomp5.so")

# All programs of the process take this lock before they start a team: see tw_parallel_for in passes/lower/entry.mlir.
_TEAM_LOCK = ctypes.c_int32(0)
# A child that is forked during a call has the lock, but not the thread that would give it back.
os.register_at_fork(after_in_child=lambda: setattr(_TEAM_LOCK, "value", 0))


def team_lock() -> int:
    """Address of the process-wide lock word of the thread team."""
    return ctypes.addressof(_TEAM_LOCK)


# int64 tw_run_calls(int64 count, calls, bases of words, offsets of words, int64 most, bases, scratch, context,
#                    int64 nanoseconds)
_RUN_CALLS = ctypes.CFUNCTYPE(
    ctypes.c_int64,
    ctypes.c_int64,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_int64,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_int64,
)
CALL = (
    ctypes.c_int64 * 5
)  # address, number of words, extent, pieces (0: this thread does all), scratch bytes of a thread
# Code comes back to Python so often: signals (Ctrl-C) are handled then.
_SECONDS = 0.05


class Account(ctypes.Structure):
    """The context of a program for ``tw_parallel_for``: what its team of threads has gained; times in nanoseconds.

    credit: what it has gained of late; less than 0 while one thread does all, as it has lost some.
    end_time: when its last kernel ended, by the monotonic clock; 0 before the first.
    waking_cost: what the threads' last waking has cost, which the credit does not have yet: at most 0.
    caution: how many times its loss one thread computes before the team is tried again. 0 at first and once the credit
        is full, then 1, 4 and 16, one after each loss.
    """

    _fields_ = (
        ("threads", ctypes.c_int32),
        ("lock", ctypes.c_void_p),
        ("credit", ctypes.c_int64),
        ("end_time", ctypes.c_int64),
        ("waking_cost", ctypes.c_int64),
        ("caution", ctypes.c_int64),
    )


class Team:
    """Threads that share the steps of kernels, which the ``tw_run_calls`` at an address calls."""

    def __init__(self, address: int, threads: int) -> None:
        self.threads = threads
        self._run = _RUN_CALLS(address)
        self.account = Account(threads, team_lock(), 0, 0, 0, 0)
        self._address = ctypes.addressof(self.account)

    def run_calls(
        self,
        count: int,
        calls: int,
        which: int,
        offsets: int,
        most: int,
        bases: int,
        scratch: int,
        deadline: Deadline | None = None,
    ) -> None:
        """Make the calls of a table (rows of ``CALL``) in order; all but ``count`` and ``most`` are addresses.

        A call's words follow those of the call before, ``most`` at most: each is one ``which`` of the ``bases``, and an
        offset to it. ctypes lets go of the interpreter meanwhile. A signal's exception, or TimeoutError behind the
        ``deadline``, ends the run between two calls.
        """
        while count:
            seconds = _SECONDS if deadline is None else min(_SECONDS, deadline.check())
            made = self._run(
                count, calls, which, offsets, most, bases, scratch, self._address, int(seconds * 1_000_000_000)
            )
            count -= made
            if count:
                skipped = 8 * sum(row[1] for row in (CALL * made).from_address(calls))
                calls, which, offsets = calls + made * ctypes.sizeof(CALL), which + skipped, offsets + skipped


def usable_cpus() -> int:
    """The number of CPUs that this process may use: its affinity, and its control groups' quotas rounded up."""
    quotas = [math.ceil(quota) for folder in _cgroup_folders(Path("/sys/fs/cgroup")) for quota in _quota(folder)]
    return max(1, min([len(os.sched_getaffinity(0)), *quotas]))


def default_threads() -> int:
    """The threads of a program that nobody has given a number: one for each usable CPU, at most OMP_NUM_THREADS."""
    wanted = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()  # a list is for nested teams
    return min(usable_cpus(), int(wanted)) if wanted.isdecimal() and int(wanted) else usable_cpus()


def _quota(folder: Path) -> Iterator[float]:
    """The CPU quota of a control group as a number of CPUs; nothing where there is no limit."""
    try:
        if (folder / "cpu.max").exists():
            quota, period = (folder / "cpu.max").read_text().split()
        else:  # version 1
            quota, period = ((folder / f"cpu.cfs_{name}_us").read_text().strip() for name in ("quota", "period"))
    except (OSError, ValueError):
        return
    if quota != "max" and int(quota) > 0:
        yield int(quota) / int(period)


def _cgroup_folders(root: Path) -> Iterator[Path]:
    """The folders that may hold a limit: that of the process (a limit of a parent counts too), and the root's."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        base = root / controllers if controllers else root
        folder = base / path.lstrip("/")
        yield from (f for f in (folder, *folder.parents) if f == base or base in f.parents)


# How long a thread waits for the next kernel before it sleeps: longer than kernels take that one thread runs alone, and
# than a caller's work between two runs of a small network. tw_add_credit in passes/lower/entry.mlir knows it too.
_AWAKE = "2ms"


@functools.cache
def load_openmp() -> None:
    """Make an OpenMP runtime's symbols visible to compiled code: one that is loaded already, else that of our wheel.

    Two of them in one process abort or hang it. CompileError where there is none.
    """
    loaded = _loaded_runtime()
    if loaded is not None:
        ctypes.CDLL(loaded, mode=ctypes.RTLD_GLOBAL)
        return
    path = packaged_runtime()
    # Idle threads must sleep: by default they spin for 200 ms after each loop. Not at once though: waking takes longer
    # than many kernels do. Read when the runtime initialises, which the first query makes it do; afterwards the
    # variable is none of our children's business.
    given = os.environ.get("KMP_BLOCKTIME")
    os.environ.setdefault("KMP_BLOCKTIME", _AWAKE)
    try:
        ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL).omp_get_max_threads()
    finally:
        if given is None:
            del os.environ["KMP_BLOCKTIME"]


def _loaded_runtime() -> str | None:
    with open("/proc/self/maps", errors="surrogateescape") as maps:  # names of files may be any bytes
        paths = (line.split(maxsplit=5)[5].rstrip("\n") for line in maps if "/" in line)
        return next((path for path in paths if os.path.basename(path) in _RUNTIMES), None)


def packaged_runtime() -> Path:
    """The OpenMP runtime that comes as a package; CompileError where that is not installed."""
    from importlib.metadata import PackageNotFoundError, files  # 13 ms, which one that is loaded spares

    try:
        found = [f for f in files("cmeel-libomp") or () if f.name == "libomp.so"]
    except PackageNotFoundError:
        found = []
    if not found:
        raise CompileError("no OpenMP runtime found: install the package cmeel-libomp")
    return Path(str(found[0].locate()))
