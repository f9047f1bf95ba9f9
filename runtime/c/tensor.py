"""Tensors at a program's border, as C sees them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...core.model import TensorInfo, numpy_dtype
from ...core.printed import name_text
from ...core.sizes import has_dynamic_extents
from ..artifact.c_text import make_distinct, make_identifier


@dataclass(frozen=True)
class CTensor:
    """A tensor at the program's border. ``argument`` is what C calls it: ``in_x``, ``out_y``."""

    info: TensorInfo
    argument: str

    @property
    def type(self) -> str:
        """The C type of an element; types that C lacks are unsigned integers with their bits."""
        dtype = numpy_dtype(self.info.dtype)
        if dtype.kind in "iu":
            return f"{'u' if dtype.kind == 'u' else ''}int{dtype.itemsize * 8}_t"
        known = {
            "float32": "float",
            "float64": "double",
            "complex64": "float _Complex",
            "complex128": "double _Complex",
        }
        return known.get(self.info.dtype, f"uint{dtype.itemsize * 8}_t")

    @property
    def is_dynamic(self) -> bool:
        """Return whether it has dynamic sizes."""
        return has_dynamic_extents(self.info.shape)

    @property
    def elements(self) -> int:
        """How many elements it has, if its sizes are known."""
        return self.info.nbytes // numpy_dtype(self.info.dtype).itemsize

    def __str__(self) -> str:
        return f"{name_text(self.info.name)} {self.info.dtype}[{','.join(map(str, self.info.shape))}]"


def name_tensors(role: str, infos: Sequence[TensorInfo]) -> tuple[CTensor, ...]:
    """Tensors under names that differ in C, of macros as well."""
    names = make_distinct(f"{role}_{make_identifier(info.name)}" for info in infos)
    return tuple(CTensor(info, name) for info, name in zip(infos, names, strict=True))
