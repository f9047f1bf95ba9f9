"""The picture of ``tilewright explain --plot``: the kernels under the machine's roof, and their times."""

from __future__ import annotations

import importlib.util
import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.core.errors import InputError
from tilewright.core.printed import name_text
from tilewright.runtime.process.files import replacing_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Annotation
    from matplotlib.transforms import Bbox

SUFFIXES = (".png", ".svg")
_BARS = 10
_INCHES = (15, 6)
_COLORS = {"compute": "tab:red", "memory": "tab:blue"}
_LONGEST_NAME = 48  # characters of a kernel's nodes
# Where a label may be about its point: so many points away (1/72 inch), in these directions, the upper right one first.
_RADII = (9, 18, 28, 40, 54, 70)
_ANGLES = tuple(math.pi / 4 + 2 * math.pi * i / 16 for i in range(16))
_LARGEST = 600  # points^2 of a kernel that takes all of the time


def require_plotting(path: Path) -> None:
    """Refuse in one line what ``draw`` could not do: another suffix, no such folder, no matplotlib."""
    if path.suffix not in SUFFIXES:
        raise InputError(f"cannot draw {path}: give a name that ends with {' or '.join(SUFFIXES)}")
    if not path.absolute().parent.is_dir():
        raise InputError(f"cannot draw {path}: there is no folder {path.parent}")
    if importlib.util.find_spec("matplotlib") is None:
        raise InputError("--plot needs the package matplotlib: pip install matplotlib")


def draw(record: dict[str, Any], path: Path) -> None:
    """Draw an explained model (``explain.explain``) into ``path``, whole or not at all; text of an SVG stays text."""
    import matplotlib

    with replacing_file(path) as temporary, matplotlib.rc_context({"svg.fonttype": "none"}):
        draw_picture(record).savefig(temporary, format=path.suffix[1:])


def draw_picture(record: dict[str, Any]) -> Figure:
    """The picture, laid out: no label lies on another one."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=_INCHES, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    roof, bars = figure.subplots(1, 2)
    figure.suptitle(f"{name_text(Path(record['model']).name)}: {record['seconds'] * 1e3:.3g} ms in one thread")
    points = _roofline(roof, record)
    _draw_times(bars, record["kernels"][:_BARS])
    canvas.draw()  # from here on all has its place
    figure.set_layout_engine("none")
    _label(roof, points, canvas.get_renderer())
    return figure


def _roofline(axes: Axes, record: dict[str, Any]) -> list[tuple[int, float, float]]:
    """Kernels by arithmetic intensity and rate; those without arithmetic have no place here.

    Returns the ranks of the slowest and where they are, to be labelled.
    """
    machine = record["machine"]
    kernels = [(rank, kernel) for rank, kernel in enumerate(record["kernels"], 1) if kernel["flops"]]
    balance = machine["flops"] / machine["bytes"]
    intensities = [kernel["flops"] / kernel["bytes"] for _, kernel in kernels]
    ends = [min([balance / 10, *intensities]) / 2, max([balance * 10, *intensities]) * 2]
    corners = [ends[0], balance, ends[1]]
    axes.plot(corners, [min(machine["flops"], x * machine["bytes"]) / 1e9 for x in corners], color="black")
    points = []
    for x, (rank, kernel) in zip(intensities, kernels, strict=True):
        rate = kernel["flops_per_second"] / 1e9
        axes.scatter(x, rate, s=max(_LARGEST * kernel["share"], 8), color=_COLORS[kernel["bound"]], alpha=0.5)
        if rank <= _BARS:
            points.append((rank, x, rate))
    axes.set(xscale="log", yscale="log", xlabel="FLOP / byte", ylabel="GFLOP/s")
    peak, bandwidth = f"{machine['flops'] / 1e9:.0f} GFLOP/s", f"{machine['bytes'] / 1e9:.1f} GB/s"
    axes.set_title(f"one core: {peak} of multiply-adds, copies {bandwidth}; areas are times", fontsize=9)
    return points


def _label(axes: Axes, points: Sequence[tuple[int, float, float]], renderer: Any) -> None:
    """Number the points, each label as near to its point as those before it leave room; a line leads to one far off."""
    taken: list[Bbox] = []
    for rank, x, y in points:
        for radius, angle in itertools.product(_RADII, _ANGLES):
            place = (radius * math.cos(angle), radius * math.sin(angle))
            line = {"arrowstyle": "-", "linewidth": 0.5, "color": "gray"} if radius > _RADII[0] else None
            about = {"textcoords": "offset points", "ha": "center", "va": "center", "arrowprops": line}
            label = axes.annotate(str(rank), (x, y), place, fontsize=8, **about)
            box = label_box(label, renderer)
            inside = axes.bbox.contains(box.x0, box.y0) and axes.bbox.contains(box.x1, box.y1)
            if inside and not any(box.overlaps(other) for other in taken):
                taken.append(box)
                break
            label.remove()  # where there is no room at all, the bars alone have the number


def label_box(label: Annotation, renderer: Any) -> Bbox:
    """Where a label's text is drawn, in pixels, without its line."""
    from matplotlib.text import Text

    label.update_positions(renderer)
    return Text.get_window_extent(label, renderer).padded(1)


def _draw_times(axes: Axes, kernels: Sequence[dict[str, Any]]) -> None:
    """The slowest kernels, each with its share of the time and of what bounds it."""
    names = [f"{i}  {_kernel_label(kernel)}" for i, kernel in enumerate(kernels, 1)]
    times = [kernel["seconds"] * 1e3 for kernel in kernels]
    bars = axes.barh(range(len(kernels)), times, color=[_COLORS[kernel["bound"]] for kernel in kernels])
    axes.set_yticks(range(len(kernels)), names, fontsize=7)
    texts = [
        f"{kernel['share']:.1%} of time, {kernel['peak_share']:.0%} of {kernel['bound']} peak" for kernel in kernels
    ]
    axes.bar_label(bars, texts, padding=3, fontsize=7)
    axes.invert_yaxis()
    axes.margins(x=0.6)
    axes.set_xlabel("ms")
    axes.set_title(f"the {len(kernels)} slowest kernels: red bound by arithmetic, blue by memory", fontsize=9)


def _kernel_label(kernel: dict[str, Any]) -> str:
    """The nodes of the kernel's first call, how many others there are, and below its name, which is no model's."""
    nodes = " + ".join(map(name_text, kernel["nodes"][0])) if kernel["nodes"] else ""
    more = f" and {kernel['calls'] - 1} more" if kernel["calls"] > 1 else ""
    shown = f"{nodes[: _LONGEST_NAME - 3]}..." if len(nodes) > _LONGEST_NAME else nodes
    return f"{shown or 'made by the compiler'}{more}\n{kernel['name']}".replace("$", r"\$")  # which begins a formula
