"""A redirect that changes what a step asks makes old questions and approvals void (R5, R14)."""

from __future__ import annotations

from pydantic import BaseModel
from tests.helpers import eventually, held
from tests.questions.world import World, look, send

from standfast import Done, Run, agent, tool, use
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
            assert "bob" in new.text
            assert world.sent == []
            assert await run.approve(new.call)
            assert await run.result(timeout=10) == "sent to bob"
            assert world.sent == [("bob", "hello")]


async def test_a_question_that_the_new_attempt_does_not_ask_is_withdrawn() -> None:
    world = World()
    async with lab([busy], provide={World: world}) as runs:
        run = await runs.start(busy, Letter())
        await runs.until(run, call="work")
        await eventually(lambda: _needs(run))
        await run.redirect("bob", by="eve")
        (new,) = (await held(run, "asks")).needs
        assert "bob" in new.text
        assert await run.approve(new.call)
        assert await run.result(timeout=10) == "sent to bob"
        assert world.sent == [("bob", "hello")]
        assert (await run.view()).needs == ()


async def _needs(run: object) -> object:
    return (await run.view()).needs  # type: ignore[attr-defined]
