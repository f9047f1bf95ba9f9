"""Configuration of the `.mlir` tests: RUN lines call the `tilewright` and `filecheck` of lit's own environment."""
# ruff: noqa: F821  (lit defines `config`)
# pyright: reportUndefinedVariable=false

import importlib
import itertools
import os
import sys

import lit.formats

from tilewright.core.target import Target
from tilewright.passes import pipeline

_TARGET = "x86 -mcpu=x86-64-v4"  # what the files show is the same on every machine

config.name = "tilewright"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.test_source_root, "..", "..", "build", "lit")
config.environment["PATH"] = os.pathsep.join((os.path.dirname(sys.executable), config.environment["PATH"]))
config.excludes = ["Inputs"]
# All passes on linalg that torch-mlir made, and those behind them up to calls of kernels.
_KERNELS = [
    *pipeline.normalize_passes(),
    *itertools.takewhile(lambda p: p.name != "plan-memory", pipeline.graph_passes(Target.parse(_TARGET))),
]
# `sys.path` has the folder of no configuration.
sys.path.append(config.test_source_root)
_served = importlib.import_module("served").start_server(config.environment)
config.substitutions.append(("%opt", f"{_served} tilewright opt --target '{_TARGET}'"))
config.substitutions.append((r"\bfilecheck\b", f"{_served} filecheck"))
config.substitutions.append(("%kernels", ",".join(stage.name for stage in _KERNELS)))
