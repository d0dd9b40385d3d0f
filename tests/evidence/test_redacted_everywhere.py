"""Whoever writes into a store writes without secrets: an operator, a command, a server's log (R13, R32)."""

from __future__ import annotations

import json
import logging
import zipfile
from pathlib import Path

import pytest
from tests.evidence.bundling import said, talker
from tests.evidence.world import Letters
from tests.halt.operating import asked, operator, typed
from tests.helpers import database

from standfast import Runtime
from standfast.evidence.keys import load
from standfast.redaction import Redactor
from standfast.server.logs import log_to_stderr

KEY = "sk-" + "proj-Zm9vYmFyYmF6cXV4MTIz"
ODD = "no-known-shape-1234567890"  # known by its name in the environment alone


def _written(path: Path) -> str:
    """The records of the runs and of the house."""
    with database(path) as db:
        rows = [*db.execute("SELECT body FROM record"), *db.execute("SELECT body FROM house")]
    db.close()
    return "\n".join(bytes(body).decode() for (body,) in rows)


async def test_a_halt_a_lift_and_a_forgetting_put_no_secret_into_the_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the command, straight on the store; the hash is that of the store's key, as everywhere."""
    monkeypatch.setenv("ODD_API_KEY", ODD)
    path = tmp_path / "runs.db"
    async with Runtime(path, [talker]) as runs:
        run = await runs.start(talker, Letters(), id="talking")
        await said(run, "more to come")
        halt = json.loads(typed("halt", "--all", "--reason", f"it has {KEY} and {ODD}", "--store", str(path), "--json"))
        typed("lift", halt["id"], "--reason", f"{KEY} and {ODD} are void", "--store", str(path))
        await run.cancel()
        await run.settled(timeout=120)
        with (tmp_path / "bundle.zip").open("wb") as file:
            await runs.write_evidence(file, "talking")
    with zipfile.ZipFile(tmp_path / "bundle.zip") as bundle:
        parts = "\n".join(bundle.read(name).decode("utf-8", "replace") for name in bundle.namelist())
    before = _written(path)
    typed("forget", "talking", "--reason", f"it said {KEY} and {ODD}", "--store", str(path))
    async with Runtime(path, drive=False) as runs:
        told = (await runs.handle("talking").view()).error
    for where in (before, _written(path), parts, told):
        assert KEY not in where and ODD not in where
    mark = f"[redacted:api_key:{Redactor(key=load(f'{path}.key').derive(b'redaction')).hash_of(KEY)}]"
    written = _written(path)
    assert f"it has {mark} and [redacted:ODD_API_KEY:" in parts
    for reason in (f"it has {mark}", f"{mark} and", f"it said {mark}"):
        assert reason in written
    assert f"it said {mark}" in told


def test_an_operators_process_puts_no_secret_into_the_house(tmp_path: Path) -> None:
    """Nor its own token, which it has taken out of its environment; the key is made after it was started."""
    path, token = tmp_path / "runs.db", "the-token-of-the-operator"
    with operator(path, token=token) as one:
        halt = asked(one.path, {"do": "halt", "all": True, "reason": f"{KEY} and {token}"})["halt"]
        asked(one.path, {"do": "lift", "id": halt["id"], "reason": f"{KEY} is void"})
    written = _written(path)
    assert KEY not in written and token not in written
    assert "[redacted:token:" in written
    mark = f"[redacted:api_key:{Redactor(key=load(f'{path}.key').derive(b'redaction')).hash_of(KEY)}]"
    assert f"{mark} is void" in written


def test_the_log_of_a_process_holds_no_secret(capfd: pytest.CaptureFixture[str]) -> None:
    """Neither its lines nor the tracebacks below them."""
    root = logging.getLogger()
    handlers, root.handlers = root.handlers, []
    try:
        log_to_stderr(Redactor())
        try:
            raise ValueError(f"refused: {KEY}")
        except ValueError:
            logging.getLogger("standfast").exception("cannot use %s", KEY)
    finally:
        root.handlers = handlers
    told = capfd.readouterr().err
    assert "cannot use [redacted:api_key:" in told and "ValueError: refused: [redacted:api_key:" in told
    assert KEY not in told
