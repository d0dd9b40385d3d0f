"""Who acts, and what they may do: one function decides."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from starlette.requests import Request

LOOK: Final = "look"
OPERATOR: Final = "operator"  # the right to set and lift halts; on no run in particular
EVERYTHING: Final = frozenset({"*"})
STOP_VERBS: Final = frozenset({"pause", "cancel", "force"})
"""What stops a run. Nothing slows these down: no rate limit, no queue of other requests."""


@dataclass(frozen=True, slots=True)
class Actor:
    """A person or program that has shown who it is.

    `rights` are names of verbs, `look` for reading, `start` for new runs, `operator` for halts, or `*` for all of
    them. With `runs`, they count for these runs alone.
    """

    name: str
    rights: frozenset[str] = EVERYTHING
    runs: frozenset[str] | None = None


Who: TypeAlias = Callable[[Request], Awaitable[Actor | None]]
"""Says who sends a request; None if nobody knows."""


def may(actor: Actor, verb: str, run: str | None = None) -> bool:
    """Has this actor the right to a verb on a run (None: on no run in particular)? Every door asks here."""
    if actor.runs is not None and run not in actor.runs:
        return False
    return "*" in actor.rights or verb in actor.rights
