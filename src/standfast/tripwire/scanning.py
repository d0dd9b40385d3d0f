"""One channel of one call, read character by character: what matches, what is held back, what trips.

A hit is a character that ends a gram of the secret. A row of hits goes through the secret in order, with gaps where a
number, a tag or another word stands between. 40 hits of a row trip, or 90 among the last 400 characters; one hit on a
canary does. While a row goes on the text is held back: let go when it breaks off, kept when it trips.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection

from standfast.guarding import Excused, Trip, TripKind
from standfast.records import Channel
from standfast.tripwire.folding import FOLDS, is_letter
from standfast.tripwire.reading import SPECIAL, Reader
from standfast.tripwire.variants import GRAM, Secret

IN_A_ROW = 40
LEAST_IN_A_ROW = 14
AMONG_HITS = 90
AMONG = 400  # folded characters
GAP = 80  # folded characters from one hit of a row to the next: a gram, and a few words
SLACK = 30  # by how much such a gap may differ from that in the secret
SHORTEST = 40  # folded characters of a directive: less cannot be told from what anybody might say


class Scanner:
    """Finds a secret, and canaries, in one channel's text."""

    def __init__(
        self,
        channel: Channel,
        secret: Secret | None,
        canaries: tuple[Secret, ...],
        *,
        hold_back: bool,
        stops: bool,
        own_words: Callable[[], Collection[str]],
    ) -> None:
        self.found: list[Trip] = []
        self.excused: dict[Excused, int] = {}
        self.held = ""
        self._channel: Channel = channel
        self._secret = secret if secret is not None and secret.length >= SHORTEST else None
        self._canaries = canaries
        self._holds = hold_back
        self._stops = stops  # is the first trip the last thing that is heard?
        self._own_words = own_words
        self._own: Collection[str] | None = None  # read when there is something to excuse
        length = self._secret.length if self._secret is not None else 0
        # a short secret has too few grams for the whole number once some words are others
        self._in_a_row = min(IN_A_ROW, max(LEAST_IN_A_ROW, length // 12))
        self._among_hits = min(AMONG_HITS, max(self._in_a_row, length // 5))
        self._before_letters = True  # of a line
        self._reader = Reader()
        self._gram = ""
        self._places: deque[int] = deque(maxlen=GRAM)  # where the characters of the gram stand
        self._at = 0  # characters so far
        self._folded = 0  # folded characters so far
        self._row = 0  # hits of the row
        self._last_hit = 0  # when it was last hit, in folded characters
        self._row_start = 0
        self._hold_at = -1  # from here on text is held back; -1: nothing is
        self._place = -1  # in the secret, of the last hit
        self._hits: deque[tuple[int, int]] = deque()  # lately: when, and where its gram began
        self._span: Trip | None = None  # tripped, and not yet over
        self._span_hit = 0  # when it was last hit
        self.tripped = False

    def hear(self, text: str) -> str:
        """What may be let through now."""
        if self.tripped and self._stops:
            self.held += text
            return ""
        began = self._at
        reader = self._reader
        for character in text:
            if reader.midway or character in SPECIAL:
                for one, at in reader.read(character, self._at):
                    self._character(one, at)
            else:
                self._character(character, self._at)
            self._at += 1
            if self.tripped and self._stops:
                break
        whole = self.held + text
        if self._hold_at >= 0:
            kept = self._hold_at - (began - len(self.held))
        else:
            kept = self._at - (began - len(self.held)) if self.tripped and self._stops else len(whole)
        self.held = whole[kept:]
        return whole[:kept]

    def end(self) -> str:
        """Nothing more comes: what is held is let go."""
        self._close()
        text, self.held = self.held, ""
        return "" if self.tripped and self._stops else text

    # --- one character ------------------------------------------------------------------------------

    def _character(self, character: str, at: int) -> None:
        if character == "\n":
            self._before_letters = True
        elif self._before_letters:
            if not is_letter(character):
                return
            self._before_letters = False
        for one in FOLDS[character]:
            self._gram = gram = self._gram[-GRAM + 1 :] + one
            self._places.append(at)
            self._folded += 1
            if len(gram) < GRAM:
                continue
            secret = self._secret
            if self._canaries and self._canary(gram):
                continue
            place = -1 if secret is None else secret.find(gram, self._place, GAP if self._row else 0)
            if place >= 0:
                if not self._is_excused(gram):
                    self._hit(place)
                elif self._row:  # what is excused neither counts nor breaks off what does
                    self._place, self._last_hit = place, self._folded
            elif self._row and self._folded - self._last_hit > GAP:
                self._row = 0
                self._hold_at = -1
            if self._span is not None and self._folded - self._span_hit >= AMONG:
                self._close()

    def _canary(self, gram: str) -> bool:
        for canary in self._canaries:
            place = canary.find(gram)
            if place >= 0:
                if self._span is None:
                    self._trip("canary", canary.variant(place), self._places[0])
                else:
                    self._extend()
                return True
        return False

    def _is_excused(self, gram: str) -> bool:
        why: Excused
        assert self._secret is not None
        if gram in self._secret.public:
            why = "public"
        else:
            if self._own is None:
                self._own = self._own_words()
            if gram not in self._own:
                return False
            why = "user"
        self.excused[why] = self.excused.get(why, 0) + 1
        return True

    def _hit(self, place: int) -> None:
        start = self._places[0]
        ahead = place - self._place
        if self._row and not (0 < ahead <= GAP and abs(ahead - (self._folded - self._last_hit)) <= SLACK):
            self._row = 0  # another part of the secret: a new row, and what is held stays so
        if not self._row:
            self._row_start = start
            if self._holds and self._span is None and self._hold_at < 0:
                self._hold_at = self._at
        self._row += 1
        self._place, self._last_hit = place, self._folded
        if self._span is not None:
            self._extend()
            return
        hits = self._hits
        hits.append((self._folded, start))
        while hits[0][0] <= self._folded - AMONG:
            hits.popleft()
        if self._row >= self._in_a_row:
            self._trip("directive", self._variant(), self._row_start)
        elif len(hits) >= self._among_hits:
            self._trip("directive", self._variant(), hits[0][1])

    def _variant(self) -> str:
        assert self._secret is not None
        return self._secret.variant(self._place)

    # --- the span that has tripped ------------------------------------------------------------------

    def _trip(self, kind: TripKind, variant: str, start: int) -> None:
        self.tripped = True
        self._span = Trip(self._channel, kind, variant, start, self._at + 1, open=True)
        self._span_hit = self._folded
        self._hits.clear()
        if not self._stops:
            self._hold_at = -1  # it is marked, and let go
        elif self._hold_at < 0 and self._holds:
            self._hold_at = self._at
        self.found.append(self._span)

    def _extend(self) -> None:
        old = self._span
        assert old is not None
        self._span = Trip(old.channel, old.kind, old.variant, old.start, self._at + 1, open=True)
        self._span_hit = self._folded

    def _close(self) -> None:
        old, self._span = self._span, None
        if old is not None:
            self.found.append(Trip(old.channel, old.kind, old.variant, old.start, old.end, open=False))
