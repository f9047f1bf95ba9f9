"""``tilewright run``: inputs from a file or made up, outputs to a file, compared and printed."""

import json
from pathlib import Path

import numpy as np
import pytest
from handmade import SHAPE, affine, affine_module, copy_module

import tilewright as tw
from tilewright.core.errors import InputError
from tilewright.tools import run

X = np.random.default_rng(5).random(SHAPE, np.float32)


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> str:
    return str(affine_module().export_library(tmp_path_factory.mktemp("run") / "affine.so"))


@pytest.fixture
def x(tmp_path) -> str:
    np.savez(tmp_path / "x.npz", x=X)
    return str(tmp_path / "x.npz")


def test_runs_on_given_inputs_and_writes_outputs(program, x, tmp_path, capsys):
    assert run.main([program, "--inputs", x, "--outputs", str(tmp_path / "y.npz")]) == 0
    np.testing.assert_allclose(np.load(tmp_path / "y.npz")["y"], affine(X), rtol=1e-6)
    assert capsys.readouterr().out == "y float32[64,128]\n"


@pytest.mark.parametrize("how", ["random", "zeros", "ones"])
def test_makes_up_inputs(program, how, capsys):
    assert run.main([program, "--fill", how, "--print-top", "2", "--repeat", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert lines[3].startswith("3 runs: median ")


def test_random_inputs_depend_on_the_seed_alone():
    infos = affine_module().inputs
    one, same, other = (run.make_inputs(infos, "random", seed)["x"] for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


def test_top_elements_come_with_their_place(program, x, capsys):
    assert run.main([program, "--inputs", x, "--print-top", "1", "--json"]) == 0
    [[place, value]] = json.loads(capsys.readouterr().out)["outputs"][0]["top"]
    want = affine(X)
    assert place == list(np.unravel_index(want.argmax(), SHAPE))
    assert value == pytest.approx(want.max())


def test_compares_with_what_is_expected(program, x, tmp_path, capsys):
    np.savez(tmp_path / "good.npz", y=affine(X))
    np.savez(tmp_path / "bad.npz", y=affine(X) + 1)
    assert run.main([program, "--inputs", x, "--expect", str(tmp_path / "good.npz")]) == 0
    assert run.main([program, "--inputs", x, "--expect", str(tmp_path / "bad.npz")]) == run.MISMATCH
    assert run.main([program, "--inputs", x, "--expect", str(tmp_path / "bad.npz"), "--atol", "1.1", "--quiet"]) == 0
    out = capsys.readouterr().out
    assert "y agrees" in out
    assert "y DIFFERS" in out


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e5m2", "float8_e8m0fnu", "int2"])
def test_types_that_numpy_cannot_save_come_back(dtype, tmp_path):
    module = copy_module(dtype, (3,))
    values = run.make_inputs(module.inputs, "random", 0)
    run.write_arrays(tmp_path / "x.npz", values)
    back = run.read_arrays(tmp_path / "x.npz", module.inputs)
    assert back["x"].dtype == values["x"].dtype
    assert back["x"].tobytes() == values["x"].tobytes()
    assert not np.isnan(back["x"].astype(np.float32)).any()


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_numbers_are_made_up_compared_and_printed(dtype, tmp_path, capsys):
    module = copy_module(dtype, (3,))
    path = str(module.export_library(tmp_path / "copy.so"))
    [name, out] = [module.inputs[0].name, module.outputs[0].name]
    values = run.make_inputs(module.inputs, "random", 0)[name]
    assert values.dtype == dtype and (np.imag(values) != 0).all()
    for part, agrees in ((values, 0), (np.real(values).astype(dtype), 1)):
        run.write_arrays(tmp_path / "want.npz", {out: part})
        assert run.main([path, "--expect", str(tmp_path / "want.npz"), "--print-top", "1"]) == agrees
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == f"{out} {dtype}[3]" and float(lines[1].split()[0]) == pytest.approx(
            np.abs(values).max(), 1e-4
        )


def test_what_is_no_number_is_not_made_up():
    with pytest.raises(InputError, match="input 't' is a string: made-up inputs are numbers"):
        run.make_inputs([tw.TensorInfo("x", (2,), "float32"), tw.TensorInfo("t", (2,), "string")], "random", 0)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--inputs", "none.npz"], "cannot read none.npz as an .npz file: No such file or directory"),
        (["--inputs", __file__], "as an .npz file"),
        (["--outputs", "none/y.npz"], "cannot write"),
        (["--rounds", "0"], "--rounds is 0"),
        (["--threads", "0"], "at least 1"),
    ],
)
def test_refuses_in_one_line(program, arguments, message, capsys):
    assert run.main([program, *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("error: ")
    assert message in captured.err
    assert captured.err.count("\n") == 1


def test_refuses_outputs_that_are_not_there(program, tmp_path, capsys):
    np.savez(tmp_path / "z.npz", z=X)
    assert run.main([program, "--expect", str(tmp_path / "z.npz")]) == 2
    assert "has 'z': the outputs are 'y'" in capsys.readouterr().err


def test_refuses_a_program_that_is_not_there(capsys):
    assert run.main([str(Path("none.so"))]) == 2
    assert "there is no program none.so" in capsys.readouterr().err


def test_a_wrong_input_shape_is_one_line(program, capsys):
    with pytest.raises(SystemExit) as info:
        run.main([program, "--input-shape", "x"])
    assert info.value.code == 2
    error = capsys.readouterr().err
    assert "NAME:EXTENT" in error and error.count("\n") == 1
