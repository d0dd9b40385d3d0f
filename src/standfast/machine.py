"""Everything a run can do and every answer a verb can get: two tables, no I/O.

`TRANSITIONS` says which status may follow which, by what verb and whose hand; every change of
status asserts `may_follow()`. `ANSWERS` says what a person's verb gets in each status;
`decide()` looks it up. The tables in docs/states.md are generated from here.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from standfast.records import ENDED, LIVE, Hold, Status

UserVerb = Literal[
    "pause",
    "resume",
    "step_once",
    "redirect",
    "message",
    "resend",
    "drop",
    "abandon",
    "return_to",
    "edit",
    "resolve",
    "approve",
    "deny",
    "answer",
    "rewind",
    "take_over",
    "perform",
    "hand_back",
    "cancel",
]
DriverVerb = Literal["start", "claim", "commit", "takeover", "release", "stop", "settle", "undo", "finish", "fail"]
OperatorVerb = Literal["halt", "lift"]
Verb: TypeAlias = UserVerb | DriverVerb | OperatorVerb

USER_VERBS: Final[tuple[UserVerb, ...]] = get_args(UserVerb)
STATUSES: Final[tuple[Status, ...]] = LIVE + ENDED


# --- table 1: which status may follow which ----------------------------------------------------


@dataclass(frozen=True, slots=True)
class Transition:
    """By `verb`, any of `sources` may become any of `targets`; None is a run that does not exist yet."""

    sources: tuple[Status | None, ...]
    verb: Verb
    targets: tuple[Status, ...]
    who: tuple[str, ...]
    note: str


def _stay(verb: Verb, statuses: tuple[Status, ...], who: tuple[str, ...], note: str) -> tuple[Transition, ...]:
    """One row for each status: a row of several would also let one become another."""
    return tuple(Transition((status,), verb, (status,), who, note) for status in statuses)


def _while_it_lives(verbs: tuple[UserVerb, ...], note: str) -> tuple[Transition, ...]:
    """What a person may say to a run that is not being cancelled, and that changes nothing of its status."""
    said_to: tuple[Status, ...] = ("queued", "running", "pausing", "paused")
    return tuple(row for verb in verbs for row in _stay(verb, said_to, ("user",), note))


_ANSWERING: Final[tuple[UserVerb, ...]] = ("resolve", "approve", "deny", "answer")
_MAIL: Final[tuple[UserVerb, ...]] = ("redirect", "message")
_UNREAD: Final[tuple[UserVerb, ...]] = ("resend", "drop")  # a redirect that a step has ended without reading
_FRAMES: Final[tuple[UserVerb, ...]] = ("abandon", "return_to")
_CANCELLERS: Final = ("user", "parent", "operator", "deadline", "budget")
_HALTERS: Final = ("operator", "driver")  # a driver whose claim finds a halt

TRANSITIONS: Final[tuple[Transition, ...]] = (
    Transition((None,), "start", ("queued",), ("user", "parent"), "run, snapshot 0, plan"),
    Transition((None,), "start", ("paused",), ("user",), "a fork held as stale"),
    Transition((None,), "start", ("paused",), ("parent",), "a child of a halted agent; other starts are refused"),
    Transition(
        ("queued",),
        "claim",
        ("running",),
        ("driver",),
        "fence+1, lease; freshness probes run after it and before the first admission",
    ),
    Transition(("running",), "commit", ("running",), ("driver",), "snapshot, mail read by this step, log rows, events"),
    *_stay(
        "takeover",
        ("running", "pausing", "cancelling"),
        ("driver",),
        "holder gone, or none yet: fence+1; calls `started` become repeatable or in doubt",
    ),
    Transition(("running",), "release", ("queued",), ("driver",), "shutdown, deploy; drains as on pause"),
    Transition(
        ("running",), "stop", ("pausing", "paused"), ("driver",), "holds; snapshot and journal kept; siblings drain"
    ),
    Transition(("queued",), "pause", ("paused",), ("user", "parent"), "the gate closes at this commit"),
    Transition(("running",), "pause", ("pausing",), ("user", "parent"), "the gate closes at this commit"),
    *_stay("pause", ("pausing", "paused"), ("user", "parent"), "the user hold is added"),
    Transition(("queued",), "halt", ("paused",), _HALTERS, "the halted hold; the gate closes at this commit"),
    Transition(("running",), "halt", ("pausing",), _HALTERS, "the halted hold; the gate closes at this commit"),
    *_stay("halt", ("pausing", "paused"), ("operator",), "the halted hold is added"),
    *_stay("lift", ("pausing", "paused"), ("operator",), "the halted hold goes, or names one halt less"),
    Transition(("paused",), "lift", ("queued",), ("operator",), "the halted hold was the last"),
    Transition(("queued",), "take_over", ("paused",), ("user",), "the taken hold; the gate closes at this commit"),
    Transition(("running",), "take_over", ("pausing",), ("user",), "the taken hold; the gate closes at this commit"),
    *_stay("take_over", ("pausing", "paused"), ("user",), "the taken hold is added"),
    Transition(("paused",), "perform", ("queued",), ("user",), "a person's call, a step of its own; holds are kept"),
    *_stay("hand_back", ("pausing", "paused"), ("user",), "the taken hold goes; a message for the agent"),
    Transition(
        ("queued", "paused"),
        "hand_back",
        ("queued", "paused"),
        ("user",),
        "holds cleared as by resume; a message for the agent",
    ),
    Transition(
        ("pausing",),
        "settle",
        ("paused", "queued"),
        ("driver", "reaper"),
        "calls in flight drained or cut; queued when no hold is left (a redirect of a run that was not paused)",
    ),
    *(
        Transition(
            ("queued", "running", "paused"),
            verb,
            ("pausing",),
            ("user",),
            "from_step: target, epoch+1, ledger rows; then undo, one row each, then settle",
        )
        for verb in ("rewind", "redirect")
    ),
    *_while_it_lives(_MAIL, 'mail; "now" raises the attempt'),
    *_while_it_lives(_UNREAD, "a redirect that was not read"),
    Transition(("paused",), "resend", ("queued",), ("user",), "mail ends the waiting hold"),
    *_while_it_lives(_FRAMES, "an order for the next step"),
    *(Transition(("paused",), verb, ("queued",), ("user",), "mail ends the waiting hold") for verb in _MAIL + _FRAMES),
    *(Transition(("paused",), verb, ("queued",), ("user",), "holds cleared") for verb in ("resume", "step_once")),
    Transition(("paused",), "edit", ("paused",), ("user",), "version+1, event; the step is set back"),
    *(
        row
        for verb in _ANSWERING
        for row in _stay(
            verb,
            ("queued", "running", "pausing", "paused", "cancelling"),
            ("user", "driver"),
            "the call's answer, event",
        )
    ),
    *(
        Transition(
            ("paused",), verb, ("queued",), ("user", "driver"), "the last hold is gone, and no user hold is left"
        )
        for verb in _ANSWERING
    ),
    Transition(
        ("queued", "running", "pausing", "paused"),
        "cancel",
        ("cancelling", "cancelled"),
        _CANCELLERS,
        "who, why, when, calls in flight, partial text; pending mail returned; "
        "cancelled at once if nothing is in flight or to undo and no child lives",
    ),
    Transition(("cancelling",), "cancel", ("cancelling",), _CANCELLERS, "soft becomes hard, never the reverse"),
    *_stay("undo", ("running", "pausing", "cancelling"), ("driver",), "one ledger row each"),
    Transition(("cancelling",), "finish", ("cancelled",), ("driver",), "ledger settled or residue listed"),
    Transition(("running", "pausing"), "finish", ("done",), ("driver",), "no open frames or live children"),
    Transition(
        ("running",),
        "fail",
        ("failed",),
        ("driver",),
        'only if the agent asked for it; undoes like cancel(undo="step") first',
    ),
)

_ALLOWED: Final[frozenset[tuple[Status | None, Verb, Status]]] = frozenset(
    (source, row.verb, target) for row in TRANSITIONS for source in row.sources for target in row.targets
)

_FOLLOWS: Final = frozenset((source, target) for source, _, target in _ALLOWED)


def can(status: Status | None, verb: Verb, target: Status) -> bool:
    """True exactly when `verb` may take a run from `status` to `target`."""
    return (status, verb, target) in _ALLOWED


def may_follow(status: Status, target: Status) -> bool:
    """True exactly when some verb may take a run from `status` to `target`."""
    return (status, target) in _FOLLOWS


# --- table 2: what a person's verb gets ---------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rule:
    """The answer to a verb.

    `target` lists the statuses an accepted verb may lead to, the usual one first; it is empty for
    every other kind. "note" is written down now and acted on later; "no-op" is already so.
    """

    kind: Literal["accept", "no-op", "note", "refuse", "too_late"]
    target: tuple[Status, ...]
    says: str


def _accept(says: str, *target: Status) -> Rule:
    return Rule("accept", target, says)


def _row(
    verbs: tuple[UserVerb, ...],
    *,
    queued: Rule,
    running: Rule,
    pausing: Rule,
    paused: Rule,
    cancelling: Rule,
    ended: Rule,
) -> dict[tuple[UserVerb, Status], Rule]:
    live = dict(zip(LIVE, (queued, running, pausing, paused, cancelling), strict=True))
    rules: dict[Status, Rule] = live | dict.fromkeys(ENDED, ended)
    return {(verb, status): rule for verb in verbs for status, rule in rules.items()}


_TOO_LATE: Final = Rule("too_late", (), "TooLate")
_NOT_WHILE_IT_MOVES: Final = Rule("refuse", (), "pause it first")
_ONLY_WHEN_PAUSED: Final = Rule("refuse", (), "it is not paused")

ANSWERS: Final[dict[tuple[UserVerb, Status], Rule]] = {
    **_row(
        ("pause",),
        queued=_accept("paused", "paused"),
        running=_accept("pausing", "pausing"),
        # Not merely a no-op: a run pausing for its budget or a rewind must not go on by itself afterwards.
        pausing=_accept("adds the user hold, if it is not there", "pausing"),
        paused=_accept("adds the user hold, if it is not there", "paused"),
        cancelling=_TOO_LATE,
        ended=_TOO_LATE,
    ),
    **_row(
        ("resume",),
        queued=Rule("no-op", (), "no-op"),
        running=Rule("no-op", (), "no-op"),
        pausing=Rule("note", (), "noted, taken at settle; Refused while halted"),
        paused=_accept("queued, or Refused naming the holds in the way", "queued"),
        cancelling=_TOO_LATE,
        ended=_TOO_LATE,
    ),
    **_row(
        ("step_once",),
        queued=_ONLY_WHEN_PAUSED,
        running=_ONLY_WHEN_PAUSED,
        pausing=_ONLY_WHEN_PAUSED,
        paused=_accept("queued, or Refused naming the holds in the way", "queued"),
        cancelling=_TOO_LATE,
        ended=_TOO_LATE,
    ),
    **_row(
        _MAIL,
        queued=_accept("mail", "queued"),
        running=_accept('mail; "now": attempt+1', "running"),
        pausing=_accept("mail", "pausing"),
        paused=_accept("mail; queued if it only waited for mail", "paused", "queued"),
        cancelling=_TOO_LATE,
        ended=_TOO_LATE,
    ),
    **_row(
        ("resend",),
        queued=_accept("sent to the next step, if it was not read", "queued"),
        running=_accept("sent to the next step, if it was not read", "running"),
        pausing=_accept("sent to the next step, if it was not read", "pausing"),
        paused=_accept("sent to the next step, if it was not read; queued if it only waited", "paused", "queued"),
        cancelling=_TOO_LATE,
        ended=_TOO_LATE,
    ),
    **_row(
        ("drop",),
        queued=_accept("returned, if it was not read", "queued"),
        running=_accept("returned, if it was not read", "running"),
        pausing=_accept("returned, if it was not read", "pausing"),
        paused=_accept("returned, if it was not read", "paused"),
        cancelling=_TOO_LATE,
        ended=_TOO_LATE,
    ),
    **_row(
        _FRAMES,
        queued=_accept("ordered", "queued"),
        running=_accept("ordered: the next step carries it out", "running"),
        pausing=_accept("ordered", "pausing"),
        paused=_accept("ordered; queued if it only waited for mail", "paused", "queued"),
        cancelling=_TOO_LATE,
        ended=_TOO_LATE,
    ),
    **_row(
        ("edit",),
        queued=_NOT_WHILE_IT_MOVES,
        running=_NOT_WHILE_IT_MOVES,
        pausing=_NOT_WHILE_IT_MOVES,
        paused=_accept("yes", "paused"),
        cancelling=_TOO_LATE,
        ended=_TOO_LATE,
    ),
    **_row(
        _ANSWERING,
        queued=_accept("yes", "queued"),  # released in mid-question, or for a call that a person performs
        running=_accept("yes", "running"),
        pausing=_accept("yes", "pausing"),
        paused=_accept("yes; queued when it was the last hold", "paused", "queued"),
        cancelling=_accept("yes", "cancelling"),
        ended=_TOO_LATE,
    ),
    # A doubt outlives its run: what the person found out still belongs in the record.
    **{("resolve", status): Rule("note", (), "noted in the record") for status in ENDED},
    **_row(
        ("rewind",),  # and redirect(from_step=...)
        queued=_accept("pausing", "pausing"),
        running=_accept("pausing", "pausing"),
        pausing=Rule("note", (), "noted, after settle; Refused while halted"),
        paused=_accept("pausing; Refused while halted", "pausing"),
        cancelling=_TOO_LATE,
        ended=Rule("too_late", (), "TooLate (fork instead)"),
    ),
    **_row(
        ("take_over",),
        queued=_accept("paused (taken)", "paused"),
        running=_accept("pausing (taken)", "pausing"),
        pausing=_accept("adds the taken hold", "pausing"),
        paused=_accept("adds the taken hold", "paused"),
        cancelling=_TOO_LATE,
        ended=_TOO_LATE,
    ),
    **_row(
        ("perform",),  # by whoever has taken the run over
        queued=_ONLY_WHEN_PAUSED,
        running=_ONLY_WHEN_PAUSED,
        pausing=_ONLY_WHEN_PAUSED,
        paused=_accept("queued for this one step, if it is taken over", "queued"),
        cancelling=_TOO_LATE,
        ended=_TOO_LATE,
    ),
    **_row(
        ("hand_back",),  # if it is taken over
        queued=_accept("queued, without what was to be performed", "queued", "paused"),
        running=Rule("refuse", (), "it is not taken over, or a person's call is being performed"),
        pausing=_accept("goes on when it has settled", "pausing"),
        paused=_accept("queued; paused if something else holds it", "queued", "paused"),
        cancelling=_TOO_LATE,
        ended=_TOO_LATE,
    ),
    **_row(
        ("cancel",),
        queued=_accept("cancelled; cancelling if there is something to undo", "cancelled", "cancelling"),
        running=_accept("cancelling; cancelled if nothing is left to do", "cancelling", "cancelled"),
        pausing=_accept("cancelling; drains become cuts", "cancelling", "cancelled"),
        paused=_accept("cancelled; cancelling if there is something to undo", "cancelled", "cancelling"),
        cancelling=_accept("Accepted; soft to hard only", "cancelling"),
        ended=_TOO_LATE,
    ),
}


def decide(status: Status, verb: UserVerb) -> Rule:
    """The answer to `verb` on a run in `status`; there is one for every pair.

    Ask for "rewind" when a redirect names a step to go back to.
    """
    return ANSWERS[verb, status]


# --- holds -------------------------------------------------------------------------------------

RESUME_CLEARS: Final[frozenset[Hold]] = frozenset({"user", "loop", "error", "diverged", "tripwire"})


def resume_leaves(holds: Collection[Hold], *, accept_stale: bool, budget_has_room: bool) -> frozenset[Hold]:
    """The holds that stand in the way of a resume; it is refused unless there are none.

    `waiting` is never in the way: a resumed idle run takes another turn. `asks`, `in_doubt` and
    `halted` always are: they go by an answer, a decision, a lift (`asks` also by a redirect for now); so is `taken`,
    which goes when the run is handed back.
    """
    cleared = RESUME_CLEARS | {"waiting"}
    if accept_stale:
        cleared |= {"stale"}
    if budget_has_room:
        cleared |= {"budget"}
    return frozenset(holds) - cleared
