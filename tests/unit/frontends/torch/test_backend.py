"""torch.compile with the backend, held against eager."""

from __future__ import annotations

import pickle
import re
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import tilewright as tw
from tilewright.driver.torch_backend import tilewright as backend
from tilewright.frontends.torch.graph import Border, GraphSource

pytestmark = pytest.mark.shares_kernels
ROOT = Path(__file__).resolve().parents[4]


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1)
        self.norm = nn.BatchNorm2d(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(self.conv(x))) + x


class Writing(nn.Module):
    """Writes into a buffer and into an input."""

    cache: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.zeros(4, 3))

    def forward(self, x: torch.Tensor, total: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.cache[1:2] = x[:1]
        total.add_(x.sum(0))
        return self.cache.sum(0), nn.functional.relu(x * 2, inplace=True)


class Eigenvalues(nn.Module):
    """Something that has no conversion, two modules down."""

    def __init__(self, depth: int = 2) -> None:
        super().__init__()
        self.inner = Eigenvalues(depth - 1) if depth else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.eigvals(x).real if self.inner is None else self.inner(x)


@pytest.fixture(autouse=True)
def _fresh() -> Any:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compiled(module: nn.Module, cache: Any = False, **options: Any) -> Any:
    return torch.compile(module.eval(), backend=backend, options={"num_threads": 1, "cache": cache, **options})


def close(found: Any, expected: Any) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_the_entry_point_is_the_backend():
    [(home, name)] = re.findall(
        r'^\[project\.entry-points\.torch_dynamo_backends\]\ntilewright = "(.*):(.*)"$',
        (ROOT / "pyproject.toml").read_text(),
        re.M,
    )
    assert (home, name) == (backend.__module__, backend.__name__)


def test_a_program_of_the_cache_is_not_exported_again(tmp_path, monkeypatch):
    module, x = Block(), torch.randn(2, 3, 6, 6)
    with torch.no_grad():
        close(compiled(module, tmp_path)(x), module(x))
        torch._dynamo.reset()
        monkeypatch.setattr(GraphSource, "program", property(lambda _: pytest.fail("exported")))
        with torch.no_grad():
            close(compiled(module, tmp_path)(x), module(x))


def test_names_are_those_of_the_modules(monkeypatch):
    made, wrapped = [], GraphSource.wrap_module
    monkeypatch.setattr(GraphSource, "wrap_module", lambda self, module: made.append(module) or wrapped(self, module))
    with torch.no_grad():
        compiled(nn.Sequential(Block(), Block()))(torch.randn(2, 3, 6, 6))
    nodes = {node for call in made[0].manifest.calls for node in call.nodes}
    assert {"0.conv", "1.conv"} <= nodes


def test_weights_that_change_are_seen():
    module, x = nn.Linear(3, 3), torch.randn(2, 3)
    with torch.no_grad():
        made = compiled(module)
        close(made(x), module(x))
        module.weight.mul_(2)
        close(made(x), module(x))
        module.weight = nn.Parameter(torch.ones(3, 3))
        close(made(x), module(x))


def test_what_a_graph_writes_into_is_written():
    module, other = Writing(), Writing()
    made, total, expected = compiled(module), torch.zeros(3), torch.zeros(3)
    for context in (torch.no_grad, torch.inference_mode):
        with context():
            x = torch.randn(2, 3)
            close(made(x, total), other(x, expected))
            close((module.cache, total), (other.cache, expected))


def test_a_frozen_module_needs_no_context_and_another_is_refused():
    module, x = nn.Linear(3, 3), torch.randn(2, 3)
    with pytest.raises(tw.UnsupportedError, match=r"'weight' requires a gradient.*no_grad\(\)"):
        compiled(module)(x)
    torch._dynamo.reset()
    close(compiled(module.requires_grad_(False))(x), module(x))


def test_what_has_no_conversion_is_named_or_left_to_torch():
    module, x = Eigenvalues(), torch.eye(3)
    with torch.no_grad(), pytest.raises(tw.UnsupportedError, match=r"inner\.inner/.*'aten\.linalg_eig'"):
        compiled(module)(x)
    torch._dynamo.reset()
    with torch.no_grad(), pytest.warns(RuntimeWarning, match=r"runs in torch.*inner\.inner/.*'aten\.linalg_eig'"):
        made = compiled(module, fallback=True)
        found = made(x)
    close(found, module(x))
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("error")
        close(made(x), module(x))


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"options": {"frobnicate": 1}}, "no option 'frobnicate'.*fallback.*num_threads"),
        ({"mode": "max-autotune"}, "mode 'max-autotune' is inductor's"),
    ],
)
def test_what_is_no_option_is_refused(how, said):
    with torch.no_grad(), pytest.raises(Exception, match=f"(?s)CompileError: .*{said}"):
        torch.compile(nn.Linear(3, 3), backend=backend, **how)(torch.randn(2, 3))


class Broken(nn.Module):
    """Two graphs: the first one gives a size, the second one takes a number that is none of its inputs' sizes."""

    def forward(self, x: torch.Tensor, rows: int) -> tuple[torch.Tensor, int]:
        doubled, count = x[:rows] * 2, x.shape[0] * 3
        torch._dynamo.graph_break()
        return doubled.sum(0) + count + rows, count


def test_sizes_go_from_graph_to_graph():
    module = Broken()
    made = torch.compile(module, backend=backend, options={"num_threads": 1, "cache": False}, dynamic=True)
    with torch.no_grad():
        for rows, taken in [(4, 2), (7, 5), (3, 3), (6, 0)]:
            x = torch.randn(rows, 3)
            close(made(x, taken), module(x, taken))


def compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows with each graph that is compiled."""
    made, wrapped = [], GraphSource.wrap_module
    monkeypatch.setattr(GraphSource, "wrap_module", lambda self, module: made.append("") or wrapped(self, module))
    return made


def test_one_program_is_for_all_sizes(monkeypatch):
    module, made = Block(), compilations(monkeypatch)
    compiled_ = torch.compile(module.eval(), backend=backend, options={"num_threads": 1, "cache": False}, dynamic=True)
    with torch.no_grad():
        for size in [(2, 3, 6, 7), (4, 3, 9, 8), (3, 3, 5, 16)]:
            x = torch.randn(size)
            close(compiled_(x), module(x))
    assert len(made) == 1


@pytest.mark.slow
def test_what_is_no_program_for_all_sizes_is_one_for_each(monkeypatch, tmp_path):
    """torch leaves the width of an encoder layer open, which it has one operator for; its weights have one width."""
    module, made = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval(), compilations(monkeypatch)
    options = {"num_threads": 1, "cache": tmp_path}
    compiled_ = torch.compile(module, backend=backend, options=options, dynamic=True)
    with torch.no_grad():
        for size in [(2, 3, 16), (4, 5, 16), (2, 3, 16)]:
            x = torch.randn(size)
            close(compiled_(x), module(x))
    assert len(made) == 2


@pytest.mark.parametrize("masked", [False, True])
def test_encoders_in_one_operator(masked):
    layer = nn.TransformerEncoderLayer(16, 2, 32, activation="gelu", batch_first=True, norm_first=masked)
    module = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    mask = torch.arange(5) > torch.tensor([[4], [2]]) if masked else None
    with torch.no_grad():
        x = torch.randn(2, 5, 16)
        close(compiled(module)(x, src_key_padding_mask=mask), module(x, src_key_padding_mask=mask))


class Plain(nn.Module):
    """Has tensors that are no buffers, some of which are called as what modules have."""

    def __init__(self) -> None:
        super().__init__()
        self.kinds, self.offset = nn.Linear(3, 3), torch.randn(3)
        self.kind, self.site, self._run = torch.randn(3), torch.randn(3), torch.randn(3)
        self.parts, self.named = [torch.randn(3), torch.randn(3)], {"a.b": torch.randn(3)}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.kinds(x) * self.offset + self.kind * self.site - self._run
        return x * self.parts[0] + self.parts[1] * self.named["a.b"]


def test_plain_tensors_of_modules_are_weights(monkeypatch):
    given, of = [], Border.of
    monkeypatch.setattr(Border, "of", lambda graph: given.append(of(graph)) or given[-1])
    first, second, x = Plain(), Plain(), torch.randn(2, 3)
    module = nn.Sequential(first, second)
    with torch.no_grad():
        made = compiled(module)
        close(made(x), module(x))
        second.offset = torch.ones(3)
        close(made(x), module(x))
        first.offset.mul_(3)
        close(made(x), module(x))
    assert {"0.offset", "1.site_", "0.parts_0", "1.named_a_b"} <= {a.name for a in given[0].arguments}


def test_compiled_modules_are_pickled():
    x = torch.randn(2, 3)
    with torch.no_grad():
        made = compiled(Plain())
        close(pickle.loads(pickle.dumps(made))(x=x), made(x))


def test_tensors_elsewhere_are_refused():
    with torch.no_grad(), pytest.raises(tw.UnsupportedError, match="is on meta: programs run on the CPU"):
        compiled(nn.Linear(3, 3, device="meta"))(torch.randn(2, 3, device="meta"))
