"""Names of a model are any text: whatever a command, a table or a C header shows of them, a terminal prints it as it is."""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import json
from collections.abc import Sequence
from pathlib import Path

import onnx
import pytest
from cold_start import replace_cold_start
from onnx import TensorProto, helper

import tilewright as tw
from tilewright.core import printed
from tilewright.runtime.profile import text_table
from tilewright.tools import _output, cli
from tilewright.tools.benchmarks import markdown, model_bench

TOOLS = Path(cli.__file__).parent

# A title, a cleared screen, a line of its own, reversed text, and markup.
EVIL = "a\x1b]0;t\x07\x1b[2J\nFORGED: all is well\rFORGED\u2028FORGED \u202etxt\u2066\u200f\x9b31m\xad [bold]b[/bold] [red] \\"
LONG = "n" * 10**7
WORDS = "\x1bn " * (10**7 // 3)
SHORT = "\x1bn " * (10**6 // 3)
MOST = 100_000  # characters of all that a command prints


def hostile(evil: str = "", op: str = "Relu", domain: str = "", host: bool = True) -> onnx.ModelProto:
    """A small model that has EVIL wherever a model has a text; some names end with ``evil``.

    ``host``: a node of it is computed by the runtime's Python.
    """
    x, y, m, node = f"x{EVIL}{evil}", f"y{EVIL}", f"m{EVIL}", f"node{EVIL}{evil}"
    nodes = [
        helper.make_node("MatMul", [x, f"w{EVIL}"], [m], f"0{node}", EVIL),
        helper.make_node(op, [m], [y], f"1{node}", domain=domain),
    ]
    nodes += [helper.make_node("Unique", [m], [f"u{EVIL}"], f"2{node}")] if host else []
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in (y, f"u{EVIL}")[: 1 + host]]
    inputs = [helper.make_tensor_value_info(x, TensorProto.FLOAT, [4, 8])]
    weights = [helper.make_tensor(f"w{EVIL}", TensorProto.FLOAT, [8, 8], [0.5] * 64)]
    graph = helper.make_graph(nodes, f"g{EVIL}", inputs, outputs, weights, EVIL)
    opsets = [helper.make_opsetid(each, 1 if each else 21) for each in dict.fromkeys(("", f"d{EVIL}", domain))]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=10, producer_name=EVIL, doc_string=EVIL)
    helper.set_model_props(made, {f"k{EVIL}": EVIL})
    return made


def is_safe(text: str) -> bool:
    """Whether a terminal prints the text, and no line of it was the model's."""
    lines = text.split("\n")
    return len(text) < MOST and all(line.isprintable() and not line.startswith("FORGED") for line in lines)


def run(words: Sequence[str], capsys) -> tuple[int, str]:
    """Run a command; returns its exit code and all that it printed, which has to be safe."""
    capsys.readouterr()
    code = cli.main(list(words))
    out, err = capsys.readouterr()
    assert is_safe(out) and is_safe(err), (out[:2000], err[:2000])
    return code, out + err


EVILS = [
    pytest.param("", id="escapes"),
    pytest.param(SHORT, id="1 MB of words"),
    pytest.param(LONG, id="10 MB", marks=pytest.mark.slow),
    pytest.param(WORDS, id="10 MB of words", marks=pytest.mark.slow),
]


@pytest.fixture(scope="module", params=EVILS)
def evil(request) -> str:
    """What some names end with."""
    return request.param


@pytest.fixture(scope="module")
def model(evil, tmp_path_factory) -> str:
    """The model's file, whose name is hostile, too."""
    path = tmp_path_factory.mktemp("hostile") / "m\x1b[2J\nFORGED\u202e[red].onnx"
    path.write_bytes(hostile(evil).SerializeToString())
    return str(path)


@pytest.fixture(scope="module")
def program(model) -> str:
    """The compiled model; what is said of it is safe."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        assert cli.main(["compile", model, "--profile", "--no-cache"]) == 0
    assert out.getvalue() and is_safe(out.getvalue()) and is_safe(err.getvalue())
    return str(Path(model).with_suffix(".so"))


@pytest.mark.parametrize(
    "words", [["check"], ["check", "--all"], ["compile", "--no-cache", "-o", "/dev/shm/no/such.so"]]
)
def test_commands_on_models(words, model, capsys):
    code, text = run([*words, model], capsys)
    assert code == (2 if "-o" in words else 0) and text


@pytest.mark.parametrize(
    "words",
    [
        ["inspect"],
        ["inspect", "--verify"],
        ["run", "--print-top", "1", "--repeat", "2"],
        ["profile", "--rounds", "1"],
        ["profile", "--rounds", "1", "--by", "node"],
        ["debug", "--watch", "nan"],
    ],
    ids=" ".join,
)
def test_commands_on_programs(words, program, capsys):
    code, text = run([*words, program], capsys)
    assert code == 0 and text


def test_headers(evil, tmp_path, capsys):
    path, header, example = (tmp_path / name for name in ("m.onnx", "m.h", "m.c"))
    path.write_bytes(hostile(evil, host=False).SerializeToString())
    run(["compile", str(path), "--quiet", "--no-cache"], capsys)
    words = [str(path.with_suffix(".so")), "-o", str(header), "--example", str(example), "--name", f"n{EVIL}"]
    assert run(["header", *words], capsys)[0] == 0
    for text in (header.read_text(), example.read_text()):
        lines = text.split("\n")
        assert all(line.isprintable() and not line.startswith("FORGED") for line in lines)
        assert max(map(len, lines)) < 5_000


def test_errors(evil, tmp_path, capsys):
    path = tmp_path / "m.onnx"
    path.write_bytes(hostile(evil, f"Op{EVIL}{evil}", f"dom{EVIL}").SerializeToString())
    for words in (["check"], ["check", "--all"], ["compile"], ["run"], ["explain"], ["profile"]):
        code, text = run([*words, str(path)], capsys)
        assert code == 2 and "dom" in text
    with pytest.raises(tw.ModelError) as caught:
        tw.compile(path)
    assert str(caught.value).isprintable() and len(str(caught.value)) < 4_100


@pytest.mark.parametrize(
    "words",
    [
        ["explain", "--rounds", "1"],
        ["debug", "--against", "onnxruntime"],
        ["reduce"],
        ["bench", "--rounds", "1"],
        ["run"],
        ["profile", "--rounds", "1"],
    ],
    ids=" ".join,
)
@pytest.mark.shares_kernels
def test_commands_that_take_long(words, tmp_path, capsys, monkeypatch):
    replace_cold_start(monkeypatch)
    if words[0] in ("debug", "reduce"):
        pytest.importorskip("onnxruntime")
    path = tmp_path / "m\x1b[2J[red].onnx"
    path.write_bytes(hostile().SerializeToString())
    _, text = run([*words, str(path)], capsys)
    assert "\\x1b[2J" in text and "[red]" in text


@pytest.mark.shares_kernels
def test_the_cache(tmp_path, monkeypatch, capsys):
    path = tmp_path / "m.onnx"
    path.write_bytes(hostile().SerializeToString())
    folder = tmp_path / "cache\x1b[2J\nFORGED"
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(folder))
    monkeypatch.setenv("TILEWRIGHT_CACHE_SIZE", "100MB")
    for _ in range(2):
        assert run(["compile", str(path)], capsys)[0] == 0
    (folder / "kernels" / f"ab{EVIL[:20]}").mkdir(0o700)
    (folder / "kernels" / f"ab{EVIL[:20]}" / "x\x1b[2J").write_bytes(b"x")
    (folder / "kernels" / "zz\x1b[2J").symlink_to(tmp_path)
    assert run(["cache", "ls"], capsys)[0] == 0
    assert "removed" in run(["cache", "verify"], capsys)[1]
    assert run(["cache", "prune", "--all"], capsys)[0] == 0
    folder.chmod(0o777)
    assert run(["cache", "ls"], capsys)[0] == 2


def test_ir_and_words_of_the_command_line(tmp_path, capsys):
    path = tmp_path / "m.onnx"
    path.write_bytes(hostile().SerializeToString())
    words = ["compile", str(path), "--workers", "0", "--time-passes", "--print-ir-after", "generalize"]
    assert cli.main(words) == 0
    assert all(line.isprintable() for text in capsys.readouterr() for line in text.split("\n"))
    assert run([f"no{EVIL}"], capsys)[0] == 2
    with pytest.raises(SystemExit):
        run(["check", str(path), "--input-shape", f"x{EVIL}:a{EVIL}"], capsys)
    assert is_safe(capsys.readouterr().err)


def test_json_has_the_names_as_they_are(model, program, evil, capsys):
    for words in (["check", model, "--json"], ["inspect", program, "--json"]):
        assert cli.main(words) == 0
        out = capsys.readouterr().out
        assert out.isascii() and out.count("\n") == 1
        assert json.loads(out)["inputs"][0]["name"] == f"x{EVIL}{evil}"


class Terminal(io.StringIO):
    """A terminal that keeps what is written."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch) -> Terminal:
    """A terminal, for who redirects to it."""
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.setenv("TERM", "xterm")
    return Terminal()


def is_plain(terminal: Terminal) -> bool:
    """Whether it shows EVIL as text; what rich writes by itself are other sequences."""
    text = terminal.getvalue()
    return not any(bad in text for bad in ("\x1b[2J", "\x1b]", "\u202e", "\nFORGED")) and "[bold]b[/bold]" in text


def test_tables_on_a_terminal(terminal):
    with contextlib.redirect_stdout(terminal):
        _output.print_table([("a", "b"), (EVIL, EVIL)])
    assert is_plain(terminal) and "\\x1b[2J" in terminal.getvalue()


def test_progress_on_a_terminal(terminal):
    args = argparse.Namespace(quiet=False, json=False)
    with contextlib.redirect_stderr(terminal), _output.showing_progress(EVIL, args) as say:
        say(f"more {EVIL}")
    assert is_plain(terminal)


def test_bars_on_a_terminal(terminal):
    args = argparse.Namespace(quiet=False, json=False, rounds=2)
    with contextlib.redirect_stderr(terminal), model_bench.counting_rounds(EVIL, args) as show:
        show(1)
    assert is_plain(terminal)


def test_a_terminal_of_few_characters_is_no_error(monkeypatch):
    made = io.TextIOWrapper(io.BytesIO(), "ascii")
    _output.show(["é\u202e"], made)
    made.flush()
    assert made.buffer.getvalue() == b"\\xe9\\u202e\n"


def test_tables_as_text():
    lines = text_table.align_columns([("a", "b"), (EVIL, "c")])
    assert len(lines) == 2 and all(map(str.isprintable, lines))
    assert len(markdown.format_table([("a",), (EVIL,)]).split("\n")) == 3


@pytest.mark.parametrize("evil", [EVIL, LONG, WORDS, "\n" * 10**6, "\ud800", "\u200e\u2069\U000e0041"], ids=range(6))
def test_what_is_printed(evil):
    for text, most in (
        (printed.one_line(evil), 4000),
        (printed.line_text(evil), 20_000),
        (printed.name_text(evil), 256),
    ):
        assert text.isprintable() and len(text) <= most


def test_lines_keep_their_layout():
    assert printed.line_text("  a   b") == "  a   b"
    assert printed.line_text("a" * 300).startswith("aaa") and len(printed.line_text("a" * 300)) <= 256


def test_no_command_prints_by_itself():
    """What is printed goes through ``show``; plain JSON, which is ASCII, is the one thing that does not."""
    for path in TOOLS.glob("*.py"):
        calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        for call in calls:
            name = ast.unparse(call.func)
            if name == "print" and path.name != "_output.py":
                assert ast.unparse(call.args[0]).startswith("json.dumps("), f"{path.name}:{call.lineno}: use show"
            if path.name != "_output.py":
                forbidden = ("sys.stdout.write", "sys.stderr.write", "Console().print", "sys.stdout.writelines")
                assert name not in forbidden, f"{path.name}:{call.lineno}: use show"
