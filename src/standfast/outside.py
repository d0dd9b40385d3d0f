"""What a verb has to find out, and that may take long, is found out while the store is free for others.

A verb learns inside its transaction what there is to check: a schema, the state it would change. It does not check it
there: it is rolled back, the work is done in a thread of its own, and the verb is carried out again, with what came of
it. Stops have no such work, so they wait for nobody's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, TypeVar

T = TypeVar("T")

MOST_TRIES = 5  # then somebody else changes what is checked each time


class Unfinished(Exception):  # noqa: N818 - a fact, which is not reported to anybody
    """Roll back, have this work done, and begin again."""

    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__("something is to be found out outside of the transaction")
        self.work = work


@dataclass(frozen=True, slots=True)
class _Outcome:
    value: Any = None
    error: Exception | None = None


class Outside:
    """What one verb has found out, over all its tries."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[bytes, _Outcome] = {}

    def found(self, work: Callable[[], T], *about: bytes) -> T:
        """In a transaction: what `work` returns or raises, which depends on `about` alone; raises Unfinished."""
        key = b"".join(sha256(one).digest() for one in about)
        outcome = self._known.get(key)
        if outcome is None:
            raise Unfinished(lambda: self._learn(key, work))
        if outcome.error is not None:
            raise outcome.error
        value: T = outcome.value
        return value

    def _learn(self, key: bytes, work: Callable[[], Any]) -> None:
        try:
            self._known[key] = _Outcome(work())
        except Exception as error:  # noqa: BLE001 - it is the verb's, and raised there
            self._known[key] = _Outcome(error=error)
