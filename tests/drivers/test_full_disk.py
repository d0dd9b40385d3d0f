"""A full disk keeps nobody from stopping a run: room is kept for stops, and without any they hold in memory (R34)."""

from __future__ import annotations

import asyncio
import os
import resource
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.disks import eat_reserve, fill, small_disk
from tests.halt.operating import Operator, typed, typed_json
from tests.helpers import database, eventually
from tests.server.serving import Server
from tests.server.serving import eventually as eventually_seen

from standfast import Accepted, Done, Handle, Performed, Refused, Run, Runtime, StoreFailed, agent, tool
from standfast.stores.sqlite import SqliteStore

__all__ = ["small_disk"]  # a fixture

NOT_RECORDED = "storage: nothing new starts in this process; not recorded yet"


@dataclass
class Post:
    steps: int = 1
    sent: int = 0


@dataclass
class World:
    """What the agent does outside."""

    begun: int = 0
    ended: int = 0
    undone: int = 0
    going: asyncio.Event = field(default_factory=asyncio.Event)


world = World()


@pytest.fixture(autouse=True)
def a_new_world() -> None:
    global world
    world = World()


async def take_back(_: Performed[None, None]) -> None:
    world.undone += 1


@tool(effect="write", undo=take_back)
async def send(n: int) -> None:
    """Takes as long as the test wants."""
    world.begun += 1
    await world.going.wait()
    world.ended += 1


@agent("sender")
async def sender(run: Run[Post]) -> Done[int] | None:
    await run.call(send(run.state.sent))
    run.state.sent += 1
    return Done(run.state.sent) if run.state.sent >= run.state.steps else None


@asynccontextmanager
async def driving(store: Path) -> AsyncIterator[Runtime]:
    async with Runtime(store, [sender], lease_seconds=4) as runs:
        yield runs


async def in_flight(runs: Runtime, id_: str = "one", steps: int = 1) -> Handle[int]:
    before = world.begun
    run = await runs.start(sender, Post(steps), id=id_)
    await eventually(lambda: world.begun > before)
    return run


def reserve_of(store: Path) -> Path:
    return store.with_name(f"{store.name}-reserve")


async def test_a_cancel_is_written_on_a_full_disk_and_its_undo_too(small_disk: Path) -> None:
    store = small_disk / "runs.db"
    async with driving(store) as runs:
        run = await in_flight(runs)
        other = await in_flight(runs, "other")
        assert reserve_of(store).stat().st_mode & 0o777 == 0o600
        kept = reserve_of(store).stat().st_blocks
        filler = fill(small_disk)
        answer = await run.cancel(reason="full")
        assert isinstance(answer, Accepted), answer
        assert [ref.tool for ref in answer.in_flight] == ["send"]
        receipt = await run.settled(timeout=120)
        assert receipt.status == "cancelled"
        assert [one.outcome for one in receipt.undone] == ["undone"]
        assert world.undone == 1
        assert await other.pause(), "not only one of them"
        with pytest.raises(StoreFailed, match="is full: what is left of it is kept for stops") as told:
            await runs.start(sender, Post(), id="new")
        assert "free space" in told.value.hint
        assert (await other.view()).waiting_for.startswith("storage")
        filler.unlink()
        await eventually(lambda: reserve_of(store).stat().st_blocks == kept)
        await in_flight(runs, "new")
        world.going.set()
        assert await runs.handle("new").result(timeout=120) == 1
    assert not reserve_of(store).exists(), "the last to leave takes it along"


@pytest.mark.more
async def test_hundreds_of_stops_fit_on_a_full_disk(small_disk: Path) -> None:
    store = small_disk / "runs.db"
    async with driving(store) as runs:
        many = [await runs.start(sender, Post(), id=f"run{n}") for n in range(200)]
        await eventually(lambda: world.begun == 200, 120)
        fill(small_disk)
        for run in many:
            assert await run.cancel()
        for run in many:
            assert (await run.settled(timeout=120)).status == "cancelled"
        assert world.undone == 200


@contextmanager
def full(disk: Path, store: Path) -> Iterator[Callable[[], None]]:
    """Nothing can be written, not even with the reserve, nor over what stands in SQLite's log and is done with."""
    while True:
        with database(store) as other:
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        filler = fill(disk)
        eat_reserve(store)
        if store.with_name(f"{store.name}-wal").stat().st_size == 0:
            break
        filler.unlink()  # something was written in between
    yield filler.unlink


@contextmanager
def files_limited(disk: Path, store: Path) -> Iterator[Callable[[], None]]:
    """As a quota does: no file of this process grows any more."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    reserve_of(store).unlink()
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        yield lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, hard))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, hard))


@pytest.mark.parametrize("broken", [full, files_limited])
@pytest.mark.parametrize("verb", ["cancel", "pause", "halt"])
async def test_a_stop_that_cannot_be_written_holds_here_and_is_recorded_later(
    small_disk: Path, broken: Any, verb: str
) -> None:
    store = small_disk / "runs.db"
    async with driving(store) as runs:
        run = await in_flight(runs, steps=2)
        with broken(small_disk, store) as mend:
            asked = time.time()
            if verb == "halt":
                with pytest.raises(StoreFailed, match=NOT_RECORDED):
                    await runs.halt(all=True, reason="leaking", then="cancel", by="op")
            else:
                answer = await getattr(run, verb)(by="op")
                assert answer == Refused(NOT_RECORDED)
                assert answer == await getattr(run, verb)(by="op"), "asked again, it is the same stop"
            if verb == "pause":
                world.going.set()  # what has effects may end
                await eventually(lambda: world.ended == 1)
            else:
                await eventually(lambda: not runs._active["one"].s.flights)
                assert world.ended == 0, "its body was cut"
            assert (await run.view()).status == "running", "nothing is said that is not so"
            says = (await run.view()).waiting_for
            assert says.startswith("storage: not recorded yet, but holds in this process: "), "in words (R27, R34)"
            assert ("halt (cancel)" if verb == "halt" else verb) in says
            assert [row.waiting_for for row in await runs.list()] == [says]
            answered = time.time()
            await asyncio.sleep(0.2)  # what is written now comes later than what was promised
            mend()
        receipt = await run.settled(timeout=120)
        assert receipt.status == ("paused" if verb == "pause" else "cancelled")
        stop = (await run.stops())[0]
        assert stop.by == "op"
        assert stop.asked is not None
        assert asked <= stop.asked.at <= answered
        assert stop.asked.at <= stop.accepted.at <= answered, "it held from then on (R31)"
        assert receipt.accepted_at == stop.accepted.at
        assert "storage" not in (await run.view()).waiting_for
        assert world.begun == 1
        if verb != "pause":
            assert world.undone == 1
        if verb == "halt":
            assert [(halt.reason, halt.at) for halt in await runs.halts()] == [("leaking", stop.accepted.at)]


async def test_a_take_over_is_not_taken_for_the_pause_that_came_before_it(tmp_path: Path) -> None:
    """R24, R34: both shut the gate, and both are recorded, in the order in which they were asked for."""
    store = tmp_path / "runs.db"
    async with driving(store) as runs:
        run = await in_flight(runs, steps=2)
        with files_limited(tmp_path, store) as mend:
            assert await run.pause(by="ann") == Refused(NOT_RECORDED)
            assert await run.take_over(by="bob") == Refused(NOT_RECORDED)
            assert "take over" in (await run.view()).waiting_for
            world.going.set()
            mend()
        await run.settled(timeout=120)
        assert [(stop.verb, stop.by) for stop in await run.stops()] == [("pause", "ann"), ("take_over", "bob")]
        assert (await run.view()).taken_by == "bob"


async def test_a_stop_that_is_neither_written_nor_holds_here_is_answered_with_the_error(tmp_path: Path) -> None:
    """R34: nobody goes away believing that it holds; it is written all the same as soon as that is possible."""
    store = tmp_path / "runs.db"

    def fails(_: object) -> None:
        raise RuntimeError("nobody could stop it here")

    async with driving(store) as runs:
        run = await in_flight(runs, steps=2)
        control = runs.must_be_open()
        holds = control.stop_here
        with files_limited(tmp_path, store) as mend:
            control.stop_here = fails
            with pytest.raises(RuntimeError, match="nobody could stop it here"):
                await run.cancel(by="op")
            with pytest.raises(RuntimeError, match="nobody could stop it here"):
                await runs.halt(all=True, reason="leaking", by="op")
            assert (await run.view()).status == "running"
            assert runs._active["one"].s.flights, "nothing of it was stopped"
            control.stop_here = holds
            mend()
        receipt = await run.settled(timeout=120)
        assert (receipt.status, receipt.by) == ("cancelled", "op")


async def test_a_new_run_waits_until_an_unwritten_halt_is_recorded(small_disk: Path) -> None:
    store = small_disk / "runs.db"
    async with driving(store) as runs, Runtime(store, drive=False) as outside:
        await in_flight(runs)
        with full(small_disk, store) as mend:
            with pytest.raises(StoreFailed, match=NOT_RECORDED):
                await runs.halt(all=True, reason="leaking")
            with pytest.raises(StoreFailed, match="free space"):
                await runs.start(sender, Post(), id="late")
            mend()
        await eventually(outside.halts)
        assert world.begun == 1


def ordinary_writes_are_refused_while_the_reserve_is_short(folder: Path) -> None:
    store = SqliteStore(folder / "runs.db")
    store.create()
    store.reserve.keep()
    store.write(lambda tx: tx.touch())
    assert store.reserve.let_go()
    with pytest.raises(StoreFailed, match="is full"):
        store.write(lambda tx: tx.touch())
    store.write(lambda tx: tx.touch(), "upkeep")
    store.write(lambda tx: tx.touch(), "control")
    store.close()


def test_only_stops_and_upkeep_are_written_while_the_reserve_is_short(tmp_path: Path) -> None:
    ordinary_writes_are_refused_while_the_reserve_is_short(tmp_path)


# --- what is in the place of the reserve ------------------------------------------------------------------------


def left_short(store: Path) -> None:
    """As a crash on a full disk leaves it: nobody keeps it, and nobody takes it again."""
    reserve_of(store).write_bytes(b"")


async def a_store(folder: Path) -> Path:
    store = folder / "runs.db"
    await _made(store)
    return store


async def test_what_a_crash_on_a_full_disk_has_left_refuses_nothing_once_there_is_room(tmp_path: Path) -> None:
    store = await a_store(tmp_path)
    left_short(store)
    async with Runtime(store, [sender], drive=False) as runs:
        assert not runs.storage
        await runs.start(sender, Post(), id="new")
        assert (await runs.handle("new").view()).status == "queued"
    assert _disk(await asyncio.to_thread(typed_json, "doctor", "--store", str(store), code=None))["verdict"] == "ok"


async def test_what_a_crash_has_left_still_keeps_others_out_while_the_disk_is_full(small_disk: Path) -> None:
    store = await a_store(small_disk)
    async with Runtime(store, [sender], drive=False) as runs:
        assert not await runs.list()  # SQLite has what it needs to read
        left_short(store)
        filler = fill(small_disk)
        with pytest.raises(StoreFailed, match="is full: what is left of it is kept for stops"):
            await runs.start(sender, Post(), id="new")
        filler.unlink()
        await runs.start(sender, Post(), id="new")


async def test_a_short_reserve_that_somebody_keeps_counts_for_everybody(tmp_path: Path) -> None:
    """Under a quota the disk says that there is room: who keeps it knows better."""
    store = await a_store(tmp_path)
    keeping = SqliteStore(store)
    keeping.reserve.keep()
    assert keeping.reserve.let_go()
    async with Runtime(store, [sender], drive=False) as runs:
        with pytest.raises(StoreFailed, match="is full"):
            await runs.start(sender, Post(), id="new")
        keeping.close()
        await runs.start(sender, Post(), id="new")


def a_link(place: Path) -> None:
    other = place.with_name("other")
    other.write_text("mine")
    place.symlink_to(other)


def a_link_to_nothing(place: Path) -> None:
    place.symlink_to(place.with_name("nowhere"))


def another_name_of_a_file(place: Path) -> None:
    other = place.with_name("other")
    other.write_text("mine")
    place.hardlink_to(other)


def a_folder(place: Path) -> None:
    place.mkdir()


def a_pipe(place: Path) -> None:
    os.mkfifo(place)


@pytest.mark.parametrize("something", [a_link, a_link_to_nothing, another_name_of_a_file, a_folder, a_pipe])
async def test_a_reserve_that_cannot_be_made_is_not_taken_for_a_full_disk(
    tmp_path: Path, something: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    store = await a_store(tmp_path)
    something(reserve_of(store))
    world.going.set()
    async with driving(store) as runs, Runtime(store, drive=False) as outside:
        assert await (await runs.start(sender, Post())).result(timeout=120) == 1
        assert (runs.storage, outside.storage) == ("", "")
        assert "no room is kept for stops on a full disk" in caplog.text
    assert not tmp_path.joinpath("nowhere").exists()
    if (other := tmp_path / "other").exists():
        assert other.read_text() == "mine", "what belongs to others neither grows nor shrinks"
    assert reserve_of(store).is_symlink() or reserve_of(store).exists(), "nor is it removed"


# --- a server ------------------------------------------------------------------------------------------------


@contextmanager
def serving(folder: Path, store: Path) -> Iterator[Server]:
    server = Server(folder, "--lease", "4", store=store)
    try:
        yield server.ready()
    finally:
        server.close()


def test_a_server_on_a_full_disk_says_so_and_still_stops_runs(tmp_path: Path, small_disk: Path) -> None:
    store = small_disk / "runs.db"
    with serving(tmp_path, store) as server:
        run = server.start("counter", "one", to=100_000, seconds=0.2)
        eventually_seen(lambda: server.view(run)["step"] >= 1)
        filler = fill(small_disk)
        told = eventually_seen(lambda: (r := server.http.get("/readyz")).status_code == 503 and r.json())
        assert "disk" in str(told)
        assert server.post(f"/api/runs/{run}/cancel")["answer"] == "accepted"
        assert server.until(run, "cancelled")
        refused = server.post("/api/runs", {"agent": "counter", "state": {"to": 1}}, status=503)
        assert "is full" in refused["detail"]
        filler.unlink()
        server.ready()
        assert server.until(server.start("counter", "two", to=1), "done")


def test_a_server_ends_the_worker_of_a_stop_that_cannot_be_written(tmp_path: Path, small_disk: Path) -> None:
    store = small_disk / "runs.db"
    with serving(tmp_path, store) as server:
        run = server.start("wedger", "one", how="write")
        eventually_seen(lambda: server.view(run)["in_flight"])
        (pid,) = server.workers()
        with full(small_disk, store) as mend:
            asked = time.time()
            answer = server.post(f"/api/runs/{run}/cancel", {"reason": "leaking"}, status=409)["answer"]
            assert answer["why"] == NOT_RECORDED
            eventually_seen(lambda: not Path(f"/proc/{pid}").exists())
            assert server.http.get("/readyz").status_code == 503
            assert server.workers() == [], "nobody takes the run up before the stop is recorded"
            says = server.view(run)["waiting_for"]
            assert says.startswith("storage: not recorded yet, but holds in this process: cancel"), says
            assert [one["waiting_for"] for one in server.get("/api/runs")["runs"]] == [says]
            mended = time.time()
            mend()
        assert server.until(run, "cancelled")
        (stopped,) = [event for event in server.events(run) if event["type"] == "cancel_asked"]
        assert asked - 1 <= stopped["asked"]["at"] <= mended
        assert server.get(f"/api/runs/{run}/stops")["stops"][0]["accepted"]["at"] <= mended
        server.ready()


@pytest.mark.parametrize("with_a_run", [False, True])
def test_a_server_stays_when_the_disk_is_full_before_its_workers_have_begun(
    tmp_path: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch, with_a_run: bool
) -> None:
    """Stops go through; why no worker runs is said; once there is room, they begin."""
    store, go = small_disk / "runs.db", tmp_path / "go"
    tmp_path.joinpath("slowly.py").write_text(
        "import pathlib, time\n"
        f"while not pathlib.Path({str(go)!r}).exists():\n    time.sleep(0.02)\n"
        "from tests.programs.served import AGENTS\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    asyncio.run(_made(store))
    if with_a_run:
        asyncio.run(_queued(store, "old"))
    server = Server(tmp_path, "--lease", "4", agents=("slowly:AGENTS",), store=store)
    try:
        eventually_seen(lambda: reserve_of(store).exists())
        filler = fill(small_disk)
        go.touch()
        told = eventually_seen(lambda: server.http.get("/readyz").json()["workers"][0]["last_end"])
        assert "it could not use the store" in told
        assert server.process.poll() is None
        if with_a_run:
            assert server.post("/api/runs/old/cancel")["answer"] == "accepted"
            assert server.until("old", "cancelled")
        filler.unlink()
        server.ready()
        assert server.until(server.start("counter", "new", to=1), "done")
    finally:
        server.close()


async def _queued(store: Path, id_: str) -> None:
    async with Runtime(store, [sender], drive=False) as runs:
        await runs.start(sender, Post(), id=id_)


@pytest.mark.parametrize("by_socket", [False, True])
def test_the_halt_command_works_on_a_full_disk(tmp_path: Path, small_disk: Path, by_socket: bool) -> None:
    store = small_disk / "runs.db"

    async def runs_and_is_halted() -> None:
        async with driving(store) as runs:
            run = await in_flight(runs)
            fill(small_disk)
            words = ("halt", "--all", "--then", "cancel", "--reason", "leaking", "--store", str(store))
            told = await asyncio.to_thread(typed, *words)
            assert "1 run cancelled" in told
            assert (await run.settled(timeout=120)).status == "cancelled"

    if by_socket:
        asyncio.run(_made(store))
        one = Operator(store)
        try:
            asyncio.run(runs_and_is_halted())
        finally:
            assert "is full: from now on its last room is used for stops alone" in one.close()
    else:
        asyncio.run(runs_and_is_halted())


async def _made(store: Path) -> None:
    async with driving(store):
        pass


def test_doctor_finds_a_full_disk_by_writing(small_disk: Path) -> None:
    store = small_disk / "runs.db"
    asyncio.run(_made(store))
    assert _disk(typed_json("doctor", "--store", str(store), code=None))["verdict"] == "ok"
    fill(small_disk)
    assert _disk(typed_json("doctor", "--store", str(store), code=1))["verdict"] == "bad"


def _disk(told: Any) -> Any:
    return next(one for one in told["findings"] if one["what"] == "disk")
