"""Descriptions of programs that no compiler has written are refused, with the reason in the line."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import onnx.parser
import pytest
from fuzz import artifacts
from handmade import affine_module

import tilewright as tw
from tilewright.runtime.artifact.manifest import Manifest
from tilewright.tools.debugging.verdict import Verdict

Fields = dict[str, Any]
HEAD = '<ir_version: 8, opset_import: ["" : 17]>'
MUTANTS = 20
OPEN = "g (float[n,8] x, float[8,8] w) => (float[n,8] y) { a = MatMul(x, w) y = Softmax(a) }"


@pytest.fixture(scope="module")
def static() -> str:
    return affine_module(1).manifest.to_json()


@pytest.fixture(scope="module")
def carried() -> str:
    model = onnx.parser.parse_model(f"{HEAD} {OPEN}")
    return tw.compile(model, workers=0, num_threads=1, cache=False).manifest.to_json()


def inner(fields: Fields) -> Fields:
    """The description of a program for some sizes: of the same one."""
    return {key: value for key, value in fields.items() if key != "format"}


def refused(text: str, change: Callable[[Fields], Any], why: str) -> None:
    assert Manifest.from_json(text, "m.so").inputs
    fields = json.loads(text)
    change(fields)
    with pytest.raises(tw.ArtifactError, match=rf"^m.so: its description is not one of Tilewright's.*{why}") as caught:
        Manifest.from_json(json.dumps(fields), "m.so")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "change, why",
    [
        (lambda f: f.pop("kernels"), ""),
        (lambda f: f.update(more=1), ""),
        (lambda f: f.update(name=7), "a name is no text"),
        (lambda f: f.update(options=[]), "the options are no table"),
        (lambda f: f.update(ranges=7), "the ranges are no table"),
        (lambda f: f.update(ranges={"n": [0.5, None]}), "the range of 'n' is none"),
        (lambda f: f.update(ranges={"n": [5, 3]}), "the range of 'n' is empty"),
        (lambda f: f["cpu_features"].append("avx\n2"), "signs that cannot be shown"),
        (lambda f: f.update(arena_bytes=-1), "the arena has -1 bytes"),
        (lambda f: f.update(arena_bytes=1 << 60), "the arena has"),
        (lambda f: f.update(arena_bytes=float("nan")), "the arena has nan bytes"),
        (lambda f: f.update(weights_inside=-64), "there are -64 bytes of weights inside"),
        (lambda f: f["inputs"].append(f["inputs"][0]), "two inputs have one name"),
        (lambda f: f.update(arena_bytes=64), "wants more memory than arena.64 has"),
        (lambda f: f["calls"][0].__setitem__(0, "other"), "kernel 'other', which is not there"),
        (lambda f: f["calls"][0].__setitem__(1, "input0 param0"), "has 2 arguments, not 3"),
        (lambda f: f["calls"][0].__setitem__(1, "input0 param2 arena+64"), "wants more memory than param2 has"),
        (lambda f: f["calls"][0].__setitem__(1, "input1 param0 arena+64"), "wants more memory than input1 has"),
        (lambda f: f["calls"][0].__setitem__(1, "input0 param0 arena+65"), "wants more memory than arena.65 has"),
        (lambda f: f["calls"][0].__setitem__(1, "input0+4 param0 arena+64"), "wants more memory than input0.4 has"),
        (lambda f: f["calls"][0].__setitem__(1, "input0 param0 arena-64"), "is not a slot"),
        (lambda f: f["calls"][0].__setitem__(1, "input0-4 param0 arena+64"), "is not a slot"),
        (lambda f: f["calls"][0].__setitem__(1, "input0 param0 arena"), "is not a slot"),
        (lambda f: f["calls"][0].__setitem__(2, [7]), "a node whose name is no text"),
        (lambda f: f["kernels"].append(f["kernels"][0]), "two kernels have one name"),
        (lambda f: f["kernels"][0].update(extent=0), "has 0 steps"),
        (lambda f: f["kernels"][0].update(scratch_bytes=-64), "has sizes that are none"),
        (lambda f: f["kernels"][0].update(parallel=2), "has a flag that is none"),
        (lambda f: f["kernels"][0]["signature"][0].__setitem__(0, "64x256xf32"), "wants more memory than input0 has"),
        (lambda f: f["kernels"][0]["signature"][0].__setitem__(0, "64*128"), "is not a type"),
        (lambda f: f["inputs"][0].update(shape=[64, -128]), "tensor 'x' has no shape"),
        (lambda f: f["inputs"][0].update(shape=[1] * 65), "tensor 'x' has no rank"),
        (lambda f: f["inputs"][0].update(shape=[1 << 30, 1 << 30]), "tensor 'x' is larger than any memory"),
        (lambda f: f["inputs"][0].update(shape=["n", 128]), "wants more memory than input0 has"),
        (lambda f: f["inputs"][0].update(dtype="float33"), "tensor 'x' has no dtype"),
        (lambda f: f["params"][0].update(shape=["n", 128]), "a weight has no size"),
        (lambda f: f.update(specialized=[{**inner(f), "specialized": [inner(f)]}]), "have no such programs"),
    ],
)
def test_refuses_what_no_program_says(static, change, why):
    refused(static, change, why)


@pytest.mark.parametrize(
    "change, why",
    [
        (lambda r: r[0].pop(), "has 1 arguments, not 2"),
        (lambda r: r[2].clear(), "the routine has other results than the program"),
        (lambda r: r[2].__setitem__(0, 99), "a region gives what no step has made"),
        (lambda r: r[1][0].__setitem__(0, 7), "step 7 is none"),
        (lambda r: r[1][0].__setitem__(7, []), "has 0 types, not 1"),
        (lambda r: r[3].__setitem__(0, ["f32", [-1, 16]]), "a region has a type that is none"),
        (lambda r: r[3].__setitem__(0, ["f64", [None, 16]]), "input 'x' is not what the routine has"),
        (lambda r: r[1][0].__setitem__(1, [-1]), "names the register -1"),
        (lambda r: r[1][0].__setitem__(1, [1 << 40]), "names the register 1099511627776"),
        (lambda r: r[1][1].__setitem__(2, [98, 99]), "step 'tensor.dim' reads what no step has made"),
        (lambda r: r[1][1].__setitem__(4, [[[], [], [], []]]), "step 'tensor.dim' has regions"),
        (lambda r: r[1][-1][3].update(kernel="other"), "a step calls kernel 'other', which is not there"),
        (lambda r: r[1][-1].__setitem__(7, [["f32", [None, 4]]]), "has results that are not the kernel's"),
        (lambda r: r[1][-1].__setitem__(7, [["f64", [None, 8]]]), "has results that are not the kernel's"),
        (lambda r: r[1][-1][3].update(open=[[0], [], []]), "has operands that are not the kernel's"),
        (lambda r: r[1][-1][3].update(open=[[7]]), "has other open axes"),
        (lambda r: r[1][-1][3].update(over=5), "lies over what is no operand"),
    ],
)
def test_refuses_what_no_routine_does(carried, change, why):
    refused(carried, lambda fields: change(fields["routine"]), why)


@pytest.mark.parametrize("change", [{"dtype": "float64"}, {"shape": ["n"]}, {"shape": ["n", 4]}, {"dtype": "string"}])
def test_refuses_outputs_that_the_routine_does_not_make(carried, change):
    refused(carried, lambda fields: fields["outputs"][0].update(change), "output 'y' is not what the routine has")


def test_refuses_deep_nesting():
    with pytest.raises(tw.ArtifactError, match="its description is not one"):
        Manifest.from_json("[" * 100_000, "m.so")


@pytest.fixture(scope="module")
def one_network() -> Iterator[None]:
    """Have programs of one of the zoo's networks broken beside the smaller ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(artifacts, "NETWORKS", ("small_squeezenet",))
        artifacts._programs.cache_clear()
        yield
        artifacts._programs.cache_clear()


@pytest.mark.usefixtures("one_network")
def test_mutants_of_artifacts_are_refused_or_run():
    """A short run; ``python -m fuzz.run --artifacts`` makes more."""
    found = list(artifacts.verdicts([(0, i) for i in range(MUTANTS)], processes=1, seconds=60))
    wrong = [f"{number}: {verdict.kind}: {verdict.reason}" for number, verdict in found if verdict.fails]
    assert not wrong, "\n".join(wrong)
    assert {verdict.kind for _, verdict in found} == {"agrees", "refused"}


@pytest.mark.usefixtures("one_network")
def test_the_same_number_gives_the_same_broken_artifact(tmp_path):
    verdict = Verdict("error", "why")
    for index in range(40):
        folders = tmp_path / "one", tmp_path / "same"
        assert all(artifacts.save((0, index), verdict, folder).endswith(": why") for folder in folders)
        one, same = (
            {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
            for folder in folders
        )
        assert one and one == same
