"""Networks of every kind, written with torch.nn alone: small ones for tests, and as large as they are published."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions (He et al. 2015); the shortcut is projected where sizes differ."""

    def __init__(self, channels: int, made: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, made, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(made)
        self.conv2 = nn.Conv2d(made, made, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(made)
        same = stride == 1 and channels == made
        projection = (nn.Conv2d(channels, made, 1, stride, bias=False), nn.BatchNorm2d(made))
        self.downsample = nn.Identity() if same else nn.Sequential(*projection)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = functional.relu(self.bn1(self.conv1(x)))
        return functional.relu(self.bn2(self.conv2(y)) + self.downsample(x))


class ResNet18(nn.Module):
    """Images (n, 3, h, w) to scores of classes."""

    def __init__(self, width: int = 64, classes: int = 1000) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        stages = []
        for i in range(4):
            made, stride = width << i, 2 if i else 1
            first = ResidualBlock(made // stride, made, stride)
            stages.append(nn.Sequential(first, ResidualBlock(made, made, 1)))
        self.stages = nn.Sequential(*stages)
        self.fc = nn.Linear(width << 3, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stages(self.maxpool(functional.relu(self.bn1(self.conv1(x)))))
        return self.fc(torch.flatten(functional.adaptive_avg_pool2d(x, 1), 1))


class InvertedResidual(nn.Module):
    """Expand, depthwise, project (Sandler et al. 2018)."""

    def __init__(self, channels: int, made: int, stride: int, expand: int) -> None:
        super().__init__()
        inner = channels * expand
        layers: list[nn.Module] = []
        if expand != 1:
            layers += [nn.Conv2d(channels, inner, 1, bias=False), nn.BatchNorm2d(inner), nn.ReLU6()]
        layers += [nn.Conv2d(inner, inner, 3, stride, 1, groups=inner, bias=False), nn.BatchNorm2d(inner), nn.ReLU6()]
        layers += [nn.Conv2d(inner, made, 1, bias=False), nn.BatchNorm2d(made)]
        self.conv = nn.Sequential(*layers)
        self.adds = stride == 1 and channels == made

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.conv(x) if self.adds else self.conv(x)


_STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


class MobileNetV2(nn.Module):
    """Images (n, 3, h, w) to scores of classes; ``stages`` has expansion, channels, count and stride of each."""

    def __init__(self, stages: tuple[tuple[int, int, int, int], ...] = _STAGES, classes: int = 1000) -> None:
        super().__init__()
        channels, last = 32, 4 * stages[-1][1]
        layers: list[nn.Module] = [nn.Conv2d(3, channels, 3, 2, 1, bias=False), nn.BatchNorm2d(channels), nn.ReLU6()]
        for expand, made, count, stride in stages:
            for i in range(count):
                layers.append(InvertedResidual(channels, made, 1 if i else stride, expand))
                channels = made
        layers += [nn.Conv2d(channels, last, 1, bias=False), nn.BatchNorm2d(last), nn.ReLU6()]
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(last, classes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.features(x).mean((2, 3)))


def _double(channels: int, made: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for before in (channels, made):
        layers += [nn.Conv2d(before, made, 3, padding=1, bias=False), nn.BatchNorm2d(made), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """Images (n, 3, h, w) to a score of each pixel (Ronneberger et al. 2015)."""

    def __init__(self, width: int = 32, depth: int = 4) -> None:
        super().__init__()
        widths = [width << i for i in range(depth + 1)]
        self.first = _double(3, width)
        self.down = nn.ModuleList(_double(a, b) for a, b in itertools.pairwise(widths))
        pairs = [(b, a) for a, b in itertools.pairwise(widths)][::-1]
        self.up = nn.ModuleList(nn.ConvTranspose2d(a, b, 2, 2) for a, b in pairs)
        self.join = nn.ModuleList(_double(a, b) for a, b in pairs)
        self.last = nn.Conv2d(width, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        kept = []
        for down in self.down:
            kept.append(x)
            x = down(functional.max_pool2d(x, 2))
        for up, join in zip(self.up, self.join, strict=True):
            x = join(torch.cat([kept.pop(), up(x)], 1))
        return self.last(x)


class Bert(nn.Module):
    """Ids (n, tokens) and what of them is padding to the tokens' states and the pooled first one (Devlin et al. 2018)."""

    def __init__(
        self, layers: int = 12, width: int = 768, heads: int = 12, vocabulary: int = 30522, positions: int = 512
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(positions, width)
        self.types = nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width, eps=1e-12)
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout=0.0, activation="gelu", layer_norm_eps=1e-12, batch_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.pooler = nn.Linear(width, width)

    def forward(self, ids: torch.Tensor, padding: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        places = torch.arange(ids.shape[1])
        x = self.norm(self.words(ids) + self.positions(places) + self.types(torch.zeros_like(ids)))
        x = self.encoder(x, src_key_padding_mask=padding)
        return x, torch.tanh(self.pooler(x[:, 0]))


class CachedAttention(nn.Module):
    """Attention of new tokens to themselves and all before, whose keys and values are kept in buffers."""

    keys: torch.Tensor
    values: torch.Tensor

    def __init__(self, width: int, heads: int, tokens: int) -> None:
        super().__init__()
        self.heads = heads
        self.packed = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, heads, tokens, width // heads))

    def forward(self, x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        n, count, width = x.shape
        parts = self.packed(x).reshape(n, count, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        self.keys.index_copy_(2, places, key)
        self.values.index_copy_(2, places, value)
        mask = torch.arange(self.keys.shape[2])[None] <= places[:, None]
        y = functional.scaled_dot_product_attention(query, self.keys, self.values, attn_mask=mask)
        return self.out(y.transpose(1, 2).reshape(n, count, width))


class GptBlock(nn.Module):
    """Attention and a feed-forward layer, each normalised before."""

    def __init__(self, width: int, heads: int, tokens: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = CachedAttention(width, heads, tokens)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x), places)
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    """Ids (1, n) at places (n) of a text to the scores of what follows the last one (Radford et al. 2019)."""

    def __init__(
        self, layers: int = 12, width: int = 768, heads: int = 12, vocabulary: int = 50257, tokens: int = 256
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(tokens, width)
        self.blocks = nn.ModuleList(GptBlock(width, heads, tokens) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        x = self.words(ids) + self.positions(places)
        for block in self.blocks:
            x = block(x, places)
        return self.head(self.norm(x[:, -1]))


def sample(step: Callable[..., torch.Tensor], prompt: list[int], count: int, seed: int) -> list[int]:
    """``count`` tokens after a prompt, each drawn from the ten likeliest ones; ``step`` takes one token a call."""
    generator = torch.Generator().manual_seed(seed)
    tokens = list(prompt)
    for place in range(len(prompt) + count - 1):
        scores = step(torch.tensor([[tokens[place]]]), torch.tensor([place]))
        if place + 1 == len(tokens):
            best, ids = scores[0].topk(10)
            drawn = torch.multinomial(best.softmax(-1), 1, generator=generator)
            tokens.append(int(ids[drawn]))
    return tokens[len(prompt) :]


class LstmTagger(nn.Module):
    """Ids (n, tokens) to scores of tags, by an LSTM in both directions."""

    def __init__(self, vocabulary: int = 20000, width: int = 128, hidden: int = 256, tags: int = 17) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, hidden, bidirectional=True, batch_first=True)
        self.out = nn.Linear(2 * hidden, tags)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return functional.log_softmax(self.out(self.lstm(self.embedding(ids))[0]), -1)


class Vit(nn.Module):
    """Images (n, 3, size, size) in patches to scores of classes (Dosovitskiy et al. 2020)."""

    def __init__(
        self, size: int = 224, patch: int = 16, layers: int = 12, width: int = 768, heads: int = 12, classes: int = 1000
    ) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.positions = nn.Parameter(torch.randn(1, (size // patch) ** 2 + 1, width) * 0.02)
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.positions
        return self.head(self.norm(self.encoder(x))[:, 0])


@dataclass(frozen=True)
class Example:
    """A network and inputs of it: ``small`` or ``full`` make both, with numbers that a seed gives."""

    small: Callable[[], tuple[nn.Module, tuple[Any, ...]]]
    full: Callable[[], tuple[nn.Module, tuple[Any, ...]]]


def image(size: int) -> tuple[torch.Tensor]:
    """One image."""
    return (torch.randn(1, 3, size, size),)


def ids(tokens: int, vocabulary: int) -> torch.Tensor:
    """One text."""
    return torch.randint(0, vocabulary, (1, tokens))


def _padded(tokens: int, vocabulary: int) -> tuple[torch.Tensor, torch.Tensor]:
    return ids(tokens, vocabulary), torch.arange(tokens)[None] >= tokens - tokens // 4


def _token() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.tensor([[7]]), torch.tensor([0])


EXAMPLES = {
    "resnet18": Example(lambda: (ResNet18(8, 10), image(64)), lambda: (ResNet18(), image(224))),
    "mobilenet_v2": Example(
        lambda: (MobileNetV2(((1, 16, 1, 1), (6, 24, 2, 2)), 10), image(32)), lambda: (MobileNetV2(), image(224))
    ),
    "unet": Example(lambda: (UNet(8, 2), image(32)), lambda: (UNet(), image(256))),
    "bert": Example(lambda: (Bert(2, 32, 4, 100, 16), _padded(12, 100)), lambda: (Bert(), _padded(128, 30522))),
    "gpt": Example(lambda: (Gpt(2, 32, 4, 100, 16), _token()), lambda: (Gpt(), _token())),
    "lstm_tagger": Example(
        lambda: (LstmTagger(100, 8, 16, 5), (ids(6, 100),)), lambda: (LstmTagger(), (ids(64, 20000),))
    ),
    "vit": Example(lambda: (Vit(32, 8, 2, 32, 4, 10), image(32)), lambda: (Vit(), image(224))),
}


def example(name: str, full: bool = False) -> tuple[nn.Module, tuple[Any, ...]]:
    """A network in evaluation mode, its running statistics as after some training, and inputs."""
    torch.manual_seed(7)
    made = EXAMPLES[name]
    module, inputs = made.full() if full else made.small()
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            assert part.running_mean is not None and part.running_var is not None
            part.running_mean.normal_(std=0.1)
            part.running_var.uniform_(0.5, 2.0)
    return module.eval().requires_grad_(False), inputs
