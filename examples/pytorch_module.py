"""Compile a PyTorch module, ahead of time and by torch.compile. Needs the extra ``torch``."""

import torch
from torch import nn

import tilewright as tw

module = nn.Sequential(
    nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)
)
module.eval()
x = torch.rand(1, 3, 64, 64)

program = tw.compile(module, example_inputs=(x,))
fast = torch.compile(module, backend="tilewright")
with torch.inference_mode():
    expected = module(x)
    torch.testing.assert_close(program(x), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(fast(x), expected, rtol=1e-4, atol=1e-5)
print("both programs give eager's numbers")
