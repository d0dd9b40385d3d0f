"""A ledger row is taken back by the code of the tool that performed it, whoever else uses its name (R8)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from tests.helpers import eventually, held

from standfast import BadTool, Done, Performed, Run, Runtime, Tool, agent, child, tool
from standfast.testing import lab


class Nothing(BaseModel):
    pass


def sender(log: list[str], whose: str) -> Tool[[str], None]:
    async def unsend(p: Performed[None, Any]) -> None:
        log.append(f"undone by {whose}")

    @tool(undo=unsend, name="send")
    async def send(text: str) -> None:
        log.append(f"sent by {whose}")

    return send


@tool(effect="write", name="send")
async def another_send(text: str) -> None:
    pass


async def test_a_childs_effects_are_undone_by_the_childs_own_tool() -> None:
    """R8: parent and child each have a tool called send."""
    log: list[str] = []
    parents, childs = sender(log, "parent"), sender(log, "child")

    @agent("kid", tools=[childs])
    async def kid(run: Run[Nothing]) -> Done[None]:
        await run.call(childs("hello"))
        return Done(None)

    @agent("parent", tools=[parents])
    async def parent(run: Run[Nothing]) -> Done[None]:
        await run.call(child(kid, Nothing()))
        await run.call(parents("hello"))
        raise ValueError("stop here")

    async with lab([parent, kid]) as runs:
        run = await runs.start(parent, Nothing())
        await held(run, "error")
        await run.cancel(undo="all")
        await run.settled(10)
    assert log == ["sent by child", "sent by parent", "undone by parent", "undone by child"]


async def test_two_tools_of_one_name_in_one_agent_are_refused_when_it_is_given_to_a_runtime(tmp_path: Path) -> None:
    """R8: a name must mean one undo."""
    log: list[str] = []
    one, other = sender(log, "one"), sender(log, "other")

    @agent("twice")
    async def twice(run: Run[Nothing]) -> None:
        await run.call(one("a"))
        await run.call(other("b"))

    with pytest.raises(BadTool, match="two tools called 'send'") as error:
        Runtime(tmp_path / "s.db", [twice])
    assert "another" in error.value.hint


async def test_a_second_tool_of_one_name_that_no_reading_finds_is_refused_at_its_call() -> None:
    """R8: before anything is sent."""
    log: list[str] = []
    hidden = {"deep": {"send": sender(log, "hidden")}}

    @agent("sly", tools=[another_send])
    async def sly(run: Run[Nothing]) -> None:
        await run.call(hidden["deep"]["send"]("a"))

    async with lab([sly]) as runs:
        run = await runs.start(sly, Nothing())
        view = await held(run, "error")
    assert "BadTool" in view.error
    assert log == []


async def test_cancel_undoes_with_a_tool_that_no_reading_of_the_code_finds() -> None:
    """R8: the process that performed it has its code."""
    log: list[str] = []
    hidden = {"deep": {"send": sender(log, "hidden")}}

    @agent("sly")
    async def sly(run: Run[Nothing]) -> None:
        await run.call(hidden["deep"]["send"]("a"))
        raise ValueError("stop here")

    assert "send" not in sly.tools
    async with lab([sly]) as runs:
        run = await runs.start(sly, Nothing())
        await eventually(lambda: log)
        await held(run, "error")
        await run.cancel()
        receipt = await run.settled(10)
    assert [u.outcome for u in receipt.undone] == ["undone"]
    assert log == ["sent by hidden", "undone by hidden"]


async def test_a_tool_that_a_step_makes_anew_each_time_is_the_same_tool() -> None:
    """R8: a tool defined inside a step is no second one of its name."""
    log: list[str] = []

    @agent("maker")
    async def maker(run: Run[Nothing]) -> Done[None] | None:
        await run.call(sender(log, f"step {run.step}")("a"))
        return Done(None) if run.step == 1 else None

    async with lab([maker]) as runs:
        run = await runs.start(maker, Nothing())
        await run.result(timeout=120)
    assert log == ["sent by step 0", "sent by step 1"]
