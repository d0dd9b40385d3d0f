"""Agents, pipelines, runs and handles as the type checkers see them. Checked, never run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, assert_type

from pydantic import BaseModel

from standfast import (
    Accepted,
    Again,
    Agent,
    Answer,
    Budget,
    Call,
    CallFailed,
    Done,
    Handle,
    Happened,
    Idle,
    Message,
    Need,
    NotHappened,
    Performed,
    Pipeline,
    Receipt,
    Refused,
    Run,
    Runtime,
    RunView,
    TooLate,
    agent,
    ask,
    child,
    file_content,
    run_process,
    sleep,
    stop_token,
    tool,
    use,
)


class Counting(BaseModel):
    n: int = 0


@dataclass
class Other:
    text: str = ""


@tool(effect="read")
async def look(page: int) -> list[str]:
    return []


@tool
def count(words: list[str]) -> int:
    return 0


# --- agents ---------------------------------------------------------------------------------------


@agent("counter")
async def counter(run: Run[Counting]) -> Done[str] | Idle | None:
    assert_type(run.state, Counting)
    assert_type(run.state.n, int)
    assert_type(await run.call(look(1)), list[str])
    assert_type(await run.call(count(["a"]), key="k", title="t", why="w"), int)
    assert_type(await run.call_all([look(1), look(2)], limit=3), list[list[str] | CallFailed])
    assert_type(await run.relies_on("notes", file_content("notes.txt")), str | None)
    assert_type(run.take_redirects(), list[str])
    assert_type(run.take_messages(), list[Message])
    return Done("all")


@agent("forever", budget=Budget(steps=3))
async def forever(run: Run[Other]) -> None:
    assert_type(run.state.text, str)


@agent("always_done")
async def always_done(run: Run[Other]) -> Done[int]:
    return Done(1)


assert_type(counter, Agent[Counting, str])
assert_type(always_done, Agent[Other, int])


@agent("wrong_result")
async def wrong_result(run: Run[Other]) -> Done[int]:
    return Done("one")  # type: ignore[arg-type]


@agent("no_step")  # type: ignore[arg-type]
async def no_step(run: Run[Other]) -> int:
    return 1


@agent("not_async")  # type: ignore[arg-type]
def not_async(run: Run[Other]) -> Done[int]:
    return Done(1)


# --- calls ------------------------------------------------------------------------------------------


async def standfast_s_own_calls_are_typed(run: Run[Counting]) -> None:
    assert_type(await run.call(ask("Which?")), str)
    assert_type(await run.call(ask("Which?", ["a", "b"])), str)
    assert_type(await run.call(ask("How many?", type=int)), int)
    assert_type(await run.call(ask("How many?", [1, 2], type=int, timeout=3, default=1)), int)
    assert_type(await run.call(ask("Go on?", type=bool)), bool)
    assert_type(await run.call(sleep(1)), None)
    assert_type(await run.call(child(counter, Counting())), str)
    assert_type(child(always_done, Other()), Call[int])

    child(counter, Other())  # type: ignore[misc]
    await run.call(look("1"))  # type: ignore[arg-type]
    await run.call(look)  # type: ignore[arg-type]
    await run.call("look")  # type: ignore[arg-type]
    await look(1)  # type: ignore[misc]
    await sleep(1)  # type: ignore[misc]
    run.state.m = 1  # type: ignore[attr-defined]


class Service: ...


@tool(effect="idempotent")
async def body(path: str) -> str:
    assert_type(use(Service), Service)
    stop_token().check()
    return (await run_process("ls", path)).stdout


# --- pipelines ----------------------------------------------------------------------------------------


pipeline = Pipeline("pipeline", Counting)


@pipeline.stage("returns nothing")
async def first(run: Run[Counting]) -> None:
    run.state.n = await run.call(count(["a"]))


@pipeline.stage("may be taken again")
async def second(run: Run[Counting]) -> Again | None:
    return Again() if run.state.n < 3 else None


@pipeline.stage("is always taken again")
async def third(run: Run[Counting]) -> Again:
    return Again()


@pipeline.stage("of another state")  # type: ignore[arg-type]
async def fourth(run: Run[Other]) -> None: ...


@pipeline.stage("returns a number")  # type: ignore[type-var]
async def fifth(run: Run[Counting]) -> int:
    return 1


async def a_stage_stays_a_function(run: Run[Counting]) -> None:
    await first(run)
    assert_type(await third(run), Again)


# --- from outside ---------------------------------------------------------------------------------------


async def results_flow_from_done() -> None:
    async with Runtime("runs.db", agents=[counter, pipeline], provide={Service: Service()}) as runs:
        assert_type(runs, Runtime)
        run = await runs.start(counter, Counting())
        assert_type(run, Handle[str])
        assert_type(await run.result(), str)
        assert_type(await (await runs.start(pipeline, Counting())).result(), Counting)
        assert_type(await (await runs.start(always_done, Other())).result(), int)
        assert_type(await (await runs.start(counter, {"n": 3})).result(), str)
        assert_type(await runs.start("counter", {"n": 3}), Handle[Any])
        assert_type(runs.handle("run-1"), Handle[Any])
        assert_type(await run.fork(at=2), Handle[str])
        assert_type(await runs.list(status="paused", needs=True), list[RunView])
        assert_type(await run.settled(), Receipt)

        await runs.start(counter, Other())  # type: ignore[misc]
        await runs.start(pipeline, Other())  # type: ignore[misc]
        await runs.start(counter, 3)  # type: ignore[misc]
        await runs.list(status="stopped")  # type: ignore[arg-type]


async def verbs_answer_with_a_union(run: Handle[str], need: Need) -> None:
    assert_type(await run.pause(by="ann", reason="r", request_id="q", if_seq=3), Answer)
    assert_type(await run.resume(note="n", accept_stale=True, budget=Budget(calls=3)), Answer)
    assert_type(await run.redirect("shorter", when="next"), Answer)
    assert_type(await run.redirect("shorter", from_step=3), Answer)
    assert_type(await run.message("hello", when="later"), Answer)
    assert_type(await run.resend("mail-0"), Answer)
    assert_type(await run.drop("mail-0", reason="no longer needed"), Answer)
    assert_type(await run.abandon("frame-0", "no longer needed"), Answer)
    assert_type(await run.return_to("report"), Answer)
    assert_type(await run.take_over(by="ann"), Answer)
    assert_type(await run.hand_back("over to you"), Answer)
    assert_type(await run.cancel(undo="all", soft=True), Answer)
    assert_type(await run.edit({"n": 3}), Answer)
    assert_type(await run.rewind(2), Answer)
    assert_type(await run.step_once(), Answer)
    assert_type(await run.resolve("call", Happened("x")), Answer)
    assert_type(await run.resolve("call", NotHappened()), Answer)
    assert_type(await run.approve("call", {"amount": 3}), Answer)
    assert_type(await run.deny("call", "no"), Answer)
    assert_type(await run.answer("call", 3), Answer)
    assert_type(await run.choose(need, need.choices[0]), Answer)

    await run.cancel(undo="some")  # type: ignore[arg-type]
    await run.redirect("shorter", when="later")  # type: ignore[arg-type]
    await run.redirect()  # type: ignore[call-arg]
    await run.pause("ann")  # type: ignore[call-arg]
    await run.resolve("call", "happened")  # type: ignore[arg-type]
    await run.edit("n = 3")  # type: ignore[arg-type]
    run.cancel()  # type: ignore[unused-coroutine]


async def only_accepted_is_truthy(run: Handle[str]) -> str:
    answer = await run.cancel()
    if answer:
        assert_type(answer, Accepted)
        return ", ".join(call.tool for call in answer.in_flight)
    assert_type(answer, Refused | TooLate)
    match answer:
        case Refused(why):
            return why
        case TooLate(status):
            return status


# --- undo -------------------------------------------------------------------------------------------------


async def undo_of_a_number(p: Performed[int, None]) -> None: ...


async def undo_of_a_text(p: Performed[str, None]) -> None: ...


async def undo_of_anything(p: Performed[Any, Any]) -> None: ...


@tool(undo=undo_of_a_text)
async def draft(n: int) -> str:
    return ""


@tool(undo=undo_of_anything, effect="write", settles="run")
async def draft_for_anything(n: int) -> str:
    return ""


assert_type(draft(1), Call[str])


@tool(undo=undo_of_a_number)  # type: ignore[arg-type]
async def the_undo_is_for_another_result(n: int) -> str:
    return ""


@tool(undo=undo_of_a_number)  # type: ignore[arg-type]
def the_undo_is_for_another_result_of_plain_code(n: int) -> str:
    return ""


async def old_number(n: int) -> int:
    return n


async def undo_with_a_number(p: Performed[str, int]) -> None:
    assert_type(p.before, int)
    assert_type(p.result, str | None)


@tool(before=old_number, undo=undo_with_a_number)
async def before_and_undo_fit(n: int) -> str:
    return ""


assert_type(before_and_undo_fit(1), Call[str])
tool(before=old_number, undo=undo_of_a_text)  # type: ignore[misc]
