"""Resume: which holds it clears, what stands in its way, and what the person changed meanwhile."""

from __future__ import annotations

from standfast import budget as budgets
from standfast import events as ev
from standfast.abc import Tx
from standfast.errors import NoAnswer
from standfast.events import Event
from standfast.machine import resume_leaves
from standfast.records import Accepted, Answer, Budget, Choice, Hold, Json, Refused, Spent
from standfast.rows import CallRow, Resume, RunRow
from standfast.spending import family_spent
from standfast.stops import asks_in_vain, enter
from standfast.withdrawing import withdraw


def resume(tx: Tx, row: RunRow, ask: Resume) -> tuple[Answer, list[Event]]:
    """Queue a paused run, or say what stands in the way."""
    doc = row.doc
    caps = budgets.raised(doc.budget, ask.budget) if ask.budget else doc.budget
    spent = family_spent(tx, row)
    room = not budgets.exhausted(caps, spent)
    kept: list[Hold] = [] if doc.person is None else doc.person.kept  # they do not hold what a person performs
    standing: list[Hold] = [
        name for name in doc.holds if name not in kept and not (name == "asks" and asks_in_vain(row))
    ]
    left = resume_leaves(standing, accept_stale=ask.accept_stale, budget_has_room=room)
    if left:
        return _refused(tx, row, left, ask, spent), []
    gone = withdraw(tx, row, ()) if "asks" in doc.holds and "asks" not in kept else []
    changed = list[str]()
    if ask.budget:
        changed.append("budget " + _caps(ask.budget))
    if doc.changed:
        changed.insert(0, doc.changed)
    doc.budget = caps
    doc.changed = "; ".join(changed)
    cleared = [name for name in doc.holds if name not in kept]
    if "diverged" in cleared:
        data = doc.holds["diverged"].data
        doc.diverged_ok = [str(key) for key in data] if isinstance(data, list) else []
    if "tripwire" in cleared:  # a person has seen it: what this call says is marked, and passes
        doc.tripwire_ok.append(str(doc.holds["tripwire"].data))
    if "error" in cleared:
        _issue_failed_reads_again(tx, row)
    if "budget" in doc.holds or "loop" in doc.holds:
        doc.rounds = doc.writes = None
    doc.accept_stale = ask.accept_stale  # for what is shown now, if that is what is found when the run is taken up
    doc.stale_shown = doc.holds["stale"].text if ask.accept_stale and "stale" in cleared else ""
    doc.holds = {name: info for name, info in doc.holds.items() if name in kept}
    doc.error = doc.error if "error" in kept else None
    doc.stop = None
    enter(row, "queued", tx.now)
    event = ev.ResumeAsked(
        by=ask.by,
        route=ask.route,
        by_token=ask.by_token,
        reason=ask.reason,
        note=ask.note,
        changed=doc.changed,
        cleared=cleared,
    )
    return Accepted(tx.now, row.seq + 1), [*gone, event]


def _issue_failed_reads_again(tx: Tx, row: RunRow) -> None:
    """A step repeated after an error asks the world anew; what had effects stays as it ended."""
    useless = row.doc.error is not None and row.doc.error.type == NoAnswer.__name__
    for call in tx.calls_of_step(row.n, row.epoch, row.step):
        if useless and call.status == "finished" and call.kind == "model":  # its answer is why the run was held
            call.status, call.result = "cut", None
            tx.update_call(call)
        elif call.status == "failed" and call.effect in ("read", "idempotent") and call.kind in ("tool", "model"):
            call.status, call.error, call.message = "cut", None, None
            tx.update_call(call)
        elif call.status == "not_performed":  # the tool said so: nothing happened
            call.status, call.error, call.message = "not_begun", None, None
            tx.update_call(call)


def _refused(tx: Tx, row: RunRow, left: frozenset[str], ask: Resume, spent: Spent) -> Refused:
    words: list[str] = []
    choices: list[Choice] = []
    for name in sorted(left):
        info = row.doc.holds.get(name)  # type: ignore[call-overload]  # left holds names of holds
        words.append(f"{name}: {info.text}" if info and info.text else name)
        if name == "stale" and not ask.accept_stale:
            choices.append(Choice("resume", {"accept_stale": True}, "go on although the world has changed"))
        if name == "budget":
            choices.append(Choice("resume", {"budget": budgets.doubled(row.doc.budget, spent)}, "raise the cap"))
        if name in ("asks", "in_doubt"):
            choices += [choice for call in tx.open_calls(row.n) for choice in _settling(call, name)]
        if name == "taken":
            choices.append(Choice("hand_back", {}, "hand it back"))
    choices.append(Choice("cancel", {}, "cancel the run"))
    return Refused(f"the run is held by {'; '.join(words)}", tuple(choices))


def _settling(call: CallRow, hold: str) -> list[Choice]:
    """What a person can say about an open call that holds the run so."""
    named: Json = {"call_id": call.id}
    if hold == "in_doubt":
        return [Choice("resolve", named, f"say whether {call.tool} happened")] if call.status == "in_doubt" else []
    if call.status != "asking":
        return []
    if call.kind != "ask":
        return [
            Choice("approve", named, f"let {call.tool} pass"),
            Choice("deny", {**named, "reason": ""}, f"refuse {call.tool}"),
        ]
    if isinstance(call.options, list):
        return [Choice("answer", {**named, "value": option}, f"answer {option}") for option in call.options]
    return [Choice("answer", named, f"answer: {call.question}")]


def _caps(budget: Budget) -> str:
    names = ("steps", "calls", "tokens", "cost", "seconds", "repeats")
    return ", ".join(f"{n}={getattr(budget, n)}" for n in names if getattr(budget, n) is not None)
