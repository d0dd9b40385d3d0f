"""Tokens are kept by their hashes, found by them, and end for good (R13, R32)."""

from __future__ import annotations

import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.intruding import Intruder
from tests.conformance.rows import insert

from standfast.abc import Store
from standfast.errors import Misuse, StoreDamaged
from standfast.house_events import TokenMade, TokenRevoked
from standfast.rights import Scope, Token, hash_of, new_secret, rights_from
from standfast.rows import RunDoc
from standfast.stores.sqlite import SqliteStore
from standfast.tokens import LONGEST_LINE, TokenEnded, lifetime, make_token, reaches, revoke_token, why_ended


def made(store: Store, id: str = "tk-1", secret: str = "s1", **more: Any) -> Token:  # noqa: A002
    return store.write(lambda tx: make_token(tx, id, secret, ("view",), by="ann", route="test", **more))


def test_a_token_is_found_by_its_secret_alone_and_the_secret_is_not_kept(store: Store, intruder: Intruder) -> None:
    token = made(store, secret="the secret", name="bob", labels={"team": "a"}, seconds=60.0)
    assert store.read(lambda tx: tx.token(hash_of("the secret"))) == token
    assert store.read(lambda tx: tx.token(hash_of("another"))) is None
    assert store.read(lambda tx: tx.token_named("tk-1")) == token
    assert store.read(lambda tx: tx.tokens()) == [token]
    assert "the secret" not in str(intruder.execute("SELECT * FROM tokens") + intruder.execute("SELECT * FROM house"))
    (event,) = store.read(lambda tx: tx.house())
    assert isinstance(event, TokenMade)
    assert (event.token, event.rights, event.labels, event.by, event.route) == (
        *("tk-1", ["view"], {"team": "a"}),
        *("ann", "test"),
    )


def test_two_tokens_have_two_secrets(store: Store) -> None:
    assert len({new_secret() for _ in range(100)}) == 100
    made(store)
    with pytest.raises(Exception, match="UNIQUE"):
        made(store, "tk-2")


def test_a_token_ends_by_its_time_or_by_being_revoked_and_the_first_time_stands(store: Store) -> None:
    token = made(store, seconds=60.0)
    assert token.ended(token.made + 59) == ""
    assert token.ended(token.made + 60) == "this token has expired"
    assert made(store, "tk-2", "s2", seconds=None).ended(1e12) == ""
    assert store.write(lambda tx: revoke_token(tx, "tk-1", by="ann")) == ["tk-1"]
    ended = store.read(lambda tx: tx.token_named("tk-1"))
    assert ended is not None
    assert ended.ended(token.made) == "this token was revoked"
    assert store.write(lambda tx: revoke_token(tx, "tk-1", by="ann")) == []
    assert store.read(lambda tx: tx.token_named("tk-1")) == ended
    assert isinstance(store.read(lambda tx: tx.house())[-1], TokenRevoked)
    with pytest.raises(Misuse, match="no token"):
        store.write(lambda tx: revoke_token(tx, "absent"))


def test_what_was_made_with_a_token_ends_with_it_however_far_down(store: Store) -> None:
    made(store, "tk-1", "1")
    made(store, "tk-2", "2", parent="tk-1")
    made(store, "tk-3", "3", parent="tk-2")
    made(store, "tk-4", "4")
    assert store.write(lambda tx: revoke_token(tx, "tk-1")) == ["tk-1", "tk-2", "tk-3"]
    assert [token.id for token in store.read(lambda tx: tx.tokens()) if token.revoked is None] == ["tk-4"]


def test_no_token_is_made_with_one_that_counts_no_longer(store: Store) -> None:
    """The transaction that makes it looks at the whole line of parents (R13)."""
    made(store, "tk-1", "1", seconds=60.0)
    made(store, "tk-2", "2", parent="tk-1")
    store.write(lambda tx: tx.end_token("tk-1"))  # the grandparent alone, as a revocation half way would leave it
    before = store.read(lambda tx: tx.house())
    with pytest.raises(TokenEnded, match="made with tk-1"):
        made(store, "tk-3", "3", parent="tk-2")
    with pytest.raises(TokenEnded, match="was revoked"):
        made(store, "tk-3", "3", parent="tk-1")
    with pytest.raises(TokenEnded, match="not there"):
        made(store, "tk-3", "3", parent="absent")
    assert store.read(lambda tx: tx.token_named("tk-3")) is None
    assert store.read(lambda tx: tx.house()) == before


def test_a_token_counts_only_while_all_those_above_it_count(store: Store) -> None:
    """Also a child that an earlier version wrote after its parent was revoked (R13)."""
    parent = made(store, "tk-1", "1", seconds=60.0)
    orphan = replace(parent, id="tk-2", parent="tk-1", expires=None)
    store.write(lambda tx: tx.put_token(orphan, hash_of("2")))
    store.write(lambda tx: tx.put_token(replace(orphan, id="tk-3", parent="tk-2"), hash_of("3")))
    store.write(lambda tx: tx.put_token(replace(orphan, id="tk-4", parent="absent"), hash_of("4")))
    now = parent.made
    assert store.read(lambda tx: [why_ended(tx, id, now) for id in ("tk-1", "tk-2", "tk-3")]) == ["", "", ""]  # noqa: A001
    assert "absent" in store.read(lambda tx: why_ended(tx, "tk-4", now))
    assert "expired" in store.read(lambda tx: why_ended(tx, "tk-3", now + 60))
    store.write(lambda tx: tx.end_token("tk-1"))
    assert store.read(lambda tx: why_ended(tx, "tk-3", now)) == (
        "this token was revoked: it was made with tk-1, of which the same is true"
    )


def test_tokens_that_name_each_other_as_parents_do_not_hang_whoever_looks(store: Store) -> None:
    one = made(store, "tk-1", "1")
    for id_, parent in (("tk-2", "tk-3"), ("tk-3", "tk-2")):
        store.write(lambda tx: tx.put_token(replace(one, id=id_, parent=parent), hash_of(id_)))  # noqa: B023
    assert store.read(lambda tx: why_ended(tx, "tk-2")) != ""


def test_a_token_gets_no_more_than_the_whole_line_above_it_has(store: Store) -> None:
    insert(store, "a", doc=RunDoc(labels={"team": "x"}))
    insert(store, "b", parent="a")
    insert(store, "c", doc=RunDoc(labels={"team": "y"}))
    made(store, "tk-1", "1", run="a", seconds=60.0)
    made(store, "tk-5", "5", labels={"team": "x"})
    child = made(store, "tk-2", "2", run="b", parent="tk-1", seconds=None)
    assert child.expires == store.read(lambda tx: tx.tokens())[0].expires
    for wider in ({"run": "c"}, {"labels": {"team": "x"}}, {}):
        with pytest.raises(Misuse, match="does not reach"):
            made(store, "tk-3", "3", parent="tk-1", **wider)
    with pytest.raises(Misuse, match="does not reach"):
        made(store, "tk-3", "3", parent="tk-5", labels={"env": "p"})
    made(store, "tk-6", "6", parent="tk-5", labels={"team": "x", "env": "p"})
    with pytest.raises(Misuse, match="right 'cancel' to give"):
        store.write(lambda tx: make_token(tx, "tk-3", "3", ("view", "cancel"), run="b", parent="tk-2"))


def test_a_line_of_tokens_is_short_enough_to_be_looked_at_with_every_use(store: Store) -> None:
    made(store, "tk-0", "0")
    for n in range(1, LONGEST_LINE):
        made(store, f"tk-{n}", str(n), parent=f"tk-{n - 1}")
    with pytest.raises(Misuse, match="in a line of tokens"):
        made(store, "tk-more", "more", parent=f"tk-{LONGEST_LINE - 1}")


def test_processes_that_make_tokens_while_their_parent_is_revoked_leave_none_that_counts(tmp_path: Path) -> None:
    """Two processes on one store file; another revokes what they make tokens with (R13)."""
    store = SqliteStore(tmp_path / "runs.db")
    store.create()
    try:
        for n in range(2):
            made(store, f"tk-{n}", f"parent {n}")
        with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as makers:
            for n in range(2):
                making = [makers.submit(_make_until_refused, str(tmp_path / "runs.db"), n, k) for k in range(2)]
                while not any(token.parent == f"tk-{n}" for token in store.read(lambda tx: tx.tokens())):
                    assert not any(each.done() for each in making)
                    time.sleep(0.01)  # so that the makers get the lock
                store.write(lambda tx: revoke_token(tx, f"tk-{n}"))  # noqa: B023 - called at once
                for each in making:
                    each.result(60)
        assert [t.id for t in store.read(lambda tx: tx.tokens()) if t.revoked is None] == []
    finally:
        store.close()


def _make_until_refused(file: str, parent: int, maker: int) -> None:
    store = SqliteStore(Path(file))
    try:
        for n in range(2_000):
            made(store, f"tk-{parent}-{maker}-{n}", f"{parent}-{maker}-{n}", parent=f"tk-{parent}")
            time.sleep(0.02)  # so that others get the lock
    except TokenEnded:
        return
    finally:
        store.close()
    raise AssertionError("tokens were made on and on")


def test_no_token_lasts_beyond_the_one_it_was_made_with(store: Store) -> None:
    assert made(store, "tk-1", "1", seconds=None, until=5.0).expires == 5.0
    assert made(store, "tk-2", "2", seconds=1e9, until=5.0).expires == 5.0


def test_a_scope_holds_its_runs_and_all_that_descend_from_them(store: Store) -> None:
    insert(store, "a", doc=RunDoc(labels={"team": "x", "env": "p"}))
    insert(store, "b", parent="a")
    insert(store, "c", parent="b")
    insert(store, "d", doc=RunDoc(labels={"team": "y"}))
    for scope, expected in (
        (Scope(frozenset({"a"})), "abc"),
        (Scope(frozenset({"b"})), "bc"),
        (Scope(frozenset({"absent"})), ""),
        (Scope(), ""),
        (Scope(labels=(("team", "x"),)), "abc"),
        (Scope(labels=(("env", "p"), ("team", "x"))), "abc"),
        (Scope(labels=(("env", "q"), ("team", "x"))), ""),
        (None, "abcd"),
    ):
        asked: dict[str, Any] = {"status": None, "agent": None, "labels": None, "needs": None, "before": None}
        found = store.read(lambda tx: tx.list_runs(**asked, limit=10, scope=scope))  # noqa: B023 - called at once
        assert "".join(sorted(run for run, _, _ in found)) == expected
        for run in "abcd":
            assert store.read(lambda tx: reaches(tx, scope, run)) == (run in expected)  # noqa: B023
    assert store.read(lambda tx: tx.lineage("absent")) == []


def test_a_token_for_a_run_that_is_not_there_is_not_made(store: Store) -> None:
    with pytest.raises(Misuse, match="no run"):
        made(store, run="absent")
    assert store.read(lambda tx: tx.tokens()) == []
    assert store.read(lambda tx: tx.house()) == []


def test_a_token_that_cannot_be_read_lets_nobody_in(store: Store, intruder: Intruder) -> None:
    made(store)
    intruder.execute("UPDATE tokens SET doc = replace(doc, 'view', 'everything')")
    with pytest.raises(StoreDamaged, match="tk-1"):
        store.read(lambda tx: tx.token(hash_of("s1")))


@pytest.mark.parametrize("text", ["", "2", "h", "0h", "-1d", "2 h", "1e9d", "99999999d", "forever"])
def test_a_time_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(Misuse, match="no time to last"):
        lifetime(text)


@pytest.mark.parametrize("text", ["999999w", "999999d", "600w"])
def test_no_token_outlasts_ten_years_unless_it_never_ends(text: str) -> None:
    with pytest.raises(Misuse, match="ten years"):
        lifetime(text)
    assert lifetime("3650d") is not None


def test_times_and_rights_are_read_as_people_write_them() -> None:
    assert [lifetime(text) for text in ("30s", "5m", "2h", "7d", "never")] == [30, 300, 7200, 604800, None]
    assert rights_from(["cancel", "view", "cancel"]) == ("view", "cancel")
    for wrong in ([], ["look"], ["*"]):
        with pytest.raises(Misuse):
            rights_from(wrong)
