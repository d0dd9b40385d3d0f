"""The record's events as AG-UI 1.0 events: each message, call and step is begun once and ended once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from standfast.events import TextDelta
from standfast.server.wire import encode

PROTOCOL_VERSION: Final = "1.0"
SPOKEN: Final = ("text", "reasoning")
STOPS: Final = ("run_paused", "run_done", "run_cancelled", "run_failed")
GOING: Final = ("run_claimed", "run_queued", "resume_asked", "run_started")

Line = dict[str, Any]


@dataclass(slots=True)
class _Speech:
    """What one call has said on one channel."""

    message: str
    channel: str
    emitted: int = 0  # characters that were told
    flushed: int = 0  # characters that are in the record
    open: bool = False
    tries: int = 0


class Saying:
    """One AG-UI run. It begins in the midst of anything and ends with everything closed."""

    def __init__(self, thread: str, run_id: str, run: str) -> None:
        self._thread = thread
        self._run_id = run_id
        self._run = run
        self._step: str | None = None
        self._steps = 0
        self._speech: dict[tuple[str, str], _Speech] = {}
        self._calls: dict[str, str] = {}  # tool calls that were begun, and have no result yet
        self._models: set[str] = set()
        self._ended_calls: set[str] = set()
        self._last: dict[str, Any] = {}
        self.stopped = True  # until it is seen to go on

    def started(self) -> Line:
        """RUN_STARTED, with the version that is spoken."""
        return {
            "type": "RUN_STARTED",
            "threadId": self._thread,
            "runId": self._run_id,
            "protocolVersion": PROTOCOL_VERSION,
            "metadata": {"standfast.run": self._run},
        }

    # --- text --------------------------------------------------------------------------------------------------------

    def delta(self, delta: TextDelta) -> Iterator[Line]:
        """Live text. It never begins a message anew: the record says when a call is tried again."""
        if delta.channel in SPOKEN and delta.call_id not in self._ended_calls:
            yield from self._text(delta.call_id, delta.channel, delta.offset, delta.text, durable=False)

    def _text(self, call: str, channel: str, offset: int, text: str, *, durable: bool) -> Iterator[Line]:
        speech = self._speech.setdefault((call, channel), _Speech(f"{call}.{channel}", channel))
        if durable and offset < speech.flushed:
            yield from self._close(speech)
            speech.tries += 1
            speech.message = f"{call}.{channel}.{speech.tries}"
            speech.emitted = speech.flushed = 0
        if durable:
            speech.flushed = offset + len(text)
        new = text[max(0, speech.emitted - offset) :]
        if offset > speech.emitted or not new:
            return  # lost on the way, or told already: the record has it
        if not speech.open:
            yield from self._open(speech)
        speech.emitted += len(new)
        kind = "TEXT_MESSAGE_CONTENT" if channel == "text" else "REASONING_MESSAGE_CONTENT"
        yield {"type": kind, "messageId": speech.message, "delta": new}

    def _open(self, speech: _Speech) -> Iterator[Line]:
        speech.open = True
        if speech.channel == "text":
            yield {"type": "TEXT_MESSAGE_START", "messageId": speech.message, "role": "assistant"}
        else:
            yield {"type": "REASONING_START", "messageId": speech.message}
            yield {"type": "REASONING_MESSAGE_START", "messageId": speech.message, "role": "reasoning"}

    def _close(self, speech: _Speech) -> Iterator[Line]:
        if not speech.open:
            return
        speech.open = False
        if speech.channel == "text":
            yield {"type": "TEXT_MESSAGE_END", "messageId": speech.message}
        else:
            yield {"type": "REASONING_MESSAGE_END", "messageId": speech.message}
            yield {"type": "REASONING_END", "messageId": speech.message}

    def _close_call(self, call: str) -> Iterator[Line]:
        for (of, _), speech in self._speech.items():
            if of == call:
                yield from self._close(speech)

    # --- events ------------------------------------------------------------------------------------------------------

    def event(self, event: dict[str, Any]) -> Iterator[Line]:
        """One event of the record."""
        kind, call = event["type"], str(event.get("call", ""))
        if kind != "text_flushed":  # the last words of a call stand behind its end
            for ended in list(self._ended_calls):
                yield from self._close_call(ended)
        self._last = event if kind in STOPS else self._last
        if kind in STOPS:
            self.stopped = True
        elif kind in GOING:
            self.stopped = False
        match kind:
            case "text_flushed":
                if event["channel"] in SPOKEN:
                    yield from self._text(call, event["channel"], event["offset"], event["text"], durable=True)
            case "run_claimed":
                self._steps = event["step"]
            case "call_started":
                yield from self._begin_step()
                self._ended_calls.discard(call)
                yield from self._begin_call(event, call)
            case "call_finished" | "call_failed" | "call_cut":
                yield from self._end_call(event, call)
            case "step_finished" | "step_set_back" | "step_failed":
                self._steps = event["step"] + (kind == "step_finished")
                yield from self._end_step()
            case "run_done" | "run_cancelled" | "run_failed" | "run_paused" | "usage_counted":
                return  # told by RUN_FINISHED
            case _:
                yield {"type": "CUSTOM", "name": f"standfast.{kind}", "value": event}

    def _begin_step(self) -> Iterator[Line]:
        if self._step is None:
            self._step = f"step {self._steps}"
            yield {"type": "STEP_STARTED", "stepName": self._step}

    def _end_step(self) -> Iterator[Line]:
        if self._step is not None:
            name, self._step = self._step, None
            yield {"type": "STEP_FINISHED", "stepName": name}

    def _begin_call(self, event: dict[str, Any], call: str) -> Iterator[Line]:
        args = event.get("args")
        if isinstance(args, dict) and "messages" in args and event["effect"] == "read":
            self._models.add(call)  # a model: what it says is text, not a tool's result
            return
        if call in self._calls:
            return  # tried again
        self._calls[call] = event["tool"]
        yield {"type": "TOOL_CALL_START", "toolCallId": call, "toolCallName": event["tool"]}
        yield {"type": "TOOL_CALL_ARGS", "toolCallId": call, "delta": encode(args).decode()}
        yield {"type": "TOOL_CALL_END", "toolCallId": call}

    def _end_call(self, event: dict[str, Any], call: str) -> Iterator[Line]:
        self._ended_calls.add(call)
        if call not in self._calls:
            return
        if event["type"] == "call_cut":
            return  # it may be issued again
        del self._calls[call]
        if event["type"] == "call_finished":
            result = event["result"]
            content = result if isinstance(result, str) else encode(result).decode()
        else:
            content = f"failed: {event['error']}: {event['message']}"
        yield {
            "type": "TOOL_CALL_RESULT",
            "messageId": f"{call}.result",
            "toolCallId": call,
            "content": content,
            "role": "tool",
        }

    # --- the end -----------------------------------------------------------------------------------------------------

    def finished(self, view: dict[str, Any], state: Any) -> Iterator[Line]:
        """Everything that is open is closed, then RUN_FINISHED; RUN_ERROR only for a run that failed."""
        for speech in self._speech.values():
            yield from self._close(speech)
        yield from self._end_step()
        yield {"type": "STATE_SNAPSHOT", "snapshot": state}
        last = self._last
        end: Line = {"type": "RUN_FINISHED", "threadId": self._thread, "runId": self._run_id}
        match view["status"]:
            case "done":
                yield end | {"result": last.get("result"), "outcome": {"type": "success"}}
            case "cancelled":
                yield end | {"result": last.get("receipt"), "outcome": {"type": "cancelled"}}
            case "failed":
                yield {"type": "RUN_ERROR", "message": last.get("error") or view["error"], "code": "failed"}
            case _:
                yield end | {"outcome": {"type": "interrupt", "interrupts": list(_interrupts(view))}}


def _interrupts(view: dict[str, Any]) -> Iterator[Line]:
    needs = view["needs"]
    for need in needs:
        about: Line = {
            "id": need["id"],
            "reason": need["kind"],
            "message": need["text"],
            "metadata": {"standfast.choices": need["choices"]},
        }
        if need["kind"] == "approval":
            about["toolCallId"] = need["call"]
            about["responseSchema"] = {
                "type": "object",
                "properties": {
                    "approved": {"type": "boolean"},
                    "args": {"type": "object"},
                    "reason": {"type": "string"},
                },
                "required": ["approved"],
            }
        elif need["kind"] == "question" and need["choices"]:
            about["responseSchema"] = {"enum": need["choices"]}
        yield about
    named = {need["id"] for need in needs} | {"asks", "in_doubt"}
    for hold in view["holds"]:
        if hold not in named:
            yield {"id": hold, "reason": hold, "message": view["waiting_for"]}
    if not needs and not any(hold not in named for hold in view["holds"]):
        yield {"id": "user", "reason": "paused", "message": view["waiting_for"]}
