"""Tilewright: a deep-learning compiler in Python on upstream MLIR."""
