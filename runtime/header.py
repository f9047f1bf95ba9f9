"""C headers for compiled programs, made of what a program says about itself.

``tilewright.h`` beside this file is the same in every header; what is generated behind it is constants, and functions
that take the program's tensors as arrays of its own types.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from .. import cpus
from ..dlpack import dlpack_dtype
from ..errors import ArtifactError
from ..model import TensorInfo, numpy_dtype, open_sizes
from ..program import exported
from .manifest import Manifest
from .weights import Weights

_SUPPORT = Path(__file__).with_name("tilewright.h")

_BEGIN = 4096  # bytes of a weights file that have its fingerprint
_FNV_START, _FNV_PRIME = 0xCBF29CE484222325, 0x100000001B3


@dataclass(frozen=True)
class Tensor:
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
    def elements(self) -> int:
        """How many elements it has."""
        return self.info.nbytes // numpy_dtype(self.info.dtype).itemsize

    def __str__(self) -> str:
        return f"{self.info.name} {self.info.dtype}[{','.join(map(str, self.info.static_shape))}]"


@dataclass(frozen=True)
class Interface:
    """How C calls one program of an artifact.

    ``name`` begins all names of the header. ``text`` is the artifact's manifest as its code has it, ``number`` that of
    the program. ``linked``: the functions of the program are linked in, under names that begin with ``name``, and not
    in a shared library.
    """

    name: str
    manifest: Manifest
    text: bytes
    weights: Weights | None
    number: int = 0
    linked: bool = False

    @cached_property
    def inputs(self) -> tuple[Tensor, ...]:
        """The inputs in order."""
        return tuple(_tensors("in", self.manifest.inputs))

    @cached_property
    def outputs(self) -> tuple[Tensor, ...]:
        """The outputs in order."""
        return tuple(_tensors("out", self.manifest.outputs))

    def header(self) -> str:
        """The header: C99, everything in it is a constant or a static function."""
        guard = f"{self.name.upper()}_H"
        sides = (f"{', '.join(map(str, side)) or 'nothing'}" for side in (self.inputs, self.outputs))
        about = _comment(f"{self.manifest.name}: {' -> '.join(sides)}; for target '{self.manifest.target}'.")
        parts = [f"{about}\n#ifndef {guard}\n#define {guard}\n", _SUPPORT.read_text(), *self._constants()]
        return "\n".join([*parts, self._program(), self._load(), self._run(), "#endif\n"])

    def macro(self, tensor: Tensor) -> str:
        """The macro with the number of a tensor's elements."""
        return f"{self.name}_{tensor.argument}_ELEMENTS".upper()

    def _constants(self) -> Iterator[str]:
        tensors = (*self.inputs, *self.outputs)
        for tensor in tensors:
            yield f"{_comment(str(tensor))}\n#define {self.macro(tensor)} {tensor.elements}"
            if tensor.info.shape:
                extents = ", ".join(map(str, tensor.info.static_shape))
                yield f"static const int64_t {self._shape(tensor)}[] = {{{extents}}};"
        yield ""
        yield _table(f"tw_tensor {self.name}_tensors", [*map(self._tensor, tensors), "{NULL, {kDLInt, 8, 1}, 0, NULL}"])
        flags = [*map(string, cpus.ARCHITECTURES[self.manifest.arch].linux_flags(self.manifest.cpu_features)), "NULL"]
        yield _table(f"char *const {self.name}_cpu_flags", flags)
        offsets = textwrap.wrap(", ".join(map(str, [*self._offsets(), 0])), 116)
        yield _table(f"uint64_t {self.name}_weights", [row.removesuffix(",") for row in offsets])

    def _shape(self, tensor: Tensor) -> str:
        return f"{self.name}_{tensor.argument}_shape" if tensor.info.shape else "NULL"

    def _tensor(self, tensor: Tensor) -> str:
        code, bits = dlpack_dtype(tensor.info.dtype)
        return f"{{{string(tensor.info.name)}, {{{code}, {bits}, 1}}, {len(tensor.info.shape)}, {self._shape(tensor)}}}"

    def _offsets(self) -> list[int]:
        if self.weights is None:
            return []
        base = self.weights.data.ctypes.data
        return [int(a) - base for a in self.weights.addresses(self.manifest.params, self.manifest.fingerprint)]

    def _program(self) -> str:
        begin = self.weights.data[:_BEGIN].tobytes() if self.weights else b""
        fields = {
            "name": string(self.name),
            "target": string(self.manifest.target),
            "cpu_flags": f"{self.name}_cpu_flags",
            "manifest_hash": f"{_fnv(self.text):#x}u",
            "fingerprint": string(self.manifest.fingerprint),
            "fingerprint_at": max(begin.find(self.manifest.fingerprint.encode()), 0),
            "weights_bytes": self.weights.data.nbytes if self.weights else 0,
            "weight_count": len(self.manifest.params),
            "weights": f"{self.name}_weights",
            "inputs": len(self.inputs),
            "outputs": len(self.outputs),
            "tensors": f"{self.name}_tensors",
        }
        lines = "".join(f"  .{name} = {value},\n" for name, value in fields.items())
        return f"static const tw_program {self.name}_program = {{\n{lines}}};\n\ntypedef tw_model {self.name}_t;\n"

    def _load(self) -> str:
        name, create = self.name, exported("create", self.number)
        common = "weights, threads, error, size);"
        if self.linked:
            rest = "(void *self, const TVMFFIAny *arguments, int32_t count, TVMFFIAny *result);\n"
            before = f"int {name}_{create}{rest}int {name}_metadata{rest}"
            parameters, start = "", f"tw_start(&{name}_program, {name}_{create}, {name}_metadata, {common}"
        else:
            before, parameters = "", "const char *library, "
            start = f'tw_load(&{name}_program, library, "__tvm_ffi_{create}", {common}'
        parameters += "const char *weights, int threads, char *error, size_t size"
        about = "/* NULL where it fails. Without weights any name of them will do; 0 threads is one for each CPU. */"
        return f"{before}{about}\nstatic inline {name}_t *{name}_load({parameters}) {{\n  return {start}\n}}\n"

    def _run(self) -> str:
        name = self.name
        given = [f"const {tensor.type} *{tensor.argument}" for tensor in self.inputs]
        taken = [f"{tensor.type} *{tensor.argument}" for tensor in self.outputs]
        parameters = ", ".join([f"{name}_t *model", *given, *taken, "char *error, size_t size"])
        inputs, outputs = (", ".join([*(t.argument for t in side), "NULL"]) for side in (self.inputs, self.outputs))
        return (
            f"/* Writes the outputs; 0, or -1 where it fails. */\nstatic inline int {name}_run({parameters}) {{\n"
            f"  const void *const inputs[] = {{{inputs}}};\n  void *const outputs[] = {{{outputs}}};\n"
            f"  return tw_run(model, inputs, outputs, error, size);\n}}\n\n"
            f"static inline void {name}_free({name}_t *model) {{\n  tw_free(model);\n}}\n"
        )


def callable_from_c(manifest: Manifest, number: int, where: str) -> Manifest:
    """The manifest of an artifact's ``number``-th program. ArtifactError if there is none, or only Python runs it."""
    programs = manifest.programs
    if number not in range(len(programs)):
        raise ArtifactError(f"{where} has no specialized program {number}: it has {len(programs) - 1} of them")
    if programs[number].steps is not None:
        raise ArtifactError(f"{where} cannot be called from C: {_remedy(manifest)}")
    return programs[number]


def _remedy(manifest: Manifest) -> str:
    """Why the program needs Python, and what else there is."""
    own = (f"--specialized {i} ({sizes})" for i, sizes in enumerate(manifest.specializations, 1))
    return open_sizes(manifest.inputs) + (f", or take {' or '.join(own)}" if manifest.specialized else "")


def _tensors(role: str, infos: Iterable[TensorInfo]) -> Iterator[Tensor]:
    """Tensors under names that differ in C, of macros as well."""
    taken: set[str] = set()
    for info in infos:
        name = stem = f"{role}_{_identifier(info.name)}"
        count = 1
        while name.upper() in taken:
            count += 1
            name = f"{stem}_{count}"
        taken.add(name.upper())
        yield Tensor(info, name)


def _identifier(text: str) -> str:
    return re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_") or "tensor"


def prefix(text: str) -> str:
    """A prefix of C names; those that begin with ``tw_`` are taken."""
    name = _identifier(text)
    return f"model_{name}" if name[0].isdigit() or name == "tw" or name.startswith("tw_") else name


def _fnv(data: bytes) -> int:
    """FNV-1a of 64 bits: tells two texts apart, if nobody means to deceive."""
    value = _FNV_START
    for byte in data:
        value = (value ^ byte) * _FNV_PRIME & (1 << 64) - 1
    return value


def string(text: str) -> str:
    """A C string literal."""
    plain = set(range(32, 127)) - set(b'"\\?')
    return '"' + "".join(chr(b) if b in plain else f"\\{b:03o}" for b in text.encode()) + '"'


def _comment(text: str) -> str:
    """A C comment of one line."""
    return f"/* {' '.join(text.split()).replace('*/', '* /').replace('/*', '/ *')} */"


def _table(declared: str, rows: Sequence[str]) -> str:
    return f"static const {declared}[] = {{\n" + "".join(f"  {row},\n" for row in rows) + "};\n"
