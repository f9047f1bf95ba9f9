"""The picture of ``tilewright explain --plot``: the kernels under the machine's roof, and their times."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.errors import InputError
from tilewright.runtime.files import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SUFFIXES = (".png", ".svg")
_BARS = 10
_INCHES = (15, 6)
_COLORS = {"compute": "tab:red", "memory": "tab:blue"}
_LARGEST = 600  # points^2 of a kernel that takes all of the time


def require(path: Path) -> None:
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
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=_INCHES, layout="constrained")
    FigureCanvasAgg(figure)
    roof, bars = figure.subplots(1, 2)
    figure.suptitle(f"{Path(record['model']).name}: {record['seconds'] * 1e3:.3g} ms in one thread")
    _roofline(roof, record)
    _times(bars, record["kernels"][:_BARS])
    with replacing(path) as temporary, matplotlib.rc_context({"svg.fonttype": "none"}):
        figure.savefig(temporary, format=path.suffix[1:])


def _roofline(axes: Axes, record: dict[str, Any]) -> None:
    """Kernels by arithmetic intensity and rate, the slowest numbered; those without arithmetic have no place here."""
    machine = record["machine"]
    kernels = [(rank, kernel) for rank, kernel in enumerate(record["kernels"], 1) if kernel["flops"]]
    balance = machine["flops"] / machine["bytes"]
    intensities = [kernel["flops"] / kernel["bytes"] for _, kernel in kernels]
    ends = [min([balance / 10, *intensities]) / 2, max([balance * 10, *intensities]) * 2]
    corners = [ends[0], balance, ends[1]]
    axes.plot(corners, [min(machine["flops"], x * machine["bytes"]) / 1e9 for x in corners], color="black")
    for x, (rank, kernel) in zip(intensities, kernels, strict=True):
        rate = kernel["flops_per_second"] / 1e9
        axes.scatter(x, rate, s=max(_LARGEST * kernel["share"], 8), color=_COLORS[kernel["bound"]], alpha=0.5)
        if rank <= _BARS:
            axes.annotate(str(rank), (x, rate), fontsize=8)
    axes.set(xscale="log", yscale="log", xlabel="FLOP / byte", ylabel="GFLOP/s")
    peak, bandwidth = f"{machine['flops'] / 1e9:.0f} GFLOP/s", f"{machine['bytes'] / 1e9:.1f} GB/s"
    axes.set_title(f"one core: {peak} of multiply-adds, copies {bandwidth}; areas are times", fontsize=9)


def _times(axes: Axes, kernels: Sequence[dict[str, Any]]) -> None:
    """The slowest kernels, each with its share of the time and of what bounds it."""
    names = [f"{kernel['name']} x{kernel['calls']}  {i}" for i, kernel in enumerate(kernels, 1)]
    times = [kernel["seconds"] * 1e3 for kernel in kernels]
    bars = axes.barh(names, times, color=[_COLORS[kernel["bound"]] for kernel in kernels])
    texts = [
        f"{kernel['share']:.1%} of time, {kernel['peak_share']:.0%} of {kernel['bound']} peak" for kernel in kernels
    ]
    axes.bar_label(bars, texts, padding=3, fontsize=7)
    axes.invert_yaxis()
    axes.margins(x=0.6)
    axes.set_xlabel("ms")
    axes.set_title(f"the {len(kernels)} slowest kernels: red bound by arithmetic, blue by memory", fontsize=9)
