"""Which runs the list shows, as one line of words: `agent:memo status:live team=growth invoice`."""

from __future__ import annotations

from typing import Final, get_args

from standfast.cli.access import Wanted
from standfast.records import ENDED, LIVE, Status

GROUPS: Final[dict[str, tuple[Status, ...]]] = {"live": LIVE, "ended": ENDED}
HELP: Final = "words, agent:NAME, status:live (ended, paused ...), needs, label=value"


def wanted(line: str, limit: int = 200) -> Wanted:
    """What a person means by it; words that mean nothing special are searched for."""
    status: tuple[Status, ...] = ()
    agent: str | None = None
    needs: bool | None = None
    labels: dict[str, str] = {}
    words: list[str] = []
    for word in line.split():
        name, colon, value = word.partition(":")
        label, equals, text = word.partition("=")
        if name == "agent" and value:
            agent = value
        elif name == "status" and (value in GROUPS or value in get_args(Status)):
            status = (*status, *(GROUPS[value] if value in GROUPS else (_status(value),)))
        elif word == "needs":
            needs = True
        elif label and equals and text and not colon:
            labels[label] = text
        else:
            words.append(word)
    return Wanted(status, agent, labels or None, needs, " ".join(words), limit)


def _status(value: str) -> Status:
    return next(one for one in (*LIVE, *ENDED) if one == value)
