"""A person takes a run over, acts in it, and hands it back (R24)."""

from __future__ import annotations

from typing import Any

from pydantic import JsonValue
from pydantic_core import from_json

from standfast import arguments
from standfast import events as ev
from standfast.abc import Tx
from standfast.changed_arguments import closed
from standfast.codec import JsonSchema, storable
from standfast.control import Act, Ask, saved
from standfast.errors import Misuse
from standfast.events import Event
from standfast.json_values import is_object
from standfast.names import name_words
from standfast.outside import Outside
from standfast.records import NO_TOOLS, Accepted, Answer, Choice, Hold, Json, Refused
from standfast.rows import MailRow, PersonCall, Resume, RunRow, Taken
from standfast.stops import drop_person, enter, hold
from standfast.verbs.pausing import close_gate, pause_children, resume_by, resume_with_children
from standfast.ways import token_of

NOT_OVER: tuple[Hold, ...] = ("budget", "halted")


def take_over(tx: Tx, row: RunRow, ask: Ask) -> Answer:
    """The gate closes as on a pause; the run is held for this person until it is handed back."""
    taken = row.doc.taken
    if taken is not None and taken.by == ask.by:
        return Accepted(tx.now, row.seq, tuple(row.named_in_flight), note="taken over already")
    if taken is not None:
        has_it = f"{name_words(taken.by, taken.by_token, 'somebody')} has it"
        return Refused(has_it, (Choice("hand_back", {}, "hand it back first"),))
    in_flight = row.named_in_flight
    row.doc.resume_noted = None
    token = token_of(tx.route)
    row.doc.taken = Taken(ask.by, tx.now, settled=row.status == "paused", route=str(tx.route), by_token=token)
    has_it = f"{name_words(ask.by, token, 'somebody')} has it"
    hold(row, "taken", tx.now, has_it + (f": {ask.reason}" if ask.reason else ""), ask.by)
    close_gate(tx, row, ask, ev.TakenOver)
    return Accepted(tx.now, row.seq, (*in_flight, *pause_children(tx, row, ask)))


def perform(tool: str, args: JsonValue, mail_id: str) -> Act:
    """A person performs a tool: the run's next step is that, and then it is theirs again."""
    arguments.text("tool", tool)
    plain: JsonValue = from_json(storable({} if args is None else args))
    if not is_object(plain):
        raise Misuse(f"arguments are given by name, not as {args!r}", hint='for example perform("look", {"n": 1})')
    checks = Outside()

    def act(tx: Tx, row: RunRow, ask: Ask) -> Answer:
        if row.doc.taken is None:
            return Refused("nobody has taken this run over", (Choice("take_over", {}, "take it over first"),))
        if row.doc.person is not None:
            return Refused(f"{row.doc.person.tool} is being performed already")
        standing = [name for name in NOT_OVER if name in row.doc.holds]
        if standing:
            return Refused(f"the run is held by {', '.join(standing)}", (Choice("hand_back", {}, "hand it back"),))
        contract: Any = tx.contract(row.doc.contract) or {}
        known = {name: one for name, one in contract.get("tools", {}).items() if name not in NO_TOOLS}
        if tool not in known:
            return Refused(f"agent {row.agent} has no tool {tool!r}; it has {', '.join(sorted(known)) or 'none'}")
        JsonSchema.fits(checks, closed(known[tool]["schema"]), plain, f"an argument of {tool}")
        data: Json = {"order": "perform", "tool": tool, "args": plain}
        text = f"perform {tool}"
        tx.insert_mail(
            MailRow(
                run=row.n,
                id=mail_id,
                kind="order",
                text=text,
                data=data,
                when="now",
                by=ask.by,
                at=tx.now,
                always=True,
            )
        )
        by, kept, way = ask.by or row.doc.taken.by, list(row.doc.holds), tx.route
        row.doc.person = PersonCall(mail_id, tool, plain, by, kept, str(way), token_of(way))
        becomes = "performed as a step of its own"
        received = ev.MailReceived(
            mail=mail_id, kind="order", text=text, when="now", by=ask.by, disposition=becomes, data=data
        )
        enter(row, "queued", tx.now)
        saved(tx, row, [received, ev.RunQueued(why=f"to {text}", holds=kept)])
        return Accepted(tx.now, row.seq, mail=mail_id, note=becomes)

    return act


def hand_back(note: str, mail_id: str) -> Act:
    """The run goes on; the agent reads what the person says and has done."""
    arguments.text("note", note)

    def act(tx: Tx, row: RunRow, ask: Ask) -> Answer:
        taken = row.doc.taken
        if taken is None:
            return Refused("nobody has taken this run over", (Choice("take_over", {}, "take it over"),))
        events: list[Event] = []
        if row.doc.person is not None:
            if _begun(tx, row, row.doc.person):
                return Refused(f"{row.doc.person.tool} is being performed: wait for it, or settle what it asks")
            events += drop_person(tx, row, "handed back before it was performed")
            if row.status == "queued":
                enter(row, "paused", tx.now)
        by = ask.by or taken.by
        done = [str(one["tool"]) for one in taken.performed]
        data: Json = {"handed_back": True, "note": note, "performed": [*taken.performed]}
        text = note or "handed back" + (f" after {', '.join(done)}" if done else "")
        mail = MailRow(
            run=row.n, id=mail_id, kind="message", text=text, data=data, when="now", by=by, at=tx.now, always=True
        )
        tx.insert_mail(mail)
        row.doc.taken = None
        row.doc.interrupted = True
        row.doc.holds.pop("taken", None)
        row.doc.changed = "; ".join(
            filter(None, [row.doc.changed, f"{name_words(by, token_of(tx.route), 'somebody')} handed back: {text}"])
        )
        events += [
            ev.HandedBack(by=by, note=note, performed=[*taken.performed]),
            ev.MailReceived(
                mail=mail_id, kind="message", text=text, when="now", by=by, disposition="read first", data=data
            ),
        ]
        told = _go_on(tx, row, resume_by(tx, by, ask.reason, note), events)
        saved(tx, row, events)
        return Accepted(tx.now, row.seq, mail=mail_id, note=told)

    return act


def _go_on(tx: Tx, row: RunRow, wanted: Resume, events: list[Event]) -> str:
    """As a resume; what it does not clear still holds the run."""
    if row.status == "pausing" or "halted" in row.doc.holds:
        row.doc.resume_noted = wanted
        when = "the halt is lifted" if "halted" in row.doc.holds else "it has settled"
        return f"it goes on when {when}; the agent reads the note first"
    answer, resumed = resume_with_children(tx, row, wanted)
    events += resumed
    if isinstance(answer, Accepted):
        return "the agent reads the note first"
    return f"handed back, but {answer.why}" if isinstance(answer, Refused) else "handed back"


def _begun(tx: Tx, row: RunRow, person: PersonCall) -> bool:
    """Is something of the person's call in the world, or waiting for somebody?"""
    return row.status in ("running", "pausing") or any(
        call.person == person.id for call in tx.calls_of_step(row.n, row.epoch, row.step)
    )
