"""What people want done to frames, carried out by the step that finds it: abandon one, or return to one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from standfast import events as ev
from standfast.rows import Frame, order_of
from standfast.ways import way_back

if TYPE_CHECKING:
    from standfast.run import Run
    from standfast.session import Session


async def carry_out_orders(session: Session, run: Run[Any], *, last: bool) -> None:
    """Do what is ordered; at the end of a step also find that a frame is no longer there."""
    n = session.row.n
    pending = session.env.store.read(lambda tx: tx.pending_mail(n))
    for mail in pending:
        order = order_of(mail)
        if order.get("order") not in ("abandon", "return_to") or mail.id in run.mail_read or mail.id in run.mail_before:
            continue
        frame = _meant(run.frames, str(order["frame"]), str(order["goal"]))
        if frame is None:
            if not last:
                continue  # this step may be about to open it again
            text = f"{order['frame']} is not open any more"
            session.note(
                ev.VerbNoted(verb=str(order["order"]), by=mail.by, route=mail.route, by_token=mail.by_token, text=text)
            )
        elif order["order"] == "abandon":
            await run.thoughts.abandon(frame.id, mail.by, str(order["reason"]), way_back(mail.route, mail.by_token))
            run.abandoned = (*run.abandoned, (frame, str(order["reason"])))
        else:
            await run.thoughts.return_to(frame.id)
        run.mail_read = (*run.mail_read, mail.id)


def _meant(frames: Sequence[Frame], id_: str, goal: str) -> Frame | None:
    """The frame that a person saw. A step that was set back may have opened it anew, under another number."""
    same = [f for f in frames if f.goal == goal]
    return next((f for f in same if f.id == id_), same[-1] if same else None)
