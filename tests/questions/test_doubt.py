"""A call in flight at a crash: never a blind retry, never a silent skip (R15)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.helpers import held
from tests.questions.world import Note, a_world, ask_bank, pay, payer

from standfast import CheckAgain, Done, Happened, NotHappened, Refused, Run, Runtime, TooLate, WrongState, agent, tool
from standfast.abc import Point


@pytest.mark.parametrize("point", ["admitted", "performed"])
async def test_a_write_in_flight_at_a_crash_is_in_doubt_and_not_repeated(point: Point) -> None:
    async with a_world() as (runs, world):
        run = await runs.start(payer, Note())
        await runs.until(run, call="pay", point=point)
        await runs.crash()
        view = await held(run, "in_doubt")
        (need,) = view.needs
        assert need.kind == "doubt"
        assert "pay" in need.text and "5" in need.text
        assert world.paid == ([] if point == "admitted" else [5])
        refused = await run.resume()
        assert isinstance(refused, Refused)
        assert [(c.verb, c.args.get("call_id")) for c in refused.choices] == [("resolve", need.call), ("cancel", None)]


async def test_a_write_recorded_before_a_crash_is_not_repeated() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(payer, Note())
        await runs.until(run, call="pay", point="recorded")
        await runs.crash()
        assert await run.result(timeout=120) == "paid 5"
        assert world.paid == [5]


@pytest.mark.parametrize("point", ["admitted", "performed"])
async def test_an_idempotent_call_is_repeated_with_the_same_key(point: Point) -> None:
    async with a_world() as (runs, world):
        run = await runs.start(payer, Note(to="eve"))
        await runs.until(run, call="pay_idempotent", point=point)
        await runs.crash()
        assert await run.result(timeout=120) == "paid 5"
        assert len(set(world.keys)) == 1
        assert len(world.paid) == (1 if point == "admitted" else 2)


async def test_happened_goes_on_with_the_result_given() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(payer, Note())
        await runs.until(run, call="pay", point="performed")
        await runs.crash()
        (need,) = (await held(run, "in_doubt")).needs
        assert await run.resolve(need.call, Happened("paid, says the bank"), by="ann")
        assert await run.result(timeout=120) == "paid, says the bank"
        assert world.paid == [5]


async def test_happened_with_a_result_of_another_type_is_refused_and_the_doubt_stays() -> None:
    async with a_world() as (runs, _):
        run = await runs.start(payer, Note())
        await runs.until(run, call="pay", point="performed")
        await runs.crash()
        (need,) = (await held(run, "in_doubt")).needs
        with pytest.raises(WrongState):
            await run.resolve(need.call, Happened(17))
        assert (await held(run, "in_doubt")).needs[0].id == need.id


async def test_not_happened_issues_the_call_with_the_same_key() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(payer, Note())
        await runs.until(run, call="pay", point="performed")
        await runs.crash()
        (need,) = (await held(run, "in_doubt")).needs
        assert await run.resolve(need.call, NotHappened())
        assert await run.result(timeout=120) == "paid 5"
        assert world.keys == [need.call, need.call]


async def test_every_choice_of_a_doubt_can_be_sent_back_as_it_is() -> None:
    async with a_world() as (runs, _):
        run = await runs.start(payer, Note(to="bob"))
        await runs.until(run, call="pay_probed", point="performed")
        await runs.crash()
        (need,) = (await held(run, "in_doubt")).needs
        kinds = {type(choice) for choice in need.choices}
        assert kinds == {Happened, NotHappened, CheckAgain}
        assert await run.choose(need, next(c for c in need.choices if isinstance(c, NotHappened)))
        assert await run.result(timeout=120) == "paid 5"


async def test_a_probe_that_says_happened_settles_the_doubt() -> None:
    async with a_world() as (runs, world):
        world.probe = lambda: Happened("found it")
        run = await runs.start(payer, Note(to="bob"))
        await runs.until(run, call="pay_probed", point="performed")
        await runs.crash()
        assert await run.result(timeout=120) == "found it"
        assert world.paid == [5]
        (seen,) = world.probed
        assert (seen.key, seen.args, seen.result) == (world.keys[0], {"amount": 5}, None)


async def test_a_probe_that_says_not_happened_lets_the_call_be_issued_with_its_key() -> None:
    async with a_world() as (runs, world):
        world.probe = NotHappened
        run = await runs.start(payer, Note(to="bob"))
        await runs.until(run, call="pay_probed", point="performed")
        await runs.crash()
        assert await run.result(timeout=120) == "paid 5"
        assert len(world.keys) == 2 and len(set(world.keys)) == 1


def _raise() -> Any:
    raise OSError("no line to the bank")


async def _never_ends() -> None:
    while True:
        try:
            await asyncio.sleep(60)
        except BaseException:  # noqa: BLE001 - as stubborn as can be
            continue


@pytest.mark.parametrize(
    ("probe", "says"),
    [(lambda: None, "does not know"), (_raise, "no line to the bank"), (_never_ends, "did not answer within 0.2 s")],
)
async def test_a_probe_that_cannot_tell_leaves_the_doubt_and_says_why(probe: Any, says: str) -> None:
    async with a_world() as (runs, world):
        world.probe = probe
        run = await runs.start(payer, Note(to="bob"))
        await runs.until(run, call="pay_probed", point="performed")
        await runs.crash()
        view = await held(run, "in_doubt")
        assert says in view.waiting_for
        assert world.paid == [5]


async def test_check_again_asks_the_probe_again() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(payer, Note(to="bob"))
        await runs.until(run, call="pay_probed", point="performed")
        await runs.crash()
        (need,) = (await held(run, "in_doubt")).needs
        assert await run.resolve(need.call, CheckAgain())
        await held(run, "in_doubt")
        assert len(world.probed) == 2
        world.probe = lambda: Happened("at last")
        assert await run.resolve(need.call, CheckAgain())
        assert await run.result(timeout=120) == "at last"


async def test_where_there_is_no_probe_nobody_is_offered_to_ask_it_again() -> None:
    """R40: it would come back to the same doubt."""
    async with a_world() as (runs, _):
        run = await runs.start(payer, Note())
        await runs.until(run, call="pay", point="performed")
        await runs.crash()
        view = await held(run, "in_doubt")
        (need,) = view.needs
        assert need.choices == (Happened(), NotHappened())
        refused = await run.resolve(need.call, CheckAgain())
        assert isinstance(refused, Refused) and refused.why == "pay has no probe that could be asked again"
        assert [c.args["decision"] for c in refused.choices] == ["happened", "not_happened"]
        assert (await run.view()).seq == view.seq, "nothing was changed"
        assert await run.choose(need, need.choices[1])
        assert await run.result(timeout=120) == "paid 5"


async def test_code_that_brings_a_probe_can_be_asked_again() -> None:
    probed = tool(effect="write", probe=ask_bank, name="pay")(pay.fn)

    @agent("payer")
    async def newer(run: Run[Note]) -> Done[str]:
        return Done(await run.call(probed(run.state.amount)))

    async with a_world() as (runs, _):
        run = await runs.start(payer, Note())
        await runs.until(run, call="pay", point="performed")
        await runs.crash()
        await held(run, "in_doubt")
        async with Runtime(runs.store_path, [newer]):
            (need,) = (await run.view()).needs
            assert need.choices == (Happened(), NotHappened(), CheckAgain())


async def test_resolving_what_is_not_in_doubt_is_refused() -> None:
    async with a_world() as (runs, _):
        run = await runs.start(payer, Note())
        assert await run.result(timeout=120) == "paid 5"
        assert isinstance(await run.resolve("pay-none", NotHappened()), Refused | TooLate)


async def test_a_doubt_settled_while_a_person_holds_the_run_does_not_start_it() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(payer, Note())
        await runs.until(run, call="pay", point="performed")
        await runs.crash()
        (need,) = (await held(run, "in_doubt")).needs
        await run.pause()
        assert await run.resolve(need.call, Happened("yes"))
        await held(run, "user")
        again = await run.resolve(need.call, Happened("no"))
        assert isinstance(again, Refused)
        assert again.why == f"call {need.call!r} has finished: nothing about it is in doubt"
        await run.resume()
        assert await run.result(timeout=120) == "yes"
        assert world.paid == [5]


async def test_a_doubt_outlives_a_cancelled_run_in_its_residue_and_can_be_noted() -> None:
    async with a_world() as (runs, _):
        run = await runs.start(payer, Note())
        await runs.until(run, call="pay", point="performed")
        await runs.crash()
        (need,) = (await held(run, "in_doubt")).needs
        await run.cancel()
        receipt = await run.settled(10)
        assert [r.call.tool for r in receipt.residue if r.call] == ["pay"]
        assert await run.resolve(need.call, Happened("it had"), by="ann")
        assert (await run.view()).status == "cancelled"
        assert await run.resolve(need.call, NotHappened(), by="bob") == TooLate("cancelled"), "it is settled by now"
