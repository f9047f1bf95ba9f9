"""The processes of a fleet: the scheduler, and the workers of each machine."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...core.errors import FleetError, first_line
from ...core.scratch import scratch_folder
from ...core.target import Target
from .address import (
    DEFAULT_PORT,
    LOOPBACK,
    is_loopback,
    make_security,
    parse_address,
    require_distributed,
    split_address,
)
from .client import FACTS, quiet_dask
from .jobs import count_threads, describe_worker
from .probe import check_scheduler

_AGAIN_SECONDS = 3.0  # after which a worker looks for its scheduler again

Teller = Callable[[str], object]
_SETTINGS = {
    "distributed.worker.profile.enabled": False,  # it samples stacks all the time
    "distributed.worker.use-file-locking": False,
    "distributed.comm.retry.count": 0,
    "distributed.scheduler.allowed-failures": 0,
}


@dataclass(frozen=True)
class WorkerOptions:
    """How a worker is started.

    scheduler: its address. certificates: the folder. key: of the worker, from its target and threads where there is
    none. threads: how many it measures with, all by default. host, port: where the scheduler reaches it; the port is
    any that is free by default. target: what it runs code for.
    """

    scheduler: str
    certificates: str | Path | None = None
    key: str | None = None
    threads: int | None = None
    host: str | None = None
    port: int = 0
    target: str | Target = "x86"


@dataclass(frozen=True)
class _Place:
    """Where a worker is: its scheduler's address, and its own host and port."""

    scheduler: str
    host: str
    port: int


def run_scheduler(
    host: str = LOOPBACK,
    port: int = DEFAULT_PORT,
    certificates: str | Path | None = None,
    insecure: bool = False,
    tell: Teller = lambda line: None,
) -> None:
    """Be a fleet's scheduler until SIGINT or SIGTERM; ``tell`` gets a line when it is there.

    It is reached from this machine alone, unless ``host`` is another address. ``insecure`` is without certificates,
    which a ``host`` that others reach refuses. Raises FleetError for that, for certificates that are not there, and
    where the port cannot be had.
    """
    if insecure and not is_loopback(host):
        raise FleetError(f"without certificates a scheduler is for this machine alone: not for --host {host}")
    _demand_port(port)
    security = make_security(f"{'tcp' if insecure else 'tls'}://{host}", certificates, "scheduler")
    _run(_schedule(host, port, security, tell))


def run_worker(options: WorkerOptions, tell: Teller = lambda line: None) -> None:
    """Be a worker of a fleet until SIGINT or SIGTERM; ``tell`` gets a line when it is there, or its scheduler is gone.

    A scheduler that goes away is looked for until it is there again. Raises FleetError where it is not there at first,
    or does not take the certificate.
    """
    address = parse_address(options.scheduler)
    host = options.host or (LOOPBACK if is_loopback(split_address(address)[0]) else None)
    if host is None:
        raise FleetError(f"{address} is another machine: say with --host at which address it reaches this one")
    if address.startswith("tcp://") and not is_loopback(host):
        raise FleetError(f"without certificates a worker is for this machine alone: not for --host {host}")
    security = make_security(address, options.certificates, "worker")
    facts = describe_worker(options.key, Target.parse(options.target), count_threads(options.threads))
    _demand_port(options.port)
    _run(_work(_Place(address, host, options.port), security, asdict(facts), tell))


def _demand_port(port: int) -> None:
    """Raise FleetError for a number that is no port."""
    if not 0 <= port < 1 << 16:
        raise FleetError(f"the port is {port}: give a number from 0, for any that is free, to 65535")


async def _schedule(host: str, port: int, security: Any, tell: Teller) -> None:
    from distributed import Scheduler

    class QuietScheduler(Scheduler):
        """A scheduler without pages for browsers, which ask nobody for a certificate."""

        def start_http_server(self, *args: Any, **kwargs: Any) -> None:
            pass

    protocol = "tls://" if security else "tcp://"
    scheduler = QuietScheduler(host=host, port=port, security=security, protocol=protocol, dashboard=False)
    try:
        await scheduler
    except (OSError, RuntimeError, ValueError) as error:
        raise FleetError(f"cannot be a scheduler at {host}:{port}: {_find_reason(error)}") from error
    async with _closing(scheduler), _until_signal() as ended:
        tell(f"scheduler at {scheduler.address}")
        await ended


async def _work(place: _Place, security: Any, facts: dict[str, Any], tell: Teller) -> None:
    """Serve until a signal ends it. Raises FleetError where the worker cannot begin at first; later a line says why."""
    begun, told = False, ""
    with scratch_folder() as folder:
        async with _until_signal() as ended:
            while not ended.done():
                try:
                    worker = await _begin_worker(place, security, facts, folder)
                except FleetError as error:
                    if not begun:
                        raise
                    if (line := str(error)) != told:
                        tell(told := line)
                else:
                    begun, told = True, ""
                    async with _closing(worker):
                        tell(f"worker of key '{facts['key']}' at {worker.address}")
                        gone = asyncio.ensure_future(worker.finished())
                        await asyncio.wait([ended, gone], return_when="FIRST_COMPLETED")
                    if not ended.done():
                        tell(f"the scheduler at {place.scheduler} is gone: looking for it again")
                await asyncio.wait([ended], timeout=_AGAIN_SECONDS)


async def _begin_worker(place: _Place, security: Any, facts: dict[str, Any], folder: str) -> Any:
    """A worker that its scheduler knows. Raises FleetError where there is none, or does not take it."""
    from distributed import Worker

    class QuietWorker(Worker):
        """A worker without pages for browsers, which ask nobody for a certificate."""

        def start_http_server(self, *args: Any, **kwargs: Any) -> None:
            pass

    await asyncio.to_thread(check_scheduler, place.scheduler, security, "worker")
    worker = QuietWorker(
        place.scheduler,
        host=place.host,
        port=place.port,
        security=security,
        protocol=f"{place.scheduler.partition('://')[0]}://",
        nthreads=1,
        resources={facts["key"]: 1},
        startup_information={FACTS: lambda _: facts},
        memory_limit=0,
        local_directory=folder,
        dashboard=False,
        name=facts["process"],
    )
    try:
        await worker
    except (OSError, RuntimeError, ValueError) as error:
        with contextlib.suppress(Exception):
            await worker.close(timeout=1)
        where = f"{place.host}:{place.port}" if place.port else place.host
        raise FleetError(f"cannot be a worker at {where}: {_find_reason(error)}") from error
    return worker


def _find_reason(error: BaseException) -> str:
    """What was wrong when a process of Dask could not start."""
    cause = error.__cause__ or error
    return getattr(cause, "strerror", None) or first_line(cause)


@asynccontextmanager
async def _closing(server: Any) -> AsyncIterator[None]:
    try:
        yield
    finally:
        with contextlib.suppress(Exception):
            await asyncio.wait_for(server.close(), 5)


@asynccontextmanager
async def _until_signal() -> AsyncIterator[asyncio.Future[None]]:
    """A future that is done when the process is told to end."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def end() -> None:
        if not ended.done():
            ended.set_result(None)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end)
    try:
        yield ended
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def _run(work: Any) -> None:
    require_distributed()
    from dask import config

    quiet_dask()
    sys.stdout.flush()
    with config.set(_SETTINGS):
        asyncio.run(work)
