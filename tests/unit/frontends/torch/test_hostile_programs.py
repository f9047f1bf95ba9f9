"""A file of an exported program runs nothing that is in it, and is read within limits."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path

import hostile_programs as hostile
import pytest
import torch
from torch import nn

import tilewright as tw
from tilewright.core.limits import UNTRUSTED
from tilewright.frontends.torch import archive
from tilewright.frontends.torch.nesting import BadNestingError, check_types, read_nesting
from tilewright.frontends.torch.size_expressions import BadSizeError, check_size
from tilewright.tools import cli
from tilewright.workers import Pool
from tilewright.workers.process import Limits


class Plain(nn.Module):
    """Has a parameter and a constant."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.offset = torch.arange(3.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x) + self.offset


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "plain.pt2"
    batch = torch.export.Dim("batch", min=1, max=9)
    torch.export.save(torch.export.export(Plain().eval(), (torch.zeros(2, 3),), dynamic_shapes=({0: batch},)), path)
    return path


@pytest.mark.parametrize("name", hostile.ATTACKS)
def test_an_attack_is_one_line(saved, tmp_path, monkeypatch, name):
    path, marker, attack = tmp_path / "hostile.pt2", tmp_path / "marker", hostile.ATTACKS[name]
    hostile.write(saved, path, attack, marker)
    monkeypatch.syspath_prepend(str(tmp_path))  # whatever the file imports would be found
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(tw.ModelError, match=rf"hostile\.pt2.*(?:{attack.says})") as caught:
        tw.compile(path, cache=False)
    assert str(caught.value).isprintable() and len(str(caught.value)) < 4000
    assert not marker.exists()


@pytest.mark.parametrize("weight", [torch.zeros(1), torch.zeros(3, dtype=torch.float64)])
def test_a_weight_that_is_not_the_graphs_is_named(weight):
    program = torch.export.export(Plain().eval(), (torch.zeros(2, 3),))
    program.state_dict["linear.bias"] = nn.Parameter(weight)
    said = r"weight 'linear.bias' is float\d\d\[.*\], and the graph says float32\[3\]: export the program again"
    with pytest.raises(tw.ModelError, match=said):
        tw.compile(program, cache=False)


def test_commands_give_2(saved, tmp_path, capsys):
    path, attack = tmp_path / "hostile.pt2", hostile.ATTACKS["a library"]
    hostile.write(saved, path, attack, tmp_path / "marker")
    assert cli.main(["compile", str(path), "--untrusted", "-o", str(tmp_path / "out.so")]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
    assert not (tmp_path / "out.so").exists()


@pytest.mark.parametrize("end", [hostile.abort, hostile.leave])
def test_who_ends_the_worker_ends_no_caller(saved, monkeypatch, end):
    monkeypatch.setattr(archive, "read_file", end)
    with pytest.raises(tw.ModelError, match=r"plain\.pt2 cannot be read.*(crashed|SystemExit)") as caught:
        archive.read_archive(saved)
    assert str(caught.value).isprintable()


def test_reading_has_limits(saved, monkeypatch):
    given = []

    def run(self, jobs):
        given.append(self.limits)
        raise tw.InternalError("why")

    monkeypatch.setattr(Pool, "run", run)
    for limits, memory in ((Limits(), archive.READ_BYTES), (Limits(memory=1 << 30), 1 << 30)):
        with pytest.raises(tw.ModelError, match="why"):
            archive.read_archive(saved, Pool(1, limits))
        assert given[-1].memory == memory and given[-1].cpu_seconds == archive.READ_SECONDS


def test_what_is_no_regular_file_is_not_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe.pt2")
    for path in (tmp_path / "pipe.pt2", tmp_path):
        with pytest.raises(tw.ModelError, match="not a regular file"):
            archive.read_archive(path)


def test_an_untrusted_text_is_bounded(saved, tmp_path):
    files = hostile.read(saved)
    files[hostile.MODEL] += b" " * UNTRUSTED.text_bytes
    hostile.pack(files, tmp_path / "long.pt2")
    with pytest.raises(tw.ModelError, match=f"at most {UNTRUSTED.text_bytes} are read"):
        tw.compile(tmp_path / "long.pt2", untrusted=True, cache=False)


def edited(saved: Path, path: Path, old: bytes, new: bytes) -> Path:
    """The file with another text in its graph, which has to be there."""
    files = hostile.read(saved)
    assert old in files[hostile.MODEL]
    hostile.pack({**files, hostile.MODEL: files[hostile.MODEL].replace(old, new)}, path)
    return path


def test_a_cpu_with_a_number_is_the_cpu(saved, tmp_path):
    device = b'"device": {"type": "cpu", "index": '
    path = edited(saved, tmp_path / "numbered.pt2", device + b"null", device + b"4")
    program = torch.export.load(path)
    x = torch.rand(4, 3)
    torch.testing.assert_close(tw.compile(path, num_threads=1, cache=False)(x), program.module()(x))


def test_nodes_that_do_not_fit_together_are_refused_in_one_line():
    program = torch.export.export(Plain().eval(), (torch.zeros(2, 3),))
    program.state_dict["linear.weight"] = nn.Parameter(torch.zeros(2, 3))  # with a bias of 3 elements
    with pytest.raises(tw.UnsupportedError, match=r"torch refuses its nodes: .*; export it again") as caught:
        tw.compile(program, cache=False)
    assert str(caught.value).isprintable()


def test_a_tensor_where_the_file_says_a_size(tmp_path):
    class Sized(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, int]:
            return x + 1, x.shape[0] * 2 + 1

    source, path = tmp_path / "sized.pt2", tmp_path / "tensor.pt2"
    batch = torch.export.Dim("batch", min=1, max=9)
    torch.export.save(torch.export.export(Sized(), (torch.zeros(2, 3),), dynamic_shapes=({0: batch},)), source)
    edited(source, path, b'"torch.ops.aten.sym_size.int"', b'"_operator.pow"')
    with pytest.raises(tw.ModelError, match="its graph gives 2 tensors, and its signature says 1: export"):
        tw.compile(path, cache=False)


def test_a_number_beyond_int64_is_refused(saved, tmp_path):
    class Plus(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 12345

    source, path = tmp_path / "plus.pt2", tmp_path / "large.pt2"
    torch.export.save(torch.export.export(Plus(), (torch.zeros(2, 3),)), source)
    edited(source, path, b"12345", str(1 << 63).encode())
    with pytest.raises(tw.UnsupportedError, match="the number 9223372036854775808 does not fit into 64 bits"):
        tw.compile(path, cache=False)


def test_an_untrusted_program_compiles(saved):
    x = torch.randn(4, 3)
    made = tw.compile(saved, untrusted=True, num_threads=1, cache=False)(x)
    assert made.shape == (4, 3)


def test_entries_that_overlap_or_come_twice(saved, tmp_path):
    files = hostile.read(saved)
    path = tmp_path / "odd.pt2"
    with zipfile.ZipFile(path, "w") as made:
        for name, data in files.items():
            made.writestr(f"archive/{name}", data)
        with pytest.warns(UserWarning, match="Duplicate"):
            made.writestr(f"archive/{hostile.MODEL}", b"{}")
    with pytest.raises(tw.ModelError, match=r"models/model\.json' twice"):
        archive.read_archive(path)
    with zipfile.ZipFile(path, "w") as made:
        for name, data in files.items():
            made.writestr(f"archive/{name}", data)
        weight = made.getinfo("archive/data/weights/weight_0")
        made.getinfo("archive/data/weights/weight_1").header_offset = weight.header_offset
    with pytest.raises(tw.ModelError, match="overlap"):
        archive.read_archive(path)


@pytest.mark.parametrize(
    "text",
    [
        "Symbol('s77', positive=True, integer=True)",
        "Add(Mul(Integer(2), Symbol('s77', integer=True, positive=True)), Integer(-1))",
        "FloorDiv(Pow(Symbol('u0'), Integer(2)), Integer(3))",
        "Mul(Rational(1, 2), Max(Integer(1), Symbol('zuf3')))",
        "int_oo",
    ],
)
def test_sizes_that_are_read(text):
    check_size(text)


@pytest.mark.parametrize("text", ["", "(", "Symbol('s1'", "Add(,)", "s77", "Symbol('x')", "Integer(1) Integer(1)", "1"])
def test_sizes_that_are_not(text):
    with pytest.raises(BadSizeError):
        check_size(text)


def test_what_nests_results_stays():
    leaf = {"type": None, "context": None, "children_spec": []}
    for kind, context in (("builtins.dict", '["a"]'), ("collections.OrderedDict", "[1]"), ("collections.deque", "3")):
        text = json.dumps([1, {"type": kind, "context": context, "children_spec": [leaf]}])
        found = read_nesting(text)
        assert json.loads(found.text) == json.loads(text) and found.leaves == 1 and not found.types


def test_a_type_of_torchs_own_has_to_be_a_plain_one():
    for name in ("NO_SERIALIZED_TYPE_NAME_FOUND", "collections.defaultdict", "collections.deque"):
        with pytest.raises(BadNestingError):
            check_types(frozenset([name]))
