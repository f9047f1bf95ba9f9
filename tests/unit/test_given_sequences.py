"""Kernels whose loops a user writes in the transform dialect: the config's ``schedules`` and ``--schedules FILE.mlir``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import tilewright as tw
from tilewright import te
from tilewright.tools import compile as compile_tool

NETWORK = """
<ir_version: 9, opset_import: ["": 18]>
network (float[40, 32] x, float[32, 48] w) => (float[40, 48] y) { m = MatMul(x, w)  y = Tanh(m) }"""
HEAD = 'module attributes {transform.with_named_sequence} { transform.named_sequence @"matmul_*"(%k: !transform.any_op {transform.consumed}) {'
OP, ONE = "!transform.any_op", "(!transform.any_op) -> !transform.any_op"
MATCH = f'%ops = transform.structured.match ops{{["linalg.generic"]}} in %k : {ONE}'
BOTH = f"{MATCH} %product, %tanh = transform.split_handle %ops : ({OP}) -> ({OP}, {OP})"


def sequence(*steps: str) -> str:
    return "\n".join([HEAD, *steps, "transform.yield } }"])


def tile_for(op: str, sizes: str, loops: int, name: str = "loops") -> str:
    return (
        f"%{op}_tile, %{name}:{loops} = transform.structured.tile_using_for %{op} tile_sizes {sizes}"
        f" : ({OP}) -> ({', '.join([OP] * (loops + 1))})"
    )


def tile_forall(op: str, sizes: str) -> str:
    return f"%tile, %loop = transform.structured.tile_using_forall %{op} tile_sizes {sizes} : ({OP}) -> ({OP}, {OP})"


def fuse(producer: str, loop: str) -> str:
    words = f"transform.structured.fuse_into_containing_op %{producer} into %{loop}"
    return f"%fused, %around = {words} : ({OP}, {OP}) -> ({OP}, {OP})"


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    return onnx.parser.parse_model(NETWORK)


@pytest.fixture(scope="module")
def scripted() -> onnx.ModelProto:
    """A model whose rows the tiles of any CPU divide, so that its kernel's loops are those of a sequence."""
    return onnx.parser.parse_model(NETWORK.replace("[40", "[42"))


def change_tile(text: str, rows: int | None = None, columns: int | None = None) -> str:
    """The sequence of a product with other rows or columns of a tile."""
    if rows:
        text = re.sub(r"(tile_sizes) \[[1-9]\d*, ", rf"\1 [{rows}, ", text)
    return re.sub(r"(tile_sizes \[\d+), [1-9]\d*", rf"\1, {columns}", text) if columns else text


def compile_with(model: Any, text: str, **options: Any) -> tw.Module:
    with tw.PassContext(config={"schedules": text}):
        return tw.compile(model, cache=False, workers=0, **options)


def is_right(lib: tw.Module, rows: int = 40) -> None:
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((rows, 32), np.float32), rng.standard_normal((32, 48), np.float32) / 8
    for threads in (1, 2):
        lib.num_threads = threads
        np.testing.assert_allclose(lib.run([x, w])[0], np.tanh(x @ w), rtol=1e-5, atol=1e-6)


SEQUENCES = {
    "tiles that threads share": (BOTH, tile_forall("tanh", "[8, 16]"), fuse("product", "loop")),
    "tiles that are not all of one size": (BOTH, tile_forall("tanh", "[7, 20]"), fuse("product", "loop")),
    "loops": (BOTH, tile_for("tanh", "[8, 16]", 2), fuse("product", "loops#0")),
    "loops with smaller last steps": (BOTH, tile_for("tanh", "[7, 20]", 2), fuse("product", "loops#1")),
    "a loop over the sum": (BOTH, tile_for("product", "[0, 0, 5]", 1)),
    "both ops apart": (BOTH, tile_for("tanh", "[8, 48]", 2), tile_for("product", "[4, 16, 8]", 3, "others")),
    "vectors": (
        BOTH,
        tile_for("tanh", "[1, 16]", 2),
        f"transform.structured.vectorize %tanh_tile : {OP}",
    ),
    "two foralls, one of which reads what all steps of the other make": (
        BOTH,
        tile_forall("product", "[8, 16]"),
        tile_forall("tanh", "[8, 16]").replace("%tile, %loop", "%others, %after"),
    ),
    "an order": (BOTH, f"%r = transform.structured.interchange %product iterator_interchange = [2, 0, 1] : {ONE}"),
}


@pytest.mark.parametrize("steps", SEQUENCES.values(), ids=SEQUENCES)
def test_a_sequence_makes_the_loops(model: onnx.ModelProto, steps: tuple[str, ...]) -> None:
    lib = compile_with(model, sequence(*steps))
    is_right(lib)
    assert steps[0].split(" = ")[1].split()[0] in lib.get_source("schedule")


def test_threads_share_a_forall(model: onnx.ModelProto) -> None:
    steps = SEQUENCES["tiles that threads share"]
    [kernel] = compile_with(model, sequence(*steps)).manifest.kernels
    assert kernel.extent == 15


def test_threads_share_one_loop(model: onnx.ModelProto) -> None:
    steps = SEQUENCES["two foralls, one of which reads what all steps of the other make"]
    assert compile_with(model, sequence(*steps)).manifest.kernels[0].extent == 1
    annotate = f'transform.annotate %{{}} "tw.{{}}" = %{{}} : {OP}, !transform.any_param'
    text = sequence(
        f'%s = transform.structured.match attributes {{tw.stage = "result:store"}} in %k : {ONE}',
        tile_for("s", "[8, 0]", 1),
        tile_for("s_tile", "[0, 16]", 1, "inner"),
        "%f = transform.param.constant {} -> !transform.any_param",
        annotate.format("s_tile_tile", "form", "f"),
        "%u = transform.param.constant unit -> !transform.any_param",
        annotate.format("loops", "shared_loop", "u"),
        annotate.format("inner", "shared_loop", "u"),
    )
    with pytest.raises(tw.ScheduleError, match="threads share the steps of one loop, and several are marked"):
        compile_with(model, text)


def test_what_is_emitted_can_be_changed_and_given(
    scripted: onnx.ModelProto, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where the new step does not divide, which takes a peel: the sequences of some CPUs have one here."""
    path, given, out = tmp_path / "net.onnx", tmp_path / "given.mlir", tmp_path / "net.so"
    onnx.save(scripted, path)
    assert compile_tool.main([str(path), "--emit", "schedule", "-o", str(given), "--quiet", "--no-cache"]) == 0
    text = given.read_text()
    for columns in (8, 48, *([20] if "loop.peel" in text else [])):
        given.write_text(changed := change_tile(text, columns=columns))
        assert changed != text
        words = [str(path), "-o", str(out), "--quiet", "--no-cache", "--schedules", str(given)]
        assert compile_tool.main(words) == 0
        is_right(tw.load_module(out), 42)


REFUSED = {
    "a name of no kernel": (sequence(MATCH).replace("matmul_*", "conv_*"), "no kernel .* sequence '@conv_\\*'; it has "),
    "no match": (sequence(MATCH.replace("generic", "softmax")), "changes nothing: its matches find none"),
    "no sequence": ("module {}", "no transform module with sequences"),
    "no MLIR": (sequence("%x = transform.nothing"), "parsing the schedules"),
    "too many": (sequence(f"{MATCH} %a:3 = transform.split_handle %ops : ({OP}) -> ({OP}, {OP}, {OP})"), "line 2: .*expected to contain 3 payloads"),
    "no tile": (
        sequence(MATCH, f"%p, %l = transform.structured.tile_using_for %ops tile_sizes [0, 0, 0, 4] : ({OP}) -> ({OP}, {OP})"),
        "cannot be applied to kernel 'matmul_.*tile",
    ),
    "no argument": (
        sequence(MATCH).replace("%k: !transform.any_op {transform.consumed}", "").replace(MATCH, ""),
        "the sequence '@matmul_\\*' takes 0 arguments: it gets the kernel",
    ),
    "a negative size": (sequence(BOTH, tile_for("tanh", "[-8, 16]", 2)), "tile_using_for' has a tile size of -8: give 0"),
    "another name": (
        sequence('%p = transform.param.constant "f" -> !transform.any_param',
                 f'transform.annotate %k "sym_name" = %p : {OP}, !transform.any_param'),
        "it changes the kernel's name",
    ),
    "a form": (
        sequence(
            f'%s = transform.structured.match attributes {{tw.stage = "result:store"}} in %k : {ONE}',
            tile_for("s", "[8, 0]", 1),
            "%f = transform.param.constant {sums = [\"j\"]} -> !transform.any_param",
            f'transform.annotate %s_tile "tw.form" = %f : {OP}, !transform.any_param',
            "%u = transform.param.constant unit -> !transform.any_param",
            f'transform.annotate %loops "tw.shared_loop" = %u : {OP}, !transform.any_param',
        ),
        "names a sum over 'j'; the sums of the kernel are k",
    ),
}  # fmt: skip


@pytest.mark.parametrize("text, words", REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_carried_out_is_refused(model: onnx.ModelProto, text: str, words: str) -> None:
    with pytest.raises(tw.ScheduleError, match=words) as caught:
        compile_with(model, text)
    assert "\n" not in str(caught.value)


def test_a_step_of_another_size_is_refused_without_a_peel(scripted: onnx.ModelProto) -> None:
    text = tw.compile(scripted, cache=False, workers=0).get_source("schedule")
    lines = change_tile(text, rows=9, columns=16).splitlines()
    kept, inside = [], False
    for line in lines:
        inside = inside or "failures(suppress)" in line
        kept += [] if inside else [line]
        inside = inside and line.strip() != "}"
    with pytest.raises(tw.ScheduleError, match=r"last step .* is smaller: transform\.loop\.peel"):
        compile_with(scripted, "\n".join(kept))


def test_an_instruction_that_a_sum_cannot_become_is_refused(scripted: onnx.ModelProto) -> None:
    text = tw.compile(scripted, cache=False, workers=0).get_source("schedule")
    with pytest.raises(tw.ScheduleError, match=r"only sums of products of bytes .* can be made of dot_product"):
        compile_with(scripted, text.replace('"outer_product"', '"dot_product"'))


def test_a_result_that_is_unpacked_lies_where_it_belongs() -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 9, opset_import: ["": 18]>
        network (float[37, 21] x) => (float[37] y) { a = Constant<value_ints=[1]>() y = ReduceSum<keepdims=0>(x, a) }""")
    pack = f'%p = transform.structured.pack %ops packed_sizes = [4, 5] : ({OP}) -> (!transform.op<"linalg.generic">)'
    lib = compile_with(model, sequence(MATCH, pack).replace("matmul_*", "*"))
    x = np.arange(37 * 21, dtype=np.float32).reshape(37, 21)
    np.testing.assert_allclose(lib.run([x])[0], x.sum(1), rtol=1e-6)


def test_a_file_may_begin_with_a_mark(model: onnx.ModelProto, tmp_path: Path) -> None:
    onnx.save(model, path := tmp_path / "net.onnx")
    given = tmp_path / "given.mlir"
    given.write_text(sequence(BOTH, tile_for("tanh", "[8, 16]", 2)), encoding="utf-8-sig")
    words = [str(path), "--schedules", str(given), "--emit", "schedule", "-o", str(tmp_path / "out"), "--quiet"]
    assert compile_tool.main(words) == 0


def test_tensor_expressions_take_one() -> None:
    a = te.placeholder((64, 32), name="A")
    b = te.compute((64, 32), lambda i, j: a[i, j] * 2, name="B")
    s = te.create_schedule(b.op)
    s[b].vectorize(s[b].op.axis[1])
    s[b].parallel(s[b].op.axis[0])
    text = tw.build(s, [a, b], cache=False).get_source("schedule")
    with tw.PassContext(config={"schedules": text.replace("tile_sizes [1, 0]", "tile_sizes [4, 0]")}):
        made = tw.build(s, [a, b], cache=False)
    x = np.arange(64 * 32, dtype=np.float32).reshape(64, 32)
    np.testing.assert_array_equal(made.run([x])[0], x * 2)
    assert made.manifest.kernels[0].extent == 16


def test_open_sizes_take_one() -> None:
    model = onnx.parser.parse_model(NETWORK.replace("[40, 32]", "[n, 32]").replace("[40, 48]", "[n, 48]"))
    steps = (BOTH, tile_for("tanh", "[8, 16]", 2), fuse("product", "loops#0"))
    lib = compile_with(model, sequence(*steps))
    for rows in (0, 1, 8, 37):
        x, w = np.ones((rows, 32), np.float32), np.full((32, 48), 0.01, np.float32)
        np.testing.assert_allclose(lib.run([x, w])[0], np.tanh(x @ w), rtol=1e-5)
