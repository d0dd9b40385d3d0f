"""What was changed past standfast stays found when a later checkpoint has signed for it (R32)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.evidence.world import Victim, texts, writer

from standfast import Runtime
from standfast.abc import Tx
from standfast.evidence.keys import load
from standfast.evidence.notary import checkpoint_now
from standfast.evidence.store_check import verify_store
from standfast.house_events import AttemptRefused, HaltLifted, HouseEvent
from standfast.stores.sqlite import SqliteStore


def sign_for(victim: Victim, *events: HouseEvent, runs: tuple[str, ...] = ()) -> None:
    """As any process of standfast does next: something of the house is recorded, and what is there is signed for."""
    store = SqliteStore(victim.path)
    store.create()
    try:
        store.write(lambda tx: tx.note(*events, AttemptRefused(what="cancel", why="no right", by="eve")))
        assert checkpoint_now(store, load(victim.path.with_name("runs.db.key")), "house", runs) is not None
    finally:
        store.close()


def forge_lift(victim: Victim, told: HaltLifted) -> None:
    """Somebody lifts a halt past standfast, and writes into the record of the house, which fits, that it was lifted."""
    store = SqliteStore(victim.path)
    store.create()

    def forge(tx: Tx) -> None:
        assert tx.lift_halt(told.halt)
        tx.note(told)

    store.write(forge)
    store.close()


def test_what_nobody_changed_is_proved_after_another_checkpoint(victim: Victim) -> None:
    sign_for(victim, runs=("done", "paused", "cancelled", "forgotten"))
    report = victim.verify(anchor=False)
    assert [one.what for one in report.of("broken")] == []


@pytest.mark.parametrize(
    ("run", "change"),
    [
        ("done", "UPDATE calls SET result = '\"letter 9\"' WHERE run = (SELECT n FROM runs WHERE id = 'done')"),
        ("paused", "DELETE FROM mail"),
        ("cancelled", "UPDATE runs SET created = created - 1 WHERE id = 'cancelled'"),
    ],
)
def test_a_row_beside_a_record_that_stood_still_is_not_laundered_by_a_checkpoint(
    victim: Victim, run: str, change: str
) -> None:
    assert victim.db.execute(change).rowcount
    sign_for(victim, runs=(run,))
    assert f"broken run {run}: its row, contract, calls or mail were changed between checkpoints" in texts(
        victim.verify(anchor=False)
    )


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("UPDATE tokens SET hash = x'00' WHERE id = 't1'", "token t1: it is not as it was made"),
        ("UPDATE tokens SET revoked = NULL WHERE id = 't2'", "token t2: it was revoked, and counts again"),
        ("UPDATE tokens SET revoked = 1.0 WHERE id = 't1'", "token t1: nobody has recorded who revoked it so"),
        ("UPDATE tokens SET expires = 1e12 WHERE id = 't1'", "token t1: it is not as it was made"),
        ("DELETE FROM tokens WHERE id = 't1'", "token t1: it was made, and is not there"),
        ("INSERT INTO tokens VALUES ('t3', x'00', '{}', NULL, NULL)", "token t3: nobody has recorded that it was made"),
        ("UPDATE halts SET lifted = 5.0 WHERE id = 'h1'", "halt h1: it holds no longer, and nobody lifted it"),
        ("UPDATE halts SET lifted = NULL WHERE id = 'h2'", "halt h2: it was lifted, and holds again"),
        ("UPDATE halts SET lifted = 5.0 WHERE id = 'h2'", "halt h2: it was lifted at another time than its row says"),
        ("UPDATE halts SET doc = x'7b7d' WHERE id = 'h1'", "halt h1: it is not as it was set"),
        ("DELETE FROM halts WHERE id = 'h1'", "halt h1: it was set, and is not there"),
        (
            "INSERT INTO halts VALUES (9, 'h9', x'7b7d', NULL, NULL, NULL)",
            "halt h9: nobody has recorded that it was set",
        ),
    ],
)
def test_halts_and_tokens_are_not_laundered_by_a_checkpoint(victim: Victim, change: str, told: str) -> None:
    assert victim.db.execute(change).rowcount
    sign_for(victim)
    report = victim.verify(anchor=False)
    assert f"broken {told}" in texts(report)


def test_a_lift_that_somebody_without_the_key_recorded_is_not_proved(victim: Victim) -> None:
    """Whoever can write the file can add to the record of the house; they cannot sign."""
    forge_lift(victim, HaltLifted(halt="h1", by="ana", reason="all is well"))
    sign_for(victim)
    report = victim.verify(anchor=False)
    assert "unproved halts: not signed: the lift of h1" in texts(report)
    assert report.verdict == "unproved"


def test_a_lift_signed_with_another_key_is_broken(victim: Victim) -> None:
    forge_lift(victim, HaltLifted(halt="h1", key="00" * 32, signature="00" * 64))
    assert "broken halt h1: its lift is not signed by one of the keys you trust" in texts(victim.verify(anchor=False))


def test_a_halt_and_its_lift_are_signed_by_whoever_sets_them(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"

    async def story() -> None:
        async with Runtime(path, [writer]) as runs:
            await runs.halt(id="h", agent="nobody", reason="a drill")
            await runs.lift("h")

    asyncio.run(story())
    report = verify_store(path)
    assert not [one for one in report.findings if one.what.startswith("halt")], report.findings
