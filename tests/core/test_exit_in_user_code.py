"""sys.exit() in an agent's code ends a call, a step or an undo, never the process that drives other runs too (R6)."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from tests.core.mistakes import Plain, held_by

from standfast import CallFailed, Done, Performed, Run, agent, tool
from standfast.testing import lab


class Quit(BaseException):
    """Somebody else's way to leave."""


async def leave(how: str) -> str:
    if how == "quit":
        raise Quit("now")
    sys.exit(how)


async def exit_undo(p: Performed[str, None]) -> None:
    sys.exit("not today")


read_leaving = tool(effect="read", name="read_leaving")(leave)
read_leaving_in_time = tool(effect="read", timeout=30, name="read_leaving_in_time")(leave)
write_leaving = tool(name="write_leaving", undo=exit_undo)(leave)


@tool(undo=exit_undo)
async def write(text: str) -> str:
    return text


@pytest.mark.parametrize("how", ["exit", "quit"])
@pytest.mark.parametrize("leaving", [read_leaving, read_leaving_in_time, write_leaving])
async def test_a_tool_that_exits_is_a_failed_call(leaving: Any, how: str) -> None:
    @agent("caller")
    async def caller(run: Run[Plain]) -> Done[str]:
        try:
            return Done(await run.call(leaving(how)))
        except CallFailed as error:
            return Done(str(error))

    async with lab([caller]) as runs:
        said = await (await runs.start(caller, Plain())).result(timeout=120)
        assert ("SystemExit" if how == "exit" else "Quit") in said


async def test_a_step_that_exits_is_held_with_its_traceback() -> None:
    @agent("leaver")
    async def leaver(run: Run[Plain]) -> Done[str]:
        sys.exit("enough")

    async with lab([leaver]) as runs:
        view = await held_by(await runs.start(leaver, Plain()), "error")
        assert "SystemExit('enough')" in view.error
        assert 'sys.exit("enough")' in view.traceback


async def test_an_undo_that_exits_is_a_failed_undo() -> None:
    @agent("writer")
    async def writer(run: Run[Plain]) -> Done[str]:
        await run.call(write("a"))
        raise RuntimeError("held here")

    async with lab([writer]) as runs:
        run = await runs.start(writer, Plain())
        await held_by(run, "error")
        await run.cancel()
        receipt = await run.settled()
        (undone,) = receipt.undone
        assert undone.outcome == "failed" and "SystemExit('not today')" in undone.reason
