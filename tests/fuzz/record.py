"""What became of the models of a seed so far, in a file: a run that was stopped goes on behind the last of them."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tilewright.runtime.process.files import replacing_file
from tilewright.tools.debugging.verdict import Verdict

EACH = 20  # models between two writes


@dataclass
class Record:
    """``next`` is the index of the first model that has not been judged; ``found`` has what does not agree by name."""

    path: Path
    next: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    found: dict[str, tuple[str, str]] = field(default_factory=dict)

    @staticmethod
    def read(path: Path) -> Record:
        """The record in a file, or an empty one."""
        if not path.exists():
            return Record(path)
        data = json.loads(path.read_text())
        found = {name: (kind, reason) for name, (kind, reason) in data["found"].items()}
        return Record(path, data["next"], Counter(data["counts"]), found)

    def add(self, index: int, name: str, verdict: Verdict) -> None:
        """Count a verdict; the file is written now and then."""
        self.next = index + 1
        self.counts[verdict.kind] += 1
        if verdict.kind != "agrees":
            self.found[name] = verdict.kind, verdict.reason
        if self.next % EACH == 0:
            self.write()

    def write(self) -> None:
        """Write the file; a reader sees the old one or the new one."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        data = {"next": self.next, "counts": self.counts, "found": self.found}
        with replacing_file(self.path.absolute()) as temporary:
            temporary.write_text(json.dumps(data, indent=1))

    def summary(self) -> str:
        """The counts, and the names of what fails."""
        total = ", ".join(f"{count} {kind}" for kind, count in self.counts.most_common())
        wrong = [name for name, (kind, _) in self.found.items() if Verdict(kind).fails]
        return f"{total} of {self.counts.total()}" + (f"; fail: {', '.join(wrong)}" if wrong else "")

    @property
    def fails(self) -> bool:
        """Whether there is a fault of ours."""
        return any(Verdict(kind).fails for kind in self.counts)
