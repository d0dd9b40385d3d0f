"""Names and ids in a record stay what they are, or it would prove nothing; what was said beside them does not (R32)."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.evidence.bundling import parts_of, said
from tests.helpers import database, eventually

from standfast import Done, Misuse, Run, Runtime, agent, say, tool
from standfast.evidence.bundle_check import verify_bundle
from standfast.evidence.keys import load_public
from standfast.evidence.store_check import verify_store
from standfast.redaction import Redactor

NAME = "sk-learn-experiment-runner"  # looks like a key, and is a name
KEY = "sk-" + "proj-Zm9vYmFyYmF6cXV4MTIz"


@dataclass
class Nothing:
    """No state."""


@tool(effect="read", name="sk-learn-experiment-fit")
async def fit(given: dict[str, Any]) -> dict[str, Any]:
    """Says something, and waits for long."""
    say("it fits")
    await asyncio.sleep(60)
    return given


@tool(effect="read")
async def echo(given: dict[str, Any]) -> dict[str, Any]:
    """The same again."""
    return given


@agent(NAME)
async def runner(run: Run[Nothing]) -> Done[None]:
    """Takes long."""
    given = {"tool": KEY, "id": KEY, "call": {"run": KEY, "type": KEY}, "in_flight": [{"agent": KEY}], KEY: 1}
    await run.call(echo(given))
    run.emit("kind", given)
    await run.call(fit(given))
    return Done(None)


async def test_a_bundle_of_an_agent_and_a_tool_that_look_like_keys_is_proved(tmp_path: Path) -> None:
    path, bundle = tmp_path / "runs.db", tmp_path / "bundle.zip"
    async with Runtime(path, [runner]) as runs:
        run = await runs.start(runner, Nothing(), id="one", labels={"agent": KEY, KEY: "x"})
        await said(run, "it fits")
        await run.cancel()
        await run.settled(timeout=120)
        await run.evidence(bundle)
    report = verify_bundle(bundle, [load_public(f"{path}.pub")])
    assert report.of("broken") == []
    parts = parts_of(bundle)
    record = parts["run/record.jsonl"].decode()
    assert KEY not in b"".join(parts.values()).decode("utf-8", "replace")
    assert f'\\"agent\\":\\"{NAME}\\"' in record
    [stop] = json.loads(parts["run/stops.json"])
    assert [ref["tool"] for ref in stop["in_flight"]] == ["sk-learn-experiment-fit"]
    assert record.count("[redacted:api_key:") > 10, "under the same names, in what was given and what came of it"


async def test_a_call_in_flight_is_still_itself_for_the_next_driver(tmp_path: Path) -> None:
    """Its id and tool are in every row of the record, from which a run that lost its driver goes on."""
    path = tmp_path / "runs.db"
    async with Runtime(path, [runner]) as runs:
        run = await runs.start(runner, Nothing(), id="one")
        await said(run, "it fits")
        [ref] = (await run.view()).in_flight
        with database(path) as db:
            bodies = [bytes(body) for (body,) in db.execute("SELECT body FROM record")]
        db.close()
        [shown] = json.loads(next(body for body in bodies if b"it fits" in body).split(b"\n")[1])[3]
        assert (shown["id"], shown["tool"]) == (ref.id, ref.tool) == (ref.id, "sk-learn-experiment-fit")
        await run.cancel()


async def test_an_id_that_looks_like_a_secret_is_refused(tmp_path: Path) -> None:
    async with Runtime(tmp_path / "runs.db", [runner], redact=[r"patient-\d+"]) as runs:
        for id_ in (KEY, "patient-4711"):
            with pytest.raises(Misuse, match="looks like a secret") as refused:
                await runs.start(runner, Nothing(), id=id_)
            assert id_ not in str(refused.value) and "nothing was started" in refused.value.hint
        run = await runs.start(runner, Nothing(), id="a")
        await eventually(lambda: _has_stepped(run))
        with pytest.raises(Misuse, match="looks like a secret"):
            await run.fork(id=KEY)
        assert [view.id for view in await runs.list()] == ["a"]
        await run.cancel()


async def _has_stepped(run: Any) -> bool:
    return bool((await run.view()).in_flight)


async def test_an_id_that_one_process_takes_for_a_secret_evades_no_custody(tmp_path: Path) -> None:
    """It was started where nothing was known of the pattern."""
    path, bundle = tmp_path / "runs.db", tmp_path / "bundle.zip"
    async with Runtime(path, [runner]) as runs:
        run = await runs.start(runner, Nothing(), id="patient-4711")
        await run.cancel()
        await run.settled(timeout=120)
    async with Runtime(path, drive=False, redact=[r"patient-\d+"]) as runs:
        await runs.handle("patient-4711").evidence(bundle, by="ann")
        assert await runs.forget("patient-4711", by="ann", reason="of patient-4711")
        await runs.handle("patient-4711").evidence(tmp_path / "after.zip", by="ann")
    viewed = json.loads(parts_of(bundle)["custody.json"])
    assert [event["type"] for event in viewed] == ["evidence_viewed"]
    custody = json.loads(parts_of(tmp_path / "after.zip")["custody.json"])
    assert {event["run"] for event in custody} == {"patient-4711"}
    assert [event["reason"] for event in custody if event["type"] == "run_forgotten"] != ["of patient-4711"]
    assert verify_bundle(tmp_path / "after.zip", [load_public(f"{path}.pub")]).of("broken") == []
    assert verify_store(path, [load_public(f"{path}.pub")]).of("broken") == []


def test_what_a_stranger_typed_is_no_name() -> None:
    """An attempt that was refused names a run that need not be one."""
    redactor = Redactor()
    for_house = {"type": "attempt_refused", "run": KEY, "what": "view", "why": "unknown"}
    assert KEY.encode() not in redactor.line(json.dumps(for_house).encode())
    taken = json.dumps({"type": "evidence_taken", "run": NAME, "by": KEY}).encode()
    assert json.loads(redactor.line(taken))["run"] == NAME
    assert KEY.encode() not in redactor.line(taken)
