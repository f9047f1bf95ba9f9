"""Matrix products against onnxruntime: ranks, broadcasts, transposed operands, einsum."""

from typing import Any

import numpy as np
import pytest
from onnx_case import check_node

RNG = np.random.default_rng(0)


def random(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, dtype=np.float32)


@pytest.mark.parametrize(
    "a, b",
    [
        ((3, 4), (4, 5)),
        ((2, 3, 4), (4, 5)),
        ((2, 3, 4), (2, 4, 5)),
        ((2, 1, 3, 4), (3, 4, 5)),
        ((4,), (4, 5)),
        ((3, 4), (4,)),
        ((4,), (4,)),
        ((2, 3, 4), (4,)),
        ((4,), (2, 4, 5)),
        ((1, 3, 4), (2, 4, 5)),
    ],
)
def test_matmul(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    check_node("MatMul", random(*a), random(*b))


def test_matmul_of_integers() -> None:
    check_node("MatMul", RNG.integers(-9, 9, (3, 4), np.int32), RNG.integers(-9, 9, (4, 2), np.int32))


@pytest.mark.parametrize(
    "shapes, attributes",
    [
        (((3, 4), (4, 5)), {}),
        (((4, 3), (4, 5), (5,)), {"transA": 1, "alpha": 0.5}),
        (((3, 4), (5, 4), (3, 1)), {"transB": 1, "beta": 2.0}),
        (((4, 3), (5, 4), (3, 5)), {"transA": 1, "transB": 1, "alpha": 2.0, "beta": 0.25}),
        (((3, 4), (4, 5), (1,)), {}),
    ],
)
def test_gemm(shapes: tuple[tuple[int, ...], ...], attributes: dict[str, Any]) -> None:
    check_node("Gemm", *(random(*shape) for shape in shapes), **attributes)


@pytest.mark.parametrize(
    "equation, shapes",
    [
        ("ij,jk->ik", ((3, 4), (4, 5))),
        ("bhid,bhjd->bhij", ((2, 3, 4, 5), (2, 3, 6, 5))),
        ("...ij,...jk->...ik", ((2, 3, 4), (2, 4, 5))),
        ("ij->ji", ((3, 4),)),
        ("ij->", ((3, 4),)),
        ("ii->i", ((4, 4),)),
        ("i,j->ij", ((3,), (4,))),
        ("ij,jk,kl->il", ((2, 3), (3, 4), (4, 5))),
        ("ij,ij->i", ((3, 4), (3, 4))),
        ("bqhd,bkhd->bhqk", ((2, 17, 3, 5), (2, 9, 3, 5))),
        ("bij,kj->bki", ((2, 9, 5), (11, 5))),
        ("ij,jk->ki", ((9, 5), (5, 11))),
        ("ji,kj->ki", ((5, 9), (11, 5))),
        ("bqhd,bhdk->bkqh", ((1, 9, 3, 5), (1, 3, 5, 11))),
        ("nchw,nkhw->nck", ((2, 9, 3, 5), (2, 11, 3, 5))),
    ],
)
def test_einsum(equation: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    check_node("Einsum", *(random(*shape) for shape in shapes), equation=equation)
