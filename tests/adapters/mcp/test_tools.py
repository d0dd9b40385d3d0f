"""An MCP server's tools are standfast tools (R14, R15, R36)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.adapters.mcp.world import Todo, Zoo, caller, runs_no_more, todo
from tests.helpers import eventually, held

from standfast import BadTool, Done, Json, Misuse, Performed, Run, Runtime, Tool, agent, events
from standfast.adapters import mcp
from standfast.adapters.mcp.effects import effect_of
from standfast.adapters.mcp.results import value_of

# --- what they are --------------------------------------------------------------------------------------


async def test_discovered_tools_are_tools_with_the_effect_of_their_annotations(zoo: Zoo) -> None:
    """R14."""
    async with zoo.sdk() as server:
        effects = {tool.name: tool.effect for tool in server.tools}
        assert effects["add"] == "read"
        assert effects["put"] == "idempotent"
        assert effects["erase"] == "irreversible"
        assert effects["note"] == "write"
        assert effects["fail"] == "write"  # destructiveHint is false
        add = server.tool("add")
        assert isinstance(add, Tool)
        assert add.schema["description"] == "Add two numbers."
        assert set(add.schema["properties"]) == {"a", "b"}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("hints", "effect"),
    [
        (None, "write"),
        ({}, "write"),
        ({"readOnlyHint": True, "destructiveHint": True}, "read"),
        ({"readOnlyHint": False}, "write"),
        ({"idempotentHint": True}, "idempotent"),
        ({"idempotentHint": True, "destructiveHint": True}, "idempotent"),
        ({"destructiveHint": True}, "irreversible"),
        ({"destructiveHint": False}, "write"),
        ("nonsense", "write"),
    ],
)
def test_the_first_hint_that_is_given_decides_the_effect(hints: Any, effect: str) -> None:
    assert effect_of({"name": "x", "annotations": hints}) == effect


async def test_effects_and_options_of_ones_own_come_first(zoo: Zoo) -> None:
    undone: list[Any] = []

    async def take_back(p: Performed[Any, None]) -> None:
        undone.append(p.args)

    settings: Any = {"effects": {"add": "write"}, "options": {"note": {"undo": take_back, "grace": 7.0}}}
    async with zoo.sdk(**settings, timeout=60) as server:
        assert server.tool("add").effect == "write"
        assert (server.tool("note").undo, server.tool("note").grace) == (take_back, 7.0)
        assert server.tool("greet").timeout == 60


async def test_an_option_for_a_tool_that_is_not_there_is_refused(zoo: Zoo) -> None:
    with pytest.raises(Misuse, match="adda") as caught:
        async with zoo.sdk(effects={"adda": "read"}):
            pass
    assert "add, greet" in caught.value.hint


async def test_names_may_have_a_prefix_and_tools_may_be_left_out(zoo: Zoo) -> None:
    async with zoo.sdk(prefix="zoo_", without=["erase"]) as server:
        assert server.tool("add").name == "zoo_add"
        assert server.tool("zoo_add") is server.tool("add")
        assert "zoo_erase" not in {tool.name for tool in server.tools}
        assert await server.call("add", a=1, b=2) == 3


async def test_a_tool_that_is_not_there_is_named_with_those_that_are(zoo: Zoo) -> None:
    async with zoo.raw() as server:
        with pytest.raises(Misuse, match="'fly'") as caught:
            server.tool("fly")
        assert caught.value.hint == "it has work, look"


async def test_a_bad_argument_is_named_before_anything_is_sent(zoo: Zoo) -> None:
    async with zoo.raw() as server:
        with pytest.raises(Misuse, match="argument n"):
            server.tool("work")(n="x")
    assert zoo.received("tools/call") == []


async def test_two_servers_with_one_name_are_told_apart_by_a_prefix(zoo: Zoo) -> None:
    async with zoo.raw() as first, zoo.raw() as second:

        @agent("two", tools=[*first.tools, *second.tools])
        async def two(run: Run[Todo]) -> Done[None]:
            return Done(None)

        with pytest.raises(BadTool, match="two tools called 'work'") as caught:
            async with Runtime(":memory:", agents=[two]):
                pass
        assert "prefix" in caught.value.hint
    async with zoo.raw() as first, zoo.raw(prefix="b_") as second:
        assert {tool.name for tool in (*first.tools, *second.tools)} == {"work", "look", "b_work", "b_look"}


async def test_an_agent_that_names_a_server_lists_its_tools_in_its_contract(zoo: Zoo) -> None:
    """R16."""
    async with zoo.raw() as server:

        @agent("names it")
        async def names_it(run: Run[Todo]) -> Done[Any]:
            return Done(await run.call(server.tool("look")(n=1)))

        assert set(names_it.contract["tools"]) == {"work", "look"}  # type: ignore[arg-type]
        async with Runtime(":memory:", agents=[names_it]) as runs:
            assert await (await runs.start(names_it, todo())).result() == "did 1"


# --- what they answer -------------------------------------------------------------------------------------


async def test_results_are_the_simplest_value_that_loses_nothing(zoo: Zoo) -> None:
    async with zoo.sdk() as server:
        one = caller(server)
        async with Runtime(":memory:", agents=[one]) as runs:
            wanted = todo(
                ("add", {"a": 1, "b": 2}),
                ("greet", {"name": "ann"}),
                ("lookup", {"word": "ox"}),
                ("picture", {}),
                ("fail", {"text": "not today"}),
            )
            answers = await (await runs.start(one, wanted)).result()
    assert answers[:3] == [3, "hello ann", {"word": "ox", "meaning": None}]
    assert answers[3]["text"] == "here it is"
    assert answers[3]["content"] == [{"type": "image", "data": "cG5n", "mimeType": "image/png"}]
    assert answers[4].startswith("ToolError: ")
    assert "not today" in answers[4]


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        ({"content": []}, ""),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "a\nb"),
        ({"content": [{"type": "text", "text": '{"a": 1}'}], "structuredContent": {"a": 1}}, {"a": 1}),
        ({"content": [], "structuredContent": {"a": 1}}, {"a": 1}),
        ({"content": [{"type": "text", "text": "3"}], "structuredContent": {"result": 3}}, 3),
        (
            {"content": [{"type": "text", "text": "one a"}], "structuredContent": {"a": 1}},
            {"text": "one a", "content": [], "structuredContent": {"a": 1}},
        ),
    ],
)
def test_structured_content_and_other_words_are_both_kept(answer: Json, value: Any) -> None:
    assert value_of(answer) == value


# --- in a run -----------------------------------------------------------------------------------------------


async def test_the_idempotency_key_goes_with_the_call(zoo: Zoo) -> None:
    """R15."""
    async with zoo.raw() as server:
        one = caller(server)
        async with Runtime(":memory:", agents=[one]) as runs:
            run = await runs.start(one, todo(("work", {"n": 1})))
            assert await run.result() == ["did 1"]
            begun = [e async for e in run.events() if isinstance(e, events.CallStarted)]
    meta = zoo.received("tools/call")[0]["params"]["_meta"]
    assert meta["standfast/idempotency-key"] == begun[0].call
    assert "progressToken" in meta


async def test_progress_notifications_become_progress_events(zoo: Zoo) -> None:
    async with zoo.sdk() as server:
        one = caller(server)
        async with Runtime(":memory:", agents=[one]) as runs:
            run = await runs.start(one, todo(("count", {"upto": 4})))
            assert await run.result() == ["counted"]
            seen = [e async for e in run.events() if isinstance(e, events.CallProgress)]
    assert [(e.fraction, e.text) for e in seen] == [(n / 4, f"at {n}") for n in range(1, 5)]


async def test_a_destructive_tool_asks_first_and_takes_a_persons_arguments(zoo: Zoo) -> None:
    """R14."""
    async with zoo.sdk() as server:
        one = caller(server)
        async with Runtime(":memory:", agents=[one]) as runs:
            run = await runs.start(one, todo(("erase", {"what": "all"})))
            view = await held(run, "asks")
            assert not any(line.startswith("erase") for line in zoo.log())
            assert view.needs[0].call is not None
            assert await run.approve(view.needs[0].call, args={"what": "a little"})
            assert await run.result() == ["a little is gone"]
    assert "erase a little" in zoo.log()


async def test_an_undo_may_call_another_tool_of_the_server(zoo: Zoo) -> None:
    """R8."""
    box: list[mcp.MCPServer] = []

    async def take_back(p: Performed[Any, None]) -> None:
        await box[0].call("note", text=f"undone {p.args['value']}")

    settings: Any = {"put": {"effect": "write", "undo": take_back, "settles": "run"}}
    async with zoo.sdk(options=settings) as server:
        box.append(server)
        one = caller(server)
        async with Runtime(":memory:", agents=[one]) as runs:
            run = await runs.start(one, todo(("put", {"value": "x"}), ("erase", {"what": "all"})))
            await held(run, "asks")
            assert await run.cancel()
            receipt = await run.settled()
    assert [u.outcome for u in receipt.undone] == ["undone"]
    assert "note undone x" in zoo.log()


async def test_calls_of_many_runs_share_one_server(zoo: Zoo) -> None:
    async with zoo.sdk() as server:
        one = caller(server)
        async with Runtime(":memory:", agents=[one]) as runs:
            started = [await runs.start(one, todo(*[("add", {"a": n, "b": m}) for m in range(5)])) for n in range(8)]
            for n, run in enumerate(started):
                assert await run.result() == [n + m for m in range(5)]
    assert len([line for line in zoo.log() if line.startswith("started")]) == 1


async def test_logs_of_a_tool_are_what_the_call_says(zoo: Zoo) -> None:
    zoo.mode(call="stray")
    async with zoo.raw() as server:
        one = caller(server)
        async with Runtime(":memory:", agents=[one]) as runs:
            run = await runs.start(one, todo(("look", {"n": 1})))
            assert await run.result() == ["did 1"]
            said = await run.transcript()
    assert "working on it" in str(said)


async def test_the_server_ends_with_its_block(zoo: Zoo) -> None:
    async with zoo.raw() as server:
        pid = server.pid
        assert pid is not None
    assert await eventually(lambda: runs_no_more(pid))
