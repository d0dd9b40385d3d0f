"""The words of an answer say what they mean: nothing twice, nothing of something else, nothing cut off."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.core.mistakes import Plain, held_by, simple
from tests.core.sending import paused_before_step_one, sender
from tests.helpers import eventually

from standfast import Accepted, Budget, Done, Idle, Refused, Run, WrongState, agent, ask, child, tool
from standfast.testing import lab

pytestmark = pytest.mark.usefixtures("fresh_worlds")


@agent("waits")
async def waits(run: Run[Plain]) -> Done[int] | Idle:
    return Idle()


async def test_a_refusal_says_only_why() -> None:
    async with lab([simple, waits]) as runs:
        run = await runs.start(waits, Plain())
        await held_by(run, "waiting")
        await run.message("go on")
        answers: list[Any] = []
        for _ in range(20):
            answers += [await run.edit({"n": 1}), await run.step_once(), await run.answer("c", 1)]
        refused = [answer for answer in answers if isinstance(answer, Refused)]
        assert refused
        assert not [answer for answer in refused if "Refused" in answer.why]


async def test_a_wrong_answer_is_told_as_an_answer_and_wrong_arguments_as_arguments() -> None:
    @tool(effect="write", confirm=True)
    async def pay(amount: int) -> int:
        return amount

    @agent("asks")
    async def asks(run: Run[Plain]) -> Done[int]:
        first = await run.call(ask("how many?", type=int))
        return Done(first + await run.call(pay(1)))

    async with lab([asks]) as runs:
        run = await runs.start(asks, Plain())
        (question,) = (await held_by(run, "asks")).needs
        with pytest.raises(WrongState, match="the answer does not fit"):
            await run.answer(question.id, "many")
        assert await run.answer(question.id, 2)

        async def approval() -> Any:
            return [need for need in (await run.view()).needs if need.kind == "approval"]

        (need,) = await eventually(approval)
        with pytest.raises(WrongState, match="an argument of pay does not fit at amount"):
            await run.approve(need.id, args={"amount": "much"})
        assert await run.approve(need.id)
        assert await run.result(timeout=120) == 3


async def test_the_choice_for_a_run_that_repeats_itself_allows_more_repeats() -> None:
    @tool(effect="read")
    async def poll() -> str:
        return "nothing"

    @agent("poller")
    async def poller(run: Run[Plain]) -> None:
        await run.call(poll())

    async with lab([poller]) as runs:
        run = await runs.start(poller, Plain(), budget=Budget(repeats=3))
        (need,) = (await held_by(run, "loop")).needs
        assert await run.choose(need, need.choices[0])
        assert (await run.view()).budget.repeats == 6


async def test_a_redirect_is_told_whole_after_an_edit() -> None:
    async with lab([sender]) as runs:
        run = await paused_before_step_one(runs)
        assert await run.redirect("first this; then that", when="next")
        assert await run.edit({"items": ["a", "z"]})
        changed = (await run.view()).changed
        assert "items" in changed
        assert "redirect: 'first this; then that'" in changed


async def test_calls_in_flight_are_named_with_their_run_in_every_answer() -> None:
    go = asyncio.Event()

    @tool
    async def slow() -> None:
        await go.wait()

    @agent("busy")
    async def busy(run: Run[Plain]) -> Done[int]:
        await run.call(slow())
        return Done(1)

    async with lab([busy]) as runs:
        run = await runs.start(busy, Plain())
        await runs.until(run, call="slow", point="admitted")
        answers = [
            await run.message("x"),
            await run.pause(),
            await run.pause(),
            await run.resume(),
            await run.rewind(0),
            await run.cancel(),
            await run.cancel(),
        ]
        named = [ref for answer in answers if isinstance(answer, Accepted) for ref in answer.in_flight]
        go.set()
        assert len(named) >= 6
        assert {ref.run for ref in named} == {run.id}
        await run.settled(timeout=120)


async def test_a_cut_child_call_is_aborted_however_it_was_seen_to_end() -> None:
    @tool
    async def slow() -> None:
        await asyncio.sleep(3600)

    @agent("kid")
    async def kid(run: Run[Plain]) -> Done[int]:
        await run.call(slow())
        return Done(1)

    @agent("parent")
    async def parent(run: Run[Plain]) -> Done[int]:
        return Done(await run.call(child(kid, Plain())))

    async with lab([parent, kid]) as runs:
        for _ in range(5):
            run = await runs.start(parent, Plain())

            async def flying() -> bool:
                return any(view.in_flight for view in await runs.list(agent="kid", status="running"))

            await eventually(flying)
            assert await run.cancel()
            receipt = await run.settled(timeout=120)
            assert {f.call.tool: f.outcome for f in receipt.in_flight}["child"] == "aborted"
