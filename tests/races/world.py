"""The world outside the runs: it sees every body, every effect and every undo, in one order."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Seen:
    """One thing the world saw: start, effect, finish, cut, undo, undone, said_not, or a verb's answer."""

    n: int
    at: float
    what: str
    key: str
    tool: str = ""
    data: Any = None


@dataclass(slots=True)
class World:
    """Outside every process: survives crashes, is asked by probes and by the oracle."""

    rng: random.Random
    now: Callable[[], float]
    seen: list[Seen] = field(default_factory=list[Seen])
    by_key: dict[str, list[Seen]] = field(default_factory=dict[str, list[Seen]])
    bodies: list[Body] = field(default_factory=list["Body"])

    def note(self, what: str, key: str, tool: str = "", data: Any = None) -> None:
        one = Seen(len(self.seen), self.now(), what, key, tool, data)
        self.seen.append(one)
        self.by_key.setdefault(key, []).append(one)

    def of(self, key: str, *what: str) -> list[Seen]:
        return [s for s in self.by_key.get(key, ()) if s.what in what]

    def happened(self, key: str) -> bool:
        return bool(self.of(key, "effect"))

    def going(self, key: str) -> bool:
        """Is a body of this key still running in a process that lives?"""
        return any(b.key == key and b.open and b.alive for b in self.bodies)


class Process:
    """A process as its tools know it."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.life = 0


class Body:
    """One body of one call. What it does after its process has died never reaches the world."""

    def __init__(self, process: Process, tool: str, key: str, first: str = "start") -> None:
        self._process = process
        self._life = process.life
        self._tool = tool
        self.key = key
        self.open = True
        process.world.bodies.append(self)
        self.see(first)

    @property
    def alive(self) -> bool:
        return self._life == self._process.life

    def see(self, what: str) -> None:
        if self.alive:
            self._process.world.note(what, self.key, self._tool, self._process.name)

    def end(self, what: str) -> None:
        self.see(what)
        self.open = False
