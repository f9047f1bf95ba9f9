"""Options of graph passes, as ``PassContext(config=...)`` gives them."""

from __future__ import annotations

from typing import Any

import networks
import pytest

from tilewright.core.errors import CompileError
from tilewright.core.model import Model
from tilewright.core.target import Target
from tilewright.dialects import builders, ir
from tilewright.dialects.context import make_context
from tilewright.passes.infra.context import PassContext
from tilewright.passes.infra.instruments import Verify
from tilewright.passes.pipeline import plan
from tilewright.tools import compile as command


def _calls(model: Model, **config: Any) -> list[str]:
    options = {f"{key.partition('__')[0].replace('_', '-')}.{key.partition('__')[2]}": v for key, v in config.items()}
    made = plan(model, Target(lanes=4), PassContext(config=options, instruments=[Verify()]))
    return [call.kernel.rsplit("_", 1)[0] for call in made.main.calls]


def test_the_size_of_groups_has_a_limit():
    with make_context(), ir.Location.unknown():
        sizes = [len(_calls(networks.attention(), fuse_ops__max_group_size=n)) for n in (1, 2, 3, 0)]
        alone = len(_calls(networks.attention(), fuse_ops__fuse_opt_level=0))
    assert sizes == sorted(sizes, reverse=True) and sizes[0] > sizes[-1]
    assert sizes[0] <= alone


def test_a_forced_layout_leaves_convolutions_or_converts_them():
    with make_context(), ir.Location.unknown():
        moved = [
            sum("transpose" in name for name in _calls(networks.residual_block(), convert_layout__conv2d=layout))
            for layout in ("NHWC", "NCHW")
        ]
    assert moved[0] > moved[1]


def test_desired_layouts_are_the_option_of_the_pass():
    with make_context(), ir.Location.unknown():
        model, target = networks.residual_block(), Target(lanes=4)
        spelt = [{"desired_layouts": {"conv2d": "NCHW"}}, {"convert-layout.conv2d": "NCHW"}, {}]
        calls = [[c.kernel for c in plan(model, target, PassContext(config=config)).main.calls] for config in spelt]
    assert calls[0] == calls[1] != calls[2]


@pytest.mark.parametrize("channels_last", [False, True])
def test_an_image_is_read_as_it_lies(channels_last: bool) -> None:
    """A convolution of a few channels takes them from where they are; one whose model transposes them undoes that."""

    def body(x: ir.Value, w: ir.Value) -> ir.Value:
        image = builders.transpose(x, (0, 3, 1, 2)) if channels_last else x
        return builders.transpose(builders.conv(image, w, (2, 2), (1, 1)), (0, 2, 3, 1))

    with make_context(), ir.Location.unknown():
        shape = (1, 9, 9, 3) if channels_last else (1, 3, 9, 9)
        [call] = _calls(networks.build(body, {"x": shape}, {"w": (8, 3, 3, 3)}))
    assert call.startswith("conv")


def _image_is_a_weight() -> Model:
    """A convolution of a weight: it has no layout to choose."""

    def body(x, w):
        return builders.conv(x, w, (1, 1), (1, 1)), builders.conv(w, w, (1, 1), (1, 1))

    return networks.build(body, {"x": (1, 3, 4, 4)}, {"w": (3, 3, 1, 1)})


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"convert-layout.conv2d": "NHWC"}, "convert-layout.*node .* cannot be NHWC: its input is a weight"),
        ({"convert-layout.conv2d": "CHWN"}, "conv2d is 'CHWN', not 'NHWC' or 'NCHW'"),
        ({"desired_layouts": {"conv2d": "CHWN"}}, "conv2d is 'CHWN', not 'NHWC' or 'NCHW'"),
        ({"desired_layouts": {"dense": "NC"}}, "config 'desired_layouts' has no kind of op 'dense'; its kinds: conv2d"),
        ({"desired_layouts": {"desired": "none"}}, "has no kind of op 'desired'; its kinds: conv2d"),
        ({"desired_layouts": "NCHW"}, "config 'desired_layouts' is 'NCHW': give a layout by kind of op"),
        (
            {"desired_layouts": {"conv2d": "NCHW"}, "convert-layout.conv2d": "NHWC"},
            "config gives 'conv2d' two layouts, 'NHWC' and in 'desired_layouts' 'NCHW': give one",
        ),
        ({"fuse-ops.max_group_size": -1}, "max_group_size is -1, not 0 or more"),
        ({"pack-weights.n_tile": 24}, "'pack-weights': n_tile is 24, not 0 or a power of two from 4, a vector of the"),
        ({"pack-weights.n_tile": 2}, "'pack-weights': n_tile is 2, not 0 or a power of two from 4, a vector of the"),
        ({"fuse-ops.size": 1}, "config has no key 'fuse-ops.size'; its keys: .*fuse-ops.max_group_size"),
        ({"frobnicate.size": 1}, "config has no key 'frobnicate.size'; its keys: "),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(config, message):
    with make_context(), ir.Location.unknown(), pytest.raises(CompileError, match=message) as error:
        plan(_image_is_a_weight(), Target(lanes=4), PassContext(config=config))
    assert "\n" not in str(error.value)


def test_the_command_takes_options_of_passes(capsys):
    with pytest.raises(SystemExit):
        command.main(["model.onnx", "--config", "nonsense"])
    assert "is not PASS.OPTION=VALUE" in capsys.readouterr().err
