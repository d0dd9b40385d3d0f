"""Before a run is taken up: doubts are settled, code and world compared (R15, R16)."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, cast

from standfast import equal_writes
from standfast import events as ev
from standfast.abc import Tx
from standfast.contained import contain
from standfast.errors import StoreDamaged, WrongState
from standfast.events import Event
from standfast.freshness import contract_differences, state_may_differ
from standfast.given_up import give_up_stage
from standfast.performed import probe
from standfast.records import Happened, Json, NotHappened
from standfast.rows import CallRow, RunRow
from standfast.snapshots import unpack, with_state
from standfast.stage_plan import names_in
from standfast.stops import enter, hold

_AGAIN = "it has changed again since that was accepted: "
_NOT_HERE = "its code is not here: name it in @agent(..., tools=[{}])"

if TYPE_CHECKING:
    from standfast.agents import Agent
    from standfast.session import Session


class Preparing:
    """What a driver does between its claim and the first admission."""

    def __init__(self, session: Session) -> None:
        self.s = session

    async def prepare(self) -> bool:
        """True if the run may go on; False if something holds it. Raises what its own code raises."""
        s = self.s
        trouble = s.env.store.read(lambda tx: tx.verify_snapshot(s.row))
        if trouble:
            raise StoreDamaged(trouble, hint="restore a copy of the store")
        stale, back = list[str](), s.row.step
        if s.row.doc.person is None:  # what a person performs is no part of what the agent saw
            if s.row.attempt > 1:
                for box in s.agent.toolboxes:
                    await box.refresh()
            await self._same_code()
            stale, back = await self._stale()
        doubts = await self._doubts()
        if not stale and not doubts:
            return s.row.status == "running"

        def act(tx: Tx, row: RunRow) -> tuple[None, list[Event], bytes | None]:
            open_calls = [c for c in tx.open_calls(row.n) if c.person == self._person]
            still = any(c.status in ("in_doubt", "check") for c in open_calls)
            if row.doc.target is not None or (not stale and not still):
                return None, [], None  # settled meanwhile, by a person or a late result; or left behind by a rewind
            row.doc.accept_stale, row.doc.stale_shown = False, ""
            if stale:
                hold(row, "stale", tx.now, "; ".join(stale), back)
            if still:
                hold(row, "in_doubt", tx.now, "; ".join(doubts))
            if row.status != "running":
                return None, [ev.VerbNoted(verb="hold", by=None, text="; ".join([*stale, *doubts]))], None
            enter(row, "paused", tx.now)
            return None, [ev.RunPaused(holds=list(row.doc.holds), text="; ".join([*stale, *doubts]))], None

        await s.write(act)
        return False

    @property
    def _person(self) -> str:
        """The order of the person whose call is to be performed; empty if the agent's step is."""
        person = self.s.row.doc.person
        return "" if person is None else person.id

    async def _same_code(self) -> None:
        """Bring an old state to new code, if the agent says how."""
        s = self.s
        agent = s.agent
        same = s.row.doc.contract == agent.contract_id
        if same and agent.migrate is None:
            return
        old, snapshot = self._seen()
        if agent.migrate is not None and (state_may_differ(old, agent) or self._misfit(snapshot) is not None):
            _, raw = unpack(snapshot)
            state = await contain(lambda: _migrated(agent, s.agent_json(raw)))
            new, logs = agent.state_codec.dump_new(agent.state_codec.accept(state))
            why = "; ".join(self._differences(old, snapshot)) or "the state is older than the code"
            await self._adopt(with_state(snapshot, new), logs, f"migrated: {why}")
        elif not same and not self._differences(old, snapshot):
            await self._adopt(None)

    def _differences(self, old: Json, snapshot: bytes) -> list[str]:
        """How the code differs from that contract, as far as this run relies on it."""
        doc, before = self.s.row.doc, _stages(old)
        known = {**names_in(before), **doc.stage_ids}
        stages = self.s.agent.plan_difference(before, unpack(snapshot)[0], doc.plan, known)
        return contract_differences(old, self.s.agent, stages)

    def _seen(self) -> tuple[Json, bytes]:
        """The contract that the run was left with, and its snapshot."""
        row = self.s.row

        def look(tx: Tx) -> tuple[Json, bytes]:
            found = tx.snapshot(row)
            assert found is not None
            return tx.contract(row.doc.contract) or {}, found[1]

        return self.s.env.store.read(look)

    def _misfit(self, snapshot: bytes) -> WrongState | None:
        """Why the code here cannot read this state; None if it can."""
        try:
            self.s.agent.state_codec.load_state(unpack(snapshot)[1], self.s.fetch)
        except WrongState as error:
            return error
        return None

    async def _adopt(self, state: bytes | None, logs: Any = (), note: str = "") -> None:
        agent = self.s.agent

        def act(tx: Tx, row: RunRow) -> tuple[None, list[Event], bytes | None]:
            names = names_in(_stages(tx.contract(row.doc.contract) or {}))
            row.doc.stage_ids = {**names, **row.doc.stage_ids}
            tx.put_contract(agent.contract_id, agent.name, agent.contract)
            row.doc.contract = agent.contract_id
            row.doc.set_back = row.doc.set_back or state is not None
            for name, first, bodies in logs:
                tx.append_log(name, first, bodies)
            given_up, snapshot = give_up_stage(tx, row, agent, state)
            noted = ev.VerbNoted(verb="adopt", by=None, text=note or "the code is compatible")
            return None, [noted, *given_up], snapshot

        await self.s.write(act)

    async def _stale(self) -> tuple[list[str], int]:
        """How code and world differ from what the run saw, and the first step that built on it."""
        s = self.s
        differences: list[str] = []
        back = s.row.step
        if s.row.doc.contract != s.agent.contract_id:
            differences += self._differences(*self._seen())
        if s.row.attempt > 1:
            for text, step in await s.freshness.stale():
                differences.append(text)
                back = min(back, step)
        if s.row.doc.accept_stale:
            shown = s.row.doc.stale_shown.removeprefix(_AGAIN)  # nothing: it was accepted beforehand, whatever it is
            if shown and differences and shown != "; ".join(differences):
                return [f"{_AGAIN}{differences[0]}", *differences[1:]], back
            await self._accept_stale(differences)
            return [], back
        return differences, back

    async def _accept_stale(self, differences: list[str]) -> None:
        """A person said to go on although things have changed: that counts once, for what was found now."""
        s = self.s
        text = "; ".join(differences)
        if differences:
            if (misfit := self._misfit(self._seen()[1])) is not None:  # nothing is adopted: a migrate= may still come
                raise misfit
            await s.freshness.refresh()
            await s.flushed()
            await self._adopt(None, note=f"a person accepted that it has changed: {text}")

        def act(tx: Tx, row: RunRow) -> tuple[None, list[Event], bytes | None]:
            del tx
            row.doc.accept_stale, row.doc.stale_shown = False, ""
            return None, [ev.VerbNoted(verb="accept_stale", by=None, text=text or "nothing had changed")], None

        await s.write(act)

    async def _doubts(self) -> list[str]:
        """Ask the probes; say what stays in doubt."""
        s = self.s
        rows = s.env.store.read(lambda tx: tx.open_calls(s.row.n))
        left: list[str] = []
        for row in rows:
            if row.status not in ("in_doubt", "check") or row.person != self._person:
                continue
            tool = s.tool_of(row)
            answer = _NOT_HERE.format(row.tool) if tool is None else await probe(tool, row, s)
            if isinstance(answer, NotHappened) and await s.may_still_happen(row):
                answer = "its old driver, or a program of it, may still be alive"
            if isinstance(answer, str):
                if await self._decide(row, "in_doubt", None, answer):
                    left.append(f"{row.tool}: it is not known whether this happened ({answer})")
            elif isinstance(answer, Happened):
                assert tool is not None
                await self._decide(row, "finished", tool.dump_result(answer.result))
            else:
                await self._decide(row, "not_begun", None)
        return left

    async def _decide(self, call: CallRow, status: Any, result: bytes | None, why: str = "") -> bool:
        """Write what the probe said; False if a person or a late result was quicker."""

        def act(tx: Tx, row: RunRow) -> tuple[bool, list[Event], bytes | None]:
            now = tx.call(row.n, call.id)
            if now is None or now.undo is not None or now.status not in ("in_doubt", "check"):
                return False, [], None
            if now.status == status:
                return True, [], None
            now.status, now.result = status, result
            tx.update_call(now)
            if status == "not_begun":
                row.doc.writes = equal_writes.not_made(row.doc.writes, call.id)
            if status == "in_doubt":
                return True, [ev.CallInDoubt(call=call.id, tool=call.tool, why=why)], None
            decision: Any = "happened" if status == "finished" else "not_happened"
            return True, [ev.CallResolved(call=call.id, decision=decision, by=None, reason="its probe")], None

        return await self.s.write(act)


def _stages(contract: Json) -> list[tuple[str, str]]:
    """The stages that a contract names."""
    return [(id_, title) for id_, title in cast("list[tuple[str, str]]", contract.get("plan") or [])]


async def _migrated(agent: Agent[Any, Any], old: Any) -> Any:
    """The state as the agent's own code makes it fit."""
    assert agent.migrate is not None
    state = agent.migrate(old)
    return await state if inspect.isawaitable(state) else state
