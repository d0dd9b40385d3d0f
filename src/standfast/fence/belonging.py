"""Which call a request belongs to, and whether that call may still send one.

Inside a call's body a request belongs to the call: nothing new is recorded, and it ends with the call. In a step's
own code, and in tasks that a finished call left behind, it is admitted through the gate as a call of its own.
Without a run there is nobody to answer for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from standfast.codec import to_json
from standfast.context import current_call
from standfast.errors import RequestCut, RequestRefused
from standfast.flight import Flight, Outcome
from standfast.passage import Door, current_door, end
from standfast.records import Json


class Request:
    """One request from before it is sent until its response is over. What closes it is its subclass's business."""

    def __init__(self, method: str, url: Any) -> None:
        place = f"{url.netloc.decode('ascii')}{url.path}"  # neither user nor query: they may hold secrets
        self.name = f"http {method} {place}"
        self.args: Json = {"method": method, "url": f"{url.scheme}://{place}"}
        self.is_cut = False  # set from any thread; from then on nothing more is sent or read
        self.status = 0  # of the response; 0 until it has come
        self.came = 0  # bytes of the body
        self.complete = False
        self._flight: Flight | None = None  # None too in the process of a tool, which is killed as a whole
        self._door: Door | None = None  # through which it passed as a call of its own
        self._over = False

    # --- before ---------------------------------------------------------------------------------

    def belong(self) -> Door | None:
        """Tie the request to the call in whose body it is sent; the door to knock at if there is none."""
        call = current_call.get()
        if isinstance(call, Flight):
            if self._tied(call):
                return None
        elif call is not None:  # in the process of a tool, or in a unit test of one
            call.stop_token.check()
            return None
        door = current_door.get()
        if door is None:
            raise RequestRefused(
                f"{self.name} was sent by no run, so it was not sent at all",
                hint="this client works in a step or a tool, and in the tasks and asyncio.to_thread threads they "
                "start; a bare threading.Thread has no context (run it in contextvars.copy_context()); "
                "outside runs use a client without the fence",
            )
        return door

    def _tied(self, call: Flight) -> bool:
        """False if the call has ended, and whatever it left behind is outside any call now."""
        self._flight = call
        call.tie(self)  # first: a cut that comes from now on reaches it
        why = why_not(call)
        if why is None:
            return True
        call.untie(self)
        self._flight = None
        if call.ended and not (call.token.stopped or call.abandoned or call.beside):
            return False
        self._stopped(call, by_a_verb=why.closed)
        if call.token.stopped and not call.beside:
            call.session.in_loop(call.session.refused_in_clean_up, self.name, call)
        raise RequestRefused(
            f"{why.text}: {self.name} was not sent",
            hint=f"it belongs to the call {call.ref.tool} of run {call.session.row.id}",
        )

    async def admit(self, door: Door) -> None:
        """Through the gate, in the gate's own loop; over at once if whoever sends it has gone meanwhile."""
        flight = await door.admit(self.name, self.args, self)
        self._door, self._flight = door, flight
        if self._over:
            end(flight, Outcome("cut"))

    def gave_up(self) -> None:
        """Whoever sends it did not wait for the admission."""
        self._over = True
        if self._flight is not None:
            end(self._flight, Outcome("cut"))

    # --- Body and Tied, for the call --------------------------------------------------------------

    def cut(self) -> None:
        raise NotImplementedError

    def where(self) -> str:
        """What it is doing now, for people."""
        return f"reading the response of {self.name}" if self.status else f"waiting for the response of {self.name}"

    def mark_cut(self) -> None:
        """The call is cut, or is over: nothing more is sent or read."""
        self.is_cut = True
        if self._flight is not None:
            self._stopped(self._flight, by_a_verb=self._flight.session.shut)

    def _stopped(self, flight: Flight, *, by_a_verb: bool) -> None:
        """What the code makes of a stop counts for nothing: the call, or the step, is taken again."""
        if not by_a_verb or flight.ended or flight.beside:
            return  # its time was up, say, or its call is over
        if self._door is not None:
            self._door.stopped()
        elif flight.repeatable:
            flight.spoiled = True
            if flight.session.attempt is not None and flight.attempt == flight.session.attempt.number:
                flight.session.attempt.spoil()

    def check(self) -> None:
        """Raise RequestCut if it was cut."""
        if self.is_cut:
            raise self.was_cut()

    def was_cut(self) -> RequestCut:
        return RequestCut(
            f"{self.name} was closed by the fence", hint="its call or its run was stopped, or its call is over"
        )

    def took(self, chunk: bytes) -> None:
        """A piece of the body has come."""
        self.came += len(chunk)
        if self._door is not None and self._flight is not None:
            self._flight.byte_came()

    def came_whole(self, response: Any) -> bool:
        """A response that a transport had ready, from a cache, say, will not be read or closed: it is over now."""
        if not response.is_closed:
            return False
        self.took(response.content)
        self.complete = True
        self.ended()
        return True

    # --- afterwards -------------------------------------------------------------------------------

    def failed(self, error: BaseException) -> None:
        """It is over without a whole response."""
        stopped = self._flight is not None and (self._flight.cutting or self._flight.session.shut)
        if self.is_cut or (stopped and not isinstance(error, Exception)):
            self._end(lambda: Outcome("cut"))
        else:
            text = str(error) or "whoever sent it did not wait for the end"
            self._end(lambda: Outcome("failed", error=type(error).__name__, message=text))

    def ended(self) -> None:
        """The response was read to its end, or closed by whoever read it."""
        if self.is_cut:
            self._end(lambda: Outcome("cut"))
            return
        said = {"status": self.status, "bytes": self.came, "complete": self.complete}
        self._end(lambda: Outcome("finished", to_json(said)))

    def _end(self, outcome: Callable[[], Outcome]) -> None:
        if self._over:
            return
        self._over = True
        flight = self._flight
        if flight is None:
            return
        if self._door is not None:
            end(flight, outcome())
        else:
            flight.untie(self)


class Why(NamedTuple):
    """Why a call may send no further request."""

    text: str
    closed: bool = False  # the run's gate is, and not only the call over


def why_not(flight: Flight) -> Why | None:
    """None if the call may send a request. Asks the store, as the gate would."""
    if flight.ended or flight.abandoned:
        return Why(f"the call {flight.ref.tool} is over")
    if flight.being_cut:
        return Why(f"the call {flight.ref.tool} was cut", flight.session.shut)
    if flight.beside:
        return None
    s = flight.session
    row = s.env.store.read(lambda tx: tx.run_n(s.row.n))
    if row is None or row.fence != s.fence:
        return Why(f"run {s.row.id} is driven by another process now", True)
    if row.status == "running" and row.attempt == flight.attempt and not s.shut:
        return None
    if row.status == "cancelling":
        may = row.doc.stop is not None and row.doc.stop.soft
    else:  # while a run is being held, a call with effects goes on to its end, and needs its requests for that
        may = row.status in ("running", "pausing") and not flight.repeatable
    return None if may else Why(f"the gate of run {row.id} is closed ({row.status})", True)
