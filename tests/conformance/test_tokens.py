"""Tokens are kept by their hashes, found by them, and end for good (R13, R32)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.conformance.intruding import Intruder
from tests.conformance.rows import insert

from standfast.abc import Store
from standfast.errors import Misuse, StoreDamaged
from standfast.house_events import TokenMade, TokenRevoked
from standfast.rights import Scope, Token, hash_of, new_secret, rights_from
from standfast.rows import RunDoc
from standfast.tokens import lifetime, make_token, reaches, revoke_token


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
