"""Force: a run that is to stop and does not is freed of its worker, and whoever asks is told what that kills."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import to_json

from standfast import events as ev
from standfast.abc import Tx
from standfast.control import by_route, load
from standfast.errors import Misuse
from standfast.lazily import adapter
from standfast.records import ENDED, Accepted, Answer, CallRef, Choice, Json, Refused, Status, TooLate
from standfast.requests import used_for
from standfast.runtime import Runtime
from standfast.server.actors import Actor
from standfast.server.reading import Reader
from standfast.server.verbs import Asked

_answers: TypeAdapter[Answer] = adapter(Answer)


@dataclass(frozen=True, slots=True)
class Named:
    """What a force would kill."""

    status: Status
    seq: int
    pid: int | None
    worker: str
    in_flight: tuple[CallRef, ...]
    others: tuple[str, ...]

    @property
    def text(self) -> str:
        """In words, for everybody who may view the run: how many others there are is not for all of them."""
        if self.pid is None:
            return "nothing: no worker of this server holds the run"
        calls = f" in the midst of {', '.join(call.tool for call in self.in_flight)}" if self.in_flight else ""
        return f"{self.worker} (pid {self.pid}){calls}; whatever else it drives goes on elsewhere"

    @property
    def json(self) -> Json:
        """For the wire."""
        return {
            "status": self.status,
            "kills": self.text,
            "worker": self.worker,
            "pid": self.pid,
            "in_flight": [asdict(call) for call in self.in_flight],
            "others": list(self.others),
        }


def named(tx: Tx, run: str, pids: Mapping[int, str]) -> Named:
    """Who holds the run, and what else they hold."""
    row = load(tx, run)
    lease = next((lease for lease in tx.leases() if lease.id == row.holder), None)
    if lease is None or lease.pid not in pids:
        return Named(row.status, row.seq, None, "", tuple(row.named_in_flight), ())
    others = tuple(id_ for id_, _, _, holder in tx.held() if holder == lease.id and id_ != run)
    return Named(row.status, row.seq, lease.pid, pids[lease.pid], tuple(row.named_in_flight), others)


async def force_run(
    runs: Runtime,
    reader: Reader,
    run: str,
    ask: Asked,
    actor: Actor,
    pids: Mapping[int, str],
    kill: Callable[[int, str], Awaitable[None]],
) -> Answer:
    """Kill first, then say so in the record: the one to be killed may keep the store locked."""

    def look(tx: Tx) -> tuple[Named, Answer | None]:
        return named(tx, run, pids), _known(tx, run, ask)

    found, known = await reader.read(look)
    if known is not None:
        return known
    no = _no(found, ask)
    if no is not None:
        return no
    assert found.pid is not None
    await kill(found.pid, f"{actor.name} forced run {run} to stop" + (f": {ask.reason}" if ask.reason else ""))

    def note(tx: Tx) -> Answer:
        row = load(tx, run)
        text = f"killed {found.text}"
        tx.save(row, [ev.VerbNoted(verb="force", by=actor.name, reason=ask.reason, text=text)])
        tx.signal(run)
        answer = Accepted(tx.now, row.seq, found.in_flight, None, text)
        if ask.request_id is not None:
            tx.remember(ask.request_id, run, "force", to_json(answer).decode())
        return answer

    return await runs.control(by_route(actor.route, note), "control")


def _known(tx: Tx, run: str, ask: Asked) -> Answer | None:
    known = None if ask.request_id is None else tx.answered(ask.request_id)
    if known is None:
        return None
    if known[:2] != (run, "force"):
        error: Misuse = used_for(str(ask.request_id), known)
        raise error
    return _answers.validate_json(known[2])


def _no(found: Named, ask: Asked) -> Answer | None:
    if found.status in ENDED:
        return TooLate(found.status)
    if ask.if_seq is not None and found.seq != ask.if_seq:
        return Refused(f"the run has moved on: it is at seq {found.seq}, not {ask.if_seq}")
    choices: Any = (Choice("cancel", {}, "cancel the run first"), Choice("pause", {}, "pause the run first"))
    if found.status not in ("pausing", "cancelling"):
        return Refused(
            f"the run is {found.status}: there is no stop to force",
            choices if found.status != "paused" else choices[:1],
        )
    if found.pid is None:
        return Refused("no worker of this server holds the run: whoever drives it must be stopped there")
    return None
