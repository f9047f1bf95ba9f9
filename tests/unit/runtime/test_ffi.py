"""tvm-ffi without torch, and torch's tensors all the same."""

import subprocess
import sys

_PROGRAM = """
import sys
from handmade import affine, affine_module
import numpy as np

module = affine_module(1)
assert "torch" not in sys.modules
import torch

x, y = torch.rand(tuple(module.inputs[0].shape)), torch.empty(tuple(module.outputs[0].shape))
module["main"](x, y)
np.testing.assert_allclose(y.numpy(), affine(x.numpy()), rtol=1e-6)
print("done")
"""


def test_programs_run_without_torch_and_take_its_tensors():
    path = f"import sys; sys.path[:] = {sys.path!r}\n"
    done = subprocess.run([sys.executable, "-c", path + _PROGRAM], capture_output=True, text=True, timeout=300)
    assert done.stdout == "done\n", done.stderr
