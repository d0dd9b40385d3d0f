"""What the REST operations do: a request in, JSON out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast, get_args
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.datastructures import URL
from starlette.requests import Request
from starlette.responses import Response

from standfast.abc import Tx
from standfast.arguments import MOST_LABELS
from standfast.codec import from_json as stored
from standfast.control import load
from standfast.errors import StandfastError
from standfast.house_events import EvidenceViewed
from standfast.records import ENDED, Status
from standfast.rows import CallRow
from standfast.server.actors import STOP_VERBS, Actor, has
from standfast.server.problems import Problem, malformed, problem_of
from standfast.server.reading import LONGEST_SEARCH, MOST_IN_A_PAGE, Filter
from standfast.server.surface import Surface
from standfast.server.verbs import LONGEST_KEY, Count, Key, Step
from standfast.server.wire import encode, parse, parse_stop, told_json
from standfast.shapes import receipt_json, said_json, stops_json, view_json
from standfast.stop_records import StopRecord, stops_of
from standfast.stops import receipt
from standfast.transcripts import for_clients, transcript_of

PAGE_BYTES = 8_000_000  # of events or stops in one answer
ROWS_AT_ONCE = 50


class Listed(BaseModel):
    """Which runs are wanted."""

    model_config = ConfigDict(extra="forbid")

    status: str | None = Field(None, description="one or more, with commas between them")
    agent: str | None = None
    label: str | None = Field(None, description="name:value; several with commas between them")
    needs: bool | None = Field(None, description="only those that need someone (true), or only the others (false)")
    text: str = Field("", max_length=LONGEST_SEARCH)
    limit: int = Field(100, ge=1, le=MOST_IN_A_PAGE)
    before: Key | None = Field(None, description="the id of the last run of the page before")


class AtStep(BaseModel):
    """Of which step."""

    model_config = ConfigDict(extra="forbid")
    step: Step | None = Field(None, description="the state before this step; default: the current one")


class AfterStop(BaseModel):
    """From which stop on."""

    model_config = ConfigDict(extra="forbid")
    after: Count = Field(0, description="the number of the last stop of the page before")
    limit: int = Field(MOST_IN_A_PAGE, ge=1, le=MOST_IN_A_PAGE)


class After(BaseModel):
    """From which place on."""

    model_config = ConfigDict(extra="forbid")
    after: Count = 0
    limit: int = Field(500, ge=1, le=MOST_IN_A_PAGE)


# --- helpers ------------------------------------------------------------------------------------------------


def answer(value: Any, status: int = 200, **headers: str) -> Response:
    """JSON."""
    return Response(encode(value), status, headers, media_type="application/json")


def query_of(model: type[Any], request: Request) -> Any:
    """The query string; every name once."""
    pairs = request.query_params.multi_items()
    if len({name for name, _ in pairs}) != len(pairs):
        raise Problem(422, "a name is given twice in the query", "put commas between several values")
    try:
        return model.model_validate(dict(pairs))
    except ValidationError as error:
        raise malformed(error) from None


async def body_of(request: Request) -> Any:
    """The JSON body; None if there is none."""
    raw = await request.body()
    return parse(raw) if raw.strip() else None


async def body_of_stop(request: Request) -> Any:
    """The same, of a request that is to stop something: what is no letter in it is replaced."""
    raw = await request.body()
    return parse_stop(raw) if raw.strip() else None


def key_of(request: Request) -> str | None:
    """The Idempotency-Key header."""
    key = request.headers.get("idempotency-key")
    if key is not None and not 1 <= len(key) <= LONGEST_KEY:
        raise Problem(422, f"an idempotency key has 1 to {LONGEST_KEY} characters", "use a random id")
    return key


def run_of(request: Request) -> str:
    """The run that the path names."""
    return str(request.path_params["id"])


async def read(surface: Surface, run: str, look: Callable[[Tx], Any]) -> Any:
    """One look at a run, with its errors as problems."""
    try:
        return await surface.reader.read(look)
    except StandfastError as error:
        raise problem_of(error, run) from error


def filter_of(wanted: Listed) -> Filter:
    """What the query asks for, checked."""
    known: tuple[Any, ...] = get_args(Status)
    statuses: Any = None if wanted.status is None else tuple(word.strip() for word in wanted.status.split(","))
    for word in statuses or ():
        if word not in known:
            raise Problem(422, f"{word[:50]!r} is no status", f"there are {', '.join(known)}")
    labels: list[tuple[str, str]] = []
    for one in (wanted.label or "").split(",") if wanted.label else ():
        name, colon, value = one.partition(":")
        if not colon:
            raise Problem(422, f"{one[:50]!r} is no label", "write name:value")
        labels.append((name, value))
    if len(labels) > MOST_LABELS:
        raise Problem(422, f"{len(labels)} labels are too many", f"give at most {MOST_LABELS}")
    statuses = statuses and tuple(dict.fromkeys(statuses))
    return Filter(statuses, wanted.agent, tuple(sorted(labels)), wanted.needs, wanted.text, wanted.limit, wanted.before)


# --- handlers --------------------------------------------------------------------------------------------------


async def list_agents(surface: Surface, actor: Actor, _: Request) -> Response:
    return answer({"agents": await surface.agents(actor)})


async def list_runs(surface: Surface, actor: Actor, request: Request) -> Response:
    wanted = surface.confined(actor, filter_of(query_of(Listed, request)))
    return answer({"runs": [view_json(view) for view in await surface.reader.found(wanted)]})


async def start_run(surface: Surface, actor: Actor, request: Request) -> Response:
    view = await surface.start(actor, await body_of(request), key_of(request))
    url = URL(scope=request.scope)
    return answer(view, 201, location=f"{url.path.rstrip('/')}/{quote(view['id'], safe='')}")


async def show_run(surface: Surface, _: Actor, request: Request) -> Response:
    return answer(await surface.view(run_of(request)))


async def do_verb(surface: Surface, actor: Actor, request: Request) -> Response:
    name = request.url.path.rstrip("/").rpartition("/")[2]
    body = await (body_of_stop if name in STOP_VERBS else body_of)(request)
    return answer(await surface.verb(actor, name, run_of(request), body, key_of(request)))


async def fork_run(surface: Surface, actor: Actor, request: Request) -> Response:
    view = await surface.fork(actor, run_of(request), await body_of(request), key_of(request))
    base = request.url.path.rstrip("/").rsplit("/", 2)[0]
    return answer(view, 201, location=f"{base}/{quote(view['id'], safe='')}")


async def would_kill(surface: Surface, actor: Actor, request: Request) -> Response:
    if surface.workers is None:
        raise Problem(404, "this server has no workers of its own to kill", "runs are driven by other processes")
    named = await surface.workers.would_kill(run_of(request))
    others = [other for other in cast("list[str]", named["others"]) if surface.reaches(actor, other)]
    return answer({**named, "others": others})


async def show_state(surface: Surface, _: Actor, request: Request) -> Response:
    run = run_of(request)
    step = query_of(AtStep, request).step
    return answer(await surface.runs.handle(run).state(step))


async def show_transcript(surface: Surface, _: Actor, request: Request) -> Response:
    run = run_of(request)
    said = await read(surface, run, lambda tx: transcript_of(tx, load(tx, run)))
    surface.feeds.tellings.fetched(run)
    return answer({"transcript": said_json(for_clients(said))})


async def show_receipt(surface: Surface, _: Actor, request: Request) -> Response:
    run = run_of(request)

    def look(tx: Tx) -> Any:
        row = load(tx, run)
        if row.status not in (*ENDED, "paused"):
            raise Problem(
                409,
                f"the run is {row.status}: nothing has been stopped and settled",
                "ask again once it is paused, cancelled, done or failed",
                run=run,
            )
        return receipt_json(row.doc.receipt or receipt(tx, row, row.status))

    found = await read(surface, run, look)
    surface.feeds.tellings.fetched(run)
    return answer(found)


async def show_stops(surface: Surface, actor: Actor, request: Request) -> Response:
    run = run_of(request)
    wanted = query_of(AfterStop, request)
    stops = await read(surface, run, lambda tx: stops_of(tx, load(tx, run)))
    viewed = EvidenceViewed(run=run, what="stops", by=actor.name, route=actor.route)
    await surface.told(actor, lambda: surface.runs.control(lambda tx: tx.note(viewed)))  # on record before it is shown
    surface.feeds.tellings.fetched(run)
    page, more = _some_of(stops[wanted.after :], wanted.limit)
    return Response(b'{"stops":[%s],"more":%s}' % (page, encode(more)), media_type="application/json")


def _some_of(stops: Sequence[StopRecord], limit: int) -> tuple[bytes, bool]:
    """So many stops, or so many bytes of them; always one, so that whoever reads on gets to the end. And: more?"""
    page, size = list[bytes](), 0
    for stop in stops[:limit]:
        one = encode(stops_json([stop])[0])
        size += len(one)
        if page and size > PAGE_BYTES:
            break
        page.append(one)
    return b",".join(page), len(page) < len(stops)


async def show_result(surface: Surface, _: Actor, request: Request) -> Response:
    run = run_of(request)
    row = await read(surface, run, lambda tx: load(tx, run))
    if row.status not in ENDED:
        raise Problem(409, f"the run is {row.status}: it has no result yet", "watch its events", run=run)
    error = row.doc.error.text if row.doc.error is not None else ""
    return answer({"run": run, "status": row.status, "result": row.doc.result, "error": error})


async def list_calls(surface: Surface, _: Actor, request: Request) -> Response:
    run = run_of(request)
    calls = await read(surface, run, lambda tx: [call_json(call) for call in tx.calls(load(tx, run).n)])
    return answer({"calls": calls})


async def show_call(surface: Surface, _: Actor, request: Request) -> Response:
    run = run_of(request)
    call = str(request.path_params["call_id"])
    found = await read(surface, run, lambda tx: tx.call(load(tx, run).n, call))
    if found is None:
        raise Problem(
            404,
            f"run {run} has no call {call[:100]!r} that is kept",
            "calls of finished steps are in the record",
            run=run,
        )
    return answer(call_json(found))


async def show_record(surface: Surface, _: Actor, request: Request) -> Response:
    run = run_of(request)
    wanted = query_of(After, request)

    def look(tx: Tx) -> bytes:
        return _page_of(tx, load(tx, run).n, run, wanted.after, wanted.limit)

    body = await read(surface, run, look)
    if b'"type":"text_flushed"' in body:
        surface.feeds.tellings.fetched(run)
    return Response(b'{"events":[%s]}' % body, media_type="application/json")


def _page_of(tx: Tx, n: int, run: str, after: int, limit: int) -> bytes:
    """So many events, or so many bytes of them; always one, so that whoever reads on gets to the end."""
    page, size = list[bytes](), 0
    while len(page) < limit and (rows := tx.record(n, after, ROWS_AT_ONCE)):
        after = rows[-1][0]  # a row may have no events any more
        for event in [event for _, events in rows for event in events]:
            one = encode(told_json(event) | {"run": run})
            size += len(one)
            if page and (size > PAGE_BYTES or len(page) >= limit):
                return b",".join(page)
            page.append(one)
    return b",".join(page)


async def show_me(_: Surface, actor: Actor, __: Request) -> Response:
    return answer(actor.json)


async def healthz(_: Surface, __: Actor, ___: Request) -> Response:
    return answer({"ok": True})


async def readyz(surface: Surface, actor: Actor, __: Request) -> Response:
    ready, about = surface.workers.readiness() if surface.workers is not None else (True, {})
    trouble = (
        surface.runs.storage_for_probes() or surface.feeds.trouble
    )  # by the last write: a full disk can still be read
    if trouble:
        ready, about = False, {**about, "store": trouble}
    about = {**about, "record": surface.runs.signing.told()}
    if actor.scope is not None or not has(actor, "view"):
        about = {}  # who works on what is not theirs to know
    if not ready:
        hint = "see workers; they are started again by themselves"
        raise Problem(503, "not everything is at work", hint, headers={"retry-after": "1"}, **cast("Any", about))
    return answer({"ready": True, **about})


def call_json(call: CallRow) -> dict[str, Any]:
    """A call with what went in and what came out."""
    return {
        "id": call.id,
        "tool": call.tool,
        "kind": call.kind,
        "title": call.title,
        "effect": call.effect,
        "status": call.status,
        "step": call.step,
        "attempt": call.attempt,
        "epoch": call.epoch,
        "since": call.since,
        "args": stored(call.args),
        "result": None if call.result is None else stored(call.result),
        "before": None if call.before is None else stored(call.before),
        "error": call.error,
        "message": call.message,
        "question": call.question,
        "options": call.options,
        "settles": call.settles,
        "undo": call.undo,
        "undo_reason": call.undo_reason,
        "tries": call.tries,
    }
