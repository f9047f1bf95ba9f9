"""TVM's tutorial "Getting Starting using TVMC Python", on a small network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import small_network
import torch

import tilewright as tw
from tilewright.tvm.driver import tvmc

WRONG: Any = "tflite"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("tvmc") / "my_model.onnx"
    onnx.save(small_network.network(), made)
    return made


def expected() -> np.ndarray:
    return 1 / (1 + np.exp(-np.maximum(small_network.X @ small_network.W, 0)))


def test_a_line_for_each_step(path: Path, capsys: pytest.CaptureFixture[str]):
    model = tvmc.load(path)
    model.summary()
    assert "func.func @main" in capsys.readouterr().out
    package = tvmc.compile(model, target="llvm", package_path=path.with_name("whatever"))
    assert Path(package.package_path).name == "whatever.so"
    again = tvmc.TVMCPackage(package_path=package.package_path)
    result = tvmc.run(again, device="cpu", inputs={"x": small_network.X}, repeat=2, number=1)
    np.testing.assert_allclose(result.get_output("output_1"), expected(), rtol=1e-5)
    lines = str(result).splitlines()
    assert lines[0] == "Execution time summary:" and lines[-1] == " ['output_0', 'output_1']"
    result.save(path.with_name("outputs.npz"))
    np.savez(path.with_name("inputs.npz"), x=small_network.X)
    other = tvmc.run(tvmc.compile(model), inputs=path.with_name("inputs.npz"), repeat=1, number=1)
    kept = np.load(path.with_name("outputs.npz"))
    assert all((kept[name] == each).all() for name, each in other.outputs.items())
    ones = tvmc.run(package, fill_mode="ones", repeat=1, number=1)
    assert ones.outputs["output_1"].shape == (4, 8)


@pytest.mark.parametrize("automatic", [False, True])
def test_a_log_of_tuning_is_for_the_next_program(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, automatic: bool
):
    monkeypatch.chdir(tmp_path)  # where the scheduler of tasks writes its total_latency.tsv
    model, log = tvmc.load(path), tmp_path / "log.json"
    found = tvmc.tune(
        model,
        tuning_records=log,
        tuner="random",
        trials=4 if automatic else 2,
        number=1,
        timeout=30,
        enable_autoscheduler=automatic,
    )
    assert found == str(log) and log.read_text().count("\n") >= 2
    package = tvmc.compile(model, tuning_records=found, output_format="tar")
    made = tvmc.run(package, inputs={"x": small_network.X}, repeat=1, number=1)
    np.testing.assert_allclose(made.outputs["output_1"], expected(), rtol=1e-5)


def test_a_file_of_pytorch(tmp_path: Path):
    module = torch.nn.Linear(3, 2).eval()
    torch.jit.save(torch.jit.trace(module, torch.zeros(1, 3)), tmp_path / "m.pt")
    model = tvmc.load(tmp_path / "m.pt", shape_dict={"x": (1, 3)})
    made = tvmc.run(tvmc.compile(model), inputs={"x": np.ones((1, 3), np.float32)}, repeat=1, number=1)
    np.testing.assert_allclose(made.outputs["output_0"], module(torch.ones(1, 3)).detach().numpy(), rtol=1e-5)


def test_what_has_no_meaning_here_is_refused_in_words(path: Path):
    model = tvmc.load(path)
    for call, error, message in (
        (lambda: tvmc.load(path, model_format=WRONG), tw.ModelError, "no format 'tflite': it reads ONNX"),
        (lambda: tvmc.load("m.pt"), tw.ModelError, "give shape_dict"),
        (lambda: model.save("x"), tw.ModelError, "keep the ONNX file"),
        (lambda: tvmc.compile(model, dump_code="asm"), tw.InputError, "compile --emit prints code"),
        (lambda: tvmc.run(WRONG, hostname="h"), tw.InputError, "leave hostname"),
        (lambda: tvmc.run(WRONG, fill_mode="twos"), tw.InputError, "it is random, ones, zeros"),
        (lambda: tvmc.tune(model, tuner="best"), tw.InputError, "tuners are xgb"),
        (
            lambda: tvmc.compile(model, tuning_records="none.log"),
            tw.InputError,
            "cannot read the log of tuning none.log",
        ),
    ):
        with pytest.raises(error, match=message):
            call()
