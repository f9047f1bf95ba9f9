"""Targets: what can be written, what is read from the machine, what LLVM says of the same CPUs, and foreign code."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import re
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from llvm_cpus import help_of_llvm, of_llvm
from onnx import helper, numpy_helper
from samples import campaign

import tilewright as tw
from tilewright.core import cpus, target
from tilewright.core.target import DotProduct, Target, detect_host
from tilewright.dialects import codegen
from tilewright.driver import api
from tilewright.tools import bench, explain, networks
from tilewright.tools import compile as compile_tool
from tilewright.tools import run as run_tool
from tilewright.tools.benchmarks import children, markdown
from tilewright.tools.debugging.oracle import make_session

# Instructions of AMD's Bulldozer, which no CPU has had before or since.
FOREIGN = "x86 -mattr=+xop"
NUMBERS = {"x86-64": (4, 16), "x86-64-v2": (4, 16), "sandybridge": (8, 16), "haswell": (8, 16), "znver3": (8, 16)}
NUMBERS |= {"skylake-avx512": (16, 32), "sapphirerapids": (16, 32)}


@pytest.mark.parametrize("cpu", NUMBERS)
def test_a_named_cpu_brings_its_vectors(cpu):
    made = Target.parse(f"x86 -mcpu={cpu}")
    assert (made.arch, made.cpu, (made.lanes, made.registers)) == ("x86", cpu, NUMBERS[cpu])
    assert made.has_fma == (cpu not in ("x86-64", "x86-64-v2", "sandybridge"))
    assert made.l1_bytes < made.l2_bytes < made.l3_bytes and made.cores >= 1


@pytest.mark.parametrize(
    "text, lanes, terms",
    [
        ("icelake-server", 16, 4),
        ("alderlake", 8, 4),
        ("skylake-avx512", 16, 2),
        ("knl", 8, 2),
        ("haswell", 8, 2),
        ("sandybridge", 4, 2),
        ("icelake-server -mattr=-avx512vnni", 16, 2),
    ],
)
def test_every_cpu_adds_up_products_of_bytes(text, lanes, terms):
    expected = DotProduct(lanes, terms, "vpdpbusd") if terms == 4 else DotProduct(lanes, terms, "pmaddwd")
    assert Target.parse(f"x86 -mcpu={text}").dot_product == expected


def test_a_target_as_tvm_has_it():
    arch = next(name for name, each in cpus.ARCHITECTURES.items() if each.machine == os.uname().machine)
    assert Target.parse("llvm") == Target.parse(arch)
    baseline = cpus.ARCHITECTURES[arch].baseline
    assert Target.parse(f"llvm -mcpu={baseline}") == Target.parse(f"{arch} -mcpu={baseline}")
    with pytest.raises(tw.TargetError, match="-mtriple"):
        Target.parse("llvm -mtriple=x86_64")


def test_the_target_without_options_is_this_machine():
    made = Target.parse("x86")
    assert made == Target.parse("x86 -mcpu=native") == detect_host() == Target.parse(detect_host())
    assert made.find_missing() == ()
    made.refuse_foreign()
    assert made.cores == len(os.sched_getaffinity(0))
    known = {int((f / "level").read_text()): f for f in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")}
    for level, size in enumerate((made.l1_bytes, made.l2_bytes, made.l3_bytes), 1):
        assert level not in known or size == target._cache_bytes(level)


def test_registers_of_matrices_are_asked_for(monkeypatch):
    """Where Linux refuses them to the process, no code is made with them, and none runs."""
    flags = " ".join(cpus.X86.linux_flags(cpus.X86.known["sapphirerapids"]))
    monkeypatch.setattr("builtins.open", lambda path: io.StringIO(f"flags : {flags}"))
    for granted in (True, False):
        monkeypatch.setattr(target, "_request_matrix_registers", lambda granted=granted: granted)
        found = target.host_features.__wrapped__()
        assert ("amx-int8" in found) == ("amx-tile" in found) == granted
        assert "avx512vnni" in found
    asked = Target.parse("x86 -mcpu=sapphirerapids")
    assert asked.multiplies_matrices(8) and not Target.parse("x86 -mcpu=icelake-server").multiplies_matrices(8)
    monkeypatch.setattr(target, "host_features", lambda: found)
    with pytest.raises(tw.TargetError, match="amx-int8"):
        asked.refuse_foreign()


def test_a_system_that_tells_of_no_caches_gets_the_usual_ones(monkeypatch):
    monkeypatch.setattr(target, "_cache_bytes", lambda level: 0)
    made = target._target(cpus.X86, "native", (), ())
    assert (made.l1_bytes, made.l2_bytes, made.l3_bytes) == (32 << 10, 256 << 10, 8 << 20)


@pytest.mark.parametrize(
    "cpu, halves",
    [("znver4", True), ("znver5", False), ("znver3", False), ("skylake-avx512", False), ("sapphirerapids", False)],
)
def test_zen_4_takes_wide_vectors_in_halves(cpu, halves):
    assert Target.parse(f"x86 -mcpu={cpu}").halves_vectors == halves
    assert not Target.parse(f"x86 -mcpu={cpu} -mattr=-avx512f").halves_vectors


@pytest.mark.parametrize(
    "text, streamed",
    [
        ("x86 -mcpu=znver4", 4 << 20),
        ("x86 -mcpu=sapphirerapids", 4 << 20),
        ("x86 -mcpu=haswell", 4 << 20),
        ("aarch64", 0),
    ],
)
def test_results_that_the_last_cache_cannot_hold_are_streamed(text, streamed):
    """Of a CPU that is named, the last cache is taken to be 8 MiB."""
    target = Target.parse(text)
    assert target.streamed_bytes == streamed
    large = dataclasses.replace(target, l3_bytes=256 << 20).streamed_bytes
    assert large == (4 * target.l2_bytes if "sapphire" in text else 32 * streamed)


@pytest.mark.parametrize(
    "text, gained, lost",
    [
        ("x86 -mcpu=haswell -mattr=+avx512bw", {"avx512f", "avx512bw"}, set()),
        ("x86 -mcpu=haswell -mattr=-fma", set(), {"fma"}),
        ("x86 -mcpu=haswell -mattr=-avx", set(), {"avx", "avx2", "fma", "f16c"}),
        ("x86 -mcpu=haswell -mattr=-avx,+avx", set(), {"avx2", "fma", "f16c"}),
    ],
)
def test_features_come_and_go_with_what_they_imply(text, gained, lost):
    before = set(Target.parse("x86 -mcpu=haswell").features)
    assert set(Target.parse(text).features) == before - lost | gained


@pytest.mark.parametrize(
    "text", ["x86", "x86 -mcpu=haswell", "x86 -mattr=-avx2", "x86 -mcpu=znver3 -mattr=+avx512f,-fma"]
)
def test_a_targets_text_is_read_again(text):
    assert str(Target.parse(text)) == text
    assert Target.parse(str(Target.parse(text))) == Target.parse(text)


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "unknown target '': the known ones are 'x86'"),
        ("vax", "unknown target 'vax': the known ones are 'x86'"),
        ("x86 -mcpu=Haswel", "unknown CPU 'Haswel' in target 'x86 -mcpu=Haswel': the known ones are haswell, x86-64, "),
        ("x86 -mcpu=i686", "unknown CPU 'i686'"),
        ("x86 -mcpu", "unknown option '-mcpu' in target"),
        (
            "x86 -march=haswell",
            "unknown option '-march=haswell' in target 'x86 -march=haswell': the known ones are -mcpu",
        ),
        ("x86 haswell", "unknown option 'haswell'"),
        ("x86 -mcpu=knl -mcpu=knm", "option '-mcpu' is given twice"),
        (
            "x86 -mattr=+avx521f",
            r"unknown feature '\+avx521f' in target 'x86 -mattr=\+avx521f': the known ones are avx512f, ",
        ),
        ("x86 -mattr=fma", "unknown feature 'fma'.*each after a"),
    ],
)
def test_refuses_in_one_line_that_lists_what_is_known(text, message):
    with pytest.raises(tw.TargetError, match=f"^{message}") as info:
        Target.parse(text)
    assert "\n" not in str(info.value)


@pytest.mark.parametrize("parse", [Target.parse, Target.parse_all])
def test_a_target_is_a_text(parse):
    with pytest.raises(tw.TargetError, match=r"a target is a text, .*, not a list"):
        parse(["x86 -mcpu=x86-64-v2", "x86 -mcpu=x86-64-v3"])


def test_an_unknown_cpu_lists_all_known_ones_once():
    with pytest.raises(tw.TargetError) as info:
        Target.parse("x86 -mcpu=skylake-avx51")
    listed = str(info.value).split("the known ones are ")[1].split(", ")
    assert listed[0] == "skylake-avx512"
    assert sorted(listed) == sorted(cpus.X86.known)


def test_llvm_says_the_same_of_every_cpu():
    theirs = {name: of_llvm(name) for name in help_of_llvm()[0]}
    theirs = {name: features for name, features in theirs.items() if "64bit" in features}
    # With underscores are other spellings, for a feature of C compilers that chooses functions at run time.
    assert {name for name in theirs if "_" not in name} == set(cpus.X86.known)
    for name, features in cpus.X86.known.items():
        assert set(features) == theirs[name] & set(cpus.X86.features), name


@pytest.mark.parametrize("feature", cpus.X86.features)
def test_llvm_says_the_same_of_what_a_feature_implies(feature):
    everything = ",".join(f"+{name}" for name in cpus.X86.features)
    assert of_llvm("x86-64", f"+{feature}") & set(cpus.X86.features) == cpus.X86.closure([feature])
    left = of_llvm("x86-64", f"{everything},-{feature}") & set(cpus.X86.features)
    assert left == set(cpus.X86.features) - cpus.X86.dependents(feature)


def test_llvm_sees_the_same_machine():
    listed = dict.fromkeys(re.findall(r"\+([^,]+)", codegen.host_cpu()[1]))
    assert set(detect_host().features) == set(listed) & set(cpus.X86.features)


def test_a_cpu_with_more_features_than_its_name_is_another_model():
    """A virtual machine may make up the number of the model, by which LLVM goes."""
    known = cpus.X86.known
    for name in ("haswell", "skylake-avx512", "sapphirerapids", "znver4"):
        assert cpus.X86.name_model(name, known[name]) == name
        assert cpus.X86.name_model(name, known["x86-64-v2"]) == name  # a machine that hides some
    assert cpus.X86.name_model("rocketlake", known["sapphirerapids"]) == "sapphirerapids"
    assert cpus.X86.name_model("rocketlake", known["novalake"]) == "novalake"
    assert cpus.X86.name_model("generic", known["znver5"]) == "znver5"
    assert cpus.X86.name_model("a-cpu-of-tomorrow", known["znver5"]) == "a-cpu-of-tomorrow"


def test_no_code_is_made_for_features_that_linux_does_not_show():
    assert set(cpus.X86.unseen) <= help_of_llvm()[1]
    for chosen in (detect_host(), Target.parse("x86 -mcpu=diamondrapids")):
        told = codegen.function_attributes(chosen)["target-features"].split(",")
        assert {f"-{name}" for name in cpus.X86.unseen} <= set(told)
    with_all = of_llvm("diamondrapids", ",".join(f"-{name}" for name in cpus.X86.unseen))
    assert not with_all & set(cpus.X86.unseen)
    assert set(Target.parse("x86 -mcpu=diamondrapids").features) == with_all & set(cpus.X86.features)


def model() -> onnx.ModelProto:
    """``y = relu(x @ w)``, whose weight is packed."""
    weight = np.random.default_rng(0).standard_normal((48, 40), np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["s"], "mul"), helper.make_node("Relu", ["s"], ["y"], "relu")]
    infos = [helper.make_tensor_value_info("x", 1, [8, 48]), helper.make_tensor_value_info("y", 1, [8, 40])]
    graph = helper.make_graph(nodes, "net", infos[:1], infos[1:], [numpy_helper.from_array(weight, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> str:
    path = str(tmp_path_factory.mktemp("target") / "net.onnx")
    onnx.save(model(), path)
    return path


@pytest.fixture(scope="module")
def foreign(path) -> Path:
    """A program for a CPU that this machine is not."""
    assert compile_tool.main([path, "--target", FOREIGN, "--quiet"]) == 0
    return Path(path).with_suffix(".so")


def test_code_for_another_cpu_is_written_and_not_loaded(foreign, capsys):
    with pytest.raises(
        tw.ArtifactError, match=rf"net.so: compiled for target '{re.escape(FOREIGN)}'.* xop, which"
    ) as info:
        tw.load_module(foreign)
    assert "\n" not in str(info.value)
    assert run_tool.main([str(foreign)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("error: ") and "xop" in err and err.count("\n") == 1


@pytest.mark.parametrize("executor", ["objects", "engine"])
def test_code_for_another_cpu_is_not_run_in_this_process(path, executor):
    message = rf"^code for target '{re.escape(FOREIGN)}' cannot run here: this CPU lacks .*xop"
    with pytest.raises(tw.TargetError, match=message) as info:
        tw.compile(path, target=FOREIGN, executor=executor)
    assert "\n" not in str(info.value)
    with pytest.raises(tw.TargetError, match=message):
        tw.build(tw.import_model(path), target=FOREIGN)
    with pytest.raises(tw.TargetError, match=message):
        api.stepwise(path, options=api.make_options(FOREIGN))


TOOLS = {"run": run_tool, "bench": bench, "explain": explain}


@pytest.mark.parametrize("name", TOOLS)
@pytest.mark.parametrize(
    "target, message", [(FOREIGN, "cannot run here"), ("vax", "unknown target"), ("x86 -mcpu=x", "unknown CPU 'x'")]
)
def test_commands_that_run_code_refuse_what_compile_refuses_or_cannot_run(path, name, target, message, capsys):
    assert TOOLS[name].main([path, "--target", target]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("error: ") and message in err and err.count("\n") == 1


@pytest.mark.parametrize("name", ["run", "bench"])
def test_a_compiled_program_has_its_target(foreign, name, capsys):
    assert TOOLS[name].main([str(foreign), "--target", "x86 -mcpu=x86-64"]) == 2
    assert "is compiled already: give its ONNX model" in capsys.readouterr().err


@campaign("run", "explain")
@pytest.mark.parametrize("name, options", [("run", ()), ("bench", ("--rounds", "1")), ("explain", ("--rounds", "1"))])
def test_commands_run_code_for_the_target(path, name, options, capsys, monkeypatch):
    asked = []
    parse = Target.parse
    monkeypatch.setattr(Target, "parse", staticmethod(lambda text: asked.append(str(text)) or parse(text)))
    assert TOOLS[name].main([path, "--target", "x86 -mcpu=x86-64", "--json", *options]) == 0
    record = json.loads(capsys.readouterr().out)
    assert set(asked) == {"x86 -mcpu=x86-64"}
    assert name != "bench" or record["target"] == "x86 -mcpu=x86-64"


def test_a_bench_compiles_for_the_target(path, tmp_path):
    program, _ = children.compile_cold(path, str(tmp_path), {}, "x86 -mcpu=x86-64")
    assert tw.load_module(program).manifest.target == "x86 -mcpu=x86-64"
    assert "code for 'x86 -mcpu=x86-64'" in markdown.describe_setup([], "x86 -mcpu=x86-64")
    assert "code for" not in markdown.describe_setup([], "x86")


def test_weights_for_another_cpu_are_prepared_here_in_its_layout(foreign, tmp_path):
    api.compile_to_file(model(), tmp_path / "here.so")
    api.compile_to_file(model(), tmp_path / "narrow.so", options=api.make_options("x86 -mcpu=x86-64"))
    here, narrow = ((tmp_path / f"{name}.safetensors").read_bytes() for name in ("here", "narrow"))
    assert foreign.with_suffix(".safetensors").read_bytes() == here  # as many lanes, other instructions
    assert b"[5,48,8]" in narrow.replace(b" ", b"")


@pytest.mark.parametrize("kind", ["asm", "obj"])
def test_the_entry_is_code_for_any_cpu(path, kind, tmp_path):
    """A program has to say what CPU it is for before anything else of it runs."""
    options = api.make_options("x86 -mcpu=sapphirerapids")
    text = (
        api.emit(path, "asm", options=options).decode()
        if kind == "asm"
        else _disassembled(path, tmp_path / "net.o", options)
    )
    functions = re.split(r"^(?:[0-9a-f]+ <)?([\w.]+)>?:", text, flags=re.M)
    bodies = dict(zip(functions[1::2], functions[2::2], strict=True))
    entry = [name for name in bodies if name.startswith(("__tvm_ffi", "tw_"))]
    assert {"__tvm_ffi_metadata", "__tvm_ffi_create", "tw_main"} <= set(entry)
    assert not [name for name in entry if re.search(r"[yz]mm|\tv[a-z]", bodies[name])]
    assert "zmm" in text


def _disassembled(path: str, output: Path, options: api.Options) -> str:
    api.compile_to_file(path, output, options=options)
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", output], capture_output=True, text=True, check=True)
    return text.stdout


@campaign(
    "x86 -mcpu=haswell-objects", "x86 -mcpu=x86-64-v2-engine", "x86 -mcpu=x86-64-objects", "x86 -mattr=-sse4.1-engine"
)
@pytest.mark.parametrize("executor", ["objects", "engine"])
@pytest.mark.parametrize("text", ["x86 -mcpu=haswell", "x86 -mcpu=x86-64-v2", "x86 -mcpu=x86-64", "x86 -mattr=-sse4.1"])
def test_code_for_a_lesser_cpu_runs_here(path, text, executor):
    x = np.random.default_rng(1).standard_normal((8, 48), np.float32)
    made = tw.compile(path, target=text, executor=executor)
    want = np.maximum(x @ numpy_helper.to_array(model().graph.initializer[0]), 0)
    np.testing.assert_allclose(made(x)[0], want, rtol=1e-5, atol=1e-5)
    assert (made.manifest.target, made.manifest.cpu_features) == (text, Target.parse(text).features)


@pytest.mark.parametrize(
    "cpu, name",
    [
        ("haswell", "small_resnet"),
        *(pytest.param(cpu, "resnet18", marks=pytest.mark.slow) for cpu in ("haswell", "x86-64-v2")),
    ],
)
def test_a_network_for_a_lesser_cpu_gives_the_oracles_answer(cpu, name, tmp_path):
    network = str(tmp_path / f"{name}.onnx")
    onnx.save(networks.build(name), network)
    session = make_session(network)
    [given] = session.get_inputs()
    x = np.random.default_rng(0).standard_normal(given.shape, np.float32)
    want = np.asarray(session.run(None, {given.name: x})[0])
    made = tw.compile(network, target=f"x86 -mcpu={cpu}")
    assert not made.report.notes
    assert np.linalg.norm(made(x)[0] - want) / np.linalg.norm(want) < 1e-5
