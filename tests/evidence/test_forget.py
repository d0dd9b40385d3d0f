"""What is forgotten is gone from the file, and the record still holds together and says who did it (R32)."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.evidence.test_notary import asked
from tests.evidence.world import Letters, writer

from standfast import Log, Misuse, NotHappened, Runtime
from standfast.cli.app import standfast
from standfast.evidence.keys import load_public
from standfast.evidence.store_check import verify_store
from standfast.house_events import RunForgotten
from standfast.records import Refused
from standfast.stores.sqlite import SqliteStore

SECRET = "the-name-of-the-patient"


async def ended(runs: Runtime, id: str) -> None:  # noqa: A002
    run = await runs.start(
        writer, Letters(to_send=1, log=Log([SECRET])), id=id, labels={"who": SECRET}, reason=SECRET, by=SECRET
    )
    await asked(run)
    await run.message(SECRET)
    await run.cancel(reason=SECRET)
    await run.settled(timeout=120)


async def test_a_forgotten_run_is_gone_from_the_file_and_the_record_holds(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with Runtime(path, [writer]) as runs:
        await ended(runs, "one")
        assert SECRET.encode() in path.read_bytes() + Path(f"{path}-wal").read_bytes()
        assert await runs.forget("one", by="ana", reason="the law")
    assert SECRET.encode() not in path.read_bytes()
    report = verify_store(path, [load_public(tmp_path / "runs.db.pub")])
    assert report.of("broken") == []
    assert any("its content deleted" in one.text for one in report.of("proved"))
    store = SqliteStore(path)
    event = store.read(lambda tx: tx.house())[-1]
    assert store.read(lambda tx: tx.verify(tx.run("one"))) == ""  # type: ignore[arg-type]
    store.close()
    assert isinstance(event, RunForgotten)
    assert (event.run, event.by, event.reason) == ("one", "ana", "the law")


async def test_the_reason_that_outlives_a_run_holds_no_secret(tmp_path: Path) -> None:
    secret = "sk-ant-api03-" + "A" * 30
    async with Runtime(tmp_path / "runs.db", [writer]) as runs:
        await ended(runs, "one")
        await runs.forget("one", by="ana", reason=f"it held {secret}")
        view = await runs.handle("one").view()
    assert secret not in view.error
    assert "by ana (claimed): it held [redacted:api_key:" in view.error


async def test_a_forgotten_run_says_kindly_what_became_of_it(tmp_path: Path) -> None:
    async with Runtime(tmp_path / "runs.db", [writer]) as runs:
        await ended(runs, "one")
        await runs.forget("one", by="ana", reason="the law")
        run = runs.handle("one")
        view = await run.view()
        assert view.status == "cancelled"
        assert "was forgotten on" in view.error
        assert "by ana (claimed): the law" in view.error
        assert [view.id for view in await runs.list()] == ["one"]
        assert await run.transcript() == []
        assert [event async for event in run.events()] == []
        for look in (run.state(), run.result(), run.fork(), run.stops()):
            with pytest.raises(Misuse, match="was forgotten on"):
                await look
        for verb in (run.cancel(), run.resume(), run.message("x"), run.resolve("c", NotHappened())):
            answer = await verb
            assert isinstance(answer, Refused)
            assert "was forgotten on" in answer.why
        again = await runs.forget("one")
        assert isinstance(again, Refused)


async def test_what_others_still_need_is_not_forgotten(tmp_path: Path) -> None:
    async with Runtime(tmp_path / "runs.db", [writer]) as runs:
        live = await runs.start(writer, Letters(to_send=1), id="live")
        await asked(live)
        refused = await runs.forget(live)
        assert isinstance(refused, Refused)
        assert "only what has ended" in refused.why
        await ended(runs, "source")
        fork = await runs.handle("source").fork(id="fork")
        refused = await runs.forget("source")
        assert isinstance(refused, Refused)
        assert "run fork was forked from run source" in refused.why
        await fork.cancel()
        await fork.settled(timeout=120)
        assert await runs.forget("fork")
        assert await runs.forget("source")
    assert verify_store(tmp_path / "runs.db").of("broken") == []


async def test_the_command_forgets_one_run_or_old_ones_and_signs(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with Runtime(path, [writer]) as runs:
        for name in ("run-a", "run-b", "run-c"):
            await ended(runs, name)
        await runs.start("writer", Letters(to_send=1), id="run-live")

    def call(*arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(standfast, ["forget", *arguments, "--store", str(path), "--by", "ana"])
        return done.exit_code, done.output

    assert call("run-a", "--reason", "asked to")[0] == 0
    assert call("run-a", "--reason", "again")[0] == 3
    assert call("run-live", "--reason", "x")[0] == 3
    assert call("nothing", "--reason", "x")[0] == 1
    assert call("--reason", "x")[0] == 2
    assert call("run-b", "--older-than", "1d", "--reason", "x")[0] == 2
    assert call("--older-than", "soon", "--reason", "x")[0] == 2
    assert call("--older-than", "1d", "--reason", "x") == (0, "nothing that old has ended\n")
    code, said = call("--older-than", "0s", "--reason", "old", "--json")
    assert code == 0
    assert sorted(json.loads(said)["answers"]) == ["run-b", "run-c"]
    assert json.loads(said)["unsigned"] == ""
    db = sqlite3.connect(path)
    assert json.loads(db.execute("SELECT doc FROM checkpoints ORDER BY n DESC").fetchone()[0])["why"] == "forget"
    db.close()
    assert verify_store(path).of("broken") == []
