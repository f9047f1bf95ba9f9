"""A measured schedule of a kernel, and one that won, as plain data: rows of a database, and lines of a file."""

from __future__ import annotations

import hashlib
import json
import math
import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeVar

from ..core.choices import PREFIX, GivenOption
from ..core.errors import RecordError
from ..core.target import Target

# What can be wrong with a trial; "" is nothing. "refused" is a schedule that cannot be carried out.
ERRORS = ("", "refused", "compile", "crash", "timeout", "wrong")

# Of texts; what is read may come from anywhere.
_MOST_CHARACTERS = {"values": 1 << 18, "steps": 1 << 18, "default_steps": 1 << 18}
LONGEST_TEXT = 4096  # of any other text
_MOST_SECONDS = 1 << 16
_CONFIDENCE = 0.95

Record = TypeVar("Record", "Trial", "Winner")


def target_key(target: Target) -> str:
    """What of a target a kernel's best schedule depends on, as a text: ``x86-512-48k-2048k-1a2b3c4d``.

    That is its architecture, the bits of a vector, its first two caches, and a hash of the features that code may use.
    """
    features = hashlib.sha256(" ".join(sorted(target.features)).encode()).hexdigest()[:8]
    return f"{target.arch}-{target.lanes * 32}-{target.l1_bytes >> 10}k-{target.l2_bytes >> 10}k-{features}"


@dataclass(frozen=True)
class ScheduleRecord:
    """What is said of a schedule of a kernel: whose it is, and its parts.

    ``kernel`` is the name, which has a hash of the structure; ``target`` is a ``target_key``, ``threads`` how many ran
    it (0 where that is not known). ``values`` and ``steps`` are the schedule's, as JSON (``Schedule.to_json``).
    """

    kernel: str
    target: str
    threads: int
    values: str
    steps: str

    def to_json(self) -> dict[str, Any]:
        """As a dictionary that JSON can hold."""
        return asdict(self)


@dataclass(frozen=True)
class Trial(ScheduleRecord):
    """A schedule that was tried for a kernel: how long it took beside the kernel's default one, or what was wrong.

    Its first five fields and ``version``, Tilewright's, say which trial it is.

    ``seconds`` has the candidate's time in each pair that counted, ``default_seconds`` the default schedule's beside
    it; both are empty for a trial that failed: ``error`` is one of ``ERRORS``, ``reason`` a line about it.
    ``took`` are the seconds of the whole trial, ``load`` the load average then, ``process`` who measured
    (host:pid:start), ``time`` when, in seconds of the epoch. ``default_steps`` are those of the default schedule, ""
    where they were not noted.
    """

    seconds: tuple[float, ...] = ()
    default_seconds: tuple[float, ...] = ()
    error: str = ""
    reason: str = ""
    took: float = 0.0
    load: float = 0.0
    process: str = ""
    version: str = ""
    time: float = 0.0
    default_steps: str = ""

    @property
    def ratios(self) -> tuple[float, ...]:
        """The candidate's time over the default's, of each pair."""
        pairs = zip(self.seconds, self.default_seconds, strict=False)
        return tuple(own / other for own, other in pairs if other > 0)

    @property
    def ratio(self) -> float:
        """The median of the ratios: less than 1 is faster than the default. Infinite for a trial that failed."""
        return math.inf if self.error or not self.ratios else statistics.median(self.ratios)

    @property
    def interval(self) -> tuple[float, float]:
        """Bounds of the ratio, between which the true median lies in 95 of 100 cases (by the signs alone).

        The smallest and the largest ratio where there are too few pairs to say so.
        """
        ordered = sorted(self.ratios)
        if self.error or not ordered:
            return math.inf, math.inf
        number = len(ordered)
        outside, cut = 0.0, 0  # cut: how many of each end may be left out
        for left_out in range(number // 2):
            outside += math.comb(number, left_out) * 0.5 ** (number - 1)
            if outside > 1 - _CONFIDENCE:
                break
            cut = left_out
        return ordered[cut], ordered[number - 1 - cut]

    @property
    def schedule(self) -> str:
        """The JSON that ``Schedule.from_json`` reads."""
        return join_schedule(self.values, self.steps)

    @staticmethod
    def from_json(data: Any) -> Trial:
        """The inverse of ``to_json``. Raises RecordError for what is no trial."""
        made = _read_record(Trial, data)
        if made.error not in ERRORS:
            raise RecordError(f"its error is '{made.error[:40]}', not one of {', '.join(filter(None, ERRORS))}")
        if len(made.seconds) != len(made.default_seconds) and made.default_seconds:
            raise RecordError("it has not as many seconds as default_seconds")
        return made


@dataclass(frozen=True)
class Winner(ScheduleRecord):
    """A schedule that made a network, or an operator, faster: what compilations take for the kernel.

    ``ratio`` is the kernel's time over that of its default schedule, with ``low`` and ``high``, the bounds of its
    confidence interval. ``network`` is what was tuned, and ``network_ratio``, ``network_low`` and ``network_high`` are
    the same of that as a whole. ``default_steps`` are as in a ``Trial``.
    """

    ratio: float = 1.0
    low: float = 1.0
    high: float = 1.0
    network: str = ""
    network_ratio: float = 1.0
    network_low: float = 1.0
    network_high: float = 1.0
    version: str = ""
    time: float = 0.0
    default_steps: str = ""

    @property
    def schedule(self) -> str:
        """The JSON that ``Schedule.from_json`` reads, and the ``default_steps`` beside which it was measured."""
        return join_schedule(self.values, self.steps, self.default_steps)

    @property
    def given_option(self) -> GivenOption | None:
        """What was decided, and beside which of the rule's, where the record is a decision of the graph passes."""
        option = read_option(self.kernel, self.steps)
        return None if option is None else (option, read_option(self.kernel, self.default_steps or "[]"))

    @staticmethod
    def from_json(data: Any) -> Winner:
        """The inverse of ``to_json``. Raises RecordError for what is none."""
        return _read_record(Winner, data)


def read_option(key: str, steps: str) -> int | None:
    """The option of a record whose ``kernel`` is the key of a decision, and whose steps are the option alone: ``[4]``.

    None for a kernel's record, or where there is no such option.
    """
    found = json.loads(steps) if key.startswith(PREFIX) else None
    match found:
        case [int(option)] if not isinstance(option, bool):
            return option
    return None


def join_schedule(values: str, steps: str, default_steps: str = "") -> str:
    """A schedule's JSON of the JSON of its parts."""
    beside = f', "default_steps": {default_steps}' if default_steps else ""
    return f'{{"values": {values}, "steps": {steps}{beside}}}'


def _read_record(kind: type[Record], data: Any) -> Record:
    """A record of plain data from anywhere; RecordError for anything that is none."""
    if not isinstance(data, Mapping):
        raise RecordError(f"a {kind.__name__.lower()} is an object with {', '.join(_field_names(kind))}")
    if missing := [name for name in _field_names(ScheduleRecord) if name not in data]:
        raise RecordError(f"it has no '{missing[0]}'")
    types = _field_types(kind)
    known = {name: _read_field(name, types[name], data[name]) for name in types if name in data}
    for name in ("values", "steps", "default_steps"):
        if name != "default_steps" or known.get(name):
            _check_json(name, known[name])
    return kind(**known)


def _field_names(kind: type[ScheduleRecord]) -> list[str]:
    return [field.name for field in fields(kind)]


def _field_types(kind: type[ScheduleRecord]) -> dict[str, str]:
    return {field.name: str(field.type) for field in fields(kind)}


def _read_field(name: str, kind: str, value: Any) -> Any:
    if kind == "str":
        longest = _MOST_CHARACTERS.get(name, LONGEST_TEXT)
        if isinstance(value, str) and len(value) <= longest:
            return value
        raise RecordError(f"its '{name}' is no text, or has more than {longest} characters")
    if kind == "int":
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 1 << 20:
            return value
        raise RecordError(f"its '{name}' is no number of threads")
    if kind == "float":
        return _read_seconds(name, value)
    if isinstance(value, list | tuple) and len(value) <= _MOST_SECONDS:
        return tuple(_read_seconds(name, each) for each in value)
    raise RecordError(f"its '{name}' is no list of seconds")


def _read_seconds(name: str, value: Any) -> float:
    try:
        number = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
    except OverflowError:
        number = math.nan
    if not math.isfinite(number) or number < 0:
        raise RecordError(f"its '{name}' has what is no number, or less than 0")
    return number


def _check_json(name: str, text: str) -> None:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        raise RecordError(f"its '{name}' is no JSON") from None
