"""A C program that loads a compiled program, runs it once and prints the outputs."""

from __future__ import annotations

from pathlib import Path
from string import Template

from ...core.model import numpy_dtype
from ...core.printed import name_text
from ..artifact.c_text import format_string
from .header import Interface
from .session_header import SessionInterface
from .tensor import CTensor

_TEMPLATE = Path(__file__).with_name("example.c")
_SHOWN = 8  # elements of an output
_STEPS = """  int failed = !model;
  for (long step = strtol(argv[{argument}], NULL, 10); !failed && step > 0; step--)
    failed = {call};
  if (failed) {{"""


def write_example(interface: Interface, header: str) -> str:
    """The text of the program, which includes ``header``, that of the interface."""
    session = isinstance(interface, SessionInterface)
    files = [*(() if interface.linked else ("LIBRARY",)), *(("WEIGHTS",) if interface.weights_file else ())]
    behind = 1 + len(files) + session
    first = behind + len(interface.sizes)  # of the arguments that are files of tensors
    given, taken = [[tensor.argument for tensor in side] for side in (interface.given, interface.made)]
    declared = interface.given if interface.is_dynamic else interface.tensors
    freed = [f"free({tensor.argument})" for tensor in interface.given if tensor.is_dynamic]
    freed += [f"{interface.name}_free_outputs(&outputs)"] if interface.is_dynamic else []
    freed += [f"{interface.name}_free_states(&states)"] if session else []
    run = ", ".join(["&sizes", *given, *(["&states"] if session else []), "&outputs"])
    run = run if interface.is_dynamic else ", ".join([*given, *taken])
    call = f"{interface.name}_run(model, {run}, error, sizeof error)"
    filled = [_fill_input(interface, tensor, i) for i, tensor in enumerate(interface.given, first)]
    printed = [_print_output(interface, t, i) for i, t in enumerate(interface.made, first + len(interface.given))]
    return Template(_TEMPLATE.read_text()).substitute(
        name=interface.name,
        header=header,
        how="so often on the same inputs, which states tell apart," if session else "once",
        arguments=" ".join([*files, *(["STEPS"] if session else []), *interface.sizes]),
        first=first,
        sizes=_take_sizes(interface, behind),
        load=", ".join([*(f"argv[{i}]" for i in range(1, 1 + len(files))), "0, error, sizeof error"]),
        inputs="\n".join([*(_declare_array(interface, tensor) for tensor in declared), *filled]),
        running=_STEPS.format(argument=behind - 1, call=call) if session else f"  if (!model || {call}) {{",
        outputs="\n".join(printed),
        freed="".join(f"  {line};\n" for line in freed),
    )


def _take_sizes(interface: Interface, first: int) -> str:
    """C that takes the sizes from the arguments from ``first`` on, and has room for the outputs."""
    if not interface.is_dynamic:
        return ""
    name, numbers = interface.name, [f"strtoll(argv[{i}], NULL, 10)" for i, _ in enumerate(interface.sizes, first)]
    declared = f"  const {name}_sizes_t sizes = {{{', '.join(numbers or ['0'])}}};\n"
    kept = ["outputs", *(["states"] if isinstance(interface, SessionInterface) else [])]
    return declared + "".join(f"  {name}_{each}_t {each};\n  memset(&{each}, 0, sizeof {each});\n" for each in kept)


def _declare_array(interface: Interface, tensor: CTensor) -> str:
    """C that has memory for a tensor; there are no arrays without elements."""
    if tensor.is_dynamic:
        elements = interface.elements(tensor)
        return (
            f"  {tensor.type} *{tensor.argument} = calloc({elements} + 1, sizeof *{tensor.argument});\n"
            f'  if (!{tensor.argument}) return fail("out of memory");'
        )
    return f"  static {tensor.type} {tensor.argument}[{interface.elements(tensor) if tensor.elements else 1}];"


def _fill_input(interface: Interface, tensor: CTensor, argument: int) -> str:
    """C that fills an input from a file, or with small numbers (zero where C has none of its kind)."""
    kind = numpy_dtype(tensor.info.dtype).kind
    known = {"i": "i % 2", "u": "i % 2", "b": "i % 2", "f": f"({tensor.type})(i % 17) / 16"}
    value = "0" if kind == "f" and tensor.type.startswith("uint") else known.get(kind, "0")
    if not tensor.is_dynamic and not tensor.elements:
        return _transfer(interface, tensor, argument, "rb")
    each = f"size_t i = 0; argc <= {argument} && i < {interface.elements(tensor)}; i++"
    return f"{_transfer(interface, tensor, argument, 'rb')}\n  for ({each}) {tensor.argument}[i] = {value};"


def _print_output(interface: Interface, tensor: CTensor, argument: int) -> str:
    """C that prints an output, and writes it to a file if one is given."""
    data = f"outputs.{tensor.argument}.data" if interface.is_dynamic else tensor.argument
    form, value = _format(tensor.type, data)
    elements = interface.elements(tensor) if interface.is_dynamic else str(tensor.elements)
    lines = [_transfer(interface, tensor, argument, "wb", data), _print_head(tensor)]
    if elements != "0":
        lines.append(f'  for (size_t i = 0; i < {_SHOWN} && i < {elements}; i++) printf("{form}", {value});')
    return "\n".join([*lines, f'  puts({elements} > {_SHOWN} ? " ..." : "");'])


def _print_head(tensor: CTensor) -> str:
    """C that prints an output's name, dtype and shape."""
    begin = f"{name_text(tensor.info.name)} {tensor.info.dtype}["
    if not tensor.is_dynamic:
        return f'  printf("%s:", {format_string(str(tensor))});'
    rank = len(tensor.info.shape)
    extents = "".join(f", (long long)outputs.{tensor.argument}.shape[{axis}]" for axis in range(rank))
    return f'  printf("%s{",".join(["%lld"] * rank)}]:", {format_string(begin)}{extents});'


def _transfer(interface: Interface, tensor: CTensor, argument: int, mode: str, data: str = "") -> str:
    """C that reads or writes the memory of a tensor, at ``data`` if that is not its name."""
    data = data or tensor.argument
    size = f"{interface.elements(tensor)} * sizeof *{data}"
    return f'  if (argc > {argument} && transfer(argv[{argument}], "{mode}", {data}, {size})) return 1;'


def _format(kind: str, data: str) -> tuple[str, str]:
    """How C prints the ``i``-th element of this type."""
    at = f"{data}[i]"
    if "_Complex" in kind:
        parts = f"(({kind.removesuffix(' _Complex')} *){data})"
        return " %g%+gi", f"{parts}[2 * i], {parts}[2 * i + 1]"
    if kind in ("float", "double"):
        return " %g", at
    if kind.startswith("int"):
        return " %lld", f"(long long){at}"
    return " %llu", f"(unsigned long long){at}"
