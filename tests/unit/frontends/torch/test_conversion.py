"""The way of a program from torch to this compiler: where its weights are, and what becomes of a worker's faults."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from conversion_jobs import count_listings
from torch import nn
from torch.export import Dim
from worker_jobs import assert_and_abort

import tilewright as tw
from tilewright import frontends, workers
from tilewright.driver import api, planning
from tilewright.frontends.torch.source import TorchSource, torch_source

X = torch.randn(2, 3, 9, 9)


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.classes = nn.Linear(8, 300)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classes(self.features(x).mean((2, 3)))


class Total(nn.Module):
    """Adds up what it is given."""

    total: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x)
        return self.total * 2


def source_of(module: nn.Module, x: torch.Tensor = X) -> TorchSource:
    source = torch_source(module.eval(), (x,), None)
    assert source is not None
    return source


def test_a_conversion_lists_the_operators_of_torch_once():
    source = torch_source(Network().eval(), (X,), ({0: Dim("n", max=100)},))
    assert source is not None
    _, arguments = source.conversion()
    assert workers.get_pool(1, workers.CONVERTER).run([workers.Job("it", count_listings, arguments)]) == [1]


def test_weights_stay_in_torch_s_memory_and_out_of_the_text():
    module = Network().eval()
    text = planning.convert_source(source_of(module), workers.get_pool(1))
    held = dict(module.named_parameters())
    assert {"features.0.weight", "classes.weight"} <= text.params.keys()
    for name in text.params.keys() & held.keys():
        assert np.shares_memory(text.params[name].array(), held[name].detach().numpy())
    assert len(text.text) < 4 * held["classes.weight"].numel()


def test_a_module_is_imported_to_be_built():
    module = Network().eval()
    model = frontends.from_pytorch(module, [("image", X.shape)])
    [found] = tw.build(model, num_threads=1, cache=False).run({"image": X.numpy()})
    np.testing.assert_allclose(found, module(X).detach().numpy(), atol=1e-5)


def test_an_open_program_is_imported_to_be_built():
    module = Network().eval()
    program = torch.export.export(module, (X,), dynamic_shapes=({0: Dim("batch"), 2: Dim("height", min=2)},))
    built = tw.build(frontends.from_pytorch(program, [("image", X.shape)]), num_threads=1, cache=False)
    for size in [(1, 3, 9, 9), (3, 3, 16, 9)]:
        x = torch.randn(size)
        [found] = built.run({"image": x.numpy()})
        np.testing.assert_allclose(found, module(x).detach().numpy(), atol=1e-5)


def test_text_of_torch_mlir_s_is_imported_to_be_built():
    module = nn.Softmax(1)
    text = api.emit(source_of(module), "linalg")
    built = tw.build(frontends.from_torch_mlir(text), num_threads=1, cache=False)
    [found] = built.run({"arg0": X.numpy()})
    np.testing.assert_allclose(found, module(X).numpy(), atol=1e-6)


class Faulty(TorchSource):
    """A program whose conversion does something else."""

    job: tuple[Callable[..., Any], tuple[Any, ...]]

    def conversion(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self.job


def faulty(job: Callable[..., Any], *arguments: Any) -> Faulty:
    source = source_of(nn.ReLU())
    made = Faulty(lambda: source.program, "relu")
    made.job = job, arguments
    return made


def test_a_converter_that_dies_is_an_error_and_the_next_one_works():
    with pytest.raises(tw.CompileError, match=r"the conversion of relu.*Assertion") as caught:
        tw.compile(faulty(assert_and_abort), cache=False)
    assert "\n" not in str(caught.value)
    torch.testing.assert_close(tw.compile(nn.ReLU(), example_inputs=(X,), cache=False)(X), X.relu())


def test_a_conversion_ends_at_its_timeout():
    tw.compile(nn.ReLU(), example_inputs=(X,), cache=False)  # a worker is there
    with pytest.raises(tw.CompileTimeoutError, match=r"its timeout of 1 s.*the conversion of relu"):
        tw.compile(faulty(time.sleep, 60), cache=False, timeout=1)


def test_threads_that_share_states_take_turns():
    made = tw.compile(Total().eval(), example_inputs=(torch.zeros(3),), num_threads=1, cache=False)
    one = torch.tensor([1.0, 2.0, 3.0])
    threads = [threading.Thread(target=lambda: [made(one) for _ in range(50)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made.states["total"].tolist() == [400.0, 800.0, 1200.0]
