"""The four-step churn memo: fetch, join, score, write. Pause it anywhere, redirect a line, cancel it in the middle.

It writes a draft that is taken back when the run is cancelled, and holds a lock that is let go at every end. It sends
nothing, unless `send_to` names somebody: then it asks first, and "sends" into the outbox of the demo folder.
"""

from __future__ import annotations

import json
import re
import zlib
from pathlib import Path
from typing import Any

from examples.agents.thinking import thinker
from examples.agents.world import folder, place, take_time
from pydantic import BaseModel

from standfast import CallFailed, NotPerformed, Performed, Pipeline, Run, idempotency_key, progress, say, tool
from standfast.models import Line

CUSTOMERS = ["Acme", "Globex", "Initech", "Hooli", "Umbrella", "Stark", "Wayne", "Wonka"]
AT_RISK = 0.5


class Customer(BaseModel):
    """What is known of one customer, as far as the run has got."""

    name: str
    logins: int = 0
    tickets: int = 0
    risk: float = 0.0


class Churn(BaseModel):
    """Which month, and to whom the memo goes (nobody, if empty)."""

    month: str = "May"
    send_to: str = ""
    customers: list[Customer] = []
    memo: str = ""


# --- tools -------------------------------------------------------------------------------------------


async def let_go(p: Performed[str, None]) -> None:
    """The lock is ours only if our key is in it."""
    lock = place("locks", f"churn-{p.args['month']}.lock")
    if lock.exists() and _holder(lock)[0] == p.key:
        lock.unlink()


def _holder(lock: Path) -> tuple[str, str]:
    """The key of the call that took the lock, and its run."""
    key, _, run = lock.read_text().partition(" ")
    return key, run


@tool(effect="write", undo=let_go, settles="never")
async def lock_month(month: str, run: str) -> str:
    """Nobody else writes about this month meanwhile; let go at every end of the run."""
    lock = place("locks", f"churn-{month}.lock")
    try:
        with lock.open("x") as file:
            file.write(f"{idempotency_key()} {run}")
    except FileExistsError:
        key, holder = _holder(lock)
        if key != idempotency_key():
            who = f"run {holder}" if holder else "another run"
            words = f"{who} writes about {month}: when it has ended, or you have cancelled it, resume this one"
            raise NotPerformed(f"{words} ({lock})") from None
    return str(lock)


@tool(effect="read")
async def fetch_customers(month: str) -> list[str]:
    """The customers of a month, page by page."""
    for n, name in enumerate(CUSTOMERS, 1):
        await take_time(0.25)
        say(f"{name}\n")
        progress(n / len(CUSTOMERS), f"{n} of {len(CUSTOMERS)} pages")
    return CUSTOMERS


@tool(effect="read")
async def usage_of(customer: str, month: str) -> tuple[int, int]:
    """Logins and tickets of a customer; always the same for the same month."""
    await take_time(0.8)
    number = zlib.crc32(f"{customer} {month}".encode())
    return number % 40, number // 40 % 9


@tool(effect="idempotent")
async def score(customer: str, logins: int, tickets: int) -> float:
    """How likely it is that they leave, from 0 to 1."""
    await take_time(0.3)
    return round(min(1.0, max(0.0, 0.7 - logins / 50 + tickets / 15)), 2)


async def old_draft(month: str, text: str) -> str | None:
    path = place("drafts", f"churn-{month}.md")
    return path.read_text() if path.exists() else None


async def take_back(p: Performed[str, str | None]) -> None:
    """The draft is as it was before: another text, or not there."""
    path = place("drafts", f"churn-{p.args['month']}.md")
    if p.before is None:
        path.unlink(missing_ok=True)
    else:
        path.write_text(p.before)


@tool(effect="write", before=old_draft, undo=take_back, settles="run", grace=5.0)
async def write_draft(month: str, text: str) -> str:
    """Write the memo into the drafts; taken back if the run is cancelled."""
    path = place("drafts", f"churn-{month}.md")
    await take_time(1.5)
    path.write_text(text)
    return str(path)


def question(args: dict[str, Any]) -> str:
    """What a person is asked before the memo leaves."""
    return f"Send the memo to {args['to']}?"


@tool(effect="irreversible", confirm=question)
async def send_memo(to: str, text: str) -> str:
    """Put the memo into the outbox; nobody takes it out again."""
    path = place("outbox", f"{idempotency_key()}.json")
    path.write_text(json.dumps({"to": to, "text": text}))
    return str(path)


# --- stages ------------------------------------------------------------------------------------------

MEMO: Line = (
    "Churn memo. Most customers are well. Those with few logins and many tickets are at risk, and they should hear "
    "from us this week: call them, ask what stands in their way, and offer help with the first steps. The rest needs "
    "no action now. We look at the numbers again next month."
)
writer = thinker(MEMO)

churn = Pipeline("churn", Churn)
churn.description = f"The four-step churn memo; its prose is by {writer.name}."


@churn.stage("Fetch customer list")
async def fetch(run: Run[Churn]) -> None:
    """The lock first: what follows is for this run alone."""
    await run.call(lock_month(run.state.month, run.id), title="take the lock")
    names = await run.call(fetch_customers(run.state.month))
    wanted = named_in(run.instruction, names)
    run.state.customers = [Customer(name=name) for name in wanted]


def named_in(instruction: str, names: list[str]) -> list[str]:
    """A redirect of the first stage may name customers ("only Acme and Hooli"); otherwise all of them."""
    return [name for name in names if name.lower() in instruction.lower()] or names


@churn.stage("Join usage data", redirects=False)  # there is but one way to join them
async def join(run: Run[Churn]) -> None:
    """Three at a time."""
    found = await run.call_all([usage_of(c.name, run.state.month) for c in run.state.customers], limit=3)
    for customer, numbers in zip(run.state.customers, found, strict=True):
        if isinstance(numbers, CallFailed):
            run.note(f"no usage of {customer.name}: {numbers.message}")
        else:
            customer.logins, customer.tickets = numbers


@churn.stage("Score churn risk")
async def rate(run: Run[Churn]) -> None:
    """One score a customer; a redirect may say from which one on they are at risk ("at risk from 0.7 on")."""
    limit = limit_in(run.instruction)
    for customer in run.state.customers:
        customer.risk = await run.call(score(customer.name, customer.logins, customer.tickets))
    at_risk = [c.name for c in run.state.customers if c.risk >= limit]
    run.note(f"at risk, from {limit} on: {', '.join(at_risk) or 'nobody'}")


def limit_in(instruction: str) -> float:
    """The first number between 0 and 1 in the instruction, or the usual limit."""
    found = re.search(r"\b(?:0?\.\d+|[01](?:\.0+)?)\b", instruction)
    return float(found[0]) if found else AT_RISK


@churn.stage("Write summary memo")
async def write(run: Run[Churn]) -> None:
    """The title is the instruction: a redirect of this stage changes what the model is asked."""
    table = "\n".join(f"- {c.name}: risk {c.risk}, {c.logins} logins, {c.tickets} tickets" for c in run.state.customers)
    asked = f"{run.instruction}. Write a short memo on customer churn in {run.state.month} from these numbers:\n{table}"
    reply = await run.call(writer(asked), title="think about the memo")
    run.state.memo = f"# {run.instruction}: {run.state.month}\n\n{reply.text.strip()}\n\n{table}\n"
    await run.call(write_draft(run.state.month, run.state.memo), title="write the draft")
    if run.state.send_to:
        await run.call(send_memo(run.state.send_to, run.state.memo), title="send the memo")


def draft_of(month: str) -> Path:
    """Where the draft is, if there is one."""
    return folder() / "drafts" / f"churn-{month}.md"
