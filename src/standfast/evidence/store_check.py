"""`verify` of a store: everything in it that is evidence, read in one consistent state."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from standfast.abc import Tx
from standfast.errors import KeyUnusable, StoreBusy, StoreError
from standfast.evidence import checking, keys
from standfast.evidence.chains import Chain, HouseChain, follow_house, follow_run
from standfast.evidence.house_rows import check_halts, check_tokens
from standfast.evidence.key_changes import NO_CHANGES, Succession, changes_in
from standfast.evidence.report import Report
from standfast.evidence.statements import Statements, check_anchor, read_statements
from standfast.json_values import fingerprint
from standfast.rows import CheckpointRow
from standfast.stores.queries import migrations
from standfast.stores.sides import Row, run_side
from standfast.stores.sqlite import SqliteStore
from standfast.stores.sqlite_evidence import contract_named, is_forgotten


def verify_store(path: Path, given: Collection[bytes] = (), anchor: Iterable[str] | None = None) -> Report:
    """What is proved about the store at this path, and what is not. Nothing is written."""
    report = Report()
    store = SqliteStore(path, looks_only=True)
    try:
        with store.errors():
            _check_file(store, report)
        trusted = list(given) or _beside(path)
        store.read(lambda tx: _check(tx, trusted, given=bool(given), anchor=anchor, report=report))
    except StoreBusy:
        raise
    except StoreError as error:
        report.broken("file", error.message)
    finally:
        store.close()
    return report


def _beside(path: Path) -> list[bytes]:
    """The public key that is kept beside the store, if there is one, and those that it had before."""
    return keys.kept_publics(path) if keys.available() else []


def _check_file(store: SqliteStore, report: Report) -> None:
    """The file itself: damaged pages, and anything in its schema that standfast did not put there."""
    connection = store.open()
    told = str(connection.execute("PRAGMA integrity_check").fetchone()[0])
    if told != "ok":
        report.broken("file", f"SQLite finds it damaged: {told.splitlines()[0]}")
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    fresh = sqlite3.connect(":memory:", isolation_level=None)
    try:
        for statements in migrations()[:version]:
            for statement in statements:
                fresh.execute(statement)
        listed = "SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_stat%'"
        ours = {tuple(row) for row in fresh.execute(listed).fetchall()}
        there = {tuple(row) for row in connection.execute(listed).fetchall()}
    finally:
        fresh.close()
    for kind, name, _ in sorted(there ^ ours, key=repr):
        report.broken("file", f"the {kind} {name} is not as standfast makes it")


def _check(tx: Tx, trusted: list[bytes], *, given: bool, anchor: Iterable[str] | None, report: Report) -> None:
    known = Succession.of(changes_in(tx.plain_house())) if keys.available() else NO_CHANGES
    keys_given, trusted = trusted, list(known.trusted(trusted))
    found = _statements(tx, trusted, report, known)
    if found.said:
        report.proved("checkpoints", f"{len(found.said)} follow each other, and their signatures fit")
    house = follow_house(tx.plain_house(), {one.house.seq for one in found.said})
    checking.check_keys(found, keys_given, given=given, known=known, house=house, report=report)
    checking.check_clock(found, report)
    sound = bool(house.trouble) or (
        check_halts(tx.plain_halts(), house, trusted, report) and check_tokens(tx.plain_tokens(), house, report)
    )
    if sound:
        checking.check_house(house, tx.house_side(), found, report)
    runs: dict[str, Chain] = {}
    logs: dict[str, dict[int, str]] = {}
    forgotten: set[str] = set()
    for n in tx.plain_runs():
        id_, chain = _check_run(tx, n, house, found, report)
        runs[id_] = chain
        for log, rows in chain.logs.items():
            logs.setdefault(log, {}).update(rows)
            if id_ in house.forgotten:
                forgotten.add(log)
    checking.check_missing(runs, found, report)
    checking.check_deletions(runs, house, report)
    _check_logs(tx, logs, forgotten, report)
    _check_contracts(tx, report)
    for table, n in tx.strays():
        report.broken(table, f"there are rows of a run number {n}, which is not there")
    if anchor is not None:
        check_anchor(anchor, found, report)
    elif found.said:
        report.unproved("anchor", "whether checkpoints were cut off at the end is not known: give --anchor")
    report.limits += [checking.TAIL_LIMIT, checking.SIGNING_LIMIT, checking.KEY_LIMIT]


def _statements(tx: Tx, trusted: list[bytes], report: Report, known: Succession) -> Statements:
    if tx.last_checkpoint() is None:
        report.unproved("checkpoints", "nothing was ever signed: chains hold, but whoever changed one could remake it")
        return Statements()
    if not keys.available():
        report.unproved("checkpoints", "signatures cannot be checked here: pip install 'standfast[evidence]'")
        return Statements()
    return read_statements(_checkpoints(tx), trusted, report, known)


def _checkpoints(tx: Tx) -> Iterator[CheckpointRow]:
    last = -(2**63)
    while rows := tx.checkpoints(last):
        yield from rows
        last = rows[-1].n


def _check_run(tx: Tx, n: int, house: HouseChain, found: Statements, report: Report) -> tuple[str, Chain]:
    run = tx.plain_run(n)
    assert run is not None, "read in one transaction"
    id_ = str(run[1])
    told: tuple[int, bytes] = (run[4], run[5])
    wanted = {one.seq for _, one in found.of_run.get(id_, [])} | {told[0]}
    chain = follow_run(id_, tx.plain_record(n), wanted)
    contract: Row | None = tx.plain_contract(contract_named(run[9]))
    calls, mail = tx.plain_calls(n), tx.plain_mail(n)
    if is_forgotten(run[9]):
        if (calls or mail) and chain.gone:  # they are deleted before the first row of the record is
            report.broken(f"run {id_}", "it was forgotten, and has got calls or mail since then")
        calls, mail = [], []
    side = run_side(run, contract, calls, mail)
    checking.check_run(run, chain, told, side, house, found, report)
    return id_, chain


def _check_logs(tx: Tx, named: dict[str, dict[int, str]], forgotten: Collection[str], report: Report) -> None:
    there = {str(log): rows for log, rows in tx.plain_logs()}
    good = [
        checking.check_log(log, named.get(log, {}), tx.plain_log(log), report, whole=log not in forgotten)
        for log in {*there, *named}
    ]
    if good and all(good):
        report.proved("logs", f"{sum(there.values())} rows are those that the records name")


def _check_contracts(tx: Tx, report: Report) -> None:
    """A contract's name is the fingerprint of what it says."""
    good = 0
    for id_, agent, doc in tx.plain_contracts():
        try:
            found = tx.contract(id_)
            fits = found is not None and fingerprint(found) == id_ and found.get("agent") == agent
        except (TypeError, ValueError):
            fits = False
        if fits:
            good += 1
        else:
            report.broken(f"contract {id_}", "it is not what it is named by")
        del doc
    if good:
        report.proved("contracts", f"{good} are what they are named by")


def trusted_keys(paths: Iterable[Path]) -> list[bytes]:
    """The public keys in these files."""
    if not keys.available():
        raise KeyUnusable("signatures cannot be checked here", hint="pip install 'standfast[evidence]'")
    return [keys.load_public(path) for path in paths]
