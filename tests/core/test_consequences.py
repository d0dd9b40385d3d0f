"""The view says what each control would do, from the ledger: it promises no undo that there is not (R25, R8)."""

import asyncio
from typing import Any

from pydantic import BaseModel
from tests.helpers import eventually, held

from standfast import Consequences, Done, Handle, Performed, Run, Runtime, RunView, agent, ask, child, tool
from standfast.testing import lab

LIMIT = 20.0  # seconds; only a hang gets there


class Nothing(BaseModel):
    """The state of agents that need none."""


doors: dict[str, asyncio.Event] = {}


async def wait() -> None:
    """Until the test has seen what it wanted to see."""
    await doors["door"].wait()


async def take_back(_: Performed[None, None]) -> None:
    return


@tool(effect="read")
async def look() -> None:
    await wait()


@tool(effect="write")
async def scribble() -> None:
    await wait()


@tool(effect="irreversible", confirm=False)
async def send() -> None:
    await wait()


@tool(undo=take_back)
async def save() -> None:
    await wait()


@tool(undo=take_back, settles="run")
async def draft(n: int) -> None:
    return


@tool(undo=take_back)
async def note() -> None:
    return


@tool(effect="write")
async def post() -> None:
    return


def doing(name: str, call: Any) -> Any:
    @agent(name)
    async def one(run: Run[Nothing]) -> Done[None] | None:
        run.take_redirects()
        if run.step < 2:
            return None
        await run.call(call(), title=f"The {name}")
        return Done(None)

    return one


async def in_flight(run: Handle[Any]) -> RunView:
    async def flying() -> RunView | None:
        view = await run.view()
        return view if view.in_flight else None

    found: RunView = await eventually(flying, LIMIT)
    return found


async def told(code: Any) -> Consequences:
    doors["door"] = asyncio.Event()
    async with lab([code]) as runs:
        run = await runs.start(code, Nothing())
        words = (await in_flight(run)).consequences
        doors["door"].set()
        await run.result()
        return words


async def test_a_write_without_an_undo_is_never_promised_to_be_undone() -> None:
    words = await told(doing("scribble", scribble))
    assert words.cancel == "keeps 2 finished steps, cannot undo The scribble"
    assert words.pause == "lets The scribble finish, then holds it"


async def test_an_irreversible_call_is_never_promised_to_be_undone() -> None:
    assert (await told(doing("letter", send))).cancel == "keeps 2 finished steps, cannot undo The letter"


async def test_a_write_with_an_undo_is() -> None:
    assert (await told(doing("file", save))).cancel == "keeps 2 finished steps, undoes The file in progress"


async def test_a_read_is_cut() -> None:
    words = await told(doing("book", look))
    assert words == Consequences(
        "closes The book, holds it here", "takes step 2 again, your way", "keeps 2 finished steps, cuts The book"
    )


async def test_a_paused_run_names_the_drafts_there_are_and_no_others() -> None:
    @agent("author")
    async def author(run: Run[Nothing]) -> Done[None] | None:
        run.take_redirects()
        if run.step == 0:
            for n in range(4):
                await run.call(draft(n), title=f"Draft {n}")
            return None
        if run.step == 1:
            await run.call(note())
            return None
        await run.call(ask("Go on?"))
        return Done(None)

    @agent("reader")
    async def reader(run: Run[Nothing]) -> Done[None] | None:
        if run.step == 0:
            return None
        await run.call(ask("Go on?"))
        return Done(None)

    async with lab([author, reader]) as runs:
        drafts = await held(await runs.start(author, Nothing()), "asks")
        assert drafts.consequences.cancel == "keeps 2 finished steps, undoes Draft 0, Draft 1 and 2 more"
        assert drafts.consequences.pause == "first answer what it asks"
        assert drafts.consequences.redirect == "read when it goes on"
        nothing = await held(await runs.start(reader, Nothing()), "asks")
        assert nothing.consequences.cancel == "keeps 1 finished step"
        assert nothing.consequences.redirect == "its code reads no redirects: it may come back unread"  # R40


async def test_what_the_step_has_done_so_far_is_told_too_and_the_receipt_agrees() -> None:
    @agent("clerk")
    async def clerk(run: Run[Nothing]) -> Done[None]:
        await run.call(note())
        await run.call(post())
        await run.call(look())
        return Done(None)

    doors["door"] = asyncio.Event()
    async with lab([clerk]) as runs:
        run = await runs.start(clerk, Nothing())

        async def looking() -> RunView | None:
            view = await run.view()
            return view if any(call.tool == "look" for call in view.in_flight) else None

        view: RunView = await eventually(looking, LIMIT)
        assert view.consequences.cancel == "no step is finished, undoes note, cannot undo post"
        await run.cancel()
        receipt = await run.settled(timeout=LIMIT)
        assert {u.call.tool: u.outcome for u in receipt.undone} == {"note": "undone", "post": "impossible"}
        over = (await run.view()).consequences
        assert over == Consequences("the run has ended", "too late: fork it instead", "the run has ended")


async def test_a_run_that_has_not_begun_ends_before_it_starts(tmp_path: Any) -> None:
    async with Runtime(str(tmp_path / "runs.db"), agents=[doing("book", look)], drive=False) as runs:
        run = await runs.start("book", {})
        assert (await run.view()).consequences == Consequences(
            "holds it before it starts", "rewrites the first step", "ends before it starts"
        )


async def test_a_run_that_waits_to_go_on_is_not_said_to_start(tmp_path: Any) -> None:
    """What it has done in its first step would be taken back."""
    doors["door"] = asyncio.Event()

    @agent("author")
    async def author(run: Run[Nothing]) -> Done[None]:
        run.take_redirects()
        await run.call(draft(0), title="The draft")
        await run.call(look(), title="The book")
        return Done(None)

    path = str(tmp_path / "runs.db")
    async with Runtime(path, agents=[author]) as runs:
        run = await runs.start(author, Nothing())
        await eventually(lambda: _flies(run, "look"), LIMIT)
        await run.pause()
        await run.settled(timeout=LIMIT)
    async with Runtime(path, agents=[author], drive=False) as runs:
        run = runs.handle(run.id)
        assert await run.resume()
        view = await run.view()
        assert (view.status, view.consequences) == (
            "queued",
            Consequences("holds it before it goes on", "read when it goes on", "no step is finished, undoes The draft"),
        )
        answer = await run.redirect("otherwise")
        assert answer and answer.note == "read when the run goes on"


async def _flies(run: Handle[Any], tool: str) -> bool:
    return [ref.tool for ref in (await run.view()).in_flight] == [tool]


async def test_a_child_run_is_held_and_cancelled_with_the_run_and_not_cut() -> None:
    """R25: what is in flight in it counts; and its residue is told once."""
    doors["door"] = asyncio.Event()
    scribe = doing("scribble", scribble)

    @agent("boss")
    async def boss(run: Run[Nothing]) -> Done[None]:
        run.take_redirects()
        await run.call(child(scribe, Nothing()))
        return Done(None)

    async with lab([scribe, boss]) as runs:
        run = await runs.start(boss, Nothing())
        [below] = await eventually(lambda: runs.list(agent="scribble"), LIMIT)
        await in_flight(runs.handle(below.id))
        words = (await run.view()).consequences
        assert words.pause == "lets The scribble finish, then holds it and its child run"
        assert words.cancel == "no step is finished, cannot undo The scribble, cancels its child run"
        await run.cancel()
        doors["door"].set()
        receipt = await run.settled(timeout=LIMIT)
        assert [one.what for one in receipt.residue] == ["scribble could not be undone"]
