"""Bad input from outside: an error with a hint, and nothing is changed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.core.mistakes import Other, Plain, held_by, helpful, simple, waits
from tests.helpers import eventually

from standfast import (
    BadTool,
    Done,
    DuplicateAgent,
    Happened,
    Idle,
    Misuse,
    NotStorable,
    Refused,
    Run,
    RunIdTaken,
    Runtime,
    StandfastError,
    TooLate,
    UnknownAgent,
    UnknownRun,
    WrongState,
    agent,
    tool,
)
from standfast.testing import lab

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
    "resolve": lambda h: h.resolve("c", Happened()),
    "fork": lambda h: h.fork(),
    "view": lambda h: h.view(),
    "state": lambda h: h.state(),
    "settled": lambda h: h.settled(),
    "result": lambda h: h.result(),
    "transcript": lambda h: h.transcript(),
}


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


async def test_a_process_without_code_starts_a_run_only_if_its_state_fits_the_stored_schema(tmp_path: Path) -> None:
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
        assert await run.result(timeout=120) == 3


async def test_an_edit_with_a_field_that_is_not_there_is_refused() -> None:
    """A misspelt field would otherwise be dropped in silence."""
    async with lab([waits]) as runs:
        run = await runs.start(waits, Plain())
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
        lambda h: h.resume(budget={"steps": -1}),
        lambda h: h.message("x", data=object()),
    ],
)
async def test_arguments_of_a_verb_that_make_no_sense(wrong: Any) -> None:
    async with lab([waits]) as runs:
        run = await runs.start(waits, Plain())
        view = await held_by(run, "waiting")
        with pytest.raises(StandfastError) as caught:
            await wrong(run)
        helpful(caught.value)
        assert (await run.view()).seq == view.seq


async def test_a_step_that_does_not_exist_is_refused_not_an_error() -> None:
    async with lab([waits]) as runs:
        run = await runs.start(waits, Plain())
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


@agent("idler")
async def idler(run: Run[Plain]) -> Idle:
    return Idle()


async def test_a_request_id_with_other_arguments_is_another_request() -> None:
    """R22: a message under an id that was used is refused aloud, not swallowed with the answer of the first."""
    async with lab([idler]) as runs:
        run = await runs.start(idler, Plain())
        await run.pause()
        first = await run.message("one", request_id="q1", by="ann")
        assert await run.message("one", request_id="q1", by="ann") == first
        for text, by in (("two", "ann"), ("one", "bob")):
            with pytest.raises(Misuse) as caught:
                await run.message(text, request_id="q1", by=by)
            helpful(caught.value, "q1")
        assert await run.cancel(request_id="q2")
        with pytest.raises(Misuse):
            await run.cancel("all", request_id="q2")
        assert [mail.text for mail in (await run.view()).mail] == ["one"]


async def test_an_empty_message_is_refused_and_one_with_data_alone_is_not() -> None:
    async with lab([idler]) as runs:
        run = await runs.start(idler, Plain())
        await run.pause()
        for empty in ("", "  \n"):
            with pytest.raises(Misuse) as caught:
                await run.message(empty)
            helpful(caught.value)
        assert await run.message("", data={"n": 1})
        assert len((await run.view()).mail) == 1


@pytest.mark.parametrize("bad", ["a/b", ".", "..", "", " ", "a\nb", " a", "x" * 201], ids=repr)
async def test_a_run_id_that_cannot_be_named_in_an_address_is_refused(bad: str) -> None:
    """R6: a run that nobody can name is a run that nobody can stop."""
    async with lab([simple]) as runs:
        with pytest.raises(Misuse) as caught:
            await runs.start(simple, Plain(), id=bad)
        helpful(caught.value)
        assert await runs.list() == []
        one = await runs.start(simple, Plain(), id="ok: 1 ü")
        await one.result()
        with pytest.raises(Misuse):
            await one.fork(at=0, id=bad)


async def test_a_request_id_of_a_start_or_fork_used_for_something_else() -> None:
    """The same request again gives the same run; another one under its id is an error, and makes no run."""
    async with lab([simple]) as runs:
        run = await runs.start(simple, Plain(n=1), request_id="q1")
        await run.result()
        fork = await run.fork(at=0, state=Plain(n=5), request_id="q2")
        assert (await runs.start(simple, Plain(n=1), request_id="q1")).id == run.id
        assert (await runs.start("simple", {"n": 1}, request_id="q1")).id == run.id
        assert (await run.fork(at=0, state=Plain(n=5), request_id="q2")).id == fork.id
        wrong: list[Callable[[], Awaitable[Any]]] = [
            lambda: runs.start(simple, Plain(n=2), request_id="q1"),
            lambda: runs.start(simple, Plain(n=1), id="mine", request_id="q1"),
            lambda: runs.start(simple, Plain(n=1), request_id="q2"),
            lambda: run.fork(at=0, request_id="q1"),
            lambda: run.fork(at=0, request_id="q2"),
            lambda: run.fork(at=0, state=Plain(n=6), request_id="q2"),
            lambda: fork.fork(at=0, state=Plain(n=5), request_id="q2"),
            lambda: run.pause(request_id="q1"),
        ]
        for again in wrong:
            with pytest.raises(Misuse) as caught:
                await again()
            helpful(caught.value, "request id", "q")
        assert len(await runs.list()) == 2


async def test_a_request_id_of_a_start_that_found_its_run_is_used_up_too() -> None:
    async with lab([simple]) as runs:
        await (await runs.start(simple, Plain(), id="r1")).result()
        assert (await runs.start(simple, Plain(), id="r1", request_id="q1")).id == "r1"
        with pytest.raises(Misuse) as caught:
            await runs.start(simple, Plain(n=2), request_id="q1")
        helpful(caught.value, "q1")


async def test_a_process_without_code_forks_only_to_a_state_that_fits_the_stored_schema(tmp_path: Path) -> None:
    async with Runtime(tmp_path / "runs.db", agents=[simple]) as runs:
        run = await runs.start(simple, Plain())
        await run.result()
    async with Runtime(tmp_path / "runs.db", drive=False) as runs:
        for state in ({"n": "many"}, 7, ["n"]):
            with pytest.raises(WrongState) as caught:
                await runs.handle(run.id).fork(at=0, state=state)
            helpful(caught.value)
        assert len(await runs.list()) == 1
        fork = await runs.handle(run.id).fork(at=0, state={"n": 4})
        assert (await fork.state())["n"] == 4


async def test_a_runtime_that_is_not_open() -> None:
    runs = Runtime(":memory:", agents=[simple])
    with pytest.raises(Misuse) as caught:
        await runs.start(simple, Plain())
    helpful(caught.value)


@pytest.mark.parametrize("waiting", [lambda h: h.result(), lambda h: h.settled(), lambda h: anext(h.events(99))])
async def test_waiting_for_a_run_after_the_runtime_was_left_is_an_error(tmp_path: Path, waiting: Any) -> None:
    """Nobody would ever tell of a change; what is known already can still be read."""

    @agent("waiting")
    async def idle(run: Run[Plain]) -> Done[int] | Idle:
        return Idle()

    async with Runtime(tmp_path / "runs.db", agents=[simple]) as runs:
        done = await runs.start(simple, Plain())
        await done.result()
    async with Runtime(tmp_path / "runs.db", agents=[idle]) as driving:
        await held_by(await driving.start(idle, Plain(), id="r1"), "waiting")
    async with Runtime(tmp_path / "runs.db", drive=False) as control:
        run = control.handle("r1")
        await run.message("go on")
    async with asyncio.timeout(120):
        with pytest.raises(Misuse) as caught:
            await waiting(run)
    helpful(caught.value, "not open")
    assert await control.handle(done.id).result() == 1


@pytest.mark.parametrize(
    "looking",
    [lambda runs: runs.handle("r1").view(), lambda runs: runs.list(), lambda runs: runs.halts()],
    ids=["view", "list", "halts"],
)
async def test_a_look_at_what_was_in_memory_says_that_the_runtime_is_not_open(looking: Any) -> None:
    """It is gone for good: no store failed, and nothing has to be repaired."""
    runs = Runtime(":memory:", agents=[simple])
    for left in (False, True):
        with pytest.raises(Misuse) as caught:
            await looking(runs)
        helpful(caught.value, "not open")
        if not left:
            async with runs:
                await (await runs.start(simple, Plain(), id="r1")).result()
                await looking(runs)


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
        looking = {"fork", "view", "state", "settled", "result", "transcript", "resolve"}
        for verb in VERBS.keys() - looking:
            answer = await VERBS[verb](run)
            assert answer == TooLate(end), verb  # type: ignore[arg-type]
            assert not answer
        assert isinstance(await run.redirect("x", from_step=0), TooLate)
        assert (await run.view()).seq == seq


async def _status(run: Any, status: str) -> bool:
    return bool((await run.view()).status == status)
