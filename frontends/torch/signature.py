"""The files that the conversion's two processes share."""

PROGRAM, MODULE, SIGNATURE, ERROR = "program.pt2", "module.mlir", "signature.json", "error.json"
SAMPLE = "sample{}.mlir"  # the module for other sizes, from 1
