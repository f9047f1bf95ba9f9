"""``tvm.runtime.profiling``: the times of a program's kernels, in TVM's columns."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from ...core.errors import InputError
from ...runtime.module import Module
from ...runtime.profile import profiler
from ...runtime.profile.text_table import align_columns

__all__ = ["MetricCollector", "PAPIMetricCollector", "Report", "profile_function"]

_HEAD = ("Name", "Duration (us)", "Percent", "Device", "Count", "Argument Shapes", "Hash")
_DEVICE = "cpu0"


@dataclass(frozen=True)
class Report:
    """The calls of a run: ``calls`` has a dictionary for each kernel, of what TVM's columns say.

    ``device_metrics`` has the time of the whole, by device, ``configuration`` how it was run.
    """

    calls: Sequence[Mapping[str, Any]]
    device_metrics: Mapping[str, Mapping[str, Any]]
    configuration: Mapping[str, Any] = field(default_factory=dict)

    @staticmethod
    def of(made: profiler.Report) -> Report:
        """That of a profile; times are those of one run in the mean."""
        runs, whole = max(made.runs, 1), made.total if made.elapsed is None else made.elapsed
        calls = [
            {
                "Name": row.name,
                "Duration (us)": row.total * 1e-3 / runs,
                "Percent": 100 * row.total / whole if whole else 0.0,
                "Device": _DEVICE,
                "Count": row.count // runs,
                "Argument Shapes": ", ".join((*row.inputs, *row.results)),
                "Hash": row.name.rsplit("_", 1)[-1],
            }
            for row in made.rows
        ]
        total = {"Duration (us)": whole * 1e-3 / runs, "Percent": 100.0, "Device": _DEVICE, "Count": 1}
        threads = {name: value for name, value in made.device.items() if "thread" in name}
        return Report(calls, {_DEVICE: total}, {"Executor": made.executor, **threads})

    def table(self, sort: bool = True, aggregate: bool = True, col_sums: bool = True) -> str:
        """The columns as text: the longest first, calls of one kernel together, and their sum."""
        calls = _join_calls(self.calls) if aggregate else list(self.calls)
        if sort:
            calls.sort(key=lambda call: -call["Duration (us)"])
        rows = [tuple(map(_write_cell, (call.get(name, "") for name in _HEAD))) for call in calls]
        if col_sums:
            durations, shares = (sum(call[name] for call in calls) for name in ("Duration (us)", "Percent"))
            rows += [
                ("-" * 10, *[""] * 6),
                ("Sum", *map(_write_cell, (durations, shares, "", len(self.calls), "", ""))),
            ]
        total = self.device_metrics[_DEVICE]["Duration (us)"]
        rows.append(("Total", _write_cell(total), "", _DEVICE, "1", "", ""))
        settings = [f"{name}: {value}" for name, value in self.configuration.items()]
        return "\n".join([*align_columns([_HEAD, *rows]), "", "Configuration", "-" * 13, *settings]) + "\n"

    def csv(self) -> str:
        """The calls as comma-separated values."""
        file = io.StringIO()
        writer = csv.DictWriter(file, _HEAD, lineterminator="\n")
        writer.writeheader()
        writer.writerows([{name: call.get(name, "") for name in _HEAD} for call in self.calls])
        return file.getvalue()

    def json(self) -> str:
        """The text that ``from_json`` reads."""
        return json.dumps(
            {"calls": list(self.calls), "device_metrics": self.device_metrics, "configuration": self.configuration}
        )

    @staticmethod
    def from_json(s: str) -> Report:
        """The inverse of ``json``. Raises InputError for another text."""
        try:
            read = json.loads(s)
            return Report(read["calls"], read["device_metrics"], read["configuration"])
        except (ValueError, TypeError, KeyError) as error:
            raise InputError("the text is no report: it is what Report.json gives") from error

    def __str__(self) -> str:
        return self.table()


def profile_function(
    mod: Any, dev: Any, collectors: Sequence[Any] | None = None, func_name: str | None = None, warmup_iters: int = 10
) -> Callable[..., Mapping[str, Any]]:
    """A function that runs a program once on tensors, after ``warmup_iters``; returns its time, as TVM's does metrics.

    Raises InputError for collectors of metrics.
    """
    refuse_collectors(collectors)
    if not isinstance(mod, Module):
        raise InputError(f"profile_function takes a program, as tvm.build gives it, not a {type(mod).__name__}")
    evaluator = mod.time_evaluator(func_name or mod.entry_name, dev, number=1)

    def profile(*args: Any) -> Mapping[str, Any]:
        for _ in range(warmup_iters):
            evaluator(*args)
        return {"Duration (us)": evaluator(*args).mean * 1e6}

    return profile


class MetricCollector:
    """What counts events of a processor: InputError, as no counter is read."""

    def __init__(self, *given: Any, **named: Any) -> None:
        refuse_collectors([type(self).__name__])


class PAPIMetricCollector(MetricCollector):
    """As ``MetricCollector``."""


def refuse_collectors(collectors: Sequence[Any] | None) -> None:
    """Raise InputError for collectors of metrics."""
    if collectors:
        raise InputError("a profile has times alone, no counters of the processor: leave collectors out")


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(f"tilewright.tvm.runtime.profiling has no '{name}': it has {', '.join(__all__)}")


def _join_calls(calls: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The calls of one kernel as one."""
    joined: dict[str, dict[str, Any]] = {}
    for call in calls:
        known = joined.setdefault(call["Name"], {**call, "Duration (us)": 0.0, "Percent": 0.0, "Count": 0})
        for name in ("Duration (us)", "Percent", "Count"):
            known[name] += call[name]
    return [*joined.values()]


def _write_cell(value: Any) -> str:
    return f"{value:,.2f}" if isinstance(value, float) else str(value)
