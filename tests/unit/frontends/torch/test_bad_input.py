"""What a user can do wrong with PyTorch is one line that says what, where and what would do."""

from __future__ import annotations

import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import tilewright as tw
from tilewright import frontends
from tilewright.tools import cli

X = torch.zeros(2, 3)


class Calling(nn.Module):
    """A module in a module, that computes what a function does."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.inner = Inner(function)

    def forward(self, *args: torch.Tensor) -> Any:
        return self.inner(*args)


class Inner(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


def calling(function: Any) -> nn.Module:
    return Calling(function).eval()


@pytest.mark.parametrize(
    ("module", "inputs", "said"),
    [
        (nn.Sequential(nn.Linear(3, 3), nn.Dropout()), (X,), r"'1' \(Dropout\) is in training mode.*eval\(\)"),
        (nn.Sequential(nn.BatchNorm1d(3)), (X,), r"'0' \(BatchNorm1d\) is in training mode.*eval\(\)"),
        (
            calling(lambda x: x + 1 if x.sum() > 0 else x),
            (X,),
            r"inner cannot be exported.*values of tensors.*torch\.where",
        ),
        (calling(lambda x: torch.linalg.eigvals(x)), (torch.eye(3),), r"inner/.*'aten\.linalg_eig' has no conversion"),
        (calling(lambda x: x + torch.rand(3)), (X,), r"inner/.*draws random numbers.*eval\(\)"),
        (calling(lambda x: nn.functional.dropout(x, 0.5)), (X,), r"inner/.*draws random numbers.*eval\(\)"),
        (calling(lambda x: x.add_(1)), (X,), "writes into its input.*return a new tensor"),
        (nn.Linear(3, 3).eval(), (torch.zeros(2, 4),), "Linear cannot be exported: a and b must have same"),
        (nn.Linear(3, 3).eval(), None, r"Linear needs example inputs.*example_inputs=\(x, \.\.\.\)"),
        (nn.Linear(3, 3, device="meta").eval(), (X.to("meta"),), r"'weight' on meta.*cpu\(\)"),
        (
            lambda x: x,
            (X,),
            r"the function '<lambda>': give an nn\.Module whose forward calls it, or use torch\.compile",
        ),
        (nn.ReLU, (X,), "the class 'ReLU': give an instance of it"),
        (torch.zeros(3), (X,), "example inputs and dynamic shapes are for PyTorch modules"),
    ],
)
def test_a_module_that_cannot_be_compiled(module, inputs, said, capfd):
    with pytest.raises(tw.ModelError, match=said) as caught:
        tw.compile(module, example_inputs=inputs, cache=False)
    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")


@pytest.fixture(scope="module")
def compiled() -> Any:
    return tw.compile(calling(lambda x, y: x + y), example_inputs=(X, X), num_threads=1, cache=False)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((X,), r"takes arguments nested as \(\*, \*\), these are \(\*\)$"),
        (((X, X),), r"takes arguments nested as \(\*, \*\), these are \(\(\*, \*\)\)$"),
        ((X, {"mask": [X]}), r"these are \(\*, {mask: \[\*\]}\)$"),
        ((X, 3), "takes 2 tensors, 1 were given besides int"),
        ((X, X[:1]), r"input 'args_1' must have shape \(2, 3\), got \(1, 3\)"),
        ((X, X.double()), "input 'args_1' must be float32, got float64"),
        ((X, X.to("meta")), r"input 'args_1' is on meta.*cpu\(\)"),
        ((X, torch.zeros(2, 3, requires_grad=True)), r"'args_1' requires a gradient.*no_grad\(\)"),
    ],
)
def test_arguments_that_do_not_fit(compiled, args, said):
    with pytest.raises(tw.InputError, match=said) as caught:
        compiled(*args)
    assert "\n" not in str(caught.value)


class Plain(nn.Module):
    """Has a parameter, a buffer and a constant."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.register_buffer("scale", torch.ones(3))
        self.offset = torch.arange(3.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x) * self.scale + self.offset


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "plain.pt2"
    batch = torch.export.Dim("batch", min=1, max=9)
    torch.export.save(torch.export.export(Plain().eval(), (X,), dynamic_shapes=({0: batch},)), path)
    return path


class Runs:
    """Unpickling it is seen."""

    def __reduce__(self) -> Any:
        return pytest.fail, ("code of a file was run",)


def edited(saved: Path, folder: Path, edit: Any) -> Path:
    """The archive with its files as ``edit(name, data)`` gives them; None for one that is left out."""
    path = folder / "edited.pt2"
    with zipfile.ZipFile(saved) as whole, zipfile.ZipFile(path, "w") as made:
        for name in whole.namelist():
            data = edit(name, whole.read(name))
            if data is not None:
                made.writestr(name, data)
    return path


def _with(file: str, old: bytes, new: bytes) -> Any:
    return lambda name, data: data.replace(old, new) if name.endswith(file) else data


def _pickled(file: str) -> Any:
    def edit(name: str, data: bytes) -> bytes:
        if name.endswith("weights_config.json"):
            config = json.loads(data)
            config["config"]["scale"]["use_pickle"] = True
            return json.dumps(config).encode()
        return pickle.dumps(Runs()) if name.endswith(file) else data

    return edit


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (_pickled("weight_2"), "'scale' as a pickle"),
        (_with("constants_config.json", b"tensor_0", b"custom_obj_0"), "'offset' as a pickle"),
        (_with("model.json", b"Symbol('s77'", b"print('s77'"), "a size that is none"),
        (_with("model.json", b'"p_linear_weight"', b'"p_linear_weight=print()"'), "a name that is none"),
        (_with("model.json", b"torch.ops.aten.linear.default", b"torch.hub.load"), "an op that is not torch's own"),
        (
            _with("model.json", b"Symbol('s77'", b"Mul(Float('1.5', precision=53), Symbol('s77'"),
            "a fraction.*: compile it",
        ),
        (lambda name, data: None if name.endswith("model.json") else data, "another archive of torch"),
        (lambda name, data: data[:9] if name.endswith("model.json") else data, "cannot be read as an exported program"),
        (lambda name, data: data[:6] if name.endswith("weight_0") else data, r"has 6 bytes of 'linear\.weight'"),
        (lambda name, data: None if name.endswith("archive_format") else data, "another archive of torch"),
    ],
)
def test_a_file_that_is_broken_or_has_code_is_refused(saved, tmp_path, edit, said):
    path = edited(saved, tmp_path, edit)
    with pytest.raises(tw.ModelError, match=f"edited.pt2.*{said}") as caught:
        tw.compile(path, cache=False)
    assert "\n" not in str(caught.value)


def test_example_inputs_of_a_file_are_not_unpickled(tmp_path):
    path, module = tmp_path / "plain.pt2", Plain().eval()
    torch.export.save(torch.export.export(module, (X,)), path)
    hostile = edited(path, tmp_path, lambda n, data: pickle.dumps(Runs()) if "sample_inputs" in n else data)
    x = torch.randn(2, 3)
    with torch.no_grad():
        torch.testing.assert_close(tw.compile(hostile, num_threads=1, cache=False)(x), module(x))


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04abc", pickle.dumps([1])])
def test_a_file_that_is_no_archive(tmp_path, data):
    path = tmp_path / "some.pt2"
    path.write_bytes(data)
    with pytest.raises(tw.ModelError, match=r"some\.pt2"):
        tw.compile(path)


@pytest.mark.parametrize("command", ["check", "bench", "debug"])
def test_commands_on_onnx_models_say_so(saved, command, capsys):
    assert cli.main([command, str(saved)]) == 2
    assert "is a PyTorch program, and this reads ONNX models: compile it" in capsys.readouterr().err


def test_imports_refuse_what_is_no_program():
    with pytest.raises(tw.ModelError, match="cannot import a int"):
        frontends.from_pytorch(3)
    with pytest.raises(tw.ModelError, match="there are 2 input_infos for 1 inputs"):
        frontends.from_pytorch(torch.export.export(nn.ReLU(), (X,)), [("x", (2, 3)), ("y", (2, 3))])
    with pytest.raises(tw.ModelError, match="import failed"):
        frontends.from_torch_mlir("nothing")
