"""What commands say to people: answers on stdout, everything else on stderr."""

from __future__ import annotations

import json
import sys
from importlib import metadata

from standfast.errors import StandfastError


def tell(text: str) -> None:
    """A line of the answer."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def complain(problem: StandfastError | str) -> None:
    """What went wrong, and on a line of its own what to do about it."""
    hint = problem.hint if isinstance(problem, StandfastError) else ""
    text = problem.message if isinstance(problem, StandfastError) else problem
    sys.stdout.flush()
    sys.stderr.write(f"standfast: {text}\n" + (f"  {hint}\n" if hint else ""))
    sys.stderr.flush()


def complain_in_json(problem: StandfastError) -> None:
    """What went wrong, for programs: on stdout, where they read."""
    body = {"error": type(problem).__name__, "detail": problem.message, "hint": problem.hint}
    tell(json.dumps(body, ensure_ascii=False))


def version() -> str:
    """`standfast 0.1.0`."""
    return f"standfast {metadata.version('standfast')}"


def size(count: int) -> str:
    """`98 MB`."""
    for unit, bytes_ in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= bytes_:
            return f"{count / bytes_:.3g} {unit}"
    return f"{count} bytes"
