"""What readers of a store need, read in threads of their own: a slow look never delays a verb."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from standfast.abc import Tx
from standfast.control import load
from standfast.errors import StoreError, UnknownRun
from standfast.records import ENDED, RunView, Status
from standfast.rights import Scope
from standfast.runtime import Runtime
from standfast.views import readable_view

T = TypeVar("T")

MOST_SEARCHED = 2_000  # runs that a search by text looks through, newest first
PAGE = 200
KEPT_VIEWS = 2_000
MOST_IN_A_PAGE = 1_000  # runs, events or stops in one answer
LONGEST_SEARCH = 200  # characters that runs are looked for by


@dataclass(frozen=True, slots=True)
class Filter:
    """Which runs of the list are wanted."""

    status: tuple[Status, ...] | None = None
    agent: str | None = None
    labels: tuple[tuple[str, str], ...] = ()
    needs: bool | None = None
    text: str = ""
    limit: int = 100
    before: str | None = None
    scope: Scope | None = None  # of whoever asks


class Reader:
    """Looks at the store from a few threads, which have connections of their own."""

    def __init__(self, runs: Runtime, threads: int = 2) -> None:
        self.runs = runs
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="standfast-read")
        self._closed = False
        self._ended: dict[str, RunView] = {}  # runs that no longer change

    async def read(self, look: Callable[[Tx], T]) -> T:
        """One consistent look."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, self.runs.read, look)
        except RuntimeError:
            if not self._closed:
                raise
            raise StoreError("the server is going down", hint="ask again when it is back") from None

    async def view(self, run: str) -> RunView:
        """A run, or UnknownRun."""
        doing = self.runs.doing(run)
        now = self.runs.clock.now()

        def look(tx: Tx) -> RunView:
            row = load(tx, run)
            return readable_view(tx, (row.id, row.agent, row.status), now, doing)

        return await self.read(look)

    async def found(self, wanted: Filter) -> list[RunView]:
        """Runs, newest first."""

        def look(tx: Tx) -> list[RunView]:
            return self._found(tx, wanted)

        try:
            return await self.read(look)
        except UnknownRun:  # there is no store yet, and so no run
            return []

    def _found(self, tx: Tx, wanted: Filter) -> list[RunView]:
        found: list[RunView] = []
        before, searched, text = wanted.before, 0, wanted.text.casefold()
        now = self.runs.clock.now()
        while len(found) < wanted.limit and searched < MOST_SEARCHED:
            named = tx.list_runs(
                status=wanted.status,
                agent=wanted.agent,
                labels=dict(wanted.labels) or None,
                needs=wanted.needs,
                limit=PAGE if text else wanted.limit,
                before=before,
                scope=wanted.scope,
            )
            if not named:
                break
            views = [self._view(tx, each, now) for each in named]
            found += [view for view in views if not text or text in _words(view)]
            before, searched = named[-1][0], searched + len(named)
            if not text:
                break
        return found[: wanted.limit]

    def _view(self, tx: Tx, named: tuple[str, str, Status], now: float) -> RunView:
        id_, _, status = named
        kept = self._ended.get(id_)
        if kept is not None:
            return kept
        view = readable_view(tx, named, now, self.runs.doing(id_))
        if status in ENDED and not view.error.startswith("StoreDamaged"):
            if len(self._ended) >= KEPT_VIEWS:
                self._ended.clear()
            self._ended[id_] = view
        return view

    def forget(self, run: str) -> None:
        """Something was said to a run that had ended: read it again."""
        self._ended.pop(run, None)

    def close(self) -> None:
        """Nobody looks any more."""
        self._closed = True
        self._pool.shutdown(wait=True, cancel_futures=True)


def _words(view: RunView) -> str:
    """What a search by text looks at."""
    parts: Sequence[Any] = (
        view.id,
        view.agent,
        view.status,
        view.waiting_for,
        view.error,
        *view.labels.keys(),
        *view.labels.values(),
        *(item.title for item in view.plan),
        *(need.words for need in view.needs),
    )
    return "\n".join(map(str, parts)).casefold()
