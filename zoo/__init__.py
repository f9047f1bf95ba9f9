"""The benchmark networks, written with onnx and numpy alone."""
