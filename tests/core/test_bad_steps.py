"""Mistakes in a step: the run keeps its last good snapshot, is held with the traceback, and goes on after a fix."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from tests.core.mistakes import Other, Plain, act, held_by, helpful, look

from standfast import (
    BadReturn,
    Done,
    KeyReused,
    Misuse,
    NotCalled,
    NotStorable,
    Run,
    RunHeld,
    agent,
    tool,
)
from standfast.testing import lab

fixed = False
"""Has somebody mended the code of the run?"""


@pytest.fixture(autouse=True)
async def broken_code() -> AsyncIterator[None]:
    global fixed
    fixed = False
    yield


# --- in the code of a step: held, nothing lost, resumable after a fix --------------------------------------


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
async def test_a_mistake_in_a_step_holds_the_run_and_a_fix_goes_on(mistake: Any, error: str, says: Any) -> None:
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
        assert await run.result(timeout=120) == 3
        assert (await run.view()).error == ""


async def no_annotation(run: Run[Plain]):  # type: ignore[no-untyped-def]  # noqa: ANN201
    return Done("many")


async def no_result(run: Run[Plain]) -> None:
    return Done("many")  # type: ignore[return-value]


async def another_result(run: Run[Plain]) -> Done[int]:
    return Done("many")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("step", "says"),
    [(no_annotation, "is missing"), (no_result, "names no result"), (another_result, "says otherwise")],
)
async def test_a_result_that_the_return_annotation_does_not_name_is_told_so(step: Any, says: str) -> None:
    one: Any = agent("clumsy")(step)
    async with lab([one]) as runs:
        view = await held_by(await runs.start(one, Plain()), "error")
    assert f"the return annotation of its step {says}" in view.error
    assert "write what Done holds: `-> Done[str] | None`" in view.error + view.traceback


async def test_a_result_that_no_annotation_would_help_is_not_told_of_one() -> None:
    @agent("clumsy")
    async def clumsy(run: Run[Plain]) -> Done[Any]:
        return Done(object())

    async with lab([clumsy]) as runs:
        view = await held_by(await runs.start(clumsy, Plain()), "error")
    assert view.error.startswith(NotStorable.__name__) and "annotation" not in view.error


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
