"""Handle: a run from outside. Every verb is durable when it returns, and tells the truth about races."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, overload

from pydantic import JsonValue

from standfast import budget as budgets
from standfast import control, verbs
from standfast.clock import moment
from standfast.codec import from_json
from standfast.control import Ask
from standfast.editing import edited
from standfast.errors import Misuse
from standfast.log_places import LogRows
from standfast.machine import UserVerb
from standfast.outside import Outside
from standfast.person_calls import performed_by_person
from standfast.records import (
    Answer,
    Budget,
    CheckAgain,
    Choice,
    Decision,
    Happened,
    Json,
    Mark,
    Mode,
    Need,
    NotHappened,
    Trigger,
    Undo,
    When,
)
from standfast.rows import RunRow
from standfast.tools import Call
from standfast.unwritten import Unwritten, not_recorded
from standfast.watched import Watched

if TYPE_CHECKING:
    from standfast.abc import Tx

R = TypeVar("R")
T = TypeVar("T")


class Handle(Watched[R]):
    """One run, by its id. Costs nothing to keep."""

    __slots__ = ()

    # --- verbs --------------------------------------------------------------------------------------

    async def pause(
        self,
        *,
        by: str | None = None,
        reason: str = "",
        request_id: str | None = None,
        if_seq: int | None = None,
        trigger: Trigger = "api",
    ) -> Answer:
        """No further call begins from now on; held at once, or `pausing` until an effect in flight has ended."""
        return await self._verb("pause", verbs.pause, by, reason, request_id, if_seq, trigger, stops="pause")

    async def resume(
        self,
        note: str | None = None,
        accept_stale: bool = False,
        budget: Budget | dict[str, Any] | None = None,
        *,
        by: str | None = None,
        reason: str = "",
        request_id: str | None = None,
        if_seq: int | None = None,
    ) -> Answer:
        """Go on where the run was held; Refused lists what stands in the way."""
        caps = None if budget is None else budgets.given(budget)
        act = verbs.resume(note, accept_stale, caps)
        return await self._verb("resume", act, by, reason, request_id, if_seq, what=[note, accept_stale, caps])

    async def step_once(
        self, *, by: str | None = None, reason: str = "", request_id: str | None = None, if_seq: int | None = None
    ) -> Answer:
        """Take one step of a paused run, then pause again."""
        return await self._verb("step_once", verbs.step_once, by, reason, request_id, if_seq)

    async def redirect(
        self,
        text: str,
        when: Literal["now", "next"] = "now",
        from_step: int | str | None = None,
        *,
        by: str | None = None,
        reason: str = "",
        request_id: str | None = None,
        if_seq: int | None = None,
        trigger: Trigger = "api",
    ) -> Answer:
        """Rewrite what the agent does next; pending until the agent has read it, never lost."""
        act = verbs.redirect(text, when, from_step, self._runs.ids.mail(), self._runs.is_dead)
        verb: UserVerb = "redirect" if from_step is None else "rewind"
        return await self._verb(verb, act, by, reason, request_id, if_seq, trigger, what=[text, when, from_step])

    async def message(
        self,
        text: str,
        data: JsonValue = None,
        when: When = "next",
        *,
        by: str | None = None,
        reason: str = "",
        request_id: str | None = None,
        if_seq: int | None = None,
    ) -> Answer:
        """Tell the agent something beside its task."""
        act = verbs.message(text, data, when, self._runs.ids.mail())
        return await self._verb("message", act, by, reason, request_id, if_seq, what=[text, data, when])

    async def cancel(
        self,
        undo: Undo = "step",
        soft: bool = False,
        *,
        by: str | None = None,
        reason: str = "",
        request_id: str | None = None,
        if_seq: int | None = None,
        trigger: Trigger = "api",
        suspicious: bool | Mark = False,
    ) -> Answer:
        """Nothing new is admitted from now on; `settled()` waits for the rest, and has the receipt.

        `suspicious` marks the transcript where the run was speaking, or at the place that somebody had read.
        """
        act = verbs.cancel(undo, soft, self._runs.is_dead, suspicious)
        mode: Mode = "soft" if soft else "cancel"
        return await self._verb("cancel", act, by, reason, request_id, if_seq, trigger, what=[undo, soft], stops=mode)

    async def edit(
        self,
        patch: Json,
        *,
        by: str | None = None,
        reason: str = "",
        request_id: str | None = None,
        if_seq: int | None = None,
    ) -> Answer:
        """Change the state of a paused run by a JSON Merge Patch; validated before anything is written."""
        row = self._row()
        agent = self._runs.agents.get(row.agent)
        checks = Outside()

        def act(tx: Tx, run: RunRow, ask: Ask) -> Answer:
            def new(contract: Json, old: bytes, base: bytes) -> tuple[bytes, str, list[LogRows]]:
                return edited(patch, agent, tx.read_log, contract, old, base, checks)

            return verbs.edit(new)(tx, run, ask)

        return await self._verb("edit", act, by, reason, request_id, if_seq, what=patch)

    async def rewind(
        self,
        to: int | str,
        *,
        by: str | None = None,
        reason: str = "",
        request_id: str | None = None,
        if_seq: int | None = None,
        trigger: Trigger = "api",
    ) -> Answer:
        """Undo step `to` and everything later, and hold the run before it."""
        act = verbs.rewind(to, self._runs.is_dead)
        return await self._verb("rewind", act, by, reason, request_id, if_seq, trigger, what=to)

    async def resolve(
        self,
        call_id: str,
        decision: Decision,
        *,
        by: str | None = None,
        reason: str = "",
        request_id: str | None = None,
        if_seq: int | None = None,
    ) -> Answer:
        """Say what became of a call in doubt."""
        if not isinstance(decision, Happened | NotHappened | CheckAgain):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise Misuse(f"{decision!r} settles no doubt", hint="give Happened(result), NotHappened() or CheckAgain()")
        act = verbs.resolve(call_id, decision)
        what = [call_id, type(decision).__name__, decision]
        return await self._verb("resolve", act, by, reason, request_id, if_seq, what=what)

    async def approve(
        self,
        call_id: str,
        args: Json | None = None,
        *,
        by: str | None = None,
        reason: str = "",
        request_id: str | None = None,
        if_seq: int | None = None,
    ) -> Answer:
        """Let a call pass that asks first, with its arguments or with changed ones."""
        act = verbs.approve(call_id, args)
        return await self._verb("approve", act, by, reason, request_id, if_seq, what=[call_id, args])

    async def deny(
        self,
        call_id: str,
        reason: str = "",
        *,
        by: str | None = None,
        request_id: str | None = None,
        if_seq: int | None = None,
    ) -> Answer:
        """Refuse a call that asks first: it is not executed."""
        return await self._verb("deny", verbs.deny(call_id, reason), by, reason, request_id, if_seq, what=call_id)

    async def answer(
        self,
        call_id: str,
        value: Any,
        *,
        by: str | None = None,
        reason: str = "",
        request_id: str | None = None,
        if_seq: int | None = None,
    ) -> Answer:
        """Answer a question of the run."""
        act = verbs.answer(call_id, value)
        return await self._verb("answer", act, by, reason, request_id, if_seq, what=[call_id, value])

    async def resend(
        self,
        mail: str,
        *,
        by: str | None = None,
        reason: str = "",
        request_id: str | None = None,
        if_seq: int | None = None,
    ) -> Answer:
        """Send a redirect that was not read again, to the next step; `mail` is the id of the need."""
        return await self._verb("resend", verbs.resend(mail), by, reason, request_id, if_seq, what=mail)

    async def drop(
        self,
        mail: str,
        *,
        by: str | None = None,
        reason: str = "",
        request_id: str | None = None,
        if_seq: int | None = None,
    ) -> Answer:
        """Give a redirect that was not read back to its sender: it counts no longer."""
        return await self._verb("drop", verbs.drop(mail), by, reason, request_id, if_seq, what=mail)

    async def abandon(
        self,
        frame: str,
        reason: str,
        *,
        by: str | None = None,
        request_id: str | None = None,
        if_seq: int | None = None,
    ) -> Answer:
        """Give up a thought of the run, by its frame's id or goal; the next step carries it out."""
        act = verbs.abandon(frame, reason, self._runs.ids.mail())
        return await self._verb("abandon", act, by, reason, request_id, if_seq, what=frame)

    async def return_to(
        self,
        frame: str,
        *,
        by: str | None = None,
        reason: str = "",
        request_id: str | None = None,
        if_seq: int | None = None,
    ) -> Answer:
        """Send the run back to a thought on hold, by its frame's id or goal; the next step carries it out."""
        act = verbs.return_to(frame, self._runs.ids.mail())
        return await self._verb("return_to", act, by, reason, request_id, if_seq, what=frame)

    async def take_over(
        self,
        *,
        by: str | None = None,
        reason: str = "",
        request_id: str | None = None,
        if_seq: int | None = None,
        trigger: Trigger = "api",
    ) -> Answer:
        """Stop the run as by a pause, and hold it for a person who acts in it until `hand_back()`."""
        return await self._verb("take_over", verbs.take_over, by, reason, request_id, if_seq, trigger, stops="pause")

    async def hand_back(
        self,
        note: str = "",
        *,
        by: str | None = None,
        reason: str = "",
        request_id: str | None = None,
        if_seq: int | None = None,
    ) -> Answer:
        """Let the agent go on; it reads the note, and what was performed meanwhile, as its first message."""
        act = verbs.hand_back(note, self._runs.ids.mail())
        return await self._verb("hand_back", act, by, reason, request_id, if_seq, what=note)

    @overload
    async def perform(
        self,
        call: Call[T],
        args: None = None,
        *,
        by: str | None = ...,
        reason: str = ...,
        request_id: str | None = ...,
        timeout: float | None = ...,
    ) -> T: ...
    @overload
    async def perform(
        self,
        call: str,
        args: Json | None = None,
        *,
        by: str | None = ...,
        reason: str = ...,
        request_id: str | None = ...,
        timeout: float | None = ...,
    ) -> Any: ...
    async def perform(
        self,
        call: Call[Any] | str,
        args: Json | None = None,
        *,
        by: str | None = None,
        reason: str = "",
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Perform a tool in a run that is taken over, through its gate, and give the result; raises CallFailed.

        It is a step of its own, driven by whichever process has the agent's code.
        """
        what = [str(call), args] if isinstance(call, str) else [call.tool.name, from_json(call.raw)]
        asked = "" if request_id is None else control.what_is_asked(by, reason, what)
        ask = Ask(by=by, reason=reason, at=self._runs.clock.now(), request_id=request_id, asked=asked)
        return await performed_by_person(self._runs, self.id, self._until, call, args, ask, timeout, self.route)

    async def choose(self, need: Need, choice: Any, *, by: str | None = None, reason: str = "") -> Answer:
        """Send back one of `need.choices` as it is."""
        if isinstance(choice, Choice):
            args: dict[str, Any] = {"reason": reason, **choice.args}
            verb = getattr(self, choice.verb, None)
            if choice.verb.startswith("_") or verb is None:
                raise Misuse(f"{choice.verb!r} is no verb", hint="send back a choice as it was given")
            return cast("Answer", await verb(**args, by=by))
        if need.call is None:
            raise Misuse(f"{choice!r} is no choice of this need", hint="send back one of need.choices")
        if need.kind == "doubt":
            return await self.resolve(need.call, choice, by=by, reason=reason)
        return await self.answer(need.call, choice, by=by, reason=reason)

    async def _verb(
        self,
        verb: UserVerb,
        act: Callable[[Tx, RunRow, Ask], Answer],
        by: str | None,
        reason: str,
        request_id: str | None,
        if_seq: int | None,
        trigger: Trigger = "api",
        what: object = None,
        stops: Mode | None = None,
    ) -> Answer:
        since = moment(self._runs.clock.now())
        asked = "" if request_id is None else control.what_is_asked(by, reason, what)
        ask = Ask(
            by=by,
            reason=reason,
            at=since.at,
            since=since,
            if_seq=if_seq,
            request_id=request_id,
            asked=asked,
            trigger=trigger,
        )

        def carried_out(tx: Tx) -> Answer:
            return control.carry_out(tx, self.id, verb, ask, act)

        routed = control.by_route(self.route, carried_out)
        if stops is None:
            return await self._runs.control(routed)
        return await self._runs.control(routed, "control", Unwritten(stops, not_recorded(), self.id, verb=verb))

    # --- time travel ----------------------------------------------------------------------------------

    async def fork(
        self,
        at: int | None = None,
        state: Any = None,
        *,
        id: str | None = None,  # noqa: A002
        by: str | None = None,
        reason: str = "",
        request_id: str | None = None,
    ) -> Handle[R]:
        """A new run from a snapshot of this one; this one is not changed."""
        ask: dict[str, Any] = {"id": id, "by": by, "reason": reason, "request_id": request_id, "route": self.route}
        return await self._runs.fork(self, at, state, **ask)
