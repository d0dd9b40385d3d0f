"""Characters that steer a terminal, or turn round or hide what is beside them: named, so that they show."""

from __future__ import annotations

import re
import unicodedata

# Controls, what turns the direction of text, what has no width, and halves of characters.
ODD = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)

# Those of them that a terminal obeys. What only has no width is part of ordinary words and emoji.
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def named(found: re.Match[str]) -> str:
    """What stands for an odd character."""
    return f"[U+{ord(found[0]):04X} {unicodedata.name(found[0], 'control').lower()}]"


def mended(text: str) -> str:
    """The text as it can be stored: halves of characters become replacement characters."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def plain(text: object) -> str:
    """The text with every odd character named."""
    return ODD.sub(named, str(text))


def one_line(text: object) -> str:
    """The same, and no line break or tab in it makes a line or a column of its own."""
    return plain(text).replace("\t", "[U+0009 control]").replace("\n", "[U+000A control]")


def for_terminal(text: str) -> str:
    """Text for a terminal: nothing in it steers, and whatever comes after a line break is set in."""
    return STEERING.sub(named, text.replace("\r\n", "\n")).replace("\n", "\n    ")


def json_for_terminal(text: str) -> str:
    """JSON that says the same, with nothing in it that steers."""
    return STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
