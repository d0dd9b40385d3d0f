"""A forger who remakes chains, keys and checkpoints is found out by the key or the anchor that is out of reach (R32).

What is not found is listed in docs/guide/record.md, and here: the verdict is then never "proved".
"""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import to_json
from tests.evidence.world import Victim, texts

from standfast.evidence.checkpoints import BEFORE_ALL, DOMAIN, hash_of, signed_part
from standfast.evidence.keys import Key, load, make, public_pem
from standfast.halts import lift_bytes
from standfast.house_events import HaltLifted, HaltSet, decode_house, encode_house
from standfast.rows import CheckpointRow
from standfast.stores.chain import HOUSE, digests, genesis, link
from standfast.stores.sides import house_side, lasting, run_side


def rewrite(victim: Victim, run: int = 1) -> None:
    """Another history: an event's words are changed, and every hash after it is made anew."""
    id_ = victim.rows("SELECT id FROM runs WHERE n = ?", run)[0][0]
    head = genesis(id_)
    heads: dict[int, bytes] = {}
    for rowid, seq, at, body, step, state in victim.rows(
        "SELECT rowid, seq, at, body, step, state FROM record WHERE run = ? ORDER BY seq", run
    ):
        body = body.replace(b"letter 0", b"letter 9")
        head = link(head, seq, at, step, digests(body, state))
        heads[seq] = head
        victim.db.execute("UPDATE record SET body = ?, hash = ? WHERE rowid = ?", (body, head, rowid))
    told = victim.rows("SELECT seq FROM runs WHERE n = ?", run)[0][0]
    victim.db.execute("UPDATE runs SET head = ? WHERE n = ?", (heads[told], run))


def sign_again(victim: Victim, key: Key) -> None:
    """Every checkpoint anew, for the records as they are now, with this key."""
    previous = BEFORE_ALL
    for n, at, doc in victim.rows("SELECT n, at, doc FROM checkpoints ORDER BY n"):
        said: dict[str, Any] = json.loads(doc)
        said["previous"] = previous
        for one in said["runs"]:
            number = victim.rows("SELECT n FROM runs WHERE id = ?", one["run"])[0][0]
            found = victim.rows("SELECT hash FROM record WHERE run = ? AND seq = ?", number, one["seq"])
            one["head"] = found[0][0].hex()
            if one["side"] is not None:
                one["side"] = side_of(victim, number).hex()
        new = to_json(said)
        row = CheckpointRow(n, at, new, key.public, key.sign(DOMAIN + signed_part(new)))
        previous = hash_of(row)
        victim.db.execute(
            "UPDATE checkpoints SET doc = ?, key = ?, signature = ? WHERE n = ?", (row.doc, row.key, row.signature, n)
        )


def halts_signed_again(victim: Victim, key: Key) -> None:
    """Every halt and every lift anew with this key, and the record of the house that tells of them."""
    head = HOUSE
    heads: dict[int, bytes] = {}
    for seq, at, body in victim.rows("SELECT seq, at, body FROM house ORDER BY seq"):
        event = decode_house(body)
        if isinstance(event, HaltSet):
            doc = victim.rows("SELECT doc FROM halts WHERE id = ?", event.halt)[0][0]
            signed = (key.public, key.sign(doc))
            victim.db.execute("UPDATE halts SET key = ?, signature = ? WHERE id = ?", (*signed, event.halt))
            event.row = lasting(event.halt, doc, *signed)
        elif isinstance(event, HaltLifted):
            event.key, event.signature = key.public.hex(), key.sign(lift_bytes(event.halt, event.at)).hex()
        new = encode_house(event)
        head = heads[seq] = link(head, seq, at, None, digests(new, None))
        victim.db.execute("UPDATE house SET body = ?, hash = ? WHERE seq = ?", (new, head, seq))
    side = house_side(
        victim.rows("SELECT n, id, doc, key, signature, lifted FROM halts ORDER BY n"),
        victim.rows("SELECT id, hash, doc, expires, revoked FROM tokens ORDER BY id"),
    )
    for n, doc in victim.rows("SELECT n, doc FROM checkpoints"):
        said = json.loads(doc)
        if said["house"]["seq"]:
            said["house"]["head"] = heads[said["house"]["seq"]].hex()
        said["house"]["side"] = side.hex()
        victim.db.execute("UPDATE checkpoints SET doc = ? WHERE n = ?", (to_json(said), n))


def side_of(victim: Victim, n: int) -> bytes:
    columns = "n, id, agent, status, seq, head, fence, epoch, holder, doc, parent, created, wake_at, needs"
    run = victim.rows(f"SELECT {columns} FROM runs WHERE n = ?", n)[0]
    contract = victim.rows("SELECT id, agent, doc FROM contracts WHERE id = ?", json.loads(run[9])["contract"])
    calls = victim.rows("SELECT * FROM calls WHERE run = ? ORDER BY n", n)
    mail = victim.rows("SELECT * FROM mail WHERE run = ? ORDER BY n", n)
    return run_side(run, contract[0] if contract else None, calls, mail)


def test_a_remade_chain_is_not_the_one_that_was_signed(victim: Victim) -> None:
    rewrite(victim)
    report = victim.verify(anchor=False, key=False)
    assert report.verdict == "broken"
    assert "for which checkpoint 1 was signed" in texts(report)


def test_another_history_under_another_key_is_found_by_the_key_one_knows(victim: Victim) -> None:
    rewrite(victim)
    stranger = make()
    sign_again(victim, stranger)
    assert "none of those you trust" in texts(victim.verify(anchor=False))
    assert victim.verify(key=False, anchor=False).verdict == "broken"  # the .pub beside it is still the old one


def test_known_limit_a_replaced_key_beside_the_store_is_never_proved(victim: Victim) -> None:
    """Somebody who replaces store and .pub is found only by a key or an anchor kept elsewhere."""
    rewrite(victim)
    stranger = make()
    halts_signed_again(victim, stranger)
    sign_again(victim, stranger)
    victim.path.with_name("runs.db.pub").write_bytes(public_pem(stranger.public))
    report = victim.verify(key=False, anchor=False)
    assert report.verdict == "unproved", texts(report)
    assert "which could have been replaced" in texts(report)
    assert victim.verify(key=False).verdict == "broken"  # the anchor knows other hashes
    assert victim.verify(anchor=False).verdict == "broken"


def test_known_limit_the_holder_of_the_key_is_found_by_the_anchor_alone(victim: Victim) -> None:
    rewrite(victim)
    sign_again(victim, load(victim.path.with_name("runs.db.key")))
    without = victim.verify(anchor=False)
    assert without.verdict == "unproved", texts(without)
    assert any("whoever holds the signing key" in limit for limit in without.limits)
    assert "is another one now" in texts(victim.verify())


def test_an_old_checkpoint_signed_anew_is_found(victim: Victim) -> None:
    stranger = make()
    for n, doc in victim.rows("SELECT n, doc FROM checkpoints"):
        update = "UPDATE checkpoints SET key = ?, signature = ? WHERE n = ?"
        with victim.changed((update, stranger.public, stranger.sign(DOMAIN + signed_part(doc)), n)):
            assert victim.verify(anchor=False, key=False).verdict == "broken", n


def test_a_signature_made_for_something_else_is_no_checkpoint(victim: Victim) -> None:
    key = load(victim.path.with_name("runs.db.key"))
    doc = victim.rows("SELECT doc FROM checkpoints WHERE n = 1")[0][0]
    with victim.changed(("UPDATE checkpoints SET signature = ? WHERE n = 1", key.sign(doc))):
        assert "its signature does not fit" in texts(victim.verify())


def cut_off(victim: Victim) -> int:
    """The store as it was when a run had just been forgotten; gives the number of the last checkpoint that is gone."""
    last: int = victim.rows("SELECT max(n) FROM checkpoints")[0][0]
    docs = [json.loads(doc) for (doc,) in victim.rows("SELECT doc FROM checkpoints ORDER BY n")]
    said = next(doc for doc in docs if doc["house"]["seq"])
    after = said["n"]
    victim.db.execute("DELETE FROM checkpoints WHERE n > ?", (after,))
    victim.db.execute("DELETE FROM record WHERE rowid > ?", (said["place"],))
    victim.db.execute("DELETE FROM house WHERE seq > ?", (said["house"]["seq"],))
    victim.db.execute("DELETE FROM halts")
    victim.db.execute("DELETE FROM tokens")
    victim.db.execute("DELETE FROM runs WHERE n NOT IN (SELECT run FROM record)")
    for table in ("calls", "mail"):
        victim.db.execute(f"DELETE FROM {table} WHERE run NOT IN (SELECT n FROM runs)")
    named = [body for (body,) in victim.rows("SELECT body FROM record")]
    for (log,) in victim.rows("SELECT DISTINCT log FROM logs"):
        if not any(log.encode() in body for body in named):
            victim.db.execute("DELETE FROM logs WHERE log = ?", (log,))
    assert after < last
    return last


def test_an_end_that_was_cut_off_is_found_with_the_anchor(victim: Victim) -> None:
    last = cut_off(victim)
    report = victim.verify()
    assert report.verdict == "broken"
    first = victim.rows("SELECT max(n) FROM checkpoints")[0][0] + 1
    assert first <= last
    assert f"checkpoint {first}, which was anchored, is not there: the end was cut off" in texts(report)


def test_known_limit_an_end_that_was_cut_off_is_never_proved_without_the_anchor(victim: Victim) -> None:
    cut_off(victim)
    report = victim.verify(anchor=False)
    assert report.verdict == "unproved", texts(report)
    assert "whether checkpoints were cut off at the end is not known" in texts(report)


def test_what_came_after_the_last_checkpoint_is_not_called_proved(victim: Victim) -> None:
    """A row with a good hash that no checkpoint covers."""
    seq, hash_ = victim.rows("SELECT seq, hash FROM record WHERE run = 1 ORDER BY seq DESC LIMIT 1")[0]
    body = b'[{"type":"noted","text":"I was asked to","attempt":1}]\n[0,0,0,[],{}]'
    new = link(hash_, seq + 1, 1.0, None, digests(body, None))
    victim.db.execute("INSERT INTO record (run, seq, at, body, hash) VALUES (1, ?, 1.0, ?, ?)", (seq + 1, body, new))
    report = victim.verify()
    assert report.verdict == "unproved"
    assert f"events {seq + 1} to {seq + 1} came after checkpoint" in texts(report)


def test_numbers_that_cannot_be_packed_are_found_not_stumbled_over(victim: Victim) -> None:
    for value in (2**63 - 1, -(2**63)):
        with victim.changed(("UPDATE record SET step = ? WHERE run = 1 AND step IS NOT NULL", value)):
            assert victim.verify().verdict == "broken"
