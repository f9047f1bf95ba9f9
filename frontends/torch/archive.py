"""Files of exported programs (``model.pt2``), read without unpickling anything: to unpickle is to run code.

``torch.export.load`` unpickles example inputs, and weights and constants that the file says are pickled. Here the
former are left out, and a file with others, with compiled code or with custom objects is refused.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from torch._export.serde.serialize import _SYM_OPS, SerializedArtifact, deserialize
from torch.export import ExportedProgram
from torch.export.pt2_archive import constants as places
from torch.export.pt2_archive._package import PT2ArchiveReader, _load_constants, _load_state_dict

from ...errors import ModelError

# Sizes are read by sympy, which evaluates Python: only symbols, numbers and what sizes are made of may be in one.
_SYMBOL = re.compile(r"Symbol\('(?:[suz]|zuf)\d+'", re.ASCII)
_SIZE = re.compile(r"(?:[A-Za-z_]\w*|\d+|[-+*/%(),<>=&|~ ])*", re.ASCII)
_WORD = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_WORDS_OF_SIZES = frozenset(
    re.findall(
        r"\w+",
        """
    Symbol Integer Rational Add Mul Pow Mod FloorDiv ModularIndexing Where PythonMod CleanDiv CeilToInt
    FloorToInt CeilDiv LShift RShift PowByNatural FloatPow FloatTrueDiv IntTrueDiv TruncToFloat TruncToInt
    RoundToInt ToFloat Identity IsNonOverlappingAndDenseIndicator Max Min Abs Equality Unequality
    StrictLessThan LessThan StrictGreaterThan GreaterThan Eq Ne Lt Le Gt Ge And Or Not Piecewise oo int_oo
    true false True False positive integer nonnegative nonzero
    """,
    )
)
# Names become Python that torch generates.
_NAME = re.compile(r"[\w.+:-]*", re.ASCII)
_OPERATOR = re.compile(r"torch\.ops\.(?:aten|prims|quantized_decomposed|higher_order)(?:\.\w+)+", re.ASCII)
_OF_SIZES = frozenset(f"{op.__module__}.{op.__name__}" for op in _SYM_OPS) | {"_operator.getitem"}
_FREE_TEXTS = ("as_string", "as_strings", "in_spec", "out_spec")  # which stay texts
_MODEL = "model"  # what torch.export.save calls the program
_REMEDY = "write it by torch.export.save"


def read(path: Path) -> ExportedProgram:
    """The program of a file. ModelError, in one line, for what is none, or cannot be read without running its code."""
    try:
        with open(path, "rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror or error}") from error
    if magic != b"PK\x03\x04":
        raise ModelError(f"{path} is no exported program: {_REMEDY}")
    try:
        with PT2ArchiveReader(str(path)) as archive:
            return _program(archive, path)
    except ModelError:
        raise
    except Exception as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[-1].split(". ")[0]
        if "archive_format" in reason:
            raise ModelError(f"{path} is no exported program but another archive of torch: {_REMEDY}") from error
        raise ModelError(f"{path} cannot be read as an exported program: {reason}") from error


def _program(archive: PT2ArchiveReader, path: Path) -> ExportedProgram:
    names = archive.get_file_names()
    model = places.MODELS_FILENAME_FORMAT.format(_MODEL)
    if model not in names:
        raise ModelError(f"{path} is no exported program but another archive of torch: {_REMEDY}")
    if any(name.startswith(places.AOTINDUCTOR_DIR) for name in names):
        raise ModelError(f"{path} has compiled code, which is not run: {_REMEDY}")
    for folder, form in (
        (places.WEIGHTS_DIR, places.WEIGHTS_CONFIG_FILENAME_FORMAT),
        (places.CONSTANTS_DIR, places.CONSTANTS_CONFIG_FILENAME_FORMAT),
    ):
        if f"{folder}{_MODEL}.pt" in names:
            raise ModelError(f"{path} has pickled weights, as older versions of torch wrote them: {_REMEDY} again")
        _refuse_pickles(path, json.loads(archive.read_string(form.format(_MODEL)))["config"])
    saved = _harmless(path, archive.read_bytes(model))
    weights, constants = _load_state_dict(archive, _MODEL), _load_constants(archive, _MODEL)
    assert isinstance(weights, dict) and isinstance(constants, dict)
    return deserialize(SerializedArtifact(saved, weights, constants, b""))  # type: ignore[arg-type]


def _refuse_pickles(path: Path, entries: dict[str, Any]) -> None:
    for name, entry in entries.items():
        kept = entry["path_name"]
        plain = kept.startswith((places.WEIGHT_FILENAME_PREFIX, places.TENSOR_CONSTANT_FILENAME_PREFIX))
        if entry.get("use_pickle") is not False or not plain:
            raise ModelError(
                f"{path} has '{name}' as a pickle, which is code, and not run: make it a plain tensor, and {_REMEDY}"
            )


def _harmless(path: Path, saved: bytes) -> bytes:
    """The program's graph with all that torch would make Python of checked, or left out."""
    program = json.loads(saved)
    program["guards_code"] = []
    _check(path, program)
    return json.dumps(program).encode()


def _check(path: Path, value: Any, key: str = "") -> None:
    if isinstance(value, dict):
        for name, inner in value.items():
            _check_text(path, name, "")
            if name == "metadata":
                value[name] = {k: text for k, text in inner.items() if k == "nn_module_stack"}
            elif name not in _FREE_TEXTS:
                _check(path, inner, name)
    elif isinstance(value, list):
        for inner in value:
            _check(path, inner, key)
    elif isinstance(value, str):
        _check_text(path, value, key)


def _check_text(path: Path, text: str, key: str) -> None:
    if key == "expr_str":
        plain = _SYMBOL.sub("Symbol(", text)
        fits = _SIZE.fullmatch(plain) and _WORDS_OF_SIZES.issuperset(_WORD.findall(plain))
        what = "a size that is none"
    elif key == "target" and "." in text and text.startswith(("torch.", "_operator.", "math.", "#")):
        fits, what = _OPERATOR.fullmatch(text) or text in _OF_SIZES, "an op that is not torch's own"
    else:
        fits, what = _NAME.fullmatch(text), "a name that is none"
    if not fits:
        raise ModelError(f"{path} has {what}, {text[:60]!r}: {_REMEDY}")
