"""Equal writes: the same write with the same arguments, in one step after the other, whatever comes of it (R17).

A child run with the same state is one too: its effects are its own, but it is begun for them. What a budget's
`repeats` compares are results; a faulty agent that acts again and again gets a new one each time. So writes are
counted as they are admitted, in the same transaction: a crash neither loses nor adds one. If it turns out that nothing
happened (the tool raised NotPerformed, or never began; a probe or a person says so), the call is counted no longer. A
step that made nothing and called no other tool (a model thinks) is passed over; one that calls other tools, or reads
mail, ends what was counted.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from standfast.tools import Call, Tool

DEFAULT = 2  # steps in a row
MOST = 64  # different writes of one step that are counted: they are kept in the run's document


@dataclass(frozen=True, slots=True)
class Writes:
    """In how many steps in a row each write was admitted: those of the last step that called a tool, and before it."""

    epoch: int
    step: int
    now: dict[str, int] = field(default_factory=dict[str, int])
    before: dict[str, int] = field(default_factory=dict[str, int])
    calls: dict[str, str] = field(default_factory=dict[str, str])  # of the last step: which call is which write
    others: bool = False  # that step has called something else too


def identity(call: Call[Any], key: str | None) -> str:
    """The same for equal writes; empty for calls that may be repeated as often as anybody likes.

    A `key` is the caller's word for what a call is for: another key, another write.
    """
    if not _counts(call.tool):
        return ""
    return hashlib.sha256(f"{call.what}\0{'' if key is None else key}\0{key is None}".encode()).hexdigest()[:16]


def _counts(tool: Tool[..., Any]) -> bool:
    if tool.kind == "child":  # begun twice it is one run; begun in another step it does all of it again
        return True
    return tool.effect in ("write", "irreversible") and tool.settles != "never"


def times(writes: Writes | None, epoch: int, step: int, same: str, *, heard: bool) -> int:
    """In how many steps in a row, up to the last, was this write admitted? 0 if it was in this one too: it goes on."""
    if writes is None or writes.epoch != epoch or heard:
        return 0
    if writes.step == step:
        return 0 if same in writes.calls.values() else writes.before.get(same, 0)
    return writes.now.get(same, 0)


def admitted(writes: Writes | None, epoch: int, step: int, same: str, call: str, *, heard: bool) -> Writes | None:
    """After this call of this step was admitted; `same` is empty for one that does not count."""
    if writes is None or writes.epoch != epoch:
        writes = Writes(epoch, step)
    elif writes.step != step:
        writes = Writes(epoch, step, {}, writes.now)
    before = {} if heard else writes.before
    now, calls = writes.now, writes.calls
    if same and (same in now or len(now) < MOST):
        now = {**now, same: before.get(same, 0) + 1}
        calls = {**calls, call: same} if len(calls) < MOST else calls
    return Writes(epoch, step, now, before, calls, writes.others or not same) if now or before else None


def not_made(writes: Writes | None, call: str) -> Writes | None:
    """After it has turned out that nothing of this call happened: it counts as if it had not been asked for."""
    if writes is None or call not in writes.calls:
        return writes
    same = writes.calls[call]
    calls = {one: what for one, what in writes.calls.items() if one != call}
    now = writes.now
    if same not in calls.values():
        now = {what: steps for what, steps in now.items() if what != same}
        if same in writes.before and not calls and not writes.others:
            now[same] = writes.before[same]  # the step did nothing: it is passed over
    return replace(writes, now=now, calls=calls)


def in_words(call: Call[Any], shown: str, steps: int) -> str:
    """Why the run is held, and what can always be done; whether it can be told otherwise, the need's choices say."""
    what, made = ("child run", "begun") if call.tool.kind == "child" else ("write", "made")
    was = made if made == "begun" else "made or tried"  # a write that raised is counted: its effect is unknown
    return (
        f"{shown}: the same {what} was {was} in {steps} steps in a row, and is asked for again. It has not been "
        f"{made} again. Resume to let it be {made}, or cancel"
    )
