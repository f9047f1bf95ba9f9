"""``python -m decode_bench``: decoders with a growing cache in sessions, one new token at a time, beside onnxruntime.

Each decoder and number of threads has a process of its own. For each number of tokens before, a round of ours makes so
many steps from there and forgets them; onnxruntime's step reads the past that ours has. Its GroupQueryAttention writes
into one buffer (as its own generators let it), its plain attention makes new caches, which are fed back. The
program of known sizes ("exact") takes the past as an input, and is a bound from above for what a session has to take.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import tilewright as tw
from tilewright.tools._options import THIS_CPU
from tilewright.tools.benchmarks.markdown import describe_setup, format_table
from tilewright.tools.benchmarks.measure import REST, Spread, compute_ratio, geometric_mean, interleave, relative_error

OURS, EXACT, ONNXRUNTIME = "session", "exact", "onnxruntime"
HEAD = 64  # size of an attention head
SECONDS = 0.02  # of a round, for each
TOLERANCE = 1e-3


@dataclass(frozen=True)
class Decoder:
    """Layers of attention and a feed-forward part, ``width`` wide; ``grouped``: by the GroupQueryAttention operator."""

    layers: int
    width: int
    grouped: bool

    @property
    def heads(self) -> int:
        """The number of attention heads, each with keys and values of its own."""
        return self.width // HEAD

    def caches(self) -> list[str]:
        """The names of the states, without "past_" and "present_"."""
        return [f"{kind}{layer}" for layer in range(self.layers) for kind in ("key", "value")]

    def build(self) -> onnx.ModelProto:
        """Embedded tokens ``x`` (1 x tokens x width) and caches in; ``y`` of the same shape, and longer caches, out."""
        graph = _Graph(self)
        x = "x"
        for layer in range(self.layers):
            x = graph.add_layer(x, layer)
        graph.node("Identity", [x], "y")
        return graph.model()


DECODERS = {
    "3x256": Decoder(3, 256, False),
    "3x256 grouped": Decoder(3, 256, True),
    "12x768": Decoder(12, 768, False),
    "12x768 grouped": Decoder(12, 768, True),
}


class _Graph:
    """The nodes and weights of a decoder."""

    def __init__(self, decoder: Decoder) -> None:
        self.decoder, self.random = decoder, np.random.default_rng(0)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def node(self, op: str, inputs: Sequence[str], *outputs: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op, inputs, outputs, **attributes))
        return outputs[0]

    def weight(self, name: str, *shape: int) -> str:
        array = self.random.standard_normal(shape, dtype=np.float32) / np.float32(np.sqrt(shape[0]))
        return self.constant(name, array)

    def constant(self, name: str, array: np.ndarray) -> str:
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def add_layer(self, x: str, layer: int) -> str:
        width, at = self.decoder.width, f"l{layer}"
        joint = self.node("MatMul", [self.norm(x, f"{at}.n1"), self.weight(f"{at}.qkv", width, 3 * width)], f"{at}.j")
        parts = [f"{at}.{part}" for part in "qkv"]
        self.node("Split", [joint], *parts, axis=2, num_outputs=3)
        attend = self.attend_grouped if self.decoder.grouped else self.attend
        y = self.node("MatMul", [attend(parts, layer), self.weight(f"{at}.o", width, width)], f"{at}.p")
        x = self.node("Add", [x, y], f"{at}.a")
        y = self.node("MatMul", [self.norm(x, f"{at}.n2"), self.weight(f"{at}.up", width, 4 * width)], f"{at}.h")
        y = self.node("Gelu", [y], f"{at}.g", approximate="tanh")
        y = self.node("MatMul", [y, self.weight(f"{at}.down", 4 * width, width)], f"{at}.d")
        return self.node("Add", [x, y], f"{at}.y")

    def norm(self, x: str, at: str) -> str:
        scale = self.constant(f"{at}.w", np.ones(self.decoder.width, np.float32))
        return self.node("LayerNormalization", [x, scale], f"{at}.y", axis=-1)

    def attend(self, parts: Sequence[str], layer: int) -> str:
        """Attention in plain nodes, as exporters write it; one new token sees all."""
        at, decoder = f"l{layer}", self.decoder
        shape = self.constant(f"{at}.s", np.array([1, -1, decoder.heads, HEAD]))
        rows = [self.node("Reshape", [part, shape], f"{part}.r") for part in parts]
        query, key, value = (self.node("Transpose", [row], f"{row}.t", perm=[0, 2, 1, 3]) for row in rows)
        key, value = (
            self.node("Concat", [f"past_{kind}{layer}", new], f"present_{kind}{layer}", axis=2)
            for kind, new in (("key", key), ("value", value))
        )
        turned = self.node("Transpose", [key], f"{at}.kt", perm=[0, 1, 3, 2])
        scale = self.constant(f"{at}.c", np.float32(HEAD**-0.5).reshape(()))
        scores = self.node("Mul", [self.node("MatMul", [query, turned], f"{at}.qk"), scale], f"{at}.z")
        y = self.node("MatMul", [self.node("Softmax", [scores], f"{at}.w", axis=-1), value], f"{at}.m")
        y = self.node("Transpose", [y], f"{at}.mt", perm=[0, 2, 1, 3])
        return self.node("Reshape", [y, self.constant(f"{at}.e", np.array([1, -1, decoder.width]))], f"{at}.mr")

    def attend_grouped(self, parts: Sequence[str], layer: int) -> str:
        past, present = ([f"{side}_{kind}{layer}" for kind in ("key", "value")] for side in ("past", "present"))
        counts: dict[str, Any] = {"num_heads": self.decoder.heads, "kv_num_heads": self.decoder.heads}
        inputs = [*parts, *past, "ends", "total"]
        return self.node("GroupQueryAttention", inputs, f"l{layer}.m", *present, domain="com.microsoft", **counts)

    def model(self) -> onnx.ModelProto:
        decoder, tensor = self.decoder, helper.make_tensor_value_info
        row, heads = [1, "tokens", decoder.width], decoder.heads
        given = [tensor("x", TensorProto.FLOAT, row)]
        given += [tensor(f"past_{name}", TensorProto.FLOAT, [1, heads, "past", HEAD]) for name in decoder.caches()]
        if decoder.grouped:
            given += [tensor("ends", TensorProto.INT32, [1]), tensor("total", TensorProto.INT32, [1])]
        made = [tensor("y", TensorProto.FLOAT, row)]
        made += [tensor(f"present_{name}", TensorProto.FLOAT, [1, heads, "all", HEAD]) for name in decoder.caches()]
        graph = helper.make_graph(self.nodes, "decoder", given, made, self.weights)
        opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def main() -> None:
    """Measure what is asked for and write a table."""
    args = _arguments()
    if args.one:
        print(json.dumps(measure(DECODERS[args.one[0]], int(args.one[1]), args.past, args.rounds)))
        return
    rows = [["decoder", "threads", "tokens before", "µs", "onnxruntime", "ratio", "exact size", "ratio"]]
    shares = []
    for name in args.names:
        for threads in args.threads:
            for found in _child(name, threads, args):
                us, ratios = found["us"], found["ratios"]
                shares.append(ratios[ONNXRUNTIME])
                rows.append([
                    name, str(threads), str(found["past"]), f"{us[OURS]:.0f}", f"{us[ONNXRUNTIME]:.0f}",
                    f"**{ratios[ONNXRUNTIME]:.2f}**", f"{us[EXACT]:.0f}", f"**{ratios[EXACT]:.2f}**",
                ])  # fmt: skip
                print("  ".join(rows[-1]), file=sys.stderr, flush=True)
    mean = f"{geometric_mean(shares):.2f} of onnxruntime's time (geometric mean), {max(shares):.2f} at most."
    text = "\n".join([format_table(rows), "", mean, "", describe_setup(["onnxruntime"], THIS_CPU), ""])
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(text)
    print(text)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="decoders; all of them by default", default=list(DECODERS))
    parser.add_argument("--threads", type=int, action="append", help="numbers of threads (1 and 2)")
    parser.add_argument("--past", type=int, action="append", help="numbers of tokens before (1, 16, 64, 200 and 500)")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("-o", "--output", type=Path, default=Path("../build/bench/decode.md"))
    parser.add_argument("--one", nargs=2, metavar=("NAME", "THREADS"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.threads = args.threads or [1, 2]
    args.past = args.past or [1, 16, 64, 200, 500]
    return args


def _child(name: str, threads: int, args: argparse.Namespace) -> list[dict[str, Any]]:
    options = ["--rounds", str(args.rounds), *(f"--past={past}" for past in args.past)]
    command = [sys.executable, "-m", "decode_bench", "--one", name, str(threads), *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def measure(decoder: Decoder, threads: int, pasts: Sequence[int], rounds: int) -> list[dict[str, Any]]:
    """Microseconds of a step behind each number of tokens, and what ours takes of the others' time.

    Raises ValueError where the results differ.
    """
    model = decoder.build()
    session = tw.compile(model, num_threads=threads).session()
    rival = _Rival(model.SerializeToString(), decoder, threads)
    random, found = np.random.default_rng(1), []
    for past in pasts:
        token = {"x": random.standard_normal((1, 1, decoder.width), dtype=np.float32)}
        shape = (1, decoder.heads, past, HEAD)
        caches = {name: random.standard_normal(shape, dtype=np.float32) for name in decoder.caches()}
        states = {f"past_{name}": array for name, array in caches.items()}
        if decoder.grouped:
            token |= {"ends": np.array([past], np.int32), "total": np.array([past + 1], np.int32)}
        session.load_states(states)
        own = dict.fromkeys(["x"], (1, 1, decoder.width)) | dict.fromkeys(states, shape)
        exact = tw.compile(model, input_shapes=own, num_threads=threads)

        def step(token: dict[str, np.ndarray] = token, past: int = past) -> np.ndarray:
            y = session.run(token)["y"]
            session.truncate(past)
            return y

        def run_exact(
            run: Callable[..., Any] = exact.run, inputs: dict[str, np.ndarray] = token | states
        ) -> np.ndarray:
            return run(inputs)[0]

        runs = {OURS: step, EXACT: run_exact, ONNXRUNTIME: rival.prepare(token, states, past)}
        want = runs[ONNXRUNTIME]()
        for name in (OURS, EXACT):
            if relative_error(runs[name](), want) > TOLERANCE:
                raise ValueError(f"behind {past} tokens, {name} differs from onnxruntime")
        times = interleave(runs, rounds, SECONDS, rest=REST if threads > 1 else 0.0)
        us = {name: Spread.of(of_run).median * 1e6 for name, of_run in times.items()}
        ratios = {name: compute_ratio(times[OURS], times[name]).median for name in (EXACT, ONNXRUNTIME)}
        found.append({"past": past, "us": us, "ratios": ratios})
    return found


class _Rival:
    """onnxruntime, with its values bound, so that no cache is copied into numpy's memory."""

    def __init__(self, model: bytes, decoder: Decoder, threads: int) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        self.session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self.decoder = decoder

    def prepare(
        self, token: dict[str, np.ndarray], states: dict[str, np.ndarray], past: int
    ) -> Callable[[], np.ndarray]:
        """A function that makes one step behind so many tokens."""
        binding, value = self.session.io_binding(), onnxruntime.OrtValue.ortvalue_from_numpy
        for name, array in token.items():
            binding.bind_ortvalue_input(name, value(array))
        for name, array in states.items():
            if self.decoder.grouped:  # one buffer with room for what is new
                room = np.zeros((*array.shape[:2], past + 1, HEAD), np.float32)
                room[:, :, :past] = array
                shared = value(room)
                binding.bind_ortvalue_input(name, shared)
                binding.bind_ortvalue_output(name.replace("past", "present"), shared)
            else:
                binding.bind_ortvalue_input(name, value(array))
                binding.bind_output(name.replace("past", "present"))
        binding.bind_output("y")

        def step() -> np.ndarray:
            self.session.run_with_iobinding(binding)
            return binding.get_outputs()[-1].numpy()

        return step


if __name__ == "__main__":
    main()
