"""Programs for several targets in one artifact: which of them this machine runs."""

from __future__ import annotations

import os

from ...core.errors import ArtifactError
from ...core.target import find_missing_features
from .manifest import Manifest

# Names the variant to take, by its CPU or its target, in place of the last that can run.
CHOICE = "TILEWRIGHT_VARIANT"


def choose(manifest: Manifest, where: str, wanted: str | None = None) -> tuple[int, Manifest]:
    """The variant that runs here: the last one, in the order of the target's CPUs, whose features this CPU has.

    Returns the number of its first program, and what is said of it alone. ``wanted``, or else $TILEWRIGHT_VARIANT where
    there are several, names one. Raises ArtifactError, naming ``where``, where there is none of that name, or none that
    can run on this CPU.
    """
    variants = manifest.by_target
    if wanted is None and len(variants) > 1:
        wanted = os.environ.get(CHOICE) or None
    candidates = [i for i, each in enumerate(variants) if wanted is None or wanted in names_of_variant(each)]
    if not candidates:
        known = ", ".join(f"'{each.target}'" for each in variants)
        raise ArtifactError(f"{where}: there is no variant '{wanted}'; those of the program are {known}")
    fitting = [i for i in candidates if variants[i].runs_here]
    if not fitting:
        _refuse([variants[i] for i in candidates], where)
    chosen = fitting[-1]
    first = sum(len(each.programs) for each in variants[:chosen])
    return first, manifest.alone(chosen)


def names_of_variant(manifest: Manifest) -> tuple[str, ...]:
    """The names of a variant: its target, and the CPU in it."""
    words = manifest.target.split()
    return (manifest.target, *(word.removeprefix("-mcpu=") for word in words if word.startswith("-mcpu=")))


def _refuse(variants: list[Manifest], where: str) -> None:
    if len(variants) == 1:
        return variants[0].check_cpu(where)
    needs = "; ".join(
        f"'{each.target}' needs {', '.join(find_missing_features(each.cpu_features))}" for each in variants
    )
    raise ArtifactError(
        f"{where}: compiled for several CPUs, this one lacks something of each: {needs}: compile the model for this CPU"
    )
