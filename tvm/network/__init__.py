"""Networks that are written by relay's functions: expressions, their types, and the ONNX models that they become."""
