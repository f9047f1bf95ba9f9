"""One converter per ONNX op, grouped by family."""
