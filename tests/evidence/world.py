"""A store with something of everything in it, signed and anchored: what tampering is tried on."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from standfast import Done, Log, Run, Runtime, agent, ask, tool
from standfast.abc import Tx
from standfast.evidence.checkpoints import position_of
from standfast.evidence.keys import load_public
from standfast.evidence.notary import Notary
from standfast.evidence.report import Report
from standfast.evidence.store_check import verify_store
from standfast.house_events import AttemptRefused
from standfast.tokens import make_token, revoke_token


@dataclass
class Letters:
    """What the writer has sent."""

    to_send: int = 3
    sent: int = 0
    log: Log[str] = field(default_factory=Log[str])


async def unsend(number: int) -> None:
    """Taken back."""


@tool(effect="write", undo=unsend, settles="run")
async def send(number: int) -> str:
    """Send a letter."""
    return f"letter {number} was sent"


@tool(effect="read")
async def look(number: int) -> str:
    """Look whether it is there."""
    return f"letter {number} is there"


@agent("writer")
async def writer(run: Run[Letters]) -> Done[int] | None:
    """Sends letters one by one, and asks before the last."""
    s = run.state
    await run.call(send(s.sent))
    await run.call(look(s.sent))
    s.sent += 1
    s.log.append(f"sent letter {s.sent}")
    if s.sent == s.to_send:
        await run.call(ask("Was that all?"))
        return Done(s.sent)
    return None


@tool(effect="read")
async def long_look() -> str:
    """Takes its time."""
    await asyncio.sleep(60)
    return "seen"


@agent("waiter")
async def waiter(run: Run[Letters]) -> Done[int] | None:
    """Sends a letter, and then is under way for a long time."""
    await run.call(send(0))
    await run.call(long_look())
    return Done(1)


def fill_house(tx: Tx) -> None:
    """Somebody who was refused, and two tokens of which one counts no longer."""
    tx.note(AttemptRefused(what="cancel", run="r", why="no right", by="eve"))
    make_token(tx, "t1", "secret-1", ("pause",), name="ops", by="ana")
    make_token(tx, "t2", "secret-2", ("view",), name="lost", by="ana")
    revoke_token(tx, "t2", by="ana", reason="lost")


async def make(folder: Path) -> Path:
    """The store: runs that are done, paused, cancelled and forgotten, two checkpoints and more, an anchor."""
    path = folder / "runs.db"
    notary = Notary(anchors=[f"file:{folder / 'anchor'}"])
    async with Runtime(path, [writer], notary=notary) as runs:
        done = await runs.start(writer, Letters(to_send=2), id="done")
        await _asked(done)
        await done.answer((await done.view()).needs[0].call, "yes", by="ana")
        assert await done.result(timeout=120) == 2
        forgotten = await runs.start(writer, Letters(to_send=1, log=Log(["a secret"])), id="forgotten")
        await _asked(forgotten)
        await forgotten.cancel(by="ana", reason="enough")
        await forgotten.settled(timeout=120)
        await _quiet(runs)
        assert await runs.forget(forgotten, by="ana", reason="asked to")
        await _quiet(runs)
        paused = await runs.start(writer, Letters(), id="paused")
        await _asked(paused)
        await paused.message("one more thing", when="later", by="bob")
        await paused.pause(by="bob", reason="lunch")
        await paused.settled(timeout=120)
        runs._store.write(fill_house)  # pyright: ignore[reportPrivateUsage]
        await runs.halt(id="h1", agent="nobody", reason="a drill", by="ana")
        await runs.halt(id="h2", agent="nobody", reason="another drill", by="ana")
        await runs.lift("h2", by="ana", reason="it is over")
        await _quiet(runs)
        cancelled = await runs.start(writer, Letters(to_send=1), id="cancelled")
        await _asked(cancelled)
        await cancelled.cancel(by="ana", reason="enough", undo="all")
        await cancelled.settled(timeout=120)
        runs._store.write(lambda tx: tx.note(AttemptRefused(what="halt", why="no right", by="eve")))  # pyright: ignore[reportPrivateUsage]
    return path


async def _asked(run: Any) -> None:
    async with asyncio.timeout(120):
        while not (await run.view()).needs:
            await asyncio.sleep(0.01)


async def _quiet(runs: Runtime) -> None:
    """Until everything that was written is signed for."""

    def settled(tx: Tx) -> bool:
        to = position_of(tx.last_checkpoint())
        return (to.place, to.house) == (tx.last_record(), tx.house_head()[0])

    async with asyncio.timeout(120):
        while not runs._store.read(settled):  # pyright: ignore[reportPrivateUsage]
            await asyncio.sleep(0.02)


class Victim:
    """A copy of the store, which somebody writes to past standfast."""

    def __init__(self, folder: Path, of: Path) -> None:
        self.path = folder / "runs.db"
        for name in ("runs.db", "runs.db.key", "runs.db.pub", "anchor"):
            shutil.copy(of.parent / name, folder / name)
        self.key = load_public(folder / "runs.db.pub")
        self.anchor = folder / "anchor"
        self.db = sqlite3.connect(self.path, isolation_level=None)
        self.db.execute("PRAGMA synchronous = OFF")

    def verify(self, *, key: bool = True, anchor: bool = True) -> Report:
        lines = self.anchor.read_text().splitlines() if anchor else None
        return verify_store(self.path, [self.key] if key else (), lines)

    @contextmanager
    def changed(self, *statements: tuple[Any, ...]) -> Iterator[None]:
        """While this lasts, the store is changed by these statements: (sql, value, ...)."""
        saved = sqlite3.connect(":memory:")
        self.db.backup(saved)
        try:
            for sql, *values in statements:
                assert self.db.execute(sql, values).rowcount, f"{sql} changes nothing"
            yield
        finally:
            saved.backup(self.db)
            saved.close()

    def rows(self, sql: str, *values: Any) -> list[Any]:
        return self.db.execute(sql, values).fetchall()

    def close(self) -> None:
        self.db.close()


def texts(report: Report) -> str:
    """All that was found, a line each."""
    return "\n".join(f"{one.verdict} {one.what}: {one.text}" for one in report.findings)
