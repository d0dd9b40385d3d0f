"""LLMAgent: tools, plan, typed results, truthful tool results, and redirects (R5, R14, R17, R29)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel
from tests.helpers import eventually, held

from standfast import (
    Budget,
    CallFailed,
    Chat,
    Done,
    LLMAgent,
    Log,
    Misuse,
    NotPerformed,
    NotStorable,
    Performed,
    Run,
    RunHeld,
    Runtime,
    WrongState,
    agent,
    models,
    tool,
)
from standfast.events import CallStarted
from standfast.models import ScriptedModel, Use, use
from standfast.models.scripted import ScriptedProvider
from standfast.replies import Finished, Request
from standfast.testing import lab


class World:
    """What the tools of these tests have done."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.unsent: list[str] = []
        self.begun: asyncio.Queue[str] = asyncio.Queue()
        self.door = asyncio.Event()


world = World()


@pytest.fixture(autouse=True)
async def fresh() -> None:
    vars(world).update(vars(World()))


@tool(effect="read")
async def look(what: str) -> str:
    """Look something up."""
    return f"{what} is 42"


@tool(effect="read")
async def slow_look(what: str) -> str:
    world.begun.put_nowait(what)
    await world.door.wait()
    return f"{what} is 42"


async def unsend(p: Performed[None, None]) -> None:
    world.unsent.append(p.args["to"])


@tool(undo=unsend)
async def send(to: str) -> None:
    """Send the letter."""
    world.sent.append(to)


@tool
async def slow_send(to: str) -> str:
    world.begun.put_nowait(to)
    await world.door.wait()
    world.sent.append(to)
    return f"sent to {to}"


@tool
async def breaks() -> None:
    raise CallFailed("the line went dead", type="X")


@tool
async def shuts() -> None:
    raise NotPerformed("the office is closed")


@tool(effect="irreversible")
async def burn(what: str) -> str:
    return f"{what} is gone"


def results(log: Any) -> list[str]:
    """What the model was told of its tools."""
    return [m["content"] for m in log if m["role"] == "tool"]


def users(log: Any) -> list[str]:
    return [m["content"] for m in log if m["role"] == "user"]


async def test_a_task_is_answered_with_tools_in_between() -> None:
    m = models.scripted(("Let me see.", use("look", what="x")), "It is 42.")
    one = LLMAgent("one", model=m, tools=[look], instructions="Be brief.")
    async with lab([one]) as runs:
        run = await runs.start(one, "What is x?")
        assert await run.result(timeout=120) == "It is 42."
        log = (await run.state()).log
        assert [m["role"] for m in log] == ["user", "assistant", "tool", "assistant"]
        assert results(log) == ["x is 42"]
        assert m.requests[0].system.startswith("Be brief.")
        assert [t.name for t in m.requests[0].tools] == ["look", "update_plan"]
        assert m.requests[0].tools[0].description == "Look something up."


async def test_instructions_cannot_be_guessed_from_the_record() -> None:
    """R32: the record has a digest of them, salted for each run, and the same in all calls of the run."""
    answers = [use("look", what="x"), "It is 42."]
    one = LLMAgent("one", model=models.scripted(*answers, *answers), tools=[look], instructions="Be discreet.")
    seen: list[set[str]] = []
    async with lab([one]) as runs:
        for _ in range(2):
            run = await runs.start(one, "What is x?")
            await run.result(timeout=120)
            calls = [e async for e in run.events() if isinstance(e, CallStarted) and e.tool != "look"]
            seen.append({str(call.args["system"]) for call in calls})
            assert len(calls) == 2
    assert [len(digests) for digests in seen] == [1, 1]
    assert seen[0] != seen[1]


async def test_it_starts_by_name_with_a_text_from_a_process_without_its_code(tmp_path: Any) -> None:
    one = LLMAgent("one", model=models.scripted("fine"))
    async with (
        Runtime(tmp_path / "runs.db", agents=[one]) as here,
        Runtime(tmp_path / "runs.db", drive=False) as outside,
    ):
        run = await outside.start("one", "How are you?")
        assert await here.handle(run.id).result(timeout=120) == "fine"


async def test_parallel_tools_give_results_in_the_order_asked() -> None:
    m = models.scripted((use("slow_look", what="a"), use("look", what="b")), "done")
    one = LLMAgent("one", model=m, tools=[look, slow_look])
    async with lab([one]) as runs:
        run = await runs.start(one, "Look twice.")
        await asyncio.wait_for(world.begun.get(), 10)
        await eventually(lambda: runs.performed.get("look"))
        world.door.set()
        await run.result(timeout=120)
        assert results((await run.state()).log) == ["a is 42", "b is 42"]


async def test_why_a_tool_was_used_is_what_the_model_said_before() -> None:
    m = models.scripted(("She asked for it.", use("send", to="ann")), "done")
    one = LLMAgent("one", model=m, tools=[send])
    async with lab([one]) as runs:
        run = await runs.start(one, "Write to Ann.")
        await run.result(timeout=120)
        (why,) = [e.why async for e in run.events() if e.type == "call_started" and e.tool == "send"]
        assert why == "She asked for it."


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (Use("nothing", {}), "not executed: there is no tool 'nothing'; the tools are: "),
        (Use("look", "{oh"), "not executed: look cannot be called so"),
        (Use("look", '{"what": 7}'), "not executed: look cannot be called so"),
        (Use("look", ""), "not executed: look cannot be called so"),
        (use("breaks"), "failed: CallFailed: the line went dead; outcome unknown: it may have taken effect"),
        (use("shuts"), "not executed: the office is closed"),
    ],
    ids=["unknown", "no json", "wrong type", "nothing given", "raises", "not performed"],
)
async def test_the_model_is_told_the_truth_about_its_tools(asked: Use, told: str) -> None:
    one = LLMAgent("one", model=models.scripted(asked, "I see."), tools=[look, breaks, shuts])
    async with lab([one]) as runs:
        run = await runs.start(one, "Go.")
        assert await run.result(timeout=120) == "I see."
        (content,) = results((await run.state()).log)
        assert content.startswith(told)


async def test_a_denied_tool_is_not_executed_and_the_model_is_told() -> None:
    """R14"""
    one = LLMAgent("one", model=models.scripted(use("burn", what="the letter"), "As you wish."), tools=[burn])
    async with lab([one]) as runs:
        run = await runs.start(one, "Burn it.")
        (need,) = (await held(run, "asks")).needs
        assert need.call is not None
        await run.deny(need.call, "too early")
        assert await run.result(timeout=120) == "As you wish."
        assert results((await run.state()).log) == ["not executed: denied: too early"]
        assert "burn" not in runs.performed


# --- plan and result ----------------------------------------------------------------------------------


async def test_the_model_keeps_a_plan_that_people_see() -> None:
    items = [{"title": "look", "status": "running"}, {"title": "send"}, {"title": "rest"}]
    later = [{"title": "look", "status": "done"}, {"title": "send", "status": "running"}]
    lines = [use("update_plan", items=items), use("update_plan", items=later), use("slow_look", what="x"), "ok"]
    m = models.scripted(lines)
    one = LLMAgent("one", model=m, tools=[slow_look])
    async with lab([one]) as runs:
        run = await runs.start(one, "Go.")
        await asyncio.wait_for(world.begun.get(), 10)
        plan = (await run.view()).plan
        assert [(i.title, i.status) for i in plan] == [("rest", "dropped"), ("look", "done"), ("send", "running")]
        world.door.set()
        await run.result(timeout=120)
        assert [i.status for i in (await run.view()).plan] == ["dropped", "done", "done"]


class Found(BaseModel):
    n: int


@pytest.mark.parametrize(
    "lines",
    [
        [use("final_result", result={"n": 42})],
        [use("final_result", result={"n": "many"}), use("final_result", result={"n": 42})],
        ['Here you are: {"n": 42}'],
        ["It is about forty.", use("final_result", result={"n": 42})],
        ["", use("final_result", result={"n": 42})],
    ],
    ids=["tool", "mended", "text", "prose first", "nothing first"],
)
async def test_a_result_of_a_type_is_what_comes_out(lines: list[Any]) -> None:
    one = LLMAgent("one", model=models.scripted(lines), result=Found)
    async with lab([one]) as runs:
        run = await runs.start(one, "How many?")
        assert await run.result(timeout=120) == Found(n=42)


async def test_a_model_that_never_answers_holds_the_run() -> None:
    one = LLMAgent("one", model=models.scripted("", again=True))
    async with lab([one]) as runs:
        run = await runs.start(one, "Well?")
        with pytest.raises(RunHeld, match="was empty"):
            await run.result(timeout=120)
        assert (await run.view()).holds == ("error",)


async def test_a_model_that_never_answered_is_asked_again_on_resume() -> None:
    """R4: what the hint of the error promises."""
    said = iter(["", "", "", "", "Seven."])
    one = LLMAgent("one", model=models.scripted([lambda _: next(said)] * 9))
    async with lab([one]) as runs:
        run = await runs.start(one, "Well?")
        with pytest.raises(RunHeld, match="resume to ask again"):
            await run.result(timeout=120)
        await run.resume()
        assert await run.result(timeout=120) == "Seven."


async def test_braces_in_prose_are_no_result_although_every_field_has_a_default() -> None:
    class Memo(BaseModel):
        title: str = "untitled"

    lines = "I would write {} here.", 'Or {"name": "x"}?', 'It is {"title": "Churn"}.'
    one = LLMAgent("one", model=models.scripted(*lines), result=Memo)
    async with lab([one]) as runs:
        run = await runs.start(one, "A memo.")
        assert await run.result(timeout=120) == Memo(title="Churn")


async def test_an_answer_that_was_cut_for_its_length_is_asked_for_to_its_end() -> None:
    """Half a sentence is no result."""

    class Short(ScriptedProvider):
        async def _deltas(self, request: Request) -> Any:
            async for delta in super()._deltas(request):
                cut = isinstance(delta, Finished) and not delta.message["content"].endswith(".")
                yield replace(delta, stop="length") if isinstance(delta, Finished) and cut else delta

    m = ScriptedModel(Short(["It is about", " forty-", "two."], name="short"), retries=0)
    one = LLMAgent("one", model=m)
    async with lab([one]) as runs:
        run = await runs.start(one, "How many?")
        assert await run.result(timeout=120) == "It is about forty-two."
        assert users((await run.state()).log)[1].startswith("You were cut off for length.")


async def test_an_answer_that_is_cut_again_and_again_holds_the_run() -> None:
    class Endless(ScriptedProvider):
        async def _deltas(self, request: Request) -> Any:
            async for delta in super()._deltas(request):
                yield replace(delta, stop="max_tokens") if isinstance(delta, Finished) else delta

    one = LLMAgent("one", model=ScriptedModel(Endless(["and so on "], name="endless", again=True), retries=0))
    async with lab([one]) as runs:
        run = await runs.start(one, "How many?")
        with pytest.raises(RunHeld, match=r"for its length 9 times \(max_tokens\)"):
            await run.result(timeout=120)


async def test_a_name_that_no_provider_takes_is_offered_as_one_that_they_do() -> None:
    @tool(effect="read", name="files.read/all")
    async def read_all() -> str:
        return "all of it"

    m = models.scripted(use("files_read_all"), "done")
    one = LLMAgent("one", model=m, tools=[read_all], plan=False)
    async with lab([one]) as runs:
        run = await runs.start(one, "Read.")
        await run.result(timeout=120)
        assert [t.name for t in m.requests[0].tools] == ["files_read_all"]
        assert results((await run.state()).log) == ["all of it"]


async def test_a_conversation_may_be_brought_along() -> None:
    m = models.scripted("unused", "I said so before.")
    one = LLMAgent("one", model=m)
    before = [{"role": "user", "content": "Hello?"}, {"role": "assistant", "content": "Yes."}]
    async with lab([one]) as runs:
        run = await runs.start(one, Chat(task="Talk", log=Log([*before, {"role": "user", "content": "Well?"}])))
        assert await run.result(timeout=120) == "I said so before."
        assert len(m.requests[0].messages) == 3


@pytest.mark.parametrize("state", ["", "  ", {}, {"tusk": "x"}, {"task": ""}])
async def test_a_start_without_a_task_is_refused_at_once(state: Any, tmp_path: Any) -> None:
    one = LLMAgent("one", model=models.scripted("fine"))
    async with (
        Runtime(tmp_path / "runs.db", agents=[one]) as here,
        Runtime(tmp_path / "runs.db", drive=False) as outside,
    ):
        for runs, agent_ in ((here, one), (outside, "one")):
            with pytest.raises(WrongState):
                await runs.start(agent_, state)
        assert await here.list() == []


async def test_another_agent_is_a_tool_and_a_child() -> None:
    inner = LLMAgent("inner", model=models.scripted("seven"))

    @agent("adder")
    async def adder(run: Run[Found]) -> Done[int]:
        """Adds one."""
        return Done(run.state.n + 1)

    m = models.scripted((use("inner", task="count"), use("adder", n=7), use("adder", m=7)), "done")
    outer = LLMAgent("outer", model=m, tools=[inner, adder])
    async with lab([outer, inner, adder]) as runs:
        run = await runs.start(outer, "Count and add.")
        await run.result(timeout=120)
        first, second, third = results((await run.state()).log)
        assert (first, second) == ("seven", "8")
        assert third.startswith("not executed: adder cannot be started so")
        assert len(await runs.list(agent="inner")) == 1


# --- redirect --------------------------------------------------------------------------------------------


def looks_at(request: Request) -> str:
    """A model that answers what it was last told."""
    return f"heard: {users(request.messages)[-1]}"


async def test_redirect_now_cuts_the_model_and_asks_with_the_new_words() -> None:
    """R5: what it had said is handed to it; the plan's next line is rewritten, with what it said before."""
    m = models.scripted(
        use("update_plan", items=[{"title": "write prose", "status": "running"}]),
        "once upon a time " * 2000,
        looks_at,  # what was cut is in the log: it counts as a reply
        delay=0.005,
    )
    one = LLMAgent("one", model=m)
    async with Runtime(":memory:", agents=[one]) as runs:
        run = await runs.start(one, "Write.")
        await eventually(lambda: _said(run, "once upon"))
        answer = await run.redirect("a table instead", by="ann")
        assert answer and answer.mail
        result = await run.result(timeout=120)
        assert result.startswith("heard: The person watching")
        assert result.endswith("a table instead")
        log = (await run.state()).log
        assert [m["role"] for m in log][-3:] == ["assistant", "user", "assistant"]
        assert log[-3]["content"].startswith("once upon a time")
        assert log[-3]["content"].endswith("(I was interrupted here.)")
        view = await run.view()
        (item,) = view.plan
        assert (item.title, item.was) == ("a table instead", "write prose")
        assert [(m.status, m.step) for m in view.mail] == [("consumed", 2)]


async def test_redirect_next_waits_for_the_boundary() -> None:
    m = models.scripted(("I look.", use("slow_look", what="x")), looks_at)
    one = LLMAgent("one", model=m, tools=[slow_look])
    async with lab([one]) as runs:
        run = await runs.start(one, "Go.")
        await asyncio.wait_for(world.begun.get(), 10)
        await run.redirect("stop looking", when="next")
        assert [mail.status for mail in (await run.view()).mail] == ["pending"]
        world.door.set()
        assert await run.result(timeout=120) == "heard: The person watching you wants this instead: stop looking"
        assert results((await run.state()).log) == ["x is 42"], "the tool was allowed to end"


async def test_redirect_now_among_tools_keeps_what_is_over_and_withholds_the_rest() -> None:
    """R5, R35: no tool the model asked for is left without a truthful result."""
    m = models.scripted((use("send", to="ann"), use("slow_look", what="x"), use("slow_send", to="bob")), looks_at)
    one = LLMAgent("one", model=m, tools=[send, slow_look, slow_send])
    async with lab([one]) as runs:
        run = await runs.start(one, "Go.")
        for _ in range(2):
            await asyncio.wait_for(world.begun.get(), 10)
        await eventually(lambda: world.sent == ["ann"])
        await run.redirect("never mind")
        await eventually(lambda: _only_in_flight(run, "slow_send"))
        world.door.set()
        assert (await run.result(timeout=120)).startswith("heard: ")
        assert results((await run.state()).log) == [
            "done",
            "not executed: a person has redirected the run",
            "sent to bob",
        ]
        assert world.sent == ["ann", "bob"]


@pytest.mark.parametrize("comes", ["hand-back", "message"])
async def test_what_was_approved_is_performed_before_the_note_of_a_hand_back_is_answered(comes: str) -> None:
    """R24: a take-over calls nothing off; a message for right now does, as it may say to leave it."""
    m = models.scripted(use("burn", what="x"), "Thanks.", "Done.")
    one = LLMAgent("one", model=m, tools=[burn])
    async with lab([one]) as runs:
        run = await runs.start(one, "Go.")
        [need] = (await held(run, "asks")).needs
        assert await (run.take_over(by="ann") if comes == "hand-back" else run.pause(by="ann"))
        assert await run.approve(str(need.call))
        if comes == "hand-back":
            assert await run.hand_back("I have seen it")
        else:
            assert await run.message("leave it", when="now")
            assert await run.resume()
        assert await run.result(timeout=120) == "Done."
        withheld = "not executed: a message came that is answered first; ask again if it is still wanted"
        assert results((await run.state()).log) == ["x is gone" if comes == "hand-back" else withheld]


async def test_a_repeatable_tool_that_was_cut_is_not_called_unexecuted() -> None:
    """R35: it had begun, and may have done what it does."""

    @tool(effect="idempotent")
    async def put(to: str) -> None:
        world.begun.put_nowait(to)
        await world.door.wait()

    m = models.scripted((use("put", to="ann"), use("send", to="ann")), looks_at)
    one = LLMAgent("one", model=m, tools=[put, send])
    async with lab([one]) as runs:
        run = await runs.start(one, "Go.")
        await asyncio.wait_for(world.begun.get(), 10)
        await eventually(lambda: world.sent == ["ann"])
        await run.redirect("never mind")
        await run.result(timeout=120)
        cut, sent = results((await run.state()).log)
        assert cut == "cut off: a person has redirected the run; outcome unknown: it may have taken effect"
        assert sent == "done"


async def test_of_two_equal_tools_the_one_that_had_not_ended_is_not_performed_after_a_redirect() -> None:
    """R5"""
    doors = [asyncio.Event(), asyncio.Event()]

    @tool(effect="read")
    async def peek() -> str:
        door = doors[world.begun.qsize()]
        world.begun.put_nowait("peek")
        await door.wait()
        return "seen"

    one = LLMAgent("one", model=models.scripted((use("peek"), use("peek")), looks_at), tools=[peek])
    async with lab([one]) as runs:
        run = await runs.start(one, "Go.")
        await eventually(lambda: world.begun.qsize() == 2)
        doors[1].set()
        await eventually(lambda: _only_in_flight(run, "peek"))
        await run.redirect("never mind")
        await run.result(timeout=120)
        told = results((await run.state()).log)  # which of two equal calls begins first is nobody's business
        assert sorted(told) == ["not executed: a person has redirected the run", "seen"]
        assert world.begun.qsize() == 2


async def test_redirect_from_step_undoes_and_forgets_what_came_after() -> None:
    m = models.scripted(use("send", to="ann"), use("slow_look", what="x"), looks_at)
    one = LLMAgent("one", model=m, tools=[send, slow_look])
    async with lab([one]) as runs:
        run = await runs.start(one, "Write to Ann.")
        await asyncio.wait_for(world.begun.get(), 10)
        await run.redirect("write to nobody", from_step=1)
        world.door.set()
        result = await run.result(timeout=120)
        assert world.unsent == ["ann"]
        assert result == "heard: The person watching you wants this instead: write to nobody"
        assert results((await run.state()).log)[0] == "not executed: a person has redirected the run"


async def test_what_cannot_be_undone_is_named_and_holds_the_run() -> None:
    m = models.scripted(use("slow_send", to="ann"), use("slow_look", what="x"), "done")
    one = LLMAgent("one", model=m, tools=[slow_send, slow_look])
    world.door.set()
    async with lab([one]) as runs:
        run = await runs.start(one, "Write to Ann.", budget=Budget(steps=3))
        await held(run, "budget")
        await run.redirect("no", from_step=0)
        view = await eventually(lambda: _held_for(run, "error"))
        assert "slow_send (impossible: it declares no undo)" in view.waiting_for


# --- long conversations, new processes ---------------------------------------------------------------------


async def test_a_resumed_tools_step_reads_no_log() -> None:
    """R38: a resume does not grow with the conversation."""
    m = models.scripted(*[("w" * 300, use("look", what="x"))] * 30, use("slow_look", what="y"), "done")
    one = LLMAgent("one", model=m, tools=[look, slow_look], budget=Budget(steps=200))
    async with lab([one]) as runs:
        run = await runs.start(one, "Go.")
        await asyncio.wait_for(world.begun.get(), 20)
        asked = len(m.requests)
        await runs.crash()
        await asyncio.wait_for(world.begun.get(), 10)
        assert len(m.requests) == asked
        world.door.set()
        await run.result(timeout=120)


async def test_changed_instructions_hold_a_run_as_stale(tmp_path: Any) -> None:
    """R16"""

    def make(words: str) -> Any:
        m = models.scripted(use("slow_look", what="x"), "done")
        return LLMAgent("one", model=m, tools=[slow_look], instructions=words)

    async with Runtime(tmp_path / "runs.db", agents=[one := make("Be brief.")]) as runs:
        run = await runs.start(one, "Go.")
        await asyncio.wait_for(world.begun.get(), 10)
        await run.pause()
        await run.settled(timeout=120)
    world.door.set()
    async with Runtime(tmp_path / "runs.db", agents=[make("Be verbose.")]) as runs:
        run = runs.handle(run.id)
        await run.resume()
        assert "the instructions have changed" in (await held(run, "stale")).waiting_for
        await run.resume(accept_stale=True)
        assert await run.result(timeout=120) == "done"


async def _said(run: Any, words: str) -> bool:
    return any(words in said.text for said in await run.transcript())


async def _only_in_flight(run: Any, what: str) -> bool:
    return [c.tool for c in (await run.view()).in_flight] == [what]


async def _held_for(run: Any, hold: str) -> Any:
    view = await run.view()
    return view if hold in view.holds else None


def test_a_model_is_needed() -> None:
    with pytest.raises(Exception, match="as its model"):
        LLMAgent("one", model=None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "given",
    [
        {"tools": None},
        {"tools": look},
        {"instructions": None},
        {"budget": 5},
        {"max_frames": "4"},
        {"max_frames": None},
        {"frame_expiry": float("nan")},
        {"frame_expiry": None},
        {"max_held_tokens": "x"},
    ],
    ids=str,
)
def test_what_makes_no_agent_is_said_at_once(given: Any) -> None:
    with pytest.raises(Misuse) as error:
        LLMAgent("one", model=models.scripted("x"), **given)
    assert error.value.hint


@pytest.mark.parametrize(
    "given",
    [{"log": [object()]}, {"tools": None}, {"system": 5}, {"log": "\ud800"}],
    ids=["an object", "no tools", "a number", "half a character"],
)
def test_what_makes_no_question_is_said_at_once(given: Any) -> None:
    with pytest.raises((Misuse, NotStorable)) as error:
        models.scripted("x")(**{"log": "x", **given})
    assert error.value.hint
