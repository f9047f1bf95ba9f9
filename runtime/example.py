"""A C program that loads a compiled program, runs it once and prints the outputs."""

from __future__ import annotations

from pathlib import Path
from string import Template

from ..model import numpy_dtype
from .header import Interface, Tensor, string

_TEMPLATE = Path(__file__).with_name("example.c")
_SHOWN = 8  # elements of an output


def example(interface: Interface, header: str) -> str:
    """The text of the program, which includes ``header``, that of the interface."""
    first = 2 if interface.linked else 3  # of the arguments that are files of tensors
    behind = first + len(interface.inputs)
    tensors = (*interface.inputs, *interface.outputs)
    arrays = [_array(interface, tensor) for tensor in tensors]
    filled = [_filled(interface, tensor, i) for i, tensor in enumerate(interface.inputs, first)]
    return Template(_TEMPLATE.read_text()).substitute(
        name=interface.name,
        header=header,
        arguments="WEIGHTS" if interface.linked else "LIBRARY WEIGHTS",
        first=first,
        given=", ".join(f"argv[{i}]" for i in range(1, first)),
        inputs="\n".join([*arrays, *filled]),
        tensors=", ".join(tensor.argument for tensor in tensors),
        outputs="\n".join(_printed(interface, tensor, i) for i, tensor in enumerate(interface.outputs, behind)),
    )


def _array(interface: Interface, tensor: Tensor) -> str:
    """C that has memory for a tensor; there are no arrays without elements."""
    return f"  static {tensor.type} {tensor.argument}[{interface.macro(tensor) if tensor.elements else 1}];"


def _filled(interface: Interface, tensor: Tensor, argument: int) -> str:
    """C that fills an input from a file, or with small numbers (zero where C has none of its kind)."""
    kind = numpy_dtype(tensor.info.dtype).kind
    known = {"i": "i % 2", "u": "i % 2", "b": "i % 2", "f": f"({tensor.type})(i % 17) / 16"}
    value = "0" if kind == "f" and tensor.type.startswith("uint") else known.get(kind, "0")
    if not tensor.elements:
        return _transferred(interface, tensor, argument, "rb")
    each = f"size_t i = 0; argc <= {argument} && i < {interface.macro(tensor)}; i++"
    return f"{_transferred(interface, tensor, argument, 'rb')}\n  for ({each}) {tensor.argument}[i] = {value};"


def _printed(interface: Interface, tensor: Tensor, argument: int) -> str:
    """C that prints an output, and writes it to a file if one is given."""
    form, value = _format(tensor)
    shown = min(_SHOWN, tensor.elements)
    end = " ...\\n" if tensor.elements > shown else "\\n"
    lines = [_transferred(interface, tensor, argument, "wb"), f'  printf("%s:", {string(str(tensor))});']
    if shown:
        lines.append(f'  for (size_t i = 0; i < {shown}; i++) printf("{form}", {value});')
    return "\n".join([*lines, f'  printf("{end}");'])


def _transferred(interface: Interface, tensor: Tensor, argument: int, mode: str) -> str:
    size = f"{interface.macro(tensor)} * sizeof *{tensor.argument}"
    return f'  if (argc > {argument} && transfer(argv[{argument}], "{mode}", {tensor.argument}, {size})) return 1;'


def _format(tensor: Tensor) -> tuple[str, str]:
    """How C prints the ``i``-th element."""
    at = f"{tensor.argument}[i]"
    if "_Complex" in tensor.type:
        parts = f"(({tensor.type.removesuffix(' _Complex')} *){tensor.argument})"
        return " %g%+gi", f"{parts}[2 * i], {parts}[2 * i + 1]"
    if tensor.type in ("float", "double"):
        return " %g", at
    if tensor.type.startswith("int"):
        return " %lld", f"(long long){at}"
    return " %llu", f"(unsigned long long){at}"
