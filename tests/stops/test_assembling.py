"""R31: stop records are put together from events alone: in order, whatever comes between, and the same every time."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast import events as ev
from standfast.cli.stop_pages import stops_page
from standfast.evidence.stop_timeline import marks_of
from standfast.records import CallRef, Channel, ClientReach, Moment, Span
from standfast.said_texts import gaps
from standfast.stop_records import settled_words, since_accepted, stop_records

BOOT = "one"


def numbered(*events: Any) -> list[Any]:
    """As a store writes them: numbered, and stamped by both clocks."""
    for seq, event in enumerate(events, 1):
        event.seq, event.at, event.run = seq, 1000.0 + seq, "r"
        if isinstance(event, ev.Stamped | ev.Asking):
            event.uptime, event.boot = 10.0 + seq, BOOT
    return list(events)


def pause(**more: Any) -> ev.PauseAsked:
    return ev.PauseAsked(**{"by": "ann", "reason": "wait", "trigger": "button", "status": "pausing", **more})


def cancel(**more: Any) -> ev.CancelAsked:
    return ev.CancelAsked(**{"by": "bob", "reason": "enough", "trigger": "api", "undo": "step", "soft": False, **more})


def said(text: str, offset: int = 0, *, attempt: int = 1, take: int = 0, channel: Channel = "text") -> ev.TextFlushed:
    return ev.TextFlushed(call="c", offset=offset, text=text, attempt=attempt, take=take, channel=channel)


def stream(outcome: Any = "aborted", **more: Any) -> ev.StreamEnded:
    return ev.StreamEnded(call="c", tool="model", outcome=outcome, attempt=1, **more)


def reach(*spans: Span, client: str = "client-1", **more: Any) -> ClientReach:
    return ClientReach(client=client, way="page", since=Moment(1.0), spans=spans, **{"seq": 99, **more})


def told(stop: int, settled: int, *clients: ClientReach, server: str = "s", **more: int) -> ev.ClientsReached:
    return ev.ClientsReached(server=server, stop=stop, settled=settled, clients=clients, **more)


def span(end: int, start: int = 0, take: int = 0) -> Span:
    return Span("c", 1, take, "text", start, end)


def test_a_stop_from_asked_to_settled() -> None:
    asked = Moment(999.0, 10.5, BOOT)
    events = numbered(said("Once upon"), pause(asked=asked), said(" a time", 9), stream(), ev.RunPaused(holds=["user"]))
    (stop,) = stop_records(events)
    assert (stop.run, stop.number, stop.seq, stop.verb, stop.trigger, stop.by) == ("r", 1, 2, "pause", "button", "ann")
    assert (stop.asked, stop.accepted.uptime, stop.settled_seq, stop.status) == (asked, 12.0, 5, "paused")
    assert since_accepted(stop, stop.settled) == 3.0
    assert since_accepted(stop, Moment(2000.0, 1.0, "another")) == 2000.0 - 1002.0, "another machine: by the wall clock"
    assert not stop.clients_known and stop.held_back == (), "nobody told: nothing is claimed"


def test_what_no_client_was_handed_is_named_with_its_digest() -> None:
    events = numbered(
        said("Once upon a time"), pause(), stream(), ev.RunPaused(holds=["user"]),
        told(2, 4, reach(span(4)), reach(span(9, 5), client="client-2")),
    )  # fmt: skip
    (stop,) = stop_records(events)
    assert [stop.text_of(piece) for client in stop.clients for piece in client.texts] == ["Once", "upon"]
    assert [(one.start, one.characters, one.why) for one in stop.held_back] == [
        (4, 1, "not_handed_over"),
        (9, 7, "not_handed_over"),
    ]
    assert stop.held_back[1].digest == sha256(b" a time").hexdigest()


def test_a_try_that_began_anew_is_a_text_of_its_own() -> None:
    events = numbered(
        said("First"), said("Second", take=1), cancel(), stream(take=1), ev.RunPaused(holds=[]),
        told(3, 5, reach(span(5), span(3, take=1))),
    )  # fmt: skip
    (stop,) = stop_records(events)
    assert [stop.text_of(piece) for piece in stop.clients[0].texts] == ["First", "Sec"]


def test_a_tripwire_closes_the_stream_before_its_stop_is_accepted() -> None:
    trip = ev.TripwireTripped(
        call="c", channel="text", kind="directive", variant="plain", start=3, end=9, action="cancel",
        held_back=6, digest="d", attempt=1,
    )  # fmt: skip
    (stop,) = stop_records(numbered(said("Oh "), trip, stream(), cancel(trigger="tripwire")))
    assert [one.call for one in stop.streams] == ["c"]
    assert [(one.characters, one.digest, one.why) for one in stop.held_back] == [(6, "d", "tripwire")]
    assert [one.kind for one in stop.trips] == ["directive"]


def test_a_stream_that_no_stop_cut_belongs_to_none() -> None:
    """A redirect, or a driver that lets go, cuts streams too."""
    back = ev.StepSetBack(step=0, attempt=1, why="redirected")
    (stop,) = stop_records(numbered(stream(), back, pause()))
    assert stop.streams == ()


def test_a_pause_that_becomes_a_cancel_is_two_stops_with_one_end() -> None:
    mark = ev.OutputSuspected(by="bob", reason="odd", trigger="api", call="c", offset=4)
    first, second = stop_records(numbered(pause(), stream(), cancel(), mark, ev.RunDone(result=None)))
    assert (first.settled, first.status) == (second.settled, second.status) != (None, "done")
    assert len(first.streams) == len(second.streams) == 1
    assert (first.marks, [one.offset for one in second.marks]) == ((), [4])


def test_a_stop_of_a_run_that_stood_still_has_settled_at_once() -> None:
    (stop,) = stop_records(numbered(ev.RunHalted(halt="h", by="op", reason="all", status="paused")))
    assert (stop.verb, stop.trigger, stop.settled) == ("halt", "operator", stop.accepted)


def test_who_was_left_out_may_have_been_handed_everything() -> None:
    events = numbered(said("Once"), pause(), stream(), ev.RunPaused(holds=[]), told(2, 4, left_out=1))
    (stop,) = stop_records(events)
    assert (stop.told[0].left_out, stop.held_back) == (1, ())


@pytest.mark.parametrize(
    "told_of",
    [
        lambda: told(2, 4, reach(span(4), seq=3)),
        lambda: told(2, 4, reach(span(16, 9), after=1)),
        lambda: told(2, 4, reach(span(4)), fetched=1),
    ],
    ids=["still behind", "joined in the midst", "fetched"],
)
def test_nothing_is_said_to_have_reached_nobody_where_somebody_may_have_it(told_of: Any) -> None:
    events = numbered(said("Once upon a time"), pause(), stream(), ev.RunPaused(holds=["user"]), told_of())
    (stop,) = stop_records(events)
    assert stop.clients_known and stop.held_back == ()


def test_a_tool_whose_name_begins_like_another_s_is_named_too() -> None:
    left = [ev.LeftBehind(what=what, where="x.py:1") for what in ("look", "lookup", "look is still running")]
    (stop,) = stop_records(numbered(pause(), *left, ev.RunPaused(holds=["user"])))
    assert stop.still_running == ("look", "lookup")


def test_what_still_runs_stands_where_the_stop_settles() -> None:
    ref = CallRef("c", "crunch", "read", 1.0)
    begun = ev.CallStarted(call="c", tool="crunch", effect="read", args=None, attempt=1)
    cut = ev.CallCut(call="c", outcome="still_running", why="it blocks")
    left = ev.LeftBehind(what="crunch is still running", where="crunch.py:1")
    (stop,) = stop_records(numbered(begun, pause(in_flight=[ref]), cut, left, ev.RunPaused(holds=["user"])))
    assert stop.still_running == ("crunch",)
    assert settled_words(stop) == "settled: paused; still running: crunch"
    for words in ([mark.label for mark in marks_of(stop)], ["\n".join(stops_page([stop]))]):
        assert any("still running: crunch" in one for one in words)
        assert not any("nothing" in one for one in words)


# --- whatever happens ---------------------------------------------------------------------------------------

HAPPENINGS = (
    pause,
    lambda: pause(status="paused"),
    cancel,
    lambda: ev.RunHalted(halt="h", by="op", reason="all", status="pausing"),
    lambda: ev.RunPaused(holds=["user"]),
    lambda: ev.RunQueued(why="free"),
    stream,
    lambda: said("word "),
    lambda: ev.StepFinished(step=0, attempt=1),
    lambda: ev.OutputSuspected(by=None, reason="", trigger="api", call="c", offset=1),
    lambda: told(1, 2, reach(span(3))),
    lambda: told(1, 2, server="t"),
    lambda: ev.Noted(text="x", attempt=1),
)


@given(st.lists(st.integers(0, len(HAPPENINGS) - 1), max_size=30), st.data())
def test_every_history_has_one_record_a_stop_in_order_and_always_the_same(chosen: list[int], data: Any) -> None:
    events = numbered(*(HAPPENINGS[one]() for one in chosen))
    stops = stop_records(events)
    asked = [event for event in events if isinstance(event, ev.Asking)]
    assert [stop.seq for stop in stops] == [event.seq for event in asked]
    assert [stop.number for stop in stops] == list(range(1, len(stops) + 1))
    for stop in stops:
        assert stop.settled_seq is None or stop.settled_seq >= stop.seq
        assert len({one.server for one in stop.told}) == len(stop.told)
        for piece in (piece for one in stop.clients for piece in one.texts):
            assert len(stop.text_of(piece)) == piece.recorded <= piece.characters
            assert sha256(stop.text_of(piece).encode()).hexdigest() == piece.digest
    # what is read twice, as after a reconnection, changes nothing
    again = data.draw(st.integers(0, len(events)))
    assert stop_records([*events[:again], *events[: again // 2], *events[again:]]) == stops
    # a stop is not changed by the stops after it
    settled = [stop for stop in stops if stop.settled_seq is not None and not stop.told]
    upto = data.draw(st.integers(0, len(events)))
    early = {stop.seq: stop for stop in stop_records(events[:upto])}
    for stop in settled:
        known = early.get(stop.seq)
        if known is not None and known.settled_seq is not None and not known.told:
            assert known == stop


@given(st.integers(0, 40), st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40))))
def test_gaps_are_exactly_what_is_not_covered(end: int, ranges: list[tuple[int, int]]) -> None:
    covered = {at for start, stop in ranges for at in range(start, stop)}
    found = [at for start, stop in gaps(end, [(a, b) for a, b in ranges if a < b]) for at in range(start, stop)]
    assert found == [at for at in range(end) if at not in covered]
