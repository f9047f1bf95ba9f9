"""The number of threads, and one OpenMP runtime for all."""

import os
import subprocess
import sys

import c_programs
import pytest

from tilewright.runtime.process import threads

PROBE = """
import ctypes, sys
from tilewright.runtime.process import threads
if sys.argv[1:]:
    ctypes.CDLL(sys.argv[1])
threads.load_openmp()
threads.load_openmp.__wrapped__()
paths = {line.split()[-1] for line in open("/proc/self/maps") if "omp" in line.split("/")[-1]}
print(len(paths), ctypes.CDLL(None).__getitem__("__kmpc_fork_call") is not None)
"""


@pytest.mark.parametrize("first", [[], [str(threads.packaged_runtime().with_name("libiomp5.so"))]])
def test_one_runtime_is_loaded_whoever_came_first(first):
    done = subprocess.run([sys.executable, "-c", PROBE, *first], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["1", "True"]


# A runtime like GNU's, whose threads are all number 0 in a team of another one.
FOREIGN = "int omp_get_thread_num(void) { return 0; }\nint omp_get_num_threads(void) { return 1; }\n"
MEETING = """
import ctypes, sys, threading
ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)
import numpy as np
from python_kernels import _SIGNATURE, caller
from tilewright.runtime.process.threads import Team
meeting, seen = threading.Barrier(2, timeout=200), []
def kernel(words, low, high, scratch):
    seen.append((low, high, scratch))
    meeting.wait()
made = _SIGNATURE(kernel)
call = np.array([ctypes.cast(made, ctypes.c_void_p).value, 0, 2, 1, 64], np.int64)
Team(caller().get_function("run_calls")().value, 2).run_calls(1, call.ctypes.data, 0, 0, 1, 0, 4096)
print(sorted(seen))
"""


def test_threads_have_their_own_scratch_memory_beside_another_runtime(tmp_path):
    c_programs.require_compiler()
    (tmp_path / "foreign.c").write_text(FOREIGN)
    foreign = tmp_path / "foreign.so"
    subprocess.run(["cc", "-shared", "-fPIC", tmp_path / "foreign.c", "-o", foreign], check=True)
    path = os.pathsep.join(sys.path)
    command = [sys.executable, "-c", MEETING, str(foreign)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}, timeout=300)
    assert done.stdout.strip() == "[(0, 1, 4096), (1, 2, 4160)]", done.stderr


def test_default_is_within_the_affinity():
    assert 1 <= threads.default_threads() <= len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    "given, wanted", [("1", 1), ("1,4", 1), ("1000", None), ("0", None), ("-1", None), ("all", None), ("", None)]
)
def test_default_is_at_most_what_openmp_is_told(monkeypatch: pytest.MonkeyPatch, given: str, wanted: int | None):
    monkeypatch.setenv("OMP_NUM_THREADS", given)
    assert threads.default_threads() == (wanted or threads.usable_cpus())


@pytest.mark.parametrize("text, quotas", [("150000 100000", [1.5]), ("max 100000", []), ("", [])])
def test_reads_the_quota_of_the_control_group(tmp_path, text, quotas):
    (tmp_path / "cpu.max").write_text(text)
    assert list(threads._quota(tmp_path)) == quotas


@pytest.mark.parametrize("quota, quotas", [("50000", [0.5]), ("-1", [])])
def test_reads_the_quota_of_version_1(tmp_path, quota, quotas):
    (tmp_path / "cpu.cfs_quota_us").write_text(f"{quota}\n")
    (tmp_path / "cpu.cfs_period_us").write_text("100000\n")
    assert list(threads._quota(tmp_path)) == quotas
