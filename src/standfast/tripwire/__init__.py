"""Tripwire: notices an agent's own instructions coming out, and flags, pauses or cancels (R33).

It sees them said as they are, reformatted, spelled in leet, other letters or escapes, reversed, in rot13, hex or
base64, and with some words replaced. It does not see paraphrase, translation or other ciphers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, cast

from standfast import arguments
from standfast.errors import Misuse
from standfast.guarding import Action, Excused, Trip
from standfast.records import Channel
from standfast.tripwire import canaries as birds
from standfast.tripwire.folding import folded
from standfast.tripwire.public import PUBLIC
from standfast.tripwire.scanning import AMONG, AMONG_HITS, IN_A_ROW, SHORTEST, Scanner
from standfast.tripwire.variants import GRAM, Secret, grams

__all__ = ["AMONG", "AMONG_HITS", "GRAM", "IN_A_ROW", "SHORTEST", "Guarded", "Listening", "Tripwire", "chosen"]

MOST_CANARIES = 8
MOST_PREPARED = 16


class Tripwire:
    """Watches what a model says for instructions that should stay inside, in one pass over the stream.

    `directive` is what must not come out; by default the instructions of the agent, or the `system` of the call, that
    it is given to. `canaries` is how many words without meaning are planted into the instructions of each run, other
    ones in every run: the first to come out trips. `action` is what a trip does: "flag" marks it, "pause" closes the
    stream and holds the run, "cancel" cancels it. With `hold_back` no more than about 20 characters of a match leave
    before it is known whether it is one. `public` are texts that may be said although they stand in the instructions.
    """

    def __init__(
        self,
        directive: str | None = None,
        canaries: int = 0,
        action: Action = "flag",
        hold_back: bool = True,
        public: Iterable[str] = (),
    ) -> None:
        if directive is not None:
            arguments.text("directive", directive)
        if not 0 <= arguments.whole("canaries", canaries) <= MOST_CANARIES:
            raise Misuse(f"canaries={canaries!r} is too many or too few", hint=f"give 0 to {MOST_CANARIES}")
        if action not in ("flag", "pause", "cancel"):
            raise Misuse(f"action={action!r} is unknown", hint='use "flag", "pause" or "cancel"')
        texts = () if isinstance(public, str) else tuple(cast("Iterable[Any]", public))
        if isinstance(public, str) or not all(isinstance(one, str) for one in texts):
            raise Misuse(f"public={public!r} is no list of texts", hint="give the texts that may be said")
        self.directive = directive
        self.canaries = canaries
        self.action: Action = action
        self.hold_back = arguments.flag("hold_back", hold_back)
        self.public = (*PUBLIC, *texts)
        self._prepared: dict[str, Secret] = {}

    def prepared(self, instructions: str) -> Secret:
        """The directive in every form in which it is looked for; made once."""
        directive = instructions if self.directive is None else self.directive
        found = self._prepared.get(directive)
        if found is None:
            if len(self._prepared) >= MOST_PREPARED:  # instructions made anew for every call: keep the last few
                del self._prepared[next(iter(self._prepared))]
            found = self._prepared[directive] = Secret(directive, self.public)
        return found

    def over(self, instructions: str, messages: Sequence[Any]) -> Guarded | None:
        """What guards one call; None if there is nothing to guard."""
        if not (instructions or self.directive):
            return None
        return Guarded(self, instructions, messages)

    def __repr__(self) -> str:
        return f"Tripwire(action={self.action!r}, canaries={self.canaries}, hold_back={self.hold_back})"


class Guarded:
    """One call's tripwire. Implements guarding.Guard."""

    def __init__(self, tripwire: Tripwire, instructions: str, messages: Sequence[Any]) -> None:
        self._tripwire = tripwire
        self._instructions = instructions
        self._messages = messages

    @property
    def action(self) -> Action:
        return self._tripwire.action

    def _canaries(self, run: str) -> tuple[str, ...]:
        return birds.canaries(self._tripwire.directive or self._instructions, run, self._tripwire.canaries)

    def planted(self, run: str) -> str:
        return birds.planted(self._canaries(run))

    def watch(self, run: str, *, marks_only: bool = False) -> Listening:
        secrets = tuple(Secret(word) for word in self._canaries(run))
        return Listening(
            self._tripwire.prepared(self._instructions),
            secrets,
            hold_back=self._tripwire.hold_back,
            stops=self.action != "flag" and not marks_only,
            messages=self._messages,
        )


class Listening:
    """One try of one call, all its channels. Implements guarding.Watch."""

    def __init__(
        self,
        secret: Secret | None,
        canaries: tuple[Secret, ...] = (),
        *,
        hold_back: bool = True,
        stops: bool = False,
        messages: Sequence[Any] = (),
    ) -> None:
        self._new: Callable[[Channel], Scanner] = lambda channel: Scanner(
            channel, secret, canaries, hold_back=hold_back, stops=stops, own_words=self._own_words
        )
        self._messages = messages
        self._own: Collection[str] | None = None
        self._scanners: dict[Channel, Scanner] = {}

    def hear(self, channel: Channel, text: str) -> str:
        scanner = self._scanners.get(channel)
        if scanner is None:
            scanner = self._scanners[channel] = self._new(channel)
        return scanner.hear(text)

    def trips(self) -> Sequence[Trip]:
        found: list[Trip] = []
        for scanner in self._scanners.values():
            if scanner.found:
                found += scanner.found
                scanner.found = []
        return found

    def held(self) -> Sequence[tuple[Channel, str]]:
        return [(channel, one.held) for channel, one in self._scanners.items() if one.held]

    def excused(self) -> dict[Excused, int]:
        counts: dict[Excused, int] = {}
        for scanner in self._scanners.values():
            for why, hits in scanner.excused.items():
                counts[why] = counts.get(why, 0) + hits
        return counts

    def end(self) -> Sequence[tuple[Channel, str]]:
        return [(channel, rest) for channel, one in self._scanners.items() if (rest := one.end())]

    def _own_words(self) -> Collection[str]:
        """Grams of what the user said: to say it back gives nothing away."""
        if self._own is None:
            self._own = {gram for text in user_texts(self._messages) for gram in grams(folded(text))}
        return self._own


def user_texts(messages: Sequence[Any]) -> list[str]:
    """What the user said in a log of any dialect; results of tools are not the user's words."""
    found: list[str] = []
    for message in map(_mapping, messages):
        if message.get("role") != "user":
            continue
        content: Any = message.get("content")
        if isinstance(content, str):
            found.append(content)
        elif isinstance(content, list):
            parts = map(_mapping, cast("Sequence[Any]", content))
            found += [str(part.get("text", "")) for part in parts if part.get("type") in ("text", "input_text")]
    return found


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def chosen(given: Any, agent: str) -> Tripwire | None:
    """The tripwire that an agent means: None is one that flags, False is none."""
    if given is None:
        return Tripwire()
    if given is False:
        return None
    if isinstance(given, Tripwire):
        return given
    raise Misuse(f"LLMAgent {agent!r} was given tripwire={given!r}", hint="give Tripwire(...), or False for none")


Chosen = Tripwire | Literal[False] | None
