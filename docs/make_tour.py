"""Write docs/tour.md: a block of a ResNet on its way through the compiler, with the IR of each stage.

``make tour`` runs this; a test compares the page with what it writes.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

import tilewright as tw
from tilewright.dialects import ir
from tilewright.driver.api import emit, make_options
from tilewright.passes.infra.base import Pass
from tilewright.passes.infra.instruments import Instrument

PAGE = Path(__file__).with_name("tour.md")
TARGET = "x86 -mcpu=x86-64-v4"  # the same everywhere
KERNEL = "conv_add_max"  # the last convolution with all that is fused to it

MODEL = """\
<ir_version: 10, opset_import: ["": 21]>
block (float[1, 256, 14, 14] x) => (float[1, 256, 14, 14] y) {
  a = Conv(x, w1)
  b = Relu(a)
  c = Conv<pads = [1, 1, 1, 1]>(b, w2)
  d = Relu(c)
  e = Conv(d, w3)
  f = Add(e, x)
  y = Relu(f)
}
"""
WEIGHTS = {"w1": (64, 256, 1, 1), "w2": (64, 64, 3, 3), "w3": (256, 64, 1, 1)}

TEXT = """\
# Tour

This page follows a block of ResNet-50 through the compiler. `make tour` writes it from a compilation for
`{target}`, so what it shows is what the compiler does. `linalg.generic {{…}}` leaves out the maps and the iterator
types; other omissions are marked by `…`.

## 1. The model

```
{model}```

## 2. Import: linalg on tensors

`frontends/onnx` makes a function `@main` of it. Each node is structured ops whose bodies say what happens to an
element. Weights are arguments; their data stays in the file. These are the last three nodes:

```mlir
{imported}
```

## 3. Graph passes: layout, algorithm, fusion

`passes/graph` rewrites `@main`. `convert-layout` puts channels last, so the block begins and ends with a
transpose. `winograd` rewrites the 3x3 convolution. `pack-weights` changes the order of weights in memory.
`fuse-ops` decides which ops become one kernel, `outline` makes a function of each, and `plan-memory` gives each
value a place:

```mlir
{planned}
```

The slots name an input, an output, a weight, or an offset in the arena, the one block of memory for all
intermediate values.

## 4. One kernel

`@{kernel}` is the last convolution with the addition and the ReLU. Its weight is packed in blocks of 32 channels:

```mlir
{fused}
```

## 5. The schedule

`passes/schedule/families` chooses the loops from the shapes and the target's numbers. A schedule is a value, which
`tilewright explain --full` prints and `--schedules` replaces:

```
{schedule}
```

A tile is 14 pixels by 32 channels. With vectors of 16 floats its sums take 28 of the 32 registers, and stay there
for the whole sum.

## 6. Loops and tiles

`apply-schedule` builds the loops. Inside is the same computation on the tile's slices:

```mlir
{tiled}
```

## 7. Vectors

`vectorize` makes vectors of the tile's ops, and `bufferize` memory of tensors. In the loop over the input's
channels, each step loads 32 weights once and multiplies them with 14 numbers:

```mlir
{vectors}
```

## 8. Code

LLVM turns one step of the loop into {fmas} multiply-adds on registers: two vectors of weights, and a number of
each pixel that `vbroadcastss` repeats for both:

```asm
{code}
```

The objects of all kernels, an entry that calls them in order, and the manifest are linked into `model.so`. The
packed weights go into `model.safetensors`.

## Your room

| you want to | go to | begin with |
|---|---|---|
| accept another ONNX operator | `frontends/onnx/ops/` | [add an operator](add-an-operator.md) |
| accept what PyTorch exports | `frontends/torch/`, `passes/normalize/` | [PyTorch](pytorch.md) |
| rewrite graphs | `passes/graph/` | [add a pass](add-a-pass.md), [graph passes](graph-passes.md) |
| decide what is fused | `passes/graph/fuse_ops.py` | [graph passes](graph-passes.md#rules-of-fusion) |
| make a kernel faster | `passes/schedule/families/` | [add a kernel family](add-a-kernel-family.md) |
| change what tiles become | `passes/schedule/tiling/`, `passes/lower/` | [architecture](architecture.md#kernels) |
| work on dynamic shapes | `core/sizes.py`, `passes/schedule/dynamic/` | [dynamic shapes](dynamic-shapes.md) |
| change how programs run | `runtime/` | [runtime](runtime.md) |
| change how compilations run | `driver/`, `workers/` | [runtime](runtime.md#workers) |
| add a command | `tools/` | `tools/cli.py` |
"""


@dataclass
class Texts(Instrument):
    """Keeps the module after each pass, by the kernel (none for the graph) and the pass, and the kernels' schedules."""

    part: str = ""
    kept: dict[tuple[str, str], str] = field(default_factory=dict)
    schedules: dict[str, str] = field(default_factory=dict)

    def after(self, stage: Pass, module: ir.Module, index: int) -> None:
        """Keep the text."""
        self.kept[self.part, stage.name] = str(module)
        function = module.body.operations[0]
        if stage.name == "apply-schedule" and "tw.schedule" in function.attributes:
            self.schedules[self.part] = ir.StringAttr(function.attributes["tw.schedule"]).value

    def fork(self, part: str) -> Texts:
        """Another instrument that keeps its texts in the same place."""
        return Texts(part, self.kept, self.schedules)


def make_tour() -> str:
    """The page's text."""
    texts = Texts()
    with tw.PassContext(instruments=[texts]):
        options = make_options(TARGET, num_threads=2, cache=False)
        code = _inner_loop(emit(_model(), "asm", options=options, workers=0).decode())
    kernel = next(name for name in texts.schedules if name.startswith(KERNEL))
    return TEXT.format(
        target=TARGET,
        model=MODEL,
        kernel=kernel,
        imported=_last_nodes(_function(texts.kept["", "report-outside"], "main")),
        planned=_function(texts.kept["", "plan-memory"], "main"),
        fused=_function(texts.kept[kernel, "collapse-loops"], kernel),
        schedule=texts.schedules[kernel],
        tiled=_function(texts.kept[kernel, "apply-schedule"], kernel),
        vectors=_one_step(_function(texts.kept[kernel, "unroll-sums"], kernel)),
        fmas=sum("vfmadd" in line for line in code),
        code=_shorten(code, 8, 5),
    )


def _model() -> onnx.ModelProto:
    model, random = onnx.parser.parse_model(MODEL), np.random.default_rng(0)
    weights = {name: random.random(shape, np.float32) for name, shape in WEIGHTS.items()}
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    return model


def _function(text: str, name: str) -> str:
    """A function of a module, without indentation; maps, attributes and what is long are left out."""
    found = re.search(rf"^  func\.func @{re.escape(name)}\(.*?^  }}$", text, re.DOTALL | re.MULTILINE)
    assert found, f"no function {name}"
    text = re.sub(r"\{indexing_maps = .*?iterator_types = \[.*?\]\}", "{…}", found[0])
    text = re.sub(r"attributes \{.*?\} \{$", "attributes {…} {", text, count=1, flags=re.MULTILINE)
    text = re.sub(r"tw\.nodes = \[[^]]*\], ", "", text)
    return "\n".join(_fold(line.removeprefix("  ")) for line in text.splitlines())


def _fold(line: str) -> str:
    """A line of at most 118 characters: of one that is longer the operands' types are left out, or its end."""
    if len(line) > 118:
        line = re.sub(r" : \((?:tensor<[^>]*>(?:, )?)+\) ->", " : (…) ->", line)
    return line if len(line) <= 118 else f"{line[:115]} …"


def _last_nodes(function: str) -> str:
    """The function's head, and what the last three nodes have become."""
    lines = function.splitlines()
    sums = [number for number, line in enumerate(lines) if "linalg.fill" in line]
    return "\n".join([lines[0], "  …", *lines[sums[-1] - 1 :]])


def _one_step(function: str) -> str:
    """The body of the innermost loop, with two of its multiply-adds."""
    lines = function.splitlines()
    loop = next(number for number, line in enumerate(lines) if "-> (vector<" in line)
    end = next(number for number in range(loop, len(lines)) if "scf.yield" in lines[number])
    return "\n".join([*lines[loop : loop + 11], "    …", *lines[end : end + 2]])


def _inner_loop(assembly: str) -> list[str]:
    """The loop up to its jump that has the most multiply-adds in a kernel whose name begins with ``KERNEL``."""
    body = re.search(rf"^([\w.]*\b{KERNEL}_\w+__body):.*?^\.Lfunc_end", assembly, re.DOTALL | re.MULTILINE)
    assert body, "no assembly of the kernel"
    blocks = re.split(r"^(?=\.LBB\w+:)", body[0], flags=re.MULTILINE)
    best = max(blocks, key=lambda block: block.count("vfmadd"))
    lines = [line.split("#")[0].rstrip().expandtabs(8) for line in best.splitlines()]
    end = next(number for number, line in enumerate(lines) if re.match(r"\s+j", line))
    return [line for line in lines[: end + 1] if line.strip() and not re.match(r"\s*\.(?!LBB)", line)]


def _shorten(lines: list[str], first: int, last: int) -> str:
    return "\n".join([*lines[:first], "        …", *lines[-last:]])


if __name__ == "__main__":
    PAGE.write_text(make_tour())
    print(PAGE.name, "written", file=sys.stderr)
