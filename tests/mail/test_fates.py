"""A redirect has a fate that people see: sent, read at step k, applied; or, plainly, not read (R5, R40)."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.helpers import eventually
from tests.mail.world import Task, World, mail, missing, redirected, status, think, unread, write

from standfast import (
    Again,
    Done,
    LLMAgent,
    Pipeline,
    Refused,
    Run,
    Runtime,
    agent,
    child,
    models,
    redirectable,
)
from standfast import events as ev
from standfast.testing import lab

WATCHED_ITEMS = ("Read", "Sum up")


@agent("planner")
async def planner(run: Run[Task]) -> Done[list[list[str]]] | None:
    """An agent with a plan of its own: one item a step, done as its instruction says."""
    if not len(run.plan):
        run.plan.set(WATCHED_ITEMS)
    item = run.plan.upcoming
    assert item is not None
    run.plan.start(item)
    run.state.heard.append([run.instruction])
    await run.call(think(run.instruction))
    run.plan.done(item)
    return Done(run.state.heard) if run.plan.upcoming is None else None


@agent("headstrong")
async def headstrong(run: Run[Task]) -> Done[str] | None:
    """Reads its redirects in the last step only."""
    await run.call(think(f"step {run.step}"))
    if run.step + 1 < run.state.steps:
        return None
    return Done(", ".join(run.take_redirects()))


@agent("blinkered")
async def blinkered(run: Run[Task]) -> Done[str] | None:
    """Never reads what people send, and says nothing about that."""
    await run.call(think(f"step {run.step}"))
    return Done("as planned") if run.step + 1 >= run.state.steps else None


chores: Pipeline[Task] = Pipeline("chores", Task)


@chores.stage("Sweep", redirects=True)
async def sweep(run: Run[Task]) -> None:
    """Says that it reads redirects, and does not."""
    await run.call(think("sweep"))


@chores.stage("Cook")
async def cook(run: Run[Task]) -> None:
    run.state.heard.append([run.instruction])
    await run.call(think(run.instruction))


@chores.stage("Lock up", redirects=False)
async def lock_up(run: Run[Task]) -> None:
    run.state.heard.append([run.instruction])
    await run.call(think("lock up"))


silent: Pipeline[Task] = Pipeline("silent", Task)


@silent.stage("Count")
async def count(run: Run[Task]) -> None:
    """Its code names nothing that would read a redirect."""
    await run.call(think("count"))


@silent.stage("Tell")
async def tell(run: Run[Task]) -> None:
    await helped(run)


async def helped(run: Run[Task]) -> None:
    """Read through a helper of the stage."""
    run.state.heard.append([run.instruction])
    await run.call(think("tell"))


rounds: Pipeline[Task] = Pipeline("rounds", Task)


@rounds.stage("Walk")
async def walk(run: Run[Task]) -> Again | None:
    """Three rounds, of which the last one reads the instruction."""
    await run.call(think(f"round {run.step}"))
    if run.step < 2:
        return Again()
    run.state.heard.append([run.instruction])
    return None


@agent("family")
async def family(run: Run[Task]) -> Done[list[list[str]]]:
    return Done(await run.call(child(planner, Task())))


@agent("elders")
async def elders(run: Run[Task]) -> Done[str]:
    return Done(await run.call(child(parents, Task())))


@agent("parents")
async def parents(run: Run[Task]) -> Done[str]:
    return Done(await run.call(child(blinkered, Task())))


def a_lab(world: World) -> Any:
    agents = [planner, headstrong, blinkered, chores, silent, rounds, family, elders, parents]
    return lab(agents, provide={World: world})


def at_two_doors(world: World) -> None:
    """`blinkered` waits in its first step, and again in its second."""
    world.shut_at("think step 0")
    world.shut_at("think step 1")


async def test_an_agent_with_a_plan_of_its_own_reads_a_redirect_as_its_instruction() -> None:
    world = World()
    async with a_lab(world) as runs:
        run = await runs.start(planner, Task())
        await eventually(lambda: "think Read" in world.log)
        assert await run.redirect("Skim")
        await eventually(lambda: "think Skim" in world.log)
        assert [(m.status, m.fate, m.step) for m in await mail(run)] == [("pending", "read", 0)]
        world.open.set()
        assert await run.result(timeout=120) == [["Skim"], ["Sum up"]]
        view = await run.view()
        assert [(m.status, m.fate, m.step) for m in view.mail] == [("consumed", "applied", 0)]
        assert [(item.title, item.was, item.status) for item in view.plan] == [
            ("Skim", "Read", "done"),
            ("Sum up", "", "done"),
        ]
        assert view.not_read == ()


async def test_a_child_run_with_a_plan_reads_its_redirect_too() -> None:
    world = World()
    async with a_lab(world) as runs:
        run = await runs.start(family, Task())
        await eventually(lambda: "think Read" in world.log)
        (view,) = [one for one in await runs.list() if one.parent == run.id]
        inner = runs.handle(view.id)
        assert await inner.redirect("Skim")
        await eventually(lambda: "think Skim" in world.log)
        world.open.set()
        assert await run.result(timeout=120) == [["Skim"], ["Sum up"]]
        assert [m.fate for m in await mail(inner)] == ["applied"]


async def test_an_llm_agent_reads_its_redirect_in_the_step_that_asks_the_model(tmp_path: Path) -> None:
    teller = LLMAgent("teller", model=models.scripted("as you wish"), plan=False)
    async with Runtime(tmp_path / "runs.db", agents=[teller], drive=False) as runs:
        run = await runs.start(teller, "a story", id="r1")
        assert await run.redirect("a poem")
        assert [m.fate for m in await mail(run)] == ["sent"]
    async with Runtime(tmp_path / "runs.db", agents=[teller]) as runs:
        run = runs.handle("r1")
        assert await run.result(timeout=120) == "as you wish"
        (letter,) = await mail(run)
        assert (letter.fate, letter.disposition) == ("applied", "read at step 0, applied")


async def test_a_redirect_that_waits_is_sent_and_one_that_was_taken_back_by_a_crash_is_read_again() -> None:
    world = World()
    async with a_lab(world) as runs:
        run = await runs.start(planner, Task())
        await eventually(lambda: "think Read" in world.log)
        assert await run.redirect("Sum up briefly", when="next")
        assert [(m.fate, m.step) for m in await mail(run)] == [("sent", None)]
        await runs.crash()
        world.open.set()
        assert await run.result(timeout=120) == [["Read"], ["Sum up briefly"]]
        assert [(m.fate, m.step) for m in await mail(run)] == [("applied", 1)]


async def test_a_step_that_ends_without_reading_a_redirect_shows_a_need() -> None:
    world = World()
    async with a_lab(world) as runs:
        at_two_doors(world)
        run = await runs.start(blinkered, Task())
        need = await missing(run, world, by="ann")
        assert "something else" in need.text and "step 0 ended without reading it" in need.text
        assert [choice.verb for choice in need.choices] == ["resend", "drop"]
        (letter,) = await mail(run)
        assert need.id == letter.id
        assert (letter.status, letter.fate, letter.step) == ("pending", "not_read", 0)
        assert letter.disposition == "not read: step 0 ended without reading it"
        assert [view.id for view in await runs.list(needs=True)] == [run.id]
        world.shut["think step 1"].set()
        assert await run.result(timeout=120) == "as planned"
        view = await run.view()
        assert view.needs == []  # an ended run has none
        assert [m.fate for m in view.mail] == ["not_read"]
        (line,) = view.not_read
        assert "something else" in line and "ended without reading it" in line
        assert (await run.settled(10)).not_read == view.not_read
        events = [e async for e in run.events() if isinstance(e, ev.MailNotRead)]
        assert [(e.mail, e.step) for e in events] == [(letter.id, 0)]


async def test_dropping_an_unread_redirect_returns_it_with_the_reason() -> None:
    world = World()
    async with a_lab(world) as runs:
        at_two_doors(world)
        run = await runs.start(blinkered, Task())
        need = await missing(run, world)
        drop = next(choice for choice in need.choices if choice.verb == "drop")
        assert await run.choose(need, drop, by="ann", reason="no longer wanted")
        view = await run.view()
        assert view.needs == [] and view.not_read == ()
        assert [(m.status, m.fate, m.reason) for m in view.mail] == [
            ("returned", "returned", "dropped by ann (claimed): no longer wanted")
        ]
        assert await runs.list(needs=True) == []
        assert isinstance(await run.drop(need.id), Refused)
        assert isinstance(await run.resend(need.id), Refused)
        assert isinstance(await run.resend("unknown"), Refused)


async def test_an_agent_that_reads_later_gets_an_unread_redirect_and_the_need_goes() -> None:
    world = World()
    async with a_lab(world) as runs:
        at_two_doors(world)
        run = await runs.start(headstrong, Task(steps=2))
        await missing(run, world, text="left")
        world.shut["think step 1"].set()
        assert await run.result(timeout=120) == "left"
        view = await run.view()
        assert [(m.fate, m.step) for m in view.mail] == [("applied", 1)]
        assert view.not_read == ()


async def test_a_stage_that_does_not_read_its_new_title_is_not_ticked_under_it() -> None:
    """The next stage does not get what was meant for this one, unless a person sends it again."""
    world = World()
    async with a_lab(world) as runs:
        world.shut_at("think sweep")
        cooking = world.shut_at("think Cook")
        run = await runs.start(chores, Task())
        need = await missing(run, world, "think sweep", text="Mop")
        assert "“Sweep” (step 0) ended without reading it" in need.text
        await eventually(lambda: "think Cook" in world.log)
        view = await run.view()
        assert [(item.title, item.status) for item in view.plan][:2] == [("Sweep", "done"), ("Cook", "running")]
        cooking.set()
        assert (await run.result(timeout=120)).heard == [["Cook"], ["Lock up"]]
        assert len((await run.view()).not_read) == 1


async def test_sent_again_an_unread_redirect_goes_to_the_next_step() -> None:
    world = World()
    async with a_lab(world) as runs:
        first = world.shut_at("think sweep")
        run = await runs.start(chores, Task())
        await redirected(run, world, "think sweep", "Boil")
        await run.pause()
        await status(run, "paused")
        first.set()
        await run.step_once()
        need = await unread(run)
        await status(run, "paused")
        again = next(choice for choice in need.choices if choice.verb == "resend")
        answer = await run.choose(need, again)
        assert answer and answer.mail == need.id
        view = await run.view()
        assert view.needs == []
        assert [m.fate for m in view.mail] == ["sent"]
        await run.resume()
        world.open.set()
        assert (await run.result(timeout=120)).heard == [["Boil"], ["Lock up"]]
        assert [(m.fate, m.step) for m in await mail(run)] == [("applied", 1)]


async def test_a_stage_that_declares_no_redirects_refuses_them_and_the_control_says_why() -> None:
    world = World()
    async with a_lab(world) as runs:
        last = world.shut_at("think lock up")
        run = await runs.start(chores, Task())
        await eventually(lambda: "think lock up" in world.log)
        view = await run.view()
        assert [(item.title, item.redirects) for item in view.plan] == [
            ("Sweep", True),
            ("Cook", True),
            ("Lock up", False),
        ]
        assert view.consequences.no_redirect == "“Lock up” takes no redirects"
        answer = await run.redirect("Leave it open")
        assert isinstance(answer, Refused) and answer.why == "“Lock up” takes no redirects"
        assert any(choice.verb == "cancel" for choice in answer.choices)
        assert isinstance(await run.redirect("Leave it open", when="next"), Refused)  # nothing comes after it
        assert await mail(run) == []
        assert await run.redirect("Stir", from_step="cook")  # an earlier stage can be
        last.set()
        assert (await run.result(timeout=120)).heard == [["Stir"], ["Lock up"]]


async def test_a_stage_whose_code_never_reads_the_instruction_refuses_without_being_told() -> None:
    world = World()
    async with a_lab(world) as runs:
        counting = world.shut_at("think count")
        run = await runs.start(silent, Task())
        await eventually(lambda: "think count" in world.log)
        assert [(item.title, item.redirects) for item in (await run.view()).plan] == [("Count", False), ("Tell", True)]
        refused = await run.redirect("Guess")
        assert isinstance(refused, Refused)
        assert any(c.verb == "redirect" and c.args.get("when") == "next" for c in refused.choices)
        assert await run.redirect("Whisper", when="next")  # the next stage reads it
        counting.set()
        assert (await run.result(timeout=120)).heard == [["Whisper"]]


async def test_a_stage_that_is_taken_again_may_read_in_a_later_round() -> None:
    world = World()
    async with a_lab(world) as runs:
        first = world.shut_at("think round 0")
        run = await runs.start(rounds, Task())
        await redirected(run, world, "think round 0", "Run")
        first.set()
        assert (await run.result(timeout=120)).heard == [["Run"]]
        assert [(m.fate, m.step) for m in await mail(run)] == [("applied", 2)]


@pytest.mark.parametrize("answer", ["take the stage again", "finish"])
async def test_a_last_stage_that_never_reads_is_not_asked_about_for_ever(answer: str) -> None:
    """Past the last stage a person is asked once; a redirect that its stage has left unread is not asked about."""
    deaf: Pipeline[Task] = Pipeline("deaf-end", Task)

    @deaf.stage("Only", redirects=True)
    async def only(run: Run[Task]) -> None:
        await run.call(think("only"))

    world = World()
    async with lab([deaf], provide={World: world}) as runs:
        door = world.shut_at("think only")
        run = await runs.start(deaf, Task())
        await eventually(lambda: "think only" in world.log)
        await run.redirect("now this")
        await run.redirect("then that", when="next")
        door.set()
        view = await status(run, "paused", "done")
        (need,) = [one for one in view.needs if one.kind == "question"]
        assert "then that" in need.text and "now this" not in need.text
        assert await run.choose(need, answer)
        await run.result(timeout=120)
        fates = [m.fate for m in await mail(run)]
        assert fates == ["not_read", "returned" if answer == "finish" else "not_read"]


async def test_an_agent_that_takes_no_redirects_says_so_before_it_is_asked() -> None:
    @agent("firm", redirects=False)
    async def firm(run: Run[Task]) -> Done[str]:
        await run.call(think("firm"))
        return Done("done")

    world = World()
    async with lab([firm], provide={World: world}) as runs:
        run = await runs.start(firm, Task())
        await eventually(lambda: world.log)
        view = await run.view()
        assert view.consequences.no_redirect == "agent firm takes no redirects"
        assert view.consequences.redirect == "not offered: agent firm takes no redirects"
        answer = await run.redirect("x")
        assert isinstance(answer, Refused) and answer.why == "agent firm takes no redirects"
        world.open.set()
        await run.result(timeout=120)


async def test_a_redirect_sent_while_a_pause_settles_is_not_missed_by_the_step_that_was_ending() -> None:
    """It was accepted for the step after it: the step in flight was never to read it."""

    @agent("writes-first")
    async def writes_first(run: Run[Task]) -> Done[str] | None:
        heard = run.take_redirects()
        await run.call(write(f"{run.step}"))
        return Done(", ".join(heard)) if run.step == 1 else None

    world = World()
    async with lab([writes_first], provide={World: world}) as runs:
        run = await runs.start(writes_first, Task())
        await eventually(lambda: "write 0" in world.log)
        await run.pause()
        assert (await run.view()).status == "pausing"
        await run.redirect("after the pause")
        world.open.set()
        view = await status(run, "paused")
        assert [m.fate for m in view.mail] == ["sent"]
        assert [need for need in view.needs if need.kind == "unread"] == []
        await run.resume()
        await run.result(timeout=120)
        assert [m.fate for m in await mail(run)] == ["applied"]


class Forgetful(dict[str, tuple[bool, bool]]):
    """Another thread, which reads another contract, has emptied it right after each use."""

    def __contains__(self, key: object) -> bool:
        found = super().__contains__(key)
        self.clear()
        return found

    def get(self, key: str, default: Any = None) -> Any:
        found = super().get(key, default)
        self.clear()
        return found

    def __setitem__(self, key: str, value: tuple[bool, bool]) -> None:
        super().__setitem__(key, value)
        self.clear()


@pytest.mark.parametrize("known", [{}, {"one": (False, True)}], ids=["read now", "known"])
def test_what_is_known_of_contracts_may_be_forgotten_while_it_is_read(
    monkeypatch: pytest.MonkeyPatch, known: dict[str, tuple[bool, bool]]
) -> None:
    """Views are made in several threads, and too many contracts are forgotten by whichever reads one more."""
    monkeypatch.setattr(redirectable, "_known", Forgetful(known))
    tx: Any = SimpleNamespace(contract=lambda _: {"redirects": False})
    row: Any = SimpleNamespace(doc=SimpleNamespace(contract="one"))
    assert redirectable.declared(tx, row) == (False, True)
