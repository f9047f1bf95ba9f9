"""Operators of torch's that become nodes of ONNX's: held against torch where both could differ."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional as F
from torch.utils._pytree import tree_leaves

import tilewright as tw
from tilewright.core.errors import ModelError, UnsupportedError
from tilewright.core.model import TensorInfo
from tilewright.core.sizes import Sym
from tilewright.frontends import from_pytorch
from tilewright.frontends.foreign import Samples
from tilewright.frontends.linalg.importer import import_linalg
from tilewright.frontends.nodes import NODE, Constant, OnnxNode

NAN, INF = float("nan"), float("inf")


def make_tensors() -> dict[str, torch.Tensor]:
    """What the cases compute with; rows with what sorts and comparisons get wrong."""
    chance = torch.Generator().manual_seed(0)
    draw = partial(torch.randn, generator=chance)
    rows = draw(3, 17)
    rows[0, 3], rows[0, 7], rows[0, 9], rows[2, 0] = NAN, INF, -INF, -NAN
    rows[1] = torch.randint(0, 3, (17,), generator=chance).float()
    rows[1, 4] = -0.0
    return {
        "rows": rows,
        "image": draw(2, 3, 6, 7),
        "places": torch.randint(0, 4, (9,), generator=chance),
        "each": torch.randint(0, 4, (9, 5), generator=chance),
        "added": draw(9, 5),
        "into": draw(4, 5),
        "grid": torch.rand(2, 4, 5, 2, generator=chance) * 2.6 - 1.3,
        "columns": draw(2, 12, 12),
        "square": draw(2, 4, 4) + 3 * torch.eye(4),
    }


NAMES = tuple(make_tensors())
GENERATOR = torch.Generator()

CASES: dict[str, Callable[[Any], Any]] = {
    "topk": lambda t: torch.topk(t.rows, 5)[0],  # ties in any order
    "sort": lambda t: (torch.sort(t.rows, stable=True), torch.sort(t.rows, stable=True, descending=True)),
    "sort of bools": lambda t: torch.sort(t.rows > 0, stable=True),
    "median": lambda t: torch.median(t.rows, -1)[0],
    "kthvalue": lambda t: torch.kthvalue(t.rows, 4, -1)[0],
    "pad": lambda t: (
        F.pad(t.image, (1, 2, 2, 1), mode="reflect"),
        F.pad(t.image, (-1, 2, 1, 0), mode="replicate"),
        F.pad(t.image, (1, 2, 2, 1), mode="circular"),
        F.pad(t.image, (1, -2, 2, 1)),
    ),
    "scatter": lambda t: (
        t.into.scatter(0, t.each[:3], t.added),
        t.into.scatter(0, t.each[:3, :2], 7.0),
        t.into.scatter_add(0, t.each, t.added),
        t.into.scatter(0, t.each, t.added, reduce="multiply"),
        t.into.scatter_reduce(0, t.each, t.added, "amax"),
        t.into.scatter_reduce(0, t.each, t.added, "mean", include_self=False),
    ),
    "scatter of rows": lambda t: (
        t.into.scatter_add(0, t.places[:, None].expand(-1, 5), t.added),
        t.into.scatter_reduce(0, t.places[:, None].expand(-1, 5), t.added, "amin"),
        t.into.gather(0, t.places[:, None].expand(-1, 5)),
        t.into.gather(0, t.places[:, None].expand(-1, 2)),
    ),
    "grid_sample": lambda t: (
        F.grid_sample(t.image, t.grid, align_corners=False),
        F.grid_sample(t.image, t.grid, mode="nearest", padding_mode="reflection", align_corners=True),
        F.grid_sample(t.image, t.grid, mode="bicubic", padding_mode="border", align_corners=False),
    ),
    "fold": lambda t: (
        F.fold(t.columns, (6, 8), 2, stride=2),
        F.fold(t.columns[0, :, :6], (4, 6), (3, 4), dilation=(1, 1)),
    ),
    "resized": lambda t: (
        F.interpolate(t.image, scale_factor=2, mode="bilinear"),
        F.interpolate(t.image, scale_factor=1.5, mode="bicubic"),  # 7 columns become ten and a half
        F.interpolate(t.image, size=(4, 9), mode="bilinear", align_corners=True),
        F.interpolate(t.image, size=(1, 1), mode="bilinear", align_corners=True),
        F.interpolate(t.image.half(), size=(4, 9), mode="bilinear").float(),
        F.interpolate(t.image[0], scale_factor=3, mode="linear"),
        F.interpolate(t.image[None].double(), size=(2, 12, 4), mode="trilinear"),
    ),
    "repeated": lambda t: (
        F.interpolate(t.image, size=(3, 21)),
        F.interpolate(t.image, scale_factor=2, mode="nearest-exact"),
        F.interpolate(t.image, size=(2, 14), mode="nearest-exact"),
        F.interpolate(t.image, size=(5, 11)),
        F.interpolate(t.image, scale_factor=1.5),
    ),
    "adaptive means": lambda t: (
        F.adaptive_avg_pool2d(t.image, (4, 5)),
        F.adaptive_avg_pool2d(t.image, (8, 7)),
        F.adaptive_avg_pool3d(t.image, (3, 4, 2)),
        F.adaptive_avg_pool1d(t.rows[1:2], 5),
    ),
    "matrices": lambda t: (torch.linalg.det(t.square), torch.linalg.inv(t.square), torch.linalg.slogdet(t.square)),
    "bits": lambda t: (t.rows[1:2].view(torch.int32) + 1, t.places.int().view(torch.float32) * 0),
    "bags": lambda t: (
        F.embedding_bag(t.places, t.into, torch.tensor([0, 4, 4]), mode="max"),
        F.embedding_bag(t.each, t.into, mode="mean", padding_idx=1),
    ),
    "places known": lambda t: t.added.as_strided((4, 3), (5, 2), 1),
    "equal": lambda t: (t.rows == t.rows, torch.isfinite(t.rows), torch.isclose(t.rows, t.rows)),
}


class Together(nn.Module):
    """All cases, of the same tensors."""

    def forward(self, *tensors: torch.Tensor) -> dict[str, Any]:
        given = SimpleNamespace(**dict(zip(NAMES, tensors, strict=True)))
        return {name: compute(given) for name, compute in CASES.items()}


def test_nodes_compute_what_eager_does():
    tensors = tuple(make_tensors().values())
    made = tw.compile(Together(), example_inputs=tensors, num_threads=1)(*tensors)
    expected = Together()(*tensors)
    for name in CASES:
        for a, b in zip(tree_leaves(made[name]), tree_leaves(expected[name]), strict=True):
            message = partial("{}: {}".format, name)
            torch.testing.assert_close(a, b, rtol=2e-5, atol=2e-5, equal_nan=True, msg=message)


class Tagger(nn.Module):
    """Recurrent layers of all kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(6, 5, 2, batch_first=True, bidirectional=True)
        self.gru = nn.GRU(10, 4, batch_first=True)
        self.rnn = nn.RNN(4, 3, nonlinearity="relu", bias=False, bidirectional=True, batch_first=True)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x, (_, cell) = self.lstm(x)
        x, state = self.gru(x)
        return self.rnn(x)[0], cell, state


def test_recurrent_layers_take_any_number_of_steps():
    module, sizes = Tagger().eval(), {0: Dim("batch", max=64), 1: Dim("steps", max=500)}
    program = tw.compile(module, example_inputs=(torch.randn(2, 7, 6),), dynamic_shapes=(sizes,), num_threads=1)
    for batch, steps in ((1, 1), (3, 40)):
        x = torch.randn(batch, steps, 6)
        torch.testing.assert_close(program(x), module(x))


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_a_dropout_that_is_drawn_is_refused(kind: type[nn.Module]):
    module, x = kind(6, 5, 2, dropout=0.5).train(), torch.randn(4, 2, 6)
    for source in (module, torch.export.export(module, (x,))):
        with pytest.raises(UnsupportedError, match="draws random numbers"):
            tw.compile(source, example_inputs=(x,))


@pytest.mark.parametrize("module", [nn.LSTM(6, 5, proj_size=3), nn.GRU(6, 5).half()], ids=["projection", "half"])
def test_what_onnx_does_not_have_is_computed_otherwise(module: nn.Module):
    x = torch.randn(4, 2, 6, dtype=next(module.parameters()).dtype)
    program = tw.compile(module.eval(), example_inputs=(x,), num_threads=1)
    torch.testing.assert_close(program(x), module(x), rtol=2e-3, atol=2e-3)


def test_decompositions_do_not_load_the_mlir_of_torch():
    """Its LLVM must not meet ours: code that calls a function of C then calls another name."""
    code = (
        "import sys, tilewright.frontends.torch.decompositions; sys.exit('torch_mlir._mlir_libs._mlir' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_steps_are_not_kernels():
    """The text of an import holds one loop for each layer, and not the steps one by one."""
    text = str(from_pytorch(Tagger().eval(), example_inputs=(torch.randn(1, 60, 6),)).module)
    assert text.count("math.tanh") < 20


def test_a_program_of_open_sizes_has_nodes_whose_attributes_are_known():
    def compute(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.topk(x, 3)[0], F.pad(x[None], (2, 1), mode="reflect"), torch.sort(x, stable=True)[1]

    class Rows(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return compute(x)

    sizes = ({1: Dim("n", min=8, max=200)},)
    program = tw.compile(Rows(), example_inputs=(torch.randn(2, 12),), dynamic_shapes=sizes, num_threads=1)
    x = torch.randn(2, 31)
    torch.testing.assert_close(program(x), compute(x))


def test_images_of_open_sizes_are_resized():
    """By whole factors, or to a known size; the batch is open as well."""

    class Larger(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            wide = F.interpolate(x, scale_factor=2, mode="bilinear")
            return wide, F.interpolate(x, scale_factor=2), F.interpolate(x, size=(5, 7), mode="bilinear")

    sizes = ({0: Dim("n", max=9), 2: Dim("h", min=8, max=90)},)
    program = tw.compile(Larger(), example_inputs=(torch.randn(2, 3, 30, 20),), dynamic_shapes=sizes, num_threads=1)
    for shape in ((1, 3, 9, 20), (5, 3, 44, 20)):
        x = torch.randn(shape)
        torch.testing.assert_close(program(x), Larger()(x), rtol=2e-5, atol=2e-5)


def make_text(node: str, size: int = 9) -> str:
    kind = f"(tensor<4x{size}xf32>) -> tensor<4x{size}xf32>"
    attributes = f"{{{NODE} = {json.dumps(node)}}}"
    return f"""func.func private @f{kind} attributes {attributes}
func.func @main(%x: tensor<4x{size}xf32>) -> tensor<4x{size}xf32> {{
  %y = call @f(%x) : {kind}
  return %y : tensor<4x{size}xf32>
}}"""


def test_a_call_becomes_what_the_node_computes():
    node = OnnxNode("Relu", ("float32",), ("float32",), {})
    assert OnnxNode.from_json(node.to_json()) == node
    text = str(import_linalg(make_text(node.to_json())).module)
    assert "linalg.generic" in text
    assert "call" not in text
    assert "private" not in text


def test_large_constants_become_weights():
    numbers = torch.randn(4, 40)
    node = OnnxNode("Add", ("float32", Constant(numbers.tolist(), "float32")), ("float32",), {})
    model = import_linalg(make_text(node.to_json(), 40))
    [(name, param)] = model.params.items()
    assert param.info.name == name
    x = torch.randn(4, 40).numpy()
    [made] = tw.build(model, num_threads=1).run([x])
    assert (made == x + numbers.numpy()).all()


def test_constants_are_inputs_that_are_known():
    node = OnnxNode("Pad", ("float32", Constant([0, 1, 0, -1], "int64")), ("float32",), {"mode": "edge"})
    assert OnnxNode.from_json(node.to_json()) == node
    import_linalg(make_text(node.to_json()))


@pytest.mark.parametrize(
    ("node", "error", "message"),
    [
        ("{", ModelError, "does not stand for a node"),
        ('{"op": "Relu"}', ModelError, "does not stand for a node"),
        (OnnxNode("Relu", ("float99",), ("float32",), {}).to_json(), ModelError, "float99"),
        (OnnxNode("Relu", ("float64",), ("float64",), {}).to_json(), ModelError, "operands are of other types"),
        (OnnxNode("Add", ("float32", "float32"), ("float32",), {}).to_json(), ModelError, "does not stand for a node"),
        (OnnxNode("Cast", ("float32",), ("int32",), {"to": 6}).to_json(), ModelError, "its result is"),
        (OnnxNode("Transpose", ("float32",), ("float32",), {"perm": [1, 0]}).to_json(), ModelError, "its result is"),
        (OnnxNode("Relu", ("float32",), ("float32",), {"x": {}}).to_json(), ModelError, "does not stand for a node"),
        (OnnxNode("Nonsense", ("float32",), ("float32",), {}).to_json(), ModelError, "Nonsense"),
    ],
)
def test_a_text_that_is_no_node_is_refused(node: str, error: type[Exception], message: str):
    with pytest.raises(error, match=message) as caught:
        import_linalg(make_text(node))
    assert "\n" not in str(caught.value)


def test_attributes_must_not_depend_on_open_sizes():
    texts = [
        make_text(OnnxNode("Clip", ("float32", Constant(float(n), "float32")), ("float32",), {}).to_json(), n)
        for n in (9, 12)
    ]
    n = Sym("n", 2)
    info = TensorInfo("x", (4, n), "float32")
    samples = Samples(({"n": 9}, {"n": 12}), (texts[1],), (n,))
    with pytest.raises(UnsupportedError, match="attributes of a node depend on the open sizes"):
        import_linalg(texts[0], [info], [info], {}, "model", samples)


class Calling(nn.Module):
    def __init__(self, compute: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.compute = compute

    def forward(self, x: torch.Tensor) -> Any:
        return self.compute(x)


@pytest.mark.parametrize(
    ("compute", "message"),
    [
        (lambda x: torch.view_as_real(torch.fft.rfft(x)), "has no conversion of complex numbers"),
        (lambda x: torch.linalg.cholesky(x), "does more than give a result"),
        (lambda x: torch.randn(4, 4, generator=GENERATOR) + x, r"an object of torch\._C\.Generator"),
    ],
)
def test_what_no_kernel_computes_is_refused_in_words(compute: Callable[[torch.Tensor], Any], message: str):
    with pytest.raises(UnsupportedError, match=message):
        tw.compile(Calling(compute), example_inputs=(torch.eye(4),))
