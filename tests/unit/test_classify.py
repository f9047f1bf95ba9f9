"""What ``classify_op`` sees, whatever the loop order and the operands' layouts are."""

from __future__ import annotations

import networks
import pytest

from tilewright.core.target import Target
from tilewright.dialects import ir
from tilewright.dialects.context import make_context
from tilewright.passes import pipeline
from tilewright.passes.analysis import classify
from tilewright.passes.analysis.classify import classify_op
from tilewright.passes.analysis.kinds import (
    Broadcast,
    Contraction,
    Conv,
    DepthwiseConv,
    Elementwise,
    Fill,
    Injective,
    Opaque,
    Pooling,
    Reduction,
    Transform,
)
from tilewright.passes.infra.context import PassContext
from tilewright.passes.ir.facts import known_facts, remembering_facts
from tilewright.passes.ir.structure import loop_extents

FMA = "%p = arith.mulf %a, %b : f32 %s = arith.addf %o, %p : f32 linalg.yield %s : f32"
ADD = "%s = arith.addf %a, %b : f32 linalg.yield %s : f32"
SUM = "%s = arith.addf %o, %a : f32 linalg.yield %s : f32"


def _generic(loops: str, maps: list[str], types: list[str], kinds: str, body: str) -> str:
    """A module with one generic; ``kinds`` is a letter a loop, p or r; the last map and type are the output's."""
    n = len(types) - 1
    names = [f"%x{i}" for i in range(n)]
    args = [*["%a", "%b", "%c"][:n], "%o"]
    iterators = ", ".join('"parallel"' if k == "p" else '"reduction"' for k in kinds)
    tensors = [f"tensor<{t}xf32>" for t in types]
    ins = f"ins({', '.join(names)} : {', '.join(tensors[:n])})" if n else ""
    params = ", ".join(f"{v}: {t}" for v, t in zip([*names, "%out"], tensors, strict=True))
    return f"""func.func @main({params}) -> {tensors[-1]} {{
      %r = linalg.generic {{indexing_maps = [{", ".join(f"affine_map<({loops}) -> ({m})>" for m in maps)}],
                            iterator_types = [{iterators}]}} {ins} outs(%out : {tensors[-1]}) {{
      ^bb0({", ".join(f"{a}: f32" for a in args)}):
        {body}
      }} -> {tensors[-1]}
      return %r : {tensors[-1]} }}"""


BRANCH = """%t = arith.cmpf olt, %a, %a : f32
  %d = scf.if %t -> f32 { scf.yield %a : f32 } else { scf.yield %b : f32 }
  linalg.yield %d : f32"""

CASES = {
    "matmul": (
        ("m,n,k", ["m,k", "k,n", "m,n"], ["4x8", "8x16", "4x16"], "ppr", FMA),
        Contraction((), (0,), (1,), (2,)),
    ),
    "matmul, other loop order, transposed": (
        ("k,n,m", ["k,m", "n,k", "m,n"], ["8x4", "16x8", "4x16"], "rpp", FMA),
        Contraction((), (2,), (1,), (0,)),
    ),
    "batch matmul": (
        ("b,m,n,k", ["b,m,k", "b,k,n", "b,m,n"], ["2x4x8", "2x8x16", "2x4x16"], "pppr", FMA),
        Contraction((0,), (1,), (2,), (3,)),
    ),
    "matrix times vector": (
        ("m,k", ["m,k", "k", "m"], ["4x8", "8", "4"], "pr", FMA),
        Contraction((), (0,), (), (1,)),
    ),
    "row-wise dot product": (
        ("m,k", ["m,k", "m,k", "m"], ["4x8", "4x8", "4"], "pr", FMA),
        Reduction((0,), (1,)),
    ),
    "conv": (
        (
            "n,f,y,x,c,i,j",
            ["n,c,y*2+i,x*2+j*3", "f,c,i,j", "n,f,y,x"],
            ["1x3x9x13", "8x3x3x3", "1x8x4x4"],
            "pppprrr",
            FMA,
        ),
        Conv((0,), (), (1,), (2, 3), (4,), (5, 6), (2, 2), (1, 3)),
    ),
    "conv, channels last": (
        ("n,y,x,f,i,j,c", ["n,y+i,x+j,c", "f,c,i,j", "n,y,x,f"], ["1x6x6x3", "8x3x3x3", "1x4x4x8"], "pppprrr", FMA),
        Conv((0,), (), (3,), (1, 2), (6,), (4, 5), (1, 1), (1, 1)),
    ),
    "conv, weight first": (
        ("n,f,x,c,j", ["f,c,j", "n,c,x+j", "n,f,x"], ["8x3x3", "1x3x6", "1x8x4"], "ppprr", FMA),
        Conv((0,), (), (1,), (2,), (3,), (4,), (1,), (1,), 1, 0),
    ),
    "a weight for each place": (
        ("n,f,x,c,j", ["n,c,x+j", "f,c,x,j", "n,f,x"], ["1x3x6", "8x3x4x3", "1x8x4"], "ppprr", FMA),
        Opaque(),
    ),
    "a band by a vector": (("x,j", ["x+j", "x,j", "x"], ["6", "4x3", "4"], "pr", FMA), Opaque()),
    "grouped conv": (
        ("n,g,f,x,c,j", ["n,g,c,x+j", "g,f,c,j", "n,g,f,x"], ["1x2x3x6", "2x8x3x3", "1x2x8x4"], "pppprr", FMA),
        Conv((0,), (1,), (2,), (3,), (4,), (5,), (1,), (1,)),
    ),
    "depthwise conv": (
        ("n,c,x,j", ["n,c,x+j", "c,j", "n,c,x"], ["1x3x6", "3x3", "1x3x4"], "pppr", FMA),
        DepthwiseConv((0,), (1,), (2,), (3,), (1,), (1,)),
    ),
    "depthwise conv of several filters for each channel": (
        ("n,c,f,x,j", ["n,c,x+j", "c,f,j", "n,c,f,x"], ["1x3x6", "3x2x3", "1x3x2x4"], "ppppr", FMA),
        DepthwiseConv((0,), (1,), (3,), (4,), (1,), (1,), f=(2,)),
    ),
    "pool": (
        ("n,c,x,j", ["n,c,x*2+j", "j", "n,c,x"], ["1x3x6", "2", "1x3x3"], "pppr", SUM),
        Pooling((0, 1), (2,), (3,), (2,), (1,)),
    ),
    "pool that looks at its results' places": (
        ("n,c,x,j", ["n,c,x*2+j", "j", "n,c,x", "n,c,x"], ["1x3x6", "2", "1x3x3", "1x3x3"], "pppr", SUM),
        Pooling((0, 1), (2,), (3,), (2,), (1,)),
    ),
    "window with an operand that is none": (
        ("n,x,j", ["n,x+j", "j", "j", "n,x"], ["1x6", "3", "3", "1x4"], "ppr", SUM),
        Opaque(),
    ),
    "sum": (("i,j", ["i,j", "i"], ["4x8", "4"], "pr", SUM), Reduction((0,), (1,))),
    "addition": (("i,j", ["i,j", "i,j", "i,j"], ["4x8", "4x8", "4x8"], "pp", ADD), Elementwise((0, 1))),
    "bias": (("i,j", ["i,j", "j", "i,j"], ["4x8", "8", "4x8"], "pp", ADD), Broadcast((0, 1))),
    "bias of extent 1": (("i,j", ["i,j", "0,j", "i,j"], ["4x8", "1x8", "4x8"], "pp", ADD), Broadcast((0, 1))),
    "bias that moves unit dims": (
        ("i,j,k", ["i,j,k", "k,i,j", "i,j,k"], ["1x1x8", "8x1x1", "1x1x8"], "ppp", ADD),
        Broadcast((0, 1, 2)),
    ),
    "transpose": (("i,j", ["j,i", "i,j"], ["8x4", "4x8"], "pp", "linalg.yield %a : f32"), Injective((0, 1))),
    "addition in another layout": (
        ("i,j", ["j,i", "j,i", "j,i"], ["8x4", "8x4", "8x4"], "pp", ADD),
        Elementwise((0, 1)),
    ),
    "every other element": (("i", ["i*2", "i"], ["7", "4"], "p", "linalg.yield %a : f32"), Injective((0,))),
    "affine window with an unknown body": (
        (
            "n,x,j",
            ["n,x+j", "j", "n,x"],
            ["1x6", "3", "1x4"],
            "ppr",
            "%d = arith.subf %a, %b : f32 linalg.yield %d: f32",
        ),
        Opaque(),
    ),
    "a branch in a body": (("i", ["i", "i", "i"], ["4", "4", "4"], "p", BRANCH), Opaque()),
}


@pytest.mark.parametrize("name", CASES)
def test_classify(name):
    source, expected = CASES[name]
    with make_context():
        module = ir.Module.parse(_generic(*source))
        op = module.body.operations[0].regions[0].blocks[0].operations[0]
        assert classify_op(op) == expected


def test_what_is_remembered_tells_all_cases_apart():
    with make_context(), remembering_facts():
        modules = [(ir.Module.parse(_generic(*source)), expected) for source, expected in CASES.values()] * 2
        for module, expected in modules:
            op = module.body.operations[0].regions[0].blocks[0].operations[0]
            assert classify_op(op) == expected


def test_passes_classify_ops_that_are_alike_once(monkeypatch):
    find, known = classify._find_kind, []
    monkeypatch.setattr(classify, "_find_kind", lambda op: known.append(known_facts()) or find(op))
    with make_context(), ir.Location.unknown():
        pipeline.plan(networks.residual_block(), Target.parse("x86 -mcpu=x86-64-v3"), PassContext())
    assert any(kinds is not None for kinds in known), "no pass remembers kinds"


def test_named_ops_and_foreign_ops():
    text = """func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>) -> (tensor<4x16xf32>, tensor<6x8xf32>) {
      %c = arith.constant 0.0 : f32
      %e = tensor.empty() : tensor<4x16xf32>
      %f = linalg.fill ins(%c : f32) outs(%e : tensor<4x16xf32>) -> tensor<4x16xf32>
      %m = linalg.matmul ins(%x, %w : tensor<4x8xf32>, tensor<8x16xf32>) outs(%f : tensor<4x16xf32>) -> tensor<4x16xf32>
      %p = tensor.pad %x low[1, 0] high[1, 0] {
      ^bb0(%i: index, %j: index):
        tensor.yield %c : f32
      } : tensor<4x8xf32> to tensor<6x8xf32>
      return %m, %p : tensor<4x16xf32>, tensor<6x8xf32> }"""
    with make_context():
        module = ir.Module.parse(text)
        kinds = [classify_op(op) for op in module.body.operations[0].regions[0].blocks[0].operations]
        matmul = module.body.operations[0].regions[0].blocks[0].operations[3]
        assert kinds == [Opaque(), Opaque(), Fill((0, 1)), Contraction((), (0,), (1,), (2,)), Opaque(), Opaque()]
        assert loop_extents(matmul) == [4, 16, 8]


PATCH = """func.func @main(%x: tensor<4x4x8xf32>, %out: tensor<2x2x8xf32>) -> tensor<2x2x8xf32> {
  %m = arith.constant dense<[[1.0, 1.0, 1.0, 0.0], [0.0, 1.0, -1.0, -1.0]]> : tensor<2x4xf32>
  %r = linalg.generic {
    indexing_maps = [affine_map<(p, q, c, i, j) -> (q, j)>, affine_map<(p, q, c, i, j) -> (i, j, c)>,
                     affine_map<(p, q, c, i, j) -> (p, i)>, affine_map<(p, q, c, i, j) -> (p, q, c)>],
    iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]
  } ins(%m, %x, %m : tensor<2x4xf32>, tensor<4x4x8xf32>, tensor<2x4xf32>) outs(%out : tensor<2x2x8xf32>) {
  ^bb0(%u: f32, %d: f32, %v: f32, %o: f32):
    %a = arith.mulf %d, %v : f32
    %b = arith.mulf %u, %a : f32
    %s = arith.addf %b, %o : f32
    linalg.yield %s : f32
  } -> tensor<2x2x8xf32>
  return %r : tensor<2x2x8xf32> }"""


@pytest.mark.parametrize(
    "old, new",
    [
        ("", ""),
        ("%x: tensor", "%m: tensor<2x4xf32>, %x: tensor"),  # matrices that are no constants
        ("%b, %o", "%b, %d"),  # no sum
        ("arith.mulf %u, %a", "arith.mulf %u, %u"),  # not a product of all
        ("arith.mulf %d, %v", "arith.subf %d, %v"),
    ],
)
def test_sums_of_products_with_two_constant_matrices(old: str, new: str) -> None:
    text = PATCH.replace(old, new, 1)
    if "%m: " in text:
        text = "\n".join(line for line in text.splitlines() if "arith.constant" not in line)
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        op = next(o for o in module.body.operations[0].regions[0].blocks[0].operations if len(o.operands) == 4)
        kind = classify_op(op)
    if old:
        assert not isinstance(kind, Transform)
    else:
        assert kind == Transform((0, 1, 2), (3, 4), 1, (2, 0))
