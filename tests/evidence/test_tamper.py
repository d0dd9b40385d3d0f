"""Whoever changes, deletes, adds or moves something in the tables is found out (R32).

What is counted here is printed: `pytest -s tests/evidence/test_tamper.py`. With STANDFAST_SOAK=1 every byte of every
row is changed; otherwise one byte of every value.
"""

from __future__ import annotations

import os
import random
import sqlite3
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from math import inf, nextafter
from typing import Any

import pytest
from tests.evidence.world import Victim

from standfast.stores.chain import TOMBSTONE, digests

TABLES = ("record", "runs", "calls", "mail", "logs", "contracts", "house", "halts", "tokens", "checkpoints")
EVERY_BYTE = os.environ.get("STANDFAST_SOAK") == "1"


def test_what_was_not_touched_is_proved(victim: Victim) -> None:
    report = victim.verify()
    assert report.verdict == "proved", report.findings
    assert len([one for one in report.findings if one.what.startswith("run ")]) == 4


@pytest.mark.soak
@pytest.mark.timeout(0 if EVERY_BYTE else 300)
@pytest.mark.parametrize("table", TABLES)
def test_a_change_of_a_single_byte_is_found(victim: Victim, table: str) -> None:
    about = victim.rows(f"PRAGMA table_info({table})")
    columns = [row[1] for row in about]
    number = next((row[1] for row in about if row[5] and row[2] == "INTEGER"), "")  # it is the row's own number
    found: Counter[str] = Counter()
    missed: list[str] = []
    for rowid, *values in victim.rows(f"SELECT rowid, {', '.join(columns)} FROM {table}"):
        for column, value in zip(columns, values, strict=True):
            for changed in variants(value):
                if not put(victim, table, rowid, column, changed):
                    found["impossible"] += 1  # a constraint of the table does not allow it
                    continue
                verdict = victim.verify().verdict
                found[verdict] += 1
                if verdict != "broken":
                    missed.append(f"{table}.{column} of row {rowid}: {value!r} to {changed!r}: {verdict}")
                put(victim, table, changed if column == number else rowid, column, value)
    print(f"\n{table}: {found.total()} changes tried, {dict(found)}")
    assert not missed, missed[:5]
    assert found["broken"]
    assert victim.verify().verdict == "proved"  # everything was put back: what was found was the change


def put(victim: Victim, table: str, rowid: Any, column: str, value: Any) -> bool:
    """Write a value into a row; False if the table does not take it."""
    try:
        return victim.db.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (value, rowid)).rowcount == 1
    except sqlite3.IntegrityError:
        return False


def variants(value: Any) -> Iterator[Any]:
    """The value with one byte changed, or as near to it as its type allows."""
    if value is None:
        yield 1
    elif isinstance(value, int):
        yield value + 1000
    elif isinstance(value, float):
        yield nextafter(value, inf)
    else:
        raw = value.encode() if isinstance(value, str) else value
        places = range(len(raw)) if EVERY_BYTE else [random.Random(raw).randrange(len(raw))] if raw else []
        for place in places:
            changed = raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :]
            yield changed.decode("utf-8", "replace") if isinstance(value, str) else changed


@pytest.mark.parametrize("table", TABLES)
def test_a_value_of_another_type_is_found(victim: Victim, table: str) -> None:
    """The same bytes as text instead of a blob read alike in many programs."""
    columns = [row[1] for row in victim.rows(f"PRAGMA table_info({table})")]
    tried = 0
    for rowid, *values in victim.rows(f"SELECT rowid, {', '.join(columns)} FROM {table} LIMIT 3"):
        for column, value in zip(columns, values, strict=True):
            if isinstance(value, bytes) and value.isascii():
                assert put(victim, table, rowid, column, value.decode())
                assert victim.verify().verdict == "broken", f"{table}.{column}"
                assert put(victim, table, rowid, column, value)
                tried += 1
    assert tried or table in ("tokens", "calls", "runs", "mail", "contracts")
    assert victim.verify().verdict == "proved"


@pytest.mark.parametrize("table", TABLES)
def test_a_deleted_row_is_found(victim: Victim, table: str) -> None:
    places = [row[0] for row in victim.rows(f"SELECT rowid FROM {table}")]
    for place in places:
        with victim.changed((f"DELETE FROM {table} WHERE rowid = ?", place)):
            report = victim.verify()
            assert report.verdict == "broken", f"row {place} of {table}: {report.findings}"
    print(f"\n{table}: {len(places)} rows deleted one by one, all found")


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO record SELECT run, seq + 1000, at, body, step, state, hash, gone FROM record WHERE run = 1",
        "INSERT INTO runs SELECT n + 100, id || 'x', agent, status, seq, head, fence, epoch, holder, doc, parent,"
        " created, wake_at, needs FROM runs",
        "INSERT INTO calls SELECT n + 100, run, id || 'x', epoch, step, status, effect, settles, undo, doc, args,"
        " before, result FROM calls",
        "INSERT INTO mail SELECT n + 100, run, id || 'x', status, doc FROM mail",
        "INSERT INTO logs SELECT log, idx + 100, body FROM logs",
        "INSERT INTO logs SELECT log || 'x', idx, body FROM logs",
        "INSERT INTO contracts SELECT id || 'x', agent, doc FROM contracts",
        "INSERT INTO house SELECT seq + 100, at, body, hash FROM house",
        "INSERT INTO halts SELECT n + 100, id || 'x', doc, key, signature, lifted FROM halts",
        "INSERT INTO tokens SELECT id || 'x', zeroblob(32), doc, expires, revoked FROM tokens LIMIT 1",
        "INSERT INTO checkpoints SELECT n + 100, at, doc, key, signature FROM checkpoints",
    ],
)
def test_a_row_that_was_put_in_is_found(victim: Victim, sql: str) -> None:
    with victim.changed((sql,)):
        assert victim.verify().verdict != "proved"


def test_rows_that_changed_places_are_found(victim: Victim) -> None:
    for table, order in (("record", "run, seq"), ("house", "seq"), ("logs", "log, idx"), ("checkpoints", "n")):
        rows = victim.rows(f"SELECT rowid, * FROM {table} ORDER BY {order}")
        columns = [row[1] for row in victim.rows(f"PRAGMA table_info({table})")]
        content = [name for name in columns if name not in ("run", "seq", "log", "idx", "n")]
        for one, two in pairwise(rows):
            values = [dict(zip(columns, row[1:], strict=True)) for row in (one, two)]
            if [values[0][name] for name in content] == [values[1][name] for name in content]:
                continue
            sets = ", ".join(f"{name} = ?" for name in content)
            swap = [
                (f"UPDATE {table} SET {sets} WHERE rowid = ?", *(values[1 - i][name] for name in content), row[0])
                for i, row in enumerate((one, two))
            ]
            with victim.changed(*swap):
                assert victim.verify().verdict == "broken", f"{table}: {one[0]} and {two[0]}"


def test_a_trigger_or_table_that_was_put_in_is_found(victim: Victim) -> None:
    victim.db.execute("CREATE TRIGGER t AFTER INSERT ON record BEGIN SELECT 1; END")
    assert victim.verify().verdict == "broken"


def test_content_deleted_past_the_house_is_found(victim: Victim) -> None:
    """A tombstone that nobody has recorded hides something."""
    for rowid, body, state in victim.rows("SELECT rowid, body, state FROM record WHERE run = 1"):
        bury = "UPDATE record SET body = ?, state = NULL, gone = ? WHERE rowid = ?"
        with victim.changed((bury, TOMBSTONE, digests(body, state), rowid)):
            report = victim.verify()
            assert any("nobody has recorded why" in one.text for one in report.of("broken"))


def test_text_that_is_no_text_is_found_not_stumbled_over(victim: Victim) -> None:
    with victim.changed(("UPDATE runs SET status = CAST(x'ff00' AS TEXT) WHERE n = 1",)):
        assert victim.verify().verdict == "broken"
