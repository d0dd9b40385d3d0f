"""Redirect and message: mail that is kept until the run has read it."""

from __future__ import annotations

from collections.abc import Callable

from pydantic import JsonValue
from pydantic_core import from_json

from standfast import arguments
from standfast import events as ev
from standfast.abc import Tx
from standfast.codec import storable
from standfast.control import Act, Ask, IsDead, saved
from standfast.delivering import disposition, waits_for_the_stack
from standfast.errors import Misuse
from standfast.events import Event
from standfast.names import name_words
from standfast.records import Accepted, Answer, Choice, Refused, When
from standfast.redirectable import declared, following, short, why_not
from standfast.rows import MailRow, Missed, RunRow, Target
from standfast.stops import queue_if_free, void_questions
from standfast.unread import fate_of, sent
from standfast.verbs.pausing import halted
from standfast.verbs.travelling import rewind_to, step_of
from standfast.ways import token_of

MOST_UNREAD = 500  # messages and redirects of one run
MOST_UNREAD_BYTES = 8_000_000  # of all of them: a cancel of the run returns them in its own transaction


def redirect(text: str, when: When, from_step: int | str | None, mail_id: str, is_dead: IsDead) -> Act:
    """Rewrite the next step, or an earlier one."""
    if when not in ("now", "next"):
        raise Misuse(f"redirect(when={when!r}) is unknown", hint='use "now" or "next"')
    if not arguments.text("text", text).strip():
        raise Misuse("a redirect needs a text", hint="say what the agent should do instead")

    def act(tx: Tx, row: RunRow, ask: Ask) -> Answer:
        if (full := _full(tx, row)) is not None:
            return full
        mail = MailRow(run=row.n, id=mail_id, kind="redirect", text=text, when=when, by=ask.by, at=tx.now)
        if from_step is not None:
            if not declared(tx, row)[0]:
                return _not_taken(tx, row, why_not(tx, row), text)
            if "halted" in row.doc.holds:
                return halted(row)
            step = step_of(tx, row, from_step)
            if isinstance(step, Refused):
                return step
            if why := why_not(tx, row, from_step=step):
                return _not_taken(tx, row, why, text)
            mail.when = "now"
            sent(row, mail_id)
            tx.insert_mail(mail)
            target = Target(step, "paused" if row.status == "paused" else "queued")
            received = _received(mail, f"step {step} is taken next with it")
            return rewind_to(tx, row, ask, target, is_dead, received, mail_id)
        if why := why_not(tx, row, when):
            return _not_taken(tx, row, why, text)
        sent(row, mail_id)
        if when == "now":
            row.doc.set_back = True
            void_questions(row)
            if row.status == "running" and row.doc.person is None:
                row.attempt += 1
        else:
            mail.not_before = _next_step(tx, row)
        return deliver(tx, row, mail, f"redirect: {_short(text)}")

    return act


def resend(mail_id: str) -> Act:
    """A redirect that a step has ended without reading: the next step gets it."""

    def again(tx: Tx, row: RunRow, ask: Ask, mail: MailRow) -> Refused | str:
        begun = _next_step(tx, row) > row.step
        if why := why_not(tx, row, "next" if begun else "now"):
            return _not_taken(tx, row, why, mail.text, Choice("drop", {"mail": mail_id}, "drop it"))
        row.doc.missed = _without(row.doc.missed, mail_id)
        sent(row, mail_id)
        mail.when, mail.not_before = "next", _next_step(tx, row)
        tx.update_mail(mail)
        becomes = disposition(row, mail, "")
        resent = ev.MailResent(mail=mail_id, by=ask.by, disposition=becomes, reason=ask.reason)
        saved(tx, row, [resent, *_woken(tx, row)])
        return becomes

    return _settles(mail_id, again)


def drop(mail_id: str) -> Act:
    """A redirect that a step has ended without reading is given back, and counts no longer."""

    def give_back(tx: Tx, row: RunRow, ask: Ask, mail: MailRow) -> str:
        row.doc.missed = _without(row.doc.missed, mail_id)
        by = f"dropped by {name_words(ask.by, token_of(tx.route), 'a person')}"
        mail.status, mail.reason = "returned", f"{by}: {ask.reason}" if ask.reason else by
        tx.update_mail(mail)
        saved(tx, row, [ev.MailReturned(mail=mail_id, reason=mail.reason)])
        return mail.reason

    return _settles(mail_id, give_back)


def _settles(mail_id: str, settle: Callable[[Tx, RunRow, Ask, MailRow], Refused | str]) -> Act:
    """What is done about a redirect that a step has left unread; `settle` says what becomes of it, or why not."""
    arguments.text("mail", mail_id)

    def act(tx: Tx, row: RunRow, ask: Ask) -> Answer:
        mail = _unread(tx, row, mail_id)
        if isinstance(mail, Refused):
            return mail
        becomes = settle(tx, row, ask, mail)
        if isinstance(becomes, Refused):
            return becomes
        return Accepted(tx.now, row.seq, tuple(row.named_in_flight), mail=mail_id, note=becomes)

    return act


def _unread(tx: Tx, row: RunRow, mail_id: str) -> MailRow | Refused:
    mail = next((one for one in tx.pending_mail(row.n) if one.id == mail_id), None)
    if mail is None or mail_id not in row.doc.missed:
        return Refused(f"{mail_id!r} is not a redirect that a step has left unread{_became(tx, row, mail_id)}")
    if mail_id in row.doc.read_now:
        why = f"the redirect is no longer unread: {fate_of(row, mail)[2]}"
        undo = Choice("rewind", {"to": row.step}, f"take step {row.step} again; it may then be dropped")
        return Refused(why, (undo, Choice("cancel", {}, "cancel the run")))
    return mail


def _became(tx: Tx, row: RunRow, mail_id: str) -> str:
    mail = next((one for one in tx.mail(row.n) if one.id == mail_id and one.kind == "redirect"), None)
    words = "" if mail is None else fate_of(row, mail)[2]
    return f": {words}" if words else ""


def _without(missed: dict[str, Missed], mail: str) -> dict[str, Missed]:
    return {id_: one for id_, one in missed.items() if id_ != mail}


def _not_taken(tx: Tx, row: RunRow, why: str, text: str, *choices: Choice) -> Refused:
    """Refused for what the agent or the stage is, with what can be done instead."""
    item = following(row.doc.plan)
    if item is not None and not why_not(tx, row, "next"):
        label = f"rewrite “{short(item.title)}” instead"
        choices = (*choices, Choice("redirect", {"text": text, "when": "next"}, label))
    return Refused(why, (*choices, Choice("cancel", {}, "cancel the run")))


def message(text: str, data: JsonValue, when: When, mail_id: str) -> Act:
    """A thought beside the task."""
    if when not in ("now", "next", "later"):
        raise Misuse(f"message(when={when!r}) is unknown", hint='use "now", "next" or "later"')
    if not arguments.text("text", text).strip() and data is None:
        raise Misuse("an empty message says nothing", hint="give a text, or data; nothing was sent")
    data = from_json(storable(data))

    def act(tx: Tx, row: RunRow, ask: Ask) -> Answer:
        if (full := _full(tx, row)) is not None:
            return full
        mail = MailRow(run=row.n, id=mail_id, kind="message", text=text, data=data, when=when, by=ask.by, at=tx.now)
        waits = waits_for_the_stack(tx, row, when)
        if when != "now":
            mail.not_before = _next_step(tx, row)
        elif not waits:
            row.doc.interrupted = True
            if row.status == "running" and row.doc.person is None:
                row.attempt += 1
        return deliver(tx, row, mail, waits=waits)

    return act


def _full(tx: Tx, row: RunRow) -> Refused | None:
    """A run that does not read cannot be made to hold more and more; stops and orders are not refused, nor counted."""
    orders = [*row.doc.orders, *([row.doc.person.id] if row.doc.person is not None else [])]
    unread, size = tx.unread_mail(row.n, orders)
    if unread < MOST_UNREAD and size < MOST_UNREAD_BYTES:
        return None
    many, most = f"{unread} message{'s' if unread != 1 else ''}", ""
    if unread < MOST_UNREAD:
        many, most = f"{many} of {size:,} bytes together", f"; at most {MOST_UNREAD_BYTES:,} are kept"
    choices = (Choice("cancel", {}, "cancel the run"), Choice("pause", {}, "pause the run"))
    return Refused(f"the run has {many} that it has not read{most}", choices)


def _next_step(tx: Tx, row: RunRow) -> int:
    """The first step that has not begun: a step in progress is not changed by mail that can wait."""
    begun = row.status in ("running", "pausing") or row.doc.values or tx.calls_of_step(row.n, row.epoch, row.step)
    return row.step + 1 if begun else row.step


def deliver(tx: Tx, row: RunRow, mail: MailRow, change: str = "", waits: str = "") -> Accepted:
    """Keep the mail, say what becomes of it, and wake a run that waits for some."""
    tx.insert_mail(mail)
    becomes = disposition(row, mail, waits)
    if change and row.status == "paused":
        row.doc.changed = "; ".join(filter(None, [row.doc.changed, change]))
        row.doc.redirected = [*row.doc.redirected, change]
    events: list[Event] = [_received(mail, becomes)]
    if not waits:
        events += _woken(tx, row)
    saved(tx, row, events)
    return Accepted(tx.now, row.seq, tuple(row.named_in_flight), mail=mail.id, note=becomes)


def _woken(tx: Tx, row: RunRow) -> list[Event]:
    """A run that only waits for mail goes on."""
    if row.status != "paused" or "waiting" not in row.doc.holds:
        return []
    row.doc.holds.pop("waiting")
    return queue_if_free(row, tx.now, "mail came")


def _received(mail: MailRow, disposition: str) -> ev.MailReceived:
    return ev.MailReceived(
        mail=mail.id,
        kind=mail.kind,
        text=mail.text,
        when=mail.when,
        by=mail.by,
        disposition=disposition,
        data=mail.data,
    )


def _short(text: str) -> str:
    line = " ".join(text.split())
    return repr(line if len(line) <= 80 else line[:77] + "...")
