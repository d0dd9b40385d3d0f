"""Thoughts that survive being interrupted (R19-R22)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.frames.world import AGENTS, Desk, World, a_world, careless, clerk, greedy, nested, patient, record, said
from tests.helpers import eventually, held

from standfast import Accepted, Handle, Refused, RunHeld, Runtime, TooLate
from standfast.snapshots import Thoughts, pack, thoughts_in, unpack, with_state
from standfast.testing import Lab


async def in_the_middle_of(runs: Lab, world: World, line: str) -> tuple[Handle[list[str]], asyncio.Event]:
    """A clerk who thinks this thought until the event is set."""
    gate = world.shut_at(line)
    run = await runs.start(clerk, Desk())
    await eventually(lambda: line in world.log)
    return run, gate


async def interrupted(runs: Lab, world: World, desk: Desk) -> tuple[Handle[list[str]], asyncio.Event]:
    """A clerk after the first part of its report, at work on an answer until the event is set."""
    gate, answering = world.shut_at("think report 0"), world.shut_at("think hello 0")
    run = await runs.start(clerk, desk)
    await eventually(lambda: "think report 0" in world.log)
    await run.message("hello")
    gate.set()
    await eventually(lambda: "think hello 0" in world.log)
    return run, answering


async def test_a_message_suspends_the_thought_and_the_run_returns_to_it_aloud() -> None:
    """R20: "back to X: at step 2 of 3"."""
    async with a_world() as (runs, world):
        run, gate = await in_the_middle_of(runs, world, "think report 0")
        answer = await run.message("hello")
        assert answer and answer.note == "after this step"
        gate.set()
        seen = await run.result(timeout=120)
        assert seen == ["part 0: ", "read hello", "part 1: back to report: at step 2 of 3", "part 2: "]
        (returned,) = await said(run, "frame_returned")
        assert (returned.frame, returned.text, returned.reconstructed) == (
            *("frame-0", "back to report: at step 2 of 3"),
            False,
        )


async def test_every_thought_on_hold_is_named_in_the_reply_by_the_runtime() -> None:
    """R22: never left to the model; it is in the transcript too."""
    async with a_world() as (runs, world):
        run, answering = await interrupted(runs, world, Desk())
        await runs.clock.advance(240)
        answering.set()
        await run.result(timeout=120)
        (reply,) = await said(run, "replied")
        assert (reply.text, [*reply.lines]) == ("re: hello", ["On hold: report, at step 2 of 3, for 4 min"])
        (spoken,) = [s for s in await run.transcript() if s.call == "reply"]
        assert spoken.text == "re: hello\nOn hold: report, at step 2 of 3, for 4 min"


async def test_thoughts_within_thoughts_are_left_one_by_one() -> None:
    async with a_world() as (runs, _):
        run = await runs.start(nested, Desk())
        assert await run.result(timeout=120) == [
            "['outer', 'middle', 'inner'] held held active",
            "back to middle",
            "back to outer: at step 2 of 2",
        ]
        assert (await run.view()).frames == ()


async def test_the_view_shows_goal_progress_age_and_cost_of_every_thought() -> None:
    """R19, R23."""
    async with a_world() as (runs, world):
        run, gate = await interrupted(runs, world, Desk(tokens=700))
        await runs.clock.advance(60)
        view = await run.view()
        report, answer = view.frames
        assert (report["goal"], report["done"], report["next"], report["status"]) == ("report", 1, "part 1", "held")
        assert (report["held_for"], report["tokens"], report["expired"]) == (60.0, 700, False)
        assert report["expires_at"] == runs.clock.now() + 540
        assert (answer["goal"], answer["status"], answer["kind"]) == ("answer hello", "active", "next")
        assert view.held_tokens == 700
        gate.set()
        await run.result(timeout=120)


async def test_an_old_thought_is_returned_to_as_a_reconstruction() -> None:
    """R21: not a continuation, and it says so."""
    async with a_world() as (runs, world):
        run, answering = await interrupted(runs, world, Desk())
        await runs.clock.advance(45 * 60)
        assert (await run.view()).frames[0]["expired"] is True
        answering.set()
        seen = await run.result(timeout=120)
        text = "reconstruction of report, not a continuation: held 45 min; at step 2 of 3"
        assert f"part 1: {text}" in seen
        (returned,) = await said(run, "frame_returned")
        assert (returned.text, returned.reconstructed, returned.why) == (text, True, "held 45 min")


async def test_a_thought_left_alone_over_a_long_pause_is_a_reconstruction() -> None:
    """R21: the resume says so, though nothing was on top of it."""
    async with a_world() as (runs, world):
        run, gate = await in_the_middle_of(runs, world, "think report 1")
        await run.pause()
        await held(run, "user")
        await runs.clock.advance(7200)
        gate.set()
        await run.resume()
        seen = await run.result(timeout=120)
        assert "part 1: reconstruction of report, not a continuation: left alone for 2 h; at step 2 of 3" in seen


async def test_a_fact_that_changed_makes_the_return_a_reconstruction(tmp_path: Path) -> None:
    """R16, R21: what the thought relied on is compared when it is returned to."""
    invoice = tmp_path / "invoice.pdf"
    invoice.write_text("100")
    async with a_world() as (runs, world):
        run, gate = await interrupted(runs, world, Desk(relies_on=str(invoice)))
        invoice.write_text("200")
        gate.set()
        await run.result(timeout=120)
        (returned,) = await said(run, "frame_returned")
        assert returned.reconstructed and returned.why.startswith("changed: invoice: ")


async def test_a_thought_survives_a_crash_at_every_call() -> None:
    """R22: each is taken up where its last boundary was; nothing is lost, nothing is opened twice."""
    async with a_world() as (runs, world):
        lines = ("think report 0", "think hello 0", "think answer hello 1", "think report 1")
        gates = [world.shut_at(line) for line in lines]
        run = await runs.start(clerk, Desk(answers=2))
        for line, gate in zip(lines, gates, strict=True):
            await eventually(lambda line=line: line in world.log)
            if line == lines[0]:
                await run.message("hello")
            await runs.crash()
            gate.set()
        seen = await run.result(timeout=120)
        assert seen.count("read hello") == 1
        assert [s.partition(":")[0] for s in seen if s.startswith("part")] == ["part 0", "part 1", "part 2"]
        finished = [e.goal for e in await said(run, "frame_finished")]
        assert finished.count("report") == 1 and (await run.view()).frames == ()


async def test_done_is_refused_while_a_thought_is_open() -> None:
    """The run is held, with what to do; a person gives the thought up, and it ends."""
    async with a_world() as (runs, _):
        run = await runs.start(careless, Desk())
        with pytest.raises(RunHeld, match="frames are open: 'report' at step 2 of 2"):
            await run.result(timeout=120)
        assert (await run.view()).status == "paused"
        answer = await run.abandon("report", "not needed any more", by="ann")
        assert isinstance(answer, Accepted) and answer.mail
        (frame,) = (await run.view()).frames
        assert frame["ordered"] == "abandon report: not needed any more"
        await run.resume()
        assert await run.result(timeout=120) == "all done"
        (abandoned,) = await said(run, "frame_abandoned")
        assert (abandoned.goal, abandoned.by, abandoned.reason) == ("report", "ann", "not needed any more")
        assert [(m.kind, m.status) for m in (await run.view()).mail] == [("order", "consumed")]


async def test_more_thoughts_than_allowed_are_an_error_that_says_so() -> None:
    """R21: depth is capped."""
    async with a_world() as (runs, _):
        run = await runs.start(greedy, Desk())
        with pytest.raises(RunHeld, match=r"the stack is full \(2 of 2\): one, two"):
            await run.result(timeout=120)


async def test_a_thought_can_stay_open_while_the_run_waits() -> None:
    async with a_world() as (runs, _):
        run = await runs.start(patient, Desk())
        await held(run, "waiting")
        assert [f["goal"] for f in (await run.view()).frames] == ["wait for an order"]
        await run.message("not yet")
        await held(run, "waiting")
        await run.message("go")
        assert await run.result(timeout=120) == ["not yet", "go"]
        assert len(await said(run, "frame_opened")) == 1


async def test_a_person_can_send_the_run_back_to_a_thought_of_their_choice() -> None:
    """Not only to the uppermost one."""
    async with a_world() as (runs, world):
        run, gate = await interrupted(runs, world, Desk(answers=3))
        answer = await run.return_to("report", by="ann")
        assert answer and answer.note == "after this step"
        again = await run.return_to("frame-0", by="bob")
        assert again and again.mail == answer.mail and "already" in again.note
        gate.set()
        seen = await run.result(timeout=120)
        assert seen.index("part 1: back to report: at step 2 of 3") > seen.index("read hello")
        assert (await run.view()).frames == ()


async def test_an_unknown_frame_is_refused_with_those_there_are() -> None:
    async with a_world() as (runs, world):
        run, gate = await in_the_middle_of(runs, world, "think report 0")
        refused = await run.abandon("reprot", "typo")
        assert isinstance(refused, Refused)
        (choice,) = refused.choices
        assert (choice.verb, choice.args, choice.label) == (
            *("abandon", {"frame": "frame-0", "reason": ""}),
            "report at step 1 of 3",
        )
        assert isinstance(await run.return_to("reprot"), Refused)
        gate.set()
        await run.result(timeout=120)
        assert await run.abandon("report", "too late") == TooLate("done")


async def test_a_cancelled_run_says_what_became_of_its_thoughts() -> None:
    async with a_world() as (runs, world):
        run, _ = await interrupted(runs, world, Desk())
        await run.cancel(by="ann", reason="enough")
        await run.settled(timeout=120)
        gone = [(e.goal, e.by, e.reason) for e in await said(run, "frame_abandoned")]
        why = "the run was cancelled: enough"
        assert gone == [("report", "ann", why), ("answer hello", "ann", why)]


async def test_a_rewind_takes_thoughts_back_to_what_they_were() -> None:
    async with a_world() as (runs, world):
        run, _ = await interrupted(runs, world, Desk())
        assert await run.rewind(1)
        await held(run, "user")
        assert [(f["goal"], f["done"], f["status"]) for f in (await run.view()).frames] == [("report", 1, "active")]
        (gone,) = await said(run, "frame_abandoned")
        assert (gone.goal, gone.reason) == ("answer hello", "the run was rewound to step 1")


async def test_a_fork_has_the_thoughts_of_its_snapshot() -> None:
    async with a_world() as (runs, world):
        run, gate = await in_the_middle_of(runs, world, "think report 2")
        fork = await run.fork(at=1)
        assert [(f["goal"], f["done"]) for f in (await fork.view()).frames] == [("report", 1)]
        gate.set()
        assert await fork.result(timeout=120) == ["part 0: ", "part 1: ", "part 2: "]
        await run.result(timeout=120)


async def test_an_edit_keeps_the_thoughts() -> None:
    async with a_world() as (runs, world):
        run, gate = await in_the_middle_of(runs, world, "think report 1")
        await run.pause()
        await held(run, "user")
        await run.edit({"seen": ["edited"]})
        gate.set()
        await run.resume()
        assert await run.result(timeout=120) == ["edited", "part 1: ", "part 2: "]


async def test_a_redirect_sets_the_thought_back_with_its_step() -> None:
    async with a_world() as (runs, world):
        run, gate = await in_the_middle_of(runs, world, "think report 1")
        await run.redirect("otherwise")
        await eventually(lambda: world.log.count("think report 1") == 2)
        gate.set()
        await run.result(timeout=120)
        opened = await said(run, "frame_opened")
        assert [e.goal for e in opened] == ["report"]


async def test_frames_are_seen_and_given_up_from_a_process_without_the_agent(tmp_path: Path) -> None:
    store = tmp_path / "runs.db"
    world = World()
    async with Runtime(store, agents=AGENTS, provide={World: world}) as runs:
        run = await runs.start(careless, Desk())
        with pytest.raises(RunHeld):
            await run.result(timeout=120)
    async with Runtime(store, drive=False) as control:
        there = control.handle(run.id)
        assert [f["goal"] for f in (await there.view()).frames] == ["report"]
        assert await there.abandon("frame-0", "from afar", by="ann")
        assert await there.resume()
    async with Runtime(store, agents=AGENTS, provide={World: world}) as runs:
        assert await runs.handle(run.id).result(timeout=120) == "all done"


def test_a_snapshot_without_frames_is_what_it_always_was() -> None:
    """Old stores are read as runs without frames; a run that opens none writes the same bytes as ever."""
    old = b'[]\n{"n": 1}'
    assert thoughts_in(old) == Thoughts()
    assert unpack(old) == ([], b'{"n": 1}')
    assert pack([], b'{"n": 1}', Thoughts()) == old
    assert with_state(old, b"{}") == b"[]\n{}"


async def test_events_of_frames_carry_their_attempt() -> None:
    """Events of a step that was set back stay, tagged with the attempt (RULINGS)."""
    async with a_world() as (runs, world):
        run, gate = await in_the_middle_of(runs, world, "think report 0")
        await runs.crash()
        gate.set()
        await run.result(timeout=120)
        opened = await said(run, "frame_opened")
        assert [e.frame for e in opened] == ["frame-0", "frame-0"]
        assert opened[0].attempt < opened[1].attempt
        finished = {e.attempt for e in await record(run) if e.type == "step_finished"}
        assert [e.attempt in finished for e in opened] == [False, True]
