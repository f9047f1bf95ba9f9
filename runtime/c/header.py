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
from string import Template

from ...core import cpus
from ...core.dlpack import dlpack_dtype
from ...core.errors import ArtifactError
from ...core.frame import FRAME_HEAD, FrameLayout
from ...core.model import OBJECTS
from ...core.printed import name_text
from ...core.program import describe_origin, make_export_name
from ...core.sizes import Extent, Sym, bounds_of
from ..artifact.belongings import made_for
from ..artifact.c_text import (
    format_array,
    format_comment,
    format_number,
    format_string,
    format_struct,
    make_distinct,
    make_identifier,
)
from ..artifact.manifest import Manifest
from ..artifact.weights import Weights
from .tensor import CTensor, name_tensors

_SUPPORT, _FRAME = (Path(__file__).with_name(name) for name in ("tilewright.h", "tilewright_frame.h"))

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

    @property
    def given(self) -> tuple[CTensor, ...]:
        """The inputs that a run takes."""
        return self.inputs

    @property
    def made(self) -> tuple[CTensor, ...]:
        """The outputs that a run gives."""
        return self.outputs

    @cached_property
    def sizes(self) -> tuple[str, ...]:
        """The C names of the dynamic sizes; empty for a program without any."""
        return tuple(make_distinct(f"dim_{make_identifier(str(size))}" for size in self._sizes))

    @property
    def is_dynamic(self) -> bool:
        """Return whether its ``main`` takes a frame (``tilewright_frame.h``)."""
        return self._own.routine is not None

    @property
    def weights_file(self) -> bool:
        """Return whether loading takes a file of weights (any name does where there are none)."""
        return not self.manifest.weights_inside

    @property
    def functions(self) -> tuple[str, ...]:
        """The functions of the code that C calls."""
        created = [make_export_name("create", number) for number, _ in self.programs]
        return (*created, "metadata", *(("weights",) if self.manifest.weights_inside else ()))

    def header(self) -> str:
        """The header: C99, everything in it is a constant or a static function."""
        guard = f"{self.name.upper()}_H"
        sides = (f"{', '.join(map(str, side)) or 'nothing'}" for side in (self.inputs, self.outputs))
        targets = ", ".join(f"'{program.target}'" for _, program in self.programs)
        about = format_comment(f"{self._own.name}: {' -> '.join(sides)}; for target {targets}.")
        parts = [f"{made_for(self.file)}\n{about}\n#ifndef {guard}\n#define {guard}\n", _SUPPORT.read_text()]
        if self.is_dynamic:
            parts += [Template(_FRAME.read_text()).substitute(head=FRAME_HEAD), *self._dynamic_types()]
        parts += [*self._constants(), *self._variants(), self._program(), self._load()]
        return "\n".join([*parts, self._run_frame() if self.is_dynamic else self._run(), "#endif\n"])

    def elements(self, tensor: CTensor) -> str:
        """C for the number of a tensor's elements, in terms of ``sizes`` and ``outputs``."""
        if self.is_dynamic and tensor in self.made:
            return f"outputs.{tensor.argument}.elements"
        if not tensor.is_dynamic:
            return self._macro(tensor)
        extents = ", ".join(self._extent(extent, "sizes.") for extent in tensor.info.shape)
        return f"(size_t)tw_elements((const int64_t[]){{{extents}}}, {len(tensor.info.shape)})"

    def _extent(self, extent: Extent, sizes: str) -> str:
        """C for an extent; ``sizes`` is what comes before the name of a size."""
        return f"{sizes}{self.sizes[self._sizes.index(extent)]}" if isinstance(extent, Sym) else format_number(extent)

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
        """The structures of what the caller gives, and of what it gets."""
        named_sizes = zip(self.sizes, self._sizes, strict=True)
        lines = [f"  int64_t {name}; {format_comment(f'{size}: {bounds_of(size)}')}" for name, size in named_sizes]
        yield make_structure(
            "The sizes that the program leaves open.", lines or ["  int none;"], f"{self.name}_sizes_t"
        )
        lines = []
        for tensor in self.made:
            fields = f"{tensor.type} *data; size_t bytes; int owned; int64_t shape[{max(len(tensor.info.shape), 1)}]"
            lines.append(f"  struct {{ {fields}; size_t elements; }} {tensor.argument}; {format_comment(str(tensor))}")
        about = (
            "What a run leaves. It writes to the memory at `data`, if that has enough `bytes`, and else to new memory, "
            "which is `owned` then: all zero is a good begin, and the next run may have the same."
        )
        yield make_structure(about, lines or ["  int none;"], f"{self.name}_outputs_t")

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
            rows.append(
                f"{{{format_string(program.target)}, {self.name}_cpu_flags{suffix}, {number}, {len(program.params)}, "
                f"{self.name}_weight_offsets{suffix}}}"
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
        return f"{format_struct(f'tw_program {self.name}_program', fields)}\ntypedef tw_model {self.name}_t;\n"

    def _load(self) -> str:
        """The function that loads the program; it takes the names of those files that there are."""
        name = self.name
        library, weights = ("NULL" if self.linked else "library"), ("weights" if self.weights_file else "NULL")
        files = [f"const char *{file}" for file in (library, weights) if file != "NULL"]
        about = ["NULL where it fails."]
        about += ["Without weights any name of them will do;"] if self.weights_file else []
        parameters = ", ".join([*files, "int threads", "char *error", "size_t size"])
        return (
            f"{format_comment(' '.join([*about, '0 threads is one for each CPU.']))}\n"
            f"static inline {name}_t *{name}_load({parameters}) {{\n"
            f"  return tw_load(&{name}_program, {library}, {weights}, threads, error, size);\n}}\n"
        )

    def _run(self) -> str:
        name = self.name
        given = [f"const {tensor.type} *{tensor.argument}" for tensor in self.inputs]
        taken = [f"{tensor.type} *{tensor.argument}" for tensor in self.outputs]
        parameters = ", ".join([f"{name}_t *model", *given, *taken, "char *error, size_t size"])
        inputs, outputs = (", ".join([*(t.argument for t in side), "NULL"]) for side in (self.inputs, self.outputs))
        return (
            f"/* Writes the outputs; 0, or -1 where it fails. */\nstatic inline int {name}_run({parameters}) {{\n"
            f"  const void *const inputs[] = {{{inputs}}};\n  void *const outputs[] = {{{outputs}}};\n"
            f"  return tw_run(model, inputs, outputs, error, size);\n}}\n\n{self._free()}"
        )

    def _free(self) -> str:
        return f"static inline void {self.name}_free({self.name}_t *model) {{\n  tw_free(model);\n}}\n"

    def _run_frame(self) -> str:
        """The function that runs the program on a frame, and the one that frees the outputs."""
        name, layout = self.name, self._own.frame
        given = [f"const {tensor.type} *{tensor.argument}" for tensor in self.given]
        arguments = [f"{name}_t *model", f"const {name}_sizes_t *sizes", *given, *self._more_arguments()]
        parameters = ", ".join([*arguments, f"{name}_outputs_t *outputs", "char *error, size_t size"])
        lines = [f"int64_t frame[{layout.words}] = {{0}};", "(void)sizes, (void)outputs;"]
        lines += [
            line for name, size in zip(self.sizes, self._sizes, strict=True) for line in _hold(name, size, self.name)
        ]
        lines += [*self._fill_frame(layout), "const int status = tw_run_frame(model, frame, error, size);"]
        lines += [*self._read_frame(layout), "return status;"]
        freed = [f"if (outputs->{t.argument}.owned) free(outputs->{t.argument}.data);" for t in self.made]
        freed.append("memset(outputs, 0, sizeof *outputs);")
        return (
            f"/* Computes the outputs; 0, or -1 where it fails. */\nstatic inline int {name}_run({parameters}) {{\n"
            f"{indent_lines(lines)}}}\n\n"
            f"/* Frees the memory of outputs that runs have made. */\n"
            f"static inline void {name}_free_outputs({name}_outputs_t *outputs) {{\n{indent_lines(freed)}}}\n\n"
            f"{self._free()}"
        )

    def _more_arguments(self) -> Sequence[str]:
        """What a run takes between inputs and outputs."""
        return ()

    def _fill_frame(self, layout: FrameLayout) -> Iterator[str]:
        """C that puts the inputs, and the outputs' memory, into the frame."""
        for tensor, place in zip(self.inputs, layout.inputs, strict=True):
            if tensor in self.given:
                words = [f"tw_word({tensor.argument})", *(self._extent(n, "sizes->") for n in tensor.info.shape)]
                yield from (f"frame[{at}] = {word};" for at, word in enumerate(words, place))
        for tensor, place in zip(self.outputs, layout.outputs, strict=True):
            if tensor in self.made:
                own = f"outputs->{tensor.argument}"
                yield f"frame[{place}] = tw_word({own}.data);"
                yield f"frame[{place + 1}] = (int64_t){own}.bytes;"

    def _read_frame(self, layout: FrameLayout) -> Iterator[str]:
        """C that takes the outputs from the frame."""
        for tensor, place in zip(self.outputs, layout.outputs, strict=True):
            if tensor in self.made:
                own, rank = f"outputs->{tensor.argument}", len(tensor.info.shape)
                taken = f"{own}.data, &{own}.bytes, &{own}.owned, {own}.shape, &{own}.elements"
                yield f"{own}.data = ({tensor.type} *)tw_take_output(frame + {place}, {rank}, {taken});"


def sizes_of(manifest: Manifest) -> tuple[Sym, ...]:
    """The sizes that a program's inputs leave open, each once."""
    return tuple(dict.fromkeys(n for info in manifest.inputs for n in info.shape if isinstance(n, Sym)))


def demand_callable(manifest: Manifest, number: int, where: str) -> None:
    """Raise ArtifactError if an artifact has no ``number``-th program, or only Python runs it."""
    if number not in range(len(manifest.programs)) or (number and number == manifest.session_number):
        raise ArtifactError(f"{where} has no specialized program {number}: it has {len(manifest.specialized)} of them")
    own = (f"--specialized {i} ({sizes})" for i, sizes in enumerate(manifest.specializations, 1))
    remedy = f"; take {' or '.join(own)}" if manifest.specialized else ""
    for each in manifest.by_target:
        if reason := next(_reasons(each.programs[number]), ""):
            raise ArtifactError(f"{where} cannot be called from C: {reason}{remedy}")


def _reasons(manifest: Manifest) -> Iterator[str]:
    """Why only Python runs a program."""
    for info in (*manifest.inputs, *manifest.outputs):
        if info.dtype in OBJECTS:
            yield f"'{info.name}' is a {info.dtype}, which Python holds"
        if not info.ranked:
            yield f"only the run knows the rank of '{info.name}'"
    for step in manifest.routine.calls if manifest.routine else ():
        if step.op == "host.call":
            yield f"{describe_origin(step)}is computed by a function of the runtime's Python"


def _hold(name: str, size: Sym, program: str) -> Iterator[str]:
    """C that refuses a size that the program was not compiled for."""
    within, value = bounds_of(size), f"sizes->{name}"
    tests = [f"{value} < {max(within.low or 0, 0)}"] + ([f"{value} > {within.high}"] if within.high is not None else [])
    begin, end = format_string(f"{program}: {size} is "), format_string(f", which must be {within}")
    yield f'if ({" || ".join(tests)}) return tw_fail(error, size, "%s%lld%s", {begin}, (long long){value}, {end});'


def indent_lines(lines: Sequence[str]) -> str:
    """Lines of C inside of a function."""
    return "".join(f"  {line}\n" for line in lines)


def make_structure(about: str, lines: Sequence[str], name: str) -> str:
    """The type of a structure in C."""
    return "\n".join([format_comment(about), "typedef struct {", *lines, f"}} {name};\n"])


def _fnv(data: bytes) -> int:
    """FNV-1a of 64 bits: tells two texts apart, if nobody means to deceive."""
    value = _FNV_START
    for byte in data:
        value = (value ^ byte) * _FNV_PRIME & (1 << 64) - 1
    return value
