"""Calls in child processes: whose time is limited, and which time counts."""

from __future__ import annotations

import time
from itertools import count

import pytest

from tilewright.tools.debugging import isolation
from tilewright.tools.debugging.isolation import Child, Lost


def test_a_call_that_does_not_end_is_lost_and_the_next_one_is_not():
    child = Child(time.sleep, 1)
    assert [child.call(60), child.call(0)] == [Lost("no answer in 1 s"), None]


@pytest.mark.parametrize(
    "waited, answer",
    [
        (lambda: count(0, 1.0), None),  # each second
        (lambda: count(0, 0.0), Lost("no answer in 1 s")),
    ],
)
def test_the_time_in_which_a_child_waits_for_a_processor_does_not_count(waited, answer, monkeypatch):
    seconds = waited()
    monkeypatch.setattr(isolation, "_read_wait", lambda process: next(seconds))
    child = Child(time.sleep, 1)
    assert child.call(2.5) == answer


def test_how_long_a_process_waited_is_known():
    child = Child(time.sleep, 10)
    child.call(0)
    assert child._running is not None
    assert 0 <= isolation._read_wait(child._running[0]) < 10
