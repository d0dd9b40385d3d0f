"""Scenarios for guards that random interleavings do not reach, or not soon; each raises when its guard is gone."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import random
import signal
import sqlite3
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from tests.cancel import test_left_running as left
from tests.core import test_odd_errors as odd
from tests.drivers import test_programs_of_the_dead as dead
from tests.frames import test_messages as messages
from tests.frames import test_taking_over as taking_over
from tests.halt import test_halts_that_nobody_set as by_hand
from tests.halt import test_what_held_it_before as before
from tests.halt import test_what_is_halted as halted
from tests.races.sim import Node, Sim, simulate
from tests.races.zoo import PAUSES, Op, Work, worker
from tests.tripwire import test_runs as tripwires

from standfast import Accepted, Budget, CheckAgain, Done, Handle, NotHappened, Run, Runtime, agent, tool
from standfast.stores.chain import digests, link
from standfast.stores.sqlite import connect_sqlite
from standfast.testing import Lab, lab


class Nothing(BaseModel):
    n: int = 0


SLOW = -1
sent: list[int] = []
numbers = itertools.count()


@tool
async def send(n: int) -> int:
    sent.append(n)
    return n


@tool(effect="read")
async def look(n: int) -> int:
    await asyncio.sleep(1 if n == SLOW else 0)
    return n


@agent("fickle")
async def fickle(run: Run[Nothing]) -> Done[int]:
    """Asks for something else each time it is taken."""
    first = await run.call(send(next(numbers)))
    await run.call(look(SLOW))
    return Done(first)


@agent("busy")
async def busy(run: Run[Nothing]) -> None:
    for n in range(100):
        await run.call(look(run.state.n * 1000 + n))
    run.state.n += 1


def _in_lab(scenario: Callable[[Lab], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(20), lab([fickle, busy]) as runs:
            await scenario(runs)

    sent.clear()
    asyncio.run(main())


def a_changed_argument_does_not_send_twice() -> None:
    """The repeated step asks for another write: held first (diverged)."""

    async def scenario(runs: Lab) -> None:
        run = await runs.start(fickle, Nothing())
        await runs.until(run, call="look", point="admitted")
        assert isinstance(await run.pause(), Accepted)
        await run.settled(timeout=10)
        await run.resume()
        view = await run.settled(timeout=10) and await run.view()
        assert view.holds == ("diverged",), view
        assert len(sent) == 1, sent

    _in_lab(scenario)


def a_budget_of_calls_holds() -> None:
    """A cap on calls is looked at for every call, also inside one step (R17)."""

    async def scenario(runs: Lab) -> None:
        run = await runs.start(busy, Nothing(), budget=Budget(calls=5))
        await run.settled(timeout=10)
        view = await run.view()
        assert view.holds == ("budget",), view
        assert view.spent.calls == 5, view.spent

    _in_lab(scenario)


def _with_programs(scenario: Callable[[Path], Coroutine[Any, Any, None]]) -> None:
    """Where what a scenario started and lost does not outlive it."""
    with tempfile.TemporaryDirectory(prefix="standfast-programs-") as name:
        try:
            asyncio.run(asyncio.wait_for(scenario(Path(name)), 15))
        finally:
            for file in Path(name).glob("*.pid"):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(file.read_text()), signal.SIGKILL)


def programs_end_with_their_driver() -> None:
    """R6: a driver is killed, and nobody takes its place."""
    _with_programs(lambda folder: dead.test_programs_end_with_their_driver_however_it_ends(folder, "look", 9))


def a_takeover_ends_what_a_dead_driver_left_running() -> None:
    """R15: its guard was killed with it, and a read is repeated."""
    _with_programs(dead.test_a_read_is_repeated_when_its_first_program_has_ended)


class SlowToCommit:
    """A disk on which a commit takes its time: it is left to the writer's thread."""

    def __init__(self, path: str) -> None:
        self._real = connect_sqlite(path)
        self._writes = False

    def execute(self, sql: str, parameters: Any = (), /) -> Any:
        if sql == "COMMIT" and self._writes:
            time.sleep(0.02)
        self._writes = sql == "BEGIN IMMEDIATE" or (self._writes and sql != "COMMIT")
        return self._real.execute(sql, parameters)

    def close(self) -> None:
        self._real.close()


def a_write_is_durable_before_its_result_is_used() -> None:
    """By the time a step sees the result of a write, a crash would not forget it."""
    known: list[bool] = []

    async def main() -> None:
        async def step(run: Run[Nothing]) -> Done[int]:
            for n in range(8):  # the first few commits are not yet left to the thread
                await run.call(send(n))
                row = runs.read(lambda tx: tx.run(run.id))
                assert row is not None
                known.append(not row.in_flight)
            return Done(1)

        prudent = agent("prudent")(step)
        async with asyncio.timeout(20), Runtime(":memory:", agents=[prudent], connect=SlowToCommit) as runs:
            await (await runs.start(prudent, Nothing())).result()

    asyncio.run(main())
    assert known == [True] * 8, known


def a_record_cannot_be_changed_row_by_row() -> None:
    """Whoever rewrites a row of the record must rewrite all that follow (R32)."""

    async def scenario(runs: Lab) -> None:
        run = await runs.start(fickle, Nothing())
        await run.result(timeout=10)
        row = runs.read(lambda tx: tx.run(run.id))
        assert row is not None
        verify: Any = runs.read
        assert verify(lambda tx: tx.verify(row)) == ""
        with sqlite3.connect(runs._store.path) as file:
            rows = file.execute(
                "SELECT seq, at, body, step, state, hash FROM record WHERE run = ? ORDER BY seq", (row.n,)
            ).fetchall()
            previous = bytes(rows[0][5])
            seq, at, body, step, state, _ = rows[1]
            forged = bytes(body).replace(b"running", b"paused!")
            digest = link(previous, seq, at, step, digests(forged, state))
            file.execute("UPDATE record SET body = ?, hash = ? WHERE run = ? AND seq = ?", (forged, digest, row.n, seq))
        assert verify(lambda tx: tx.verify(row)) != "", "a forged row went unnoticed"

    _in_lab(scenario)


# --- two processes, in the simulation of tests/races ----------------------------------------------------


class Slow(random.Random):
    """Bodies take a minute, probes a second and a half; what is left to chance happens as told."""

    def __init__(self, *, knows: bool) -> None:
        super().__init__(0)
        self._knows = knows

    def choice(self, seq: Any) -> Any:
        return 60.0 if seq is PAUSES else 1.5

    def random(self) -> float:
        return 0.9 if self._knows else 0.1


async def _taken_over(sim: Sim, a: Node, do: str) -> tuple[Node, Handle[Any], str]:
    """A call of process a, which then falls silent; b has taken the run over."""
    run = await a.start(worker, Work(program=[[Op(do=do, n=1)]]))
    while not (view := await run.view()).in_flight:
        await asyncio.sleep(0.01)
    key = view.in_flight[0].id
    frozen = asyncio.ensure_future(a.freeze(70 if do == "traced" else 20))
    sim.keep(frozen)
    b = await sim.another("b")
    while (await b.handle(run.id).view()).driver == view.driver:
        await asyncio.sleep(0.5)
    return b, b.handle(run.id), key


def a_frozen_process_begins_nothing_that_was_taken_from_it() -> None:
    """Admitted, frozen, taken over, done by another: the thawed process must not do it too (R15)."""

    async def scenario(sim: Sim) -> None:
        async with sim.processes("a") as (a,):
            a.hold_still()
            _, run, key = await _taken_over(sim, a, "send")
            while "in_doubt" not in (await run.view()).holds:
                await asyncio.sleep(0.1)
            assert await run.resolve(key, NotHappened())
            await run.result(timeout=15)
            await sim.calm()
            await asyncio.sleep(10)
        assert len(sim.world.of(key, "effect")) == 1, sim.world.of(key, "effect")

    for seed in range(4):  # its control thread may be awake before its event loop, or after
        simulate(seed, scenario)


def a_live_driver_keeps_its_run() -> None:
    """Two processes that both live: the run is claimed once, and never taken."""

    async def scenario(sim: Sim) -> None:
        sim.world.rng = Slow(knows=True)
        async with sim.processes("a", "b") as (a, _):
            run = await a.start(worker, Work(program=[[Op(do="look", n=1)]]))
            await asyncio.sleep(30)
            row = a.read(lambda tx: tx.run(run.id))
            assert row is not None
            assert row.fence == 1, f"it was claimed {row.fence} times"

    simulate(0, scenario)


def an_accepted_cancel_is_never_beaten_by_done() -> None:
    """Completion and cancellation race to one ending, and both sides are told the same (R11)."""

    async def scenario(sim: Sim) -> None:
        async with sim.processes("a") as (a,):
            run = await a.start(worker, Work(program=[]))
            for _ in range(8 + sim.rng.randrange(8)):  # the run ends by itself in about the twelfth turn of the loop
                await asyncio.sleep(0)
            answer = await run.cancel()
            await run.settled(timeout=10)
            status = (await run.view()).status
            assert (status == "cancelled") == isinstance(answer, Accepted), (status, answer)

    for seed in range(150):
        simulate(seed, scenario)


def a_probe_is_not_believed_while_the_body_may_run() -> None:
    """The probe finds nothing, but whoever began the call is not known to be dead: in doubt (RULINGS)."""

    async def scenario(sim: Sim) -> None:
        sim.world.rng = Slow(knows=True)
        async with sim.processes("a") as (a,):
            _, run, key = await _taken_over(sim, a, "traced")
            await asyncio.sleep(10)
            assert (await run.view()).holds == ("in_doubt",)
            assert await run.resolve(key, CheckAgain())
            await asyncio.sleep(10)
            assert (await run.view()).holds == ("in_doubt",)
            await sim.calm()
            await run.result(timeout=100)
        assert len(sim.world.of(key, "effect")) == 1, sim.world.of(key, "effect")

    simulate(0, scenario)


def a_late_result_stands_against_a_probe_that_does_not_know() -> None:
    """While a probe is being asked, the body's own result comes in: it settles the doubt, for good."""

    async def scenario(sim: Sim) -> None:
        sim.world.rng = Slow(knows=False)
        async with sim.processes("a") as (a,):
            _, run, key = await _taken_over(sim, a, "traced")
            while (await run.view()).status != "done":
                await asyncio.sleep(0.5)
                await run.resolve(key, CheckAgain())
                assert asyncio.get_running_loop().time() < 200, await run.view()

    simulate(0, scenario)


# --- thoughts, and a person in the run --------------------------------------------------------------------


def the_note_is_heard_over_a_full_stack() -> None:
    """What a person says on handing the run back is read whatever is on the stack (R24)."""
    asyncio.run(taking_over.test_the_note_is_heard_over_a_full_stack())


def the_agents_step_is_the_same_after_a_persons_steps() -> None:
    """Its calls keep their keys: nothing is done twice (R15, R24)."""
    asyncio.run(taking_over.test_the_note_and_what_was_done_reach_the_agent())
    asyncio.run(taking_over.test_the_agents_step_is_the_same_after_a_persons_steps())


def a_taken_run_stands_still() -> None:
    """No resume lets a run go on that a person has taken over."""
    asyncio.run(taking_over.test_a_taken_run_stands_still_and_says_who_has_it())


def what_was_kept_back_is_read_before_the_end() -> None:
    """A message that had to wait for the stack owes the run a turn (R22)."""
    asyncio.run(messages.test_later_is_read_before_the_run_ends_although_it_read_no_mail_before())


# --- what user code does ---------------------------------------------------------------------------------


def a_probe_must_say_it_plainly() -> None:
    """Anything but Happened and NotHappened is "unknown" (R15)."""
    asyncio.run(odd.test_a_probe_that_does_not_say_it_plainly_does_not_know(True))


def a_later_receipt_names_what_was_left_running() -> None:
    """What a pause left running is in the cancel's receipt (R9)."""
    _in_a_folder(
        lambda folder: left.test_a_thread_that_a_pause_left_running_is_in_the_receipt_of_the_cancel(
            str(folder / "runs.db")
        )
    )


def a_read_that_awaits_something_cancelled_fails_alone() -> None:
    """It is no cancellation of the step (R6)."""
    asyncio.run(odd.test_a_cancelled_read_fails_alone_among_its_siblings())


# --- halts -----------------------------------------------------------------------------------------------


def _in_a_folder(scenario: Callable[[Path], Coroutine[Any, Any, None]]) -> None:
    async def main(folder: str) -> None:
        async with asyncio.timeout(60):
            await scenario(Path(folder))

    with tempfile.TemporaryDirectory(prefix="standfast-guard-") as folder:
        asyncio.run(main(folder))


def a_halted_run_is_not_claimed() -> None:
    _in_a_folder(
        lambda folder: by_hand.test_a_queued_run_is_not_claimed_under_a_halt_that_was_put_there_by_hand(
            folder, by_hand.ALL
        )
    )


def an_unreadable_halt_holds_everything() -> None:
    _in_a_folder(
        lambda folder: by_hand.test_a_queued_run_is_not_claimed_under_a_halt_that_was_put_there_by_hand(
            folder, b"nonsense"
        )
    )


def a_halted_run_is_not_taken_over_to_be_driven() -> None:
    _in_a_folder(by_hand.test_a_run_taken_over_from_a_dead_driver_is_settled_and_not_driven)


def a_halted_agent_is_not_started() -> None:
    asyncio.run(halted.test_a_start_is_refused_with_the_reason_until_the_halt_is_lifted({"agent": "writer"}))


def a_child_of_a_halted_agent_waits() -> None:
    asyncio.run(halted.test_a_child_of_a_halted_agent_begins_as_held_and_its_parent_waits())


def a_noted_resume_outlives_a_halt() -> None:
    asyncio.run(before.test_a_resume_asked_for_before_the_halt_is_taken_at_the_lift())


def a_rewind_ends_as_it_would_without_the_halt() -> None:
    asyncio.run(before.test_a_rewind_under_way_ends_and_leaves_the_run_as_it_would_have())


def a_trip_ends_the_call() -> None:
    asyncio.run(tripwires.test_pause_closes_the_stream_and_holds_the_run_with_a_need(tripwires.LEAK, "text"))


def a_resume_lets_a_tripped_call_pass() -> None:
    passes = tripwires.test_resume_lets_the_call_pass_marked_and_only_that_call()
    asyncio.run(asyncio.wait_for(passes, 30))  # without its guard the call is held again, and waited for
