"""Questions of the run itself: typed, timed, beside other work (R14)."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest import mock

import pytest
from tests.helpers import eventually, held
from tests.questions.world import Note, a_world, asker, beside, busy, impatient, juggler, patient

from standfast import Misuse, Refused, WrongState, ask, supervising
from standfast.commit import StepCommit
from standfast.events import Answered


async def test_answers_are_typed_and_the_run_goes_on_by_itself() -> None:
    async with a_world() as (runs, _):
        run = await runs.start(asker, Note())
        (need,) = (await held(run, "asks")).needs
        assert (need.kind, need.text, need.choices) == ("question", "Which colour?", ("red", "blue"))
        assert await run.choose(need, need.choices[1])
        (need,) = await eventually(lambda: _asked(run, "How many?"))
        assert await run.answer(need.call, 3)
        assert await run.result(timeout=120) == "3 blue"


async def test_an_answer_of_another_type_or_beside_the_options_leaves_the_question() -> None:
    async with a_world() as (runs, _):
        run = await runs.start(asker, Note())
        (need,) = (await held(run, "asks")).needs
        for wrong in ("green", 7):
            with pytest.raises(WrongState):
                await run.answer(need.call, wrong)
        assert isinstance(await run.approve(need.call), Refused)
        assert isinstance(await run.answer("ask-none", "red"), Refused)
        await run.answer(need.call, "red")
        (need,) = await eventually(lambda: _asked(run, "How many?"))
        with pytest.raises(WrongState):
            await run.answer(need.call, "three")
        await run.answer(need.call, 3)
        assert await run.result(timeout=120) == "3 red"


async def test_when_the_time_is_up_the_default_is_given_or_the_call_times_out() -> None:
    async with a_world() as (runs, _):
        run = await runs.start(patient, Note())
        await held(run, "asks")
        await runs.clock.advance(61)
        await eventually(lambda: _asked(run, "Sure?"))
        await runs.clock.advance(61)
        assert await run.result(timeout=120) == "red, CallTimedOut"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"timeout": 60, "default": None}, r"ask\(default=None\) "),
        ({"timeout": 60, "default": 7}, r"ask\(default=7\) "),
        ({"type": int, "timeout": 60, "default": "x"}, r"ask\(default='x'\) "),
        ({"options": ["a", "b"], "timeout": 60, "default": "zz"}, r"ask\(default='zz'\) is not one of the options"),
        ({"options": ["a", 7]}, r"ask\(options=\[..., 7\]\) "),
        ({"default": "a"}, "needs a timeout"),
    ],
    ids=str,
)
def test_a_default_that_could_not_be_an_answer_is_refused_before_anybody_is_asked(given: Any, says: str) -> None:
    """R14, bad input: what a person may not answer is not given in their place."""
    with pytest.raises(Misuse, match=says) as caught:
        ask("Which?", **given)
    assert caught.value.hint


async def test_an_answer_in_time_is_taken_instead_of_the_default() -> None:
    async with a_world() as (runs, _):
        run = await runs.start(patient, Note())
        (need,) = (await held(run, "asks")).needs
        await runs.clock.advance(59)
        await run.answer(need.call, "blue")
        (need,) = await eventually(lambda: _asked(run, "Sure?"))
        await run.answer(need.call, True)
        assert await run.result(timeout=120) == "blue, answered"


async def test_the_time_limit_survives_a_crash() -> None:
    async with a_world() as (runs, _):
        run = await runs.start(patient, Note())
        await held(run, "asks")
        await runs.clock.advance(40)
        await runs.crash()
        await runs.clock.advance(21)
        await eventually(lambda: _asked(run, "Sure?"))
        assert (await run.view()).status in ("running", "pausing", "paused")


async def test_siblings_of_a_question_go_on_and_the_run_waits_once_only_questions_are_left() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(juggler, Note())
        await runs.until(run, call="look")
        await eventually(lambda: _kinds(run, {"question", "approval"}))
        assert (await run.view()).status == "running"
        assert [v.id for v in await runs.list(needs=True)] == [run.id]
        world.open.set()
        view = await held(run, "asks")
        assert runs.performed["look"] == 1
        needs = {need.kind: need for need in view.needs}
        assert await run.approve(needs["approval"].call)
        assert (await run.view()).status == "paused"
        assert await run.answer(needs["question"].call, "yes")
        assert await run.result(timeout=120) == "yes, saw a, sent to ann"
        assert runs.performed["look"] == 1


async def test_a_question_answered_while_siblings_run_needs_no_pause() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(juggler, Note())
        await runs.until(run, call="look")
        needs = await eventually(lambda: _kinds(run, {"question", "approval"}))
        assert await run.answer(needs["question"].call, "no")
        assert await run.approve(needs["approval"].call)
        await eventually(lambda: world.sent)
        assert (await run.view()).status == "running"
        assert await runs.list(needs=True) == []
        world.open.set()
        assert await run.result(timeout=120) == "no, saw a, sent to ann"


async def test_a_run_with_an_open_question_stays_listed_whatever_it_writes_beside_it() -> None:
    """R26: the write is counted in the run's document, which says nothing of the question."""
    # On a busy machine more time than usual passes between two calls: it is not held for its question meanwhile.
    with mock.patch.object(supervising, "IDLE_QUESTIONS", 3.0):
        await _stays_listed()


async def _stays_listed() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(busy, Note())
        await runs.until(run, call="look")
        needs = await eventually(lambda: _kinds(run, {"question"}))
        assert [v.id for v in await runs.list(needs=True)] == [run.id]
        world.open.set()
        await runs.until(run, call="look_late")
        assert world.paid
        view = await run.view()
        assert (view.status, [need.kind for need in view.needs]) == ("running", ["question"])
        assert [v.id for v in await runs.list(needs=True)] == [run.id]
        assert await runs.list(needs=False) == []
        assert await run.answer(needs["question"].call, "yes")
        assert await runs.list(needs=True) == []
        world.late.set()
        assert await run.result(timeout=120) == "yes, paid 5"


async def _asked(run: object, text: str) -> object:
    needs = (await run.view()).needs  # type: ignore[attr-defined]
    return needs if needs and needs[0].text == text else None


async def _kinds(run: object, kinds: set[str]) -> object:
    needs = {need.kind: need for need in (await run.view()).needs}  # type: ignore[attr-defined]
    return needs if set(needs) == kinds else None


@pytest.mark.parametrize("slow", ["admission", "result"])
async def test_a_sibling_whose_call_waits_for_the_store_is_not_idle(monkeypatch: pytest.MonkeyPatch, slow: str) -> None:
    """However slow the disk is: the run is held for its question when the sibling has done all that it had to do."""
    told = StepCommit.committed

    def tell_late(self: StepCommit) -> None:
        tools = [a.ref.tool for a in self.admissions] if slow == "admission" else [e.id[:12] for e in self.ended]
        if "send_unasked" not in tools:
            told(self)
            return

        async def after_many_turns() -> None:
            for _ in range(200):
                await asyncio.sleep(0)
            told(self)

        late.append(asyncio.ensure_future(after_many_turns()))

    late: list[asyncio.Future[None]] = []
    monkeypatch.setattr(StepCommit, "committed", tell_late)
    monkeypatch.setattr(supervising, "IDLE_QUESTIONS", 0)  # time plays no part
    async with a_world() as (runs, world):
        run = await runs.start(beside, Note())
        await eventually(lambda: _asked(run, "Which?"))
        world.open.set()
        (need,) = (await held(run, "asks")).needs
        assert late and [to for to, _ in world.sent] == ["ann", "bob"]
        assert await run.answer(need.call, "this")
        assert await run.result(timeout=120) == "this"


async def test_a_question_that_nobody_waits_for_any_more_is_withdrawn_when_the_step_ends() -> None:
    """What is shown as needed can be answered."""
    async with a_world() as (runs, world):
        run = await runs.start(impatient, Note())
        await eventually(lambda: _asked(run, "Which?"))
        world.open.set()
        assert await run.result(timeout=120) == "unasked"
        assert (await run.view()).needs == []
        assert [e.answer async for e in run.events() if isinstance(e, Answered)] == ["withdrawn"]
