"""AG-UI 1.0: the stream fits the official types, and a stop is no error (R36)."""

from __future__ import annotations

import json
import threading
import uuid
from typing import Any

import pytest
from ag_ui.core import Event, RunAgentInput, UserMessage
from pydantic import TypeAdapter
from tests.server.serving import Server, eventually

events_of: TypeAdapter[Any] = TypeAdapter(Event)


def asked(thread: str, text: str = "", state: Any = None, **more: Any) -> dict[str, Any]:
    """What an official client sends."""
    messages = [UserMessage(id=uuid.uuid4().hex, content=text)] if text else []
    given = RunAgentInput(thread_id=thread, run_id=f"a-{uuid.uuid4().hex[:10]}", messages=messages, state=state, **more)
    return json.loads(given.model_dump_json(by_alias=True))


def stream(server: Server, path: str, body: dict[str, Any]) -> list[Any]:
    """Every event, validated by the official types, and the rules of the protocol."""
    told: list[Any] = []
    with server.http.stream("POST", path, json=body) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"].startswith("text/event-stream")
        for line in answer.iter_lines():
            if line.startswith("data: "):
                told.append(events_of.validate_json(line.removeprefix("data: ")))
    in_order(told, body)
    return told


def in_order(told: list[Any], body: dict[str, Any]) -> None:
    """As the protocol's own verifier asks: begun once, ended once, nothing open at the end, nothing after it."""
    kinds = [event.type.value for event in told]
    assert kinds[0] == "RUN_STARTED"
    assert told[0].protocol_version == "1.0"
    assert (told[0].thread_id, told[0].run_id) == (body["threadId"], body["runId"])
    assert kinds[-1] in ("RUN_FINISHED", "RUN_ERROR")
    assert not {"RUN_FINISHED", "RUN_ERROR", "RUN_STARTED"} & set(kinds[1:-1])
    open_messages, open_steps, calls, started = set[str](), set[str](), set[str](), set[str]()
    for event in told:
        match event.type.value:
            case "TEXT_MESSAGE_START" | "REASONING_MESSAGE_START":
                assert event.message_id not in started
                open_messages.add(event.message_id)
                started.add(event.message_id)
            case "TEXT_MESSAGE_CONTENT" | "REASONING_MESSAGE_CONTENT":
                assert event.message_id in open_messages
            case "TEXT_MESSAGE_END" | "REASONING_MESSAGE_END":
                open_messages.remove(event.message_id)
            case "STEP_STARTED":
                assert event.step_name not in open_steps
                open_steps.add(event.step_name)
            case "STEP_FINISHED":
                open_steps.remove(event.step_name)
            case "TOOL_CALL_START":
                assert event.tool_call_id not in calls
                calls.add(event.tool_call_id)
            case "TOOL_CALL_ARGS" | "TOOL_CALL_END" | "TOOL_CALL_RESULT":
                assert event.tool_call_id in calls
            case _:
                pass
    assert not open_messages
    assert not open_steps


def thread() -> str:
    return f"t-{uuid.uuid4().hex[:10]}"


def text_of(told: list[Any]) -> str:
    return "".join(event.delta for event in told if event.type.value == "TEXT_MESSAGE_CONTENT")


def test_a_conversation_is_streamed_and_ends_in_success(server: Server) -> None:
    told = stream(server, "/agui/writer", asked(thread(), "Tell a story"))
    assert text_of(told) == "Once upon a time there was a run that could be stopped."
    assert told[-1].outcome.type == "success"
    assert told[-1].result == text_of(told)


def test_tools_are_shown_with_arguments_and_results(server: Server) -> None:
    told = stream(server, "/agui/counter", asked(thread(), state={"to": 2}))
    names = [event.tool_call_name for event in told if event.type.value == "TOOL_CALL_START"]
    assert names == ["look", "look"]
    results = [event.content for event in told if event.type.value == "TOOL_CALL_RESULT"]
    assert results == ["0", "1"]
    steps = [event.step_name for event in told if event.type.value == "STEP_STARTED"]
    assert steps == ["step 0", "step 1"]
    assert [event for event in told if event.type.value == "STATE_SNAPSHOT"][-1].snapshot["at"] == 2


def test_questions_are_interrupts_that_the_next_run_of_the_thread_answers(server: Server) -> None:
    """Pause is an interrupt outcome, never an error."""
    name = thread()
    told = stream(server, "/agui/shop", asked(name, state={"item": "cup"}))
    (interrupt,) = told[-1].outcome.interrupts
    assert (told[-1].outcome.type, interrupt.reason, interrupt.message) == (
        "interrupt",
        "input_required",
        "Which note?",
    )
    assert interrupt.response_schema == {"enum": ["gift", "none"]}
    entry = {"interruptId": interrupt.id, "status": "resolved", "payload": "gift"}
    told = stream(server, "/agui/shop", asked(name, resume=[entry]))
    (interrupt,) = told[-1].outcome.interrupts
    assert interrupt.reason == "tool_call"
    payload = {"approved": True, "editedArgs": {"item": "pot"}}
    entry = {"interruptId": interrupt.id, "status": "resolved", "payload": payload}
    body = asked(name, resume=[entry])
    told = stream(server, "/agui/shop", body)
    assert told[-1].outcome.type == "success"
    assert [event.content for event in told if event.type.value == "TOOL_CALL_RESULT"] == ["sent pot"]


def to_approve(server: Server, name: str) -> Any:
    """The interrupt of a run that waits for an approval, and what was told before it."""
    told = stream(server, "/agui/shop", asked(name, state={"item": "cup"}))
    entry = {"interruptId": told[-1].outcome.interrupts[0].id, "status": "resolved", "payload": "gift"}
    return stream(server, "/agui/shop", asked(name, resume=[entry]))


def sent_by(told: list[Any]) -> list[str]:
    return [event.content for event in told if event.type.value == "TOOL_CALL_RESULT"]


def test_an_approval_with_edited_arguments_performs_these_and_no_others(server: Server) -> None:
    """As the protocol has it: `approved` and `editedArgs` (R14, R36)."""
    name = thread()
    told = to_approve(server, name)
    (interrupt,) = told[-1].outcome.interrupts
    schema = interrupt.response_schema
    assert set(schema["properties"]) == {"approved", "editedArgs", "reason"}
    assert schema["additionalProperties"] is False
    assert "item" in schema["properties"]["editedArgs"]["properties"]
    payload = {"approved": True, "editedArgs": {"item": "pot"}}
    entry = {"interruptId": interrupt.id, "status": "resolved", "payload": payload}
    assert sent_by(stream(server, "/agui/shop", asked(name, resume=[entry]))) == ["sent pot"]


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"payload": {"approved": True, "edited_args": {"item": "pot"}}}, "edited_args"),
        ({"payload": {"approved": True, "editedargs": {"item": "pot"}}}, "editedargs"),
        ({"payload": {"approved": True, "item": "pot"}}, "item"),
        ({"payload": {"approved": True}, "editedArgs": {"item": "pot"}}, "editedArgs"),
        ({"payload": {"approved": True, "args": {"item": "a"}, "editedArgs": {"item": "b"}}}, "'args' is not known"),
        ({"payload": {"approved": True, "args": {"item": "pot"}}}, "'args' is not known"),
        ({"payload": {"approved": True, "editedArgs": "pot"}}, "editedArgs"),
        ({"payload": {"approved": True, "editedArgs": {"item": 5}}}, "item"),
        ({"payload": {"approved": True, "editedArgs": {"thing": "pot"}}}, "thing"),
        ({"payload": {"approved": True, "reason": 5}}, "reason"),
    ],
    ids=lambda given: json.dumps(given) if isinstance(given, dict) else "",
)
def test_an_approval_that_cannot_be_followed_to_the_letter_performs_nothing(
    server: Server, entry: dict[str, Any], said: str
) -> None:
    """What is not understood is refused, not left out: the arguments would be others than the person saw (R14)."""
    name = thread()
    (interrupt,) = to_approve(server, name)[-1].outcome.interrupts
    body = asked(name)
    body["resume"] = [{"interruptId": interrupt.id, "status": "resolved", **entry}]
    refused = server.post("/agui/shop", body, status=422)
    assert said in json.dumps(refused)
    entry = {"interruptId": interrupt.id, "status": "resolved", "payload": {"approved": True}}
    assert sent_by(stream(server, "/agui/shop", asked(name, resume=[entry]))) == ["sent cup"]


def test_every_interrupt_has_a_reason_of_the_protocol_and_the_conversation_before_it(server: Server) -> None:
    """MESSAGES_SNAPSHOT before an interrupt, STATE_SNAPSHOT too: what the client sent, and what it was told (R36)."""
    name = thread()
    body = asked(name, text="a cup, please", state={"item": "cup"})
    told = stream(server, "/agui/shop", body)
    assert [event.type.value for event in told[-3:]] == ["STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
    assert [message.id for message in told[-2].messages] == [body["messages"][0]["id"]]
    (question,) = told[-1].outcome.interrupts
    entry = {"interruptId": question.id, "status": "resolved", "payload": "gift"}
    again = asked(name, resume=[entry])
    again["messages"] = json.loads(told[-2].model_dump_json(by_alias=True, exclude_none=True))["messages"]
    told = stream(server, "/agui/shop", again)
    (approval,) = told[-1].outcome.interrupts
    first, call = told[-2].messages[0], told[-2].messages[-1]
    assert first.content == "a cup, please"
    assert [one.id for one in call.tool_calls] == [approval.tool_call_id]
    assert json.loads(call.tool_calls[0].function.arguments)["item"] == "cup"
    assert (question.reason, approval.reason) == ("input_required", "tool_call")
    assert question.metadata["standfast.kind"] == "question"
    entry = {"interruptId": approval.id, "status": "resolved", "payload": {"approved": True}}
    told = stream(server, "/agui/shop", asked(name, resume=[entry]))
    assert "MESSAGES_SNAPSHOT" not in [event.type.value for event in told], "it has ended: nothing is to be repaired"


def test_an_approval_that_is_cancelled_is_denied(server: Server) -> None:
    name = thread()
    told = stream(server, "/agui/shop", asked(name, state={"item": "cup"}))
    entry = {"interruptId": told[-1].outcome.interrupts[0].id, "status": "resolved", "payload": {"answer": "none"}}
    told = stream(server, "/agui/shop", asked(name, resume=[entry]))
    entry = {"interruptId": told[-1].outcome.interrupts[0].id, "status": "cancelled"}
    told = stream(server, "/agui/shop", asked(name, resume=[entry]))
    assert "error" in [interrupt.id for interrupt in told[-1].outcome.interrupts]
    refused = server.post("/agui/shop", asked(name, resume=[entry]), status=409)
    assert "does not wait" in refused["detail"]


@pytest.mark.parametrize(
    "payload",
    [
        None,
        {},
        {"approved": "false"},
        {"approved": "no"},
        {"approved": 0},
        {"accepted": False},
        "deny",
        {"decision": 1},
    ],
    ids=repr,
)
def test_what_is_no_clear_yes_approves_nothing(server: Server, payload: Any) -> None:
    """R14: an irreversible call passes on `true` alone."""
    name = thread()
    told = stream(server, "/agui/shop", asked(name, state={"item": "cup"}))
    entry = {"interruptId": told[-1].outcome.interrupts[0].id, "status": "resolved", "payload": "none"}
    told = stream(server, "/agui/shop", asked(name, resume=[entry]))
    entry = {"interruptId": told[-1].outcome.interrupts[0].id, "status": "resolved", "payload": payload}
    refused = server.post("/agui/shop", asked(name, resume=[entry]), status=422)
    assert "unclear" in refused["detail"]
    entry["payload"] = False
    told = stream(server, "/agui/shop", asked(name, resume=[entry]))
    assert "error" in [interrupt.id for interrupt in told[-1].outcome.interrupts]
    assert [event for event in told if event.type.value == "TOOL_CALL_RESULT" and "sent" in event.content] == []


@pytest.mark.parametrize("words", [{"id": "m2"}, {}], ids=["with an id", "without"])
def test_words_beside_an_empty_resume_are_not_dropped(server: Server, words: dict[str, str]) -> None:
    """R22"""
    name = thread()
    stream(server, "/agui/shop", asked(name, state={"item": "cup"}))
    said = {**words, "role": "user", "content": "make haste"}
    body = asked(name, resume=[])
    body["messages"] = [said]
    stream(server, "/agui/shop", body)
    (run,) = [one for one in server.get("/api/runs?agent=shop&limit=1000")["runs"] if name in one["labels"].values()]
    assert [mail["text"] for mail in run["mail"]] == ["make haste"]


@pytest.mark.parametrize("verb", ["pause", "cancel"])
def test_a_stop_in_the_midst_is_an_outcome_never_an_error(server: Server, verb: str) -> None:
    """Cancel is the cancelled outcome with the receipt."""
    body = asked(thread(), state={"to": 1000, "seconds": 0.4})
    done: list[list[Any]] = []
    reader = threading.Thread(target=lambda: done.append(stream(server, "/agui/counter", body)))
    reader.start()
    run = body["runId"]
    eventually(lambda: server.http.get(f"/api/runs/{run}").status_code == 200 and server.view(run)["step"] >= 1)
    server.post(f"/api/runs/{run}/{verb}", {"reason": "enough"})
    reader.join(60)
    (told,) = done
    end = told[-1]
    assert end.type.value == "RUN_FINISHED"
    if verb == "pause":
        assert [(one.id, one.reason) for one in end.outcome.interrupts] == [("user", "confirmation")]
        entry = {"interruptId": "user", "status": "resolved"}
        again = asked(body["threadId"], resume=[entry])
        reader = threading.Thread(target=lambda: done.append(stream(server, "/agui/counter", again)))
        reader.start()
        eventually(lambda: server.view(run)["status"] == "running")
        server.post(f"/api/runs/{run}/cancel", {"reason": "enough"})
        reader.join(60)
        end = done[1][-1]
    assert end.outcome.type == "cancelled"
    assert end.result["reason"] == "enough"
    assert end.result["finished_steps"] >= 1


def test_a_run_can_be_joined_by_its_id_and_the_stream_of_an_ended_one_is_told_again(server: Server) -> None:
    run = server.start("counter", f"r-{uuid.uuid4().hex[:8]}", to=2)
    server.until(run, "done")
    told = stream(server, f"/agui/runs/{run}", asked("any"))
    assert [event.type.value for event in told].count("TOOL_CALL_RESULT") == 2
    assert told[-1].result == 2


def test_what_cannot_be_run_is_a_problem_before_the_stream(server: Server) -> None:
    assert server.post("/agui/nobody", asked("t"), status=404)["hint"]
    assert server.post("/agui/runs/nobody", asked("t"), status=404)["hint"]
    assert server.post("/agui/counter", asked("t", state={"to": "many"}), status=422)["hint"]
    assert server.post("/agui/counter", {"messages": []}, status=422)["hint"]


def test_the_same_request_sent_twice_is_one_run(server: Server) -> None:
    body = asked(thread(), "Tell a story")
    first, second = stream(server, "/agui/writer", body), stream(server, "/agui/writer", body)
    assert text_of(first) == text_of(second)
    assert [event["type"] for event in server.events(body["runId"])].count("mail_received") == 0


@pytest.mark.parametrize("same_run", [True, False], ids=["sent again", "by another tab"])
def test_an_answer_to_a_run_that_has_ended_begins_no_other(server: Server, *, same_run: bool) -> None:
    """A second click would pay a second time (R15, R36)."""
    name = thread()
    (interrupt,) = to_approve(server, name)[-1].outcome.interrupts
    entry = {"interruptId": interrupt.id, "status": "resolved", "payload": {"approved": True}}
    body = asked(name, state={"item": "cup"}, resume=[entry])
    assert sent_by(stream(server, "/agui/shop", body)) == ["sent cup"]
    again = body if same_run else asked(name, state={"item": "cup"}, resume=[entry])
    refused = server.post("/agui/shop", again, status=409)
    assert "any more: it is done" in refused["detail"]
    assert len(runs_of(server, name)) == 1


def test_an_answer_beside_words_that_the_run_has_had_begins_no_other(server: Server) -> None:
    """Clients send the whole conversation each time; only what is said anew begins a new run."""
    name = thread()
    first = asked(name, text="a cup, please", state={"item": "cup"})
    (question,) = stream(server, "/agui/shop", first)[-1].outcome.interrupts
    said = asked(name, text="make haste")
    stream(server, "/agui/shop", said)
    entry = {"interruptId": question.id, "status": "resolved", "payload": "none"}
    (approval,) = stream(server, "/agui/shop", asked(name, resume=[entry]))[-1].outcome.interrupts
    entry = {"interruptId": approval.id, "status": "resolved", "payload": {"approved": True}}
    stream(server, "/agui/shop", asked(name, resume=[entry]))
    for messages in (first["messages"], first["messages"] + said["messages"]):
        server.post("/agui/shop", {**asked(name, resume=[entry]), "messages": messages}, status=409)
    assert len(runs_of(server, name)) == 1
    stream(server, "/agui/shop", asked(name, text="another one", state={"item": "pot"}, resume=[entry]))
    assert len(runs_of(server, name)) == 2, "new words do, whatever was answered beside them"


def test_an_answer_in_a_thread_without_a_run_begins_none(server: Server) -> None:
    name = thread()
    entry = {"interruptId": "user", "status": "resolved"}
    refused = server.post("/agui/shop", asked(name, state={"item": "cup"}, resume=[entry]), status=409)
    assert "no run that waits" in refused["detail"]
    assert runs_of(server, name) == []


def runs_of(server: Server, name: str) -> list[Any]:
    return [one for one in server.get("/api/runs?agent=shop&limit=1000")["runs"] if name in one["labels"].values()]
