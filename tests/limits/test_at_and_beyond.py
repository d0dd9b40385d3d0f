"""What passes at each limit, what does not one beyond it, and what becomes of the run there (R34)."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.halt.operating import ALL, operator, typed_json
from tests.helpers import held
from tests.limits.test_memory import page
from tests.limits.test_runs import Nothing, waits
from tests.limits.test_server import TOKEN, asked, with_login
from tests.llm.test_model_calls import Slow, Talk, talker
from tests.programs.served import Count, counter

from standfast import Accepted, Budget, Runtime
from standfast.agents import DEFAULT_BUDGET
from standfast.errors import StandfastError
from standfast.events import TextDelta
from standfast.evidence import anchors
from standfast.evidence.anchors import Anchoring
from standfast.models import Model
from standfast.operator import client, listening
from standfast.redaction import MOST_OF_ENVIRONMENT, SHORTEST, of_environment
from standfast.replies import Counted, Delta, Finished, Text, Usage
from standfast.server import Rules, guard, lines, reading
from standfast.server import socket as page_socket
from standfast.server.lines import Speaker
from standfast.server.reading import LONGEST_SEARCH, MOST_IN_A_PAGE, Filter, Reader
from standfast.server.verbs import LONGEST_KEY, LONGEST_TEXT
from standfast.server.wire import DEEPEST
from standfast.testing import lab

LONG = 30.0


# --- a run ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [0, 1])
async def test_a_run_without_a_budget_takes_so_many_steps_and_is_held_before_one_more(more: int) -> None:
    most = DEFAULT_BUDGET.steps
    assert most == 1_000
    async with lab([counter]) as runs:
        run = await runs.start(counter, Count(to=most + more))
        if more:
            view = await held(run, "budget")
            assert (view.step, view.spent.steps, (await run.state()).at) == (most, most, most)
            await run.resume(budget=Budget(steps=most + 1))
        await run.result(timeout=LONG)
        assert (await run.view()).spent.steps == most + more


@pytest.mark.parametrize("more", [0, 1])
async def test_a_reply_is_so_long_and_no_longer_and_the_run_is_held_with_its_text(more: int) -> None:
    text = "x" * (5_000 + more)

    class Exactly(Slow):
        async def _deltas(self) -> AsyncGenerator[Delta, None]:
            for at in range(0, len(text), 100):
                yield Text(text[at : at + 100])
            yield Counted(Usage(1, 1, 0.0))
            yield Finished({"role": "assistant", "content": text}, "stop")

    async with lab([one := talker(Model(Exactly(), most_characters=5_000))]) as runs:
        run = await runs.start(one, Talk())
        if more:
            view = await held(run, "error")
            assert "longer than 5000 characters" in view.error
            assert isinstance(await run.cancel(), Accepted)
        else:
            assert await run.result(timeout=LONG) == text
        assert [said.text for said in await run.transcript()] == [text[:5_000]]


def _much(verb: str) -> dict[str, Any]:
    """Requests that are refused for their size, by what is too large."""
    nested: Any = {}
    for _ in range(DEEPEST):
        nested = {"a": nested}
    return {
        "text": {"json": {"text": "x" * (LONGEST_TEXT + 1)}},
        "depth": {"json": {"text": "x", "data": nested}},
        "body": {"content": b" " * 300_000, "headers": {"content-type": "application/json"}},
        "request id": {"json": {"text": "x", "request_id": "x" * (LONGEST_KEY + 1)}},
        "key": {"json": {"text": "x"}, "headers": {"idempotency-key": "x" * (LONGEST_KEY + 1)}},
    }[verb]


@pytest.mark.parametrize("what", ["text", "depth", "body", "request id", "key"])
async def test_a_request_that_is_refused_for_its_size_leaves_the_run_as_it_was(tmp_path: Path, what: str) -> None:
    async with asked(tmp_path, rules=Rules(max_body=250_000)) as (runs, http):
        run = await runs.start(waits, Nothing(), id="r")
        before = await run.view()
        answer = await http.post("/api/runs/r/message", **_much(what))
        assert answer.status_code in (413, 422), answer.text
        after = await run.view()
        assert (after.seq, after.status, after.mail) == (before.seq, before.status, ())
        assert (await http.post("/api/runs/r/cancel")).json()["answer"] == "accepted"


# --- a request ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1, LONGEST_KEY, LONGEST_KEY + 1])
async def test_a_request_id_and_an_idempotency_key_are_so_long_and_no_longer(tmp_path: Path, length: int) -> None:
    async with asked(tmp_path) as (runs, http):
        await runs.start(waits, Nothing(), id="r")
        headers = {"idempotency-key": "h" * length}
        given: list[dict[str, Any]] = [{"json": {"request_id": "b" * length}}, {"headers": headers}]
        for one in given:
            for _ in range(2):
                answer = await http.post("/api/runs/r/pause", **one)
                assert answer.status_code == (200 if length <= LONGEST_KEY else 422), answer.text
        pauses = [
            event for event in (await http.get("/api/runs/r/record")).json()["events"] if "pause" in event["type"]
        ]
        assert len(pauses) <= 2, "asked again, it is not done again"


@pytest.mark.parametrize("path", ["/api/runs", "/api/runs/r/record", "/api/runs/r/stops"])
async def test_a_page_has_so_many_entries_and_no_more(tmp_path: Path, path: str) -> None:
    async with asked(tmp_path) as (runs, http):
        for id_ in ("q", "r"):
            run = await runs.start(waits, Nothing(), id=id_)
            for _ in range(2):
                await run.pause()
                await run.resume()
        for limit, status in ((MOST_IN_A_PAGE, 200), (MOST_IN_A_PAGE + 1, 422), (1, 200)):
            answer = await http.get(path, params={"limit": limit})
            assert answer.status_code == status
            if limit == 1:
                (entries,) = [value for value in answer.json().values() if isinstance(value, list)]
                assert len(entries) == 1


@pytest.mark.parametrize("length", [LONGEST_SEARCH, LONGEST_SEARCH + 1])
async def test_a_text_to_look_for_is_so_long_and_no_longer(tmp_path: Path, length: int) -> None:
    async with asked(tmp_path) as (_, http):
        answer = await http.get("/api/runs", params={"text": "x" * length})
        assert answer.status_code == (200 if length <= LONGEST_SEARCH else 422)


async def test_so_many_strangers_send_at_a_time_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "MOST_STRANGERS", 2)
    begun, go = 0, asyncio.Event()

    async def slowly() -> AsyncIterator[bytes]:
        nonlocal begun
        begun += 1
        yield b'{"token":'
        await go.wait()
        yield b'"wrong"}'

    headers = {"content-type": "application/json"}
    async with with_login(tmp_path) as (_, http), asyncio.timeout(LONG):

        async def stranger() -> int:
            return (await http.post("/api/session", content=slowly(), headers=headers)).status_code

        two = [asyncio.create_task(stranger()) for _ in range(2)]
        while begun < 2:
            await asyncio.sleep(0)
        third = await http.post("/api/session", json={"token": TOKEN})
        assert (third.status_code, third.headers["retry-after"]) == (429, "5")
        known = {"authorization": f"Bearer {TOKEN}"}
        assert (await http.post("/api/runs/nobody/cancel", headers=known)).status_code == 404, "a stop passes"
        go.set()
        assert [await one for one in two] == [401, 401], "those within the limit were heard"
        assert (await http.post("/api/session", json={"token": TOKEN})).status_code == 204


async def test_a_socket_has_so_many_verbs_at_work_and_one_more_is_told_to_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_socket, "MOST_AT_WORK", 2)
    carried_out, go = page_socket.Page._carried_out, asyncio.Event()

    async def slowly(self: Any, op: Any) -> Any:
        if op.verb == "message":
            await go.wait()
        return await carried_out(self, op)

    monkeypatch.setattr(page_socket.Page, "_carried_out", slowly)
    async with page(tmp_path) as (runs, one):
        run = await runs.start(waits, Nothing(), id="r")

        async def say(n: int, verb: str, **args: Any) -> None:
            await one.send(json.dumps({"op": "verb", "n": n, "run": "r", "verb": verb, "args": args}))

        async def heard() -> Any:
            while (told := json.loads(await one.recv()))["op"] != "answer":
                pass
            return told

        for n in (1, 2, 3):
            await say(n, "message", text=f"{n}")
        refused = await heard()
        assert (refused["n"], refused["problem"]["status"]) == (3, 429)
        await say(4, "pause")
        assert (await heard())["answer"]["answer"] == "accepted", "a stop passes"
        go.set()
        assert {(told["n"], told["answer"]["answer"]) for told in (await heard(), await heard())} == {
            (1, "accepted"),
            (2, "accepted"),
        }
        await say(5, "message", text="5")
        assert (await heard())["answer"]["answer"] == "accepted"
        assert [mail.text for mail in (await run.view()).mail] == ["1", "2", "5"], (
            "what was refused did not reach the run"
        )


# --- what is kept -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [MOST_OF_ENVIRONMENT, MOST_OF_ENVIRONMENT + 1])
def test_secrets_of_the_environment_are_so_many_and_no_shorter(count: int) -> None:
    variables = {f"A{n:03d}_TOKEN": f"{n:03d}".ljust(SHORTEST, "x") for n in range(count)}
    found = [one.name for one in of_environment(variables)]
    assert found == sorted(variables)[:MOST_OF_ENVIRONMENT]
    assert of_environment({"A_TOKEN": "x" * (SHORTEST - 1)}) == []
    assert len(of_environment({"A_TOKEN": "x" * SHORTEST})) == 1


@pytest.mark.parametrize("more", [0, 1])
def test_live_text_waits_for_the_control_process_so_many_pieces_the_newest(more: int) -> None:
    mine, theirs = socket.socketpair()
    with mine:
        speaker = Speaker(os.dup(theirs.fileno()), alive=lambda: None, gone=lambda: None)
        theirs.close()
        for n in range(lines.MOST_WAITING + more):
            speaker.delta("r", TextDelta("c", n, f"{n}", "text"))
        offsets = [delta.offset for _, delta in speaker._deltas]
        assert offsets == [*range(more, lines.MOST_WAITING + more)]
        speaker._socket.close()


@pytest.mark.parametrize("more", [0, 1])
def test_lines_wait_for_the_control_process_so_many_bytes_and_then_only_the_one_that_was_begun(
    monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    mine, theirs = socket.socketpair()
    with mine:
        speaker = Speaker(os.dup(theirs.fileno()), alive=lambda: None, gone=lambda: None)
        theirs.close()
        speaker._pending = b"x" * 10_000_000  # fills the line, for nobody reads
        while speaker._send() and len(speaker._pending) > 9_999_999:
            pass
        begun, waiting = b"the rest of a line\n", b"another line\n"
        speaker._pending = begun + waiting
        monkeypatch.setattr(lines, "LONGEST_LINE", len(begun + waiting) - more)
        _fill(speaker._socket)
        assert speaker._send()
        assert speaker._pending == (begun if more else begun + waiting)
        speaker._socket.close()


def _fill(line: socket.socket) -> None:
    while True:
        try:
            line.send(b"x" * 65_536)
        except BlockingIOError:
            try:
                while True:
                    line.send(b"x")
            except BlockingIOError:
                return


@pytest.mark.parametrize("count", [2, 3])
async def test_views_are_kept_so_many_and_at_one_more_all_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(reading, "KEPT_VIEWS", 2)
    async with Runtime(tmp_path / "runs.db", [waits]) as runs:
        for n in range(count):
            await (await runs.start(waits, Nothing(), id=f"{n}")).result()
        reader = Reader(runs)
        assert {view.id for view in await reader.found(Filter())} == {f"{n}" for n in range(count)}
        assert sorted(reader._ended) == (["0", "1"] if count == 2 else ["0"]), "newest first; the third begins anew"
        assert {view.id for view in await reader.found(Filter())} == {f"{n}" for n in range(count)}
        reader.close()


@pytest.mark.parametrize("more", [0, 1])
def test_checkpoints_wait_for_an_anchor_so_many_the_newest(more: int) -> None:
    class Stuck:
        name = "stuck"

        def put(self, line: str) -> None:
            raise OSError(line)

    one = Anchoring(Stuck())
    for n in range(anchors.BACKLOG + more):
        one.tell(n, 0.0, "00")
    assert [n for n, _ in one._waiting] == [*range(more, anchors.BACKLOG + more)]


# --- the operator -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [0, 1])
def test_an_answer_of_an_operator_is_so_long_and_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    monkeypatch.setattr(client, "LONGEST_ANSWER", 200_000)
    here = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    here.bind(str(tmp_path / "s"))
    here.listen()
    said = b'{"ok":true}'.ljust(200_000 - 1 + more) + b"\n"

    def talk() -> None:
        to, _ = here.accept()
        with to:
            try:
                to.sendall(said)
                to.recv(1)
            except OSError:
                return

    talking = threading.Thread(target=talk)
    talking.start()
    try:
        if more:
            with pytest.raises(StandfastError, match="no operator answers"):
                client.ask_socket(tmp_path / "s", {"do": "list"})
        else:
            assert client.ask_socket(tmp_path / "s", {"do": "list"}) == {"ok": True}
    finally:
        talking.join(LONG)
        here.close()


async def test_an_operator_has_so_many_connections_and_one_more_is_refused_and_the_halt_is_set_all_the_same(
    tmp_path: Path,
) -> None:
    async with Runtime(tmp_path / "runs.db", [waits], drive=False) as runs:
        run = await runs.start(waits, Nothing())
        with operator(tmp_path / "runs.db") as one:
            silent: list[socket.socket] = []
            try:
                for _ in range(listening.MOST_CONNECTIONS):
                    silent.append(_connected(one.path))
                    assert silent[-1].recv(100) == b" ", "it is let in, and its request waited for"
                refused = _said(_connected(one.path))
                assert refused["error"] == "NoOperator" and "too many connections" in refused["detail"]
                halt = typed_json("halt", "--store", str(tmp_path / "runs.db"), "--all", "--reason", "leaking")
                assert halt["way"].startswith("straight on the store") and halt["runs"] == 1
                assert (await run.view()).holds == ("halted",)
                last = silent.pop()
                last.sendall(json.dumps({"do": "list"}).encode() + b"\n")
                assert len(_said(last)["halts"]) == 1, "those within the limit are served"
                again = _connected(one.path)
                again.sendall(json.dumps({**ALL, "id": halt["id"], "by": halt["by"]}).encode() + b"\n")
                assert _said(again)["halt"]["id"] == halt["id"], "and the next, once one has gone"
            finally:
                for one_ in silent:
                    one_.close()


def _connected(path: Path) -> socket.socket:
    to = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    to.settimeout(LONG)
    to.connect(str(path))
    return to


def _said(to: socket.socket) -> Any:
    got = b""
    with to:
        while more := to.recv(65_536):
            got += more
    return json.loads(got)
