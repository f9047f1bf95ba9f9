"""The one list of passes by command-line name: passes/graph/fuse_ops.py is `fuse-ops` is tests/lit/graph/fuse_ops.mlir."""

from __future__ import annotations

from .graph.generalize import Generalize
from .graph.simplify import Simplify
from .infra import Pass

PASSES: dict[str, type[Pass]] = {cls.name: cls for cls in (Generalize, Simplify)}
