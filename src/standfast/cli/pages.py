"""Longer texts for people: a run, its receipt, its events, the list of runs."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence

from pydantic import JsonValue

from standfast import events as ev
from standfast.cli.colours import Tinted
from standfast.cli.words import (
    PLAN_SHAPES,
    SUSPICIOUS,
    TRIGGER_WORDS,
    TRIPWIRE_LIMITS,
    UNREAD_SHAPE,
    budget_words,
    child_lines,
    child_words,
    count,
    duration,
    ended,
    flying,
    joined,
    look_of,
    need_lines,
    next_lines,
    plan_position,
    short,
    status_words,
    trip_words,
)
from standfast.events import Event, TextDelta
from standfast.names import by_words, name_words, named
from standfast.records import Json, Receipt, RunView, Trigger
from standfast.transcripts import Said
from standfast.unread import NOT_READ


def clock(at: float) -> str:
    """The time of day."""
    return time.strftime("%H:%M:%S", time.localtime(at))


# --- runs ------------------------------------------------------------------------------------------


def by_urgency(views: Sequence[RunView]) -> list[RunView]:
    """Those that need someone on top, then the live ones; the newest first within each."""
    return sorted(views, key=lambda view: 0 if view.needs else 2 if ended(view.status) else 1)


def run_row(view: RunView) -> tuple[str, str, str, str, str, str]:
    """A line of the list: status, id, agent, position, elapsed, remark."""
    position = plan_position(view) or f"step {view.step}"
    unread = view.not_read[0] if view.not_read else ""
    below = next(itertools.starmap(child_words, view.child_needs.items()), "")
    remark = short(view.needs[0].words if view.needs else view.error or unread or below or view.waiting_for)
    if view.needs:
        remark = f"needs you: {remark}"
    return (
        f"{look_of(view.status).shape} {status_words(view)}",
        view.id,
        view.agent,
        position,
        duration(view.elapsed),
        remark,
    )


def run_table(views: Sequence[RunView]) -> list[str]:
    """The list of runs in columns."""
    ordered = by_urgency(views)
    rows = [("STATUS", "RUN", "AGENT", "AT", "ELAPSED", ""), *map(run_row, ordered)]
    widths = [max(len(row[n]) for row in rows) for n in range(5)]
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[5]]).rstrip()
        for row in rows
    ]
    remarks_at = sum(widths) + 2 * len(widths)
    for n, view in enumerate(ordered, 1):
        if about_unread(view):
            lines[n] = Tinted(lines[n], "red", remarks_at)
    return lines


def about_unread(view: RunView) -> bool:
    """Is its remark in the list about a redirect that was not read, its own or a child's?"""
    if view.needs:
        return view.needs[0].kind == "unread"
    return not view.error and (bool(view.not_read) or NOT_READ in next(iter(view.child_needs.values()), ""))


def run_page(view: RunView, options: str = "", said: Sequence[Said] = ()) -> list[str]:
    """Everything worth knowing of a run now."""
    paused = f" (paused {duration(view.paused_for)})" if view.paused_for >= 1 else ""
    lines = [
        f"{look_of(view.status).shape} {view.id}  {view.agent}  {status_words(view)}",
        "  " + joined([f"step {view.step}", f"elapsed {duration(view.elapsed)}{paused}", budget_words(view)], " · "),
    ]
    if view.waiting_for:
        lines.append(f"  waiting for {view.waiting_for}")
    if view.in_flight:
        lines.append(f"  in flight: {flying(view.in_flight)}")
    if view.error:
        lines.append(f"  error: {view.error}")
    if view.changed:
        lines.append(f"  changed meanwhile: {view.changed}")
    lines += [_tinted(f"  {line}", UNREAD_SHAPE in line) for line in not_read_lines(view, options)]
    if view.labels:
        lines.append("  labels: " + ", ".join(f"{name}={value}" for name, value in sorted(view.labels.items())))
    if view.plan:
        lines += ["", f"plan {plan_position(view)}"]
        for item in view.plan:
            was = f"  (was: {item.was})" if item.was else ""
            fixed = "" if item.redirects or item.status in ("done", "dropped") else "  (takes no redirects)"
            lines.append(f"  {PLAN_SHAPES[item.status]} {item.title}{was}{fixed}")
    lines += _frames(view) + _mail(view) + _tripwire(said)
    if view.child_needs:
        lines += ["", *(_tinted(line, NOT_READ in line) for line in child_lines(view, options))]
    if view.needs:
        lines += ["", "needs you"]
        for need in view.needs:
            first, *typed = need_lines(need, view.id, options)
            lines += [_tinted(f"  {first}", need.kind == "unread"), *(f"  {line}" for line in typed)]
    else:
        lines += [f"  {line}" for line in next_lines(view, options)]
    return lines


def _frames(view: RunView) -> list[str]:
    if not view.frames:
        return []
    cost = f" ({count(view.held_tokens, 'token')} on hold)" if view.held_tokens else ""
    lines = ["", f"thoughts{cost}"]
    return lines + [f"  {frame_words(frame)}" for frame in view.frames]


def frame_words(frame: Json) -> str:
    """A thought: goal, how far it is, and if it is on hold for how long and until when."""
    held = _seconds(frame.get("held_for"))
    state = "active" if held is None else f"on hold {duration(held)}"
    if frame.get("expired"):
        state += ", expired: going back will be a reconstruction"
    elif held is not None and (at := _seconds(frame.get("expires_at"))) is not None:
        state += f", expires {clock(at)}"
    ordered = f"ordered: {frame.get('ordered')}" if frame.get("ordered") else ""
    return joined([f"{frame.get('goal')} [{frame.get('id')}]", str(frame.get("place") or ""), state, ordered], " · ")


def _seconds(value: JsonValue) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _mail(view: RunView) -> list[str]:
    if not view.mail:
        return []
    lines = ["", "mail"]
    for letter in view.mail[-10:]:
        sender = name_words(letter.by, letter.by_token)
        text = f"  {letter.kind} from {sender}: {short(letter.text, 60)}  [{letter.disposition}]"
        lines.append(_tinted(text, letter.fate == "not_read"))
    return lines


def _tinted(line: str, unread: bool) -> str:
    return Tinted(line, "red") if unread else line


def not_read_lines(view: RunView, options: str = "") -> list[str]:
    """Redirects that nobody has read; a live run has needs for them, an ended one can be forked."""
    if not view.not_read:
        return []
    fork = [f"  standfast fork {view.id}{options}"] if ended(view.status) else []
    return [*(f"{UNREAD_SHAPE} {line}" for line in view.not_read), *fork]


def _tripwire(said: Sequence[Said]) -> list[str]:
    lines = [f"  {one.tool or one.call}: {trip_words(mark)}" for one in said for mark in one.trips]
    return ["", "tripwire", *lines, f"  ({TRIPWIRE_LIMITS})"] if lines else []


# --- receipts ----------------------------------------------------------------------------------------


def receipt_page(receipt: Receipt) -> list[str]:
    """What a stop did: finished, aborted, undone, left behind (R9)."""
    took = max(0.0, receipt.settled_at - receipt.accepted_at)
    who = by_words(named(receipt.by, receipt.trigger), receipt.by_token)
    why = f": {receipt.reason}" if receipt.reason else ""
    lines = [
        f"receipt of {receipt.run}: {joined([receipt.status, who], ' ')}{why} [{TRIGGER_WORDS[receipt.trigger]}]",
        f"  asked {clock(receipt.asked_at)}, settled {took:.2f} s after it was accepted",
        f"  {count(receipt.finished_steps, 'step')} finished and kept",
    ]
    for flight in receipt.in_flight:
        tokens = f", {'about ' if flight.estimated else ''}{count(flight.tokens, 'token')}" if flight.tokens else ""
        lines.append(
            f"  in flight: {flight.call.title or flight.call.tool}: {flight.outcome.replace('_', ' ')}{tokens}"
        )
    for undone in receipt.undone:
        why = f" ({undone.reason})" if undone.reason else ""
        lines.append(f"  undo of {undone.call.title or undone.call.tool}: {undone.outcome.replace('_', ' ')}{why}")
    if receipt.kept:
        lines.append(f"  kept: {', '.join(call.title or call.tool for call in receipt.kept)}")
    lines += [f"  left behind: {one.what} ({one.why})" for one in receipt.residue]
    lines += [_tinted(f"  {UNREAD_SHAPE} {line}", unread=True) for line in receipt.not_read]
    lines += [f"  suspicious output: marked after {one.offset} characters of {one.call}" for one in receipt.marks]
    lines.append(f"  calls begun after it was accepted: {receipt.calls_after_cancel}")
    if receipt.usage.tokens or receipt.usage.cost:
        cost = f", cost {receipt.usage.cost:.3g}" if receipt.usage.cost else ""
        lines.append(f"  used: {count(receipt.usage.tokens, 'token')}{cost}")
    if receipt.partial_output:
        lines += ["  partial output kept:", *(f"    {line}" for line in receipt.partial_output.splitlines()[-12:])]
    return lines


# --- what was said and done ----------------------------------------------------------------------------


def transcript_page(said: Sequence[Said]) -> list[str]:
    """What was said, call by call."""
    lines: list[str] = []
    for one in said:
        cut = "  (cut: this is what had come)" if one.partial else ""
        lines.append(f"── {one.tool or one.call}{cut}")
        if one.reasoning:
            lines += [f"  ~ {line}" for line in one.reasoning.splitlines()]
        lines += [f"  {line}" for line in marked(one.text, one.marks).splitlines()]
        for mark in one.trips:
            lines.append(f"  ! tripwire: {trip_words(mark)}")
            if mark.withheld:
                lines += [f"  ! | {line}" for line in mark.withheld.splitlines()]
    return lines or ["nothing was said"]


def suspected_words(event: ev.OutputSuspected) -> str:
    """Where the output was called suspicious."""
    where = f" after {count(event.offset, 'character')} of {event.call}" if event.call is not None else ""
    return f"output marked as suspicious{where}"


def marked(text: str, marks: Sequence[int]) -> str:
    """What was said, with a line at every place where somebody stopped it."""
    for place in sorted(marks, reverse=True):
        text = f"{text[:place]}\n{SUSPICIOUS}\n{text[place:]}"
    return text


_NOT_FIELDS = ("seq", "at", "run", "type", "status", "attempt", "by", "by_token", "uptime", "boot")


def event_line(event: Event | TextDelta) -> str:
    """An event on one line."""
    if isinstance(event, TextDelta):
        return event.text
    return f"{event.seq:>5} {clock(event.at)} {event.type.replace('_', ' '):<16} {_about(event)}".rstrip()


def _about(event: Event) -> str:
    match event:
        case ev.CallStarted():
            return f"{event.title or event.tool} {short(event.args, 60)} [{event.effect}] {event.call}"
        case ev.CallFinished():
            return f"{short(event.result, 60)} {event.call}"
        case ev.TextFlushed():
            return short(event.text)
        case ev.TripwireTripped():
            return f"{trip_words(event)} {event.call}"
        case ev.RunCancelled():
            return f"{count(event.receipt.finished_steps, 'step')} finished"
        case ev.OutputSuspected():
            return joined([suspected_words(event), by_words(named(event.by, event.trigger), event.by_token)])
        case ev.PlanChanged():
            return "  ".join(f"{PLAN_SHAPES[item.status]} {item.title}" for item in event.plan)
        case ev.StepFailed() | ev.RunFailed():
            return event.error
        case ev.RunPaused():
            return joined([", ".join(event.holds), event.text], ": ")
        case (
            ev.CancelAsked()
            | ev.PauseAsked()
            | ev.RunHalted()
            | ev.RunLifted()
            | ev.ResumeAsked()
            | ev.StateEdited()
            | ev.RewindAsked()
        ):
            flight = getattr(event, "in_flight", ())
            trigger: Trigger | None = getattr(event, "trigger", None)
            return joined(
                [
                    by_words(named(event.by, trigger or ""), event.by_token),
                    f"[{TRIGGER_WORDS[trigger]}]" if trigger is not None else "",
                    event.reason,
                    f"in flight: {flying(flight)}" if flight else "",
                ]
            )
        case ev.MailReceived():
            sender = name_words(event.by, event.by_token)
            return f"{event.kind} from {sender}: {short(event.text, 60)} [{event.disposition}] {event.mail}"
        case ev.HandedBack():
            done = ", ".join(str(one["tool"]) for one in event.performed)
            performed = f"performed: {done}" if done else ""
            return joined([by_words(event.by, event.by_token), event.note, performed])
        case ev.ClientsReached():
            reached = (f"{name_words(one.by, one.by_token, 'somebody')} ({one.way})" for one in event.clients)
            left_out = f"{count(event.left_out, 'more client')}" if event.left_out else ""
            return joined([event.server, ", ".join(reached), left_out])
        case _:
            who = by_words(event.by, event.by_token) if isinstance(event, ev.ByPerson) else ""
            return joined([who, _fields(event)])


def _fields(event: Event) -> str:
    """What else an event says, each by its name; who did it is said in words before."""
    said = {name: value for name, value in ev.plain(event).items() if name not in _NOT_FIELDS}
    return " ".join(f"{name}={short(value, 60)}" for name, value in said.items() if value not in (None, "", [], {}))
