"""Models that other compilers make linalg of: what a frontend says of its source, and what it gets back as text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..core.limits import ModelLimits
from ..core.model import Param, TensorInfo
from ..core.sizes import Extent

if TYPE_CHECKING:
    from ..workers import Pool


@dataclass(frozen=True)
class Samples:
    """The texts of a model for sizes of its symbols: its own for the first of ``points``, ``texts`` for the others.

    ``known`` are extents that its values have. ``scalars`` are what inputs of rank 0 hold, by the inputs' names.
    """

    points: tuple[Mapping[str, int], ...]
    texts: tuple[str, ...]
    known: tuple[Extent, ...]
    scalars: Mapping[str, Extent] = field(default_factory=dict)


@dataclass(frozen=True)
class LinalgText:
    """A model as text of another compiler's MLIR: a function whose arguments are ``inputs``, then ``params``.

    A model of open sizes is given by what it is at some of them (``samples``).
    """

    text: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    params: Mapping[str, Param]
    name: str
    samples: Samples | None = None


class ForeignSource(ABC):
    """A source that is not a model file and has its own way to linalg. A frontend makes it from a user's object."""

    name: str

    def prepare(self, pool: Pool, limits: ModelLimits) -> None:
        """Keep to these ``limits`` from now on, and let a worker of ``pool`` look first at what is not trusted."""
        return

    @abstractmethod
    def digest(self) -> str:
        """A hash of all that decides what it becomes, weights included."""

    @abstractmethod
    def conversion(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """The function that converts it, in a worker that may import what the compiler's must not, and its arguments.

        Both are pickled: plain data.
        """

    @abstractmethod
    def read_answer(self, answer: Any) -> LinalgText:
        """The model, of what that function gave: its weights are where they were."""

    @abstractmethod
    def wrap_module(self, module: Any) -> Any:
        """The compiled program as what its users call."""
