"""Tables in markdown, and where their figures come from."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version

from tilewright.core.printed import name_text
from tilewright.core.target import cpu_name
from tilewright.tools._options import THIS_CPU


def format_table(rows: Sequence[Sequence[str]]) -> str:
    """A markdown table; the first row is its head."""
    head, *body = (f"| {' | '.join(map(name_text, row))} |" for row in rows)
    return "\n".join([head, "|" + "---|" * len(rows[0]), *body])


def describe_setup(packages: Sequence[str], target: str) -> str:
    """The CPU, a target that is not just that, and versions of packages: what figures mean nothing without."""
    other = [f"code for '{target}'"] if target != THIS_CPU else []
    return ", ".join([cpu_name(), *other, *(f"{package} {version(package)}" for package in packages)])
