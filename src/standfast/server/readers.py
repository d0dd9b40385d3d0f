"""How many sockets and streams are open: so many for one actor, so many in all. Verbs need none of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager

from standfast.server.actors import Actor
from standfast.server.problems import Problem

MOST_OF_ONE = 500  # a link may be opened by many people
MOST = 2_000


class Readers:
    """Whoever has a socket or a stream open."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()

    def check(self, actor: Actor) -> None:
        """Problem if one more would be too many."""
        if self._open[_key(actor)] >= MOST_OF_ONE:
            why = f"{actor.name} has {MOST_OF_ONE} sockets and streams open"
        elif self._open.total() >= MOST:
            why = f"{MOST} sockets and streams are open here"
        else:
            return
        raise Problem(429, why, "close some; pause, cancel and force go by POST", headers={"retry-after": "10"})

    @contextmanager
    def one_more(self, actor: Actor) -> Generator[None]:
        """Counted for as long as it is open."""
        key = _key(actor)
        self._open[key] += 1
        try:
            yield
        finally:
            self._open[key] -= 1
            if not self._open[key]:
                del self._open[key]


def _key(actor: Actor) -> str:
    return actor.token or actor.name
