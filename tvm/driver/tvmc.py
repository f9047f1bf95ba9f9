"""``tvm.driver.tvmc``: load, compile, run and tune a network in a line each."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from ...core.errors import InputError, ModelError
from .. import auto_scheduler, autotvm, nd, relay
from ..auto_scheduler.measure_record import RecordToFile
from ..autotvm.tuner import GATuner, GridSearchTuner, RandomTuner, XGBTuner
from ..contrib.graph_executor import GraphModule
from ..network.module import IRModule
from ..runtime import load_module
from ..timing import BenchmarkResult
from ..transform import PassContext

__all__ = ["TVMCModel", "TVMCPackage", "TVMCResult", "compile", "load", "run", "tune"]

_TUNERS = {"xgb": XGBTuner, "ga": GATuner, "random": RandomTuner, "gridsearch": GridSearchTuner}
_FILLS = ("random", "ones", "zeros")


class TVMCModel:
    """A network, and its weights."""

    def __init__(self, mod: IRModule, params: Mapping[str, Any] | None = None, name: str = "default") -> None:
        self.mod, self.params, self.name = mod, dict(params or {}), name

    def summary(self, file: Any = None) -> None:
        """Print the network."""
        print(self.mod, file=file)

    def save(self, model_path: str | os.PathLike[str]) -> None:
        """ModelError: the file that was loaded is what is kept of a network."""
        raise ModelError(f"'{model_path}' is not written: keep the ONNX file, which tvmc.load reads")


class TVMCPackage:
    """A program that was compiled, in a file."""

    def __init__(self, package_path: str | os.PathLike[str], project_dir: Any = None) -> None:
        self.package_path = os.fspath(package_path)
        self.lib = load_module(self.package_path)


class TVMCResult:
    """What a run has given, and how long it took."""

    def __init__(self, outputs: Mapping[str, np.ndarray], times: BenchmarkResult) -> None:
        self.outputs, self.times = dict(outputs), times

    def format_times(self) -> str:
        """The times as a table."""
        return str(self.times)

    def get_output(self, name: str) -> np.ndarray:
        """An output, as "output_0"."""
        return self.outputs[name]

    def save(self, output_path: str | os.PathLike[str]) -> None:
        """Write the outputs as numpy's archive."""
        np.savez(output_path, allow_pickle=False, **self.outputs)

    def __str__(self) -> str:
        return f"{self.format_times()}\n\nOutput Names:\n {list(self.outputs)}"


def load(
    path: str | os.PathLike[str],
    model_format: str | None = None,
    shape_dict: Mapping[str, Sequence[Any]] | None = None,
    **others: Any,
) -> TVMCModel:
    """A network of an ONNX file, or of a TorchScript one. Raises ModelError for other formats."""
    kind = model_format or ("pytorch" if Path(path).suffix in (".pt", ".pth") else "onnx")
    if kind not in ("onnx", "pytorch") or others:
        what = f"format '{kind}'" if kind not in ("onnx", "pytorch") else ", ".join(others)
        raise ModelError(f"tvmc.load has no {what}: it reads ONNX and TorchScript files")
    if kind == "onnx":
        return TVMCModel(*relay.frontend.from_onnx(path, shape_dict))
    if not shape_dict:
        raise ModelError("a TorchScript file does not say its inputs: give shape_dict")
    import torch

    script = torch.jit.load(os.fspath(path), map_location="cpu").eval()
    return TVMCModel(*relay.frontend.from_pytorch(script, list(shape_dict.items())))


def compile(
    tvmc_model: TVMCModel,
    target: Any = "llvm",
    opt_level: int = 3,
    executor: Any = None,
    runtime: Any = None,
    tuning_records: str | os.PathLike[str] | None = None,
    package_path: str | os.PathLike[str] | None = None,
    cross: Any = None,
    cross_options: str | None = None,
    output_format: str = "so",
    dump_code: Any = None,
    target_host: str | None = None,
    disabled_pass: Sequence[str] | None = None,
    **others: Any,
) -> TVMCPackage:
    """Compile a network to a file, by default one that this process has, with the best of a log of tuning.

    Raises CompileError as ``relay.build``, and InputError for what has no meaning here.
    """
    if others or dump_code or output_format not in ("so", "tar"):
        raise InputError(
            f"tvmc.compile has no {', '.join(others) or dump_code or output_format}: it writes 'so' and 'tar';"
            " tilewright compile --emit prints code"
        )
    with _find_records(tuning_records), PassContext(opt_level=opt_level, disabled_pass=disabled_pass):
        made = relay.build(tvmc_model.mod, target, target_host, executor, params=tvmc_model.params)
    # A file of its own stays, as that of a log does: nobody knows when it is not needed any more.
    path = Path(package_path or Path(tempfile.mkdtemp(prefix="tvmc-"), f"module.{output_format}"))
    given = {"cc": cross, "options": cross_options.split() if cross_options else None}
    if path.suffix not in (".so", ".tar"):  # as scripts name packages
        path = path.with_name(f"{path.name}.{output_format}")
    made.export_library(path, **{name: each for name, each in given.items() if each})
    return TVMCPackage(path)


def _find_records(log: Any) -> Any:
    """The context that applies a log: of ``autotvm``, or of ``auto_scheduler``, whose lines begin otherwise."""
    if log is None:
        return nullcontext()
    try:
        with Path(log).open(errors="replace") as file:
            begin = file.read(4)
    except OSError as error:
        raise InputError(f"cannot read the log of tuning {log}: {error.strerror}") from error
    if begin == '{"i"':
        return auto_scheduler.ApplyHistoryBest(str(log))
    return autotvm.apply_history_best(str(log))


def run(
    tvmc_package: TVMCPackage,
    device: str = "cpu",
    rpc_key: str | None = None,
    hostname: str | None = None,
    port: int | str = 9090,
    inputs: Mapping[str, Any] | str | os.PathLike[str] | None = None,
    fill_mode: str = "random",
    repeat: int = 10,
    number: int = 10,
    profile: bool = False,
    end_to_end: bool = False,
    **others: Any,
) -> TVMCResult:
    """Run a package on inputs by name, or of an archive of numpy's; those that are missing are made by ``fill_mode``.

    Raises InputError for other devices, and for machines that are not this one.
    """
    if hostname or rpc_key or profile or others:
        raise InputError("tvmc.run runs in this process: leave hostname, rpc_key and profile out")
    if fill_mode not in _FILLS:
        raise InputError(f"fill_mode is '{fill_mode}': it is {', '.join(_FILLS)}")
    made = GraphModule(tvmc_package.lib["default"](nd.device(device, 0)))
    given = dict(np.load(inputs)) if isinstance(inputs, str | os.PathLike) else dict(inputs or {})
    shapes, dtypes = made.get_input_info()
    for name, shape in shapes.items():
        made.set_input(name, given[name] if name in given else _fill(shape, dtypes[name], fill_mode))
    made.run()
    outputs = {f"output_{n}": made.get_output(n).numpy() for n in range(made.get_num_outputs())}
    return TVMCResult(outputs, made.benchmark(device, repeat=repeat, number=number, end_to_end=end_to_end))


def _fill(shape: Sequence[int], dtype: str, mode: str) -> np.ndarray:
    if mode != "random":
        return getattr(np, mode)(shape, dtype)
    high = 1 if dtype.startswith("float") else 2 if dtype == "bool" else 128
    return np.random.uniform(0, high, shape).astype(dtype)


def tune(
    tvmc_model: TVMCModel,
    target: Any = "llvm",
    tuning_records: str | os.PathLike[str] | None = None,
    prior_records: str | None = None,
    enable_autoscheduler: bool = False,
    trials: int = 10000,
    timeout: int = 10,
    repeat: int = 1,
    tuner: str = "xgb",
    min_repeat_ms: int | None = None,
    early_stopping: int | None = None,
    target_host: str | None = None,
    number: int = 10,
    **others: Any,
) -> str:
    """Tune the kernels of a network, and give the log's path. Raises InputError for what has no meaning here."""
    if others or tuner not in _TUNERS:
        raise InputError(f"tvmc.tune has no {', '.join(others) or tuner!r}: tuners are {', '.join(_TUNERS)}")
    log = os.fspath(tuning_records or Path(tempfile.mkdtemp(prefix="tvmc-"), "tuning_records.json"))
    if enable_autoscheduler:
        tasks, weights = auto_scheduler.extract_tasks(tvmc_model.mod["main"], tvmc_model.params, target)
        options = auto_scheduler.TuningOptions(trials, early_stopping, measure_callbacks=[RecordToFile(log)])
        auto_scheduler.TaskScheduler(tasks, weights).tune(options)
        return log
    runner = autotvm.LocalRunner(timeout=timeout, number=number, repeat=repeat, min_repeat_ms=min_repeat_ms or 0)
    option = autotvm.measure_option(autotvm.LocalBuilder(), runner)
    tasks = autotvm.task.extract_from_program(tvmc_model.mod["main"], tvmc_model.params, target)
    for place, task in enumerate(tasks, 1):
        made, count = _TUNERS[tuner](task), min(trials, len(task.config_space))
        prefix = f"[Task {place:2d}/{len(tasks):2d}] "
        if prior_records:
            made.load_history(autotvm.record.load_from_file(prior_records))
        callbacks = [autotvm.callback.progress_bar(count, prefix=prefix), autotvm.callback.log_to_file(log)]
        made.tune(count, option, early_stopping, callbacks)
    return log
