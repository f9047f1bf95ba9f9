"""Nothing is replaced that Tilewright did not make, or that belongs to another program."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from dense_model import dense

import tilewright as tw
from tilewright.driver import api
from tilewright.tools import cli


@pytest.fixture
def model(tmp_path: Path) -> str:
    onnx.save(dense(), tmp_path / "net.onnx")
    return str(tmp_path / "net.onnx")


def save(model: str, output: Path, scale: float = 1.0) -> list[str]:
    """Compile the model, with a weight times ``scale``; the names of what the report says was written."""
    proto = onnx.load(model)
    weight = proto.graph.initializer[0]
    weight.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(weight) * np.float32(scale), weight.name))
    _, _, report = api.compile_to_file(proto, output, input_shapes={"n": 4}, workers=0)
    assert all(Path(file).exists() for file in report.files)
    return [Path(file).name for file in report.files]


def test_each_program_has_files_of_its_own_name(model, tmp_path):
    assert save(model, tmp_path / "m.so") == ["m.so", "m.safetensors"]
    before = {name: (tmp_path / name).read_bytes() for name in ("m.so", "m.safetensors")}
    assert save(model, tmp_path / "libm.a", 2.0) == ["libm.a", "libm.h", "libm.safetensors"]
    assert save(model, tmp_path / "m.tw", 3.0) == ["m.tw"]
    assert {name: (tmp_path / name).read_bytes() for name in before} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "libm.a", "libm.h", "libm.safetensors", "m.safetensors", "m.so", "m.tw", "net.onnx"
    ]  # fmt: skip


def test_a_program_may_be_made_again(model, tmp_path):
    for suffix in (".so", ".tw", ".a"):
        for scale in (1.0, 2.0):
            save(model, tmp_path / f"net{suffix}", scale) if suffix != ".a" else save(model, tmp_path / "libn.a", scale)
    (tmp_path / "net.so").write_bytes((tmp_path / "net.so").read_bytes()[:-100])  # damaged
    save(model, tmp_path / "net.so")
    assert tw.load_module(tmp_path / "net.so").outputs
    (tmp_path / "net.so").unlink()
    save(model, tmp_path / "net.so", 5.0)  # the weights that were left belong to nobody
    (tmp_path / "empty.so").touch()
    save(model, tmp_path / "empty.so")
    assert tw.load_module(tmp_path / "empty.so").outputs


def test_programs_of_one_name_share_equal_weights_and_no_others(model, tmp_path):
    save(model, tmp_path / "m.so")
    save(model, tmp_path / "m.o")
    before = (tmp_path / "m.safetensors").read_bytes()
    for name in ("m.so", "m.o"):
        other = tmp_path / {"m.so": "m.o", "m.o": "m.so"}[name]
        with pytest.raises(
            tw.ArtifactError, match=f"m.safetensors: the program {other} has these weights; give another"
        ):
            save(model, tmp_path / name, 2.0)
    assert (tmp_path / "m.safetensors").read_bytes() == before
    assert not list(tmp_path.glob(".*"))
    tw.load_module(tmp_path / "m.so", verify=True)


@pytest.mark.parametrize("name, output", [("m.so", "m.so"), ("m.o", "m.o"), ("libm.a", "libm.a"), ("libm.h", "libm.a"),
                                          ("m.safetensors", "m.so"), ("libm.safetensors", "libm.a")])  # fmt: skip
def test_files_of_others_stay(model, tmp_path, name, output):
    (tmp_path / name).write_text("a user's own")
    with pytest.raises(tw.ArtifactError, match=f"{name}: a file is there that Tilewright did not make"):
        save(model, tmp_path / output)
    assert (tmp_path / name).read_text() == "a user's own"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["net.onnx", name])


def test_a_folder_with_other_things_stays(model, tmp_path):
    save(model, tmp_path / "m.tw")
    (tmp_path / "m.tw" / "photo.jpg").touch()
    with pytest.raises(tw.ArtifactError, match=r"m\.tw: the folder holds 'photo\.jpg', too"):
        save(model, tmp_path / "m.tw")
    assert (tmp_path / "m.tw" / "photo.jpg").exists()


def test_headers_and_examples_of_others_stay(model, tmp_path, capsys):
    save(model, tmp_path / "m.so")
    save(model, tmp_path / "libm.a")
    program, own = str(tmp_path / "m.so"), tmp_path / "main.c"
    for _ in range(2):  # its own may be written again
        assert cli.main(["header", program, "--example", str(own)]) == 0
    out = capsys.readouterr().out
    assert "m.h: m_load" in out and "main.c: calls them" in out
    assert cli.main(["header", program, "-o", str(tmp_path / "libm.h")]) == 2
    assert f"it is the header of {tmp_path / 'libm.a'}" in capsys.readouterr().err
    for file, words in ((own, ["--example", str(own)]), (tmp_path / "m.h", [])):
        file.write_text("int main(void);")
        assert cli.main(["header", program, *words]) == 2
        assert "a file is there that Tilewright did not make" in capsys.readouterr().err
        assert file.read_text() == "int main(void);"


def test_two_models_of_one_name_take_turns_only_by_name(model, tmp_path, capsys):
    pair = [str(tmp_path / f"net{suffix}") for suffix in (".onnx", ".pt2")]
    torch.export.save(torch.export.export(torch.nn.ReLU(), (torch.ones(2),)), pair[1])
    for first, second in (pair, pair[::-1]):
        shape = {pair[0]: ["--input-shape", "n=4"]}
        for _ in range(2):  # its own program is made again
            assert cli.main(["compile", first, *shape.get(first, ())]) == 0
        before = (tmp_path / "net.so").read_bytes()
        assert cli.main(["compile", second, *shape.get(second, ())]) == 2
        assert f"it may be the program of {first}; give a name with -o" in capsys.readouterr().err
        assert (tmp_path / "net.so").read_bytes() == before
        (tmp_path / "net.so").unlink()
