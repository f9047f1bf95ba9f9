"""Fixtures that several test folders share."""

from __future__ import annotations

import gc
import os
import signal
import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
import shared_kernels
from cpu_targets import sample_others
from hypothesis import HealthCheck, settings
from samples import leave_campaigns

# No test depends on how long something takes: machines are busy.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

# What a shell starts in the background ignores Ctrl-C, what nohup starts SIGHUP, and so does all that they start: tests
# that send it would wait.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# The processes that tests start find the modules of those before compiled: else each compiles hundreds of them again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Threads of numpy's products wait in a loop, in each process, and take the cores from the tests beside.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# No test reads or writes the user's compile cache or records, or leaves crash bundles there; those of the cache itself
# say which folder to use.
os.environ["TILEWRIGHT_CACHE_SIZE"] = "0"
_crashes = tempfile.TemporaryDirectory(prefix="tilewright-crashes-")
os.environ["TILEWRIGHT_CRASH_DIR"] = _crashes.name
os.environ["TILEWRIGHT_RECORDS"] = os.path.join(_crashes.name, "records.sqlite")

# A kernel that several tests compile is compiled once.
_kernels = tempfile.TemporaryDirectory(prefix="tilewright-kernels-")
shared_kernels.install(_kernels.name)

# Modules are held to the rules of each form where the form ends; `make test-all` asks for it after each pass.
os.environ.setdefault("TILEWRIGHT_VERIFY", "forms")

ROOT = Path(__file__).resolve().parent.parent


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect the tests, and then look for garbage once, and never again in what stays: a seventh of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before those that are slow are deselected
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take a sample of campaigns, and of the tests for other CPUs."""
    leave_campaigns(items, whole=not any("::" in given for given in config.args))
    sample_others(items)


@pytest.fixture(autouse=True)
def _compile_anew_what_is_patched(request: pytest.FixtureRequest) -> Iterator[None]:
    patches = "monkeypatch" in request.fixturenames and request.node.get_closest_marker("shares_kernels") is None
    with shared_kernels.compiling_anew() if patches else nullcontext():
        yield


@pytest.fixture(scope="session")
def shared_models() -> Path:
    """The folder of real pretrained models beside the repository; tests that need it are skipped where it is absent."""
    folder = ROOT.parent / "shared" / "models"
    if not folder.is_dir():
        pytest.skip("the pretrained models (../shared/models) are not on this machine")
    return folder
