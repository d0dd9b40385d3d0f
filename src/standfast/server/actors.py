"""Who acts, and what they may do: one function decides."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from starlette.requests import Request

from standfast.errors import Misuse
from standfast.rights import RIGHTS, Right, Scope
from standfast.server.rights import MESSAGES, ROUTES, VERBS

LOOK: Final = "view"
EVERYTHING: Final = frozenset({"*"})
STOP_VERBS: Final = frozenset({"pause", "cancel", "force"})
"""What stops a run. No rate limit refuses these, and nobody else's requests are before them in a queue."""
_KNOWN: Final = frozenset({*RIGHTS, "*"})


def _goes_on() -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Actor:
    """A person or program that has shown who it is.

    `rights` are view, pause, redirect, cancel, resolve, forensics, operator, or `*` for all of them. With `runs` or
    `labels` they count for these runs and their descendants alone.
    """

    name: str
    rights: frozenset[str] = EVERYTHING
    runs: frozenset[str] | None = None
    labels: tuple[tuple[str, str], ...] = ()
    token: str | None = None  # the id of the token that was shown, if it was one of the store's
    has_token: bool = False  # of the server itself: it was shown, and has no id
    expires: float | None = None
    ended: Callable[[], str] = field(default=_goes_on, compare=False)
    """Why this actor may do nothing any more; empty while it may. Open sockets and streams ask it every second."""
    route: str = ""  # by which way this request came; the guard fills it in

    def __post_init__(self) -> None:
        unknown = sorted(self.rights - _KNOWN)
        if unknown:
            hint = f"there are {', '.join(RIGHTS)} and *; `look` is `view` now (docs/guide/rights.md)"
            raise Misuse(f"{unknown[0]!r} is no right", hint=hint)
        if self.runs is not None and self.labels:
            raise Misuse("an actor is confined to runs or to labels, not both", hint="give one of them")

    @property
    def scope(self) -> Scope | None:
        """Which runs; None for all."""
        if self.runs is not None:
            return Scope(self.runs)
        return Scope(labels=self.labels) if self.labels else None

    @property
    def json(self) -> dict[str, Any]:
        """What the actor is told of itself."""
        return {
            "name": self.name,
            "rights": sorted(self.rights),
            "runs": None if self.runs is None else sorted(self.runs),
            "labels": dict(self.labels),
            "expires": self.expires,
        }


PROBE = Actor("a probe", frozenset())  # of an orchestrator: it has shown nothing, and is told yes or no


Who: TypeAlias = Callable[[Request], Awaitable[Actor | None]]
"""Says who sends a request; None if nobody knows."""


def has(actor: Actor, right: str) -> bool:
    """Has this actor the right, on whatever runs it is confined to?"""
    return "*" in actor.rights or right in actor.rights


def right_of(what: str) -> str:
    """The right that a verb, a route or a message asks for; a right is its own."""
    known: Right | str | None = VERBS.get(what) or ROUTES.get(what) or MESSAGES.get(what)
    return known or what


def may(actor: Actor, what: str, run: str | None = None) -> bool:
    """Has this actor the right to a verb (or a right by its name) on a run, as far as the ids it is confined to say?

    Children of its runs and labels are known to the store alone: the doors of the server ask that too.
    """
    if actor.runs is not None and run is not None and run not in actor.runs:
        return False
    asks = right_of(what)
    return asks in ("known", "nobody") or has(actor, asks)
