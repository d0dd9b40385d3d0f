"""The operator's socket and port take one line from anybody: it is answered or refused, and halts go on (R13, R34)."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from tests.fuzz import hostile
from tests.fuzz.profile import SOAK, tried
from tests.halt.operating import ALL, LONG, Operator, asked, operator

from standfast.operator.client import ask_port
from standfast.operator.listening import LONGEST_LINE
from standfast.stores.sqlite import SqliteStore

EXAMPLES = 120
TOKEN = "a-token-of-the-operator-0123456789"
SENSE: list[dict[str, Any]] = [ALL, {"do": "lift", "id": "h"}, {"do": "list", "lifted": True}]
FIELDS = ["do", "id", "agent", "labels", "all", "then", "reason", "by", "lifted", "token", "x"]


def requests() -> st.SearchStrategy[Any]:
    changes = st.dictionaries(st.sampled_from(FIELDS), hostile.values, max_size=2)
    built = st.tuples(st.sampled_from(SENSE), changes).map(lambda two: {**two[0], **two[1]})
    return hostile.mostly(built, hostile.values)


def spoken(address: Any, line: bytes) -> bytes:
    """What comes back for a line."""
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as to:
        to.settimeout(LONG)
        to.connect(address)
        try:
            to.sendall(line)
            to.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it has heard enough; what it said is read
        said = bytearray()
        try:
            while more := to.recv(65536):
                said += more
        except ConnectionError:
            pass  # what was not read is thrown away with the connection
        return bytes(said)


@pytest.mark.soak
@pytest.mark.timeout(0 if SOAK else 600)
def test_whatever_is_said_to_an_operator_is_answered(tmp_path: Path) -> None:
    with operator(tmp_path / "runs.db", "--halt-port", "0", token=TOKEN) as one:
        port = _port(one)
        told: list[Any] = []

        @tried(
            EXAMPLES,
            "operator",
            request=requests(),
            broken=hostile.bodies,
            end=st.sampled_from([b"\n", b"\n", b"\n", b"", b"\r\n\x00", b"\n\n\n"]),
            by_port=st.booleans(),
        )
        def say(request: Any, broken: Any, end: bytes, by_port: bool) -> None:
            if by_port and isinstance(request, dict) and "token" not in request:
                request = {**request, "token": TOKEN}
            line = broken(hostile.written(request)) + end
            said = spoken(("127.0.0.1", port) if by_port else str(one.path), line)
            if not said.strip() and len(line) > LONGEST_LINE:
                return  # the rest of it was still coming when the connection was closed
            answer = json.loads(said)
            told.append(answer)
            assert TOKEN.encode() not in said
            assert answer["ok"] or (answer["detail"] and answer["error"] in {"Misuse", "UnknownHalt"}), (line, answer)

        say()
        assert {answer["ok"] for answer in told} == {True, False}, "both were tried"
        for halt in asked(one.path, {"do": "list"})["halts"]:
            asked(one.path, {"do": "lift", "id": halt["id"]})
        halted = asked(one.path, {**ALL, "id": "the last"})["halt"]
        assert halted["lifted_at"] is None, "after all that a halt still halts"
        assert ask_port(port, TOKEN, {"do": "list"})["halts"]
    store = SqliteStore(tmp_path / "runs.db", looks_only=True)
    assert store.read(lambda tx: tx.verify_house()) == ""
    store.close()


def _port(one: Operator) -> int:
    found = re.search(r"operator port: (\d+)", "\n".join(one.said))
    assert found
    return int(found[1])


def test_strangers_at_the_port_keep_nobody_from_the_socket(tmp_path: Path) -> None:
    """R13, R34: any account of the machine can open connections to a port, and nobody else the socket."""
    with operator(tmp_path / "runs.db", "--halt-port", "0", token=TOKEN) as one:
        strangers = [socket.create_connection(("127.0.0.1", _port(one)), LONG) for _ in range(40)]
        try:
            for stranger in strangers:
                assert stranger.recv(1) == b" ", "it is connected, and says nothing"
            assert asked(one.path, ALL)["halt"]["reason"] == "leaking"
        finally:
            for stranger in strangers:
                stranger.close()
