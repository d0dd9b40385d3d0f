"""What every door of the server stands on: one runtime, its readers, its watchers, and what may be done through it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.responses import Response

from standfast.abc import Tx
from standfast.control import unknown
from standfast.errors import StandfastError, UnknownAgent, UnknownRun
from standfast.json_values import is_object
from standfast.leases import proven_dead
from standfast.records import Accepted, Answer, Json, Refused
from standfast.rights import Right
from standfast.runtime import Runtime
from standfast.server.about import About
from standfast.server.actors import STOP_VERBS, Actor, has, right_of
from standfast.server.attempts import Attempts
from standfast.server.feeds import Feeds
from standfast.server.problems import Problem, malformed, problem_of
from standfast.server.readers import Readers
from standfast.server.reading import Filter, Reader
from standfast.server.rights import LETS_GO, MORE, OF_PEOPLE
from standfast.server.turns import Turns
from standfast.server.verbs import VERBS, Asked, Fork, Start, carry_out, stop_args
from standfast.server.wire import said_no
from standfast.shapes import agent_json, answer_json, view_json
from standfast.tokens import reaches

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")

BYE_SECONDS = 1.5
SOON = {"retry-after": "1"}


class Workers(Protocol):
    """The worker processes of a server, as its doors need them."""

    def readiness(self) -> tuple[bool, Json]:
        """Are all of them at work, and what is there to say about them?"""
        ...

    def abouts(self) -> Mapping[str, About]:
        """What the agents say of themselves, by name."""
        ...

    async def would_kill(self, run: str) -> Json:
        """What `force` would kill now."""
        ...

    async def force(self, run: str, ask: Asked, actor: Actor) -> Answer:
        """Kill the worker that holds a run which is to stop; the answer names what was killed."""
        ...

    async def freed(self, error: StandfastError) -> bool:
        """Was the store locked by a worker that had stopped, and is it free now?"""
        ...


class Surface:
    """The control surface of one store."""

    def __init__(self, runs: Runtime, workers: Workers | None = None) -> None:
        self.runs = runs
        self.workers = workers
        self.reader = Reader(runs)
        self.feeds = Feeds(runs, self.reader)
        self.attempts = Attempts(runs)
        self.readers = Readers()
        self.turns = Turns()
        self.evidence_for: tuple[str, ...] = ()  # for whom instructions are sealed into every bundle
        self.exporting = asyncio.Lock()  # a bundle at a time: each reads a whole record
        self.downloads: set[Response] = set()  # bundles that were made, and are being fetched
        self.shares = False  # is there a login page to which a link can lead?
        self.work: set[asyncio.Task[None]] = set()  # verbs of pages that are being carried out
        self.pages: set[asyncio.Task[Any]] = set()  # those who have a socket open

    async def close(self) -> None:
        """Sockets and streams are told to go, and have a moment for it; runs are not touched."""
        await self.feeds.close()
        if self.pages or self.work:
            await asyncio.wait([*self.pages, *self.work], timeout=BYE_SECONDS)
        await self.feeds.tellings.close()
        await self.attempts.close()
        self.reader.close()

    # --- who may ----------------------------------------------------------------------------------------

    def reaches(self, actor: Actor, run: str) -> bool:
        """Is the run one of those that the actor is confined to, or a descendant of one?"""
        scope = actor.scope
        if scope is None:
            return True
        try:
            return self.runs.read(lambda tx: reaches(tx, scope, run))
        except UnknownRun:  # there is no store yet
            return False

    def allow(self, actor: Actor, what: str, run: str | None = None, *, right: str | None = None) -> None:
        """Every door asks here; whoever may not is told so, and the record too.

        A run that the actor is not to know of is as one that does not exist.
        """
        asks = right or right_of(what)
        if why := actor.ended():
            raise self.refused(actor, what, run, Problem(401, why, "ask whoever gave it to you for another"))
        if run is not None and not self.reaches(actor, run):
            problem = problem_of(unknown(run), run)
            raise self.refused(actor, what, run, problem, f"{actor.name} is confined to other runs")
        if asks not in ("known", "nobody") and not has(actor, asks):
            detail = f"{actor.name} may not {what.replace('_', ' ')}: that needs the right {asks!r}"
            raise self.refused(actor, what, run, Problem(403, detail, "ask whoever gave you your token", needs=asks))

    def refused(self, actor: Actor, what: str, run: str | None, problem: Problem, why: str = "") -> Problem:
        """The problem, once it is in the record who tried what."""
        self.attempts.refused(actor.name, actor.route, what, run, why or problem.detail)
        problem.noted = True
        return problem

    def confined(self, actor: Actor, wanted: Filter) -> Filter:
        """What of a list this actor may see."""
        if wanted.before is not None and not self.reaches(actor, wanted.before):
            raise self.refused(actor, "list", wanted.before, problem_of(unknown(wanted.before), wanted.before))
        return replace(wanted, scope=actor.scope)

    def _may_make(self, actor: Actor, what: str, id_: str | None, labels: Mapping[str, str]) -> None:
        """Whoever is confined to labels makes runs with these labels; whoever is confined to runs makes none."""
        scope = actor.scope
        if scope is None:
            return
        wanted = dict(scope.labels)
        if not wanted or any(labels.get(name) != value for name, value in wanted.items()):
            told = ", ".join(f"{name}={value}" for name, value in wanted.items())
            detail = f"{actor.name} may make runs with {told} alone" if told else f"{actor.name} may make no new runs"
            raise self.refused(actor, what, None, Problem(403, detail, "ask whoever gave you your token"))
        if id_ is not None:  # whether an id is taken would tell of other people's runs
            detail = f"{actor.name} may not choose the id of a run"
            raise self.refused(actor, what, None, Problem(403, detail, "leave the id out"))

    # --- doing -----------------------------------------------------------------------------------------

    async def verb(self, actor: Actor, name: str, run: str, args: Any, key: str | None = None) -> dict[str, Any]:
        """Carry out a verb; Problem(409) with the truth if the run says no."""
        if name not in VERBS and name != "force":
            raise Problem(404, f"{name[:100]!r} is no verb", f"there are {', '.join([*VERBS, 'force'])}")
        if name not in STOP_VERBS:
            return await self._verb(actor, name, run, args, key)
        async with self.turns.one(actor, name):
            return await self._verb(actor, name, run, stop_args(args), key)

    async def _verb(self, actor: Actor, name: str, run: str, args: Any, key: str | None) -> dict[str, Any]:
        self.allow(actor, name, run)
        if name == "force":
            asked = owned(actor, parsed(Asked, args, key))
            answer = await self._told(actor, run, lambda: self._force(run, asked, actor))
        else:
            verb = VERBS[name]
            ask = owned(actor, parsed(verb.asks, args, key))
            for right in more_for(name, ask):
                self.allow(actor, name, run, right=right)
            if name in LETS_GO and not has(actor, "resolve") and self._held(run) - OF_PEOPLE:
                self.allow(actor, name, run, right="resolve")
            answer = await self._told(actor, run, lambda: carry_out(self.runs, run, verb, ask, actor))
        self.reader.forget(run)
        shown = answer if has(actor, "view") else without_content(answer)
        if not isinstance(shown, Accepted):
            raise self.refused(actor, name, run, said_no(shown, run))
        return answer_json(shown)

    def _held(self, run: str) -> set[str]:
        """What holds the run now; nothing if there is none."""
        row = self.runs.read(lambda tx: tx.run(run))
        return set() if row is None else set(row.doc.holds)

    async def _force(self, run: str, ask: Asked, actor: Actor) -> Answer:
        if self.workers is None:
            raise Problem(404, "this server has no workers of its own to kill", "runs are driven by other processes")
        return await self.workers.force(run, ask, actor)

    async def start(self, actor: Actor, args: Any, key: str | None = None) -> dict[str, Any]:
        """A new run."""
        self.allow(actor, "start")
        ask = owned(actor, parsed(Start, args, key))
        self._may_make(actor, "start", ask.id, ask.labels or {})

        async def act() -> str:
            handle = await self.runs.start(
                ask.agent,
                ask.state,
                id=ask.id,
                by=actor.name,
                reason=ask.reason,
                budget=ask.budget,
                labels=ask.labels,
                deadline=ask.deadline,
                request_id=ask.request_id,
                route=actor.route,
            )
            return handle.id

        try:
            run = await self._told(actor, None, act)
        except Problem as problem:
            if isinstance(problem.__cause__, UnknownAgent) and self.workers is not None and not self._ready:
                wait = "try again in a second"
                raise Problem(503, "the workers have not told yet which agents there are", wait, headers=SOON) from None
            raise
        return await self._made(actor, run)

    @property
    def _ready(self) -> bool:
        """Are all workers at work, so that what they do not know nobody knows?"""
        return self.workers is None or self.workers.readiness()[0]

    async def fork(self, actor: Actor, run: str, args: Any, key: str | None = None) -> dict[str, Any]:
        """A new run from a snapshot of another."""
        self.allow(actor, "fork", run)
        ask = owned(actor, parsed(Fork, args, key))
        if actor.scope is not None:
            self._may_make(actor, "fork", ask.id, self.runs.read(lambda tx: tx.lineage(run))[0][1])

        async def act() -> str:
            handle = await self.runs.handle(run, actor.route).fork(
                ask.at, ask.state, id=ask.id, by=actor.name, reason=ask.reason, request_id=ask.request_id
            )
            return handle.id

        return await self._made(actor, await self._told(actor, run, act))

    async def _made(self, actor: Actor, run: str) -> dict[str, Any]:
        view = await self.view(run)
        return view if has(actor, "view") else {"id": run, "status": view["status"]}

    async def _told(self, actor: Actor, run: str | None, act: Callable[[], Awaitable[Any]]) -> Any:
        """Do it; if a stopped worker of ours holds the store's lock, get rid of that and do it then."""
        try:
            try:
                return await act()
            except StandfastError as error:
                if self.workers is None or not await self.workers.freed(error):
                    raise
                return await act()
        except StandfastError as error:
            problem = problem_of(error, run)
            if not has(actor, "view") and problem.status in (409, 422):
                problem.detail, problem.hint = "the run says no", "whoever may view it can see why"
            raise problem from error

    async def told(self, actor: Actor, act: Callable[[], Awaitable[T]]) -> T:
        """Do what concerns no run in particular, with its errors as problems."""
        done: T = await self._told(actor, None, act)
        return done

    # --- looking ---------------------------------------------------------------------------------------------

    async def view(self, run: str) -> dict[str, Any]:
        """A run as it is now."""
        return view_json(await self.reader.view(run))

    async def halts(self, look: Callable[[Tx], list[T]]) -> list[T]:
        """Halts, if there is a store."""
        try:
            return await self.reader.read(look)
        except UnknownRun:
            return []

    async def agents(self, actor: Actor) -> list[dict[str, Any]]:
        """The agents that somebody can drive now, or that this process knows: those that concern the actor."""
        found = await self._all_agents()
        if has(actor, "redirect") and (actor.scope is None or actor.labels):  # who may start runs of any of them
            return found
        if not has(actor, "view"):
            return []
        if actor.scope is None:
            return found
        theirs = {view.agent for view in await self.reader.found(Filter(scope=actor.scope, limit=1000))}
        return [each for each in found if each["name"] in theirs]

    def instructions(self) -> dict[str, str]:
        """Of the agents that this process or its workers know; for sealing, and for nothing else."""
        known: Mapping[str, About] = {} if self.workers is None else self.workers.abouts()
        here = {name: About.of(agent) for name, agent in self.runs.agents.items()}
        return {name: about.instructions for name, about in {**known, **here}.items() if about.instructions}

    async def _all_agents(self) -> list[dict[str, Any]]:
        known = {name: About.of(agent) for name, agent in self.runs.agents.items()}
        told = {**known, **(self.workers.abouts() if self.workers is not None else {})}

        def look(tx: Tx) -> list[dict[str, Any]]:
            driven = {name for lease in tx.leases() if not proven_dead(lease) for name in lease.agents}
            found = {name: tx.contract_of(name) for name in sorted(driven | known.keys())}
            return [
                _told(name, contract[1], told.get(name, About()))
                for name, contract in found.items()
                if contract is not None
            ]

        try:
            return await self.reader.read(look)
        except UnknownRun:  # there is no store yet: nobody has driven anything
            return []


def _told(name: str, contract: Json, about: About) -> dict[str, Any]:
    return agent_json(name, contract, about.description, about.models)


def without_content(answer: Answer) -> Answer:
    """The same answer for somebody who may act on a run but not look into it."""
    if isinstance(answer, Accepted):
        return Accepted(answer.at, answer.seq)
    return Refused("the run says no") if isinstance(answer, Refused) else answer


def more_for(verb: str, ask: BaseModel) -> list[Right]:
    """The rights that the arguments ask for beside the verb's own."""
    given: list[tuple[Right, Any]] = [
        (right, getattr(ask, argument)) for name, argument, right, _ in MORE if name == verb
    ]
    return [right for right, value in given if value is not None and value is not False and value != ""]


def owned(actor: Actor, ask: M) -> M:
    """Request ids are of whoever gave them: nobody gets another's answer, or learns of their runs, by guessing one."""
    key: str | None = getattr(ask, "request_id", None)
    return ask if key is None else ask.model_copy(update={"request_id": f"{actor.token or actor.name}/{key}"})


def parsed(model: type[M], args: Any, key: str | None) -> M:
    """The arguments of a request; the idempotency key of its header is its request id."""
    if args is None:
        args = {}
    if not is_object(args):
        raise Problem(422, "the body is not a JSON object", "send an object with the verb's arguments")
    if key is not None:
        if args.get("request_id") not in (None, key):
            raise Problem(422, "Idempotency-Key and request_id differ", "send one of them")
        args = {**args, "request_id": key}
    try:
        return model.model_validate(args)
    except ValidationError as error:
        raise malformed(error) from None
