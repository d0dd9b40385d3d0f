"""A secret text in every form in which it is looked for, prepared once."""

from __future__ import annotations

import base64
import codecs
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator

from standfast.tripwire.folding import folded

GRAM = 20  # characters that are compared at once
_SLOTS_A_GRAM = 2
_GAP = "\0"  # between variants: no folded text has it


def variants(text: str) -> Iterator[tuple[str, str]]:
    """The names and folded texts of all forms."""
    words = text.split()
    yield "plain", folded(text)
    yield "reversed", folded(text[::-1])
    yield "reversed words", folded(" ".join(words[::-1]))
    yield "reversed words", folded(" ".join(word[::-1] for word in words))
    yield "rot13", folded(codecs.encode(text, "rot13"))
    for case in dict.fromkeys((text, text.upper(), text.lower())):  # what is encoded has no case that could be folded
        data = case.encode("utf-8", "replace")
        yield "hex", folded(data.hex())
        for shift in range(3):
            yield "base64", folded(_base64(data, shift))


def _base64(data: bytes, shift: int) -> str:
    """As it looks behind `shift` other bytes and before any: without the characters that those decide."""
    encoded = base64.b64encode(bytes(shift) + data).decode()
    return encoded[4 if shift else 0 : -4 if (shift + len(data)) % 3 else None]


class Secret:
    """Answers in the same time, however long the secret is, whether 20 folded characters are part of it.

    Each gram is found by its hash in a table of places, and compared with the text that stands there, so the answer is
    exact. Nine bytes a gram, where a set of them would take two hundred.
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
        self._size = len(self._text) * _SLOTS_A_GRAM + 1
        self._table = array("I", bytes(4 * self._size))  # one more than the place; 0: none
        for start, (_, form) in zip(self._starts, forms, strict=True):
            self._enter(form, start)
        self.public = frozenset(
            gram for one in public for _, form in variants(one) for gram in grams(form) if self.find(gram) >= 0
        )

    def _enter(self, form: str, start: int) -> None:
        text, table, size = self._text, self._table, self._size
        for place, gram in enumerate(grams(form), start + 1):
            slot = hash(gram) % size
            while table[slot] and not text.startswith(gram, table[slot] - 1):
                slot = (slot + 1) % size
            if not table[slot]:  # else the first place is enough
                table[slot] = place

    def find(self, gram: str, behind: int = -1, reach: int = 0) -> int:
        """Where this gram stands, -1 if it does not; looked for within `reach` behind a place first."""
        text = self._text
        if reach and text.startswith(gram, behind + 1):
            return behind + 1
        slot = hash(gram) % self._size
        table = self._table
        while place := table[slot]:
            if text.startswith(gram, place - 1):
                near = text.find(gram, behind + 1, behind + reach + GRAM) if reach else -1
                return near if near >= 0 else place - 1
            slot = (slot + 1) % self._size
        return -1

    def variant(self, place: int) -> str:
        """The form that stands there."""
        return self._names[bisect_right(self._starts, place) - 1]


def grams(text: str) -> Iterator[str]:
    """Every gram of a folded text."""
    return (text[at : at + GRAM] for at in range(len(text) - GRAM + 1))
