"""Convolutions, pooling, resampling and padding."""

from __future__ import annotations

import torch.nn.functional as F
from torch import nn

from .case import Table, f32

CONVOLUTIONS = Table("convolution", batches=True)
_layer = CONVOLUTIONS.layer
_layer("Conv1d", lambda: nn.Conv1d(3, 8, 3), f32(2, 3, 16))
_layer("Conv1d-stride-padding", lambda: nn.Conv1d(4, 6, 5, stride=2, padding=2), f32(2, 4, 17))
_layer("Conv1d-groups", lambda: nn.Conv1d(4, 8, 3, groups=2), f32(2, 4, 16))
_layer("Conv1d-dilation", lambda: nn.Conv1d(3, 5, 3, dilation=3, bias=False), f32(1, 3, 20))
_layer("Conv1d-same", lambda: nn.Conv1d(3, 5, 4, padding="same"), f32(1, 3, 20))
_layer("Conv1d-unbatched", lambda: nn.Conv1d(3, 5, 3), f32(3, 20), batched=False)
_layer("Conv2d", lambda: nn.Conv2d(3, 8, 3, padding=1), f32(2, 3, 12, 12))
_layer("Conv2d-1x1", lambda: nn.Conv2d(6, 8, 1), f32(2, 6, 9, 9))
_layer("Conv2d-stride", lambda: nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False), f32(1, 3, 15, 15))
_layer("Conv2d-kernel-3x5", lambda: nn.Conv2d(3, 4, (3, 5), stride=(2, 1), padding=(1, 2)), f32(1, 3, 11, 13))
_layer("Conv2d-dilation", lambda: nn.Conv2d(3, 4, 3, dilation=2, padding=2), f32(1, 3, 11, 13))
_layer("Conv2d-groups", lambda: nn.Conv2d(6, 9, 3, groups=3), f32(2, 6, 9, 9))
_layer("Conv2d-depthwise", lambda: nn.Conv2d(8, 8, 3, groups=8, padding=1), f32(2, 8, 9, 9))
_layer("Conv2d-depthwise-multiplier", lambda: nn.Conv2d(4, 12, 3, groups=4), f32(2, 4, 9, 9))
_layer("Conv2d-same", lambda: nn.Conv2d(3, 4, 4, padding="same"), f32(1, 3, 10, 10))
_layer("Conv2d-reflect", lambda: nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect"), f32(1, 3, 10, 10))
_layer("Conv2d-circular", lambda: nn.Conv2d(3, 4, 3, padding=2, padding_mode="circular"), f32(1, 3, 10, 10))
_layer("Conv2d-replicate", lambda: nn.Conv2d(3, 4, 3, padding=2, padding_mode="replicate"), f32(1, 3, 10, 10))
_layer("Conv2d-zero-size-batch-1x1-image", lambda: nn.Conv2d(3, 4, 1), f32(1, 3, 1, 1))
_layer("Conv3d", lambda: nn.Conv3d(2, 4, 3, padding=1), f32(1, 2, 6, 7, 8))
_layer("Conv3d-stride", lambda: nn.Conv3d(2, 4, (1, 3, 3), stride=(1, 2, 2)), f32(1, 2, 6, 7, 8))
_layer("Conv3d-groups", lambda: nn.Conv3d(4, 4, 3, groups=2), f32(1, 4, 5, 6, 7))
_layer("ConvTranspose1d", lambda: nn.ConvTranspose1d(3, 4, 3), f32(2, 3, 8))
_layer("ConvTranspose1d-stride", lambda: nn.ConvTranspose1d(3, 4, 4, stride=2, padding=1), f32(2, 3, 8))
_layer("ConvTranspose2d", lambda: nn.ConvTranspose2d(3, 4, 3), f32(1, 3, 6, 6))
_layer("ConvTranspose2d-stride", lambda: nn.ConvTranspose2d(3, 4, 3, 2, 1, output_padding=1), f32(1, 3, 6, 6))
_layer("ConvTranspose2d-groups", lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, groups=2), f32(1, 4, 5, 5))
_layer("ConvTranspose2d-dilation", lambda: nn.ConvTranspose2d(3, 4, 3, dilation=2), f32(1, 3, 6, 6))
_layer("ConvTranspose3d", lambda: nn.ConvTranspose3d(2, 3, 2, stride=2), f32(1, 2, 3, 4, 5))
_layer("Fold", lambda: nn.Fold((6, 6), 3, padding=1, stride=2), f32(1, 18, 9))
_layer("Unfold", lambda: nn.Unfold(3, padding=1, stride=2), f32(1, 2, 6, 6))
_layer("LazyConv2d-used", lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()), f32(1, 3, 8, 8))
CONVOLUTIONS.call("conv2d-weight-is-input", lambda x, w: F.conv2d(x, w, padding=1), f32(1, 3, 8, 8), f32(4, 3, 3, 3))

POOLING = Table("pooling", batches=True)
_layer = POOLING.layer
_layer("MaxPool1d", lambda: nn.MaxPool1d(3, stride=2), f32(2, 3, 15))
_layer("MaxPool2d", lambda: nn.MaxPool2d(3, 2, 1), f32(1, 3, 13, 13))
_layer("MaxPool2d-dilation", lambda: nn.MaxPool2d(2, 1, dilation=2), f32(1, 3, 9, 9))
_layer("MaxPool2d-ceil", lambda: nn.MaxPool2d(3, 2, ceil_mode=True), f32(1, 3, 10, 10))
_layer("MaxPool2d-indices", lambda: nn.MaxPool2d(2, return_indices=True), f32(1, 3, 8, 8))
_layer("MaxPool3d", lambda: nn.MaxPool3d(2), f32(1, 2, 6, 6, 6))
_layer("MaxUnpool2d", lambda: _Unpooled(), f32(1, 2, 6, 6))
_layer("AvgPool1d", lambda: nn.AvgPool1d(3, stride=2, padding=1), f32(2, 3, 15))
_layer("AvgPool2d", lambda: nn.AvgPool2d(3, 2, 1), f32(1, 3, 13, 13))
_layer("AvgPool2d-ceil", lambda: nn.AvgPool2d(3, 2, ceil_mode=True), f32(1, 3, 10, 10))
_layer("AvgPool2d-exclude-pad", lambda: nn.AvgPool2d(3, 2, 1, count_include_pad=False), f32(1, 3, 13, 13))
_layer("AvgPool2d-divisor", lambda: nn.AvgPool2d(2, divisor_override=3), f32(1, 3, 8, 8))
_layer("AvgPool3d", lambda: nn.AvgPool3d(2), f32(1, 2, 6, 6, 6))
_layer("AdaptiveAvgPool1d", lambda: nn.AdaptiveAvgPool1d(5), f32(2, 3, 15))
_layer("AdaptiveAvgPool1d-uneven", lambda: nn.AdaptiveAvgPool1d(4), f32(2, 3, 14))
_layer("AdaptiveAvgPool2d-1", lambda: nn.AdaptiveAvgPool2d(1), f32(2, 3, 9, 9))
_layer("AdaptiveAvgPool2d", lambda: nn.AdaptiveAvgPool2d((3, 4)), f32(2, 3, 9, 8))
_layer("AdaptiveAvgPool2d-uneven", lambda: nn.AdaptiveAvgPool2d(5), f32(2, 3, 9, 8))
_layer("AdaptiveAvgPool3d", lambda: nn.AdaptiveAvgPool3d(2), f32(1, 2, 4, 6, 8))
_layer("AdaptiveMaxPool1d", lambda: nn.AdaptiveMaxPool1d(5), f32(2, 3, 15))
_layer("AdaptiveMaxPool2d", lambda: nn.AdaptiveMaxPool2d((3, 2)), f32(2, 3, 9, 8))
_layer("AdaptiveMaxPool2d-uneven", lambda: nn.AdaptiveMaxPool2d(5), f32(2, 3, 9, 8))
_layer("AdaptiveMaxPool3d", lambda: nn.AdaptiveMaxPool3d(2), f32(1, 2, 4, 6, 8))
for _rank in (1, 2, 3):
    _image = f32(3, *(8, 6, 4)[:_rank])
    for _pool in (getattr(nn, f"{_kind}Pool{_rank}d")(2) for _kind in ("Max", "Avg", "AdaptiveMax")):
        _layer(f"{type(_pool).__name__}-unbatched", lambda pool=_pool: pool, _image, batched=False)
_layer("LPPool1d", lambda: nn.LPPool1d(2, 3), f32(2, 3, 12))
_layer("LPPool2d", lambda: nn.LPPool2d(2, 3, stride=2), f32(1, 3, 9, 9))


class _Unpooled(nn.Module):
    """Pools, and puts the maxima back where they were."""

    def forward(self, x):
        values, places = F.max_pool2d(x, 2, return_indices=True)
        return F.max_unpool2d(values, places, [2, 2])


RESAMPLING = Table("resampling", batches=True)
_layer = RESAMPLING.layer
_layer("Upsample-nearest-1d", lambda: nn.Upsample(scale_factor=2), f32(1, 2, 7))
_layer("Upsample-nearest-2d", lambda: nn.Upsample(scale_factor=2), f32(1, 2, 5, 6))
_layer("Upsample-nearest-3d", lambda: nn.Upsample(scale_factor=2), f32(1, 2, 3, 4, 5))
_layer("Upsample-nearest-size", lambda: nn.Upsample(size=(7, 11)), f32(1, 2, 5, 6))
_layer("Upsample-nearest-exact", lambda: nn.Upsample(size=(7, 11), mode="nearest-exact"), f32(1, 2, 5, 6))
_layer("Upsample-linear", lambda: nn.Upsample(scale_factor=2, mode="linear"), f32(1, 2, 7))
_layer("Upsample-bilinear", lambda: nn.Upsample(scale_factor=2, mode="bilinear"), f32(1, 2, 5, 6))
_layer("Upsample-bilinear-corners", lambda: nn.Upsample((9, 11), mode="bilinear", align_corners=True), f32(1, 2, 5, 6))
_layer("Upsample-bilinear-down", lambda: nn.Upsample(size=(3, 4), mode="bilinear"), f32(1, 2, 7, 9))
_layer("Upsample-trilinear", lambda: nn.Upsample(scale_factor=2, mode="trilinear"), f32(1, 2, 3, 4, 5))
_layer("Upsample-bicubic", lambda: nn.Upsample(scale_factor=2, mode="bicubic"), f32(1, 2, 5, 6))
_layer("UpsamplingBilinear2d", lambda: nn.UpsamplingBilinear2d(scale_factor=2), f32(1, 2, 5, 6))
_layer("PixelShuffle", lambda: nn.PixelShuffle(2), f32(1, 8, 4, 5))
_layer("PixelUnshuffle", lambda: nn.PixelUnshuffle(2), f32(1, 2, 8, 10))
_layer("ChannelShuffle", lambda: nn.ChannelShuffle(2), f32(1, 8, 4, 5))
RESAMPLING.call(
    "interpolate-antialias",
    lambda x: F.interpolate(x, (4, 5), mode="bilinear", antialias=True),
    f32(1, 2, 9, 10),
)
RESAMPLING.call("grid_sample", lambda x, g: F.grid_sample(x, g, align_corners=False), f32(1, 2, 5, 6), f32(1, 4, 3, 2))
RESAMPLING.call(
    "grid_sample-nearest-border",
    lambda x, g: F.grid_sample(x, g, mode="nearest", padding_mode="border", align_corners=True),
    *(f32(1, 2, 5, 6), f32(1, 4, 3, 2)),
)
RESAMPLING.call("affine_grid", lambda t: F.affine_grid(t, [2, 3, 4, 5], align_corners=False), f32(2, 2, 3))

PADDING = Table("padding", batches=True)
_layer = PADDING.layer
_layer("ConstantPad1d", lambda: nn.ConstantPad1d((1, 2), 0.5), f32(2, 3, 5))
_layer("ConstantPad2d", lambda: nn.ConstantPad2d((1, 2, 0, 3), 1.5), f32(1, 2, 5, 6))
_layer("ConstantPad2d-negative", lambda: nn.ConstantPad2d((-1, 2, 1, -2), 1.5), f32(1, 2, 5, 6))
_layer("ConstantPad3d", lambda: nn.ConstantPad3d(1, -1.0), f32(1, 2, 3, 4, 5))
_layer("ZeroPad2d", lambda: nn.ZeroPad2d((1, 0, 2, 1)), f32(1, 2, 5, 6))
_layer("ReflectionPad1d", lambda: nn.ReflectionPad1d(2), f32(2, 3, 5))
_layer("ReflectionPad2d", lambda: nn.ReflectionPad2d((1, 2, 3, 0)), f32(1, 2, 5, 6))
_layer("ReflectionPad3d", lambda: nn.ReflectionPad3d(1), f32(1, 2, 3, 4, 5))
_layer("ReplicationPad1d", lambda: nn.ReplicationPad1d(2), f32(2, 3, 5))
_layer("ReplicationPad2d", lambda: nn.ReplicationPad2d((1, 2, 3, 0)), f32(1, 2, 5, 6))
_layer("ReplicationPad3d", lambda: nn.ReplicationPad3d(1), f32(1, 2, 3, 4, 5))
_layer("CircularPad1d", lambda: nn.CircularPad1d(2), f32(2, 3, 5))
_layer("CircularPad2d", lambda: nn.CircularPad2d((1, 2, 3, 0)), f32(1, 2, 5, 6))
_layer("CircularPad3d", lambda: nn.CircularPad3d(1), f32(1, 2, 3, 4, 5))
