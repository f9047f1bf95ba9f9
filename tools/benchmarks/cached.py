"""How long a new process waits for a cached program.

``python -m tilewright.tools.benchmarks.cached [MODEL,TARGET,SHAPES,THREADS,RECORDS]`` prints it.
"""

from __future__ import annotations

import json
import sys
import time

import tilewright as tw


def main() -> None:
    """Print the seconds that ``tilewright.compile`` took, and whether the cache had the program."""
    model, target, shapes, threads, records = json.loads(sys.argv[1])
    start = time.perf_counter()
    module = tw.compile(model, target, shapes, threads, records=records)
    print(json.dumps({"cached_seconds": time.perf_counter() - start, "cached": module.report.cached}))


if __name__ == "__main__":
    main()
