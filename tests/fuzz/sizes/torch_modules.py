"""Random PyTorch modules of inputs whose extents vary independently: what ``torch.export`` leaves open, against eager."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import torch
from fuzz.sizes.graph import Dim, Rejected, broadcast, fits, plus, times
from open_case import guarded
from torch import nn

import tilewright as tw

INPUTS: dict[str, tuple[Dim, ...]] = {"x": ("n", 4), "y": ("m", 4), "z": ("k",), "v": ("m",)}
BINDINGS = (
    {"n": 5, "m": 7, "k": 3},
    {"n": 2, "m": 61, "k": 128},
    {"n": 257, "m": 3, "k": 2},
    {"n": 31, "m": 31, "k": 500},
)
Shapes = dict[str, tuple[Dim, ...]]
_REDUCTIONS: dict[str, Callable[..., torch.Tensor]] = {"amax": torch.amax, "mean": torch.mean, "sum": torch.sum}
_PAIRS = {"add": torch.add, "mul": torch.mul, "maximum": torch.maximum}


class RandomModule(nn.Module):
    """Calls some functions in order; the results that no later one reads are its own."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self.steps: list[tuple[str, Callable[..., torch.Tensor], tuple[str, ...]]] = []
        self._shapes: Shapes = dict(INPUTS)
        wanted = random.randint(3, 6)
        while len(self.steps) < wanted:
            try:
                random.choice(_ENTRIES)(self, random)
            except Rejected:
                continue

    def forward(self, *given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The results."""
        values = dict(zip(INPUTS, given, strict=True))
        for name, function, arguments in self.steps:
            values[name] = function(*(values[a] for a in arguments))
        read = {a for _, _, arguments in self.steps for a in arguments}
        return tuple(values[name] for name, _, _ in self.steps if name not in read)

    def one(self, random: Random, low: int = 1, high: int = 3) -> tuple[str, tuple[Dim, ...]]:
        """A tensor of some rank, mostly a new one, and its shape."""
        names = [name for name, shape in self._shapes.items() if low <= len(shape) <= high]
        if not names:
            raise Rejected
        name = random.choice(names[-3:] if random.random() < 0.5 else names)
        return name, self._shapes[name]

    def add(self, shape: tuple[Dim, ...], function: Callable[..., torch.Tensor], *arguments: str) -> None:
        """Add a step; Rejected for a result of many axes."""
        if len(shape) > 3 or times(*shape) == 1 or sum(isinstance(d, str) for d in shape) > 2:
            raise Rejected
        name = f"t{len(self.steps)}"
        self.steps.append((name, function, arguments))
        self._shapes[name] = shape

    def others(self, shape: tuple[Dim, ...]) -> list[str]:
        """The tensors that broadcast with a shape."""
        return [name for name, other in self._shapes.items() if fits(other, shape)]

    def shape(self, name: str) -> tuple[Dim, ...]:
        """A tensor's shape."""
        return self._shapes[name]


def _reduce(module: RandomModule, random: Random) -> None:
    """A reduction of one tensor with another tensor of any sizes."""
    a, shape = module.one(random)
    function, keep = random.choice(list(_REDUCTIONS.values())), random.random() < 0.5
    first = random.randrange(len(shape))
    axes = tuple(range(first, len(shape)))
    dims = (*shape[:first], *([1] * len(axes) if keep else []))
    if not (others := module.others(dims)):
        raise Rejected
    b = random.choice(others)
    made = broadcast(dims, module.shape(b))
    pair = random.choice(list(_PAIRS.values()))
    module.add(made, lambda s, t: pair(function(s, dim=axes, keepdim=keep), t), a, b)


def _outer(module: RandomModule, random: Random) -> None:
    a, shape = module.one(random, 1, 2)
    b, [row] = module.one(random, 1, 1)
    pair = random.choice(list(_PAIRS.values()))
    module.add((*shape, row), lambda s, t: pair(s.unsqueeze(-1), t), a, b)


def _pair(module: RandomModule, random: Random) -> None:
    a, shape = module.one(random)
    b = random.choice(module.others(shape))
    module.add(broadcast(shape, module.shape(b)), random.choice(list(_PAIRS.values())), a, b)


def _unary(module: RandomModule, random: Random) -> None:
    a, shape = module.one(random)
    function = random.choice((torch.relu, torch.sigmoid, torch.tanh, torch.neg, lambda t: t.softmax(-1)))
    module.add(shape, function, a)


def _product(module: RandomModule, random: Random) -> None:
    """Rows times rows."""
    a, left = module.one(random, 2, 2)
    b, right = module.one(random, 2, 2)
    if left[1] != right[1]:
        raise Rejected
    module.add((left[0], right[0]), lambda s, t: (s @ t.T) / 8, a, b)


def _concat(module: RandomModule, random: Random) -> None:
    a, left = module.one(random, 1, 2)
    b, right = module.one(random, len(left), len(left))
    if left[1:] != right[1:]:
        raise Rejected
    module.add((plus(left[0], right[0]), *left[1:]), lambda s, t: torch.cat([s, t]), a, b)


def _view(module: RandomModule, random: Random) -> None:
    a, shape = module.one(random, 2, 3)
    if random.random() < 0.5:
        module.add((times(*shape),), lambda t: t.flatten(), a)
    else:
        module.add((*shape[:-2], shape[-1], shape[-2]), lambda t: t.transpose(-1, -2), a)


_ENTRIES = (_reduce, _reduce, _outer, _pair, _pair, _unary, _product, _concat, _view)


def check(seed: int, index: int) -> str:
    """How a module's results differ from eager's for some sizes; "" where they do not, or eager's export refuses it."""
    random = Random(f"torch:{seed}:{index}")
    module = RandomModule(random).eval()
    shapes = tuple(
        {i: torch.export.Dim.DYNAMIC for i, d in enumerate(dims) if isinstance(d, str)} for dims in INPUTS.values()
    )
    with guarded():
        program = tw.compile(
            module,
            example_inputs=_inputs(BINDINGS[0], index),
            dynamic_shapes=(shapes,),
            workers=0,
            num_threads=1,
            cache=False,
        )
    for binding in BINDINGS:
        inputs = _inputs(binding, index)
        for number, (got, want) in enumerate(zip(program(*inputs), module(*inputs), strict=True)):
            made = torch.as_tensor(got)
            scale = max(1.0, float(want.abs().max()))
            if made.shape != want.shape or not torch.allclose(made, want, rtol=2e-3, atol=2e-3 * scale):
                return f"{binding}: result {number} is {list(made.shape)}, {made.flatten()[:3]}, instead of {want.flatten()[:3]}"
    return ""


def _inputs(binding: dict[str, int], seed: int) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    sizes = ([d if isinstance(d, int) else binding[d] for d in dims] for dims in INPUTS.values())
    return tuple(torch.randn(*size, generator=generator) for size in sizes)
