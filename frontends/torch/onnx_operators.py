"""Decompositions of torch's operators to nodes of ONNX's (``nodes.py``)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch._decomp import decomposition_table

from ..nodes import Constant
from .arithmetic import aten
from .nodes import make_node
from .resizing import list_resizing

_NODE_FLOATS = (torch.float32, torch.float64)

# The numbers that onnx.TensorProto has for dtypes: a conversion worker does not load onnx.
_PROTO_TYPES = {
    torch.float32: 1,
    torch.uint8: 2,
    torch.int8: 3,
    torch.int16: 5,
    torch.int32: 6,
    torch.int64: 7,
    torch.float16: 10,
    torch.float64: 11,
    torch.bfloat16: 16,
}

# Gates of a layer, in the order of ONNX, by their places in that of torch.
_LSTM_GATES = (0, 3, 1, 2)
_GRU_GATES = (1, 0, 2)


def list_onnx_operators(open_sizes: bool, sized: Collection[Any] = ()) -> dict[Any, Callable[..., Any]]:
    """By operator, the function that makes nodes of it.

    What a node has in its attributes must be known: with ``open_sizes`` those are left out that would have such ones,
    and the operators ``sized``, which have them as arguments.
    """
    found: dict[Any, Callable[..., Any]] = {
        aten.topk.default: _choose_top,
        aten.grid_sampler_2d.default: _sample_grid,
        aten.grid_sampler_3d.default: _sample_grid,
        aten.col2im.default: _fold_columns,
        aten.view.dtype: _cast_bits,
        aten.gather.default: _gather_rows,
        aten.scatter.src: _scatter_elements,
        aten.scatter.value: _scatter_value,
        aten.scatter_add.default: partial(_scatter_elements, reduction="add"),
        aten.scatter_reduce.two: _scatter_reduce,
        aten.scatter.reduce: _scatter_folded,
        aten.scatter.value_reduce: _scatter_value_folded,
        aten._linalg_det.default: _make_det,
        aten.linalg_slogdet.default: _sign_and_log_det,
        aten.linalg_inv.default: _invert_matrices,
        aten.inverse.default: _invert_matrices,
        aten.linalg_inv_ex.default: _invert_with_info,
    }
    recurrent = {
        "lstm": _make_lstm,
        "gru": _make_gru,
        "rnn_tanh": partial(_make_rnn, "Tanh"),
        "rnn_relu": partial(_make_rnn, "Relu"),
    }
    for name, make in recurrent.items():
        found[getattr(aten, name).input] = found[getattr(torch.ops.tilewright, name).default] = make
    pads = {aten.pad.default: _pad_by_mode} | {
        getattr(aten, f"{name}_pad{rank}d").default: partial(_pad_by_mode, mode=mode)
        for name, mode in (("reflection", "reflect"), ("replication", "replicate"))
        for rank in (1, 2, 3)
    }
    found |= list_resizing()
    if not any(operator in sized for operator in pads):  # one becomes another
        found |= pads
    if not open_sizes:
        found[aten.sort.default] = _sort_rows
    return {operator: make for operator, make in found.items() if operator not in sized}


def _make_lstm(x: Tensor, hx: Sequence[Tensor], params: Sequence[Tensor], *how: Any) -> Any:
    """nn.LSTM, of its state and its cell's; ``how`` is the rest of what ``_recur`` takes."""
    if hx[0].shape[-1] != hx[1].shape[-1]:  # a projection, which ONNX does not have
        return decomposition_table[aten.lstm.input](x, hx, params, *how)
    return _recur("LSTM", _LSTM_GATES, x, hx, params, *how)


def _make_gru(x: Tensor, hx: Tensor, params: Sequence[Tensor], *how: Any) -> Any:
    """nn.GRU, which resets behind the product with the state."""
    return _recur("GRU", _GRU_GATES, x, [hx], params, *how, linear_before_reset=1)


def _make_rnn(activation: str, x: Tensor, hx: Tensor, params: Sequence[Tensor], *how: Any) -> Any:
    *_, bidirectional, _ = how
    return _recur("RNN", (0,), x, [hx], params, *how, activations=[activation] * (1 + bidirectional))


def _recur(
    op: str,
    gates: Sequence[int],
    x: Tensor,
    states: Sequence[Tensor],
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
    **attributes: Any,
) -> Any:
    """Layers of a recurrent network, a node each: what the last one gives, and the states of all at their ends.

    ``x`` is (steps, batch, features), or has the batch first; the weights are those of each layer and direction.
    """
    if train and dropout:  # whose random numbers are refused, by the name of the operator that is left
        return NotImplemented
    if x.dtype not in _NODE_FLOATS:
        wide = [[part.float() for part in parts] for parts in ([x], states, params)]
        sizes = (has_biases, num_layers, dropout, train, bidirectional, batch_first)
        made = _recur(op, gates, wide[0][0], wide[1], wide[2], *sizes, **attributes)
        return tuple(part.to(x.dtype) for part in made)
    directions, each = 1 + bidirectional, 4 if has_biases else 2
    y = x.transpose(0, 1) if batch_first else x
    steps, batch, hidden = y.shape[0], y.shape[1], states[0].shape[-1]
    results = [((steps, directions, batch, hidden), x.dtype)] + [((directions, batch, hidden), x.dtype)] * len(states)
    ends: list[list[Tensor]] = [[] for _ in states]
    for layer in range(num_layers):
        own = params[layer * directions * each :][: directions * each]
        weights = [torch.stack([_order_gates(w, gates) for w in own[i::each]]) for i in range(each)]
        bias = torch.cat(weights[2:], 1) if has_biases else None
        given = [state.narrow(0, layer * directions, directions) for state in states]
        direction = "bidirectional" if bidirectional else "forward"
        made = make_node(
            op,
            (y, *weights[:2], bias, None, *given),
            results,
            hidden_size=hidden,
            direction=direction,
            **attributes,
        )
        y = made[0].transpose(1, 2).reshape(steps, batch, directions * hidden)
        for end, state in zip(ends, made[1:], strict=True):
            end.append(state)
    return (y.transpose(0, 1) if batch_first else y, *(torch.cat(end) for end in ends))


def _order_gates(weight: Tensor, gates: Sequence[int]) -> Tensor:
    """The rows of each gate, in the order of ONNX."""
    size = weight.shape[0] // len(gates)
    return torch.cat([weight.narrow(0, gate * size, size) for gate in gates])


def _choose_top(x: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """The first of the sorted rows, which are sorted as torch does: NaN is the largest number."""
    if x.dim() == 0:
        return NotImplemented
    if x.dtype == torch.bool:
        values, places = torch.topk(x.to(torch.uint8), k, dim, largest)
        return values.to(torch.bool), places
    shape = list(x.shape)
    shape[dim] = k
    keys = _order_keys(x) if largest else x  # of the smallest ones, ONNX's node has NaN last as well
    results = [(shape, keys.dtype), (shape, torch.int64)]
    inputs = (keys, Constant([k], "int64"))
    values, places = make_node("TopK", inputs, results, axis=dim, largest=int(largest), sorted=1)
    return values if keys is x else x.gather(dim, places), places


def _sort_rows(x: Tensor, dim: int = -1, descending: bool = False) -> Any:
    return _choose_top(x, x.shape[dim], dim, descending) if x.dim() else NotImplemented


def _order_keys(x: Tensor) -> Tensor:
    """Integers in the order of floats, NaN as the largest one: of negative numbers all bits but the sign are turned."""
    if not x.is_floating_point():
        return x
    wide = x if x.dtype == torch.float64 else x.float()
    kind = torch.int64 if x.dtype == torch.float64 else torch.int32
    most = torch.iinfo(kind).max
    bits = torch.where(wide == 0, 0.0, wide).view(kind)  # zeros of both signs are equal
    keys = bits ^ ((bits >> (torch.iinfo(kind).bits - 1)) & most)
    return torch.where(wide != wide, most, keys)


def _cast_bits(x: Tensor, dtype: torch.dtype) -> Any:
    if x.dtype.itemsize != dtype.itemsize or not {x.dtype, dtype} <= set(_PROTO_TYPES):
        return NotImplemented
    return make_node("BitCast", (x,), [(x.shape, dtype)], to=_PROTO_TYPES[dtype])


_GRID_MODES, _GRID_PADDING = ("linear", "nearest", "cubic"), ("zeros", "border", "reflection")


def _sample_grid(x: Tensor, grid: Tensor, mode: int, padding: int, align_corners: bool) -> Any:
    if x.dtype not in _NODE_FLOATS:
        return NotImplemented
    if (_GRID_MODES[mode], _GRID_PADDING[padding]) == ("cubic", "border"):
        # torch holds each of the 16 places to the image, ONNX the place between them.
        return decomposition_table[aten.grid_sampler_2d.default](x, grid, mode, padding, align_corners)
    shape = (*x.shape[:2], *grid.shape[1:-1])
    how = {"mode": _GRID_MODES[mode], "padding_mode": _GRID_PADDING[padding], "align_corners": int(align_corners)}
    return make_node("GridSample", (x, grid), [(shape, x.dtype)], **how)


def _fold_columns(
    x: Tensor,
    size: Sequence[int],
    kernel: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Tensor:
    columns = x if x.dim() == 3 else x.unsqueeze(0)
    channels = columns.shape[1] // (kernel[0] * kernel[1])
    inputs = (columns, Constant(list(size), "int64"), Constant(list(kernel), "int64"))
    how: dict[str, Any] = {"dilations": list(dilation), "pads": [*padding, *padding], "strides": list(stride)}
    made = make_node("Col2Im", inputs, [((columns.shape[0], channels, *size), x.dtype)], **how)
    return made if x.dim() == 3 else made.squeeze(0)


_PAD_MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def _pad_by_mode(x: Tensor, amounts: Sequence[int], mode: str = "constant", value: float | None = None) -> Any:
    """By what the input has; the amounts are of the last dim first, and negative ones leave elements out."""
    if mode == "constant":
        return aten.constant_pad_nd.default(x, amounts, value or 0)
    if mode == "circular" and any(amount < 0 for amount in amounts):
        return NotImplemented
    for number, (low, high) in enumerate(zip(amounts[::2], amounts[1::2], strict=True)):
        dim = x.dim() - 1 - number
        x = x.narrow(dim, max(-low, 0), x.shape[dim] - max(-low, 0) - max(-high, 0)) if min(low, high) < 0 else x
    amounts = [max(amount, 0) for amount in amounts]
    none = [0] * (x.dim() - len(amounts) // 2)
    low, high = ([*none, *reversed(amounts[side::2])] for side in (0, 1))
    shape = [a + n + b for a, n, b in zip(low, x.shape, high, strict=True)]
    return make_node("Pad", (x, Constant([*low, *high], "int64")), [(shape, x.dtype)], mode=_PAD_MODES[mode])


_FOLDS = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}


def _scatter_elements(x: Tensor, dim: int, index: Tensor, src: Tensor, reduction: str = "none") -> Any:
    if x.dim() == 0 or index.numel() == 0 or (x.dtype == torch.bool and reduction != "none"):
        return NotImplemented
    for axis, extent in enumerate(index.shape):
        src = src if src.shape[axis] == extent else src.narrow(axis, 0, extent)
    if _is_of_rows(x, dim, index):
        places = index.reshape(index.shape[0], -1)[:, :1]
        return make_node("ScatterND", (x, places, src), [(x.shape, x.dtype)], reduction=reduction)
    inputs = (x, index, src)
    return make_node("ScatterElements", inputs, [(x.shape, x.dtype)], axis=dim, reduction=reduction)


def _is_of_rows(x: Tensor, dim: int, index: Tensor) -> bool:
    """Return whether whole rows are meant, by an index that is repeated along them, as graph networks have it."""
    repeated = all(n == 1 or step == 0 for n, step in zip(index.shape[1:], index.stride()[1:], strict=True))
    return dim in (0, -x.dim()) and x.dim() > 1 and index.shape[1:] == x.shape[1:] and repeated


def _gather_rows(x: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Any:
    if x.dim() == 0 or index.numel() == 0 or not _is_of_rows(x, dim, index):
        return NotImplemented
    return x.index_select(0, index.reshape(index.shape[0], -1)[:, 0])


def _scatter_value(x: Tensor, dim: int, index: Tensor, value: float) -> Any:
    return _scatter_elements(x, dim, index, torch.full_like(index, value, dtype=x.dtype))


def _scatter_reduce(x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True) -> Any:
    if reduce not in _FOLDS or not include_self:
        return NotImplemented
    return _scatter_elements(x, dim, index, src, _FOLDS[reduce])


def _scatter_folded(x: Tensor, dim: int, index: Tensor, src: Tensor, *, reduce: str) -> Any:
    return _scatter_elements(x, dim, index, src, "add" if reduce == "add" else "mul")


def _scatter_value_folded(x: Tensor, dim: int, index: Tensor, value: float, *, reduce: str) -> Any:
    return _scatter_folded(x, dim, index, torch.full_like(index, value, dtype=x.dtype), reduce=reduce)


def _make_det(x: Tensor) -> Any:
    """Of square matrices; their factors are for gradients alone."""
    if x.dtype not in _NODE_FLOATS:
        return NotImplemented
    made = make_node("Det", (x,), [(x.shape[:-2], x.dtype)])
    return made, torch.zeros_like(x), x.new_zeros(x.shape[:-1], dtype=torch.int32)


def _sign_and_log_det(x: Tensor) -> Any:
    """Of the determinant in float64, which a product of many numbers leaves late."""
    det = _make_det(x.to(torch.float64))[0]
    return torch.sign(det).to(x.dtype), torch.log(det.abs()).to(x.dtype)


def _invert_matrices(x: Tensor) -> Any:
    """Of square matrices; that of one without an inverse has infinities or NaN."""
    if x.dtype not in _NODE_FLOATS:
        return NotImplemented
    return make_node("Inverse", (x,), [(x.shape, x.dtype)], domain="com.microsoft")


def _invert_with_info(x: Tensor, *, check_errors: bool = False) -> Any:
    return _invert_matrices(x), x.new_zeros(x.shape[:-2], dtype=torch.int32)
