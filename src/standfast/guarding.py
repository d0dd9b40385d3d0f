"""What may stand between a model's words and whoever reads them: the shape of a tripwire, without its insides (R33)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from standfast.records import Channel

Action = Literal["flag", "pause", "cancel"]
TripKind = Literal["directive", "canary"]
Excused = Literal["user", "public"]


@dataclass(frozen=True, slots=True)
class Trip:
    """Words that should not have come out: where they stand on their channel, never what they are."""

    channel: Channel
    kind: TripKind
    variant: str  # plain, reversed, rot13, hex, base64
    start: int
    end: int
    open: bool  # does it still grow?


class Watch(Protocol):
    """Hears one try of one call, and lets its text through in order."""

    def hear(self, channel: Channel, text: str) -> str:
        """What may be let through now: this and text that was held, or less."""
        ...

    def trips(self) -> Sequence[Trip]:
        """What was found since the last time, and how it ended."""
        ...

    def held(self) -> Sequence[tuple[Channel, str]]:
        """What is held back now."""
        ...

    def excused(self) -> dict[Excused, int]:
        """Matches that were let pass, by why."""
        ...

    def end(self) -> Sequence[tuple[Channel, str]]:
        """The call has ended: what was held back is let through."""
        ...


class Guard(Protocol):
    """Says what to listen for in one call, and what to do then."""

    @property
    def action(self) -> Action: ...

    def planted(self, run: str) -> str:
        """What the model's instructions end with in this run; empty if nothing is planted."""
        ...

    def watch(self, run: str, *, marks_only: bool) -> Watch:
        """A new try of the call; `marks_only` if a person has let it pass."""
        ...
