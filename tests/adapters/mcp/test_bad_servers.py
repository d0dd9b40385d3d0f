"""Servers that do not start, die, hang or answer nonsense: a clear error, and nothing is lost (R15, R35)."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

import pytest
from tests.adapters.mcp.world import Zoo, caller, runs_no_more, todo
from tests.helpers import eventually, held

from standfast import Misuse, Runtime, ToolServerFailed
from standfast.adapters import mcp
from standfast.adapters.mcp import connection, process
from standfast.adapters.mcp.backend import backend

BAD = {"type": "object", "properties": {"x": {"type": "y"}}}

# --- before there are tools ---------------------------------------------------------------------------------


async def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(ToolServerFailed, match="no-such-program") as caught:
        async with mcp.stdio("/no/such/no-such-program"):
            pass
    assert "start it by hand" in caught.value.hint


async def test_a_server_that_ends_at_once_is_quoted(zoo: Zoo) -> None:
    zoo.mode(initialize="die")
    with pytest.raises(ToolServerFailed, match=r"exit code 7.*no licence"):
        async with zoo.raw():
            pass


async def test_a_program_that_is_no_server_is_quoted(zoo: Zoo) -> None:
    with pytest.raises(ToolServerFailed, match=r"exit code 0.*hello|closed its output.*hello"):
        async with mcp.stdio(sys.executable, "-c", "print('hello')"):
            pass


@pytest.mark.parametrize(("initialize", "said"), [("hang", "within 1 s"), ("nonsense", "welcome to the server")])
async def test_a_server_that_does_not_answer_the_handshake_is_given_up(zoo: Zoo, initialize: str, said: str) -> None:
    zoo.mode(initialize=initialize, eof="stay")
    with pytest.raises(ToolServerFailed, match=said):
        async with zoo.raw(start_timeout=1):
            pass
    assert await eventually(lambda: runs_no_more(zoo.starts()[0]))


async def test_a_protocol_of_another_time_is_refused(zoo: Zoo) -> None:
    zoo.mode(initialize="version")
    with pytest.raises(ToolServerFailed, match="1066-10-14"):
        async with zoo.raw():
            pass


async def test_a_cancelled_start_leaves_no_process_behind(zoo: Zoo) -> None:
    zoo.mode(initialize="hang", eof="stay")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            async with zoo.raw():
                pass
    assert all(runs_no_more(pid) for pid in zoo.starts())


@pytest.mark.parametrize(
    ("tools", "said"),
    [
        (
            [{"name": "a", "inputSchema": BAD}],
            "tool a: its schema is none",
        ),
        ([{"name": "a", "inputSchema": {}}, {"name": "a", "inputSchema": {}}], "two tools called 'a'"),
        ([{"name": "a b", "inputSchema": {}}], "'a b' is no name"),
        ([{"name": "a"}], "does not tell its tools"),
        ("nonsense", "does not tell its tools"),
    ],
)
async def test_tools_that_make_no_sense_are_named(zoo: Zoo, tools: Any, said: str) -> None:
    for one in tools if isinstance(tools, list) else []:
        if one.get("inputSchema") == {}:
            one["inputSchema"] = {"type": "object"}
    zoo.mode(tools=tools)
    with pytest.raises((ToolServerFailed, Misuse), match=said) as caught:
        async with zoo.raw():
            pass
    assert caught.value.hint


def test_a_server_that_was_not_entered_says_so() -> None:
    server = mcp.stdio("x")
    with pytest.raises(Misuse, match="not known yet") as caught:
        _ = server.tools
    assert "async with" in caught.value.hint


def test_no_program_at_all_is_misuse() -> None:
    with pytest.raises(Misuse, match="no program"):
        mcp.stdio()


async def test_a_server_is_entered_once(zoo: Zoo) -> None:
    async with zoo.raw() as server:
        with pytest.raises(Misuse, match="connected already"):
            await server.__aenter__()
        assert await server.call("look", n=1) == "did 1"


# --- in the middle of a call -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("die", "exit code 9; it said: segmentation fault"),
        ("broken", "no MCP message"),
        ("wrong id", "never made: id 4711"),
        ("wrong shape", "answered nonsense to work"),
        ("error", "refused work: no such thing"),
    ],
)
async def test_an_answer_that_is_none_fails_the_call_and_the_run_goes_on(zoo: Zoo, call: str, said: str) -> None:
    """A write among them is not issued again: its effect is unknown."""
    zoo.mode(call={"work": call})
    async with zoo.raw() as server, zoo.calling(server, ("work", {"n": 1}), ("look", {"n": 2})) as run:
        first, second = await run.result()
    assert said in first
    assert second == "did 2"
    assert [c["params"]["name"] for c in zoo.received("tools/call")] == ["work", "look"]


async def test_garbage_instead_of_an_answer_fails_the_call(zoo: Zoo, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line astray is forgiven while the server answers pings."""
    monkeypatch.setattr("standfast.adapters.mcp.connection.STRAY_GRACE", 0.5)
    zoo.mode(call={"work": "garbage", "look": "stray"}, ping=False)
    async with zoo.raw() as server:
        one = caller(server)
        async with Runtime(zoo.folder / "runs.db", agents=[one]) as runs:
            run = await runs.start(one, todo(("work", {"n": 1})))
            assert "no MCP message, and no ping: Traceback" in (await run.result())[0]
            zoo.mode(call="stray")
            run = await runs.start(one, todo(("look", {"n": 2})))
            assert await run.result() == ["did 2"]


async def test_a_server_that_cannot_be_started_again_fails_calls_as_not_performed(zoo: Zoo) -> None:
    """R15: nothing was sent, so nothing is in doubt."""
    async with zoo.raw(start_timeout=120) as server:
        one = caller(server)
        async with Runtime(zoo.folder / "runs.db", agents=[one]) as runs:
            pid = server.pid
            assert pid is not None
            zoo.mode(initialize="die")
            os.kill(pid, signal.SIGKILL)
            await eventually(lambda: server.pid is None)
            run = await runs.start(one, todo(("work", {"n": 1}), ("work", {"n": 2})))
            answers = await run.result()
            assert all(a.startswith("NotPerformed: ") and "no licence" in a for a in answers)
            zoo.mode()
            assert await (await runs.start(one, todo(("work", {"n": 3})))).result() == ["did 3"]
    assert len(zoo.received("tools/call")) == 1


async def test_a_run_that_is_resumed_without_its_server_is_held_until_it_is_back(zoo: Zoo) -> None:
    """Nothing lost, resumable: an error that says what to do, not a difference to be accepted."""
    zoo.mode(call="hang")
    async with zoo.raw(start_timeout=120) as server, zoo.calling(server, ("look", {"n": 1})) as run:
        await zoo.called()
        assert await run.pause()
        await held(run, "user")
        zoo.mode(initialize="die")
        pid = server.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await eventually(lambda: server.pid is None)
        assert await run.resume()
        assert "no licence" in (await held(run, "error")).error
        zoo.mode()
        assert await run.resume()
        assert await run.result() == ["did 1"]


async def test_an_sdk_server_that_dies_in_mid_call_leaves_the_effect_unknown(zoo: Zoo) -> None:
    async with zoo.sdk() as server, zoo.calling(server, ("die", {"code": 5}), ("add", {"a": 1, "b": 1})) as run:
        first, second = await run.result()
    assert first.startswith("ToolServerFailed: ")
    assert "exit code 5" in first
    assert second == 2
    assert zoo.log().count("die began") == 1


async def test_a_long_line_is_read_whole(zoo: Zoo) -> None:
    async with zoo.sdk() as server:
        name = "x" * 3_000_000
        assert await server.call("greet", name=name) == f"hello {name}"


@pytest.mark.parametrize("end", ["\\n", ""])
@pytest.mark.parametrize("more", [-1, 0, 1])
async def test_a_line_is_so_long_and_no_longer(monkeypatch: pytest.MonkeyPatch, more: int, end: str) -> None:
    """R34: whether its end has come or not."""
    monkeypatch.setattr(process, "LONGEST_LINE", 1_000)
    strays: list[str] = []
    program = f"import sys; sys.stdout.write('x' * {1_000 + more} + '{end}'); sys.stdout.flush(); sys.stdin.read()"
    server = process.ServerProcess(backend(), [sys.executable, "-c", program], None, None, strays.append)
    try:
        heard = await eventually(lambda: server.broken.done() or strays or len(server._line) == 1_000 + more)
        assert heard
        assert server.broken.done() == (more > 0)
        if more > 0:
            assert "it sent a line of more than" in server.broken.result()
    finally:
        await server.close()


async def test_answers_to_calls_that_were_given_up_are_waited_for_so_many(
    zoo: Zoo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R34: the oldest is forgotten, and the session goes on."""
    monkeypatch.setattr(connection, "MOST_GIVEN_UP", 2)
    zoo.mode(call="hang", cancel="silent")
    async with zoo.raw() as server:
        one = caller(server)
        async with Runtime(zoo.folder / "runs.db", agents=[one]) as runs:
            given_up: list[connection.Asked] = []
            for n in range(3):
                run = await runs.start(one, todo(("look", {"n": n})))
                await zoo.called(n + 1)
                assert await run.cancel()
                await run.settled()
                assert server._connection is not None
                given_up += [each for each in server._connection._given_up if each not in given_up]
                assert len(given_up) == n + 1
                assert len(server._connection._given_up) == min(n + 1, 2)
            first, *others = given_up
            assert first.task is not None
            await eventually(first.task.done)
            assert [each.task is not None and each.task.done() for each in others] == [False, False]
            zoo.mode()
            again = await runs.start(one, todo(("look", {"n": 9})))
            assert await again.result() == ["did 9"]
