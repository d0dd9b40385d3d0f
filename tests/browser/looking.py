"""What tests look at on the page."""

from __future__ import annotations

import itertools
from typing import Any

from tests.browser.serving import Server

_names = itertools.count()


def word(page: Any) -> Any:
    """The state word of the bar."""
    return page.locator("standfast-bar .word")


def control(page: Any, name: str) -> Any:
    """A control of the bar, by its slot: pause, redirect, cancel, force."""
    return page.locator(f"standfast-bar #{name}")


def a_memo(server: Server, at: str = "explain") -> tuple[str, str]:
    """A memo run that waits at a call, and the prefix of its doors."""
    doors = f"memo{next(_names)}"
    if at in ("explain", "write_draft"):
        server.open_door(f"{doors}-fetch")
    if at == "write_draft":
        server.open_door(f"{doors}-score")
    run = server.begin("memo", {"month": "May", "doors": doors}, labels={"team": "growth"})
    server.until_calls(run, at)
    return run, doors


def let_it_end(server: Server, doors: str) -> None:
    for door in ("fetch", "score", "write"):
        server.open_door(f"{doors}-{door}")
