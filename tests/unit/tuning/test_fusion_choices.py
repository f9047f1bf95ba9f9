"""Fusion as a decision of the plan: which fusions are asked for, by which keys, and what comes of the other option."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import tilewright as tw
from tilewright.core.choices import Choice
from tilewright.core.target import Target
from tilewright.driver import api
from tilewright.records.database import Database
from tilewright.records.trial import Winner, target_key
from tilewright.tuning.plan_choices import NetworkPlan, _follow_nodes
from tilewright.tuning.session import with_choices
from tilewright.tuning.tasks import begin_compilation, plan_network

CPU = "x86 -mcpu=x86-64-v3"  # whose blocks of weights the types of packed ones have

NODES = {
    "a product": "p = MatMul(x, w)  q = Add(p, b)  y = Relu(q)",
    "a softmax": "p = Mul(x, x)  y = Softmax(p)",
    "attention": "t = Transpose<perm=[1, 0]>(x)  p = MatMul(x, t)  q = Softmax(p)  y = MatMul(q, x)",
    "a sum between": "p = MatMul(x, w)  q = Add(p, x)  r = LayerNormalization(q, b, b)  y = Add(r, q)",
}


def write_model(text: str, rows: str = "48") -> bytes:
    model = parser.parse_model(
        f'<ir_version: 9, opset_import: ["": 18]> net (float[{rows}, 40] x) => (float[{rows}, 40] y) {{ {text} }}'
    )
    random = np.random.default_rng(0)
    arrays = {"w": random.standard_normal((40, 40), np.float32) / 6, "b": random.standard_normal(40, np.float32)}
    used = {name for node in model.graph.node for name in node.input}
    model.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in arrays.items() if n in used)
    for number, node in enumerate(model.graph.node):
        node.name = f"n{number}"
    return model.SerializeToString()


def plan_model(model: bytes, folder: Path, choices: Mapping[str, int], target: str = "x86") -> NetworkPlan:
    options = with_choices(api.make_options(target, num_threads=1, records=False), choices)
    made = begin_compilation(model, None, options, 0)
    return NetworkPlan(made, plan_network(made, str(folder)))


def list_fusions(plan: NetworkPlan) -> list[Choice]:
    return [choice for choice in plan.planned.choices if choice.kind == "fuse"]


@pytest.mark.parametrize("text", NODES.values(), ids=NODES)
def test_each_fusion_can_be_left(text: str, tmp_path: Path) -> None:
    """Without each alone, and without all of them, the network has other kernels and the same results."""
    model, x = write_model(text), np.random.default_rng(1).standard_normal((48, 40), np.float32)
    own = plan_model(model, tmp_path, {})
    fusions = list_fusions(own)
    assert fusions and all((c.options, c.default, c.taken) == ((0, 1), 1, 1) and c.nodes for c in fusions)
    wanted = tw.compile(model, num_threads=1, records=False, workers=0).run([x])[0]
    target, kernels = target_key(Target.parse("x86")), [call.kernel for call in own.planned.plan.main.calls]
    keys = [choice.key for choice in fusions]
    for number, chosen in enumerate([*([key] for key in keys), keys]):
        path = tmp_path / f"{number}.sqlite"
        with Database.open(path) as database:
            database.accept([Winner(key, target, 1, "{}", "[0]", default_steps="[1]") for key in chosen])
        made = tw.compile(model, num_threads=1, records=path, workers=0)
        assert [row.name for row in made.manifest.kernels] != kernels
        np.testing.assert_allclose(made.run([x])[0], wanted, rtol=0, atol=1e-4)


def test_keys_are_of_what_is_computed(tmp_path: Path) -> None:
    """They have no names of a model; this one has to stay from version to version, or records are lost."""
    model = onnx.load_from_string(write_model(NODES["a product"]))
    [choice] = list_fusions(plan_model(model.SerializeToString(), tmp_path, {}, CPU))
    assert choice.key == "plan:fuse_matmul_add_max_ea9c2076" and choice.nodes == ("n0", "n1", "n2")
    for node in model.graph.node:
        node.name += "_other"
    [other] = list_fusions(plan_model(model.SerializeToString(), tmp_path, {}, CPU))
    assert other.key == choice.key and other.nodes != choice.nodes
    [wider] = list_fusions(plan_model(write_model(NODES["a product"], "49"), tmp_path, {}, CPU))
    assert re.fullmatch(r"plan:fuse_matmul_add_max_[0-9a-f]{8}", wider.key) and wider.key != choice.key


def test_a_softmax_of_several_kernels_has_the_decisions_of_its_parts(tmp_path: Path) -> None:
    """Of attention the whole is one decision, and the softmax in it another."""
    keys = [choice.key for choice in list_fusions(plan_model(write_model(NODES["attention"]), tmp_path, {}))]
    assert len(keys) == 2 and sum("_matmul_" in key for key in keys) == 1


def test_open_sizes_have_no_decision() -> None:
    made = tw.compile(write_model(NODES["a product"], "n"), num_threads=1, records=False, workers=0)
    assert len(made.manifest.kernels) == 1  # and nothing is asked, as nothing could answer


def test_a_decision_counts_all_kernels_that_it_changes() -> None:
    """An op that leaves a kernel may go to the next one, whose time counts then, before and after."""
    calls: list[Any] = [SimpleNamespace(nodes=nodes) for nodes in (("a", "b"), ("c", "d"), ("e",), ("a",), ("b", "c"))]
    assert _follow_nodes(("a", "b"), calls) == {"a", "b", "c", "d"}
    assert _follow_nodes(("e",), calls) == {"e"}
    assert _follow_nodes(("b",), calls[:1]) == {"a", "b"}
