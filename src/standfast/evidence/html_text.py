"""Text of strangers on a page: nothing of it becomes markup, or hides or turns round what is beside it."""

from __future__ import annotations

import html
from datetime import UTC, datetime

from standfast.odd_text import ODD, named, plain


def safe(text: object) -> str:
    """The text as HTML, in an element or in quotes."""
    return html.escape(plain(text), quote=True)


def body(text: str) -> str:
    """Longer text as HTML; odd characters stand out."""
    parts: list[str] = []
    last = 0
    for found in ODD.finditer(text):
        parts += [html.escape(text[last : found.start()]), f'<span class="odd">{named(found)}</span>']
        last = found.end()
    return "".join([*parts, html.escape(text[last:])])


def when(at: float) -> str:
    """A wall time as people read it, to the millisecond."""
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + " UTC"
    except (OverflowError, OSError, ValueError):
        return f"{at!r} s"


def seconds(value: float | None) -> str:
    """A difference: +12.3 ms, -4.56 s."""
    if value is None:
        return "not known"
    return f"{value * 1000:+.1f} ms" if abs(value) < 1 else f"{value:+.2f} s"
