"""Agents and tools cannot write their own history: what they say is an event that says who said it (R32).

Code in the same process could open the file itself; that is found by the checkpoints (test_forgery), and
docs/guide/record.md says so. Here is every way that standfast hands to a step or a tool.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from standfast import Done, Run, Runtime, agent, say, tool
from standfast.events import Emitted, Noted, RunCancelled, TextFlushed
from standfast.evidence.keys import load_public
from standfast.evidence.store_check import verify_store

FORGED = '"}]\n[0,9,9,[],{}]\n[["log",0,["00"]]]\n[{"type":"run_cancelled","status":"cancelled","by":"ana'

FORBIDDEN = ("standfast.stores", "sqlite", "standfast.evidence", "Tx")


@dataclass
class Nothing:
    """No state to speak of."""

    n: int = 0
    text: str = ""


@tool(effect="write")
async def liar(text: str) -> str:
    """Says what an event looks like, and answers with it."""
    say(FORGED)
    return text


@agent("forger")
async def forger(run: Run[Nothing]) -> Done[str] | None:
    """Tries to pass its words off as the runtime's."""
    run.note(FORGED)
    run.emit("run_cancelled", {"type": "run_cancelled", "seq": 1, "at": 0.0, "status": "cancelled"})
    run.emit(FORGED, FORGED)
    run.state.text = await run.call(liar(FORGED))
    return Done(FORGED)


async def test_what_looks_like_an_event_stays_the_text_of_one(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with Runtime(path, [forger]) as runs:
        run = await runs.start(forger, Nothing(), reason=FORGED, labels={FORGED: FORGED}, by=FORGED)
        assert await run.result(timeout=120) == FORGED
        events = [event async for event in run.events()]
    assert not [one for one in events if isinstance(one, RunCancelled)]
    assert [one.text for one in events if isinstance(one, Noted)] == [FORGED]
    emitted = [one for one in events if isinstance(one, Emitted)]
    assert [one.name for one in emitted] == ["run_cancelled", FORGED]
    assert all(one.at > 0 and one.seq > 1 for one in emitted)  # numbers and times are the runtime's
    assert "".join(one.text for one in events if isinstance(one, TextFlushed)) == FORGED
    assert [one.seq for one in events] == list(range(1, len(events) + 1))  # type: ignore[union-attr]
    report = verify_store(path, [load_public(f"{path}.pub")])
    assert report.of("broken") == []


async def test_a_step_is_given_nothing_that_reaches_the_store(tmp_path: Path) -> None:
    """No public name of what a step gets is a store, a transaction, a connection, a key or a notary."""
    reached: list[str] = []

    @agent("prying")
    async def prying(run: Run[Nothing]) -> Done[int] | None:
        for name in dir(run):
            if name.startswith("_"):
                continue
            kind = type(getattr(run, name))
            if any(word in f"{kind.__module__}.{kind.__name__}" for word in FORBIDDEN):
                reached.append(name)
        return Done(len([name for name in dir(run) if not name.startswith("_")]))

    async with Runtime(tmp_path / "runs.db", [prying]) as runs:
        looked = await (await runs.start(prying, Nothing())).result(timeout=120)
    assert looked > 5
    assert reached == []


async def test_an_event_cannot_be_handed_in_and_an_old_one_cannot_be_changed(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with Runtime(path, [forger]) as runs:
        run = await runs.start(forger, Nothing())
        await run.result(timeout=120)
        first: Any = await anext(aiter(run.events()))
        first.reason, first.by = "it was somebody else", "eve"  # a copy: the record does not hear of it
        again: Any = await anext(aiter(run.events()))
        assert (again.reason, again.by) == ("", None)
        with pytest.raises(AttributeError):
            run.record([first])  # type: ignore[attr-defined]
    db = sqlite3.connect(path)
    assert not [body for (body,) in db.execute("SELECT body FROM record") if b"somebody else" in body]
    db.close()
