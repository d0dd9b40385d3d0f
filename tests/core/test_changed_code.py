"""Resume on changed code (R16): the run is held as stale, or migrated, never fed a state that does not fit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from tests.core.processes import Worker
from tests.helpers import eventually

from standfast import Agent, Done, Handle, LLMAgent, Log, Pipeline, Refused, Run, Runtime, agent, models, tool
from standfast import events as ev
from standfast.records import RunView


class Old(BaseModel):
    n: int = 0
    name: str = "x"


class New(BaseModel):
    n: int = 0
    full_name: str
    chat: Log[str] = Log()


@tool(effect="read", name="fetch")
async def fetch(q: str) -> str:
    return q


@tool(effect="read", name="fetch")
async def fetch_more(q: str, limit: int = 5) -> str:
    """The same tool, with another argument."""
    return q


@tool(effect="idempotent", name="fetch")
async def fetch_idempotent(q: str) -> str:
    return q


def stepper(state: Any, fetching: Any = fetch, *, title: str = "one", **options: Any) -> Agent[Any, Any]:
    """An agent `changing` of two steps, which pauses itself nowhere."""

    async def step(run: Any) -> Any:
        run.state.n += 1
        await run.call(fetching(title))
        return Done(run.state.n) if run.state.n == 2 else None

    step.__annotations__ = {"run": Run[state], "return": Done[int] | None}
    return agent("changing", tools=[fetching], **options)(step)


async def paused(path: Path, old: Any, state: Any = None) -> None:
    """Leave run r1 of this code paused before its first step."""
    async with Runtime(path, agents=[old], drive=False) as runs:
        run = await runs.start(old, state or Old(), id="r1")
        await run.pause()
        assert (await run.view()).status == "paused"


async def resumed(path: Path, new: Any) -> tuple[RunView, Any]:
    """Resume r1 with this code; the view once it is held or has ended, and the result of `look`."""
    async with Runtime(path, agents=[new]) as runs:
        run = runs.handle("r1")
        answer = await run.resume()
        assert answer, answer

        async def look() -> RunView | None:
            view = await run.view()
            return view if view.status not in ("queued", "running", "pausing") else None

        view: RunView = await eventually(look)
        return view, await run.state()


async def resolved(path: Path, new: Any, **how: Any) -> Any:
    async with Runtime(path, agents=[new]) as runs:
        run = runs.handle("r1")
        answer = await run.resume(**how)
        assert answer, answer
        return await run.result(timeout=120)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


async def test_the_same_code_goes_on(path: Path) -> None:
    await paused(path, stepper(Old))
    view, _ = await resumed(path, stepper(Old))
    assert view.status == "done"


async def test_source_text_alone_holds_nothing(path: Path) -> None:
    """Ruling: version=None compares schemas and effects; else every deploy would hold every run."""

    @agent("changing", tools=[fetch])
    async def other_body(run: Run[Old]) -> Done[int] | None:
        return Done(40 + run.state.n)

    await paused(path, stepper(Old))
    assert await resolved(path, other_body) in (40, 41)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (stepper(Old), stepper(New), "state schema"),
        (stepper(Old), stepper(Old, fetch_more), "fetch"),
        (stepper(Old), stepper(Old, fetch_idempotent), "effect"),
        (stepper(Old, version="1"), stepper(Old, version="2"), "'1' -> '2'"),
        (stepper(Old), stepper(Old, version="2"), "version"),
    ],
    ids=["state", "tool-schema", "tool-effect", "version", "version-given"],
)
async def test_changed_code_holds_as_stale_with_the_difference(path: Path, old: Any, new: Any, says: str) -> None:
    """R16: held as stale, with the difference and a choice; nothing is run before that."""
    await paused(path, old)
    view, _ = await resumed(path, new)
    assert view.status == "paused"
    assert view.holds == ("stale",)
    assert says in view.waiting_for
    (need,) = view.needs
    assert (need.kind, says in need.text) == ("stale", True)
    assert {c.verb for c in need.choices} == {"resume", "rewind", "cancel"}
    async with Runtime(path, agents=[new]) as runs:
        run = runs.handle("r1")
        refused = await run.resume()
        assert isinstance(refused, Refused)
        assert "stale" in refused.why


async def test_a_removed_tool_holds_as_stale(path: Path) -> None:
    @agent("changing")
    async def without_tools(run: Run[Old]) -> Done[int] | None:
        return Done(run.state.n)

    await paused(path, stepper(Old))
    view, _ = await resumed(path, without_tools)
    assert view.holds == ("stale",)
    assert "fetch is gone" in view.waiting_for


async def test_an_explicit_version_that_stays_vouches_for_changed_tools(path: Path) -> None:
    """With version= the author says what is compatible: tool schemas are not compared."""
    await paused(path, stepper(Old, version="7"))
    view, _ = await resumed(path, stepper(Old, fetch_more, version="7"))
    assert view.status == "done"


async def test_accept_stale_goes_on_with_the_new_code(path: Path) -> None:
    """R16: "go on" is one of the choices, and is asked for once."""
    await paused(path, stepper(Old, version="1"))
    new = stepper(Old, version="2")
    view, _ = await resumed(path, new)
    assert view.holds == ("stale",)
    assert await resolved(path, new, accept_stale=True) == 2


async def test_accept_stale_cannot_make_a_state_fit(path: Path) -> None:
    """Bad input never loses a run: it is held by an error that names the field, and the old code still can go on."""
    await paused(path, stepper(Old))
    new = stepper(New)
    view, _ = await resumed(path, new)
    assert view.holds == ("stale",)
    async with Runtime(path, agents=[new]) as runs:
        run = runs.handle("r1")
        assert await run.resume(accept_stale=True)

        async def look() -> RunView | None:
            view = await run.view()
            return view if "error" in view.holds and view.status == "paused" else None

        view = await eventually(look)
        assert view.error.startswith("WrongState: the stored state cannot be read as New: field full_name:")
        assert "migrate=" in view.traceback
        assert await run.edit({"name": None, "full_name": "mended"})
        assert await run.resume(accept_stale=True)
        assert await run.result(timeout=120) == 2


async def test_migrate_turns_the_old_state_into_the_new(path: Path) -> None:
    """R16, ruling: migrate= turns old state into new; the run goes on without asking."""
    seen: list[Any] = []

    def migrate(old: dict[str, Any]) -> New:
        seen.append(old)
        return New(n=old["n"], full_name=old["name"] + "!", chat=Log(["moved"]))

    await paused(path, stepper(Old), Old(n=1, name="ada"))
    async with Runtime(path, agents=[stepper(New, migrate=migrate)]) as runs:
        run = runs.handle("r1")
        assert await run.resume()
        assert await run.result(timeout=120) == 2
        state = await run.state()
        assert (state.n, state.full_name, list(state.chat)) == (2, "ada!", ["moved"])
        notes = [e.text async for e in run.events() if isinstance(e, ev.VerbNoted)]
        assert any("state schema" in text for text in notes)
    assert seen == [{"n": 1, "name": "ada"}]


async def held_by_error(path: Path, new: Any, **how: Any) -> RunView:
    async with Runtime(path, agents=[new]) as runs:
        run = runs.handle("r1")
        assert await run.resume(**how)

        async def look() -> RunView | None:
            view = await run.view()
            return view if view.status == "paused" and "error" in view.holds else None

        view: RunView = await eventually(look)
        return view


async def test_a_state_that_was_accepted_in_vain_can_still_be_migrated(path: Path) -> None:
    """R16: a person said to go on, the state did not fit; the next deploy knows how to make it fit."""
    await paused(path, stepper(Old), Old(n=1, name="ada"))
    await resumed(path, stepper(New))
    await held_by_error(path, stepper(New), accept_stale=True)
    mended = stepper(New, migrate=lambda old: New(n=old["n"], full_name=old["name"]))
    assert await resolved(path, mended) == 2


async def test_a_fork_from_before_a_migration_is_migrated_too(path: Path) -> None:
    """R10, R16: the snapshot before that step is as old as it was."""
    seen: list[Any] = []

    def migrate(old: dict[str, Any]) -> New:
        seen.append(old)
        return New(n=old["n"], full_name=old["name"])

    async with Runtime(path, agents=[stepper(Old)]) as runs:
        run = await runs.start("changing", {}, id="r1", budget={"steps": 1})
        await eventually(lambda: _paused(run))
    new = stepper(New, migrate=migrate)
    async with Runtime(path, agents=[new]) as runs:
        run = runs.handle("r1")
        assert await run.resume(budget={"steps": 2})
        assert await run.result(timeout=120) == 2
        again = await run.fork(at=0)
        assert await again.result(timeout=120) == 2
    assert seen == [{"n": 1, "name": "x"}, {"n": 0, "name": "x"}]


async def _paused(run: Handle[Any]) -> bool:
    return (await run.view()).status == "paused"


async def test_an_async_migrate_may_return_plain_json(path: Path) -> None:
    async def migrate(old: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"n": old["n"], "full_name": "from json"}

    await paused(path, stepper(Old))
    new = stepper(New, migrate=migrate)
    assert await resolved(path, new) == 2


@pytest.mark.parametrize("bad", ["raises", "wrong"])
async def test_a_migrate_that_fails_holds_the_run_and_keeps_its_state(path: Path, bad: str) -> None:
    """Bad input: paused(error) with the traceback; a repaired migrate and a resume go on."""

    def broken(old: dict[str, Any]) -> Any:
        if bad == "raises":
            raise KeyError("full_name")
        return {"n": "many"}

    await paused(path, stepper(Old), Old(n=1, name="ada"))
    view, state = await resumed(path, stepper(New, migrate=broken))
    assert view.status == "paused"
    assert "error" in view.holds
    assert "full_name" in view.error or "n" in view.error
    assert "Traceback" in view.traceback
    assert state == {"n": 1, "name": "ada"}
    mended = stepper(New, migrate=lambda old: New(n=old["n"], full_name=old["name"]))
    assert await resolved(path, mended) == 2


async def test_a_changed_list_of_stages_holds_a_pipeline(path: Path) -> None:
    def pipeline(*titles: str) -> Pipeline[Old]:
        p = Pipeline("changing", Old)
        for title in titles:

            @p.stage(title)
            async def stage(run: Run[Old]) -> None:
                run.state.n += 1

        return p

    await paused(path, pipeline("one", "two"))
    view, _ = await resumed(path, pipeline("one", "two", "three"))
    assert view.holds == ("stale",)
    assert "stages" in view.waiting_for


class Inner(BaseModel):
    street: str = ""


class WithFields(BaseModel):
    n: int = 0
    name: str = "x"
    homes: list[Inner] = []


class OtherInner(BaseModel):
    street: int = 0
    town: str = ""


class OtherFields(BaseModel):
    n: str = ""
    full_name: str
    homes: list[OtherInner] = []


async def test_the_hold_names_the_fields_of_the_state_that_differ(path: Path) -> None:
    """R16: with the differences."""
    await paused(path, stepper(WithFields), WithFields())
    view, _ = await resumed(path, stepper(OtherFields))
    assert view.waiting_for == (
        "stale: state schema has changed: new field full_name (required), field name is gone, n: integer -> string, "
        "new field homes[].town (with a default), homes[].street: string -> integer"
    )


async def test_the_hold_names_what_differs_in_a_tool(path: Path) -> None:
    await paused(path, stepper(Old))
    view, _ = await resumed(path, stepper(Old, fetch_more))
    assert view.waiting_for == "stale: tool fetch: schema changed: new field limit (with a default)"


async def test_the_hold_names_the_effect_that_a_tool_had_and_has(path: Path) -> None:
    await paused(path, stepper(Old))
    view, _ = await resumed(path, stepper(Old, fetch_idempotent))
    assert view.waiting_for == "stale: tool fetch: effect changed: read -> idempotent"


async def test_another_version_names_the_fields_too(path: Path) -> None:
    await paused(path, stepper(WithFields, version="1"), WithFields())
    view, _ = await resumed(path, stepper(OtherFields, version="2"))
    assert view.waiting_for.startswith("stale: version: '1' -> '2'; state schema has changed: new field full_name")


async def test_the_hold_names_the_lines_of_the_instructions_that_differ(path: Path) -> None:
    """By their numbers: what instructions say is not kept in the store."""

    def told(instructions: str) -> Agent[Any, Any]:
        return LLMAgent("changing", model=models.scripted("yes"), instructions=instructions, plan=False)

    await paused(path, told("Be kind.\nBe quick.\nBe brief."), "a task")
    view, _ = await resumed(path, told("Be kind.\nBe slow.\nBe brief.\nBe sure."))
    assert view.waiting_for == "stale: the instructions have changed: line 2 changed, line 4 new"
    assert b"Be quick" not in path.read_bytes()


# --- real processes -----------------------------------------------------------------------------


@pytest.fixture
async def worker(tmp_path: Path) -> AsyncIterator[Worker]:
    worker = Worker(tmp_path)
    (tmp_path / "setting.txt").write_text("given")
    yield worker
    worker.kill()


async def test_a_new_process_with_changed_code_after_kill_9(worker: Worker) -> None:
    """R2, R16: killed in mid-step, deployed with another state schema: held; with migrate=: goes on."""
    await worker.until_waiting("plain")
    worker.kill()
    held = await worker.drive("new")
    assert (held["status"], held["holds"]) == ("paused", ["stale"])
    assert "state schema" in held["waiting_for"]
    (worker.folder / "door").touch()
    async with Runtime(worker.store, drive=False) as runs:
        run = runs.handle("r1")
        assert (await run.state())["count"] == 1  # plain JSON: no agent code here
        assert await run.resume(accept_stale=True)  # the difference is accepted ...
    ended = await worker.drive("migrating")  # ... but the code that comes next knows better
    assert ended["status"] == "done"
    assert worker.world() == ["write mine", "waiting", "waiting", "through"]


async def test_a_changed_tool_alone_is_held_and_its_state_is_not_migrated(path: Path) -> None:
    """R16: migrate= was written for another state; the one there is fits already."""
    migrated: list[Any] = []

    def migrate(old: Any) -> Old:
        migrated.append(old)
        return Old(n=100)

    await paused(path, stepper(Old))
    view, state = await resumed(path, stepper(Old, fetch_more, migrate=migrate))
    assert (view.status, set(view.holds)) == ("paused", {"stale"})
    assert "fetch" in view.waiting_for
    assert migrated == []
    assert state.n == 0
