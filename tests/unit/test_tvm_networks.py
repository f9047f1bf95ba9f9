"""Networks that scripts write by relay's functions: types, text, passes, weights, and what they compute."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import tilewright as tw
import tilewright.tvm as tvm
from tilewright.tvm import relay, te
from tilewright.tvm.contrib import cblas, graph_executor, mkl

_RANDOM = np.random.default_rng(4)


def _floats(*shape: int) -> np.ndarray:
    return _RANDOM.standard_normal(shape).astype(np.float32)


def simple_net() -> Any:
    """That of TVM's tutorial "Using External Libraries in Relay", small: weights have no types."""
    data = relay.var("data", relay.TensorType((1, 3, 8, 8), "float32"))
    weight = relay.var("weight")
    norm = [relay.var(f"bn_{each}") for each in ("gamma", "beta", "mean", "var")]
    net = relay.nn.conv2d(data=data, weight=weight, kernel_size=(3, 3), channels=4, padding=(1, 1))
    net = relay.nn.batch_norm(net, *norm)[0]
    net = relay.nn.relu(net)
    return relay.Function(relay.analysis.free_vars(net), net)


def test_a_network_of_functions():
    net, params = relay.testing.create_workload(simple_net())
    assert {name: each.shape for name, each in params.items()} == {
        "weight": (4, 3, 3, 3),
        **dict.fromkeys(("bn_gamma", "bn_beta", "bn_mean", "bn_var"), (4,)),
    }
    lib = relay.build_module.build(net, "llvm", params=params)
    assert not any(each.name.startswith(("relu", "batch")) for each in lib.module.manifest.kernels)  # they are fused
    module = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    x = _floats(1, 3, 8, 8)
    module.set_input("data", x)
    module.run()
    weight = torch.from_numpy(params["weight"].numpy())
    wanted = torch.relu(torch.conv2d(torch.from_numpy(x), weight, padding=1) / np.sqrt(1 + 1e-5))
    np.testing.assert_allclose(module.get_output(0).numpy(), wanted.numpy(), rtol=1e-4, atol=1e-5)
    assert module.get_num_inputs() == 1
    (task,) = tvm.autotvm.task.extract_from_program(net["main"], params, "llvm", ops=[relay.op.get("nn.conv2d")])
    assert task.name in {each.name for each in lib.module.manifest.kernels}


def test_the_text_of_a_network():
    mod = tvm.IRModule.from_expr(simple_net())
    assert "%weight, %bn_gamma" in str(mod)
    text = str(relay.transform.InferType()(mod)).splitlines()
    assert text[0].startswith(
        "def @main(%data: Tensor[(1, 3, 8, 8), float32], %weight: Tensor[(4, 3, 3, 3), float32], "
    )
    assert text[0].endswith("-> Tensor[(1, 4, 8, 8), float32] {")
    assert text[1:] == [
        "  %0 = nn.conv2d(%data, %weight, padding=[1, 1], channels=4, kernel_size=[3, 3])"
        " /* ty=Tensor[(1, 4, 8, 8), float32] */;",
        "  %1 = nn.batch_norm(%0, %bn_gamma, %bn_beta, %bn_mean, %bn_var) /* ty=(Tensor[(1, 4, 8, 8), float32],"
        " Tensor[(4,), float32], Tensor[(4,), float32]) */;",
        "  %2 = %1.0 /* ty=Tensor[(1, 4, 8, 8), float32] */;",
        "  nn.relu(%2) /* ty=Tensor[(1, 4, 8, 8), float32] */",
        "}",
    ]
    x = relay.var("x", shape=(2,))
    call = relay.sum(x * relay.const(2.0), axis=0, keepdims=True)
    assert str(call).splitlines()[-2:] == ["%0 = multiply(%x, 2f);", "sum(%0, axis=0, keepdims=True)"]
    assert (call.op.name, call.attrs.axis, call.attrs["exclude"]) == ("sum", 0, False)
    with pytest.raises(tw.ModelError, match="is not inferred"):
        call.checked_type  # noqa: B018


def test_a_graph_convolution():
    """The layer of TVM's tutorial "Building a Graph Convolutional Network", whose adjacency is a sparse constant."""
    adjacency = (_RANDOM.random((6, 6)) < 0.4).astype(np.float32)
    adjacency[2] = 0
    rows, columns = np.nonzero(adjacency)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=6))])
    given = adjacency[rows, columns], columns, indptr
    kinds = "float32", "int32", "int32"
    Adjacency = namedtuple("Adjacency", ["data", "indices", "indptr"])
    adj = Adjacency(*(relay.Constant(tvm.nd.array(each.astype(k))) for each, k in zip(given, kinds, strict=True)))
    norm = relay.Constant(tvm.nd.array(np.full((6, 1), 0.5, np.float32)))
    features = relay.var("infeats", shape=(6, 3))
    weight = relay.var("layers.0.weight", shape=(3, 4))
    dense = relay.nn.dense(relay.transpose(weight), relay.multiply(features, norm))
    output = relay.multiply(relay.transpose(relay.nn.sparse_dense(dense, adj)), norm)
    output = relay.nn.bias_add(output, relay.var("layers.0.bias", shape=(4, 1)), axis=-1)
    params = {"infeats": _floats(6, 3), "layers.0.weight": _floats(3, 4), "layers.0.bias": _floats(4), "other": ROW}
    func = relay.Function(relay.analysis.free_vars(output), output)
    func = relay.build_module.bind_params_by_name(func, params)
    mod = tvm.IRModule()
    mod["main"] = func
    with tvm.transform.PassContext(opt_level=0):
        lib = relay.build(mod, "llvm", params=params)
    m = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    m.run()
    wanted = 0.5 * adjacency @ (0.5 * params["infeats"] @ params["layers.0.weight"]) + params["layers.0.bias"]
    np.testing.assert_allclose(m.get_output(0).numpy(), wanted, rtol=1e-4, atol=1e-5)


ROW = _floats(5)


def test_blocks_of_a_sparse_matrix():
    blocks, indices, indptr = _floats(3, 2, 1), np.array([1, 3, 0], np.int32), np.array([0, 2, 3], np.int32)
    wanted = np.zeros((4, 4), np.float32)
    for number, (row, column) in enumerate(((0, 1), (0, 3), (1, 0))):
        wanted[2 * row : 2 * row + 2, column] = blocks[number, :, 0]
    x = relay.var("x", shape=(3, 4))
    call = relay.nn.sparse_dense(x, [relay.const(each) for each in (blocks, indices, indptr)])
    data = _floats(3, 4)
    made = relay.create_executor("graph").evaluate(relay.Function([x], call))(data)
    np.testing.assert_allclose(made.numpy(), data @ wanted.T, rtol=1e-5, atol=1e-6)


def test_branches_lets_and_functions():
    x, c, v = relay.var("x", shape=(3,)), relay.var("c", shape=(), dtype="bool"), relay.var("v")
    twice = relay.Function([inner := relay.var("y", shape=(3,))], inner + inner)
    body = relay.If(c, relay.Let(v, relay.exp(x), v * v), relay.Call(twice, [x]))
    mod = tvm.IRModule({"main": relay.Function([x, c], body), "other": twice})
    called = relay.Function([x, c], relay.Tuple([relay.Call(mod.get_global_var("other"), [x]), body]))
    mod["main"] = called
    function = relay.create_executor("vm", mod).evaluate()
    data = _floats(3)
    for flag, wanted in ((True, np.exp(data) ** 2), (False, 2 * data)):
        first, second = function(data, np.array(flag))
        np.testing.assert_allclose(first.numpy(), 2 * data, rtol=1e-5)
        np.testing.assert_allclose(second.numpy(), wanted, rtol=1e-5)
    assert relay.create_executor("graph").evaluate(relay.const(2.0) + relay.const(3.0)).numpy() == 5
    assert relay.create_executor("graph").evaluate(x + x, {x: np.ones(3, "float32")}).numpy().tolist() == [2] * 3


def test_extents_that_only_the_run_knows():
    x = relay.var("x", shape=(relay.Any(), 4))
    w = relay.var("w", shape=(5, 4))
    call = relay.reshape(relay.nn.relu(relay.nn.dense(x, w)), (-1, 5, 1))
    mod = tvm.IRModule.from_expr(relay.Function([x, w], call))
    weight = _floats(5, 4)
    function = relay.create_executor("vm", mod, params={"w": weight}).evaluate()
    for rows in (1, 7):
        data = _floats(rows, 4)
        wanted = np.maximum(data @ weight.T, 0)[..., None]
        np.testing.assert_allclose(function(data).numpy(), wanted, rtol=1e-5, atol=1e-6)


def test_passes():
    """As TVM's tutorial "How to Use TVM Pass Infra" writes and calls them."""

    @relay.transform.function_pass(opt_level=1)
    class CustomPipeline:
        def __init__(self, multiplier: Any) -> None:
            self.multiplier = multiplier

        def transform_function(self, func: Any, mod: Any, ctx: Any) -> Any:
            obj = self

            class ReplaceConstant(relay.ExprMutator):
                def visit_constant(self, c: Any) -> Any:
                    return relay.multiply(obj.multiplier, c)

            return ReplaceConstant().visit(func)

    x = relay.var("x", shape=(3,))
    mod = tvm.IRModule.from_expr(relay.Function([x], x + relay.const([1.0, 2.0, 3.0])))
    seq = tvm.transform.Sequential(
        [
            relay.transform.FoldConstant(),
            relay.transform.EliminateCommonSubexpr(),
            relay.transform.FuseOps(fuse_opt_level=2),
        ]
    )
    with tvm.transform.PassContext(opt_level=3, disabled_pass=["EliminateCommonSubexpr"]):
        assert tvm.ir.structural_equal(seq(mod), mod)
    custom = CustomPipeline(multiplier=relay.const(3, "float32"))
    assert custom.info.name == "CustomPipeline"
    changed = custom(mod)
    assert "multiply(3f, meta[relay.Constant][0])" in str(changed) and not tvm.ir.structural_equal(changed, mod)
    made = relay.create_executor("graph", changed).evaluate()(np.zeros(3, np.float32))
    assert made.numpy().tolist() == [3, 6, 9] and relay.analysis.list_op_freqs(changed) == {"add": 1, "multiply": 1}

    @tvm.transform.module_pass(opt_level=0)
    def keep(mod: Any, ctx: Any) -> Any:
        return mod

    assert keep(mod) is mod and keep.info.name == "keep"
    seen: list[Any] = []
    relay.analysis.post_order_visit(mod["main"], seen.append)
    assert seen[-1] is mod["main"] and seen[0] is x


class Small(nn.Module):
    """A network of PyTorch's."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.dense = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.dense(torch.relu(self.norm(self.conv(x))).mean((2, 3))), 1)


@pytest.mark.parametrize("kind", ["traced", "scripted", "open"])
def test_modules_of_pytorch(kind: str):
    module, data = Small().eval(), torch.randn(2 if kind == "open" else 1, 3, 8, 8)
    script = torch.jit.script(module) if kind == "scripted" else torch.jit.trace(module, data[:1])
    shape = (relay.Any() if kind == "open" else 1, 3, 8, 8)
    mod, params = relay.frontend.from_pytorch(script, [("input0", shape)])
    assert [each.name_hint for each in mod["main"].params] == ["input0"] and len(params) == 4
    with tvm.transform.PassContext(opt_level=3):
        lib = relay.build(mod, tvm.target.Target("llvm", host="llvm"), params=params)
    m = graph_executor.GraphModule(lib["default"](tvm.cpu(0)))
    m.run(input0=data.numpy())
    np.testing.assert_allclose(m.get_output(0).numpy(), module(data).detach().numpy(), rtol=1e-4, atol=1e-6)


def test_products_of_libraries():
    """TVM's tutorial "External Tensor Functions": the compiler's own products in their place."""
    a, b = te.placeholder((16, 8), name="A"), te.placeholder((8, 12), name="B")
    bias = te.placeholder((1,), name="bias")
    c = te.extern(
        (16, 12),
        [a, b],
        lambda ins, outs: tvm.tir.call_packed("tvm.contrib.cblas.matmul", ins[0], ins[1], outs[0], False, False),
        name="C",
    )
    d = te.compute(c.shape, lambda i, j: c[i, j] + bias[0], name="D")
    s = te.create_schedule(d.op)
    s[d].parallel(d.op.axis[0])
    assert "C: loops of the compiler's own" in str(tvm.lower(s, [a, b, bias, d], simple_mode=True))
    function = tvm.build(s, [a, b, bias, d], "llvm")
    x, y = _floats(16, 8), _floats(8, 12)
    np.testing.assert_allclose(function(x, y, np.ones(1, "float32"))[0], x @ y + 1, rtol=1e-5, atol=1e-5)
    u, v = te.placeholder((2, 16, 8), "uint8", "U"), te.placeholder((2, 12, 8), "int8", "V")
    for made, wide in ((mkl.matmul_u8s8s32(u, v, transb=True), "int32"), (cblas.batch_matmul(u, u, transb=True), "")):
        built = tvm.build(te.create_schedule(made.op), [*dict.fromkeys((u, v if wide else u)), made], "llvm")
        p, q = _RANDOM.integers(0, 200, u.shape).astype("uint8"), _RANDOM.integers(-99, 99, v.shape).astype("int8")
        wanted = p.astype(int) @ (q if wide else p).astype(int).transpose(0, 2, 1)
        assert (built(*((p, q) if wide else (p,)))[0] == wanted.astype(made.dtype)).all()


X = relay.var("x", shape=(2, 3))
N = relay.var("n", shape=(2, 3), dtype="int32")
PLAIN = relay.var("plain")
WRONG: Any = 5


def infer(body: Any) -> Any:
    return relay.transform.InferType()(tvm.IRModule.from_expr(body))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: infer(X + N), r"relay\.add: the operands are Tensor\[\(2, 3\), float32\] and .*int32.*relay\.cast"),
        (lambda: infer(relay.add(X, relay.const(np.ones(4, "float32")))), r"relay\.add: .* do not fit: Incompatible"),
        (lambda: infer(relay.nn.relu(PLAIN)), r"relay\.nn\.relu: the type of 'plain' is not known: relay\.var"),
        (lambda: infer(relay.nn.dense(X, PLAIN)), r"relay\.nn\.dense: the shape of 'plain' is not known: give units"),
        (lambda: infer(relay.nn.dense(X, relay.var("w", shape=(4, 3)), units=5)), "units is 5, and the weight has 4"),
        (lambda: infer(relay.reshape(X, (4, 2))), r"relay\.reshape: .* has 6 elements, and the shape \[4, 2\] 8"),
        (lambda: infer(relay.nn.softmax(N)), r"relay\.nn\.softmax: there is none of int32: relay\.cast"),
        (lambda: infer(relay.split(X, 2, axis=1).astuple()), "axis 1 of 3 elements has no 2 equal parts"),
        (lambda: infer(relay.transpose(X, (0, 2))), r"relay\.transpose: axes is \(0, 2\), and the data has 2 axes"),
        (lambda: infer(relay.sum(X, axis=4)), r"relay\.sum: axis is 4, and the data has 2 axes"),
        (lambda: infer(relay.nn.softmax(relay.Tuple([X, X]))), r"relay\.nn\.softmax: 'data' is one tensor"),
        (lambda: infer(relay.TupleGetItem(X, 0)), "no value 0 of what is no such tuple"),
        (lambda: relay.add(X, 1), r"relay\.add takes expressions, not a int: relay\.const"),
        (lambda: relay.Function([WRONG], X), r"relay\.Function takes variables"),
        (lambda: relay.var("x", X.type_annotation, (2,)), "has a type and a shape"),
        (lambda: relay.TensorType((2.5, WRONG)) and relay.TensorType(("a", None)), "an extent is a number"),
        (lambda: relay.TensorType((2,), "float31"), "there is no dtype 'float31'"),
        (lambda: infer(relay.Function([], X)), "does not have 'x' among its parameters"),
        (lambda: relay.build(tvm.IRModule(), "llvm"), "no function 'main': it has none"),
        (lambda: relay.testing.create_workload(relay.Function([X], X)), "'x' has no numbers to begin with"),
        (lambda: relay.op.get("nn.loops"), "no operator 'nn.loops'"),
        (lambda: infer(relay.nn.conv2d(X, PLAIN, data_layout="NCHW8c")), "conv2d"),
        (lambda: infer(relay.nn.batch_norm(X, X, X, X, X, training=True).astuple()), "training is False here"),
        (lambda: relay.frontend.from_pytorch(5, [("x", (1,))]), "takes a torch module"),
        (lambda: relay.frontend.from_pytorch(Small(), [5]), r"an input is a name and a shape, .*, not 5"),
        (lambda: relay.frontend.from_pytorch(Small(), [("x", (1, 4))]), "PyTorch does not export the module"),
    ],
)
def test_what_does_not_fit_is_said_in_a_line(call: Callable[[], Any], message: str):
    with pytest.raises(tw.ModelError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_arguments_are_those_of_the_operator():
    with pytest.raises(TypeError, match=r"relay\.nn\.relu: got an unexpected keyword argument 'axis'"):
        relay.nn.relu(X, axis=1)
    with pytest.raises(AttributeError, match=r"has no 'relay\.nn\.loops'.*it has adaptive_avg_pool1d"):
        getattr(relay.nn, "loops")  # noqa: B009
