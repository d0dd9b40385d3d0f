"""What is kept in memory, in files and on lines: at each limit, below it and beyond it (R34)."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from tests.limits.test_runs import Nothing, waits
from tests.limits.test_server import ann
from websockets.asyncio.client import ClientConnection, connect

from standfast import Misuse, Runtime, arguments, hub, rates
from standfast.errors import StandfastError
from standfast.events import PersonActed, TextDelta
from standfast.evidence import anchors
from standfast.evidence.anchors import Anchoring
from standfast.hub import Hub
from standfast.operator import client
from standfast.person_steps import KEPT_RESULT, _for_the_agent
from standfast.rates import Rate
from standfast.redaction import LONGEST_HELD, Redactor, Stream
from standfast.rights import new_secret
from standfast.server import attempts, control_app, lines, reading
from standfast.server import socket as page_socket
from standfast.server.attempts import Attempts
from standfast.server.feeds import MOST_DELTAS, Tail, Watch
from standfast.server.lines import Speaker
from standfast.server.reach import Client, Visitor
from standfast.server.reading import Filter, Reader
from standfast.stores import sqlite_processes
from standfast.tokens import LONGEST_NAME, make_token

LONG = 30.0


def _delta(n: int) -> TextDelta:
    return TextDelta("c", n, f"{n}", "text")


def test_a_flood_of_names_fills_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "MOST_KNOWN", 3)
    rate = Rate(0.0, 1)
    assert [rate.allows(name) for name in ("a", "b", "c", "a")] == [True, True, True, False]
    assert rate.allows("d"), "the fourth name"
    assert rate.allows("a"), "and everybody begins anew"


async def test_attempts_of_too_many_actors_are_counted_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "MOST_ACTORS", 2)
    monkeypatch.setattr(attempts, "AT_ONCE", 0)
    async with Runtime(tmp_path / "runs.db", [waits], drive=False) as runs:
        await runs.start(waits, Nothing())
        some = Attempts(runs)
        for name in ("a", "b", "c", "d"):
            some.refused(name, "r" * 400, "w" * 400, "i" * 400, "y" * 400)
        await some.close()
        house = runs.read(lambda tx: tx.house())
        told: list[Any] = [event for event in house if event.type == "attempt_refused"]
        assert [(event.by, event.left_out) for event in told] == [("a", 0), ("b", 0), ("d", 1)]
        assert {len(text) for e in told for text in (e.route, e.what, e.run, e.why)} == {attempts.LONGEST}


@pytest.mark.parametrize("length", [arguments.MOST_IN_A_RUN_ID, arguments.MOST_IN_A_RUN_ID + 1])
async def test_the_id_of_a_run_is_so_long_and_no_longer(tmp_path: Path, length: int) -> None:
    async with Runtime(tmp_path / "runs.db", [waits], drive=False) as runs:
        if length <= arguments.MOST_IN_A_RUN_ID:
            assert (await runs.start(waits, Nothing(), id="x" * length)).id == "x" * length
        else:
            with pytest.raises(Misuse, match="too long"):
                await runs.start(waits, Nothing(), id="x" * length)


async def test_the_name_of_a_token_is_so_long_and_no_longer(tmp_path: Path) -> None:
    async with Runtime(tmp_path / "runs.db", drive=False) as runs:
        await runs.control(lambda tx: make_token(tx, "t", new_secret(), ("view",), name="x" * LONGEST_NAME))
        with pytest.raises(Misuse, match="80 at most"):
            await runs.control(lambda tx: make_token(tx, "u", new_secret(), ("view",), name="x" * (LONGEST_NAME + 1)))


def test_live_text_that_nobody_reads_is_dropped_at_its_beginning() -> None:
    client = Client(Visitor("ann", "page"), "r", 0, time.time)
    watch = Watch(Tail("r", 1, 0, ended=False), client, 0, lambda: None)
    for n in range(MOST_DELTAS):
        watch.live.waiting.append(_delta(n))
    assert (len(watch.live.waiting), watch.live.waiting[0].offset) == (MOST_DELTAS, 0)
    for n in range(2):
        watch.live.waiting.append(_delta(MOST_DELTAS + n))
    assert (len(watch.live.waiting), watch.live.waiting[0].offset) == (MOST_DELTAS, 2)


async def test_live_text_for_a_program_that_does_not_read_is_dropped_at_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hub, "LIVE_BACKLOG", 3)
    one = Hub()
    with one.waiting("r", steps=True) as waiter:
        for n in range(5):
            one.delta("r", _delta(n))
        assert [delta.offset for delta in waiter.deltas] == [0, 1, 2]


def test_a_worker_that_is_not_heard_keeps_so_much_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LONGEST_LINE", 10_000)
    mine, theirs = socket.socketpair()
    with mine:
        speaker = Speaker(os.dup(theirs.fileno()), alive=lambda: None, gone=lambda: None)
        theirs.close()
        speaker.start()
        for n in range(lines.MOST_WAITING + 10):
            speaker.delta("r", _delta(n))
        assert len(speaker._deltas) <= lines.MOST_WAITING
        told = threading.Event()
        for n in range(200):
            speaker.delta("r", TextDelta("c", n, "x" * 5_000, "text"))
            told.wait(0.01)
        assert len(speaker._pending) < 10_000 + 2_000_000, "what was begun is finished, the rest is left out"
        speaker.close()


async def test_views_that_are_kept_are_so_many_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "KEPT_VIEWS", 2)
    async with Runtime(tmp_path / "runs.db", [waits]) as runs:
        for n in range(3):
            await (await runs.start(waits, Nothing(), id=f"{n}")).result()
        reader = Reader(runs)
        assert len(await reader.found(Filter())) == 3
        assert len(reader._ended) <= 2
        reader.close()


async def test_a_search_looks_through_so_many_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_SEARCHED", 2)
    monkeypatch.setattr(reading, "PAGE", 1)
    async with Runtime(tmp_path / "runs.db", [waits], drive=False) as runs:
        for n in range(3):
            await runs.start(waits, Nothing(), id=f"run-{n}")
        reader = Reader(runs)
        assert [view.id for view in await reader.found(Filter(text="run-"))] == ["run-2", "run-1"]
        assert await reader.found(Filter(text="run-0")) == []
        reader.close()


def test_an_answer_without_end_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "LONGEST_ANSWER", 1_000)
    path = tmp_path / "s"
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(str(path))
    listening.listen()

    def talk() -> None:
        asked, _ = listening.accept()
        with asked:
            try:
                while True:
                    asked.sendall(b"x" * 1_000)
            except OSError:
                return

    talking = threading.Thread(target=talk)
    talking.start()
    with pytest.raises(StandfastError, match="no operator answers"):
        client.ask_socket(path, {"do": "list"})
    talking.join(LONG)
    listening.close()


def test_an_anchor_that_does_not_answer_keeps_so_many_waiting() -> None:
    class Stuck:
        name = "stuck"

        def put(self, line: str) -> None:
            raise OSError(line)

    one = Anchoring(Stuck())
    for n in range(anchors.BACKLOG + 5):
        one.tell(n, 0.0, "00")
    assert isinstance(one._waiting, deque)
    assert (len(one._waiting), one._waiting[-1][0]) == (anchors.BACKLOG, anchors.BACKLOG + 4)


async def test_signals_are_so_many_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_processes, "_SIGNALS_KEPT", 10)
    async with Runtime(tmp_path / "runs.db", drive=False) as runs:

        def many(tx: Any) -> int:
            for _ in range(1_000):
                tx.signal("r")
            return len(tx.signals(0))

        assert await runs.control(many) in (10, 11)


def test_what_may_be_a_secret_is_held_for_so_long_and_no_longer() -> None:
    begun = "sk-" + "a" * (LONGEST_HELD - 3)
    stream = Stream(Redactor())
    assert stream.feed(begun) == "", "it may go on"
    assert stream.feed("a").startswith("[redacted:api_key:")


def test_a_long_result_of_a_person_is_told_by_its_size() -> None:
    def told(length: int) -> Any:
        acted = PersonActed(
            tool="t", args={}, by="ann", call="c", order="o", step=1, result="x" * length, error="", message=""
        )
        return _for_the_agent(acted)

    assert told(KEPT_RESULT - 2)["result"] == "x" * (KEPT_RESULT - 2)
    assert told(KEPT_RESULT - 1)["result_bytes"] == KEPT_RESULT + 1


@asynccontextmanager
async def page(folder: Path) -> AsyncIterator[tuple[Runtime, ClientConnection]]:
    """A page's socket on a server in this process."""
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    async with Runtime(folder / "runs.db", [waits], drive=False) as runs:
        app = control_app(runs, who=ann)
        config = uvicorn.Config(app, lifespan="off", log_config=None, ws="websockets-sansio")
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server._serve([bound]))
        try:
            while not server.started:
                await asyncio.sleep(0.01)
            async with asyncio.timeout(LONG), connect(f"ws://127.0.0.1:{bound.getsockname()[1]}/ws") as socket_:
                yield runs, socket_
        finally:
            await app.state.surface.close()
            server.should_exit = True
            await serving
            bound.close()


async def _told(one: ClientConnection, *ops: str) -> Any:
    while True:
        said = json.loads(await one.recv())
        if said["op"] in ops:
            return said


async def test_a_socket_watches_so_many_runs_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_socket, "MOST_WATCHED", 2)
    async with page(tmp_path) as (runs, one):
        for n in range(3):
            await runs.start(waits, Nothing(), id=f"{n}")
        for n in range(2):
            await one.send(json.dumps({"op": "watch", "run": f"{n}"}))
            assert (await _told(one, "view", "gone"))["run"] == f"{n}"
        await one.send(json.dumps({"op": "watch", "run": "2"}))
        assert "at most 2" in (await _told(one, "gone"))["why"]
        await one.send(json.dumps({"op": "unwatch", "run": "0"}))
        await one.send(json.dumps({"op": "watch", "run": "2"}))
        while (await _told(one, "view"))["run"] != "2":
            pass


async def test_a_socket_has_so_many_verbs_at_work_and_stops_are_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_socket, "MOST_AT_WORK", 0)
    async with page(tmp_path) as (runs, one):
        await runs.start(waits, Nothing(), id="r")
        for verb, passes in (("message", False), ("resume", False), ("pause", True), ("cancel", True)):
            await one.send(json.dumps({"op": "verb", "n": 1, "run": "r", "verb": verb, "args": {}}))
            told = await _told(one, "answer")
            assert ("answer" in told) == passes, told
            assert passes or told["problem"]["status"] == 429


async def test_a_fault_in_a_verb_is_told_over_the_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As over HTTP: whoever asked does not wait for ever."""
    async with page(tmp_path) as (runs, one):
        await runs.start(waits, Nothing(), id="r")

        async def broken(*_: Any, **__: Any) -> Any:
            raise ZeroDivisionError

        monkeypatch.setattr(page_socket.Page, "_carried_out", broken)
        await one.send(json.dumps({"op": "verb", "n": 7, "run": "r", "verb": "pause"}))
        told = await _told(one, "answer")
        assert (told["n"], told["problem"]["status"]) == (7, 500)
        await one.send(json.dumps({"op": "ping", "n": 8}))
        assert (await _told(one, "pong"))["n"] == 8
