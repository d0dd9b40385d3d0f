"""A text that comes in pieces becomes what it would have become as a whole, wherever it is cut (R31, R32)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.evidence.test_redaction import SHAPES
from tests.trials import trials

from standfast import Secret
from standfast.redaction import KNOWN, LONGEST_HELD, Redactor, Stream, exactly
from standfast.secret_shapes import LONGEST_HEADER

EXACT = "no-known-shape\n-1234567890"
REDACTOR = Redactor(
    exactly("ODD_API_KEY", EXACT),
    exactly("OTHER_KEY", "abcabcabcabd"),
    Secret("vault", r"hvs\.\w{8,20}", ("hvs.",)),
    key=b"k",
)
SECRETS = [secret for _, secret in SHAPES.values()] + [EXACT, "abcabcabcabd", "hvs.abcdefghijkl"]
WORDS = [
    *[text for text, _ in SHAPES.values()],
    *[begin for shape in KNOWN for begin in shape.begins],
    *SECRETS,
    *("-----END RSA PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----", "-----", "PRIVATE KEY", ".", ".eyJ"),
    *(" ", "\n", "\t"),
    *("@", ":", "/", "-", "_", "a", "A", "0", "abc", "hvs.", "[redacted:jwt:", "[redacted:url_password:12345678]", "]"),
    *("é", "\U0001f600", "\udce9", "x" * 40, "eyJ" + "a" * 30, '"', "<"),
]
pieces_of_words = st.lists(
    st.one_of(st.sampled_from(WORDS), st.text(max_size=5), st.sampled_from(WORDS).map(lambda word: word[:-1])),
    max_size=12,
)


def in_pieces(redactor: Redactor, pieces: list[str]) -> list[str]:
    stream = Stream(redactor)
    return [*[stream.feed(piece) for piece in pieces], stream.finish()]


def cut(text: str, places: list[int]) -> list[str]:
    at = sorted({place % (len(text) + 1) for place in places})
    return [text[first:last] for first, last in zip([0, *at], [*at, len(text)], strict=True)]


@pytest.mark.soak
@settings(max_examples=trials(150, 600, 600), deadline=None)
@given(words=pieces_of_words, places=st.lists(st.integers(0, 10_000), max_size=12))
def test_wherever_it_is_cut(words: list[str], places: list[int]) -> None:
    text = "".join(words)
    whole = REDACTOR.text(text)
    assert "".join(in_pieces(REDACTOR, cut(text, places))) == whole
    assert "".join(in_pieces(REDACTOR, list(text))) == whole


@pytest.mark.soak
@settings(max_examples=trials(100, 400, 400), deadline=None)
@given(words=pieces_of_words)
def test_what_is_without_secrets_stays_as_it_is(words: list[str]) -> None:
    """Between words: of two secrets without anything between them the second need not be seen at first."""
    once = REDACTOR.text(" ".join(words))
    assert REDACTOR.text(once) == once


@pytest.mark.soak
@settings(max_examples=trials(100, 400, 400), deadline=None)
@given(
    before=pieces_of_words,
    secret=st.sampled_from(SECRETS),
    after=pieces_of_words,
    places=st.lists(st.integers(0, 10_000)),
)
def test_nothing_of_a_secret_is_let_out_before_it_is_known(
    before: list[str], secret: str, after: list[str], places: list[int]
) -> None:
    """What has been said at any time is what of the whole would have been said so far: a beginning of it."""
    text = "".join([*before, f" {secret} ", *after])
    whole, said = REDACTOR.text(text), ""
    for piece in in_pieces(REDACTOR, cut(text, places)):
        said += piece
        assert whole.startswith(said)


@pytest.mark.soak
@settings(max_examples=trials(100, 300, 300), deadline=None)
@given(words=pieces_of_words, places=st.lists(st.integers(0, 10_000), max_size=6), at=st.integers(0, 10_000))
def test_a_place_is_found_again(words: list[str], places: list[int], at: int) -> None:
    """A character that was not replaced stands where its place says."""
    text = "".join(words)
    stream = Stream(REDACTOR)
    told = "".join([stream.feed(piece) for piece in cut(text, places)]) + stream.finish()
    as_one = Stream(REDACTOR)
    as_one.feed(text)
    as_one.finish()
    at %= len(text) + 1
    assert stream.places.place(at) == as_one.places.place(at)
    assert stream.places.place(len(text), is_end=True) == len(told)


@pytest.mark.parametrize("size", [1000, 7919, LONGEST_HELD, LONGEST_HELD + 1])
@pytest.mark.parametrize(
    "text",
    [
        "a sk-" + "b" * (3 * LONGEST_HELD) + " end",
        "a sk-" + "b" * (LONGEST_HELD - 3) + " end",
        "a sk-" + "b" * (LONGEST_HELD - 2) + " end",
        "Bearer " + "b" * (2 * LONGEST_HELD + 5) + "\nend",
        "-----BEGIN PRIVATE KEY-----\n" + "b" * (3 * LONGEST_HELD),
        *[
            "-----BEGIN PRIVATE KEY-----\n" + "b" * (LONGEST_HELD + more) + "\n-----END PRIVATE KEY-----\nend"
            for more in range(-90, 30, 5)
        ],
        f"eyJ{'b' * 9}.eyJ{'b' * 9}.{'b' * (2 * LONGEST_HELD)} end",
        f"eyJ{'b' * 9}.eyJ{'b' * LONGEST_HELD}.{'b' * 43} end",
        f"eyJ{'b' * 9}.eyJ{'b' * (3 * LONGEST_HELD)}.{'b' * (2 * LONGEST_HELD)} end",
        f"a postgres://user:{'b' * LONGEST_HELD}@host/db end",
        f"a postgres://user:{'b' * (3 * LONGEST_HELD)}@host/db end",
    ],
    ids=lambda text: f"{text[:12]!r}{len(text)}",
)
def test_a_secret_that_is_too_long_for_one_is_replaced_piece_by_piece(text: str, size: int) -> None:
    """Nothing of it is let out, and no more of it is held back than of any other."""
    whole = REDACTOR.text(text)
    assert "bbb" not in whole and ("end" in text) == whole.endswith("end")
    assert len(whole) < 500
    stream = Stream(REDACTOR)
    said: list[str] = []
    for at in range(0, len(text), size):
        said.append(stream.feed(text[at : at + size]))
        assert len(stream.held) <= LONGEST_HELD + size
    assert "".join([*said, stream.finish()]) == whole


@pytest.mark.parametrize(
    ("begin", "first", "rest"),
    [("eyJ", "a", f".eyJ{'Z' * 40}.{'Z' * 43}"), ("://", "a", f":{'Z' * 40}@host"), ("Bearer", " ", "Z" * 40)],
    ids=["jwt", "url_password", "bearer"],
)
def test_after_a_first_part_of_any_length_the_secret_is_found(begin: str, first: str, rest: str) -> None:
    """What comes before it (a header, the name of a user) is no secret: it is let out once it is too long to hold."""
    near = range(LONGEST_HELD - 60, LONGEST_HELD + 4)
    for size in (*near, 2 * LONGEST_HELD, 3 * LONGEST_HELD + 1):
        text = f"at {begin}{first * size}{rest} end"
        whole = REDACTOR.text(text)
        assert "ZZ" not in whole and whole.endswith(" end"), size
        for pieces in (cut(text, list(range(0, len(text), 777))), cut(text, [len(text) - at for at in range(150)])):
            assert "".join(in_pieces(REDACTOR, pieces)) == whole, size


def test_a_word_that_is_too_long_for_the_first_part_of_a_token_holds_none() -> None:
    """So much is held back, then all of it is let out; what comes after the word is looked at again."""
    _, token = SHAPES["jwt"]
    text = "-eyJ" * LONGEST_HELD + f" {token}"
    for pieces in ([text], cut(text, list(range(0, len(text), 777)))):
        said = "".join(in_pieces(REDACTOR, pieces))
        assert said.startswith("-eyJ" * LONGEST_HELD) and token not in said and "[redacted:" in said


@pytest.mark.soak
@settings(max_examples=trials(100, 200, 200), deadline=None)
@given(
    words=st.lists(
        st.sampled_from(["zz-", "a" * 90, "b" * 9, "!", " ", "z", "\n", "zz-" + "c" * 40 + "!"]), max_size=30
    ),
    places=st.lists(st.integers(0, 10_000), max_size=12),
)
@pytest.mark.parametrize("goes_on", [r"[^\s\"'<>]*", r"\S*"])
def test_patterns_of_users_find_the_same_wherever_it_is_cut(goes_on: str, words: list[str], places: list[int]) -> None:
    """Also where what is held back is not looked at again with each piece."""
    redactor = Redactor(Secret("mine", r"zz-\w{20,}!", ("zz-",), goes_on), known=(), key=b"k")
    text = "".join(words)
    whole = redactor.text(text)
    assert "".join(in_pieces(redactor, cut(text, places))) == whole
    assert "".join(in_pieces(redactor, list(text))) == whole


def test_the_first_line_of_a_key_is_so_long_and_no_longer() -> None:
    for more, is_one in ((0, True), (1, False)):
        text = f"-----BEGIN {'A' * (LONGEST_HEADER + more)}PRIVATE KEY-----\nbbb"
        assert ("bbb" not in REDACTOR.text(text)) == is_one
        assert "".join(in_pieces(REDACTOR, list(text))) == REDACTOR.text(text)


def test_secrets_that_overlap_are_replaced_as_one() -> None:
    """Whichever begins first, nothing is left of the other."""
    redactor = Redactor(exactly("ODD", "abc-eyJhead"), key=b"k")
    token = "eyJheader-0123.eyJpayload-0123.signature-0123"
    clean = redactor.text(f"it is abc-{token}, you see")
    assert clean == f"it is [redacted:jwt:{redactor.hash_of(f'abc-{token}')}], you see"
