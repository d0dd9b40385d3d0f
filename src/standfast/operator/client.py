"""How an operator is asked: one line of JSON there, one back; whoever does not answer in time is not waited for."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

from pydantic_core import from_json, to_json

from standfast.errors import StandfastError
from standfast.json_values import is_object
from standfast.records import Json

ANSWER_SECONDS = 20.0
ALIVE_SECONDS = 3.0  # whoever has not said a word by then is frozen
LONGEST_ANSWER = 20_000_000


class NoOperator(StandfastError):  # noqa: N818 - errors are named by the fact they state
    """Nobody answers there; whether anything was done is not known until somebody looks."""


def socket_of(store: Path) -> Path:
    """The socket of a store's operator."""
    return store.with_name(store.name + ".halt")


def ask_socket(path: Path, request: Json, *, seconds: float = ANSWER_SECONDS) -> Json:
    """The answer that comes by the socket, or NoOperator."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as to:
        return _ask(to, str(path), request, seconds, str(path))


def ask_port(port: int, token: str, request: Json, *, seconds: float = ANSWER_SECONDS) -> Json:
    """The answer that comes by the port of this machine, or NoOperator."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as to:
        return _ask(to, ("127.0.0.1", port), {**request, "token": token}, seconds, f"port {port}")


def _ask(to: socket.socket, address: Any, request: Json, seconds: float, where: str) -> Json:
    try:
        to.settimeout(ALIVE_SECONDS)
        to.connect(address)
        to.sendall(to_json(request) + b"\n")
        alive = to.recv(1)
        to.settimeout(seconds)
        line = _line(to, alive)
    except (OSError, ValueError) as error:  # ValueError: a path that is too long for a socket
        raise NoOperator(f"no operator answers at {where}: {str(error) or type(error).__name__}") from error
    try:
        answer: Any = from_json(line)
    except ValueError as error:
        raise NoOperator(f"what answers at {where} is no operator of standfast") from error
    if not is_object(answer) or not isinstance(answer.get("ok"), bool):
        raise NoOperator(f"what answers at {where} is no operator of standfast")
    if answer.get("error") == NoOperator.__name__:
        raise NoOperator(f"{where}: {answer.get('detail')}")
    return answer


def _line(to: socket.socket, begun: bytes) -> bytes:
    got = bytearray(begun)
    while not got.endswith(b"\n"):
        more = to.recv(65536)
        if not more:
            raise OSError("the connection was closed before the answer was complete")
        got += more
        if len(got) > LONGEST_ANSWER:
            raise OSError(f"its answer is longer than {LONGEST_ANSWER} bytes")
    return bytes(got)
