"""Forgetting much keeps nobody from the store, and whatever ends it in between, the record holds (R32, R34)."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from click.testing import CliRunner
from tests.evidence.test_forget import SECRET
from tests.evidence.test_notary import asked
from tests.evidence.world import Letters, writer

from standfast import Accepted, Log, Misuse, Refused, Runtime
from standfast.cli.app import standfast
from standfast.evidence import forgetting as slices
from standfast.evidence.forgetting import Turn, forgetting
from standfast.evidence.keys import load_or_make, load_public
from standfast.evidence.notary import checkpoint_now
from standfast.evidence.store_check import verify_store
from standfast.stores import sqlite_evidence
from standfast.stores.sqlite import SqliteStore
from standfast.stores.sqlite_tx import SqliteTx

T = TypeVar("T")
ROWS = 3


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_evidence, "SLICE_ROWS", ROWS)
    monkeypatch.setattr(sqlite_evidence, "SLICE_SECONDS", 3600.0)


class Counting:
    """A store whose transactions are counted, with the rows that each has changed."""

    def __init__(self, path: Path) -> None:
        self.store = SqliteStore(path)
        self.changed: list[int] = []

    def turn(self, kind: str, act: Callable[[Any], T]) -> T:
        if kind == "read":
            return self.store.read(act)

        def counted(tx: SqliteTx) -> T:
            before: int = tx._c.total_changes  # type: ignore[attr-defined]
            result = act(tx)
            self.changed.append(tx._c.total_changes - before)  # type: ignore[attr-defined]
            return result

        return self.store.write(counted)

    def drive(self, turns: Generator[Turn, Any, T], most: int = 10**9) -> T | None:
        """Until it is done, or so many turns have been taken, as if the process had been killed then."""
        found: Any = None
        for _ in range(most):
            try:
                kind, act = turns.send(found)
            except StopIteration as end:
                result: T = end.value
                return result
            found = self.turn(kind, act)
        turns.close()
        return None


async def _ended(path: Path) -> None:
    """A run with a log, a child's worth of calls, and mail."""
    async with Runtime(path, [writer]) as runs:
        run = await runs.start(writer, Letters(to_send=1, log=Log([SECRET] * 10)), id="one", reason=SECRET)
        await asked(run)
        for n in range(8):
            await run.message(f"{SECRET} {n}", request_id=f"r-{n}")
        await run.cancel(reason=SECRET)
        await run.settled(timeout=120)


def _forgetting() -> Generator[Turn, Any, Any]:
    return forgetting("one", by="ana", reason="the law")


async def test_no_transaction_deletes_more_than_a_little(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    await _ended(path)
    counting = Counting(path)
    try:
        assert isinstance(counting.drive(_forgetting()), Accepted)
    finally:
        counting.store.close()
    marking, *deleting = counting.changed
    assert marking < 10
    assert len(deleting) > 8
    assert max(deleting) <= ROWS + 8  # the last one has the answers to requests as well


async def test_large_rows_are_deleted_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "runs.db"
    await _ended(path)
    monkeypatch.setattr(sqlite_evidence, "SLICE_BYTES", 1)
    counting = Counting(path)
    try:
        assert isinstance(counting.drive(_forgetting()), Accepted)
    finally:
        counting.store.close()
    assert {*counting.changed[1:]} <= {0, 1, 8}


@pytest.mark.parametrize("signed", [True, False])
async def test_whatever_ends_it_the_record_holds_and_a_second_forget_finishes(tmp_path: Path, signed: bool) -> None:
    """After every transaction in turn: verified as it is, signed for as it is, forgotten again."""
    path = tmp_path / "runs.db"
    await _ended(path)
    public = load_public(tmp_path / "runs.db.pub")
    counting = Counting(path)
    try:
        for _ in range(200):
            answer = counting.drive(_forgetting(), 4)  # one transaction more than the last time, at the least
            if signed:
                checkpoint_now(counting.store, load_or_make(str(path)), "test")
            report = verify_store(path, [public])
            assert report.of("broken") == []
            view = counting.store.read(lambda tx: tx.run("one"))
            assert view is not None
            unfinished = [one.text for one in report.of("unproved") if "not all of its content is deleted" in one.text]
            assert bool(unfinished) is bool(view.doc.forgotten and answer is None and _has_content(counting.store))
            if isinstance(answer, Accepted | Refused):
                break
        else:
            raise AssertionError("it never ends")
    finally:
        counting.store.close()
    assert len(counting.changed) > 8
    assert SECRET.encode() not in path.read_bytes()


def _has_content(store: SqliteStore) -> bool:
    row = store.read(lambda tx: tx.run("one"))
    assert row is not None
    return store.read(lambda tx: tx.has_content(row.n))


async def test_a_run_that_is_half_forgotten_is_finished_by_its_age_and_in_no_bundle(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    await _ended(path)
    counting = Counting(path)
    assert counting.drive(_forgetting(), 6) is None
    assert _has_content(counting.store)
    counting.store.close()
    async with Runtime(path, [writer]) as runs:
        with pytest.raises(Misuse, match="not all of its content is deleted yet"):
            await runs.handle("one").evidence(tmp_path / "bundle.zip")
        refused = await runs.handle("one").message("hello")
        assert isinstance(refused, Refused)
        assert "was forgotten on" in refused.why
    done = CliRunner().invoke(
        standfast, ["forget", "--older-than", "0s", "--reason", "old", "--store", str(path), "--by", "bob"]
    )
    assert (done.exit_code, done.output.count("is deleted")) == (0, 1)
    assert SECRET.encode() not in path.read_bytes()
    assert verify_store(path).of("broken") == []


async def test_a_fork_that_comes_in_between_keeps_the_logs(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    await _ended(path)
    async with Runtime(path, [writer]) as runs:
        turns = _forgetting()
        kind, look = next(turns)
        assert kind == "read"
        found = runs.read(look)
        await runs.handle("one").fork(id="fork")
        _, mark = turns.send(found)
        refused = await runs.control(mark)
        assert isinstance(refused, Refused)
        assert "run fork was forked from run one" in refused.why
        assert not (await runs.handle("one").view()).error


async def test_many_runs_are_marked_a_few_at_a_time_and_the_run_itself_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices, "RUNS_AT_ONCE", 2)
    assert [[*batch] for batch in slices._batches(list("edcba"))] == [["e", "d"], ["c", "b"], ["a"]]  # type: ignore[arg-type]
