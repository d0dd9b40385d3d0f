"""AG-UI 1.0: a run as front ends know it. A pause is an interrupt, a cancel is cancelled with its receipt.

One run of standfast is a thread of AG-UI runs: each goes from one stop to the next. Losing the
stream changes nothing about the run, and controls are the verbs of the API.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import AsyncGenerator
from functools import partial
from typing import Any, Final

from pydantic_core import from_json
from starlette.requests import Request
from starlette.responses import Response

from standfast.abc import Tx
from standfast.control import load
from standfast.errors import StandfastError
from standfast.events import Event
from standfast.json_values import is_object
from standfast.records import ENDED, Json, RunView
from standfast.server.actors import Actor
from standfast.server.agui_events import Saying
from standfast.server.agui_input import Answer, RunInput
from standfast.server.agui_messages import Conversation
from standfast.server.feeds import Watch
from standfast.server.handlers import body_of
from standfast.server.problems import Problem, problem_of
from standfast.server.reach import Piece, Visitor, program_of, visitor
from standfast.server.reading import Filter
from standfast.server.sse import Stream
from standfast.server.surface import Surface, parsed
from standfast.server.verbs import LONGEST_KEY
from standfast.server.wire import encode, told_json
from standfast.shapes import view_json
from standfast.taking_text import only_text
from standfast.verbs.answering import tool_schema

THREAD: Final = "agui.thread"
FIRST: Final = "agui.message"  # the message a run began with
RECALLED: Final = 1_000  # events before the place where a stream joins: calls that are under way there began in them


async def run_agent(surface: Surface, actor: Actor, request: Request) -> Response:
    """POST /agui/{agent}: start a run, or go on with the one of this thread."""
    agent = str(request.path_params["agent"])
    given = parsed(RunInput, await body_of(request), None)
    known = await _of_thread(surface, actor, agent, given.thread_id)
    if known is not None and (known.status not in ENDED or known.id == given.run_id):
        return await _go_on(surface, actor, given, known, program_of(request))
    if given.resume and not await _new_words(surface, given, known):  # an answer begins nothing
        if known is not None:
            return await _go_on(surface, actor, given, known, program_of(request))
        raise Problem(409, "this thread has no run that waits for an answer", "start one without `resume`")
    if agent not in {each["name"] for each in await surface.agents(actor)}:
        raise Problem(404, f"no agent {agent[:100]!r} is known here", "GET /api/agents shows those there are")
    start = {
        "agent": agent,
        "state": await _state(surface, actor, agent, given, again=known is not None),
        "id": given.run_id,
        "labels": {THREAD: given.thread_id, **({FIRST: first} if (first := given.last_words) else {})},
    }
    view = await surface.start(actor, start)
    return _stream(surface, actor, given, view["id"], 0, program_of(request))


async def attach(surface: Surface, actor: Actor, request: Request) -> Response:
    """POST /agui/runs/{id}: what a run says from now on, whoever started it; also answers to its interrupts."""
    run = str(request.path_params["id"])
    given = parsed(RunInput, await body_of(request), None)
    try:
        view = await surface.reader.view(run)
    except StandfastError as error:
        raise problem_of(error, run) from error
    return await _go_on(surface, actor, given, view, program_of(request))


async def _of_thread(surface: Surface, actor: Actor, agent: str, thread: str) -> RunView | None:
    wanted = Filter(agent=agent, labels=((THREAD, thread),), limit=1, scope=actor.scope)
    found = await surface.reader.found(wanted)
    return found[0] if found else None


async def _new_words(surface: Surface, given: RunInput, known: RunView | None) -> bool:
    """Does the input end with words of the user that the thread's last run has not had?"""
    words = given.last_words
    if known is None or not words:
        return bool(words)
    handed = f"/{_words_key(known.id, words)}"  # after the name of whoever sent it
    had = await surface.reader.read(lambda tx: any(each.endswith(handed) for each in tx.requests_of(known.id)))
    return words != known.labels.get(FIRST) and not had


async def _state(surface: Surface, actor: Actor, agent: str, given: RunInput, *, again: bool) -> Any:
    """The state to begin with: the one that was sent, and the last words where the agent takes words."""
    about = next((each for each in await surface.agents(actor) if each["name"] == agent), None)
    field = (about["text_field"] or only_text(about["schema"])) if about is not None else None
    words = next((said.text for said in reversed(given.messages) if said.role == "user"), "")
    state = dict(given.state) if isinstance(given.state, dict) else {}
    if about is None or not field or not words:
        return state
    if not again:
        return {field: words} | state
    # clients send back the state that the last run ended with; a chat goes on with what was said, not with that
    schema: dict[str, Any] = about["schema"]
    return {field: words} | ({"log": given.conversation} if "log" in schema["properties"] else {})


async def _go_on(surface: Surface, actor: Actor, given: RunInput, view: RunView, program: str) -> Response:
    """Answer what the run waits for, hand it new words, and stream from there."""
    after = 0 if view.status in ENDED or view.id == given.run_id else view.seq
    await _resume(surface, actor, given, view)
    words = given.last_words
    if not given.resume and words and words != view.labels.get(FIRST) and view.status not in ENDED:
        # by its own id: words that were handed over before are not said again
        args = {"text": given.messages[-1].text, "request_id": _words_key(view.id, words)}
        await surface.verb(actor, "message", view.id, args)
    return _stream(surface, actor, given, view.id, after, program)


async def _resume(surface: Surface, actor: Actor, given: RunInput, view: RunView) -> None:
    """Every answer is understood before the first is given: one that makes no sense leaves everything as it was."""
    answers = given.resume or []
    twice = [id_ for id_, count in Counter(answer.interrupt_id for answer in answers).items() if count > 1]
    if twice:
        detail = f"{twice[0][:100]!r} is answered more than once; nothing was changed"
        raise Problem(422, detail, "send one answer for each interrupt", run=view.id)
    meant = [(answer.interrupt_id, verb, args) for answer in answers for verb, args in _verbs(view, answer)]
    for taken, (interrupt, verb, args) in enumerate(meant):
        key = _key(f"agui:{given.run_id}:{interrupt}:{verb}")
        try:
            await surface.verb(actor, verb, view.id, {**args, "request_id": key})
        except Problem as problem:
            if taken:
                problem.detail += f"; answers before it were taken: {taken}"
                problem.more["taken"] = taken
            raise


def _words_key(run: str, words: str) -> str:
    return _key(f"agui:{run}:{words}")


def _key(text: str) -> str:
    """A request id of what may be long: clients choose the ids of their runs, messages and interrupts."""
    return text if len(text) <= LONGEST_KEY else f"agui:{hashlib.sha256(text.encode()).hexdigest()}"


def _verbs(view: RunView, answer: Answer) -> list[tuple[str, dict[str, Any]]]:
    """What an answer to an interrupt means."""
    payload: Any = answer.payload
    need = next((shown for shown in view_json(view)["needs"] if shown["id"] == answer.interrupt_id), None)
    if need is None:
        if answer.interrupt_id not in view.holds:
            over = f"any more: it is {view.status}" if view.status in ENDED else "(any more)"
            raise Problem(
                409,
                f"the run does not wait for {answer.interrupt_id[:100]!r} {over}",
                "look at the interrupts of the last RUN_FINISHED",
                run=view.id,
            )
        return [("resume", {})] if answer.status == "resolved" else []
    kind, call = need["kind"], need["call"]
    if kind == "approval":
        return [_approval(view, answer, call)]
    if answer.status == "cancelled":
        return []
    if kind == "question":
        value = payload["answer"] if is_object(payload) and payload.keys() == {"answer"} else payload
        return [("answer", {"call_id": call, "value": value})]
    if kind == "doubt":
        told = payload if is_object(payload) else {"decision": payload}
        return [("resolve", {"call_id": call, **told})]
    choices = need["choices"]
    if is_object(payload) and (unknown := sorted(payload.keys() - {"verb", "args", "label"})):
        raise _unclear(view, answer, f"a choice has verb and args, not {unknown[0][:100]!r}")
    if payload is None and choices:  # resolved, and nothing else: the first choice is the one that goes on
        payload = choices[0]
    verbs = [each["verb"] for each in choices]
    if not is_object(payload) or payload.get("verb") not in verbs:
        raise _unclear(view, answer, f"send one of its choices: {', '.join(verbs)}")
    args: Any = payload.get("args") or {}
    if not is_object(args):
        raise _unclear(view, answer, "args are an object")
    return [(str(payload["verb"]), dict(args))]


def _approval(view: RunView, answer: Answer, call: str) -> tuple[str, dict[str, Any]]:
    """Yes, with which arguments, or no. Whatever else is said is refused: the call must be what the person saw."""
    payload: Any = answer.payload
    told: dict[str, Any] = payload if is_object(payload) else {"approved": payload}
    approved = told.get("approved")
    if answer.status == "cancelled" or approved is False:
        return "deny", {"call_id": call, "reason": str(told.get("reason") or "denied")}
    if approved is not True:  # what nobody said yes to is not done
        raise _unclear(view, answer, 'send {"approved": true} or {"approved": false}')
    unknown = sorted(told.keys() - {"approved", "editedArgs", "reason"})
    if unknown:
        raise _unclear(view, answer, f"{unknown[0][:100]!r} is not known here: changed arguments go into editedArgs")
    edited = told.get("editedArgs")
    if edited is not None and not is_object(edited):
        raise _unclear(view, answer, "editedArgs is an object: the arguments by name")
    reason = told.get("reason")
    if reason is not None and not isinstance(reason, str):
        raise _unclear(view, answer, "reason is a text")
    return "approve", {"call_id": call, "args": edited, **({"reason": reason} if reason else {})}


def _unclear(view: RunView, answer: Answer, hint: str) -> Problem:
    return Problem(
        422, f"the answer to {answer.interrupt_id[:100]!r} is unclear; nothing was changed", hint, run=view.id
    )


def _stream(surface: Surface, actor: Actor, given: RunInput, run: str, after: int, program: str) -> Response:
    def farewell(why: str) -> bytes:
        return _line({"type": "RUN_ERROR", "message": why, "code": "Ended"})

    who = visitor(actor, "agui", program)
    return Stream(surface, _told(surface, given, run, after, who), actor, farewell)


async def _told(surface: Surface, given: RunInput, run: str, after: int, who: Visitor) -> AsyncGenerator[bytes]:
    news = asyncio.Event()
    watch = await surface.feeds.watch(run, after, news.set, who)
    saying = Saying(given.thread_id, given.run_id, run, given.known)
    talk = Conversation(given.sent)
    try:
        yield _line(saying.started())
        for line in saying.recall(await _before(surface, run, after) if after else []):
            yield _text_line(line, saying, watch, talk)
        while not surface.feeds.closing.is_set():
            news.clear()
            while told := await surface.feeds.next_events(watch):
                for one in told:
                    for line in saying.event(from_json(one.json)):
                        yield _text_line(line, saying, watch, talk)
                    watch.client.event(one.seq)
            while delta := watch.live.next():
                for line in saying.delta(delta):
                    yield _text_line(line, saying, watch, talk)
            ending = await _ending(surface, saying, watch, run)
            for line in ending:
                talk.heard(line)
                if line.get("outcome", {}).get("type") == "interrupt":
                    for whole in talk.snapshot():
                        yield _line(whole)
                yield _line(line)
            if ending:
                return
            try:
                async with asyncio.timeout(15):
                    await news.wait()
            except TimeoutError:
                saying.stopped = True  # for all that is known: a look at the run tells
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
    shown = view_json(view)
    asked = {need["call"] for need in shown["needs"] if need["kind"] == "approval"}
    tools = await surface.reader.read(lambda tx: _tools(tx, run, asked))
    return list(saying.finished(shown, state, tools))


def _tools(tx: Tx, run: str, calls: set[str]) -> dict[str, tuple[str, Json | None]]:
    """The tools of calls that wait for a person, with the schema of their arguments."""
    row = load(tx, run)
    found = [each for call in calls if (each := tx.call(row.n, call)) is not None]
    return {each.id: (each.tool, tool_schema(tx, row, each.tool, "schema")) for each in found}


async def _before(surface: Surface, run: str, after: int) -> list[dict[str, Any]]:
    """The last events up to a place."""

    def look(tx: Tx) -> list[Event]:
        rows = tx.record(load(tx, run).n, max(0, after - RECALLED), RECALLED)
        return [event for _, events in rows for event in events if event.seq <= after]

    return [told_json(event) for event in await surface.reader.read(look)]


def _line(event: dict[str, Any]) -> bytes:
    return b"data: %s\n\n" % encode(event)


def _text_line(line: dict[str, Any], saying: Saying, watch: Watch, talk: Conversation) -> bytes:
    """A line, and how far its text goes."""
    talk.heard(line)
    span, saying.spoken = saying.spoken, None
    if span is None:
        return _line(line)
    client = watch.client
    text = partial(client.text, span.call, span.attempt, span.take, span.channel, span.start, span.end - span.start)
    return Piece.of(_line(line), text)
