"""What must be true of every story, whatever happened in it."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

from tests.races.chaos import Story
from tests.races.model import expected
from tests.races.sim import Node
from tests.races.world import World
from tests.races.zoo import REPEATABLE, SETTLES, UNDOABLE

from standfast import Accepted, Halt, Handle, Receipt, TooLate
from standfast import events as ev
from standfast.abc import Tx
from standfast.machine import DriverVerb, UserVerb, can
from standfast.rows import CallRow, RunRow

VERBS: tuple[UserVerb | DriverVerb, ...] = (
    *("pause", "resume", "step_once", "redirect", "message", "edit", "resolve", "approve", "deny", "answer", "rewind"),
    *("halt", "lift"),
    *("cancel", "start", "claim", "commit", "takeover", "release", "stop", "settle", "undo", "finish", "fail"),
)
HEARD = (
    *(ev.PauseAsked, ev.ResumeAsked, ev.CancelAsked, ev.MailReceived, ev.StateEdited, ev.RewindAsked),
    *(ev.VerbNoted, ev.CallResolved, ev.Answered),
)


class Broken(AssertionError):
    """A promise was not kept."""


def must(held: object, promise: str) -> None:
    if not held:
        raise Broken(promise)


class Oracle:
    """Checks one run that has ended."""

    def __init__(self, node: Node, world: World, story: Story, handle: Handle[Any], rng: random.Random) -> None:
        self._node = node
        self._world = world
        self._story = story
        self._handle = handle
        self._rng = rng
        self._own = handle.id == story.handle.id

    async def check(self) -> None:
        """Every promise, one after the other."""
        self.row = self._node.read(lambda tx: _row(tx, self._handle.id))
        self.calls: list[CallRow] = self._node.read(lambda tx: tx.calls(self.row.n))
        self.events: list[Any] = [e async for e in self._handle.events()]
        # Late results and fenced drivers may be recorded after the ending.
        self.record = self._node.read(lambda tx: [e for _, es in tx.record(self.row.n, 0, 100_000) for e in es])
        for event in self.record:
            event.run = self._handle.id
        self._dense()
        self._transitions()
        self._performed_once()
        self._calls_are_closed()
        self._undone()
        self._lineage()
        self._children_first()
        self._stands_still_while_halted()
        await self._tails()
        await self._model()
        await self._ended()
        if self._own:
            self._heard()
            self._nothing_begins_after_a_halt()
            self._nothing_begins_after_cancel()
            await self._mail()
            if self._story.reads_mail:
                self._redirected()

    # --- the record -----------------------------------------------------------------------------------

    def _dense(self) -> None:
        seqs = [e.seq for e in self.record]
        must(seqs == list(range(1, len(seqs) + 1)), f"seq is dense and in order: {seqs}")
        trouble = self._node.read(lambda tx: tx.verify(self.row))  # type: ignore[attr-defined]
        must(not trouble, f"the chain verifies: {trouble}")
        must(self.events == self.record, "events() gives the record")
        endings = [e for e in self.record if isinstance(e, ev.RunDone | ev.RunCancelled | ev.RunFailed)]
        must(len(endings) == 1, f"there is one ending: {endings}")
        after = [e for e in self.record if e.seq > endings[0].seq and not isinstance(e, _AFTER)]
        must(not after, f"nothing happens after the ending: {after}")

    async def _tails(self) -> None:
        after = self._rng.randrange(len(self.events))
        tail = [e async for e in self._handle.events(after)]
        must(tail == self.events[after:], f"events(after={after}) gives exactly the tail")

    def _transitions(self) -> None:
        status: Any = None
        for event in self.record:
            new = getattr(event, "status", None)
            if new is None:
                continue
            must(any(can(status, verb, new) for verb in VERBS), f"{status} -> {new} by {event} is allowed")
            status = new
        must(status == self.row.status, f"the record's last status {status} is the run's {self.row.status}")

    def _heard(self) -> None:
        for said in self._story.said:
            if said.verb.startswith("child") or not isinstance(said.answer, Accepted):
                continue
            if said.answer.note in ("it is not paused", "it is pausing already", "it is paused already"):
                continue
            found = [e for e in self.record if isinstance(e, HEARD) and e.by == said.by]
            must(found, f"accepted {said.verb} is in the record: {said}")
            must(any(e.seq <= said.answer.seq for e in found), f"{said} is recorded by its seq")

    # --- calls ----------------------------------------------------------------------------------------

    def _performed_once(self) -> None:
        started = {e.call for e in self.record if isinstance(e, ev.CallStarted)}
        tools = {e.call: e.tool for e in self.record if isinstance(e, ev.CallStarted)}
        for key in started:
            tool = tools[key]
            if tool in REPEATABLE or tool in ("child", "sleep", "ask"):
                continue
            effects = self._world.of(key, "effect")
            must(len(effects) <= 1, f"{key} took effect {len(effects)} times")
            starts = [s for s in self._world.of(key, "start", "said_not") if s.data is not True]
            for one, two in pairwise(starts):
                must(
                    one.what != "start" or two.what != "start",
                    f"{key} was begun again although nobody said it had not happened",
                )
        for row in self.calls:
            if (
                row.tool in REPEATABLE
                or row.status != "finished"
                or row.tool not in SETTLES.keys() | UNDOABLE | {"send", "traced", "pay"}
            ):
                continue
            must(self._world.happened(row.id), f"{row.id} is finished in the store but not in the world")

    def _calls_are_closed(self) -> None:
        for row in self.calls:
            must(row.status != "started", f"nothing is left as started: {row}")
            must(row.undo != "pending", f"no undo is left pending: {row}")
        must(not self.row.in_flight, f"nothing is in flight: {self.row.in_flight}")

    def _nothing_begins_after_cancel(self) -> None:
        cancels = self._story.accepted("cancel")
        if not cancels:
            must(self.row.status != "cancelled" or self._forced(), "a run that nobody cancelled is not cancelled")
            return
        first = min(cancels, key=lambda s: s.n)
        must(self.row.status == "cancelled", f"an accepted cancel ends in cancelled, not {self.row.status}")
        assert isinstance(first.answer, Accepted)
        named = {ref.id for ref in first.answer.in_flight}
        mine = {e.call for e in self.record if isinstance(e, ev.CallStarted)}
        for seen in self._world.seen[first.n :]:
            if seen.what == "start" and seen.key in mine:
                must(seen.key in named, f"{seen} began after the cancel and was not named: {named}")
        receipt = self.row.doc.receipt
        assert receipt is not None
        must(receipt.calls_after_cancel == 0, f"calls_after_cancel is {receipt.calls_after_cancel}")
        self._quiet_after_settled(receipt, mine)

    def _stands_still_while_halted(self) -> None:
        """R13: a run that a halt holds is neither queued nor running until the last halt that matches it is lifted."""
        holding: set[str] = set()
        for event in self.record:
            if isinstance(event, ev.RunHalted):
                must(event.halt not in holding, f"{event.halt} halts a run once")
                holding.add(event.halt)
            elif isinstance(event, ev.RunLifted):
                holding.remove(event.halt)
            status = getattr(event, "status", None)
            if status not in ("pausing", "paused", None):
                stopping = status in ("cancelling", "cancelled", "done")
                must(not holding or stopping, f"{event} although {holding} hold the run")
            if isinstance(event, ev.CancelAsked):
                holding.clear()
        expected_ = {h.halt.id for h in self._story.halts if self._matches(h.halt, self.row)}
        seen = {e.halt for e in self.record if isinstance(e, ev.RunHalted)}
        must(seen <= expected_, f"halted by {seen - expected_}, which say nothing of this run")

    def _matches(self, halt: Halt, row: RunRow) -> bool:
        parent = None if row.parent is None else self._node.read(lambda tx: _row(tx, row.parent or ""))
        own = halt.agent in (None, row.agent) and halt.labels.items() <= row.doc.labels.items()
        return own or (parent is not None and self._matches(halt, parent))

    def _nothing_begins_after_a_halt(self) -> None:
        """R13: in every run that a halt matches, nothing begins after its commit but what it named."""
        family = [self.row, *self._below(self.row.id)]
        for halted in self._story.halts:
            until = len(self._world.seen) if halted.lifted is None else halted.lifted
            named = {ref.id for ref in halted.halt.in_flight}
            for row in family:
                if not self._matches(halted.halt, row):
                    continue
                record = self._node.read(lambda tx: tx.record(row.n, 0, 100_000))  # noqa: B023 - called at once
                mine = {e.call for _, events in record for e in events if isinstance(e, ev.CallStarted)}
                for seen in self._world.seen[halted.n : until]:
                    if seen.what == "start" and seen.key in mine:
                        must(seen.key in named, f"{seen} began in {row.id} after {halted.halt} and was not named")

    def _below(self, id_: str) -> list[RunRow]:
        children = self._node.read(lambda tx: [_row(tx, child) for child in tx.children(id_, live=False)])
        return [*children, *(below for child in children for below in self._below(child.id))]

    def _forced(self) -> bool:
        return any(e.trigger != "api" for e in self.record if isinstance(e, ev.CancelAsked))

    def _quiet_after_settled(self, receipt: Receipt, mine: set[str]) -> None:
        left = {f.call.id for f in receipt.in_flight if f.outcome in ("still_running", "in_doubt")}
        left |= {r.call.id for r in receipt.residue if r.call is not None}
        left |= {u.call.id for u in receipt.undone if u.outcome == "in_doubt"}
        fenced = any(isinstance(e, ev.DriverFenced) for e in self.record)
        settled = receipt.settled_at - 1_800_000_000.0 + 1e-5  # its float has few digits left
        for seen in self._world.seen:
            if seen.what == "undone" and fenced:
                continue  # a frozen driver was in the middle of it; an undo tolerates repetition
            if seen.key in mine and seen.at > settled and seen.what in ("start", "effect", "undo", "undone"):
                must(seen.key in left, f"{seen} came after settled at {settled} and is not named: {left}")

    # --- undo -----------------------------------------------------------------------------------------

    def _undone(self) -> None:
        receipt = self.row.doc.receipt if self.row.status == "cancelled" else None
        order = {e.call: e.seq for e in self.record if isinstance(e, ev.CallStarted)}
        for row in self.calls:
            effects = self._world.of(row.id, "effect")
            undone = self._world.of(row.id, "undone")
            if row.undo == "undone" and effects:
                must(
                    undone and undone[-1].n > effects[-1].n,
                    f"{row.id} is said to be undone, the world says {undone} {effects}",
                )
            if receipt is not None and self._wanted(row, receipt) and effects:
                must(row.undo is not None, f"{row.id} ({row.status}) should have been undone by {receipt.undo}")
                listed = any(u.call.id == row.id for u in receipt.undone)
                must(listed, f"{row.id} is in the receipt's undone")
            if row.undo is None:
                must(not undone, f"{row.id} was undone although nobody asked")
        for rewound in (e for e in self.record if isinstance(e, ev.Rewound)):
            for row in self.calls:
                gone = row.epoch < rewound.epoch and row.step >= rewound.to and row.tool in UNDOABLE
                if gone and self._world.happened(row.id):
                    must(row.undo is not None, f"{row.id} was rewound but not undone: {row}")
        if receipt is not None:
            settled = [e for e in self.record if isinstance(e, ev.UndoEnded) and e.call in order]
            asked = next(e for e in self.record if isinstance(e, ev.CancelAsked))
            seqs = [order[e.call] for e in settled if e.seq > asked.seq and not self._undo_began(e.call, asked.at)]
            must(seqs == sorted(seqs, reverse=True), f"undo goes backwards: {[e.call for e in settled]}")

    def _undo_began(self, key: str, before: float) -> bool:
        """A run that was about to end, or going back, had begun to undo before it was cancelled."""
        return any(s.at + 1_800_000_000.0 <= before + 1e-6 for s in self._world.of(key, "undo"))  # in one instant

    def _wanted(self, row: CallRow, receipt: Receipt) -> bool:
        if row.tool not in UNDOABLE or row.status in ("not_begun", "not_performed", "withdrawn", "denied", "approved"):
            return False
        in_flight = row.epoch == self.row.epoch and row.step >= receipt.finished_steps
        if SETTLES.get(row.tool) == "never" or receipt.undo == "all":
            return True
        return receipt.undo == "step" and (in_flight or SETTLES.get(row.tool) == "run")

    def _children_first(self) -> None:
        """A run ends after its children (R6)."""
        for id_ in self._node.read(lambda tx: tx.children(self.row.id, live=False)):
            child = self._node.read(lambda tx: _row(tx, id_))  # noqa: B023 - called at once
            ended, own = child.doc.ended_at, self.row.doc.ended_at
            must(
                ended is not None and own is not None and ended <= own,
                f"child {id_} ended at {ended}, its parent at {own}",
            )

    # --- steps, state, mail ---------------------------------------------------------------------------

    def _lineage(self) -> None:
        first = next((step for fork, step in self._story.forks if fork.id == self._handle.id), 0)
        step = first
        for event in self.record:
            if isinstance(event, ev.StepFinished):
                must(event.step == step, f"step {event.step} is finished where {step} is next")
                step += 1
            elif isinstance(event, ev.Rewound):
                step = event.to
        must(step == self.row.step, f"the record has {step} finished steps, the run {self.row.step}")
        receipt = self.row.doc.receipt
        if self.row.status == "cancelled" and receipt is not None:
            must(
                receipt.finished_steps == step,
                f"the receipt has {receipt.finished_steps} finished steps, the record {step}",
            )

    async def _model(self) -> None:
        state = await self._handle.state()
        must(len(state.program) >= state.at, "the state is ours")
        done = [op for ops in state.program[: state.at] for op in ops if op.do != "idle"]
        must(len(state.trace) == len(done), f"the trace {state.trace} has an entry for each of {done}")
        for op, entry in zip(done, state.trace, strict=True):
            allowed = expected(op, self._story)
            must(entry in allowed, f"{op} gave {entry!r}, expected {allowed}")
        told = [f"told {op.n}" for op in done if op.do == "log"]
        must(list(state.told) == told, f"the log is {list(state.told)}, expected {told}")
        if self.row.status == "done":
            must(state.at == len(state.program), "a run that is done has done everything")
            must(self.row.doc.result == len(state.trace), "the result is the program's")
        accepted = sorted(self._story.accepted("edit"), key=lambda s: s.n)  # two people may edit at once
        edits = [s.args["args"][0]["note"] for s in accepted] if self._own else []
        if edits and not self._story.accepted("rewind") and not self._went_back():
            must(state.note == edits[-1], f"the last edit {edits[-1]} is in the state, not {state.note!r}")

    def _went_back(self) -> bool:
        return any(isinstance(e, ev.RewindAsked | ev.Rewound) for e in self.record)

    async def _mail(self) -> None:
        view = await self._handle.view()
        mail = {m.id: m for m in view.mail}
        for said in self._story.accepted("redirect", "message"):
            assert isinstance(said.answer, Accepted)
            piece = mail.get(said.answer.mail or "")
            must(piece is not None, f"accepted mail is kept: {said}")
            assert piece is not None
            must(piece.status != "pending", f"mail of an ended run is not pending: {piece}")
            events = [e for e in self.record if isinstance(e, ev.MailConsumed | ev.MailReturned) and e.mail == piece.id]
            must(len(events) == 1, f"{piece} ended once: {events}")
        must(
            len(mail) == len(self._story.accepted("redirect", "message")), f"no mail is there that nobody sent: {mail}"
        )
        if self._story.reads_mail and not self._went_back():
            read = [m.text for m in sorted(mail.values(), key=lambda m: m.id) if m.status == "consumed"]
            state = await self._handle.state()
            if any(s.args["soft"] for s in self._story.accepted("cancel")):
                # Returned when the cancel was accepted, but the step that had read it was let to its boundary.
                read += [m.text for m in mail.values() if m.status == "returned" and m.text in state.mail]
            must(sorted(state.mail) == sorted(read), f"consumed mail {read} is what the agent has read: {state.mail}")

    def _redirected(self) -> None:
        """What a redirect "now" finds in progress does not count: the next step that does has read it."""
        status: Any = None
        for n, event in enumerate(self.record):
            status = getattr(event, "status", status)
            if not (isinstance(event, ev.MailReceived) and event.kind == "redirect" and event.when == "now"):
                continue
            rest = self.record[n + 1 :]
            turned = isinstance(next(iter(rest), None), ev.RewindAsked | ev.VerbNoted)
            step = next((e for e in rest if isinstance(e, ev.StepFinished)), None)
            returned = any(isinstance(e, ev.MailReturned) and e.mail == event.mail for e in rest)
            if status != "running" or turned or returned or step is None:
                continue
            consumed = next((e for e in rest if isinstance(e, ev.MailConsumed) and e.mail == event.mail), None)
            must(consumed is not None and consumed.step == step.step, f"{event} was overtaken by {step}: {consumed}")

    async def _ended(self) -> None:
        h = self._handle
        answers = [
            await h.pause(),
            await h.resume(),
            await h.redirect("late"),
            await h.redirect("late", from_step=0),
            await h.message("late"),
            await h.cancel(),
            await h.edit({"note": "late"}),
            await h.rewind(0),
            await h.step_once(),
        ]
        must(all(a == TooLate(self.row.status) for a in answers), f"verbs after the end are too late: {answers}")


_AFTER = (ev.LateResult, ev.DriverFenced, ev.CallResolved, ev.Forked, ev.LeftBehind)


def _row(tx: Tx, id_: str) -> RunRow:
    row = tx.run(id_)
    assert row is not None
    return row
