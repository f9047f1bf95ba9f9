"""Code generators that fail, or give nonsense, are named with their subgraph; and registrations that cannot be."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from codegen_case import X, block, compile_c, compiled, register_reference, takes_add_and_relu
from refused import refused

import tilewright as tw
from tilewright.runtime.artifact.manifest import Manifest

pytestmark = pytest.mark.shares_kernels


def crash(subgraph: tw.Subgraph) -> bytes:
    os.kill(os.getpid(), signal.SIGSEGV)
    return b""


def fail(subgraph: tw.Subgraph) -> bytes:
    raise ValueError(f"no way\nto {subgraph.name}")


MULTIPLE = "int g(void) { return 0; } int f(const float *x) { return 0; }"
WRONG: dict[str, tuple[Callable[[tw.Subgraph], Any], str]] = {
    "raises": (fail, r"ValueError: no way to c_0 \(test_failures.py:\d+\)"),
    "crashes": (crash, "it crashed \\(SIGSEGV\\)"),
    "leaves": (lambda s: os._exit(3), "it ended its process \\(3\\)"),
    "endless": (lambda s: time.sleep(99), r"it took more than 0.2 s, its limit of time \(timeout=\)"),
    "number": (lambda s: 7, "compile gives 7: give a tw.NativeCode"),
    "lock": (lambda s: sys.stdout, "TypeError: cannot pickle"),
    "bytes": (lambda s: b"text", "its code is no object and no shared library"),
    "path": (lambda s: "/nowhere/code.o", "FileNotFoundError: .*/nowhere/code.o"),
    "payload": (
        lambda s: tw.HostCode(b""),
        "it gives a payload, and nothing makes a function of that: register it with load=",
    ),
    "constant": (lambda s: tw.NativeCode(b"", None, ("w",)), "it wants the constant 'w', which the subgraph has not"),
    "symbol": (
        lambda s: tw.NativeCode(compile_c(MULTIPLE), "h"),
        "its code has no visible function 'h', it has 'g', 'f'",
    ),
    "several": (lambda s: compile_c(MULTIPLE), r"its code has 2 visible functions: name one \(tw.NativeCode"),
    "needs": (lambda s: compile_c("int gone(void); int f(void) { return gone(); }"), "its object needs 'gone'"),
    "fixed": (
        lambda s: compile_c("int v; long f(void) { return (long)&v; }", "-fno-pic", "-fno-pie"),
        "its object has fixed addresses: compile it with -fPIC",
    ),
    "library": (
        lambda s: compile_c("int gone(void); int f(void) { return gone(); }", "-shared", "-Wl,-z,now"),
        "OSError: .*gone",
    ),
    "machine": (
        lambda s: compile_c(MULTIPLE)[:18] + b"\xf3\0" + bytes(60),
        "its code is for another machine, the program",
    ),
    "cut": (lambda s: compile_c(MULTIPLE)[:-40], "its code is damaged: it ends before its section headers do"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_code_generator_that_fails_is_named_with_its_subgraph(name: str):
    compile, message = WRONG[name]
    tw.register_codegen("c", takes_add_and_relu, compile, timeout=0.2 if name == "endless" else 60)
    what = r"code generator 'c', subgraph 'c_0' \(nodes 'Add_1', 'Relu_2'\): "
    refused(lambda: compiled(block()), what + message, tw.CompileError)


@pytest.mark.parametrize(
    ("supports", "message"),
    [
        (lambda s: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda s: os.kill(os.getpid(), signal.SIGABRT), r"it crashed \(SIGABRT\)"),
        (lambda s: "yes", "TypeError: supports gives 'yes' for node 'Exp_0': give True or False"),
    ],
)
def test_a_predicate_that_fails_is_named(supports: Any, message: str):
    tw.register_codegen("c", supports, crash)
    refused(lambda: compiled(block()), f"code generator 'c' failed to say what it supports: {message}", tw.CompileError)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: 1 / 0, "failed: ZeroDivisionError: division by zero"),
        (lambda x: x.astype(np.float64), ", output 0 is of float64, it must be of float32"),
        (lambda x: x[:2], r", output 0 has shape \[2, 4\], it must be \[3, 4\]"),
        (lambda x: (x, x), "gives 2 outputs, it has 1"),
        (lambda x: None, "output 0 is of object"),
    ],
)
def test_a_function_that_gives_nonsense_is_named(function: Callable[..., Any], message: str):
    tw.register_codegen("py", lambda s: s.nodes[0].op_type == "Exp", lambda s: function)
    module = compiled(block())
    refused(lambda: module(X), rf"code generator 'py', subgraph 'py_0' \(node 'Exp_0'\).*{message}", tw.InputError)


def test_a_shape_that_only_the_run_knows_is_held_against_what_was_said():
    tw.register_codegen("py", lambda s: s.nodes[0].op_type == "Exp", lambda s: lambda x: x[:2], dynamic=True)
    module = compiled(block("N"))
    refused(lambda: module(X), r"output 0 has not the shape \[N, 4\]: .* \(2 and 3\)", tw.InputError)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("", bool, bool), "a name has letters"),
        (("a b", bool, bool), "a name has letters"),
        (("a", bool, 3), "compile is a int, not a function"),
        (("a", bool), "supports and compile go together"),
        (("a",), "give supports and compile, or load"),
    ],
)
def test_what_cannot_be_registered(arguments: tuple[Any, ...], message: str):
    refused(
        lambda: tw.register_codegen(*arguments), f"code generator '.*' cannot be registered: {message}", tw.InputError
    )


def test_options_that_cannot_be():
    wrong: list[dict[str, Any]] = [{"prefer": 0}, {"prefer": 1.5}, {"min_nodes": 0}, {"timeout": 0}, {"timeout": None}]
    for options in wrong:
        refused(lambda o=options: tw.register_codegen("a", bool, bool, **o), f"{next(iter(options))} is", tw.InputError)
    tw.register_codegen("a", bool, bool)
    refused(lambda: tw.register_codegen("a", bool, bool), "'a' is registered already: override=True", tw.InputError)
    tw.register_codegen("a", bool, bool, override=True)
    tw.unregister_codegen("a")
    refused(lambda: tw.unregister_codegen("a"), "there is no code generator 'a': registered are none", tw.InputError)


def test_the_time_of_a_compilation_is_that_of_its_code_generators_too():
    tw.register_codegen("c", takes_add_and_relu, lambda s: time.sleep(99))
    message = r"code generator 'c', subgraph 'c_0' .*: the compilation's time was up \(timeout=\)"
    refused(lambda: tw.compile(block(), workers=0, cache=False, timeout=1), message, tw.CompileTimeoutError)


@pytest.mark.parametrize(
    ("key", "value"),
    [("payload", 3), ("codegen", None), ("nodes", [1]), ("key", {}), ("outputs", []), ("outputs", [[-1, 4], [3, 4]])],
)
def test_a_manifest_that_no_compiler_has_written_is_refused(key: str, value: Any):
    register_reference({"Add_1", "Relu_2"})
    record = json.loads(compiled(block()).manifest.to_json())
    [facts] = [step[3]["attributes"] for step in record["routine"][1] if step[0] == "host.call"]
    facts[key] = value
    refused(lambda: Manifest.from_json(json.dumps(record), "m.so"), "m.so: its description is not one of Tilewright's")


def test_a_payload_that_does_not_load_is_named(tmp_path: Path):
    register_reference({"Add_1", "Relu_2"})
    path = compiled(block()).export_library(tmp_path / "m.so")
    for load, message in ((lambda payload: 1 / 0, "ZeroDivisionError"), (lambda payload: 3, "load gives a int, not")):
        tw.register_codegen("reference", load=load, override=True)  # pyright: ignore[reportArgumentType]
        refused(lambda: tw.load_module(path), f"subgraph 'reference_0' .* cannot be loaded: {message}", tw.InputError)
