"""A code generator of your own that writes C: chains of elementwise ops and 3x3 convolutions, compiled by cc."""

import math
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import onnx

import tilewright as tw

EXPRESSIONS = {
    "Add": "{0} + {1}",
    "Sub": "{0} - {1}",
    "Mul": "{0} * {1}",
    "Div": "{0} / {1}",
    "Neg": "-{0}",
    "Relu": "{0} > 0 ? {0} : 0",
    "Sigmoid": "1 / (1 + expf(-{0}))",
    "Tanh": "tanhf({0})",
}


def supports(subgraph: tw.Subgraph) -> bool:
    """Take float32 nodes of known sizes: elementwise ones, and 3x3 convolutions whose filters are constants."""
    return all(map(supports_node, subgraph.nodes))


def supports_node(node: tw.SubgraphNode) -> bool:
    values = [value for value in (*node.inputs, *node.outputs) if value is not None]
    if node.domain != "" or any(value.dtype != "float32" or 0 in value.shape for value in values):
        return False
    if node.op_type != "Conv":
        return node.op_type in EXPRESSIONS
    filters = node.inputs[1]
    plain = node.attributes.get("group", 1) == 1 and node.attributes.get("auto_pad", "NOTSET") == "NOTSET"
    return plain and filters.is_constant and filters.shape[2:] == (3, 3)


class Writer:
    """The C of one subgraph: ``names`` of variables that hold values, ``lines`` of the body, sizes of ``buffers``."""

    def __init__(self, subgraph: tw.Subgraph) -> None:
        self.subgraph = subgraph
        passed = (*subgraph.inputs, *subgraph.constants, *subgraph.outputs)
        self.names = {value: f"p{number}" for number, value in enumerate(passed)}
        self.lines: list[str] = []
        self.buffers: dict[str, int] = {}

    def write(self) -> str:
        """The file: one function, which takes a pointer for each input, constant and output, and gives a status."""
        nodes = list(self.subgraph.nodes)
        while nodes:
            chain = self.take_chain(nodes)
            if chain:
                self.write_chain(chain)
            else:
                self.write_conv(nodes[0])
            del nodes[: len(chain) or 1]
        read = [f"const float *{self.names[v]}" for v in (*self.subgraph.inputs, *self.subgraph.constants)]
        made = [f"float *{self.names[v]}" for v in self.subgraph.outputs]
        begins = [f"float *{name} = malloc({size} * sizeof(float));" for name, size in self.buffers.items()]
        there = " && ".join(self.buffers) or "1"
        ends = [f"free({name});" for name in self.buffers]
        body = "\n".join([*begins, f"int failed = !({there});", "if (!failed) {", *self.lines, "}", *ends])
        head = "#include <math.h>\n#include <stdlib.h>\n"
        return f"{head}int subgraph({', '.join(read + made)}) {{\n{body}\nreturn failed;\n}}\n"

    def take_chain(self, nodes: list[tw.SubgraphNode]) -> list[tw.SubgraphNode]:
        """The elementwise nodes that come first and have results of one shape: they share a loop."""
        chain: list[tw.SubgraphNode] = []
        for node in nodes:
            if node.op_type == "Conv" or (chain and node.outputs[0].shape != chain[0].outputs[0].shape):
                break
            chain.append(node)
        return chain

    def place(self, value: tw.SubgraphValue) -> str:
        """The pointer to a value that is stored: the caller's, or a buffer of our own."""
        if value not in self.names:
            self.names[value] = f"b{len(self.buffers)}"
            self.buffers[self.names[value]] = math.prod(value.shape)
        return self.names[value]

    def write_chain(self, chain: list[tw.SubgraphNode]) -> None:
        """One loop over the elements of a chain's results, which are scalars unless others read them."""
        shape, scalars = chain[0].outputs[0].shape, {}
        axes = "".join(f"for (long i{axis} = 0; i{axis} < {n}; i{axis}++) " for axis, n in enumerate(shape))
        self.lines.append(f"{axes}{{")
        for number, node in enumerate(chain):
            [made] = node.outputs
            operands = [scalars.get(value) or self.read(value, len(shape)) for value in node.inputs]
            self.lines.append(f"float s{number} = {EXPRESSIONS[node.op_type].format(*operands)};")
            outside = [reader for reader in self.subgraph.readers(made) if reader not in chain]
            if made in self.subgraph.outputs or outside:
                self.lines.append(f"{self.place(made)}[{offset(made.shape, len(shape))}] = s{number};")
            scalars[made] = f"s{number}"
        self.lines.append("}")

    def read(self, value: tw.SubgraphValue, rank: int) -> str:
        return f"{self.names[value]}[{offset(value.shape, rank)}]"

    def write_conv(self, node: tw.SubgraphNode) -> None:
        """A direct convolution: a loop for each axis of the result, then over channels and the window."""
        x, w, *bias = node.inputs
        [y] = node.outputs
        (batch, channels, height, width), (_, filters, rows, columns) = x.shape, y.shape
        (top, left, *_), strides = node.attributes.get("pads", [0] * 4), node.attributes.get("strides", [1, 1])
        dilations = node.attributes.get("dilations", [1, 1])
        begin = f"{self.names[bias[0]]}[f]" if bias and bias[0] is not None else "0"
        self.lines.append(f"""
for (long n = 0; n < {batch}; n++) for (long f = 0; f < {filters}; f++)
for (long i = 0; i < {rows}; i++) for (long j = 0; j < {columns}; j++) {{
  float sum = {begin};
  for (long c = 0; c < {channels}; c++) for (long u = 0; u < 3; u++) for (long v = 0; v < 3; v++) {{
    long h = i * {strides[0]} + u * {dilations[0]} - {top}, k = j * {strides[1]} + v * {dilations[1]} - {left};
    if (h >= 0 && h < {height} && k >= 0 && k < {width})
      sum += {self.names[x]}[((n * {channels} + c) * {height} + h) * {width} + k]
           * {self.names[w]}[((f * {channels} + c) * 3 + u) * 3 + v];
  }}
  {self.place(y)}[((n * {filters} + f) * {rows} + i) * {columns} + j] = sum;
}}""")


def offset(shape: tuple[int, ...], rank: int) -> str:
    """Where an operand of this shape has its element for the indices of a result, by the rules of broadcasting."""
    terms, step = [], 1
    for axis, extent in reversed(list(enumerate(shape, rank - len(shape)))):
        terms += [f"i{axis} * {step}"] if extent != 1 else []
        step *= extent
    return " + ".join(reversed(terms)) or "0"


def compile_c(subgraph: tw.Subgraph) -> tw.NativeCode:
    """Compile a subgraph to an object; its constants stay in the program's file of weights."""
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder, "subgraph.c"), Path(folder, "subgraph.o")
        source.write_text(Writer(subgraph).write())
        done = subprocess.run(["cc", "-O3", "-fPIC", "-c", source, "-o", made], capture_output=True, text=True)
        if done.returncode:
            raise ValueError(f"cc refuses its C: {done.stderr.splitlines()[0]}")
        return tw.NativeCode(made.read_bytes(), "subgraph", tuple(value.name for value in subgraph.constants))


def make_model() -> onnx.ModelProto:
    """A residual block, with a pooling that is left to Tilewright."""
    model = onnx.parser.parse_model("""
    <ir_version: 10, opset_import: ["": 21]>
    block (float[1, 8, 16, 16] x) => (float[1, 8, 8, 8] y)
    {
      c = Conv<pads: ints = [1, 1, 1, 1]>(x, w, b)
      r = Relu(c)
      a = Add(r, x)
      s = Sigmoid(a)
      p = MaxPool<kernel_shape: ints = [2, 2], strides: ints = [2, 2]>(s)
      t = Tanh(p)
      y = Mul(t, p)
    }
    """)
    random = np.random.default_rng(0)
    for name, shape in (("w", (8, 8, 3, 3)), ("b", (8,))):
        weight = random.standard_normal(shape).astype(np.float32) / 8
        model.graph.initializer.append(onnx.numpy_helper.from_array(weight, name))
    return model


if __name__ == "__main__":
    model = make_model()
    tw.register_codegen("c", supports, compile_c)
    program = tw.compile(model)
    x = np.random.default_rng(1).standard_normal((1, 8, 16, 16)).astype(np.float32)
    y = program.run([x])[0]
    np.testing.assert_allclose(y, tw.compile(model, codegens=[]).run([x])[0], rtol=1e-5, atol=1e-5)
    print(program.profile({"x": x}, rounds=10).table())
