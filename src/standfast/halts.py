"""Which halts hold a run, and the hold they put on it: what starts, claims and verbs all ask (R13)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import TypeAdapter

from standfast import events as ev
from standfast.abc import Tx
from standfast.errors import Halted
from standfast.events import Event
from standfast.json_values import is_object
from standfast.lazily import adapter
from standfast.names import by_words
from standfast.records import Moment
from standfast.rows import HaltDoc, HaltRow, RunRow, Stop
from standfast.stops import enter, hold

_docs: TypeAdapter[HaltDoc] = adapter(HaltDoc)


def halt_doc(row: HaltRow) -> HaltDoc:
    """What a halt says. One that cannot be read holds every run: it fails to the safe side."""
    try:
        said = _docs.validate_json(row.doc)
    except ValueError:
        return HaltDoc(id=row.id, all=True, reason="this halt cannot be read, so it holds every run")
    return said if said.id == row.id else HaltDoc(id=row.id, all=True, reason="this halt names another id")


def halt_bytes(doc: HaltDoc) -> bytes:
    """What is signed."""
    return _docs.dump_json(doc)


def lift_bytes(id_: str, at: float) -> bytes:
    """What is signed when a halt is lifted."""
    return b"standfast lift\0%b\0%r" % (id_.encode("utf-8", "surrogatepass"), at)


def matches(halt: HaltDoc, agent: str, labels: Mapping[str, str]) -> bool:
    """Does it hold runs of this agent with these labels? A halt that names nothing holds everything."""
    return halt.agent in (None, agent) and all(labels.get(name) == value for name, value in halt.labels.items())


def holding(tx: Tx, row: RunRow) -> list[HaltDoc]:
    """The halts that hold a run: by its own agent and labels, or by those of a run above it."""
    halts = [halt_doc(one) for one in tx.halts()]
    if not halts:
        return []
    family, above = [row], row.parent
    while above is not None:
        parent = tx.run(above)
        if parent is None:
            break
        family.append(parent)
        above = parent.parent
    return [halt for halt in halts if any(matches(halt, one.agent, one.doc.labels) for one in family)]


def refuse_start(tx: Tx, agent: str, labels: Mapping[str, str]) -> None:
    """Halted, with the reason, if a new run of this agent with these labels would be held."""
    found = [halt for one in tx.halts() if matches(halt := halt_doc(one), agent, labels)]
    if found:
        ids = tuple(halt.id for halt in found)
        raise Halted(
            f"agent {agent} is halted: {'; '.join(map(in_words, found))}; no run was started",
            halts=ids,
            hint=f"start it again when an operator has lifted {' and '.join(ids)}",
        )


def in_words(halt: HaltDoc) -> str:
    """Why, and who says so."""
    return f"{halt.reason} ({by_words(halt.by, halt.by_token, 'somebody')})"


# --- the hold ---------------------------------------------------------------------------------------------


def halts_of(row: RunRow) -> dict[str, str]:
    """The halts that the run's hold names, with their words; empty if it is not halted."""
    info = row.doc.holds.get("halted")
    data = info.data if info is not None and is_object(info.data) else {}
    named = data.get("halts")
    return {id_: str(text) for id_, text in named.items()} if is_object(named) else {}


def halted_since_step(row: RunRow) -> int:
    """The step the run was at when the first of its halts came."""
    info = row.doc.holds.get("halted")
    step = info.data.get("step") if info is not None and is_object(info.data) else None
    return step if isinstance(step, int) else row.step


def _named(row: RunRow, halts: Mapping[str, str], now: float) -> None:
    hold(row, "halted", now, "; ".join(halts.values()), {"halts": {**halts}, "step": halted_since_step(row)})


def halt_run(
    row: RunRow, halts: Sequence[HaltDoc], now: float, asked: Moment | None = None, accepted: float | None = None
) -> list[Event]:
    """Hold a run that is not being cancelled: the gate closes at this commit. What held it before still does."""
    known = halts_of(row)
    new = [halt for halt in halts if halt.id not in known]
    if not new:
        return []
    in_flight = row.named_in_flight
    _named(row, {**known, **{halt.id: in_words(halt) for halt in new}}, now)
    if row.status in ("queued", "running"):
        first = new[0]
        row.doc.stop = Stop(
            "pause",
            now if asked is None else asked.at,
            now if accepted is None else accepted,
            by=first.by,
            reason=first.reason,
            route=first.route,
            by_token=first.by_token,
            trigger="operator",
            in_flight=in_flight,
        )
        enter(row, "paused" if row.status == "queued" else "pausing", now)
    return [
        ev.RunHalted(
            halt=halt.id,
            by=halt.by,
            route=halt.route,
            by_token=halt.by_token,
            reason=halt.reason,
            asked=asked,
            in_flight=in_flight,
            status=row.status,
        )
        for halt in new
    ]


def unhalt_run(row: RunRow, id_: str, now: float) -> bool:
    """Take one halt off a run's hold; True if that was the last of them."""
    left = {known: text for known, text in halts_of(row).items() if known != id_}
    if left:
        _named(row, left, now)
        return False
    del row.doc.holds["halted"]
    return True
