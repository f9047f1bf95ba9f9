"""Links, loads and runs compiled programs; imports no MLIR."""
