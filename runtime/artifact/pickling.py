"""Pickles of programs: the paths of its files, or its code and weights.

Loading runs code: unpickle only data from sources that you trust.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..process.link import link
from .on_disk import Code, LoadedProgram, assemble, load, read_description
from .variants import choose
from .weights import Weights

_OUT_OF_BAND = 5  # the first of pickle's protocols that takes buffers without a copy


@dataclass(frozen=True)
class InFiles:
    """A program that was loaded from files, which must be there and the same: weights are never copied."""

    path: Path
    digest: str

    def load(self) -> LoadedProgram:
        """The program; ArtifactError where its files are gone, or others."""
        return load(self.path, sealed=False, digest=self.digest)


@dataclass(frozen=True)
class Whole:
    """A program that was compiled in this process, or unpickled: objects, and the bytes of its weights file."""

    objects: tuple[bytes, ...]
    weights: Any

    def load(self) -> LoadedProgram:
        """The program; ArtifactError where it is not for this CPU."""
        where = "the pickled program"
        code = Code(self.objects)
        weights = None if self.weights is None else Weights.of(memoryview(self.weights), f"the weights of {where}")
        whole = read_description(code, where)
        choose(whole, where)  # before the code is linked
        return assemble(link(self.objects), code, whole, weights, where)


Kept = InFiles | Whole


def to_picklable(program: LoadedProgram, protocol: int) -> Kept:
    """The pickled form of a program for pickle's ``protocol``. A program in this process's engine becomes objects.

    ArtifactError where a code generator of the user's has given a function of this process.
    """
    program.manifest.demand_portable("cannot pickle the program")
    if program.path is not None:
        return InFiles(program.path, program.code.digest)
    weights = program.weights.data if program.weights is not None and program.weights.in_file else None
    if weights is not None:
        weights = pickle.PickleBuffer(weights.data) if protocol >= _OUT_OF_BAND else weights.tobytes()
    return Whole(program.code.all_objects(), weights)
