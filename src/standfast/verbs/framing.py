"""What people do to frames: give one up, or send the run back to one. Orders that its next step carries out."""

from __future__ import annotations

from typing import Literal

from standfast import arguments
from standfast.abc import Tx
from standfast.control import Act, Ask
from standfast.errors import Misuse
from standfast.records import Accepted, Answer, Choice, Json, Refused
from standfast.rows import Frame, MailRow, RunRow, order_of
from standfast.stack import find, place
from standfast.verbs.mailing import deliver

FrameOrder = Literal["abandon", "return_to"]


def abandon(frame: str, reason: str, mail_id: str) -> Act:
    """A person gives a thought up, for a reason."""
    reason = arguments.reason(reason)
    if not reason.strip():
        raise Misuse("a frame is abandoned for a reason", hint="abandon(frame, reason): say why in a few words")
    return _order("abandon", arguments.text("frame", frame), reason, mail_id)


def return_to(frame: str, mail_id: str) -> Act:
    """A person sends the run back to a thought on hold."""
    return _order("return_to", arguments.text("frame", frame), "", mail_id)


def _order(order: FrameOrder, frame: str, why: str, mail_id: str) -> Act:
    def act(tx: Tx, row: RunRow, ask: Ask) -> Answer:
        found = find(row.doc.frames, frame)
        if found is None:
            return _unknown(row, order, frame)
        if order == "return_to" and found.status == "active":
            return Accepted(tx.now, row.seq, note=f"{found.id} is the active frame already")
        known = next((m for m in tx.pending_mail(row.n) if _says(m, order, found)), None)
        if known is not None:
            return Accepted(tx.now, row.seq, mail=known.id, note="ordered already; carried out by the next step")
        data: Json = {"order": order, "frame": found.id, "goal": found.goal, "reason": why}
        mail = MailRow(
            run=row.n, id=mail_id, kind="order", text=_text(order, found, why), data=data, when="next", by=ask.by
        )
        mail.at = tx.now
        row.doc.orders = [*row.doc.orders, mail_id]
        return deliver(tx, row, mail)

    return act


def _says(mail: MailRow, order: FrameOrder, frame: Frame) -> bool:
    said = order_of(mail)
    return (said.get("order"), said.get("frame"), said.get("goal")) == (order, frame.id, frame.goal)


def _text(order: FrameOrder, frame: Frame, why: str) -> str:
    return f"abandon {frame.goal}: {why}" if order == "abandon" else f"return to {frame.goal}"


def _unknown(row: RunRow, order: FrameOrder, frame: str) -> Refused:
    choices = tuple(
        Choice(order, {"frame": f.id, **({"reason": ""} if order == "abandon" else {})}, f"{f.goal} {place(f)}".strip())
        for f in row.doc.frames
        if order == "abandon" or f.status == "held"
    )
    return Refused(f"no frame {frame!r} is open", choices)
