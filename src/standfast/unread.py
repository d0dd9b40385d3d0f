"""Redirects that a step has ended without reading: noticed at its boundary, kept, and shown to people (R5, R40).

A redirect is sent to a step: the one in progress, or the next. A step that ends without asking for it has missed
it. The redirect stays pending: later steps of the same plan item still get it, those of another item only once a
person has sent it again, since it was not meant for them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from standfast import events as ev
from standfast.abc import Tx
from standfast.names import name_words
from standfast.records import MailFate, PlanItem
from standfast.rows import MailRow, Missed, RunDoc, RunRow

ENDED_UNREAD: Final = "ended without reading it"
NOT_READ: Final = "a redirect was not read"  # of a child run, on its parent
_TEXT: Final = 80  # characters of a redirect in a line about it


def sent(row: RunRow, mail: str) -> None:
    """From now on some attempt owes it a reading; the one that runs now began without it."""
    row.doc.redirects = {**row.doc.redirects, mail: row.attempt + 1}


def missed_by(
    tx: Tx, row: RunRow, step: int, attempt: int, read: Collection[str], item: PlanItem | None
) -> dict[str, Missed]:
    """What the step that ends here was to read, and has not."""
    waiting = row.doc.redirects
    if not waiting:
        return {}
    missed = Missed(step, tx.now, *((item.id, item.title) if item is not None else ()))
    return {
        mail.id: missed
        for mail in tx.pending_mail(row.n)
        if mail.id in waiting and waiting[mail.id] <= attempt and mail.not_before <= step and mail.id not in read
    }


def not_read_events(missed: Mapping[str, Missed]) -> list[ev.MailNotRead]:
    """For the record."""
    return [ev.MailNotRead(mail=mail, step=one.step, item=one.title) for mail, one in missed.items()]


def keep_fates(read: Collection[str], missed: Mapping[str, Missed]) -> Callable[[RunDoc], None]:
    """What a boundary says of redirects: some were read, some were missed."""

    def change(doc: RunDoc) -> None:
        known = {**doc.missed, **missed}
        doc.missed = {mail: one for mail, one in known.items() if mail not in read}
        doc.redirects = {
            mail: attempt for mail, attempt in doc.redirects.items() if mail not in read and mail not in missed
        }

    return change


def sent_anew(row: RunRow, from_step: int) -> None:
    """The steps from this one on are taken again: what they have missed they may read now."""
    for mail, missed in row.doc.missed.items():
        if missed.step >= from_step:
            sent(row, mail)
    row.doc.missed = {mail: one for mail, one in row.doc.missed.items() if one.step < from_step}


def withheld(missed: Missed | None, plan: Iterable[PlanItem]) -> bool:
    """Was it meant for a plan item that is over? Then no other item gets it unasked."""
    if missed is None or not missed.item:
        return False
    item = next((one for one in plan if one.id == missed.item), None)
    return item is None or item.status in ("done", "dropped")


def fate_of(row: RunRow, mail: MailRow) -> tuple[MailFate, int | None, str]:
    """What has become of a piece of mail, at which step, and in words; no words for one that simply waits."""
    missed = row.doc.unread.get(mail.id)
    if mail.status == "consumed":
        return "applied", mail.step, f"read at step {mail.step}, applied"
    if mail.status == "returned":
        if mail.kind == "redirect" and (missed is not None or mail.reason == ENDED_UNREAD):
            return "not_read", missed.step if missed else None, f"not read: {_whose(missed)} {ENDED_UNREAD}"
        return "returned", mail.step, f"returned: {mail.reason}"
    if missed is not None:
        return "not_read", missed.step, f"not read: {_whose(missed)} {ENDED_UNREAD}"
    if mail.kind == "redirect" and mail.id in row.doc.read_now:
        return "read", row.step, f"read at step {row.step}; applied when the step has ended"
    return "sent", mail.step, ""


def not_read(row: RunRow, mail: Sequence[MailRow], *, ended: bool) -> tuple[str, ...]:
    """The redirects that nobody has read, one line each; of a run that has ended, with what can still be done."""
    lines: list[str] = []
    for one in mail:
        fate, _, words = fate_of(row, one)
        if fate == "not_read":
            lines.append(f"redirect {quoted(one)} {words}" + ("; fork the run to have it done" if ended else ""))
    return tuple(lines)


def quoted(mail: MailRow) -> str:
    """A redirect on one line, with its sender."""
    text = " ".join(mail.text.split())
    text = text if len(text) <= _TEXT else text[: _TEXT - 1] + "…"
    return f"“{text}”" + (f" from {name_words(mail.by, mail.by_token)}" if mail.by else "")


def _whose(missed: Missed | None) -> str:
    if missed is None:
        return "the run"
    return f"“{missed.title}” (step {missed.step})" if missed.title else f"step {missed.step}"
