"""R26, R28: live text reaches a reader without gaps; what is missing comes out of the record first."""

from __future__ import annotations

from standfast.events import TextDelta
from standfast.records import Span
from standfast.said_texts import MOST_FOLLOWED, LiveText


def said(offset: int, text: str, call: str = "c", *, take: int = 0) -> TextDelta:
    return TextDelta(call, offset, text, attempt=1, take=take)


def recorded(end: int, call: str = "c", *, take: int = 0) -> Span:
    return Span(call, 1, take, "text", 0, end)


def given(live: LiveText, *deltas: TextDelta) -> list[str]:
    live.waiting.extend(deltas)
    found: list[str] = []
    while delta := live.next():
        found.append(delta.text)
    return found


def test_text_from_its_beginning_is_given_as_it_comes() -> None:
    live = LiveText(10)
    assert given(live, said(0, "one "), said(4, "two ")) == ["one ", "two "]
    live.recorded(recorded(4))  # the record is behind
    assert given(live, said(8, "three ")) == ["three "]


def test_a_reader_that_joins_in_the_middle_gets_the_record_first_and_then_what_goes_beyond_it() -> None:
    live = LiveText(10)
    assert given(live, said(4, "two "), said(8, "three "), said(14, "four ")) == []
    live.recorded(recorded(8))
    assert given(live, said(19, "five ")) == ["three ", "four ", "five "]


def test_text_that_was_lost_is_waited_for_however_often() -> None:
    live = LiveText(10)
    assert given(live, said(0, "one "), said(8, "three ")) == ["one "]
    live.recorded(recorded(4))
    assert given(live) == []
    live.recorded(recorded(8))
    assert given(live, said(20, "late ")) == ["three "]
    live.recorded(recorded(25))  # all of it is on record: nothing is said twice
    assert given(live, said(25, "on ")) == ["on "]


def test_each_call_and_each_try_of_it_is_waited_for_by_itself() -> None:
    live = LiveText(10)
    assert given(live, said(4, "held"), said(0, "other", "d"), said(0, "anew", take=1)) == ["other", "anew"]
    live.recorded(recorded(5, "d"))
    assert given(live) == []
    live.recorded(recorded(4))
    assert given(live) == ["held"]


def test_text_that_became_longer_or_shorter_on_record_goes_on_where_the_record_ends() -> None:
    """A secret that is whole only when it is flushed is replaced there."""
    live = LiveText(10)
    assert given(live, said(0, "0123456789"), said(12, "longer")) == ["0123456789"]
    live.recorded(recorded(12))
    assert given(live) == ["longer"]
    live.recorded(recorded(15))
    assert given(live, said(15, "shorter")) == ["shorter"]


def test_what_waits_has_an_end_and_the_oldest_gives_way() -> None:
    live = LiveText(3)
    assert given(live, *(said(n, "x") for n in range(1, 9))) == []
    live.waiting.extend((said(9, "x"), said(10, "y")))
    live.recorded(recorded(8))
    assert [delta.offset for delta in live.waiting] == [8, 9, 10]
    assert given(live) == ["x", "x", "y"]


def test_the_texts_that_are_followed_have_an_end_and_an_older_one_waits_for_its_record_again() -> None:
    live = LiveText(10)
    assert given(live, said(0, "one ")) == ["one "]
    for n in range(MOST_FOLLOWED):
        assert given(live, said(0, "x", f"c{n}")) == ["x"]
    assert given(live, said(4, "two ")) == []
    live.recorded(recorded(8))
    assert given(live, said(8, "three ")) == ["three "]
