"""Calls that ask first: approved, changed, denied (R14)."""

from __future__ import annotations

import pytest
from tests.helpers import eventually, held
from tests.questions.world import Note, a_world, dict_spender, quiet, sender, spender

from standfast import Choice, NotHappened, Refused, WrongState


async def test_an_irreversible_call_asks_first_and_names_itself() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(sender, Note())
        (need,) = (await held(run, "asks")).needs
        assert need.kind == "approval"
        assert "send" in need.text and "send(" in need.about and "ann" in need.about
        assert world.sent == []
        assert isinstance(await run.resume(), Refused)
        assert await run.approve(need.call)
        assert await run.result(timeout=120) == "sent to ann"


async def test_an_irreversible_call_told_otherwise_does_not_ask() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(quiet, Note())
        await run.result(timeout=120)
        assert world.sent == [("ann", "")]


async def test_a_rule_on_the_arguments_decides_and_words_the_question() -> None:
    async with a_world() as (runs, world):
        small = await runs.start(spender, Note(amount=5))
        assert await small.result(timeout=120) == "paid 5"
        big = await runs.start(spender, Note(amount=50))
        (need,) = (await held(big, "asks")).needs
        assert need.text == "Really pay 50?", "the question as it was given"
        assert need.about == 'spend_money({"amount":50})' and need.about in need.words
        assert world.paid == [5]
        await big.approve(need.call)
        assert await big.result(timeout=120) == "paid 50"


async def test_a_rule_may_take_the_arguments_as_one() -> None:
    async with a_world() as (runs, _):
        small = await runs.start(dict_spender, Note(amount=5))
        assert await small.result(timeout=120) == "paid 5"
        big = await runs.start(dict_spender, Note(amount=50))
        await held(big, "asks")


async def test_approve_with_changed_arguments_performs_those() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(sender, Note())
        (need,) = (await held(run, "asks")).needs
        assert await run.approve(need.call, {"to": "bob"}, by="eve")
        assert await run.result(timeout=120) == "sent to bob"
        assert world.sent == [("bob", "hello")]


@pytest.mark.parametrize("args", [{"to": 7}, {"nobody": "x"}])
async def test_approve_with_arguments_that_do_not_fit_changes_nothing(args: dict[str, object]) -> None:
    async with a_world() as (runs, world):
        run = await runs.start(sender, Note())
        (need,) = (await held(run, "asks")).needs
        with pytest.raises(WrongState):
            await run.approve(need.call, args)
        assert (await held(run, "asks")).needs[0].id == need.id
        assert world.sent == []


async def test_deny_raises_in_the_step_and_the_call_is_not_executed() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(sender, Note())
        (need,) = (await held(run, "asks")).needs
        assert await run.deny(need.call, "not to her")
        assert "not to her" in await run.result(timeout=120)
        assert world.sent == []
        assert world.paid == []


@pytest.mark.parametrize("label", ["let it pass", "let it pass with these arguments (change them)", "refuse it"])
async def test_every_choice_of_an_approval_can_be_sent_back_as_it_is(label: str) -> None:
    async with a_world() as (runs, world):
        run = await runs.start(sender, Note())
        (need,) = (await held(run, "asks")).needs
        choice = next(c for c in need.choices if isinstance(c, Choice) and c.label == label)
        assert await run.choose(need, choice, by="ann")
        result = await run.result(timeout=120)
        assert (result == "sent to ann") is (world.sent == [("ann", "hello")])
        assert result.startswith("not executed") is (label == "refuse it")


async def test_an_approval_is_asked_once_and_answered_once() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(sender, Note())
        (need,) = (await held(run, "asks")).needs
        assert await run.approve(need.call)
        assert isinstance(await run.deny(need.call, "too late"), Refused)
        await run.result(timeout=120)
        assert len(world.sent) == 1


async def test_an_approval_survives_a_crash_before_the_call_begins() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(spender, Note(amount=50))
        (need,) = (await held(run, "asks")).needs
        await run.pause()
        assert await run.approve(need.call, {"amount": 40})
        await runs.crash()
        await held(run, "user")
        await run.resume()
        assert await run.result(timeout=120) == "paid 40"
        assert world.keys == [need.call]


async def test_changed_arguments_stay_when_a_doubt_is_resolved_as_not_happened() -> None:
    """R15: the same key never stands for other arguments."""
    async with a_world() as (runs, world):
        run = await runs.start(spender, Note(amount=50))
        (need,) = (await held(run, "asks")).needs
        assert await run.approve(need.call, {"amount": 40})
        await runs.until(run, call="spend_money", point="performed")
        await runs.crash()
        (doubt,) = (await held(run, "in_doubt")).needs
        assert "40" in doubt.text
        assert await run.resolve(doubt.call, NotHappened())
        assert await run.result(timeout=120) == "paid 40"
        assert world.paid == [40, 40]


async def test_pausing_keeps_the_question_and_the_answer_waits_for_resume() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(sender, Note())
        (need,) = (await held(run, "asks")).needs
        await run.pause()
        await held(run, "asks", "user")
        await run.approve(need.call)
        await held(run, "user")
        assert world.sent == []
        await run.resume()
        assert await run.result(timeout=120) == "sent to ann"


async def test_cancel_withdraws_the_question() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(sender, Note())
        (need,) = (await held(run, "asks")).needs
        await run.cancel()
        receipt = await run.settled(10)
        assert receipt.residue == ()
        view = await run.view()
        assert view.needs == []
        assert not await run.approve(need.call)
        await eventually(lambda: world.sent == [])
