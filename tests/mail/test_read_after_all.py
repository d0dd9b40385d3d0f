"""A redirect that one step has missed and the step in progress has read is read: nobody drops it any more (R5, R40)."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.helpers import eventually
from tests.mail.world import Task, World, mail, think

from standfast import Accepted, Agent, Answer, Done, Handle, Pipeline, Refused, Run, Runtime, agent
from standfast.stores import group
from standfast.stores.turns import Turns
from standfast.testing import lab


@agent("late")
async def late(run: Run[Task]) -> Done[list[list[str]]] | None:
    """Misses a redirect in step 0 and reads it in the middle of step 1."""
    await run.call(think(f"begin {run.step}"))
    if run.step:
        run.state.heard.append(run.take_redirects())
        await run.call(think(f"end {run.step}"))
    return Done(run.state.heard) if run.step + 1 >= run.state.steps else None


async def read_in_step_1(runs: Any, world: World, id_: str | None = None) -> tuple[Handle[Any], str]:
    """A run whose step 0 has missed a redirect, and whose step 1 has read it and goes on."""
    first = world.shut_at("think begin 0")
    world.shut_at("think end 1")
    run = await runs.start(late, Task(steps=2), id=id_)
    await eventually(lambda: "think begin 0" in world.log)
    answer = await run.redirect("left", by="ann")
    await eventually(lambda: world.log.count("think begin 0") == 2)
    first.set()
    await eventually(lambda: "think end 1" in world.log)
    return run, answer.mail


async def test_a_redirect_that_the_step_in_progress_has_read_is_shown_as_read() -> None:
    world = World()
    async with lab([late], provide={World: world}) as runs:
        run, _ = await read_in_step_1(runs, world)
        view = await run.view()
        assert [(m.fate, m.step) for m in view.mail] == [("read", 1)]
        assert (view.needs, view.not_read) == ([], ())
        assert await runs.list(needs=True) == []
        world.shut["think end 1"].set()
        assert await run.result(timeout=120) == [["left"]]
        assert [(m.fate, m.step) for m in await mail(run)] == [("applied", 1)]


@pytest.mark.parametrize("verb", ["drop", "resend"])
async def test_a_redirect_that_has_been_read_can_neither_be_dropped_nor_sent_again(verb: str) -> None:
    world = World()
    async with lab([late], provide={World: world}) as runs:
        run, letter = await read_in_step_1(runs, world)
        answer = await getattr(run, verb)(letter, by="ann")
        assert isinstance(answer, Refused)
        assert "read at step 1" in answer.why
        assert "rewind" in [choice.verb for choice in answer.choices]
        world.shut["think end 1"].set()
        assert await run.result(timeout=120) == [["left"]]
        again = await getattr(run, verb)(letter, by="ann")
        assert not isinstance(again, Accepted)


async def test_a_redirect_read_by_a_step_that_was_cancelled_is_returned_not_unread() -> None:
    world = World()
    async with lab([late], provide={World: world}) as runs:
        run, _ = await read_in_step_1(runs, world)
        assert await run.cancel()
        receipt = await run.settled(60)
        assert receipt.not_read == ()
        assert [(m.fate, m.reason) for m in await mail(run)] == [("returned", "cancelled")]


async def test_a_rewind_to_the_step_that_read_it_makes_it_unread_no_longer_read() -> None:
    world = World()
    async with lab([late], provide={World: world}) as runs:
        run, letter = await read_in_step_1(runs, world)
        assert await run.pause()
        await run.settled(60)
        assert [m.fate for m in await mail(run)] == ["read"]
        assert await run.rewind(1)
        await run.settled(60)
        assert [m.fate for m in await mail(run)] == ["not_read"]
        assert await run.drop(letter, by="ann")
        world.shut["think end 1"].set()
        assert await run.resume()
        assert await run.result(timeout=120) == [[]]
        assert [m.disposition for m in await mail(run)] == ["returned: dropped by ann (claimed)"]


class Meanwhile:
    """What another process does at the moment when a step has read its mail, before that can have been recorded."""

    def __init__(self) -> None:
        self.act: Callable[[], Awaitable[Answer]] | None = None
        self.answers: list[Answer] = []

    def happens(self) -> None:
        act, self.act = self.act, None
        if act is None:
            return

        async def ask() -> None:
            self.answers.append(await act())

        other = threading.Thread(target=lambda: asyncio.run(ask()))
        other.start()
        other.join()


def hasty(meanwhile: Meanwhile) -> Agent[Task]:
    @agent("hasty")
    async def hasty(run: Run[Task]) -> Done[list[list[str]]] | None:
        """Misses its redirects in step 0; in step 1 the world changes between reading them and recording that."""
        await run.call(think(f"begin {run.step}"))
        if run.step:
            heard = run.take_redirects()
            meanwhile.happens()
            run.state.heard.append(heard)
            await run.call(think(f"{', '.join(heard) or 'nothing'}"))
        return Done(run.state.heard) if run.step == 1 else None

    return hasty


@pytest.fixture
def slow_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is written in a thread, so late that the driver has looked at the run before."""
    monkeypatch.setattr(group, "SLOW_IN_A_ROW", 0)
    monkeypatch.setattr(Turns, "let_verbs_pass", lambda _: time.sleep(0.1))


async def test_what_is_dropped_before_a_slow_disk_has_the_record_of_reading_it_is_not_acted_on(
    tmp_path: Path, slow_disk: None
) -> None:
    await test_a_verb_between_reading_and_its_record_counts(tmp_path, "drop", [[]], "returned")


@pytest.mark.parametrize(
    ("verb", "heard", "fate"), [("drop", [[]], "returned"), ("resend", [["left"]], "applied")], ids=["drop", "resend"]
)
async def test_a_verb_between_reading_and_its_record_counts(
    tmp_path: Path, verb: str, heard: list[list[str]], fate: str
) -> None:
    """Dropped before the record says that it was read: the step is taken again without it, and does nothing with it."""
    world, meanwhile, path = World(), Meanwhile(), tmp_path / "runs.db"
    first = world.shut_at("think begin 0")
    second = world.shut_at("think begin 1")
    careless = hasty(meanwhile)
    async with Runtime(path, agents=[careless], provide={World: world}) as runs:
        run = await runs.start(careless, Task(), id="r1")
        await eventually(lambda: "think begin 0" in world.log)
        answer = await run.redirect("left")
        assert isinstance(answer, Accepted) and answer.mail is not None
        letter = answer.mail
        await eventually(lambda: world.log.count("think begin 0") == 2)
        first.set()
        await eventually(lambda: "think begin 1" in world.log)

        async def act() -> Answer:
            async with Runtime(path, drive=False) as others:
                done: Answer = await getattr(others.handle("r1"), verb)(letter, by="ann")
                return done

        meanwhile.act = act
        second.set()
        assert await run.result(timeout=120) == heard
        assert meanwhile.answers and isinstance(meanwhile.answers[0], Accepted)
        assert [m.fate for m in await mail(run)] == [fate]
        assert ("think left" in world.log) == (fate == "applied")


async def test_a_redirect_that_waits_before_a_deaf_stage_does_not_say_that_it_is_read_next() -> None:
    """A rewind puts a stage that takes no redirects before the one that the redirect was sent to."""
    made: Pipeline[Task] = Pipeline("deaf-first", Task)

    @made.stage("Count", redirects=False)
    async def count(run: Run[Task]) -> None:
        await run.call(think("count"))

    @made.stage("Tell")
    async def tell(run: Run[Task]) -> None:
        await run.call(think(run.instruction))

    world = World()
    async with lab([made], provide={World: world}) as runs:
        world.shut_at("think Tell")
        run = await runs.start(made, Task())
        await eventually(lambda: "think Tell" in world.log)
        assert await run.pause()
        await run.settled(60)
        assert await run.redirect("Shout")
        assert [m.disposition for m in await mail(run)] == ["read when the run is resumed"]
        assert await run.rewind(0)
        await run.settled(60)
        (letter,) = await mail(run)
        assert (letter.fate, letter.disposition) == ("sent", "not by “Count”, which comes next and takes no redirects")
