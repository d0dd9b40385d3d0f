"""The operator's process does nothing but halt, lift and list, for its own user, within strict limits (R13, R34)."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import stat
import threading
from pathlib import Path

import pytest
from tests.drivers.test_few_descriptors import Flood
from tests.halt.operating import ALL, LONG, Operator, asked, eventually, operator, raw, typed, typed_json

from standfast.house_events import AttemptRefused
from standfast.operator import listening
from standfast.operator.client import NoOperator, ask_port, ask_socket
from standfast.operator.refusals import AT_ONCE
from standfast.rates import GUESSES
from standfast.stores.sqlite import SqliteStore


def test_the_socket_is_its_owners_alone_and_goes_with_the_process(tmp_path: Path) -> None:
    """R13: mode 0600."""
    with operator(tmp_path / "runs.db") as one:
        mode = one.path.stat().st_mode
        assert stat.S_ISSOCK(mode) and stat.S_IMODE(mode) == 0o600
        assert not (tmp_path / "runs.db").exists(), "nothing is written before a verb"
    assert [*tmp_path.iterdir()] == []


def test_halts_are_set_listed_and_lifted_over_the_socket(tmp_path: Path) -> None:
    with operator(tmp_path / "runs.db") as one:
        halted = asked(one.path, ALL)["halt"]
        assert (halted["reason"], halted["by"], halted["all"], halted["runs"]) == ("leaking", "op", True, 0)
        assert [h["id"] for h in asked(one.path, {"do": "list"})["halts"]] == [halted["id"]]
        again = asked(one.path, {**ALL, "id": halted["id"]})["halt"]
        assert again["note"] == "it was set already"
        lifted = asked(one.path, {"do": "lift", "id": halted["id"], "reason": "over"})["halt"]
        assert lifted["lifted_at"] is not None
        assert asked(one.path, {"do": "list"})["halts"] == []
        assert len(asked(one.path, {"do": "list", "lifted": True})["halts"]) == 1
        house = SqliteStore(one.store, looks_only=True)
        routes = [event.route for event in house.read(lambda tx: tx.house())]
        house.close()
        assert all(f"process {os.getpid()} of user {os.getuid()}" in route for route in routes)


GARBAGE = [
    b"\n",
    b"hello\n",
    b"[]\n",
    b"null\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b'{"do": "cancel"}\n',
    b'{"do": "halt"}\n',
    b'{"do": "halt", "all": true}\n',
    b'{"do": "halt", "all": "yes", "reason": "x"}\n',
    b'{"do": "halt", "reason": "x"}\n',
    b'{"do": "halt", "all": true, "reason": "x", "more": 1}\n',
    b'{"do": "lift", "id": "nothing"}\n',
    b'{"do": "list", "lifted": 3}\n',
    b"\xff\xfe\n",
    b"x" * (listening.LONGEST_LINE * 3) + b"\n",
    b'{"do": "list"' + b" " * 100_000 + b"}\n",
    json.dumps({**ALL, "labels": {str(n): "x" for n in range(60)}, "all": False}).encode() + b"\n",
]


def test_garbage_gets_an_answer_and_changes_nothing(tmp_path: Path) -> None:
    """R34: and the next who asks is served."""
    with operator(tmp_path / "runs.db") as one:
        for what in GARBAGE:
            try:
                answer = json.loads(raw(one.path, what))
            except (BrokenPipeError, ConnectionResetError):
                continue  # so long that it was refused before all of it was sent
            assert answer["ok"] is False and answer["detail"] and "Traceback" not in answer["detail"], what
        assert asked(one.path, {"do": "list"}) == {"ok": True, "pid": one.process.pid, "halts": []}


def test_who_says_nothing_or_half_a_line_is_not_waited_for(tmp_path: Path) -> None:
    with operator(tmp_path / "runs.db") as one:
        answer = json.loads(raw(one.path, b'{"do": "li'))
        assert answer["ok"] is False and "in time" in answer["detail"]


def test_many_connections_are_turned_away_and_others_are_served_afterwards(tmp_path: Path) -> None:
    """R34: idle ones are closed after a while."""
    with operator(tmp_path / "runs.db") as one:
        idle = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(listening.MOST_CONNECTIONS + 5)]
        for each in idle:
            each.settimeout(LONG)
            each.connect(str(one.path))
        turned_away = [_all_of(each) for each in idle[listening.MOST_CONNECTIONS :]]
        assert all(b"too many connections" in answer for answer in turned_away)
        with pytest.raises(NoOperator):
            ask_socket(one.path, {"do": "list"})
        eventually(lambda: _answers(one.path))
        for each in idle:
            each.close()


def _all_of(to: socket.socket) -> bytes:
    got = b""
    while more := to.recv(1000):
        got += more
    return got


def _answers(path: Path) -> bool:
    try:
        return ask_socket(path, {"do": "list"})["ok"] is True
    except NoOperator:
        return False


def test_a_port_needs_the_operators_own_token(tmp_path: Path) -> None:
    """R13: of this machine only."""
    token = "0123456789abcdef-own"
    store = tmp_path / "runs.db"
    with operator(store, "--halt-port", "0", token=token) as one:
        port = int(next(line for line in one.said if line.startswith("operator port")).rpartition(" ")[2])
        for wrong in ("", "0123456789abcdef-other"):
            answer = ask_port(port, wrong, ALL)
            assert answer["ok"] is False and "token" in str(answer["detail"])
        assert ask_port(port, token, {"do": "list"})["halts"] == []
        said = typed("halt", "--all", "--reason", "x", "--halt-port", str(port), env={"STANDFAST_HALT_TOKEN": token})
        assert f"by port {port}" in said
        assert not any(token in line for line in one.said), "a token that was given is not said again"


def test_wrong_tokens_at_the_port_are_slowed_down_and_a_right_one_is_let_in_at_once(tmp_path: Path) -> None:
    """R34: as at the server's door."""
    token = "0123456789abcdef-own"
    with operator(tmp_path / "runs.db", "--halt-port", "0", token=token) as one:
        port = port_of(one)
        told = [str(ask_port(port, f"0123456789abcdef-{n}", ALL)["detail"]) for n in range(GUESSES * 2)]
        assert told[: GUESSES // 2] == ["the token is not the operator's"] * (GUESSES // 2)
        assert "too many wrong tokens came to this port" in told
        assert ask_port(port, token, {"do": "list"})["halts"] == []


def port_of(one: Operator) -> int:
    return int(next(line for line in one.said if line.startswith("operator port")).rpartition(" ")[2])


def test_a_flood_that_uses_up_the_operators_descriptors_does_not_keep_out_a_halt(tmp_path: Path) -> None:
    """R34: strangers at the port ask nothing, and are opened again as soon as they are closed."""
    store = tmp_path / "runs.db"
    one = Operator(store, "--halt-port", "0", token="0123456789abcdef-own")
    try:
        assert ask_socket(one.path, {"do": "list"})["ok"] is True
        pid = one.process.pid
        used = len([*Path(f"/proc/{pid}/fd").iterdir()])
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (used + 8, used + 8))
        with Flood(("127.0.0.1", port_of(one)), 100):
            eventually(lambda: len([*Path(f"/proc/{pid}/fd").iterdir()]) >= used)
            for n in range(20):
                eventually(lambda: halted(one.path, f"halt {n}"))  # noqa: B023 - called at once
    finally:
        complaints = one.close()
    assert 1 <= complaints.count("accept") <= 3, complaints


def halted(path: Path, why: str) -> bool:
    try:
        return ask_socket(path, {**ALL, "reason": why})["ok"] is True
    except NoOperator:
        return False


def test_whoever_is_turned_away_at_the_port_is_in_the_record_and_a_flood_leaves_a_count(tmp_path: Path) -> None:
    """R31, R34."""
    store = tmp_path / "runs.db"
    made = SqliteStore(store)
    made.create()
    many = AT_ONCE + 30
    with operator(store, "--halt-port", "0", token="0123456789abcdef-own") as one:
        port = int(next(line for line in one.said if line.startswith("operator port")).rpartition(" ")[2])
        for n in range(many):
            assert ask_port(port, f"guess-{n}", ALL)["ok"] is False
    found = made.read(lambda tx: tx.house())  # what was left out is told at the latest when the operator goes
    made.close()
    assert {(type(event), event.by, event.route) for event in found} == {(AttemptRefused, None, "operator's port")}
    refused = [event for event in found if isinstance(event, AttemptRefused)]
    assert AT_ONCE <= len(refused) < many
    assert len(refused) + sum(event.left_out for event in refused) == many
    assert all(event.what == "halt" for event in refused)


def test_a_second_operator_takes_the_place_of_the_first_without_a_gap(tmp_path: Path) -> None:
    """R34: no moment at which nobody listens; the first leaves by itself."""
    store = tmp_path / "runs.db"
    missed: list[str] = []
    with operator(store) as first:
        stop = threading.Event()

        def ask_all_the_time() -> None:
            while not stop.is_set():
                try:
                    ask_socket(first.path, {"do": "list"})
                except NoOperator as error:
                    missed.append(error.message)

        asking = threading.Thread(target=ask_all_the_time)
        asking.start()
        with operator(store) as second:
            assert first.process.wait(LONG) == 0
            assert asked(second.path, {"do": "list"})["pid"] == second.process.pid
            stop.set()
            asking.join()
            assert second.path.exists()
    # One that had been accepted by the first in its last moment may have been closed without an answer.
    assert len(missed) <= 1, missed


def test_a_socket_that_was_removed_is_made_again(tmp_path: Path) -> None:
    with operator(tmp_path / "runs.db") as one:
        one.path.unlink()
        eventually(one.path.exists)
        assert asked(one.path, {"do": "list"})["ok"]


@pytest.mark.parametrize("how", ["killed", "frozen", "stale", "other"])
def test_without_an_operator_that_answers_the_halt_goes_straight_on_the_store(tmp_path: Path, how: str) -> None:
    """R34: and says so; one halt is set, whichever way was tried first."""
    store = tmp_path / "runs.db"
    SqliteStore(store).create()
    one = Operator(store)
    listening_: socket.socket | None = None
    try:
        if how == "frozen":
            one.signal(signal.SIGSTOP)
        else:
            one.signal(signal.SIGKILL)
            one.process.wait(LONG)
        if how == "stale":
            assert one.path.exists()
        if how == "other":
            one.path.unlink()
            listening_ = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            listening_.bind(str(one.path))
            listening_.listen()
            threading.Thread(target=_say_nonsense, args=(listening_,)).start()
        said = typed_json("halt", "--all", "--reason", "leaking", "--store", str(store))
        assert said["way"].startswith("straight on the store")
        if how == "frozen":
            one.signal(signal.SIGCONT)  # it reads what it was asked only now
            eventually(lambda: asked(one.path, {"do": "list"})["ok"])
        found = typed_json("halts", "--lifted", "--store", str(store))["halts"]
        assert [h["id"] for h in found] == [said["id"]]
        assert "(0 held by it)" in typed("lift", said["id"], "--store", str(store))
    finally:
        if listening_ is not None:
            listening_.close()
        one.close()


def _say_nonsense(listening_: socket.socket) -> None:
    client, _ = listening_.accept()
    client.sendall(b"220 mail.example.org\n")
    client.close()


def test_the_commands_say_what_is_wrong(tmp_path: Path) -> None:
    store = str(tmp_path / "runs.db")
    assert "there is no store" in typed("halt", "--all", "--reason", "x", "--store", store, code=6)
    assert not Path(store).exists()
    SqliteStore(store).create()
    assert "--agent, --label, or --all" in typed("halt", "--reason", "x", "--store", store, code=2)
    assert "there is no halt 'x'" in typed("lift", "x", "--store", store, code=1)
    assert typed_json("lift", "x", "--store", store, code=1)["error"] == "UnknownHalt"
    typed("halt", "--all", "--store", store, code=2)
    assert "no halt holds" in typed("halts", "--store", store)
    said = typed("halt", "--label", "team=a", "--label", "env=p", "--agent", "w", "--reason", "why", "--store", store)
    assert "agent w with team=a with env=p" in said and "straight on the store" in said
    listed = typed("halts", "--store", store)
    assert "why" in listed and "holds 0 runs" in listed and "  signed" in listed
