"""What must hold in every image of a crash, and after a new driver has gone on from it."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.crash.recorder import Image
from tests.crash.workload import AGENTS, ROUNDS, World

from standfast import Handle, Happened, NotHappened, Runtime
from standfast.abc import Tx
from standfast.records import ENDED
from standfast.rows import RunRow
from standfast.stores.sqlite import SqliteStore

Hashes = dict[tuple[str, int], bytes]


class Bad(Exception):
    """A promise that an image breaks."""


def expect(holds: object, promise: str) -> None:
    if not holds:
        raise Bad(promise)


def hashes(path: Path) -> Hashes:
    """Every row of every record, by run and seq."""
    db = sqlite3.connect(path)
    rows = db.execute("SELECT runs.id, record.seq, record.hash FROM record JOIN runs ON runs.n = record.run").fetchall()
    db.close()
    return {(run, seq): digest for run, seq, digest in rows}


def facts(image: Image, *kinds: str) -> list[list[str]]:
    return [f for label in image.acknowledged if (f := label.split("|"))[0] in kinds]


# --- what is in the files --------------------------------------------------------------------------------


@contextmanager
def opened(path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(path)
    try:
        yield store
    finally:
        store.close()


def check_files(folder: Path, image: Image, whole: Hashes) -> None:
    """Sound, chained, a prefix of what was to come, and not missing anything that somebody was told."""
    path = folder / "runs.db"
    if not path.exists() or not has_tables(path):
        expect(not image.acknowledged, "something was acknowledged before there was a store")
        return
    with opened(path) as store:
        expect(store.open().execute("PRAGMA integrity_check").fetchall() == [("ok",)], "SQLite finds the file unsound")
        store.read(lambda tx: check_rows(tx, image, whole))


def has_tables(path: Path) -> bool:
    db = sqlite3.connect(path)
    try:
        return db.execute("SELECT 1 FROM sqlite_master WHERE name = 'runs'").fetchone() is not None
    finally:
        db.close()


def check_rows(tx: Tx, image: Image, whole: Hashes) -> None:
    rows = {r.id: r for r in all_runs(tx)}
    for _, run, seq in facts(image, "seen"):
        expect(run in rows and rows[run].seq >= int(seq), f"run {run} lost seq {seq}, which somebody has seen")
    for _, run, mail in facts(image, "redirect", "message"):
        expect(any(m.id == mail for m in tx.mail(rows[run].n)), f"mail {mail} was accepted and is gone")
    for _, run, _ in facts(image, "settled"):
        expect(rows[run].status == "cancelled", f"run {run} was settled and is {rows[run].status}")
    for _, run, key in facts(image, "did"):
        expect(run in rows, f"{key} was performed for a run that is not there")
        call = tx.call(rows[run].n, key)
        expect(call and call.status != "not_begun", f"{key} was performed before it was admitted")
    for row in rows.values():
        check_row(tx, row)
        for seq, _ in tx.record(row.n, 0, 10_000):
            expect((row.id, seq) in whole, f"run {row.id} has a row {seq} that never was")
            head = whole[row.id, seq]
        expect(row.head == head, f"run {row.id} went another way than the recording")


def all_runs(tx: Tx) -> list[RunRow]:
    named = tx.list_runs(status=None, agent=None, labels=None, needs=None, limit=-1, before=None)
    return [row for row in (tx.run(id_) for id_, _, _ in named) if row is not None]


def check_row(tx: Tx, row: RunRow) -> None:
    """The machine's invariants, whatever has happened before."""
    name = f"run {row.id} ({row.status})"
    expect(tx.verify(row) == "", f"the chain of {name} is broken: {tx.verify(row)}")
    snapshot = tx.snapshot(row)
    expect(snapshot is not None, f"{name} has no snapshot")
    if row.status in (*ENDED, "queued", "paused"):
        expect(row.holder is None and not row.in_flight, f"{name} rests, but somebody holds it")
    if row.status == "running":
        expect(row.holder is not None, f"nobody holds {name}")
    expect((row.status != "paused") or row.doc.holds, f"{name} is held by nothing")
    for ref in row.in_flight:
        if ref.effect == "write":
            call = tx.call(row.n, ref.id)
            expect(call and call.status == "started", f"{ref.id} is in flight in {name}, but not in the ledger")
    if row.status in ENDED:
        expect(not tx.pending_mail(row.n), f"{name} keeps mail that nobody will read")
    if row.status == "cancelled":
        expect(row.doc.receipt is not None, f"{name} has no receipt")
        expect(not any(c.undo == "pending" for c in tx.ledger(row.n)), f"{name} has undos left")


# --- what a new driver makes of it -----------------------------------------------------------------------------


def check_going_on(folder: Path, image: Image) -> None:
    """A new process takes the image up and brings every run to its end: nothing lost, nothing twice."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as place:
        copy = Path(place)
        for file in folder.iterdir():
            shutil.copy(file, copy / file.name)
        asyncio.run(_go_on(copy / "runs.db", image))


async def _go_on(path: Path, image: Image) -> None:
    world = World()
    world.facts = [label for label in image.acknowledged if label.split("|")[0] in ("did", "undid", "put")]
    if path.exists() and has_tables(path):
        db = sqlite3.connect(path)
        db.execute("UPDATE leases SET started = 'before the crash'")  # its process is dead now
        db.commit()
        db.close()
    async with Runtime(path, AGENTS, provide={World: world}) as runs:
        ids = [view.id for view in await runs.list()]
        stops = {f[1] for f in facts(image, "cancel")}
        done_before = {run: dict(world.count("did", run)) for run in stops}
        await asyncio.gather(*(_bring_to_end(runs.handle(id_), world) for id_ in ids))
        for id_ in ids:
            await _check_end(runs.handle(id_), world)
        for run in stops:
            expect(dict(world.count("did", run)) == done_before[run], f"{run} acted after its cancel was accepted")
    with opened(path) as store:
        expect(store.open().execute("PRAGMA integrity_check").fetchall() == [("ok",)], "unsound after going on")
        store.read(lambda tx: [check_row(tx, row) for row in all_runs(tx)])


async def _bring_to_end(run: Handle[Any], world: World) -> None:
    """As a person would: look into the world where there is a doubt, resume what was paused."""
    for _ in range(50):
        await run.settled(timeout=120)
        view = await run.view()
        if view.status in ENDED:
            return
        if view.status != "paused":
            continue
        expect(set(view.holds) <= {"user", "in_doubt"}, f"{run.id} is held: {view.waiting_for} {view.traceback}")
        for need in view.needs:
            if need.kind == "unread":
                await run.drop(need.id)
                continue
            expect(need.kind == "doubt" and need.call, f"{run.id} asks {need.text}")
            assert need.call is not None
            happened = world.count("did", run.id)[need.call]
            await run.resolve(need.call, Happened(f"sent {need.call}") if happened else NotHappened())
        if "user" in (await run.view()).holds:
            await run.resume()
    raise Bad(f"{run.id} does not come to an end: {await run.view()}")


async def _check_end(run: Handle[Any], world: World) -> None:
    view = await run.view()
    did, undid = world.count("did", run.id), world.count("undid", run.id)
    twice = [key for key, times in did.items() if times > 1]
    expect(not twice, f"{run.id}: performed twice: {twice}")
    if view.status == "cancelled":
        receipt = await run.settled()
        expect(set(did) <= set(undid), f"{run.id}: kept effects although all were to be undone")
        expect({u.call.id for u in receipt.undone} >= set(did), f"{run.id}: the receipt names too little")
        return
    expect(view.status == "done", f"{run.id} ended as {view.status}")
    if view.agent == "job":
        state = await run.state()
        check_job(run.id, list(state.words), state.keys, did, undid)


def check_job(run: str, words: Sequence[str], keys: list[str], did: dict[str, int], undid: dict[str, int]) -> None:
    expected = [f"saw {2 * n}" for n in range(ROUNDS)]
    expected += [f"acted {n} {2 * n}" for n in range(ROUNDS, 2 * ROUNDS)]
    expect(words == [*expected, "closed"], f"{run}: its log is {words}")
    performed = [key.removeprefix("sent ") for key in keys]
    expect(len(set(performed)) == ROUNDS + 1, f"{run}: {len(set(performed))} effects, not {ROUNDS + 1}")
    expect(all(did.get(key) == 1 for key in performed), f"{run}: not every effect it counts on took place")
    left = set(did) - set(performed) - set(undid)
    expect(not left or run in ("turned", "back"), f"{run}: effects that nobody knows of: {left}")
