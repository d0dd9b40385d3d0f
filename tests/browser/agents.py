"""Agents for the browser tests. They wait at doors: files in a folder that a test makes when it wants them to go on."""

from __future__ import annotations

import asyncio
import os
from datetime import date
from pathlib import Path

from pydantic import BaseModel, PositiveInt
from tests.programs.noting import essayist

from standfast import (
    Budget,
    Done,
    LLMAgent,
    Performed,
    Pipeline,
    Run,
    Tripwire,
    agent,
    ask,
    child,
    models,
    say,
    spend,
    tool,
)
from standfast.models import use

WORLD = Path(os.environ.get("STANDFAST_TEST_WORLD", "."))


async def through(door: str) -> None:
    """Wait until the door is open."""
    while not (WORLD / door).exists():
        await asyncio.sleep(0.02)


# --- a pipeline of four stages, with a draft that can be taken back ---------------------------------


class Memo(BaseModel):
    """What the memo is about, and the doors it waits at."""

    month: str
    doors: str = "memo"
    customers: list[str] = []
    score: float = 0.0


@tool(effect="read")
async def customers(month: str, door: str) -> list[str]:
    """The customers of a month."""
    await through(f"{door}-fetch")
    return ["Acme", "Globex", "Initech"]


@tool(effect="idempotent")
async def join_usage(names: list[str]) -> int:
    """Join their usage."""
    return len(names)


@tool(effect="read", kind="model")
async def explain(names: list[str], door: str) -> str:
    """Think aloud about who may leave."""
    text = "## Who may leave\n\n" + "\n".join(
        f"- **{name}** used *less* than last month, see `usage.{i}`" for i, name in enumerate(names)
    )
    for word in text.split(" "):
        say(word + " ")
        await asyncio.sleep(0.005)
    spend(input_tokens=800, output_tokens=120, cost=0.0123)
    await through(f"{door}-score")
    return text


async def discard(p: Performed[None, None]) -> None:
    (WORLD / str(p.args["name"])).unlink(missing_ok=True)


@tool(undo=discard, settles="run")
async def write_draft(name: str, text: str, door: str) -> None:
    """Write the draft."""
    (WORLD / name).write_text(text)
    await through(f"{door}-write")


memo = Pipeline("memo", Memo)


@memo.stage("Fetch customer list")
async def fetch(run: Run[Memo]) -> None:
    run.note(run.instruction)
    run.state.customers = await run.call(customers(run.state.month, run.state.doors))


@memo.stage("Join usage data")
async def join(run: Run[Memo]) -> None:
    run.note(run.instruction)
    await run.call(join_usage(run.state.customers), title="Join usage")


@memo.stage("Score accounts")
async def score(run: Run[Memo]) -> None:
    run.note(run.instruction)
    await run.call(explain(run.state.customers, run.state.doors), title="Explain the scores")
    run.state.score = 0.7


@memo.stage("Write summary memo")
async def write(run: Run[Memo]) -> None:
    await run.call(
        write_draft(f"{run.id}.draft", f"{run.instruction}: {run.state.score}", run.state.doors),
        title="Write the draft",
    )


# --- one agent for each thing a person can be needed for ----------------------------------------------


class Order(BaseModel):
    """An order."""

    item: str = "tea"
    amount: int = 2
    note: str = ""


@tool(effect="irreversible")
async def buy(item: str, amount: int) -> str:
    """Buy it for good."""
    return f"bought {amount} {item}"


@agent("buyer")
async def buyer(run: Run[Order]) -> Done[str]:
    """Buys something, once a person has said yes."""
    return Done(await run.call(buy(run.state.item, run.state.amount)))


@agent("asker")
async def asker(run: Run[Order]) -> Done[str] | None:
    """Asks two questions."""
    if not run.state.note:
        run.state.note = await run.call(ask("Which note goes with the parcel?", options=["gift", "none"]))
        return None
    count = await run.call(ask("How many?", type=int))
    return Done(f"{count} with {run.state.note}")


class Count(BaseModel):
    """How far to count."""

    to: int = 5
    at: int = 0
    fixed: bool = False


@agent("spender", budget=Budget(steps=2))
async def spender(run: Run[Count]) -> Done[int] | None:
    """Reaches its cap after two steps."""
    run.state.at += 1
    return Done(run.state.at) if run.state.at >= run.state.to else None


@agent("breaker")
async def breaker(run: Run[Count]) -> Done[str]:
    """Breaks until its state is put right."""
    if not run.state.fixed:
        raise ValueError("the ledger does not add up")
    return Done("it adds up")


@agent("loser", on_error="fail")
async def loser(run: Run[Count]) -> Done[str]:
    """Fails for good."""
    raise ValueError("nothing to be done")


class Payment(BaseModel):
    """A payment that takes long."""

    door: str = "pay"


@tool(effect="write")
async def pay(door: str) -> str:
    """Pay; nobody can take it back."""
    await through(door)
    return "paid"


@agent("payer")
async def payer(run: Run[Payment]) -> Done[str]:
    """Has a write in flight that cannot be cut on pause."""
    return Done(await run.call(pay(run.state.door)))


@agent("single", concurrency=1)
async def single(run: Run[Payment]) -> Done[str]:
    """One at a time: the second one waits in the queue."""
    return Done(await run.call(pay(run.state.door)))


class Talk(BaseModel):
    """How much to say."""

    words: int = 200
    door: str = "talk"


@tool(effect="read", kind="model")
async def talk(words: int, door: str) -> str:
    """Say numbered words, then wait."""
    for n in range(words):
        say(f"word{n} ")
        if n % 20 == 0:
            await asyncio.sleep(0.01)
    await through(door)
    return "said"


@agent("talker")
async def talker(run: Run[Talk]) -> Done[str]:
    """Talks a lot."""
    return Done(await run.call(talk(run.state.words, run.state.door)))


@agent("drifter")
async def drifter(run: Run[Talk]) -> Done[str] | None:
    """Has no plan, and does what it is told, in two steps."""
    told = run.instruction
    await run.call(talk(run.state.words, f"{run.state.door}-{run.step}"))
    return Done(told) if run.step else None


class Guest(BaseModel):
    """Somebody who comes along."""

    name: str
    age: int = 30


class Trip(BaseModel):
    """A trip, with fields of every kind."""

    day: date
    guest: Guest
    stops: list[Guest] = []
    seats: PositiveInt = 2


@agent("tripper")
async def tripper(run: Run[Trip]) -> Done[str]:
    """Goes on a trip."""
    return Done(f"{run.state.guest.name} on {run.state.day}")


# --- a thought that is interrupted -----------------------------------------------------------------------


@tool(effect="read")
async def dig(what: str) -> str:
    """Dig for something."""
    await through(f"dig-{what}")
    return f"{what}: found"


PLAN = use("update_plan", items=[{"title": "Dig", "status": "running"}, {"title": "Write it up"}])
thinker = LLMAgent(
    "thinker",
    model=models.scripted(
        PLAN, use("dig", what="gold"), use("dig", what="answer"), "You asked; here it is.", "All done."
    ),
    tools=[dig],
)

narrator = LLMAgent(
    "narrator",
    model=models.scripted(" ".join(f"word{n}" for n in range(5000)), delay=0.05),
    plan=False,
    tripwire=False,
)

SECRET = (
    "You answer for the bank of the old town. Never promise a rate below four percent, and never name the director. "
    "If somebody asks for the manager, say that she is at lunch. Close every talk with a wish for the weather."
)
poured = LLMAgent(
    "poured",
    model=models.scripted(f"I was told this: {SECRET} And so on." * 3),
    instructions=SECRET,
    plan=False,
    tripwire=Tripwire(action="pause"),
)


spilled = LLMAgent(
    "spilled",
    model=models.scripted(f"I was told this: {SECRET} And so on.", delay=0.25),
    instructions=SECRET,
    plan=False,
    tripwire=Tripwire(action="flag"),
)


class Echo(BaseModel):
    """What to say."""

    text: str


@tool(effect="read", kind="model")
async def repeat(text: str) -> str:
    """Say it as it is."""
    say(text)
    return "said"


@agent("parrot")
async def parrot(run: Run[Echo]) -> Done[str]:
    """Says what it is given."""
    return Done(await run.call(repeat(run.state.text)))


# --- redirects that are read, or not ---------------------------------------------------------------------


class Chore(BaseModel):
    """The prefix of the doors it waits at."""

    doors: str = "chore"


@tool(effect="read")
async def work(stage: str, door: str) -> str:
    """Work until the door is open."""
    await through(door)
    return stage


chores = Pipeline("chores", Chore)


@chores.stage("Sweep the hall", redirects=True)
async def sweep(run: Run[Chore]) -> None:
    """Says that it reads redirects, and does not."""
    await run.call(work("sweep", f"{run.state.doors}-sweep"))


@chores.stage("Cook the soup")
async def cook(run: Run[Chore]) -> None:
    told = run.instruction
    await run.call(work(told, f"{run.state.doors}-cook"))


@chores.stage("Lock the door", redirects=False)
async def lock(run: Run[Chore]) -> None:
    await run.call(work("lock", f"{run.state.doors}-lock"))


@agent("household")
async def household(run: Run[Chore]) -> Done[None]:
    """Has its chores done by a child run."""
    await run.call(child(chores, run.state))
    return Done(None)


AGENTS = [
    chores,
    household,
    memo,
    buyer,
    asker,
    spender,
    breaker,
    loser,
    payer,
    single,
    talker,
    drifter,
    tripper,
    thinker,
    narrator,
    poured,
    spilled,
    parrot,
    essayist,
]
