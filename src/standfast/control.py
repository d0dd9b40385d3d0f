"""The verbs. Each is one transaction on one run (and its live descendants): it wins or loses as a whole.

They need no agent code: any process that can open the store can carry them out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from pydantic import JsonValue, TypeAdapter
from pydantic_core import from_json, to_json

from standfast import budget as budgets
from standfast import events as ev
from standfast.abc import Tx
from standfast.codec import JsonSchema
from standfast.errors import Misuse, NotStorable, UnknownRun, WrongState
from standfast.events import Event
from standfast.machine import UserVerb, decide
from standfast.records import (
    Accepted,
    Answer,
    Budget,
    CallRef,
    CheckAgain,
    Choice,
    Decision,
    Happened,
    Hold,
    Json,
    Refused,
    TooLate,
    Undo,
    When,
)
from standfast.resuming import resume as resume_run
from standfast.rows import CallRow, MailRow, Resume, RunRow, Stop, Target
from standfast.stops import (
    abandon_rewind,
    enter,
    finish_cancel,
    hold,
    mark_undo,
    mark_undo_from,
    pending_undos,
    queue_if_free,
    return_mail,
    settle_rewind,
)

_answers: TypeAdapter[Answer] = TypeAdapter(Answer)
IsDead = Callable[[Tx, str], bool]
ENDED_BY_A_REWIND: tuple[Hold, ...] = (
    *("asks", "in_doubt", "stale", "diverged"),
    *("error", "waiting", "budget", "loop"),
)


def nobody_is_dead(_tx: Tx, _holder: str) -> bool:
    """For a driver that acts on its own runs: whoever holds them is alive."""
    return False


def everybody_is_dead(_tx: Tx, _holder: str) -> bool:
    """For a driver that has seen everything of its run end."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """Who wants a verb carried out, why, since when, and under which conditions."""

    by: str | None = None
    reason: str = ""
    at: float = 0.0
    if_seq: int | None = None
    request_id: str | None = None
    trigger: str = "user"


def load(tx: Tx, id: str) -> RunRow:  # noqa: A002
    """The run, or UnknownRun."""
    row = tx.run(id)
    if row is None:
        raise UnknownRun(f"there is no run {id!r} in this store", hint="runs.list() shows those there are")
    return row


def carry_out(tx: Tx, id: str, verb: UserVerb, ask: Ask, act: Callable[[Tx, RunRow, Ask], Answer]) -> Answer:  # noqa: A002
    """Run a verb: once a request id, refused when the run has moved past `if_seq`, too late when it has ended."""
    if ask.request_id is not None:
        known = tx.answered(ask.request_id)
        if known is not None:
            if known[0] != id or known[1] != verb:
                raise Misuse(
                    f"request id {ask.request_id!r} was used for {known[1]} of run {known[0]}",
                    hint="give every request an id of its own",
                )
            return _answers.validate_json(known[2])
    row = load(tx, id)
    if ask.if_seq is not None and row.seq != ask.if_seq:
        answer: Answer = Refused(f"the run has moved on: it is at seq {row.seq}, not {ask.if_seq}")
    else:
        rule = decide(row.status, verb)
        if rule.kind == "too_late":
            answer = TooLate(row.status)
        elif rule.kind == "refuse":
            answer = Refused(rule.says, choices_for(row))
        else:
            answer = act(tx, row, ask)
    if ask.request_id is not None:
        tx.remember(ask.request_id, id, verb, to_json(answer).decode())
    return answer


def choices_for(row: RunRow) -> tuple[Choice, ...]:
    """What would make sense instead."""
    if row.status in ("queued", "running"):
        return (Choice("pause", {}, "pause the run first"),)
    return ()


def saved(tx: Tx, row: RunRow, events: list[Event], *, state: bytes | None = None) -> None:
    """Write a verb's effect, and tell every process."""
    tx.save(row, events, state=state)
    tx.signal(row.id)


# --- pause, resume ---------------------------------------------------------------------------


def pause(tx: Tx, row: RunRow, ask: Ask) -> Answer:
    """The gate closes at this commit, for live descendants too."""
    if row.status == "pausing" and "user" in row.doc.holds and row.doc.target is None:
        return Accepted(tx.now, row.seq, tuple(row.in_flight), note="it is pausing already")
    in_flight = _pause_one(tx, row, ask)
    return Accepted(tx.now, row.seq, tuple(in_flight))


def _pause_one(tx: Tx, row: RunRow, ask: Ask, held_by: str = "") -> list[CallRef]:
    in_flight = [replace(ref, run=row.id) for ref in row.in_flight]
    row.doc.resume_noted = None
    hold(row, "user", tx.now, ask.reason or (f"paused with {held_by}" if held_by else ""))
    if row.doc.target is not None:
        row.doc.target.then = "paused"
    if row.status == "queued":
        row.doc.stop = _stop("pause", tx, ask, [])
        enter(row, "paused", tx.now)
    elif row.status == "running":
        row.doc.stop = _stop("pause", tx, ask, in_flight)
        enter(row, "pausing", tx.now)
    saved(tx, row, [ev.PauseAsked(by=ask.by, reason=ask.reason, in_flight=in_flight, status=row.status)])
    return in_flight + pause_children(tx, row, ask)


def pause_children(tx: Tx, row: RunRow, ask: Ask) -> list[CallRef]:
    """Pause what lives below a run, with it; gives their calls in flight."""
    in_flight: list[CallRef] = []
    for child in tx.children(row.id, live=True):
        child_row = load(tx, child)
        if child_row.status in ("queued", "running"):
            in_flight += _pause_one(tx, child_row, ask, row.id)
    return in_flight


def _stop(verb: Any, tx: Tx, ask: Ask, in_flight: list[CallRef], undo: Undo = "step", *, soft: bool = False) -> Stop:
    return Stop(
        verb,
        ask.at or tx.now,
        tx.now,
        by=ask.by,
        reason=ask.reason,
        trigger=ask.trigger,
        undo=undo,
        soft=soft,
        in_flight=in_flight,
    )


def resume(note: str | None, accept_stale: bool, budget: Budget | None) -> Callable[[Tx, RunRow, Ask], Answer]:
    """Go on where the run was held."""
    if budget is not None:
        budgets.check(budget)

    def act(tx: Tx, row: RunRow, ask: Ask) -> Answer:
        wanted = Resume(ask.by, ask.reason, note, accept_stale, budget)
        if row.status in ("queued", "running"):
            return Accepted(tx.now, row.seq, note="it is not paused")
        if row.status == "pausing":
            _note_resume(tx, row, wanted)
            return Accepted(tx.now, row.seq, tuple(row.in_flight), note="taken when the pause has settled")
        return _resume_one(tx, row, wanted)

    return act


def _resume_one(tx: Tx, row: RunRow, wanted: Resume) -> Answer:
    answer, events = resume_with_children(tx, row, wanted)
    if not isinstance(answer, Accepted):
        return answer
    saved(tx, row, events)
    return Accepted(tx.now, row.seq)


def resume_with_children(tx: Tx, row: RunRow, wanted: Resume) -> tuple[Answer, list[Event]]:
    """Queue a paused run, and the children that were paused with it; a budget is the run's own."""
    answer, events = resume_run(tx, row, wanted)
    if not isinstance(answer, Accepted):
        return answer, events
    for child in tx.children(row.id, live=True):
        child_row = load(tx, child)
        if set(child_row.doc.holds) != {"user"}:
            continue
        if child_row.status == "paused":
            _resume_one(tx, child_row, replace(wanted, budget=None))
        elif child_row.status == "pausing":
            _note_resume(tx, child_row, replace(wanted, budget=None))
    return answer, events


def _note_resume(tx: Tx, row: RunRow, wanted: Resume) -> None:
    row.doc.resume_noted = wanted
    text = "taken when the pause has settled"
    saved(tx, row, [ev.VerbNoted(verb="resume", by=wanted.by, reason=wanted.reason, text=text)])


def step_once(tx: Tx, row: RunRow, ask: Ask) -> Answer:
    """Go on for one step, then pause again."""
    row.doc.step_once = True
    return _resume_one(tx, row, Resume(ask.by, ask.reason, None, False, None))


# --- cancel ----------------------------------------------------------------------------------


def cancel(undo: Undo, soft: bool, is_dead: IsDead) -> Callable[[Tx, RunRow, Ask], Answer]:
    """Phase one: nothing new is admitted from here on, and what is in flight is named."""
    if undo not in ("step", "all", "none"):
        raise Misuse(f"undo={undo!r} is unknown", hint='use "step", "all" or "none"')

    def act(tx: Tx, row: RunRow, ask: Ask) -> Answer:
        if row.status == "cancelling":
            return _cancel_again(tx, row, ask, undo, soft)
        in_flight = cancel_one(tx, row, ask, undo, soft=soft, is_dead=is_dead)
        return Accepted(tx.now, row.seq, tuple(in_flight))

    return act


def _cancel_again(tx: Tx, row: RunRow, ask: Ask, undo: Undo, soft: bool) -> Answer:
    stop = row.doc.stop
    assert stop is not None
    note = "" if undo == stop.undo else f"undo stays {stop.undo!r}, as first asked"
    if stop.soft and not soft:
        stop.soft = False
        note = "; ".join(filter(None, [note, "the soft cancel is hard now"]))
    saved(tx, row, [ev.VerbNoted(verb="cancel", by=ask.by, reason=ask.reason, text=note)])
    for child in tx.children(row.id, live=True):
        child_row = load(tx, child)
        if child_row.status == "cancelling":
            _cancel_again(tx, child_row, ask, undo, soft)
    return Accepted(tx.now, row.seq, tuple(row.in_flight), note=note)


def cancel_one(tx: Tx, row: RunRow, ask: Ask, undo: Undo, *, soft: bool, is_dead: IsDead) -> list[CallRef]:
    """Cancel a run and its live descendants in one transaction."""
    in_flight = [replace(ref, run=row.id) for ref in row.in_flight]
    named = list(in_flight)
    for child in tx.children(row.id, live=True):
        child_row = load(tx, child)
        if child_row.status != "cancelling":
            named += cancel_one(tx, child_row, ask, undo, soft=soft, is_dead=is_dead)
    old = row.doc.stop
    row.doc.stop = _stop("cancel", tx, ask, named, undo, soft=soft)
    if old is not None and row.doc.target is not None:
        row.doc.stop.residue = old.residue
    if row.doc.target is not None:
        abandon_rewind(tx, row)
    row.doc.resume_noted = None
    held = row.status in ("running", "pausing") and row.holder is not None and not is_dead(tx, row.holder)
    marked = [] if soft and held else mark_undo(tx, row, undo)
    _withdraw_questions(tx, row)
    events: list[Event] = [
        *return_mail(tx, row, "cancelled"),
        ev.CancelAsked(
            by=ask.by,
            reason=ask.reason,
            trigger=ask.trigger,
            undo=undo,
            soft=soft,
            in_flight=named,
            status="cancelling",
        ),
    ]
    row.doc.holds.clear()
    row.wake_at = None
    enter(row, "cancelling", tx.now)
    open_calls = any(c.status in ("in_doubt", "check") for c in tx.open_calls(row.n))
    live = held or row.in_flight or open_calls or tx.children(row.id, live=True)
    if not live and not any(c.undo == "pending" for c in marked) and not pending_undos(tx, row):
        events += finish_cancel(tx, row)
    saved(tx, row, events)
    return named


def _withdraw_questions(tx: Tx, row: RunRow) -> None:
    for call in tx.open_calls(row.n):
        if call.status == "asking":
            call.status = "withdrawn"
            tx.update_call(call)


# --- mail ------------------------------------------------------------------------------------


def redirect(
    text: str, when: When, from_step: int | str | None, mail_id: str, is_dead: IsDead
) -> Callable[[Tx, RunRow, Ask], Answer]:
    """Rewrite the next step, or an earlier one."""
    if when not in ("now", "next"):
        raise Misuse(f"redirect(when={when!r}) is unknown", hint='use "now" or "next"')
    if not text.strip():
        raise Misuse("a redirect needs a text", hint="say what the agent should do instead")

    def act(tx: Tx, row: RunRow, ask: Ask) -> Answer:
        contract = tx.contract(row.doc.contract)
        if contract is not None and contract.get("redirects") is False:
            return Refused(f"agent {row.agent} takes no redirects", (Choice("cancel", {}, "cancel the run"),))
        mail = MailRow(run=row.n, id=mail_id, kind="redirect", text=text, when=when, by=ask.by, at=tx.now)
        if from_step is not None:
            step = _step_of(row, from_step)
            if isinstance(step, Refused):
                return step
            mail.when = "now"
            tx.insert_mail(mail)
            target = Target(step, "paused" if row.status == "paused" else "queued")
            received = _received(mail, f"step {step} is taken next with it")
            return _rewind(tx, row, ask, target, is_dead, received, mail_id)
        if when == "now":
            row.doc.set_back = True
            if row.status == "running":
                row.attempt += 1
        else:
            begun = row.status in ("running", "pausing") or tx.calls_of_step(row.n, row.epoch, row.step)
            mail.not_before = row.step + 1 if begun else row.step
        tx.insert_mail(mail)
        disposition = _disposition(row, when)
        _note_change(row, f"redirect: {_short(text)}")
        events: list[Event] = [_received(mail, disposition)]
        if row.status == "paused" and "waiting" in row.doc.holds:
            row.doc.holds.pop("waiting")
            events += queue_if_free(row, tx.now, "mail came")
        saved(tx, row, events)
        return Accepted(tx.now, row.seq, tuple(row.in_flight), mail=mail_id, note=disposition)

    return act


def message(text: str, data: JsonValue, when: When, mail_id: str) -> Callable[[Tx, RunRow, Ask], Answer]:
    """A thought beside the task."""
    if when not in ("now", "next", "later"):
        raise Misuse(f"message(when={when!r}) is unknown", hint='use "now", "next" or "later"')
    data = from_json(_storable(data))

    def act(tx: Tx, row: RunRow, ask: Ask) -> Answer:
        mail = MailRow(run=row.n, id=mail_id, kind="message", text=text, data=data, when=when, by=ask.by, at=tx.now)
        tx.insert_mail(mail)
        disposition = _disposition(row, when)
        events: list[Event] = [_received(mail, disposition)]
        if row.status == "paused" and "waiting" in row.doc.holds:
            row.doc.holds.pop("waiting")
            events += queue_if_free(row, tx.now, "mail came")
        saved(tx, row, events)
        return Accepted(tx.now, row.seq, tuple(row.in_flight), mail=mail_id, note=disposition)

    return act


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


def _disposition(row: RunRow, when: str) -> str:
    if row.status == "paused":
        return "read when the run is resumed"
    if row.status == "queued":
        return "read when the run starts"
    if when == "now":
        waits = [c.tool for c in row.in_flight if c.effect in ("write", "irreversible")]
        return f"waiting for {', '.join(waits)}" if waits else "now"
    return "after this step"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return repr(line if len(line) <= 80 else line[:77] + "...")


def _note_change(row: RunRow, change: str) -> None:
    if row.status == "paused":
        row.doc.changed = "; ".join(filter(None, [row.doc.changed, change]))


# --- edit, rewind ----------------------------------------------------------------------------


def _step_of(row: RunRow, to: int | str) -> int | Refused:
    """A step by its number, or by the id of the plan item that it began."""
    if isinstance(to, str):
        item = next((i for i in row.doc.plan if i.id == to), None)
        if item is None:
            return Refused(f"there is no plan item {to!r}")
        if item.step is None:
            return Refused(f"plan item {to!r} has not begun yet; redirect without from_step instead")
        to = item.step
    if isinstance(to, bool) or to < 0 or to > row.step:
        return Refused(f"there is no step {to}: the run is at step {row.step}")
    return to


def rewind(to: int | str, is_dead: IsDead) -> Callable[[Tx, RunRow, Ask], Answer]:
    """Undo a step and everything later, and hold the run before it."""

    def act(tx: Tx, row: RunRow, ask: Ask) -> Answer:
        step = _step_of(row, to)
        return step if isinstance(step, Refused) else _rewind(tx, row, ask, Target(step, "paused"), is_dead, None, None)

    return act


def _rewind(
    tx: Tx, row: RunRow, ask: Ask, target: Target, is_dead: IsDead, received: Event | None, mail: str | None
) -> Answer:
    events: list[Event] = [received] if received else []
    if row.status == "pausing":
        row.doc.rewind_noted = target
        events.append(
            ev.VerbNoted(verb="rewind", by=ask.by, reason=ask.reason, text="taken when the pause has settled")
        )
        saved(tx, row, events)
        return Accepted(tx.now, row.seq, tuple(row.in_flight), mail=mail, note="taken when the pause has settled")
    in_flight = [replace(ref, run=row.id) for ref in row.in_flight]
    state = begin_rewind(tx, row, ask, target, events, is_dead, in_flight)
    saved(tx, row, events, state=state)
    return Accepted(tx.now, row.seq, tuple(in_flight), mail=mail)


def begin_rewind(
    tx: Tx, row: RunRow, ask: Ask, target: Target, events: list[Event], is_dead: IsDead, in_flight: list[CallRef]
) -> bytes | None:
    """Turn a run towards an earlier step; gives its snapshot if there is nothing to wait for."""
    held = row.status == "running" and row.holder is not None and not is_dead(tx, row.holder)
    for child in tx.children(row.id, live=True):
        child_row = load(tx, child)
        began = tx.call(row.n, child_row.doc.parent_call)
        if began is not None and began.step >= target.step and child_row.status != "cancelling":
            cancel_one(tx, child_row, ask, "all", soft=False, is_dead=is_dead)
    marked = mark_undo_from(tx, row, target.step)
    target.undoing = [call.n for call in marked]
    _withdraw_questions(tx, row)
    for name in ENDED_BY_A_REWIND:
        row.doc.holds.pop(name, None)
    row.doc.target = target
    row.doc.stop = _stop("rewind", tx, ask, in_flight)
    row.doc.error = None
    row.epoch += 1
    row.attempt += 1
    row.status = "pausing"
    events.append(ev.RewindAsked(to=target.step, epoch=row.epoch, by=ask.by, reason=ask.reason, in_flight=in_flight))
    if held or row.in_flight or any(c.undo == "pending" for c in marked) or tx.children(row.id, live=True):
        return None
    settled, state = settle_rewind(tx, row)
    events += settled
    return state


def edit(
    validate: Callable[[Json, bytes, bytes], tuple[bytes, str, list[tuple[str, int, list[bytes]]]]],
) -> Callable[[Tx, RunRow, Ask], Answer]:
    """Change the state of a paused run; `validate` turns old snapshot and contract into the new one."""

    def act(tx: Tx, row: RunRow, ask: Ask) -> Answer:
        found = tx.snapshot(row)
        contract = tx.contract(row.doc.contract)
        if found is None or contract is None:
            raise WrongState(
                f"run {row.id} has no state to edit", hint="its contract or snapshot is missing in the store"
            )
        baseline = tx.snapshot_at(row, row.doc.baseline) or found[1]
        state, changed, rows = validate(contract, found[1], baseline)
        for log, first, bodies in rows:
            tx.append_log(log, first, bodies)
        redirects = [part for part in row.doc.changed.split("; ") if part.startswith("redirect: ")]
        row.doc.changed = "; ".join(filter(None, [changed, *redirects]))
        row.doc.set_back = True
        row.doc.branch = True
        row.attempt += 1
        saved(tx, row, [ev.StateEdited(by=ask.by, reason=ask.reason, changed=changed)], state=state)
        return Accepted(tx.now, row.seq, note=changed)

    return act


# --- doubts and questions ----------------------------------------------------------------------


def _open_call(tx: Tx, row: RunRow, id: str, *statuses: str) -> CallRow | Refused:  # noqa: A002
    call = tx.call(row.n, id)
    if call is None:
        return Refused(f"there is no call {id!r} in this run")
    if call.status not in statuses:
        return Refused(f"call {id!r} is {call.status.replace('_', ' ')}, not {' or '.join(statuses).replace('_', ' ')}")
    return call


def _settle_hold(tx: Tx, row: RunRow, name: Hold, statuses: tuple[str, ...], why: str) -> list[Event]:
    left = [c for c in tx.open_calls(row.n) if c.status in statuses]
    row.wake_at = wake_at(tx, row)
    if left or name not in row.doc.holds:
        return []
    row.doc.holds.pop(name)
    return queue_if_free(row, tx.now, why)


def wake_at(tx: Tx, row: RunRow) -> float | None:
    """When somebody must look at this run again although nothing happens."""
    times = [c.wake_at for c in tx.open_calls(row.n) if c.status == "asking" and c.wake_at is not None]
    if row.doc.deadline is not None:
        times.append(row.doc.deadline)
    return min(times, default=None)


def _named(decision: Decision) -> Literal["happened", "not_happened", "check_again"]:
    if isinstance(decision, Happened):
        return "happened"
    return "check_again" if isinstance(decision, CheckAgain) else "not_happened"


def resolve(call_id: str, decision: Decision) -> Callable[[Tx, RunRow, Ask], Answer]:
    """A person says what became of a call in doubt."""

    def act(tx: Tx, row: RunRow, ask: Ask) -> Answer:
        call = _open_call(tx, row, call_id, "in_doubt", "check")
        if isinstance(call, Refused):
            return call
        result: JsonValue = None
        if isinstance(decision, Happened):
            schema = _tool_schema(tx, row, call.tool, "result_schema")
            raw = _storable(decision.result)
            result = from_json(raw)
            if schema is not None:
                JsonSchema.validate(schema, result)
            call.status, call.result = "finished", raw
        elif isinstance(decision, CheckAgain):
            call.status = "check"
        else:
            call.status = "not_begun"
        tx.update_call(call)
        event = ev.CallResolved(call=call.id, decision=_named(decision), by=ask.by, reason=ask.reason, result=result)
        ended = row.status in ("cancelled", "done", "failed")
        queued = [] if ended else _settle_hold(tx, row, "in_doubt", ("in_doubt",), "the last doubt is settled")
        saved(tx, row, [event, *queued])
        return Accepted(tx.now, row.seq)

    return act


def approve(call_id: str, args: Json | None) -> Callable[[Tx, RunRow, Ask], Answer]:
    """A person lets a call pass, with the arguments asked for or with others."""

    def act(tx: Tx, row: RunRow, ask: Ask) -> Answer:
        call = _open_call(tx, row, call_id, "asking")
        if isinstance(call, Refused):
            return call
        if call.kind == "ask":
            return Refused(
                "this is a question, not an approval", (Choice("answer", {"call_id": call_id}, "answer it"),)
            )
        if args is not None:
            merged: Any = {**from_json(call.args), **args}
            schema = _tool_schema(tx, row, call.tool, "schema")
            if schema is not None:
                JsonSchema.validate({**schema, "additionalProperties": False}, merged)
            call.wanted = call.args.decode()
            call.args = _storable(merged)
        call.status = "approved"
        tx.update_call(call)
        event = ev.Answered(call=call.id, answer="approved", by=ask.by, reason=ask.reason, value=from_json(call.args))
        saved(tx, row, [event, *_settle_hold(tx, row, "asks", ("asking",), "it was approved")])
        return Accepted(tx.now, row.seq)

    return act


def deny(call_id: str, why: str) -> Callable[[Tx, RunRow, Ask], Answer]:
    """A person says no: the call is not executed."""

    def act(tx: Tx, row: RunRow, ask: Ask) -> Answer:
        call = _open_call(tx, row, call_id, "asking")
        if isinstance(call, Refused):
            return call
        call.status, call.error, call.message = "denied", "CallDenied", why or "denied"
        tx.update_call(call)
        event = ev.Answered(call=call.id, answer="denied", by=ask.by, reason=why or ask.reason)
        saved(tx, row, [event, *_settle_hold(tx, row, "asks", ("asking",), "it was denied")])
        return Accepted(tx.now, row.seq)

    return act


def answer(call_id: str, value: Any) -> Callable[[Tx, RunRow, Ask], Answer]:
    """A person answers a question of the run."""

    def act(tx: Tx, row: RunRow, ask: Ask) -> Answer:
        call = _open_call(tx, row, call_id, "asking")
        if isinstance(call, Refused):
            return call
        if call.kind != "ask":
            return Refused(
                "this call asks for approval, not for an answer",
                (
                    Choice("approve", {"call_id": call_id}, "let it pass"),
                    Choice("deny", {"call_id": call_id}, "refuse it"),
                ),
            )
        raw = _storable(value)
        plain = from_json(raw)
        if isinstance(call.schema, dict):
            JsonSchema.validate(call.schema, plain)
        if isinstance(call.options, list) and plain not in call.options:
            raise WrongState(f"{plain!r} is not one of the options", hint=f"answer with one of {call.options}")
        call.status, call.result = "finished", raw
        tx.update_call(call)
        event = ev.Answered(call=call.id, answer="answered", by=ask.by, value=plain, reason=ask.reason)
        saved(tx, row, [event, *_settle_hold(tx, row, "asks", ("asking",), "the last question is answered")])
        return Accepted(tx.now, row.seq)

    return act


def time_out_questions(tx: Tx, row: RunRow) -> None:
    """Questions whose time is up get their default answer, or fail."""
    events: list[Event] = []
    for call in tx.open_calls(row.n):
        if call.status == "asking" and call.wake_at is not None and call.wake_at <= tx.now:
            if call.default is not None:
                call.status, call.result = "finished", call.default
            else:
                call.status, call.error, call.message = "failed", "CallTimedOut", "nobody answered in time"
            tx.update_call(call)
            events.append(ev.Answered(call=call.id, answer="timed_out", by=None))
    events += _settle_hold(tx, row, "asks", ("asking",), "the time for an answer is up")
    if events:
        saved(tx, row, events)


def _tool_schema(tx: Tx, row: RunRow, tool: str, which: str) -> Json | None:
    contract: Any = tx.contract(row.doc.contract) or {}
    found = contract.get("tools", {}).get(tool)
    return None if found is None else found[which]


def _storable(value: Any) -> bytes:
    try:
        return to_json(value)
    except Exception as error:
        raise NotStorable(
            f"{value!r} cannot be stored: {error}", hint="give a value that can be written as JSON"
        ) from error
