"""Operators that make images of another size."""

from __future__ import annotations

from typing import Any

from ..registry import operator
from ..types import TensorType
from ..writer import Value, Writer
from .convolution import spread
from .elementwise import as_dtype
from .movement import permute

_MODES = {"nearest_neighbor": "nearest", "linear": "linear", "cubic": "cubic"}
_MODES |= {"bilinear": "linear", "trilinear": "linear", "bicubic": "cubic"}
_PLACES = ("half_pixel", "align_corners", "asymmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize")
_ROUNDINGS = {"round": "round_prefer_ceil", "round_prefer_floor": "round_prefer_floor", "floor": "floor"}
_ROUNDINGS |= {"round_prefer_ceil": "round_prefer_ceil", "ceil": "ceil"}


def _resize(
    w: Writer, data: Value, layout: str, axes: str, scales: Value | None, sizes: Value | None, **how: Any
) -> Value:
    image = permute(w, data, layout, f"NC{axes}")
    made = w.node("Resize", image, None, scales, sizes, **how)
    made.type = TensorType((*image.shape[:2], *made.shape[2:]), made.dtype)  # also where only the run knows these
    return permute(w, made, f"NC{axes}", layout)


def _describe(w: Writer, method: str, place: str, rounding: str, cubic: tuple[float, int]) -> dict[str, Any]:
    """The attributes of ONNX's node."""
    if method not in _MODES:
        w.refuse(f"method is '{method}': it is {', '.join(_MODES)}")
    if place not in _PLACES[:3]:
        w.refuse(f"coordinate_transformation_mode is '{place}': it is {', '.join(_PLACES[:3])}")
    how: dict[str, Any] = {"mode": _MODES[method], "coordinate_transformation_mode": place}
    if how["mode"] == "nearest":
        name = rounding or ("floor" if place == "asymmetric" else "round")
        if name not in _ROUNDINGS:
            w.refuse(f"rounding_method is '{rounding}': it is {', '.join(_ROUNDINGS)}")
        how["nearest_mode"] = _ROUNDINGS[name]
    if how["mode"] == "cubic":
        how |= {"cubic_coeff_a": float(cubic[0]), "exclude_outside": int(cubic[1])}
    return how


def _resize_to(
    w: Writer, data: Value, size: Any, layout: str, axes: str, how: dict[str, Any], dtype: str | None
) -> Value:
    places = [layout.index(each) for each in ("N", "C")]
    kept = [data.shape[each] for each in places]
    sides = spread(w, size, len(axes), "size")
    if all(isinstance(each, int) for each in kept):
        sizes = w.ints(*(each for each in kept if isinstance(each, int)), *sides)
    else:
        sizes = w.node("Concat", w.node("Gather", w.node("Shape", data), w.ints(*places)), w.ints(*sides), axis=0)
    return as_dtype(w, _resize(w, data, layout, axes, None, sizes, **how), dtype or "")


@operator("image.resize1d")
def resize1d(
    w: Writer,
    data: Value,
    size: Any,
    roi: Any = None,
    layout: str = "NCW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "",
    cubic_alpha: float = -0.5,
    cubic_exclude: int = 0,
    extrapolation_value: float = 0.0,
    out_dtype: str | None = None,
) -> Value:
    """Rows of another length."""
    how = _describe(w, method, coordinate_transformation_mode, rounding_method, (cubic_alpha, cubic_exclude))
    return _resize_to(w, data, size, layout, "W", how, out_dtype)


@operator("image.resize2d")
def resize2d(
    w: Writer,
    data: Value,
    size: Any,
    roi: Any = None,
    layout: str = "NCHW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "",
    cubic_alpha: float = -0.5,
    cubic_exclude: int = 0,
    extrapolation_value: float = 0.0,
    out_dtype: str | None = None,
) -> Value:
    """Images of another size."""
    how = _describe(w, method, coordinate_transformation_mode, rounding_method, (cubic_alpha, cubic_exclude))
    return _resize_to(w, data, size, layout, "HW", how, out_dtype)


@operator("image.resize3d")
def resize3d(
    w: Writer,
    data: Value,
    size: Any,
    roi: Any = None,
    layout: str = "NCDHW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "",
    cubic_alpha: float = -0.5,
    cubic_exclude: int = 0,
    extrapolation_value: float = 0.0,
    out_dtype: str | None = None,
) -> Value:
    """Volumes of another size."""
    how = _describe(w, method, coordinate_transformation_mode, rounding_method, (cubic_alpha, cubic_exclude))
    return _resize_to(w, data, size, layout, "DHW", how, out_dtype)


@operator("nn.upsampling")
def upsample(
    w: Writer,
    data: Value,
    scale_h: float = 1,
    scale_w: float = 1,
    layout: str = "NCHW",
    method: str = "nearest_neighbor",
    align_corners: bool = False,
) -> Value:
    """Images so many times as large."""
    place = "align_corners" if align_corners else "asymmetric" if method == "nearest_neighbor" else "half_pixel"
    how = _describe(w, method, place, "", (-0.5, 0))
    scales = w.constant([1, 1, scale_h, scale_w], "float32")
    return _resize(w, data, layout, "HW", scales, None, **how)
