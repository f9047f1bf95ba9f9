"""What is computed in other types than float32."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

from .case import Given, Table, f32, i64

DTYPES = Table("dtypes")


def _cast(make: Callable[[], nn.Module], dtype: torch.dtype) -> Callable[[], nn.Module]:
    return lambda: make().to(dtype)


_LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "Linear": (lambda: nn.Linear(16, 5), (3, 16)),
    "Conv2d": (lambda: nn.Conv2d(3, 8, 3, padding=1), (1, 3, 8, 8)),
    "BatchNorm2d": (lambda: nn.BatchNorm2d(3), (2, 3, 5, 5)),
    "LayerNorm": (lambda: nn.LayerNorm(16), (3, 16)),
    "GELU": (lambda: nn.GELU(), (3, 17)),
    "SiLU": (lambda: nn.SiLU(), (3, 17)),
    "Softmax": (lambda: nn.Softmax(-1), (3, 17)),
    "MaxPool2d": (lambda: nn.MaxPool2d(2), (1, 3, 8, 8)),
    "AvgPool2d": (lambda: nn.AvgPool2d(2), (1, 3, 8, 8)),
}
_CALLS: dict[str, tuple[Callable[..., torch.Tensor], tuple[Given, ...]]] = {
    "add": (torch.add, (f32(3, 17), f32(17))),
    "div": (torch.div, (f32(3, 17), f32(3, 17, low=0.5))),
    "exp": (torch.exp, (f32(3, 17),)),
    "tanh": (torch.tanh, (f32(3, 17),)),
    "sum": (lambda x: x.sum(-1), (f32(3, 40),)),
    "mean": (lambda x: x.mean(1), (f32(3, 40),)),
    "amax": (lambda x: x.amax(-1), (f32(3, 40),)),
    "matmul": (torch.matmul, (f32(4, 6), f32(6, 5))),
    "gt": (torch.gt, (f32(3, 17), f32(17))),
    "to-float32": (lambda x: x.float(), (f32(3, 17),)),
    "cat": (lambda x, y: torch.cat([x, y]), (f32(3, 4), f32(2, 4))),
    "cumsum": (lambda x: x.cumsum(-1), (f32(3, 7),)),
    "topk": (lambda x: x.topk(3)[0], (f32(3, 7),)),
    "sdpa": (lambda x: F.scaled_dot_product_attention(x, x, x), (f32(2, 7, 16),)),
}
for _dtype in (torch.float16, torch.bfloat16, torch.float64):
    _word = str(_dtype).removeprefix("torch.")
    for _name, (_make, _shape) in _LAYERS.items():
        DTYPES.layer(f"{_name}-{_word}", _cast(_make, _dtype), f32(*_shape, dtype=_dtype))
    for _name, (_function, _given) in _CALLS.items():
        _typed = (Given(_dtype, g.shape, g.low, g.high) for g in _given)
        DTYPES.call(f"{_name}-{_word}", _function, *_typed)
DTYPES.call("float32-to-float16", lambda x: x.half(), f32(3, 17))
DTYPES.call("float32-to-bfloat16", lambda x: x.bfloat16(), f32(3, 17))
DTYPES.call("float16-times-scalar", lambda x: x * 3 + 1, f32(3, 17, dtype=torch.float16))
DTYPES.call("float16-plus-float32", torch.add, f32(3, 17, dtype=torch.float16), f32(3, 17))
DTYPES.call("Embedding-bfloat16", F.embedding, i64(2, 3, low=0, high=9), f32(9, 4, dtype=torch.bfloat16))
