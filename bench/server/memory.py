"""What server and page keep of what is said."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from bench.server.agents import WORD
from bench.server.browser import heap, open_page, see
from bench.server.served import LIMIT, server, until

TOKENS = 100_000
RATE = 4_000  # a second


@dataclass(frozen=True)
class Kept:
    """Bytes kept after a tenth of the tokens, and after all of them."""

    title: str
    said: int  # bytes of text from the one to the other
    server: tuple[int, int]
    worker: tuple[int, int]
    page: tuple[int, int]


def kept(directory: Path, title: str, calls: int, tokens: int) -> Kept:
    """One run that says `tokens` in `calls` calls while a page looks at it."""
    with server(directory) as one, open_page(one) as page:
        run = one.start("talker", calls=calls, tokens=tokens // calls, a_second=RATE)
        see(page, one, run)
        session = page.context.new_cdp_session(page)

        def look() -> tuple[int, int, int]:
            return one.memory(), one.worker_memory(), heap(page, session)

        end = time.monotonic() + tokens / RATE * 20 + LIMIT
        until(lambda: _said(one.http.get(f"/api/runs/{run}/transcript").json()) >= tokens // 10, "a tenth is said")
        first, at_first = look(), _said(one.http.get(f"/api/runs/{run}/transcript").json())
        until(lambda: one.view(run)["status"] == "done", "all is said", end - time.monotonic())
        last = look()
    said = (tokens - at_first) * len(WORD)
    return Kept(title, said, *((before, after) for before, after in zip(first, last, strict=True)))


def _said(transcript: dict[str, list[dict[str, str]]]) -> int:
    return sum(len(each["text"]) for each in transcript["transcript"]) // len(WORD)
