"""Schedules as values: loop nests, the primitives that make them, their notation. No MLIR."""
