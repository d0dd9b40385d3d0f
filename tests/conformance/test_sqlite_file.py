"""The SQLite file: private, never changed by a look, never changed when it is not ours or not sound (R2, R37)."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel
from tests.conformance.rows import insert
from tests.helpers import database, eventually

from standfast import Done, Run, RunHeld, Runtime, UnknownRun, agent
from standfast.abc import Tx
from standfast.env import PlainWrite
from standfast.errors import StoreDamaged, StoreError, StoreFailed, StoreTooNew
from standfast.stores import sqlite as module
from standfast.stores.group import GroupWriter
from standfast.stores.sqlite import SqliteStore


class Count(BaseModel):
    n: int = 0


@agent("counter")
async def counter(run: Run[Count]) -> Done[int] | None:
    run.state.n += 1
    return Done(run.state.n) if run.state.n == 30 else None


async def filled(path: Path) -> str:
    """A store with a finished run in it, closed cleanly."""
    async with Runtime(path, agents=[counter]) as runs:
        run = await runs.start(counter, Count())
        assert await run.result(timeout=120) == 30
        return run.id


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every lasting file with its bytes and time; the -shm file is SQLite's memory, not the store."""
    return {
        f.name: (f.read_bytes(), f.stat().st_mtime_ns)
        for f in folder.iterdir()
        if not f.name.endswith("-shm") and not (f.name.endswith("-wal") and not f.stat().st_size)
    }


def names(folder: Path) -> set[str]:
    return {f.name for f in folder.iterdir()}


def test_the_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        store = SqliteStore(tmp_path / "runs.db")
        store.create()
        insert(store)
        modes = {f.name: stat.S_IMODE(f.stat().st_mode) for f in tmp_path.iterdir()}
        store.close()
    finally:
        os.umask(old)
    assert modes == {"runs.db": 0o600, "runs.db-wal": 0o600, "runs.db-shm": 0o600}


def test_every_commit_is_on_the_disk_before_it_is_acknowledged(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "runs.db")
    store.create()
    db = store.open()
    assert db.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    assert db.execute("PRAGMA synchronous").fetchone()[0] == 2
    store.close()


async def test_a_store_in_memory_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.tempfile, "tempdir", str(tmp_path))
    async with Runtime(":memory:", agents=[counter]) as runs:
        assert await (await runs.start(counter, Count())).result(timeout=120) == 30
    assert list(tmp_path.iterdir()) == []


async def test_a_store_in_memory_that_is_never_opened_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module.tempfile, "tempdir", str(tmp_path))
    runs = Runtime(":memory:", agents=[counter])
    del runs
    gc.collect()
    assert list(tmp_path.iterdir()) == []


async def test_a_thousand_verbs_do_not_open_a_thousand_files(tmp_path: Path) -> None:
    async with Runtime(tmp_path / "runs.db", drive=False) as runs:
        store = runs._store
        store.create()
        insert(store)
        for _ in range(20):
            await runs.handle("r1").pause()
        before = len(list(Path("/proc/self/fd").iterdir()))
        for _ in range(100):
            await runs.handle("r1").pause()
        assert len(list(Path("/proc/self/fd").iterdir())) <= before + 5


# --- a look writes nothing ----------------------------------------------------------------------------


async def test_looking_at_a_store_that_is_not_there_creates_nothing(tmp_path: Path) -> None:
    async with Runtime(tmp_path / "runs.db", drive=False) as runs:
        assert await runs.list() == []
        with pytest.raises(UnknownRun):
            await runs.handle("nobody").view()
    assert list(tmp_path.iterdir()) == []


async def test_looking_changes_no_byte_of_a_closed_store(tmp_path: Path) -> None:
    run = await filled(tmp_path / "runs.db")
    before = contents(tmp_path)
    async with Runtime(tmp_path / "runs.db", drive=False) as runs:
        assert [v.id for v in await runs.list()] == [run]
        handle = runs.handle(run)
        assert (await handle.view()).status == "done"
        assert await handle.state() == {"n": 30}
        assert await handle.result() == 30
        assert len([e async for e in handle.events()]) > 30
        await asyncio.sleep(0.3)  # its control thread ticks, and still writes nothing
    assert contents(tmp_path) == before


async def test_looking_leaves_no_file_behind(tmp_path: Path) -> None:
    """Ruling: opening with drive=False writes nothing; what SQLite needs for a look goes with the last who looks."""
    run = await filled(tmp_path / "runs.db")
    before = names(tmp_path)
    stat_before = (tmp_path / "runs.db").stat()
    for _ in range(2):
        async with (
            Runtime(tmp_path / "runs.db", drive=False) as first,
            Runtime(tmp_path / "runs.db", drive=False) as second,
        ):
            assert (await first.handle(run).view()).status == (await second.handle(run).view()).status == "done"
        assert names(tmp_path) == before
    after = (tmp_path / "runs.db").stat()
    assert (after.st_ino, after.st_size, after.st_mtime_ns) == (
        *(stat_before.st_ino, stat_before.st_size),
        stat_before.st_mtime_ns,
    )


async def test_leaving_a_look_takes_nothing_from_who_is_at_work(tmp_path: Path) -> None:
    """R2: the log of another process stays where it is, also while it is still empty."""
    program = (
        "import os, sys\nsys.path.insert(0, os.getcwd())\n"
        "from tests.conformance.rows import insert, step\nfrom standfast.stores.sqlite import SqliteStore\n"
        "s = SqliteStore(sys.argv[1]); s.create(); row = insert(s); s.close(); s.read(lambda tx: tx.run('r1'))\n"
        "print('open', flush=True); input(); step(s, row, b'[]\\n1'); print('written', flush=True); input()\n"
        "os._exit(9)"
    )
    command = [sys.executable, "-c", program, tmp_path / "runs.db"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdin is not None and other.stdout is not None
        for word in ("open", "written"):
            assert other.stdout.readline().strip() == word
            async with Runtime(tmp_path / "runs.db", drive=False) as runs:
                assert (await runs.handle("r1").view()).step == (word == "written")
            assert names(tmp_path) == {"runs.db", "runs.db-wal", "runs.db-shm"}
            other.stdin.write("\n")
            other.stdin.flush()
    async with Runtime(tmp_path / "runs.db", drive=False) as runs:
        assert (await runs.handle("r1").view()).step == 1


async def test_looking_changes_no_byte_of_what_a_killed_driver_left(tmp_path: Path) -> None:
    """The write-ahead log stays as it is too: it is evidence, and the next driver's business."""
    program = (
        "import os, sys\nsys.path.insert(0, os.getcwd())\n"
        "from tests.conformance.rows import insert, step\nfrom standfast.stores.sqlite import SqliteStore\n"
        "s = SqliteStore(sys.argv[1]); s.create(); step(s, insert(s), b'[]\\n1'); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", program, tmp_path / "runs.db"], check=False)
    before = contents(tmp_path)
    assert "runs.db-wal" in before
    async with Runtime(tmp_path / "runs.db", drive=False) as runs:
        view = await runs.handle("r1").view()
        assert (view.status, view.step) == ("queued", 1)
    assert contents(tmp_path) == before


async def test_a_verb_writes_and_a_look_sees_what_others_write(tmp_path: Path) -> None:
    async with Runtime(tmp_path / "runs.db", agents=[counter]) as driving:
        run = await driving.start(counter, Count(), id="r1")
        await run.result(timeout=120)
        async with Runtime(tmp_path / "runs.db", drive=False) as runs:
            assert (await runs.handle("r1").view()).status == "done"
            second = await driving.start(counter, Count(), id="r2")
            assert await second.result(timeout=120) == 30
            assert await runs.handle("r2").result(timeout=120) == 30
            assert await runs.handle("r2").fork(at=3, id="r3")
            assert await driving.handle("r3").result(timeout=120) == 30


# --- files that are not sound, or not ours ---------------------------------------------------------------


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2 + 100])


def overwrite_everything_but_the_header(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:4096] + b"\xa5" * (len(data) - 4096))


def overwrite_the_header(path: Path) -> None:
    path.write_bytes(b"\xa5" * 4096 + path.read_bytes()[4096:])


def make_text(path: Path) -> None:
    path.write_text("this is no database\n" * 1000)


def make_one_byte(path: Path) -> None:
    path.write_bytes(b"x")  # which SQLite itself takes for an empty file


def make_newer(path: Path) -> None:
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 9999")
    db.close()


def make_foreign(path: Path) -> None:
    path.unlink()
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE runs (id TEXT)")
    db.execute("INSERT INTO runs VALUES ('mine')")
    db.commit()
    db.close()


def make_foreign_wal(path: Path) -> None:
    make_foreign(path)
    db = sqlite3.connect(path)
    db.execute("PRAGMA journal_mode = WAL")
    db.close()


DAMAGES: list[tuple[Callable[[Path], None], type[StoreError]]] = [
    (truncate, StoreDamaged),
    (overwrite_everything_but_the_header, StoreDamaged),
    (overwrite_the_header, StoreDamaged),
    (make_text, StoreDamaged),
    (make_one_byte, StoreDamaged),
    (make_newer, StoreTooNew),
    (make_foreign, StoreDamaged),
    (make_foreign_wal, StoreDamaged),
]


@pytest.mark.parametrize(("damage", "error"), DAMAGES, ids=[d.__name__ for d, _ in DAMAGES])
@pytest.mark.parametrize("drive", [True, False])
async def test_a_file_that_is_not_sound_gives_a_clear_error_and_keeps_every_byte(
    tmp_path: Path, damage: Callable[[Path], None], error: type[StoreError], drive: bool
) -> None:
    path = tmp_path / "runs.db"
    await filled(path)
    damage(path)
    before = contents(tmp_path)
    with pytest.raises(error) as told:
        async with Runtime(path, agents=[counter] if drive else [], drive=drive) as runs:
            await runs.list()
    assert told.value.hint
    assert str(path) in str(told.value)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("table", ["runs", "record", "calls", "leases", "signals", "mail"])
async def test_a_table_whose_first_page_is_gone_is_found_before_anything_is_written(tmp_path: Path, table: str) -> None:
    path = tmp_path / "runs.db"
    await filled(path)
    db = sqlite3.connect(path)
    root = db.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()[0]
    size = db.execute("PRAGMA page_size").fetchone()[0]
    db.close()
    with path.open("r+b") as file:
        file.seek((root - 1) * size)
        file.write(b"\xa5" * size)
    before = contents(tmp_path)
    with pytest.raises(StoreDamaged):
        async with Runtime(path, agents=[counter]):
            pass
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    "how",
    [
        "runs SET doc = '{\"budget\": 7}'",
        "runs SET doc = 'no json'",
        "record SET body = X'5b5d0a37'",
        "record SET body = X'5b5d'",
    ],
)
async def test_a_row_that_cannot_be_read_is_never_an_unknown_run(tmp_path: Path, how: str) -> None:
    path = tmp_path / "runs.db"
    run = await filled(path)
    db = sqlite3.connect(path)
    db.execute(f"UPDATE {how}")
    db.commit()
    db.close()
    async with Runtime(path, drive=False) as runs:
        for act in (runs.handle(run).view, runs.handle(run).pause, runs.handle(run).settled):
            with pytest.raises(StoreDamaged) as told:
                await act()
            assert told.value.hint


async def test_a_record_row_that_cannot_be_read_is_named_as_damage(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    run = await filled(path)
    db = sqlite3.connect(path)
    db.execute("UPDATE record SET body = X'7b' WHERE seq = 5")
    db.commit()
    db.close()
    async with Runtime(path, drive=False) as runs:
        with pytest.raises(StoreDamaged):
            _ = [e async for e in runs.handle(run).events()]


@pytest.mark.parametrize("damage", ["runs SET doc = '7' WHERE id = 'bad'", "record SET state = X'00' WHERE run = 1"])
async def test_one_damaged_run_keeps_no_other_from_going_on(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "runs.db"
    store = SqliteStore(path)
    store.create()
    insert(store, "bad", agent="counter", state=b'[]\n{"n": 0}')
    store.close()
    db = sqlite3.connect(path)
    db.execute(f"UPDATE {damage}")
    db.commit()
    db.close()
    async with Runtime(path, agents=[counter]) as runs:
        assert await (await runs.start(counter, Count())).result(timeout=120) == 30
        if "runs" in damage:
            await eventually(lambda: "run bad cannot be driven" in caplog.text)
        else:
            with pytest.raises(RunHeld, match="StoreDamaged"):
                await runs.handle("bad").result(timeout=120)


# --- places that cannot be written ------------------------------------------------------------------------------


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    """A folder that nobody, not even root, can write to, with a store in it."""
    if shutil.which("mount") is None or os.geteuid() != 0:
        reason = "a read-only mount needs root and mount"
        (pytest.fail if os.environ.get("STANDFAST_REQUIRE_TOOLS") else pytest.skip)(reason)
    place = tmp_path / "mounted"
    place.mkdir()
    asyncio.run(filled(place / "runs.db"))
    subprocess.run(["mount", "--bind", place, place], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", place], check=True)
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


def test_a_store_on_a_read_only_disk_says_so(read_only: Path) -> None:
    async def drive() -> None:
        async with Runtime(read_only / "runs.db", agents=[counter]):
            pass

    with pytest.raises(StoreFailed) as told:
        asyncio.run(drive())
    assert "writable" in told.value.hint


def test_a_new_store_on_a_read_only_disk_says_so(read_only: Path) -> None:
    async def drive() -> None:
        async with Runtime(read_only / "new.db", agents=[counter]):
            pass

    with pytest.raises(StoreFailed) as told:
        asyncio.run(drive())
    assert told.value.hint


def test_a_store_on_a_read_only_disk_can_still_be_looked_at(read_only: Path) -> None:
    async def look() -> None:
        async with Runtime(read_only / "runs.db", drive=False) as runs:
            [view] = await runs.list()
            assert view.status == "done"
            with pytest.raises(StoreFailed):
                await runs.handle(view.id).fork(at=1)

    asyncio.run(look())


def test_a_verb_that_a_read_only_disk_refuses_takes_no_look_away(read_only: Path) -> None:
    async def look() -> None:
        async with Runtime(read_only / "runs.db", drive=False) as runs:
            [view] = await runs.list()
            run = runs.handle(view.id)
            for _ in range(3):
                with pytest.raises(StoreFailed) as told:
                    await run.pause()
                assert "writable" in told.value.hint
                assert await run.view() == view
                assert [event async for event in run.events()]
                assert await asyncio.to_thread(lambda: asyncio.run(run.view())) == view

    asyncio.run(look())


async def test_a_folder_that_is_a_file_is_an_error_with_a_hint(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreFailed) as told:
        async with Runtime(tmp_path / "file" / "runs.db", agents=[counter]):
            pass
    assert told.value.hint


@pytest.mark.parametrize("place", [b"CREATE TABLE record", b"CREATE TABLE runs", b"tablecalls", b"tablemail"])
async def test_a_schema_that_is_no_text_any_more_is_a_damaged_store(tmp_path: Path, place: bytes) -> None:
    """Found by a soak of the fuzz: SQLite's own message then has bytes that Python cannot read."""
    path = tmp_path / "runs.db"
    await filled(path)
    data = path.read_bytes()
    at = data.index(place) + len(place) - 2
    path.write_bytes(data[:at] + b"\xf9" + data[at + 1 :])
    with pytest.raises(StoreDamaged):
        async with Runtime(path, agents=[counter]):
            pass


async def test_a_status_that_there_is_not_is_damage_and_hides_no_other_run(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    await filled(path)
    async with Runtime(path, agents=[counter]) as runs:
        other = await runs.start(counter, Count(), id="other")
        await other.result()
    with database(path) as db:
        db.execute("UPDATE runs SET status = 'yone' WHERE id <> 'other'")
    db.close()
    async with Runtime(path, drive=False) as runs:
        views = {view.id: view for view in await runs.list()}
        assert views.pop("other").error == ""
        assert views and all("StoreDamaged" in view.error for view in views.values())
        with pytest.raises(StoreDamaged):
            await runs.handle(next(iter(views))).cancel()


@pytest.mark.parametrize("of", ["a verb", "a run"])
async def test_a_verb_waits_for_its_own_process_however_slowly_that_writes(tmp_path: Path, of: str) -> None:
    """On a busy machine a commit may take seconds: no reason to refuse what is asked meanwhile."""
    store = SqliteStore(tmp_path / "runs.db", busy_seconds=0.01)
    store.create()
    insert(store)
    writing = threading.Event()

    def slowly(_: Tx) -> None:
        writing.set()
        time.sleep(0.5)

    def ask() -> None:
        assert writing.wait(120)
        store.write(lambda tx: tx.signal("r1"))

    asked = asyncio.ensure_future(asyncio.to_thread(ask))
    if of == "a verb":
        await asyncio.to_thread(store.write, slowly)
    else:
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        writer = GroupWriter(store, asyncio.get_running_loop())
        writer.submit(PlainWrite(slowly, written))
        await written
        writer.close()
    await asked
    store.close()
