"""R19-R23 as plain rules: reads the record of a run, event by event, and says where it breaks one.

Written without looking at how standfast keeps its stack: it knows only what the record says, what the agent
said it saw, and the limits of the agent.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from standfast import events as ev

URGENCY = {"now": 0, "next": 1, "later": 2}


@dataclass(slots=True)
class Thought:
    id: str
    goal: str
    kind: str
    steps: int
    done: int = 0
    held_at: float | None = None

    @property
    def place(self) -> str:
        if not self.steps:
            return ""
        return f"all {self.steps} steps done" if self.done == self.steps else f"at step {self.done + 1} of {self.steps}"


@dataclass(slots=True)
class Letter:
    id: str
    kind: str
    when: str
    disposition: str
    data: Any
    by: str | None
    state: str = "pending"

    @property
    def handed_back(self) -> bool:
        return self.kind == "message" and "handed_back" in self.data


@dataclass(slots=True)
class Place:
    """What a set-back goes back to."""

    stack: list[Thought] = field(default_factory=list[Thought])
    untold: str = ""


class Broken(AssertionError):
    """A promise was not kept."""


class Model:
    """One run, as its record tells it."""

    def __init__(self, cap: int, expiry: float, tokens_cap: int, cost: dict[str, int], one_by_one: bool) -> None:
        self.cap, self.expiry, self.tokens_cap, self.cost, self.one_by_one = cap, expiry, tokens_cap, cost, one_by_one
        self.now = Place()
        self.named: set[str] = set()  # returns that replies have named, in this step
        self.named_before: set[str] = set()  # the same of its earlier attempts: what they said is not said again
        self.named_in_step: set[str] = set()
        self.heard_before: set[tuple[str, str]] = set()
        self.hears: set[tuple[str, str]] = set()  # verdicts on returns, in this step
        self.heard: set[tuple[str, str]] = set()  # the same of its earlier attempts
        self.shown: list[Thought] | None = None  # what people see of an attempt that is over
        self.before: dict[int, Place] = {0: Place()}  # at the boundary before each step
        self.step = 0
        self.people: list[int] = []  # which of the run's steps people took: the agent does not count them
        self.mail: dict[str, Letter] = {}
        self.known: dict[int, list[str]] = {}  # what the first reading of a step gave
        self.awaits_return: str | None = None  # the frame that must be returned to before anything else
        self.moved: set[str] = set()  # frames that orders were carried out on, in this attempt
        self.given_up: list[str] = []  # by a rewind or an end, in this commit
        self.status = "queued"
        self.taken = False
        self.reads_mail = False
        self.performed = 0
        self.ended: dict[str, str] = {}  # frames that have left the stack for good
        self.opened: set[str] = set()
        self.returns = self.reconstructions = self.holds = 0

    # --- the rules ------------------------------------------------------------------------------------

    def waits(self, when: str, stack: list[Thought]) -> str:
        """Why a message has to wait: a word, or nothing."""
        if not stack:
            return ""
        if when == "later":
            return "later"
        if len(stack) >= self.cap:
            return "full"
        if sum(self.cost.get(t.goal, 0) for t in stack) > self.tokens_cap:
            return "tokens"
        top = stack[-1].kind
        allowed = {"task": ("now", "next"), "later": ("now", "next"), "next": ("now",), "now": ("now",)}[top]
        return "" if when in allowed else "outranked"

    def told(self, letter: Letter) -> bool:
        """Was the person told what became of the message, and why? By what is shown, until the step begins again."""
        return self._told(letter, self.now.stack) or (self.shown is not None and self._told(letter, self.shown))

    def _told(self, letter: Letter, stack: list[Thought]) -> bool:
        if letter.handed_back:
            return letter.disposition == "read first"
        why = self.waits(letter.when, stack)
        if letter.when == "now" and self.status == "running":
            why = why or self.waits("now", self.before[self.step].stack)
        said = letter.disposition
        words = {"later": "later: when nothing else", "full": "the stack is full", "tokens": "tokens, the cap"}
        if why and words.get(why, "is finished") not in said:
            return False
        if self.taken:
            return said.startswith("read when the run is handed back")
        if self.status in ("queued", "paused"):
            return said.startswith(("read when ", "it wakes the run"))
        return bool(why) or said == "after this step" or (letter.when == "now" and said.startswith(("now", "waiting")))

    # --- reading the record ---------------------------------------------------------------------------

    def read(self, events: Iterable[Any]) -> Model:
        for event in events:
            try:
                self._one(event)
            except Broken as broken:
                broken.add_note(f"at {event}")
                raise
        return self

    def _one(self, event: Any) -> None:
        frames = (ev.FrameOpened, ev.FrameAdvanced, ev.FrameHeld, ev.FrameReturned, ev.FrameFinished)
        moves = (*frames[:3], frames[4], ev.FrameAbandoned, ev.Emitted, ev.StepFinished)
        if self.awaits_return and isinstance(event, moves):
            raise Broken(f"{self.awaits_return} was uncovered and not returned to")
        if isinstance(event, (*frames, ev.Emitted)):
            self.shown = None
        reader = getattr(self, f"_{event.type}", None)
        if reader is not None:
            reader(event)
        self.status = getattr(event, "status", self.status)

    def _again(self) -> None:
        self.shown = self.shown or self.now.stack
        self.heard |= self.hears
        self.named_before |= self.named
        self.now = deepcopy(self.before[self.step])
        self.awaits_return = None
        self.moved.clear()

    def _run_claimed(self, event: ev.RunClaimed) -> None:
        self._again()

    def _step_set_back(self, event: ev.StepSetBack) -> None:
        self._again()

    def _run_started(self, event: ev.RunStarted) -> None:
        self.status = "queued"

    def _step_finished(self, event: ev.StepFinished) -> None:
        if event.step != self.step:
            raise Broken(f"step {event.step} ended, but the run was at {self.step}")
        self.step += 1
        self.heard_before = self.hears | self.heard
        self.hears, self.heard = set(), set()
        self.named, self.named_before, self.named_in_step = set(), set(), self.named | self.named_before
        self.before[self.step] = deepcopy(self.now)
        self.known.pop(self.step, None)

    def _taken_over(self, event: ev.TakenOver) -> None:
        self.taken = True

    def _handed_back(self, event: ev.HandedBack) -> None:
        self.taken = False

    def _person_acted(self, event: ev.PersonActed) -> None:
        """A person's step: the agent's own, if one was under way, is the next one now, with all it knew."""
        if not self.taken:
            raise Broken("a person acted in a run that they had not taken over")
        self.performed += 1
        self.heard = self.heard_before
        self.named_before = self.named_in_step
        self.people.append(event.step)
        if event.step in self.known:
            self.known[event.step + 1] = self.known.pop(event.step)
            for id_, letter in self.mail.items():
                if letter.state == "pending" and self.not_before.get(id_) == event.step + 1:
                    self.not_before[id_] += 1

    def _rewound(self, event: ev.Rewound) -> None:
        back = self.before[event.to]
        kept = {t.id for t in back.stack}
        if set(self.given_up) not in [seen - kept for seen in self._visible()]:
            raise Broken(f"a rewind to {kept} from one of {self._visible()} said {self.given_up}")
        self.given_up.clear()
        for id_ in self.mail:
            self.not_before[id_] = min(self.not_before.get(id_, 0), event.to)
        self.step = event.to
        self.people = [step for step in self.people if step < event.to]
        self.known = {}
        for id_ in [i for i in self.ended if i in {t.id for t in back.stack}]:
            del self.ended[id_]
        self._again()

    def _visible(self) -> list[set[str]]:
        """The frames that people see, or saw until the step began again."""
        return [{t.id for t in stack} for stack in (self.now.stack, self.shown) if stack is not None]

    # --- frames -----------------------------------------------------------------------------------------

    @property
    def _kinds(self) -> list[tuple[str, str]]:
        return [(t.kind, t.goal) for t in self.now.stack]

    def _top(self) -> Thought | None:
        return self.now.stack[-1] if self.now.stack else None

    def _find(self, id_: str) -> Thought:
        found = next((t for t in self.now.stack if t.id == id_), None)
        if found is None:
            raise Broken(f"{id_} is not on the stack {[t.id for t in self.now.stack]}")
        return found

    def _frame_opened(self, event: ev.FrameOpened) -> None:
        top = self._top()
        if top is not None and top.held_at is None:
            raise Broken(f"{event.frame} was opened over {top.id}, which is not on hold")
        if len(self.now.stack) >= self.cap:
            raise Broken(f"{event.frame} is one too many")
        if sum(self.cost.get(t.goal, 0) for t in self.now.stack) > self.tokens_cap and self.now.stack:
            raise Broken(f"{event.frame} makes frames on hold too costly")
        kind = self.mail[event.mail].when if event.mail else top.kind if top else "task"
        if event.kind != kind:
            raise Broken(f"{event.frame} is {event.kind}, not {kind}")
        self.opened.add(event.frame)
        self.now.stack.append(Thought(event.frame, event.goal, kind, len(event.steps)))

    def _frame_held(self, event: ev.FrameHeld) -> None:
        top = self._top()
        if top is None or top.id != event.frame or top.held_at is not None:
            raise Broken(f"{event.frame} cannot be put on hold")
        if event.at_step != top.place:
            raise Broken(f"{event.frame} is {top.place}, not {event.at_step}")
        top.held_at = event.at
        self.now.untold = ""
        self.holds += 1

    def _frame_advanced(self, event: ev.FrameAdvanced) -> None:
        thought = self._find(event.frame)
        if thought is not self._top() or thought.held_at is not None:
            raise Broken(f"{event.frame} went on while on hold")
        thought.done += 1
        if event.done != thought.done or thought.done > thought.steps:
            raise Broken(f"{event.frame} is at {event.done}, not {thought.done} of {thought.steps}")

    def _frame_returned(self, event: ev.FrameReturned) -> None:
        thought = self._find(event.frame)
        if self.awaits_return not in (None, event.frame):
            raise Broken(f"back to {event.frame}, but {self.awaits_return} was uncovered")
        by_choice = self.awaits_return is None
        self.awaits_return = None
        self.returns += 1
        self.reconstructions += event.reconstructed
        if thought.held_at is not None:
            held = event.at - thought.held_at
            near = abs(held - self.expiry) < 0.5  # the clock of the step and that of its commit are not the same
            again = (event.frame, event.why) in self.heard  # a repeated step hears what it heard
            self.hears.add((event.frame, event.why))
            if not near and not again and event.reconstructed != (held > self.expiry):
                raise Broken(f"{event.frame} was held {held:.0f} s: {event.text}")
        elif not event.reconstructed:
            raise Broken(f"{event.frame} was returned to without having been left")
        word = (
            f"reconstruction of {thought.goal}, not a continuation: "
            if event.reconstructed
            else f"back to {thought.goal}"
        )
        if (
            not event.text.startswith(word)
            or not event.text.endswith(thought.place)
            or (event.reconstructed and not event.why)
        ):
            raise Broken(f"said {event.text!r}, with {thought.goal} {thought.place}")
        others = [t for t in self.now.stack if t is not thought]
        if by_choice:
            self.moved.add(event.frame)
            if any(t.held_at is None for t in others):
                raise Broken(f"back to {event.frame}, but another is active")
        thought.held_at = None
        self.now.stack = [*others, thought]
        self.now.untold = event.text

    def _frame_finished(self, event: ev.FrameFinished) -> None:
        thought = self._find(event.frame)
        if thought.done < thought.steps:
            raise Broken(f"{event.frame} was finished {thought.place}")
        self._leaves(thought)

    def _frame_abandoned(self, event: ev.FrameAbandoned) -> None:
        if not event.reason:
            raise Broken(f"{event.frame} was given up without a reason")
        if not event.attempt:  # by a rewind, or by the run's end
            self.given_up.append(event.frame)
            return
        thought = self._find(event.frame)
        orders = [m for m in self.mail.values() if m.kind == "order" and m.state == "pending"]
        said = {"order": "abandon", "goal": event.goal, "reason": event.reason}
        if not any(said.items() <= m.data.items() for m in orders):
            raise Broken(f"nobody asked for {event.frame} to be given up")
        self.moved.add(event.frame)
        self._leaves(thought)

    def _leaves(self, thought: Thought) -> None:
        was_top = thought is self._top()
        if was_top:
            self.now.untold = ""
        self.now.stack.remove(thought)
        top = self._top()
        self.awaits_return = top.id if was_top and top is not None and top.held_at is not None else None

    # --- mail -------------------------------------------------------------------------------------------

    def _mail_received(self, event: ev.MailReceived) -> None:
        letter = Letter(event.mail, event.kind, event.when, event.disposition, event.data, event.by)
        self.mail[event.mail] = letter
        if event.kind == "message" and not self.told(letter):
            raise Broken(f"told {letter.disposition!r} in {self.status} with {self._kinds}")

    def _emitted(self, event: ev.Emitted) -> None:
        if event.name == "asked" and self.status != "cancelling":  # it may have been read before the cancel
            self._asked(event.data)
        if event.name == "on top":
            data: Any = event.data
            top = self._top()
            if top is None or top.id != data["frame"]:
                raise Broken(f"{data['frame']} is worked on, but {top} is on top")

    def _asked(self, data: Any) -> None:
        """What a reading gave must be what the stack allowed, no more and no less."""
        step, pending, got = data["step"] + len(self.people), data["pending"], data["got"]
        waiting = [m for m in pending if self._is_pending(m) and self._may_begin(self.mail[m], step)]
        self.reads_mail = self.reads_mail or bool(waiting)
        before = self.known.get(step)
        # A boundary and the next step may share a commit: what this step read is said before that boundary is.
        ready = [self.mail[m] for m in pending if self._is_pending(m)]
        ready = [m for m in ready if m.handed_back or not self.waits(m.when, self.now.stack)]
        if before is not None:
            ready = [m for m in ready if m.when == "now" or m.id in before]
            ready += [
                self.mail[m] for m in before if m in pending and self._is_pending(m) and self.mail[m] not in ready
            ]
        else:
            ready = [m for m in ready if m.when == "now" or self._may_begin(m, step)]
        expected = sorted(ready, key=lambda m: (URGENCY[m.when], pending.index(m.id)))
        ids = [m.id for m in expected][: 1 if self.one_by_one else None]
        if got != ids:
            raise Broken(f"a reading gave {got}, not {ids}; {self._kinds}")
        self.known[step] = got

    def _is_pending(self, id_: str) -> bool:
        return id_ in self.mail and self.mail[id_].kind == "message" and self.mail[id_].state == "pending"

    def _may_begin(self, letter: Letter, step: int) -> bool:
        return self.not_before.get(letter.id, 0) <= step

    not_before: dict[str, int]

    def _mail_consumed(self, event: ev.MailConsumed) -> None:
        letter = self.mail[event.mail]
        if letter.state != "pending":
            raise Broken(f"{event.mail} was {letter.state} and is consumed")
        letter.state = "consumed"
        if letter.kind == "message" and event.mail not in self.known.get(event.step, []):
            raise Broken(f"{event.mail} was consumed by step {event.step}, which did not read it")

    def _mail_returned(self, event: ev.MailReturned) -> None:
        if self.mail[event.mail].state != "pending" or not event.reason:
            raise Broken(f"{event.mail} was {self.mail[event.mail].state} and is returned")
        if self.reads_mail and event.reason.startswith("ended") and self.mail[event.mail].kind == "message":
            raise Broken(f"{event.mail} was given back unread, by a run that reads its mail")
        self.mail[event.mail].state = "returned"

    def _replied(self, event: ev.Replied) -> None:
        """Every frame on hold is named by the runtime, and every return since the last reply."""
        untold, self.now.untold = self.now.untold, ""
        if untold in self.named_before and (not event.lines or event.lines[0].lower() != untold.lower()):
            untold = ""
        self.named.add(untold)
        expected = [untold[:1].upper() + untold[1:]] if untold else []
        held = [t for t in self.now.stack if t.held_at is not None]
        for line, text in zip(event.lines, expected, strict=False):
            if line != text:
                raise Broken(f"said {line!r}, not {text!r}")
        for line, thought in zip(event.lines[len(expected) :], held, strict=False):
            if not line.startswith(", ".join(filter(None, [f"On hold: {thought.goal}", thought.place])) + ", for "):
                raise Broken(f"said {line!r} of {thought}")
        if len(event.lines) != len(expected) + len(held):
            raise Broken(f"said {event.lines}, with {len(held)} on hold and {expected} untold")

    # --- ends -------------------------------------------------------------------------------------------

    def _run_done(self, event: ev.RunDone) -> None:
        if self.now.stack:
            raise Broken(f"done with {[t.goal for t in self.now.stack]} open")
        self._all_answered()

    def _run_cancelled(self, event: ev.RunCancelled) -> None:
        if set(self.given_up) not in self._visible():
            raise Broken(f"cancelled with {[t.id for t in self.now.stack]} open, but gave up {self.given_up}")
        self._all_answered()

    def _all_answered(self) -> None:
        lost = [m.id for m in self.mail.values() if m.state == "pending"]
        if lost:
            raise Broken(f"ended, and nothing was said of {lost}")
