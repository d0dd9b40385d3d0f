"""What every event of the record has, and what some kinds of them have besides."""

from __future__ import annotations

from dataclasses import dataclass

from standfast.records import Moment


@dataclass(slots=True, kw_only=True)
class Recorded:
    seq: int = 0
    at: float = 0.0
    run: str = ""  # filled in when read: the record itself belongs to one run


@dataclass(slots=True, kw_only=True)
class ByPerson(Recorded):
    """What somebody did: `by` says who, `route` by which way they came (a path of the server, a command)."""

    route: str = ""
    by_token: str = ""  # the token that a server was shown for it; empty: `by` is what they called themselves


@dataclass(slots=True, kw_only=True)
class Stamped(Recorded):
    """An event of a stop: beside its time, the seconds since its machine was started, and which start that was."""

    uptime: float | None = None
    boot: str | None = None


@dataclass(slots=True, kw_only=True)
class Asking(ByPerson):
    """The commit with which a stop holds, stamped too; `asked` is when somebody, or something, asked for it."""

    asked: Moment | None = None
    accepted: Moment | None = None  # for one that no store could take then: since when it held in the process asked
    uptime: float | None = None
    boot: str | None = None
