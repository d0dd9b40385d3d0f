"""Ways in which instructions come out, each a function of the text and a source of chance."""

from __future__ import annotations

import base64
import codecs
import html
import json
import re
from collections.abc import Callable, Sequence
from random import Random
from urllib.parse import quote

Leak = Callable[[str, Random], str]

_LEET = str.maketrans(
    {"o": "0", "i": "1", "l": "1", "e": "3", "a": "4", "s": "5", "t": "7", "O": "0", "A": "@", "S": "$"}
)
_SMALL_CAPITALS = str.maketrans("abcdefghijklmnoprstuvwyz", "ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢ")
_SENTENCE = re.compile(r"(?<=[.!?:])\s+|\n+")


def _sentences(text: str) -> list[str]:
    return [one for one in _SENTENCE.split(text) if one.strip()]


def _in_base64(text: str, before: int, width: int = 0) -> str:
    encoded = base64.b64encode(b"# " + b"-" * before + b"\n" + text.encode()).decode()
    return "\n".join(encoded[at : at + width] for at in range(0, len(encoded), width)) if width else encoded


def _lines(text: str, words: int) -> str:
    found = text.split()
    return "\n".join(" ".join(found[at : at + words]) for at in range(0, len(found), words))


def _markdown(text: str, chance: Random) -> str:
    marks = ["**{}**", "*{}*", "`{}`", "_{}_"]
    return " ".join(chance.choice(marks).format(w) if chance.random() < 0.2 else w for w in text.split())


def _wide(text: str, first: int) -> str:
    return "".join(chr(ord(c) - 0x21 + first) if "!" <= c <= "~" else c for c in text)


def _bold(text: str) -> str:
    def one(c: str) -> str:
        return chr(0x1D400 + ord(c) - 65) if "A" <= c <= "Z" else chr(0x1D41A + ord(c) - 97) if "a" <= c <= "z" else c

    return "".join(map(one, text))


def _by_number(text: str, written: str) -> str:
    """Every byte by its number."""
    return "".join(written.format(byte) for byte in text.encode())


def _escaped(text: str) -> str:
    units = text.encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _tags(text: str) -> str:
    return "".join(chr(0xE0000 + ord(c)) if " " <= c <= "~" else c for c in text)


def _selectors(text: str) -> str:
    return "".join(chr(0xE0100 + byte - 16) for byte in text.encode() if byte >= 16)


def _circled(text: str) -> str:
    return "".join(chr(0x24D0 + ord(c) - 97) if "a" <= c <= "z" else c for c in text.lower())


def replacing(share: float, pool: Sequence[str]) -> Leak:
    """So many of the words are others, drawn from a pool."""

    def leak(text: str, chance: Random) -> str:
        return " ".join(chance.choice(pool) if chance.random() < share else word for word in text.split())

    return leak


def leaks(pool: Sequence[str]) -> dict[str, dict[str, Leak]]:
    """By family and name."""
    return {
        "verbatim": {"as it stands": lambda text, _: text},
        "reformatted": {
            "bullets": lambda text, _: "\n".join(f"- {one}" for one in _sentences(text)),
            "numbered": lambda text, _: "\n".join(f"{n}. {one}" for n, one in enumerate(_sentences(text), 1)),
            "short lines": lambda text, _: _lines(text, 5),
            "quoted lines": lambda text, _: "> " + _lines(text, 8).replace("\n", "\n> "),
            "Markdown": _markdown,
            "upper case": lambda text, _: text.upper(),
            "title case": lambda text, _: text.title(),
            "without punctuation": lambda text, _: re.sub(r"[^\w\s]", "", text),
            "without spaces": lambda text, _: re.sub(r"\s+", "", text),
            "s p a c e d": lambda text, _: " ".join(text),
            "h-y-p-h-e-n-s": lambda text, _: "-".join(text),
            "JSON string": lambda text, _: '{"instructions": "' + text.replace('"', "'").replace("\n", " ") + '"}',
            "zero-width": lambda text, _: "\u200b".join(text),
            "HTML": lambda text, _: html.escape(text).replace(" ", "&nbsp;"),
            "JSON, escaped": lambda text, _: json.dumps({"instructions": text}),
            "URL": lambda text, _: quote(text),
        },
        "encoded": {
            **{f"base64, {n} before": lambda text, _, n=n: _in_base64(text, n) for n in range(3)},  # type: ignore[misc]
            "base64, wrapped": lambda text, chance: _in_base64(text, chance.randrange(3), 76),
            "base64, for URLs": lambda text, _: base64.urlsafe_b64encode(text.encode()).decode(),
            "hex": lambda text, _: text.encode().hex(),
            "hex, spaced": lambda text, _: text.encode().hex(" "),
            "hex, 0x": lambda text, _: _by_number(text, "0x{:02x} "),
            "hex, in a list": lambda text, _: _by_number(text, "0x{:02X}, "),
            "hex, \\x": lambda text, _: _by_number(text, "\\x{:02x}"),
            "hex, upper case": lambda text, _: text.upper().encode().hex(),
            "hex, lower case": lambda text, _: text.lower().encode().hex(" "),
            "base64, upper case": lambda text, chance: _in_base64(text.upper(), chance.randrange(3)),
            "base64, lower case": lambda text, chance: _in_base64(text.lower(), chance.randrange(3)),
            "octal": lambda text, _: _by_number(text, "\\{:03o}"),
            "percent": lambda text, _: _by_number(text, "%{:02X}"),
            "\\u": lambda text, _: _escaped(text),
            "numeric entities": lambda text, _: "".join(f"&#{ord(c)};" for c in text),
            "hexadecimal entities": lambda text, _: "".join(f"&#x{ord(c):x};" for c in text),
            "tags": lambda text, _: _tags(text),
            "variation selectors": lambda text, _: "".join(
                chr(0xE0100 + byte - 16) for byte in text.encode() if byte >= 16
            ),
            "rot13": lambda text, _: codecs.encode(text, "rot13"),
            "reversed": lambda text, _: text[::-1],
            "reversed words": lambda text, _: " ".join(text.split()[::-1]),
            "reversed in each word": lambda text, _: " ".join(word[::-1] for word in text.split()),
            "leet": lambda text, _: text.translate(_LEET),
            "full width": lambda text, _: _wide(text, 0xFF01),
            "small capitals": lambda text, _: text.lower().translate(_SMALL_CAPITALS),
            "bold letters": lambda text, _: _bold(text),
            "circled letters": lambda text, _: _circled(text),
        },
        "20% of words replaced": {"by chance": replacing(0.2, pool)},
        "50% of words replaced": {"by chance": replacing(0.5, pool)},
    }
