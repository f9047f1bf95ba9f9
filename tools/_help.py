"""The help of each command besides its options: where output goes, and two examples."""

from __future__ import annotations

from typing import NamedTuple


class About(NamedTuple):
    """``output`` is a sentence, ``examples`` are arguments of the command."""

    output: str
    examples: tuple[str, str]


ABOUT = {
    "compile": About(
        "MODEL.so and MODEL.safetensors next to the model, or FILE of -o; a summary on stdout",
        ("model.onnx", "--input-shape x:1..8,3,224,224 -o out.so model.onnx"),
    ),
    "run": About(
        "shapes, times and comparisons on stdout; arrays in the file of --outputs",
        ("model.so --inputs x.npz --outputs y.npz", "model.onnx --fill random --rounds 20 --threads 2"),
    ),
    "bench": About(
        "a table on stdout, and as markdown in the file of -o; progress on stderr",
        ("model.onnx --compare onnxruntime --threads 1 --threads 2", "--kernels -o kernels.md"),
    ),
    "check": About(
        "facts and problems on stdout; exit code 0 if the model can be compiled, 2 if not",
        ("model.onnx", "model.onnx --input-shape x:1,3,224,224 --json"),
    ),
    "explain": About(
        "a table and each kernel on stdout; a picture in the file of --plot",
        ("model.onnx --top 5", "model.onnx --all --full --plot kernels.svg"),
    ),
    "inspect": About("facts on stdout; runs no code of the program", ("model.so", "model.so --verify --json")),
    "profile": About(
        "a table on stdout; all rows in the file of --csv, the first runs in that of --trace",
        ("model.so --inputs x.npz --by op", "model.onnx --rounds 50 --trace trace.json"),
    ),
    "tune": About(
        "a table on stdout; what is measured in the file of --records; a picture in the file of --plot",
        ("model.onnx --time 5m", "model.onnx --time 1h --threads 1 --fleet tls://10.0.0.1:9190"),
    ),
    "fleet": About(
        "a line when a scheduler or a worker is there; tables of status on stdout; certificates in FOLDER",
        ("certificates ~/.local/share/tilewright/fleet", "worker tls://10.0.0.1:9190 --host 10.0.0.2 --threads 1"),
    ),
    "cache": About(
        "entries and sizes on stdout; $TILEWRIGHT_CACHE_DIR is the cache's folder, $TILEWRIGHT_CACHE_SIZE its limit"
        " (4GiB; 0 is no cache)",
        ("ls", "prune 500MB"),
    ),
    "records": About(
        "kernels and their best schedules on stdout; exit code 1 if verify finds a fault; $TILEWRIGHT_RECORDS is the"
        " user's file",
        ("ls", "export --winners -o shared.jsonl"),
    ),
    "debug": About(
        "findings on stdout; exit code 1 if something is wrong; files in the folder of --save or --dump-dir",
        ("model.onnx --against onnxruntime --save fault", "model.so --watch nan --inputs x.npz"),
    ),
    "reduce": About(
        "the small model in FILE of -o (reduced.onnx), its inputs next to it (reduced_inputs.npz)",
        ("model.onnx", "model.onnx --inputs x.npz --budget 120 -o small.onnx"),
    ),
    "header": About(
        "MODEL.h next to the program, or FILE of -o; a C program in the file of --example",
        ("model.so", "model.so -o include/model.h --example main.c"),
    ),
    "opt": About(
        "the module, or its code with --emit, on stdout; IR of --print-ir-after on stderr",
        ("kernel.mlir --passes=apply-schedule,vectorize", "--repro FOLDER"),
    ),
    "zoo": About("NAME.onnx in this folder, or FILE of -o", ("resnet18", "bert_base -o models/bert.onnx")),
    "completion": About(
        "a script on stdout, for the shell to read",
        ("bash > ~/.tilewright.bash", "zsh > ~/.tilewright.zsh"),
    ),
}
