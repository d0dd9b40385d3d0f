"""What a run says while it says it, what was held back of it, and whom it has reached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from standfast.events.base import Recorded, Stamped
from standfast.guarding import Action, Excused, TripKind
from standfast.records import Channel, ClientReach, EndedAs, HeldBack, Moment


@dataclass(slots=True, kw_only=True)
class TextFlushed(Recorded):
    """What a call has said since the last flush. Offset 0 begins anew: the call was repeated."""

    type: Literal["text_flushed"] = "text_flushed"
    call: str
    offset: int
    text: str
    attempt: int = 0
    channel: Channel = "text"
    take: int = 0  # how often the call had begun anew in this attempt


@dataclass(slots=True, kw_only=True)
class TripwireTripped(Recorded):
    """A call gave away what a tripwire guards: where on its channel, in which form, never the words.

    Told again with `open` false when a flagged span has ended. Of what its channel had said, `held_back` characters
    from `held_from` on were kept in; `digest` is theirs. `held_beside` is the same of the call's other channels.
    """

    type: Literal["tripwire_tripped"] = "tripwire_tripped"
    call: str
    channel: Channel
    kind: TripKind
    variant: str
    start: int
    end: int
    action: Action
    open: bool = False
    held_back: int = 0
    held_from: int | None = None  # None: nothing was held back
    digest: str = ""
    held_beside: Sequence[HeldBack] = ()
    attempt: int = 0
    take: int = 0


@dataclass(slots=True, kw_only=True)
class TripwireExcused(Recorded):
    """Matches that a tripwire let pass: the user had said them, or everybody may know them."""

    type: Literal["tripwire_excused"] = "tripwire_excused"
    call: str
    why: Excused
    hits: int
    attempt: int = 0


@dataclass(slots=True, kw_only=True)
class StreamEnded(Recorded):
    """The stream of a provider that a stop found open: when its last byte came, and how much it had said.

    `characters` count what came, also what was held back; a request of somebody's own client says none.
    """

    type: Literal["stream_ended"] = "stream_ended"
    call: str
    tool: str
    outcome: EndedAs
    last_byte: Moment | None = None  # None: nothing had come
    characters: dict[Channel, int] = field(default_factory=dict[Channel, int])
    attempt: int = 0
    take: int = 0


@dataclass(slots=True, kw_only=True)
class ClientsReached(Stamped):
    """What each client of one server had been handed when a stop had settled; written once a stop and server."""

    type: Literal["clients_reached"] = "clients_reached"
    server: str
    stop: int  # seq of the event with which the stop was accepted
    settled: int  # seq of the event with which it had settled
    clients: Sequence[ClientReach] = ()
    left_out: int = 0  # clients beyond those named
    fetched: int = 0  # requests this server had answered with what the run had said


@dataclass(frozen=True, slots=True)
class TextDelta:
    """Text as it comes, before it is flushed: placed by call and offset, without a seq."""

    call_id: str
    offset: int
    text: str
    channel: Channel = "text"
    type: Literal["text_delta"] = "text_delta"
    attempt: int = 0
    take: int = 0
