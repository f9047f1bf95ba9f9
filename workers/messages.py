"""Messages between a worker and its owner during a job: questions, and the answers to both."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from ..core.errors import TilewrightError

_QUESTION = b"?"  # what a question begins with, and no pickle does


@dataclass(frozen=True)
class Reply:
    """The result of a job: its value, or the error with its traceback and the number of its step."""

    value: Any = None
    error: TilewrightError | None = None
    trace: str = ""
    number: int = 0


@dataclass(frozen=True)
class Question:
    """A call that a job asks of the process that gave it; pickled as a job is, and answered by a ``Reply``."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]


def receive_reply(connection: Connection) -> bytes | None:
    """Receive a worker's reply; None for a question, which is answered. Raises EOFError or OSError if it is dead."""
    message = connection.recv_bytes()
    if not message.startswith(_QUESTION):
        return message
    connection.send_bytes(_reply_to(pickle.loads(message[len(_QUESTION) :])))
    return None


def _reply_to(asked: Question) -> bytes:
    """The answer to a question, as it is sent."""
    try:
        reply = Reply(asked.function(*asked.arguments))
    except TilewrightError as error:
        reply = Reply(error=error.with_traceback(None))
    return pickle.dumps(reply)


def ask_owner(connection: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Ask the owner, and wait for the answer."""
    connection.send_bytes(_QUESTION + pickle.dumps(Question(function, arguments)))
    reply: Reply = pickle.loads(connection.recv_bytes())
    if reply.error is not None:
        raise reply.error
    return reply.value
