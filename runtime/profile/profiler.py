"""Profiles of a program's calls: their times and work as a table, CSV, JSON or a trace for Perfetto."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

from ...core.errors import InputError
from ...core.printed import line_text
from ..executors.counters import Event
from .roofline import Bound, compute_rate, find_bound, peak_share
from .text_table import align_columns

FORMAT = 1  # of the JSON
SortKey = Literal["time", "mean", "min", "max", "count", "flops", "bytes", "name", "order"]
KEYS: tuple[SortKey, ...] = get_args(SortKey)

_NS = 1e-9
_SHOWN_NODES = 60  # characters of them in a table
# A kernel's name is what it computes, and a hash that tells it from others.
_HASH = re.compile(r"_[0-9a-f]{8}(\.\d+)?$")
_TABLE_HEAD = ("total ms", "% time", "count", "mean us", "min us", "max us", "MFLOP", "MB", "GFLOP/s", "GB/s")


@dataclass(frozen=True)
class Row:
    """A call of a program: of the kernel ``name``, or of a function of the host; or such calls together.

    ``nodes`` are the ONNX nodes that it computes, ``inputs`` and ``results`` types as text (``1x64x56x56xf32``).
    Times are nanoseconds; they, ``flops`` and ``bytes`` are those of all ``count`` times that it was made. ``program``
    are the sizes of the specialized program that makes it.
    """

    name: str
    nodes: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    layout: str = ""
    count: int = 0
    total: int = 0
    least: int = 0
    most: int = 0
    flops: int = 0
    bytes: int = 0
    host: bool = False
    program: str = ""

    @property
    def op(self) -> str:
        """The kind of computation, the name without its hash: ``conv2d_add_max``."""
        return _HASH.sub("", self.name)

    @property
    def mean(self) -> float:
        """Nanoseconds of one time; 0 where it was never made."""
        return compute_rate(self.total, self.count)

    @property
    def flops_per_second(self) -> float:
        """Floating-point operations a second, while it ran."""
        return compute_rate(self.flops, self.total * _NS)

    @property
    def bytes_per_second(self) -> float:
        """Bytes of arguments and results a second, while it ran."""
        return compute_rate(self.bytes, self.total * _NS)


@dataclass(frozen=True)
class Report:
    """The profile of ``runs`` of the program ``model``; ``rows`` are its calls in order.

    ``elapsed`` are the nanoseconds from the beginnings to the ends of all runs, if measured. ``executor``
    says how they were made, ``device`` on what. ``rates`` are those of the machine, if known, for as many threads as
    there were: ``flops`` and ``bytes`` a second. ``trace`` has single events of the first runs; their ``call`` is the
    number of a row.
    """

    model: str
    executor: str
    device: Mapping[str, Any]
    runs: int
    rows: tuple[Row, ...]
    elapsed: int | None = None
    rates: Mapping[str, float] | None = None
    trace: tuple[Event, ...] = ()

    @property
    def total(self) -> int:
        """Nanoseconds of all calls."""
        return sum(row.total for row in self.rows)

    def share(self, row: Row) -> float:
        """The row's part of the time of all calls, from 0 to 1."""
        return compute_rate(row.total, self.total)

    def peak_share(self, row: Row) -> float | None:
        """The least time that the machine needs for the row's work over its time; None where its rates are not known.

        See ``roofline.peak_share``.
        """
        return None if self.rates is None else peak_share(row.flops, row.bytes, row.total * _NS, self.rates)

    def bound_of(self, row: Row) -> Bound | None:
        """Which of the machine's rates limits the row; None where they are not known."""
        return None if self.rates is None else find_bound(row.flops, row.bytes, self.rates)

    def sort_rows(self, key: SortKey = "time") -> tuple[Row, ...]:
        """The rows, the largest first; by "name", or in the program's "order". InputError for another key."""
        if key not in KEYS:
            raise InputError(f"a report is not sorted by '{key}': choose from {', '.join(KEYS)}")
        if key in ("name", "order"):
            return self.rows if key == "order" else tuple(sorted(self.rows, key=lambda row: row.name))
        field = {"time": "total", "min": "least", "max": "most"}.get(key, key)
        return tuple(sorted(self.rows, key=lambda row: -getattr(row, field)))

    def by_kernel(self) -> Report:
        """The report with one row for each kernel."""
        return self._together(lambda row: row.name, lambda row: row.name)

    def by_op(self) -> Report:
        """The report with one row for each kind of kernel, as ``Row.op`` tells them apart."""
        return self._together(lambda row: row.op, lambda row: row.op)

    def by_node(self) -> Report:
        """The report with one row for each group of nodes that is computed together, named by them."""
        return self._together(
            lambda row: row.nodes or row.name, lambda row: " + ".join(row.nodes) or f"{row.name} (made by the compiler)"
        )

    def _together(self, key: Callable[[Row], Hashable], name: Callable[[Row], str]) -> Report:
        groups: dict[Hashable, list[Row]] = {}
        number_of: list[int] = []
        for row in self.rows:
            group = groups.setdefault((row.program, row.host, key(row)), [])
            group.append(row)
            number_of.append(list(groups.values()).index(group))
        rows = tuple(_sum_rows(group, name(group[0])) for group in groups.values())
        return replace(self, rows=rows, trace=tuple(replace(e, call=number_of[e.call]) for e in self.trace))

    def records(self, sort: SortKey = "time") -> list[dict[str, Any]]:
        """The rows with all that follows from them; times are in seconds. See ``sort_rows``."""
        return [self._record(row) for row in self.sort_rows(sort)]

    def _record(self, row: Row) -> dict[str, Any]:
        times = {name: getattr(row, field) * _NS for name, field in _SECONDS.items()}
        return {
            "name": row.name,
            "nodes": list(row.nodes),
            "program": row.program,
            "host": row.host,
            "inputs": list(row.inputs),
            "results": list(row.results),
            "layout": row.layout,
            "count": row.count,
            **times,
            "share": self.share(row),
            "flops": row.flops,
            "bytes": row.bytes,
            "flops_per_second": row.flops_per_second,
            "bytes_per_second": row.bytes_per_second,
            "bound": self.bound_of(row),
            "peak_share": self.peak_share(row),
        }

    def head(self) -> list[str]:
        """The lines about the whole program."""
        spent = self.total if self.elapsed is None else self.elapsed
        device = ", ".join(f"{name} {value}" for name, value in self.device.items())
        made = f"{self.runs} runs, {compute_rate(spent, self.runs) * 1e-6:.3f} ms each"
        flops, shared = sum(row.flops for row in self.rows), compute_rate(self.total, spent)
        work = f"{compute_rate(flops, spent * _NS) / 1e9:.1f} GFLOP/s, {shared:.1%} of the time in calls"
        return [f"{self.model}: {made}, {work} ({self.executor})", device]

    def cells(self, sort: SortKey = "time", top: int | None = None) -> list[tuple[str, ...]]:
        """The table as rows of texts, the head first; ``top`` leaves out all but so many."""
        head = _TABLE_HEAD + (("bound", "% peak") if self.rates else ()) + ("nodes", "kernel")
        return [head, *(self._cells(row) for row in self.sort_rows(sort)[:top])]

    def _cells(self, row: Row) -> tuple[str, ...]:
        peak = () if self.rates is None else (str(self.bound_of(row)), f"{self.peak_share(row):.0%}")
        nodes = " + ".join(row.nodes) or "-"
        return (
            f"{row.total * 1e-6:.3f}",
            f"{self.share(row):.1%}",
            str(row.count),
            *(f"{time * 1e-3:.1f}" for time in (row.mean, row.least, row.most)),
            f"{compute_rate(row.flops, row.count) / 1e6:.1f}",
            f"{compute_rate(row.bytes, row.count) / 1e6:.2f}",
            f"{row.flops_per_second / 1e9:.1f}",
            f"{row.bytes_per_second / 1e9:.1f}",
            *peak,
            nodes if len(nodes) <= _SHOWN_NODES else f"{nodes[: _SHOWN_NODES - 3]}...",
            f"{row.name} (host)" if row.host else row.name,
        )

    def table(self, sort: SortKey = "time", top: int | None = None) -> str:
        """The report as text for people; work is that of one call."""
        return "\n".join([*map(line_text, self.head()), "", *align_columns(self.cells(sort, top))]) + "\n"

    def csv(self, sort: SortKey = "time") -> str:
        """The ``records`` as comma-separated values with a head; lists are joined by ``+``."""
        file = io.StringIO()
        records = self.records(sort)
        writer = csv.DictWriter(file, list(records[0]) if records else ["name"], lineterminator="\n")
        writer.writeheader()
        for record in records:
            writer.writerow({k: " + ".join(v) if isinstance(v, list) else v for k, v in record.items()})
        return file.getvalue()

    def json(self) -> str:
        """The text that ``from_json`` reads."""
        return json.dumps({"format": FORMAT, **asdict(self)}, ensure_ascii=False)

    @staticmethod
    def from_json(text: str) -> Report:
        """The report that ``json`` wrote. InputError for another text."""
        try:
            fields = json.loads(text)
            if fields.pop("format") != FORMAT:
                raise ValueError("another format")
            rows = tuple(Row(**_with_tuples(row)) for row in fields.pop("rows"))
            trace = tuple(Event(**event) for event in fields.pop("trace"))
            return Report(**fields, rows=rows, trace=trace)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InputError("the text is not a profile of this version: profile the model again") from error

    def chrome_trace(self) -> str:
        """The first runs' calls in the Trace Event Format, as chrome://tracing and ui.perfetto.dev open it.

        Each thread that called the program is a track. Times begin with the first call.
        """
        first = min((event.start for event in self.trace), default=0)
        threads = {thread: number for number, thread in enumerate(dict.fromkeys(e.thread for e in self.trace))}
        named = {"ph": "M", "pid": 0}
        events: list[dict[str, Any]] = [{**named, "name": "process_name", "tid": 0, "args": {"name": self.model}}]
        for number in threads.values():
            events.append({**named, "name": "thread_name", "tid": number, "args": {"name": f"caller {number}"}})
        events += [_trace_event(self.rows[e.call], e, first, threads[e.thread]) for e in self.trace]
        return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}, ensure_ascii=False)


_SECONDS = {"total_seconds": "total", "mean_seconds": "mean", "min_seconds": "least", "max_seconds": "most"}


def _with_tuples(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in row.items()}


def _sum_rows(rows: Sequence[Row], name: str) -> Row:
    """Rows as one. Types and layout are those that all of them have."""
    made = [row for row in rows if row.count]
    sums = {field: sum(getattr(row, field) for row in rows) for field in ("count", "total", "flops", "bytes")}
    alike = {
        field: values.pop() if len(values := {getattr(row, field) for row in rows}) == 1 else empty
        for field, empty in (("inputs", ()), ("results", ()), ("layout", ""))
    }
    return replace(
        rows[0],
        name=name,
        nodes=tuple(dict.fromkeys(node for row in rows for node in row.nodes)),
        least=min((row.least for row in made), default=0),
        most=max((row.most for row in made), default=0),
        **sums,
        **alike,
    )


def _trace_event(row: Row, event: Event, first: int, thread: int) -> dict[str, Any]:
    """A complete event: microseconds, from the trace's beginning."""
    work = {"flops": compute_rate(row.flops, row.count), "bytes": compute_rate(row.bytes, row.count)}
    types = {"inputs": list(row.inputs), "results": list(row.results)}
    return {
        "name": row.op,
        "cat": "host" if row.host else "kernel",
        "ph": "X",
        "ts": (event.start - first) * 1e-3,
        "dur": event.duration * 1e-3,
        "pid": 0,
        "tid": thread,
        "args": {"kernel": row.name, "nodes": list(row.nodes), "program": row.program, **types, **work},
    }
