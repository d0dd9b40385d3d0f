"""Tools that ask, tools that may be in doubt, and the agents that use them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from pydantic import BaseModel

from standfast import (
    CallDenied,
    CallFailed,
    CallTimedOut,
    Done,
    Happened,
    NotHappened,
    Performed,
    Run,
    agent,
    ask,
    idempotency_key,
    tool,
    use,
)
from standfast.testing import Lab, lab


class World:
    """What has really happened."""

    def __init__(self) -> None:
        self.paid: list[int] = []
        self.sent: list[tuple[str, str]] = []
        self.keys: list[str] = []
        self.probe: Callable[[], Any] = lambda: None
        self.probed: list[Performed[Any, Any]] = []
        self.open = asyncio.Event()
        self.late = asyncio.Event()


class Note(BaseModel):
    """A state with room for everything these agents learn."""

    to: str = "ann"
    amount: int = 5
    heard: list[str] = []


async def ask_bank(p: Performed[str, None]) -> Happened | NotHappened | None:
    world = use(World)
    world.probed.append(p)
    answer = world.probe()
    return await answer if asyncio.iscoroutine(answer) else answer


async def _pay(amount: int) -> str:
    world = use(World)
    world.paid.append(amount)
    world.keys.append(idempotency_key())
    return f"paid {amount}"


pay = tool(effect="write", name="pay")(_pay)
pay_probed = tool(effect="write", probe=ask_bank, grace=0.2, name="pay_probed")(_pay)
pay_idempotent = tool(effect="idempotent", name="pay_idempotent")(_pay)


@tool(effect="irreversible")
async def send(to: str, text: str) -> str:
    use(World).sent.append((to, text))
    return f"sent to {to}"


def over_ten(amount: int) -> bool | str:
    return f"Really pay {amount}?" if amount > 10 else False


@tool(effect="write", confirm=over_ten)
async def spend_money(amount: int) -> str:
    return await _pay(amount)


@tool(effect="write", confirm=lambda args: args["amount"] > 10)
async def spend_by_dict(amount: int) -> str:
    return await _pay(amount)


@tool(effect="irreversible", confirm=False)
async def send_unasked(to: str) -> None:
    use(World).sent.append((to, ""))


@tool(effect="read")
async def look(name: str) -> str:
    await use(World).open.wait()
    return f"saw {name}"


@tool(effect="read")
async def look_late() -> str:
    await use(World).late.wait()
    return "saw it late"


@agent("payer", tools=[pay, pay_probed, pay_idempotent])
async def payer(run: Run[Note]) -> Done[str]:
    tools = {"ann": pay, "bob": pay_probed, "eve": pay_idempotent}
    return Done(await run.call(tools[run.state.to](run.state.amount)))


@agent("sender")
async def sender(run: Run[Note]) -> Done[str]:
    try:
        return Done(await run.call(send(run.state.to, "hello")))
    except CallDenied as error:
        return Done(f"not executed: {error.message}")


@agent("spender")
async def spender(run: Run[Note]) -> Done[str]:
    return Done(await run.call(spend_money(run.state.amount)))


@agent("dict_spender")
async def dict_spender(run: Run[Note]) -> Done[str]:
    return Done(await run.call(spend_by_dict(run.state.amount)))


@agent("quiet")
async def quiet(run: Run[Note]) -> Done[None]:
    return Done(await run.call(send_unasked(run.state.to)))


@agent("asker")
async def asker(run: Run[Note]) -> Done[str]:
    colour = await run.call(ask("Which colour?", ["red", "blue"]))
    number = await run.call(ask("How many?", type=int))
    return Done(f"{number} {colour}")


@agent("patient")
async def patient(run: Run[Note]) -> Done[str]:
    """Asks with a time limit, with and without a default."""
    colour = await run.call(ask("Which colour?", ["red", "blue"], timeout=60, default="red"))
    try:
        await run.call(ask("Sure?", type=bool, timeout=60))
    except CallTimedOut as error:
        return Done(f"{colour}, {type(error).__name__}")
    return Done(f"{colour}, answered")


@agent("juggler")
async def juggler(run: Run[Note]) -> Done[str]:
    """A question beside work."""
    answers = await run.call_all([ask("Go?", ["yes", "no"]), look("a"), send("ann", "hi")])
    return Done(", ".join(a.message if isinstance(a, CallFailed) else a for a in answers))


@agent("busy")
async def busy(run: Run[Note]) -> Done[str]:
    """A question beside reads and a write, one after the other."""

    async def work() -> str:
        await run.call(look("a"))
        paid = await run.call(pay(run.state.amount))
        await run.call(look_late())
        return paid

    answer, paid = await asyncio.gather(run.call(ask("Go?", ["yes", "no"])), work())
    return Done(f"{answer}, {paid}")


@agent("beside")
async def beside(run: Run[Note]) -> Done[str]:
    """Asks, and sends twice meanwhile."""

    async def work() -> None:
        await run.call(look("a"))
        await run.call(send_unasked("ann"))
        await run.call(send_unasked("bob"))

    asked, _ = await asyncio.gather(run.call(ask("Which?")), work())
    return Done(asked)


@agent("impatient")
async def impatient(run: Run[Note]) -> Done[str]:
    """Asks, and does not wait for the answer."""
    asked = asyncio.ensure_future(run.call(ask("Which?")))
    await run.call(look("a"))
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)
    return Done("unasked")


AGENTS = [payer, sender, spender, dict_spender, quiet, asker, patient, juggler, busy, beside, impatient]


@asynccontextmanager
async def a_world(**options: Any) -> AsyncIterator[tuple[Lab, World]]:
    world = World()
    async with lab(AGENTS, provide={World: world}, **options) as runs:
        yield runs, world
