"""What was in flight at each stop and how it ended, every effect, and what was taken back: from events alone."""

from __future__ import annotations

from dataclasses import dataclass, field

from standfast import events as ev
from standfast.evidence.bundle_claims import who
from standfast.records import CallRef, Effect

_EFFECTS = frozenset({"write", "irreversible"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEnd:
    """How a call ended, as the record says: finished, failed, cut, in doubt, or somebody's decision about it."""

    seq: int
    at: float
    outcome: str
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaughtInFlight:
    """A call that a stop could not precede; `end` is None if the record has none, or it is in another run's."""

    run: str
    call: str
    tool: str
    effect: Effect
    since: float
    end: CallEnd | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StopCalls:
    """The calls in flight when a stop was accepted, by the event's seq."""

    seq: int
    event: str
    at: float
    by: str | None
    by_token: str
    calls: tuple[CaughtInFlight, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoTry:
    """One end of an undo."""

    seq: int
    at: float
    outcome: str
    tries: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectDone:
    """A call with effects: how it ended, and what became of taking it back, if that was tried."""

    call: str
    tool: str
    effect: Effect
    attempt: int
    seq: int
    at: float
    ends: tuple[CallEnd, ...]
    undo: tuple[UndoTry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """Something that could not be stopped, or that came after the run had gone on without it."""

    seq: int
    at: float
    what: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """Everything that a run had under way or had done to the world."""

    stops: tuple[StopCalls, ...]
    effects: tuple[EffectDone, ...]
    left: tuple[Left, ...]


@dataclass(slots=True)
class _Call:
    started: ev.CallStarted
    ends: list[CallEnd] = field(default_factory=list[CallEnd])
    undo: list[UndoTry] = field(default_factory=list[UndoTry])


@dataclass(slots=True)
class LedgerReader:
    """Reads events one by one, in order."""

    run: str
    _calls: dict[str, _Call] = field(default_factory=dict[str, _Call])
    _stops: list[tuple[ev.Event, tuple[CallRef, ...]]] = field(
        default_factory=list[tuple[ev.Event, tuple[CallRef, ...]]]
    )
    _left: list[Left] = field(default_factory=list[Left])

    def take(self, event: ev.Event) -> None:
        """The next event."""
        match event:
            case ev.CallStarted():
                known = self._calls.get(event.call)
                if known is None:
                    self._calls[event.call] = _Call(event)
            case ev.CallFinished():
                self._end(event.call, event, "finished")
            case ev.CallFailed():
                unknown = "failed, effect unknown" if event.effect_unknown else "failed"
                self._end(event.call, event, unknown, f"{event.error}: {event.message}")
            case ev.CallCut():
                self._end(event.call, event, event.outcome, event.why)
            case ev.CallInDoubt():
                self._end(event.call, event, "in_doubt", event.why)
            case ev.CallResolved():
                by = f"decided, {who(event.by, event.by_token)}" if event.by else "decided"
                self._end(event.call, event, event.decision, f"{by}: {event.reason}" if event.reason else by)
            case ev.UndoEnded():
                if event.call in self._calls:
                    told = UndoTry(
                        seq=event.seq, at=event.at, outcome=event.outcome, tries=event.tries, reason=event.reason
                    )
                    self._calls[event.call].undo.append(told)
            case ev.LeftBehind():
                self._left.append(Left(seq=event.seq, at=event.at, what=event.what, why=event.where))
            case ev.LateResult():
                self._left.append(Left(seq=event.seq, at=event.at, what=event.call, why=f"late result {event.error}"))
            case ev.PauseAsked() | ev.CancelAsked() | ev.RunHalted() | ev.TakenOver() | ev.RewindAsked():
                self._stops.append((event, tuple(event.in_flight)))
            case _:
                pass

    def _end(self, call: str, event: ev.Event, outcome: str, why: str = "") -> None:
        if call in self._calls:
            self._calls[call].ends.append(CallEnd(seq=event.seq, at=event.at, outcome=outcome, why=why))

    def ledger(self) -> Ledger:
        """Everything so far."""
        return Ledger(
            stops=tuple(
                StopCalls(
                    seq=event.seq,
                    event=event.type,
                    at=event.at,
                    by=getattr(event, "by", None),
                    by_token=getattr(event, "by_token", ""),
                    calls=tuple(self._caught(ref, event.seq) for ref in refs),
                )
                for event, refs in self._stops
            ),
            effects=tuple(
                EffectDone(
                    call=one.started.call,
                    tool=one.started.tool,
                    effect=one.started.effect,
                    attempt=one.started.attempt,
                    seq=one.started.seq,
                    at=one.started.at,
                    ends=tuple(one.ends),
                    undo=tuple(one.undo),
                )
                for one in self._calls.values()
                if one.started.effect in _EFFECTS or one.undo
            ),
            left=tuple(self._left),
        )

    def _caught(self, ref: CallRef, seq: int) -> CaughtInFlight:
        run = ref.run or self.run
        known = self._calls.get(ref.id) if run == self.run else None
        after = [end for end in known.ends if end.seq > seq] if known is not None else []
        return CaughtInFlight(
            run=run,
            call=ref.id,
            tool=ref.tool,
            effect=ref.effect,
            since=ref.since,
            end=after[0] if after else None,
        )
