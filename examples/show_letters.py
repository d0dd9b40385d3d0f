"""The pipeline of the show, and the process that drives it: python -m examples.show_letters STORE WORLD PACE."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel

from standfast import Performed, Pipeline, Run, Runtime, idempotency_key, progress, say, tool, use

CUSTOMERS = ["Acme", "Globex", "Initech", "Hooli", "Umbrella", "Stark"]


@dataclass
class World:
    """Everything outside the run: a file to which each real effect adds a line."""

    path: Path
    pace: float = 1.0

    def did(self, what: str, about: str) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"did": what, "about": about, "key": idempotency_key()}) + "\n")

    async def takes(self, seconds: float) -> None:
        await asyncio.sleep(seconds * self.pace)


class Letters(BaseModel):
    month: str
    customers: list[str] = []
    folder: str = ""
    letter: str = ""
    booked: int = 0


@tool(effect="read")
async def fetch_customers(month: str) -> list[str]:
    world = use(World)
    for n, _ in enumerate(CUSTOMERS):
        progress(n / len(CUSTOMERS), f"page {n} of {month}")
        await world.takes(0.2)
    return CUSTOMERS


async def discard_draft(call: Performed[str, None]) -> None:
    use(World).did("discard draft", call.args["title"])


@tool(undo=discard_draft, settles="run")  # a draft counts as in flight until the run is done
async def create_draft(title: str) -> str:
    world = use(World)
    await asyncio.sleep(1.8)  # at any pace: the show pauses the run in here
    world.did("create draft", title)
    return f"drafts/{title}"


@tool  # a write without undo and without probe: after a crash only a person knows
async def tell_team(text: str) -> str:
    world = use(World)
    await world.takes(0.4)
    world.did("tell team", text)
    await asyncio.sleep(60)  # the answer is slow to come back: the show kills this process in here
    return "message 17"


@tool(effect="idempotent", kind="model")  # cut and repeated like a model's stream
async def write_letter(instruction: str) -> str:
    world = use(World)
    short = "short" in instruction or "bullet" in instruction
    text = (
        "* We miss you. * 20 % off. * Reply YES."
        if short
        else "Dear valued customer, it is with the deepest regret that we"
    )
    for word in text.split(" "):
        say(word + " ")
        await world.takes(0.16 if not short else 0.06)
    while not short:  # it would go on like this for pages
        await world.takes(0.2)
    return text


async def free_slot(call: Performed[str, None]) -> None:
    use(World).did("free slot", call.args["customer"])


@tool(undo=free_slot)
async def book_slot(customer: str) -> str:
    world = use(World)
    world.did("book slot", customer)
    if customer == CUSTOMERS[2]:
        await asyncio.sleep(60)  # the show cancels the run in here
    await world.takes(0.7)
    return f"slot for {customer}"


letters = Pipeline("letters", Letters)


@letters.stage("Fetch the customers who left")
async def fetch(run: Run[Letters]) -> None:
    run.state.customers = await run.call(fetch_customers(run.state.month))


@letters.stage("Open a draft")
async def draft(run: Run[Letters]) -> None:
    run.state.folder = await run.call(create_draft(f"{run.state.month}-letter"), title=f"{run.state.month}-letter")


@letters.stage("Tell the team")
async def tell(run: Run[Letters]) -> None:
    await run.call(tell_team(f"{len(run.state.customers)} letters are on their way"))


@letters.stage("Write a formal letter")
async def write(run: Run[Letters]) -> None:
    run.state.letter = await run.call(write_letter(run.instruction))


@letters.stage("Book a slot for each letter")
async def book(run: Run[Letters]) -> None:
    for customer in run.state.customers:
        await run.call(book_slot(customer), title=customer)
        run.state.booked += 1


async def drive(store: str, world: World) -> None:
    """Drive until whoever started us closes our standard input."""
    async with Runtime(store, agents=[letters], provide={World: world}):
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    # Imported by its own name: a tool belongs to its module, and this one is called __main__ now.
    from examples import show_letters

    store, world, pace = sys.argv[1:]
    asyncio.run(show_letters.drive(store, show_letters.World(Path(world), float(pace))))
