"""The benchmark networks, written with onnx and numpy alone.

Each has its published architecture (layers, shapes, number of parameters) as an exporter would write it: opset 18,
batch 1, float32. The weights are random with a fixed seed and keep the range of activations through the whole depth,
so that each layer and each bias counts in the output: a wrong one shows.
"""

from __future__ import annotations

import importlib
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.core.errors import ModelError
from tilewright.core.suggestions import did_you_mean
from tilewright.tools.networks.producer import PRODUCER

if TYPE_CHECKING:
    import onnx


@dataclass(frozen=True)
class Network:
    """Where a network is written (``module.function``), and what it is."""

    module: str
    function: str
    text: str


NETWORKS = {
    "resnet18": Network("resnet", "resnet18", "image classifier, 11.7 M parameters (He et al. 2015)"),
    "resnet50": Network("resnet", "resnet50", "image classifier, 25.6 M parameters (He et al. 2015)"),
    "mobilenet_v2": Network("mobile", "mobilenet_v2", "image classifier, 3.5 M parameters (Sandler et al. 2018)"),
    "squeezenet1_1": Network("plain", "squeezenet1_1", "image classifier, 1.2 M parameters (Iandola et al. 2016)"),
    "vgg16": Network("plain", "vgg16", "image classifier, 138.4 M parameters (Simonyan and Zisserman 2014)"),
    "bert_base": Network("bert", "bert_base", "text encoder, 109.5 M parameters, sequence 128 (Devlin et al. 2018)"),
    "gpt2": Network("gpt2", "gpt2", "text decoder, 124.4 M parameters, sequence 64 (Radford et al. 2019)"),
    "vit_b16": Network("vit", "vit_b16", "image classifier, 86.6 M parameters (Dosovitskiy et al. 2020)"),
}
NAMES = tuple(NETWORKS)

# A few layers of each kind of network, a few channels wide, for tests that compile many models.
SMALL = {
    "small_resnet": Network("resnet", "small_resnet", "two bottleneck blocks of ResNet"),
    "small_mobilenet": Network("mobile", "small_mobilenet", "three blocks of MobileNetV2"),
    "small_squeezenet": Network("plain", "small_squeezenet", "two fire modules of SqueezeNet"),
    "small_bert": Network("bert", "small_bert", "one layer of BERT"),
    "small_gpt2": Network("gpt2", "small_gpt2", "one layer of GPT-2"),
    "small_vit": Network("vit", "small_vit", "one layer of the vision transformer"),
}


def is_from_zoo(path: Path) -> bool:
    """Return whether a file is a network of the zoo, which says so in its first bytes."""
    with path.open("rb") as file:
        return PRODUCER.encode() in file.read(64)


def build(name: str) -> onnx.ModelProto:
    """Make the network ``name``, the same at each call.

    Raises ModelError for a name that is neither in ``NETWORKS`` nor in ``SMALL``.
    """
    network = NETWORKS.get(name) or SMALL.get(name)
    if network is None:
        raise ModelError(f"the zoo has no network '{name}': choose from {', '.join(NAMES)}{did_you_mean(name, NAMES)}")
    module = importlib.import_module(f".{network.module}", __name__)
    return getattr(module, network.function)(zlib.crc32(name.encode()))


def parameter_count(model: onnx.ModelProto) -> int:
    """The number of trainable values in a zoo network: normalisation statistics and masks are not counted."""
    import math

    buffers = ("running_mean", "running_var", "mask")
    trained = (t for t in model.graph.initializer if not t.name.endswith(buffers))
    return sum(math.prod(t.dims) for t in trained)
