"""A verb is one transaction on one run (and its live descendants): it wins or loses as a whole.

It needs no agent code: any process that can open the store can carry it out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias, TypeVar, get_args

from pydantic import TypeAdapter
from pydantic_core import from_json, to_json

from standfast import arguments
from standfast.abc import Tx
from standfast.codec import storable
from standfast.errors import UnknownRun
from standfast.events import ClientsReached, Event
from standfast.json_values import fingerprint
from standfast.lazily import adapter
from standfast.machine import UserVerb, decide
from standfast.records import Answer, CallRef, Choice, Moment, Refused, TooLate, Trigger, Undo
from standfast.requests import used_for
from standfast.rows import RunRow, Stop
from standfast.ways import token_of

_answers: TypeAdapter[Answer] = adapter(Answer)
T = TypeVar("T")
IsDead: TypeAlias = Callable[[Tx, str], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """Who wants a verb carried out, why, since when, and under which conditions."""

    by: str | None = None
    reason: str = ""
    at: float = 0.0
    since: Moment | None = None  # the same by both clocks
    if_seq: int | None = None
    request_id: str | None = None
    asked: str = ""  # fingerprint of what exactly, by whom: a request id is for that alone
    trigger: Trigger = "api"
    way: str = ""  # for what was asked for before and is done now: the way by which it was asked for

    def __post_init__(self) -> None:
        arguments.text_or_none("by", self.by)
        object.__setattr__(self, "reason", arguments.reason(self.reason))
        arguments.text_or_none("request_id", self.request_id)
        arguments.one_of("trigger", self.trigger, get_args(Trigger))
        if self.if_seq is not None:
            arguments.whole("if_seq", self.if_seq)


def from_above(ask: Ask) -> Ask:
    """The same, as it reaches a child: what set it off there is its parent."""
    return replace(ask, trigger="parent")


def what_is_asked(by: str | None, reason: str, what: object) -> str:
    """A request in a few letters: the same request id with another request gets no answer that was not its own."""
    return fingerprint([by, arguments.reason(reason), from_json(storable(what))])


def nobody_is_dead(_tx: Tx, _holder: str) -> bool:
    """For a driver that acts on its own runs: whoever holds them is alive."""
    return False


def everybody_is_dead(_tx: Tx, _holder: str) -> bool:
    """For a driver that has seen everything of its run end."""
    return True


Act: TypeAlias = Callable[[Tx, RunRow, Ask], Answer]
"""What a verb does to a run that it may act on."""


def load(tx: Tx, id: str) -> RunRow:  # noqa: A002
    """The run, or UnknownRun."""
    row = tx.run(id)
    if row is None:
        raise unknown(id)
    return row


def unknown(id: str) -> UnknownRun:  # noqa: A002
    """There is no such run; or none that whoever asks may know of."""
    return UnknownRun(
        f"there is no run {id!r} in this store",
        hint="`standfast ps`, runs.list() or GET /api/runs show those there are",
    )


MOST_AGAIN = 3  # repeats of a stop that are written, of one actor
MOST_AGAIN_BY = 20  # and of so many actors
_NEED_A_STEP: Final[frozenset[UserVerb]] = frozenset(
    ("redirect", "message", "resend", "abandon", "return_to", "edit", "rewind", "take_over", "perform", "step_once")
)  # in vain on a run that will take none


def carry_out(tx: Tx, id: str, verb: UserVerb, ask: Ask, act: Act) -> Answer:  # noqa: A002
    """Run a verb: once a request id, refused when the run has moved past `if_seq`, too late when it has ended."""
    if ask.request_id is not None:
        known = tx.answered(ask.request_id)
        if known is not None:
            if known[0] != id or known[1] != f"{verb} {ask.asked}":
                raise used_for(ask.request_id, known)
            return _answers.validate_json(known[2])
    row = load(tx, id)
    before = row.seq
    if row.doc.forgotten:
        return Refused(f"run {id} {row.doc.forgotten}")
    if ask.if_seq is not None and _moved_on(tx, row, ask.if_seq):
        answer: Answer = Refused(f"the run has moved on: it is at seq {row.seq}, not {ask.if_seq}")
    else:
        rule = decide(row.status, verb)
        if rule.kind == "too_late":
            answer = TooLate(row.status)
        elif rule.kind == "refuse":
            answer = Refused(rule.says, choices_for(row))
        elif row.doc.ending is not None and verb in _NEED_A_STEP:
            answer = Refused(
                f"run {id} has taken its last step: it ends as soon as its locks are released",
                (Choice("cancel", {}, "end it as cancelled"),),
            )
        else:
            answer = act(tx, row, ask)
    if ask.request_id is not None:
        kept = to_json(answer).decode()
        tx.remember(ask.request_id, id, f"{verb} {ask.asked}", kept, idle=row.seq == before)
    return answer


def worth_noting(row: RunRow, ask: Ask) -> bool:
    """Is a stop that holds already to be written once more? A few of each actor are, counted here; a flood is not.

    No stop is refused for it: whoever asks again is told what holds.
    """
    who, known = ask.by or "", row.doc.asked_again
    if known.get(who, 0) >= MOST_AGAIN or (who not in known and len(known) >= MOST_AGAIN_BY):
        return False
    row.doc.asked_again = {**known, who: known.get(who, 0) + 1}
    return True


def _moved_on(tx: Tx, row: RunRow, seq: int) -> bool:
    """Has anything happened to the run since? What a server notes of its clients afterwards is nothing of the run."""
    if row.seq <= seq:
        return row.seq != seq
    later = [event for _, events in tx.record(row.n, seq) for event in events]
    return not all(isinstance(event, ClientsReached) for event in later)


def by_route(route: str, act: Callable[[Tx], T]) -> Callable[[Tx], T]:
    """The same; the events that say who did it also say by which way they came."""

    def routed(tx: Tx) -> T:
        tx.route = route
        try:
            return act(tx)
        finally:
            tx.route = ""

    return routed if route else act


def choices_for(row: RunRow) -> tuple[Choice, ...]:
    """What would make sense instead."""
    if row.status in ("queued", "running"):
        return (Choice("pause", {}, "pause the run first"),)
    return ()


def saved(tx: Tx, row: RunRow, events: list[Event], *, state: bytes | None = None) -> None:
    """Write a verb's effect, and tell every process."""
    tx.save(row, events, state=state)
    tx.signal(row.id)


def stop_by(verb: Any, tx: Tx, ask: Ask, in_flight: list[CallRef], undo: Undo = "step", *, soft: bool = False) -> Stop:
    way = ask.way or tx.route
    return Stop(
        verb,
        ask.at or tx.now,
        tx.accepted,
        by=ask.by,
        reason=ask.reason,
        route=str(way),
        by_token=token_of(way),
        trigger=ask.trigger,
        undo=undo,
        soft=soft,
        in_flight=in_flight,
    )
