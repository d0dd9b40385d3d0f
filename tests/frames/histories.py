"""Histories by a seed: people write, pause, give up and send back; drivers crash; time passes.

`python -m tests.frames.histories 17`, or a range `0-200` until the first that fails.
"""

from __future__ import annotations

import asyncio
import random
import sys
from typing import Any

from tests.frames import thinker as agents
from tests.frames.model import Model
from tests.frames.thinker import CAP, EXPIRY, TOKENS, Mind, Task, thinker
from tests.races.sim import Node, Sim, simulate

from standfast import Accepted, CallFailed, Handle, Happened, Misuse, NotHappened, Refused, RunView, TooLate
from standfast import events as ev
from standfast.records import ENDED

GAPS = (0.0, 0.0, 0.001, 0.01, 0.05, 0.3, 1.0, 30.0, 150.0)


class History:
    """One run, and everything that happens to it."""

    def __init__(self, sim: Sim, nodes: list[Node]) -> None:
        self.sim, self.nodes, self.rng = sim, nodes, sim.rng
        self.cost: dict[str, int] = {}
        self.count = 0
        self.performs: list[asyncio.Future[Any]] = []
        self.not_before: dict[str, int] = {}  # the first step that each message may be read in, when it was sent
        self.notes: dict[str, str] = {}  # what each message's sender was told
        self.run: Handle[Any] = nodes[0].handle("")

    def task(self, word: str, depth: int = 0) -> Task:
        rng = self.rng
        self.count += 1
        number = self.count
        within = [self.task(word, depth + 1) for _ in range(rng.choice((0, 0, 0, 1)) if depth < 2 else 0)]
        task = Task(
            goal=f"{word} {number}",
            steps=rng.choice((0, 1, 1, 2, 3)),
            within=within,
            tokens=rng.choice((0, 0, 300, 600)),
        )
        self.cost[task.goal] = task.tokens
        return task

    async def play(self) -> None:
        rng = self.rng
        mind = Mind(
            tasks=[self.task("task") for _ in range(rng.randrange(1, 3))],
            one_by_one=rng.random() < 0.3,
            hasty=rng.random() < 0.15,
            idles=rng.random() < 0.25,
        )
        self.mind = mind
        self.run = await self.nodes[0].start(thinker, mind)
        for _ in range(rng.randrange(2, 10)):
            await asyncio.sleep(rng.choice(GAPS))
            act = rng.choices(
                (self.write, self.pause, self.order, self.crash, self.rewind, self.cancel, self.redirect, self.take),
                weights=(10, 2, 5, 3, 1, 0.4, 1, 2),
            )[0]
            await act()
        await self.to_the_end()

    async def write(self) -> None:
        for _ in range(self.rng.choice((1, 1, 2))):
            when: Any = self.rng.choice(("now", "next", "next", "later"))
            task = self.task(when)
            await self.say(task, when)

    async def say(self, task: Task, when: Any) -> None:
        answer = await self.here.message(task.goal, task.model_dump(), when)
        if isinstance(answer, Accepted):
            assert answer.mail is not None
            self.notes[answer.mail] = answer.note
            self.not_before |= self.run._read(
                lambda tx, row: {m.id: m.not_before for m in tx.mail(row.n) if m.id == answer.mail}
            )

    async def pause(self) -> None:
        await self.here.pause()
        await asyncio.sleep(self.rng.choice(GAPS))
        if self.rng.random() < 0.5:
            await self.write()
        if self.rng.random() < 0.3:
            await self.order()
        await self.here.resume()

    async def take(self) -> None:
        """A person takes the run over and performs a tool or two; sometimes a crash comes between."""
        await self.here.take_over(by="eve")
        for n in range(self.rng.randrange(3)):
            name = self.rng.choice(("act", "act", "think", "no such tool"))
            self.performs.append(asyncio.ensure_future(self.here.perform(name, {"what": f"eve {self.count} {n}"})))
            await asyncio.sleep(self.rng.choice(GAPS))
            if self.rng.random() < 0.3:
                await self.rng.choice((self.crash, self.write, self.pause))()
        if self.rng.random() < 0.8:
            await self.here.hand_back("over to you")

    async def order(self) -> None:
        frames = (await self.here.view()).frames
        which: Any = self.rng.choice(frames)["id"] if frames and self.rng.random() < 0.9 else "no such frame"
        if self.rng.random() < 0.5:
            answer = await self.here.abandon(which, f"because {which}", by="ann")
        else:
            answer = await self.here.return_to(which, by="bob")
        assert isinstance(answer, Accepted | Refused | TooLate)

    async def crash(self) -> None:
        await self.node.crash()

    async def rewind(self) -> None:
        step = (await self.here.view()).step
        if await self.here.rewind(self.rng.randrange(step + 1)):
            await self.here.settled(timeout=2000)
            await self.here.resume()

    async def cancel(self) -> None:
        await self.here.cancel()

    async def redirect(self) -> None:
        await self.here.redirect("never read")

    @property
    def node(self) -> Node:
        return self.rng.choice(self.nodes)

    @property
    def here(self) -> Handle[Any]:
        return self.node.handle(self.run.id)

    async def to_the_end(self) -> None:
        """People answer whatever stands in the way, until the run has ended."""
        loop = asyncio.get_running_loop()
        end, tries = loop.time() + 2000, 0
        while (view := await self.run.view()).status not in ENDED:
            assert loop.time() < end, view
            assert tries < 50, (tries, view)
            if view.status == "paused":
                tries += 1
                await self.settle(view)
            await asyncio.sleep(0.5)
        await asyncio.wait_for(asyncio.gather(*self.performs, return_exceptions=True), 100)
        for one in self.performs:
            error = one.exception()
            assert error is None or isinstance(error, Misuse | CallFailed), error

    async def settle(self, view: RunView) -> None:
        if view.holds == ("waiting",):
            task = Task(goal=f"end {self.count}")
            self.count += 1
            await self.say(task, "now" if self.rng.random() < 0.5 else "next")
            if view.frames:
                await self.run.abandon(str(view.frames[-1]["id"]), "so that it ends")
            return
        for need in view.needs:
            if need.kind == "doubt":
                happened = self.sim.world.happened(str(need.call))
                await self.run.choose(need, Happened("it did") if happened else NotHappened())
        if "error" in view.holds:
            expected = "frames are open" in view.error or "could not be undone" in view.waiting_for
            assert expected, (view.error, view.waiting_for, view.traceback)
            for frame in view.frames:
                await self.run.abandon(str(frame["id"]), "it is held up")
        if "taken" in view.holds:
            await self.run.hand_back("so that it ends")
        await self.run.resume()

    async def check(self) -> None:
        rows = self.run._read(lambda tx, row: [e for _, es in tx.record(row.n, 0, 100_000) for e in es])
        model = Model(CAP, EXPIRY, TOKENS, self.cost, self.mind.one_by_one)
        model.not_before = self.not_before
        told.extend(f"{e.at} {e}" for e in rows)
        model.read(rows)
        received = {e.mail: e.disposition for e in rows if isinstance(e, ev.MailReceived)}
        for id_, note in self.notes.items():
            assert received[id_] == note, (received[id_], note)
        effects = [s.key for s in self.sim.world.seen if s.what == "effect"]
        assert len(effects) == len(set(effects)), "an effect took place twice"
        view = await self.run.view()
        assert view.frames == (), view.frames
        assert {m.id: m.status for m in view.mail} == {m.id: m.state for m in model.mail.values()}
        self.model = model


told: list[str] = []  # what the record of the last history says
totals = {"returns": 0, "reconstructions": 0, "holds": 0, "waited": 0, "performed": 0, "crashes": 0}


async def story(sim: Sim) -> None:
    names = ("a",) if sim.rng.random() < 0.8 else ("a", "b")
    async with sim.processes(*names) as nodes:
        agents.peek["mail"] = lambda run: nodes[0].read(lambda tx: [m.id for m in tx.pending_mail(tx.run(run).n)])  # type: ignore[union-attr]
        history = History(sim, nodes)
        await history.play()
        await history.check()
        for name in ("returns", "reconstructions", "holds", "performed"):
            totals[name] += getattr(history.model, name)
        totals["waited"] += sum("held" in note or "later" in note for note in history.notes.values())
        totals["crashes"] += sum(node.process.life for node in nodes)


def check(seed: int) -> list[str]:
    """Play one seed, and give what the record says; a failure says how to see it again."""
    told.clear()
    try:
        simulate(seed, story, [thinker])
    except BaseException as error:
        error.add_note(f"seed {seed}: python -m tests.frames.histories {seed}")
        raise
    return [*told]


def main(what: str) -> None:
    first, _, last = what.partition("-")
    for seed in range(int(first), int(last or first) + 1):
        check(seed)
    print(f"seeds {what}: every promise kept; {totals}")


if __name__ == "__main__":
    random.seed(0)
    main(*sys.argv[1:])
