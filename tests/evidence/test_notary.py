"""Checkpoints are made at every stop and every so often, by one process or several, and survive crashes (R32)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tests.evidence.world import Letters, waiter, writer
from tests.helpers import eventually, patiently

from standfast import Runtime
from standfast.errors import KeyUnusable, Misuse
from standfast.evidence import keys
from standfast.evidence.keys import load_or_make, load_public
from standfast.evidence.notary import Notary, checkpoint_now
from standfast.evidence.store_check import verify_store
from standfast.house_events import AttemptRefused
from standfast.stores.sqlite import SqliteStore

ROOT = Path(__file__).parents[2]


def statements(path: Path) -> list[dict[str, Any]]:
    db = sqlite3.connect(path)
    try:
        return [json.loads(doc) for (doc,) in db.execute("SELECT doc FROM checkpoints ORDER BY n")]
    finally:
        db.close()


def why(path: Path) -> list[str]:
    return [one["why"] for one in statements(path)]


async def asked(run: Any) -> None:
    await eventually(lambda: needs(run))


async def needs(run: Any) -> bool:
    return bool((await run.view()).needs)


@pytest.mark.parametrize("stop", ["pause", "cancel", "done"])
async def test_every_stop_is_signed_for_soon(tmp_path: Path, stop: str) -> None:
    path = tmp_path / "runs.db"
    async with Runtime(path, [writer], notary=Notary(every_events=10**6, every_seconds=10**6)) as runs:
        run = await runs.start(writer, Letters(to_send=1), id="one")
        await asked(run)
        if stop == "done":
            await run.answer((await run.view()).needs[0].call, "yes")
            await run.result(timeout=120)
        else:
            await (run.pause() if stop == "pause" else run.cancel())
            await run.settled(timeout=120)
        view = await run.view()

        def named() -> bool:
            return any((one["run"], one["seq"]) == ("one", view.seq) for s in statements(path) for one in s["runs"])

        await eventually(named)
    assert set(why(path)) <= {"stop", "close"}
    assert verify_store(path, [load_public(tmp_path / "runs.db.pub")]).of("broken") == []


async def test_a_run_that_goes_on_is_signed_for_by_events_and_by_time(tmp_path: Path) -> None:
    for name, notary, reason in (
        ("a.db", Notary(every_events=2, every_seconds=10**6), "events"),
        ("b.db", Notary(every_events=10**6, every_seconds=0.3), "time"),
    ):
        async with Runtime(tmp_path / name, [waiter], notary=notary) as runs:
            await runs.start(waiter, Letters())
            await eventually(lambda: reason in why(tmp_path / name))  # noqa: B023


async def test_what_was_not_signed_before_is_signed_on_leaving(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with Runtime(path, [writer], notary=Notary(every_events=10**6, every_seconds=10**6)) as runs:
        await runs.start("writer", Letters())
    last = statements(path)[-1]
    db = sqlite3.connect(path)
    assert last["place"] == db.execute("SELECT max(rowid) FROM record").fetchone()[0]
    db.close()


async def test_what_concerns_the_house_is_signed_for_soon(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with Runtime(path, [writer], notary=Notary(every_events=10**6, every_seconds=10**6)) as runs:
        runs._store.write(lambda tx: tx.note(AttemptRefused(what="halt", why="no right")))  # pyright: ignore[reportPrivateUsage]
        await eventually(lambda: "house" in why(path))


def test_many_notaries_of_one_store_make_one_chain(tmp_path: Path) -> None:
    """Threads stand for processes: each has connections of its own, and the store's lock decides."""
    path = tmp_path / "runs.db"
    first = SqliteStore(path)
    first.create()
    key = load_or_make(path)
    made: list[int] = []

    def sign() -> None:
        store = SqliteStore(path, busy_seconds=30)
        for _ in range(10):
            store.write(lambda tx: tx.note(AttemptRefused(what="x", why="y")))
            checkpoint = checkpoint_now(store, key, "test")
            if checkpoint is not None:
                made.append(checkpoint.n)
        store.close()

    threads = [threading.Thread(target=sign) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
    checkpoint_now(first, key, "test")
    first.close()
    assert sorted(made) == list(range(1, len(made) + 1))  # no number twice, none left out
    report = verify_store(path, [key.public])
    assert report.of("broken") == []
    assert "40 rows" in " ".join(one.text for one in report.findings)


async def test_two_processes_that_drive_one_store_make_one_chain(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    other = start_driver(path)
    try:
        async with Runtime(path, [writer], notary=Notary(every_events=2, every_seconds=0.1)) as runs:
            handles = [await patiently(lambda: runs.start(writer, Letters(to_send=2))) for _ in range(6)]
            for run in handles:
                await asked(run)
                call = (await run.view()).needs[0].call
                await patiently(lambda: run.answer(call, "yes"))  # noqa: B023 - awaited at once
                await run.result(timeout=120)
    finally:
        other.terminate()
        other.wait(30)
    report = verify_store(path, [load_public(tmp_path / "runs.db.pub")])
    assert report.of("broken") == []
    assert not [one for one in report.of("unproved") if one.what != "anchor"], report.of("unproved")


def start_driver(path: Path, *options: str) -> subprocess.Popen[bytes]:
    program = """
import asyncio, sys
from standfast import Runtime
from standfast.evidence.notary import Notary
from tests.evidence.world import writer
async def main():
    async with Runtime(sys.argv[1], [writer], notary=Notary(every_events=2, every_seconds=0.1, anchors=sys.argv[2:])):
        print("driving", flush=True)
        await asyncio.Event().wait()
asyncio.run(main())
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    started = subprocess.Popen(
        [sys.executable, "-c", program, str(path), *options], stdout=subprocess.PIPE, env=environment, cwd=ROOT
    )
    assert started.stdout is not None
    assert started.stdout.readline() == b"driving\n"
    started.stdout.close()
    return started


async def test_what_a_killed_process_left_unsigned_is_signed_by_the_next(tmp_path: Path) -> None:
    """A crash between a commit and its checkpoint loses neither."""
    path = tmp_path / "runs.db"
    async with Runtime(path, [writer], notary=False) as runs:  # nothing signs: as if it had been killed each time
        run = await runs.start(writer, Letters(to_send=1), id="left")
        await asked(run)
    assert statements(path) == []
    report = verify_store(path)
    assert report.verdict == "unproved"
    assert "nothing was ever signed" in " ".join(one.text for one in report.findings)
    killed = start_driver(path)
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait(30)
    async with Runtime(path, [writer]) as runs:
        await asyncio.sleep(0)
    assert "left" in {one["run"] for s in statements(path) for one in s["runs"]}
    assert verify_store(path, [load_public(tmp_path / "runs.db.pub")]).of("broken") == []


async def test_a_frozen_notary_does_not_keep_others_from_signing(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    frozen = start_driver(path)
    try:
        async with Runtime(path, [writer], notary=Notary(every_events=2, every_seconds=0.1)) as runs:
            db = sqlite3.connect(path, timeout=30, isolation_level=None)
            db.execute("BEGIN IMMEDIATE")  # it cannot be frozen inside a transaction: that is another test's business
            os.kill(frozen.pid, signal.SIGSTOP)
            db.execute("COMMIT")
            db.close()
            before = len(statements(path))
            runs._store.write(lambda tx: tx.note(AttemptRefused(what="x", why="y")))  # pyright: ignore[reportPrivateUsage]
            await eventually(lambda: len(statements(path)) > before)
    finally:
        os.kill(frozen.pid, signal.SIGCONT)
        frozen.terminate()
        frozen.wait(30)
    assert verify_store(path, [load_public(tmp_path / "runs.db.pub")]).of("broken") == []


async def test_without_the_package_everything_works_unsigned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "available", lambda: False)
    path = tmp_path / "runs.db"
    async with Runtime(path, [writer]) as runs:
        await asked(await runs.start(writer, Letters(to_send=1)))
        assert not runs.signing.signing
        assert "standfast[evidence]" in runs.signing.trouble
    assert not (tmp_path / "runs.db.key").exists()
    report = verify_store(path)
    assert report.verdict == "unproved"


async def test_a_notary_that_was_asked_for_must_have_its_key(tmp_path: Path) -> None:
    load_or_make(tmp_path / "runs.db")
    (tmp_path / "runs.db.key").chmod(0o644)
    with pytest.raises(KeyUnusable, match="can be used by others"):
        async with Runtime(tmp_path / "runs.db", [writer], notary=Notary()):
            pass
    async with Runtime(tmp_path / "runs.db", [writer]) as runs:  # by default runs go on
        assert "can be used by others" in runs.signing.trouble


def test_a_store_in_memory_is_not_signed() -> None:
    assert not Runtime(":memory:", [writer]).signing.signing
    with pytest.raises(Misuse, match="in memory"):
        Runtime(":memory:", [writer], notary=Notary())
    with pytest.raises(Misuse, match="every so often"):
        Notary(every_events=0)


async def test_a_clock_that_was_set_back_is_told_of(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    key = load_or_make(path)
    now = time.time()
    for at in (now, now - 3600):
        store = SqliteStore(path, now=lambda: at)  # noqa: B023 - used at once
        store.create()
        store.write(lambda tx: tx.note(AttemptRefused(what="x", why="y")))
        checkpoint_now(store, key, "test")
        store.close()
    told = [one.text for one in verify_store(path, [key.public]).findings if one.what == "clock"]
    assert told == ["the clock was set back by 3600 s between checkpoints 1 and 2"]


async def test_a_run_under_way_is_covered_but_not_called_proved(tmp_path: Path) -> None:
    """What stands beside its record may change without an event; the record itself is signed for all the same."""
    path = tmp_path / "going.db"
    async with Runtime(path, [waiter], notary=Notary(every_events=1)) as runs:
        run = await runs.start(waiter, Letters(), id="going")
        await eventually(lambda: sent(run))
        seq = (await run.view()).seq
        await eventually(lambda: any(one["seq"] == seq for s in statements(path) for one in s["runs"]))
        report = verify_store(path)
        assert report.of("broken") == []
        assert "it is under way" in " ".join(one.text for one in report.of("unproved"))
        db = sqlite3.connect(path, timeout=30, isolation_level=None)
        db.execute("UPDATE record SET body = body || ' ' WHERE seq = ?", (seq,))
        assert "does not fit" in " ".join(one.text for one in verify_store(path).of("broken"))
        db.execute("UPDATE record SET body = substr(body, 1, length(body) - 1) WHERE seq = ?", (seq,))
        db.close()


async def sent(run: Any) -> bool:
    return "long_look" in [call.tool for call in (await run.view()).in_flight]
