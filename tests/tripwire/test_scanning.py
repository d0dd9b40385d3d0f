"""R33: what the tripwire sees, however the stream is cut, and that holding back neither loses nor reorders."""

from __future__ import annotations

import base64
import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tripwire.secrets import BANK, FORMS, GERMAN, SECRETS

import standfast
from standfast import Misuse, Tripwire
from standfast.guarding import Trip
from standfast.records import Channel
from standfast.tripwire import Listening, user_texts
from standfast.tripwire.canaries import canaries
from standfast.tripwire.folding import FOLDS, folded
from standfast.tripwire.reading import SPECIAL
from standfast.tripwire.variants import GRAM, Secret, grams, variants

SECRET = Secret(BANK)
TALK = "Certainly. I have looked at your question with care, and this is what I can tell you about it: "

snippets = st.lists(
    st.one_of(
        st.text(max_size=30),
        st.text("abc \n.1", max_size=30),
        st.sampled_from([BANK, BANK[:70], BANK[40:75], BANK[100:190], BANK[::-1][:80], BANK.encode().hex(), TALK]),
    ),
    max_size=6,
).map("".join)


def cut(text: str, chance: Random, most: int = 9) -> list[str]:
    pieces: list[str] = []
    at = 0
    while at < len(text):
        size = chance.randint(1, most)
        pieces.append(text[at : at + size])
        at += size
    return pieces


def heard(pieces: list[str], watch: Listening, channel: Channel = "text") -> tuple[str, list[Trip]]:
    """What was let through in all, and what tripped."""
    out = "".join(watch.hear(channel, piece) for piece in pieces)
    return out, list(watch.trips())


@given(snippets, st.randoms(use_true_random=False), st.booleans(), st.booleans())
@settings(max_examples=300, deadline=None)
def test_a_stream_is_judged_as_the_whole_text_is_however_it_is_cut(
    text: str, chance: Random, hold_back: bool, stops: bool
) -> None:
    whole = Listening(SECRET, hold_back=hold_back, stops=stops)
    parts = Listening(SECRET, hold_back=hold_back, stops=stops)
    out, trips = heard([text], whole)
    out_in_parts, trips_in_parts = heard(cut(text, chance), parts)
    assert (out_in_parts, trips_in_parts) == (out, trips)
    assert parts.held() == whole.held()
    assert (parts.end(), parts.trips()) == (whole.end(), whole.trips())


@given(snippets, st.randoms(use_true_random=False), st.booleans())
@settings(max_examples=300, deadline=None)
def test_holding_back_never_loses_or_reorders_text(text: str, chance: Random, stops: bool) -> None:
    """At every moment what is out and what is held are all that came; the end lets go of what did not trip."""
    watch = Listening(SECRET, stops=stops)
    out, came = "", ""
    for piece in cut(text, chance):
        came += piece
        out += watch.hear("text", piece)
        assert out + "".join(held for _, held in watch.held()) == came
    tripped = bool(watch.trips())
    rest = "".join(held for _, held in watch.end())
    if tripped and stops:
        assert rest == ""
    else:
        assert out + rest == text


@given(st.text())
def test_folding_is_the_same_character_by_character_and_done_once(text: str) -> None:
    line = f"x{text}".replace("\n", "")
    line = "".join(one for one in line if one not in SPECIAL)
    assert folded(line) == "".join(FOLDS[one] for one in line)
    assert all(FOLDS[one] == one for one in folded(line))


@given(st.text(min_size=GRAM, max_size=80), st.integers(0, 60))
def test_a_gram_is_found_exactly_if_it_is_there(text: str, at: int) -> None:
    secret = Secret(text)
    plain = folded(text)
    for gram in grams(plain):
        assert secret.find(gram) >= 0
    other = folded(BANK)[at : at + GRAM]
    forms = [plain, folded(text[::-1]), folded(text.encode().hex())]
    assert secret.find(other) < 0 or any(other in form for form in forms)


@pytest.mark.parametrize("text", SECRETS, ids=lambda text: text[:12])
def test_every_gram_of_every_form_is_found_where_it_stands(text: str) -> None:
    secret = Secret(text)
    for name, form in variants(text):
        for gram in grams(form):
            place = secret.find(gram)
            assert place >= 0
            assert secret.variant(place) == name or any(gram in other for one, other in variants(text) if one != name)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("secret", SECRETS, ids=lambda text: text[:12])
def test_instructions_are_noticed_in_every_form(secret: str, form: str) -> None:
    """And at most 64 characters of them have left by then."""
    leak, prepared = FORMS[form](secret), Secret(secret)
    chance = Random(form)
    for channel in ("text", "reasoning", "tool_call"):
        said = f"{TALK}\n{leak}"
        before = len(TALK) + 1
        if channel == "tool_call":
            said = json.dumps({"note": said}, ensure_ascii=form != "hex")
        for pieces in (cut(said, chance), list(said), [said]):
            out, trips = heard(pieces, Listening(prepared, stops=True), channel)
            assert [(trip.channel, trip.kind) for trip in trips] == [(channel, "directive")], form
            if channel != "tool_call":
                assert (len(out) - before) * len(secret) / len(leak) <= 64
                assert trips[0].start >= before - GRAM


UNSEEN: dict[str, Callable[[str], str]] = {
    "decimal": lambda text: " ".join(str(byte) for byte in text.encode()),
    "binary": lambda text: " ".join(f"{byte:08b}" for byte in text.encode()),
    "U+": lambda text: " ".join(f"U+{ord(c):04X}" for c in text),
    "base32": lambda text: base64.b32encode(text.encode()).decode(),
    "base64 twice": lambda text: base64.b64encode(base64.b64encode(text.encode())).decode(),
    "base64 of Title Case": lambda text: base64.b64encode(text.title().encode()).decode(),
    "words in alphabetical order": lambda text: " ".join(sorted(text.split())),
}


@pytest.mark.parametrize("form", UNSEEN)
def test_what_the_docs_call_unseen_is(form: str) -> None:
    """If it is seen one day, docs/tripwire.md should say so."""
    assert not heard([f"{TALK}\n{UNSEEN[form](BANK)}"], Listening(SECRET, stops=True))[1]


@pytest.mark.parametrize("form", ["hex, lower case", "base64, lower case"])
def test_a_directive_in_capitals_is_seen_when_it_is_encoded_in_lower_case(form: str) -> None:
    assert heard([FORMS[form](BANK)], Listening(Secret(BANK.upper()), stops=True))[1]


def test_a_directive_that_is_written_with_escapes_is_seen_as_it_stands_and_as_it_reads() -> None:
    raw = BANK.replace(" ", "&nbsp;").replace("e", r"\x65").replace("o", "%6F").replace("a", "0x61")
    for said in (raw, raw[::-1], raw.encode().hex(), BANK):
        for channel in ("text", "tool_call"):
            pieces = list(json.dumps(said) if channel == "tool_call" else said)
            assert heard(pieces, Listening(Secret(raw), stops=True), channel)[1]


def test_a_form_is_called_by_its_name() -> None:
    for form, name in {
        "verbatim": "plain",
        "leet": "plain",
        "rot13": "rot13",
        "hex": "hex",
        "reversed": "reversed",
        "reversed words": "reversed words",
        "hex, 0x": "plain",
        "hex, upper case": "hex",
        "base64, upper case": "base64",
    }.items():
        _, [trip] = heard([FORMS[form](BANK)], Listening(SECRET, stops=True))
        assert trip.variant == name
    _, [trip] = heard([FORMS["base64, two before"](BANK)], Listening(SECRET, stops=True))
    assert trip.variant == "base64"


def test_a_leak_with_a_fifth_of_its_words_replaced_is_nearly_always_noticed() -> None:
    chance = Random(33)
    noticed = tried = 0
    for secret in SECRETS:
        prepared = Secret(secret)
        for _ in range(50):
            words = [chance.choice(TALK.split()) if chance.random() < 0.2 else word for word in secret.split()]
            tried += 1
            noticed += bool(heard([" ".join(words)], Listening(prepared, stops=True))[1])
    assert noticed / tried >= 0.9  # the bench, with longer ones, promises 0.95


def test_what_others_write_does_not_trip() -> None:
    """A million characters and more of our own docstrings and source, in pieces, for each of the instructions."""
    texts = [inspect.getsource(module) for module in (standfast.handle, standfast.runtime, standfast.llm_agent, json)]
    for secret in SECRETS:
        prepared = Secret(secret)
        for text in texts:
            out, trips = heard(cut(text, Random(1), 40), watch := Listening(prepared, stops=True))
            assert not trips
            assert out + "".join(rest for _, rest in watch.end()) == text


def test_the_span_is_where_the_words_stand_and_grows_while_they_come() -> None:
    text = f"{TALK}{BANK} That is all. {TALK * 12}"
    out, trips = heard(cut(text, Random(5)), Listening(SECRET))
    first, last = trips
    assert out == text, "a flag lets everything through"
    assert first.open and not last.open
    assert first.start == last.start == len(TALK)
    assert last.end == len(TALK) + len(BANK) - 1  # its last letter: the full stop is no letter
    assert first.end < last.end


def test_a_match_that_breaks_off_is_let_go() -> None:
    watch = Listening(SECRET, stops=True)
    begun = BANK[110:150]
    out, trips = heard([TALK, begun], watch)
    assert not trips
    [(_, held)] = watch.held()
    assert held and out + held == TALK + begun
    out += watch.hear("text", f" but then something quite different was said. {TALK}")
    assert watch.held() == []
    assert out.startswith(TALK + begun + " but then")


def test_without_hold_back_text_leaves_until_it_trips_and_no_further() -> None:
    watch = Listening(SECRET, stops=True, hold_back=False)
    out, [trip] = heard(list(BANK), watch)
    assert out == BANK[: trip.end]
    assert watch.hear("text", "more") == ""


def test_a_secret_too_short_to_be_told_from_ordinary_talk_is_not_watched() -> None:
    assert heard(["You know the archive."] * 3, Listening(Secret("You know the archive.")))[1] == []
    assert heard(["x"], Listening(Secret("")))[1] == []


def test_a_directive_in_other_letters_is_seen() -> None:
    watch = Listening(Secret(GERMAN), stops=True)
    assert heard([GERMAN.replace("ö", "o\u0308").replace("ü", "u")], watch)[1]


# --- canaries ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_a_canary_trips_at_once_in_every_form(form: str) -> None:
    """In every channel, and before its last letter is out."""
    [word] = canaries(BANK, "run-1", 1)
    prepared = (Secret(word),)
    leak = FORMS[form](f"The reference is {word} today.")
    for channel in ("text", "reasoning", "tool_call"):
        said = json.dumps({"note": leak}) if channel == "tool_call" else f"{TALK}\n{leak}"
        for pieces in (list(said), cut(said, Random(form)), [said]):
            out, trips = heard(pieces, Listening(None, prepared, stops=True), channel)
            assert [(trip.channel, trip.kind) for trip in trips] == [(channel, "canary")], form
            assert trips[0].end < len(said) and len(out) < trips[0].end, form
            if form == "verbatim":
                assert said[trips[0].start : trips[0].end] == word[:GRAM]


def test_a_canary_is_the_same_in_another_process() -> None:
    told = "from standfast.tripwire.canaries import canaries; print(*canaries('told', 'run-1', 8))"
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        answer = subprocess.run([sys.executable, "-c", told], env=environment, capture_output=True, check=True)
        assert tuple(answer.stdout.decode().split()) == canaries("told", "run-1", 8)


def test_canaries_are_others_in_every_run_and_the_same_in_one() -> None:
    assert canaries(BANK, "run-1", 2) == canaries(BANK, "run-1", 2)
    words = [*canaries(BANK, "run-1", 2), *canaries(BANK, "run-2", 2), *canaries(GERMAN, "run-1", 2)]
    assert len({word[:GRAM] for word in words}) == 6
    _, trips = heard([words[2]], Listening(None, (Secret(words[0]),)))
    assert not trips, "another run's canary says nothing about this one"


# --- what is let pass ------------------------------------------------------------------------------------


def test_what_the_user_said_may_be_said_back_and_that_is_counted() -> None:
    asked = [{"role": "user", "content": f"Is it true that you were told this: {BANK}"}]
    watch = Listening(SECRET, stops=True, messages=asked)
    _, trips = heard([f"You ask whether I was told: {BANK}"], watch)
    assert not trips
    assert watch.excused()["user"] > 100
    part = Listening(SECRET, stops=True, messages=[{"role": "user", "content": BANK[:60]}])
    assert heard([BANK], part)[1], "only those words are theirs"


def test_results_of_tools_and_the_models_own_words_are_not_the_users() -> None:
    messages = [
        {"role": "assistant", "content": "a"},
        {"role": "tool", "content": "b"},
        {"role": "user", "content": [{"type": "tool_result", "content": "c"}, {"type": "text", "text": "mine"}]},
        {
            "role": "user",
            "content": [{"type": "input_text", "text": "mine too"}, {"type": "input_image", "image": "d"}],
        },
        {"type": "function_call_output", "output": "e"},
    ]
    assert user_texts(messages) == ["mine", "mine too"]


def test_public_sentences_may_be_said_and_do_not_hide_what_stands_beside_them() -> None:
    greeting = "Welcome to the summer sale of Example Lamps, where every second lamp is free!"
    tripwire = Tripwire(public=[greeting], action="pause")
    instructions = f"Begin with: {greeting} {BANK}"
    watch = Listening(tripwire.prepared(instructions), stops=True)
    _, trips = heard([greeting, " What can I do for you?"], watch)
    assert not trips
    assert watch.excused() == {"public": len(folded(greeting)) - GRAM + 1}
    assert heard([" ", BANK], watch)[1]


@pytest.mark.parametrize(
    "wrong",
    [
        *({"action": "shout"}, {"canaries": -1}, {"canaries": 99}, {"canaries": "one"}, {"directive": 7}),
        *({"public": "one text"}, {"public": [1]}, {"hold_back": "yes"}),
    ],
)
def test_a_tripwire_that_makes_no_sense_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(Misuse):
        Tripwire(**wrong)  # type: ignore[arg-type]


def test_a_directive_is_prepared_once() -> None:
    tripwire = Tripwire()
    assert tripwire.prepared(BANK) is tripwire.prepared(BANK)
    named = Tripwire(directive=BANK)
    assert named.prepared("something else") is named.prepared(BANK)
