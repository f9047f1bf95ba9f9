"""What LLVM says of CPUs, which our tables are held against."""

from __future__ import annotations

import functools
import re
import subprocess
import sys

from tilewright.core import cpus
from tilewright.core.cpus import Architecture
from tilewright.dialects import PassManager, ir
from tilewright.dialects.context import make_context


@functools.cache
def help_of_llvm(known: Architecture = cpus.X86) -> tuple[list[str], set[str]]:
    """The names of CPUs and of features that LLVM knows, which it prints for the CPU "help"."""
    code = f"from tilewright.dialects import codegen; codegen._target_machine('{known.triple}', 'help', '', 0)"
    text = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stderr
    names, features = text.split("Available features", 1)
    return re.findall(r"^  (\S+) +- Select", names, re.M), set(re.findall(r"^  (\S+) +- ", features, re.M))


def of_llvm(cpu: str, changes: str = "", known: Architecture = cpus.X86) -> set[str]:
    """The features that LLVM gives a CPU."""
    quoted = ", ".join(f'"{change}"' for change in changes.split(","))
    given = f", features = <[{quoted}]>" if changes else ""
    attribute = f'#llvm.target<triple = "{known.triple}", chip = "{cpu}"{given}>'
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(f"module attributes {{llvm.target = {attribute}}} {{}}")
        upstream = "llvm-target-to-target-features{initialize-llvm-targets=true}"
        PassManager.parse(f"builtin.module({upstream})").run(module.operation)
        return set(re.findall(r'"\+([^"]+)"', str(module)))
