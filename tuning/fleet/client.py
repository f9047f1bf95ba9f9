"""Who sends jobs to the workers of a fleet: finds those that fit, waits for answers, and tells who was lost."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from typing import Any

from ...core.errors import FleetError, first_line
from ...core.target import Target
from ...records.trial import target_key
from ...workers.process import Job, Limits
from .address import Fleet, make_security, parse_address, require_distributed
from .encoding import encode_value
from .jobs import ContestRequest, Request, WorkerFacts, default_key, function_name, perform_job, read_answer
from .probe import check_scheduler

_POLL_SECONDS = 2.0  # after which it is asked whether a worker is still there
# What a job may take beyond its own limits: to be sent, to wait for a process to begin, to be read.
_MORE_SECONDS = 60.0
_UNLIMITED_SECONDS = 120.0  # of a job without a limit of its own
_RETURN_SECONDS = 30.0  # in which a scheduler that is gone may come back
_MOST_TRIES = 5
_LARGE_BYTES = 1 << 20
FACTS = "tilewright"  # where the scheduler has what workers say of themselves


class LostWorkerError(FleetError):
    """A worker that was at a job is gone, or does not answer; ``address`` is which."""

    def __init__(self, address: str, why: str) -> None:
        super().__init__(f"the worker at {address} {why}")
        self.address = address


class FleetClient:
    """A connection to a fleet's scheduler; ``close`` ends it. Raises FleetError where there is none.

    Threads may share it.
    """

    def __init__(self, fleet: Fleet) -> None:
        require_distributed()
        from distributed import Client

        self.address = parse_address(fleet.address)
        security = make_security(self.address, fleet.certificates, "client")
        check_scheduler(self.address, security, "client")
        quiet_dask()
        try:
            self._client: Any = Client(
                self.address, security=security, timeout=_RETURN_SECONDS, set_as_default=False, name="tilewright"
            )
        except (OSError, ImportError) as error:
            raise FleetError(f"the scheduler at {self.address} cannot be used: {error}") from error
        self._lock = threading.Lock()
        self._dropped: set[str] = set()
        self._keys: dict[str, str] = {}

    def __enter__(self) -> FleetClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection."""
        with contextlib.suppress(Exception):
            self._client.close(timeout=2)

    def list_workers(self) -> dict[str, WorkerFacts]:
        """The workers that there are by their addresses; a worker of another program is none."""
        found = {}
        for address, about in self._ask(self._identify)["workers"].items():
            facts = WorkerFacts.read(about.get(FACTS))
            if facts is not None and address not in self._dropped:
                found[address] = facts
        self._keys = {address: facts.key for address, facts in found.items()}
        return found

    def match_workers(self, key: str, target: str, threads: int) -> tuple[dict[str, WorkerFacts], dict[str, str]]:
        """The workers of a key that can measure for a ``target_key`` and a number of threads; why others cannot."""
        found, refused = {}, {}
        for address, facts in self.list_workers().items():
            if facts.key == key and (reason := facts.explain_refusal(target, threads)):
                refused[address] = f"the worker at {address} is not used: {reason}"
            elif facts.key == key:
                found[address] = facts
        return found, refused

    def demand_workers(self, key: str, target: str, threads: int) -> dict[str, WorkerFacts]:
        """The same; FleetError, with the reasons, where there is none that can."""
        found, refused = self.match_workers(key, target, threads)
        if found:
            return found
        keys = sorted({facts.key for facts in self.list_workers().values()})
        having = "; ".join(refused.values()) or (f"it has {', '.join(keys)}" if keys else "it has none at all")
        raise FleetError(
            f"no worker of key '{key}' at {self.address}: {having}; start one by `tilewright fleet worker"
            f" {self.address}`"
        )

    def list_processing(self) -> dict[str, int]:
        """How many jobs each worker has, with those that wait."""
        return {address: len(keys) for address, keys in self._ask(self._client.processing).items()}

    def perform(self, address: str, request: Request | ContestRequest) -> Any:
        """Have a worker do something, and wait for it.

        Raises the error that the job ended with, LostWorkerError where the worker is gone, or takes far longer than
        the job may, and FleetError where the scheduler does not come back.
        """
        message = encode_value(request)
        limit = request.limits.timeout or _UNLIMITED_SECONDS
        for _ in range(_MOST_TRIES):
            answer = self._try_job(address, message, limit + _MORE_SECONDS)
            if answer is not None:
                return read_answer(answer).value
            self._await_scheduler()
        raise FleetError(f"the scheduler at {self.address} comes and goes: a job was sent {_MOST_TRIES} times")

    def _try_job(self, address: str, message: bytes, seconds: float) -> bytes | None:
        """A worker's answer; None where the scheduler is gone meanwhile."""
        key = self._keys.get(address) or self._find_key(address)
        future = None
        try:
            future = self._submit(address, key, message)
            begin = time.monotonic()
            while True:
                try:
                    return future.result(timeout=_POLL_SECONDS)
                except (TimeoutError, asyncio.TimeoutError):  # one and the same from Python 3.11 on
                    self._check(address, time.monotonic() - begin, seconds)
        except FleetError:
            raise
        except (TimeoutError, asyncio.TimeoutError) as error:
            raise self._drop(address, "takes no jobs") from error
        except (CancelledError, OSError):  # what Dask says where its scheduler is gone
            return None
        except Exception as error:
            if self._client.status != "running":
                return None
            if type(error).__name__ == "KilledWorker":
                raise LostWorkerError(address, "is gone") from error
            raise self._drop(address, f"cannot do its job ({type(error).__name__}: {first_line(error)})") from error
        finally:
            if future is not None:
                with contextlib.suppress(Exception):
                    future.cancel()

    def _submit(self, address: str, key: str, message: bytes) -> Any:
        """Send a job; a large one is not to go through what the scheduler keeps of jobs."""
        sent = message
        if len(message) > _LARGE_BYTES:
            [sent] = self._client.scatter([message], workers=[address], hash=False)
        return self._client.submit(
            perform_job,
            sent,
            key=f"tilewright-{uuid.uuid4().hex}",
            workers=[address],
            allow_other_workers=False,
            resources={key: 1},
            retries=0,
            pure=False,
        )

    def _find_key(self, address: str) -> str:
        facts = self.list_workers().get(address)
        if facts is None:
            raise LostWorkerError(address, "is gone")
        return facts.key

    def _check(self, address: str, waited: float, seconds: float) -> None:
        """Raise LostWorkerError where a worker is gone, or takes longer than all jobs may that it has."""
        if self._client.status != "running":
            return
        if address not in self.list_workers():
            raise LostWorkerError(address, "is gone")
        if waited > seconds and waited > seconds * self.list_processing().get(address, 1):
            raise self._drop(address, f"has not answered for {waited:.0f} s")

    def _drop(self, address: str, why: str) -> LostWorkerError:
        """Ask a worker for nothing any more that is there, and does not do its jobs."""
        with self._lock:
            self._dropped.add(address)
        return LostWorkerError(address, f"{why}: it is not asked any more")

    def _await_scheduler(self) -> None:
        """Wait until the scheduler is there again. Raises FleetError where it does not come back."""
        end = time.monotonic() + _RETURN_SECONDS
        while time.monotonic() < end:
            if self._client.status == "running":
                return
            if self._client.status == "closed":
                break
            time.sleep(0.2)
        raise FleetError(f"the scheduler at {self.address} is gone: start it again, and then the same command goes on")

    def _identify(self) -> dict[str, Any]:
        """What the scheduler says of itself. Dask's own ``scheduler_info`` gives old news where it does not answer."""
        return self._client.sync(self._client.scheduler.identity, n_workers=-1)

    def _ask(self, question: Callable[[], Any]) -> Any:
        """Ask the scheduler, again where it was gone and has come back."""
        for _ in range(3):
            try:
                return question()
            except (OSError, CancelledError, AttributeError, RuntimeError, ValueError):  # as Dask's state may be
                time.sleep(0.2)
                self._await_scheduler()
        raise FleetError(f"the scheduler at {self.address} does not answer: start it again")


def reach_fleet(fleet: str | Fleet) -> Fleet:
    """A fleet by its address alone, or with more. Raises FleetError where its scheduler does not answer, or refuses."""
    found = fleet if isinstance(fleet, Fleet) else Fleet(fleet)
    address = parse_address(found.address)
    check_scheduler(address, make_security(address, found.certificates, "client"), "client")
    return found


class RemotePool:
    """A worker of a fleet as a pool of one process: ``run`` does jobs there as ``workers.Pool.run`` does them here."""

    def __init__(self, client: FleetClient, address: str, limits: Limits | None = None) -> None:
        self.address = address
        self._client, self._limits = client, limits or Limits()

    def with_limits(self, limits: Limits) -> RemotePool:
        """The same worker for jobs with limits."""
        return RemotePool(self._client, self.address, limits)

    def run(self, jobs: Sequence[Job], on_done: Callable[[int], object] = lambda number: None) -> list[Any]:
        """Do all jobs, and return their results in order; ``on_done`` is told how many are done.

        Raises the first error: CompileTimeoutError, InternalError, or FleetError where the worker is not to blame.
        """
        found = []
        for job in jobs:
            request = Request(function_name(job.function), job.what, job.arguments, self._limits)
            found.append(self._client.perform(self.address, request))
            on_done(len(found))
        return found

    def close(self) -> None:
        """End the connection to the fleet, which other pools may have, too."""
        self._client.close()

    def shutdown(self) -> None:
        """End nothing: a worker has ended the process of a job that came to no end."""


def connect_workers(fleet: Fleet, target: Target, threads: int = 1) -> list[RemotePool]:
    """The workers of a fleet's key that can measure for a target, each as a pool; closing one closes all.

    Raises FleetError where there is none, and as ``FleetClient``.
    """
    client, name = FleetClient(fleet), target_key(target)
    try:
        found = client.demand_workers(fleet.key or default_key(name, threads), name, threads)
    except BaseException:
        client.close()
        raise
    return [RemotePool(client, address) for address in found]


def quiet_dask() -> None:
    """Keep Dask's log, which has a traceback for each connection that is lost, off the terminal."""
    for name in ("distributed", "tornado", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
