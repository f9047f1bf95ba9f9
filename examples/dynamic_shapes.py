"""One program for all batch sizes, with a faster one for a batch of 4."""

import numpy as np
import onnx

import tilewright as tw

model = onnx.parser.parse_model("""
<ir_version: 10, opset_import: ["": 21]>
softmax (float[batch, 1000] logits) => (float[batch, 1000] scores) {
  scores = Softmax(logits)
}
""")
program = tw.compile(model, input_shapes={"batch": "1..64"}, specialize=[{"batch": 4}])
print(program)
for batch in (1, 4, 7, 64):
    scores = program.run([np.random.default_rng(batch).random((batch, 1000), np.float32)])[0]
    np.testing.assert_allclose(scores.sum(axis=1), 1, rtol=1e-5)
try:
    program.run([np.zeros((65, 1000), np.float32)])
except tw.InputError as error:
    print("refused:", error)
