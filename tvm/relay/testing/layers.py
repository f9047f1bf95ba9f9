"""Layers that make their weights as variables, by names: what the networks of ``relay.testing`` are built of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....core.errors import ModelError
from ...network.expr import Call, Expr, Function, TupleGetItem, Var, var
from ...network.functor import list_free_variables
from ..op import nn

_EPSILON = 2e-5


def batch_norm_infer(
    data: Expr, gamma: Any = None, beta: Any = None, moving_mean: Any = None, moving_var: Any = None, **given: Any
) -> TupleGetItem:
    """A batch norm of what is trained no more; ``name`` begins the names of those weights that are left out."""
    name = given.pop("name", "")
    names = ("gamma", "beta", "moving_mean", "moving_var")
    pairs = zip(names, (gamma, beta, moving_mean, moving_var), strict=True)
    weights = [each if each is not None else var(f"{name}_{which}") for which, each in pairs]
    return nn.batch_norm(data, *weights, **given)[0]


def conv1d(data: Expr, weight: Any = None, **given: Any) -> Call:
    """A convolution of rows, whose weight is NAME_weight where it is left out."""
    return nn.conv1d(data, _make_weight(given, weight), **given)


def conv2d(data: Expr, weight: Any = None, **given: Any) -> Call:
    """A convolution of images; the weight is as in ``conv1d``."""
    return nn.conv2d(data, _make_weight(given, weight), **given)


def conv3d(data: Expr, weight: Any = None, **given: Any) -> Call:
    """A convolution of volumes; the weight is as in ``conv1d``."""
    return nn.conv3d(data, _make_weight(given, weight), **given)


def conv2d_transpose(data: Expr, weight: Any = None, **given: Any) -> Call:
    """The transpose of a convolution; the weight is as in ``conv1d``."""
    return nn.conv2d_transpose(data, _make_weight(given, weight), **given)


def dense_add_bias(data: Expr, weight: Any = None, bias: Any = None, units: int | None = None, **given: Any) -> Call:
    """A product with a weight, and a bias, which are NAME_weight and NAME_bias where they are left out."""
    name = given.get("name", "")
    made = nn.dense(data, _make_weight(given, weight), units, **given)
    return nn.bias_add(made, bias if bias is not None else var(f"{name}_bias"), axis=-1)


def dense_without_bias(data: Expr, weight: Any = None, units: int | None = None, **given: Any) -> Call:
    """A product with a weight, which is NAME_weight where it is left out."""
    return nn.dense(data, _make_weight(given, weight), units, **given)


def conv_kernel_layout(data_layout: str, is_depthwise: bool = False) -> str:
    """The order of a weight's axes that goes with one of the data. Raises ModelError for other orders."""
    known = {"NCHW": "OIHW", "NHWC": "HWOI" if is_depthwise else "HWIO", "NCDHW": "OIDHW", "NDHWC": "DHWIO"}
    if data_layout not in known:
        raise ModelError(f"layout is '{data_layout}': it is {', '.join(known)}")
    return known[data_layout]


def _make_weight(given: dict[str, Any], weight: Any) -> Any:
    name = given.pop("name", "")
    return weight if weight is not None else var(f"{name}_weight")


class Layers:
    """A network under construction: images of a layout, of one dtype."""

    def __init__(self, shape: Sequence[int], layout: str = "NCHW", dtype: str = "float32") -> None:
        if layout not in ("NCHW", "NHWC"):
            raise ModelError(f"layout is '{layout}': the networks of relay.testing have 'NCHW' and 'NHWC'")
        self.layout = layout
        self.channel = layout.index("C") if len(shape) == 4 else 1
        self.data: Var = var("data", shape=tuple(shape), dtype=dtype)

    def conv(
        self, x: Expr, name: str, channels: int, kernel: int, stride: int = 1, pad: int = 0, groups: int = 1
    ) -> Call:
        """A convolution of square windows."""
        return conv2d(
            x,
            name=name,
            channels=channels,
            kernel_size=(kernel, kernel),
            strides=(stride, stride),
            padding=(pad, pad),
            groups=groups,
            data_layout=self.layout,
            kernel_layout=conv_kernel_layout(self.layout, groups > 1),
        )

    def bias(self, x: Expr, name: str) -> Call:
        """A number for each channel, added."""
        return nn.bias_add(x, var(f"{name}_bias"), axis=self.channel)

    def norm(self, x: Expr, name: str) -> TupleGetItem:
        """A batch norm of what is trained no more."""
        return batch_norm_infer(x, epsilon=_EPSILON, axis=self.channel, name=name)

    def max_pool(self, x: Expr, kernel: int, stride: int, pad: int = 0) -> Call:
        """The greatest of square windows."""
        return nn.max_pool2d(x, (kernel, kernel), (stride, stride), padding=(pad, pad), layout=self.layout)

    def mean_of_images(self, x: Expr) -> Call:
        """The mean of each channel, as rows."""
        return nn.batch_flatten(nn.global_avg_pool2d(x, layout=self.layout))


def close_network(x: Expr) -> Function:
    """The network that ends with the softmax of ``x``."""
    made = nn.softmax(x)
    return Function(list_free_variables(made), made)
