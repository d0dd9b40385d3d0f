"""A seed's story: a random program, random verbs at random moments, crashes and freezes; then an ending."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.races.sim import Node, Sim
from tests.races.world import World
from tests.races.zoo import Op, Work, worker

import standfast
from standfast import Accepted, Answer, CheckAgain, Halt, Handle, Happened, Misuse, NotHappened, RunView
from standfast.control import load
from standfast.events import RunHalted, RunLifted
from standfast.records import ENDED, LIVE

LABELS = {"team": "races"}
SIMPLE = ("look", "flaky", "tally", "owned", "deaf", "send", "traced", "write", "draft", "lock", "broken", "unwilling")
KINDS = (
    *SIMPLE,
    "write",
    "draft",
    "send",
    "send",
    "pay",
    "ask",
    "sleep",
    "child",
    "par",
    "swallow",
    "stray",
    "log",
    "idle",
)


@dataclass(slots=True)
class Said:
    """A verb and the answer to it, with its place in the world's order."""

    verb: str
    by: str
    args: dict[str, Any]
    answer: Answer
    n: int  # its place in the world's order


@dataclass(slots=True)
class Halted:
    """An operator's halt, with the places of its setting and its lifting in the world's order."""

    halt: Halt
    n: int
    lifted: int | None = None


@dataclass(slots=True)
class Story:
    """Everything the oracle needs to know of one run."""

    handle: Handle[Any]
    program: list[list[Op]]
    reads_mail: bool
    said: list[Said] = field(default_factory=list[Said])
    answers: dict[str, int] = field(default_factory=dict[str, int])  # question -> what was answered
    forks: list[tuple[Handle[Any], int]] = field(default_factory=list[tuple[Handle[Any], int]])
    halts: list[Halted] = field(default_factory=list[Halted])

    def accepted(self, *verbs: str) -> list[Said]:
        return [s for s in self.said if s.verb in verbs and isinstance(s.answer, Accepted)]


def program(rng: random.Random, *, steps: int, depth: int = 0) -> list[list[Op]]:
    """Some steps of some operations each."""
    numbers = iter(range(1, 1000))
    return [[_op(rng, numbers, depth) for _ in range(rng.choice((1, 1, 2, 3)))] for _ in range(steps)]


def _op(rng: random.Random, numbers: Any, depth: int) -> Op:
    do = rng.choice(KINDS)
    n = next(numbers)
    if do == "par":
        return Op(
            do=do, n=n, many=[Op(do=rng.choice((*SIMPLE, "pay")), n=next(numbers)) for _ in range(rng.choice((2, 3)))]
        )
    if do == "child":
        if depth:
            return Op(do="write", n=n)
        kinds = (*SIMPLE, "ask", "swallow")
        return Op(do=do, n=n, many=[Op(do=rng.choice(kinds), n=next(numbers)) for _ in range(rng.choice((1, 2)))])
    return Op(do=do, n=n)


class Chaos:
    """Plays one story to its end."""

    def __init__(self, sim: Sim, story: Story) -> None:
        self._sim = sim
        self._rng = sim.rng
        self.story = story
        self._count = 0
        self._halting = sim.halting

    @property
    def _world(self) -> World:
        return self._sim.world

    async def play(self) -> None:
        """Some verbs, crashes and freezes, then an ending."""
        rng = self._rng
        for _ in range(rng.choice((1, 2, 3, 5, 8))):
            await self._wait()
            if rng.random() < 0.25:
                await asyncio.gather(self._act(), self._act())
            else:
                await self._act()

    async def _wait(self) -> None:
        seconds = self._rng.choice((None, None, 0.0, 0.001, 0.01, 0.05, 0.2, 1.0, 3.0))
        if seconds is not None:
            await asyncio.sleep(seconds)
            return
        for _ in range(self._rng.randrange(12)):
            await asyncio.sleep(0)

    # --- verbs ---------------------------------------------------------------------------------------

    def _handle(self) -> Handle[Any]:
        """The run, through any of the processes."""
        return self._rng.choice(self._sim.nodes).handle(self.story.handle.id)

    async def say(self, verb: str, *args: Any, handle: Handle[Any] | None = None, **kwargs: Any) -> Answer:
        """Carry out a verb, and keep what was answered; sometimes it is sent twice."""
        self._count += 1
        by = f"{verb}-{self._count}"
        own = handle is None
        handle = handle or self._handle()
        options = {"by": by, **kwargs}
        if self._rng.random() < 0.15:
            options["request_id"] = f"{self.story.handle.id}/{by}"
        answer: Answer = await getattr(handle, verb)(*args, **options)
        if isinstance(answer, Accepted) and "request_id" in options:
            again = await getattr(handle, verb)(*args, **options)
            assert again == answer, f"{verb} with the same request id: {answer}, then {again}"
        n = next(s.n for s in reversed(self._world.seen) if s.what == "answer" and s.data == answer)
        self.story.said.append(Said(verb if own else f"child {verb}", by, {"args": args, **kwargs}, answer, n))
        return answer

    async def _act(self) -> None:
        rng = self._rng
        choices: list[tuple[int, Callable[[], Any]]] = [
            (4, lambda: self.say("pause")),
            (4, lambda: self.say("resume", accept_stale=rng.random() < 0.5)),
            (4, lambda: self.say("redirect", f"text {rng.random()}", when=rng.choice(("now", "now", "next")))),
            (2, lambda: self.say("redirect", f"back {rng.random()}", from_step=rng.randrange(4))),
            (2, lambda: self.say("message", f"hello {rng.random()}", when=rng.choice(("now", "next", "later")))),
            (1, lambda: self.say("edit", {"note": f"edit {rng.random()}"})),
            (2, lambda: self.say("rewind", rng.randrange(4))),
            (2, lambda: self.say("step_once")),
            (1, self.cancel),
            (4, self._decide),
            (1, self._fork),
            (4, self._crash),
            (2, self._freeze),
            (2, self._child),
        ]
        if self._halting:
            choices += [(5, self._halt), (4, self._lift), (3, self._halt_in_quiet)]
        weights = [weight for weight, _ in choices]
        await rng.choices([do for _, do in choices], weights)[0]()

    async def cancel(self) -> None:
        undo = self._rng.choice(("step", "step", "all", "none"))
        await self.say("cancel", undo, soft=self._rng.random() < 0.3)

    async def _crash(self) -> None:
        await self._rng.choice(self._sim.nodes).crash()

    async def _freeze(self) -> None:
        node = self._rng.choice(self._sim.nodes)
        task = asyncio.get_running_loop().create_task(node.freeze(self._rng.choice((0.5, 14.0, 30.0))))
        self._sim.keep(task)
        await asyncio.sleep(self._rng.choice((0.0, 1.0, 12.0)))

    # --- an operator ---------------------------------------------------------------------------------

    async def _halt(self, then: Any = None) -> Halted:
        """Halt all, an agent (the run's own, its children's, nobody's), or a label."""
        rng = self._rng
        what = rng.choice(({"all": True}, {"agent": "worker"}, {"agent": "helper"}, {"labels": LABELS}, {"agent": "x"}))
        then = then or ("cancel" if rng.random() < 0.1 else "pause")
        halt = await rng.choice(self._sim.nodes).halt(**what, then=then, reason="enough", by="operator")
        n = next(s.n for s in reversed(self._world.seen) if s.what == "answer" and s.data == halt)
        self.story.halts.append(Halted(halt, n))
        return self.story.halts[-1]

    async def _lift(self) -> None:
        holding = [h for h in self.story.halts if h.lifted is None]
        if holding:
            await self.lift(self._rng.choice(holding))

    async def lift(self, one: Halted) -> None:
        """Lift one; only the first to ask counts."""
        lifted = await self._rng.choice(self._sim.nodes).lift(one.halt.id, by="operator", reason="over")
        if one.lifted is None:
            one.lifted = next(s.n for s in reversed(self._world.seen) if s.what == "answer" and s.data == lifted)

    async def _halt_in_quiet(self) -> None:
        """A run that stands still when a halt comes and goes is held by what held it before."""
        before = await self._handle().view()
        acts = self._count
        one = await self._halt(then="pause")
        await self._wait()
        await self.lift(one)
        after = await self._handle().view()
        alone = self._count == acts and len([h for h in self.story.halts if h.lifted is None]) == 0
        if before.status == "paused" and alone and not self._others(one, before):
            assert (after.status, after.holds) == ("paused", before.holds), f"{before.holds} became {after}"

    def _others(self, one: Halted, before: RunView) -> list[Any]:
        """What else has happened to the run since `before`."""
        rows = self._sim.nodes[0].read(lambda tx: tx.record(load(tx, before.id).n, before.seq, 100_000))
        events = [event for _, found in rows for event in found]
        return [e for e in events if not (isinstance(e, RunHalted | RunLifted) and e.halt == one.halt.id)]

    async def _fork(self) -> None:
        try:
            step = self._rng.choice((None, 0, 1))
            fork = await self._handle().fork(at=step)
        except Misuse:
            return  # there is no such step
        except standfast.Halted:
            halted = any(s.what == "answer" and isinstance(s.data, Halt) for s in self._world.seen)
            assert halted, "a fork is refused as halted although nobody has halted anything"
            return
        self.story.forks.append((fork, (await fork.view()).step))

    async def _child(self) -> None:
        """A verb on a child alone."""
        views = await self._sim.nodes[0].list(agent="helper")
        mine = [v for v in views if v.parent == self.story.handle.id and v.status in LIVE]
        if mine:
            handle = self._rng.choice(self._sim.nodes).handle(self._rng.choice(mine).id)
            await self.say(self._rng.choice(("pause", "cancel", "resume")), handle=handle)

    async def _decide(self, handle: Handle[Any] | None = None, *, all_of_it: bool = False) -> bool:
        """Settle what only a person can; a person never says of a call what the world knows to be false."""
        target = handle or self._handle()
        view = await target.view()
        own = handle is None or handle.id == self.story.handle.id
        at = None if own else target
        did = False
        for need in view.needs:
            if need.call is None:
                continue
            if need.kind == "approval":
                args = () if self._rng.random() < 0.7 else ("no",)
                await self.say("deny" if args else "approve", need.call, *args, handle=at)
            elif need.kind == "question":
                value = self._rng.randrange(100)
                self.story.answers.setdefault(need.text, value)
                value = self.story.answers[need.text]
                await self.say("answer", need.call, value, handle=at)
            elif need.kind == "doubt":
                await self.say("resolve", need.call, self._truth(need.call, need.text), handle=at)
            did = True
            if not all_of_it:
                break
        return did

    def _truth(self, call: str, text: str) -> Any:
        if self._world.happened(call):
            return Happened(int(text.partition('"n":')[2].partition("}")[0]) * 10)
        if self._world.going(call):
            return CheckAgain()
        self._world.note("said_not", call, data=False)
        return NotHappened()

    # --- the ending -----------------------------------------------------------------------------------

    async def end(self, handle: Handle[Any]) -> None:
        """Help the run until it has ended: answer, decide, resume; sometimes cancel instead."""
        own = handle.id == self.story.handle.id
        if own and self._rng.random() < 0.35:
            await self.cancel()
        for turn in range(200):
            view = await handle.view()
            if view.status in ENDED:
                return
            if view.status == "cancelling" or not await self._help(handle, view):
                await asyncio.sleep(0.5 if turn < 100 else 20)
        raise AssertionError(f"run {handle.id} does not end: {view}")

    async def _help(self, handle: Handle[Any], view: RunView) -> bool:
        at = None if handle.id == self.story.handle.id else handle
        helped = await self._decide(handle, all_of_it=True)
        if view.status == "paused":
            if view.holds == ("waiting",):
                await self.say("message", "go on", handle=at)
            else:
                await self.say("resume", accept_stale=True, handle=at)
            helped = True
        for child in await self._sim.nodes[0].list(agent="helper", status="paused"):
            if child.parent == handle.id:
                helped = await self._help(self._sim.nodes[0].handle(child.id), child) or helped
        if helped:
            await asyncio.sleep(0.2)
        return helped


async def play(sim: Sim, nodes: list[Node]) -> Chaos:
    """One story, from start to ending, forks included."""
    rng = sim.rng
    steps = program(rng, steps=rng.choice((1, 2, 3, 3, 5)))
    reads_mail = rng.random() < 0.8
    handle = await nodes[0].start(worker, Work(program=steps, reads_mail=reads_mail), labels=LABELS)
    chaos = Chaos(sim, Story(handle, steps, reads_mail))
    await chaos.play()
    await sim.calm()
    for one in chaos.story.halts:
        await chaos.lift(one)
    await chaos.end(handle)
    for fork, _ in chaos.story.forks:
        await chaos.end(fork)
    await asyncio.sleep(15)  # whatever was left running shows itself
    return chaos
