"""Programs of several functions: built together, called by their names, saved, loaded, and called from C."""

from __future__ import annotations

import pickle
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import c_programs
import numpy as np
import pytest

import tilewright as tw
from tilewright import te
from tilewright.tools import header, inspect_artifact

Op = Callable[[te.Expr, te.Expr], te.Expr]
X = np.arange(8, dtype=np.float32)


def schedule(op: Op, shape: tuple[Any, ...] = (8,)) -> tuple[te.Schedule, list[te.Tensor]]:
    a, b = te.placeholder(shape, name="A"), te.placeholder(shape, name="B")
    c = te.compute(shape, lambda *i: op(a(*i), b(*i)), name="C")
    return te.create_schedule(c.op), [a, b, c]


@pytest.fixture(scope="module")
def module() -> tw.Module:
    functions = {"add": schedule(lambda x, y: x + y), "multiply": schedule(lambda x, y: x * y, (te.var("n"),))}
    return tw.build({**functions, "subtract": schedule(lambda x, y: x - y, (4,))}, num_threads=1)


def check(module: tw.Module) -> None:
    made = np.empty(8, np.float32)
    for name, wanted in (("add", X + X), ("multiply", X * X)):
        module[name](X, X, made)
        np.testing.assert_array_equal(made, wanted)
        np.testing.assert_array_equal(module.functions[name].run([X, X])[0], wanted)
    assert (module.functions["subtract"].run([X[:4], X[:4]])[0] == 0).all()
    module(X, X, made)  # the first one's
    np.testing.assert_array_equal(made, X + X)
    assert module.time_evaluator("multiply", number=1)(X, X, made).mean > 0


def test_functions_are_called_by_their_names(module: tw.Module):
    check(module)
    with pytest.raises(tw.InputError, match="the functions 'add', 'multiply', 'subtract', 'main' and"):
        module["divide"]
    assert module.get_source("linalg").count("func.func @main") == 3
    assert module.get_source("schedule").count("named_sequence @") == 3
    assert module.get_source("llvm-dialect").count("// -----") == 2


def test_functions_are_saved_and_loaded(module: tw.Module, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    check(pickle.loads(pickle.dumps(module)))
    module.export_library(tmp_path / "math.so")
    check(tw.load_module(tmp_path / "math.so"))
    assert inspect_artifact.main([str(tmp_path / "math.so"), "--json"]) == 0
    assert '"functions": ["add", "multiply", "subtract"]' in " ".join(capsys.readouterr().out.split())


MAIN = """
#include "math.h"
int main(int count, char **arguments) {
  char error[200] = "";
  float x[8] = {0, 1, 2, 3, 4, 5, 6, 7}, sum[8], difference[4];
  math_add_t *add = math_add_load(arguments[count - 1], "", 1, error, sizeof error);
  math_subtract_t *subtract = math_subtract_load(arguments[count - 1], "", 1, error, sizeof error);
  math_multiply_t *multiply = math_multiply_load(arguments[count - 1], "", 1, error, sizeof error);
  math_multiply_sizes_t sizes = {8};
  math_multiply_outputs_t made = {0};
  if (!add || !subtract || !multiply || math_add_run(add, x, x, sum, error, sizeof error) ||
      math_subtract_run(subtract, x, x, difference, error, sizeof error) ||
      math_multiply_run(multiply, &sizes, x, x, &made, error, sizeof error))
    return puts(error), 1;
  printf("%g %g %g\\n", sum[7], difference[3], made.out_C.data[7]);
  math_multiply_free_outputs(&made);
  return math_add_free(add), math_subtract_free(subtract), math_multiply_free(multiply), 0;
}
"""


def test_c_calls_functions(module: tw.Module, tmp_path: Path):
    module.export_library(tmp_path / "math.so")
    assert header.main([str(tmp_path / "math.so"), "-o", str(tmp_path / "math.h"), "--quiet"]) == 0
    (tmp_path / "main.c").write_text(MAIN)
    built = c_programs.build(tmp_path / "main.c", tmp_path / "main", f"-I{tmp_path}")
    done = subprocess.run([str(built), str(tmp_path / "math.so")], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "14 0 49\n")


def test_what_lower_gives_is_built():
    functions = [
        tw.lower(*schedule(lambda x, y: x + y), name="add"),
        tw.lower(*schedule(lambda x, y: x * y), name="mul"),
    ]
    assert "linalg.generic" in functions[0]
    made = np.empty(8, np.float32)
    tw.build(functions)["mul"](X, X, made)
    np.testing.assert_array_equal(made, X * X)


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        ([], "there is no function to build"),
        ([schedule(lambda x, y: x)], "a function of a program is a tuple: give what tw.lower gives"),
        ({"add": 5}, "is a int"),
        ([tw.lower(*schedule(lambda x, y: x), simple_mode=True)] * 2, "two functions have the name 'main'"),
    ],
)
def test_what_is_no_function_is_refused(functions: Any, message: str):
    with pytest.raises(tw.ExpressionError, match=message):
        tw.build(functions)
