"""A stop that the store could not take: what it stops, and what whoever asked is answered meanwhile (R34).

It holds in this process from the moment it was asked for, and is written as soon as that is possible.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from standfast.errors import StoreFailed
from standfast.records import Mode, Refused

T = TypeVar("T")

NOT_RECORDED: Final = "storage: nothing new starts in this process; not recorded yet"
HELD_HERE: Final = "storage: not recorded yet, but holds in this process: "


@dataclass(frozen=True, slots=True)
class Unwritten(Generic[T]):
    """A stop of a run and what lives below it, or of every run that matches."""

    mode: Mode
    answer: T | Exception
    run: str | None = None
    agent: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    verb: str = ""  # of a run's stop: a take-over shuts the gate as a pause does, and is something else

    @property
    def what(self) -> tuple[object, ...]:
        """Stops that are the same are kept once, however often they are asked for."""
        return self.mode, self.verb, self.run, self.agent, tuple(sorted(self.labels.items()))

    @property
    def words(self) -> str:
        """Which stop it is, for a log."""
        if self.run is not None:
            return f"{self.verb or self.mode} of run {self.run}"
        meant = [f"agent {self.agent}"] if self.agent is not None else []
        meant += [f"label {name}={value}" for name, value in sorted(self.labels.items())]
        return f"halt ({self.mode}) of {', '.join(meant) or 'all runs'}"

    def waits(self, trouble: str) -> str:
        """What a run that it holds waits for."""
        told = f"halt ({self.mode})" if self.run is None else self.verb or self.mode
        return f"{HELD_HERE}{told.replace('_', ' ')}" + (f"; {trouble}" if trouble else "")


def not_recorded() -> Refused:
    """The answer to a verb: it has no place in the record yet, and so is not accepted."""
    return Refused(NOT_RECORDED)


def halt_not_recorded() -> StoreFailed:
    """The same for a halt."""
    return StoreFailed(
        NOT_RECORDED, hint="it is recorded, with the time it was asked for, once the disk takes it: free space"
    )
