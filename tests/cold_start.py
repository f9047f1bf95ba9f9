"""What ``tilewright bench`` measures in processes of their own, without them: for tests of all else."""

from __future__ import annotations

from typing import Any

import pytest

import tilewright as tw
from tilewright.core.dims import InputShapes
from tilewright.tools.benchmarks import children


def replace_cold_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile in this process, and make up the costs of a cold start."""
    monkeypatch.setattr(children, "compile_cold", _compile_here)
    monkeypatch.setattr(children, "measure_run_memory", lambda program, shapes: 20 << 20)


def _compile_here(
    model: str, folder: str, input_shapes: InputShapes, target: str, threads: int | None, records: Any
) -> tuple[str, dict[str, Any]]:
    module = tw.compile(model, target, input_shapes, threads, workers=0, records=records)
    costs = {"seconds": 1.0, "stages": {"link": 1.0}, "peak_bytes": 1 << 20, "cached": True, "cached_seconds": 0.5}
    return str(module.export_library(f"{folder}/model.so")), costs
