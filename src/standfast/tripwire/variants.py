"""A secret text in every form in which it is looked for, prepared once."""

from __future__ import annotations

import base64
import codecs
from bisect import bisect_right
from collections.abc import Iterable, Iterator

from standfast.tripwire.folding import folded

GRAM = 20  # characters that are compared at once
_BITS_A_GRAM = 64
_GAP = "\0"  # between variants: no folded text has it


def variants(text: str) -> Iterator[tuple[str, str]]:
    """The names and folded texts of all forms."""
    yield "plain", folded(text)
    yield "reversed", folded(text[::-1])
    yield "rot13", folded(codecs.encode(text, "rot13"))
    data = text.encode("utf-8", "replace")
    yield "hex", folded(data.hex())
    for shift in range(3):
        yield "base64", folded(_base64(data, shift))


def _base64(data: bytes, shift: int) -> str:
    """As it looks behind `shift` other bytes and before any: without the characters that those decide."""
    encoded = base64.b64encode(bytes(shift) + data).decode()
    return encoded[4 if shift else 0 : -4 if (shift + len(data)) % 3 else None]


class Secret:
    """Answers in the same time, however long the secret is, whether 20 folded characters are part of it.

    A bitmap says no to nearly all that are not; what it lets through is looked up in the text itself, so the answer is
    exact. Eight bytes a gram, where a set of them would take two hundred.
    """

    def __init__(self, text: str, public: Iterable[str] = ()) -> None:
        forms = [(name, form) for name, form in variants(text) if len(form) >= GRAM]
        self.length = len(forms[0][1]) if forms and forms[0][0] == "plain" else 0  # of the plain form, folded
        self._text = _GAP.join(form for _, form in forms)
        self._names = [name for name, _ in forms]
        self._starts: list[int] = []
        at = 0
        for _, form in forms:
            self._starts.append(at)
            at += len(form) + len(_GAP)
        size = 1 << max(10, (len(self._text) * _BITS_A_GRAM).bit_length())
        self._mask = size - 1
        self._bits = bytearray(size >> 3)
        for _, form in forms:
            for gram in grams(form):
                place = hash(gram) & self._mask
                self._bits[place >> 3] |= 1 << (place & 7)
        self.public = frozenset(
            gram for one in public for _, form in variants(one) for gram in grams(form) if self.find(gram) >= 0
        )

    def find(self, gram: str, behind: int = -1, reach: int = 0) -> int:
        """Where this gram stands, -1 if it does not; looked for within `reach` behind a place first."""
        if reach and self._text.startswith(gram, behind + 1):
            return behind + 1
        place = hash(gram) & self._mask
        if not self._bits[place >> 3] >> (place & 7) & 1:
            return -1
        near = self._text.find(gram, behind + 1, behind + reach + GRAM) if reach else -1
        return near if near >= 0 else self._text.find(gram)

    def variant(self, place: int) -> str:
        """The form that stands there."""
        return self._names[bisect_right(self._starts, place) - 1]


def grams(text: str) -> Iterator[str]:
    """Every gram of a folded text."""
    return (text[at : at + GRAM] for at in range(len(text) - GRAM + 1))
