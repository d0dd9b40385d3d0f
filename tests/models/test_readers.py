"""What providers may send beyond the usual, read into deltas and messages."""

from __future__ import annotations

from typing import Any

import anthropic.types
import openai.types.chat
import openai.types.responses
import pytest
from anthropic._models import construct_type as build_anthropic
from openai._models import construct_type as build_openai

from standfast.models.anthropic_messages import AnthropicMessages, taking_turns
from standfast.models.openai_chat import OpenAIChat
from standfast.models.openai_responses import OpenAIResponses, laid_out
from standfast.models.sdk import SdkProvider, readable
from standfast.replies import Counted, Delta, Finished, ProviderError, Reasoning, Text, ToolCallPart, Usage


def read(provider: SdkProvider, *events: dict[str, Any]) -> tuple[list[Delta], Finished]:
    """The deltas of these events, as the SDK builds them, and the end."""
    reader = provider._reader("http://here")
    deltas: list[Delta] = []
    for event in events:
        if provider.dialect == "anthropic":
            built: Any = build_anthropic(type_=anthropic.types.RawMessageStreamEvent, value=event)
        elif provider.dialect == "openai-chat":
            built = build_openai(type_=openai.types.chat.ChatCompletionChunk, value=event)
        else:
            built = build_openai(type_=openai.types.responses.ResponseStreamEvent, value=event)
        deltas += reader.read(built)
    assert reader.ended
    return deltas, reader.finished()


def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}


# --- chat completions ---------------------------------------------------------------------------------


def test_whole_tool_calls_without_an_index_are_told_apart() -> None:
    """As some local servers send them."""
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    deltas, finished = read(
        OpenAIChat("m"), chunk({"tool_calls": [call]}), chunk({"tool_calls": [{**call, "id": "b"}]}, "tool_calls")
    )
    assert deltas == [ToolCallPart(0, "a", "f", "{}"), ToolCallPart(1, "b", "f", "{}")]
    assert [c["id"] for c in finished.message["tool_calls"]] == ["a", "b"]  # type: ignore[index,union-attr]
    assert finished.message["content"] is None


def test_an_id_that_comes_again_with_each_part_is_taken_once() -> None:
    parts = [{"index": 0, "id": "a", "function": {"name": "f", "arguments": text}} for text in ('{"x"', ": 1}")]
    deltas, finished = read(OpenAIChat("m"), *(chunk({"tool_calls": [p]}) for p in parts), chunk({}, "tool_calls"))
    assert deltas == [ToolCallPart(0, "a", "f", '{"x"'), ToolCallPart(0, "", "", ": 1}")]
    assert finished.message["tool_calls"] == [
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
    ]


def test_a_refusal_is_what_the_model_said() -> None:
    deltas, finished = read(OpenAIChat("m"), chunk({"refusal": "I will not."}), chunk({}, "stop"))
    assert deltas == [Text("I will not.")]
    assert finished.message == {"role": "assistant", "content": "I will not."}


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_both_names_for_reasoning_are_known(name: str) -> None:
    assert read(OpenAIChat("m"), chunk({name: "hm"}), chunk({}, "stop"))[0] == [Reasoning("hm")]


def test_counts_that_come_with_every_chunk_are_running_totals() -> None:
    usage = [{"prompt_tokens": 5, "completion_tokens": n, "total_tokens": 5 + n} for n in (1, 2)]
    deltas, _ = read(OpenAIChat("m"), chunk({"content": "a"}, usage=usage[0]), chunk({}, "stop", usage=usage[1]))
    assert [d.usage for d in deltas if isinstance(d, Counted)] == [Usage(5, 1), Usage(5, 2)]


def test_a_gateway_that_ends_in_error_gave_no_answer() -> None:
    with pytest.raises(ProviderError) as caught:
        read(OpenAIChat("m"), chunk({"content": "half"}), chunk({}, "error"))
    assert caught.value.passing


# --- responses ------------------------------------------------------------------------------------------


def response(output: list[Any], status: str = "completed", **more: Any) -> dict[str, Any]:
    return {"type": f"response.{status}", "response": {"id": "r", "status": status, "output": output, **more}}


CALL = {"type": "function_call", "id": "fc", "call_id": "c1", "name": "f", "arguments": "{}"}


def test_arguments_that_do_not_come_in_pieces_come_with_the_item() -> None:
    added = {"type": "response.output_item.added", "output_index": 0, "item": {**CALL, "arguments": ""}}
    done = {"type": "response.output_item.done", "output_index": 0, "item": CALL}
    deltas, _ = read(OpenAIResponses("m"), added, done, response([CALL]))
    assert deltas == [ToolCallPart(0, "c1", "f"), ToolCallPart(0, arguments="{}")]
    assert read(OpenAIResponses("m"), done, response([CALL]))[0] == [ToolCallPart(0, "c1", "f", "{}")]


def test_items_are_kept_though_the_last_event_does_not_repeat_them() -> None:
    done = {"type": "response.output_item.done", "output_index": 0, "item": CALL}
    assert read(OpenAIResponses("m"), done, response([]))[1].message["output"] == [CALL]


def test_summaries_of_reasoning_are_kept_apart() -> None:
    def part(index: int, text: str) -> list[dict[str, Any]]:
        place = {"item_id": "rs", "output_index": 0, "summary_index": index}
        added = {"type": "response.reasoning_summary_part.added", "part": {"type": "summary_text", "text": ""}, **place}
        return [added, {"type": "response.reasoning_summary_text.delta", "delta": text, **place}]

    deltas, _ = read(OpenAIResponses("m"), *part(0, "one"), *part(1, "two"), response([]))
    assert deltas == [Reasoning("one"), Reasoning("\n\n"), Reasoning("two")]


def test_a_failed_response_is_an_error() -> None:
    failed = response([], "failed", error={"code": "rate_limit_exceeded", "message": "slow down"})
    with pytest.raises(ProviderError, match="slow down") as caught:
        read(OpenAIResponses("m"), failed)
    assert caught.value.trouble == "rate_limited"


def test_a_response_in_a_log_is_laid_out_in_its_place() -> None:
    user, output = {"role": "user", "content": "hi"}, {"type": "function_call_output", "call_id": "c1", "output": "x"}
    assert [*laid_out([user, {"object": "response", "output": [CALL]}, output])] == [user, CALL, output]


# --- messages -------------------------------------------------------------------------------------------


def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    began = {"type": "content_block_start", "index": index, "content_block": start}
    return [began, *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas)]


STOP = [
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}},
    {"type": "message_stop"},
]


def test_hidden_thoughts_citations_and_the_providers_own_tools_are_kept_for_the_next_request() -> None:
    hidden = {"type": "redacted_thinking", "data": "opaque"}
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    cited = {
        "type": "char_location",
        "cited_text": "x",
        "document_index": 0,
        "start_char_index": 0,
        "end_char_index": 1,
    }
    deltas, finished = read(
        AnthropicMessages("m"),
        *block(0, hidden),
        *block(1, search, {"type": "input_json_delta", "partial_json": '{"q": "x"}'}),
        *block(
            2,
            {"type": "text", "text": ""},
            {"type": "text_delta", "text": "So."},
            {"type": "citations_delta", "citation": cited},
        ),
        *STOP,
    )
    assert [d for d in deltas if isinstance(d, ToolCallPart)] == []
    assert finished.message["content"] == [
        hidden,
        {**search, "input": {"q": "x"}},
        {"type": "text", "text": "So.", "citations": [cited]},
    ]


def test_a_thought_without_a_signature_is_left_out_of_the_log() -> None:
    thought = block(
        0, {"type": "thinking", "thinking": "", "signature": ""}, {"type": "thinking_delta", "thinking": "hm"}
    )
    deltas, finished = read(AnthropicMessages("m"), *thought, *block(1, {"type": "text", "text": "Yes."}), *STOP)
    assert deltas[0] == Reasoning("hm")
    assert finished.message["content"] == [{"type": "text", "text": "Yes."}]


def test_cached_input_is_input() -> None:
    usage = {"input_tokens": 1, "cache_creation_input_tokens": 10, "cache_read_input_tokens": 100, "output_tokens": 1}
    start = {"type": "message_start", "message": {"usage": usage, "content": []}}
    deltas, _ = read(AnthropicMessages("m", price=(1_000_000, 0)), start, *STOP)
    assert [d.usage for d in deltas if isinstance(d, Counted)] == [Usage(111, 1, 111.0), Usage(111, 3, 111.0)]


def test_neighbours_of_one_role_become_one_message_with_results_first() -> None:
    use = {"role": "assistant", "content": [{"type": "tool_use", "id": i, "name": "f", "input": {}} for i in "ab"]}
    results = [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": i, "content": "x"}]} for i in "ab"]
    log: list[Any] = [{"role": "user", "content": "hi"}, use, {"role": "user", "content": "stop"}, *results]
    before = str(log)
    turns = taking_turns(log)
    assert [turn["role"] for turn in turns] == ["user", "assistant", "user"]
    assert turns[2]["content"] == [*results[0]["content"], *results[1]["content"], {"type": "text", "text": "stop"}]
    assert str(log) == before, "the log itself is not touched"


@pytest.mark.parametrize(
    ("text", "read_as"), [("abc", "abc"), ("\ud83d\ude00", "😀"), ("a\ud83d", "a\ufffd"), ("é", "é")]
)
def test_half_characters_become_readable(text: str, read_as: str) -> None:
    assert readable(text) == read_as
