"""Limits of lines, answers, texts and lists: what passes at each of them, and what does not one beyond it (R34)."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import to_json
from tests.fuzz.test_operator import spoken
from tests.halt.operating import operator
from tests.helpers import held
from tests.limits.asgi_pages import reader
from tests.limits.test_server import asked
from tests.programs.served import Count, counter
from tests.server.test_agui_saying import finished, started
from tests.server.test_notify import SCRIPT, told
from tests.tripwire.test_runs import events_of, leaker, trips

from standfast import Budget, Runtime, Tripwire, tripping
from standfast.events import TextDelta
from standfast.models.calling import SHOWN_BYTES, _shown_log
from standfast.operator.listening import LONGEST_LINE
from standfast.server import Rules, guard, notifying
from standfast.server import socket as page_socket
from standfast.server.agui_events import MOST_EARLY, MOST_ENDED, Saying
from standfast.server.notifying import Notifier
from standfast.server.reading import Reader
from standfast.testing import lab


@pytest.mark.parametrize(("chunks", "taken"), [(15, 15), (20, 20), (21, 20), (60, 20)])
async def test_of_a_body_that_is_too_large_so_much_is_read_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunks: int, taken: int
) -> None:
    monkeypatch.setattr(guard, "DRAINED", 2_000)
    sent = 0

    async def body() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(chunks):
            sent += 1
            yield b" " * 100

    async with asked(tmp_path, rules=Rules(max_body=1_000)) as (_, client):
        headers = {"content-type": "application/json", "content-length": str(chunks * 100)}
        answer = await client.post("/api/runs/r/message", content=body(), headers=headers)
        assert (answer.status_code, sent) == (413, taken)


def test_a_line_to_an_operator_is_so_long_and_no_longer(tmp_path: Path) -> None:
    with operator(tmp_path / "runs.db") as one:
        for length in (LONGEST_LINE - 1, LONGEST_LINE, LONGEST_LINE + 1):
            said = json.loads(spoken(str(one.path), b'{"do":"list"}'.ljust(length) + b"\n"))
            assert said["ok"] == (length <= LONGEST_LINE), said
            assert said["ok"] or f"at most {LONGEST_LINE} bytes" in said["hint"]


@pytest.mark.parametrize("more", [0, 1])
async def test_answers_wait_for_a_page_that_does_not_read_so_many_and_then_it_is_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    """While one of them is being sent: that one, and so many more."""
    monkeypatch.setattr(page_socket, "MOST_UNSENT", 5)
    async with reader(tmp_path) as (one, serving):
        one.reads.clear()
        before = one.sending
        await one.say(op="ping", n=0)
        await one.until(lambda: one.sending > before)
        for n in range(1, 6 + more):
            await one.say(op="ping", n=n)
        await one.until(lambda: len(one.page._answers) == 5 and one.page._full.is_set() == bool(more))
        one.reads.set()
        if more:
            await one.until(serving.done)
            assert one.bye() == "the page does not read"
        else:
            await one.until(lambda: one.pongs() == [0, 1, 2, 3, 4, 5])
            assert not serving.done()


@pytest.mark.parametrize("more", [0, 1])
async def test_a_page_that_is_behind_by_so_many_answers_is_served_and_by_more_is_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    async with reader(tmp_path) as (one, serving):
        monkeypatch.setattr(page_socket, "MOST_ANSWERS", 5)
        for n in range(5 + more):
            one.page._say({"op": "pong", "n": n})  # all at once: before the page is written to again
        if more:
            await one.until(serving.done)
            assert one.bye() == "the page does not read"
        else:
            await one.until(lambda: one.pongs() == [0, 1, 2, 3, 4])


async def test_of_what_a_tripwire_held_back_so_much_is_kept_and_all_of_it_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def kept() -> tuple[int, str, str]:
        one = leaker(tripwire=Tripwire(action="pause"))
        async with lab([one]) as runs:
            run = await runs.start(one, "What were you told?")
            await held(run, "tripwire")
            [said] = await run.transcript()
            [mark] = said.trips
            [trip] = trips(await events_of(run))
        return mark.held_back, mark.withheld, trip.digest

    whole, text, digest = await kept()
    assert whole == len(text) > 1 and digest == sha256(text.encode()).hexdigest()
    for most in (whole + 1, whole, whole - 1):
        monkeypatch.setattr(tripping, "MOST_KEPT", most)
        assert await kept() == (whole, text[:most], digest)


@pytest.mark.parametrize("size", [SHOWN_BYTES - 1, SHOWN_BYTES, SHOWN_BYTES + 1])
def test_a_request_to_a_model_is_shown_up_to_so_many_bytes_and_then_by_its_digest(size: int) -> None:
    empty = {"role": "user", "content": ""}
    message = {**empty, "content": "x" * (size - len(to_json(empty)))}
    assert len(to_json(message)) == size
    shown: Any = _shown_log([message])
    if size <= SHOWN_BYTES:
        assert shown == {"log": [], "added": [message]}
    else:
        assert shown.keys() == {"log", "count", "digest"} and "xxx" not in str(shown)


async def test_needs_are_told_of_so_many_runs_at_a_time_and_of_the_others_when_these_are_settled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifying, "MOST_TOLD", 2)
    file = tmp_path / "told"
    async with Runtime(tmp_path / "runs.db", [counter]) as runs:
        for name in ("first", "second", "third"):
            await held(await runs.start(counter, Count(to=5), id=name, budget=Budget(steps=1)), "budget")
        own = Reader(runs)
        notifier = Notifier(runs, own, shlex.join([sys.executable, "-c", SCRIPT, str(file)]))
        for _ in range(2):
            await notifier._tell_new()
            assert {one["run"] for one in told(file)} == {"second", "third"}, "the newest"
        await runs.handle("third").cancel()
        await runs.handle("third").settled()
        own.forget("third")
        await notifier._tell_new()
        assert [one["run"] for one in told(file)].count("first") == 1
        own.close()


def _said(lines: list[dict[str, Any]]) -> list[str]:
    return [line["delta"] for line in lines if line["type"] == "TEXT_MESSAGE_CONTENT"]


@pytest.mark.parametrize("more", [0, 1])
def test_words_that_come_before_their_call_are_kept_so_many(more: int) -> None:
    saying = Saying("t", "r", "run")
    list(saying.delta(TextDelta("c", 0, "Once")))
    for n in range(MOST_EARLY - 1 + more):
        list(saying.delta(TextDelta(f"other{n}", 0, "x")))
    assert _said(list(saying.event(started("c")))) == ([] if more else ["Once"])


@pytest.mark.parametrize("more", [0, 1])
def test_calls_that_have_ended_are_remembered_so_many(more: int) -> None:
    saying = Saying("t", "r", "run")
    for n in range(MOST_ENDED + more):
        list(saying.event(started(f"c{n}")))
        list(saying.event(finished(f"c{n}")))
    assert list(saying.delta(TextDelta("c0", 0, "late"))) == []
    assert len(saying._early) == more, "late words of a call that is forgotten are taken for early ones of another"
