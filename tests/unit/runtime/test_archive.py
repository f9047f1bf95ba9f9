"""Static libraries: several programs in one C program, without a clash."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import c_programs
import numpy as np
import onnx
import pytest

import tilewright as tw
from tilewright.driver import api
from tilewright.runtime.c import archive
from tilewright.tools import compile as compile_tool

TEXT = """<ir_version: 9, opset_import: ["": 18]> g (float[N,48] x) => (float[N,40] y) { s = MatMul(x, w) y = OP(s) }"""
X = np.random.default_rng(1).standard_normal((8, 48)).astype(np.float32)

# Runs all three on one input and writes their outputs one after another.
MAIN = """
#include "libfirst.h"
#include "libagain.h"
#include "libother.h"

static float x[FIRST_IN_X_ELEMENTS], y[3][FIRST_OUT_Y_ELEMENTS];

int main(int argc, char **argv) {
  char error[256] = "";
  FILE *file = fopen(argv[1], "rb");
  int failed = argc != 5 || !file || fread(x, sizeof x, 1, file) != 1;
  first_t *first = first_load(argv[2], 2, error, sizeof error);
  again_t *again = again_load(argv[3], 1, error, sizeof error);
  other_t *other = other_load(argv[4], 2, error, sizeof error);
  failed = failed || !first || !again || !other || first_run(first, x, y[0], error, sizeof error) ||
           again_run(again, x, y[1], error, sizeof error) || other_run(other, x, y[2], error, sizeof error);
  if (failed) fputs(error, stderr);
  fwrite(y, sizeof y, 1, stdout);
  return first_free(first), again_free(again), other_free(other), failed;
}
"""


def save(path: Path, op: str = "Relu", extent: str = "8") -> str:
    model = onnx.parser.parse_model(TEXT.replace("OP", op).replace("[N", f"[{extent}"))
    weight = np.random.default_rng(0).standard_normal((48, 40)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    onnx.save(model, path)
    return str(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with the libraries of two models, one of them under two names."""
    folder = tmp_path_factory.mktemp("archive")
    for name, op in [("first", "Relu"), ("again", "Relu"), ("other", "Sigmoid")]:
        save(folder / "net.onnx", op)
        assert (
            compile_tool.main(
                [str(folder / "net.onnx"), "--emit", "lib", "-o", str(folder / f"lib{name}.a"), "--quiet"]
            )
            == 0
        )
    return folder


def test_models_are_linked_together_and_give_the_answers_of_python(folder, tmp_path):
    names = ("first", "again", "other")
    (tmp_path / "main.c").write_text(MAIN)
    libraries = [folder / f"lib{name}.a" for name in names]
    made = c_programs.build(tmp_path / "main.c", tmp_path / "main", f"-I{folder}", *libraries)
    X.tofile(tmp_path / "x")
    command = [made, tmp_path / "x", *(folder / f"lib{name}.safetensors" for name in names)]
    done = subprocess.run(list(map(str, command)), capture_output=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, b"")
    got = np.frombuffer(done.stdout, np.float32).reshape(3, 8, 40)
    want = [tw.compile(save(tmp_path / "net.onnx", op))(X)[0] for op in ("Relu", "Relu", "Sigmoid")]
    np.testing.assert_array_equal(got, want)


def test_a_linked_model_needs_its_weights_alone(folder, tmp_path):
    (tmp_path / "use.c").write_text(
        '#include "libfirst.h"\nint main(int n, char **a) { char e[99]; first_t *m = first_load(a[n - 1], 1, e, 99); '
        "return puts(m ? first_program.name : e), first_free(m), !m; }"
    )
    made = c_programs.build(tmp_path / "use.c", tmp_path / "use", f"-I{folder}", folder / "libfirst.a")
    assert c_programs.run(made, folder / "libfirst.safetensors").stdout == "first\n"
    done = c_programs.run(made, folder / "libother.safetensors")
    assert (done.returncode, done.stdout) == (0, "first\n")  # the same weights
    assert "No such file" in c_programs.run(made, folder / "none").stdout


def test_only_functions_under_its_own_name_are_seen(folder):
    text = archive.run_llvm_tool("llvm-readelf", "-sW", folder / "libfirst.a")
    rows = [line.split() for line in text.splitlines() if " GLOBAL " in line and " UND " not in line]
    assert {row[-1] for row in rows if row[5] == "DEFAULT"} == {"first_create", "first_metadata"}
    assert all(row[-1].startswith("first_") for row in rows)
    assert len(rows) > 10
    undefined = set(re.findall(r"GLOBAL \S+ +UND (\S+)", text))
    assert all(
        re.match(
            r"first_|TVMFFI|__kmpc_|malloc|free|aligned_alloc|mem|strlen|clock_gettime|pthread_self|sched_|snprintf",
            name,
        )
        for name in undefined
    )


# Two programs of open sizes, one of them for several CPUs, and another one for several with its weights inside.
FORMS = """
#include "libopen.h"
#include "libwide.h"
#include "libinside.h"

static float x[FIRST_ROOM], y[3][FIRST_ROOM];
static open_outputs_t of_open;
static wide_outputs_t of_wide;

int main(int argc, char **argv) {
  char error[256] = "";
  const open_sizes_t seven = {7};
  const wide_sizes_t five = {5};
  FILE *file = fopen(argv[1], "rb");
  int failed = argc != 4 || !file || fread(x, 8 * 48 * sizeof *x, 1, file) != 1;
  open_t *open_one = open_load(argv[2], 2, error, sizeof error);
  wide_t *wide = wide_load(argv[3], 1, error, sizeof error);
  inside_t *inside = inside_load(2, error, sizeof error);
  failed = failed || !open_one || !wide || !inside || open_run(open_one, &seven, x, &of_open, error, sizeof error) ||
           wide_run(wide, &five, x, &of_wide, error, sizeof error) || inside_run(inside, x, y[2], error, sizeof error);
  if (!failed) memcpy(y[0], of_open.out_y.data, 7 * 40 * sizeof **y);
  if (!failed) memcpy(y[1], of_wide.out_y.data, 5 * 40 * sizeof **y);
  if (failed) fputs(error, stderr);
  for (int i = 0; i < 3; i++) fwrite(y[i], sizeof *x, (size_t[]){7 * 40, 5 * 40, 8 * 40}[i], stdout);
  return open_free(open_one), wide_free(wide), inside_free(inside), failed;
}
"""


def test_open_programs_and_one_with_variants_and_weights_inside_are_linked_together(tmp_path):
    several = ["--target", "x86 -mcpu=x86-64-v2,x86-64-v3", "--weights", "inside"]
    for name, op, extent, options in (
        ("open", "Relu", "N", []),
        ("wide", "Tanh", "N", several[:2]),
        ("inside", "Abs", "8", several),
    ):
        path = save(tmp_path / f"{name}.onnx", op, extent)
        assert (
            compile_tool.main([path, "--emit", "lib", "-o", str(tmp_path / f"lib{name}.a"), "--quiet", *options]) == 0
        )
    assert sorted(file.name for file in tmp_path.glob("*.safetensors")) == [
        "libopen.safetensors",
        "libwide.safetensors",
    ]
    (tmp_path / "main.c").write_text(FORMS.replace("FIRST_ROOM", "8 * 48"))
    libraries = [tmp_path / f"lib{name}.a" for name in ("open", "wide", "inside")]
    made = c_programs.build(tmp_path / "main.c", tmp_path / "main", f"-I{tmp_path}", *libraries)
    X.tofile(tmp_path / "x")
    command = [made, tmp_path / "x", tmp_path / "libopen.safetensors", tmp_path / "libwide.safetensors"]
    done = subprocess.run(list(map(str, command)), capture_output=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, b"")
    got = np.split(np.frombuffer(done.stdout, np.float32), [7 * 40, 12 * 40])
    for values, name, rows in zip(got, ("open", "wide", "inside"), (7, 5, 8), strict=True):
        target = None if name == "open" else several[1]
        want = tw.compile(str(tmp_path / f"{name}.onnx"), target or "x86")(X[:rows])[0]
        np.testing.assert_array_equal(values.reshape(rows, 40), want)


def test_what_depends_on_data_is_refused_in_one_line_and_nothing_is_written(tmp_path, capsys):
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 18]> g (float[n] x) => (float[m] y) { y = Unique (x) }'
    )
    onnx.save(model, tmp_path / "net.onnx")
    assert compile_tool.main([str(tmp_path / "net.onnx"), "--emit", "lib"]) == 2
    error = capsys.readouterr().err
    assert "libnet.a cannot be called from C: node" in error and error.count("\n") == 1
    assert [file.name for file in tmp_path.iterdir()] == ["net.onnx"]


def test_a_name_that_is_no_librarys_is_refused(tmp_path, capsys):
    path = save(tmp_path / "net.onnx")
    assert compile_tool.main([path, "--emit", "lib", "-o", str(tmp_path / "net.so")]) == 2
    assert "for --emit lib give a name that ends with .a" in capsys.readouterr().err
    with pytest.raises(tw.ArtifactError, match=r"cannot write .*none"):
        api.compile_to_file(path, tmp_path / "none" / "libnet.a")


def test_what_llvms_tools_refuse_is_told(tmp_path):
    with pytest.raises(tw.ArtifactError, match=r"^llvm-nm cannot make the library: .*") as info:
        archive._archive([b"no object"], tmp_path / "lib.a", "net", {})
    assert "\n" not in str(info.value)
