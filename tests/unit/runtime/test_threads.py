"""The number of threads, and one OpenMP runtime for all."""

import os
import subprocess
import sys

import pytest

from tilewright.runtime import threads

PROBE = """
import ctypes, sys
from tilewright.runtime import threads
if sys.argv[1:]:
    ctypes.CDLL(sys.argv[1])
threads.load_openmp()
threads.load_openmp.__wrapped__()
paths = {line.split()[-1] for line in open("/proc/self/maps") if "omp" in line.split("/")[-1]}
print(len(paths), ctypes.CDLL(None).__getitem__("__kmpc_fork_call") is not None)
"""


@pytest.mark.parametrize("first", [[], [str(threads._packaged_runtime().with_name("libiomp5.so"))]])
def test_one_runtime_is_loaded_whoever_came_first(first):
    done = subprocess.run([sys.executable, "-c", PROBE, *first], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["1", "True"]


def test_default_is_within_the_affinity():
    assert 1 <= threads.default_threads() <= len(os.sched_getaffinity(0))


@pytest.mark.parametrize("text, quotas", [("150000 100000", [1.5]), ("max 100000", []), ("", [])])
def test_reads_the_quota_of_the_control_group(tmp_path, text, quotas):
    (tmp_path / "cpu.max").write_text(text)
    assert list(threads._quota(tmp_path)) == quotas


@pytest.mark.parametrize("quota, quotas", [("50000", [0.5]), ("-1", [])])
def test_reads_the_quota_of_version_1(tmp_path, quota, quotas):
    (tmp_path / "cpu.cfs_quota_us").write_text(f"{quota}\n")
    (tmp_path / "cpu.cfs_period_us").write_text("100000\n")
    assert list(threads._quota(tmp_path)) == quotas
