"""Models that mean harm: each is one line that says what is wrong, and neither this process nor its workers die."""

from __future__ import annotations

import os

import numpy as np
import psutil
import pytest
from hostile_models import CASES, VALID, add, external, laughs, many_nodes, model
from onnx import helper, numpy_helper

import tilewright as tw
from tilewright import workers
from tilewright.core.limits import UNTRUSTED
from tilewright.core.printed import one_line, shorten
from tilewright.tools import check, compile

PROMPT = 30  # seconds of CPU time; each takes two at most


def cpu_seconds() -> float:
    """What this process and the workers that it has have computed."""
    own = psutil.Process()
    times = [process.cpu_times() for process in (own, *own.children(recursive=True))]
    return sum(each.user + each.system for each in times)


@pytest.fixture(scope="module", autouse=True)
def worker():
    """The start of the process that compiles: it takes longer than most cases."""
    workers.get_pool(1).run([workers.Job("the start", os.getpid)])


@pytest.mark.parametrize("name", CASES)
def test_a_hostile_model_is_refused_in_one_line(name, tmp_path):
    case, path = CASES[name], tmp_path / "m.onnx"
    case.write(path)
    begun = cpu_seconds()
    with pytest.raises((tw.ModelError, tw.UnsupportedError)) as caught:
        tw.compile(path, workers=1, untrusted=case.untrusted)
    line = str(caught.value)
    assert cpu_seconds() - begun < PROMPT
    assert str(path) in line and case.says in line
    assert line.isprintable() and len(line.replace(str(path.parent), "")) < 500


@pytest.mark.parametrize(
    "name", ["external: a FIFO", "file: a FIFO", "functions: mutually recursive", "Range to 10^12"]
)
def test_the_commands_print_the_line_and_exit_with_2(name, tmp_path, capsys):
    path = tmp_path / "m.onnx"
    CASES[name].write(path)
    for main, words in ((check.main, []), (compile.main, ["--workers", "1"])):
        assert main([str(path), "--quiet", *words]) == 2
        out, err = capsys.readouterr()
        assert out == "" and err.count("\n") == 1 and CASES[name].says in err


def test_a_file_that_a_model_hub_keeps_as_links_is_taken(tmp_path):
    blobs, names = tmp_path / "blobs", tmp_path / "snapshots" / "one"
    blobs.mkdir()
    names.mkdir(parents=True)
    (blobs / "aa").write_bytes(add(external()).SerializeToString())
    (blobs / "bb").write_bytes(np.full((64, 64), 2, np.float32).tobytes())
    (names / "m.onnx").symlink_to("../../blobs/aa")
    (names / "w.bin").symlink_to("../../blobs/bb")
    [found] = tw.compile(names / "m.onnx", workers=1).run({"x": np.ones((64, 64), np.float32)})
    assert (found == 3).all()


@pytest.fixture
def hard_linked(tmp_path):
    """A model whose data is a hard link to a file outside of its folder."""
    (tmp_path / "store").mkdir()
    (tmp_path / "model").mkdir()
    (tmp_path / "store" / "kept.bin").write_bytes(np.full((64, 64), 2, np.float32).tobytes())
    os.link(tmp_path / "store" / "kept.bin", tmp_path / "model" / "w.bin")
    (tmp_path / "model" / "m.onnx").write_bytes(add(external()).SerializeToString())
    return tmp_path / "model" / "m.onnx"


def test_a_hard_link_is_the_file(hard_linked):
    [found] = tw.compile(hard_linked, workers=1).run({"x": np.ones((64, 64), np.float32)})
    assert (found == 3).all()


def test_a_hard_link_is_refused_when_the_model_is_not_trusted(hard_linked, capsys):
    for ask in (tw.check_model, tw.compile):
        with pytest.raises(tw.ModelError, match="which a model that is not trusted may not"):
            ask(hard_linked, untrusted=True)
    assert check.main([str(hard_linked), "--untrusted"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_what_onnxruntime_adds_to_external_data_is_taken(tmp_path):
    (tmp_path / "w.bin").write_bytes(bytes(4 * 64 * 64))
    tensor = external(more=[("checksum", "0"), ("prepacked_0", "0|4|a;")], length=4 * 64 * 64)
    (tmp_path / "m.onnx").write_bytes(add(tensor).SerializeToString())
    assert tw.check_model(tmp_path / "m.onnx").supported


def test_what_is_trusted_may_be_larger(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(laughs(9).SerializeToString())
    with pytest.raises(tw.ModelError, match=f"the most are {UNTRUSTED.nesting}"):
        tw.check_model(path, untrusted=True)
    assert tw.check_model(path).supported


def test_what_keeps_to_the_limits_is_compiled_when_it_is_not_trusted():
    [found] = tw.compile(VALID, workers=1, untrusted=True).run({"x": np.ones((64, 64), np.float32)})
    assert (found == 2).all()


def test_a_file_beyond_the_limit_is_not_read(tmp_path):
    path = tmp_path / "m.onnx"
    assert UNTRUSTED.file_bytes is not None
    with path.open("wb") as file:
        file.truncate(UNTRUSTED.file_bytes + 1)  # a hole, which takes no disk
    with pytest.raises(tw.ModelError, match=f"the most are {UNTRUSTED.file_bytes}"):
        tw.check_model(path, untrusted=True)


def test_a_chain_of_small_messages_is_read_whole(tmp_path):
    many_nodes(2_000)(tmp_path / "m.onnx")
    assert tw.check_model(tmp_path / "m.onnx").operators[0].count == 2_001


@pytest.mark.parametrize("longest", [24, 40, 41, 80, 4000])
def test_a_long_text_is_cut_in_its_middle(longest):
    text = "".join(chr(ord("a") + number % 26) for number in range(10**5))
    cut = shorten(text, longest)
    begin, end = cut.split("[")[0], cut.split("]")[1]
    assert longest - 3 <= len(cut) <= longest and text.startswith(begin) and text.endswith(end)
    assert cut[len(begin) :].startswith(f"[{len(text) - len(begin) - len(end)} characters]")
    assert shorten("a" * longest, longest) == "a" * longest


def test_messages_are_one_line_of_what_can_be_printed():
    assert one_line("a\nb\tc") == "a b c"
    assert one_line("\x1b[2J") == "\\x1b[2J"
    assert len(one_line("n" * 10**6)) < 300 and len(one_line("n " * 10**6)) < 4100
    assert str(tw.ModelError("a\r\nb\x00")) == "a b\\x00"


def test_a_window_of_many_elements_is_not_made_at_import():
    weights = [numpy_helper.from_array(np.array(10**12, np.int64), "n")]
    made = model([helper.make_node("HannWindow", ["n"], ["y"], name="the_window")], weights)
    with pytest.raises(tw.ModelError, match="the_window"):
        tw.check_model(made)


def test_import_model_asks_a_worker_first(monkeypatch):
    asked = []
    run = workers.Pool.run
    monkeypatch.setattr(workers.Pool, "run", lambda self, jobs: [asked.extend(jobs), run(self, jobs)][1])
    tw.import_model(VALID)
    assert [job.what for job in asked] == ["the check of the model"]


@pytest.mark.parametrize(
    ("op", "domain", "inputs", "says"),
    [
        ("DynamicQuantizeLSTM", "com.microsoft", 1, r"the_node.*'w' is missing"),
        ("Add", "", 2, r"the_node.*input 1 .*empty"),
    ],
)
def test_an_input_that_is_left_out(op, domain, inputs, says):
    made = model(
        [helper.make_node(op, ["x", *[""] * (inputs - 1)], ["y"], name="the_node", domain=domain, hidden_size=4)]
    )
    made.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    if not domain:
        del made.graph.node[0].attribute[:]
    with pytest.raises(tw.ModelError, match=says):
        tw.compile(made, workers=1)


def test_a_bound_of_more_axes_than_what_it_bounds():
    made = model([helper.make_node("Clip", ["x", "low"], ["y"], name="the_clip")])
    made.graph.input.append(helper.make_tensor_value_info("low", 1, [2, 1, 64, 64]))
    with pytest.raises(tw.ModelError, match=r"'the_clip' \(Clip\): an operand of shape \[2, 1, 64, 64\]"):
        tw.compile(made, workers=1)
