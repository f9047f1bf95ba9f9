"""Make an ONNX model, compile it, run it, save it and load it again."""

import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

import tilewright as tw

model = onnx.parser.parse_model("""
<ir_version: 10, opset_import: ["": 21]>
perceptron (float[8, 64] x) => (float[8, 10] y) {
  h = MatMul(x, w)
  r = Relu(h)
  y = MatMul(r, v)
}
""")
random = np.random.default_rng(0)
w, v = random.random((64, 128), np.float32), random.random((128, 10), np.float32)
model.graph.initializer.extend([numpy_helper.from_array(w, "w"), numpy_helper.from_array(v, "v")])

program = tw.compile(model)
print(program)
x = random.random((8, 64), np.float32)
y = program.run({"x": x})["y"]
np.testing.assert_allclose(y, np.maximum(x @ w, 0) @ v, rtol=1e-4)

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "perceptron.so"
    program.export_library(path)
    loaded = tw.load_module(path)  # imports no MLIR
    assert np.array_equal(loaded.run([x])[0], y)
print("the program gives numpy's numbers, and the same from its file")
