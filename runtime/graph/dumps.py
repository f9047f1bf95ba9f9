"""Writes the results of a run's calls to files as it goes: only one result is in memory at a time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...core.errors import ArtifactError
from ..process.files import replacing_file

INDEX = "index.json"


class Dumps:
    """Writes a result of each call as ``000012_matmul_1a2b3c4d.npy`` (a second one ``..._1.npy``) into a folder.

    ``index.json`` has a row for each file, in the order of the run: its name, the call's number, the kernel, the
    model's nodes inside, shape and dtype. A dtype that numpy's files lack (bfloat16) is held as bytes of its width.
    Files of an earlier run with other names stay, but are not in the index.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._rows: list[dict[str, Any]] = []
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ArtifactError(f"cannot write results into {folder}: {error.strerror}") from error

    def add(self, number: int, kernel: str, nodes: Sequence[str], results: Sequence[Any]) -> None:
        """Write the results of a call that are tensors of numbers. ArtifactError where that fails."""
        for index, array in enumerate(results):
            if not isinstance(array, np.ndarray) or array.dtype.hasobject:
                continue
            name = f"{number:06d}_{kernel}{f'_{index}' if index else ''}.npy"
            # Types that a library registered (2): numpy would write a name that it cannot read.
            plain = array.view(f"V{array.dtype.itemsize}") if array.dtype.isbuiltin == 2 else array
            try:
                np.save(self._folder / name, plain)
            except OSError as error:
                raise ArtifactError(f"cannot write {self._folder / name}: {error.strerror or error}") from error
            facts = {"file": name, "call": number, "kernel": kernel, "nodes": list(nodes), "result": index}
            self._rows.append({**facts, "shape": list(array.shape), "dtype": array.dtype.name})

    def finish(self) -> None:
        """Write the index of what there is."""
        with replacing_file(self._folder / INDEX) as temporary:
            temporary.write_text(json.dumps(self._rows, indent=1))
