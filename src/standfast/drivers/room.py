"""How many more runs a process may take up: in all, and of one agent. Counted as runs come and go, never by walking."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping


class Room:
    """Places for runs. Those that only wait for a child or for time do not take one."""

    def __init__(self, concurrency: int | None, limits: Mapping[str, int | None]) -> None:
        self._concurrency = concurrency
        self._limits = limits
        self._agents: dict[str, str] = {}  # runs that are here, and their agents
        self._waiting: set[str] = set()
        self._taken: Counter[str] = Counter()  # places, by agent

    def enter(self, run: str, agent: str) -> None:
        """A run is being claimed or driven here."""
        if run not in self._agents:
            self._agents[run] = agent
            self._taken[agent] += 1

    def leave(self, run: str) -> None:
        """It is not any more."""
        agent = self._agents.pop(run, None)
        if agent is not None and run not in self._waiting:
            self._taken[agent] -= 1
        self._waiting.discard(run)

    def waits(self, run: str, waiting: bool) -> None:
        """A run only waits, or goes on: those that go on are not asked whether there is room."""
        agent = self._agents.get(run)
        if agent is None or waiting == (run in self._waiting):
            return
        self._taken[agent] += -1 if waiting else 1
        (self._waiting.add if waiting else self._waiting.discard)(run)

    def free(self, agent: str, at_most: int) -> int:
        """How many more of this agent, up to so many."""
        if self._concurrency is not None:
            at_most = min(at_most, self._concurrency - self._taken.total())
        limit = self._limits.get(agent)
        if limit is not None:
            at_most = min(at_most, limit - self._taken[agent])
        return max(at_most, 0)
