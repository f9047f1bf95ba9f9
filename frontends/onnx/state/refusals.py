"""What cannot be converted and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from onnx import NodeProto

from ..proto.nodes import Place, op_title


class Unsupported(Exception):
    """A converter's refusal; the importer turns all of them into one UnsupportedError.

    ``kind`` is what a remedy depends on (``examine/remedies.py``). Without a reason, other nodes have said why.
    """

    def __init__(self, reason: str, kind: str = "use") -> None:
        super().__init__(reason)
        self.kind = kind


@dataclass(frozen=True)
class Refusal:
    """Why a node could not be converted; of what is no node (an input, a tensor) ``op`` says what it is.

    ``kind`` is that of ``Unsupported``.
    """

    op: str
    node: str
    reason: str
    kind: str = "use"
    place: Place | None = None


@dataclass
class Refusals:
    """All reasons, each once however often its node was tried, and which nodes of the file failed or did not.

    Of those that did not, ``hosted`` call functions of the host.
    """

    reasons: dict[Refusal, None] = field(default_factory=dict)
    converted: set[Place] = field(default_factory=set)
    failed: set[Place] = field(default_factory=set)
    hosted: set[Place] = field(default_factory=set)

    def __iter__(self) -> Iterator[Refusal]:
        return iter(self.reasons)

    def __len__(self) -> int:
        return len(self.reasons)

    def copy(self) -> Refusals:
        """The reasons so far, to come back to when another way is tried."""
        return Refusals(dict(self.reasons), set(self.converted), set(self.failed), set(self.hosted))

    def restore(self, other: Refusals) -> None:
        """Forget what was said since ``other`` was copied."""
        kept = other.copy()
        self.reasons, self.converted, self.failed, self.hosted = kept.reasons, kept.converted, kept.failed, kept.hosted

    def add(self, node: NodeProto, name: str, place: Place, error: Exception) -> None:
        """Note that a node failed; an error without a reason says that other nodes have one."""
        self.failed.add(place)
        if str(error):
            refusal = Refusal(op_title(node), name, str(error), getattr(error, "kind", "dtype"), place)
            self.reasons[refusal] = None

    def add_other(self, what: str, name: str, reason: str) -> None:
        """Note why a tensor or an input has no value."""
        self.reasons[Refusal(what, name, reason, "dtype")] = None
