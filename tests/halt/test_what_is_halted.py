"""A halt stops every run it matches, in one transaction, and none starts or goes on until it is lifted (R13)."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from tests.halt.world import Job, a_world, asker, boss, drafter, idler, writer
from tests.helpers import eventually, held

from standfast import Accepted, Halted, Happened, Misuse, Refused, RunCancelled, UnknownHalt
from standfast.abc import Tx
from standfast.events import RunHalted, RunLifted
from standfast.house_events import HaltLifted, HaltSet
from standfast.testing import Lab
from standfast.verbs import set_halt, wanted_halt

WHATS: list[dict[str, Any]] = [
    {"all": True},
    {"agent": "writer"},
    {"labels": {"team": "a"}},
    {"agent": "writer", "labels": {"team": "a", "env": "test"}},
]


async def events(runs: Lab, id_: str, kind: type[Any]) -> list[Any]:
    row = runs.read(lambda tx: tx.run(id_))
    assert row is not None
    return [e for _, es in runs.read(lambda tx: tx.record(row.n, 0)) for e in es if isinstance(e, kind)]


@pytest.mark.parametrize("what", WHATS, ids=str)
async def test_a_halt_stops_what_it_matches_and_names_what_is_in_flight(what: dict[str, Any]) -> None:
    """R13: by agent, by label, all; the write in flight may finish, nothing else begins."""
    async with a_world() as (runs, world):
        gate = world.shut_at("write 0")
        run = await runs.start(writer, Job(), labels={"team": "a", "env": "test"})
        await eventually(lambda: "write 0" in world.log)
        halt = await runs.halt(**what, reason="leaking", by="op")
        assert (halt.runs, [(ref.tool, ref.run) for ref in halt.in_flight]) == (1, [("write", run.id)])
        assert (await run.view()).status == "pausing"
        refused = await run.resume()
        assert isinstance(refused, Refused) and "leaking (claimed by op)" in refused.why
        gate.set()
        view = await held(run, "halted")
        assert view.waiting_for == "halted: leaking (claimed by op)"
        receipt = await run.settled()
        assert (receipt.trigger, receipt.by, receipt.reason) == ("operator", "op", "leaking")
        for verb in (run.resume, run.step_once):
            refused = await verb()
            assert isinstance(refused, Refused) and "leaking (claimed by op)" in refused.why
        assert world.log == ["write 0"]
        lifted = await runs.lift(halt.id, by="op", reason="fixed")
        assert lifted.lifted_at is not None and lifted.runs == 1
        assert await run.result(timeout=120) == 2
        assert world.log == ["write 0", "write 1"]
        (halted,) = await events(runs, run.id, RunHalted)
        (freed,) = await events(runs, run.id, RunLifted)
        assert (halted.halt, halted.by, halted.reason, freed.by, freed.reason) == (
            *(halt.id, "op", "leaking"),
            *("op", "fixed"),
        )


@pytest.mark.parametrize("then", ["pause", "cancel"])
async def test_a_halt_names_what_a_run_that_is_being_cancelled_has_in_flight(then: Literal["pause", "cancel"]) -> None:
    """R13: and with "cancel" it does not wait for what a soft cancel would let end."""
    async with a_world() as (runs, world):
        gate = world.shut_at("read 0")
        run = await runs.start(drafter, Job())
        await eventually(lambda: "read 0" in world.log)
        await run.cancel(soft=True)
        halt = await runs.halt(agent="drafter", reason="leaking", then=then)
        assert (halt.runs, [ref.tool for ref in halt.in_flight]) == (0, ["read"])
        if then == "pause":
            assert (await run.view()).status == "cancelling"
            gate.set()
        receipt = await run.settled(10)
        assert [flight.outcome for flight in receipt.in_flight] == ["finished" if then == "pause" else "aborted"]


@pytest.mark.parametrize(
    "what", [{"agent": "asker"}, {"labels": {"team": "b"}}, {"agent": "writer", "labels": {"team": "b"}}], ids=str
)
async def test_a_halt_leaves_others_alone(what: dict[str, Any]) -> None:
    async with a_world() as (runs, _):
        halt = await runs.halt(**what, reason="x")
        assert halt.runs == 0
        run = await runs.start(writer, Job(), labels={"team": "a"})
        assert await run.result(timeout=120) == 2


@pytest.mark.parametrize("what", WHATS[:3], ids=str)
async def test_a_start_is_refused_with_the_reason_until_the_halt_is_lifted(what: dict[str, Any]) -> None:
    async with a_world() as (runs, _):
        there = await runs.start(writer, Job(steps=1), id="there", labels={"team": "a"})
        await there.result(timeout=120)
        halt = await runs.halt(**what, reason="leaking", by="op")
        starts: list[Any] = [
            lambda: runs.start(writer, Job(), labels={"team": "a"}),
            lambda: runs.start("writer", {}, labels={"team": "a"}),
            lambda: there.fork(at=0),
        ]
        for start in starts:
            with pytest.raises(Halted, match=r"leaking \(claimed by op\); no run was started") as refused:
                await start()
            assert refused.value.halts == (halt.id,) and halt.id in refused.value.hint
        assert [view.id for view in await runs.list()] == ["there"]
        same = await runs.start(writer, Job(steps=1), id="there", labels={"team": "a"})
        assert same.id == "there", "what was started before the halt is found, not started"
        await runs.lift(halt.id)
        assert await (await runs.start(writer, Job(), labels={"team": "a"})).result(timeout=120) == 2


async def test_a_halt_may_cancel_what_it_stops_and_still_holds_the_door() -> None:
    """R13, R8: as asked; effects in flight are undone as by any cancel."""
    async with a_world() as (runs, world):
        world.shut_at("read 0")
        run = await runs.start(drafter, Job())
        await eventually(lambda: "read 0" in world.log)
        halt = await runs.halt(agent="drafter", then="cancel", reason="gone wrong", by="op")
        assert [ref.tool for ref in halt.in_flight] == ["read"]
        with pytest.raises(RunCancelled) as ended:
            await run.result(timeout=120)
        receipt = ended.value.receipt
        assert (receipt.trigger, receipt.by, receipt.calls_after_cancel) == ("operator", "op", 0)
        assert [u.outcome for u in receipt.undone] == ["undone"] and "undone" in world.log
        with pytest.raises(Halted):
            await runs.start(drafter, Job())
        assert (await runs.lift(halt.id)).runs == 0
        assert (await run.view()).status == "cancelled"


@pytest.mark.parametrize("then", ["pause", "cancel"])
async def test_children_are_halted_with_their_parent(then: Any) -> None:
    """R13, R6: what lives below a run is part of it."""
    async with a_world() as (runs, world):
        gate = world.shut_at("write 0")
        run = await runs.start(boss, Job(), labels={"team": "a"})
        await eventually(lambda: "write 0" in world.log)
        halt = await runs.halt(labels={"team": "a"}, then=then, reason="x")
        assert sorted(ref.tool for ref in halt.in_flight) == ["child", "write"]
        gate.set()
        if then == "cancel":
            with pytest.raises(RunCancelled):
                await run.result(timeout=120)
            assert {view.status for view in await runs.list()} == {"cancelled"}
            return
        await held(run, "halted")
        (below,) = [view for view in await runs.list() if view.parent == run.id]
        assert (below.status, below.holds) == ("paused", ("halted",))
        assert isinstance(await runs.handle(below.id).resume(), Refused)
        await runs.lift(halt.id)
        assert await run.result(timeout=120) == 2
        assert world.log.count("write 0") == 1


async def test_a_child_of_a_halted_agent_begins_as_held_and_its_parent_waits() -> None:
    """R13: a start inside a run that goes on is not lost, it waits for the lift."""
    async with a_world() as (runs, world):
        halt = await runs.halt(agent="writer", reason="leaking")
        run = await runs.start(boss, Job())

        async def below() -> Any:
            return next((v for v in await runs.list() if v.parent == run.id), None)

        view = await eventually(below)
        assert (view.status, view.holds) == ("paused", ("halted",))
        assert world.log == []
        assert (await run.view()).status == "running"
        assert (await runs.halts())[0].runs == 1
        await runs.lift(halt.id)
        assert await run.result(timeout=120) == 2


async def test_two_halts_hold_a_run_until_both_are_lifted() -> None:
    async with a_world() as (runs, _):
        run = await runs.start(asker, Job())
        await held(run, "asks")
        one = await runs.halt(all=True, reason="first", by="a")
        two = await runs.halt(agent="asker", reason="second", by="b")
        view = await held(run, "asks", "halted")
        assert "halted: first (claimed by a); second (claimed by b)" in view.waiting_for
        assert [h.runs for h in await runs.halts()] == [1, 1]
        await runs.lift(one.id)
        view = await held(run, "asks", "halted")
        assert "halted: second (claimed by b)" in view.waiting_for
        with pytest.raises(Halted, match="second"):
            await runs.start(asker, Job())
        await runs.lift(two.id)
        await held(run, "asks")
        (need,) = (await run.view()).needs
        assert await run.answer(need.id, "yes")
        assert await run.result(timeout=120) == "yes"


async def test_what_concerns_the_store_is_in_the_record_of_the_house() -> None:
    """R13, R31: who, why, by which way, how many."""
    async with a_world() as (runs, _):
        run = await runs.start(asker, Job())
        await held(run, "asks")
        halt = await runs.halt(agent="asker", reason="why", by="op", route="somewhere")
        await runs.lift(halt.id, by="op2", reason="over")
        found = runs.read(lambda tx: tx.house())
        (put, lifted) = found
        assert isinstance(put, HaltSet) and isinstance(lifted, HaltLifted)
        assert (put.halt, put.by, put.agent, put.reason, put.runs, put.route) == (
            *(halt.id, "op", "asker", "why", 1, "somewhere"),
        )
        assert (lifted.halt, lifted.by, lifted.reason) == (halt.id, "op2", "over")
        assert runs.read(lambda tx: tx.verify_house()) == ""
        assert await runs.halts() == []
        (kept,) = await runs.halts(lifted=True)
        assert kept.lifted_at is not None


async def test_the_same_id_sets_one_halt_and_a_second_lift_says_so() -> None:
    """Whoever did not hear the answer asks again, by another way perhaps."""
    async with a_world() as (runs, _):
        first = await runs.halt(all=True, reason="x", by="op", id="halt-1")
        again = await runs.halt(all=True, reason="x", by="op", id="halt-1")
        assert (first.id, again.note) == (again.id, "it was set already")
        with pytest.raises(Misuse, match="says something else"):
            await runs.halt(agent="writer", reason="x", by="op", id="halt-1")
        assert len(await runs.halts()) == 1
        await runs.lift("halt-1")
        assert (await runs.lift("halt-1")).note == "it was lifted already"
        with pytest.raises(UnknownHalt):
            await runs.lift("halt-2")
        assert len([e for e in runs.read(lambda tx: tx.house()) if isinstance(e, HaltLifted)]) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"all": True, "agent": "writer"},
        {"all": True, "labels": {"a": "b"}},
        {"all": True, "reason": " "},
        {"all": True, "then": "stop"},
        {"all": "yes"},
        {"labels": {"a": 1}},
        {"agent": 3},
    ],
    ids=str,
)
async def test_a_halt_says_exactly_what_it_holds_and_why(wrong: dict[str, Any]) -> None:
    async with a_world() as (runs, _):
        with pytest.raises(Misuse):
            await runs.halt(**{"reason": "x", **wrong})
        assert await runs.halts() == []


async def test_mail_and_answers_are_taken_while_halted_and_move_nothing() -> None:
    """R5: what people say is kept; the run goes on only after the lift."""
    async with a_world() as (runs, _):
        idle, asks = await runs.start(idler, Job()), await runs.start(asker, Job())
        await held(idle, "waiting")
        view = await held(asks, "asks")
        halt = await runs.halt(all=True, reason="x")
        assert isinstance(await idle.message("hello"), Accepted)
        assert isinstance(await asks.answer(view.needs[0].id, "no"), Accepted)
        await held(idle, "halted")
        await held(asks, "halted")
        await runs.lift(halt.id)
        assert await idle.result(timeout=120) == "hello"
        assert await asks.result(timeout=120) == "no"


async def test_a_halted_run_can_be_cancelled() -> None:
    """R6: a stop is never refused."""
    async with a_world() as (runs, _):
        run = await runs.start(asker, Job())
        await held(run, "asks")
        halt = await runs.halt(all=True, reason="x")
        assert isinstance(await run.cancel(), Accepted)
        assert (await run.settled(timeout=120)).status == "cancelled"
        assert (await runs.lift(halt.id)).runs == 0


async def test_a_driver_that_dies_while_a_halt_is_settling_leaves_it_to_the_next() -> None:
    """R2, R15: the write it was at is in doubt; nothing is called again under the halt, nor after it unasked."""
    async with a_world() as (runs, world):
        world.shut_at("write 0")
        run = await runs.start(writer, Job())
        await eventually(lambda: "write 0" in world.log)
        halt = await runs.halt(all=True, reason="x")
        await runs.crash()
        await held(run, "halted")
        assert world.log == ["write 0"]
        await runs.lift(halt.id)
        view = await held(run, "in_doubt")
        assert isinstance(await run.resolve(view.needs[0].id, Happened(0)), Accepted)
        assert await run.result(timeout=120) == 2
        assert world.log == ["write 0", "write 1"]


async def test_a_halt_that_is_not_committed_has_stopped_nothing() -> None:
    """R13: row and runs are one transaction."""
    async with a_world() as (runs, _):
        run = await runs.start(asker, Job())
        await held(run, "asks")
        wanted = wanted_halt("h", agent=None, labels=None, all=True, then="pause", reason="x", by=None)

        def dies(tx: Tx) -> None:
            assert set_halt(tx, wanted, runs.is_dead).runs == 1
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await runs.control(dies)
        assert await runs.halts() == []
        await held(run, "asks")
        assert runs.read(lambda tx: tx.house()) == []
