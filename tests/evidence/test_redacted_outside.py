"""Secrets are taken out of every field of every event, and never while others wait for the store (R32, R34)."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import types
import typing
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
from pydantic import JsonValue
from tests.evidence.test_redaction import SHAPES
from tests.helpers import eventually, held
from tests.trials import trials

from standfast import Done, Run, Runtime, Secret, agent, ask, progress, say, tool
from standfast import events as ev
from standfast import house_events as house
from standfast.commit import StepCommit
from standfast.quick_events import Sealed
from standfast.redaction import _NAMES, MOST_LOOKED_AT, Redactor  # pyright: ignore[reportPrivateUsage]
from standfast.rows import RunDoc, RunRow
from standfast.starting import blank_row
from standfast.stores.group import GroupWriter
from standfast.stores.redacting import MOST_TRIES
from standfast.stores.sqlite import SqliteStore
from standfast.stores.sqlite_tx import SqliteTx

KEY = "sk-" + "proj-Zm9vYmFyYmF6cXV4MTIz"
PATIENT = "patient 4711"  # of a pattern that can only be looked for in every text
_EVENTS: list[type] = list(get_args(get_args(ev.Event)[0]))
_HOUSE: list[type] = list(get_args(get_args(house.HouseEvent)[0]))
# Free of secrets by what they are: made by us out of numbers and hashes, or by the machine.
MADE_BY_US = {
    *("route", "boot", "driver", "taken_from", "server", "digest", "token", "row", "key", "signature", "head"),
    *("halt", "frame", "when", "variant", "holds", "cleared", "rights", "what"),
}


class Watching:
    """Fails whatever redacts while a write transaction of its thread is open."""

    def __init__(self) -> None:
        self.here = threading.local()
        self.wrong: list[str] = []
        self.redacted = 0

    def in_transaction(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            self.here.open = True
            try:
                return original(*args, **kwargs)
            finally:
                self.here.open = False

        return wrapped

    def redacting(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(redactor: Any, text: str) -> Any:
            self.redacted += 1
            if getattr(self.here, "open", False):
                self.wrong.append(text)
            return original(redactor, text)

        return wrapped


@pytest.fixture(autouse=True)
def watching(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watching]:
    with watched(monkeypatch) as one:
        yield one


@contextmanager
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watching]:
    """Whoever redacts inside of a transaction is found."""
    one = Watching()
    monkeypatch.setattr(SqliteStore, "_write_once", one.in_transaction(SqliteStore._write_once))  # pyright: ignore
    monkeypatch.setattr(GroupWriter, "_transact_once", one.in_transaction(GroupWriter._transact_once))  # pyright: ignore
    monkeypatch.setattr(Redactor, "replaced", one.redacting(Redactor.replaced))
    yield one
    assert one.wrong == []


def _written(path: Path) -> str:
    with sqlite3.connect(path) as db:
        rows = [*db.execute("SELECT body FROM record"), *db.execute("SELECT body FROM house")]
    db.close()
    return "\n".join(bytes(body).decode() for (body,) in rows)


# --- every field of every event ----------------------------------------------------------------------------


def _filled(kind: Any, said: str, name: str = "") -> Any:
    """A value of this type with the words wherever words may stand."""
    origin, args = get_origin(kind), get_args(kind)
    if kind is JsonValue or kind is Any:
        return {"deep": [said, {said: said}]}
    if origin is Literal:
        return args[0]
    if origin in (typing.Union, types.UnionType):
        return _filled(next(one for one in args if one is not type(None)), said, name)
    if origin is dict:
        key = _filled(args[0], said)
        return {key: _filled(args[1], said, name)}
    if origin is not None and origin not in (tuple,):
        return [_filled(args[0], said, name)]
    if origin is tuple:
        return tuple(_filled(one, said, name) for one in args if one is not Ellipsis)
    if is_dataclass(kind):
        assert isinstance(kind, type)
        return _event(kind, said)
    if kind is str:
        return "a-name" if name in _NAMES | MADE_BY_US else said
    if kind in (int, float):
        return kind(1)
    assert kind is bool, f"what may stand in a {kind}?"
    return False


def _event(kind: type, said: str) -> Any:
    hints = typing.get_type_hints(kind)
    given = {one.name: _filled(hints[one.name], said, one.name) for one in fields(kind) if one.init}
    return kind(**{name: value for name, value in given.items() if name != "type"})


def _row(tx: Any, id_: str) -> RunRow:
    row = blank_row(id_, "a", RunDoc(), tx.now)
    tx.insert_run(row, [ev.RunStarted(agent="a")], b"{}")
    return row


@pytest.mark.parametrize("kind", _EVENTS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("more", [(), (r"patient \d+",)], ids=["known shapes", "a pattern of one's own"])
def test_no_field_of_an_event_takes_a_secret_into_the_record(
    tmp_path: Path, watching: Watching, kind: type, more: tuple[str, ...]
) -> None:
    """Every text of every event there is: a new field is filled too."""
    store = SqliteStore(tmp_path / "runs.db")
    store.redact = Redactor(*more, key=b"k")
    said = f"of {KEY} and {PATIENT}" if more else f"of {KEY} and of nobody"
    store.create()
    store.write(lambda tx: tx.save(_row(tx, "r"), [_event(kind, said)]))
    store.close()
    written = _written(tmp_path / "runs.db")
    assert KEY not in written and PATIENT not in written
    texts = said_fields(kind)
    assert ("[redacted:api_key:" in written) == bool(texts), texts
    assert not texts or watching.redacted


@pytest.mark.parametrize("kind", _EVENTS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("more", [(), (r"patient \d+",)], ids=["known shapes", "a pattern of one's own"])
def test_no_event_that_a_step_makes_inside_its_transaction_takes_a_secret_into_the_record(
    tmp_path: Path, watching: Watching, kind: type, more: tuple[str, ...]
) -> None:
    """By the driver's own way of writing: what is made there has not been sealed, whatever kind it will be."""
    store = SqliteStore(tmp_path / "runs.db")
    store.redact = Redactor(*more, key=b"k")
    store.create()

    def op(tx: SqliteTx) -> None:
        row = _row(tx, "r")
        assert tx.advance(row, [_event(kind, f"of {KEY} and {PATIENT if more else 'of nobody'}")], row.seq, None, None)

    store.write(op)
    store.close()
    written = _written(tmp_path / "runs.db")
    assert KEY not in written and PATIENT not in written
    assert ("[redacted:api_key:" in written) == bool(said_fields(kind))


def test_what_was_sealed_is_not_looked_at_again(tmp_path: Path) -> None:
    """Inside the transaction a text of a step costs nothing, however long it is."""
    store = SqliteStore(tmp_path / "runs.db")
    store.redact = Redactor(r"patient \d+", key=b"k")
    store.create()
    tries = 0

    def op(tx: SqliteTx) -> None:
        nonlocal tries
        tries += 1
        row = _row(tx, "r")
        long = ev.Noted(text="x" * (MOST_LOOKED_AT + 1), attempt=1)
        assert tx.advance(row, [Sealed(long)], row.seq, None, None)

    store.write(op)
    store.close()
    assert tries == 1


def said_fields(kind: type) -> list[str]:
    """The fields of an event that hold words of somebody."""
    hints = typing.get_type_hints(kind)
    return [one.name for one in fields(kind) if "§" in repr(_filled(hints[one.name], "§", one.name))]


@pytest.mark.parametrize("kind", _HOUSE, ids=lambda kind: kind.__name__)
def test_no_field_of_an_event_of_the_house_takes_a_secret_into_the_record(tmp_path: Path, kind: type) -> None:
    store = SqliteStore(tmp_path / "runs.db")
    store.redact = Redactor(r"patient \d+", key=b"k")
    store.create()
    store.write(lambda tx: tx.note(_event(kind, f"of {KEY} and {PATIENT}")))
    store.close()
    written = _written(tmp_path / "runs.db")
    assert KEY not in written and PATIENT not in written
    assert "[redacted:api_key:" in written


@pytest.mark.parametrize("kind", _EVENTS, ids=lambda kind: kind.__name__)
def test_what_a_step_says_is_redacted_when_its_commit_is_sealed(kind: type) -> None:
    """Before the transaction, in which nothing of it is looked at again."""
    event = _event(kind, f"of {KEY}")
    session: Any = types.SimpleNamespace(
        pending=None, env=types.SimpleNamespace(redactor=Redactor(key=b"k")), running_seconds=lambda: 0.0
    )
    commit = StepCommit(session)
    commit.notes.append(event)
    commit.seal()
    assert KEY not in repr(commit.notes)
    assert ("[redacted:" in repr(commit.notes)) == bool(said_fields(kind))


def test_a_text_that_is_another_at_every_try_is_written_all_the_same(tmp_path: Path, watching: Watching) -> None:
    store = SqliteStore(tmp_path / "runs.db")
    store.redact = Redactor(key=b"k")
    store.create()
    tries = 0

    def op(tx: SqliteTx) -> None:
        nonlocal tries
        tries += 1
        tx.save(_row(tx, "r"), [ev.Noted(text=f"{KEY} at try {tries}", attempt=1)])

    store.write(op)
    store.close()
    assert tries == MOST_TRIES + 1
    assert KEY not in _written(tmp_path / "runs.db")
    assert watching.wrong, "at last while others wait, in linear time"
    watching.wrong.clear()


def test_a_long_text_is_not_even_looked_at_by_patterns_of_users(tmp_path: Path) -> None:
    """It is redacted outside of the transaction, which is then run again; a short one needs only a look."""
    store = SqliteStore(tmp_path / "runs.db")
    store.redact = Redactor(r"patient \d+", key=b"k")
    store.create()
    tries: list[int] = []

    def op(tx: SqliteTx, size: int) -> None:
        tries.append(size)
        tx.save(_row(tx, f"r{size}"), [ev.Noted(text="x" * size, attempt=1)])

    for size in (MOST_LOOKED_AT - 1_000, MOST_LOOKED_AT + 1):
        store.write(partial(op, size=size))
    store.close()
    assert tries == [MOST_LOOKED_AT - 1_000, MOST_LOOKED_AT + 1, MOST_LOOKED_AT + 1]


# --- a broad set of what runs and people do ------------------------------------------------------------------


@tool(effect="write")
async def send(token: str) -> str:
    """Says and gives back what it was given."""
    progress(0.5, f"half of {token}")
    for at in range(0, len(token), 5):
        say(token[at : at + 5])
    return f"sent {token}"


@tool(effect="read")
async def wrong(token: str) -> None:
    """Fails with it."""
    raise ValueError(f"refused: {token}")


@tool(effect="irreversible", confirm=True)
async def pay(token: str) -> str:
    """Asks first."""
    return token


@dataclass
class Told:
    """What the clerk was told."""

    said: str
    more: str = ""


@agent("clerk")
async def clerk(run: Run[Told]) -> Done[str] | None:
    """Does a little of everything with what it is told."""
    said = run.state.said
    run.note(f"noted {said}")
    run.emit("data", {said: [said]})
    await run.call(send(said))
    try:
        await run.call(wrong(said))
    except Exception as error:  # noqa: BLE001 - it is said once more
        run.note(str(error))
    answer = await run.call(ask(f"may I use {said}?"))
    await run.call(pay(answer))
    return Done(f"done with {said}")


@pytest.mark.soak
@pytest.mark.parametrize(
    "said",
    [*[text for text, _ in SHAPES.values()], f"{KEY} " * trials(600, 2_000, 2_000)],  # longer than is held back at most
    ids=lambda text: text[:14],
)
async def test_runs_and_verbs_redact_outside_of_every_transaction(
    tmp_path: Path, watching: Watching, said: str
) -> None:
    path = tmp_path / "runs.db"
    hidden = next((secret for text, secret in SHAPES.values() if text == said), KEY)
    own = Secret("ward", r"ward \d+")
    async with Runtime(path, [clerk], redact=[own]) as runs:
        run = await runs.start(clerk, Told(said), by=said[:90], reason=said[:90], labels={"about": said[:40]})
        question = (await held(run, "asks")).needs[0]
        await run.message(said, by="ann")
        await run.redirect(said, by="ann")
        await run.pause(reason=f"{said[:90]} ward 11")
        await eventually(lambda: _is(run, "paused"))
        await run.edit({"more": said}, reason=said[:90])
        await run.resume(note=said)
        question = (await held(run, "asks")).needs[0]
        await run.answer(question.call or "", said)
        need = await eventually(lambda: _pay(run))
        await run.approve(need.call or "", args={"token": f"{said}!"}, reason=said[:90])
        await run.result(timeout=120)
        other = await runs.start(clerk, Told(said))
        await held(other, "asks")
        halt = await runs.halt(all=True, reason=said[:90])
        await runs.lift(halt.id, reason=said[:90])
        await other.take_over(by="ann", reason=said[:90])
        await other.cancel(reason=said[:90])
        await other.settled(timeout=120)
        shown = repr([event async for event in run.events()]) + repr(await run.transcript())
        with (tmp_path / "bundle.zip").open("wb") as file:
            await runs.write_evidence(file, run.id)
    assert watching.redacted and watching.wrong == []
    with zipfile.ZipFile(tmp_path / "bundle.zip") as bundle:
        parts = "\n".join(bundle.read(name).decode("utf-8", "replace") for name in bundle.namelist())
    for where in (_written(path), shown, parts):
        assert hidden not in where
        assert "[redacted:" in where
    assert "ward 11" not in _written(path)


@agent("deaf")
async def deaf(run: Run[Told]) -> Done[str] | None:
    """Works on one plan line and ends its steps without reading its redirects."""
    if run.step == 0:
        run.plan.start(run.plan.add(f"log in with {run.state.said}"))
        return None
    if run.step == 1:
        await run.call(ask("which way?"))
    if run.step < 3:
        return None
    return Done(", ".join(run.take_redirects()))


async def test_a_plan_line_whose_redirect_was_missed_puts_no_secret_into_the_record(
    tmp_path: Path, watching: Watching
) -> None:
    """R32: that it was missed is known only inside the transaction, which names the line."""
    path = tmp_path / "runs.db"
    async with Runtime(path, [deaf], redact=[r"patient \d+"]) as runs:
        run = await runs.start(deaf, Told(f"{KEY} of {PATIENT}"))
        question = (await held(run, "asks")).needs[0]
        await run.redirect("by the other door", when="next", by="ann")
        await run.answer(question.call or "", "this one")
        await run.result(timeout=120)
        events = [event async for event in run.events()]
    missed = [event for event in events if isinstance(event, ev.MailNotRead)]
    assert missed and missed[0].item.startswith("log in with [redacted:api_key:")
    for where in (_written(path), repr(events)):
        assert KEY not in where and PATIENT not in where
    assert watching.redacted


async def _is(run: Any, status: str) -> bool:
    await asyncio.sleep(0)
    return (await run.view()).status == status


async def _pay(run: Any) -> Any:
    view = await run.view()
    return next((need for need in view.needs if "pay" in repr(need)), None)
