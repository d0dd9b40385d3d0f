"""Calls, mail, logs, requests, signals, leases, contracts: what goes in comes out, in order (R2, R5, R15)."""

from __future__ import annotations

from tests.conformance.rows import call, get, insert, mail

from standfast.abc import Store
from standfast.rows import LeaseRow


def test_a_call_comes_back_with_every_field(store: Store) -> None:
    run = insert(store)
    full = call(
        run.n,
        "c1",
        epoch=2,
        step=3,
        attempt=4,
        settles="run",
        undoable=True,
        before=b'"old"',
        result=b"[1]",
        error="E",
        message="m",
        question="q?",
        options=["a", "b"],
        schema={"type": "string"},
        wake_at=9.5,
        default=b'"d"',
        undo="pending",
        tries=2,
        undo_reason="why",
        title="T",
        since=1.5,
    )
    store.write(lambda tx: tx.insert_call(full))
    found = store.read(lambda tx: tx.call(run.n, "c1"))
    assert found is not None
    full.n = found.n
    assert found == full


def test_what_becomes_of_a_call_is_kept(store: Store) -> None:
    run = insert(store)
    one = call(run.n, "c1")
    store.write(lambda tx: tx.insert_call(one))
    one.status, one.result, one.undo, one.tries, one.args, one.before = "finished", b"7", "undone", 3, b'{"a":1}', b"1"
    store.write(lambda tx: tx.update_call(one))
    found = store.read(lambda tx: tx.call(run.n, "c1"))
    assert found is not None
    assert (found.status, found.result, found.undo, found.tries, found.args, found.before) == (
        "finished",
        b"7",
        "undone",
        3,
        b'{"a":1}',
        b"1",
    )


def test_calls_are_told_apart_by_run_epoch_and_step_in_order_of_admission(store: Store) -> None:
    a, b = insert(store, "a"), insert(store, "b")
    for run, id_, epoch, step in (
        (a.n, "2", 0, 0),
        (a.n, "1", 0, 0),
        (a.n, "3", 0, 1),
        (a.n, "4", 1, 0),
        (b.n, "1", 0, 0),
    ):
        one = call(run, id_, epoch=epoch, step=step)
        store.write(lambda tx, one=one: tx.insert_call(one))
    assert [c.id for c in store.read(lambda tx: tx.calls_of_step(a.n, 0, 0))] == ["2", "1"]
    assert [c.id for c in store.read(lambda tx: tx.calls(a.n))] == ["2", "1", "3", "4"]
    assert [c.id for c in store.read(lambda tx: tx.calls(b.n))] == ["1"]
    assert store.read(lambda tx: tx.call(b.n, "2")) is None


def test_a_persons_step_moves_the_agents_calls_behind_it(store: Store) -> None:
    """R24: what the agent had done in a step belongs to the next one; the person's own call stays."""
    a = insert(store, "a")
    rows = (("agent", 0, 2, ""), ("person", 0, 2, "order"), ("before", 0, 1, ""), ("other epoch", 1, 2, ""))
    for id_, epoch, step, person in rows:
        one = call(a.n, id_, epoch=epoch, step=step, person=person)
        store.write(lambda tx, one=one: tx.insert_call(one))
    store.write(lambda tx: tx.move_step(a.n, 0, 2))
    steps = {c.id: c.step for c in store.read(lambda tx: tx.calls(a.n))}
    assert steps == {"agent": 3, "person": 2, "before": 1, "other epoch": 2}


def test_the_ledger_is_effects_alone_newest_first(store: Store) -> None:
    run = insert(store)
    for id_, effect in (("r", "read"), ("w", "write"), ("i", "idempotent"), ("x", "irreversible")):
        one = call(run.n, id_, effect=effect)
        store.write(lambda tx, one=one: tx.insert_call(one))
    assert [c.id for c in store.read(lambda tx: tx.ledger(run.n))] == ["x", "w"]


def test_at_stake_is_what_a_cancel_in_this_step_would_take_back(store: Store) -> None:
    """R8: the step's own effects, and drafts and locks of any step; not what is undone, kept, or never began."""
    run = insert(store)
    for id_, more in (
        ("kept", {"step": 1}),
        ("draft", {"step": 1, "settles": "run"}),
        ("lock", {"epoch": 0, "step": 0, "settles": "never"}),
        ("undone", {"step": 1, "settles": "run", "undo": "undone"}),
        ("mine", {"step": 2}),
        ("mine too", {"step": 2, "status": "started", "effect": "irreversible"}),
        ("a read", {"step": 2, "effect": "read"}),
        ("not begun", {"step": 2, "status": "not_begun"}),
        ("before a rewind", {"epoch": 0, "step": 2}),
    ):
        one = call(run.n, id_, **{"epoch": 1, "effect": "write", "status": "finished", **more})
        store.write(lambda tx, one=one: tx.insert_call(one))
    assert [c.id for c in store.read(lambda tx: tx.at_stake(run.n, 1, 2))] == ["draft", "lock", "mine", "mine too"]


def test_open_calls_are_those_a_person_or_probe_must_settle(store: Store) -> None:
    run = insert(store)
    for status in ("asking", "approved", "started", "finished", "in_doubt", "check", "cut", "not_begun"):
        one = call(run.n, status, status=status)
        store.write(lambda tx, one=one: tx.insert_call(one))
    assert [c.id for c in store.read(lambda tx: tx.open_calls(run.n))] == ["asking", "in_doubt", "check"]


def test_mail_is_read_in_order_of_arrival_until_it_is_consumed(store: Store) -> None:
    a, b = insert(store, "a"), insert(store, "b")
    for run, id_ in ((a.n, "m2"), (a.n, "m1"), (b.n, "m3")):
        one = mail(run, id_, data={"k": [1, None]}, by="me", at=3.5, not_before=2)
        store.write(lambda tx, one=one: tx.insert_mail(one))
    first, second = store.read(lambda tx: tx.pending_mail(a.n))
    assert (first.id, second.id, first.data, first.by, first.at, first.not_before) == (
        "m2",
        "m1",
        {"k": [1, None]},
        "me",
        3.5,
        2,
    )
    first.status, first.step = "consumed", 4
    store.write(lambda tx: tx.update_mail(first))
    assert [m.id for m in store.read(lambda tx: tx.pending_mail(a.n))] == ["m1"]
    assert [(m.id, m.status, m.step) for m in store.read(lambda tx: tx.mail(a.n))] == [
        ("m2", "consumed", 4),
        ("m1", "pending", None),
    ]
    assert [m.id for m in store.read(lambda tx: tx.pending_mail(b.n))] == ["m3"]


def test_log_rows_are_read_by_place(store: Store) -> None:
    store.write(lambda tx: tx.append_log("a", 0, [b"0", b"1", b"2"]))
    store.write(lambda tx: tx.append_log("a", 3, [b"3"]))
    store.write(lambda tx: tx.append_log("b", 0, [b"other"]))
    assert store.read(lambda tx: tx.read_log("a", 0, 4)) == [b"0", b"1", b"2", b"3"]
    assert store.read(lambda tx: tx.read_log("a", 1, 3)) == [b"1", b"2"]
    assert store.read(lambda tx: tx.read_log("a", 2, 99)) == [b"2", b"3"]
    assert store.read(lambda tx: tx.read_log("none", 0, 9)) == []


def test_a_log_row_of_a_step_that_was_set_back_is_written_over(store: Store) -> None:
    store.write(lambda tx: tx.append_log("a", 0, [b"0", b"1"]))
    store.write(lambda tx: tx.append_log("a", 1, [b"again"]))
    assert store.read(lambda tx: tx.read_log("a", 0, 2)) == [b"0", b"again"]


def test_a_request_id_is_remembered_with_its_answer(store: Store) -> None:
    assert store.read(lambda tx: tx.answered("q1")) is None
    store.write(lambda tx: tx.remember("q1", "r1", "pause", '{"x":1}'))
    assert store.read(lambda tx: tx.answered("q1")) == ("r1", "pause", '{"x":1}')


def test_signals_come_in_order_and_after_the_last_one_seen(store: Store) -> None:
    start = store.read(lambda tx: tx.last_signal())
    for id_ in ("a", "b", "a"):
        store.write(lambda tx, id_=id_: tx.signal(id_))
    seen = store.read(lambda tx: tx.signals(start))
    assert [run for _, run in seen] == ["a", "b", "a"]
    assert [run for _, run in store.read(lambda tx: tx.signals(seen[0][0]))] == ["b", "a"]
    assert store.read(lambda tx: tx.last_signal()) == seen[-1][0]
    assert store.read(lambda tx: tx.signals(seen[-1][0])) == []


def test_old_signals_go_and_numbers_are_never_used_twice(store: Store) -> None:
    def many(count: int) -> None:
        store.write(lambda tx: [tx.signal("r") for _ in range(count)])

    many(12_000)
    last = store.read(lambda tx: tx.last_signal())
    assert last >= 12_000
    assert len(store.read(lambda tx: tx.signals(0))) <= 11_000
    many(1)
    assert store.read(lambda tx: tx.last_signal()) == last + 1


def test_a_lease_rises_while_it_is_there(store: Store) -> None:
    lease = LeaseRow(id="d1", counter=0, boot="b", pid=7, started="9", agents=["x", "y"])
    store.write(lambda tx: tx.put_lease(lease))
    assert store.read(lambda tx: tx.leases()) == [lease]
    assert store.write(lambda tx: tx.bump_lease("d1")) is True
    assert store.read(lambda tx: tx.leases())[0].counter == 1
    store.write(lambda tx: tx.drop_lease("d1"))
    assert store.write(lambda tx: tx.bump_lease("d1")) is False
    assert store.read(lambda tx: tx.leases()) == []


def test_a_contract_is_kept_by_fingerprint_and_the_newest_is_the_agents(store: Store) -> None:
    store.write(lambda tx: tx.put_contract("f1", "a", {"v": 1}))
    store.write(lambda tx: tx.put_contract("f2", "a", {"v": 2}))
    store.write(lambda tx: tx.put_contract("f3", "b", {"v": 3}))
    store.write(lambda tx: tx.put_contract("f2", "a", {"v": "never changed"}))
    assert store.read(lambda tx: tx.contract("f1")) == {"v": 1}
    assert store.read(lambda tx: tx.contract("f2")) == {"v": 2}
    assert store.read(lambda tx: tx.contract("nothing")) is None
    assert store.read(lambda tx: tx.contract_of("a")) == ("f2", {"v": 2})
    assert store.read(lambda tx: tx.contract_of("nobody")) is None


def test_children_are_found_by_parent_living_ones_apart(store: Store) -> None:
    insert(store, "p")
    insert(store, "c1", parent="p", status="running")
    insert(store, "c2", parent="p", status="done")
    insert(store, "x", parent="other")
    assert store.read(lambda tx: tx.children("p", live=True)) == ["c1"]
    assert store.read(lambda tx: tx.children("p", live=False)) == ["c1", "c2"]
    assert get(store, "c1").parent == "p"
