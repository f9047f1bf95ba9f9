"""A fleet's scheduler seen as TVM's users know it: a tracker, which has servers of keys and queues for them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from .address import Fleet, split_address
from .client import FleetClient

_LINE = "-" * 30


class Tracker:
    """A connection to a fleet's scheduler, to ask what it has. Raises FleetError where there is none."""

    def __init__(self, fleet: Fleet) -> None:
        self._client = FleetClient(fleet)

    def __enter__(self) -> Tracker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection."""
        self._client.close()

    def summary(self) -> dict[str, Any]:
        """The workers (``server_info``), and for each key how many are free and how many jobs wait (``queue_info``)."""
        workers, processing = self._client.list_workers(), self._client.list_processing()
        queues: dict[str, dict[str, int]] = {}
        for address, facts in workers.items():
            queue = queues.setdefault(facts.key, {"free": 0, "pending": 0})
            jobs = processing.get(address, 0)
            queue["free"] += not jobs
            queue["pending"] += max(0, jobs - 1)
        servers = [
            {
                "addr": list(split_address(address)),
                "key": f"server:{facts.key}",
                "version": facts.version,
                "target": facts.target,
                "threads": facts.threads,
            }
            for address, facts in workers.items()
        ]
        return {"queue_info": queues, "server_info": servers}

    def text_summary(self) -> str:
        """The same as two tables."""
        found = self.summary()
        servers = sorted(found["server_info"], key=lambda server: (server["key"], server["addr"]))
        totals = Counter(server["key"].partition(":")[2] for server in servers)
        lines = ["Server List", _LINE, "server-address           key", _LINE]
        lines += [f"{':'.join(map(str, server['addr'])):>21}    {server['key']}" for server in servers]
        lines += [_LINE, "", "Queue Status"]
        width = max(map(len, totals), default=0)
        title = f"{'key':<{width}}   total  free  pending"
        rule = "-" * (len(title) + 1)
        lines += [rule, title, rule]
        for key, queue in sorted(found["queue_info"].items()):
            lines.append(f"{key:<{width}}   {totals[key]:<5d}  {queue['free']:<4d}  {queue['pending']:<7d}")
        return "\n".join([*lines, rule, ""])
