"""Jobs for the tests of workers, in a module of their own: a worker must be able to import what it is to do."""

from __future__ import annotations

import os

import numpy as np

from tilewright import worker_process


def assert_and_abort() -> None:
    """Die as LLVM does on a failed assertion."""
    os.write(2, b"Assertion `false' failed.\n")
    os.abort()


def leave_in_a_cycle(nbytes: int) -> None:
    """Leave memory behind that only the garbage collector finds."""
    held: list[object] = [np.ones(nbytes, np.uint8)]
    held.append(held)


def own_bytes() -> int:
    """The worker's own memory."""
    return worker_process.resident()


def spin() -> None:
    """Never end."""
    while True:
        pass
