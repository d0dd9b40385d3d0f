"""A redirect that changes what a step asks makes old questions and approvals void (R5, R14)."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel
from tests.helpers import eventually, held
from tests.questions.world import Note, World, asker, look, send

from standfast import CallDenied, Choice, Done, Handle, Refused, Run, agent, tool, use
from standfast.events import Answered
from standfast.records import Need
from standfast.testing import lab


class Letter(BaseModel):
    keyed: bool = False


@agent("writer", tools=[send, look])
async def writer(run: Run[Letter]) -> Done[str]:
    to = (run.take_redirects() or ["ann"])[-1]
    key = "the letter" if run.state.keyed else None
    return Done(await run.call(send(to, "hello"), key=key))


@tool(effect="read")
async def work() -> str:
    await use(World).open.wait()
    return "worked"


@agent("busy", tools=[send, work])
async def busy(run: Run[Letter]) -> Done[str]:
    redirects = run.take_redirects()
    if redirects:
        return Done(await run.call(send(redirects[-1], "hello")))
    return Done(str(await run.call_all([send("ann", "hello"), work()])))


async def test_an_approval_does_not_count_for_the_arguments_of_a_redirect() -> None:
    for keyed in (False, True):
        world = World()
        async with lab([writer], provide={World: world}) as runs:
            run = await runs.start(writer, Letter(keyed=keyed))
            (old,) = (await held(run, "asks")).needs
            await run.pause()
            assert await run.redirect("bob")
            assert await run.approve(old.call)
            await run.resume()
            (new,) = (await held(run, "asks")).needs
            assert "bob" in new.words
            assert world.sent == []
            assert await run.approve(new.call)
            assert await run.result(timeout=120) == "sent to bob"
            assert world.sent == [("bob", "hello")]


class Addressed(BaseModel):
    to: str = "ann"


@agent("addresser", tools=[send])
async def addresser(run: Run[Addressed]) -> Done[str]:
    return Done(await run.call(send(run.state.to, "hello")))


async def test_an_edit_that_changes_what_a_step_asks_makes_the_old_question_void() -> None:
    """R14, R29: the person has answered by changing what it was about."""
    world = World()
    async with lab([addresser], provide={World: world}) as runs:
        run = await runs.start(addresser, Addressed())
        (old,) = (await held(run, "asks")).needs
        assert "ann" in old.words
        assert await run.edit({"to": "bob"})
        assert await run.resume()
        (new,) = (await held(run, "asks")).needs
        assert "bob" in new.words
        assert isinstance(await run.approve(old.call), Refused)
        assert await run.approve(new.call)
        assert await run.result(timeout=120) == "sent to bob"
        assert world.sent == [("bob", "hello")]


async def test_a_question_that_the_new_attempt_does_not_ask_is_withdrawn() -> None:
    world = World()
    async with lab([busy], provide={World: world}) as runs:
        run = await runs.start(busy, Letter())
        await runs.until(run, call="work")
        await eventually(lambda: _needs(run))
        await run.redirect("bob", by="eve")
        (new,) = (await held(run, "asks")).needs
        assert "bob" in new.words
        assert await run.approve(new.call)
        assert await run.result(timeout=120) == "sent to bob"
        assert world.sent == [("bob", "hello")]
        assert (await run.view()).needs == []


async def _needs(run: object) -> object:
    return (await run.view()).needs  # type: ignore[attr-defined]


async def test_a_redirect_for_now_can_be_read_without_an_answer_to_the_old_question() -> None:
    """R5, R14: the question is withdrawn when the run is resumed; what the new attempt asks must be answered."""
    world = World()
    async with lab([writer], provide={World: world}) as runs:
        run = await runs.start(writer, Letter())
        (old,) = (await held(run, "asks")).needs
        assert isinstance(await run.resume(), Refused)
        assert await run.redirect("bob")
        assert await run.resume()
        new = await _asked(run, "bob")
        assert isinstance(await run.approve(old.call), Refused)
        assert isinstance(await run.resume(), Refused)
        assert await run.approve(new.call)
        assert await run.result(timeout=120) == "sent to bob"
        assert world.sent == [("bob", "hello")]


async def test_a_redirect_says_what_it_waits_for_and_a_refused_resume_offers_the_answers() -> None:
    """R5, R14, R19: what is told about mail is true, and what is offered can be sent back as it is."""
    world = World()
    async with lab([writer, asker], provide={World: world}) as runs:
        run = await runs.start(writer, Letter())
        (need,) = (await held(run, "asks")).needs
        told = await run.redirect("bob", when="next")
        assert told and told.note == "read when what it asks is answered"
        refused = await run.resume()
        assert isinstance(refused, Refused)
        assert [(c.verb, c.args.get("call_id")) for c in refused.choices] == [
            *(("approve", need.call), ("deny", need.call)),
            ("cancel", None),
        ]
        await run.pause()
        told = await run.message("by the way")
        assert told and told.note == "read when what it asks is answered and the run is resumed"
        told = await run.redirect("eve")  # for now: the question is void
        assert told and told.note == "read when the run is resumed"
        assert (await run.view()).consequences.pause == "goes on at step 0"

        run = await runs.start(asker, Note())
        (need,) = (await held(run, "asks")).needs
        refused = await run.resume()
        assert isinstance(refused, Refused)
        assert [(c.verb, c.args.get("value")) for c in refused.choices] == [
            *(("answer", "red"), ("answer", "blue")),
            ("cancel", None),
        ]
        assert await run.choose(need, refused.choices[1])
        (need,) = (await _asked(run, "How many?"),)
        refused = await run.resume()
        assert isinstance(refused, Refused)
        assert refused.choices[0] == Choice("answer", {"call_id": need.call}, "answer: How many?")


async def test_a_question_that_a_redirected_step_asks_again_is_asked_again() -> None:
    """R14: nothing passes unasked."""
    world = World()
    async with lab([writer], provide={World: world}) as runs:
        run = await runs.start(writer, Letter())
        await held(run, "asks")
        assert await run.redirect("ann")
        assert await run.resume()
        need = await _asked(run, "ann")
        assert world.sent == []
        assert await run.approve(need.call)
        assert await run.result(timeout=120) == "sent to ann"


@pytest.mark.parametrize("say", ["approve", "deny"])
async def test_what_was_said_about_a_call_is_void_once_a_redirected_step_did_not_ask_for_it(say: str) -> None:
    """R14: when a later redirect brings the call back, it is asked about again."""
    world = World()
    async with lab([writer], provide={World: world}) as runs:
        run = await runs.start(writer, Letter())
        (ann,) = (await held(run, "asks")).needs
        await run.pause()
        assert await getattr(run, say)(ann.call)
        assert await run.redirect("eve")
        assert await run.resume()
        await _asked(run, "eve")
        assert await run.redirect("ann")
        assert await run.resume()
        again = await _asked(run, "ann")
        assert world.sent == []
        assert await run.approve(again.call)
        assert await run.result(timeout=120) == "sent to ann"
        assert world.sent == [("ann", "hello")]


async def test_an_approval_stands_if_the_redirected_step_asks_for_the_same() -> None:
    world = World()
    async with lab([writer], provide={World: world}) as runs:
        run = await runs.start(writer, Letter())
        (ann,) = (await held(run, "asks")).needs
        await run.pause()
        assert await run.approve(ann.call)
        assert await run.redirect("ann")
        assert await run.resume()
        assert await run.result(timeout=120) == "sent to ann"


async def _asked(run: Handle[Any], about: str) -> Need:
    async def look() -> Need | None:
        view = await run.view()
        if view.status != "paused" or view.holds != ("asks",):  # it may have asked, and be pausing still
            return None
        return next((n for n in view.needs if about in (n.about or n.text)), None)

    found: Need = await eventually(look)
    return found


@agent("heeds", tools=[send])
async def heeds(run: Run[Letter]) -> Done[str]:
    if run.take_messages():
        return Done("nothing was sent")
    try:
        return Done(await run.call(send("ann", "hello")))
    except CallDenied:
        return Done("denied")


@pytest.mark.parametrize("said", ["approved", "denied"])
async def test_a_decision_about_a_call_that_the_step_no_longer_asks_for_has_a_fate_in_the_record(said: str) -> None:
    """R40: whoever has allowed a call sees that it was not performed, and why."""
    world = World()
    async with lab([heeds], provide={World: world}) as runs:
        run = await runs.start(heeds, Letter())
        [need] = (await held(run, "asks")).needs
        await run.pause()
        call = str(need.call)
        assert await (run.approve(call) if said == "approved" else run.deny(call, "no"))
        await run.message("never mind", when="now")
        await run.resume()
        assert await run.result(timeout=120) == "nothing was sent"
        answered = [e async for e in run.events() if isinstance(e, Answered)]
        assert [e.answer for e in answered] == [said, "withdrawn"]
        assert answered[1].call == call
        assert answered[1].reason == f"it was {said}, but the step no longer asks for it: it was not performed"
        assert world.sent == []
