"""``tvm.auto_scheduler``: schedules that are searched without a template, by the engine of ``tuning/``."""

from __future__ import annotations

from typing import NoReturn

from ..absent import refuse_name
from .compute_dag import ComputeDAG
from .dispatcher import ApplyHistoryBest
from .measure import (
    LocalBuilder,
    LocalRPCMeasureContext,
    LocalRunner,
    MeasureInput,
    MeasureResult,
    PythonBasedMeasureCallback,
    RPCRunner,
)
from .measure_record import RecordReader, RecordToFile, load_best_record, load_records, save_records
from .policies import PreloadMeasuredStates, RandomModel, SketchPolicy, XGBModel
from .relay_integration import extract_tasks
from .search_task import SearchTask, TuningOptions, auto_schedule, create_task
from .task_scheduler import LogEstimatedLatency, PrintTableInfo, TaskScheduler, TaskSchedulerCallback
from .workload_registry import make_workload_key, register_workload, workload_key_to_tensors

__all__ = [
    "ApplyHistoryBest",
    "ComputeDAG",
    "LocalBuilder",
    "LocalRPCMeasureContext",
    "LocalRunner",
    "LogEstimatedLatency",
    "MeasureInput",
    "MeasureResult",
    "PreloadMeasuredStates",
    "PrintTableInfo",
    "PythonBasedMeasureCallback",
    "RPCRunner",
    "RandomModel",
    "RecordReader",
    "RecordToFile",
    "SearchTask",
    "SketchPolicy",
    "TaskScheduler",
    "TaskSchedulerCallback",
    "TuningOptions",
    "XGBModel",
    "auto_schedule",
    "create_task",
    "extract_tasks",
    "load_best_record",
    "load_records",
    "make_workload_key",
    "register_workload",
    "save_records",
    "workload_key_to_tensors",
]


def __getattr__(name: str) -> NoReturn:
    refuse_name("auto_scheduler", name, __all__)
