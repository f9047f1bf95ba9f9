"""Measures the resident memory of a process that only loads and runs a program.

``python -m tilewright.tools.benchmarks.resident PROGRAM SHAPES`` prints it.
"""

from __future__ import annotations

import json
import sys

from tilewright.core.specialization import fix_sizes
from tilewright.runtime.module import load_module
from tilewright.tools.run import make_inputs

_RUNS = 3


def main(path: str, shapes: str) -> None:
    """Run the program in one thread, on inputs of these shapes; print its peak memory, and if MLIR is there."""
    module = load_module(path, 1)
    inputs = make_inputs(fix_sizes(module.inputs, json.loads(shapes), path), "random", 0)
    for _ in range(_RUNS):
        module.run(inputs)
    print(json.dumps({"peak_bytes": peak_bytes(), "mlir": "mlir" in sys.modules}))


def peak_bytes() -> int:
    """The most that was resident of this process's memory (``getrusage`` would count that of its parent too)."""
    with open("/proc/self/status") as file:
        [kilobytes] = [line.split()[1] for line in file if line.startswith("VmHWM:")]
    return int(kilobytes) << 10


if __name__ == "__main__":
    main(*sys.argv[1:])
