"""Generate tokens with a small decoder of random weights, which keeps its keys and values. Needs the extra ``torch``.

Its cache is made of ordinary tensors: each layer takes those of the tokens before and gives them back with the new ones
behind them. The compiler sees that, and a session writes the new ones where the others lie.
"""

import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

import tilewright as tw

VOCABULARY, WIDTH, HEADS, LAYERS, LONGEST = 2000, 256, 4, 3, 1024


class Layer(nn.Module):
    """Attention to all tokens so far, and a feed-forward network."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.project, self.join = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.feed = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(
        self, x: torch.Tensor, mask: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        split = self.project(self.first(x)).view(1, -1, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        query, key, value = split.unbind(0)
        keys, values = torch.cat([keys, key], 2), torch.cat([values, value], 2)
        seen = scaled_dot_product_attention(query, keys, values, mask)
        x = x + self.join(seen.transpose(1, 2).reshape(1, -1, WIDTH))
        return x + self.feed(self.second(x)), keys, values


class Decoder(nn.Module):
    """From tokens, and the keys and values of those before, to the scores of the next one."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LONGEST, WIDTH)
        self.layers, self.last = nn.ModuleList(Layer() for _ in range(LAYERS)), nn.LayerNorm(WIDTH)
        self.scores = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids: torch.Tensor, *past: torch.Tensor) -> tuple[torch.Tensor, ...]:
        before, new, present = past[0].shape[2], ids.shape[1], []
        places = before + torch.arange(new)
        x = self.tokens(ids) + self.places(places)
        mask = torch.arange(before + new)[None, :] <= places[:, None]
        for number, layer in enumerate(self.layers):
            x, *own = layer(x, mask, *past[2 * number : 2 * number + 2])
            present += own
        return self.scores(self.last(x[:, -1])), *present


def choose(scores: np.ndarray, most: int, random: np.random.Generator) -> int:
    """The token with the highest score, or one of the ``most`` with the highest, by their probabilities."""
    best = np.argpartition(-scores, most - 1)[:most]
    chances = np.exp(scores[best] - scores[best].max())
    return int(random.choice(best, p=chances / chances.sum()))


def generate(session: tw.Session, prompt: list[int], count: int, most: int = 1) -> list[int]:
    """``count`` tokens that follow a prompt: greedily, or each one of the ``most`` likely."""
    random, made, ids = np.random.default_rng(0), [], prompt
    session.reset()
    start = time.perf_counter()
    while len(made) < count:
        [scores] = session(np.array([ids]))
        made.append(choose(scores[0], most, random))
        ids = made[-1:]
    print(f"top {most}: {count / (time.perf_counter() - start):.0f} tokens a second:", *made[:8], "...")
    return made


torch.manual_seed(0)
decoder = Decoder().eval()
prompt = [7, 1, 42]
past = tuple(torch.zeros(1, HEADS, 5, WIDTH // HEADS) for _ in range(2 * LAYERS))
tokens = torch.tensor([prompt])
length, before = torch.export.Dim("length", min=1, max=LONGEST), torch.export.Dim("before", min=0, max=LONGEST)

print("from PyTorch:")
shapes = {"ids": {1: length}, "past": tuple({2: before} for _ in past)}
program = tw.compile(decoder, example_inputs=(tokens, *past), dynamic_shapes=shapes)
greedy = generate(program.session(), prompt, 100)
generate(program.session(), prompt, 100, most=5)

print("from ONNX:")
names = [f"{side}.{number}.{kind}" for side in ("past", "present") for number in range(LAYERS) for kind in "kv"]
axes = {"ids": {1: "length"}, **{name: {2: "before"} for name in names[: len(past)]}}
with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of an exporter that needs no other package
    path = Path(folder) / "decoder.onnx"
    inputs, outputs = ["ids", *names[: len(past)]], ["scores", *names[len(past) :]]
    torch.onnx.export(
        decoder, (tokens, *past), path, input_names=inputs, output_names=outputs, dynamic_axes=axes, dynamo=False
    )
    again = tw.compile(path)
assert generate(again.session(), prompt, 100) == greedy
