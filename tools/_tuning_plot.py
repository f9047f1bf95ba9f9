"""The picture of ``tilewright tune --plot``: how the best schedules got better, and where the spaces were looked at."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.core.printed import name_text
from tilewright.runtime.process.files import replacing_file

if TYPE_CHECKING:
    from tilewright.tuning.result import TaskResult, TuningResult

_FIGURE_INCHES = (15, 6)
_MOST_KERNELS = 8  # kernels, those with the most trials
_LABEL_CHARACTERS = 40
_SLOWEST_RATIO = 3.0  # times the default: slower candidates are drawn there


def draw(result: TuningResult, path: Path) -> None:
    """Draw what came of tuning into ``path``, whole or not at all."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=_FIGURE_INCHES, layout="constrained")
    FigureCanvasAgg(figure)
    progress, coverage = figure.subplots(1, 2)
    figure.suptitle(f"{name_text(result.name)}: {result.trials} trials in {result.seconds:.0f} s")
    tried = [task for task in result.tasks if task.trials]
    shown = sorted(tried or result.tasks, key=lambda task: -task.trials)[:_MOST_KERNELS]
    for task in shown:
        progress.plot(range(1, len(task.history) + 1), task.history, label=_label(task))
    progress.set_xlabel("trial")
    progress.set_ylabel("best time over the default's")
    progress.legend(fontsize=7)
    names = [(task, name, options) for task in shown for name, options in task.coverage.items()]
    for row, (_, _, options) in enumerate(names):
        for place, count, best in options.values():
            color = [min(best, _SLOWEST_RATIO)]
            coverage.scatter(place, row, s=8 * count**0.5, c=color, cmap="viridis_r", vmin=0.7, vmax=1.5)
    coverage.set_yticks(range(len(names)), [f"{task.name[:16]} {name}" for task, name, _ in names], fontsize=5)
    coverage.invert_yaxis()
    coverage.set_xlabel("options of a knob, as ordered: large points were measured often, bright ones were fast")
    with replacing_file(path) as temporary, matplotlib.rc_context({"svg.fonttype": "none"}):
        figure.savefig(temporary, format=path.suffix[1:])


def _label(task: TaskResult) -> str:
    nodes = " + ".join(map(name_text, task.nodes)) or task.name
    return (nodes if len(nodes) <= _LABEL_CHARACTERS else f"{nodes[: _LABEL_CHARACTERS - 3]}...").replace("$", r"\$")
