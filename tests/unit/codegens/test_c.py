"""Programs with code of users' code generators, called from C."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import c_programs
import numpy as np
import onnx
import onnx.parser
import pytest
from codegen_case import compile_c, register_reference
from refused import refused

import tilewright as tw
from tilewright.driver import api
from tilewright.runtime.c.header import demand_callable
from tilewright.tools import header as header_tool

pytestmark = pytest.mark.shares_kernels
X = np.random.default_rng(0).standard_normal((3, 4), np.float32)
MAIN = """
#include "net.h"
int main(int argc, char **argv) {
  char error[256] = "";
  static float x[12], y[12];
  FILE *file = fopen(argv[1], "rb");
  net_t *net = LOAD;
  int failed = argc < 2 || !file || fread(x, sizeof x, 1, file) != 1 || !net || net_run(net, x, y, error, sizeof error);
  if (failed) fputs(error, stderr);
  else for (int i = 0; i < 12; i++) printf("%.9g ", y[i]);
  return net_free(net), failed;
}
"""


def model(rows: str = "3") -> onnx.ModelProto:
    """Sigmoid, which C computes by a function of its library, between two ops."""
    text = f"g (float[{rows}, 4] x) => (float[{rows}, 4] y) {{ n = Neg(x) s = Sigmoid(n) y = Exp(s) }}"
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> {text}')


def register_c(*options: str, limit: str = "9") -> None:
    def compile(subgraph: tw.Subgraph) -> bytes:
        extents = "".join(f", int64_t {name}" for name in subgraph.extents)
        count = " * ".join(map(str, subgraph.outputs[0].shape))
        return compile_c(
            f"""#include <math.h>
            #include <stdint.h>
            int f(const float *x, float *y{extents}) {{
              for (long i = 0; i < {count}; i++) y[i] = 1 / (1 + expf(-x[i]));
              return x[0] > {limit} ? 5 : 0;
            }}""",
            *options,
        )

    tw.register_codegen("c", lambda s: s.nodes[0].op_type == "Sigmoid", compile, dynamic=True)


@pytest.mark.parametrize("options", [(), ("-shared", "-lm")], ids=["object", "library"])
@pytest.mark.parametrize("suffix", ["so", "a"])
def test_c_calls_programs_with_native_code(options: tuple[str, ...], suffix: str, tmp_path: Path):
    register_c(*options)
    onnx.save(model(), tmp_path / "net.onnx")
    name = "net.so" if suffix == "so" else "libnet.a"
    path, _, _ = api.compile_to_file(str(tmp_path / "net.onnx"), tmp_path / name)
    library: list[Any] = []
    load = "net_load(argv[2], 0, 1, error, sizeof error)"
    if suffix == "so":
        assert header_tool.main([str(path), "--quiet"]) == 0
    else:
        library, load = [path], "net_load(0, 1, error, sizeof error)"
        (tmp_path / "net.h").write_text((tmp_path / "libnet.h").read_text())
    (tmp_path / "main.c").write_text(MAIN.replace("LOAD", load))
    made = c_programs.build(tmp_path / "main.c", tmp_path / "main", f"-I{tmp_path}", *library)
    X.tofile(tmp_path / "x")
    done = c_programs.run(made, tmp_path / "x", path)
    assert (done.returncode, done.stderr) == (0, "")
    np.testing.assert_allclose(
        np.array(done.stdout.split(), np.float32), np.exp(1 / (1 + np.exp(X))).ravel(), rtol=1e-6
    )
    np.full(12, -20, np.float32).tofile(tmp_path / "x")
    assert "whose code has failed with status: 5" in c_programs.run(made, tmp_path / "x", path).stderr


def test_a_dynamic_program_with_native_code_is_one_for_c():
    register_c()
    manifest = tw.compile(model("N"), workers=0, cache=False).manifest
    assert any(kernel.codegen for kernel in manifest.kernels)
    demand_callable(manifest, 0, "the program")


def test_code_in_python_is_refused_for_c(tmp_path: Path):
    register_reference(lambda name: name.startswith("Sigmoid"))
    onnx.save(model(), tmp_path / "net.onnx")
    message = "cannot be called from C: node 'Sigmoid_1' is computed by a function of the runtime's Python"
    refused(lambda: api.compile_to_file(str(tmp_path / "net.onnx"), tmp_path / "libnet.a"), message)
    assert [file.name for file in tmp_path.iterdir()] == ["net.onnx"]
