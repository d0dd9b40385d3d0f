"""Whatever a run was doing when a halt came: after the lift it is held by what would hold it without the halt (R13)."""

from __future__ import annotations

from collections.abc import Callable

from tests.halt.world import Job, World, a_world, asker, boss, drafter, write, writer
from tests.helpers import eventually, held

from standfast import Accepted, Answer, Halt, Handle, Refused, control, verbs
from standfast.abc import Tx
from standfast.control import Ask
from standfast.testing import Lab
from standfast.verbs import set_halt, wanted_halt


async def writing(runs: Lab, world: World, steps: int = 2) -> Handle[int]:
    """A writer whose first write does not end before its gate is opened."""
    world.shut_at("write 0")
    run = await runs.start(writer, Job(steps=steps))
    await eventually(lambda: "write 0" in world.log)
    return run


async def taken_over(runs: Lab, world: World) -> Handle[int]:
    """A writer that ann has taken over after its first write."""
    run = await writing(runs, world)
    await run.take_over(by="ann")
    world.shut["write 0"].set()
    await held(run, "taken")
    return run


def _perform(runs: Lab, run: Handle[int], n: int) -> Callable[[Tx], Answer]:
    """A person's order, without waiting for what comes of it."""
    act = verbs.perform("write", {"n": n}, runs.ids.mail())
    return lambda tx: control.carry_out(tx, run.id, "perform", Ask(by="ann"), act)


async def test_a_queued_run_is_held_and_queued_again() -> None:
    async with a_world() as (runs, world):
        run = await writing(runs, world)
        (await run.pause(), world.shut["write 0"].set())
        await held(run, "user")
        halt = await runs.halt(all=True, reason="x")
        assert (await run.view()).holds == ("user", "halted")
        await runs.lift(halt.id)
        assert ((view := await run.view()).status, view.holds) == ("paused", ("user",))
        assert await run.resume()
        assert await run.result(timeout=120) == 2


async def test_a_run_that_is_pausing_already_stays_paused_after_the_lift() -> None:
    async with a_world() as (runs, world):
        run = await writing(runs, world)
        await run.pause(by="ann", reason="lunch")
        halt = await runs.halt(all=True, reason="x")
        world.shut["write 0"].set()
        await held(run, "user", "halted")
        receipt = await run.settled()
        assert (receipt.by, receipt.reason) == ("ann", "lunch"), "the stop is hers: she was first"
        await runs.lift(halt.id)
        await held(run, "user")


async def test_a_halt_lifted_before_the_run_has_settled_lets_it_go_on() -> None:
    async with a_world() as (runs, world):
        run = await writing(runs, world)
        halt = await runs.halt(all=True, reason="x")
        await runs.lift(halt.id)
        assert (await run.view()).status == "pausing"
        world.shut["write 0"].set()
        assert await run.result(timeout=120) == 2
        assert world.log == ["write 0", "write 1"]


async def test_a_resume_asked_for_before_the_halt_is_taken_at_the_lift() -> None:
    """R4: noted is not forgotten; but a resume during the halt is refused, also while it settles."""
    async with a_world() as (runs, world):
        run = await writing(runs, world)
        await run.pause()
        noted = await run.resume(note="go on then")
        assert isinstance(noted, Accepted) and "when the pause has settled" in noted.note
        halt = await runs.halt(all=True, reason="x")
        assert isinstance(await run.resume(), Refused)
        world.shut["write 0"].set()
        await held(run, "user", "halted")
        await runs.lift(halt.id)
        assert await run.result(timeout=120) == 2


async def test_a_pause_during_the_halt_takes_the_noted_resume_back() -> None:
    async with a_world() as (runs, world):
        run = await writing(runs, world)
        (await run.pause(), await run.resume())
        halt = await runs.halt(all=True, reason="x")
        world.shut["write 0"].set()
        await held(run, "user", "halted")
        assert await run.pause()
        await runs.lift(halt.id)
        await held(run, "user")


async def test_children_that_were_paused_with_their_parent_stay_so() -> None:
    """R3: and go on with it."""
    async with a_world() as (runs, world):
        world.shut_at("write 0")
        run = await runs.start(boss, Job())
        await eventually(lambda: "write 0" in world.log)
        await run.pause()
        halt = await runs.halt(all=True, reason="x")
        world.shut["write 0"].set()
        await held(run, "user", "halted")
        await runs.lift(halt.id)
        views = await runs.list()
        assert {(view.status, view.holds) for view in views} == {("paused", ("user",))}
        assert await run.resume()
        assert await run.result(timeout=120) == 2


async def test_one_step_is_one_step_also_with_a_halt_in_the_middle_of_it() -> None:
    """R29"""
    async with a_world() as (runs, world):
        run = await writing(runs, world, 4)
        await run.pause()
        world.shut["write 0"].set()
        await held(run, "user")
        gate = world.shut_at("write 1")
        at = (await run.view()).step
        assert await run.step_once()
        await eventually(lambda: "write 1" in world.log)
        halt = await runs.halt(all=True, reason="x")
        gate.set()
        await held(run, "halted")
        await runs.lift(halt.id)
        view = await run.view()  # the step was finished while the run was being stopped
        assert (view.status, view.holds, view.step) == ("paused", ("user",), at + 1)
        assert await run.resume()
        assert await run.result(timeout=120) == 4


async def test_a_rewind_under_way_ends_and_leaves_the_run_as_it_would_have() -> None:
    """R29: rewind() holds the run afterwards; redirect(from_step) lets it go on."""
    for redirected in (False, True):
        async with a_world() as (runs, world):
            gate = world.shut_at("undone")
            world.shut_at("read 0")
            run = await runs.start(drafter, Job())
            await eventually(lambda: "read 0" in world.log)
            answer = await (run.redirect("again", from_step=0) if redirected else run.rewind(0))
            assert isinstance(answer, Accepted)
            await eventually(lambda: "undone" in world.log)
            halt = await runs.halt(all=True, reason="x")
            world.shut["read 0"].set()
            gate.set()
            await held(run, *(("halted",) if redirected else ("halted", "user")))
            assert world.log.count("draft 0") == 1
            await runs.lift(halt.id)
            if not redirected:
                await held(run, "user")
                assert await run.resume()
            assert await run.result(timeout=120) == 0
            assert world.log.count("draft 0") == 2


async def test_a_halted_run_is_not_set_back_because_that_would_act() -> None:
    """R13: undo is code in the world too."""
    async with a_world() as (runs, world):
        world.shut_at("read 0")
        run = await runs.start(drafter, Job())
        await eventually(lambda: "read 0" in world.log)
        halt = await runs.halt(all=True, reason="leaking")
        await held(run, "halted")
        for answer in (await run.rewind(0), await run.redirect("again", from_step=0)):
            assert isinstance(answer, Refused) and "leaking" in answer.why
        assert isinstance(await run.redirect("otherwise"), Accepted), "mail waits"
        assert "undone" not in world.log
        assert (await run.view()).mail[0].text == "otherwise" and len((await run.view()).mail) == 1
        await runs.lift(halt.id)


async def test_a_run_that_a_person_has_taken_over_stays_theirs() -> None:
    """R24"""
    async with a_world() as (runs, _):
        run = await runs.start(asker, Job())
        await held(run, "asks")
        assert await run.take_over(by="ann")
        halt = await runs.halt(all=True, reason="leaking")
        refused = await runs.handle(run.id).hand_back("go", by="ann")
        assert isinstance(refused, Accepted) and "when the halt is lifted" in refused.note
        await held(run, "asks", "halted")
        assert await run.take_over(by="bob")
        await runs.lift(halt.id)
        await held(run, "asks", "taken")


async def test_a_person_performs_nothing_while_it_is_halted() -> None:
    """R24, R13: refused; what was in progress when the halt came may finish, and is not done twice."""
    async with a_world() as (runs, world):
        run = await taken_over(runs, world)
        gate = world.shut_at("write 7")
        order = await runs.control(_perform(runs, run, 7))
        assert isinstance(order, Accepted)
        await eventually(lambda: "write 7" in world.log)
        halt = await runs.halt(all=True, reason="leaking")
        gate.set()
        await held(run, "taken", "halted")
        assert isinstance(await runs.control(_perform(runs, run, 8)), Refused)
        await runs.lift(halt.id)
        await held(run, "taken")
        assert await run.perform(write(9), by="ann", timeout=120) == 9
        assert (world.log.count("write 7"), world.log.count("write 8")) == (1, 0)


async def test_what_a_person_wants_performed_waits_for_the_lift() -> None:
    """R24: queued when the halt came, performed afterwards."""
    async with a_world() as (runs, world):
        run = await taken_over(runs, world)

        def at_once(tx: Tx) -> tuple[Answer, Halt]:
            """Both in one transaction: no driver comes between."""
            return perform(tx), set_halt(tx, wanted, runs.is_dead)

        perform = _perform(runs, run, 7)
        wanted = wanted_halt("h", agent=None, labels=None, all=True, then="pause", reason="x", by=None)
        assert isinstance((await runs.control(at_once))[0], Accepted)
        view = await run.view()
        assert (view.status, set(view.holds)) == ("paused", {"taken", "halted"})
        assert "write 7" not in world.log
        await runs.lift("h")
        await eventually(lambda: "write 7" in world.log)
        await held(run, "taken")
