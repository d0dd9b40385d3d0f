"""What commands say to people: answers on stdout, everything else on stderr."""

from __future__ import annotations

import json
import sys
from importlib import metadata

from standfast.cli.colours import Tinted, has_colours, painted
from standfast.errors import StandfastError
from standfast.odd_text import for_terminal, json_for_terminal


def tell(text: str) -> None:
    """A line of the answer. Words of models and strangers in it make no other line, and steer nothing."""
    shown = for_terminal(text)
    if isinstance(text, Tinted) and has_colours(sys.stdout):
        shown = for_terminal(text[: text.start]) + painted(for_terminal(text[text.start :]), text.colour)
    sys.stdout.write(f"{shown}\n")
    sys.stdout.flush()


def tell_json(text: str) -> None:
    """A JSON value, for programs."""
    sys.stdout.write(f"{json_for_terminal(text)}\n")
    sys.stdout.flush()


def complain(problem: StandfastError | str, *more: str) -> None:
    """What went wrong, and on lines of their own what there is to say beside it and what to do about it."""
    hint = [f"  {problem.hint}"] if isinstance(problem, StandfastError) and problem.hint else []
    text = problem.message if isinstance(problem, StandfastError) else problem
    sys.stdout.flush()
    for line in (f"standfast: {text}", *more, *hint):
        sys.stderr.write(f"{for_terminal(line)}\n")
    sys.stderr.flush()


def complain_in_json(problem: StandfastError) -> None:
    """What went wrong, for programs: on stdout, where they read."""
    body = {"error": type(problem).__name__, "detail": problem.message, "hint": problem.hint}
    tell_json(json.dumps(body, ensure_ascii=False))


def version() -> str:
    """`standfast 0.1.0`."""
    return f"standfast {metadata.version('standfast')}"


def size(count: int) -> str:
    """`98 MB`."""
    for unit, bytes_ in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= bytes_:
            return f"{count / bytes_:.3g} {unit}"
    return f"{count} bytes"
