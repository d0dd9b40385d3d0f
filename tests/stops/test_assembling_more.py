"""R31: what a stop's record does not claim: of other tries, of clients of whom not all is known, of other steps."""

from __future__ import annotations

from tests.stops.test_assembling import cancel, numbered, pause, reach, said, span, stream, told

from standfast import events as ev
from standfast.stop_records import stop_records


def trip(**more: object) -> ev.TripwireTripped:
    return ev.TripwireTripped(
        call="c", channel="text", kind="directive", variant="plain", start=3, end=9, action="cancel",
        held_back=6, digest="d", attempt=1, **more,  # type: ignore[arg-type]
    )  # fmt: skip


def test_of_a_client_whose_texts_are_not_all_known_nothing_is_claimed() -> None:
    """Texts were left out of what is told of it: this one may be among them."""
    events = numbered(said("Once"), pause(), stream(), ev.RunPaused(holds=[]), told(2, 4, reach(left_out=1)))
    (stop,) = stop_records(events)
    assert stop.clients_known and stop.held_back == ()
    events = numbered(said("Once"), pause(), stream(), ev.RunPaused(holds=[]), told(2, 4, reach(span(2), left_out=1)))
    (stop,) = stop_records(events)
    assert [(one.start, one.characters) for one in stop.held_back] == [(2, 2)], "of this text all is known"


def test_only_the_try_that_it_cut_is_told_of() -> None:
    """An earlier try of the same call was over before: what of it reached whom is no part of this stop."""
    events = numbered(
        said("First", attempt=0), said("Second"), pause(), stream(), ev.RunPaused(holds=[]), told(3, 5, reach())
    )  # fmt: skip
    (stop,) = stop_records(events)
    assert [(one.attempt, one.characters) for one in stop.held_back] == [(1, 6)]


def test_the_trip_that_it_stops_for_is_in_it_also_when_no_stream_was_cut() -> None:
    """The call had ended by itself as its last words were looked at."""
    (stop,) = stop_records(numbered(said("Oh "), trip(), cancel(trigger="tripwire")))
    assert [one.kind for one in stop.trips] == ["directive"]
    assert [(one.characters, one.why) for one in stop.held_back] == [(6, "tripwire")]
    (later,) = stop_records(numbered(trip(), ev.StepFinished(step=0, attempt=1), pause()))
    assert later.trips == (), "of a step that is over"
