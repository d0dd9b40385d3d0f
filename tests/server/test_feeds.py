"""What is told to those who watch never crowds out what is asked (R1)."""

from __future__ import annotations

from standfast.server.feeds import LIST_GAP, LONGEST_LIST_GAP, Listing
from standfast.server.reading import Filter


def test_a_list_that_is_slow_to_read_is_read_less_often() -> None:
    listing = Listing(Filter())
    listing.read_at, listing.cost = 100.0, 0.001
    assert not listing.due(100.0 + LIST_GAP / 2)
    assert listing.due(100.0 + LIST_GAP)
    listing.cost = 0.1
    assert not listing.due(100.0 + LIST_GAP)
    assert not listing.due(100.9)
    assert listing.due(101.0), "a tenth of the time is its share"
    listing.cost = 60.0
    assert listing.due(100.0 + LONGEST_LIST_GAP), "and it is told in the end"
