"""Agents under test: a program of small operations, each a kind of call that a stop treats differently."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import BaseModel, Field
from tests.races.world import Body, Process

from standfast import (
    Call,
    CallDenied,
    CallFailed,
    CannotUndo,
    ChildCancelled,
    Done,
    Happened,
    Idle,
    Log,
    NotHappened,
    NotPerformed,
    Performed,
    Run,
    agent,
    ask,
    child,
    idempotency_key,
    say,
    sleep,
    tool,
    use,
)

PAUSES = (0.0, 0.0, 0.0, 0.001, 0.01, 0.06, 0.3, 1.0, 5.0)


async def _pause(process: Process) -> None:
    seconds = process.world.rng.choice(PAUSES)
    if seconds or process.world.rng.random() < 0.7:
        await asyncio.sleep(seconds)


async def _act(name: str, n: int) -> int:
    process = use(Process)
    body = Body(process, name, idempotency_key())
    try:
        await _pause(process)
        body.see("effect")
        say(f"<{n}>")
        await _pause(process)
    except asyncio.CancelledError:
        body.end("cut")
        raise
    body.end("finish")
    return n * 10


async def _undo(p: Performed[int, Any]) -> None:
    process = use(Process)
    body = Body(process, "", p.key, "undo")
    body.open = False  # an undo is no body of the call
    await asyncio.sleep(process.world.rng.choice((0.0, 0.0, 0.01, 1.0)))
    if p.args["n"] % 17 == 16:
        raise CannotUndo("it is out of reach")
    if process.world.rng.random() < 0.15:
        raise RuntimeError("the other side is busy")
    body.see("undone")


async def _undo_needs_before(p: Performed[int, int]) -> None:
    assert p.before == -p.args["n"], f"before was lost: {p}"
    await _undo(p)


async def _before(n: int) -> int:
    await _pause(use(Process))
    return -n


async def _probe(p: Performed[int, Any]) -> Happened | NotHappened | None:
    world = use(Process).world
    await asyncio.sleep(world.rng.choice((0.0, 0.01, 4.0)))
    if world.rng.random() < 0.25:
        return None
    if world.happened(p.key):
        return Happened(p.args["n"] * 10)
    world.note("said_not", p.key, data=world.going(p.key))
    return NotHappened()


# --- tools -------------------------------------------------------------------------------------------


@tool(effect="read")
async def look(n: int) -> int:
    return await _act("look", n)


@tool(effect="read", retries=2)
async def flaky(n: int) -> int:
    if use(Process).world.rng.random() < 0.3:
        raise RuntimeError("try again")
    return await _act("flaky", n)


@tool(effect="idempotent")
async def tally(n: int) -> int:
    return await _act("tally", n)


@tool(effect="idempotent", timeout=0.4)
async def owned(n: int) -> int:
    return await _act("owned", n)


@tool(effect="read")
async def deaf(n: int) -> int:
    """Does not want to hear of cancellation, for a while."""
    process = use(Process)
    body = Body(process, "deaf", idempotency_key())
    for _ in range(process.world.rng.choice((1, 2, 6))):
        try:
            await _pause(process)
        except asyncio.CancelledError:
            continue
    body.end("finish")
    return n * 10


@tool
async def send(n: int) -> int:
    return await _act("send", n)


@tool(probe=_probe)
async def traced(n: int) -> int:
    return await _act("traced", n)


@tool(undo=_undo_needs_before, before=_before)
async def write(n: int) -> int:
    return await _act("write", n)


@tool(undo=_undo, settles="run", probe=_probe)
async def draft(n: int) -> int:
    return await _act("draft", n)


@tool(undo=_undo, settles="never")
async def lock(n: int) -> int:
    return await _act("lock", n)


@tool(undo=_undo)
async def broken(n: int) -> int:
    """Raises after its effect: nobody knows what it left."""
    await _act("broken", n)
    raise RuntimeError("broken")


@tool(undo=_undo)
async def unwilling(n: int) -> int:
    raise NotPerformed("not today")


@tool(effect="irreversible")
async def pay(n: int) -> int:
    return await _act("pay", n)


TOOLS: dict[str, Callable[[int], Call[int]]] = {
    t.name: t for t in (look, flaky, tally, owned, deaf, send, traced, write, draft, lock, broken, unwilling, pay)
}
REPEATABLE = {"look", "flaky", "tally", "owned", "deaf"}
UNDOABLE = {"write", "draft", "lock", "broken", "unwilling"}
SETTLES = {"draft": "run", "lock": "never"}


# --- agents ------------------------------------------------------------------------------------------


class Op(BaseModel):
    do: str
    n: int = 0
    many: list[Op] = Field(default_factory=list["Op"])


class Work(BaseModel):
    program: list[list[Op]]
    reads_mail: bool = True
    at: int = 0
    trace: list[str] = Field(default_factory=list[str])
    mail: list[str] = Field(default_factory=list[str])
    told: Log[str] = Field(default_factory=Log[str])
    note: str = ""


async def one(run: Run[Work], op: Op) -> str:
    """Do one operation; what it says is what the model expects."""
    if op.do in TOOLS:
        return f"{op.do} {op.n} {await _outcome(run.call(TOOLS[op.do](op.n)))}"
    if op.do == "par":
        results = await run.call_all([TOOLS[o.do](o.n) for o in op.many])
        return f"par {op.n} " + ",".join(_word(r) if isinstance(r, CallFailed) else str(r) for r in results)
    if op.do == "ask":
        return f"ask {op.n} {await run.call(ask(f'How much is {op.n}?', type=int))}"
    if op.do == "sleep":
        await run.call(sleep(op.n % 3))
        return f"sleep {op.n}"
    if op.do == "child":
        return f"child {op.n} {await _outcome(run.call(child(helper, Work(program=[[o] for o in op.many]))))}"
    if op.do == "swallow":
        return f"swallow {op.n} {await _swallowing(run, op.n)}"
    if op.do == "stray":
        return f"stray {op.n} {await _stray(run, op.n)}"
    if op.do == "log":
        run.state.told.append(f"told {op.n}")
        return f"log {op.n} {len(run.state.told)}"
    raise AssertionError(op)


async def _outcome(call: Awaitable[int]) -> str:
    try:
        return str(await call)
    except CallFailed as error:
        return _word(error)


def _word(error: CallFailed) -> str:
    if isinstance(error, CallDenied):
        return "denied"
    return "child cancelled" if isinstance(error, ChildCancelled) else f"failed:{error.type}"


async def _swallowing(run: Run[Work], n: int) -> str:
    """Catches everything, cancellation too, and goes on."""
    try:
        first = str(await run.call(look(n)))
    except BaseException:  # noqa: BLE001 - that is what it is for
        first = "swallowed"
    try:
        second = str(await run.call(send(n)))
    except BaseException:  # noqa: BLE001
        second = "swallowed"
    return f"{first} {second}"


async def _stray(run: Run[Work], n: int) -> str:
    """Leaves a task behind that goes on calling."""

    async def stray() -> None:
        await asyncio.sleep(0.02)
        await run.call(tally(n + 500))

    asyncio.ensure_future(stray())  # noqa: RUF006 - left behind on purpose
    return str(await run.call(look(n)))


async def _step(run: Run[Work]) -> Done[int] | Idle | None:
    state = run.state
    if state.reads_mail:
        state.mail += [*run.take_redirects(), *(m.text for m in run.take_messages())]
    if state.at >= len(state.program):
        return Done(len(state.trace))
    for op in state.program[state.at]:
        if op.do == "idle":
            continue
        state.trace.append(await one(run, op))
    state.at += 1
    return Idle() if any(op.do == "idle" for op in state.program[state.at - 1]) else None


helper = agent("helper")(_step)
worker = agent("worker")(_step)
AGENTS = [worker, helper]
