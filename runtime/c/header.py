"""C headers for compiled programs, made of what a program says about itself.

``tilewright.h`` beside this file is the same in every header; what is generated behind it is constants, and functions
that take the program's tensors as arrays of its own types.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ...core import cpus
from ...core.dlpack import dlpack_dtype
from ...core.errors import ArtifactError
from ...core.printed import name_text
from ...core.program import make_export_name
from ...core.sizes import Sym, bounds_of
from ..artifact.belongings import made_for
from ..artifact.c_text import format_array, format_comment, format_string, format_struct, make_distinct, make_identifier
from ..artifact.manifest import Manifest
from ..artifact.weights import Weights
from .routine import RoutineText, demand_determined, sizes_of
from .tensor import CTensor, name_tensors

_SUPPORT, _OPEN = (Path(__file__).with_name(name) for name in ("tilewright.h", "tilewright_open.h"))

_BEGIN = 4096  # bytes of a weights file that have its fingerprint
_FNV_START, _FNV_PRIME = 0xCBF29CE484222325, 0x100000001B3
PACKED_PREFIX = "__tvm_ffi_"
_ANY = "(void *self, const TVMFFIAny *arguments, int32_t count, TVMFFIAny *result);"


@dataclass(frozen=True)
class Interface:
    """How C calls one program of an artifact.

    ``name`` begins all names of the header. ``text`` is the artifact's manifest as its code has it, ``number`` that of
    the program among those for a target. ``linked``: the functions of the program are linked in, under names that begin
    with ``name``, and not in a shared library. ``weights`` are the artifact's, wherever they are, ``file`` is its
    name.
    """

    name: str
    manifest: Manifest
    text: bytes
    weights: Weights | None
    number: int = 0
    linked: bool = False
    file: str = ""

    @cached_property
    def programs(self) -> tuple[tuple[int, Manifest], ...]:
        """The program for each target, behind the number that its functions have."""
        found, first = [], 0
        for each in self.manifest.by_target:
            found.append((first + self.number, each.programs[self.number]))
            first += len(each.programs)
        return tuple(found)

    @cached_property
    def inputs(self) -> tuple[CTensor, ...]:
        """The inputs in order."""
        return name_tensors("in", self._own.inputs)

    @cached_property
    def outputs(self) -> tuple[CTensor, ...]:
        """The outputs in order."""
        return name_tensors("out", self._own.outputs)

    @cached_property
    def sizes(self) -> tuple[str, ...]:
        """The C names of the dynamic sizes; empty for a program without any."""
        return tuple(make_distinct(f"dim_{make_identifier(str(size))}" for size in self._sizes))

    @property
    def is_dynamic(self) -> bool:
        """Return whether it is carried out by ``tilewright_open.h``, and has no entry."""
        return self._own.steps is not None

    @property
    def weights_file(self) -> bool:
        """Return whether loading takes a file of weights (any name does where there are none)."""
        return not self.manifest.weights_inside

    @property
    def functions(self) -> tuple[str, ...]:
        """The functions of the code that C calls."""
        own = ("kernel", "run_calls") if self.is_dynamic else ("create",)
        numbered = [make_export_name(function, number) for number, _ in self.programs for function in own]
        return (*numbered, "metadata", *(("weights",) if self.manifest.weights_inside else ()))

    def header(self) -> str:
        """The header: C99, everything in it is a constant or a static function."""
        guard = f"{self.name.upper()}_H"
        sides = (f"{', '.join(map(str, side)) or 'nothing'}" for side in (self.inputs, self.outputs))
        targets = ", ".join(f"'{program.target}'" for _, program in self.programs)
        about = format_comment(f"{self._own.name}: {' -> '.join(sides)}; for target {targets}.")
        parts = [f"{made_for(self.file)}\n{about}\n#ifndef {guard}\n#define {guard}\n", _SUPPORT.read_text()]
        parts += [_OPEN.read_text(), *self._dynamic_types()] if self.is_dynamic else []
        parts += [*self._constants(), *self._variants(), self._program(), self._load()]
        return "\n".join([*parts, *([self._shapes()] if self.is_dynamic else []), self._run(), "#endif\n"])

    def elements(self, tensor: CTensor) -> str:
        """C for the number of a tensor's elements; where sizes are open, a field of ``shapes``."""
        return f"shapes.{tensor.argument}_elements" if tensor.is_dynamic else self._macro(tensor)

    @property
    def _own(self) -> Manifest:
        return self.programs[0][1]

    @property
    def _sizes(self) -> tuple[Sym, ...]:
        return sizes_of(self._own)

    @property
    def tensors(self) -> tuple[CTensor, ...]:
        """The inputs, then the outputs."""
        return (*self.inputs, *self.outputs)

    def _macro(self, tensor: CTensor) -> str:
        return f"{self.name}_{tensor.argument}_ELEMENTS".upper()

    def _constants(self) -> Iterator[str]:
        for tensor in (t for t in self.tensors if not t.is_dynamic):
            yield f"{format_comment(str(tensor))}\n#define {self._macro(tensor)} {tensor.elements}"
            if tensor.info.shape:
                extents = ", ".join(map(str, tensor.info.static_shape))
                yield f"static const int64_t {self._shape(tensor)}[] = {{{extents}}};"
        yield ""
        rows = [*map(self._tensor, self.tensors), "{NULL, {kDLInt, 8, 1}, 0, NULL}"]
        yield format_array(f"tw_tensor {self.name}_tensors", rows)

    def _dynamic_types(self) -> Iterator[str]:
        """The structures of what the caller gives, and what follows from it."""
        named_sizes = zip(self.sizes, self._sizes, strict=True)
        lines = [f"  int64_t {name}; {format_comment(f'{size}: {bounds_of(size)}')}" for name, size in named_sizes]
        yield _structure("The sizes that the program leaves open.", lines or ["  int none;"], f"{self.name}_sizes_t")
        lines = []
        for tensor in (t for t in self.tensors if t.is_dynamic):
            lines.append(f"  int64_t {tensor.argument}_shape[{len(tensor.info.shape)}]; {format_comment(str(tensor))}")
            lines.append(f"  size_t {tensor.argument}_elements;")
        about = "The shapes of the tensors that have such sizes, and how many elements these have."
        yield _structure(about, lines or ["  int none;"], f"{self.name}_shapes_t")

    def _shape(self, tensor: CTensor) -> str:
        return f"{self.name}_{tensor.argument}_shape" if tensor.info.shape and not tensor.is_dynamic else "NULL"

    def _tensor(self, tensor: CTensor) -> str:
        code, bits = dlpack_dtype(tensor.info.dtype)
        name = format_string(name_text(tensor.info.name))
        return f"{{{name}, {{{code}, {bits}, 1}}, {len(tensor.info.shape)}, {self._shape(tensor)}}}"

    def _variants(self) -> Iterator[str]:
        """The declarations for each target, their table, and the table of functions that are linked in."""
        rows: list[str] = []
        for i, (number, program) in enumerate(self.programs):
            suffix = f"_{i}" if i else ""
            flags = map(format_string, cpus.ARCHITECTURES[program.arch].linux_flags(program.cpu_features))
            yield format_array(f"char *const {self.name}_cpu_flags{suffix}", [*flags, "NULL"])
            offsets = textwrap.wrap(", ".join(map(str, [*self._offsets(program), 0])), 116)
            yield format_array(
                f"uint64_t {self.name}_weight_offsets{suffix}", [row.removesuffix(",") for row in offsets]
            )
            if program.steps is not None:
                yield RoutineText(program, self.name, suffix).text()
            routine = f"&{self.name}_routine{suffix}" if program.steps is not None else "NULL"
            rows.append(
                f"{{{format_string(program.target)}, {self.name}_cpu_flags{suffix}, {number}, {len(program.params)}, "
                f"{self.name}_weight_offsets{suffix}, {routine}}}"
            )
        yield format_array(f"tw_variant {self.name}_variants", rows)
        if self.linked:
            yield "".join(f"int {self.name}_{function}{_ANY}\n" for function in self.functions)
            symbols = [
                f"{{{format_string(PACKED_PREFIX + function)}, {self.name}_{function}}}" for function in self.functions
            ]
            yield format_array(f"tw_symbol {self.name}_symbols", [*symbols, "{NULL, NULL}"])

    def _offsets(self, program: Manifest) -> list[int]:
        if self.weights is None:
            return []
        base = self.weights.data.ctypes.data
        return [int(a) - base for a in self.weights.addresses(program.params, program.fingerprint)]

    def _program(self) -> str:
        begin = self.weights.data[:_BEGIN].tobytes() if self.weights else b""
        fingerprint = self._own.fingerprint
        fields: dict[str, object] = {
            "name": format_string(self.name),
            "manifest_hash": f"{_fnv(self.text):#x}u",
            "fingerprint": format_string(fingerprint),
            "fingerprint_at": max(begin.find(fingerprint.encode()), 0),
            "weights_bytes": self.weights.data.nbytes if self.weights else 0,
            "weights_inside": int(not self.weights_file),
            "inputs": len(self.inputs),
            "outputs": len(self.outputs),
            "tensors": f"{self.name}_tensors",
            "variant_count": len(self.programs),
            "variants": f"{self.name}_variants",
            "symbols": f"{self.name}_symbols" if self.linked else "NULL",
        }
        model = "tw_open_model" if self.is_dynamic else "tw_model"
        return f"{format_struct(f'tw_program {self.name}_program', fields)}\ntypedef {model} {self.name}_t;\n"

    def _load(self) -> str:
        """The function that loads the program; it takes the names of those files that there are."""
        name, load = self.name, "tw_open_load" if self.is_dynamic else "tw_load"
        library, weights = ("NULL" if self.linked else "library"), ("weights" if self.weights_file else "NULL")
        files = [f"const char *{file}" for file in (library, weights) if file != "NULL"]
        about = ["NULL where it fails."]
        about += ["Without weights any name of them will do;"] if self.weights_file else []
        parameters = ", ".join([*files, "int threads", "char *error", "size_t size"])
        return (
            f"{format_comment(' '.join([*about, '0 threads is one for each CPU.']))}\n"
            f"static inline {name}_t *{name}_load({parameters}) {{\n"
            f"  return {load}(&{name}_program, {library}, {weights}, threads, error, size);\n}}\n"
        )

    def _given_sizes(self) -> str:
        return f"  const int64_t given[] = {{{', '.join([*(f'sizes->{name}' for name in self.sizes), '0'])}}};\n"

    def _shapes(self) -> str:
        """The function that computes the shapes of all tensors for given sizes."""
        open_tensors = [t for t in self.tensors if t.is_dynamic]
        places = [f"shapes->{t.argument}_shape" if t.is_dynamic else "NULL" for t in self.tensors]
        counted = "".join(
            f"  shapes->{t.argument}_elements = (size_t)tw_elements(shapes->{t.argument}_shape, {len(t.info.shape)});\n"
            for t in open_tensors
        )
        return (
            f"/* The shapes for these sizes; 0, or -1 where the program does not take them. */\n"
            f"static inline int {self.name}_shapes(const {self.name}_sizes_t *sizes, {self.name}_shapes_t *shapes, "
            f"char *error, size_t size) {{\n{self._given_sizes()}"
            f"  int64_t *const places[] = {{{', '.join([*places, 'NULL'])}}};\n  (void)sizes;\n"
            f"  if (tw_infer_shapes(&{self.name}_program, given, places, error, size)) return -1;\n{counted}"
            f"  return (void)shapes, 0;\n}}\n"
        )

    def _run(self) -> str:
        name = self.name
        given = [f"const {tensor.type} *{tensor.argument}" for tensor in self.inputs]
        taken = [f"{tensor.type} *{tensor.argument}" for tensor in self.outputs]
        sizes = [f"const {name}_sizes_t *sizes"] if self.is_dynamic else []
        parameters = ", ".join([f"{name}_t *model", *sizes, *given, *taken, "char *error, size_t size"])
        inputs, outputs = (", ".join([*(t.argument for t in side), "NULL"]) for side in (self.inputs, self.outputs))
        before, run, free = ("", "tw_run(model", "tw_free")
        if self.is_dynamic:
            before, run, free = f"{self._given_sizes()}  (void)sizes;\n", "tw_open_run(model, given", "tw_open_free"
        return (
            f"/* Writes the outputs; 0, or -1 where it fails. */\nstatic inline int {name}_run({parameters}) {{\n"
            f"{before}  const void *const inputs[] = {{{inputs}}};\n  void *const outputs[] = {{{outputs}}};\n"
            f"  return {run}, inputs, outputs, error, size);\n}}\n\n"
            f"static inline void {name}_free({name}_t *model) {{\n  {free}(model);\n}}\n"
        )


def demand_callable(manifest: Manifest, number: int, where: str) -> None:
    """Raise ArtifactError if an artifact has no ``number``-th program, or only Python runs it."""
    if number not in range(len(manifest.programs)):
        raise ArtifactError(f"{where} has no specialized program {number}: it has {len(manifest.programs) - 1} of them")
    own = (f"--specialized {i} ({sizes})" for i, sizes in enumerate(manifest.specializations, 1))
    remedy = f"; take {' or '.join(own)}" if manifest.specialized else ""
    for each in manifest.by_target:
        demand_determined(each.programs[number], where, remedy)


def _structure(about: str, lines: Sequence[str], name: str) -> str:
    return "\n".join([format_comment(about), "typedef struct {", *lines, f"}} {name};\n"])


def _fnv(data: bytes) -> int:
    """FNV-1a of 64 bits: tells two texts apart, if nobody means to deceive."""
    value = _FNV_START
    for byte in data:
        value = (value ^ byte) * _FNV_PRIME & (1 << 64) - 1
    return value
