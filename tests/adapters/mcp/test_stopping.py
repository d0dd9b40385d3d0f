"""A stop reaches the server: told, a grace, its process if allowed; else the truth (R5, R6, R7, R35)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.adapters.mcp.world import Todo, Zoo, caller, runs_no_more, todo
from tests.helpers import eventually, held

from standfast import Done, Handle, Run, Runtime, agent, events


async def cancels(zoo: Zoo, times: int = 1) -> list[dict[str, Any]]:
    await eventually(lambda: len(zoo.received("notifications/cancelled")) >= times, timeout=120)
    return zoo.received("notifications/cancelled")


async def outcomes(run: Handle[Any]) -> tuple[list[str], list[str]]:
    receipt = await run.settled()
    return [one.outcome for one in receipt.in_flight], [residue.what for residue in receipt.residue]


# --- reads ------------------------------------------------------------------------------------------------


async def test_pause_reaches_the_server_and_the_read_is_repeated_on_resume(zoo: Zoo) -> None:
    """R4, R5: the cancelled request is named by its id; the server goes on living."""
    zoo.mode(call="hang")
    async with zoo.raw() as server:
        pid = server.pid
        async with zoo.calling(server, ("look", {"n": 1})) as run:
            asked = await zoo.called()
            assert await run.pause()
            await held(run, "user")
            told = await cancels(zoo)
            assert [c["params"]["requestId"] for c in told] == [asked["id"]]
            zoo.mode(call="answer")
            assert await run.resume()
            assert await run.result() == ["did 1"]
            again = zoo.received("tools/call")
            keys = {c["params"]["_meta"]["standfast/idempotency-key"] for c in again}
            assert (len(again), len(keys)) == (2, 1)
        assert server.pid == pid
    assert len(zoo.received("notifications/cancelled")) == 1


async def test_a_real_server_stops_its_tool_at_once(zoo: Zoo) -> None:
    """R6: the tool's own code sees the cancel."""
    async with zoo.sdk() as server:
        one = caller(server)
        async with Runtime(zoo.folder / "runs.db", agents=[one]) as runs:
            run = await runs.start(one, todo(("slow_read", {"seconds": 60})))
            await zoo.logged("slow_read began")
            assert await run.cancel()
            assert await outcomes(run) == (["aborted"], [])
            await zoo.logged("slow_read was cancelled")
            again = await runs.start(one, todo(("add", {"a": 1, "b": 2})))
            assert await again.result() == [3]
    assert len([line for line in zoo.log() if line.startswith("started")]) == 1


@pytest.mark.parametrize("cancel", ["silent", "error", "finish"])
async def test_a_cut_read_is_aborted_however_the_server_takes_it(zoo: Zoo, cancel: str) -> None:
    zoo.mode(call="hang", cancel=cancel)
    async with zoo.raw() as server, zoo.calling(server, ("look", {"n": 1})) as run:
        await zoo.called()
        assert await run.cancel()
        assert await outcomes(run) == (["aborted"], [])


async def test_a_read_that_nothing_stops_is_named_and_its_late_result_kept_out(zoo: Zoo) -> None:
    """R35: a server that answers neither the cancel nor a ping is still at it."""
    zoo.mode(call="hang", cancel="ignore", ping=False)
    async with zoo.raw() as server, zoo.calling(server, ("look", {"n": 1})) as run:
        await zoo.called()
        assert await run.cancel()
        ended, left = await outcomes(run)
        assert ended == ["still_running"]
        assert any("look" in what for what in left)
        (zoo.folder / "go").touch()

        async def late() -> bool:
            return any(isinstance(e, events.LateResult) for e in [e async for e in run.events()])

        assert await eventually(late, timeout=120)
        assert (await run.view()).status == "cancelled"


async def test_code_of_ones_own_that_gives_up_a_read_tells_the_server(zoo: Zoo) -> None:
    """R6: the caller is cancelled by its own code; the step goes on."""
    zoo.mode(call="hang")
    async with zoo.raw() as server:
        look = server.tool("look")

        @agent("impatient", tools=[look])
        async def impatient(run: Run[Todo]) -> Done[str]:
            try:
                async with asyncio.timeout(1):
                    await run.call(look(n=1))
            except TimeoutError:
                return Done("gave up")
            return Done("?")

        async with Runtime(zoo.folder / "runs.db", agents=[impatient]) as runs:
            assert await (await runs.start(impatient, todo())).result() == "gave up"
        assert len(await cancels(zoo)) == 1


# --- writes -----------------------------------------------------------------------------------------------


async def test_pause_lets_a_write_finish(zoo: Zoo) -> None:
    """R5."""
    zoo.mode(call="hang")
    async with zoo.raw() as server, zoo.calling(server, ("work", {"n": 1}), ("work", {"n": 2})) as run:
        await zoo.called()
        assert await run.pause()
        assert (await run.view()).status == "pausing"
        (zoo.folder / "go").touch()
        await held(run, "user")
        assert await run.resume()
        assert await run.result() == ["late", "late"]
    assert zoo.received("notifications/cancelled") == []


async def test_a_write_that_is_cut_is_in_doubt_and_the_server_was_told(zoo: Zoo) -> None:
    """R6, R15."""
    zoo.mode(call="hang")
    async with zoo.raw() as server, zoo.calling(server, ("work", {"n": 1})) as run:
        asked = await zoo.called()
        assert await run.cancel()
        ended, _ = await outcomes(run)
        assert ended == ["in_doubt"]
        assert (await cancels(zoo))[0]["params"]["requestId"] == asked["id"]


async def test_a_write_that_ends_although_it_was_cut_is_finished(zoo: Zoo) -> None:
    """R9: the truth is what the server says, not what was asked for."""
    results: list[Any] = []

    async def take_back(p: Any) -> None:
        results.append(p.result)

    zoo.mode(call="hang", cancel="finish")
    async with zoo.raw(options={"work": {"undo": take_back}}) as server, zoo.calling(server, ("work", {"n": 1})) as run:
        await zoo.called()
        assert await run.cancel()
        assert (await outcomes(run))[0] == ["finished"]
    assert results == ["finished all the same"]


async def test_a_write_with_undo_is_cut_at_once_then_undone(zoo: Zoo) -> None:
    """R8."""
    undone: list[Any] = []

    async def take_back(p: Any) -> None:
        undone.append((p.args, p.result))

    zoo.mode(call="hang")
    async with zoo.raw(options={"work": {"undo": take_back}}) as server, zoo.calling(server, ("work", {"n": 1})) as run:
        await zoo.called()
        assert await run.cancel()
        receipt = await run.settled()
    assert [u.outcome for u in receipt.undone] == ["undone"]
    assert undone == [({"n": 1}, None)]
    assert len(zoo.received("notifications/cancelled")) == 1


async def test_a_timeout_tells_the_server_too(zoo: Zoo) -> None:
    zoo.mode(call="hang")
    async with zoo.raw(timeout=1) as server:
        async with zoo.calling(server, ("look", {"n": 1})) as run:
            assert (await run.result())[0].startswith("CallTimedOut: ")
        assert len(await cancels(zoo)) == 1


# --- the process ------------------------------------------------------------------------------------------


async def test_kill_ends_a_server_that_does_not_stop_and_all_it_started(zoo: Zoo) -> None:
    """R6, R35: sync code goes on after a cancel, everywhere; its process does not."""
    async with zoo.sdk(kill=True, grace=0.4) as server:
        one = caller(server)
        pid = server.pid
        assert pid is not None
        async with Runtime(zoo.folder / "runs.db", agents=[one]) as runs:
            run = await runs.start(one, todo(("blocking_write", {"seconds": 60})))
            await zoo.logged("blocking_write tick")
            assert await run.cancel()
            assert (await outcomes(run))[0] == ["in_doubt"]
            assert runs_no_more(pid)
            ticks = len(zoo.log())
            again = await runs.start(one, todo(("add", {"a": 1, "b": 2})))
            assert await again.result() == [3]  # started anew
            assert server.pid != pid
    assert len([line for line in zoo.log()[ticks:] if "tick" in line]) == 0


async def test_without_leave_to_kill_the_server_goes_on_and_the_write_is_in_doubt(zoo: Zoo) -> None:
    async with zoo.sdk(grace=0.4) as server:
        pid = server.pid
        async with zoo.calling(server, ("blocking_write", {"seconds": 3})) as run:
            await zoo.logged("blocking_write tick")
            assert await run.cancel()
            assert (await outcomes(run))[0][0] in ("in_doubt", "still_running")
            assert server.pid == pid
            await zoo.logged("blocking_write ended")


async def test_stuck_kills_a_server_only_if_it_does_not_answer_a_ping(zoo: Zoo) -> None:
    zoo.mode(call="hang")
    async with zoo.raw(kill="stuck") as server:
        one = caller(server)
        pid = server.pid
        assert pid is not None
        async with Runtime(zoo.folder / "runs.db", agents=[one]) as runs:
            run = await runs.start(one, todo(("look", {"n": 1})))
            await zoo.called(1)
            assert await run.cancel()
            assert await outcomes(run) == (["aborted"], [])
            assert server.pid == pid
            zoo.mode(call="hang", ping=False)
            run = await runs.start(one, todo(("look", {"n": 1})))
            await zoo.called(2)
            assert await run.cancel()
            assert await outcomes(run) == (["aborted"], [])
            assert runs_no_more(pid)


async def test_calls_of_other_runs_on_a_killed_server_fail_truthfully(zoo: Zoo) -> None:
    """R15: a write among them is 'failed, effect unknown': it is not issued again."""
    zoo.mode(call="hang")
    async with zoo.raw(kill=True, grace=0.4) as server:
        one = caller(server)
        async with Runtime(zoo.folder / "runs.db", agents=[one]) as runs:
            cut = await runs.start(one, todo(("look", {"n": 1})))
            write = await runs.start(one, todo(("work", {"n": 2})))
            read = await runs.start(one, todo(("look", {"n": 3})))
            await zoo.called(3)
            assert await cut.cancel()
            await cut.settled()
            for run in (write, read):
                answer = (await run.result())[0]
                assert answer.startswith("ToolServerFailed: ")
                assert "was killed, because look was cut" in answer
    assert len(zoo.received("tools/call")) == 3


async def test_cutting_many_calls_at_random_never_breaks_the_session(zoo: Zoo) -> None:
    """R7: pause, resume and cancel at any moment; the session belongs to no step."""
    async with zoo.sdk() as server:
        one = caller(server)
        pid = server.pid
        async with Runtime(zoo.folder / "runs.db", agents=[one]) as runs:
            wanted = [("add", {"a": n, "b": 0}) for n in range(20)]
            started = [await runs.start(one, todo(*wanted)) for _ in range(4)]  # type: ignore[arg-type]
            for round_ in range(12):
                for n, run in enumerate(started):
                    await run.pause()
                    await asyncio.sleep(0.003 * ((round_ + n) % 5))
                    await run.resume()
            for run in started:
                await eventually(lambda run=run: _resumed(run))
                assert await run.result() == list(range(20))
        assert server.pid == pid


async def _resumed(run: Handle[Any]) -> bool:
    if (await run.view()).status == "paused":
        await run.resume()
    return (await run.view()).status == "done"


async def test_leaving_the_block_with_calls_in_flight_loses_nothing(tmp_path: Path) -> None:
    """R2, R15: the runtime outlives the server: a read is asked again, in the next life of the program."""
    zoo = Zoo(tmp_path)
    zoo.mode(call="hang")
    async with zoo.raw() as server:
        one = caller(server)
        async with Runtime(zoo.folder / "runs.db", agents=[one]) as runs:
            run = await runs.start(one, todo(("look", {"n": 1})), id="r1")
            await zoo.called()
            assert (await run.view()).status == "running"
    zoo.mode()
    async with zoo.raw() as server:
        one = caller(server)
        async with Runtime(zoo.folder / "runs.db", agents=[one]) as runs:
            assert await runs.handle("r1").result() == ["did 1"]


async def test_a_server_that_does_not_end_by_itself_is_killed_at_the_end(zoo: Zoo) -> None:
    zoo.mode(eof="stay")
    async with zoo.raw() as server:
        pid = server.pid
        assert pid is not None
    assert runs_no_more(pid)
