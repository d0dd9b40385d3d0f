"""Every verb on a real run in every status gets the answer that the machine's table promises (R1, R11)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import pytest
from pydantic import BaseModel
from tests.helpers import eventually

from standfast import Accepted, Done, Happened, Idle, Refused, Run, TooLate, agent, ask, control, tool, verbs
from standfast.abc import Tx, Use
from standfast.machine import STATUSES, USER_VERBS, UserVerb, can, decide
from standfast.records import ENDED, RunView, Status
from standfast.testing import Lab
from standfast.unwritten import Unwritten

T = TypeVar("T")

writing: asyncio.Event
door: asyncio.Event


@pytest.fixture(autouse=True)
async def fresh_door() -> AsyncIterator[None]:
    global writing, door
    writing, door = asyncio.Event(), asyncio.Event()
    yield
    door.set()


class Watched(Lab):
    """Tells what a verb did to a run in the verb's own transaction, before any driver can go on."""

    def __init__(self) -> None:
        super().__init__([actor, failing], None, ":memory:")
        self.watch = ""
        self.before: tuple[Status, int] = ("queued", 0)
        self.after: tuple[Status, int] = ("queued", 0)

    async def control(self, act: Callable[[Tx], T], use: Use = "ordinary", stop: Unwritten[T] | None = None) -> T:
        def look(tx: Tx) -> tuple[Status, int]:
            row = tx.run(self.watch)
            assert row is not None
            return row.status, row.seq

        def both(tx: Tx) -> T:
            if self.watch:
                self.before = look(tx)
            answer = act(tx)
            if self.watch:
                self.after = look(tx)
            return answer

        return await super().control(both, use, stop)


class How(BaseModel):
    does: str = "asks"
    n: int = 0


@tool(grace=3600)
async def write() -> None:
    writing.set()
    await door.wait()


@tool(effect="read")
async def read() -> None:
    await door.wait()


@tool(effect="irreversible")
async def launch() -> None: ...


@agent("actor", concurrency=1)
async def actor(run: Run[How]) -> Done[None] | Idle | None:
    """By its state: asks beside a write, only writes, only reads, or is done."""
    if run.step == 0 and run.state.does != "ends":
        return None  # so that there is a step to go back to
    if run.state.does == "asks":
        await run.call_all([ask("Which?"), launch(), write()])
    elif run.state.does == "writes":
        await run.call(write())
    elif run.state.does == "reads":
        await run.call(read())
    return Done(None)


@agent("failing", on_error="fail")
async def failing(run: Run[How]) -> Done[None]:
    raise ValueError("as asked")


# --- putting a run into a status -------------------------------------------------------------------------


async def view_when(run: Any, so: Callable[[RunView], bool]) -> RunView:
    async def look() -> RunView | None:
        view: RunView = await run.view()
        return view if so(view) else None

    found: RunView = await eventually(look)
    return found


async def asking(runs: Watched) -> Any:
    """Running, with a question and an approval open and a write in flight."""
    run = await runs.start(actor, How())
    await view_when(run, lambda v: len(v.needs) == 2 and len(v.in_flight) == 1)
    await writing.wait()  # admitted is not begun: a stop in between would find nothing to wait for
    return run


async def in_doubt(runs: Watched) -> Any:
    """Paused, because a crash left a write in doubt."""
    run = await runs.start(actor, How(does="writes"))
    await writing.wait()
    await runs.crash()
    await view_when(run, lambda v: v.status == "paused" and "in_doubt" in v.holds)
    return run


async def queued(runs: Watched, verb: UserVerb) -> Any:
    """Waiting for the only place; if something is to be settled in it, for what a person performs meanwhile."""
    held = await paused(runs, verb) if verb in ("resolve", "approve", "deny", "answer") else None
    door.clear()
    blocker = await runs.start(actor, How(does="reads"))
    await view_when(blocker, lambda v: v.status == "running" and bool(v.in_flight))
    if held is None:
        return await runs.start(actor, How())
    await held.take_over()
    await apply("perform", held, {})
    return held


async def running(runs: Watched, verb: UserVerb) -> Any:
    return await asking(runs)


async def pausing(runs: Watched, verb: UserVerb) -> Any:
    run = await asking(runs)
    if verb == "hand_back":
        await run.take_over()
        return run
    await (run.rewind(0) if verb == "pause" else run.pause())  # a second pause would have nothing to add
    return run


async def paused(runs: Watched, verb: UserVerb) -> Any:
    if verb == "resolve":
        return await in_doubt(runs)
    if verb in ("approve", "deny", "answer"):
        run = await asking(runs)
        door.set()
        await view_when(run, lambda v: v.holds == ("asks",) and v.status == "paused")
        return run
    run = await runs.start(actor, How(does="reads"))
    await view_when(run, lambda v: bool(v.in_flight))
    await run.pause()
    await view_when(run, lambda v: v.status == "paused")
    if verb in ("perform", "hand_back"):
        await run.take_over()
    return run


async def cancelling(runs: Watched, verb: UserVerb) -> Any:
    run = await asking(runs)
    await run.cancel()
    return run


async def cancelled(runs: Watched, verb: UserVerb) -> Any:
    run = await in_doubt(runs)
    await run.cancel(undo="none")
    await run.settled()
    return run


async def done(runs: Watched, verb: UserVerb) -> Any:
    run = await runs.start(actor, How(does="ends"))
    await run.result()
    return run


async def failed(runs: Watched, verb: UserVerb) -> Any:
    run = await runs.start(failing, How())
    await view_when(run, lambda v: v.status == "failed")
    return run


PUT: dict[Status, Callable[[Watched, UserVerb], Awaitable[Any]]] = {
    "queued": queued,
    "running": running,
    "pausing": pausing,
    "paused": paused,
    "cancelling": cancelling,
    "cancelled": cancelled,
    "done": done,
    "failed": failed,
}


# --- the verbs --------------------------------------------------------------------------------------------


async def apply(verb: UserVerb, run: Any, calls: dict[str, str]) -> Any:
    perform = verbs.perform("read", {}, "mail-1")
    simple: dict[str, Callable[[], Awaitable[Any]]] = {
        "pause": run.pause,
        "resume": run.resume,
        "step_once": run.step_once,
        "redirect": lambda: run.redirect("otherwise"),
        "message": lambda: run.message("by the way"),
        "resend": lambda: run.resend("mail-0"),
        "drop": lambda: run.drop("mail-0"),
        "abandon": lambda: run.abandon("frame-0", "enough"),
        "return_to": lambda: run.return_to("frame-0"),
        "take_over": lambda: run.take_over(by="ann"),
        "perform": lambda: run._runs.control(
            lambda tx: control.carry_out(tx, run.id, "perform", control.Ask(), perform)
        ),
        "hand_back": lambda: run.hand_back("over to you"),
        "edit": lambda: run.edit({"n": 1}),
        "rewind": lambda: run.rewind(0),
        "cancel": run.cancel,
        "resolve": lambda: run.resolve(calls.get("doubt", "none"), Happened()),
        "approve": lambda: run.approve(calls.get("approval", "none")),
        "deny": lambda: run.deny(calls.get("approval", "none"), "no"),
        "answer": lambda: run.answer(calls.get("question", "none"), "this"),
    }
    return await simple[verb]()


async def open_calls(run: Any) -> dict[str, str]:
    """The ids of what a person can settle, by kind; of an ended run: its call in doubt."""
    found = {n.kind: n.call for n in (await run.view()).needs}
    if (await run.view()).taken_by:
        found["taken"] = "by somebody"
    async for event in run.events() if (await run.view()).status in ENDED else nothing():
        if getattr(event, "type", "") == "call_in_doubt":
            found["doubt"] = event.call
    return found


async def nothing() -> AsyncIterator[Any]:
    return
    yield


TARGET = {
    **{"resolve": "doubt", "approve": "approval", "deny": "approval", "answer": "question"},
    **{
        "resend": "mail",
        "drop": "mail",
        "abandon": "frame",
        "return_to": "frame",
        "perform": "taken",
        "hand_back": "taken",
    },
}


@pytest.mark.parametrize("verb", USER_VERBS)
@pytest.mark.parametrize("status", STATUSES)
async def test_verb_on_status(status: Status, verb: UserVerb) -> None:
    runs = Watched()
    async with runs:
        run = await PUT[status](runs, verb)
        calls = await open_calls(run)
        assert (await run.view()).status == status
        runs.watch = run.id
        answer = await apply(verb, run, calls)
        runs.watch = ""
        assert runs.before[0] == status
        rule = decide(status, verb)
        after, unchanged = runs.after[0], runs.after == runs.before
        if rule.kind == "too_late":
            assert answer == TooLate(status)
            assert unchanged
        elif rule.kind == "refuse":
            assert isinstance(answer, Refused)
            assert answer.why
            assert unchanged
        elif verb in TARGET and TARGET[verb] not in calls:
            # the verb would be taken, but this run has nothing for it: told, and nothing changed
            assert isinstance(answer, Refused)
            assert any(word in answer.why for word in ("call", "frame", "taken", "unread"))
            assert unchanged
        elif rule.kind == "no-op":
            assert isinstance(answer, Accepted)
            assert unchanged
        else:
            assert isinstance(answer, Accepted), answer
            assert runs.after[1] > runs.before[1]  # heard: it is in the record
            assert answer.seq == runs.after[1]
            expected = rule.target or (status,)
            # with nothing to undo or to wait for, a rewind settles in the transaction that asks for it
            settled = verb == "rewind" and "pausing" in expected and can("pausing", "settle", after)
            assert after in expected or settled
            assert rule.kind == "note" or settled or can(status, verb, after)
        # nothing is stuck: with the door open, every run comes to a rest
        door.set()
        await view_when(run, lambda v: v.status in (*ENDED, "paused"))


@pytest.mark.parametrize("status", STATUSES)
async def test_a_redirect_from_an_earlier_step_follows_the_rule_of_rewind(status: Status) -> None:
    """The machine: ask for "rewind" when a redirect names a step to go back to."""
    runs = Watched()
    async with runs:
        run = await PUT[status](runs, "rewind")
        runs.watch = run.id
        answer = await run.redirect("from the start", from_step=0)
        runs.watch = ""
        rule = decide(status, "rewind")
        if rule.kind == "too_late":
            assert answer == TooLate(status)
        else:
            assert isinstance(answer, Accepted), answer
            assert answer.mail
            after = runs.after[0]
            assert after in (rule.target or (status,)) or can("pausing", "settle", after)
        door.set()


@pytest.mark.parametrize("status", STATUSES)
async def test_a_verb_on_an_older_sight_of_the_run_is_refused(status: Status) -> None:
    """R1: if_seq guards two people who act on what they see."""
    runs = Watched()
    async with runs:
        run = await PUT[status](runs, "cancel")
        runs.watch = run.id
        answer = await run.cancel(if_seq=0)
        assert not answer
        assert runs.after == runs.before
        door.set()
