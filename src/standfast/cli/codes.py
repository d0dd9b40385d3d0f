"""Exit codes: what a script learns without reading a word."""

from __future__ import annotations

from enum import IntEnum

from standfast.errors import Halted, Misuse, StandfastError, StoreError


class Code(IntEnum):
    """How a command ended."""

    OK = 0  # accepted, done, or shown
    ERROR = 1  # it makes no sense, or something broke
    USAGE = 2  # the command line cannot be read
    REFUSED = 3  # the run says no: nothing was changed
    TOO_LATE = 4  # the run had already ended, or was ending
    HELD = 5  # the run is paused and will not go on by itself
    UNREACHABLE = 6  # the store or the server cannot be reached
    CANCELLED = 7  # the run that was waited for was cancelled
    FAILED = 8  # the run that was waited for failed
    UNPROVED = 9  # what was to be verified holds together, but not everything is proved
    BROKEN = 10  # what was to be verified is not what was written
    INTERRUPTED = 130  # Ctrl-C


class Unreachable(StandfastError):  # noqa: N818 - errors are named by the fact they state
    """The store or the server could not be reached; nothing was changed."""


class Hidden(Unreachable):
    """The run is there, but not for this token to look at; nothing was changed."""


class Over(Misuse):
    """What was asked of a run makes no sense any more: it has ended. Nothing was changed."""


def code_of_error(error: StandfastError) -> Code:
    """The exit code of an error."""
    if isinstance(error, Over):
        return Code.TOO_LATE
    if isinstance(error, Halted):
        return Code.REFUSED
    return Code.UNREACHABLE if isinstance(error, StoreError | Unreachable) else Code.ERROR
