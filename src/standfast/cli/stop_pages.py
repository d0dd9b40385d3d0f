"""The record of stops, for people: one time line a stop, in milliseconds from its acceptance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from standfast.cli.pages import clock
from standfast.cli.words import TRIGGER_WORDS, count, joined
from standfast.names import by_words, name_words, named
from standfast.records import Moment
from standfast.stop_records import Reached, StopRecord, settled_words, since_accepted

VERBS = {"pause": "paused", "cancel": "cancelled", "halt": "halted", "take_over": "taken over", "rewind": "rewound"}
UNKNOWN_CLIENTS = "no server told of its clients: whether anybody was given this text is unknown"
CONNECTIONS = {"page": "page", "events": "event stream", "all_events": "stream of all events", "agui": "AG-UI"}


def stops_page(stops: Sequence[StopRecord]) -> list[str]:
    """Every stop of a run, oldest first."""
    if not stops:
        return ["nothing has stopped this run"]
    return [line for stop in stops for line in (*_head(stop), *_line_of_times(stop), *_rest(stop))]


def _head(stop: StopRecord) -> Iterator[str]:
    who = by_words(named(stop.by, stop.trigger), stop.by_token)
    why = f": {stop.reason}" if stop.reason else ""
    way = f", via {stop.route}" if stop.route else ""
    yield f"stop {stop.number}: {joined([VERBS[stop.verb], who], ' ')}{why} [{TRIGGER_WORDS[stop.trigger]}{way}]"
    yield f"  accepted {clock(stop.accepted.at)}, event {stop.seq}"


def _line_of_times(stop: StopRecord) -> Iterator[str]:
    """In the order in which they were."""
    times: list[tuple[str, Moment | None]] = [("asked", stop.asked), ("accepted", stop.accepted)]
    times += [(f"last byte from {one.tool} ({one.outcome.replace('_', ' ')})", one.last_byte) for one in stop.streams]
    times += [(f"last byte to {client_words(one)}", one.last_byte) for one in stop.clients]
    times.append((settled_words(stop), stop.settled))
    known = [(offset, what) for what, moment in times if (offset := since_accepted(stop, moment)) is not None]
    for offset, what in sorted(known, key=lambda one: one[0]):
        yield f"  {offset * 1000:+10.1f} ms  {what}"
    for what, moment in times:
        if moment is None:
            yield f"  {'-':>10}     {what.replace('last byte', 'no byte')}" if "byte" in what else "  not settled yet"


def _rest(stop: StopRecord) -> Iterator[str]:
    if not stop.clients_known:
        yield f"  {UNKNOWN_CLIENTS}"
    for one in stop.clients:
        yield f"  {client_words(one)}: {handed_words(one)}"
    for told in stop.told:
        if told.fetched:
            yield f"  {told.server} answered {count(told.fetched, 'request')} for its text, by whom is not counted"
        if told.left_out:
            yield f"  {told.server} left out {count(told.left_out, 'client')}"
    for kept in stop.held_back:
        why = "a tripwire held back" if kept.why == "tripwire" else "not handed over a counted connection:"
        yield f"  {why} {count(kept.characters, 'character')} of {kept.call}, from {kept.start} on ({kept.channel})"
    for mark in stop.marks:
        place = "before anything was said" if mark.call is None else f"after {mark.offset} characters of {mark.call}"
        yield joined([f"  suspicious output: marked {place}", by_words(mark.by, mark.by_token)], " ")


def client_words(one: Reached) -> str:
    """A client, told apart from others."""
    who = name_words(one.by, one.by_token, "somebody")
    return f"{who} ({CONNECTIONS[one.way]}, {one.client.removeprefix('client-')})"


def handed_words(one: Reached) -> str:
    """How much it was handed, and what is not known about that."""
    characters = sum(text.characters for text in one.texts)
    more = f"; {'at least ' if one.at_least else ''}{one.after_accepted} of them after the stop was accepted"
    left = "; it had left by then" if one.left is not None else "; it was still behind" if one.behind else ""
    return f"was handed {count(characters, 'character')}{more}{left}"
