"""Bad input: an error with a hint; the run keeps its last good snapshot, is held with the traceback, and goes on after a fix."""

from __future__ import annotations

import asyncio
import os
import resource
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from standfast import (
    Accepted,
    BadReturn,
    BadTool,
    Budget,
    Done,
    DuplicateAgent,
    Idle,
    KeyReused,
    Misuse,
    NotCalled,
    NotStorable,
    Refused,
    Run,
    RunHeld,
    RunIdTaken,
    Runtime,
    StandfastError,
    StoreDamaged,
    StoreFailed,
    StoreTooNew,
    TooLate,
    UnknownAgent,
    UnknownRun,
    WrongState,
    agent,
    tool,
)
from standfast.records import RunView
from standfast.testing import lab
from tests.helpers import eventually


class Plain(BaseModel):
    n: int = 0
    names: list[str] = []
    anything: Any = None


@dataclass
class Other:
    n: int = 0


fixed = False
"""Has somebody mended the code of the run?"""


@pytest.fixture(autouse=True)
async def broken_code() -> AsyncIterator[None]:
    global fixed
    fixed = False
    yield


@tool(effect="read")
async def look(what: Any) -> Any:
    return what


@tool
async def act(what: str) -> str:
    return what


@agent("simple")
async def simple(run: Run[Plain]) -> Done[int]:
    return Done(run.state.n + await run.call(look(1)))


def helpful(error: StandfastError, *words: str) -> None:
    """An error tells the person what happened and what to do next."""
    assert error.hint.strip()
    assert error.message.strip()
    for word in words:
        assert word in str(error)


# --- asked from outside: nothing is changed -------------------------------------------------------------


VERBS: dict[str, Callable[[Any], Awaitable[Any]]] = {
    "pause": lambda h: h.pause(),
    "resume": lambda h: h.resume(),
    "redirect": lambda h: h.redirect("x"),
    "message": lambda h: h.message("x"),
    "cancel": lambda h: h.cancel(),
    "edit": lambda h: h.edit({}),
    "rewind": lambda h: h.rewind(0),
    "step_once": lambda h: h.step_once(),
    "approve": lambda h: h.approve("c"),
    "deny": lambda h: h.deny("c", "no"),
    "answer": lambda h: h.answer("c", 1),
    "resolve": lambda h: h.resolve("c", Happened_()),
    "fork": lambda h: h.fork(),
    "view": lambda h: h.view(),
    "state": lambda h: h.state(),
    "settled": lambda h: h.settled(),
    "result": lambda h: h.result(),
    "transcript": lambda h: h.transcript(),
}


def Happened_() -> Any:  # noqa: N802 - made late, so that the table above reads as a table
    from standfast import Happened

    return Happened()


@pytest.mark.parametrize("verb", VERBS)
async def test_an_unknown_run_is_named_as_such(verb: str) -> None:
    async with lab([simple]) as runs:
        with pytest.raises(UnknownRun) as caught:
            await VERBS[verb](runs.handle("nobody"))
        helpful(caught.value, "nobody")


@pytest.mark.parametrize("verb", ["view", "pause", "result"])
async def test_an_unknown_run_in_a_store_that_does_not_exist(tmp_path: Path, verb: str) -> None:
    async with Runtime(tmp_path / "none.db", drive=False) as runs:
        with pytest.raises(UnknownRun) as caught:
            await VERBS[verb](runs.handle("r1"))
        helpful(caught.value)


@pytest.mark.parametrize("state", [Other(), {"n": "many"}, {"names": [1]}, 7, None, "text", ["n"]])
async def test_a_wrong_state_starts_no_run(state: Any) -> None:
    async with lab([simple]) as runs:
        for by in (simple, "simple"):
            with pytest.raises(WrongState) as caught:
                await runs.start(by, state)
            helpful(caught.value)
        assert await runs.list() == []


async def test_a_state_of_json_is_taken_by_a_process_without_code_only_if_it_fits_the_stored_schema(tmp_path: Path) -> None:
    async with Runtime(tmp_path / "runs.db", agents=[simple]) as runs:
        await (await runs.start(simple, Plain())).result()
    async with Runtime(tmp_path / "runs.db", drive=False) as runs:
        with pytest.raises(WrongState) as caught:
            await runs.start("simple", {"n": "many"})
        helpful(caught.value, "n")
        assert len(await runs.list()) == 1
        with pytest.raises(UnknownAgent) as unknown:
            await runs.start("nobody", {})
        helpful(unknown.value, "nobody")


async def test_a_state_that_cannot_be_encoded_starts_no_run_and_names_the_field() -> None:
    async with lab([simple]) as runs:
        with pytest.raises((NotStorable, WrongState)) as caught:
            await runs.start(simple, Plain(anything={"deep": [object()]}))
        helpful(caught.value, "anything.deep.0")
        assert await runs.list() == []


async def test_an_edit_that_does_not_validate_changes_nothing() -> None:
    @agent("held")
    async def held(run: Run[Plain]) -> Done[int] | Idle:
        return Done(run.state.n) if run.state.n else Idle()

    async with lab([held]) as runs:
        run = await runs.start(held, Plain(names=["a"]))
        view = await held_by(run, "waiting")
        for patch in ({"n": "many"}, {"names": "a"}, {"names": [1]}, {"n": {"x": 1}}):
            with pytest.raises(WrongState) as caught:
                await run.edit(patch)
            helpful(caught.value, next(iter(patch)))
        for patch in (7, None, ["n"], {"anything": object()}):
            with pytest.raises(StandfastError) as wrong:
                await run.edit(patch)
            helpful(wrong.value)
        assert (await run.view()).seq == view.seq
        assert await run.state() == Plain(names=["a"])
        assert await run.edit({"n": 3})
        assert await run.resume()
        assert await run.result(timeout=10) == 3


async def test_an_edit_with_a_field_that_is_not_there_is_refused() -> None:
    """A misspelt field would otherwise be dropped in silence."""

    @agent("held")
    async def held(run: Run[Plain]) -> Done[int] | Idle:
        return Idle()

    async with lab([held]) as runs:
        run = await runs.start(held, Plain())
        await held_by(run, "waiting")
        with pytest.raises(WrongState) as caught:
            await run.edit({"nn": 3})
        helpful(caught.value, "nn")


async def test_a_run_id_used_again_for_something_else() -> None:
    """Ruling: same agent and state: that run; otherwise an error."""

    @agent("second")
    async def second(run: Run[Plain]) -> Done[int]:
        return Done(0)

    async with lab([simple, second]) as runs:
        run = await runs.start(simple, Plain(n=1), id="r1")
        assert (await runs.start(simple, Plain(n=1), id="r1")).id == "r1"
        for other, state in ((simple, Plain(n=2)), (second, Plain(n=1))):
            with pytest.raises(RunIdTaken) as caught:
                await runs.start(other, state, id="r1")
            helpful(caught.value, "r1")
        assert await run.result() == 2
        assert (await runs.start(simple, Plain(n=1), id="r1")).id == "r1"  # also when it has ended
        assert len(await runs.list()) == 1


def test_two_agents_of_one_name() -> None:
    @agent("simple")
    async def another(run: Run[Plain]) -> Done[int]:
        return Done(0)

    with pytest.raises(DuplicateAgent) as caught:
        Runtime(":memory:", agents=[simple, another])
    helpful(caught.value, "simple")


async def _undo(p: Any) -> None: ...


@pytest.mark.parametrize("effect", ["read", "idempotent"])
def test_undo_on_a_tool_without_effect(effect: Any) -> None:
    with pytest.raises(BadTool) as caught:

        @tool(effect=effect, undo=_undo)
        async def peek() -> None: ...

    helpful(caught.value, "peek", "undo")


@pytest.mark.parametrize(
    "wrong",
    [
        lambda h: h.cancel(undo="some"),
        lambda h: h.redirect("x", when="soon"),
        lambda h: h.redirect("  "),
        lambda h: h.message("x", when="soon"),
        lambda h: h.resolve("c", "yes"),
        lambda h: h.resume(budget={"stepz": 5}),
        lambda h: h.resume(budget=Budget(steps=-1)),
        lambda h: h.message("x", data=object()),
    ],
)
async def test_arguments_of_a_verb_that_make_no_sense(wrong: Any) -> None:
    @agent("held")
    async def held(run: Run[Plain]) -> Done[int] | Idle:
        return Idle()

    async with lab([held]) as runs:
        run = await runs.start(held, Plain())
        view = await held_by(run, "waiting")
        with pytest.raises(StandfastError) as caught:
            await wrong(run)
        helpful(caught.value)
        assert (await run.view()).seq == view.seq


async def test_a_step_that_does_not_exist_is_refused_not_an_error() -> None:
    @agent("held")
    async def held(run: Run[Plain]) -> Done[int] | Idle:
        return Idle()

    async with lab([held]) as runs:
        run = await runs.start(held, Plain())
        await held_by(run, "waiting")
        for to in (99, -1, "no-such-item"):
            assert isinstance(await run.rewind(to), Refused)
            assert isinstance(await run.redirect("x", from_step=to), Refused)
        for step in (99, -1):
            with pytest.raises(Misuse) as caught:
                await run.state(step)
            helpful(caught.value)
            with pytest.raises(Misuse):
                await run.fork(at=step)
        assert isinstance(await run.answer("no-such-call", 1), Refused)


async def test_a_request_id_used_for_two_things() -> None:
    async with lab([simple]) as runs:
        one, two = await runs.start(simple, Plain()), await runs.start(simple, Plain())
        await asyncio.gather(one.result(), two.result())
        await one.pause(request_id="q1")
        with pytest.raises(Misuse) as caught:
            await two.pause(request_id="q1")
        helpful(caught.value, "q1")


async def test_a_runtime_that_is_not_open() -> None:
    runs = Runtime(":memory:", agents=[simple])
    with pytest.raises(Misuse) as caught:
        await runs.start(simple, Plain())
    helpful(caught.value)


# --- in the code of a step: held, nothing lost, resumable after a fix --------------------------------------


async def held_by(run: Any, hold: str) -> RunView:
    async def look_at() -> RunView | None:
        view: RunView = await run.view()
        return view if view.status == "paused" and hold in view.holds else None

    found: RunView = await eventually(look_at)
    return found


async def raises(run: Run[Plain]) -> Any:
    raise ZeroDivisionError("by zero")


async def returns_something_else(run: Run[Plain]) -> Any:
    return "finished"


async def state_that_cannot_be_encoded(run: Run[Plain]) -> Any:
    run.state.anything = {"deep": [1, object()]}


async def state_of_another_type(run: Run[Plain]) -> Any:
    run.state.names = [1, 2]  # type: ignore[list-item]


async def state_replaced(run: Run[Plain]) -> Any:
    run.state = Other()  # type: ignore[assignment]


async def result_of_another_type(run: Run[Plain]) -> Any:
    return Done("many")


async def tool_without_run_call(run: Run[Plain]) -> Any:
    act("forgotten")


async def tool_awaited_directly(run: Run[Plain]) -> Any:
    await act("directly")  # type: ignore[misc]


async def arguments_that_cannot_be_stored(run: Run[Plain]) -> Any:
    await run.call(look(object()))


async def calls_no_call(run: Run[Plain]) -> Any:
    await run.call("act")  # type: ignore[arg-type]


async def result_that_cannot_be_stored(run: Run[Plain]) -> Any:
    await run.call(make_object())


@tool(effect="read")
async def make_object() -> Any:
    return object()


async def one_key_for_two_calls(run: Run[Plain]) -> Any:
    await run.call(look(1), key="k")
    await run.call(look(2), key="k")


async def one_key_twice(run: Run[Plain]) -> Any:
    await run.call(look(1), key="k")
    await run.call(look(1), key="k")


async def emits_no_json(run: Run[Plain]) -> Any:
    run.emit("odd", object())  # type: ignore[arg-type]


async def cancels_itself(run: Run[Plain]) -> Any:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


MISTAKES: list[tuple[Callable[[Run[Plain]], Awaitable[Any]], str, tuple[str, ...]]] = [
    (raises, "ZeroDivisionError", ("by zero",)),
    (returns_something_else, BadReturn.__name__, ("finished",)),
    (state_that_cannot_be_encoded, NotStorable.__name__, ("anything.deep.1",)),
    (state_of_another_type, NotStorable.__name__, ("names.0",)),
    (state_replaced, NotStorable.__name__, ("Other",)),
    (result_of_another_type, NotStorable.__name__, ("int",)),
    (tool_without_run_call, NotCalled.__name__, ("act", "run.call")),
    (tool_awaited_directly, NotCalled.__name__, ("act", "run.call")),
    (arguments_that_cannot_be_stored, NotStorable.__name__, ("look", "what")),
    (calls_no_call, Misuse.__name__, ("act",)),
    (result_that_cannot_be_stored, "CallFailed", ("make_object",)),
    (one_key_for_two_calls, KeyReused.__name__, ("k",)),
    (one_key_twice, KeyReused.__name__, ("k",)),
    (emits_no_json, NotStorable.__name__, ("odd",)),
    (cancels_itself, "", ("cancelled",)),
]


@pytest.mark.parametrize(("mistake", "error", "says"), MISTAKES, ids=[m[0].__name__ for m in MISTAKES])
@pytest.mark.filterwarnings("ignore:.*:UserWarning")
async def test_a_mistake_in_a_step_holds_the_run_and_a_fix_goes_on(mistake: Any, error: str, says: tuple[str, ...]) -> None:
    """R2, R4: the last good snapshot is kept, the traceback too; after the fix a resume goes on from there."""

    @agent("clumsy")
    async def clumsy(run: Run[Plain]) -> Done[int] | None:
        run.state.n += 1
        if run.step == 1 and not fixed:
            return await mistake(run)  # type: ignore[no-any-return]
        return Done(run.state.n) if run.step == 2 else None

    global fixed
    async with lab([clumsy]) as runs:
        run = await runs.start(clumsy, Plain())
        view = await held_by(run, "error")
        assert view.error.startswith(error)
        for word in says:
            assert word in view.error + view.traceback
        assert view.step == 1
        assert (await run.state()).n == 1  # the snapshot before the step that failed
        assert mistake.__name__ in view.traceback or "boundary" in view.traceback or error == NotCalled.__name__
        (need,) = view.needs
        assert need.kind == "error"
        assert need.choices[0].verb == "resume"
        with pytest.raises(RunHeld) as caught:
            await run.result()
        helpful(caught.value)
        assert caught.value.traceback == view.traceback
        fixed = True
        await runs.crash()  # a deploy of the fix is a restart
        assert await run.choose(need, need.choices[0])
        assert await run.result(timeout=10) == 3
        assert (await run.view()).error == ""


async def test_an_error_hint_of_ours_reaches_the_person_who_looks() -> None:
    """STYLE: an error says what to do next; the view keeps it, not only the traceback."""

    @agent("forgetful")
    async def forgetful(run: Run[Plain]) -> Done[int]:
        act("forgotten")
        return Done(0)

    async with lab([forgetful]) as runs:
        run = await runs.start(forgetful, Plain())
        view = await held_by(run, "error")
        assert "await run.call" in view.needs[0].text


async def test_a_call_that_nobody_performed_never_ran() -> None:
    ran: list[str] = []

    @tool
    async def launch() -> None:
        ran.append("launched")

    @agent("forgetful")
    async def forgetful(run: Run[Plain]) -> Done[int]:
        launch()
        return Done(0)

    async with lab([forgetful]) as runs:
        run = await runs.start(forgetful, Plain())
        await held_by(run, "error")
        assert ran == []


async def test_a_tool_called_outside_a_run_is_inert_and_cannot_be_awaited() -> None:
    call = act("outside")
    with pytest.raises(NotCalled) as caught:
        await call  # type: ignore[misc]
    helpful(caught.value, "run.call")


# --- verbs on an ended run: TooLate -------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["done", "cancelled", "failed"])
async def test_verbs_on_an_ended_run_are_too_late(end: str) -> None:
    """R11: losing is a value, and the loser is told how the run ended."""

    @agent("ends", on_error="fail")
    async def ends(run: Run[Plain]) -> Done[int] | Idle:
        if end == "failed":
            raise ValueError("asked for")
        return Done(1) if end == "done" else Idle()

    async with lab([ends]) as runs:
        run = await runs.start(ends, Plain())
        if end == "cancelled":
            await held_by(run, "waiting")
            await run.cancel()
        await eventually(lambda: _status(run, end))
        seq = (await run.view()).seq
        for verb in ("pause", "resume", "redirect", "message", "cancel", "edit", "rewind", "step_once", "approve", "deny", "answer"):
            answer = await VERBS[verb](run)
            assert answer == TooLate(end), verb  # type: ignore[arg-type]
            assert not answer
        assert isinstance(await run.redirect("x", from_step=0), TooLate)
        assert (await run.view()).seq == seq


async def _status(run: Any, status: str) -> bool:
    return bool((await run.view()).status == status)


# --- the store ------------------------------------------------------------------------------------------------


async def open_fails(path: Path, *, drive: bool = True) -> StandfastError:
    with pytest.raises(StandfastError) as caught:
        async with Runtime(path, agents=[simple] if drive else [], drive=drive) as runs:
            await runs.handle("r1").view()
    helpful(caught.value)
    return caught.value


async def a_store(path: Path) -> None:
    async with Runtime(path, agents=[simple]) as runs:
        await (await runs.start(simple, Plain(), id="r1")).result()


@pytest.mark.parametrize("drive", [True, False])
async def test_a_file_that_is_no_store(tmp_path: Path, drive: bool) -> None:
    path = tmp_path / "runs.db"
    path.write_bytes(b"these are my holiday notes, not a database\n" * 200)
    before = path.read_bytes()
    assert isinstance(await open_fails(path, drive=drive), StoreDamaged)
    assert path.read_bytes() == before


@pytest.mark.parametrize("drive", [True, False])
async def test_another_programs_database(tmp_path: Path, drive: bool) -> None:
    path = tmp_path / "runs.db"
    with sqlite3.connect(path) as c:
        c.execute("CREATE TABLE contacts (name TEXT)")
    c.close()
    before = path.read_bytes()
    assert isinstance(await open_fails(path, drive=drive), StoreDamaged)
    assert path.read_bytes() == before


@pytest.mark.parametrize("drive", [True, False])
async def test_a_store_of_a_newer_standfast(tmp_path: Path, drive: bool) -> None:
    path = tmp_path / "runs.db"
    await a_store(path)
    with sqlite3.connect(path) as c:
        c.execute("PRAGMA user_version = 9999")
    c.close()
    before = path.read_bytes()
    assert isinstance(await open_fails(path, drive=drive), StoreTooNew)
    assert path.read_bytes() == before


async def test_a_damaged_store_is_never_no_such_run(tmp_path: Path) -> None:
    """A load error is never "no such run"."""
    path = tmp_path / "runs.db"
    await a_store(path)
    size = path.stat().st_size
    with path.open("r+b") as file:  # everything but the header page is rubbish
        file.seek(4096)
        file.write(os.urandom(size - 4096))
    error = await open_fails(path, drive=False)
    assert not isinstance(error, UnknownRun)


async def test_a_run_row_that_cannot_be_read_is_damage_not_absence(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    await a_store(path)
    with sqlite3.connect(path) as c:
        c.execute("UPDATE runs SET doc = '{\"budget\": 7}'")
    c.close()
    error = await open_fails(path, drive=False)
    assert isinstance(error, StoreDamaged)
    assert "r1" in str(error)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    error = asyncio.run(open_fails(tmp_path / "file" / "runs.db"))
    assert isinstance(error, StoreFailed)


PROGRAM = """
import asyncio, os, resource, signal, sys
from pydantic import BaseModel
from standfast import Done, Run, Runtime, StandfastError, agent, tool

class S(BaseModel):
    n: int = 0
    fat: str = ""

@tool(effect="read")
async def look(n: int) -> int:
    return n

@agent("grower")
async def grower(run: Run[S]) -> Done[int] | None:
    run.state.n = await run.call(look(run.state.n)) + 1
    run.state.fat = "x" * 50_000
    return Done(run.state.n) if run.state.n == 60 else None

async def main() -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    async with Runtime(sys.argv[1], agents=[grower]) as runs:
        run = await runs.start(grower, S(), id="r1")
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, hard))
        try:
            await run.result(timeout=20)
            print("no trouble")
        except StandfastError as error:
            print(type(error).__name__, bool(error.hint), "storage" in str(error) or "storage" in error.view.waiting_for)
        print((await run.view()).waiting_for)
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        for _ in range(2000):
            if (await run.view()).status == "done":
                break
            await asyncio.sleep(0.01)
        print("result", await run.result(timeout=20))

asyncio.run(main())
"""


def test_a_full_disk_is_told_and_the_run_goes_on_when_there_is_room(tmp_path: Path) -> None:
    """Bad input, R2: `result()` says storage, with a hint; nothing acknowledged is lost; no restart is needed."""
    assert resource.RLIMIT_FSIZE
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    argv = [sys.executable, str(program), str(tmp_path / "runs.db")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr
    told, waiting, ended = done.stdout.splitlines()
    assert told == "RunHeld True True"
    assert waiting.startswith("storage")
    assert ended == "result 60"


async def test_a_store_that_becomes_read_only_refuses_verbs_with_a_hint(tmp_path: Path) -> None:
    """A verb that cannot be written is an error with a hint; the run is what it was."""

    @agent("held")
    async def held(run: Run[Plain]) -> Done[int] | Idle:
        return Idle()

    path = tmp_path / "runs.db"
    async with Runtime(path, agents=[held]) as runs:
        run = await runs.start(held, Plain(), id="r1")
        await held_by(run, "waiting")

    def read_only(file: str) -> Any:
        c = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
        c.execute("PRAGMA query_only = 1")
        return c

    async with Runtime(path, drive=False, connect=read_only) as runs:
        run = runs.handle("r1")
        with pytest.raises(StoreFailed) as caught:
            await run.cancel()
        helpful(caught.value)
        assert (await run.view()).status == "paused"
    async with Runtime(path, drive=False) as runs:
        assert isinstance(await runs.handle("r1").cancel(), Accepted)
