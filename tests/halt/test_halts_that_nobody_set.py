"""A halt is a row that starts and claims read: it holds unsigned, wrongly signed or unreadable (R13, R32)."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from pathlib import Path
from typing import Any

import pytest
from tests.halt.world import AGENTS, Job, asker, writer
from tests.helpers import database, eventually, held

from standfast import Halted, Runtime
from standfast.verbs import halting


def key_of(secret: bytes) -> tuple[halting.Sign, halting.Verify]:
    """Stands for a real key, whose kind is no matter here: what is signed and what is made of it is."""
    public = hashlib.sha256(secret).digest()

    def sign(doc: bytes) -> tuple[bytes, bytes]:
        return public, hmac.digest(secret, doc, "sha256")

    def verify(key: bytes, signature: bytes, doc: bytes) -> bool:
        return key == public and hmac.compare_digest(signature, hmac.digest(secret, doc, "sha256"))

    return sign, verify


def into(store: Path, sql: str, *values: Any) -> None:
    """Past standfast, into the table itself."""
    with database(store) as db:
        db.execute(sql, values)
    db.close()


INSERT = "INSERT INTO halts (id, doc, key, signature) VALUES (?, ?, ?, ?)"
ALL = b'{"id":"h","all":true,"reason":"by hand"}'


@pytest.mark.parametrize(
    "doc",
    [ALL, b'{"id":"h","agent":"writer","reason":"by hand"}', b"nonsense", b'{"id":"other","agent":"x"}', b"\xff{"],
    ids=["all", "agent", "nonsense", "other id", "no text"],
)
async def test_a_queued_run_is_not_claimed_under_a_halt_that_was_put_there_by_hand(tmp_path: Path, doc: bytes) -> None:
    """R13: a fresh process does not drive a halted run, and says why; it goes on after the lift."""
    store = tmp_path / "runs.db"
    async with Runtime(store, AGENTS):
        pass  # its agents are known from now on
    async with Runtime(store, drive=False) as outside:
        run = await outside.start("writer", {"steps": 1})
        into(store, INSERT, "h", doc, None, None)
        async with Runtime(store, AGENTS) as runs:
            view = await held(runs.handle(run.id), "halted")
            assert view.step == 0 and "halted: " in view.waiting_for
            with pytest.raises(Halted):
                await runs.start(writer, Job())
            (shown,) = await runs.halts()
            assert (shown.id, shown.signature) == ("h", "none")
            await runs.lift("h")
            assert await runs.handle(run.id).result(timeout=120) == 1


async def test_a_run_taken_over_from_a_dead_driver_is_settled_and_not_driven(tmp_path: Path) -> None:
    """R13, R2: crash, then a halt by hand, then a new process: nothing is called."""
    store = tmp_path / "runs.db"
    async with Runtime(store, AGENTS) as runs:
        run = await runs.start(asker, Job())
        await held(run, "asks")
    into(store, "UPDATE runs SET status = 'running', holder = 'driver-gone' WHERE id = ?", run.id)
    into(store, INSERT, "h", ALL, None, None)
    async with Runtime(store, AGENTS) as runs:
        again = runs.handle(run.id)
        view = await eventually(lambda: _paused(again))
        assert "halted" in view.holds
        kinds = [e.type for _, es in runs.read(lambda tx: tx.record(_row(tx, run.id).n, 0)) for e in es]
        assert kinds.count("run_claimed") == 2 and kinds.index("run_halted") < len(kinds) - 1


async def _paused(run: Any) -> Any:
    view = await run.view()
    return view if view.status == "paused" else None


def _row(tx: Any, id_: str) -> Any:
    return tx.run(id_)


async def test_a_signature_is_shown_for_what_it_is_and_the_halt_holds_whatever_it_is(tmp_path: Path) -> None:
    """R32: good, wrong, none, or not checked."""
    store = tmp_path / "runs.db"
    sign, verify = key_of(b"a secret")

    def broken(_: bytes) -> tuple[bytes, bytes]:
        raise OSError("no key")

    async with Runtime(store, AGENTS) as runs:
        await runs.halt(agent="a", reason="good", by="op", id="good", sign=sign)
        await runs.halt(agent="b", reason="forged", by="op", id="forged", sign=sign)
        unsigned = await runs.halt(agent="writer", reason="no key", by="op", id="unsigned", sign=broken)
        assert "could not be signed: no key" in unsigned.note
        into(store, "UPDATE halts SET doc = replace(doc, '\"b\"', '\"asker\"') WHERE id = 'forged'")
        shown = {halt.id: halt.signature for halt in await runs.halts(verify=verify)}
        assert shown == {"good": "good", "forged": "wrong", "unsigned": "none"}
        assert {halt.signature for halt in await runs.halts()} == {"unchecked", "none"}
        for agent in (asker, writer):
            with pytest.raises(Halted):
                await runs.start(agent, Job())


async def test_a_run_that_cannot_be_read_keeps_no_halt_from_the_others(tmp_path: Path) -> None:
    """R34: it is named; nobody can drive it either."""
    store = tmp_path / "runs.db"
    async with Runtime(store, AGENTS) as runs:
        bad, good = await runs.start(asker, Job(), id="bad"), await runs.start(asker, Job(), id="good")
        await held(bad, "asks")
        await held(good, "asks")
        into(store, "UPDATE runs SET doc = 'nonsense' WHERE id = 'bad'")
        halt = await runs.halt(all=True, reason="x")
        assert (halt.runs, halt.unreadable) == (1, ("bad",))
        await held(good, "asks", "halted")
        assert (await runs.halt(labels={"a": "b"}, reason="y")).runs == 0
        assert (await runs.lift(halt.id)).runs == 1
        await held(good, "asks")


async def test_thousands_of_runs_are_halted_at_once(tmp_path: Path) -> None:
    """R13: one transaction; a generous limit against something quadratic."""
    store = tmp_path / "runs.db"
    async with Runtime(store, AGENTS):
        pass
    many = 2_000
    async with Runtime(store, drive=False) as runs:
        first, *_ = await asyncio.gather(*(runs.start("writer", {}) for _ in range(many)))
        before = runs.read(lambda tx: tx.house_head())[0]
        halt = await runs.halt(agent="writer", reason="x")
        assert halt.runs == many
        assert {view.status for view in await runs.list(limit=many)} == {"paused"}
        commits = {e.at for e in runs.read(lambda tx: tx.house(before))}
        times = {v for (v,) in runs.read(_halted_at)}
        assert times == commits, "one transaction has one time"
        assert (await runs.lift(halt.id)).runs == many
        assert (await first.view()).status == "queued"


def _halted_at(tx: Any) -> Any:
    return tx._c.execute("SELECT DISTINCT at FROM record WHERE CAST(body AS TEXT) LIKE '%run_halted%'").fetchall()
