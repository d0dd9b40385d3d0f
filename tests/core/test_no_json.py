"""Values and texts that no store can hold: an error of ours that names the field, and nothing is changed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.core.mistakes import Plain, held_by, helpful, simple, waits

from standfast import Done, Handle, Happened, Misuse, NotStorable, Run, Runtime, StandfastError, WrongState, agent, tool
from standfast.testing import lab

LONE = "caf\udce9"
UNPRINTABLE = 10**5000  # Python refuses to print it, and readers of JSON to read it


def circle() -> dict[str, Any]:
    around: dict[str, Any] = {}
    around["again"] = around
    return around


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


NO_JSON: dict[str, Any] = {
    "object": object(),
    "half a character": LONE,
    "bytes": b"\xff",
    "function": len,
    "circle": circle(),
    "long number": UNPRINTABLE,
    "key that is half a character": {LONE: 1},
    "key that is a long number": {UNPRINTABLE: 1},
    "too deep": deep(210),
}


@pytest.mark.parametrize("what", NO_JSON)
async def test_a_state_that_is_no_json_starts_no_run_and_names_the_field(what: str) -> None:
    async with lab([simple]) as runs:
        bad = NO_JSON[what]
        states = [{"anything": bad}, Plain.model_construct(anything=bad), {"n": 1, "anything": {"inner": [bad]}}]
        for by in (simple, "simple"):
            for state in states:
                with pytest.raises((NotStorable, WrongState)) as caught:
                    await runs.start(by, state)
                helpful(caught.value, "anything")
        assert await runs.list() == []


@pytest.mark.parametrize("what", NO_JSON)
async def test_a_process_without_code_names_the_field_too(what: str, tmp_path: Any) -> None:
    async with Runtime(tmp_path / "runs.db", agents=[simple]) as runs:
        await (await runs.start(simple, Plain())).result()
    async with Runtime(tmp_path / "runs.db", drive=False) as runs:
        with pytest.raises((NotStorable, WrongState)) as caught:
            await runs.start("simple", {"anything": NO_JSON[what]})
        helpful(caught.value, "anything")


VERBS: dict[str, Callable[[Handle[Any], Any], Awaitable[Any]]] = {
    "message": lambda run, bad: run.message("x", data={"field": bad}),
    "message asked once": lambda run, bad: run.message("x", data={"field": bad}, request_id="once"),
    "edit": lambda run, bad: run.edit({"anything": bad}),
    "fork": lambda run, bad: run.fork(state={"anything": bad}),
    "typed fork": lambda run, bad: run.fork(state=Plain.model_construct(anything=bad)),
    "resolve": lambda run, bad: run.resolve("c", Happened(bad)),
    "resolve asked once": lambda run, bad: run.resolve("c", Happened(bad), request_id="once"),
    "answer": lambda run, bad: run.answer("c", bad),
    "answer asked once": lambda run, bad: run.answer("c", bad, request_id="once"),
    "approve": lambda run, bad: run.approve("c", {"x": bad}),
    "perform": lambda run, bad: run.perform("look", {"what": bad}),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("what", NO_JSON)
async def test_a_verb_with_a_value_that_is_no_json_changes_nothing(verb: str, what: str) -> None:
    async with lab([waits]) as runs:
        run = await runs.start(waits, Plain())
        view = await held_by(run, "waiting")
        with pytest.raises((NotStorable, WrongState)) as caught:
            await VERBS[verb](run, NO_JSON[what])
        helpful(caught.value)
        assert (await run.view()).seq == view.seq
        assert [one.id for one in await runs.list()] == [run.id]


TEXTS: dict[str, Callable[[Runtime, Handle[Any]], Awaitable[Any]]] = {
    "view": lambda runs, _: runs.handle(LONE).view(),
    "pause": lambda runs, _: runs.handle(LONE).pause(),
    "fork": lambda runs, _: runs.handle(LONE).fork(),
    "events": lambda runs, _: anext(runs.handle(LONE).events()),
    "list by agent": lambda runs, _: runs.list(agent=LONE),
    "list by label": lambda runs, _: runs.list(labels={"team": LONE}),
    "list by a label's name": lambda runs, _: runs.list(labels={LONE: "team"}),
    "list before": lambda runs, _: runs.list(before=LONE),
    "events of all": lambda runs, _: anext(runs.events(labels={"team": LONE})),
    "start by name": lambda runs, _: runs.start(LONE, {}),
    "forget": lambda runs, _: runs.forget(LONE),
    "answer": lambda _, run: run.answer(LONE, 1),
    "approve": lambda _, run: run.approve(LONE),
    "deny": lambda _, run: run.deny(LONE, "no"),
    "resolve": lambda _, run: run.resolve(LONE, Happened()),
}


@pytest.mark.parametrize("where", TEXTS)
async def test_a_text_with_half_a_character_is_misuse(where: str) -> None:
    async with lab([waits]) as runs:
        run = await runs.start(waits, Plain())
        view = await held_by(run, "waiting")
        with pytest.raises(Misuse) as caught:
            await TEXTS[where](runs, run)
        helpful(caught.value)
        assert (await run.view()).seq == view.seq


class Given:
    value: Any = None


@tool
async def writes() -> dict[str, Any]:
    return {"field": Given.value}


@tool(effect="read")
async def reads() -> dict[str, Any]:
    return {"field": Given.value}


@tool
async def counts() -> int:
    return UNPRINTABLE


@agent("returns")
async def returns(run: Run[Plain]) -> Done[dict[str, Any]]:
    if "write" in run.state.names:
        await run.call(writes())
    if "read" in run.state.names:
        await run.call(reads())
    if "count" in run.state.names:
        await run.call(counts())
    return Done({"field": Given.value})


@pytest.mark.parametrize("what", NO_JSON)
@pytest.mark.parametrize("how", ["write", "read", "done"])
async def test_a_result_that_is_no_json_holds_the_run_which_stays_readable(how: str, what: str) -> None:
    Given.value = NO_JSON[what]
    async with lab([returns]) as runs:
        run = await runs.start(returns, Plain(names=[how]))
        view = await held_by(run, "error")
        assert "NotStorable" in view.error or "cannot be stored" in view.error, view.error
        assert "field" in view.error
        assert await run.cancel()
        assert (await run.settled()).status == "cancelled"


async def test_a_plain_number_that_nobody_can_read_is_named_as_the_tools_result() -> None:
    async with lab([returns]) as runs:
        run = await runs.start(returns, Plain(names=["count"]))
        view = await held_by(run, "error")
        assert "the result of counts cannot be stored" in view.error


@agent("deeper")
async def deeper(run: Run[Plain]) -> Done[Any]:
    return Done(deep(run.state.n))


@pytest.mark.parametrize("levels", [180, 189, 195, 199, 200])
async def test_a_run_with_a_deep_result_can_be_read_or_is_held(levels: int) -> None:
    """A value stands inside rows and events, which are read by the same reader."""
    async with lab([deeper]) as runs:
        run = await runs.start(deeper, Plain(n=levels))
        try:
            assert await run.result(timeout=120) == deep(levels)
        except StandfastError as error:
            assert "cannot be stored" in str(error)
        assert [event async for event in run.events()] if (await run.view()).status == "done" else True
