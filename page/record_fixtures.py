"""Record what real runs do, for the reducer's tests: the first view, every event, the last view.

Run it again when events change: python page/record_fixtures.py
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter

from standfast import (
    Budget,
    Done,
    Handle,
    LLMAgent,
    Performed,
    Pipeline,
    Run,
    Runtime,
    agent,
    ask,
    models,
    say,
    tool,
)
from standfast.events import plain
from standfast.models import use
from standfast.records import RunView
from standfast.testing import lab

TARGET = Path(__file__).parent / "test" / "fixtures"
views: TypeAdapter[RunView] = TypeAdapter(RunView)
doors: dict[str, asyncio.Event] = {}


def door(name: str) -> asyncio.Event:
    return doors.setdefault(name, asyncio.Event())


class State(BaseModel):
    n: int = 0
    fixed: bool = False


@tool(effect="read")
async def look(n: int) -> int:
    say(f"looking at {n}")
    return n


@tool(effect="read", kind="model")
async def talk(n: int) -> int:
    say("once upon a time ")
    await door("talk").wait()
    return n


async def take_back(_: Performed[int, None]) -> None:
    return None


@tool(effect="write", undo=take_back, settles="run")
async def put(n: int) -> int:
    return n


@tool(effect="write", undo=take_back)
async def slow_put(n: int) -> int:
    await door("put").wait()
    return n


@tool(effect="irreversible")
async def send(n: int) -> int:
    return n


three = Pipeline("three", State)


@three.stage("Look")
async def first(run: Run[State]) -> None:
    run.state.n = await run.call(look(1))


@three.stage("Talk")
async def second(run: Run[State]) -> None:
    run.state.n = await run.call(talk(2), title=run.instruction)


@three.stage("Put")
async def third(run: Run[State]) -> None:
    await run.call(put(3), title=run.instruction)
    await run.call(slow_put(4))


@agent("deaf")
async def deaf(run: Run[State]) -> Done[int] | None:
    """Reads no redirect."""
    run.state.n = await run.call(talk(run.step) if run.step == 0 else slow_put(run.step))
    return Done(run.state.n) if run.step == 2 else None


@agent("sender")
async def sender(run: Run[State]) -> Done[int]:
    return Done(await run.call(send(1)))


@agent("asker")
async def asker(run: Run[State]) -> Done[str]:
    return Done(await run.call(ask("Which?", options=["a", "b"])))


@agent("spender", budget=Budget(steps=2))
async def spender(run: Run[State]) -> Done[int] | None:
    run.state.n += 1
    return Done(run.state.n) if run.state.n == 4 else None


@agent("breaker")
async def breaker(run: Run[State]) -> Done[int]:
    if not run.state.fixed:
        raise ValueError("broken")
    return Done(await run.call(put(1)))


@agent("loser", on_error="fail")
async def loser(run: Run[State]) -> Done[int]:  # noqa: ARG001 - a step takes its run
    raise ValueError("lost")


@tool(effect="read")
async def dig(what: str) -> str:
    await door(what).wait()
    return f"{what}: found"


PLAN = use("update_plan", items=[{"title": "dig", "status": "running"}, {"title": "write"}])


def thinker() -> Any:
    lines = (PLAN, use("dig", what="gold"), use("dig", what="answer"), "Here it is.", "All done.")
    return LLMAgent("thinker", model=models.scripted(*lines), tools=[dig])


# --- the stories ---------------------------------------------------------------------------------------


async def until(run: Handle[Any], is_so: Callable[[RunView], bool]) -> None:
    for _ in range(3000):
        if is_so(await run.view()):
            return
        await asyncio.sleep(0.01)
    raise TimeoutError(f"{await run.view()}")


def at(tool: str) -> Callable[[RunView], bool]:
    return lambda view: any(c.tool == tool for c in view.in_flight)


def is_(*statuses: str) -> Callable[[RunView], bool]:
    return lambda view: view.status in statuses


async def done(run: Handle[Any]) -> None:
    door("talk").set()
    door("put").set()
    await run.result(timeout=30)


async def paused_and_resumed(run: Handle[Any]) -> None:
    await until(run, at("talk"))
    await run.pause(by="ada", reason="look")
    await until(run, is_("paused"))
    await run.redirect("Talk slowly", by="ada")
    await run.edit({"n": 7}, by="ada")
    await run.resume(by="ada")
    await done(run)


async def redirected(run: Handle[Any]) -> None:
    await until(run, at("talk"))
    await run.redirect("Talk about ships", by="ada")
    await until(run, lambda view: any(i.was for i in view.plan))
    await run.redirect("Put it on the shelf", when="next", by="bob")
    await done(run)


async def not_read(run: Handle[Any]) -> None:
    await until(run, at("talk"))
    await run.redirect("Talk about ships", by="ada")
    door("talk").set()
    await until(run, lambda view: any(need.kind == "unread" for need in view.needs))
    await until(run, at("slow_put"))


async def not_read_to_the_end(run: Handle[Any]) -> None:
    await not_read(run)
    await done(run)


async def sent_again(run: Handle[Any]) -> None:
    await not_read(run)
    (need,) = (await run.view()).needs
    await run.resend(need.id, by="bob")
    await done(run)


async def dropped(run: Handle[Any]) -> None:
    await not_read(run)
    (need,) = (await run.view()).needs
    await run.drop(need.id, by="bob", reason="too late for it")
    await done(run)


async def cancelled(run: Handle[Any]) -> None:
    door("talk").set()
    await until(run, at("slow_put"))
    await run.message("what about this", by="ada")
    await run.cancel(by="ada", reason="enough")
    await run.settled(timeout=30)


async def finished_slowly(run: Handle[Any]) -> None:
    door("talk").set()
    await until(run, at("slow_put"))
    door("put").set()
    await until(run, is_("done"))


async def taken_back(run: Handle[Any]) -> None:
    door("talk").set()
    await until(run, at("slow_put"))
    await run.rewind(1, by="ada")
    door("put").set()
    await until(run, is_("paused"))


async def approved(run: Handle[Any]) -> None:
    await until(run, lambda view: bool(view.needs))
    await run.approve((await run.view()).needs[0].id, by="ada")
    await run.result(timeout=30)


async def waits_for_approval(run: Handle[Any]) -> None:
    await until(run, is_("paused"))


async def answered(run: Handle[Any]) -> None:
    await until(run, is_("paused"))
    await run.answer((await run.view()).needs[0].id, "a", by="ada")
    await run.result(timeout=30)


async def capped(run: Handle[Any]) -> None:
    await until(run, is_("paused"))
    await run.resume(budget={"steps": 10}, by="ada")
    await run.result(timeout=30)


async def capped_still(run: Handle[Any]) -> None:
    await until(run, is_("paused"))


async def mended(run: Handle[Any]) -> None:
    await until(run, is_("paused"))
    await run.edit({"fixed": True}, by="ada")
    await run.resume(by="ada")
    await run.result(timeout=30)


async def failed(run: Handle[Any]) -> None:
    await until(run, is_("failed"))


async def interrupted(run: Handle[Any]) -> None:
    await until(run, at("dig"))
    await run.message("how far are you?", when="now", by="ada")
    await until(run, lambda view: len(view.frames) >= 2)
    await until(run, at("dig"))


async def interrupted_to_the_end(run: Handle[Any]) -> None:
    await interrupted(run)
    door("answer").set()
    door("gold").set()
    await run.result(timeout=30)


async def taken_over(run: Handle[Any]) -> None:
    await until(run, at("talk"))
    await run.take_over(by="bob", reason="let me")
    await until(run, is_("paused"))
    await run.perform("put", {"n": 9}, by="bob")
    await until(run, is_("paused"))


async def handed_back(run: Handle[Any]) -> None:
    await taken_over(run)
    await run.hand_back("I have put nine", by="bob")
    await done(run)


STORIES: dict[str, tuple[Any, Callable[[Handle[Any]], Awaitable[None]]]] = {
    "done": (three, done),
    "paused_and_resumed": (three, paused_and_resumed),
    "redirected": (three, redirected),
    "not_read": (deaf, not_read),
    "not_read_to_the_end": (deaf, not_read_to_the_end),
    "sent_again": (deaf, sent_again),
    "dropped": (deaf, dropped),
    "cancelled": (three, cancelled),
    "finished_slowly": (three, finished_slowly),
    "taken_back": (three, taken_back),
    "waits_for_approval": (sender, waits_for_approval),
    "approved": (sender, approved),
    "answered": (asker, answered),
    "capped": (spender, capped),
    "capped_still": (spender, capped_still),
    "mended": (breaker, mended),
    "failed": (loser, failed),
    "taken_over": (three, taken_over),
    "handed_back": (three, handed_back),
    "interrupted": (thinker, interrupted),
    "interrupted_to_the_end": (thinker, interrupted_to_the_end),
}


async def recorded(kind: Any, story: Callable[[Handle[Any]], Awaitable[None]]) -> dict[str, Any]:
    doors.clear()
    one = kind() if kind is thinker else kind
    async with Runtime(":memory:", agents=[one]) as runs:
        run = await runs.start(one, "Dig for gold" if kind is thinker else State(), by="ada", labels={"team": "growth"})
        await story(run)
        return await as_fixture(run)


async def in_doubt() -> dict[str, Any]:
    """A driver dies in the middle of a write; a person says what became of it."""
    doors.clear()
    door("talk").set()
    async with lab([three]) as runs:
        run = await runs.start(three, State(), by="ada", labels={"team": "growth"})
        await until(run, at("slow_put"))
        await runs.crash()
        await until(run, is_("paused"))
        return await as_fixture(run)


async def halted(*, lifted: bool) -> dict[str, Any]:
    """An operator halts everything while a run talks; after the lift it goes on."""
    doors.clear()
    async with Runtime(":memory:", agents=[three]) as runs:
        run = await runs.start(three, State(), by="ada", labels={"team": "growth"})
        await until(run, at("talk"))
        first = await runs.halt(all=True, reason="leaking", by="op")
        await until(run, is_("paused"))
        second = await runs.halt(agent="three", reason="look at it first", by="op")
        if lifted:
            await run.pause(by="ada")
            await runs.lift(first.id, by="op", reason="fixed")
            await runs.lift(second.id, by="op", reason="looked")
            await run.resume(by="ada")
            await done(run)
        return await as_fixture(run)


async def as_fixture(run: Handle[Any]) -> dict[str, Any]:
    view = await run.view()
    events: list[Any] = []
    async for event in run.events():
        if event.type == "text_delta":
            continue
        events.append(plain(event))
        if event.seq >= view.seq:
            break
    return {"events": events, "view": views.dump_python(view, mode="json")}


async def main() -> None:
    TARGET.mkdir(parents=True, exist_ok=True)
    for name, (kind, story) in STORIES.items():
        keep(name, await recorded(kind, story))
    keep("in_doubt", await in_doubt())
    keep("halted", await halted(lifted=False))
    keep("halted_and_lifted", await halted(lifted=True))


def keep(name: str, told: Any) -> None:
    """As a file; tracebacks name no folder of this machine."""
    text = json.dumps(told, indent=1).replace(f"{TARGET.parents[2]}/", "")
    (TARGET / f"{name}.json").write_text(text + "\n")


if __name__ == "__main__":
    asyncio.run(main())
