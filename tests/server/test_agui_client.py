"""AG-UI: the official client takes every stream without a complaint, and can go on after each stop (R36)."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.server.official import OfficialClient, Told
from tests.server.serving import Server, eventually

pytestmark = pytest.mark.more  # npm: the official client

STORY = "Once upon a time there was a run that could be stopped."


@pytest.fixture
def front_end(server: Server) -> Iterator[Callable[..., OfficialClient]]:
    """Clients of a test's own."""
    clients: list[OfficialClient] = []

    def make(path: str, state: Any = None) -> OfficialClient:
        one = OfficialClient(server, path, name("t"), state)
        clients.append(one)
        return one

    try:
        yield make
    finally:
        for one in clients:
            one.close()


def name(kind: str) -> str:
    return f"{kind}-{uuid.uuid4().hex[:10]}"


def sound(told: Told, outcome: str) -> Told:
    """It ended as said, and the client had nothing to repair, drop or refuse."""
    assert told.error is None
    assert told.complaints == []
    assert told.end["outcome"] == outcome
    return told


def under_way(server: Server, run: str, step: int = 1) -> None:
    eventually(lambda: server.http.get(f"/api/runs/{run}").status_code == 200 and server.view(run)["step"] >= step)


def spoken(server: Server, run: str) -> None:
    """Until some of its text is in the record."""
    eventually(
        lambda: (
            server.http.get(f"/api/runs/{run}").status_code == 200
            and any(event["type"] == "text_flushed" for event in server.events(run))
        )
    )


def test_text_grows_in_the_clients_own_messages_and_ends_in_success(
    front_end: Callable[..., OfficialClient],
) -> None:
    client = front_end("/agui/writer")
    told = sound(client.run(name("a"), text="Tell a story", messageId="m1"), "success")
    assert [(one["role"], one["content"]) for one in told.messages] == [("user", "Tell a story"), ("assistant", STORY)]
    assert [one["content"] for one in told.new_messages] == [STORY]
    assert told.result == STORY
    assert told.growth[-1] == STORY
    assert told.state["task"] == "Tell a story"
    assert told.interrupts == []


def test_tool_calls_and_their_results_are_messages_and_none_is_left_to_the_front_end(
    front_end: Callable[..., OfficialClient],
) -> None:
    told = sound(front_end("/agui/counter", {"to": 2}).run(name("a")), "success")
    calls = [call for one in told.messages for call in one.get("toolCalls", ())]
    assert [call["function"]["name"] for call in calls] == ["look", "look"]
    results = {one["toolCallId"]: one["content"] for one in told.messages if one["role"] == "tool"}
    assert [results[call["id"]] for call in calls] == ["0", "1"]
    assert told.end["pendingToolCallIds"] == []
    assert told.state["at"] == 2
    assert told.result == 2


def test_a_pause_is_an_open_interrupt_and_the_client_resumes_it(
    server: Server, front_end: Callable[..., OfficialClient]
) -> None:
    client, run = front_end("/agui/counter", {"to": 6, "seconds": 0.3}), name("a")
    client.begin(run)
    under_way(server, run)
    server.post(f"/api/runs/{run}/pause", {"reason": "wait"})
    told = sound(client.told(), "interrupt")
    assert [(one["id"], one["reason"]) for one in told.interrupts] == [("user", "confirmation")]
    assert server.view(run)["status"] == "paused"
    assert told.state["at"] >= 1

    told = sound(client.run(name("a"), responses={"user": {"status": "resolved"}}), "success")
    assert told.interrupts == []
    assert told.result == 6
    assert told.state["at"] == 6
    assert server.view(run)["status"] == "done"
    results = [one["content"] for one in told.messages if one["role"] == "tool"]
    assert results == ["0", "1", "2", "3", "4", "5"], "both halves are one conversation"
    calls = [call for one in told.messages for call in one.get("toolCalls", ())]
    assert len({call["id"] for call in calls}) == len(calls) == 6
    assert [json.loads(call["function"]["arguments"])["n"] for call in calls] == [0, 1, 2, 3, 4, 5], "said once"


def test_a_story_that_is_paused_in_its_midst_is_whole_after_the_resume(
    server: Server, front_end: Callable[..., OfficialClient]
) -> None:
    client, run = front_end("/agui/novelist"), name("a")
    client.begin(run, text="Tell a long story", messageId="m1")
    spoken(server, run)
    server.post(f"/api/runs/{run}/pause")
    told = sound(client.told(), "interrupt")
    partial = told.messages[-1]["content"]
    assert partial
    told = sound(client.run(name("a"), responses={"user": {"status": "resolved"}}), "success")
    assert [one["content"] for one in told.messages[1:]] == [partial, told.result], "what was cut, and the whole"
    assert len(told.growth) > 5, "it came in pieces"


def test_a_client_that_joins_in_the_midst_of_a_text_has_it_whole_and_once(
    server: Server, front_end: Callable[..., OfficialClient]
) -> None:
    client, run = front_end("/agui/novelist"), name("a")
    client.begin(run, text="Tell a long story", messageId="m1")
    spoken(server, run)
    client.abort()
    half = client.told().messages[-1]["content"]
    told = sound(client.run(name("a")), "success")
    assert half and told.result.startswith(half) and half != told.result
    assert [one["content"] for one in told.messages[1:]] == [told.result]
    # somebody else, who has none of it
    client, run = front_end("/agui/novelist"), name("a")
    client.begin(run, text="Tell a long story", messageId="m1")
    spoken(server, run)
    other = front_end(f"/agui/runs/{run}")
    told = sound(other.run(name("a")), "success")
    assert [one["content"] for one in told.messages] == [told.result]


def test_the_next_words_of_a_thread_are_answered_with_what_was_said_in_mind(
    server: Server, front_end: Callable[..., OfficialClient]
) -> None:
    client = front_end("/agui/writer")
    sound(client.run(name("a"), text="Tell a story", messageId="m1"), "success")
    run = name("a")
    told = sound(client.run(run, text="Tell another", messageId="m2"), "success")
    assert [one["content"] for one in told.messages] == ["Tell a story", STORY, "Tell another", STORY]
    log = server.get(f"/api/runs/{run}/state")["log"]
    assert [(one["role"], one["content"]) for one in log] == [
        ("user", "Tell a story"),
        ("assistant", STORY),
        ("user", "Tell another"),
        ("assistant", STORY),
    ]


def test_a_cancel_is_the_cancelled_outcome_with_its_receipt(
    server: Server, front_end: Callable[..., OfficialClient]
) -> None:
    client, run = front_end("/agui/counter", {"to": 1000, "seconds": 0.3}), name("a")
    client.begin(run)
    under_way(server, run)
    server.post(f"/api/runs/{run}/cancel", {"reason": "enough"})
    told = sound(client.told(), "cancelled")
    receipt = told.end["result"]
    assert (receipt["reason"], receipt["calls_after_cancel"]) == ("enough", 0)
    assert receipt["finished_steps"] >= 1
    assert told.state["at"] == receipt["finished_steps"]
    assert told.interrupts == []
    calls = {call["id"] for one in told.messages for call in one.get("toolCalls", ())}
    results = {one["toolCallId"]: one["content"] for one in told.messages if one["role"] == "tool"}
    assert results.keys() == calls, "nothing is left that looks as if it went on"
    assert "no result: aborted" in results.values()


def test_questions_and_approvals_are_answered_through_the_client(
    server: Server, front_end: Callable[..., OfficialClient]
) -> None:
    client = front_end("/agui/shop", {"item": "cup"})
    told = sound(client.run(name("a")), "interrupt")
    (question,) = told.interrupts
    assert (question["reason"], question["message"]) == ("input_required", "Which note?")
    answer = {question["id"]: {"status": "resolved", "payload": "gift"}}
    told = sound(client.run(name("a"), responses=answer), "interrupt")
    (approval,) = told.interrupts
    assert approval["reason"] == "tool_call"
    shown = [call["id"] for one in told.messages for call in one.get("toolCalls", ())]
    assert approval["toolCallId"] in shown, "what is to be approved is in the conversation"
    yes = {approval["id"]: {"status": "resolved", "payload": {"approved": True}}}
    told = sound(client.run(name("a"), responses=yes), "success")
    assert [one["content"] for one in told.messages if one["role"] == "tool"][-1] == "sent cup"
    assert told.state["note"] == "gift"


def test_a_client_that_goes_away_stops_nothing_and_joins_again(
    server: Server, front_end: Callable[..., OfficialClient]
) -> None:
    """R18: closing the stream is no cancel."""
    client, run = front_end("/agui/counter", {"to": 4, "seconds": 0.3}), name("a")
    client.begin(run)
    under_way(server, run)
    client.abort()
    client.told()
    assert server.view(run)["status"] == "running"
    told = sound(client.run(name("a")), "success")
    assert told.result == 4
    assert server.view(run)["status"] == "done"


def test_a_failure_is_an_error_of_the_clients_run(front_end: Callable[..., OfficialClient]) -> None:
    told = front_end("/agui/quitter").run(name("a"))
    assert told.error is None
    assert told.complaints == []
    assert told.end["outcome"] == "error"
    assert "nothing to be done" in told.end["message"]


def test_an_agent_without_a_result_ends_in_success_too(front_end: Callable[..., OfficialClient]) -> None:
    told = sound(front_end("/agui/quiet").run(name("a")), "success")
    assert told.result is None
