"""Configuration of the `.mlir` tests: RUN lines call the `tilewright` and `filecheck` of lit's own environment."""
# ruff: noqa: F821  (lit defines `config`)
# pyright: reportUndefinedVariable=false

import os
import sys

import lit.formats

config.name = "tilewright"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.test_source_root, "..", "..", "build", "lit")
config.environment["PATH"] = os.pathsep.join((os.path.dirname(sys.executable), config.environment["PATH"]))
config.excludes = ["Inputs"]
