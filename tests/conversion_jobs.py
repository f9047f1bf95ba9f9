"""Jobs for the tests of conversion workers, which import torch-mlir and nothing of our MLIR."""

from __future__ import annotations


def count_listings(program: bytes, name: str) -> int:
    """How often torch lists the operators of C++ while a program is converted."""
    from torch._export import utils

    from tilewright.frontends.torch.convert import convert

    counted, listing = [], utils._materialize_cpp_cia_ops
    utils._materialize_cpp_cia_ops = lambda: counted.append(listing())
    try:
        convert(program, name)
    finally:
        utils._materialize_cpp_cia_ops = listing
    return len(counted)
