"""The zoo: published sizes, valid files, and outputs in which each layer counts."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import cast

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

from tilewright.core.errors import ModelError
from tilewright.tools import networks
from tilewright.tools import zoo as command

# Trainable parameters as the reference implementations publish them.
PARAMETERS = {
    "resnet18": 11_689_512,
    "resnet50": 25_557_032,
    "mobilenet_v2": 3_504_872,
    "squeezenet1_1": 1_235_496,
    "vgg16": 138_357_544,
    "bert_base": 109_482_240,
    "gpt2": 124_439_808,
    "vit_b16": 86_567_656,
}
OUTPUTS = {
    "bert_base": {"last_hidden_state": (1, 128, 768), "pooler_output": (1, 768)},
    "gpt2": {"logits": (1, 64, 50257)},
}
SMALL = ("mobilenet_v2", "squeezenet1_1")
NETWORKS = [pytest.param(n, marks=() if n in SMALL else pytest.mark.slow) for n in networks.NAMES]


def runner(model: onnx.ModelProto) -> Callable[[dict[str, np.ndarray]], list[np.ndarray]]:
    """The model in the oracle."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 2
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda inputs: cast("list[np.ndarray]", session.run(None, inputs))


def feeds(model: onnx.ModelProto, seed: int) -> dict[str, np.ndarray]:
    """Random inputs: noise for images, any words, the last quarter of a sequence masked."""
    random = np.random.default_rng(seed)
    result = {}
    for info in model.graph.input:
        shape = tuple(d.dim_value for d in info.type.tensor_type.shape.dim)
        if info.name == "attention_mask":
            result[info.name] = (np.arange(shape[1]) < shape[1] * 3 // 4).astype(np.int64)[None]
        elif info.name == "input_ids":
            result[info.name] = random.integers(0, 30000, shape)
        else:
            result[info.name] = random.standard_normal(shape, np.float32)
    return result


def change(a: list[np.ndarray], b: list[np.ndarray]) -> float:
    """The largest relative difference of two lists of outputs."""
    return max(float(np.linalg.norm(x - y) / np.linalg.norm(y)) for x, y in zip(a, b, strict=True))


def picks(model: onnx.ModelProto) -> list[onnx.TensorProto]:
    """A weight and a bias from the early, the middle and the late third, chosen with a fixed seed."""
    random = np.random.default_rng(11)
    result = []
    for kind in (".weight", ".bias"):
        # A key's bias is the one parameter without effect: softmax drops what all scores of a row have in common.
        named = [t for t in model.graph.initializer if t.name.endswith(kind) and not t.name.endswith(".key.bias")]
        thirds = np.array_split(np.arange(len(named)), 3)
        result += [named[random.choice(third)] for third in thirds]
    return result


@pytest.mark.parametrize("name", NETWORKS)
def test_the_published_network_in_which_every_layer_counts(name):
    model = networks.build(name)
    assert networks.parameter_count(model) == PARAMETERS[name]
    assert [(o.domain, o.version) for o in model.opset_import] == [("", 18)]
    assert len({n.name for n in model.graph.node}) == len(model.graph.node)

    inputs, other, picked = feeds(model, 1), feeds(model, 2), picks(model)
    for t in picked:  # an initializer that is an input as well can be replaced at each run
        model.graph.input.append(onnx.helper.make_tensor_value_info(t.name, t.data_type, t.dims))
    run = runner(model)
    base = run(inputs)
    shapes = {o.name: v.shape for o, v in zip(model.graph.output, base, strict=True)}
    assert shapes == OUTPUTS.get(name, {"logits": (1, 1000)})
    assert all(np.isfinite(v).all() and v.std() > 0.05 for v in base)
    assert change(run(other), base) > 0.05, "the answer depends on the input"
    for t in picked:
        right = numpy_helper.to_array(t)
        # What a compiler could get wrong: a bias forgotten, a weight in the wrong order.
        wrong = np.zeros_like(right) if t.name.endswith(".bias") else np.ascontiguousarray(right[::-1])
        assert change(run({**inputs, t.name: wrong}), base) > 2e-3, f"{t.name} counts"
    check(model)


def check(model: onnx.ModelProto) -> None:
    """Let onnx check the model without the weights' data, which its tools copy several times. Takes the data away."""
    for tensor in model.graph.initializer:
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="weights")
    onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)


@pytest.mark.parametrize("name", ["mobilenet_v2", "squeezenet1_1"])
def test_the_file_is_valid_and_always_the_same(name):
    model, again = networks.build(name), networks.build(name)
    onnx.checker.check_model(model, full_check=True)
    assert model == again


def test_the_statistics_of_a_normalisation_are_those_of_its_input():
    model = networks.build("resnet18")
    norms = [n for n in model.graph.node if n.op_type == "BatchNormalization"]
    for node in norms:
        model.graph.output.append(onnx.ValueInfoProto(name=node.input[0]))
    inputs = runner(model)(feeds(model, 5))[1:]
    values = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    for node, x in zip(norms, inputs, strict=True):
        mean, var = values[node.input[3]], values[node.input[4]]
        assert 0.3 < np.median(x.var((0, 2, 3)) / var) < 3, node.name
        assert np.median(np.abs(x.mean((0, 2, 3)) - mean) / np.sqrt(var)) < 1, node.name


@pytest.mark.parametrize("name", networks.SMALL)
def test_a_small_network_is_valid_and_its_answer_finite(name):
    model = networks.build(name)
    onnx.checker.check_model(model, full_check=True)
    assert model.ByteSize() < 100_000
    inputs = {key: value % 40 if value.dtype == np.int64 else value for key, value in feeds(model, 1).items()}
    assert all(np.isfinite(v).all() and v.std() > 0.05 for v in runner(model)(inputs))


def test_an_unknown_network_is_refused_with_the_names():
    with pytest.raises(ModelError, match=r"'alexnet'.*resnet18"):
        networks.build("alexnet")


def test_the_command_writes_a_file_and_says_so(tmp_path, capsys):
    path = tmp_path / "s.onnx"
    assert command.main(["squeezenet1_1", "-o", str(path), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["parameters"] == PARAMETERS["squeezenet1_1"] and record["bytes"] == path.stat().st_size
    assert [p.name for p in tmp_path.iterdir()] == ["s.onnx"]
    assert [i.name for i in onnx.load(path).graph.input] == ["pixel_values"]


@pytest.mark.parametrize("argv", [["alexnet"], ["squeezenet1_1", "-o", "/nowhere/s.onnx"], [], ["--frobnicate"]])
def test_a_wrong_command_line_is_one_line_and_exit_code_2(argv, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    try:
        code = command.main(argv)
    except SystemExit as stop:
        code = stop.code
    out, err = capsys.readouterr()
    assert (code, out, err.count("\n")) == (2, "", 1) and not list(tmp_path.iterdir())


def test_the_list_has_every_network(capsys):
    assert command.main(["--list", "--quiet"]) == 0
    assert capsys.readouterr().out.split() == list(networks.NAMES)
