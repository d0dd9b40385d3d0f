"""What people read: a run, a stop, an event, in words. No two states look alike (R27)."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from standfast.events import TripwireTripped
from standfast.records import (
    ENDED,
    Accepted,
    Answer,
    CallRef,
    CheckAgain,
    Choice,
    Happened,
    Json,
    Need,
    NotHappened,
    PlanItem,
    Refused,
    RunView,
    Status,
    Trigger,
)
from standfast.transcripts import Trip

Colour = Literal["blue", "green", "yellow", "red", "magenta", "cyan", "bright_black", "white"]


@dataclass(frozen=True, slots=True)
class Look:
    """How a state is shown: shape and colour; its word is its name."""

    shape: str
    colour: Colour


LOOKS: Final[dict[str, Look]] = {
    "queued": Look("○", "bright_black"),
    "running": Look("▶", "green"),
    "pausing": Look("◐", "yellow"),
    "paused": Look("‖", "yellow"),
    "cancelling": Look("◓", "red"),
    "cancelled": Look("✖", "red"),
    "done": Look("✔", "blue"),
    "failed": Look("▲", "magenta"),
}
PLAN_SHAPES: Final[dict[str, str]] = {"queued": "○", "running": "▶", "done": "✔", "dropped": "╌"}
UNREAD_SHAPE: Final = "✉!"  # a redirect that nobody has read, shown in red where there are colours
SUSPICIOUS: Final = "⚑ stopped here as suspicious"
TRIGGER_WORDS: Final[dict[Trigger, str]] = {
    "api": "by a program",
    "button": "by a button",
    "key": "by a key",
    "terminal": "by a typed command",
    "operator": "by an operator's halt",
    "parent": "by the run above it",
    "deadline": "by its deadline",
    "budget": "by its budget",
    "tripwire": "by a tripwire",
    "run": "by the run itself",
}
UNKNOWN = Look("?", "white")


def look_of(status: str) -> Look:
    """Shape and colour of a status."""
    return LOOKS.get(status, UNKNOWN)


# --- small things --------------------------------------------------------------------------------


def duration(seconds: float) -> str:
    """`0:07`, `12:45`, `3:02:10`."""
    whole = int(max(0.0, seconds))
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def count(number: int, what: str) -> str:
    """`1 step`, `3 steps`."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def short(value: Any, width: int = 72) -> str:
    """A JSON value on one line, cut where it is too long."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = " ".join(text.split())
    return text if len(text) <= width else text[: width - 1] + "…"


def status_words(view: RunView) -> str:
    """`paused (asks, user)`, `pausing`."""
    return f"{view.status} ({', '.join(hold.replace('_', ' ') for hold in view.holds)})" if view.holds else view.status


def plan_position(view: RunView) -> str:
    """`2/4`: how many are done, and the one being worked on; empty without a plan.

    The page counts in the same way: page/test/plan_positions.json is for both.
    """
    items = [item for item in view.plan if item.status != "dropped"]
    if not items:
        return ""
    done = sum(item.status == "done" for item in items)
    at_work = view.status not in ENDED and any(item.status == "running" for item in items)
    return f"{done + at_work}/{len(items)}"


def next_item(view: RunView) -> PlanItem | None:
    """What a redirect rewrites: the item being worked on, else the first queued one."""
    running = next((item for item in view.plan if item.status == "running"), None)
    return running or next((item for item in view.plan if item.status == "queued"), None)


def caps(view: RunView) -> list[tuple[str, float, float]]:
    """The caps of a budget that are set: name, spent, cap."""
    b, s = view.budget, view.spent
    pairs: list[tuple[str, float, float | None]] = [
        ("steps", s.steps, b.steps),
        ("calls", s.calls, b.calls),
        ("tokens", s.tokens, b.tokens),
        ("cost", s.cost, b.cost),
        ("seconds", s.seconds, b.seconds),
    ]
    return [(name, spent, cap) for name, spent, cap in pairs if cap]


def budget_words(view: RunView) -> str:
    """The cap that is nearest, and what was spent: `tokens 312/2000 · cost 0.04`."""
    found = sorted(caps(view), key=lambda one: -one[1] / one[2])
    spent = view.spent
    words = [
        f"{name} {spent_:.3g}/{cap:.4g}" if name == "cost" else f"{name} {spent_:.0f}/{cap:.0f}"
        for name, spent_, cap in found[:1]
    ]
    if spent.tokens and not any(word.startswith("tokens") for word in words):
        words.append(count(spent.tokens, "token"))
    if spent.cost and not any(word.startswith("cost") for word in words):
        words.append(f"cost {spent.cost:.3g}")
    return " · ".join(words)


def flying(calls: Iterable[CallRef]) -> str:
    """`send_invoice (write), look (read)`."""
    return ", ".join(f"{call.title or call.tool} ({call.effect})" for call in calls)


# --- what a control would do, in words that fit the run as it is (R25) -----------------------------


def consequences(view: RunView) -> dict[Literal["pause", "redirect", "cancel"], str]:
    """What pause, redirect and cancel would do now, as the view tells it."""
    told = view.consequences
    return {"pause": told.pause, "redirect": told.redirect, "cancel": told.cancel}


def child_lines(view: RunView, options: str = "") -> list[str]:
    """The runs below this one that need someone, each with the command that shows what can be done."""
    return [
        line
        for child, words in view.child_needs.items()
        for line in (child_words(child, words), f"  standfast show {child}{options}")
    ]


def child_words(child: str, words: str) -> str:
    """A run below that needs someone; its id is long, and comes last."""
    return f"a child needs you: {words} ({child})"


# --- commands to type ------------------------------------------------------------------------------


def command(verb: str, run: str, args: Json, options: str = "") -> str:
    """The command line that carries out a verb with its arguments."""
    words: list[str] = [verb.replace("_", "-"), run]
    for name, value in args.items():
        if name in ("call_id", "frame", "mail", "text", "to", "value"):
            words.append(value if isinstance(value, str) else json.dumps(value))
        elif name == "accept_stale" and value:
            words.append("--accept-stale")
        elif name in ("budget", "args", "patch"):
            words += [f"--{name}", json.dumps(value)]
        elif name in ("reason", "note") and value:
            words += [f"--{name}", str(value)]
        elif name == "when" and value == "next":
            words.append("--next")
        elif name == "call":
            words += ["--call", str(value)]
        elif name == "decision":
            words.append(f"--{str(value).replace('_', '-')}")
    return f"standfast {shlex.join(words)}{options}"


def _offered(choice: Choice, run: str, options: str) -> str:
    """The command for a choice of a refusal; an answer names its question last."""
    if choice.verb != "answer":
        return command(choice.verb, run, choice.args, options)
    args: Json = {"value": choice.args.get("value", "TEXT"), "call": choice.args.get("call_id")}
    return command(choice.verb, run, args, options)


def choice_words(need: Need, choice: Any, run: str, options: str = "") -> tuple[str, str]:
    """A choice of a need: what it means, and the command for it."""
    match choice:
        case Choice():
            return choice.label or choice.verb, command(choice.verb, run, choice.args, options)
        case Happened():
            return "it happened", command("resolve", run, {"call_id": need.call, "decision": "happened"}, options)
        case NotHappened():
            return "it did not happen: issue it again", command(
                "resolve", run, {"call_id": need.call, "decision": "not_happened"}, options
            )
        case CheckAgain():
            return "ask the probe again", command(
                "resolve", run, {"call_id": need.call, "decision": "check_again"}, options
            )
        case _:
            return short(choice), command("answer", run, {"value": choice, "call": need.call}, options)


def need_lines(need: Need, run: str, options: str = "") -> list[str]:
    """A need, and what can be typed about it."""
    lines = [f"{need.kind}: {need.words}"]
    for choice in need.choices:
        label, typed = choice_words(need, choice, run, options)
        lines.append(f"  {typed}    # {label}")
    if need.kind == "question" and not need.choices:
        lines.append(f"  standfast answer {run} TEXT{options}")
    return lines


# --- answers ---------------------------------------------------------------------------------------


def answer_lines(verb: str, answer: Answer, view: RunView, options: str = "") -> list[str]:
    """What was accepted, what is in flight, what to do next."""
    if isinstance(answer, Refused):
        lines = [f"refused: {answer.why}"]
        return lines + [f"  {_offered(choice, view.id, options)}    # {choice.label}" for choice in answer.choices]
    if not isinstance(answer, Accepted):
        after = (
            "wait until it has settled"
            if answer.status == "cancelling"
            else "standfast fork goes on from one of its steps"
        )
        return [f"too late: the run is already {answer.status}", f"  {after}"]
    lines = [f"{verb} accepted: {view.id} is {status_words(view)}"]
    letter = next((one for one in view.mail if one.id == answer.mail), None)
    if letter is not None:
        became = letter.disposition if letter.fate != "sent" else answer.note or letter.disposition
        lines.append(f"  {letter.kind}: {became}")
    elif answer.note:
        lines.append(f"  {answer.note}")
    if answer.in_flight:
        lines.append(f"  in flight when it came: {flying(answer.in_flight)}")
    if view.waiting_for:
        lines.append(f"  waiting for {view.waiting_for}")
    return lines + [f"  {line}" for line in next_lines(view, options)]


def waiting_lines(view: RunView, options: str = "") -> list[str]:
    """What a stop that was accepted waits for, and what would help."""
    if view.status not in ("pausing", "cancelling"):
        return []
    lines = [f"accepted: {view.id} is {view.status}, waiting for {view.waiting_for or 'its driver'}"]
    if view.waiting_for.startswith("a driver"):  # nobody has the code: it will not settle by itself
        lines.append(f"  standfast serve MODULE:AGENT{options}    # a process with its code settles it")
    return lines


def next_lines(view: RunView, options: str = "") -> list[str]:
    """What a person can do now."""
    run = view.id
    match view.status:
        case "paused":
            if view.needs:
                return [line for need in view.needs for line in need_lines(need, run, options)]
            if "taken" in view.holds:
                return [
                    f"act in it: standfast perform {run} TOOL{options}",
                    f"let the agent go on: standfast hand-back {run}{options}",
                ]
            if "halted" in view.holds:
                return [f"held until an operator lifts the halt: standfast halts{options}"]
            return [f"go on: standfast resume {run}{options}"]
        case "pausing":
            return [f"see what it waits for: standfast show {run}{options}"]
        case "cancelling":
            return [f"what the stop did, once it has settled: standfast receipt {run} --wait{options}"]
        case "cancelled":
            return [
                f"what the stop did: standfast receipt {run}{options}",
                f"take it up again: standfast fork {run}{options}",
            ]
        case _:
            return []


def ended(status: Status) -> bool:
    """Is it over?"""
    return status in ("cancelled", "done", "failed")


def joined(parts: Sequence[str], between: str = "  ") -> str:
    """Those that are not empty."""
    return between.join(part for part in parts if part)


# --- the tripwire --------------------------------------------------------------------------------------

TRIPWIRE_LIMITS: Final = "it does not see paraphrase, translation, or ciphers other than rot13"
_CHANNELS: Final = {"text": "its answer", "reasoning": "its thinking", "tool_call": "what it gave to a tool"}


def trip_words(trip: Trip | TripwireTripped) -> str:
    """What came out where, and what was done about it; never the words themselves."""
    what = "a canary from its instructions" if trip.kind == "canary" else "its instructions"
    form = "" if trip.variant == "plain" else f" ({trip.variant})"
    done = "marked, not stopped" if trip.action == "flag" else f"{trip.action}, {trip.held_back} characters held back"
    return f"{what}{form} came out in {_CHANNELS[trip.channel]}, characters {trip.start} to {trip.end}: {done}"
