"""Arguments of the wrong type: an error with a hint before anything is written."""

from __future__ import annotations

import asyncio
import datetime
import logging
import math
from pathlib import Path
from typing import Any

import pytest
from tests.core.mistakes import Plain, act, held_by, helpful, simple, waits
from tests.helpers import database, eventually

from standfast import (
    Done,
    Misuse,
    Run,
    RunCancelled,
    Runtime,
    StandfastError,
    agent,
    ask,
    progress,
    say,
    sleep,
    spend,
    tool,
)
from standfast.testing import lab

LONE = "\ud800"
SOON = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    "given",
    [
        {"labels": {"a": 1}},
        {"labels": {1: "a"}},
        {"labels": ["a"]},
        {"labels": {"a": LONE}},
        {"by": 7},
        {"by": LONE},
        {"reason": None},
        {"deadline": "soon"},
        {"deadline": SOON},
        {"deadline": math.nan},
        {"deadline": True},
        {"budget": {"stepz": 1}},
        {"budget": {"steps": 2.5}},
        {"budget": {"cost": math.nan}},
        {"budget": {"then": "explode"}},
        {"budget": 7},
        {"id": 5},
        {"id": LONE},
        {"request_id": 5},
    ],
    ids=str,
)
async def test_a_start_with_a_wrong_argument_starts_no_run(given: dict[str, Any]) -> None:
    async with lab([simple]) as runs:
        for by in (simple, "simple"):
            with pytest.raises(Misuse) as caught:
                await runs.start(by, Plain() if by is simple else {}, **given)  # type: ignore[call-overload]
            helpful(caught.value)
        assert await runs.list() == []


@pytest.mark.parametrize(
    ("given", "allowed"),
    [
        ({"status": "foo"}, "queued, running, pausing, paused, cancelling, cancelled, done, failed"),
        ({"status": ["done", "foo"]}, "queued, running, pausing, paused, cancelling, cancelled, done, failed"),
        ({"status": 7}, "queued, running, pausing, paused, cancelling, cancelled, done, failed"),
        ({"limit": -1}, "0 or more"),
        ({"limit": "10"}, "0 or more"),
        ({"limit": True}, "0 or more"),
        ({"agent": 7}, "str"),
        ({"labels": {"a": 1}}, "str"),
        ({"needs": "yes"}, "bool"),
        ({"before": 7}, "str"),
    ],
    ids=str,
)
async def test_a_list_of_what_there_cannot_be_is_refused(given: dict[str, Any], allowed: str) -> None:
    """R26: a mistyped status must not look like "there are none"."""
    async with lab([simple]) as runs:
        await (await runs.start(simple, Plain())).result()
        with pytest.raises(Misuse) as caught:
            await runs.list(**given)
        helpful(caught.value)
        assert allowed in caught.value.hint


async def test_a_list_of_none_is_empty() -> None:
    async with lab([simple]) as runs:
        await (await runs.start(simple, Plain())).result()
        assert await runs.list(limit=0) == []
        assert len(await runs.list(status=("done", "failed"), limit=1)) == 1


async def test_a_start_takes_a_budget_as_a_dict() -> None:
    async with lab([waits]) as runs:
        run = await runs.start(waits, Plain(), budget={"steps": 7})
        assert (await run.view()).budget.steps == 7


@pytest.mark.parametrize(
    "wrong",
    [
        lambda h: h.pause(reason=None),
        lambda h: h.pause(reason=LONE),
        lambda h: h.pause(by=7),
        lambda h: h.pause(request_id=7),
        lambda h: h.pause(if_seq="1"),
        lambda h: h.resume(note=5),
        lambda h: h.resume(accept_stale=5),
        lambda h: h.resume(budget={"cost": math.nan}),
        lambda h: h.resume(budget=5),
        lambda h: h.message(5),
        lambda h: h.message(LONE),
        lambda h: h.message("x", data={"deep": LONE}),
        lambda h: h.redirect(5),
        lambda h: h.redirect(LONE),
        lambda h: h.redirect("x", from_step=1.5),
        lambda h: h.rewind(None),
        lambda h: h.rewind(0.5),
        lambda h: h.cancel(soft=5),
        lambda h: h.cancel(by=7),
        lambda h: h.approve("c", args=[1]),
        lambda h: h.deny("c", None),
        lambda h: h.edit({"names": [LONE]}),
        lambda h: h.fork(by=7),
        lambda h: h.fork(id=7),
        lambda h: h.fork(at=0.0),
        lambda h: h.fork(reason=None),
    ],
)
async def test_a_verb_with_a_wrong_argument_changes_nothing(wrong: Any) -> None:
    async with lab([waits]) as runs:
        run = await runs.start(waits, Plain())
        view = await held_by(run, "waiting")
        with pytest.raises(StandfastError) as caught:
            await wrong(run)
        helpful(caught.value)
        assert (await run.view()).seq == view.seq
        assert [v.id for v in await runs.list()] == [run.id]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda run: run.plan.add(5),
        lambda run: run.plan.add(LONE),
        lambda run: run.plan.set(["a", 5]),
        lambda run: run.plan.rewrite(run.plan.add("a"), 5),
        lambda run: run.note(5),
        lambda run: run.note(LONE),
        lambda run: run.emit(5, "x"),
        lambda run: run.call(act("x"), title=5),
        lambda run: run.call(act("x"), why=5),
        lambda run: run.call(act("x"), key=5),
        lambda run: run.call(ask("ok?", timeout="soon")),  # type: ignore[call-overload]
        lambda run: run.call(sleep(math.nan)),
    ],
)
async def test_a_step_that_gives_a_wrong_argument_is_held_and_stays_readable(wrong: Any) -> None:
    @agent("slips")
    async def slips(run: Run[Plain]) -> Done[int]:
        slip = wrong(run)
        if slip is not None and not isinstance(slip, tuple):
            await slip
        return Done(1)

    async with lab([slips]) as runs:
        run = await runs.start(slips, Plain())
        view = await held_by(run, "error")
        assert "Misuse" in view.error
        assert await run.cancel()
        assert (await run.settled()).status == "cancelled"


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: spend(input_tokens=1.5),  # type: ignore[arg-type]
        lambda: spend(output_tokens="1"),  # type: ignore[arg-type]
        lambda: spend(cost=math.nan),
        lambda: spend(cost=math.inf),
        lambda: spend(cost="1"),  # type: ignore[arg-type]
        lambda: progress(0.5, 3),  # type: ignore[arg-type]
        lambda: progress(math.nan),
        lambda: progress("half"),  # type: ignore[arg-type]
        lambda: say(5),  # type: ignore[arg-type]
        lambda: say(LONE),
    ],
)
async def test_a_tool_that_says_something_wrong_fails_and_counts_nothing(wrong: Any) -> None:
    @tool(effect="read")
    async def slips() -> None:
        wrong()

    @agent("calls")
    async def calls(run: Run[Plain]) -> Done[int]:
        await run.call(slips())
        return Done(1)

    async with lab([calls]) as runs:
        run = await runs.start(calls, Plain())
        view = await held_by(run, "error")
        assert "CallFailed" in view.error
        assert (view.spent.tokens, view.spent.cost) == (0, 0.0)


# --- a damaged run is a matter of its own ------------------------------------------------------------------


async def _damaged(path: Path) -> tuple[str, str]:
    """Two runs with a deadline; the first one's row is damaged. Gives their ids."""
    async with Runtime(path, agents=[waits]) as runs:
        made: list[str] = []
        for _ in range(2):
            run = await runs.start(waits, Plain(), deadline=4e9)
            await held_by(run, "waiting")
            made.append(run.id)
    with database(path) as db:
        db.execute("UPDATE runs SET wake_at = 1, doc = json_set(doc, '$.deadline', 1)")
        db.execute("UPDATE runs SET doc = json_set(doc, '$.labels', 7) WHERE id = ?", (made[0],))
    db.close()
    return made[0], made[1]


async def test_a_damaged_run_hides_no_other_run(tmp_path: Path) -> None:
    bad, good = await _damaged(tmp_path / "runs.db")
    async with Runtime(tmp_path / "runs.db", drive=False) as runs:
        views = {view.id: view for view in await runs.list()}
    assert set(views) == {bad, good}
    assert "StoreDamaged" in views[bad].error
    assert views[good].holds == ("waiting",)


async def test_a_damaged_run_stops_no_other_deadline(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    bad, good = await _damaged(tmp_path / "runs.db")
    with caplog.at_level(logging.ERROR, "standfast"):
        async with Runtime(tmp_path / "runs.db", agents=[waits]) as runs:
            with pytest.raises(RunCancelled, match="deadline"):
                await runs.handle(good).result(timeout=120)
    assert any(bad in record.getMessage() for record in caplog.records)


async def test_an_error_of_the_watch_is_logged_and_verbs_are_still_carried_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with caplog.at_level(logging.ERROR, "standfast"):
        async with Runtime(tmp_path / "runs.db", agents=[waits]) as runs:
            run = await runs.start(waits, Plain())
            await held_by(run, "waiting")

            def fails() -> float:
                raise ZeroDivisionError("asked for")

            with monkeypatch.context() as patched:
                assert runs._thread is not None
                patched.setattr(runs._thread, "_tick", fails)
                await eventually(lambda: "asked for" in caplog.text)
                async with asyncio.timeout(120):
                    assert await run.pause()
    assert len([r for r in caplog.records if "asked for" in r.getMessage()]) == 1
