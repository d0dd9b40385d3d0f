"""`standfast doctor`: is everything here fit to run, and if not, what is to be done?"""

from __future__ import annotations

import importlib.util
import os
import sqlite3
import stat
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import click

from standfast.abc import Tx
from standfast.cli.access import Access, Wanted
from standfast.cli.codes import Code
from standfast.cli.options import Place, reaching, say_json
from standfast.cli.saying import tell
from standfast.control import load
from standfast.errors import KeyUnusable, StandfastError, StoreBusy, StoreDamaged
from standfast.evidence import keys
from standfast.evidence.store_check import verify_store
from standfast.leases import left_behind
from standfast.models import weights
from standfast.records import LIVE
from standfast.stores.queries import migrations
from standfast.stores.sqlite import SqliteStore
from standfast.tokens import readable_by_others

SQLITE = (3, 35, 0)  # RETURNING
Verdict = Literal["ok", "note", "bad"]
SIGNS: dict[Verdict, str] = {"ok": "✔", "note": "·", "bad": "✖"}
EXTRAS = {
    "cli": ("click",),
    "tui": ("textual",),
    "server": ("starlette", "uvicorn", "websockets"),
    "openai": ("openai",),
    "anthropic": ("anthropic",),
    "mcp": ("mcp",),
    "local": ("xllamacpp",),
    "evidence": ("cryptography", "pyrage"),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at; `do` says what to do about it."""

    what: str
    verdict: Verdict
    text: str
    do: str = ""


@click.command()
@click.option("--quick", is_flag=True, help="Do not read the whole file and every record.")
@reaching
def doctor(place: Place, quick: bool) -> None:
    """Check Python, SQLite, extras, the store and who drives; say what to do. Changes nothing."""
    findings = [*_machine(), *_extras(), *_token_file(click.get_current_context().params.get("token_file"))]
    findings += _server(place) if place.url is not None else _store(place.store, quick=quick)
    bad = any(one.verdict == "bad" for one in findings)
    if place.json:
        say_json({"ok": not bad, "findings": [asdict(one) for one in findings]})
    else:
        for one in findings:
            tell(f"{SIGNS[one.verdict]} {one.what:<10} {one.text}")
            if one.do:
                tell(f"  {'':<10} {one.do}")
        tell("something needs you" if bad else "all is well")
    if bad:
        raise click.exceptions.Exit(Code.ERROR)


def _machine() -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    fits = sys.version_info >= (3, 11)
    yield Finding("python", "ok" if fits else "bad", version, "" if fits else "use Python 3.11 or newer")
    new_enough = sqlite3.sqlite_version_info >= SQLITE
    safe = sqlite3.threadsafety in (1, 3)
    todo = "" if new_enough and safe else "use a Python with SQLite 3.35 or newer, built for threads"
    yield Finding("sqlite", "ok" if new_enough and safe else "bad", sqlite3.sqlite_version, todo)


def _extras() -> Iterator[Finding]:
    here = [name for name, needs in EXTRAS.items() if all(importlib.util.find_spec(one) for one in needs)]
    lacking = [name for name in EXTRAS if name not in here]
    todo = f"pip install 'standfast[{','.join(lacking)}]' brings the others" if lacking else ""
    yield Finding("extras", "note" if lacking else "ok", ", ".join(here) or "none", todo)
    model = weights.installed()
    yield Finding(
        "model",
        "note" if model is None else "ok",
        "no local model; demo agents use a scripted one" if model is None else weights.model_name(model[0]),
        "standfast model install" if model is None else "",
    )


def _token_file(file: Path | None) -> Iterator[Finding]:
    if file is not None:
        told = readable_by_others(file)
        yield Finding("token", "bad" if told else "ok", told or f"{file} is yours alone", told and f"chmod 600 {file}")


def _server(place: Place) -> Iterator[Finding]:
    async def look(access: Access) -> tuple[int, list[str]]:
        return len(await access.list(Wanted(limit=1000))), [str(one["name"]) for one in await access.agents()]

    try:
        runs, agents = place.do(look)
    except StandfastError as error:
        yield Finding("server", "bad", error.message, error.hint)
        return
    yield Finding("server", "ok", f"{place.url} answers; {runs} runs")
    yield Finding(
        "agents",
        "ok" if agents else "note",
        ", ".join(agents) or "nobody drives",
        "" if agents else "standfast serve MODULE:AGENT",
    )


def _store(path: Path, *, quick: bool) -> Iterator[Finding]:
    if not path.exists():
        folder = path.absolute().parent
        fits = folder.is_dir() and os.access(folder, os.W_OK)
        todo = "it is made by the first run" if fits else f"{folder} cannot be written: give another --store"
        yield Finding("store", "note" if fits else "bad", f"there is no {path} yet", todo)
        return
    yield from _file(path)
    store = SqliteStore(path, looks_only=True)
    try:
        if not store.exists():
            yield Finding("schema", "note", "the file is empty", "it is made by the first run")
            return
        if os.access(path, os.W_OK):
            yield _disk(path)
        yield from _inside(store, quick=quick)
        if not quick:
            yield from _signatures(path)
    except StandfastError as error:
        yield Finding("schema", "bad", error.message, error.hint)
    finally:
        store.close()


def _file(path: Path) -> Iterator[Finding]:
    about = path.stat()
    mode = stat.S_IMODE(about.st_mode)
    private = not mode & 0o077
    yield Finding(
        "store",
        "ok" if private else "bad",
        f"{path}, mode {mode:04o}, {about.st_size} bytes",
        "" if private else f"others can read or write it: chmod 600 {path}",
    )
    if not os.access(path, os.W_OK):
        yield Finding("store", "bad", "you cannot write it", "verbs will fail: act as its owner, or through a server")


def _disk(path: Path) -> Finding:
    """By writing a page as it is: a full disk reads as well as ever."""
    store = SqliteStore(path)
    try:
        store.probe()
        if store.storage:
            return Finding("disk", "bad", store.storage, "free space; pause, cancel and halt work meanwhile")
    except StoreBusy as error:
        return Finding("disk", "note", error.message, error.hint)
    except StandfastError as error:
        return Finding("disk", "bad", error.message, error.hint)
    finally:
        store.close()
    return Finding("disk", "ok", "takes what is written")


def _inside(store: SqliteStore, *, quick: bool) -> Iterator[Finding]:
    version = store.open().execute("PRAGMA user_version").fetchone()[0]
    current = version == len(migrations())
    yield Finding(
        "schema",
        "ok" if current else "note",
        str(version),
        "" if current else "it is brought up to date by the next driver",
    )
    if not quick:
        told = store.open().execute("PRAGMA integrity_check").fetchone()[0]
        todo = "" if told == "ok" else "restore it from a copy; do not let anything write to it"
        yield Finding("integrity", "ok" if told == "ok" else "bad", str(told), todo)
    ids = store.read(_ids)
    if not quick:
        yield from _records(store, ids)
    yield from _drivers(store)


def _ids(tx: Tx) -> list[str]:
    found = tx.list_runs(status=None, agent=None, labels=None, needs=None, limit=1_000_000, before=None)
    return [id_ for id_, _, _ in found]


def _records(store: SqliteStore, ids: list[str]) -> Iterator[Finding]:
    broken: list[str] = []
    for id_ in ids:
        try:
            told = store.read(lambda tx: tx.verify(load(tx, id_)))  # noqa: B023 - called at once
        except StoreDamaged as error:
            told = error.message
        if told:
            broken.append(f"{id_}: {told}")
    if broken:
        todo = "the record was changed from outside or the disk is bad: keep a copy of the file, and look into it"
        for one in broken:
            yield Finding("record", "bad", one, todo)
    else:
        yield Finding("records", "ok", f"{len(ids)} hold together")


def _signatures(path: Path) -> Iterator[Finding]:
    """Who signs for the records, and whether what was signed is still there."""
    try:
        key = keys.load(keys.key_path(path)) if keys.available() and keys.key_path(path).exists() else None
    except KeyUnusable as error:
        yield Finding("key", "bad", error.message, error.hint)
        return
    report = verify_store(path, [key.public] if key is not None else ())
    broken = report.of("broken")
    for one in broken:
        yield Finding("signed", "bad", f"{one.what}: {one.text}", f"keep a copy of the file; standfast verify {path}")
    signed = [one for one in report.of("proved") if one.what == "checkpoints"]
    if signed:
        yield Finding("signed", "bad" if broken else "ok", f"checkpoints: {signed[0].text}")
    elif not broken:
        todo = "the next driver signs" if keys.available() else "pip install 'standfast[evidence]'"
        yield Finding("signed", "note", "nothing is signed: chains hold, but could have been remade", todo)


def _drivers(store: SqliteStore) -> Iterator[Finding]:
    leases = store.read(lambda tx: tx.leases())
    dead = [lease for lease in leases if left_behind(lease)]
    alive = [lease for lease in leases if lease not in dead]
    for lease in alive:
        yield Finding("driver", "ok", f"pid {lease.pid} drives {', '.join(lease.agents) or 'nothing'}")
    held = store.read(lambda tx: _held_by(tx, {lease.id for lease in dead}))
    for lease in dead:
        runs = held.get(lease.id, [])
        text = f"pid {lease.pid} is dead and has left its lease"
        todo = (
            f"its runs ({', '.join(runs)}) go on when a driver starts: standfast run --resume RUN MODULE:AGENT"
            if runs
            else "nothing: the next driver clears it away"
        )
        yield Finding("driver", "bad" if runs else "note", text, todo)
    waiting = store.read(lambda tx: _waiting(tx, {name for lease in alive for name in lease.agents}))
    if waiting:
        yield Finding(
            "waiting",
            "note",
            f"{len(waiting)} runs have no driver: {', '.join(waiting[:5])}",
            "standfast serve or standfast run --resume RUN MODULE:AGENT",
        )


def _held_by(tx: Tx, holders: set[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for id_, _, _ in tx.list_runs(status=LIVE, agent=None, labels=None, needs=None, limit=1_000_000, before=None):
        row = tx.run(id_)
        if row is not None and row.holder in holders:
            found.setdefault(row.holder, []).append(id_)
    return found


def _waiting(tx: Tx, driven: set[str]) -> list[str]:
    wanted = ("queued", "running", "pausing", "cancelling")
    found = tx.list_runs(status=wanted, agent=None, labels=None, needs=None, limit=1_000_000, before=None)
    return [id_ for id_, agent, _ in found if agent not in driven]
