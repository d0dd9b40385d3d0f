"""Redirect and message: mail that is kept until the run has read it."""

from __future__ import annotations

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
from standfast.records import Accepted, Answer, Choice, Refused, When
from standfast.rows import MailRow, RunRow, Target
from standfast.stops import queue_if_free, void_questions
from standfast.verbs.pausing import halted
from standfast.verbs.travelling import rewind_to, step_of

MOST_UNREAD = 500  # messages and redirects of one run


def redirect(text: str, when: When, from_step: int | str | None, mail_id: str, is_dead: IsDead) -> Act:
    """Rewrite the next step, or an earlier one."""
    if when not in ("now", "next"):
        raise Misuse(f"redirect(when={when!r}) is unknown", hint='use "now" or "next"')
    if not arguments.text("text", text).strip():
        raise Misuse("a redirect needs a text", hint="say what the agent should do instead")

    def act(tx: Tx, row: RunRow, ask: Ask) -> Answer:
        if (full := _full(tx, row)) is not None:
            return full
        contract = tx.contract(row.doc.contract)
        if contract is not None and contract.get("redirects") is False:
            return Refused(f"agent {row.agent} takes no redirects", (Choice("cancel", {}, "cancel the run"),))
        mail = MailRow(run=row.n, id=mail_id, kind="redirect", text=text, when=when, by=ask.by, at=tx.now)
        if from_step is not None:
            if "halted" in row.doc.holds:
                return halted(row)
            step = step_of(tx, row, from_step)
            if isinstance(step, Refused):
                return step
            mail.when = "now"
            tx.insert_mail(mail)
            target = Target(step, "paused" if row.status == "paused" else "queued")
            received = _received(mail, f"step {step} is taken next with it")
            return rewind_to(tx, row, ask, target, is_dead, received, mail_id)
        if when == "now":
            row.doc.set_back = True
            void_questions(row)
            if row.status == "running" and row.doc.person is None:
                row.attempt += 1
        else:
            mail.not_before = _next_step(tx, row)
        return deliver(tx, row, mail, f"redirect: {_short(text)}")

    return act


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
    """A run that does not read cannot be made to hold more and more; stops and orders are no such mail."""
    unread = sum(mail.kind in ("message", "redirect") for mail in tx.pending_mail(row.n))
    if unread < MOST_UNREAD:
        return None
    choices = (Choice("cancel", {}, "cancel the run"), Choice("pause", {}, "pause the run"))
    return Refused(f"the run has {unread} messages that it has not read", choices)


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
    if row.status == "paused" and "waiting" in row.doc.holds and not waits:
        row.doc.holds.pop("waiting")
        events += queue_if_free(row, tx.now, "mail came")
    saved(tx, row, events)
    return Accepted(tx.now, row.seq, tuple(row.named_in_flight), mail=mail.id, note=becomes)


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
