"""What a compiled program says about itself; it travels inside the program's object code as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from ..errors import ArtifactError
from ..model import TensorInfo
from ..target import cpu_flags

FORMAT = 1


@dataclass(frozen=True)
class Manifest:
    """``fingerprint`` names the weights that belong to the code; ``cpu_flags`` are the CPU features it may use."""

    name: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    params: tuple[TensorInfo, ...]
    fingerprint: str
    cpu_flags: tuple[str, ...]
    arena_bytes: int
    kernels: int
    options: dict[str, object]

    @property
    def weight_bytes(self) -> int:
        """Size of all weights in bytes."""
        return sum(info.nbytes for info in self.params)

    def to_json(self) -> str:
        """The text that ``from_json`` reads; the same for equal manifests."""
        return json.dumps({"format": FORMAT, **asdict(self)}, sort_keys=True, ensure_ascii=False)

    @staticmethod
    def from_json(text: str, where: str) -> Manifest:
        """Raises ArtifactError, naming ``where``, for a text of another format."""
        try:
            fields = json.loads(text)
            if fields.pop("format") != FORMAT:
                raise ArtifactError(f"{where}: made by another version of Tilewright: compile the model again")
            for key in ("inputs", "outputs", "params"):
                fields[key] = tuple(_tensors(fields[key]))
            fields["cpu_flags"] = tuple(fields["cpu_flags"])
            return Manifest(**fields)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ArtifactError(
                f"{where}: its description is not one of Tilewright's: compile the model again"
            ) from error

    def check_cpu(self, where: str) -> None:
        """Raise ArtifactError where this machine's CPU lacks a feature that the code may use."""
        missing = sorted(set(self.cpu_flags) - cpu_flags())
        if missing:
            raise ArtifactError(
                f"{where}: compiled for a CPU with {', '.join(missing)}, which this one lacks: compile the model here"
            )


def _tensors(records: Iterable[dict]) -> Iterable[TensorInfo]:
    return (TensorInfo(r["name"], tuple(r["shape"]), r["dtype"]) for r in records)
