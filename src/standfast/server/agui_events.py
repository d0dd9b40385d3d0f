"""The record's events as AG-UI 1.0 events: each message, call and step is begun once and ended once."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from standfast.events import TextDelta
from standfast.records import ENDED, Channel, Json, Span
from standfast.server.wire import encode

PROTOCOL_VERSION: Final = "1.0"
SPOKEN: Final = ("text", "reasoning")
MOST_ENDED: Final = 500  # calls whose late words are still told apart from those of a call that is new
MOST_EARLY: Final = 200
STOPS: Final = ("run_paused", "run_done", "run_cancelled", "run_failed")
GOING: Final = ("run_claimed", "run_queued", "resume_asked", "run_started")
ENDS_OF_CALLS: Final = ("call_finished", "call_failed", "call_cut")
LAST_WORDS: Final = ("text_flushed", *ENDS_OF_CALLS)  # a stop ends several calls, and then come the last words of each

REASONS: Final = {"approval": "tool_call", "question": "input_required", "doubt": "input_required"}
GO_ON: Final = "confirmation"  # the reason of an interrupt that asks whether the run goes on

Line = dict[str, Any]
Tool = tuple[str, Json | None]
"""The name of a tool, and the schema of its arguments where that is known."""


@dataclass(frozen=True, slots=True)
class Known:
    """What the client has already: it is neither begun nor said again."""

    texts: dict[str, str] = field(default_factory=dict[str, str])  # by message
    calls: frozenset[str] = frozenset()
    results: frozenset[str] = frozenset()  # calls that it has the result of


@dataclass(slots=True)
class _Speech:
    """What one attempt of a call has said on one channel."""

    message: str
    channel: str
    emitted: int = 0  # characters that the client has
    flushed: int = 0  # characters that are in the record
    open: bool = False
    tries: int = 0


class Saying:
    """One AG-UI run. It begins in the midst of anything and ends with everything closed."""

    def __init__(self, thread: str, run_id: str, run: str, known: Known | None = None) -> None:
        self._thread = thread
        self._run_id = run_id
        self._run = run
        self._known = known or Known()
        self._step: str | None = None
        self._steps = 0
        self._attempts: dict[str, int] = {}  # of calls that are under way
        self._early: deque[TextDelta] = deque(maxlen=MOST_EARLY)  # live text that was here before its call
        self._speech: dict[tuple[str, str], _Speech] = {}
        self._calls = dict.fromkeys(self._known.calls - self._known.results, "")  # without a result, and why
        self._asked: dict[str, Any] = {}  # arguments of calls that wait for a person
        self._closing: dict[str, None] = {}  # calls that have ended, and may have last words
        self._ended: dict[str, None] = {}
        self._last: dict[str, Any] = {}
        self.stopped = True  # until it is seen to go on
        self.spoken: Span | None = None  # the text in the last line

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
        if delta.channel not in SPOKEN or delta.call_id in self._ended:
            return
        if delta.call_id not in self._attempts:
            self._early.append(delta)
        else:
            yield from self._text(delta.call_id, delta.channel, delta.offset, delta.text, delta.take, durable=False)

    def _text(self, call: str, channel: Channel, offset: int, text: str, take: int, *, durable: bool) -> Iterator[Line]:
        speech = self._speech.get((call, channel))
        if speech is None:
            message = f"{call}.{self._attempts[call]}.{channel}"
            speech = self._speech[call, channel] = _Speech(message, channel, len(self._known.texts.get(message, "")))
        if durable and offset < speech.flushed:
            yield from self._close(speech)
            speech.tries += 1
            speech.message = f"{call}.{self._attempts[call]}.{channel}.{speech.tries}"
            speech.emitted, speech.flushed = len(self._known.texts.get(speech.message, "")), 0
        if durable:
            speech.flushed = offset + len(text)
        new = text[max(0, speech.emitted - offset) :]
        if offset > speech.emitted or not new:
            return  # lost on the way, or told already: the record has it
        if not speech.open:
            yield from self._open(speech)
        start, speech.emitted = speech.emitted, speech.emitted + len(new)
        self.spoken = Span(call, self._attempts[call], take, channel, start, speech.emitted)
        kind = "TEXT_MESSAGE_CONTENT" if channel == "text" else "REASONING_MESSAGE_CONTENT"
        yield {"type": kind, "messageId": speech.message, "delta": new}

    def _join(self, call: str, event: dict[str, Any]) -> None:
        """The call began before anything that is remembered: its text is told from here, and never with a gap."""
        self._attempts[call] = event["attempt"]
        message, start = f"{call}.{event['attempt']}.{event['channel']}", event["offset"]
        had = len(self._known.texts.get(message, ""))
        if had < start:
            message, had = f"{message}.from-{start}", start
        self._speech[call, event["channel"]] = _Speech(message, event["channel"], had)

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
        for channel in SPOKEN:
            speech = self._speech.pop((call, channel), None)
            if speech is not None:
                yield from self._close(speech)
        self._attempts.pop(call, None)

    # --- events ------------------------------------------------------------------------------------------------------

    def recall(self, events: Iterable[dict[str, Any]]) -> Iterator[Line]:
        """What is under way where the stream joins: told from its beginning, as far as the client lacks it."""
        open_calls: dict[str, list[dict[str, Any]]] = {}
        for event in events:
            kind, call = event["type"], str(event.get("call", ""))
            if kind in ("run_claimed", "step_finished", "step_set_back"):
                self._steps = event["step"] + (kind == "step_finished")
            elif kind == "call_started":
                open_calls[call] = [event]
            elif kind in ENDS_OF_CALLS:
                open_calls.pop(call, None)
            elif kind == "asked":
                self._asked[call] = event["args"]
            elif kind == "text_flushed" and call in open_calls:
                open_calls[call].append(event)
            self._went(event)
        for told in open_calls.values():
            for event in told:
                yield from self.event(event)

    def _went(self, event: dict[str, Any]) -> None:
        if event["type"] in STOPS:
            self._last = event
            self.stopped = True
        elif event["type"] in GOING:
            self.stopped = False
        elif event.get("status") == "paused":  # it was queued: nobody had to stop
            self.stopped = True

    def event(self, event: dict[str, Any]) -> Iterator[Line]:
        """One event of the record."""
        kind, call = event["type"], str(event.get("call", ""))
        if kind not in LAST_WORDS:
            for ended in self._closing:
                yield from self._close_call(ended)
            self._closing.clear()
        self._went(event)
        match kind:
            case "text_flushed":
                if event["channel"] in SPOKEN:
                    if call not in self._attempts:
                        self._join(call, event)
                    said = (event["channel"], event["offset"], event["text"], event.get("take", 0))
                    yield from self._text(call, *said, durable=True)
            case "run_claimed":
                self._steps = event["step"]
            case "call_started":
                yield from self._begin_step()
                self._ended.pop(call, None)
                self._asked.pop(call, None)
                self._attempts[call] = event["attempt"]
                yield from self._begin_call(event, call)
                early, self._early = self._early, deque(maxlen=MOST_EARLY)
                for delta in early:
                    yield from self.delta(delta)
            case "call_finished" | "call_failed" | "call_cut":
                yield from self._end_call(event, call)
            case "step_finished" | "step_set_back" | "step_failed":
                self._steps = event["step"] + (kind == "step_finished")
                yield from self._end_step()
            case "run_done" | "run_cancelled" | "run_failed" | "run_paused" | "usage_counted":
                return  # told by RUN_FINISHED
            case _:
                if kind == "asked":
                    self._asked[call] = event["args"]
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
            return  # a model: what it says is text, not a tool's result
        yield from self._show_call(call, event["tool"], args)

    def _show_call(self, call: str, tool: str, args: Any) -> Iterator[Line]:
        if call in self._calls or call in self._known.calls:
            return  # tried again, or asked about before: the client appends whatever it is told
        self._calls[call] = "not finished"
        yield {"type": "TOOL_CALL_START", "toolCallId": call, "toolCallName": tool}
        yield {"type": "TOOL_CALL_ARGS", "toolCallId": call, "delta": encode(args).decode()}
        yield {"type": "TOOL_CALL_END", "toolCallId": call}

    def _end_call(self, event: dict[str, Any], call: str) -> Iterator[Line]:
        self._closing[call] = None
        self._ended[call] = None
        if len(self._ended) > MOST_ENDED:
            del self._ended[next(iter(self._ended))]
        if call not in self._calls:
            return
        if event["type"] == "call_cut":
            self._calls[call] = event["outcome"]
            return  # it may be issued again
        if event["type"] == "call_finished":
            result = event["result"]
            yield from self._result(call, result if isinstance(result, str) else encode(result).decode())
        else:
            yield from self._result(call, f"failed: {event['error']}: {event['message']}")

    def _result(self, call: str, content: str) -> Iterator[Line]:
        del self._calls[call]
        yield {
            "type": "TOOL_CALL_RESULT",
            "messageId": f"{call}.result",
            "toolCallId": call,
            "content": content,
            "role": "tool",
        }

    # --- the end -----------------------------------------------------------------------------------------------------

    def finished(self, view: dict[str, Any], state: Any, tools: Mapping[str, Tool]) -> Iterator[Line]:
        """Everything that is open is closed, then RUN_FINISHED; RUN_ERROR only for a run that failed.

        `tools` has the tools of calls that wait for approval: they are shown, though they have not begun.
        """
        for speech in self._speech.values():
            yield from self._close(speech)
        for call, (name, _) in tools.items():
            yield from self._show_call(call, name, self._asked.get(call))
        if view["status"] in ENDED:  # nothing will come of calls that have no result by now
            for call, why in list(self._calls.items()):
                if why:  # else it may be a call of another run, or of the front end
                    yield from self._result(call, f"no result: {why}")
        yield from self._end_step()
        yield {"type": "STATE_SNAPSHOT", "snapshot": state}
        last = self._last
        end: Line = {"type": "RUN_FINISHED", "threadId": self._thread, "runId": self._run_id}
        match view["status"]:
            case "done":
                result = last.get("result")  # the protocol knows no null: it is left out
                yield end | ({} if result is None else {"result": result}) | {"outcome": {"type": "success"}}
            case "cancelled":
                yield end | {"result": last.get("receipt"), "outcome": {"type": "cancelled"}}
            case "failed":
                yield {"type": "RUN_ERROR", "message": last.get("error") or view["error"], "code": "failed"}
            case _:
                yield end | {"outcome": {"type": "interrupt", "interrupts": list(_interrupts(view, tools))}}


def _interrupts(view: dict[str, Any], tools: Mapping[str, Tool]) -> Iterator[Line]:
    needs = view["needs"]
    for need in needs:
        about: Line = {
            "id": need["id"],
            "reason": REASONS.get(need["kind"], GO_ON),
            "message": " ".join(filter(None, (need["text"], need["about"]))),
            "metadata": {"standfast.kind": need["kind"], "standfast.choices": need["choices"]},
        }
        if need["kind"] == "approval":
            about["toolCallId"] = need["call"]
            about["responseSchema"] = _approval_schema(tools.get(need["call"], ("", None))[1])
        elif need["kind"] == "question" and need["choices"]:
            about["responseSchema"] = {"enum": need["choices"]}
        yield about
    named = {need["id"] for need in needs} | {"asks", "in_doubt"}
    for hold in view["holds"]:
        if hold not in named:
            yield _paused(hold, hold, view)
    if not needs and not any(hold not in named for hold in view["holds"]):
        yield _paused("user", "paused", view)


def _paused(id_: str, kind: str, view: dict[str, Any]) -> Line:
    return {"id": id_, "reason": GO_ON, "message": view["waiting_for"], "metadata": {"standfast.kind": kind}}


def _approval_schema(args: Json | None) -> Line:
    """What an answer to an approval looks like. Arguments that `editedArgs` leaves out stay as they were asked for."""
    args = args or {}
    edited = {name: part for name, part in args.items() if name not in ("required", "$defs")}
    described = {"description": "the changed arguments; those left out stay as they are"}
    return {
        "type": "object",
        "properties": {
            "approved": {"type": "boolean"},
            "editedArgs": {"type": "object", **edited, **described},
            "reason": {"type": "string"},
        },
        "required": ["approved"],
        "additionalProperties": False,
        **({"$defs": args["$defs"]} if "$defs" in args else {}),
    }
