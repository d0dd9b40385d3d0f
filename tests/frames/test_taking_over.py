"""A person takes a run over, acts in it, and hands it back (R24)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.frames.world import (
    AGENTS,
    Desk,
    Numbered,
    World,
    a_world,
    asker,
    clerk,
    fail,
    numbered,
    planner,
    reader,
    repeater,
    said,
    send,
    think,
    wire,
)
from tests.helpers import eventually, held

from standfast import Accepted, CallFailed, Choice, Handle, Happened, Misuse, NotHappened, Refused, Runtime, TooLate
from standfast.records import Answer, Mode
from standfast.supervising import Supervisor
from standfast.testing import Lab


async def taken(runs: Lab, world: World) -> Handle[list[str]]:
    """An asker that has sent once and waits for an answer, taken over by ann."""
    run = await runs.start(asker, Desk())
    await held(run, "asks")
    assert isinstance(await run.take_over(by="ann", reason="let me see"), Accepted)
    return run


async def test_a_taken_run_stands_still_and_says_who_has_it() -> None:
    async with a_world() as (runs, world):
        gate = world.shut_at("think report 0")
        run = await runs.start(clerk, Desk())
        await eventually(lambda: "think report 0" in world.log)
        answer = await run.take_over(by="ann")
        assert isinstance(answer, Accepted) and [c.tool for c in answer.in_flight] == ["think"]
        view = await held(run, "taken")
        assert (view.taken_by, view.waiting_for) == ("ann", "taken: ann (claimed) has it")
        refused = await run.resume()
        assert isinstance(refused, Refused) and [c.verb for c in refused.choices] == ["hand_back", "cancel"]
        assert isinstance(await run.step_once(), Refused)
        assert (await run.state()).parts == 3  # everything can be seen
        other = await run.take_over(by="bob")
        assert isinstance(other, Refused) and other.why == "ann (claimed) has it"
        again = await run.take_over(by="ann")
        assert again and again.note == "taken over already"
        gate.set()
        assert await run.hand_back("go on", by="ann")
        assert "read go on" in await run.result(timeout=120)


async def test_a_person_performs_a_tool_as_a_step_of_its_own() -> None:
    """RULINGS: through the same gate; journaled, in the ledger, with who did it."""
    async with a_world() as (runs, world):
        gate = world.shut_at("think report 0")
        run = await runs.start(clerk, Desk())
        await eventually(lambda: "think report 0" in world.log)
        await run.take_over(by="ann")
        assert await run.perform(send("a letter"), by="ann", timeout=120) == "a letter"
        view = await run.view()
        assert (view.status, view.holds, view.step) == ("paused", ("taken",), 1)
        assert await run.perform("think", {"what": "of it"}, timeout=120) == "of it"
        (first, second) = await said(run, "person_acted")
        assert (first.by, first.tool, first.args, first.result, first.step) == (
            *("ann", "send", {"what": "a letter"}),
            *("a letter", 0),
        )
        assert (second.by, second.tool, second.step) == ("ann", "think", 1)
        assert (await run.view()).changed == "ann (claimed) performed send; ann (claimed) performed think"
        gate.set()
        await run.hand_back("sent")
        await run.result(timeout=120)


async def test_the_note_and_what_was_done_reach_the_agent() -> None:
    async with a_world() as (runs, world):
        run = await taken(runs, world)
        await run.perform(send("by hand"), timeout=120)
        needs = (await run.view()).needs
        assert [n.kind for n in needs] == ["question"]  # what the agent asked is still asked
        await run.answer(str(needs[0].call), "yes")
        answer = await run.hand_back("I sent one myself")
        assert answer and answer.mail
        seen = await run.result(timeout=120)
        assert seen[0].startswith("I sent one myself {'handed_back': True")
        assert "'tool': 'send', 'args': {'what': 'by hand'}, 'by': 'ann'" in seen[0]
        assert seen[1:] == ["first", "yes", "second"]
        assert world.log == ["send first", "send by hand", "send second"]  # nothing was done twice
        (resumed,) = await said(run, "resume_asked")
        assert resumed.changed == "ann (claimed) performed send; ann (claimed) handed back: I sent one myself"
        assert resumed.note == "I sent one myself"


async def test_what_a_person_did_is_undone_like_everything_else() -> None:
    """A finished step: kept by a plain cancel, taken back by undo="all" and by a rewind."""
    async with a_world() as (runs, world):
        run = await taken(runs, world)
        await run.perform(send("by hand"), timeout=120)
        await run.cancel()
        receipt = await run.settled(timeout=120)
        assert world.log == ["send first", "send by hand", "unsend first"]  # the agent's own step was in flight
        assert [c.tool for c in receipt.kept] == ["send"]
    async with a_world() as (runs, world):
        run = await taken(runs, world)
        await run.perform(send("by hand"), timeout=120)
        await run.cancel(undo="all")
        await run.settled(timeout=120)
        assert world.log == ["send first", "send by hand", "unsend by hand", "unsend first"]
    async with a_world() as (runs, world):
        run = await taken(runs, world)
        await run.perform(send("by hand"), timeout=120)
        await run.rewind(0)
        await run.settled(timeout=120)
        assert world.log == ["send first", "send by hand", "unsend by hand", "unsend first"]
        assert (await run.view()).holds == ("taken",)


async def test_a_call_that_asks_first_asks_for_a_person_too() -> None:
    async with a_world() as (runs, world):
        run = await taken(runs, world)
        performing = asyncio.ensure_future(run.perform(wire(5), timeout=120))

        async def approval() -> str | None:
            return next((n.call for n in (await run.view()).needs if n.kind == "approval"), None)

        call = await eventually(approval)
        assert "wire 5" not in world.log
        refused = await run.hand_back("too early")
        assert isinstance(refused, Refused)
        assert await run.approve(call, by="boss")
        assert await performing == 5
        view = await held(run, "asks", "taken")
        assert [n.kind for n in view.needs] == ["question"]


@pytest.mark.parametrize("agents_question", ["open", "answered"])
@pytest.mark.parametrize("window", ["_hold", "stop"])
async def test_an_approval_in_the_moment_the_run_is_held_for_it_is_heard(
    monkeypatch: pytest.MonkeyPatch, window: str, agents_question: str
) -> None:
    """Before the hold is written, and while the run is pausing for it; the agent's own question may be open too."""
    async with a_world() as (runs, world):
        run = await taken(runs, world)
        if agents_question == "answered":
            [question] = (await run.view()).needs
            assert await run.answer(str(question.call), "yes")
        original: Callable[..., Awaitable[None]] = getattr(Supervisor, window)
        approved: list[Answer] = []

        async def approve_first(self: Supervisor, *args: Any) -> None:
            if not approved:
                [need] = [n for n in (await run.view()).needs if n.kind == "approval"]
                approved.append(await run.approve(str(need.call)))
            await original(self, *args)

        monkeypatch.setattr(Supervisor, window, approve_first)
        assert await run.perform(wire(5), timeout=60) == 5
        assert len(approved) == 1 and approved[0]
        await held(run, *(("asks",) if agents_question == "open" else ()), "taken")
        await nothing_untrue_is_said_of_holds(run)


async def nothing_untrue_is_said_of_holds(run: Handle[Any]) -> None:
    """R27: whoever performs something in a run that is taken over goes on; the agent is still held."""
    queued = await said(run, "run_queued")
    assert queued
    for event in queued:
        assert "taken" in event.holds
        assert "nothing holds" not in event.why and "last" not in event.why


async def test_a_decision_about_a_persons_call_says_that_the_agent_is_still_held() -> None:
    """The agent's own question is open too: it was not the last one that was answered."""
    async with a_world() as (runs, _):
        run = await taken(runs, World())
        performing = asyncio.ensure_future(run.perform(wire(5), timeout=120))
        await held(run, "asks", "taken")
        call = await eventually(lambda: _approval(run))
        assert await run.approve(call, by="boss")
        assert await performing == 5
        await nothing_untrue_is_said_of_holds(run)


async def _approval(run: Handle[Any]) -> str | None:
    return next((n.call for n in (await run.view()).needs if n.kind == "approval"), None)


async def test_a_pause_after_the_approval_still_holds_what_a_person_performs(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_world() as (runs, world):
        run = await taken(runs, world)
        original = Supervisor.stop
        answers: list[Answer] = []

        async def approve_and_pause(self: Supervisor, mode: Mode) -> None:
            if not answers:
                [need] = [n for n in (await run.view()).needs if n.kind == "approval"]
                answers.extend([await run.approve(str(need.call)), await run.pause()])
            await original(self, mode)

        monkeypatch.setattr(Supervisor, "stop", approve_and_pause)
        performing = asyncio.ensure_future(run.perform(wire(5), timeout=120))
        await held(run, "asks", "taken", "user")
        assert all(answers) and "wire 5" not in world.log
        assert await run.resume()
        assert await performing == 5


async def test_a_pause_holds_what_a_person_performs_also_if_the_run_was_paused_before() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(asker, Desk())
        await held(run, "asks")
        assert await run.pause(by="zoe")
        await held(run, "asks", "user")
        assert await run.take_over(by="ann")
        performing = asyncio.ensure_future(run.perform(wire(5), timeout=120))

        async def approval() -> str | None:
            return next((n.call for n in (await run.view()).needs if n.kind == "approval"), None)

        call = str(await eventually(approval))
        await held(run, "asks", "user", "taken")
        assert await run.pause(by="bob")
        assert await run.approve(call, by="carl")
        await asyncio.sleep(0.2)
        assert "wire 5" not in world.log
        assert await run.resume()
        assert await performing == 5


@pytest.mark.parametrize("word", ["approved", "denied"])
async def test_what_a_persons_call_asked_does_not_hold_it_once_decided_beside_a_question_of_the_agent(
    word: str,
) -> None:
    """The agent was still reading, so its own question had held nothing before the person's call asked too."""
    async with a_world() as (runs, world):
        gate = world.shut_at("think aside")
        run = await runs.start(reader, Desk())
        await eventually(lambda: "think aside" in world.log)
        await eventually(lambda: _needs(run, "question"))
        assert await run.take_over(by="ann")
        await held(run, "taken")
        performing = asyncio.ensure_future(run.perform(wire(5), timeout=120))
        call = str(await eventually(lambda: _approval(run)))
        await held(run, "asks", "taken")
        if word == "approved":
            assert await run.approve(call, by="boss")
            assert await performing == 5
        else:
            assert await run.deny(call, "too much", by="boss")
            with pytest.raises(CallFailed, match="too much"):
                await performing
        await held(run, "taken")
        await nothing_untrue_is_said_of_holds(run)
        gate.set()
        handed = await run.hand_back("done")
        assert handed and "held" not in handed.note
        await eventually(lambda: world.log.count("think aside") == 2)  # it reads on while its question is open
        question = await eventually(lambda: _needs(run, "question"))
        assert await run.answer(question, "yes")
        assert await run.result(timeout=120) == ["aside", "yes"]


async def _needs(run: Handle[Any], kind: str) -> str | None:
    return next((n.call for n in (await run.view()).needs if n.kind == kind), None)


async def test_a_doubt_about_a_persons_call_is_settled_beside_a_doubt_of_the_agent() -> None:
    async with a_world() as (runs, world):
        world.shut_at("send first")
        run = await runs.start(asker, Desk())
        await eventually(lambda: "send first" in world.log)
        assert await run.take_over(by="ann")
        await runs.crash()  # in the middle of the agent's write
        await held(run, "taken")
        world.shut_at("send by hand")
        performing = asyncio.ensure_future(run.perform(send("by hand"), timeout=120))
        await eventually(lambda: "send by hand" in world.log)
        await runs.crash()
        view = await held(run, "taken", "in_doubt")
        [mine] = [str(n.call) for n in view.needs if n.kind == "doubt" and "by hand" in n.text]
        assert await run.resolve(mine, Happened("by hand"))
        assert await performing == "by hand"
        await held(run, "taken")
        await run.hand_back("done")
        view = await held(run, "in_doubt")  # the agent's own, before its step is taken again
        assert ["first" in n.text for n in view.needs if n.kind == "doubt"] == [True]


async def test_a_call_that_fails_is_told_to_the_person_and_the_run_stays_theirs() -> None:
    async with a_world() as (runs, world):
        run = await taken(runs, world)
        with pytest.raises(CallFailed, match="cannot fly") as failed:
            await run.perform(fail("fly"), timeout=120)
        assert failed.value.type == "ValueError"
        view = await run.view()
        assert (view.holds, view.step) == (("asks", "taken"), 1)
        await run.answer(str(view.needs[0].call), "yes")
        await run.hand_back("I tried")
        assert "'error': 'ValueError: cannot fly'" in (await run.result(timeout=120))[0]


async def test_only_whoever_has_the_run_performs_and_only_its_tools() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(asker, Desk())
        await held(run, "asks")
        with pytest.raises(Misuse, match="nobody has taken this run over"):
            await run.perform(send("x"), timeout=120)
        assert isinstance(await run.hand_back("what?"), Refused)
        await run.take_over(by="ann")
        with pytest.raises(Misuse, match="agent asker has no tool 'fly'; it has fail, send, think, wire"):
            await run.perform("fly", {}, timeout=120)
        with pytest.raises(Misuse, match="an argument of send"):
            await run.perform("send", {"whom": "x"}, timeout=120)
        assert world.log == ["send first"]
        await run.cancel()
        await run.settled(timeout=120)
        assert await run.take_over(by="ann") == TooLate("cancelled")
        assert await run.hand_back("") == TooLate("cancelled")


async def test_a_crash_while_a_person_performs_a_write_is_a_doubt_like_any_other() -> None:
    """R15: never a blind retry."""
    async with a_world() as (runs, world):
        run = await taken(runs, world)
        gate = world.shut_at("send by hand")
        performing = asyncio.ensure_future(run.perform(send("by hand"), timeout=120))
        await eventually(lambda: "send by hand" in world.log)
        await runs.crash()
        view = await held(run, "asks", "taken", "in_doubt")
        doubt = next(n for n in view.needs if n.kind == "doubt")
        gate.set()
        assert await run.resolve(str(doubt.call), Happened("by hand"))
        assert await performing == "by hand"
        assert world.log.count("send by hand") == 1
        await held(run, "asks", "taken")


async def test_people_write_while_they_have_the_run_and_the_agent_reads_it_afterwards() -> None:
    async with a_world() as (runs, world):
        run = await taken(runs, world)
        answer = await run.message("a second thought", when="now")
        assert answer and answer.note == "read when the run is handed back"
        await run.answer(str((await run.view()).needs[0].call), "yes")
        assert (await held(run, "taken")).step == 0
        await run.hand_back("done")
        seen = await run.result(timeout=120)
        assert [s.partition(" {")[0] for s in seen[:2]] == ["a second thought None", "done"]


async def test_hand_back_names_what_still_holds_the_run() -> None:
    async with a_world() as (runs, world):
        run = await taken(runs, world)
        answer = await run.hand_back("over to you")
        assert answer and "still" not in answer.note and "held by asks" in answer.note
        view = await held(run, "asks")
        assert view.taken_by == ""
        assert await run.answer(str(view.needs[0].call), "no")
        assert (await run.result(timeout=120))[0].startswith("over to you")


async def test_from_another_process_without_the_agents_code(tmp_path: Path) -> None:
    """The control process has no agent: a driver performs the tool; all of it survives restarts."""
    store, world = tmp_path / "runs.db", World()
    async with Runtime(store, agents=AGENTS, provide={World: world}) as runs:
        run = await runs.start(asker, Desk())
        await held(run, "asks")
    async with Runtime(store, drive=False) as control:
        there = control.handle(run.id)
        assert await there.take_over(by="ann")
        assert (await there.view()).taken_by == "ann"
        with pytest.raises(TimeoutError):  # nobody drives
            await there.perform("send", {"what": "by hand"}, timeout=5)
        assert "a driver with agent asker" in (await there.view()).waiting_for
    async with (
        Runtime(store, drive=False) as control,
        Runtime(store, agents=AGENTS, provide={World: world}) as runs,
    ):
        there = control.handle(run.id)
        await held(there, "asks", "taken")
        assert world.log == ["send first", "send by hand"]  # what was ordered before is done now
        assert await there.perform("send", {"what": "again"}, timeout=120) == "again"
        await there.answer(str((await there.view()).needs[0].call), "yes")
        assert await there.hand_back("over")
        seen = await runs.handle(run.id).result(timeout=120)
        assert seen[0].startswith("over ") and seen[1:] == ["first", "yes", "second"]
    assert world.log == ["send first", "send by hand", "send again", "send second"]


async def test_the_note_is_heard_over_a_full_stack() -> None:
    """What a person did must be known before anything else is done."""
    async with a_world() as (runs, world):
        gates = [world.shut_at(line) for line in ("think report 0", "think answer a 1", "think answer b 1")]
        run = await runs.start(clerk, Desk(answers=3))
        await eventually(lambda: "think report 0" in world.log)
        await run.message("a")
        gates[0].set()
        await eventually(lambda: "think answer a 1" in world.log)
        await run.message("b", when="now")
        await eventually(lambda: "think answer b 1" in world.log)
        assert len((await run.view()).frames) == 3
        await run.take_over(by="ann")
        await held(run, "taken")
        for gate in gates:
            gate.set()
        before = len(world.log)
        await run.hand_back("hear me")
        seen = await run.result(timeout=120)
        read = [s for s in seen if s.startswith("read")]
        assert read == ["read a", "read b", "read hear me"]
        assert world.log[before] == "think hear me 0"  # before anything else is thought or done


async def test_the_agents_step_is_the_same_after_a_persons_steps() -> None:
    """What it had read, asked and done in it stands: the same calls keep their keys."""
    async with a_world() as (runs, world):
        run = await taken(runs, world)
        question = (await run.view()).needs[0].call
        for n in range(3):
            assert await run.perform(think(f"aloud {n}"), timeout=120) == f"aloud {n}"
        view = await run.view()
        assert (view.holds, view.step, view.needs[0].call) == (("asks", "taken"), 3, question)
        await run.answer(str(question), "yes")
        await run.hand_back("nothing done")
        assert (await run.result(timeout=120))[1:] == ["first", "yes", "second"]
        assert [line for line in world.log if line.startswith("send")] == ["send first", "send second"]


async def approval(run: Handle[Any]) -> str:
    async def look() -> str | None:
        return next((n.call for n in (await run.view()).needs if n.kind == "approval"), None)

    return str(await eventually(look))


@pytest.mark.parametrize("approved", ["while taken", "after handing back"])
@pytest.mark.parametrize("acts", [1, 3])
async def test_the_agents_own_step_keeps_its_number_when_a_person_acts(approved: str, acts: int) -> None:
    """`if run.step == 0:` means the same after a take-over: what was approved in that step is performed, once."""
    async with a_world() as (runs, world):
        run = await runs.start(numbered, Numbered())
        call = await approval(run)
        await held(run, "asks")
        await run.take_over(by="ann")
        if approved == "while taken":
            assert await run.approve(call)
        for n in range(acts):
            await run.perform(think(f"{n}"), timeout=120)
        assert (await run.view()).step == acts  # of all the run's steps, these were a person's
        await run.hand_back("go on")
        if approved == "after handing back":
            assert await run.approve(call)
        await eventually(lambda: "wire 1" in world.log)
        second = await approval(run)
        await held(run, "asks")
        await run.take_over(by="bob")  # also in a later step, and after other people's steps
        await run.perform(think("again"), timeout=120)
        await run.approve(second)
        await run.hand_back("go on")
        assert (await run.result(timeout=120)).steps == [0, 1, 2, 3]
        assert [line for line in world.log if "think" not in line] == ["send first", "wire 1", "wire 2"]
        assert (await run.view()).step == acts + 1 + 4


async def test_a_rewind_and_a_fork_count_the_agents_own_steps_too() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(numbered, Numbered())
        call = await approval(run)
        await held(run, "asks")
        await run.take_over(by="ann")
        for n in range(2):
            await run.perform(think(f"{n}"), timeout=120)
        await run.approve(call)
        await run.hand_back("go on")
        await approval(run)
        assert (await held(run, "asks")).step == 3  # two of a person's, and the agent's first
        fork = await run.fork(at=3)
        await fork.resume(accept_stale=True)  # it builds on what a live run has done
        await fork.approve(await approval(fork))
        assert (await fork.result(timeout=120)).steps == [0, 1, 2, 3]
        await run.rewind(1)
        await run.settled(timeout=120)
        assert (await run.view()).step == 1  # one of a person's came before
        await run.resume()
        for _ in range(2):
            await run.approve(await approval(run))
            await eventually(lambda: world.log.count("wire 1") == 2)
        assert (await run.result(timeout=120)).steps == [0, 1, 2, 3]


async def test_a_redirect_for_the_step_after_is_read_there_although_a_person_acts_before() -> None:
    async with a_world() as (runs, _):
        run = await runs.start(numbered, Numbered())
        call = await approval(run)
        await held(run, "asks")
        await run.redirect("shorter", when="next")
        await run.take_over(by="ann")
        await run.perform(think("aloud"), timeout=120)
        await run.approve(call)
        await run.hand_back("go on")
        await run.approve(await approval(run))
        assert (await run.result(timeout=120)).heard == ["shorter at 1"]


async def test_what_the_agents_step_had_begun_is_taken_back_without_what_a_person_did(tmp_path: Path) -> None:
    """Its plan item and what it relied on name the step that it is now, not the person's."""
    path = tmp_path / "invoice"
    path.write_text("5 euros")
    async with a_world() as (runs, world):
        run = await runs.start(planner, Desk(relies_on=str(path)))
        await held(run, "asks")
        await run.take_over(by="ann")
        await run.perform(think("aloud"), timeout=120)
        [item] = (await run.view()).plan
        assert item.step == 1
        path.write_text("6 euros")
        await run.answer(str((await run.view()).needs[0].call), "yes")
        await run.hand_back("go on")
        for step in (1, 2):
            [stale] = (await held(run, "stale")).needs
            assert [c.args for c in stale.choices if isinstance(c, Choice) and c.verb == "rewind"] == [{"to": step}]
            await run.take_over(by="ann")
            await run.perform(think(f"after {step}"), timeout=120)
            await held(run, "stale", "taken")
            await run.hand_back("go on")
        assert await run.rewind(3)
        await run.settled(timeout=120)
        assert (await run.view()).step == 3
        assert world.log == ["think aloud", "think after 1", "think after 2"]


async def test_a_write_of_the_agents_step_counts_as_one_step_although_a_person_acts_before_it_is_repeated() -> None:
    """Equal writes are counted in the agent's own steps: this is its second, not its third."""
    async with a_world() as (runs, world):
        gate = world.shut_at("think step 0")
        run = await runs.start(repeater, Desk())
        await eventually(lambda: "think step 0" in world.log)
        second = world.shut_at("send the same")
        gate.set()
        await eventually(lambda: world.log.count("send the same") == 2)
        await runs.crash()
        doubt = next(n for n in (await held(run, "in_doubt")).needs if n.kind == "doubt")
        await run.take_over(by="ann")
        await run.perform(think("aloud"), timeout=120)
        assert await run.resolve(str(doubt.call), NotHappened())
        second.set()
        await run.hand_back("it was not sent")
        assert await run.result(timeout=120) == 1
