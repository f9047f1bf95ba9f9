"""What a compiled program says about itself; it travels inside the program's object code as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from ..errors import ArtifactError
from ..model import TensorInfo
from ..target import lacking

FORMAT = 2


@dataclass(frozen=True)
class Manifest:
    """``fingerprint`` names the weights that belong to the code; ``target`` and ``cpu_features`` say what it is for."""

    name: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    params: tuple[TensorInfo, ...]
    fingerprint: str
    target: str
    cpu_features: tuple[str, ...]
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
            fields["cpu_features"] = tuple(fields["cpu_features"])
            return Manifest(**fields)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ArtifactError(
                f"{where}: its description is not one of Tilewright's: compile the model again"
            ) from error

    def check_cpu(self, where: str) -> None:
        """Raise ArtifactError where this machine's CPU lacks a feature that the code may use."""
        if missing := lacking(self.cpu_features):
            raise ArtifactError(
                f"{where}: compiled for target '{self.target}', a CPU with {', '.join(missing)}, which this one lacks: "
                "compile the model for this CPU"
            )


def _tensors(records: Iterable[dict]) -> Iterable[TensorInfo]:
    return (TensorInfo(r["name"], tuple(r["shape"]), r["dtype"]) for r in records)
