"""Jobs for the tests of workers, in a module of their own: a worker must be able to import what it is to do."""

from __future__ import annotations

import os


def assert_and_abort() -> None:
    """Die as LLVM does on a failed assertion."""
    os.write(2, b"Assertion `false' failed.\n")
    os.abort()


def spin() -> None:
    """Never end."""
    while True:
        pass
