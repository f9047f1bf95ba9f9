"""Targets of named CPUs as parameters of tests that run the code made for them."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any

import pytest

from tilewright.core.target import Target, detect_host

_ONE_OF = 4

# For tests of kernels that make code for one CPU whatever the module's target is: they run once.
FOR_THIS_MACHINE = pytest.mark.parametrize("target", ["x86"], indirect=True)


def targets(*cpus: str) -> list[Any]:
    """A parameter for each CPU; its test is skipped, with the reason, where this machine cannot run such code."""
    return [_parameter(f"x86 -mcpu={cpu}", pytest.mark.other_cpu) for cpu in cpus]


def slow_targets(*cpus: str) -> list[Any]:
    """The same, of CPUs that ``make test-all`` alone tests."""
    return [_parameter(f"x86 -mcpu={cpu}", pytest.mark.slow) for cpu in cpus]


def other_targets(*cpus: str) -> list[Any]:
    """The same beside this machine's own: a CPU with its vectors and registers is left to ``make test-all``, since
    kernels for it have the same schedules.
    """
    own = _shape(detect_host())
    alike = [_shape(Target.parse(f"x86 -mcpu={cpu}")) == own for cpu in cpus]
    return [p for cpu, same in zip(cpus, alike, strict=True) for p in (slow_targets if same else targets)(cpu)]


def sample_others(items: Iterable[pytest.Item]) -> None:
    """Leave all tests for another CPU but one of so many to ``make test-all``: of each kind of kernel some stay."""
    for item in items:
        if item.get_closest_marker("other_cpu") and zlib.crc32(item.nodeid.encode()) % _ONE_OF:
            item.add_marker(pytest.mark.slow)


def _shape(target: Target) -> tuple[Any, ...]:
    return target.lanes, target.registers, target.dot_product


def _parameter(text: str, *marks: pytest.MarkDecorator) -> Any:
    missing = Target.parse(text).find_missing()
    skip = pytest.mark.skipif(bool(missing), reason=f"this CPU lacks {', '.join(missing)}")
    return pytest.param(text, marks=(skip, *marks))


# For tests of kernels that compile for long and whose schedules other tests see for other CPUs as well.
OTHERS_ARE_SLOW = pytest.mark.parametrize("target", ["x86", *slow_targets("haswell", "x86-64-v2")], indirect=True)

# For tests of such kernels of which those that run the code are a part.
OTHERS_ALONE_ARE_SLOW = pytest.mark.parametrize("target", slow_targets("haswell", "x86-64-v2"), indirect=True)
