"""The exit codes of a verb's answers; those of errors are in `codes.py`, for commands that know no runs."""

from __future__ import annotations

from standfast.cli.codes import Code
from standfast.records import Accepted, Answer, Refused


def code_of_answer(answer: Answer) -> Code:
    """The exit code of a verb's answer."""
    if isinstance(answer, Accepted):
        return Code.OK
    return Code.REFUSED if isinstance(answer, Refused) else Code.TOO_LATE
