"""No text takes redaction long, whatever it was made of: neither whole nor in pieces (R32, R34)."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator

import pytest
from tests.evidence.test_redaction import SHAPES
from tests.trials import trials

from standfast import Misuse, Redactor, Secret
from standfast.redaction import KNOWN, LONGEST_HELD, Stream, exactly
from standfast.short_or_long import may_be_both

OWN = Redactor(
    Secret("slow", r"(?:a+)+x", ("aa",)), r"(?:b+)+c(\d+)+!", exactly("MY_TOKEN", "abcabcabcabd"), known=(), key=b"k"
)
ALL = Redactor(exactly("MY_TOKEN", "abcabcabcabd"), key=b"k")


def units() -> Iterator[str]:
    """Beginnings of secrets, each with whatever may come before and after it; and secrets that are not quite some."""
    for shape in KNOWN:
        for begin in shape.begins:
            yield from (begin, f"-{begin}", f"{begin} ", f" {begin}", f"{begin}\n", f"{begin}.", f"{begin}:")
    for text, secret in SHAPES.values():
        yield from (text, f"{text} ", secret[:-1], f"{secret[: len(secret) // 2]} ", f"-{secret[:12]}", f"{secret}.")
    yield from ("-----BEGIN A", "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY", "-----END ", "-----BEGIN  ")
    yield from ("eyJaaaaaaaa.", "eyJaaaaaaaa.eyJ", "eyJaaaaaaaa.eyJaaaaaaaa.", "-eyJ", "://a:", "://a:aaa", "://:", ":")
    yield from ("bearer ", "bearer\t\n", "[redacted:", "[redacted:jwt:", "a", "aa", "abcabcabcab", "b", "bc1")


HEADS = ["", "eyJ", "://a:"]
UNITS = list(dict.fromkeys(units()))[:: trials(4, 1, 1)]


def seconds(work: Callable[[], object], tries: int = 2) -> float:
    """Of this thread alone: what else the machine does is not counted. The best of so many."""
    best = float("inf")
    for _ in range(tries):
        began = time.thread_time()
        work()
        best = min(best, time.thread_time() - began)
    return best


def is_linear(work: Callable[[int], Callable[[], object]], n: int) -> bool:
    """Twice as much takes less than three times as long; asked again before it is held against it.

    How long twice as much takes is asked once: the better of two could only be less.
    """
    gc.disable()
    try:
        for _ in range(5):
            once, twice = seconds(work(n)), seconds(work(2 * n), tries=1)
            if twice < 3 * once or twice < 0.0005:
                return True
        return False
    finally:
        gc.enable()


def slow_ones(of: Callable[[str], Callable[[], object]], n: int, heads: list[str]) -> list[tuple[str, str]]:
    return [
        (head, unit)
        for head in heads
        for unit in UNITS
        if not is_linear(lambda size: of(head + unit * (size // len(unit))), n)  # noqa: B023 - used at once
    ]


@pytest.mark.soak
@pytest.mark.parametrize("head", HEADS)
def test_twice_the_text_takes_twice_the_time(head: str) -> None:
    for redactor in (ALL, OWN):
        assert slow_ones(lambda text: lambda: redactor.text(text), 8_000, [head]) == []  # noqa: B023


@pytest.mark.soak
@pytest.mark.parametrize("head", HEADS)
def test_the_look_at_what_is_written_takes_twice_the_time_too(head: str) -> None:
    for redactor in (ALL, OWN):
        assert slow_ones(lambda text: lambda: redactor.passes(text.encode()), 8_000, [head]) == []  # noqa: B023


def in_pieces(redactor: Redactor, text: str, size: int, before: int = 0) -> str:
    """So much of it at once, and the rest in pieces of this size."""
    stream = Stream(redactor)
    said = [stream.feed(text[:before])] if before else []
    said += [stream.feed(text[at : at + size]) for at in range(before, len(text), size)]
    return "".join(said) + stream.finish()


# Longer than what is held back at most; or first while it grows, and then at the place where no more is held back.
IN_PIECES: dict[int, list[tuple[int, int]]] = {  # by size of a piece: before, n
    1: trials([(0, 5_000), (LONGEST_HELD - 1_000, 1_000)], [(0, 17_000)], [(0, 17_000)]),
    7: trials([(0, 8_000), (LONGEST_HELD - 3_000, 3_000)], [(0, 20_000)], [(0, 20_000)]),
    100: [(0, 40_000)],
}


@pytest.mark.soak
@pytest.mark.parametrize("size", IN_PIECES)
@pytest.mark.parametrize(
    "unit",
    ["-eyJ", "eyJaaaaaaaa.", "sk-", "://a:a", "bearer ", "-----BEGIN ", "-----BEGIN PRIVATE KEY-----", "abcabcabcab"],
)
def test_in_pieces_only_what_is_new_is_looked_at(unit: str, size: int) -> None:
    for before, n in IN_PIECES[size]:
        assert is_linear(lambda n: lambda: in_pieces(ALL, repeated(unit, before + n), size, before), n)  # noqa: B023


def repeated(unit: str, length: int) -> str:
    return unit * (length // len(unit))


@pytest.mark.parametrize("unit", ["a", "aa ", "b", "bc1"])
def test_patterns_of_users_that_would_never_end_are_linear_in_pieces_too(unit: str) -> None:
    assert is_linear(lambda length: lambda: in_pieces(OWN, unit * (length // len(unit)), 100), 20_000)


SHORT_AFTER_A_LONG_TRY: list[tuple[str | Secret, str]] = [
    (r"pw(?:.*end)?", "pw"),
    (r"x(?:[^y]*y)?", "x "),
    (r"(?:pw[^!]*!|pw)", "pw "),
    (r"a[^z]*z|b", "ab"),
    (r"password=\S+?(?: .*!)?", "password=a "),
    (r"x(?:[^y]*y)*", "x"),
    (Secret("pin", r"pin \d(?:[^!]*!)?", begins=("pin ",)), "pin 1 "),
]


@pytest.mark.soak
@pytest.mark.parametrize(("pattern", "unit"), SHORT_AFTER_A_LONG_TRY, ids=str)
def test_a_match_that_is_short_after_a_long_try_is_not_tried_at_every_place(pattern: str | Secret, unit: str) -> None:
    """RE2 reads a text once for each match: many short ones, each of which might have been long, are bounded."""
    redactor = Redactor(pattern, known=(), key=b"k")
    assert is_linear(lambda n: lambda: redactor.text(repeated(unit, n)), trials(20_000, 40_000, 40_000))
    assert unit not in redactor.text(unit * 20_000)


def test_matches_of_nothing_are_bounded_too() -> None:
    redactor = Redactor(r"(?:x[^y]*y)?", known=(), key=b"k")
    assert is_linear(lambda n: lambda: redactor.text("x" * n), 40_000)


def test_past_the_bound_nothing_of_the_rest_is_let_out() -> None:
    """R32: what is no longer looked at match by match is replaced as one, with the long match that may be in it."""
    redactor = Redactor(r"pw(?:[^!]*secret!)?", known=(), key=b"k")
    text = "pw, " * 5_000
    assert redactor.text(text).count("[redacted:") > 1_000, "match by match at first"
    assert "secret" not in redactor.text(f"{text}pw and a long {'s' * 9_000} secret! end")
    assert "sss" not in redactor.text(f"{text}pw and a long {'s' * 9_000} secret! end")
    few = redactor.text(f"{'pw, ' * 500}pw{'s' * 9_000} secret! the end")
    assert "sss" not in few and few.endswith(" the end")


@pytest.mark.parametrize(
    "pattern", [r"patient \d+", r"(?i)patient\s*(\d+)", r"\bp[a-z]{3,}t \d{1,9}", r"(patient|client) (?P<n>\d+)"]
)
def test_ordinary_patterns_are_replaced_one_by_one_however_many_there_are(pattern: str) -> None:
    redactor = Redactor(pattern, known=(), key=b"k")
    clean = redactor.text("patient 4711 is well\n" * 10_000)
    assert clean.count("[redacted:own1:") == clean.count(" is well\n") == 10_000


@pytest.mark.parametrize(
    "pattern",
    [r"patient \d+", r"(?i)key=(\w+)", r"(?:\d+\.){3}\d+", r"x[^y]*y", r"[(|)*]+x", r"\(a|b", r"\[x]*", r"(?P<n>a+)b"],
)
def test_a_pattern_without_choices_about_what_has_no_end_is_not_bounded(pattern: str) -> None:
    assert not may_be_both(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        *[one for one, _ in SHORT_AFTER_A_LONG_TRY if isinstance(one, str)],
        r"(?:a+,){2,}",
        r"(?:(a*)b)?",
        r"\Qa*\E",
        "a{2,}|b",
    ],
)
def test_a_pattern_whose_match_may_be_short_or_long_is_bounded(pattern: str) -> None:
    assert may_be_both(pattern)


@pytest.mark.parametrize("unit", ["a", "zz-a", "zz- ", "zz-a b"])
@pytest.mark.parametrize(
    "secret",
    [
        Secret("mine", r"zz-\w{30}!", ("zz-",)),
        Secret("mine", r"zz-[\s\S]*!", ("zz-",)),
        Secret("mine", r"zz-[\s\S]*", ("zz-",), goes_on=r"[\s\S]*"),
    ],
    ids=lambda secret: secret.pattern + secret.goes_on,
)
def test_in_pieces_patterns_of_users_are_looked_at_again_seldom(secret: Secret, unit: str) -> None:
    """Single characters after a beginning, of which so many are held back that all could be read again each time."""
    redactor = Redactor(secret, known=(), key=b"k")
    assert is_linear(lambda n: lambda: in_pieces(redactor, "zz-" + unit * (n // len(unit)), 1), 7_000)


def test_the_message_that_blocked_every_stop_is_redacted_at_once() -> None:
    """200,000 characters took half a minute, in pieces of 8,000 already one; the limit is generous."""
    text = "-eyJ" * 50_000
    assert seconds(lambda: ALL.text(text)) < 2
    assert seconds(lambda: ALL.passes(text.encode())) < 2
    assert seconds(lambda: in_pieces(ALL, text[:8_000], 1)) < 2


@pytest.mark.parametrize(
    ("pattern", "hint"),
    [
        (r"(?<=key=)\w+", "no look-around"),
        (r"(a+)\1", "references back"),
        (r"end\Z", r"\z"),
        (r"[z", "regular expression of RE2"),
    ],
)
def test_a_pattern_that_the_engine_cannot_take_is_explained(pattern: str, hint: str) -> None:
    with pytest.raises(Misuse, match="cannot be read") as refused:
        Redactor(pattern)
    assert hint in refused.value.hint


def test_without_the_engine_patterns_are_refused_and_exact_texts_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "re2", None)
    assert "ACME-4711" not in Redactor("ACME-4711").text("it is ACME-4711.")
    with pytest.raises(Misuse, match="RE2") as refused:
        Redactor(r"ACME-\d+")
    assert "standfast[redact]" in refused.value.hint
