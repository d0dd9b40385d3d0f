"""Runs in a store file: every verb is durable when it returns, no server is needed."""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from pydantic import TypeAdapter
from pydantic_core import from_json as loads

from standfast.abc import Tx
from standfast.agents import Agent
from standfast.cli.access import Wanted
from standfast.cli.codes import Unreachable
from standfast.codec import from_json
from standfast.control import load
from standfast.errors import Misuse, UnknownRun
from standfast.events import Event, TextDelta
from standfast.handle import Handle
from standfast.house_events import plain_house
from standfast.json_values import is_object
from standfast.lazily import adapter
from standfast.leases import proven_dead
from standfast.records import (
    ENDED,
    Answer,
    CheckAgain,
    Decision,
    Happened,
    Json,
    Mark,
    NotHappened,
    Receipt,
    RunView,
)
from standfast.rights import Token, new_id, new_secret, rights_from
from standfast.rows import CallRow
from standfast.runtime import Runtime
from standfast.shapes import agent_json
from standfast.stop_records import StopRecord
from standfast.stops import receipt
from standfast.tokens import lifetime, make_token, revoke_token, token_json
from standfast.transcripts import Said

if TYPE_CHECKING:
    from standfast.evidence.bundle import Wishes

_states: TypeAdapter[Any] = TypeAdapter(Any)
_marks: TypeAdapter[Mark] = adapter(Mark)
SEARCHED = 2000
ROUTE = "command line"


@asynccontextmanager
async def opened(store: Path, by: str, *, shown: Path | None = None) -> AsyncGenerator[LocalAccess, None]:
    """The runs of a store file; nothing is written until a verb is used."""
    async with Runtime(store, drive=False) as runs:
        yield LocalAccess(runs, store, by, shown or store)


class LocalAccess:
    """One store file."""

    def __init__(self, runs: Runtime, store: Path, by: str, shown: Path) -> None:
        self._runs = runs
        self._store = store
        self._by = by
        self._shown = shown

    @property
    def where(self) -> str:
        return str(self._shown) if self._store.exists() else f"{self._shown}, which does not exist yet"

    @property
    def options(self) -> str:
        return "" if self._shown == Path("runs.db") else f" --store {self._shown}"

    def _there(self) -> None:
        """A verb on a store that is not there would make one."""
        if not self._store.exists():
            raise Unreachable(
                f"there is no store {self._shown}",
                hint="give its path with --store or $STANDFAST_STORE; nothing was created",
            )

    def handle(self, run: str) -> Handle[Any]:
        self._there()
        return self._runs.handle(run, ROUTE)

    # --- looking ----------------------------------------------------------------------------------

    async def list(self, wanted: Wanted) -> builtins.list[RunView]:
        text = wanted.text.casefold()
        found = await self._runs.list(
            status=wanted.status or None,
            agent=wanted.agent,
            labels=None if wanted.labels is None else dict(wanted.labels),
            needs=wanted.needs,
            limit=SEARCHED if text else wanted.limit,
        )
        return [view for view in found if not text or text in _words(view)][: wanted.limit]

    async def view(self, run: str) -> RunView:
        return await self.handle(run).view()

    async def state(self, run: str, step: int | None = None) -> Any:
        return _states.dump_python(await self.handle(run).state(step), mode="json")

    async def transcript(self, run: str) -> builtins.list[Said]:
        return await self.handle(run).transcript()

    async def receipt(self, run: str) -> Receipt | None:
        self._there()

        def look(tx: Tx) -> Receipt | None:
            row = load(tx, run)
            if row.status not in (*ENDED, "paused"):
                return None
            return row.doc.receipt or receipt(tx, row, row.status)

        return self._runs.read(look)

    async def stops(self, run: str) -> builtins.list[StopRecord]:
        return builtins.list(await self.handle(run).stops())

    async def result(self, run: str) -> Any:
        self._there()
        return self._runs.read(lambda tx: load(tx, run)).doc.result

    async def calls(self, run: str) -> builtins.list[Json]:
        self._there()
        return self._runs.read(lambda tx: [call_json(call) for call in tx.calls(load(tx, run).n)])

    async def record(self, run: str, after: int = 0) -> builtins.list[Event]:
        self._there()
        found: builtins.list[Event] = []
        n = self._runs.read(lambda tx: load(tx, run).n)
        while page := self._runs.read(lambda tx: tx.record(n, after)):  # noqa: B023 - called at once
            for _, events in page:
                for event in events:
                    event.run = run
                    found.append(event)
            after = page[-1][0]
        return found

    async def events(self, run: str, after: int = 0) -> AsyncGenerator[Event | TextDelta, None]:
        stream = cast("AsyncGenerator[Event | TextDelta, None]", self.handle(run).events(after))
        try:
            async for event in stream:
                yield event
        finally:
            await stream.aclose()

    async def changed(self, seconds: float) -> None:
        if not self._store.exists():
            await asyncio.sleep(seconds)
            return
        with self._runs.hub.waiting(None, steps=True) as waiter:
            await waiter.wait(seconds)

    async def agents(self) -> builtins.list[Json]:
        if not self._store.exists():
            return []

        def look(tx: Tx) -> builtins.list[Json]:
            driven = {name for lease in tx.leases() if not proven_dead(lease) for name in lease.agents}
            contracts = {name: tx.contract_of(name) for name in sorted(driven)}
            return [agent_json(name, found[1]) for name, found in contracts.items() if found is not None]

        return self._runs.read(look)

    # --- doing ------------------------------------------------------------------------------------

    async def verb(self, run: str, name: str, args: Json) -> Answer:
        handle = self.handle(run)
        given: dict[str, Any] = {"by": self._by, **args}
        if name == "resolve":
            given["decision"] = _decision(str(given["decision"]), given.pop("result", None))
        if is_object(mark := given.get("suspicious")):
            given["suspicious"] = _marks.validate_python(mark)
        method: Callable[..., Awaitable[Answer]] | None = getattr(handle, name, None)
        if name.startswith("_") or method is None:
            raise Misuse(f"this version of standfast has no verb {name!r}", hint="nothing was changed")
        return await method(**given)

    async def perform(self, run: str, tool: str, args: Json, reason: str) -> Any:
        perform: Callable[..., Awaitable[Any]] | None = getattr(self.handle(run), "perform", None)
        if perform is None:
            raise Misuse("this version of standfast cannot perform tools by hand", hint="nothing was changed")
        return _states.dump_python(await perform(tool, args, by=self._by, reason=reason), mode="json")

    async def would_kill(self, run: str) -> Json:
        self._there()
        return {"pid": None, "kills": self._runs.read(lambda tx: who_holds(tx, run))}

    async def start(self, args: Json) -> RunView:
        return await self.start_agent(str(args["agent"]), args)

    async def start_agent(self, agent: Agent[Any, Any] | str, args: Json) -> RunView:
        """Start an agent whose code is here, or by the name that a driver has made known."""
        given: dict[str, Any] = {name: value for name, value in args.items() if name not in ("agent", "state")}
        if isinstance(agent, str):
            self._there()
        handle = await self._runs.start(cast("Any", agent), args.get("state", {}), by=self._by, route=ROUTE, **given)
        return await handle.view()

    async def fork(self, run: str, args: Json) -> RunView:
        given: dict[str, Any] = dict(args)
        handle = await self.handle(run).fork(**given, by=self._by)
        return await handle.view()

    # --- rights: whoever has the file has them all -----------------------------------------------------

    async def make_token(self, args: dict[str, Any]) -> tuple[dict[str, Any], str]:
        self._there()
        rights, seconds, secret = rights_from(args["rights"]), lifetime(args["expires"]), new_secret()
        more: dict[str, Any] = {"name": args["name"], "run": args["run"], "labels": args["labels"]}

        def act(tx: Tx) -> Token:
            return make_token(tx, new_id(), secret, rights, seconds=seconds, by=self._by, route=ROUTE, **more)

        return token_json(await self._runs.control(act)), secret

    async def tokens(self) -> builtins.list[dict[str, Any]]:
        self._there()
        return self._runs.read(lambda tx: [token_json(token) for token in tx.tokens()])

    async def revoke_token(self, id: str) -> builtins.list[str]:  # noqa: A002
        self._there()
        return await self._runs.control(lambda tx: revoke_token(tx, id, by=self._by, route=ROUTE))

    async def evidence(
        self, run: str, file: IO[bytes], recipients: Sequence[str], children: bool, anchor: Sequence[str]
    ) -> None:
        self._there()
        wishes: Wishes = {"recipients": recipients, "children": children, "anchor": anchor}
        wishes |= {"by": self._by, "route": ROUTE}
        await self._runs.write_evidence(file, run, **wishes)

    async def house(self, after: int = 0) -> builtins.list[dict[str, Any]]:
        self._there()
        found: builtins.list[dict[str, Any]] = []
        while page := self._runs.read(lambda tx: tx.house(after)):  # noqa: B023 - called at once
            found += [plain_house(event) for event in page]
            after = page[-1].seq
        return found


def ids_in(store: Path) -> list[str]:
    """The ids of the runs in a store, the newest first; for shell completion."""

    async def look() -> list[str]:
        async with Runtime(store, drive=False) as runs:

            def named(tx: Tx) -> list[str]:
                found = tx.list_runs(status=None, agent=None, labels=None, needs=None, limit=SEARCHED, before=None)
                return [id_ for id_, _, _ in found]

            try:
                return runs.read(named)
            except UnknownRun:  # no file, or one without tables
                return []

    return asyncio.run(look())


def who_holds(tx: Tx, run: str) -> str:
    """Whoever keeps a run from settling, and what can be done about it, for people without a server."""
    row = load(tx, run)
    lease = next((one for one in tx.leases() if one.id == row.holder), None)
    if lease is None:
        return "no process holds it: it settles as soon as a driver with its agent runs"
    if proven_dead(lease):
        return f"its driver (pid {lease.pid}) is dead: it settles as soon as another driver with its agent runs"
    others = sum(holder == lease.id and id_ != run for id_, _, _, holder in tx.held())
    more = f" and {others} other runs of it" if others else ""
    return (
        f"its driver is the process {lease.pid}. `kill -9 {lease.pid}` ends that{more}; another driver then takes the"
        " run up where it was, and a call with effects that was in flight is in doubt"
    )


def call_json(call: CallRow) -> Json:
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
        "since": call.since,
        "args": loads(call.args),
        "result": None if call.result is None else from_json(call.result),
        "error": call.error,
        "message": call.message,
        "undo": call.undo,
    }


def _decision(word: str, result: Any) -> Decision:
    if word == "happened":
        return Happened(result)
    return NotHappened() if word == "not_happened" else CheckAgain()


def _words(view: RunView) -> str:
    """What a search by text looks at."""
    parts = (view.id, view.agent, view.status, view.waiting_for, view.error, *view.labels, *view.labels.values())
    more = (*(item.title for item in view.plan), *(need.words for need in view.needs))
    return "\n".join((*parts, *more)).casefold()
