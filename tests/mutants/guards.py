"""Scenarios for guards that random interleavings do not reach, or not soon; each raises when its guard is gone."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import random
import signal
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from tests.budget import test_equal_writes as equal
from tests.cancel import test_begun_too_late as too_late
from tests.cancel import test_clean_up as clean_up
from tests.cancel import test_clean_up_side_by_side as side_by_side
from tests.cancel import test_handed_back as handed_back
from tests.cancel import test_left_by_calls as left_by_calls
from tests.cancel import test_left_by_steps as left_by_steps
from tests.cancel import test_left_running as left
from tests.cancel import test_owned_programs as programs
from tests.cancel import test_owned_threads as threads
from tests.cancel import test_retries as tried_again
from tests.conformance import test_tokens as tokens
from tests.core import test_changed_stages as stages
from tests.core import test_context_variables as contexts
from tests.core import test_few_threads as few_threads
from tests.core import test_odd_errors as odd
from tests.drivers import test_few_descriptors as few
from tests.drivers import test_full_disk as full
from tests.drivers import test_programs_of_the_dead as dead
from tests.evidence import test_forget_in_slices as slices
from tests.evidence import test_names_agree as agreeing
from tests.frames import test_messages as messages
from tests.frames import test_taking_over as taking_over
from tests.halt import test_halts_that_nobody_set as by_hand
from tests.halt import test_what_held_it_before as before
from tests.halt import test_what_is_halted as halted
from tests.helpers import database
from tests.ledger import test_missing_code as missing
from tests.mail import test_fates as fates
from tests.mail import test_fates_shown as fates_shown
from tests.mail import test_read_after_all as read
from tests.questions import test_ask as asking
from tests.questions import test_checked_outside as checked
from tests.races.sim import Node, Sim, simulate
from tests.races.zoo import PAUSES, Op, Work, worker
from tests.tripwire import test_runs as tripwires
from tests.unit import test_control_thread as control_threads
from tests.unit import test_live_text as live_texts
from tests.unit import test_names as names

from standfast import Accepted, Budget, CheckAgain, Done, Handle, NotHappened, Run, Runtime, agent, tool
from standfast.abc import Store
from standfast.stores import sqlite_evidence
from standfast.stores.chain import digests, link
from standfast.stores.sqlite import SqliteStore, connect_sqlite
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
        async with asyncio.timeout(120), lab([fickle, busy]) as runs:
            await scenario(runs)

    sent.clear()
    asyncio.run(main())


def a_changed_argument_does_not_send_twice() -> None:
    """The repeated step asks for another write: held first (diverged)."""

    async def scenario(runs: Lab) -> None:
        run = await runs.start(fickle, Nothing())
        await runs.until(run, call="look", point="admitted")
        assert isinstance(await run.pause(), Accepted)
        await run.settled(timeout=120)
        await run.resume()
        view = await run.settled(timeout=120) and await run.view()
        assert view.holds == ("diverged",), view
        assert len(sent) == 1, sent

    _in_lab(scenario)


def a_budget_of_calls_holds() -> None:
    """A cap on calls is looked at for every call, also inside one step (R17)."""

    async def scenario(runs: Lab) -> None:
        run = await runs.start(busy, Nothing(), budget=Budget(calls=5))
        await run.settled(timeout=120)
        view = await run.view()
        assert view.holds == ("budget",), view
        assert view.spent.calls == 5, view.spent

    _in_lab(scenario)


def _with_programs(scenario: Callable[[Path], Coroutine[Any, Any, None]]) -> None:
    """Where what a scenario started and lost does not outlive it."""
    with tempfile.TemporaryDirectory(prefix="standfast-programs-") as name:
        try:
            asyncio.run(asyncio.wait_for(scenario(Path(name)), 120))
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
        async with asyncio.timeout(120), Runtime(":memory:", agents=[prudent], connect=SlowToCommit) as runs:
            await (await runs.start(prudent, Nothing())).result()

    asyncio.run(main())
    assert known == [True] * 8, known


def a_record_cannot_be_changed_row_by_row() -> None:
    """Whoever rewrites a row of the record must rewrite all that follow (R32)."""

    async def scenario(runs: Lab) -> None:
        run = await runs.start(fickle, Nothing())
        await run.result(timeout=120)
        row = runs.read(lambda tx: tx.run(run.id))
        assert row is not None
        verify: Any = runs.read
        assert verify(lambda tx: tx.verify(row)) == ""
        with database(runs._store.path) as file:
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
            await run.result(timeout=120)
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
            await run.settled(timeout=120)
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


def the_agents_steps_keep_their_numbers() -> None:
    """Whatever people did in between, also in a fork and after a rewind (R24)."""
    asyncio.run(taking_over.test_the_agents_own_step_keeps_its_number_when_a_person_acts("while taken", 1))
    asyncio.run(taking_over.test_a_rewind_and_a_fork_count_the_agents_own_steps_too())


def what_is_sent_for_a_step_is_read_there() -> None:
    """Also if a person acts before that step (R24)."""
    asyncio.run(taking_over.test_a_redirect_for_the_step_after_is_read_there_although_a_person_acts_before())


def a_taken_run_stands_still() -> None:
    """No resume lets a run go on that a person has taken over."""
    asyncio.run(taking_over.test_a_taken_run_stands_still_and_says_who_has_it())


def what_was_kept_back_is_read_before_the_end() -> None:
    """A message that had to wait for the stack owes the run a turn (R22)."""
    asyncio.run(messages.test_later_is_read_before_the_run_ends_although_it_read_no_mail_before())


def an_open_question_stays_listed() -> None:
    """Whatever a run does beside its question, it is among those that need someone (R26)."""
    asyncio.run(asking.test_a_run_with_an_open_question_stays_listed_whatever_it_writes_beside_it())


# --- redirects and stages ---------------------------------------------------------------------------------


def an_unread_redirect_is_noticed() -> None:
    """A step that ends without reading its redirect leaves a need (R40)."""
    asyncio.run(fates.test_a_step_that_ends_without_reading_a_redirect_shows_a_need())


def what_is_unread_below_is_shown_above() -> None:
    """A redirect that a child has left unread is shown on the runs above it (R40)."""
    asyncio.run(fates_shown.test_what_runs_below_have_left_unread_is_shown_on_those_above_until_it_is_settled())


def a_typed_name_is_claimed() -> None:
    """A name is proved only where a server asked for a token (R32)."""
    for case in names.CASES:
        names.test_names_are_called_claimed_as_on_the_page(case)


def what_is_done_later_keeps_its_token() -> None:
    """A halt, and a resume that waits for its lift, name who asked as proved by the token that was shown (R31)."""
    _in_a_folder(agreeing.test_what_is_done_later_keeps_the_token_with_which_it_was_asked_for)


def what_was_read_is_not_dropped() -> None:
    """A redirect that the step in progress has read is applied, whatever people wish now (R40)."""
    asyncio.run(read.test_a_redirect_that_has_been_read_can_neither_be_dropped_nor_sent_again("drop"))


def what_was_dropped_is_not_acted_on() -> None:
    """The step is taken again without it (R40)."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(read.test_a_verb_between_reading_and_its_record_counts(Path(folder), "drop", [[]], "returned"))


def no_other_stage_gets_it() -> None:
    """What was meant for one stage does not rewrite the next (R40)."""
    asyncio.run(fates.test_a_stage_that_does_not_read_its_new_title_is_not_ticked_under_it())


def what_cannot_be_read_is_refused() -> None:
    """No redirect is taken for a stage that declares none (R40)."""
    asyncio.run(fates.test_a_stage_that_declares_no_redirects_refuses_them_and_the_control_says_why())


def only_what_would_be_taken_is_offered() -> None:
    """Each choice of a need can be sent back as it is (R40)."""
    asyncio.run(equal.test_a_held_loop_offers_only_what_would_be_taken("agent", takes=False))


def a_removed_stage_ends_its_step() -> None:
    """Equal calls of a removed stage do not stand for those of the next (R16)."""
    with tempfile.TemporaryDirectory(prefix="standfast-guard-") as folder:
        asyncio.run(stages.test_equal_calls_of_a_removed_stage_do_not_stand_for_those_of_the_next(Path(folder, "r.db")))


def what_is_in_progress_is_ended_first() -> None:
    """A stage that a deploy inserts before the one in progress does not take its step (R16)."""
    with tempfile.TemporaryDirectory(prefix="standfast-guard-") as folder:
        path = Path(folder, "r.db")
        asyncio.run(stages.test_a_pinned_version_goes_on_with_the_changed_stages_known_by_name(path))


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


def a_write_is_undone_after_its_threads() -> None:
    """Charged after refunded never happens (R39)."""
    _in_a_folder(
        lambda folder: threads.test_a_write_is_undone_once_its_blocking_thread_has_ended(str(folder / "runs.db"))
    )


def a_stop_waits_for_the_threads_of_a_step() -> None:
    """Settled is not said while they run on (R39)."""
    _in_a_folder(
        lambda folder: threads.test_a_thread_of_a_step_has_ended_when_the_cancel_is_settled(
            str(folder / "runs.db"), threads.with_to_thread
        )
    )


def a_stop_ends_the_programs_of_a_step() -> None:
    """Whoever started them, and how (R39)."""
    _in_a_folder(
        lambda folder: programs.test_programs_of_a_step_have_ended_when_the_pause_is_settled(
            str(folder / "runs.db"), folder, programs.by_asyncio_exec
        )
    )


def a_read_that_awaits_something_cancelled_fails_alone() -> None:
    """It is no cancellation of the step (R6)."""
    asyncio.run(odd.test_a_cancelled_read_fails_alone_among_its_siblings())


def a_cut_call_may_clean_up() -> None:
    """One cancellation, then its grace (R39)."""
    _in_a_folder(
        lambda folder: clean_up.test_a_cancelled_tool_closes_what_it_has_opened(
            str(folder / "runs.db"), {"effect": "read"}
        )
    )


def a_cut_task_does_not_cut_those_it_waits_for_twice() -> None:
    """Parents first, and what they have cancelled is left alone (R39)."""
    _in_a_folder(
        lambda folder: clean_up.test_the_code_of_a_step_closes_what_it_has_opened(
            str(folder / "runs.db"), clean_up.in_a_task_group, "cancel"
        )
    )


def no_try_begins_after_a_stop() -> None:
    """It is remembered over the end of the try that it found (R6)."""
    _in_a_folder(
        lambda folder: tried_again.test_a_stop_while_a_try_that_took_too_long_cleans_up_lets_no_other_begin(
            str(folder / "runs.db"), "in_the_loop", tried_again.cancel
        )
    )


def calls_side_by_side_may_clean_up() -> None:
    """Whoever waits for them is cut too, and passes nothing on (R39)."""
    _in_a_folder(
        lambda folder: side_by_side.test_a_cancel_lets_calls_side_by_side_close_what_they_have_opened(
            str(folder / "runs.db"), side_by_side.by_call_all, "read"
        )
    )


def a_timer_of_a_stopped_step_begins_nothing() -> None:
    """Settled means that nothing comes after it (R39)."""
    _in_a_folder(
        lambda folder: too_late.test_a_task_that_a_timer_starts_after_the_end_never_begins(
            str(folder / "runs.db"), folder, too_late.OfAStep
        )
    )


def a_timer_of_a_cut_call_begins_nothing() -> None:
    """Nor does anything begin after an undo (R39)."""
    _in_a_folder(
        lambda folder: too_late.test_a_thread_that_a_timer_starts_after_the_end_never_begins(
            str(folder / "runs.db"), folder, too_late.OfAWrite, "cancel", False
        )
    )


def a_refused_call_is_not_clean_up() -> None:
    """It is cancelled again at once, and what comes after it has its time (R39)."""
    _in_a_folder(
        lambda folder: clean_up.test_clean_up_that_asks_the_gate_is_cancelled_again_at_once(str(folder / "runs.db"))
    )


def a_step_begins_with_a_clean_context() -> None:
    """With or without a restart (R4)."""
    asyncio.run(contexts.test_a_step_does_not_see_what_the_step_before_it_has_set())


# --- halts -----------------------------------------------------------------------------------------------


def _in_a_folder(scenario: Callable[[Path], Coroutine[Any, Any, None]]) -> None:
    async def main(folder: str) -> None:
        async with asyncio.timeout(120):
            await scenario(Path(folder))

    with tempfile.TemporaryDirectory(prefix="standfast-guard-") as folder:
        asyncio.run(main(folder))


def who_cannot_look_takes_nobody_for_dead() -> None:
    few.test_a_process_that_cannot_be_looked_at_is_not_taken_for_dead()


def readers_do_not_come_and_go_while_all_are_woken() -> None:
    asyncio.run(control_threads.test_readers_do_not_come_and_go_while_all_are_woken())


def room_is_for_stops_alone() -> None:
    with tempfile.TemporaryDirectory(prefix="standfast-guard-") as folder:
        full.ordinary_writes_are_refused_while_the_reserve_is_short(Path(folder))


def what_a_crash_has_left_says_nothing() -> None:
    _in_a_folder(full.test_what_a_crash_on_a_full_disk_has_left_refuses_nothing_once_there_is_room)


def a_stop_holds_that_cannot_be_written() -> None:
    full.world = full.World()
    _in_a_folder(
        lambda folder: full.test_a_stop_that_cannot_be_written_holds_here_and_is_recorded_later(
            folder, full.files_limited, "cancel"
        )
    )


def stops_that_cannot_be_written_are_all_kept() -> None:
    full.world = full.World()
    _in_a_folder(full.test_a_take_over_is_not_taken_for_the_pause_that_came_before_it)


def who_lacks_the_undo_says_how_to_bring_it() -> None:
    _in_a_folder(missing.test_a_driver_without_the_undo_says_so_to_everybody_and_can_be_left_at_once)


def who_lacks_the_probe_says_how_to_bring_it() -> None:
    _in_a_folder(missing.test_a_doubt_whose_probe_is_not_here_says_how_to_bring_it)


def a_stop_that_does_not_hold_is_answered_with_the_error() -> None:
    full.world = full.World()
    _in_a_folder(full.test_a_stop_that_is_neither_written_nor_holds_here_is_answered_with_the_error)


def runs_go_on_without_a_thread_to_write_in() -> None:
    with pytest.MonkeyPatch.context() as patch:
        room = few_threads.without_threads(patch)
        _in_a_folder(lambda folder: few_threads.test_a_run_goes_on_where_no_thread_can_be_started(folder, room))


def a_blocked_loop_takes_no_time_from_clean_up() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("standfast.drivers.local.WEDGED_SECONDS", 100.0)
        _in_a_folder(
            lambda folder: clean_up.test_a_loop_that_stands_still_takes_no_time_from_clean_up(
                str(folder / "runs.db"), "step"
            )
        )


def what_a_step_leaves_ends_with_it() -> None:
    _in_a_folder(
        lambda folder: left_by_steps.test_a_thread_that_a_step_leaves_is_cut_and_the_record_says_so(
            str(folder / "runs.db"), left_by_steps.in_an_executor, "idle"
        )
    )


def what_a_step_leaves_running_is_named() -> None:
    _in_a_folder(
        lambda folder: left_by_steps.test_a_later_cancel_knows_of_it(
            str(folder / "runs.db"), left_by_steps.Deaf("thread"), "idle"
        )
    )


def what_a_call_leaves_running_keeps_its_undo_in_doubt() -> None:
    work = left_by_steps.Deaf("executor of its own")
    play = left_by_calls.test_an_undo_is_in_doubt_while_what_its_call_has_left_goes_on
    try:
        _in_a_folder(lambda folder: play(str(folder / "runs.db"), work, "next step"))
    finally:
        work.let_go()


def an_undo_ends_with_what_it_has_started() -> None:
    play = left_by_calls.test_a_call_is_undone_when_what_its_undo_has_started_has_ended
    _in_a_folder(lambda folder: play(str(folder / "runs.db"), "task"))


def an_undo_ends_with_what_sleeps_and_then_acts() -> None:
    play = left_by_calls.test_what_sleeps_and_then_acts_is_waited_for
    with pytest.MonkeyPatch.context() as patch:
        _in_a_folder(lambda folder: play(str(folder / "runs.db"), patch))


def what_a_thread_hands_back_is_cut_with_its_call() -> None:
    _in_a_folder(
        lambda folder: handed_back.test_it_is_cut_with_a_write_and_ends_before_the_undo(
            str(folder / "runs.db"), "sync tool", handed_back.and_waits
        )
    )


def what_a_thread_hands_back_may_clean_up() -> None:
    _in_a_folder(
        lambda folder: handed_back.test_it_may_clean_up_undisturbed(
            str(folder / "runs.db"), "sync tool", handed_back.and_gives_up
        )
    )


def a_task_that_a_thread_has_nudged_is_cut_at_once() -> None:
    _in_a_folder(
        lambda folder: handed_back.test_a_task_that_a_thread_has_nudged_is_cut_at_once(str(folder / "runs.db"), "step")
    )


def what_a_portal_has_begun_is_not_called_finished() -> None:
    _in_a_folder(
        lambda folder: handed_back.test_what_a_portal_has_begun_is_not_called_finished(str(folder / "runs.db"))
    )


def a_thread_that_was_cut_counts_beside_one_that_waits() -> None:
    _in_a_folder(
        lambda folder: handed_back.test_a_thread_that_was_cut_counts_beside_one_that_waits(
            str(folder / "runs.db"), handed_back.Charge.acts_when_it_is_cut
        )
    )


def what_before_starts_is_owned() -> None:
    _in_a_folder(
        lambda folder: left_by_calls.test_what_before_has_started_is_cut_before_the_undo(str(folder / "runs.db"))
    )


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
    asyncio.run(asyncio.wait_for(passes, 120))  # without its guard the call is held again, and waited for


def what_came_to_its_own_end_is_not_aborted() -> None:
    _in_a_folder(
        lambda folder: threads.test_a_cut_write_whose_thread_came_to_its_own_end_is_not_called_aborted(
            str(folder / "runs.db"), threads.with_to_thread, None
        )
    )


def equal_children_are_held() -> None:
    asyncio.run(asyncio.wait_for(equal.test_the_same_child_in_consecutive_steps_is_held_like_a_write(), 120))


def equal_writes_are_held() -> None:
    asyncio.run(equal.test_a_cancel_leaves_it_at_two())


def _with_a_store(promise: Callable[[Store], None]) -> None:
    store = SqliteStore(":memory:")
    store.create()
    try:
        promise(store)
    finally:
        store.close()


def a_revoked_token_has_no_new_children() -> None:
    _with_a_store(tokens.test_no_token_is_made_with_one_that_counts_no_longer)


def a_token_counts_with_those_above_it() -> None:
    _with_a_store(tokens.test_a_token_counts_only_while_all_those_above_it_count)


def live_text_has_no_gaps() -> None:
    live_texts.test_a_reader_that_joins_in_the_middle_gets_the_record_first_and_then_what_goes_beyond_it()


def a_stop_goes_through_while_an_answer_is_checked() -> None:
    checked.BARRIER = barrier = checked.Barrier()
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        play = checked.test_a_stop_goes_through_while_what_somebody_says_is_checked
        asyncio.run(play("answer", Path(folder), barrier, patched))


def forgetting_takes_short_transactions() -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr(sqlite_evidence, "SLICE_ROWS", slices.ROWS)
        asyncio.run(slices.test_large_rows_are_deleted_one_by_one(Path(folder), patched))
