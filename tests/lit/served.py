"""The commands of RUN lines, in copies of one process that has imported them: to start each takes half a second.

``served.py SOCKET COMMAND…`` asks the server for a command. It gives it its own standard streams and folder, and ends
with its exit code. It imports little, and nothing of ours.
"""

from __future__ import annotations

import os
import socket
import sys
import traceback
from collections.abc import Mapping, Sequence
from typing import NoReturn

_CRASHED = 134  # what a shell says of a process that has aborted


def ask(path: str, command: Sequence[str]) -> int:
    """Have the server behind a socket run a command; returns its exit code."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        socket.send_fds(connection, [b"\n"], [0, 1, 2])
        connection.sendall("\0".join((os.getcwd(), *command)).encode())
        connection.shutdown(socket.SHUT_WR)
        answer = connection.recv(1)
    return answer[0] if answer else _CRASHED


def start_server(environment: Mapping[str, str]) -> str:
    """Start a server, which ends with this process; returns what RUN lines put before a command."""
    import atexit
    import shlex
    import shutil
    import subprocess
    import tempfile

    folder = tempfile.mkdtemp(prefix="tilewright-lit-")
    atexit.register(shutil.rmtree, folder)
    path = os.path.join(folder, "socket")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(64)  # clients wait until the server has imported all
        code = f"import served; served.serve({listener.fileno()}, 0)"
        server = subprocess.Popen(
            [sys.executable, "-c", code],
            cwd=os.path.dirname(__file__),
            env=environment,
            stdin=subprocess.PIPE,
            pass_fds=[listener.fileno()],
        )
    atexit.register(server.communicate)
    return shlex.join([sys.executable, "-ISs", __file__, path])


def serve(listener: int, alive: int) -> None:
    """Run the commands that come through a socket, each in a copy of this process, until the file ``alive`` ends."""
    import gc
    import select
    import signal

    import filecheck.main  # noqa: F401

    import tilewright.passes.by_command
    import tilewright.tools.cli
    import tilewright.tools.opt  # noqa: F401

    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # it has nothing to say
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the copies
    with socket.socket(fileno=listener) as waiting:
        while alive not in select.select([waiting, alive], [], [])[0]:
            connection, _ = waiting.accept()
            if not os.fork():
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                _live(connection)
            connection.close()


def _live(connection: socket.socket) -> NoReturn:
    """The copy's whole life."""
    code = 1
    try:
        _, streams, _, _ = socket.recv_fds(connection, 1, 3)
        with connection.makefile("rb") as file:
            folder, *command = file.read().decode().split("\0")
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        # What Python has of these streams knows whether they were files.
        sys.stdin, sys.stdout, sys.stderr = (os.fdopen(n, mode, closefd=False) for n, mode in enumerate("rww"))
        os.chdir(folder)
        code = _run(command)
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        connection.send(bytes([code]))
        os._exit(code)


def _run(command: Sequence[str]) -> int:
    import filecheck.main

    import tilewright.tools.cli

    name, *words = command
    sys.argv = [*command]
    try:
        if name == "tilewright":
            return tilewright.tools.cli.main(words)
        filecheck.main.main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


if __name__ == "__main__":
    raise SystemExit(ask(sys.argv[1], sys.argv[2:]))
