"""The providers' protocols as bytes: events of a stream, whole answers, and what they refuse."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from tests.providers import objections
from tests.providers.scenes import Act, Answer, Fault, Say, Think, Use


def event(data: Any, name: str = "") -> bytes:
    head = f"event: {name}\n" if name else ""
    body = json.dumps(data, ensure_ascii=False)
    try:
        return f"{head}data: {body}\n\n".encode()
    except UnicodeEncodeError:  # half characters can only be sent in JSON's own spelling
        return f"{head}data: {json.dumps(data)}\n\n".encode()


class Wire(ABC):
    """One answer in one protocol."""

    def __init__(self, body: dict[str, Any], answer: Answer, n: int) -> None:
        self.body = body
        self.answer = answer
        self.n = n  # which request this is: ids are made of it
        self.model = body.get("model", "?")
        self.uses = 0

    def call_id(self, use: Use) -> str:
        self.uses += 1
        return use.id or f"call_{self.n}_{self.uses}"

    @abstractmethod
    def head(self) -> Iterator[bytes]: ...

    @abstractmethod
    def act(self, act: Act) -> Iterator[bytes]: ...

    @abstractmethod
    def end(self) -> Iterator[bytes]: ...

    @abstractmethod
    def whole(self) -> dict[str, Any]:
        """The answer to a request that did not ask for a stream."""

    @abstractmethod
    def error(self, kind: str, message: str) -> dict[str, Any]:
        """The body of an error status."""

    @abstractmethod
    def objection(self) -> str:
        """Why the real provider would refuse this request; empty if it would not."""

    def texts(self, kind: type[Say] | type[Think]) -> str:
        return "".join(a.text for a in self.answer.acts if isinstance(a, kind))

    def calls(self) -> list[Use]:
        return [a for a in self.answer.acts if isinstance(a, Use)]


def pieces(use: Use) -> Iterator[str]:
    for i in range(0, len(use.arguments), use.piece):
        yield use.arguments[i : i + use.piece]


class ChatWire(Wire):
    """OpenAI's chat completions, with `reasoning_content` as local servers send it."""

    def chunk(self, delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return event(self.envelope("chat.completion.chunk", [choice]))

    def envelope(self, kind: str, choices: list[Any]) -> dict[str, Any]:
        return {"id": f"chatcmpl-{self.n}", "object": kind, "created": 1, "model": self.model, "choices": choices}

    def head(self) -> Iterator[bytes]:
        yield self.chunk({"role": "assistant", "content": ""})

    def act(self, act: Act) -> Iterator[bytes]:
        match act:
            case Say(text):
                yield self.chunk({"content": text})
            case Think(text):
                yield self.chunk({"reasoning_content": text})
            case Use():
                index = self.uses
                call = self.call_id(act)
                first = {
                    "index": index,
                    "id": call,
                    "type": "function",
                    "function": {"name": act.name, "arguments": ""},
                }
                yield self.chunk({"tool_calls": [first]})
                for piece in pieces(act):
                    yield self.chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
            case Fault(kind, message):
                yield event(self.error(kind, message))
            case _:
                pass

    def stop(self) -> str:
        return self.answer.stop or ("tool_calls" if self.calls() else "stop")

    def usage(self) -> dict[str, Any] | None:
        if self.answer.usage is None:
            return None
        given, said = self.answer.usage
        return {"prompt_tokens": given, "completion_tokens": said, "total_tokens": given + said}

    def end(self) -> Iterator[bytes]:
        yield self.chunk({}, self.stop())
        if (self.body.get("stream_options") or {}).get("include_usage") and self.answer.usage:
            yield event({**self.envelope("chat.completion.chunk", []), "usage": self.usage()})
        yield b"data: [DONE]\n\n"

    def whole(self) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": self.texts(Say) or None, "refusal": None}
        if calls := self.calls():
            message["tool_calls"] = [
                {"id": self.call_id(c), "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
                for c in calls
            ]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": self.stop()}
        return {**self.envelope("chat.completion", [choice]), "usage": self.usage()}

    def error(self, kind: str, message: str) -> dict[str, Any]:
        return {"error": {"message": message, "type": kind, "param": None, "code": None}}

    def objection(self) -> str:
        return objections.to_chat(self.body)


class ResponsesWire(Wire):
    """OpenAI's responses."""

    def __init__(self, body: dict[str, Any], answer: Answer, n: int) -> None:
        super().__init__(body, answer, n)
        self.seq = 0
        self.items: list[dict[str, Any]] = []
        self.open = ""  # the kind of the item that is being written

    def send(self, kind: str, **data: Any) -> bytes:
        self.seq += 1
        return event({"type": kind, "sequence_number": self.seq, **data}, kind)

    def response(self, status: str) -> dict[str, Any]:
        given, said = self.answer.usage or (0, 0)
        return {
            "id": f"resp_{self.n}",
            "object": "response",
            "created_at": 1,
            "model": self.model,
            "status": status,
            "output": self.items if status != "in_progress" else [],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "error": None,
            "incomplete_details": {"reason": self.answer.stop} if status == "incomplete" else None,
            "usage": {"input_tokens": given, "output_tokens": said, "total_tokens": given + said}
            if status != "in_progress" and self.answer.usage
            else None,
        }

    def head(self) -> Iterator[bytes]:
        yield self.send("response.created", response=self.response("in_progress"))
        yield self.send("response.in_progress", response=self.response("in_progress"))

    def where(self) -> dict[str, Any]:
        return {"item_id": self.items[-1]["id"], "output_index": len(self.items) - 1}

    def begin(self, item: dict[str, Any], kind: str) -> Iterator[bytes]:
        self.items.append(item)
        self.open = kind
        yield self.send("response.output_item.added", output_index=len(self.items) - 1, item=item)

    def close(self) -> Iterator[bytes]:
        if not self.open:
            return
        item = self.items[-1]
        if self.open == "message":
            text = item["content"][0]["text"]
            yield self.send("response.output_text.done", **self.where(), content_index=0, text=text)
            yield self.send("response.content_part.done", **self.where(), content_index=0, part=item["content"][0])
        elif self.open == "reasoning":
            text = item["summary"][0]["text"]
            yield self.send("response.reasoning_summary_text.done", **self.where(), summary_index=0, text=text)
        item["status"] = "completed"
        yield self.send("response.output_item.done", output_index=len(self.items) - 1, item=item)
        self.open = ""

    def act(self, act: Act) -> Iterator[bytes]:
        place = f"{self.n}_{len(self.items)}"
        match act:
            case Say(text):
                if self.open != "message":
                    yield from self.close()
                    item = {
                        "id": f"msg_{place}",
                        "type": "message",
                        "role": "assistant",
                        "status": "in_progress",
                        "content": [],
                    }
                    yield from self.begin(item, "message")
                    part: dict[str, Any] = {"type": "output_text", "text": "", "annotations": []}
                    yield self.send("response.content_part.added", **self.where(), content_index=0, part=part)
                    item["content"] = [part]
                self.items[-1]["content"][0]["text"] += text
                yield self.send("response.output_text.delta", **self.where(), content_index=0, delta=text)
            case Think(text):
                if self.open != "reasoning":
                    yield from self.close()
                    item = {"id": f"rs_{place}", "type": "reasoning", "summary": [], "encrypted_content": "opaque"}
                    yield from self.begin(item, "reasoning")
                    part = {"type": "summary_text", "text": ""}
                    yield self.send("response.reasoning_summary_part.added", **self.where(), summary_index=0, part=part)
                    item["summary"] = [part]
                self.items[-1]["summary"][0]["text"] += text
                yield self.send("response.reasoning_summary_text.delta", **self.where(), summary_index=0, delta=text)
            case Use():
                yield from self.close()
                item = {
                    "id": f"fc_{place}",
                    "type": "function_call",
                    "status": "in_progress",
                    "call_id": self.call_id(act),
                    "name": act.name,
                    "arguments": "",
                }
                yield from self.begin(item, "call")
                for piece in pieces(act):
                    yield self.send("response.function_call_arguments.delta", **self.where(), delta=piece)
                item["arguments"] = act.arguments
                yield self.send("response.function_call_arguments.done", **self.where(), arguments=act.arguments)
                yield from self.close()
            case Fault(kind, message):
                yield self.send("error", code=kind, message=message, param=None)
            case _:
                pass

    def end(self) -> Iterator[bytes]:
        yield from self.close()
        status = "incomplete" if self.answer.stop else "completed"
        yield self.send(f"response.{status}", response=self.response(status))

    def whole(self) -> dict[str, Any]:
        for act in self.answer.acts:
            for _ in self.act(act):
                pass
        for _ in self.close():
            pass
        return self.response("incomplete" if self.answer.stop else "completed")

    def error(self, kind: str, message: str) -> dict[str, Any]:
        return {"error": {"message": message, "type": kind, "param": None, "code": None}}

    def objection(self) -> str:
        return objections.to_responses(self.body)


class AnthropicWire(Wire):
    """Anthropic's messages."""

    def __init__(self, body: dict[str, Any], answer: Answer, n: int) -> None:
        super().__init__(body, answer, n)
        self.index = -1
        self.open = ""

    def send(self, kind: str, **data: Any) -> bytes:
        return event({"type": kind, **data}, kind)

    def message(self, content: list[Any], stop: str | None, said: int) -> dict[str, Any]:
        return {
            "id": f"msg_{self.n}",
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": content,
            "stop_reason": stop,
            "stop_sequence": None,
            "usage": {"input_tokens": (self.answer.usage or (0, 0))[0], "output_tokens": said},
        }

    def head(self) -> Iterator[bytes]:
        yield self.send("message_start", message=self.message([], None, 1))
        yield self.send("ping")

    def begin(self, kind: str, block: dict[str, Any]) -> Iterator[bytes]:
        yield from self.close()
        self.index += 1
        self.open = kind
        yield self.send("content_block_start", index=self.index, content_block={"type": kind, **block})

    def close(self) -> Iterator[bytes]:
        if self.open == "thinking":
            yield self.delta("signature_delta", signature=f"signed-{self.n}")
        if self.open:
            yield self.send("content_block_stop", index=self.index)
        self.open = ""

    def delta(self, kind: str, **data: Any) -> bytes:
        return self.send("content_block_delta", index=self.index, delta={"type": kind, **data})

    def act(self, act: Act) -> Iterator[bytes]:
        match act:
            case Say(text):
                if self.open != "text":
                    yield from self.begin("text", {"text": ""})
                yield self.delta("text_delta", text=text)
            case Think(text):
                if self.open != "thinking":
                    yield from self.begin("thinking", {"thinking": "", "signature": ""})
                yield self.delta("thinking_delta", thinking=text)
            case Use():
                yield from self.begin("tool_use", {"id": self.call_id(act), "name": act.name, "input": {}})
                for piece in pieces(act):
                    yield self.delta("input_json_delta", partial_json=piece)
                yield from self.close()
            case Fault(kind, message):
                yield event(self.error(kind, message), "error")
            case _:
                pass

    def stop(self) -> str:
        return self.answer.stop or ("tool_use" if self.calls() else "end_turn")

    def end(self) -> Iterator[bytes]:
        yield from self.close()
        said = (self.answer.usage or (0, 0))[1]
        delta = {"stop_reason": self.stop(), "stop_sequence": None}
        yield self.send("message_delta", delta=delta, usage={"output_tokens": said})
        yield self.send("message_stop")

    def whole(self) -> dict[str, Any]:
        content: list[dict[str, Any]] = []
        if thought := self.texts(Think):
            content.append({"type": "thinking", "thinking": thought, "signature": f"signed-{self.n}"})
        if text := self.texts(Say):
            content.append({"type": "text", "text": text})
        for call in self.calls():
            use = {"type": "tool_use", "id": self.call_id(call), "name": call.name, "input": json.loads(call.arguments)}
            content.append(use)
        return self.message(content, self.stop(), (self.answer.usage or (0, 0))[1])

    def error(self, kind: str, message: str) -> dict[str, Any]:
        return {"type": "error", "error": {"type": kind, "message": message}}

    def objection(self) -> str:
        return objections.to_anthropic(self.body)


WIRES: dict[str, type[Wire]] = {
    "/chat/completions": ChatWire,
    "/responses": ResponsesWire,
    "/messages": AnthropicWire,
}


def wire_of(path: str) -> type[Wire] | None:
    return next((wire for end, wire in WIRES.items() if path.split("?", maxsplit=1)[0].endswith(end)), None)
