"""``autotvm.tuner``: which configs are tried next."""

from . import callback
from .index_based_tuner import GridSearchTuner, RandomTuner
from .search_tuner import DropletTuner, GATuner, XGBTuner
from .tuner import Tuner

__all__ = ["DropletTuner", "GATuner", "GridSearchTuner", "RandomTuner", "Tuner", "XGBTuner", "callback"]
