"""A fleet on this machine: a scheduler and workers as processes of their own, and kernels that do what they should not."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from tilewright.core.program import Kernel
from tilewright.core.target import Target
from tilewright.dialects import codegen, ir
from tilewright.dialects.context import make_context
from tilewright.tuning.fleet.address import Fleet

_BODIES = {
    "nothing": "llvm.return",
    "crash": '"llvm.intr.trap"() : () -> ()\n llvm.return',
    "loop": "llvm.br ^bb1\n^bb1:\n llvm.br ^bb1",
}


@dataclass
class Machines:
    """Processes of a fleet with ``certificates``; ``address`` is the scheduler's, where one was started."""

    certificates: Path | None
    address: str = ""
    processes: list[subprocess.Popen[str]] = field(default_factory=list)
    folder: tempfile.TemporaryDirectory[str] = field(default_factory=tempfile.TemporaryDirectory)  # of theirs

    def start_scheduler(self, port: int = 0) -> subprocess.Popen[str]:
        """Start a scheduler, and wait until it is there."""
        process, line = self._start("scheduler", "--port", str(port), *([] if self.certificates else ["--insecure"]))
        assert line.startswith("scheduler at "), line
        self.address = line.split()[-1]
        return process

    def start_worker(self, *options: str) -> tuple[subprocess.Popen[str], str]:
        """Start a worker with one thread, and wait until it is there; returns its address, too."""
        process, line = self._start("worker", self.address, "--threads", "1", *options)
        assert line.startswith("worker of key "), line
        return process, line.split()[-1]

    def fleet(self, key: str | None = None) -> Fleet:
        """The fleet, for clients."""
        return Fleet(self.address, self.certificates, key)

    def end(self) -> None:
        """End all processes."""
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
        self.folder.cleanup()

    def _start(self, *words: str) -> tuple[subprocess.Popen[str], str]:
        given = ["--certificates", str(self.certificates)] if self.certificates else []
        command = [sys.executable, "-m", "tilewright", "fleet", *words, *given]
        place = {**os.environ, "TMPDIR": self.folder.name}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=place)
        self.processes.append(process)
        assert process.stdout is not None
        return process, process.stdout.readline().strip()


def plant_kernel(default: Kernel, what: str) -> Kernel:
    """A kernel in the place of another one that crashes, loops for ever, or computes nothing."""
    text = f"llvm.func @{default.name}(%a: !llvm.ptr, %b: i64, %c: i64, %d: !llvm.ptr) {{\n {_BODIES[what]}\n}}"
    with make_context(), ir.Location.unknown():
        made = codegen.emit_code(ir.Module.parse(text), Target.parse("x86"), "obj")
    return Kernel(default.name, made, default.extent, parallel=False, signature=default.signature)
