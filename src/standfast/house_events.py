"""What concerns the store as a whole: who may do what, who tried, what was halted, exported or deleted.

A chained record of its own beside those of the runs. What is done to one run is in that run's record.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeAlias, cast

from pydantic import Field, TypeAdapter

from standfast.lazily import adapter


@dataclass(slots=True, kw_only=True)
class _HouseEvent:
    seq: int = 0
    at: float = 0.0
    by: str | None = None  # who did it: a person, a token's name, a program
    route: str = ""  # by which way: a path of the server, a command, a socket
    by_token: str = ""  # the token that a server was shown for it; empty: `by` is what they called themselves


@dataclass(slots=True, kw_only=True)
class AttemptRefused(_HouseEvent):
    """Somebody tried what they may not do; nothing was changed."""

    type: Literal["attempt_refused"] = "attempt_refused"
    what: str  # the verb or the right that was asked for
    run: str | None = None
    why: str
    left_out: int = 0  # attempts of the same actor before this one that were too many to be written one by one


@dataclass(slots=True, kw_only=True)
class TokenMade(_HouseEvent):
    type: Literal["token_made"] = "token_made"
    token: str  # its id, never its secret
    name: str
    rights: list[str]
    run: str | None = None
    labels: dict[str, str] = field(default_factory=dict[str, str])
    expires: float | None = None
    row: str = ""  # a digest of its row, hash of its secret included: a row that was put in its place does not fit


@dataclass(slots=True, kw_only=True)
class TokenRevoked(_HouseEvent):
    type: Literal["token_revoked"] = "token_revoked"
    token: str
    reason: str = ""


@dataclass(slots=True, kw_only=True)
class HaltSet(_HouseEvent):
    type: Literal["halt_set"] = "halt_set"
    halt: str
    agent: str | None = None
    labels: dict[str, str] = field(default_factory=dict[str, str])
    then: Literal["pause", "cancel"] = "pause"
    reason: str
    runs: int = 0  # how many it stopped when it was set
    row: str = ""  # a digest of its row, signature included


@dataclass(slots=True, kw_only=True)
class HaltLifted(_HouseEvent):
    type: Literal["halt_lifted"] = "halt_lifted"
    halt: str
    reason: str = ""
    key: str = ""  # whose signature it is, in hex; empty: it is not signed
    signature: str = ""  # over `lift_bytes`


@dataclass(slots=True, kw_only=True)
class EvidenceViewed(_HouseEvent):
    """Somebody was shown the record of a run's stops, or has begun to take a bundle of it."""

    type: Literal["evidence_viewed"] = "evidence_viewed"
    run: str
    what: Literal["stops", "bundle"]


@dataclass(slots=True, kw_only=True)
class EvidenceTaken(_HouseEvent):
    """A bundle of a run left the house."""

    type: Literal["evidence_taken"] = "evidence_taken"
    run: str
    digest: str  # SHA-256 of the bundle's manifest
    sealed_for: list[str] = field(default_factory=list[str])


@dataclass(slots=True, kw_only=True)
class RunForgotten(_HouseEvent):
    """The content of a run was deleted; its rows keep their place in the chain."""

    type: Literal["run_forgotten"] = "run_forgotten"
    run: str
    seq_of_run: int
    head: str  # of its record, in hex
    reason: str = ""


@dataclass(slots=True, kw_only=True)
class KeyChanged(_HouseEvent):
    """From here on another key signs for the store; the old one vouches for it, and it for the old one."""

    type: Literal["key_changed"] = "key_changed"
    old: str  # public keys, in hex
    new: str
    reason: str = ""
    old_signature: str = ""  # empty: the old key was lost, and nobody vouches for the new one
    new_signature: str = ""


HouseEvent: TypeAlias = Annotated[
    AttemptRefused
    | TokenMade
    | TokenRevoked
    | HaltSet
    | HaltLifted
    | EvidenceViewed
    | EvidenceTaken
    | RunForgotten
    | KeyChanged,
    Field(discriminator="type"),
]
"""One event of the record of the house."""

_one: TypeAdapter[HouseEvent] = adapter(HouseEvent)


def decode_house(body: bytes) -> HouseEvent:
    """An event of the house as it was written."""
    return _one.validate_json(body)


def encode_house(event: HouseEvent) -> bytes:
    """An event of the house as it is written."""
    return _one.dump_json(event)


def plain_house(event: HouseEvent) -> dict[str, Any]:
    """An event of the house as JSON values."""
    return cast("dict[str, Any]", _one.dump_python(event, mode="json"))
