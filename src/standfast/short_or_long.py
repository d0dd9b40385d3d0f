"""Whether a match of a pattern may be short although much more of a text had to be read to know that.

RE2 reads a text once for each match. `pw(?:.*end)?` reads to the end of the text and then takes two letters; at the
next two it does so again. Where every repeat without end stands in the pattern itself, neither optional nor repeated
nor one of several choices, that cannot be: what was read in vain for one match does not hold the next one.
"""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"\\Q|\\x\{\w*\}|\\[pP]\{\w*\}|\\.|\[\^?\]?(?:\\.|\[:\w*:\]|[^\]\\])*\]|\(\?P?<\w+>|\(\?[\w-]*:|\(\?[\w-]*\)|.",
    re.DOTALL,
)
_REPEAT = re.compile(r"([*+?]|\{\d+(?:,\d*)?\})\??")


def may_be_both(pattern: str) -> bool:
    """May it? What is not understood here may."""
    groups = [_Group()]
    at = 0
    while at < len(pattern):
        found = _TOKEN.match(pattern, at)
        if found is None or found[0] == r"\Q":
            return True
        token, at = found[0], found.end()
        if token == "|":
            groups[-1].choices = True
        elif token.startswith("(") and not token.endswith(")"):
            groups.append(_Group())
        elif not token.startswith("(?"):  # those set flags
            ended = _Group()
            if token == ")":
                ended = groups.pop()
                if not groups:
                    return True
            repeat = _REPEAT.match(pattern, at)
            at = at if repeat is None else repeat.end()
            if ended.endless and (ended.choices or not _is_taken_as_it_stands(repeat)):
                return True
            groups[-1].endless |= ended.endless or (repeat is not None and _is_endless(repeat[1]))
    return len(groups) != 1 or (groups[0].endless and groups[0].choices)


class _Group:
    """What was seen of a group so far."""

    __slots__ = ("choices", "endless")

    def __init__(self) -> None:
        self.choices = False
        self.endless = False


def _is_taken_as_it_stands(repeat: re.Match[str] | None) -> bool:
    """So many times, no more and no less: as if it were written out."""
    return repeat is None or (repeat[1].startswith("{") and "," not in repeat[1])


def _is_endless(repeat: str) -> bool:
    return repeat in ("*", "+") or repeat.endswith(",}")
