"""R31: what a server tells of its clients after a stop: once, of all of them, and of nobody who had nothing of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from tests.helpers import eventually

from standfast import Done, Handle, Run, agent, say, tool
from standfast.clock import boot_id, uptime
from standfast.errors import StoreError
from standfast.events import ClientsReached
from standfast.records import Moment, Span
from standfast.server import telling
from standfast.server.feeds import Feeds
from standfast.server.reach import Client, Visitor
from standfast.server.reading import Reader
from standfast.server.telling import MOST_GONE, Tellings, Told
from standfast.testing import Lab, lab

WORDS = "Once upon a time"


@tool(effect="read")
async def talk() -> None:
    """Says a few words, and then nothing for long."""
    say(WORDS)
    await asyncio.sleep(60)


@agent("talker")
async def talker(run: Run[None]) -> Done[None]:
    await run.call(talk())
    return Done(None)


@dataclass
class Scene:
    """A run that was cancelled in the midst of what it said, and a server's tellings of it, which know nothing yet."""

    runs: Lab
    run: str
    call: str
    settled: int
    tellings: Tellings

    def client(self, name: str = "ann", *, text: int = 0, seq: int = 0) -> Client:
        """Somebody who was handed so many characters, and the record up to there."""
        client = self.tellings.enter(Visitor(name, "page"), self.run, 0)
        client.event(seq, self.span(0, text) if text else None)
        return client

    def span(self, start: int, end: int) -> Span:
        return Span(self.call, 1, 0, "text", start, end)

    def ends(self) -> None:
        """The end of the stop is noticed."""
        self.tellings.notice(self.run, Told(self.settled, "run_cancelled", b"{}"))

    def told(self) -> list[ClientsReached]:
        row = self.runs.read(lambda tx: tx.run(self.run))
        assert row is not None
        rows = self.runs.read(lambda tx: tx.record(row.n, 0))
        return [event for _, events in rows for event in events if isinstance(event, ClientsReached)]

    async def once_told(self) -> ClientsReached:
        (found,) = await eventually(self.told)
        return found

    async def all_done(self) -> None:
        """Nothing is being told any more."""
        await eventually(lambda: not self.tellings._work)  # pyright: ignore[reportPrivateUsage]


async def speaking(run: Handle[Any]) -> list[Any]:
    """What it has said by now."""
    return [said for said in await run.transcript() if said.text]


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    async with lab([talker]) as runs:
        run = await runs.start(talker, None)
        (said,) = await eventually(lambda: speaking(run))
        await run.cancel()
        await run.settled()
        settled = (await run.view()).seq
        reader = Reader(runs)
        yield Scene(runs, run.id, said.call, settled, Tellings(runs, reader))
        reader.close()


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    be_patient(monkeypatch)


def be_patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here is decided by a time that is up; what is tried again is tried at once."""
    monkeypatch.setattr(telling, "WAIT_SECONDS", 60.0)
    monkeypatch.setattr(telling, "AGAIN_SECONDS", (0.0, 0.0))


async def turns() -> None:
    """Whatever is ready to go on has gone on."""
    for _ in range(20):
        await asyncio.sleep(0)


@contextmanager
def failing(runs: Lab, monkeypatch: pytest.MonkeyPatch, *, after: bool, times: int = 1) -> Iterator[None]:
    """The store cannot be written to, so many times; `after`: it has been, and nobody was told."""
    control: Callable[[Any], Any] = runs.control
    left = [times]

    async def fails(act: Any) -> Any:
        if not left[0]:
            return await control(act)
        left[0] -= 1
        if after:
            await control(act)
        raise StoreError("the disk is slow", hint="wait")

    monkeypatch.setattr(runs, "control", fails)
    yield
    assert not left[0], "it was never tried"


async def test_a_stop_is_told_of_once_also_when_the_first_answer_was_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Written, and the writing seems to have failed: it is tried again, and stands there once."""
    async with scene() as one:
        one.client(text=4, seq=one.settled)
        with failing(one.runs, monkeypatch, after=True):
            one.ends()
            await one.all_done()
        assert [event.stop for event in one.told()] == [one.told()[0].stop]


async def test_an_end_that_is_noticed_twice_is_told_of_once() -> None:
    async with scene() as one:
        one.client(text=4, seq=one.settled)
        one.ends()
        one.ends()
        await one.all_done()
        assert len(one.told()) == 1


async def test_what_cannot_be_written_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scene() as one:
        one.client(text=4, seq=one.settled)
        with failing(one.runs, monkeypatch, after=False, times=2):
            one.ends()
            await one.all_done()
        (told,) = one.told()
        assert [span.end for client in told.clients for span in client.spans] == [4]


async def test_who_is_behind_is_waited_for() -> None:
    """The end of the stop is on its way to them, and words before it."""
    async with scene() as one:
        behind = one.client(text=4)
        one.ends()
        await turns()
        assert not one.told()
        behind.event(one.settled, one.span(4, len(WORDS)))
        (client,) = (await one.once_told()).clients
        assert (client.seq, [span.end for span in client.spans]) == (one.settled, [len(WORDS)])


async def test_who_leaves_is_not_waited_for() -> None:
    async with scene() as one:
        behind = one.client(text=4)
        one.ends()
        await turns()
        one.tellings.leave(behind)
        (client,) = (await one.once_told()).clients
        assert client.left is not None
        assert (client.seq, [span.end for span in client.spans]) == (0, [4])


async def test_a_server_that_goes_has_told_before_it_is_gone() -> None:
    """Of those who are behind too: nobody waits for them any longer."""
    async with scene() as one:
        one.client(text=4)
        one.ends()
        await turns()
        assert not one.told()
        await one.tellings.close()
        (told,) = one.told()
        assert [client.seq for client in told.clients] == [0]


async def test_who_left_in_the_midst_of_it_is_told_of() -> None:
    async with scene() as one:
        one.tellings.leave(one.client("gone", text=4))
        assert one.tellings.lingers(one.run), "the run is followed on for them"
        one.client("here", seq=one.settled)
        one.ends()
        told = await one.once_told()
        assert [(client.by, len(client.spans)) for client in told.clients] == [("here", 0), ("gone", 1)]


async def test_a_run_is_followed_on_for_the_last_one_who_left_in_the_midst_of_it() -> None:
    """Nobody watches when it is stopped: what they had is told all the same, and then nobody follows it any more."""
    async with lab([talker]) as runs:
        run = await runs.start(talker, None)
        (said,) = await eventually(lambda: speaking(run))
        reader = Reader(runs)
        feeds = Feeds(runs, reader)
        watch = await feeds.watch(run.id, 0, lambda: None, Visitor("gone", "page"))
        watch.client.event(1, Span(said.call, 1, 0, "text", 0, 4))
        feeds.unwatch(watch)
        assert run.id in feeds._tails  # pyright: ignore[reportPrivateUsage]
        await run.cancel()
        await run.settled()
        one = Scene(runs, run.id, said.call, 0, feeds.tellings)
        assert [client.by for client in (await one.once_told()).clients] == ["gone"]
        await one.all_done()
        await eventually(lambda: not feeds.tellings.lingers(run.id))
        await feeds.close()
        reader.close()


async def test_who_left_before_the_step_began_has_nothing_of_it() -> None:
    """What they were handed belongs to a step that is over: no stop has cut it."""
    async with scene() as one:
        one.tellings.leave(one.client("gone", text=4))
        one.tellings.notice(one.run, Told(one.settled - 1, "step_finished", b"{}"))
        assert not one.tellings.lingers(one.run)
        one.client("here", seq=one.settled)
        one.ends()
        assert [client.by for client in (await one.once_told()).clients] == ["here"]


async def test_those_who_left_and_are_too_many_to_be_named_are_counted() -> None:
    async with scene() as one:
        for n in range(MOST_GONE + 3):
            one.tellings.leave(one.client(f"gone {n}", text=4))
        one.client("here", seq=one.settled)
        one.ends()
        told = await one.once_told()
        assert (len(told.clients), told.left_out) == (MOST_GONE + 1, 3)
        assert "gone 0" not in {client.by for client in told.clients}, "the oldest are those who are not named"


def test_what_was_handed_over_after_a_stop_is_counted_by_the_clock_that_nobody_sets() -> None:
    """The wall clock is set back an hour, or forward, as the stop is accepted: nothing changes."""
    walls = [5000.0, 1400.0]
    client = Client(Visitor("ann", "page"), "r", 0, lambda: walls[0])
    client.text("c", 1, 0, "text", 0, 4)
    accepted = Moment(3200.0, uptime(), boot_id())
    walls.pop(0)
    client.text("c", 1, 0, "text", 4, 6)
    assert client.reach(client.handed(), accepted).after_accepted == 6
    elsewhere = Moment(3200.0, uptime(), "another machine")
    assert client.reach(client.handed(), elsewhere).after_accepted == 4, "no other clock is shared with it"
