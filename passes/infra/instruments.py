"""What watches passes run: time, print, dump and verify."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from ...core.errors import ArtifactError
from ...dialects import ir

if TYPE_CHECKING:
    from .base import Pass


class Instrument:
    """Watches passes run. ``index`` counts the passes of one context from 0.

    The passes on a model and those on each of its kernels run in worker processes. ``fork`` gives the instrument that
    is sent along with such a part of the work, and ``join`` takes it back. An instrument that has none keeps the whole
    compilation in its own process.

    ``passes`` are the names of those that it is told to look at, which have to be there.
    """

    @property
    def passes(self) -> Sequence[str]:
        return ()

    def before(self, stage: Pass, module: ir.Module, index: int) -> None:
        """Called before each pass that is not skipped."""

    def after(self, stage: Pass, module: ir.Module, index: int) -> None:
        """Called after each pass that succeeded."""

    def spent(self, name: str, seconds: float) -> None:
        """Called with the time that a pass, or another step of the compilation, took."""

    def fork(self, part: str) -> Instrument | None:
        """An instrument, which can be pickled, for the kernel ``part``, or for the graph passes ("")."""
        return None

    def join(self, part: str, forked: Any) -> None:
        """What ``fork(part)`` gave comes back from the worker."""


@dataclass
class Timing(Instrument):
    """Adds up the seconds that each pass takes, in ``seconds[name]``; of all workers together."""

    seconds: dict[str, float] = field(default_factory=dict)

    def spent(self, name: str, seconds: float) -> None:
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds

    def fork(self, part: str) -> Timing:
        return Timing()

    def join(self, part: str, forked: Timing) -> None:
        for name, seconds in forked.seconds.items():
            self.spent(name, seconds)

    def __str__(self) -> str:
        rows = sorted(self.seconds.items(), key=lambda row: -row[1])
        return "\n".join(f"{seconds * 1e3:10.1f} ms  {name}" for name, seconds in rows)


@dataclass
class PrintIR(Instrument):
    """Prints the module after the named passes (``all``: after each), as `--print-ir-after` asks."""

    names: Sequence[str]
    file: TextIO | None = None
    part: str = ""

    @property
    def passes(self) -> Sequence[str]:
        return [name for name in self.names if name != "all"]

    def after(self, stage: Pass, module: ir.Module, index: int) -> None:
        if "all" in self.names or stage.name in self.names:
            of = f" of {self.part}" if self.part else ""
            print(f"// ----- IR{of} after {stage} -----\n{module}", file=self.file or sys.stderr)

    def fork(self, part: str) -> PrintIR:
        return PrintIR(self.names, io.StringIO(), part)

    def join(self, part: str, forked: PrintIR) -> None:
        if isinstance(forked.file, io.StringIO):
            print(forked.file.getvalue(), end="", file=self.file or sys.stderr)


@dataclass
class DumpIR(Instrument):
    """Writes the module after each pass to its own file: ``03-fuse-ops.mlir``, ``softmax_1/04-bufferize.mlir``."""

    folder: Path

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    def after(self, stage: Pass, module: ir.Module, index: int) -> None:
        safe = "".join(c if c.isalnum() or c in "-_" else "_" for c in stage.name)
        text = str(module.operation.get_asm(enable_debug_info=True, pretty_debug_info=True))
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / f"{index:02d}-{safe}.mlir").write_text(text)
        except OSError as error:
            raise ArtifactError(f"cannot write into {self.folder}: {error.strerror}") from error

    def fork(self, part: str) -> DumpIR:
        return DumpIR(self.folder.absolute() / part)


class Verify(Instrument):
    """Verifies the module after each pass, so that the pass which broke it is the one that is named."""

    def after(self, stage: Pass, module: ir.Module, index: int) -> None:
        module.operation.verify()

    def fork(self, part: str) -> Verify:
        return self
