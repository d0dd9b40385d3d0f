"""Every REST route, with whatever somebody may send, by every kind of caller (R34).

The routes are those of the app, and must be all that the table of rights names: a new one is fuzzed from its first day.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import strategies as st
from starlette.routing import Route
from tests.attacks.thieves import VERB_BODIES
from tests.fuzz import hostile
from tests.fuzz.callers import Caller, callers
from tests.fuzz.oracle import World
from tests.fuzz.profile import SOAK, tried
from tests.server.serving import Server
from tests.trials import trials

from standfast import Runtime
from standfast.server import control_app
from standfast.server.keys import Keys
from standfast.server.operations import OPERATIONS
from standfast.server.rights import ROUTES, VERBS
from standfast.server.sessions import Sessions

EXAMPLES = 16  # of each route
RUNS = ["still", "asking", "capped", "over"]
BODIES = {each.name: each.body for each in OPERATIONS}
AGUI = {"threadId": "t", "runId": "x", "messages": [{"role": "user", "content": "go", "id": "m"}]}
SENSE: dict[str, Any] = {**VERB_BODIES, "agui": AGUI, "agui_run": AGUI, "halt": {"agent": "none", "reason": "r"}}
"""Bodies that make sense: each field of them is then replaced by something else."""


def _routes(folder: Path) -> dict[str, tuple[str, str]]:
    async def found() -> dict[str, tuple[str, str]]:
        async with Runtime(folder / "x.db", drive=False) as runs:
            keys = Keys(runs)
            sessions = Sessions("t" * 20, folder / "s", keys, secure=False, cookie="c")
            app = control_app(runs, who=keys.who, routes=sessions.routes())
            await app.state.surface.close()
            routes = [route for route in app.routes if isinstance(route, Route)]
            return {route.name: (sorted((route.methods or set()) - {"HEAD"})[0], route.path) for route in routes}

    return asyncio.run(found())


@pytest.fixture(scope="module")
def routes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str]]:
    return _routes(tmp_path_factory.mktemp("routes"))


def people(server: Server, round_: int) -> list[str]:
    """New runs in the states that verbs speak of: paused, with a question, at its cap, ended."""
    still, asking, capped, over = runs = [f"{name}-{round_}" for name in RUNS]
    for halt in server.get("/api/halts")["halts"]:
        server.post(f"/api/halts/{halt['id']}/lift", {"reason": "the next round"})
    server.start("counter", still, to=1000, seconds=0.4)  # it cannot end before it is paused
    server.post(f"/api/runs/{still}/pause")
    server.start("shop", asking)
    given = {"agent": "counter", "id": capped, "state": {"to": 20}, "budget": {"steps": 1}}
    server.post("/api/runs", given, status=201)
    server.start("quiet", over)
    for run, status in ((still, "paused"), (asking, "paused"), (capped, "paused"), (over, "done")):
        server.until(run, status)
    return runs


def test_every_route_of_the_table_is_tried(routes: dict[str, tuple[str, str]]) -> None:
    assert {*ROUTES, *VERBS} - {*routes} == {"socket"}, "the socket has a test of its own"


@pytest.mark.more
@pytest.mark.soak
@pytest.mark.timeout(0 if SOAK else 600)
def test_no_request_breaks_the_server(server: Server, routes: dict[str, tuple[str, str]]) -> None:
    """R34: no 500, always a problem with a hint; what was refused changed nothing; a cancel works in the end."""
    runs = people(server, 0)
    with callers(server, runs[0]) as everybody:
        world = World(server)
        for round_, name in enumerate(sorted(routes), 1):
            method, path = routes[name]
            if method == "POST" and "{id}" in path:  # those of the round before may have ended
                runs = people(server, round_)
                world.went_on()
            _try(world, name, method, path, everybody, runs)
        often, seldom = {200, 401, 403, 404, 409, 422}, {201, 415, 421}  # few requests do not get every answer
        enough = often | trials(set[int](), seldom, seldom)
        assert [status for status in enough if world.statuses[status] < 5] == [], world.statuses
        world.close(*everybody)


def _try(world: World, name: str, method: str, path: str, everybody: list[Caller], runs: list[str]) -> None:
    """Mostly one thing of a request is hostile: what is wrong in many ways is turned away for the first of them."""
    admin = [one for one in everybody if one.name == "admin"]
    sense = st.just(SENSE.get(name, {}))
    hostile_part = {
        "body": _body(name),
        "broken": hostile.bodies,
        "kind": hostile.kinds,
        "headers": hostile.headers,
        "query": hostile.queries,
        "ids": st.lists(hostile.texts, min_size=3, max_size=3),
        "other": st.sampled_from(["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"]),
    }
    sane_part: dict[str, st.SearchStrategy[Any]] = {
        "body": sense,
        "broken": st.just(hostile.BROKEN[0]),
        "kind": st.just(hostile.KINDS[0]),
        "headers": st.just({}),
        "query": st.just([]),
        "ids": st.lists(st.sampled_from(runs), min_size=3, max_size=3),
        "other": st.just(""),
    }
    wrong = st.sampled_from([(), (), ("body",), ("body",), ("body",), *((part,) for part in sane_part), (*sane_part,)])
    asked = wrong.flatmap(
        lambda some: st.fixed_dictionaries(
            {part: (hostile_part if part in some else sane_part)[part] for part in sane_part}
        )
    )

    @tried(EXAMPLES, name, caller=st.sampled_from([*everybody, *admin * len(everybody)]), asked=asked)
    def ask(caller: Caller, asked: dict[str, Any]) -> None:
        verb = asked["other"] or method
        content = asked["broken"](hostile.written(asked["body"])) if verb not in ("GET", "HEAD", "OPTIONS") else None
        given = {"Content-Type": asked["kind"], **asked["headers"]} if content is not None else asked["headers"]
        raw = [(k.encode(), v.encode("latin-1")) for k, v in given.items()]
        url = _filled(path, asked["ids"]) + _asked(asked["query"])
        with caller.http.stream(verb, url, content=content, headers=raw) as answer:
            endless = answer.headers.get("content-type", "").startswith("text/event-stream")
            if not endless:
                answer.read()
        if endless:
            world.went_on()
        elif verb != "HEAD":
            world.judge(answer, caller, f"{caller.name}: {verb} {url[:200]} {given!r:.300} {content!r:.300}")

    ask()


def _body(name: str) -> st.SearchStrategy[Any]:
    """One that makes sense, with some of its fields replaced; or anything at all."""
    sense = dict(SENSE.get(name, {}))
    model = BODIES.get(name)
    fields = sorted({*sense, *(model.model_fields if model is not None else ())})
    if name.startswith("agui"):
        fields += ["resume", "state", "forwardedProps"]
    if not fields:
        return hostile.values
    some = st.dictionaries(st.sampled_from(fields), hostile.values, max_size=2)
    built = some.map(lambda changes: {**sense, **changes})
    if name.startswith("agui"):
        return built | _answers().map(lambda resume: {**AGUI, "resume": resume})
    return hostile.mostly(built, hostile.values)


def _answers() -> st.SearchStrategy[Any]:
    """Answers to interrupts, some of which are there."""
    payload = hostile.values | st.fixed_dictionaries(
        {"verb": st.sampled_from(["resume", "cancel", "x"])}, optional={"args": hostile.values}
    )
    one = st.fixed_dictionaries(
        {
            "interruptId": st.sampled_from(["user", "budget", "asks"]) | hostile.texts,
            "status": st.sampled_from(["resolved", "cancelled", "x"]),
            "payload": payload,
        }
    )
    return st.lists(one, min_size=1, max_size=2)


def _filled(path: str, ids: list[str]) -> str:
    parts: list[str] = []
    left = iter(ids)
    for part in path.split("/"):
        parts.append(quote(next(left).encode("utf-8", "surrogatepass"), safe="") if part.startswith("{") else part)
    return "/".join(parts)[:60_000]


def _asked(query: list[tuple[str, str]]) -> str:
    pairs = [f"{k}={quote(v.encode('utf-8', 'surrogatepass'), safe='')}" for k, v in query]
    return "?" + "&".join(pairs) if pairs else ""
