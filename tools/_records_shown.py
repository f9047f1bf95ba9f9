"""What ``tilewright records`` shows of records: kernels as rows of a table, trials and winners in words."""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from tilewright.core.choices import PREFIX
from tilewright.core.printed import count_text
from tilewright.records import Trial, Winner
from tilewright.records.changes import describe_changes
from tilewright.records.database import Database
from tilewright.tools._output import age_text

COLUMNS = (
    "kernel", "threads", "trials", "failed", "ratio", "interval", "taken", "network", "age", "version", "target"
)  # fmt: skip
SPARE = ("target", "version", "interval", "age", "failed")  # of a narrow table
_MOST_TRIALS = 20  # trials of a kernel

Key = tuple[str, str, int]  # kernel, target, threads


def summarize_kernels(database: Database) -> list[dict[str, Any]]:
    """What is known of each kernel on a target and a number of threads, the one of the latest record first.

    ``ratio`` and its ``interval`` are those of the winner, which compilations take (``taken``), or of the best trial.
    """
    trials: dict[Key, list[Trial]] = defaultdict(list)
    for trial in database.trials():
        trials[_key(trial)].append(trial)
    winners = {_key(winner): winner for winner in database.winners()}
    rows = [_summarize(key, trials[key], winners.get(key)) for key in dict.fromkeys((*trials, *winners))]
    return sorted(rows, key=lambda row: -row["time"])


def _key(record: Trial | Winner) -> Key:
    return record.kernel, record.target, record.threads


def _summarize(key: Key, trials: Sequence[Trial], winner: Winner | None) -> dict[str, Any]:
    best = min(trials, key=lambda trial: trial.ratio, default=None)
    ratio, interval = (best.ratio, best.interval) if best else (math.inf, (math.inf, math.inf))
    if winner:
        ratio, interval = winner.ratio, (winner.low, winner.high)
    latest: Trial | Winner = winner or max(trials, key=lambda trial: trial.time)
    measured = math.isfinite(ratio)
    return {
        **dict(zip(("kernel", "target", "threads"), key, strict=True)),
        "trials": len(trials),
        "failed": dict(Counter(trial.error for trial in trials if trial.error)),
        "ratio": ratio if measured else None,
        "interval": interval if measured else None,
        "taken": winner is not None,
        "network": winner.network if winner else "",
        "version": latest.version,
        "time": max([trial.time for trial in trials] + [winner.time if winner else 0.0]),
    }


def kernel_row(row: dict[str, Any]) -> tuple[str, ...]:
    low, high = row["interval"] or (0.0, 0.0)
    return (
        row["kernel"],
        str(row["threads"] or ""),
        str(row["trials"]),
        str(sum(row["failed"].values())),
        "" if row["ratio"] is None else f"{row['ratio']:.3f}",
        f"{low:.3f} to {high:.3f}" if row["interval"] else "",
        "yes" if row["taken"] else "no",
        row["network"],
        age_text(max(0.0, time.time() - row["time"])),
        row["version"],
        row["target"],
    )


def trial_record(trial: Trial) -> dict[str, Any]:
    ratio = trial.ratio if math.isfinite(trial.ratio) else None
    return {**trial.to_json(), "ratio": ratio, "changes": describe_changes(trial.default_steps or "[]", trial.steps)}


def describe_records(trials: Sequence[Trial], winners: Sequence[Winner]) -> Iterator[str]:
    for key in dict.fromkeys(map(_key, (*trials, *winners))):
        own = [trial for trial in trials if _key(trial) == key]
        failed = Counter(trial.error for trial in own if trial.error)
        said = ", ".join([count_text(len(own), "trial"), *(f"{n} {error}" for error, n in failed.most_common())])
        yield f"{key[0]}, {key[1]}, {count_text(key[2], 'thread')}: {said}"
        for winner in winners:
            if _key(winner) == key:
                yield f"  taken: {_ratio_text(winner.ratio, winner.low, winner.high)}, {_winner_text(winner)}"
                yield f"    {_changes_text(winner)}"
        for trial in own[:_MOST_TRIALS]:
            yield f"  {_trial_text(trial)}, {trial.version or 'unknown version'}"
            yield f"    {_changes_text(trial)}"
        if len(own) > _MOST_TRIALS:
            yield f"  and {len(own) - _MOST_TRIALS} more (--json has all)"


def _ratio_text(ratio: float, low: float, high: float) -> str:
    return f"{ratio:.3f} of the default's time ({low:.3f} to {high:.3f})"


def _winner_text(winner: Winner) -> str:
    """What a winner was tuned for, and when."""
    network = f"{winner.network} takes {winner.network_ratio:.3f}, " if winner.network else ""
    return f"{network}{age_text(max(0.0, time.time() - winner.time))}, {winner.version or 'unknown version'}"


def _trial_text(trial: Trial) -> str:
    if trial.error:
        return f"{trial.error}: {trial.reason}" if trial.reason else trial.error
    if not trial.ratios:
        return f"{min(trial.seconds) * 1e3:.4g} ms" if trial.seconds else "not measured"
    return f"{_ratio_text(trial.ratio, *trial.interval)} in {count_text(len(trial.ratios), 'pair')}"


def _changes_text(record: Trial | Winner) -> str:
    """What a schedule changes against the default one, or all that it does where that was not noted."""
    if record.kernel.startswith(PREFIX):
        return f"decision of the plan: {record.default_steps or '?'} -> {record.steps}"
    changes = describe_changes(record.default_steps or "[]", record.steps)
    return "; ".join(changes) or ("the default schedule" if record.default_steps else "plain loops")
