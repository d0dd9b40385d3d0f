"""One way to runs, whether they are reached through a store file or through a server."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import IO, Any, Protocol

from standfast.cli.codes import Over
from standfast.errors import Misuse, UnknownRun
from standfast.events import Event, TextDelta
from standfast.records import (
    ENDED,
    Answer,
    CheckAgain,
    Choice,
    Decision,
    Hand,
    Happened,
    Json,
    Need,
    NotHappened,
    Receipt,
    RunView,
    Status,
)
from standfast.stop_records import StopRecord
from standfast.transcripts import Said

SHORTEST_ENDING = 3  # characters: ids that sort by time differ at their end
MANY = 1000
STOPPING = ("pause", "redirect", "cancel", "rewind", "take_over")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which runs are listed."""

    status: tuple[Status, ...] = ()
    agent: str | None = None
    labels: Mapping[str, str] | None = None
    needs: bool | None = None
    text: str = ""
    limit: int = 100


class Access(Protocol):
    """What the terminal needs of a store or a server. Errors are StandfastErrors."""

    @property
    def where(self) -> str:
        """The file or the address, for people."""
        ...

    @property
    def options(self) -> str:
        """What must be given on a command line to reach the same place."""
        ...

    async def list(self, wanted: Wanted) -> Sequence[RunView]:
        """Runs, newest first."""
        ...

    async def view(self, run: str) -> RunView: ...

    async def verb(self, run: str, name: str, args: Json) -> Answer:
        """Carry out a verb by its name; `reason`, `request_id` and `if_seq` are among the arguments."""
        ...

    async def perform(self, run: str, tool: str, args: Json, reason: str) -> Any:
        """Perform a tool in a run that was taken over; its result."""
        ...

    async def would_kill(self, run: str) -> Json:
        """What force would kill, in `kills`, and its `pid`; None if nothing can be killed from here: then what can."""
        ...

    async def start(self, args: Json) -> RunView: ...

    async def fork(self, run: str, args: Json) -> RunView: ...

    async def state(self, run: str, step: int | None = None) -> Any: ...

    async def transcript(self, run: str) -> Sequence[Said]: ...

    async def receipt(self, run: str) -> Receipt | None:
        """What the last stop did; None while nothing has been stopped and settled."""
        ...

    async def stops(self, run: str) -> Sequence[StopRecord]:
        """The record of each stop, oldest first."""
        ...

    async def result(self, run: str) -> Any:
        """What the run came to; None before its end."""
        ...

    async def calls(self, run: str) -> Sequence[Json]:
        """The calls that are kept: of the step in progress, and effects."""
        ...

    async def record(self, run: str, after: int = 0) -> Sequence[Event]:
        """The events so far, from `after` on."""
        ...

    def events(self, run: str, after: int = 0) -> AsyncGenerator[Event | TextDelta, None]:
        """Every event once, in order; ends after the ending. Live text comes in between."""
        ...

    async def changed(self, seconds: float) -> None:
        """Until something in the store may have changed, or the time is up."""
        ...

    async def make_token(self, args: dict[str, Any]) -> tuple[dict[str, Any], str]:
        """A token (rights, run or labels or all, expires, name), and its secret."""
        ...

    async def tokens(self) -> Sequence[dict[str, Any]]: ...

    async def revoke_token(self, id: str) -> Sequence[str]:  # noqa: A002
        """The ids of those that count no longer."""
        ...

    async def house(self, after: int = 0) -> Sequence[dict[str, Any]]:
        """The record of the house: refused attempts, tokens, halts, exports."""
        ...

    async def evidence(
        self, run: str, file: IO[bytes], recipients: Sequence[str], children: bool, anchor: Sequence[str]
    ) -> None:
        """Write an evidence bundle of a run into the file; that it was taken is on record."""
        ...

    async def agents(self) -> Sequence[Json]:
        """The agents that somebody can drive: name, description, schema, text_field, models."""
        ...


Opened = AbstractAsyncContextManager[Access]


async def find(access: Access, given: str) -> RunView:
    """The run of that id, or of that unique beginning (also without "run-") or ending."""
    try:
        return await access.view(given)
    except UnknownRun as unknown:
        views = await access.list(Wanted(text=given, limit=MANY))
        found = matching(given, [view.id for view in views])
        if not found:
            raise UnknownRun(
                f"there is no run {given!r} in {access.where}", hint="standfast ps lists them"
            ) from unknown
    if len(found) > 1:
        some = ", ".join(found[:5]) + (" ..." if len(found) > 5 else "")
        raise Misuse(f"{given!r} may mean {len(found)} runs: {some}", hint="write more of the id; nothing was done")
    return next(view for view in views if view.id == found[0])


def matching(given: str, ids: Sequence[str]) -> list[str]:
    """The ids that an abbreviation may mean; beginnings go before endings."""
    if not given:
        return []
    beginning = [one for one in ids if one.startswith((given, f"run-{given}"))]
    if beginning or len(given) < SHORTEST_ENDING:
        return beginning
    return [one for one in ids if one.endswith(given)]


def need_for(view: RunView, kinds: Sequence[str], given: str | None) -> Need:
    """The need a person means: by its call's id, its unique beginning, or because there is only one."""
    open_needs = [need for need in view.needs if need.kind in kinds]
    what = " or ".join(kinds)
    if not open_needs:
        error = Over if view.status in ENDED else Misuse
        raise error(f"run {view.id} has no open {what}", hint=f"it is {view.status}; nothing was changed")
    if given is not None:
        exact = [need for need in open_needs if given in (need.call, need.id)]
        open_needs = exact or [need for need in open_needs if (need.call or need.id).startswith(given)]
    if len(open_needs) == 1:
        return open_needs[0]
    names = ", ".join(need.call or need.id for need in view.needs if need.kind in kinds)
    problem = f"no open {what} {given!r}" if not open_needs else f"{len(open_needs)} open ones"
    raise Misuse(f"run {view.id} has {problem}: {names}", hint="name the call; nothing was changed")


def asked_with(trigger: Hand, verb: str, args: Json) -> Json:
    """The same arguments; those of a verb that stops something say what it was asked with."""
    return {**args, "trigger": trigger} if verb in STOPPING else args


def decided(decision: Decision) -> Json:
    """A decision about a doubt as the arguments of `resolve`."""
    match decision:
        case Happened():
            return {"decision": "happened", "result": decision.result}
        case NotHappened():
            return {"decision": "not_happened"}
        case CheckAgain():
            return {"decision": "check_again"}


def verb_of(need: Need, choice: Any) -> tuple[str, Json]:
    """The verb, with its arguments, that sends back one of a need's choices."""
    if isinstance(choice, Choice):
        return choice.verb, choice.args
    if isinstance(choice, Happened | NotHappened | CheckAgain):
        return "resolve", {"call_id": need.call, **decided(choice)}
    return "answer", {"call_id": need.call, "value": choice}
