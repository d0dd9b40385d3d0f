"""R33: characters written by number or by name are read as what they are; everything else as it stands."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from standfast.tripwire.reading import Reader, as_read

PARTS = (
    *("\\", "\\x", "\\u", "\\u{", "\\U", "0", "0x", "%", "&", "&#", "&#x", "x", "u", "U", "{", "}", ";", "#", "nbsp;"),
    *(
        "4",
        "1",
        "59",
        "a",
        "f",
        "7f",
        "\\xc3",
        "\\xb6",
        "%C3",
        "%b6",
        "0xe4",
        "\\ud835",
        "\\udc00",
        "00000059",
        "110000",
    ),
    *(" ", "\n", "é", "w", "\ud835", "\U000e0041", "\U000e0131", "\U000e01b3", "\U000e01a6"),
)
texts = st.lists(st.sampled_from(PARTS), max_size=12).map("".join)


def one_by_one(text: str) -> list[tuple[str, int]]:
    reader = Reader()
    return [found for at, character in enumerate(text) for found in reader.read(character, at)]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (r"\x59\x6F\x75", "You"),
        ("0x59 0X6f,0x75", "Y o,u"),
        ("%59%6f%75 are", "You are"),
        (r"\131\157\165", "You"),
        (r"\u0059\u{6f}\U00000075", "You"),
        ("&#89;&#x6f;&#X75;&nbsp;&amp;&ouml;", "You\xa0&ö"),
        (r"\n\t\"x\"", "\n  x "),
        ("%C3%B6 0xc3 0xb6 \\xc3\\xb6 \\303\\266", "ö  ö ö ö"),
        (r"sch\xf6n, \xe4hnlich", "schön, ähnlich"),
        (r"\ud835\udc00\udb40\udc59", "\U0001d400Y"),
        ("".join(chr(0xE0000 + ord(one)) for one in "You are"), "You are"),
        ("".join(chr(0xE0100 + byte - 16) for byte in "schön".encode()), "schön"),
    ],
)
def test_what_is_written_by_number_or_name_is_read_as_it_is_meant(written: str, meant: str) -> None:
    assert as_read(written) == meant


@pytest.mark.parametrize(
    "text",
    [
        *("", "100% of R&D at AT&T; 2000 euros", "0xyz 0x5 %5 %zz &# &#; &#x; &; &nothing; &averyverylongname;"),
        *(r"C:\program \alpha \x5 \u12 \u{} \u{1234567} \9 \400", "2 & 2 &&& %%% 000 \\\\", "&#89"),
    ],
)
def test_what_only_begins_like_it_stands_as_it_is(text: str) -> None:
    assert as_read(text) == text


def test_what_begins_behind_something_that_was_none_is_read() -> None:
    assert as_read("00x59 %0x59 \\\\x59 &&#89; \\0x59 &ab&#89;") == "0Y %Y \\Y &Y \\Y &abY"


def test_numbers_of_no_character_are_nothing() -> None:
    assert as_read(r"a&#1114112;b\U00110000c\ud835d") == "abcd"


def test_a_character_stands_where_its_escape_begins() -> None:
    assert one_by_one(r"a\x59b0xc3 0xb6c&d e") == [
        *(("a", 0), ("Y", 1), ("b", 5), (" ", 10), ("ö", 6), ("c", 15)),
        *(("&", 16), ("d", 17), (" ", 18), ("e", 19)),
    ]


@given(texts)
@settings(max_examples=500, deadline=None)
def test_a_whole_text_is_read_as_its_characters_are_one_by_one(text: str) -> None:
    assert as_read(text) == "".join(one for one, _ in one_by_one(f"{text}\n"))[:-1]


@given(texts)
@settings(max_examples=300, deadline=None)
def test_a_reader_that_waits_for_nothing_starts_afresh(text: str) -> None:
    """So what is no escape can be passed by it."""
    reader = Reader()
    for at, character in enumerate(text):
        reader.read(character, at)
        if not reader.midway:
            assert as_read(text[: at + 1]) + as_read(text[at + 1 :]) == as_read(text)
