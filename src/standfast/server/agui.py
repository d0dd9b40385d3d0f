"""AG-UI 1.0: a run as front ends know it. A pause is an interrupt, a cancel is cancelled with its receipt.

One run of standfast is a thread of AG-UI runs: each goes from one stop to the next. Losing the
stream changes nothing about the run, and controls are the verbs of the API.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue
from pydantic.alias_generators import to_camel
from pydantic_core import from_json
from starlette.requests import Request
from starlette.responses import Response

from standfast.errors import StandfastError
from standfast.json_values import is_object
from standfast.records import ENDED, RunView
from standfast.server.actors import Actor
from standfast.server.agui_events import Saying
from standfast.server.feeds import Watch
from standfast.server.handlers import body_of
from standfast.server.problems import Problem, problem_of
from standfast.server.reading import Filter
from standfast.server.sse import Stream
from standfast.server.surface import Surface, parsed
from standfast.server.wire import encode
from standfast.shapes import view_json

THREAD: Final = "agui.thread"
FIRST: Final = "agui.message"  # the message a run began with


class _Model(BaseModel):
    model_config = ConfigDict(extra="allow", alias_generator=to_camel, populate_by_name=True)


class Answer(_Model):
    """What somebody says to an interrupt."""

    interrupt_id: str
    status: Literal["resolved", "cancelled"]
    payload: JsonValue = None


class Said(_Model):
    """A message of the conversation."""

    id: str = ""
    role: str
    content: JsonValue = None

    @property
    def text(self) -> str:
        """Its words."""
        if isinstance(self.content, str):
            return self.content
        parts = self.content if isinstance(self.content, list) else []
        texts = [part.get("text") for part in parts if isinstance(part, dict) and part.get("type") == "text"]
        return "\n".join(text for text in texts if isinstance(text, str))


class RunInput(_Model):
    """RunAgentInput, as far as it means something here."""

    thread_id: str = Field(min_length=1, max_length=200)
    run_id: str = Field(min_length=1, max_length=200)
    messages: list[Said] = []
    state: JsonValue = None
    resume: list[Answer] | None = None
    forwarded_props: JsonValue = None


async def run_agent(surface: Surface, actor: Actor, request: Request) -> Response:
    """POST /agui/{agent}: start a run, or go on with the one of this thread."""
    agent = str(request.path_params["agent"])
    given = parsed(RunInput, await body_of(request), None)
    known = await _of_thread(surface, actor, agent, given.thread_id)
    if known is not None and (known.status not in ENDED or known.id == given.run_id):
        return await _go_on(surface, actor, given, known)
    if agent not in {each["name"] for each in await surface.agents(actor)}:
        raise Problem(404, f"no agent {agent[:100]!r} is known here", "GET /api/agents shows those there are")
    start = {
        "agent": agent,
        "state": await _state(surface, actor, agent, given),
        "id": given.run_id,
        "labels": {THREAD: given.thread_id, **({FIRST: first} if (first := _last_words(given)) else {})},
    }
    view = await surface.start(actor, start)
    return _stream(surface, actor, given, view["id"], 0)


async def attach(surface: Surface, actor: Actor, request: Request) -> Response:
    """POST /agui/runs/{id}: what a run says from now on, whoever started it; also answers to its interrupts."""
    run = str(request.path_params["id"])
    given = parsed(RunInput, await body_of(request), None)
    try:
        view = await surface.reader.view(run)
    except StandfastError as error:
        raise problem_of(error, run) from error
    return await _go_on(surface, actor, given, view)


async def _of_thread(surface: Surface, actor: Actor, agent: str, thread: str) -> RunView | None:
    wanted = Filter(agent=agent, labels=((THREAD, thread),), limit=1, scope=actor.scope)
    found = await surface.reader.found(wanted)
    return found[0] if found else None


async def _state(surface: Surface, actor: Actor, agent: str, given: RunInput) -> Any:
    """The state to begin with: the one that was sent, and the last words where the agent takes words."""
    field = next((each["text_field"] for each in await surface.agents(actor) if each["name"] == agent), None)
    words = next((said.text for said in reversed(given.messages) if said.role == "user"), "")
    state = dict(given.state) if isinstance(given.state, dict) else {}
    if field and words:
        state.setdefault(field, words)
    return state


async def _go_on(surface: Surface, actor: Actor, given: RunInput, view: RunView) -> Response:
    """Answer what the run waits for, hand it new words, and stream from there."""
    after = 0 if view.status in ENDED or view.id == given.run_id else view.seq
    for answer in given.resume or ():
        for verb, args in _verbs(view, answer):
            key = f"agui:{given.run_id}:{answer.interrupt_id}:{verb}"
            await surface.verb(actor, verb, view.id, {**args, "request_id": key})
    words = _last_words(given)
    if given.resume is None and words and words != view.labels.get(FIRST) and view.status not in ENDED:
        # by its own id: words that were handed over before are not said again
        args = {"text": given.messages[-1].text, "request_id": f"agui:{view.id}:{words}"}
        await surface.verb(actor, "message", view.id, args)
    return _stream(surface, actor, given, view.id, after)


def _last_words(given: RunInput) -> str:
    """The id of the user's last message, if the conversation ends with it."""
    last = given.messages[-1] if given.messages else None
    return last.id if last is not None and last.role == "user" else ""


def _verbs(view: RunView, answer: Answer) -> list[tuple[str, dict[str, Any]]]:
    """What an answer to an interrupt means."""
    payload: Any = answer.payload
    need = next((shown for shown in view_json(view)["needs"] if shown["id"] == answer.interrupt_id), None)
    if need is None:
        if answer.interrupt_id not in view.holds:
            raise Problem(
                409,
                f"the run does not wait for {answer.interrupt_id[:100]!r} (any more)",
                "look at the interrupts of the last RUN_FINISHED",
                run=view.id,
            )
        return [("resume", {})] if answer.status == "resolved" else []
    kind, call = need["kind"], need["call"]
    if kind == "approval":
        told = payload if is_object(payload) else {"approved": payload}
        if answer.status == "cancelled" or told.get("approved") is False:
            return [("deny", {"call_id": call, "reason": str(told.get("reason") or "denied")})]
        return [("approve", {"call_id": call, "args": told.get("args")})]
    if answer.status == "cancelled":
        return []
    if kind == "question":
        value = payload["answer"] if is_object(payload) and payload.keys() == {"answer"} else payload
        return [("answer", {"call_id": call, "value": value})]
    if kind == "doubt":
        told = payload if is_object(payload) else {"decision": payload}
        return [("resolve", {"call_id": call, **told})]
    choice = payload if is_object(payload) and "verb" in payload else need["choices"][0]
    return [(str(choice["verb"]), dict(choice.get("args") or {}))]


def _stream(surface: Surface, actor: Actor, given: RunInput, run: str, after: int) -> Response:
    def farewell(why: str) -> bytes:
        return _line({"type": "RUN_ERROR", "message": why, "code": "Ended"})

    return Stream(_told(surface, given, run, after), actor, farewell)


async def _told(surface: Surface, given: RunInput, run: str, after: int) -> AsyncGenerator[bytes]:
    news = asyncio.Event()
    watch = await surface.feeds.watch(run, after, news.set)
    saying = Saying(given.thread_id, given.run_id, run)
    try:
        yield _line(saying.started())
        while not surface.feeds.closing.is_set():
            news.clear()
            while told := await surface.feeds.next_events(watch):
                for one in told:
                    for line in saying.event(from_json(one.json)):
                        yield _line(line)
            while watch.deltas:
                for line in saying.delta(watch.deltas.popleft()):
                    yield _line(line)
            ending = await _ending(surface, saying, watch, run)
            for line in ending:
                yield _line(line)
            if ending:
                return
            try:
                async with asyncio.timeout(15):
                    await news.wait()
            except TimeoutError:
                yield b": still here\n\n"
    except StandfastError as error:
        yield _line({"type": "RUN_ERROR", "message": str(error), "code": type(error).__name__})
    finally:
        surface.feeds.unwatch(watch)


async def _ending(surface: Surface, saying: Saying, watch: Watch, run: str) -> list[dict[str, Any]]:
    """How this AG-UI run ends, if the run has stopped and everything it said was told."""
    if watch.behind or not saying.stopped:
        return []
    view = await surface.reader.view(run)
    if view.seq > watch.after or view.status not in (*ENDED, "paused"):
        return []
    state = await surface.runs.handle(run).state()
    return list(saying.finished(view_json(view), state))


def _line(event: dict[str, Any]) -> bytes:
    return b"data: %s\n\n" % encode(event)
