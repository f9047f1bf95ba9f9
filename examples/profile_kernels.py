"""Show where the time of a model goes, kernel by kernel."""

import numpy as np
import onnx

import tilewright as tw

model = onnx.parser.parse_model("""
<ir_version: 10, opset_import: ["": 21]>
block (float[256, 512] x, float[512, 512] w) => (float[256, 512] y) {
  h = MatMul(x, w)
  g = Gelu(h)
  s = Add(g, x)
  y = Softmax(s)
}
""")
program = tw.compile(model)
random = np.random.default_rng(0)
inputs = {"x": random.random((256, 512), np.float32), "w": random.random((512, 512), np.float32)}
report = program.profile(inputs, rounds=10)
print(report.table(top=10))
