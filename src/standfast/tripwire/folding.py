"""Text as the tripwire compares it: the same for every case, spacing, punctuation, accent, width and leet spelling.

Each character, once read, is folded by itself, so that it does not matter how a stream is cut into pieces. What stands
in a line before its first letter (bullets, numbers of a list) is formatting, and left out.
"""

from __future__ import annotations

import unicodedata

from standfast.tripwire.reading import as_read

_LEET = {"0": "o", "1": "i", "2": "z", "3": "e", "4": "a", "5": "s", "6": "g", "7": "t", "8": "b", "9": "g"}
_SIGNS = {"@": "a", "$": "s", "€": "e", "£": "l"}  # that stand for letters; others are left out with the punctuation
_SMALL_CAPITALS = dict(zip("ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘꞯʀꜱᴛᴜᴠᴡʏᴢ", "abcdefghijklmnopqrstuvwyz", strict=True))
_LOOKALIKES = dict(zip("аеіјорсухѕԁɡһοαικνρτυχ", "aeijopcyxsdghoaiknptux", strict=True))  # Cyrillic, Greek, phonetic
_SQUARES = {chr(first + n): chr(97 + n) for first in (0x1F150, 0x1F170, 0x1F1E6) for n in range(26)}  # white on black
_ONE = {**_LEET, **_SIGNS, **_SMALL_CAPITALS, **_LOOKALIKES, **_SQUARES}


class _Folds(dict[str, str]):
    """Characters and what they are folded to, found out once each."""

    def __missing__(self, character: str) -> str:
        folded = self[character] = _fold(character)
        return folded


def _fold(character: str) -> str:
    plain = unicodedata.normalize("NFKD", _ONE.get(character, character)).casefold()
    # casefold may undo what NFKD did, and the other way round: once more, as Unicode's caseless matching does
    plain = "".join(_ONE.get(one, one) for one in unicodedata.normalize("NFKD", plain))
    return "".join(
        "i" if one == "l" else one for one in plain if one.isalnum()
    )  # 1, i and l are written for each other


FOLDS = _Folds()


def folded(text: str) -> str:
    """The text as it is compared."""
    return "".join("".join(map(FOLDS.__getitem__, _behind_its_number(line))) for line in as_read(text).split("\n"))


def is_letter(character: str) -> bool:
    """Is it one, also in a circle or a square? Digits are none, though they may stand for one."""
    if character.isalpha() or character in _SQUARES:
        return True
    return not character.isascii() and any(one.isalpha() for one in unicodedata.normalize("NFKD", character))


def _behind_its_number(line: str) -> str:
    first = next((at for at, character in enumerate(line) if is_letter(character)), len(line))
    return line[first:]
