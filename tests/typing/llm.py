"""Models, tool use and LLMAgent as the type checkers see them. Checked, never run."""

from __future__ import annotations

from typing import assert_type

from pydantic import BaseModel

from standfast import Call, Done, Handle, Json, LLMAgent, Log, Run, Runtime, agent, models, tool
from standfast.models import Reply


class Found(BaseModel):
    n: int


class Talk(BaseModel):
    log: Log[Json] = Log()


@tool(effect="read")
async def look(what: str) -> str:
    return what


m = models.scripted("hello")
plain = LLMAgent("plain", model=m, tools=[look], instructions="Be brief.")
typed = LLMAgent("typed", model=m, result=Found)


@agent("own")
async def own(run: Run[Talk]) -> Done[str] | None:
    call = m(run.state.log, tools=[look], system="Be brief.", temperature=0)
    assert_type(call, Call[Reply])
    reply = await run.call(call)
    assert_type(reply, Reply)
    run.state.log.append(reply.message)
    assert_type(await run.use_tools(reply, [look]), list[Json])
    run.use_tools(reply)  # type: ignore[call-arg, unused-coroutine]
    return Done(reply.text) if not reply.tool_calls else None


async def outside(runs: Runtime) -> None:
    assert_type(await runs.start(plain, "a task"), Handle[str])
    found = await (await runs.start(typed, "a task")).result()
    assert_type(found, Found)
    _ = LLMAgent("no model", tools=[look])  # type: ignore[call-overload]
    _ = LLMAgent("no model", model="gpt")  # type: ignore[call-overload]
