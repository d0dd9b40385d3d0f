"""Tokens and keys are in no log, event, answer, address or command line; nor in errors that are kept (R32, R34)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.attacks.thieves import token
from tests.fuzz.oracle import everything_kept
from tests.helpers import database, held
from tests.limits.test_runs import Nothing
from tests.server.conftest import serve  # noqa: F401 - a fixture
from tests.server.serving import Server, eventually, leftovers

from standfast import Done, Run, Runtime, agent, tool
from standfast.redaction import Redactor, of_environment
from standfast.server.limits import OURS, without_secrets

KEY = "sk-" + "proj-Zm9vYmFyYmF6cXV4MTIz"
ODD = "no-known-shape-1234567890"  # a provider of one's own


@tool(effect="read")
async def ask_provider() -> None:
    """A provider that says back what it was given."""
    raise ValueError(f"401: the key {KEY} is wrong, and so is {ODD}")


@agent("unlucky")
async def unlucky(run: Run[Nothing]) -> Done[None]:
    await run.call(ask_provider())
    return Done(None)


@agent("clumsy", on_error="fail")
async def clumsy(run: Run[Nothing]) -> Done[None]:
    raise ValueError(f"cannot go on with {KEY} and {ODD}")


async def test_an_error_that_holds_a_run_is_kept_without_the_key_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R32: view().error, its traceback, the receipt, and what result() raises."""
    monkeypatch.setenv("ODD_API_KEY", ODD)
    store = tmp_path / "runs.db"
    async with Runtime(store, [unlucky, clumsy]) as runs:
        run = await runs.start(unlucky, Nothing(), id="held")
        view = await held(run, "error")
        failing = await runs.start(clumsy, Nothing(), id="failed")
        receipt = await failing.settled()
        ended = await failing.view()
        told = [view.error, view.traceback, ended.error, ended.traceback, repr(receipt), repr(view), repr(ended)]
        told += [repr([event async for event in failing.events()])]
        assert "redacted:api_key" in view.error and "redacted:ODD_API_KEY" in ended.error
        for one in told:
            assert KEY not in one and ODD not in one, one
        with pytest.raises(Exception, match="redacted") as raised:
            await failing.result()
        assert KEY not in str(raised.value) + str(getattr(raised.value, "traceback", ""))
    with database(store) as connection:
        docs = [doc for (doc,) in connection.execute("SELECT doc FROM runs")]
    connection.close()
    assert [doc for doc in map(str, docs) if KEY in doc or ODD in doc] == []


def test_values_of_the_environment_that_are_named_as_secrets_are_redacted() -> None:
    variables = {
        "OPENAI_API_KEY": "mine-0123456789",
        "MY_TOKEN": "t" * 12,
        "SHORT_TOKEN": "t" * 11,
        "DB_PASSWORD": 'quo"ted\\and\nmore',
        "HOME": "/home/of/somebody",
        "TOKENIZERS_PARALLELISM": "false-but-long-enough",
    }
    redactor = Redactor(*of_environment(variables), key=b"k")
    assert {one.name for one in of_environment(variables)} == {"OPENAI_API_KEY", "MY_TOKEN", "DB_PASSWORD"}
    for name in ("OPENAI_API_KEY", "MY_TOKEN", "DB_PASSWORD"):
        assert f"[redacted:{name}:" in redactor.text(f"it is {variables[name]}.")
    assert redactor.text(variables["HOME"]) == variables["HOME"]


def test_what_the_server_starts_gets_none_of_its_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent with the operator's token could lift a halt."""
    for name in OURS:
        monkeypatch.setenv(name, "x" * 20)
    assert OURS == {"STANDFAST_TOKEN", "STANDFAST_HALT_TOKEN", "STANDFAST_NOTIFY"}
    assert without_secrets().keys() == os.environ.keys() - OURS


def _environment(pid: int) -> str:
    return Path(f"/proc/{pid}/environ").read_bytes().decode("utf-8", "replace")


def _command_lines(*pids: int) -> str:
    return "\n".join(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode() for pid in pids)


def test_no_secret_of_a_server_is_in_ps_in_its_log_or_in_its_store(
    serve: Callable[..., Server],  # noqa: F811 - the fixture
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """R34: with tokens and a webhook from the environment, and a caller who puts a token where none belongs."""
    secrets = {
        "STANDFAST_TOKEN": "server-token-0123456789",
        "STANDFAST_HALT_TOKEN": "halt-token-0123456789",
        "STANDFAST_NOTIFY": "http://127.0.0.1:9/hook/secret-path-0123456789",
    }
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    server = serve("--workers", "1", "--halt-port", "0").ready()
    link = token(server, "view")
    workers = server.workers()
    operators = leftovers(server.store, "standfast.operator")
    assert workers and operators
    shown = _command_lines(server.process.pid, *workers, *operators)
    assert "standfast.server.worker" in shown and "standfast.operator" in shown
    for pid in workers:
        assert [name for name in secrets if name in _environment(pid)] == [], "agents do not get them"
    for pid in operators:
        assert [name for name in secrets if name in _environment(pid)] == ["STANDFAST_HALT_TOKEN"]
    server.start("shop", "asking")  # it needs somebody, and the hook does not answer
    for secret in (link.secret, server.token):
        server.http.delete(f"/api/tokens/{secret}")
        link.ask("GET", f"/api/house/{secret}")
        link.ask("POST", f"/api/runs/{secret}/cancel", {"reason": secret})
        server.post("/api/runs/asking/message", {"text": f"use {secret}"})
        server.http.get("/api/runs", params={"token": secret, "text": secret})
    eventually(lambda: "could not be told of a need" in server.log.read_text())
    eventually(lambda: server.get("/api/house")["last"] >= 3)
    server.terminate()
    logged, kept = server.log.read_text(), everything_kept(server.store)
    hidden = [link.secret, *secrets.values(), "secret-path-0123456789"]
    for where, text in {"ps": shown, "log": logged, "said": "".join(server.said)}.items():
        assert [secret for secret in hidden if secret in text] == [], where
    house_and_record = _rows(server.store)
    assert [secret for secret in (link.secret, server.token) if secret in house_and_record] == []
    assert link.secret not in kept.replace(f"use {link.secret}", ""), "but in the message itself, which the run reads"


def _rows(store: Path) -> str:
    with database(store) as connection:
        bodies: list[Any] = [
            body for (body,) in connection.execute("SELECT body FROM house UNION SELECT body FROM record")
        ]
    connection.close()
    return "\n".join(bytes(body).decode("utf-8", "replace") for body in bodies)
