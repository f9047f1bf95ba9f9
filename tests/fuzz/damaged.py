"""What becomes of mutants of random models, and of the zoo's small networks: whatever they are, compiling and running
them must not harm the process."""

from __future__ import annotations

import math
import signal
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from pathlib import Path
from random import Random
from typing import Any, NoReturn

import numpy as np
from fuzz.generator import generate
from fuzz.harm import of_error, of_lost
from fuzz.mutations import mutate
from fuzz.values import draw_array
from parallel import call_all

import tilewright as tw
from tilewright.core.limits import UNTRUSTED
from tilewright.core.model import OBJECTS, TensorInfo
from tilewright.frontends import import_model
from tilewright.runtime.module import Module
from tilewright.tools import networks
from tilewright.tools.debugging.isolation import Lost
from tilewright.tools.debugging.verdict import Verdict

Number = tuple[int, int]  # seed, index
EACH = 8  # mutants of a random model
NETWORKS = 4  # one of so many mutants is of a network
_RUN_SECONDS = 10  # a loop may have any number of steps: that a run takes long is no fault
_SIZE = 2  # of open extents
_MOST_ELEMENTS = 1 << 26  # of inputs that are drawn


def verdicts(numbers: Sequence[Number], processes: int, seconds: float) -> Iterator[tuple[Number, Verdict]]:
    """What becomes of each mutant, which is made, compiled and run in a child process of limited memory.

    agrees: it was compiled. refused: an error of one line says why it was not, or does not run. internal: it says that
    the compiler is at fault. error, crash, hang: these harm who compiles it.
    """
    for number, found in zip(numbers, call_all(check, numbers, processes, seconds), strict=True):
        yield number, of_lost(found) if isinstance(found, Lost) else found


def check(number: Number) -> Verdict:
    """Make a mutant, compile it as one that is not trusted, and run it, all in this process."""
    try:
        module = _compiled(mutant(number))
        if not any(info.dtype in OBJECTS for info in module.inputs) and _elements(module) < _MOST_ELEMENTS:
            _run(module, Random(f"{number}:inputs"))
    except Exception as error:
        return of_error(error)
    return Verdict("agrees")


def _compiled(data: bytes) -> Module:
    """The model, which is not trusted, compiled in this process: it is a child, whose time and memory are limited."""
    import_model(data, limits=UNTRUSTED)
    return tw.compile(data, workers=0, num_threads=1, cache=False)


def mutant(number: Number) -> bytes:
    """The bytes of a mutant; the same for the same numbers."""
    seed, index = number
    base, other = _model(seed, index // EACH), _model(seed, index // EACH + 1)
    if index % NETWORKS == 0:
        base = _network(index // NETWORKS % len(networks.SMALL))
    return mutate(base, other, Random(f"{seed}:{index}:mutant"))


@cache
def _network(index: int) -> bytes:
    return networks.build(list(networks.SMALL)[index]).SerializeToString()


@lru_cache(4)
def _model(seed: int, index: int) -> bytes:
    return generate(seed, index)[0].SerializeToString()


def _run(module: Module, random: Random) -> None:
    def stop(*_: Any) -> NoReturn:
        raise TimeoutError

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(_RUN_SECONDS)
    try:
        module.run({info.name: _drawn(info, random) for info in module.inputs})
    except TimeoutError:
        return
    finally:
        signal.alarm(0)


def _elements(module: Module) -> int:
    return sum(math.prod(_shape(info)) for info in module.inputs)


def _drawn(info: TensorInfo, random: Random) -> np.ndarray:
    return draw_array(random, info.dtype, _shape(info))


def _shape(info: TensorInfo) -> tuple[int, ...]:
    return tuple(n if isinstance(n, int) else _SIZE for n in info.shape)


def save(number: Number, verdict: Verdict, path: Path) -> str:
    """Write a mutant; says where it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(mutant(number))
    return f"{path}: {verdict.reason}"
