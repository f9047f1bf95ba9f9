"""A sample of the table of torch's modules and functions, and that the table's result is of this table."""

from __future__ import annotations

import json

import pytest
import torch
from torch_coverage import run, suite
from torch_coverage.case import Case, f32

LAYERS = "Conv2d Conv1d-groups ConvTranspose2d-stride Fold MaxPool2d AdaptiveAvgPool2d BatchNorm2d LayerNorm GELU Softmax LSTM"
LAYERS += " MultiheadAttention sdpa-causal Upsample-bilinear ReflectionPad2d Embedding"
CALLS = "matmul-broadcast einsum-heads add-uint8-wraps float-to-uint8 where any-dim logsumexp-dim argmax cumsum sort topk gather scatter_add"
CALLS += " index-pair cat GELU-bfloat16 Linear-float16 sum-float16 matmul-float64"


@pytest.mark.parametrize("names", [LAYERS, CALLS], ids=["layers", "calls"])
def test_a_sample_of_the_table_agrees_with_eager(names):
    chosen = names.split()
    outcomes = dict(zip(chosen, suite.check(chosen), strict=True))
    assert {name: outcome.reason for name, outcome in outcomes.items() if outcome.status != "pass"} == {}


def test_the_result_is_of_all_cases_and_says_why_some_do_not_pass():
    record = json.loads(run.RESULT.read_text())
    assert sorted(record["cases"]) == sorted(suite.cases())
    assert sorted(record["reasons"]) == sorted(n for n, status in record["cases"].items() if status != "pass")
    assert all(record["reasons"].values())


def test_results_of_another_type_shape_or_number_are_wrong():
    case = Case("x", "group", torch.nn.Identity, (f32(3),))
    x = torch.tensor([1.0, 2.0, 3.0])
    assert suite.compared(x * (1 + 1e-6), x, case).status == "pass"
    assert suite.compared(x.double(), x, case).reason == "torch.float64[3] instead of torch.float32[3]"
    assert suite.compared(x[:2], x, case).reason == "torch.float32[2] instead of torch.float32[3]"
    assert suite.compared(x + 1, x, case).reason == "differs by up to 1"
    assert suite.compared((x,), x, case).reason == "the results are nested otherwise"


def test_programs_are_of_some_cases_of_one_group():
    table = suite.cases()
    programs = suite.groups(list(table.values()))
    assert sorted(name for names in programs for name in names) == sorted(table)
    assert all(len({table[name].group for name in names}) == 1 for names in programs)
