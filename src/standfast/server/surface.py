"""What every door of the server stands on: one runtime, its readers, its watchers, and what may be done through it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, ValidationError

from standfast.abc import Tx
from standfast.agent import Agent
from standfast.errors import StandfastError, UnknownRun
from standfast.json_values import is_object
from standfast.leases import proven_dead
from standfast.records import Accepted, Answer, Json
from standfast.runtime import Runtime
from standfast.server.actors import LOOK, Actor, may
from standfast.server.feeds import Feeds
from standfast.server.problems import Problem, malformed, problem_of
from standfast.server.reading import Reader
from standfast.server.verbs import VERBS, Asked, Fork, Start, carry_out
from standfast.server.wire import said_no
from standfast.shapes import agent_json, answer_json, view_json

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")

BYE_SECONDS = 1.5


@dataclass(frozen=True, slots=True)
class About:
    """What is worth knowing of an agent beside its contract."""

    description: str = ""
    models: tuple[str, ...] = ()

    @classmethod
    def of(cls, agent: Agent[Any, Any]) -> About:
        """From the agent itself."""
        return cls(agent.description, tuple(sorted(name for name, tool in agent.tools.items() if tool.kind == "model")))


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
        self.work: set[asyncio.Task[None]] = set()  # verbs of pages that are being carried out
        self.pages: set[asyncio.Task[Any]] = set()  # those who have a socket open

    async def close(self) -> None:
        """Sockets and streams are told to go, and have a moment for it; runs are not touched."""
        await self.feeds.close()
        if self.pages or self.work:
            await asyncio.wait([*self.pages, *self.work], timeout=BYE_SECONDS)
        self.reader.close()

    # --- doing -----------------------------------------------------------------------------------------

    async def verb(self, actor: Actor, name: str, run: str, args: Any, key: str | None = None) -> dict[str, Any]:
        """Carry out a verb; Problem(409) with the truth if the run says no."""
        allow(actor, name, run)
        if name == "force":
            asked = parsed(Asked, args, key)
            answer = await self._told(run, lambda: self._force(run, asked, actor))
        elif name in VERBS:
            verb = VERBS[name]
            ask = parsed(verb.asks, args, key)
            answer = await self._told(run, lambda: carry_out(self.runs, run, verb, ask, actor))
        else:
            raise Problem(404, f"{name[:100]!r} is no verb", f"there are {', '.join([*VERBS, 'force'])}")
        self.reader.forget(run)
        if not isinstance(answer, Accepted):
            raise said_no(answer, run)
        return answer_json(answer)

    async def _force(self, run: str, ask: Asked, actor: Actor) -> Answer:
        if self.workers is None:
            raise Problem(404, "this server has no workers of its own to kill", "runs are driven by other processes")
        return await self.workers.force(run, ask, actor)

    async def start(self, actor: Actor, args: Any, key: str | None = None) -> dict[str, Any]:
        """A new run."""
        allow(actor, "start", None)
        ask = parsed(Start, args, key)

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
            )
            return handle.id

        return await self.view(await self._told(None, act))

    async def fork(self, actor: Actor, run: str, args: Any, key: str | None = None) -> dict[str, Any]:
        """A new run from a snapshot of another."""
        allow(actor, "fork", run)
        ask = parsed(Fork, args, key)

        async def act() -> str:
            handle = await self.runs.handle(run).fork(
                ask.at, ask.state, id=ask.id, by=actor.name, reason=ask.reason, request_id=ask.request_id
            )
            return handle.id

        return await self.view(await self._told(run, act))

    async def _told(self, run: str | None, act: Callable[[], Awaitable[Any]]) -> Any:
        """Do it; if a stopped worker of ours holds the store's lock, get rid of that and do it then."""
        try:
            try:
                return await act()
            except StandfastError as error:
                if self.workers is None or not await self.workers.freed(error):
                    raise
                return await act()
        except StandfastError as error:
            raise problem_of(error, run) from error

    async def told(self, act: Callable[[], Awaitable[T]]) -> T:
        """Do what concerns no run in particular, with its errors as problems."""
        done: T = await self._told(None, act)
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

    async def agents(self) -> list[dict[str, Any]]:
        """The agents that somebody can drive now, or that this process knows."""
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


def allow(actor: Actor, verb: str, run: str | None) -> None:
    """Problem(403) if the actor has no right to it."""
    if not may(actor, verb, run):
        what = "look at" if verb == LOOK else verb
        raise Problem(403, f"{actor.name} may not {what} {run or 'runs'}", "ask whoever gave you your token")


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
