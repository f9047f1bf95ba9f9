"""TVM's tutorial on tuning a network, with its imports changed: import, run, time, tune, build again, compare.

``python tvm_script.py resnet50 20`` tunes each kernel of ResNet-50 with 20 trials; without arguments it tunes three
kernels of a small network with 2 trials.
"""

import sys
import tempfile
import timeit
from pathlib import Path

import numpy as np

import tilewright.tvm as tvm
from tilewright.tools import networks
from tilewright.tvm import autotvm, relay
from tilewright.tvm.autotvm.tuner import GATuner, GridSearchTuner, RandomTuner, XGBTuner
from tilewright.tvm.contrib import graph_executor

name, trials = sys.argv[1:] or ("small_resnet", "2")
folder = tempfile.TemporaryDirectory()

# Import a network, and run it.
onnx_model = networks.build(name)
input_name = onnx_model.graph.input[0].name
shape = [dim.dim_value for dim in onnx_model.graph.input[0].type.tensor_type.shape.dim]
img_data = np.random.default_rng(0).standard_normal(shape).astype("float32")

target = "llvm"
mod, params = relay.frontend.from_onnx(onnx_model, {input_name: shape})
with tvm.transform.PassContext(opt_level=3):
    lib = relay.build(mod, target=target, params=params)
dev = tvm.device(target, 0)
module = graph_executor.GraphModule(lib["default"](dev))


def run(module: graph_executor.GraphModule) -> np.ndarray:
    module.set_input(input_name, img_data)
    module.run()
    scores = module.get_output(0).numpy().ravel()
    exponentials = np.exp(scores - scores.max())
    return exponentials / exponentials.sum()


def measure(module: graph_executor.GraphModule) -> dict[str, float]:
    number, repeat = 10, 10
    times = np.array(timeit.Timer(lambda: module.run()).repeat(repeat=repeat, number=number)) * 1000 / number
    return {"mean": float(np.mean(times)), "median": float(np.median(times)), "std": float(np.std(times))}


def print_top(probabilities: np.ndarray) -> None:
    for rank in np.argsort(probabilities)[::-1][:5]:
        print(f"class='{rank}' with probability={probabilities[rank]:f}")


before = run(module)
print_top(before)
unoptimized = measure(module)

# Tune its kernels.
runner = autotvm.LocalRunner(number=10, repeat=1, timeout=10, min_repeat_ms=0, enable_cpu_cache_flush=True)
tuning_option = {
    "tuner": "ga",  # or xgb (where xgboost is installed), random, gridsearch
    "trials": int(trials),
    "early_stopping": 100,
    "measure_option": autotvm.measure_option(builder=autotvm.LocalBuilder(build_func="default"), runner=runner),
    "tuning_records": str(Path(folder.name, "autotuning.json")),
}
tasks = autotvm.task.extract_from_program(mod["main"], target=target, params=params)
if name == "small_resnet":
    tasks = tasks[:3]
for i, task in enumerate(tasks):
    prefix = f"[Task {i + 1:2d}/{len(tasks):2d}] "
    tuner = tuning_option["tuner"]
    if tuner == "xgb":
        tuner_obj = XGBTuner(task, loss_type="reg")
    elif tuner == "ga":
        tuner_obj = GATuner(task, pop_size=50)
    elif tuner == "random":
        tuner_obj = RandomTuner(task)
    elif tuner == "gridsearch":
        tuner_obj = GridSearchTuner(task)
    else:
        raise ValueError("Invalid tuner: " + tuner)
    tuner_obj.tune(
        n_trial=min(tuning_option["trials"], len(task.config_space)),
        early_stopping=tuning_option["early_stopping"],
        measure_option=tuning_option["measure_option"],
        callbacks=[
            autotvm.callback.progress_bar(tuning_option["trials"], prefix=prefix),
            autotvm.callback.log_to_file(tuning_option["tuning_records"]),
        ],
    )

# Build with the best of what was found, and compare.
with autotvm.apply_history_best(tuning_option["tuning_records"]), tvm.transform.PassContext(opt_level=3, config={}):
    lib = relay.build(mod, target=target, params=params)
module = graph_executor.GraphModule(lib["default"](dev))
after = run(module)
print_top(after)
np.testing.assert_allclose(after, before, atol=1e-5)
print(f"optimized: {measure(module)}")
print(f"unoptimized: {unoptimized}")
