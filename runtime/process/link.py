"""From object files to functions in this process, without a linker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ...core.errors import ArtifactError, InputError, first_line
from ...core.program import make_export_name
from ...core.target import host_features
from .ffi import tvm_ffi
from .threads import load_openmp

# Errors that compiled code raises arrive as the classes that Python raises.
tvm_ffi.register_error("InputError", InputError)
tvm_ffi.register_error("MemoryError", MemoryError)

# The linker asks a C++ compiler where its library is; our objects use none, so name one that is not there.
_NO_COMPILER = "no-c++-compiler-is-needed"


class Library(Protocol):
    """Linked code: packed functions by name. AttributeError for a name that it lacks."""

    def get_function(self, name: str) -> tvm_ffi.Function:
        """The function, which keeps the code alive."""
        ...


@dataclass(frozen=True)
class Numbered:
    """The functions of one of the programs in ``library``, by the names that those of the first one have."""

    library: Library
    number: int

    def get_function(self, name: str) -> tvm_ffi.Function:
        """The program's function of this name."""
        return self.library.get_function(make_export_name(name, self.number))


def link(objects: Sequence[bytes | Path]) -> tvm_ffi.Module:
    """Link objects into a module whose packed functions can be called. It unmaps the code when it is dropped."""
    import tvm_ffi_orcjit

    load_openmp()
    host_features()  # asks Linux for registers of matrices, without which their first instruction ends the process
    try:
        return tvm_ffi_orcjit.default_session().load_module(list(objects), cxx=_NO_COMPILER)
    except (RuntimeError, ValueError) as error:
        raise ArtifactError(f"the program's objects cannot be linked: {first_line(error)}") from error
